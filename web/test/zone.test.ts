// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { formatClock, formatDateTime, formatDay, formatRange } from '../src/base/format';
import { setZone, zoneName } from '../src/base/zone';
import { parseTime } from '../src/state/page';

const AT = Date.UTC(2024, 4, 1, 23, 30, 5);

afterEach(() => setZone('browser', null));

test('clock, day, date and range are those of the zone', () => {
	setZone('utc', null);
	assert.deepEqual([formatClock(AT), formatDay(AT), formatDateTime(AT)], ['23:30:05', '1 May', '2024-05-01 23:30:05']);
	setZone('server', 2 * 3600);
	assert.deepEqual([formatClock(AT), formatDay(AT), formatDateTime(AT)], ['01:30:05', '2 May', '2024-05-02 01:30:05']);
	assert.equal(formatRange(AT, AT + 60_000, AT), '01:30:05 – 01:31:05');
	assert.deepEqual([zoneName(AT)], ['UTC+2']);
	setZone('server', -12600);
	assert.deepEqual([formatDateTime(AT), zoneName(AT)], ['2024-05-01 20:00:05', 'UTC−3:30']);
});

test('what is typed is read in the zone that it is shown in', () => {
	for (const [zone, offset] of [
		['browser', null],
		['utc', null],
		['server', 5 * 3600 + 1800],
		['server', -9 * 3600],
		['server', null],
	] as const) {
		setZone(zone, offset);
		assert.equal(parseTime(formatDateTime(AT), 0), AT, `${zone} ${offset}`);
		assert.equal(parseTime('2024-05-01T12:00:00Z', 0), Date.UTC(2024, 4, 1, 12), 'with a zone of its own');
		assert.equal(parseTime('2024-05-01T12:00+02:00', 0), Date.UTC(2024, 4, 1, 10));
		assert.equal(parseTime('2024-13-01', 0), null);
	}
});

test('an offset that cannot be one is none', () => {
	for (const offset of [NaN, Infinity, 1e9]) {
		setZone('server', offset);
		const there = formatDateTime(AT);
		setZone('browser', null);
		assert.equal(there, formatDateTime(AT));
	}
});
