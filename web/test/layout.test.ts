// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { boxAt, deepestRow, layout, MIN_WIDTH, tailSize } from '../src/flame/layout';
import { buildRows, REST_NAME, sortRows } from '../src/model/rows';
import { compileSearch, findNodes, sumMatched } from '../src/tree/search';
import {
	buildTree,
	childAt,
	childIndex,
	findPath,
	followPath,
	isUnnamed,
	pathFrames,
	firstChild,
	formatZoom,
	KIND,
	nextSibling,
	NO_ZOOM,
	openTail,
	parseZoom,
	pathKey,
	pathKeys,
	placeOf,
	previousSibling,
	restShare,
	zoomRange,
	type FlameJson,
	type Tree,
} from '../src/tree/tree';
import { mergeUnnamed, nameWithoutAddress } from '../src/tree/unnamed';
import { legend, oklch, palette } from '../src/ui/colors';

type Stack = [frames: string, value: number]; // "a;b;c", each frame NAME[@BINARY[@KIND[@FILE:LINE]]]

// As the server does it: fold into a tree, write it in pre-order with siblings by falling total.
function flame(stacks: Stack[]): FlameJson {
	interface Node {
		frame: string;
		total: number;
		self: number;
		children: Map<string, Node>;
	}
	const make = (frame: string): Node => ({ frame, total: 0, self: 0, children: new Map() });
	const root = make('total');
	for (const [frames, value] of stacks) {
		let at = root;
		at.total += value;
		for (const frame of frames === '' ? [] : frames.split(';')) {
			if (!at.children.has(frame)) at.children.set(frame, make(frame));
			at = at.children.get(frame)!;
			at.total += value;
		}
		at.self += value;
	}
	const strings = [''];
	const ids = new Map([['', 0]]);
	const id = (text: string) => {
		if (!ids.has(text)) ids.set(text, strings.push(text) - 1);
		return ids.get(text)!;
	};
	const nodes: FlameJson['nodes'] = {
		parent: [],
		name: [],
		file: [],
		line: [],
		binary: [],
		kind: [],
		total: [],
		self: [],
	};
	const todo: [Node, number][] = [[root, 0]];
	while (todo.length > 0) {
		const [node, parent] = todo.pop()!;
		const index = nodes.parent.length;
		const [name, binary = 'app', kind = '1', place = ''] = node.frame.split('@');
		const [file, line = '0'] = place.split(':');
		nodes.parent.push(parent);
		nodes.name.push(id(name));
		nodes.file.push(id(file));
		nodes.line.push(Number(line));
		nodes.binary.push(id(index === 0 ? '' : binary));
		nodes.kind.push(index === 0 ? 0 : Number(kind));
		nodes.total.push(node.total);
		nodes.self.push(node.self);
		const rising = [...node.children.values()].reverse().sort((a, b) => a.total - b.total); // the stack turns it round
		for (const child of rising) todo.push([child, index]);
	}
	return { type: 'cpu', unit: 'nanoseconds', total: root.total, samples: stacks.length, strings, nodes };
}

const SMALL: Stack[] = [
	['main;long;work', 70],
	['main;long', 20],
	['main;short', 9],
	['idle@vmlinux@2', 1],
];
const names = (tree: Tree) => Array.from(tree.name, (s) => tree.strings[s]);
const find = (tree: Tree, name: string) => names(tree).indexOf(name);

test('a tree knows its subtrees, depths and places', () => {
	const tree = buildTree(flame(SMALL));
	assert.deepEqual(names(tree), ['total', 'main', 'long', 'work', 'short', 'idle']);
	assert.deepEqual([...tree.end], [6, 5, 4, 4, 5, 6]);
	assert.deepEqual([...tree.depth], [0, 1, 2, 3, 2, 1]);
	assert.deepEqual([...tree.start], [0, 0, 0, 0, 90, 99]);
	assert.deepEqual([...tree.total], [100, 99, 90, 70, 9, 1]);
	assert.equal(tree.maxDepth, 3);
});

