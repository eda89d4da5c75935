// SPDX-License-Identifier: Apache-2.0
// Parca's query service, asked as Grafana's Parca data source asks it (gRPC-Web, Arrow) and by the gRPC project's client. What must
// come out is computed from the list of samples that went in; the Arrow stream is read by Apache Arrow's own library.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { writeFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { startServer, request, temporaryDirectory, test, finish } from '../harness.mjs';
import { CPU, HEAP, now, minute, knownSamples, send, choose, sum, treeOf, entries } from './known.mjs';

const require = createRequire(new URL('../package.json', import.meta.url));
const grpc = require('@grpc/grpc-js'),
	loader = require('@grpc/proto-loader'),
	protobuf = require('protobufjs'),
	arrow = require('apache-arrow');
const directory = temporaryDirectory();
const proto = `syntax = "proto3"; package parca.query.v1alpha1;
service QueryService {
  rpc ProfileTypes(ProfileTypesRequest) returns (ProfileTypesResponse) {}
  rpc Labels(LabelsRequest) returns (LabelsResponse) {}
  rpc Values(ValuesRequest) returns (ValuesResponse) {}
  rpc QueryRange(QueryRangeRequest) returns (QueryRangeResponse) {}
  rpc Query(QueryRequest) returns (QueryResponse) {}
  rpc HasProfileData(Empty) returns (HasProfileDataResponse) {}
}
message Empty {}
message Timestamp { int64 seconds = 1; int32 nanos = 2; }
message ProfileTypesRequest { Timestamp start = 1; Timestamp end = 2; }
message ProfileType { string name = 1; string sample_type = 2; string sample_unit = 3; string period_type = 4; string period_unit = 5; bool delta = 6; }
message ProfileTypesResponse { repeated ProfileType types = 1; }
message LabelsRequest { repeated string match = 1; Timestamp start = 2; Timestamp end = 3; string profile_type = 4; }
message LabelsResponse { repeated string label_names = 1; }
message ValuesRequest { string label_name = 1; repeated string match = 2; Timestamp start = 3; Timestamp end = 4; string profile_type = 5; }
message ValuesResponse { repeated string label_values = 1; }
message QueryRangeRequest { string query = 1; Timestamp start = 2; Timestamp end = 3; uint32 limit = 4; Timestamp step = 5; repeated string sum_by = 6; }
message Label { string name = 1; string value = 2; }
message LabelSet { repeated Label labels = 1; }
message ValueType { string type = 1; string unit = 2; }
message MetricsSample { Timestamp timestamp = 1; int64 value = 2; double value_per_second = 3; int64 duration = 4; }
message MetricsSeries { LabelSet labelset = 1; repeated MetricsSample samples = 2; ValueType period_type = 3; ValueType sample_type = 4; }
message QueryRangeResponse { repeated MetricsSeries series = 1; }
message MergeProfile { string query = 1; Timestamp start = 2; Timestamp end = 3; }
message SingleProfile { Timestamp time = 1; string query = 2; }
message ProfileDiffSelection { int32 mode = 1; MergeProfile merge = 2; SingleProfile single = 3; }
message DiffProfile { ProfileDiffSelection a = 1; ProfileDiffSelection b = 2; bool absolute = 3; }
message GroupBy { repeated string fields = 1; }
message QueryRequest { int32 mode = 1; DiffProfile diff = 2; MergeProfile merge = 3; SingleProfile single = 4; int32 report_type = 5; float node_trim_threshold = 7; GroupBy group_by = 8; bool invert_call_stack = 11; }
message Mapping { string file = 5; }
message Function { int64 start_line = 2; string name = 3; string filename = 5; }
message Meta { Mapping mapping = 2; Function function = 3; }
message Node { Meta meta = 1; int64 cumulative = 2; int64 diff = 3; repeated Node children = 4; }
message Root { int64 cumulative = 1; int64 diff = 2; repeated Node children = 3; }
message Flamegraph { Root root = 1; int64 total = 2; string unit = 3; int32 height = 4; int64 trimmed = 10; }
message TopNode { Meta meta = 1; int64 cumulative = 2; int64 flat = 3; int64 diff = 4; }
message Top { repeated TopNode list = 1; int32 reported = 2; int32 total = 3; string unit = 4; }
message FlamegraphArrow { bytes record = 1; string unit = 2; int32 height = 3; int64 trimmed = 4; }
message QueryResponse { Flamegraph flamegraph = 5; bytes pprof = 6; Top top = 7; int64 total = 9; FlamegraphArrow flamegraph_arrow = 11; }
message HasProfileDataResponse { bool has_data = 1; }`;
writeFileSync(`${directory}/query.proto`, proto);
const root = protobuf.parse(proto, { keepCase: true }).root,
	service = root.lookupService('parca.query.v1alpha1.QueryService');
const server = await startServer(`${directory}/data`),
	samples = knownSamples();
