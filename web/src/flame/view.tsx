// SPDX-License-Identifier: Apache-2.0
// The flame graph as a part of the page: pointer and keys, what a screen reader is told.
import type { ComponentChildren } from 'preact';
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { displayName, formatShare } from '../format';
import { useSize } from '../hooks';
import type { ListingView } from '../state';
import * as T from '../texts';
import { FlameCanvas, type FlameProps } from './canvas';
import type { Box } from './layout';
import { Tooltip, type Hover } from './tip';
import {
	findPath,
	firstChild,
	nextSibling,
	NO_ZOOM,
	openTail,
	pathKeys,
	previousSibling,
	zoomRange,
	type Tree,
	type Zoom,
} from './tree';

export interface FlameViewProps {
	tree: Tree;
	zoom: Zoom;
	onZoom: (zoom: Zoom) => void;
	flip: boolean;
	matches: Uint8Array | null;
	dark: boolean;
	focusRequest: { node: number; nonce: number } | null; // the search's "next match"
	onMenu: (node: number, x: number, y: number) => void;
	onOpen: (kind: ListingView, node: number) => void;
	// Of graphs that compare: other colours, what is told of a frame, and two graphs that point at the same.
	paint?: FlameProps['paint'];
	linked?: number;
	onHover?: (node: number) => void; // -1 = none
	tip?: (box: Box) => ComponentChildren;
	told?: (node: number) => string; // to a screen reader
	name?: string; // among several graphs
}

interface FlameProbe {
	nodeAt: (name: string) => { x: number; y: number; width: number; height: number } | null;
	readonly visibleCount: number;
	readonly focusName: string | null; // of the frame with the keyboard's focus
	readonly zoomName: string | null;
	readonly hoverName: string | null; // of the frame that is marked, here or elsewhere
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
	};
	const all = (window.__wick ??= {} as NonNullable<typeof window.__wick>);
	all[graph] = probe;
	return () => {
		if (all[graph] === probe) delete all[graph];
		if (Object.keys(all).length === 0) delete window.__wick;
	};
}

