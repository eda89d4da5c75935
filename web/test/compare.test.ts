// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { changeColor } from '../src/compare/colors';
import { figuresOf, formatRatio } from '../src/compare/figures';
import { seriesPath, seriesValues } from '../src/compare/lines';
import { changeBetween, compare, compareRows, countChanges, draw, pairOf, samplePeriod, sideOf, sortCompared } from '../src/compare/model';
import { CHANGE, type Side } from '../src/model/diff';
import {
	beforeOf,
	choicesOf,
	compareBefore,
	compareJustBefore,
	compareRanges,
	compareValue,
	durationOf,
	earlier,
	formatShift,
	swapped,
} from '../src/query/choice';
import { parseSelector } from '../src/query/selector';
import { formatCompare, NO_COMPARE, ORDERS, parseCompare, type CompareState } from '../src/state/compare';
import { DEFAULTS, formatState, parseState, parseTime, type PageState } from '../src/state/page';
import { buildTree, type Tree } from '../src/tree/tree';
import { functionOf, identOf, randomTree, stacksOf } from './trees';

const side = (tree: Tree, seconds = 60, period = 1): Side => ({ tree, seconds, period });
const TYPE = 'process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta';

// ---- what is compared --------------------

const choices = (search: string) => {
	const state = parseState(search);
	const head = parseSelector(state.q || TYPE);
	const typeOf = (type: string) => (type === '' || type === 'process_cpu' ? TYPE : type);
	return choicesOf(state, { ...head, type: typeOf(head.type) }, null, typeOf);
};

test('the base is a day before the head unless the URL says otherwise', () => {
	const plain = choices('?view=compare');
	assert.deepEqual([plain.base.from, plain.base.to, plain.head.from, plain.head.to], ['now-25h', 'now-1d', 'now-1h', 'now']);
	assert.equal(plain.base.query, plain.head.query);
	assert.ok(!plain.own && !plain.same && !plain.typesDiffer);

	const week = choices('?view=compare&before=7d&from=1700000000000&to=1700003600000');
	assert.deepEqual([week.base.from, week.base.to], ['1699395200000', '1699398800000']);
	const part = choices('?view=compare&before=1h&sel=1700000100000-1700000200000');
	assert.deepEqual([part.head.from, part.base.from, part.base.to], ['1700000100000', '1699996500000', '1699996600000']);
	const own = choices('?view=compare&before=1h&bfrom=now-3h&bto=now-2h');
	assert.deepEqual([own.base.from, own.base.to], ['now-3h', 'now-2h'], 'a range of its own wins');
	assert.equal(choices('?view=compare&bfrom=now-3h').base.from, 'now-25h', 'half a range is none');
});

test('a selector of the base is about the same time, and its type is told', () => {
	const pods = choices('?view=compare&q=process_cpu%7Bpod%3D%22a%22%7D&base=process_cpu%7Bpod!%3D%22a%22%7D');
	assert.deepEqual([pods.base.from, pods.base.to], ['now-1h', 'now']);
	assert.equal(pods.base.query, `${TYPE}{pod!="a"}`);
	assert.ok(pods.own && !pods.same);
	assert.ok(choices('?view=compare&base=memory:inuse_space').typesDiffer);
	assert.match(choices('?view=compare&base=%7Bpod').base.fault!, /column/);
	assert.equal(choices('?view=compare&base=%7Bpod%3D%22a%22%7D').base.selector.type, TYPE, 'without a type, the head has it');
});

test('equal sides are known as such', () => {
	assert.ok(choices('?view=compare&before=0').same);
	assert.ok(choices(`?view=compare&base=process_cpu`).same);
	assert.ok(!choices('?view=compare&before=1h').same);
});

