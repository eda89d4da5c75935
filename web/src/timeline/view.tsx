// SPDX-License-Identifier: Apache-2.0
// The time line as a part of the page: tracks, what is chosen of them, and the table of markers.
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { lostMarkers, type Thread, type Timeline } from '../api/timeline_data';
import { displayName, formatCount, formatShare, formatValue } from '../base/format';
import * as T from '../base/texts';
import { IconButton } from '../ui/controls';
import { useMedia, useSize } from '../ui/hooks';
import { CloseIcon, FoldIcon, ResetIcon } from '../ui/icons';
import { press } from '../ui/keymap';
import { Menu, type MenuAt } from '../ui/menu';
import { makeActions, padded, keysFor, type Actions, type Context } from './actions';
import { AXIS, placeTracks, TimeCanvas, type Hit, type Track } from './canvas';
import { HeatView } from './heat_view';
import { heatColumn, isCalled } from './narrow';
import { ROWS_MAX, type Rows, type Spans } from './spans';
import type { Range, SetTime, TimeState } from './state';
import { MarkerTable } from './table';
import { extentOf, fieldsLine, formatMoment, formatNs, isInstant, lossesOf } from './text';
import { MarkerTip } from './tip';

declare global {
	interface Window {
		// For tests: what is on the canvas cannot be found in the document.
		__wickTime?: {
			rectOf: (name: string, nth: number) => { x: number; y: number; width: number; height: number } | null;
			readonly view: Range;
			readonly hovered: string | null;
		};
	}
}

/** What is left of the samples: of the type that is shown. */
export interface Shown {
	samples: number;
	value: number;
	allValue: number;
	unit: string;
	narrowed: boolean;
}

interface Hover {
	hit: Hit;
	x: number; // in the window
	y: number;
}

export interface TimelineProps {
	t: Timeline;
	spans: Spans;
	rows: Rows[];
	type: number;
	state: TimeState;
	set: SetTime;
	dark: boolean;
	shown: Shown;
}

const HEAD = 190; // px, of the threads' names
const OPEN_FIRST = 6; // threads that show their markers at first

const sumsOf = (values: Float64Array): Float64Array => {
	const sums = new Float64Array(values.length + 1);
	for (let i = 0; i < values.length; i++) sums[i + 1] = sums[i] + values[i];
	return sums;
};

// ---- heads --------------------

function threadTitle(thread: Thread): string {
	const process = thread.pid === null ? '' : T.timeline.processId(thread.pid);
	const id = thread.tid === null ? '' : T.timeline.threadId(thread.tid);
	return [thread.name, thread.process, process, id, thread.host]
		.filter((part) => part !== '')
		.map((part) => displayName(part, 120))
		.join('\n');
}

interface HeadProps {
	track: Track;
	thread: Thread;
	rows: Rows;
	chosen: boolean;
	width: number;
	onChoose: (add: boolean) => void;
	onOpen: () => void;
}

function TrackHead({ track, thread, rows, chosen, width, onChoose, onOpen }: HeadProps) {
	const markers = rows.ticks.length + rows.rows.length > 0;
	const where = [thread.process === thread.name ? '' : thread.process, thread.host].filter((part) => part !== '').join(' · ');
	return (
		<div
			class={width > 0 ? 'track-head' : 'track-head narrow'}
			style={{ top: `${track.y}px`, width: width > 0 ? `${width}px` : undefined, height: `${width > 0 ? track.height - 1 : track.headHeight}px` }}
		>
			<button
				type="button"
				class="ghost track-fold"
				aria-expanded={track.open}
				aria-label={T.timeline.markersOf(displayName(thread.name, 80))}
				title={track.open ? T.timeline.foldMarkers : T.timeline.showMarkers}
				disabled={!markers}
				onClick={onOpen}
			>
				<FoldIcon open={track.open} />
			</button>
			<button
				type="button"
				class="track-name"
				aria-pressed={chosen}
				title={T.timeline.chooseThread(threadTitle(thread))}
				data-testid="track"
				onClick={(event) => onChoose(event.ctrlKey || event.metaKey || event.shiftKey)}
			>
				<span class="track-title">{displayName(thread.name, 80)}</span>
				{where !== '' && <span class="track-where">{displayName(where, 80)}</span>}
				{rows.deeper > 0 && track.open && (
					<span class="track-where" title={T.timeline.deeperHint(ROWS_MAX)}>
						{T.timeline.deeper(formatCount(rows.deeper))}
					</span>
				)}
			</button>
		</div>
	);
}

