// SPDX-License-Identifier: Apache-2.0
// wick annotate: what Firefox Profiler's own command line shows of profiles that got markers, against what is worked out here from both
// files; and that nothing else of the profile has changed.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { finish, temporaryDirectory, test, wick } from '../harness.mjs';
import { ask, cli, threadFunctions, threadList, withProfile } from '../profiler.mjs';

const work = temporaryDirectory();
const path = (name) => join(work, name);
let files = 0;
const write = (name, value) => (writeFileSync(path(name), typeof value === 'string' || Buffer.isBuffer(value) ? value : JSON.stringify(value)), path(name));
const run = (...args) => spawnSync(wick, ['annotate', ...args], { encoding: 'utf8' });
function annotate(profile, markers, ...options) {
	const out = path('out.firefox.json');
	const inputs = [markers].flat().flatMap((file) => ['--markers', file]);
	const result = run(profile, ...inputs, '-o', out, ...options);
	assert.equal(result.status, 0, result.stderr);
	return { out, profile: JSON.parse(readFileSync(out, 'utf8')), said: result.stderr };
}

// ---- a profile as samply makes it, of version 60 ----

const start = 1700000000000,
	boot = 5000 * 1e9;
const table = (rows, columns) => ({
	...Object.fromEntries(
		Object.entries(columns).map(([name, value]) => [name, Array.from({ length: rows }, (_, i) => (typeof value === 'function' ? value(i) : value))]),
	),
	length: rows,
});
const noMarkers = () => ({ data: [], name: [], startTime: [], endTime: [], phase: [], category: [], length: 0 });
function samples(times, stack) {
	return { stack: times.map(() => stack), time: times, weight: null, weightType: 'samples', threadCPUDelta: times.map(() => 1000), length: times.length };
}
const thread = (pid, tid, name, more = {}) => ({
	processType: 'default',
	processName: 'engine',
	processStartupTime: 0,
	processShutdownTime: null,
	registerTime: 0,
	unregisterTime: null,
	pausedRanges: [],
	name,
	isMainThread: pid === tid,
	pid: String(pid),
	tid,
	samples: samples([], 0),
	markers: noMarkers(),
	...more,
});
const every = (from, to, step = 100) => Array.from({ length: Math.floor((to - from) / step) + 1 }, (_, i) => from + i * step);
const names = ['main', 'work', 'wait', 'step', 'libengine.so'];
function samply() {
	return {
		meta: {
			interval: 100,
			startTime: start,
			startTimeAsClockMonotonicNanosecondsSinceBoot: boot,
			processType: 0,
			product: 'engine',
			oscpu: 'Linux',
			stackwalk: 1,
			version: 29,
			preprocessedProfileVersion: 60,
			symbolicated: true,
			usesOnlyOneStackType: true,
			sourceCodeIsNotOnSearchfox: true,
			initialVisibleThreads: [0],
			sampleUnits: { time: 'ms', eventDelay: 'ms', threadCPUDelta: 'µs' },
			categories: [
				{ name: 'Other', color: 'grey', subcategories: ['Other'] },
				{ name: 'User', color: 'yellow', subcategories: ['Other'] },
				{ name: 'Network', color: 'lightblue', subcategories: ['Other'] },
			],
			markerSchema: [{ name: 'Text', display: ['marker-table'], fields: [{ key: 'name', label: 'Details', format: 'string' }] }],
		},
		libs: [],
		shared: {
			stringArray: names,
			sources: { length: 0, uuid: [], filename: [] },
			resourceTable: table(0, { lib: 0, name: 0, host: 0, type: 0 }),
			nativeSymbols: table(0, { libIndex: 0, address: 0, name: 0, functionSize: 0 }),
			funcTable: table(3, { name: (i) => i, isJS: false, relevantForJS: false, resource: -1, source: null, lineNumber: null, columnNumber: null }),
			frameTable: table(3, {
				address: -1,
				inlineDepth: 0,
				category: 1,
				subcategory: 0,
				func: (i) => i,
				nativeSymbol: null,
				innerWindowID: 0,
				line: null,
				column: null,
			}),
			stackTable: table(3, { frame: (i) => i, prefix: (i) => (i ? 0 : null) }),
		},
		threads: [
			thread(100, 100, 'engine', { samples: samples(every(0, 10000), 1) }),
			thread(100, 101, 'worker-with-a-n', { samples: samples(every(0, 10000), 2) }),
		],
		pages: [],
		profilerOverhead: [],
		counters: [],
	};
}