test('times move by what they say, and relative ones stay relative', () => {
	const now = 1_700_000_000_000;
	for (const text of ['now', 'now-1h', 'now-1h30m', '-15m', 'now-1.5d', '1700000000', '1700000000123', '2023-11-14T22:13:20Z', '2023-11-14 12:00']) {
		for (const by of [0, 1, 1500, 60e3, 3600e3, 86400e3, 7 * 86400e3]) {
			const moved = earlier(text, by)!;
			assert.equal(parseTime(moved, now), parseTime(text, now)! - by, `${text} by ${by}: ${moved}`);
			assert.equal(moved.startsWith('now'), /^(now|-)/.test(text));
		}
	}
	assert.equal(earlier('soon', 5), null);
	for (const text of ['1d', '7d', '90m', '3600s', '1500ms']) assert.equal(durationOf(formatShift(durationOf(text))), durationOf(text));
	assert.deepEqual([formatShift(0), durationOf('0'), formatShift(5400e3), formatShift(1500)], ['0', 0, '90m', '1500ms']);
	assert.deepEqual([beforeOf(NO_COMPARE), beforeOf({ ...NO_COMPARE, base: 'x' }), beforeOf({ ...NO_COMPARE, base: 'x', before: '7d' })], ['1d', '0', '7d']);
});

test('swapped twice, the two sides are what they were', () => {
	for (const search of [
		'?view=compare',
		'?view=compare&before=0&q=process_cpu%7Bpod%3D%22a%22%7D&base=process_cpu%7Bpod!%3D%22a%22%7D',
		'?view=compare&bfrom=5&bto=now-2h&sel=1700000100000-1700000200000',
	]) {
		const state = parseState(search);
		const there = choices(search);
		const turned: PageState = { ...state, ...swapped(state, there) };
		const other = choices(formatState(turned));
		assert.deepEqual([other.base.query, other.base.from, other.base.to], [there.head.query, there.head.from, there.head.to]);
		assert.deepEqual([other.head.query, other.head.from, other.head.to], [there.base.query, there.base.from, there.base.to]);
	}
});

test('ways to a comparison', () => {
	const to = (patch: Partial<PageState>) => formatState({ ...DEFAULTS, ...patch });
	assert.equal(to(compareBefore('7d')), '?view=compare&before=7d');
	assert.equal(to(compareRanges({ from: 1, to: 5 }, { from: 5, to: 9 })), '?from=5&to=9&view=compare&bfrom=1&bto=5');
	const way = compareValue(parseSelector('cpu{host="h", pod!="b", pod=~"c.*"}'), 'pod', 'a"\\');
	assert.equal(way.q, 'cpu{host="h", pod="a\\"\\\\"}');
	assert.equal(way.compare.base, 'cpu{host="h", pod!="a\\"\\\\"}');
	assert.ok(way.compare.relative);
	const two = compareValue(parseSelector('cpu{version="2"}'), 'version', '2', '1');
	assert.deepEqual([two.q, two.compare.base], ['cpu{version="2"}', 'cpu{version="1"}']);
});

test('what the URL says of a comparison, however wrong, is one', () => {
	for (const text of ['before=1y', 'before=-1d', 'before=1d1h', 'bto=now', 'order=-', 'only=,,x', 'width=', 'show=all']) {
		const state = parseCompare(new URLSearchParams(text));
		assert.deepEqual({ ...state, reverse: false }, NO_COMPARE, text);
	}
	const state: CompareState = { ...NO_COMPARE, only: ['noise', 'new'], order: 'name', reverse: true };
	const params = new URLSearchParams();
	formatCompare(state, params);
	assert.deepEqual(parseCompare(params), state);
});

// ---- what is drawn --------------------

// By path: what a tree has of it.
function pathsOf(tree: Tree): Map<string, [self: number, total: number]> {
	const sums = new Map<string, [number, number]>();
	for (const { frames, value } of stacksOf(tree)) {
		for (let length = 1; length <= frames.length; length++) {
			const path = frames.slice(0, length).map(identOf).join(';');
			const sum = sums.get(path) ?? [0, 0];
			sums.set(path, [sum[0] + (length === frames.length ? value : 0), sum[1] + value]);
		}
	}
	return sums;
}