// ---- what is chosen --------------------

function Chip({ label, value, testId, onClear }: { label: string; value: string; testId: string; onClear: () => void }) {
	return (
		<span class="chip selection" data-testid={testId}>
			<span class="chip-text">
				<span class="chip-label">{label}</span> <b class="chip-value">{value}</b>
			</span>
			<button type="button" class="chip-x" aria-label={T.timeline.not(label, value)} title={T.timeline.takeBack} onClick={onClear}>
				<CloseIcon />
			</button>
		</span>
	);
}

function Chosen({ t, state, set, shown }: Pick<TimelineProps, 't' | 'state' | 'set' | 'shown'>) {
	const names = state.threads.map((i) => t.threads[i].name);
	const few = names.slice(0, 3).join(', ');
	return (
		<div class="tl-chosen" role="status" aria-live="polite">
			{names.length > 0 && (
				<Chip
					label={T.timeline.threads(names.length)}
					value={displayName(names.length > 3 ? T.timeline.andMore(few, names.length - 3) : few, 80)}
					testId="chip-threads"
					onClear={() => set({ threads: [] })}
				/>
			)}
			{state.range && (
				<Chip
					label={formatMoment(state.range[0], (state.range[1] - state.range[0]) / 10)}
					value={`+ ${formatNs(state.range[1] - state.range[0])}`}
					testId="chip-range"
					onClear={() => set({ range: null, marker: -1 })}
				/>
			)}
			{state.part && (
				<Chip
					label={T.timeline.heatPart(formatNs(heatColumn(t)))}
					value={`${formatNs(state.part[0])} – ${formatNs(state.part[1])}`}
					testId="chip-part"
					onClear={() => set({ part: null })}
				/>
			)}
			{state.during !== '' && <Chip label={T.timeline.during} value={displayName(state.during, 60)} testId="chip-during" onClear={() => set({ during: '' })} />}
			{shown.narrowed && (
				<span class="hint" data-testid="tl-share">
					{T.timeline.share(formatValue(shown.value, shown.unit), formatShare(shown.value, shown.allValue), formatCount(shown.samples))}
				</span>
			)}
		</div>
	);
}

function Losses({ t }: { t: Timeline }) {
	const lost = useMemo(() => lostMarkers(t), [t]);
	const parts = lossesOf(t, lost);
	return parts.length === 0 ? null : (
		<p class="tl-losses" data-testid="tl-losses">
			{parts.join('; ')}
		</p>
	);
}

interface ToolsProps extends Pick<TimelineProps, 't' | 'state' | 'set' | 'shown'> {
	actions: Actions;
}

