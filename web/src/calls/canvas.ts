// SPDX-License-Identifier: Apache-2.0
/*
 * The canvas of the call graph: which part of it is in view and how large, and painting. Boxes have the colour of their binary, as
 * in the flame graph, and at their foot a bar for their share in themselves; a line is as thick as what runs over it, and
 * broken where functions between its ends are not shown.
 */
import { formatShare } from '../base/format';
import { FONT } from '../flame/draw';
import type { CallGraph } from '../model/callgraph';
import type { GraphLayout, LayoutInput, Point } from '../model/callgraph_layout';
import type { Tree } from '../tree/tree';
import { frameColors, palette, type FrameColors, type Palette } from '../ui/colors';
import { Drawing } from '../ui/drawing';
import { boundView, fitView, type View } from './bounds';
import { hitAt, type BoxText, type Hit } from './boxes';

export interface CallsScene {
	tree: Tree;
	graph: CallGraph;
	layout: GraphLayout;
	sizes: LayoutInput['nodes'];
	texts: BoxText[];
	matches: Uint8Array | null; // by node of the tree
	dark: boolean;
	focused: number; // box, -1 = none
	chosen: number; // box of the function in the URL
}

export const NO_HIT: Hit = { box: -1, edge: -1 };
const LABELS_FROM = 0.75; // scale
const IMAGE_MAX = 8192; // px on a side

function trace(context: CanvasRenderingContext2D, points: Point[]): void {
	context.beginPath();
	context.moveTo(points[0].x, points[0].y);
	for (let i = 1; i < points.length - 1; i++) {
		const last = i === points.length - 2;
		const to = last ? points[i + 1] : { x: (points[i].x + points[i + 1].x) / 2, y: (points[i].y + points[i + 1].y) / 2 };
		context.quadraticCurveTo(points[i].x, points[i].y, to.x, to.y);
	}
	if (points.length === 2) context.lineTo(points[1].x, points[1].y);
}

export class CallsCanvas extends Drawing {
	hovered: Hit = NO_HIT;
	private readonly context: CanvasRenderingContext2D;
	private scene: CallsScene | null = null;
	private colors: Palette = palette(false);
	private frames: FrameColors | null = null;
	private view: View = { x: 0, y: 0, scale: 1 };
	width = 0; // of the pane
	height = 0;

	constructor(private readonly canvas: HTMLCanvasElement) {
		super();
		this.context = canvas.getContext('2d', { alpha: false })!;
	}

	resize(width: number, height: number): void {
		if (width === this.width && height === this.height) return;
		const first = this.width === 0 || this.height === 0;
		[this.width, this.height] = [width, height];
		if (first) this.fit();
		else this.clamp();
		this.schedule();
	}

	update(scene: CallsScene): void {
		const was = this.scene;
		this.scene = scene;
		if (was?.tree !== scene.tree || was.dark !== scene.dark) {
			this.colors = palette(scene.dark);
			this.frames = frameColors(scene.tree, this.colors);
		}
		if (was?.layout !== scene.layout) {
			this.hovered = NO_HIT;
			this.fit();
		}
		if (was?.focused !== scene.focused && scene.focused >= 0) this.reveal(scene.focused);
		this.schedule();
	}

	/** As it is opened. */
	fit(): void {
		if (!this.scene || this.width === 0 || this.height === 0) return;
		this.view = fitView(this.scene.layout, this);
		this.schedule();
	}

	/** So that the place at (x, y) in the pane stays where it is. */
	zoomAt(x: number, y: number, factor: number): void {
		const { view } = this;
		const { scale } = this.bound({ ...view, scale: view.scale * factor });
		this.view = { scale, x: view.x + x / view.scale - x / scale, y: view.y + y / view.scale - y / scale };
		this.clamp();
	}

	zoom(factor: number): void {
		this.zoomAt(this.width / 2, this.height / 2, factor);
	}

	pan(dx: number, dy: number): void {
		this.view = { ...this.view, x: this.view.x - dx / this.view.scale, y: this.view.y - dy / this.view.scale };
		this.clamp();
	}

	private bound(view: View): View {
		return this.scene ? boundView(view, this.scene.layout, this) : view;
	}