// ---- markers as wick record writes them ----

const stepFields = [
	{ key: 'rows', label: 'Rows', format: 'integer' },
	{ key: 'operator', label: 'Operator', format: 'unique-string' },
];
const display = ['marker-chart', 'marker-table', 'timeline-overview'];
const schema = (name, fields) => ({ name, display, fields });
// threads: [{pid, tid, name, registerTime, markers: [[name, start, end, phase, category, data]]}]; texts are put into the table.
function recorded(threads, { meta = {}, schemas = [schema('step', stepFields)], categories = [], counters = [] } = {}) {
	const strings = [''];
	const string = (text) => (strings.includes(text) || strings.push(text), strings.indexOf(text));
	const isText = new Set(schemas.flatMap((s) => s.fields.filter((f) => /unique-string|flow-id/.test(f.format)).map((f) => f.key)));
	const profile = {
		meta: {
			interval: 1,
			startTime: start,
			processType: 0,
			product: 'engine',
			importedFrom: 'Wick',
			stackwalk: 1,
			version: 36,
			preprocessedProfileVersion: 60,
			symbolicated: true,
			categories: [{ name: 'Other', color: 'grey', subcategories: ['Other'] }, ...categories],
			markerSchema: schemas,
			...meta,
		},
		libs: [],
		pages: [],
		shared: {},
		counters,
		threads: [],
	};
	for (const { markers, ...rest } of threads) {
		const rows = noMarkers();
		for (const [name, from, to, phase, category, data] of markers) {
			(rows.name.push(string(name)),
				rows.startTime.push(from),
				rows.endTime.push(to),
				rows.phase.push(phase),
				rows.category.push(category ?? 0),
				rows.length++);
			rows.data.push(data ? Object.fromEntries(Object.entries(data).map(([key, value]) => [key, isText.has(key) ? string(value) : value])) : null);
		}
		profile.threads.push(thread(rest.pid, rest.tid, rest.name ?? 'engine', { ...rest, pid: String(rest.pid), markers: rows }));
	}
	profile.shared = { stringArray: strings };
	return profile;
}
const step = (rows, operator) => ({ type: 'step', rows, operator });

