// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { costliestFunction, functionsNamed } from '../src/model/find_function';
import { buildRows } from '../src/model/rows';
import { NO_FUNCTION, treeFunctions } from '../src/tree/functions';
import { countNext, sandwich, topAsRoot } from '../src/tree/sandwich';
import { KIND, kindOf, type Tree } from '../src/tree/tree';
import { assertTree, deepTree, functionOf, pathsOf, pathsOfStacks, randomTree, stacksOf, treeOf, type Stack } from './trees';

const named = (tree: Tree, node: number) => [tree.name, tree.binary, tree.file].map((column) => tree.strings[column[node]]).join('|');

test('every stack is cut at the outermost frame of the function', () => {
	let tops = 0;
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
			for (const half of [made.callers, made.callees]) {
				if (row.total === 0) continue;
				const stacks = stacksOf(half);
				const next = stacks.flatMap(({ frames }) => (frames.length > 1 && frames[1].kind !== KIND.rest ? [functionOf(frames[1])] : []));
				assert.equal(countNext(half), new Set(next).size);
				const top = topAsRoot(half);
				assertTree(top);
				if (new Set(stacks.map(({ frames }) => frames[0].kind)).size > 1) {
					assert.equal(top, half);
					continue;
				}
				tops++;
				assert.deepEqual(pathsOf(top), pathsOfStacks(stacks.map(({ frames, value }) => ({ frames: frames.slice(1), value }))));
				assert.equal(named(top, 0), name);
			}
			const ways = new Set<number>();
			for (const { frames } of stacksOf(tree)) {
				const outermost = frames.find((f) => functionOf(f) === name);
				if (outermost) ways.add(outermost.node);
			}
			assert.equal(made.paths, ways.size);
		});
	}
	assert.ok(tops > 100);
});

test('a recursion counts once', () => {
	const tree = treeOf([
		[['main', 'a', 'f', 'f', 'g', 'f'], 3],
		[['main', 'f'], 4],
		[['main', 'b'], 9],
	]);
	const f = treeFunctions(tree).first.findIndex((node) => tree.strings[tree.name[node]] === 'f');
	const { self, total, paths, callers, callees } = sandwich(tree, f);
	assert.deepEqual([self, total, paths], [7, 7, 2]);
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

test('functions are found by name, file and binary, the costliest first', () => {
	for (let seed = 1; seed <= 20; seed++) {
		const tree = randomTree(seed);
		const rows = buildRows(tree).filter((row) => row.kind !== KIND.rest && row.total > 0);
		const { first } = treeFunctions(tree);
		const textOf = (fn: number) => named(tree, first[fn]);
		const textsOf = (found: typeof rows) => found.map((row) => `${row.name}|${row.binary}|${row.file}`);
		for (const { name, binary, file } of rows) {
			const all = rows.filter((row) => row.name === name).sort((a, b) => b.total - a.total);
			const found = functionsNamed(tree, name, null, null);
			assert.deepEqual(found.map(textOf).sort(), textsOf(all).sort());
			assert.equal(rows.find((row) => textsOf([row])[0] === textOf(found[0]))!.total, all[0].total);
			assert.deepEqual(functionsNamed(tree, name, file, binary).map(textOf), [`${name}|${binary}|${file}`]);
		}
		assert.deepEqual(functionsNamed(tree, 'no such function', null, null), []);
		const most = Math.max(...rows.map((row) => row.self));
		if (most > 0) assert.equal(rows.find((row) => textsOf([row])[0] === textOf(costliestFunction(tree)))!.self, most);
	}
	assert.equal(costliestFunction(treeOf([])), NO_FUNCTION);
	const named2 = treeOf([
		[['main', '[app]'], 9],
		[['main', 'work'], 3],
	]);
	assert.equal(named2.strings[named2.name[treeFunctions(named2).first[costliestFunction(named2)]]], 'work');
});
