// SPDX-License-Identifier: Apache-2.0
/*
 * The tracks of the time line on a canvas: for each thread how busy it was, ticks for instants, and its spans in rows. What is
 * narrower than a pixel is drawn once a pixel: each row is in the order of time, so the next thing to draw is found by halving,
 * and a row of a million spans costs what a row of a thousand does. The canvas is as high as its scroller.
 */
import { lowerBound, type Timeline } from '../api/timeline_data';
import { displayName } from '../base/format';
import { FONT, TextFitter } from '../flame/draw';
import { oklch, palette, type Palette } from '../ui/colors';
import { Drawing } from '../ui/drawing';
import type { Rows, Spans } from './spans';
import type { Range } from './state';
import { extentOf, formatMoment, hueOfCategory } from './text';

export const AXIS = 22;
const ACTIVITY = 26;
const TICKS = 12;
const ROW = 17;
const GAP = 6;
const BIN = 2; // px

export interface Track {
	thread: number;
	y: number;
	headHeight: number; // of a name above, on narrow screens
	height: number;
	open: boolean;
}

export interface Scene {
	t: Timeline;
	spans: Spans;
	rows: Rows[];
	sums: Float64Array; // of the type's values, before each sample
	isTime: boolean; // and they are nanoseconds
	tracks: Track[];
	view: Range;
	range: Range | null; // chosen
	brush: Range | null; // being dragged
	threads: number[]; // chosen
	marker: number;
	hovered: number; // marker
	focused: number;
	isDuring: ((marker: number) => boolean) | null; // the spans of `during`
	dark: boolean;
}

export interface Hit {
	marker: number; // -1 = none
	thread: number; // -1 = none
	time: number;
}

/** Where tracks are. `open`: with their markers. */
export function placeTracks(t: Timeline, rows: Rows[], open: (thread: number) => boolean, narrow: boolean): Track[] {
	let y = 0;
	return t.threads.map((_, thread) => {
		const { ticks, rows: own } = rows[thread];
		const headHeight = narrow ? 20 : 0;
		const markers = open(thread) ? (ticks.length > 0 ? TICKS : 0) + own.length * ROW : 0;
		const track = { thread, y, headHeight, height: headHeight + Math.max(ACTIVITY + markers, 34) + GAP, open: open(thread) };
		y += track.height;
		return track;
	});
}

const ticksTop = (track: Track): number => track.y + track.headHeight + ACTIVITY + 1;
const rowTop = (track: Track, rows: Rows, row: number): number => ticksTop(track) + (rows.ticks.length > 0 ? TICKS : 0) + row * ROW;

export const STEPS = [1, 2, 5];

/** The distance of lines on the axis, in ns: at least `least` px apart. */
export function axisStep(length: number, width: number, least = 90): number {
	const wanted = (length / Math.max(width, 1)) * least;
	const power = 10 ** Math.floor(Math.log10(Math.max(wanted, 1)));
	return (STEPS.find((s) => s * power >= wanted) ?? 10) * power;
}

/** Multiples of a step within a time. Counted: added to a time of months a small step may be nothing. */
export function axisLines([from, to]: Range, step: number): number[] {
	const first = Math.ceil(from / step) * step;
	return Array.from({ length: Math.max(0, Math.ceil((to - first) / step)) }, (_, i) => first + i * step);
}

export class TimeCanvas extends Drawing {
	private context: CanvasRenderingContext2D;
	private axisContext: CanvasRenderingContext2D;
	private scene: Scene | null = null;
	private width = 0;
	private height = 0;
	private fitter: TextFitter | null = null;
	private colors: Palette = palette(false);
	private categories: { fill: string; strong: string }[] = [];
	private flows: Map<number, number[]> | null = null;
	private most = 0;
	private mostFor: [string, Float64Array | null] = ['', null];

	constructor(
		private canvas: HTMLCanvasElement,
		private axis: HTMLCanvasElement,
		private scroller: HTMLElement,
	) {
		super();
		this.context = canvas.getContext('2d', { alpha: false })!;
		this.axisContext = axis.getContext('2d', { alpha: false })!;
		if ('fontKerning' in this.context) this.context.fontKerning = 'none';
	}

