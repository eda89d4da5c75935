// SPDX-License-Identifier: Apache-2.0
// A browser for several test scripts: prints the address that they take as WICK_BROWSER_WS, and runs until it is ended.
import { chromium } from 'playwright-core';
import { CHROMIUM } from './launch.mjs';

const server = await chromium.launchServer({ ...CHROMIUM, host: '127.0.0.1' });
console.log(server.wsEndpoint());
for (const signal of ['SIGTERM', 'SIGINT']) process.once(signal, () => server.close().then(() => process.exit()));
