// SPDX-License-Identifier: Apache-2.0
// Parca's query service, asked as Grafana's Parca data source asks it (gRPC-Web, Arrow) and by the gRPC project's client. What must
// come out is computed from the list of samples that went in; the Arrow stream is read by Apache Arrow's own library.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { writeFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { startServer, temporaryDirectory, test, finish } from '../harness.mjs';
import { clientOf, queryProto, seconds } from './parca_client.mjs';
import { CPU, HEAP, now, minute, knownSamples, send, choose, sum, treeOf, entries } from './known.mjs';

const require = createRequire(new URL('../package.json', import.meta.url));
const grpc = require('@grpc/grpc-js'),
	loader = require('@grpc/proto-loader'),
	arrow = require('apache-arrow');
const directory = temporaryDirectory();
writeFileSync(`${directory}/query.proto`, queryProto);
const server = await startServer(`${directory}/data`),
	samples = knownSamples(),
	web = clientOf(server.port);
const start = now - minute,
	end = now + 10 * minute,
	DELTA = `${CPU}:delta`;
const chosen = (type, filter) => choose(samples, type, { from: start, to: end, ...filter });
const merge = (query, from = start, to = end) => ({ query, start: seconds(from), end: seconds(to) });
const ask = (query, more) => ({ mode: 2, merge: merge(query), report_type: 5, ...more });

