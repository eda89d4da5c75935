// SPDX-License-Identifier: Apache-2.0
/*
 * The choice of a part of the metrics graph's range: a drag over it, a click on a step, keys. It listens on what holds the plot, not
 * on the plot: a refresh in the middle of a drag may put another plot in its place, with another range, and the drag goes on. So
 * what a drag began at is a time, which moves with the range; where it ends is the pointer's place.
 */
import type uPlot from 'uplot';

export interface Span {
	from: number; // unix ms
	to: number;
}

export interface Brushed {
	chart: { times: readonly number[]; stepMs: number };
	range: Span;
	selection: Span | null;
	pickSteps?: boolean; // a click chooses a step; without, it gives back the whole
	onSelect: (span: Span | null) => void;
}

/** Whole steps: what the graph shows of a selection and what the profile of it holds are then the same samples. */
export function snap(a: number, b: number, stepMs: number, range: Span): Span {
	const [low, high] = a < b ? [a, b] : [b, a];
	const from = Math.floor(low / stepMs) * stepMs;
	const to = Math.ceil(high / stepMs) * stepMs;
	return {
		from: Math.max(Math.round(range.from), from),
		to: Math.min(Math.round(range.to), Math.max(to, from + stepMs)),
	};
}

/** What a click at a time leads to: that step; or, where that is the selection already, the whole (null). undefined: nothing. */
export function clicked(at: number, { chart, range, selection, pickSteps }: Omit<Brushed, 'onSelect'>): Span | null | undefined {
	if (!pickSteps) return selection ? null : undefined;
	const step = snap(at, at, chart.stepMs, range);
	if (step.to <= step.from) return undefined;
	return selection && selection.from === step.from && selection.to === step.to ? null : step;
}

/**
 * What a key leads to. Arrow keys move the selection by a step, with Shift they move its end; without one, they make one at the newest
 * data. Enter takes the last step of it, Home and End the first and the last of all. undefined: nothing.
 */
export function keyed(key: string, shift: boolean, props: Omit<Brushed, 'onSelect'>): Span | null | undefined {
	const { chart, range, selection } = props;
	const step = chart.stepMs;
	if (key === 'Escape') return selection ? null : undefined;
	const times = chart.times;
	if (key === 'Home' || key === 'End' || key === 'Enter') {
		if (times.length === 0) return undefined;
		const last = key === 'Enter' && selection ? selection.to - step : times[times.length - 1] * 1000;
		const first = times[0] * 1000 < range.from && times.length > 1 ? times[1] : times[0]; // one that is not cut
		const at = key === 'Home' ? first * 1000 : last;
		return snap(at, at, step, range);
	}
	const by = key === 'ArrowLeft' ? -step : key === 'ArrowRight' ? step : 0;
	if (by === 0) return undefined;
	const whole = snap(range.from + step, range.to - step, step, range);
	let { from, to } = selection ?? { from: Math.max(whole.from, whole.to - 10 * step), to: whole.to };
	if (selection) {
		if (!shift) from += by;
		to += by;
	}
	if (from < range.from - step || to > range.to + step || to <= from) return undefined;
	return { from, to };
}

function paint(plot: uPlot, span: Span | null): void {
	const left = span ? Math.max(0, plot.valToPos(span.from / 1000, 'x')) : 0;
	const right = span ? Math.min(plot.over.clientWidth, plot.valToPos(span.to / 1000, 'x')) : 0;
	plot.root.classList.toggle('has-selection', span !== null);
	plot.setSelect({ left, top: 0, width: Math.max(0, right - left), height: plot.over.clientHeight }, false);
}

export interface Brush {
	show: () => void; // paints the selection, or what the drag that goes on would make it
	detach: () => void;
}

const CLICK_PX = 3; // a pointer that moves less has not moved

/** Listens on `host`, which holds the plot of the moment. */
export function attachBrush(host: HTMLElement, plot: { current: uPlot | null }, latest: { current: Brushed }): Brush {
	let start: number | null = null; // unix ms
	let [startX, lastX] = [0, 0]; // in the window
	let moved = false;
	const timeAt = (x: number): number | null => {
		if (!plot.current) return null;
		const { left, width } = plot.current.over.getBoundingClientRect();
		return plot.current.posToVal(Math.min(width, Math.max(0, x - left)), 'x') * 1000;
	};
	const dragged = (): Span | null => {
		const end = timeAt(lastX);
		const { chart, range } = latest.current;
		return start === null || end === null ? null : snap(start, end, chart.stepMs, range);
	};
	const show = () => {
		if (plot.current) paint(plot.current, start !== null && moved ? dragged() : latest.current.selection);
	};
	const down = (event: PointerEvent) => {
		if (event.button !== 0 || !plot.current?.over.contains(event.target as Node)) return;
		start = timeAt(event.clientX);
		startX = lastX = event.clientX;
		moved = false;
		host.setPointerCapture(event.pointerId);
	};
	const move = (event: PointerEvent) => {
		if (start === null) return;
		lastX = event.clientX;
		if (Math.abs(lastX - startX) > CLICK_PX) moved = true;
		if (moved) show();
	};
	const up = (event: PointerEvent) => {
		if (start === null) return;
		lastX = event.clientX;
		const chosen = moved ? dragged() : clicked(start, latest.current);
		start = null;
		if (chosen !== undefined) latest.current.onSelect(chosen);
		show();
	};
	const cancel = () => {
		start = null;
		show();
	};
	const listeners: [string, (event: PointerEvent) => void][] = [
		['pointerdown', down],
		['pointermove', move],
		['pointerup', up],
		['pointercancel', cancel],
	];
	for (const [name, listener] of listeners) host.addEventListener(name, listener as EventListener);
	return {
		show,
		detach: () => {
			for (const [name, listener] of listeners) host.removeEventListener(name, listener as EventListener);
		},
	};
}
