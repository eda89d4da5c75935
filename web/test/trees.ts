// SPDX-License-Identifier: Apache-2.0
// Trees for tests, and the plainest view of one: its list of stacks. What the models do with typed arrays in one pass, tests do with
// lists of stacks, one stack at a time.
import assert from 'node:assert/strict';
import { buildTree, KIND, kindOf, type FlameJson, type Tree } from '../src/tree/tree';

/** Numbers in [0, 1), the same for the same seed (mulberry32). */
export function seeded(seed: number): () => number {
	let state = seed | 0;
	return () => {
		state = (state + 0x6d2b79f5) | 0;
		let t = Math.imul(state ^ (state >>> 15), 1 | state);
		t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
		return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
	};
}

/** How many seeds a test goes through: `all` in the full run, `few` in the plain one. */
export const seeds = (all: number, few: number): number => (process.env.WICK_TEST_FULL ? all : few);

export interface Frame {
	node: number; // of the tree it was read from
	name: string;
	binary: string;
	file: string;
	kind: number; // 0..7
}
export interface Stack {
	frames: Frame[];
	value: number;
}

export const REST = 'REST';
export const functionOf = (f: Frame): string => `${f.name}|${f.binary}|${f.file}`;
/** What tells siblings apart. */
export const identOf = (f: Frame): string => (f.kind === KIND.rest ? REST : `${functionOf(f)}|${f.kind}`);

export function stacksOf(tree: Tree): Stack[] {
	const stacks: Stack[] = [];
	for (let i = 0; i < tree.count; i++) {
		if (tree.self[i] <= 0) continue;
		const frames: Frame[] = [];
		for (let at = i; at > 0; at = tree.parent[at])
			frames.push({
				node: at,
				name: tree.strings[tree.name[at]],
				binary: tree.strings[tree.binary[at]],
				file: tree.strings[tree.file[at]],
				kind: kindOf(tree, at),
			});
		stacks.push({ frames: frames.reverse(), value: tree.self[i] });
	}
	return stacks;
}

/** Every path that has a value, with its total and self. */
export function pathsOfStacks(stacks: Stack[]): Record<string, string> {
	const sums = new Map<string, [total: number, self: number]>([['', [0, 0]]]);
	for (const { frames, value } of stacks) {
		let path = '';
		sums.get('')![0] += value;
		for (const frame of frames) {
			path += ';' + identOf(frame);
			if (!sums.has(path)) sums.set(path, [0, 0]);
			sums.get(path)![0] += value;
		}
		sums.get(path)![1] += value;
	}
	return Object.fromEntries([...sums].sort(([a], [b]) => (a < b ? -1 : 1)).map(([path, [t, s]]) => [path, `${t} ${s}`]));
}

export function pathsOf(tree: Tree): Record<string, string> {
	return pathsOfStacks(stacksOf(tree));
}

/** All that a tree promises: order, places, sums, siblings that differ. */
export function assertTree(tree: Tree): void {
	const { count, parent, end, depth, start, total, self } = tree;
	const sums = Float64Array.from(self);
	const ends = Int32Array.from({ length: count }, (_, i) => i + 1);
	for (let i = count - 1; i > 0; i--) {
		sums[parent[i]] += sums[i];
		ends[parent[i]] = Math.max(ends[parent[i]], ends[i]);
	}
	const siblings = new Set<string>();
	let deepest = 0;
	for (let i = 0; i < count; i++) {
		assert.equal(total[i], sums[i]);
		assert.equal(end[i], ends[i]);
		if (i === 0) continue;
		assert.ok(total[i] > 0);
		assert.equal(depth[i], depth[parent[i]] + 1);
		deepest = Math.max(deepest, depth[i]);
		const older = i - 1 === parent[i] ? -1 : previous(tree, i);
		assert.equal(start[i], older < 0 ? start[parent[i]] : start[older] + total[older]);
		if (older >= 0) assert.ok(total[older] >= total[i]);
		const rest = kindOf(tree, i) === KIND.rest;
		const ident = `${parent[i]}/${rest ? REST : [tree.name[i], tree.file[i], tree.binary[i], kindOf(tree, i)].join()}`;
		assert.ok(!siblings.has(ident), `siblings ${ident} are alike`);
		siblings.add(ident);
	}
	assert.equal(tree.maxDepth, deepest);
}

// The sibling before: the node before that has the same parent, or is below one that has.
function previous(tree: Tree, node: number): number {
	let at = node - 1;
	while (tree.depth[at] > tree.depth[node]) at = tree.parent[at];
	assert.equal(tree.parent[at], tree.parent[node]);
	return at;
}

type Node = { frame: string; value: number; children: Map<string, Node> };

