// SPDX-License-Identifier: Apache-2.0
// Reports of Parca's query service with filters, groups, inverted and cut stacks, and what is shared: everything that Parca's page
// asks for. What must come out is computed here, from the stacks that went in; Arrow streams are read by Apache Arrow's own library.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { gunzipSync } from 'node:zlib';
import { startServer, request, temporaryDirectory, test, finish } from '../harness.mjs';
import { clientOf, seconds, tableOf } from './parca_client.mjs';
import { app, at, lib, line, main, parse, PERIOD, pprof, reversed, stacks, work } from './parca_stacks.mjs';

const arrow = createRequire(new URL('../package.json', import.meta.url))('apache-arrow');
const directory = temporaryDirectory(),
	now = Math.floor(Date.now() / 60000) * 60000 - 600000,
	TYPE = 'process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta';

const server = await startServer(`${directory}/data`),
	web = clientOf(server.port);
async function send(list, timeMs, name = 'process_cpu') {
	for (const thread of new Set(list.map((s) => s.thread))) {
		const label = thread ? `&label=thread%3D${thread}` : '';
		const body = pprof(
			list.filter((s) => s.thread === thread),
			timeMs,
		);
		const response = await request(server.port, 'POST', `/api/v1/ingest?name=${name}&label=service_name%3Dshop${label}`, { body });
		assert.equal(response.status, 200, response.body.toString());
	}
}
await send(stacks, now);

// ---- what must come out ----
const offsetOf = (f) => f.address - f.mapping.start + f.mapping.offset;
// One place for each function, leaf first; the innermost inlined one comes first.
const placesOf = (frames) =>
	frames.flatMap((f) => (f.lines.length ? f.lines.map((l, i) => ({ f, l, inlined: i + 1 < f.lines.length })) : [{ f, l: null, inlined: false }]));
const nameOf = ({ f, l }) => l?.name ?? `0x${offsetOf(f).toString(16)}`;
const list = (samples = stacks) => samples.map((s) => ({ ...s, places: placesOf(s.frames) }));
const total = (samples) => samples.reduce((n, s) => n + s.value, 0);
function treeOf(samples, keyOf = nameOf, rootOf = () => []) {
	const nodes = new Map();
	for (const s of samples) {
		const path = [];
		for (const label of rootOf(s)) {
			path.push(label);
			const key = path.join(';');
			nodes.set(key, { total: (nodes.get(key)?.total ?? 0) + s.value, self: 0 });
		}
		reversed(s.places).forEach((place, i) => {
			path.push(keyOf(place));
			const key = path.join(';'),
				node = nodes.get(key) ?? { total: 0, self: 0 };
			node.total += s.value;
			if (i === s.places.length - 1) node.self += s.value;
			nodes.set(key, node);
		});
	}
	return nodes;
}
const entries = (map) => [...map].sort(([a], [b]) => (a < b ? -1 : 1));

const merge = { query: TYPE, start: seconds(now - 60000), end: seconds(now + 60000) };
const ask = (more) => web('Query', { mode: 2, merge, report_type: 5, ...more });
const schemaOf = (table) => Object.fromEntries(table.schema.fields.map((f) => [f.name, f.type.toString()]));
const rowsOf = (record) => tableOf(record).rows;
// Checks what holds for every graph, and gives paths.
function graphOf({ flamegraph_arrow, total: all }, keyOf = (row) => row.function_name ?? `0x${row.location_address.toString(16)}`) {
	const rows = rowsOf(flamegraph_arrow.record),
		found = new Map(),
		paths = [''];
	rows.forEach((row, i) => {
		assert.equal(row.depth, i ? rows[row.parent].depth + 1 : 0);
		for (const [k, child] of (row.children ?? []).entries()) {
			const before = row.children.slice(0, k).reduce((n, c) => n + rows[c].cumulative, 0);
			assert.equal(rows[child].parent, i);
			assert.equal(rows[child].value_offset, row.value_offset + before);
		}
		if (!i) return;
		assert.ok(rows[row.parent].children.includes(i));
		paths[i] = [...(paths[row.parent] ? [paths[row.parent]] : []), keyOf(row)].join(';');
		found.set(paths[i], { total: row.cumulative, self: row.flat });
	});
	assert.equal(flamegraph_arrow.height, Math.max(...rows.map((r) => r.depth)) + 1);
	return { rows, found, all, at: (path) => rows[paths.indexOf(path)] };
}
const same = (graph, expected) => assert.deepEqual(entries(graph.found), entries(expected));

