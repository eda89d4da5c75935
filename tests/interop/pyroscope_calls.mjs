// SPDX-License-Identifier: Apache-2.0
// What Pyroscope's clients ask beyond flame graphs and series: exemplars and profile ids, call sites of several frames, pprofs for Go's compiler and of
// few nodes, what a query costs, queries that run in the background. Each is asked in JSON and in protobuf, and what must come out is computed here.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { startServer, request, temporaryDirectory, test, finish, pprofProfile } from '../harness.mjs';
import { CPU, now, minute, knownSamples, send, choose, sum, treeOf, pathsOf, entries } from './known.mjs';

const protobuf = createRequire(new URL('../package.json', import.meta.url))('protobufjs');
const root = protobuf.parse(
	`syntax = "proto3"; package q;
message LabelPair { string name = 1; string value = 2; }
message Location { string name = 1; }
message GoPGO { uint32 keep_locations = 1; bool aggregate_callees = 2; }
message StackTraceSelector { repeated Location call_site = 1; GoPGO go_pgo = 2; }
message Async { string request_id = 1; int32 type = 2; }
message AsyncResponse { string request_id = 1; int32 status = 2; string error_message = 3; }
message SelectMergeStacktracesRequest { string profile_typeID = 1; string label_selector = 2; int64 start = 3; int64 end = 4; int64 max_nodes = 5; int32 format = 6; StackTraceSelector stack_trace_selector = 7; repeated string profile_id_selector = 8; Async async = 9; }
message Level { repeated int64 values = 1; }
message FlameGraph { repeated string names = 1; repeated Level levels = 2; int64 total = 3; int64 max_self = 4; }
message PprofProfile { Profile profile = 1; }
message SelectMergeStacktracesResponse { FlameGraph flamegraph = 1; AsyncResponse async = 4; PprofProfile pprof = 5; }
message SelectMergeProfileRequest { string profile_typeID = 1; string label_selector = 2; int64 start = 3; int64 end = 4; int64 max_nodes = 5; StackTraceSelector stack_trace_selector = 6; repeated string profile_id_selector = 7; }
message ValueType { int64 type = 1; int64 unit = 2; }
message Sample { repeated uint64 location_id = 1; repeated int64 value = 2; }
message Line { uint64 function_id = 1; int64 line = 2; }
message Loc { uint64 id = 1; uint64 address = 3; repeated Line line = 4; }
message Function { uint64 id = 1; int64 name = 2; }
message Profile { repeated ValueType sample_type = 1; int64 time_nanos = 9; repeated Sample sample = 2; repeated Loc location = 4; repeated Function function = 5; repeated string string_table = 6; }
message SelectSeriesRequest { string profile_typeID = 1; string label_selector = 2; int64 start = 3; int64 end = 4; repeated string group_by = 5; double step = 6; optional int32 aggregation = 7; StackTraceSelector stack_trace_selector = 8; int64 limit = 9; int32 exemplar_type = 10; }
message Exemplar { int64 timestamp = 1; string profile_id = 2; string span_id = 3; int64 value = 4; repeated LabelPair labels = 5; string trace_id = 6; }
message Point { double value = 1; int64 timestamp = 2; repeated Exemplar exemplars = 4; }
message Series { repeated LabelPair labels = 1; repeated Point points = 2; }
message SelectSeriesResponse { repeated Series series = 1; }
message SelectHeatmapRequest { string profile_typeID = 1; string label_selector = 2; int64 start = 3; int64 end = 4; double step = 5; repeated string group_by = 6; int32 query_type = 7; int32 exemplar_type = 8; int64 limit = 9; }
message Slot { int64 timestamp = 1; repeated double y_min = 2; repeated int32 counts = 3; repeated Exemplar exemplars = 4; }
message HeatmapSeries { repeated LabelPair labels = 1; repeated Slot slots = 2; }
message SelectHeatmapResponse { repeated HeatmapSeries series = 1; }`,
	{ keepCase: true },
).root;
const plain = { longs: Number, defaults: true, arrays: true, bytes: Buffer };
const directory = `${temporaryDirectory()}/data`;
let server = await startServer(directory);
const samples = knownSamples(),
	start = now - minute,
	end = now + 10 * minute;
