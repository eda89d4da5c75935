// SPDX-License-Identifier: Apache-2.0
// Times the page's models on a tree of a made-up program: 20,000 functions of 40 binaries, each of which calls a few others, some
// of them their callers. Prints milliseconds of the process' own CPU time, the better of two runs.
import { gzipSync } from 'node:zlib';
import { build } from '../web/node_modules/esbuild/lib/main.js';

const nodesMax = Number(process.argv[2] ?? 1e6);
if (!(nodesMax >= 1000 && nodesMax <= 1e7)) throw new Error('usage: node bench/models.mjs NODES, 1000 to 10000000');

const MODULES = [
	'tree/tree',
	'tree/functions',
	'tree/transform',
	'tree/sandwich',
	'model/diff',
	'model/callgraph',
	'model/callgraph_layout',
	'model/fuzzy',
	'model/heatmap',
	'compare/model',
	'base/csv',
];
const bundle = async (contents, minify) =>
	(await build({ stdin: { contents, resolveDir: 'web/src' }, bundle: true, minify, format: 'esm', target: 'es2020', write: false })).outputFiles[0];
const all = await bundle(MODULES.map((name) => `export * from './${name}';`).join('\n'), false);
const m = await import(`data:text/javascript;base64,${Buffer.from(all.contents).toString('base64')}`);

function seeded(seed) {
	let state = seed | 0;
	return () => {
		state = (state + 0x6d2b79f5) | 0;
		let t = Math.imul(state ^ (state >>> 15), 1 | state);
		t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
		return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
	};
}

const FUNCTIONS = 20_000;
const WORDS = ['map', 'hash', 'alloc', 'find', 'insert', 'node', 'push_back', 'runtime', 'worker', 'thread', 'parse', 'read', 'write', 'lock'];

function makeTree(seed) {
	const random = seeded(1); // the program, the same for every seed
	const pick = () => WORDS[Math.floor(random() * WORDS.length)];
	const strings = ['', 'total'];
	for (let f = 0; f < FUNCTIONS; f++) strings.push(`ns::${pick()}_${pick()}<${pick()}>::${pick()}_${f}(int, std::string const&)`);
	const calls = Array.from({ length: FUNCTIONS }, (_, f) =>
		Array.from({ length: 1 + Math.floor(random() * 5) }, () =>
			random() < 0.05 ? Math.floor(random() * FUNCTIONS) : (f + 1 + Math.floor(random() ** 2 * 600)) % FUNCTIONS,
		),
	);
	const binary = strings.length;
	for (let b = 0; b < 40; b++) strings.push(`lib${b}.so`);
	const file = strings.length;
	for (let s = 0; s < 3000; s++) strings.push(`/src/dir${s % 50}/file${s}.cc`);
	const nodes = { parent: [0], name: [1], file: [0], line: [0], binary: [0], kind: [0], total: [0], self: [0] };
	const children = new Map();
	const walk = seeded(seed);
	while (nodes.parent.length < nodesMax) {
		let at = 0;
		let f = Math.floor(walk() * 3);
		for (let depth = 0; depth < 60 && nodes.parent.length < nodesMax; depth++) {
			const key = at * FUNCTIONS + f;
			let child = children.get(key);
			if (child === undefined) {
				child = nodes.parent.length;
				children.set(key, child);
				const entry = { parent: at, name: 2 + f, file: file + (f % 3000), line: 1 + (f % 999), binary: binary + (f % 40), kind: 1, total: 0, self: 0 };
				for (const column of Object.keys(nodes)) nodes[column].push(entry[column]);
			}
			at = child;
			if (walk() < 0.04) break;
			f = calls[f][Math.floor(walk() ** 2 * calls[f].length)];
		}
		nodes.self[at]++;
	}
	return m.buildTree({ type: 'cpu', unit: 'count', total: 0, samples: 1, strings, nodes });
}

