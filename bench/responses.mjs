// SPDX-License-Identifier: Apache-2.0
// The figures of bench/responses.sh. Memory is that of the server's process, by /proc.
import { writeFileSync } from 'node:fs';
import http from 'node:http';
import http2 from 'node:http2';
import net from 'node:net';
import { differentStacks, forgetPeak, memoryOf, startServer, request, temporaryDirectory } from '../tests/harness.mjs';

const at = process.argv.indexOf('--stacks'),
	stacks = at > 0 ? Number(process.argv[at + 1]) : 205000,
	config = 'queries: {memory: 64G}\nlimits: {query_memory: 64G}\n',
	MIB = 1024 * 1024,
	DEPTH = 12,
	CHUNK = 50000,
	ROUNDS = 3,
	directory = temporaryDirectory();

async function start(name) {
	writeFileSync(`${directory}/${name}.yaml`, config);
	const server = await startServer(`${directory}/${name}`, ['--config', `${directory}/${name}.yaml`]);
	server.memory = (what) => memoryOf(server.child.pid, what) / MIB;
	server.forgetPeak = () => forgetPeak(server.child.pid);
	for (const [side, count] of [
		['a', stacks],
		['c', 100],
	])
		for (let i = 0; i < count; i += CHUNK) {
			const r = await request(server.port, 'POST', `/api/v1/ingest?format=folded&name=process_cpu&label=side%3D${side}`, {
				body: Buffer.from(differentStacks(1000 + i, Math.min(CHUNK, count - i), DEPTH).join('\n')),
			});
			if (r.status !== 200) throw new Error(`ingest: ${r.status} ${r.body}`);
		}
	return server;
}
const time = 'from=now-1h&to=now%2B1h',
	query = (format, side = 'a') => `/api/v1/query?query=process_cpu%7Bside%3D%22${side}%22%7D&${time}&max_nodes=0&limit=0&format=${format}`;
const wait = (ms) => new Promise((r) => setTimeout(r, ms));

// A request whose body is thrown away as it comes: ms to its first byte and to its last, its length.
const fetchAway = (port, path, headers) =>
	new Promise((resolve, reject) => {
		const begun = performance.now();
		http
			.get({ host: '127.0.0.1', port, path, agent: false, headers }, (response) => {
				let first,
					length = 0;
				response.on('data', (chunk) => {
					first ??= performance.now() - begun;
					length += chunk.length;
				});
				response.on('end', () => resolve({ status: response.statusCode, first, last: performance.now() - begun, length }));
				response.on('error', reject);
			})
			.on('error', reject);
	});

const server = await start('usual');
console.log(`${stacks} different stacks of ${DEPTH} frames; ${server.memory('VmRSS').toFixed(0)} MiB resident`);
for (const [name, path, headers] of [
	['folded', query('folded')],
	['folded, gzip', query('folded'), { 'accept-encoding': 'gzip' }],
	['flame graph, JSON, all nodes', query('flame')],
	['csv', query('csv')],
	['arrow', query('arrow')],
	['pprof', query('pprof')],
	['flame graph of 100 stacks', query('flame', 'c')],
	['healthz', '/healthz'],
]) {
	const best = { memory: Infinity, first: Infinity, last: Infinity };
	for (let i = 0; i < (path.length > 20 && !path.includes('%22c%22') ? ROUNDS : 200); i++) {
		server.forgetPeak();
		const resident = server.memory('VmRSS'),
			r = await fetchAway(server.port, path, headers);
		if (r.status !== 200) throw new Error(`${path}: ${r.status}`);
		best.memory = Math.min(best.memory, server.memory('VmHWM') - resident);
		best.first = Math.min(best.first, r.first);
		best.last = Math.min(best.last, r.last);
		best.length = r.length;
	}
	console.log(`${name.padEnd(30)} ${(best.length / MIB).toFixed(2)} MiB: ${best.memory.toFixed(0)} MiB, first byte ${best.first.toFixed(1)} ms, last ${best.last.toFixed(1)} ms`);
}
if (process.argv.includes('--no-unread')) {
	await server.stop();
	process.exit(0);
}
const made = await request(server.port, 'POST', `/api/v1/snapshots?query=process_cpu%7Bside%3D%22a%22%7D&${time}&max_nodes=1300000`);
if (made.status !== 201) throw new Error(`snapshot: ${made.status} ${made.body}`);
const kept = `/api/v1/snapshots/${JSON.parse(made.body).id}`,
	size = (await request(server.port, 'GET', kept)).body.length;
async function unread(name, begin) {
	await wait(1000);
	server.forgetPeak();
	const resident = server.memory('VmRSS'),
		end = begin();
	let longest = 0;
	for (let i = 0; i < 100; i++) {
		const begun = performance.now();
		await request(server.port, 'GET', '/healthz');
		longest = Math.max(longest, performance.now() - begun);
		await wait(100);
	}
	console.log(`${name}: ${(server.memory('VmHWM') - resident).toFixed(0)} MiB more than ${resident.toFixed(0)}, healthz meanwhile at most ${longest.toFixed(0)} ms`);
	end();
}
await unread(`100 streams of HTTP/2 without a window, of a snapshot of ${(size / MIB).toFixed(0)} MiB`, () => {
	const client = http2.connect(server.url, { settings: { initialWindowSize: 0 } });
	client.on('error', () => {});
	for (let i = 0; i < 100; i++) client.request({ ':path': kept }).on('error', () => {});
	return () => client.destroy();
});
for (const [name, path] of [
	['40 clients of HTTP/1.1 that read nothing of it', kept],
	['40 clients of HTTP/1.1 that read nothing of folded stacks', query('folded')],
])
	await unread(name, () => {
		const sockets = Array.from({ length: 40 }, () => {
			const socket = net.connect(server.port, '127.0.0.1', () => socket.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`));
			socket.on('error', () => {});
			socket.pause();
			return socket;
		});
		return () => sockets.forEach((socket) => socket.destroy());
	});
await server.stop();
process.exit(0);
