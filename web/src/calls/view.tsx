// SPDX-License-Identifier: Apache-2.0
// The call graph as a part of the page: how much of it is asked for, pointer and keys, its tooltip, and its calls as a list.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { displayName, formatCount, formatShare, formatValue, joinNames } from '../base/format';
import * as T from '../base/texts';
import { FONT } from '../flame/draw';
import { callGraph, type CallGraph } from '../model/callgraph';
import { functionsNamed } from '../model/find_function';
import { LEAST_CHOICES, type ListingView, type PageState } from '../state/page';
import { findNodes } from '../tree/search';
import { placeOf, type Tree } from '../tree/tree';
import { IconButton } from '../ui/controls';
import { useDebounced, useLater, useSize } from '../ui/hooks';
import { press } from '../ui/keymap';
import { foldTo } from './bounds';
import { boxOfFunction, boxTexts, layoutInput, stepFrom } from './boxes';
import { CallsCanvas, NO_HIT, type CallsScene } from './canvas';
import { CallList } from './list';
import { useLayout } from './use_layout';

export interface CallsProps {
	tree: Tree;
	state: Pick<PageState, 'function' | 'file' | 'binary' | 'find' | 'regex' | 'least'>;
	dark: boolean;
	picture: { current: (() => HTMLCanvasElement | null) | null }; // set to what makes one
	onLeast: (percent: number) => void;
	onPick: (node: number) => void; // to its callers and callees
	onMenu: (node: number, x: number, y: number) => void;
	onOpen: (kind: ListingView, node: number) => void;
}

const NODES_MAX = 150;
const NODES_FIRST = 60; // more never fit with labels
const EDGES_MAX = 300;

declare global {
	interface Window {
		// For tests, as __wick.
		__wickCalls?: {
			rectOf: (name: string) => { x: number; y: number; width: number; height: number } | null;
			readonly focusName: string | null;
			readonly scale: number;
			readonly extent: CallsCanvas['extent'];
		};
	}
}

let measuring: CanvasRenderingContext2D | null = null;
function widthOf(text: string): number {
	measuring ??= document.createElement('canvas').getContext('2d');
	if (!measuring) return text.length * 7;
	measuring.font = FONT;
	return measuring.measureText(text).width;
}

function makeGraph({ tree, least, nodesMax }: { tree: Tree; least: number; nodesMax: number }) {
	const graph = callGraph(tree, { nodesMax, edgesMax: EDGES_MAX, shareMin: least / 100 });
	const texts = boxTexts(tree, graph);
	return { tree, graph, texts, input: layoutInput(graph, texts, widthOf) };
}
type Made = ReturnType<typeof makeGraph>;

// ---- tooltip --------------------

interface Pointed {
	box: number;
	edge: number;
	x: number;
	y: number;
	graph: CallGraph;
}

