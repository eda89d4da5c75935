// SPDX-License-Identifier: Apache-2.0
// push.v1.PusherService/Push over everything that its clients speak: gRPC by the gRPC project's client, gRPC-Web, Connect in
// protobuf and JSON. The messages are made by protobuf.js from definitions written here.
import assert from 'node:assert/strict';
import { gzipSync } from 'node:zlib';
import { connect } from 'node:net';
import { createRequire } from 'node:module';
import { writeFileSync } from 'node:fs';
import { startServer, request, temporaryDirectory, test, finish, pprofProfile, varint } from '../harness.mjs';

const require = createRequire(new URL('../package.json', import.meta.url));
const grpc = require('@grpc/grpc-js'),
	loader = require('@grpc/proto-loader'),
	protobuf = require('protobufjs');
const directory = temporaryDirectory();
const proto = `syntax = "proto3"; package push.v1;
service PusherService { rpc Push(PushRequest) returns (PushResponse) {} }
message LabelPair { string name = 1; string value = 2; }
message RawSample { bytes raw_profile = 1; string ID = 2; }
message RawProfileSeries { repeated LabelPair labels = 1; repeated RawSample samples = 2; }
message PushRequest { repeated RawProfileSeries series = 1; }
message PushResponse {}`;
writeFileSync(`${directory}/push.proto`, proto);
const Request = protobuf.parse(proto, { keepCase: true }).root.lookupType('push.v1.PushRequest');
const service = grpc.loadPackageDefinition(loader.loadSync(`${directory}/push.proto`, { keepCase: true })).push.v1.PusherService;
const server = await startServer(`${directory}/data`);
const path = '/push.v1.PusherService/Push';

let serial = 0;
// A call with one series of one profile of 10 ns in `leaf`, under a service of its own.
function push(serviceName, { zipped = true, more = [], profile } = {}) {
	const raw = profile ?? pprofProfile([[['leaf', 'main'], 10, {}]], { timeNs: BigInt(Date.now()) * 1000000n + BigInt(serial++), durationNs: 10e9 });
	return {
		series: [
			{
				labels: [
					{ name: '__name__', value: 'process_cpu' },
					{ name: 'service_name', value: serviceName },
					{ name: '__delta__', value: 'false' },
					{ name: 'http.method', value: 'GET' },
					...more,
				],
				samples: [{ raw_profile: zipped ? gzipSync(raw) : raw, ID: '3e8a' }],
			},
		],
	};
}
const encode = (message) => Buffer.from(Request.encode(Request.fromObject(message)).finish());
const json = (message) => Buffer.from(JSON.stringify(message, (_, value) => (value?.type === 'Buffer' ? Buffer.from(value.data).toString('base64') : value)));
const post = (body, type, headers = {}) => request(server.port, 'POST', path, { body, headers: { 'content-type': type, ...headers } });
const total = async (selector) => {
	const response = await request(server.port, 'GET', `/api/v1/query?query=${encodeURIComponent(selector)}&from=now-1h&to=now%2B1h`);
	assert.equal(response.status, 200, response.body.toString());
	return JSON.parse(response.body).flame.total;
};
const stored = async (name) => assert.equal(await total(`process_cpu:cpu:nanoseconds{service_name="${name}", http_method="GET"}`), 10, name);
const frame = (flags, body) => Buffer.concat([Buffer.from([flags, ...[24, 16, 8, 0].map((n) => (body.length >>> n) & 255)]), body]);
function frames(body) {
	const found = [];
	for (let at = 0; at < body.length; at += 5 + body.readUInt32BE(at + 1))
		found.push({ flags: body[at], data: body.subarray(at + 5, at + 5 + body.readUInt32BE(at + 1)) });
	return found;
}

