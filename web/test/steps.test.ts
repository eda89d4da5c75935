// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { actionsFor, stepsOf, withStep } from '../src/flame/actions';
import { ABOVE_MAX, ariaItems, BELOW_MAX, BESIDE_MAX } from '../src/flame/aria';
import { addStages, narrowerStages, stagesToOpen, withoutCollapse, type Cut } from '../src/flame/narrower';
import { binaryKey, functionKey } from '../src/tree/functions';
import { packageOf } from '../src/tree/package';
import { isInverted, makeSteps, nameStep, narrowInverted, recurses, setGrouping, stepFor, stepsForRows, toggleInverted, withoutStep } from '../src/tree/steps';
import { applyTransforms, parseTransforms, TRANSFORMS_MAX, type Transform } from '../src/tree/transform';
import { formatZoom, NO_ZOOM, parseZoom, pathKey, zoomRange, zoomTo, type Tree } from '../src/tree/tree';
import { actionOf } from '../src/ui/keymap';
import { pathsOf, seeded, treeOf as treeOfFrames } from './trees';

const treeOf = (stacks: [stack: string, value: number][]): Tree => treeOfFrames(stacks.map(([stack, value]) => [stack.split(';'), value]));

const nodeOf = (tree: Tree, name: string): number => {
	for (let i = 0; i < tree.count; i++) if (tree.strings[tree.name[i]] === name) return i;
	throw new Error(name);
};
const step = (tree: Tree, name: string, op: Transform['op']) => stepFor(tree, nodeOf(tree, name), op)!;

const small = () =>
	treeOf([
		['main;work;malloc', 5],
		['main;work', 2],
		['main;idle;malloc', 1],
		['init;work;work;free', 3],
	]);

test('steps are named by the tree that they are applied to, also when what is there is used again', () => {
	const tree = small();
	const merged = [step(tree, 'work', 'mf')];
	const first = makeSteps(tree, merged);
	assert.deepEqual(first.names, ['work']);
	const two = [...merged, step(first.tree, 'malloc', 'ff')];
	const second = makeSteps(tree, two, first);
	assert.equal(second.trees[0], first.tree, 'the first step is not made anew');
	assert.deepEqual(pathsOf(second.tree), pathsOf(applyTransforms(tree, two)));
	assert.deepEqual(second.names, ['work', 'malloc']);
	// The first taken back: all is made again, of the same tree.
	const one = makeSteps(tree, withoutStep(two, 0), second);
	assert.deepEqual(pathsOf(one.tree), pathsOf(applyTransforms(tree, two.slice(1))));
	// What is not there any more has no name, and focusing on it leaves nothing.
	const gone = makeSteps(tree, [step(tree, 'malloc', 'd'), step(tree, 'malloc', 'ff')]);
	assert.deepEqual([gone.names, gone.tree.total[0]], [['malloc', ''], 0]);
	// Another tree, equal steps: nothing of the old one may be used.
	const other = small();
	assert.equal(makeSteps(other, two, second).base, other);
	assert.notEqual(makeSteps(other, two, second).trees[0], second.trees[0]);
});

test('what a step is about', () => {
	const tree = treeOf([['main@app@1@m.c;f@lib@1;g@@2', 5]]);
	const subject = (op: Transform['op'], arg: string) => nameStep(tree, { op, arg });
	assert.equal(subject('d', functionKey(tree, 2)), 'f');
	assert.equal(subject('fs', pathKey(tree, 3)), 'g');
	assert.equal(subject('cb', binaryKey(tree, 2)), 'lib');
	assert.equal(subject('ob', binaryKey(tree, 3)), '[unknown]');
	assert.equal(subject('ok', 'kernel'), 'kernel');
	assert.equal(subject('i', ''), '');
	for (const op of ['d', 'fs', 'cb'] as const) assert.equal(subject(op, 'zzz'), '');
	const merged = parseTransforms(`mf-${functionKey(tree, 2)}`)!;
	assert.equal(nameStep(applyTransforms(tree, merged), merged[0]), '', 'it is not there any more');
});

