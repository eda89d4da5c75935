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
import { nextSibling, type Tree } from '../tree/tree';

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
