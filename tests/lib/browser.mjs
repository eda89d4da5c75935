// SPDX-License-Identifier: Apache-2.0
/*
 * What tests of pages share: a visit that notes what a page must not do, waiting, where things are, and how it looks.
 *
 *   WICK_URL           the server under test
 *   WICK_FLEET         BEGINNING,DEPLOY,END of the fleet that it has, if it has one, in seconds since 1970
 *   WICK_TEST_FULL     1: every view in both sizes and both themes, instead of each size and each theme once
 *   WICK_SCREENSHOTS   a directory for pictures
 */
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { after } from 'node:test';
import { launch } from './launch.mjs';

/** The server under test, and what each test of it is given. */
export const base = process.env.WICK_URL;
export const options = { skip: base ? false : 'WICK_URL is not set', timeout: 600_000 };
/** Of the fleet (tests/browser/fleet.inc), in ms since 1970: where its data begin, the deploy of `beacon`, and where they ended when it was started. */
export const [beginning, deploy, end] = (process.env.WICK_FLEET ?? '0,0,0').split(',').map((s) => Number(s) * 1000);

export const DESKTOP = { width: 1440, height: 900 };
export const PHONE = { width: 390, height: 844 };
export const id = (name) => `[data-testid="${name}"]`;
// Limits on waiting only end what has failed already.
const LIMIT_MS = 120_000;

const look = (name, viewport) => ['light', 'dark'].map((colorScheme) => [`${name}, ${colorScheme}`, { viewport, colorScheme }]);
const [large, largeDark, small, smallDark] = [...look('1440x900', DESKTOP), ...look('390x844', PHONE)];
/** How views are looked at: [[name, options of visit()]]. FULL_LOOKS: of what is too much for each run. */
export const FULL_LOOKS = process.env.WICK_TEST_FULL ? [large, largeDark, small, smallDark] : [];
export const LOOKS = process.env.WICK_TEST_FULL ? FULL_LOOKS : [large, smallDark];

// ---- a visit --------------------

// The browser of this script: launched once it is needed.
let browser;
after(async () => (await browser)?.close());
export const newContext = async (how) => (await (browser ??= launch())).newContext(how);

/*
 * A context of its own with one page, which has gone to `query` below `to` ('about:blank' goes nowhere). Options are those of a context, and
 *
 *   prepare   called with the page before it goes anywhere: routes, listeners
 *   clock     the page's time can be skipped (passTime())
 *
 * `faults`: errors and warnings on the console, uncaught exceptions, dialogs, requests to anybody else.
 */
export async function visit(to, query, { prepare, ...options } = {}) {
	const phone = options.viewport === PHONE ? { isMobile: true, hasTouch: true, deviceScaleFactor: 2 } : {};
	const context = await newContext({ viewport: DESKTOP, colorScheme: 'light', acceptDownloads: true, ...phone, ...options });
	const faults = [];
	context.on('page', (page) => {
		page.setDefaultTimeout(LIMIT_MS);
		page.on('console', (message) => ['error', 'warning'].includes(message.type()) && faults.push(`console: ${message.text()}`));
		page.on('pageerror', (error) => faults.push(`exception: ${error.stack}`));
		page.on('dialog', (dialog) => {
			faults.push(`dialog: ${dialog.message()}`);
			void dialog.dismiss();
		});
		page.on('request', (request) => {
			const { protocol, origin } = new URL(request.url());
			if (!['data:', 'blob:'].includes(protocol) && origin !== new URL(to).origin) faults.push(`request: ${request.url()}`);
		});
	});
	const page = await context.newPage();
	await prepare?.(page);
	if (query !== 'about:blank') await page.goto(new URL(query, to).href);
	return {
		page,
		context,
		faults,
		url: () => new URL(page.url()).searchParams,
		// expected: of the faults, those that the test provoked
		leave: async (expected = /^$/) => {
			assert.deepEqual(
				faults.filter((fault) => !expected.test(fault)),
				[],
			);
			await context.close();
		},
	};
}

/** Goes on MS later, as the page sees it: timers that are due by then run. For visits with `clock`. */
export const passTime = (page, ms) => page.clock.fastForward(ms);
/** The same again and again, until what is waited for comes: `wait` is given options of waitForFunction(). */
export async function passUntil(page, ms, wait) {
	for (let tries = 0; tries < 10; tries++) {
		await passTime(page, ms);
		if (
			await wait({ timeout: 2_000 }).then(
				() => true,
				() => false,
			)
		)
			return;
	}
	await wait();
}

// ---- waiting --------------------

/** What the last action set off has begun: effects come a frame later, and set off others. */
export async function begun(page) {
	await page.evaluate(async () => {
		for (let round = 0; round < 3; round++) await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
	});
}

