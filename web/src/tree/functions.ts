// SPDX-License-Identifier: Apache-2.0
/*
 * The functions of a tree: what nodes of equal (name, binary, file) are, as in the rows of the table. Ids are dense, from 0,
 * in the order of the first node that has them; node 0, the root, is no function and has NO_FUNCTION.
 *
 * Across trees, in URLs, a function goes by its key: 52 bits of a hash of the three texts in base 36, as nodes go by their path's
 * key. A key that is too short to be secret is enough here: two functions with equal keys are chosen together, no more.
 */
import { joinHashes, stringHashes, type Tree } from './tree';

export const NO_FUNCTION = -1;

export interface Functions {
	count: number;
	of: Int32Array; // by node
	first: Int32Array; // by function: its first node
}

function mix(a: number, b: number, c: number): number {
	let h = Math.imul(a, 0x9e3779b1) ^ Math.imul(b, 0x85ebca6b) ^ Math.imul(c, 0xc2b2ae35);
	h = Math.imul(h ^ (h >>> 15), 0x27d4eb2f);
	return h ^ (h >>> 13);
}

function internFunctions(tree: Tree): Functions {
	const { count, name, binary, file } = tree;
	const of = new Int32Array(count);
	let size = 1024;
	let slots = new Int32Array(size).fill(-1); // of the hash table: a function
	let first = new Int32Array(512);
	let functions = 0;
	const find = (i: number): number => {
		let at = mix(name[i], binary[i], file[i]) & (size - 1);
		for (; slots[at] >= 0; at = (at + 1) & (size - 1)) {
			const other = first[slots[at]];
			if (name[other] === name[i] && binary[other] === binary[i] && file[other] === file[i]) break;
		}
		return at;
	};
	of[0] = NO_FUNCTION;
	for (let i = 1; i < count; i++) {
		const at = find(i);
		if (slots[at] >= 0) {
			of[i] = slots[at];
			continue;
		}
		of[i] = slots[at] = functions;
		first[functions++] = i;
		if (functions < size >> 1) continue;
		size *= 2;
		slots = new Int32Array(size).fill(-1);
		const larger = new Int32Array(size >> 1);
		larger.set(first);
		first = larger;
		for (let f = 0; f < functions; f++) slots[find(first[f])] = f;
	}
	return { count: functions, of, first: first.slice(0, functions) };
}

const functionsOf = new WeakMap<Tree, Functions>();

/** The tree's functions; made once a tree. */
export function treeFunctions(tree: Tree): Functions {
	let functions = functionsOf.get(tree);
	if (!functions) functionsOf.set(tree, (functions = internFunctions(tree)));
	return functions;
}

/** The key of the function that the node is of; '' for the root. */
export function functionKey(tree: Tree, node: number): string {
	if (node === 0) return '';
	const [high, low] = stringHashes(tree).map((h) => mix(h[tree.name[node]], h[tree.binary[node]], h[tree.file[node]]));
	return joinHashes(high, low).toString(36);
}

/** The key of a binary's name. */
export function binaryKey(tree: Tree, node: number): string {
	const [high, low] = stringHashes(tree).map((h) => mix(h[tree.binary[node]], 0, 0));
	return joinHashes(high, low).toString(36);
}

/** The function with that key, NO_FUNCTION if the tree has none. */
export function findFunction(tree: Tree, key: string): number {
	const { first, count } = treeFunctions(tree);
	for (let f = 0; f < count; f++) if (functionKey(tree, first[f]) === key) return f;
	return NO_FUNCTION;
}

/** The string of the binary with that key, -1 if no function is of it. */
export function findBinary(tree: Tree, key: string): number {
	const { first, count } = treeFunctions(tree);
	const tried = new Set<number>();
	for (let f = 0; f < count; f++) {
		const binary = tree.binary[first[f]];
		if (tried.has(binary)) continue;
		if (binaryKey(tree, first[f]) === key) return binary;
		tried.add(binary);
	}
	return -1;
}
