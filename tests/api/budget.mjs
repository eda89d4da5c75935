// SPDX-License-Identifier: Apache-2.0
// Queries of a service whose stacks are all different and deep, by a server with little memory for them: what a query may take, what all of them may
// take, what is answered beyond that, and that a query whose client has gone uses no more CPU, wherever it was.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import http2 from 'node:http2';
import net from 'node:net';
import { differentStacks, memoryOf, startServer, request, readColumns, temporaryDirectory, test, finish } from '../harness.mjs';

const STACKS = 40000,
	DEPTH = 14,
	MIB = 1024 * 1024,
	QUERY_MEMORY = 32 * MIB,
	ALL_MEMORY = 64 * MIB;
const directory = temporaryDirectory();
const start = async (name, config) => {
	writeFileSync(`${directory}/${name}.yaml`, config);
	const server = await startServer(`${directory}/${name}`, ['--config', `${directory}/${name}.yaml`]);
	return {
		...server,
		get: (path) => request(server.port, 'GET', path),
		push: async (labels, lines) => {
			const label = Object.entries(labels)
				.map(([k, v]) => `&label=${k}%3D${v}`)
				.join('');
			const r = await request(server.port, 'POST', `/api/v1/ingest?format=folded&name=process_cpu${label}`, { body: Buffer.from(lines.join('\n') + '\n') });
			assert.equal(r.status, 200, r.body.toString());
		},
	};
};
const different = (seed, count) => differentStacks(seed, count, DEPTH, 5000);
const time = 'from=now-1h&to=now%2B1h',
	of = (side) => `process_cpu%7Bside%3D%22${side}%22%7D`,
	flame = (side) => `/api/v1/query?query=${of(side)}&${time}`,
	diff = (a, b) => `/api/v1/diff?query=${of(a)}&base=${of(b)}&${time}`;
// The limit is only for a test that has failed.
const until = async (condition) => {
	for (let i = 0; i < 12000; i++) {
		if (await condition()) return true;
		await new Promise((r) => setTimeout(r, 10));
	}
	return false;
};
const metric = async (server, name) =>
	Number((await server.get('/metrics')).body.toString().match(new RegExp(`^${name.replace(/[{}]/g, '\\$&')} (.*)$`, 'm'))[1]);
const sides = { a: different(1, STACKS), b: different(2, STACKS) },
	total = (lines) => lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0);
const fill = async (server) => {
	for (const [side, lines] of Object.entries(sides)) await server.push({ side }, lines);
	await server.push({ side: 'c' }, ['main;small 7']);
	await server.push({ side: 'd' }, ['main;small 9']);
};

const server = await start('small', `queries: {memory: ${ALL_MEMORY}, concurrent: 6}\nlimits: {query_memory: ${QUERY_MEMORY}}\n`);
await fill(server);

