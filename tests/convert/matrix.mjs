// SPDX-License-Identifier: Apache-2.0
// Every input through every output, and back where there is a way back. What comes back must be what went in, except for what
// `wick convert` said that the format has no place for. Formats are those that its help lists: new ones join by themselves.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { temporaryDirectory, test, skip, finish, testData } from '../harness.mjs';
import { convert, difference, listed, readCpuprofile, readFolded, readOtlp, readPerfScript, readPprof, readSpeedscope, rows, total } from './readers.mjs';

// Without arguments all inputs; with one, those whose names match it.
const wanted = new RegExp(process.argv[2] ?? '');
const directory = temporaryDirectory(),
	at = (name) => join(directory, name);
const inputs = []; // { path, read: its independent reader, if there is one, holds: what that tells }
const has = (program) => spawnSync('sh', ['-c', `command -v ${program}`]).status === 0;
const run = (program, args, options = {}) =>
	execFileSync(program, args, { stdio: ['ignore', 'pipe', 'ignore'], cwd: directory, maxBuffer: 1 << 30, ...options });

// ---- inputs: test data ----

const isLegacy = (path) => !/^\x1f\x8b/.test(readFileSync(path).subarray(0, 2).toString('latin1'));
// In a plain run one of each kind; in the full run all.
function addPprof() {
	const kinds = new Set(),
		isNew = (kind) => process.env.WICK_TEST_FULL || wanted.source !== '(?:)' || (!kinds.has(kind) && kinds.add(kind));
	for (const folder of ['google-profile', 'google-driver'])
		for (const name of readdirSync(join(testData, 'pprof', folder))) {
			const path = join(testData, 'pprof', folder, name);
			if (!/\.(cpu|heap|growth|contention|thread|thread\.all|crash|cpu_no_samples_type)$/.test(name) || statSync(path).size > 2 << 20) continue;
			if (!isNew(`${folder} ${name.replace(/^[^.]*\./, '')}`)) continue;
			if (!isLegacy(path)) inputs.push({ path, read: readPprof, holds: ['files', 'lines', 'labels'] });
			else if (has('go')) {
				// Formats of before 2015: Google's tool turns them into today's.
				const made = at(`${folder}.${name}.pb.gz`);
				if (
					spawnSync('go', ['tool', 'pprof', '-proto', '-output', made, path], { env: { ...process.env, PPROF_BINARY_PATH: '/nonexistent' } }).status === 0 &&
					existsSync(made)
				)
					inputs.push({ path: made, read: readPprof, holds: ['files', 'lines', 'labels'] });
			}
		}
}
if (existsSync(testData)) {
	addPprof();
	for (const name of readdirSync(join(testData, 'otlp')).filter((name) => name.endsWith('.otlp'))) inputs.push({ path: join(testData, 'otlp', name) });
	for (const name of readdirSync(join(testData, 'speedscope')).filter((name) => !name.includes('invalid')))
		inputs.push({ path: join(testData, 'speedscope', name), read: readSpeedscope, holds: ['files', 'lines'], sums: true });
} else skip('the test data', `there is none in ${testData}`);

// ---- inputs: what programs write here ----

writeFileSync(
	at('burn.js'),
	`function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
function outer() { let s = 0; for (let i = 0; i < 20; i++) s += fib(22); return s; }
for (let i = 0; i < 10; i++) outer();
`,
);
run('node', ['--cpu-prof', '--cpu-prof-dir', at('cpu'), at('burn.js')]);
inputs.push({ path: join(at('cpu'), readdirSync(at('cpu'))[0]), read: readCpuprofile, holds: ['files', 'lines', 'times'] });
run('node', ['--trace-event-categories', 'v8,node,node.fs.sync', '--trace-event-file-pattern', at('node.trace.json'), at('burn.js')]);
inputs.push({ path: at('node.trace.json') });

