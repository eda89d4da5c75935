// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { shownColumns } from '../src/console/result';
import { hasSome } from '../src/ui/columns';

test('a column is empty if every row is empty or zero there', () => {
	const value = ({ value }: { value: unknown }) => value;
	const rows = (...values: unknown[]) => values.map((value) => ({ value }));
	for (const empty of [rows(0, 0), rows('', null), rows(undefined, '–', 0)]) assert.equal(hasSome(empty, value), false);
	for (const some of [rows(0, 1), rows('', 'a'), rows(-1), rows(NaN), rows(true)]) assert.equal(hasSome(some, value), true);
	assert.equal(hasSome([], value), true, 'nothing is known of it');
});

const column = (name: string, kind: string) => ({ name, kind, unit: '' });

test('the table of a query leaves empty columns out, unless zero is the result', () => {
	const columns = [column('function', 'text'), column('file', 'text'), column('self', 'integer'), column('total', 'integer')];
	const names = (rows: (string | number | null)[][]) => shownColumns({ columns, rows }).map(({ name, at }) => `${name} ${at}`);
	assert.deepEqual(
		names([
			['a', '', 0, 3],
			['b', null, 0, 4],
		]),
		['function 0', 'total 3'],
	);
	assert.deepEqual(names([['a', 'a.c', 1, 3]]), ['function 0', 'file 1', 'self 2', 'total 3']);
	assert.deepEqual(names([['a', '', 0, 0]]), ['function 0', 'file 1', 'self 2', 'total 3'], 'nothing but zero');
	assert.deepEqual(names([]).length, 4);
});