	resize(width: number, height: number): void {
		this.width = width;
		this.height = height;
		this.schedule();
	}

	update(scene: Scene): void {
		const was = this.scene;
		this.scene = scene;
		if (was?.t !== scene.t) {
			this.context.font = FONT;
			this.fitter = new TextFitter(this.context, scene.t.strings);
			this.flows = null;
		}
		if (was?.t !== scene.t || was.dark !== scene.dark) {
			this.colors = palette(scene.dark);
			this.categories = scene.t.categories.map((_, i) => {
				const { hue, chroma } = hueOfCategory(scene.t, i);
				return scene.dark
					? { fill: oklch(0.46, chroma * 0.9, hue), strong: oklch(0.74, chroma * 1.2, hue) }
					: { fill: oklch(0.855, chroma * 0.85, hue), strong: oklch(0.56, chroma * 1.4, hue) };
			});
		}
		this.schedule();
	}

	xOf(time: number): number {
		const [from, to] = this.scene!.view;
		return ((time - from) / (to - from)) * this.width;
	}

	timeAt(clientX: number): number {
		const [from, to] = this.scene!.view;
		return from + ((clientX - this.canvas.getBoundingClientRect().left) / this.width) * (to - from);
	}

	// ---- drawing --------------------

	private fit(canvas: HTMLCanvasElement, context: CanvasRenderingContext2D, width: number, height: number): void {
		const ratio = devicePixelRatio || 1;
		const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
		if (canvas.width !== w || canvas.height !== h) {
			canvas.width = w;
			canvas.height = h;
			canvas.style.width = `${width}px`;
			canvas.style.height = `${height}px`;
			if ('fontKerning' in context) context.fontKerning = 'none';
		}
		context.setTransform(ratio, 0, 0, ratio, 0, 0);
		context.font = FONT;
		context.textBaseline = 'middle';
	}

	protected draw(): void {
		const { scene, context, width, height } = this;
		if (!scene || width <= 0 || height <= 0) return;
		this.fit(this.canvas, context, width, height);
		const scroll = this.scroller.scrollTop;
		context.fillStyle = this.colors.background;
		context.fillRect(0, 0, width, height);
		this.drawGrid(height);
		this.findMost();
		context.save();
		context.translate(0, -scroll);
		for (const track of scene.tracks) {
			if (track.y + track.height < scroll || track.y > scroll + height) continue;
			this.drawTrack(track);
		}
		context.restore();
		this.drawRange(context, height);
		context.save();
		context.translate(0, -scroll);
		this.drawFlow();
		context.restore();
		this.drawAxis();
	}

	private drawGrid(height: number): void {
		const { context, width } = this;
		const { view, dark } = this.scene!;
		context.fillStyle = dark ? '#262321' : '#f1eeea';
		for (const at of axisLines(view, axisStep(view[1] - view[0], width))) context.fillRect(Math.round(this.xOf(at)), 0, 1, height);
	}

	private drawAxis(): void {
		const { axisContext: context, width } = this;
		const [from, to] = this.scene!.view;
		this.fit(this.axis, context, width, AXIS);
		context.fillStyle = this.colors.background;
		context.fillRect(0, 0, width, AXIS);
		const step = axisStep(to - from, width);
		context.fillStyle = this.colors.fadedText;
		for (const at of axisLines([from, to], step)) {
			const x = Math.round(this.xOf(at));
			context.fillRect(x, AXIS - 5, 1, 5);
			const label = at === 0 ? '0' : formatMoment(at, step);
			const wide = context.measureText(label).width;
			if (x + wide + 6 < width) context.fillText(label, x + 4, AXIS / 2);
		}
		this.drawRange(context, AXIS);
	}

