// SPDX-License-Identifier: Apache-2.0
// Questions beyond one selector: pipelines, differences, comparisons, the catalogue, what a query did, what becomes of one that is slow or given up, and what changes the data.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import net from 'node:net';
import { startServer, request, pprofProfile, temporaryDirectory, test, finish } from '../harness.mjs';

const directory = temporaryDirectory();
const config = `${directory}/wick.yaml`;
writeFileSync(config, 'queries: {slow: 1us, timeout_max: 1m}\nlimits: {series: 12345}\nretention: {age: 5d, samples: 1d, size: 2G}\n');
let server = await startServer(`${directory}/data`, ['--config', config]);
const get = (path) => request(server.port, 'GET', path);
const post = (path, body) => request(server.port, 'POST', path, { body });
const json = async (path) => {
	const response = await get(path);
	assert.equal(response.status, 200, response.body.toString());
	return JSON.parse(response.body);
};
const errorOf = (response) => JSON.parse(response.body).error;
const q = encodeURIComponent;
const now = Date.now(),
	minute = 60000;
const range = `from=${now - 60 * minute}&to=${now + minute}`;
const send = async (service, timeMs, stacks) => {
	const response = await post(
		`/api/v1/ingest?name=process_cpu&label=${q(`service_name=${service}`)}`,
		pprofProfile(stacks, { timeNs: BigInt(timeMs) * 1000000n }),
	);
	assert.equal(response.status, 200, response.body.toString());
};
await send('shop', now - 50 * minute, [
	[['parse', 'handle', 'main'], 100],
	[['malloc', 'parse', 'handle', 'main'], 50],
]);
await send('shop', now - 10 * minute, [
	[['parse', 'handle', 'main'], 300],
	[['render', 'handle', 'main'], 40],
]);
await send('cart', now - 10 * minute, [
	[['malloc', 'add', 'main'], 7],
	[['add', 'main'], 3],
]);

