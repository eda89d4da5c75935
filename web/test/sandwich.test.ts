// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NO_FUNCTION, treeFunctions } from '../src/flame/functions';
import { buildRows } from '../src/flame/rows';
import { sandwich } from '../src/flame/sandwich';
import { KIND, kindOf, type Tree } from '../src/flame/tree';
import { assertTree, deepTree, functionOf, pathsOf, pathsOfStacks, randomTree, stacksOf, treeOf, type Stack } from './trees';

const named = (tree: Tree, node: number) => [tree.name, tree.binary, tree.file].map((column) => tree.strings[column[node]]).join('|');

test('every stack is cut at the outermost frame of the function', () => {
	for (let seed = 1; seed <= 40; seed++) {
		const tree = randomTree(seed);
		const rows = new Map(buildRows(tree).map((row) => [`${row.name}|${row.binary}|${row.file}`, row]));
		treeFunctions(tree).first.forEach((node, wanted) => {
			if (kindOf(tree, node) === KIND.rest) return;
			const name = named(tree, node);
			const callers: Stack[] = [];
			const callees: Stack[] = [];
			for (const { frames, value } of stacksOf(tree)) {
				const at = frames.findIndex((f) => functionOf(f) === name);
				if (at < 0) continue;
				callers.push({ frames: frames.slice(0, at + 1).reverse(), value });
				callees.push({ frames: frames.slice(at), value });
			}
			const made = sandwich(tree, wanted);
			assertTree(made.callers);
			assertTree(made.callees);
			assert.deepEqual(pathsOf(made.callers), pathsOfStacks(callers));
			assert.deepEqual(pathsOf(made.callees), pathsOfStacks(callees));
			const row = rows.get(name)!;
			assert.deepEqual([made.self, made.total], [row.self, row.total]);
			assert.deepEqual([made.callers.total[0], made.callees.total[0]], [row.total, row.total]);
		});
	}
});

test('a recursion counts once', () => {
	const tree = treeOf([
		[['main', 'a', 'f', 'f', 'g', 'f'], 3],
		[['main', 'f'], 4],
		[['main', 'b'], 9],
	]);
	const f = treeFunctions(tree).first.findIndex((node) => tree.strings[tree.name[node]] === 'f');
	const { self, total, callers, callees } = sandwich(tree, f);
	assert.deepEqual([self, total], [7, 7]);
	const shown = (t: Tree) => Array.from(t.name, (s, i) => `${t.strings[s]} ${t.total[i]}`).slice(1);
	assert.deepEqual(shown(callers), ['f 7', 'main 4', 'a 3', 'main 3']);
	assert.deepEqual(shown(callees), ['f 7', 'f 3', 'g 3', 'f 3']);
});

test('of nothing, and of 10,000 levels', () => {
	const nothing = sandwich(treeOf([]), 0);
	assert.deepEqual([nothing.total, nothing.callers.count, nothing.callees.count], [0, 1, 1]);
	assert.equal(sandwich(randomTree(1), NO_FUNCTION).callees.count, 1);
	const deep = deepTree(10_000, ['f', ...Array<string>(9_999).fill('g')]);
	const last = treeFunctions(deep).of[10_000];
	const made = sandwich(deep, last); // g: called by f, 9,998 levels of itself below
	assert.deepEqual([made.total, made.self, made.callers.count, made.callees.maxDepth], [9_999, 9_999, 3, 9_999]);
	const ends = deepTree(10_000, [...Array<string>(9_999).fill('g'), 'f']);
	assert.deepEqual([sandwich(ends, treeFunctions(ends).of[10_000]).callers.maxDepth], [10_000]);
});
