// SPDX-License-Identifier: Apache-2.0
// The requests of Parca's own page (27 July 2026), as it made them of a Wick server in a browser, view by view; only times are moved.
// They are in base64, below /api. What the page needs of each response to draw it is checked: it reads columns by their names,
// without asking whether they are there.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { startServer, request, temporaryDirectory, test, finish } from '../harness.mjs';
import { clientOf, seconds } from './parca_client.mjs';
import { pprof, stacks } from './parca_stacks.mjs';

const arrow = createRequire(new URL('../package.json', import.meta.url))('apache-arrow');
const directory = temporaryDirectory(),
	now = Date.now(),
	TYPE = 'process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta',
	range = { start: seconds(now - 900000), end: seconds(now) },
	merge = { query: `${TYPE}{}`, ...range },
	query = { mode: 2, merge, invert_call_stack: false },
	node_trim_threshold = 0.07352941483259201,
	group_by = { fields: ['function_name'] };
const server = await startServer(`${directory}/data`),
	page = clientOf(server.port, '/api', { text: true });
const minutes = 10;
for (let minute = 0; minute < minutes; minute++)
	for (const thread of ['one', 'two']) {
		const body = pprof(
				stacks.filter((s) => s.thread === thread),
				now - minute * 60000 - 1000,
			),
			response = await request(server.port, 'POST', `/api/v1/ingest?name=process_cpu&label=thread%3D${thread}`, { body });
		assert.equal(response.status, 200);
	}
const total = minutes * stacks.filter((s) => s.thread).reduce((n, s) => n + s.value, 0);
const columnsOf = (record) => {
	const table = arrow.tableFromIPC(record);
	return { table, names: table.schema.fields.map((f) => f.name) };
};

await test('it starts: is there data, of which types, with which labels', async () => {
	assert.equal((await page('HasProfileData', {})).has_data, true);
	const { types } = await page('ProfileTypes', range);
	assert.deepEqual(types, [
		{ name: 'process_cpu', sample_type: 'cpu', sample_unit: 'nanoseconds', period_type: 'cpu', period_unit: 'nanoseconds', delta: true },
	]);
	for (const profile_type of ['', TYPE]) assert.deepEqual((await page('Labels', { ...range, profile_type })).label_names, ['thread']);
	assert.deepEqual((await page('Values', { label_name: 'thread', match: [], ...range, profile_type: TYPE })).label_values, ['one', 'two']);
});
await test('the graph of values', async () => {
	const { series } = await page('QueryRange', { query: merge.query, ...range, step: { seconds: 7, nanos: 627118644 } });
	assert.equal(series.length, 1);
	assert.equal(
		series[0].samples.reduce((n, s) => n + s.value, 0),
		total,
	);
	// A profile a minute, in steps of some seconds: each is the rate of a minute.
	for (const { value, value_per_second, duration } of series[0].samples) assert.deepEqual([value_per_second, duration], [value / 60e9, 60e9]);
	assert.deepEqual([series[0].sample_type, series[0].period_type], Array(2).fill({ type: 'cpu', unit: 'nanoseconds' }));
});
await test('the flame graph, and inverted', async () => {
	for (const invert_call_stack of [false, true]) {
		const response = await page('Query', { ...query, report_type: 5, node_trim_threshold, group_by, invert_call_stack }),
			{ table, names } = columnsOf(response.flamegraph_arrow.record);
		assert.equal(response.total, total);
		for (const name of ['labels_only', 'location_address', 'mapping_file', 'mapping_build_id', 'location_line', 'inlined', 'function_startline'])
			assert.ok(names.includes(name), name);
		for (const name of ['function_name', 'function_system_name', 'function_file_name', 'children', 'parent', 'timestamp', 'depth', 'value_offset'])
			assert.ok(names.includes(name), name);
		for (const name of ['cumulative', 'flat', 'diff', 'timestamp', 'depth', 'value_offset']) assert.equal(table.getChild(name).nullCount, 0, name);
		assert.equal(Number(table.getChild('cumulative').get(0)), total);
		// It lists the binaries of the dictionary itself.
		const files = table.getChild('mapping_file').data[0].dictionary.toArray();
		assert.deepEqual(Array.from(files, (f) => Buffer.from(f).toString()).sort(), ['/usr/bin/app', '/usr/lib/libx.so']);
	}
});
await test('what it colours by, and offers to group by', async () => {
	const { profile_metadata } = await page('Query', { ...query, report_type: 8, node_trim_threshold, group_by });
	assert.deepEqual(profile_metadata, { mapping_files: ['/usr/bin/app', '/usr/lib/libx.so'], labels: ['thread'] });
});
await test('the table', async () => {
	const response = await page('Query', { ...query, report_type: 7, group_by: {} }),
		{ table, names } = columnsOf(response.table_arrow.record);
	for (const name of [
		'flat',
		'flat_diff',
		'cumulative',
		'cumulative_diff',
		'function_name',
		'function_system_name',
		'function_file_name',
		'callers',
		'callees',
	])
		assert.ok(names.includes(name), name);
	assert.equal(Math.max(...Array.from(table.getChild('cumulative'), Number)), total);
});
await test('the sandwich: its table, callers and callees', async () => {
	const of = (invert_call_stack) => page('Query', { ...query, report_type: 5, node_trim_threshold, group_by, invert_call_stack, sandwich_by_function: 'work' });
	for (const invert of [false, true]) {
		const { table } = columnsOf((await of(invert)).flamegraph_arrow.record);
		assert.equal(Buffer.from(table.getChild('function_name').get(1)).toString(), 'work');
	}
});
await test('source', async () => {
	const response = await page('Query', { ...query, report_type: 6, group_by: {}, source_reference: { build_id: 'aa11', filename: 'src/work.c' } });
	assert.deepEqual(columnsOf(response.source.record).names, ['filename', 'line_number', 'cumulative', 'flat']);
});
await test('the strips of a flame chart, and the chart of one of them', async () => {
	const { series } = await page('QueryRange', { query: merge.query, ...range, step: { seconds: 1, nanos: 530612244 }, sum_by: ['thread'] });
	assert.deepEqual(series.map((s) => s.labelset.labels[0].value).sort(), ['one', 'two']);
	for (const { samples } of series) assert.ok(samples.every((s) => s.count === 1));
	const response = await page('Query', { ...query, report_type: 9, merge: { ...merge, query: `${TYPE}{thread="one"}` }, group_by: {} }),
		{ table } = columnsOf(response.flamegraph_arrow.record);
	assert.ok(Array.from(table.getChild('timestamp'), Number).filter((time) => time > (now - 900000) * 1e6).length >= minutes);
});
await test('targets and agents', async () => {
	assert.deepEqual(await page('Targets', { state: 1 }, 'ScrapeService'), { targets: {} });
	assert.deepEqual(await page('Agents', {}, 'AgentsService'), { agents: [] });
});
await server.stop();
finish();
