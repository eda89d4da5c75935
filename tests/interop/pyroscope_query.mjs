// SPDX-License-Identifier: Apache-2.0
// Pyroscope's query service, asked as Grafana's data source (Connect, protobuf), Profiles Drilldown (Connect, JSON) and gRPC clients
// ask it. What must come out is computed here, from the list of samples that went in.
import assert from 'node:assert/strict';
import http from 'node:http';
import { createRequire } from 'node:module';
import { writeFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { startServer, request, temporaryDirectory, test, finish } from '../harness.mjs';
import { CPU, HEAP, now, minute, knownSamples, send, choose, sum, treeOf, pathsOf, entries } from './known.mjs';

const require = createRequire(new URL('../package.json', import.meta.url));
const grpc = require('@grpc/grpc-js'),
	loader = require('@grpc/proto-loader'),
	protobuf = require('protobufjs');
const directory = temporaryDirectory();
const proto = `syntax = "proto3"; package querier.v1;
service QuerierService {
  rpc ProfileTypes(ProfileTypesRequest) returns (ProfileTypesResponse) {}
  rpc LabelNames(LabelNamesRequest) returns (Names) {}
  rpc LabelValues(LabelValuesRequest) returns (Names) {}
  rpc Series(SeriesRequest) returns (SeriesResponse) {}
  rpc SelectSeries(SelectSeriesRequest) returns (SelectSeriesResponse) {}
  rpc SelectMergeStacktraces(SelectMergeStacktracesRequest) returns (SelectMergeStacktracesResponse) {}
  rpc SelectMergeProfile(SelectMergeProfileRequest) returns (Profile) {}
  rpc Diff(DiffRequest) returns (DiffResponse) {}
}
message ProfileTypesRequest { int64 start = 1; int64 end = 2; }
message ProfileType { string ID = 1; string name = 2; string sample_type = 4; string sample_unit = 5; string period_type = 6; string period_unit = 7; }
message ProfileTypesResponse { repeated ProfileType profile_types = 1; }
message LabelNamesRequest { repeated string matchers = 1; int64 start = 2; int64 end = 3; }
message LabelValuesRequest { string name = 1; repeated string matchers = 2; int64 start = 3; int64 end = 4; }
message Names { repeated string names = 1; }
message LabelPair { string name = 1; string value = 2; }
message Labels { repeated LabelPair labels = 1; }
message SeriesRequest { repeated string matchers = 1; repeated string label_names = 2; int64 start = 3; int64 end = 4; }
message SeriesResponse { repeated Labels labels_set = 2; }
message Location { string name = 1; }
message StackTraceSelector { repeated Location call_site = 1; }
message SelectSeriesRequest { string profile_typeID = 1; string label_selector = 2; int64 start = 3; int64 end = 4; repeated string group_by = 5; double step = 6; int32 aggregation = 7; StackTraceSelector stack_trace_selector = 8; int64 limit = 9; }
message Point { double value = 1; int64 timestamp = 2; }
message Series { repeated LabelPair labels = 1; repeated Point points = 2; }
message SelectSeriesResponse { repeated Series series = 1; }
message SelectMergeStacktracesRequest { string profile_typeID = 1; string label_selector = 2; int64 start = 3; int64 end = 4; int64 max_nodes = 5; int32 format = 6; StackTraceSelector stack_trace_selector = 7; repeated string span_selector = 11; }
message Level { repeated int64 values = 1; }
message FlameGraph { repeated string names = 1; repeated Level levels = 2; int64 total = 3; int64 max_self = 4; int64 leftTicks = 5; int64 rightTicks = 6; }
message PprofProfile { Profile profile = 1; }
message SelectMergeStacktracesResponse { FlameGraph flamegraph = 1; bytes tree = 2; string dot = 3; PprofProfile pprof = 5; }
message SelectMergeProfileRequest { string profile_typeID = 1; string label_selector = 2; int64 start = 3; int64 end = 4; }
message ValueType { int64 type = 1; int64 unit = 2; }
message Sample { repeated uint64 location_id = 1; repeated int64 value = 2; }
message Line { uint64 function_id = 1; int64 line = 2; }
message Loc { uint64 id = 1; uint64 mapping_id = 2; uint64 address = 3; repeated Line line = 4; }
message Function { uint64 id = 1; int64 name = 2; }
message Profile { repeated ValueType sample_type = 1; repeated Sample sample = 2; repeated Loc location = 4; repeated Function function = 5; repeated string string_table = 6; }
message DiffRequest { SelectMergeStacktracesRequest left = 1; SelectMergeStacktracesRequest right = 2; }
message DiffResponse { FlameGraph flamegraph = 1; }`;
writeFileSync(`${directory}/querier.proto`, proto);
const root = protobuf.parse(proto, { keepCase: true }).root;
const plain = { longs: Number, defaults: true, arrays: true, bytes: Buffer };
const server = await startServer(`${directory}/data`);

const samples = knownSamples();
await send(server.port, samples);

// ---- how it is asked

const start = now - minute,
	end = now + 10 * minute;
const post = (method, body, type, headers = {}) =>
	request(server.port, 'POST', `/querier.v1.QuerierService/${method}`, { body, headers: { 'content-type': type, ...headers } });
// As connect-go does it for Grafana: application/proto, and it takes gzip.
const service = root.lookupService('querier.v1.QuerierService');
async function grafana(method, message) {
	const { requestType, responseType } = service.methods[method];
	const In = root.lookupType(`querier.v1.${requestType}`),
		Out = root.lookupType(`querier.v1.${responseType}`);
	const response = await post(method, Buffer.from(In.encode(In.fromObject(message)).finish()), 'application/proto', {
		'connect-protocol-version': '1',
		'accept-encoding': 'gzip',
		'user-agent': 'connect-go/1.16.2 (go1.23.1)',
	});
	assert.equal(response.status, 200, response.body.toString());
	assert.equal(response.headers['content-type'], 'application/proto');
	return Out.toObject(Out.decode(response.headers['content-encoding'] === 'gzip' ? gunzipSync(response.body) : response.body), plain);
}
async function drilldown(path, message) {
	const response = await request(server.port, 'POST', path, { body: Buffer.from(JSON.stringify(message)), headers: { 'content-type': 'application/json' } });
	assert.equal(response.status, 200, response.body.toString());
	return JSON.parse(response.body);
}
const refused = async (method, message) => {
	const response = await post(method, Buffer.from(JSON.stringify(message)), 'application/json');
	return { status: response.status, ...JSON.parse(response.body) };
};

const chosen = (type, filter) => choose(samples, type, { from: start, to: end, ...filter });

await test('types', async () => {
	const { profile_types } = await grafana('ProfileTypes', { start, end });
	assert.deepEqual(profile_types, [
		{ ID: HEAP, name: 'memory', sample_type: 'inuse_space', sample_unit: 'bytes', period_type: '', period_unit: '' },
		{ ID: CPU, name: 'process_cpu', sample_type: 'cpu', sample_unit: 'nanoseconds', period_type: '', period_unit: '' },
	]);
	assert.equal((await grafana('ProfileTypes', {})).profile_types.length, 2, 'no range is all of time');
	assert.equal((await grafana('ProfileTypes', { start: 1, end: 2 })).profile_types.length, 0);
	const response = await drilldown('/querier.v1.QuerierService/ProfileTypes', { start: String(start), end });
	assert.equal(response.profileTypes[1].sampleUnit, 'nanoseconds');
});
await test('label names and values', async () => {
	const { names } = await grafana('LabelNames', { matchers: [`{service_name="shop"}`], start, end });
	assert.deepEqual(names, [
		'__name__',
		'__period_type__',
		'__period_unit__',
		'__profile_type__',
		'__service_name__',
		'__type__',
		'__unit__',
		'region',
		'service_name',
	]);
	const values = async (name, ...matchers) => (await grafana('LabelValues', { name, matchers, start, end })).names;
	assert.deepEqual(await values('service_name'), ['ads', 'mail', 'shop']);
	assert.deepEqual(await values('service_name', `{service_name=~"m.*|s.*"}`), ['mail', 'shop']);
	assert.deepEqual(await values('service_name', `{service_name="ads"}`, `{service_name="mail"}`), ['ads', 'mail']);
	assert.deepEqual(await values('region', `{__profile_type__="${HEAP}"}`), ['eu']);
	assert.deepEqual(await values('__profile_type__', `{service_name="shop"}`), [HEAP, CPU]);
	assert.deepEqual(await values('__unit__'), ['bytes', 'nanoseconds']);
	assert.deepEqual(await values('no_such_label'), []);
	assert.deepEqual(await values('__service_name__', `{__service_name__!="ads"}`), ['mail', 'shop']);
});
await test('series: services with their types, as the first page asks', async () => {
	const response = await drilldown('/querier.v1.QuerierService/Series', { start, end, labelNames: ['service_name', '__profile_type__'], matchers: [] });
	const found = response.labelsSet.map(({ labels }) => Object.fromEntries(labels.map(({ name, value }) => [name, value])));
	assert.deepEqual(
		found.map((l) => `${l.service_name} ${l.__profile_type__}`).sort(),
		['ads', 'mail', 'shop'].flatMap((s) => [`${s} ${HEAP}`, `${s} ${CPU}`]).sort(),
	);
	const all = await grafana('Series', { matchers: [`{__profile_type__="${HEAP}",service_name="shop"}`], start, end });
	assert.deepEqual(all.labels_set, [
		{
			labels: [
				['__name__', 'memory'],
				['__profile_type__', HEAP],
				['__type__', 'inuse_space'],
				['__unit__', 'bytes'],
				['region', 'eu'],
				['service_name', 'shop'],
			].map(([name, value]) => ({ name, value })),
		},
	]);
});
await test('flame graphs have the nodes of the samples that were sent', async () => {
	for (const [selector, filter] of [
		['{}', {}],
		[`{service_name="shop"}`, { service: 'shop' }],
		[`{service_name="mail", region!="us"}`, { service: 'mail', region: 'eu' }],
	]) {
		const { flamegraph } = await grafana('SelectMergeStacktraces', { profile_typeID: CPU, label_selector: selector, start, end, max_nodes: 16384 });
		const list = chosen(CPU, filter),
			expected = treeOf(list);
		assert.equal(flamegraph.total, sum(list));
		assert.equal(flamegraph.names[0], 'total');
		assert.equal(flamegraph.max_self, Math.max(...[...expected.values()].map((n) => n.self)));
		assert.deepEqual(entries(pathsOf(flamegraph)), entries(expected));
	}
});
await test('ranges include both ends, to the millisecond', async () => {
	const total = async (from, to) =>
		(await grafana('SelectMergeStacktraces', { profile_typeID: CPU, label_selector: '{}', start: from, end: to })).flamegraph.total;
	assert.equal(await total(now, now + minute), sum(chosen(CPU, { from: now, to: now + minute })));
	assert.equal(await total(now + 1, now + minute - 1), 0);
});
await test('too many nodes: those smaller than the n-th largest are other', async () => {
	const whole = treeOf(chosen(CPU));
	for (const n of [1, 3, 10, 40]) {
		const { flamegraph } = await grafana('SelectMergeStacktraces', { profile_typeID: CPU, label_selector: '{}', start, end, max_nodes: n });
		const least = [...whole.values()].map((v) => v.total).sort((a, b) => b - a)[n - 1] ?? 0,
			expected = new Map(),
			others = new Map();
		for (const [path, node] of whole) if (node.total >= least) expected.set(path, node);
		for (const [path, node] of whole) {
			const parent = path.split(';').slice(0, -1).join(';');
			if (node.total < least && (parent === '' || expected.has(parent))) others.set(parent, (others.get(parent) ?? 0) + node.total);
		}
		for (const [parent, total] of others) expected.set(parent ? `${parent};other` : 'other', { total, self: total });
		assert.deepEqual(entries(pathsOf(flamegraph)), entries(expected), `max_nodes ${n}`);
	}
});
await test('the tree as bytes', async () => {
	const { tree } = await grafana('SelectMergeStacktraces', { profile_typeID: CPU, label_selector: '{}', start, end, format: 2 });
	let at = 0;
	const varint = () => {
		let n = 0,
			shift = 1;
		for (; ; shift *= 128) {
			const byte = tree[at++];
			n += (byte & 127) * shift;
			if (byte < 128) return n;
		}
	};
	const selves = new Map();
	const node = (path) => {
		const length = varint(),
			name = tree.toString('utf8', at, (at += length)),
			self = varint(),
			children = varint(),
			own = path === null ? '' : path ? `${path};${name}` : name;
		if (self) selves.set(own, self);
		for (let i = 0; i < children; i++) node(own);
	};
	node(null);
	assert.equal(at, tree.length);
	assert.deepEqual(entries(selves), entries(new Map([...treeOf(chosen(CPU))].filter(([, n]) => n.self).map(([p, n]) => [p, n.self]))));
});
const stacksOf = (profile) => {
	const text = profile.string_table,
		functions = new Map(profile.function.map((f) => [f.id, text[f.name]])),
		locations = new Map(profile.location.map((l) => [l.id, l.line.map((x) => functions.get(x.function_id))]));
	return profile.sample.map((s) => ({ stack: s.location_id.flatMap((id) => locations.get(id)).reverse(), value: s.value[0] }));
};
await test('pprof, by its own call and as a format', async () => {
	const ask = { profile_typeID: CPU, label_selector: `{service_name="ads"}`, start, end };
	const profile = await grafana('SelectMergeProfile', ask);
	assert.deepEqual(entries(treeOf(stacksOf(profile))), entries(treeOf(chosen(CPU, { service: 'ads' }))));
	assert.equal(profile.string_table[profile.sample_type[0].unit], 'nanoseconds');
	const inside = (await grafana('SelectMergeStacktraces', { ...ask, format: 4 })).pprof.profile;
	assert.deepEqual(entries(treeOf(stacksOf(inside))), entries(treeOf(chosen(CPU, { service: 'ads' }))));
	const { dot } = await grafana('SelectMergeStacktraces', { ...ask, format: 3 });
	const nodes = [...dot.matchAll(/^N\d+ \[label="([^\\]+)\\n.*tooltip="/gm)].map(([, name]) => name);
	assert.deepEqual(nodes.sort(), [...new Set(chosen(CPU, { service: 'ads' }).flatMap((s) => s.stack))].sort());
	const json = await drilldown('/querier.v1.QuerierService/SelectMergeProfile', { profileTypeID: CPU, labelSelector: `{service_name="ads"}`, start, end });
	assert.equal(
		json.sample.reduce((n, s) => n + Number(s.value[0]), 0),
		sum(chosen(CPU, { service: 'ads' })),
	);
});
await test('a call site: only what is called from there', async () => {
	const site = ['main', 'f1'],
		list = chosen(CPU).filter((s) => s.stack[0] === site[0] && s.stack[1] === site[1]);
	assert.ok(list.length > 0 && list.length < chosen(CPU).length);
	const { flamegraph } = await grafana('SelectMergeStacktraces', {
		profile_typeID: CPU,
		label_selector: '{}',
		start,
		end,
		stack_trace_selector: { call_site: site.map((name) => ({ name })) },
	});
	assert.deepEqual(entries(pathsOf(flamegraph)), entries(treeOf(list)));
});
await test('values over time: a point is the step that ends with it', async () => {
	for (const [from, step] of [
		[now, 60],
		[now - 30000, 60],
		[now - 59999, 90],
		[now + 1, 15],
	]) {
		const to = now + 9 * minute,
			{ series } = await grafana('SelectSeries', { profile_typeID: CPU, label_selector: '{}', start: from, end: to, step, group_by: ['service_name'] });
		const expected = ['ads', 'mail', 'shop'].map((service) => {
			const points = new Map();
			for (let t = from; t <= to; t += step * 1000) {
				const value = sum(samples.filter((s) => s.type === CPU && s.service === service && s.time > t - step * 1000 && s.time <= t));
				if (value) points.set(t, value);
			}
			return { labels: [{ name: 'service_name', value: service }], points: [...points].map(([timestamp, value]) => ({ value, timestamp })) };
		});
		assert.deepEqual(series, expected, `from ${from - now}, step ${step}`);
	}
});
await test('the largest, averages, groups by type', async () => {
	const ask = { profile_typeID: CPU, label_selector: '{}', start: now, end, step: 3600 };
	const totals = new Map(['ads', 'mail', 'shop'].map((s) => [s, sum(chosen(CPU, { service: s }))]));
	const largest = await grafana('SelectSeries', { ...ask, step: 60, group_by: ['service_name'], limit: 2 });
	assert.deepEqual(
		largest.series.map((s) => s.labels[0].value),
		[...totals]
			.sort(([, a], [, b]) => b - a)
			.slice(0, 2)
			.map(([s]) => s),
	);
	const { series } = await grafana('SelectSeries', {
		profile_typeID: HEAP,
		label_selector: `{service_name="shop"}`,
		start: now - 1,
		end,
		step: 240,
		aggregation: 1,
	});
	// The values of the minutes 0 to 4 are 100 to 500; the steps end 1 ms before the minutes 0, 4 and 8.
	assert.deepEqual(
		series[0].points.map((p) => [p.value, (p.timestamp - now + 1) / minute]),
		[
			[250, 4],
			[500, 8],
		],
	);
	const grouped = await grafana('SelectSeries', { ...ask, step: 60, group_by: ['__profile_type__'] });
	assert.deepEqual(
		grouped.series.map((s) => s.labels),
		[[{ name: '__profile_type__', value: CPU }]],
	);
});
await test('distributions', async () => {
	const { series } = await drilldown('/querier.v1.QuerierService/SelectHeatmap', {
		profileTypeID: HEAP,
		labelSelector: '{}',
		start: now,
		end,
		step: 120,
		queryType: 'HEATMAP_QUERY_TYPE_INDIVIDUAL',
	});
	assert.equal(series.length, 1);
	assert.deepEqual(
		series[0].slots.map((s) => (Number(s.timestamp) - now) / minute),
		[2, 4, 6],
	);
	assert.equal(series[0].slots[0].yMin.length, 20);
	assert.deepEqual(series[0].slots[0].yMin.slice(0, 3), [100, 120, 140]);
	const counts = series[0].slots.map((s) => s.counts.map((n, i) => [i, n]).filter(([, n]) => n));
	assert.deepEqual(counts, [
		[
			[0, 3],
			[5, 3],
		],
		[
			[10, 3],
			[15, 3],
		],
		[[19, 3]],
	]); // 100 and 200 of three services, 300 and 400, 500
});
await test('two sides, laid over each other', async () => {
	const half = now + 4 * minute + 1,
		ask = { profile_typeID: CPU, label_selector: '{}' };
	const { flamegraph } = await grafana('Diff', { left: { ...ask, start, end: half, max_nodes: 100000 }, right: { ...ask, start: half, end } });
	const left = treeOf(chosen(CPU, { to: half })),
		right = treeOf(chosen(CPU, { from: half })),
		none = { total: 0, self: 0 },
		expected = new Map();
	for (const path of new Set([...left.keys(), ...right.keys()])) {
		const a = left.get(path) ?? none,
			b = right.get(path) ?? none;
		expected.set(path, { total: [a.total, b.total], self: [a.self, b.self] });
	}
	assert.deepEqual(entries(pathsOf(flamegraph, 7)), entries(expected));
	assert.equal(flamegraph.leftTicks, sum(chosen(CPU, { to: half })));
	assert.equal(flamegraph.total, flamegraph.leftTicks + flamegraph.rightTicks);
});
await test('about the data', async () => {
	const stats = await drilldown('/querier.v1.QuerierService/GetProfileStats', {});
	assert.deepEqual(stats, { dataIngested: true, oldestProfileTime: String(now), newestProfileTime: String(Math.max(...samples.map((s) => s.time))) });
	const analysis = await drilldown('/querier.v1.QuerierService/AnalyzeQuery', { start, end, query: `${CPU}{service_name="shop"}` });
	const [head, blocks] = analysis.queryScopes;
	assert.deepEqual([head.componentType, blocks], ['Short term storage', { componentType: 'Long term storage' }]);
	assert.equal(head.sampleCount, String(new Set(samples.map((s) => JSON.stringify(s))).size));
	assert.equal(head.profileCount, String(new Set(chosen(CPU, { service: 'shop' }).map((s) => s.time)).size));
	assert.equal(analysis.queryImpact.totalBytesInTimeRange, head.profileBytes);
	assert.equal(analysis.queryImpact.totalQueriedSeries, '2', 'of shop in two regions');
});
await test("what Grafana's pages ask besides", async () => {
	assert.deepEqual(await drilldown('/settings.v1.SettingsService/Get', {}), {});
	assert.deepEqual(await drilldown('/settings.v1.RecordingRulesService/ListRecordingRules', {}), {});
	assert.deepEqual(await drilldown('/capabilities.v1.FeatureFlagsService/GetFeatureFlags', {}), {});
	assert.deepEqual(await drilldown('/version.v1.Version/Version', {}), { QuerierAPI: '1' });
});
await test('no data is an empty answer', async () => {
	const { flamegraph } = await grafana('SelectMergeStacktraces', { profile_typeID: CPU, label_selector: `{service_name="none"}`, start, end });
	assert.deepEqual([flamegraph.total, flamegraph.names, flamegraph.levels], [0, ['total'], [{ values: [0, 0, 0, 0] }]]);
	assert.deepEqual(await grafana('SelectSeries', { profile_typeID: CPU, label_selector: `{service_name="none"}`, start, end, step: 15 }), { series: [] });
	assert.equal((await grafana('SelectMergeStacktraces', { profile_typeID: CPU, label_selector: '{}', start: 1000, end: 2000 })).flamegraph.total, 0);
});
await test('bad questions are invalid arguments that say why', async () => {
	const ask = { profileTypeID: CPU, labelSelector: '{}', start, end };
	for (const [method, message, pattern] of [
		['SelectMergeStacktraces', { ...ask, labelSelector: '{a=' }, /expected a value in double quotes/],
		['SelectMergeStacktraces', { ...ask, profileTypeID: 'process_cpu' }, /must be of the form <name>:<sample-type>/],
		['SelectMergeStacktraces', { ...ask, start: 0 }, /missing time range/],
		['SelectMergeStacktraces', { ...ask, start: end, end: start }, /invalid time range/],
		['SelectMergeStacktraces', { ...ask, maxNodes: 10000000 }, /greater than allowed/],
		['SelectSeries', { ...ask, step: 0 }, /step must be >= 1ms/],
		['SelectSeries', { ...ask, step: 0.001 }, /more than 11000 points/],
		['SelectSeries', { ...ask, step: 60, groupBy: ['a-b'] }, /not a label name/],
		['LabelNames', { matchers: ['{'] }, /expected/],
		['LabelValues', { start, end }, /label name is missing/],
		['Diff', { left: ask }, /right|missing time range/],
	]) {
		const { status, code, message: text } = await refused(method, message);
		assert.equal(status, 400, `${method} ${JSON.stringify(message)}: ${text}`);
		assert.equal(code, 'invalid_argument');
		assert.match(text, pattern);
	}
	assert.equal((await refused('SelectMergeStacktraces', { ...ask, format: 9 })).code, 'unimplemented');
});
await test('unknown procedures, in the form of each protocol', async () => {
	const path = '/querier.v1.QuerierService/Nothing';
	for (const [type, body] of [
		['application/json', '{}'],
		['application/proto', ''],
	]) {
		const response = await request(server.port, 'POST', path, { body: Buffer.from(body), headers: { 'content-type': type } });
		assert.equal(response.status, 404);
		assert.deepEqual(JSON.parse(response.body), { code: 'unimplemented', message: `unknown procedure ${path}` });
	}
	const web = await request(server.port, 'POST', path, { body: Buffer.from([0, 0, 0, 0, 0]), headers: { 'content-type': 'application/grpc-web+proto' } });
	assert.match(web.body.toString(), /grpc-status: 12\r\n/);
	const other = await request(server.port, 'POST', '/nothing/there', { body: Buffer.from('{}'), headers: { 'content-type': 'application/json' } });
	assert.deepEqual([other.status, Object.keys(JSON.parse(other.body))], [405, ['error']], 'no procedure has such a path');
});
await test('readiness', async () => {
	const response = await request(server.port, 'GET', '/ready');
	assert.deepEqual([response.status, response.body.toString()], [200, 'ready\n']);
});
await test('gRPC over HTTP/1.1, as connect-go sends it where HTTP/2 is not to be had', async () => {
	const In = root.lookupType('querier.v1.ProfileTypesRequest'),
		Out = root.lookupType('querier.v1.ProfileTypesResponse');
	const message = Buffer.from(In.encode(In.fromObject({ start, end })).finish()),
		body = Buffer.concat([Buffer.from([0, 0, 0, 0, message.length]), message]);
	const call = (path, data) =>
		new Promise((resolve, reject) => {
			const headers = { 'content-type': 'application/grpc', te: 'trailers', 'content-length': data.length };
			http.request({ host: '127.0.0.1', port: server.port, method: 'POST', path, headers, agent: false }, (response) => {
				const chunks = [];
				response.on('data', (chunk) => chunks.push(chunk));
				response.on('end', () => resolve({ status: response.statusCode, trailers: response.trailers, body: Buffer.concat(chunks) }));
			})
				.on('error', reject)
				.end(data);
		});
	const good = await call('/querier.v1.QuerierService/ProfileTypes', body);
	assert.deepEqual([good.status, good.trailers['grpc-status']], [200, '0']);
	assert.equal(good.body.readUInt32BE(1), good.body.length - 5);
	assert.deepEqual(
		Out.decode(good.body.subarray(5)).profile_types.map((type) => type.ID),
		[HEAP, CPU],
	);
	const bad = await call('/querier.v1.QuerierService/SelectSeries', Buffer.from([0, 0, 0, 0, 0]));
	assert.deepEqual([bad.status, bad.trailers['grpc-status'], bad.body.length], [200, '3', 0]);
	assert.match(decodeURIComponent(bad.trailers['grpc-message']), /time range/);
	const unknown = await call('/querier.v1.QuerierService/Nothing', body);
	assert.deepEqual([unknown.status, unknown.trailers['grpc-status']], [200, '12']);
	assert.match(decodeURIComponent(unknown.trailers['grpc-message']), /unknown procedure/);
});
await test("gRPC, by the gRPC project's client", async () => {
	const Client = grpc.loadPackageDefinition(loader.loadSync(`${directory}/querier.proto`, { keepCase: true, longs: Number })).querier.v1.QuerierService;
	const client = new Client(`127.0.0.1:${server.port}`, grpc.credentials.createInsecure());
	const call = (method, message) => new Promise((resolve) => client[method](message, (error, response) => resolve(error ?? response)));
	const { flamegraph } = await call('SelectMergeStacktraces', { profile_typeID: CPU, label_selector: '{}', start, end });
	assert.deepEqual(entries(pathsOf(flamegraph)), entries(treeOf(chosen(CPU))));
	const bad = await call('SelectMergeStacktraces', { profile_typeID: CPU, label_selector: '{a', start, end });
	assert.equal(bad.code, grpc.status.INVALID_ARGUMENT);
	client.close();
});
await server.stop();
finish();
