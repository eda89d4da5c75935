// SPDX-License-Identifier: Apache-2.0
// Cost over time, with a brush: drag to look at a part of the range, Escape or a click to have the whole again.
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { digits, formatClock, formatDateTime, formatDay, type Scale } from './format';
import { seriesColor } from './flame/colors';
import { useSize } from './hooks';
import { stack, type Chart, type ChartSeries } from './series';
import * as T from './texts';

export interface Span {
	from: number; // unix ms
	to: number;
}

export interface MetricsProps {
	chart: Chart;
	range: Span;
	scale: Scale;
	stacked: boolean;
	dark: boolean;
	selection: Span | null;
	onSelect: (span: Span | null) => void;
}

const FONT = '11px system-ui, -apple-system, "Segoe UI", Roboto, Ubuntu, Cantarell, "Noto Sans", sans-serif';

// uPlot wants one more point to draw the last step at its full width.
function plotData(chart: Chart, stacked: boolean): uPlot.AlignedData {
	const { times, series, stepMs } = chart;
	const columns = stacked ? stack(series, times.length).reverse() : series.map((s) => s.values);
	if (times.length === 0) return [times, ...columns];
	const last = times[times.length - 1] + stepMs / 1000;
	return [[...times, last], ...columns.map((c) => [...c, c[c.length - 1]])];
}

function plotSeries(series: ChartSeries[], stacked: boolean, dark: boolean): uPlot.Series[] {
	const stepped = uPlot.paths.stepped!({ align: 1 });
	const order = stacked ? series.slice().reverse() : series;
	return order.map((s) => {
		const color = seriesColor(s.color, dark);
		const fill = stacked ? color : undefined;
		return {
			label: s.title,
			stroke: color,
			fill,
			width: stacked ? 0 : 1.5,
			paths: stepped,
			points: { show: false },
			spanGaps: false,
		};
	});
}

// Ticks of the time axis: the clock, and the day where it changes.
function timeLabels(_: uPlot, splits: number[], __: number, ___: number, increment: number): string[] {
	let day = '';
	return splits.map((t) => {
		const today = formatDay(t * 1000);
		const midnight = increment >= 86400 || formatClock(t * 1000) === '00:00:00';
		const named = midnight || (day !== '' && day !== today);
		day = today;
		return named ? today : formatClock(t * 1000, increment < 60);
	});
}

function options(
	props: MetricsProps,
	width: number,
	height: number,
	onCursor: (index: number | null) => void,
): uPlot.Options {
	const { dark, range, scale } = props;
	const [ink, grid] = dark ? ['#a8a097', '#2b2825'] : ['#6b645b', '#ece8e2'];
	const axis = { stroke: ink, font: FONT, grid: { stroke: grid, width: 1 }, ticks: { show: false } };
	return {
		width,
		height,
		padding: [6, 18, 0, 0],
		legend: { show: false },
		cursor: { y: false, points: { show: false }, drag: { x: false, y: false, setScale: false } },
		select: { show: true, left: 0, top: 0, width: 0, height: 0 },
		scales: {
			x: { time: true, range: () => [range.from / 1000, range.to / 1000] },
			y: { range: (_, __, max) => [0, max > 0 ? max * 1.06 : 1] },
		},
		axes: [
			{ ...axis, size: 24, gap: 6, space: 70, values: timeLabels },
			{
				...axis,
				size: axisWidth(scale),
				gap: 4,
				space: 28,
				incrs: scale.binary ? BINARY : undefined,
				values: (_, splits) => splits.map((v) => (v === 0 ? '0' : tick(v, scale))),
			},
		],
		series: [{}, ...plotSeries(props.chart.series, props.stacked, dark)],
		hooks: { setCursor: [(plot) => onCursor(plot.cursor.left! >= 0 ? (plot.cursor.idx ?? null) : null)] },
	};
}

// Round figures of bytes are powers of two.
const BINARY = Array.from({ length: 60 }, (_, i) => 2 ** i);
const axisWidth = (scale: Scale) => (scale.cores ? 46 : 64);

function tick(value: number, scale: Scale): string {
	return scale.cores
		? String(Number(value.toPrecision(6)))
		: scale.format(value).replace(/\.0+(?= |$)/, '');
}

// ---- brush --------------------

// Whole steps: what the graph shows of a selection and what the profile of it holds are then the same samples.
export function snap(a: number, b: number, stepMs: number, range: Span): Span {
	const [low, high] = a < b ? [a, b] : [b, a];
	const from = Math.floor(low / stepMs) * stepMs;
	const to = Math.ceil(high / stepMs) * stepMs;
	return {
		from: Math.max(Math.round(range.from), from),
		to: Math.min(Math.round(range.to), Math.max(to, from + stepMs)),
	};
}

function showSpan(plot: uPlot, span: Span | null): void {
	const left = span ? Math.max(0, plot.valToPos(span.from / 1000, 'x')) : 0;
	const right = span ? Math.min(plot.over.clientWidth, plot.valToPos(span.to / 1000, 'x')) : 0;
	plot.root.classList.toggle('has-selection', span !== null);
	plot.setSelect({ left, top: 0, width: Math.max(0, right - left), height: plot.over.clientHeight }, false);
}

