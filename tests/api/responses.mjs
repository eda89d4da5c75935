// SPDX-License-Identifier: Apache-2.0
// Long responses: the same whether they are sent as a whole or while they are made, over every protocol; broken off where a client sees it; and what
// clients that do not read them may hold.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import http from 'node:http';
import http2 from 'node:http2';
import net from 'node:net';
import { gunzipSync } from 'node:zlib';
import { differentStacks, memoryOf, forgetPeak, startServer, request, readColumns, temporaryDirectory, test, finish } from '../harness.mjs';

const STACKS = process.env.WICK_TEST_FULL ? 40000 : 16000,
	// More than what sockets hold of a response that nobody reads.
	LARGE = 40000,
	DEPTH = 14,
	MIB = 1024 * 1024;
const directory = temporaryDirectory();
const different = (seed, count) => differentStacks(seed, count, DEPTH, 5000);
const start = async (name, config, more = []) => {
	writeFileSync(`${directory}/${name}.yaml`, `${config}queries: {memory: 2G}\nlimits: {query_memory: 1G}\n`);
	const server = await startServer(`${directory}/${name}`, ['--config', `${directory}/${name}.yaml`]);
	server.get = (path, options) => request(server.port, 'GET', path, options);
	server.metric = async (metric) => Number((await server.get('/metrics')).body.toString().match(new RegExp(`^wick_http_responses_${metric} (.*)$`, 'm'))[1]);
	server.memory = (what) => memoryOf(server.child.pid, what);
	for (const [side, lines] of [
		['a', different(1, STACKS)],
		['b', different(2, STACKS / 4)],
		['c', ['main;small 7']],
		...more,
	]) {
		const r = await server.get('/healthz');
		assert.equal(r.status, 200);
		const pushed = await request(server.port, 'POST', `/api/v1/ingest?format=folded&name=process_cpu&label=side%3D${side}`, { body: Buffer.from(lines.join('\n') + '\n') });
		assert.equal(pushed.status, 200, pushed.body.toString());
	}
	return server;
};
const now = Date.now(),
	range = `from=${now - 3600000}&to=${now + 3600000}&exact=1`,
	of = (side) => `process_cpu%7Bside%3D%22${side}%22%7D`,
	query = (format, side = 'a') => `/api/v1/query?query=${of(side)}&${range}&max_nodes=0&limit=0&format=${format}`;
// The limit is only for a test that has failed.
const until = async (condition) => {
	for (let i = 0; i < 12000; i++) {
		if (await condition()) return true;
		await new Promise((r) => setTimeout(r, 10));
	}
	return false;
};
const wait = (ms) => new Promise((r) => setTimeout(r, ms));

// Over HTTP/1.0, whose responses are made whole first.
const whole = (port, path) =>
	new Promise((resolve, reject) => {
		const socket = net.connect(port, '127.0.0.1', () => socket.write(`GET ${path} HTTP/1.0\r\nHost: localhost\r\n\r\n`)),
			chunks = [];
		socket.on('data', (chunk) => chunks.push(chunk));
		socket.on('error', reject);
		socket.on('end', () => {
			const all = Buffer.concat(chunks),
				end = all.indexOf('\r\n\r\n');
			resolve({ head: all.subarray(0, end).toString(), body: all.subarray(end + 4) });
		});
	});
const overHttp2 = (client, path, headers = {}) =>
	new Promise((resolve, reject) => {
		const stream = client.request({ ':path': path, ...headers }),
			chunks = [];
		let head;
		stream.on('response', (fields) => (head = fields));
		stream.on('data', (chunk) => chunks.push(chunk));
		stream.on('error', reject);
		stream.on('aborted', () => reject(new Error('aborted')));
		stream.on('end', () => resolve({ headers: head, body: Buffer.concat(chunks) }));
	});
// Without what differs each time a query is answered.
const same = (body) => {
	const columns = body.subarray(0, 7).toString() === 'wickflm';
	if (body[0] !== 0x7b && !columns) return body.toString('base64');
	const { stats, ...rest } = columns ? readColumns(body) : JSON.parse(body);
	return JSON.stringify(rest);
};

const server = await start('usual', 'responses: {stall: 2s}\n', [['large', different(3, LARGE)]]),
	client = http2.connect(server.url);
