// SPDX-License-Identifier: Apache-2.0
/*
 * What the page has on functions, in headless Chromium: who calls this, what does it call, how do calls
 * go through the program, what costs most by function or label. A profile of known stacks is sent to
 * the server, and what the page says is compared with sums over those stacks.
 *
 *   WICK_URL   an empty server
 */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { base, boxOf, id, options, PHONE, picture, saved, visit, drawn } from '../lib/browser.mjs';

const STACKS = [
	['main;serve;parse;copy', 30],
	['main;serve;parse;copy;fill', 5],
	['main;serve;render;copy', 11],
	['main;serve;render;escape', 20],
	['main;collect;walk;walk;walk;copy', 9],
	['main;collect;walk;sweep', 14],
	['main;<script>alert(1)</script>;copy', 2],
	['main;idle', 9],
].map(([path, value]) => ({ frames: path.split(';'), value }));
const ENVIRONMENTS = [
	['test', 3],
	['live', 40],
];
const TOTAL = STACKS.reduce((sum, { value }) => sum + value, 0);
const through = (name) => STACKS.filter(({ frames }) => frames.includes(name));
const totalOf = (name) => through(name).reduce((sum, { value }) => sum + value, 0);

before(async () => {
	if (!base) return;
	const body = STACKS.map(({ frames, value }) => `${frames.join(';')} ${value}\n`).join('');
	const response = await fetch(new URL('api/v1/ingest?name=process_cpu&format=folded&label=service_name%3Dshop', base), { method: 'POST', body });
	assert.equal(response.status, 200, await response.text());
	for (const [env, value] of ENVIRONMENTS) {
		const sent = await fetch(new URL(`api/v1/ingest?name=memory&format=folded&label=env%3D${env}`, base), {
			method: 'POST',
			body: `main;grow ${value}\n=cmd|calc;"a,b" ${value}\n`,
		});
		assert.equal(sent.status, 200, await sent.text());
	}
});

async function clickBox(page, part, name, options = {}) {
	const box = await boxOf(page, name, part);
	await page.mouse.click(box.x + box.width / 2, box.y + box.height / 2, options);
}
const nameIs = (page, name) => page.waitForFunction(([selector, n]) => document.querySelector(selector)?.textContent === n, [id('sandwich-name'), name]);
const near = (got, wanted, what) => assert.ok(Math.abs(got - wanted) < 3, `${what}: ${got} instead of ${wanted}`);

test('who calls this: from a frame of the graph to its callers and callees, and on to one of those', options, async () => {
	const { page, url, leave } = await visit(base, '?view=graph');
	await clickBox(page, 'flame', 'copy', { button: 'right' });
	await page.click(id('menu-sandwich'));
	await nameIs(page, 'copy');
	assert.equal(url().get('view'), 'sandwich');
	assert.equal(url().get('function'), 'copy');
	const sums = await page.locator(id('sandwich-sums')).innerText();
	assert.match(sums, new RegExp(`\\b${totalOf('copy')}\\b`));
	assert.match(sums, /4 callers · 1 callee · on 4 paths/);
	// Widths are shares of the function's total.
	const whole = await boxOf(page, 'copy', 'callers');
	for (const caller of ['parse', 'render', 'walk', 'serve']) {
		// What is right above copy, or two above it in all stacks.
		const value = STACKS.filter(({ frames }) => {
			const at = frames.indexOf('copy');
			return at > 0 && frames[at - (caller === 'serve' ? 2 : 1)] === caller;
		}).reduce((sum, { value }) => sum + value, 0);
		const widest = caller === 'serve' ? 35 : value;
		near((await boxOf(page, caller, 'callers')).width, (whole.width * widest) / totalOf('copy'), caller);
	}
	assert.ok((await boxOf(page, 'parse', 'callers')).y < whole.y, 'callers are above');
	const below = await boxOf(page, 'copy', 'callees');
	const fill = await boxOf(page, 'fill', 'callees');
	assert.ok(fill.y > below.y && below.y > whole.y, 'callees are below');
	near(fill.width, (below.width * 5) / totalOf('copy'), 'fill');
	await picture(page, 'sandwich');
	await clickBox(page, 'callers', 'walk');
	await nameIs(page, 'walk');
	assert.match(await page.locator(id('sandwich-sums')).innerText(), new RegExp(`\\b${totalOf('walk')}\\b`), 'a recursion counts once');
	await page.goBack();
	await nameIs(page, 'copy');
	await page.locator(`${id('table')} .tr`, { hasText: 'sweep' }).click();
	await nameIs(page, 'sweep');
	await page.click(id('view-graph'));
	await boxOf(page, 'sweep');
	assert.equal(url().get('function'), null);
	await leave();
});

