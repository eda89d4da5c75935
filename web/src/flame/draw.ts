// SPDX-License-Identifier: Apache-2.0
// Paints boxes on a canvas. Knows nothing of events or state: what is to be seen comes in as arguments.
import { displayName, shortName } from '../base/format';
import type { Tree } from '../tree/tree';
import type { FrameColors, Palette } from '../ui/colors';
import type { Box } from './layout';

export const FONT = '11.5px system-ui, -apple-system, "Segoe UI", Roboto, Ubuntu, Cantarell, "Noto Sans", sans-serif';
const PADDING = 4;

/*
 * Widths of text without asking the canvas for each string: the advance of every character, asked for once. Kerning is off,
 * so that the sum is exact for Latin text; of other scripts it is close enough to clip by.
 */
export class TextFitter {
	private advances = new Map<number, number>();
	private names = new Map<number, [string, string]>(); // string -> what is shown: whole, short
	constructor(
		private context: CanvasRenderingContext2D,
		private strings: string[],
	) {}

	private advance(code: number, text: string): number {
		let width = this.advances.get(code);
		if (width === undefined) this.advances.set(code, (width = this.context.measureText(text).width));
		return width;
	}

	private cut(text: string, width: number): string {
		let used = 0;
		let fits = 0; // up to here there is room for the ellipsis as well
		const ellipsis = this.advance(0x2026, '…');
		for (let i = 0; i < text.length; i++) {
			used += this.advance(text.charCodeAt(i), text[i]);
			if (used + ellipsis <= width) fits = i + 1;
			if (used > width) return fits > 1 ? text.slice(0, fits) + '…' : '';
		}
		return text;
	}

	fit(name: number, width: number): string {
		let shown = this.names.get(name);
		if (!shown) {
			const whole = displayName(this.strings[name], 300);
			this.names.set(name, (shown = [whole, shortName(whole)]));
		}
		const text = this.cut(shown[0], width);
		return text === shown[0] || shown[0] === shown[1] ? text : this.cut(shown[1], width);
	}
}

export interface Scene {
	tree: Tree;
	boxes: Box[];
	colors: Palette;
	frames: FrameColors;
	fitter: TextFitter;
	width: number;
	height: number;
	rowHeight: number;
	yOf: (row: number) => number; // top of a row on the canvas
	zoomed: number; // rows above this depth are the way to the zoomed frame
	matches: Uint8Array | null;
	hovered: Box | null;
	focused: number; // node, -1 = none
	pointed: ((node: number) => boolean) | null; // what is pointed at in the table
}

function paintTail(context: CanvasRenderingContext2D, scene: Scene, box: Box, y: number): void {
	const { colors, rowHeight } = scene;
	const height = rowHeight - 1;
	context.fillStyle = colors.tail;
	context.fillRect(box.x, y, box.width, height);
	if (box.width < 4) return;
	// Hatched: many narrow boxes, and not a function.
	context.save();
	context.beginPath();
	context.rect(box.x, y, box.width, height);
	context.clip();
	context.strokeStyle = colors.tailLine;
	context.lineWidth = 1;
	context.beginPath();
	for (let x = box.x - height; x < box.x + box.width; x += 5) {
		context.moveTo(x, y + height);
		context.lineTo(x + height, y);
	}
	context.stroke();
	context.restore();
}

function paintFrame(context: CanvasRenderingContext2D, scene: Scene, box: Box, y: number): void {
	const { tree, colors, matches, rowHeight } = scene;
	const matched = matches !== null && matches[box.node] === 1;
	const faded = matches !== null && !matched;
	// A pixel of background between neighbours, unless it would eat the box.
	const width = box.width > 2.5 ? box.width - 1 : box.width;
	const above = tree.depth[box.node] < scene.zoomed;
	context.fillStyle = matched ? colors.match : faded ? colors.faded : scene.frames.of(box.node);
	if (above) context.globalAlpha = 0.55;
	context.fillRect(box.x, y, width, rowHeight - 1);
	context.globalAlpha = 1;
	if (box.width < 22) return;
	const text = scene.fitter.fit(tree.name[box.node], width - 2 * PADDING + 1);
	if (text === '') return;
	context.fillStyle = matched ? colors.matchText : faded ? colors.fadedText : colors.text;
	context.fillText(text, box.x + PADDING, y + (rowHeight - 1) / 2 + 0.5);
}

function paintMark(context: CanvasRenderingContext2D, scene: Scene, box: Box): void {
	const y = scene.yOf(box.row);
	if (box === scene.hovered) {
		context.fillStyle = scene.colors.hover;
		context.fillRect(box.x, y, Math.max(box.width - 1, 1), scene.rowHeight - 1);
	}
	if (box.tail) return;
	if (box.node === scene.focused) {
		context.strokeStyle = scene.colors.focus;
		context.lineWidth = 2;
		context.strokeRect(box.x + 1, y + 1, Math.max(box.width - 3, 1), scene.rowHeight - 3);
	}
}

// The other boxes of the function that is pointed at, or has the focus.
function paintSame(context: CanvasRenderingContext2D, scene: Scene): void {
	const { tree, hovered, focused } = scene;
	const node = hovered && !hovered.tail ? hovered.node : focused;
	if (node <= 0) return;
	const [name, binary, file] = [tree.name[node], tree.binary[node], tree.file[node]];
	context.strokeStyle = scene.colors.focus;
	context.lineWidth = 1;
	for (const box of scene.boxes) {
		const at = box.node;
		if (box.tail || at === 0 || tree.name[at] !== name || tree.binary[at] !== binary || tree.file[at] !== file) continue;
		context.strokeRect(box.x + 0.5, scene.yOf(box.row) + 0.5, Math.max(box.width - 2, 0.5), scene.rowHeight - 2);
	}
}

// What the table points at.
function paintPointed(context: CanvasRenderingContext2D, scene: Scene, pointed: (node: number) => boolean): void {
	context.strokeStyle = scene.colors.focus;
	context.lineWidth = 1.5;
	for (const box of scene.boxes) {
		if (box.tail || !pointed(box.node)) continue;
		context.strokeRect(box.x + 0.75, scene.yOf(box.row) + 0.75, Math.max(box.width - 2.5, 0.5), scene.rowHeight - 2.5);
	}
}

export function paint(context: CanvasRenderingContext2D, scene: Scene): void {
	context.fillStyle = scene.colors.background;
	context.fillRect(0, 0, scene.width, scene.height);
	context.font = FONT;
	context.textBaseline = 'middle';
	context.textAlign = 'left';
	context.direction = 'ltr';
	for (const box of scene.boxes) {
		const y = scene.yOf(box.row);
		if (box.tail) paintTail(context, scene, box, y);
		else paintFrame(context, scene, box, y);
	}
	paintSame(context, scene);
	if (scene.pointed) paintPointed(context, scene, scene.pointed);
	for (const box of scene.boxes) if (box === scene.hovered || box.node === scene.focused) paintMark(context, scene, box);
}