function Tools({ t, state, set, shown, actions }: ToolsProps) {
	return (
		<div class="tools tl-tools" role="toolbar" aria-label={T.timeline.tools}>
			<button
				type="button"
				class="ghost"
				aria-expanded={!state.folded}
				data-testid="tl-fold"
				title={state.folded ? T.timeline.show : T.timeline.fold}
				onClick={() => set({ folded: !state.folded }, 'replace')}
			>
				<FoldIcon open={!state.folded} /> {T.timeline.label}
			</button>
			<Chosen t={t} state={state} set={set} shown={shown} />
			<span class="spring" />
			<label class="tl-group">
				<span class="tl-group-label">{T.timeline.root}</span>
				<select
					class="select"
					aria-label={T.timeline.rootLabel}
					data-testid="group-by"
					value={state.bySpan ? 'span' : ''}
					onChange={(event) => set({ bySpan: event.currentTarget.value === 'span' })}
				>
					<option value="">{T.timeline.byFunction}</option>
					<option value="span">{T.timeline.bySpan}</option>
				</select>
			</label>
			{!state.folded && (
				<div class="joined">
					<IconButton label={T.timeline.zoomIn} title={T.timeline.zoomInKey} onClick={() => actions.zoom(0.5)}>
						+
					</IconButton>
					<IconButton label={T.timeline.zoomOut} title={T.timeline.zoomOutKey} onClick={() => actions.zoom(2)}>
						−
					</IconButton>
					<button
						type="button"
						class="button"
						data-testid="tl-zoom"
						disabled={!state.range}
						title={T.timeline.fitHint}
						onClick={() => actions.look(state.range, 'push')}
					>
						{T.timeline.fit}
					</button>
					<IconButton label={T.timeline.whole} testId="tl-all" disabled={!state.view} onClick={() => actions.look(null, 'push')}>
						<ResetIcon />
					</IconButton>
				</div>
			)}
			<button
				type="button"
				class="button"
				aria-pressed={state.heat}
				data-testid="tl-heat"
				title={T.timeline.heatHint}
				disabled={t.sampleCount === 0}
				onClick={() => set({ heat: !state.heat }, 'replace')}
			>
				{T.timeline.heat}
			</button>
			<button
				type="button"
				class="button"
				aria-pressed={state.table}
				data-testid="tl-table"
				disabled={t.markerCount === 0}
				onClick={() => set({ table: !state.table })}
			>
				{T.timeline.markers}
			</button>
		</div>
	);
}

// ---- the part --------------------