test('each side is drawn as it is, and every box is of the union', () => {
	for (let seed = 1; seed <= 40; seed++) {
		const [base, head] = [randomTree(seed), randomTree(seed + 1000)];
		const { diff } = compare(side(base), side(head), seed % 2 ? 'rate' : 'share');
		for (const [width, source] of [
			['base', base],
			['head', head],
		] as const) {
			const { tree, union, place } = draw(diff, width);
			assert.deepEqual(pathsOf(tree), pathsOf(source));
			assert.equal(tree.total[0], source.total[0]);
			for (let i = 1; i < tree.count; i++) {
				assert.equal(place[union[i]], i);
				assert.equal(union[tree.parent[i]], diff.tree.parent[union[i]]);
				assert.ok(tree.parent[i] < i && tree.end[i] > i && tree.end[i] <= tree.end[tree.parent[i]]);
				for (const column of ['name', 'file', 'binary'] as const) assert.equal(tree[column][i], diff.tree[column][union[i]]);
			}
			assert.equal(place.filter((node) => node >= 0).length, tree.count);
			// buildTree() is another way to the same order and places.
			const again = buildTree({ ...tree, total: 0, nodes: tree });
			assert.deepEqual([again.start, again.total, again.depth], [tree.start, tree.total, tree.depth]);
		}
		assert.equal(draw(diff, 'mean').tree, diff.tree);
	}
});

// ---- the table --------------------

test('rows say what became of each function, by self and by total', () => {
	for (let seed = 1; seed <= 20; seed++) {
		const [base, head] = [randomTree(seed), randomTree(seed + 500)];
		const of = compare(side(base, 60), side(head, 120), 'rate');
		const rows = compareRows(of);
		const wanted = new Map<string, number[]>();
		[base, head].forEach((tree, which) => {
			for (const { frames, value } of stacksOf(tree)) {
				for (const name of new Set(frames.map(functionOf))) {
					const sums = wanted.get(name) ?? [0, 0, 0, 0];
					wanted.set(name, sums);
					sums[2 * which + 1] += value;
					if (functionOf(frames[frames.length - 1]) === name) sums[2 * which] += value;
				}
			}
		});
		for (const row of rows) {
			if (row.kind === 7) continue;
			const own = [row.name, row.binary, row.file].join('|');
			assert.deepEqual([row.baseSelf, row.baseTotal, row.self, row.total], wanted.get(own), own);
			const { change } = pairOf(row, 'total');
			if (change === 'new') assert.equal(row.baseTotal, 0);
			if (change === 'gone') assert.equal(row.total, 0);
			if (change === 'more') assert.ok(row.total / 120 > row.baseTotal / 60);
			if (change === 'less') assert.ok(row.total / 120 < row.baseTotal / 60);
		}
		const counts = countChanges(rows, 'total');
		assert.equal(
			Object.values(counts).reduce((a, b) => a + b),
			rows.length,
		);
		for (const order of ORDERS) {
			const sorted = sortCompared(rows, of, 'self', order, false);
			assert.equal(new Set(sorted).size, rows.length);
			assert.deepEqual(
				sortCompared(rows.slice().reverse(), of, 'self', order, false).map((row) => row.name),
				sorted.map((row) => row.name),
			);
			const changes = sorted.map((row) => Math.abs(changeBetween(of, row.baseSelf, row.self).by));
			if (order === 'change') changes.forEach((change, i) => i > 0 && assert.ok(change <= changes[i - 1]));
		}
	}
});

test('changes are of rates or of shares, and only of what can be counted', () => {
	const tree = randomTree(3);
	const of = { base: side(tree, 10, 5), head: side(tree, 20, 5), mode: 'rate' as const };
	const changed = changeBetween(of, 100, 300);
	assert.deepEqual([changed.base, changed.head, changed.by, changed.ratio], [10, 15, 5, 0.5]);
	assert.ok(changed.interval!.low < 5 && changed.interval!.high > 5);
	assert.equal(changeBetween(of, 0, 300).ratio, Infinity);
	assert.equal(changeBetween(of, 0, 0).ratio, 0);
	assert.equal(changeBetween({ ...of, base: side(tree, 10, 0) }, 1, 2).interval, null);
	assert.equal(samplePeriod({ period: 1e7 }, { type: 'cpu', unit: 'nanoseconds' }), 1e7);
	assert.equal(samplePeriod({ period: 1e7 }, { type: 'samples', unit: 'count' }), 1);
	assert.equal(samplePeriod({ period: 524288 }, { type: 'inuse_space', unit: 'bytes' }), 0);
	const response = { type: 'cpu', period: 1e7, from_ms: 1000, to_ms: 61_000 } as never;
	assert.equal(sideOf(response, tree, TYPE).seconds, 60);
	assert.equal(sideOf(response, tree, TYPE).gauge, false);
	assert.equal(sideOf(response, tree, 'memory:inuse_space:bytes:space:bytes').gauge, true);
	// Averages of gauges stand beside each other whatever the lengths.
	const heap = (of: Side) => ({ ...of, gauge: true });
	const gauges = changeBetween({ base: heap(side(tree, 10, 0)), head: heap(side(tree, 3600, 0)), mode: 'rate' }, 100, 150);
	assert.deepEqual([gauges.base, gauges.head, gauges.ratio], [100, 150, 0.5]);
});

