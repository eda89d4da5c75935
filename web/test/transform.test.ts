// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { buildRows } from '../src/model/rows';
import { binaryKey, findFunction, functionKey, NO_FUNCTION, treeFunctions } from '../src/tree/functions';
import { callersTree, invertTree, REST_CALLERS } from '../src/tree/invert';
import { applyTransforms, formatTransforms, parseTransforms, TRANSFORMS_MAX, transformSteps, type Transform } from '../src/tree/transform';
import { findPath, isInlined, KIND, kindOf, pathKey, type Tree } from '../src/tree/tree';
import {
	assertTree,
	deepTree,
	type Frame,
	functionOf,
	identOf,
	pathsOf,
	pathsOfStacks,
	randomTree,
	seeded,
	seeds,
	type Stack,
	stacksOf,
	treeOf,
} from './trees';

type OnStack = (frames: Frame[]) => Frame[] | null; // null: the stack is gone

const isRest = (f: Frame) => f.kind === KIND.rest;
const sum = (stacks: Stack[]) => stacks.reduce((total, { value }) => total + value, 0);
const total = (tree: Tree) => tree.total[0];

function assertSame(tree: Tree, transform: Transform, onStack: OnStack): Tree {
	const stacks: Stack[] = [];
	for (const { frames, value } of stacksOf(tree)) {
		const made = onStack(frames);
		if (made) stacks.push({ frames: made, value });
	}
	const made = applyTransforms(tree, [transform]);
	assertTree(made);
	assert.deepEqual(pathsOf(made), pathsOfStacks(stacks), formatTransforms([transform]));
	assert.equal(total(made), sum(stacks));
	assert.equal(made.samples, total(made) === total(tree) ? tree.samples : 0);
	return made;
}

// Frames that differ from the one before them.
function folded(frames: Frame[], folds: (f: Frame) => boolean = () => true): Frame[] {
	const out: Frame[] = [];
	for (const f of frames) if (out.length === 0 || !folds(f) || identOf(out[out.length - 1]) !== identOf(f)) out.push(f);
	return out;
}

const OF_FUNCTION: Record<string, (is: (f: Frame) => boolean) => OnStack> = {
	ff: (is) => (frames) => (frames.some(is) ? frames.slice(frames.findIndex(is)) : null),
	f: (is) => (frames) => (frames.some(is) ? frames : null),
	d: (is) => (frames) => (frames.some(is) ? null : frames),
	mf: (is) => (frames) => frames.filter((f) => !is(f)),
	cf: (is) => (frames) => (frames.some(is) ? frames.slice(0, frames.findIndex(is) + 1) : frames),
	dr: (is) => (frames) => frames.filter((f, i) => !(is(f) && !isRest(f) && i > 0 && functionOf(frames[i - 1]) === functionOf(f))),
	r: (is) => (frames) => {
		const [first, last] = [frames.findIndex(is), frames.map(is).lastIndexOf(true)];
		return first < 0 ? frames : [...frames.slice(0, first + 1), ...frames.slice(last + 1)];
	},
};

test('transforms of a function do to trees what they do to every stack', () => {
	for (let seed = 1; seed <= seeds(10, 4); seed++) {
		const tree = randomTree(seed);
		assertTree(tree);
		const { first } = treeFunctions(tree);
		for (const node of first) {
			if (kindOf(tree, node) === KIND.rest) continue;
			const arg = functionKey(tree, node);
			const name = [tree.name, tree.binary, tree.file].map((column) => tree.strings[column[node]]).join('|');
			for (const op of Object.keys(OF_FUNCTION) as Transform['op'][])
				assertSame(
					tree,
					{ op, arg },
					OF_FUNCTION[op]((f) => functionOf(f) === name),
				);
		}
		assertSame(
			tree,
			{ op: 'dr', arg: '' },
			OF_FUNCTION.dr(() => true),
		);
	}
});

test('the total of a focus is what the table says of the function', () => {
	for (let seed = 1; seed <= 20; seed++) {
		const tree = randomTree(seed);
		const { first } = treeFunctions(tree);
		for (const row of buildRows(tree)) {
			const node = first.find(
				(i) => tree.strings[tree.name[i]] === row.name && tree.strings[tree.binary[i]] === row.binary && tree.strings[tree.file[i]] === row.file,
			);
			if (node === undefined) continue; // the row of what was left out
			const arg = functionKey(tree, node);
			assert.equal(total(applyTransforms(tree, [{ op: 'ff', arg }])), row.total);
			assert.equal(total(applyTransforms(tree, [{ op: 'f', arg }])), row.total);
			assert.equal(total(applyTransforms(tree, [{ op: 'd', arg }])), total(tree) - row.total);
		}
	}
});

