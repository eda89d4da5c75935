// SPDX-License-Identifier: Apache-2.0
// OTLP profiles as exporters send them: gRPC by the gRPC project's client, HTTP in protobuf and JSON, with gzip and zstd. The
// messages are made by protobuf.js from definitions written here, whose JSON is the oracle for ours.
import assert from 'node:assert/strict';
import { gzipSync } from 'node:zlib';
import { execFileSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { readFileSync, writeFileSync } from 'node:fs';
import { startServer, request, temporaryDirectory, test, finish, wick } from '../harness.mjs';

const require = createRequire(new URL('../package.json', import.meta.url));
const grpc = require('@grpc/grpc-js'),
	protobuf = require('protobufjs');
const proto = `syntax = "proto3"; package o;
message AnyValue { oneof value { string string_value = 1; bool bool_value = 2; int64 int_value = 3; double double_value = 4; ArrayValue array_value = 5; KeyValueList kvlist_value = 6; bytes bytes_value = 7; int32 string_value_strindex = 8; } }
message ArrayValue { repeated AnyValue values = 1; }
message KeyValueList { repeated KeyValue values = 1; }
message KeyValue { string key = 1; AnyValue value = 2; int32 key_strindex = 3; }
message Resource { repeated KeyValue attributes = 1; }
message ValueType { int32 type_strindex = 1; int32 unit_strindex = 2; }
message Sample { int32 stack_index = 1; repeated int32 attribute_indices = 2; int32 link_index = 3; repeated int64 values = 4; repeated fixed64 timestamps_unix_nano = 5; }
message Profile { ValueType sample_type = 1; repeated Sample samples = 2; fixed64 time_unix_nano = 3; uint64 duration_nano = 4; ValueType period_type = 5; int64 period = 6; bytes profile_id = 7; uint32 dropped_attributes_count = 8; repeated int32 attribute_indices = 11; }
message ScopeProfiles { repeated Profile profiles = 2; string schema_url = 3; }
message ResourceProfiles { Resource resource = 1; repeated ScopeProfiles scope_profiles = 2; }
message Mapping { uint64 memory_start = 1; uint64 memory_limit = 2; uint64 file_offset = 3; int32 filename_strindex = 4; repeated int32 attribute_indices = 5; }
message Line { int32 function_index = 1; int64 line = 2; int64 column = 3; }
message Location { int32 mapping_index = 1; uint64 address = 2; repeated Line lines = 3; repeated int32 attribute_indices = 4; }
message Function { int32 name_strindex = 1; int32 system_name_strindex = 2; int32 filename_strindex = 3; int64 start_line = 4; }
message Link { bytes trace_id = 1; bytes span_id = 2; }
message KeyValueAndUnit { int32 key_strindex = 1; AnyValue value = 2; int32 unit_strindex = 3; }
message Stack { repeated int32 location_indices = 1; }
message Dictionary { repeated Mapping mapping_table = 1; repeated Location location_table = 2; repeated Function function_table = 3; repeated Link link_table = 4; repeated string string_table = 5; repeated KeyValueAndUnit attribute_table = 6; repeated Stack stack_table = 7; }
message Request { repeated ResourceProfiles resource_profiles = 1; Dictionary dictionary = 2; }
message Partial { int64 rejected_profiles = 1; string error_message = 2; }
message Response { Partial partial_success = 1; }
message Duration { int64 seconds = 1; int32 nanos = 2; }
message RetryInfo { Duration retry_delay = 1; }
message Any { string type_url = 1; bytes value = 2; }
message Status { int32 code = 1; string message = 2; repeated Any details = 3; }`;
const { root } = protobuf.parse(proto, { keepCase: false });
const type = (name) => root.lookupType(`o.${name}`);
const directory = temporaryDirectory();
const httpPath = '/v1development/profiles',
	grpcPath = '/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export';

let serial = 0n;
function message(service, { attributes = [] } = {}) {
	const strings = ['', 'cpu', 'nanoseconds', 'leaf', 'main', 'thread.name', 'worker', '/usr/bin/app', 'process.executable.build_id.gnu', 'main.c'];
	return {
		resourceProfiles: [
			{
				resource: {
					attributes: [{ key: 'service.name', value: { stringValue: service } }, { key: 'process.pid', value: { intValue: '4242' } }, ...attributes],
				},
				scopeProfiles: [
					{
						schemaUrl: 'https://opentelemetry.io',
						profiles: [
							{
								sampleType: { typeStrindex: 1, unitStrindex: 2 },
								samples: [
									{ stackIndex: 1, attributeIndices: [1], linkIndex: 1, values: ['900'] },
									{ stackIndex: 2, values: ['100'] },
								],
								timeUnixNano: String(BigInt(Date.now()) * 1000000n + serial++),
								durationNano: '10000000000',
								periodType: { typeStrindex: 1, unitStrindex: 2 },
								period: '52631578',
								droppedAttributesCount: 3,
							},
						],
					},
				],
			},
		],
		dictionary: {
			mappingTable: [{}, { memoryStart: '4194304', memoryLimit: '8388608', fileOffset: '0', filenameStrindex: 7, attributeIndices: [2] }],
			locationTable: [{}, { lines: [{ functionIndex: 1, line: '12' }] }, { lines: [{ functionIndex: 2 }] }, { mappingIndex: 1, address: '4194400' }],
			functionTable: [{}, { nameStrindex: 3, filenameStrindex: 9, startLine: '7' }, { nameStrindex: 4 }],
			linkTable: [{}, { traceId: '0102030405060708090a0b0c0d0e0f10', spanId: '1112131415161718' }],
			stringTable: strings,
			attributeTable: [{}, { keyStrindex: 5, value: { stringValue: 'worker' } }, { keyStrindex: 8, value: { stringValue: 'aabbccdd' } }],
			stackTable: [{}, { locationIndices: [1, 2] }, { locationIndices: [3, 2] }],
		},
	};
}
// protobuf.js takes bytes as arrays, JSON has hexadecimal.
const binary = (json) => {
	const copy = structuredClone(json);
	for (const link of copy.dictionary.linkTable) for (const key of ['traceId', 'spanId']) if (link[key]) link[key] = Buffer.from(link[key], 'hex');
	return Buffer.from(type('Request').encode(type('Request').fromObject(copy)).finish());
};
const text = (json) => Buffer.from(JSON.stringify(json));
// A zstd frame of raw blocks (RFC 8878), since node 18 has no zstd.
function zstd(data) {
	const size = Buffer.alloc(4),
		blocks = [];
	size.writeUInt32LE(data.length);
	for (let at = 0; at < data.length; at += 1e5) {
		const piece = data.subarray(at, at + 1e5),
			head = (piece.length << 3) | (at + 1e5 >= data.length ? 1 : 0);
		blocks.push(Buffer.from([head & 255, (head >> 8) & 255, head >> 16]), piece);
	}
	return Buffer.concat([Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0xa0]), size, ...blocks]);
}
const snake = (json) => JSON.parse(JSON.stringify(json).replace(/"([a-zA-Z]+)":/g, (_, key) => `"${key.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`)}":`));
const post = (port, body, headers) => request(port, 'POST', httpPath, { body, headers: { 'content-type': 'application/json', ...headers } });
const total = async (port, selector) => {
	const response = await request(port, 'GET', `/api/v1/query?${new URLSearchParams({ query: selector, from: 'now-1h', to: 'now+1h' })}`);
	assert.equal(response.status, 200, response.body.toString());
	return JSON.parse(response.body).flame.total;
};
const stored = async (port, service) => assert.equal(await total(port, `process_cpu{service_name="${service}", process_pid="4242"}`), 1000, service);

