// SPDX-License-Identifier: Apache-2.0
// From the API's series to what uPlot draws: one time axis, a column a series, gaps where there was no data at all.
import type { Series, SeriesResponse } from '../api/responses';
import type { Scale } from '../base/format';
import * as T from '../base/texts';

// The label that a response is broken down by: while the next one loads, that may be another than the one requested now.
export function labelOf(response: SeriesResponse | null, requested: string): string {
	for (const row of response?.series ?? []) for (const name of Object.keys(row.labels)) return name;
	return requested;
}

export interface ChartSeries {
	key: string; // the label's value
	title: string;
	color: number; // of the series colours, -1 = the rest
	rest?: boolean; // what the others leave of the total
	values: (number | null)[]; // as shown: cores, bytes/s
}

export interface Chart {
	times: number[]; // unix seconds
	stepMs: number;
	series: ChartSeries[]; // largest first, the rest last
}

/*
 * The steps of the range. One that reaches beyond the end may be still filling and would look like a drop in load, so it is
 * left out, and so is one that began before the range; unless that one has the first data that there are (begin), or there is
 * nothing else yet, as in an agent's first seconds.
 */
function stepsOf(response: SeriesResponse, begin: number | null): number[] {
	const { step_ms: step, from_ms: from, to_ms: to } = response;
	if (!(step > 0) || !(to > from)) return [];
	const first = Math.floor(from / step) * step;
	const all = Array.from({ length: Math.min(20_000, Math.ceil((to - first) / step)) }, (_, i) => first + i * step);
	const isFirst = (t: number) => begin !== null && begin >= from && begin < t + step;
	const whole = all.filter((t) => (t >= from || isFirst(t)) && t + step <= to);
	const filled = new Set(response.series.flatMap((row) => row.points.map(([t]) => t)));
	return whole.some((t) => filled.has(t)) || filled.size === 0 ? whole : all;
}

/*
 * The `top` largest rows are drawn, and what they leave of the total as one more. `everything` is the same request without
 * a label: needed if the response does not have all rows. `begin`: when data begin within the range; null = they do not.
 */
export function buildChart(
	response: SeriesResponse,
	everything: SeriesResponse | null,
	label: string,
	top: number,
	scale: Scale,
	colorOf: (key: string) => number,
	begin: number | null = null,
): Chart {
	const steps = stepsOf(response, begin);
	const at = new Map(steps.map((t, i) => [t, i]));
	const column = (rows: Series[]): Float64Array => {
		const sums = new Float64Array(steps.length);
		for (const row of rows) {
			for (const [t, value] of row.points) {
				const i = at.get(t);
				if (i !== undefined) sums[i] += value;
			}
		}
		return sums;
	};
	const drawn = response.series.slice(0, top);
	const all = column((everything ?? response).series);
	const columns = drawn.map((row) => column([row]));
	const shown = (sums: Float64Array) => Array.from(sums, (v, i) => (all[i] === 0 ? null : scale.of(v)));
	const series: ChartSeries[] = drawn.map((row, i) => {
		const key = row.labels[label] ?? '';
		return { key, title: key || T.chart.none, color: colorOf(key), values: shown(columns[i]) };
	});
	const hidden = response.total_series - drawn.length;
	if (hidden > 0 && (everything || response.total_series === response.series.length)) {
		const rest = all.map((v, i) => Math.max(0, v - columns.reduce((sum, c) => sum + c[i], 0)));
		series.push({ key: '', title: T.chart.others(hidden), color: -1, rest: true, values: shown(rest) });
	}
	return { times: steps.map((t) => t / 1000), stepMs: response.step_ms, series };
}

/** The step that a time (unix seconds) is in, or null. */
export function stepAt({ times, stepMs }: Chart, time: number): number | null {
	const index = Math.floor(((time - times[0]) * 1000) / stepMs);
	return index >= 0 && index < times.length ? index : null;
}

