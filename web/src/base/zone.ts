// SPDX-License-Identifier: Apache-2.0
/*
 * The time zone that times are shown and typed in: the browser's, UTC, or the server's, which the server tells as its present offset. One for the
 * whole page, so it is a variable here; who changes it draws everything again.
 */

export const ZONES = ['browser', 'utc', 'server'] as const;
export type Zone = (typeof ZONES)[number];

let zone: Zone = 'browser';
let serverOffsetMs: number | null = null; // null: not known yet

/** serverOffsetS: seconds east of UTC; null = not known, then the browser's zone stands in. */
export function setZone(next: Zone, serverOffsetS: number | null): void {
	zone = next;
	const known = serverOffsetS !== null && Number.isFinite(serverOffsetS) && Math.abs(serverOffsetS) <= 86400;
	serverOffsetMs = known ? serverOffsetS * 1000 : null;
}

const browserOffset = (ms: number): number => -new Date(ms).getTimezoneOffset() * 60e3;

function offsetAt(ms: number): number {
	if (zone === 'utc') return 0;
	return zone === 'server' && serverOffsetMs !== null ? serverOffsetMs : browserOffset(ms);
}

/** A date whose UTC fields (getUTCHours() and so on) are those of the zone. */
export function zoned(ms: number): Date {
	return new Date(ms + offsetAt(ms));
}

/** "UTC", "UTC+5:30": the zone as of that time. */
export function zoneName(ms: number, of: { zone: Zone; serverOffsetS: number | null } | null = null): string {
	const offset =
		of === null ? offsetAt(ms) : of.zone === 'utc' ? 0 : of.zone === 'server' && of.serverOffsetS !== null ? of.serverOffsetS * 1000 : browserOffset(ms);
	const minutes = Math.round(Math.abs(offset) / 60e3);
	if (minutes === 0) return 'UTC';
	const rest = minutes % 60;
	return `UTC${offset < 0 ? '−' : '+'}${Math.floor(minutes / 60)}${rest > 0 ? `:${String(rest).padStart(2, '0')}` : ''}`;
}

/** Unix ms of a time of the zone that is written without one, as "2024-05-01T12:00"; NaN if it is none. */
export function parseZoned(text: string): number {
	const wall = Date.parse(text + 'Z');
	if (zone === 'browser' || (zone === 'server' && serverOffsetMs === null)) return Date.parse(text);
	return wall - offsetAt(wall);
}
