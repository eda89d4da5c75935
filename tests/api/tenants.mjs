// SPDX-License-Identifier: Apache-2.0
// Tenants are apart on disk and in every question; limits are named in what is answered and counted, and hold for whom they are set.
import assert from 'node:assert/strict';
import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { startServer, request, pprofProfile, temporaryDirectory, test, finish, intField, bytesField, fixed64Field, varint } from '../harness.mjs';
import { oneStackDictionary } from '../lib/otlp.mjs';

const grpc = createRequire(new URL('../package.json', import.meta.url))('@grpc/grpc-js');
const directory = temporaryDirectory();
const config = `${directory}/wick.yaml`;
writeFileSync(
	config,
	`
tenants:
  small:
    limits: {label_value_length: 16, labels_per_series: 4, stacks_per_profile: 3, body_size: 4K}
  slow:
    limits: {ingest_bytes_per_second: 100, ingest_bytes_burst: 150}
  few:
    limits: {series: 3}
  counted:
    limits: {ingest_samples_per_second: 1, ingest_samples_burst: 2}
tenants_max: 8
limits: {ingest_bytes_per_second: 100M}
`,
);
let server = await startServer(`${directory}/data`, ['--config', config]);
const as = (tenant) => (tenant === undefined ? {} : { 'x-scope-orgid': tenant });
const get = (path, tenant, port = server.port) => request(port, 'GET', path, { headers: as(tenant) });
const post = (body, tenant, query = '?name=process_cpu', port = server.port) => request(port, 'POST', `/api/v1/ingest${query}`, { body, headers: as(tenant) });
const range = `from=${Date.now() - 3600000}&to=${Date.now() + 60000}`;
const total = async (tenant, port) => {
	const response = await get(`/api/v1/query?query=process_cpu&${range}`, tenant, port);
	return response.status === 200 ? JSON.parse(response.body).flame.total : response.status;
};
const errorOf = (response) => JSON.parse(response.body).error;
const profile = (value, options) => pprofProfile([[['leaf', 'main'], value]], options);
const metric = async (name) => {
	const text = (await get('/metrics')).body.toString();
	const line = text.split('\n').find((l) => l.startsWith(`${name} `));
	assert.ok(line, `${name} is in /metrics`);
	return Number(line.split(' ')[1]);
};

