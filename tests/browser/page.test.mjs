// SPDX-License-Identifier: Apache-2.0
/*
 * Drives the page in headless Chromium against a running Wick, as a person would. What is on the canvas is compared with
 * the columns that the page itself was sent, read and summed here in another way.
 *
 *   WICK_URL   the server, e.g. http://127.0.0.1:7070/; it must have, or soon get, samples of its own machine
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { readColumns } from '../harness.mjs';
import {
	base,
	boxOf,
	checkWidth,
	come,
	drawn,
	id,
	LOOKS,
	options,
	passUntil,
	percentOf,
	PHONE,
	picture,
	saved,
	settled,
	visit,
	zoomIs,
} from '../lib/browser.mjs';

// Of the program that page.test.sh runs.
const WORKLOAD = 'q=' + encodeURIComponent('process_cpu{process_executable_name="workload"}');

// The profile that the page shows, of those that it was sent: one that it asked for again, for the names that were missing, it shows if
// there are fewer of them (web/src/api/names.ts).
function shownOf(sent) {
	let shown, before;
	for (const one of sent) {
		const pending = ({ answer }) => answer.symbols?.pending ?? 0;
		if (!before || !one.url.searchParams.has('symbols_wait') || pending(one) < pending(before)) shown = one;
		before = one;
	}
	return shown;
}

// `lastFlame`: the profile that the page shows, as soon as it has drawn what it was sent.
async function open(query = '?view=profile', how = {}) {
	const reading = [];
	const prepare = (page) =>
		page.on('response', (response) => {
			if (!response.ok() || !response.url().includes('format=columns')) return;
			const url = new URL(response.url());
			// A failure: the page went on before the answer was read.
			reading.push(
				response.body().then(
					(body) => ({ url, answer: readColumns(body) }),
					() => null,
				),
			);
		});
	const opened = await visit(base, query, { ...how, prepare });
	const lastFlame = async () => shownOf((await Promise.all(reading)).filter((one) => one));
	return { ...opened, lastFlame };
}

const flameState = (page) => page.evaluate(() => ({ zoom: window.__wick.flame.zoomName, focus: window.__wick.flame.focusName }));
const percentOfMatch = async (page) => percentOf(await page.locator(id('flame-matched')).innerText());
// The page says the share of what passes, in the profile that it shows: while names are still looked up, it gets others.
async function sharesMatch(page, lastFlame, passes) {
	for (;;) {
		const { flame } = (await lastFlame()).answer,
			share = matchedShare(flame, passes);
		await come(
			page,
			([selector, wanted]) => {
				const shown = /([\d.]+)%/.exec(document.querySelector(selector).textContent);
				return shown && Math.abs(Number(shown[1]) - wanted) < 0.06;
			},
			[id('flame-matched'), share],
		);
		const shown = await percentOfMatch(page);
		if (Math.abs(shown - share) < 0.06) return;
		await settled(page);
		assert.notEqual((await lastFlame()).answer.flame, flame, `${shown} % against ${share} %`);
	}
}

// Value of the stacks that hold a frame whose name passes, each stack once; from the columns as sent.
function matchedShare(flame, passes) {
	const { parent, name, total } = flame.nodes;
	let value = 0;
	for (let i = 1; i < parent.length; i++) {
		if (!passes(shownName(flame.strings[name[i]]))) continue;
		let above = parent[i];
		while (above > 0 && !passes(shownName(flame.strings[name[above]]))) above = parent[above];
		if (above === 0) value += total[i];
	}
	return (100 * value) / total[0];
}

async function dragOver(page, fromShare, toShare) {
	const plot = await page.locator(`${id('metrics')} .u-over`).boundingBox();
	const y = plot.y + plot.height / 2;
	await page.mouse.move(plot.x + plot.width * fromShare, y);
	await page.mouse.down();
	await page.mouse.move(plot.x + plot.width * ((fromShare + toShare) / 2), y, { steps: 4 });
	await page.mouse.move(plot.x + plot.width * toShare, y, { steps: 4 });
	await page.mouse.up();
}

test('the first visit says what costs most, and a row leads to its profile', options, async () => {
	const { page, url, leave } = await open('');
	const rows = page.locator(`${id('home-services')} tbody tr`);
	await rows.first().waitFor();
	const answer = await page.evaluate(async () =>
		(await fetch('api/v1/pipeline?from=now-1h&q=' + encodeURIComponent('process_cpu | top 3 by label process_executable_name'))).json(),
	);
	assert.ok((await rows.locator('.home-name').allInnerTexts()).includes(answer.table.rows[0][0]), 'the costliest process is there');
	await page.locator(`${id('home-movers')} h2`).waitFor();
	await page
		.locator(`${id('home-binaries')} tbody tr`)
		.first()
		.waitFor();
	const name = await rows.first().locator('.home-name').innerText();
	// Of the rows, which go on changing, the one of that name; there was a graph on the page before it, too.
	const sent = page.waitForResponse((response) => response.ok() && (new URL(response.url()).searchParams.get('query') ?? '').includes(`="${name}"`));
	await rows
		.filter({ has: page.getByText(name, { exact: true }) })
		.first()
		.click();
	await sent;
	await drawn(page);
	assert.ok(url().get('q').includes(name));
	await page.goBack();
	await rows.first().waitFor();
	assert.deepEqual([...url()], []);
	await leave();
});

test('the profile of everything is a flame graph of this machine', options, async () => {
	const { page, leave } = await open();
	await drawn(page);
	await settled(page);
	assert.match(await page.title(), /Wick/);
	assert.equal((await flameState(page)).zoom, 'total');
	assert.ok((await page.locator(`${id('process-list')} .rail-pick`).count()) > 0, 'processes are listed');
	assert.ok((await page.locator(`${id('table')} [role="row"]`).count()) > 2, 'functions are listed');
	assert.match(await page.locator(id('status')).innerText(), /\S/);
	await leave();
});

test('profile types: the one picked is the one asked for', options, async () => {
	const { page, lastFlame, url, leave } = await open();
	await drawn(page);
	const select = page.locator(id('type-select'));
	const types = await select.locator('option').evaluateAll((options) => options.map((o) => o.value));
	assert.ok(types.length > 0 && types.every((t) => t.split(':').length >= 5), types.join(' '));
	assert.match(await select.inputValue(), /^process_cpu:/, 'CPU time comes first');
	for (const type of [types[types.length - 1], types[0]]) {
		await select.selectOption(type);
		await settled(page);
		await drawn(page);
		assert.equal(await select.inputValue(), type);
		assert.ok((await lastFlame()).url.searchParams.get('query').startsWith(type), 'the query names the type');
		if (types.length > 1) assert.ok(url().get('q').startsWith(type));
	}
	await leave();
});

test('a process: one click filters, the chip goes away again, the back button too', options, async () => {
	const { page, lastFlame, url, leave } = await open();
	await drawn(page);
	await settled(page);
	const whole = (await lastFlame()).answer.flame.total;
	const first = page.locator(`${id('process-list')} .rail-pick`).first();
	const name = await first.locator('.rail-name').innerText();
	await first.click();
	await page.locator(id('chip')).waitFor();
	await settled(page);
	await drawn(page);
	const part = await lastFlame();
	assert.ok(part.url.searchParams.get('query').includes(`process_executable_name="${name}"`), part.url.href);
	assert.ok(part.answer.flame.total > 0 && part.answer.flame.total <= whole * 1.5, 'a part of the whole');
	assert.ok(url().get('q').includes(name));
	assert.ok((await page.locator(`${id('process-list')} .rail-pick`).count()) > 1, 'the other processes stay in the list');
	await page.goBack();
	await page.locator(id('chip')).waitFor({ state: 'detached' });
	assert.equal(url().get('q'), null);
	await page.goForward();
	await page.locator(id('chip')).waitFor();
	await page.getByRole('button', { name: /Remove the filter/ }).click();
	await page.locator(id('chip')).waitFor({ state: 'detached' });
	await settled(page);
	await leave();
});

test('the filter suggests labels and values from the data; the selector can be typed', options, async () => {
	const { page, lastFlame, leave } = await open();
	await drawn(page);
	const input = page.locator(id('filter-input'));
	await input.fill('process_executable_na');
	const option = page.locator('.options [role="option"]:not([aria-disabled])');
	await option.filter({ hasText: 'process_executable_name' }).first().click();
	await option.filter({ hasText: '=' }).first().click();
	await option.first().waitFor();
	await page.waitForFunction(() => document.querySelectorAll('.options [role="option"]:not([aria-disabled])').length > 0);
	await input.press('ArrowDown');
	const value = await page.locator('.options [aria-selected="true"] span').innerText();
	await input.press('Enter');
	assert.equal(await page.locator(`${id('chip')} .chip-value`).innerText(), value);
	await settled(page);
	assert.ok((await lastFlame()).url.searchParams.get('query').includes(`process_executable_name="${value}"`));

	await page.locator(id('selector-toggle')).click();
	const text = page.locator(id('selector-input'));
	assert.ok((await text.inputValue()).includes(value));
	await text.fill('process_cpu{process_comm=');
	assert.match(await page.locator('#selector-fault').innerText(), /double quotes at column 26/);
	await text.fill('process_cpu{process_executable_name!=""}');
	await text.press('Enter');
	await settled(page);
	await drawn(page);
	assert.match((await lastFlame()).url.searchParams.get('query'), /process_executable_name!=""/);
	await leave();
});

test('the brush selects a part of the time range, and gives it back', options, async () => {
	const { page, lastFlame, url, leave } = await open();
	await drawn(page);
	await page.locator(id('range-select')).selectOption('now-5m');
	await settled(page);
	await page.locator(`${id('metrics')} canvas`).waitFor();
	await dragOver(page, 0.5, 0.995); // newest at the right: a server that has just started has data there only
	await page.locator(id('selection')).waitFor();
	await settled(page);
	const [from, to] = url().get('sel').split('-').map(Number);
	assert.ok(to > from && to - from < 300_000, `${from}-${to}`);
	const asked = (await lastFlame()).url.searchParams;
	assert.deepEqual([Number(asked.get('from')), Number(asked.get('to'))], [from, to], 'the profile is that of the selection');
	await drawn(page);

	await page.locator(id('clear-selection')).click();
	await page.locator(id('selection')).waitFor({ state: 'detached' });
	assert.equal(url().get('sel'), null);
	await page.goBack();
	await page.locator(id('selection')).waitFor();
	await page.getByTitle('Make the selection the time range').click();
	assert.deepEqual([url().get('from'), url().get('to'), url().get('sel')], [String(from), String(to), null]);
	await settled(page);

	await page.locator(id('metrics')).press('ArrowLeft');
	await page.locator(id('selection')).waitFor();
	await page.locator(id('metrics')).press('Escape');
	await page.locator(id('selection')).waitFor({ state: 'detached' });
	await leave();
});

// The page shows the addresses of a binary that have no name as one function. Names may end like one: Java's Main$$Lambda/0x00007f1c.
const ADDRESS = /(^|\+)0x[0-9a-f]+$/;
const shownName = (name) => {
	if (!ADDRESS.test(name)) return name;
	const binary = name.replace(ADDRESS, '');
	return binary.startsWith('[') ? binary : `[${binary || 'unknown'}]`;
};

// The function of a name that costs most.
function costliest({ strings, nodes }) {
	const named = [...nodes.total.keys()].filter((i) => i > 0 && !ADDRESS.test(strings[nodes.name[i]]));
	return strings[nodes.name[named.sort((a, b) => nodes.total[b] - nodes.total[a])[0]]];
}

// The first frame that can be told apart: wide enough to hit, not all of it, near the root, and the only one of its name.
function frameToOpen(flame) {
	const { parent, name, total } = flame.nodes;
	const depth = parent.map(() => 0);
	const count = new Map();
	for (const n of name) count.set(n, (count.get(n) ?? 0) + 1);
	for (let i = 1; i < parent.length; i++) {
		depth[i] = depth[parent[i]] + 1;
		const named = !ADDRESS.test(flame.strings[name[i]]);
		const fits = named && total[i] < total[0] && total[i] > total[0] / 50 && depth[i] < 15 && count.get(name[i]) === 1;
		if (fits) return { name: flame.strings[name[i]], share: (100 * total[i]) / total[0] };
	}
	throw new Error('this machine does so little that no function stands out');
}

test('zoom with mouse and keys, from the URL, and through a refresh', options, async () => {
	const { page, lastFlame, url, leave } = await open(`?view=graph&${WORKLOAD}`);
	await drawn(page);
	await settled(page);
	const { name } = frameToOpen((await lastFlame()).answer.flame);
	const box = await boxOf(page, name);
	await page.mouse.click(box.x + box.width / 2, box.y + box.height / 2);
	await zoomIs(page, name);
	assert.ok(url().get('zoom'));
	await page.waitForFunction(([n, w]) => window.__wick.flame.nodeAt(n)?.width > w, [name, 1000]);
	assert.ok((await page.locator(id('breadcrumbs')).innerText()).includes(name.slice(0, 20)));

	await page.locator(id('refresh')).click();
	await settled(page);
	assert.equal((await flameState(page)).zoom, name, 'a refresh keeps the zoom');
	await page.reload();
	await drawn(page);
	await settled(page);
	assert.equal((await flameState(page)).zoom, name, 'the URL keeps the zoom');

	await page.keyboard.press('Escape');
	await zoomIs(page, 'total');
	const graph = page.locator(id('flame'));
	await graph.focus();
	await graph.press('ArrowDown');
	const { focus } = await flameState(page);
	assert.ok(focus && focus !== 'total');
	await graph.press('Enter');
	await zoomIs(page, focus);
	await graph.press('ArrowUp');
	assert.equal((await flameState(page)).focus, 'total');
	await graph.press('Backspace');
	await zoomIs(page, 'total');
	await page.goBack();
	await zoomIs(page, focus);

	await page.locator(id('flip')).click();
	assert.equal(url().get('dir'), 'flame');
	await page.locator(id('reset-zoom')).click();
	await zoomIs(page, 'total');
	const pane = await graph.boundingBox();
	await page.waitForFunction((middle) => window.__wick.flame.nodeAt('total')?.y > middle, pane.y + pane.height / 2);
	const hidden = await graph.evaluate((e) => e.scrollHeight - e.clientHeight);
	await page.mouse.move(pane.x + 200, pane.y + 200);
	await page.mouse.wheel(0, -hidden - 100);
	await page.waitForFunction((s) => document.querySelector(s).scrollTop === 0, id('flame'));
	await leave();
});

test('hovering tells self and total', options, async () => {
	const { page, lastFlame, leave } = await open(`?view=graph&${WORKLOAD}`);
	await drawn(page);
	await settled(page);
	const { name, share } = frameToOpen((await lastFlame()).answer.flame);
	const box = await boxOf(page, name);
	await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
	const tip = page.locator('.tip');
	await tip.waitFor();
	const text = await tip.innerText();
	assert.ok(text.includes(name.slice(0, 40)), text);
	assert.ok(Math.abs(percentOf(/Total.*/.exec(text)[0]) - share) < 0.06, `${text} against ${share}`);
	assert.match(text, /Self/);
	await leave();
});

