// SPDX-License-Identifier: Apache-2.0
// The time line of a profile with markers in its page. What is on the page is held against what this test counts itself, from the
// profile that it makes; and so is what `wick report --during` says.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { gunzipSync, gzipSync } from 'node:zlib';
import { begun, checkWidth, id, LOOKS, PHONE, visit } from '../lib/browser.mjs';
import { sharedTables, wholeLife } from '../lib/firefox.mjs';

const wick = process.env.WICK,
	work = process.env.WICK_WORK;
const HOSTILE = '</script><img src=x onerror="window.broken = 1">';

// ---- the profile: three threads, a sample every millisecond, steps of 20 ms with a parse and a merge in each ----

const THREADS = ['worker-1', 'worker-2', HOSTILE],
	LENGTH = 1000,
	STEP = 20;
const FUNCS = ['main', 'spin_parse', 'spin_merge', 'spin_idle'];
const strings = [...FUNCS, 'step', 'parse', 'merge', 'send', 'receive', 'lost 17'];
const text = (t) => (strings.indexOf(t) < 0 ? strings.push(t) - 1 : strings.indexOf(t));
const samples = [],
	markers = [];
THREADS.forEach((_, thread) => {
	for (let at = 0; at < LENGTH; at++) {
		const phase = (at + 7 * thread) % STEP; // parse: 1 to 9, merge: 10 to 14, step: 0 to 15, nothing: 16 to 19
		const func = phase >= 1 && phase < 10 ? 1 : phase >= 10 && phase < 15 ? 2 : 3;
		samples.push({ thread, at: at + 0.5, func });
	}
	for (let begin = -7 * thread; begin + 16 <= LENGTH; begin += STEP) {
		if (begin < 0) continue;
		const rows = begin * 3 + thread;
		markers.push({ thread, name: 'step', start: begin, end: begin + 16, rows });
		markers.push({ thread, name: 'parse', start: begin + 1, end: begin + 10, rows });
		markers.push({ thread, name: 'merge', start: begin + 10, end: begin + 15, rows });
		if (thread === 0) markers.push({ thread, name: 'send', start: begin + 15.5, flow: (1000 + begin).toString(16) });
		if (thread === 1) {
			const flow = begin + 7 - STEP; // of the step of thread 0 before
			markers.push({ thread, name: 'receive', start: begin + 3, ends: (1000 + flow).toString(16) });
		}
	}
});
markers.push({ thread: 1, name: 'lost 17', start: 500, lost: 17 });

function write(path) {
	const schema = (name, fields) => ({ name, display: ['marker-chart', 'marker-table'], fields });
	const threads = THREADS.map((name, i) => {
		const own = samples.filter((s) => s.thread === i),
			marks = markers.filter((m) => m.thread === i);
		return {
			name,
			processName: 'engine',
			isMainThread: i === 0,
			pid: '100',
			tid: 100 + i,
			...wholeLife,
			samples: { length: own.length, stack: own.map((s) => s.func), time: own.map((s) => s.at), weight: null, weightType: 'samples' },
			markers: {
				length: marks.length,
				name: marks.map((m) => text(m.name)),
				startTime: marks.map((m) => m.start),
				endTime: marks.map((m) => m.end ?? null),
				phase: marks.map((m) => (m.end === undefined ? 0 : 1)),
				category: marks.map((m) => (m.name === 'merge' ? 2 : 1)),
				data: marks.map((m) =>
					m.lost
						? { type: 'lost markers', markers: m.lost }
						: {
								type: 'work',
								...(m.rows !== undefined ? { rows: m.rows, size: m.rows * 1024, took: 1500 } : {}),
								...(m.flow ? { flow: text(m.flow) } : {}),
								...(m.ends ? { flowEnds: text(m.ends) } : {}),
							},
				),
			},
		};
	});
	const n = FUNCS.length,
		fill = (v) => Array(n).fill(v);
	writeFileSync(
		path,
		JSON.stringify({
			meta: {
				version: 30,
				preprocessedProfileVersion: 60,
				interval: 1,
				startTime: 1700000000000,
				processType: 0,
				product: 'engine',
				stackwalk: 1,
				categories: [
					['Other', 'grey'],
					['Engine', 'blue'],
					['Storage', 'orange'],
				].map(([name, color]) => ({ name, color, subcategories: ['Other'] })),
				markerSchema: [
					schema('work', [
						{ key: 'rows', label: 'Rows', format: 'integer' },
						{ key: 'size', label: 'Size', format: 'bytes' },
						{ key: 'took', label: 'Took', format: 'nanoseconds' },
						{ key: 'flow', format: 'flow-id' },
						{ key: 'flowEnds', format: 'terminating-flow-id' },
					]),
					schema('lost markers', [{ key: 'markers', label: 'Markers', format: 'integer' }]),
				],
			},
			libs: [],
			shared: sharedTables(
				strings,
				FUNCS.map((f) => text(f)),
				{ length: n, frame: FUNCS.map((_, i) => i), prefix: [null, 0, 0, 0], category: fill(0), subcategory: fill(0) },
			),
			threads,
		}),
	);
}

