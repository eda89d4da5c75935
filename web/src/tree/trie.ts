// SPDX-License-Identifier: Apache-2.0
/*
 * How a tree is made of another. What is built here is a trie: a node's children differ in their frame, and asking for a child
 * that is there gives the one that is there. Values are put where stacks end; order, totals and places come at the end, in
 * one pass each. A frame is a function and the kind of its code (FRAME), as siblings are distinguished by the server; what a
 * node is called, and its file, line and binary, are those of a node of the source.
 *
 * Nodes of kind "rest", which stand for what the server left out, have no identity: those that come below the same node
 * become one, whose name counts for all.
 *
 * A child is found by an open hash table over (parent, frame), not by a list of children: a node may have 100,000 of them.
 */
import * as T from '../base/texts';
import { treeFunctions } from './functions';
import { KIND, kindOf, measure, type Tree } from './tree';

/** The frame of all nodes of kind rest. */
export const REST_FRAME = -2;

/** The key of siblings, by node: function * 8 + kind, or REST_FRAME; the root's is negative and no other's. */
export function treeFrames(tree: Tree): Int32Array {
	const { of } = treeFunctions(tree);
	const frames = new Int32Array(tree.count);
	frames[0] = -1;
	for (let i = 1; i < tree.count; i++) frames[i] = kindOf(tree, i) === KIND.rest ? REST_FRAME : of[i] * 8 + kindOf(tree, i);
	return frames;
}

const REST = /^\((\d{1,15}) smaller\)$/;

/** How many a node of kind rest stands for; 0 = its name does not say. */
export function restCount(tree: Tree, node: number): number {
	return Number(REST.exec(tree.strings[tree.name[node]])?.[1] ?? 0);
}

/** The same with zeros behind it. */
export function grown<T extends Int32Array | Uint8Array | Float64Array>(old: T, size: number): T {
	const larger = new (old.constructor as new (n: number) => T)(size);
	larger.set(old as never);
	return larger;
}

function hashPair(a: number, b: number): number {
	let h = Math.imul(a, 0x9e3779b1) ^ Math.imul(b, 0x85ebca6b);
	h = Math.imul(h ^ (h >>> 15), 0x2c1b3c6d);
	return h ^ (h >>> 14);
}

export class Trie {
	count = 1;
	parent = new Int32Array(1024);
	self = new Float64Array(1024);
	private frame = new Int32Array(1024);
	private from = new Int32Array(1024); // the source's node that it has its texts from
	private line = new Int32Array(1024); // the smallest that is known
	private inlined = new Uint8Array(1024); // wherever it is
	private smaller = new Map<number, number>(); // by node of kind rest: how many it stands for
	private slots = new Int32Array(4096).fill(-1);

	/** The root is the source's. */
	constructor(private readonly source: Tree) {}

	private slotOf(parent: number, frame: number): number {
		const mask = this.slots.length - 1;
		let at = hashPair(parent, frame) & mask;
		for (; this.slots[at] >= 0; at = (at + 1) & mask) {
			const node = this.slots[at];
			if (this.parent[node] === parent && this.frame[node] === frame) break;
		}
		return at;
	}

	private grow(): void {
		const size = this.parent.length * 2;
		for (const column of ['parent', 'self', 'frame', 'from', 'line', 'inlined'] as const) this[column] = grown(this[column] as Float64Array, size) as never;
		if (this.appended) return;
		this.slots = new Int32Array(size * 4).fill(-1);
		for (let i = 1; i < this.count; i++) this.slots[this.slotOf(this.parent[i], this.frame[i])] = i;
	}

	private appended = false; // nothing is looked up

	/** A child that is not there yet, for who knows that without looking. A trie is made by this or by child(), not by both. */
	append(parent: number, frame: number, from: number): number {
		this.appended = true;
		if (this.count === this.parent.length) this.grow();
		const node = this.count++;
		this.set(node, parent, frame, from);
		if (frame === REST_FRAME) this.addRest(node, from);
		return node;
	}

	/** A further node of the source is meant by that one. */
	meet(node: number, from: number): void {
		const line = this.source.line[from];
		if (line > 0 && (this.line[node] === 0 || line < this.line[node])) this.line[node] = line;
		if (!(this.source.kind[from] & KIND.inlined)) this.inlined[node] = 0;
		if (this.frame[node] === REST_FRAME) this.addRest(node, from);
	}

	private set(node: number, parent: number, frame: number, from: number): void {
		this.parent[node] = parent;
		this.frame[node] = frame;
		this.from[node] = from;
		this.line[node] = this.source.line[from];
		this.inlined[node] = this.source.kind[from] & KIND.inlined ? 1 : 0;
	}

	private addRest(node: number, from: number): void {
		this.smaller.set(node, (this.smaller.get(node) ?? 0) + restCount(this.source, from));
	}

