// SPDX-License-Identifier: Apache-2.0
// settings.v1's rules and status.v1: rules are stored as they were written, by tenant, in both forms of message, and two pages that change one at a time
// do not lose each other's changes.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { startServer, request, temporaryDirectory, test, finish, pprofProfile } from '../harness.mjs';

const protobuf = createRequire(new URL('../package.json', import.meta.url))('protobufjs');
const root = protobuf.parse(
	`syntax = "proto3"; package s;
message LabelPair { string name = 1; string value = 2; }
message FunctionName { string function_name = 1; int32 metric_type = 2; }
message Filter { optional FunctionName function_name = 1; }
message Upsert { string id = 1; string metric_name = 2; repeated string matchers = 3; repeated string group_by = 4; repeated LabelPair external_labels = 5; int64 generation = 6; optional Filter stacktrace_filter = 7; }
message Rule { string id = 1; string metric_name = 2; string profile_type = 3; repeated string matchers = 4; repeated string group_by = 5; repeated LabelPair external_labels = 6; int64 generation = 7; optional Filter stacktrace_filter = 8; bool provisioned = 9; }
message Answer { Rule rule = 1; }
message HttpBody { string content_type = 1; bytes data = 2; }`,
	{ keepCase: true },
).root;
const directory = `${temporaryDirectory()}/data`,
	options = ['--tenants'];
let server = await startServer(directory, options);
const send = (path, body, type, tenant) =>
	request(server.port, 'POST', path, { body, headers: { 'content-type': type, ...(tenant ? { 'x-scope-orgid': tenant } : {}) } });
async function call(method, message, tenant) {
	const service = /Recording/.test(method) ? 'RecordingRulesService' : 'CollectionRulesService';
	const response = await send(`/settings.v1.${service}/${method}`, Buffer.from(JSON.stringify(message)), 'application/json', tenant);
	return { status: response.status, ...JSON.parse(response.body) };
}
const TYPE = 'process_cpu:cpu:nanoseconds:cpu:nanoseconds';
const good = { metricName: 'profiles_recorded_gc', matchers: [`{__profile_type__="${TYPE}"}`, '{service_name=~"shop|mail"}'], groupBy: ['region'] };
const upsert = (more, tenant) => call('UpsertRecordingRule', { ...good, ...more }, tenant);
const list = async (tenant) => (await call('ListRecordingRules', {}, tenant)).rules ?? [];

