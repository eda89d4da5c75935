// SPDX-License-Identifier: Apache-2.0
// lifetimes.mjs FILE WHAT [PID NAME END]: processes and machine of a recording of lifetimes.test.sh. Prints what is wrong.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { cpus, release } from 'node:os';
import { threadList, withProfile } from '../profiler.mjs';

const [, , path, what, pid, name, end] = process.argv;
const { meta, threads, counters } = JSON.parse(readFileSync(path));
const mains = threads.filter((thread) => thread.isMainThread);
const sampled = (thread) => thread.samples.length > 0;
const checks = {
	programs() {
		// The command by its pid, in the order of its programs.
		const first = mains.find((thread) => thread.pid.indexOf('.') < 0 && mains.some((other) => other.pid === `${thread.pid}.2`));
		assert.ok(first, JSON.stringify(mains.map((thread) => thread.pid)));
		const programs = [first, ...[1, 2].map((n) => mains.find((thread) => thread.pid === `${first.pid}.${n}`))];
		assert.ok(!mains.some((thread) => thread.pid === `${first.pid}.3`));
		programs.forEach((program, i) => {
			assert.equal(program.unregisterTime, program.processShutdownTime);
			assert.equal(program.registerTime, program.processStartupTime);
			assert.ok(program.unregisterTime > program.registerTime, `${i}: ${program.registerTime} to ${program.unregisterTime}`);
			if (i) assert.equal(program.registerTime, programs[i - 1].unregisterTime);
			for (const time of program.samples.time) assert.ok(time >= program.registerTime && time <= program.unregisterTime);
		});
		assert.ok(sampled(programs[0]) && sampled(programs[2]));
		// Neither of the bytes of its name is lost by itself.
		assert.match(programs[2].processName, /^a "b"\\ \ufffd\u0001$/);
		assert.doesNotMatch(programs[0].processName, /a "b"/);
		for (const { pid, samples } of counters.filter((counter) => counter.name === 'processCPU')) {
			const program = programs.find((program) => program.pid === pid);
			if (program) for (const time of samples.time) assert.ok(time >= program.registerTime, `${pid}: counted at ${time}`);
		}
		// The child slept behind its samples, said when it was about to end, and was waited for.
		const others = mains.filter((thread) => !programs.includes(thread) && thread.pid.split('.')[0] !== pid);
		const [child] = others.sort((a, b) => b.samples.length - a.samples.length);
		assert.ok(sampled(child));
		assert.ok(child.unregisterTime >= Number(end) * 1000 - meta.startTime && child.unregisterTime <= programs[1].registerTime, `${child.unregisterTime}`);
		for (const thread of threads) assert.ok(thread.unregisterTime === null || !sampled(thread) || thread.unregisterTime >= thread.samples.time.at(-1));
		const behind = mains.filter((thread) => thread.pid.split('.')[0] === pid && thread.processName === name);
		assert.equal(behind.length, 1);
		assert.equal(behind[0].unregisterTime, null);
		assert.equal(behind[0].processShutdownTime, null);
		assert.ok(behind[0].registerTime > 0);
	},
	machine() {
		assert.equal(meta.product, 'sh');
		assert.match(meta.oscpu, new RegExp(`^Linux ${release().replaceAll('.', '\\.')} `));
		assert.equal(meta.platform, 'Linux');
		assert.equal(meta.logicalCPUs, cpus().length);
		assert.ok(meta.physicalCPUs === undefined || (meta.physicalCPUs > 0 && meta.physicalCPUs <= 2 * meta.logicalCPUs));
		if (cpus()[0].model && cpus()[0].model !== 'unknown') assert.equal(meta.CPUName, cpus()[0].model.trim());
		assert.match(meta.arguments, /^sh \S+\/command '\S*a "b"\\ \ufffd\u0001' \ufffd+/);
		assert.ok(meta.arguments.length > 100000 && meta.arguments.length <= 128 * 1024, `${meta.arguments.length}`);
	},
	there() {
		const [thread] = mains.filter((thread) => thread.pid === pid);
		assert.equal(thread.registerTime, 0);
		assert.equal(thread.unregisterTime, null);
		assert.equal(meta.product, 'deep');
		assert.match(meta.arguments, /\/deep 3600$/);
	},
};
checks[what]();
// A viewer opens it and has as many processes.
await withProfile(path, async () => {
	const seen = new Set((await threadList()).map((thread) => thread.pid));
	assert.deepEqual([...seen].sort(), [...new Set(threads.map((thread) => thread.pid))].sort());
});
