// SPDX-License-Identifier: Apache-2.0
/*
 * The time zone that times are shown and typed in: the browser's, UTC, or the server's, of which the server tells its offsets and from when on each
 * holds. One for the whole page, so it is a variable here; who changes it draws everything again.
 */

export const ZONES = ['browser', 'utc', 'server'] as const;
export type Zone = (typeof ZONES)[number];

/** From when on the server's clock is how far ahead of UTC. */
export interface ZoneOffset {
	from_ms: number;
	utc_offset_s: number;
}
/** In the order of time. Before the first of them, the first one holds. */
export type ZoneOffsets = readonly ZoneOffset[];

const DAY = 86400e3;
let zone: Zone = 'browser';
let serverOffsets: ZoneOffsets | null = null; // null: not known yet

const isOffset = ({ from_ms, utc_offset_s }: ZoneOffset): boolean => Number.isFinite(from_ms) && Math.abs(utc_offset_s) <= 86400;

/** What can be used of what a server said: null if there is nothing. */
export function usableOffsets(offsets: ZoneOffsets | null | undefined): ZoneOffsets | null {
	return offsets && offsets.length > 0 && offsets.every(isOffset) ? offsets : null;
}

/** offsets: of the server; null = not known, then the browser's zone stands in. */
export function setZone(next: Zone, offsets: ZoneOffsets | null): void {
	zone = next;
	serverOffsets = usableOffsets(offsets);
}

const browserOffset = (ms: number): number => -new Date(ms).getTimezoneOffset() * 60e3;

function offsetOf(ms: number, which: Zone, offsets: ZoneOffsets | null): number {
	if (which === 'utc') return 0;
	if (which === 'browser' || offsets === null) return browserOffset(ms);
	let found = offsets[0];
	for (const one of offsets) if (one.from_ms <= ms) found = one;
	return found.utc_offset_s * 1000;
}

const offsetAt = (ms: number): number => offsetOf(ms, zone, serverOffsets);

/** A date whose UTC fields (getUTCHours() and so on) are those of the zone. */
export function zoned(ms: number): Date {
	return new Date(ms + offsetAt(ms));
}

/** "UTC", "UTC+5:30": the zone as of that time. */
export function zoneName(ms: number, of: { zone: Zone; serverOffsets: ZoneOffsets | null } | null = null): string {
	const offset = of === null ? offsetAt(ms) : offsetOf(ms, of.zone, of.serverOffsets);
	const minutes = Math.round(Math.abs(offset) / 60e3);
	if (minutes === 0) return 'UTC';
	const rest = minutes % 60;
	return `UTC${offset < 0 ? '−' : '+'}${Math.floor(minutes / 60)}${rest > 0 ? `:${String(rest).padStart(2, '0')}` : ''}`;
}

/**
 * Unix ms of a time of the zone that is written without one, as "2024-05-01T12:00"; NaN if it is none. When clocks are set, a time that comes twice is
 * the first of both, and one that is left out is read as if they had not been set yet: as browsers do it.
 */
export function parseZoned(text: string): number {
	const wall = Date.parse(text + 'Z');
	if (zone === 'browser' || (zone === 'server' && serverOffsets === null)) return Date.parse(text);
	const before = wall - offsetAt(wall - DAY),
		after = wall - offsetAt(wall + DAY);
	return wall - offsetAt(before) === before || wall - offsetAt(after) !== after ? before : after;
}