/** A tree of stacks whose frames are NAME@BINARY@KIND@FILE:LINE, in the order of the stacks. */
export function treeOf(stacks: [frames: string[], value: number][]): Tree {
	const strings = [''];
	const ids = new Map([['', 0]]);
	const id = (text: string) => {
		if (!ids.has(text)) ids.set(text, strings.push(text) - 1);
		return ids.get(text)!;
	};
	const nodes: FlameJson['nodes'] = { parent: [], name: [], file: [], line: [], binary: [], kind: [], total: [], self: [] };
	const root: Node = { frame: 'total@@0', value: 0, children: new Map() };
	for (const [frames, value] of stacks) {
		let at = root;
		for (const frame of frames) {
			if (!at.children.has(frame)) at.children.set(frame, { frame, value: 0, children: new Map() });
			at = at.children.get(frame)!;
		}
		at.value += value;
	}
	const todo: [Node, number][] = [[root, 0]];
	for (let next = todo.pop(); next; next = todo.pop()) {
		const [node, parent] = next;
		const [name, binary = 'app', kind = '1', place = ''] = node.frame.split('@');
		const [file, line = '0'] = place.split(':');
		const index = nodes.parent.length;
		nodes.parent.push(parent);
		nodes.name.push(id(name));
		nodes.file.push(id(file));
		nodes.line.push(Number(line));
		nodes.binary.push(id(binary));
		nodes.kind.push(Number(kind));
		nodes.total.push(0); // summed by buildTree()
		nodes.self.push(node.value);
		for (const child of node.children.values()) todo.push([child, index]);
	}
	return buildTree({ type: 'cpu', unit: 'count', total: 0, samples: stacks.length, strings, nodes });
}

/** Few names, so that functions recurse and meet; all kinds; nodes that stand for what was left out; stacks without frames. */
export function randomTree(seed: number, size = 60, depth = 9): Tree {
	const random = seeded(seed);
	const pick = <T>(list: T[]): T => list[Math.floor(random() * list.length)];
	const names = ['a', 'b', 'c', 'd', 'main'].slice(0, 1 + Math.floor(random() * 5));
	const stacks: [string[], number][] = [];
	const rest = new Map<string, string>();
	for (let s = 0; s < size; s++) {
		const frames: string[] = [];
		const length = Math.floor(random() * (depth + 1));
		for (let i = 0; i < length; i++) {
			const name = pick(names);
			const binary = pick(['app', 'app', 'lib', '']);
			frames.push(`${name}@${binary}@${pick([1, 1, 1, 2, 3, 9])}@${pick(['', 'x.c', 'x.c:7', 'y.c:3'])}`);
		}
		if (random() < 0.1) {
			const key = frames.join(';');
			if (!rest.has(key)) rest.set(key, `(${2 + Math.floor(random() * 9)} smaller)@@7`);
			frames.push(rest.get(key)!);
		}
		stacks.push([frames, 1 + Math.floor(random() * 20)]);
	}
	return mergedLikeServer(treeOf(stacks));
}

// The server has no siblings that differ in nothing but their line or in whether they are inlined; here the first one's count.
function mergedLikeServer(tree: Tree): Tree {
	const first = new Map<string, string>();
	const ident = (i: number) => [tree.strings[tree.name[i]], tree.strings[tree.binary[i]], kindOf(tree, i), tree.strings[tree.file[i]]].join('@');
	const paths: string[][] = [[]];
	const keys: string[] = [''];
	const stacks: [string[], number][] = [];
	for (let i = 0; i < tree.count; i++) {
		if (i > 0) {
			keys[i] = keys[tree.parent[i]] + ';' + ident(i);
			const full = `${tree.strings[tree.name[i]]}@${tree.strings[tree.binary[i]]}@${tree.kind[i]}@${tree.strings[tree.file[i]]}:${tree.line[i]}`;
			if (!first.has(keys[i])) first.set(keys[i], full);
			paths[i] = [...paths[tree.parent[i]], first.get(keys[i])!];
		}
		if (tree.self[i] > 0) stacks.push([paths[i], tree.self[i]]);
	}
	return treeOf(stacks);
}

/** One path of that many nodes, functions in turn, each with a self value of 1. */
export function deepTree(depth: number, functions: string[]): Tree {
	const count = depth + 1;
	const strings = ['', 'total', 'app', ...new Set(functions)];
	const column = (of: (i: number) => number) => Array.from({ length: count }, (_, i) => of(i));
	return buildTree({
		type: 'cpu',
		unit: 'count',
		total: depth,
		samples: depth,
		strings,
		nodes: {
			parent: column((i) => Math.max(0, i - 1)),
			name: column((i) => (i === 0 ? 1 : strings.indexOf(functions[(i - 1) % functions.length], 3))),
			file: column(() => 0),
			line: column(() => 0),
			binary: column((i) => (i === 0 ? 0 : 2)),
			kind: column((i) => (i === 0 ? 0 : 1)),
			self: column((i) => (i === 0 ? 0 : 1)),
		},
	});
}
