// SPDX-License-Identifier: Apache-2.0
// Of bench/page.sh.
// write FILE NODES [FUNCTIONS]: a pprof profile (not compressed) whose flame graph has NODES nodes; always the same one.
// show NODES URL: the page of a server that has it, in Chromium. rows URL: the table alone, of many functions.
// speedscope NODES FILE: speedscope's own page on the same profile.
//
// What a frame costs is the CPU time of the main thread from the begin of one frame to that of the next, as Chromium traces it: events,
// script, layout, painting. What is beside it, how far frames are apart while something moves, is never less than the screen's 16.7 ms,
// and of a machine that has other things to do, more.
import { readFileSync, writeFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';

// ---- the profile --------------------

let functions = 20_000;
const BINARIES = 40,
	PERIOD = 10_101_010; // ns: 99 Hz
const DEPTH_MAX = 90,
	CHILDREN_MAX = 400;
const UNNAMED = 50; // one function in so many is an address of a stripped binary

let seed = 1;
const random = () => {
	seed = (seed + 0x6d2b79f5) | 0;
	let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
	t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
	return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
};
const below = (n) => Math.floor(random() * n);
const skewed = (n) => Math.floor(n * random() ** 3); // the first ones often

const WORDS =
	'buffer cache page queue lock node index table scan merge sort hash read write send parse plan row column block commit flush open find make visit'.split(' ');
const word = () => WORDS[below(WORDS.length)];
const capital = (text) => text[0].toUpperCase() + text.slice(1);
const functionName = (i) =>
	`${word()}::${capital(word())}${capital(word())}<${word()}::${capital(word())}>::${word()}_${word()}_${i}(${word()}::${capital(word())} const&, unsigned long)`;

class Writer {
	#bytes = new Uint8Array(1 << 16);
	length = 0;
	byte(value) {
		if (this.length === this.#bytes.length) {
			const more = new Uint8Array(2 * this.length);
			more.set(this.#bytes);
			this.#bytes = more;
		}
		this.#bytes[this.length++] = value;
	}
	varint(value) {
		for (; value >= 128; value = Math.floor(value / 128)) this.byte((value % 128) | 128);
		this.byte(value);
	}
	int(field, value) {
		this.varint(field << 3);
		this.varint(value);
	}
	bytes(field, bytes) {
		this.varint((field << 3) | 2);
		this.varint(bytes.length);
		for (const byte of bytes) this.byte(byte);
	}
	message(field, fill) {
		const inner = new Writer();
		fill(inner);
		this.bytes(field, inner.result());
	}
	packed(field, values) {
		this.message(field, (m) => values.forEach((value) => m.varint(value)));
	}
	result() {
		return this.#bytes.subarray(0, this.length);
	}
}

// Nodes are hung under nodes at random, so that the tree is as wide and as deep as those of real programs; siblings are different
// functions. What no other hangs under is a stack.
function makeTree(nodes) {
	const parent = new Int32Array(nodes),
		name = new Int32Array(nodes),
		depth = new Int32Array(nodes),
		children = new Int32Array(nodes);
	const taken = new Set();
	let at = 1;
	while (at < nodes) {
		// Half of the time a chain goes on where it was; otherwise under any node, or under a caller: the more it calls, the likelier.
		const way = random(),
			any = below(at);
		const under = at > 1 && way < 0.5 ? at - 1 : way < 0.75 ? any : parent[any];
		if (depth[under] >= DEPTH_MAX || (children[under] >= CHILDREN_MAX && at > CHILDREN_MAX)) continue;
		const called = skewed(functions),
			key = under * functions + called;
		if (taken.has(key)) continue;
		taken.add(key);
		[parent[at], name[at], depth[at]] = [under, called, depth[under] + 1];
		children[under]++;
		at++;
	}
	return { parent, name, children };
}

function write(path, nodes) {
	const { parent, name, children } = makeTree(nodes);
	const out = new Writer(),
		strings = ['', 'cpu', 'nanoseconds'];
	const string = (text) => strings.push(text) - 1;
	out.message(1, (m) => (m.int(1, 1), m.int(2, 2)));
	for (let i = 1; i < nodes; i++) {
		if (children[i] > 0) continue;
		const stack = [];
		for (let node = i; node > 0; node = parent[node]) stack.push(name[node] + 1);
		out.message(2, (m) => (m.packed(1, stack), m.packed(2, [(1 + skewed(200)) * PERIOD])));
	}
	for (let b = 0; b < BINARIES; b++) {
		const file = string(`/usr/lib/bench/lib${word()}_${b}.so`);
		out.message(3, (m) => (m.int(1, b + 1), m.int(2, 0x10000000 * (b + 1)), m.int(3, 0x10000000 * (b + 2)), m.int(5, file)));
	}
	const files = Array.from({ length: 1000 }, (_, i) => string(`/build/bench/src/${word()}/${word()}_${i}.cc`));
	for (let f = 0; f < functions; f++) {
		const binary = skewed(BINARIES),
			address = 0x10000000 * (binary + 1) + 16 * f;
		const named = f % UNNAMED !== UNNAMED - 1;
		out.message(4, (m) => {
			(m.int(1, f + 1), m.int(2, binary + 1), m.int(3, address));
			if (named) m.message(4, (line) => (line.int(1, f + 1), line.int(2, 1 + below(3000))));
		});
		const [own, file] = [string(functionName(f)), files[below(files.length)]];
		out.message(5, (m) => (m.int(1, f + 1), m.int(2, own), m.int(3, own), m.int(4, file), m.int(5, 1 + below(3000))));
	}
	for (const text of strings) out.bytes(6, Buffer.from(text));
	out.message(11, (m) => (m.int(1, 1), m.int(2, 2)));
	out.int(12, PERIOD);
	out.int(9, Date.now() * 1e6);
	out.int(10, 60e9);
	writeFileSync(path, out.result());
}

// ---- the browser --------------------

const VIEW = { width: 1440, height: 900 };
const ms = (value) => (value === null ? '-' : value < 10 ? value.toFixed(1) : String(Math.round(value)));
const quantile = (sorted, q) => (sorted.length ? sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))] : null);

