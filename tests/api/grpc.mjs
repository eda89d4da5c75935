// SPDX-License-Identifier: Apache-2.0
// OTLP profiles over gRPC, sent by the gRPC project's own client: unary, gzip, status codes; and the same bytes over HTTP.
import assert from 'node:assert/strict';
import { readFileSync, existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { startServer, request, temporaryDirectory, test, skip, finish, testData, intField, bytesField, fixed64Field, varint } from '../harness.mjs';

// A link of zero bytes in the place of the zero value is not conformant, and accepted.
const verdictOf = (line) => line.replace(/^(x_link0_zero_bytes_16_8\.otlp)\t1/, '$1\t0').split('\t');

const grpc = createRequire(new URL('../package.json', import.meta.url))('@grpc/grpc-js');
const directory = temporaryDirectory();
const server = await startServer(`${directory}/data`);
const path = '/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export';
const client = new grpc.Client(`127.0.0.1:${server.port}`, grpc.credentials.createInsecure(), { 'grpc.max_send_message_length': 200 << 20 });
const zipped = new grpc.Client(`127.0.0.1:${server.port}`, grpc.credentials.createInsecure(), { 'grpc.default_compression_algorithm': 2 });
const plain = (bytes) => bytes;
// The collector's file exporter puts a length before each message.
const messages = (path) => {
	const file = readFileSync(path),
		found = [];
	if (file[0] !== 0) return [file];
	for (let at = 0; at < file.length; at += 4 + file.readUInt32BE(at)) found.push(file.subarray(at + 4, at + 4 + file.readUInt32BE(at)));
	return found;
};
const call = (body, { to = client, method = path, options = {} } = {}) =>
	new Promise((resolve) =>
		to.makeUnaryRequest(method, plain, plain, body, new grpc.Metadata(), options, (error, response) =>
			resolve(error ? { code: error.code, details: error.details } : { code: 0, answer: response }),
		),
	);

// An ExportProfilesServiceRequest in the 1.10 layout: one profile, two samples.
function otlp(timeNs) {
	const strings = ['', 'cpu', 'nanoseconds', 'leaf', 'main', 'process.pid', 'thread.name', 'worker'];
	const keyValue = (key, text) => bytesField(6, [...intField(1, strings.indexOf(key)), ...bytesField(2, bytesField(1, text))]);
	const dictionary = [
		...bytesField(1, []),
		...bytesField(2, []),
		...bytesField(2, bytesField(3, intField(1, 1))),
		...bytesField(2, bytesField(3, intField(1, 2))),
		...bytesField(3, []),
		...bytesField(3, intField(1, 3)),
		...bytesField(3, intField(1, 4)),
		...bytesField(4, []),
		...strings.flatMap((text) => bytesField(5, text)),
		...bytesField(6, []),
		...keyValue('thread.name', 'worker'),
		...bytesField(7, []),
		...bytesField(7, bytesField(1, [1, 2])),
		...bytesField(7, bytesField(1, [2])),
	];
	const sample = (stack, value) => bytesField(2, [...intField(1, stack), ...bytesField(2, [1]), ...bytesField(4, varint(value))]);
	const profile = [
		...bytesField(1, [...intField(1, 1), ...intField(2, 2)]),
		...sample(1, 900),
		...sample(2, 100),
		...fixed64Field(3, timeNs),
		...intField(4, 10000000000),
		...bytesField(5, [...intField(1, 1), ...intField(2, 2)]),
		...intField(6, 52631578),
	];
	const resource = bytesField(1, [...bytesField(1, 'process.pid'), ...bytesField(2, intField(3, 4242))]);
	return Buffer.from([...bytesField(1, [...bytesField(1, resource), ...bytesField(2, bytesField(2, profile))]), ...bytesField(2, dictionary)]);
}
const total = async (selector) => {
	const response = await request(server.port, 'GET', `/api/v1/query?query=${encodeURIComponent(selector)}&from=now-1h&to=now%2B1h`);
	assert.equal(response.status, 200, response.body.toString());
	return JSON.parse(response.body).flame.total;
};
const time = BigInt(Date.now()) * 1000000n;

await test('Export takes a profile, and it can be queried by its attributes', async () => {
	assert.deepEqual(await call(otlp(time)), { code: 0, answer: Buffer.alloc(0) });
	assert.equal(await total('process_cpu{process_pid="4242", thread_name="worker"}'), 1000);
});
await test('gzip messages', async () => {
	assert.equal((await call(otlp(time + 1n), { to: zipped })).code, 0);
	assert.equal(await total('process_cpu'), 2000);
});
await test('the same bytes again are acknowledged once', async () => {
	assert.equal((await call(otlp(time))).code, 0);
	assert.equal(await total('process_cpu'), 2000);
});
await test('the same over HTTP', async () => {
	const response = await request(server.port, 'POST', '/v1development/profiles', {
		body: otlp(time + 2n),
		headers: { 'content-type': 'application/x-protobuf' },
	});
	assert.equal(response.status, 200);
	assert.equal(await total('process_cpu'), 3000);
});
await test('malformed is INVALID_ARGUMENT with the fault named', async () => {
	const { code, details } = await call(Buffer.from([0x0a, 0x05, 1]));
	assert.equal(code, grpc.status.INVALID_ARGUMENT);
	assert.match(details, /OTLP request/);
});
await test('an unknown method is UNIMPLEMENTED', async () => {
	assert.equal((await call(otlp(time), { method: '/some.Service/Method' })).code, grpc.status.UNIMPLEMENTED);
});
await test('a message over the limit is RESOURCE_EXHAUSTED', async () => {
	assert.equal((await call(Buffer.alloc(70 << 20))).code, grpc.status.RESOURCE_EXHAUSTED);
});
await test('200 calls at once on one connection', async () => {
	const responses = await Promise.all(Array.from({ length: 200 }, (_, i) => call(otlp(time + 1000n + BigInt(i)))));
	assert.ok(
		responses.every(({ code }) => code === 0),
		JSON.stringify(responses.find(({ code }) => code)),
	);
	assert.equal(await total('process_cpu'), 3000 + 200 * 1000);
});
if (existsSync(`${testData}/otlp/k8s.otlp`)) {
	await test('profiles in the 1.9 layout from elsewhere', async () => {
		for (const name of ['profile.otlp', 'k8s.otlp'])
			for (const message of messages(`${testData}/otlp/${name}`)) {
				const { code, details } = await call(message);
				assert.equal(code, 0, `${name}: ${details}`);
			}
	});
	await test('the malformed ones are refused', async () => {
		for (const line of readFileSync(`${testData}/otlp/malformed/VERDICTS.tsv`, 'utf8').trim().split('\n')) {
			const [name, verdict] = verdictOf(line);
			const { code } = await call(readFileSync(`${testData}/otlp/malformed/${name}`));
			assert.equal(code, verdict === '0' ? 0 : grpc.status.INVALID_ARGUMENT, name);
		}
	});
} else skip('profiles from elsewhere', `no test data in ${testData}`);
client.close();
zipped.close();
assert.equal(await server.stop(), 0);
finish();