test('search shows the share of what matches, each stack once', options, async () => {
	const { page, lastFlame, url, leave } = await open();
	await drawn(page);
	await settled(page);
	const { flame } = (await lastFlame()).answer;
	const name = costliest(flame);
	const part = name.slice(0, Math.max(3, Math.ceil(name.length / 2)));
	await page.locator('body').press('/');
	await page.keyboard.type(part);
	await sharesMatch(page, lastFlame, (n) => n.toLowerCase().includes(part.toLowerCase()));
	assert.equal(url().get('find'), part);

	await page.locator(id('flame-regex')).click();
	await page.locator(id('flame-search')).fill('^[a-m]');
	await sharesMatch(page, lastFlame, (n) => /^[a-m]/i.test(n));
	await page.locator(id('flame-search')).press('Enter');
	await page.waitForFunction(() => /^[a-m]/i.test(window.__wick.flame.focusName ?? ''));
	await page.locator(id('flame-search')).fill('(');
	await page.waitForFunction((s) => /group|parenthes/i.test(document.querySelector(s).textContent), id('flame-matched'));
	await page.locator(id('flame-search')).press('Escape');
	assert.equal(url().get('find'), null);
	await leave();
});

test('the table: sums, order, filter, and from a row to the graph', options, async () => {
	const { page, lastFlame, url, leave } = await open();
	await drawn(page);
	await settled(page);
	const { flame } = (await lastFlame()).answer;
	await page.locator(id('view-table')).click();
	assert.equal(url().get('view'), 'table');
	const rows = page.locator(`${id('table')} .tbody [role="row"]`);
	await rows.first().waitFor();
	const selfOf = new Map();
	flame.nodes.self.forEach((self, i) => {
		if (i === 0) return;
		const key = `${shownName(flame.strings[flame.nodes.name[i]])}\n${flame.strings[flame.nodes.binary[i]]}\n${flame.nodes.file[i]}`;
		selfOf.set(key, (selfOf.get(key) ?? 0) + self);
	});
	const largest = Math.max(...selfOf.values());
	const shown = percentOf(await rows.first().locator('.td-self').innerText());
	assert.ok(Math.abs(shown - (100 * largest) / flame.total) < 0.06, `${shown} against ${(100 * largest) / flame.total}`);

	await page.locator(id('sort-total')).click();
	assert.equal(url().get('sort'), 'total');
	const totals = await rows.locator('.td-total').allInnerTexts();
	const percents = totals.map(percentOf).filter((p) => !Number.isNaN(p));
	assert.ok(percents.length > 1 && percents.every((p, i) => i === 0 || p <= percents[i - 1] + 0.01), percents.join(' '));

	const name = await rows.first().locator('.fn').innerText();
	await page.locator(id('table-filter')).fill(name);
	await come(page, ([selector, wanted]) => [...document.querySelectorAll(selector)].every((fn) => fn.innerText.toLowerCase().includes(wanted)), [
		`${id('table')} .tbody [role="row"] .fn`,
		name.toLowerCase(),
	]);
	assert.ok((await rows.locator('.fn').allInnerTexts()).includes(name));
	await rows.first().click();
	assert.ok(url().get('find').startsWith('"'), 'a row becomes a search for the whole name');
	await page.locator(id('view-both')).click();
	await drawn(page);
	await page.waitForFunction((s) => document.querySelector(s).textContent.includes('%'), id('flame-matched'));
	await leave();
});

