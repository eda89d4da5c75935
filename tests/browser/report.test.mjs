// SPDX-License-Identifier: Apache-2.0
// What `wick convert -o FILE.html` writes: one file that shows a profile by itself, asks nobody, and runs nothing that a name says.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { boxOf, id, picture, visit } from '../lib/browser.mjs';

const wick = process.env.WICK,
	work = process.env.WICK_WORK;
const HOSTILE = '</script><script>window.broken = 1</script><img src=x onerror="window.broken = 2">';
const STACKS = [
	['main;parse;read', 600],
	['main;parse', 100],
	['main;render;draw', 250],
	[`main;${HOSTILE}`, 50],
];

let page, leave, file;
const requests = [];
before(async () => {
	// Two values of the same stacks, as speedscope has them.
	const names = [...new Set(STACKS.flatMap(([stack]) => stack.split(';')))];
	const sampled = (name, unit, factor) => ({
		type: 'sampled',
		name,
		unit,
		startValue: 0,
		endValue: 1000 * factor,
		samples: STACKS.map(([stack]) => stack.split(';').map((f) => names.indexOf(f))),
		weights: STACKS.map(([, value]) => value * factor),
	});
	const from = join(work, "it's <b>.speedscope.json");
	writeFileSync(
		from,
		JSON.stringify({
			$schema: 'https://www.speedscope.app/file-format-schema.json',
			activeProfileIndex: 0,
			shared: { frames: names.map((name) => ({ name, file: `${name.slice(0, 4)}.c`, line: 7 })) },
			profiles: [sampled('cpu', 'milliseconds', 1), sampled('heap', 'bytes', 1024)],
		}),
	);
	file = join(work, 'report.html');
	execFileSync(wick, ['convert', '-q', from, '-o', file]);
	({ page, leave } = await visit(pathToFileURL(file).href, '', { prepare: (one) => one.on('request', (request) => requests.push(request.url())) }));
	await page.waitForSelector('[data-testid="report-title"]');
	await page.waitForFunction(() => window.__wick?.flame.visibleCount > 0);
});

const box = (name) => boxOf(page, name);
const rows = () =>
	page.$$eval('[role=row][aria-rowindex]:not(.thead)', (all) => all.map((row) => [...row.querySelectorAll('[role=cell]')].map((cell) => cell.textContent)));

test('it is one file without an address in it', () => {
	const text = readFileSync(file, 'utf8');
	assert.ok(!/(src|href)="(?!data:)/.test(text.slice(0, text.indexOf('<script'))));
	assert.match(text, /Content-Security-Policy" content="default-src 'none'; script-src 'sha256-/);
	assert.ok(text.includes('it&#39;s &lt;b&gt;.speedscope.json</title>'));
});
test('the graph has boxes as wide as their shares', async () => {
	const [main, read, draw] = [await box('main'), await box('read'), await box('draw')];
	assert.ok(Math.abs(read.width / main.width - 0.6) < 0.01);
	assert.ok(Math.abs(draw.width / main.width - 0.25) < 0.01);
});
test('the table has the functions by self', async () => {
	const table = await rows();
	assert.match(table[0].join(' '), /600.*60.*read/s);
	assert.match(table[1].join(' '), /250.*25.*draw/s);
});
test('a name is text and nothing else', async () => {
	assert.equal(await page.evaluate(() => window.broken), undefined);
	assert.ok((await page.textContent('body')).includes('<img src=x'));
	assert.equal(await page.$$eval('img', (all) => all.length), 0);
});
test('search says the share', async () => {
	await page.fill('[data-testid="flame-search"]', 'parse');
	await page.waitForFunction(() => /70/.test(document.querySelector('[data-testid="flame-matched"]').textContent));
	await page.fill('[data-testid="flame-search"]', '');
});
test('a click zooms, Escape shows all again', async () => {
	const at = await box('render');
	await page.mouse.click(at.x + at.width / 2, at.y + at.height / 2);
	await page.waitForFunction(() => window.__wick.flame.zoomName === 'render');
	await page.keyboard.press('Escape');
	await page.waitForFunction(() => window.__wick.flame.zoomName === 'total');
});
test('the other value is there', async () => {
	await page.selectOption('[data-testid="type-select"]', { index: 1 });
	await page.waitForFunction(() => /KiB|kB|KB/.test(document.querySelector('[role=table], .table')?.textContent ?? document.body.textContent));
	// The graph is drawn a frame or two after the table.
	await page.waitForFunction(() => {
		const [read, main] = ['read', 'main'].map((name) => window.__wick.flame.nodeAt(name));
		return read && main && Math.abs(read.width / main.width - 0.6) < 0.01;
	});
	await page.selectOption('[data-testid="type-select"]', { index: 0 });
});
test('callers and callees need no server, nor do rows by file', async () => {
	await page.click('[data-testid="view-sandwich"]');
	await page.waitForFunction(() => document.querySelector('[data-testid="sandwich-name"]')?.textContent === 'read');
	await page.waitForFunction(() => window.__wick?.callers?.nodeAt('parse'));
	await page.click('[data-testid="view-table"]');
	await page.selectOption('[data-testid="table-by"]', 'file');
	await page.waitForFunction(() => [...document.querySelectorAll('.tbody .fn')].some((fn) => fn.textContent === 'pars.c'));
	await page.selectOption('[data-testid="table-by"]', 'function');
	await page.click('[data-testid="view-both"]');
	await page.waitForFunction(() => window.__wick?.flame?.visibleCount > 0);
});
test('what only a server can give is not offered', async () => {
	for (const name of ['download-pprof', 'view-calls', 'names-short', 'open-source', 'names-missing']) assert.equal(await page.$(id(name)), null, name);
	await picture(page, 'report');
});
test('nothing was asked for, nothing went wrong', async () => {
	assert.deepEqual(
		requests.filter((url) => !url.startsWith('data:')),
		[pathToFileURL(file).href],
	);
	await leave();
});
