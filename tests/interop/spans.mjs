// SPDX-License-Identifier: Apache-2.0
// Profiles of spans: samples that say in which span they were taken, sent as OpenTelemetry's exporters (links) and Pyroscope's SDKs
// (labels of samples) do, and asked for as Grafana does from a trace. What must come out is computed from the list of what went in,
// once from memory and once more from blocks.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { readdirSync, writeFileSync } from 'node:fs';
import { until } from './export_endpoints.mjs';
import { startServer, request, temporaryDirectory, test, finish, pprofProfile } from '../harness.mjs';
import { treeOf, pathsOf, sum, entries } from './known.mjs';

const directory = `${temporaryDirectory()}/data`,
	now = Math.floor(Date.now() / 1000) * 1000 - 120000;
let server = await startServer(directory);
let seed = 11;
const random = (n) => {
	seed = (seed * 48271) % 2147483647;
	return seed % n;
};
const hex = (digits) => Array.from({ length: digits }, () => '0123456789abcdef'[random(16)]).join('');
const spans = Array.from({ length: 6 }, () => hex(16)),
	traces = Array.from({ length: 3 }, () => hex(32));
const TYPE = 'process_cpu:cpu:nanoseconds:cpu:nanoseconds',
	PUSHED = 'process_cpu:cpu:nanoseconds::';

// Each {service, stack: root first, value, span, trace}; some are in no span.
function some(service) {
	return Array.from({ length: 60 }, () => {
		const span = random(7),
			stack = ['main', ...Array.from({ length: 1 + random(4) }, () => `f${random(5)}`)];
		return { service, stack, value: 1 + random(1000), span: spans[span], trace: span < 6 ? traces[span % 3] : undefined };
	});
}
const otlp = some('otlp'),
	pushed = some('pushed'),
	ingested = some('ingested');

async function sendOtlp(samples) {
	const strings = ['', 'cpu', 'nanoseconds'],
		names = [...new Set(samples.flatMap((s) => s.stack))];
	const stacks = samples.map((s) => ({ locationIndices: [...s.stack].reverse().map((f) => names.indexOf(f) + 1) }));
	const body = {
		resourceProfiles: [
			{
				resource: { attributes: [{ key: 'service.name', value: { stringValue: 'otlp' } }] },
				scopeProfiles: [
					{
						profiles: [
							{
								sampleType: { typeStrindex: 1, unitStrindex: 2 },
								periodType: { typeStrindex: 1, unitStrindex: 2 },
								period: '1000',
								timeUnixNano: String(BigInt(now) * 1000000n),
								durationNano: '1000000000',
								samples: samples.map((s, i) => ({ stackIndex: i + 1, linkIndex: s.span ? spans.indexOf(s.span) + 1 : 0, values: [String(s.value)] })),
							},
						],
					},
				],
			},
		],
		dictionary: {
			mappingTable: [{}],
			attributeTable: [{}],
			stringTable: [...strings, ...names],
			stackTable: [{}, ...stacks],
			locationTable: [{}, ...names.map((_, i) => ({ lines: [{ functionIndex: i + 1 }] }))],
			functionTable: [{}, ...names.map((_, i) => ({ nameStrindex: strings.length + i }))],
			linkTable: [{}, ...spans.map((spanId, i) => ({ spanId, traceId: traces[i % 3] }))],
		},
	};
	const response = await request(server.port, 'POST', '/v1development/profiles', {
		body: Buffer.from(JSON.stringify(body)),
		headers: { 'content-type': 'application/json' },
	});
	assert.equal(response.status, 200, response.body.toString());
	assert.deepEqual(JSON.parse(response.body), {});
}
// As SDKs label samples: span_id and span_name, or profile_id by older ones.
const labelled = (samples) =>
	pprofProfile(
		samples.map((s, i) => [
			[...s.stack].reverse(),
			s.value,
			s.span ? { [i % 2 ? 'span_id' : 'profile_id']: s.span, trace_id: s.trace, span_name: 'GET /' } : {},
		]),
		{ timeNs: BigInt(now) * 1000000n, durationNs: 1e9 },
	);
