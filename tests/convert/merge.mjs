// SPDX-License-Identifier: Apache-2.0
// wick merge: profiles of hosts whose clocks are wrong in known ways. What comes out is read here, by nothing of ours, and by the
// command line of Firefox Profiler.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { finish, temporaryDirectory, test, wick } from '../harness.mjs';
import { sharedTables, wholeLife } from '../lib/firefox.mjs';
import { cli, withProfile } from '../profiler.mjs';

const work = temporaryDirectory();
const START_MS = 1700000000000;
const EXCHANGES = 10000;

function merge(...args) {
	const run = spawnSync(wick, ['merge', ...args], { encoding: 'utf8' });
	return { ...run, run };
}
function merged(out, ...args) {
	const { status, stderr } = merge(...args, '-o', out);
	assert.equal(status, 0, stderr);
	return { profile: JSON.parse(readFileSync(out, 'utf8')), stderr };
}

// A small generator, so that runs are alike.
let state = 1;
const random = () => {
	state = (state * 48271) % 2147483647;
	return state / 2147483647;
};
// Most messages are quick, some are not, and one way is slower than the other.
const delayMs = (slow) => (0.1 + random() * 0.3 + (random() < 0.05 ? random() * 50 : 0)) * (slow ? 3 : 1);

// What a host's clock shows when the first one's shows so many milliseconds since the start.
const clock = (offsetMs, skew) => (ms) => ms + offsetMs + skew * ms;

// A file as another program writes it: markers that send and receive, a sample a second of a function of the host's name.
function writeHost(path, name, show, markers, lengthMs) {
	const strings = [`main_of_${name}`, 'send', 'receive'];
	const rows = markers.map((marker) => ({ ...marker, ms: show(marker.ms) })).sort((a, b) => a.ms - b.ms);
	const data = rows.map((row) => ({ type: 'Message', [row.ends ? 'done' : 'flow']: strings.push(row.flow) - 1 }));
	const samples = [];
	for (let ms = 0; ms < lengthMs; ms += 1000) samples.push(show(ms));
	const column = (value) => samples.map(() => value);
	writeFileSync(
		path,
		JSON.stringify({
			meta: {
				interval: 1000,
				startTime: START_MS,
				processType: 0,
				product: name,
				stackwalk: 1,
				version: 36,
				preprocessedProfileVersion: 60,
				categories: [{ name: 'Other', color: 'grey', subcategories: ['Other'] }],
				markerSchema: [
					{
						name: 'Message',
						display: ['marker-chart', 'marker-table'],
						fields: [
							{ key: 'flow', label: 'Flow', format: 'flow-id' },
							{ key: 'done', label: 'Done', format: 'terminating-flow-id' },
						],
					},
				],
				sampleUnits: { time: 'ms', eventDelay: 'ms', threadCPUDelta: 'ns' },
			},
			libs: [],
			shared: sharedTables(strings, [0], { length: 1, frame: [0], prefix: [null] }),
			threads: [
				{
					name: 'engine',
					processName: 'pipeline',
					isMainThread: true,
					pid: '100',
					tid: 100,
					...wholeLife,
					samples: { length: samples.length, stack: column(0), time: samples, weight: column(1), weightType: 'samples' },
					markers: {
						length: rows.length,
						data,
						name: rows.map((row) => (row.ends ? 2 : 1)),
						startTime: rows.map((row) => row.ms),
						endTime: rows.map(() => null),
						phase: rows.map(() => 0),
						category: rows.map(() => 0),
					},
				},
			],
		}),
	);
}

