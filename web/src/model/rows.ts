// SPDX-License-Identifier: Apache-2.0
// The table's rows: one a function (name, binary, file), a file or a binary. Total counts a stack once, however often what the row is of
// is in it. What the server left out as too small is one row, whose functions are not known here.
import * as T from '../base/texts';
import type { SortKey } from '../state/page';
import { treeFunctions } from '../tree/functions';
import { Ids } from '../tree/ids';
import { KIND, type Tree } from '../tree/tree';
import { pickBest, type Filter } from './fuzzy';

export const REST_NAME = T.table.rest;

export interface Row {
	name: string;
	binary: string;
	file: string;
	line: number; // 0 = unknown
	inlined: boolean; // wherever it is called
	kind: number;
	self: number;
	total: number;
}

/** What a row of the tree is of. */
export type RowsOf = 'function' | 'file' | 'binary';

// By function, what its row is of: numbers from 0.
function groupFunctions(tree: Tree, by: RowsOf): { of: Int32Array; count: number } {
	const { first, count } = treeFunctions(tree);
	const ids = new Ids();
	const column = by === 'file' ? tree.file : tree.binary;
	const of = new Int32Array(count);
	for (let f = 0; f < count; f++) of[f] = by === 'function' ? f : ids.of(column[first[f]], 0);
	return { of, count: by === 'function' ? count : ids.count };
}

/** A million nodes take some 50 ms: not before what has been asked for is on the screen. */
export function buildRows(tree: Tree, by: RowsOf = 'function'): Row[] {
	const functions = treeFunctions(tree).of;
	const { of, count } = groupFunctions(tree, by);
	const self = new Float64Array(count); // all by what a row is of
	const total = new Float64Array(count);
	const lines = new Uint32Array(count);
	const inlined = new Uint8Array(count);
	const called = new Uint8Array(count); // as a function of its own, at least once
	const inPath = new Int32Array(count); // on how many levels of the present path it is
	const first = new Int32Array(count); // node, 0 = it has not been met
	const order: number[] = []; // as they are met
	const path = new Int32Array(tree.maxDepth + 1); // of the present path
	const ofFunctions = by === 'function';
	let length = 0; // of the path
	let rest = 0;
	for (let i = 1; i < tree.count; i++) {
		while (length >= tree.depth[i]) inPath[path[--length]]--;
		if ((tree.kind[i] & 7) === KIND.rest) {
			// A leaf: nothing will look for it on the path.
			rest += tree.total[i];
			continue;
		}
		const id = of[functions[i]];
		if (first[id] === 0) {
			first[id] = i;
			order.push(id);
		}
		const line = tree.line[i];
		if (line > 0 && (lines[id] === 0 || line < lines[id])) lines[id] = line;
		// A recursive call says nothing: of a function that was inlined, it may be inlined into itself or not.
		if (tree.kind[i] & KIND.inlined) inlined[id] = 1;
		else if (tree.depth[i] > 1 && path[length - 1] !== id) called[id] = 1;
		self[id] += tree.self[i];
		if (inPath[id] === 0) total[id] += tree.total[i];
		inPath[id]++;
		path[length++] = id;
	}
	const rows = order.map((id): Row => {
		const of = ofFunctions ? { line: lines[id], inlined: inlined[id] === 1 && called[id] === 0 } : { line: 0, inlined: false };
		return { ...emptyRow(tree, first[id], by), ...of, self: self[id], total: total[id] };
	});
	if (rest !== 0) rows.push({ name: REST_NAME, binary: '', file: '', line: 0, inlined: false, kind: KIND.rest, self: rest, total: rest });
	return rows;
}

function emptyRow(tree: Tree, i: number, by: RowsOf): Row {
	const [name, binary, file] = [tree.name, tree.binary, tree.file].map((column) => tree.strings[column[i]]);
	const empty = { line: 0, inlined: false, kind: tree.kind[i] & ~KIND.inlined, self: 0, total: 0 };
	if (by === 'file') return { ...empty, name: file || T.table.noFile, binary: '', file, kind: KIND.unknown };
	if (by === 'binary') return { ...empty, name: binary || T.table.noBinary, binary, file: '' };
	return { ...empty, name, binary, file };
}

// The place of each text among all of them, in their order: comparing numbers is several times as fast as comparing texts.
function rank(texts: string[]): Uint32Array {
	const places = new Map([...new Set(texts)].sort().map((text, i) => [text, i]));
	return Uint32Array.from(texts, (text) => places.get(text)!);
}

type Text = 'name' | 'file' | 'binary';
const known = new WeakMap<Row[], Partial<Record<Text, Uint32Array>>>();

// Kept for as long as the rows are, of which every head that is pressed makes another order.
function ranksOf(rows: Row[], text: Text): Uint32Array {
	let ranks = known.get(rows);
	if (!ranks) known.set(rows, (ranks = {}));
	return (ranks[text] ??= rank(rows.map((row) => row[text])));
}

type Order = (a: number, b: number) => number; // of places in `rows`

function orderBy(rows: Row[], key: SortKey): Order {
	const name = ranksOf(rows, 'name');
	const [self, total] = (['self', 'total'] as const).map((column) => Float64Array.from(rows, (row) => row[column]));
	const bySelf: Order = (a, b) => self[b] - self[a];
	const byTotal: Order = (a, b) => total[b] - total[a];
	const byName: Order = (a, b) => name[a] - name[b];
	switch (key) {
		case 'self':
			return (a, b) => bySelf(a, b) || byTotal(a, b) || byName(a, b);
		case 'total':
			return (a, b) => byTotal(a, b) || bySelf(a, b) || byName(a, b);
		case 'name':
			return (a, b) => byName(a, b) || bySelf(a, b);
		case 'binary': {
			const binary = ranksOf(rows, 'binary');
			return (a, b) => binary[a] - binary[b] || bySelf(a, b) || byName(a, b);
		}
		case 'file': {
			const file = ranksOf(rows, 'file');
			return (a, b) =>
				Number(rows[a].file === '') - Number(rows[b].file === '') || file[a] - file[b] || rows[a].line - rows[b].line || bySelf(a, b) || byName(a, b);
		}
	}
}

/** The first order of rows takes the longest, for the ranks of their names; 200,000 rows after it some 0.15 s. */
export function sortRows(rows: Row[], key: SortKey, reverse: boolean): Row[] {
	const order = orderBy(rows, key);
	const places = Uint32Array.from(rows, (_, i) => i).sort(reverse ? (a, b) => order(b, a) : order);
	return Array.from(places, (i) => rows[i]);
}

/** Those that match by their name or, else, binary; the best first if the filter ranks and `ranked`, else in the order that they have. */
export function filterRows(rows: readonly Row[], filter: Filter, ranked: boolean): Row[] {
	const scoreOf = ({ name, binary }: Row): number => {
		const score = filter.score(name);
		// A binary says less than a name.
		return score >= 0 || binary === '' ? score : filter.score(binary) >= 0 ? 0 : -1;
	};
	const found = pickBest(
		rows.length,
		(at) => scoreOf(rows[at]),
		(at) => rows[at].name.length,
		ranked && filter.ranked,
	);
	return Array.from(found, (at) => rows[at]);
}
