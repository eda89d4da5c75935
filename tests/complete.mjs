// SPDX-License-Identifier: Apache-2.0
// complete.mjs FORMAT FILE [--strict] [--comm REGEX] [--show N]: how many stacks reach their true root, told from a profiler's own output by the names of the outermost frames, in the same way for each profiler.
// FORMAT is folded (wick query or convert), perf (perf script -F comm,pid,ip,sym,dso) or bpftrace (counts by comm, pid, ustack, kstack).
// Prints "SAMPLES COMPLETE PERCENT"; samples of the folded format are in the unit of its values. Samples that have no user frames are left out, but for bpftrace: there they are mostly user stacks that it could not find again.
// A root is _start, or clone of a thread, or an outermost frame without a name whose callee is __libc_start_main; unless --strict is given, also the frame of libc next to it, which is as far as a walk by frame pointers can come.
import { readFileSync } from 'node:fs';

const [format, file, ...options] = process.argv.slice(2);
const option = (name) => (options.includes(name) ? options[options.indexOf(name) + 1] : undefined);
const strict = options.includes('--strict'),
	comm = option('--comm') && new RegExp(option('--comm')),
	show = Number(option('--show') || 0);
const roots = /^(_start|_*clone3?)$/,
	nearly = /^(__libc_start_call_main|__libc_start_main.*|start_thread)$/;
const nameless = /^\[unknown\]$|^0x[0-9a-f]+$|\+0x[0-9a-f]+$/;
let samples = 0,
	complete = 0;
const misses = new Map();

// The user frames, outermost first, without offsets.
function count(frames, weight) {
	samples += weight;
	const [outer = 'nothing', inner = ''] = frames;
	if (roots.test(outer) || (nameless.test(outer) && /^__libc_start_main/.test(inner)) || (!strict && nearly.test(outer))) complete += weight;
	else misses.set(frames.slice(0, 4).join(';'), (misses.get(frames.slice(0, 4).join(';')) || 0) + weight);
}
const parsers = {
	folded(text) {
		for (const line of text.split('\n')) {
			const at = line.lastIndexOf(' ');
			const frames = line
				.slice(0, at)
				.split(';')
				.filter((f) => f && !f.endsWith('_[k]'));
			if (at > 0 && frames.length) count(frames, Number(line.slice(at + 1)));
		}
	},
	perf(text) {
		for (const block of text.split('\n\n')) {
			const lines = block.split('\n').filter((l) => l && !l.startsWith('#'));
			const head = lines.find((l) => !/^\s+[0-9a-f]+ /.test(l)) || '';
			if (comm && !comm.test(head.trim())) continue;
			const frames = lines.map((l) => /^\s+([0-9a-f]+) (.*?)(?:\+0x[0-9a-f]+)? \((.*)\)$/.exec(l)).filter((m) => m && !/^ffff/.test(m[1].padStart(16, '0')));
			if (frames.length) count(frames.map((m) => m[2]).reverse(), 1);
		}
	},
	bpftrace(text) {
		for (const m of text.matchAll(/@\[([^,\n]*), (\d+), ([^\0]*?)\]: (\d+)\n/g)) {
			if (comm && !comm.test(m[1])) continue;
			// The user stack ends where a line begins with the comma before the kernel's.
			const frames = m[3].startsWith(',')
				? []
				: m[3]
						.split('\n,')[0]
						.split('\n')
						.filter((l) => l.trim())
						.map((l) => l.trim().replace(/\+\d+$/, ''));
			count(frames.reverse(), Number(m[4]));
		}
	},
};
parsers[format](readFileSync(file, 'utf8'));
console.log(samples, complete, samples ? ((100 * complete) / samples).toFixed(2) : '0.00');
for (const [root, n] of [...misses].sort((a, b) => b[1] - a[1]).slice(0, show)) console.log(`  ${n} ${root}`);
