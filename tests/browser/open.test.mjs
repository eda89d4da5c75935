// SPDX-License-Identifier: Apache-2.0
// What `wick open` serves, in a browser: its page; and the profile, names and code as pages of other sites get them, or do not. The
// sites are made up here: nothing is asked of the internet.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { newContext, visit } from '../lib/browser.mjs';

const wick = process.env.WICK,
	work = process.env.WICK_WORK;
let child, page, faults, link, profiler;
const requests = [];
before(async () => {
	const from = join(work, 'opened.folded');
	writeFileSync(from, 'main;parse;read 600\nmain;parse 100\nmain;render;draw 300\n');
	child = spawn(wick, ['open', from, '--browser', 'none'], { stdio: ['ignore', 'ignore', 'pipe'] });
	let log = '';
	[link, profiler] = await new Promise((resolve, reject) => {
		child.once('exit', () => reject(new Error(log)));
		child.stderr.on('data', (chunk) => {
			log += chunk;
			const links = log.match(/page: +(\S+)\n +Firefox Profiler: +(\S+)\n/);
			if (links) resolve(links.slice(1));
		});
	});
	({ page, faults } = await visit(link, 'about:blank', { prepare: (one) => one.on('request', (request) => requests.push(request.url())) }));
});
after(() => child?.kill('SIGINT'));

// A page of that origin, which may ask of this machine as far as the browser is concerned.
async function siteOf(origin) {
	const context = await newContext();
	await context.route(`${origin}/**`, (route) => route.fulfill({ contentType: 'text/html', body: '<!doctype html><title>site</title>' }));
	for (const permission of ['local-network-access', 'loopback-network']) await context.grantPermissions([permission], { origin }).catch(() => {});
	const site = await context.newPage();
	await site.goto(`${origin}/`);
	return {
		context,
		ask: (url, options) =>
			site.evaluate(
				async ([u, o]) => {
					try {
						const response = await fetch(u, o);
						return { status: response.status, body: await response.json() };
					} catch (error) {
						return { failed: String(error) };
					}
				},
				[url, options],
			),
	};
}
const post = (question, type) => ({
	method: 'POST',
	mode: 'cors',
	credentials: 'omit',
	body: JSON.stringify(question),
	...(type && { headers: { 'content-type': type } }),
});

test('the page shows the profile', async () => {
	await page.goto(link);
	await page.waitForFunction(() => window.__wick?.flame.visibleCount > 0);
	assert.match(await page.title(), /opened\.folded/);
	const width = (name) => page.evaluate((n) => window.__wick.flame.nodeAt(n).width, name);
	assert.ok(Math.abs((await width('read')) / (await width('main')) - 0.6) < 0.01);
});
test('it asks for nothing else, and nothing goes wrong', () => {
	assert.deepEqual(faults, []);
	assert.deepEqual(
		requests.filter((url) => !url.startsWith('data:')),
		[link],
	);
});
test('Firefox Profiler gets the profile and answers from where its link says', async () => {
	const url = new URL(profiler);
	const from = decodeURIComponent(url.pathname.slice('/from-url/'.length).replace(/\/$/, '')),
		server = url.searchParams.get('symbolServer');
	assert.equal(from, `${link}profile.json`);
	assert.equal(`${server}/`, link);
	const site = await siteOf(url.origin);
	const profile = await site.ask(from);
	assert.equal(profile.failed, undefined);
	assert.equal(profile.body.meta.preprocessedProfileVersion, 60);
	// As the viewer sends it, and as a page that is asked for leave first.
	for (const type of [undefined, 'application/json'])
		assert.deepEqual(await site.ask(`${server}/symbolicate/v5`, post({ jobs: [] }, type)), { status: 200, body: { results: [] } });
	assert.match((await site.ask(`${server}/asm/v1`, post({ debugName: 'a', debugId: 'b', startAddress: '0x0', size: '0x1' }))).body.error, /has no binary/);
	await site.context.close();
});
test('pages of other sites get nothing', async () => {
	const site = await siteOf('https://evil.example');
	for (const [url, options] of [
		[`${link}profile.json`],
		[link],
		[`${link}symbolicate/v5`, post({ jobs: [] })],
		[`${link}symbolicate/v5`, post({ jobs: [] }, 'application/json')],
	])
		assert.ok((await site.ask(url, options)).failed, url);
	await site.context.close();
});
test('no page can have it in a frame', async () => {
	const context = await newContext();
	await context.route('https://evil.example/**', (route) =>
		route.fulfill({ contentType: 'text/html', body: `<!doctype html><iframe src="${link}"></iframe>` }),
	);
	const site = await context.newPage();
	await site.goto('https://evil.example/');
	await site.waitForLoadState('load');
	assert.ok(!site.frames().some((frame) => frame.url() === link));
	await context.close();
});
