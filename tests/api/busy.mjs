// SPDX-License-Identifier: Apache-2.0
// A server with one place for queries and one to wait in: who comes beyond that is told so, uploads go on, and a query whose client has gone ends.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import http2 from 'node:http2';
import net from 'node:net';
import { startServer, request, pprofProfile, temporaryDirectory, test, finish } from '../harness.mjs';

const directory = temporaryDirectory(),
	config = `${directory}/wick.yaml`;
writeFileSync(config, 'queries: {concurrent: 1, queued: 1}\n');
const server = await startServer(`${directory}/data`, ['--config', config]);
const get = (path) => request(server.port, 'GET', path);
const status = async () => JSON.parse((await get('/api/v1/status')).body).queries;
const lines = [];
for (let i = 0; i < 150000; i++) lines.push(`main;service${i % 17};handle${i % 331};step${i % 7919};work${i} ${(i % 100) + 1}`);
const stored = await request(server.port, 'POST', '/api/v1/ingest?name=process_cpu', { body: Buffer.from(lines.join('\n') + '\n') });
assert.equal(stored.status, 200, stored.body.toString());
const slow = '/api/v1/query?query=process_cpu&format=json&limit=1&from=now-1h&to=now%2B1h';

await test('more than run and wait are turned away, and told when to come again', async () => {
	// Where this process is held up between two requests, the queries before may have ended: again, until some met.
	let total = 0;
	for (let round = 0; round < 50 && total === 0; round++) {
		const responses = await Promise.all(Array.from({ length: 8 }, () => get(slow)));
		const statuses = responses.map((a) => a.status);
		assert.ok(statuses.filter((s) => s === 200).length >= 2, statuses.join());
		const away = responses.filter((a) => a.status === 503);
		total += away.length;
		assert.ok(away.every((a) => Number(a.headers['retry-after']) >= 1 && /busy/.test(JSON.parse(a.body).error)));
		assert.equal(statuses.filter((s) => s !== 200 && s !== 503).length, 0);
	}
	assert.ok(total >= 1);
	assert.equal((await status()).turned_away, total);
});
await test('uploads and the status do not wait for queries', async () => {
	// An upload may take longer than the two queries, where the disk is slow; but not time and again.
	let now = 0;
	for (let i = 0; i < 50 && now === 0; i++) {
		const running = Promise.all([get(slow), get(slow)]);
		const response = await request(server.port, 'POST', '/api/v1/ingest?name=quick', { body: pprofProfile([[['a'], 1]]) });
		now = (await status()).running;
		assert.equal(response.status, 200);
		await running;
	}
	assert.ok(now >= 1, `${now} running`);
});
// The limit is only for a test that has failed.
const until = async (condition) => {
	for (let i = 0; i < 12000; i++) {
		if (await condition()) return true;
		await new Promise((r) => setTimeout(r, 10));
	}
	return false;
};
// Some of the queries that are broken off have ended before: there are more of them until one has not.
const ATTEMPTS = 200;
const hasBegun = (before) =>
	until(async () => {
		const now = await status();
		return now.running > 0 || now.answered > before;
	});
await test('a query ends when its client closes the connection', async () => {
	const before = (await status()).cancelled;
	for (let i = 0; i < ATTEMPTS && (await status()).cancelled === before; i++) {
		const { answered } = await status();
		const socket = net.connect(server.port, '127.0.0.1');
		socket.on('error', () => {});
		socket.write(`GET ${slow} HTTP/1.1\r\nHost: localhost\r\n\r\n`);
		assert.ok(await hasBegun(answered));
		socket.destroy();
		assert.ok(await until(async () => (await status()).running === 0));
	}
	assert.ok((await status()).cancelled > before);
	assert.equal((await get(slow)).status, 200);
});
await test('a query ends when its HTTP/2 stream is reset', async () => {
	const before = (await status()).cancelled,
		client = http2.connect(server.url);
	for (let i = 0; i < ATTEMPTS && (await status()).cancelled === before; i++) {
		const { answered } = await status();
		const stream = client.request({ ':path': slow });
		stream.on('error', () => {});
		assert.ok(await hasBegun(answered));
		stream.close(http2.constants.NGHTTP2_CANCEL);
		assert.ok(await until(async () => (await status()).running === 0));
	}
	client.destroy();
	assert.ok((await status()).cancelled > before);
});
await test('the deadline of a large query gives a part of it, or 504 when not even that was put together', async () => {
	// Longer and longer, for how long it takes only this machine knows; and again, for it may have been held up at the one that would do.
	const deadlines = [1],
		seen = new Set();
	for (let us = 1000; us < 60e6; us *= 1.2) deadlines.push(Math.round(us));
	for (let round = 0; round < 10 && !seen.has('partial'); round++) {
		for (const us of deadlines) {
			const response = await get(`${slow}&timeout=${us}us`);
			assert.ok([200, 504].includes(response.status), `${response.status} ${response.body}`);
			const body = JSON.parse(response.body);
			assert.ok(response.status === 200 || /deadline/.test(body.error));
			const outcome = response.status === 504 ? 'late' : body.partial ? 'partial' : 'whole';
			seen.add(outcome);
			if (outcome === 'whole') break;
		}
	}
	assert.ok(seen.has('partial') && seen.has('whole'), [...seen].join());
});
assert.equal(await server.stop(), 0);
finish();
