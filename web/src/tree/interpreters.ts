// SPDX-License-Identifier: Apache-2.0
/*
 * A tree without the internals of interpreters, as the server's `hide interpreter` makes it of stacks: where an interpreted frame calls a
 * native one, the binary of that is an interpreter, and all native frames of it on the same stack go, above and below. Their self value
 * is their callers', and what the server left out below them (kind rest) too.
 *
 * Interpreted functions in which samples end are without the loop that runs them, by another profiler or because it is hidden already;
 * then nothing is hidden for those of their mapping, as it would be the C library and extensions.
 *
 * So a node goes from the stacks that run an interpreted function, and stays in those that do not: what becomes of it depends on the
 * set of interpreters of the stack that it is on. There are few of those sets (an interpreter added to another set, by number); each
 * node remembers what it last became with which, so that the stacks of one program are walked once.
 */
import { KIND, kindOf, type Tree } from './tree';
import { treeFrames, Trie } from './trie';

const INTERPRETERS_MAX = 16; // of one stack, as on the server

interface Sets {
	rest: number[]; // by set: the set without its last binary; set 0 is the empty one
	binary: number[];
	size: number[];
	ids: Map<string, number>;
}

function has({ rest, binary }: Sets, set: number, wanted: number): boolean {
	for (let at = set; at > 0; at = rest[at]) if (binary[at] === wanted) return true;
	return false;
}

function add(sets: Sets, set: number, binary: number): number {
	if (sets.size[set] === INTERPRETERS_MAX || has(sets, set, binary)) return set;
	const key = `${set},${binary}`;
	let id = sets.ids.get(key);
	if (id === undefined) {
		id = sets.rest.push(set) - 1;
		sets.binary.push(binary);
		sets.size.push(sets.size[set] + 1);
		sets.ids.set(key, id);
	}
	return id;
}

const GONE = -1;

/** By node, the binary of native code; GONE for other frames. */
function nativeBinaries(tree: Tree): Int32Array {
	const binaries = new Int32Array(tree.count).fill(GONE);
	for (let i = 1; i < tree.count; i++) if (kindOf(tree, i) === KIND.native && tree.strings[tree.binary[i]] !== '') binaries[i] = tree.binary[i];
	return binaries;
}

/** By node, whether it is an interpreted function, and the loop that runs it is in the tree. */
function withLoops(tree: Tree): Uint8Array {
	const without = new Set<number>(); // binaries
	const isInterpreted = (i: number) => kindOf(tree, i) === KIND.interpreted;
	for (let i = 1; i < tree.count; i++) if (isInterpreted(i) && tree.self[i] > 0) without.add(tree.binary[i]);
	const loops = new Uint8Array(tree.count);
	for (let i = 1; i < tree.count; i++) if (isInterpreted(i) && !without.has(tree.binary[i])) loops[i] = 1;
	return loops;
}

function hide(tree: Tree): Tree {
	const { count, parent, self } = tree;
	const loops = withLoops(tree);
	const binaries = nativeBinaries(tree);
	const sets: Sets = { rest: [0], binary: [GONE], size: [0], ids: new Map() };
	const setOf = new Int32Array(count);
	for (let i = 1; i < count; i++) {
		setOf[i] = binaries[i] !== GONE && loops[parent[i]] ? add(sets, setOf[parent[i]], binaries[i]) : setOf[parent[i]];
	}
	if (sets.rest.length === 1) return tree;

	const frames = treeFrames(tree);
	const trie = new Trie(tree);
	const madeWith = new Int32Array(count).fill(GONE);
	const made = new Int32Array(count); // the trie's root is node 0
	trie.self[0] = self[0];
	for (let i = 1; i < count; i++) {
		if (self[i] === 0) continue;
		const set = setOf[i];
		const path: number[] = [];
		let at = i;
		for (; at > 0 && madeWith[at] !== set; at = parent[at]) path.push(at);
		let node = made[at];
		for (at = path.pop() ?? 0; at > 0; at = path.pop() ?? 0) {
			if (binaries[at] === GONE || !has(sets, set, binaries[at])) node = trie.child(node, frames[at], at);
			madeWith[at] = set;
			made[at] = node;
		}
		trie.self[node] += self[i];
	}
	return trie.finish(tree.samples);
}

const interpreted = new WeakMap<Tree, boolean>();
const hidden = new WeakMap<Tree, Tree>();

export function hasInterpreted(tree: Tree): boolean {
	let is = interpreted.get(tree);
	if (is === undefined) {
		is = tree.kind.some((kind) => (kind & 7) === KIND.interpreted);
		interpreted.set(tree, is);
	}
	return is;
}

/** Made once a tree, which is returned itself if it has no such frames. */
export function hideInterpreters(tree: Tree): Tree {
	if (!hasInterpreted(tree)) return tree;
	let made = hidden.get(tree);
	if (!made) hidden.set(tree, (made = hide(tree)));
	return made;
}