// All markers of a thread, readable, by the file as it is.
function markersOf(profile, thread) {
	const strings = thread.stringArray ?? profile.shared.stringArray,
		rows = thread.markers;
	const schemas = new Map(profile.meta.markerSchema.map((s) => [s.name, s]));
	for (const column of ['data', 'name', 'startTime', 'endTime', 'phase', 'category']) assert.equal(rows[column].length, rows.length, column);
	return rows.name.map((name, i) => {
		const data = rows.data[i] && { ...rows.data[i] };
		if (data) {
			assert.ok(schemas.has(data.type), `there is no schema ${data.type}`);
			for (const field of schemas.get(data.type).fields ?? schemas.get(data.type).data)
				if (/unique-string|flow-id/.test(field.format) && field.key in data) data[field.key] = strings[data[field.key]];
		}
		return {
			name: strings[name],
			start: rows.startTime[i],
			end: rows.endTime[i],
			phase: rows.phase[i],
			category: profile.meta.categories[rows.category[i]].name,
			data,
		};
	});
}
const marker = (name, start, end, phase, category, data) => ({ name, start, end, phase, category, data });
const find = (profile, tid) => profile.threads.find((t) => String(t.tid) === String(tid));
// What was there is there still, in its place.
function assertKept(before, after) {
	assert.deepEqual(
		{ ...after.meta, product: 0, categories: 0, markerSchema: 0, initialVisibleThreads: 0 },
		{ ...before.meta, product: 0, categories: 0, markerSchema: 0, initialVisibleThreads: 0 },
	);
	assert.deepEqual(after.meta.categories.slice(0, before.meta.categories.length), before.meta.categories);
	if (before.shared?.stringArray) assert.deepEqual(after.shared.stringArray.slice(0, before.shared.stringArray.length), before.shared.stringArray);
	assert.deepEqual({ ...after.shared, stringArray: 0 }, { ...before.shared, stringArray: 0 });
	for (const [i, old] of before.threads.entries()) {
		const changed = { name: 0, processName: 0, markers: 0, showMarkersInTimeline: 0, stringArray: 0 };
		assert.deepEqual({ ...after.threads[i], ...changed }, { ...old, ...changed });
		for (const column of Object.keys(old.markers))
			if (column !== 'length') assert.deepEqual(after.threads[i].markers[column].slice(0, old.markers.length), old.markers[column]);
	}
}
const cliMarkers = (thread) => ask('thread', 'markers', { thread });
async function assertOpens(out, counts) {
	await withProfile(out, async () => {
		const threads = await threadList();
		for (const [tid, count] of Object.entries(counts)) {
			const one = threads.find((t) => String(t.tid) === tid);
			assert.ok(one, `profiler-cli has no thread ${tid}`);
			assert.equal((await cliMarkers(one.threadHandle)).totalMarkerCount, count, `markers of ${tid}`);
		}
	});
}

await test('markers come to the threads of their pid and tid, with names, kinds, categories, and in profiler-cli', async () => {
	const before = samply();
	before.threads[1].markers = {
		data: [{ type: 'Text', name: 'old' }],
		name: [0],
		startTime: [5],
		endTime: [6],
		phase: [1],
		category: [1],
		length: 1,
		threadId: [7],
	};
	const base = write('base.json', before);
	const marks = write(
		'marks.json',
		recorded(
			[
				{
					pid: 100,
					tid: 100,
					name: 'engine',
					markers: [
						['step', 1000.5, 2000.000001, 1, 1, step(7, 'join')],
						['now', 3000, null, 0, 2, null],
					],
				},
				{
					pid: 100,
					tid: 101,
					name: 'worker-with-a-name-1',
					markers: [
						['wait', 10, 20, 1, 0, step(-1, 'it\'s "é"\n')],
						['work', 30, 40, 1, 3, step(2, 'join')],
					],
				},
			],
			{ categories: ['Engine', 'Network', 'Engine'].map((name) => ({ name, color: 'blue', subcategories: ['Other'] })) },
		),
	);
	const { out, profile, said } = annotate(base, marks, '--title', 'pipeline "7"');
	assertKept(before, profile);
	assert.deepEqual(markersOf(profile, find(profile, 100)), [
		marker('step', 1000.5, 2000.000001, 1, 'Engine', step(7, 'join')),
		marker('now', 3000, null, 0, 'Network', null),
	]);
	assert.deepEqual(markersOf(profile, find(profile, 101)), [
		marker('main', 5, 6, 1, 'User', { type: 'Text', name: 'old' }),
		marker('wait', 10, 20, 1, 'Other', step(-1, 'it\'s "é"\n')),
		marker('work', 30, 40, 1, 'Engine', step(2, 'join')),
	]);
	// Other columns get as many rows.
	assert.deepEqual(find(profile, 101).markers.threadId, [7, null, null]);
	assert.equal(find(profile, 101).name, 'worker-with-a-name-1');
	assert.equal(profile.meta.product, 'pipeline "7"');
	assert.deepEqual(
		profile.meta.categories.map((c) => c.name),
		['Other', 'User', 'Network', 'Engine'],
	);
	assert.equal(new Set(profile.shared.stringArray).size, profile.shared.stringArray.length);
	assert.deepEqual(profile.meta.initialVisibleThreads, [0, 1]);
	assert.ok(profile.threads.every((t) => t.showMarkersInTimeline));
	assert.match(said, /4 markers added to 2 threads, 0 of them new; .* 1 names completed/);
	await withProfile(out, async () => {
		const threads = await threadList();
		assert.deepEqual(threads.map((t) => t.name).sort(), ['engine', 'worker-with-a-name-1']);
		for (const [tid, want] of [
			[100, { work: 101 }],
			[101, { wait: 101 }],
		]) {
			const one = threads.find((t) => String(t.tid) === String(tid));
			for (const [name, count] of Object.entries(want))
				assert.equal((await threadFunctions(one.threadHandle)).find((f) => f.name === name)?.selfSamples, count);
		}
		const worker = threads.find((t) => t.name === 'worker-with-a-name-1');
		const text = JSON.stringify(await cliMarkers(worker.threadHandle));
		assert.match(text, /"wait"/);
		assert.match(text, /"work"/);
		assert.equal((await cliMarkers(worker.threadHandle)).totalMarkerCount, 3);
	});
});

