// SPDX-License-Identifier: Apache-2.0
/*
 * What a person does with a flame graph: asks who calls a function, takes away what is in the way, zooms by hand, looks for
 * names. Profiles are pushed here, so what must be on the page is summed here from their stacks, one by one.
 *
 *   WICK_URL           a server without any data, or none that have the label `case`
 */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { base, boxOf, drawn, focusIs, id, options, PHONE, picture, settled, settledBox, visit, zoomIs } from '../lib/browser.mjs';
import { BUILD_IDS, PERIOD, pushStacks } from '../lib/stacks.mjs';

// ---- profiles --------------------

const KERNEL = '[kernel.kallsyms]';
// Stacks from the root on, and how many samples they have. FUNCTION@BINARY; without a binary it is of the program.
const SHOP = [
	['main;net/http.serve;parse;malloc@/usr/lib/libc.so.6', 300],
	['main;net/http.serve;render;malloc@/usr/lib/libc.so.6', 200],
	['main;net/http.serve;render;escape', 250],
	['main;net/http.serve;fib;fib;fib', 100],
	[`main;net/http.serve;read@/usr/lib/libc.so.6;vfs_read@${KERNEL}`, 100],
	['main;idle', 50],
];
const nameOf = (frame) => frame.split('@')[0];
const namesOf = (stack) => stack.split(';').map(nameOf);
const totalOf = (stacks) => stacks.reduce((sum, [, count]) => sum + count, 0);
const having = (stacks, name) => stacks.filter(([stack]) => namesOf(stack).includes(name));

const push = (name, stacks, labels = {}) => pushStacks(base, stacks, { case: name, ...labels });

// ---- the page --------------------

before(async () => {
	if (!base) return;
	await push('shop', SHOP);
});

async function openGraph(name, { query = '', view = 'graph', route, ...how } = {}) {
	const asked = []; // of the profile, each query
	const opened = await visit(base, `?view=${view}&q=${encodeURIComponent(`process_cpu{case="${name}"}`)}${query}`, {
		permissions: ['clipboard-read', 'clipboard-write'],
		...how,
		prepare: async (page) => {
			page.on('request', (request) => {
				const url = new URL(request.url());
				if (url.pathname.endsWith('/api/v1/query')) asked.push(url.searchParams.get('query'));
			});
			if (route) await page.route('**/api/v1/query?*', route);
		},
	});
	await drawn(opened.page);
	return { ...opened, asked };
}
const gone = (page, name) => page.waitForFunction((n) => window.__wick && !window.__wick.flame.nodeAt(n), name);
const steps = async (page, count) => {
	await page.waitForFunction(([selector, n]) => document.querySelectorAll(selector).length === n, [`${id('steps')} .step`, count]);
	return page.locator(`${id('steps')} .step .chip-text`).allInnerTexts();
};
const rangeIs = (page, from, to) =>
	page.waitForFunction(([a, b]) => window.__wick.flame.range.every((value, i) => Math.abs(value - [a, b][i]) < 0.002), [from, to]);
const range = (page) => page.evaluate(() => window.__wick.flame.range);
async function menuOn(page, name, item) {
	const box = await settledBox(page, name);
	await page.mouse.click(box.x + Math.min(box.width / 2, 20), box.y + box.height / 2, { button: 'right' });
	await page.locator(id('frame-menu')).waitFor();
	await page.locator(id(`menu-${item}`)).click();
}
// The focus goes to a frame by a click, which zooms to it, and out again.
async function keyOn(page, name, key) {
	const box = await settledBox(page, name);
	await page.mouse.click(box.x + Math.min(box.width / 2, 20), box.y + box.height / 2);
	await zoomIs(page, name);
	await focusIs(page, name);
	await page.keyboard.press(key);
}
// How wide a box is beside the whole, in samples.
async function samplesOf(page, name, root = 'total') {
	const [box, whole] = [await settledBox(page, name), await settledBox(page, root)];
	return { share: box.width / whole.width };
}
const near = (a, b, message) => assert.ok(Math.abs(a - b) < 0.01, `${message}: ${a} is not ${b}`);

// ---- tasks --------------------

