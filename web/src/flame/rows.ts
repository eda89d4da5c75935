// SPDX-License-Identifier: Apache-2.0
// The table's rows: one a function (name, binary, file), a file or a binary. Total counts a stack once, however often what the row is of
// is in it. What the server left out as too small is one row, whose functions are not known here.
import type { Filter } from '../model/fuzzy';
import type { SortKey } from '../state';
import * as T from '../texts';
import { Ids } from './ids';
import { isInlined, KIND, kindOf, type Tree } from './tree';

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

/** A million nodes take about 0.1 s: not before what has been asked for is on the screen. */
export function buildRows(tree: Tree, by: RowsOf = 'function'): Row[] {
	const ids = new Ids(); // of name, binary, file; of those that there are
	const idOf = {
		function: (i: number) => ids.of(tree.name[i], tree.binary[i], tree.file[i]),
		file: (i: number) => ids.of(tree.file[i], 0),
		binary: (i: number) => ids.of(tree.binary[i], 0),
	}[by];
	const rows: Row[] = [];
	const inPath: number[] = []; // per row: on how many levels of the present path it is
	const path = new Int32Array(tree.maxDepth + 1); // rows of the present path
	let length = 0; // of the path
	const called: boolean[] = []; // per row: as a function of its own, at least once
	const rest: Row = {
		name: REST_NAME,
		binary: '',
		file: '',
		line: 0,
		inlined: false,
		kind: KIND.rest,
		self: 0,
		total: 0,
	};
	for (let i = 1; i < tree.count; i++) {
		while (length >= tree.depth[i]) inPath[path[--length]]--;
		if (kindOf(tree, i) === KIND.rest) {
			// A leaf: nothing will look for it on the path.
			rest.self += tree.total[i];
			rest.total += tree.total[i];
			continue;
		}
		const id = idOf(i);
		if (id === rows.length) {
			rows.push(emptyRow(tree, i, by));
			inPath.push(0);
			called.push(false);
		}
		const row = rows[id];
		const line = by === 'function' ? tree.line[i] : 0;
		if (line > 0 && (row.line === 0 || line < row.line)) row.line = line;
		// A recursive call says nothing: of a function that was inlined, it may be inlined into itself or not.
		if (by === 'function' && isInlined(tree, i)) row.inlined = true;
		else if (tree.depth[i] > 1 && path[length - 1] !== id) called[id] = true;
		row.self += tree.self[i];
		if (inPath[id] === 0) row.total += tree.total[i];
		inPath[id]++;
		path[length++] = id;
	}
	rows.forEach((row, id) => (row.inlined &&= !called[id]));
	if (rest.total !== 0) rows.push(rest);
	return rows;
}

function emptyRow(tree: Tree, i: number, by: RowsOf): Row {
	const [name, binary, file] = [tree.name, tree.binary, tree.file].map((column) => tree.strings[column[i]]);
	const empty = { line: 0, inlined: false, kind: tree.kind[i] & ~KIND.inlined, self: 0, total: 0 };
	if (by === 'file') return { ...empty, name: file || T.table.noFile, binary: '', file, kind: KIND.unknown };
	if (by === 'binary') return { ...empty, name: binary || T.table.noBinary, binary, file: '' };
	return { ...empty, name, binary, file };
}

const byText = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0);

const ORDERS: Record<SortKey, (a: Row, b: Row) => number> = {
	self: (a, b) => b.self - a.self || b.total - a.total || byText(a.name, b.name),
	total: (a, b) => b.total - a.total || b.self - a.self || byText(a.name, b.name),
	name: (a, b) => byText(a.name, b.name) || b.self - a.self,
	file: (a, b) => Number(a.file === '') - Number(b.file === '') || byText(a.file, b.file) || a.line - b.line || b.self - a.self || byText(a.name, b.name),
	binary: (a, b) => byText(a.binary, b.binary) || b.self - a.self || byText(a.name, b.name),
};

export function sortRows(rows: Row[], key: SortKey, reverse: boolean): Row[] {
	const order = ORDERS[key];
	return rows.slice().sort(reverse ? (a, b) => order(b, a) : order);
}

/** Those that match by their name or, else, binary; the best first if the filter ranks and `ranked`, else in the order that they have. */
export function filterRows(rows: readonly Row[], filter: Filter, ranked: boolean): Row[] {
	const found: { row: Row; score: number }[] = [];
	for (const row of rows) {
		const score = filter.score(row.name);
		// A binary says less than a name.
		const best = score >= 0 || row.binary === '' ? score : filter.score(row.binary) >= 0 ? 0 : -1;
		if (best >= 0) found.push({ row, score: best });
	}
	if (ranked && filter.ranked) found.sort((a, b) => b.score - a.score || a.row.name.length - b.row.name.length);
	return found.map(({ row }) => row);
}
