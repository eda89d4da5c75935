// SPDX-License-Identifier: Apache-2.0
/*
 * The browser that all tests of pages drive: Debian's Chromium, asking nobody but the server under test.
 *
 *   WICK_CHROMIUM     the browser (tests/lib/chromium.inc chooses one; else /usr/bin/chromium)
 *   WICK_BROWSER_WS   one that runs already (tests/lib/chromium.mjs); without it each script starts its own
 *   WICK_SLOW_PAGE    what a page puts off (frames, timers, answers of a server) comes that many milliseconds later, as on a busy
 *                     machine: a test that reads before it has waited for what it reads fails then, always
 */
import { chromium } from 'playwright-core';

const slow = Number(process.env.WICK_SLOW_PAGE ?? 0);

function putOff(by) {
	const { setTimeout: timer, requestAnimationFrame: frame, cancelAnimationFrame: cancel, fetch: ask } = window;
	const late = new Map();
	window.setTimeout = (call, after = 0, ...rest) => timer(call, after + by, ...rest);
	window.requestAnimationFrame = (call) => {
		const id = frame(() => {
			late.set(
				id,
				timer(() => {
					late.delete(id);
					call(performance.now());
				}, by),
			);
		});
		return id;
	};
	window.cancelAnimationFrame = (id) => {
		cancel(id);
		clearTimeout(late.get(id));
		late.delete(id);
	};
	window.fetch = async (...all) => {
		await new Promise((resolve) => timer(resolve, by));
		return ask(...all);
	};
}

export const CHROMIUM = {
	executablePath: process.env.WICK_CHROMIUM ?? '/usr/bin/chromium',
	args: [
		'--no-sandbox',
		'--disable-gpu',
		'--disable-quic',
		'--no-first-run',
		'--disable-background-networking',
		'--disable-component-update',
		'--disable-sync',
	],
};

/**
 * The browser of the suite, or one of its own. Closing it closes what was opened by this call. Contexts have one option more, `clock`: the
 * time of their pages can be skipped.
 */
export async function launch() {
	const shared = process.env.WICK_BROWSER_WS;
	const browser = shared ? await chromium.connect(shared) : await chromium.launch(CHROMIUM);
	const { newContext } = browser;
	browser.newContext = async ({ clock, ...options } = {}) => {
		const context = await newContext.call(browser, options);
		if (clock) await context.clock.install();
		if (slow > 0) await context.addInitScript(putOff, slow); // by that clock
		return context;
	};
	return browser;
}
