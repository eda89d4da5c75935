// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LAYOUT_NODES_MAX, layoutCallGraph, type LayoutInput } from '../src/model/callgraph_layout';
import { seeded } from './trees';

const BOX = { width: 100, height: 30 };

function assertLayout(input: LayoutInput): void {
	const made = layoutCallGraph(input);
	assert.equal(made.nodes.length, input.nodes.length);
	assert.equal(made.edges.length, input.edges.length);
	const box = (i: number) => {
		const { x, y } = made.nodes[i];
		const { width, height } = input.nodes[i];
		return { left: x - width / 2, right: x + width / 2, top: y - height / 2, bottom: y + height / 2 };
	};
	for (let i = 0; i < input.nodes.length; i++) {
		const a = box(i);
		assert.ok(a.left >= 0 && a.top >= 0 && a.right <= made.width && a.bottom <= made.height);
		for (let j = 0; j < i; j++) {
			const b = box(j);
			assert.ok(a.right < b.left || b.right < a.left || a.bottom < b.top || b.bottom < a.top, `boxes ${i} and ${j} overlap`);
		}
	}
	input.edges.forEach(({ from, to }, e) => {
		const points = made.edges[e];
		assert.ok(points.length >= 2);
		if (from === to) assert.ok(Math.max(...points.map(({ x }) => x)) > box(from).right + 4);
		assert.ok(points.every(({ x, y }) => Number.isFinite(x) && Number.isFinite(y)));
		for (const [point, node] of [
			[points[0], from],
			[points[points.length - 1], to],
		] as const) {
			const { left, right, top, bottom } = box(node);
			const outside = Math.max(left - point.x, point.x - right, top - point.y, point.y - bottom);
			assert.ok(Math.abs(outside) < 1e-6, `edge ${e} ends ${outside} off its box`);
		}
	});
	assert.deepEqual(layoutCallGraph(input), made);
}

test('a layout has no overlaps, and lines from box to box, whatever circles there are', () => {
	const random = seeded(4);
	assert.deepEqual(layoutCallGraph({ nodes: [], edges: [] }), { width: 0, height: 0, nodes: [], edges: [] });
	assertLayout({ nodes: [BOX], edges: [] });
	assertLayout({ nodes: [BOX], edges: [{ from: 0, to: 0, weight: 3 }] });
	assertLayout({ nodes: [BOX, BOX, BOX], edges: [0, 1, 2].map((from) => ({ from, to: (from + 1) % 3, weight: 0 })) });
	for (let round = 0; round < 12; round++) {
		const count = 2 + Math.floor(random() * 30);
		const nodes = Array.from({ length: count }, () => ({ width: 20 + 200 * random(), height: 20 + 30 * random() }));
		const any = () => Math.floor(random() * count);
		const edges = Array.from({ length: 2 * count }, () => ({ from: any(), to: any(), weight: random() * 1e12 }));
		assertLayout({ nodes, edges });
	}
});

test('callers stand above what they call, and heavy calls are the straight ones in a circle', () => {
	const edges = [
		{ from: 0, to: 1, weight: 100 },
		{ from: 1, to: 2, weight: 90 },
		{ from: 2, to: 1, weight: 5 },
		{ from: 0, to: 2, weight: 1 },
	];
	const { nodes } = layoutCallGraph({ nodes: [BOX, BOX, BOX], edges });
	assert.ok(nodes[0].y < nodes[1].y && nodes[1].y < nodes[2].y);
});

test('what cannot be laid out is refused', () => {
	const edge = { from: 0, to: 0, weight: 1 };
	for (const bad of [
		{ nodes: Array(LAYOUT_NODES_MAX + 1).fill(BOX), edges: [] },
		{ nodes: [BOX], edges: Array(10_000).fill(edge) },
		{ nodes: [{ width: NaN, height: 1 }], edges: [] },
		{ nodes: [{ width: 1, height: 0 }], edges: [] },
		{ nodes: [BOX], edges: [{ ...edge, to: 1 }] },
		{ nodes: [BOX], edges: [{ ...edge, from: -1 }] },
		{ nodes: [BOX], edges: [{ ...edge, from: 0.5 }] },
		{ nodes: [BOX], edges: [{ ...edge, weight: Infinity }] },
	])
		assert.throws(() => layoutCallGraph(bad), RangeError);
});