const server = await startServer(`${directory}/data`);
const { port } = server;
await test("of a mapping's ids the build-id is taken, else the hash, else the Go build-id", async () => {
	const gnu = 'a1b2c3d4e5f60718293a4b5c6d7e8f9001122334',
		hash = '12e32a79d20f44f2d52d4da67c6d43e2',
		go = 'gWOsjSNTLkKSCGJkxDFD/jVkX-3mVQQkKNcAK1Yvk/2Zd8aYbVvO1o0iPcHJUo/k9xXaTsKNdS3vTJQ0oSc';
	const cases = [
		[{ gnu, go, htlhash: hash }, gnu],
		[{ go, htlhash: hash }, hash],
		[{ go }, Buffer.from(go).subarray(0, 64).toString('hex')],
		[{ go: 'redacted' }, ''],
	];
	for (const [number, [ids, expected]] of cases.entries()) {
		const sent = message(`ids-${number}`),
			{ dictionary } = sent,
			path = `/srv/ids-${number}`;
		dictionary.stringTable[7] = path;
		dictionary.mappingTable[1].attributeIndices = Object.entries(ids).map(([kind, id]) => {
			dictionary.stringTable.push(`process.executable.build_id.${kind}`);
			return dictionary.attributeTable.push({ keyStrindex: dictionary.stringTable.length - 1, value: { stringValue: id } }) - 1;
		});
		assert.equal((await post(port, text(sent))).status, 200);
		const response = await request(port, 'GET', `/api/v1/binaries?text=${encodeURIComponent(path)}`);
		const listed = JSON.parse(response.body).binaries.filter((binary) => binary.path === path);
		assert.deepEqual(
			listed.map((binary) => binary.build_id),
			expected ? [expected] : [],
			JSON.stringify(ids),
		);
	}
});
await test('HTTP with JSON, and its answer in JSON', async () => {
	const response = await post(port, text(message('json')));
	assert.equal(response.status, 200, response.body.toString());
	assert.equal(response.headers['content-type'], 'application/json');
	assert.deepEqual(JSON.parse(response.body), {});
	await stored(port, 'json');
	assert.equal(await total(port, 'process_cpu{service_name="json", thread_name="worker"}'), 900);
});
await test('the names of the .proto file, numbers instead of texts, unknown members', async () => {
	const json = snake(message('snake'));
	json.resource_profiles[0].scope_profiles[0].profiles[0].samples[0].values = [900];
	json.resource_profiles[0].scope_profiles[0].profiles[0].new_thing = { deep: [1, { x: null }] };
	assert.equal((await post(port, text(json))).status, 200);
	await stored(port, 'snake');
});
await test('gzip and zstd, protobuf and JSON', async () => {
	for (const [encoding, pack] of [
		['gzip', gzipSync],
		['zstd', zstd],
	])
		for (const [kind, make] of [
			['application/json', text],
			['application/x-protobuf', binary],
		]) {
			const service = `${encoding}-${kind.split('/')[1]}`;
			const response = await post(port, pack(make(message(service))), { 'content-encoding': encoding, 'content-type': kind });
			assert.equal(response.status, 200, `${service}: ${response.body}`);
			assert.equal(response.headers['content-type'], kind);
			await stored(port, service);
		}
});
await test('JSON and protobuf of the same request convert to the same profile', async () => {
	const json = message('same');
	writeFileSync(`${directory}/request.json`, text(json));
	writeFileSync(`${directory}/pretty.json`, JSON.stringify(json, null, '\t'));
	writeFileSync(`${directory}/request.otlp`, binary(json));
	writeFileSync(`${directory}/lines.json`, `${text(json)}\n${text(json)}\n`);
	for (const format of ['folded', 'pprof', 'speedscope']) {
		const convert = (name) => {
			execFileSync(wick, ['convert', `${directory}/${name}`, '-o', `${directory}/out`, '--to', format], { stdio: 'pipe' });
			return readFileSync(`${directory}/out`);
		};
		const expected = convert('request.otlp');
		assert.ok(expected.length > 20);
		assert.deepEqual(convert('request.json'), expected, format);
		assert.deepEqual(convert('pretty.json'), expected, format);
		if (format === 'folded')
			assert.equal(
				convert('lines.json').toString(),
				expected.toString().replace(/ (\d+)$/gm, (_, n) => ` ${2 * n}`),
			);
	}
});
await test('partial success: what could be stored is, and the rest is said', async () => {
	const json = message('partial'),
		many = message('partial', { attributes: Array.from({ length: 60 }, (_, i) => ({ key: `attribute${i}`, value: { stringValue: 'x' } })) });
	json.resourceProfiles.push(many.resourceProfiles[0]);
	const response = await post(port, text(json));
	assert.equal(response.status, 200, response.body.toString());
	const { partialSuccess } = JSON.parse(response.body);
	assert.equal(partialSuccess.rejectedProfiles, '1');
	assert.match(partialSuccess.errorMessage, /labels_per_series/);
	await stored(port, 'partial');
	json.resourceProfiles[0].resource.attributes[0].value.stringValue = 'partial2';
	const again = await post(port, binary(json), { 'content-type': 'application/x-protobuf' });
	const decoded = type('Response').toObject(type('Response').decode(again.body), { longs: String });
	assert.equal(decoded.partialSuccess.rejectedProfiles, '1');
});
await test('entries 0 that are filled: taken where nothing else can be meant, counted, logged once', async () => {
	// A link of zero bytes, as async-profiler writes it; the first location in entry 0, as Pyroscope's canary has it.
	const zeros = message('zeros'),
		first = message('first');
	zeros.dictionary.linkTable[0] = { traceId: '00'.repeat(16), spanId: '00'.repeat(8) };
	first.dictionary.locationTable.shift();
	for (const stack of first.dictionary.stackTable) stack.locationIndices = stack.locationIndices?.map((index) => index - 1);
	for (const json of [zeros, first])
		for (let i = 0; i < 2; i++) {
			const response = i ? await post(port, text(json)) : await post(port, binary(json), { 'content-type': 'application/x-protobuf' });
			assert.equal(response.status, 200, response.body.toString());
		}
	for (const service of ['zeros', 'first']) {
		assert.equal(await total(port, `process_cpu{service_name="${service}"}`), 2000, 'in each form once');
		assert.equal(await total(port, `process_cpu{service_name="${service}"} | frames = "leaf"`), 1800);
	}
	const metrics = (await request(port, 'GET', '/metrics')).body.toString();
	assert.match(metrics, /^wick_ingest_otlp_nonzero_entries_total 4$/m);
	assert.equal(server.log().match(/fills entry 0 of link_table, which is reserved/g).length, 1);
	assert.doesNotMatch(server.log(), /location_table/);
});
await test("failures are a Status in the request's form", async () => {
	for (const [body, pattern] of [
		['{', /JSON/],
		['{"resourceProfiles": 5}', /ExportProfilesServiceRequest.resourceProfiles/],
		['{"dictionary":{"linkTable":[{"traceId":"xyz"}]}}', /Link.traceId: not hexadecimal/],
		['{"resourceProfiles":[{"scopeProfiles":[{"profiles":[{"samples":[{"stackIndex":7}]}]}]}]}', /OTLP request/],
	]) {
		const response = await post(port, Buffer.from(body));
		assert.equal(response.status, 400, body);
		assert.equal(response.headers['content-type'], 'application/json');
		assert.equal(JSON.parse(response.body).code, 3);
		assert.match(JSON.parse(response.body).message, pattern);
	}
	const response = await post(port, Buffer.from([0x0a, 5, 1]), { 'content-type': 'application/x-protobuf' });
	assert.equal(response.status, 400);
	assert.equal(type('Status').decode(response.body).code, 3);
	const large = await post(port, gzipSync(Buffer.alloc(65 << 20, ' ')), { 'content-encoding': 'gzip' });
	assert.equal(large.status, 413);
	assert.equal(JSON.parse(large.body).code, 8);
	assert.equal((await post(port, Buffer.from('{}'), { 'content-encoding': 'br' })).status, 415);
});
await test('an empty request is no failure', async () => {
	assert.equal((await post(port, Buffer.from('{}'))).status, 200);
});
assert.equal(await server.stop(), 0, server.log());