// ---- versions ----

const undo = {
	60: (p) => {
		const { stackTable, frameTable, funcTable, resourceTable, nativeSymbols, ...shared } = p.shared;
		for (const t of p.threads) Object.assign(t, structuredClone({ stackTable, frameTable, funcTable, resourceTable, nativeSymbols }));
		p.shared = shared;
	},
	58: (p) => {
		for (const { funcTable } of p.threads) ((funcTable.fileName = funcTable.source.map(() => null)), delete funcTable.source);
		delete p.shared.sources;
	},
	56: (p) => {
		for (const t of p.threads) t.stringArray = [...p.shared.stringArray];
		delete p.shared;
	},
	55: (p) => p.meta.markerSchema.forEach((s) => ((s.data = s.fields), delete s.fields)),
	54: (p) => p.threads.forEach(({ frameTable }) => (frameTable.implementation = frameTable.category.map(() => null))),
	53: (p) => {
		for (const { stackTable, frameTable } of p.threads) {
			stackTable.category = stackTable.frame.map((frame) => frameTable.category[frame]);
			stackTable.subcategory = stackTable.frame.map(() => 0);
		}
	},
};
const twoThreads = () =>
	recorded(
		[
			{
				pid: 100,
				tid: 101,
				name: 'worker-with-a-name-1',
				markers: [
					['wait', 10, 20, 1, 1, step(1, 'join')],
					['other', 30, 40, 1, 0, step(2, 'main')],
				],
			},
			{ pid: 100, tid: 102, name: 'silent', registerTime: 5, markers: [['step', 100, 200, 1, 1, step(3, 'new')]] },
		],
		{ categories: [{ name: 'Engine', color: 'blue', subcategories: ['Other'] }] },
	);
const wanted = {
	101: [marker('wait', 10, 20, 1, 'Engine', step(1, 'join')), marker('other', 30, 40, 1, 'Other', step(2, 'main'))],
	102: [marker('step', 100, 200, 1, 'Engine', step(3, 'new'))],
};
{
	const before = samply();
	for (let version = 60; version >= 49; version--) {
		before.meta.preprocessedProfileVersion = version;
		const copy = structuredClone(before);
		await test(`version ${version}: opened by profiler-cli with markers of threads that it had and of one that it had not`, async () => {
			const { out, profile } = annotate(write('base.json', copy), write('marks.json', twoThreads()));
			assertKept(copy, profile);
			for (const [tid, want] of Object.entries(wanted)) assert.deepEqual(markersOf(profile, find(profile, tid)), want);
			assert.equal(profile.threads.length, 3);
			assert.equal(find(profile, 102).name, 'silent');
			assert.deepEqual(profile.meta.initialVisibleThreads, [0, 1, 2]);
			await assertOpens(out, { 101: 2, 102: 1 });
		});
		undo[version]?.(before);
	}
}
for (const version of [61, 64, 66, 70, 71, 74, 75])
	await test(`version ${version}: as wick writes it`, async () => {
		const base = path('newer.firefox.json');
		execFileSync(wick, ['convert', '-q', write('base.json', samply()), '-o', base, '--format-version', String(version)]);
		const { out, profile } = annotate(base, write('marks.json', twoThreads()));
		assertKept(JSON.parse(readFileSync(base, 'utf8')), profile);
		for (const [tid, want] of Object.entries(wanted)) assert.deepEqual(markersOf(profile, find(profile, tid)), want);
		await assertOpens(out, { 101: 2, 102: 1 });
	});