function time(what, work) {
	let best = Infinity;
	let result;
	for (let run = 0; run < 2; run++) {
		const before = process.cpuUsage();
		result = work();
		const used = process.cpuUsage(before);
		best = Math.min(best, (used.user + used.system) / 1000);
	}
	const note =
		result?.count !== undefined ? `  ${result.count} nodes` : result?.edges ? `  ${result.nodes.length} functions, ${result.edges.length} calls` : '';
	console.log(`${what.padEnd(34)} ${best.toFixed(0).padStart(6)} ms${note}`);
	return result;
}

const tree = makeTree(2);
const other = makeTree(3);
console.log(`a tree of ${tree.count} nodes, ${tree.maxDepth} deep, ${m.treeFunctions(tree).count} functions`);
const node = Math.floor(tree.count / 2);
const arg = m.functionKey(tree, 4);
const binary = m.binaryKey(tree, 4);
const transforms = [
	...['ff', 'f', 'd', 'mf', 'cf', 'dr', 'r'].map((op) => ({ op, arg })),
	...['fs', 'mn', 'cs'].map((op) => ({ op, arg: m.pathKey(tree, 2) })),
	{ op: 'cb', arg: binary },
	{ op: 'ob', arg: binary },
	{ op: 'ok', arg: 'native' },
	...['i', 'gf', 'gl', 'gb', 'dr'].map((op) => ({ op, arg: '' })),
];
for (const t of transforms) time(`transform ${m.formatTransforms([t])}`, () => m.applyTransforms(tree, [t]));
time('sandwich', () => m.sandwich(tree, m.treeFunctions(tree).of[node]).callers);
const [base, head] = [tree, other].map((side) => ({ tree: side, seconds: 60, period: 1 }));
time('two trees as one', () => m.diffTrees(base, head, 'share').tree);
const diff = m.diffTrees(base, head, 'share');
time('changes of its nodes', () => m.classifyChanges(diff.baseTotal, diff.headTotal, base, head, 'share'));
const rows = time('rows of both', () => m.diffRows(tree, other));
time('changes of the rows', () =>
	m.classifyChanges(
		rows.map((r) => r.baseTotal),
		rows.map((r) => r.total),
		base,
		head,
		'share',
	),
);
const compared = m.compare(base, head, 'share');
time('two trees compared, for the graph', () => m.compare(base, head, 'share').diff.tree);
time('as wide as the head', () => m.draw(compared.diff, 'head').tree);
time('two trees compared, for the table', () => m.compareRows(compared));
for (const nodes of [50, 100, 200, 300]) {
	const graph = time(`call graph of ${nodes}`, () => m.callGraph(tree, { nodesMax: nodes, edgesMax: nodes, shareMin: 0 }));
	const input = { nodes: graph.nodes.map(() => ({ width: 180, height: 40 })), edges: graph.edges.map(({ from, to, value }) => ({ from, to, weight: value })) };
	time('  its layout', () => m.layoutCallGraph(input));
}
const names = Array.from({ length: 200_000 }, (_, i) => tree.strings[2 + (i % FUNCTIONS)] + i);
for (const text of ['a', 'map', 'hmf', 'alloc worker', 'zzz']) {
	const filter = m.compileFilter(text, 'fuzzy');
	time(`200,000 names by '${text}'`, () =>
		m.pickBest(
			names.length,
			(at) => filter.score(names[at]),
			(at) => names[at].length,
			filter.ranked,
		),
	);
}
time('200,000 rows as CSV', () =>
	m.writeCsv(
		['name', 'self', 'total', 'file'],
		names.map((name, i) => [name, i, 2 * i, 'file.c']),
	),
);
const random = seeded(4);
const times = Float64Array.from({ length: 2_000_000 }, () => Math.floor(random() * 600e9));
time('2,000,000 samples in cells', () => m.buildHeatmap(times, times, null, [0, 600e9]));
const dagre = await bundle("import { Graph, layout } from '@dagrejs/dagre'; console.log(Graph, layout);", true);
const models = await bundle(
	MODULES.filter((name) => !name.endsWith('layout'))
		.map((name) => `export * from './${name}';`)
		.join('\n'),
	true,
);
console.log(`compressed: models ${gzipSync(models.contents).length} bytes, dagre ${gzipSync(dagre.contents).length} bytes`);