test('callers of a function are its stacks turned over, without what it calls', () => {
	const tree = small();
	const callers = applyTransforms(tree, [step(tree, 'work', 'co')]);
	const byHand: Record<string, number> = { work: 10, 'work;main': 7, 'work;init': 3 };
	const got: Record<string, number> = {};
	for (let i = 1; i < callers.count; i++) {
		const names: string[] = [];
		for (let at = i; at > 0; at = callers.parent[at]) names.unshift(callers.strings[callers.name[at]]);
		got[names.join(';')] = callers.total[i];
	}
	assert.deepEqual(got, byHand);
	assert.deepEqual(parseTransforms('co-1k3x9'), [{ op: 'co', arg: '1k3x9' }]);
	assert.equal(parseTransforms('co'), null);
});

test('keys and the menu offer what makes sense', () => {
	const tree = small();
	const work = nodeOf(tree, 'work');
	assert.ok(recurses(tree, work) && !recurses(tree, nodeOf(tree, 'malloc')));
	const ops = (name: string) => actionsFor(tree, nodeOf(tree, name)).map(({ op }) => op);
	assert.ok(ops('work').includes('r') && !ops('malloc').includes('r') && ops('malloc').includes('ff'));
	assert.deepEqual(actionsFor(tree, 0), [], 'the root is no function');
	const stepsOfKey = (key: string, transforms: Transform[], of: Tree, node: number) => {
		const action = actionOf('steps', { key, ctrlKey: false, metaKey: false, altKey: false, shiftKey: false });
		return action && stepsOf(action, transforms, of, node);
	};
	assert.deepEqual(stepsOfKey('f', [], tree, work), [step(tree, 'work', 'ff')]);
	assert.equal(stepsOfKey('f', [], tree, 0), null);
	assert.equal(stepsOfKey('x', [], tree, work), null);
	assert.deepEqual(stepsOfKey('i', [], tree, 0), [{ op: 'i', arg: '' }]);
	assert.equal(stepsOfKey('z', [], tree, work), null, 'nothing to take back');
	assert.deepEqual(stepsOfKey('z', [step(tree, 'work', 'ff')], tree, work), []);
	const full: Transform[] = Array.from({ length: TRANSFORMS_MAX }, () => ({ op: 'dr', arg: '' }));
	assert.equal(withStep(full, tree, work, 'ff'), null, 'there is an end to it');
	const titles = actionsFor(tree, work).map(({ key }) => key);
	assert.equal(new Set(titles).size, titles.length, 'a key does one thing');
});

test('turning over and back, and what frames stand for', () => {
	const tree = small();
	const ff = step(tree, 'work', 'ff');
	const place: Transform = { op: 'fs', arg: 'abc' };
	const i: Transform = { op: 'i', arg: '' };
	assert.deepEqual(toggleInverted([ff]), [ff, i]);
	assert.deepEqual(toggleInverted([ff, i, place, ff]), [ff, ff], 'a place in the other tree is none in this one');
	const co = step(tree, 'work', 'co');
	assert.ok(isInverted([co]) && !isInverted([co, i]) && !isInverted([ff]));
	assert.deepEqual(toggleInverted([co]), [co, i]);
	assert.deepEqual(setGrouping([{ op: 'gf', arg: '' }, ff], 'gb'), [ff, { op: 'gb', arg: '' }]);
	assert.deepEqual(setGrouping([{ op: 'gf', arg: '' }, ff], ''), [ff]);
	// The table is about the same stacks, not turned over.
	assert.deepEqual(stepsForRows([ff, i, place, ff]), [ff, ff]);
	assert.deepEqual(
		stepsForRows([co]).map(({ op }) => op),
		['f', 'cf'],
	);
	assert.deepEqual(stepsForRows([place]), [place]);
});

test('callers that were left out are made when less is turned over', () => {
	const random = seeded(7);
	const lines: [string, number][] = [];
	for (let n = 0; n < 400; n++) lines.push([Array.from({ length: 6 }, () => `f${Math.floor(random() * 9)}`).join(';'), 1 + Math.floor(random() * 5)]);
	const tree = treeOf(lines);
	const turned = applyTransforms(tree, [{ op: 'i', arg: '' }], { nodesMax: 60 });
	let rest = 0;
	for (let n = 1; n < turned.count; n++) if ((turned.kind[n] & 7) === 7) rest = n;
	assert.ok(rest > 0, 'some are left out');
	const above = turned.parent[rest];
	const steps = narrowInverted([{ op: 'i', arg: '' }], turned, above)!;
	assert.deepEqual(
		steps.map(({ op }) => op).filter((op) => op !== 'f'),
		['i'],
	);
	const narrowed = applyTransforms(tree, steps);
	const node = parseZoom(narrowed, formatZoom(turned, { ...NO_ZOOM, node: above }))!.node;
	assert.equal(narrowed.total[node], turned.total[above], 'the same place, all of it');
	assert.ok(node > 0 && narrowed.end[node] > node + 1 && (narrowed.kind[node + 1] & 7) !== 7);
	assert.equal(narrowInverted([], tree, 1), null);
});

