// SPDX-License-Identifier: Apache-2.0
/*
 * Tables as CSV (RFC 4180): UTF-8 without a byte order mark, commas, lines end with CR LF, a field with a comma, a quote or the
 * end of a line is in quotes, quotes in it are doubled.
 *
 * Spreadsheets run what begins with = + - or @ as a formula, in quotes or not, and names come from other people's
 * programs: "=HYPERLINK(...)" is a fine name of a symbol. Such a text gets an apostrophe in front, which spreadsheets take as
 * "this is text". That changes honest names too, `-[NSObject init]` above all; a reader of the file that is no spreadsheet takes
 * one leading apostrophe off where one of those characters follows. Quotes alone would change nothing, and leaving such rows
 * out would be a table with holes. Numbers are written as numbers, negative ones too. The blanks that some importers skip
 * do not hide what follows them, nor do the wide forms of the four characters.
 */

export type Cell = string | number | null; // null: an empty field

const FORMULA = /^[\s\u0000-\u001f\ufeff]*[=+\-@\uff1d\uff0b\uff0d\uff20]|^[\t\r\n]/;

function field(cell: Cell): string {
	if (cell === null) return '';
	if (typeof cell === 'number') return Number.isFinite(cell) ? String(cell) : '';
	// NUL ends a text for many readers: what is behind it would be gone.
	const text = cell.replace(/\u0000/g, '\ufffd');
	const safe = FORMULA.test(text) ? `'${text}` : text;
	return /[",\r\n]/.test(safe) ? `"${safe.replace(/"/g, '""')}"` : safe;
}

/** In parts of some 64 KiB, for a Blob: a table of 200,000 rows need not be one string. */
export function writeCsv(head: readonly string[], rows: Iterable<readonly Cell[]>): string[] {
	const parts: string[] = [];
	let part = head.map(field).join(',') + '\r\n';
	for (const row of rows) {
		part += row.map(field).join(',') + '\r\n';
		if (part.length < 1 << 16) continue;
		parts.push(part);
		part = '';
	}
	if (part !== '') parts.push(part);
	return parts;
}
