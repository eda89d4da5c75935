// SPDX-License-Identifier: Apache-2.0
// What people come to the page for, on a fleet of 100 hosts of which the service `beacon` is known to the sample (bench/fleet/truth.c): each
// test is a task, and its response is known in advance.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { base, boxAt, checkAccess, checkWidth, deploy, drawn, id, LOOKS, options, percentOf, picture, saved, settled, visit } from '../lib/browser.mjs';

// Half an hour before the deploy, and half an hour after it.
const BEFORE = `from=${deploy - 1800_000}&to=${deploy}`;
const AFTER = `from=${deploy}&to=${deploy + 1800_000}`;
const BEACON = encodeURIComponent('process_cpu{service_name="beacon"}');
const near = (a, b) => Math.abs(a - b) < 0.06;

test('what burns CPU in the fleet, and since when', options, async () => {
	const { page, url, leave } = await visit(base, `?view=home&${AFTER}`);
	const services = page.locator(`${id('home-services')} tbody tr`);
	const beacon = services.filter({ hasText: 'beacon' });
	await beacon.waitFor();
	// Ten pods of 105 samples in 10 s, and one with 50 more; 19 of them are a second of CPU.
	assert.ok(near(Number(await beacon.locator('td').nth(1).innerText()), (10 * 105 + 50) / 10 / 19), await beacon.innerText());
	await settled(page);
	await picture(page, 'fleet-home');
	await services.filter({ hasText: 'beacon' }).locator('button').click();
	await drawn(page);
	assert.equal(url().get('q'), (await page.locator(id('type-select')).inputValue()) + '{service_name="beacon"}');
	assert.equal(url().get('from'), String(deploy));
	await leave();
});

test('the hottest function of a service', options, async () => {
	const { page, leave } = await visit(base, `?q=${BEACON}&${BEFORE}&view=both`);
	await drawn(page);
	const first = page.locator(`${id('table')} .tbody [role="row"]`).first();
	await first.waitFor();
	assert.equal(await first.locator('.fn').innerText(), 'escape_html');
	assert.ok(near(percentOf(await first.locator('.td-self').innerText()), (100 * 400) / 1050), await first.innerText());
	await settled(page);
	await picture(page, 'fleet-profile');
	await leave();
});

test('which pod differs', options, async () => {
	const { page, url, leave } = await visit(base, `?q=${BEACON}&${BEFORE}`);
	await drawn(page);
	await page.locator(id('by-select')).selectOption('k8s_pod_name');
	const pods = page.locator(`${id('process-list')} .rail-pick`);
	await pods.filter({ hasText: 'beacon-7' }).waitFor();
	assert.equal(await pods.count(), 10);
	const shares = await pods.evaluateAll((all) =>
		all.map((one) => [one.querySelector('.rail-name').textContent, parseFloat(one.querySelector('.rail-value').textContent)]),
	);
	for (const [pod, share] of shares) assert.ok(near(share, pod === 'beacon-7' ? 15000 / 1050 : 10000 / 1050), `${pod} ${share}`);
	await pods.filter({ hasText: 'beacon-7' }).click();
	await page.locator(id('chip')).filter({ hasText: 'beacon-7' }).waitFor();
	await page.locator(`${id('table')} .fn`, { hasText: 'spin_wait' }).waitFor();
	assert.match(url().get('q'), /k8s_pod_name="beacon-7"/);
	await leave();
});

test('which line', options, async () => {
	const { page, url, leave } = await visit(base, `?q=${BEACON}&${BEFORE}&view=graph`);
	await drawn(page);
	await settled(page);
	await page.mouse.click(...(await boxAt(page, 'escape_html')), { button: 'right' });
	await page.locator(id('menu-source')).click();
	const active = page.locator(`${id('listing-source')} .lr.active`);
	await active.waitFor();
	assert.equal(await active.locator('.lc-at').innerText(), '14');
	assert.ok(near(percentOf(await active.locator('.lc-self').innerText()), (100 * 24) / 40), `${await active.innerText()}, of the function`);
	assert.equal(url().get('function'), 'escape_html');
	await leave();
});

