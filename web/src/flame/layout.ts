// SPDX-License-Identifier: Apache-2.0
/*
 * Which boxes are on the screen: the nodes that cross the value range [from, to) and the rows [firstRow, lastRow], in
 * pixels.
 *
 * Siblings come by falling total, so the walk over them stops at the first that is narrower than MIN_WIDTH and draws the
 * rest of its siblings as one box, the tail. The cost thus depends on the pixels, not on the nodes: a million nodes lay out
 * in well under a millisecond. A tail is a box like any other: opening it zooms to exactly what it stands for. (Rejected:
 * asking the server for a trimmed tree. What is small in the whole is often large in the part that somebody zooms into, and
 * an "other" that cannot be opened is a dead end.)
 */
import * as T from '../texts';
import { packageOf } from './package';
import { KIND, kindOf, nextSibling, type Tree } from './tree';

export const MIN_WIDTH = 0.6; // px; below this a box is no longer a box

export interface Box {
	node: number; // of a tail: its first, largest node
	tail: boolean;
	row: number; // depth in the tree
	x: number;
	width: number;
}

export interface Window {
	from: number;
	to: number;
	width: number; // px
	firstRow: number;
	lastRow: number;
}

export function layout(tree: Tree, window: Window): Box[] {
	const { from, to, width, firstRow, lastRow } = window;
	const boxes: Box[] = [];
	if (!(to > from) || !(width > 0)) return boxes;
	const scale = width / (to - from);
	const put = (node: number, tail: boolean, row: number, start: number, end: number): boolean => {
		if (end <= from || start >= to) return false;
		const x = Math.max(0, (start - from) * scale);
		const right = Math.min(width, (end - from) * scale);
		if (row >= firstRow) boxes.push({ node, tail, row, x, width: right - x });
		return true;
	};
	const stack: number[] = [0];
	while (stack.length > 0) {
		const node = stack.pop()!;
		const row = tree.depth[node];
		if (!put(node, false, row, tree.start[node], tree.start[node] + tree.total[node])) continue;
		if (row >= lastRow) continue;
		const childrenEnd = tree.start[node] + tree.total[node] - tree.self[node];
		for (let child = node + 1; child < tree.end[node]; child = tree.end[child]) {
			if (tree.start[child] >= to) break;
			if (tree.total[child] * scale < MIN_WIDTH) {
				put(child, true, row + 1, tree.start[child], childrenEnd);
				break;
			}
			if (tree.start[child] + tree.total[child] > from) stack.push(child);
		}
	}
	return boxes;
}

// The deepest row that has a box for the range, for the height of the scrolled area.
export function deepestRow(tree: Tree, from: number, to: number, width: number): number {
	if (!(to > from) || !(width > 0)) return 0;
	const smallest = (MIN_WIDTH * (to - from)) / width;
	let deepest = 0;
	for (let i = 0; i < tree.count;) {
		const outside = tree.start[i] >= to || tree.start[i] + tree.total[i] <= from;
		if (!outside && tree.depth[i] > deepest) deepest = tree.depth[i];
		if (!outside && tree.total[i] >= smallest) i++;
		// This one is a tail's first: none of the siblings after it can be larger.
		else if (!outside || tree.start[i] >= to) i = i === 0 ? tree.count : tree.end[tree.parent[i]];
		else i = tree.end[i];
	}
	return deepest;
}

// The pointer may be off by a pixel: boxes can be narrower than one.
export function boxAt(boxes: Box[], row: number, x: number): Box | null {
	let nearest: Box | null = null;
	let distance = 1;
	for (const box of boxes) {
		if (box.row !== row) continue;
		const off = Math.max(box.x - x, x - (box.x + box.width));
		if (off < 0) return box;
		if (off <= distance) [nearest, distance] = [box, off];
	}
	return nearest;
}

export function tailSize(tree: Tree, first: number): { count: number; total: number } {
	let count = 0;
	let total = 0;
	for (let node = first; node >= 0; node = nextSibling(tree, node)) {
		count++;
		total += tree.total[node];
	}
	return { count, total };
}

// ---- search --------------------

/*
 * What is typed into a search box: part of a function's name, any case; "NAME" the whole name; in:BINARY, file:FILE, kind:kernel
 * (native, jit, interpreted, unknown) and package:PACKAGE for the entries of legend and table; a regular expression when asked for. Returns the test, null
 * for no search, or the fault as text.
 */
export function compileSearch(text: string, regex: boolean): ((name: string) => boolean) | null | string {
	const wanted = text.trim();
	if (wanted === '') return null;
	if (regex) {
		try {
			const pattern = new RegExp(wanted, 'i');
			return (name) => pattern.test(name);
		} catch (error) {
			return error instanceof Error ? error.message.replace(/^Invalid regular expression: /, '') : String(error);
		}
	}
	if (wanted.length > 2 && wanted.startsWith('"') && wanted.endsWith('"')) {
		const whole = wanted.slice(1, -1);
		return (name) => name === whole;
	}
	const part = wanted.toLowerCase();
	return (name) => name.toLowerCase().includes(part);
}

const { inlined: _, ...KINDS } = KIND;
const KIND_NAMES: Record<string, number> = KINDS;

const specialTest = (what: string, wanted: string) =>
	what === 'package' ? (name: string) => packageOf(name) === wanted : (name: string) => name === wanted;

// One byte a node: 1 where it matches. Every string is tested once, however many nodes have it. A string is a fault.
export function findNodes(tree: Tree, text: string, regex: boolean): Uint8Array | null | string {
	const special = regex ? null : /^(in|file|kind|package):(.+)$/.exec(text.trim());
	if (special && special[1] === 'kind') {
		const kind = KIND_NAMES[special[2]];
		if (kind === undefined) return T.search.noKind(special[2]);
		const flags = new Uint8Array(tree.count);
		for (let i = 1; i < tree.count; i++) flags[i] = kindOf(tree, i) === kind ? 1 : 0;
		return flags;
	}
	const test = special ? specialTest(special[1], special[2]) : compileSearch(text, regex);
	if (test === null || typeof test === 'string') return test;
	const column = special?.[1] === 'in' ? tree.binary : special?.[1] === 'file' ? tree.file : tree.name;
	const known = new Int8Array(tree.strings.length).fill(-1);
	const flags = new Uint8Array(tree.count);
	for (let i = 1; i < tree.count; i++) {
		const s = column[i];
		if (known[s] < 0) known[s] = test(tree.strings[s]) ? 1 : 0;
		flags[i] = known[s];
	}
	return flags;
}

export interface Matched {
	value: number; // of the stacks that hold a match, each counted once
	tops: Int32Array; // the matches that have no match above them
}

// Within the subtree of `within`. A match below a match adds nothing: recursion must not count twice.
export function sumMatched(tree: Tree, flags: Uint8Array, within = 0): Matched {
	let value = 0;
	const tops: number[] = [];
	for (let i = within; i < tree.end[within];) {
		if (flags[i]) {
			value += tree.total[i];
			tops.push(i);
			i = tree.end[i];
		} else {
			i++;
		}
	}
	return { value, tops: Int32Array.from(tops) };
}

// A copy by falling total. Half a million take half a second: only when somebody asks for the next match.
export function largestFirst(tree: Tree, nodes: Int32Array): Int32Array {
	return nodes.slice().sort((a, b) => tree.total[b] - tree.total[a] || a - b);
}