	private clamp(): void {
		this.view = this.bound(this.view);
		this.schedule();
	}

	reveal(box: number): void {
		const at = this.scene?.layout.nodes[box];
		if (!at || this.width === 0) return;
		const { view } = this;
		const [w, h] = [this.width / view.scale, this.height / view.scale];
		const size = this.scene!.sizes[box];
		const [mx, my] = [size.width / 2 + 20 / view.scale, size.height / 2 + 20 / view.scale];
		view.x = Math.min(at.x - mx, Math.max(at.x + mx - w, view.x));
		view.y = Math.min(at.y - my, Math.max(at.y + my - h, view.y));
		this.clamp();
	}

	hitAt({ clientX, clientY }: { clientX: number; clientY: number }): Hit {
		if (!this.scene) return NO_HIT;
		const corner = this.canvas.getBoundingClientRect();
		const { x, y, scale } = this.view;
		return hitAt(this.scene.layout, this.scene.sizes, x + (clientX - corner.left) / scale, y + (clientY - corner.top) / scale, 6 / scale);
	}

	hover(hit: Hit): void {
		if (hit.box === this.hovered.box && hit.edge === this.hovered.edge) return;
		this.hovered = hit;
		this.schedule();
	}

	protected draw(): void {
		if (this.width === 0 || this.height === 0) return;
		const ratio = devicePixelRatio || 1;
		const [w, h] = [Math.round(this.width * ratio), Math.round(this.height * ratio)];
		if (this.canvas.width !== w || this.canvas.height !== h) {
			[this.canvas.width, this.canvas.height] = [w, h];
			this.canvas.style.width = `${this.width}px`;
			this.canvas.style.height = `${this.height}px`;
		}
		this.paint(this.context, this.view, this.width, this.height, ratio);
	}

	/** The whole of it, in its own size or as large as a picture may be. */
	picture(): HTMLCanvasElement | null {
		if (!this.scene) return null;
		const { width, height } = this.scene.layout;
		const scale = Math.min(2, IMAGE_MAX / Math.max(width, height, 1));
		const canvas = document.createElement('canvas');
		[canvas.width, canvas.height] = [Math.max(1, Math.ceil(width * scale)), Math.max(1, Math.ceil(height * scale))];
		const context = canvas.getContext('2d', { alpha: false });
		if (context) this.paint(context, { x: 0, y: 0, scale: 1 }, width, height, scale);
		return context && canvas;
	}

	private paint(context: CanvasRenderingContext2D, view: View, width: number, height: number, ratio: number): void {
		context.setTransform(ratio, 0, 0, ratio, 0, 0);
		context.fillStyle = this.colors.background;
		context.fillRect(0, 0, width, height);
		if (!this.scene) return;
		context.setTransform(ratio * view.scale, 0, 0, ratio * view.scale, -view.x * view.scale * ratio, -view.y * view.scale * ratio);
		context.font = FONT;
		context.textBaseline = 'middle';
		context.direction = 'ltr';
		const marked = this.markedEdges();
		this.scene.graph.edges.forEach((_, i) => !marked.has(i) && this.paintEdge(context, i, false, view.scale));
		for (const i of marked) this.paintEdge(context, i, true, view.scale);
		this.scene.graph.nodes.forEach((_, i) => this.paintBox(context, i, view));
	}

	// Those of the box that is pointed at, or has the focus.
	private markedEdges(): Set<number> {
		const { graph, focused } = this.scene!;
		const box = this.hovered.box >= 0 ? this.hovered.box : focused;
		const marked = new Set<number>();
		if (this.hovered.edge >= 0) marked.add(this.hovered.edge);
		else if (box >= 0) graph.edges.forEach(({ from, to }, i) => (from === box || to === box) && marked.add(i));
		return marked;
	}

