// SPDX-License-Identifier: Apache-2.0
/*
 * The subsecond heatmap of a profile: what happens once a second, and what happened once, is found and looked at. The profile has 12 s:
 * `idle` every 10 ms, `pulse` every millisecond of the first tenth of each second, and `burst` every millisecond from 7.4 s to 7.6 s.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { begun, checkAccess, checkWidth, colorAt, drawn, id, LOOKS, PHONE, picture, settled, visit } from '../lib/browser.mjs';
import { sharedTables, wholeLife } from '../lib/firefox.mjs';

const wick = process.env.WICK,
	work = process.env.WICK_WORK;
const FUNCS = ['main', 'idle', 'pulse', 'burst'];
const SECONDS = 12,
	CELLS = 50;
const samples = []; // ms
for (let ms = 0; ms < SECONDS * 1000; ms++) {
	if (ms % 10 === 0) samples.push({ at: ms, func: 1 });
	if (ms % 1000 < 100) samples.push({ at: ms + 0.5, func: 2 });
	if (ms >= 7400 && ms < 7600) samples.push({ at: ms + 0.5, func: 3 });
}
samples.sort((a, b) => a.at - b.at);
const within = (from, to) => samples.filter(({ at }) => at >= from && at < to);
const amount = (n) => (n >= 1000 ? `${(n / 1000).toFixed(2)} k` : String(n));

function write(path) {
	const n = FUNCS.length,
		fill = (v) => Array(n).fill(v),
		each = FUNCS.map((_, i) => i);
	writeFileSync(
		path,
		JSON.stringify({
			meta: {
				version: 30,
				preprocessedProfileVersion: 60,
				interval: 1,
				startTime: 1700000000000,
				processType: 0,
				product: 'beats',
				stackwalk: 1,
				categories: [{ name: 'Other', color: 'grey', subcategories: ['Other'] }],
				markerSchema: [],
			},
			libs: [],
			shared: sharedTables(FUNCS, each, { length: n, frame: each, prefix: [null, 0, 0, 0], category: fill(0), subcategory: fill(0) }),
			threads: [
				{
					name: 'worker',
					processName: 'beats',
					isMainThread: true,
					pid: '1',
					tid: 1,
					...wholeLife,
					samples: { length: samples.length, stack: samples.map((s) => s.func), time: samples.map((s) => s.at), weight: null, weightType: 'samples' },
					markers: { length: 0, name: [], startTime: [], endTime: [], phase: [], category: [], data: [] },
				},
			],
		}),
	);
}

let url;
before(async () => {
	const from = join(work, 'beats.firefox.json'),
		file = join(work, 'beats.html');
	write(from);
	execFileSync(wick, ['convert', '-q', from, '-o', file]);
	url = pathToFileURL(file).href;
});

async function open(hash = '', how = {}) {
	const opened = await visit(url, hash, how);
	await drawn(opened.page);
	await begun(opened.page);
	return opened;
}
const shows = (page, value) => page.waitForFunction((v) => document.querySelector('.zoom-value').textContent.split(' · ')[0] === v, amount(value));
// The middle of a cell; a column is 32 pixels wide where there is room.
async function cell(page, column, row) {
	const box = await page.locator(`${id('heatmap')} canvas`).boundingBox();
	return [box.x + (column + 0.5) * Math.min(32, box.width / SECONDS), box.y + box.height * (1 - (row + 0.5) / CELLS)];
}
// How bright the canvas is there, 0 to 255.
async function lightness(page, at) {
	const [r, g, b] = await colorAt(page, 'heatmap', at);
	return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

test('what happens once a second is a line, what happened once a spot, and a drag looks at it', async () => {
	const { page, leave } = await open();
	await shows(page, samples.length);
	await page.click(id('tl-heat'));
	await page.locator(`${id('heatmap')} canvas`).waitFor();
	await page.waitForFunction(() => document.querySelector('[data-testid="heatmap"] canvas').width > 300);
	await begun(page);
	for (const column of [0, 5, 11]) {
		const [pulse, idle] = [await lightness(page, await cell(page, column, 2)), await lightness(page, await cell(page, column, 40))];
		assert.ok(pulse < idle - 60, `second ${column}: ${pulse} at the pulse, ${idle} later`);
	}
	const spot = await lightness(page, await cell(page, 7, 25));
	assert.ok(spot < (await lightness(page, await cell(page, 6, 25))) - 60, 'the burst stands out from the second before');

	await page.mouse.move(...(await cell(page, 7, 20)));
	await page
		.locator(id('heat-cell'))
		.filter({ hasText: /^7\.40 s \+ 20\.0 ms: 22$/ })
		.waitFor();
	await page.mouse.down();
	await page.mouse.move(...(await cell(page, 7, 25)), { steps: 3 });
	await page.mouse.move(...(await cell(page, 7, 29)), { steps: 3 });
	await page.mouse.up();
	await page.locator(id('chip-range')).waitFor();
	const chosen = within(7400, 7600);
	await shows(page, chosen.length);
	assert.match(await page.textContent(id('tl-share')), new RegExp(`${chosen.length} samples`));
	assert.equal(await page.evaluate(() => new URLSearchParams(location.hash.slice(1)).get('t')), '7400000000-7600000000');
	assert.equal(await page.evaluate(() => window.__wick.flame.nodeAt('pulse')), null);
	await page.goBack();
	await shows(page, samples.length);

	// From one second into the next: all that was between them.
	await page.mouse.move(...(await cell(page, 3, 45)));
	await page.mouse.down();
	await page.mouse.move(...(await cell(page, 4, 4)), { steps: 5 });
	await page.mouse.up();
	await shows(page, within(3900, 4100).length);
	await page.mouse.click(...(await cell(page, 7, 25)));
	await shows(page, within(7500, 7520).length);
	await page.mouse.click(...(await cell(page, 7, 25)));
	await shows(page, samples.length);

	// With Shift a rectangle: the last fifth of the first tenth of some seconds.
	await page.keyboard.down('Shift');
	await page.mouse.move(...(await cell(page, 2, 4)));
	await page.mouse.down();
	await page.mouse.move(...(await cell(page, 5, 6)), { steps: 3 });
	await page.mouse.up();
	await page.keyboard.up('Shift');
	await page.locator(id('chip-part')).waitFor();
	await shows(page, samples.filter(({ at }) => at >= 2000 && at < 6000 && at % 1000 >= 80 && at % 1000 < 140).length);
	await page.click(`${id('chip-range')} .chip-x`);
	await shows(page, samples.filter(({ at }) => at % 1000 >= 80 && at % 1000 < 140).length);
	await page.reload();
	await shows(page, samples.filter(({ at }) => at % 1000 >= 80 && at % 1000 < 140).length);
	await leave();
});

test('the same by keyboard, from a link, on a phone and in the dark', async () => {
	const { page, leave } = await open('#heat=1', { viewport: PHONE, colorScheme: 'dark' });
	const plot = page.locator(`${id('heatmap')} [role="application"]`);
	await plot.waitFor();
	assert.match(await plot.getAttribute('aria-label'), /12 columns of 1\.00 s/);
	await plot.focus();
	for (const key of ['Home', 'Home', 'ArrowRight', 'ArrowUp']) await page.keyboard.press(key);
	await page
		.locator(id('heat-live'))
		.filter({ hasText: /^1\.02 s \+ 20\.0 ms: 22$/ })
		.waitFor({ state: 'attached' });
	await page.keyboard.press('Enter');
	await shows(page, within(1020, 1040).length);
	await page.keyboard.press('Shift+ArrowUp');
	await shows(page, within(1020, 1060).length);
	await page.keyboard.press('p');
	await shows(page, samples.filter(({ at }) => at % 1000 >= 20 && at % 1000 < 60).length);
	await page.keyboard.press('Escape');
	await shows(page, samples.length);
	await checkWidth(page, 'a phone');
	await leave();
});

for (const [look, how] of LOOKS)
	test(`the heatmap at ${look}: it fits, and assistive technology can make something of it`, async () => {
		const { page, leave } = await open('#heat=1', how);
		await page.locator(`${id('heatmap')} [role="application"]`).waitFor();
		await settled(page);
		await picture(page, `heatmap-${look}`);
		await checkWidth(page, 'heatmap');
		await checkAccess(page, 'heatmap');
		await leave();
	});
