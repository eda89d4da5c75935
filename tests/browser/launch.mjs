// SPDX-License-Identifier: Apache-2.0
// The browser that all page tests drive: Debian's, or WICK_CHROMIUM, asking nobody but the server under test.
// With WICK_SLOW_PAGE, what a page puts off (frames, timers, answers of a server) comes that many milliseconds later, as on a busy
// machine: a test that reads before it has waited for what it reads fails then, always.
import { chromium } from 'playwright-core';

const slow = Number(process.env.WICK_SLOW_PAGE ?? 0);

function putOff(by) {
	const { setTimeout: timer, requestAnimationFrame: frame, cancelAnimationFrame: cancel, fetch: ask } = window;
	const late = new Map();
	window.setTimeout = (call, after = 0, ...rest) => timer(call, after + by, ...rest);
	window.requestAnimationFrame = (call) => {
		const id = frame(() => {
			late.set(id, timer(() => {
				late.delete(id);
				call(performance.now());
			}, by));
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

export async function launch() {
	const browser = await chromium.launch({
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
	});
	if (slow > 0) {
		const { newContext, newPage } = browser;
		browser.newContext = async (...all) => {
			const context = await newContext.apply(browser, all);
			await context.addInitScript(putOff, slow);
			return context;
		};
		browser.newPage = async (...all) => {
			const page = await newPage.apply(browser, all);
			await page.addInitScript(putOff, slow);
			return page;
		};
	}
	return browser;
}

// What the last action set off has begun: effects come a frame later, and set off others.
export async function begun(page) {
	for (let round = 0; round < 3; round++)
		await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => setTimeout(done))));
}
