// SPDX-License-Identifier: Apache-2.0
// From a series without labels to a line in a drawing.
import type { SeriesResponse } from '../api/responses';
import { svgPath } from '../base/svg_path';

const MOST = 20_000; // steps

/** A value for each step of the response's range; null where nothing was measured. Of several series, their sum. */
export function seriesValues(response: SeriesResponse): (number | null)[] {
	const { step_ms: step, from_ms: from, to_ms: to } = response;
	if (!(step > 0) || !(to > from)) return [];
	const first = Math.floor(from / step) * step;
	const values = new Array<number | null>(Math.min(MOST, Math.ceil((to - first) / step))).fill(null);
	for (const { points } of response.series) {
		for (const [at, value] of points) {
			const i = Math.round((at - first) / step);
			if (i >= 0 && i < values.length) values[i] = (values[i] ?? 0) + value;
		}
	}
	return values;
}

/** As an SVG path in steps: each value for its whole step, a gap where there is none. `top` is the value at the upper edge. */
export function seriesPath(values: readonly (number | null)[], top: number, width: number, height: number): string {
	if (!(top > 0)) return '';
	const dx = width / values.length;
	return svgPath(values, (value, i) => `${(i * dx).toFixed(1)} ${(height - (0.94 * height * value) / top).toFixed(1)}H${((i + 1) * dx).toFixed(1)}`);
}