await test('the table of a flame graph is as Parca lays it out', async () => {
	const response = await ask(),
		table = arrow.tableFromIPC(response.flamegraph_arrow.record),
		bytes = 'Dictionary<Uint8, Binary>';
	assert.deepEqual(Object.entries(schemaOf(table)), [
		['labels_only', 'Bool'],
		['location_address', 'Uint64'],
		['mapping_file', bytes],
		['mapping_build_id', bytes],
		['location_line', 'Uint8'],
		['inlined', 'Bool'],
		['function_startline', 'Uint8'],
		['function_name', bytes],
		['function_system_name', bytes],
		['function_file_name', bytes],
		['children', 'List<Uint32>'],
		['parent', 'Int32'],
		['cumulative', 'Uint8'],
		['flat', 'Uint8'],
		['diff', 'Int8'],
		['timestamp', 'Int64'],
		['depth', 'Uint8'],
		['value_offset', 'Uint8'],
	]);
	const graph = graphOf(response);
	same(graph, treeOf(list()));
	assert.equal(response.total, total(stacks));
	assert.equal(response.filtered, 0);
	assert.equal(response.flamegraph_arrow.unit, 'nanoseconds');
	// Equal for all that is in a row, or null.
	const place = ({ mapping_file, mapping_build_id, location_line, location_address, function_file_name, function_system_name, inlined }) => [
		mapping_file,
		mapping_build_id,
		location_line,
		location_address,
		function_file_name,
		function_system_name,
		inlined,
	];
	assert.deepEqual(place(graph.at('main;work')), [app.file, 'aa11', null, null, 'src/work.c', '_Zwork', false]);
	assert.deepEqual(place(graph.at('main;outer;inner')), [app.file, 'aa11', 5, 0x1030, 'src/inner.h', '_Zinner', true]);
	assert.deepEqual(place(graph.at('main;outer;inner;0x60')), [lib.file, 'bb22', null, 0x60, null, null, false]);
	assert.deepEqual(place(graph.rows[0]), [null, null, null, null, null, null, false]);
});

// ---- filters, with their meaning written down once more ----
const lower = (s) => s.toLowerCase();
const tests = {
	equal: (a, b) => a === b,
	contains: (a, b) => a.includes(b),
	starts_with: (a, b) => a.startsWith(b),
};
const fieldOf = {
	function_name: ({ l }) => l && lower(l.name),
	system_name: ({ l }) => l && lower(l.system),
	filename: ({ l }) => l && lower(l.file),
	binary: ({ f }) => lower(f.mapping.file.split('/').at(-1)),
	address: ({ f }) => String(offsetOf(f)),
	line_number: ({ l }) => l && String(l.line),
};
const conditions = [
	['function_name', 'equal', 'PARSE'],
	['function_name', 'not_equal', 'work'],
	['function_name', 'contains', 'OR'],
	['function_name', 'not_contains', 'inne'],
	['function_name', 'starts_with', 'out'],
	['function_name', 'not_starts_with', 'par'],
	['system_name', 'equal', '_zInner'],
	['system_name', 'not_contains', 'parse'],
	['filename', 'contains', 'work.c'],
	['filename', 'not_equal', 'src/main.c'],
	['binary', 'equal', 'libx.so'],
	['binary', 'not_equal', 'libx.so'],
	['binary', 'contains', 'LIB'],
	['binary', 'not_contains', 'lib'],
	['binary', 'starts_with', 'LIB'],
	['address', 'equal', 0x60],
	['address', 'not_equal', 0x1020],
	['line_number', 'equal', 20],
	['line_number', 'not_equal', 40],
];
const protoOf = (kind, [field, op, value]) => ({ [`${kind}_filter`]: { criteria: { [field]: { [op]: value } } } });
const isNot = (op) => op.startsWith('not_');
const fulfils = (place, [field, op, value]) => {
	const own = fieldOf[field](place);
	return own === null ? null : tests[op.replace('not_', '')](own, lower(String(value))) !== isNot(op);
};
const keepsStack = (s, condition) => {
	const found = s.places.map((p) => fulfils(p, condition)).filter((r) => r !== null);
	return isNot(condition[1]) ? found.every(Boolean) : found.some(Boolean);
};
const keepFrames = (s, condition) => ({ ...s, places: s.places.filter((p) => fulfils(p, condition) ?? true) });