/** What the page asked for is there, and nothing fades in or out any more. */
export async function settled(page) {
	await begun(page);
	await page.waitForFunction(
		() =>
			!document.querySelector('[aria-busy="true"]') &&
			!document.querySelector('.progress:not(.idle)') &&
			!document.getAnimations().some((animation) => animation instanceof CSSTransition),
	);
}

/** A flame graph is there. */
export const drawn = (page) => page.waitForFunction(() => (window.__wick?.flame.visibleCount ?? 0) > 1, null, { timeout: 2 * LIMIT_MS });

/** Until the condition holds; if it never does, what comes next says so. */
export const come = (page, condition, argument) => page.waitForFunction(condition, argument).catch(() => undefined);

export const urlHas = (page, name, value) => page.waitForFunction(([n, v]) => new URLSearchParams(location.search).get(n) === v, [name, value]);

// ---- a flame graph --------------------

/** The box of that name, once it is there: { x, y, width, height }. */
export const boxOf = async (page, name, graph = 'flame') => (await page.waitForFunction(([n, g]) => window.__wick?.[g]?.nodeAt(n), [name, graph])).jsonValue();

/** Where a box ends up is known when it is twice in the same place. */
export async function settledBox(page, name) {
	for (let last = ''; ;) {
		const box = await boxOf(page, name);
		if (JSON.stringify(box) === last) return box;
		last = JSON.stringify(box);
		await begun(page);
	}
}

/** The middle of a box. */
export async function boxAt(page, name, graph = 'flame') {
	const box = await boxOf(page, name, graph);
	return [box.x + box.width / 2, box.y + box.height / 2];
}

/** Points at a box, and again where it is by then if what still came in has moved it. */
export async function pointAt(page, name) {
	for (let tries = 1; ; tries++) {
		const [x, y] = await boxAt(page, name);
		await page.mouse.move(x + (tries % 2), y);
		const pointed = page.waitForFunction((wanted) => window.__wick.flame.hoverName === wanted, name, { timeout: tries < 10 ? 5_000 : LIMIT_MS });
		if (await (tries < 10 ? pointed.catch(() => null) : pointed)) return [x + (tries % 2), y];
	}
}

export const zoomIs = (page, name, graph = 'flame') => page.waitForFunction(([g, n]) => window.__wick?.[g]?.zoomName === n, [graph, name]);
export const focusIs = (page, name, graph = 'flame') => page.waitForFunction(([g, n]) => window.__wick?.[g]?.focusName === n, [graph, name]);

/** The colour [red, green, blue] at a place of the window, as it is on the canvas of the part of that name. */
export const colorAt = (page, part, [x, y]) =>
	page.evaluate(
		([selector, px, py]) => {
			const canvas = document.querySelector(selector);
			const { left, top, width } = canvas.getBoundingClientRect();
			const scale = canvas.width / width;
			// Off a copy: the browser has a word to say about a canvas that is read more than once.
			const copy = new OffscreenCanvas(1, 1).getContext('2d');
			copy.drawImage(canvas, (px - left) * scale, (py - top) * scale, 1, 1, 0, 0, 1, 1);
			return [...copy.getImageData(0, 0, 1, 1).data].slice(0, 3);
		},
		[`${id(part)} canvas`, x, y],
	);

/** The share that a text shows, as a number. */
export const percentOf = (text) => Number(/([\d.]+)%/.exec(text)?.[1]);

// ---- files --------------------

/** What is saved by `act`: { name, bytes }. */
export async function saved(page, act) {
	const [download] = await Promise.all([page.waitForEvent('download'), act()]);
	const parts = [];
	// A browser that another process has started keeps it there.
	for await (const part of await download.createReadStream()) parts.push(part);
	return { name: download.suggestedFilename(), bytes: Buffer.concat(parts) };
}

// ---- looks --------------------

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** Nothing serious or critical for assistive technology, by axe-core. The policy of the page forbids scripts but its own, so axe comes in by the debugger. */
export async function checkAccess(page, name) {
	await page.evaluate(AXE);
	const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
	const bad = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
	assert.deepEqual(
		bad.map(
			({ id: rule, help, nodes }) =>
				`${rule}: ${help}: ${nodes
					.slice(0, 3)
					.map((node) => node.html.slice(0, 160))
					.join(' ')}`,
		),
		[],
		name,
	);
}

/** Nothing hangs out of the window at the side. */
export async function checkWidth(page, name) {
	await come(page, () => document.documentElement.scrollWidth <= document.documentElement.clientWidth);
	const over = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
	assert.ok(over <= 0, `${name} is ${over} px too wide`);
}

export async function picture(page, name) {
	if (!process.env.WICK_SCREENSHOTS) return;
	mkdirSync(process.env.WICK_SCREENSHOTS, { recursive: true });
	await settled(page);
	await page.screenshot({ path: join(process.env.WICK_SCREENSHOTS, `${name.replace(/[^\w.]+/g, '-')}.png`) });
}
