// SPDX-License-Identifier: Apache-2.0
/*
 * Stacks turned over: the function that they end in at the top, what called it below. Every stack is in the result once, as one
 * path, so totals are right also when a function recurses. The self value of a node of the result is that of the stacks
 * which begin there (their outermost caller); what functions cost themselves is the total of the top nodes.
 *
 * A tree of a million nodes turned over can have ten or a hundred times as many: paths that shared all callers share none
 * of their ends. So nodes are opened in the order of their total until there are `nodesMax`; a node that was not opened has
 * one child of kind "rest" for its callers, and the totals stay exact. Nothing that is left open is larger than anything
 * that is open. To look into one, the page focuses on it and turns that over.
 *
 * A node of the result stands for a set of nodes of the source, each with the value of the stacks that run through it that way
 * (the group). Opening a node moves every member to its parent. (Members of one group meet at a parent only where siblings are
 * alike, which no server sends; they become one.) Groups wait in a heap,
 * the largest first; their members are in one pool that is packed when half of it is dead, so that the memory is by the
 * nodes of the source, not by those of the result. `WORK_MAX` bounds the moves, which in a recursion of 100,000 levels
 * would grow with their square.
 */
import * as T from '../texts';
import { treeFrames, Trie, REST_FRAME } from './trie';
import { KIND, type Tree } from './tree';

export const INVERTED_MAX = 1_000_000; // nodes
const WORK_MAX = 1 << 26; // moves of a member to its parent: some 1.5 s

export const REST_CALLERS = T.flame.callersCut;

/** Where the stacks are taken up, and with which value. Each node once, none of them the root. */
export interface Ends {
	nodes: Int32Array;
	values: Float64Array; // > 0
	rootSelf: number; // stays at the root: stacks without a frame
}

export interface InvertLimits {
	nodesMax?: number;
	workMax?: number;
}

/** The nodes that wait to be opened, by their total. */
class Heap {
	private items: number[] = [];
	constructor(private readonly before: (a: number, b: number) => boolean) {}

	get size(): number {
		return this.items.length;
	}

	*[Symbol.iterator](): Iterator<number> {
		yield* this.items;
	}

	push(item: number): void {
		const { items, before } = this;
		let at = items.push(item) - 1;
		for (let up = (at - 1) >> 1; at > 0 && before(item, items[up]); up = (at - 1) >> 1) {
			items[at] = items[up];
			at = up;
		}
		items[at] = item;
	}

	pop(): number {
		const { items, before } = this;
		const top = items[0];
		const item = items.pop()!;
		if (items.length === 0) return top;
		let at = 0;
		for (let down = 1; down < items.length; down = 2 * at + 1) {
			if (down + 1 < items.length && before(items[down + 1], items[down])) down++;
			if (!before(items[down], item)) break;
			items[at] = items[down];
			at = down;
		}
		items[at] = item;
		return top;
	}
}

class Inverter {
	private readonly frames: Int32Array;
	private readonly trie: Trie;
	private node: Int32Array; // the pool: members of groups
	private value: Float64Array;
	private used = 0;
	private live = 0;
	private begin: number[] = [0]; // by node of the result: its group in the pool
	private size: number[] = [0];
	private total: number[] = [Infinity];
	private readonly heap = new Heap((a, b) => this.total[a] > this.total[b] || (this.total[a] === this.total[b] && a < b));
	// Of the group being opened: by node of the source the value that has come there, if the mark is right; the nodes; the
	// node of the result that each goes to.
	private readonly moved: Float64Array;
	private readonly marks: Int32Array;
	private readonly met: Int32Array;
	private readonly below: Int32Array;
	private mark = 0;

	constructor(
		private readonly tree: Tree,
		private readonly workMax: number,
	) {
		this.frames = treeFrames(tree);
		this.trie = new Trie(withRest(tree));
		this.node = new Int32Array(1024);
		this.value = new Float64Array(1024);
		this.moved = new Float64Array(tree.count);
		this.marks = new Int32Array(tree.count);
		this.met = new Int32Array(tree.count);
		this.below = new Int32Array(tree.count);
	}

	// Makes room for `more` members: packs the pool when half of it is of groups that were opened.
	private reserve(more: number): void {
		if (this.used + more <= this.node.length) return;
		const size = Math.max(1024, 2 * (this.live + more));
		const node = new Int32Array(size);
		const value = new Float64Array(size);
		let used = 0;
		for (const group of this.heap) {
			const [from, to] = [this.begin[group], this.begin[group] + this.size[group]];
			node.set(this.node.subarray(from, to), used);
			value.set(this.value.subarray(from, to), used);
			this.begin[group] = used;
			used += to - from;
		}
		[this.node, this.value, this.used] = [node, value, used];
	}