export function TimelineView(props: TimelineProps) {
	const { t, spans, rows, type, state, set, dark, shown } = props;
	const narrow = useMedia('(max-width: 700px)');
	const scroller = useRef<HTMLDivElement>(null);
	const canvas = useRef<HTMLCanvasElement>(null);
	const axis = useRef<HTMLCanvasElement>(null);
	const view = useRef<TimeCanvas | null>(null);
	const [measure, width, height] = useSize<HTMLDivElement>();
	const [top, setTop] = useState(0);
	const [toggled, setToggled] = useState<ReadonlySet<number>>(new Set());
	const [hover, setHover] = useState<Hover | null>(null);
	const [brush, setBrush] = useState<Range | null>(null);
	const [focused, setFocused] = useState(-1);
	const [menu, setMenu] = useState<MenuAt | null>(null);
	const closeMenu = useCallback(() => setMenu(null), []);
	const head = narrow ? 0 : HEAD;

	// The busiest with markers are open at first.
	const openFirst = useMemo(() => {
		const some = t.threads.map((_, i) => i).filter((i) => rows[i].ticks.length + rows[i].rows.length > 0);
		const many = (i: number) => t.threads[i].markerEnd - t.threads[i].markerFirst;
		return new Set(some.sort((a, b) => many(b) - many(a)).slice(0, OPEN_FIRST));
	}, [t, rows]);
	const tracks = useMemo(() => placeTracks(t, rows, (i) => openFirst.has(i) !== toggled.has(i), narrow), [t, rows, openFirst, toggled, narrow]);
	const contentHeight = tracks.length > 0 ? tracks[tracks.length - 1].y + tracks[tracks.length - 1].height : 0;
	const sums = useMemo(() => sumsOf(t.types[type].values), [t, type]);
	const isDuring = useMemo(() => (state.during === '' ? null : isCalled(t, state.during)), [t, state.during]);
	const inView: Range = state.view ?? [0, t.length];
	const { marker } = state;

	useLayoutEffect(() => {
		view.current = new TimeCanvas(canvas.current!, axis.current!, scroller.current!);
		measure(scroller.current);
		return () => {
			measure(null);
			view.current?.destroy();
		};
	}, [measure]);
	useLayoutEffect(() => {
		view.current!.update({
			t,
			spans,
			rows,
			sums,
			isTime: shown.unit === 'nanoseconds',
			tracks,
			view: inView,
			range: state.range,
			brush,
			threads: state.threads,
			marker,
			hovered: hover?.hit.marker ?? -1,
			focused,
			isDuring,
			dark,
		});
	});
	useLayoutEffect(() => view.current!.resize(width - head, height), [width, height, head]);
	useEffect(() => {
		window.__wickTime = {
			rectOf: (name, nth) => {
				for (let i = 0, seen = 0; i < t.markerCount; i++) if (t.strings[t.name[i]] === name && seen++ === nth) return view.current!.rectOf(i);
				return null;
			},
			get view() {
				return inView;
			},
			get hovered() {
				return hover && hover.hit.marker >= 0 ? view.current!.name(hover.hit.marker) : null;
			},
		};
		return () => {
			delete window.__wickTime;
		};
	});

	const toggle = (thread: number) => {
		const next = new Set(toggled);
		if (!next.delete(thread)) next.add(thread);
		setToggled(next);
	};
	const openMenu = (at: MenuAt) => {
		setHover(null);
		setMenu(at);
	};
	const unfold = (thread: number) => !tracks[thread].open && toggle(thread);
	const context: Context = { t, spans, state, set, view, inView, setFocused, setMenu: openMenu, unfold };
	const actions = makeActions(context);
	const input = usePointer(context, actions, setHover, setBrush);
	const onKeyDown = (event: KeyboardEvent) => {
		if (event.target === scroller.current) press('timeline', event, keysFor(context, actions, focused >= 0 ? focused : marker));
	};
	const spoken = focused >= 0 && focused < t.markerCount ? focused : marker;
	const first = tracks.findIndex((track) => track.y + track.height > top - 100);
	const after = tracks.findIndex((track) => track.y > top + height + 100);
	const visible = tracks.slice(Math.max(0, first), after < 0 ? undefined : after);
	return (
		<section class="timeline" aria-label={T.timeline.label} data-testid="timeline">
			<Tools t={t} state={state} set={set} shown={shown} actions={actions} />
			<Losses t={t} />
			{state.heat && t.sampleCount > 0 && <HeatView t={t} spans={spans} type={type} unit={shown.unit} state={state} set={set} dark={dark} />}
			<div class={state.table ? 'tl-parts with-table' : 'tl-parts'}>
				<div class="tl-chart" hidden={state.folded}>
					<canvas class="tl-axis" ref={axis} style={{ marginLeft: `${head}px`, height: `${AXIS}px` }} onWheel={input.onWheelZoom} {...input.handlers} />
					<div
						class="tl-scroll"
						ref={scroller}
						tabIndex={0}
						role="application"
						aria-roledescription={T.timeline.role}
						aria-label={T.timeline.describe}
						data-testid="tl-scroll"
						style={{ '--content': `${contentHeight}px` }}
						onScroll={(event) => {
							setTop(event.currentTarget.scrollTop);
							view.current?.schedule();
						}}
						onKeyDown={onKeyDown}
					>
						<div class="tl-spacer" style={{ height: `${contentHeight}px` }}>
							<canvas
								ref={canvas}
								data-testid="tl-canvas"
								style={{ marginLeft: `${head}px` }}
								onWheel={(event) => {
									const scrolls = scroller.current!.scrollHeight > scroller.current!.clientHeight + 1;
									if (event.ctrlKey || event.metaKey || event.altKey || !scrolls || Math.abs(event.deltaX) > Math.abs(event.deltaY)) input.onWheelZoom(event);
								}}
								{...input.handlers}
							/>
							{visible.map((track) => (
								<TrackHead
									key={track.thread}
									track={track}
									thread={t.threads[track.thread]}
									rows={rows[track.thread]}
									chosen={state.threads.includes(track.thread)}
									width={head}
									onChoose={(add) => actions.choose(track.thread, add)}
									onOpen={() => toggle(track.thread)}
								/>
							))}
						</div>
					</div>
				</div>
				{state.table && (
					<MarkerTable
						t={t}
						spans={spans}
						state={state}
						onState={(patch) => set(patch, 'replace')}
						onPick={(m) => {
							actions.pick(m);
							actions.show(m);
						}}
						onMenu={actions.openMenu}
					/>
				)}
			</div>
			<div class="unseen" aria-live="polite">
				{spoken >= 0
					? `${T.timeline.marker(displayName(t.strings[t.name[spoken]], 120), formatMoment(extentOf(t, spans, spoken)[0]))}, ` +
						`${isInstant(t, spoken) ? '' : formatNs(extentOf(t, spans, spoken)[1] - extentOf(t, spans, spoken)[0])} ${fieldsLine(t, spoken)}`
					: ''}
			</div>
			{hover && hover.hit.marker >= 0 && !brush && (
				<MarkerTip t={t} spans={spans} marker={hover.hit.marker} flow={view.current!.flowOf(hover.hit.marker).length} x={hover.x} y={hover.y} />
			)}
			{menu && <Menu at={menu} onClose={closeMenu} />}
		</section>
	);
}

