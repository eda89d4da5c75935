// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { formatClock, formatDateTime, formatDay, formatRange } from '../src/base/format';
import { parseZoned, setZone, zoneName, type ZoneOffset } from '../src/base/zone';
import { parseTime } from '../src/state/page';

const AT = Date.UTC(2024, 4, 1, 23, 30, 5);

const always = (utc_offset_s: number): ZoneOffset[] => [{ from_ms: AT, utc_offset_s }];

afterEach(() => setZone('browser', null));

test('clock, day, date and range are those of the zone', () => {
	setZone('utc', null);
	assert.deepEqual([formatClock(AT), formatDay(AT), formatDateTime(AT)], ['23:30:05', '1 May', '2024-05-01 23:30:05']);
	setZone('server', always(2 * 3600));
	assert.deepEqual([formatClock(AT), formatDay(AT), formatDateTime(AT)], ['01:30:05', '2 May', '2024-05-02 01:30:05']);
	assert.equal(formatRange(AT, AT + 60_000, AT), '01:30:05 – 01:31:05');
	assert.deepEqual([zoneName(AT)], ['UTC+2']);
	setZone('server', always(-12600));
	assert.deepEqual([formatDateTime(AT), zoneName(AT)], ['2024-05-01 20:00:05', 'UTC−3:30']);
});

test('what is typed is read in the zone that it is shown in', () => {
	for (const [zone, offset] of [
		['browser', null],
		['utc', null],
		['server', always(5 * 3600 + 1800)],
		['server', always(-9 * 3600)],
		['server', null],
	] as const) {
		setZone(zone, offset);
		assert.equal(parseTime(formatDateTime(AT), 0), AT, `${zone} ${JSON.stringify(offset)}`);
		assert.equal(parseTime('2024-05-01T12:00:00Z', 0), Date.UTC(2024, 4, 1, 12), 'with a zone of its own');
		assert.equal(parseTime('2024-05-01T12:00+02:00', 0), Date.UTC(2024, 4, 1, 10));
		assert.equal(parseTime('2024-13-01', 0), null);
	}
});

test('an offset that cannot be one is none', () => {
	for (const offset of [NaN, Infinity, 1e9]) {
		setZone('server', always(offset));
		const there = formatDateTime(AT);
		setZone('browser', null);
		assert.equal(there, formatDateTime(AT));
	}
	setZone('server', []);
	const there = formatDateTime(AT);
	setZone('browser', null);
	assert.equal(there, formatDateTime(AT));
});

// The changes of a zone, found by trying each hour.
function changesOf(timeZone: string, from: number, to: number): ZoneOffset[] {
	const format = new Intl.DateTimeFormat('en-US', { timeZone, timeZoneName: 'longOffset' });
	const offsets: ZoneOffset[] = [];
	for (let ms = from; ms < to; ms += 1800e3) {
		const [, sign, hours, minutes] = /GMT(?:([+-])(\d+):(\d+))?/.exec(format.format(ms)) ?? [];
		const seconds = sign ? (sign === '-' ? -1 : 1) * (Number(hours) * 3600 + Number(minutes) * 60) : 0;
		if (offsets.at(-1)?.utc_offset_s !== seconds) offsets.push({ from_ms: ms, utc_offset_s: seconds });
	}
	return offsets;
}

test("the server's clock is that of the time, not of today", () => {
	const from = Date.UTC(2024, 0, 1),
		to = Date.UTC(2025, 0, 1);
	for (const timeZone of ['Europe/Berlin', 'America/St_Johns', 'Australia/Lord_Howe', 'Asia/Kolkata']) {
		setZone('server', changesOf(timeZone, from, to));
		// Sweden writes dates as they are typed here.
		const format = new Intl.DateTimeFormat('sv-SE', { timeZone, dateStyle: 'short', timeStyle: 'medium' });
		for (let ms = from; ms < to; ms += 7 * 3600e3 + 1000) {
			assert.equal(formatDateTime(ms), format.format(ms), timeZone);
			const read = parseZoned(formatDateTime(ms).replace(' ', 'T'));
			// One hour a year comes twice.
			assert.ok(read === ms || (read < ms && formatDateTime(read) === formatDateTime(ms)), `${timeZone} ${new Date(ms).toISOString()}`);
		}
	}
	setZone('server', changesOf('Europe/Berlin', from, to));
	assert.deepEqual([zoneName(Date.UTC(2024, 2, 31, 0, 59)), zoneName(Date.UTC(2024, 2, 31, 1))], ['UTC+1', 'UTC+2']);
	assert.equal(formatRange(Date.UTC(2024, 9, 27, 0, 30), Date.UTC(2024, 9, 27, 1, 30), 0), '27 Oct 02:30:00 – 02:30:00');
});

test('times around a change are read as browsers read them', () => {
	setZone('server', changesOf('America/New_York', Date.UTC(2024, 0, 1), Date.UTC(2025, 0, 1)));
	assert.equal(parseZoned('2024-11-03T01:30'), Date.UTC(2024, 10, 3, 5, 30), 'the first of two');
	assert.equal(parseZoned('2024-03-10T02:30'), Date.UTC(2024, 2, 10, 7, 30), 'left out: 03:30 daylight saving time');
	assert.equal(parseZoned('2024-03-10T01:59'), Date.UTC(2024, 2, 10, 6, 59));
	assert.equal(parseZoned('2024-03-10T03:00'), Date.UTC(2024, 2, 10, 7));
	assert.ok(Number.isNaN(parseZoned('2024-03-10T25:00')));
});