// ---- one number, several threads ----

await test('threads that had one tid one after the other keep their own markers', async () => {
	const before = samply();
	before.threads = [
		thread(100, 100, 'engine', { samples: samples(every(0, 10000), 1) }),
		thread(100, 7, 'first', { samples: samples(every(0, 3000), 1), registerTime: 0, unregisterTime: 3000 }),
		thread(100, 7, 'second', { tid: '7.1', samples: samples(every(5000, 10000), 1), registerTime: 5000 }),
	];
	const base = write('base.json', before);
	const marks = write(
		'marks.json',
		recorded([
			{ pid: 100, tid: 7, name: 'first', markers: [['a', 100, 200, 1, 0, step(1, 'x')]] },
			{ pid: 100, tid: '7.1', name: 'second', registerTime: 4990, markers: [['b', 6000, 6100, 1, 0, step(1, 'x')]] },
			{ pid: 100, tid: '7.2', name: 'third', registerTime: 9500, markers: [['c', 9600, 9700, 1, 0, step(1, 'x')]] },
			{ pid: 200, tid: 7, name: 'elsewhere', markers: [['d', 300, 400, 1, 0, step(1, 'x')]] },
		]),
	);
	const { out, profile } = annotate(base, marks);
	const byName = Object.fromEntries(
		profile.threads.map((t) => [
			t.name,
			markersOf(profile, t)
				.map((m) => m.name)
				.join(),
		]),
	);
	assert.deepEqual(byName, { engine: '', first: 'a', second: 'b', third: 'c', elsewhere: 'd' });
	assert.equal(new Set(profile.threads.map((t) => String(t.tid))).size, 5);
	await assertOpens(out, { 7: 1, 7.1: 1 });
});

await test('where the profile does not tell when threads began, their samples do', () => {
	const before = samply();
	before.threads = [thread(100, 7, 'later', { samples: samples(every(6000, 9000), 1) })];
	const base = write('base.json', before);
	const marks = write(
		'marks.json',
		recorded([
			{ pid: 100, tid: 7, name: 'early', markers: [['a', 6000, 6200, 1, 0, null]] },
			{ pid: 100, tid: '7.1', name: 'later', registerTime: 6500, markers: [['b', 7000, 8000, 1, 0, null]] },
		]),
	);
	const { profile } = annotate(base, marks);
	assert.deepEqual(
		profile.threads.map((t) =>
			markersOf(profile, t)
				.map((m) => m.name)
				.join(),
		),
		['b', 'a'],
	);
});

await test('by the tid alone only where it is the only one, and a pid is not told', () => {
	const before = samply();
	const base = write('base.json', before);
	const lines = write('some.txt', `${boot + 1e9} ${boot + 2e9} alone\n`);
	const one = annotate(base, lines, '--thread', '101').profile;
	assert.deepEqual(
		markersOf(one, one.threads[1]).map((m) => m.name),
		['alone'],
	);
	before.threads.push(thread(300, 101, 'other', { samples: samples([0], 1) }));
	const { profile } = annotate(write('base.json', before), lines, '--thread', '101');
	assert.equal(profile.threads.length, 4);
	assert.deepEqual(
		profile.threads.slice(0, 3).map((t) => t.markers.length),
		[0, 0, 0],
	);
});

// ---- time ----

