// SPDX-License-Identifier: Apache-2.0
// markers.mjs FILE WHAT [N]: the markers of a recording, as the command line of Firefox Profiler sees them. Prints what is wrong.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { ask, threadList, withProfile } from '../profiler.mjs';

const [, , path, what, number] = process.argv;
const types = async (thread) => (await ask('thread', 'markers', { thread: thread.threadHandle })).byType;
// How many markers of each name there are, in all threads.
async function counts() {
	const sums = {};
	for (const thread of await threadList())
		if (thread.markerCount) for (const type of await types(thread)) sums[type.markerName] = (sums[type.markerName] ?? 0) + type.count;
	return sums;
}
await withProfile(path, async () => {
	if (what === 'count') {
		const [name, count] = number.split('='),
			sums = await counts();
		assert.equal(sums[name] ?? 0, Number(count), JSON.stringify(sums));
		return;
	}
	if (what === 'since') {
		const [at, samples] = number.split('=').map(Number);
		const { meta, threads, counters, shared } = JSON.parse(readFileSync(path));
		const since = at * 1000 - meta.startTime;
		const all = threads.flatMap(({ markers }) => markers.name.map((name, i) => ({ name: shared.stringArray[name], start: markers.startTime[i] })));
		assert.equal(all.filter(({ name }) => name === 'job').length, 1);
		for (const { name, start } of all) assert.ok(start >= since, `${name} at ${start} is before ${since}`);
		for (const {
			name,
			samples: { time },
		} of counters)
			assert.ok(time.length > 0 && time.every((t) => t >= since), `${name}: ${time[0]} is before ${since}`);
		assert.equal(
			threads.reduce((sum, thread) => sum + thread.samples.length, 0),
			samples,
		);
		return;
	}
	if (what === 'some') {
		const sums = await counts();
		assert.ok((sums[number] ?? 0) > 0, JSON.stringify(sums));
		return;
	}
	// Those of tests/programs/markers.c, one of each.
	assert.deepEqual(await counts(), { 'named step': 1, inner: 1, tick: 2, request: 1, job: 1 });
	const all = await threadList();
	const main = all.find((thread) => String(thread.tid) === thread.pid);
	assert.ok(
		all.some((thread) => thread.name === 'a thread with a name of more than fifteen bytes'),
		JSON.stringify(all),
	);
	const ofMain = await types(main),
		of = (name) => ofMain.find((type) => type.markerName === name);
	assert.equal(of('named step').topMarkers[0].label, 'Rows: -5, peer: nëighbour, Share: 25%, took: 1,500,000ns, size: 4,096B, ratio: 1.5');
	assert.ok(of('inner').durationStats.max <= of('named step').durationStats.max);
	assert.ok(of('request').isInterval && of('job').isInterval);
	const [counter] = (await ask('counter', 'list')).counters.filter((counter) => counter.name === 'queued');
	assert.equal(counter.graphType, 'line-accumulated');
	assert.equal(counter.stats[0].value, 81);
	assert.equal(counter.rangeSampleCount, 10);
});