await test('each tenant has its own data, the one without a name among them', async () => {
	assert.equal((await post(profile(1), undefined)).status, 200);
	assert.equal((await post(profile(20), 'team-a')).status, 200);
	assert.equal((await post(profile(300), 'team-b')).status, 200);
	assert.deepEqual([await total(undefined), await total('anonymous'), await total('team-a'), await total('team-b')], [1, 1, 20, 300]);
	assert.deepEqual(readdirSync(`${directory}/data/tenants`).sort(), ['team-a', 'team-b']);
});
await test('the same bytes from two tenants are two profiles', async () => {
	const body = profile(4, { timeNs: BigInt(Date.now()) * 1000000n });
	for (const tenant of ['team-a', 'team-b']) assert.equal(JSON.parse((await post(body, tenant)).body).duplicate, false);
	assert.equal(JSON.parse((await post(body, 'team-a')).body).duplicate, true);
	assert.deepEqual([await total('team-a'), await total('team-b')], [24, 304]);
});
await test('every call keeps to its tenant', async () => {
	await post(profile(5), 'team-a', '?name=only_a&label=secret%3Dof_a');
	for (const path of [
		`/api/v1/types?${range}`,
		`/api/v1/labels?${range}`,
		`/api/v1/label-values?label=secret&${range}`,
		`/api/v1/series?query=only_a&${range}`,
		`/api/v1/query?query=only_a&${range}&format=folded`,
		`/api/v1/query?query=only_a&${range}&format=top`,
		'/api/v1/status',
		'/api/v1/slow',
	]) {
		const [a, b] = [await get(path, 'team-a'), await get(path, 'team-b')];
		assert.equal(a.status, 200, `${path}: ${a.body}`);
		// It is told of the types that it has itself.
		assert.equal(b.status, path.includes('query=only_a') ? 400 : 200, `${path}: ${b.body}`);
		assert.ok(!/only_a|of_a/.test(b.body.toString()), `${path} of team-b: ${b.body}`);
	}
	assert.match((await get(`/api/v1/label-values?label=secret&${range}`, 'team-a')).body.toString(), /of_a/);
});
await test('asking about a tenant that is not there makes nothing', async () => {
	const response = await get(`/api/v1/types?${range}`, 'nobody');
	assert.equal(response.status, 404);
	assert.match(errorOf(response), /no tenant 'nobody'/);
	assert.ok(!existsSync(`${directory}/data/tenants/nobody`));
});
await test('names that are no names are refused, and reach no file', async () => {
	for (const name of ['a/b', '..', '.', 'a b', 'a|b', 'x'.repeat(151), '../../etc', '%2e%2e']) {
		const response = await post(profile(1), name);
		assert.equal(response.status, 400, `${name}: ${response.status}`);
		assert.match(errorOf(response), /X-Scope-OrgID/);
	}
	assert.equal(readdirSync(`${directory}/data/tenants`).length, 2);
});
await test("limits of one tenant are not another's; each refusal names its limit, and is counted under it", async () => {
	const many = pprofProfile([1, 2, 3, 4].map((i) => [[`f${i}`, 'main'], i]));
	const cases = [
		[profile(1), '?name=x&label=a%3D' + 'v'.repeat(17), 200], // labels of the request are the sender's own
		[pprofProfile([[['f'], 1, { a: 'v'.repeat(17) }]]), '?name=x', 422, 'label_value_length'],
		[pprofProfile([[['f'], 1, { a: '1', b: '2', c: '3', d: '4', e: '5' }]]), '?name=x', 422, 'labels_per_series'],
		[many, '?name=x', 422, 'stacks_per_profile'],
		[pprofProfile([[['f'.repeat(5000)], 1]]), '?name=x', 413, 'body_size'],
	];
	for (const [body, query, status, limit] of cases) {
		const response = await post(body, 'small', query);
		assert.equal(response.status, status, response.body.toString());
		if (status === 200) continue;
		assert.match(errorOf(response), new RegExp(`limit ${limit}: .*limit is`));
		assert.equal(response.headers['x-wick-limit'], limit);
		assert.equal(await metric(`wick_ingest_refusals_total{reason="${limit}"}`), 1);
		assert.equal((await post(body, 'team-a', query)).status, 200);
	}
});
await test('a rate in bytes: the burst passes, then 429 with the time to wait, then it passes again', async () => {
	assert.equal((await post(profile(1), 'slow')).status, 200);
	let response;
	for (let i = 0; i < 50; i++) {
		response = await post(profile(1), 'slow');
		if (response.status !== 200) break;
	}
	assert.equal(response.status, 429);
	assert.match(errorOf(response), /limit ingest_bytes_per_second: more than 100 bytes a second from tenant 'slow'/);
	const wait = Number(response.headers['retry-after']);
	assert.ok(wait >= 1 && wait < 10, String(wait));
	assert.equal((await post(profile(1), 'team-a')).status, 200);
	await new Promise((resolve) => setTimeout(resolve, wait * 1000 + 50));
	assert.equal((await post(profile(1), 'slow')).status, 200);
});
await test('a rate in samples is paid when it is known, and asked before anything is decoded', async () => {
	assert.equal((await post(pprofProfile(Array.from({ length: 400 }, (_, i) => [[`f${i}`], i + 1])), 'counted')).status, 200);
	const response = await post(Buffer.from('not a profile'), 'counted');
	assert.equal(response.status, 429);
	assert.equal(response.headers['x-wick-limit'], 'ingest_samples_per_second');
});
await test('series of a tenant are bounded', async () => {
	const send = (i) => post(pprofProfile([[['f'], 1, { i: String(i) }]]), 'few');
	for (let i = 0; i < 3; i++) assert.equal((await send(i)).status, 200);
	const response = await send(3);
	assert.equal(response.status, 429, response.body.toString());
	assert.match(errorOf(response), /series/);
	assert.ok(Number(response.headers['retry-after']) > 0);
	assert.equal((await send(1)).status, 200);
});
await test('the number of tenants is bounded', async () => {
	assert.equal((await post(profile(1), 'seventh')).status, 200);
	const response = await post(profile(1), 'one-too-many');
	assert.equal(response.status, 429);
	assert.match(errorOf(response), /limit tenants_max/);
	assert.ok(!existsSync(`${directory}/data/tenants/one-too-many`));
});

// An OTLP request of one profile for each host.
function otlp(hosts, timeNs) {
	const strings = ['', 'cpu', 'nanoseconds', 'main'];
	const dictionary = oneStackDictionary(strings);
	const one = (host) => {
		const sample = bytesField(2, [...intField(1, 1), ...bytesField(4, varint(7))]);
		const body = [...bytesField(1, [...intField(1, 1), ...intField(2, 2)]), ...sample, ...fixed64Field(3, timeNs), ...intField(4, 1000000000)];
		const resource = bytesField(1, [...bytesField(1, 'host.name'), ...bytesField(2, bytesField(1, host))]);
		return bytesField(1, [...bytesField(1, resource), ...bytesField(2, bytesField(2, body))]);
	};
	return Buffer.from([...hosts.flatMap(one), ...bytesField(2, dictionary)]);
}
const exportPath = '/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export';
const client = new grpc.Client(`127.0.0.1:${server.port}`, grpc.credentials.createInsecure());
const call = (body, tenant) =>
	new Promise((resolve) => {
		const metadata = new grpc.Metadata();
		if (tenant) metadata.set('x-scope-orgid', tenant);
		client.makeUnaryRequest(
			exportPath,
			(b) => b,
			(b) => b,
			body,
			metadata,
			{},
			(error, response) => resolve(error ? { code: error.code, details: error.details, metadata: error.metadata } : { code: 0, answer: response }),
		);
	});
