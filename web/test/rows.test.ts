// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TableResponse } from '../src/api/responses';
import { fits, nodeFits, Pointed, type PointedChange } from '../src/flame/pointed';
import { compileFilter, type Filter } from '../src/model/fuzzy';
import { buildRows, filterRows, sortRows, type Row } from '../src/model/rows';
import type { SortKey } from '../src/state/page';
import { rowsOfResponse } from '../src/table/use_rows';
import { findNodes, sumMatched } from '../src/tree/search';
import { KIND } from '../src/tree/tree';
import { randomTree, seeded, stacksOf, type Frame } from './trees';

const filterOf = (text: string, mode: 'plain' | 'fuzzy' | 'regex') => compileFilter(text, mode) as Filter;

test('rows of files and binaries count a stack once, too', () => {
	for (let seed = 1; seed <= 40; seed++) {
		const tree = randomTree(seed);
		for (const by of ['file', 'binary'] as const) {
			const sums = new Map<string, [self: number, total: number]>();
			let rest = 0;
			for (const { frames, value } of stacksOf(tree)) {
				const keyOf = (f: Frame) => f[by];
				const known = frames.filter((f) => f.kind !== KIND.rest);
				for (const key of new Set(known.map(keyOf))) {
					const sum = sums.get(key) ?? [0, 0];
					sums.set(key, [sum[0], sum[1] + value]);
				}
				const last = frames[frames.length - 1];
				if (!last) continue;
				if (last.kind === KIND.rest) rest += value;
				else sums.get(keyOf(last))![0] += value;
			}
			const rows = buildRows(tree, by);
			const made = rows.filter((row) => row.kind !== KIND.rest && row.total > 0);
			assert.deepEqual(new Map(made.map((row) => [row[by], [row.self, row.total]])), sums);
			assert.equal(
				rows.reduce((sum, row) => sum + (row.kind === KIND.rest ? row.total : 0), 0),
				rest,
			);
			for (const row of made) {
				if (row[by] === '') continue;
				// What a row finds in the graph is what it says.
				const flags = findNodes(tree, `${by === 'file' ? 'file' : 'in'}:${row[by]}`, false) as Uint8Array;
				if (rest === 0) assert.equal(sumMatched(tree, flags).value, row.total);
			}
		}
	}
});

const rowOf = (name: string, binary = '', self = 1): Row => ({ name, binary, file: '', line: 0, inlined: false, kind: KIND.native, self, total: self });

test('a filter looks into names, then binaries; fuzzy has the best first, unless a column was asked for', () => {
	const rows = sortRows([rowOf('hmf', 'app', 1), rowOf('handle_my_file', 'app', 9), rowOf('main', 'hm_f.so', 5), rowOf('other', 'app', 7)], 'self', false);
	const names = (found: Row[]) => found.map((row) => row.name);
	assert.deepEqual(names(filterRows(rows, filterOf('hmf', 'plain'), true)), ['hmf']);
	assert.deepEqual(names(filterRows(rows, filterOf('APP', 'plain'), true)), ['handle_my_file', 'other', 'hmf']);
	assert.deepEqual(names(filterRows(rows, filterOf('hmf', 'fuzzy'), true)), ['hmf', 'handle_my_file', 'main']);
	assert.deepEqual(names(filterRows(rows, filterOf('hmf', 'fuzzy'), false)), ['handle_my_file', 'main', 'hmf']);
	assert.deepEqual(names(filterRows(rows, filterOf('^(h|o)', 'regex'), true)), ['handle_my_file', 'other', 'main', 'hmf']);
});

