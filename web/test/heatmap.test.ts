// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
	boxRanges,
	buildHeatmap,
	columnLength,
	HEATMAP_COLUMNS_MAX,
	HEATMAP_ROWS,
	pickInRanges,
	spanRange,
	type Cell,
	type TimeRange,
} from '../src/model/heatmap';
import { seeded } from './trees';

const SECOND = 1e9;

function samples(seed: number, count: number, from: number, to: number): { times: number[]; values: number[] } {
	const random = seeded(seed);
	const times = Array.from({ length: count }, () => Math.floor(from + random() * (to - from)));
	return { times, values: times.map(() => 1 + Math.floor(random() * 9)) };
}

test('a column is a second, a row a part of it', () => {
	const times = [0, 1, 19_999_999, 20_000_000, 999_999_999, SECOND, 2.5 * SECOND, 3 * SECOND, -1, NaN];
	const map = buildHeatmap(
		times,
		times.map(() => 2),
		null,
		[0, 3 * SECOND],
	);
	assert.deepEqual([map.columns, map.rows, map.cellNs, map.columnNs], [3, 50, 20e6, SECOND]);
	const filled = [...map.cells].flatMap((v, i) => (v > 0 ? [[Math.floor(i / 50), i % 50, v]] : []));
	assert.deepEqual(filled, [
		[0, 0, 6],
		[0, 1, 2],
		[0, 49, 2],
		[1, 0, 2],
		[2, 25, 2],
	]);
	assert.deepEqual([map.max, map.total, map.outside], [6, 14, 6]);
	const some = buildHeatmap(
		times,
		times.map(() => 2),
		Uint8Array.from(times, (_, i) => (i < 2 ? 1 : 0)),
		[0, 3 * SECOND],
	);
	assert.deepEqual([some.total, some.outside], [4, 0]);
});

test('a sample is in a cell exactly if it is in its range', () => {
	for (let seed = 1; seed <= 10; seed++) {
		for (const rows of HEATMAP_ROWS) {
			const start = seed * 123_456_789;
			const { times, values } = samples(seed, 300, start - SECOND, start + 5 * SECOND);
			// On the borders, and just before them.
			for (let k = 0; k < 4 * rows; k++) {
				times.push(start + (k * SECOND) / rows - (k % 2));
				values.push(1);
			}
			const map = buildHeatmap(times, values, null, [start, start + 4 * SECOND + 5], rows);
			let sum = 0;
			for (let column = 0; column < map.columns; column++) {
				for (let row = 0; row < rows; row++) {
					const [[from, to]] = spanRange(map, { column, row }, { column, row });
					const inside = values.filter((_, s) => times[s] >= from && times[s] < to && times[s] < start + 4 * SECOND + 5);
					assert.equal(
						map.cells[column * rows + row],
						inside.reduce((a, b) => a + b, 0),
					);
					sum += map.cells[column * rows + row];
				}
			}
			assert.equal(sum, map.total);
			assert.equal(
				map.total + map.outside,
				values.reduce((a, b) => a + b, 0),
			);
		}
	}
});

function sumOf(ranges: TimeRange[], times: number[], values: number[]): number {
	const picked = pickInRanges(times, ranges);
	return values.reduce((sum, value, s) => sum + (picked[s] ? value : 0), 0);
}

test('a choice of cells is the time of these cells', () => {
	const { times, values } = samples(3, 5000, 0, 20 * SECOND);
	const map = buildHeatmap(times, values, null, [0, 20 * SECOND], 20);
	const random = seeded(8);
	const any = (): Cell => ({ column: Math.floor(random() * 20), row: Math.floor(random() * 20) });
	for (let i = 0; i < 300; i++) {
		const [a, b] = [any(), any()];
		let [box, span] = [0, 0];
		for (let column = 0; column < 20; column++) {
			for (let row = 0; row < 20; row++) {
				const value = map.cells[column * 20 + row];
				const between = (v: number, x: number, y: number) => v >= Math.min(x, y) && v <= Math.max(x, y);
				if (between(column, a.column, b.column) && between(row, a.row, b.row)) box += value;
				if (between(column * 20 + row, a.column * 20 + a.row, b.column * 20 + b.row)) span += value;
			}
		}
		const ranges = boxRanges(map, a, b);
		assert.equal(sumOf(ranges, times, values), box);
		assert.equal(sumOf(spanRange(map, a, b), times, values), span);
		for (let k = 1; k < ranges.length; k++) assert.ok(ranges[k - 1][1] < ranges[k][0]);
	}
	assert.deepEqual(boxRanges(map, { column: 3, row: 0 }, { column: 2, row: 19 }), [[2 * SECOND, 4 * SECOND]]);
	assert.deepEqual(boxRanges(map, { column: -5, row: -1 }, { column: 99, row: 99 }), [[0, 20 * SECOND]]);
	assert.deepEqual(spanRange(map, { column: 99, row: 99 }, { column: 99, row: 99 }), [[19.95 * SECOND, 20 * SECOND]]);
});

test('ranges of nothing, of hours, and that are none', () => {
	assert.equal(columnLength(3600 * SECOND), SECOND);
	assert.equal(columnLength(3601 * SECOND), 2 * SECOND);
	for (const length of [1, 3600e9 + 1, 86400e9, 90 * 86400e9, Number.MAX_SAFE_INTEGER]) {
		for (const rows of HEATMAP_ROWS) {
			const map = buildHeatmap([0, length - 1, length], [1, 1, 1], null, [0, length], rows);
			assert.ok(map.columns <= HEATMAP_COLUMNS_MAX && map.columns * map.columnNs >= length);
			assert.equal(map.cellNs, Math.floor(map.cellNs));
			assert.deepEqual([map.total, map.outside], [2, 1]);
		}
	}
	for (const range of [
		[5, 5],
		[9, 5],
		[0, NaN],
		[0, Infinity],
		[-Infinity, 0],
		[0, 1e300],
	] as TimeRange[]) {
		const map = buildHeatmap([5], [1], null, range);
		assert.deepEqual([map.columns, map.total, map.max, map.outside], [0, 0, 0, 1]);
		assert.deepEqual(boxRanges(map, { column: 0, row: 0 }, { column: 1, row: 1 }), []);
		assert.deepEqual(spanRange(map, { column: 0, row: 0 }, { column: 1, row: 1 }), []);
	}
	assert.deepEqual([...pickInRanges([1, 2], [])], [0, 0]);
});
