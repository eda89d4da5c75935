// SPDX-License-Identifier: Apache-2.0
// parca.profilestore.v1alpha1.ProfileStoreService/WriteRaw by the gRPC project's client.
import assert from 'node:assert/strict';
import { gzipSync } from 'node:zlib';
import { createRequire } from 'node:module';
import { writeFileSync } from 'node:fs';
import { startServer, request, temporaryDirectory, test, finish, pprofProfile, intField, bytesField, varint } from '../harness.mjs';

const require = createRequire(new URL('../package.json', import.meta.url));
const grpc = require('@grpc/grpc-js'),
	loader = require('@grpc/proto-loader');
const directory = temporaryDirectory();
writeFileSync(
	`${directory}/store.proto`,
	`syntax = "proto3"; package parca.profilestore.v1alpha1;
service ProfileStoreService { rpc WriteRaw(WriteRawRequest) returns (WriteRawResponse) {} }
message WriteRawRequest { string tenant = 1; repeated RawProfileSeries series = 2; bool normalized = 3; }
message WriteRawResponse {}
message RawProfileSeries { LabelSet labels = 1; repeated RawSample samples = 2; }
message Label { string name = 1; string value = 2; }
message LabelSet { repeated Label labels = 1; }
message RawSample { bytes raw_profile = 1; }`,
);
const service = grpc.loadPackageDefinition(loader.loadSync(`${directory}/store.proto`, { keepCase: true })).parca.profilestore.v1alpha1.ProfileStoreService;
const server = await startServer(`${directory}/data`);
const client = new service(`127.0.0.1:${server.port}`, grpc.credentials.createInsecure());
const write = (message) => new Promise((resolve) => client.WriteRaw(message, (error, response) => resolve(error ?? response)));
const labels = (set) => ({ labels: Object.entries(set).map(([name, value]) => ({ name, value })) });
const ask = async (selector, format) => {
	const response = await request(server.port, 'GET', `/api/v1/query?${new URLSearchParams({ query: selector, from: 'now-1h', to: 'now+1h', format })}`);
	assert.equal(response.status, 200, response.body.toString());
	return response.body;
};
const total = async (selector) => JSON.parse(await ask(selector, 'flame')).flame.total;

await test('a series with its labels and two profiles', async () => {
	const profile = (value, shift) =>
		gzipSync(pprofProfile([[['leaf', 'main'], value, { thread: 't1' }]], { type: 'samples', unit: 'count', timeNs: BigInt(Date.now() - shift) * 1000000n }));
	assert.deepEqual(
		await write({
			tenant: 'ignored',
			series: [
				{
					labels: labels({ __name__: 'parca_agent_cpu', comm: 'app', 'kubernetes.pod': 'p1', __private: 'x' }),
					samples: [{ raw_profile: profile(3, 1000) }, { raw_profile: profile(4, 0) }],
				},
			],
		}),
		{},
	);
	assert.equal(await total('parca_agent_cpu:samples:count{comm="app", kubernetes_pod="p1", thread="t1", __private=""}'), 7);
});
// A pprof with one address in a mapping.
function addressed(address, [start, limit, offset]) {
	const strings = ['', 'samples', 'count', '/usr/bin/app', 'abcdef0123'];
	return Buffer.from([
		...bytesField(1, [...intField(1, 1), ...intField(2, 2)]),
		...bytesField(2, [...bytesField(1, varint(1)), ...bytesField(2, varint(5))]),
		...bytesField(3, [...intField(1, 1), ...intField(2, start), ...intField(3, limit), ...intField(4, offset), ...intField(5, 3), ...intField(6, 4)]),
		...bytesField(4, [...intField(1, 1), ...intField(2, 1), ...intField(3, address)]),
		...strings.flatMap((text) => bytesField(6, text)),
		...intField(9, BigInt(Date.now()) * 1000000n),
	]);
}
await test('addresses of files, and of memory', async () => {
	const mapping = [0x7f0000001000, 0x7f0000009000, 0x1000];
	await write({ series: [{ labels: labels({ __name__: 'memory_addresses' }), samples: [{ raw_profile: addressed(0x7f0000001234, mapping) }] }] });
	await write({ normalized: true, series: [{ labels: labels({ __name__: 'file_addresses' }), samples: [{ raw_profile: addressed(0x1234, mapping) }] }] });
	for (const name of ['memory_addresses', 'file_addresses'])
		assert.match((await ask(name, 'folded')).toString(), /^app\+0x1234 5$|\/usr\/bin\/app\+0x1234 5$/m, name);
});
await test('malformed profiles are INVALID_ARGUMENT', async () => {
	const error = await write({ series: [{ labels: labels({ __name__: 'x' }), samples: [{ raw_profile: Buffer.from('nonsense') }] }] });
	assert.equal(error.code, grpc.status.INVALID_ARGUMENT);
	assert.match(error.details, /raw_profile/);
});
client.close();
assert.equal(await server.stop(), 0, server.log());
finish();
