// SPDX-License-Identifier: Apache-2.0
// Cost of both sides over a time that has both, and the two spans that are compared: a drag, or the arrow keys, chooses one of them.
import { useMemo, useRef, useState } from 'preact/hooks';
import type { SeriesAnswer } from '../api';
import { snap, type Span } from '../brush';
import { formatDateTime, formatRange, seriesScale } from '../format';
import { useApi } from '../hooks';
import { chooseStep, parseTime, type PageState } from '../state';
import * as T from '../texts';
import type { Choices } from './choice';
import { sideColor } from './colors';
import { seriesPath, seriesValues } from './lines';

const WIDTH = 1000; // of the drawing, stretched to what there is
const HEIGHT = 100;

type SideName = 'base' | 'head';
const SIDES: SideName[] = ['base', 'head'];

export interface SpansProps {
	choices: Choices;
	state: PageState;
	nonce: number;
	ready: boolean;
	dark: boolean;
	narrow: boolean;
	onSpan: (side: SideName, span: Span) => void;
}

const spanOf = (of: { from: string; to: string }, now: number): Span | null => {
	const [from, to] = [parseTime(of.from, now), parseTime(of.to, now)];
	return from !== null && to !== null && to > from ? { from, to } : null;
};

// Both spans, and what of the page's range is around them.
function useWindow({ choices, state, nonce }: SpansProps): { all: Span; spans: Record<SideName, Span> } | null {
	const { base, head } = choices;
	return useMemo(() => {
		const now = Date.now();
		const spans = [spanOf(base, now), spanOf(head, now), spanOf(state, now)];
		const [a, b] = spans;
		if (!a || !b) return null;
		const known = spans.filter((span): span is Span => span !== null);
		return {
			all: { from: Math.floor(Math.min(...known.map((span) => span.from))), to: Math.ceil(Math.max(...known.map((span) => span.to))) },
			spans: { base: a, head: b },
		};
	}, [base.from, base.to, head.from, head.to, state.from, state.to, nonce]);
}

export function Spans(props: SpansProps) {
	const { choices, nonce, ready, dark, narrow, onSpan } = props;
	const { base, head } = choices;
	const [side, setSide] = useState<SideName>('head');
	const [drag, setDrag] = useState<Span | null>(null);
	const start = useRef<number | null>(null);
	const surface = useRef<HTMLDivElement>(null);
	const shown = useWindow(props);
	const all = shown?.all ?? { from: 0, to: 1 };
	const step = chooseStep(all.to - all.from, narrow ? 380 : 1000);
	const ask = (query: string) => ({ query, from: all.from, to: all.to, step: `${step}s` });
	const two = base.query !== head.query;
	const headSeries = useApi<SeriesAnswer>(ready && shown ? 'series' : null, ask(head.query), nonce);
	const baseSeries = useApi<SeriesAnswer>(ready && shown && two ? 'series' : null, ask(base.query), nonce);
	const lines = useMemo(() => {
		const [of, other] = [headSeries.data, two ? baseSeries.data : null].map((answer) => (answer ? seriesValues(answer) : []));
		const top = Math.max(...of.map((v) => v ?? 0), ...other.map((v) => v ?? 0), 0);
		return { top, head: seriesPath(of, top, WIDTH, HEIGHT), base: seriesPath(other, top, WIDTH, HEIGHT) };
	}, [headSeries.data, baseSeries.data, two]);
	if (!shown) return null;

	const at = (event: PointerEvent): number => {
		const { left, width } = surface.current!.getBoundingClientRect();
		return all.from + Math.min(1, Math.max(0, (event.clientX - left) / Math.max(1, width))) * (all.to - all.from);
	};
	const spanTo = (event: PointerEvent): Span => snap(start.current!, at(event), step * 1000, all);
	const x = (time: number) => (WIDTH * (time - all.from)) / (all.to - all.from);
	const onKeyDown = (event: KeyboardEvent) => {
		const by = (event.key === 'ArrowLeft' ? -1 : event.key === 'ArrowRight' ? 1 : 0) * step * 1000;
		if (by === 0 || event.ctrlKey || event.metaKey || event.altKey) return;
		event.preventDefault();
		const { from, to } = shown.spans[side];
		const next = { from: Math.round(event.shiftKey ? from : from + by), to: Math.round(to + by) };
		if (next.to > next.from) onSpan(side, next);
	};
	const scale = headSeries.data && seriesScale(headSeries.data.type, headSeries.data.unit, headSeries.data.step_ms);
	return (
		<section class="compare-time" aria-label={T.compare.spans} aria-busy={headSeries.loading || baseSeries.loading}>
			<div class="compare-time-head">
				<span class="hint">{T.compare.spans}</span>
				<div class="joined small" role="group" aria-label={T.compare.dragFor}>
					{SIDES.map((name) => (
						<button key={name} type="button" class="button" aria-pressed={side === name} data-testid={`drag-${name}`} onClick={() => setSide(name)}>
							<i class="swatch" style={{ background: sideColor(name, dark) }} aria-hidden="true" />
							{T.compare.graphOf[name]}
						</button>
					))}
				</div>
				<span class="spring" />
				<span class="hint">{scale && lines.top > 0 ? T.compare.most(`${scale.format(scale.of(lines.top))} ${scale.suffix}`) : ''}</span>
			</div>
			<div
				class="compare-spans"
				ref={surface}
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
				onPointerMove={(event) => start.current !== null && setDrag(spanTo(event))}
				onPointerUp={(event) => {
					if (start.current === null) return;
					const span = drag && spanTo(event);
					start.current = null;
					setDrag(null);
					if (span) onSpan(side, span);
				}}
				onPointerCancel={() => {
					start.current = null;
					setDrag(null);
				}}
			>
				<svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
					{SIDES.map((name) => {
						const { from, to } = drag && side === name ? drag : shown.spans[name];
						return <rect key={name} class="compare-span" x={x(from)} width={Math.max(1.5, x(to) - x(from))} y={0} height={HEIGHT} style={{ fill: sideColor(name, dark), stroke: sideColor(name, dark) }} />;
					})}
					{two && <path d={lines.base} style={{ stroke: sideColor('base', dark) }} />}
					<path d={lines.head} class={two ? '' : 'compare-both'} style={two ? { stroke: sideColor('head', dark) } : undefined} />
				</svg>
			</div>
			<div class="compare-time-foot" aria-live="polite">
				<span>{formatDateTime(all.from)}</span>
				{SIDES.map((name) => {
					const { from, to } = drag && side === name ? drag : shown.spans[name];
					return (
						<span key={name} data-testid={`span-${name}`}>
							{T.compare.spanOf(T.compare.graphOf[name], formatRange(from, to))}
						</span>
					);
				})}
				<span>{formatDateTime(all.to)}</span>
			</div>
		</section>
	);
}
