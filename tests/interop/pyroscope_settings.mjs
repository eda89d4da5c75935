// SPDX-License-Identifier: Apache-2.0
// settings.v1.SettingsService: what Grafana's pages keep is there again, after a restart too, and each tenant has its own.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { startServer, request, temporaryDirectory, test, finish, pprofProfile } from '../harness.mjs';

const directory = `${temporaryDirectory()}/data`,
	options = ['--tenants'];
let server = await startServer(directory, options);
async function call(method, message, tenant) {
	const headers = { 'content-type': 'application/json', ...(tenant ? { 'x-scope-orgid': tenant } : {}) };
	const response = await request(server.port, 'POST', `/settings.v1.SettingsService/${method}`, { body: Buffer.from(JSON.stringify(message)), headers });
	return { status: response.status, ...JSON.parse(response.body) };
}
const set = (name, value, more, tenant) => call('Set', { setting: { name, value, ...more } }, tenant);
const all = async (tenant) => {
	const { status, settings } = await call('Get', {}, tenant);
	assert.equal(status, 200);
	return (settings ?? []).map((s) => [s.name, s.value ?? '']);
};

await test('nothing at first', async () => assert.deepEqual(await all(), []));
await test('set, changed, deleted, in the order of names', async () => {
	const before = Date.now(),
		odd = 'ä "quoted" \n\t \u2028 {}';
	const { status, setting } = await set('pluginSettings', '{"a":1}');
	assert.equal(status, 200);
	assert.deepEqual([setting.name, setting.value], ['pluginSettings', '{"a":1}']);
	assert.ok(Number(setting.modifiedAt) >= before && Number(setting.modifiedAt) <= Date.now());
	for (const [name, value] of [
		['z', '1'],
		['a', odd],
		['pluginSettings', 'two'],
		['empty', ''],
	])
		assert.equal((await set(name, value)).status, 200);
	assert.deepEqual(await all(), [
		['a', odd],
		['empty', ''],
		['pluginSettings', 'two'],
		['z', '1'],
	]);
	assert.deepEqual(await call('Delete', { name: 'z' }), { status: 200 });
	assert.deepEqual(await call('Delete', { name: 'never there' }), { status: 200 });
	assert.deepEqual(await all(), [
		['a', odd],
		['empty', ''],
		['pluginSettings', 'two'],
	]);
});
await test('the newer one stays', async () => {
	assert.equal((await set('clock', 'new', { modifiedAt: '2000' })).setting.modifiedAt, '2000');
	const older = await set('clock', 'old', { modifiedAt: '1999' });
	assert.equal(older.code, 'already_exists');
	assert.equal((await set('clock', 'same', { modifiedAt: '2000' })).status, 200);
	assert.equal((await set('ahead', 'x', { modifiedAt: String(Date.now() + 3600e3) })).status, 200);
	assert.equal((await call('Delete', { name: 'ahead' })).code, 'already_exists');
	assert.equal(new Map(await all()).get('clock'), 'same');
});
await test('many at a time lose none', async () => {
	const names = Array.from({ length: 40 }, (_, i) => `many${i}`);
	for (const { status } of await Promise.all(names.map((name) => set(name, name)))) assert.equal(status, 200);
	const found = new Map(await all());
	for (const name of names) assert.equal(found.get(name), name);
	for (const name of names) await call('Delete', { name });
});
await test("a tenant's are its own", async () => {
	assert.equal((await set('a', '1', {}, 'nobody')).status, 404, 'a tenant begins with a profile');
	assert.deepEqual(await all('nobody'), []);
	const body = pprofProfile([[['leaf'], 1, {}]]);
	assert.equal((await request(server.port, 'POST', '/api/v1/ingest', { body, headers: { 'x-scope-orgid': 'team' } })).status, 200);
	assert.equal((await set('a', 'of the team', {}, 'team')).status, 200);
	assert.deepEqual(await all('team'), [['a', 'of the team']]);
	assert.notEqual(new Map(await all()).get('a'), 'of the team');
});
await test('limits', async () => {
	for (const [name, value, pattern] of [
		['', 'x', /has no name/],
		['n'.repeat(257), 'x', /at most 256 bytes/],
		['n', 'x'.repeat(65537), /65536/],
	]) {
		const response = await set(name, value, {}, 'team');
		assert.equal(response.code, 'invalid_argument');
		assert.match(response.message, pattern);
	}
	assert.equal((await call('Set', {})).code, 'invalid_argument');
	assert.equal((await call('Delete', {})).code, 'invalid_argument');
	let stored = 1;
	for (; stored < 300 && (await set(`n${stored}`, '', {}, 'team')).status === 200; stored++);
	assert.equal(stored, 256);
	assert.equal((await set('one more', '', {}, 'team')).code, 'resource_exhausted');
	assert.equal((await set('n1', 'changed', {}, 'team')).status, 200);
	let large = 0;
	for (; large < 40 && (await set(`n${large + 1}`, 'x'.repeat(65536), {}, 'team')).status === 200; large++);
	assert.equal(large, 15, 'a megabyte in all');
	assert.equal((await all('team')).length, 256);
});
await test('a restart keeps them; a file that is broken is said to be, and not overwritten', async () => {
	const before = await all(),
		file = `${directory}/settings.json`;
	assert.ok(before.length > 3);
	assert.equal(await server.stop(), 0);
	assert.deepEqual(
		JSON.parse(readFileSync(file)).settings.map((s) => s.name),
		before.map(([name]) => name),
	);
	assert.deepEqual(
		readdirSync(directory).filter((name) => name.endsWith('.tmp')),
		[],
	);
	server = await startServer(directory, options);
	assert.deepEqual(await all(), before);
	writeFileSync(file, '{"settings": [');
	for (const response of [await call('Get', {}), await set('a', 'b'), await call('Delete', { name: 'a' })]) {
		assert.notEqual(response.status, 200);
		assert.match(response.message, /settings\.json/);
	}
	assert.equal(readFileSync(file, 'utf8'), '{"settings": [');
});
await server.stop();
finish();
