// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { boundView, fitScale, fitView, foldTo, LEGIBLE, type Size, type View } from '../src/calls/bounds';
import { boxTexts, layoutInput } from '../src/calls/boxes';
import { callGraph } from '../src/model/callgraph';
import { layoutCallGraph } from '../src/model/callgraph_layout';
import { randomTree, seeds } from './trees';

// A sequence that is the same each time.
function random(seed: number): () => number {
	let state = seed;
	return () => (state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff) / 0x7fffffff;
}
const PANES: Size[] = [
	{ width: 816, height: 450 },
	{ width: 390, height: 520 },
	{ width: 1600, height: 700 },
];

test('as it is opened all of a graph is in view, in the middle', () => {
	const content = { width: 400, height: 300 };
	for (const pane of PANES) {
		const view = fitView(content, pane);
		assert.ok(view.x <= 0 && view.y <= 0);
		assert.ok(view.x + pane.width / view.scale >= content.width - 1e-9 && view.y + pane.height / view.scale >= content.height - 1e-9);
		assert.ok(Math.abs(view.x + (view.x + pane.width / view.scale - content.width)) < 1e-9, 'as much room on either side');
	}
	const large = fitView({ width: 9000, height: 4000 }, PANES[0]);
	assert.deepEqual([large.scale, large.y], [0.6, 0], 'what does not fit is still legible, from its top on');
});

test('whatever is zoomed and panned, the view has no void beside the graph, and labels can be read', () => {
	const next = random(7);
	for (let i = 0; i < 3000; i++) {
		const content = { width: 20 + 5000 * next(), height: 20 + 3000 * next() };
		const pane = PANES[i % PANES.length];
		const wild: View = { x: 1e5 * (next() - 0.5), y: 1e5 * (next() - 0.5), scale: 10 ** (4 * next() - 3) };
		const view = boundView(wild, content, pane);
		const fit = fitView(content, pane);
		assert.ok(view.scale >= Math.min(0.6, fit.scale) && view.scale <= 3);
		for (const [at, shown, size, room] of [
			[view.x, pane.width / view.scale, content.width, fit.x],
			[view.y, pane.height / view.scale, content.height, fit.y],
		]) {
			assert.ok(at >= Math.min(0, room) - 1e-6, 'before it');
			const end = Math.max(size, room + (shown * view.scale) / fit.scale);
			assert.ok(at + shown <= end + 1e-6, 'behind it');
		}
		const again = boundView(view, content, pane);
		for (const key of ['x', 'y', 'scale'] as const) assert.ok(Math.abs(again[key] - view[key]) < 1e-6, 'what is within bounds stays');
	}
});

test('folding ends with a graph that fits with labels, and says how many functions it left out', () => {
	for (let seed = 1; seed <= seeds(8, 3); seed++) {
		const tree = randomTree(seed);
		const all = callGraph(tree, { nodesMax: 1000, edgesMax: 300, shareMin: 0 });
		for (const pane of PANES) {
			let count = 60;
			for (let rounds = 0; ; rounds++) {
				assert.ok(rounds < 40, 'it ends');
				const graph = callGraph(tree, { nodesMax: count, edgesMax: 300, shareMin: 0 });
				const layout = layoutCallGraph(layoutInput(graph, boxTexts(tree, graph), (text) => 7 * text.length));
				assert.equal(graph.folded, all.nodes.length - graph.nodes.length);
				const fewer = foldTo(graph.nodes.length, layout, pane);
				if (fewer === graph.nodes.length) {
					assert.ok(fitScale(layout, pane) >= LEGIBLE || fewer === 1);
					break;
				}
				assert.ok(fewer >= 1 && fewer < graph.nodes.length);
				count = fewer;
			}
		}
	}
});