await test('limits say when to come back: Retry-After, and RetryInfo over gRPC', async () => {
	writeFileSync(`${directory}/wick.yaml`, 'limits:\n  ingest_bytes_per_second: 10\n  ingest_bytes_burst: 10\n');
	const limited = await startServer(`${directory}/limited`, ['--config', `${directory}/wick.yaml`]);
	assert.equal((await post(limited.port, text(message('limit')))).status, 200);
	const response = await post(limited.port, text(message('limit')));
	assert.equal(response.status, 429);
	assert.ok(Number(response.headers['retry-after']) > 0);
	assert.equal(JSON.parse(response.body).code, 8);
	const client = new grpc.Client(`127.0.0.1:${limited.port}`, grpc.credentials.createInsecure());
	const error = await new Promise((resolve) =>
		client.makeUnaryRequest(
			grpcPath,
			(b) => b,
			(b) => b,
			binary(message('limit')),
			resolve,
		),
	);
	assert.equal(error.code, grpc.status.RESOURCE_EXHAUSTED);
	const status = type('Status').decode(error.metadata.get('grpc-status-details-bin')[0]);
	assert.equal(status.code, 8);
	assert.equal(status.details[0].type_url ?? status.details[0].typeUrl, 'type.googleapis.com/google.rpc.RetryInfo');
	assert.ok(Number(type('RetryInfo').decode(status.details[0].value).retryDelay.seconds) > 0);
	client.close();
	assert.equal(await limited.stop(), 0);
});
await test('ports of its own', async () => {
	writeFileSync(`${directory}/ports.yaml`, 'otlp:\n  grpc_listen: 127.0.0.1:0\n  http_listen: 127.0.0.1:0\n');
	const wide = await startServer(`${directory}/ports`, ['--config', `${directory}/ports.yaml`]);
	for (let i = 0; i < 2400 && (wide.log().match(/OTLP on/g) ?? []).length < 2; i++) await new Promise((resolve) => setTimeout(resolve, 50));
	const [grpcPort, otherPort] = [...wide.log().matchAll(/OTLP on 127\.0\.0\.1:(\d+)/g)].map((match) => Number(match[1]));
	const client = new grpc.Client(`127.0.0.1:${grpcPort}`, grpc.credentials.createInsecure());
	const error = await new Promise((resolve) =>
		client.makeUnaryRequest(
			grpcPath,
			(b) => b,
			(b) => b,
			binary(message('grpc-port')),
			resolve,
		),
	);
	assert.equal(error, null);
	client.close();
	await stored(wide.port, 'grpc-port');
	assert.equal((await post(otherPort, text(message('http-port')))).status, 200);
	await stored(wide.port, 'http-port');
	assert.equal((await request(otherPort, 'GET', '/healthz')).status, 200);
	assert.equal((await request(otherPort, 'GET', '/api/v1/types')).status, 404, 'nothing but OTLP');
	assert.equal(await wide.stop(), 0, wide.log());
});
finish();