test('who calls the hottest function, and how often', options, async () => {
	const { page, url, leave } = await visit(base, `?q=${BEACON}&${BEFORE}&view=graph`);
	await page.mouse.click(...(await boxAt(page, 'escape_html')));
	await page.waitForFunction(() => window.__wick?.flame.focusName === 'escape_html');
	await page.keyboard.press('b');
	await page
		.locator(id('sandwich-name'))
		.filter({ hasText: /^escape_html$/ })
		.waitFor();
	assert.equal(url().get('view'), 'sandwich');
	const sums = await page.locator(id('sandwich-sums')).innerText();
	assert.ok(near(percentOf(sums), (100 * 400) / 1050), sums);
	assert.match(sums, /2 callers · 0 callees · on 2 paths/);
	// Nine of ten come from render_page.
	const widthOf = async (part, name) => (await (await page.waitForFunction(([p, n]) => window.__wick?.[p]?.nodeAt(n), [part, name])).jsonValue()).width;
	const whole = await widthOf('callers', 'escape_html');
	for (const [caller, share] of [
		['render_page', 0.9],
		['render_error', 0.1],
	])
		assert.ok(Math.abs((await widthOf('callers', caller)) - whole * share) < 3, `${caller}, of ${whole}`);
	// What render_page calls: escape_html in 36 of 51, compress in 10, by a click on it.
	const at = await (await page.waitForFunction(() => window.__wick?.callers?.nodeAt('render_page'))).jsonValue();
	await page.mouse.click(at.x + at.width / 2, at.y + at.height / 2);
	await page
		.locator(id('sandwich-name'))
		.filter({ hasText: /^render_page$/ })
		.waitFor();
	const of = await widthOf('callees', 'render_page');
	for (const [callee, samples] of [
		['escape_html', 36],
		['compress', 10],
	])
		assert.ok(Math.abs((await widthOf('callees', callee)) - (of * samples) / 51) < 3, `${callee}, of ${of}`);
	await leave();
});

test('which call costs most of what render_page calls', options, async () => {
	const { page, leave } = await visit(base, `?q=${BEACON}&${BEFORE}&view=calls`);
	await page.waitForFunction(() => window.__wickCalls?.rectOf('escape_html') && !document.querySelector('.calls[aria-busy="true"]'));
	const shareOf = async (from, to) => {
		const row = page
			.locator(`${id('calls-list')} tbody tr`)
			.filter({ has: page.locator('td:nth-child(1)', { hasText: from }) })
			.filter({ has: page.locator('td:nth-child(2)', { hasText: to }) });
		return percentOf(await row.innerText());
	};
	for (const [from, to, samples] of [
		['main', 'serve', 1050],
		['render_page', 'escape_html', 360],
		['render_error', 'escape_html', 40],
		['render_page', 'compress', 100],
		['lookup', 'hash_key', 120],
	])
		assert.ok(near(await shareOf(from, to), (100 * samples) / 1050), `${from} → ${to}`);
	// The keyboard goes along the costliest.
	await page.focus(id('calls-graph'));
	for (const name of ['main', 'serve', 'handle_request', 'render_page', 'escape_html']) {
		await page.keyboard.press('ArrowDown');
		await page.waitForFunction((n) => window.__wickCalls.focusName === n, name);
	}
	await leave();
});

test('which file, which line, which binary, which pod costs most', options, async () => {
	const { page, url, leave } = await visit(base, `?q=${BEACON}&${BEFORE}&view=table`);
	const expected = {
		file: [
			['/src/beacon/escape.c', 400],
			['/src/beacon/parser.c', 150],
			['/src/beacon/hash.c', 120],
		],
		line: [
			['escape_html', 240, 'escape.c:14'],
			['hash_key', 120, 'hash.c:7'],
			['escape_html', 120, 'escape.c:16'],
		],
		binary: [
			['beacon', 850],
			['[unknown binary]', 100],
			['libsqueeze.so.1', 100],
		],
		'label:k8s_pod_name': [['beacon-7', 150]],
	};
	for (const [by, rows] of Object.entries(expected)) {
		await page.locator(id('table-by')).selectOption(by);
		for (const [name, samples, place] of rows) {
			const row = page
				.locator(`${id('table')} .tbody [role="row"]`)
				.filter({ has: page.locator('.fn', { hasText: name }) })
				.filter({ hasText: place ?? '' });
			await row.first().waitFor();
			assert.equal(await row.count(), 1, `${by} ${name}`);
			assert.ok(
				near(percentOf(await row.locator(by.startsWith('label') ? '.td-total' : '.td-self').innerText()), (100 * samples) / 1050),
				`${by}: ${await row.innerText()}`,
			);
		}
		assert.equal(
			await page
				.locator(`${id('table')} .tbody .fn`)
				.first()
				.innerText(),
			rows[0][0],
			by,
		);
	}
	assert.equal(url().get('rows'), 'label:k8s_pod_name');
	await leave();
});

