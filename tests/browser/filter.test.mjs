// SPDX-License-Identifier: Apache-2.0
/*
 * What functions that are called cost: a person filters by functions, as by labels, and profile, list, graph over time, comparison and
 * downloads are those of the stacks that have them. What must be shown is summed here from the stacks that are pushed.
 *
 *   WICK_URL   a server without data
 */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { base, begun, checkAccess, checkWidth, drawn, id, options, PHONE, picture, settled, visit } from '../lib/browser.mjs';
import { PERIOD, pushStacks } from '../lib/stacks.mjs';

const STACKS = {
	shop: [
		['main;serve;parse;malloc', 300],
		['main;serve;render;malloc', 200],
		['main;serve;render', 250],
		['main;idle', 50],
	],
	bank: [
		['main;pay;malloc_usable_size', 70],
		['main;pay;sign', 40],
		['main;operator new(unsigned long);malloc', 30],
	],
};
const has = (stack, wanted) => stack.split(';').some((name) => (typeof wanted === 'string' ? name === wanted : wanted.test(name)));
const sum = (wanted, service) =>
	Object.entries(STACKS)
		.filter(([name]) => !service || name === service)
		.flatMap(([, stacks]) => stacks)
		.filter(([stack]) => wanted(stack))
		.reduce((all, [, count]) => all + count * PERIOD, 0);

before(async () => {
	if (!base) return;
	for (const [service_name, stacks] of Object.entries(STACKS)) await pushStacks(base, stacks, { service_name });
});

const chips = (page) =>
	page
		.locator(`.query ${id('chip')} .chip-text`)
		.allInnerTexts()
		.then((all) => all.map((text) => text.replace(/\s+/g, ' ')));
// The total that the graph's root tells.
const total = (page) => page.evaluate(() => document.querySelector('[data-testid="flame"] [role="treeitem"]')?.textContent ?? '');
// What the page asks for the profile after an action, and what the server answers to that in a form that is read here.
const asked = async (page, act) => {
	const isIt = (request) => new URL(request.url()).pathname.endsWith('/api/v1/query') && new URL(request.url()).searchParams.get('query').includes('frames');
	const [request] = await Promise.all([page.waitForRequest(isIt), act()]);
	const again = new URL(request.url());
	again.searchParams.set('format', 'flame');
	return (await fetch(again)).json();
};

test('part of a name is typed, and a function chosen: all of the page is of the stacks that have it', options, async () => {
	const { page, url, leave } = await visit(base, '?view=both&by=service_name');
	await drawn(page);
	await page.fill(id('filter-input'), 'mallo');
	const option = page.getByRole('option', { name: /^malloc\s*function$/ });
	await option.waitFor();
	await picture(page, 'filter-functions');
	const [profile, series] = [asked(page, () => option.click()), page.waitForResponse((r) => r.url().includes('/api/v1/series') && r.url().includes('frames'))];
	assert.equal(
		(await profile).total,
		sum((stack) => has(stack, 'malloc')),
	);
	const rows = (await (await series).json()).series;
	for (const [service] of Object.entries(STACKS))
		assert.equal(
			rows.find((row) => row.labels.service_name === service).total,
			sum((stack) => has(stack, 'malloc'), service),
			service,
		);
	await settled(page);
	await page.waitForFunction(() => !window.__wick.flame.nodeAt('idle') && window.__wick.flame.nodeAt('malloc'));
	assert.deepEqual(await chips(page), ['stacks with malloc']);
	assert.match(url().get('q'), /\| frames = "malloc"$/);
	await page.click(id('download'));
	const download = await (await fetch(new URL(await page.locator(id('download-folded')).getAttribute('href'), base))).text();
	await page.keyboard.press('Escape');
	await page.locator(id('download-folded')).waitFor({ state: 'detached' });
	assert.ok(download.includes('malloc') && !download.includes('idle'), download);
	await checkAccess(page, 'stacks with a function');

	// Turned round, by the text of the query; and back, by the browser's button.
	await page.click(id('selector-toggle'));
	await page.fill(id('selector-input'), (await page.inputValue(id('selector-input'))).replace('frames =', 'drop frames ='));
	assert.equal(
		(await asked(page, () => page.press(id('selector-input'), 'Enter'))).total,
		sum((stack) => !has(stack, 'malloc')),
	);
	await page.click(id('selector-toggle'));
	await page.waitForFunction(() => document.querySelector('.query [data-testid="chip"]')?.textContent.includes('without'));
	await settled(page);
	await page.waitForFunction(() => window.__wick.flame.nodeAt('idle') && !window.__wick.flame.nodeAt('malloc'));
	await page.goBack();
	await page.waitForFunction(() => window.__wick.flame.nodeAt('malloc') && !window.__wick.flame.nodeAt('idle'));
	assert.deepEqual(await chips(page), ['stacks with malloc']);
	assert.match(await total(page), /./);
	await leave();
});

