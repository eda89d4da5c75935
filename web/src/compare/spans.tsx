// SPDX-License-Identifier: Apache-2.0
// Cost of both sides over a time that has both, and the two spans that are compared: a drag, or the arrow keys, chooses one of them.
import type { ComponentChildren } from 'preact';
import { useMemo, useRef, useState } from 'preact/hooks';
import type { SeriesResponse } from '../api/responses';
import { formatDateTime, formatRange, seriesScale } from '../base/format';
import * as T from '../base/texts';
import { snap, type Span } from '../chart/brush';
import type { Choices } from '../query/choice';
import { chooseStep, parseTime } from '../state/page';
import { useApi } from '../ui/hooks';
import { press } from '../ui/keymap';
import { sideColor } from './colors';
import { seriesPath, seriesValues } from './lines';

const WIDTH = 1000; // of the drawing, stretched to what there is
const HEIGHT = 100;

type SideName = 'base' | 'head';
const SIDES: SideName[] = ['base', 'head'];

export interface SpansProps {
	choices: Choices;
	around: { from: string; to: string }; // the page's range
	nonce: number;
	ready: boolean;
	dark: boolean;
	narrow: boolean;
	onSpan: (side: SideName, span: Span) => void;
}

const spanOf = (start: string, end: string, now: number): Span | null => {
	const [from, to] = [parseTime(start, now), parseTime(end, now)];
	return from !== null && to !== null && to > from ? { from, to } : null;
};

// Both spans, and what of the page's range is around them.
function useWindow({ choices, around, nonce }: SpansProps): { all: Span; spans: Record<SideName, Span> } | null {
	const { base, head } = choices;
	return useMemo(() => {
		const now = Date.now();
		const spans = [spanOf(base.from, base.to, now), spanOf(head.from, head.to, now), spanOf(around.from, around.to, now)];
		const [a, b] = spans;
		if (!a || !b) return null;
		const known = spans.filter((span): span is Span => span !== null);
		return {
			all: { from: Math.floor(Math.min(...known.map((span) => span.from))), to: Math.ceil(Math.max(...known.map((span) => span.to))) },
			spans: { base: a, head: b },
		};
		// eslint-disable-next-line react-hooks/exhaustive-deps -- nonce: the present moves on
	}, [base.from, base.to, head.from, head.to, around.from, around.to, nonce]);
}

interface Lines {
	top: number; // the value at the upper edge, as measured in a step
	base: string; // paths; one without a selector of its own has none
	head: string;
	response: SeriesResponse | null;
	busy: boolean;
}

function useLines({ choices, nonce, ready }: SpansProps, all: Span | null, stepS: number): Lines {
	const { base, head } = choices;
	const paramsOf = (query: string) => ({ query, from: all?.from, to: all?.to, step: `${stepS}s` });
	const two = base.query !== head.query;
	const headSeries = useApi<SeriesResponse>(ready && all ? 'series' : null, paramsOf(head.query), nonce);
	const baseSeries = useApi<SeriesResponse>(ready && all && two ? 'series' : null, paramsOf(base.query), nonce);
	const paths = useMemo(() => {
		const [of, other] = [headSeries.data, two ? baseSeries.data : null].map((response) => (response ? seriesValues(response) : []));
		const top = [...of, ...other].reduce<number>((most, value) => Math.max(most, value ?? 0), 0);
		return { top, head: seriesPath(of, top, WIDTH, HEIGHT), base: seriesPath(other, top, WIDTH, HEIGHT) };
	}, [headSeries.data, baseSeries.data, two]);
	return { ...paths, response: headSeries.data, busy: headSeries.loading || baseSeries.loading };
}

interface BrushProps {
	all: Span;
	stepMs: number;
	span: Span; // the one that moves
	onDrag: (span: Span | null) => void; // while it is made; null = no more
	onSpan: (span: Span) => void;
	children: ComponentChildren;
}