async function push(service, body) {
	const message = {
		series: [
			{
				labels: [
					{ name: '__name__', value: 'process_cpu' },
					{ name: 'service_name', value: service },
				],
				samples: [{ rawProfile: body.toString('base64') }],
			},
		],
	};
	const response = await request(server.port, 'POST', '/push.v1.PusherService/Push', {
		body: Buffer.from(JSON.stringify(message)),
		headers: { 'content-type': 'application/json' },
	});
	assert.equal(response.status, 200, response.body.toString());
}

const start = now - 60000,
	end = now + 60000;
async function call(method, message) {
	const body = Buffer.from(JSON.stringify({ labelSelector: '{}', start, end, ...message }));
	const response = await request(server.port, 'POST', `/querier.v1.QuerierService/${method}`, { body, headers: { 'content-type': 'application/json' } });
	return { status: response.status, partial: response.headers['x-wick-partial'], ...JSON.parse(response.body) };
}
async function tree(method, message) {
	const response = await call(method, message);
	assert.equal(response.status, 200, response.message);
	assert.equal(response.partial, undefined);
	return entries(pathsOf(response.flamegraph));
}
const api = async (path, parameters) => {
	const response = await request(server.port, 'GET', `/api/v1/${path}?${new URLSearchParams({ from: 'now-1h', to: 'now+1h', ...parameters })}`);
	return { status: response.status, ...JSON.parse(response.body) };
};
const total = async (query) => {
	const response = await api('query', { query });
	assert.equal(response.status, 200, JSON.stringify(response));
	return response.flame.total;
};
const labelsOf = (pairs) => Object.fromEntries((pairs ?? []).map(({ name, value }) => [name, value]));
const inSpans = (list, ...ids) => list.filter((s) => ids.includes(s.span));
const inTraces = (list, ...ids) => list.filter((s) => ids.includes(s.trace));

await test('links of OTLP, and labels of pprof by push.v1 and /ingest', async () => {
	await sendOtlp(otlp);
	await push('pushed', labelled(pushed));
	const body = labelled(ingested),
		response = await request(
			server.port,
			'POST',
			`/ingest?${new URLSearchParams({ name: 'ingested', from: now / 1000, until: now / 1000 + 1, format: 'pprof' })}`,
			{ body },
		);
	assert.equal(response.status, 200, response.body.toString());
});

