// SPDX-License-Identifier: Apache-2.0
// wick query, diff and store against a real server and its data.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { openSync, closeSync, readdirSync, statSync, writeFileSync, writeSync, readFileSync } from 'node:fs';
import { startServer, request, pprofProfile, temporaryDirectory, test, finish, wick } from '../harness.mjs';

const directory = temporaryDirectory(),
	data = `${directory}/data`;
let server = await startServer(data, ['--tenants']);
const run = (...args) => {
	const { status, stdout, stderr } = spawnSync(wick, args, { encoding: 'utf8', env: { ...process.env, WICK_URL: server.url } });
	return { status, stdout, stderr };
};
const done = (...args) => {
	const r = run(...args);
	assert.equal(r.status, 0, `${args.join(' ')}: ${r.stderr}`);
	return r.stdout;
};
const now = Date.now();
const send = async (service, stacks, { tenant, minutesAgo = 1 } = {}) => {
	const body = pprofProfile(stacks, { timeNs: BigInt(now - minutesAgo * 60000) * 1000000n });
	const response = await request(server.port, 'POST', `/api/v1/ingest?name=process_cpu&label=service_name%3D${service}`, {
		body,
		headers: tenant ? { 'x-scope-orgid': tenant } : {},
	});
	assert.equal(response.status, 200, response.body.toString());
};
await send('shop', [
	[['parse', 'main'], 3000000],
	[['malloc', 'parse', 'main'], 1000000],
]);
await send('shop', [[['parse', 'main'], 2000000]], { minutesAgo: 31 });
await send('cart', [[['add', 'main'], 500000]]);
await send('other', [[['secret', 'main'], 77]], { tenant: 'team-a' });

await test('query: stages, filters, tables, charts', () => {
	assert.match(done('query', 'process_cpu', '--format', 'folded'), /^main;parse 5000000$/m);
	assert.equal(done('query', 'process_cpu', '--format', 'folded', '--frames', '"malloc"').trim(), 'main;parse;malloc 1000000');
	assert.match(done('query', 'process_cpu | frames "malloc"', '--format', 'folded'), /malloc 1000000/);
	assert.match(done('query', 'process_cpu | top 1 self by function'), /parse/);
	const chart = done('query', 'process_cpu | group by service_name | bin 10m');
	assert.match(chart, /shop/);
	assert.match(chart, /cart/);
	assert.equal(JSON.parse(done('query', 'process_cpu | top 3 by function', '--format', 'json')).kind, 'table');
	assert.match(done('query', 'process_cpu', '--where', 'service_name="cart"', '--format', 'folded'), /^main;add 500000\n$/);
	assert.match(done('query', 'process_cpu', '--group-by', 'service_name', '--format', 'folded'), /shop.*;main;parse 5000000/);
});
await test('query: explain, and faults with their column before anything is sent', () => {
	const text = done('query', 'process_cpu', '--explain');
	assert.match(text, /parse/);
	assert.match(text, /read|scan/);
	const wrong = run('query', 'process_cpu | dance', '--url', 'http://127.0.0.1:1');
	assert.equal(wrong.status, 1);
	assert.match(wrong.stderr, /column/);
	const table = run('query', 'process_cpu | top 1 by function', '--format', 'svg');
	assert.equal(table.status, 1);
	assert.match(table.stderr, /table/);
	assert.equal(run('query').status, 2);
});
await test('query --tenant', () => {
	assert.equal(done('query', 'process_cpu', '--tenant', 'team-a', '--format', 'folded').trim(), 'main;secret 77');
	assert.match(run('query', 'process_cpu', '--tenant', 'nobody').stderr, /no tenant 'nobody'/);
});
await test('diff: times, selectors, files', () => {
	const table = (...args) => JSON.parse(done('diff', ...args, '--format', 'json')).functions;
	const shifted = table('process_cpu', '--from', 'now-10m', '--shift', '30m');
	assert.deepEqual([shifted.base_total, shifted.total], [2000000, 4500000]);
	const sides = table('process_cpu{service_name="cart"}', 'process_cpu{service_name="shop"}');
	assert.deepEqual([sides.base_total, sides.total], [500000, 6000000]);
	assert.match(done('diff', 'process_cpu{service_name="cart"}', 'process_cpu{service_name="shop"}'), /parse/);
	writeFileSync(`${directory}/a.pb`, pprofProfile([[['x', 'main'], 10]]));
	writeFileSync(
		`${directory}/b.pb`,
		pprofProfile([
			[['x', 'main'], 4],
			[['y', 'main'], 9],
		]),
	);
	const files = JSON.parse(done('diff', `${directory}/a.pb`, `${directory}/b.pb`, '--format', 'json'));
	assert.deepEqual(
		files.rows.slice(0, 2).map((r) => [r.name, r.base_self, r.self]),
		[
			['y', 0, 9],
			['x', 10, 4],
		],
	);
	assert.equal(run('diff', 'process_cpu').status, 2);
});
await test('store: while a server runs it must be asked', () => {
	const here = run('store', 'list', '--data', data);
	assert.equal(here.status, 1);
	assert.match(here.stderr, /in use by a server.*--url/);
	done('store', 'compact', '--url', server.url);
	const [head, ...blocks] = done('store', 'list', '--url', server.url)
		.trim()
		.split('\n')
		.map((line) => line.trim().split(/ +/));
	assert.deepEqual(head, ['block', 'level', 'from', 'to', 'samples', 'series', 'size']);
	assert.equal(
		blocks.reduce((sum, b) => sum + Number(b[4]), 0),
		4,
	);
	assert.match(done('store', 'verify', '--data', data), /1 blocks.*0 problems/);
	assert.equal(run('store', 'verify', '--url', server.url).status, 2);
});
await test('store: verify covers tenants, list and delete open a directory that nobody uses', async () => {
	assert.equal(await server.stop(), 0);
	const verified = done('store', 'verify', '--data', data);
	assert.match(verified, /tenants\/team-a: 1 blocks/);
	assert.equal(done('store', 'list', '--data', data).trim().split('\n').length, 2);
	assert.equal(done('store', 'list', '--data', data, '--tenant', 'team-a').trim().split('\n').length, 2);
	assert.equal(run('store', 'delete', '{}', '--data', data).status, 2);
	assert.match(done('store', 'delete', '{service_name="cart"}', '--from', 'now-1d', '--to', 'now+1d', '--data', data), /deleted 1 samples/);
	server = await startServer(data, ['--tenants']);
	assert.doesNotMatch(done('query', 'process_cpu', '--format', 'folded'), /add/);
	assert.match(done('query', 'process_cpu', '--format', 'folded'), /parse 5000000/);
});
await test('store: verify names what is damaged', async () => {
	assert.equal(await server.stop(), 0);
	const block = `${data}/blocks/${readdirSync(`${data}/blocks`)[0]}`,
		path = `${block}/samples.parquet`;
	const file = openSync(path, 'r+'),
		at = Math.floor(statSync(path).size / 2),
		byte = readFileSync(path)[at];
	writeSync(file, Buffer.from([byte ^ 0x10]), 0, 1, at);
	closeSync(file);
	const verified = run('store', 'verify', '--data', data);
	assert.equal(verified.status, 1);
	assert.match(verified.stderr, /samples\.parquet/);
	assert.equal(run('store', 'verify', '--data', `${directory}/nothing`).status, 1);
});
finish();
