// SPDX-License-Identifier: Apache-2.0
// The browser that all page tests drive: Debian's, or WICK_CHROMIUM, asking nobody but the server under test.
import { chromium } from 'playwright-core';

export const launch = () =>
	chromium.launch({
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