await test('an empty server has no data', async () => {
	assert.equal((await web('HasProfileData', {})).has_data, false);
	assert.deepEqual((await web('ProfileTypes', {})).types, []);
});
await send(server.port, samples);
await test('types, labels, values', async () => {
	assert.equal((await web('HasProfileData', {})).has_data, true);
	const type = (name, sample_type, sample_unit, delta) => ({ name, sample_type, sample_unit, period_type: '', period_unit: '', delta });
	assert.deepEqual((await web('ProfileTypes', {})).types, [type('memory', 'inuse_space', 'bytes', false), type('process_cpu', 'cpu', 'nanoseconds', true)]);
	assert.deepEqual((await web('Labels', {})).label_names, ['region', 'service_name']);
	assert.deepEqual((await web('Values', { label_name: 'service_name' })).label_values, ['ads', 'mail', 'shop']);
	assert.deepEqual((await web('Values', { label_name: 'region', profile_type: HEAP, start: seconds(start), end: seconds(end) })).label_values, ['eu']);
	assert.deepEqual((await web('Values', { label_name: 'service_name', match: [`{service_name="ads"}`, `{service_name=~"a.*|s.*"}`] })).label_values, [
		'ads',
		'shop',
	]);
});
await test('values over time, as Grafana asks, without step and sum_by: one series', async () => {
	const { series } = await web('QueryRange', { query: `${DELTA}{service_name="shop"}`, start: seconds(start), end: seconds(end), limit: 1000 });
	assert.deepEqual(
		series.map((s) => s.labelset.labels),
		[[]],
	);
	const expected = new Map();
	for (const s of chosen(CPU, { service: 'shop' })) expected.set(s.time, (expected.get(s.time) ?? 0) + s.value);
	assert.deepEqual(
		series[0].samples.map((s) => [s.timestamp.seconds * 1000, s.value]),
		[...expected],
	);
	assert.deepEqual(series[0].sample_type, { type: 'cpu', unit: 'nanoseconds' });
	// Nanoseconds per second are cores; one profile is in each step.
	for (const { value, value_per_second, duration, count } of series[0].samples) assert.deepEqual([value_per_second, count], [value / duration, 1]);
});
await test('a gauge without sum_by: each series by itself', async () => {
	const { series } = await web('QueryRange', { query: HEAP, start: seconds(start), end: seconds(end), step: { seconds: 60 } });
	assert.deepEqual(series.map((s) => s.labelset.labels.map((l) => `${l.name}=${l.value}`).join()).sort(), [
		'region=eu,service_name=ads',
		'region=eu,service_name=mail',
		'region=eu,service_name=shop',
	]);
});
await test('values over time by label and step', async () => {
	const { series } = await web('QueryRange', { query: DELTA, start: seconds(start), end: seconds(end), step: { seconds: 120 }, sum_by: ['service_name'] });
	assert.deepEqual(series.map((s) => s.labelset.labels[0].value).sort(), ['ads', 'mail', 'shop']);
	for (const one of series) {
		const expected = new Map();
		for (const s of chosen(CPU, { service: one.labelset.labels[0].value })) {
			const at = Math.floor(s.time / 120000) * 120;
			expected.set(at, (expected.get(at) ?? 0) + s.value);
		}
		assert.deepEqual(
			one.samples.map((s) => [s.timestamp.seconds, s.value]),
			[...expected],
		);
	}
});
await test('a gauge over time is the average of each series in a step; a merge adds all profiles up', async () => {
	const { series } = await web('QueryRange', { query: HEAP, start: seconds(start), end: seconds(end), step: { seconds: 120 }, sum_by: ['region'] });
	const profiles = new Map();
	for (const s of chosen(HEAP, {})) {
		const at = Math.floor(s.time / 120000) * 120;
		profiles.set(at, { ...profiles.get(at), [s.service]: [...(profiles.get(at)?.[s.service] ?? []), s.value] });
	}
	const average = (values) => values.reduce((a, b) => a + b) / values.length;
	const expected = [...profiles].map(([at, services]) => [at, Object.values(services).reduce((sum, values) => sum + average(values), 0)]);
	assert.ok(
		[...profiles.values()].some((services) => services.shop.length === 2),
		'a step with two scrapes',
	);
	assert.deepEqual(
		series.map((one) => one.samples.map((s) => [s.timestamp.seconds, s.value])),
		[expected],
	);
	for (const { value, value_per_second, duration } of series[0].samples) assert.deepEqual([value_per_second, duration], [value, 0]);
	const merged = await web('Query', { mode: 2, merge: { query: `${HEAP}{service_name="shop"}`, start: seconds(start), end: seconds(end) }, report_type: 0 });
	assert.equal(merged.total, 100 + 200 + 300 + 400 + 500);
});
// As Grafana walks the table: rows of the children of row 0, and so on; values are unsigned.
function pathsOfTable({ record }) {
	const table = arrow.tableFromIPC(record),
		column = (name) => table.getChild(name),
		text = (name, row) => {
			const value = column(name).get(row);
			return value === null ? null : Buffer.from(value).toString();
		};
	assert.equal(table.schema.fields.find((f) => f.name === 'function_name').type.toString(), 'Dictionary<Uint8, Binary>');
	assert.equal(table.schema.fields.find((f) => f.name === 'children').type.toString(), 'List<Uint32>');
	assert.match(table.schema.fields.find((f) => f.name === 'cumulative').type.toString(), /^Uint(8|16|32|64)$/);
	const found = new Map(),
		values = (row) => ({ total: Number(column('cumulative').get(row)), self: Number(column('flat').get(row)), diff: Number(column('diff').get(row)) });
	const walk = (row, path) => {
		let below = 0;
		for (const child of column('children').get(row) ?? []) {
			const name = text('function_name', child),
				own = path ? `${path};${name}` : name;
			assert.equal(column('parent').get(child), row);
			assert.equal(column('location_address').get(child), 0n);
			found.set(own, values(child));
			below += values(child).total;
			walk(child, own);
		}
		assert.equal(values(row).total - below, values(row).self);
	};
	walk(0, '');
	assert.equal(column('parent').get(0), -1);
	assert.equal(text('function_name', 0), null);
	assert.equal(found.size + 1, table.numRows);
	return { found, total: values(0) };
}
const plain = (map) => entries(new Map([...map].map(([path, { total, self }]) => [path, { total, self }])));
await test('flame graph in Arrow', async () => {
	const response = await web('Query', ask(`${DELTA}{service_name="shop"}`)),
		list = chosen(CPU, { service: 'shop' });
	assert.equal(response.total, sum(list));
	assert.equal(response.flamegraph_arrow.unit, 'nanoseconds');
	assert.equal(response.flamegraph_arrow.height, Math.max(...list.map((s) => s.stack.length)) + 1);
	const { found, total } = pathsOfTable(response.flamegraph_arrow);
	assert.equal(total.total, sum(list));
	assert.deepEqual(plain(found), entries(treeOf(list)));
});
function pathsOfNodes(node, path = '', found = new Map()) {
	for (const child of node.children) {
		const own = path ? `${path};${child.meta.function.name}` : child.meta.function.name;
		found.set(own, { total: child.cumulative, self: child.cumulative - child.children.reduce((n, c) => n + c.cumulative, 0) });
		pathsOfNodes(child, own, found);
	}
	return found;
}
await test('flame graph in nested messages, as older versions ask', async () => {
	const { flamegraph } = await web('Query', ask(DELTA, { report_type: 0 })),
		list = chosen(CPU);
	assert.equal(flamegraph.root.cumulative, sum(list));
	assert.deepEqual(entries(pathsOfNodes(flamegraph.root)), entries(treeOf(list)));
});
await test('nodes below a share of their parent are trimmed, and it is said', async () => {
	const { flamegraph_arrow, total } = await web('Query', ask(DELTA, { node_trim_threshold: 20 })),
		whole = treeOf(chosen(CPU)),
		parentOf = (path) => path.slice(0, Math.max(path.lastIndexOf(';'), 0)),
		kept = new Map([['', { total: sum(chosen(CPU)) }]]);
	let trimmed = 0;
	for (const [path, node] of [...whole].sort(([a], [b]) => a.length - b.length)) {
		const parent = kept.get(parentOf(path));
		if (!parent) continue;
		if (node.total > Math.floor(Math.fround(Math.fround(parent.total) * Math.fround(0.2)))) kept.set(path, node);
		else trimmed += node.total;
	}
	const table = arrow.tableFromIPC(flamegraph_arrow.record);
	assert.equal(total, sum(chosen(CPU)));
	assert.ok(trimmed > 0);
	assert.equal(table.numRows, kept.size);
	assert.equal(flamegraph_arrow.trimmed, trimmed);
});
await test('top and pprof', async () => {
	const { top } = await web('Query', ask(DELTA, { report_type: 2 })),
		list = chosen(CPU);
	const flat = new Map(),
		cumulative = new Map();
	for (const { stack, value } of list) {
		flat.set(stack.at(-1), (flat.get(stack.at(-1)) ?? 0) + value);
		for (const name of new Set(stack)) cumulative.set(name, (cumulative.get(name) ?? 0) + value);
	}
	assert.equal(top.reported, cumulative.size);
	for (const { meta, flat: own, cumulative: all } of top.list)
		assert.deepEqual([own, all], [flat.get(meta.function.name) ?? 0, cumulative.get(meta.function.name)], meta.function.name);
	assert.ok(gunzipSync((await web('Query', ask(DELTA, { report_type: 1 }))).pprof).includes('f3'));
});
await test('comparisons: b against a, as they are or scaled', async () => {
	const half = now + 4 * minute + 1,
		left = chosen(CPU, { to: half }),
		right = chosen(CPU, { from: half }),
		before = treeOf(left),
		after = treeOf(right);
	for (const absolute of [true, false]) {
		const response = await web('Query', {
			mode: 1,
			report_type: 5,
			diff: { a: { mode: 1, merge: merge(DELTA, start, half) }, b: { mode: 1, merge: merge(DELTA, half, end) }, absolute },
		});
		const { found } = pathsOfTable(response.flamegraph_arrow),
			scale = absolute ? 1 : sum(right) / sum(left);
		// What only the base has is no row, as in Parca: it would have no width.
		assert.equal(found.size, after.size);
		for (const [path, node] of found) {
			assert.equal(node.total, after.get(path)?.total ?? 0);
			assert.equal(node.diff, node.total - Math.round((before.get(path)?.total ?? 0) * scale), path);
		}
	}
});
await test('a single profile', async () => {
	const response = await web('Query', { mode: 0, report_type: 5, single: { query: `${DELTA}{service_name="ads"}`, time: seconds(now + 2 * minute) } });
	assert.equal(response.total, sum(chosen(CPU, { service: 'ads', from: now + 2 * minute, to: now + 2 * minute })));
});
await test('no data is an empty graph', async () => {
	const { flamegraph_arrow, total } = await web('Query', ask(`${DELTA}{service_name="none"}`));
	assert.equal(total, 0);
	assert.equal(pathsOfTable(flamegraph_arrow).found.size, 0);
	assert.deepEqual((await web('QueryRange', { query: 'nothing', start: seconds(start), end: seconds(end) })).series, []);
});
await test('bad questions say why', async () => {
	for (const [method, message, status, pattern] of [
		['Query', ask(`${DELTA}{a=`), 3, /expected a value in double quotes/],
		['Query', ask('{}'), 3, /matches 2 profile types/],
		['Query', { mode: 2 }, 3, /selection is missing/],
		['Query', { mode: 2, merge: merge(DELTA, end, start) }, 3, /start must be before end/],
		['Query', { mode: 1, diff: { b: { mode: 1, merge: merge(DELTA) } } }, 3, /diff.a is missing/],
		['Query', ask(DELTA, { report_type: 4 }), 12, /REPORT_TYPE_FLAMEGRAPH_TABLE is not supported/],
		['Query', ask(DELTA, { report_type: 10 }), 3, /report type 10 is unknown/],
		['Query', ask(DELTA, { report_type: 6 }), 3, /source_reference is missing/],
		['Query', ask(DELTA, { group_by: { fields: ['labels'] } }), 3, /invalid group by field: labels/],
		['Query', ask(DELTA, { group_by: { fields: Array.from({ length: 17 }, (_, i) => `labels.l${i}`) } }), 3, /more than 16 labels/],
		['QueryRange', { query: DELTA }, 3, /start and end are required/],
		['Values', {}, 3, /label_name is missing/],
	]) {
		const response = await web(method, message);
		assert.equal(response.status, status, `${method} ${JSON.stringify(message)}: ${response.message}`);
		assert.match(response.message, pattern);
	}
});
await test("gRPC, by the gRPC project's client", async () => {
	const Client = grpc.loadPackageDefinition(loader.loadSync(`${directory}/query.proto`, { keepCase: true, longs: Number })).parca.query.v1alpha1.QueryService;
	const client = new Client(`127.0.0.1:${server.port}`, grpc.credentials.createInsecure());
	const response = await new Promise((resolve, reject) =>
		client.Query(ask(`${DELTA}{service_name="mail"}`), (error, found) => (error ? reject(error) : resolve(found))),
	);
	assert.deepEqual(plain(pathsOfTable(response.flamegraph_arrow).found), entries(treeOf(chosen(CPU, { service: 'mail' }))));
	client.close();
});
await server.stop();
finish();
