// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { rowStep } from '../src/keys';

test('keys lead to rows that are there', () => {
	const keys = ['ArrowDown', 'ArrowUp', 'PageDown', 'PageUp', 'Home', 'End'];
	const from = (active: number, count: number) => keys.map((key) => rowStep(key, active, count, 10));
	assert.deepEqual(from(50, 100), [51, 49, 60, 40, 0, 99]);
	assert.deepEqual(from(-1, 100), [0, 0, 9, 0, 0, 99]);
	assert.deepEqual(from(99, 100), [99, 98, 99, 89, 0, 99]);
	assert.deepEqual(from(-1, 0), [-1, -1, -1, -1, -1, -1]);
	assert.deepEqual(['Enter', 'a', ' '].map((key) => rowStep(key, 5, 100, 10)), [null, null, null]);
});