test('who calls malloc, and what is left without it: step by step, and back', options, async () => {
	const { page, url, leave } = await openGraph('shop');
	await menuOn(page, 'malloc', 'co');
	assert.deepEqual(await steps(page, 1), ['callers of malloc']);
	await boxOf(page, 'parse');
	await gone(page, 'escape');
	const calls = totalOf(having(SHOP, 'malloc'));
	near((await samplesOf(page, 'parse')).share, 300 / calls, 'parse has its share of malloc');
	near((await samplesOf(page, 'malloc')).share, 1, 'malloc is all there is');
	await page.reload();
	await drawn(page);
	assert.deepEqual(await steps(page, 1), ['callers of malloc'], 'a link shows another person the same');
	await page.goBack();
	await steps(page, 0);
	await boxOf(page, 'escape');

	await menuOn(page, 'malloc', 'd');
	await gone(page, 'parse');
	assert.deepEqual(await steps(page, 1), ['without malloc']);
	near((await samplesOf(page, 'escape')).share, 250 / (totalOf(SHOP) - calls), 'what is left is all');
	await menuOn(page, 'fib', 'r');
	assert.deepEqual(await steps(page, 2), ['without malloc', 'recursion of fib collapsed']);
	await menuOn(page, 'net/http.serve', 'mf');
	await gone(page, 'net/http.serve');
	assert.equal((await steps(page, 3))[2], 'net/http.serve merged');
	await picture(page, 'graph-steps');
	// The second of three, taken back alone; then all that came after the first.
	await page.locator(`${id('step-r')} .chip-x`).click();
	assert.deepEqual(await steps(page, 2), ['without malloc', 'net/http.serve merged']);
	await page.locator(`${id('step-d')} .chip-text`).click();
	assert.deepEqual(await steps(page, 1), ['without malloc']);
	await boxOf(page, 'net/http.serve');
	await page.goBack();
	assert.equal((await steps(page, 2))[1], 'net/http.serve merged');
	await page.locator(id('steps-clear')).click();
	await steps(page, 0);
	assert.equal(url().has('steps'), false);
	await boxOf(page, 'malloc');
	await leave();
});

test('all of it by keys, and the table keeps to what the graph shows', options, async () => {
	const { page, url, leave } = await openGraph('shop', { view: 'both' });
	await keyOn(page, 'render', 'f');
	assert.deepEqual(await steps(page, 1), ['focus on render']);
	await gone(page, 'idle');
	near((await samplesOf(page, 'malloc')).share, 200 / 450, 'malloc below render alone');
	const rows = await page.locator('.tbody .td-name').allInnerTexts();
	assert.deepEqual(rows.map((row) => /escape|malloc|render/.exec(row)?.[0]).sort(), ['escape', 'malloc', 'render']);
	await page.keyboard.press('i');
	assert.deepEqual(await steps(page, 2), ['focus on render', 'inverted']);
	const [leaf, caller] = [await settledBox(page, 'escape'), await settledBox(page, 'render')];
	assert.ok(caller.y > leaf.y, 'callers are below what they call');
	assert.equal(await page.locator(id('invert')).getAttribute('aria-pressed'), 'true');
	await page.keyboard.press('i');
	assert.deepEqual(await steps(page, 1), ['focus on render']);
	await page.keyboard.press('z');
	await steps(page, 0);
	await keyOn(page, 'vfs_read', 'k');
	assert.deepEqual(await steps(page, 1), ['only Kernel']);
	await gone(page, 'main');
	await page.keyboard.press('z');
	await steps(page, 0);
	await keyOn(page, 'main', 'F');
	await page.keyboard.press('c');
	assert.deepEqual(await steps(page, 2), ['focus on main (this path)', 'main collapsed']);
	await gone(page, 'idle');
	await page.keyboard.press('z');
	await page.keyboard.press('z');
	await steps(page, 0);
	await focusIs(page, 'main');
	await page.keyboard.press('Control+c');
	await page.waitForFunction(async () => (await navigator.clipboard.readText()) === 'main');
	await menuOn(page, 'escape', 'copy-stack');
	await page.waitForFunction(async () => (await navigator.clipboard.readText()) === 'main\nnet/http.serve\nrender\nescape');
	// The menu by its key, at the frame with the focus.
	await page.locator(id('flame')).focus();
	await page.keyboard.press('Home');
	await page.keyboard.press('ArrowDown');
	await page.keyboard.press('ArrowDown');
	await focusIs(page, 'net/http.serve');
	await page.keyboard.press('Shift+F10');
	await page.waitForFunction((selector) => document.querySelector(selector)?.contains(document.activeElement), id('frame-menu'));
	assert.equal(await page.locator('.menu-head').innerText(), 'net/http.serve');
	await page.keyboard.press('Escape');
	await page.waitForFunction((selector) => document.activeElement === document.querySelector(selector), id('flame'));
	// What leaves nothing says so, and how to go back.
	await page.goto(new URL(`?view=graph&q=${encodeURIComponent('process_cpu{case="shop"}')}&steps=ff-0`, base).href);
	await page.locator(id('steps-nothing')).waitFor();
	assert.deepEqual(await steps(page, 1), ['focus on (not in this profile)']);
	await page.locator(`${id('steps-nothing')} button`).click();
	await boxOf(page, 'main');
	assert.equal(url().has('steps'), false);
	await leave();
});