function Tip({ tree, pointed }: { tree: Tree; pointed: Pointed }) {
	const ref = useRef<HTMLDivElement>(null);
	useLayoutEffect(() => {
		const { width, height } = ref.current!.getBoundingClientRect();
		const below = pointed.y + 18 + height < innerHeight - 4;
		ref.current!.style.left = `${Math.max(8, Math.min(pointed.x + 14, innerWidth - width - 8))}px`;
		ref.current!.style.top = `${Math.max(4, below ? pointed.y + 18 : pointed.y - height - 12)}px`;
	});
	const { graph } = pointed;
	const nameOf = (box: number) => displayName(tree.strings[tree.name[graph.nodes[box].node]]);
	const row = (label: string, value: number, more = '') => (
		<tr>
			<th scope="row">{label}</th>
			<td>{formatValue(value, tree.unit)}</td>
			<td>{formatShare(value, graph.total)}</td>
			<td>{more}</td>
		</tr>
	);
	if (pointed.edge >= 0) {
		const edge = graph.edges[pointed.edge];
		const [from, to] = [graph.nodes[edge.from], graph.nodes[edge.to]];
		return (
			<div class="tip" ref={ref} role="presentation">
				<div class="tip-name">{T.callGraph.call(nameOf(edge.from), nameOf(edge.to))}</div>
				{edge.skips && <div class="tip-where">{T.callGraph.skips}</div>}
				<table>
					<tbody>
						{row(T.callGraph.together, edge.value)}
						<tr>
							<th scope="row">{T.callGraph.ofCaller}</th>
							<td />
							<td>{formatShare(edge.value, from.total)}</td>
						</tr>
						<tr>
							<th scope="row">{T.callGraph.ofCallee}</th>
							<td />
							<td>{formatShare(edge.value, to.total)}</td>
						</tr>
					</tbody>
				</table>
			</div>
		);
	}
	const { node, self, total } = graph.nodes[pointed.box];
	const where = [placeOf(tree.strings[tree.file[node]], tree.line[node]), tree.strings[tree.binary[node]]];
	return (
		<div class="tip" ref={ref} role="presentation">
			<div class="tip-name">{nameOf(pointed.box)}</div>
			<div class="tip-where">{joinNames(where, 160)}</div>
			<table>
				<tbody>
					{row(T.flame.total, total)}
					{row(T.flame.self, self)}
				</tbody>
			</table>
		</div>
	);
}

// ---- pointer and keys --------------------

const ZOOM_STEP = 1.3;
const CLICK_SLACK = 4; // px that a press may move and still be a click

interface Press {
	moved: boolean;
	touch: boolean;
	at: Map<number, { x: number; y: number }>; // by pointer
}

function usePointer(
	view: { current: CallsCanvas | null },
	made: Made | null,
	onPick: (box: number) => void,
	onMenu: (box: number, x: number, y: number) => void,
) {
	const [pointed, setPointed] = useState<Pointed | null>(null);
	const press = useRef<Press>({ moved: false, touch: false, at: new Map() });
	const graph = made?.graph ?? null;
	const shown = pointed?.graph === graph ? pointed : null;
	const leave = () => {
		view.current?.hover(NO_HIT);
		setPointed(null);
	};
	const show = (event: MouseEvent) => {
		const hit = view.current!.hitAt(event);
		view.current!.hover(hit);
		setPointed(graph && (hit.box >= 0 || hit.edge >= 0) ? { ...hit, x: event.clientX, y: event.clientY, graph } : null);
		return hit;
	};
	const handlers = {
		onPointerDown: (event: PointerEvent) => {
			if (event.button !== 0) return;
			const { current } = press;
			current.at.set(event.pointerId, { x: event.clientX, y: event.clientY });
			current.touch = event.pointerType === 'touch';
			if (current.at.size === 1) current.moved = false;
			(event.currentTarget as Element).setPointerCapture(event.pointerId);
		},
		onPointerMove: (event: PointerEvent) => {
			const { at } = press.current;
			const before = at.get(event.pointerId);
			if (!before) {
				if (event.pointerType !== 'touch') show(event);
				return;
			}
			const [dx, dy] = [event.clientX - before.x, event.clientY - before.y];
			if (!press.current.moved && Math.hypot(dx, dy) < CLICK_SLACK) return;
			press.current.moved = true;
			leave();
			const other = [...at].find(([id]) => id !== event.pointerId)?.[1];
			if (other) {
				const far = (p: { x: number; y: number }) => Math.max(10, Math.hypot(p.x - other.x, p.y - other.y));
				const corner = (event.currentTarget as Element).getBoundingClientRect();
				const now = { x: event.clientX, y: event.clientY };
				view.current!.zoomAt((now.x + other.x) / 2 - corner.left, (now.y + other.y) / 2 - corner.top, far(now) / far(before));
			} else view.current!.pan(dx, dy);
			at.set(event.pointerId, { x: event.clientX, y: event.clientY });
		},
		onPointerUp: (event: PointerEvent) => press.current.at.delete(event.pointerId),
		onPointerCancel: (event: PointerEvent) => press.current.at.delete(event.pointerId),
		onPointerLeave: (event: PointerEvent) => event.pointerType !== 'touch' && leave(),
		onClick: (event: MouseEvent) => {
			if (press.current.moved || !graph) return;
			const was = shown;
			const hit = show(event);
			// A finger has no hover: the first tap shows what it is.
			if (hit.box >= 0 && (!press.current.touch || was?.box === hit.box)) onPick(hit.box);
		},
		onContextMenu: (event: MouseEvent) => {
			event.preventDefault();
			const { box } = view.current!.hitAt(event);
			leave();
			if (box >= 0) onMenu(box, event.clientX, event.clientY);
		},
	};
	return { pointed: shown, leave, handlers };
}

