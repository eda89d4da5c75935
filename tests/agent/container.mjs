// SPDX-License-Identifier: Apache-2.0
// container.mjs FILE PID THREADS: `marks workers` of tests/programs in a container. Lines of THREADS are the host's and the container's
// number of a thread; each tick carries the latter. Prints what is wrong.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';

const [, , path, pid, list] = process.argv;
const inner = new Map(
	readFileSync(list, 'utf8')
		.trim()
		.split('\n')
		.map((line) => line.split(' ').map(Number)),
);
const profile = JSON.parse(readFileSync(path));
const strings = profile.shared?.stringArray,
	seen = new Set(),
	names = new Set();
let samples = 0,
	jobs = 0;
for (const thread of profile.threads) {
	const texts = strings ?? thread.stringArray,
		{ data, name } = thread.markers;
	assert.equal(String(thread.pid), pid, `${thread.name} is of process ${thread.pid}`);
	assert.ok(inner.has(thread.tid), `the host knows no thread ${thread.tid} of it`);
	assert.ok(!seen.has(thread.tid), 'one track a thread');
	assert.equal(thread.processName, 'marks');
	seen.add(thread.tid);
	names.add(thread.name);
	samples += thread.samples.length;
	const of = (wanted) => data.filter((_, i) => texts[name[i]] === wanted);
	assert.ok(of('inner').length > 10 && of('tick').length > 10, `${thread.name} has ${data.length} markers`);
	for (const tick of of('tick')) assert.equal(tick.number, inner.get(thread.tid), `a marker of another thread is on ${thread.tid}`);
	jobs += of('job').length;
}
assert.equal(seen.size, inner.size);
for (let i = 0; i < inner.size; i++) assert.ok(names.has(`worker number ${i} of this program`), [...names].join(', '));
assert.equal(jobs, 1, 'the span that began before anybody recorded');
assert.ok(samples > 50, `${samples} samples`);
const functions = (profile.shared?.funcTable ?? profile.threads[0].funcTable).name.map((name) => (strings ?? profile.threads[0].stringArray)[name]);
assert.ok(functions.includes('work') && functions.includes('work_on'), functions.join(', '));