test('frames as binaries, colours by kind and package, hosts at the root', options, async () => {
	await push('hosts', [['main;work', 60]], { rack: 'left' });
	await push('hosts', [['main;work', 40]], { rack: 'right' });
	const { page, url, asked, leave } = await openGraph('shop');
	await page.locator(id('display')).click();
	await page.locator(id('frames-gb')).check();
	await boxOf(page, 'libc.so.6');
	await gone(page, 'main');
	await page.locator(id('frames-none')).check();
	await boxOf(page, 'main');
	const legend = () => page.locator('.legend button').allInnerTexts();
	await page.locator(id('color-kind')).check();
	await page.waitForFunction(() => document.querySelector('.legend')?.textContent.includes('Native'));
	assert.deepEqual((await legend()).sort(), ['Kernel', 'Native']);
	assert.equal(url().get('color'), 'kind');
	await picture(page, 'graph-display');
	await page.locator(id('color-package')).check();
	await page.locator(id('frames-none')).press('Escape');
	await page.waitForFunction(() => !document.querySelector('.legend')?.textContent.includes('Native'));
	await page.locator(id('flame-search')).fill('package:net/http');
	const whole = totalOf(having(SHOP, 'net/http.serve')) / totalOf(SHOP);
	await page.waitForFunction(
		([selector, share]) => document.querySelector(selector).textContent.startsWith(share),
		[id('flame-matched'), `${(100 * whole).toFixed(1)}%`],
	);
	await page.goto(new URL(`?view=graph&q=${encodeURIComponent('process_cpu{case="hosts"}')}`, base).href);
	await drawn(page);
	await page.locator(id('display')).click();
	await page.waitForFunction((selector) => [...document.querySelectorAll(selector)].some((o) => o.value === 'rack'), `${id('root-label')} option`);
	await page.locator(id('root-label')).selectOption('rack');
	near((await samplesOf(page, 'rack=left')).share, 0.6, 'the left rack has its part');
	near((await samplesOf(page, 'rack=right')).share, 0.4, 'the right one the rest');
	assert.ok(asked[asked.length - 1].endsWith('| group by rack'));
	await page.locator(`${id('step-root')} .chip-x`).click();
	await gone(page, 'rack=left');
	await leave();
});

