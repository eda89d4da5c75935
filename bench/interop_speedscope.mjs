// SPDX-License-Identifier: Apache-2.0
// How long speedscope takes to import each FILE: what it writes to its console. Part of bench/interop.sh.
import { statSync } from 'node:fs';
import { basename } from 'node:path';
import { launch } from '../tests/lib/launch.mjs';

const index = new URL('../tests/node_modules/speedscope/dist/release/index.html', import.meta.url).href;
const browser = await launch();
for (const path of process.argv.slice(2)) {
	const page = await browser.newPage(),
		name = basename(path)
			.replace(/^in\.|\.json$/g, '')
			.padEnd(13),
		done = new Promise((resolve) => {
			const listen = (message) => {
				const took = message.text().match(/^import: ([\d.]+) ?(ms|s)/);
				if (took) resolve(Number(took[1]) * (took[2] === 's' ? 1000 : 1));
			};
			page.on('console', listen);
		});
	try {
		await page.goto(index);
		await page.setInputFiles('input[type=file]', path);
		const ms = await Promise.race([done, new Promise((_, reject) => setTimeout(() => reject(new Error('no answer within 120 s')), 120000).unref())]);
		console.log(`  ${name} speedscope ${(statSync(path).size / 1e3 / ms).toFixed(1).padStart(31)} MB/s   ${(ms / 1e3).toFixed(2)} s`);
	} catch (error) {
		console.log(`  ${name} speedscope: ${error.message.split('\n')[0]}`);
	}
	await page.close().catch(() => {});
}
await browser.close();
process.exit(0);