const diff = `/api/v1/diff?query=${of('a')}&base=${of('b')}&${range}&max_nodes=0`,
	pipeline = `/api/v1/pipeline?q=${of('a')}&${range}&max_nodes=0`,
	render = (format) =>
		`/pyroscope/render?query=process_cpu%3Asamples%3Acount%3A%3A%7Bside%3D%22a%22%7D&from=${now - 3600000}&until=${now + 3600000}&maxNodes=100000&format=${format}`;
for (const [name, path] of [
	['folded stacks', query('folded')],
	['a flame graph', query('flame')],
	['a table of functions', query('json')],
	['a profile for Firefox', query('firefox')],
	['a profile for speedscope', query('speedscope')],
	['columns of a flame graph', query('columns')],
	['an SVG', query('svg')],
	['a table of stacks in CSV', query('csv')],
	['a table of stacks in Arrow', query('arrow')],
	['a diff', diff],
	['a pipeline', pipeline],
	['a flame graph for Pyroscope', render('json')],
	['folded stacks for Pyroscope', render('collapsed')],
])
	await test(`${name} is the same in pieces`, async () => {
		const before = await server.metric('streamed_total'),
			expected = await whole(server.port, path);
		assert.match(expected.head, /^HTTP\/1.1 200 /);
		assert.match(expected.head, new RegExp(`Content-Length: ${expected.body.length}`));
		assert.equal(await server.metric('streamed_total'), before);
		const plain = await server.get(path),
			packed = await server.get(path, { headers: { 'accept-encoding': 'gzip' } }),
			second = await overHttp2(client, path),
			secondPacked = await overHttp2(client, path, { 'accept-encoding': 'gzip' });
		assert.equal(plain.headers['transfer-encoding'], 'chunked');
		assert.equal(plain.headers['content-length'], undefined);
		assert.equal(second.headers['content-length'], undefined);
		assert.equal(packed.headers['content-encoding'], 'gzip');
		assert.equal(secondPacked.headers['content-encoding'], 'gzip');
		for (const header of ['content-type', 'content-disposition', 'vary', 'x-wick-symbols', 'x-content-type-options'])
			assert.equal(plain.headers[header], second.headers[header]);
		for (const body of [plain.body, gunzipSync(packed.body), second.body, gunzipSync(secondPacked.body)]) {
			assert.ok(body.length > 256 * 1024);
			assert.equal(same(body), same(expected.body));
		}
		assert.equal(await server.metric('streamed_total'), before + 4);
	});
await test('a partial response says so before its first piece', async () => {
	const part = await start('part', '');
	await part.stop();
	writeFileSync(`${directory}/part.yaml`, `limits: {query_stacks: ${STACKS - 1000}}\n`);
	const small = await startServer(`${directory}/part`, ['--config', `${directory}/part.yaml`]);
	for (const format of ['folded', 'flame', 'csv']) {
		const r = await request(small.port, 'GET', query(format));
		assert.equal(r.headers['transfer-encoding'], 'chunked');
		assert.match(r.headers['x-wick-partial'] ?? '', /distinct stacks/);
		if (format === 'flame') assert.equal(JSON.parse(r.body).partial, true);
	}
	await small.stop();
});
await test('a short response has a length', async () => {
	const r = await server.get(query('flame', 'c'));
	assert.equal(Number(r.headers['content-length']), r.body.length);
	assert.equal(r.headers['transfer-encoding'], undefined);
	assert.deepEqual(JSON.parse(r.body).flame.nodes.total, [7, 7, 7]);
	const columns = await server.get(query('columns', 'c'));
	assert.deepEqual(readColumns(columns.body).flame.nodes.total, [7, 7, 7]);
});
await test('HEAD has the head and no body', async () => {
	const r = await request(server.port, 'HEAD', query('folded'));
	assert.equal(r.status, 200);
	assert.equal(r.body.length, 0);
	assert.match(r.headers['content-type'], /^text\/plain/);
	const short = await request(server.port, 'HEAD', query('folded', 'c'));
	assert.equal(Number(short.headers['content-length']), 'main;small 7\n'.length);
});
await test('what follows on the same connection is the next response', async () => {
	const agent = new http.Agent({ keepAlive: true, maxSockets: 1 }),
		get = (path) =>
			new Promise((resolve, reject) =>
				http
					.get({ host: '127.0.0.1', port: server.port, path, agent }, (response) => {
						const chunks = [];
						response.on('data', (chunk) => chunks.push(chunk));
						response.on('end', () => resolve({ body: Buffer.concat(chunks), socket: response.socket }));
						response.on('error', reject);
					})
					.on('error', reject),
			);
	const first = await get(query('folded')),
		second = await get(query('folded', 'c'));
	assert.equal(second.body.toString(), 'main;small 7\n');
	assert.equal(first.body.toString().trim().split('\n').length, STACKS);
	agent.destroy();
});