test('transforms of a node', () => {
	for (let seed = 1; seed <= seeds(12, 4); seed++) {
		const tree = randomTree(seed);
		for (let i = 1; i < tree.count; i += 13) {
			const arg = pathKey(tree, i);
			const node = findPath(tree, [arg]); // of siblings that differ in their file or kind alone, the first
			const at = tree.depth[node] - 1;
			const through = (frames: Frame[]) => frames[at]?.node === node;
			assertSame(tree, { op: 'fs', arg }, (frames) => (through(frames) ? frames.slice(at) : null));
			assertSame(tree, { op: 'mn', arg }, (frames) => frames.filter((f) => f.node !== node));
			assertSame(tree, { op: 'cs', arg }, (frames) => (through(frames) ? frames.slice(0, at + 1) : frames));
		}
		for (const op of ['fs', 'mn', 'cs'] as const) assert.equal(applyTransforms(tree, [{ op, arg: pathKey(tree, 0) }]), tree);
	}
});

test('transforms of binaries and kinds', () => {
	const kinds = { unknown: 0, native: 1, kernel: 2, jit: 3, interpreted: 4 };
	for (let seed = 1; seed <= seeds(12, 4); seed++) {
		const tree = randomTree(seed);
		// What was left out stays as long as a caller does.
		const keep =
			(stays: (f: Frame) => boolean): OnStack =>
			(frames) => {
				const kept = frames.filter((f) => !isRest(f) && stays(f));
				if (kept.length === 0) return null;
				return [...kept, ...frames.filter(isRest)];
			};
		for (const [kind, number] of Object.entries(kinds))
			assertSame(
				tree,
				{ op: 'ok', arg: kind },
				keep((f) => f.kind === number),
			);
		for (const node of treeFunctions(tree).first) {
			if (kindOf(tree, node) === KIND.rest) continue;
			const arg = binaryKey(tree, node);
			const binary = tree.strings[tree.binary[node]];
			assertSame(
				tree,
				{ op: 'ob', arg },
				keep((f) => f.binary === binary),
			);
			const made = applyTransforms(tree, [{ op: 'cb', arg }]);
			const is = (f: Frame) => f.binary === binary && !isRest(f);
			const kind = stacksOf(made)
				.flatMap(({ frames }) => frames)
				.find(is)!.kind;
			const collapse = (f: Frame) => (is(f) ? { ...f, name: binary || '[unknown]', file: '', kind } : f);
			assertSame(tree, { op: 'cb', arg }, (frames) => folded(frames.map(collapse), is));
		}
	}
});

test('frames become their file, line or binary', () => {
	for (let seed = 1; seed <= seeds(60, 20); seed++) {
		const tree = randomTree(seed);
		const unknown = (f: Frame) => (f.binary === '' ? '[unknown]' : `[${f.binary}]`);
		const line = (f: Frame) => tree.line[f.node];
		const rename =
			(of: (f: Frame) => Partial<Frame>): OnStack =>
			(frames) =>
				folded(frames.map((f) => (isRest(f) ? f : { ...f, ...of(f) })));
		assertSame(
			tree,
			{ op: 'gb', arg: '' },
			rename((f) => ({ name: f.binary || '[unknown]', file: '' })),
		);
		assertSame(
			tree,
			{ op: 'gf', arg: '' },
			rename((f) => ({ name: f.file || unknown(f) })),
		);
		assertSame(
			tree,
			{ op: 'gl', arg: '' },
			rename((f) => ({ name: f.file ? f.file + (line(f) ? `:${line(f)}` : '') : unknown(f) })),
		);
	}
});

test('turned over, every stack is there once', () => {
	for (let seed = 1; seed <= seeds(60, 20); seed++) {
		const tree = randomTree(seed);
		const inverted = assertSame(tree, { op: 'i', arg: '' }, (frames) => frames.slice().reverse());
		const back = applyTransforms(inverted, [{ op: 'i', arg: '' }]);
		assert.deepEqual(pathsOf(back), pathsOf(tree));
	}
});

test('siblings that are alike become one when they are turned over', () => {
	const tree = treeOf([
		[['m', 'a@app@1@a.c:1', 'b'], 3],
		[['m', 'a@app@1@a.c:2', 'b'], 4],
	]);
	assert.equal(tree.count, 6);
	assert.deepEqual([...invertTree(tree).total], [7, 7, 7, 7]);
});

