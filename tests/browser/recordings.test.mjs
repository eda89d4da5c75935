// SPDX-License-Identifier: Apache-2.0
/*
 * Drives the list of recordings against a running server. What it shows is held against the recordings as they are ordered and
 * sent here, and against the files that its links give.
 *
 *   WICK, WICK_URL, WICK_WORK   the program, its server, a directory of the test
 *   WICK_AGENT         1: this machine can be sampled, and an agent of it makes a recording
 *   WICK_SCREENSHOTS   a directory for pictures: 1440x900 and 390x844, light and dark
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { gunzipSync, gzipSync } from 'node:zlib';
import { Profile } from 'pprof-format';
import { begun, launch } from './launch.mjs';

const base = process.env.WICK_URL;
const work = process.env.WICK_WORK;
const skip = base ? false : 'WICK_URL is not set';
const skipAgent = skip || (process.env.WICK_AGENT ? false : 'this machine cannot be sampled');
if (skip) console.log(`skipped: ${skip}`);
const DESKTOP = { width: 1440, height: 900 };
const PHONE = { width: 390, height: 844 };
const EVIL = '<img src=x onerror=window.__owned=1>\u202e"\'&amp;';
const id = (name) => `[data-testid="${name}"]`;

let browser, agent;
before(async () => {
	if (!skip) browser = await launch();
});
after(async () => {
	await browser?.close();
	if (!agent || agent.exitCode !== null) return;
	agent.kill();
	await new Promise((resolve) => agent.once('exit', resolve));
});

async function openPage(query, options = {}) {
	const context = await browser.newContext({ viewport: DESKTOP, colorScheme: 'light', acceptDownloads: true, ...options });
	const faults = [];
	context.on('page', (page) => {
		page.setDefaultTimeout(15_000);
		page.on('console', (message) => {
			if (message.type() === 'error' || message.type() === 'warning') faults.push(`console: ${message.text()}`);
		});
		page.on('pageerror', (error) => faults.push(`exception: ${error.stack}`));
		page.on('request', (request) => {
			const { protocol, origin } = new URL(request.url());
			if (!['data:', 'blob:'].includes(protocol) && origin !== new URL(base).origin) faults.push(`request: ${request.url()}`);
		});
	});
	const page = await context.newPage();
	await page.goto(new URL(query, base).href);
	return { page, context, faults, url: () => new URL(page.url()).searchParams };
}

async function picture(page, name) {
	if (!process.env.WICK_SCREENSHOTS) return;
	mkdirSync(process.env.WICK_SCREENSHOTS, { recursive: true });
	await page.screenshot({ path: join(process.env.WICK_SCREENSHOTS, `${name}.png`) });
}

// ---- hosts that are played here ----

async function ask(method, path, body, status = 200, headers = {}) {
	const answer = await fetch(new URL(`api/v1/${path}`, base), { method, headers, body: body && !Buffer.isBuffer(body) ? JSON.stringify(body) : body });
	const text = await answer.text();
	assert.equal(answer.status, status, `${method} ${path}: ${text}`);
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
const stateOf = (page, recording, state) =>
	page.locator(`${id('recording')}[data-id="${recording.id}"][data-state="${state}"]`).waitFor();

test('without recordings it says how one is made', { skip, timeout: 60_000 }, async () => {
	const { page, context, faults, url } = await openPage('');
	await page.locator(id('status')).click();
	await page.locator(id('open-recordings')).click();
	const empty = page.locator(id('no-recordings'));
	await empty.waitFor();
	assert.equal(url().get('view'), 'recordings');
	assert.match(await page.locator(id('record-command')).innerText(), new RegExp(`^wick record --remote ${new URL(base).origin} `));
	await page.waitForFunction((s) => /No agent asks/.test(document.querySelector(s)?.innerText), id('no-recordings'));
	await picture(page, 'recordings-empty');
	await page.locator(id('recordings-back')).click();
	await page.locator(id('empty')).waitFor();
	assert.equal(url().get('view'), 'profile');
	assert.deepEqual(faults, []);
	await context.close();
});

test('what wick record --remote made is listed, opened and downloaded', { skip: skipAgent, timeout: 120_000 }, async () => {
	agent = spawn(
		'unshare',
		['--uts', 'sh', '-c', 'hostname alpha && exec "$0" agent --server "$1" --no-debuginfo-upload --spool off', process.env.WICK, base],
		{ stdio: 'ignore' },
	);
	let asks = 0;
	while ((await ask('GET', 'agents')).agents.length === 0) {
		assert.ok(asks++ < 300 && agent.exitCode === null, 'the agent asks for orders');
		await new Promise((resolve) => setTimeout(resolve, 100));
	}
	const { page, context, faults } = await openPage('?view=recordings');
	await page.waitForFunction((s) => /One host takes orders at present: alpha/.test(document.querySelector(s)?.innerText), id('no-recordings'));
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
	assert.match(await row.innerText(), /1 of 2 hosts, 1 silent/);
	assert.match(await row.innerText(), /gone\s+silent: no agent/);
	assert.match(await row.innerText(), /2 s\s+99 Hz, no markers, all processes/);
	const [opened] = await Promise.all([context.waitForEvent('page'), page.locator(id('recording-open')).click()]);
	await opened.locator(id('flame')).waitFor();
	assert.match(await opened.title(), /alpha/);
	const [file] = await Promise.all([page.waitForEvent('download'), page.locator(id('recording-firefox')).click()]);
	const { meta, threads } = JSON.parse(readFileSync(await file.path()));
	assert.match(file.suggestedFilename(), /^recording-[0-9a-f]+\./);
	assert.equal(meta.preprocessedProfileVersion, 60);
	const ours = JSON.parse(readFileSync(out));
	assert.equal(threads.length, ours.threads.length, 'the same that wick record wrote');
	const [pprof] = await Promise.all([page.waitForEvent('download'), page.locator(id('recording-pprof')).click()]);
	const samples = Profile.decode(gunzipSync(readFileSync(await pprof.path()))).sample.length;
	assert.ok(samples > 0, `${samples} samples`);
	assert.deepEqual(faults, []);
	await context.close();
	await ask('DELETE', `recordings/${(await ask('GET', 'recordings')).recordings[0].id}`);
	agent.kill();
	await new Promise((resolve) => agent.once('exit', resolve));
});

test('states, reasons and names of many hosts', { skip, timeout: 60_000 }, async () => {
	const names = ['web 1', 'web 2', EVIL, ...Array.from({ length: 6 }, (_, i) => `db-${i}`)];
	for (const host of names) await poll(host, {});
	const { page, context, faults } = await openPage('?view=recordings');
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
	assert.match(await row.innerText(), /7 of 10 hosts, 2 failed, 1 silent/);
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
	await rowOf(page, none).waitFor({ state: 'detached' });
	assert.deepEqual(faults, []);
	await context.close();
});

test('by keyboard alone', { skip, timeout: 60_000 }, async () => {
	const { page, context, faults, url } = await openPage('');
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
	const [file] = await Promise.all([page.waitForEvent('download'), page.keyboard.press('Enter')]);
	assert.ok(JSON.parse(readFileSync(await file.path())).threads.length > 0);
	await page.goBack();
	await page.locator(id('recordings')).waitFor({ state: 'detached' });
	assert.equal(url().get('view'), null);
	assert.deepEqual(faults, []);
	await context.close();
});

for (const [size, viewport] of [
	['1440x900', DESKTOP],
	['390x844', PHONE],
]) {
	for (const colorScheme of ['light', 'dark']) {
		test(`the list fits ${size}, ${colorScheme}`, { skip, timeout: 60_000 }, async () => {
			const phone = viewport === PHONE ? { isMobile: true, hasTouch: true, deviceScaleFactor: 2 } : {};
			const { page, context, faults } = await openPage('?view=recordings', { viewport, colorScheme, ...phone });
			await page.locator(id('recording')).first().waitFor();
			const { wide, outside } = await page.evaluate(() => ({
				wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
				outside: [...document.querySelectorAll('.recordings-table a, .recordings-table button')].filter((e) => e.getBoundingClientRect().right > innerWidth).length,
			}));
			assert.deepEqual([Math.max(0, wide), outside], [0, 0], 'nothing lies outside the window');
			await picture(page, `recordings-${size}-${colorScheme}`);
			assert.deepEqual(faults, []);
			await context.close();
		});
	}
}

test('a server that goes away is said, and the list stays', { skip, timeout: 60_000 }, async () => {
	const { page, context } = await openPage('?view=recordings');
	await page.locator(id('recording')).first().waitFor();
	await page.route(/api\/v1\/recordings/, (route) => route.abort());
	await page.locator('.recordings [role="alert"]').waitFor({ timeout: 20_000 });
	assert.ok((await page.locator(id('recording')).count()) > 0);
	await context.close();
});
