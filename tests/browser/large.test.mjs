// SPDX-License-Identifier: Apache-2.0
// A profile of 120,000 nodes: the page has all of them, more than come as JSON; the table and the legend come once the graph is there,
// follow a new answer, and are those of the profile. What they should say is counted while the profile is made.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { request, startServer } from '../harness.mjs';
import { begun, visit } from '../lib/browser.mjs';

// As folded stacks: 300 callers, each of 200 functions, each of which calls `leaf`: 300 + 2 x 60,000 nodes below the root.
const CALLERS = 300,
	CALLED = 200,
	NODES = CALLERS * (1 + 2 * CALLED);
const stacks = [];
for (let c = 0; c < CALLERS; c++) for (let f = 0; f < CALLED; f++) stacks.push(`caller_${c};called_${f};leaf ${1 + ((c * 7 + f) % 5)}`);
const total = stacks.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
const totalOf = (name) => stacks.filter((line) => line.split(/[; ]/).includes(name)).reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);

let server, page, leave;
const asked = [];
before(async () => {
	server = await startServer(join(process.env.WICK_WORK, 'data'));
	const answer = await request(server.port, 'POST', '/api/v1/ingest?name=large&label=service_name%3Dlarge&format=folded', {
		body: Buffer.from(stacks.join('\n') + '\n'),
	});
	assert.equal(answer.status, 200, String(answer.body));
	({ page, leave } = await visit(server.url, '?from=now-1h&to=now%2B1h&view=both', {
		prepare: (one) => one.on('request', (sent) => sent.url().includes('api/v1/query') && asked.push(sent.url())),
	}));
});
after(() => server?.stop());

const rows = () => page.locator('[data-testid="table"] .tbody .tr');
const text = (selector) => page.evaluate((s) => document.querySelector(s)?.textContent ?? '', selector);

test('all nodes come, as columns', async () => {
	await page.waitForFunction(() => window.__wick?.flame.visibleCount > 100);
	const grouped = NODES.toLocaleString('en');
	await page.waitForFunction(() => /frames/.test(document.querySelector('.stats')?.textContent ?? ''));
	const stats = await text('.stats');
	assert.ok(/120 k frames/.test(stats) || stats.includes(`${grouped} frames`), stats);
	assert.doesNotMatch(stats, /too small/);
	assert.ok(
		asked.every((url) => url.includes('format=columns')),
		asked.join(),
	);
});

test('the table and the legend are those of the profile', async () => {
	await rows().first().waitFor();
	assert.match(await text('.table-tools .count'), new RegExp(`^${CALLERS + CALLED + 1} functions$`));
	assert.match(await rows().first().textContent(), /leaf/);
	await page.waitForSelector('.legend li button');
	await page.locator('[data-testid="table-filter"]').fill('called_17');
	await page.waitForFunction(() => /^11 of 501$/.test(document.querySelector('.table-tools .count').textContent));
	await page.locator('[data-testid="table-filter"]').fill('caller_299');
	await page.waitForFunction(() => /^1 of 501$/.test(document.querySelector('.table-tools .count').textContent));
	await page.waitForFunction(() => /caller_299/.test(document.querySelector('.table .tbody .tr')?.textContent ?? ''));
	const share = `${((100 * totalOf('caller_299')) / total).toFixed(2)}%`;
	assert.equal(await rows().first().locator('.td-total .percent').textContent(), share);
	await page.locator('[data-testid="table-filter"]').fill('');
});

test('search goes from match to match by size, and a new answer has its rows again', async () => {
	const field = page.locator('[data-testid="flame-search"]');
	await field.fill('"caller_3"');
	const shown = ((100 * totalOf('caller_3')) / total).toFixed(2);
	await page.waitForFunction((s) => document.querySelector('[data-testid="flame-matched"]').textContent.startsWith(`${s}%`), shown);
	await field.press('Enter');
	await page.waitForFunction(() => window.__wick.flame.focusName === 'caller_3');
	await field.blur();
	await Promise.all([page.waitForResponse((response) => response.url().includes('format=columns')), page.keyboard.press('r')]);
	await begun(page);
	await page.waitForFunction(() => document.querySelector('[data-testid="table"]').getAttribute('aria-busy') === 'false');
	// What has the focus in the graph has come into view in the table, and stays there.
	await page.waitForFunction(
		(s) => [...document.querySelectorAll('.table .tbody .tr')].some((tr) => tr.textContent.includes('caller_3') && tr.textContent.includes(`${s}%`)),
		shown,
	);
	// The table follows the graph once that rests, which may be after the key, and after the key's row was seen.
	const first = () => document.querySelector('.table .tbody .tr')?.textContent?.includes('leaf');
	let seen = false;
	for (let tries = 0; tries < 60 && !seen; tries++) {
		await page.locator('[data-testid="table"]').press('Home');
		seen = await page.waitForFunction(first, null, { timeout: 1_000 }).then(
			() => true,
			() => false,
		);
	}
	assert.ok(seen, await text('.table .tbody .tr'));
	await leave();
});