// ---- counting ----

const spansOf = (s) => markers.filter((m) => m.thread === s.thread && m.end !== undefined && m.start <= s.at && s.at < m.end);
const count = (keep) => samples.filter(keep).length;
const inSpan = (name) => (s) => spansOf(s).some((m) => m.name === name);
const inner = (s) => spansOf(s).sort((a, b) => b.start - a.start)[0]?.name ?? '(no span)';

// ---- the page ----

let page, leave, file, url;
before(async () => {
	const from = join(work, 'engine.firefox.json');
	write(from);
	file = join(work, 'engine.html');
	execFileSync(wick, ['convert', '-q', from, '-o', file]);
	url = pathToFileURL(file).href;
	({ page, leave } = await open(''));
});

async function open(hash, how = {}) {
	const opened = await visit(url, hash, how);
	await opened.page.waitForFunction(() => window.__wickTime && window.__wick?.flame.visibleCount > 0);
	await begun(opened.page);
	return opened;
}
const selfs = async (on = page) =>
	Object.fromEntries(
		await on.$$eval(`${id('table')} .tbody [role=row]`, (rows) =>
			rows.map((row) => [row.querySelector('.fn').textContent, row.querySelector('.td-self .amount').textContent]),
		),
	);
const totals = async (on = page) =>
	Object.fromEntries(
		await on.$$eval(`${id('table')} .tbody [role=row]`, (rows) =>
			rows.map((row) => [row.querySelector('.fn').textContent, row.querySelector('.td-total .amount').textContent]),
		),
	);
const shows = (value, on = page) => on.waitForFunction((v) => document.querySelector('.zoom-value').textContent.split(' · ')[0] === v, String(value));
const amount = (n) => (n >= 1000 ? `${(n / 1000).toFixed(2)} k` : String(n));
const whole = () => page.waitForFunction(() => window.__wickTime.view[0] === 0 && window.__wickTime.view[1] >= 999e6);
const rect = (name, nth, on = page) => on.evaluate(([n, i]) => window.__wickTime.rectOf(n, i), [name, nth]);
const middle = (r) => [r.x + r.width / 2, r.y + r.height / 2];
const place = (name, nth, thread = 0) =>
	markers.filter((m) => m.name === name && m.thread <= thread).length - markers.filter((m) => m.name === name && m.thread === thread).length + nth;