// The wheel is not passive: the page must not scroll away under what is zoomed.
function useWheel(element: { current: HTMLElement | null }, view: { current: CallsCanvas | null }, leave: () => void): void {
	const latest = useRef(leave);
	latest.current = leave;
	useEffect(() => {
		const wheel = (event: WheelEvent) => {
			event.preventDefault();
			latest.current();
			const corner = element.current!.getBoundingClientRect();
			const lines = event.deltaMode === 0 ? 1 : 30;
			if (event.shiftKey) view.current!.pan(-event.deltaY * lines, 0);
			else view.current!.zoomAt(event.clientX - corner.left, event.clientY - corner.top, Math.exp(-Math.max(-200, Math.min(200, event.deltaY * lines)) / 400));
		};
		const { current } = element;
		current?.addEventListener('wheel', wheel, { passive: false });
		return () => current?.removeEventListener('wheel', wheel);
	}, [element, view]);
}

function describe(made: Made, box: number): string {
	const { tree, graph } = made;
	const { node, self, total } = graph.nodes[box];
	const count = (side: 'from' | 'to') => graph.edges.filter((edge) => edge[side] === box && edge.from !== edge.to).length;
	const shares = [total, self].map((value) => formatShare(value, graph.total));
	return T.callGraph.box(displayName(tree.strings[tree.name[node]], 120), shares[0], shares[1], count('to'), count('from'));
}

// ---- the part --------------------

function Hidden({ made }: { made: Made }) {
	const { graph, tree } = made;
	const { functions, self, edges, edgeMax, rest } = graph.hidden;
	const parts = [T.callGraph.shown(graph.nodes.length, graph.edges.length)];
	if (functions > 0) parts.push(T.callGraph.hidden(formatCount(functions), formatShare(self, graph.total)));
	if (edges > 0) parts.push(T.callGraph.hiddenEdges(formatCount(edges), formatShare(edgeMax, graph.total)));
	if (rest > 0) parts.push(T.foot.rest(formatShare(rest, tree.total[0])));
	return <>{parts.join(' · ')}</>;
}

function Least({ least, onLeast }: { least: number; onLeast: (percent: number) => void }) {
	const [dragged, setDragged] = useState<number | null>(null);
	const shown = dragged ?? least;
	const settled = useDebounced(shown, 150);
	useEffect(() => {
		if (dragged === null || settled !== dragged) return;
		if (settled !== least) onLeast(settled);
		setDragged(null);
	}, [settled, dragged, least, onLeast]);
	return (
		<label class="calls-least">
			{T.callGraph.least}
			<input
				type="range"
				min={0}
				max={LEAST_CHOICES.length - 1}
				step={1}
				value={Math.max(0, LEAST_CHOICES.indexOf(shown))}
				aria-valuetext={`${shown}%`}
				data-testid="calls-least"
				onInput={(event) => setDragged(LEAST_CHOICES[Number(event.currentTarget.value)] ?? least)}
			/>
			<output>{T.sandwich.ofAll(`${shown}%`)}</output>
		</label>
	);
}