test('callers and callees by keyboard alone', options, async () => {
	const { page, leave } = await visit(base, '?view=both');
	await boxOf(page, 'copy');
	await page.focus(id('table'));
	await page.keyboard.press('ArrowDown');
	await page.waitForFunction((s) => document.querySelector(s), `${id('table')} .tr.active`);
	const first = await page.locator(`${id('table')} .tr.active .fn`).innerText();
	await page.keyboard.press('b');
	await nameIs(page, first);
	await page.focus(id('callers'));
	const focused = STACKS.find(({ frames }) => frames[frames.length - 1] === first).frames.slice(-2)[0];
	for (const wanted of [first, focused]) {
		if (wanted !== first) await page.keyboard.press('ArrowUp');
		await page.waitForFunction(
			([s, n]) => {
				const item = document.getElementById(document.querySelector(s).getAttribute('aria-activedescendant'));
				return item?.textContent.startsWith(n);
			},
			[id('callers'), wanted],
		);
	}
	await page.waitForFunction((n) => window.__wick.callers.focusName === n, focused);
	await page.keyboard.press('Enter');
	await nameIs(page, focused);
	// To its source, and back to where one was.
	await page.focus(id('callees'));
	await page.keyboard.press('s');
	await page.waitForFunction(() => new URLSearchParams(location.search).get('view') === 'source');
	await page.locator('.listing-name').waitFor();
	await page.keyboard.press('Escape');
	await nameIs(page, focused);
	await leave();
});

test('a link to a function, to one that is not there, and to one with a hostile name', options, async () => {
	const hostile = '<script>alert(1)</script>';
	const { page, leave } = await visit(base, `?view=sandwich&function=${encodeURIComponent(hostile)}`, { viewport: PHONE, colorScheme: 'dark' });
	await nameIs(page, hostile);
	await boxOf(page, 'copy', 'callees');
	await picture(page, 'sandwich-narrow');
	await page.goto(new URL('?view=sandwich&function=nobody', base).href);
	await page.waitForFunction((s) => document.querySelector(s)?.textContent.includes('nobody'), id('sandwich'));
	await page.goto(new URL('?view=sandwich', base).href);
	const costliest = [...new Set(STACKS.map(({ frames }) => frames[frames.length - 1]))].sort((a, b) => {
		const self = (name) => STACKS.filter(({ frames }) => frames[frames.length - 1] === name).reduce((sum, { value }) => sum + value, 0);
		return self(b) - self(a);
	})[0];
	await nameIs(page, costliest);
	await leave();
});

const callsDrawn = (page, name) => page.waitForFunction((n) => window.__wickCalls?.rectOf(n) && !document.querySelector('.calls[aria-busy="true"]'), name);
const callBox = (page, name) => page.evaluate((n) => window.__wickCalls.rectOf(n), name);
const focusIs = (page, name) => page.waitForFunction((n) => window.__wickCalls?.focusName === n, name);

// By stacks: what runs over the call, each stack once.
function callsOf() {
	const calls = new Map();
	for (const { frames, value } of STACKS)
		for (const pair of new Set(frames.slice(1).map((to, i) => `${frames[i]} → ${to}`))) calls.set(pair, (calls.get(pair) ?? 0) + value);
	return calls;
}
const listed = (page) =>
	page.evaluate(
		(s) =>
			[...document.querySelectorAll(`${s} tbody tr`)].map((tr) => [
				[...tr.querySelectorAll('button')].map((b) => b.textContent).join(' → '),
				parseFloat(tr.lastElementChild.textContent),
			]),
		id('calls-list'),
	);