// Runs the action and says what its frames cost.
async function frames(tracer, action) {
	const events = [];
	const listen = ({ value }) => events.push(...value);
	tracer.on('Tracing.dataCollected', listen);
	const includedCategories = ['disabled-by-default-devtools.timeline', 'disabled-by-default-devtools.timeline.frame'];
	await tracer.send('Tracing.start', { transferMode: 'ReportEvents', traceConfig: { includedCategories, excludedCategories: ['*'] } });
	await action();
	const complete = new Promise((resolve) => tracer.once('Tracing.tracingComplete', resolve));
	await tracer.send('Tracing.end');
	await complete;
	tracer.off('Tracing.dataCollected', listen);
	// The renderer that painted most: there may be others, of pages that are not shown.
	const painted = new Map();
	for (const e of events) if (e.name === 'BeginMainThreadFrame') painted.set(`${e.pid}/${e.tid}`, (painted.get(`${e.pid}/${e.tid}`) ?? 0) + 1);
	const [thread] = [...painted].sort((a, b) => b[1] - a[1])[0] ?? [];
	const own = events.filter((e) => `${e.pid}/${e.tid}` === thread);
	const begins = own
		.filter((e) => e.name === 'BeginMainThreadFrame')
		.map((e) => e.ts)
		.sort((a, b) => a - b);
	const tasks = own.filter((e) => e.name === 'RunTask' && e.ph === 'X').sort((a, b) => a.ts - b.ts);
	// The task that a frame begins in belongs to it; what is before the first frame to the first.
	const cost = begins.map(() => 0);
	let at = 0;
	for (const { ts, dur, tdur } of tasks) {
		while (at + 1 < begins.length && begins[at + 1] <= ts + dur) at++;
		if (cost.length) cost[at] += (tdur ?? dur) / 1000;
	}
	const sum = cost.reduce((all, one) => all + one, 0);
	cost.sort((a, b) => a - b);
	// Within something that moves; frames further apart than this are those of two actions.
	const between = begins
		.slice(1)
		.map((ts, i) => (ts - begins[i]) / 1000)
		.filter((gap) => gap < 100)
		.sort((a, b) => a - b);
	return { count: cost.length, p50: quantile(cost, 0.5), p95: quantile(cost, 0.95), max: cost.at(-1) ?? null, sum, apart: quantile(between, 0.95) };
}

