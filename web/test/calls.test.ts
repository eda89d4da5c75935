// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { boxTexts, hitAt, layoutInput, stepFrom } from '../src/calls/boxes';
import { callGraph } from '../src/model/callgraph';
import { layoutCallGraph } from '../src/model/callgraph_layout';
import { randomTree, seeds, treeOf } from './trees';

const ALL = { nodesMax: 100, edgesMax: 300, shareMin: 0 };
const laidOut = (tree: ReturnType<typeof treeOf>) => {
	const graph = callGraph(tree, ALL);
	const texts = boxTexts(tree, graph);
	const input = layoutInput(graph, texts, (text) => 7 * text.length);
	return {
		graph,
		texts,
		input,
		layout: layoutCallGraph(input),
		boxOf: (name: string) => graph.nodes.findIndex(({ node }) => tree.strings[tree.name[node]] === name),
	};
};

test('boxes are as wide as their text, and say what a function costs', () => {
	const long = `ns::${'x'.repeat(500)}`;
	const { texts, input, boxOf } = laidOut(
		treeOf([
			[['main', long], 3],
			[['main', 'a\u202eb'], 1],
		]),
	);
	assert.deepEqual(texts[boxOf('main')], { name: 'main', sums: 'self 0% · total 100%' });
	const far = boxOf(long);
	assert.ok(texts[far].name.length <= 34 && texts[far].name.endsWith('…'));
	assert.equal(texts[boxOf('a\u202eb')].name, 'a\ufffdb');
	texts.forEach(({ name, sums }, i) => assert.ok(input.nodes[i].width >= 7 * Math.max(name.length, sums.length)));
});

test('arrows go along the costliest call, and to the next box of the layer', () => {
	const { graph, layout, boxOf } = laidOut(
		treeOf([
			[['main', 'a', 'c'], 5],
			[['main', 'a', 'd'], 6],
			[['main', 'b', 'd'], 8],
			[['main', 'main', 'b'], 1],
		]),
	);
	const step = (from: string, key: string) => stepFrom(graph, layout, boxOf(from), key);
	assert.equal(stepFrom(graph, layout, -1, 'ArrowDown'), boxOf('main'));
	assert.equal(step('main', 'ArrowDown'), boxOf('a'), 'not to itself');
	assert.equal(step('a', 'ArrowDown'), boxOf('d'));
	assert.equal(step('d', 'ArrowUp'), boxOf('b'));
	assert.equal(step('d', 'ArrowDown'), -1);
	assert.equal(step('main', 'ArrowUp'), -1);
	const [left, right] = ['c', 'd'].map(boxOf).sort((a, b) => layout.nodes[a].x - layout.nodes[b].x);
	assert.equal(stepFrom(graph, layout, left, 'ArrowRight'), right);
	assert.equal(stepFrom(graph, layout, right, 'ArrowLeft'), left);
	assert.equal(stepFrom(graph, layout, left, 'ArrowLeft'), -1);
	assert.equal(stepFrom(callGraph(treeOf([]), ALL), { width: 0, height: 0, nodes: [], edges: [] }, -1, 'ArrowDown'), -1);
});

test('what is under the pointer: a box before a line, a line within reach', () => {
	for (let seed = 1; seed <= seeds(10, 3); seed++) {
		const { graph, input, layout } = laidOut(randomTree(seed));
		layout.nodes.forEach(({ x, y }, i) => {
			const { width, height } = input.nodes[i];
			for (const [dx, dy] of [
				[0, 0],
				[0.49, 0.49],
				[-0.49, 0.49],
			])
				assert.deepEqual(hitAt(layout, input.nodes, x + dx * width, y + dy * height, 5), { box: i, edge: -1 });
		});
		graph.edges.forEach((_, i) => {
			const points = layout.edges[i];
			const [a, b] = [points[0], points[1]];
			const hit = hitAt(layout, input.nodes, (a.x + b.x) / 2, (a.y + b.y) / 2, 5);
			assert.ok(hit.edge >= 0 || hit.box >= 0);
		});
	}
	const one = {
		width: 300,
		height: 100,
		nodes: [{ x: 10, y: 10 }],
		edges: [
			[
				{ x: 0, y: 50 },
				{ x: 200, y: 50 },
			],
		],
	};
	const sizes = [{ width: 20, height: 20 }];
	assert.deepEqual(hitAt(one, sizes, 100, 54, 5), { box: -1, edge: 0 });
	assert.deepEqual(hitAt(one, sizes, 100, 56, 5), { box: -1, edge: -1 });
	assert.deepEqual(hitAt(one, sizes, 204, 50, 5), { box: -1, edge: 0 });
	assert.deepEqual(hitAt(one, sizes, 206, 50, 5), { box: -1, edge: -1 });
});
