// SPDX-License-Identifier: Apache-2.0
// What Parca Agent does with a server, call by call, as its sources have it (github.com/parca-dev/parca-agent, reporter/): it offers each file
// once, sends what OnlyKeepDebug leaves of it, and sends addresses as the file was linked, by whatever id it knows the file. What must come out is
// what addr2line and Go's own tool say of the programs as they were linked.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { copyFileSync, existsSync, readFileSync, realpathSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { gunzipSync } from 'node:zlib';
import { bytesField, finish, intField, request, startServer, temporaryDirectory, test, varint, wick } from '../harness.mjs';
import { agentId, fileHash, onlyKeepDebug } from './only_keep_debug.mjs';
import { until } from './export_endpoints.mjs';
import { arrowStream, dictionary, fixed, int64, listView, runs, struct, textDictionary, timestamp, uint64, utf8, utf8View } from './arrow_build.mjs';

const require = createRequire(new URL('../package.json', import.meta.url));
const grpc = require('@grpc/grpc-js'),
	protobuf = require('protobufjs'),
	{ Profile } = require('pprof-format');
const directory = temporaryDirectory();
const run = (command, args, options) => execFileSync(command, args, { encoding: 'utf8', maxBuffer: 1 << 28, ...options });

const wire = protobuf.parse(
	`syntax = "proto3"; package wire;
enum Type { DEBUGINFO = 0; EXECUTABLE = 1; SOURCES = 2; }
enum IdType { BUILD_ID_TYPE_UNKNOWN_UNSPECIFIED = 0; BUILD_ID_TYPE_GNU = 1; BUILD_ID_TYPE_HASH = 2; BUILD_ID_TYPE_GO = 3; }
message ShouldRequest { string build_id = 1; string hash = 2; bool force = 3; Type type = 4; IdType build_id_type = 5; }
message ShouldResponse { bool should_initiate_upload = 1; string reason = 2; }
message InitiateRequest { string build_id = 1; int64 size = 2; string hash = 3; bool force = 4; Type type = 5; IdType build_id_type = 6; }
message Instructions { string build_id = 1; string upload_id = 2; int32 upload_strategy = 3; Type type = 5; }
message InitiateResponse { Instructions upload_instructions = 1; }
message Info { string build_id = 1; string upload_id = 2; Type type = 3; }
message UploadRequest { oneof data { Info info = 1; bytes chunk_data = 2; } }
message UploadResponse { string build_id = 1; uint64 size = 2; }
message FinishedRequest { string build_id = 1; string upload_id = 2; Type type = 3; }
message Empty {}
message WriteRequest { bytes record = 1; }
message WriteResponse { bytes record = 1; }
message Panic { string stderr = 1; map<string, string> metadata = 2; }
message Logs { bytes resource_logs = 1; }
`,
	{ keepCase: true },
).root;
const method = (path, request, response, more = {}) => {
	const [sent, received] = [request, response].map((name) => wire.lookupType(`wire.${name}`));
	return {
		path,
		requestStream: false,
		responseStream: false,
		requestSerialize: (value) => Buffer.from(sent.encode(sent.fromObject(value)).finish()),
		requestDeserialize: (bytes) => bytes,
		responseSerialize: (bytes) => bytes,
		responseDeserialize: (bytes) => received.toObject(received.decode(bytes), { defaults: true, longs: Number }),
		...more,
	};
};

const debuginfo = '/parca.debuginfo.v1alpha1.DebuginfoService/',
	store = '/parca.profilestore.v1alpha1.ProfileStoreService/';
