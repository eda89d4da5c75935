// SPDX-License-Identifier: Apache-2.0
// parca.profilestore.v1alpha1.ProfileStoreService/{WriteArrow, Write} by the gRPC project's client: records as Parca's agent makes them
// (arrow_build.mjs), and as Apache Arrow's own library writes them. What must come out is computed from the samples that go in.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { writeFileSync } from 'node:fs';
import { startServer, request, temporaryDirectory, test, finish } from '../harness.mjs';
import * as build from './arrow_build.mjs';

const require = createRequire(new URL('../package.json', import.meta.url));
const grpc = require('@grpc/grpc-js'),
	loader = require('@grpc/proto-loader'),
	arrow = require('apache-arrow'),
	{ Profile } = require('pprof-format');
const directory = temporaryDirectory();
writeFileSync(
	`${directory}/store.proto`,
	`syntax = "proto3"; package parca.profilestore.v1alpha1;
service ProfileStoreService {
  rpc Write(stream WriteRequest) returns (stream WriteResponse) {}
  rpc WriteArrow(WriteArrowRequest) returns (WriteArrowResponse) {}
}
message WriteRequest { bytes record = 1; }
message WriteResponse { bytes record = 1; }
message WriteArrowRequest { bytes ipc_buffer = 1; }
message WriteArrowResponse {}`,
);
const service = grpc.loadPackageDefinition(loader.loadSync(`${directory}/store.proto`, { keepCase: true })).parca.profilestore.v1alpha1.ProfileStoreService;
const server = await startServer(`${directory}/data`);
const client = new service(`127.0.0.1:${server.port}`, grpc.credentials.createInsecure());
const writeArrow = (record) => new Promise((resolve) => client.WriteArrow({ ipc_buffer: record }, (error, response) => resolve(error ?? response)));
const range = { from: 'now-1h', to: 'now+1h' };
const ask = async (query, format, more = {}) => {
	const response = await request(server.port, 'GET', `/api/v1/query?${new URLSearchParams({ query, ...range, format, ...more })}`);
	assert.equal(response.status, 200, response.body.toString());
	return response.body;
};
const total = async (query) => JSON.parse(await ask(query, 'flame')).flame.total;
const folded = async (query) => (await ask(query, 'folded')).toString().trim().split('\n').sort();

// ---- the samples: locations of each stack leaf first
const start = BigInt(Date.now() - 60000) * 1000000n;
const native = (address, file, id) => ({ address, type: 'native', file, id });
const python = (...lines) => ({ address: 7, type: 'cpython', lines: lines.map(([name, file, line]) => ({ name, file, line })) });
const kernel = (name, line) => ({ address: 0x10, type: 'kernel', file: '[kernel.kallsyms]', lines: [{ name, file: 'vmlinux', line }] });
const locations = [
	native(0x1234, 'app', 'aabbccdd00112233'),
	native(0x5678, 'libfoo.so', 'ffeeddcc99887766'),
	python(['inlined_helper_of_some_length', 'helper.py', 3], ['work', 'main.py', 40]),
	python(['module', 'main.py', 1]),
	kernel('do_syscall_64', 12),
];
const stacks = [[0, 1], [2, 3], [4, 3], []];
// As folded stacks show them: _[k] in the kernel, _[i] inlined into what is before it.
const frame = (location) =>
	location.lines
		? [...location.lines]
				.reverse()
				.map((line, i) => line.name + (location.type === 'kernel' ? '_[k]' : i ? '_[i]' : ''))
				.join(';')
		: `${location.file}+0x${location.address.toString(16)}`;
const path = (stack) =>
	stacks[stack]
		.map((at) => frame(locations[at]))
		.reverse()
		.join(';');
const rows = [];
for (let i = 0; i < 40; i++)
	rows.push({
		stack: i % 3,
		value: i + 1,
		type: ['samples', 'count', 'cpu', 'nanoseconds'],
		period: 52631578,
		duration: 1000000000,
		time: start + BigInt(i) * 100000000n,
		labels: { comm: i < 20 ? 'first' : 'second', node: 'n1', thread_id: i % 2 ? String(100 + (i % 4)) : null },
	});
