// SPDX-License-Identifier: Apache-2.0
/*
 * What a person sees who opens the page minutes after the server has started.
 *
 *   WICK_URL   a server without data
 */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { base, DESKTOP, drawn, id, options, PHONE, picture, settled, visit } from '../lib/browser.mjs';
import { pushStacks } from '../lib/stacks.mjs';

const STACKS = [
	['main;serve;parse;malloc', 300],
	['main;serve;render', 250],
	['main;idle', 50],
];
// A profile each ten seconds of the last three minutes.
const BEGIN = Math.floor(Date.now() / 1000) * 1000 - 180_000;

before(async () => {
	if (!base) return;
	for (let ms = BEGIN; ms < BEGIN + 180_000; ms += 10_000) await pushStacks(base, STACKS, { service_name: 'shop' }, ms);
});

// The ranges that the page has asked a call for.
const rangesOf = (page, call) => {
	const ranges = [];
	page.on('request', (request) => {
		const { pathname, searchParams } = new URL(request.url());
		if (pathname.endsWith(`/api/v1/${call}`)) ranges.push([searchParams.get('from'), searchParams.get('to')]);
	});
	return ranges;
};

test('the last hour is the three minutes that there are', options, async () => {
	const asked = {};
	const { page, url, leave } = await visit(base, '?view=both', {
		prepare: (one) => {
			for (const call of ['series', 'query']) asked[call] = rangesOf(one, call);
		},
	});
	await drawn(page);
	await settled(page);
	for (const call of ['series', 'query']) {
		assert.ok(asked[call].length > 0);
		for (const range of asked[call]) assert.deepEqual(range, [String(BEGIN), 'now'], call);
	}
	assert.equal(url().get('from'), null, 'the link still means the last hour');
	assert.match(await page.locator(`${id('range-select')} option:checked`).innerText(), /^Last hour, data since (\d{1,2} \w{3} )?\d\d:\d\d$/);
	assert.equal(await page.locator(id('no-data-before')).count(), 0);
	await picture(page, 'first-clipped');
	await leave();
});

test('a range that somebody chose stays, and its empty part says so', options, async () => {
	const from = BEGIN - 1800_000;
	const asked = {};
	const { page, leave } = await visit(base, `?view=both&from=${from}&to=${BEGIN + 180_000}`, {
		prepare: (one) => (asked.series = rangesOf(one, 'series')),
	});
	await drawn(page);
	const note = page.locator(id('no-data-before'));
	await note.waitFor();
	assert.match(await note.innerText(), /^No data before .*\d\d:\d\d$/);
	for (const range of asked.series) assert.equal(range[0], String(from));
	const [plot, box] = [await page.locator(id('metrics')).boundingBox(), await note.boundingBox()];
	assert.ok(box.width > plot.width * 0.7, 'it is as wide as what is empty');
	await leave();
});

const SCREENS = [
	['1440x900', DESKTOP],
	['390x844', PHONE],
];

for (const [name, viewport] of SCREENS) {
	test(`the start page shows a flame graph on the first screen of ${name}`, options, async () => {
		const { page, url, leave } = await visit(base, '', { viewport });
		await drawn(page);
		await settled(page);
		const box = await page.locator(id('flame')).boundingBox();
		assert.ok(box.y >= 0 && box.y + box.height <= viewport.height, `from ${box.y} to ${box.y + box.height}`);
		assert.ok(box.width * box.height > 0.2 * viewport.width * viewport.height, `${box.width} x ${box.height}`);
		assert.deepEqual([...url()], []);
		await picture(page, `first-home-${name}`);
		// What is zoomed into goes along to the profile.
		await page.evaluate(() => document.querySelector('[data-testid="flame"]').focus());
		for (const key of ['ArrowDown', 'ArrowDown', 'Enter']) await page.keyboard.press(key);
		await page.waitForFunction(() => window.__wick.flame.zoomName === 'serve');
		await page.locator(id('home-profile')).click();
		await page.locator(id('view-graph')).waitFor();
		await page.waitForFunction(() => window.__wick?.flame.zoomName === 'serve');
		await leave();
	});

	test(`so does the profile, of ${name}`, options, async () => {
		const { page, leave } = await visit(base, '?view=profile', { viewport });
		await drawn(page);
		await settled(page);
		const box = await page.locator(id('flame')).boundingBox();
		const seen = Math.min(box.y + box.height, viewport.height) - box.y;
		assert.ok(seen > 0.3 * viewport.height, `from ${box.y} on`);
		await picture(page, `first-profile-${name}`);
		await leave();
	});
}

test('the header of the overview and the tools of a profile fit into one row at 1280 pixels', options, async () => {
	const { page, leave } = await visit(base, '?view=home', { viewport: { width: 1280, height: 800 } });
	const tops = async (selector) => {
		const boxes = await page.locator(selector).evaluateAll((items) => items.map((item) => item.getBoundingClientRect()));
		return new Set(boxes.filter(({ width }) => width > 1).map(({ y, height }) => Math.round(y + height / 2)));
	};
	await drawn(page);
	await settled(page);
	assert.equal((await tops('.bar > *:not(.spring)')).size, 1, 'the header');
	await page.goto(new URL('?view=both', base).href);
	await drawn(page);
	await settled(page);
	assert.equal((await tops('.tools > *:not(.spring)')).size, 1, 'the tools');
	assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 1280);
	await leave();
});