test('what is shown can be downloaded as pprof, SVG and folded', options, async () => {
	const { page, leave } = await open();
	await drawn(page);
	await settled(page);
	await page.click(id('download'));
	const save = (format) => saved(page, () => page.locator(id(`download-${format}`)).click());
	const pprof = await save('pprof');
	assert.match(pprof.name, /\.pb\.gz$/);
	assert.deepEqual([...pprof.bytes.subarray(0, 2)], [0x1f, 0x8b], 'gzip');
	assert.ok(gunzipSync(pprof.bytes).length > 100);
	if (!process.env.WICK_TEST_PPROF_ONLY) {
		assert.match((await save('svg')).bytes.toString(), /<svg/);
		assert.match((await save('folded')).bytes.toString(), /^.+ \d+$/m);
	}
	await leave();
});

test('dark and light: the system decides, the toggle overrides, the choice stays', options, async () => {
	const { page, leave } = await open(undefined, { colorScheme: 'dark' });
	await drawn(page);
	const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
	const dark = await background();
	await page.locator(id('theme-toggle')).click();
	await page.waitForFunction(() => document.documentElement.dataset.theme === 'light');
	assert.notEqual(await background(), dark);
	await page.reload();
	await drawn(page);
	assert.notEqual(await background(), dark, 'kept over a reload');
	await leave();
});

