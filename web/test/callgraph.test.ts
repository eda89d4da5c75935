// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { callGraph, type CallGraph } from '../src/model/callgraph';
import { buildRows } from '../src/model/rows';
import { treeFunctions } from '../src/tree/functions';
import { KIND, type Tree } from '../src/tree/tree';
import { deepTree, functionOf, randomTree, stacksOf, treeOf } from './trees';

const ALL = { nodesMax: Infinity, edgesMax: Infinity, shareMin: 0 };
const nameOf = (tree: Tree, node: number) => [tree.name, tree.binary, tree.file].map((column) => tree.strings[column[node]]).join('|');

function edgesOf(tree: Tree, graph: CallGraph): Record<string, string> {
	const name = (index: number) => nameOf(tree, graph.nodes[index].node);
	return Object.fromEntries(graph.edges.map((e) => [`${name(e.from)} -> ${name(e.to)}`, `${e.value}${e.skips ? ' skips' : ''}`]));
}

// Every stack's own edges between the functions that are shown, each once.
function slowEdges(tree: Tree, shown: Set<string>): Record<string, string> {
	const sums = new Map<string, { value: number; skips: boolean }>();
	for (const { frames, value } of stacksOf(tree)) {
		const own = new Map<string, boolean>();
		let from = '';
		let direct = false;
		for (const f of frames) {
			if (f.kind === KIND.rest || !shown.has(functionOf(f))) {
				direct = false;
				continue;
			}
			if (from !== '') {
				const edge = `${from} -> ${functionOf(f)}`;
				own.set(edge, (own.get(edge) ?? true) && !direct);
			}
			from = functionOf(f);
			direct = true;
		}
		for (const [edge, skips] of own) {
			const known = sums.get(edge) ?? { value: 0, skips: true };
			sums.set(edge, { value: known.value + value, skips: known.skips && skips });
		}
	}
	return Object.fromEntries([...sums].map(([edge, { value, skips }]) => [edge, `${value}${skips ? ' skips' : ''}`]));
}

test('functions have the figures of the table, edges count each stack once', () => {
	for (let seed = 1; seed <= 60; seed++) {
		const tree = randomTree(seed);
		const graph = callGraph(tree, ALL);
		const rows = buildRows(tree).filter((row) => row.kind !== KIND.rest);
		assert.deepEqual(
			Object.fromEntries(graph.nodes.map((n) => [nameOf(tree, n.node), [n.self, n.total]])),
			Object.fromEntries(rows.map((row) => [`${row.name}|${row.binary}|${row.file}`, [row.self, row.total]])),
		);
		assert.deepEqual(edgesOf(tree, graph), slowEdges(tree, new Set(graph.nodes.map((n) => nameOf(tree, n.node)))));
		const rest = stacksOf(tree).filter(({ frames }) => frames.some((f) => f.kind === KIND.rest));
		const hidden = { functions: 0, self: 0, edges: 0, edgeMax: 0, rest: rest.reduce((sum, { value }) => sum + value, 0) };
		assert.deepEqual(graph.hidden, hidden);
	}
});

test('the costliest are chosen, the others are bridged and summed', () => {
	for (let seed = 1; seed <= 40; seed++) {
		const tree = randomTree(seed, 100);
		const whole = callGraph(tree, ALL);
		for (const limits of [
			{ nodesMax: 4, edgesMax: Infinity, shareMin: 0 },
			{ nodesMax: Infinity, edgesMax: Infinity, shareMin: 0.2 },
			{ nodesMax: 6, edgesMax: 2, shareMin: 0.1 },
			{ nodesMax: 0, edgesMax: 5, shareMin: 0 },
		]) {
			const graph = callGraph(tree, limits);
			const least = limits.shareMin * tree.total[0];
			const wanted = whole.nodes.filter((n) => n.total >= least).slice(0, Math.min(limits.nodesMax, whole.nodes.length));
			assert.deepEqual(graph.nodes, wanted);
			const missing = whole.nodes.slice(wanted.length);
			assert.equal(graph.hidden.functions, missing.length);
			assert.equal(
				graph.hidden.self,
				missing.reduce((sum, n) => sum + n.self, 0),
			);
			const all = slowEdges(tree, new Set(wanted.map((n) => nameOf(tree, n.node))));
			for (const [edge, value] of Object.entries(edgesOf(tree, graph))) {
				assert.equal(value, all[edge]);
				delete all[edge];
			}
			const called = (edges: string[]) => new Set(edges.map((edge) => edge.split(' -> ')).flatMap(([from, to]) => (from === to ? [] : [to])));
			const reachable = called([...Object.keys(all), ...Object.keys(edgesOf(tree, graph))]);
			assert.deepEqual(called(Object.keys(edgesOf(tree, graph))), reachable);
			const left = Object.values(all).map((text) => parseInt(text, 10));
			assert.deepEqual([graph.hidden.edges, graph.hidden.edgeMax], [left.length, Math.max(0, ...left)]);
			// The costliest into a node is there, and no other that is left out is larger than one that is there beside those.
			const ways = new Set<number>();
			const others = graph.edges.filter((e) => e.from === e.to || ways.has(e.to) || !ways.add(e.to));
			assert.ok(others.length <= limits.edgesMax);
			assert.ok(others.every((e) => e.value >= least));
			if (others.length > 0 && graph.hidden.edges > 0 && limits.shareMin === 0) assert.ok(graph.hidden.edgeMax <= others[others.length - 1].value);
		}
	}
});

test('call graphs of nothing and of 10,000 levels', () => {
	const empty = callGraph(treeOf([]), ALL);
	assert.deepEqual([empty.nodes, empty.edges, empty.total], [[], [], 0]);
	const deep = callGraph(deepTree(10_000, ['f', 'g']), ALL);
	assert.deepEqual(
		deep.nodes.map(({ self, total }) => [self, total]),
		[
			[5_000, 10_000],
			[5_000, 9_999],
		],
	);
	assert.deepEqual(
		deep.edges.map(({ value }) => value),
		[9_999, 9_998],
	);
	assert.equal(treeFunctions(treeOf([])).count, 0);
});