const created = await request(server.port, 'POST', `/api/v1/snapshots?query=${of('a')}&${range}&max_nodes=0`),
	snapshot = `/api/v1/snapshots/${JSON.parse(created.body).id}`;
await test('a snapshot is the same, packed and unpacked', async () => {
	assert.equal(created.status, 201, created.body.toString());
	const plain = await server.get(snapshot),
		packed = await server.get(snapshot, { headers: { 'accept-encoding': 'gzip' } }),
		second = await overHttp2(client, snapshot),
		old = await whole(server.port, snapshot),
		head = await request(server.port, 'HEAD', snapshot);
	assert.equal(plain.status, 200, plain.body.toString().slice(0, 200));
	assert.equal(Number(plain.headers['content-length']), plain.body.length);
	assert.equal(Number(packed.headers['content-length']), packed.body.length);
	assert.equal(Number(second.headers['content-length']), plain.body.length);
	assert.equal(Number(head.headers['content-length']), plain.body.length);
	assert.equal(head.body.length, 0);
	assert.equal(JSON.parse(plain.body).answer.flame.nodes.total[0], JSON.parse((await server.get(query('flame'))).body).total);
	for (const body of [gunzipSync(packed.body), second.body, old.body]) assert.ok(body.equals(plain.body));
});
await test('a reader that is slow, and not for want of reading, gets all of it', async () => {
	const expected = (await server.get(query('folded'))).body;
	const body = await new Promise((resolve, reject) =>
		http
			.get({ host: '127.0.0.1', port: server.port, path: query('folded'), agent: false }, (response) => {
				const chunks = [];
				response.on('data', (chunk) => {
					chunks.push(chunk);
					response.pause();
					setTimeout(() => response.resume(), 40);
				});
				response.on('end', () => resolve(Buffer.concat(chunks)));
				response.on('error', reject);
			})
			.on('error', reject),
	);
	assert.ok(body.equals(expected));
});
// Pauses for longer than a client may, and goes on as if nothing had been.
const PAUSE_MS = 6000,
	kept = await request(server.port, 'POST', `/api/v1/snapshots?query=${of('large')}&${range}&max_nodes=0`),
	long = [query('flame', 'large'), `/api/v1/snapshots/${JSON.parse(kept.body).id}`];
await test('a reader that stops is cut off, and sees it: HTTP/1.1 by node', async () => {
	const before = await server.metric('stalled_total');
	for (const path of long) {
		const outcome = await new Promise((resolve) =>
			http
				.get({ host: '127.0.0.1', port: server.port, path, agent: false }, (response) => {
					assert.equal(response.statusCode, 200);
					response.once('data', () => {
						response.pause();
						setTimeout(() => response.resume(), PAUSE_MS);
					});
					response.on('error', (error) => resolve(error.code));
					response.on('end', () => resolve(response.complete ? 'complete' : 'incomplete'));
				})
				.on('error', (error) => resolve(error.code)),
		);
		assert.match(outcome, /ECONNRESET|incomplete/);
	}
	assert.equal(await server.metric('stalled_total'), before + 2);
});
await test('... and HTTP/2', async () => {
	const before = await server.metric('stalled_total'),
		other = http2.connect(server.url);
	other.on('error', () => {});
	for (const path of long) {
		const outcome = await new Promise((resolve) => {
			const stream = other.request({ ':path': path });
			stream.once('data', () => {
				stream.pause();
				setTimeout(() => stream.resume(), PAUSE_MS);
			});
			stream.on('error', (error) => resolve(`${error.code} ${error.message}`));
			stream.on('end', () => setTimeout(() => resolve('complete'), 500));
		});
		assert.match(outcome, /INTERNAL_ERROR/);
	}
	other.destroy();
	assert.equal(await server.metric('stalled_total'), before + 2);
});
await test('... and curl', () => {
	for (const [version, codes] of [
		['--http1.1', [18, 56]],
		['--http2-prior-knowledge', [18, 56, 92]], // where curl itself reads nothing any more, it is the connection that ends
	])
		for (const path of long) {
			const script = `{ curl -s ${version} '${server.url}${path}'; echo $? >&2; } | { sleep ${PAUSE_MS / 1000}; cat >/dev/null; }`,
				r = spawnSync('sh', ['-c', script], { encoding: 'utf8' });
			assert.ok(codes.includes(Number(r.stderr)), `curl ${version} ${path} ended with ${r.stderr}`);
		}
});
client.destroy();
await server.stop();

