// SPDX-License-Identifier: Apache-2.0
/*
 * Transforms: a tree in, another tree out, one after the other. Each is one pass over the nodes in pre-order that says, for
 * every node, where in the new tree its stacks now end (or that they are no longer there); a trie puts together what has
 * become alike. The order matters: "drop malloc, turn over" is not "turn over, drop malloc".
 *
 * As text, for the URL, a list is items joined by dots, an item is an operation and what it is about, joined by a dash: a
 * function's key, a node's path key, a binary's key or a kind. "f-1k3x9.cf-7wq.i": focus on a function, collapse another, turn
 * over. A key is looked up in the tree that the transform is applied to, that is, after those before it.
 *
 *   item         does                                                          the total is then
 *   ff-FUNCTION  "focus on function" (Firefox): stacks through it, from its     that of the function
 *                outermost occurrence on; its callers go
 *   f-FUNCTION   "focus" (pprof): stacks through it, with its callers           that of the function
 *   fs-PATH      focus on the subtree of one node, without its callers          that of the node
 *   d-FUNCTION   "drop samples with this function" (Firefox), "ignore" (pprof)  less that of the function
 *   mf-FUNCTION  "merge function" (Firefox), "hide" (pprof): the frames go,     as before
 *                their self value is their callers', what they call too
 *   mn-PATH      merge one node, likewise                                       as before
 *   cf-FUNCTION  "collapse function": what it calls becomes its own             as before
 *   cs-PATH      collapse the subtree of one node, likewise                     as before
 *   dr[-FUNCTION] collapse direct recursion: of frames of one function that     as before
 *                call each other directly, one stays; of all or of this one
 *   r-FUNCTION   collapse recursion: from the outermost to each inner           as before
 *                occurrence of the function, what lies between goes
 *   cb-BINARY    collapse a binary: its frames that call each other become      as before
 *                one, which has the binary's name
 *   ob-BINARY    only frames of the binary (pprof's "show"); the self value     that of stacks which
 *                of others is their next caller's that stays                     have such a frame
 *   ok-KIND      only frames of the kind: kernel, native, jit, interpreted,     likewise
 *                unknown
 *   co-FUNCTION  the function's callers: stacks through it, what it calls made  that of the function
 *                its own, turned over; short for f, cf and i, one behind the other
 *   i            turned over, see invert.ts                                     as before
 *   gf, gl, gb   frames become their file, file and line, binary; equal ones    as before
 *                that call each other become one
 *
 * What is not in the tree (any more) leaves it as it is, but focus and only, which leave nothing: a graph of all under the
 * heading "focus on X" would be a lie. Nodes of kind rest stay below their caller as long as it is there; they are of no
 * function, and what is in them is not known. `samples` is 0, "not known", as soon as the total has changed.
 */
import { findBinary, findFunction, NO_FUNCTION, treeFunctions } from './functions';
import { invertTree, type InvertLimits } from './invert';
import { findPath, KIND, kindOf, placeOf, type Tree } from './tree';
import { treeFrames, Trie } from './trie';

export type TransformOp = 'ff' | 'f' | 'fs' | 'd' | 'mf' | 'mn' | 'cf' | 'cs' | 'dr' | 'r' | 'cb' | 'ob' | 'ok' | 'co' | 'i' | 'gf' | 'gl' | 'gb';

export interface Transform {
	op: TransformOp;
	arg: string; // '' for those that are about nothing in particular
}

export const TRANSFORMS_MAX = 32;

const NEEDS: Record<TransformOp, 'key' | 'key?' | 'kind' | 'none'> = {
	ff: 'key',
	f: 'key',
	fs: 'key',
	d: 'key',
	mf: 'key',
	mn: 'key',
	cf: 'key',
	cs: 'key',
	dr: 'key?',
	r: 'key',
	cb: 'key',
	ob: 'key',
	ok: 'kind',
	co: 'key',
	i: 'none',
	gf: 'none',
	gl: 'none',
	gb: 'none',
};
const KINDS: Record<string, number> = {
	unknown: KIND.unknown,
	native: KIND.native,
	kernel: KIND.kernel,
	jit: KIND.jit,
	interpreted: KIND.interpreted,
};

const isOp = (text: string): text is TransformOp => Object.prototype.hasOwnProperty.call(NEEDS, text);

