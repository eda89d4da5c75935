// SPDX-License-Identifier: Apache-2.0
/*
 * Files, lines, inlined functions, source, assembly and the list of binaries, in headless Chromium against a running Wick that
 * samples tests/browser/hot_lines.c. What is shown is compared with the source file and with objdump.
 *
 *   WICK_URL          the server
 *   WICK_HOT_SOURCE   the source file of the program that runs; the program is beside it, without the .c
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { before, test } from 'node:test';
import { pprofProfile } from '../harness.mjs';
import { base, boxAt, checkWidth, drawn, id, LOOKS, options, passTime, passUntil, percentOf, picture, settled, visit } from '../lib/browser.mjs';

const sourcePath = process.env.WICK_HOT_SOURCE;
const program = sourcePath?.replace(/\.c$/, ''); // another of its name may run as well
const QUERY = 'q=' + encodeURIComponent(`process_cpu{process_executable_path="${program}"}`);
const source = !sourcePath ? [] : readFileSync(sourcePath, 'utf8').split('\n');
const lineOf = (text) => source.findIndex((line) => line.includes(text)) + 1;

before(async () => {
	if (!base) return;
	await untilNamed();
});

// Samples come within 10 s of the program's start, lines of a program with debug information soon after.
async function untilNamed() {
	const url = new URL(`api/v1/query?${QUERY.replace(/^q/, 'query')}&from=now-1h&format=json&limit=0&symbols_wait=5s`, base);
	for (let end = Date.now() + 240_000; ; await new Promise((resolve) => setTimeout(resolve, 500))) {
		const response = await fetch(url).then((r) => r.json());
		if (response.functions?.rows.some((row) => row.name === 'sum_of' && row.line > 0)) return;
		assert.ok(Date.now() < end, `no line for sum_of: ${JSON.stringify(response.functions?.rows.slice(0, 5))}`);
	}
}

test('hovering tells file, line and that a function is inlined', options, async () => {
	const { page, leave } = await visit(base, `?${QUERY}&view=graph`);
	await drawn(page);
	await settled(page);
	const tip = page.locator('.tip');
	for (const [name, inlined] of [
		['sum_of', true],
		['outer_function', false],
	]) {
		await page.mouse.move(...(await boxAt(page, name)));
		await page.waitForFunction((n) => document.querySelector('.tip-name')?.textContent === n, name);
		const text = await tip.innerText();
		const place = `${sourcePath}:${lineOf(` ${name}(`)}`;
		assert.ok(text.includes(place), `${text} has ${place}`);
		assert.equal(text.includes('[inlined]'), inlined, text);
		assert.match(text, /hot_lines · native code/);
		await picture(page, `tip-${name}`);
	}
	await leave();
});

test('the table tells them too', options, async () => {
	const { page, url, leave } = await visit(base, `?${QUERY}&view=table`);
	const row = (name) => page.locator(`${id('table')} .tbody [role="row"]`, { has: page.getByText(name, { exact: true }) });
	await row('sum_of').waitFor();
	assert.match(await row('sum_of').innerText(), new RegExp(`\\[inlined\\][^]*hot_lines\\.c:${lineOf(' sum_of(')}[^]*hot_lines`));
	const outer = await row('outer_function').innerText();
	assert.match(outer, new RegExp(`hot_lines\\.c:${lineOf(' outer_function(')}`));
	assert.doesNotMatch(outer, /\[inlined\]/);
	await page.locator(id('sort-file')).click();
	assert.equal(url().get('sort'), 'file');
	await picture(page, 'table');
	await leave();
});

test('from a frame to its source: the hot lines are the ones that are hot', options, async () => {
	const { page, url, leave } = await visit(base, `?${QUERY}&view=graph`);
	await drawn(page);
	await settled(page);
	await page.mouse.click(...(await boxAt(page, 'sum_of')), { button: 'right' });
	await page.locator(id('menu-source')).click();
	const listing = page.locator(id('listing-source'));
	await listing.waitFor();
	assert.deepEqual([url().get('view'), url().get('function'), url().get('file')], ['source', 'sum_of', sourcePath]);
	const active = listing.locator('.lr.active');
	await active.waitFor();
	const hottest = Number(await active.locator('.lc-at').innerText());
	assert.equal(hottest, lineOf('the hottest loop'), 'most of its time is in the call that is inlined there');
	const text = await active.locator('.lc-text').innerText();
	assert.equal(text.trim(), source[hottest - 1].trim(), 'the text is that of the file');
	assert.ok(percentOf(await active.locator('.lc-total').innerText()) > 0);
	await picture(page, 'source');

	await listing.press('ArrowUp');
	assert.equal(url().get('at'), String(hottest - 1));
	await listing.press('h');
	assert.equal(url().get('at'), String(hottest));
	await listing.press('a');
	await page.locator(id('listing-asm')).waitFor();
	assert.equal(url().get('view'), 'asm');
	await page.keyboard.press('Escape');
	await drawn(page);
	assert.deepEqual([url().get('view'), url().get('function')], ['graph', null], 'back at the graph');
	await page.goBack();
	await page.locator(id('listing-asm')).waitFor();
	await leave();
});

test('assembly: the instructions are those of the program, with lines and inlined functions', options, async () => {
	const { page, url, leave } = await visit(base, `?${QUERY}&view=asm&function=outer_function`);
	const listing = page.locator(id('listing-asm'));
	const active = listing.locator('.lr.active');
	await active.waitFor();
	const dump = execFileSync('objdump', ['-d', '--insn-width=16', '--disassemble=outer_function', program], { encoding: 'utf8' });
	const real = new Map([...dump.matchAll(/^\s*([0-9a-f]+):\t([0-9a-f ]+?)\s*\t(\S+)/gm)].map((m) => [m[1], { bytes: m[2].trim(), name: m[3] }]));
	assert.ok(real.size > 10, dump);
	await page.locator(id('listing-bytes')).click();
	const shown = await listing.locator('.lbody .lr').evaluateAll((rows) =>
		rows.map((row) => ({
			address: row.querySelector('.lc-at').textContent,
			bytes: row.querySelector('.lc-bytes').textContent,
			name: row.querySelector('.lc-text b').textContent,
			self: row.querySelector('.lc-self').textContent,
			from: row.querySelector('.lc-place').textContent,
		})),
	);
	assert.ok(shown.length > 10);
	for (const { address, bytes } of shown) assert.equal(bytes, real.get(address)?.bytes, `at ${address}`);
	const hot = shown.filter((row) => row.self !== '');
	assert.ok(hot.length > 1, 'several instructions have samples');
	assert.ok(
		shown.some((row) => row.from.includes('mix_bits ← sum_of ← outer_function')),
		JSON.stringify(shown.slice(0, 20)),
	);
	await picture(page, 'asm');
	await listing.locator('.lc-place button').first().click();
	await page.locator(id('listing-source')).waitFor();
	assert.equal(url().get('view'), 'source');
	await leave();
});

test('a function that nobody knows: what is missing is said', options, async () => {
	const { page, leave } = await visit(base, `?${QUERY}&view=source&function=no_such_function`);
	const trouble = page.locator(id('listing-error'));
	await trouble.waitFor();
	assert.match(await trouble.innerText(), /no_such_function/);
	await picture(page, 'source-error');
	await page.locator(id('listing-back')).click();
	await drawn(page);
	await leave(/Failed to load resource/); // which the browser itself logs
});

test('the binaries: the program is complete, found by text and state', options, async () => {
	const { page, url, leave } = await visit(base, '?view=profile');
	await drawn(page);
	await page.locator(id('status')).click();
	await page.locator(id('open-binaries')).click();
	const rows = page.locator(id('binary'));
	await rows.first().waitFor();
	assert.ok((await rows.count()) > 1);
	await picture(page, 'binaries');
	await page.locator(id('binaries-search')).fill(program);
	await page.waitForFunction((s) => document.querySelectorAll(s).length === 1, id('binary'));
	assert.equal(await rows.getAttribute('data-state'), 'complete', await rows.innerText());
	assert.match(await rows.innerText(), /hot_lines[^]*complete[^]*dwarf/);
	assert.equal(url().get('text'), program);
	await page.locator(id('state-missing')).click();
	await page.waitForFunction((s) => document.querySelectorAll(s).length === 0, id('binary'));
	await page.locator(id('state-complete')).click();
	await rows.first().waitFor();
	const before = (await (await fetch(new URL(`api/v1/binaries?text=${encodeURIComponent(program)}`, base))).json()).binaries[0];
	await page.locator(id('retry')).click();
	await page.waitForFunction((s) => document.querySelector(s)?.dataset.state === 'complete', id('binary'));
	assert.ok(before.functions >= 1 && before.build_id.length >= 8, JSON.stringify(before));
	await page.locator(id('binaries-back')).click();
	await drawn(page);
	assert.equal(url().get('view'), 'profile');
	// Something on any machine has no names: the way to the reason.
	const why = page.locator(id('names-missing'));
	if (await why.count()) {
		await why.click();
		await page.locator(id('state-missing')).waitFor();
		assert.equal(url().get('state'), 'missing,failed,partial');
		assert.equal(await page.locator(id('state-partial')).getAttribute('aria-pressed'), 'true');
		await page.goBack();
		await drawn(page);
	}
	assert.equal(url().get('view'), 'profile');
	await leave();
});

test('short names: asked for, kept in the URL and by the browser', options, async () => {
	const { page, url, leave } = await visit(base, `?${QUERY}&view=graph`);
	await drawn(page);
	const [request] = await Promise.all([page.waitForRequest((r) => r.url().includes('names=short')), page.locator(id('names-short')).click()]);
	assert.match(request.url(), /format=columns/);
	assert.equal(url().get('names'), 'short');
	await Promise.all([page.waitForRequest((r) => r.url().includes('names=short')), page.goto(new URL(`?${QUERY}&view=graph`, base).href)]);
	await drawn(page);
	assert.equal(await page.locator(id('names-short')).getAttribute('aria-pressed'), 'true');
	await leave();
});

// That several files have one build-id is put into the responses, too.
test('ambiguous names are counted below the graph, and marked in the list of binaries', options, async () => {
	const { page, url, leave } = await visit(base, 'about:blank');
	await page.route(/api\/v1\/query\?.*format=columns/, async (route) => {
		const response = await (await route.fetch({ url: route.request().url().replace('format=columns', 'format=flame') })).json();
		response.symbols = { resolved: 10, pending: 0, missing: 5, ambiguous: 3 };
		response.stats.unresolved = 5;
		response.flame.nodes.kind[0] = 0;
		await route.fulfill({ json: response });
	});
	await page.route(/api\/v1\/binaries\?/, async (route) => {
		const response = await (await route.fetch()).json();
		response.binaries.forEach((binary, i) => (binary.ambiguous = i === 0));
		await route.fulfill({ json: response });
	});
	await page.goto(new URL(`?${QUERY}&view=graph`, base).href);
	await drawn(page);
	const note = page.locator(id('names-ambiguous'));
	await note.waitFor();
	assert.equal(await note.innerText(), '3 ambiguous');
	await note.click();
	await page.locator(id('binary-ambiguous')).first().waitFor();
	assert.equal(await page.locator(id('binary-ambiguous')).count(), 1);
	assert.equal(url().get('view'), 'binaries');
	assert.ok(!url().get('state'), 'of whatever state');
	await leave();
});

// What the server says of names that are being looked up is put into its responses here: how long that takes cannot be chosen.
test('names that come late are filled in, and nothing moves', options, async () => {
	const { page, leave } = await visit(base, 'about:blank', { clock: true });
	const asked = [];
	await page.route(/api\/v1\/query\?.*format=columns/, async (route) => {
		// The page takes either form.
		const response = await (await route.fetch({ url: route.request().url().replace('format=columns', 'format=flame') })).json();
		const late = asked.length < 2;
		asked.push(new URL(route.request().url()).searchParams);
		response.symbols = { resolved: 10, pending: late ? 1234 : 0, missing: 0, ambiguous: 0 };
		const { strings, nodes } = response.flame;
		if (late) strings.forEach((text, i) => (strings[i] = /^(outer_function|main)$/.test(text) ? `hot_lines+0x${i}` : text));
		nodes.kind[0] = 0;
		await route.fulfill({ json: response });
	});
	await page.goto(new URL(`?${QUERY}&view=graph`, base).href);
	await drawn(page);
	const note = page.locator(id('names-pending'));
	await note.waitFor();
	assert.match(await note.innerText(), /symbolizing 1.23 k addresses/);
	await page.mouse.click(...(await boxAt(page, 'sum_of')));
	await page.waitForFunction(() => window.__wick.flame.zoomName === 'sum_of');
	const before = await page.locator(id('flame')).boundingBox();
	await passUntil(page, 2_000, (limit) => note.waitFor({ state: 'detached', ...limit }));
	assert.deepEqual(await page.locator(id('flame')).boundingBox(), before, 'the graph stays where it is');
	assert.equal(await page.evaluate(() => window.__wick.flame.zoomName), 'sum_of', 'the zoom is kept');
	assert.match(await page.locator(id('breadcrumbs')).innerText(), /outer_function/);
	assert.ok(asked.length >= 3);
	assert.match(asked[2].get('from'), /^\d+$/, 'the same time range');
	assert.equal(asked[2].get('from'), asked[1].get('from'));
	const count = asked.length;
	await passTime(page, 20_000);
	await settled(page);
	assert.equal(asked.length, count, 'and then it is quiet');
	await leave();
});

test('hostile names stay text', options, async () => {
	const evil = '<img src=x onerror=window.__owned=1>\u202e"\'&amp;';
	const profile = pprofProfile([[[evil, 'main'], 1000]], { timeNs: BigInt(Date.now()) * 1_000_000n });
	const sent = await fetch(new URL('api/v1/ingest?name=evil&label=service_name%3Devil', base), { method: 'POST', body: profile });
	assert.equal(sent.status, 200, await sent.text());
	const query = 'q=' + encodeURIComponent('evil{service_name="evil"}');
	const { page, leave } = await visit(base, `?${query}&view=table`);
	const row = page.locator(`${id('table')} .tbody [role="row"]`).first();
	await row.waitFor();
	assert.ok((await row.innerText()).includes('<img src=x'));
	await row.click({ button: 'right' });
	await page.locator(id('menu-source')).click();
	await page.locator(`${id('listing-error')}, ${id('listing-source')}`).waitFor();
	await page.keyboard.press('a');
	await page
		.locator(`${id('listing-error')}, ${id('listing-asm')}`)
		.first()
		.waitFor();
	assert.equal(await page.evaluate(() => window.__owned ?? document.querySelectorAll('main img').length), 0);
	await leave(/Failed to load resource/); // which the browser itself logs
});

for (const [look, how] of LOOKS)
	test(`source, assembly and binaries fit ${look}`, options, async () => {
		const { page, leave } = await visit(base, 'about:blank', how);
		for (const [name, query, part] of [
			['source', `?${QUERY}&view=source&function=outer_function`, '.lbody .lr'],
			['asm', `?${QUERY}&view=asm&function=outer_function`, '.lbody .lr'],
			['binaries', '?view=binaries', id('binary')],
		]) {
			await page.goto(new URL(query, base).href);
			await page.locator(part).first().waitFor();
			await settled(page);
			await checkWidth(page, name);
			await page.locator('.profile').scrollIntoViewIfNeeded();
			await picture(page, `${name}-${look}`);
		}
		await leave();
	});
