// SPDX-License-Identifier: Apache-2.0
// Times, values and labels of markers as people read them.
import { FORMAT, PHASE, phaseOf, valuesOf, type Timeline, type Value } from '../api/timeline_data';
import { digits, displayName, formatBytes, formatCount, formatValue } from '../base/format';
import * as T from '../base/texts';
import type { Spans } from './spans';

export const formatNs = (ns: number): string => (Number.isFinite(ns) ? formatValue(Math.round(ns), 'ns') : T.timeline.endless);

/** A moment, as precisely as a step of the axis asks for: seconds since the start. */
export function formatMoment(ns: number, step = 1e6): string {
	const places = Math.min(9, Math.max(0, Math.ceil(9 - Math.log10(Math.max(step, 1)))));
	return `${(ns / 1e9).toFixed(places)} s`;
}

/** What is not on the time line: lost while recording, or left out of the page. */
export function lossesOf(t: Timeline, lost: number): string[] {
	const parts: string[] = [];
	if (lost > 0) parts.push(T.timeline.lost(formatCount(lost)));
	if (t.samplesOut + t.markersOut > 0)
		parts.push(
			T.timeline.holds(formatCount(t.sampleCount), formatCount(t.markerCount), formatMoment(t.until, t.length / 100)),
			T.timeline.left(formatCount(t.samplesOut), formatCount(t.markersOut)),
		);
	if (t.untimedOut > 0) parts.push(T.timeline.untimed(formatCount(t.untimedOut)));
	return parts;
}

export function formatField(value: Value, format: number): string {
	if (value === null) return '';
	if (typeof value === 'string') return displayName(value, 300);
	switch (format) {
		case FORMAT.percentage:
			return `${digits(100 * value)}%`;
		case FORMAT.duration:
			return formatNs(value);
		case FORMAT.bytes:
			return formatBytes(value);
		case FORMAT.decimal:
			return Number.isInteger(value) ? String(value) : digits(value);
		default:
			return String(value);
	}
}

/** "rows 17, bytes 4 KiB": the fields in one line. */
export function fieldsLine(t: Timeline, marker: number): string {
	const { fields } = t.schemas[t.schema[marker]];
	return valuesOf(t, marker)
		.map((value, i) => (value === null ? '' : `${displayName(fields[i].label, 60)} ${formatField(value, fields[i].format)}`))
		.filter((part) => part !== '')
		.join(', ');
}

export function extentOf(t: Timeline, spans: Spans, marker: number): [number, number] {
	const span = spans.ofMarker[marker] >= 0 ? spans.ofMarker[marker] : spans.partner[marker];
	if (span < 0) return [t.start[marker], t.start[marker]];
	return [Math.max(0, spans.start[span]), Math.min(t.length, spans.end[span])];
}

export const isInstant = (t: Timeline, marker: number): boolean => phaseOf(t, marker) === PHASE.instant;

// Firefox Profiler's names of colours, as hues of ours; grey has no chroma.
const HUES: Record<string, number> = {
	blue: 255,
	lightblue: 230,
	green: 150,
	purple: 305,
	orange: 60,
	yellow: 95,
	magenta: 340,
	brown: 45,
	red: 25,
	lightred: 15,
};
const CYCLE = [255, 150, 305, 60, 200, 340, 95, 25];

export function hueOfCategory(t: Timeline, category: number): { hue: number; chroma: number } {
	const { color, name } = t.categories[category] ?? { color: '', name: '' };
	if (/grey|transparent/.test(color) || (category === 0 && color === '')) return { hue: 60, chroma: 0.012 };
	if (typeof HUES[color] === 'number') return { hue: HUES[color], chroma: 0.095 };
	return { hue: name === '' ? 60 : CYCLE[category % CYCLE.length], chroma: 0.095 };
}
