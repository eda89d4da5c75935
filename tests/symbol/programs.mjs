// SPDX-License-Identifier: Apache-2.0
// What the tests of names share: stripped programs, profiles of nothing but their addresses, and what others say is there.
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { bytesField, intField, request, varint } from '../harness.mjs';

const run = (command, args, options) => execFileSync(command, args, { encoding: 'utf8', maxBuffer: 1 << 28, ...options });
export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
export const sourceFile = 'tests/symbol/inlined.c';

// Builds it; returns the paths of the program as it was linked (full), without symbols (stripped), and of its debug file.
export function buildProgram(directory, name, { number = 0, flags = [] } = {}) {
	mkdirSync(directory, { recursive: true });
	const full = `${directory}/${name}.full`,
		stripped = `${directory}/${name}`,
		debug = `${directory}/${name}.debug`;
	run('gcc', ['-O2', '-g', '-Wl,--build-id', `-DNUMBER=${number}`, ...flags, '-o', full, sourceFile]);
	copyFileSync(full, stripped);
	run('objcopy', ['--only-keep-debug', full, debug]);
	run('strip', ['--strip-all', stripped]);
	return { ...readProgram(full), stripped, debug };
}
// What profiles need to know of a program that is there.
export function readProgram(full) {
	const buildId = /Build ID: ([0-9a-f]+)/.exec(run('readelf', ['-n', full]))[1];
	const [, offset, address, size] = run('readelf', ['-lW', full])
		.split('\n')
		.map((l) => /LOAD +0x(\S+) 0x(\S+) 0x\S+ 0x(\S+) 0x\S+ R E/.exec(l))
		.find((m) => m)
		.map((x) => parseInt(x, 16));
	return { full, buildId, text: { offset, address, size } };
}