test('how calls go: the graph has the functions in layers, the list the same calls with their shares', options, async () => {
	const { page, url, leave } = await visit(base, '?view=graph');
	await boxOf(page, 'copy');
	await page.click(id('view-calls'));
	await callsDrawn(page, 'copy');
	const wanted = callsOf();
	assert.deepEqual(new Map(await listed(page)), new Map([...wanted].map(([pair, value]) => [pair, (100 * value) / TOTAL])));
	const [main, serve, copy] = [await callBox(page, 'main'), await callBox(page, 'serve'), await callBox(page, 'copy')];
	assert.ok(main.y + main.height <= serve.y && serve.y + serve.height <= copy.y, 'callers are above what they call');
	const pane = await page.locator(id('calls-graph')).boundingBox();
	for (const box of [main, serve, copy])
		assert.ok(box.x >= pane.x && box.x + box.width <= pane.x + pane.width && box.y >= pane.y && box.y + box.height <= pane.y + pane.height, 'all is in view');
	await page.mouse.move(copy.x + copy.width / 2, copy.y + copy.height / 2);
	await page.waitForFunction((value) => document.querySelector('.tip td')?.textContent === value, String(totalOf('copy')));
	await picture(page, 'calls');
	// A limit on shares takes the smaller away, and says so.
	await page.locator(id('calls-least')).fill('8'); // the last: 20%
	await page.waitForFunction(() => window.__wickCalls?.rectOf('main') && !window.__wickCalls.rectOf('sweep'));
	assert.match(await page.locator(id('calls-shown')).innerText(), /not shown: \d+ smaller functions/);
	await page.waitForFunction(() => new URLSearchParams(location.search).get('least') === '20');
	await page.locator(id('calls-least')).fill('4');
	await callsDrawn(page, 'sweep');
	// The wheel zooms to the pointer.
	const at = await callBox(page, 'copy');
	await page.mouse.move(at.x + 5, at.y + 5);
	await page.mouse.wheel(0, -300);
	await page.waitForFunction((width) => window.__wickCalls.rectOf('copy').width > 1.5 * width, at.width);
	const near = await callBox(page, 'copy');
	assert.ok(Math.abs(at.x + 5 - (near.x + (5 * near.width) / at.width)) < 1, 'what was under the pointer still is');
	// A drag moves it.
	await page.mouse.down();
	await page.mouse.move(at.x + 65, at.y - 35, { steps: 3 });
	await page.mouse.up();
	const moved = await callBox(page, 'copy');
	assert.ok(Math.abs(moved.x - near.x - 60) < 1 && Math.abs(moved.y - near.y + 40) < 1, 'by as much as the pointer');
	assert.equal(url().get('view'), 'calls', 'a drag is no click');
	// A click leads to its callers.
	await page.mouse.click(moved.x + moved.width / 2, moved.y + moved.height / 2);
	await nameIs(page, 'copy');
	await page.goBack();
	await callsDrawn(page, 'copy');
	await leave();
});

test('the call graph by keyboard, on a narrow screen', options, async () => {
	const { page, leave } = await visit(base, '?view=calls', { viewport: PHONE, colorScheme: 'dark' });
	await callsDrawn(page, 'main');
	await page.focus(id('calls-graph'));
	for (const [key, name] of [
		['ArrowDown', 'main'],
		['ArrowDown', 'serve'],
		['ArrowDown', 'parse'],
		['ArrowUp', 'serve'],
	]) {
		await page.keyboard.press(key);
		await focusIs(page, name);
	}
	await page.waitForFunction((s) => document.querySelectorAll(`${s} tbody tr`).length === 3, id('calls-list'));
	const serve = (await listed(page)).map(([pair]) => pair).sort();
	assert.deepEqual(serve, [...callsOf().keys()].filter((pair) => pair.split(' → ').includes('serve')).sort());
	await page.waitForFunction(() => document.querySelector('#calls-focus').textContent.startsWith('serve, total 66.0%'));
	const before = await page.evaluate(() => window.__wickCalls.scale);
	await page.keyboard.press('+');
	await page.waitForFunction((scale) => window.__wickCalls.scale > scale, before);
	await picture(page, 'calls-narrow');
	await page.keyboard.press('Enter');
	await nameIs(page, 'serve');
	await leave();
});

