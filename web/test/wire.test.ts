// SPDX-License-Identifier: Apache-2.0
// The tree as it comes over the wire, against the same tree in JSON; hostile bytes; and what is done with large trees, against the
// plain way to do it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readFlame } from '../src/api/wire';
import { buildRows } from '../src/model/rows';
import { Ids } from '../src/tree/ids';
import { findNodes, largestFirst, sumMatched } from '../src/tree/search';
import { buildTree, formatZoom, parseZoom, pathKey, type Flame, type Tree } from '../src/tree/tree';
import { mergeUnnamed, nameWithoutAddress } from '../src/tree/unnamed';

let seed = 7;
const below = (n: number) => ((seed = (Math.imul(seed, 1103515245) + 12345) >>> 0) >>> 8) % n;

// ---- the format, written as docs/api.md has it --------------------

function varint(value: bigint | number): number[] {
	const out: number[] = [];
	for (let v = BigInt(value); ; v >>= 7n) {
		if (v < 128n) return [...out, Number(v)];
		out.push(Number(v & 127n) | 128);
	}
}
const zigzag = (value: bigint) => (value < 0n ? -2n * value - 1n : 2n * value);

function frameOf(flame: Flame, i: number): number[] {
	return (['name', 'file', 'line', 'binary', 'kind'] as const).map((column) => flame.nodes[column][i]);
}

function encode(flame: Flame, unit = 1n, selfs = Array.from(flame.nodes.self, (v) => BigInt(v))): Uint8Array {
	const { nodes } = flame;
	const ids = new Map<string, number>();
	const frames: number[][] = [];
	const frame = Array.from(nodes.parent, (_, i) => {
		const key = frameOf(flame, i).join();
		if (!ids.has(key)) ids.set(key, frames.push(frameOf(flame, i)) - 1);
		return ids.get(key)!;
	});
	const depth: number[] = [];
	for (let i = 0; i < frame.length; i++) depth.push(i === 0 ? 0 : depth[nodes.parent[i]] + 1);
	const texts = flame.strings.map((text) => new TextEncoder().encode(text));
	const body = [flame.strings.length, frames.length, frame.length, unit].flatMap(varint);
	for (const text of texts) body.push(...varint(text.length));
	for (const text of texts) body.push(...text);
	for (let column = 0; column < 5; column++) for (const one of frames) body.push(...varint(one[column]));
	for (let i = 0; i < frame.length; i++) body.push(...varint(i === 0 ? 0 : depth[i - 1] + 1 - depth[i]));
	for (const id of frame) body.push(...varint(id));
	for (const self of selfs) body.push(...varint(zigzag(self / unit)));
	return withHead({ type: 'x', flame: { type: flame.type, unit: flame.unit, total: flame.total, samples: flame.samples } }, body);
}

function withHead(head: unknown, body: number[]): Uint8Array {
	const text = new TextEncoder().encode(JSON.stringify(head));
	const size = new Uint8Array(4);
	new DataView(size.buffer).setUint32(0, text.length, true);
	return Uint8Array.from([...new TextEncoder().encode('wickflm'), 1, ...size, ...text, ...body]);
}

const read = (bytes: Uint8Array) => readFlame(bytes.slice().buffer);

// ---- trees --------------------

// In no order but that a node comes after its parent; siblings may be alike.
function randomFlame(count: number, strings: string[], depthFirst: boolean): Flame {
	const nodes = { parent: [0], name: [1], file: [0], line: [0], binary: [0], kind: [0], self: [below(3)] };
	let last = 0;
	for (let i = 1; i < count; i++) {
		if (depthFirst) for (let up = below(4); up > 0 && last > 0; up--) last = nodes.parent[last];
		nodes.parent.push(depthFirst ? last : below(i));
		nodes.name.push(2 + below(strings.length - 2));
		nodes.file.push(below(2));
		nodes.line.push(below(300));
		nodes.binary.push(below(3));
		nodes.kind.push(below(5) + 8 * below(2));
		nodes.self.push(below(3) === 0 ? below(1000) : 0);
		last = i;
	}
	return { type: 'cpu', unit: 'nanoseconds', total: 0, samples: 3, strings, nodes };
}
const NAMES = ['', 'total', 'main', 'größe', '漢字', '😀👍', 'app+0x10', 'app+0x20', '0x30', 'lib+0x1', '\ufeffbom', 'f', 'g'];