function useFocusedBox(made: Made | null): [number, (box: number) => void] {
	const [focus, setFocus] = useState<{ tree: Tree; fn: number } | null>(null);
	const box = useMemo(() => (made && focus?.tree === made.tree ? boxOfFunction(made.graph, focus.fn) : -1), [made, focus]);
	return [box, (next) => made && setFocus(next < 0 ? null : { tree: made.tree, fn: made.graph.nodes[next].fn })];
}

export function CallsView({ tree, state, dark, picture, onLeast, onPick, onMenu, onOpen }: CallsProps) {
	// Boxes that would be too small for their labels are folded away, the cheapest first; null: all are wanted.
	const [fold, setFold] = useState<number | null>(NODES_FIRST);
	const nodesMax = fold ?? NODES_MAX;
	const wanted = useMemo(() => ({ tree, least: state.least, nodesMax }), [tree, state.least, nodesMax]);
	const later = useLater(wanted, tree.count < 20_000, makeGraph);
	if (!later) return <div class="calls" data-testid="calls" aria-busy="true" />;
	return <Drawn made={later.value} busy={later.of !== wanted} fold={fold} onFold={setFold} {...{ state, dark, picture, onLeast, onPick, onMenu, onOpen }} />;
}

interface DrawnProps extends Omit<CallsProps, 'tree'> {
	made: Made;
	busy: boolean;
	fold: number | null;
	onFold: (nodes: number | null) => void;
}

