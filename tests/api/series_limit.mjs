// SPDX-License-Identifier: Apache-2.0
// At its limit of series a server keeps storing what is of the series it has. Each protocol is told what was left out, in its own way.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { startServer, request, pprofProfile, temporaryDirectory, test, finish, intField, bytesField, fixed64Field, varint } from '../harness.mjs';
import { oneStackDictionary } from '../lib/otlp.mjs';

const grpc = createRequire(new URL('../package.json', import.meta.url))('@grpc/grpc-js');
const directory = temporaryDirectory();
writeFileSync(`${directory}/wick.yaml`, 'limits: {series: 4}\n');
let server = await startServer(`${directory}/data`, ['--config', `${directory}/wick.yaml`]);

let serial = 0;
const nextNs = () => BigInt(Date.now()) * 1000000n + BigInt(serial++);
// What is expected to be there, by user: each request adds to it.
const expected = {};
const expectMore = (users, value) => users.forEach((user) => (expected[user] = (expected[user] ?? 0) + value));
const range = () => `from=now-1h&to=now%2B1h`;
async function checkStored() {
	const response = await request(server.port, 'GET', `/api/v1/series?query=process_cpu&by=user&limit=100&${range()}`);
	assert.equal(response.status, 200, response.body.toString());
	const found = Object.fromEntries(JSON.parse(response.body).series.map((s) => [s.labels.user, s.total]));
	assert.deepEqual(found, expected);
}
const post = (path, body, headers = {}) => request(server.port, 'POST', path, { body, headers });
const pprof = (users, value) =>
	pprofProfile(
		users.map((user) => [['leaf', 'main'], value, { user }]),
		{ timeNs: nextNs(), durationNs: 10e9 },
	);
async function metrics() {
	const found = {};
	for (const line of (await request(server.port, 'GET', '/metrics')).body.toString().split('\n')) {
		const match = /^([a-z_]+(?:\{.*\})?) (\S+)$/.exec(line);
		if (match) found[match[1]] = Number(match[2]);
	}
	return found;
}

await test('the series that are there first', async () => {
	const users = ['a', 'b', 'c', 'd'];
	const response = await post('/api/v1/ingest?name=process_cpu', pprof(users, 1));
	assert.deepEqual(JSON.parse(response.body), { samples: 4, series: 4, duplicate: false });
	expectMore(users, 1);
	await checkStored();
});

await test("Wick's own call says how many samples and series were left out", async () => {
	const body = pprof(['a', 'x1', 'b', 'x2', 'x3'], 10);
	const response = await post('/api/v1/ingest?name=process_cpu', body);
	assert.equal(response.status, 200);
	const { samples, refused, series_refused, why } = JSON.parse(response.body);
	assert.deepEqual([samples, refused, series_refused], [2, 3, 3]);
	assert.equal(why, '3 samples were rejected: 3 of 3 new series, over the limit series of 4');
	expectMore(['a', 'b'], 10);
	await checkStored();
	// Sent again, it is the same: what is there is not stored twice.
	assert.equal(JSON.parse((await post('/api/v1/ingest?name=process_cpu', body)).body).duplicate, true);
	await checkStored();
});

await test('a profile of which nothing is left may come again', async () => {
	const response = await post('/api/v1/ingest?name=process_cpu', pprof(['x1'], 10));
	assert.equal(response.status, 429);
	assert.equal(response.headers['x-wick-limit'], 'series');
	assert.ok(Number(response.headers['retry-after']) > 0);
	assert.match(JSON.parse(response.body).error, /nothing was stored: 1 samples were rejected: 1 of 1 new series, over the limit series of 4/);
	await checkStored();
});

await test("Pyroscope's /ingest", async () => {
	const path = '/ingest?name=process_cpu%7Bservice_name%3Dshop%7D&format=pprof';
	// Labels that the call itself adds make all of its series new.
	assert.equal((await post(path, pprof(['a'], 10))).status, 429);
	await checkStored();
});

const pushed = (users, value, field) => ({
	labels: field === 'labelSets' ? { labels: [{ name: '__name__', value: 'process_cpu' }] } : [{ name: '__name__', value: 'process_cpu' }],
	samples: [{ rawProfile: pprof(users, value).toString('base64') }],
});
const warned = /^3 samples were rejected: 3 of 3 new series, over the limit series of 4$/;

await test("Pyroscope's push.v1: a warning in a header", async () => {
	const path = '/push.v1.PusherService/Push';
	const json = { 'content-type': 'application/json' };
	// The second series is all new: the first one is stored all the same.
	let response = await post(path, Buffer.from(JSON.stringify({ series: [pushed(['a', 'x4'], 100), pushed(['x5', 'x6'], 100)] })), json);
	assert.equal(response.status, 200, response.body.toString());
	assert.match(response.headers['x-wick-warning'], warned);
	expectMore(['a'], 100);
	await checkStored();
	response = await post(path, Buffer.from(JSON.stringify({ series: [pushed(['x5'], 100)] })), json);
	assert.equal(response.status, 429, response.body.toString());
	assert.equal(JSON.parse(response.body).code, 'resource_exhausted');
	assert.equal(response.headers['x-wick-limit'], 'series');
	await checkStored();
});

