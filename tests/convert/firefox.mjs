// SPDX-License-Identifier: Apache-2.0
// What wick convert writes for Firefox Profiler, as its own command line sees it, against the source as other readers see it.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { finish, skip, temporaryDirectory, test, testData, wick } from '../harness.mjs';
import { threadFunctions, threadList, withProfile } from '../profiler.mjs';

const { Profile } = createRequire(import.meta.url)('pprof-format');
const work = temporaryDirectory();

// Self and total by function, of all threads.
async function cliSums() {
	const sums = { self: new Map(), total: new Map(), sum: 0 };
	for (const { threadHandle } of await threadList()) {
		for (const f of await threadFunctions(threadHandle)) {
			sums.self.set(f.name, (sums.self.get(f.name) ?? 0) + f.selfSamples);
			sums.total.set(f.name, (sums.total.get(f.name) ?? 0) + f.totalSamples);
			sums.sum += f.selfSamples;
		}
	}
	return sums;
}

const decodePprof = (path) => {
	const file = readFileSync(path);
	return Profile.decode(file[0] === 0x1f ? gunzipSync(file) : file);
};
// The same of a pprof, for one of its values, by a reader that is not ours. `names` tells the name of a frame.
function pprofSums(profile, type, scale) {
	const text = (id) => profile.stringTable.strings[Number(id)];
	const index = profile.sampleType.findIndex((t) => text(t.type) === type);
	assert.notEqual(index, -1, `there is no ${type}`);
	const functionOf = new Map(profile.function.map((f) => [Number(f.id), text(f.name)]));
	const framesOf = new Map(profile.location.map((l) => [Number(l.id), l.line.map((line) => functionOf.get(Number(line.functionId)))]));
	const sums = { self: new Map(), total: new Map(), sum: 0 };
	for (const sample of profile.sample) {
		const value = Number(sample.value[index]) / scale;
		const frames = sample.locationId.flatMap((id) => (framesOf.get(Number(id)).length ? framesOf.get(Number(id)) : ['?']));
		if (frames.length === 0) continue;
		sums.sum += value;
		sums.self.set(frames[0], (sums.self.get(frames[0]) ?? 0) + value);
		for (const name of new Set(frames)) sums.total.set(name, (sums.total.get(name) ?? 0) + value);
	}
	return sums;
}
function assertNear(got, want, what) {
	assert.ok(Math.abs(got - want) <= 1e-6 * Math.max(1, Math.abs(want)), `${what}: ${got} instead of ${want}`);
}
function assertSame(got, want) {
	assertNear(got.sum, want.sum, 'sum');
	for (const kind of ['self', 'total'])
		for (const [name, value] of want[kind]) {
			// Functions without a name are called by their address.
			if (name === '?' || name === undefined || name === '') continue;
			assertNear(got[kind].get(name) ?? 0, value, `${kind} of ${name}`);
		}
}