await test('stack filters: every field, every condition', async () => {
	for (const condition of conditions) {
		const expected = list().filter((s) => keepsStack(s, condition)),
			response = await ask({ filter: [protoOf('stack', condition)] });
		same(graphOf(response), treeOf(expected));
		assert.deepEqual([response.total, response.filtered], [total(expected), total(stacks) - total(expected)], String(condition));
		assert.ok(expected.length < stacks.length, `${condition} filters something`);
	}
});
await test('frame filters: every field, every condition', async () => {
	for (const condition of conditions) {
		const response = await ask({ filter: [protoOf('frame', condition)] });
		same(graphOf(response), treeOf(list().map((s) => keepFrames(s, condition))));
		assert.deepEqual([response.total, response.filtered], [total(stacks), 0]);
	}
});
await test('several filters together, and those of older clients', async () => {
	const stack = ['function_name', 'contains', 'work'],
		frame = ['binary', 'not_equal', 'libx.so'];
	const expected = list()
		.filter((s) => keepsStack(s, stack))
		.map((s) => keepFrames(s, frame));
	same(graphOf(await ask({ filter: [protoOf('frame', frame), protoOf('stack', stack)] })), treeOf(expected));
	const old = (exclude) => ({ stack_filter: { function_name_stack_filter: { function_to_filter: 'Work', exclude } } });
	same(graphOf(await ask({ filter: [old(false)] })), treeOf(list().filter((s) => keepsStack(s, stack))));
	same(graphOf(await ask({ filter: [old(true)] })), treeOf(list().filter((s) => !keepsStack(s, stack))));
	same(graphOf(await ask({ filter_query: 'work' })), treeOf(list().filter((s) => keepsStack(s, stack))));
	const binaries = (include_binaries) => ({ frame_filter: { binary_frame_filter: { include_binaries } } });
	same(graphOf(await ask({ filter: [binaries(['libx', 'app'])] })), treeOf(list()));
	same(graphOf(await ask({ filter: [binaries(['libx'])] })), treeOf(list().map((s) => keepFrames(s, ['binary', 'contains', 'libx']))));
	// It changes nothing, as in Parca's server.
	same(graphOf(await ask({ runtime_filter: { show_interpreted_only: true } })), treeOf(list()));
	const many = Array.from({ length: 65 }, () => protoOf('stack', stack));
	assert.match((await ask({ filter: many })).message, /more than 64 filters/);
});

// ---- other trees ----
await test('inverted: the leaf becomes the root', async () => {
	const response = await ask({ invert_call_stack: true }),
		graph = graphOf(response);
	same(graph, treeOf(list().map((s) => ({ ...s, places: reversed(s.places) }))));
	assert.equal(graph.at('inner').inlined, true);
	assert.equal(graph.at('inner;outer').inlined, false);
});
await test('sandwiched: from a function to the leaves, and to the roots', async () => {
	for (const name of ['work', 'inner', 'outer', 'Parse', 'main', 'none']) {
		const callees = list().map((s) => ({ ...s, places: s.places.slice(0, s.places.findIndex((p) => nameOf(p) === name) + 1) }));
		const callers = list().map((s) => {
			const from = s.places.findLastIndex((p) => nameOf(p) === name);
			return { ...s, places: from < 0 ? [] : reversed(s.places.slice(from)) };
		});
		const down = await ask({ sandwich_by_function: name }),
			up = await ask({ sandwich_by_function: name, invert_call_stack: true });
		same(graphOf(down), treeOf(callees));
		same(graphOf(up), treeOf(callers));
		assert.equal(down.total, total(stacks), 'of all samples');
		assert.equal(graphOf(down).rows[0].cumulative, total(callees.filter((s) => s.places.length)));
	}
});
await test('grouped by binary, file, address, and labels', async () => {
	const of = (fields) => ask({ group_by: { fields: ['function_name', ...fields] } });
	const keyOfRow = (row, ...more) => [row.function_name ?? `0x${row.location_address.toString(16)}`, ...more].join('|');
	const keyOf = (p, ...more) => [nameOf(p), ...more].join('|');
	same(
		graphOf(await of(['mapping_file']), (row) => keyOfRow(row, row.mapping_file)),
		treeOf(list(), (p) => keyOf(p, p.f.mapping.file)),
	);
	same(
		graphOf(await of(['function_file_name']), (row) => keyOfRow(row, row.function_file_name)),
		treeOf(list(), (p) => keyOf(p, p.l?.file ?? '')),
	);
	same(
		graphOf(await of(['location_address']), (row) => keyOfRow(row, row.location_address)),
		treeOf(list(), (p) => keyOf(p, offsetOf(p.f))),
	);
	const response = await of(['labels.thread']),
		graph = graphOf(response, (row) => (row.labels_only ? `{${row['labels.thread']}}` : keyOfRow(row)));
	same(
		graph,
		treeOf(list(), nameOf, (s) => (s.thread ? [`{${s.thread}}`] : [])),
	);
	for (const [path, row] of [...graph.found.keys()].map((path) => [path, graph.at(path)]))
		assert.equal(row['labels.thread'], /^\{(\w+)\}/.exec(path)?.[1] ?? null, 'all rows below have the label');
	assert.equal(schemaOf(arrow.tableFromIPC(response.flamegraph_arrow.record))['labels.thread'], 'Dictionary<Uint8, Binary>');
});