writeFileSync(
	at('burn.c'),
	`#include <pthread.h>
#include <sys/prctl.h>
volatile unsigned long sink;
static inline __attribute__((always_inline)) void inner(int n) { for (int i = 0; i < n; i++) sink += i; }
__attribute__((noinline)) void leaf(int n) { inner(n); sink++; }
__attribute__((noinline)) void middle(int n) { leaf(n); sink++; }
static void *work(void *p) { prctl(PR_SET_NAME, "work er 1"); for (int i = 0; i < 300; i++) middle(200000); return p; }
int main(void) { pthread_t t; pthread_create(&t, 0, work, 0); for (int i = 0; i < 300; i++) middle(200000); pthread_join(t, 0); return 0; }
`,
);
function addPerf() {
	if (!has('perf') || !has('gcc')) return 'perf or gcc is not installed';
	run('gcc', ['-O1', '-g', '-fno-omit-frame-pointer', '-o', at('burn'), at('burn.c'), '-lpthread']);
	for (const [name, options] of [
		['frames', ['-g', '-e', 'cpu-clock']],
		['dwarf', ['--call-graph', 'dwarf,4096', '-e', 'cpu-clock']],
		['events', ['-g', '-e', 'cpu-clock,page-faults']],
		['flat', ['-e', 'task-clock']],
		['machine', ['-a', '-g', '-e', 'cpu-clock']],
	]) {
		const { status, stderr } = spawnSync('perf', ['record', '-q', '-F', '199', ...options, '-o', at(`${name}.data`), at('burn')], { cwd: directory });
		if (status !== 0) return `perf cannot record here: ${String(stderr).trim().split('\n')[0]}`;
		const script = spawnSync('perf', ['script', '-i', at(`${name}.data`)], { maxBuffer: 1 << 30 });
		if (script.status !== 0) return `perf script fails: ${String(script.stderr).trim().split('\n')[0]}`;
		writeFileSync(at(`${name}.perf.txt`), script.stdout);
		inputs.push({ path: at(`${name}.perf.txt`), read: name === 'flat' ? undefined : readPerfScript, holds: ['labels', 'times'] });
		if (listed('--from').includes('perf.data')) inputs.push({ path: at(`${name}.data`) });
	}
}
const noPerf = addPerf();
if (noPerf) skip('perf script', noPerf);

writeFileSync(
	at('Burn.java'),
	`public class Burn {
	static volatile long sink;
	static long fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
	public static void main(String[] args) throws Exception {
		Thread other = new Thread(() -> { for (int i = 0; i < 20; i++) sink += fib(30); }, "other");
		other.start();
		for (int i = 0; i < 20; i++) sink += fib(30);
		other.join();
	}
}
`,
);
if (
	has('java') &&
	spawnSync('java', [`-XX:StartFlightRecording=filename=${at('burn.jfr')},settings=profile`, at('Burn.java')], { cwd: directory }).status === 0
)
	inputs.push({ path: at('burn.jfr') });
else skip('JFR', 'java cannot record here');

writeFileSync(
	at('burn.go'),
	`package main

import (
	"context"
	"os"
	"runtime"
	"runtime/pprof"
)

var keep [][]byte

func fib(n int) int {
	if n < 2 {
		return n
	}
	return fib(n-1) + fib(n-2)
}

func main() {
	runtime.MemProfileRate = 512
	cpu, _ := os.Create("go.cpu.pb.gz")
	pprof.StartCPUProfile(cpu)
	for i := 0; i < 100; i++ {
		pprof.Do(context.Background(), pprof.Labels("round", string(rune('a'+i%3))), func(context.Context) { fib(27) })
		keep = append(keep, make([]byte, 1000+i))
	}
	pprof.StopCPUProfile()
	cpu.Close()
	heap, _ := os.Create("go.heap.pb.gz")
	pprof.Lookup("allocs").WriteTo(heap, 0)
	heap.Close()
}
`,
);
if (has('go')) {
	run('go', ['run', at('burn.go')], {
		env: { ...process.env, GO111MODULE: 'off', GOFLAGS: '', CGO_ENABLED: '0', GOCACHE: process.env.GOCACHE ?? at('gocache') },
	});
	for (const name of ['go.cpu.pb.gz', 'go.heap.pb.gz']) inputs.push({ path: at(name), read: readPprof, holds: ['files', 'lines', 'labels'] });
	writeFileSync(at('go.callgrind'), run('go', ['tool', 'pprof', '-callgrind', at('go.cpu.pb.gz')]));
	inputs.push({ path: at('go.callgrind') });
} else skip("Go's profiles", 'go is not installed');

