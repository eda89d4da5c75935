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
 * nodes of the source, not by those of the result. Most groups have one member, which needs no pool, and often one caller has all of a
 * group, which need not wait. `WORK_MAX` bounds the moves, which in a recursion of 100,000 levels
 * would grow with their square.
 */
import * as T from '../base/texts';
import { treeFunctions } from './functions';
import { KIND, type Tree } from './tree';
import { grown, REST_FRAME, treeFrames, Trie } from './trie';

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

/** Nodes that wait to be opened, the one with the largest total first; of equal ones the lower number. */
class Heap {
	size = 0;
	private items = new Int32Array(1024);
	private keys = new Float64Array(1024);

	*[Symbol.iterator](): Iterator<number> {
		for (let i = 0; i < this.size; i++) yield this.items[i];
	}

	push(item: number, key: number): void {
		if (this.size === this.items.length) {
			this.items = grown(this.items, 2 * this.size);
			this.keys = grown(this.keys, 2 * this.size);
		}
		const { items, keys } = this;
		let at = this.size++;
		for (let up = (at - 1) >> 1; at > 0 && (key > keys[up] || (key === keys[up] && item < items[up])); up = (at - 1) >> 1) {
			items[at] = items[up];
			keys[at] = keys[up];
			at = up;
		}
		items[at] = item;
		keys[at] = key;
	}

	pop(): number {
		const { items, keys } = this;
		const top = items[0];
		const size = --this.size;
		const [item, key] = [items[size], keys[size]];
		let at = 0;
		for (let down = 1; down < size; down = 2 * at + 1) {
			if (down + 1 < size && (keys[down + 1] > keys[down] || (keys[down + 1] === keys[down] && items[down + 1] < items[down]))) down++;
			if (key > keys[down] || (key === keys[down] && item < items[down])) break;
			items[at] = items[down];
			keys[at] = keys[down];
			at = down;
		}
		items[at] = item;
		keys[at] = key;
		return top;
	}
}

class Inverter {
	private readonly frames: Int32Array;
	private readonly trie: Trie;
	private node = new Int32Array(1024); // the pool: members of groups of two or more
	private value = new Float64Array(1024);
	private used = 0;
	private live = 0;
	private begin = new Int32Array(1024); // by node of the result: its group in the pool; of a group of one the member itself
	private size = new Int32Array(1024);
	private total = new Float64Array(1024);
	private readonly heap = new Heap();
	private readonly noted: Int32Array; // by frame: the node of the result that had it last
	private children = new Int32Array(1024); // of the group that was opened last
	private childCount = 0;
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
		this.noted = new Int32Array((treeFunctions(tree).count + 1) * 8);
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
			if (this.size[group] < 2) continue;
			const from = this.begin[group];
			const to = from + this.size[group];
			this.begin[group] = used;
			for (let m = from; m < to; m++, used++) {
				node[used] = this.node[m];
				value[used] = this.value[m];
			}
		}
		[this.node, this.value, this.used] = [node, value, used];
	}

	private add(parent: number, node: number, value: number): number {
		const child = this.trie.append(parent, this.frames[node], node);
		if (child === this.total.length) {
			this.begin = grown(this.begin, 2 * child);
			this.size = grown(this.size, 2 * child);
			this.total = grown(this.total, 2 * child);
			this.children = grown(this.children, 2 * child);
		}
		this.begin[child] = node;
		this.size[child] = 1;
		this.total[child] = value;
		this.children[this.childCount++] = child;
		return child;
	}

	// Puts members below `parent`, which has no children yet: one child a frame. They are nodes[0..count) and the values that `moved` has
	// for them.
	private spread(parent: number, nodes: Int32Array, count: number): void {
		const { trie, frames, below, noted, moved } = this;
		let several = false;
		this.childCount = 0;
		for (let m = 0; m < count; m++) {
			const from = nodes[m];
			const frame = frames[from] + 8; // REST_FRAME, too, has a place
			const known = noted[frame];
			if (known > 0 && trie.parent[known] === parent) {
				trie.meet(known, from);
				this.size[known]++;
				this.total[known] += moved[from];
				below[m] = known;
				several = true;
			} else {
				below[m] = noted[frame] = this.add(parent, from, moved[from]);
			}
		}
		if (several) this.pool(nodes, count);
	}

	// Members of children that have two or more go into the pool.
	private pool(nodes: Int32Array, count: number): void {
		const { below, children } = this;
		this.reserve(count);
		for (let c = 0; c < this.childCount; c++) {
			const child = children[c];
			if (this.size[child] < 2) continue;
			this.begin[child] = this.used;
			this.used += this.size[child];
			this.live += this.size[child];
			this.size[child] = -1; // filled from here on
		}
		for (let m = 0; m < count; m++) {
			const child = below[m];
			if (this.size[child] === 1) continue;
			const filled = -this.size[child] - 1;
			this.node[this.begin[child] + filled] = nodes[m];
			this.value[this.begin[child] + filled] = this.moved[nodes[m]];
			this.size[child]--;
		}
		for (let c = 0; c < this.childCount; c++) if (this.size[children[c]] < 0) this.size[children[c]] = -this.size[children[c]] - 1;
	}

	// Moves the members of a group to their parents: how many there are, in `met`. What has none is the node's own.
	private climb(group: number): number {
		const { met: nodes } = this;
		const { parent } = this.tree;
		const size = this.size[group];
		const from = this.begin[group];
		if (size === 1) {
			const up = parent[from];
			if (up === 0) {
				this.trie.self[group] += this.total[group];
				return 0;
			}
			this.moved[up] = this.total[group];
			nodes[0] = up;
			return 1;
		}
		let count = 0;
		this.mark++;
		for (let m = from; m < from + size; m++) {
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
		this.live -= size;
		return count;
	}

	run(ends: Ends, nodesMax: number): Tree {
		const { tree, trie, heap } = this;
		trie.self[0] = ends.rootSelf;
		for (let i = 0; i < ends.nodes.length; i++) this.moved[ends.nodes[i]] = ends.values[i];
		this.spread(0, ends.nodes, ends.nodes.length);
		for (let c = 0; c < this.childCount; c++) heap.push(this.children[c], this.total[this.children[c]]);
		let work = 0;
		let open = true;
		for (let next = -1; next >= 0 || heap.size > 0;) {
			const group = next >= 0 ? next : heap.pop();
			next = -1;
			work += this.size[group];
			const count = this.climb(group);
			if (count === 0) continue;
			open &&= trie.count < nodesMax && work <= this.workMax;
			if (!open) {
				const rest = trie.append(group, REST_FRAME, tree.count);
				for (let m = 0; m < count; m++) trie.self[rest] += this.moved[this.met[m]];
				continue;
			}
			this.spread(group, this.met, count);
			// A caller that has all of it is as large as anything that waits: it need not.
			if (this.childCount === 1 && this.total[this.children[0]] >= this.total[group]) next = this.children[0];
			else for (let c = 0; c < this.childCount; c++) heap.push(this.children[c], this.total[this.children[c]]);
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
	let count = 0;
	for (let i = 1; i < tree.count; i++) if (tree.self[i] > 0) count++;
	const ends = { nodes: new Int32Array(count), values: new Float64Array(count), rootSelf: tree.self[0] };
	for (let i = 1, at = 0; i < tree.count; i++)
		if (tree.self[i] > 0) {
			ends.nodes[at] = i;
			ends.values[at++] = tree.self[i];
		}
	return callersTree(tree, ends, limits);
}