// ---- other reports ----
const functionsOf = (samples) => {
	const found = new Map();
	for (const s of samples) {
		s.places.forEach((p, i) => {
			const entry = found.get(nameOf(p)) ?? { flat: 0, total: 0, last: null, callers: new Set(), callees: new Set() };
			if (entry.last !== s) entry.total += s.value;
			if (i === 0) entry.flat += s.value;
			if (i > 0) entry.callees.add(nameOf(s.places[i - 1]));
			if (i + 1 < s.places.length) entry.callers.add(nameOf(s.places[i + 1]));
			entry.last = s;
			found.set(nameOf(p), entry);
		});
	}
	return found;
};
await test('TABLE_ARROW', async () => {
	const response = await ask({ report_type: 7 }),
		rows = rowsOf(response.table_arrow.record),
		dictionary = (index) => `Dictionary<${index}, Utf8>`;
	assert.deepEqual(Object.entries(schemaOf(arrow.tableFromIPC(response.table_arrow.record))), [
		['mapping_file', dictionary('Uint16')],
		['mapping_build_id', dictionary('Uint16')],
		['location_address', 'Uint64'],
		['location_line', 'Int64'],
		['function_startline', 'Int64'],
		['function_name', dictionary('Uint32')],
		['function_system_name', dictionary('Uint16')],
		['function_file_name', dictionary('Uint32')],
		['cumulative', 'Int64'],
		['cumulative_diff', 'Int64'],
		['flat', 'Int64'],
		['flat_diff', 'Int64'],
		['callers', 'List<Int64>'],
		['callees', 'List<Int64>'],
	]);
	const nameOfRow = (row) => row.function_name ?? `0x${row.location_address.toString(16)}`,
		expected = functionsOf(list());
	assert.deepEqual(rows.map(nameOfRow).sort(), [...expected.keys()].sort());
	for (const row of rows) {
		const { flat, total: all, callers, callees } = expected.get(nameOfRow(row)),
			names = (items) => (items ?? []).map((i) => nameOfRow(rows[i])).sort();
		assert.deepEqual([row.flat, row.cumulative, row.cumulative_diff, row.flat_diff], [flat, all, null, 0], nameOfRow(row));
		assert.deepEqual([names(row.callers), names(row.callees)], [[...callers].sort(), [...callees].sort()], nameOfRow(row));
	}
	assert.deepEqual([response.total, response.table_arrow.unit], [total(stacks), 'nanoseconds']);
});
await test('TOP counts the same functions', async () => {
	const { top } = await ask({ report_type: 2, filter: [protoOf('stack', conditions[0])] }),
		expected = functionsOf(list().filter((s) => keepsStack(s, conditions[0])));
	assert.equal(top.reported, expected.size);
	for (const { meta, flat, cumulative } of top.list) {
		const entry = expected.get(meta.function?.name || `0x${meta.location.address.toString(16)}`);
		assert.deepEqual([flat ?? 0, cumulative], [entry.flat, entry.total]);
	}
});
await test('CALLGRAPH: functions and their calls', async () => {
	const { callgraph, total: all } = await ask({ report_type: 3 }),
		names = new Map(callgraph.nodes.map((n) => [n.id, n.meta.function?.name || `0x${n.meta.location.address.toString(16)}`])),
		expected = functionsOf(list()),
		calls = new Map();
	for (const s of list()) {
		const seen = new Set();
		for (let i = 1; i < s.places.length; i++) seen.add(`${nameOf(s.places[i])} > ${nameOf(s.places[i - 1])}`);
		for (const call of seen) calls.set(call, (calls.get(call) ?? 0) + s.value);
	}
	assert.deepEqual([...names.values()].sort(), [...expected.keys()].sort());
	for (const n of callgraph.nodes) assert.deepEqual([n.flat, n.cumulative], [expected.get(names.get(n.id)).flat, expected.get(names.get(n.id)).total]);
	assert.deepEqual(entries(new Map(callgraph.edges.map((e) => [`${names.get(e.source)} > ${names.get(e.target)}`, e.cumulative]))), entries(calls));
	assert.deepEqual([all, callgraph.cumulative, callgraph.edges.some((e) => e.is_collapsed)], [total(stacks), total(stacks), false]);
});
await test('CALLGRAPH: what is small and in between is collapsed', async () => {
	const big = at(app, 0x80, line('big', 'a.c', 1)),
		thin = [1, 2, 3].map((i) => at(app, 0x90 + i, line(`thin${i}`, 'a.c', i))),
		end = at(app, 0xa0, line('end', 'a.c', 9)),
		chain = [
			{ thread: '', value: 10000, frames: [big, main] },
			{ thread: '', value: 4, frames: [end, ...reversed(thin), big, main] },
		];
	await send(chain, now, 'thin');
	const { callgraph } = await web('Query', {
		mode: 2,
		report_type: 3,
		merge: { ...merge, query: 'thin:cpu:nanoseconds:cpu:nanoseconds:delta' },
	});
	const names = new Map(callgraph.nodes.map((n) => [n.id, n.meta.function.name]));
	assert.deepEqual([...names.values()].sort(), ['big', 'end', 'main'], 'a leaf stays, however small');
	assert.deepEqual(
		callgraph.edges.map((e) => [names.get(e.source), names.get(e.target), e.cumulative, e.is_collapsed]),
		[
			['main', 'big', 10004, false],
			['big', 'end', 12, true],
		],
	);
});
await test('SOURCE: the lines of a file', async () => {
	const of = async (build_id, filename) => {
		const response = await ask({ report_type: 6, source_reference: { build_id, filename } }),
			table = arrow.tableFromIPC(response.source.record);
		assert.deepEqual(Object.entries(schemaOf(table)), [
			['filename', 'Dictionary<Int32, Utf8>'],
			['line_number', 'Int64'],
			['cumulative', 'Int64'],
			['flat', 'Int64'],
		]);
		assert.deepEqual([response.total, response.source.unit, response.source.source], [total(stacks), 'nanoseconds', '']);
		return rowsOf(response.source.record).map((r) => [r.filename, r.line_number, r.cumulative, r.flat]);
	};
	const expected = (build, matches) => {
		const found = new Map();
		for (const s of list()) {
			const seen = new Set();
			s.places.forEach((p, i) => {
				if (!p.l || !matches(p.l.file) || (build && p.f.mapping.build !== build)) return;
				const key = `${p.l.file}:${p.l.line}`,
					row = found.get(key) ?? [p.l.file, p.l.line, 0, 0];
				if (!seen.has(key)) row[2] += s.value;
				if (i === 0) row[3] += s.value;
				seen.add(key);
				found.set(key, row);
			});
		}
		return [...found.values()].sort((a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : a[1] - b[1]));
	};
	assert.deepEqual(
		await of('aa11', 'src/work.c'),
		expected('aa11', (f) => f === 'src/work.c'),
	);
	assert.deepEqual(
		await of('', 'src/parse.c'),
		expected('', (f) => f.endsWith('/src/parse.c')),
	);
	assert.deepEqual(await of('aa11', 'src/parse.c'), []);
	assert.deepEqual(await of('aa11', 'rc/work.c'), [], 'whole components');
	const question = await ask({ report_type: 6, source_reference: { build_id: 'aa11', filename: 'src/work.c', source_only: true } });
	assert.equal(question.status, 5, 'there is no text of it');
});
await test('PROFILE_METADATA: binaries and labels', async () => {
	const { profile_metadata, total: all } = await ask({ report_type: 8, filter: [protoOf('stack', conditions[0])] });
	assert.deepEqual(profile_metadata, { mapping_files: [app.file, lib.file], labels: ['service_name', 'thread'] });
	assert.equal(all, 0);
	const compared = await web('Query', { mode: 1, report_type: 8, diff: { a: { mode: 1, merge }, b: { mode: 1, merge } } });
	assert.deepEqual(compared.profile_metadata, profile_metadata);
});
await test('PPROF of what filters leave, with the labels of groups', async () => {
	const { pprof: bytes, filtered } = await ask({
			report_type: 1,
			group_by: { fields: ['labels.thread'] },
			filter: [protoOf('stack', ['function_name', 'equal', 'inner'])],
		}),
		response = await request(server.port, 'POST', '/api/v1/ingest?name=again', { body: bytes });
	assert.equal(response.status, 200);
	const again = await web('Query', { mode: 2, report_type: 5, merge: { ...merge, query: 'again:cpu:nanoseconds:cpu:nanoseconds{thread="two"}' } });
	same(graphOf(again), treeOf(list().filter((s) => s.places.some((p) => nameOf(p) === 'inner'))));
	assert.equal(filtered, total(stacks) - again.total);
	assert.ok(gunzipSync(bytes).includes('two'));
});