const rowNames = (page) => page.evaluate((s) => [...document.querySelectorAll(`${s} .tbody .fn`)].map((fn) => fn.textContent), id('table'));
const rowsAre = (page, wanted) =>
	page.waitForFunction(
		([s, names]) => JSON.stringify([...document.querySelectorAll(`${s} .tbody .fn`)].map((fn) => fn.textContent)) === JSON.stringify(names),
		[id('table'), wanted],
	);
const NAMES = [...new Set(STACKS.flatMap(({ frames }) => frames))];
const selfOf = (name) => STACKS.filter(({ frames }) => frames[frames.length - 1] === name).reduce((sum, { value }) => sum + value, 0);

const savedFrom = (page, button) => saved(page, () => page.click(id(button)));

test('the table: find by a few letters or an expression, and take the rows along as CSV', options, async () => {
	const { page, url, leave } = await visit(base, '?view=table');
	await page.waitForFunction(([s, n]) => document.querySelectorAll(`${s} .tbody .fn`).length === n, [id('table'), NAMES.length]);
	const bySelf = NAMES.slice().sort((a, b) => selfOf(b) - selfOf(a) || totalOf(b) - totalOf(a) || (a < b ? -1 : 1));
	assert.deepEqual(await rowNames(page), bySelf);
	await page.fill(id('table-filter'), 'eep');
	await rowsAre(page, ['sweep']);
	assert.equal(await page.locator(`${id('table')} mark`).innerText(), 'eep');
	await page.fill(id('table-filter'), 'esp');
	await rowsAre(page, []);
	await page.click(id('match-fuzzy'));
	await rowsAre(page, ['escape', '<script>alert(1)</script>']);
	await page.fill(id('table-filter'), 'se');
	await page.waitForFunction((s) => document.querySelectorAll(`${s} .tbody .fn`).length > 2, id('table'));
	const ranked = await rowNames(page);
	assert.ok(ranked[0] === 'serve' && ranked.includes('sweep') && ranked.includes('parse'), `the best first: ${ranked}`);
	await page.click(id('sort-name'));
	await rowsAre(page, ranked.slice().sort());
	await page.click(id('sort-self'));
	await page.click(id('match-regex'));
	await page.fill(id('table-filter'), '^s|lk$');
	await rowsAre(
		page,
		bySelf.filter((name) => /^s|lk$/.test(name)),
	);
	assert.equal(url().get('match'), 'regex');
	await page.fill(id('table-filter'), '(');
	await page.waitForFunction((s) => document.querySelector(s).classList.contains('field-fault'), id('table-count'));
	await page.fill(id('table-filter'), '^s|lk$');
	await rowsAre(
		page,
		bySelf.filter((name) => /^s|lk$/.test(name)),
	);
	const csv = await savedFrom(page, 'table-csv');
	assert.match(csv.name, /^wick-\d{8}T\d{6}\.csv$/);
	const [head, ...lines] = csv.bytes.toString().split('\r\n');
	assert.match(head, /^name,self \(\w+\),total \(\w+\),file,line,binary$/);
	assert.deepEqual(lines, [...bySelf.filter((name) => /^s|lk$/.test(name)).map((name) => `${name},${selfOf(name)},${totalOf(name)},,,`), '']);
	await page.click(id('download'));
	const speedscope = JSON.parse((await savedFrom(page, 'download-speedscope')).bytes);
	assert.equal(
		speedscope.profiles.flatMap(({ weights }) => weights).reduce((a, b) => a + b, 0),
		TOTAL,
	);
	const firefox = JSON.parse((await savedFrom(page, 'download-firefox')).bytes);
	assert.equal(
		firefox.threads.reduce((sum, { samples }) => sum + samples.length, 0),
		STACKS.length,
	);
	await leave();
});