test('nothing to show: each case says what to do', options, async () => {
	const { page, leave } = await open('?from=now-700d&to=now-699d');
	await page.locator(id('empty-range')).waitFor();
	await page.getByRole('button', { name: /last hour that has data/ }).click();
	await drawn(page);
	await page.goto(new URL('?q=process_cpu{process_comm%3D"no such process"}', base).href);
	await page.locator(id('empty-match')).waitFor();
	await page.getByRole('button', { name: 'Remove the filters' }).click();
	await drawn(page);
	await page.goto(new URL('?q=process_cpu{process_comm%3D', base).href);
	await page.locator(id('bad-selector')).waitFor();
	await settled(page);
	await leave();
});

test('errors of the server are told, what was there stays, and it recovers', options, async () => {
	const { page, context, leave } = await open('?q=process_cpu{process_comm%3D~"("}', { clock: true });
	await page.locator(id('error')).waitFor();
	assert.match(await page.locator(id('error')).innerText(), /Invalid query/);
	await page.goto(new URL('?view=profile', base).href);
	await drawn(page);
	await settled(page);
	await context.setOffline(true);
	await page.locator(id('refresh')).click();
	await page.locator(id('error-banner')).waitFor();
	assert.match(await page.locator(id('error-banner')).innerText(), /does not respond/);
	assert.ok(await page.evaluate(() => window.__wick.flame.visibleCount > 1), 'the graph stays');
	await context.setOffline(false);
	await passUntil(page, 5_100, (limit) => page.locator(id('error-banner')).waitFor({ state: 'detached', ...limit }));
	await leave(/Failed to load resource/); // which the browser itself logs
});

for (const [look, how] of LOOKS)
	test(`the page fits ${look}`, options, async () => {
		const { page, leave } = await open(undefined, how);
		await drawn(page);
		await settled(page);
		await checkWidth(page, 'the page');
		const controls = ['type-select', 'filter-input', 'process-list', 'range-select', 'refresh', 'metrics', 'flame', 'flame-search'];
		for (const name of [...controls, 'view-graph', 'view-table', 'download', 'theme-toggle', 'status']) {
			const box = await page.locator(id(name)).boundingBox();
			assert.ok(box && box.width > 0 && box.x >= 0 && box.x + box.width <= how.viewport.width + 1, `${name} is on the screen`);
		}
		await picture(page, `page-${look}`);
		if (how.viewport === PHONE) {
			await page.locator(id('view-table')).click();
			await page
				.locator(`${id('table')} .tbody [role="row"]`)
				.first()
				.waitFor();
		}
		await leave();
	});
