// SPDX-License-Identifier: Apache-2.0
// What the response to a query becomes on the page: a table, a chart, a flame graph. Pure.
import { hasSome } from '../ui/columns';
import type { Cell, ComparisonResponse, PipelineResponse, PipelineSeries } from '../api/responses';
import { digits, formatShare, formatValue, type Scale } from '../base/format';
import * as T from '../base/texts';
import type { Chart } from '../model/series';

type Column = { name: string; kind: string; unit: string };

/** A cell as a person reads it; `text` of a file (CSV) has the bare value. */
export function formatCell(cell: Cell, column: Column): string {
	if (cell === null || cell === '') return '–';
	if (typeof cell !== 'number') return String(cell);
	if (column.unit === 'percent') return formatShare(cell, 100);
	if (column.unit === 'cores') return digits(cell);
	return column.unit === '' ? digits(cell) : formatValue(cell, column.unit);
}

export const isNumeric = (column: Column): boolean => column.kind === 'integer' || column.kind === 'number';

/**
 * The columns of a table, and where in its rows they are, without those in which every row is empty or zero; all of them where nothing would be
 * left but what rows are called: then zero is the result.
 */
export function shownColumns({ columns, rows }: { columns: readonly Column[]; rows: readonly Cell[][] }): (Column & { at: number })[] {
	const all = columns.map((column, at) => ({ ...column, at }));
	const shown = all.filter(({ at }) => hasSome(rows, (row) => row[at]));
	return all.some(isNumeric) === shown.some(isNumeric) ? shown : all;
}

/** Rows by a column; texts by their order in the language, numbers by size, what is empty last. Stable. */
export function sortCells(rows: readonly Cell[][], column: number, falling: boolean): Cell[][] {
	const sign = falling ? -1 : 1;
	return rows.slice().sort((a, b) => {
		const [x, y] = [a[column], b[column]];
		if (x === null || y === null) return x === y ? 0 : x === null ? 1 : -1;
		if (typeof x === 'number' && typeof y === 'number') return sign * (x - y);
		return sign * String(x).localeCompare(String(y));
	});
}

export function seriesTitle(labels: Record<string, string>): string {
	const values = Object.values(labels);
	if (values.length === 0) return T.queries.all;
	if (values.length === 1) return values[0] || T.queries.none;
	return Object.entries(labels)
		.map(([name, value]) => `${name}=${value}`)
		.join(' ');
}

const MOST_STEPS = 20_000;

/** The chart of values over time: points as they came (sums of steps, or rates), gaps where a series has none. */
export function chartOf(response: PipelineSeries, top: number): Chart {
	const { step_ms: step } = response;
	const rows = response.series.slice(0, top);
	const times = new Set<number>();
	for (const row of rows) for (const [at] of row.points) if (times.size < MOST_STEPS) times.add(at);
	const order = [...times].sort((a, b) => a - b);
	const at = new Map(order.map((t, i) => [t, i]));
	return {
		times: order.map((t) => t / 1000),
		stepMs: step,
		series: rows.map((row, i) => {
			const values = new Array<number | null>(order.length).fill(null);
			for (const [t, value] of row.points) {
				const place = at.get(t);
				if (place !== undefined) values[place] = value;
			}
			return {
				key: seriesTitle(row.labels),
				title: row.others ? T.queries.others : seriesTitle(row.labels),
				color: row.others ? -1 : i,
				rest: row.others,
				values,
			};
		}),
	};
}

export function scaleOf(unit: string): Scale {
	return {
		name: unit,
		suffix: unit === 'cores' ? unit : '',
		cores: unit === 'cores',
		of: (value) => value,
		format: (value) => (unit === 'cores' || unit === '' ? digits(value) : formatValue(value, unit)),
		binary: unit === 'bytes',
	};
}

/** Which value of a comparison is shown: the one that was chosen, or the first. */
export function chosenValue(response: ComparisonResponse, wanted: string): number {
	return Math.max(
		0,
		response.values.findIndex((value) => value.value === wanted),
	);
}

/** What the plan and the counters of `explain` say, as rows of name and text. */
export function explainRows(response: PipelineResponse): { plan: string[]; read: [string, number][]; times: [string, number][] } {
	const explain = response.explain;
	const plan = Array.isArray(explain?.plan) ? explain.plan.map(String) : [];
	const read: [string, number][] = [];
	for (const [name, value] of Object.entries(explain ?? {})) if (typeof value === 'number') read.push([name.replace(/_/g, ' '), value]);
	const times = Object.entries(explain?.ms ?? {}).filter((entry): entry is [string, number] => typeof entry[1] === 'number');
	return { plan, read, times };
}

const HISTORY = 50;

/** The history with a query on top; once each, and no more than HISTORY. */
export function remember(history: readonly string[], query: string): string[] {
	const text = query.trim();
	if (text === '') return history.slice();
	return [text, ...history.filter((old) => old !== text)].slice(0, HISTORY);
}

export function readHistory(text: string): string[] {
	try {
		const list: unknown = JSON.parse(text);
		return Array.isArray(list) ? list.filter((one): one is string => typeof one === 'string').slice(0, HISTORY) : [];
	} catch {
		return [];
	}
}
