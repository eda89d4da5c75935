// SPDX-License-Identifier: Apache-2.0
/*
 * The canvas of the flame graph between layout and painting on one side and the component on the other: what is in view,
 * the glide between two zooms, the scroll position, which box the pointer is on. The canvas is as high as its scroller,
 * never as the tree: a spacer below it makes the scroll bar, so a stack of 10,000 frames costs no more than one that fits.
 */
import type { ColorBy } from '../state/page';
import { NO_ZOOM, zoomRange, type Tree, type Zoom } from '../tree/tree';
import { frameColors, palette, type FrameColors, type Palette } from '../ui/colors';
import { Drawing } from '../ui/drawing';
import { FONT, paint, TextFitter, type Scene } from './draw';
import { boxAt, deepestRow, layout, type Box } from './layout';
import { nodeFits, type Target } from './pointed';

export interface FlameProps {
	tree: Tree;
	zoom: Zoom;
	flip: boolean; // root at the bottom
	matches: Uint8Array | null;
	dark: boolean;
	color: ColorBy;
	focused: number;
	paint?: (colors: Palette) => FrameColors; // other colours than those of binaries
	linked?: number; // a node that is pointed at elsewhere, marked as if it were here
}

const GLIDE_MS = 170;
// The narrowest that wheel and fingers zoom to, as a share of the whole: a million nodes have some 1e-8 each at the least.
const NARROWEST = 1e-9;
const PICTURE_MAX = 8192; // px on a side

export class FlameCanvas extends Drawing {
	readonly rowHeight = matchMedia('(pointer: coarse)').matches ? 24 : 20;
	boxes: Box[] = [];
	hovered: Box | null = null;
	private context: CanvasRenderingContext2D;
	private props: FlameProps | null = null;
	private colors: Palette = palette(false);
	private frames: FrameColors | null = null;
	private fitter: TextFitter | null = null;
	private range: [number, number] = [0, 0]; // what is in view, on its way to target
	private target: [number, number] = [0, 0];
	private moving = false; // by wheel, pointer or fingers; the zoom follows when they rest
	/** Called whenever what is in view has changed. */
	onRange: ((from: number, to: number) => void) | null = null;
	private departed: { at: number; range: [number, number] } | null = null;
	private width = 0;
	private height = 0;
	private contentHeight = 0;
	private pointed: Target | null = null;

	constructor(
		private canvas: HTMLCanvasElement,
		private scroller: HTMLElement,
		private spacer: HTMLElement,
	) {
		super();
		this.context = canvas.getContext('2d', { alpha: false })!;
		if ('fontKerning' in this.context) this.context.fontKerning = 'none';
	}

	get tree(): Tree | null {
		return this.props?.tree ?? null;
	}

	/** What is in view, and what will be when a glide has ended. */
	get inView(): [number, number] {
		return this.moving ? this.range : this.target;
	}

	/** Whether all is in view. */
	get whole(): boolean {
		const total = this.props?.tree.total[0] ?? 0;
		return this.inView[1] - this.inView[0] >= total * 0.9999;
	}

	/** Where keys zoom to: the middle of the focused frame if it is in view, else of what is. */
	get middle(): number {
		const [from, to] = this.inView;
		const { tree, focused } = this.props!;
		const at = focused > 0 ? tree.start[focused] + tree.total[focused] / 2 : -1;
		return at > from && at < to ? at : (from + to) / 2;
	}

	/** Brings a range into view at once; the zoom is another's to set, when the gesture is over. */
	show(from: number, to: number): void {
		const total = this.props?.tree.total[0] ?? 0;
		if (!(total > 0)) return;
		const length = Math.min(total, Math.max(to - from, total * NARROWEST));
		const begin = Math.min(Math.max(0, (from + to - length) / 2), total - length);
		this.moving = true;
		this.departed = null;
		this.range = [begin, begin + length];
		this.schedule();
	}

	/** factor < 1: zooms in. What is at that place of the window stays there. */
	zoomAt(clientX: number, factor: number): void {
		const at = this.valueAt({ clientX });
		const [from, to] = this.range;
		const total = this.props?.tree.total[0] ?? 0;
		const length = Math.min(total, Math.max((to - from) * factor, total * NARROWEST));
		const share = (at - from) / (to - from);
		const begin = at - share * length;
		this.show(begin, begin + length);
	}

	pan(pixels: number): void {
		const [from, to] = this.range;
		const shift = (pixels / Math.max(1, this.width)) * (to - from);
		const total = this.props?.tree.total[0] ?? 0;
		const begin = Math.min(Math.max(0, from + shift), total - (to - from));
		this.show(begin, begin + to - from);
	}

	resize(width: number, height: number): void {
		if (width === this.width && height === this.height) return;
		this.width = width;
		this.height = height;
		this.fitContent();
		this.schedule();
	}

