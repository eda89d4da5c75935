// SPDX-License-Identifier: Apache-2.0
/*
 * The call graph: functions, and who calls whom. A function's total counts a stack once, and so does an edge: f -> g is worth
 * what the stacks cost in which f calls g at least once, at whatever level. Sums over a node's edges can therefore exceed
 * its total, where stacks come through it twice.
 *
 * Nobody can read a graph of 10,000 functions, so it is made of the costliest. A function that is left out does not tear
 * what is around it apart: where f calls left-out functions which call g, there is an edge from f to g that `skips`. Of edges,
 * too, only the costliest are there, and for each function the costliest into it, whatever it costs, so that the way to it
 * can be seen. What is left out is summed in `hidden`.
 */
import { treeFunctions } from '../tree/functions';
import { KIND, kindOf, type Tree } from '../tree/tree';

export interface GraphNode {
	fn: number; // function of the tree (tree/functions.ts)
	node: number; // of the tree, the first that is of it: its name, binary, file, kind
	self: number;
	total: number; // each stack once
}

export interface GraphEdge {
	from: number; // index into nodes; equal to `to` when the function calls itself
	to: number;
	value: number; // each stack once
	skips: boolean; // only by way of functions that are left out
}

export interface CallGraph {
	nodes: GraphNode[]; // by falling total
	edges: GraphEdge[]; // by falling value
	total: number; // of the tree
	folded: number; // functions that cost enough, but are more than nodesMax
	hidden: {
		functions: number;
		self: number; // of those functions
		edges: number; // between the functions that are there
		edgeMax: number; // the largest value of them
		rest: number; // what the tree itself left out; in no function
	};
}

export interface GraphLimits {
	nodesMax: number;
	edgesMax: number; // beside the costliest into each node
	shareMin: number; // of the tree's total, for nodes and edges; 0 = all
}

/** By function of the tree (tree/functions.ts). Nodes of kind rest are of none. */
export interface Sums {
	self: Float64Array;
	total: Float64Array; // each stack once
}

// Which function or edge each level of the present path counts for, and how often it is on the path.
class OncePerStack {
	private readonly path: number[] = [];
	private readonly onPath: number[] = [];

	constructor(private readonly totals: { [id: number]: number }) {}

	/** Goes to a node at that depth (the root's is 0); id: what it counts for, -1 for nothing. Depths as in pre-order. */
	enter(depth: number, id: number, value: number): void {
		while (this.path.length >= depth) {
			const left = this.path.pop()!;
			if (left >= 0) this.onPath[left]--;
		}
		this.path.push(id);
		if (id < 0) return;
		const on = this.onPath[id] ?? 0;
		if (on === 0) this.totals[id] = (this.totals[id] ?? 0) + value;
		this.onPath[id] = on + 1;
	}
}

const sumsOf = new WeakMap<Tree, Sums>();

/** Made once a tree. */
export function functionSums(tree: Tree): Sums {
	const known = sumsOf.get(tree);
	if (known) return known;
	const { count, of } = treeFunctions(tree);
	const sums: Sums = { self: new Float64Array(count), total: new Float64Array(count) };
	const stacks = new OncePerStack(sums.total);
	for (let i = 1; i < tree.count; i++) {
		const fn = kindOf(tree, i) === KIND.rest ? -1 : of[i];
		stacks.enter(tree.depth[i], fn, tree.total[i]);
		if (fn >= 0) sums.self[fn] += tree.self[i];
	}
	sumsOf.set(tree, sums);
	return sums;
}

function chooseNodes(tree: Tree, limits: GraphLimits): GraphNode[] {
	const { first } = treeFunctions(tree);
	const { self, total } = functionSums(tree);
	const least = limits.shareMin * tree.total[0];
	const nodes: GraphNode[] = [];
	first.forEach((node, fn) => {
		if (total[fn] > 0 && total[fn] >= least) nodes.push({ fn, node, self: self[fn], total: total[fn] });
	});
	nodes.sort((a, b) => b.total - a.total || b.self - a.self || a.fn - b.fn);
	return nodes;
}

function allEdges(tree: Tree, nodes: GraphNode[]): GraphEdge[] {
	const { of, count } = treeFunctions(tree);
	const indexOf = new Int32Array(count).fill(-1);
	nodes.forEach(({ fn }, index) => (indexOf[fn] = index));
	const ids = new Map<number, number>(); // from * nodes.length + to
	const edges: GraphEdge[] = [];
	const values: number[] = [];
	const stacks = new OncePerStack(values);
	const caller = new Int32Array(tree.count); // the nearest above that is in the graph; 0 = none
	for (let i = 1; i < tree.count; i++) {
		const parent = tree.parent[i];
		const shown = (node: number) => node > 0 && kindOf(tree, node) !== KIND.rest && indexOf[of[node]] >= 0;
		caller[i] = shown(parent) ? parent : caller[parent];
		let id = -1;
		if (caller[i] > 0 && shown(i)) {
			const [from, to] = [indexOf[of[caller[i]]], indexOf[of[i]]];
			const known = ids.get(from * nodes.length + to);
			id = known ?? edges.push({ from, to, value: 0, skips: true }) - 1;
			if (known === undefined) ids.set(from * nodes.length + to, id);
			if (caller[i] === parent) edges[id].skips = false;
		}
		stacks.enter(tree.depth[i], id, tree.total[i]);
	}
	edges.forEach((edge, id) => (edge.value = values[id]));
	return edges.filter((edge) => edge.value > 0).sort((a, b) => b.value - a.value || a.from - b.from || a.to - b.to);
}

/** The costliest functions and the calls between them; the same for the same tree and limits. */
export function callGraph(tree: Tree, limits: GraphLimits): CallGraph {
	const { self, total } = functionSums(tree);
	const wanted = chooseNodes(tree, limits);
	const nodes = wanted.slice(0, Math.max(0, limits.nodesMax));
	const least = limits.shareMin * tree.total[0];
	const reached = new Uint8Array(nodes.length);
	const hidden = { functions: -nodes.length, self: 0, edges: 0, edgeMax: 0, rest: 0 };
	let others = 0;
	const edges = allEdges(tree, nodes).filter((edge) => {
		const wayTo = edge.from !== edge.to && !reached[edge.to];
		if (wayTo) reached[edge.to] = 1;
		else if (others < limits.edgesMax && edge.value >= least) others++;
		else {
			hidden.edges++;
			hidden.edgeMax = Math.max(hidden.edgeMax, edge.value);
			return false;
		}
		return true;
	});
	for (let fn = 0; fn < total.length; fn++) {
		if (total[fn] > 0) hidden.functions++;
		hidden.self += self[fn];
	}
	for (const node of nodes) hidden.self -= node.self;
	for (let i = 1; i < tree.count; i++) if (kindOf(tree, i) === KIND.rest) hidden.rest += tree.self[i];
	return { nodes, edges, total: tree.total[0], folded: wanted.length - nodes.length, hidden };
}