// The idle tasks of Linux are process 0, thread 0, which not every machine's clock samples.
writeFileSync(
	at('idle.perf.txt'),
	[
		['swapper     0/0     [000]', '1.000001'],
		['swapper     0/0     [001]', '1.000002'],
		['burn    17/18    [001]', '1.000003'],
	]
		.map(
			([head, time]) =>
				`${head} ${time}:   10050250 cpu-clock:ppp: \n\tffffffff81000010 do_idle+0x10 ([kernel.kallsyms])\n\tffffffff82000020 start_kernel+0x20 ([kernel.kallsyms])\n\n`,
		)
		.join(''),
);
// A sample of a thread from before the name of its program was known.
const own = (labels) => ({
	type: 'sampled',
	name: 'cpu',
	unit: 'none',
	startValue: 0,
	endValue: 7,
	samples: [[0]],
	weights: [7],
	wick: { type: 'cpu', unit: 'count', 'process.pid': 4379, 'thread.id': 4379, 'thread.name': 'true', ...labels },
});
writeFileSync(
	at('exec.speedscope.json'),
	JSON.stringify({
		$schema: 'https://www.speedscope.app/file-format-schema.json',
		shared: { frames: [{ name: 'do_execveat_common' }] },
		profiles: [own({}), own({ 'process.executable.name': 'true' }), own({ 'thread.id': 4380 })],
	}),
);
inputs.push({ path: at('exec.speedscope.json') });
writeFileSync(at('idle-threads.perf.txt'), readFileSync(at('idle.perf.txt'), 'utf8').replaceAll('0/0', '0').replace('17/18', '18'));
// What else a recording of a whole machine may hold, depending on who is at work there: tasks that had ended, whose ids and name perf
// does not know; C++; files that are gone; code made at run time.
writeFileSync(
	at('machine-odd.perf.txt'),
	[
		[':-1    -1/-1    [002]', '\tffffffff81000010 do_exit+0x10 ([kernel.kallsyms])\n'],
		[
			' server (1) 12  4711/4712  [011]',
			'\t    55d0c0de1a10 std::function<void (int)>::operator()(int) const+0x10 (/opt/server (2)/bin)\n\t    55d0c0de1b20 (anonymous namespace)::run()+0x20 (/opt/server (2)/bin)\n',
		],
		['kworker/3:1-events  37/37    [003]', '\tffffffffc0a01230 worker+0x30 ([nf_tables])\n\tffffffff81000020 kthread+0x20 ([kernel.kallsyms])\n'],
		[
			'node    19/18    [000]',
			'\t    7f0000001234 [unknown] (/memfd:doublemapper (deleted))\n\t    7f0000005678 JS:*loop /app.js:3:9+0x8 (/tmp/perf-19.map)\n\t               0 [unknown] ([unknown])\n',
		],
	]
		.map(([head, frames], i) => `${head} 1.00000${i}:   10050250 cpu-clock:ppp: \n${frames}\n`)
		.join(''),
);
for (const name of ['idle.perf.txt', 'idle-threads.perf.txt', 'machine-odd.perf.txt'])
	inputs.push({ path: at(name), read: readPerfScript, holds: ['labels', 'times'] });

// As py-spy and others write it; and two to compare.
writeFileSync(
	at('py-spy.folded'),
	'<module> (app.py:9);main (app.py:7);work (lib/work.py:3) 12\n<module> (app.py:9);main (app.py:8) 3\n<module> (app.py:9);main (app.py:7);sys_read_[k];inlined_[i] 5\nthread 17;idle 1\n',
);
inputs.push({ path: at('py-spy.folded'), read: readFolded, holds: [] });
writeFileSync(at('diff.folded'), 'main;a 10 20\nmain;b 3 0\nmain;a;c 0 7\n');
inputs.push({ path: at('diff.folded'), read: readFolded, holds: [] });
const corpus = new URL('../../fuzz/corpus/', import.meta.url).pathname;
for (const name of ['dhat/valgrind', 'callgrind/valgrind', 'chrome_trace/chrome']) inputs.push({ path: join(corpus, name) });

// ---- what convert says that it cannot keep ----