function fits(op: TransformOp, arg: string | undefined): boolean {
	const needs = NEEDS[op];
	if (arg === undefined) return needs === 'none' || needs === 'key?';
	if (needs === 'kind') return Object.prototype.hasOwnProperty.call(KINDS, arg);
	return needs !== 'none' && /^[0-9a-z]{1,11}$/.test(arg);
}

/** Null when the text is not such a list. '' is the empty list. */
export function parseTransforms(text: string): Transform[] | null {
	if (text === '') return [];
	if (text.length > TRANSFORMS_MAX * 16) return null;
	const items = text.split('.');
	if (items.length > TRANSFORMS_MAX) return null;
	const transforms: Transform[] = [];
	for (const item of items) {
		const dash = item.indexOf('-');
		const op = dash < 0 ? item : item.slice(0, dash);
		const arg = dash < 0 ? undefined : item.slice(dash + 1);
		if (!isOp(op) || !fits(op, arg)) return null;
		transforms.push({ op, arg: arg ?? '' });
	}
	return transforms;
}

export function formatTransforms(transforms: readonly Transform[]): string {
	return transforms.map(({ op, arg }) => (arg === '' ? op : `${op}-${arg}`)).join('.');
}

// ---- passes --------------------

const GONE = -1;

// Where a node's stacks end in the new tree, given where its parent's do (GONE: nowhere).
type Pass = (node: number, above: number, trie: Trie, place: Int32Array) => number;

interface Rebuilt {
	root: number; // where the root's own stacks go: 0 or GONE
	pass: Pass;
	sums?: (node: number) => boolean; // whose self value counts; all by default
}

function rebuild(tree: Tree, { root, pass, sums }: Rebuilt, source = tree): Tree {
	const { count, parent, self } = tree;
	const trie = new Trie(source);
	const place = new Int32Array(count);
	place[0] = root;
	if (root === 0) trie.self[0] = self[0];
	let whole = root === 0 || self[0] === 0;
	for (let i = 1; i < count; i++) {
		const at = (place[i] = pass(i, place[parent[i]], trie, place));
		if (at >= 0 && (!sums || sums(i))) trie.self[at] += self[i];
		else if (self[i] > 0) whole = false;
	}
	return trie.finish(whole ? tree.samples : 0);
}

/** Where each pass is made. The tree's frames, and its functions, by node. */
interface Frames {
	tree: Tree;
	frames: Int32Array;
	of: Int32Array;
}

const below =
	({ frames }: Frames): Pass =>
	(i, above, trie) =>
		trie.child(above, frames[i], i);

function focusFunction({ frames, of }: Frames, wanted: number): Rebuilt {
	return {
		root: GONE,
		pass: (i, above, trie) => {
			if (above < 0 && of[i] !== wanted) return GONE;
			return trie.child(Math.max(above, 0), frames[i], i);
		},
	};
}

// 1: the function is on the stack, at the node or above it; 2: it is below.
function markThrough({ tree, of }: Frames, wanted: number): Uint8Array {
	const marks = new Uint8Array(tree.count);
	for (let i = 1; i < tree.count; i++) marks[i] = of[i] === wanted ? 1 : marks[tree.parent[i]];
	for (let i = tree.count - 1; i > 0; i--) if (marks[i] > 0 && marks[tree.parent[i]] === 0) marks[tree.parent[i]] = 2;
	return marks;
}

function focusThrough(f: Frames, wanted: number): Rebuilt {
	const marks = markThrough(f, wanted);
	const put = below(f);
	return {
		root: GONE,
		pass: (i, above, trie, place) => (marks[i] > 0 ? put(i, Math.max(above, 0), trie, place) : GONE),
		sums: (i) => marks[i] === 1,
	};
}

function focusSubtree({ tree, frames }: Frames, node: number): Rebuilt {
	return {
		root: GONE,
		pass: (i, above, trie) => (i >= node && i < tree.end[node] ? trie.child(Math.max(above, 0), frames[i], i) : GONE),
	};
}

function drop(f: Frames, wanted: number): Rebuilt {
	const put = below(f);
	return {
		root: 0,
		pass: (i, above, trie, place) => (above < 0 || f.of[i] === wanted ? GONE : put(i, above, trie, place)),
	};
}

function merge(f: Frames, merged: (i: number) => boolean): Rebuilt {
	const put = below(f);
	return { root: 0, pass: (i, above, trie, place) => (merged(i) ? above : put(i, above, trie, place)) };
}

