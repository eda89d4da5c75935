// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { baseScale, CHANGE, changeInterval, classifyChanges, diffRows, diffTrees, restNodes, type Side, type TreeDiff } from '../src/model/diff';
import { buildTree, KIND, kindOf, type Tree } from '../src/tree/tree';
import { deepTree, functionOf, identOf, randomTree, stacksOf, treeOf } from './trees';

const side = (tree: Tree, seconds = 60, period = 1): Side => ({ tree, seconds, period });

type Sums = [baseSelf: number, baseTotal: number, headSelf: number, headTotal: number];

function byPath(base: Tree, head: Tree): Map<string, Sums> {
	const sums = new Map<string, Sums>();
	[base, head].forEach((tree, which) => {
		for (const { frames, value } of stacksOf(tree)) {
			for (let length = 0; length <= frames.length; length++) {
				const path = frames.slice(0, length).map(identOf).join(';');
				if (!sums.has(path)) sums.set(path, [0, 0, 0, 0]);
				sums.get(path)![2 * which + 1] += value;
				if (length === frames.length) sums.get(path)![2 * which] += value;
			}
		}
	});
	return sums;
}

function assertDiff(diff: TreeDiff, base: Tree, head: Tree): void {
	const { tree } = diff;
	const wanted = byPath(base, head);
	const paths: string[] = [''];
	for (let i = 0; i < tree.count; i++) {
		const strings = tree.strings;
		const own = kindOf(tree, i) === KIND.rest ? 'REST' : [strings[tree.name[i]], strings[tree.binary[i]], strings[tree.file[i]], kindOf(tree, i)].join('|');
		if (i > 0) paths[i] = tree.parent[i] === 0 ? own : `${paths[tree.parent[i]]};${own}`;
		const columns = [diff.baseSelf, diff.baseTotal, diff.headSelf, diff.headTotal].map((column) => column[i]);
		assert.deepEqual(columns, wanted.get(paths[i]) ?? [0, 0, 0, 0], paths[i]);
		const mean = (diff.baseTotal[i] * diff.scale + diff.headTotal[i]) / 2;
		assert.ok(Math.abs(tree.total[i] - mean) <= 1e-9 * mean);
		if (i > 0 && i - 1 !== tree.parent[i]) {
			let sibling = i - 1;
			while (tree.depth[sibling] > tree.depth[i]) sibling = tree.parent[sibling];
			assert.ok(tree.total[sibling] >= tree.total[i]);
		}
	}
	assert.equal(new Set(paths).size, tree.count);
	assert.equal(tree.count, Math.max(1, wanted.size));
}

test('the union has every path of either, with the values of both', () => {
	for (let seed = 1; seed <= 60; seed++) {
		const [base, head] = [randomTree(seed), randomTree(seed + 1000)];
		for (const mode of ['share', 'rate'] as const) {
			const diff = diffTrees(side(base, 60), side(head, 15), mode);
			assert.equal(diff.scale, mode === 'rate' ? 1 / 4 : head.total[0] / base.total[0]);
			assertDiff(diff, base, head);
			assert.equal(
				diff.trimmed,
				[base, head].some((tree) => restNodes(tree).includes(1)),
			);
		}
	}
});

test('siblings that are alike become one, on either side', () => {
	const twice = (from: Tree): Tree => {
		const [count, parent] = [from.count, Array.from(from.parent)];
		const again = (column: ArrayLike<number>) => [...Array.from(column), ...Array.from(column).slice(1)];
		const nodes = {
			parent: [...parent, ...parent.slice(1).map((p) => (p === 0 ? 0 : p + count - 1))],
			name: again(from.name),
			file: again(from.file),
			line: again(from.line),
			binary: again(from.binary),
			kind: again(from.kind),
			self: again(from.self),
		};
		return buildTree({ type: from.type, unit: from.unit, total: 0, samples: from.samples, strings: from.strings, nodes });
	};
	for (let seed = 1; seed <= 20; seed++) {
		const [base, head] = [randomTree(seed), randomTree(seed + 1000)];
		for (const [a, b] of [
			[twice(base), head],
			[base, twice(head)],
			[twice(base), twice(head)],
		]) {
			const diff = diffTrees(side(a), side(b), 'share');
			assertDiff(diff, a, b);
		}
	}
});

test('a tree and itself, nothing, and 10,000 levels', () => {
	const [empty, some, deep] = [treeOf([]), randomTree(5), deepTree(10_000, ['f', 'g'])];
	for (const [a, b] of [
		[empty, empty],
		[empty, some],
		[some, empty],
		[some, some],
	])
		assertDiff(diffTrees(side(a), side(b), 'share'), a, b);
	assert.equal(baseScale(side(empty), side(some), 'share'), 1);
	const diff = diffTrees(side(deep), side(deep), 'rate');
	assert.deepEqual([diff.tree.maxDepth, diff.tree.count, diff.tree.total[0]], [10_000, 10_001, 10_000]);
	assert.deepEqual(diff.baseTotal, deep.total);
});