const cutOf = (tree: Tree, transforms = '', more: Partial<Cut> = {}): Cut => {
	const parsed = parseTransforms(transforms)!;
	return { tree: applyTransforms(tree, parsed), base: tree, transforms: parsed, short: false, root: '', ...more };
};

test('the stages that open what was left out hold for every stack of the path', () => {
	const tree = treeOf([
		['main;a "b" | c;[libc.so.6]@libc.so.6;leaf', 5],
		['main;main;x', 1],
	]);
	const at = nodeOf(tree, 'leaf');
	assert.deepEqual(narrowerStages(cutOf(tree), at), ['frames = "leaf"', 'frames binary = "libc.so.6"', 'frames = "a \\"b\\" | c"', 'frames = "main"']);
	assert.deepEqual(narrowerStages(cutOf(tree), nodeOf(tree, 'x')), ['frames = "x"', 'frames = "main"'], 'each once');
	const short = treeOf([['ns::map<…>::push_back', 5]]);
	assert.deepEqual(narrowerStages(cutOf(short, '', { short: true }), 1), ['frames =~ "::push_back"']);
	assert.equal(addStages('frames = "a"', ['frames = "a"', 'frames = "b"']), 'frames = "a" | frames = "b"');
	assert.equal(addStages('drop frames = "a"', ['frames = "a"']), 'drop frames = "a" | frames = "a"');
	assert.equal(addStages('frames = "x | frames = \\"a\\""', ['frames = "a"']), 'frames = "x | frames = \\"a\\"" | frames = "a"');
	assert.deepEqual(narrowerStages(cutOf(tree), 0), []);
	const deep = treeOf([[Array.from({ length: 10_000 }, (_, n) => `frame_${n}`).join(';'), 1]]);
	assert.ok(narrowerStages(cutOf(deep), deep.count - 1).length <= 24);
});

test('what was left out is opened in a graph of a label, of binaries, files and lines, and in one turned over', () => {
	const labelled = treeOf([['thread=a "b";main;(3 smaller)@@7', 5]]);
	labelled.binary[1] = labelled.file[1] = labelled.strings.push('') - 1;
	const below = nodeOf(labelled, 'main');
	assert.deepEqual(narrowerStages(cutOf(labelled, '', { root: 'thread' }), below), ['frames = "main"', 'where thread="a \\"b\\""']);
	assert.deepEqual(narrowerStages(cutOf(labelled), below), ['frames = "main"', 'frames = "thread=a \\"b\\""'], 'a function may be called so');

	const tree = treeOf([
		['main@app;parse@app;malloc@libc;(3 smaller)@@7', 5],
		['main@app;(9 smaller)@@7', 2],
	]);
	const open = (transforms: string, name: string, within = '') => {
		const cut = cutOf(tree, transforms);
		return stagesToOpen(cut, nodeOf(cut.tree, name), within);
	};
	assert.equal(open('gb', 'libc'), 'collapse binary');
	assert.equal(open('gb', 'libc', 'collapse binary'), 'collapse binary | frames binary = "libc" | frames binary = "app"');
	assert.equal(
		open(`f-${functionKey(tree, 1)}.gb`, 'libc'),
		'frames binary = "libc" | frames binary = "app"',
		'the server would leave no function to focus on',
	);
	assert.equal(open('gf', '[libc]'), 'collapse file');
	assert.equal(open('i', 'total'), 'frames = "malloc" | frames = "parse" | frames = "main"', 'the costliest place');
	assert.equal(open('', 'malloc', open('', 'malloc')), open('', 'malloc'), 'and then there is no more');

	tree.file.fill(tree.strings.push('/src/a.c') - 1, 1, 4);
	tree.line.set([12, 12, 40], 1);
	const lines = cutOf(tree, 'gl');
	const at = nodeOf(lines.tree, '/src/a.c:40');
	assert.deepEqual(narrowerStages(lines, at), ['frames = "malloc"', 'frames =~ "^(?:main|parse)$"'], 'of two functions of a line either');
	const files = cutOf(tree, 'gf');
	assert.deepEqual(narrowerStages(files, nodeOf(files.tree, '/src/a.c')), ['frames file = "/src/a.c"']);
});

