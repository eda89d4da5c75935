// SPDX-License-Identifier: Apache-2.0
// Looking at a profile in a file on the server's page: dropped, chosen, reloaded; files that are none, that are too large, that mean harm; and
// a server that is busy, away, or refuses. What a file holds is written here by hand, so the figures are known.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { startServer } from '../harness.mjs';
import { readFolded, readPprof, readSpeedscope } from '../convert/readers.mjs';
import { checkAccess, checkWidth, drawn, id, LOOKS, picture, saved, settled, visit } from '../lib/browser.mjs';

const work = process.env.WICK_WORK;
const MIB = 1024 * 1024;
let server, home;

const file = (name, content) => {
	const path = join(work, name);
	writeFileSync(path, content);
	return path;
};
let folded;
before(async () => {
	folded = file('shop.folded', 'main;parse;read 600\nmain;parse 100\nmain;render;draw 300\n');
	server = await startServer(join(work, 'files'));
	home = `${server.url}/`;
});
after(() => server?.child.kill('SIGKILL'));

const choose = (page, path, button = 'open-file') =>
	Promise.all([page.waitForEvent('filechooser'), page.locator(id(button)).click()]).then(([chooser]) => chooser.setFiles(path));
// As the browser hands files over that are dragged in: [NAME, CONTENT, HOW OFT THAT (1)].
const drop = (page, files, selector = '.main') =>
	page.evaluate(
		([where, given]) => {
			const data = new DataTransfer();
			for (const [name, text, times = 1] of given) data.items.add(new File([text.repeat(times)], name));
			const target = document.querySelector(where);
			for (const type of ['dragenter', 'dragover', 'drop']) target.dispatchEvent(new DragEvent(type, { bubbles: true, cancelable: true, dataTransfer: data }));
		},
		[selector, files],
	);
const shownName = (page, name) =>
	page.waitForFunction(([selector, wanted]) => document.querySelector(selector)?.textContent === wanted, [id('file-title'), name]);
const shareOf = (page, name) => page.evaluate((n) => window.__wick.flame.nodeAt(n).width / window.__wick.flame.nodeAt('total').width, name);
const faultText = async (page) => {
	await page.locator(id('file-fault')).waitFor();
	return page.locator(id('file-fault')).innerText();
};

test('somebody has a file of stacks and drops it on the page', async () => {
	const { page, url, leave } = await visit(home, '?view=status');
	await page.locator('.main').waitFor();
	await drop(page, [['shop.folded', 'main;parse;read 600\nmain;parse 100\nmain;render;draw 300\n']]);
	await shownName(page, 'shop.folded');
	await drawn(page);
	await page.waitForFunction(() => window.__wick.flame.nodeAt('read'));
	assert.ok(Math.abs((await shareOf(page, 'read')) - 0.6) < 0.01);
	assert.equal(url().get('view'), 'file');
	assert.equal(await page.title(), 'shop.folded – Wick');
	const row = page.locator(`${id('table')} .tbody [role="row"]`).first();
	await row.waitFor();
	assert.match(await row.innerText(), /60\.0%[\s\S]*read/);
	await leave();
});

test('chosen by keyboard, searched, turned over, and shown again after the page was loaded anew', async () => {
	const { page, url, leave } = await visit(home, '');
	await settled(page);
	const asked = page.waitForEvent('filechooser');
	await page.locator(id('open-file')).focus(); // behind which the browser has heard that somebody waits
	await page.keyboard.press('Enter');
	await (await asked).setFiles(folded);
	await shownName(page, 'shop.folded');
	await page.locator(id('flame-search')).fill('draw');
	await page.waitForFunction((selector) => /30\.0%/.test(document.querySelector(selector).textContent), id('flame-matched'));
	await page.locator(id('view-table')).click();
	await page.waitForFunction(() => new URL(location.href).searchParams.get('pane') === 'table');
	await page.reload();
	await page.locator(id('file-none')).waitFor();
	assert.match(await page.locator(id('file-none')).innerText(), /shop\.folded/);
	await choose(page, folded, 'file-again');
	await shownName(page, 'shop.folded');
	await page.locator(id('table')).waitFor();
	await page.waitForFunction((selector) => /30\.0%/.test(document.querySelector(selector).textContent), id('flame-matched'));
	assert.deepEqual([url().get('find'), url().get('pane')], ['draw', 'table']);
	await leave();
});

