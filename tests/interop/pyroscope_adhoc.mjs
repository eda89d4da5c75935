// SPDX-License-Identifier: Apache-2.0
// adhocprofiles.v1: files that somebody uploads to look at: several types, several formats, two of them compared, kept over a restart, each tenant's own.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { readdirSync, writeFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import { startServer, request, temporaryDirectory, test, finish, pprofProfile } from '../harness.mjs';
import { pathsOf, entries } from './known.mjs';

const protobuf = createRequire(new URL('../package.json', import.meta.url))('protobufjs');
const root = protobuf.parse(
	`syntax = "proto3"; package a;
message Upload { string name = 1; string profile = 2; optional int64 max_nodes = 3; }
message Get { string id = 1; optional string profile_type = 2; optional int64 max_nodes = 3; }
message Answer { string id = 1; string name = 2; int64 uploaded_at = 3; string profile_type = 4; repeated string profile_types = 5; string flamebearer_profile = 6; }
message ValueType { int64 type = 1; int64 unit = 2; }
message Sample { repeated uint64 location_id = 1; repeated int64 value = 2; }
message Line { uint64 function_id = 1; }
message Location { uint64 id = 1; repeated Line line = 4; }
message Function { uint64 id = 1; int64 name = 2; }
message Profile { repeated ValueType sample_type = 1; repeated Sample sample = 2; repeated Location location = 4; repeated Function function = 5; repeated string string_table = 6; }`,
	{ keepCase: true },
).root;
const Profile = root.lookupType('a.Profile');
// main;work and main, with two values each.
const pprof = (a, b) =>
	Buffer.from(
		Profile.encode(
			Profile.fromObject({
				sample_type: [
					{ type: 1, unit: 2 },
					{ type: 3, unit: 4 },
				],
				sample: [
					{ location_id: [2, 1], value: [a, 10 * a] },
					{ location_id: [1], value: [b, 10 * b] },
				],
				location: [1, 2].map((id) => ({ id, line: [{ function_id: id }] })),
				function: [
					{ id: 1, name: 5 },
					{ id: 2, name: 6 },
				],
				string_table: ['', 'alloc_objects', 'count', 'alloc_space', 'bytes', 'main', 'work'],
			}),
		).finish(),
	);
const directory = `${temporaryDirectory()}/data`,
	options = ['--tenants'];
let server = await startServer(directory, options);
async function call(method, message, tenant) {
	const headers = { 'content-type': 'application/json', ...(tenant ? { 'x-scope-orgid': tenant } : {}) };
	const response = await request(server.port, 'POST', `/adhocprofiles.v1.AdHocProfileService/${method}`, { body: Buffer.from(JSON.stringify(message)), headers });
	return { status: response.status, ...JSON.parse(response.body) };
}
const upload = (name, data, more = {}, tenant) => call('Upload', { name, profile: Buffer.from(data).toString('base64'), ...more }, tenant);
const list = async (tenant) => ((await call('List', {}, tenant)).profiles ?? []).map((p) => p.id);
const shown = (answer) => entries(pathsOf(JSON.parse(answer.flamebearerProfile).flamebearer));
const tree = (a, b) => [
	['main', { total: a + b, self: b }],
	['main;work', { total: a, self: a }],
];

