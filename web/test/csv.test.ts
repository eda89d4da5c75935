// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { writeCsv, type Cell } from '../src/base/csv';
import { seeded } from './trees';

// By the grammar of RFC 4180, letter by letter.
function parse(text: string): string[][] {
	const rows: string[][] = [];
	let row: string[] = [];
	for (let at = 0; at < text.length;) {
		let value = '';
		if (text[at] === '"') {
			for (at++; text[at] !== '"' || text[at + 1] === '"'; at++) {
				if (at >= text.length) throw new Error('a quote is not closed');
				value += text[at];
				if (text[at] === '"') at++;
			}
			at++;
		} else {
			while (at < text.length && text[at] !== ',' && text[at] !== '\r') {
				if (text[at] === '"' || text[at] === '\n') throw new Error(`unexpected ${JSON.stringify(text[at])}`);
				value += text[at++];
			}
		}
		row.push(value);
		if (text[at] === ',') at++;
		else if (text.startsWith('\r\n', at)) {
			at += 2;
			rows.push(row);
			row = [];
		} else throw new Error(`unexpected ${JSON.stringify(text[at])} behind a field`);
	}
	return rows;
}

const written = (rows: Cell[][], head = ['name']) => writeCsv(head, rows).join('');

test('texts, numbers and nothing', () => {
	assert.equal(written([['a,b', 1.5, -2, null, NaN, 'say "x"', '']], ['f', 'g']), 'f,g\r\n"a,b",1.5,-2,,,"say ""x""",\r\n');
	assert.equal(written([['two\nlines'], ['a\rb']]), 'name\r\n"two\nlines"\r\n"a\rb"\r\n');
	assert.equal(written([['a\u0000b']]), 'name\r\na\ufffdb\r\n');
	assert.equal(written([]), 'name\r\n');
});

test('no text begins as a formula', () => {
	const bad = [
		'=1+1',
		'+1',
		'-[NSObject init]',
		'@SUM(A1)',
		'\t=1',
		'\r=1',
		' =1',
		'\n',
		'=HYPERLINK("http://x/","y")',
		'=cmd|"/c calc"!A0',
		'＝1',
		'－1',
		'\ufeff=1',
		'\u00a0=1',
	];
	const rows = parse(written(bad.map((text) => [text])));
	assert.deepEqual(
		rows.slice(1),
		bad.map((text) => [`'${text}`]),
	);
	const good = ['operator+', 'operator-', 'std::operator==<int>(a, b)', 'a=b', "it's", '<script>', '~Node', '5-1', '_start', '\u202eevil', "'", '[vdso]'];
	assert.deepEqual(
		parse(written(good.map((text) => [text]))).slice(1),
		good.map((text) => [text]),
	);
	assert.equal(parse(written([['a']], ['=head']))[0][0], "'=head");
});

test('what is written can be read again', () => {
	const random = seeded(2);
	const letters = ['a', '"', ',', '\r', '\n', '=', '-', ' ', 'é', '\u{1f600}', "'"];
	const text = () => Array.from({ length: Math.floor(random() * 6) }, () => letters[Math.floor(random() * letters.length)]).join('');
	const rows = Array.from({ length: 20_000 }, () => [text(), text(), 'end']);
	const parts = writeCsv(['a', 'b', 'c'], rows);
	assert.ok(parts.length > 2);
	const read = parse(parts.join('')).slice(1);
	assert.equal(read.length, rows.length);
	read.forEach((fields, i) => fields.forEach((value, j) => assert.ok(value === rows[i][j] || value === `'${rows[i][j]}`)));
});