function collapse(f: Frames, isTop: (i: number) => boolean): Rebuilt {
	const put = below(f);
	const { parent } = f.tree;
	const inside = new Uint8Array(f.tree.count);
	return {
		root: 0,
		pass: (i, above, trie, place) => {
			inside[i] = inside[parent[i]] || isTop(i) ? 1 : 0;
			return inside[parent[i]] ? above : put(i, above, trie, place);
		},
	};
}

function collapseRecursion(f: Frames, wanted: number): Rebuilt {
	const put = below(f);
	const { parent } = f.tree;
	const outer = new Int32Array(f.tree.count).fill(GONE); // where the outermost of the function on the stack went
	return {
		root: 0,
		pass: (i, above, trie, place) => {
			outer[i] = outer[parent[i]];
			if (f.of[i] !== wanted) return put(i, above, trie, place);
			if (outer[i] < 0) outer[i] = put(i, above, trie, place);
			return outer[i];
		},
	};
}

// A stack that has no frame left ends nowhere: at the root only those end which had none to begin with.
function only({ tree, frames }: Frames, stays: (i: number) => boolean): Rebuilt {
	return {
		root: GONE,
		pass: (i, above, trie) => {
			const rest = kindOf(tree, i) === KIND.rest;
			if (rest ? above < 0 : !stays(i)) return above;
			return trie.child(Math.max(above, 0), frames[i], i);
		},
	};
}

// ---- other names --------------------

class Texts {
	readonly strings: string[];
	private readonly ids = new Map<string, number>();
	constructor(tree: Tree) {
		this.strings = tree.strings.slice();
		tree.strings.forEach((text, id) => this.ids.set(text, id));
	}
	id(text: string): number {
		let id = this.ids.get(text);
		if (id === undefined) this.ids.set(text, (id = this.strings.push(text) - 1));
		return id;
	}
}

// The same nodes under other names, which may now be the same for siblings. `rename` is asked once a function.
function renamed(tree: Tree, rename: (node: number) => { name: string; file: string; line: number } | null): Tree {
	const texts = new Texts(tree);
	const { of, first, count } = treeFunctions(tree);
	const name = new Uint32Array(count);
	const file = new Uint32Array(count);
	const line = new Int32Array(count);
	for (let f = 0; f < count; f++) {
		const to = rename(first[f]);
		line[f] = to ? to.line : GONE;
		if (!to) continue;
		name[f] = texts.id(to.name);
		file[f] = texts.id(to.file);
	}
	const copy: Tree = { ...tree, strings: texts.strings, name: tree.name.slice(), file: tree.file.slice(), line: tree.line.slice(), kind: tree.kind.slice() };
	for (let i = 1; i < tree.count; i++) {
		const f = of[i];
		if (line[f] === GONE || kindOf(tree, i) === KIND.rest) continue;
		copy.name[i] = name[f];
		copy.file[i] = file[f];
		copy.line[i] = line[f];
		copy.kind[i] &= ~KIND.inlined;
	}
	return copy;
}

// Of frames that call each other and are equal, one stays.
function foldEqual(tree: Tree, folds: (i: number) => boolean): Tree {
	const frames = treeFrames(tree);
	const { parent } = tree;
	return rebuild(tree, {
		root: 0,
		pass: (i, above, trie) => (frames[i] === frames[parent[i]] && folds(i) ? above : trie.child(above, frames[i], i)),
	});
}

export const UNKNOWN = '[unknown]';

function group(tree: Tree, by: 'gf' | 'gl' | 'gb'): Tree {
	const text = (id: number) => tree.strings[id];
	const unknown = (node: number) => (text(tree.binary[node]) === '' ? UNKNOWN : `[${text(tree.binary[node])}]`);
	const copy = renamed(tree, (node) => {
		if (by === 'gb') return { name: text(tree.binary[node]) || UNKNOWN, file: '', line: 0 };
		const file = text(tree.file[node]);
		return { name: file || unknown(node), file, line: 0 };
	});
	if (by === 'gl') nameLines(tree, copy);
	return foldEqual(copy, () => true);
}

