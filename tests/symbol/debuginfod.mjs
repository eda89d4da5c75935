// SPDX-License-Identifier: Apache-2.0
// Debug information that is nowhere but on a debuginfod server, Debian's, in a network of its own: names appear without a restart, also when the file arrives there late.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { finish, skip, startServer, temporaryDirectory, test, wick } from '../harness.mjs';
import { addressProfile, api, buildProgram, decodeFrames, differences, settled, truth, until } from './programs.mjs';

const directory = temporaryDirectory();
const files = `${directory}/files`,
	port = 8002;
mkdirSync(files);
const early = buildProgram(`${directory}/early`, 'early', { number: 1 }),
	late = buildProgram(`${directory}/late`, 'late', { number: 2 });
copyFileSync(early.debug, `${files}/early.debug`);
const debuginfod = spawn('debuginfod', ['-F', files, '-d', ':memory:', '-p', String(port), '-t', '1'], { stdio: 'ignore' });
process.on('exit', () => debuginfod.kill('SIGKILL'));

writeFileSync(`${directory}/wick.yaml`, `symbols:\n  host_files: false\n  retry: 1s\n  debuginfod:\n    urls: [http://127.0.0.1:${port}]\n    missing: 1s\n`);
const server = await startServer(`${directory}/data`, ['--config', `${directory}/wick.yaml`]);
const { json, ingest, pprof } = api(server.port);
const query = (name, more = '') => `/api/v1/query?query=${name}&from=now-2h${more}`;
const binary = async (program) => (await json(`/api/v1/binaries?text=${program.buildId}`)).binaries[0];

await test('debuginfod answers', async () => {
	assert.ok(
		await until(() =>
			fetch(`http://127.0.0.1:${port}/buildid/${early.buildId}/debuginfo`).then(
				(a) => a.ok,
				() => false,
			),
		),
		'it has the debug file',
	);
});
const known = truth(early),
	knownLate = truth(late);
await test('names of a stripped program come from debuginfod, inlined calls and lines as llvm-symbolizer says', async () => {
	await ingest(addressProfile([...known.keys()].map((a) => [early, a])));
	await until(async () => (await settled(json, query('names'))).symbols.resolved === known.size);
	const response = await json(query('names'));
	assert.deepEqual(response.symbols, { resolved: known.size, pending: 0, missing: 0, ambiguous: 0 });
	const wrong = differences(decodeFrames(await pprof(query('names', '&format=pprof')), [early]), early, known);
	assert.ok(
		[...known.values()].some((f) => f.length === 3),
		'there are inlined calls',
	);
	assert.equal(wrong.length, 0, `${wrong.length} of ${known.size} differ:\n${wrong.slice(0, 5).join('\n')}`);
	const { state, from } = await binary(early);
	assert.equal(state, 'complete');
	assert.match(from, /debuginfod/);
});
await test('a debug file that comes late is found without a restart, after a while of not asking', async () => {
	await ingest(addressProfile([...knownLate.keys()].map((a) => [late, a])), 'tardy');
	const first = await settled(json, query('tardy'));
	assert.deepEqual(first.symbols, { resolved: 0, pending: 0, missing: knownLate.size, ambiguous: 0 });
	const { state, why, retry_ms } = await binary(late);
	assert.equal(state, 'missing');
	assert.ok(why && retry_ms > 0, `${why} ${retry_ms}`);
	copyFileSync(late.debug, `${files}/late.debug`);
	assert.ok(await until(async () => (await json(query('tardy'))).symbols.resolved === knownLate.size), JSON.stringify(await binary(late)));
	const wrong = differences(decodeFrames(await pprof(query('tardy', '&format=pprof')), [late]), late, knownLate);
	assert.equal(wrong.length, 0, wrong.slice(0, 5).join('\n'));
});
await test('an upload without lines, as agents make of a stripped program, does not stand in the way', async () => {
	const poor = buildProgram(`${directory}/poor`, 'poor', { number: 4 }),
		knownPoor = truth(poor);
	await ingest(addressProfile([...knownPoor.keys()].map((a) => [poor, a])), 'poor');
	execFileSync(wick, ['debuginfo', 'upload', poor.stripped, '--url', server.url], { stdio: 'ignore' });
	assert.ok(await until(async () => /uploaded/.test((await binary(poor)).from)), JSON.stringify(await binary(poor)));
	copyFileSync(poor.debug, `${files}/poor.debug`);
	assert.ok(
		await until(async () => (await json(query('poor'))).symbols.resolved === knownPoor.size && (await binary(poor)).state === 'complete'),
		JSON.stringify(await binary(poor)),
	);
	assert.match((await binary(poor)).from, /debuginfod/);
});
await test('what was asked for and found is counted', async () => {
	const { debuginfod: counts } = await json('/api/v1/binaries');
	assert.equal(counts.found, 3, JSON.stringify(counts));
	assert.ok(counts.missing >= 1, JSON.stringify(counts));
});
await test('a server that has gone is named as the reason, and holds nothing up', async () => {
	const ended = new Promise((resolve) => debuginfod.once('exit', resolve));
	debuginfod.kill('SIGKILL');
	await ended;
	const gone = buildProgram(`${directory}/gone`, 'gone', { number: 3 });
	await ingest(addressProfile([[gone, gone.text.address]]), 'gone');
	assert.equal((await settled(json, query('gone'))).symbols.missing, 1);
	assert.match((await binary(gone)).why, /debuginfod/);
});
finish();