const Client = grpc.makeGenericClientConstructor({
	ShouldInitiateUpload: method(`${debuginfo}ShouldInitiateUpload`, 'ShouldRequest', 'ShouldResponse'),
	InitiateUpload: method(`${debuginfo}InitiateUpload`, 'InitiateRequest', 'InitiateResponse'),
	Upload: method(`${debuginfo}Upload`, 'UploadRequest', 'UploadResponse', { requestStream: true }),
	MarkUploadFinished: method(`${debuginfo}MarkUploadFinished`, 'FinishedRequest', 'Empty'),
	WriteArrow: method(`${store}WriteArrow`, 'WriteRequest', 'Empty'),
	Write: method(`${store}Write`, 'WriteRequest', 'WriteResponse', { requestStream: true, responseStream: true }),
	ReportPanic: method('/parca.telemetry.v1alpha1.TelemetryService/ReportPanic', 'Panic', 'Empty'),
	Logs: method('/opentelemetry.proto.collector.logs.v1.LogsService/Export', 'Logs', 'Empty'),
	Traces: method('/opentelemetry.proto.collector.trace.v1.TraceService/Export', 'Logs', 'Empty'),
});
writeFileSync(`${directory}/config.yaml`, "symbols: {host_files: false, debuginfod: {urls: ''}}\n");
const start = () => startServer(`${directory}/data`, ['--config', `${directory}/config.yaml`]);
let server = await start(),
	client = new Client(`127.0.0.1:${server.port}`, grpc.credentials.createInsecure());
const call = (name, message) => new Promise((resolve, reject) => client[name](message, (error, response) => (error ? reject(error) : resolve(response))));

// ---- what the agent's uploader does with a file that it sees for the first time (parca_uploader.go, grpc_upload_client.go)
const FIRST = 'First time we see this Build ID, and it does not exist in debuginfod, therefore please upload!',
	EXISTS = 'Debuginfo already exists and is not marked as invalid, therefore no new upload is needed.';
async function attemptUpload(path) {
	const file = readFileSync(path),
		{ id, type } = agentId(file);
	const asked = await call('ShouldInitiateUpload', { build_id: id, build_id_type: type });
	if (!asked.should_initiate_upload) return asked.reason;
	const made = onlyKeepDebug(file);
	const { upload_instructions: to } = await call('InitiateUpload', { build_id: id, build_id_type: type, hash: fileHash(file), size: made.length });
	assert.equal(to.upload_strategy, 1);
	await new Promise((resolve, reject) => {
		const stream = client.Upload((error) => (error ? reject(error) : resolve()));
		stream.write({ info: { build_id: id, upload_id: to.upload_id } });
		for (let at = 0; at < made.length; at += 1 << 20) stream.write({ chunk_data: made.subarray(at, at + (1 << 20)) });
		stream.end();
	});
	await call('MarkUploadFinished', { build_id: id, upload_id: to.upload_id });
	return asked.reason;
}

// ---- samples, as version 2 of the agent's records has them: one native frame each
const period = 52631578,
	begin = BigInt(Date.now() - 60000) * 1000000n;
function record(samples, { type = ['samples', 'count', 'cpu', 'nanoseconds'], producer = 'parca_agent', duration = 1000000000, at = begin } = {}) {
	const text = (value) =>
			runs(
				samples.map(() => value),
				utf8,
			),
		of = (name) => samples.map((sample) => sample[name]);
	const places = struct({
		address: uint64(of('address')),
		frame_type: textDictionary(samples.map(() => 'native')),
		mapping_file: textDictionary(of('file')),
		mapping_build_id: textDictionary(of('id')),
		lines: listView(
			samples.map(() => null),
			struct({
				line: uint64([]),
				column: uint64([]),
				function: dictionary([], struct({ system_name: utf8View(['']), filename: textDictionary(['']), start_line: uint64([0]) })),
			}),
		),
	});
	return arrowStream(
		{
			labels: struct({ comm: runs(of('comm'), textDictionary) }),
			stacktrace: listView(
				samples.map((_, i) => [i, 1]),
				dictionary(
					samples.map((_, i) => i),
					places,
				),
			),
			stacktrace_id: fixed(
				16,
				samples.map((sample) => Buffer.from(fileHash(Buffer.from(`${sample.id}+${sample.address}`)), 'hex')),
			),
			value: int64(samples.map((sample) => sample.value ?? 1)),
			producer: text(producer),
			sample_type: text(type[0]),
			sample_unit: text(type[1]),
			period_type: text(type[2]),
			period_unit: text(type[3]),
			temporality: text(duration ? 'delta' : null),
			period: runs(
				samples.map(() => period),
				int64,
			),
			duration: runs(
				samples.map(() => duration),
				uint64,
			),
			timestamp: timestamp(
				'ns',
				samples.map((_, i) => at + BigInt(i)),
			),
		},
		{ metadata: { parca_write_schema_version: 'v2' } },
	);
}
const range = { from: 'now-1h', to: 'now+1h' };
const ask = async (path, parameters = {}) => {
	const response = await request(server.port, 'GET', `${path}?${new URLSearchParams({ ...range, ...parameters })}`);
	assert.equal(response.status, 200, response.body.toString());
	return response.body;
};
const types = async () => JSON.parse(await ask('/api/v1/types')).types.map((type) => type.name ?? type);
const total = async (query) => JSON.parse(await ask('/api/v1/query', { query, format: 'flame' })).flame.total;
// The name of each address: "file+address" -> the outermost function there.
async function names(query) {
	const body = await ask('/api/v1/pprof', { query, symbols_wait: '20s' }),
		profile = Profile.decode(body[0] === 0x1f ? gunzipSync(body) : body);
	const text = (at) => profile.stringTable.strings[Number(at)],
		functions = new Map(profile.function.map((f) => [f.id, text(f.systemName) || text(f.name)])),
		mappings = new Map(profile.mapping.map((m) => [m.id, text(m.filename)]));
	return new Map(
		profile.location.map((of) => [
			`${mappings.get(of.mappingId)}+${BigInt(of.address).toString(16)}`,
			of.line.length ? functions.get(of.line.at(-1).functionId) : '',
		]),
	);
}