const convert = (...args) => execFileSync(wick, ['convert', ...args], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
const scales = { nanoseconds: 1e6, microseconds: 1e3, milliseconds: 1, seconds: 1e-3 };

// Inputs: pprofs of the test data, also those of formats that only `go tool pprof` reads.
const inputs = [];
for (const name of ['google-driver/large.cpu', 'google-driver/sample.cpu']) {
	const path = join(testData, 'pprof', name);
	if (existsSync(path)) inputs.push([name, path]);
}
for (const name of ['cppbench.heap', 'cppbench.cpu', 'java.contention', 'gobench.heap']) {
	const path = join(testData, 'pprof/google-profile', name),
		out = join(work, `${name}.pb.gz`);
	if (!existsSync(path)) continue;
	const run = spawnSync('go', ['tool', 'pprof', '-proto', '-symbolize=none', `-output=${out}`, path], { env: { ...process.env, HOME: work } });
	if (run.status === 0) inputs.push([name, out]);
}
if (inputs.length === 0) skip('pprof to Firefox', `no test data in ${testData}`);
for (const [name, path] of inputs) {
	const profile = decodePprof(path);
	const text = (id) => profile.stringTable.strings[Number(id)];
	const types = profile.sampleType.map((t) => ({ type: text(t.type), unit: text(t.unit) }));
	for (const { type, unit } of [types[0], types.at(-1)]) {
		await test(`${name}, ${type}: functions have their self and total in profiler-cli`, async () => {
			const out = join(work, 'out.firefox.json');
			convert('-q', path, '-o', out, '--sample-type', type);
			await withProfile(out, async () => assertSame(await cliSums(), pprofSums(profile, type, scales[unit] ?? 1)));
		});
	}
}

// Versions are taken and say the same.
if (inputs.length > 0) {
	const [, path] = inputs[inputs.length > 1 ? 1 : 0];
	const profile = decodePprof(path);
	const type = profile.stringTable.strings[Number(profile.sampleType[0].type)];
	const want = pprofSums(profile, type, 1);
	// Where tables look different, and the last before each.
	for (const version of [60, 61, 63, 64, 66, 69, 70, 71, 73, 74, 75]) {
		await test(`version ${version} is read as itself`, async () => {
			const out = join(work, 'out.firefox.json.gz');
			convert('-q', path, '-o', out, '--sample-type', type, '--format-version', String(version));
			assert.equal(JSON.parse(gunzipSync(readFileSync(out))).meta.preprocessedProfileVersion, version);
			await withProfile(out, async () => assertSame(await cliSums(), want));
		});
	}
	await test('other versions are refused, and nothing is written', () => {
		const out = join(work, 'never.firefox.json');
		const run = spawnSync(wick, ['convert', path, '-o', out, '--format-version', '59'], { encoding: 'utf8' });
		assert.equal(run.status, 1);
		assert.match(run.stderr, /version 59 .* choose 60 to 75/);
		assert.ok(!existsSync(out));
	});
}

// Reading. Files of old versions are made of what is written at 60, by undoing what each version brought
// (docs-developer/CHANGELOG-formats.md of Firefox Profiler); that profiler-cli upgrades them to the same sums says that they are right.
const undo = {
	60: (profile) => {
		const { stackTable, frameTable, funcTable, resourceTable, nativeSymbols, ...shared } = profile.shared;
		for (const thread of profile.threads) Object.assign(thread, structuredClone({ stackTable, frameTable, funcTable, resourceTable, nativeSymbols }));
		profile.shared = shared;
	},
	59: () => {},
	58: (profile) => {
		for (const { funcTable } of profile.threads) {
			funcTable.fileName = funcTable.source.map((source) => (source === null ? null : profile.shared.sources.filename[source]));
			delete funcTable.source;
		}
		delete profile.shared.sources;
	},
	57: () => {},
	56: (profile) => {
		for (const thread of profile.threads) thread.stringArray = profile.shared.stringArray;
		delete profile.shared;
	},
	55: () => {},
	54: (profile) => {
		for (const { frameTable } of profile.threads) frameTable.implementation = frameTable.category.map(() => null);
	},
	53: (profile) => {
		for (const { stackTable, frameTable } of profile.threads) {
			stackTable.category = stackTable.frame.map((frame) => frameTable.category[frame]);
			stackTable.subcategory = stackTable.frame.map(() => 0);
		}
	},
	52: () => {},
	51: () => {},
	50: (profile) => {
		// Only since 50 may times be differences; below, the other versions have them.
		for (const { samples } of profile.threads) {
			let now = 0;
			samples.time = samples.timeDeltas.map((delta) => (now += delta));
			delete samples.timeDeltas;
		}
	},
};
if (inputs.length > 0) {
	const out = join(work, 'old.firefox.json'),
		pprof = join(work, 'old.pb');
	const [, path] = inputs.find(([name]) => name.includes('cppbench.cpu')) ?? inputs[0];
	convert('-q', path, '-o', out, '--sample-type', 'cpu');
	const profile = JSON.parse(readFileSync(out, 'utf8'));
	const want = pprofSums(decodePprof(path), 'cpu', 1e6);
	for (const { samples } of profile.threads) {
		samples.timeDeltas = samples.time.map((time, i) => time - (i ? samples.time[i - 1] : 0));
		delete samples.time;
	}
	for (let version = 59; version >= 49; version--) {
		undo[version + 1](profile);
		profile.meta.preprocessedProfileVersion = version;
		if (![59, 57, 55, 53, 52, 49].includes(version)) continue;
		writeFileSync(out, JSON.stringify(profile));
		await test(`version ${version} is read as profiler-cli reads it`, async () => {
			convert('-q', out, '-o', pprof);
			assertSame(pprofSums(decodePprof(pprof), 'cpu', 1e6), want);
			await withProfile(out, async () => assertSame(await cliSums(), want));
		});
	}
	await test('there and back again: the same stacks, with lines, files and inlined calls', () => {
		for (const [name, from] of inputs) {
			const types = decodePprof(from),
				type = types.stringTable.strings[Number(types.sampleType[0].type)];
			const there = join(work, 'there.firefox.json.gz'),
				folded = [join(work, 'a.folded'), join(work, 'b.folded')];
			convert('-q', from, '-o', there, '--sample-type', type);
			convert('-q', from, '-o', folded[0], '--sample-type', type);
			convert('-q', there, '-o', folded[1]);
			assert.equal(readFileSync(folded[1], 'utf8'), readFileSync(folded[0], 'utf8'), name);
		}
	});
}
finish();
