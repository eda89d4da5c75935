// SPDX-License-Identifier: Apache-2.0
/*
 * The folders of src are in layers: web/README.md has the table, and this holds the sources to it. A folder imports itself and folders of
 * lower layers, types as well as values; no two modules import each other, directly or through others; and no folder has so many files
 * that a reader is lost.
 */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

const WEB = join(dirname(fileURLToPath(import.meta.url)), '..');
const SRC = join(WEB, 'src');
const FILES_MAX = 20; // directly in a folder

// Folder -> layer, by the rows "| LAYER | `FOLDER/` | duty |". What stands in src itself, the entry points, is above all.
const layers = new Map(
	[...readFileSync(join(WEB, 'README.md'), 'utf8').matchAll(/^\| (\d+) \| `(\w+)\/` \|/gm)].map(([, layer, folder]) => [folder, Number(layer)]),
);
const folderOf = (module) => (module.includes('/') ? module.slice(0, module.indexOf('/')) : '');
const layerOf = (folder) => (folder === '' ? Infinity : layers.get(folder));

const files = readdirSync(SRC, { recursive: true, withFileTypes: true })
	.filter((entry) => entry.isFile())
	.map((entry) => join(entry.parentPath ?? entry.path, entry.name).slice(SRC.length + 1));
const modules = new Map(files.filter((name) => /\.tsx?$/.test(name)).map((name) => [name.replace(/\.tsx?$/, ''), name]));

const importsOf = (module) =>
	ts
		.preProcessFile(readFileSync(join(SRC, modules.get(module)), 'utf8'))
		.importedFiles.filter(({ fileName }) => fileName.startsWith('.'))
		.map(({ fileName }) => normalize(join(dirname(module), fileName)))
		.filter((name) => modules.has(name));
const imports = new Map([...modules.keys()].map((module) => [module, importsOf(module)]));

test('every folder has a layer, and imports lower ones only', () => {
	const folders = new Set(files.map(folderOf).filter((folder) => folder !== '' && folder !== 'style'));
	assert.deepEqual([...layers.keys()].sort(), [...folders].sort());
	const wrong = [];
	let counted = 0;
	for (const [module, imported] of imports) {
		for (const other of imported) {
			const [from, to] = [folderOf(module), folderOf(other)];
			counted++;
			if (from !== to && layerOf(to) >= layerOf(from))
				wrong.push(`src/${modules.get(module)} (layer ${layerOf(from)}) imports ${other} (layer ${layerOf(to)})`);
		}
	}
	assert.ok(counted > 500, `${counted} imports were found`);
	assert.deepEqual(wrong, []);
});

test('no module imports itself through others', () => {
	const done = new Set();
	const visit = (module, path) => {
		assert.ok(!path.includes(module), `${[...path.slice(path.indexOf(module)), module].join(' -> ')}`);
		if (done.has(module)) return;
		for (const other of imports.get(module)) visit(other, [...path, module]);
		done.add(module);
	};
	for (const module of imports.keys()) visit(module, []);
});

test('no folder is crowded', () => {
	const counts = new Map();
	for (const name of files) counts.set(dirname(name), (counts.get(dirname(name)) ?? 0) + 1);
	assert.deepEqual(
		[...counts].filter(([, count]) => count > FILES_MAX),
		[],
	);
});
