// SPDX-License-Identifier: Apache-2.0
// Cost over time; a part of it is chosen as brush.ts says.
import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { digits, displayName, formatClock, formatDateTime, formatDay, type Scale } from '../base/format';
import * as T from '../base/texts';
import { zoneName } from '../base/zone';
import { seriesId, stack, stepAt, type Chart } from '../model/series';
import { fadedColor, seriesColor } from '../ui/colors';
import { useSize } from '../ui/hooks';
import { press } from '../ui/keymap';
import { ticksWithin, type TickRow } from './annotations';
import { attachBrush, keyed, type Brush, type Brushed } from './brush';

export interface MetricsProps extends Brushed {
	chart: Chart;
	scale: Scale;
	stacked: boolean;
	dark: boolean;
	highlight?: string | null; // the series (seriesId) beside which the others fade
	ticks?: readonly TickRow[]; // markers, drawn at the foot, TICK_ROWS at most
	overlay?: (place: (ms: number) => number) => ComponentChildren; // over the plot; `place` is in pixels from the left
}

const FONT = '11px system-ui, -apple-system, "Segoe UI", Roboto, Ubuntu, Cantarell, "Noto Sans", sans-serif';

const PADDING_RIGHT = 18;
const TICK_ROWS = 6; // of markers
const TICK_HEIGHT = 5; // CSS pixels, with the gap

// Markers in rows at the foot of the plot: bars of spans, and bars of a pixel and a half of instants.
function drawTicks(plot: uPlot, rows: readonly TickRow[], dark: boolean): void {
	const { ctx, bbox } = plot;
	const ratio = devicePixelRatio || 1;
	ctx.save();
	ctx.beginPath();
	ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
	ctx.clip();
	rows.slice(0, TICK_ROWS).forEach((row, r) => {
		const top = bbox.top + bbox.height - (r + 1) * TICK_HEIGHT * ratio;
		for (const color of [dark ? '#1a1817' : '#ffffff', dark ? '#f4f1ec' : '#1f1b16']) {
			ctx.fillStyle = color;
			const rim = color.endsWith(dark ? '17' : 'ff') ? ratio : 0;
			for (const { from, to } of row.ticks) {
				const left = plot.valToPos(from / 1000, 'x', true);
				const width = Math.max(1.5 * ratio, plot.valToPos(to / 1000, 'x', true) - left);
				ctx.fillRect(left - rim, top - rim, width + 2 * rim, (TICK_HEIGHT - 2) * ratio + 2 * rim);
			}
		}
	});
	ctx.restore();
}

// uPlot wants one more point to draw the last step at its full width.
function plotData(chart: Chart, stacked: boolean): uPlot.AlignedData {
	const { times, series, stepMs } = chart;
	const columns = stacked ? stack(series, times.length).reverse() : series.map((s) => s.values);
	if (times.length === 0) return [times, ...columns];
	const last = times[times.length - 1] + stepMs / 1000;
	return [[...times, last], ...columns.map((c) => [...c, c[c.length - 1]])];
}

