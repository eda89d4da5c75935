// SPDX-License-Identifier: Apache-2.0
/*
 * A person who knows no key finds the list of them, looks one up, and uses it.
 *
 *   WICK_URL   a server without data; a profile is pushed to it
 */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { base, begun, boxAt, checkAccess, checkWidth, drawn, id, options, PHONE, picture, settled, visit } from '../lib/browser.mjs';
import { pushStacks } from '../lib/stacks.mjs';

before(async () => {
	if (!base) return;
	await pushStacks(base, [
		['main;serve;parse', 60],
		['main;serve;render', 30],
		['main;idle', 10],
	]);
});

const list = (page) => page.locator(id('keys-list'));
// What the list says is pressed for something, as the caps of each key.
const capsFor = (page, what) =>
	list(page)
		.locator('dl > div', { has: page.getByText(what, { exact: true }) })
		.first()
		.locator('dt > span')
		.evaluateAll((keys) => keys.map((key) => [...key.querySelectorAll('kbd')].map((cap) => cap.textContent)));

test('? lists the keys of the view, finds one, and Escape leads back to where one was', options, async () => {
	const { page, url, leave } = await visit(base, '?view=both');
	await drawn(page);
	await page.mouse.click(...(await boxAt(page, 'serve')));
	await page.waitForFunction(() => window.__wick.flame.zoomName === 'serve');
	await page.focus(id('flame'));
	await page.keyboard.press('?');
	await list(page).waitFor();
	assert.equal(await page.evaluate(() => document.activeElement.dataset.testid), 'keys-find');
	await checkAccess(page, 'the list of keys');
	await picture(page, 'keys');
	const whole = await list(page).locator('dl > div').count();
	assert.ok(whole > 60);
	await page.fill(id('keys-find'), 'focus on the function');
	await page.waitForFunction(() => document.querySelectorAll('[data-testid="keys-list"] dl > div').length === 1);
	assert.deepEqual(await capsFor(page, 'focus on the function'), [['f']]);
	await page.fill(id('keys-find'), 'no such thing');
	await list(page).getByRole('status').waitFor();
	// The focus stays in the list.
	for (let i = 0; i < 6; i++) {
		await page.keyboard.press('Tab');
		assert.equal(
			await page.evaluate(() => document.activeElement === document.body || document.activeElement.closest('[data-testid="keys-list"]') !== null),
			true,
		);
	}
	await page.focus(id('keys-find'));
	await page.keyboard.press('Escape');
	await list(page).waitFor({ state: 'detached' });
	await page.waitForFunction(() => document.activeElement?.dataset.testid === 'flame');
	assert.notEqual(url().get('zoom'), null, 'what was zoomed into still is');
	// What was found does what was said.
	await page.keyboard.press('f');
	await page.waitForSelector(id('step-ff'));
	await leave();
});

test('keys do nothing to the page behind the list', options, async () => {
	const { page, leave } = await visit(base, '?view=both');
	await drawn(page);
	const asked = [];
	page.on('request', (request) => asked.push(request.url()));
	await page.click(id('keys'));
	await list(page).waitFor();
	await page.focus(id('keys-close'));
	for (const key of ['r', 'i', '/', 's']) await page.keyboard.press(key);
	await page.keyboard.press('Enter');
	await list(page).waitFor({ state: 'detached' });
	await page.waitForFunction(() => document.activeElement?.dataset.testid === 'keys');
	await settled(page);
	assert.deepEqual(
		asked.filter((request) => !request.includes('/status')),
		[],
	);
	assert.equal(new URL(page.url()).search, '?view=both');
	await leave();
});

test('each view lists what it has', options, async () => {
	const views = {
		'': [],
		'?view=home': [],
		'?view=profile': ['graph', 'steps', 'table', 'filter', 'chart'],
		'?view=compare': ['compare', 'spans', 'graph'],
		'?view=console': ['console', 'rows'],
		'?view=source&function=parse': ['ofListing', 'listing'],
		'?view=status': [],
		'?view=binaries': [],
		'?view=recordings': [],
	};
	const { page, leave } = await visit(base, 'about:blank');
	for (const [query, parts] of Object.entries(views)) {
		await page.goto(new URL(query, base).href);
		await page.waitForSelector(id('keys'));
		await begun(page);
		await page.keyboard.press('?');
		await list(page).waitFor();
		const shown = await list(page)
			.locator('section')
			.evaluateAll((all) => all.map((one) => one.dataset.testid.slice('keys-'.length)));
		assert.deepEqual(
			['page', ...parts].filter((part) => !shown.includes(part)),
			[],
			query,
		);
		if (parts.length === 0) assert.ok(!shown.includes('graph'), query);
	}
	await leave(/console: .*404/);
});

test('on a phone the button opens it, it fits, and a press beside it closes it', options, async () => {
	for (const colorScheme of ['light', 'dark']) {
		const { page, leave } = await visit(base, '?view=profile', { viewport: PHONE, colorScheme });
		await settled(page);
		await page.tap(id('keys'));
		await list(page).waitFor();
		const box = await list(page).boundingBox();
		assert.ok(box.x >= 0 && box.x + box.width <= PHONE.width && box.y >= 0 && box.y + box.height <= PHONE.height, JSON.stringify(box));
		await checkWidth(page, 'the list of keys');
		await checkAccess(page, 'the list of keys on a phone');
		await picture(page, `keys-phone-${colorScheme}`);
		await page.touchscreen.tap(5, 5);
		await list(page).waitFor({ state: 'detached' });
		await leave();
	}
});