test('equal profiles have no change', () => {
	const tree = randomTree(11);
	for (const mode of ['rate', 'share'] as const) {
		const of = compare(side(tree), side(tree), mode);
		assert.ok(of.changes.every((change) => change === CHANGE.noise || change === CHANGE.unknown));
		assert.ok(compareRows(of).every((row) => row.selfChange === 'noise' || row.kind === 7));
	}
});

// ---- for people --------------------

test('figures: cores, values a second, shares', () => {
	const tree = buildTree({
		type: 'cpu',
		unit: 'nanoseconds',
		total: 0,
		samples: 2,
		strings: ['', 'f'],
		nodes: { parent: [0, 0], name: [0, 1], file: [0, 0], line: [0, 0], binary: [0, 0], kind: [0, 1], self: [0, 120e9] },
	});
	const of = (mode: 'rate' | 'share') => ({ base: side(tree, 60, 1e7), head: side(tree, 30, 1e7), mode });
	const rate = figuresOf(of('rate'), TYPE, 'nanoseconds');
	assert.deepEqual([rate.unit, rate.base(120e9), rate.head(120e9), rate.head(0)], ['cores', '2.00', '4.00', '0']);
	const more = rate.between(120e9, 120e9);
	assert.deepEqual([rate.change(more), formatRatio(more.ratio)], ['+2.00', '+100%']);
	assert.match(rate.interval(more), /^\+1\.9\d to \+2\.0\d$/);
	assert.match(rate.margin(more), /^± 0\.0\d+$/);
	const share = figuresOf(of('share'), TYPE, 'nanoseconds');
	assert.deepEqual([share.base(30e9), share.head(60e9), share.change(share.between(30e9, 60e9))], ['25.0%', '50.0%', '+25.0 points']);
	assert.equal(share.change(share.between(60e9, 30e9)), '−25.0 points');
	assert.equal(share.change(share.between(30e9, 30e9)), '0 points');
	const heap = figuresOf({ ...of('rate'), head: side(tree, 60, 0) }, 'memory:inuse_space:bytes:space:bytes', 'bytes');
	assert.deepEqual([heap.unit, heap.base(2048), heap.change(heap.between(1024, 4096)), heap.interval(heap.between(1, 2))], ['', '2.00 KiB', '+3.00 KiB', '']);
	const got = [0, 0.0001, 0.004, 0.5, -1, 9, 33, Infinity].map(formatRatio);
	assert.deepEqual(got, ['0%', '0%', '+0.4%', '+50%', '−100%', '+900%', '×34.0', '']);
});

test('a line has gaps where nothing was measured', () => {
	const response = {
		type: TYPE,
		unit: 'nanoseconds',
		step_ms: 10,
		from_ms: 100,
		to_ms: 150,
		total_series: 2,
		series: [
			{
				labels: {},
				total: 0,
				points: [
					[100, 4],
					[130, 2],
				] as [number, number][],
			},
			{
				labels: {},
				total: 0,
				points: [
					[130, 6],
					[990, 1],
				] as [number, number][],
			},
		],
	};
	const values = seriesValues(response);
	assert.deepEqual(values, [4, null, null, 8, null]);
	assert.equal(seriesPath(values, 8, 50, 100), 'M0.0 53.0H10.0M30.0 6.0H40.0');
	assert.equal(seriesPath(values, 0, 50, 100), '');
	assert.deepEqual(seriesValues({ ...response, step_ms: 0 }), []);
});

// ---- colours --------------------

