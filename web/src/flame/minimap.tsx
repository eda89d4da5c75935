// SPDX-License-Identifier: Apache-2.0
/*
 * The whole tree in a strip above the graph, with what is in view marked: a drag of the mark moves it, a press elsewhere brings that
 * place into view, and while all is in view a drag marks what to look at. All of it can be had by keys in the graph, so the
 * strip is nothing for screen readers.
 *
 * It is painted once for a tree; the mark is an element that is moved while the graph is.
 */
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import type { ColorBy } from '../state/page';
import type { Tree } from '../tree/tree';
import { frameColors, palette } from '../ui/colors';
import { useSize } from '../ui/hooks';
import type { FlameCanvas, FlameProps } from './canvas';
import { layout } from './layout';

const HEIGHT = 36;
const ROW_MOST = 4; // px

interface Look {
	tree: Tree;
	flip: boolean;
	matches: Uint8Array | null;
	dark: boolean;
	color: ColorBy;
	paint?: FlameProps['paint'];
}
export interface MinimapProps extends Look {
	view: { current: FlameCanvas | null };
	onRest: () => void; // a gesture is over
}

function paintMap(canvas: HTMLCanvasElement, width: number, { tree, flip, matches, dark, color, paint }: Look): void {
	const ratio = devicePixelRatio || 1;
	canvas.width = Math.round(width * ratio);
	canvas.height = Math.round(HEIGHT * ratio);
	const context = canvas.getContext('2d', { alpha: false })!;
	context.setTransform(ratio, 0, 0, ratio, 0, 0);
	const colors = palette(dark);
	const frames = paint?.(colors) ?? frameColors(tree, colors, color);
	context.fillStyle = colors.background;
	context.fillRect(0, 0, width, HEIGHT);
	const row = Math.min(ROW_MOST, Math.max(1, HEIGHT / (tree.maxDepth + 1)));
	const rows = Math.floor(HEIGHT / row);
	for (const box of layout(tree, { from: 0, to: tree.total[0], width, firstRow: 0, lastRow: rows - 1 })) {
		const matched = matches !== null && matches[box.node] === 1 && !box.tail;
		context.fillStyle = matched ? colors.match : box.tail ? colors.tail : matches ? colors.faded : frames.of(box.node);
		context.fillRect(box.x, flip ? HEIGHT - (box.row + 1) * row : box.row * row, box.width, row);
	}
}

type Drag = { kind: 'move'; last: number } | { kind: 'mark'; from: number };

export function Minimap(props: MinimapProps) {
	const { tree, flip, matches, dark, color, paint, view, onRest } = props;
	const root = useRef<HTMLDivElement>(null);
	const canvas = useRef<HTMLCanvasElement>(null);
	const mark = useRef<HTMLDivElement>(null);
	const drag = useRef<Drag | null>(null);
	const [measure, width] = useSize<HTMLDivElement>();
	const total = tree.total[0];

	useLayoutEffect(() => {
		measure(root.current);
		return () => measure(null);
	}, [measure]);
	useEffect(() => {
		if (width > 0) paintMap(canvas.current!, width, { tree, flip, matches, dark, color, paint });
	}, [tree, flip, matches, dark, color, paint, width]);
	// An effect, not a layout effect: the canvas is made by a layout effect of the part around this one, which comes later.
	useEffect(() => {
		const flame = view.current;
		if (!flame) return undefined;
		flame.onRange = (from, to) => {
			if (!mark.current) return; // taken away since the frame was asked for
			mark.current.hidden = to - from >= total * 0.9999;
			mark.current.style.left = `${(100 * from) / total}%`;
			mark.current.style.width = `${(100 * (to - from)) / total}%`;
		};
		flame.schedule();
		return () => (flame.onRange = null);
	}, [view, tree, total]);

	const valueAt = (event: PointerEvent): number => {
		const { left, width: wide } = root.current!.getBoundingClientRect();
		return (Math.min(1, Math.max(0, (event.clientX - left) / wide)) || 0) * total;
	};
	const onPointerDown = (event: PointerEvent) => {
		const flame = view.current!;
		if (event.button !== 0 || !(total > 0)) return;
		root.current!.setPointerCapture(event.pointerId);
		const at = valueAt(event);
		const [from, to] = flame.inView;
		if (flame.whole) {
			drag.current = { kind: 'mark', from: at };
			return;
		}
		if (at < from || at > to) flame.show(at - (to - from) / 2, at + (to - from) / 2);
		drag.current = { kind: 'move', last: at };
	};
	const onPointerMove = (event: PointerEvent) => {
		const flame = view.current!;
		const now = drag.current;
		if (!now) return;
		const at = valueAt(event);
		if (now.kind === 'mark') {
			if (Math.abs(at - now.from) > (total * 3) / Math.max(1, width)) flame.show(Math.min(at, now.from), Math.max(at, now.from));
			return;
		}
		const [from, to] = flame.inView;
		const shift = Math.min(total - to, Math.max(-from, at - now.last));
		now.last = at;
		flame.show(from + shift, to + shift);
	};
	const end = () => {
		if (!drag.current) return;
		drag.current = null;
		onRest();
	};
	return (
		<div
			class="minimap"
			ref={root}
			aria-hidden="true"
			data-testid="minimap"
			onPointerDown={onPointerDown}
			onPointerMove={onPointerMove}
			onPointerUp={end}
			onPointerCancel={end}
		>
			<canvas ref={canvas} />
			<div class="minimap-view" ref={mark} data-testid="minimap-view" hidden />
		</div>
	);
}
