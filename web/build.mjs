// SPDX-License-Identifier: Apache-2.0
// Bundles the page into OUTDIR: index.html, app.js, app.css, icon.svg. The output depends on the sources and the lock file only.
import { build } from 'esbuild';
import { copyFileSync, mkdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const out = process.argv[2];
if (!out) {
	console.error('usage: node build.mjs OUTDIR');
	process.exit(2);
}
mkdirSync(out, { recursive: true });

// What is bundled asks that its licence travels with every copy.
const licences = ['preact', 'uplot'].map((name) => {
	const dir = join(here, 'node_modules', name);
	const { version } = JSON.parse(readFileSync(join(dir, 'package.json'), 'utf8'));
	return `${name} ${version}\n\n${readFileSync(join(dir, 'LICENSE'), 'utf8').trim()}`;
});
if (licences.some((text) => text.includes('*/')))
	throw new Error('a licence text would end the comment it is put into');

await build({
	entryPoints: [join(here, 'src/main.tsx')],
	outfile: join(out, 'app.js'),
	bundle: true,
	minify: true,
	format: 'iife',
	target: 'es2020',
	charset: 'utf8',
	legalComments: 'none',
	logLevel: 'warning',
	jsx: 'automatic',
	jsxImportSource: 'preact',
	banner: { js: '/*! Wick, Apache-2.0. The licences of what is bundled are at the end. */' },
	footer: { js: `/*!\n${licences.join('\n\n----\n\n')}\n*/` },
});
copyFileSync(join(here, 'src/icon.svg'), join(out, 'icon.svg'));
// Last, because make takes its time as the time of all four.
copyFileSync(join(here, 'src/index.html'), join(out, 'index.html'));
