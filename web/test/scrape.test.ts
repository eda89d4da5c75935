// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findScrape } from '../src/query/scrape';

test('the profile before and after a time is found to the millisecond, in few requests', async () => {
	const times: number[] = [];
	for (let at = 1_700_000_000_123; at < 1_700_086_400_000; at += 15_000 + ((at * 7919) % 977)) times.push(at);
	let asked = 0;
	const ask = (from: number, to: number, step: number) => {
		asked++;
		const [start, end] = [Math.floor(from / step) * step, Math.ceil(to / step) * step];
		return Promise.resolve([...new Set(times.filter((at) => at >= start && at < end).map((at) => Math.floor(at / step) * step))]);
	};
	const [from, to] = [1_700_000_000_000, 1_700_086_400_000];
	assert.equal(await findScrape(ask, from, to, true), times[times.length - 1]);
	assert.equal(await findScrape(ask, from, to, false), times[0]);
	for (const i of [1, 700, 701, 2000, times.length - 2]) {
		assert.equal(await findScrape(ask, from, times[i], true), times[i - 1]);
		assert.equal(await findScrape(ask, times[i] + 1, to, false), times[i + 1]);
	}
	assert.ok(asked < 12 * 6, `${asked} requests`);
	assert.equal(await findScrape(ask, from, times[0], true), null);
	assert.equal(await findScrape(ask, to, from, true), null);
});