// A function's nodes may know different lines, or none.
function nameLines(tree: Tree, copy: Tree): void {
	const texts = new Texts(copy);
	const known = new Map<string, number>();
	for (let i = 1; i < tree.count; i++) {
		if (kindOf(tree, i) === KIND.rest || tree.line[i] === 0 || tree.strings[tree.file[i]] === '') continue;
		const key = `${tree.file[i]}:${tree.line[i]}`;
		let id = known.get(key);
		if (id === undefined) known.set(key, (id = texts.id(placeOf(tree.strings[tree.file[i]], tree.line[i]))));
		copy.name[i] = id;
		copy.line[i] = tree.line[i];
	}
	copy.strings = texts.strings;
}

function collapseBinary(tree: Tree, binary: number): Tree {
	if (binary < 0) return tree;
	const name = tree.strings[binary] || UNKNOWN;
	const copy = renamed(tree, (node) => (tree.binary[node] === binary ? { name, file: '', line: 0 } : null));
	const of = (i: number) => copy.binary[i] === binary && kindOf(copy, i) !== KIND.rest;
	const first = copy.binary.findIndex((_, i) => i > 0 && of(i));
	// Code of several kinds (made at run time, say, and the runtime itself) is one frame, too.
	for (let i = 1; i < copy.count; i++) if (of(i)) copy.kind[i] = copy.kind[first];
	return foldEqual(copy, of);
}

// ---- all of them --------------------

function applyOne(tree: Tree, { op, arg }: Transform, limits: InvertLimits): Tree {
	if (op === 'i') return invertTree(tree, limits);
	if (op === 'co')
		return applyTransforms(
			tree,
			[
				{ op: 'f', arg },
				{ op: 'cf', arg },
				{ op: 'i', arg: '' },
			],
			limits,
		);
	if (op === 'gf' || op === 'gl' || op === 'gb') return group(tree, op);
	if (op === 'cb') return collapseBinary(tree, findBinary(tree, arg));
	const f: Frames = { tree, frames: treeFrames(tree), of: treeFunctions(tree).of };
	const { parent } = tree;
	const nothing: Rebuilt = { root: GONE, pass: () => GONE };
	if (op === 'ok')
		return rebuild(
			tree,
			only(f, (i) => kindOf(tree, i) === KINDS[arg]),
		);
	if (op === 'ob') {
		const binary = findBinary(tree, arg);
		return rebuild(
			tree,
			only(f, (i) => tree.binary[i] === binary),
		);
	}
	if (op === 'fs' || op === 'mn' || op === 'cs') {
		const node = findPath(tree, [arg]);
		if (op === 'fs') return node === 0 ? tree : rebuild(tree, node < 0 ? nothing : focusSubtree(f, node));
		if (node <= 0) return tree;
		return rebuild(tree, op === 'mn' ? merge(f, (i) => i === node) : collapse(f, (i) => i === node));
	}
	const direct = (i: number) => parent[i] > 0 && f.of[i] === f.of[parent[i]];
	if (op === 'dr' && arg === '') return rebuild(tree, merge(f, direct));
	const wanted = findFunction(tree, arg);
	if (wanted === NO_FUNCTION) return op === 'ff' || op === 'f' ? rebuild(tree, nothing) : tree;
	switch (op) {
		case 'ff':
			return rebuild(tree, focusFunction(f, wanted));
		case 'f':
			return rebuild(tree, focusThrough(f, wanted));
		case 'd':
			return rebuild(tree, drop(f, wanted));
		case 'mf':
			return rebuild(
				tree,
				merge(f, (i) => f.of[i] === wanted),
			);
		case 'cf':
			return rebuild(
				tree,
				collapse(f, (i) => f.of[i] === wanted),
			);
		case 'r':
			return rebuild(tree, collapseRecursion(f, wanted));
		case 'dr':
			return rebuild(
				tree,
				merge(f, (i) => f.of[i] === wanted && direct(i)),
			);
	}
}

/** The tree after each of the transforms, the first being the tree itself: what a path of them above the graph needs. */
export function transformSteps(tree: Tree, transforms: readonly Transform[], limits: InvertLimits = {}): Tree[] {
	const steps = [tree];
	for (const transform of transforms) steps.push(applyOne(steps[steps.length - 1], transform, limits));
	return steps;
}

/** The tree that the transforms make of this one, in their order. The tree itself is not changed, and returned if nothing is. */
export function applyTransforms(tree: Tree, transforms: readonly Transform[], limits: InvertLimits = {}): Tree {
	return transformSteps(tree, transforms, limits)[transforms.length];
}