// ---- programs
const source = `#include <stdio.h>
#include <stdlib.h>
static volatile unsigned sink;
const char program[] = NAME; /* so that no two have one build-id */
__attribute__((noinline)) static void hot_function(unsigned n) { for (unsigned i = 0; i < n; i++) sink = sink * 31 + i; }
__attribute__((noinline)) void cold_function(unsigned n) { for (unsigned i = 0; i < n; i++) sink ^= i * 7; }
int main(int argc, char **argv) { (void)argv; for (int i = 0; i < argc; i++) { hot_function(70); cold_function(30); } return (int)sink & 1; }
`;
writeFileSync(`${directory}/hot.c`, source);
const gcc = (name, ...flags) => {
	run('gcc', ['-O1', '-g', `-DNAME="${name}"`, '-o', `${directory}/${name}`, `${directory}/hot.c`, ...flags]);
	return { name, path: `${directory}/${name}`, full: `${directory}/${name}`, functions: ['hot_function', 'cold_function', 'main'] };
};
const stripped = (program, separate) => {
	const copy = { ...program, name: `${program.name}.stripped`, path: `${directory}/${program.name}.stripped`, debug: `${directory}/${program.name}.debug` };
	copyFileSync(program.full, copy.path);
	if (separate === 'eu-strip') run('eu-strip', ['-f', copy.debug, copy.path]);
	else {
		run('objcopy', ['--only-keep-debug', program.full, copy.debug]);
		run('strip', ['--strip-all', copy.path]);
	}
	return copy;
};
const goSource = `package main
import "os"
var sink int
//go:noinline
func hotFunction(n int) { for i := 0; i < n; i++ { sink = sink*31 + i } }
//go:noinline
func coldFunction(n int) { for i := 0; i < n; i++ { sink ^= i * 7 } }
func main() { for range os.Args { hotFunction(70); coldFunction(30) } }
`;
writeFileSync(`${directory}/hot.go`, goSource);
const goTools = [
	...new Set(['/usr/lib/go-1.19/bin/go', '/usr/bin/go', '/usr/local/go/bin/go'].filter((path) => existsSync(path)).map((path) => realpathSync(path))),
];
const go = (tool, name, ...flags) => {
	const build = (out, ...more) =>
		run(tool, ['build', '-o', `${directory}/${out}`, ...flags, ...more, `${directory}/hot.go`], {
			env: { ...process.env, GOCACHE: process.env.GOCACHE ?? `${directory}/gocache`, GOFLAGS: '', GOTOOLCHAIN: 'local', CGO_ENABLED: '0', GO111MODULE: 'off' },
		});
	build(`${name}.full`);
	build(name, '-ldflags=-s -w');
	return { name, path: `${directory}/${name}`, full: `${directory}/${name}.full`, functions: ['main.hotFunction', 'main.coldFunction', 'main.main'] };
};
// Every third address of the program's own functions, and the function that each is in.
function truth(program, dynamic = false) {
	const symbols = run('nm', [dynamic ? '-DS' : '-S', '--defined-only', program.full])
		.split('\n')
		.map((line) => /^([0-9a-f]+) ([0-9a-f]+) [tTiIWV] ([^@\s]+)/.exec(line))
		.filter((m) => m && program.functions.includes(m[3]));
	assert.ok(symbols.length >= program.functions.length, `${program.name}: ${symbols.length} functions`);
	return symbols.flatMap(([, start, size, name]) => {
		const out = [];
		for (let at = parseInt(start, 16), end = at + parseInt(size, 16); at < end; at += 3) out.push({ address: at, name });
		return out;
	});
}
// What addr2line calls an address is what nm says of it, or the table above is no oracle.
function checkTruth(program, addresses) {
	const said = run('addr2line', ['-f', '-e', program.full], { input: addresses.map((of) => `0x${of.address.toString(16)}\n`).join('') })
		.split('\n')
		.filter((_, i) => i % 2 === 0);
	addresses.forEach((of, i) => assert.equal(said[i], of.name, `${program.name} 0x${of.address.toString(16)}`));
}