const columnsOf = (tree: Tree) => ({
	...tree,
	...Object.fromEntries(
		(['parent', 'end', 'depth', 'name', 'file', 'line', 'binary', 'kind', 'start', 'total', 'self'] as const).map((c) => [c, Array.from(tree[c])]),
	),
});

test('bytes and JSON make the same tree', () => {
	for (let round = 0; round < 60; round++) {
		const flame = randomFlame(1 + below(300), NAMES, true);
		const response = read(encode(flame));
		assert.equal(response.type, 'x');
		assert.deepEqual(response.flame.strings, NAMES);
		assert.deepEqual(columnsOf(buildTree(response.flame)), columnsOf(buildTree(flame)));
		assert.deepEqual(columnsOf(buildTree(mergeUnnamed(response.flame))), columnsOf(buildTree(mergeUnnamed(flame))));
	}
});

// The same bytes as in src/render/flame_columns_test.c.
test('what the server is known to send', () => {
	const body = [6, 5, 5, 10, 0, 5, 4, 1, 1, 1, ...new TextEncoder().encode('totalmaincab'), 1, 2, 3, 4, 5];
	body.push(...new Array<number>(20).fill(0), 0, 0, 0, 1, 0, 0, 1, 2, 3, 4, 2, 0, 18, 4, 10);
	const { flame } = read(withHead({ flame: { type: 'cpu', unit: 'nanoseconds', samples: 4 } }, body));
	const tree = buildTree(flame);
	assert.deepEqual(
		Array.from({ length: 5 }, (_, i) => `${tree.depth[i]} ${tree.strings[tree.name[i]]} ${tree.total[i]} ${tree.self[i]}`),
		['0 total 170 10', '1 main 160 0', '2 c 90 90', '2 a 70 20', '3 b 50 50'],
	);
});

test('large and negative values keep what a double can hold', () => {
	const flame = randomFlame(7, NAMES, true);
	const values = [0n, -5n, 127n, 64n, -(2n ** 53n), 2n ** 53n - 1n, 2n ** 62n];
	const { nodes } = read(encode(flame, 1n, values)).flame;
	assert.deepEqual(Array.from(nodes.self), values.map(Number));
	const units = read(
		encode(
			flame,
			10101010n,
			values.map((v) => (v / 1000000n) * 10101010n),
		),
	).flame.nodes.self;
	assert.deepEqual(
		Array.from(units).slice(0, 6),
		values.slice(0, 6).map((v) => Number(v / 1000000n) * 10101010),
	);
});

test('long names, ASCII and not, are cut where they end', () => {
	for (const letter of ['a', 'ä', '漢', '😀']) {
		const strings = ['', 'total', ...Array.from({ length: 200 }, (_, i) => letter.repeat(i) + i)];
		assert.deepEqual(read(encode(randomFlame(20, strings, true))).flame.strings, strings);
	}
});

// ---- hostile bytes --------------------

test('a response that is cut off, goes on, or is none says so', () => {
	const good = encode(randomFlame(40, NAMES, true));
	for (let length = 0; length < good.length; length++) assert.throws(() => read(good.subarray(0, length)), Error, String(length));
	assert.throws(() => read(Uint8Array.from([...good, 0])), /after its end/);
	assert.throws(() => read(new TextEncoder().encode('{"error":"no"} and more')), /not a flame graph/);
	const later = good.slice();
	later[7] = 2;
	assert.throws(() => read(later), /another version/);
});

