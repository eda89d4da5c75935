// SPDX-License-Identifier: Apache-2.0
/*
 * Two profiles, compared: what the parts of the view draw. It is made here of two responses of the server (model/diff.ts), not by its
 * `diff`: the page needs both profiles with their periods to say what is noise, and with both at hand a change from rates to shares, to
 * another width of the boxes or to side by side needs no request. Each side may have a million nodes.
 */
import type { QueryResponse } from '../api/responses';
import { isGauge } from '../base/format';
import {
	CHANGE,
	changeInterval,
	classifyChanges,
	diffRows,
	diffTrees,
	lengthOf,
	restNodes,
	type DiffMode,
	type DiffRow,
	type Side,
	type TreeDiff,
} from '../model/diff';
import type { Difference } from '../model/noise';
import { CHANGES, type ChangeName, type Order, type Width } from '../state/compare';
import { KIND, measure, type Tree } from '../tree/tree';
import { orderNodes } from '../tree/trie';

export interface Comparison {
	base: Side;
	head: Side;
	mode: DiffMode;
	diff: TreeDiff;
	changes: Uint8Array; // by node of diff.tree, of totals
	counted: boolean; // whether noise could be estimated
}

/** What one sample counts for; 0 where values are no counts of samples (bytes, delays). */
export function samplePeriod(response: Pick<QueryResponse, 'period'>, tree: Pick<Tree, 'type' | 'unit'>): number {
	if (tree.type === 'cpu') return response.period > 0 ? response.period : 0;
	return tree.type === 'samples' && tree.unit === 'count' ? 1 : 0;
}

/** type: the whole profile type; responses with a graph have only that of the values. */
export function sideOf(response: QueryResponse, tree: Tree, type: string): Side {
	const seconds = Math.max(0, response.to_ms - response.from_ms) / 1000;
	return { tree, seconds, period: samplePeriod(response, tree), gauge: isGauge(type) };
}

export function compare(base: Side, head: Side, mode: DiffMode): Comparison {
	const diff = diffTrees(base, head, mode);
	const { changes, counted } = classifyChanges(diff.baseTotal, diff.headTotal, base, head, mode, restNodes(diff.tree));
	// The whole is what shares are of: it has none.
	if (mode === 'share') changes[0] = CHANGE.noise;
	return { base, head, mode, diff, changes, counted };
}

// ---- the tree as it is drawn --------------------

export interface Drawn {
	tree: Tree;
	union: Int32Array; // by node: its node in the union
	place: Int32Array; // by node of the union: its node here, -1 if it has none
}

function whole(tree: Tree): Drawn {
	const same = new Int32Array(tree.count);
	for (let i = 0; i < tree.count; i++) same[i] = i;
	return { tree, union: same, place: same };
}

/** The union's nodes that the side has, as wide as they are there; or all of them. */
export function draw(diff: TreeDiff, width: Width): Drawn {
	const { tree } = diff;
	if (width === 'mean') return whole(tree);
	const [self, total] = width === 'base' ? [diff.baseSelf, diff.baseTotal] : [diff.headSelf, diff.headTotal];
	const union = orderNodes(tree.parent, total);
	const count = union.length;
	const place = new Int32Array(tree.count).fill(-1);
	for (let i = 0; i < count; i++) place[union[i]] = i;
	const column = <A extends Int32Array | Uint32Array | Uint8Array | Float64Array>(from: A): A => {
		const out = new (from.constructor as new (n: number) => A)(count);
		for (let i = 0; i < count; i++) out[i] = from[union[i]];
		return out;
	};
	const drawn: Tree = {
		...tree,
		count,
		parent: union.map((node) => place[tree.parent[node]]),
		end: new Int32Array(count),
		depth: new Int32Array(count),
		name: column(tree.name),
		file: column(tree.file),
		line: column(tree.line),
		binary: column(tree.binary),
		kind: column(tree.kind),
		start: new Float64Array(count),
		total: column(total),
		self: column(self),
		maxDepth: 0,
	};
	measure(drawn);
	return { tree: drawn, union, place };
}

// ---- the table --------------------

