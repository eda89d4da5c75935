// SPDX-License-Identifier: Apache-2.0
// speedscope's own importer, in a browser, on files that we write and on inputs that both read: what it exports again must have
// the stacks and weights that we see.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { copyFileSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { launch } from '../lib/launch.mjs';
import { temporaryDirectory, test, skip, finish, testData } from '../harness.mjs';
import { convert, difference, readCpuprofile, readFolded, readOtlp, readSpeedscope, rows } from './readers.mjs';

const directory = temporaryDirectory(),
	at = (name) => join(directory, name);
const browser = await launch();
const page = await browser.newPage({ acceptDownloads: true });
const index = new URL('../node_modules/speedscope/dist/release/index.html', import.meta.url).href;
const corpus = new URL('../../fuzz/corpus/', import.meta.url).pathname;
let number = 0;

// The file as speedscope saves it after it has imported it.
async function imported(path) {
	await page.goto('about:blank');
	await page.goto(index);
	await page.setInputFiles('input[type=file]', path);
	await page.waitForFunction(() => document.querySelector('canvas') && !document.body.innerText.includes('Drag and drop'));
	const [download] = await Promise.all([page.waitForEvent('download'), page.keyboard.press('Control+s')]);
	const made = at(`imported.${number++}.json`);
	copyFileSync(await download.path(), made);
	return made;
}
// Ours, as folded stacks of a value, by an independent reader.
function ours(path, type) {
	const made = at(`ours.${number++}.folded`),
		{ status, messages } = convert(path, made, '--sample-type', type, '-q');
	assert.equal(status, 0, messages);
	return readFolded(made);
}
// Its names have the file and line of functions without a name, and the arguments of events.
const plain = (name) => name.replace(/^\(anonymous [^)]*\)$/, '(anonymous)').replace(/ \{.*\}$/, '');
// speedscope leaves suffixes in the names; one type, whatever its name.
const compare = (mine, theirs) => difference(rows(mine, { holds: new Set(), types: [0] }), rows(theirs, { holds: new Set(), types: [0], rename: plain }));

// ---- inputs that both read ----

writeFileSync(at('names.folded'), 'main;work (a.py:3);<lambda> 12\nmain;work (a.py:3) 3\nmain 1\nthread 7;idle 40\n');
await test('folded stacks', async () => assert.equal(compare(ours(at('names.folded'), 'samples'), readSpeedscope(await imported(at('names.folded')))), ''));

writeFileSync(
	at('burn.js'),
	`function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
function outer() { let s = 0; for (let i = 0; i < 20; i++) s += fib(22); return s; }
for (let i = 0; i < 10; i++) outer();
`,
);
execFileSync('node', ['--cpu-prof', '--cpu-prof-dir', at('cpu'), at('burn.js')]);
const cpuprofile = join(at('cpu'), readdirSync(at('cpu'))[0]),
	parsed = JSON.parse(readFileSync(cpuprofile));
