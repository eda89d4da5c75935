// SPDX-License-Identifier: Apache-2.0
// A server with few file descriptors, many clients and many blocks: it closes who is idle, answers everybody else, and loses nothing.
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import net from 'node:net';
import { startServer, request, pprofProfile, temporaryDirectory, test, finish } from '../harness.mjs';

const directory = temporaryDirectory();
const data = `${directory}/data`;
// soft: what it begins with; hard: what it may raise that to.
const startLimited = (soft, hard) => startServer(data, [], `ulimit -S -n ${soft} && ulimit -H -n ${hard}`);
const MINUTE_NS = 60n * 1000000000n;
let server,
	stored = 0,
	serial = 0;
const post = async (value, hoursAgo = 0) => {
	const body = pprofProfile([[['leaf', `f${serial}`, 'main'], value, { host: `h${serial % 7}` }]], {
		timeNs: BigInt(Date.now()) * 1000000n - BigInt(Math.round(hoursAgo * 60)) * MINUTE_NS + BigInt(serial++),
	});
	const response = await request(server.port, 'POST', '/api/v1/ingest?name=process_cpu', { body });
	assert.equal(response.status, 200, response.body.toString());
	stored += value;
};
async function total() {
	const response = await request(server.port, 'GET', '/api/v1/query?query=process_cpu&from=now-30d&to=now%2B1h');
	assert.equal(response.status, 200, response.body.toString());
	const answer = JSON.parse(response.body);
	assert.equal(answer.partial, false);
	return answer.flame.total;
}
async function metric(name) {
	const line = (await request(server.port, 'GET', '/metrics')).body
		.toString()
		.split('\n')
		.find((l) => l.startsWith(`${name} `));
	assert.ok(line, `${name} is in /metrics`);
	return Number(line.split(' ')[1]);
}
// Connections that say nothing, or one request and then nothing. Resolves when all are connected, or have been answered or closed.
async function idlers(count, text) {
	const all = [];
	for (let i = 0; i < count; i++)
		all.push(
			new Promise((resolve, reject) => {
				const asks = text?.endsWith('\r\n\r\n');
				const socket = net.connect(server.port, '127.0.0.1', () => asks || resolve(socket));
				socket.on('error', (error) => (error.code === 'ECONNRESET' || error.code === 'EPIPE' ? undefined : reject(error)));
				socket.on('data', () => resolve(socket));
				socket.on('close', () => resolve(socket));
				if (text) socket.write(text);
			}),
		);
	return Promise.all(all);
}
const warnings = () => server.log().match(/the limit of \d+ file descriptors/g) ?? [];

await test('the soft limit is raised to the hard one', async () => {
	server = await startLimited(64, 700);
	assert.equal(await metric('process_max_fds'), 700);
	const open = await metric('process_open_fds');
	assert.ok(open > 5 && open < 64, String(open));
	assert.deepEqual(warnings(), []); /* enough for now */
	await post(1);
	assert.equal(await server.stop('SIGTERM'), 0);
});

for (const limit of [64, 128]) {
	await test(`${limit} descriptors, and a crowd that is idle`, async () => {
		server = await startLimited(limit, limit);
		const cpuBefore = await metric('process_cpu_seconds_total');
		const crowds = [];
		for (const text of [undefined, 'GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n', 'GET /heal', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0']) {
			crowds.push(...(await idlers(150, text)));
			for (let i = 0; i < 5; i++) await post(10);
			assert.equal(await total(), stored);
		}
		assert.ok((await metric('process_open_fds')) < limit);
		assert.ok((await metric('wick_http_connections_evicted_total')) > 300);
		// Many at once, on connections of their own, beside those that are idle. Who is refused comes again.
		let busy = 0;
		const again = async () => {
			for (;;) {
				try {
					return await post(100);
				} catch (error) {
					if (++busy > 5000) throw error;
					await new Promise((resolve) => setTimeout(resolve, 20));
				}
			}
		};
		await Promise.all(Array.from({ length: 60 }, again));
		assert.equal(await total(), stored);
		crowds.forEach((socket) => socket.destroy());
		assert.equal(warnings().length, 1, server.log());
		assert.doesNotMatch(server.log(), /Too many open files/);
		assert.ok((await metric('process_cpu_seconds_total')) - cpuBefore < 30);
		// What was acknowledged is there after a crash.
		await server.stop('SIGKILL');
		server = await startLimited(limit, limit);
		assert.equal(await total(), stored);
		assert.equal(await server.stop('SIGTERM'), 0);
	});
}

await test('many blocks are read and merged within 64', async () => {
	for (let round = 0; round < 24; round++) {
		server = await startLimited(64, 64);
		for (let i = 0; i < 3; i++) await post(1000, 5 + round / 12);
		assert.equal(await server.stop('SIGTERM'), 0); /* cuts a block */
	}
	server = await startLimited(64, 64);
	const crowd = await idlers(200, 'GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n');
	const totals = await Promise.all(Array.from({ length: 6 }, total));
	assert.deepEqual(totals, Array(6).fill(stored));
	// The windows are over: blocks are merged, a few at a time.
	while ((await metric('wick_store_compactions_total')) < 3) {
		assert.equal(await metric('wick_store_compact_failures_total'), 0);
		assert.equal(await total(), stored);
		await new Promise((resolve) => setTimeout(resolve, 50));
	}
	crowd.forEach((socket) => socket.destroy());
	assert.equal(await total(), stored);
	assert.doesNotMatch(server.log(), /Too many open files/);
	assert.equal(warnings().length, 1, server.log());
	assert.equal(await server.stop('SIGTERM'), 0);
	assert.ok(!readdirSync(data).includes('quarantine') || readdirSync(`${data}/quarantine`).length === 0);
});
finish();