test('what is typed is searched for as it is, or as a regular expression', options, async () => {
	const { page, url, leave } = await visit(base, '?view=graph');
	await drawn(page);
	const type = async (text, key) => {
		await page.fill(id('filter-input'), text);
		await begun(page);
		return page.press(id('filter-input'), key);
	};
	// Brackets and dots of a name are no expression.
	await page.fill(id('filter-input'), 'new(unsigned');
	const like = page.getByRole('option', { name: /^“new\(unsigned”/ });
	await like.waitFor();
	assert.equal(
		(await asked(page, () => like.click())).total,
		sum((stack) => has(stack, /new\(unsigned/)),
	);
	assert.match(url().get('q'), /frames =~ "new\\\\\(unsigned"$/);
	await page.locator(`.query ${id('chip')} .chip-x`).click();
	await page.waitForFunction(() => window.__wick.flame.nodeAt('idle'));
	// By hand, with the keyboard alone.
	await type('frames!~', 'End');
	await page.waitForFunction(() => document.querySelector('.draft')?.textContent.includes('!~'));
	await page.fill(id('filter-input'), '^(malloc|si.n)$');
	assert.equal(
		(await asked(page, () => page.press(id('filter-input'), 'Enter'))).total,
		sum((stack) => !has(stack, /^(malloc|si.n)$/)),
	);
	await settled(page);
	assert.deepEqual(await chips(page), ['stacks not matching ^(malloc|si.n)$']);
	await leave();
});

test('a comparison is of the same stacks on both sides', options, async () => {
	const { page, leave } = await visit(base, `?view=profile&q=${encodeURIComponent('process_cpu{service_name="shop"} | frames = "malloc"')}`);
	await drawn(page);
	const queries = [];
	page.on('request', (request) => request.url().includes('/api/v1/query?') && queries.push(new URL(request.url()).searchParams.get('query')));
	await page.click(id('compare-with'));
	await page.click(id('compare-other'));
	await page.waitForSelector(id('compare'));
	await page.goto(
		new URL(
			`?view=compare&before=0&base=${encodeURIComponent('process_cpu{service_name="bank"} | frames = "malloc"')}&q=${encodeURIComponent('process_cpu{service_name="shop"} | frames = "malloc"')}`,
			base,
		).href,
	);
	await page.waitForFunction(() => window.__wick?.flame?.nodeAt('malloc'));
	await settled(page);
	assert.equal(queries.filter((query) => query.includes('bank') && query.endsWith('| frames = "malloc"')).length, 1);
	assert.equal(queries.filter((query) => query.includes('shop') && query.endsWith('| frames = "malloc"')).length, 1);
	assert.equal(await page.locator(`${id('compare')} ${id('chip')}`, { hasText: 'stacks with' }).count(), 2);
	await leave();
});

test('on a phone, and when nothing is left', options, async () => {
	const { page, leave } = await visit(base, `?view=profile&q=${encodeURIComponent('process_cpu | frames = "malloc" | frames = "no such function"')}`, {
		viewport: PHONE,
		colorScheme: 'dark',
	});
	await settled(page);
	assert.deepEqual(await chips(page), ['stacks with malloc', 'stacks with no such function']);
	await checkWidth(page, 'two filters by functions');
	await checkAccess(page, 'nothing is left');
	await picture(page, 'filter-nothing-phone');
	await page
		.locator(`.query ${id('chip')} .chip-x`)
		.last()
		.click();
	await page.waitForFunction(() => window.__wick?.flame?.nodeAt('malloc'));
	await leave();
});
