// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasInterpreted, hideInterpreters } from '../src/tree/interpreters';
import { KIND, kindOf } from '../src/tree/tree';
import { assertTree, deepTree, pathsOf, pathsOfStacks, randomTree, stacksOf, treeOf, type Frame, type Stack } from './trees';

// What it does to one stack, in the plainest way.
function withoutInterpreters({ frames, value }: Stack, endIn: string[]): Stack {
	const isNative = (f: Frame) => f.kind === KIND.native && f.binary !== '';
	const hasLoop = (f: Frame | undefined) => f?.kind === KIND.interpreted && !endIn.includes(f.binary);
	const binaries = frames.filter((f, i) => isNative(f) && hasLoop(frames[i - 1])).map((f) => f.binary);
	return { frames: frames.filter((f) => !isNative(f) || !binaries.includes(f.binary)), value };
}

test('internals of interpreters leave a tree as they leave every stack', () => {
	let changed = 0;
	for (let seed = 1; seed <= 60; seed++) {
		const tree = randomTree(seed, 80, 12);
		for (let i = 1; i < tree.count; i++) if (kindOf(tree, i) === KIND.jit) tree.kind[i] += KIND.interpreted - KIND.jit;
		// Half of the trees have none that ends in an interpreted function.
		for (let i = 1; i < tree.count; i++)
			if (seed % 2 === 0 && tree.self[i] > 0 && kindOf(tree, i) === KIND.interpreted) tree.kind[i] += KIND.jit - KIND.interpreted;
		const made = hideInterpreters(tree);
		assertTree(made);
		const stacks = stacksOf(tree);
		const endIn = stacks.flatMap(({ frames }) => frames.slice(-1)).filter(({ kind }) => kind === KIND.interpreted);
		const binaries = endIn.map(({ binary }) => binary);
		assert.deepEqual(pathsOf(made), pathsOfStacks(stacks.map((stack) => withoutInterpreters(stack, binaries))));
		assert.equal(made.total[0], tree.total[0]);
		assert.equal(made.samples, tree.samples);
		assert.equal(hideInterpreters(tree), made, 'made once');
		if (made !== tree) changed++;
	}
	assert.ok(changed > 20);
});

test('functions of Python become leaves; extensions, the C library and the kernel stay', () => {
	const py = (name: string) => `${name}@python@4@${name}.py:3`;
	const native = (name: string, binary = 'python3') => `${name}@${binary}@1`;
	const start = [native('__libc_start_main', 'libc.so.6'), native('main'), native('Py_RunMain')];
	const tree = treeOf([
		[[...start, py('run'), py('work'), native('loop')], 50],
		[[...start, py('run'), py('work'), native('loop'), native('call'), native('sort', 'ext.so'), native('call'), py('key'), native('loop')], 20],
		[[...start, py('run'), native('loop'), native('read', 'libc.so.6'), 'sys_read@[kernel]@2'], 10],
		[[...start, py('run'), native('loop'), '(3 smaller)@@7'], 5],
		[[...start, native('import')], 2],
	]);
	const made = hideInterpreters(tree);
	assert.deepEqual(
		stacksOf(made).map(({ frames, value }) => [frames.map(({ name }) => name).join(' '), value]),
		[
			['__libc_start_main run work', 50],
			['__libc_start_main run work sort key', 20],
			['__libc_start_main run read sys_read', 10],
			['__libc_start_main run (3 smaller)', 5],
			['__libc_start_main main Py_RunMain import', 2],
		],
	);
	assert.equal(hideInterpreters(made), made, 'samples end in Python: it is done already');
});

test('a tree without interpreted frames, or whose interpreters show nothing, is returned as it is', () => {
	for (const tree of [randomTree(1), deepTree(3, ['f']), treeOf([]), treeOf([[['f@python@4', 'g@python@4', 'x@@1'], 1]])])
		assert.equal(hideInterpreters(tree), tree);
	assert.equal(hasInterpreted(randomTree(1)), false);
	assert.equal(hasInterpreted(treeOf([[['f@python@4'], 1]])), true);
});

test('deep and wide trees', () => {
	const deep = deepTree(20_000, ['f', 'g', 'h']);
	for (let i = 1; i < deep.count; i += 3) [deep.kind[i], deep.self[i]] = [KIND.interpreted, 0];
	const made = hideInterpreters(deep);
	assertTree(made);
	assert.equal(made.maxDepth, 6667);
	assert.equal(made.total[0], 13_333);
});