	// What is outside of the chosen time is dimmed.
	private drawRange(context: CanvasRenderingContext2D, height: number): void {
		const range = this.scene!.brush ?? this.scene!.range;
		if (!range) return;
		const [a, b] = [Math.max(0, this.xOf(range[0])), Math.min(this.width, Math.max(this.xOf(range[1]), this.xOf(range[0]) + 1))];
		context.fillStyle = this.scene!.dark ? 'rgba(18,17,16,0.62)' : 'rgba(247,245,242,0.68)';
		if (a > 0) context.fillRect(0, 0, a, height);
		if (b < this.width) context.fillRect(b, 0, this.width - b, height);
		context.fillStyle = this.scene!.dark ? '#f28b4b' : '#b93c0a';
		if (a > 0) context.fillRect(Math.round(a) - 1, 0, 1, height);
		if (b < this.width) context.fillRect(Math.round(b), 0, 1, height);
	}

	// The sum of values of a thread's samples within a time.
	private amount(thread: number, from: number, to: number): number {
		const { t, sums } = this.scene!;
		const { sampleFirst, sampleEnd } = t.threads[thread];
		const a = lowerBound(t.time, from, sampleFirst, sampleEnd);
		return sums[lowerBound(t.time, to, a, sampleEnd)] - sums[a];
	}

	// What a full column stands for: of times, all of the bin (one CPU); of other values, the highest bin of all tracks.
	private findMost(): void {
		const { view, isTime, sums, tracks } = this.scene!;
		const [from, to] = view;
		const step = ((to - from) / this.width) * BIN;
		const key = `${from} ${to} ${this.width}`;
		if (isTime) this.most = step;
		if (isTime || (this.mostFor[0] === key && this.mostFor[1] === sums)) return;
		this.mostFor = [key, sums];
		this.most = 0;
		for (const { thread } of tracks.slice(0, 200))
			for (let x = 0; x < this.width; x += BIN) {
				const at = from + (x / BIN) * step;
				this.most = Math.max(this.most, this.amount(thread, at, at + step));
			}
	}

	private drawTrack(track: Track): void {
		const { scene, context, width } = this;
		const { rows, threads, dark } = scene!;
		const chosen = threads.length === 0 || threads.includes(track.thread);
		const own = rows[track.thread];
		context.globalAlpha = chosen ? 1 : 0.35;
		this.drawActivity(track);
		if (track.open) {
			this.drawTicks(track, own);
			own.rows.forEach((row, i) => this.drawRow(row, rowTop(track, own, i)));
		}
		context.globalAlpha = 1;
		context.fillStyle = dark ? '#2e2b28' : '#e4dfd8';
		context.fillRect(0, track.y + track.height - 1, width, 1);
	}

	private drawActivity(track: Track): void {
		const { context, width, most } = this;
		const [from, to] = this.scene!.view;
		const step = ((to - from) / width) * BIN;
		const bottom = track.y + track.headHeight + ACTIVITY;
		if (most <= 0) return;
		context.fillStyle = this.scene!.dark ? '#8a5a3a' : '#e0a27e';
		for (let x = 0; x < width; x += BIN) {
			const at = from + (x / width) * (to - from);
			const value = this.amount(track.thread, at, at + step);
			if (value <= 0) continue;
			const h = Math.max(1.5, (ACTIVITY - 4) * Math.min(1, value / most));
			context.fillRect(x, bottom - h, BIN, h);
		}
	}

	private drawTicks(track: Track, own: Rows): void {
		const { t, marker, hovered } = this.scene!;
		const { context } = this;
		const [from, to] = this.scene!.view;
		const y = ticksTop(track);
		const pixel = (to - from) / this.width;
		const time = (i: number) => t.start[own.ticks[i]];
		let i = this.firstTick(own, from);
		while (i < own.ticks.length && time(i) <= to) {
			const x = Math.round(this.xOf(time(i)));
			context.fillStyle = this.categories[t.category[own.ticks[i]]].strong;
			context.fillRect(x - 1, y + 2, 2, TICKS - 4);
			i = this.firstTick(own, time(i) + pixel, i + 1);
		}
		for (const m of [hovered, marker]) {
			if (m < 0 || t.thread[m] !== track.thread || this.spanOf(m) >= 0) continue;
			context.fillStyle = this.colors.text;
			context.fillRect(Math.round(this.xOf(t.start[m])) - 1.5, y, 3, TICKS);
		}
	}

