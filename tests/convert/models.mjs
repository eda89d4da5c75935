// SPDX-License-Identifier: Apache-2.0
// node models.mjs stacks: 400 random folded stacks that recurse. node models.mjs focus|drop|merge|focus-on|calls HTML PPROF: for each
// function, every figure of the page's transform or call graph is that of `go tool pprof` with the option that does the same.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';

const [, , what, html, pprof] = process.argv;
const FUNCTIONS = 9;

function writeStacks() {
	let state = 12345;
	const random = (n) => {
		state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
		return Math.floor((state / 2 ** 32) * n);
	};
	const lines = Array.from({ length: 400 }, () => {
		const frames = Array.from({ length: 1 + random(9) }, () => `f${random(FUNCTIONS)}`);
		return `${frames.join(';')} ${1 + random(50)}`;
	});
	console.log(lines.join('\n'));
}

async function loadModels() {
	const { build } = await import('../../web/node_modules/esbuild/lib/main.js');
	const names = ['tree/tree', 'model/rows', 'tree/functions', 'tree/transform', 'model/callgraph'];
	const contents = names.map((name) => `export * from './${name}';`).join('\n');
	const { outputFiles } = await build({ stdin: { contents, resolveDir: 'web/src' }, bundle: true, format: 'esm', write: false });
	return import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString('base64')}`);
}

function readTree(models) {
	const [, text] = /<script id="profile"[^>]*>([^<]*)</.exec(readFileSync(html, 'utf8'));
	const { types, shown } = JSON.parse(gunzipSync(Buffer.from(text, 'base64')).toString());
	return models.buildTree(types[shown].flame);
}

function runPprof(...options) {
	const all = ['-nodecount=0', '-nodefraction=0', '-edgefraction=0', '-trim=false', '-symbolize=none', ...options, pprof];
	return execFileSync('go', ['tool', 'pprof', ...all], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
}

// NAME -> "flat cum"
function top(...options) {
	const rows = runPprof('-top', ...options).matchAll(/^ *(\d+) +\S+% +\S+% +(\d+) +\S+% +(\S+)$/gm);
	return Object.fromEntries([...rows].filter(([, , cum]) => cum !== '0').map(([, flat, cum, name]) => [name, `${flat} ${cum}`]));
}

const sorted = (record) => Object.fromEntries(Object.entries(record).sort(([a], [b]) => (a < b ? -1 : 1)));

const OPTIONS = {
	focus: ['f', (regex) => [`-focus=${regex}`]],
	drop: ['d', (regex) => [`-ignore=${regex}`]],
	merge: ['mf', (regex) => [`-hide=${regex}`]],
	'focus-on': ['ff', (regex) => [`-focus=${regex}`, `-show_from=${regex}`]],
};

function compareTransforms(models, tree) {
	const [op, options] = OPTIONS[what];
	const { first } = models.treeFunctions(tree);
	assert.equal(first.length, FUNCTIONS);
	for (const node of first) {
		const name = tree.strings[tree.name[node]];
		const made = models.applyTransforms(tree, [{ op, arg: models.functionKey(tree, node) }]);
		const rows = Object.fromEntries(models.buildRows(made).map((row) => [row.name, `${row.self} ${row.total}`]));
		const expected = top(...options(`^${name}$`));
		assert.ok(Object.keys(expected).length >= FUNCTIONS - 1);
		assert.deepEqual(sorted(rows), sorted(expected), `${op} ${name}`);
	}
}

// A block of the report for each function: its callers, itself, its callees.
function compareCalls(models, tree) {
	const expected = {};
	for (const block of runPprof('-peek=.').split(/^-+\+-+$/m)) {
		const own = /^ *\d+ +\S+% +\S+% +\d+ +\S+% +\| +(\S+)\s*$/m.exec(block);
		if (!own) continue;
		const callees = block.slice(own.index + own[0].length).matchAll(/^ *(\d+) +\S+% \| +(\S+)\s*$/gm);
		for (const [, value, name] of callees) expected[`${own[1]} -> ${name}`] = Number(value);
	}
	const graph = models.callGraph(tree, { nodesMax: Infinity, edgesMax: Infinity, shareMin: 0 });
	const name = (index) => tree.strings[tree.name[graph.nodes[index].node]];
	const edges = Object.fromEntries(graph.edges.map(({ from, to, value }) => [`${name(from)} -> ${name(to)}`, value]));
	assert.ok(Object.keys(expected).length > 5 * FUNCTIONS);
	// pprof leaves out what a function calls itself.
	assert.deepEqual(sorted(Object.fromEntries(Object.entries(edges).filter(([edge]) => !/^(\S+) -> \1$/.test(edge)))), sorted(expected));
	const functions = Object.fromEntries(graph.nodes.map(({ node, self, total }) => [tree.strings[tree.name[node]], `${self} ${total}`]));
	assert.deepEqual(sorted(functions), sorted(top()));
}

if (what === 'stacks') {
	writeStacks();
} else {
	const models = await loadModels();
	const tree = readTree(models);
	if (what === 'calls') compareCalls(models, tree);
	else compareTransforms(models, tree);
}