test('a query of my own: a fault at its place, then a table, a chart, a graph', options, async () => {
	const { page, url, leave } = await visit(base, `?view=console&${BEFORE}`);
	const input = page.locator(id('console-input'));
	await input.fill('process_cpu{service_name="beacon"} | topp 5');
	await input.press('Control+Enter');
	const fault = page.locator(id('console-fault'));
	await fault.waitFor();
	assert.equal(await fault.locator('mark').innerText(), 'topp');
	await input.fill('process_cpu{service_name="beacon"} | top 5');
	await input.press('Control+Enter');
	const rows = page.locator(`${id('console-table')} .tbody [role="row"]`);
	await rows.filter({ hasText: 'escape_html' }).waitFor();
	await fault.waitFor({ state: 'detached' });
	assert.equal(await rows.count(), 5);
	assert.match(await rows.first().innerText(), /escape_html/);
	assert.equal(url().get('run'), 'process_cpu{service_name="beacon"} | top 5');
	await page.locator(id('console-explain-toggle')).click();
	await page.locator(id('console-explain')).filter({ hasText: 'top 5' }).waitFor();
	await page.locator(id('console-explain-toggle')).click();

	await input.fill('process_cpu{service_name="beacon"} | group by k8s_pod_name | bin 5m | rate');
	await page.locator(id('console-run')).click();
	await page.locator(`${id('console-result')} ${id('metrics')} canvas`).waitFor();
	await page
		.locator(`${id('console-result')} ${id('chart-legend')} li`)
		.filter({ hasText: 'beacon' })
		.first()
		.waitFor();
	await input.fill('process_cpu{service_name="beacon"} | callers of "escape_html"');
	await page.locator(id('console-run')).click();
	await drawn(page);
	await boxAt(page, 'render_error');
	await page.goBack();
	await page.locator(`${id('console-result')} ${id('metrics')} canvas`).waitFor();
	assert.match(await input.inputValue(), /bin 5m/);
	await leave(/status of 400/); // the browser's own word for the fault above
});

test('a saved query: one that is built in, changed, saved as my own, and deleted', options, async () => {
	const { page, url, leave } = await visit(base, `?view=console&${BEFORE}`);
	const rows = page.locator(`${id('console-table')} .tbody [role="row"]`);
	await page.locator(id('saved-list')).getByRole('button', { name: 'Costliest functions' }).click();
	await page.locator(id('saved-service')).fill('beacon');
	await page.locator(id('saved-n')).fill('4');
	await page.locator(id('saved-n')).press('Enter');
	await rows.filter({ hasText: 'escape_html' }).waitFor();
	await page.waitForFunction((s) => document.querySelectorAll(s).length === 4, `${id('console-table')} .tbody [role="row"]`);
	assert.deepEqual([url().get('saved'), url().getAll('param'), url().get('run')], ['top-functions', ['service=beacon', 'n=4'], null]);
	await checkWidth(page, 'a saved query');
	await checkAccess(page, 'a saved query');
	await picture(page, 'saved query');

	// A link leads to the same, and one whose value is missing waits for it.
	await page.reload();
	await rows.filter({ hasText: 'escape_html' }).waitFor();
	assert.equal(await page.locator(id('saved-n')).inputValue(), '4');
	await page.goto(new URL(`?view=console&${BEFORE}&saved=callers-of-function`, base).href);
	await page.locator(id('saved-form')).waitFor();
	assert.equal(await page.locator(id('saved-run')).isDisabled(), true);
	await page.locator(id('saved-function')).fill('escape_html');
	await page.locator(id('saved-run')).click();
	await drawn(page);
	await boxAt(page, 'render_error');

	// What it was, in the editor; with a parameter of my own.
	await page.locator(id('saved-edit')).click();
	const input = page.locator(id('console-input'));
	assert.equal(await input.inputValue(), 'process_cpu | callers of function = "escape_html"');
	await input.fill('process_cpu{service_name=$service} | top $n');
	await page.locator(id('console-save')).click();
	await page.locator(id('save-title')).fill('My own functions');
	assert.deepEqual(
		[
			await page.locator(id('save-service-type')).inputValue(),
			await page.locator(id('save-service-label')).inputValue(),
			await page.locator(id('save-n-type')).inputValue(),
		],
		['value', 'service_name', 'number'],
	);
	await page.locator(id('save-n-usual')).fill('many');
	await page.locator(id('save-submit')).click();
	await page.locator(id('save-fault')).filter({ hasText: "parameter 'n'" }).waitFor();
	await page.locator(id('save-n-usual')).fill('2');
	await picture(page, 'saving a query');
	await page.locator(id('save-submit')).click();
	await page.locator(id('saved-form')).filter({ hasText: 'My own functions' }).waitFor();
	await page.locator(id('saved-service')).fill('beacon');
	await page.locator(id('saved-run')).click();
	await page.waitForFunction((s) => document.querySelectorAll(s).length === 2, `${id('console-table')} .tbody [role="row"]`);
	assert.equal(url().get('saved'), 'my-own-functions');
	await page.locator(id('console-saved')).click();
	await page.getByRole('dialog').getByRole('button', { name: 'My own functions' }).waitFor();
	await page.keyboard.press('Escape');
	await page.locator(id('saved-remove')).click();
	await page.locator(id('saved-list')).waitFor();
	await page.locator(id('saved-list')).getByRole('button', { name: 'My own functions' }).waitFor({ state: 'detached' });
	assert.equal(url().get('saved'), null);
	await leave(/status of 400/); // the browser's own word for the default that does not fit
});