test('back and forward lead from one file to the other, and to where one was before', async () => {
	const { page, leave } = await visit(home, '?view=status');
	const other = file('other.folded', 'start;work 5\n');
	await choose(page, folded);
	await shownName(page, 'shop.folded');
	await choose(page, other);
	await shownName(page, 'other.folded');
	await page.goBack();
	await shownName(page, 'shop.folded');
	await page.goBack();
	await page.waitForFunction(() => new URL(location.href).searchParams.get('view') === 'status');
	await page.goForward();
	await shownName(page, 'shop.folded');
	await page.goForward();
	await shownName(page, 'other.folded');
	await drawn(page);
	await page.waitForFunction(() => window.__wick.flame.nodeAt('work'));
	await leave();
});

test('the file in another format, as readers that are none of ours read it', async () => {
	const { page, leave } = await visit(home, '?view=status');
	await choose(page, folded);
	await shownName(page, 'shop.folded');
	await page.locator(id('file-download')).click();
	const wanted = [
		['main/parse', 100],
		['main/parse/read', 600],
		['main/render/draw', 300],
	];
	for (const [format, ending, read] of [
		['pprof', 'pb.gz', readPprof],
		['folded', 'folded', readFolded],
		['speedscope', 'speedscope.json', readSpeedscope],
	]) {
		const { name, bytes } = await saved(page, () => page.locator(id(`download-${format}`)).click());
		assert.equal(name, `shop.${ending}`);
		const path = file(`down.${ending}`, bytes);
		const stacks = read(path).samples.map(({ frames, values }) => [frames.map(({ name }) => name).join('/'), Number(values[0])]);
		assert.deepEqual(stacks.sort(), wanted, format);
	}
	const svg = await saved(page, () => page.locator(id('download-svg')).click());
	assert.match(svg.bytes.toString(), /^<\?xml|^<svg/);
	await leave();
});

test('several files: the first is opened, and the page says so', async () => {
	const { page, leave } = await visit(home, '?view=status');
	await page.locator('.main').waitFor();
	await drop(page, [
		['one.folded', 'a 1\n'],
		['two.folded', 'b 1\n'],
	]);
	await shownName(page, 'one.folded');
	assert.match(await page.locator(id('only-first')).innerText(), /^2 files/);
	await leave();
});

test('files that are no profiles are told by name, in the words of the server', async () => {
	const { page, leave } = await visit(home, '?view=status');
	await choose(page, file('letter.txt', 'Dear all,\n\nno profile here\n'));
	assert.match(await faultText(page), /letter\.txt cannot be shown[\s\S]*letter\.txt: /);
	await choose(page, file('nothing.pb', ''), 'file-another');
	await page.waitForFunction((selector) => /nothing\.pb: the file is empty/.test(document.querySelector(selector)?.textContent), id('file-fault'));
	await choose(page, file('broken.pb.gz', Buffer.from('1f8b0800000000000003ffffffffff', 'hex')), 'file-another');
	await page.waitForFunction((selector) => /broken\.pb\.gz: /.test(document.querySelector(selector)?.textContent), id('file-fault'));
	await choose(page, folded, 'file-another');
	await shownName(page, 'shop.folded');
	await leave(/console: Failed to load resource: the server responded with a status of 4/);
});

test('names that mean harm are text, and deep stacks are stacks', async () => {
	const { page, leave } = await visit(home, '?view=status');
	await page.locator('.main').waitFor();
	const evil = '<img src=x onerror=document.title=1>\u202egnp.folded';
	const deep = (frames) => `${Array.from({ length: frames }, (_, i) => `f${i}`).join(';')} 7\n`;
	await drop(page, [['deep.folded', deep(20_000)]]);
	assert.match(await faultText(page), /deep\.folded: line 1: the stack is deeper than 16384 frames/);
	await drop(page, [[evil, `<script>alert(1)</script>;x 3\n${deep(10_000)}`]]);
	await page.locator(id('file-title')).waitFor();
	await drawn(page);
	assert.match(await page.locator(id('file-title')).innerText(), /^<img src=x/);
	assert.equal(await page.locator('img, .main script').count(), 0);
	assert.ok(!(await page.locator(id('file-title')).innerText()).includes('\u202e'));
	await settled(page);
	await checkWidth(page, 'a hostile name');
	await leave(/console: Failed to load resource: the server responded with a status of 413/);
});

