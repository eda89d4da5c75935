// SPDX-License-Identifier: Apache-2.0
/*
 * Names come from other people's programs. A profile whose functions, files, binaries, labels and hosts are hostile is pushed, and every
 * view is walked over: names are shown as text, whatever they hold; none becomes an element, runs, or turns the direction of what stands
 * beside it; long ones are shortened where they are shown and whole where they are copied; nothing is wider than the window.
 *
 *   WICK_URL   a server without data
 */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { base, begun, checkWidth, DESKTOP, drawn, FULL_LOOKS, id, options, PHONE, picture, pointAt, visit } from '../lib/browser.mjs';
import { pushStacks } from '../lib/stacks.mjs';

const SCRIPT = '<script>window.hostile=1</script><img src=x onerror=window.hostile=1>';
const TURNED = 'left\u202ethgir\u202c\u2066\u200f\ufeff';
const CONTROL = 'bell\u0007 escape\u001b[31m line\nfeed\ttab';
const LONG = `std::map<${'std::basic_string<char>, '.repeat(400)}int>::insert(x)`;
const QUOTED = `"quoted\\" | drop frames = "x" {a="b"} '&amp;' %3Cb%3E \${x} {{y}}`;
const NAMES = { SCRIPT, TURNED, CONTROL, LONG, QUOTED };
const HOSTS = ['</title><b>host</b>', `host${TURNED}`, 'h'.repeat(900)];
const DEEP = 10_000; // the server takes 16,384

const BAD = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/;

before(async () => {
	if (!base) return;
	const stacks = Object.values(NAMES).flatMap((name, i) => [
		[['main', name, `${name}@/usr/lib/${name.slice(0, 200)}.so`], 40 + i],
		[['main', 'caller', name], 20],
	]);
	for (const [i, host] of HOSTS.entries())
		await pushStacks(base, stacks, { host_name: host, service_name: Object.values(NAMES)[i].slice(0, 300), process_executable_name: SCRIPT });
	const deep = (frames) => [[Array.from({ length: frames }, (_, i) => `deep${i % 7}`), 50]];
	await pushStacks(base, deep(DEEP), { service_name: 'deep' });
	await assert.rejects(pushStacks(base, deep(20_000), { service_name: 'deep' }), /deeper than 16384/);
});

// What hostile names must not have done to the page as it is.
async function check(page, name) {
	const found = await page.evaluate((bad) => {
		const pattern = new RegExp(bad, 'u');
		const texts = [];
		const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
		for (let node = walker.nextNode(); node; node = walker.nextNode()) if (!node.parentElement.closest('script, style')) texts.push(node.data);
		const read = [...document.querySelectorAll('[title], [aria-label]')].flatMap((one) => [
			one.getAttribute('title') ?? '',
			one.getAttribute('aria-label') ?? '',
		]);
		return {
			ran: window.hostile,
			elements: document.querySelectorAll('#app script, #app img, #app iframe, #app object, #app [onerror]').length,
			bad: [...texts, ...read, document.title].filter((text) => pattern.test(text)).map((text) => JSON.stringify(text.slice(0, 200))),
			long: Math.max(0, ...texts.map((text) => text.length), ...read.map((text) => text.length)),
		};
	}, BAD.source);
	assert.equal(found.ran, undefined, `${name}: a name was run`);
	assert.equal(found.elements, 0, `${name}: a name became an element`);
	assert.deepEqual(found.bad, [], `${name}: a character that changes what stands beside it`);
	assert.ok(found.long < 5000, `${name}: a text of ${found.long} letters`);
	await checkWidth(page, name);
}

// Nothing is under way that a view waits for.
async function quiet(page) {
	await begun(page);
	await page.waitForFunction(() => !document.querySelector('main [aria-busy="true"]'));
	await begun(page);
}

const VIEWS = {
	home: '?view=home&by=host_name',
	profile: '?view=both&by=service_name',
	'short names': '?view=both&names=short&by=host_name',
	'one function': `?view=both&find=${encodeURIComponent(`"${SCRIPT}"`)}&q=${encodeURIComponent('process_cpu | frames =~ "script"')}`,
	'a filter that leaves nothing': `?view=both&q=${encodeURIComponent(`process_cpu{host_name="${HOSTS[0]}", service_name="<i>none</i>"}`)}`,
	'a broken selector': `?view=both&q=${encodeURIComponent('<script>{')}`,
	sandwich: `?view=sandwich&function=${encodeURIComponent(SCRIPT)}`,
	calls: '?view=calls',
	'rows by file': '?view=table&rows=file',
	'rows by binary': '?view=table&rows=binary',
	compare: `?view=compare&before=0&base=${encodeURIComponent(`process_cpu{host_name="${HOSTS[1]}"}`)}&show=both`,
	console: `?view=console&run=${encodeURIComponent('process_cpu | top 50 by label host_name')}`,
	'console of functions': `?view=console&run=${encodeURIComponent('process_cpu | top 50')}`,
	'a refused query': `?view=console&run=${encodeURIComponent(`process_cpu | ${SCRIPT}`)}`,
	source: `?view=source&function=${encodeURIComponent(SCRIPT)}`,
	asm: `?view=asm&function=${encodeURIComponent(CONTROL)}`,
	status: '?view=status',
	binaries: '?view=binaries',
	recordings: '?view=recordings',
	'a deep stack': `?view=both&q=${encodeURIComponent('process_cpu{service_name="deep"}')}`,
};

