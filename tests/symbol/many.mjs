// SPDX-License-Identifier: Apache-2.0
// A thousand binaries at once: ingest goes on (how fast is for bench/symbols.sh to look at), memory stays within bounds, and every one of them ends in a state with a reason.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { randomBytes } from 'node:crypto';
import { promisify } from 'node:util';
import { finish, startServer, temporaryDirectory, test, wick } from '../harness.mjs';
import { addressProfile, api, buildProgram, differences, decodeFrames, settled, sleep, truth, until } from './programs.mjs';

const unknown = 600,
	real = 300,
	damaged = 100,
	residentMax = 128 << 20;
const directory = temporaryDirectory(),
	run = promisify(execFile);
writeFileSync(`${directory}/wick.yaml`, "symbols: {host_files: false, workers: 2, debuginfod: {urls: ''}}\n");
const server = await startServer(`${directory}/data`, ['--config', `${directory}/wick.yaml`]);
const { json, ingest, pprof } = api(server.port);

// One program, and copies of it under other build-ids; of some the debug sections are noise.
const program = buildProgram(directory, 'app'),
	known = truth(program, 7);
const image = readFileSync(program.full),
	at = image.indexOf(Buffer.from(program.buildId, 'hex'));
const section = /\.debug_info +PROGBITS +\S+ (\S+) (\S+)/
	.exec((await run('readelf', ['-SW', program.full])).stdout)
	.slice(1)
	.map((x) => parseInt(x, 16));
const copy = (n, damage) => {
	const id = randomBytes(20),
		bytes = Buffer.from(image),
		path = `${directory}/copy${n}`;
	id.copy(bytes, at);
	if (damage) randomBytes(section[1] - 8).copy(bytes, section[0] + 8);
	writeFileSync(path, bytes);
	return { ...program, buildId: id.toString('hex'), upload: path };
};
const programs = [
	...Array.from({ length: real }, (_, i) => copy(i, false)),
	...Array.from({ length: damaged }, (_, i) => copy(real + i, true)),
	...Array.from({ length: unknown }, () => ({ ...program, buildId: randomBytes(20).toString('hex') })),
];
const addresses = [...known.keys()];

const resident = () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${server.child.pid}/status`, 'utf8'))[1]) * 1024;
let peak = 0;
const small = addresses.map((a) => [program, a]);
// Ingest of small profiles, one after the other; their times in ms.
async function measure(count, done = () => false) {
	const times = [];
	for (let i = 0; i < count || (count === 0 && !(await done())); i++) {
		const body = addressProfile(small, { timeMs: Date.now() + i }),
			begun = performance.now();
		await ingest(body, `load${i % 5}`);
		times.push(performance.now() - begun);
		peak = Math.max(peak, resident());
		await sleep(2);
	}
	return times.sort((a, b) => a - b);
}
const quantile = (times, q) => times[Math.min(times.length - 1, Math.floor(times.length * q))];

await measure(20);
const alone = await measure(150);
const busy = async () => {
	const { counts } = await json('/api/v1/binaries?limit=1');
	return counts.queued + counts.working;
};
let during;
await test('a thousand build-ids at once do not hold up ingest', async () => {
	const uploads = (async () => {
		const paths = programs.filter((p) => p.upload).map((p) => p.upload);
		for (let i = 0; i < paths.length; i += 100) await run(wick, ['debuginfo', 'upload', ...paths.slice(i, i + 100), '--url', server.url]);
		return true;
	})();
	await ingest(addressProfile(programs.map((p, i) => [p, addresses[i % addresses.length]])), 'many');
	let uploaded = false;
	uploads.then(() => {
		uploaded = true;
	});
	during = await measure(0, async () => uploaded && (await busy()) === 0);
	await uploads;
	const shown = (times) => `p50 ${quantile(times, 0.5).toFixed(1)} p99 ${quantile(times, 0.99).toFixed(1)} (${times.length})`;
	console.log(`ingest, ms: alone ${shown(alone)}; meanwhile ${shown(during)}`);
	assert.ok(during.length > 50, `${during.length} profiles were taken meanwhile`);
});
await test("the server's memory is bounded", async () => {
	console.log(`resident, MiB: at most ${(peak / (1 << 20)).toFixed(0)}`);
	assert.ok(peak < residentMax, `${peak}`);
});
await test('each of them ends in a state, with a reason where there are no names', async () => {
	assert.ok(await until(async () => (await busy()) === 0), JSON.stringify((await json('/api/v1/binaries?limit=1')).counts));
	const { binaries, total } = await json('/api/v1/binaries?limit=2000');
	assert.equal(total, programs.length + 1);
	const states = new Map(binaries.map((b) => [b.build_id, b]));
	const expected = (p, i) => (i < real ? ['complete'] : i < real + damaged ? ['complete', 'partial', 'failed'] : ['missing']);
	programs.forEach((p, i) => {
		const binary = states.get(p.buildId);
		assert.ok(binary && expected(p, i).includes(binary.state), `${i}: ${JSON.stringify(binary)}`);
		assert.ok(i < real || binary.why, `${i} says why: ${JSON.stringify(binary)}`);
	});
	const pages = await Promise.all([0, 400, 800].map((offset) => json(`/api/v1/binaries?limit=400&offset=${offset}`)));
	assert.equal(new Set(pages.flatMap((p) => p.binaries.map((b) => b.build_id))).size, programs.length + 1, 'pages of the list have all, each once');
});
await test('the answer counts them, and those that can be named are named right', async () => {
	const { symbols } = await settled(json, '/api/v1/query?query=many&from=now-1h');
	assert.equal(symbols.pending, 0);
	assert.equal(symbols.resolved + symbols.missing, programs.length);
	assert.ok(symbols.resolved >= real && symbols.missing >= unknown, JSON.stringify(symbols));
	const found = decodeFrames(await pprof('/api/v1/query?query=many&from=now-1h&format=pprof'), programs);
	const wrong = programs.slice(0, real).flatMap((p, i) => {
		const a = addresses[i % addresses.length];
		return differences(found, p, new Map([[a, known.get(a)]]));
	});
	assert.deepEqual(wrong.slice(0, 5), []);
});
finish();
