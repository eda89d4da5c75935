// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { readReport } from '../src/api/report_data';
import { flowEnds, lostMarkers, lowerBound, readTimeline, valuesOf, type Timeline, type TimelineJson } from '../src/api/timeline_data';
import { axisLines, axisStep, placeTracks } from '../src/timeline/canvas';
import { narrowFlame, NO_SPAN, pickSamples } from '../src/timeline/narrow';
import { buildSpans, innermost, layRows, ROWS_MAX, samplesByTime } from '../src/timeline/spans';
import { fitTimeState, formatTimeState, parseTimeState, TIME_DEFAULTS } from '../src/timeline/state';
import { findMarkers, sortMarkers } from '../src/timeline/table';
import { extentOf, fieldsLine, formatMoment, hueOfCategory, lossesOf } from '../src/timeline/text';
import type { FlameJson } from '../src/tree/tree';
import { buildTree } from '../src/tree/tree';

// ---- writing columns, by the description in src/format/timeline.h --------------------

const number = (n: number): number[] => (n < 128 ? [n] : [(n % 128) + 128, ...number(Math.floor(n / 128))]);
const signed = (n: number): number[] => number(n < 0 ? -2 * n - 1 : 2 * n);
const column = (bytes: number[]): number[] => [...new Uint8Array(new Uint32Array([bytes.length]).buffer), ...bytes];
const differences = (rows: number[][]): number[] => rows.flatMap((r) => r.map((v, i) => v - (i ? r[i - 1] : 0))).flatMap(signed);
const double = (d: number): number[] => [...new Uint8Array(new Float64Array([d]).buffer)];

interface M {
	phase?: number; // 1 unless told
	start: number;
	end?: number;
	name?: number;
	category?: number;
	schema?: number;
	flow?: number;
	process?: boolean;
	values?: number[]; // bytes
}
interface Made {
	samples: { time: number; stack: number; value: number }[][]; // by thread
	markers: M[][];
}
const STRINGS = ['', 'step', 'parse', 'merge', 'Engine', 'rows', 'Rows', 'lost markers', 'a text'];
const NODES = [0, 0, 1, 1, 0]; // parents

function make({ samples, markers }: Made, groups = [1, 1, 2]): [TimelineJson, Uint8Array] {
	const [s, m] = [samples.flat(), markers.flat()];
	const json: TimelineJson = {
		start_ns: '1700000000000000000',
		length_ns: 1000,
		threads: samples.map((of, i) => ({
			name: `t${i}`,
			process: 'p',
			host: '',
			pid: groups[i],
			tid: i,
			samples: of.length,
			markers: markers[i].length,
		})),
		strings: STRINGS,
		categories: [
			[0, 0],
			[4, 0],
		],
		schemas: [
			{ name: 0, fields: [] },
			{
				name: 1,
				fields: [
					[5, 6, 1],
					[3, 0, 2],
				],
			},
			{ name: 7, fields: [[5, 0, 1]] },
		],
		stacks: 3,
		samples: s.length,
		markers: m.length,
		samples_out: 0,
		markers_out: 0,
		until_ns: 0,
	};
	const bytes = [
		column(differences(samples.map((of) => of.map(({ time }) => time + 1)))),
		column(s.flatMap(({ stack }) => number(stack))),
		column(s.flatMap(({ value }) => signed(value))),
		column([2, 3, 4]), // stack 0 ends in node 2, ...
		column(m.flatMap(({ schema = 0 }) => number(schema))),
		column(m.flatMap(({ name = 1 }) => number(name))),
		column(m.flatMap(({ category = 0 }) => number(category))),
		column(m.map(({ phase = 1, process = false }) => phase + (process ? 8 : 0))),
		column(differences(markers.map((of) => of.map((one) => one.start)))),
		column(m.flatMap(({ start, end, phase = 1 }) => number(phase === 1 ? (end ?? start) - start : 0))),
		column(m.flatMap(({ flow = 0 }) => number(flow))),
		column(m.flatMap(({ values = [] }) => values)),
	].flat();
	return [json, Uint8Array.from(bytes)];
}
const read = (made: Made, groups?: number[]): Timeline => {
	const [json, bytes] = make(made, groups);
	return readTimeline(json, bytes, [NODES.length]);
};

