// SPDX-License-Identifier: Apache-2.0
// What the views by line and by instruction show, apart from how: rows, where one jumps to, how hot a row is.
import type { AsmResponse, SourceResponse } from '../api/responses';
import { baseName } from '../base/format';
import * as T from '../base/texts';

export interface ListingRow {
	at: string; // what the URL calls it: a line's number, an instruction's address; '' for a gap
	label: string;
	text: string | null; // null = there is none; a gap has '' and no label
	self: number;
	total: number;
	// Of an instruction
	bytes: string;
	file: string;
	line: number;
	functions: readonly string[];
	place: string; // "file.c:12", '' where it is that of the row above
	chain: string; // "inner ← outer", likewise
}

const BLANK: Omit<ListingRow, 'at' | 'label' | 'text'> = {
	self: 0,
	total: 0,
	bytes: '',
	file: '',
	line: 0,
	functions: [],
	place: '',
	chain: '',
};

// Lines that are left out between two that are there make a gap. Line 0 is what no line is known of.
export function sourceRows(response: SourceResponse): ListingRow[] {
	const rows: ListingRow[] = [];
	let last = 0;
	for (const { line, text, self, total } of response.lines) {
		if (last > 0 && line > last + 1) rows.push({ ...BLANK, at: '', label: '', text: '' });
		last = line;
		const label = line > 0 ? String(line) : '?';
		rows.push({ ...BLANK, at: String(line), label, text: line > 0 ? text : T.listing.lineUnknown, self, total });
	}
	return rows;
}

const sameList = (a: readonly string[], b: readonly string[]) => a.length === b.length && a.every((x, i) => x === b[i]);

export function asmRows(response: AsmResponse): ListingRow[] {
	const rows: ListingRow[] = [];
	let above: ListingRow | null = null;
	for (const i of response.instructions) {
		const place = i.file !== '' && i.line > 0 ? `${baseName(i.file)}:${i.line}` : '';
		const own = i.functions.length === 0 || (i.functions.length === 1 && i.functions[0] === response.function);
		const moved = !above || above.file !== i.file || above.line !== i.line || !sameList(above.functions, i.functions);
		const row: ListingRow = {
			at: i.address,
			label: i.address.replace(/^0x/, ''),
			text: i.text,
			self: i.self,
			total: i.total,
			bytes: i.bytes,
			file: i.file,
			line: i.line,
			functions: i.functions,
			place: moved ? place : '',
			chain: moved && !own ? i.functions.join(' ← ') : '',
		};
		rows.push(row);
		above = row;
	}
	return rows;
}

// What makes a row hot: what it costs itself, or, in a function that mostly calls others, what it costs with those.
export type Heat = (row: ListingRow) => number;

export function heatOf(rows: readonly ListingRow[], functionTotal: number): Heat {
	const selves = rows.reduce((sum, row) => sum + row.self, 0);
	return 2 * selves >= functionTotal ? (row) => row.self : (row) => row.total;
}

// The hottest first.
export function hotRows(rows: readonly ListingRow[], heat: Heat): number[] {
	const hot: number[] = [];
	rows.forEach((row, i) => {
		if (heat(row) > 0) hot.push(i);
	});
	return hot.sort((a, b) => heat(rows[b]) - heat(rows[a]) || rows[b].total - rows[a].total || a - b);
}

// The next in the order of heat, round and round; from anywhere else to the hottest.
export function nextHot(hot: readonly number[], from: number, step: 1 | -1): number {
	if (hot.length === 0) return -1;
	const rank = hot.indexOf(from);
	return rank < 0 ? hot[0] : hot[(rank + step + hot.length) % hot.length];
}

const TAB = 4;
const WIDEST = 500; // characters; longer lines are cut

export function expandTabs(text: string): string {
	let out = '';
	for (const piece of text.replace(/\r$/, '').split(/(\t)/)) out += piece === '\t' ? ' '.repeat(TAB - (out.length % TAB)) : piece;
	return out.length > WIDEST ? out.slice(0, WIDEST) + '…' : out;
}

// The mnemonic and its operands.
export function splitInstruction(text: string): [string, string] {
	const match = /^\s*(\S+)\s*(.*)$/.exec(text);
	return match ? [match[1], match[2]] : ['', text];
}
