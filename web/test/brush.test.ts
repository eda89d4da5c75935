// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { clicked, keyed, snap } from '../src/chart/brush';

const T = 1_700_000_000_000; // a multiple of the step
const STEP = 20_000;
const range = { from: T + 5_000, to: T + 105_000 };
const chart = { times: [1, 2, 3, 4].map((i) => (T + i * STEP) / 1000), stepMs: STEP };
const at = (from: number, to: number) => ({ from: T + from * STEP, to: T + to * STEP });
const state = (selection: { from: number; to: number } | null, pickSteps = true) => ({ chart, range, selection, pickSteps });

test('a selection is of whole steps, at least one, and within the range', () => {
	assert.deepEqual(snap(T + 65_000, T + 31_000, STEP, range), at(1, 4));
	assert.deepEqual(snap(T + 40_000, T + 40_000, STEP, range), at(2, 3));
	assert.deepEqual(snap(T, T + 500_000, STEP, range), range);
});

test('a click chooses the step under it, and gives back the whole where that is chosen already', () => {
	assert.deepEqual(clicked(T + 45_000, state(null)), at(2, 3));
	assert.deepEqual(clicked(T + 45_000, state(at(1, 4))), at(2, 3), 'within a longer selection');
	assert.equal(clicked(T + 45_000, state(at(2, 3))), null);
	assert.equal(clicked(T + 45_000, state(at(1, 4), false)), null);
	assert.equal(clicked(T + 45_000, state(null, false)), undefined);
});

test('keys make, move, lengthen and give back a selection', () => {
	assert.deepEqual(keyed('Enter', false, state(null)), at(4, 5), 'the newest step');
	assert.deepEqual(keyed('Enter', false, state(at(1, 3))), at(2, 3), 'the last step of the selection');
	assert.deepEqual(keyed('Home', false, state(at(2, 3))), at(1, 2));
	assert.deepEqual(keyed('End', false, state(at(2, 3))), at(4, 5));
	assert.deepEqual(keyed('ArrowLeft', false, state(at(2, 3))), at(1, 2));
	assert.deepEqual(keyed('ArrowRight', true, state(at(2, 3))), at(2, 4));
	assert.equal(keyed('ArrowLeft', true, state(at(2, 3))), undefined, 'nothing would be left');
	assert.deepEqual(keyed('ArrowLeft', false, state(null))?.to, T + 5 * STEP);
	assert.equal(keyed('Escape', false, state(at(2, 3))), null);
	assert.equal(keyed('Escape', false, state(null)), undefined);
	assert.equal(keyed('Enter', false, { ...state(null), chart: { times: [], stepMs: STEP } }), undefined);
	assert.equal(keyed('x', false, state(at(2, 3))), undefined);
});
