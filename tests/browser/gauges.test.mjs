// SPDX-License-Identifier: Apache-2.0
/*
 * A heap in the page, in headless Chromium: however many profiles a range has, the page shows their average; one of them can be looked
 * at by itself; and the page says what the values are.
 *
 *   WICK_URL   an empty server
 */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { pprofProfile } from '../harness.mjs';
import { base, checkWidth, drawn, id, options, PHONE, picture, visit } from '../lib/browser.mjs';

const MB = 1e6,
	now = Math.floor(Date.now() / 1000) * 1000 - 20_000;
// Every 15 s for 20 min; every other one has 1 MB more.
const scrapes = Array.from({ length: 80 }, (_, i) => ({ at: now - (79 - i) * 15_000 + 7, bytes: [1.7 * MB, (i % 2 ? 1 : 0) * MB] }));

before(async () => {
	if (!base) return;
	for (const { at, bytes } of scrapes) {
		const stacks = [
			[['grow', 'cache', 'main'], bytes[0]],
			[['read', 'request', 'main'], bytes[1]],
		];
		const body = pprofProfile(stacks, { type: 'inuse_space', unit: 'bytes', timeNs: BigInt(at) * 1000000n });
		const response = await fetch(new URL('api/v1/ingest?label=service_name%3Dshop', base), { method: 'POST', body });
		assert.equal(response.status, 200, await response.text());
	}
});
// The row of main, through which everything goes.
const totalIs = (page, pattern) =>
	page.waitForFunction(
		([table, p]) => new RegExp(`${p} 100% main`).test(document.querySelector(table)?.innerText.replace(/\s+/g, ' ') ?? ''),
		[id('table'), pattern],
	);

test('a heap of 2.2 MB is 2.2 MB, whatever the range', options, async () => {
	for (const from of ['now-1h', 'now-5m']) {
		const { page, leave } = await visit(base, `?q=memory:inuse_space&from=${from}&view=table`);
		await totalIs(page, '2\\.(0[5-9]|1[0-5]) MiB');
		await leave();
	}
});

test('one profile by itself, and the ones beside it', options, async () => {
	const { page, url, leave } = await visit(base, '?q=memory:inuse_space&from=now-1h&view=table');
	await totalIs(page, '2\\.10 MiB');
	const about = await page.locator(id('type-about')).innerText();
	assert.match(about, /not freed.*average/);
	const selected = async (at) => {
		await page.waitForFunction((n) => new URLSearchParams(location.search).get('sel')?.includes(String(n)), at);
	};
	await page.click(id('scrape-before'));
	await selected(scrapes[79].at);
	await page.click(id('scrape-before'));
	await selected(scrapes[78].at);
	await totalIs(page, '1\\.62 MiB');
	await page.click(id('scrape-after'));
	await selected(scrapes[79].at);
	assert.ok(url().get('sel'));
	await picture(page, 'gauge-one-profile');
	await leave();
});

test('the head of the chart fits on a phone', options, async () => {
	const { page, leave } = await visit(base, '?q=memory:inuse_space&from=now-1h', { viewport: PHONE });
	await drawn(page);
	await checkWidth(page, 'gauges on a phone');
	await picture(page, 'gauge-phone');
	await leave();
});