// As connect-go does it WithGRPCWeb(): a frame of flags, length and message; the response's last frame is the trailers.
async function web(method, message) {
	const { requestType, responseType } = service.methods[method];
	const In = root.lookupType(`parca.query.v1alpha1.${requestType}`),
		Out = root.lookupType(`parca.query.v1alpha1.${responseType}`);
	const bytes = Buffer.from(In.encode(In.fromObject(message)).finish()),
		head = Buffer.alloc(5);
	head.writeUInt32BE(bytes.length, 1);
	const response = await request(server.port, 'POST', `/parca.query.v1alpha1.QueryService/${method}`, {
		body: Buffer.concat([head, bytes]),
		headers: {
			'content-type': 'application/grpc-web+proto',
			'grpc-accept-encoding': 'gzip',
			'user-agent': 'grpc-go-connect/1.16.2 (go1.23.1)',
			'x-user-agent': 'grpc-go-connect/1.16.2',
		},
	});
	assert.equal(response.status, 200, response.body.toString());
	let data = Buffer.alloc(0),
		trailers = '';
	for (let at = 0; at < response.body.length;) {
		const flags = response.body[at],
			length = response.body.readUInt32BE(at + 1),
			frame = response.body.subarray(at + 5, at + 5 + length),
			plain = flags & 1 ? gunzipSync(frame) : frame;
		if (flags & 0x80) trailers += plain;
		else data = plain;
		at += 5 + length;
	}
	const status = Number(/grpc-status: (\d+)/.exec(trailers)[1]);
	if (status) return { status, message: decodeURIComponent(/grpc-message: (.*)\r/.exec(trailers)[1]) };
	return Out.toObject(Out.decode(data), { longs: Number, defaults: true, arrays: true, bytes: Buffer });
}
const seconds = (ms) => ({ seconds: Math.floor(ms / 1000), nanos: (ms % 1000) * 1e6 });
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
await test('values over time, as Grafana asks: each series by itself', async () => {
	const { series } = await web('QueryRange', { query: `${DELTA}{service_name="shop"}`, start: seconds(start), end: seconds(end), limit: 1000 });
	assert.deepEqual(series.map((s) => s.labelset.labels.map((l) => `${l.name}=${l.value}`).join()).sort(), [
		'region=eu,service_name=shop',
		'region=us,service_name=shop',
	]);
	for (const one of series) {
		const region = one.labelset.labels[0].value,
			expected = new Map();
		for (const s of chosen(CPU, { service: 'shop', region })) expected.set(s.time, (expected.get(s.time) ?? 0) + s.value);
		assert.deepEqual(
			one.samples.map((s) => [s.timestamp.seconds * 1000, s.value]),
			[...expected],
		);
		assert.deepEqual(one.sample_type, { type: 'cpu', unit: 'nanoseconds' });
		assert.equal(one.samples[0].value_per_second, one.samples[0].value / (one.samples[0].duration / 1e9));
	}
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
	assert.ok([...profiles.values()].some((services) => services.shop.length === 2), 'a step with two scrapes');
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
	assert.equal(table.schema.fields.find((f) => f.name === 'function_name').type.toString(), 'Dictionary<Int32, Binary>');
	assert.equal(table.schema.fields.find((f) => f.name === 'children').type.toString(), 'List<Uint32>');
	assert.equal(table.schema.fields.find((f) => f.name === 'cumulative').type.toString(), 'Uint64');
	const found = new Map(),
		values = (row) => ({ total: Number(column('cumulative').get(row)), self: Number(column('flat').get(row)), diff: Number(column('diff').get(row)) });
	const walk = (row, path) => {
		let below = 0;
		for (const child of column('children').get(row)) {
			const name = text('function_name', child),
				own = path ? `${path};${name}` : name;
			assert.equal(column('parent').get(child), row);
			assert.equal(column('location_address').get(child), null);
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
	assert.equal(response.flamegraph_arrow.height, Math.max(...list.map((s) => s.stack.length)));
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
await test('nodes below a share are trimmed, and it is said', async () => {
	const { flamegraph_arrow } = await web('Query', ask(DELTA, { node_trim_threshold: 10 })),
		whole = treeOf(chosen(CPU)),
		least = sum(chosen(CPU)) / 10,
		kept = [...whole].filter(([, n]) => n.total >= least);
	const table = arrow.tableFromIPC(flamegraph_arrow.record);
	assert.equal(table.numRows, kept.length + 1);
	const trimmed = [...whole]
		.filter(([path, n]) => n.total < least && (!path.includes(';') || whole.get(path.slice(0, path.lastIndexOf(';'))).total >= least))
		.reduce((n, [, node]) => n + node.total, 0);
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
		assert.equal(found.size, new Set([...before.keys(), ...after.keys()]).size);
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
		['Query', ask(DELTA, { report_type: 3 }), 12, /report type 3/],
		['Query', ask(DELTA, { group_by: { fields: ['labels.pid'] } }), 12, /group_by 'labels.pid'/],
		['Query', ask(DELTA, { invert_call_stack: true }), 12, /invert_call_stack/],
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
