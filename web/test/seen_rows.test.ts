// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HEIGHT_MAX, scrollTo, seenRows } from '../src/ui/seen_rows';

const [ROW, HEIGHT] = [26, 400];

test('rows in view are drawn wherever a table is scrolled to', () => {
	for (const count of [0, 1, 15, 16, 1000, 200_000, 1_000_000, 50_000_000]) {
		const { bodyHeight } = seenRows(count, ROW, 0, HEIGHT);
		assert.ok(bodyHeight <= HEIGHT_MAX);
		const end = Math.max(0, bodyHeight - HEIGHT);
		for (let i = 0; i <= 100; i++) {
			const top = (end * i) / 100;
			const { first, last, shift } = seenRows(count, ROW, top, HEIGHT);
			assert.ok(first >= 0 && last <= count && first <= last && last - first < 40, `${count} rows at ${top}: ${first} to ${last}`);
			assert.ok(first === 0 || first * ROW - shift <= top, `${count} rows at ${top}: a gap above`);
			assert.ok(last === count || last * ROW - shift >= top + HEIGHT, `${count} rows at ${top}: a gap below`);
		}
		const { last, shift } = seenRows(count, ROW, end, HEIGHT);
		assert.equal(last, count, 'the end of the scroll bar is the last row');
		assert.ok(Math.abs(count * ROW - shift - bodyHeight) < 0.1, 'which is at the foot of the body');
	}
});

test('the next row is brought into view, and one that is in view moves nothing', () => {
	for (const count of [200, 1_000_000]) {
		const { scale, bodyHeight } = seenRows(count, ROW, 0, HEIGHT);
		for (const row of [0, 1, 15, 100, count - 2, count - 1]) {
			for (const from of [0, (bodyHeight - HEIGHT) / 2, bodyHeight - HEIGHT]) {
				const top = scrollTo(row, ROW, from, HEIGHT, scale);
				const { first, last, shift } = seenRows(count, ROW, top, HEIGHT);
				assert.ok(row >= first && row < last, `row ${row} of ${count}`);
				const at = row * ROW - shift; // in the body, which begins below the head
				assert.ok(at >= top - 0.1 && at + ROW <= top + HEIGHT - ROW + 0.1, `row ${row} of ${count}: at ${at} of ${top}`);
				assert.ok(Math.abs(scrollTo(row, ROW, top, HEIGHT, scale) - top) < 0.01);
			}
		}
	}
	assert.equal(scrollTo(3, ROW, 0, HEIGHT, 1), 0);
});