test('which environment: rows by a label, and from one to its profile; what a spreadsheet would run is text', options, async () => {
	const { page, url, leave } = await visit(base, '?view=table&q=memory', { viewport: PHONE });
	await page.waitForFunction((s) => document.querySelectorAll(`${s} .tbody .fn`).length === 4, id('table'));
	const csv = (await savedFrom(page, 'table-csv')).bytes.toString();
	assert.ok(csv.includes("\r\n'=cmd|calc,"), csv);
	assert.ok(csv.includes('\r\n"""a,b""",'), csv);
	await page.selectOption(id('table-by'), 'label:env');
	await rowsAre(page, ['live', 'test']);
	assert.deepEqual(await page.evaluate((s) => [...document.querySelectorAll(`${s} .tbody .td-total .amount`)].map((cell) => cell.textContent), id('table')), [
		'80',
		'6',
	]);
	await picture(page, 'table-labels-narrow');
	await page
		.locator(`${id('table')} .tbody .tr`)
		.first()
		.click();
	await page.waitForFunction(() => /env="live"/.test(new URLSearchParams(location.search).get('q')));
	await page.selectOption(id('table-by'), 'function');
	await page.waitForFunction(
		([s, n]) => [...document.querySelectorAll(`${s} .tbody .td-total .amount`)].filter((cell) => cell.textContent === n).length > 0,
		[id('table'), '40'],
	);
	assert.equal(url().get('rows'), null);
	await page.selectOption(id('table-by'), 'line');
	await page.waitForFunction(
		([s, by]) => new URLSearchParams(location.search).get('rows') === by && !document.querySelector(`${s}[aria-busy="true"]`),
		[id('table'), 'line'],
	);
	await leave();
});

test('table and graph point at each other; the graph is taken along as a picture', options, async () => {
	const { page, leave } = await visit(base, '?view=both');
	const box = await boxOf(page, 'serve');
	await page.locator(`${id('table')} .tr`, { hasText: 'sweep' }).hover();
	await page.waitForFunction(() => window.__wick.flame.pointedName === 'sweep');
	await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
	await page.waitForFunction((s) => document.querySelector(`${s} .tr.pointed .fn`)?.textContent === 'serve', id('table'));
	await page.waitForFunction(() => window.__wick.flame.pointedName === null);
	await page.mouse.click(box.x + box.width / 2, box.y + box.height / 2);
	await page.waitForFunction((s) => document.querySelector(`${s} .tr.active .fn`)?.textContent === 'serve', id('table'));
	for (const view of ['both', 'sandwich', 'calls']) {
		await page.click(id(`view-${view}`));
		if (view === 'calls') await callsDrawn(page, 'copy');
		else await boxOf(page, 'serve', view === 'both' ? 'flame' : 'callers');
		await page.click(id('download'));
		const { name, bytes } = await savedFrom(page, 'download-png');
		await page.keyboard.press('Escape');
		await page.locator(id('download-png')).waitFor({ state: 'detached' });
		assert.match(name, /\.png$/);
		assert.equal(bytes.subarray(1, 4).toString(), 'PNG', view);
		const [width, height] = [bytes.readUInt32BE(16), bytes.readUInt32BE(20)];
		assert.ok(width > 300 && height >= 60, `${view}: ${width}x${height}`);
	}
	await leave();
});

test('sums that do not fit into 64 bits are told, and only those', options, async () => {
	const body = `main;much ${2n ** 63n - 1n}\nmain;more 5\n`;
	const sent = await fetch(new URL('api/v1/ingest?name=huge&format=folded', base), { method: 'POST', body });
	assert.equal(sent.status, 200, await sent.text());
	const { page, leave } = await visit(base, '?q=huge&view=graph');
	await drawn(page);
	assert.equal(await page.locator(id('sums-saturated')).innerText(), 'sums exceed 64 bits');
	await page.goto(new URL('?q=huge+%7C+top+5&view=console&run=huge+%7C+top+5', base).href);
	await page.waitForFunction(() => document.body.innerText.includes('Sums exceed 64 bits'));
	await page.goto(new URL('?q=process_cpu&view=graph', base).href);
	await drawn(page);
	assert.equal(await page.locator(id('sums-saturated')).count(), 0);
	await leave();
});
