// SPDX-License-Identifier: Apache-2.0
/*
 * The flame tree as the page holds it: one typed array a column, in pre-order, siblings by falling total. That order is
 * what makes a million nodes cheap: a subtree is the index range [i, end[i]), the next sibling is end[i], and a walk over
 * siblings may stop at the first that is too small to see. `start` is where a node begins on the value axis, so that its
 * box is [start, start + total) in the units of the profile, whatever the zoom.
 *
 * It is made of columns as they come: of a server's response (api/wire.ts), of JSON in a file. They are hostile until they are checked
 * here: indices out of range, a parent after its child or columns of unequal length are errors; another order is put right; totals
 * are summed anew from the self values, so that no box can be wider than its parent. Columns that are typed arrays already, and in
 * order, become the tree's own: nobody writes to them any more.
 */
import * as T from '../base/texts';

export interface Flame {
	type: string;
	unit: string;
	total: number;
	samples: number;
	binaries?: unknown; // build-ids, see build_ids.ts
	strings: string[];
	nodes: {
		parent: ArrayLike<number>;
		name: ArrayLike<number>;
		file: ArrayLike<number>;
		line: ArrayLike<number>;
		binary: ArrayLike<number>;
		kind: ArrayLike<number>;
		self: ArrayLike<number>;
	};
}

/** As it is in a file. */
export interface FlameJson extends Flame {
	nodes: {
		parent: number[];
		name: number[];
		file: number[];
		line: number[];
		binary: number[];
		kind: number[];
		total: number[];
		self: number[];
	};
}

export interface Tree {
	type: string;
	unit: string;
	samples: number;
	strings: string[];
	count: number;
	parent: Int32Array;
	end: Int32Array; // one past the last node of the subtree
	depth: Int32Array; // the root is 0
	name: Uint32Array;
	file: Uint32Array;
	line: Uint32Array; // in the file, 0 = unknown
	binary: Uint32Array;
	kind: Uint8Array;
	start: Float64Array;
	total: Float64Array;
	self: Float64Array;
	maxDepth: number;
}

/** Few enough nodes that nobody notices what is done with all of them. */
export function isSmall(tree: Tree): boolean {
	return tree.count < 50_000;
}

// rest: "(N smaller)", what the server left out below a node.
export const KIND = { unknown: 0, native: 1, kernel: 2, jit: 3, interpreted: 4, rest: 7, inlined: 8 } as const;

export function kindOf(tree: Tree, node: number): number {
	return tree.kind[node] & 7;
}

/** The share of the whole that is in nodes which stand for others. */
export function restShare(tree: Tree): number {
	let sum = 0;
	for (let i = 1; i < tree.count; i++) if (kindOf(tree, i) === KIND.rest) sum += tree.total[i];
	return tree.total[0] > 0 ? sum / tree.total[0] : 0;
}

export function isInlined(tree: Tree, node: number): boolean {
	return (tree.kind[node] & KIND.inlined) !== 0;
}

// "/src/main.c:12", "/src/main.c", or "" when not even the file is known.
export function placeOf(file: string, line: number): string {
	return file !== '' && line > 0 ? `${file}:${line}` : file;
}

const COLUMNS = ['parent', 'name', 'file', 'line', 'binary', 'kind', 'self'] as const;

export function checkFlame(flame: Flame): number {
	const count = flame?.nodes?.parent?.length;
	if (!Array.isArray(flame?.strings) || !(count > 0)) throw new Error(T.broken.noNodes);
	for (const column of COLUMNS) {
		if (flame.nodes[column]?.length !== count) throw new Error(T.broken.column(column, count));
	}
	const { parent } = flame.nodes;
	for (let i = 1; i < count; i++) {
		if (!(parent[i] >= 0 && parent[i] < i)) throw new Error(T.broken.parent(i, parent[i]));
	}
	for (const column of ['name', 'file', 'binary'] as const) {
		const ids = flame.nodes[column];
		for (let i = 0; i < count; i++) if (!(ids[i] >= 0 && ids[i] < flame.strings.length)) throw new Error(T.broken.string(i, column));
	}
	return count;
}