await test('spans are cut to the profile, and what is before or after it is left out and counted', async () => {
	const marks = write(
		'marks.json',
		recorded([
			{
				pid: 100,
				tid: 101,
				markers: [
					['over', -50, 20000, 1, 0, null],
					['before', -50, -1, 1, 0, null],
					['after', 10001, 10002, 1, 0, null],
					['edge', 10000, 10001, 1, 0, null],
					['instant', -1, null, 0, 0, null],
					['begun', -100, null, 2, 0, null],
					['ended', null, 30000, 3, 0, null],
					['never', 10001, null, 2, 0, null],
					['gone', null, -5, 3, 0, null],
					['timeless', null, 5, 1, 0, null],
					['strange', 1, 2, 9, 0, null],
				],
			},
		]),
	);
	const { out, profile, said } = annotate(write('base.json', samply()), marks);
	assert.deepEqual(
		markersOf(profile, find(profile, 101)).map((m) => [m.name, m.start, m.end]),
		[
			['over', 0, 10000],
			['edge', 10000, 10000],
			['begun', 0, null],
			['ended', null, 10000],
		],
	);
	assert.match(said, /4 markers added/);
	assert.match(said, /4 markers cut/);
	assert.match(said, /5 markers dropped: before or after/);
	assert.match(said, /2 markers dropped: without a time/);
	await assertOpens(out, { 101: 4 });
});

await test('clocks: the monotonic one if both tell it, the wall clock otherwise, and an offset by hand', () => {
	const base = write('base.json', samply());
	const marks = (meta) => write('marks.json', recorded([{ pid: 100, tid: 101, markers: [['m', 1000, 1001, 1, 0, null]] }], { meta }));
	const at = (meta, ...options) => {
		const { profile } = annotate(base, marks(meta), ...options);
		return markersOf(profile, profile.threads[1])[0].start;
	};
	// The recorder began 250.000125 ms after the profile by the monotonic clock, 300 ms by the wall clock.
	const meta = { startTime: start + 300, startTimeAsClockMonotonicNanosecondsSinceBoot: boot + 250000125 };
	assert.equal(at(meta), 1250.000125);
	assert.equal(at(meta, '--clock', 'wall'), 1300);
	assert.equal(at({ startTime: start + 300 }), 1300);
	assert.equal(at({ startTime: start + 300 }, '--offset', '-299000001'), 1000.999999);
	// Another start of the machine: the monotonic clocks have nothing to do with each other.
	const other = { startTime: start, startTimeAsClockMonotonicNanosecondsSinceBoot: boot + 3600e9 };
	assert.equal(at(other), 1000);
	assert.match(annotate(base, marks(other)).said, /from another machine or boot/);
	const none = run(base, '--markers', marks({ startTime: start }), '--clock', 'monotonic', '-o', path('never.json'));
	assert.equal(none.status, 1);
	assert.match(none.stderr, /no clock in common/);
	assert.ok(!existsSync(path('never.json')));
});

await test("lines as samply reads them: by the file's name, of several files, a cut line counted", async () => {
	const line = (from, to, name) => `${boot + from * 1e6} ${boot + to * 1e6} ${name}\n`;
	const a = write('marker-100-101.txt', line(10, 20, 'read file') + line(15.5, 15.5, 'tick') + 'nonsense\n' + line(1, 2, 'cut').slice(0, -1));
	const b = write('marker-100.txt', line(100, 200, 'whole'));
	const { out, profile, said } = annotate(write('base.json', samply()), [a, b]);
	assert.deepEqual(
		markersOf(profile, find(profile, 101)).map((m) => [m.name, m.start, m.end, m.phase]),
		[
			['read file', 10, 20, 1],
			['tick', 15.5, null, 0],
		],
	);
	assert.deepEqual(
		markersOf(profile, find(profile, 100)).map((m) => m.name),
		['whole'],
	);
	assert.match(said, /2 markers dropped: .*malformed lines/);
	await assertOpens(out, { 100: 1, 101: 2 });
	const unknown = run(path('base.json'), '--markers', write('lines.txt', line(1, 2, 'x')), '-o', path('never.json'));
	assert.equal(unknown.status, 1);
	assert.match(unknown.stderr, /--thread PID:TID/);
});

// ---- kinds ----