// speedscope puts what the collector does onto the stack before it, and ends with the last sample, which here lasts on.
const ending = { ...parsed, endTime: parsed.timeDeltas.reduce((sum, delta) => sum + delta, parsed.startTime) };
const inJavaScript = ({ types, samples }, column = 0) => {
	const found = new Map();
	for (const { frames, values } of samples) {
		const leaf = plain(frames.at(-1)?.name ?? '');
		if (!/^\((program|idle|garbage collector)\)$/.test(leaf) && values[column]) found.set(leaf, [(found.get(leaf)?.[0] ?? 0n) + values[column]]);
	}
	return found;
};
await test("a CPU profile of node's", async () => {
	writeFileSync(at('ending.cpuprofile'), JSON.stringify(ending));
	const mine = ours(at('ending.cpuprofile'), 'wall'),
		theirs = readSpeedscope(await imported(at('ending.cpuprofile')));
	assert.equal(difference(inJavaScript(mine), inJavaScript(theirs)), '');
	assert.ok(inJavaScript(mine).get('fib')[0] > 0n);
});
await test('the same in parts of a trace', async () => {
	const parents = new Map(parsed.nodes.flatMap(({ id, children = [] }) => children.map((child) => [child, id])));
	const event = (name, data) => ({
		ph: 'P',
		name,
		pid: 7,
		tid: 8,
		ts: parsed.startTime,
		id: '0x1',
		cat: 'disabled-by-default-v8.cpu_profiler',
		args: { data },
	});
	const half = parsed.samples.length >> 1,
		nodes = parsed.nodes.map(({ id, callFrame }) => ({ id, callFrame, ...(parents.has(id) ? { parent: parents.get(id) } : {}) }));
	const chunk = (nodes, from, to) =>
		event('ProfileChunk', { cpuProfile: { nodes, samples: parsed.samples.slice(from, to) }, timeDeltas: parsed.timeDeltas.slice(from, to) });
	writeFileSync(
		at('parts.trace.json'),
		JSON.stringify({
			traceEvents: [
				{ ph: 'M', cat: '__metadata', name: 'thread_name', pid: 7, tid: 8, ts: 0, args: { name: 'CrRendererMain' } },
				event('Profile', { startTime: parsed.startTime }),
				chunk(nodes, 0, half),
				chunk([], half),
			],
		}),
	);
	const mine = ours(at('parts.trace.json'), 'wall');
	assert.equal(compare(mine, ours(at('ending.cpuprofile'), 'wall')), '');
	assert.equal(difference(inJavaScript(mine), inJavaScript(readSpeedscope(await imported(at('parts.trace.json'))))), '');
});
await test("a trace of node's", async () => {
	execFileSync('node', ['--trace-event-categories', 'v8,node,node.fs.sync', '--trace-event-file-pattern', at('node.trace.json'), at('burn.js')]);
	const mine = ours(at('node.trace.json'), 'time');
	assert.ok(mine.samples.length > 3);
	assert.equal(compare(mine, readSpeedscope(await imported(at('node.trace.json')))), '');
});
await test('events of several threads', async () => {
	const event = (ph, name, tid, ts, dur) => ({ ph, name, pid: 1, tid, ts, ...(dur === undefined ? {} : { dur }) });
	writeFileSync(
		at('events.json'),
		JSON.stringify([
			event('B', 'a', 1, 0),
			event('X', 'b', 1, 10, 30),
			event('X', 'c', 1, 12, 5),
			event('E', 'a', 1, 100),
			event('X', 'late', 2, 50, 20),
			event('X', 'early', 2, 5, 40),
			event('X', 'in', 2, 5, 10),
		]),
	);
	assert.equal(compare(ours(at('events.json'), 'time'), readSpeedscope(await imported(at('events.json')))), '');
});

// ---- files that we write ----

const written = [
	['chrome_trace/chrome', corpus + 'chrome_trace/chrome'],
	['perf_script/inlined', corpus + 'perf_script/inlined'],
	['dhat/valgrind', corpus + 'dhat/valgrind'],
];
for (const name of ['pprof/google-driver/cppbench.cpu_no_samples_type', 'otlp/profile.otlp'])
	if (existsSync(join(testData, name))) written.push([name, join(testData, name)]);
if (written.length === 3) skip('speedscope files of the test data', `there is none in ${testData}`);
for (const [name, path] of written)
	await test(`${name}, written for speedscope`, async () => {
		const made = at(`written.${number++}.speedscope.json`),
			{ status, messages } = convert(path, made, '-q');
		assert.equal(status, 0, messages);
		const mine = readSpeedscope(made),
			theirs = readSpeedscope(await imported(made)),
			types = (list) => [...list].sort();
		assert.deepEqual(types(theirs.types), types(mine.types));
		const order = mine.types.map((type) => theirs.types.indexOf(type));
		assert.equal(difference(rows(mine, { holds: new Set(['files', 'lines']) }), rows(theirs, { holds: new Set(['files', 'lines']), types: order })), '');
	});

// ---- callgrind: its importer drops small costs; what is exact are a function's own ----

await test("own costs of functions in callgrind's files", () => {
	const path = corpus + 'callgrind/valgrind',
		names = new Map(),
		own = new Map();
	let name,
		called = false;
	for (const line of readFileSync(path, 'utf8').split('\n')) {
		const [, kind, id, text] = line.match(/^(c?fn)=\((\d+)\) ?(.*)$/) ?? [];
		if (kind && text) names.set(id, text);
		if (kind === 'fn') name = names.get(id);
		else if (line.startsWith('calls=')) called = true;
		else if (/^[0-9+*-]/.test(line)) {
			if (!called) own.set(name, [(own.get(name)?.[0] ?? 0n) + BigInt(line.split(' ')[1])]);
			called = false;
		}
	}
	const found = new Map();
	for (const { frames, values } of ours(path, 'Ir').samples) found.set(frames.at(-1).name, [(found.get(frames.at(-1).name)?.[0] ?? 0n) + values[0]]);
	for (const [key, [value]] of own) if (value === 0n) own.delete(key);
	assert.equal(difference(own, found), '');
	assert.ok(own.size > 3);
});
await browser.close();
finish();
