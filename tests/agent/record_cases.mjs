// SPDX-License-Identifier: Apache-2.0
// What the Firefox profile of an awkward process holds: node record_cases.mjs FILE SCRIPT, where the script sees `d` (the profile),
// `threads` (those with samples), `frames(thread)`, `cpu(threads)` in ms, `stacks` (the share of samples whose stack holds a name).
import { readFileSync } from 'node:fs';

const d = JSON.parse(readFileSync(process.argv[2]));
const { stackTable, frameTable, funcTable, stringArray } = d.shared;
const names = (stack) => {
	const out = [];
	for (let s = stack; s !== null; s = stackTable.prefix[s]) out.push(stringArray[funcTable.name[frameTable.func[stackTable.frame[s]]]]);
	return out;
};
const threads = d.threads.filter((t) => t.samples.length);
const samples = threads.flatMap((t) => t.samples.stack.map(names));
const scope = {
	d,
	threads,
	frames: (t) => new Set(t.samples.stack.flatMap(names)),
	cpu: (of) => of.reduce((sum, t) => t.samples.weight.reduce((a, b) => a + b, sum), 0),
	stacks: (name) => samples.filter((s) => s.includes(name)).length / samples.length,
	counters: (name) => (d.counters ?? []).filter((c) => c.name === name),
};
const result = new Function(...Object.keys(scope), `return (${process.argv[3]})`)(...Object.values(scope));
if (result !== true) {
	console.log(result, `${threads.length} threads, ${samples.length} samples, ${scope.cpu(threads)} ms`);
	for (const t of threads.slice(0, 8)) console.log(t.processName, t.name, t.pid, t.tid, t.samples.length, [...scope.frames(t)].slice(0, 8).join(' '));
	process.exit(1);
}