// A drag makes a span, arrow keys move it by a step, with Shift they move its end.
function Brush({ all, stepMs, span, onDrag, onSpan, children }: BrushProps) {
	const start = useRef<number | null>(null);
	const made = useRef<Span | null>(null);
	const at = (event: PointerEvent & { currentTarget: Element }): number => {
		const { left, width } = event.currentTarget.getBoundingClientRect();
		return all.from + Math.min(1, Math.max(0, (event.clientX - left) / Math.max(1, width))) * (all.to - all.from);
	};
	const finish = () => {
		start.current = made.current = null;
		onDrag(null);
	};
	const onKeyDown = (event: KeyboardEvent) => {
		const go = (from: number, to: number) => () => {
			const next = { from: Math.round(span.from + from * stepMs), to: Math.round(span.to + to * stepMs) };
			if (next.to > next.from) onSpan(next);
		};
		press('spans', event, { left: go(-1, -1), right: go(1, 1), shorter: go(0, -1), longer: go(0, 1) });
	};
	return (
		<div
			class="compare-spans"
			data-testid="compare-spans"
			tabIndex={0}
			role="application"
			aria-roledescription={T.compare.role}
			aria-label={T.compare.describeSpans}
			onKeyDown={onKeyDown}
			onPointerDown={(event) => {
				if (event.button !== 0) return;
				start.current = at(event);
				event.currentTarget.setPointerCapture(event.pointerId);
			}}
			onPointerMove={(event) => {
				if (start.current === null) return;
				made.current = snap(start.current, at(event), stepMs, all);
				onDrag(made.current);
			}}
			onPointerUp={() => {
				const span = made.current;
				finish();
				if (span) onSpan(span);
			}}
			onPointerCancel={finish}
		>
			{children}
		</div>
	);
}

export function Spans(props: SpansProps) {
	const { dark, narrow, onSpan } = props;
	const [side, setSide] = useState<SideName>('head');
	const [drag, setDrag] = useState<Span | null>(null);
	const shown = useWindow(props);
	const stepS = shown ? chooseStep(shown.all.to - shown.all.from, narrow ? 380 : 1000) : 1;
	const lines = useLines(props, shown?.all ?? null, stepS);
	if (!shown) return null;
	const { all } = shown;
	const spans = SIDES.map((name) => ({ name, span: drag && side === name ? drag : shown.spans[name], color: sideColor(name, dark) }));
	const x = (time: number) => (WIDTH * (time - all.from)) / (all.to - all.from);
	const two = lines.base !== '';
	const scale = lines.response && seriesScale(lines.response.type, lines.response.unit, lines.response.step_ms);
	return (
		<section class="compare-time" aria-label={T.compare.spans} aria-busy={lines.busy}>
			<div class="compare-time-head">
				<span class="hint">{T.compare.spans}</span>
				<div class="joined small" role="group" aria-label={T.compare.dragFor}>
					{spans.map(({ name, color }) => (
						<button key={name} type="button" class="button" aria-pressed={side === name} data-testid={`drag-${name}`} onClick={() => setSide(name)}>
							<i class="swatch" style={{ background: color }} aria-hidden="true" />
							{T.compare.graphOf[name]}
						</button>
					))}
				</div>
				<span class="spring" />
				<span class="hint">{scale && lines.top > 0 ? T.compare.most(`${scale.format(scale.of(lines.top))} ${scale.suffix}`) : ''}</span>
			</div>
			<Brush all={all} stepMs={stepS * 1000} span={shown.spans[side]} onDrag={setDrag} onSpan={(span) => onSpan(side, span)}>
				<svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
					{spans.map(({ name, span, color }) => (
						<rect
							key={name}
							class="compare-span"
							x={x(span.from)}
							width={Math.max(1.5, x(span.to) - x(span.from))}
							y={0}
							height={HEIGHT}
							style={{ fill: color, stroke: color }}
						/>
					))}
					{two && <path d={lines.base} style={{ stroke: sideColor('base', dark) }} />}
					<path d={lines.head} class={two ? '' : 'compare-both'} style={two ? { stroke: sideColor('head', dark) } : undefined} />
				</svg>
			</Brush>
			<div class="compare-time-foot" aria-live="polite">
				<span>{formatDateTime(all.from)}</span>
				{spans.map(({ name, span }) => (
					<span key={name} data-testid={`span-${name}`}>
						{T.compare.spanOf(T.compare.graphOf[name], formatRange(span.from, span.to))}
					</span>
				))}
				<span>{formatDateTime(all.to)}</span>
			</div>
		</section>
	);
}