test('the wheel zooms to the pointer, a drag moves, the strip shows where that is', options, async () => {
	const { page, url, leave } = await openGraph('shop');
	const flame = await page.locator(id('flame')).boundingBox();
	const box = await settledBox(page, 'escape');
	const x = box.x + box.width / 2;
	const share = (x - flame.x) / flame.width;
	await page.mouse.move(x, box.y + 5);
	await page.keyboard.down('Control');
	await page.mouse.wheel(0, -40);
	await page.mouse.wheel(0, -40);
	await page.keyboard.up('Control');
	const factor = Math.exp(-0.8);
	await rangeIs(page, share - share * factor, share + (1 - share) * factor);
	await page.waitForFunction(() => new URL(location.href).searchParams.get('zoom')?.includes('-'));
	const after = await settledBox(page, 'escape');
	assert.ok(after.x <= x && after.x + after.width >= x, 'it is still under the pointer');
	assert.ok(after.width > box.width * 1.5);

	const [from, to] = await range(page);
	const shift = 0.1 * (to - from);
	await page.mouse.down();
	await page.mouse.move(x + 0.05 * flame.width, box.y + 5, { steps: 3 });
	await page.mouse.move(x + 0.1 * flame.width, box.y + 5, { steps: 3 });
	await page.mouse.up();
	await rangeIs(page, from - shift, to - shift);
	await settled(page);
	const was = url().get('zoom');
	await page.reload();
	await drawn(page);
	await rangeIs(page, from - shift, to - shift);
	assert.equal(url().get('zoom'), was, 'the URL has it');

	const strip = await page.locator(id('minimap')).boundingBox();
	const mark = await page.locator(id('minimap-view')).boundingBox();
	assert.ok(Math.abs(mark.x - strip.x - (from - shift) * strip.width) < 3 && Math.abs(mark.width - (to - from) * strip.width) < 4);
	await picture(page, 'graph-zoomed');
	await page.mouse.move(mark.x + mark.width / 2, mark.y + 10);
	await page.mouse.down();
	await page.mouse.move(strip.x + strip.width * 0.1, mark.y + 10, { steps: 4 });
	await page.mouse.move(strip.x, mark.y + 10, { steps: 4 });
	await page.mouse.up();
	await rangeIs(page, 0, to - from);
	await page.locator(id('flame')).focus();
	await page.keyboard.press('Shift+ArrowRight');
	await rangeIs(page, 0.2 * (to - from), 1.2 * (to - from));
	await page.keyboard.press('Escape');
	await rangeIs(page, 0, 1);
	await page.keyboard.press('+');
	await rangeIs(page, 1 / 6, 5 / 6);
	await page.keyboard.press('-');
	await rangeIs(page, 0, 1);
	await page.mouse.move(strip.x + strip.width * 0.25, strip.y + 10);
	await page.mouse.down();
	await page.mouse.move(strip.x + strip.width * 0.5, strip.y + 10, { steps: 4 });
	await page.mouse.up();
	await rangeIs(page, 0.25, 0.5);
	await leave();
});

test('two fingers zoom on a screen', options, async () => {
	const { page, context, leave } = await openGraph('shop', { viewport: PHONE });
	await page.locator(id('flame')).scrollIntoViewIfNeeded();
	await settled(page);
	const flame = await page.locator(id('flame')).boundingBox();
	const y = flame.y + 40;
	const client = await context.newCDPSession(page);
	const touch = (type, ...xs) => client.send('Input.dispatchTouchEvent', { type, touchPoints: xs.map((x, i) => ({ x: flame.x + x, y: y + i, id: i })) });
	const middle = flame.width / 2;
	await touch('touchStart', middle - 30, middle + 30);
	for (let apart = 40; apart <= 90; apart += 10) await touch('touchMove', middle - apart, middle + apart);
	await touch('touchEnd');
	await page.waitForFunction(() => window.__wick.flame.range[1] - window.__wick.flame.range[0] < 0.45);
	await page.waitForFunction(() => new URL(location.href).searchParams.get('zoom')?.includes('-'));
	const [from, to] = await range(page);
	assert.ok(Math.abs((from + to) / 2 - 0.5) < 0.05, 'to the place between them');
	await picture(page, 'graph-phone');
	await leave();
});

// The interval of Wilson for k of n at 95%, from its definition: the shares p for which (k/n - p)^2 = z^2 p (1 - p) / n.
function wilson(k, n) {
	const z = 1.959963984540054;
	const [a, b, c] = [1 + z ** 2 / n, -(2 * k) / n - z ** 2 / n, (k / n) ** 2];
	const root = Math.sqrt(b * b - 4 * a * c);
	return [(-b - root) / (2 * a), (-b + root) / (2 * a)];
}