test('neighbours, children and their order', () => {
	const tree = buildTree(flame(SMALL));
	const [main, long, short, idle] = ['main', 'long', 'short', 'idle'].map((n) => find(tree, n));
	assert.equal(firstChild(tree, main), long);
	assert.equal(nextSibling(tree, long), short);
	assert.equal(nextSibling(tree, short), -1);
	assert.equal(previousSibling(tree, short), long);
	assert.equal(previousSibling(tree, long), -1);
	assert.equal(previousSibling(tree, 0), -1);
	assert.equal(nextSibling(tree, 0), -1);
	assert.equal(firstChild(tree, idle), -1);
	assert.equal(childAt(tree, 0, 1), idle);
	assert.equal(childAt(tree, 0, 2), -1);
	assert.equal(childIndex(tree, short), 1);
});

test('a response in another order is put right, and wrong totals are summed anew', () => {
	const json = flame(SMALL);
	const order = [0, 5, 1, 4, 2, 3]; // breadth first, smallest first: parents still before children
	const { nodes } = json;
	const place = order.map((_, old) => order.indexOf(old));
	const shuffled: FlameJson = {
		...json,
		nodes: {
			parent: order.map((old) => place[nodes.parent[old]]),
			name: order.map((i) => nodes.name[i]),
			file: order.map((i) => nodes.file[i]),
			line: order.map((i) => nodes.line[i]),
			binary: order.map((i) => nodes.binary[i]),
			kind: order.map((i) => nodes.kind[i]),
			total: order.map(() => 12345),
			self: order.map((i) => nodes.self[i]),
		},
	};
	const [tree, expected] = [buildTree(shuffled), buildTree(json)];
	assert.deepEqual(names(tree), names(expected));
	assert.deepEqual([...tree.total], [...expected.total]);
	assert.deepEqual([...tree.parent], [...expected.parent]);
});

test('a broken response is refused with its fault', () => {
	const broken = (change: (json: FlameJson) => void, message: RegExp) => {
		const json = flame(SMALL);
		change(json);
		assert.throws(() => buildTree(json), message);
	};
	broken((j) => (j.nodes.parent = []), /no nodes/);
	broken((j) => j.nodes.self.pop(), /'self' of the flame graph does not have 6/);
	broken((j) => (j.nodes.parent[2] = 3), /node 2 .* parent 3/);
	broken((j) => (j.nodes.parent[2] = -1), /parent -1/);
	broken((j) => (j.nodes.name[1] = 99), /node 1 .* string/);
	broken((j) => (j.strings = undefined as unknown as string[]), /no nodes/);
});

test('nodes and rows have files and lines', () => {
	const tree = buildTree(
		flame([
			['main@app@1@m.c:9;hot@app@9@h.c:30', 5],
			['main@app@1@m.c:9;other@app@1@h.c', 2],
		]),
	);
	assert.equal(placeOf(tree.strings[tree.file[2]], tree.line[2]), 'h.c:30');
	assert.equal(placeOf('', 7), '');
	const rows = new Map(buildRows(tree).map((row) => [row.name, row]));
	assert.deepEqual(
		[...rows.values()].map((row) => [row.name, placeOf(row.file, row.line), row.inlined]),
		[
			['main', 'm.c:9', false],
			['hot', 'h.c:30', true],
			['other', 'h.c', false],
		],
	);
	assert.deepEqual(
		sortRows([...rows.values()], 'file', false).map((row) => row.name),
		['other', 'hot', 'main'],
	);
});