function kept(messages) {
	const line = messages.split('\n').find((text) => text.includes(' cannot store ')) ?? '';
	const holds = new Set(['files', 'lines', 'labels', 'times', 'links']);
	if (/the times of/.test(line)) holds.delete('times');
	if (/the source files of/.test(line)) holds.delete('files');
	if (/the lines of/.test(line)) holds.delete('lines');
	if (/trace and span ids/.test(line)) holds.delete('links');
	const labels = line.match(/the labels (.*)$/)?.[1] ?? '';
	const lost = new Set(labels.split(';')[0].split(', '));
	if (/ and \d+ more/.test(labels)) holds.delete('labels');
	if (/the other names of/.test(line)) lost.add('thread.name');
	if (/the other process names of/.test(line)) lost.add('process.executable.name');
	return { holds, without: (key) => lost.has(key), oneType: /of the values of each sample/.test(line), noType: /what is counted \(/.test(line) };
}

let number = 0;
// A file as wick has it.
function content(path, ...options) {
	const made = at(`content.${number++}.otlp`),
		{ status, messages } = convert(path, made, '--to', 'otlp', ...options);
	assert.equal(status, 0, `${path}: ${messages}`);
	return readOtlp(made);
}
const printable = (name) => name.replace(/;/g, ':').replace(/[\n\r\0]/g, ' ');

// Formats that show threads have one name for the process of each: samples from before it was known (between an exec and the program's mapping) get it.
function withProcessNames(profile) {
	const key = 'process.executable.name',
		thread = ({ labels }) => `${labels['process.pid']}/${labels['thread.id']}`,
		names = new Map();
	for (const sample of profile.samples) if (key in sample.labels && !names.has(thread(sample))) names.set(thread(sample), sample.labels[key]);
	const named = (sample) =>
		key in sample.labels || !names.has(thread(sample)) ? sample : { ...sample, labels: { ...sample.labels, [key]: names.get(thread(sample)) } };
	return { ...profile, samples: profile.samples.map(named) };
}
// Through `format` and back.
function thereAndBack(path, format, before) {
	const made = at(`made.${number++}`);
	const each = (type) => {
		const option = type === undefined ? [] : ['--sample-type', before.types[type].split(' ')[0]];
		const { status, messages } = convert(path, made, '--to', format, ...option);
		assert.equal(status, 0, messages);
		if (!listed('--from').includes(format)) {
			assert.ok(statSync(made).size > 0);
			return undefined;
		}
		const said = kept(messages),
			after = content(made, '--from', format),
			options = { ...said, rename: printable };
		// A process must have a name there: one is made up where there is none.
		if (format === 'firefox' && before.samples.some(({ labels }) => !('process.executable.name' in labels)))
			options.without = (key) => key === 'process.executable.name' || said.without(key);
		const types = type === undefined ? before.types.map((_, i) => i) : [type];
		if (type === undefined && said.oneType)
			return before.types
				.map((_, i) => each(i))
				.filter(Boolean)
				.join('\n');
		if (type === undefined && said.noType) assert.equal(after.types.length, 1);
		else if (type === undefined) assert.deepEqual([...after.types].sort(), [...before.types].sort());
		const sent = ['speedscope', 'firefox'].includes(format) ? withProcessNames(before) : before;
		// A stack of no frames is one of a frame that nothing is known of where stacks are text.
		const fill = (profile) =>
			format === 'folded'
				? {
						...profile,
						samples: profile.samples.map((sample) => (sample.frames.length ? sample : { ...sample, frames: [{ name: '[unknown]', file: '', line: 0 }] })),
					}
				: profile;
		const order =
			type === undefined
				? before.types.map((name) => (said.noType ? 0 : after.types.indexOf(name)))
				: [after.types.includes(before.types[type]) ? after.types.indexOf(before.types[type]) : after.types.length - 1];
		types.forEach((one, i) => assert.equal(total(after, order[i]), total(before, one), `the total of ${before.types[one]}`));
		return difference(rows(fill(sent), { ...options, types }), rows(fill(after), { ...options, types: order }));
	};
	return each();
}

for (const { path, read, holds, sums } of inputs) {
	const name = path.startsWith(corpus) ? path.slice(corpus.length) : basename(path).replace(/^CPU.*cpuprofile$/, 'node.cpuprofile');
	if (!wanted.test(name)) continue;
	let before;
	await test(`${name} is read`, () => {
		before = content(path);
		if (!read) return assert.ok(before.samples.length > 0 || name === 'go.nomappings.crash');
		const expected = read(path),
			what = new Set(holds);
		/* Values of one unit are one sum where the reader has no names for them. */
		const join = (profile) =>
			sums
				? { types: ['sum'], samples: profile.samples.map((sample) => ({ ...sample, values: [sample.values.reduce((a, b) => a + (b ?? 0n), 0n)] })) }
				: profile;
		if (!sums) assert.deepEqual([...before.types].sort(), [...expected.types].sort());
		const order = sums ? [0] : expected.types.map((type) => before.types.indexOf(type));
		assert.equal(difference(rows(join(expected), { holds: what, types: order.map((_, i) => i) }), rows(join(before), { holds: what, types: order })), '');
	});
	if (!before) continue;
	for (const format of listed('--to')) await test(`${name} through ${format}`, () => assert.equal(thereAndBack(path, format, before) ?? '', ''));
}
finish();