test('a frame says what it costs of all, of what is in view, and how sure that is', options, async () => {
	const { page, leave } = await openGraph('shop');
	const render = await settledBox(page, 'render');
	await page.mouse.click(render.x + 20, render.y + 5);
	await page.waitForFunction(() => window.__wick.flame.zoomName === 'render');
	const box = await settledBox(page, 'escape');
	await page.mouse.move(box.x + 30, box.y + 8);
	await page.mouse.move(box.x + 32, box.y + 8);
	const tip = page.locator('.tip');
	await tip.waitFor();
	const text = (await tip.innerText()).replace(/\s+/g, ' ');
	assert.match(text, /escape/);
	assert.match(text, /\/src\/shop\.c:\d+/);
	assert.match(text, /\/usr\/bin\/shop|shop/);
	assert.ok(text.includes(`build-id ${BUILD_IDS['/usr/bin/shop']}`), text);
	assert.match(text, /of all of view of caller/);
	assert.match(text, /Total 2\.50 s 25\.0% 55\.6% 55\.6% Self 2\.50 s 25\.0% 55\.6% 55\.6%/);
	const [low, high] = wilson(250, 1000).map((share) => `${(100 * share).toFixed(1)}%`);
	assert.ok(text.includes(`250 samples · ${low} – ${high} of all`), text);
	await picture(page, 'graph-tip');

	// Two files under one name: which it is cannot be told, so both are.
	await push('two', [
		['main;malloc@/usr/lib/libc.so.6', 5],
		['main;free@/opt/other/libc.so.6', 5],
	]);
	await page.goto(new URL(`?view=graph&q=${encodeURIComponent('process_cpu{case="two"}')}`, base).href);
	await drawn(page);
	const malloc = await settledBox(page, 'malloc');
	await page.mouse.move(malloc.x + 30, malloc.y + 8);
	await page.mouse.move(malloc.x + 32, malloc.y + 8);
	await page.waitForFunction((selector) => document.querySelector(selector)?.textContent === 'build-ids 8ba8e5b5a8c4, ffee', id('tip-build'));
	await leave();
});

test('what the server left out as too small is opened', options, async () => {
	const wide = Array.from({ length: 60 }, (_, n) => [`main;many;small_${n};leaf_${n}`, 100 - n]);
	await push('wide', [...wide, ['main;one', 1000]]);
	// As if the tree were larger than the server sends: of the whole, not of what is asked for to open a part.
	const route = (to) => {
		const url = new URL(to.request().url());
		if (!url.searchParams.get('query').includes('frames')) url.searchParams.set('max_nodes', '20');
		return to.continue({ url: url.href });
	};
	const { page, asked, url, leave } = await openGraph('wide', { route });
	await gone(page, 'leaf_59');
	const rest = await page.waitForFunction(() => {
		for (let n = 1; n < 100; n++) if (window.__wick.flame.nodeAt(`(${n} smaller)`)) return `(${n} smaller)`;
		return null;
	});
	const box = await settledBox(page, await rest.jsonValue());
	await page.mouse.click(box.x + box.width / 2, box.y + 5);
	await page.waitForFunction(() => window.__wick?.flame.zoomName === 'many' && window.__wick.flame.nodeAt('small_50'));
	assert.match(asked[asked.length - 1], /\| frames = "many" \| frames = "main"$/);
	const all = wide.reduce((sum, [, count]) => sum + count, 0);
	const [small, many] = [await settledBox(page, 'small_50'), await settledBox(page, 'many')];
	near(small.width / many.width, 50 / all, 'it has its share');
	await boxOf(page, 'leaf_50');
	assert.equal(await page.locator(id('step-within')).count(), 1);
	await page.locator(`${id('step-within')} .chip-x`).click();
	await gone(page, 'leaf_50');
	assert.equal(url().has('within'), false);
	await leave();
});