for (let i = 0; i < 6; i++)
	rows.push({
		stack: i % 2,
		value: 1000 * (i + 1),
		type: ['inuse_space', 'bytes', 'space', 'bytes'],
		period: 524288,
		duration: 0,
		time: start + BigInt(i),
		labels: { comm: 'first', node: 'n1', thread_id: null },
	});
// times: how many profiles a gauge is averaged over.
const expected = (test, times = 1) => {
	const sums = new Map();
	rows.filter(test).forEach((row) => sums.set(path(row.stack), (sums.get(path(row.stack)) ?? 0) + row.value));
	return [...sums].map(([stack, sum]) => `${stack} ${sum / times}`).sort();
};
const sum = (test) => rows.filter(test).reduce((all, row) => all + row.value, 0);
const isCpu = (row) => row.type[0] === 'samples',
	isHeap = (row) => !isCpu(row);

// ---- as the agent writes them
const { int64, uint64, utf8, binary, utf8View, fixed, timestamp, struct, list, listView, runs, textDictionary, dictionary, bool, arrowStream } = build;
const idOf = (stack) => Buffer.concat([Buffer.alloc(15, 0xa0), Buffer.from([stack])]);
const column = (name) => rows.map((row) => row[name]);
const spread = (lists) => {
	let at = 0;
	return lists.map((items) => [(at += items.length) - items.length, items.length]);
};
function version2(producer, compression) {
	const functions = [],
		indices = [],
		lines = [];
	for (const location of locations)
		for (const line of location.lines ?? []) {
			let at = functions.findIndex((of) => of.name === line.name && of.file === line.file);
			if (at < 0) at = functions.push(line) - 1;
			indices.push(at);
			lines.push(line);
		}
	const lineSpans = spread(locations.map((location) => location.lines ?? [])).map((span) => (span[1] ? span : null));
	const places = struct({
		address: uint64(locations.map((of) => of.address)),
		frame_type: textDictionary(locations.map((of) => of.type)),
		mapping_file: textDictionary(locations.map((of) => of.file)),
		mapping_build_id: textDictionary(locations.map((of) => of.id)),
		lines: listView(
			lineSpans,
			struct({
				line: uint64(lines.map((of) => of.line)),
				column: uint64(lines.map(() => 0)),
				function: dictionary(
					indices,
					struct({
						system_name: utf8View(functions.map((of) => of.name)),
						filename: textDictionary(functions.map((of) => of.file)),
						start_line: uint64(functions.map(() => 0)),
					}),
				),
			}),
		),
	});
	const spans = spread(stacks),
		text = (of) => runs(rows.map(of), utf8);
	return arrowStream(
		{
			labels: struct(
				Object.fromEntries(
					['comm', 'node', 'thread_id', '__hidden'].map((name) => [
						name,
						runs(
							rows.map((row) => row.labels[name] ?? null),
							textDictionary,
						),
					]),
				),
			),
			stacktrace: listView(
				rows.map((row) => spans[row.stack]),
				dictionary(stacks.flat(), places),
			),
			stacktrace_id: fixed(
				16,
				rows.map((row) => idOf(row.stack)),
			),
			value: int64(column('value')),
			producer: text(() => producer),
			sample_type: text((row) => row.type[0]),
			sample_unit: text((row) => row.type[1]),
			period_type: text((row) => row.type[2]),
			period_unit: text((row) => row.type[3]),
			temporality: text((row) => (row.duration ? 'delta' : null)),
			period: runs(column('period'), int64),
			duration: runs(column('duration'), uint64),
			timestamp: timestamp('ns', column('time')),
		},
		{ metadata: { parca_write_schema_version: 'v2' }, compression },
	);
}
const tool = (name) => (buffer) => execFileSync(name, ['-c'], { input: buffer, stdio: ['pipe', 'pipe', 'ignore'] });