/** What a series is called in the URL: a value may be any text, and the rest has none. */
export function seriesId(series: ChartSeries): string {
	return series.rest ? 'rest' : `=${series.key}`;
}

/** The chart with those series alone that are in `ids`; whole, if none is. */
export function onlyShown(chart: Chart, ids: readonly string[]): Chart {
	if (ids.length === 0) return chart;
	const series = chart.series.filter((s) => ids.includes(seriesId(s)));
	return series.length > 0 ? { ...chart, series } : chart;
}

/**
 * What is shown after a click on `id` in the legend. Alone: that series alone, or all again if it is so already; otherwise it is added or
 * taken away. The response is [] for all, so that what is new later is shown, too.
 */
export function pickSeries(all: readonly string[], shown: readonly string[], id: string, alone: boolean): string[] {
	const known = shown.filter((one) => all.includes(one));
	const now = known.length > 0 ? known : all.slice();
	if (alone) return now.length === 1 && now[0] === id && all.length > 1 ? [] : [id];
	const next = now.includes(id) ? now.filter((one) => one !== id) : [...now, id];
	return next.length === 0 || next.length === all.length ? [] : all.filter((one) => next.includes(one));
}

export interface LegendRow {
	id: string;
	title: string;
	color: number;
	total: number; // in the unit of the samples: the sum over the steps
	mean: number; // as shown: cores, bytes per second; of steps with data
	peak: number;
	share: number; // of all that is drawn; 0 to 1
}

/** What each series comes to in the steps that begin within `span`, or in all. `scale` is linear (seriesScale). */
export function legendRows(chart: Chart, scale: Scale, span: { from: number; to: number } | null): LegendRow[] {
	const within = chart.times.map((t) => !span || (t * 1000 >= span.from && t * 1000 < span.to));
	const unit = scale.of(1);
	const rows = chart.series.map((s) => {
		const values = s.values.filter((v, i): v is number => v !== null && within[i]);
		const sum = values.reduce((a, b) => a + b, 0);
		const peak = values.reduce((a, b) => Math.max(a, b), 0);
		return { id: seriesId(s), title: s.title, color: s.color, total: sum / unit, mean: values.length > 0 ? sum / values.length : 0, peak, sum };
	});
	const all = rows.reduce((a, row) => a + row.sum, 0);
	return rows.map(({ sum, ...row }) => ({ ...row, share: all > 0 ? sum / all : 0 }));
}

// Each series on top of those before it: what uPlot fills down to zero, the topmost first.
export function stack(series: ChartSeries[], length: number): (number | null)[][] {
	const sums = new Array<number | null>(length).fill(null);
	return series.map(({ values }) => {
		values.forEach((v, i) => {
			if (v !== null) sums[i] = (sums[i] ?? 0) + v;
		});
		return sums.slice();
	});
}

/*
 * A colour for each label value, kept while it is in use, so that a refresh that changes the order of cost does not repaint
 * everything.
 */
export class ColorKeeper {
	private indices = new Map<string, number>();

	assign(keys: string[]): void {
		const used = new Set<number>();
		for (const key of [...this.indices.keys()]) if (!keys.includes(key)) this.indices.delete(key);
		for (const index of this.indices.values()) used.add(index);
		for (const key of keys) {
			if (this.indices.has(key)) continue;
			let index = 0;
			while (used.has(index)) index++;
			used.add(index);
			this.indices.set(key, index);
		}
	}

	of(key: string): number {
		return this.indices.get(key) ?? -1;
	}
}

/** A chart as a table: a line for each time, in UTC, a column for each series; null where there was nothing. */
export function chartRows({ times, series }: Chart, unit: string): { head: string[]; rows: (string | number | null)[][] } {
	return {
		head: [T.chart.csvTime, ...series.map(({ title }) => T.table.inUnit(title, unit))],
		rows: times.map((time, i) => [new Date(time * 1000).toISOString(), ...series.map(({ values }) => values[i])]),
	};
}