const time = BigInt(Date.now()) * 1000000n;
await test('OTLP over gRPC names its tenant in the metadata', async () => {
	assert.equal((await call(otlp(['h1'], time), 'team-b')).code, 0);
	const { body } = await get(`/api/v1/label-values?label=host_name&${range}`, 'team-b');
	assert.deepEqual(
		JSON.parse(body).values.map((v) => v.value),
		['h1'],
	);
	assert.deepEqual(JSON.parse((await get(`/api/v1/label-values?label=host_name&${range}`)).body).values, []);
	assert.equal((await call(otlp(['h1'], time), 'a/b')).code, 3);
});
await test('a profile that can never be stored does not keep back those beside it', async () => {
	const response = await call(otlp(['good', 'b'.repeat(20), 'fine'], time), 'small');
	assert.equal(response.code, 0, response.details);
	assert.equal(response.answer[0], 10); // partial_success
	assert.deepEqual([...response.answer.subarray(2, 4)], [8, 1]); // rejected_profiles 1
	assert.match(response.answer.toString(), /limit label_value_length/);
	const { body } = await get(`/api/v1/label-values?label=host_name&${range}`, 'small');
	assert.deepEqual(
		JSON.parse(body)
			.values.map((v) => v.value)
			.sort(),
		['fine', 'good'],
	);
	assert.ok((await metric('wick_ingest_partial_total')) >= 1);
	const none = await call(otlp(['b'.repeat(20)], time), 'small');
	assert.equal(none.code, 3);
	assert.match(none.details, /limit label_value_length/);
});
await test('a rate is RESOURCE_EXHAUSTED over gRPC', async () => {
	let response = { code: 0 };
	for (let i = 0; i < 50 && response.code === 0; i++) response = await call(otlp(['h'], time + BigInt(i)), 'slow');
	assert.equal(response.code, 8);
	assert.match(response.details, /limit ingest_bytes_per_second/);
});
await test('/metrics has a share for each tenant', async () => {
	assert.equal(await metric('wick_tenant_ingest_rows_total{tenant="anonymous"}'), 1);
	assert.ok((await metric('wick_tenant_ingest_refused_total{tenant="slow"}')) >= 2);
	assert.equal(await metric('wick_tenants'), 8);
});
await test('tenants are there again after a restart, and without --tenants there is one', async () => {
	assert.equal(await server.stop(), 0);
	server = await startServer(`${directory}/data`, ['--tenants']);
	assert.deepEqual([await total(undefined), await total('team-a')], [1, 25]);
	assert.equal(await server.stop(), 0);
	server = await startServer(`${directory}/data`);
	assert.equal(await total('team-a'), 1); // the header is ignored
	assert.equal(await total('a/b'), 1);
});
client.close();
await server.stop();
await test('each sees what is scraped for it, stored or not', async () => {
	const scraping = `${directory}/scraping.yaml`,
		job = (name, tenant) => `  - {job_name: ${name}, ${tenant ? `tenant: ${tenant}, ` : ''}static_configs: [{targets: ["127.0.0.1:1"]}]}\n`;
	writeFileSync(scraping, `scrape_configs:\n${job('of-a', 'team-a')}${job('of-nobody', '')}${job('more-of-a', 'team-a')}`);
	const jobs = async (port, tenant) => {
		const response = JSON.parse((await get('/api/v1/targets', tenant, port)).body);
		assert.equal(response.matching, response.unknown + response.up + response.down);
		assert.equal(response.configured, response.targets.length > 0);
		assert.deepEqual([...new Set(response.discoveries.map((d) => d.job))].sort(), [...new Set(response.targets.map((t) => t.job))].sort());
		return [...new Set(response.targets.map((t) => t.job))].sort();
	};
	let other = await startServer(`${directory}/scraping`, ['--config', scraping, '--tenants']);
	for (let i = 0; i < 1200 && (await jobs(other.port, 'team-a')).length < 2; i++) await new Promise((done) => setTimeout(done, 100));
	assert.deepEqual(await jobs(other.port, 'team-a'), ['more-of-a', 'of-a']);
	assert.deepEqual(await jobs(other.port, undefined), ['of-nobody']);
	assert.deepEqual(await jobs(other.port, 'anonymous'), ['of-nobody']);
	assert.deepEqual(await jobs(other.port, 'team-b'), []);
	assert.equal(await other.stop(), 0);
	other = await startServer(`${directory}/scraping`, ['--config', scraping]);
	assert.deepEqual(await jobs(other.port, 'team-a'), ['more-of-a', 'of-a', 'of-nobody']);
	assert.equal(await other.stop(), 0);
});
finish();