async function memoryOf(page, tracer) {
	await (await page.context().newCDPSession(page)).send('HeapProfiler.collectGarbage');
	const all = await tracer.send('SystemInfo.getProcessInfo');
	const anonymous = (pid) => Number(/^Pss_Anon: +(\d+)/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'))?.[1] ?? 0) / 1024;
	return Math.max(...all.processInfo.filter((p) => p.type === 'renderer').map((p) => anonymous(p.id)));
}

const painted = (page) => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => setTimeout(() => done(performance.now())))));
const pause = (page, time) => page.waitForTimeout(time);

function print(nodes, name, first, costs, memory) {
	console.log(`  ${String(nodes).padStart(7)} ${name}: ${first}`);
	for (const [what, { count, p50, p95, max, apart }] of Object.entries(costs))
		console.log(
			`${' '.repeat(18)}${what.padEnd(10)} ${ms(p50).padStart(6)} ms p50 ${ms(p95).padStart(6)} ms p95 ${ms(max).padStart(6)} ms max, of ${count} frames; apart p95 ${ms(apart)} ms`,
		);
	console.log(`${' '.repeat(18)}memory of the tab ${Math.round(memory)} MB`);
}

// Places in the graph, the same for both; rows near the root have wide boxes.
const places = (box, count) =>
	Array.from({ length: count }, (_, i) => [box.x + box.width * (0.05 + 0.9 * ((i * 0.381966) % 1)), box.y + Math.min(box.height - 20, 70 + 20 * (i % 9))]);

async function act(page, tracer, box, { zoom, reset, search, table }) {
	const costs = {};
	const middle = [box.x + box.width / 2, box.y + box.height / 2];
	costs.zooming = await frames(tracer, async () => {
		for (const [i, [x, y]] of places(box, 24).entries()) {
			await zoom(x, y);
			await pause(page, 300);
			if (i % 4 === 3) await reset();
		}
	});
	await reset();
	await pause(page, 300);
	costs.panning = await frames(tracer, async () => {
		await page.mouse.move(...middle);
		for (let i = 0; i < 80; i++) {
			await page.mouse.wheel(0, i < 40 ? 30 : -30);
			await pause(page, 16);
		}
	});
	costs.pointing = await frames(tracer, async () => {
		for (const [x, y] of places(box, 60)) {
			await page.mouse.move(x, y);
			await pause(page, 16);
		}
	});
	costs.searching = await frames(tracer, search);
	if (table) costs.table = await frames(tracer, table);
	return costs;
}

const LOADS = 5; // the median of so many

async function load(page, url) {
	await page.goto('about:blank');
	await page.goto(`${url}/?from=now-1h&to=now%2B1h&view=both`);
	await page.waitForFunction(() => window.__first && window.__rows, null, { timeout: 300_000 });
	return page.evaluate(() => {
		const { startTime, responseStart, responseEnd, encodedBodySize, decodedBodySize } = performance
			.getEntriesByType('resource')
			.find((e) => e.name.includes('format=columns'));
		const first = window.__first;
		return {
			server: responseStart - startTime,
			answer: responseEnd - responseStart,
			paint: first - responseStart,
			all: first - startTime,
			rows: Math.max(0, window.__rows - first),
			encodedBodySize,
			decodedBodySize,
		};
	});
}

