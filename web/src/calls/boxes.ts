// SPDX-License-Identifier: Apache-2.0
// What is in a call graph's box, how large that is, and where one gets from there by keys. Pure but for the width of text.
import { displayName, formatShare, shortName } from '../base/format';
import * as T from '../base/texts';
import type { CallGraph } from '../model/callgraph';
import type { GraphLayout, LayoutInput } from '../model/callgraph_layout';
import type { Tree } from '../tree/tree';

export interface BoxText {
	name: string; // as it is in the box
	sums: string;
}

const NAME_MAX = 34; // letters
const PADDING = 9;
const BOX_HEIGHT = 38;
const WIDTH_MIN = 96;

export function boxTexts(tree: Tree, graph: CallGraph): BoxText[] {
	return graph.nodes.map(({ node, self, total }) => {
		const whole = displayName(tree.strings[tree.name[node]], 300);
		const short = whole.length > NAME_MAX ? shortName(whole) : whole;
		return {
			name: short.length > NAME_MAX ? `${short.slice(0, NAME_MAX - 1)}…` : short,
			sums: T.callGraph.sums(formatShare(self, graph.total), formatShare(total, graph.total)),
		};
	});
}

/** widthOf: of a text in the font of the boxes, in pixels. */
export function layoutInput(graph: CallGraph, texts: BoxText[], widthOf: (text: string) => number): LayoutInput {
	return {
		nodes: texts.map(({ name, sums }) => ({
			width: Math.ceil(Math.max(WIDTH_MIN, widthOf(name) + 2 * PADDING, widthOf(sums) + 2 * PADDING)),
			height: BOX_HEIGHT,
		})),
		edges: graph.edges.map(({ from, to, value }) => ({ from, to, weight: value })),
	};
}

/** The box of a function of the tree, -1 if it is not in the graph. */
export function boxOfFunction(graph: CallGraph, fn: number): number {
	return graph.nodes.findIndex((node) => node.fn === fn);
}

/**
 * Where an arrow leads from a box: up and down along the costliest edge, to the side to the next box of the same layer. From
 * nowhere (-1) to the costliest function. -1: nowhere.
 */
export function stepFrom(graph: CallGraph, layout: GraphLayout, box: number, key: string): number {
	if (box < 0) return graph.nodes.length > 0 ? 0 : -1;
	if (key === 'ArrowDown') return graph.edges.find((e) => e.from === box && e.to !== box)?.to ?? -1;
	if (key === 'ArrowUp') return graph.edges.find((e) => e.to === box && e.from !== box)?.from ?? -1;
	const sign = key === 'ArrowLeft' ? -1 : key === 'ArrowRight' ? 1 : 0;
	const here = layout.nodes[box];
	let best = -1;
	layout.nodes.forEach(({ x, y }, i) => {
		if (sign === 0 || Math.abs(y - here.y) > BOX_HEIGHT / 2 || sign * (x - here.x) <= 0) return;
		if (best < 0 || sign * (x - layout.nodes[best].x) < 0) best = i;
	});
	return best;
}

// ---- what is under the pointer --------------------

function distanceTo(px: number, py: number, a: { x: number; y: number }, b: { x: number; y: number }): number {
	const [dx, dy] = [b.x - a.x, b.y - a.y];
	const length = dx * dx + dy * dy;
	const t = length > 0 ? Math.min(1, Math.max(0, ((px - a.x) * dx + (py - a.y) * dy) / length)) : 0;
	return Math.hypot(px - a.x - t * dx, py - a.y - t * dy);
}

export interface Hit {
	box: number; // -1 = none
	edge: number;
}

/** In the units of the layout; near: how far off an edge the pointer may be. */
export function hitAt(layout: GraphLayout, sizes: LayoutInput['nodes'], x: number, y: number, near: number): Hit {
	const box = layout.nodes.findIndex((at, i) => Math.abs(x - at.x) <= sizes[i].width / 2 && Math.abs(y - at.y) <= sizes[i].height / 2);
	if (box >= 0) return { box, edge: -1 };
	let edge = -1;
	let nearest = near;
	layout.edges.forEach((points, i) => {
		for (let p = 1; p < points.length; p++) {
			const off = distanceTo(x, y, points[p - 1], points[p]);
			if (off < nearest) [edge, nearest] = [i, off];
		}
	});
	return { box: -1, edge };
}