await test('gRPC', async () => {
	const client = new service(`127.0.0.1:${server.port}`, grpc.credentials.createInsecure());
	const call = (message) => new Promise((resolve) => client.Push(message, (error, response) => resolve(error ?? response)));
	assert.deepEqual(await call(push('grpc')), {});
	await stored('grpc');
	const refused = await call({ series: [{ labels: [], samples: [{ raw_profile: Buffer.from([0xff, 0xff, 0xff]) }] }] });
	assert.equal(refused.code, grpc.status.INVALID_ARGUMENT);
	assert.match(refused.details, /raw_profile/);
	client.close();
});
await test('Connect, protobuf', async () => {
	const response = await post(encode(push('proto', { zipped: false })), 'application/proto', { 'connect-protocol-version': '1' });
	assert.equal(response.status, 200, response.body.toString());
	assert.equal(response.headers['content-type'], 'application/proto');
	assert.equal(response.body.length, 0);
	await stored('proto');
});
await test('Connect, protobuf, gzip', async () => {
	assert.equal((await post(gzipSync(encode(push('gzip'))), 'application/proto', { 'content-encoding': 'gzip' })).status, 200);
	await stored('gzip');
});
await test('a series with too many labels does not keep back the others', async () => {
	const labels = (count, value) => Array.from({ length: count }, (_, i) => ({ name: `l${i}`, value }));
	const many = push('many', { more: labels(60, 'v') }).series[0],
		good = push('beside').series[0];
	assert.equal((await post(encode({ series: [many, good] }), 'application/proto')).status, 200);
	await stored('beside');
	const response = await post(encode({ series: [many] }), 'application/proto');
	assert.equal(response.status, 400, response.body.toString());
	assert.match(response.body.toString(), /exceeds the limit/);
	assert.equal(response.headers['x-wick-limit'], 'labels_per_series');
	const metrics = (await request(server.port, 'GET', '/metrics')).body.toString();
	assert.match(metrics, /\{reason="labels_per_series"\} 2\n/);
	assert.match(metrics, /wick_ingest_lost_profiles_total 0\n/);
});
await test('a value that is no UTF-8 is mended, and cut to what fits', async () => {
	const pair = (name, value) =>
		Buffer.concat([Buffer.from([10, ...varint(name.length)]), Buffer.from(name), Buffer.from([18, ...varint(value.length)]), value]);
	const field = (number, data) => Buffer.concat([Buffer.from([(number << 3) | 2, ...varint(data.length)]), data]);
	const raw = pprofProfile([[['leaf', 'main'], 10, {}]], { timeNs: BigInt(Date.now()) * 1000000n, durationNs: 10e9 });
	const series = Buffer.concat([
		...[
			['__name__', Buffer.from('process_cpu')],
			['service_name', Buffer.from('noise')],
			['http_method', Buffer.from('GET')],
			['noise', Buffer.alloc(4000, 0xff)],
		].map((label) => field(1, pair(...label))),
		field(2, field(1, raw)),
	]);
	const response = await post(field(1, series), 'application/proto');
	assert.equal(response.status, 200, response.body.toString());
	await stored('noise');
});
await test('Connect, JSON, in both spellings', async () => {
	const message = push('json'),
		response = await post(json(message), 'application/json; charset=utf-8');
	assert.equal(response.status, 200, response.body.toString());
	assert.equal(response.headers['content-type'], 'application/json');
	assert.equal(response.body.toString(), '{}');
	await stored('json');
	const camel = json(push('camel')).toString().replace('raw_profile', 'rawProfile').replace(/=+"/g, '"');
	assert.equal((await post(Buffer.from(camel), 'application/json')).status, 200);
	await stored('camel');
});
await test("godeltaprof's profiles are those without the prefix; numeric labels make no series", async () => {
	const profile = pprofProfile(
		Array.from({ length: 12 }, (_, i) => [['leaf', 'main'], 10, { bytes: 16 << i }]),
		{ type: 'alloc_space', unit: 'bytes', durationNs: 15e9 },
	);
	const message = push('deltaprof', { profile });
	message.series[0].labels[0].value = 'godeltaprof_memory';
	assert.equal((await post(encode(message), 'application/proto')).status, 200);
	const response = await request(server.port, 'GET', '/api/v1/query?query=memory:alloc_space:bytes::%7Bservice_name%3D%22deltaprof%22%7D&from=now-1h');
	const { flame, stats } = JSON.parse(response.body);
	assert.equal(flame.total, 120);
	assert.equal(stats.series, 1);
});
await test('several series, and profiles in a series', async () => {
	const many = { series: [push('a').series[0], push('b').series[0]] };
	many.series[0].samples.push(push('a').series[0].samples[0]);
	assert.equal((await post(encode(many), 'application/proto')).status, 200);
	assert.equal(await total('process_cpu{service_name="a"}'), 20);
	await stored('b');
	assert.equal((await post(encode(many), 'application/proto')).status, 200);
	assert.equal(await total('process_cpu{service_name="a"}'), 20, 'sent again it is not counted twice');
});
await test('gRPC-Web, binary and text', async () => {
	let response = await post(frame(0, encode(push('web'))), 'application/grpc-web+proto');
	assert.equal(response.status, 200);
	assert.equal(response.headers['content-type'], 'application/grpc-web+proto');
	assert.deepEqual(
		frames(response.body).map(({ flags, data }) => [flags, data.toString()]),
		[
			[0, ''],
			[0x80, 'grpc-status: 0\r\n'],
		],
	);
	await stored('web');
	response = await post(frame(1, gzipSync(encode(push('webzip')))), 'application/grpc-web', { 'grpc-encoding': 'gzip' });
	assert.match(frames(response.body).at(-1).data.toString(), /^grpc-status: 0\r\n/);
	await stored('webzip');
	const whole = frame(0, encode(push('text')));
	const pieces = whole.subarray(0, 5).toString('base64') + whole.subarray(5, 105).toString('base64') + whole.subarray(105).toString('base64');
	response = await post(Buffer.from(pieces), 'application/grpc-web-text');
	assert.equal(response.headers['content-type'], 'application/grpc-web-text+proto');
	assert.deepEqual(
		frames(Buffer.from(response.body.toString(), 'base64')).map(({ flags }) => flags),
		[0, 0x80],
	);
	await stored('text');
});
await test("failures are said in each protocol's way", async () => {
	const bad = { series: [{ labels: [], samples: [{ raw_profile: Buffer.from([0xff, 0xff, 0xff]) }] }] };
	let response = await post(encode(bad), 'application/proto');
	assert.equal(response.status, 400);
	assert.equal(response.headers['content-type'], 'application/json');
	assert.equal(JSON.parse(response.body).code, 'invalid_argument');
	assert.match(JSON.parse(response.body).message, /raw_profile/);
	response = await post(frame(0, encode(bad)), 'application/grpc-web+proto');
	assert.equal(response.status, 200);
	assert.match(frames(response.body)[0].data.toString(), /^grpc-status: 3\r\ngrpc-message: [^ ]*raw_profile[^ ]*\r\n$/);
	response = await post(Buffer.from('{"series": [{"labels": 5}]}'), 'application/json');
	assert.equal(response.status, 400);
	assert.match(JSON.parse(response.body).message, /RawProfileSeries.labels/);
	for (const [body, type] of [
		['', 'application/json'],
		['{', 'application/json'],
		['\xff', 'application/proto'],
	])
		assert.equal((await post(Buffer.from(body, 'latin1'), type)).status, 400, type);
	assert.equal((await post(encode(bad), 'application/x-protobuf')).status, 415);
	assert.equal((await post(encode(bad), 'application/proto', { 'connect-protocol-version': '2' })).status, 400);
	assert.equal((await request(server.port, 'GET', `${path}?encoding=json&message=%7B%7D`)).status, 405, 'it changes something');
	for (const body of [
		frame(0, encode(bad)).subarray(0, 9),
		Buffer.from([0, 0]),
		Buffer.alloc(0),
		Buffer.concat([frame(0, Buffer.alloc(0)), frame(0, Buffer.alloc(0))]),
		frame(2, Buffer.alloc(0)),
		frame(1, Buffer.alloc(3)),
	])
		assert.match(frames((await post(body, 'application/grpc-web+proto')).body)[0].data.toString(), /^grpc-status: 3\r\n/);
	assert.match(Buffer.from((await post(Buffer.from('*'), 'application/grpc-web-text')).body.toString(), 'base64').toString(), /grpc-status: 3/);
});
await test("too large: in each protocol's way", async () => {
	const big = Buffer.alloc(65 << 20);
	// Only its head: the response does not wait for the body.
	const told = await new Promise((resolve, reject) => {
		let text = '';
		const socket = connect(server.port, '127.0.0.1', () =>
			socket.write(`POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/proto\r\nContent-Length: ${big.length}\r\n\r\n`),
		);
		socket.on('data', (data) => {
			text += data;
		});
		socket.on('end', () => {
			resolve(text);
			socket.end();
		});
		socket.on('error', reject);
	});
	assert.match(told, /^HTTP\/1\.1 413 [^]*"code":"resource_exhausted"/);
	let response = await post(gzipSync(big), 'application/proto', { 'content-encoding': 'gzip' });
	assert.equal(response.status, 413);
	assert.equal(JSON.parse(response.body).code, 'resource_exhausted');
	response = await post(frame(1, gzipSync(big)), 'application/grpc-web+proto', { 'grpc-encoding': 'gzip' });
	assert.match(frames(response.body)[0].data.toString(), /^grpc-status: 8\r\n/);
});
await test('pages of other sites are refused where there is no token', async () => {
	for (const method of ['OPTIONS', 'POST'])
		assert.equal(
			(
				await request(server.port, method, path, {
					body: Buffer.from('{}'),
					headers: { origin: 'https://grafana.example', 'content-type': 'application/json' },
				})
			).status,
			403,
		);
});
assert.equal(await server.stop(), 0, server.log());

await test('with a token a page may call if it gives the token itself', async () => {
	writeFileSync(`${directory}/token`, 'correct-horse\n', { mode: 0o600 });
	const guarded = await startServer(`${directory}/guarded`, ['--token-file', `${directory}/token`]);
	const call = (method, headers) =>
		request(guarded.port, method, path, {
			body: json(push('page')),
			headers: { origin: 'https://grafana.example', 'content-type': 'application/json', ...headers },
		});
	const preflight = await request(guarded.port, 'OPTIONS', path, {
		headers: { origin: 'https://grafana.example', 'access-control-request-method': 'POST', 'access-control-request-headers': 'authorization' },
	});
	assert.equal(preflight.status, 204);
	assert.equal(preflight.headers['access-control-allow-origin'], 'https://grafana.example');
	assert.match(preflight.headers['access-control-allow-headers'], /Authorization/);
	const response = await call('POST', { authorization: 'Bearer correct-horse' });
	assert.equal(response.status, 200);
	assert.equal(response.headers['access-control-allow-origin'], 'https://grafana.example');
	assert.equal(response.headers['access-control-allow-credentials'], undefined);
	assert.equal((await call('POST', { authorization: 'Bearer wrong' })).status, 403);
	assert.equal((await call('POST', {})).status, 403);
	assert.equal(
		(await call('POST', { authorization: `Basic ${Buffer.from('u:correct-horse').toString('base64')}` })).status,
		403,
		"what a browser remembers is not the page's",
	);
	const direct = (headers) => request(guarded.port, 'POST', path, { body: json(push('direct')), headers: { 'content-type': 'application/json', ...headers } });
	assert.equal((await direct({ authorization: `Basic ${Buffer.from('u:correct-horse').toString('base64')}` })).status, 200);
	assert.equal((await direct({ authorization: 'Bearer correct-horse' })).status, 200);
	assert.equal((await direct({})).status, 401);
	assert.equal((await request(guarded.port, 'OPTIONS', '/api/v1/query', { headers: { origin: 'https://grafana.example' } })).status, 403, 'procedures only');
	assert.equal(await guarded.stop(), 0);
});
finish();