// ---- comparisons ----
await test('comparisons: table, top, and pprof of the differences', async () => {
	const later = stacks.map((s, i) => ({ ...s, value: s.value * (i % 3) })).filter((s) => s.value);
	await send(later, now + 300000);
	const b = { ...merge, start: seconds(now + 200000), end: seconds(now + 400000) },
		before = functionsOf(list()),
		after = functionsOf(list(later));
	for (const absolute of [true, false]) {
		const scale = absolute ? 1 : total(later) / total(stacks),
			change = (a, c) => (c ?? 0) - Math.round((a ?? 0) * scale);
		const compare = (report_type) => web('Query', { mode: 1, report_type, diff: { a: { mode: 1, merge }, b: { mode: 1, merge: b }, absolute } });
		for (const row of rowsOf((await compare(7)).table_arrow.record)) {
			const name = row.function_name ?? `0x${row.location_address.toString(16)}`;
			assert.deepEqual([row.cumulative, row.flat], [after.get(name)?.total ?? 0, after.get(name)?.flat ?? 0]);
			assert.equal(row.cumulative_diff, change(before.get(name)?.total, after.get(name)?.total), name);
			assert.equal(row.flat_diff, change(before.get(name)?.flat, after.get(name)?.flat), name);
		}
		for (const { meta, diff } of (await compare(2)).top.list) {
			const name = meta.function?.name || `0x${meta.location.address.toString(16)}`;
			assert.equal(diff ?? 0, change(before.get(name)?.total, after.get(name)?.total), name);
		}
		const graph = graphOf(await compare(5));
		same(graph, treeOf(list(later)));
		const tree = treeOf(list());
		for (const path of graph.found.keys()) assert.equal(graph.at(path).diff, change(tree.get(path)?.total, graph.found.get(path).total), path);
		assert.ok(gunzipSync((await compare(1)).pprof).length > 0);
	}
	assert.match(
		(await web('Query', { mode: 1, report_type: 9, diff: { a: { mode: 1, merge }, b: { mode: 1, merge: b } } })).message,
		/a comparison cannot be grouped by time/,
	);
});