const pie = gcc('pie'),
	fixedProgram = gcc('nopie', '-no-pie');
const lld = existsSync('/usr/bin/ld.lld') ? [gcc('lld', '-fuse-ld=lld')] : [];
const whole = [pie, fixedProgram, gcc('nameless', '-Wl,--build-id=none'), gcc('nameless_nopie', '-no-pie', '-Wl,--build-id=none'), ...lld];
const separate = [
	stripped(gcc('one'), 'objcopy'),
	stripped(gcc('two', '-no-pie'), 'objcopy'),
	stripped(gcc('three'), 'eu-strip'),
	stripped(gcc('four', '-no-pie', '-Wl,--build-id=none'), 'eu-strip'),
];
// Each other way to build one needs a standard library of its own, which has to be compiled first.
const goWays = goTools.flatMap((tool, i) => [
	[tool, `go${i}`],
	[tool, `go${i}_pie`, '-buildmode=pie'],
]);
const goPrograms = (process.env.WICK_TEST_FULL ? goWays : goWays.slice(0, 1)).map((way) => go(...way));
const libc = { name: 'libc.so.6', path: run('realpath', ['/lib/x86_64-linux-gnu/libc.so.6']).trim(), functions: ['qsort_r', 'memcpy', 'malloc', 'printf'] };
libc.full = libc.path;
const programs = [...whole, ...separate, ...goPrograms, ...(existsSync(libc.path) ? [libc] : [])];
for (const program of programs) {
	program.id = agentId(readFileSync(program.path)).id;
	program.addresses = truth(program, program === libc);
	if (program !== libc) checkTruth(program, program.addresses);
}
const ownId = (program) => /Build ID: ([0-9a-f]+)/.exec(run('readelf', ['-n', program.path]))?.[1];
const samplesOf = (program, more = {}) =>
	program.addresses.map((of) => ({ address: of.address, file: program.name, id: program.id, comm: program.name, ...more }));

await test('samples come first, and have no names', async () => {
	await call('WriteArrow', { record: record(programs.flatMap((program) => samplesOf(program))) });
	const found = await names('parca_agent:samples');
	assert.equal(
		found.size,
		programs.reduce((all, of) => all + of.addresses.length, 0),
	);
	assert.ok([...found.values()].every((name) => name === ''));
});
await test('the first response of ShouldInitiateUpload is that a file is wanted, and what the agent makes of it is taken', async () => {
	for (const program of programs) assert.equal(await attemptUpload(program.path), FIRST, program.name);
	for (const program of programs) assert.equal(await attemptUpload(program.path), EXISTS, program.name);
});
await test('debug files that a person uploads for what the agent calls the program', async () => {
	for (const program of separate) run(wick, ['debuginfo', 'upload', program.debug, '--url', server.url, '--build-id', program.id], { stdio: 'pipe' });
});
const wrongNames = (found, list) =>
	list.flatMap((program) =>
		program.addresses
			.map((of) => ({ ...of, program: program.name, found: found.get(`${program.name}+${of.address.toString(16)}`) }))
			.filter((of) => of.found !== of.name),
	);
