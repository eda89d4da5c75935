// SPDX-License-Identifier: Apache-2.0
/*
 * The graph over time, as a person uses it: which service costs what, what happened in one step, what changed with a deploy, which
 * markers there were. The fleet is that of fleet.inc; sums are made here from what the server answers to questions of this test.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { base, beginning, deploy, end, id, options, settled, visit } from '../lib/browser.mjs';

const [from, to] = [beginning, end];
const TYPE = 'process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta';
const BEACON = `${TYPE}{service_name="beacon"}`;

// The page at the graph of all services; `asked`: of profiles.
async function open(params) {
	const asked = [];
	const opened = await visit(base, '?' + new URLSearchParams({ view: 'graph', q: TYPE, by: 'service_name', from: String(from), to: String(to), ...params }), {
		prepare: (page) =>
			page.on('request', (request) => {
				const url = new URL(request.url());
				if (url.pathname.endsWith('/api/v1/query')) asked.push(url.searchParams);
			}),
	});
	return { ...opened, asked };
}

const ask = async (path, params) => (await fetch(new URL(`api/v1/${path}?${new URLSearchParams(params)}`, base))).json();
const legend = (page, value) => page.locator(`${id('chart-legend')} [data-series="=${value}"]`);
// How many series the graph says that it draws, once it does.
const drawsSeries = (page, count) =>
	page.waitForFunction(([plot, n]) => document.querySelector(plot)?.getAttribute('aria-label')?.startsWith(`${n} series`), [id('metrics'), count]);
async function surface(page) {
	await page.locator(`${id('metrics')} .u-over`).waitFor();
	return page.locator(`${id('metrics')} .u-over`).boundingBox();
}

test('the legend says what each service comes to, and shows those that are wanted', options, async () => {
	const { page, url, leave } = await open({ top: '5' });
	await legend(page, 'beacon').waitFor();
	await settled(page);
	const answer = await ask('series', { query: TYPE, by: 'service_name', from, to, limit: 1000, step: '60s' });
	// Whole steps of any length have the same sums: the range begins and ends with one.
	const inRange = (row) => row.points.reduce((sum, [t, v]) => (t >= from && t < to ? sum + v : sum), 0);
	const all = answer.series.reduce((sum, row) => sum + inRange(row), 0);
	const share = (100 * inRange(answer.series.find((row) => row.labels.service_name === 'beacon'))) / all;
	const shown = Number(/([\d.]+)%/.exec(await legend(page, 'beacon').innerText())[1]);
	assert.ok(Math.abs(shown - share) < 1, `${shown}% of ${share}%`); // the newest step may be left out
	assert.equal(await page.locator(`${id('chart-legend')} button`).count(), 6, 'five and the others');

	await legend(page, 'beacon').click();
	await drawsSeries(page, 1);
	assert.deepEqual(url().getAll('series'), ['=beacon']);
	const second = page.locator(`${id('chart-legend')} button`).nth(1);
	await second.click({ modifiers: ['Control'] });
	await drawsSeries(page, 2);
	assert.equal(await second.getAttribute('aria-pressed'), 'true');
	await page.reload();
	await drawsSeries(page, 2);
	await second.focus();
	await page.keyboard.press('Shift+Enter');
	await drawsSeries(page, 1);
	await legend(page, 'beacon').focus();
	await page.keyboard.press('Enter');
	await drawsSeries(page, 6);
	assert.deepEqual(url().getAll('series'), []);
	await leave();
});

test('a click on a step shows that step; the same again, the whole', options, async () => {
	const { page, asked, url, leave } = await open({ q: BEACON, from: String(from), to: String(from + 3600_000) });
	await settled(page);
	const box = await surface(page);
	const at = from + 1800_000 + 1000;
	const x = box.x + (box.width * (at - from)) / 3600_000;
	await page.mouse.click(x, box.y + 60);
	await page.locator(id('selection')).waitFor();
	await settled(page);
	const [first, last] = url().get('sel').split('-').map(Number);
	const { step_ms: step } = await ask('series', { query: TYPE, from: first, to: last, step: `${last - first}ms` });
	assert.equal(last - first, step);
	assert.ok(first <= at && at < last && last - first <= 60_000, `${first} ${at} ${last}`);
	assert.deepEqual([asked.at(-1).get('from'), asked.at(-1).get('to')], [String(first), String(last)]);
	await page.mouse.click(x, box.y + 60);
	await page.locator(id('selection')).waitFor({ state: 'detached' });
	await settled(page);

	await page.locator(id('metrics')).focus();
	const whole = Math.ceil(from / step) * step; // the first step that is not cut
	await page.keyboard.press('Home');
	await page.waitForFunction((f) => new URL(location.href).searchParams.get('sel')?.startsWith(`${f}-`), whole);
	await page.keyboard.press('ArrowRight');
	await page.waitForFunction((f) => new URL(location.href).searchParams.get('sel')?.startsWith(`${f}-`), whole + step);
	await page.keyboard.press('Escape');
	await page.locator(id('selection')).waitFor({ state: 'detached' });
	await leave();
});

test('a refresh in the middle of a drag does not end it', options, async () => {
	const { page, url, leave } = await open({});
	await settled(page);
	// What is drawn afterwards has another name, so the plot is another one, too.
	await page.route(/api\/v1\/series.*limit=100\b/, async (route) => {
		const response = await route.fetch();
		const answer = await response.json();
		for (const row of answer.series) if (row.labels.service_name === 'beacon') row.labels.service_name = 'beacon, renamed';
		await route.fulfill({ response, json: answer });
	});
	const box = await surface(page);
	await page.mouse.move(box.x + box.width * 0.25, box.y + 60);
	await page.mouse.down();
	await page.mouse.move(box.x + box.width * 0.4, box.y + 60, { steps: 3 });
	await page.keyboard.press('r');
	await legend(page, 'beacon, renamed').waitFor();
	await settled(page);
	await page.locator(`${id('metrics')} .uplot.has-selection`).waitFor(); // what is chosen so far is still painted
	await page.mouse.move(box.x + box.width * 0.5, box.y + 60, { steps: 3 });
	await page.mouse.up();
	await page.locator(id('selection')).waitFor();
	const [first, last] = url().get('sel').split('-').map(Number);
	const length = to - from;
	assert.ok(Math.abs(first - (from + 0.25 * length)) < 200_000 && Math.abs(last - (from + 0.5 * length)) < 200_000, `${first}-${last} of ${from}-${to}`);
	await page.unrouteAll({ behavior: 'ignoreErrors' });
	await leave();
});

test('what changed with the deploy: its flag leads to before and after', options, async () => {
	const { page, url, leave } = await open({ q: BEACON });
	const flag = page.locator(id('deploy'));
	await flag.waitFor();
	assert.equal(await flag.count(), 1);
	assert.match(await flag.getAttribute('aria-label'), /beacon: 1\.0\.0 → 1\.1\.0/);
	const [box, at] = [await surface(page), await flag.locator('..').boundingBox()];
	const told = from + ((at.x - box.x) / box.width) * (to - from);
	assert.ok(Math.abs(told - deploy) < 150_000, `the flag is at ${told}, the deploy was at ${deploy}`);
	await flag.focus();
	await page.keyboard.press('Enter');
	await page.waitForFunction(() => !document.querySelector('[data-testid="deploy"]'));
	assert.ok(Math.abs(Number(url().get('from')) - deploy) < 150_000);
	await page.getByText('validate_utf8').first().waitFor();
	await page.goBack();
	await flag.waitFor();
	await leave();
});

test('markers that agents sent are drawn once chosen', options, async () => {
	const profile = JSON.parse(readFileSync('tests/api/markers.json', 'utf8'));
	const start = to - 1800_000;
	profile.meta.startTime = start;
	const ns = (ms) => `${ms}000000`;
	const sent = await fetch(new URL(`api/v1/recordings/continuous/hosts/alpha?from_ns=${ns(start)}&to_ns=${ns(start + 1000)}`, base), {
		method: 'POST',
		body: gzipSync(JSON.stringify(profile)),
		headers: { 'content-type': 'application/gzip' },
	});
	assert.equal(sent.status, 200, await sent.text());
	const { page, url, leave } = await open({ q: BEACON });
	await settled(page);
	await page.locator(id('events')).click();
	await page.getByLabel('named step').check();
	await page.waitForFunction(() => new URL(location.href).searchParams.getAll('mark').includes('named step'));
	await page.keyboard.press('Escape');
	await settled(page);
	await page.locator(`${id('metrics')} li`, { hasText: 'named step: 1 marker' }).waitFor({ state: 'attached' });
	const box = await surface(page);
	await page.mouse.move(box.x + (box.width * (start + 50 - from)) / (to - from), box.y + 60);
	await page.locator('.readout-mark', { hasText: 'named step' }).waitFor();
	assert.match(await page.locator('.readout-mark').innerText(), /1 · alpha/);
	assert.deepEqual(url().getAll('mark'), ['named step']);
	await leave();
});