	// Puts members below `parent`: one child a frame. They are nodes[0..count) and the values that `moved` has for them.
	private spread(parent: number, nodes: Int32Array, count: number): void {
		const { trie, frames, below } = this;
		const children: number[] = [];
		for (let m = 0; m < count; m++) {
			const known = trie.count;
			const child = trie.child(parent, frames[nodes[m]], nodes[m]);
			if (child === known) {
				children.push(child);
				this.size[child] = this.total[child] = this.begin[child] = 0;
			}
			this.size[child]++;
			this.total[child] += this.moved[nodes[m]];
			below[m] = child;
		}
		this.reserve(count);
		for (const child of children) {
			this.begin[child] = this.used;
			this.used += this.size[child];
			this.size[child] = 0;
		}
		this.live += count;
		for (let m = 0; m < count; m++) {
			const at = this.begin[below[m]] + this.size[below[m]]++;
			this.node[at] = nodes[m];
			this.value[at] = this.moved[nodes[m]];
		}
		for (const child of children) this.heap.push(child);
	}

	// Moves the members of a group to their parents: how many there are, in `met`. What has none is the node's own.
	private climb(group: number): number {
		const { met: nodes } = this;
		const { parent } = this.tree;
		const [from, to] = [this.begin[group], this.begin[group] + this.size[group]];
		let count = 0;
		this.mark++;
		for (let m = from; m < to; m++) {
			const up = parent[this.node[m]];
			if (up === 0) {
				this.trie.self[group] += this.value[m];
			} else if (this.marks[up] === this.mark) {
				this.moved[up] += this.value[m];
			} else {
				this.marks[up] = this.mark;
				this.moved[up] = this.value[m];
				nodes[count++] = up;
			}
		}
		this.live -= to - from;
		return count;
	}

	run(ends: Ends, nodesMax: number): Tree {
		const { tree, trie } = this;
		trie.self[0] = ends.rootSelf;
		ends.nodes.forEach((node, i) => (this.moved[node] = ends.values[i]));
		this.spread(0, ends.nodes, ends.nodes.length);
		let work = 0;
		let open = true;
		while (this.heap.size > 0) {
			const group = this.heap.pop();
			work += this.size[group];
			const count = this.climb(group);
			if (count === 0) continue;
			open &&= trie.count < nodesMax && work <= this.workMax;
			if (open) {
				this.spread(group, this.met, count);
				continue;
			}
			const rest = trie.child(group, REST_FRAME, tree.count);
			for (let m = 0; m < count; m++) trie.self[rest] += this.moved[this.met[m]];
		}
		return trie.finish(tree.samples);
	}
}

// The tree's texts and one more entry, at tree.count: what nodes that stay closed have below them.
function withRest(tree: Tree): Tree {
	const strings = [...tree.strings, REST_CALLERS, ''];
	const add = <T extends Uint8Array | Uint32Array>(column: T, last: number): T => {
		const longer = new (column.constructor as new (n: number) => T)(tree.count + 1);
		longer.set(column);
		longer[tree.count] = last;
		return longer;
	};
	return {
		...tree,
		strings,
		name: add(tree.name, strings.length - 2),
		file: add(tree.file, strings.length - 1),
		binary: add(tree.binary, strings.length - 1),
		line: add(tree.line, 0),
		kind: add(tree.kind, KIND.rest),
	};
}

/** The callers of what the stacks are taken up at: those ends at the top, the outermost callers at the bottom. */
export function callersTree(tree: Tree, ends: Ends, limits: InvertLimits = {}): Tree {
	const { nodesMax = INVERTED_MAX, workMax = WORK_MAX } = limits;
	return new Inverter(tree, workMax).run(ends, nodesMax);
}

/** The whole tree turned over. */
export function invertTree(tree: Tree, limits: InvertLimits = {}): Tree {
	const nodes: number[] = [];
	for (let i = 1; i < tree.count; i++) if (tree.self[i] > 0) nodes.push(i);
	const ends = { nodes: Int32Array.from(nodes), values: Float64Array.from(nodes, (i) => tree.self[i]), rootSelf: tree.self[0] };
	return callersTree(tree, ends, limits);
}