const MEMORY = 32 * MIB,
	busy = await start('busy', `responses: {memory: ${MEMORY}, stall: 60s}\n`);
await test('beyond what clients may hold, responses are refused until some are read', async () => {
	const streams = [],
		other = http2.connect(busy.url, { settings: { initialWindowSize: 0 } });
	let refused;
	// What is made whole waits as a whole; one client at a time, so that each is refused or waits before the next.
	for (let i = 0; i < 60 && !refused; i++) {
		const held = await busy.metric('bytes'),
			stream = other.request({ ':path': query('svg') });
		let head;
		stream.on('error', () => {});
		stream.on('response', (fields) => (head = fields));
		streams.push(stream);
		assert.ok(await until(async () => head?.[':status'] === 503 || (await busy.metric('bytes')) > held));
		if (head?.[':status'] === 503) refused = head;
	}
	assert.ok(refused, 'nothing was refused');
	assert.ok(Number(refused['retry-after']) >= 1);
	const r = await busy.get(query('svg'));
	assert.equal(r.status, 503);
	assert.match(JSON.parse(r.body).error, /32.0 MiB of responses are being sent/);
	assert.equal(r.headers['retry-after'], '1');
	assert.equal(r.headers['content-disposition'], undefined);
	assert.ok((await busy.metric('refused_total')) >= 2);
	assert.ok((await busy.metric('bytes')) <= MEMORY);
	assert.equal((await busy.get(query('flame', 'c'))).status, 200);
	other.destroy();
	assert.ok(await until(async () => (await busy.metric('bytes')) === 0));
	assert.equal((await busy.get(query('svg'))).status, 200);
});
await test('readers without a window, and readers that do not read, hold little and nobody up', async () => {
	const made = await request(busy.port, 'POST', `/api/v1/snapshots?query=${of('a')}&${range}&max_nodes=0`),
		kept = `/api/v1/snapshots/${JSON.parse(made.body).id}`;
	assert.ok((await busy.get(kept)).body.length > 256 * STACKS);
	forgetPeak(busy.child.pid);
	const before = busy.memory('VmRSS'),
		other = http2.connect(busy.url, { settings: { initialWindowSize: 0 } }),
		sockets = [];
	other.on('error', () => {});
	for (let i = 0; i < 95; i++) other.request({ ':path': kept }).on('error', () => {});
	for (let i = 0; i < 40; i++) {
		const socket = net.connect(busy.port, '127.0.0.1', () => socket.write(`GET ${i % 4 ? kept : query('folded')} HTTP/1.1\r\nHost: localhost\r\n\r\n`));
		socket.on('error', () => {});
		socket.pause();
		sockets.push(socket);
	}
	// Everybody else is answered meanwhile.
	let longest = 0;
	for (let i = 0; i < 60; i++) {
		const begun = Date.now();
		assert.equal((await busy.get('/healthz')).status, 200);
		assert.equal((await busy.get(`/api/v1/snapshots?limit=1`)).status, 200);
		longest = Math.max(longest, Date.now() - begun);
		await wait(50);
	}
	assert.ok(longest < 5000, `${longest} ms`);
	assert.equal((await busy.get(query('flame', 'c'))).status, 200);
	const peak = busy.memory('VmHWM') - before;
	// What responses may hold, and what is being made: queries, and a packed snapshot that a worker checks.
	assert.ok(peak < MEMORY + 160 * MIB, `${(peak / MIB).toFixed(0)} MiB more than ${(before / MIB).toFixed(0)}`);
	other.destroy();
	for (const socket of sockets) socket.destroy();
	assert.ok(await until(async () => (await busy.metric('bytes')) === 0));
	assert.equal(Number((await busy.get('/metrics')).body.toString().match(/^wick_http_requests_open (.*)$/m)[1]), 1);
});
await busy.stop();
finish();
