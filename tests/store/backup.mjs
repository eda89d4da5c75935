// SPDX-License-Identifier: Apache-2.0
// Backups beside running ingest, cuts and merges. A server that is started on a backup gives the same answers about what was acknowledged before the backup began, byte for
// byte; of what came during it nothing is there twice. Backups verify; a second one copies only what is new; nobody's files are overwritten.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { startServer, request, pprofProfile, temporaryDirectory, test, finish, wick } from '../harness.mjs';

const directory = temporaryDirectory(),
	data = join(directory, 'data'),
	config = join(directory, 'config.yaml'),
	token = join(directory, 'token');
// Small heads and windows, so that blocks are cut and merged all the time.
writeFileSync(config, 'head: {size: 256KiB}\ncut: {age: 1s}\ncompact: {window: 1m, long_window: 10m}\n');
writeFileSync(token, 'secret-of-the-test\n', { mode: 0o600 });
const authorization = { authorization: 'Bearer secret-of-the-test' };
const serve = (where) => startServer(where, ['--config', config, '--token-file', token]);
const store = (...words) =>
	new Promise((resolve) => {
		const child = spawn(wick, ['store', ...words], { stdio: ['ignore', 'pipe', 'pipe'] });
		let text = '';
		for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (text += chunk));
		child.on('close', (code) => resolve({ code, text }));
	});

let server = await serve(data);
const start = Date.now() - 3 * 3600000;
let acknowledged = 0,
	sent = 0,
	time = 0;
async function send(service) {
	sent++;
	const n = time++;
	const stacks = Array.from({ length: 20 }, (_, i) => [[`leaf${(n * 7 + i) % 40}`, `middle${i % 5}`, 'main'], 1 + ((n + i) % 9)]);
	const body = pprofProfile(stacks, { timeNs: BigInt(start + (n % 3000) * 1000) * 1000000n });
	const path = `/api/v1/ingest?name=process_cpu&label=service_name%3D${service}&label=host%3Dhost${n % 3}`;
	const response = await request(server.port, 'POST', path, { body, headers: authorization });
	assert.equal(response.status, 200, response.body.toString());
	acknowledged++;
}
for (let i = 0; i < 300; i++) await send('before');

const range = `from=${start - 3600000}&to=${start + 2 * 3600000}`;
const questions = [
	`/api/v1/query?query=${encodeURIComponent('process_cpu{service_name="before"}')}&${range}`,
	`/api/v1/query?format=folded&query=${encodeURIComponent('process_cpu{service_name="before"}')}&${range}`,
	`/api/v1/pipeline?query=${encodeURIComponent('process_cpu{service_name="before"} | group by host | bin 5m')}&${range}`,
	`/api/v1/pipeline?query=${encodeURIComponent('process_cpu{service_name="before"} | group by host | sum')}&${range}`,
	`/api/v1/types?${range}`.replace('types', 'label-values').concat('&label=host'),
];
// Without what takes time, and what depends on how the data lies.
function normal(text) {
	if (!text.startsWith('{')) return text;
	const value = JSON.parse(text);
	for (const name of ['stats', 'explain']) delete value[name];
	if (value.values) value.values = value.values.map(({ name }) => name);
	return JSON.stringify(value);
}
async function answers(of) {
	const texts = [];
	for (const path of questions) {
		const response = await request(of.port, 'GET', path, { headers: authorization });
		assert.equal(response.status, 200, `${path}: ${response.body}`);
		assert.equal(response.headers['x-wick-partial'], undefined);
		texts.push(normal(response.body.toString()));
	}
	return texts;
}
async function total(of, service) {
	const path = `/api/v1/query?query=${encodeURIComponent(`process_cpu{service_name="${service}"}`)}&${range}`;
	const response = await request(of.port, 'GET', path, { headers: authorization });
	assert.equal(response.status, 200, response.body.toString());
	return JSON.parse(response.body.toString()).total ?? 0;
}
const expected = await answers(server);

// Ingest that goes on while `body` runs; *during: how much was acknowledged when it began, and sent when it ended.
async function beside(service, body) {
	let stop = false;
	const writer = (async () => {
		while (!stop) await send(service);
	})();
	for (const end = acknowledged + 20; acknowledged < end; ) await new Promise((resolve) => setTimeout(resolve, 5));
	const before = await total(server, service);
	const result = await body();
	stop = true;
	await writer;
	return { result, before, after: await total(server, service) };
}
async function checkRestored(what, target, service, before, after) {
	await test(`${what}: verifies`, async () => {
		const { code, text } = await store('verify', '--data', target);
		assert.equal(code, 0, text);
		assert.match(text, / 0 problems/);
	});
	// A server changes what it is started on.
	const copy = `${target}-restored`;
	rmSync(copy, { recursive: true, force: true });
	cpSync(target, copy, { recursive: true });
	const restored = await serve(copy);
	await test(`${what}: answers as the store did`, async () => assert.deepEqual(await answers(restored), expected));
	await test(`${what}: of what came meanwhile nothing is there twice`, async () => {
		const got = await total(restored, service);
		assert.ok(got >= before && got <= after, `${before} <= ${got} <= ${after}`);
	});
	await test(`${what}: takes more`, async () => {
		const was = server;
		server = restored;
		await send('more');
		server = was;
		assert.ok((await total(restored, 'more')) > 0);
	});
	assert.equal(await restored.stop(), 0);
}

