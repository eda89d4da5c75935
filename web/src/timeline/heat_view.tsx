// SPDX-License-Identifier: Apache-2.0
// The subsecond heatmap above the tracks: a drag from one moment to another chooses the time between them, as a drag over the tracks does; with
// Shift, the rectangle: the same part of each of some seconds.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { Timeline } from '../api/timeline_data';
import { formatValue } from '../base/format';
import * as T from '../base/texts';
import { buildHeatmap, spanRange, type Cell, type Heatmap } from '../model/heatmap';
import { useSize } from '../ui/hooks';
import { press } from '../ui/keymap';
import { boxOf, cellAt, heatColors, moveCell, paintHeat, pictureSize } from './heat';
import { isCalled, pickSamples } from './narrow';
import { innermost, type Spans } from './spans';
import type { Range, SetTime, TimeState } from './state';
import { formatMoment, formatNs } from './text';

const HEIGHT = 150; // CSS pixels

interface HeatProps {
	t: Timeline;
	spans: Spans;
	type: number;
	unit: string;
	state: TimeState;
	set: SetTime;
	dark: boolean;
}

type Choice = Pick<TimeState, 'range' | 'part'>;

// Of the samples that are chosen otherwise than by time.
function useHeatmap({ t, spans, type, state: { threads, during } }: HeatProps): Heatmap {
	const inDuring = useMemo(() => {
		if (during === '') return null;
		const wanted = isCalled(t, during);
		return innermost(t, spans, (span) => wanted(spans.marker[span]));
	}, [t, spans, during]);
	return useMemo(() => {
		const picked = threads.length > 0 || inDuring ? pickSamples(t, { threads, range: null, during, bySpan: false }, inDuring) : null;
		return buildHeatmap(t.time, t.types[type].values, picked, [0, t.length + 1]);
	}, [t, type, threads, during, inDuring]);
}

const shownOf = ({ range, part }: Choice): [Range | null, Range | null] => [range, part];