await test("Parca's WriteRaw: a warning in a header", async () => {
	const path = '/parca.profilestore.v1alpha1.ProfileStoreService/WriteRaw';
	const send = (series) => post(path, Buffer.from(JSON.stringify({ series })), { 'content-type': 'application/json' });
	let response = await send([pushed(['b', 'x7', 'x8', 'x9'], 1000, 'labelSets')]);
	assert.equal(response.status, 200, response.body.toString());
	assert.match(response.headers['x-wick-warning'], warned);
	expectMore(['b'], 1000);
	await checkStored();
	response = await send([pushed(['x7'], 1000, 'labelSets')]);
	assert.equal(response.status, 429, response.body.toString());
	await checkStored();
});

// An OTLP request of a profile for each list of users, which are attributes of samples.
function otlp(profiles, value) {
	const users = [...new Set(profiles.flat())];
	const dictionary = [
		...oneStackDictionary(['', 'cpu', 'nanoseconds', 'main', 'user']),
		...users.flatMap((user) => bytesField(6, [...intField(1, 4), ...bytesField(2, bytesField(1, user))])),
	];
	const sample = (user) => bytesField(2, [...intField(1, 1), ...bytesField(2, varint(users.indexOf(user) + 1)), ...bytesField(4, varint(value))]);
	const one = (list) => {
		const type = bytesField(1, [...intField(1, 1), ...intField(2, 2)]);
		return bytesField(2, [...type, ...list.flatMap(sample), ...fixed64Field(3, nextNs()), ...intField(4, 10e9)]);
	};
	const resource = bytesField(1, bytesField(2, profiles.flatMap(one)));
	return Buffer.from([...resource, ...bytesField(2, dictionary)]);
}
// partial_success {rejected_profiles, error_message} of a response in protobuf.
function partialOf(body) {
	const found = { rejected: 0, message: '' };
	if (body.length === 0) return found;
	assert.equal(body[0], 0x0a);
	for (let at = 2 + (body[1] > 127 ? 1 : 0); at < body.length; ) {
		const tag = body[at++];
		if (tag === 0x08) found.rejected = body[at++];
		else {
			assert.equal(tag, 0x12);
			let length = body[at++];
			if (length > 127) length = (length & 127) + body[at++] * 128;
			found.message = body.subarray(at, at + length).toString();
			at += length;
		}
	}
	return found;
}
const exportPath = '/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export';
const client = new grpc.Client(`127.0.0.1:${server.port}`, grpc.credentials.createInsecure());
const call = (body) =>
	new Promise((resolve) => {
		const done = (error, response) => resolve(error ? { code: error.code, details: error.details } : { code: 0, answer: response });
		client.makeUnaryRequest(
			exportPath,
			(b) => b,
			(b) => b,
			body,
			new grpc.Metadata(),
			{},
			done,
		);
	});

await test('OTLP: a partial success', async () => {
	// The first profile is stored in part, the second not at all.
	const http = await post('/v1development/profiles', otlp([['c', 'y1'], ['y2', 'y3']], 7), { 'content-type': 'application/x-protobuf' });
	assert.equal(http.status, 200, http.body.toString());
	assert.deepEqual(partialOf(http.body), { rejected: 1, message: '3 samples were rejected: 3 of 3 new series, over the limit series of 4' });
	expectMore(['c'], 7);
	await checkStored();
	const { code, answer } = await call(otlp([['d', 'y4'], ['d']], 9));
	assert.equal(code, 0);
	assert.deepEqual(partialOf(answer), { rejected: 0, message: '1 samples were rejected: 1 of 1 new series, over the limit series of 4' });
	expectMore(['d'], 18);
	await checkStored();
	// Nothing is left of it: exporters keep it and come again.
	const refused = await call(otlp([['y5'], ['y6']], 9));
	assert.equal(refused.code, grpc.status.RESOURCE_EXHAUSTED);
	assert.match(refused.details, /over the limit series of 4/);
	await checkStored();
});
client.close();

await test('it is counted, and the log has one line for all', async () => {
	const m = await metrics();
	assert.equal(m['wick_store_series_refused_total'], 3 + 1 + 1 + 3 + 1 + 3 + 1 + 3 + 1 + 2);
	assert.equal(m['wick_store_refusals_total{reason="series"}'], m['wick_store_series_refused_total']);
	assert.equal(m['wick_ingest_samples_refused_total'], m['wick_store_series_refused_total']);
	assert.equal(m['wick_store_refused_total'], 0);
	assert.equal(m['wick_store_head_series'], 4);
	const lines = server.log().match(/over the limit series of 4.*since the last such line/g);
	assert.ok(lines.length >= 1 && lines.length < 5, server.log());
});

await test('after a restart all is there, and the next series find room', async () => {
	assert.equal(await server.stop(), 0);
	server = await startServer(`${directory}/data`, ['--config', `${directory}/wick.yaml`]);
	await checkStored();
	const response = await post('/api/v1/ingest?name=process_cpu', pprof(['x1', 'x2'], 5));
	assert.equal(JSON.parse(response.body).samples, 2);
	expectMore(['x1', 'x2'], 5);
	await checkStored();
});
assert.equal(await server.stop(), 0);
finish();
