// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Series, SeriesResponse } from '../src/api/responses';
import { seriesScale } from '../src/base/format';
import { buildChart, ColorKeeper, legendRows, onlyShown, pickSeries, seriesId, stack, stepAt } from '../src/model/series';

const TYPE = 'process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta';
const T = 1_700_000_000_000; // a multiple of the step
const scale = seriesScale(TYPE, 'nanoseconds', 10_000);

function response(from: number, to: number, rows: Series[], total = rows.length): SeriesResponse {
	return {
		type: TYPE,
		unit: 'nanoseconds',
		step_ms: 10_000,
		from_ms: from,
		to_ms: to,
		series: rows,
		total_series: total,
	};
}
const row = (name: string, ...points: [number, number][]): Series => ({
	labels: name ? { l: name } : {},
	total: points.reduce((s, p) => s + p[1], 0),
	points: points.map(([i, v]) => [T + i * 10_000, v * 10e9]),
});

test('steps without any data are gaps, steps without data of one series are zero', () => {
	const chart = buildChart(response(T, T + 40_000, [row('a', [0, 1], [1, 2], [3, 1]), row('b', [1, 1])]), null, 'l', 10, scale, () => 0);
	assert.deepEqual(
		chart.times,
		[0, 1, 2, 3].map((i) => T / 1000 + i * 10),
	);
	assert.deepEqual(
		chart.series.map((s) => s.values),
		[
			[1, 2, null, 1],
			[0, 1, null, 0],
		],
	);
});

test('steps that lie partly outside the range are left out, unless they are all there is', () => {
	const part = response(T + 3_000, T + 34_000, [row('a', [0, 9], [1, 2], [2, 2], [3, 9])]);
	assert.deepEqual(buildChart(part, null, 'l', 10, scale, () => 0).series[0].values, [2, 2]);
	const first = response(T - 60_000, T + 4_000, [row('a', [0, 9])]);
	const chart = buildChart(first, null, 'l', 10, scale, () => 0);
	assert.equal(chart.series[0].values[chart.times.indexOf(T / 1000)], 9);
});

test('the step that data begin in is shown, though it began before the range', () => {
	const begun = response(T + 3_000, T + 34_000, [row('a', [0, 9], [1, 2], [2, 2], [3, 9])]);
	assert.deepEqual(buildChart(begun, null, 'l', 10, scale, () => 0, T + 3_456).series[0].values, [9, 2, 2]);
	assert.deepEqual(
		buildChart(begun, null, 'l', 10, scale, () => 0, T + 13_000).series[0].values,
		[2, 2],
		'a range that cuts a step in two, and has data later',
	);
});

test('what the drawn series leave of the total is the rest', () => {
	const drawn = response(T, T + 20_000, [row('a', [0, 3], [1, 1])], 5);
	const everything = response(T, T + 20_000, [row('', [0, 4], [1, 1])], 1);
	const chart = buildChart(drawn, everything, 'l', 10, scale, (key) => (key === 'a' ? 3 : 0));
	assert.deepEqual(
		chart.series.map((s) => [s.title, s.color, s.values]),
		[
			['a', 3, [3, 1]],
			['4 others', -1, [1, 0]],
		],
	);
	assert.equal(buildChart(drawn, null, 'l', 10, scale, () => 0).series.length, 1, 'unknown until everything is there');
});

test('rows beyond those drawn are the rest when the response has them all', () => {
	const rows = [row('a', [0, 3]), row('b', [0, 2]), row('c', [0, 1], [1, 1])];
	const chart = buildChart(response(T, T + 20_000, rows), null, 'l', 1, scale, () => 0);
	assert.deepEqual(
		chart.series.map((s) => [s.title, s.values]),
		[
			['a', [3, 0]],
			['2 others', [3, 1]],
		],
	);
});

test('a response without rows or range draws nothing', () => {
	assert.deepEqual(
		buildChart(response(0, 0, []), null, 'l', 10, scale, () => 0),
		{ times: [], stepMs: 10_000, series: [] },
	);
});