export function HeatView(props: HeatProps) {
	const { t, unit, state, set, dark } = props;
	const map = useHeatmap(props);
	const canvas = useRef<HTMLCanvasElement>(null);
	const [measure, width] = useSize<HTMLDivElement>();
	const host = useRef<HTMLDivElement>(null);
	const [hovered, setHovered] = useState<Cell | null>(null);
	const [cursor, setCursor] = useState<Cell | null>(null);
	const anchor = useRef<Cell | null>(null); // where a drag, or a choice with Shift, began
	const [brush, setBrush] = useState<Choice | null>(null);
	const dragging = useRef(false);
	useLayoutEffect(() => {
		measure(host.current);
		return () => measure(null);
	}, [measure]);
	const { range, part } = state;
	useEffect(() => {
		if (width > 0) paintHeat(canvas.current!, map, { width, height: HEIGHT }, ...shownOf(brush ?? { range, part }), cursor, dark);
	}, [map, width, brush, range, part, cursor, dark]);

	const rangeOf = (a: Cell, b: Cell): Range | null => {
		const [range] = spanRange(map, a, b);
		return range ? [range[0], Math.min(range[1], t.length + 1)] : null;
	};
	const between = (a: Cell, b: Cell, box: boolean): Choice => (box ? boxOf(map, a, b, t.length + 1) : { range: rangeOf(a, b), part: null });
	const choose = (choice: Choice) => {
		const same = String(shownOf(choice)) === String(shownOf(state));
		set({ ...(same ? { range: null, part: null } : choice), marker: -1 });
	};
	// The part of each column that the range has in its own, or the cursor's; taken back if there is one.
	const everyColumn = () => {
		const within = state.range && Math.floor((state.range[0] - map.start) / map.columnNs);
		const inOne = state.range !== null && state.range[1] <= map.start + (within! + 1) * map.columnNs;
		const range = inOne ? state.range : cursor && rangeOf(cursor, cursor);
		if (state.part) set({ part: null });
		else if (range) set({ range: null, marker: -1, part: [(range[0] - map.start) % map.columnNs, ((range[1] - map.start - 1) % map.columnNs) + 1] });
	};
	const at = (event: PointerEvent): Cell => {
		const { left, top } = canvas.current!.getBoundingClientRect();
		return cellAt(map, (event.clientX - left) / pictureSize(map, width).width, (event.clientY - top) / HEIGHT);
	};
	const inside = (event: PointerEvent) => event.clientX - canvas.current!.getBoundingClientRect().left < pictureSize(map, width).width;
	const describe = (cell: Cell): string => {
		const from = map.start + cell.column * map.columnNs + cell.row * map.cellNs;
		return T.timeline.heatCell(formatMoment(from, map.cellNs), formatNs(map.cellNs), formatValue(map.cells[cell.column * map.rows + cell.row] ?? 0, unit));
	};
	const onKeyDown = (event: KeyboardEvent) => {
		if (map.columns === 0) return;
		const here = cursor ?? { column: 0, row: 0 };
		const go =
			(key: string, extend = false) =>
			() => {
				const next = cursor ? moveCell(map, here, key) : moveCell(map, here, key) && here;
				if (!next) return false;
				if (extend) {
					anchor.current ??= here;
					set({ ...between(anchor.current, next, false), marker: -1 }, 'replace');
				} else anchor.current = null;
				setCursor(next);
				return true;
			};
		const chosen = state.range !== null || state.part !== null;
		press('heatmap', event, {
			...{ up: go('ArrowUp'), down: go('ArrowDown'), left: go('ArrowLeft'), right: go('ArrowRight'), first: go('Home'), last: go('End') },
			...{ extendUp: go('ArrowUp', true), extendDown: go('ArrowDown', true), extendLeft: go('ArrowLeft', true) },
			...{ extendRight: go('ArrowRight', true), extendFirst: go('Home', true), extendLast: go('End', true) },
			pick: () => cursor !== null && choose(between(cursor, cursor, false)),
			every: () => (cursor !== null || chosen) && everyColumn(),
			all: () => chosen && set({ range: null, part: null, marker: -1 }),
		});
	};
	const shown = hovered ?? cursor;
	const colors = useMemo(() => heatColors(dark), [dark]);
	return (
		<div class="tl-heat" data-testid="heatmap">
			<div
				class="tl-heat-plot"
				ref={host}
				tabIndex={0}
				role="application"
				aria-roledescription={T.timeline.heatRole}
				aria-label={T.timeline.heatDescribe(map.columns, formatNs(map.columnNs), formatNs(map.cellNs))}
				onKeyDown={onKeyDown}
				onBlur={() => setCursor(null)}
			>
				<canvas
					ref={canvas}
					style={{ height: `${HEIGHT}px` }}
					onPointerDown={(event) => {
						if (event.button !== 0 || map.columns === 0 || !inside(event)) return;
						anchor.current = at(event);
						dragging.current = true;
						setBrush(between(anchor.current, anchor.current, event.shiftKey));
						event.currentTarget.setPointerCapture(event.pointerId);
					}}
					onPointerMove={(event) => {
						if (map.columns === 0) return;
						const cell = at(event);
						setHovered(inside(event) ? cell : null);
						if (dragging.current && anchor.current) setBrush(between(anchor.current, cell, event.shiftKey));
					}}
					onPointerUp={(event) => {
						if (!dragging.current || !anchor.current) return;
						dragging.current = false;
						setBrush(null);
						choose(between(anchor.current, at(event), event.shiftKey));
						anchor.current = null;
					}}
					onPointerCancel={() => {
						dragging.current = false;
						setBrush(null);
					}}
					onPointerLeave={() => setHovered(null)}
				/>
			</div>
			<div class="tl-heat-foot">
				<span class="hint">{T.timeline.heatAxes(formatNs(map.columnNs), formatNs(map.cellNs))}</span>
				<span class="hint" data-testid="heat-cell">
					{shown ? describe(shown) : ''}
				</span>
				<span class="spring" />
				<span class="tl-heat-legend" role="img" aria-label={T.timeline.heatLegend(formatValue(map.max, unit))}>
					0
					{colors.map((color) => (
						<i key={color} style={{ background: color }} />
					))}
					{formatValue(map.max, unit)}
				</span>
			</div>
			<div class="unseen" aria-live="polite" data-testid="heat-live">
				{cursor ? describe(cursor) : ''}
			</div>
		</div>
	);
}
