// SPDX-License-Identifier: Apache-2.0
// A data directory of each format version, kept, and what must be found in it.
//
//   golden.mjs make DIRECTORY       makes DIRECTORY/data with the program $WICK, and DIRECTORY/expected.json from what was sent
//   golden.mjs check DIRECTORY...   opens a copy of each DIRECTORY/data with it and compares
//
// The sums in expected.json are those of the writer's own bookkeeping, made while it sent; no program that stores profiles had a part in
// them. The directory holds two blocks, cut when the server was ended (one of them, or both, have been merged since, if the program does that), and
// a log that kill -9 left.
import { cpSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { bytesField, finish, intField, request, startServer, temporaryDirectory, test, varint } from '../../harness.mjs';

const START = 1793527200; // 2026-11-01T10:00:00Z
const SERVICES = ['shop', 'search', 'pay'];
const TYPES = [
	['samples', 'count'],
	['cpu', 'nanoseconds'],
];
const BUILD_ID = '6f2ae1c95f8a4c11a1f6f6e2a1b0c9d8e7f60514';

let state = 20261121;
function random(limit) {
	state = (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x9e3779b9) | 0;
	return ((state ^ (state >>> 13)) >>> 0) % limit;
}

// Frames, by location: a function, a function inlined into another, or an address that nobody can name. Leaf first, as in pprof.
function frames(location) {
	if (location % 7 === 5) return [`/opt/wick-golden/app+0x${(0x1000 + location * 16).toString(16)}`];
	if (location % 7 === 3) return [`inline${location}`, `function${location}`];
	return [`function${location}`];
}
function profile(samples, timeNs, thread) {
	const strings = [''],
		id = (text) => {
			const at = strings.indexOf(text);
			return at < 0 ? strings.push(text) - 1 : at;
		};
	const functions = new Map(),
		locations = new Set(samples.flatMap((sample) => sample.stack)),
		out = [];
	const functionId = (name) => {
		if (!functions.has(name)) functions.set(name, functions.size + 1);
		return functions.get(name);
	};
	for (const [type, unit] of TYPES) out.push(...bytesField(1, [...intField(1, id(type)), ...intField(2, id(unit))]));
	for (const { stack, count, size } of samples)
		out.push(
			...bytesField(2, [
				...bytesField(
					1,
					stack.flatMap((at) => varint(at + 1)),
				),
				...bytesField(2, [...varint(count), ...varint(count * 10000000)]),
				...bytesField(3, [...intField(1, id('thread')), ...intField(2, id(thread))]),
				...(size ? bytesField(3, [...intField(1, id('bytes')), ...intField(3, size)]) : []),
			]),
		);
	const mapping = [
		...intField(1, 1),
		...intField(2, 0x400000),
		...intField(3, 0x500000),
		...intField(5, id('/opt/wick-golden/app')),
		...intField(6, id(BUILD_ID)),
	];
	out.push(...bytesField(3, mapping));
	for (const at of locations) {
		const named = !frames(at)[0].includes('+0x');
		const lines = named ? frames(at).flatMap((name, i) => bytesField(4, [...intField(1, functionId(name)), ...intField(2, 10 * at + i + 1)])) : [];
		out.push(...bytesField(4, [...intField(1, at + 1), ...intField(2, 1), ...intField(3, 0x400000 + 0x1000 + at * 16), ...lines]));
	}
	for (const [name, n] of functions) out.push(...bytesField(5, [...intField(1, n), ...intField(2, id(name)), ...intField(4, id(`src/${name}.c`))]));
	const period = [...intField(1, id('cpu')), ...intField(2, id('nanoseconds'))];
	for (const text of strings) out.push(...bytesField(6, text));
	out.push(...intField(9, timeNs), ...intField(10, 10000000000n), ...bytesField(11, period), ...intField(12, 10000000));
	return Buffer.from(out);
}

// One upload: 12 samples of one service, on one of three threads, at `second`.
function upload(number, second) {
	const service = SERVICES[number % SERVICES.length],
		thread = `worker${random(3)}`,
		samples = [];
	for (let i = 0; i < 12; i++) {
		const stack = [];
		for (let at = random(4), depth = 2 + random(6); depth > 0; depth--, at = (at * 5 + 1 + random(3)) % 30) stack.unshift(at);
		if (!samples.some((sample) => sample.stack.join() === stack.join())) samples.push({ stack, count: 1 + random(9), size: random(3) ? 16 << random(5) : 0 }); // a number since v3
	}
	return {
		service,
		thread,
		second,
		samples,
		body: profile(samples, BigInt(second) * 1000000000n, thread),
		path: `/api/v1/ingest?name=process_cpu&label=service_name%3D${service}&label=host%3Dhost${number % 2}`,
	};
}

// What a selection must answer: folded stacks, root first, and their sums.
function expected(uploads, selector, from, to, value) {
	const folded = {};
	for (const { service, thread, second, samples } of uploads) {
		if (second < from || second >= to) continue;
		for (const { stack, count, size } of samples) {
			if (!selector({ service, thread, size })) continue;
			// Folded stacks mark inlined functions, and name an unnamed address by its binary.
			const text = stack
				.flatMap(frames)
				.reverse()
				.map((name) => name.replace(/^inline.*/, '$&_[i]').replace('/opt/wick-golden/', ''))
				.join(';');
			folded[text] = (folded[text] ?? 0) + count * value;
		}
	}
	return folded;
}
function questions(uploads) {
	const cpu = 'process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta',
		count = 'process_cpu:samples:count:cpu:nanoseconds:delta';
	const all = [START - 3600, START + 4 * 3600],
		some = [START + 600, START + 4000];
	const ask = (query, [from, to], selector, value) => ({ query, from, to, folded: expected(uploads, selector, from, to, value) });
	return [
		ask(count, all, () => true, 1),
		ask(cpu, all, () => true, 10000000),
		ask(count, some, () => true, 1),
		ask(`${count}{service_name="shop"}`, all, (s) => s.service === 'shop', 1),
		ask(`${cpu}{service_name=~"sh.*|pay"}`, some, (s) => s.service !== 'search', 10000000),
		ask(`${count}{thread="worker1",service_name!="pay"}`, all, (s) => s.thread === 'worker1' && s.service !== 'pay', 1),
		ask(`${count}{__number__="bytes=32:64"}`, all, (s) => s.size >= 32 && s.size <= 64, 1),
		ask(`${cpu}{__number__="",thread="worker2"}`, some, (s) => !s.size && s.thread === 'worker2', 10000000),
	];
}

// Blocks that were merged have a generation in their names. Waits for one, or for all to be one.
async function waitForMerge(data, all = false) {
	const isMerged = () => readdirSync(join(data, 'blocks'))[all ? 'every' : 'some']((name, _, names) => /-g\d+$/.test(name) && (!all || names.length === 1));
	for (let waited = 0; !isMerged() && waited < 10000; waited += 100) await new Promise((resolve) => setTimeout(resolve, 100));
	return isMerged();
}

async function make(directory) {
	const data = join(directory, 'data'),
		uploads = [];
	rmSync(data, { recursive: true, force: true });
	mkdirSync(data, { recursive: true });
	for (let part = 0; part < 3; part++) {
		const server = await startServer(data, ['--keep', 'forever']);
		if (part > 0) await waitForMerge(data, part === 2);
		for (let i = 0; i < 6; i++) {
			const one = upload(uploads.length, START + part * 3600 + i * 300 + random(200));
			const response = await request(server.port, 'POST', one.path, { body: one.body });
			if (response.status !== 200) throw new Error(`${response.status}: ${response.body}`);
			uploads.push(one);
		}
		if (part < 2) {
			await server.stop();
			continue;
		}
		server.child.removeAllListeners('exit');
		const gone = new Promise((resolve) => server.child.once('exit', resolve));
		server.child.kill('SIGKILL');
		await gone;
	}
	for (const name of ['lock', 'tmp', 'trash']) rmSync(join(data, name), { recursive: true, force: true });
	const again = uploads.map(({ path, body }) => ({ path, body: body.toString('base64') })).filter((_, i) => i % 6 === 2);
	writeFileSync(join(directory, 'expected.json'), JSON.stringify({ questions: questions(uploads), again }, null, '\t') + '\n');
}

async function ask(port, { query, from, to }) {
	const path = `/api/v1/query?query=${encodeURIComponent(query)}&from=${from}&to=${to}&format=folded`;
	const response = await request(port, 'GET', path);
	if (response.status !== 200) throw new Error(`${path}: ${response.status}: ${response.body}`);
	const found = {};
	for (const line of response.body.toString().split('\n')) {
		const at = line.lastIndexOf(' ');
		if (at > 0) found[line.slice(0, at)] = Number(line.slice(at + 1));
	}
	return found;
}
function compare(want, got) {
	const names = new Set([...Object.keys(want), ...Object.keys(got)]);
	const wrong = [...names].filter((name) => want[name] !== got[name]);
	if (wrong.length)
		throw new Error(
			`${wrong.length} of ${names.size} stacks differ: ${wrong
				.slice(0, 4)
				.map((name) => `${name}: ${want[name]} expected, ${got[name]} found`)
				.join('; ')}`,
		);
	if (names.size === 0) throw new Error('nothing was expected');
}

async function check(directory) {
	const name = directory.split('/').pop(),
		work = join(temporaryDirectory(), 'data');
	const { questions: list, again } = JSON.parse(readFileSync(join(directory, 'expected.json'), 'utf8'));
	cpSync(join(directory, 'data'), work, { recursive: true });
	// The first start replays the log, the second one reads the block that became of it, the third one what all of them are merged into.
	for (const start of ['first', 'second', 'third']) {
		let server;
		await test(`${name}: opens, ${start} start`, async () => {
			server = await startServer(work, ['--keep', 'forever']);
		});
		if (!server) return;
		if (start === 'third')
			await test(`${name}: blocks are merged`, async () => {
				if (!(await waitForMerge(work))) throw new Error(`${readdirSync(join(work, 'blocks'))}`);
			});
		for (const one of list) await test(`${name}: ${one.query} from ${one.from - START} s`, async () => compare(one.folded, await ask(server.port, one)));
		await test(`${name}: what it holds is not stored again`, async () => {
			for (const { path, body } of again) {
				const response = await request(server.port, 'POST', path, { body: Buffer.from(body, 'base64') });
				if (response.status !== 200 || !JSON.parse(response.body).duplicate) throw new Error(`${response.status}: ${response.body}`);
			}
			compare(list[0].folded, await ask(server.port, list[0]));
		});
		await server.stop();
		await test(`${name}: nothing is set aside`, async () => {
			if (existsSync(join(work, 'quarantine'))) throw new Error(`${readdirSync(join(work, 'quarantine'))}: ${server.log()}`);
		});
	}
}

const [job, ...operands] = process.argv.slice(2);
if (job === 'make') await make(operands[0]);
else {
	for (const directory of operands) await check(directory);
	finish();
}