async function scrollTable(page) {
	const at = await page.locator('[data-testid="table"]').boundingBox();
	await page.mouse.move(at.x + at.width / 2, at.y + at.height / 2);
	for (let i = 0; i < 60; i++) {
		await page.mouse.wheel(0, 400);
		await pause(page, 16);
	}
	// And as by its scroll bar.
	for (let i = 0; i < 60; i++) {
		await page.locator('[data-testid="table"]').evaluate((table, share) => (table.scrollTop = share * table.scrollHeight), (i * 0.381966) % 1);
		await pause(page, 16);
	}
}

// From the release of the pointer to the first frame with the graph of what was chosen; the median.
async function brushes(page) {
	const box = await page.locator('[data-testid="metrics"]').boundingBox();
	const y = box.y + box.height / 2;
	const found = [];
	for (let i = 0; i < LOADS; i++) {
		await page.mouse.move(box.x + box.width * 0.3, y);
		await page.mouse.down();
		await page.mouse.move(box.x + box.width * (0.7 + 0.02 * i), y, { steps: 5 });
		const drawn = page.evaluate(
			() =>
				new Promise((done) => {
					const responses = () => performance.getEntriesByType('resource').filter((e) => e.name.includes('format=columns')).length;
					const before = responses();
					let up = 0;
					addEventListener('pointerup', () => (up = performance.now()), { capture: true, once: true });
					const look = () => {
						if (up > 0 && responses() > before && !document.querySelector('.profile.stale, .profile[aria-busy="true"]'))
							setTimeout(() => done(performance.now() - up));
						else requestAnimationFrame(look);
					};
					requestAnimationFrame(look);
				}),
		);
		await pause(page, 200);
		await page.mouse.up();
		found.push(await drawn);
		await pause(page, 300);
	}
	return found.sort((a, b) => a - b)[LOADS >> 1];
}

async function rows(url) {
	const { launch } = await import('../tests/lib/launch.mjs');
	const browser = await launch();
	const page = await browser.newPage({ viewport: VIEW });
	const tracer = await browser.newBrowserCDPSession();
	await page.goto(`${url}/?from=now-1h&to=now%2B1h&view=table`);
	await page.locator('.table .tbody .tr').first().waitFor({ timeout: 300_000 });
	await pause(page, 500);
	const count = await page.locator('[data-testid="table"]').getAttribute('aria-rowcount');
	print(
		Number(count) - 1,
		'rows of the table',
		'scrolled by wheel and by scroll bar',
		{ table: await frames(tracer, () => scrollTable(page)) },
		await memoryOf(page, tracer),
	);
	await browser.close();
}