const checks = async (where) => {
	await test(`${where}: the profile of a span, and of several`, async () => {
		for (const list of [otlp, pushed, ingested]) {
			const [{ service }] = list,
				ask = { profileTypeID: service === 'otlp' ? TYPE : PUSHED, labelSelector: `{service_name="${service}"}` };
			for (const ids of [[spans[0]], [spans[1].toUpperCase()], [spans[2], spans[5], spans[2]], spans]) {
				const expected = entries(treeOf(inSpans(list, ...ids.map((id) => id.toLowerCase()))));
				assert.ok(expected.length > 1);
				assert.deepEqual(await tree('SelectMergeSpanProfile', { ...ask, spanSelector: ids }), expected);
				assert.deepEqual(await tree('SelectMergeStacktraces', { ...ask, spanSelector: ids }), expected);
			}
			for (const ids of [[traces[0]], traces])
				assert.deepEqual(await tree('SelectMergeStacktraces', { ...ask, traceIdSelector: ids }), entries(treeOf(inTraces(list, ...ids))));
			const both = inTraces(inSpans(list, spans[0], spans[1]), traces[1]);
			assert.deepEqual(
				await tree('SelectMergeStacktraces', { ...ask, spanSelector: [spans[0], spans[1]], traceIdSelector: [traces[1]] }),
				entries(treeOf(both)),
			);
		}
	});
	await test(`${where}: pprof, dot, trees, comparisons and values over time of a span`, async () => {
		const ask = { profileTypeID: PUSHED, labelSelector: `{service_name="pushed"}`, traceIdSelector: [traces[2]] },
			list = inTraces(pushed, traces[2]);
		const profile = await call('SelectMergeProfile', ask);
		assert.equal(
			profile.sample.reduce((n, s) => n + Number(s.value[0]), 0),
			sum(list),
		);
		const { dot } = await call('SelectMergeStacktraces', { ...ask, format: 'PROFILE_FORMAT_DOT' });
		assert.match(dot, /^digraph/);
		const none = await call('SelectMergeSpanProfile', { ...ask, spanSelector: ['ffffffffffffffff'] });
		assert.equal(Number(none.flamegraph.total ?? 0), 0);
		assert.ok((await call('SelectMergeSpanProfile', { ...ask, spanSelector: [spans[0]], format: 'PROFILE_FORMAT_TREE' })).tree.length > 0);
		const side = { ...ask, start, end, labelSelector: ask.labelSelector, traceIdSelector: [] };
		const { flamegraph } = await call('Diff', { left: { ...side, spanSelector: [spans[0]] }, right: { ...side, spanSelector: [spans[1]] } });
		assert.equal(Number(flamegraph.leftTicks), sum(inSpans(pushed, spans[0])));
		assert.equal(Number(flamegraph.total), sum(inSpans(pushed, spans[0], spans[1])));
		const { series } = await call('SelectSeries', { profileTypeID: PUSHED, labelSelector: `{service_name="pushed", __span_id__="${spans[3]}"}`, step: 60 });
		assert.equal(
			series[0].points.reduce((n, p) => n + p.value, 0),
			sum(inSpans(pushed, spans[3])),
		);
	});
	await test(`${where}: in the query language`, async () => {
		for (const [condition, list] of [
			[`__span_id__="${spans[4]}"`, inSpans(pushed, spans[4])],
			[`__span_id__=~"(${spans[4]}|${spans[1]})"`, inSpans(pushed, spans[4], spans[1])],
			[`__span_id__!="${spans[4]}"`, pushed.filter((s) => s.span !== spans[4])],
			[`__span_id__!~"${spans[4]}|"`, pushed.filter((s) => s.span && s.span !== spans[4])],
			[`__span_id__=""`, pushed.filter((s) => !s.span)],
			[`__trace_id__!=""`, pushed.filter((s) => s.span)],
			[`__trace_id__=~".+", __span_id__!="${spans[0]}"`, pushed.filter((s) => s.span && s.span !== spans[0])],
			[`__trace_id__=~".*"`, pushed],
			[`__trace_id__="${traces[0]}", span_name="GET /"`, inTraces(pushed, traces[0])],
		]) {
			assert.equal(await total(`process_cpu{service_name="pushed", ${condition}}`), sum(list), condition);
			assert.equal(await total(`process_cpu{service_name="pushed"} | where ${condition}`), sum(list), condition);
			const { series } = await api('series', { query: `process_cpu{service_name="pushed", ${condition}}`, step: '5m' });
			assert.equal(
				series.reduce((n, row) => n + row.points.reduce((m, [, value]) => m + value, 0), 0),
				sum(list),
				condition,
			);
		}
	});
	await test(`${where}: how much spans took, and the largest of each size`, async () => {
		const both = [...pushed, ...ingested];
		// What each span of a group has: in one service, in both, and where a trace is selected.
		for (const [selector, groupBy, groups] of [
			['{}', [], [[{}, both]]],
			['{service_name="pushed"}', ['service_name'], [[{ service_name: 'pushed' }, pushed]]],
			[
				'{}',
				['service_name'],
				[
					[{ service_name: 'ingested' }, ingested],
					[{ service_name: 'pushed' }, pushed],
				],
			],
			[`{__trace_id__="${traces[1]}"}`, [], [[{}, inTraces(both, traces[1])]]],
		]) {
			const points = groups.map(([, list]) => spans.filter((id) => inSpans(list, id).length).map((id) => ({ id, value: sum(inSpans(list, id)) })));
			const values = points.flat().map((p) => p.value),
				[least, most] = [Math.min(...values), Math.max(...values)];
			const rows = Array.from({ length: 20 }, (_, i) => least + Math.trunc((i * (most - least)) / 20));
			const ask = { profileTypeID: PUSHED, labelSelector: selector, groupBy, step: 60, queryType: 'HEATMAP_QUERY_TYPE_SPAN' };
			const { series, message } = await call('SelectHeatmap', { ...ask, exemplarType: 'EXEMPLAR_TYPE_SPAN' });
			assert.ok(series, message);
			assert.deepEqual(
				series.map((s) => labelsOf(s.labels)),
				groups.map(([labels]) => labels),
			);
			for (const [i, { slots }] of series.entries()) {
				assert.equal(slots.length, 1);
				assert.deepEqual(slots[0].yMin, rows);
				const inRow = rows.map((row, k) => points[i].filter((p) => p.value >= row && (k === 19 || p.value < rows[k + 1])));
				assert.deepEqual(
					slots[0].counts,
					inRow.map((list) => list.length),
				);
				const largest = inRow.filter((list) => list.length).map((list) => list.reduce((a, b) => (b.value > a.value ? b : a)));
				assert.deepEqual(
					slots[0].exemplars.map(({ timestamp, value, spanId, traceId, profileId, labels }) => [
						Number(timestamp),
						Number(value),
						spanId,
						traceId,
						profileId,
						labelsOf(labels),
					]),
					largest.map(({ id, value }) => {
						// The labels that all its samples have, less those of the group.
						const services = [...new Set(inSpans(both, id).map((s) => s.service))],
							service = groupBy.length || services.length > 1 ? {} : { service_name: services[0] };
						return [now, value, id, traces[spans.indexOf(id) % 3], undefined, { ...service, span_name: 'GET /' }];
					}),
				);
			}
			const plain = await call('SelectHeatmap', ask);
			assert.deepEqual(
				plain.series.map((s) => s.slots.map((slot) => slot.counts)),
				series.map((s) => s.slots.map((slot) => slot.counts)),
			);
			assert.ok(plain.series.every((s) => s.slots.every((slot) => !slot.exemplars?.length)));
		}
		const { series } = await call('SelectHeatmap', {
			profileTypeID: PUSHED,
			labelSelector: '{service_name="none"}',
			step: 60,
			queryType: 'HEATMAP_QUERY_TYPE_SPAN',
		});
		assert.deepEqual(series ?? [], []);
	});
	await test(`${where}: ids are no labels`, async () => {
		const { status, labels } = await api('labels', { query: `{}` });
		assert.equal(status, 200);
		const names = labels.map(({ name }) => name);
		assert.ok(names.includes('span_name'));
		for (const name of ['span_id', 'profile_id', 'trace_id']) assert.ok(!names.includes(name), name);
	});
};
await checks('memory');
assert.equal(await server.stop(), 0);
server = await startServer(directory);
await checks('blocks');