test('responses of the server become rows, whatever order their columns have', () => {
	const column = (name: string) => ({ name, kind: 'text', unit: '' });
	const response = (names: string[], rows: TableResponse['table']['rows']) =>
		({ table: { columns: names.map(column), total_rows: 9, rows } }) as unknown as TableResponse;
	const lines = rowsOfResponse(
		response(
			['binary', 'function', 'line', 'total', 'self'],
			[
				['app', 'main', '/src/a:b.c:12', 7, 2],
				['app', 'g', '', 3, null],
				[null, null, 'x.c:99999999999', 'no', 1],
			],
		),
		'line',
	);
	assert.deepEqual(
		lines.map(({ name, file, line, binary, self, total }) => [name, file, line, binary, self, total]),
		[
			['main', '/src/a:b.c', 12, 'app', 2, 7],
			['g', '', 0, 'app', 0, 3],
			['', 'x.c:99999999999', 0, '', 1, 0],
		],
	);
	const values = rowsOfResponse(
		response(
			['env', 'value', 'percent'],
			[
				['live', 40, 80],
				['', 10, 20],
			],
		),
		'label:env',
	);
	assert.deepEqual(
		values.map(({ name, self, total }) => [name, self, total]),
		[
			['live', 40, 40],
			['[no value]', 10, 10],
		],
	);
	assert.deepEqual(
		rowsOfResponse(response(['other'], [['x']]), 'label:env').map(({ total }) => total),
		[0],
	);
});

test('what is pointed at is told to who listens, and only while there is something', () => {
	const pointed = new Pointed();
	const told: PointedChange[] = [];
	const end = pointed.listen((one) => told.push(one));
	pointed.notify(null, 'graph');
	assert.equal(told.length, 0);
	pointed.notify({ name: 'f' }, 'graph');
	pointed.notify(null, 'graph');
	pointed.notify(null, 'graph');
	assert.deepEqual(
		told.map((one) => one.target),
		[{ name: 'f' }, null],
	);
	end();
	pointed.notify({ name: 'g' }, 'table', true);
	assert.equal(told.length, 2);
	assert.ok(
		fits({ binary: 'app' }, rowOf('x', 'app')) && !fits({ binary: 'lib' }, rowOf('x', 'app')) && !fits({ name: 'y', binary: 'app' }, rowOf('x', 'app')),
	);
	const tree = randomTree(3);
	assert.ok(!nodeFits({}, tree, 0) && nodeFits({}, tree, 1));
	assert.ok(nodeFits({ name: tree.strings[tree.name[1]] }, tree, 1) && !nodeFits({ name: 'no such' }, tree, 1));
});

test('rows are in the order of their column, then of what else there is, and turned round the other way', () => {
	const texts = ['', 'a', 'a.c', 'ab', 'é', 'B', '日本'];
	const random = seeded(7);
	const rows = Array.from({ length: 500 }, () => {
		const pick = (n: number) => Math.floor(random() * n);
		return {
			name: texts[pick(7)],
			file: texts[pick(7)],
			line: pick(3),
			binary: texts[pick(7)],
			inlined: false,
			kind: KIND.native,
			self: pick(3),
			total: pick(3),
		};
	});
	const text = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0);
	const orders: Record<SortKey, (a: Row, b: Row) => number> = {
		self: (a, b) => b.self - a.self || b.total - a.total || text(a.name, b.name),
		total: (a, b) => b.total - a.total || b.self - a.self || text(a.name, b.name),
		name: (a, b) => text(a.name, b.name) || b.self - a.self,
		file: (a, b) => Number(a.file === '') - Number(b.file === '') || text(a.file, b.file) || a.line - b.line || b.self - a.self || text(a.name, b.name),
		binary: (a, b) => text(a.binary, b.binary) || b.self - a.self || text(a.name, b.name),
	};
	for (const [key, order] of Object.entries(orders) as [SortKey, (typeof orders)['self']][]) {
		assert.deepEqual(sortRows(rows, key, false), rows.slice().sort(order), key);
		assert.deepEqual(
			sortRows(rows, key, true),
			rows.slice().sort((a, b) => order(b, a)),
			`-${key}`,
		);
	}
	assert.deepEqual(sortRows([], 'name', false), []);
});