async function show(nodes, url) {
	const { launch } = await import('../tests/lib/launch.mjs');
	const browser = await launch();
	const page = await browser.newPage({ viewport: VIEW });
	const tracer = await browser.newBrowserCDPSession();
	page.on('pageerror', (error) => {
		throw error;
	});
	await page.addInitScript(() => {
		// When the graph has been painted for the first time, and when the table is there: looked at behind each frame.
		const look = () => {
			setTimeout(() => {
				if (window.__wick?.flame.visibleCount > 0) window.__first ??= performance.now();
				if (document.querySelector('.table .tbody .tr')) window.__rows ??= performance.now();
			});
			if (!window.__first || !window.__rows) requestAnimationFrame(look);
		};
		requestAnimationFrame(look);
	});
	const loads = [];
	for (let i = 0; i < LOADS; i++) loads.push(await load(page, url));
	const t = Object.fromEntries(Object.keys(loads[0]).map((key) => [key, loads.map((l) => l[key]).sort((a, b) => a - b)[LOADS >> 1]]));
	const { sum } = await frames(tracer, () => load(page, url));
	const box = await page.locator('[data-testid="flame"]').boundingBox();
	await pause(page, 500);
	const field = page.locator('[data-testid="flame-search"]');
	const costs = await act(page, tracer, box, {
		zoom: (x, y) => page.mouse.click(x, y),
		reset: () => page.keyboard.press('Escape'),
		search: async () => {
			await field.focus();
			await page.keyboard.type('BufferCache', { delay: 120 });
			await pause(page, 300);
			for (let i = 0; i < 4; i++) await page.keyboard.press('Enter', { delay: 100 });
			await field.fill('');
			await pause(page, 300);
		},
		table: () => scrollTable(page),
	});
	const brush = await brushes(page);
	const size = (bytes) => (bytes < 1e6 ? `${Math.round(bytes / 1e3)} kB` : `${(bytes / 1e6).toFixed(1)} MB`);
	const bytes = `${size(t.encodedBodySize)} over the wire (${size(t.decodedBodySize)} unpacked)`;
	const times = `first paint ${ms(t.paint)} ms after the answer began (${ms(t.answer)} ms for all of it), ${ms(t.all)} ms after the request (${ms(t.server)} ms of the server); table ${ms(t.rows)} ms later; from a brush over time to the new graph ${ms(brush)} ms; CPU time of the main thread for the whole page until then ${ms(sum)} ms`;
	print(nodes, 'nodes  wick', `${bytes}; ${times}`, costs, await memoryOf(page, tracer));
	await browser.close();
}

async function speedscope(nodes, path) {
	const { launch } = await import('../tests/lib/launch.mjs');
	const browser = await launch();
	const page = await browser.newPage({ viewport: VIEW });
	const tracer = await browser.newBrowserCDPSession();
	await page.goto(new URL('../tests/node_modules/speedscope/dist/release/index.html', import.meta.url).href);
	const imported = page.waitForEvent('console', { predicate: (message) => /^import: /.test(message.text()), timeout: 300_000 });
	// From when the page has the file, as the response's beginning is for a server's.
	await page.evaluate(() =>
		document.querySelector('input[type=file]').addEventListener('change', () => (window.__begin = performance.now()), { capture: true }),
	);
	await page.setInputFiles('input[type=file]', path);
	await imported;
	await page.waitForSelector('canvas', { timeout: 300_000 });
	const first = await painted(page);
	const begin = await page.evaluate(() => window.__begin);
	await page.keyboard.press('2'); // merged, the largest on the left
	const leftHeavy = await painted(page);
	await pause(page, 500);
	const box = { x: 20, y: 120, width: VIEW.width - 40, height: VIEW.height - 140 };
	const costs = await act(page, tracer, box, {
		zoom: (x, y) => page.mouse.dblclick(x, y),
		reset: () => page.keyboard.press('0'),
		search: async () => {
			await page.keyboard.press('Control+f');
			await pause(page, 200);
			await page.keyboard.type('BufferCache', { delay: 120 });
			await pause(page, 300);
			for (let i = 0; i < 4; i++) await page.keyboard.press('Enter', { delay: 100 });
			await page.keyboard.press('Escape');
		},
	});
	print(
		nodes,
		'nodes  speedscope',
		`first paint ${ms(first - begin)} ms after it had the file; merged ("left heavy") ${ms(leftHeavy - first)} ms later`,
		costs,
		await memoryOf(page, tracer),
	);
	await browser.close();
}

const [what, ...rest] = process.argv.slice(2);
if (what === 'write') {
	functions = Number(rest[2] ?? functions);
	write(rest[0], Number(rest[1]));
} else if (what === 'rows') await rows(rest[0]);
else if (what === 'show') await show(Number(rest[0]), rest[1]);
else if (what === 'speedscope') await speedscope(Number(rest[0]), rest[1]);
else if (what === 'size')
	console.log(rest.map((path) => `${path.split('/').at(-1)} ${(gzipSync(readFileSync(path), { level: 9 }).length / 1e3).toFixed(1)} kB`).join(', '));