// Addresses (as linked) in the program's own functions, and what llvm-symbolizer says of each: [[function, file:line], ...], innermost first.
export function truth(program, step = 3) {
	const functions = run('nm', ['-S', program.full])
		.split('\n')
		.map((l) => /^(\S+) (\S+) [tT] (main|outer_work|hidden_work)$/.exec(l))
		.filter((m) => m);
	const addresses = functions.flatMap(([, start, size]) => {
		const out = [];
		for (let a = parseInt(start, 16), end = a + parseInt(size, 16); a < end; a += step) out.push(a);
		return out;
	});
	const response = run('llvm-symbolizer-19', ['--inlines', '--obj=' + program.full], { input: addresses.map((a) => `0x${a.toString(16)}\n`).join('') });
	const frames = response
		.trim()
		.split('\n\n')
		.map((block) =>
			block.split('\n').reduce((out, line, i) => {
				if (i % 2) out.at(-1).push(line.replace(/:\d+$/, '').replace(/^.*\//, ''));
				else out.push([line]);
				return out;
			}, []),
		);
	return new Map(addresses.map((a, i) => [a, frames[i]]));
}

// A pprof profile: samples = [[program, address], ...], one location each, as a process far up in memory would have them.
export function addressProfile(samples, { timeMs = Date.now(), path = (p) => `/srv/app/${p.buildId.slice(0, 8)}` } = {}) {
	const strings = new Map([['', 0]]),
		mappings = new Map(),
		out = [];
	const id = (text) => {
		if (!strings.has(text)) strings.set(text, strings.size);
		return strings.get(text);
	};
	const put = (field) => {
		for (const byte of field) out.push(byte);
	};
	put(bytesField(1, [...intField(1, id('cpu')), ...intField(2, id('nanoseconds'))]));
	samples.forEach(([program, address], i) => {
		if (!mappings.has(program)) {
			const n = mappings.size + 1,
				start = 0x100000000 * n;
			mappings.set(program, { n, start });
			put(
				bytesField(3, [
					...intField(1, n),
					...intField(2, start),
					...intField(3, start + Math.ceil(((program.text.offset % 4096) + program.text.size) / 4096) * 4096),
					...intField(4, program.text.offset - (program.text.offset % 4096)),
					...intField(5, id(path(program))),
					...intField(6, id(program.buildId)),
				]),
			);
		}
		const { n, start } = mappings.get(program);
		put(bytesField(4, [...intField(1, i + 1), ...intField(2, n), ...intField(3, start + (program.text.offset % 4096) + address - program.text.address)]));
		put(bytesField(2, [...bytesField(1, varint(i + 1)), ...bytesField(2, varint(1000))]));
	});
	for (const text of strings.keys()) put(bytesField(6, text));
	put(intField(9, BigInt(Math.round(timeMs)) * 1000000n));
	return Buffer.from(out);
}

// The fields of a message: [number, value or bytes].
function* fields(bytes) {
	let at = 0;
	const read = () => {
		let value = 0n,
			shift = 0n;
		for (;;) {
			const b = bytes[at++];
			value |= BigInt(b & 127) << shift;
			if (b < 128) return value;
			shift += 7n;
		}
	};
	while (at < bytes.length) {
		const tag = Number(read());
		if ((tag & 7) === 2) {
			const length = Number(read());
			yield [tag >> 3, bytes.subarray(at, at + length)];
			at += length;
		} else yield [tag >> 3, read()];
	}
}
const get = (bytes, number) => [...fields(bytes)].filter(([n]) => n === number).map(([, value]) => value);

// Each location of a pprof profile: what programs are mapped where is undone. Map of "BUILDID ADDRESS-IN-MAPPING" to [[function, file:line], ...].
export function decodeFrames(body, programs) {
	const bytes = body[0] === 0x1f ? gunzipSync(body) : body;
	const strings = get(bytes, 6).map((s) => Buffer.from(s).toString());
	const functions = new Map(get(bytes, 5).map((f) => [get(f, 1)[0], { name: strings[Number(get(f, 2)[0] ?? 0n)], file: strings[Number(get(f, 4)[0] ?? 0n)] }]));
	const mappings = new Map(
		get(bytes, 3).map((m) => [get(m, 1)[0], { start: get(m, 2)[0] ?? 0n, offset: get(m, 4)[0] ?? 0n, buildId: strings[Number(get(m, 6)[0] ?? 0n)] }]),
	);
	const found = new Map();
	for (const location of get(bytes, 4)) {
		const mapping = mappings.get(get(location, 2)[0]);
		const program = mapping && programs.find((p) => p.buildId === mapping.buildId);
		if (!program) continue;
		const address = Number((get(location, 3)[0] ?? 0n) - mapping.start + mapping.offset) - program.text.offset + program.text.address;
		found.set(
			`${program.buildId} ${address}`,
			get(location, 4).map((line) => {
				const f = functions.get(get(line, 1)[0]);
				return [f.name, `${f.file.replace(/^.*\//, '')}:${get(line, 2)[0] ?? 0n}`];
			}),
		);
	}
	return found;
}

export const api = (port) => ({
	json: async (path) => {
		const response = await request(port, 'GET', path);
		if (response.status !== 200) throw new Error(`${path}: ${response.status} ${response.body}`);
		return JSON.parse(response.body);
	},
	ingest: async (profile, name = 'names') => {
		const response = await request(port, 'POST', `/api/v1/ingest?name=${name}&label=service_name%3Dapp`, { body: profile });
		if (response.status !== 200) throw new Error(`ingest: ${response.status} ${response.body}`);
	},
	pprof: async (path) => (await request(port, 'GET', path)).body,
	post: (path, body = '') => request(port, 'POST', path, { body }),
});
// The answer to a query, once all that it asks names of is known to have some or none.
export async function settled(json, path) {
	let response;
	await until(async () => (response = await json(`${path}&symbols_wait=20s`)).symbols.pending === 0);
	return response;
}
// Repeats until done() is true; false after `seconds`.
export async function until(done, seconds = 120) {
	for (const end = Date.now() + seconds * 1000; Date.now() < end; await sleep(100)) if (await done()) return true;
	return false;
}
// Differences between what the server says of the addresses and what is true; [] = none.
export function differences(found, program, expected) {
	const out = [];
	for (const [address, frames] of expected) {
		const got = found.get(`${program.buildId} ${address}`);
		if (JSON.stringify(got) !== JSON.stringify(frames)) out.push(`0x${address.toString(16)}: ${JSON.stringify(got)} instead of ${JSON.stringify(frames)}`);
	}
	return out;
}