function sumTotals(parent: ArrayLike<number>, self: Float64Array): Float64Array {
	const total = self.slice();
	for (let i = total.length - 1; i > 0; i--) total[parent[i]] += total[i];
	return total;
}

// True when the nodes already are in pre-order with siblings by falling total: what the server sends.
function isOrdered(parent: ArrayLike<number>, total: Float64Array): boolean {
	const last = new Int32Array(parent.length).fill(-1); // each node's latest child
	for (let i = 1; i < parent.length; i++) {
		const p = parent[i];
		// In pre-order the node before i is p itself or within p's subtree: walking up from it must meet p.
		let at = i - 1;
		while (at > p) at = parent[at];
		if (at !== p) return false;
		if (last[p] >= 0 && total[last[p]] < total[i]) return false;
		last[p] = i;
	}
	return true;
}

// The children of all nodes in one array, those of node i from first[i] to first[i + 1], by falling total.
function childLists(parent: ArrayLike<number>, total: Float64Array): { first: Int32Array; children: Int32Array } {
	const count = parent.length;
	const first = new Int32Array(count + 1);
	const children = new Int32Array(count);
	for (let i = 1; i < count; i++) first[parent[i] + 1]++;
	for (let i = 0; i < count; i++) first[i + 1] += first[i];
	const next = first.slice();
	for (let i = 1; i < count; i++) children[next[parent[i]]++] = i;
	for (let i = 0; i < count; i++) {
		const [begin, end] = [first[i], first[i + 1]];
		let sorted = true;
		for (let at = begin + 1; at < end && sorted; at++) sorted = total[children[at - 1]] >= total[children[at]];
		if (!sorted) children.subarray(begin, end).sort((a, b) => total[b] - total[a] || a - b);
	}
	return { first, children };
}

function preOrder(parent: ArrayLike<number>, total: Float64Array): Int32Array {
	const { first, children } = childLists(parent, total);
	const order = new Int32Array(parent.length);
	const stack = new Int32Array(parent.length); // the root is done before its children, and is no more on it
	let height = 1;
	for (let n = 0; height > 0; n++) {
		const node = (order[n] = stack[--height]);
		for (let at = first[node + 1] - 1; at >= first[node]; at--) stack[height++] = children[at];
	}
	return order;
}

type Typed = Int32Array | Uint32Array | Uint8Array | Float64Array;

// The column as a typed array, in that order (null: as it is).
function arrange<T extends Typed>(column: ArrayLike<number>, order: Int32Array | null, Made: new (length: number) => T): T {
	if (!order && column instanceof Made) return column;
	const out = new Made(column.length);
	for (let i = 0; i < out.length; i++) out[i] = column[order ? order[i] : i];
	return out;
}

function withoutNegatives(self: ArrayLike<number>): Float64Array {
	const out = new Float64Array(self.length);
	for (let i = 0; i < out.length; i++) out[i] = self[i] > 0 ? self[i] : 0;
	return out;
}

function arrangeParents(parent: ArrayLike<number>, order: Int32Array | null): Int32Array {
	const out = arrange(parent, order, Int32Array);
	if (order) {
		const place = new Int32Array(order.length); // old index -> new
		for (let i = 0; i < order.length; i++) place[order[i]] = i;
		for (let i = 1; i < out.length; i++) out[i] = place[out[i]];
	}
	out[0] = 0;
	return out;
}