test('a path is followed through frames that have got names', () => {
	const before = mergeUnnamed(
		flame([
			['main;app+0x10;libc+0x7@libc;qsort@libc;cmp', 60],
			['main;app+0x20;libc+0x8@libc;qsort@libc;cmp', 20],
			['main;other', 10],
		]),
	);
	const old = buildTree(before);
	const after = buildTree(
		flame([
			['main;run;step@app@9;sort@libc;qsort@libc;cmp', 60],
			['main;stop;sort@libc;qsort@libc;cmp', 20],
			['main;other', 10],
		]),
	);
	const follow = (name: string) => followPath(after, pathFrames(old, find(old, name)));
	const cmp = follow('cmp');
	assert.equal(after.strings[after.name[cmp]], 'cmp');
	assert.equal(after.total[cmp], 60, 'the larger one');
	assert.equal(after.strings[after.name[follow('[app]')]], 'run');
	assert.equal(followPath(after, [...pathFrames(old, 1), { name: 'gone', binary: 'app' }]), -1);
	assert.equal(followPath(after, pathFrames(old, 0)), 0);
	assert.ok(isUnnamed('[app]') && isUnnamed('app+0x1f') && isUnnamed('0x10') && !isUnnamed('operator[]'));
});

test('a function that is inlined here and called there is not marked', () => {
	const rows = buildRows(
		buildTree(
			flame([
				['main;a;hot@app@9', 5],
				['main;b;hot@app@1', 2],
			]),
		),
	);
	const own = buildRows(buildTree(flame([['main;hot@app@9;hot@app@1', 5]])));
	assert.equal(rows.find((row) => row.name === 'hot')!.inlined, false);
	assert.equal(own.find((row) => row.name === 'hot')!.inlined, true, 'recursion does not count as a call');
});

test('merging addresses keeps lines', () => {
	const merged = mergeUnnamed(
		flame([
			['app+0x10;f@app@1@f.c:3', 5],
			['app+0x20;f@app@1@f.c:3', 2],
		]),
	);
	const tree = buildTree(merged);
	assert.deepEqual(names(tree), ['total', '[app]', 'f']);
	assert.deepEqual([...tree.line], [0, 0, 3]);
});

test('only the root: an empty profile', () => {
	const tree = buildTree(flame([]));
	assert.equal(tree.count, 1);
	assert.deepEqual(layout(tree, { from: 0, to: 0, width: 100, firstRow: 0, lastRow: 9 }), []);
	assert.equal(deepestRow(tree, 0, 0, 100), 0);
	assert.deepEqual(buildRows(tree), []);
});

test('boxes lie inside their callers and side by side', () => {
	const tree = buildTree(flame(SMALL));
	const boxes = layout(tree, { from: 0, to: 100, width: 1000, firstRow: 0, lastRow: 99 });
	const at = (name: string) => boxes.find((b) => b.node === find(tree, name))!;
	assert.deepEqual([at('total').x, at('total').width, at('total').row], [0, 1000, 0]);
	assert.deepEqual([at('long').x, at('long').width, at('long').row], [0, 900, 2]);
	assert.deepEqual([at('short').x, at('short').width], [900, 90]);
	assert.deepEqual([at('idle').x, at('idle').width], [990, 10]);
	assert.equal(boxes.length, 6);
});

test('only the rows asked for are laid out', () => {
	const tree = buildTree(flame(SMALL));
	const boxes = layout(tree, { from: 0, to: 100, width: 1000, firstRow: 2, lastRow: 2 });
	assert.deepEqual(boxes.map((b) => tree.strings[tree.name[b.node]]).sort(), ['long', 'short']);
});

const MANY: Stack[] = [['hot', 50_000], ...Array.from({ length: 50_000 }, (_, i): Stack => [`cold${i}`, 1])];