	update(props: FlameProps): void {
		const was = this.props;
		this.props = props;
		const newTree = was?.tree !== props.tree;
		if (newTree || was?.dark !== props.dark || was.color !== props.color || was.paint !== props.paint) {
			this.colors = palette(props.dark);
			this.frames = props.paint?.(this.colors) ?? frameColors(props.tree, this.colors, props.color);
		}
		if (newTree) {
			this.context.font = FONT;
			this.fitter = new TextFitter(this.context, props.tree.strings);
			this.hovered = null;
		}
		const target = zoomRange(props.tree, props.zoom);
		const moved = newTree || was.zoom !== props.zoom;
		// A zoom that says what a gesture has brought into view already: nothing moves.
		const close = (a: number, b: number) => Math.abs(a - b) <= 1e-6 * (target[1] - target[0]);
		const there = this.moving && moved && !newTree && close(target[0], this.range[0]) && close(target[1], this.range[1]);
		if (moved) this.moving = false;
		if (newTree || there || target[0] !== this.target[0] || target[1] !== this.target[1]) {
			const glide = !newTree && !there && this.width > 0 && !matchMedia('(prefers-reduced-motion: reduce)').matches;
			this.departed = glide ? { at: performance.now(), range: this.range } : null;
			this.target = target;
			if (!glide) this.range = target;
			this.fitContent();
		}
		if (was?.flip !== props.flip) this.scroller.scrollTop = props.flip ? this.contentHeight : 0;
		if (was && was.zoom !== props.zoom && !there) this.reveal(props.zoom.node);
		if (was && was.focused !== props.focused && props.focused >= 0) this.reveal(props.focused);
		this.schedule();
	}

	// The scrolled height follows the rows of the zoomed part; what was at the root's edge stays there.
	private fitContent(): void {
		if (!this.props || this.width === 0) return;
		const rows = deepestRow(this.props.tree, this.target[0], this.target[1], this.width) + 1;
		const wanted = Math.max(rows * this.rowHeight + 1, this.height);
		if (wanted === this.contentHeight) return;
		const below = this.contentHeight === 0 ? 0 : this.contentHeight - this.scroller.scrollTop - this.height;
		this.contentHeight = wanted;
		this.spacer.style.height = `${wanted}px`;
		if (this.props.flip) this.scroller.scrollTop = wanted - this.height - below;
	}

	private topOf(row: number): number {
		return this.props?.flip ? this.contentHeight - (row + 1) * this.rowHeight : row * this.rowHeight;
	}

	// Scrolls so that the node's row, and a few rows of what it calls, are to be seen.
	reveal(node: number): void {
		if (!this.props || this.height === 0) return;
		const row = this.props.tree.depth[node];
		const margin = Math.min(3, Math.floor(this.height / this.rowHeight / 4));
		const rows = [row - 1, row + margin].map((r) => this.topOf(Math.max(r, 0)));
		const [top, bottom] = [Math.min(...rows), Math.max(...rows) + this.rowHeight];
		const at = this.scroller.scrollTop;
		if (top < at) this.scroller.scrollTop = top;
		else if (bottom > at + this.height) this.scroller.scrollTop = bottom - this.height;
	}

	private advance(now: number): void {
		if (!this.departed) return;
		const t = Math.min(1, Math.max(0, (now - this.departed.at) / GLIDE_MS));
		const eased = 1 - (1 - t) ** 3;
		const [a, b] = this.departed.range;
		this.range = [a + (this.target[0] - a) * eased, b + (this.target[1] - b) * eased];
		if (t < 1) {
			this.schedule();
		} else {
			this.departed = null;
			this.range = this.target;
		}
	}

	protected draw(now: number): void {
		const { props, width, height } = this;
		if (!props || !this.frames || !this.fitter || width === 0 || height === 0) return;
		this.advance(now);
		const ratio = devicePixelRatio || 1;
		const [pixelWidth, pixelHeight] = [Math.round(width * ratio), Math.round(height * ratio)];
		if (this.canvas.width !== pixelWidth || this.canvas.height !== pixelHeight) {
			this.canvas.width = pixelWidth;
			this.canvas.height = pixelHeight;
			this.canvas.style.width = `${width}px`;
			this.canvas.style.height = `${height}px`;
			if ('fontKerning' in this.context) this.context.fontKerning = 'none';
		}
		this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
		this.onRange?.(this.range[0], this.range[1]);
		const [firstRow, lastRow] = this.rowsInView();
		const was = this.hovered;
		this.boxes = layout(props.tree, { from: this.range[0], to: this.range[1], width, firstRow, lastRow });
		this.hovered = was && (this.boxes.find((b) => b.node === was.node && b.tail === was.tail) ?? null);
		const scroll = this.scroller.scrollTop;
		paint(this.context, { ...this.scene(this.boxes, width, height), yOf: (row) => this.topOf(row) - scroll });
	}