test('a file larger than a body may be is packed on the way', async () => {
	const { page, leave } = await visit(home, '?view=status');
	const line = `main;${'a'.repeat(1000)};leaf 1\n`;
	const sent = page.waitForRequest((request) => request.url().includes('/view?'));
	await page.locator('.main').waitFor();
	await drop(page, [['large.folded', line, Math.ceil((100 * MIB) / line.length)]]);
	const { 'content-length': length } = await (await sent).allHeaders();
	assert.ok(Number(length) < 10 * MIB, `${length} bytes were sent`);
	await shownName(page, 'large.folded');
	await drawn(page);
	assert.match(await page.locator(id('file-head')).innerText(), /100(\.\d)? MiB/);
	await leave();
});

test('while the server reads another file, it is asked again; who waits can give up, and try again', async () => {
	const { page, leave } = await visit(home, '?view=status');
	let busy = true;
	await page.route('**/api/v1/view?**', (route) =>
		busy
			? route.fulfill({ status: 503, headers: { 'retry-after': '1' }, contentType: 'application/json', body: '{"error":"another file is being read"}' })
			: route.continue(),
	);
	await choose(page, folded);
	await page.waitForFunction((selector) => /another file is being read/.test(document.querySelector(selector)?.textContent), id('file-stage'));
	await page.keyboard.press('Escape');
	assert.match(await faultText(page), /shop\.folded was not opened/);
	await page.locator(id('file-retry')).click();
	await page.waitForFunction((selector) => /another file is being read/.test(document.querySelector(selector)?.textContent), id('file-stage'));
	busy = false;
	await shownName(page, 'shop.folded');
	await leave(/console: Failed to load resource: the server responded with a status of 503/);
});

test('the server goes away while a file is sent, and comes back', async () => {
	const { page, leave } = await visit(home, '?view=status');
	await settled(page);
	let away = true;
	await page.route('**/api/v1/view?**', (route) => (away ? route.abort('connectionreset') : route.continue()));
	await choose(page, folded);
	assert.match(await faultText(page), /shop\.folded cannot be shown[\s\S]*No response/);
	away = false;
	await page.locator(id('file-retry')).click();
	await shownName(page, 'shop.folded');
	await leave(/console: Failed to load resource: net::ERR_CONNECTION_RESET/);
});

test('what is dropped and is no file is left alone', async () => {
	const { page, url, leave } = await visit(home, '?view=status');
	await page.locator('.main').waitFor();
	await page.evaluate(() => {
		const data = new DataTransfer();
		data.setData('text/plain', 'some words');
		for (const type of ['dragenter', 'drop'])
			document.querySelector('.main').dispatchEvent(new DragEvent(type, { bubbles: true, cancelable: true, dataTransfer: data }));
	});
	await settled(page);
	assert.equal(url().get('view'), 'status');
	assert.equal(await page.locator(id('drop-over')).count(), 0);
	await leave();
});

for (const [look, how] of LOOKS)
	test(`it fits, and can be read by everybody: ${look}`, async () => {
		const { page, leave } = await visit(home, '?view=file', how);
		await page.locator(id('file-none')).waitFor();
		await checkAccess(page, 'no file yet');
		await checkWidth(page, 'no file yet');
		await choose(page, folded, 'file-again');
		await shownName(page, 'shop.folded');
		await drawn(page);
		await settled(page);
		await checkAccess(page, 'a file');
		await checkWidth(page, 'a file');
		await picture(page, `file-${look}`);
		await leave();
	});

test('the server is stopped for good: the page says who does not answer', async () => {
	const { page, leave } = await visit(home, '?view=status');
	await settled(page);
	await server.stop();
	await choose(page, folded);
	assert.match(await faultText(page), /No response from 127\.0\.0\.1/);
	await leave(/console: Failed to load resource: net::ERR_/);
});