	private firstTick(own: Rows, time: number, first = 0): number {
		const { t } = this.scene!;
		let end = own.ticks.length;
		while (first < end) {
			const middle = (first + end) >>> 1;
			if (t.start[own.ticks[middle]] < time) first = middle + 1;
			else end = middle;
		}
		return first;
	}

	private spanOf(marker: number): number {
		const { spans } = this.scene!;
		return spans.ofMarker[marker] >= 0 ? spans.ofMarker[marker] : spans.partner[marker];
	}

	// The first span of a row that ends after a time.
	private firstSpan(row: Uint32Array, time: number, first = 0): number {
		const { spans } = this.scene!;
		let end = row.length;
		while (first < end) {
			const middle = (first + end) >>> 1;
			if (spans.end[row[middle]] <= time) first = middle + 1;
			else end = middle;
		}
		return first;
	}

	private drawRow(row: Uint32Array, y: number): void {
		const { scene, context, fitter } = this;
		const { t, spans, hovered, marker, focused } = scene!;
		const [from, to] = scene!.view;
		const pixel = (to - from) / this.width;
		let i = this.firstSpan(row, from);
		while (i < row.length && spans.start[row[i]] <= to) {
			const span = row[i];
			const m = spans.marker[span];
			const a = Math.max(-2, this.xOf(spans.start[span]));
			const b = Math.min(this.width + 2, this.xOf(spans.end[span]));
			const w = Math.max(1, b - a > 3 ? b - a - 0.75 : b - a);
			const isDuring = scene!.isDuring !== null && scene!.isDuring(m);
			const color = this.categories[t.category[m]];
			context.fillStyle = w < 3 || isDuring ? color.strong : color.fill;
			context.fillRect(a, y, w, ROW - 2);
			if (w > 22) {
				const shown = Math.max(0, a);
				const text = fitter!.fit(t.name[m], Math.min(this.width, b) - shown - 7);
				context.fillStyle = isDuring ? this.colors.background : this.colors.text;
				if (text !== '') context.fillText(text, shown + 4, y + ROW / 2 - 0.5);
			}
			if (m === hovered) {
				context.fillStyle = this.colors.hover;
				context.fillRect(a, y, w, ROW - 2);
			}
			if (m === marker || m === focused) {
				context.strokeStyle = m === marker ? this.colors.text : this.colors.focus;
				context.lineWidth = 1.5;
				context.strokeRect(a + 0.75, y + 0.75, Math.max(1, w - 1.5), ROW - 3.5);
			}
			// Past this one, and past all that end within its last pixel.
			i = w <= 1 ? Math.max(i + 1, this.firstSpan(row, Math.max(spans.end[span], from) + pixel / 2, i + 1)) : i + 1;
		}
	}

	// ---- flows --------------------

	/** The markers of a marker's flow, by time; empty if it is in none. */
	flowOf(marker: number): number[] {
		const { t } = this.scene!;
		if (marker < 0 || t.flow[marker] === 0) return [];
		if (!this.flows) {
			this.flows = new Map();
			for (let i = 0; i < t.markerCount; i++) {
				if (t.flow[i] === 0) continue;
				const list = this.flows.get(t.flow[i]);
				if (list) list.push(i);
				else this.flows.set(t.flow[i], [i]);
			}
			for (const list of this.flows.values()) list.sort((a, b) => t.start[a] - t.start[b]);
		}
		return this.flows.get(t.flow[marker]) ?? [];
	}

	private yOfMarker(marker: number): number {
		const { t, tracks, rows } = this.scene!;
		const track = tracks[t.thread[marker]];
		if (!track.open) return track.y + track.headHeight + ACTIVITY / 2;
		const own = rows[track.thread];
		const span = this.spanOf(marker);
		if (span < 0) return ticksTop(track) + TICKS / 2;
		const row = Math.max(
			0,
			own.rows.findIndex((r) => r[this.firstSpan(r, this.scene!.spans.start[span])] === span),
		);
		return rowTop(track, own, row) + ROW / 2 - 1;
	}

