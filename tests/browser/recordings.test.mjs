// SPDX-License-Identifier: Apache-2.0
/*
 * Drives the list of recordings against a running server. What it shows is held against the recordings as they are ordered and
 * sent here, and against the files that its links give.
 *
 *   WICK, WICK_URL, WICK_WORK   the program, its server, a directory of the test
 *   WICK_AGENT                  1: this machine can be sampled, and an agent of it makes a recording
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { gunzipSync, gzipSync } from 'node:zlib';
import { Profile } from 'pprof-format';
import { base, begun, id, LOOKS, options, passUntil, picture, saved, visit } from '../lib/browser.mjs';

const work = process.env.WICK_WORK;
const sampled = { ...options, skip: options.skip || (process.env.WICK_AGENT ? false : 'this machine cannot be sampled') };
const EVIL = '<img src=x onerror=window.__owned=1>\u202e"\'&amp;';

let agent;
after(async () => {
	if (!agent || agent.exitCode !== null) return;
	agent.kill();
	await new Promise((resolve) => agent.once('exit', resolve));
});

// ---- hosts that are played here ----

async function ask(method, path, body, status = 200, headers = {}) {
	const response = await fetch(new URL(`api/v1/${path}`, base), { method, headers, body: body && !Buffer.isBuffer(body) ? JSON.stringify(body) : body });
	const text = await response.text();
	assert.equal(response.status, status, `${method} ${path}: ${text}`);
	return JSON.parse(text);
}
const poll = (host, more) => ask('POST', 'agents/poll', { version: 1, agent: Buffer.from(host).toString('hex').slice(0, 16), host, wick: '9', ...more });
const order = (more) => ask('POST', 'recordings', { seconds: 1, ...more }, 201);
async function send(recording, host) {
	const { orders } = await poll(host, {});
	const { key } = orders.find(({ id }) => id === recording.id);
	const path = `recordings/${recording.id}/hosts/${encodeURIComponent(host)}`;
	await ask('POST', path, gzipSync(readFileSync('tests/api/recording.json')), 200, { 'X-Wick-Upload-Key': key });
}
const rowOf = (page, recording) => page.locator(`${id('recording')}[data-id="${recording.id}"]`);
// The page asks by itself every few seconds, and at once when it is told to.
async function comes(page, locator, state = 'visible') {
	for (let tries = 0; tries < 30; tries++) {
		await page.keyboard.press('r');
		if (
			await locator.waitFor({ state, timeout: 1_000 }).then(
				() => true,
				() => false,
			)
		)
			return;
	}
	await locator.waitFor({ state });
}
const stateOf = (page, recording, state) => comes(page, page.locator(`${id('recording')}[data-id="${recording.id}"][data-state="${state}"]`));

test('without recordings it says how one is made', options, async () => {
	const { page, url, leave } = await visit(base, '');
	await page.locator(id('status')).click();
	await page.locator(id('open-recordings')).click();
	const empty = page.locator(id('no-recordings'));
	await empty.waitFor();
	assert.equal(url().get('view'), 'recordings');
	assert.match(await page.locator(id('record-command')).innerText(), new RegExp(`^wick record --remote ${new URL(base).origin} `));
	await page.waitForFunction((s) => /No agent accepts/.test(document.querySelector(s)?.innerText), id('no-recordings'));
	await picture(page, 'recordings-empty');
	await page.locator(id('recordings-back')).click();
	await page.locator(id('empty')).waitFor();
	assert.equal(url().get('view'), 'profile');
	await leave();
});

test('what wick record --remote made is listed, opened and downloaded', sampled, async () => {
	agent = spawn('unshare', ['--uts', 'sh', '-c', 'hostname alpha && exec "$0" agent --server "$1" --no-debuginfo-upload --spool off', process.env.WICK, base], {
		stdio: 'ignore',
	});
	let asks = 0;
	while ((await ask('GET', 'agents')).agents.length === 0) {
		assert.ok(asks++ < 1800 && agent.exitCode === null, 'the agent polls');
		await new Promise((resolve) => setTimeout(resolve, 100));
	}
	const { page, context, leave } = await visit(base, '?view=recordings');
	await page.waitForFunction((s) => /1 host accepts recording requests: alpha/.test(document.querySelector(s)?.innerText), id('no-recordings'));
	const out = join(work, 'all.firefox.json');
	const recorder = spawn(process.env.WICK, ['record', '--remote', base, '--host', 'alpha', '--host', 'gone', '--no-markers', '-d', '2', '-F', '99', '-o', out]);
	let said = '';
	recorder.stderr.on('data', (data) => (said += data));
	const ended = new Promise((resolve) => recorder.once('exit', resolve));
	const row = page.locator(id('recording'));
	await row.waitFor();
	assert.match(await row.getAttribute('data-state'), /waiting|recording|sending/);
	assert.equal(await page.locator(id('recording-open')).count(), 0, 'there is nothing to open yet');
	assert.equal(await ended, 0, said);
	await page.locator(`${id('recording')}[data-state="partial"]`).waitFor();
	assert.match(await row.innerText(), /1 of 2 hosts, 1 not responding/);
	assert.match(await row.innerText(), /gone\s+not responding: no agent/);
	assert.match(await row.innerText(), /2 s\s+99 Hz, no markers, all processes/);
	const [opened] = await Promise.all([context.waitForEvent('page'), page.locator(id('recording-open')).click()]);
	await opened.locator(id('flame')).waitFor();
	assert.match(await opened.title(), /alpha/);
	const file = await saved(page, () => page.locator(id('recording-firefox')).click());
	const { meta, threads } = JSON.parse(file.bytes);
	assert.match(file.name, /^recording-[0-9a-f]+\./);
	assert.equal(meta.preprocessedProfileVersion, 60);
	const ours = JSON.parse(readFileSync(out));
	assert.equal(threads.length, ours.threads.length, 'the same that wick record wrote');
	const pprof = await saved(page, () => page.locator(id('recording-pprof')).click());
	const samples = Profile.decode(gunzipSync(pprof.bytes)).sample.length;
	assert.ok(samples > 0, `${samples} samples`);
	await leave();
	await ask('DELETE', `recordings/${(await ask('GET', 'recordings')).recordings[0].id}`);
	agent.kill();
	await new Promise((resolve) => agent.once('exit', resolve));
});

test('states, reasons and names of many hosts', options, async () => {
	const names = ['web 1', 'web 2', EVIL, ...Array.from({ length: 6 }, (_, i) => `db-${i}`)];
	for (const host of names) await poll(host, {});
	const { page, leave } = await visit(base, '?view=recordings');
	const whole = await order({ seconds: 3, hosts: ['web 1', 'web 2'], targets: [{ kind: 'unit', name: EVIL.replaceAll(/[^a-z]/g, '') }] });
	for (const host of ['web 1', 'web 2']) await send(whole, host);
	const some = await order({ hosts: [...names, 'gone'] });
	for (const host of names.slice(3)) await send(some, host);
	for (const host of names.slice(1, 3)) await poll(host, { report: { id: some.id, state: 'failed', why: EVIL } });
	await stateOf(page, whole, 'complete');
	await stateOf(page, some, 'waiting');
	await send(some, 'web 1');
	await stateOf(page, some, 'partial');
	const order1 = await page.locator(id('recording')).evaluateAll((rows) => rows.map((row) => row.dataset.id));
	assert.deepEqual(order1, [some.id, whole.id], 'the newest first');
	const row = rowOf(page, some);
	const hosts = row.locator(id('recording-host'));
	assert.deepEqual(await hosts.evaluateAll((all) => all.map((host) => host.dataset.state)), ['failed', 'failed', 'silent', 'done']);
	assert.match(await row.innerText(), /7 of 10 hosts, 2 failed, 1 not responding/);
	assert.ok((await row.innerText()).includes('<img src=x'), 'a hostile name is text');
	assert.ok(!(await row.innerText()).includes('\u202e'), 'and turns nothing round');
	await row.locator(id('recording-hosts')).click();
	assert.equal(await hosts.count(), 10);
	const size = (await ask('GET', `recordings/${whole.id}`)).bytes;
	assert.match(await rowOf(page, whole).innerText(), new RegExp(`${(size / 1024).toPrecision(3).slice(0, 3)}.*KiB`), `${size} bytes`);
	assert.equal(await page.evaluate(() => window.__owned ?? document.querySelectorAll('main img').length), 0);
	const none = await order({ hosts: ['web 1'] });
	await stateOf(page, none, 'waiting');
	await poll('web 1', { report: { id: none.id, state: 'failed', why: 'no room' } });
	await stateOf(page, none, 'failed');
	assert.match(await rowOf(page, none).innerText(), /web 1\s+failed: no room/);
	await ask('DELETE', `recordings/${none.id}`);
	await comes(page, rowOf(page, none), 'detached');
	await leave();
});

test('by keyboard alone', options, async () => {
	const { page, context, url, leave } = await visit(base, '');
	const tabTo = async (wanted) => {
		await page.locator(id(wanted)).first().waitFor();
		await begun(page);
		for (let i = 0; i < 80; i++) {
			await page.keyboard.press('Tab');
			if (await page.evaluate((t) => document.activeElement?.dataset.testid === t, wanted)) return;
		}
		assert.fail(`Tab does not come to ${wanted}`);
	};
	await page.locator(id('status')).waitFor();
	await tabTo('status');
	await page.keyboard.press('Enter');
	await tabTo('open-recordings');
	await page.keyboard.press('Enter');
	await page.locator(id('recordings')).waitFor();
	await tabTo('recording-hosts');
	await page.keyboard.press('Enter');
	assert.equal(await page.locator(id('recording-hosts')).getAttribute('aria-expanded'), 'true');
	await tabTo('recording-open');
	const [opened] = await Promise.all([context.waitForEvent('page'), page.keyboard.press('Enter')]);
	await opened.locator(id('flame')).waitFor();
	await opened.close();
	await page.keyboard.press('Tab');
	const file = await saved(page, () => page.keyboard.press('Enter'));
	assert.ok(JSON.parse(file.bytes).threads.length > 0);
	await page.goBack();
	await page.locator(id('recordings')).waitFor({ state: 'detached' });
	assert.equal(url().get('view'), null);
	await leave();
});

for (const [look, how] of LOOKS)
	test(`the list fits ${look}`, options, async () => {
		const { page, leave } = await visit(base, '?view=recordings', how);
		await page.locator(id('recording')).first().waitFor();
		const { wide, outside } = await page.evaluate(() => ({
			wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
			outside: [...document.querySelectorAll('.recordings-table a, .recordings-table button')].filter((e) => e.getBoundingClientRect().right > innerWidth)
				.length,
		}));
		assert.deepEqual([Math.max(0, wide), outside], [0, 0], 'nothing lies outside the window');
		await picture(page, `recordings-${look}`);
		await leave();
	});

test('a server that goes away is said, and the list stays', options, async () => {
	const { page, leave } = await visit(base, '?view=recordings', { clock: true });
	await page.locator(id('recording')).first().waitFor();
	await page.route(/api\/v1\/recordings/, (route) => route.abort());
	await passUntil(page, 5_000, (limit) => page.locator('.recordings [role="alert"]').waitFor(limit));
	assert.ok((await page.locator(id('recording')).count()) > 0);
	await leave(/Failed to load resource/);
});
