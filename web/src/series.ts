// SPDX-License-Identifier: Apache-2.0
// From the API's series to what uPlot draws: one time axis, a column a series, gaps where there was no data at all.
import type { Series, SeriesAnswer } from './api';
import type { Scale } from './format';
import * as T from './texts';

// The label that an answer is broken down by: while the next one loads, that may be another than the one asked for now.
export function labelOf(answer: SeriesAnswer | null, asked: string): string {
	for (const row of answer?.series ?? []) for (const name of Object.keys(row.labels)) return name;
	return asked;
}

export interface ChartSeries {
	key: string; // the label's value
	title: string;
	color: number; // of the series colours, -1 = the rest
	values: (number | null)[]; // as shown: cores, bytes/s
}

export interface Chart {
	times: number[]; // unix seconds
	stepMs: number;
	series: ChartSeries[]; // largest first, the rest last
}

/*
 * The steps of the range. One that reaches beyond the end may be still filling and would look like a drop in load, so it is
 * left out, and so is one that began before the range; unless there is nothing else yet, as in an agent's first seconds.
 */
function stepsOf(answer: SeriesAnswer): number[] {
	const { step_ms: step, from_ms: from, to_ms: to } = answer;
	if (!(step > 0) || !(to > from)) return [];
	const first = Math.floor(from / step) * step;
	const all = Array.from({ length: Math.min(20_000, Math.ceil((to - first) / step)) }, (_, i) => first + i * step);
	const whole = all.filter((t) => t >= from && t + step <= to);
	const filled = new Set(answer.series.flatMap((row) => row.points.map(([t]) => t)));
	return whole.some((t) => filled.has(t)) || filled.size === 0 ? whole : all;
}

/*
 * The `top` largest rows are drawn, and what they leave of the total as one more. `everything` is the same request without
 * a label: needed where the answer has not all rows.
 */
export function buildChart(
	answer: SeriesAnswer,
	everything: SeriesAnswer | null,
	label: string,
	top: number,
	scale: Scale,
	colorOf: (key: string) => number,
): Chart {
	const steps = stepsOf(answer);
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
	const drawn = answer.series.slice(0, top);
	const all = column((everything ?? answer).series);
	const columns = drawn.map((row) => column([row]));
	const shown = (sums: Float64Array) => Array.from(sums, (v, i) => (all[i] === 0 ? null : scale.of(v)));
	const series: ChartSeries[] = drawn.map((row, i) => {
		const key = row.labels[label] ?? '';
		return { key, title: key || T.chart.none, color: colorOf(key), values: shown(columns[i]) };
	});
	const hidden = answer.total_series - drawn.length;
	if (hidden > 0 && (everything || answer.total_series === answer.series.length)) {
		const rest = all.map((v, i) => Math.max(0, v - columns.reduce((sum, c) => sum + c[i], 0)));
		series.push({ key: '', title: T.chart.others(hidden), color: -1, values: shown(rest) });
	}
	return { times: steps.map((t) => t / 1000), stepMs: answer.step_ms, series };
}

// Each series on top of those before it: what uPlot fills down to zero, the topmost first.
export function stack(series: ChartSeries[], length: number): (number | null)[][] {
	const sums: (number | null)[] = new Array(length).fill(null);
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