test('a string that is there twice is one, and types must be the same', () => {
	const tree = treeOf([
		[['a', 'b'], 3],
		[['a', 'c'], 2],
	]);
	const doubled: Tree = { ...tree, strings: [...tree.strings, ...tree.strings], name: tree.name.map((id, i) => id + (i % 2) * tree.strings.length) };
	for (const [base, head] of [
		[tree, doubled],
		[doubled, tree],
	])
		assertDiff(diffTrees(side(base), side(head), 'rate'), base, head);
	for (const other of [
		{ ...tree, unit: 'bytes' },
		{ ...tree, type: 'alloc' },
	])
		assert.throws(() => diffTrees(side(tree), side(other), 'share'), TypeError);
});

test('rows are joined by function', () => {
	for (let seed = 1; seed <= 20; seed++) {
		const [base, head] = [randomTree(seed), randomTree(seed + 500)];
		const sums = new Map<string, Sums>();
		[base, head].forEach((tree, which) => {
			for (const { frames, value } of stacksOf(tree)) {
				const named = frames.filter((f) => f.kind !== KIND.rest);
				for (const name of new Set(named.map(functionOf))) {
					if (!sums.has(name)) sums.set(name, [0, 0, 0, 0]);
					sums.get(name)![2 * which + 1] += value;
				}
				const last = frames[frames.length - 1];
				if (last && last.kind !== KIND.rest) sums.get(functionOf(last))![2 * which] += value;
			}
		});
		const rows = diffRows(base, head).filter((row) => row.kind !== KIND.rest);
		assert.equal(rows.length, sums.size);
		for (const row of rows) assert.deepEqual([row.baseSelf, row.baseTotal, row.self, row.total], sums.get(`${row.name}|${row.binary}|${row.file}`));
	}
});

const changesOf = (base: number[], head: number[], a: Side, b: Side, mode: 'share' | 'rate') =>
	Object.fromEntries(
		Object.entries(CHANGE).map(([name, number]) => [
			name,
			[...classifyChanges(base, head, a, b, mode).changes].map((c, i) => (c === number ? i : -1)).filter((i) => i >= 0),
		]),
	);

test('changes beyond the noise', () => {
	const whole = treeOf([[['a'], 10_000]]);
	const base = [1000, 1000, 1000, 50, 0, 2, 0, 0];
	const head = [1000, 1400, 600, 0, 50, 0, 2, 0];
	const expected = { noise: [0, 5, 6, 7], more: [1], less: [2], fresh: [4], gone: [3], unknown: [] };
	assert.deepEqual(changesOf(base, head, side(whole), side(whole), 'share'), expected);
	assert.deepEqual(changesOf(base, head, side(whole), side(whole), 'rate'), expected);
	// Four times the window has four times the samples, and that is no change.
	const long = side(whole, 240);
	assert.deepEqual(
		changesOf(
			base.map((v) => 4 * v),
			head,
			long,
			side(whole),
			'rate',
		),
		expected,
	);
	// Values are samples times the period: a hundredth of the samples say much less.
	const rare = side(whole, 60, 100);
	assert.deepEqual(changesOf(base, head, rare, rare, 'share').noise, [0, 1, 2, 3, 4, 5, 6, 7]);
	// The same rate by samples of two periods.
	const twice = side(whole, 60, 2);
	assert.deepEqual(changesOf(base, head, twice, side(whole), 'rate'), expected);
	// Without a period every difference is one.
	const uncounted = side(whole, 60, 0);
	assert.deepEqual(changesOf(base, head, uncounted, uncounted, 'rate'), { ...expected, noise: [0, 7], gone: [3, 5], fresh: [4, 6] });
	assert.equal(classifyChanges(base, head, uncounted, side(whole), 'share').counted, false);
	const skipped = classifyChanges(
		base,
		head,
		side(whole),
		side(whole),
		'share',
		Uint8Array.from(base, (_, i) => (i === 1 ? 1 : 0)),
	);
	assert.equal(skipped.changes[1], CHANGE.unknown);
});

test('intervals of a change', () => {
	const whole = treeOf([[['a'], 10_000]]);
	const share = changeInterval(1000, 1400, side(whole), side(whole), 'share')!;
	assert.ok(share.low < 0.04 && share.high > 0.04 && share.low > 0.03 && share.high < 0.05);
	const rate = changeInterval(4000, 1400, side(whole, 240), side(whole, 60), 'rate')!;
	assert.ok(Math.abs(rate.value - 400 / 60) < 1e-9); // values a second
	assert.ok(rate.low > 5 && rate.high < 8.5);
	const coarse = changeInterval(4000, 1400, side(whole, 240, 100), side(whole, 60, 100), 'rate')!;
	assert.ok(Math.abs(coarse.value - rate.value) < 1e-9);
	assert.ok(coarse.high - coarse.low > 9 * (rate.high - rate.low));
	assert.equal(changeInterval(1, 2, side(whole, 60, 0), side(whole), 'rate'), null);
	assert.equal(changeInterval(1, 2, side(treeOf([])), side(whole), 'share'), null);
	assert.equal(changeInterval(1, 2, side(whole, 0), side(whole), 'rate'), null);
});