const flame: FlameJson = {
	type: 'cpu',
	unit: 'nanoseconds',
	total: 0,
	samples: 0,
	strings: ['total', 'main', 'a', 'b', 'c', ''],
	nodes: {
		parent: NODES,
		name: [0, 1, 2, 3, 4],
		file: [5, 5, 5, 5, 5],
		line: [0, 0, 0, 0, 0],
		binary: [5, 5, 5, 5, 5],
		kind: [0, 1, 1, 1, 1],
		total: [0, 0, 0, 0, 0],
		self: [0, 0, 0, 0, 0],
	},
};

let seed = 1;
const below = (n: number): number => {
	seed = (Math.imul(seed, 1103515245) + 12345) >>> 0;
	return (seed >>> 8) % n;
};

function random(): Made {
	const by = <T>(count: number, one: () => T): T[] => Array.from({ length: count }, one);
	return {
		samples: by(3, () => by(below(40), () => ({ time: below(8) ? below(1000) : -1, stack: below(3), value: below(5) })).sort((a, b) => a.time - b.time)),
		markers: by(3, () =>
			by(below(30), () => {
				const start = below(1000);
				return { start, end: start + below(200), name: 1 + below(3), phase: below(2) ? 1 : below(4), process: below(4) === 0 };
			}).sort((a, b) => a.start - b.start || b.end - a.end),
		),
	};
}

// ---- reading --------------------

test('what is left out of a page is said', () => {
	const [json, bytes] = make({ samples: [[{ time: 5, stack: 0, value: 1 }], [], []], markers: [[], [], []] });
	const of = (more: Partial<TimelineJson>, lost = 0) => lossesOf(readTimeline({ ...json, ...more }, bytes, [NODES.length]), lost).join('; ');
	assert.equal(of({}), '');
	assert.match(of({ samples_out: 7, until_ns: 400 }), /^the timeline shows 1 samples .* up to .*; 7 later samples and 0 later markers/);
	assert.match(of({ untimed_out: 3 }, 2), /^2 markers were lost.*; 3 samples without a timestamp are not on the timeline/);
	assert.doesNotMatch(of({ untimed_out: 3 }), /later/);
});

test('columns come back as they were written', () => {
	const t = read({
		samples: [
			[
				{ time: 5, stack: 2, value: -3 },
				{ time: 2 ** 40, stack: 0, value: 2 ** 45 },
			],
			[],
			[{ time: -1, stack: 1, value: 7 }],
		],
		markers: [
			[
				{ start: 10, end: 30, schema: 1, category: 1, flow: 2, values: [2, ...signed(-300), 3, ...double(0.5)] },
				{ start: 20, phase: 0, schema: 1, values: [0, 1, ...number(8)] },
			],
			[{ start: 3, phase: 0, schema: 2, values: [2, ...signed(17)] }],
			[],
		],
	});
	assert.deepEqual([...t.time], [5, 2 ** 40, -1]);
	assert.deepEqual([...t.stack], [2, 0, 1]);
	assert.deepEqual([...t.types[0].values], [-3, 2 ** 45, 7]);
	assert.deepEqual([...t.thread], [0, 0, 1]);
	assert.deepEqual([...t.start], [10, 20, 3]);
	assert.deepEqual([...t.duration], [20, 0, 0]);
	assert.deepEqual(valuesOf(t, 0), [-300, 0.5]);
	assert.deepEqual(valuesOf(t, 1), [null, 'a text']);
	assert.equal(flowEnds(t, 0), false);
	assert.equal(lostMarkers(t), 17);
	assert.equal(fieldsLine(t, 0), 'Rows -300, merge 0.50');
	assert.equal(t.threads[2].group, 2);
	assert.equal(t.threads[1].group, 0);
});

