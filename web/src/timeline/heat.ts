// SPDX-License-Identifier: Apache-2.0
/*
 * The subsecond heatmap on a canvas (../model/heatmap.ts says what it is). It is made of pixels once for a recording, a column's a
 * pixel wide at least, and painted from these; a column of a picture that has fewer pixels than the recording has seconds is the most
 * of those that share it, so that a single spot stays to be seen.
 *
 * Colours go by lightness alone: from that of the background to the other end, through one warm hue.
 */
import type { Cell, Heatmap, TimeRange } from '../model/heatmap';
import { oklch } from '../ui/colors';

export const SHADES = 24;
const CELL_WIDTH_MAX = 32; // CSS pixels: a recording of some seconds is not drawn as wide as the page

/** Colours by rising value; the first is that of nothing. */
export function heatColors(dark: boolean): string[] {
	const [from, to] = dark ? [0.3, 0.93] : [0.93, 0.36];
	const shades = Array.from({ length: SHADES - 1 }, (_, i) => {
		const part = i / (SHADES - 2);
		return oklch(from + (to - from) * part, 0.05 + 0.09 * Math.sin(Math.PI * Math.min(1, 0.2 + part * 0.7)), 65 - 25 * part);
	});
	return [dark ? '#232120' : '#f7f5f2', ...shades];
}

/** Of a value: 0 for none, else at least 1. */
export function shadeOf(value: number, max: number): number {
	if (!(value > 0) || !(max > 0)) return 0;
	return Math.max(1, Math.min(SHADES - 1, Math.ceil((value / max) * (SHADES - 1))));
}

/** How many pictures' columns there are, and how wide all of them are, in CSS pixels. */
export function pictureSize(map: Heatmap, width: number): { columns: number; width: number } {
	const room = Math.max(1, Math.floor(width));
	return { columns: Math.min(map.columns, room), width: Math.min(room, map.columns * CELL_WIDTH_MAX) };
}

/** Shades of the picture by row from the top and column, of so many columns. */
export function pictureOf(map: Heatmap, columns: number): Uint8Array {
	const most = new Float64Array(columns * map.rows);
	for (let c = 0; c < map.columns; c++) {
		const to = Math.min(columns - 1, Math.floor((c * columns) / map.columns));
		for (let r = 0; r < map.rows; r++) {
			const at = (map.rows - 1 - r) * columns + to;
			most[at] = Math.max(most[at], map.cells[c * map.rows + r]);
		}
	}
	return Uint8Array.from(most, (value) => shadeOf(value, map.max));
}

/** The cell at a place in the picture, in parts of its width and height; those outside are at the edge. */
export function cellAt(map: Heatmap, x: number, y: number): Cell {
	const clamp = (value: number, count: number) => Math.max(0, Math.min(count - 1, Math.floor(value * count)));
	return { column: clamp(x, map.columns), row: clamp(1 - y, map.rows) };
}

/** The rows of a column, from the bottom, that are within a range and, if there is one, a part of each column: [first, end), or null. */
export function rowsWithin(map: Heatmap, column: number, [from, to]: TimeRange, part: TimeRange | null = null): [number, number] | null {
	const start = map.start + column * map.columnNs;
	const [low, high] = part ? [Math.floor(part[0] / map.cellNs), Math.ceil(part[1] / map.cellNs)] : [0, map.rows];
	const first = Math.max(0, low, Math.floor((from - start) / map.cellNs));
	const end = Math.min(map.rows, high, Math.ceil((to - start) / map.cellNs));
	return end > first ? [first, end] : null;
}

/** What a rectangle between two cells chooses: the time of its columns, and the part of each, which is null if that is all of it. */
export function boxOf(map: Heatmap, a: Cell, b: Cell, length: number): { range: TimeRange; part: TimeRange | null } {
	const [left, right] = a.column < b.column ? [a.column, b.column] : [b.column, a.column];
	const [low, high] = a.row < b.row ? [a.row, b.row] : [b.row, a.row];
	const whole = low === 0 && high === map.rows - 1;
	return {
		range: [map.start + left * map.columnNs, Math.min(length, map.start + (right + 1) * map.columnNs)],
		part: whole ? null : [low * map.cellNs, (high + 1) * map.cellNs],
	};
}

/** One step with a key, in time or to the next column; null for other keys. */
export function moveCell(map: Heatmap, { column, row }: Cell, key: string): Cell | null {
	const last = map.columns * map.rows - 1;
	const at = column * map.rows + row;
	const to = { ArrowUp: at + 1, ArrowDown: at - 1, ArrowRight: at + map.rows, ArrowLeft: at - map.rows, Home: 0, End: last }[key];
	if (to === undefined || last < 0) return null;
	const kept = Math.max(0, Math.min(last, to));
	return { column: Math.floor(kept / map.rows), row: kept % map.rows };
}

/** Paints on a canvas of so many CSS pixels; what is out of the range, or of the part of each column, fades. */
export function paintHeat(
	canvas: HTMLCanvasElement,
	map: Heatmap,
	size: { width: number; height: number },
	range: TimeRange | null,
	part: TimeRange | null,
	cursor: Cell | null,
	dark: boolean,
): void {
	const ratio = devicePixelRatio || 1;
	const { columns, width } = pictureSize(map, size.width);
	canvas.width = Math.round(size.width * ratio);
	canvas.height = Math.round(size.height * ratio);
	const ctx = canvas.getContext('2d')!;
	ctx.scale(ratio, ratio);
	const colors = heatColors(dark).map((color) => Number.parseInt(color.slice(1), 16));
	const pixels = new ImageData(columns, map.rows);
	pictureOf(map, columns).forEach((shade, i) => {
		const color = colors[shade];
		pixels.data.set([color >> 16, (color >> 8) & 255, color & 255, 255], 4 * i);
	});
	const small = document.createElement('canvas');
	small.width = columns;
	small.height = map.rows;
	small.getContext('2d')!.putImageData(pixels, 0, 0);
	ctx.imageSmoothingEnabled = false;
	ctx.drawImage(small, 0, 0, width, size.height);
	const [columnWidth, rowHeight] = [width / map.columns, size.height / map.rows];
	if (range || part) {
		const whole: TimeRange = [map.start, map.start + map.columns * map.columnNs];
		ctx.fillStyle = dark ? 'rgba(18,17,16,0.72)' : 'rgba(255,255,255,0.72)';
		for (let c = 0; c < map.columns; c++) {
			const rows = rowsWithin(map, c, range ?? whole, part) ?? [0, 0];
			ctx.fillRect(c * columnWidth, 0, columnWidth, (map.rows - rows[1]) * rowHeight);
			ctx.fillRect(c * columnWidth, (map.rows - rows[0]) * rowHeight, columnWidth, rows[0] * rowHeight);
		}
	}
	if (cursor) {
		ctx.strokeStyle = dark ? '#ffffff' : '#1c1917';
		ctx.lineWidth = 1.5;
		ctx.strokeRect(cursor.column * columnWidth - 1, (map.rows - 1 - cursor.row) * rowHeight - 1, Math.max(3, columnWidth) + 2, rowHeight + 2);
	}
}