// There the name of the script must be, so that what is checked is not an empty page.
const SHOW = ['profile', 'one function', 'sandwich', 'console of functions'];

test('names are text in every view', options, async () => {
	const { page, faults, leave } = await visit(base, 'about:blank');
	for (const [name, query] of Object.entries(VIEWS)) {
		await page.setViewportSize(DESKTOP);
		await page.goto(new URL(query, base).href);
		await page.waitForSelector('main > *');
		await quiet(page);
		if (SHOW.includes(name)) await page.locator('main').getByText('<script>window.hostile=1').first().waitFor({ state: 'attached' });
		await check(page, name);
		await picture(page, `hostile-${name}`);
		await page.setViewportSize(PHONE);
		await quiet(page);
		await check(page, `${name}, narrow`);
		// What a server refuses is an error of the network on the console, too.
		assert.deepEqual(
			faults.splice(0).filter((fault) => !/console: .*the server responded with a status of 4\d\d/i.test(fault)),
			[],
			name,
		);
	}
	await leave();
});

for (const [look, how] of FULL_LOOKS)
	test(`names are text in every view: ${look}`, options, async () => {
		for (const [name, query] of Object.entries(VIEWS)) {
			const { page, leave } = await visit(base, query, how);
			await page.waitForSelector('main > *');
			await quiet(page);
			await check(page, `${name} (${look})`);
			await picture(page, `hostile-${look}-${name}`);
			await leave(/console: .*the server responded with a status of 4\d\d/i);
		}
	});

test('the tooltip, the menu, and what is copied', options, async () => {
	const { page, leave } = await visit(base, '?view=both', { permissions: ['clipboard-read', 'clipboard-write'] });
	await drawn(page);
	for (const [kind, name] of Object.entries(NAMES)) {
		const [x, y] = await pointAt(page, name);
		await check(page, `the tooltip of ${kind}`);
		await page.mouse.click(x, y, { button: 'right' });
		await page.waitForSelector(id('frame-menu'));
		await check(page, `the menu of ${kind}`);
		await page.click(id('menu-copy-name'));
		await page.waitForFunction(async (wanted) => (await navigator.clipboard.readText()) === wanted, name);
	}
	await leave();
});

test('suggestions of the filter, and the filter that is chosen', options, async () => {
	const { page, url, leave } = await visit(base, '?view=both');
	await drawn(page);
	await page.fill(id('filter-input'), 'host_name=');
	await page.waitForFunction((count) => document.querySelectorAll('.options [role="option"]:not([aria-disabled])').length >= count, HOSTS.length);
	await check(page, 'values that are suggested');
	await page.fill(id('filter-input'), '</title>');
	await page.getByRole('option', { name: '</title><b>host</b>' }).click();
	await page.waitForSelector(id('chip'));
	await page.fill(id('filter-input'), '<script>');
	const option = page
		.getByRole('option')
		.filter({ hasText: /function$/ })
		.filter({ hasText: SCRIPT });
	await option.first().click();
	await page.waitForFunction(() => document.querySelectorAll('[data-testid="chip"]').length === 2);
	await quiet(page);
	await drawn(page);
	await page.waitForFunction(() => !window.__wick.flame.nodeAt('deep0'));
	await check(page, 'chips of hostile names');
	assert.ok(url().get('q').includes(HOSTS[0]) && url().get('q').includes(SCRIPT));
	await leave();
});

test('downloads have names that no file system minds, and the page may run and load its own alone', options, async () => {
	const page = await fetch(new URL('?view=profile', base));
	const policy = page.headers.get('content-security-policy');
	assert.match(policy, /default-src 'none'|default-src 'self'/);
	assert.doesNotMatch(policy, /unsafe|\*/);
	assert.equal(page.headers.get('x-content-type-options'), 'nosniff');
	const query = `process_cpu{host_name="${HOSTS[0]}", service_name=~"(?s).*"}`;
	for (const format of ['pprof', 'svg', 'folded']) {
		const response = await fetch(new URL(`api/v1/query?${new URLSearchParams({ query, format })}`, base));
		assert.equal(response.status, 200);
		const disposition = response.headers.get('content-disposition') ?? '';
		assert.doesNotMatch(disposition, /[<>\n\r\\]|\.\.\//, format);
		if (format === 'svg') assert.doesNotMatch(await response.text(), /<script>window|<img/);
	}
});