// times: how many different ones the six rows of the heap have.
async function check(producer, times = 6) {
	const cpu = `${producer}:samples:count:cpu:nanoseconds:delta`,
		heap = `${producer}:inuse_space:bytes:space:bytes`;
	assert.deepEqual(await folded(`${cpu}{}`), expected(isCpu));
	assert.deepEqual(await folded(`${heap}{}`), expected(isHeap, times));
	assert.equal(
		await total(`${cpu}{comm="second"}`),
		sum((row) => isCpu(row) && row.labels.comm === 'second'),
	);
	assert.equal(
		await total(`${cpu}{comm="first", thread_id="103"}`),
		sum((row) => isCpu(row) && row.labels.comm === 'first' && row.labels.thread_id === '103'),
	);
	assert.equal(
		await total(`${cpu}{node="n1", thread_id=""}`),
		sum((row) => isCpu(row) && row.labels.thread_id === null),
	);
}
const plain = version2('agent_plain');
await test('WriteArrow: samples as the agent makes them, with lists that overlap, run ends, and dictionaries of structs', async () => {
	assert.deepEqual(await writeArrow(plain), {});
	await check('agent_plain');
});
await test('WriteArrow: compressed by LZ4, as the agent does it', async () => {
	assert.deepEqual(await writeArrow(version2('agent_lz4', { codec: 0, pack: tool('lz4') })), {});
	await check('agent_lz4');
});
await test('WriteArrow: compressed by zstd', async () => {
	assert.deepEqual(await writeArrow(version2('agent_zstd', { codec: 1, pack: tool('zstd') })), {});
	await check('agent_zstd');
});
await test('the same record again is stored once', async () => {
	assert.deepEqual(await writeArrow(plain), {});
	await check('agent_plain');
});
await test('build-ids, addresses, files, lines and inlined calls', async () => {
	const response = await request(
		server.port,
		'GET',
		`/api/v1/pprof?${new URLSearchParams({ query: 'agent_plain:samples:count:cpu:nanoseconds:delta{}', ...range })}`,
	);
	assert.equal(response.status, 200, response.body.toString());
	const { gunzipSync } = await import('node:zlib'),
		body = response.body[0] === 0x1f ? gunzipSync(response.body) : response.body,
		profile = Profile.decode(body);
	const text = (at) => profile.stringTable.strings[Number(at)],
		found = new Map(profile.location.map((of) => [of.id, of]));
	const shown = (of) =>
		of.line.length
			? of.line
					.map((line) => {
						const f = profile.function.find((one) => one.id === line.functionId);
						return `${text(f.name)}@${text(f.filename)}:${line.line}`;
					})
					.join('<')
			: (() => {
					const mapping = profile.mapping.find((one) => one.id === of.mappingId);
					return `${text(mapping.filename)}/${text(mapping.buildId)}+${(BigInt(of.address) - BigInt(mapping.memoryStart) + BigInt(mapping.fileOffset)).toString(16)}`;
				})();
	const seen = new Set(profile.sample.map((sample) => sample.locationId.map((id) => shown(found.get(id))).join(' ')));
	assert.deepEqual([...seen].sort(), [
		'app/aabbccdd00112233+1234 libfoo.so/ffeeddcc99887766+5678',
		'do_syscall_64@vmlinux:12 module@main.py:1',
		'inlined_helper_of_some_length@helper.py:3<work@main.py:40 module@main.py:1',
	]);
});
await test('each sample keeps its time', async () => {
	for (const [first, last] of [
		[0, 10],
		[10, 40],
	]) {
		const response = await request(
			server.port,
			'GET',
			`/api/v1/query?${new URLSearchParams({
				query: 'agent_plain:samples:count:cpu:nanoseconds:delta{}',
				format: 'flame',
				from: new Date(Number((start + BigInt(first) * 100000000n) / 1000000n)).toISOString(),
				to: new Date(Number((start + BigInt(last) * 100000000n) / 1000000n)).toISOString(),
			})}`,
		);
		assert.equal(
			JSON.parse(response.body).flame.total,
			rows
				.filter(isCpu)
				.slice(first, last)
				.reduce((all, row) => all + row.value, 0),
		);
	}
});