test('numbers that do not fit are refused', () => {
	const strings = [0, 5, ...new TextEncoder().encode('total')]; // lengths, text
	const frames = [1, 0, 0, 0, 0];
	const body = (change: Partial<Record<'counts' | 'strings' | 'frames' | 'nodes', number[]>>) => {
		const parts = { counts: [2, 1, 2, 1], strings, frames, nodes: [0, 0, 0, 0, 2, 4], ...change };
		return withHead({ flame: {} }, [...parts.counts, ...parts.strings, ...parts.frames, ...parts.nodes]);
	};
	assert.deepEqual(Array.from(read(body({})).flame.nodes.self), [1, 2]);
	const huge = varint(2n ** 40n);
	const cases: [Parameters<typeof body>[0], RegExp][] = [
		[{ counts: [...huge, 1, 2, 1] }, /fewer strings/],
		[{ counts: [2, ...huge, 2, 1] }, /fewer frames/],
		[{ counts: [2, 1, ...huge, 1] }, /fewer nodes/],
		[{ counts: [2, 1, 0, 1] }, /no nodes/],
		[{ strings: [0, 100, 1, 2, 3, 4, 5] }, /fewer strings|string that does not exist/],
		[{ strings: [0, 5, 0xff, 0xfe, 0xfd, 0xfc, 0xfb] }, /not UTF-8/],
		[{ frames: [2, 0, 0, 0, 0] }, /name that does not exist/],
		[{ frames: [1, 9, 0, 0, 0] }, /file that does not exist/],
		[{ frames: [1, 0, ...varint(2n ** 32n), 0, 0] }, /line that does not exist/],
		[{ frames: [1, 0, 0, 2, 0] }, /binary that does not exist/],
		[{ frames: [1, 0, 0, 0, 16] }, /kind that does not exist/],
		[{ nodes: [1, 0, 0, 0, 2, 4] }, /does not start with its root/],
		[{ nodes: [0, 1, 0, 0, 2, 4] }, /second root/],
		[{ nodes: [0, ...huge, 0, 0, 2, 4] }, /second root/],
		[{ nodes: [0, 0, 0, 1, 2, 4] }, /frame that does not exist/],
		[{ nodes: [0, 0, 0, 0, 2, ...new Array<number>(11).fill(0x80), 0] }, /unterminated/],
	];
	for (const [change, message] of cases) assert.throws(() => read(body(change)), message, JSON.stringify(change));
	assert.throws(() => read(withHead({}, [2, 1, 2, 1])), /no header/);
	assert.throws(() => read(withHead(null, [2, 1, 2, 1])), /no header/);
});

test('bytes that changed on the way make an error or a tree, never anything else', () => {
	const good = encode(randomFlame(60, NAMES, true));
	let trees = 0;
	for (let round = 0; round < 3000; round++) {
		const bytes = good.slice();
		for (let n = 1 + below(3); n > 0; n--) bytes[below(bytes.length)] = below(256);
		let flame: Flame;
		try {
			({ flame } = read(bytes));
		} catch (error) {
			assert.ok(error instanceof Error);
			continue;
		}
		const tree = buildTree(mergeUnnamed(flame));
		for (let i = 1; i < tree.count; i++) assert.ok(tree.parent[i] < i && tree.total[i] <= tree.total[tree.parent[i]]);
		trees++;
	}
	assert.ok(trees > 10 && trees < 3000);
});

// ---- large trees, against the plain way --------------------

// Self values by the path of frames.
function byPath(flame: Flame, rename: (name: string) => string): Map<string, number> {
	const paths: string[] = [];
	const sums = new Map<string, number>();
	for (let i = 0; i < flame.nodes.parent.length; i++) {
		const [name, file, , binary, kind] = frameOf(flame, i);
		const own = `${rename(flame.strings[name])}|${file}|${binary}|${kind}`;
		paths.push(i === 0 ? own : `${paths[flame.nodes.parent[i]]};${own}`);
		sums.set(paths[i], (sums.get(paths[i]) ?? 0) + flame.nodes.self[i]);
	}
	return sums;
}

