// SPDX-License-Identifier: Apache-2.0
// Ids of binaries: what a server of an older version has stored is still there, tenants' uploads are apart, and where two files of one id name code
// differently, it has no name.
import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { bytesField, finish, intField, request, startServer, temporaryDirectory, test, wick } from '../harness.mjs';
import { api, until } from './programs.mjs';

const directory = temporaryDirectory(),
	run = promisify(execFile),
	golden = 'tests/symbol/golden/uploads_v1';
const files = (path) => readdirSync(path, { withFileTypes: true }).flatMap((e) => (e.isDirectory() ? files(`${path}/${e.name}`) : [`${path}/${e.name}`]));
const options = async (name, yaml, symbols = '') => {
	writeFileSync(`${directory}/${name}.yaml`, `symbols: {host_files: false, debuginfod: {urls: ''}${symbols}}\n${yaml}`);
	return startServer(`${directory}/${name}`, ['--config', `${directory}/${name}.yaml`]);
};

await test('what an older server has stored is found, also by the next start', async () => {
	mkdirSync(`${directory}/old`);
	writeFileSync(`${directory}/old/lock`, '');
	cpSync(golden, `${directory}/old/debuginfo`, { recursive: true });
	const before = files(golden).filter((path) => !path.includes('/incoming/'));
	for (let start = 0; start < 2; start++) {
		const server = await options('old', '');
		const { uploads } = await api(server.port).json('/api/v1/binaries');
		assert.equal(uploads.files, before.length);
		assert.equal(uploads.open, 1);
		const after = files(`${directory}/old/debuginfo/files`);
		for (const path of before) {
			const [folder, name] = path.split('/').slice(-2),
				[rest, kind] = name.split('.');
			const now = after.find((p) => p.includes(`/${folder}/${rest}/`) && p.endsWith(`.${kind}`));
			assert.ok(now, path);
			assert.deepEqual(readFileSync(now), readFileSync(path));
			assert.ok(!existsSync(`${directory}/old/debuginfo/${folder}/${name}`));
		}
		await server.stop();
	}
});

const id = '5a0e1b2c3d4e5f60718293a4b5c6d7e8f9001122';
const build = (name, odd) => {
	const source = `${directory}/${name}.c`,
		path = `${directory}/${name}.elf`;
	writeFileSync(
		source,
		`#define PLACE __attribute__((noinline, aligned(256), section(".text.places")))
static volatile int sink;
PLACE void in_both(int x) { sink += x; }
PLACE void ${odd}(int x) { sink -= x; }
int main(int argc, char **argv) { (void)argv; in_both(argc); ${odd}(argc); return 0; }
`,
	);
	execFileSync('gcc', ['-g', '-O1', `-Wl,--build-id=0x${id}`, '-o', path, source]);
	const place = (symbol) => parseInt(new RegExp(`^([0-9a-f]+) . ${symbol}$`, 'm').exec(execFileSync('nm', [path]).toString())[1], 16);
	return { path, both: place('in_both'), odd: place(odd) };
};
const first = build('first', 'only_in_first'),
	second = build('second', 'only_in_second');
