// SPDX-License-Identifier: Apache-2.0
/*
 * What the start page makes of responses: rows of what costs most now, with the same length of time a day and a week before beside
 * them, and what changed most. Pure; the questions are in view.tsx.
 */
import type { Series, SeriesResponse, TableResponse } from '../api/responses';
import { svgPath } from '../base/svg_path';

/**
 * For how long, in ms, there can be data within a range: what came in before `oldest`, the beginning of all data (0 = unknown), would
 * make a server that is minutes old look idle.
 */
export function coveredMs(from: number, to: number, oldest: number): number {
	const begin = oldest > from && oldest < to ? oldest : from;
	return Math.max(1, to - begin);
}

export interface CostRow {
	key: string;
	value: number; // sum over the range, in the unit of the type
	share: number; // of all
	day: number | null; // the same a day before; null = there is no data of then at all
	week: number | null;
	trend: (number | null)[]; // a point for each step; null = nothing was measured in it
}

/** Sums by the first column of a table; null where the whole table has nothing: there is no data of that time. */
export function sumsOf(table: TableResponse | null): Map<string, number> | null {
	if (!table || table.table.rows.length === 0) return null;
	const at = table.table.columns.findIndex((column) => column.name === 'value');
	const sums = new Map<string, number>();
	for (const row of table.table.rows) {
		const value = Number(row[at]);
		if (Number.isFinite(value)) sums.set(String(row[0] ?? ''), value);
	}
	return sums;
}

export function totalOf(sums: Map<string, number> | null): number | null {
	if (!sums) return null;
	let total = 0;
	for (const value of sums.values()) total += value;
	return total;
}

function trendOf(row: Series, response: SeriesResponse, filled: Set<number>): (number | null)[] {
	const { step_ms: step, from_ms: from, to_ms: to } = response;
	if (!(step > 0) || !(to > from)) return [];
	const values = new Map(row.points);
	const first = Math.ceil(from / step) * step;
	const steps = Math.min(1000, Math.floor((to - first) / step));
	return Array.from({ length: Math.max(0, steps) }, (_, i) => {
		const at = first + i * step;
		return filled.has(at) ? (values.get(at) ?? 0) : null;
	});
}

/**
 * The `most` costliest of the sums by a label, with what they cost before. Their course is that of `series`, which covers whole steps and
 * thus a little more than the range: good for its shape, not for sums.
 */
export function costRows(
	now: Map<string, number>,
	most: number,
	series: { response: SeriesResponse; label: string } | null,
	day: Map<string, number> | null,
	week: Map<string, number> | null,
): CostRow[] {
	const total = totalOf(now) ?? 0;
	const listed = series?.response.series.filter((row) => !row.others) ?? [];
	const filled = new Set(series?.response.series.flatMap((row) => row.points.map(([at]) => at)));
	const courses = new Map(listed.map((row) => [row.labels[series!.label] ?? '', row]));
	return [...now]
		.sort((a, b) => b[1] - a[1])
		.slice(0, most)
		.map(([key, value]) => {
			const course = courses.get(key);
			return {
				key,
				value,
				share: total > 0 ? value / total : 0,
				day: day ? (day.get(key) ?? 0) : null,
				week: week ? (week.get(key) ?? 0) : null,
				trend: course ? trendOf(course, series!.response, filled) : [],
			};
		});
}

export type Change = { kind: 'unknown' } | { kind: 'new' } | { kind: 'same' } | { kind: 'more' | 'less'; ratio: number };

/** How `now` compares with `before` (null = no data of then). A ratio is of the difference to what was: 0.5 is half as much again. */
export function changeOf(now: number, before: number | null): Change {
	if (before === null) return { kind: 'unknown' };
	if (before <= 0) return now > 0 ? { kind: 'new' } : { kind: 'same' };
	const ratio = now / before - 1;
	if (Math.abs(ratio) < 0.005) return { kind: 'same' };
	return { kind: ratio > 0 ? 'more' : 'less', ratio };
}

/** A line through the points in a box of width x height, as an SVG path; a gap where a value is null. "" without two points. */
export function sparkline(values: readonly (number | null)[], width: number, height: number): string {
	const known = values.filter((v): v is number => v !== null);
	if (known.length < 2) return '';
	const top = Math.max(...known) || 1;
	const dx = width / Math.max(1, values.length - 1);
	return svgPath(values, (value, i) => `${(i * dx).toFixed(1)} ${(height - (height * value) / top).toFixed(1)}`);
}

export interface Mover {
	function: string;
	file: string;
	binary: string;
	before: number;
	now: number;
	state: string; // "new", "gone" or ""
}

/** The rows of a table of differences by function. */
export function moversOf(response: TableResponse | null): Mover[] {
	if (!response) return [];
	const { columns, rows } = response.table;
	const at = (name: string) => columns.findIndex((column) => column.name === name);
	const [fn, file, binary, base, self, state] = ['function', 'file', 'binary', 'base_self', 'self', 'state'].map(at);
	if ([fn, base, self].some((i) => i < 0)) return [];
	return rows.map((row) => ({
		function: String(row[fn] ?? ''),
		file: String(row[file] ?? ''),
		binary: String(row[binary] ?? ''),
		before: Number(row[base]) || 0,
		now: Number(row[self]) || 0,
		state: String(row[state] ?? ''),
	}));
}