test('what every row lacks has no column, and figures stand beside names', options, async () => {
	const { page, leave } = await visit(base, '?view=home', { viewport: { width: 2000, height: 900 } });
	const table = page.locator(`${id('home-services')} table`);
	await table.locator('tbody tr').first().waitFor();
	await settled(page);
	const heads = (await table.locator('th:not([aria-hidden])').allInnerTexts()).map((text) => text.trim());
	assert.deepEqual(heads, ['Service', 'Cores', 'Share', 'Trend'], 'there is no data from yesterday or last week');
	for (const part of ['home-services', 'home-binaries']) {
		const row = page.locator(`${id(part)} tbody tr`).first();
		const [cell, figure] = [await row.locator('td').nth(0).boundingBox(), await row.locator('td').nth(1).boundingBox()];
		assert.ok(figure.x + figure.width - cell.x < 600, `${part}: ${figure.x + figure.width - cell.x} px`);
	}
	await page.goto(new URL('?view=table', base).href);
	await page
		.locator(`${id('table')} .tbody [role="row"]`)
		.first()
		.waitFor();
	await settled(page);
	await picture(page, 'first-table');
	const last = await page.locator(`${id('table')} .thead .td-binary`).boundingBox();
	const first = await page.locator(`${id('table')} .thead .td-self`).boundingBox();
	assert.ok(last.x - first.x < 1200, `${last.x - first.x} px`);
	await leave();
});

test('one click compares with just before, from wherever a range is chosen', options, async () => {
	const { page, url, leave } = await visit(base, '');
	await page.locator(id('just-before')).click();
	await page.locator(id('compare-sums')).waitFor();
	// There is nothing before: the newer half beside the older one.
	const halves = url();
	const [from, to] = halves.get('sel').split('-').map(Number);
	assert.deepEqual([halves.get('view'), Number(halves.get('bfrom')), Number(halves.get('bto'))], ['compare', BEGIN, from]);
	assert.ok(Math.abs(from - BEGIN - (to - from)) < 2000, 'they are equally long');
	// The last minute has two before it; so has one that is brushed.
	const last = `from=${BEGIN + 120_000}&to=${BEGIN + 180_000}`;
	await page.goto(new URL(`?view=both&${last}`, base).href);
	await drawn(page);
	await page.locator(id('just-before')).click();
	await page.locator(id('compare-sums')).waitFor();
	assert.equal(url().get('before'), 'length');
	assert.equal(await page.locator(id('compare-when')).inputValue(), 'length');
	const [base60, head60] = await Promise.all(['base', 'head'].map((side) => page.locator(id(`sum-${side}`)).innerText()));
	assert.match(base60, /1 min/);
	assert.equal(base60.match(/[\d.]+/)[0], head60.match(/[\d.]+/)[0], 'the load was the same');
	await page.goto(new URL(`?view=both&sel=${BEGIN + 120_000}-${BEGIN + 160_000}`, base).href);
	await drawn(page);
	await page.locator(id('selection-before')).click();
	await page.locator(id('compare-sums')).waitFor();
	assert.deepEqual([url().get('before'), url().get('sel')], ['length', `${BEGIN + 120_000}-${BEGIN + 160_000}`]);
	await leave();
});

test('times are in the zone that was chosen, on this visit, the next, and by a link', options, async () => {
	const { page, url, leave } = await visit(base, '?view=both', { timezoneId: 'Asia/Kolkata' });
	await drawn(page);
	const zone = page.locator(id('zone'));
	assert.equal((await zone.locator('option:checked').innerText()).trim(), 'UTC+5:30');
	const clock = (offsetMs) => new Date(BEGIN + offsetMs).toISOString().slice(11, 16);
	const since = () => page.locator(`${id('range-select')} option:checked`).innerText();
	assert.ok((await since()).endsWith(clock(5.5 * 3600_000)), await since());
	await zone.selectOption('utc');
	await page.waitForFunction((text) => document.querySelector('[data-testid="range-select"] option:checked').textContent.endsWith(text), clock(0));
	assert.equal(url().get('tz'), 'utc');
	// The range field: what is typed is in the zone, too.
	await page.locator(id('range-select')).selectOption('custom');
	await page.fill(id('range-from'), new Date(BEGIN - 60_000).toISOString().slice(0, 19).replace('T', ' '));
	await page.fill(id('range-to'), new Date(BEGIN + 180_000).toISOString().slice(0, 19).replace('T', ' '));
	await page.locator(id('range-apply')).click();
	await page.waitForFunction((from) => new URLSearchParams(location.search).get('from') === from, String(BEGIN - 60_000));
	// The tooltip of the chart.
	const plot = await page.locator(id('metrics')).boundingBox();
	await page.mouse.move(plot.x + plot.width / 2, plot.y + plot.height / 2);
	await page.waitForFunction(() => / UTC$/.test(document.querySelector('.readout-time')?.textContent ?? ''));
	// The next visit, whose link carries it.
	await page.goto(new URL('?view=both', base).href);
	await page.waitForFunction(() => new URLSearchParams(location.search).get('tz') === 'utc');
	assert.equal(await zone.inputValue(), 'utc');
	await leave();
	const other = await visit(base, '?view=both&tz=utc', { timezoneId: 'America/New_York' });
	await drawn(other.page);
	assert.equal(await other.page.locator(id('zone')).inputValue(), 'utc');
	await other.leave();
});