export function buildTree(flame: Flame): Tree {
	const count = checkFlame(flame);
	const { nodes } = flame;
	const self = withoutNegatives(nodes.self);
	const total = sumTotals(nodes.parent, self);
	const order = isOrdered(nodes.parent, total) ? null : preOrder(nodes.parent, total);
	const tree: Tree = {
		type: String(flame.type),
		unit: String(flame.unit),
		samples: Number(flame.samples) || 0,
		strings: flame.strings,
		count,
		parent: arrangeParents(nodes.parent, order),
		end: new Int32Array(count),
		depth: new Int32Array(count),
		name: arrange(nodes.name, order, Uint32Array),
		file: arrange(nodes.file, order, Uint32Array),
		line: arrange(nodes.line, order, Uint32Array),
		binary: arrange(nodes.binary, order, Uint32Array),
		kind: arrange(nodes.kind, order, Uint8Array),
		start: new Float64Array(count),
		total: arrange(total, order, Float64Array),
		self: arrange(self, order, Float64Array),
		maxDepth: 0,
	};
	measure(tree);
	return tree;
}

// Fills in end, depth, start and maxDepth from parent and total, for nodes in order.
export function measure(tree: Tree): void {
	const { count, parent, end, depth, start, total } = tree;
	const cursor = new Float64Array(count); // where a node's next child begins
	for (let i = 1; i < count; i++) {
		const p = parent[i];
		depth[i] = depth[p] + 1;
		if (depth[i] > tree.maxDepth) tree.maxDepth = depth[i];
		start[i] = cursor[p];
		cursor[p] += total[i];
		cursor[i] = start[i];
	}
	for (let i = count - 1; i >= 0; i--) {
		if (end[i] === 0) end[i] = i + 1;
		if (i > 0 && end[parent[i]] < end[i]) end[parent[i]] = end[i];
	}
}

// ---- moving about --------------------

export function firstChild(tree: Tree, node: number): number {
	return tree.end[node] > node + 1 ? node + 1 : -1;
}

export function nextSibling(tree: Tree, node: number): number {
	return node > 0 && tree.end[node] < tree.end[tree.parent[node]] ? tree.end[node] : -1;
}

export function previousSibling(tree: Tree, node: number): number {
	if (node === 0) return -1;
	let at = tree.parent[node] + 1;
	if (at === node) return -1;
	while (tree.end[at] !== node) at = tree.end[at];
	return at;
}

function stepSiblings(tree: Tree, node: number, steps: number): number {
	for (let i = 0; i < steps && node >= 0; i++) node = nextSibling(tree, node);
	return node;
}

export function childAt(tree: Tree, node: number, index: number): number {
	return stepSiblings(tree, firstChild(tree, node), index);
}

export function childIndex(tree: Tree, node: number): number {
	let index = 0;
	for (let at = tree.parent[node] + 1; at !== node; at = tree.end[at]) index++;
	return index;
}

export function ancestors(tree: Tree, node: number): number[] {
	const path = [node];
	while (node > 0) path.push((node = tree.parent[node]));
	return path.reverse();
}

// ---- zoom --------------------

// What fills the width: a node, or, of its children that are too small to see beside the larger ones, `take` from the
// skip-th on (0 = all that follow), or a stretch of it, as a person zooms and pans with wheel and fingers.
export interface Zoom {
	node: number;
	skip: number;
	take: number;
	stretch?: [from: number, to: number]; // in billionths of the node's total
}

export const NO_ZOOM: Zoom = { node: 0, skip: 0, take: 0 };

const STRETCH = 1e9;

/** Whether it is less than the whole of a node. */
export const isPart = ({ skip, take, stretch }: Zoom): boolean => skip > 0 || take > 0 || stretch !== undefined;

export function zoomRange(tree: Tree, zoom: Zoom): [number, number] {
	const { node, skip, take, stretch } = zoom;
	const begin = tree.start[node];
	if (stretch) return [begin + (stretch[0] / STRETCH) * tree.total[node], begin + (stretch[1] / STRETCH) * tree.total[node]];
	const first = skip > 0 || take > 0 ? childAt(tree, node, skip) : -1;
	if (first < 0) return [begin, begin + tree.total[node]];
	const after = take > 0 ? stepSiblings(tree, first, take) : -1;
	return [tree.start[first], after >= 0 ? tree.start[after] : begin + tree.total[node] - tree.self[node]];
}