// ---- over time ----
await test('FLAMECHART: what follows on each other is one row', async () => {
	const each = 10; // ms, the period
	const moments = [
		[0, [main, work]],
		[1, [main, work]],
		[2, [main, parse]],
		[3, [main, work]],
		[7, [main, work]], // after a pause
		[8, [main, work]],
	];
	for (const [i, frames] of moments) await send([{ thread: 'one', value: each * 1e6, frames: reversed(frames) }], now + i * each, 'chart');
	const response = await web('Query', { mode: 2, report_type: 9, merge: { ...merge, query: 'chart:cpu:nanoseconds:cpu:nanoseconds:delta' } }),
		{ rows } = graphOf(response);
	assert.deepEqual(
		rows.slice(1).map((r) => [r.function_name, Math.round((r.timestamp / 1e6 - now) / each), r.cumulative / 1e6 / each, rows[r.parent].function_name]),
		[
			['main', 0, 4, null],
			['main', 7, 2, null],
			['work', 0, 2, 'main'],
			['Parse', 2, 1, 'main'],
			['work', 3, 1, 'main'],
			['work', 7, 2, 'main'],
		],
	);
	assert.equal(response.total, moments.length * each * 1e6);
});

// ---- shared ----
await test('ShareProfile keeps a snapshot here, and its link is to this server', async () => {
	const query_request = { mode: 2, merge, report_type: 5, filter: [protoOf('stack', ['function_name', 'equal', 'Parse'])] },
		{ link } = await web('ShareProfile', { query_request, description: 'slow\nsince Tuesday' }),
		[, host, id] = /^http:\/\/([^/]+)\/\?view=shared&id=([0-9a-f]{32})$/.exec(link),
		expected = list().filter((s) => s.places.some((p) => nameOf(p) === 'Parse'));
	assert.equal(host, `127.0.0.1:${server.port}`);
	const page = await request(server.port, 'GET', `/api/v1/snapshots/${id}`);
	assert.deepEqual([page.status, page.headers['content-type']], [200, 'application/x-wick-view']);
	const json = JSON.parse(page.body.subarray(12, 12 + page.body.readUInt32LE(8)));
	assert.equal(json.snapshot.title, 'slow since Tuesday');
	assert.equal(json.answer.types[0].flame.total, total(expected));
	const share = (method, message) => web(method, message, 'ShareService');
	const { types, description } = await share('ProfileTypes', { id });
	assert.deepEqual([types.map((t) => [t.sample_type, t.sample_unit]), description], [[['cpu', 'nanoseconds']], 'slow since Tuesday']);
	const graph = graphOf(await share('Query', { id, report_type: 5, invert_call_stack: true }));
	same(graph, treeOf(expected.map((s) => ({ ...s, places: reversed(s.places) }))));
	const metadata = await share('Query', { id, report_type: 8 });
	assert.deepEqual(metadata.profile_metadata.mapping_files, [app.file, lib.file]);
	const table = await share('Query', { id, report_type: 7, filter: [protoOf('frame', ['binary', 'equal', 'libx.so'])] });
	assert.deepEqual(
		rowsOf(table.table_arrow.record).map((r) => r.function_name),
		['Parse', null],
	);
	assert.equal((await share('Query', { id: 'ab'.repeat(16), report_type: 5 })).status, 5);
	assert.equal((await share('Query', { id: '../x', report_type: 5 })).status, 5);
	assert.match((await web('ShareProfile', { query_request: { mode: 2, merge: { ...merge, query: `${TYPE}{thread="none"}` } } })).message, /nothing to share/);
});
await test('ShareService: a profile that somebody brings', async () => {
	const share = (method, message) => web(method, message, 'ShareService'),
		{ id, link, message } = await share('Upload', { profile: pprof(stacks, now), description: '' });
	assert.equal(message, undefined);
	assert.ok(link.endsWith(id));
	const response = await share('Query', { id, profile_type: 'x:cpu:nanoseconds:cpu:nanoseconds', report_type: 5, group_by: { fields: ['mapping_file'] } });
	same(
		graphOf(response, (row) => [row.function_name ?? `0x${row.location_address.toString(16)}`, row.mapping_file].join('|')),
		treeOf(list(), (p) => [nameOf(p), p.f.mapping.file].join('|')),
	);
	assert.match((await share('Query', { id, profile_type: 'x:alloc:bytes:cpu:nanoseconds', report_type: 5 })).message, /no values of type/);
	assert.equal((await share('Upload', { profile: Buffer.from('no profile') })).status, 3);
	// A snapshot of something else is no shared profile.
	const other = await request(server.port, 'POST', `/api/v1/snapshots?query=process_cpu&from=now-1h&to=now`, { body: '{}' });
	assert.equal((await share('Query', { id: JSON.parse(other.body).id, report_type: 5 })).status, 5);
});