test('addresses folded, whatever the order: the same stacks, each node of a folded one once', () => {
	for (let round = 0; round < 40; round++) {
		const flame = randomFlame(200 + below(2000), NAMES, false);
		const merged = mergeUnnamed(flame);
		assert.deepEqual(
			byPath(merged, (n) => n),
			byPath(flame, (n) => nameWithoutAddress(n) ?? n),
		);
		const unnamed = new Set<string>();
		for (let i = 1; i < merged.nodes.parent.length; i++) {
			const name = merged.strings[merged.nodes.name[i]];
			if (!name.startsWith('[')) continue;
			const key = [merged.nodes.parent[i], name, merged.nodes.file[i], merged.nodes.binary[i], merged.nodes.kind[i]].join();
			assert.ok(!unnamed.has(key));
			unnamed.add(key);
		}
		const tree = buildTree(merged);
		for (let i = 1; i < tree.count; i++)
			for (let next = tree.end[i]; next < tree.end[tree.parent[i]]; next = tree.end[next]) assert.ok(tree.total[next] <= tree.total[i]);
	}
});

test('ids are dense and stay', () => {
	const ids = new Ids(1);
	const known = new Map<string, number>();
	for (let i = 0; i < 50_000; i++) {
		const key = [below(100), below(100), below(3) - 1, 0, 0xffffffff - below(2)] as const;
		const id = ids.of(...key);
		const text = key.join();
		if (!known.has(text)) known.set(text, known.size);
		assert.equal(id, known.get(text));
	}
	assert.equal(ids.count, known.size);
});

test('rows of a large tree are those of its functions', () => {
	const tree = buildTree(randomFlame(5000, NAMES, false));
	const self = new Map<string, number>();
	const total = new Map<string, number>();
	for (let i = 1; i < tree.count; i++) {
		const keyOf = (n: number) => `${tree.name[n]}/${tree.binary[n]}/${tree.file[n]}`;
		self.set(keyOf(i), (self.get(keyOf(i)) ?? 0) + tree.self[i]);
		const above = new Set<string>();
		for (let n = i; n > 0; n = tree.parent[n]) above.add(keyOf(n));
		for (const key of above) total.set(key, (total.get(key) ?? 0) + tree.self[i]);
	}
	const rows = buildRows(tree).filter((row) => row.kind !== 7);
	const keyOf = (row: { name: string; binary: string; file: string }) => [row.name, row.binary, row.file].map((text) => NAMES.indexOf(text)).join('/');
	assert.equal(rows.length, self.size);
	for (const row of rows) {
		assert.equal(row.self, self.get(keyOf(row)));
		assert.equal(row.total, total.get(keyOf(row)));
	}
});

test('matches in order of size', () => {
	const tree = buildTree(randomFlame(2000, NAMES, false));
	const { tops } = sumMatched(tree, findNodes(tree, 'g', false) as Uint8Array);
	const sorted = largestFirst(tree, tops);
	assert.deepEqual(
		[...sorted],
		[...tops].sort((a, b) => tree.total[b] - tree.total[a] || a - b),
	);
	assert.ok(sorted.length > 10);
});

test('a zoom is the frame that it was, remembered or looked for', () => {
	const flame = randomFlame(500, ['', 'total', ...Array.from({ length: 5000 }, (_, i) => `f${i}`)], true);
	const [tree, again] = [buildTree(flame), buildTree(flame)];
	for (let node = 1; node < tree.count; node += 7) {
		const zoom = { node, skip: 0, take: 0 };
		const text = formatZoom(tree, zoom);
		assert.deepEqual(parseZoom(tree, text), zoom);
		assert.deepEqual(parseZoom(again, text), zoom);
		pathKey(tree, tree.parent[node]);
		assert.deepEqual(parseZoom(tree, text), zoom, 'another one was asked for since');
	}
});