const total = async (more) => (await json(`/api/v1/query?query=process_cpu&${range}&${more}`)).flame.total;
await test('stages choose stacks and labels', async () => {
	assert.equal(await total(''), 500);
	assert.equal(await total(`frames=${q('"malloc"')}`), 57);
	assert.equal(await total(`frames=${q('leaf function = "parse"')}`), 400);
	assert.equal(await total(`drop_frames=${q('"malloc"')}`), 443);
	assert.equal(await total(`where=${q('service_name="cart"')}`), 10);
	assert.equal(await total(`where=${q('service_name="shop"')}&frames=${q('"malloc"')}`), 50);
	assert.equal(JSON.parse((await get(`/api/v1/query?query=${q('process_cpu{service_name="shop"} | frames "render"')}&${range}`)).body).flame.total, 40);
	const folded = await get(`/api/v1/query?query=process_cpu&${range}&hide=${q('"handle"')}&format=folded`);
	assert.match(folded.body.toString(), /^main;parse 400$/m);
});
await test('a flame graph by label has a tree for each value', async () => {
	const { flame } = await json(`/api/v1/query?query=process_cpu&${range}&group_by=service_name`);
	const roots = flame.nodes.parent.flatMap((p, i) => (i && p === 0 ? [[flame.strings[flame.nodes.name[i]], flame.nodes.total[i]]] : []));
	assert.equal(roots.length, 2);
	assert.match(roots[0][0], /shop/);
	assert.deepEqual(
		roots.map((r) => r[1]),
		[490, 10],
	);
});
await test('the largest nodes only, and the rest as one', async () => {
	const { flame } = await json(`/api/v1/query?query=process_cpu&${range}&max_nodes=3`);
	assert.equal(flame.total, 500);
	assert.ok(flame.trimmed >= 1);
	const names = flame.nodes.name.map((n) => flame.strings[n]);
	assert.deepEqual(names.slice(0, 3), ['total', 'main', 'handle']);
	assert.ok(
		names.some((n) => /^\(\d+ smaller\)$/.test(n)),
		names.join(),
	);
	assert.ok(flame.nodes.kind.includes(7));
	const sums = flame.nodes.self.slice();
	for (let i = flame.nodes.parent.length - 1; i > 0; i--) sums[flame.nodes.parent[i]] += sums[i];
	assert.deepEqual(sums, flame.nodes.total);
	assert.equal((await json(`/api/v1/query?query=process_cpu&${range}&max_nodes=0`)).flame.trimmed, 0);
});
await test('a pipeline is answered as JSON, as a table, as text; by GET and POST', async () => {
	const text = 'process_cpu | top 2 self by function';
	const { kind, table } = await json(`/api/v1/pipeline?q=${q(text)}&${range}`);
	assert.equal(kind, 'table');
	assert.match(JSON.stringify(table), /"parse"/);
	const posted = await post(`/api/v1/pipeline?${range}`, Buffer.from(text));
	assert.equal(posted.status, 200, posted.body.toString());
	assert.deepEqual(JSON.parse(posted.body).table, table);
	const printed = await get(`/api/v1/pipeline?q=${q(text)}&${range}&format=text`);
	assert.match(printed.headers['content-type'], /text\/plain/);
	assert.match(printed.body.toString(), /parse/);
	const series = await json(`/api/v1/pipeline?q=${q('process_cpu | group by service_name | bin 10m')}&${range}`);
	assert.equal(series.kind, 'series');
	assert.equal(
		series.series.reduce((sum, s) => sum + s.total, 0),
		500,
	);
	const flame = await json(`/api/v1/pipeline?q=process_cpu&${range}&max_nodes=2`);
	assert.equal(flame.kind, 'flamegraph');
	assert.ok(flame.flame.trimmed > 0);
	const wrong = await get(`/api/v1/pipeline?q=${q('process_cpu | dance')}&${range}`);
	assert.equal(wrong.status, 400);
	assert.match(errorOf(wrong), /column \d+/);
	const table2 = await get(`/api/v1/query?query=${q(text)}&${range}`);
	assert.equal(table2.status, 400);
	assert.match(errorOf(table2), /pipeline/);
});
await test('a difference of two ranges, and of two selectors', async () => {
	const ranges = await json(
		`/api/v1/diff?query=process_cpu&from=${now - 20 * minute}&to=${now}&base_from=${now - 60 * minute}&base_to=${now - 40 * minute}&format=table`,
	);
	assert.equal(ranges.kind, 'diff');
	assert.deepEqual([ranges.base_total, ranges.total], [150, 350]);
	const render = ranges.functions.rows.find((r) => r.name === 'render');
	assert.deepEqual([render.base_self, render.self], [0, 40]);
	const shifted = await json(`/api/v1/diff?query=process_cpu&from=${now - 20 * minute}&to=${now}&shift=40m`);
	assert.deepEqual([shifted.base_total, shifted.total], [150, 350]);
	assert.ok(Array.isArray(shifted.diff.nodes.base_total));
	const sides = await json(`/api/v1/diff?query=${q('process_cpu{service_name="shop"}')}&base=${q('process_cpu{service_name="cart"}')}&${range}`);
	assert.deepEqual([sides.base_total, sides.total], [10, 490]);
	const missing = await get(`/api/v1/diff?query=process_cpu&${range}`);
	assert.equal(missing.status, 400);
	assert.match(errorOf(missing), /'base'/);
});
await test('values of a label are compared', async () => {
	const { kind, values } = await json(`/api/v1/compare?query=process_cpu&label=service_name&${range}`);
	assert.equal(kind, 'comparison');
	assert.deepEqual(
		values.map((v) => [v.value, v.total]),
		[
			['shop', 490],
			['cart', 10],
		],
	);
	assert.equal((await get(`/api/v1/compare?query=process_cpu&${range}`)).status, 400);
});
await test('series: the others as one, rates, conditions on stacks', async () => {
	const { series, total_series } = await json(`/api/v1/series?query=process_cpu&${range}&by=service_name&limit=1&others=1&step=10m`);
	assert.equal(total_series, 2);
	assert.deepEqual(
		series.map((s) => [s.labels.service_name, s.others, s.total]),
		[
			['shop', undefined, 490],
			[undefined, true, 10],
		],
	);
	const filtered = await json(`/api/v1/series?query=process_cpu&${range}&by=service_name&step=10m&frames=${q('"malloc"')}`);
	assert.deepEqual(
		filtered.series.map((s) => [s.labels.service_name, s.total]),
		[
			['shop', 50],
			['cart', 7],
		],
	);
	const rate = await json(`/api/v1/series?query=process_cpu&${range}&step=10m&rate=1`);
	assert.ok(
		rate.series[0].points.every(([, v]) => v > 0 && v < 1e-6),
		JSON.stringify(rate.series[0].points),
	);
});
await test('services with their last-seen time and rate, cardinality by label', async () => {
	const { services, label, total } = await json(`/api/v1/services?query=process_cpu&${range}`);
	assert.equal(label, 'service_name');
	assert.equal(total, 2);
	assert.deepEqual(services.map((s) => s.name).sort(), ['cart', 'shop']);
	for (const service of services) assert.ok(Math.abs(service.last_ms - (now - 10 * minute)) < 1000 && service.rate > 0, JSON.stringify(service));
	const { labels, series } = await json(`/api/v1/cardinality?${range}`);
	assert.ok(series >= 2);
	const one = labels.find((l) => l.name === 'service_name');
	assert.equal(one.values, 2);
	assert.equal(one.top.length, 2);
});
await test('explain says what was done; formats without a place for it refuse', async () => {
	const { explain, partial } = await json(`/api/v1/query?query=process_cpu&${range}&explain=1`);
	assert.equal(partial, false);
	assert.match(JSON.stringify(explain), /process_cpu/);
	assert.match(JSON.stringify(explain), /phase|_ms|rows/);
	assert.equal((await json(`/api/v1/query?query=process_cpu&${range}`)).explain, undefined);
	const refused = await get(`/api/v1/query?query=process_cpu&${range}&explain=1&format=pprof`);
	assert.equal(refused.status, 400);
	assert.match(errorOf(refused), /explain/);
	assert.match((await get(`/api/v1/pipeline?q=process_cpu&${range}&format=text&explain=1`)).body.toString(), /read|scan/);
});
await test('a deadline that has passed gives a partial answer that says so', async () => {
	const response = await get(`/api/v1/query?query=process_cpu&${range}&timeout=1ns`);
	assert.equal(response.status, 200, response.body.toString());
	const { partial, why } = JSON.parse(response.body);
	assert.equal(partial, true);
	assert.match(why, /deadline|time/);
	assert.equal(response.headers['x-wick-partial'], why);
	assert.ok((await get(`/api/v1/query?query=process_cpu&${range}&timeout=1ns&format=folded`)).headers['x-wick-partial']);
	for (const timeout of ['2m', '0s', '-1s', 'soon'])
		assert.equal((await get(`/api/v1/query?query=process_cpu&${range}&timeout=${timeout}`)).status, 400, timeout);
	const status = await json('/api/v1/status');
	assert.ok(status.queries.partial >= 2);
});
await test('the status says how the server is', async () => {
	const { ingest, limits, retention, disk, symbols, process: own, queries } = await json('/api/v1/status');
	assert.deepEqual([ingest.requests, ingest.profiles, ingest.refused, ingest.samples, ingest.lost_profiles], [3, 3, 0, 6, 0]);
	assert.ok(ingest.bytes > 0);
	assert.deepEqual(limits, { series: 12345 });
	assert.deepEqual(retention, { age_s: 5 * 86400, samples_age_s: 86400, size_bytes: 2 * 2 ** 30 });
	const [size, blocks, , free] = execFileSync('stat', ['-f', '-c', '%S %b %f %a', directory]).toString().split(' ').map(Number);
	assert.equal(disk.size_bytes, blocks * size);
	assert.ok(Math.abs(disk.free_bytes - free * size) < 2 ** 30, `${disk.free_bytes} bytes free, ${free * size} says stat`);
	assert.deepEqual([symbols.waiting, symbols.running], [0, 0]);
	assert.ok(
		own.resident_bytes > 2 ** 20 && own.resident_peak_bytes >= own.resident_bytes && own.connections >= 1 && own.client_errors > 0,
		JSON.stringify(own),
	);
	assert.ok(own.cpu_ms > 0 && queries.answered > 0);
});
await test('slow queries are listed with what they asked', async () => {
	const { threshold_ms, queries } = await json('/api/v1/slow');
	assert.equal(threshold_ms, 0.001);
	assert.ok(queries.length > 0);
	assert.ok(
		queries.every((entry) => entry.ms >= 0.001 && entry.path.startsWith('/api/v1/') && entry.tenant === 'anonymous'),
		JSON.stringify(queries[0]),
	);
	assert.match(server.log(), /slow query: .*process_cpu/);
	const path = '/querier.v1.QuerierService/SelectMergeStacktraces';
	await request(server.port, 'POST', path, { headers: { 'content-type': 'application/json' }, body: Buffer.from('{}') });
	assert.equal((await json('/api/v1/slow')).queries[0].path, path);
});
await test('a client that goes away does not leave the server in trouble', async () => {
	const before = (await json('/api/v1/status')).queries.answered;
	for (let i = 0; i < 20; i++) {
		const socket = net.connect(server.port, '127.0.0.1');
		socket.on('error', () => {});
		socket.write(`GET /api/v1/query?query=process_cpu&${range} HTTP/1.1\r\nHost: localhost\r\n\r\n`);
		socket.destroySoon();
		if (i % 2) socket.destroy();
	}
	let queries;
	for (let i = 0; i < 1200; i++) {
		({ queries } = await json('/api/v1/status'));
		if (queries.running === 0) break;
		await new Promise((resolve) => setTimeout(resolve, 100));
	}
	assert.equal(queries.running, 0);
	assert.ok(queries.answered >= before);
});
await test('blocks are listed, compacted and deleted from', async () => {
	assert.deepEqual((await json('/api/v1/blocks')).blocks, []);
	const compacted = await post('/api/v1/compact');
	assert.equal(compacted.status, 200, compacted.body.toString());
	const { blocks } = await json('/api/v1/blocks');
	assert.ok(blocks.length >= 1);
	assert.equal(
		blocks.reduce((sum, b) => sum + b.samples, 0),
		6,
	);
	assert.ok(blocks.every((b) => b.bytes > 0 && b.from_ms <= b.to_ms && b.level >= 0));
	assert.equal(await total(''), 500);
	for (const query of ['', `query=process_cpu`, `query=process_cpu&from=now-1h`, `${range}`, `query=${q('{a=')}&${range}`])
		assert.equal((await post(`/api/v1/delete?${query}`)).status, 400, query);
	assert.equal((await get(`/api/v1/delete?query=process_cpu&${range}`)).status, 405);
	const deleted = await post(`/api/v1/delete?query=${q('{service_name="cart"}')}&${range}`);
	assert.equal(deleted.status, 200, deleted.body.toString());
	assert.equal(JSON.parse(deleted.body).samples, 2);
	assert.equal(await total(''), 490);
	assert.deepEqual(
		(await json(`/api/v1/label/service_name/values?${range}`)).values.map((v) => v.value),
		['shop'],
	);
	await post(`/api/v1/delete?query=${q('{}')}&from=${now - 60 * minute}&to=${now - 30 * minute}`);
	assert.equal(await total(''), 340);
	assert.equal(await server.stop(), 0);
	server = await startServer(`${directory}/data`, ['--config', config]);
	assert.equal(await total(''), 340);
	const { storage, levels } = await json('/api/v1/status');
	assert.ok(storage.head_samples === 0 && levels.length === 3);
});
await test('names in short, and how long to wait for them', async () => {
	await send('cpp', now - 20 * minute, [
		[['std::vector<int>::at(unsigned long)', 'main'], 5],
		[['std::vector<char>::at(unsigned long)', 'main'], 2],
	]);
	const of = async (more) => {
		const { flame, symbols } = await json(`/api/v1/query?query=${q('process_cpu{service_name="cpp"}')}&${range}${more}`);
		assert.deepEqual(symbols, { resolved: 0, pending: 0, missing: 0, ambiguous: 0 }, 'all came with names');
		return flame.nodes.name.map((n, i) => [flame.strings[n], flame.nodes.total[i]]);
	};
	const full = [
		['total', 7],
		['main', 7],
		['std::vector<int>::at(unsigned long)', 5],
		['std::vector<char>::at(unsigned long)', 2],
	];
	assert.deepEqual(await of('&symbols_wait=0s'), full);
	assert.deepEqual(await of('&names=short'), full, "frames of no binary may be an interpreter's, and keep their names");
	const diff = await json(`/api/v1/diff?query=${q('process_cpu{service_name="cpp"}')}&${range}&shift=1m&names=short`);
	assert.deepEqual(diff.symbols, { resolved: 0, pending: 0, missing: 0, ambiguous: 0 });
	for (const wrong of ['names=long', 'symbols_wait=31s', 'symbols_wait=-1s', 'symbols_wait=soon']) {
		const response = await get(`/api/v1/query?query=process_cpu&${range}&${wrong}`);
		assert.equal(response.status, 400, wrong);
		assert.match(errorOf(response), new RegExp(wrong.split('=')[0]));
	}
});
await server.stop();
finish();
