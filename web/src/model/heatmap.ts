// SPDX-License-Identifier: Apache-2.0
/*
 * The subsecond heatmap, after Netflix' FlameScope: a column is a second (of long recordings, more), a row is a part of it, the
 * first at the bottom; a cell has what was sampled then. What happens once a second is a line from left to right, what happens at
 * odd moments a spot. A choice of cells is a list of time ranges, for which the flame graph is then made.
 *
 * Cells are half open, [from, to), and as long as each other, in whole nanoseconds, so that a sample is in a cell exactly if it
 * is in the cell's range.
 */

export const HEATMAP_COLUMNS_MAX = 3600;
export const HEATMAP_ROWS = [10, 20, 25, 40, 50, 100] as const; // each divides every column's length

export type HeatmapRows = (typeof HEATMAP_ROWS)[number];

export interface Heatmap {
	start: number; // ns, as the samples' times
	columnNs: number;
	cellNs: number;
	columns: number;
	rows: number;
	cells: Float64Array; // column * rows + row: sums of values
	max: number;
	total: number;
	outside: number; // of samples out of the range, or without a time
}

/** A column and a row of it. */
export interface Cell {
	column: number;
	row: number;
}

export type TimeRange = [from: number, to: number]; // ns, [from, to)

const STEPS = [1, 2, 5, 10, 20, 60, 120, 300, 600, 1800, 3600]; // seconds

/** The shortest column, in ns, with which the length needs no more than HEATMAP_COLUMNS_MAX of them. */
export function columnLength(lengthNs: number): number {
	const fits = STEPS.find((seconds) => lengthNs <= seconds * 1e9 * HEATMAP_COLUMNS_MAX);
	if (fits) return fits * 1e9;
	const hours = Math.ceil(lengthNs / 3600e9 / HEATMAP_COLUMNS_MAX);
	return Number.isFinite(hours) ? hours * 3600e9 : 3600e9;
}

/**
 * Of samples by time and value; picked: 1 for those that are wanted, null for all. The range is [start, end) in whole ns, and what
 * is longer than 2^53 ns, or no number, is empty.
 */
export function buildHeatmap(
	times: ArrayLike<number>,
	values: ArrayLike<number>,
	picked: Uint8Array | null,
	[start, end]: TimeRange,
	rows: HeatmapRows = 50,
): Heatmap {
	const length = end - start > 0 && end - start <= Number.MAX_SAFE_INTEGER ? end - start : 0;
	const columnNs = columnLength(length);
	const cellNs = columnNs / rows;
	const columns = Math.ceil(length / columnNs);
	const map: Heatmap = { start, columnNs, cellNs, columns, rows, cells: new Float64Array(columns * rows), max: 0, total: 0, outside: 0 };
	for (let s = 0; s < times.length; s++) {
		if (picked && !picked[s]) continue;
		const since = times[s] - start;
		if (since >= 0 && since < length) {
			map.cells[Math.floor(since / cellNs)] += values[s];
			map.total += values[s];
		} else {
			map.outside += values[s];
		}
	}
	for (const value of map.cells) map.max = Math.max(map.max, value);
	return map;
}

const clamp = (value: number, max: number): number => Math.min(max, Math.max(0, Math.floor(value)));

const indexOf = (map: Heatmap, cell: Cell): number => clamp(cell.column, map.columns - 1) * map.rows + clamp(cell.row, map.rows - 1);

function rangeOf({ start, cellNs }: Heatmap, first: number, last: number): TimeRange {
	return [start + first * cellNs, start + (last + 1) * cellNs];
}

/** The time from one cell to another, both included, in either order. Cells outside are moved to the edge. */
export function spanRange(map: Heatmap, a: Cell, b: Cell): TimeRange[] {
	if (map.columns === 0) return [];
	const [first, last] = [indexOf(map, a), indexOf(map, b)].sort((x, y) => x - y);
	return [rangeOf(map, first, last)];
}

/** The rectangle between two cells: for each column the rows of it; one range if it is all rows. */
export function boxRanges(map: Heatmap, a: Cell, b: Cell): TimeRange[] {
	if (map.columns === 0) return [];
	const [left, right] = [a.column, b.column].map((column) => clamp(column, map.columns - 1)).sort((x, y) => x - y);
	const [low, high] = [a.row, b.row].map((row) => clamp(row, map.rows - 1)).sort((x, y) => x - y);
	if (low === 0 && high === map.rows - 1) return [rangeOf(map, left * map.rows, right * map.rows + high)];
	const ranges: TimeRange[] = [];
	for (let column = left; column <= right; column++) ranges.push(rangeOf(map, column * map.rows + low, column * map.rows + high));
	return ranges;
}

/** 1 for each sample in one of the ranges, which come by rising time and do not overlap. */
export function pickInRanges(times: ArrayLike<number>, ranges: readonly TimeRange[]): Uint8Array {
	const starts = Float64Array.from(ranges, ([from]) => from);
	return Uint8Array.from({ length: times.length }, (_, s) => {
		let [low, high] = [0, starts.length]; // the first range that starts behind the sample
		while (low < high) {
			const middle = (low + high) >> 1;
			if (starts[middle] <= times[s]) low = middle + 1;
			else high = middle;
		}
		return low > 0 && times[s] < ranges[low - 1][1] ? 1 : 0;
	});
}
