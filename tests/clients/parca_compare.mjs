// SPDX-License-Identifier: Apache-2.0
// WICK_PORT PARCA_PORT: gives both servers the same profiles, makes the same calls, and compares the responses. What is compared is
// what a response says, not its form: Arrow streams are read by Apache Arrow's own library, rows come in any order, and ids of nodes
// are names. Where the two differ on purpose (docs/dashboards.md) the stacks here have nothing of it: there is no recursion, and
// inlined calls only where both agree; addresses are those of the files, and of frames without a function.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { gunzipSync } from 'node:zlib';
import { test, finish, request, bytesField, intField } from '../harness.mjs';
import { clientOf, seconds, tableOf } from '../interop/parca_client.mjs';
import { app, at, lib, line, main, parse, pprof, reversed, stacks, work } from '../interop/parca_stacks.mjs';

const arrow = createRequire(new URL('../package.json', import.meta.url))('apache-arrow');
const [wickPort, parcaPort] = process.argv.slice(2).map(Number);
const servers = { wick: clientOf(wickPort, '/api'), parca: clientOf(parcaPort, '/api') };
const now = Math.floor(Date.now() / 60000) * 60000 - 300000,
	NAME = 'process_cpu',
	TYPE = `${NAME}:cpu:nanoseconds:cpu:nanoseconds:delta`,
	COUNT = 'counted:samples:count:cpu:nanoseconds:delta';

// Both name places by the addresses that they are sent: those of the file.
for (const mapping of [app, lib]) Object.assign(mapping, { start: 0, limit: 0x10000, offset: 0 });
for (const s of stacks) for (const f of s.frames) f.address &= 0xff;
const frames = stacks.flatMap((s) => s.frames),
	unnamed = frames.find((f) => !f.lines.length);
const plain = [
	{ thread: 'one', value: 1000, frames: [main, work] },
	{ thread: 'one', value: 510, frames: [main, work, parse] },
	{ thread: 'two', value: 320, frames: [main, parse] },
	{ thread: 'two', value: 205, frames: [main, work, unnamed] },
	{ thread: '', value: 53, frames: [at(app, 0x90, line('start', 'src/start.c', 3)), main, parse] },
].map((s) => ({ ...s, frames: reversed(s.frames) }));
const withInlined = stacks.filter((s) => s.thread === 'two');
const later = plain.map((s, i) => ({ ...s, value: s.value * (1 + (i % 3)) }));