await test('kinds of one name: joined where one has the fields of the other, else kept apart', async () => {
	const rows = { key: 'rows', label: 'Rows', format: 'integer' },
		flow = { key: 'flow', label: 'Flow', format: 'flow-id' };
	const before = samply();
	before.meta.markerSchema.push(schema('step', [rows]), schema('merge', [rows, flow]), schema('send', [{ ...rows, format: 'bytes' }]));
	before.threads[0].markers = {
		data: [
			{ type: 'step', rows: 1 },
			{ type: 'send', rows: 2 },
		],
		name: [3, 3],
		startTime: [5, 6],
		endTime: [6, 7],
		phase: [1, 1],
		category: [1, 1],
		length: 2,
	};
	const marks = (more) =>
		recorded(
			[
				{
					pid: 100,
					tid: 101,
					markers: [
						['s', 1, 2, 1, 0, { type: 'step', rows: 3, flow: 'abc' }],
						['m', 1, 2, 1, 0, { type: 'merge', rows: 4 }],
						['x', 1, 2, 1, 0, { type: 'send', rows: 5 }],
						...more,
					],
				},
			],
			{ schemas: [schema('step', [rows, flow]), schema('merge', [rows]), schema('send', [rows]), schema('unused', [rows])] },
		);
	const { out, profile } = annotate(write('base.json', before), [
		write('a.json', marks([])),
		write('b.json', marks([['y', 3, 4, 1, 0, { type: 'unused', rows: 6 }]])),
	]);
	assert.deepEqual(
		profile.meta.markerSchema.map((s) => [s.name, s.fields.map((f) => `${f.key}:${f.format}`).join()]),
		[
			['Text', 'name:string'],
			['step', 'rows:integer,flow:flow-id'],
			['merge', 'rows:integer,flow:flow-id'],
			['send', 'rows:bytes'],
			['send (2)', 'rows:integer'],
			['unused', 'rows:integer'],
		],
	);
	const got = markersOf(profile, find(profile, 101))
		.map((m) => m.data)
		.sort((x, y) => x.rows - y.rows);
	assert.deepEqual(got, [
		{ type: 'step', rows: 3, flow: 'abc' },
		{ type: 'step', rows: 3, flow: 'abc' },
		{ type: 'merge', rows: 4 },
		{ type: 'merge', rows: 4 },
		{ type: 'send (2)', rows: 5 },
		{ type: 'send (2)', rows: 5 },
		{ type: 'unused', rows: 6 },
	]);
	await assertOpens(out, { 100: 2, 101: 7 });
});

await test("counters come to the process's track, in the profile's time", async () => {
	const display = { graphType: 'line-accumulated', unit: 'bytes', color: 'orange', markerSchemaLocation: null, sortWeight: 1, label: 'queue', tooltipRows: [] };
	const counter = {
		name: 'queue',
		category: 'Memory',
		description: 'what waits',
		display,
		pid: '100',
		mainThreadIndex: 0,
		samples: { time: [-10, -5, 100, 200, 20000], count: [1, 2, 3, 4, 5], length: 5 },
	};
	const marks = recorded([{ pid: 100, tid: 101, markers: [['m', 1, 2, 1, 0, null]] }], { counters: [counter] });
	const before = samply();
	delete before.counters;
	const { out, profile } = annotate(write('base.json', before), write('marks.json', marks));
	// What it held before the profile began is in its first row.
	assert.deepEqual(
		profile.counters.map((c) => [c.name, c.pid, c.mainThreadIndex, c.samples]),
		[['queue', '100', 1, { time: [100, 200], count: [6, 4], length: 2 }]],
	);
	await withProfile(out, () => assert.match(cli('counter', 'list'), /queue/));
});

// ---- other inputs ----