// Exchanges between hosts a minute long, and the files of both.
function write(hosts, count, pairOf, directory = work) {
	const markers = hosts.map(() => []),
		truth = new Map();
	for (let i = 0; i < count; i++) {
		const [from, to] = pairOf(i),
			sent = (60000 * i) / count + random(),
			flow = (i + 1).toString(16);
		const received = sent + delayMs(from > to);
		markers[from].push({ ms: sent, flow, ends: false });
		markers[to].push({ ms: received, flow, ends: true });
		truth.set(flow, { from: hosts[from].name, to: hosts[to].name, sent, received });
	}
	const paths = hosts.map(({ name, show }, i) => {
		const path = join(directory, `${name}.firefox.json`);
		writeHost(path, name, show, markers[i], 60000);
		return path;
	});
	return { paths, truth };
}

// The messages of a merged profile, by flow, in milliseconds since START_MS.
function messages(profile) {
	const found = new Map(),
		schema = profile.meta.markerSchema.find(({ name }) => name === 'Message');
	const strings = profile.shared.stringArray,
		shift = profile.meta.startTime - START_MS;
	const keys = ['flow-id', 'terminating-flow-id'].map((format) => schema.fields.find((field) => field.format === format).key);
	for (const { pid, markers } of profile.threads)
		markers.data.forEach((data, i) => {
			if (data?.type !== 'Message') return;
			const ends = data[keys[1]] !== undefined,
				flow = strings[data[keys[ends ? 1 : 0]]];
			const one = found.get(flow) ?? {};
			found.set(flow, Object.assign(one, { [ends ? 'received' : 'sent']: markers.startTime[i] + shift, [ends ? 'to' : 'from']: pid.split(':')[0] }));
		});
	return found;
}
const hostOf = (profile, name) => profile.meta.wick.hosts.find((host) => host.name === name);
// Nanoseconds of a double at this size.
const ROUNDING_MS = 1e-5;

// All messages are there, arrive after they were sent, and no time is further from the truth than the host's bound.
function check(profile, truth) {
	const found = messages(profile);
	assert.equal(found.size, truth.size);
	let worst = 0;
	for (const [flow, want] of truth) {
		const got = found.get(flow);
		assert.equal(got.from, want.from);
		assert.equal(got.to, want.to);
		assert.ok(got.received >= got.sent - ROUNDING_MS, `flow ${flow} is sent at ${got.sent} and arrives at ${got.received}`);
		for (const [ms, trueMs, name] of [
			[got.sent, want.sent, want.from],
			[got.received, want.received, want.to],
		]) {
			const bound = hostOf(profile, name).boundNs / 1e6;
			assert.ok(bound >= 0, `${name} has no bound`);
			assert.ok(Math.abs(ms - trueMs) <= bound + ROUNDING_MS, `${name} is off by ${ms - trueMs} ms, more than ${bound}`);
			worst = Math.max(worst, Math.abs(ms - trueMs));
		}
	}
	return worst;
}

const two = [
	{ name: 'alpha', show: clock(0, 0) },
	{ name: 'beta', show: clock(5000, 5e-5) },
];
const both = write(two, EXCHANGES, (i) => [i % 2, 1 - (i % 2)]);
const out = join(work, 'all.firefox.json');

await test('5 s and 50 ppm: every send is before its receive, and errors are within the bound', () => {
	const { profile, stderr } = merged(out, ...both.paths);
	const worst = check(profile, both.truth);
	const { boundNs, offsetNs, skew, atNs, exchanges, reference, method } = hostOf(profile, 'beta');
	console.log(`# bound ${boundNs} ns, worst error ${Math.round(worst * 1e6)} ns, skew ${(skew * 1e6).toFixed(2)} ppm`);
	assert.ok(boundNs < 1e6, `the bound is ${boundNs} ns`);
	assert.equal(exchanges, EXCHANGES);
	assert.equal(reference, 'alpha');
	assert.equal(method, 'flows');
	assert.ok(Math.abs(skew - 5e-5) < 2e-5);
	// By beta's clock, beta is 5 s ahead at the beginning of the minute.
	const atMs = atNs / 1e6 - START_MS - 5000;
	assert.ok(Math.abs(offsetNs / 1e6 - 5000 - 5e-5 * atMs) <= boundNs / 1e6);
	assert.match(stderr, /beta +5\.00\d+ s +\+\d+\.\d+ ppm .* 10,000 +flows/);
	assert.match(stderr, /10,000 messages between processes/);
	assert.doesNotMatch(stderr, /before they are sent|cannot store/);
});