test('a time line goes with its report', async () => {
	const [timeline, bytes] = make({ samples: [[{ time: 1, stack: 0, value: 1 }], [], []], markers: [[], [], []] });
	const data = { title: 't', time_ms: 0, shown: 0, types: [{ period: 0, unresolved: 0, flame }], timeline };
	const pack = (b: string | Uint8Array) => gzipSync(b).toString('base64');
	const report = await readReport(pack(JSON.stringify(data)), pack(bytes));
	assert.equal(report.timeline?.sampleCount, 1);
	assert.equal((await readReport(pack(JSON.stringify(data)))).timeline, null);
});

test('what is cut short or names what is not there is refused', () => {
	const [json, bytes] = make({
		samples: [[{ time: 1, stack: 1, value: 1 }], [], []],
		markers: [[{ start: 1, end: 2, schema: 1, values: [1, 8, 0] }], [], []],
	});
	readTimeline(json, bytes, [5]);
	for (let cut = 0; cut < bytes.length; cut++) assert.throws(() => readTimeline(json, bytes.subarray(0, cut), [5]), `${cut}`);
	assert.throws(() => readTimeline(json, bytes, [4]), /node/);
	assert.throws(() => readTimeline({ ...json, strings: STRINGS.slice(0, 8) }, bytes, [5]), /text/);
	assert.throws(() => readTimeline({ ...json, strings: [''] }, bytes, [5]), /name/);
	assert.throws(() => readTimeline({ ...json, stacks: 1 }, bytes, [5]), /stack/);
	assert.throws(() => readTimeline({ ...json, schemas: json.schemas.slice(0, 1) }, bytes, [5]), /schema/);
	assert.throws(() => readTimeline({ ...json, samples: 2 }, bytes, [5]), /do not match/);
	assert.throws(() => readTimeline({ ...json, markers: 1e12 }, bytes, [5]));
	assert.throws(() => readTimeline({ ...json, threads: null as never }, bytes, [5]));
});

test('any bytes are read or refused, and nothing else', () => {
	const [json, bytes] = make(random());
	for (let round = 0; round < 2000; round++) {
		const bad = bytes.slice();
		for (let i = 0; i <= below(4); i++) bad[below(bad.length)] = below(256);
		try {
			const t = readTimeline(json, bad, [5]);
			for (let m = 0; m < t.markerCount; m++) valuesOf(t, m);
			layRows(t, buildSpans(t));
		} catch (error) {
			assert.ok(error instanceof Error && !(error instanceof TypeError), String(error));
		}
	}
});

// ---- spans --------------------

interface Extent {
	start: number;
	end: number;
	marker: number;
	thread: number;
	process: boolean;
}

// Every span, found without any order: partners are counted like brackets.
function allSpans(t: Timeline, made: Made): Extent[] {
	const flat = made.markers.flatMap((of, thread) => of.map((m) => ({ ...m, thread })));
	const group = (i: number) => t.threads[flat[i].thread].group;
	const edges = flat.map((_, i) => i).filter((i) => (flat[i].phase ?? 1) >= 2);
	edges.sort((a, b) => flat[a].start - flat[b].start || flat[a].phase! - flat[b].phase! || a - b);
	const out: Extent[] = [];
	flat.forEach((m, i) => {
		if ((m.phase ?? 1) === 1) out.push({ start: m.start, end: m.end!, marker: i, thread: m.thread, process: m.process! });
	});
	const open: number[] = [];
	for (const i of edges) {
		if (flat[i].phase === 2) {
			open.push(i);
			continue;
		}
		const at = open.map((k) => group(k) === group(i) && flat[k].name === flat[i].name).lastIndexOf(true);
		const start = at < 0 ? -1 : open.splice(at, 1)[0];
		out.push({ start: start < 0 ? -Infinity : flat[start].start, end: flat[i].start, marker: start < 0 ? i : start, thread: flat[i].thread, process: true });
	}
	for (const i of open) out.push({ start: flat[i].start, end: Infinity, marker: i, thread: flat[i].thread, process: true });
	return out;
}