	private scene(boxes: Box[], width: number, height: number): Omit<Scene, 'yOf'> {
		const { tree, zoom, matches, focused, linked } = this.props!;
		return {
			tree,
			boxes,
			colors: this.colors,
			frames: this.frames!,
			fitter: this.fitter!,
			width,
			height,
			rowHeight: this.rowHeight,
			zoomed: tree.depth[zoom.node],
			matches,
			hovered: this.hovered ?? boxes.find((box) => !box.tail && box.node === linked) ?? null,
			focused,
			pointed: this.pointed && this.pointedIn(this.pointed),
		};
	}

	private pointedIn(target: Target): (node: number) => boolean {
		const { tree } = this.props!;
		return (node) => nodeFits(target, tree, node);
	}

	/** Marks all frames that fit. */
	point(target: Target | null): void {
		this.pointed = target;
		this.schedule();
	}

	/** All rows of what is in view, as many as a picture may have; without marks. */
	picture(): HTMLCanvasElement | null {
		const { props, rowHeight, width } = this;
		if (!props || width === 0) return null;
		const ratio = Math.max(1, Math.min(2, devicePixelRatio || 1));
		const rows = Math.min(deepestRow(props.tree, this.range[0], this.range[1], width) + 1, Math.floor(PICTURE_MAX / ratio / rowHeight));
		const height = rows * rowHeight;
		const canvas = document.createElement('canvas');
		[canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
		const context = canvas.getContext('2d', { alpha: false });
		if (!context) return null;
		context.setTransform(ratio, 0, 0, ratio, 0, 0);
		const boxes = layout(props.tree, { from: this.range[0], to: this.range[1], width, firstRow: 0, lastRow: rows - 1 });
		paint(context, {
			...this.scene(boxes, width, height),
			yOf: (row) => (props.flip ? rows - 1 - row : row) * rowHeight,
			hovered: null,
			focused: -1,
			pointed: null,
		});
		return canvas;
	}

	private rowsInView(): [number, number] {
		const scroll = this.scroller.scrollTop;
		const top = this.props?.flip ? this.contentHeight - scroll - this.height : scroll;
		return [Math.max(0, Math.floor(top / this.rowHeight)), Math.floor((top + this.height) / this.rowHeight)];
	}

	// Under a place in the window.
	boxAt({ clientX, clientY }: { clientX: number; clientY: number }): Box | null {
		const corner = this.canvas.getBoundingClientRect();
		const fromTop = clientY - corner.top + this.scroller.scrollTop;
		const row = Math.floor((this.props?.flip ? this.contentHeight - fromTop : fromTop) / this.rowHeight);
		return boxAt(this.boxes, row, clientX - corner.left);
	}

	valueAt({ clientX }: { clientX: number }): number {
		const x = clientX - this.canvas.getBoundingClientRect().left;
		return this.range[0] + (x / this.width) * (this.range[1] - this.range[0]);
	}

	hover(box: Box | null): void {
		if (this.hovered === box) return;
		this.hovered = box;
		this.schedule();
	}

	/** Where a menu about a node is to stand, in the window: at its box, or at the graph's corner if it has none in view. */
	placeOf(node: number): { x: number; y: number } {
		const corner = this.canvas.getBoundingClientRect();
		const box = this.boxes.find((b) => b.node === node && !b.tail);
		if (!box) return { x: corner.left, y: corner.top };
		return { x: corner.left + box.x + 8, y: corner.top + this.topOf(box.row) - this.scroller.scrollTop + this.rowHeight };
	}

	// For tests: where the widest box of that name is, in page coordinates; null if none is in view.
	rectOf(name: string): { x: number; y: number; width: number; height: number } | null {
		const { props } = this;
		if (!props) return null;
		let best: Box | null = null;
		for (const box of this.boxes) {
			if (box.tail || props.tree.strings[props.tree.name[box.node]] !== name) continue;
			if (!best || box.width > best.width) best = box;
		}
		if (!best) return null;
		const corner = this.canvas.getBoundingClientRect();
		return {
			x: corner.left + scrollX + best.x,
			y: corner.top + scrollY + this.topOf(best.row) - this.scroller.scrollTop,
			width: best.width,
			height: this.rowHeight,
		};
	}

	get pointedAt(): Target | null {
		return this.pointed;
	}

	get zoom(): Zoom {
		return this.props?.zoom ?? NO_ZOOM;
	}

	/** The node that is pointed at, here or elsewhere; -1 = none. */
	get marked(): number {
		return this.hovered ? this.hovered.node : (this.props?.linked ?? -1);
	}

	get focused(): number {
		return this.props?.focused ?? -1;
	}
}