test('what a limit leaves closed is smaller than what is open, and the sums are right', () => {
	for (let seed = 1; seed <= 20; seed++) {
		const tree = randomTree(seed, 200, 12);
		const whole = invertTree(tree);
		for (const limits of [{ nodesMax: 40 }, { workMax: 100 }, { nodesMax: 1 }]) {
			const some = invertTree(tree, limits);
			assertTree(some);
			assert.equal(total(some), total(whole));
			const closed = (i: number) => some.strings[some.name[i]] === REST_CALLERS;
			const paths = pathsOf(whole);
			let smallestOpen = Infinity;
			let largestClosed = 0;
			const path: string[] = [''];
			for (let i = 1; i < some.count; i++) {
				if (closed(i)) {
					assert.equal(kindOf(some, i), KIND.rest);
					largestClosed = Math.max(largestClosed, some.total[some.parent[i]]);
					continue;
				}
				path[i] =
					path[some.parent[i]] +
					';' +
					(kindOf(some, i) === KIND.rest
						? 'REST'
						: [some.strings[some.name[i]], some.strings[some.binary[i]], some.strings[some.file[i]], kindOf(some, i)].join('|'));
				assert.equal(Number(paths[path[i]].split(' ')[0]), some.total[i]);
				if (some.end[i] > i + 1 && !closed(i + 1)) smallestOpen = Math.min(smallestOpen, some.total[i]);
			}
			assert.ok(largestClosed > 0);
			assert.ok(largestClosed <= smallestOpen);
			assert.ok(some.count < whole.count);
		}
	}
});

test('several transforms are applied one after the other', () => {
	const random = seeded(7);
	for (let seed = 1; seed <= seeds(40, 20); seed++) {
		let tree = randomTree(seed, 120);
		const start = tree;
		const list: Transform[] = [];
		for (let n = 0; n < 5 && tree.count > 1; n++) {
			const node = 1 + Math.floor(random() * (tree.count - 1));
			const ops = ['f', 'd', 'mf', 'cf', 'r', 'cb', 'fs', 'mn', 'i', 'gf', 'dr'] as const;
			const op = ops[Math.floor(random() * ops.length)];
			const arg =
				op === 'i' || op === 'gf' || op === 'dr'
					? ''
					: op === 'cb'
						? binaryKey(tree, node)
						: op === 'fs' || op === 'mn'
							? pathKey(tree, node)
							: functionKey(tree, node);
			list.push({ op, arg });
			tree = applyTransforms(tree, [{ op, arg }]);
			assertTree(tree);
		}
		const text = formatTransforms(list);
		assert.deepEqual(parseTransforms(text), list);
		assert.deepEqual(pathsOf(applyTransforms(start, parseTransforms(text)!)), pathsOf(tree));
	}
});

test('merged nodes know the smallest line, and are inlined if all of them are', () => {
	const tree = treeOf([
		[['m@app@1@m.c:1', 'f@app@9@f.c:9'], 5],
		[['m@app@1@m.c:1', 'x@app@1', 'f@app@9@f.c:4'], 5],
		[['m@app@1@m.c:1', 'g@app@9@g.c:9'], 5],
		[['m@app@1@m.c:1', 'x@app@1', 'g@app@1@g.c'], 5],
		// The other way about: the first that is met is the one without.
		[['m@app@1@m.c:1', 'h@app@1@h.c:8'], 50],
		[['m@app@1@m.c:1', 'x@app@1', 'h@app@9@h.c:5'], 5],
	]);
	const last = treeOf([
		[['m', 'h@app@9@h.c:8'], 50],
		[['m', 'x', 'h@app@1@h.c:5'], 5],
	]);
	const both = applyTransforms(last, [{ op: 'mf', arg: functionKey(last, 3) }]);
	assert.deepEqual([both.count, both.line[2], isInlined(both, 2)], [3, 5, false]);
	const x = Array.from(tree.name).findIndex((s) => tree.strings[s] === 'x');
	const merged = applyTransforms(tree, [{ op: 'mf', arg: functionKey(tree, x) }]);
	const at = (name: string) => Array.from(merged.name).findIndex((s) => merged.strings[s] === name);
	assert.equal(merged.count, 5);
	assert.equal(merged.line[at('h')], 5);
	assert.equal(isInlined(merged, at('h')), false);
	assert.equal(merged.line[at('f')], 4);
	assert.equal(isInlined(merged, at('f')), true);
	assert.equal(merged.line[at('g')], 9);
	assert.equal(isInlined(merged, at('g')), false);
});