// ---- as Apache Arrow writes them
await test("WriteArrow: lists, structs, dictionaries and times that Apache Arrow's library wrote", async () => {
	const { Field, Struct, List, Utf8, Uint64, Int64, TimestampMicrosecond, Dictionary, Uint32, vectorFromArray, Table, RecordBatch, Schema } = arrow;
	const f = (name, type) => new Field(name, type, true),
		words = () => new Dictionary(new Utf8(), new Uint32());
	const line = new Struct([
		f('line', new Uint64()),
		f('column', new Uint64()),
		f('function', new Struct([f('system_name', new Utf8()), f('filename', new Utf8()), f('start_line', new Uint64())])),
	]);
	const location = new Struct([
		f('address', new Uint64()),
		f('frame_type', new Utf8()),
		f('mapping_file', new Utf8()),
		f('mapping_build_id', new Utf8()),
		f('lines', new List(f('item', line))),
	]);
	const place = (of) => ({
		address: BigInt(of.address),
		frame_type: of.type,
		mapping_file: of.file ?? null,
		mapping_build_id: of.id ?? null,
		lines: of.lines?.map((one) => ({ line: BigInt(one.line), column: 0n, function: { system_name: one.name, filename: one.file, start_line: 0n } })) ?? null,
	});
	const columns = {
		labels: vectorFromArray(
			rows.map((row) => row.labels),
			new Struct(['comm', 'node', 'thread_id'].map((name) => f(name, new Utf8()))),
		),
		stacktrace: vectorFromArray(
			rows.map((row) => stacks[row.stack].map((at) => place(locations[at]))),
			new List(f('item', location)),
		),
		value: vectorFromArray(
			rows.map((row) => BigInt(row.value)),
			new Int64(),
		),
		producer: vectorFromArray(
			rows.map(() => 'apache'),
			words(),
		),
		period: vectorFromArray(
			rows.map((row) => BigInt(row.period)),
			new Int64(),
		),
		duration: vectorFromArray(
			rows.map((row) => BigInt(row.duration)),
			new Uint64(),
		),
		timestamp: vectorFromArray(
			rows.map((row) => Number(row.time / 1000000n)),
			new TimestampMicrosecond(),
		),
	};
	['sample_type', 'sample_unit', 'period_type', 'period_unit'].forEach((name, i) => {
		columns[name] = vectorFromArray(
			rows.map((row) => row.type[i]),
			words(),
		);
	});
	const table = new Table(columns),
		schema = new Schema(table.schema.fields, new Map([['parca_write_schema_version', 'v2']]));
	const record = arrow.tableToIPC(
		new Table(
			schema,
			table.batches.map((batch) => new RecordBatch(schema, batch.data)),
		),
		'stream',
	);
	assert.deepEqual(await writeArrow(Buffer.from(record)), {});
	await check('apache', 1); /* the times are of milliseconds */
});

