// SPDX-License-Identifier: Apache-2.0
/*
 * Where the boxes and lines of a call graph go: in layers, callers above what they call, by dagre (after E. R. Gansner and
 * others, "A technique for drawing directed graphs", IEEE TSE 19 (1993) 214). Calls in a circle are turned round for the
 * layers, the lightest first, and drawn in their own direction. The same input has the same layout: nothing in it is
 * drawn by lot, and boxes and lines are given to dagre in the order of the input.
 *
 * Only numbers go in and come out; names stay with who draws them.
 */
import { Graph, layout, type EdgeLabel, type GraphLabel, type NodeLabel } from '@dagrejs/dagre';
import * as T from '../base/texts';

export interface LayoutInput {
	nodes: { width: number; height: number }[]; // > 0, in pixels
	edges: { from: number; to: number; weight: number }[]; // heavier ones are shorter and straighter
}

export interface Point {
	x: number;
	y: number;
}

export interface GraphLayout {
	width: number;
	height: number;
	nodes: Point[]; // centres, by node of the input
	edges: Point[][]; // by edge of the input: from border to border, at least two points
}

// 100 functions and 200 calls take 0.2 s, the most that is allowed 2 s and more: no work for the page's own thread.
export const LAYOUT_NODES_MAX = 300;
export const LAYOUT_EDGES_MAX = 1000;
const SIMPLEX_EDGES = 500; // with more, the best layers take longer than they are worth

// dagre's work grows with the span of weights, and a rank between 1 and 8 says enough.
function rankWeights(edges: LayoutInput['edges']): number[] {
	const most = edges.reduce((max, { weight }) => Math.max(max, weight), 0);
	return edges.map(({ weight }) => (most > 0 ? 1 + Math.round((7 * weight) / most) : 1));
}

function check({ nodes, edges }: LayoutInput): void {
	if (nodes.length > LAYOUT_NODES_MAX || edges.length > LAYOUT_EDGES_MAX) throw new RangeError(T.calls.tooLarge(nodes.length, edges.length));
	const positive = (v: number) => v > 0 && Number.isFinite(v);
	if (!nodes.every(({ width, height }) => positive(width) && positive(height))) throw new RangeError(T.calls.noSize);
	const isNode = (i: number) => Number.isInteger(i) && i >= 0 && i < nodes.length;
	if (!edges.every(({ from, to, weight }) => isNode(from) && isNode(to) && weight >= 0 && Number.isFinite(weight))) throw new RangeError(T.calls.noEnds);
}

/** RangeError for more than LAYOUT_NODES_MAX nodes or LAYOUT_EDGES_MAX edges, and for what is no number. */
export function layoutCallGraph(input: LayoutInput): GraphLayout {
	check(input);
	if (input.nodes.length === 0) return { width: 0, height: 0, nodes: [], edges: [] };
	const graph = new Graph<GraphLabel, NodeLabel, EdgeLabel>({ multigraph: true });
	const ranker = input.edges.length > SIMPLEX_EDGES ? 'tight-tree' : 'network-simplex';
	const margins = { nodesep: 24, edgesep: 10, ranksep: 48, marginx: 12, marginy: 12 };
	graph.setGraph({ rankdir: 'TB', acyclicer: 'greedy', ranker, ...margins });
	input.nodes.forEach(({ width, height }, i) => graph.setNode(String(i), { width, height }));
	const weights = rankWeights(input.edges);
	input.edges.forEach(({ from, to }, i) => graph.setEdge(String(from), String(to), { weight: weights[i] }, String(i)));
	layout(graph);
	const { width = 0, height = 0 } = graph.graph();
	const nodes = input.nodes.map((_, i) => {
		const { x = 0, y = 0 } = graph.node(String(i));
		return { x, y };
	});
	const edges = input.edges.map(({ from, to }, i) => {
		const points = (graph.edge(String(from), String(to), String(i)).points ?? []).map(({ x, y }) => ({ x, y }));
		return from === to ? loop(nodes[from], input.nodes[from], points) : points;
	});
	return { width, height, nodes, edges };
}

const LOOP_WIDTH = 18; // px, less than is between two boxes

// Of a call to itself dagre gives the outer part alone, in the room that it left for it at the right of the box.
function loop({ x, y }: Point, box: LayoutInput['nodes'][0], room: Point[]): Point[] {
	const right = x + box.width / 2;
	const far = Math.min(right + LOOP_WIDTH, Math.max(right, ...room.map((point) => point.x)));
	const [top, bottom] = [y - box.height / 4, y + box.height / 4];
	return [
		{ x: right, y: top },
		{ x: far, y: top },
		{ x: far, y: bottom },
		{ x: right, y: bottom },
	];
}