let first, second;
await test('a pprof of two types', async () => {
	assert.deepEqual(await list(), []);
	const before = Date.now();
	first = await upload('heap of ä.pb.gz', gzipSync(pprof(3, 4)));
	assert.equal(first.status, 200, first.message);
	assert.match(first.id, /^[0-9a-f]{32}$/);
	assert.equal(first.name, 'heap_of___.pb.gz');
	assert.ok(Number(first.uploadedAt) >= before && Number(first.uploadedAt) <= Date.now());
	assert.deepEqual([first.profileType, first.profileTypes], ['alloc_objects', ['alloc_objects', 'alloc_space']]);
	assert.deepEqual(shown(first), tree(3, 4));
	const { version, metadata, timeline } = JSON.parse(first.flamebearerProfile);
	assert.deepEqual([version, metadata.format, metadata.name, metadata.units, timeline], [1, 'single', 'alloc_objects', 'objects', null]);
	const again = await call('Get', { id: first.id });
	assert.deepEqual(again, first);
	const space = await call('Get', { id: first.id, profileType: 'alloc_space' });
	assert.equal(space.profileType, 'alloc_space');
	assert.deepEqual(shown(space), tree(30, 40));
	assert.equal(JSON.parse(space.flamebearerProfile).metadata.units, 'bytes');
	assert.equal((await call('Get', { id: first.id, profileType: 'none' })).profileType, 'alloc_objects');
	const few = await call('Get', { id: first.id, maxNodes: '1' });
	assert.deepEqual(shown(few), [
		['main', { total: 7, self: 4 }],
		['main;other', { total: 3, self: 3 }],
	]);
});
await test('in protobuf, and other formats', async () => {
	const send = async (method, type, message) => {
		const Type = root.lookupType(`a.${type}`),
			body = Buffer.from(Type.encode(Type.fromObject(message)).finish());
		const response = await request(server.port, 'POST', `/adhocprofiles.v1.AdHocProfileService/${method}`, { body, headers: { 'content-type': 'application/proto' } });
		assert.equal(response.status, 200, response.body.toString());
		return root.lookupType('a.Answer').toObject(root.lookupType('a.Answer').decode(response.body), { longs: Number, arrays: true });
	};
	const folded = await send('Upload', 'Upload', { name: 'a.collapsed', profile: Buffer.from('main;work 5\nmain 2\n').toString('base64') });
	assert.deepEqual(entries(pathsOf(JSON.parse(folded.flamebearer_profile).flamebearer)), tree(5, 2));
	assert.equal(folded.profile_types.length, 1);
	const back = await send('Get', 'Get', { id: folded.id });
	assert.equal(back.flamebearer_profile, folded.flamebearer_profile);
	const speedscope = {
		$schema: 'https://www.speedscope.app/file-format-schema.json',
		shared: { frames: [{ name: 'main' }, { name: 'work' }] },
		profiles: [{ type: 'sampled', name: 'p', unit: 'none', startValue: 0, endValue: 3, samples: [[0, 1], [0]], weights: [2, 1] }],
	};
	const other = await upload('x.json', JSON.stringify(speedscope));
	assert.equal(other.status, 200, other.message);
	assert.deepEqual(shown(other), tree(2, 1));
	assert.deepEqual((await list()).sort(), [first.id, folded.id, other.id].sort());
});
await test('two compared', async () => {
	second = await upload('later.pb', pprof(1, 6));
	const diff = await call('Diff', { leftId: first.id, rightId: second.id, profileType: 'alloc_space' });
	assert.equal(diff.status, 200, diff.message);
	assert.deepEqual(diff.profileTypes, ['alloc_objects', 'alloc_space']);
	const json = JSON.parse(diff.flamebearerProfile);
	assert.deepEqual([json.metadata.format, json.metadata.name, json.leftTicks, json.rightTicks], ['double', 'alloc_space', 70, 70]);
	assert.deepEqual(entries(pathsOf(json.flamebearer, 7)), [
		['main', { total: [70, 70], self: [40, 60] }],
		['main;work', { total: [30, 10], self: [30, 10] }],
	]);
	const cpu = await upload('cpu', pprofProfile([[['leaf'], 1, {}]]));
	const none = await call('Diff', { leftId: first.id, rightId: cpu.id });
	assert.deepEqual([none.code, none.message], ['invalid_argument', 'no common profile types between left and right']);
});
await test('what cannot be shown is not kept', async () => {
	const before = await list();
	for (const [message, code, pattern] of [
		[{ name: 'x', profile: '***' }, 'invalid_argument', /not base64/],
		[{ name: 'x', profile: '' }, 'invalid_argument', /./],
		[{ name: 'x', profile: Buffer.from([1, 2, 3, 4]).toString('base64') }, 'invalid_argument', /format/],
		[{ name: 'x', profile: pprof(1, 2).subarray(0, 40).toString('base64') }, 'invalid_argument', /./],
		[{ name: 'x', profile: pprof(1, 2).toString('base64'), maxNodes: '100000000' }, 'invalid_argument', /max/],
	]) {
		const response = await call('Upload', message);
		assert.equal(response.code, code, `${JSON.stringify(message)} ${response.message}`);
		assert.match(response.message, pattern);
	}
	for (const id of ['', '../settings.json', '..', 'x'.repeat(32), `${first.id}/`, first.id.toUpperCase()])
		assert.equal((await call('Get', { id })).code, 'invalid_argument', id);
	assert.equal((await call('Get', { id: 'f'.repeat(32) })).code, 'not_found');
	assert.equal((await call('Diff', { leftId: first.id, rightId: 'f'.repeat(32) })).code, 'not_found');
	assert.deepEqual((await list()).filter((id) => !before.includes(id)), []);
});
await test("a tenant's are its own", async () => {
	assert.equal((await upload('x', pprof(1, 2), {}, 'nobody')).status, 404, 'a tenant begins with a profile');
	const body = pprofProfile([[['leaf'], 1, {}]]);
	assert.equal((await request(server.port, 'POST', '/api/v1/ingest', { body, headers: { 'x-scope-orgid': 'team' } })).status, 200);
	assert.deepEqual(await list('team'), []);
	assert.equal((await call('Get', { id: first.id }, 'team')).code, 'not_found');
	assert.equal((await upload('x', pprof(1, 2), {}, 'team')).status, 200);
	assert.equal((await list('team')).length, 1);
});
await test('a restart keeps them, and viewing can be turned off', async () => {
	const before = await list();
	assert.equal(await server.stop(), 0);
	assert.ok(readdirSync(`${directory}/adhoc`).some((name) => name.startsWith(first.id)));
	server = await startServer(directory, options);
	assert.deepEqual(await list(), before);
	assert.deepEqual(await call('Get', { id: first.id }), first);
	assert.equal(await server.stop(), 0);
	writeFileSync(`${directory}.yaml`, 'view: {enabled: no}\n');
	server = await startServer(directory, [...options, '--config', `${directory}.yaml`]);
	assert.equal((await upload('x', pprof(1, 2))).code, 'permission_denied');
	assert.equal((await call('Get', { id: first.id })).code, 'permission_denied');
});
await server.stop();
finish();
