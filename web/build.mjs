// SPDX-License-Identifier: Apache-2.0
// Bundles the page into OUTDIR: index.html, app.js, layout.js (a worker), app.css, icon.svg; and the page that is written into files, report.html, which
// has all in one and places for the title and the profile. The output depends on the sources and the lock file only.
import { build } from 'esbuild';
import { createHash } from 'node:crypto';
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
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
const licenceOf = (name) => {
	const dir = join(here, 'node_modules', name);
	const { version } = JSON.parse(readFileSync(join(dir, 'package.json'), 'utf8'));
	return `${name} ${version}\n\n${readFileSync(join(dir, 'LICENSE'), 'utf8').trim()}`;
};
const licences = (...names) => {
	const texts = names.map(licenceOf);
	if (texts.some((text) => text.includes('*/'))) throw new Error('a licence text would end the comment it is put into');
	return { js: `/*!\n${texts.join('\n\n----\n\n')}\n*/` };
};

const options = {
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
	footer: licences('preact', 'uplot'),
};
await build({ ...options, entryPoints: [join(here, 'src/main.tsx')], outfile: join(out, 'app.js') });
await build({
	...options,
	entryPoints: [join(here, 'src/calls/layout_worker.ts')],
	outfile: join(out, 'layout.js'),
	footer: licences('@dagrejs/dagre', '@dagrejs/graphlib'),
});

// A page that may run this script and use this style, and nothing else: no other script, and nothing from anywhere.
const report = await build({
	...options,
	entryPoints: [join(here, 'src/report.tsx')],
	outfile: join(out, 'report.js'),
	charset: 'ascii',
	write: false,
});
const bundled = (extension) => report.outputFiles.find((file) => file.path.endsWith(extension)).text;
const script = bundled('.js').replaceAll('</script', '<\\/script').replaceAll('<!--', '<\\!--');
const style = bundled('.css');
if (style.includes('</style')) throw new Error('the style would end its element');
const source = (text) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
const parts = {
	POLICY: `default-src 'none'; script-src ${source(script)}; style-src ${source(style)}; img-src data:; base-uri 'none'; form-action 'none'`,
	STYLE: style,
	SCRIPT: script,
};
// TITLE, PROFILE and TIMELINE stay, for src/cmd/html.c.
const page = readFileSync(join(here, 'src/report.html'), 'utf8').replace(/\{\{(\w+)\}\}/g, (all, name) => parts[name] ?? all);
writeFileSync(join(out, 'report.html'), page);
copyFileSync(join(here, 'src/icon.svg'), join(out, 'icon.svg'));
// Last, because make takes its time as the time of all.
copyFileSync(join(here, 'src/index.html'), join(out, 'index.html'));