test('what the server takes together goes with the grouping', () => {
	const steps = (text: string) => parseTransforms(text)!;
	const within = 'frames = "a | collapse binary" | collapse binary | frames binary = "x"';
	assert.equal(withoutCollapse(within, steps('gb.i')), within);
	assert.equal(withoutCollapse(within, steps('')), 'frames = "a | collapse binary" | frames binary = "x"');
	assert.equal(withoutCollapse(within, steps('gf')), 'frames = "a | collapse binary" | frames binary = "x"');
	assert.equal(withoutCollapse('collapse file', steps('gf')), 'collapse file');
	assert.equal(withoutCollapse('collapse file', steps('gf.f-1')), '', 'a function could not be found');
});

test('packages are those of the server', () => {
	const names: [string, string][] = [
		['net/http.(*conn).serve', 'net/http'],
		['github.com/a/b.c.d', 'github.com/a/b'],
		['ns::type::method(std::string const&)', 'ns::type'],
		['a.b.Type.method', 'a.b.Type'],
		['operator new', ''],
		['main', ''],
		['runtime.mallocgc', 'runtime'],
		['.plt', ''],
	];
	for (const [name, of] of names) assert.equal(packageOf(name), of, name);
});

test('a stretch of values is zoomed to within the innermost frame that holds it', () => {
	const tree = treeOf([
		['a;b', 40],
		['a;c', 20],
		['d', 40],
	]);
	const b = nodeOf(tree, 'b');
	assert.deepEqual(zoomTo(tree, 0, 100), { node: 0, skip: 0, take: 0 });
	const [from, to] = [tree.start[b] + 10, tree.start[b] + 20];
	const zoom = zoomTo(tree, from, to);
	assert.deepEqual(zoom, { node: b, skip: 0, take: 0, stretch: [0.25e9, 0.5e9] });
	assert.deepEqual(zoomRange(tree, zoom), [from, to]);
	const text = formatZoom(tree, zoom);
	assert.match(text, /^[0-9a-z]+~250000000-500000000$/);
	assert.deepEqual(parseZoom(tree, text), zoom);
	assert.deepEqual(zoomRange(tree, zoomTo(tree, 50, 80)), [50, 80]);
	// Hostile: turned round, or beyond the node.
	const path = text.split('~')[0];
	for (const bad of ['5-5', '9-1', '0-2000000000']) assert.deepEqual(parseZoom(tree, `${path}~${bad}`), { node: b, skip: 0, take: 0 });
});

test('the tree for screen readers has the path, the siblings and the callees, a bounded part of each', () => {
	const tree = small();
	const work = nodeOf(tree, 'work');
	const said = ariaItems(tree, work).map(({ node, level, place, of, opens }) => `${tree.strings[tree.name[node]]} ${level} ${place}/${of} ${opens}`);
	assert.deepEqual(said, ['total 1 1/1 true', 'main 2 1/2 true', 'work 3 1/2 true', 'malloc 4 1/1 null', 'idle 3 2/2 false']);
	assert.deepEqual(
		ariaItems(tree, 0).map(({ node }) => tree.strings[tree.name[node]]),
		['total', 'main', 'init'],
	);

	const wide = treeOf(Array.from({ length: 500 }, (_, n): [string, number] => [`f${n};g`, 1000 - n]));
	const items = ariaItems(wide, nodeOf(wide, 'f250'));
	const row = items.filter(({ level }) => level === 2);
	assert.equal(row.length, 2 * BESIDE_MAX + 1);
	assert.deepEqual([row[0].place, row[BESIDE_MAX].place, row[0].of], [241, 251, 500]);
	assert.equal(wide.strings[wide.name[row[BESIDE_MAX].node]], 'f250');
	assert.equal(ariaItems(wide, 0).length, 1 + BELOW_MAX);

	const deep = treeOf([[Array.from({ length: 10_000 }, (_, n) => `frame_${n}`).join(';'), 1]]);
	const path = ariaItems(deep, deep.count - 1);
	assert.equal(path.length, ABOVE_MAX + 2);
	assert.deepEqual([path[0].level, path[path.length - 1].level], [1, 10_001]);
});