await test('gzip in and out, meta at the end, and what is no Firefox profile', async () => {
	const { meta, ...rest } = samply();
	const marks = twoThreads();
	const base = write('base.json.gz', gzipSync(JSON.stringify({ ...rest, meta }))),
		turned = write('marks.json.gz', gzipSync(JSON.stringify({ threads: marks.threads, shared: marks.shared, meta: marks.meta })));
	const out = path('out.json.gz');
	assert.equal(run(base, '--markers', turned, '-o', out, '-q').stderr, '');
	const profile = JSON.parse(gunzipSync(readFileSync(out)));
	for (const [tid, want] of Object.entries(wanted)) assert.deepEqual(markersOf(profile, find(profile, tid)), want);
});

await test("a profile of another format is converted: what perf script prints, by the clock of the machine's start", async () => {
	const stack = (tid, seconds) => `engine 100/${tid} [000] ${seconds}: 1000000 cycles: \n\t4010 ${tid === 101 ? 'work' : 'main'}+0x10 (/opt/engine)\n\n`;
	const base = write('perf.txt', stack(100, '5000.000000') + stack(101, '5000.500000') + stack(101, '5002.000000'));
	const { out, profile } = annotate(base, write('marker-100-101.txt', `${boot + 1e9} ${boot + 1.5e9} batch\n`));
	assert.deepEqual(
		markersOf(profile, find(profile, 101)).map((m) => [m.name, m.start, m.end]),
		[['batch', 1000, 1500]],
	);
	await assertOpens(out, { 101: 1 });
	const folded = run(write('x.folded', 'main;work 5\n'), '--markers', path('marker-100-101.txt'), '-o', path('never.json'));
	assert.equal(folded.status, 1);
	assert.match(folded.stderr, /no clock in common/);
});

await test('what is no JSON, or malformed, is refused, and nothing is written', () => {
	const good = write('base.json', samply()),
		marks = write('marks.json', twoThreads()),
		text = readFileSync(good, 'utf8');
	const cases = [
		[write(`${files++}bad.json`, text.slice(0, -20)), marks, /bad.json: .*near byte/],
		[write(`${files++}bad.json`, text.replace('"length":101', '"length":1e')), marks, /near byte/],
		[write(`${files++}bad.json`, text.replace('"markers":{"data":[]', '"markers":{"data":[null]')), marks, /differ in length/],
		[write(`${files++}bad.json`, text.replace('"phase":[],', '')), marks, /is missing a column/],
		[write(`${files++}bad.json`, text.replace('Version":60', 'Version":48')), marks, /version 48/],
		[write(`${files++}bad.json`, text.replace('Version":60', 'Version":76')), marks, /version 76/],
		[good, write(`${files++}bad.json`, readFileSync(marks, 'utf8').replace('"phase":[1,1]', '"phase":[1]')), /bad.json: .*differ in length/],
		[good, write(`${files++}bad.json`, readFileSync(marks, 'utf8').slice(0, 500)), /bad.json: .*near byte/],
		[good, write(`${files++}bad.json`, '{"meta":{"preprocessedProfileVersion":49},"threads":[]}'), /versions 56 to 75/],
		[good, path('missing.json'), /missing.json.*No such file/],
		[write('bad.gz', gzipSync(text).subarray(0, 300)), marks, /corrupt|truncated/],
	];
	for (const [base, markers, pattern] of cases) {
		const result = run(base, '--markers', markers, '-o', path('never.json'));
		assert.equal(result.status, 1, `${pattern}`);
		assert.match(result.stderr, pattern);
		assert.ok(!existsSync(path('never.json')));
	}
});

await test('strings, categories and kinds that are not there do no harm', async () => {
	const marks = twoThreads();
	Object.assign(marks.threads[0].markers, {
		name: [99, -1],
		category: [77, null],
		data: [
			{ type: 'step', operator: 1e9, rows: 'text' },
			{ type: "nobody's", x: [{}] },
		],
	});
	const { out, profile } = annotate(write('base.json', samply()), write('marks.json', marks));
	assert.deepEqual(markersOf(profile, find(profile, 101)), [
		marker('', 10, 20, 1, 'Other', { type: 'step', rows: 'text' }),
		marker('', 30, 40, 1, 'Other', null),
	]);
	await assertOpens(out, { 101: 2 });
});
finish();