// Listens on the plot's surface; returns what takes the listeners away.
function attachBrush(plot: uPlot, latest: { current: MetricsProps }): () => void {
	const surface = plot.over;
	let start: number | null = null;
	let moved = false;
	const place = (event: PointerEvent) => {
		const { left, width } = surface.getBoundingClientRect();
		return Math.min(width, Math.max(0, event.clientX - left));
	};
	const spanTo = (x: number): Span => {
		const { chart, range } = latest.current;
		return snap(plot.posToVal(start!, 'x') * 1000, plot.posToVal(x, 'x') * 1000, chart.stepMs, range);
	};
	const down = (event: PointerEvent) => {
		if (event.button !== 0) return;
		start = place(event);
		moved = false;
		surface.setPointerCapture(event.pointerId);
	};
	const move = (event: PointerEvent) => {
		if (start === null) return;
		const x = place(event);
		if (Math.abs(x - start) > 3) moved = true;
		if (moved) showSpan(plot, spanTo(x));
	};
	const up = (event: PointerEvent) => {
		if (start === null) return;
		const span = moved ? spanTo(place(event)) : null;
		start = null;
		if (span || latest.current.selection) latest.current.onSelect(span);
	};
	const cancel = () => {
		start = null;
		showSpan(plot, latest.current.selection);
	};
	surface.addEventListener('pointerdown', down);
	surface.addEventListener('pointermove', move);
	surface.addEventListener('pointerup', up);
	surface.addEventListener('pointercancel', cancel);
	return () => {
		surface.removeEventListener('pointerdown', down);
		surface.removeEventListener('pointermove', move);
		surface.removeEventListener('pointerup', up);
		surface.removeEventListener('pointercancel', cancel);
	};
}

// Arrow keys move the selection by a step, with Shift they move its end; without one, they make one at the newest data.
function brushByKey(key: string, shift: boolean, props: MetricsProps): Span | null | undefined {
	const { chart, range, selection, onSelect } = props;
	const step = chart.stepMs;
	if (key === 'Escape') {
		if (!selection) return undefined;
		onSelect(null);
		return null;
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
	onSelect({ from, to });
	return { from, to };
}

// ---- component --------------------

function Readout({ index, chart, scale, stacked, dark }: MetricsProps & { index: number }) {
	const rows = chart.series
		.map((s) => ({ ...s, value: s.values[index] ?? null }))
		.filter((r) => r.value !== null && r.value > 0);
	rows.sort((a, b) => b.value! - a.value!);
	const total = rows.reduce((sum, r) => sum + r.value!, 0);
	return (
		<div class="readout">
			<div class="readout-time">{formatDateTime(chart.times[index] * 1000)}</div>
			{stacked && rows.length !== 1 && (
				<div class="readout-row readout-total">
					<span>{T.chart.total}</span>
					<span>{`${scale.format(total)} ${scale.suffix}`}</span>
				</div>
			)}
			{rows.slice(0, 10).map((r) => (
				<div class="readout-row" key={r.title}>
					<i class="swatch" style={{ background: seriesColor(r.color, dark) }} />
					<span class="readout-name">{r.title}</span>
					<span>{scale.format(r.value!)}</span>
				</div>
			))}
			{rows.length === 0 && <div class="readout-row">{T.chart.noSamples}</div>}
		</div>
	);
}

export function Metrics(props: MetricsProps) {
	const { chart, range, scale, stacked, dark, selection } = props;
	const host = useRef<HTMLDivElement>(null);
	const plot = useRef<uPlot | null>(null);
	const latest = useRef(props);
	latest.current = props;
	const [measure, width, height] = useSize<HTMLDivElement>();
	const [cursor, setCursor] = useState<number | null>(null);
	const names = useMemo(() => chart.series.map((s) => `${s.title}\n${s.color}`).join('\n\n'), [chart]);

	// What cannot change in a living plot makes a new one: the series, their colours, the way they are drawn.
	useLayoutEffect(() => {
		measure(host.current);
		return () => measure(null);
	}, []);
	useLayoutEffect(() => {
		if (width === 0) return undefined;
		const setup = options(latest.current, width, height, setCursor);
		// Read at each draw: the range moves on while the plot lives.
		setup.scales!.x!.range = () => [latest.current.range.from / 1000, latest.current.range.to / 1000];
		const made = new uPlot(setup, plotData(latest.current.chart, stacked), host.current!);
		plot.current = made;
		const detach = attachBrush(made, latest);
		showSpan(made, latest.current.selection);
		return () => {
			detach();
			made.destroy();
			plot.current = null;
		};
	}, [names, stacked, dark, scale.name, width === 0]);
	useEffect(() => {
		if (plot.current && width > 0) plot.current.setSize({ width, height });
		if (plot.current) showSpan(plot.current, latest.current.selection);
	}, [width, height]);
	useEffect(() => {
		if (!plot.current) return;
		plot.current.setData(plotData(chart, stacked));
		showSpan(plot.current, selection);
	}, [chart, stacked, selection?.from, selection?.to, range.from, range.to]);

	const index = cursor === null ? null : Math.min(cursor, chart.times.length - 1);
	const left =
		plot.current && index !== null && index >= 0
			? plot.current.valToPos(chart.times[index], 'x') + axisWidth(scale)
			: 0;
	const peak = Math.max(0, ...chart.series.flatMap((s) => s.values.map((v) => v ?? 0)));
	return (
		<div
			class="metrics-plot"
			data-testid="metrics"
			tabIndex={0}
			role="application"
			aria-roledescription={T.chart.role}
			aria-label={T.chart.describe(chart.series.length, scale.name, digits(peak))}
			onKeyDown={(event) => {
				if (event.ctrlKey || event.metaKey || event.altKey) return;
				if (brushByKey(event.key, event.shiftKey, latest.current) === undefined) return;
				event.preventDefault();
				event.stopPropagation();
			}}
		>
			<div class="metrics-host" ref={host} />
			{index !== null && index >= 0 && (
				<div class={left > width / 2 ? 'readout-at readout-left' : 'readout-at'} style={{ left: `${left}px` }}>
					<Readout {...props} index={index} />
				</div>
			)}
		</div>
	);
}
