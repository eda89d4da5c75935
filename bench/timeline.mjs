// SPDX-License-Identifier: Apache-2.0
// Of bench/timeline.sh. write FILE COUNT: a Firefox profile of four threads with COUNT samples at random in 20,000 stacks of 2,000
// functions, and COUNT markers: steps with a parse, a merge and an instant in each, every one with a field. show FILE: in Chromium.
import { createWriteStream } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { sharedTables, wholeLife } from '../tests/lib/firefox.mjs';

const THREADS = 4,
	FUNCS = 2000,
	STACKS = 20000;
let seed = 1;
const below = (n) => ((seed = (Math.imul(seed, 1103515245) + 12345) >>> 0) >>> 8) % n;
const numbers = (n, f) => Array.from({ length: n }, (_, i) => f(i));

function makeThread(t, count) {
	const marker = { name: [], startTime: [], endTime: [], phase: [], category: [], data: [] };
	for (let i = 0; i < count; i += 4) {
		const at = i * 0.25;
		for (const [name, start, end] of [
			[0, at, at + 0.9],
			[1, at + 0.05, at + 0.4],
			[2, at + 0.45, at + 0.85],
			[3, at + 0.5, null],
		]) {
			marker.name.push(name);
			marker.startTime.push(+(start + below(30) / 1000).toFixed(3));
			marker.endTime.push(end === null ? null : +end.toFixed(3));
			marker.phase.push(end === null ? 0 : 1);
			marker.category.push(1);
			marker.data.push({ type: 'step', rows: below(100000) });
		}
	}
	return {
		name: `worker-${t}`,
		processName: 'bench',
		isMainThread: t === 0,
		pid: '100',
		tid: 100 + t,
		...wholeLife,
		samples: {
			length: count,
			stack: numbers(count, () => below(STACKS)),
			time: numbers(count, (i) => +(i * 0.25 + below(100) / 1000).toFixed(3)),
			weight: null,
			weightType: 'samples',
		},
		markers: { length: marker.name.length, ...marker },
	};
}

async function write(path, count) {
	const out = createWriteStream(path);
	const put = (text) => out.write(text) || new Promise((resolve) => out.once('drain', resolve));
	const shared = sharedTables(
		['step', 'parse', 'merge', 'send', ...numbers(FUNCS, (i) => `function_${i}`)],
		numbers(FUNCS, (i) => i + 4),
		{
			length: STACKS,
			frame: numbers(STACKS, () => below(FUNCS)),
			prefix: numbers(STACKS, (i) => (i === 0 ? null : Math.max(0, i - 1 - below(Math.max(50, i))))),
			category: numbers(STACKS, () => 0),
			subcategory: numbers(STACKS, () => 0),
		},
	);
	const meta = {
		version: 30,
		preprocessedProfileVersion: 60,
		interval: 0.25,
		startTime: 1700000000000,
		processType: 0,
		product: 'bench',
		stackwalk: 1,
		categories: [
			['Other', 'grey'],
			['Engine', 'blue'],
		].map(([name, color]) => ({ name, color, subcategories: ['Other'] })),
		markerSchema: [{ name: 'step', display: ['marker-chart'], fields: [{ key: 'rows', label: 'Rows', format: 'integer' }] }],
	};
	await put(`{"meta":${JSON.stringify(meta)},"libs":[],"shared":${JSON.stringify(shared)},"threads":[`);
	for (let t = 0; t < THREADS; t++) await put((t ? ',' : '') + JSON.stringify(makeThread(t, Math.floor(count / THREADS))));
	await put(']}');
	await new Promise((resolve) => out.end(resolve));
}

async function show(path) {
	const { launch } = await import('../tests/lib/launch.mjs');
	const browser = await launch();
	const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
	await page.goto(pathToFileURL(path).href);
	await page.waitForFunction(() => window.__wickTime && window.__wick?.flame.visibleCount > 0, null, { timeout: 300000 });
	console.log(
		`painted after ${Math.round(await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now()))))))} ms`,
	);
	const steps = [
		['table of markers', () => document.querySelector('[data-testid="tl-table"]').click()],
		['sorted by duration', () => document.querySelector('[data-testid="marker-sort-duration"]').click()],
		['a thread chosen', () => document.querySelector('[data-testid="track"]').click()],
		['all spans of a name', () => (location.hash = 'during=merge')],
		['a stretch of time', () => (location.hash = 't=1000000000-30000000000')],
		['by innermost span', () => (location.hash = 'group=span')],
		['zoomed in', () => document.querySelector('[aria-label="Zoom in"]').click()],
	];
	for (const [name, run] of steps) {
		const ms = await page.evaluate(async (source) => {
			const begin = performance.now();
			eval(`(${source})()`);
			await new Promise((done) => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(done))));
			return performance.now() - begin;
		}, run.toString());
		console.log(`${name}: ${Math.round(ms)} ms`);
	}
	console.log(`memory of the page's script: ${Math.round((await page.evaluate(() => performance.memory?.usedJSHeapSize ?? 0)) / 1e6)} MB`);
	await browser.close();
}

const [what, path, count] = process.argv.slice(2);
await (what === 'write' ? write(path, Number(count)) : show(path));