const fromServer = join(directory, 'from-server');
await test('backup of a running server', async () => {
	const { result, before, after } = await beside('url', () => store('backup', '--url', server.url, '--token-file', token, fromServer));
	assert.equal(result.code, 0, result.text);
	// Blocks that were merged while they were copied are copied for nothing, and removed.
	assert.match(result.text, /from-server: [1-9]\d* blocks, .* new.*; \d+ removed; log of 0 records/);
	const note = JSON.parse(readFileSync(join(fromServer, 'backup.json'), 'utf8'));
	assert.deepEqual([note.format, note.complete, note.source], ['wick backup', true, server.url]);
	await checkRestored('of a server', fromServer, 'url', before, after);
});
await test('the next one copies what is new, and has no block twice', async () => {
	const names = () => readdirSync(join(fromServer, 'blocks')).sort();
	const inode = (name) => statSync(join(fromServer, 'blocks', name, 'meta.json')).ino;
	const before = new Map(names().map((name) => [name, inode(name)]));
	for (let i = 0; i < 30; i++) await send('later');
	const { code, text } = await store('backup', '--url', server.url, '--token-file', token, fromServer);
	assert.equal(code, 0, text);
	const copied = Number(text.match(/; (\d+) new/)[1]),
		kept = names().filter((name) => before.has(name));
	assert.ok(copied > 0 && copied >= names().length - kept.length, text);
	for (const name of kept) assert.equal(inode(name), before.get(name), 'not copied again');
	await checkRestored('the next one', fromServer, 'later', await total(server, 'later'), await total(server, 'later'));
});

const fromFiles = join(directory, 'from-files');
await test('backup of the directory of a running server: with its log, and hard links', async () => {
	const { result, before, after } = await beside('files', () => store('backup', '--data', data, fromFiles));
	assert.equal(result.code, 0, result.text);
	const block = readdirSync(join(fromFiles, 'blocks'))[0];
	assert.ok(block && readdirSync(join(fromFiles, 'log')).length > 0);
	await checkRestored('of a directory in use', fromFiles, 'files', before, after);
});
await test('what a kill leaves is in the backup as well', async () => {
	for (let i = 0; i < 5; i++) await send('last');
	const last = await total(server, 'last');
	server.child.removeAllListeners('exit');
	await new Promise((resolve) => {
		server.child.once('exit', resolve);
		server.child.kill('SIGKILL');
	});
	const { code, text } = await store('backup', '--data', data, fromFiles);
	assert.equal(code, 0, text);
	server = await serve(data);
	await checkRestored('of a directory not in use', fromFiles, 'last', last, last);
});

await test('refused: who may not change anything, a directory of somebody else, one in use', async () => {
	const other = join(directory, 'other');
	mkdirSync(other);
	writeFileSync(join(other, 'thesis.txt'), 'ten years of work');
	const refusals = [
		[['backup', '--url', server.url, join(directory, 'nothing')], /401|403|token/],
		[['backup', '--data', data, other], /not empty, and no backup/],
		[['backup', '--data', data, data], /data directory itself/],
		[['backup', '--data', fromFiles, data], /not empty, and no backup|in use/],
		[['backup', '--data', join(directory, 'missing'), other], /no store in/],
		[['backup', '--url', server.url], /needs one operand/],
	];
	for (const [words, message] of refusals) {
		const { code, text } = await store(...words);
		assert.ok(code === 1 || code === 2, text);
		assert.match(text, message);
	}
	assert.deepEqual(readdirSync(other), ['thesis.txt']);
	const restored = await serve(fromFiles);
	const { code, text } = await store('backup', '--data', data, fromFiles);
	assert.equal(code, 1, text);
	assert.match(text, /in use/);
	assert.equal(await restored.stop(), 0);
});
await test('files that are no blocks cannot be fetched', async () => {
	const block = readdirSync(join(data, 'blocks')).find((name) => existsSync(join(data, 'blocks', name, 'meta.json')));
	for (const path of [`${block}/..%2F..%2Flock`, `..%2Flog/meta.json`, `${block}/`, block, `${block}/meta.json?offset=-1`, `${block}/meta.json?offset=x`]) {
		const response = await request(server.port, 'GET', `/api/v1/backup/${path}`, { headers: authorization });
		assert.ok([400, 404].includes(response.status), `${path}: ${response.status}`);
	}
	// One that is listed may be merged into another before it is asked for.
	for (let end; end?.status !== 200; ) {
		const { blocks } = JSON.parse((await request(server.port, 'POST', '/api/v1/backup', { headers: authorization })).body.toString());
		end = await request(server.port, 'GET', `/api/v1/backup/${blocks[0].name}/meta.json?offset=99999999`, { headers: authorization });
		assert.ok(end.status === 404 || (end.status === 200 && end.body.length === 0), `${end.status}: ${end.body}`);
	}
});
assert.equal(await server.stop(), 0);
finish();
