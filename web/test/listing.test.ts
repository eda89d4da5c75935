// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { AsmResponse, Instruction, SourceResponse, SourceLine } from '../src/api/responses';
import { pauses } from '../src/api/names';
import { asmRows, expandTabs, heatOf, hotRows, nextHot, sourceRows, splitInstruction } from '../src/listing/listing';

const HEAD = {
	function: 'hot',
	binary: '/usr/bin/app',
	build_id: 'c0ffee',
	unit: 'nanoseconds',
	total: 100,
	function_total: 80,
	self: 70,
	from: 'local file',
	why: null,
	partial: false,
};
const source = (lines: SourceLine[]): SourceResponse => ({ ...HEAD, file: '/src/hot.c', files: [], lines });
const asm = (instructions: Instruction[]): AsmResponse => ({ ...HEAD, symbol: '', binaries: [], instructions });
const line = (n: number, self = 0, total = self): SourceLine => ({ line: n, text: `line ${n}`, self, total });
const at = (address: number, n: number, functions: string[], self = 0): Instruction => ({
	address: `0x${address.toString(16)}`,
	bytes: '90',
	text: 'nop',
	self,
	total: self,
	file: '/src/hot.c',
	line: n,
	functions,
});

test('lines that are left out make one gap', () => {
	const rows = sourceRows(source([line(3), line(4), line(9), line(10)]));
	assert.deepEqual(
		rows.map((row) => row.label),
		['3', '4', '', '9', '10'],
	);
	assert.deepEqual([rows[2].at, rows[3].at], ['', '9']);
});

test('samples without a line are a row, and without a text there are still lines', () => {
	const rows = sourceRows(
		source([
			{ line: 0, text: null, self: 5, total: 5 },
			{ ...line(7, 3), text: null },
		]),
	);
	assert.deepEqual(
		rows.map((row) => [row.label, row.text, row.self]),
		[
			['?', '(line unknown)', 5],
			['7', null, 3],
		],
	);
});

test('instructions say where they are from when that changes', () => {
	const rows = asmRows(asm([at(0x10, 5, ['hot']), at(0x12, 5, ['hot']), at(0x14, 5, ['mix', 'hot']), at(0x18, 6, ['mix', 'hot']), at(0x1a, 5, ['hot'])]));
	assert.deepEqual(
		rows.map((row) => [row.label, row.place, row.chain]),
		[
			['10', 'hot.c:5', ''],
			['12', '', ''],
			['14', 'hot.c:5', 'mix ← hot'],
			['18', 'hot.c:6', 'mix ← hot'],
			['1a', 'hot.c:5', ''],
		],
	);
	assert.equal(asmRows(asm([{ ...at(0x10, 0, []), file: '' }]))[0].place, '', 'nothing is known of it');
});

test('the hottest rows come first, and one leads to the next', () => {
	const rows = sourceRows(source([line(1, 0, 9), line(2, 5), line(3, 7), line(4), line(5, 5, 6)]));
	const hot = hotRows(rows, heatOf(rows, 20));
	assert.deepEqual(hot, [2, 4, 1]);
	assert.equal(nextHot(hot, -1, 1), 2);
	assert.equal(nextHot(hot, 2, 1), 4);
	assert.equal(nextHot(hot, 1, 1), 2, 'round and round');
	assert.equal(nextHot(hot, 2, -1), 1);
	assert.equal(nextHot([], 3, 1), -1);
	const calls = sourceRows(source([line(1, 1, 90), line(2, 5, 6), line(3)]));
	assert.deepEqual(hotRows(calls, heatOf(calls, 95)), [0, 1], 'a function that mostly calls is hot where it calls');
});

test('text: tabs, long lines, mnemonics', () => {
	assert.equal(expandTabs('\ta\tbc\t\r'), '    a   bc  ');
	assert.equal(expandTabs('x'.repeat(600)).length, 501);
	assert.deepEqual(splitInstruction('mov\trax, qword ptr [rbx + 8]'), ['mov', 'rax, qword ptr [rbx + 8]']);
	assert.deepEqual(splitInstruction('ret'), ['ret', '']);
	assert.deepEqual(splitInstruction(''), ['', '']);
});

test('late names are asked for with growing pauses, and not for ever', () => {
	const all = pauses();
	assert.equal(all[0], 1000);
	assert.ok(all.every((p, i) => p <= 5000 && (i === 0 || p >= all[i - 1])));
	const sum = all.reduce((a, b) => a + b, 0);
	assert.ok(sum > 110_000 && sum <= 120_000, String(sum));
});