// ---- the same bytes for both ----
const label = (name, value) => bytesField(1, [...bytesField(1, name), ...bytesField(2, value)]);
const writeRaw = (name, list, timeMs, options) => {
	const series = [...new Set(list.map((s) => s.thread))].flatMap((thread) => {
		const labels = [...label('__name__', name), ...label('service_name', 'shop'), ...(thread ? label('thread', thread) : [])],
			profile = pprof(
				list.filter((s) => s.thread === thread),
				timeMs,
				options,
			);
		return bytesField(2, [...bytesField(1, labels), ...bytesField(2, bytesField(1, profile))]);
	});
	return Buffer.from([...series, ...intField(3, 1)]);
};
async function send(...args) {
	const message = writeRaw(...args),
		head = Buffer.alloc(5);
	head.writeUInt32BE(message.length, 1);
	for (const [port, prefix] of [
		[wickPort, ''],
		[parcaPort, '/api'],
	]) {
		const response = await request(port, 'POST', `${prefix}/parca.profilestore.v1alpha1.ProfileStoreService/WriteRaw`, {
			body: Buffer.concat([head, message]),
			headers: { 'content-type': 'application/grpc-web+proto' },
		});
		const trailers = response.body.toString('latin1') + JSON.stringify(response.headers);
		assert.match(trailers, /grpc-status["]?:\s*"?0/, `port ${port}: ${response.status} ${trailers}`);
	}
}
await send(NAME, plain, now);
await send(NAME, later, now + 120000);
await send('inlined', withInlined, now);
await send('counted', plain, now, { type: 'samples', unit: 'count' });
await send('heap', plain, now, { type: 'inuse_space', unit: 'bytes', durationNs: 0 });

// ---- what responses say ----
// An LZ4 frame (github.com/lz4/lz4, doc/lz4_Frame_format.md), which is how Parca compresses the buffers of a record.
function decodeLz4(frame) {
	const bytes = Buffer.from(frame.buffer, frame.byteOffset, frame.length),
		flags = bytes[4],
		out = [];
	assert.equal(bytes.readUInt32LE(0), 0x184d2204);
	let next = 7 + (flags & 8 ? 8 : 0) + (flags & 1 ? 4 : 0);
	for (let size; (size = bytes.readUInt32LE(next)) !== 0; next += (size & 0x7fffffff) + (flags & 16 ? 4 : 0)) {
		next += 4;
		const end = next + (size & 0x7fffffff);
		let at = next;
		if (size >>> 31) {
			out.push(...bytes.subarray(at, end));
			continue;
		}
		const length = (start) => {
			let n = start;
			if (start === 15) for (let more = 255; more === 255; n += more) more = bytes[at++];
			return n;
		};
		while (at < end) {
			const token = bytes[at++],
				literals = length(token >> 4);
			for (let i = 0; i < literals; i++) out.push(bytes[at++]);
			if (at >= end) break;
			const offset = bytes.readUInt16LE(at);
			at += 2;
			for (let i = length(token & 15) + 4; i > 0; i--) out.push(out[out.length - offset]);
		}
	}
	return Uint8Array.from(out);
}
arrow.compressionRegistry.set(arrow.CompressionType.LZ4_FRAME, { decode: decodeLz4 });

function schemaAndRows(record) {
	const { table, rows } = tableOf(record);
	return { schema: table.schema.fields.map((f) => `${f.name}: ${f.type}`), rows };
}
const sorted = (list) => list.map((item) => JSON.stringify(item)).sort();
// Parca keeps no address of frames that come with functions, and subtracts no base from frames without.
const common = (row) => ({
	...row,
	location_address: row.function_name === null ? row.location_address : null,
	diff: row.function_name === null && row.depth ? null : row.diff,
});
const nameOf = (row) => row.function_name ?? (row.location_address === null ? '' : `0x${row.location_address.toString(16)}`);
const said = {
	flamegraph_arrow({ record, unit, height, trimmed }) {
		const { schema, rows } = schemaAndRows(record),
			paths = [''];
		const list = rows.map(({ children, parent, value_offset, ...row }, i) => {
			if (i) paths[i] = `${paths[parent]};${row.labels_only ? JSON.stringify(Object.entries(row).filter(([k]) => k.startsWith('labels.'))) : nameOf(row)}`;
			for (const child of children ?? []) assert.equal(rows[child].parent, i);
			return { path: paths[i], leaf: children === null, ...common(row) };
		});
		return { schema, rows: sorted(list), unit, height, trimmed };
	},
	table_arrow({ record, unit }) {
		const { schema, rows } = schemaAndRows(record),
			names = (list) => (list ?? []).map((i) => nameOf(rows[i])).sort();
		return { schema, unit, rows: sorted(rows.map((r) => ({ ...common(r), callers: names(r.callers), callees: names(r.callees) }))) };
	},
	source({ record, source, unit }) {
		return { ...schemaAndRows(record), source, unit };
	},
	callgraph({ nodes, edges, cumulative }) {
		const nodeOf = ({ meta }) => meta.function?.name || `0x${meta.location.address.toString(16)}`,
			names = new Map(nodes.map((n) => [n.id, nodeOf(n)]));
		return {
			nodes: sorted(nodes.map((n) => [nodeOf(n), n.cumulative, n.flat])),
			edges: sorted(edges.map((e) => [names.get(e.source), names.get(e.target), e.cumulative, e.is_collapsed])),
			cumulative,
		};
	},
	top({ list, reported, total, unit }) {
		return { list: sorted(list.map((n) => [n.meta.function?.name || n.meta.location.address, n.cumulative, n.flat, n.diff])), reported, total, unit };
	},
	flamegraph({ root, unit, height }) {
		// Frames without a name have none in one, an address as a name in the other.
		const walk = (node) => ({
			cumulative: node.cumulative,
			diff: node.diff,
			children: sorted((node.children ?? []).map((c) => [c.meta.function?.name.replace(/.*\+0x.*/, '') ?? '', walk(c)])),
		});
		return { root: walk(root), unit, height };
	},
	profile_metadata: (metadata) => metadata,
	pprof: (bytes) => gunzipSync(bytes).length > 0,
};
function sayings(response) {
	const { total, filtered, ...rest } = response,
		reports = Object.entries(rest).filter(([key, value]) => said[key] && value !== null && !(Buffer.isBuffer(value) && !value.length));
	return { total: 'pprof' in Object.fromEntries(reports) ? 0 : total, filtered, ...Object.fromEntries(reports.map(([key, value]) => [key, said[key](value)])) };
}
async function compare(method, message, service = 'QueryService', sayingsOf = (r) => r) {
	const [wick, parca] = await Promise.all([servers.wick(method, message, service), servers.parca(method, message, service)]);
	assert.equal(parca.status, undefined, `Parca: ${parca.message}`);
	assert.deepEqual(sayingsOf(wick), sayingsOf(parca));
	return wick;
}
const range = { start: seconds(now - 60000), end: seconds(now + 60000) },
	merge = { query: TYPE, ...range };
const query = (more) => compare('Query', { mode: 2, merge, report_type: 5, ...more }, 'QueryService', sayings);

await test('types, labels, values', async () => {
	const all = { start: seconds(now - 3600000), end: seconds(now + 3600000) };
	await compare('ProfileTypes', all, 'QueryService', ({ types }) => sorted(types));
	await compare('Labels', { ...all, profile_type: TYPE });
	await compare('Values', { ...all, label_name: 'thread', profile_type: TYPE }, 'QueryService', ({ label_values }) => [...new Set(label_values)]);
	await compare('HasProfileData', {});
});
await test('flame graph: as it is, trimmed, inverted, sandwiched', async () => {
	await query({});
	await query({ node_trim_threshold: 20 });
	await query({ invert_call_stack: true });
	// A function that all stacks have: of others Parca takes values of stacks that do not have it.
	for (const invert_call_stack of [false, true]) await query({ sandwich_by_function: 'main', invert_call_stack });
	await query({ merge: { ...merge, query: 'inlined:cpu:nanoseconds:cpu:nanoseconds:delta' } });
	await query({ merge: { ...merge, query: `${TYPE}{thread="one"}` } });
});
await test('flame graph: groups', async () => {
	for (const fields of [
		['function_name'],
		['mapping_file'],
		['function_file_name'],
		['location_address'],
		['labels.thread'],
		['labels.thread', 'labels.service_name'],
		['labels.none'],
	])
		await query({ group_by: { fields } });
});
const conditions = [
	['function_name', { equal: 'PARSE' }],
	['function_name', { not_equal: 'work' }],
	['function_name', { contains: 'OR' }],
	['function_name', { not_contains: 'ars' }],
	['function_name', { starts_with: 'wo' }],
	['function_name', { not_starts_with: 'par' }],
	['system_name', { equal: '_zParse' }],
	['filename', { contains: 'work.c' }],
	['filename', { not_equal: 'src/work.c' }],
	['binary', { equal: 'libx.so' }],
	['binary', { contains: 'LIB' }],
	['address', { equal: unnamed.address }],
	['line_number', { equal: 20 }],
	['line_number', { not_equal: 40 }],
];
const negations = [
	['binary', { not_contains: 'lib' }],
	['binary', { not_equal: 'app' }],
];
const criteria = (kind, [field, condition]) => ({ [`${kind}_filter`]: { criteria: { [field]: condition } } });
await test('filters of stacks and of frames', async () => {
	for (const condition of conditions) await query({ filter: [criteria('stack', condition)] });
	for (const condition of [...conditions, ...negations]) await query({ filter: [criteria('frame', condition)] });
	await query({ filter: [criteria('frame', conditions[9]), criteria('stack', conditions[0]), criteria('stack', conditions[8])] });
	for (const exclude of [false, true]) await query({ filter: [{ stack_filter: { function_name_stack_filter: { function_to_filter: 'Work', exclude } } }] });
	await query({ filter: [{ frame_filter: { binary_frame_filter: { include_binaries: ['libx'] } } }] });
	for (const report_type of [2, 3, 7]) await query({ report_type, filter: [criteria('frame', conditions[9])] });
});
await test('other reports', async () => {
	for (const report_type of [0, 1, 2, 3, 7, 8]) await query({ report_type });
	for (const reference of [
		{ build_id: 'aa11', filename: 'src/work.c' },
		{ build_id: 'bb22', filename: 'src/parse.c' },
		{ build_id: 'aa11', filename: 'src/parse.c' },
	])
		await query({ report_type: 6, source_reference: reference });
});
await test('comparisons, where the base is not larger', async () => {
	const side = (start, end) => ({ mode: 1, merge: { query: TYPE, start: seconds(start), end: seconds(end) } });
	const a = side(now - 60000, now + 60000),
		b = side(now + 60001, now + 180000);
	await compare('Query', { mode: 1, report_type: 8, diff: { a, b } }, 'QueryService', sayings);
	for (const report_type of [5, 7]) await compare('Query', { mode: 1, report_type, diff: { a, b, absolute: true } }, 'QueryService', sayings);
});
await test('values over time', async () => {
	const of = ({ series }) =>
		sorted(series.map((s) => ({ ...s, labelset: sorted(s.labelset?.labels ?? []), samples: s.samples.map(({ timestamp, value }) => [timestamp, value]) })));
	const whole = { start: seconds(now - 60000), end: seconds(now + 180000) };
	for (const sum_by of [[], ['thread'], ['service_name', 'thread']])
		for (const step of [60000, 240000]) {
			await compare('QueryRange', { query: TYPE, ...whole, step: seconds(step), sum_by }, 'QueryService', of);
			await compare('QueryRange', { query: COUNT, ...whole, step: seconds(step), sum_by }, 'QueryService', of);
		}
	// Steps of several times have their own duration.
	const rates = ({ series }) => series.map((s) => s.samples.map(({ value_per_second, duration }) => [value_per_second.toPrecision(12), duration]));
	const aligned = Math.floor(now / 600000) * 600000;
	if (aligned + 600000 > now + 120000)
		await compare('QueryRange', { query: TYPE, start: seconds(aligned), end: seconds(aligned + 599999), step: seconds(600000) }, 'QueryService', rates);
});
await test('samples that were counted are CPU time', async () => {
	const { flamegraph_arrow } = await query({ merge: { ...merge, query: COUNT } });
	assert.equal(flamegraph_arrow.unit, 'nanoseconds');
});
await test('a gauge: each series by itself, and a merge', async () => {
	const heap = 'heap:inuse_space:bytes:cpu:nanoseconds';
	const of = ({ series }) =>
		sorted(
			series.map((s) => ({ labelset: sorted(s.labelset?.labels ?? []), samples: s.samples.map(({ value, value_per_second }) => [value, value_per_second]) })),
		);
	await compare('QueryRange', { query: heap, ...range, step: seconds(60000) }, 'QueryService', of);
	await query({ merge: { ...merge, query: heap } });
});
await test('targets and agents of servers that have none', async () => {
	await compare('Targets', {}, 'ScrapeService');
	const { agents } = await servers.wick('Agents', {}, 'AgentsService');
	assert.deepEqual(agents, []);
});
finish();