test('the innermost span of each sample is what looking at all of them finds', () => {
	let inside = 0;
	for (let round = 0; round < 300; round++) {
		const made = random();
		const t = read(made);
		const spans = buildSpans(t);
		const all = allSpans(t, made);
		assert.equal(spans.count, all.length);
		const wanted = round % 2 ? 1 + (round % 3) : 0;
		const found = innermost(t, spans, wanted ? (s) => t.name[spans.marker[s]] === wanted : null);
		for (let s = 0; s < t.sampleCount; s++) {
			const thread = t.threads.findIndex((one) => s < one.sampleEnd);
			const of = all.filter(
				(e) =>
					t.time[s] >= 0 &&
					e.start <= t.time[s] &&
					t.time[s] < e.end &&
					(!wanted || t.name[e.marker] === wanted) &&
					(e.process ? t.threads[e.thread].group === t.threads[thread].group : e.thread === thread),
			);
			of.sort((a, b) => b.start - a.start || a.end - b.end || b.marker - a.marker);
			assert.equal(found[s] < 0 ? -1 : spans.marker[found[s]], of[0]?.marker ?? -1, `round ${round}, sample ${s}`);
			inside += of.length > 0 ? 1 : 0;
		}
	}
	assert.ok(inside > 1000);
});

test('samples of all threads in the order of time', () => {
	const t = read(random());
	const order = samplesByTime(t);
	assert.deepEqual(
		[...order].map((s) => t.time[s]),
		[...t.time].filter((time) => time >= 0).sort((a, b) => a - b),
	);
});

test('spans of a row do not overlap, and none is missing', () => {
	for (let round = 0; round < 50; round++) {
		const t = read(random());
		const spans = buildSpans(t);
		const rows = layRows(t, spans);
		let seen = 0;
		for (const { rows: own, deeper } of rows) {
			assert.ok(own.length <= ROWS_MAX);
			for (const row of own) row.forEach((s, i) => assert.ok(i === 0 || spans.end[row[i - 1]] <= spans.start[s]));
			seen += own.reduce((n, row) => n + row.length, deeper);
		}
		assert.equal(seen, spans.count);
		const tracks = placeTracks(t, rows, () => true, false);
		tracks.forEach((track, i) => assert.equal(track.y, i ? tracks[i - 1].y + tracks[i - 1].height : 0));
	}
});

// ---- narrowing --------------------

test('the graph of a part has the values of its samples', () => {
	for (let round = 0; round < 100; round++) {
		const made = random();
		const t = read(made);
		const spans = buildSpans(t);
		const range: [number, number] | null = round % 3 ? [below(500), 500 + below(500)] : null;
		const threads = round % 2 ? [below(3)] : [];
		const picked = pickSamples(t, { threads, range, during: '', bySpan: false }, null);
		const inSpan = innermost(t, spans, null);
		let total = 0;
		const byName = new Map<string, number>();
		const byNode = new Map<string, number>();
		made.samples.forEach((of, thread) =>
			of.forEach((one, i) => {
				if (threads.length && !threads.includes(thread)) return;
				if (range && !(one.time >= range[0] && one.time < range[1])) return;
				const span = inSpan[t.threads[thread].sampleFirst + i];
				const name = span < 0 ? NO_SPAN : STRINGS[t.name[spans.marker[span]]];
				total += one.value;
				byName.set(name, (byName.get(name) ?? 0) + one.value);
				const node = 'abc'[one.stack];
				byNode.set(node, (byNode.get(node) ?? 0) + one.value);
			}),
		);
		const plain = buildTree(narrowFlame(flame, t, 0, picked, null).flame);
		assert.equal(plain.total[0], total);
		for (let i = 1; i < plain.count; i++) {
			assert.ok(plain.total[i] > 0);
			if (plain.self[i] > 0) assert.equal(plain.self[i], byNode.get(plain.strings[plain.name[i]]));
		}
		const grouped = buildTree(narrowFlame(flame, t, 0, picked, { spans, inSpan }).flame);
		assert.equal(grouped.total[0], total);
		for (let i = 1; i < grouped.count; i = grouped.end[i]) assert.equal(grouped.total[i], byName.get(grouped.strings[grouped.name[i]]));
	}
});