async function checkNames(query, list) {
	let wrong;
	try {
		await until(async () => (wrong = wrongNames(await names(query), list)).length === 0, 'all names', Number(process.env.WICK_NAMES_WAIT ?? 120));
	} catch (error) {
		throw new Error(
			`${error.message}; ${wrong.length} of ${list.reduce((all, of) => all + of.addresses.length, 0)} are wrong, such as ${JSON.stringify(wrong.slice(0, 8))}`,
		);
	}
}
await test('every native frame is named as the programs say', () => checkNames('parca_agent:samples', programs));
await test('CPU time beside the counts, by service', async () => {
	const count = programs.reduce((all, of) => all + of.addresses.length, 0);
	assert.equal(await total('parca_agent:samples:count:cpu:nanoseconds:delta{}'), count);
	assert.equal(await total('process_cpu{comm="pie"}'), pie.addresses.length * period);
	assert.equal(await total('process_cpu{service_name="unknown_service:pie"}'), pie.addresses.length * period);
	const { services } = JSON.parse(await ask('/api/v1/services', { query: 'process_cpu' }));
	assert.ok(
		services.some((service) => (service.name ?? service.value) === 'unknown_service:nopie'),
		JSON.stringify(services),
	);
});
await test('the same files by the build-ids that they carry', async () => {
	const own = ownId;
	const carrying = programs.filter((program) => own(program) && own(program) !== program.id);
	assert.ok(carrying.length >= 3, 'some programs are known to the agent by a hash, and have a build-id');
	await call('WriteArrow', {
		record: record(
			carrying.flatMap((of) => samplesOf(of, { id: own(of) })),
			{ producer: 'by_build_id' },
		),
	});
	await checkNames('by_build_id:samples', carrying);
	for (const program of carrying) {
		const asked = await call('ShouldInitiateUpload', { build_id: own(program), build_id_type: 'BUILD_ID_TYPE_GNU' });
		assert.equal(asked.should_initiate_upload, false);
		assert.equal(asked.reason, EXISTS);
	}
});
// A pprof of another agent's, with a process's own addresses and mappings: where the executed segment lies, moved by `bias`.
function mapped(program, id, bias) {
	const [, offset, address, size] = /LOAD +0x([0-9a-f]+) 0x([0-9a-f]+) 0x[0-9a-f]+ 0x([0-9a-f]+) 0x[0-9a-f]+ R E/
		.exec(run('readelf', ['-lW', program.full]))
		.map((x) => parseInt(x, 16));
	const page = 4096,
		first = address - (address % page),
		limit = Math.ceil((address + size) / page) * page;
	const strings = ['', 'samples', 'count', program.name, id];
	return Buffer.from(
		[
			bytesField(1, [...intField(1, 1), ...intField(2, 2)]),
			...program.addresses.map((_, i) => bytesField(2, [...bytesField(1, varint(i + 1)), ...bytesField(2, [1])])),
			bytesField(3, [
				...intField(1, 1),
				...intField(2, first + bias),
				...intField(3, limit + bias),
				...intField(4, offset - (offset % page)),
				...intField(5, 3),
				...intField(6, 4),
			]),
			...program.addresses.map((of, i) => bytesField(4, [...intField(1, i + 1), ...intField(2, 1), ...intField(3, of.address + bias)])),
			...strings.map((text) => bytesField(6, Buffer.from(text))),
			intField(9, BigInt(Date.now()) * 1000000n),
		].flatMap((part) => [...part]),
	);
}
await test("other agents' addresses of the same programs, which the server has no more of", async () => {
	const list = [pie, fixedProgram].map((program) => ({ ...program, bias: program === pie ? 0x7f1200000000 : 0 }));
	for (const program of list) {
		const sent = await request(server.port, 'POST', '/api/v1/ingest?name=others', { body: mapped(program, ownId(program), program.bias) });
		assert.equal(sent.status, 200, sent.body.toString());
	}
	await checkNames(
		'others:samples',
		list.map((program) => ({ ...program, addresses: program.addresses.map((of) => ({ ...of, address: of.address + program.bias })) })),
	);
});
await test('off-CPU time, memory and GPU time have their own types', async () => {
	const one = [{ ...samplesOf(pie)[0], value: 12345 }];
	await call('WriteArrow', { record: record(one, { type: ['wallclock', 'nanoseconds', 'samples', 'count'] }) });
	await call('WriteArrow', { record: record(one, { type: ['inuse_space', 'bytes', 'space', 'bytes'], producer: 'memory', duration: 0 }) });
	await call('WriteArrow', { record: record(one, { type: ['gpu_kernel_time', 'nanoseconds', 'gpu_kernel_time', 'nanoseconds'] }) });
	const all = await types();
	for (const type of [
		'parca_agent:wallclock:nanoseconds:samples:count:delta',
		'memory:inuse_space:bytes:space:bytes',
		'parca_agent:gpu_kernel_time:nanoseconds:gpu_kernel_time:nanoseconds:delta',
	]) {
		assert.ok(all.includes(type), `${type}: ${all}`);
		assert.equal(await total(`${type}{}`), 12345);
	}
	assert.ok(!all.some((type) => /^process_cpu:(?!cpu:nanoseconds)/.test(type)), String(all));
});
await test('what was recorded offline: Write has a record for samples of version 2, too', async () => {
	const sent = record([{ ...samplesOf(pie)[1], value: 5 }], { producer: 'offline' });
	const got = await new Promise((resolve, reject) => {
		const messages = [],
			stream = client.Write();
		stream.on('data', (message) => {
			messages.push(message);
			stream.end();
		});
		stream.on('error', reject);
		stream.on('end', () => resolve(messages));
		stream.write({ record: sent });
	});
	assert.equal(got.length, 1);
	const { tableFromIPC } = require('apache-arrow'),
		table = tableFromIPC(got[0].record);
	assert.deepEqual(
		table.schema.fields.map((field) => field.name),
		['stacktrace_id'],
	);
	assert.equal(table.numRows, 1);
	assert.equal(await total('offline:samples{}'), 5);
});
await test('logs, traces and crashes of the agent are taken and counted, crashes logged once a minute', async () => {
	assert.deepEqual(await call('Logs', { resource_logs: Buffer.from('') }), {});
	assert.deepEqual(await call('Traces', { resource_logs: Buffer.from('') }), {});
	assert.deepEqual(await call('ReportPanic', { stderr: 'x\npanic: runtime error: \x1b[31mindex\ngoroutine 1', metadata: { agent_version: '1' } }), {});
	assert.deepEqual(await call('ReportPanic', { stderr: 'again', metadata: {} }), {});
	const metrics = (await request(server.port, 'GET', '/metrics')).body.toString();
	assert.match(metrics, /^wick_signals_dropped_total 2$/m);
	assert.match(metrics, /^wick_agent_panics_total 2$/m);
	assert.match(server.log(), /a Parca Agent reports that it crashed: panic: runtime error: \?\[31mindex \(1 since the last such line\)$/m);
	assert.doesNotMatch(server.log(), /again/);
});
await test('after a restart the files are found by all their ids', async () => {
	client.close();
	assert.equal(await server.stop(), 0, server.log());
	server = await start();
	client = new Client(`127.0.0.1:${server.port}`, grpc.credentials.createInsecure());
	for (const program of programs) assert.equal(await attemptUpload(program.path), EXISTS, program.name);
	await checkNames('parca_agent:samples', programs);
	await checkNames(
		'by_build_id:samples',
		programs.filter((of) => of.id.length === 32 && !/nameless|four|go/.test(of.name)),
	);
});
client.close();
assert.equal(await server.stop(), 0, server.log());
finish();