test('what was left out stands for all that comes together', () => {
	const tree = treeOf([
		[['m', '(3 smaller)@@7'], 5],
		[['m', 'x', '(4 smaller)@@7'], 6],
		[['m', 'x'], 1],
	]);
	const x = Array.from(tree.name).findIndex((s) => tree.strings[s] === 'x');
	const merged = applyTransforms(tree, [{ op: 'mf', arg: functionKey(tree, x) }]);
	assert.deepEqual(
		Array.from(merged.name, (s) => merged.strings[s]),
		['total', 'm', '(7 smaller)'],
	);
	assert.deepEqual([...merged.total], [12, 12, 11]);
	assert.equal(tree.strings.includes('(7 smaller)'), false);
});

test('of what is not there a focus leaves nothing, the others all', () => {
	const tree = randomTree(3);
	for (const op of ['ff', 'f', 'fs', 'ob'] as const) {
		const made = applyTransforms(tree, [{ op, arg: 'zzzz' }]);
		assert.deepEqual([made.count, total(made), made.samples], [1, 0, 0]);
	}
	for (const op of ['d', 'mf', 'mn', 'cf', 'cs', 'dr', 'r', 'cb'] as const)
		assert.deepEqual(pathsOf(applyTransforms(tree, [{ op, arg: 'zzzz' }])), pathsOf(tree));
	assert.equal(findFunction(tree, 'zzzz'), NO_FUNCTION);
});

test('trees of nothing, of one node, and of 10,000 levels', () => {
	const empty = treeOf([]);
	const bare = treeOf([[[], 5]]);
	const one = treeOf([[['a'], 5]]);
	const deep = deepTree(10_000, ['f', 'g', 'g']);
	const arg = functionKey(deep, 1);
	const every: Transform[] = [
		...(['ff', 'f', 'd', 'mf', 'cf', 'r', 'dr'] as const).map((op) => ({ op, arg })),
		...(['fs', 'mn', 'cs'] as const).map((op) => ({ op, arg: pathKey(deep, 5000) })),
		{ op: 'cb', arg: binaryKey(deep, 1) },
		{ op: 'ob', arg: binaryKey(deep, 1) },
		{ op: 'ok', arg: 'native' },
		...(['i', 'gf', 'gl', 'gb', 'dr'] as const).map((op) => ({ op, arg: '' })),
	];
	for (const tree of [empty, bare, one, deep]) for (const t of every) if (tree !== deep || t.op !== 'i') assertTree(applyTransforms(tree, [t]));
	assert.equal(applyTransforms(deep, [{ op: 'r', arg }]).count, 4); // root, f, g, g
	assert.equal(applyTransforms(deep, [{ op: 'dr', arg: '' }]).maxDepth, 6667);
	assert.equal(applyTransforms(deep, [{ op: 'gb', arg: '' }]).count, 2);
	const inverted = invertTree(deepTree(10_000, ['f']), { nodesMax: 20_000 });
	assert.deepEqual([total(inverted), inverted.count, inverted.maxDepth], [10_000, 10_001, 10_000]);
	assert.equal(applyTransforms(bare, [{ op: 'ok', arg: 'native' }]).total[0], 0);
	assert.equal(callersTree(bare, { nodes: new Int32Array(0), values: new Float64Array(0), rootSelf: 5 }).total[0], 5);
});

test('the tree after each transform', () => {
	const tree = treeOf([[['main@app@1@m.c', 'f@lib@1', 'g@@2'], 5]]);
	const list = parseTransforms(`mf-${functionKey(tree, 2)}.i`)!;
	const steps = transformSteps(tree, list);
	assert.equal(steps[0], tree);
	assert.deepEqual(
		steps.map((step) => step.count),
		[4, 3, 3],
	);
	assert.deepEqual(pathsOf(steps[2]), pathsOf(applyTransforms(tree, list)));
});

test('the text of transforms is checked', () => {
	for (const text of ['', 'i', 'ff-1k3x9', 'f-1k3x9.cf-7wq.i', 'dr', 'dr-abc', 'ok-kernel', 'gf.i.gl'])
		assert.equal(formatTransforms(parseTransforms(text)!), text);
	const long = Array(TRANSFORMS_MAX + 1)
		.fill('i')
		.join('.');
	const bad = [
		'.',
		'i.',
		'.i',
		'i-abc',
		'ff',
		'ff-',
		'ff-ABC',
		'ff-1.',
		'f-../..',
		'f-123456789012',
		'ok',
		'ok-rest',
		'ok-toString',
		'constructor',
		'__proto__',
		'toString-a',
		'ff-a-b',
		'dr-',
		' i',
		'i\n',
		'f-é',
		long,
		'f-a.'.repeat(100000),
	];
	for (const text of bad) assert.equal(parseTransforms(text), null, text.slice(0, 50));
	assert.equal(parseTransforms(Array(TRANSFORMS_MAX).fill('i').join('.'))!.length, TRANSFORMS_MAX);
});