await test('nothing at first', async () => {
	assert.deepEqual(await list(), []);
	assert.deepEqual(await call('ListCollectionRules', {}), { status: 200 });
	assert.equal((await call('GetRecordingRule', { id: 'x' })).code, 'not_found');
	assert.equal((await call('DeleteRecordingRule', { id: 'x' })).code, 'not_found');
	assert.ok(!existsSync(`${directory}/recording_rules.json`));
});
let made;
await test('made with an id of its own, read, changed by its generation, deleted', async () => {
	const externalLabels = [{ name: 'team', value: 'ä "q"' }],
		stacktraceFilter = { functionName: { functionName: 'runtime.gcBgMarkWorker' } };
	const { status, rule } = await upsert({ externalLabels, stacktraceFilter });
	assert.equal(status, 200);
	assert.match(rule.id, /^[a-zA-Z]{10}$/);
	made = { id: rule.id, ...good, profileType: TYPE, externalLabels, generation: '1', stacktraceFilter };
	assert.deepEqual(rule, made);
	assert.deepEqual(await call('GetRecordingRule', { id: rule.id }), { status: 200, rule: made });
	assert.deepEqual(await list(), [made]);
	const changed = await upsert({ id: rule.id, generation: '1', metricName: 'profiles_recorded_b' });
	assert.deepEqual(changed.rule, { id: rule.id, ...good, metricName: 'profiles_recorded_b', profileType: TYPE, generation: '2' });
	const late = await upsert({ id: rule.id, generation: '1' });
	assert.deepEqual([late.status, late.code], [409, 'already_exists']);
	assert.equal((await upsert({ id: 'named' })).rule.generation, '1');
	assert.deepEqual((await list()).map((r) => r.id), [rule.id, 'named']);
	assert.deepEqual(await call('DeleteRecordingRule', { id: rule.id }), { status: 200 });
	assert.deepEqual((await list()).map((r) => r.id), ['named']);
});
await test('in protobuf', async () => {
	const Upsert = root.lookupType('s.Upsert'),
		Answer = root.lookupType('s.Answer');
	const body = Upsert.encode(
		Upsert.fromObject({
			id: 'binary',
			metric_name: 'profiles_recorded_c',
			matchers: good.matchers,
			group_by: ['region', 'host'],
			external_labels: [{ name: 'a', value: 'b' }],
			stacktrace_filter: { function_name: { function_name: 'f' } },
		}),
	).finish();
	const response = await send('/settings.v1.RecordingRulesService/UpsertRecordingRule', Buffer.from(body), 'application/proto');
	assert.equal(response.status, 200, response.body.toString());
	const { rule } = Answer.toObject(Answer.decode(response.body), { longs: Number });
	assert.deepEqual([rule.id, rule.profile_type, rule.generation, rule.group_by], ['binary', TYPE, 1, ['region', 'host']]);
	assert.deepEqual((await call('GetRecordingRule', { id: 'binary' })).rule.stacktraceFilter, { functionName: { functionName: 'f' } });
	const broken = Buffer.concat([Buffer.from(body), Buffer.from([0x3a, 2, 0x0a, 9])]);
	const refused = await send('/settings.v1.RecordingRulesService/UpsertRecordingRule', broken, 'application/proto');
	assert.notEqual(refused.status, 200, 'a message within ends early');
});
await test('what cannot be a rule', async () => {
	for (const [more, pattern] of [
		[{ id: 'a-b' }, /id "a-b"/],
		[{ id: '../x' }, /id "\.\.\/x"/],
		[{ metricName: '' }, /metric_name/],
		[{ metricName: 'other_name' }, /profiles_recorded_/],
		[{ metricName: 'profiles_recorded_a-b' }, /profiles_recorded_/],
		[{ matchers: [] }, /__profile_type__/],
		[{ matchers: ['{service_name="a"}'] }, /__profile_type__/],
		[{ matchers: ['{__profile_type__=~"a.*"}'] }, /equality/],
		[{ matchers: [`{__profile_type__="${'a'.repeat(5000)}"}`] }, /longer than \d+ bytes/],
		[{ matchers: [...good.matchers, good.matchers[0]] }, /one matcher/],
		[{ matchers: ['{a='] }, /matcher 1/],
		[{ groupBy: ['a-b'] }, /group_by/],
		[{ externalLabels: [{ name: '1a', value: 'x' }] }, /external_labels/],
		[{ generation: '-1' }, /generation/],
		[{ matchers: Array(200).fill(good.matchers[1]) }, /more than 100/],
	]) {
		const { code, message } = await upsert(more);
		assert.equal(code, 'invalid_argument', JSON.stringify(more));
		assert.match(message, pattern);
	}
	const large = await upsert({ externalLabels: [{ name: 'a', value: 'x'.repeat(20000) }] });
	assert.equal(large.code, 'resource_exhausted');
	for (const id of ['', undefined]) assert.equal((await call('GetRecordingRule', { id })).code, 'invalid_argument');
});
await test('collection rules', async () => {
	const before = Date.now(),
		rule = { name: 'shops', services: [{ name: 'shop', enabled: true }, { name: 's'.repeat(200) }], ebpf: { enabled: true }, java: {} };
	const { status, lastUpdated, ...first } = await call('UpsertCollectionRule', rule);
	assert.equal(status, 200);
	assert.ok(Number(lastUpdated) >= before && Number(lastUpdated) <= Date.now());
	assert.deepEqual(first, { ...rule, generation: '1' });
	assert.equal((await call('UpsertCollectionRule', { ...rule, observedGeneration: '7' })).code, 'already_exists');
	assert.equal((await call('UpsertCollectionRule', { ...rule, observedGeneration: '1' })).generation, '2');
	assert.equal((await call('UpsertCollectionRule', rule)).generation, '3', 'without a generation it replaces what is there');
	const all = await call('ListCollectionRules', {});
	assert.deepEqual([all.rules.length, all.rules[0].generation, all.generation], [1, '3', '3']);
	assert.equal((await call('GetCollectionRule', { name: 'shops' })).name, 'shops');
	assert.equal((await call('DeleteCollectionRule', { name: 'shops' })).status, 200);
	assert.equal((await call('GetCollectionRule', { name: 'shops' })).code, 'not_found');
	assert.equal((await call('UpsertCollectionRule', {})).code, 'invalid_argument');
});
await test('many at a time lose none, and there are limits', async () => {
	const letters = (i) => String.fromCharCode(97 + (i % 26), 97 + Math.floor(i / 26));
	for (const { status } of await Promise.all(Array.from({ length: 30 }, (_, i) => upsert({ id: `many${letters(i)}` })))) assert.equal(status, 200);
	assert.equal((await list()).filter((r) => r.id.startsWith('many')).length, 30);
	let count = (await list()).length,
		response;
	for (let i = 0; (response = await upsert({ id: `more${letters(i)}` })).status === 200; i++) assert.ok(++count <= 256);
	assert.deepEqual([count, response.code], [256, 'resource_exhausted']);
	assert.equal((await upsert({ id: 'named', generation: '1' })).status, 200, 'what is there can be changed');
});
await test("a tenant's are its own", async () => {
	assert.equal((await upsert({}, 'nobody')).status, 404, 'a tenant begins with a profile');
	assert.deepEqual(await list('nobody'), []);
	const body = pprofProfile([[['leaf'], 1, {}]]);
	assert.equal((await request(server.port, 'POST', '/api/v1/ingest', { body, headers: { 'x-scope-orgid': 'team' } })).status, 200);
	assert.deepEqual(await list('team'), []);
	assert.equal((await upsert({ id: 'named' }, 'team')).rule.generation, '1');
});
await test('a restart keeps them; a broken file is reported, and not overwritten', async () => {
	const before = await list(),
		file = `${directory}/recording_rules.json`;
	assert.equal(await server.stop(), 0);
	server = await startServer(directory, options);
	assert.deepEqual(await list(), before);
	writeFileSync(file, '{"rules": [');
	for (const response of [await call('ListRecordingRules', {}), await upsert({}), await call('DeleteRecordingRule', { id: 'named' })])
		assert.match(response.message, /recording_rules\.json/);
	assert.equal(readFileSync(file, 'utf8'), '{"rules": [');
});
await test('status: version and limits, as calls and as paths', async () => {
	const status = async (method) => JSON.parse((await send(`/status.v1.StatusService/${method}`, Buffer.from('{}'), 'application/json')).body);
	const info = await status('GetBuildInfo'),
		page = JSON.parse((await request(server.port, 'GET', '/api/v1/status/buildinfo')).body);
	assert.deepEqual([info.status, info.data.version], ['success', page.data.version]);
	for (const [method, path, lines] of [
		['GetConfig', 'config', 15],
		['GetDiffConfig', 'config/diff', 2],
		['GetDefaultConfig', 'config/default', 15],
	]) {
		const { contentType, data } = await status(method),
			shown = await request(server.port, 'GET', `/api/v1/status/${path}`);
		assert.equal(contentType, 'text/plain; charset=utf-8');
		assert.equal(Buffer.from(data, 'base64').toString(), shown.body.toString());
		assert.equal(shown.body.toString().trim().split('\n').length, lines, shown.body.toString());
		assert.match(shown.body.toString(), /^limits:$/m);
		const binary = await send(`/status.v1.StatusService/${method}`, Buffer.alloc(0), 'application/proto');
		assert.equal(root.lookupType('s.HttpBody').decode(binary.body).data.toString(), shown.body.toString());
	}
});
await server.stop();
finish();