/** The zoom that has a range of values in view: the innermost node that holds all of it, and the stretch of that. */
export function zoomTo(tree: Tree, from: number, to: number): Zoom {
	let node = 0;
	const holds = (i: number) => tree.start[i] <= from && tree.start[i] + tree.total[i] >= to;
	for (let child = firstChild(tree, 0); child >= 0 && tree.start[child] <= from;) {
		if (holds(child)) child = firstChild(tree, (node = child));
		else child = nextSibling(tree, child);
	}
	const total = tree.total[node];
	if (!(to > from) || !(total > 0)) return NO_ZOOM;
	const place = (value: number) => Math.min(STRETCH, Math.max(0, Math.round(((value - tree.start[node]) / total) * STRETCH)));
	const stretch: [number, number] = [place(from), place(to)];
	const whole = stretch[0] === 0 && stretch[1] === STRETCH;
	return whole || stretch[0] >= stretch[1] ? { node, skip: 0, take: 0 } : { node, skip: 0, take: 0, stretch };
}

/*
 * The zoom that opens a tail of siblings, `first` being its largest and `at` the one under the pointer: all of them if that
 * makes the largest at least MIN_OPENED wide; otherwise, among very many small ones, as many as fit, with the pointed one
 * in the middle.
 */
const MIN_OPENED = 3; // px

export function openTail(tree: Tree, first: number, value: number, width: number): Zoom {
	const node = tree.parent[first];
	const skip = childIndex(tree, first);
	const rest = tree.start[node] + tree.total[node] - tree.self[node] - tree.start[first];
	if ((tree.total[first] / rest) * width >= MIN_OPENED) return { node, skip, take: 0 };
	const fit = Math.max(1, Math.floor(width / MIN_OPENED));
	let index = skip;
	let at = first;
	for (let next = nextSibling(tree, at); next >= 0 && tree.start[next] <= value; next = nextSibling(tree, at)) {
		at = next;
		index++;
	}
	return { node, skip: Math.max(skip, index - (fit >> 1)), take: fit };
}

// ---- paths: a node's identity across responses --------------------

// 52 bits of a hash over (name, binary) from the root down: the same stack has the same key in every response.
function hashString(text: string, seed: number): number {
	let h = seed | 0;
	for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x5bd1e995) ^ (h >>> 15);
	return Math.imul(h ^ (h >>> 13), 0x9e3779b1);
}

const SEEDS = [0x2545f491, 0x6c8e9cf5];
const hashesOf = new WeakMap<Tree, Int32Array[]>(); // for each seed, of every string

export function stringHashes(tree: Tree): Int32Array[] {
	let hashes = hashesOf.get(tree);
	if (!hashes) {
		hashes = SEEDS.map((seed) => Int32Array.from(tree.strings, (text) => hashString(text, seed)));
		hashesOf.set(tree, hashes);
	}
	return hashes;
}

function hashFrame(tree: Tree, node: number, above: number, hashes: Int32Array): number {
	const frame = Math.imul(hashes[tree.name[node]], 0x27d4eb2f) ^ hashes[tree.binary[node]];
	const h = Math.imul(above ^ frame, 0x85ebca6b);
	return h ^ (h >>> 15);
}

export function joinHashes(high: number, low: number): number {
	return (high & 0xfffff) * 2 ** 32 + (low >>> 0);
}

// The keys of the nodes from the root down to the node.
export function pathKeys(tree: Tree, node: number): string[] {
	const hashes = stringHashes(tree);
	let [high, low] = SEEDS;
	return ancestors(tree, node).map((frame, i) => {
		if (i > 0) {
			high = hashFrame(tree, frame, high, hashes[0]);
			low = hashFrame(tree, frame, low, hashes[1]);
		}
		return joinHashes(high, low).toString(36);
	});
}

// The node whose key was asked for last: who zooms writes it into the URL and reads it from there, and to look for it among a million
// takes two frames.
const lastKeyOf = new WeakMap<Tree, { key: string; node: number }>();

export function pathKey(tree: Tree, node: number): string {
	const key = pathKeys(tree, node).pop()!;
	lastKeyOf.set(tree, { key, node });
	return key;
}