test('siblings too narrow to draw become one box, and opening it leads to every one of them', () => {
	const tree = buildTree(flame(MANY));
	const width = 1000;
	const boxes = layout(tree, { from: 0, to: tree.total[0], width, firstRow: 0, lastRow: 9 });
	const tail = boxes.find((b) => b.tail)!;
	assert.equal(boxes.length, 3);
	assert.deepEqual([tail.x, tail.width], [500, 500]);
	assert.deepEqual(tailSize(tree, tail.node), { count: 50_000, total: 50_000 });

	// The middle of the tail: all 50,000 together would still be too narrow, so it opens as many as fit around the pointer.
	const value = tree.start[tail.node] + 25_000;
	const zoom = openTail(tree, tail.node, value, width);
	const [from, to] = zoomRange(tree, zoom);
	assert.ok(from <= value && value < to);
	const opened = layout(tree, { from, to, width, firstRow: 1, lastRow: 1 });
	assert.ok(
		opened.every((b) => !b.tail && b.width > MIN_WIDTH),
		'nothing in it is a tail any more',
	);
	assert.ok(
		opened.some((b) => tree.start[b.node] === value),
		'the one under the pointer is there',
	);

	for (const at of [0, 49_999]) {
		const edge = openTail(tree, tail.node, tree.start[tail.node] + at, width);
		const [a, b] = zoomRange(tree, edge);
		assert.ok(a <= tree.start[tail.node] + at && tree.start[tail.node] + at < b);
	}
});

test('a tail that fits opens whole', () => {
	const tree = buildTree(flame([['hot', 100_000], ...Array.from({ length: 20 }, (_, i): Stack => [`cold${i}`, 10])]));
	const first = firstChild(tree, 0);
	const cold = nextSibling(tree, first);
	const zoom = openTail(tree, cold, tree.start[cold], 1000);
	assert.deepEqual(zoom, { node: 0, skip: 1, take: 0 });
	assert.deepEqual(zoomRange(tree, zoom), [100_000, 100_200]);
});

test('a deep stack costs only the rows in view', () => {
	const tree = buildTree(flame([[Array.from({ length: 5000 }, () => 'recurse').join(';'), 10]]));
	assert.equal(tree.maxDepth, 5000);
	assert.equal(deepestRow(tree, 0, 10, 100), 5000);
	assert.equal(layout(tree, { from: 0, to: 10, width: 100, firstRow: 4000, lastRow: 4029 }).length, 30);
});

test('the deepest row is that of the part in view', () => {
	const tree = buildTree(flame(SMALL));
	assert.equal(deepestRow(tree, 0, 100, 1000), 3);
	assert.equal(deepestRow(tree, 90, 99, 1000), 2);
	assert.equal(deepestRow(tree, 99, 100, 1000), 1);
});

test('the box under the pointer', () => {
	const tree = buildTree(flame(SMALL));
	const boxes = layout(tree, { from: 0, to: 100, width: 1000, firstRow: 0, lastRow: 99 });
	const nameAt = (row: number, x: number) => {
		const box = boxAt(boxes, row, x);
		return box && tree.strings[tree.name[box.node]];
	};
	assert.equal(nameAt(2, 10), 'long');
	assert.equal(nameAt(2, 950), 'short');
	assert.equal(nameAt(3, 950), null);
	assert.equal(nameAt(1, 991), 'idle');
	assert.equal(nameAt(2, 990.5), 'short', 'a pixel off still counts');
});

test('a path finds its frame in another response, and its nearest caller where it is gone', () => {
	const tree = buildTree(flame(SMALL));
	const work = find(tree, 'work');
	const later = buildTree(
		flame([
			['idle@vmlinux@2', 500],
			['main;short', 50],
			['main;long;work', 7],
		]),
	);
	assert.equal(findPath(later, [pathKey(tree, work)]), find(later, 'work'));
	const gone = buildTree(
		flame([
			['main;short', 50],
			['other;long;work', 50],
		]),
	);
	assert.equal(findPath(gone, [pathKey(tree, work)]), -1, 'the same name under another caller is another path');
	assert.equal(findPath(gone, pathKeys(tree, work)), find(gone, 'main'));
	const otherBinary = buildTree(flame([['main@else;long;work', 50]]));
	assert.equal(findPath(otherBinary, pathKeys(tree, work)), 0);
});

test('paths do not collide', () => {
	const stacks: Stack[] = [];
	for (let i = 0; i < 300; i++) for (let k = 0; k < 20; k++) stacks.push([`f${i};g${k};f${(i * 7) % 300};f${i}`, 1]);
	const tree = buildTree(flame(stacks));
	const keys = new Set(Array.from({ length: tree.count }, (_, i) => pathKey(tree, i)));
	assert.equal(keys.size, tree.count);
});