await test("DuckDB finds the same in the blocks' files", async () => {
	const { DuckDBInstance } = createRequire(new URL('../package.json', import.meta.url))('@duckdb/node-api');
	const database = await (await DuckDBInstance.create(':memory:')).connect();
	const table = (name) => `read_parquet('${directory}/blocks/*/${name}.parquet', union_by_name = true)`;
	const sql = `SELECT coalesce(lower(hex(span_id)), '') AS span, sum(value)::DOUBLE AS total FROM ${table('samples')} JOIN ${table('series')} USING (series_id)
		WHERE label_service_name = 'pushed' GROUP BY span`;
	assert.equal(readdirSync(`${directory}/blocks`).length, 1);
	const found = (await database.runAndReadAll(sql)).getRowObjects();
	assert.equal(found.length, 7);
	for (const { span, total: expected } of found) assert.equal(await total(`process_cpu{service_name="pushed", __span_id__="${span}"}`), expected, span);
});
await test('labels that are no ids are left out and lose no sample', async () => {
	const odd = ['', 'xyz', '0000000000000000', `${spans[0]}00`, '3f2504e0-4f89-11d3-9a0c-0305e82c3301'];
	await push(
		'odd',
		pprofProfile(
			odd.map((id, i) => [['leaf', 'main'], 10 ** i, { profile_id: id, trace_id: id, kept: `k${i}` }]),
			{ timeNs: BigInt(now) * 1000000n, durationNs: 1e9 },
		),
	);
	assert.equal(await total('process_cpu{service_name="odd"}'), 11111);
	assert.equal(await total('process_cpu{service_name="odd", __span_id__=""}'), 11111);
	assert.equal(await total('process_cpu{service_name="odd", kept="k3"}'), 1000);
});
await test('what is forwarded to Pyroscope has them, as it takes them', async () => {
	const config = `${directory}-forward.yaml`,
		target = await startServer(`${directory}-target`);
	writeFileSync(config, JSON.stringify({ forward: [{ name: 'pyroscope', kind: 'pyroscope', url: target.url }] })); // JSON is YAML
	const [back, here] = [server, await startServer(`${directory}-forwarding`, ['--config', config])];
	server = here;
	await push('pushed', labelled(pushed));
	await sendOtlp(otlp);
	server = target;
	await until(
		async () => (await total('process_cpu{service_name="pushed"}')) === sum(pushed) && (await total('process_cpu{service_name="otlp"}')) === sum(otlp),
		'all is forwarded',
	);
	for (const [i, id] of spans.entries()) {
		assert.equal(await total(`process_cpu{service_name="pushed", __span_id__="${id}", __trace_id__="${traces[i % 3]}"}`), sum(inSpans(pushed, id)));
		assert.equal(await total(`process_cpu{service_name="otlp", __span_id__="${id}"}`), sum(inSpans(otlp, id)));
	}
	assert.equal(await total(`process_cpu{service_name="pushed", span_name="GET /"}`), sum(pushed.filter((s) => s.span)));
	await here.stop();
	await target.stop();
	server = back;
});
await test('bad questions', async () => {
	const ask = { profileTypeID: PUSHED };
	for (const [method, message, code, pattern] of [
		['SelectMergeSpanProfile', { ...ask, spanSelector: ['12'] }, 'invalid_argument', /span_selector: "12"/],
		['SelectMergeSpanProfile', { ...ask, spanSelector: ['gggggggggggggggg'] }, 'invalid_argument', /not an id of 16 hexadecimal digits/],
		['SelectMergeSpanProfile', { ...ask, spanSelector: ['0123456|89abcdef'] }, 'invalid_argument', /not an id/],
		['SelectMergeSpanProfile', { ...ask, spanSelector: [] }, 'invalid_argument', /span_selector is empty/],
		['SelectMergeSpanProfile', { ...ask, spanSelector: Array(1001).fill(spans[0]) }, 'invalid_argument', /more than 1000 items/],
		['SelectMergeStacktraces', { ...ask, traceIdSelector: [spans[0]] }, 'invalid_argument', /trace_id_selector/],
		['SelectMergeStacktraces', { ...ask, profileIdSelector: [spans[0]] }, 'invalid_argument', /profile_id_selector/],
	]) {
		const response = await call(method, message);
		assert.equal(response.code, code, JSON.stringify(response));
		assert.match(response.message, pattern);
	}
	for (const query of ['{__span_id__="12"}', `{__span_id__=~"${spans[0].slice(0, 8)}.*"}`, `{__span_id__="${spans[0]}"} | labels`])
		assert.equal((await api('query', { query })).status, 400, query);
});
await test('what deletes series does not take a span for one', async () => {
	const parameters = new URLSearchParams({ query: `{__span_id__="${spans[0]}"}`, from: 'now-1h', to: 'now+1h' });
	const response = await request(server.port, 'POST', `/api/v1/delete?${parameters}`, {});
	assert.equal(response.status, 400, response.body.toString());
	assert.match(response.body.toString(), /__span_id__/);
	assert.equal(await total('process_cpu{service_name="pushed"}'), sum(pushed));
});
await server.stop();
finish();
