// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TypesResponse } from '../src/api/responses';
import { beginOf, coverOf } from '../src/query/cover';

const NOW = 1_700_000_000_000;
const HOUR = 3600_000;
const CPU = 'process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta';
const HEAP = 'memory:inuse_space:bytes:space:bytes';

const typesOf = (firsts: Record<string, number>): TypesResponse => ({
	from_ms: NOW - HOUR,
	to_ms: NOW,
	types: Object.entries(firsts).map(([name, first_ms]) => ({ name, series: 1, first_ms })),
});
const current = (data: TypesResponse | null) => ({ data, stale: false, error: null });

test('a relative range that begins before the first data begins with these', () => {
	const began = NOW - 180_000 + 345;
	const cover = coverOf('now-1h', 'now', current(typesOf({ [CPU]: began })), CPU);
	assert.deepEqual(cover, { from: String(NOW - 180_000), to: 'now', begin: began, clipped: true, known: true });
});

test('a server that has just started shows a minute, and no more than was chosen', () => {
	const types = typesOf({ [CPU]: NOW - 5_000 });
	assert.equal(coverOf('now-1h', 'now', current(types), CPU).from, String(NOW - 60_000));
	const short = coverOf('now-30s', 'now', current({ ...types, from_ms: NOW - 30_000 }), CPU);
	assert.deepEqual([short.from, short.clipped, short.begin], ['now-30s', false, NOW - 5_000]);
});

test('a range in which there have been data from the beginning stays as it is', () => {
	for (const first of [NOW - 2 * HOUR, NOW - HOUR]) {
		const cover = coverOf('now-1h', 'now', current(typesOf({ [CPU]: first })), CPU);
		assert.deepEqual(cover, { from: 'now-1h', to: 'now', begin: null, clipped: false, known: true });
	}
});

test('an absolute range stays, and says where data begin', () => {
	const from = String(NOW - HOUR);
	const cover = coverOf(from, String(NOW), current(typesOf({ [CPU]: NOW - 60_000 })), CPU);
	assert.deepEqual(cover, { from, to: String(NOW), begin: NOW - 60_000, clipped: false, known: true });
});

test('what counts are the data of the type that is shown, or all', () => {
	const both = typesOf({ [CPU]: NOW - 2 * HOUR, [HEAP]: NOW - 60_000 });
	assert.equal(beginOf(both, HEAP), NOW - 60_000);
	assert.equal(beginOf(both, CPU), null);
	assert.equal(beginOf(both, ''), null);
	assert.equal(beginOf(typesOf({ [CPU]: NOW - 120_000, [HEAP]: NOW - 60_000 }), ''), NOW - 120_000);
	assert.equal(beginOf(both, 'other'), null);
	assert.equal(beginOf(typesOf({}), ''), null);
	assert.equal(beginOf(typesOf({ [CPU]: NOW + 60_000 }), CPU), null, 'data of the future');
});

test('requests of a relative range wait for what it covers; those of an absolute one do not', () => {
	const data = typesOf({ [CPU]: NOW - 60_000 });
	assert.equal(coverOf('now-1h', 'now', current(null), CPU).known, false);
	const stale = coverOf('now-1h', 'now', { data, stale: true, error: null }, CPU);
	assert.deepEqual([stale.known, stale.clipped, stale.from], [false, false, 'now-1h'], 'of another range');
	assert.equal(coverOf('now-1h', 'now', { data: null, stale: false, error: {} as never }, CPU).known, true);
	assert.equal(coverOf(String(NOW - HOUR), 'now', current(null), CPU).known, true);
});
