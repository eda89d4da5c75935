// SPDX-License-Identifier: Apache-2.0
// The table's rows: one a function (name, binary, file). Total counts a stack once, however often the function is in it. What the
// server left out as too small is one row, whose functions are not known here.
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

/** A million nodes take about 0.1 s: not before what has been asked for is on the screen. */
export function buildRows(tree: Tree): Row[] {
	const ids = new Ids(); // of name, binary, file
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
		const id = ids.of(tree.name[i], tree.binary[i], tree.file[i]);
		if (id === rows.length) {
			rows.push({
				name: tree.strings[tree.name[i]],
				binary: tree.strings[tree.binary[i]],
				file: tree.strings[tree.file[i]],
				line: 0,
				inlined: false,
				kind: tree.kind[i] & ~KIND.inlined,
				self: 0,
				total: 0,
			});
			inPath.push(0);
			called.push(false);
		}
		const row = rows[id];
		const line = tree.line[i];
		if (line > 0 && (row.line === 0 || line < row.line)) row.line = line;
		// A recursive call says nothing: of a function that was inlined, it may be inlined into itself or not.
		if (isInlined(tree, i)) row.inlined = true;
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