test('stacking adds each on those before it and keeps gaps', () => {
	const series = [
		[1, null, 3],
		[2, null, 4],
	].map((values, i) => ({ key: `${i}`, title: '', color: i, values }));
	assert.deepEqual(stack(series, 3), [
		[1, null, 3],
		[3, null, 7],
	]);
});

test('a colour stays with its value while that is in use', () => {
	const keeper = new ColorKeeper();
	keeper.assign(['a', 'b', 'c']);
	assert.deepEqual(
		['a', 'b', 'c'].map((k) => keeper.of(k)),
		[0, 1, 2],
	);
	keeper.assign(['c', 'd', 'a']);
	assert.deepEqual(
		['a', 'c', 'd', 'b'].map((k) => keeper.of(k)),
		[0, 2, 1, -1],
	);
});

test('the legend sums what is drawn, of all or of a selection', () => {
	const rows = [row('a', [0, 3], [1, 1], [2, 2]), row('b', [0, 1], [1, 1])];
	const chart = buildChart(response(T, T + 40_000, rows, 5), response(T, T + 40_000, [row('', [0, 5], [1, 3], [2, 2])]), 'l', 2, scale, () => 0);
	const all = legendRows(chart, scale, null);
	assert.deepEqual(
		all.map((r) => [r.id, r.total, r.share, r.peak]),
		[
			['=a', 60e9, 0.6, 3],
			['=b', 20e9, 0.2, 1],
			['rest', 20e9, 0.2, 1],
		],
	);
	assert.equal(all[0].mean, 2, 'of the three steps with data');
	const part = legendRows(chart, scale, { from: T + 10_000, to: T + 20_000 });
	assert.deepEqual(
		part.map((r) => [r.total, r.share]),
		[
			[10e9, 1 / 3],
			[10e9, 1 / 3],
			[10e9, 1 / 3],
		],
	);
	assert.deepEqual(
		legendRows(chart, scale, { from: T - 20_000, to: T }).map((r) => [r.total, r.mean, r.share]),
		Array.from({ length: 3 }, () => [0, 0, 0]),
	);
});

test('series are shown by id; ids that are not there show all', () => {
	const chart = buildChart(
		response(T, T + 20_000, [row('rest', [0, 3]), row('', [0, 1])], 3),
		response(T, T + 20_000, [row('', [0, 5])]),
		'l',
		2,
		scale,
		() => 0,
	);
	assert.deepEqual(chart.series.map(seriesId), ['=rest', '=', 'rest'], 'a value called "rest" is not the rest');
	assert.deepEqual(onlyShown(chart, ['rest', '=']).series.map(seriesId), ['=', 'rest']);
	assert.equal(onlyShown(chart, []), chart);
	assert.equal(onlyShown(chart, ['=gone']), chart);
});

test('a click in the legend shows one alone and all again, with Ctrl it adds and takes away', () => {
	const all = ['=a', '=b', '=c'];
	assert.deepEqual(pickSeries(all, [], '=b', true), ['=b']);
	assert.deepEqual(pickSeries(all, ['=b'], '=b', true), []);
	assert.deepEqual(pickSeries(all, ['=b'], '=c', true), ['=c']);
	assert.deepEqual(pickSeries(all, [], '=b', false), ['=a', '=c']);
	assert.deepEqual(pickSeries(all, ['=c'], '=a', false), ['=a', '=c'], 'in the order of the legend');
	assert.deepEqual(pickSeries(all, ['=a', '=c'], '=b', false), [], 'all of them are no choice');
	assert.deepEqual(pickSeries(all, ['=a'], '=a', false), [], 'none would be an empty graph');
	assert.deepEqual(pickSeries(all, ['=gone'], '=a', false), ['=b', '=c'], 'what is not there counts for nothing');
});

test('a time is in the step that began before it', () => {
	const chart = buildChart(response(T, T + 40_000, [row('a', [0, 1], [3, 1])]), null, 'l', 10, scale, () => 0);
	const at = (ms: number) => stepAt(chart, (T + ms) / 1000);
	assert.deepEqual([at(-1), at(0), at(9_999), at(10_000), at(39_000), at(40_001)], [null, 0, 0, 1, 3, null]);
	assert.equal(stepAt({ ...chart, times: [] }, T), null);
});