await test("exchanges are drawn from send to receive, on the receiver's thread", () => {
	const profile = JSON.parse(readFileSync(out, 'utf8')),
		strings = profile.shared.stringArray;
	const counts = new Map(),
		found = messages(profile),
		shift = profile.meta.startTime - START_MS;
	const spans = new Set([...found.values()].map(({ sent, received }) => `${sent.toFixed(4)} ${received.toFixed(4)}`));
	for (const { pid, markers } of profile.threads)
		markers.data.forEach((data, i) => {
			if (data?.type !== 'Exchange') return;
			const way = `${strings[data.fromHost]} ${strings[data.toHost]}`;
			assert.equal(pid, `${strings[data.toHost]}:100`);
			assert.equal(strings[data.from], 'engine [100]');
			assert.equal(markers.phase[i], 1);
			assert.ok(spans.has(`${(markers.startTime[i] + shift).toFixed(4)} ${(markers.endTime[i] + shift).toFixed(4)}`));
			counts.set(way, (counts.get(way) ?? 0) + 1);
		});
	assert.deepEqual([...counts].sort(), [
		['alpha beta', EXCHANGES / 2],
		['beta alpha', EXCHANGES / 2],
	]);
});

await test('samples move with their host, and all are there', () => {
	const profile = JSON.parse(readFileSync(out, 'utf8'));
	for (const { pid, samples } of profile.threads) {
		assert.equal(samples.length, 60);
		samples.time.forEach((time, i) => {
			const off = time + profile.meta.startTime - START_MS - 1000 * i;
			assert.ok(Math.abs(off) <= hostOf(profile, pid.split(':')[0]).boundNs / 1e6 + ROUNDING_MS, `${pid}: sample ${i} is off by ${off} ms`);
		});
	}
});

await test('Firefox Profiler opens it: hosts side by side, their clocks in words', async () => {
	await withProfile(out, () => {
		const { threads } = JSON.parse(cli('thread', 'list', '--json', '--limit', '0'));
		assert.equal(threads.length, 2);
		const info = cli('profile', 'info');
		for (const name of ['alpha', 'beta']) assert.match(info, new RegExp(`${name}:100`));
		const functions = threads.flatMap(({ threadHandle }) =>
			JSON.parse(cli('thread', 'functions', '--json', '--limit', '0', '--thread', threadHandle)).functions.map(({ name }) => name),
		);
		assert.deepEqual(functions.sort(), ['main_of_alpha', 'main_of_beta']);
		const markers = cli('thread', 'markers', '--thread', threads[1].threadHandle);
		assert.match(markers, /Exchange/);
	});
	const section = JSON.parse(readFileSync(out, 'utf8')).meta.extra.find(({ label }) => label === 'Clocks of hosts');
	assert.deepEqual(
		section.entries.map(({ label }) => label),
		['alpha', 'beta'],
	);
	assert.equal(section.entries[0].value, 'reference clock');
	assert.match(
		section.entries[1].value,
		/^5\.00\d+ s ahead of alpha, running \d+\.\d+ ppm fast, accurate to 0\.000\d+ s, by flows \(10,000 messages\); corrected$/,
	);
});

