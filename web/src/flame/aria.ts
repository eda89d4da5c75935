// SPDX-License-Identifier: Apache-2.0
/*
 * What of the tree is in the document, beside the canvas, for screen readers: the way from the root to the frame with the focus, that
 * frame's siblings, and what it calls. A bounded part of each: nobody listens to 10,000 items, and a stack may be as deep.
 * Places among siblings are those of the whole tree, so that a screen reader reports what is left out.
 */
import { ancestors, firstChild, nextSibling, type Tree } from '../tree/tree';

export const ABOVE_MAX = 24;
export const BESIDE_MAX = 10; // to either side
export const BELOW_MAX = 24;

export interface AriaItem {
	node: number;
	level: number; // the root has 1
	place: number; // among its siblings, from 1
	of: number; // how many siblings there are, itself included
	opens: boolean | null; // null: it calls nothing
}

/** The children of a node around one of them: that one, and up to `around` on either side. */
function around(tree: Tree, parent: number, wanted: number, reach: number): { nodes: number[]; first: number; count: number } {
	let count = 0;
	let at = 0;
	const last: number[] = []; // the latest before the wanted
	const nodes: number[] = [];
	let found = false;
	for (let child = firstChild(tree, parent); child >= 0; child = nextSibling(tree, child)) {
		if (child === wanted) {
			found = true;
			at = count - last.length;
			nodes.push(...last, child);
		} else if (!found) {
			last.push(child);
			if (last.length > reach) last.shift();
		} else if (nodes.length < last.length + 1 + reach) {
			nodes.push(child);
		}
		count++;
	}
	return { nodes, first: at, count };
}

/** In the order in which a tree is read: the root first, what a frame calls right behind it. */
export function ariaItems(tree: Tree, focus: number): AriaItem[] {
	const opens = (node: number, open: boolean) => (firstChild(tree, node) < 0 ? null : open);
	const items: AriaItem[] = [];
	const path = ancestors(tree, focus);
	const shown = path.length - 1 > ABOVE_MAX ? [0, ...path.slice(-ABOVE_MAX - 1)] : path;
	for (const node of shown.slice(0, -1)) {
		const { first, nodes, count } = node === 0 ? { first: 0, nodes: [0], count: 1 } : around(tree, tree.parent[node], node, 0);
		items.push({ node, level: tree.depth[node] + 1, place: first + nodes.length, of: count, opens: opens(node, true) });
	}
	const row = focus === 0 ? { nodes: [0], first: 0, count: 1 } : around(tree, tree.parent[focus], focus, BESIDE_MAX);
	row.nodes.forEach((node, i) => {
		items.push({ node, level: tree.depth[node] + 1, place: row.first + i + 1, of: row.count, opens: opens(node, node === focus) });
		if (node !== focus) return;
		let count = 0;
		const below: number[] = [];
		for (let child = firstChild(tree, focus); child >= 0; child = nextSibling(tree, child)) {
			if (count++ < BELOW_MAX) below.push(child);
		}
		below.forEach((child, n) => items.push({ node: child, level: tree.depth[child] + 1, place: n + 1, of: count, opens: opens(child, false) }));
	});
	return items;
}
