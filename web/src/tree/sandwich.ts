// SPDX-License-Identifier: Apache-2.0
/*
 * One function between those who call it and those it calls. Every stack that holds the function is cut at the outermost frame
 * of it: what is above is a path of the callers' tree (nearest caller first, the outermost at the bottom), what is below is
 * one of the callees' tree. So each stack is in either half once, both halves have the function's total, as the table has
 * it, and put together again they are the stacks. A function that calls itself is among its own callees.
 *
 * Rejected: a cut at every frame of the function, as some tools do. Stacks in a recursion would then count once for every
 * level, and the share of a caller would not be that of anything.
 */
import { NO_FUNCTION, treeFunctions } from './functions';
import { callersTree, type InvertLimits } from './invert';
import { KIND, kindOf, type Tree } from './tree';
import { treeFrames, Trie } from './trie';

export interface Sandwich {
	self: number; // in the function itself, at any level of a recursion
	total: number; // each stack once
	paths: number; // ways from the root to the function, its outermost frame being the end
	callers: Tree; // root, the function, its callers below it; a caller's self: stacks that begin there
	callees: Tree; // root, the function, what it calls below it
}

/** Of a function of the tree (functions.ts). NO_FUNCTION has two trees of nothing. */
export function sandwich(tree: Tree, wanted: number, limits: InvertLimits = {}): Sandwich {
	const { of } = treeFunctions(tree);
	const frames = treeFrames(tree);
	const callees = new Trie(tree);
	const ends: number[] = [];
	const place = new Int32Array(tree.count).fill(-1);
	let self = 0;
	let total = 0;
	for (let i = 1; i < tree.count; i++) {
		const above = place[tree.parent[i]];
		const found = of[i] === wanted && wanted !== NO_FUNCTION;
		if (found) self += tree.self[i];
		if (above < 0) {
			if (!found) continue;
			if (tree.total[i] > 0) ends.push(i);
			total += tree.total[i];
		}
		place[i] = callees.child(Math.max(above, 0), frames[i], i);
		callees.self[place[i]] += tree.self[i];
	}
	// Stacks are cut at these nodes, so they are taken up there with all that is below.
	const from = { nodes: Int32Array.from(ends), values: Float64Array.from(ends, (i) => tree.total[i]), rootSelf: 0 };
	const samples = total === tree.total[0] ? tree.samples : 0;
	const callers = callersTree(tree, from, limits);
	callers.samples = samples;
	return { self, total, paths: ends.length, callers, callees: callees.finish(samples) };
}

/** A half with the function as the root. Others, of nothing or where the function is of several kinds of code, are as they are. */
export function topAsRoot(tree: Tree): Tree {
	if (tree.count < 2 || tree.end[1] !== tree.count) return tree;
	const less = (column: Int32Array) => column.slice(1).map((v) => v - 1);
	const parent = less(tree.parent);
	parent[0] = 0;
	return {
		...tree,
		count: tree.count - 1,
		parent,
		end: less(tree.end),
		depth: less(tree.depth),
		name: tree.name.subarray(1),
		file: tree.file.subarray(1),
		line: tree.line.subarray(1),
		binary: tree.binary.subarray(1),
		kind: tree.kind.subarray(1),
		start: tree.start.subarray(1),
		total: tree.total.subarray(1),
		self: tree.self.subarray(1),
		maxDepth: tree.maxDepth - 1,
	};
}

/** Of one of the halves: how many functions are next to the function. */
export function countNext(half: Tree): number {
	const functions = new Set<number>();
	const { of } = treeFunctions(half);
	for (let i = 1; i < half.count; i = half.depth[i] < 2 ? i + 1 : half.end[i]) if (half.depth[i] === 2 && kindOf(half, i) !== KIND.rest) functions.add(of[i]);
	return functions.size;
}