// ---- the table and the state --------------------

test('the table finds and sorts', () => {
	const t = read({
		samples: [[], [], []],
		markers: [
			[
				{ start: 10, end: 90, name: 1 },
				{ start: 20, end: 30, name: 2, category: 1 },
				{ start: 40, phase: 0, name: 3 },
			],
			[{ start: 5, end: 95, name: 3, schema: 1, values: [1, 8, 0] }],
			[
				{ start: 7, phase: 2, name: 2 },
				{ start: 9, phase: 3, name: 2 },
			],
		],
	});
	const spans = buildSpans(t);
	const find = (state: Parameters<typeof findMarkers>[2], text: string) => [...findMarkers(t, spans, state, text)];
	const all = { threads: [], range: null };
	assert.deepEqual(find(all, ''), [0, 1, 2, 3, 4]); // the end of 4 is not one more
	assert.deepEqual(find(all, 'PARSE'), [1, 4]);
	assert.deepEqual(find(all, 'engine'), [1]);
	assert.deepEqual(find(all, 'a text'), [3]);
	assert.deepEqual(find({ threads: [1], range: null }, ''), [3]);
	assert.deepEqual(find({ threads: [], range: [30, 40] }, ''), [0, 3]);
	assert.deepEqual(extentOf(t, spans, 4), [7, 9]);
	const sort = (...how: [Parameters<typeof sortMarkers>[3], boolean]) => [...sortMarkers(t, spans, findMarkers(t, spans, all, ''), ...how)];
	assert.deepEqual(sort('start', false), [3, 4, 0, 1, 2]);
	assert.deepEqual(sort('duration', false), [3, 0, 1, 4, 2]);
	assert.deepEqual(sort('name', false), [2, 3, 1, 4, 0]);
	assert.deepEqual(sort('thread', true), [4, 3, 2, 1, 0]);
});

test('the state survives the URL, and nonsense does not', () => {
	const state = {
		...TIME_DEFAULTS,
		type: 1,
		threads: [0, 17],
		range: [5, 9] as [number, number],
		during: 'a&b=c #d',
		bySpan: true,
		marker: 3,
		view: [0, 100] as [number, number],
		table: true,
		mfind: 'x y',
		msort: 'duration' as const,
		mreverse: true,
		folded: true,
	};
	assert.deepEqual(parseTimeState('#' + formatTimeState(state)), state);
	assert.equal(formatTimeState(TIME_DEFAULTS), '');
	assert.deepEqual(parseTimeState('#t=9-5&threads=a.b&marker=-1&type=x&msort=y&group=z'), TIME_DEFAULTS);
	const small = { length: 6, markerCount: 3, threads: [1, 2] };
	assert.deepEqual(fitTimeState(state, small), { ...state, threads: [0], marker: -1 });
	assert.deepEqual(fitTimeState({ ...state, range: [6, 7] }, small).range, null);
	assert.equal(fitTimeState(state, { length: 10, markerCount: 9, threads: Array(18) }).threads, state.threads);
});

test('moments and lines of the axis', () => {
	assert.equal(formatMoment(1.5e9, 1e9), '2 s');
	assert.equal(formatMoment(1234567, 1e3), '0.001235 s');
	assert.equal(axisStep(1e9, 1000), 1e8);
	assert.ok(axisStep(1, 1000) >= 1);
	assert.deepEqual(axisLines([95, 300], 100), [100, 200]);
	assert.equal(axisLines([2 ** 53 - 2, 2 ** 53 + 8], 1).length, 10); // and come to an end
	assert.equal(lowerBound([1, 3, 3, 5], 3, 0, 4), 1);
	assert.equal(lowerBound([1, 3], 9, 0, 2), 2);
});

test('colours of categories are names that are known, or are made', () => {
	const hues = (color: string) => hueOfCategory({ categories: [{ name: 'a', color }] } as Timeline, 0);
	assert.deepEqual(hues('green'), { hue: 150, chroma: 0.095 });
	for (const color of ['constructor', '__proto__', 'mauve']) assert.equal(typeof hues(color).hue, 'number', color);
});