test('what was left out is opened where frames are binaries, files, lines, and labels at the root', options, async () => {
	// A thread each with 60 functions that are too small, every one in a library of its own.
	const wide = (thread) => [...Array.from({ length: 60 }, (_, n) => [`main;${thread};leaf_${n}@/usr/lib/lib${n}.so`, 100 - n]), ['main;one', 1000]];
	for (const thread of ['red', 'blue']) await push('threads', wide(thread), { thread: `${thread} "1"` });
	const route = (to) => {
		const url = new URL(to.request().url());
		if (!/frames|collapse|where/.test(url.searchParams.get('query'))) url.searchParams.set('max_nodes', '20');
		return to.continue({ url: url.href });
	};
	const { page, asked, url, leave } = await openGraph('threads', { route });
	const pressRest = async () => {
		await settled(page);
		const name = await page.waitForFunction(() => {
			for (let n = 1; n < 200; n++) if (window.__wick.flame.nodeAt(`(${n} smaller)`)) return `(${n} smaller)`;
			return null;
		});
		const box = await settledBox(page, await name.jsonValue());
		await page.mouse.click(box.x + box.width / 2, box.y + 5);
	};
	const show = async (query) => {
		await page.goto(new URL(`?view=graph&q=${encodeURIComponent('process_cpu{case="threads"}')}${query}`, base).href);
		await drawn(page);
	};
	const total = 2 * totalOf(wide('red'));
	const isAll = async (name, count) => {
		const [whole, box] = [await settledBox(page, 'total'), await settledBox(page, name)];
		near(box.width / whole.width, count / total, name);
	};

	await show('&steps=gb');
	await gone(page, 'lib59.so');
	await pressRest();
	await boxOf(page, 'lib59.so');
	assert.match(asked[asked.length - 1], /\| collapse binary$/);
	await page.locator(id('flame')).focus();
	await page.keyboard.press('Escape');
	await rangeIs(page, 0, 1);
	await isAll('lib0.so', 200);
	// Without the grouping the functions are there again, cut as before.
	await page.keyboard.press('z');
	await boxOf(page, 'leaf_0');
	assert.equal(url().has('within'), false);

	await show('&steps=gl');
	await gone(page, 'leaf_59');
	await pressRest();
	await page.waitForFunction(() => new URL(location.href).searchParams.has('within'));
	await settled(page);
	// encode() puts both on the same line of the file.
	assert.match(asked[asked.length - 1], /\| frames =~ "\^\(\?:(red\|blue|blue\|red)\)\$" \| frames = "main"$/);

	await show('&root=thread');
	await gone(page, 'leaf_59');
	await pressRest();
	await boxOf(page, 'leaf_59');
	assert.match(asked[asked.length - 1], /\| frames = "main" \| where thread="(red|blue) \\"1\\"" \| group by thread$/);

	// Turned over, what was left out is at the top.
	await show('&steps=i');
	await pressRest();
	await boxOf(page, 'leaf_59');
	await leave();
});

test('a search says how many it found, and goes through them', options, async () => {
	const { page, leave } = await openGraph('shop');
	const count = page.locator(id('flame-count'));
	const says = (text) => page.waitForFunction(([selector, wanted]) => document.querySelector(selector)?.textContent === wanted, [id('flame-count'), text]);
	await page.locator(id('flame-search')).fill('malloc');
	await says('2');
	await page.locator(id('flame-search')).press('Enter');
	await says('1 of 2');
	await focusIs(page, 'malloc');
	await page.locator(id('flame-next')).click();
	await says('2 of 2');
	await page.locator(id('flame-next')).click();
	await says('1 of 2');
	await page.locator(id('flame-before')).click();
	await says('2 of 2');
	await page.locator(id('flame')).focus();
	await page.keyboard.press('n');
	await says('1 of 2');
	await page.keyboard.press('N');
	await says('2 of 2');
	await page.locator(id('flame-search')).fill('fib');
	await says('1'); // a match below a match is no other
	await page.locator(id('flame-search')).fill('nothing such');
	await page.waitForFunction((selector) => !document.querySelector(selector), id('flame-count'));
	assert.equal(await count.count(), 0);
	await leave();
});

test('a screen reader gets the tree around the frame with the focus', options, async () => {
	const { page, leave } = await openGraph('shop');
	await page.locator(id('flame')).focus();
	await page.keyboard.press('Home');
	const said = (text) =>
		page.waitForFunction((wanted) => {
			const tree = document.querySelector('[data-testid="flame"]');
			const item = document.getElementById(tree.getAttribute('aria-activedescendant') ?? '');
			return item?.getAttribute('role') === 'treeitem' && item.textContent.startsWith(wanted);
		}, text);
	await said('total, total 100%');
	await page.keyboard.press('ArrowDown');
	await said('main, total 100%, self 0%');
	await page.keyboard.press('ArrowDown');
	await said('net/http.serve, total 95.0%');
	await page.keyboard.press('ArrowRight');
	await said('idle, total 5.00%, self 5.00%, no callees');
	const item = page.locator(`${id('flame')} [role="treeitem"]`).filter({ hasText: 'idle' });
	assert.deepEqual(
		await item.evaluate((e) => ['aria-level', 'aria-posinset', 'aria-setsize', 'aria-expanded', 'aria-selected'].map((name) => e.getAttribute(name))),
		['3', '2', '2', null, 'true'],
	);
	await page.keyboard.press('i');
	await page.keyboard.press('Home');
	await page.keyboard.press('ArrowDown');
	await said('malloc, total 50.0%');
	await page.keyboard.press('i');
	assert.equal(await page.locator(id('flame')).getAttribute('role'), 'tree');
	assert.equal(await page.locator(`${id('flame')} canvas`).getAttribute('aria-hidden'), 'true');
	await leave();
});

