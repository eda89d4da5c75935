// SPDX-License-Identifier: Apache-2.0
// The flame graph as a part of the page: pointer and keys, labels for screen readers.
import type { ComponentChildren } from 'preact';
import { useCallback, useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { displayName, formatShare } from '../base/format';
import * as T from '../base/texts';
import type { ColorBy, ListingView } from '../state/page';
import {
	findPath,
	firstChild,
	isPart,
	KIND,
	kindOf,
	nextSibling,
	NO_ZOOM,
	openTail,
	pathKeys,
	previousSibling,
	zoomRange,
	zoomTo,
	type Tree,
	type Zoom,
} from '../tree/tree';
import { useSize } from '../ui/hooks';
import { press, type Does } from '../ui/keymap';
import { copyText } from '../ui/menu';
import { ariaItems } from './aria';
import { FlameCanvas, type FlameProps } from './canvas';
import { Gestures } from './gestures';
import type { Box } from './layout';
import { Minimap } from './minimap';
import type { Pointed, Target } from './pointed';
import { Tooltip, type Hover, type TipFacts } from './tip';

export type Picture = () => HTMLCanvasElement | null;

export interface FlameViewProps {
	tree: Tree;
	zoom: Zoom;
	onZoom: (zoom: Zoom) => void;
	flip: boolean;
	matches: Uint8Array | null;
	dark: boolean;
	focusRequest: { node: number; nonce: number } | null; // the search's "next match"
	onMenu: (node: number, x: number, y: number) => void;
	onOpen?: (kind: ListingView, node: number) => void;
	// What not every graph has.
	color?: ColorBy;
	minimap?: boolean;
	facts?: TipFacts; // of shares; those of the tree itself if nothing is said
	onRest?: (node: number) => void; // opens what was left out as too small; else it fills the width
	onKey?: (event: KeyboardEvent, node: number) => boolean; // of keys that are not the view's own; false if nothing
	// Of graphs that compare: other colours, tooltips, and two graphs that point at the same.
	paint?: FlameProps['paint'];
	linked?: number;
	onHover?: (node: number) => void; // -1 = none
	tip?: (box: Box) => ComponentChildren;
	labelOf?: (node: number) => string; // for screen readers
	name?: string; // among several graphs
	onPick?: (node: number) => void; // what choosing a frame does, instead of zooming to it
	pointed?: Pointed; // shared with the table
	picture?: { current: Picture | null }; // set to what makes one, while there is a graph
	label?: string;
}

interface FlameProbe {
	nodeAt: (name: string) => { x: number; y: number; width: number; height: number } | null;
	readonly visibleCount: number;
	readonly focusName: string | null; // of the frame with the keyboard's focus
	readonly zoomName: string | null;
	readonly hoverName: string | null; // of the frame that is marked, here or elsewhere
	readonly range: [number, number]; // in view, as shares of the whole
	readonly pointedName: string | null; // of what the table points at
}

declare global {
	interface Window {
		// For tests: what is on the canvas cannot be found in the document.
		__wick?: Record<string, FlameProbe> & { flame: FlameProbe };
	}
}

function exposeForTests(view: FlameCanvas, graph: string): () => void {
	const nameOf = (node: number) => (view.tree && node >= 0 ? view.tree.strings[view.tree.name[node]] : null);
	const probe: FlameProbe = {
		nodeAt: (name) => view.rectOf(name),
		get visibleCount() {
			return view.boxes.length;
		},
		get focusName() {
			return nameOf(view.focused);
		},
		get zoomName() {
			return nameOf(view.zoom.node);
		},
		get hoverName() {
			return nameOf(view.marked);
		},
		get range() {
			const total = view.tree?.total[0] || 1;
			return view.inView.map((value) => value / total) as [number, number];
		},
		get pointedName() {
			return view.pointedAt?.name ?? null;
		},
	};
	const all = (window.__wick ??= {} as NonNullable<typeof window.__wick>);
	all[graph] = probe;
	return () => {
		if (all[graph] === probe) delete all[graph];
		if (Object.keys(all).length === 0) delete window.__wick;
	};
}

function targetOf(tree: Tree, node: number): Target | null {
	if (node <= 0) return null;
	return { name: tree.strings[tree.name[node]], file: tree.strings[tree.file[node]], binary: tree.strings[tree.binary[node]] };
}

// What the table points at is marked here, the table is notified of what is pointed at or has the focus here.
function usePointed({ tree, pointed, picture }: FlameViewProps, view: { current: FlameCanvas | null }, hover: Hover | null, focused: number): void {
	const hovered = hover && !hover.box.tail ? hover.box.node : -1;
	useEffect(() => pointed?.listen((change) => change.from === 'table' && view.current?.point(change.target)), [pointed, view]);
	useEffect(() => pointed?.notify(targetOf(tree, hovered), 'graph'), [pointed, tree, hovered]);
	useEffect(() => {
		if (focused > 0) pointed?.notify(targetOf(tree, focused), 'graph', true);
	}, [pointed, tree, focused]);
	useLayoutEffect(() => {
		if (!picture) return undefined;
		const made = () => view.current?.picture() ?? null;
		picture.current = made;
		return () => {
			if (picture.current === made) picture.current = null;
		};
	}, [picture, view]);
}

function describe(tree: Tree, node: number, turned: boolean): string {
	const name = displayName(tree.strings[tree.name[node]], 120);
	const [total, self] = [tree.total, tree.self].map((column) => formatShare(column[node], tree.total[0]));
	const leaf = tree.end[node] === node + 1;
	if (turned) return leaf ? T.flame.outermost(T.flame.turned(name, total)) : T.flame.turned(name, total);
	const frame = T.flame.frame(name, total, self);
	return leaf ? T.flame.leaf(frame) : frame;
}

// Where an arrow key leads from a node; -1 = nowhere. `down` is away from the root on the screen's terms of the icicle.
function neighbour(tree: Tree, node: number, key: string, flip: boolean): number {
	const [towards, away] = flip ? ['ArrowDown', 'ArrowUp'] : ['ArrowUp', 'ArrowDown'];
	switch (key) {
		case towards:
			return node === 0 ? -1 : tree.parent[node];
		case away:
			return firstChild(tree, node);
		case 'ArrowLeft':
			return previousSibling(tree, node);
		case 'ArrowRight':
			return nextSibling(tree, node);
		case 'Home':
			return 0;
		default:
			return -1;
	}
}

// The keyboard's frame, by its path, so that the next response's tree has it again.
function useFocus(tree: Tree): [number, (node: number) => void] {
	const [focus, setFocus] = useState<{ tree: Tree; node: number; keys: string[] } | null>(null);
	const set = useCallback((node: number) => setFocus(node < 0 ? null : { tree, node, keys: pathKeys(tree, node) }), [tree]);
	const node = useMemo(() => {
		if (!focus) return -1;
		return focus.tree === tree ? focus.node : Math.max(0, findPath(tree, focus.keys));
	}, [tree, focus]);
	return [node, set];
}

interface Input {
	props: FlameViewProps;
	view: { current: FlameCanvas | null };
	width: number;
	focused: number;
	setFocused: (node: number) => void;
	gestures: { current: Gestures | null };
}

// A frame fills the width; what stands for others is opened.
function openNode({ tree, onZoom, onRest }: FlameViewProps, node: number): void {
	if (onRest && node > 0 && kindOf(tree, node) === KIND.rest) onRest(node);
	else onZoom({ node, skip: 0, take: 0 });
}

// What pointer and fingers do. A finger has no hover: the first tap shows what a box is, the second opens it.
function usePointer({ props, view, width, setFocused, gestures }: Input) {
	const { tree, zoom, flip, onZoom } = props;
	const [hovered, setHover] = useState<(Hover & { tree: Tree }) | null>(null);
	const hover = hovered?.tree === tree ? hovered : null; // boxes of another tree mean nothing in this one
	const touched = useRef(false);
	useLayoutEffect(() => setHover(null), [tree, zoom, flip]);

	const show = (box: Box | null, event: MouseEvent) => {
		view.current!.hover(box);
		props.onHover?.(box && !box.tail ? box.node : -1);
		setHover(box && { tree, box, x: event.clientX, y: event.clientY });
	};
	const leave = () => {
		view.current!.hover(null);
		if (hover) props.onHover?.(-1);
		setHover(null);
	};
	const onPointerMove = (event: PointerEvent) => {
		if (gestures.current!.move(event)) leave();
		else if (event.pointerType !== 'touch') show(view.current!.boxAt(event), event);
	};
	const onClick = (event: MouseEvent) => {
		const box = view.current!.boxAt(event);
		if (gestures.current!.takeClick() || !box) return;
		if (touched.current && !(hover && hover.box.node === box.node && hover.box.tail === box.tail)) {
			show(box, event);
			return;
		}
		setFocused(box.tail ? tree.parent[box.node] : box.node);
		if (box.tail) onZoom(openTail(tree, box.node, view.current!.valueAt(event), width));
		else if (props.onPick) props.onPick(box.node);
		else openNode(props, box.node);
	};
	const handlers = {
		onPointerDown: (event: PointerEvent) => {
			touched.current = event.pointerType === 'touch';
			gestures.current!.down(event);
		},
		onPointerMove,
		onPointerUp: (event: PointerEvent) => gestures.current!.up(event),
		onPointerCancel: (event: PointerEvent) => gestures.current!.up(event),
		onPointerLeave: (event: PointerEvent) => event.pointerType !== 'touch' && leave(),
		onClick,
		onContextMenu: (event: MouseEvent) => {
			const box = view.current!.boxAt(event);
			event.preventDefault();
			if (!box || box.tail || gestures.current!.busy) return;
			leave();
			setFocused(box.node);
			props.onMenu(box.node, event.clientX, event.clientY);
		},
	};
	return { hover, leave, handlers };
}

const ZOOM_STEP = 1.5;
const PAN_STEP = 0.2; // of the width

// Keys that move what is in view, as the wheel and a drag do.
function moves({ view, width }: Input, onRest: () => void): Pick<Does<'graph'>, 'closer' | 'farther' | 'panLeft' | 'panRight'> {
	const zoom = (by: number) => {
		const canvas = view.current!;
		const [from, to] = canvas.inView;
		const middle = canvas.middle;
		canvas.show(middle - ((to - from) * by) / 2, middle + ((to - from) * by) / 2);
		onRest();
	};
	const pan = (share: number) => {
		view.current!.pan(share * width);
		onRest();
	};
	return { closer: () => zoom(1 / ZOOM_STEP), farther: () => zoom(ZOOM_STEP), panLeft: () => pan(-PAN_STEP), panRight: () => pan(PAN_STEP) };
}

// What keys do with the frame that has the focus.
function keys(input: Input, at: number, onRest: () => void): Does<'graph'> {
	const { props, view, setFocused } = input;
	const { tree, zoom, flip, onZoom } = props;
	const go = (key: string) => {
		const next = neighbour(tree, at, key, flip);
		if (next < 0) return key !== 'Home';
		setFocused(next);
		const [from, to] = zoomRange(tree, zoom);
		// A neighbour beside the zoomed frame: widen the view to their caller, or the focus would be out of sight.
		if (tree.start[next] >= to || tree.start[next] + tree.total[next] <= from) {
			onZoom({ node: tree.parent[next], skip: 0, take: 0 });
		}
		return true;
	};
	return {
		...moves(input, onRest),
		up: () => go('ArrowUp'),
		down: () => go('ArrowDown'),
		left: () => go('ArrowLeft'),
		right: () => go('ArrowRight'),
		root: () => go('Home'),
		zoom: () => (props.onPick ? props.onPick(at) : openNode(props, at)),
		out: () => onZoom({ node: isPart(zoom) ? zoom.node : tree.parent[zoom.node], skip: 0, take: 0 }),
		all: () => {
			setFocused(-1);
			onZoom(NO_ZOOM);
		},
		menu: () => {
			const { x, y } = view.current!.placeOf(at);
			props.onMenu(at, x, y);
		},
		copy: () => {
			if (at === 0 || String(getSelection()) !== '') return false;
			void copyText(tree.strings[tree.name[at]]);
			return true;
		},
	};
}

const itemId = (graph: string, node: number) => `${graph}-item-${node}`;

// The tree around the focus for screen readers; on the screen it is the canvas.
function AriaTree({ tree, node, graph, labelOf }: { tree: Tree; node: number; graph: string; labelOf: (node: number) => string }) {
	const items = useMemo(() => ariaItems(tree, node), [tree, node]);
	return (
		<div class="unseen" role="group">
			{items.map((item) => (
				<div
					key={item.node}
					id={itemId(graph, item.node)}
					role="treeitem"
					aria-level={item.level}
					aria-posinset={item.place}
					aria-setsize={item.of}
					aria-expanded={item.opens === null ? undefined : item.opens}
					aria-selected={item.node === node}
				>
					{labelOf(item.node)}
				</div>
			))}
		</div>
	);
}

// The canvas and the gestures on it, for as long as the part is there. rest: what a gesture has come to becomes the page's state.
function useCanvas(props: FlameViewProps, measure: (element: HTMLDivElement | null) => void) {
	const scroller = useRef<HTMLDivElement>(null);
	const canvas = useRef<HTMLCanvasElement>(null);
	const spacer = useRef<HTMLDivElement>(null);
	const view = useRef<FlameCanvas | null>(null);
	const gestures = useRef<Gestures | null>(null);
	const latest = useRef(props);
	latest.current = props;
	const rest = useCallback(() => {
		const [from, to] = view.current!.inView;
		latest.current.onZoom(view.current!.whole ? { ...NO_ZOOM } : zoomTo(latest.current.tree, from, to));
	}, []);
	useLayoutEffect(() => {
		const created = new FlameCanvas(canvas.current!, scroller.current!, spacer.current!);
		view.current = created;
		gestures.current = new Gestures(scroller.current!, created, rest);
		const hide = exposeForTests(created, latest.current.name ?? 'flame');
		measure(scroller.current);
		return () => {
			hide();
			gestures.current!.destroy();
			created.destroy();
			measure(null);
		};
	}, [measure, rest]);
	return { scroller, canvas, spacer, view, gestures, rest };
}

export function FlameView(props: FlameViewProps) {
	const {
		tree,
		zoom,
		flip,
		matches,
		dark,
		color = 'binary',
		focusRequest,
		minimap = false,
		paint,
		linked,
		tip,
		labelOf,
		name = 'flame',
		label = T.flame.label,
	} = props;
	const graph = useId();
	const facts = useMemo(() => props.facts ?? { whole: tree.total[0], period: 0, rest: () => '', turned: false }, [props.facts, tree]);
	const [measure, width, height] = useSize<HTMLDivElement>();
	const { scroller, canvas, spacer, view, gestures, rest } = useCanvas(props, measure);
	const [focused, setFocused] = useFocus(tree);
	const input: Input = { props, view, width, focused, setFocused, gestures };
	const { hover, leave, handlers } = usePointer(input);
	usePointed(props, view, hover, focused);

	useLayoutEffect(() => {
		view.current!.resize(width, height);
		view.current!.update({ tree, zoom, flip, matches, dark, color, focused, paint, linked });
	}, [view, tree, zoom, flip, matches, dark, color, focused, paint, linked, width, height]);
	useEffect(() => {
		if (focusRequest) setFocused(focusRequest.node);
		// eslint-disable-next-line react-hooks/exhaustive-deps -- what was asked for once is not for the next tree
	}, [focusRequest]);

	const at = focused >= 0 ? focused : zoom.node;
	const onKeyDown = (event: KeyboardEvent) => {
		const code = { source: () => props.onOpen!('source', at), asm: () => props.onOpen!('asm', at) };
		if (press('graph', event, keys(input, at, rest)) || (props.onOpen && press('code', event, code)) || props.onKey?.(event, at)) leave();
	};
	return (
		<>
			{minimap && <Minimap tree={tree} flip={flip} matches={matches} dark={dark} color={color} paint={paint} view={view} onRest={rest} />}
			<div
				class="flame"
				ref={scroller}
				data-testid={name}
				tabIndex={0}
				role="tree"
				aria-roledescription={T.flame.role}
				aria-label={label}
				aria-activedescendant={itemId(graph, at)}
				onKeyDown={onKeyDown}
				onScroll={() => {
					leave();
					view.current!.schedule();
				}}
				{...handlers}
			>
				<div ref={spacer} class="flame-spacer">
					<canvas ref={canvas} aria-hidden="true" />
				</div>
				<AriaTree tree={tree} node={at} graph={graph} labelOf={labelOf ?? ((node) => describe(tree, node, facts.turned))} />
			</div>
			{hover && <Tooltip tree={tree} hover={hover} facts={facts} view={zoom} content={tip?.(hover.box)} />}
		</>
	);
}