// Colours are asked for at each drawing: what is highlighted changes while the plot lives.
function plotSeries(latest: { current: MetricsProps }): uPlot.Series[] {
	const { chart, stacked, dark } = latest.current;
	const stepped = uPlot.paths.stepped!({ align: 1 });
	const order = stacked ? chart.series.slice().reverse() : chart.series;
	return order.map((s) => {
		const own = seriesColor(s.color, dark);
		const faded = fadedColor(own, dark);
		const color = () => {
			const only = latest.current.highlight ?? null;
			return only === null || only === seriesId(s) ? own : faded;
		};
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

function options(latest: { current: MetricsProps }, width: number, height: number, onCursor: (index: number | null) => void): uPlot.Options {
	const { dark, scale } = latest.current;
	const [ink, grid] = dark ? ['#a8a097', '#2b2825'] : ['#6b645b', '#ece8e2'];
	const axis = { stroke: ink, font: FONT, grid: { stroke: grid, width: 1 }, ticks: { show: false } };
	return {
		width,
		height,
		padding: [6, PADDING_RIGHT, 0, 0],
		legend: { show: false },
		cursor: { y: false, points: { show: false }, drag: { x: false, y: false, setScale: false } },
		select: { show: true, left: 0, top: 0, width: 0, height: 0 },
		scales: {
			// Read at each draw: the range moves on while the plot lives.
			x: { time: true, range: () => [latest.current.range.from / 1000, latest.current.range.to / 1000] },
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
		series: [{}, ...plotSeries(latest)],
		hooks: {
			draw: [(plot) => drawTicks(plot, latest.current.ticks ?? [], dark)],
			setCursor: [(plot) => onCursor(plot.cursor.left! >= 0 ? stepAt(latest.current.chart, plot.posToVal(plot.cursor.left!, 'x')) : null)],
		},
	};
}

// Round figures of bytes are powers of two.
const BINARY = Array.from({ length: 60 }, (_, i) => 2 ** i);
const axisWidth = (scale: Scale) => (scale.cores ? 46 : 64);

function tick(value: number, scale: Scale): string {
	return scale.cores ? String(Number(value.toPrecision(6))) : scale.format(value).replace(/\.0+(?= |$)/, '');
}

// ---- component --------------------

function Readout({ index, chart, scale, stacked, dark, ticks }: MetricsProps & { index: number }) {
	const rows = chart.series.map((s) => ({ ...s, value: s.values[index] ?? null })).filter((r) => r.value !== null && r.value > 0);
	rows.sort((a, b) => b.value! - a.value!);
	const total = rows.reduce((sum, r) => sum + r.value!, 0);
	const at = chart.times[index] * 1000;
	const marked = ticksWithin(ticks ?? [], at, at + chart.stepMs);
	return (
		<div class="readout">
			<div class="readout-time">
				{formatDateTime(at)} {zoneName(at)}
			</div>
			{stacked && rows.length > 1 && (
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
			{marked.map(({ name, count, hosts }) => (
				<div class="readout-row readout-mark" key={name}>
					<i class="tick" />
					<span class="readout-name">{displayName(name, 120)}</span>
					<span>
						{T.chart.marks(
							count,
							hosts
								.slice(0, 3)
								.map((host) => displayName(host, 40))
								.join(', '),
							hosts.length > 3,
						)}
					</span>
				</div>
			))}
		</div>
	);
}

export function Metrics(props: MetricsProps) {
	const { chart, range, scale, stacked, dark, selection, highlight, ticks, overlay } = props;
	const host = useRef<HTMLDivElement>(null);
	const plot = useRef<uPlot | null>(null);
	const latest = useRef(props);
	latest.current = props;
	const brush = useRef<Brush | null>(null);
	const [measure, width, height] = useSize<HTMLDivElement>();
	const [cursor, setCursor] = useState<number | null>(null);
	const names = useMemo(() => chart.series.map((s) => `${s.title}\n${s.color}`).join('\n\n'), [chart]);

	// What cannot change in a living plot makes a new one: the series, their colours, the way they are drawn.
	useLayoutEffect(() => {
		measure(host.current);
		brush.current = attachBrush(host.current!, plot, latest);
		return () => {
			brush.current?.detach();
			measure(null);
		};
	}, [measure]);
	const hasWidth = width > 0;
	useLayoutEffect(() => {
		if (!hasWidth) return undefined;
		const made = new uPlot(options(latest, width, height, setCursor), plotData(latest.current.chart, stacked), host.current!);
		plot.current = made;
		brush.current?.show();
		return () => {
			made.destroy();
			plot.current = null;
		};
		// eslint-disable-next-line react-hooks/exhaustive-deps -- a living plot takes on another size, below
	}, [names, stacked, dark, scale.name, hasWidth, zoneName(range.from), zoneName(range.to)]);
	useEffect(() => {
		if (plot.current && width > 0) plot.current.setSize({ width, height });
		brush.current?.show();
	}, [width, height]);
	useEffect(() => {
		plot.current?.setData(plotData(chart, stacked));
		brush.current?.show();
	}, [chart, stacked, selection?.from, selection?.to, range.from, range.to]);
	useEffect(() => plot.current?.redraw(false, false), [highlight, ticks]);

	const place = (ms: number) => axisWidth(scale) + ((ms - range.from) / Math.max(1, range.to - range.from)) * (width - axisWidth(scale) - PADDING_RIGHT);
	const index = cursor === null || cursor >= chart.times.length ? null : cursor;
	const left = plot.current && index !== null && index >= 0 ? plot.current.valToPos(chart.times[index], 'x') + axisWidth(scale) : 0;
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
				if (event.target !== event.currentTarget) return;
				const go =
					(key: string, shift = false) =>
					() => {
						const chosen = keyed(key, shift, latest.current);
						if (chosen === undefined) return false;
						props.onSelect(chosen);
						return true;
					};
				press('chart', event, {
					left: go('ArrowLeft'),
					right: go('ArrowRight'),
					shorter: go('ArrowLeft', true),
					longer: go('ArrowRight', true),
					last: go('Enter'),
					first: go('Home'),
					newest: go('End'),
					all: go('Escape'),
				});
			}}
		>
			<div class="metrics-host" ref={host} />
			{width > 0 && overlay?.(place)}
			{index !== null && index >= 0 && (
				<div class={left > width / 2 ? 'readout-at readout-left' : 'readout-at'} style={{ left: `${left}px` }}>
					<Readout {...props} index={index} />
				</div>
			)}
		</div>
	);
}