test('hostile names, 10,000 frames deep stacks and nothing at all are shown right', options, async () => {
	const SCRIPT = '<script>window.__owned=1</script><img src=x onerror=window.__owned=1>';
	const TEMPLATE = `std::map<${'std::pair<int, std::string>, '.repeat(360)}int>::find`;
	const ARABIC = 'دالة_الخادم';
	const BIDI = 'safe\u202egnp.exe\u0007\u001b[31m\u2066x';
	assert.ok(TEMPLATE.length > 10_000);
	await push('hostile', [
		[['main', SCRIPT], 40],
		[['main', TEMPLATE, 'below'], 30],
		[['main', ARABIC], 20],
		[['main', BIDI], 10],
	]);
	const { page, leave } = await openGraph('hostile', { view: 'both' });
	for (const [name, shown] of [
		[SCRIPT, SCRIPT],
		[ARABIC, ARABIC],
		[TEMPLATE, `${TEMPLATE.slice(0, 400)}…`],
		[BIDI, 'safe\ufffdgnp.exe\ufffd\ufffd[31m\ufffdx'],
	]) {
		const box = await settledBox(page, name);
		await page.mouse.move(box.x + 20, box.y + 4);
		await page.mouse.move(box.x + 22, box.y + 6);
		await page.waitForFunction((wanted) => document.querySelector('.tip-name')?.textContent === wanted, shown);
	}
	await picture(page, 'graph-hostile');
	await menuOn(page, TEMPLATE, 'ff');
	const [chip] = await steps(page, 1);
	assert.ok(chip.startsWith('focus on std::map<') && chip.length < 100);
	await page.keyboard.press('Escape');
	await menuOn(page, TEMPLATE, 'copy-name');
	await page.waitForFunction(async (length) => (await navigator.clipboard.readText()).length === length, TEMPLATE.length);
	assert.equal(await page.evaluate(() => window.__owned), undefined);
	assert.equal(await page.locator('main script, main img').count(), 0);
	assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'nothing is wider than the window');

	const depth = 10_000;
	const deep = Array.from({ length: depth }, (_, n) => `frame_${n}`);
	const end = `frame_${depth - 1}`;
	await push('deep', [
		[deep, 5],
		[deep.slice(0, 3), 5],
	]);
	await page.goto(new URL(`?view=graph&q=${encodeURIComponent('process_cpu{case="deep"}')}`, base).href);
	await drawn(page);
	await boxOf(page, 'frame_2');
	await page.locator(id('flame')).evaluate((e) => e.scrollTo(0, e.scrollHeight));
	const last = await settledBox(page, end);
	await page.mouse.click(last.x + 10, last.y + 5);
	await page.waitForFunction((name) => window.__wick.flame.zoomName === name, end);
	await focusIs(page, end);
	assert.ok((await page.locator(`${id('flame')} [role="treeitem"]`).count()) < 100);
	await page.keyboard.press('i');
	assert.deepEqual(await steps(page, 1), ['inverted']);
	await page.keyboard.press('Escape');
	await page.locator(id('flame')).evaluate((e) => e.scrollTo(0, 0));
	const [leaf, other] = [await settledBox(page, end), await settledBox(page, 'frame_2')];
	near(leaf.width / (leaf.width + other.width), 0.5, 'the leaves have half each');

	await page.goto(new URL(`?view=graph&q=${encodeURIComponent('process_cpu{case="no such"}')}`, base).href);
	await page.locator('.notice').first().waitFor();
	await leave();
});
