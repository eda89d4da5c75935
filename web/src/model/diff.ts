// SPDX-License-Identifier: Apache-2.0
/*
 * Two trees of one profile type as one: every path of either, with what the base and the head have of it.
 *
 * The two are made comparable by a factor for the base: as shares (of the whole each, "normalised") or as rates (by the
 * lengths of the two windows, "absolute"). `tree` is the union, whose boxes are as wide as the mean of the head and the scaled
 * base, in the head's units: so new and gone paths both have a box, and left and right of a comparison can share one
 * order. What is drawn in it is taken from the columns.
 *
 * A tree that the server has made smaller has nodes of kind rest. What is in them is not known, so a path that one side has
 * may be in the other side's rest: `trimmed` says that "new" and "gone" then only mean "not among the largest".
 */
import * as T from '../base/texts';
import { Ids } from '../tree/ids';
import { KIND, kindOf, type Tree } from '../tree/tree';
import { uniteTrees } from '../tree/union';
import { findChanged, rateDifference, shareDifference, type Difference, type Sides } from './noise';
import { buildRows, type Row } from './rows';

export interface Side {
	tree: Tree;
	seconds: number; // length of the window, > 0 for rates
	period: number; // value of one sample; 0 = values are no counts
	gauge?: boolean; // values are averages over the window, not amounts that grow with it
}

/** What values are divided by, to stand beside those of a longer or shorter window. */
export const lengthOf = (side: Pick<Side, 'seconds' | 'gauge'>): number => (side.gauge ? 1 : side.seconds);

export type DiffMode = 'share' | 'rate';

export interface TreeDiff {
	tree: Tree;
	mode: DiffMode;
	scale: number; // what a value of the base is multiplied by to stand beside the head's
	baseSelf: Float64Array; // by node of `tree`, not scaled
	baseTotal: Float64Array;
	headSelf: Float64Array;
	headTotal: Float64Array;
	trimmed: boolean;
}

export const CHANGE = { noise: 0, more: 1, less: 2, fresh: 3, gone: 4, unknown: 5 } as const;

export function baseScale(base: Side, head: Side, mode: DiffMode): number {
	const [from, to] = mode === 'share' ? [base.tree.total[0], head.tree.total[0]] : [lengthOf(base), lengthOf(head)];
	return from > 0 && to > 0 ? to / from : 1;
}

function hasRest(tree: Tree): boolean {
	for (let i = 1; i < tree.count; i++) if (kindOf(tree, i) === KIND.rest) return true;
	return false;
}

/** TypeError for trees of different types or units: there is nothing to subtract. A tree of nothing, which has no type, is of any. */
export function diffTrees(base: Side, head: Side, mode: DiffMode): TreeDiff {
	const typed = base.tree.type !== '' && head.tree.type !== '';
	if (typed && (base.tree.type !== head.tree.type || base.tree.unit !== head.tree.unit))
		throw new TypeError(T.broken.otherTypes(`${base.tree.type}, ${base.tree.unit}`, `${head.tree.type}, ${head.tree.unit}`));
	const scale = baseScale(base, head, mode);
	const {
		tree,
		place: [basePlace, headPlace],
	} = uniteTrees(base.tree, head.tree, [scale / 2, 0.5]);
	const column = (from: Float64Array, place: Int32Array): Float64Array => {
		const sums = new Float64Array(tree.count);
		// Nodes without a value are not in the tree; the root gets nothing of them.
		for (let i = 0; i < from.length; i++) sums[place[i]] += from[i];
		return sums;
	};
	return {
		tree,
		mode,
		scale,
		baseSelf: column(base.tree.self, basePlace),
		baseTotal: column(base.tree.total, basePlace),
		headSelf: column(head.tree.self, headPlace),
		headTotal: column(head.tree.total, headPlace),
		trimmed: hasRest(base.tree) || hasRest(head.tree),
	};
}

export interface DiffRow extends Row {
	baseSelf: number; // self and total are the head's
	baseTotal: number;
}