// ---- Write
const words1 = (values) => textDictionary(values, binary);
function version1(producer) {
	const text = (of) => runs(rows.map(of), words1),
		ids = rows.map((row) => row.stack);
	return arrowStream(
		{
			...Object.fromEntries(
				['comm', 'node', 'thread_id'].map((name) => [
					`labels.${name}`,
					runs(
						rows.map((row) => row.labels[name]),
						words1,
					),
				]),
			),
			stacktrace_id: runs(ids, (kept) => dictionary(kept, binary(stacks.map((_, at) => idOf(at))))),
			value: int64(column('value')),
			producer: text(() => producer),
			sample_type: text((row) => row.type[0]),
			sample_unit: text((row) => row.type[1]),
			period_type: text((row) => row.type[2]),
			period_unit: text((row) => row.type[3]),
			temporality: text((row) => (row.duration ? 'delta' : null)),
			period: runs(column('period'), int64),
			duration: runs(column('duration'), int64),
			timestamp: runs(column('time'), int64),
		},
		{ metadata: { parca_write_schema_version: 'v1' } },
	);
}
function locationsOf(ids) {
	const all = ids.flatMap((id) => stacks[id[15]].map((at) => locations[at])),
		lines = all.flatMap((of) => of.lines ?? []);
	const zeros = () =>
		runs(
			all.map(() => 0),
			uint64,
		);
	return arrowStream(
		{
			stacktrace_id: binary(ids),
			is_complete: bool(ids.map(() => true)),
			locations: list(
				ids.map((id) => stacks[id[15]].length || null),
				struct({
					address: uint64(all.map((of) => of.address)),
					frame_type: runs(
						all.map((of) => of.type),
						words1,
					),
					mapping_start: zeros(),
					mapping_limit: zeros(),
					mapping_offset: zeros(),
					mapping_file: runs(
						all.map((of) => of.file ?? null),
						words1,
					),
					mapping_build_id: runs(
						all.map((of) => of.id ?? null),
						words1,
					),
					lines: list(
						all.map((of) => of.lines?.length ?? null),
						struct({
							line: int64(lines.map((of) => of.line)),
							column: uint64(lines.map(() => 0)),
							function_name: words1(lines.map((of) => of.name)),
							function_system_name: words1(lines.map(() => '')),
							function_filename: runs(
								lines.map((of) => of.file),
								words1,
							),
							function_start_line: int64(lines.map(() => 0)),
						}),
					),
				}),
			),
		},
		{ metadata: { parca_write_schema_version: 'v1' } },
	);
}
// Sends the samples, hands what is asked to `answer`, which may send; resolves with the status. This end stays open until the server's is closed.
function write(samples, response) {
	return new Promise((resolve) => {
		const call = client.Write();
		call.on('data', (message) => response(message.record, call));
		call.on('error', () => {});
		call.on('status', (status) => {
			call.end();
			resolve(status);
		});
		if (samples) call.write({ record: samples });
		else call.end();
	});
}
await test('Write: the server asks for the stacks, takes their locations, and ends the stream', async () => {
	let asked;
	const status = await write(version1('agent_stream'), (record, call) => {
		const table = arrow.tableFromIPC(record);
		assert.deepEqual(
			table.schema.fields.map((field) => `${field.name} ${field.type}`),
			['stacktrace_id Binary'],
		);
		asked = [...table.getChild('stacktrace_id')].map((id) => Buffer.from(id));
		call.write({ record: locationsOf(asked) });
	});
	assert.equal(status.code, grpc.status.OK, status.details);
	assert.deepEqual(
		asked.map((id) => id.toString('hex')).sort(),
		[0, 1, 2].map((stack) => idOf(stack).toString('hex')),
	);
	await check('agent_stream');
});
await test('Write: samples that have their stacks are stored at once, and their ids are listed as Parca does it', async () => {
	let listed;
	const status = await write(version2('agent_inline'), (record, call) => {
		listed = arrow.tableFromIPC(record).numRows;
		call.end();
	});
	assert.equal(listed, 3);
	assert.equal(status.code, grpc.status.OK, status.details);
	await check('agent_inline');
});
await test('what is wrong is INVALID_ARGUMENT, and said', async () => {
	const refused = async (record, pattern) => {
		const error = await writeArrow(record);
		assert.equal(error.code, grpc.status.INVALID_ARGUMENT, error.details);
		assert.match(error.details, pattern);
	};
	await refused(Buffer.from('nonsense'), /Arrow stream is malformed/);
	await refused(version2('x').subarray(0, 3000), /Arrow stream is malformed/);
	await refused(version1('x'), /no column "stacktrace"/);
	await refused(arrowStream({ value: int64([1]) }), /parca_write_schema_version/);
	await refused(arrowStream({ value: int64([1]) }, { metadata: { parca_write_schema_version: 'v3' } }), /v3/);
	const good = { value: int64([1]), timestamp: timestamp('ns', [start]), sample_type: utf8(['a']), sample_unit: utf8(['b']) },
		meta = { metadata: { parca_write_schema_version: 'v2' } };
	const stack = (indices) => listView([[0, 1]], dictionary(indices, struct({ address: uint64([1]) })));
	await refused(arrowStream({ ...good, stacktrace: stack([9]) }, meta), /no location at its index/);
	await refused(arrowStream({ ...good, stacktrace: listView([[5, 9]], struct({ address: uint64([1]) })) }, meta), /"stacktrace", row 0/);
	await refused(arrowStream({ ...good, value: utf8(['1']), stacktrace: stack([0]) }, meta), /"value" is not of 64-bit integers/);
	const missing = await write(version1('agent_missing'), (record, call) => call.write({ record: locationsOf([idOf(0)]) }));
	assert.equal(missing.code, grpc.status.INVALID_ARGUMENT);
	assert.match(missing.details, /locations of its stack are missing/);
	const early = await write(version1('agent_early'), (record, call) => call.end());
	assert.match(early.details, /ended before the locations/);
	assert.match((await write(null)).details, /ended before a record/);
});
await test('few bytes that stand for much work are RESOURCE_EXHAUSTED', async () => {
	const refused = async (record, pattern) => {
		const error = await writeArrow(record);
		assert.equal(error.code, grpc.status.RESOURCE_EXHAUSTED, error.details);
		assert.match(error.details, pattern);
	};
	const count = 8000,
		ones = Array(count).fill(1),
		same = (value) => build.ree([count], utf8([value])),
		meta = { metadata: { parca_write_schema_version: 'v2' } };
	const good = { value: int64(ones), timestamp: build.ree([count], int64([start])), sample_type: same('a'), sample_unit: same('b') },
		place = (addresses) => struct({ address: uint64(addresses) });
	// Each row is another list of nearly all locations.
	await refused(
		arrowStream(
			{
				...good,
				stacktrace: listView(
					ones.map((_, i) => [i % 4000, 4000 - (i % 97)]),
					place(
						Array(8000)
							.fill(0)
							.map((_, i) => i),
					),
				),
			},
			meta,
		),
		/of its size may have \d+ frames and labels at most/,
	);
	await refused(
		arrowStream(
			{
				...good,
				stacktrace: listView(
					ones.map(() => [0, 20000]),
					place(Array(20000).fill(0)),
				),
			},
			meta,
		),
		/more than 16384 frames/,
	);
	const wide = Object.fromEntries(Array.from({ length: 513 }, (_, i) => [`l${i}`, same('x')]));
	await refused(
		arrowStream(
			{
				...good,
				labels: struct(wide),
				stacktrace: listView(
					ones.map(() => [0, 1]),
					place([1]),
				),
			},
			meta,
		),
		/more than 512 columns of labels/,
	);
	// A buffer that says that it becomes a gigabyte.
	const bomb = { codec: 0, pack: (buffer) => buffer };
	const record = arrowStream(
		{
			...good,
			stacktrace: listView(
				ones.map(() => [0, 1]),
				place([1]),
			),
		},
		{ ...meta, compression: bomb },
	);
	const at = record.lastIndexOf(Buffer.from(new BigInt64Array([BigInt(count * 8)]).buffer));
	record.writeBigInt64LE(1n << 30n, at);
	await refused(record, /Arrow stream is too large/);
	assert.equal((await request(server.port, 'GET', '/healthz')).status, 200);
});
await test('streams that are cancelled while the server waits for their locations leave others alone', async () => {
	for (let i = 0; i < 20; i++) {
		const status = await write(version1('agent_early'), (record, call) => call.cancel());
		assert.equal(status.code, grpc.status.CANCELLED);
	}
	const status = await write(version1('agent_later'), (record, call) => call.write({ record: locationsOf(stacks.map((_, at) => idOf(at))) }));
	assert.equal(status.code, grpc.status.OK, status.details);
	await check('agent_later');
});
client.close();
assert.equal(await server.stop(), 0, server.log());
finish();
