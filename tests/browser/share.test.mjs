// SPDX-License-Identifier: Apache-2.0
// Links to what is shown: a profile, a comparison and a file, opened by somebody else, also when the data are gone.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { pprofProfile } from '../harness.mjs';
import { base, checkAccess, checkWidth, drawn, id, LOOKS, options, picture, settled, visit } from '../lib/browser.mjs';

// Two minutes of a program, the older without a function that the newer has.
const end = Math.floor(Date.now() / 60e3) * 60e3 - 600e3;
const [older, newer] = [end - 120e3, end - 60e3];
const NEW = `q=process_cpu&from=${newer}&to=${end}`;
before(async () => {
	if (!base) return;
	for (const [start, stacks] of [
		[
			older,
			[
				[['parse', 'main'], 500],
				[['render', 'main'], 500],
			],
		],
		[
			newer,
			[
				[['parse', 'main'], 125],
				[['render', 'main'], 125],
				[['grow', 'main'], 750],
			],
		],
	]) {
		const body = pprofProfile(
			stacks.map(([frames, value]) => [frames, value * 1e7]),
			{ timeNs: (start + 10e3) * 1e6, durationNs: 1e10 },
		);
		const response = await fetch(new URL('api/v1/ingest?name=process_cpu', base), { method: 'POST', body });
		assert.equal(response.status, 200, await response.text());
	}
});

// Copying is allowed: a browser without a window waits for ever for somebody to allow it.
const visitWithClipboard = (query, how) => visit(base, query, { permissions: ['clipboard-read', 'clipboard-write'], ...how });

// The link to what is shown, made by key.
async function share(page, title) {
	await page.locator(id('share')).waitFor();
	await settled(page); // keys are heard an effect later than what they do is seen
	await page.keyboard.press('l');
	const field = page.locator(id('share-title'));
	await field.waitFor();
	if (title !== undefined) await field.fill(title);
	await field.press('Enter');
	await page.locator(id('share-link')).waitFor();
	return page.locator(id('share-link')).inputValue();
}
const query = (link) => link.slice(base.length);
const api = (method, path) => fetch(new URL(path, base), { method });
const matched = (page, share) =>
	page.waitForFunction(([selector, wanted]) => document.querySelector(selector)?.textContent.includes(wanted), [id('flame-matched'), share]);

let link = '';
test('somebody finds where the time goes, and makes a link for the others', options, async () => {
	const { page, leave } = await visitWithClipboard(`?${NEW}&view=graph`);
	await drawn(page);
	await page.locator(id('flame-search')).fill('grow');
	await matched(page, '75.0%');
	await page.locator(id('flip')).focus();
	link = await share(page, 'grow is new <b>');
	assert.match(link, /\?view=shared&id=[0-9a-f]{32}$/);
	await page.waitForFunction(async (made) => (await navigator.clipboard.readText()) === made, link);
	await page.locator(id('share-copied')).waitFor();
	await leave();
});

test('the link shows the same to somebody else: what, of when, and that it is fixed', options, async () => {
	const { page, url, leave } = await visitWithClipboard(query(link));
	await drawn(page);
	await matched(page, '75.0%');
	assert.equal(await page.locator(id('shared-title')).innerText(), 'grow is new <b>');
	assert.match(await page.locator(id('shared-whence')).innerText(), /Snapshot: taken on \d{4}-\d\d-\d\d .*process_cpu/);
	assert.deepEqual([url().get('find'), url().get('pane')], ['grow', 'graph']);
	// What is done with it is in the URL, and stays when it is loaded anew.
	await page.locator(id('view-table')).click();
	await page.locator(id('table')).waitFor();
	await page.reload();
	await page.locator(id('table')).waitFor();
	await page.locator(id('shared-live')).click();
	await drawn(page);
	assert.equal(url().get('from'), String(newer));
	await leave();
});

test('a comparison is shared with both of its sides', options, async () => {
	const { page, leave } = await visitWithClipboard(`?${NEW}&view=compare&bfrom=${older}&bto=${newer}&relative=1&show=table`);
	await page.locator(id('show-table')).waitFor();
	const made = await share(page);
	assert.match(made, /id=[0-9a-f]{32}\.[0-9a-f]{32}$/);
	const rows = '.compare [role="row"]';
	const before = await page.locator(rows).allInnerTexts();
	assert.ok(before.length > 2);
	await page.goto(made);
	await page.locator(id('show-table')).waitFor();
	await page.waitForFunction(
		([selector, wanted]) => JSON.stringify([...document.querySelectorAll(selector)].map((row) => row.innerText)) === wanted,
		[rows, JSON.stringify(before)],
	);
	assert.match(await page.locator(id('shared-whence')).innerText(), /Compared with process_cpu/);
	await leave();
});

test('a file is shared only when that is asked for, and what of it is kept is said before', options, async () => {
	const path = join(process.env.WICK_WORK, 'mine.folded');
	writeFileSync(path, 'main;parse;read 600\nmain;render;draw 400\n');
	const { page, leave } = await visitWithClipboard('?view=file');
	const [chooser] = await Promise.all([page.waitForEvent('filechooser'), page.locator(id('file-again')).click()]);
	await chooser.setFiles(path);
	await drawn(page);
	const count = async () => (await (await api('GET', 'api/v1/snapshots')).json()).total;
	const had = await count();
	await page.locator(id('share')).click();
	assert.match(await page.locator(id('share-box')).innerText(), /stores a snapshot of it/);
	assert.equal(await count(), had);
	await page.keyboard.press('Escape');
	const made = await share(page);
	assert.equal(await count(), had + 1);
	await page.goto(made);
	await drawn(page);
	await page.waitForFunction(() => window.__wick.flame.nodeAt('read'));
	assert.match(await page.locator(id('shared-whence')).innerText(), /of the file mine\.folded/);
	await leave();
});

test('the link still shows it when the data are deleted', options, async () => {
	const response = await api('POST', `api/v1/delete?query=${encodeURIComponent('{}')}&from=${older - 3600e3}&to=${end + 3600e3}`);
	assert.equal(response.status, 200);
	const { page, leave } = await visitWithClipboard(query(link));
	await drawn(page);
	await matched(page, '75.0%');
	await leave();
});

for (const [look, how] of LOOKS)
	test(`it fits, and can be read by everybody: ${look}`, options, async () => {
		const { page, leave } = await visitWithClipboard(query(link), how);
		await drawn(page);
		await settled(page);
		await checkAccess(page, 'a shared profile');
		await checkWidth(page, 'a shared profile');
		await picture(page, `shared-${look}`);
		await leave();
	});

test('a link that was taken back, and one that never was, say so', options, async () => {
	const removed = new URL(link).searchParams.get('id');
	assert.equal((await api('DELETE', `api/v1/snapshots/${removed}`)).status, 200);
	for (const gone of [removed, '0'.repeat(32)]) {
		// Another browser: this one may keep what never changes.
		const { page, leave } = await visitWithClipboard(`?view=shared&id=${gone}`);
		await page.locator(id('shared-gone')).waitFor();
		await leave(/console: Failed to load resource: the server responded with a status of 404/);
	}
});