// Two samples, one in each function of the program.
async function push(server) {
	const header = execFileSync('readelf', ['-lW', first.path]).toString();
	const [, offset, address, size] = /LOAD +0x([0-9a-f]+) 0x([0-9a-f]+) 0x[0-9a-f]+ 0x([0-9a-f]+) 0x[0-9a-f]+ R E/.exec(header).map((x) => parseInt(x, 16));
	const strings = ['', 'cpu', 'nanoseconds', '/gone/program', id];
	const locations = [first.both, first.odd].map((at, i) => bytesField(4, [...intField(1, i + 1), ...intField(2, 1), ...intField(3, at + 4)]));
	const profile = Buffer.from(
		[
			bytesField(1, [...intField(1, 1), ...intField(2, 2)]),
			...[1, 2].map((i) => bytesField(2, [...bytesField(1, [i]), ...bytesField(2, [100])])),
			bytesField(3, [...intField(1, 1), ...intField(2, address), ...intField(3, address + size), ...intField(4, offset), ...intField(5, 3), ...intField(6, 4)]),
			...locations,
			...strings.map((s) => bytesField(6, Buffer.from(s))),
			intField(9, BigInt(Date.now()) * 1000000n),
			bytesField(11, [...intField(1, 1), ...intField(2, 2)]),
			intField(12, 1),
		].flatMap((part) => [...part]),
	);
	const sent = await request(server.port, 'POST', '/api/v1/ingest?name=process_cpu', { body: profile });
	assert.equal(sent.status, 200, sent.body.toString());
}
// What a server's symbols and names are now.
async function namesBy(json) {
	const { symbols, flame } = await json('/api/v1/query?query=process_cpu&from=now-1h&symbols_wait=10s');
	return { symbols, strings: flame.strings };
}
await test('files of one id of several tenants: those of the first that is shared count', async () => {
	assert.deepEqual([first.both, first.odd], [second.both, second.odd], 'the programs have one layout');
	const server = await options('tenants', 'tenants: {one: {}, two: {}}\n', ', shared: [one, two]');
	const { json } = api(server.port);
	await push(server);
	const names = () => namesBy(json);
	const upload = (tenant, program) => run(wick, ['debuginfo', 'upload', program.path, '--url', server.url, '--tenant', tenant, '--force']);
	await upload('two', second);
	assert.ok(await until(async () => (await names()).strings.includes('only_in_second')));
	await upload('one', first);
	// While a table is built again, the old one stays in use.
	assert.ok(await until(async () => (await names()).strings.includes('only_in_first')));
	const { strings: seen, symbols } = await names();
	assert.ok(seen.includes('in_both') && !seen.includes('only_in_second'), seen.join(' '));
	assert.equal(symbols.resolved, 2);
	assert.equal((await json(`/api/v1/binaries?text=${id}`)).binaries[0].ambiguous, false);
	const stored = files(`${directory}/tenants/debuginfo/files`);
	assert.equal(stored.filter((path) => path.includes('/files/one/gnu/5a/')).length, 1);
	assert.equal(stored.filter((path) => path.includes('/files/two/gnu/5a/')).length, 1);
	// It is corrected.
	await upload('one', second);
	assert.ok(await until(async () => (await names()).strings.includes('only_in_second')));
	assert.equal((await names()).symbols.resolved, 2);
	await server.stop();
});
await test('programs of one id that agents tell of, and do not send: no names of one that it may not be', async () => {
	const server = await options('told', '');
	const { json } = api(server.port);
	await push(server);
	const names = () => namesBy(json);
	const tell = async (content, code) => {
		const asked = await request(server.port, 'POST', '/api/v1/debuginfo/wanted', {
			headers: { 'content-type': 'application/json' },
			body: JSON.stringify({ binaries: [{ build_id: id, content: content.repeat(32), code, kinds: [] }] }),
		});
		assert.equal(asked.status, 200, asked.body.toString());
		assert.deepEqual(JSON.parse(asked.body).wanted, []);
	};
	await run(wick, ['debuginfo', 'upload', first.path, '--url', server.url]);
	assert.ok(await until(async () => (await names()).strings.includes('only_in_first')));
	// An older agent, which does not say what the code is; the program, and a copy of it.
	await tell('0');
	await tell('1', '0000000000000001');
	await tell('2', '0000000000000001');
	const before = await names();
	assert.equal(before.symbols.resolved, 2, JSON.stringify(before));
	assert.ok(before.strings.includes('only_in_first'));
	// Another program.
	await tell('3', '0000000000000002');
	const after = await names();
	assert.equal(after.symbols.ambiguous, 2, JSON.stringify(after));
	assert.ok(!after.strings.includes('only_in_first') && !after.strings.includes('in_both'));
	await server.stop();
});
await finish();