test('all threads are there, with what was lost', async () => {
	assert.deepEqual(await page.$$eval(`${id('track')} .track-title`, (all) => all.map((one) => one.textContent)), THREADS);
	assert.match(await page.textContent(id('tl-losses')), /17 markers were lost/);
	await shows(amount(samples.length));
	assert.equal(await page.evaluate(() => window.broken), undefined);
	assert.equal(await page.$$eval('img', (all) => all.length), 0);
});
test('hovering tells the fields, by their formats', async () => {
	const [x, y] = middle(await rect('parse', 3));
	await page.mouse.move(x, y);
	await page.waitForSelector(id('marker-tip'));
	const tip = await page.textContent(id('marker-tip'));
	const marker = markers.filter((m) => m.name === 'parse' && m.thread === 0)[3];
	assert.match(tip, /parse.*Engine · worker-1/);
	assert.ok(tip.includes(`Rows${marker.rows}`), tip);
	assert.ok(tip.includes(`Size${marker.rows} KiB`), tip);
	assert.ok(tip.includes('Took1.50 µs'), tip);
	assert.ok(tip.includes('Duration9.00 ms'), tip);
});
test('a span chooses its thread and time', async () => {
	const marker = markers.filter((m) => m.name === 'step' && m.thread === 0)[2];
	const steps = await rect('step', 2);
	await page.mouse.click(...middle(steps));
	const chosen = (s) => s.thread === 0 && s.at >= marker.start && s.at < marker.end;
	await shows(count(chosen));
	const parse = count((s) => chosen(s) && s.func === 1);
	assert.equal((await selfs()).spin_parse, String(parse));
	assert.match(await page.textContent(id('tl-share')), new RegExp(`${count(chosen)} samples`));
	assert.match(page.url(), /#threads=0&t=40000000-56000000&marker=\d+/);
});
test('the URL shows the same again, and back undoes', async () => {
	const other = await open(new URL(page.url()).hash);
	await shows(16, other.page);
	await other.leave();
	await page.goBack();
	await shows(amount(samples.length));
	await page.goForward();
	await shows(16);
	await page.click(`${id('chip-range')} .chip-x`);
	await shows(amount(count((s) => s.thread === 0)));
	await page.click(`${id('chip-threads')} .chip-x`);
	await shows(amount(samples.length));
});
test('samples during every span of a name, as wick report says', async () => {
	await page.mouse.click(...middle(await rect('merge', 1)), { button: 'right' });
	await page.click(id('menu-during'));
	const during = count(inSpan('merge'));
	await shows(during);
	assert.deepEqual(await selfs().then((s) => s.spin_merge), String(during));
	const report = execFileSync(wick, ['report', 'top', '-q', join(work, 'engine.firefox.json'), '--during', 'merge', '--unit', 'count'], { encoding: 'utf8' });
	assert.match(report, new RegExp(`^\\s+${during}\\s+100%\\s+100%\\s+${during}\\s+100%\\s+spin_merge`, 'm'));
	await page.click(`${id('chip-during')} .chip-x`);
});
test('samples during all spans of a category', async () => {
	await page.mouse.click(...middle(await rect('parse', 1)), { button: 'right' });
	await page.click(id('menu-category'));
	await shows(amount(count((s) => inSpan('step')(s) || inSpan('parse')(s))));
	await page.click(`${id('chip-during')} .chip-x`);
});
test('by span, the root is split by the innermost one, as wick report says', async () => {
	await page.selectOption(id('group-by'), 'span');
	await page.waitForFunction(() => document.querySelector('[data-testid="table"]').textContent.includes('(no span)'));
	const page_totals = await totals();
	const tags = execFileSync(wick, ['report', 'tags', '-q', join(work, 'engine.firefox.json'), '--spans', '--tagshow', '^span$', '--unit', 'count'], {
		encoding: 'utf8',
	});
	for (const name of ['step', 'parse', 'merge', '(no span)']) {
		const expected = count((s) => inner(s) === name);
		assert.equal(page_totals[name], amount(expected), name);
		if (name !== '(no span)') assert.match(tags, new RegExp(`\\b${expected} .*: ${name}$`, 'm'));
	}
	const box = async (name) => (await page.waitForFunction((n) => window.__wick.flame.nodeAt(n), name)).jsonValue();
	const [step, parse] = [await box('step'), await box('parse')];
	assert.ok(Math.abs(step.width / parse.width - count((s) => inner(s) === 'step') / count((s) => inner(s) === 'parse')) < 0.02);
	await page.selectOption(id('group-by'), '');
});
test('dragging chooses a time, Escape gives back the whole', async () => {
	const [a, b] = [await rect('step', 5), await rect('step', 9)];
	await page.mouse.move(a.x, a.y - 20);
	await page.mouse.down();
	await page.mouse.move(b.x + b.width, a.y - 20, { steps: 5 });
	await page.mouse.up();
	await page.waitForSelector(id('chip-range'));
	const [, from, to] = /t=(\d+)-(\d+)/.exec(page.url()).map(Number);
	assert.ok(Math.abs(from - 100e6) < 2e6 && Math.abs(to - 196e6) < 2e6, `${from} ${to}`);
	await shows(count((s) => s.at * 1e6 >= from && s.at * 1e6 < to));
	await page.click(id('tl-zoom'));
	await page.waitForFunction(([a, b]) => window.__wickTime.view[0] === a && window.__wickTime.view[1] === b, [from, to]);
	await page.focus(id('tl-scroll'));
	await page.keyboard.press('Escape');
	await shows(amount(samples.length));
	await page.keyboard.press('0');
	await whole();
});
test('the wheel zooms to where the pointer is', async () => {
	const box = await (await page.$('.tl-axis')).boundingBox();
	await page.mouse.move(box.x + box.width / 4, box.y + 10);
	const [from, to] = await page.evaluate(() => window.__wickTime.view);
	await page.mouse.wheel(0, -300);
	await page.waitForFunction((was) => window.__wickTime.view[1] < was, to);
	const now = await page.evaluate(() => window.__wickTime.view);
	const at = from + (to - from) / 4;
	assert.ok(Math.abs((at - now[0]) / (now[1] - now[0]) - 0.25) < 0.01);
	await page.click(id('tl-all'));
	await whole();
});
test('keys go from marker to marker and choose', async () => {
	await page.focus(id('tl-scroll'));
	for (const key of ['ArrowRight', 'ArrowRight', 'Enter']) await page.keyboard.press(key);
	// Markers of a thread by their start: step, parse of the first step.
	await shows(count((s) => s.thread === 0 && s.at >= 1 && s.at < 10));
	await page.keyboard.press('Escape');
});
test('a flow leads from thread to thread', async () => {
	const send = await rect('send', place('send', 0));
	await page.mouse.click(...middle(send));
	await page.waitForFunction(() => /marker=/.test(location.hash));
	const first = /marker=(\d+)/.exec(page.url())[1];
	await page.mouse.click(...middle(send));
	await page.waitForFunction((was) => !location.hash.includes(`marker=${was}`), first);
	await page.click(id('tl-table'));
	await page.fill(id('marker-filter'), 'receive');
	await page.waitForFunction(
		(n) => document.querySelector('[data-testid="marker-count"]').textContent === `${n} markers`,
		markers.filter((m) => m.name === 'receive').length,
	);
	// The receive of the first send is marked: 3 ms into the first step of thread 1.
	const marked = await page.textContent('.mtable .tr.marked .td-start');
	const flow = markers.find((m) => m.name === 'send').flow;
	assert.equal(parseFloat(marked) * 1000, markers.find((m) => m.ends === flow).start);
});
test('the table has all markers, sorts, and chooses', async () => {
	await page.fill(id('marker-filter'), '');
	await page.waitForFunction((n) => document.querySelector('[data-testid="marker-count"]').textContent === `${n} markers`, markers.length);
	await page.click(id('marker-sort-duration'));
	await page.waitForFunction(() => document.querySelector('.mtable .tbody .td-duration').textContent === '16.0 ms');
	await page.fill(id('marker-filter'), 'storage'); // a category
	const merges = markers.filter((m) => m.name === 'merge');
	await page.waitForFunction((n) => document.querySelector('[data-testid="marker-count"]').textContent === `${n} markers`, merges.length);
	await page.click(`${id('marker-table')} .tbody .tr >> nth=0`);
	await shows(5);
	await page.focus(id('tl-scroll'));
	await page.keyboard.press('Escape');
	await page.fill(id('marker-filter'), '');
	await page.click(id('tl-table'));
});
for (const [look, how] of LOOKS)
	test(`there is room for it: ${look}`, async () => {
		const other = await open('#markers=table', how);
		await checkWidth(other.page, 'a time line');
		assert.equal(await other.page.$$eval(id('track'), (all) => all.length), THREADS.length);
		await (how.viewport === PHONE ? other.page.tap(id('track')) : other.page.click(id('track')));
		await shows(amount(count((s) => s.thread === 0)), other.page);
		await other.leave();
	});
test('a profile without times has no time line', async () => {
	const folded = join(work, 'plain.folded');
	writeFileSync(folded, 'a;b 1\na;c 2\n');
	execFileSync(wick, ['convert', '-q', folded, '-o', join(work, 'plain.html')]);
	const { page: plain, leave: done } = await visit(pathToFileURL(join(work, 'plain.html')).href, '');
	await plain.waitForFunction(() => window.__wick?.flame.visibleCount > 0);
	assert.equal(await plain.$(id('timeline')), null);
	await done();
});
// What a page says for which half a gigabyte was too little is put into one that is small.
test('a time line that was left out is said, and the graph is there', async () => {
	const html = readFileSync(file, 'utf8'),
		element = (name) => new RegExp(`(<script id="${name}"[^>]*>)([^<]*)`);
	const data = JSON.parse(gunzipSync(Buffer.from(element('profile').exec(html)[2], 'base64')));
	delete data.timeline;
	data.no_timeline = `too much ${HOSTILE}`;
	const without = join(work, 'without.html');
	const packed = gzipSync(JSON.stringify(data)).toString('base64');
	writeFileSync(without, html.replace(element('profile'), (_, open) => open + packed).replace(element('timeline'), '$1'));
	const { page: one, leave: done } = await visit(pathToFileURL(without).href, '');
	await one.waitForFunction(() => window.__wick?.flame.visibleCount > 0);
	assert.ok((await one.textContent(id('no-timeline'))).startsWith(`No timeline: too much ${HOSTILE}`));
	assert.equal(await one.$(id('timeline')), null);
	assert.equal(await one.$$eval('img', (all) => all.length), 0);
	await done();
});
test('nothing went wrong', () => leave());