await send(server.port, samples);
const chosen = (filter) => choose(samples, CPU, { from: start, to: end, ...filter });
const path = (method) => `/querier.v1.QuerierService/${method}`;

async function json(method, message, status = 200) {
	const response = await request(server.port, 'POST', path(method), { body: Buffer.from(JSON.stringify(message)), headers: { 'content-type': 'application/json' } });
	assert.equal(response.status, status, response.body.toString());
	return JSON.parse(response.body);
}
async function binary(method, message, output) {
	const In = root.lookupType(`q.${method}Request`),
		Out = root.lookupType(`q.${output ?? `${method}Response`}`);
	const body = Buffer.from(In.encode(In.fromObject(message)).finish());
	const response = await request(server.port, 'POST', path(method), { body, headers: { 'content-type': 'application/proto' } });
	assert.equal(response.status, 200, response.body.toString());
	return Out.toObject(Out.decode(response.body), plain);
}
const ask = { profile_typeID: CPU, label_selector: '{}', start, end };
const stacksOf = (profile) => {
	const text = profile.string_table,
		functions = new Map(profile.function.map((f) => [f.id, text[f.name]])),
		locations = new Map(profile.location.map((l) => [l.id, l.line.map((x) => functions.get(x.function_id))]));
	return profile.sample.map((s) => ({ stack: s.location_id.flatMap((id) => locations.get(id)).reverse(), value: s.value[0] }));
};
const sumsOf = (list) => {
	const sums = new Map();
	for (const { stack, value } of list) sums.set(stack.join(';'), (sums.get(stack.join(';')) ?? 0) + value);
	return entries(sums);
};
// What one series had at one time is a profile.
const profilesOf = (list) => {
	const found = new Map();
	for (const s of list) {
		const key = `${s.time} ${s.service} ${s.region}`;
		if (!found.has(key)) found.set(key, { time: s.time, service: s.service, region: s.region, list: [] });
		found.get(key).list.push(s);
	}
	return [...found.values()].map((p) => ({ ...p, total: sum(p.list) }));
};
const labelsOf = (labels) => Object.fromEntries(labels.map(({ name, value }) => [name, value]));