function Drawn({ made: wanted, busy, fold, onFold, state, dark, picture, onLeast, onPick, onMenu, onOpen }: DrawnProps) {
	const pane = useRef<HTMLDivElement>(null);
	const canvas = useRef<HTMLCanvasElement>(null);
	const view = useRef<CallsCanvas | null>(null);
	const [measure, width, height] = useSize<HTMLDivElement>();
	const laid = useLayout(wanted, wanted.input);
	const made = laid.of; // what is on the canvas
	const { layout, fault } = laid;
	const list = made && fault ? made : wanted;
	const next = fold !== null && made && layout && width > 0 && height > 0 ? foldTo(made.graph.nodes.length, layout, { width, height }) : null;
	const fits = next === null || next === made!.graph.nodes.length;
	useEffect(() => {
		if (!fits && made === wanted && !busy) onFold(next);
	}, [fits, made, wanted, busy, next, onFold]);
	const [focused, setFocused] = useFocusedBox(made);
	const nodeOf = (box: number) => made!.graph.nodes[box].node;
	const chosen = useMemo(() => {
		if (!made || state.function === '') return -1;
		const [fn = -1] = functionsNamed(made.tree, state.function, state.file, state.binary);
		return boxOfFunction(made.graph, fn);
	}, [made, state.function, state.file, state.binary]);
	const matches = useMemo(() => {
		const found = made ? findNodes(made.tree, state.find, state.regex) : null;
		return typeof found === 'string' ? null : found;
	}, [made, state.find, state.regex]);
	const pointer = usePointer(
		view,
		made,
		(box) => onPick(nodeOf(box)),
		(box, x, y) => {
			setFocused(box);
			onMenu(nodeOf(box), x, y);
		},
	);
	useWheel(pane, view, pointer.leave);
	const latest = useRef({ made, focused });
	latest.current = { made, focused };

	useLayoutEffect(() => {
		const created = (view.current = new CallsCanvas(canvas.current!));
		measure(pane.current);
		picture.current = () => created.picture();
		window.__wickCalls = {
			rectOf: (name) => created.rectOf(name),
			get focusName() {
				const { made: of, focused: box } = latest.current;
				return of && box >= 0 ? of.tree.strings[of.tree.name[of.graph.nodes[box].node]] : null;
			},
			get scale() {
				return created.scale;
			},
			get extent() {
				return created.extent;
			},
		};
		return () => {
			delete window.__wickCalls;
			picture.current = null;
			created.destroy();
			measure(null);
		};
	}, [measure, picture]);
	useLayoutEffect(() => {
		view.current!.resize(width, height);
		if (!made || !layout || !fits) return;
		const { tree, graph, texts, input } = made;
		const scene: CallsScene = { tree, graph, texts, layout, sizes: input.nodes, matches, dark, focused, chosen };
		view.current!.update(scene);
	}, [made, layout, fits, matches, dark, focused, chosen, width, height]);

	const onKeyDown = (event: KeyboardEvent) => {
		if (!made || !layout) return;
		const go = (next: number) => {
			if (next >= 0) setFocused(next);
		};
		const pick = () => focused >= 0 && onPick(nodeOf(focused));
		const open = (kind: ListingView) => () => focused >= 0 && onOpen(kind, nodeOf(focused));
		const done =
			press('calls', event, {
				up: () => go(stepFrom(made.graph, layout, focused, 'ArrowUp')),
				down: () => go(stepFrom(made.graph, layout, focused, 'ArrowDown')),
				left: () => go(stepFrom(made.graph, layout, focused, 'ArrowLeft')),
				right: () => go(stepFrom(made.graph, layout, focused, 'ArrowRight')),
				first: () => go(0),
				closer: () => view.current!.zoom(ZOOM_STEP),
				farther: () => view.current!.zoom(1 / ZOOM_STEP),
				whole: () => view.current!.fit(),
				all: () => {
					setFocused(-1);
					view.current!.fit();
				},
				pick,
			}) ||
			press('sandwich', event, { open: pick }) ||
			press('code', event, { source: open('source'), asm: open('asm') });
		if (done) pointer.leave();
	};
	const stale = busy || made !== wanted || !fits;
	return (
		<div class="calls" data-testid="calls" aria-busy={stale}>
			<div class="calls-tools">
				<Least least={state.least} onLeast={onLeast} />
				<span class="hint" role="status" data-testid="calls-shown">
					<Hidden made={list} />
				</span>
				{(fold === null || list.graph.folded > 0) && (
					<button type="button" class="link" data-testid="calls-fold" onClick={() => onFold(fold === null ? NODES_FIRST : null)}>
						{fold === null ? T.callGraph.fold : T.callGraph.unfold(formatCount(list.graph.folded))}
					</button>
				)}
				<span class="spring" />
				<div class="joined small" role="group" aria-label={T.callGraph.zoom}>
					<IconButton label={T.callGraph.zoomOut} onClick={() => view.current!.zoom(1 / ZOOM_STEP)}>
						−
					</IconButton>
					<button type="button" class="button" title={T.callGraph.fitHint} onClick={() => view.current!.fit()}>
						{T.callGraph.fit}
					</button>
					<IconButton label={T.callGraph.zoomIn} onClick={() => view.current!.zoom(ZOOM_STEP)}>
						+
					</IconButton>
				</div>
			</div>
			{fault && (
				<p class="calls-fault" role="alert">
					{T.callGraph.fault(displayName(fault, 200))}
				</p>
			)}
			<div class="calls-panes">
				<CallList
					tree={list.tree}
					graph={list.graph}
					focused={list === made ? focused : -1}
					onFocus={(box) => {
						if (list === made) setFocused(box);
					}}
					onEdge={(edge) => list === made && view.current!.hover({ box: -1, edge })}
				/>
				<div
					class="calls-graph"
					ref={pane}
					data-testid="calls-graph"
					tabIndex={0}
					role="application"
					aria-roledescription={T.callGraph.role}
					aria-label={T.callGraph.label}
					aria-describedby="calls-focus"
					onKeyDown={onKeyDown}
					{...pointer.handlers}
				>
					<canvas ref={canvas} aria-hidden="true" />
					<div id="calls-focus" class="unseen" aria-live="polite">
						{made && focused >= 0 ? describe(made, focused) : ''}
					</div>
					{pointer.pointed && made && <Tip tree={made.tree} pointed={pointer.pointed} />}
				</div>
			</div>
		</div>
	);
}