test('zoom goes through text and back', () => {
	const tree = buildTree(flame(SMALL));
	assert.equal(formatZoom(tree, NO_ZOOM), '');
	for (const zoom of [NO_ZOOM, { node: 2, skip: 0, take: 0 }, { node: 1, skip: 1, take: 0 }, { node: 0, skip: 1, take: 7 }, { node: 1, skip: 0, take: 1 }]) {
		assert.deepEqual(parseZoom(tree, formatZoom(tree, zoom)), zoom);
	}
	assert.equal(parseZoom(tree, 'zzzz'), null);
	assert.deepEqual(parseZoom(tree, formatZoom(tree, { node: 1, skip: 0, take: 0 }) + '~99'), {
		node: 1,
		skip: 0,
		take: 0,
	});
});

// ---- addresses without a name --------------------

test('unnamed addresses of one binary with one caller become one frame, with what they call', () => {
	const json = flame([
		['main;app+0x10;read@libc', 5],
		['main;app+0x20;read@libc', 3],
		['main;app+0x20;app+0x10', 2],
		['main;lib+0x10@lib', 1],
		['other;app+0x10', 1],
		['0xdeadbeef@', 4],
		['0x1@', 1],
		['x0x1', 1],
	]);
	const tree = buildTree(mergeUnnamed(json));
	const shown = (node: number) => `${tree.depth[node]} ${tree.strings[tree.name[node]]} ${tree.total[node]}`;
	assert.deepEqual(
		Array.from({ length: tree.count }, (_, i) => shown(i)),
		['0 total 18', '1 main 11', '2 [app] 10', '3 read 8', '3 [app] 2', '2 [lib] 1', '1 [unknown] 5', '1 other 1', '2 [app] 1', '1 x0x1 1'],
	);
	const named = flame(SMALL);
	assert.equal(mergeUnnamed(named), named, 'nothing to do');
	assert.equal(nameWithoutAddress('libc.so.6+0x1f'), '[libc.so.6]');
	assert.equal(nameWithoutAddress('[vdso]+0x1f'), '[vdso]');
	assert.equal(nameWithoutAddress('0x0x'), null);
});

// ---- search --------------------

function shareOf(tree: Tree, text: string, regex = false, within = 0): number {
	const flags = findNodes(tree, text, regex);
	assert.ok(flags instanceof Uint8Array, String(flags));
	return sumMatched(tree, flags, within).value;
}

test('the matched share counts each stack once', () => {
	const tree = buildTree(
		flame([
			['a;f;f;f', 10],
			['a;f', 5],
			['b;f;c', 3],
			['b', 2],
		]),
	);
	assert.equal(shareOf(tree, 'f'), 18);
	assert.equal(shareOf(tree, '^[ab]$', true), 20);
	assert.equal(shareOf(tree, 'nothing'), 0);
	assert.equal(shareOf(tree, 'f', false, find(tree, 'b')), 3);
});

test('part, whole name, binary, kind, regular expression', () => {
	const tree = buildTree(
		flame([
			['read', 1],
			['vfs_read@vmlinux@2', 2],
			['Read@libc.so.6', 4],
			['jitted@@3', 8],
			['$x(', 16],
		]),
	);
	assert.equal(shareOf(tree, 'READ'), 7);
	assert.equal(shareOf(tree, '"read"'), 1);
	assert.equal(shareOf(tree, 'in:libc.so.6'), 4);
	assert.equal(shareOf(tree, 'kind:kernel'), 2);
	assert.equal(shareOf(tree, 'kind:jit'), 8);
	assert.equal(shareOf(tree, '$x('), 16, 'not a regular expression unless asked for');
	assert.equal(shareOf(tree, '^read$', true), 5);
	assert.equal(shareOf(tree, 'total'), 0, 'the root is no function');
	assert.equal(findNodes(tree, '  ', false), null);
	assert.match(String(findNodes(tree, '(', true)), /group/i);
	assert.match(String(findNodes(tree, 'kind:odd', false)), /native, kernel/);
	assert.equal(compileSearch('', true), null);
});