// A press that moves chooses a time; one that does not, what is under it.
function usePointer(
	{ t, view, state, set, inView }: Context,
	{ pick, follow, openMenu, zoom, look }: Actions,
	setHover: (hover: Hover | null) => void,
	setBrush: (range: Range | null) => void,
) {
	const down = useRef<{ x: number; time: number; moved: boolean } | null>(null);
	const handlers = {
		onPointerDown: (event: PointerEvent) => {
			if (event.button !== 0) return;
			down.current = { x: event.clientX, time: view.current!.timeAt(event.clientX), moved: false };
			(event.currentTarget as Element).setPointerCapture(event.pointerId);
		},
		onPointerMove: (event: PointerEvent) => {
			const from = down.current;
			if (!from) {
				if (event.pointerType !== 'touch') setHover({ hit: view.current!.hit(event), x: event.clientX, y: event.clientY });
				return;
			}
			if (!from.moved && Math.abs(event.clientX - from.x) < 4) return;
			from.moved = true;
			const now = view.current!.timeAt(event.clientX);
			setBrush([Math.max(0, Math.min(from.time, now)), Math.min(t.length, Math.max(from.time, now))]);
		},
		onPointerUp: (event: PointerEvent) => {
			const from = down.current;
			down.current = null;
			setBrush(null);
			if (!from) return;
			if (from.moved) {
				const now = view.current!.timeAt(event.clientX);
				const range: Range = [Math.max(0, Math.round(Math.min(from.time, now))), Math.min(t.length + 1, Math.round(Math.max(from.time, now)))];
				if (range[1] > range[0]) set({ range, marker: -1 });
				return;
			}
			const hit = view.current!.hit(event);
			if (hit.marker < 0) {
				if (state.range || state.marker >= 0) set({ range: null, marker: -1, threads: state.marker >= 0 ? [] : state.threads });
			} else if (hit.marker === state.marker && t.flow[hit.marker] !== 0) {
				follow(hit.marker);
			} else {
				pick(hit.marker);
				if (event.pointerType === 'touch') setHover({ hit, x: event.clientX, y: event.clientY });
			}
		},
		onPointerCancel: () => {
			down.current = null;
			setBrush(null);
		},
		onPointerLeave: () => setHover(null),
		onDblClick: (event: MouseEvent) => {
			const { marker } = view.current!.hit(event);
			if (marker >= 0 && state.range) look(padded(state.range));
		},
		onContextMenu: (event: MouseEvent) => {
			const { marker } = view.current!.hit(event);
			event.preventDefault();
			down.current = null;
			if (marker >= 0) openMenu(marker, event.clientX, event.clientY);
		},
	};
	const onWheelZoom = (event: WheelEvent) => {
		event.preventDefault();
		if (Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey) {
			const by = ((event.deltaX || event.deltaY) / 600) * (inView[1] - inView[0]);
			look([inView[0] + by, inView[1] + by]);
		} else {
			zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY / 300))), view.current!.timeAt(event.clientX));
		}
	};
	return { handlers, onWheelZoom };
}
