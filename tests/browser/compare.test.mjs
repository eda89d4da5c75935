// SPDX-License-Identifier: Apache-2.0
/*
 * Compares on the page what is known to differ: service `beacon` of the generated fleet before and after its deploy, and its pod that is not
 * like the others. What is expected are the numbers of bench/fleet/truth.c, and nothing that the page or the server has summed.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
	base,
	beginning,
	boxOf,
	checkWidth,
	colorAt,
	come,
	deploy,
	end,
	id,
	LOOKS,
	options,
	picture,
	settled,
	urlHas,
	visit,
	zoomIs,
} from '../lib/browser.mjs';

const BEACON = 'process_cpu{service_name="beacon"}';
// Samples of a pod and flush before and after, of ten pods; a flush is 10 s, a sample 1/19 s.
const PODS = 10;
const cores = (samples) => ((samples * PODS) / 19 / 10).toFixed(2);
const SINCE_DEPLOY = {
	hash_key: [12, 24, 'more'],
	compress: [10, 0, 'gone'],
	validate_utf8: [0, 6, 'new'],
	tcp_recvmsg: [10, 7, 'less'],
};
const AS_BEFORE = { escape_html: 40, parse_request: 10, lookup: 8, is_space: 5, render_page: 5, spin_wait: 5 };

const at = (params) => `?${new URLSearchParams(params)}`;
const sinceDeploy = (more = {}) => at({ view: 'compare', q: BEACON, from: deploy, to: end, bfrom: deploy - (end - deploy), bto: deploy, ...more });

const row = (page, name) => page.locator(`${id('compare-table')} [data-function="${name}"]`);
const cell = (page, name, column) => row(page, name).locator(`.td-${column}`);
const functions = (page) => page.locator(`${id('compare-table')} [data-function]`).evaluateAll((rows) => rows.map((r) => r.dataset.function));

// The colour of a box, near its upper right corner.
async function colorOf(page, name) {
	const box = await boxOf(page, name);
	return colorAt(page, 'flame', [box.x + box.width - 3, box.y + 3]);
}
const isOrange = ([r, , b]) => r - b > 20;
const isBlue = ([r, , b]) => b - r > 20;

test('what changed since the deploy: from the profile to the functions that did', options, async () => {
	const { page, url, leave } = await visit(base, at({ q: BEACON, from: deploy, to: end }));
	await page.locator(id('compare-with')).click();
	await page.locator(id('compare-just')).click();
	await row(page, 'hash_key').waitFor();
	await settled(page);
	assert.equal(url().get('view'), 'compare');
	for (const [name, [before, after, state]] of Object.entries(SINCE_DEPLOY)) {
		assert.equal(await cell(page, name, 'base').innerText(), before ? cores(before) : '–', name);
		assert.equal(await cell(page, name, 'head').innerText(), after ? cores(after) : '–', name);
		assert.match(await cell(page, name, 'state').innerText(), new RegExp(state), name);
		assert.match(await cell(page, name, 'change').innerText(), /^[+−]0\.\d+\s+± 0\.0\d+$/, `${name} with its interval`);
	}
	for (const [name, samples] of Object.entries(AS_BEFORE)) {
		assert.deepEqual([await cell(page, name, 'base').innerText(), await cell(page, name, 'head').innerText()], [cores(samples), cores(samples)], name);
		assert.match(await cell(page, name, 'state').innerText(), /noise/, name);
	}
	assert.deepEqual((await functions(page)).slice(0, 4), Object.keys(SINCE_DEPLOY), 'the largest change first');
	assert.equal(await cell(page, 'hash_key', 'percent').innerText(), '+100%');
	assert.match(await page.locator(id('sum-base')).innerText(), new RegExp(`^${cores(105)} cores`), '100 samples a pod, and 50 of the odd one');
	assert.match(await page.locator(id('sum-head')).innerText(), new RegExp(`^${cores(110)} cores`));
	assert.match(await page.locator(id('sum-change')).innerText(), /^\+0\.26 \+4\.8%\s*95% interval: \+0\.2\d to \+0\.\d\d$/);
	assert.match(await page.locator(id('sum-states')).innerText(), /1 new\s*1 gone\s*1 more\s*1 less/);
	await leave();
});

test('the graph shows it in colours, tells it in figures, and zooms', options, async () => {
	const { page, url, leave } = await visit(base, sinceDeploy());
	await boxOf(page, 'hash_key');
	await settled(page);
	assert.ok(isOrange(await colorOf(page, 'hash_key')), 'more is orange');
	assert.ok(isOrange(await colorOf(page, 'validate_utf8')), 'new is orange');
	assert.ok(isBlue(await colorOf(page, 'compress')), 'gone is blue');
	assert.ok(isBlue(await colorOf(page, 'tcp_recvmsg')), 'less is blue');
	const grey = await colorOf(page, 'escape_html');
	assert.ok(!isOrange(grey) && !isBlue(grey), `within the noise is grey, not ${grey}`);

	let box = await boxOf(page, 'hash_key');
	await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
	const tip = page.locator('.tip');
	await tip.waitFor();
	assert.match(await tip.innerText(), /hash_key[^]*more[^]*Total\s+0\.63\s+1\.26\s+\+0\.63 \+100%\s+\+0\.6\d to \+0\.6\d/);
	await page.mouse.click(box.x + box.width / 2, box.y + box.height / 2);
	await zoomIs(page, 'hash_key');
	assert.ok(url().get('zoom'));
	await page.goBack();
	await zoomIs(page, 'total');

	// By the head's widths what is gone has none; by the base's, what is new.
	await page.locator(id('compare-width')).selectOption('head');
	await page.waitForFunction(() => window.__wick.flame.nodeAt('compress') === null);
	await boxOf(page, 'validate_utf8');
	await page.locator(id('compare-width')).selectOption('base');
	await page.waitForFunction(() => window.__wick.flame.nodeAt('validate_utf8') === null);
	box = await boxOf(page, 'compress');
	assert.ok(box.width > 10);

	// The keyboard: to the root, down to the costliest, read out.
	await page.locator(id('flame')).focus();
	await page.keyboard.press('Home');
	await page.waitForFunction(() => window.__wick.flame.focusName === 'total');
	await page.keyboard.press('ArrowDown');
	await page.waitForFunction(() => window.__wick.flame.focusName === 'main');
	const focused = `${id('flame')} [role="treeitem"][aria-selected="true"]`;
	await come(page, (selector) => document.querySelector(selector)?.textContent.startsWith('main, base'), focused);
	assert.match(await page.locator(focused).innerText(), /^main, base 5\.53, head 5\.79, change \+0\.26, more$/);
	await leave();
});

test('the table is filtered, sorted and linked with the graph, and all is in the URL', options, async () => {
	const { page, url, leave } = await visit(base, sinceDeploy());
	await row(page, 'hash_key').waitFor();
	await settled(page);
	await page.locator(id('only-new')).click();
	await page.waitForFunction((selector) => document.querySelectorAll(selector).length === 1, `${id('compare-table')} [data-function]`);
	assert.deepEqual(await functions(page), ['validate_utf8']);
	await page.locator(id('only-gone')).click();
	await row(page, 'compress').waitFor();
	assert.equal(url().get('only'), 'new,gone');
	await page.reload();
	await row(page, 'compress').waitFor();
	assert.deepEqual((await functions(page)).sort(), ['compress', 'validate_utf8']);
	await page.locator(id('only-new')).click();
	await page.locator(id('only-gone')).click();
	await row(page, 'escape_html').waitFor();

	await page.locator(id('order-head')).click();
	await urlHas(page, 'order', 'head');
	await come(page, (selector) => document.querySelector(selector).dataset.function === 'escape_html', `${id('compare-table')} [data-function]`);
	assert.deepEqual((await functions(page)).slice(0, 2), ['escape_html', 'hash_key']);
	await page.locator(id('of-total')).click();
	await row(page, 'handle_request').waitFor();
	assert.match(await cell(page, 'handle_request', 'state').innerText(), /more/);
	await page.locator(id('compare-filter')).fill('lookup');
	await row(page, 'main').waitFor({ state: 'detached' });
	assert.deepEqual(await functions(page), ['lookup']);

	await row(page, 'lookup').click();
	await urlHas(page, 'find', '"lookup"');
	await come(page, (selector) => document.querySelector(selector).textContent !== '', id('flame-matched'));
	assert.equal(await page.locator(id('flame-matched')).innerText(), `${cores(20)} → ${cores(32)}`);
	await page.locator(id('relative')).click();
	await come(page, (selector) => document.querySelector(selector).textContent.includes('%'), id('flame-matched'));
	assert.equal(await page.locator(id('flame-matched')).innerText(), `${((100 * 20) / 105).toFixed(1)}% → ${((100 * 32) / 110).toFixed(1)}%`);
	await leave();
});

test('side by side, the two graphs point and zoom together', options, async () => {
	const { page, leave } = await visit(base, sinceDeploy({ show: 'sides' }));
	const left = await boxOf(page, 'lookup', 'base');
	const right = await boxOf(page, 'lookup', 'head');
	await settled(page);
	assert.ok(left.x + left.width < right.x);
	// 20 of 105 samples, and 32 of 110.
	assert.ok(Math.abs(right.width / left.width - 32 / 110 / (20 / 105)) < 0.02, `${left.width} and ${right.width}`);
	assert.equal(await page.evaluate(() => window.__wick.head.nodeAt('compress')), null, 'what is gone is on one side only');
	await page.mouse.move(left.x + left.width / 2, left.y + left.height / 2);
	await page.waitForFunction(() => window.__wick.head.hoverName === 'lookup' && window.__wick.base.hoverName === 'lookup');
	await page.mouse.click(left.x + left.width / 2, left.y + left.height / 2);
	await zoomIs(page, 'lookup', 'base');
	await zoomIs(page, 'lookup', 'head');
	await page.keyboard.press('Escape');
	await zoomIs(page, 'total', 'head');
	await page.locator(id('flame-search')).fill('hash_key');
	await come(page, (selector) => document.querySelector(selector).textContent !== '', id('flame-matched'));
	assert.equal(await page.locator(id('flame-matched')).innerText(), `${cores(12)} → ${cores(24)}`);
	await leave();
});

test('which pod differs: one value of the list with all others', options, async () => {
	const { page, url, leave } = await visit(base, at({ q: BEACON, from: deploy, to: end, by: 'k8s_pod_name' }));
	const entry = page.locator(`${id('process-list')} li`).filter({ hasText: 'beacon-7' });
	await entry.waitFor();
	await settled(page);
	await entry.hover();
	await entry.locator(id('rail-compare')).click();
	await row(page, 'spin_wait').waitFor();
	await settled(page);
	assert.match(url().get('base'), /k8s_pod_name!="beacon-7"/);
	assert.match(url().get('q'), /k8s_pod_name="beacon-7"/);
	assert.equal((await functions(page))[0], 'spin_wait');
	assert.match(await cell(page, 'spin_wait', 'state').innerText(), /new/);
	assert.equal(await cell(page, 'spin_wait', 'head').innerText(), `${((100 * 50) / 155).toFixed(1)}%`);
	assert.match(await cell(page, 'spin_wait', 'change').innerText(), /points\s+± \d/);
	// In absolute terms nine pods are more than one; what only the one has is new all the same.
	await page.locator(id('absolute')).click();
	await come(page, (selector) => document.querySelector(selector).textContent === '0.26', `${id('compare-table')} [data-function="spin_wait"] .td-head`);
	assert.equal(await cell(page, 'spin_wait', 'head').innerText(), (50 / 19 / 10).toFixed(2));
	assert.match(await cell(page, 'escape_html', 'state').innerText(), /less/);
	await leave();
});

test('one version with another: the list, while one is shown alone', options, async () => {
	const { page, url, leave } = await visit(base, at({ q: BEACON, from: beginning, to: end, by: 'service_version' }));
	const entry = (version) => page.locator(`${id('process-list')} li`).filter({ hasText: version });
	await entry('1.1.0').locator('.rail-name').click();
	await page.locator(`${id('process-list')} li.chosen`).waitFor();
	await settled(page);
	await entry('1.0.0').hover();
	await entry('1.0.0').locator(id('rail-compare')).click();
	await row(page, 'hash_key').waitFor();
	await settled(page);
	assert.match(url().get('base'), /service_version="1\.0\.0"/);
	assert.match(url().get('q'), /service_version="1\.1\.0"/);
	for (const [name, [before, after, state]] of Object.entries(SINCE_DEPLOY)) {
		const shares = [before / 105, after / 110].map((share) => (share ? `${(100 * share).toFixed(100 * share < 9.995 ? 2 : 1)}%` : '–'));
		assert.deepEqual([await cell(page, name, 'base').innerText(), await cell(page, name, 'head').innerText()], shares, name);
		assert.match(await cell(page, name, 'state').innerText(), new RegExp(state), name);
	}
	await leave();
});

test('two spans of the graph over time, by pointer and by keyboard', options, async () => {
	const { page, url, leave } = await visit(base, at({ view: 'compare', q: BEACON, from: beginning, to: end, before: '0' }));
	await page.locator(id('compare-same')).waitFor();
	const drag = async (from, to) => {
		const spans = await page.locator(id('compare-spans')).boundingBox();
		const [x, y] = [(share) => spans.x + spans.width * share, spans.y + spans.height / 2];
		await page.mouse.move(x(from), y);
		await page.mouse.down();
		await page.mouse.move(x((from + to) / 2), y, { steps: 3 });
		await page.mouse.move(x(to), y, { steps: 3 });
		await page.mouse.up();
	};
	// Of three hours, the deploy is after the second.
	await drag(0.7, 0.95);
	await page.waitForFunction(() => new URLSearchParams(location.search).has('sel'));
	await page.locator(id('drag-base')).click();
	await drag(0.05, 0.3);
	await page.waitForFunction(() => new URLSearchParams(location.search).has('bfrom'));
	await row(page, 'hash_key').waitFor();
	await settled(page);
	const [from, to] = url().get('sel').split('-').map(Number);
	assert.ok(from > deploy && to < end && Number(url().get('bto')) < deploy, page.url());
	assert.match(await cell(page, 'hash_key', 'state').innerText(), /more/);
	assert.match(await cell(page, 'validate_utf8', 'state').innerText(), /new/);
	const was = url().get('bfrom');
	await page.locator(id('compare-spans')).focus();
	await page.keyboard.press('ArrowRight');
	await page.waitForFunction((w) => new URLSearchParams(location.search).get('bfrom') > w, was);
	await page.goBack();
	await urlHas(page, 'bfrom', was);
	await leave();
});

test('swapped, more is less; equal sides, other types and nothing at all are said', options, async () => {
	const { page, url, leave } = await visit(base, sinceDeploy());
	await row(page, 'hash_key').waitFor();
	await settled(page);
	await page.keyboard.press('x');
	await come(page, (selector) => /less/.test(document.querySelector(selector)?.textContent), `${id('compare-table')} [data-function="hash_key"] .td-state`);
	assert.match(await cell(page, 'hash_key', 'state').innerText(), /less/);
	assert.match(await cell(page, 'compress', 'state').innerText(), /new/);
	assert.equal(url().get('bfrom'), String(deploy));

	await page.locator(id('compare-when')).selectOption('0');
	await page.locator(id('compare-same')).waitFor();
	await page.goto(new URL(at({ view: 'compare', q: BEACON, from: deploy, to: end, base: 'memory:inuse_space{}' }), base).href);
	await page.locator(id('compare-types')).waitFor();
	assert.match(await page.locator(id('compare-types')).innerText(), /memory · inuse_space[^]*process_cpu · cpu/);
	await page.goto(new URL(at({ view: 'compare', q: BEACON, from: deploy, to: end }), base).href);
	const nothing = page.locator(id('compare-nothing'));
	await nothing.waitFor();
	assert.match(await nothing.innerText(), /Nothing in the base[^]*beacon/);
	await nothing.getByRole('button', { name: 'Just before' }).click();
	await row(page, 'hash_key').waitFor();
	// The data begin in the middle of the base.
	await page.goto(new URL(at({ view: 'compare', q: BEACON, from: deploy, to: end, bfrom: beginning - 3600e3, bto: beginning + 3600e3 }), base).href);
	await page.locator(id('compare-warning')).waitFor();
	assert.match(await page.locator(id('compare-warning')).innerText(), /^Base: data starts at/);
	assert.equal(await cell(page, 'escape_html', 'base').innerText(), cores(40 / 2));
	await page.goto(new URL(at({ view: 'compare', q: 'process_cpu{service_name="no such"}', from: deploy, to: end, before: '1h' }), base).href);
	await nothing.waitFor();
	assert.match(await nothing.innerText(), /Nothing on either side/);
	await leave();
});

test('from the start page, a change leads to the comparison', options, async () => {
	// Without data of a day before there would be no change to tell.
	const then = Math.floor(Date.now() / 1000) - 86400 - 1800;
	const query = new URLSearchParams({ name: 'beacon', from: then, until: then + 10, format: 'folded', sampleRate: 100 });
	const sent = await fetch(new URL(`ingest?${query}`, base), { method: 'POST', body: 'main;old 1000' });
	assert.equal(sent.status, 200);
	const { page, url, leave } = await visit(base, '');
	const change = page.locator(`${id('home-movers')} .change-link`).first();
	await change.waitFor();
	await change.click();
	await page.locator(id('compare')).waitFor();
	assert.equal(url().get('before'), '1d');
	await page.locator(id('nav-profile')).click();
	await page.locator(id('compare')).waitFor({ state: 'detached' });
	assert.deepEqual([url().get('before'), url().get('view')], [null, null], 'what belongs to the comparison goes');
	await leave();
});

test('hostile names are shown as text, harmless', options, async () => {
	const long = `std::vector<${'std::pair<int, '.repeat(200)}int${'>'.repeat(200)}>::push_back(${'x'.repeat(6000)})`;
	const deep = Array.from({ length: 4000 }, (_, i) => `f${i}`).join(';');
	const stacks = (script, turned, deepest) =>
		`main;<script>alert(1)</script> ${script}\nmain;\u202Egnitpurroc\u202C ${turned}\nmain;a\u0001b 300\nmain;${long} 700\n${deep} ${deepest}\n`;
	for (const [side, body] of [
		['a', stacks(10, 500, 400)],
		['b', stacks(300, 20, 80)],
	]) {
		const response = await fetch(new URL(`api/v1/ingest?${new URLSearchParams({ format: 'folded', name: 'hostile', label: `side=${side}` })}`, base), {
			method: 'POST',
			body,
		});
		assert.equal(response.status, 200, await response.text());
	}
	const type = 'hostile:samples:count::';
	const { page, leave } = await visit(base, at({ view: 'compare', q: `${type}{side="b"}`, base: `${type}{side="a"}` }));
	await row(page, '<script>alert(1)</script>').waitFor();
	await settled(page);
	assert.match(await cell(page, '<script>alert(1)</script>', 'name').innerText(), /^<script>alert\(1\)<\/script>/);
	assert.match(await cell(page, '<script>alert(1)</script>', 'percent').innerText(), /^×30/);
	assert.match(await page.locator(id('compare-table')).innerText(), /\ufffdgnitpurroc\ufffd[^]*a\ufffdb/);
	assert.match(await cell(page, 'f3999', 'state').innerText(), /less/);
	await row(page, 'f3999').click();
	await page.waitForFunction((selector) => document.querySelector(selector).textContent.includes('→'), id('flame-matched'));
	await page.locator(id('flame-search')).press('Enter');
	await page.waitForFunction(() => window.__wick.flame.focusName === 'f3999');
	await boxOf(page, 'f3999');
	await leave();
});

for (const [look, how] of LOOKS)
	test(`everything is in reach: ${look}`, options, async () => {
		const { page, leave } = await visit(base, sinceDeploy(), how);
		await boxOf(page, 'hash_key');
		await settled(page);
		await checkWidth(page, 'a comparison');
		await picture(page, `compare-${look}`);
		await page.locator(id('show-table')).click();
		await row(page, 'hash_key').waitFor();
		await page.locator(id('show-sides')).click();
		await boxOf(page, 'hash_key', 'head');
		await picture(page, `compare-sides-${look}`);
		await leave();
	});