await test('what was merged can be converted, and merged again', () => {
	const again = join(work, 'again.firefox.json');
	const run = spawnSync(wick, ['convert', '-q', out, '-o', again], { encoding: 'utf8' });
	assert.equal(run.status, 0, run.stderr);
	const before = JSON.parse(readFileSync(out, 'utf8')),
		after = JSON.parse(readFileSync(again, 'utf8'));
	assert.deepEqual(after.meta.wick.hosts, before.meta.wick.hosts);
	assert.deepEqual(
		after.threads.map(({ pid, tid, processName }) => [pid, tid, processName]),
		before.threads.map(({ pid, tid, processName }) => [pid, tid, processName]),
	);
	check(after, both.truth);
	const { profile } = merged(again, out);
	check(profile, both.truth);
	assert.equal(
		profile.threads.reduce((sum, { markers }) => sum + markers.length, 0),
		3 * EXCHANGES,
	);
});

await test('another reference: the same, by its clock', () => {
	const { profile } = merged(join(work, 'b.firefox.json'), ...both.paths, '--reference', 'beta');
	const shown = new Map(
		[...both.truth].map(([flow, { sent, received, ...rest }]) => [flow, { ...rest, sent: two[1].show(sent), received: two[1].show(received) }]),
	);
	check(profile, shown);
	assert.equal(hostOf(profile, 'beta').method, 'reference');
});

await test('--no-align keeps times, and says what arrives before it is sent', () => {
	const { profile, stderr } = merged(join(work, 'c.firefox.json'), ...both.paths, '--no-align');
	const found = messages(profile);
	for (const [flow, { from, to, sent, received }] of both.truth) {
		assert.ok(Math.abs(found.get(flow).sent - (from === 'beta' ? two[1].show(sent) : sent)) < ROUNDING_MS);
		assert.ok(Math.abs(found.get(flow).received - (to === 'beta' ? two[1].show(received) : received)) < ROUNDING_MS);
	}
	assert.match(stderr, /5,000 messages are received before they are sent/);
});

await test('five hosts that talk in a ring, one of them an hour off', () => {
	const hosts = [
		['alpha', 0, 0],
		['beta', 3600000, -1e-4],
		['gamma', -7, 2e-4],
		['delta', 400, 0],
		['epsilon', -90000, 5e-5],
	].map(([name, offset, skew]) => ({ name, show: clock(offset, skew) }));
	const ring = write(hosts, 5000, (i) => (i % 2 ? [i % 5, (i + 1) % 5] : [(i + 1) % 5, i % 5]), temporaryDirectory());
	const { profile } = merged(join(work, 'ring.firefox.json'), ...ring.paths);
	check(profile, ring.truth);
});

await test('names of hosts: as given, of the file, and never one twice', () => {
	const names = (...args) => merged(join(work, 'names.firefox.json'), ...args).profile.threads.map(({ pid }) => pid.split(':')[0]);
	assert.deepEqual(names(...both.paths, '--host', 'web'), ['web', 'beta']);
	assert.deepEqual(names(both.paths[0], both.paths[0], both.paths[0]), ['alpha', 'alpha-2', 'alpha-3']);
	assert.deepEqual(names(...both.paths, '--host', 'x', '--host', 'x'), ['x', 'x-2']);
	// One that is of several hosts names them itself.
	assert.deepEqual(names(out, both.paths[0]), ['alpha', 'beta', 'alpha-2']);
	const refused = merge(out, '--host', 'x', '-o', join(work, 'never.firefox.json'));
	assert.equal(refused.status, 1);
	assert.match(refused.stderr, /has 2 hosts/);
	const unknown = merge(...both.paths, '--reference', 'nobody', '-o', join(work, 'never.firefox.json'));
	assert.equal(unknown.status, 1);
	assert.match(unknown.stderr, /no host 'nobody'/);
});

await test('other formats: times are moved, and samples say their host', () => {
	const raw = join(work, 'all.pb');
	assert.equal(merge(...both.paths, '-q', '-o', raw).status, 0);
	const table = spawnSync(wick, ['report', '--tags', raw], { encoding: 'utf8' });
	assert.equal(table.status, 0, table.stderr);
	assert.match(table.stdout, /host\.name/);
	assert.match(table.stdout, /alpha/);
	assert.match(table.stdout, /beta/);
});
finish();
