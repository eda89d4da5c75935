// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { buildHeatmap } from '../src/model/heatmap';
import { boxOf, cellAt, heatColors, moveCell, pictureOf, pictureSize, rowsWithin, SHADES, shadeOf } from '../src/timeline/heat';

const S = 1e9;
const times = [0, 0.05, 0.15, 1.95, 2.5].map((s) => s * S);
const map = buildHeatmap(times, [1, 3, 2, 4, 1], null, [0, 3 * S], 10);

test('colours go by lightness alone, which rises or falls without a turn', () => {
	const light = (color: string) => {
		const n = Number.parseInt(color.slice(1), 16);
		const part = (shift: number) => (((n >> shift) & 255) / 255) ** 2.2;
		return 0.2126 * part(16) + 0.7152 * part(8) + 0.0722 * part(0);
	};
	for (const dark of [false, true]) {
		const values = heatColors(dark).map(light);
		assert.equal(values.length, SHADES);
		for (let i = 1; i < values.length; i++) assert.ok(dark ? values[i] > values[i - 1] : values[i] < values[i - 1], `${dark} ${i}: ${values}`);
	}
});

test('what is little is not nothing', () => {
	assert.deepEqual([shadeOf(0, 10), shadeOf(1e-9, 10), shadeOf(10, 10), shadeOf(5, 0), shadeOf(Number.NaN, 10)], [0, 1, SHADES - 1, 0, 0]);
});

test('the picture has the first row at the bottom, and the most of the seconds that share a column', () => {
	const whole = pictureOf(map, 3);
	assert.equal(whole[9 * 3], SHADES - 1, 'two samples of 4 in the first tenth, at the bottom left');
	assert.equal(whole[8 * 3], shadeOf(2, 4));
	assert.equal(whole[0 * 3 + 1], SHADES - 1);
	assert.equal(whole.filter((shade) => shade > 0).length, 4);
	const narrow = pictureOf(map, 1);
	assert.deepEqual([narrow[9], narrow[8], narrow[0], narrow[4]], [SHADES - 1, shadeOf(2, 4), SHADES - 1, shadeOf(1, 4)]);
	assert.deepEqual(pictureSize(map, 400), { columns: 3, width: 96 });
	assert.deepEqual(pictureSize(map, 2), { columns: 2, width: 2 });
});

test('places become cells, and keys go from one to the next', () => {
	assert.deepEqual(cellAt(map, 0, 0.999), { column: 0, row: 0 });
	assert.deepEqual(cellAt(map, 0.5, 0.001), { column: 1, row: 9 });
	assert.deepEqual(cellAt(map, 7, -3), { column: 2, row: 9 });
	assert.deepEqual(moveCell(map, { column: 0, row: 9 }, 'ArrowUp'), { column: 1, row: 0 }, 'the next moment is in the next second');
	assert.deepEqual(moveCell(map, { column: 0, row: 0 }, 'ArrowLeft'), { column: 0, row: 0 });
	assert.deepEqual(moveCell(map, { column: 1, row: 4 }, 'ArrowRight'), { column: 2, row: 4 });
	assert.deepEqual(moveCell(map, { column: 1, row: 4 }, 'End'), { column: 2, row: 9 });
	assert.equal(moveCell(map, { column: 1, row: 4 }, 'x'), null);
	assert.equal(moveCell(buildHeatmap([], [], null, [0, 0]), { column: 0, row: 0 }, 'Home'), null);
});

test('of a range each column has its part', () => {
	assert.deepEqual(rowsWithin(map, 0, [0.2 * S, 1.3 * S]), [2, 10]);
	assert.deepEqual(rowsWithin(map, 1, [0.2 * S, 1.3 * S]), [0, 3]);
	assert.equal(rowsWithin(map, 2, [0.2 * S, 1.3 * S]), null);
	assert.deepEqual(rowsWithin(map, 1, [0.2 * S, 1.3 * S], [0.1 * S, 0.5 * S]), [1, 3]);
	assert.equal(rowsWithin(map, 1, [0.2 * S, 1.3 * S], [0.3 * S, 0.5 * S]), null);
});

test('a rectangle is the same part of each of some columns', () => {
	assert.deepEqual(boxOf(map, { column: 2, row: 3 }, { column: 1, row: 5 }, 3 * S), { range: [S, 3 * S], part: [0.3 * S, 0.6 * S] });
	assert.deepEqual(boxOf(map, { column: 0, row: 9 }, { column: 2, row: 0 }, 2.6 * S), { range: [0, 2.6 * S], part: null }, 'all of each');
});