// ---- where Parca's page looks for them ----
await test("below /api, as Parca's page asks", async () => {
	const page = clientOf(server.port, '/api');
	assert.equal((await page('HasProfileData', {})).has_data, true);
	same(graphOf(await page('Query', { mode: 2, merge, report_type: 5 })), treeOf(list()));
	assert.deepEqual((await page('Targets', {}, 'ScrapeService')).targets, {});
	assert.deepEqual((await page('Agents', {}, 'AgentsService')).agents, []);
	const poll = await request(server.port, 'POST', '/api/v1/agents/poll', { body: JSON.stringify({ version: 1, agent: 'beef', host: 'well', wick: '9' }) });
	assert.equal(poll.status, 200);
	const { agents } = await page('Agents', {}, 'AgentsService');
	assert.deepEqual(
		agents.map((a) => [a.id, a.last_error, Math.abs(a.last_push.seconds - Date.now() / 1000) < 60]),
		[['well', '', true]],
	);
});
await test('Targets are what is scraped, by job', async () => {
	const program = createServer((_, response) => response.end(pprof(stacks, Date.now()))),
		config = `${directory}/config.yaml`;
	await new Promise((resolve) => program.listen(0, '127.0.0.1', resolve));
	const address = `127.0.0.1:${program.address().port}`,
		profiles =
			'    profiling_config: {pprof_config: {memory: {enabled: true, path: /heap}, process_cpu: {enabled: false}, goroutine: {enabled: false}, mutex: {enabled: false}, block: {enabled: false}}}\n';
	writeFileSync(
		config,
		`scrape_configs:\n${['one', 'two'].map((job) => `  - job_name: ${job}\n    scrape_interval: 1s\n    static_configs: [{targets: ['${job === 'one' ? address : '127.0.0.1:1'}'], labels: {env: test}}]\n${profiles}`).join('')}`,
	);
	const scraper = await startServer(`${directory}/scraper`, ['--config', config]),
		page = clientOf(scraper.port, '/api'),
		deadline = Date.now() + 60000;
	let targets = {};
	const ready = () => targets.one?.targets.some((t) => t.health === 1) && targets.two?.targets.some((t) => t.health === 2);
	while (!ready() && Date.now() < deadline) {
		({ targets } = await page('Targets', { state: 1 }, 'ScrapeService'));
		await new Promise((resolve) => setTimeout(resolve, 100));
	}
	assert.ok(ready(), JSON.stringify(targets));
	assert.deepEqual(Object.keys(targets).sort(), ['one', 'two']);
	const good = targets.one.targets.find((t) => t.health === 1),
		bad = targets.two.targets.find((t) => t.health === 2),
		labels = Object.fromEntries(good.labels.labels.map((l) => [l.name, l.value])),
		discovered = Object.fromEntries(good.discovered_labels.labels.map((l) => [l.name, l.value]));
	assert.deepEqual([labels.env, labels.instance, good.last_error], ['test', address, '']);
	assert.deepEqual(discovered, { __address__: address, __scheme__: 'http', job: 'one' });
	assert.ok(good.url.startsWith(`http://${address}/`) && good.last_scrape.seconds > now / 1000);
	assert.match(bad.last_error, /127\.0\.0\.1:1/);
	assert.deepEqual((await page('Targets', { state: 2 }, 'ScrapeService')).targets, {});
	const json = await request(scraper.port, 'POST', '/parca.scrape.v1alpha1.ScrapeService/Targets', {
		body: '{"state":"STATE_ACTIVE"}',
		headers: { 'content-type': 'application/json' },
	});
	assert.equal(JSON.parse(json.body).targets.one.targets.find((t) => t.health === 'HEALTH_GOOD').url, good.url);
	await scraper.stop();
	program.closeAllConnections();
	program.close();
});
await test('samples that were counted are CPU time, where it is known what one stands for', async () => {
	const range = { start: seconds(now - 60000), end: seconds(now + 60000), step: seconds(600000) };
	for (const [name, options] of [
		['ticks', { type: 'samples', unit: 'count' }],
		['events', { type: 'samples', unit: 'count', period: 0 }],
	]) {
		const response = await request(server.port, 'POST', `/api/v1/ingest?name=${name}`, { body: pprof(stacks, now, options) });
		assert.equal(response.status, 200);
		const query = `${name}:samples:count:cpu:nanoseconds:delta`,
			scale = name === 'ticks' ? PERIOD : 1,
			{ series } = await web('QueryRange', { query, ...range }),
			graph = await web('Query', { mode: 2, report_type: 5, merge: { ...merge, query } });
		assert.deepEqual(series[0].sample_type, name === 'ticks' ? { type: 'cpu', unit: 'nanoseconds' } : { type: 'samples', unit: 'count' });
		assert.equal(series[0].samples[0].value, total(stacks) * scale);
		assert.deepEqual([graph.total, graph.flamegraph_arrow.unit], [total(stacks) * scale, name === 'ticks' ? 'nanoseconds' : 'count']);
	}
});
await server.stop();
finish();