// What a menu's item saves, as text or bytes.
async function savedFrom(page, button, item) {
	await page.click(id(button));
	const { name, bytes } = await saved(page, () => page.click(id(`download-${item}`)));
	assert.match(name, new RegExp(`^wick-\\d{8}T\\d{6}\\.${item}$`));
	await page.keyboard.press('Escape');
	await page.locator(id(`download-${item}`)).waitFor({ state: 'detached' });
	return bytes;
}
const linesOf = (csv) =>
	csv
		.toString()
		.trimEnd()
		.split('\r\n')
		.map((line) => line.split(','));

test('the numbers for a spreadsheet: over time, of a query, of a comparison; and its picture', options, async () => {
	const { page, leave } = await visit(base, `?q=${BEACON}&${BEFORE}&view=both`);
	await drawn(page);
	await settled(page);
	const [head, ...steps] = linesOf(await savedFrom(page, 'series-download', 'csv'));
	assert.deepEqual(head, ['time', 'beacon (cores)']);
	assert.ok(steps.length > 10 && steps.every(([at]) => Date.parse(at) >= deploy - 1800_000 && Date.parse(at) < deploy), String(steps[0]));
	for (const [at, value] of steps) assert.ok(Math.abs(value - 1050 / 10 / 19) < 0.01, `${at}: ${value}`);

	await page.goto(new URL(`?view=console&${BEFORE}&run=${encodeURIComponent('process_cpu{service_name="beacon"} | top 5')}`, base).href);
	await page
		.locator(`${id('console-table')} .tbody [role="row"]`)
		.filter({ hasText: 'escape_html' })
		.waitFor();
	const [columns, ...rows] = linesOf(await savedFrom(page, 'download', 'csv'));
	assert.equal(rows.length, 5);
	assert.deepEqual([rows[0].includes('escape_html'), columns.length], [true, rows[0].length], `${columns}: ${rows[0]}`);

	await page.goto(new URL(`?view=compare&q=${BEACON}&${AFTER}&bfrom=${deploy - 1800_000}&bto=${deploy}`, base).href);
	await page.locator(`${id('compare-table')} [data-function="hash_key"]`).waitFor();
	await drawn(page);
	await settled(page);
	const [names, ...functions] = linesOf(await savedFrom(page, 'download', 'csv'));
	assert.deepEqual(names.slice(0, 4), ['name', 'base self (nanoseconds)', 'head self (nanoseconds)', 'change of self']);
	const compared = Object.fromEntries(functions.map(([name, from, to, change]) => [name, [from, to, change]]));
	// Of ten pods and half an hour of 10 s; a sample is a 19th of a second.
	const ns = (count) => (count * 10 * 180 * 1e9) / 19;
	for (const [name, from, to, change] of [
		['hash_key', 12, 24, 'more'],
		['compress', 10, 0, 'gone'],
		['validate_utf8', 0, 6, 'new'],
		['escape_html', 40, 40, 'within noise'],
	]) {
		assert.ok(Math.abs(compared[name][0] - ns(from)) <= 1e-6 * ns(40) && Math.abs(compared[name][1] - ns(to)) <= 1e-6 * ns(40), `${name}: ${compared[name]}`);
		assert.equal(compared[name][2], change);
	}
	const png = await savedFrom(page, 'download', 'png');
	assert.equal(png.subarray(1, 4).toString(), 'PNG');
	assert.ok(png.readUInt32BE(16) > 300 && png.readUInt32BE(20) > 100);
	await leave();
});

