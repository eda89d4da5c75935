// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { SeriesResponse, TableResponse } from '../src/api/responses';
import { changeOf, costRows, coveredMs, moversOf, sparkline, sumsOf, totalOf } from '../src/home/overview';

const table = (columns: string[], rows: (string | number | null)[][]): TableResponse => ({
	type: 't',
	unit: 'nanoseconds',
	from_ms: 0,
	to_ms: 1,
	partial: false,
	table: { columns: columns.map((name) => ({ name, kind: 'text', unit: '' })), total_rows: rows.length, rows },
});

const series: SeriesResponse = {
	type: 't',
	unit: 'nanoseconds',
	step_ms: 10,
	from_ms: 5,
	to_ms: 45,
	total_series: 3,
	series: [
		{ labels: { s: 'b' }, total: 5, points: [[10, 5]] },
		{
			labels: { s: 'a' },
			total: 30,
			points: [
				[10, 10],
				[30, 20],
			],
		},
		{ labels: {}, total: 65, points: [[10, 65]], others: true },
	],
};

test('rows of costs: order, share, what was before, and gaps only where nothing was measured at all', () => {
	const now = new Map([
		['b', 5],
		['a', 30],
		['c', 65],
	]);
	const day = sumsOf(table(['s', 'value', 'percent'], [['a', 15, 100]]));
	const rows = costRows(now, 2, { response: series, label: 's' }, day, null);
	assert.deepEqual(
		rows.map((row) => [row.key, row.value, row.share, row.day, row.week]),
		[
			['c', 65, 0.65, 0, null],
			['a', 30, 0.3, 15, null],
		],
	);
	// Whole steps within [5, 45): 10, 20, 30. Nothing was measured in 20; of c the course is not known.
	assert.deepEqual(
		rows.map((row) => row.trend),
		[[], [10, null, 20]],
	);
	assert.deepEqual(
		costRows(now, 9, null, null, null).map((row) => row.trend),
		[[], [], []],
	);
	assert.deepEqual(costRows(new Map(), 9, null, null, null), []);
});

test('sums of a table: none at all means that there is no data of then', () => {
	assert.equal(sumsOf(null), null);
	assert.equal(sumsOf(table(['s', 'value'], [])), null);
	const sums = sumsOf(
		table(
			['s', 'value'],
			[
				['a', 1],
				[null, 2],
				['c', null],
			],
		),
	)!;
	assert.deepEqual(
		[...sums],
		[
			['a', 1],
			['', 2],
			['c', 0],
		],
	);
	assert.equal(totalOf(sums), 3);
	assert.equal(totalOf(null), null);
});

test('a change is told by what it is to a person', () => {
	assert.deepEqual(changeOf(1, null), { kind: 'unknown' });
	assert.deepEqual(changeOf(1, 0), { kind: 'new' });
	assert.deepEqual(changeOf(0, 0), { kind: 'same' });
	assert.deepEqual(changeOf(1.001, 1), { kind: 'same' });
	assert.deepEqual(changeOf(3, 2), { kind: 'more', ratio: 0.5 });
	assert.deepEqual(changeOf(0, 2), { kind: 'less', ratio: -1 });
});

test('a course is a line with gaps', () => {
	assert.equal(sparkline([], 10, 10), '');
	assert.equal(sparkline([null, 3, null], 10, 10), '');
	assert.equal(sparkline([0, 5, null, 10, 10], 40, 10), 'M0.0 10.0L10.0 5.0M30.0 0.0L40.0 0.0');
	assert.equal(sparkline([0, 0], 10, 10), 'M0.0 10.0L10.0 10.0');
});

test('what changed most, from the table of a difference', () => {
	const response = table(
		['base_self', 'self', 'self_change', 'base_total', 'total', 'total_change', 'state', 'function', 'file', 'binary'],
		[
			[10, 30, 20, 0, 0, 0, '', 'f', 'f.c', 'app'],
			[0, 5, 5, 0, 0, 0, 'new', 'g', '', ''],
		],
	);
	assert.deepEqual(moversOf(response), [
		{ function: 'f', file: 'f.c', binary: 'app', before: 10, now: 30, state: '' },
		{ function: 'g', file: '', binary: '', before: 0, now: 5, state: 'new' },
	]);
	assert.deepEqual(moversOf(null), []);
	assert.deepEqual(moversOf(table(['value'], [[1]])), []);
});

test('a rate is over the time that there can be data of', () => {
	assert.equal(coveredMs(1000, 5000, 0), 4000);
	assert.equal(coveredMs(1000, 5000, 500), 4000);
	assert.equal(coveredMs(1000, 5000, 4000), 1000);
	assert.equal(coveredMs(1000, 5000, 9000), 4000, 'data that are all newer: nothing is known of this range');
	assert.equal(coveredMs(5000, 5000, 0), 1);
});
