// SPDX-License-Identifier: Apache-2.0
/*
 * Two trees as one, without asking anything of a hash table for every node. The base's nodes keep their numbers; each node of the
 * head gets the number of the base's with the same path, or a new one. Nodes come in pre-order, so a node's place is known before
 * its children are looked at, and these are found all at once: the children of the base's node are noted by their frame, in an array
 * that is short enough to stay in the cache, and those of the head's look there. What is noted is never cleared: an entry counts if
 * it is a child of the right node. Below a node that only one side has there is nothing to find.
 *
 * That needs siblings with different frames, as servers and transforms make them. Others are made so first (settle()).
 */
import * as T from '../base/texts';
import { treeFunctions } from './functions';
import { Ids } from './ids';
import { KIND, kindOf, measure, type Tree } from './tree';
import { emptyTree, orderNodes, restCount, treeFrames, Trie } from './trie';

export interface Union {
	tree: Tree;
	place: [base: Int32Array, head: Int32Array]; // by node of each: its node in the tree; those without a value are at the root
}

// The strings of both, each once, and for each side the number of each of its own.
function joinStrings(base: Tree, head: Tree): { strings: string[]; maps: [Uint32Array, Uint32Array] } {
	const strings: string[] = [];
	const ids = new Map<string, number>();
	const take = (text: string): number => {
		let id = ids.get(text);
		if (id === undefined) ids.set(text, (id = strings.push(text) - 1));
		return id;
	};
	return { strings, maps: [Uint32Array.from(base.strings, take), Uint32Array.from(head.strings, take)] };
}

// By node a number of its frame that is the same in both: function * 8 + kind; of kind rest, below all others: 0. How many there are.
function joinFrames(trees: [Tree, Tree], maps: [Uint32Array, Uint32Array]): { frames: [Int32Array, Int32Array]; count: number } {
	const ids = new Ids(4096);
	const frames = trees.map((tree, side) => {
		const { of, first, count } = treeFunctions(tree);
		const map = maps[side];
		const joined = new Int32Array(count);
		for (let f = 0; f < count; f++) joined[f] = 1 + ids.of(map[tree.name[first[f]]], map[tree.binary[first[f]]], map[tree.file[first[f]]]);
		const numbers = new Int32Array(tree.count);
		for (let i = 1; i < tree.count; i++) {
			const kind = tree.kind[i] & 7;
			numbers[i] = kind === KIND.rest ? 0 : joined[of[i]] * 8 + kind;
		}
		return numbers;
	});
	return { frames: [frames[0], frames[1]], count: (1 + ids.count) * 8 };
}

function hasAlike(tree: Tree, frames: Int32Array, noted: Int32Array): boolean {
	const { parent, end } = tree;
	noted.fill(0);
	for (let p = 0; p < tree.count; p++)
		for (let c = p + 1; c < end[p]; c = end[c]) {
			const known = noted[frames[c]];
			if (known > 0 && parent[known] === p) return true;
			noted[frames[c]] = c;
		}
	return false;
}

/** A tree whose siblings differ in their frames: the tree itself if they do. place: by node, its node there. */
function settle(tree: Tree, map: Uint32Array, strings: string[]): { tree: Tree; place: Int32Array } {
	const like: Tree = { ...tree, strings, name: tree.name.map((id) => map[id]), file: tree.file.map((id) => map[id]), binary: tree.binary.map((id) => map[id]) };
	const frames = treeFrames(like);
	const trie = new Trie(like);
	const place = new Int32Array(tree.count);
	trie.self[0] = tree.self[0];
	for (let i = 1; i < tree.count; i++) trie.self[(place[i] = trie.child(place[tree.parent[i]], frames[i], i))] += tree.self[i];
	const settled = trie.finish(tree.samples);
	return { tree: settled, place: place.map((node) => trie.place[node]) };
}