function describe(tree: Tree, node: number): string {
	const name = displayName(tree.strings[tree.name[node]], 120);
	const [total, self] = [tree.total, tree.self].map((column) => formatShare(column[node], tree.total[0]));
	const frame = T.flame.frame(name, total, self, tree.depth[node]);
	return tree.end[node] > node + 1 ? frame : T.flame.leaf(frame);
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

// The keyboard's frame, by its path, so that the next answer's tree has it again.
function useFocus(tree: Tree): [number, (node: number) => void] {
	const [focus, setFocus] = useState<{ tree: Tree; node: number; keys: string[] } | null>(null);
	const set = useCallback(
		(node: number) => setFocus(node < 0 ? null : { tree, node, keys: pathKeys(tree, node) }),
		[tree],
	);
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
}

// What pointer and fingers do. A finger has no hover: the first tap shows what a box is, the second opens it.
function usePointer({ props, view, width, setFocused }: Input) {
	const { tree, zoom, flip, onZoom } = props;
	const [hover, setHover] = useState<Hover | null>(null);
	const touched = useRef(false);
	useLayoutEffect(() => setHover(null), [tree, zoom, flip]);

	const show = (box: Box | null, event: MouseEvent) => {
		view.current!.hover(box);
		props.onHover?.(box && !box.tail ? box.node : -1);
		setHover(box && { box, x: event.clientX, y: event.clientY });
	};
	const leave = () => {
		view.current!.hover(null);
		if (hover) props.onHover?.(-1);
		setHover(null);
	};
	const onPointerMove = (event: PointerEvent) => {
		if (event.pointerType !== 'touch') show(view.current!.boxAt(event), event);
	};
	const onClick = (event: MouseEvent) => {
		const box = view.current!.boxAt(event);
		if (!box) return;
		if (touched.current && !(hover && hover.box.node === box.node && hover.box.tail === box.tail)) {
			show(box, event);
			return;
		}
		setFocused(box.tail ? tree.parent[box.node] : box.node);
		if (box.tail) onZoom(openTail(tree, box.node, view.current!.valueAt(event), width));
		else onZoom({ node: box.node, skip: 0, take: 0 });
	};
	const handlers = {
		onPointerDown: (event: PointerEvent) => (touched.current = event.pointerType === 'touch'),
		onPointerMove,
		onPointerLeave: (event: PointerEvent) => event.pointerType !== 'touch' && leave(),
		onClick,
		onContextMenu: (event: MouseEvent) => {
			const box = view.current!.boxAt(event);
			event.preventDefault();
			if (!box || box.tail) return;
			leave();
			setFocused(box.node);
			props.onMenu(box.node, event.clientX, event.clientY);
		},
	};
	return { hover, leave, handlers };
}

// What a key does; false if nothing.
function pressKey(key: string, { props, focused, setFocused }: Input): boolean {
	const { tree, zoom, flip, onZoom, onOpen } = props;
	const at = focused >= 0 ? focused : zoom.node;
	if (key === 'Enter' || key === ' ') {
		onZoom({ node: at, skip: 0, take: 0 });
	} else if (key === 'Backspace') {
		onZoom({ node: zoom.take || zoom.skip ? zoom.node : tree.parent[zoom.node], skip: 0, take: 0 });
	} else if (key === 's' || key === 'a') {
		onOpen(key === 's' ? 'source' : 'asm', at);
	} else if (key === 'Escape') {
		setFocused(-1);
		onZoom(NO_ZOOM);
	} else {
		const next = neighbour(tree, at, key, flip);
		if (next < 0) return key.startsWith('Arrow');
		setFocused(next);
		const [from, to] = zoomRange(tree, zoom);
		// A neighbour beside the zoomed frame: widen the view to their caller, or the focus would be out of sight.
		if (tree.start[next] >= to || tree.start[next] + tree.total[next] <= from) {
			onZoom({ node: tree.parent[next], skip: 0, take: 0 });
		}
	}
	return true;
}

export function FlameView(props: FlameViewProps) {
	const { tree, zoom, flip, matches, dark, focusRequest, paint, linked, tip, told, name = 'flame' } = props;
	const scroller = useRef<HTMLDivElement>(null);
	const canvas = useRef<HTMLCanvasElement>(null);
	const spacer = useRef<HTMLDivElement>(null);
	const view = useRef<FlameCanvas | null>(null);
	const [measure, width, height] = useSize<HTMLDivElement>();
	const [focused, setFocused] = useFocus(tree);
	const input: Input = { props, view, width, focused, setFocused };
	const { hover, leave, handlers } = usePointer(input);

	useLayoutEffect(() => {
		const created = new FlameCanvas(canvas.current!, scroller.current!, spacer.current!);
		view.current = created;
		const hide = exposeForTests(created, name);
		measure(scroller.current);
		return () => {
			hide();
			created.destroy();
			measure(null);
		};
	}, []);
	useLayoutEffect(() => {
		view.current!.resize(width, height);
		view.current!.update({ tree, zoom, flip, matches, dark, focused, paint, linked });
	}, [tree, zoom, flip, matches, dark, focused, paint, linked, width, height]);
	useEffect(() => {
		if (focusRequest) setFocused(focusRequest.node);
	}, [focusRequest]);

	const onKeyDown = (event: KeyboardEvent) => {
		if (event.ctrlKey || event.metaKey || event.altKey || !pressKey(event.key, input)) return;
		leave();
		event.preventDefault();
	};
	return (
		<div
			class="flame"
			ref={scroller}
			data-testid={name}
			tabIndex={0}
			role="application"
			aria-roledescription={T.flame.role}
			aria-label={T.flame.label}
			aria-describedby={`${name}-focus`}
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
			<div id={`${name}-focus`} class="unseen" aria-live="polite">
				{(told ?? ((node) => describe(tree, node)))(focused >= 0 ? focused : zoom.node)}
			</div>
			{hover && <Tooltip tree={tree} hover={hover} told={tip?.(hover.box)} />}
		</div>
	);
}