/** One row a function that either side has; line and kind are the head's, if it has it. */
export function diffRows(base: Tree, head: Tree): DiffRow[] {
	const texts = new Map<string, number>();
	const text = (of: string): number => {
		let id = texts.get(of);
		if (id === undefined) texts.set(of, (id = texts.size));
		return id;
	};
	const ids = new Ids(); // of name, binary, file
	const rows: DiffRow[] = [];
	const take = (row: Row): DiffRow => {
		const id = ids.of(text(row.name), text(row.binary), text(row.file));
		return (rows[id] ??= { ...row, self: 0, total: 0, baseSelf: 0, baseTotal: 0 });
	};
	for (const row of buildRows(head)) {
		const both = take(row);
		both.self += row.self;
		both.total += row.total;
	}
	for (const row of buildRows(base)) {
		const both = take(row);
		both.baseSelf += row.self;
		both.baseTotal += row.total;
	}
	return rows;
}

// ---- against the noise --------------------

/** Null when samples cannot be counted: a period or, for rates, a length is not known. */
function sidesOf(base: Side, head: Side, mode: DiffMode): Sides | null {
	if (!(base.period > 0) || !(head.period > 0)) return null;
	if (mode === 'share') {
		const [n1, n2] = [Math.round(base.tree.total[0] / base.period), Math.round(head.tree.total[0] / head.period)];
		return { mode, base: n1, head: n2 };
	}
	// With different periods, an equal rate of the value is an unequal one of samples.
	if (!(base.seconds > 0) || !(head.seconds > 0)) return null;
	return { mode, base: base.seconds / base.period, head: head.seconds / head.period };
}

/**
 * What became of each row, a CHANGE: of nodes (baseTotal and headTotal of a TreeDiff) or of functions. Whatever differs within
 * the noise is noise, new and gone too. Where there is no way to count samples, every difference is one, and `counted`
 * is false. skip: rows that are not tested, such as those of kind rest; they are `unknown`.
 */
export function classifyChanges(
	baseValues: ArrayLike<number>,
	headValues: ArrayLike<number>,
	base: Side,
	head: Side,
	mode: DiffMode,
	skip: Uint8Array | null = null,
): { changes: Uint8Array; counted: boolean } {
	const rows = baseValues.length;
	const changes = new Uint8Array(rows);
	const sides = sidesOf(base, head, mode);
	const scale = baseScale(base, head, mode);
	let changed: Uint8Array | null = null;
	if (sides) {
		const count = (values: ArrayLike<number>, period: number, most: number): Float64Array => {
			const counts = new Float64Array(rows);
			for (let i = 0; i < rows; i++) counts[i] = Math.min(most, Math.round(values[i] / period));
			return counts;
		};
		const [most1, most2] = mode === 'share' ? [sides.base, sides.head] : [Infinity, Infinity];
		changed = findChanged(count(baseValues, base.period, most1), count(headValues, head.period, most2), sides, skip);
	}
	for (let i = 0; i < rows; i++) {
		const [from, to] = [baseValues[i] * scale, headValues[i]];
		if (skip?.[i]) changes[i] = CHANGE.unknown;
		else if (changed ? !changed[i] : Math.abs(to - from) <= 1e-9 * Math.max(from, to)) changes[i] = CHANGE.noise;
		else if (from === 0) changes[i] = CHANGE.fresh;
		else if (to === 0) changes[i] = CHANGE.gone;
		else changes[i] = to > from ? CHANGE.more : CHANGE.less;
	}
	return { changes, counted: sides !== null };
}

/**
 * Head less base with its 95% interval: of shares (0.01 is one point), or of values a second. Null when samples cannot be
 * counted, or one side has none at all to have shares of.
 */
export function changeInterval(baseValue: number, headValue: number, base: Side, head: Side, mode: DiffMode): Difference | null {
	const sides = sidesOf(base, head, mode);
	if (!sides || !(sides.base > 0) || !(sides.head > 0)) return null;
	const [k1, k2] = [Math.round(baseValue / base.period), Math.round(headValue / head.period)];
	if (mode === 'rate') return rateDifference(k1, sides.base, k2, sides.head);
	return shareDifference(Math.min(k1, sides.base), sides.base, Math.min(k2, sides.head), sides.head);
}

/** 1 for nodes of kind rest, for classifyChanges(). */
export function restNodes(tree: Tree): Uint8Array {
	const rest = new Uint8Array(tree.count);
	for (let i = 0; i < tree.count; i++) rest[i] = kindOf(tree, i) === KIND.rest ? 1 : 0;
	return rest;
}