await test('exemplars: the largest profile of each point, which its id finds again', async () => {
	for (const aggregation of [0, 1]) {
		const { series } = await binary('SelectSeries', { ...ask, start: now, step: 120, group_by: ['service_name'], exemplar_type: 2, aggregation });
		assert.equal(series.length, 3);
		for (const { labels, points } of series) {
			const { service_name: service } = labelsOf(labels);
			assert.equal(points.length, 6);
			for (const { timestamp, exemplars } of points) {
				const [best] = profilesOf(samples.filter((s) => s.type === CPU && s.service === service && s.time > timestamp - 2 * minute && s.time <= timestamp)).sort(
					(a, b) => b.total - a.total,
				);
				assert.equal(exemplars.length, 1);
				const [exemplar] = exemplars;
				assert.deepEqual([exemplar.timestamp, exemplar.value, labelsOf(exemplar.labels)], [best.time, best.total, { region: best.region }]);
				assert.match(exemplar.profile_id, /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
				const { flamegraph } = await binary('SelectMergeStacktraces', { ...ask, profile_id_selector: [exemplar.profile_id] });
				assert.deepEqual(entries(pathsOf(flamegraph)), entries(treeOf(best.list)));
			}
		}
	}
	const { series } = await json('SelectSeries', { profileTypeID: CPU, labelSelector: '{}', start, end, step: 660, exemplarType: 'EXEMPLAR_TYPE_INDIVIDUAL' });
	const [best] = profilesOf(chosen()).sort((a, b) => b.total - a.total);
	const [{ exemplars }] = series[0].points.filter((p) => p.exemplars[0].value === String(best.total));
	assert.deepEqual([exemplars.length, exemplars[0].timestamp], [1, String(best.time)]);
});
const idsOf = async (selector) => {
	const { series } = await binary('SelectHeatmap', {
		...ask,
		label_selector: selector,
		step: 60,
		query_type: 1,
		exemplar_type: 2,
		group_by: ['service_name', 'region'],
	});
	return series.flatMap((s) => s.slots.flatMap((slot) => slot.exemplars.map((e) => ({ ...labelsOf(s.labels), ...e }))));
};
await test('ids are the same at all times and in all calls, and select profiles together', async () => {
	const all = await idsOf('{}'),
		expected = profilesOf(chosen());
	assert.deepEqual(
		all.map((e) => `${e.timestamp} ${e.service_name} ${e.region} ${e.value}`).sort(),
		expected.map((p) => `${p.time} ${p.service} ${p.region} ${p.total}`).sort(),
	);
	assert.equal(new Set(all.map((e) => e.profile_id)).size, all.length);
	const shop = await idsOf('{service_name="shop"}');
	for (const e of shop) assert.ok(all.some((a) => a.profile_id === e.profile_id && a.timestamp === e.timestamp && a.service_name === 'shop'));
	const some = all.filter((_, i) => i % 4 === 0),
		list = expected.filter((p) => some.some((e) => e.timestamp === p.time && e.service_name === p.service)).flatMap((p) => p.list);
	assert.ok(some.length > 3);
	const ids = some.map((e) => e.profile_id);
	for (const profile_id_selector of [ids, [...ids, ...ids].reverse()]) {
		const profile = await binary('SelectMergeProfile', { ...ask, profile_id_selector }, 'Profile');
		assert.deepEqual(sumsOf(stacksOf(profile)), sumsOf(list));
	}
	const mixed = await binary('SelectMergeProfile', { ...ask, label_selector: '{service_name="mail"}', profile_id_selector: ids }, 'Profile');
	assert.deepEqual(sumsOf(stacksOf(mixed)), sumsOf(list.filter((s) => s.service === 'mail')), 'the selector holds as well');
	const early = await json('SelectMergeStacktraces', { profileTypeID: CPU, labelSelector: '{}', start: 1000, end: 2000, profileIdSelector: ids });
	assert.equal(early.flamegraph.total ?? '0', '0', 'and so does the range');
});
await test('ids that are none, of other servers, and too many', async () => {
	const empty = await binary('SelectMergeStacktraces', { ...ask, profile_id_selector: ['7c9e6679-7425-40de-944b-e07fc1f90ae7'] });
	assert.deepEqual([empty.flamegraph.total, empty.flamegraph.names], [0, ['total']]);
	const [{ profile_id }] = await idsOf('{service_name="shop"}');
	const other = profile_id.replace(/.$/, (c) => (c === '0' ? '1' : '0'));
	assert.equal((await binary('SelectMergeStacktraces', { ...ask, profile_id_selector: [other] })).flamegraph.total, 0, 'the check fails');
	for (const [list, pattern] of [
		[['x'], /"x" is not a UUID/],
		[[profile_id.replaceAll('-', '')], /is not a UUID/],
		[Array(101).fill(profile_id), /more than 100 ids/],
	]) {
		const { code, message } = await json('SelectMergeStacktraces', { profileTypeID: CPU, labelSelector: '{}', start, end, profileIdSelector: list }, 400);
		assert.equal(code, 'invalid_argument');
		assert.match(message, pattern);
	}
});
await test('spans: values without exemplars, and a distribution of nothing', async () => {
	const { series } = await binary('SelectSeries', { ...ask, step: 60, exemplar_type: 3 });
	assert.equal(
		series[0].points.reduce((n, p) => n + p.value, 0),
		sum(chosen()),
	);
	assert.ok(series[0].points.every((p) => p.exemplars.length === 0));
	assert.deepEqual(await binary('SelectHeatmap', { ...ask, step: 60, query_type: 2, exemplar_type: 3 }), { series: [] });
	for (const message of [
		{ queryType: 'HEATMAP_QUERY_TYPE_SPAN', exemplarType: 'EXEMPLAR_TYPE_INDIVIDUAL' },
		{ queryType: 'HEATMAP_QUERY_TYPE_INDIVIDUAL', exemplarType: 'EXEMPLAR_TYPE_SPAN' },
	])
		assert.match((await json('SelectHeatmap', { profileTypeID: CPU, labelSelector: '{}', start, end, step: 60, ...message }, 400)).message, /only available for/);
});
await test('call sites of several frames, for values over time as for flame graphs', async () => {
	const sites = [['main'], ['main', 'f1'], ['main', 'f1', 'f2'], ['main', 'f3', 'f0'], ['f1'], ['main', 'nothing']];
	let deep = 0;
	for (const site of sites) {
		const list = chosen().filter((s) => site.every((name, i) => s.stack[i] === name)),
			stack_trace_selector = { call_site: site.map((name) => ({ name })) };
		const { series } = await binary('SelectSeries', { ...ask, step: 60, stack_trace_selector });
		const points = new Map();
		for (const s of list) points.set(Math.ceil((s.time - start) / minute) * minute + start, (points.get(Math.ceil((s.time - start) / minute) * minute + start) ?? 0) + s.value);
		assert.deepEqual(series.flatMap((s) => s.points.map((p) => [p.timestamp, p.value])), entries(points), site.join());
		const { flamegraph } = await binary('SelectMergeStacktraces', { ...ask, stack_trace_selector });
		assert.deepEqual(entries(pathsOf(flamegraph)), entries(treeOf(list)));
		deep += site.length > 2 && list.length > 0;
	}
	assert.ok(deep > 0, 'one of three frames has samples');
});
await test('a pprof of few nodes: what is below them is other', async () => {
	const whole = treeOf(chosen()),
		totals = [...whole.values()].map((n) => n.total).sort((a, b) => b - a);
	for (const max_nodes of [1, 2, 5, 20]) {
		for (const profile of [
			await binary('SelectMergeProfile', { ...ask, max_nodes }, 'Profile'),
			(await binary('SelectMergeStacktraces', { ...ask, max_nodes, format: 4 })).pprof.profile,
		]) {
			const found = treeOf(stacksOf(profile));
			assert.equal(sum(stacksOf(profile)), sum(chosen()));
			const kept = [...found].filter(([name]) => !name.endsWith('other'));
			assert.equal(kept.length, max_nodes);
			for (const [name, node] of kept) {
				assert.equal(node.total, whole.get(name).total, name);
				assert.ok(node.total >= totals[max_nodes - 1]);
			}
			for (const [name] of found) if (name.endsWith('other')) assert.ok(!found.has(`${name};other`));
		}
	}
	assert.deepEqual(sumsOf(stacksOf(await binary('SelectMergeProfile', ask, 'Profile'))), sumsOf(chosen()), 'without max_nodes it is all');
});
await test("for Go's compiler: a few frames from the leaf, callees as one", async () => {
	for (const keep of [0, 1, 2, 3]) {
		const go_pgo = { keep_locations: keep, aggregate_callees: false },
			shortened = chosen().map((s) => ({ stack: keep ? s.stack.slice(-keep) : s.stack, value: s.value }));
		const stack_trace_selector = { call_site: [{ name: 'nothing' }], go_pgo };
		const profile = await binary('SelectMergeProfile', { ...ask, stack_trace_selector }, 'Profile');
		assert.deepEqual(sumsOf(stacksOf(profile)), sumsOf(shortened));
		assert.equal(profile.sample.length, new Set(shortened.map((s) => s.stack.join())).size, 'equal stacks are one');
		const inside = (await binary('SelectMergeStacktraces', { ...ask, format: 4, stack_trace_selector })).pprof.profile;
		assert.deepEqual(sumsOf(stacksOf(inside)), sumsOf(shortened));
	}
	// main calls work at line 3; work is sampled at lines 11 and 12, and calls leaf at line 13.
	const Profile = root.lookupType('q.Profile');
	const line = (id, line) => ({ id, address: 4096 + id, line: [{ function_id: id === 1 ? 1 : id < 5 ? 2 : 3, line }] });
	const body = Profile.encode(
		Profile.fromObject({
			sample_type: [{ type: 1, unit: 2 }],
			sample: [
				{ location_id: [2, 1], value: [1] },
				{ location_id: [3, 1], value: [10] },
				{ location_id: [5, 4, 1], value: [100] },
			],
			location: [line(1, 3), line(2, 11), line(3, 12), line(4, 13), line(5, 21)],
			function: [
				{ id: 1, name: 3 },
				{ id: 2, name: 4 },
				{ id: 3, name: 5 },
			],
			string_table: ['', 'cpu', 'nanoseconds', 'main', 'work', 'leaf'],
			time_nanos: now * 1e6,
		}),
	).finish();
	const stored = await request(server.port, 'POST', '/api/v1/ingest?name=go&label=service_name%3Dgo', { body: Buffer.from(body) });
	assert.equal(stored.status, 200, stored.body.toString());
	const { series: types } = await json('SelectSeries', { profileTypeID: 'go:cpu:nanoseconds::', labelSelector: '{}', start, end, step: 660 });
	assert.equal(types.length, 1);
	const stack_trace_selector = { go_pgo: { keep_locations: 2, aggregate_callees: true } };
	const merged = await binary('SelectMergeProfile', { ...ask, profile_typeID: 'go:cpu:nanoseconds::', stack_trace_selector }, 'Profile');
	const lines = new Map(merged.location.map((l) => [l.id, l.line[0].line]));
	assert.deepEqual(
		merged.sample.map((s) => [s.value[0], ...s.location_id.map((id) => lines.get(id))]).sort((a, b) => a[0] - b[0]),
		[
			[11, 0, 3],
			[100, 0, 13],
		],
	);
	const { flamegraph } = await binary('SelectMergeStacktraces', { ...ask, stack_trace_selector: { go_pgo: { keep_locations: 1 } } });
	assert.deepEqual(entries(pathsOf(flamegraph)), entries(treeOf(chosen())), 'a flame graph stays whole');
	assert.equal((await binary('SelectSeries', { ...ask, step: 660, stack_trace_selector: { go_pgo: {} } })).series[0].points.reduce((n, p) => n + p.value, 0), sum(chosen()));
});
await test('queries in the background', async () => {
	const force = (request_id) => ({ async: { type: 1, request_id } });
	const submitted = await binary('SelectMergeStacktraces', { ...ask, ...force('') });
	assert.equal(submitted.async.status, 1);
	assert.match(submitted.async.request_id, /^[0-9a-f]{32}$/);
	assert.ok(!submitted.flamegraph);
	const ended = async (id, poll = (wanted) => binary('SelectMergeStacktraces', force(wanted))) => {
		for (const until = Date.now() + 60000; Date.now() < until; await new Promise((resolve) => setTimeout(resolve, 20))) {
			const response = await poll(id);
			if (![1, 'ASYNC_QUERY_STATUS_IN_PROGRESS'].includes(response.async.status)) return response;
		}
		throw new Error('it does not end');
	};
	for (let i = 0; i < 2; i++) {
		const response = await ended(submitted.async.request_id);
		assert.deepEqual([response.async.status, response.async.request_id], [2, submitted.async.request_id]);
		assert.deepEqual(entries(pathsOf(response.flamegraph)), entries(treeOf(chosen())), 'also when it is fetched again');
	}
	// In JSON; pprof; and a failure.
	const request = { profileTypeID: CPU, labelSelector: '{service_name="shop"}', start, end, format: 'PROFILE_FORMAT_PPROF' };
	const text = await json('SelectMergeStacktraces', { ...request, async: { type: 'ASYNC_QUERY_TYPE_FORCE' } });
	assert.equal(text.async.status, 'ASYNC_QUERY_STATUS_IN_PROGRESS');
	const pollText = (requestId) => json('SelectMergeStacktraces', { async: { requestId, type: 'ASYNC_QUERY_TYPE_FORCE' } });
	const { async: state, pprof } = await ended(text.async.requestId, pollText);
	assert.equal(state.status, 'ASYNC_QUERY_STATUS_SUCCESS');
	assert.equal(
		pprof.profile.sample.reduce((n, s) => n + Number(s.value[0]), 0),
		sum(chosen({ service: 'shop' })),
	);
	const bad = await json('SelectMergeStacktraces', { ...request, start: 0, async: { type: 'ASYNC_QUERY_TYPE_FORCE' } });
	const failed = await ended(bad.async.requestId, pollText);
	assert.equal(failed.async.status, 'ASYNC_QUERY_STATUS_FAILURE');
	assert.match(failed.async.errorMessage, /missing time range/);
	assert.ok(!failed.flamegraph);
	const large = await json('SelectMergeStacktraces', { ...request, labelSelector: `{a="${'x'.repeat(5 << 20)}"}`, async: { type: 'ASYNC_QUERY_TYPE_FORCE' } }, 429);
	assert.deepEqual([large.code, /more than 4 MiB/.test(large.message)], ['resource_exhausted', true]);
	const nobody = await json('SelectMergeStacktraces', { async: { requestId: 'f'.repeat(32), type: 'ASYNC_QUERY_TYPE_FORCE' } }, 404);
	assert.deepEqual(nobody, { code: 'not_found', message: 'async query not found' });
	const plainly = await json('SelectMergeStacktraces', { ...request, format: 1, async: { type: 'ASYNC_QUERY_TYPE_DISABLED' } });
	assert.ok(plainly.flamegraph && !plainly.async);
});
await test('more in the background than are kept: the oldest go, none is answered wrongly', async () => {
	const ids = [];
	for (let i = 0; i < 70; i++) {
		for (const until = Date.now() + 60000; ; await new Promise((resolve) => setTimeout(resolve, 10))) {
			const body = Buffer.from(JSON.stringify({ profileTypeID: CPU, labelSelector: '{}', start, end, async: { type: 1 } }));
			const response = await request(server.port, 'POST', path('SelectMergeStacktraces'), { body, headers: { 'content-type': 'application/json' } });
			if (response.status === 200) {
				ids.push(JSON.parse(response.body).async.requestId);
				break;
			}
			assert.equal(JSON.parse(response.body).code, 'resource_exhausted');
			assert.ok(Date.now() < until);
		}
	}
	assert.equal(new Set(ids).size, 70);
	await json('SelectMergeStacktraces', { async: { requestId: ids[0], type: 1 } }, 404);
	const { async: last } = await json('SelectMergeStacktraces', { async: { requestId: ids[69], type: 1 } });
	assert.ok(['ASYNC_QUERY_STATUS_IN_PROGRESS', 'ASYNC_QUERY_STATUS_SUCCESS'].includes(last.status));
});
await test('the same from blocks on disk, after a restart', async () => {
	const site = ['main', 'f1', 'f2'],
		stack_trace_selector = { call_site: site.map((name) => ({ name })) },
		all = [
			() => idsOf('{}'),
			() => binary('SelectSeries', { ...ask, step: 60, stack_trace_selector, exemplar_type: 2 }),
			() => binary('SelectMergeProfile', { ...ask, max_nodes: 5 }, 'Profile').then((p) => sumsOf(stacksOf(p))),
			() => binary('SelectMergeStacktraces', { ...ask, stack_trace_selector }).then((r) => entries(pathsOf(r.flamegraph))),
		],
		before = [];
	for (const call of all) before.push(await call());
	assert.ok(before[1].series[0].points.length > 0 && before[3].length > 2);
	const analyze = () => json('AnalyzeQuery', { start, end, query: `${CPU}{service_name="shop"}` });
	const { queryScopes: head, queryImpact: impact } = await analyze();
	const select = { ...ask, profile_id_selector: [before[0][0].profile_id] };
	const profile = await binary('SelectMergeStacktraces', select);
	assert.equal(await server.stop(), 0);
	server = await startServer(directory);
	for (const [i, call] of all.entries()) assert.deepEqual(await call(), before[i], String(all[i]));
	assert.deepEqual(await binary('SelectMergeStacktraces', select), profile);
	await json('SelectMergeStacktraces', { async: { requestId: 'f'.repeat(32), type: 1 } }, 404);
	const {
		queryScopes: [none, blocks],
		queryImpact,
	} = await analyze();
	assert.deepEqual(none, { componentType: 'Short term storage' });
	for (const member of ['componentCount', 'blockCount']) assert.equal(blocks[member], '1');
	for (const member of ['seriesCount', 'profileCount']) assert.equal(blocks[member], head[0][member], member);
	assert.ok(Number(blocks.sampleCount) > 0 && Number(blocks.sampleCount) <= Number(head[0].sampleCount), 'a block has equal stacks once');
	for (const member of ['indexBytes', 'profileBytes', 'symbolBytes']) assert.ok(Number(blocks[member]) > 0, member);
	assert.equal(Number(queryImpact.totalBytesInTimeRange), Number(blocks.indexBytes) + Number(blocks.profileBytes) + Number(blocks.symbolBytes));
	assert.equal(queryImpact.totalQueriedSeries, impact.totalQueriedSeries);
});
await server.stop();
finish();
