// SPDX-License-Identifier: Apache-2.0
// wick record --markers-only beside another profiler, and wick annotate: by the monotonic clock, which is read here as well.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmodSync, copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { finish, skip, temporaryDirectory, test, wick } from '../harness.mjs';
import { sharedTables, wholeLife } from '../lib/firefox.mjs';
import { threadList, withProfile } from '../profiler.mjs';

const work = temporaryDirectory();
const program = resolve(process.env.O ?? 'build', 'programs/markers');
const now = () => Number(process.hrtime.bigint());
function record(file, options = {}, ...more) {
	const from = now();
	const run = spawnSync(options.wick ?? resolve(wick), ['record', '--markers-only', '-o', file, ...more, '--', options.program ?? program, 'threads', '3'], {
		encoding: 'utf8',
		...options,
	});
	return { from, to: now(), run };
}

let marks, window;
await test('markers alone, with the start by CLOCK_MONOTONIC', () => {
	const file = join(work, 'marks.firefox.json');
	const { from, to, run } = record(file);
	assert.equal(run.status, 0, run.stderr);
	assert.match(run.stderr, /markers of .* written to/);
	marks = JSON.parse(readFileSync(file, 'utf8'));
	window = { from, to };
	const start = marks.meta.startTimeAsClockMonotonicNanosecondsSinceBoot;
	assert.equal(
		marks.threads.reduce((sum, t) => sum + t.samples.length, 0),
		0,
	);
	const times = marks.threads.flatMap((t) => t.markers.startTime.map((time) => start + time * 1e6));
	assert.ok(times.length >= 3);
	// One difference of the clocks stands for the whole recording, which NTP may bend meanwhile.
	for (const time of times) assert.ok(time > from - 1e6 && time < to + 1e6, `${time} is not within ${from} and ${to}`);
});

await test('--at: they begin at the time asked for', () => {
	const file = join(work, 'at.firefox.json'),
		at = Date.now() + 3000;
	const { run } = record(file, {}, '--at', new Date(at).toISOString());
	assert.equal(run.status, 0, run.stderr);
	const { meta, threads } = JSON.parse(readFileSync(file, 'utf8'));
	assert.ok(threads.some((t) => t.markers.length));
	assert.ok(meta.startTime >= at, `it began at ${meta.startTime}, not ${at}`);
});

await test('they come to the threads of a profile whose wall clock is wrong, and whose names are cut', async () => {
	assert.ok(marks);
	const threads = marks.threads.filter((t) => t.markers.length);
	const length = (window.to - window.from) / 1e6;
	const columns = (names) => Object.fromEntries([...names.map((name) => [name, []]), ['length', 0]]);
	const base = {
		meta: {
			interval: 1,
			startTime: Date.now() + 30000,
			startTimeAsClockMonotonicNanosecondsSinceBoot: window.from,
			processType: 0,
			product: 'marks',
			stackwalk: 1,
			version: 29,
			preprocessedProfileVersion: 60,
			symbolicated: true,
			categories: [{ name: 'Other', color: 'grey', subcategories: ['Other'] }],
			markerSchema: [],
		},
		libs: [],
		pages: [],
		counters: [],
		shared: sharedTables(['f'], [0], { frame: [0], prefix: [null], length: 1 }),
		threads: threads.map((t) => ({
			processName: 'marks',
			...wholeLife,
			name: t.name.slice(0, 15),
			isMainThread: t.isMainThread,
			pid: t.pid,
			tid: t.tid,
			samples: { stack: [0, 0], time: [0, length], weight: null, weightType: 'samples', length: 2 },
			markers: columns(['data', 'name', 'startTime', 'endTime', 'phase', 'category']),
		})),
	};
	const path = join(work, 'base.json'),
		out = join(work, 'out.json');
	writeFileSync(path, JSON.stringify(base));
	const run = spawnSync(wick, ['annotate', path, '--markers', join(work, 'marks.firefox.json'), '-o', out], { encoding: 'utf8' });
	assert.equal(run.status, 0, run.stderr);
	assert.match(run.stderr, /by the monotonic clock/);
	const got = JSON.parse(readFileSync(out, 'utf8'));
	const shift = (marks.meta.startTimeAsClockMonotonicNanosecondsSinceBoot - window.from) / 1e6;
	for (const [i, thread] of threads.entries()) {
		assert.equal(got.threads[i].name, thread.name);
		assert.equal(got.threads[i].markers.length, thread.markers.length);
		for (const [row, time] of thread.markers.startTime.entries()) {
			const want = Math.min(Math.max(time + shift, 0), length);
			assert.ok(Math.abs(got.threads[i].markers.startTime[row] - want) < 1e-5, `${got.threads[i].markers.startTime[row]} instead of ${want}`);
		}
	}
	assert.ok(threads.some((t) => t.name.length > 15));
	await withProfile(out, async () => assert.equal((await threadList()).length, threads.length));
});

if (process.getuid() === 0)
	await test("nothing but the right to look at one's own processes is needed", () => {
		const directory = join(work, 'nobody');
		mkdirSync(directory);
		chmodSync(directory, 0o777);
		// Copies, because the tree may lie where nobody else may look: below /root.
		const copies = { wick: join(directory, 'wick'), program: join(directory, 'marks') };
		copyFileSync(resolve(wick), copies.wick);
		copyFileSync(program, copies.program);
		const { run } = record(join(directory, 'own.firefox.json'), { uid: 65534, gid: 65534, cwd: directory, ...copies });
		assert.equal(run.status, 0, run.stderr);
		assert.ok(JSON.parse(readFileSync(join(directory, 'own.firefox.json'), 'utf8')).threads.some((t) => t.markers.length));
	});
else skip('without privileges', 'these tests have none');

await test('what makes no markers, and formats that hold none, are told', () => {
	const file = join(work, 'none.firefox.json');
	const none = spawnSync(wick, ['record', '--markers-only', '-o', file, '--', 'true'], { encoding: 'utf8' });
	assert.match(none.stderr, /no markers were recorded/);
	assert.ok(!existsSync(file));
	const pprof = record(join(work, 'x.pb'));
	assert.equal(pprof.run.status, 2);
	assert.match(pprof.run.stderr, /cannot store markers/);
	assert.equal(record(file, {}, '--no-markers').run.status, 2);
});
finish();