	private paintEdge(context: CanvasRenderingContext2D, i: number, marked: boolean, scale: number): void {
		const { graph, layout } = this.scene!;
		const points = layout.edges[i];
		const edge = graph.edges[i];
		if (points.length < 2) return;
		const share = graph.total > 0 ? edge.value / graph.total : 0;
		const thick = Math.max(1 + 6 * Math.sqrt(share), 1 / scale); // at least a pixel of the screen
		context.strokeStyle = context.fillStyle = marked ? this.colors.focus : this.colors.fadedText;
		context.globalAlpha = marked ? 1 : 0.5 + 0.4 * Math.sqrt(share);
		context.lineWidth = thick;
		context.setLineDash(edge.skips ? [6, 5] : []);
		trace(context, points);
		context.stroke();
		context.setLineDash([]);
		const [before, tip] = points.slice(-2);
		const turn = Math.atan2(tip.y - before.y, tip.x - before.x);
		const size = 5 + thick;
		context.beginPath();
		context.moveTo(tip.x, tip.y);
		for (const side of [-1, 1]) context.lineTo(tip.x - size * Math.cos(turn + side * 0.42), tip.y - size * Math.sin(turn + side * 0.42));
		context.fill();
		context.globalAlpha = 1;
		if (!marked && scale < LABELS_FROM) return;
		const middle = points[points.length >> 1];
		const text = formatShare(edge.value, graph.total);
		const width = context.measureText(text).width;
		context.fillStyle = this.colors.background;
		context.globalAlpha = 0.85;
		context.fillRect(middle.x - width / 2 - 2, middle.y - 8, width + 4, 15);
		context.globalAlpha = 1;
		context.fillStyle = marked ? this.colors.focus : this.colors.fadedText;
		context.textAlign = 'center';
		context.fillText(text, middle.x, middle.y);
	}

	private paintBox(context: CanvasRenderingContext2D, i: number, view: View): void {
		const { graph, layout, sizes, texts, matches, focused, chosen } = this.scene!;
		const { node, self } = graph.nodes[i];
		const { width, height } = sizes[i];
		const [x, y] = [layout.nodes[i].x - width / 2, layout.nodes[i].y - height / 2];
		const matched = matches !== null && matches[node] === 1;
		const faded = matches !== null && !matched;
		context.fillStyle = matched ? this.colors.match : faded ? this.colors.faded : this.frames!.of(node);
		context.fillRect(x, y, width, height);
		const ink = matched ? this.colors.matchText : faded ? this.colors.fadedText : this.colors.text;
		context.fillStyle = ink;
		context.globalAlpha = 0.55;
		context.fillRect(x, y + height - 3, graph.total > 0 ? (width * self) / graph.total : 0, 3);
		context.globalAlpha = 1;
		if (i === this.hovered.box) {
			context.fillStyle = this.colors.hover;
			context.fillRect(x, y, width, height);
		}
		if (i === focused || i === chosen) {
			context.strokeStyle = this.colors.focus;
			context.lineWidth = Math.max(2, 2 / view.scale);
			context.strokeRect(x - 1, y - 1, width + 2, height + 2);
		}
		context.fillStyle = ink;
		context.textAlign = 'left';
		context.fillText(texts[i].name, x + 9, y + 13);
		context.globalAlpha = 0.8;
		context.fillText(texts[i].sums, x + 9, y + 27);
		context.globalAlpha = 1;
	}

	/** For tests: where the box of that name is, in page coordinates. */
	rectOf(name: string): { x: number; y: number; width: number; height: number } | null {
		const { scene, view } = this;
		const i = scene ? scene.graph.nodes.findIndex(({ node }) => scene.tree.strings[scene.tree.name[node]] === name) : -1;
		if (!scene || i < 0) return null;
		const { width, height } = scene.sizes[i];
		const corner = this.canvas.getBoundingClientRect();
		return {
			x: corner.left + scrollX + (scene.layout.nodes[i].x - width / 2 - view.x) * view.scale,
			y: corner.top + scrollY + (scene.layout.nodes[i].y - height / 2 - view.y) * view.scale,
			width: width * view.scale,
			height: height * view.scale,
		};
	}

	get scale(): number {
		return this.view.scale;
	}

	/** For tests: of the layout, and what of it is in view. */
	get extent(): { content: { width: number; height: number }; view: View; pane: { width: number; height: number } } | null {
		if (!this.scene) return null;
		const { width, height } = this.scene.layout;
		return { content: { width, height }, view: { ...this.view }, pane: { width: this.width, height: this.height } };
	}
}