// ---- table --------------------

test('rows: self adds up, total counts recursion once', () => {
	const tree = buildTree(
		flame([
			['a;f;g;f', 10],
			['a;f', 5],
			['b;f;c', 3],
			['b;g', 2],
			['f@other', 1],
		]),
	);
	const rows = buildRows(tree);
	const row = (name: string, binary = 'app') => rows.find((r) => r.name === name && r.binary === binary)!;
	assert.deepEqual([row('f').self, row('f').total], [15, 18]);
	assert.deepEqual([row('g').self, row('g').total], [2, 12]);
	assert.deepEqual([row('a').self, row('a').total], [0, 15]);
	assert.deepEqual([row('f', 'other').self, row('f', 'other').total], [1, 1]);
	assert.equal(
		rows.reduce((sum, r) => sum + r.self, 0),
		tree.total[0],
	);
	const order = (list: typeof rows) => list.map((r) => r.name).join(' ');
	assert.equal(order(sortRows(rows, 'self', false)), 'f c g f a b');
	assert.equal(order(sortRows(rows, 'total', false)), 'f a g b c f');
	assert.equal(order(sortRows(rows, 'name', true)), 'g f f c b a');
	assert.equal(order(rows), order(buildRows(tree)), 'sorting does not change its input');
});

test('rows: what the server left out is one row, and a share', () => {
	const tree = buildTree(
		flame([
			['a;(2 smaller)@@7', 3],
			['a;f', 10],
			['b;(1 smaller)@@7', 7],
		]),
	);
	assert.equal(restShare(tree), 0.5);
	const rows = buildRows(tree);
	const rest = rows.filter((r) => r.kind === KIND.rest);
	assert.deepEqual([rest.length, rest[0].name, rest[0].self, rest[0].total], [1, REST_NAME, 10, 10]);
	assert.equal(
		rows.reduce((sum, r) => sum + r.self, 0),
		tree.total[0],
	);
});

// ---- colours --------------------

function luminance(color: string): number {
	const [r, g, b] = [1, 3, 5].map((i) => {
		const c = parseInt(color.slice(i, i + 2), 16) / 255;
		return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
	});
	return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
const contrast = (a: string, b: string) => {
	const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
	return (high + 0.05) / (low + 0.05);
};

test('text on every frame colour has contrast 4.5, dark and light', () => {
	for (const dark of [false, true]) {
		const colors = palette(dark);
		for (let hue = 0; hue < 360; hue += 3) {
			for (let shade = 0; shade < 4; shade++) {
				const frame = colors.frame(hue, 0.13, shade);
				assert.ok(contrast(colors.text, frame) >= 4.5, `${dark} ${hue} ${shade} ${frame}: ${contrast(colors.text, frame)}`);
			}
		}
		assert.ok(contrast(colors.matchText, colors.match) >= 4.5);
		assert.ok(contrast(colors.fadedText, colors.faded) >= 4.5, `${dark} faded ${contrast(colors.fadedText, colors.faded)}`);
		assert.ok(contrast(colors.text, colors.tail) >= 4.5);
	}
	assert.equal(oklch(1, 0, 0), '#ffffff');
	assert.equal(oklch(0, 0, 0), '#000000');
});

test('the legend groups the kernel, JIT and each binary by self value', () => {
	const tree = buildTree(
		flame([
			['main;sys@vmlinux@2;ext4@ext4.ko@2', 5],
			['main', 3],
			['main;x@@3', 2],
			['main;y@libc', 1],
			['z@', 1],
		]),
	);
	const entries = legend(tree, palette(false), 'binary');
	assert.deepEqual(
		entries.map((e) => [e.label, e.find, e.share]),
		[
			['Kernel', 'kind:kernel', 5],
			['app', 'in:app', 3],
			['JIT', 'kind:jit', 2],
			['libc', 'in:libc', 1],
			['unknown', 'kind:unknown', 1],
		],
	);
});
