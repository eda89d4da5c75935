// SPDX-License-Identifier: Apache-2.0
// What `wick convert -o FILE.html` writes: one file that shows a profile by itself, asks nobody, and runs nothing that a name says.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { bytesField, intField } from '../harness.mjs';
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

// A pprof of stacks whose frames are NAME@MAPPING, the outermost first; those of the mapping "python" have no address.
function pprofOf(stacks) {
	const strings = [''];
	const idOf = (list, item) => (list.includes(item) ? list.indexOf(item) : list.push(item) - 1);
	const text = (item) => idOf(strings, item);
	const [frames, mappings] = [[''], ['']];
	const samples = stacks.map(([stack, value]) => {
		const ids = stack.split(';').map((frame) => idOf(frames, frame));
		return bytesField(2, [...ids.reverse().flatMap((frame) => intField(1, frame)), ...intField(2, value)]);
	});
	const locations = frames.slice(1).flatMap((frame, i) => {
		const [name, mapping] = frame.split('@');
		const address = mapping === 'python' ? [] : intField(3, 0x1000 * (i + 1));
		const line = bytesField(4, intField(1, i + 1));
		return [
			...bytesField(4, [...intField(1, i + 1), ...intField(2, idOf(mappings, mapping)), ...address, ...line]),
			...bytesField(5, [...intField(1, i + 1), ...intField(2, text(name))]),
		];
	});
	const maps = mappings.slice(1).flatMap((mapping, i) => bytesField(3, [...intField(1, i + 1), ...intField(5, text(mapping)), ...intField(7, 1)]));
	const type = bytesField(1, [...intField(1, text('samples')), ...intField(2, text('count'))]);
	return Buffer.from([...type, ...samples.flat(), ...maps, ...locations, ...strings.flatMap((item) => bytesField(6, item))]);
}

const PYTHON = '/usr/bin/python3';
const PYTHON_STACKS = [
	[`start@/lib/libc.so.6;Py_RunMain@${PYTHON};run@python;work@python;_PyEval_EvalFrameDefault@${PYTHON}`, 60],
	[`start@/lib/libc.so.6;Py_RunMain@${PYTHON};run@python;_PyEval_EvalFrameDefault@${PYTHON};read@/lib/libc.so.6`, 40],
];
test('the internals of interpreters are hidden until they are asked for', async () => {
	const [from, to] = ['python.pb', 'python.html'].map((name) => join(work, name));
	writeFileSync(from, pprofOf(PYTHON_STACKS));
	execFileSync(wick, ['convert', '-q', from, '-o', to]);
	const { page: other, leave: leaveOther } = await visit(pathToFileURL(to).href, '');
	const shown = (name) => other.evaluate((n) => window.__wick.flame.nodeAt(n) !== null, name);
	const [run, work_] = [await boxOf(other, 'run'), await boxOf(other, 'work')];
	assert.ok(Math.abs(work_.width / run.width - 0.6) < 0.01);
	assert.ok(await shown('read'));
	for (const name of ['Py_RunMain', '_PyEval_EvalFrameDefault']) assert.equal(await shown(name), false, name);
	const names = () => other.$$eval('.tbody .fn', (all) => all.map((one) => one.textContent).sort());
	assert.deepEqual(await names(), ['read', 'run', 'start', 'work']);
	await other.click(id('display'));
	await other.check(id('interpreters'));
	await boxOf(other, '_PyEval_EvalFrameDefault');
	assert.ok(await shown('Py_RunMain'));
	await other.reload();
	await boxOf(other, '_PyEval_EvalFrameDefault');
	assert.equal((await names()).length, 6);
	await leaveOther();
});

test('the switch is there only where there are interpreters', async () => {
	const { page: other, leave: leaveOther } = await visit(pathToFileURL(file).href, '');
	await boxOf(other, 'main');
	await other.click(id('display'));
	await other.waitForSelector(id('color-kind'));
	assert.equal(await other.$(id('interpreters')), null);
	await leaveOther();
});
