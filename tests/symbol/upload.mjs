// SPDX-License-Identifier: Apache-2.0
// Debug information that is sent an hour of data later repairs what was there before it, without a restart; and survives one.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { finish, startServer, temporaryDirectory, test, wick } from '../harness.mjs';
import { addressProfile, api, buildProgram, decodeFrames, differences, readProgram, settled, truth, until } from './programs.mjs';

const directory = temporaryDirectory(),
	run = promisify(execFile);
writeFileSync(`${directory}/wick.yaml`, "symbols: {host_files: false, debuginfod: {urls: ''}}\n");
let server = await startServer(`${directory}/data`, ['--config', `${directory}/wick.yaml`]);
let { json, ingest, pprof } = api(server.port);
const program = buildProgram(directory, 'app'),
	whole = buildProgram(`${directory}/whole`, 'whole', { number: 7 });
const known = truth(program),
	knownWhole = truth(whole);
const query = (name, more = '') => `/api/v1/query?query=${name}&from=now-2h${more}`;
const binaries = (more) => json(`/api/v1/binaries?${more}`);
const wrong = async (name, p, expected) => differences(decodeFrames(await pprof(query(name, '&format=pprof')), [p]), p, expected);

await test('an hour-old profile of a stripped program has addresses, and is counted as without names', async () => {
	await ingest(
		addressProfile(
			[...known.keys()].map((a) => [program, a]),
			{ timeMs: Date.now() - 3600000 },
		),
		'old',
	);
	const { symbols, flame } = await settled(json, query('old'));
	assert.deepEqual(symbols, { resolved: 0, pending: 0, missing: known.size, ambiguous: 0 });
	assert.ok(
		flame.strings.some((s) => s.includes('+0x')),
		'addresses are shown',
	);
	const {
		binaries: [{ state, why }],
		counts,
	} = await binaries('state=missing');
	assert.equal(state, 'missing');
	assert.ok(why.length > 10, why);
	assert.equal(counts.missing, 1);
});
await test('the server wants its debug information, and says so to an agent that asks', async () => {
	const response = await api(server.port).post(
		'/api/v1/debuginfo/wanted',
		JSON.stringify({ binaries: [{ build_id: program.buildId, path: '/srv/app/x', kinds: ['debuginfo'] }] }),
	);
	assert.deepEqual(JSON.parse(response.body).wanted, [{ build_id: program.buildId, kind: 'debuginfo' }]);
});
await test('uploaded: the old data has names, inlined calls and lines as llvm-symbolizer says', async () => {
	await run(wick, ['debuginfo', 'upload', program.full, '--url', server.url]);
	assert.ok(await until(async () => (await json(query('old'))).symbols.resolved === known.size), JSON.stringify((await binaries('')).binaries));
	assert.deepEqual((await wrong('old', program, known)).slice(0, 5), []);
});
await test('a page that asks again sees pending fall to 0', async () => {
	await ingest(addressProfile([...knownWhole.keys()].map((a) => [whole, a])), 'page');
	await run(wick, ['debuginfo', 'upload', whole.debug, '--url', server.url]);
	const seen = [];
	assert.ok(
		await until(async () => {
			const { symbols } = await json(query('page', '&symbols_wait=0s'));
			seen.push(symbols);
			return symbols.pending === 0 && symbols.resolved === knownWhole.size;
		}),
		JSON.stringify(seen.slice(-3)),
	);
	for (const { resolved, pending, missing } of seen) assert.equal(resolved + pending + missing, knownWhole.size, 'every address is counted once');
	assert.deepEqual((await wrong('page', whole, knownWhole)).slice(0, 5), []);
});
await test('nothing is asked for twice', async () => {
	const response = await api(server.port).post(
		'/api/v1/debuginfo/wanted',
		JSON.stringify({ binaries: [program, whole].map((p) => ({ build_id: p.buildId, path: '/srv/app/x', kinds: ['debuginfo'] })) }),
	);
	assert.deepEqual(JSON.parse(response.body).wanted, []);
});
await test('a program without a build-id goes by the name that was given with it', async () => {
	const built = buildProgram(`${directory}/nameless`, 'nameless', { number: 9 }),
		nameless = { ...built, buildId: '0123456789abcdef' },
		knownNameless = truth(built);
	await run('objcopy', ['--remove-section=.note.gnu.build-id', built.full]);
	await ingest(addressProfile([...knownNameless.keys()].map((a) => [nameless, a])), 'nameless');
	await run(wick, ['debuginfo', 'upload', nameless.full, '--build-id', nameless.buildId, '--url', server.url]);
	assert.ok(await until(async () => (await json(query('nameless'))).symbols.resolved === knownNameless.size), JSON.stringify((await binaries('')).binaries));
	assert.deepEqual((await wrong('nameless', nameless, knownNameless)).slice(0, 5), []);
});
await test('names are there after a restart, and after the tables were removed or damaged', async () => {
	for (const damage of [
		'',
		'rm -rf DATA/symbols',
		"find DATA/symbols -name '*.sym' -exec truncate -s 300 {} +",
		"find DATA/symbols -name '*.sym' -exec sh -c 'head -c 4096 /dev/urandom | dd of=$1 conv=notrunc bs=64 seek=2 status=none' sh {} ';'",
	]) {
		assert.equal(await server.stop(), 0);
		await run('sh', ['-c', damage.replaceAll('DATA', `${directory}/data`) || 'true']);
		server = await startServer(`${directory}/data`, ['--config', `${directory}/wick.yaml`]);
		({ json, ingest, pprof } = api(server.port));
		assert.ok(
			await until(async () => (await json(query('old', '&symbols_wait=5s'))).symbols.resolved === known.size),
			`${damage}: ${JSON.stringify((await binaries('')).binaries)}`,
		);
		assert.deepEqual((await wrong('old', program, known)).slice(0, 5), [], damage);
	}
});
await test('tables that are cut short or removed while they are in use are made again, and nothing wrong is said meanwhile', async () => {
	for (const damage of [
		"find DATA/symbols -name '*.sym' -exec truncate -s 0 {} +",
		"find DATA/symbols -name '*.sym' -exec truncate -s 250 {} +",
		'rm -rf DATA/symbols',
		'touch DATA/symbols',
	]) {
		await run('sh', ['-c', damage.replaceAll('DATA', `${directory}/data`)]);
		const { symbols } = await json(query('old', '&symbols_wait=10s'));
		assert.equal(symbols.resolved + symbols.pending, known.size, `${damage}: ${JSON.stringify(symbols)}`);
		assert.ok(await until(async () => (await json(query('old', '&symbols_wait=5s'))).symbols.resolved === known.size), damage);
		assert.deepEqual((await wrong('old', program, known)).slice(0, 5), [], damage);
	}
});
await test('a large table that is cut short while it is mapped does not end the server', async () => {
	await run('rm', ['-f', `${directory}/data/symbols`]);
	const large = readProgram(wick),
		{ address, size } = large.text,
		addresses = Array.from({ length: 200 }, (_, i) => address + Math.floor((size * i) / 200));
	await ingest(addressProfile(addresses.map((a) => [large, a])), 'large');
	await run(wick, ['debuginfo', 'upload', wick, '--url', server.url]);
	const ask = async () => (await json(query('large', '&symbols_wait=30s'))).symbols;
	assert.ok(await until(async () => (await ask()).resolved > 150), JSON.stringify(await ask()));
	const before = await ask();
	for (const bytes of [8192, 70000, 0]) {
		const { stdout } = await run('find', [`${directory}/data/symbols`, '-name', `${large.buildId.slice(2)}.sym`, '-size', '+64k']);
		assert.notEqual(stdout, '', 'the table is large');
		await run('truncate', ['-s', String(bytes), stdout.trim()]);
		const { resolved, pending } = await ask();
		assert.ok(resolved + pending >= before.resolved, `${resolved} ${pending}`);
		assert.ok(await until(async () => (await ask()).resolved === before.resolved), JSON.stringify(await ask()));
	}
});
await test('killed in the middle of builds, it starts again and makes them', async () => {
	server.child.removeAllListeners('exit');
	await run('sh', ['-c', `rm -rf ${directory}/data/symbols`]);
	const killed = new Promise((resolve) => server.child.once('exit', resolve)),
		asked = json(query('old', '&symbols_wait=0s')).catch(() => null);
	server.child.kill('SIGKILL');
	await Promise.all([killed, asked]);
	server = await startServer(`${directory}/data`, ['--config', `${directory}/wick.yaml`]);
	({ json, ingest, pprof } = api(server.port));
	assert.ok(
		await until(async () => (await json(query('old', '&symbols_wait=5s'))).symbols.resolved === known.size),
		JSON.stringify((await binaries('')).binaries),
	);
	assert.equal((await run('find', [`${directory}/data/symbols`, '-name', '*.tmp'])).stdout, '');
});
assert.equal(await server.stop(), 0);
finish();