export interface CompareRow extends DiffRow {
	selfChange: ChangeName;
	totalChange: ChangeName;
}

export function compareRows({ base, head, mode }: Comparison): CompareRow[] {
	const rows = diffRows(base.tree, head.tree);
	const rest = Uint8Array.from(rows, (row) => (row.kind === KIND.rest ? 1 : 0));
	const classify = (from: 'baseSelf' | 'baseTotal', to: 'self' | 'total') =>
		classifyChanges(
			rows.map((row) => row[from]),
			rows.map((row) => row[to]),
			base,
			head,
			mode,
			rest,
		).changes;
	const [self, total] = [classify('baseSelf', 'self'), classify('baseTotal', 'total')];
	return rows.map((row, i) => ({ ...row, selfChange: CHANGES[self[i]], totalChange: CHANGES[total[i]] }));
}

/** What a row is about: the two values as measured, and what became of them. */
export interface Pair {
	base: number;
	head: number;
	change: ChangeName;
}

export function pairOf(row: CompareRow, of: 'self' | 'total'): Pair {
	return of === 'self' ? { base: row.baseSelf, head: row.self, change: row.selfChange } : { base: row.baseTotal, head: row.total, change: row.totalChange };
}

/** Values that can stand beside each other: shares of the totals, or values a second. */
export function comparable({ base, head, mode }: Pick<Comparison, 'base' | 'head' | 'mode'>, from: number, to: number): [base: number, head: number] {
	const [a, b] = mode === 'share' ? [base.tree.total[0], head.tree.total[0]] : [lengthOf(base), lengthOf(head)];
	return [a > 0 ? from / a : 0, b > 0 ? to / b : 0];
}

export interface Changed {
	base: number; // comparable
	head: number;
	by: number; // head less base
	ratio: number; // of by to the base; Infinity = there was none
	interval: Difference | null; // of by; null = samples cannot be counted
}

export function changeBetween(of: Pick<Comparison, 'base' | 'head' | 'mode'>, from: number, to: number): Changed {
	const [base, head] = comparable(of, from, to);
	const by = head - base;
	const ratio = base > 0 ? by / base : by > 0 ? Infinity : 0;
	return { base, head, by, ratio, interval: changeInterval(from, to, of.base, of.head, of.mode) };
}

const RANK: Record<ChangeName, number> = { new: 0, gone: 1, more: 2, less: 3, noise: 4, unknown: 5 };

/** The largest first; names and states from their beginning. */
export function sortCompared(rows: CompareRow[], of: Comparison, by: 'self' | 'total', order: Order, reverse: boolean): CompareRow[] {
	const keyed = rows.map((row) => {
		const pair = pairOf(row, by);
		const [base, head] = comparable(of, pair.base, pair.head);
		const change = Math.abs(head - base);
		const ratio = base > 0 ? head / base - 1 : head > 0 ? Infinity : 0;
		const key = { change, base, head, percent: ratio, state: -RANK[pair.change], name: 0 }[order];
		return { row, key, change, most: Math.max(base, head) };
	});
	const byName = (a: CompareRow, b: CompareRow) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0);
	const turn = reverse ? -1 : 1;
	// Infinity less Infinity is no number.
	const falling = (a: number, b: number) => (a < b ? 1 : a > b ? -1 : 0);
	keyed.sort((a, b) => {
		const first = order === 'name' ? byName(a.row, b.row) : falling(a.key, b.key);
		return turn * first || falling(a.change, b.change) || falling(a.most, b.most) || byName(a.row, b.row);
	});
	return keyed.map(({ row }) => row);
}

/** How many rows there are of each change; those without a value on either side are not counted. */
export function countChanges(rows: CompareRow[], by: 'self' | 'total'): Record<ChangeName, number> {
	const counts: Record<ChangeName, number> = { noise: 0, more: 0, less: 0, new: 0, gone: 0, unknown: 0 };
	for (const row of rows) {
		const pair = pairOf(row, by);
		if (pair.base !== 0 || pair.head !== 0) counts[pair.change]++;
	}
	return counts;
}