test('suggestions come from the grammar and from the data, by keyboard', options, async () => {
	const { page, leave } = await visit(base, `?view=console&${BEFORE}`);
	const input = page.locator(id('console-input'));
	const option = (text) => page.locator('.console-editor [role="option"]', { hasText: text });
	await input.focus();
	await page.keyboard.type('process_cpu{service_na');
	await option('service_name').waitFor();
	await page.keyboard.press('Tab');
	await page.waitForFunction((s) => document.querySelector(s).value.endsWith('{service_name'), id('console-input'));
	await page.keyboard.type('="bea');
	await option('beacon').waitFor();
	await page.keyboard.press('Tab');
	await page.waitForFunction((s) => document.querySelector(s).value.endsWith('="beacon"'), id('console-input'));
	await page.keyboard.type('} | callers of "escape');
	await option('escape_html').waitFor();
	await page.keyboard.press('Tab');
	await page.keyboard.press('Control+Enter');
	await boxAt(page, 'render_page');
	await leave();
});

test('how the agents are: those in trouble first, and why', options, async () => {
	const { page, leave } = await visit(base, '?view=status');
	const agents = page.locator(id('agent'));
	await page.locator(id('status-agents')).filter({ hasText: '100 connected;' }).waitFor();
	await page.locator(id('all-agents')).click();
	await page.waitForFunction((s) => document.querySelectorAll(s).length === 100, id('agent'));
	const order = await agents.evaluateAll((all) => all.map((one) => one.dataset.host.slice(0, 9)));
	assert.equal(order[0], 'host-0013', 'it loses samples');
	assert.deepEqual(order.slice(1, 3).sort(), ['host-0042', 'host-0066'], 'slowed down; warned');
	await agents.first().locator('button').click();
	await page.locator('.status-details', { hasText: 'counts full' }).waitFor();
	await picture(page, 'fleet-status');
	await leave();
});

for (const [look, how] of LOOKS) {
	test(`each part at ${look}: it fits, and assistive technology can make something of it`, options, async () => {
		const { page, leave } = await visit(base, 'about:blank', how);
		const views = {
			home: [`?view=home&${AFTER}`, id('home-movers')],
			profile: [`?q=${BEACON}&${AFTER}&view=profile`, id('flame')],
			table: [`?q=${BEACON}&${AFTER}&view=table`, id('table')],
			sandwich: [`?q=${BEACON}&${AFTER}&view=sandwich&function=escape_html`, id('callees')],
			lines: [`?q=${BEACON}&${AFTER}&view=table&rows=line`, id('table')],
			calls: [`?q=${BEACON}&${AFTER}&view=calls`, id('calls-list')],
			source: [`?q=${BEACON}&${AFTER}&view=source&function=escape_html`, id('listing-source')],
			compare: [`?view=compare&q=${BEACON}&${AFTER}&bfrom=${deploy - 1800_000}&bto=${deploy}`, id('graph-flame')],
			sides: [`?view=compare&q=${BEACON}&${AFTER}&bfrom=${deploy - 1800_000}&bto=${deploy}&show=sides`, id('graph-head')],
			console: [`?view=console&${AFTER}&run=${encodeURIComponent('process_cpu | top 20')}`, id('console-table')],
			chart: [`?view=console&${AFTER}&run=${encodeURIComponent('process_cpu | group by service_name | bin 5m | top 5')}`, id('metrics')],
			status: ['?view=status', id('agent')],
			binaries: ['?view=binaries', id('binaries')],
			recordings: ['?view=recordings', id('no-recordings')],
		};
		for (const [name, [query, what]] of Object.entries(views)) {
			await page.goto(new URL(query, base).href);
			await page.locator(what).first().waitFor();
			await settled(page);
			await picture(page, `fleet-${name}-${look}`);
			await checkWidth(page, name);
			await checkAccess(page, name);
		}
		await leave();
	});
}