await test('a flame graph beyond the limit is of a part, and says so', async () => {
	const before = await metric(server, 'wick_queries_memory_partial_total');
	const json = JSON.parse((await server.get(flame('a'))).body);
	assert.equal(json.partial, true);
	assert.match(json.why, /limit query_memory was reached after \d+ of 40000 distinct stacks/);
	assert.ok(json.total > 0 && json.total < total(sides.a));
	const r = await server.get(`${flame('a')}&format=columns`);
	assert.equal(r.status, 200);
	assert.match(r.headers['x-wick-partial'], /query_memory/);
	const { nodes, total: all } = readColumns(r.body).flame;
	assert.equal(
		nodes.self.reduce((sum, self) => sum + self, 0),
		all,
	);
	assert.equal(await metric(server, 'wick_queries_memory_partial_total'), before + 2);
});
await test('what needs the whole tree is of fewer stacks, and tables need none', async () => {
	const part = (json) => Number(json.why.match(/after (\d+) of/)[1]);
	const tree = part(JSON.parse((await server.get(flame('a'))).body));
	for (const format of ['json', 'top', 'svg']) {
		const r = await server.get(`${flame('a')}&format=${format}`);
		assert.equal(r.status, 200, r.body.toString().slice(0, 200));
		const made = part({ why: r.headers['x-wick-partial'] });
		assert.ok(format === 'svg' ? made < tree : made >= tree, `${format}: ${made}, ${tree}`);
	}
});
await test('a diff beyond the limit fails, and names it', async () => {
	const tiny = await start('tiny', 'limits: {query_memory: 20M}\n');
	await fill(tiny);
	const before = await metric(tiny, 'wick_queries_memory_refused_total{limit="query_memory"}');
	for (const path of [diff('a', 'b'), `${diff('a', 'b')}&format=table`, `/api/v1/pipeline?q=${of('a')}%20%7C%20diff%20(${of('b')})&${time}`]) {
		const r = await tiny.get(path);
		assert.equal(r.status, 413, `${path}: ${r.body.toString().slice(0, 200)}`);
		assert.equal(r.headers['x-wick-limit'], 'query_memory');
		assert.match(JSON.parse(r.body).error, /^limit query_memory: .* 20.0 MiB .*limits\.query_memory/);
	}
	assert.equal(await metric(tiny, 'wick_queries_memory_refused_total{limit="query_memory"}'), before + 3);
	await tiny.stop();
});
await test('calls of other servers are held to it as well', async () => {
	const side = (name) => `process_cpu%3Asamples%3Acount%3A%3A%7Bside%3D%22${name}%22%7D`;
	const one = await server.get(`/pyroscope/render?query=${side('a')}&from=now-1h&until=now%2B1h`);
	assert.equal(one.status, 200);
	assert.match(one.headers['x-wick-partial'], /query_memory/);
	const two = await server.get(
		`/pyroscope/render-diff?leftQuery=${side('a')}&leftFrom=now-1h&leftUntil=now%2B1h&rightQuery=${side('b')}&rightFrom=now-1h&rightUntil=now%2B1h`,
	);
	assert.equal(two.status, 413, two.body.toString().slice(0, 200));
	assert.equal(two.headers['x-wick-limit'], 'query_memory');
	const rpc = await request(server.port, 'POST', '/querier.v1.QuerierService/Diff', {
		headers: { 'content-type': 'application/json' },
		body: Buffer.from(
			JSON.stringify(
				Object.fromEntries(
					['left', 'right'].map((name, i) => [
						name,
						{
							profileTypeID: 'process_cpu:samples:count::',
							labelSelector: `{side="${'ab'[i]}"}`,
							start: String(Date.now() - 3600e3),
							end: String(Date.now() + 3600e3),
						},
					]),
				),
			),
		),
	});
	assert.match(JSON.parse(rpc.body).message, /limit query_memory/);
	assert.equal(JSON.parse(rpc.body).code, 'resource_exhausted');
});
await test('what fits is whole', async () => {
	const r = await server.get(diff('c', 'd'));
	assert.equal(r.status, 200);
	const json = JSON.parse(r.body);
	assert.equal(json.partial, false);
	assert.deepEqual(json.diff.nodes.total, [7, 7, 7]);
	assert.deepEqual(json.diff.nodes.base_total, [9, 9, 9]);
});
await test('a response that waits to be read is no memory of queries any more', async () => {
	const client = http2.connect(server.url, { settings: { initialWindowSize: 0 } }),
		heads = [];
	for (let i = 0; i < 4; i++)
		client
			.request({ ':path': `${flame('a')}&format=pprof` })
			.on('error', () => {})
			.on('response', (fields) => heads.push(fields[':status']));
	assert.ok(await until(() => heads.length === 4));
	assert.deepEqual(heads, [200, 200, 200, 200]);
	assert.ok((await metric(server, 'wick_http_responses_bytes')) > 0);
	assert.ok(await until(async () => (await metric(server, 'wick_queries_memory_bytes')) === 0));
	assert.equal((await server.get(diff('c', 'd'))).status, 200);
	client.destroy();
	assert.ok(await until(async () => (await metric(server, 'wick_http_responses_bytes')) === 0));
});
await test('four of the worst queries at a time beside ingest stay within the limit', async () => {
	const peak = () => memoryOf(server.child.pid, 'VmHWM');
	const ingest = (n) => server.push({ side: `more${n}` }, different(100 + n, 2000));
	await ingest(0);
	const before = peak();
	let more = 1,
		ended = false;
	const pushing = (async () => {
		while (!ended) await ingest(more++ % 4);
	})();
	const statuses = [];
	for (let round = 0; round < 3; round++) {
		const paths = [diff('a', 'b'), diff('b', 'a'), `${diff('a', 'b')}&format=table`, `${flame('a')}&format=columns`];
		statuses.push(...(await Promise.all(paths.map((path) => server.get(path)))).map((r) => r.status));
	}
	ended = true;
	await pushing;
	assert.ok(
		statuses.every((s) => [200, 413, 429].includes(s)),
		statuses.join(),
	);
	// What they may take, and a rest that does not depend on what is asked: indexes, ingest, what the allocator keeps.
	assert.ok(peak() <= before + ALL_MEMORY + 48 * MIB, `${before / MIB} MiB, then ${peak() / MIB} MiB`);
});
await server.stop();

const roomy = await start('roomy', 'queries: {memory: 4G}\nlimits: {query_memory: 2G}\n');
await fill(roomy);
const cpuMs = () => {
	const fields = readFileSync(`/proc/${roomy.child.pid}/stat`, 'utf8').replace(/.*\) /, '').split(' ');
	return (Number(fields[11]) + Number(fields[12])) * 10;
};
const idle = () => until(async () => JSON.parse((await roomy.get('/api/v1/status')).body).queries.running === 0);
for (const [name, path] of [
	['diff', diff('a', 'b')],
	['table of a diff', `${diff('a', 'b')}&format=table`],
	['flame graph in columns', `${flame('a')}&format=columns`],
	['list of stacks', `${flame('a')}&format=folded`],
])
	await test(`the ${name} of a client that has gone costs nothing any more`, async () => {
		let spent = cpuMs();
		assert.equal((await roomy.get(path)).status, 200);
		const whole = cpuMs() - spent;
		// Broken off early, at a third and at two thirds of what it costs. Some have ended before: what counts is that others are cancelled.
		const cancelled = async () => JSON.parse((await roomy.get('/api/v1/status')).body).queries.cancelled;
		let after = 0,
			left = 0;
		for (let i = 0, met = 0; i < 60 && met < 6; i++) {
			const part = (0.1 + (i % 3) * 0.3) * whole,
				before = await cancelled();
			let closed = false;
			spent = cpuMs();
			const socket = net.connect(roomy.port, '127.0.0.1');
			socket.on('error', () => {});
			socket.on('data', () => (closed = true));
			socket.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`);
			while (!closed && cpuMs() - spent < part) await new Promise((r) => setTimeout(r, 1));
			const at = cpuMs();
			socket.destroy();
			assert.ok(await idle());
			if ((await cancelled()) === before) continue;
			met++;
			after += cpuMs() - at;
			left += Math.max(whole - (at - spent), 0);
		}
		assert.ok(left > 0, 'none was cancelled');
		// It would have cost `left` if they had gone on; each may cost 100 ms more, and a little is noise.
		assert.ok(after <= Math.max(left / 2, 6 * 100), `${after} ms after they were cancelled, of ${left} ms; a whole one takes ${whole} ms`);
	});
await roomy.stop();
finish();
