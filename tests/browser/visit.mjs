// SPDX-License-Identifier: Apache-2.0
// A visit to a server's page, which notes what a page must not do; and what assistive technology would make of it, by axe-core.
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { begun } from './launch.mjs';

export const DESKTOP = { width: 1440, height: 900 };
export const PHONE = { width: 390, height: 844 };
export const id = (name) => `[data-testid="${name}"]`;

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

// What the page asked for is there, and nothing fades in or out any more.
export async function settled(page) {
	await begun(page);
	await page.waitForFunction(() => !document.querySelector('[aria-busy="true"]') && !document.querySelector('.progress:not(.idle)'));
	await page.waitForFunction(() => !document.getAnimations().some((animation) => animation instanceof CSSTransition));
}

// `faults`: errors and warnings on the console, uncaught exceptions, requests to anybody else.
export async function visit(browser, base, query, options = {}) {
	const phone = options.viewport === PHONE ? { isMobile: true, hasTouch: true, deviceScaleFactor: 2 } : {};
	const context = await browser.newContext({ viewport: DESKTOP, colorScheme: 'light', acceptDownloads: true, ...phone, ...options });
	const page = await context.newPage();
	page.setDefaultTimeout(60_000);
	const faults = [];
	page.on('console', (message) => ['error', 'warning'].includes(message.type()) && faults.push(`console: ${message.text()}`));
	page.on('pageerror', (error) => faults.push(`exception: ${error.stack}`));
	page.on('request', (request) => {
		const { protocol, origin } = new URL(request.url());
		if (!['data:', 'blob:'].includes(protocol) && origin !== new URL(base).origin) faults.push(`request: ${request.url()}`);
	});
	await page.goto(new URL(query, base).href);
	return {
		page,
		faults,
		url: () => new URL(page.url()).searchParams,
		// expected: of the faults, those that the test provoked
		leave: async (expected = /^$/) => {
			assert.deepEqual(faults.filter((fault) => !expected.test(fault)), []);
			await context.close();
		},
	};
}

// Nothing serious or critical. The policy of the page forbids scripts but its own, so axe comes in by the debugger.
export async function checkAccess(page, name) {
	await page.evaluate(AXE);
	const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
	const bad = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
	assert.deepEqual(bad.map(({ id: rule, help, nodes }) => `${rule}: ${help}: ${nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(' ')}`), [], name);
}

// Nothing hangs out of the window at the side.
export async function checkWidth(page, name) {
	await page.waitForFunction(() => document.documentElement.scrollWidth <= document.documentElement.clientWidth).catch(() => undefined);
	const over = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
	assert.ok(over <= 0, `${name} is ${over} px too wide`);
}

export async function picture(page, name) {
	if (!process.env.WICK_SCREENSHOTS) return;
	mkdirSync(process.env.WICK_SCREENSHOTS, { recursive: true });
	await page.screenshot({ path: join(process.env.WICK_SCREENSHOTS, `${name}.png`) });
}

// Where the box of that name is: its middle.
export async function boxAt(page, name) {
	const box = await (await page.waitForFunction((n) => window.__wick?.flame.nodeAt(n), name)).jsonValue();
	return [box.x + box.width / 2, box.y + box.height / 2];
}
// Points at a box, and again where it is by then if what still came in has moved it.
export async function pointAt(page, name) {
	for (let tries = 1; ; tries++) {
		const [x, y] = await boxAt(page, name);
		await page.mouse.move(x + (tries % 2), y);
		const pointed = page.waitForFunction((wanted) => window.__wick.flame.hoverName === wanted, name, { timeout: tries < 10 ? 5_000 : 60_000 });
		if (await (tries < 10 ? pointed.catch(() => null) : pointed)) return [x + (tries % 2), y];
	}
}
export const drawn = (page) => page.waitForFunction(() => (window.__wick?.flame.visibleCount ?? 0) > 1);