	/** The child of that frame, made if there is none yet. from: the source's node that is meant. */
	child(parent: number, frame: number, from: number): number {
		let slot = this.slotOf(parent, frame);
		let node = this.slots[slot];
		if (node >= 0) {
			this.meet(node, from);
			return node;
		}
		if (this.count === this.parent.length) {
			this.grow();
			slot = this.slotOf(parent, frame);
		}
		node = this.slots[slot] = this.count++;
		this.set(node, parent, frame, from);
		if (frame === REST_FRAME) this.addRest(node, from);
		return node;
	}

	/** Set by finish(), by node of the trie: its node in the tree, 0 for those that are not in it (and for the root). */
	place = new Int32Array(0);

	/** The tree: in pre-order, siblings by falling total, without nodes that have no value. The trie is of no use afterwards. */
	finish(samples: number): Tree {
		const { count, parent, self, source } = this;
		const total = self.slice(0, count);
		for (let i = count - 1; i > 0; i--) total[parent[i]] += total[i];
		const order = orderNodes(parent, total);
		const tree = emptyTree(source, order.length, samples);
		const place = (this.place = new Int32Array(count));
		for (let i = 0; i < order.length; i++) {
			const old = order[i];
			place[old] = i;
			const from = this.from[old]; // 0 for the root
			tree.parent[i] = place[parent[old]];
			tree.name[i] = source.name[from];
			tree.file[i] = source.file[from];
			tree.binary[i] = source.binary[from];
			tree.line[i] = i === 0 ? source.line[0] : this.line[old];
			tree.kind[i] = (source.kind[from] & ~KIND.inlined) | (this.inlined[old] ? KIND.inlined : 0);
			tree.total[i] = total[old];
			tree.self[i] = self[old];
		}
		this.nameRest(tree, place, total);
		measure(tree);
		return tree;
	}

	private nameRest(tree: Tree, place: Int32Array, total: Float64Array): void {
		const ids = new Map<number, number>();
		for (const [node, smaller] of this.smaller) {
			if (total[node] === 0 || smaller === restCount(this.source, this.from[node])) continue;
			if (ids.size === 0) tree.strings = tree.strings.slice();
			if (!ids.has(smaller)) ids.set(smaller, tree.strings.push(T.flame.smaller(smaller)) - 1);
			tree.name[place[node]] = ids.get(smaller)!;
		}
	}
}

/** All zero, with the type and texts of another. */
export function emptyTree(like: Tree, count: number, samples: number): Tree {
	return {
		type: like.type,
		unit: like.unit,
		samples,
		strings: like.strings,
		count,
		parent: new Int32Array(count),
		end: new Int32Array(count),
		depth: new Int32Array(count),
		name: new Uint32Array(count),
		file: new Uint32Array(count),
		line: new Uint32Array(count),
		binary: new Uint32Array(count),
		kind: new Uint8Array(count),
		start: new Float64Array(count),
		total: new Float64Array(count),
		self: new Float64Array(count),
		maxDepth: 0,
	};
}

const FEW = 24;

// By rising total, of equal ones the higher number first: as byRising, but most nodes have a few children, and a view of them costs more.
function sortFew(nodes: Int32Array, from: number, to: number, total: Float64Array): void {
	for (let i = from + 1; i < to; i++) {
		const node = nodes[i];
		const value = total[node];
		let at = i;
		for (; at > from && (total[nodes[at - 1]] > value || (total[nodes[at - 1]] === value && nodes[at - 1] < node)); at--) nodes[at] = nodes[at - 1];
		nodes[at] = node;
	}
}

/**
 * The nodes that have a total, in pre-order, siblings by falling total, then by number. A parent comes before its
 * children; total[0] may be 0, the root is there all the same.
 */
export function orderNodes(parent: Int32Array, total: Float64Array): Int32Array {
	const count = total.length;
	const begin = new Int32Array(count + 1); // of each node's children in `children`
	let kept = 1;
	for (let i = 1; i < count; i++) {
		if (total[i] <= 0) continue;
		begin[parent[i] + 1]++;
		kept++;
	}
	for (let i = 0; i < count; i++) begin[i + 1] += begin[i];
	const children = new Int32Array(kept);
	const cursor = begin.slice(0, count);
	for (let i = 1; i < count; i++) if (total[i] > 0) children[cursor[parent[i]]++] = i;
	const byRising = (a: number, b: number) => total[a] - total[b] || b - a;
	const order = new Int32Array(kept);
	const stack = new Int32Array(kept);
	let height = 1;
	for (let n = 0; height > 0; n++) {
		const node = (order[n] = stack[--height]);
		const [from, to] = [begin[node], begin[node + 1]];
		if (to - from > FEW) children.subarray(from, to).sort(byRising);
		else sortFew(children, from, to, total);
		for (let c = from; c < to; c++) stack[height++] = children[c];
	}
	return order;
}