// By node of the head its number in the union.
function match(base: Tree, head: Tree, [ofBase, ofHead]: [Int32Array, Int32Array], noted: Int32Array): { place: Int32Array; count: number } {
	const place = new Int32Array(head.count);
	const { parent } = base;
	let count = base.count;
	noted.fill(0);
	for (let h = 0; h < head.count; h++) {
		const end = head.end[h];
		if (end === h + 1) continue;
		const at = place[h];
		const known = at < base.count && base.end[at] > at + 1;
		if (known) for (let c = at + 1; c < base.end[at]; c = base.end[c]) noted[ofBase[c]] = c;
		for (let c = h + 1; c < end; c = head.end[c]) {
			const same = known ? noted[ofHead[c]] : 0;
			place[c] = same > 0 && parent[same] === at ? same : count++;
		}
	}
	return { place, count };
}

/** Values of the base and the head count that much in the union's self and total. */
export function uniteTrees(base: Tree, head: Tree, weights: [base: number, head: number]): Union {
	const { strings, maps } = joinStrings(base, head);
	const { frames, count: frameCount } = joinFrames([base, head], maps);
	const noted = new Int32Array(frameCount);
	const alike = [hasAlike(base, frames[0], noted), hasAlike(head, frames[1], noted)];
	if (alike[0] || alike[1]) {
		const settled = [base, head].map((tree, side) => (alike[side] ? settle(tree, maps[side], strings) : { tree, place: null }));
		const united = uniteTrees(settled[0].tree, settled[1].tree, weights);
		const through = (side: 0 | 1) => settled[side].place?.map((node) => united.place[side][node]) ?? united.place[side];
		return { tree: united.tree, place: [through(0), through(1)] };
	}
	const { place: numbers, count } = match(base, head, frames, noted);
	return arrangeUnion(base, head, numbers, count, weights, strings, maps);
}

// In order, without nodes that have no value. numbers: by node of the head; those of the base are their own.
function arrangeUnion(
	base: Tree,
	head: Tree,
	numbers: Int32Array,
	count: number,
	weights: [number, number],
	strings: string[],
	maps: [Uint32Array, Uint32Array],
): Union {
	const parent = new Int32Array(count);
	const self = new Float64Array(count);
	const other = new Int32Array(count).fill(-1); // the head's node of it
	parent.set(base.parent);
	for (let i = 0; i < base.count; i++) self[i] = base.self[i] * weights[0];
	for (let h = 0; h < head.count; h++) {
		const at = numbers[h];
		if (h > 0) parent[at] = numbers[head.parent[h]];
		self[at] += head.self[h] * weights[1];
		other[at] = h;
	}
	const total = self.slice();
	for (let i = count - 1; i > 0; i--) total[parent[i]] += total[i];
	const order = orderNodes(parent, total);
	const tree = emptyTree({ ...base, type: base.type || head.type, unit: base.unit || head.unit, strings }, order.length, base.samples + head.samples);
	const place = new Int32Array(count);
	const added = new Map<number, number>(); // names of kind rest, by how many they stand for
	for (let i = 0; i < order.length; i++) {
		const old = order[i];
		place[old] = i;
		const h = other[old];
		const isBase = old < base.count;
		const [from, at, map] = isBase ? [base, old, maps[0]] : [head, h, maps[1]];
		tree.parent[i] = place[parent[old]];
		tree.name[i] = map[from.name[at]];
		tree.file[i] = map[from.file[at]];
		tree.binary[i] = map[from.binary[at]];
		tree.line[i] = from.line[at];
		tree.kind[i] = from.kind[at];
		tree.total[i] = total[old];
		tree.self[i] = self[old];
		if (!isBase || h < 0 || old === 0) continue;
		const line = head.line[h];
		if (line > 0 && (tree.line[i] === 0 || line < tree.line[i])) tree.line[i] = line;
		if (!(head.kind[h] & KIND.inlined)) tree.kind[i] &= ~KIND.inlined;
		if (kindOf(tree, i) === KIND.rest) {
			const smaller = restCount(base, old) + restCount(head, h);
			if (!added.has(smaller)) added.set(smaller, strings.push(T.flame.smaller(smaller)) - 1);
			tree.name[i] = added.get(smaller)!;
		}
	}
	measure(tree);
	const placeOfHead = numbers.map((at) => place[at]);
	return { tree, place: [place.slice(0, base.count), placeOfHead] };
}