// The node that the last of the keys names; if it is not there, the one before, and so on. -1 if none is.
export function findPath(tree: Tree, keys: readonly string[]): number {
	const wanted = new Map(keys.map((text, rank) => [parseInt(text, 36), rank]));
	const hashes = stringHashes(tree);
	const high = new Int32Array(tree.count);
	const low = new Int32Array(tree.count);
	[high[0], low[0]] = SEEDS;
	let best = -1;
	let bestRank = -1;
	for (let i = 0; i < tree.count && bestRank < keys.length - 1; i++) {
		if (i > 0) {
			high[i] = hashFrame(tree, i, high[tree.parent[i]], hashes[0]);
			low[i] = hashFrame(tree, i, low[tree.parent[i]], hashes[1]);
		}
		const rank = wanted.get(joinHashes(high[i], low[i]));
		if (rank !== undefined && rank > bestRank) [best, bestRank] = [i, rank];
	}
	return best;
}

export interface PathFrame {
	name: string;
	binary: string;
}

export function pathFrames(tree: Tree, node: number): PathFrame[] {
	return ancestors(tree, node).map((i) => ({ name: tree.strings[tree.name[i]], binary: tree.strings[tree.binary[i]] }));
}

/** Made of an address, or of all those of one binary: not a function's name. */
export function isUnnamed(name: string): boolean {
	return /^\[.*\]$|^(?:.*\+)?0x[0-9a-f]+$/.test(name);
}

function largestBelow(tree: Tree, node: number, test: (i: number) => boolean, direct: boolean): number {
	let best = -1;
	for (let i = node + 1; i < tree.end[node]; i = direct ? tree.end[i] : i + 1) if ((best < 0 || tree.total[i] > tree.total[best]) && test(i)) best = i;
	return best;
}

/*
 * The node that a path leads to after addresses on it have got names: one without a name has become the largest of its
 * binary's functions there, and between two frames there may now be inlined ones. -1 when the path cannot be followed.
 */
export function followPath(tree: Tree, path: readonly PathFrame[]): number {
	let at = 0;
	for (const frame of path.slice(1)) {
		const inBinary = (i: number) => tree.strings[tree.binary[i]] === frame.binary;
		const same = (i: number) => inBinary(i) && tree.strings[tree.name[i]] === frame.name;
		const fits = [same, ...(isUnnamed(frame.name) ? [inBinary] : [])];
		let next = -1;
		for (const direct of [true, false]) for (const test of fits) if (next < 0) next = largestBelow(tree, at, test, direct);
		if (next < 0) return -1;
		at = next;
	}
	return at;
}

/** PATH, PATH~SKIP, PATH~SKIP~TAKE, or PATH~FROM-TO, a stretch. The empty text is the whole. */
export function formatZoom(tree: Tree, zoom: Zoom): string {
	const { node, skip, take, stretch } = zoom;
	if (stretch) return `${pathKey(tree, node)}~${stretch[0]}-${stretch[1]}`;
	if (skip === 0 && take === 0) return node === 0 ? '' : pathKey(tree, node);
	return `${pathKey(tree, node)}~${skip}${take > 0 ? `~${take}` : ''}`;
}

// Null when the frame is not in this tree.
export function parseZoom(tree: Tree, text: string): Zoom | null {
	if (text === '') return NO_ZOOM;
	const [path, skipText, takeText] = text.split('~');
	const last = lastKeyOf.get(tree);
	const node = last?.key === path ? last.node : findPath(tree, [path]);
	if (node < 0) return null;
	const [from, to] = (skipText ?? '').split('-').map(Number);
	if (to !== undefined) return from < to && to <= STRETCH ? { node, skip: 0, take: 0, stretch: [from, to] } : { node, skip: 0, take: 0 };
	const [skip, take] = [Number(skipText ?? 0), Number(takeText ?? 0)];
	return skipText !== undefined && childAt(tree, node, skip) >= 0 ? { node, skip, take } : { node, skip: 0, take: 0 };
}