	private drawFlow(): void {
		const { scene, context } = this;
		const marker = scene!.hovered >= 0 ? scene!.hovered : scene!.marker;
		const flow = this.flowOf(marker).slice(0, 2000);
		if (flow.length < 2) return;
		const points = flow.map((m) => [this.xOf(extentOf(scene!.t, scene!.spans, m)[0]), this.yOfMarker(m)]);
		context.strokeStyle = this.colors.focus;
		context.fillStyle = this.colors.focus;
		context.lineWidth = 1.25;
		context.beginPath();
		points.forEach(([x, y], i) => {
			if (i === 0) context.moveTo(x, y);
			else {
				const [px, py] = points[i - 1];
				const bend = Math.max(12, Math.abs(x - px) / 2);
				context.bezierCurveTo(px + bend, py, x - bend, y, x, y);
			}
		});
		context.stroke();
		for (const [x, y] of points) {
			context.beginPath();
			context.arc(x, y, 3, 0, 2 * Math.PI);
			context.fill();
		}
	}

	// ---- what is where --------------------

	hit({ clientX, clientY }: { clientX: number; clientY: number }): Hit {
		const { scene } = this;
		const corner = this.canvas.getBoundingClientRect();
		const y = clientY - corner.top + this.scroller.scrollTop;
		const time = this.timeAt(clientX);
		const track = scene!.tracks.find((one) => y >= one.y && y < one.y + one.height);
		if (!track) return { marker: -1, thread: -1, time };
		const marker = track.open ? this.markerAt(track, y, time) : -1;
		return { marker, thread: track.thread, time };
	}

	private markerAt(track: Track, y: number, time: number): number {
		const { t, spans, rows, view } = this.scene!;
		const own = rows[track.thread];
		const near = ((view[1] - view[0]) / this.width) * 4;
		if (own.ticks.length > 0 && y >= ticksTop(track) && y < ticksTop(track) + TICKS) {
			const i = this.firstTick(own, time);
			const around = [i - 1, i].filter((k) => k >= 0 && k < own.ticks.length && Math.abs(t.start[own.ticks[k]] - time) <= near);
			around.sort((a, b) => Math.abs(t.start[own.ticks[a]] - time) - Math.abs(t.start[own.ticks[b]] - time));
			return around.length > 0 ? own.ticks[around[0]] : -1;
		}
		const row = Math.floor((y - rowTop(track, own, 0)) / ROW);
		if (row < 0 || row >= own.rows.length) return -1;
		const list = own.rows[row];
		const i = this.firstSpan(list, time - near / 4);
		if (i < list.length && spans.start[list[i]] <= time + near / 4) return spans.marker[list[i]];
		return -1;
	}

	/** Scrolls to a marker's track. */
	reveal(marker: number): void {
		const y = this.yOfMarker(marker);
		const at = this.scroller.scrollTop;
		if (y < at + 10) this.scroller.scrollTop = y - 30;
		else if (y > at + this.height - 10) this.scroller.scrollTop = y - this.height + 40;
	}

	/** For tests: where a marker is, in page coordinates; null if it is not in view. */
	rectOf(marker: number): { x: number; y: number; width: number; height: number } | null {
		const { scene } = this;
		if (!scene || marker < 0 || !scene.tracks[scene.t.thread[marker]]?.open) return null;
		const corner = this.canvas.getBoundingClientRect();
		const [from, to] = extentOf(scene.t, scene.spans, marker);
		const [a, b] = [Math.max(0, this.xOf(from)), Math.min(this.width, this.xOf(to))];
		if (b < 0 || a > this.width) return null;
		const y = this.yOfMarker(marker) - this.scroller.scrollTop;
		return { x: corner.left + a, y: corner.top + y - ROW / 2, width: Math.max(1, b - a), height: ROW - 2 };
	}

	name(marker: number): string {
		const { t } = this.scene!;
		return displayName(t.strings[t.name[marker]], 120);
	}
}