const channels = (color: string) => [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16));
const linear = (c: number) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4);
const luminance = (color: string) => {
	const [r, g, b] = channels(color).map(linear);
	return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const contrast = (a: string, b: string) => {
	const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
	return (high + 0.05) / (low + 0.05);
};

test('names read on every colour, and more and less differ in blue, which everybody sees', () => {
	for (const [dark, text] of [
		[false, '#1f1b16'],
		[true, '#f4f1ec'],
	] as const) {
		for (const change of Object.values(CHANGE))
			for (let share = 0; share <= 1; share += 0.05) assert.ok(contrast(changeColor(change, share, dark), text) >= 4.5, `${change} ${share} ${dark}`);
		// Red-green blindness leaves the difference of blue and yellow: (r + g) / 2 against b.
		const yellow = (color: string) => {
			const [r, g, b] = channels(color);
			return (r + g) / 2 - b;
		};
		const noise = yellow(changeColor(CHANGE.noise, 0, dark));
		for (const share of [0.5, 1]) {
			assert.ok(yellow(changeColor(CHANGE.more, share, dark)) - noise > 25, `more ${share} ${dark}`);
			assert.ok(noise - yellow(changeColor(CHANGE.less, share, dark)) > 25, `less ${share} ${dark}`);
		}
	}
});

test('just before is as long as what is shown, and ends where that begins', () => {
	const of = (patch: Partial<PageState>, span?: { from: string; to: string }) => {
		const { base, head } = choicesOf(
			{ ...DEFAULTS, compare: { ...NO_COMPARE, before: 'length' }, ...patch },
			{ type: 't', matchers: [] },
			null,
			(t) => t,
			span,
		);
		return [base.from, base.to, head.from, head.to];
	};
	assert.deepEqual(of({ from: 'now-15m' }), ['now-30m', 'now-15m', 'now-15m', 'now']);
	assert.deepEqual(of({ from: 'now-2h', to: 'now-1h' }), ['now-3h', 'now-2h', 'now-2h', 'now-1h']);
	assert.deepEqual(of({ sel: { from: 1700000005000, to: 1700000007000 } }), ['1700000003000', '1700000005000', '1700000005000', '1700000007000']);
	assert.deepEqual(of({ from: '1700000100000', to: '1700000400000' }), ['1699999800000', '1700000100000', '1700000100000', '1700000400000']);
	const { base } = choicesOf({ ...DEFAULTS, from: 'x', compare: { ...NO_COMPARE, before: 'length' } }, { type: 't', matchers: [] }, null, (t) => t);
	assert.notEqual(base.fault, null, 'of what is no time');
});

test('where there are no data just before, the comparison is of what there is', () => {
	const now = 1_700_000_000_000;
	const hour = 3600_000;
	const range = { from: 'now-1h', to: 'now' };
	const plain = compareBefore('length');
	assert.deepEqual(compareJustBefore(DEFAULTS, range, null, now), plain);
	assert.deepEqual(compareJustBefore(DEFAULTS, range, now - 5 * hour, now), plain);
	assert.deepEqual(compareJustBefore(DEFAULTS, range, now - 2 * hour + 5000, now), plain, 'all but some seconds of it');
	// Three quarters of an hour before the hour.
	const part = compareJustBefore(DEFAULTS, range, now - 1.75 * hour, now);
	assert.deepEqual([part.compare.bfrom, part.compare.bto, part.sel], [String(now - 1.75 * hour), String(now - hour), undefined]);
	// Nothing, or next to nothing, before: the newer half beside the older one.
	for (const begin of [now - hour, now - 1.1 * hour]) {
		const halves = compareJustBefore(DEFAULTS, range, begin, now);
		assert.deepEqual([halves.sel, halves.compare.bfrom, halves.compare.bto], [{ from: now - hour / 2, to: now }, String(now - hour), String(now - hour / 2)]);
	}
	// Data begin in the middle of what was brushed.
	const sel = { from: now - 4000_000, to: now };
	const begun = compareJustBefore({ ...DEFAULTS, sel }, range, now - 2000_000, now);
	assert.deepEqual([begun.sel, begun.compare.bfrom], [{ from: now - 1000_000, to: now }, String(now - 2000_000)]);
});
