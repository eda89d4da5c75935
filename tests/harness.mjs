// SPDX-License-Identifier: Apache-2.0
// What the tests written in JavaScript share: named checks, the closing line, a server to talk to.
import { spawn, spawnSync } from 'node:child_process';
import { accessSync, chmodSync, constants, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export const wick = process.env.WICK ?? 'build/wick';
export const testData = process.env.WICK_TEST_DATA ?? '../shared/data';
let passed = 0,
	failed = 0,
	skipped = 0;

// Programs of others that a test asks or compares with are the distribution's, as tests/lib.inc has it.
const jvms = '/usr/lib/jvm';
const jdks = existsSync(jvms)
	? readdirSync(jvms)
			.filter((name) => /^java-[0-9].*-openjdk-/.test(name))
			.map((name) => `${jvms}/${name}/bin`)
			.filter((path) => existsSync(`${path}/java`))
			.slice(-1)
	: [];
process.env.PATH = [process.env.WICK_TEST_PATH, ...jdks, '/usr/sbin', '/usr/bin', '/sbin', '/bin', process.env.PATH].filter(Boolean).join(':');
Object.assign(process.env, { GOENV: 'off', GOTOOLCHAIN: 'local' });
for (const name of ['GOROOT', 'GOTOOLDIR', 'GOFLAGS', 'JAVA_TOOL_OPTIONS', 'JDK_JAVA_OPTIONS', 'NODE_OPTIONS', 'PYTHONHOME', 'PYTHONPATH'])
	delete process.env[name];
const used = new Set();
// Whether these programs are installed; says where each is and which version, once.
export function uses(...names) {
	let all = true;
	for (const name of names) {
		const path = process.env.PATH.split(':')
			.map((folder) => join(folder, name))
			.find((file) => {
				try {
					return !accessSync(file, constants.X_OK);
				} catch {
					return false;
				}
			});
		if (!path) all = false;
		else if (!used.has(name)) {
			const said = spawnSync(path, [name === 'go' ? 'version' : '--version'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).stdout ?? '';
			console.log(`uses ${path}: ${said.split('\n').find((line) => /[0-9]/.test(line)) ?? ''}`);
			used.add(name);
		}
	}
	return all;
}

export async function test(name, body) {
	try {
		await body();
		console.log(`ok ${name}`);
		passed++;
	} catch (error) {
		console.log(
			`FAILED ${name}\n    ${String(error?.stack ?? error)
				.split('\n')
				.slice(0, 8)
				.join('\n    ')}`,
		);
		failed++;
	}
}
export function skip(name, reason) {
	console.log(`skipped: ${name}: ${reason}`);
	skipped++;
}
export function finish() {
	console.log(`${passed} passed, ${failed} failed, ${skipped} skipped`);
	process.exit(failed ? 1 : 0);
}

export function temporaryDirectory() {
	const path = mkdtempSync(join(tmpdir(), 'wick-test-'));
	chmodSync(path, 0o755);
	process.on('exit', () => rmSync(path, { recursive: true, force: true }));
	return path;
}

// user: an id that it runs with, instead of the test's.
export async function startServer(directory, options = [], before = ':', user = undefined) {
	const words = ['server', '--data', directory, '--listen', '127.0.0.1:0', ...options];
	const as = user === undefined ? '' : `setpriv --reuid=${user} --regid=${user} --clear-groups `;
	const child = spawn('sh', ['-c', `${before} && exec ${as}"$0" "$@"`, wick, ...words], { stdio: ['ignore', 'ignore', 'pipe'] });
	process.on('exit', () => child.kill('SIGKILL'));
	let log = '',
		refused = false;
	const port = await new Promise((resolve, reject) => {
		child.stderr.on('data', (chunk) => {
			log += chunk;
			// The sandbox must have all that a server needs.
			if (!refused && log.includes(' is not among those that this process may make')) {
				refused = true;
				failed++;
				console.log(`FAILED the sandbox allows what the server does\n    ${log.split('\n').find((line) => line.includes('may make'))}`);
			}
			const match = log.match(/https?:\/\/[\d.]+:(\d+)/);
			if (match) resolve(Number(match[1]));
		});
		child.once('exit', (code) => reject(new Error(`server ended with ${code}: ${log}`)));
	});
	const stop = (signal = 'SIGTERM') =>
		new Promise((resolve) => {
			child.removeAllListeners('exit');
			child.once('exit', (code, by) => resolve(code ?? by));
			child.kill(signal);
		});
	return { port, url: `http://127.0.0.1:${port}`, child, stop, log: () => log };
}

// Memory of a process by /proc, in bytes: VmRSS what is resident, VmHWM the most since the start or forgetPeak().
export const memoryOf = (pid, what) => Number(readFileSync(`/proc/${pid}/status`, 'utf8').match(new RegExp(`${what}:\\s+(\\d+) kB`))[1]) * 1024;
export const forgetPeak = (pid) => writeFileSync(`/proc/${pid}/clear_refs`, '5');

// Folded stacks, the same for a seed, of which no two have more than two frames in common: the worst that there is for what puts stacks together.
export function differentStacks(seed, count, depth, functions = 20000) {
	let x = seed;
	const next = () => (x = (Math.imul(x, 1664525) + 1013904223) >>> 0);
	return Array.from({ length: count }, () => {
		const frames = ['main', `service${next() % 17}`];
		while (frames.length < depth) frames.push(`pkg/f${next() % functions}`);
		return `${frames.join(';')} ${1 + (next() % 100)}`;
	});
}

// A request over node's own HTTP/1.1 client; resolves with status, headers and the body as a Buffer. On a connection of its own: one that is kept for
// the next request may have been closed by the server, which this process does not see while it waits for another program.
export function request(port, method, path, { body, headers = {} } = {}) {
	return new Promise((resolve, reject) => {
		const call = http.request(
			{ host: '127.0.0.1', port, method, path, agent: false, headers: { ...(body ? { 'content-length': body.length } : {}), ...headers } },
			(response) => {
				const chunks = [];
				response.on('data', (chunk) => chunks.push(chunk));
				response.on('end', () => resolve({ status: response.statusCode, headers: response.headers, body: Buffer.concat(chunks) }));
				response.on('error', reject);
			},
		);
		call.on('error', reject);
		call.end(body);
	});
}

// Reads what /api/v1/query answers to format=columns, as docs/api.md has it, into what it answers to format=flame.
export function readColumns(body) {
	if (body.subarray(0, 8).toString('latin1') !== 'wickflm\x01') throw new Error('no columns');
	let at = 12 + body.readUInt32LE(8);
	const head = JSON.parse(body.subarray(12, at));
	const varint = () => {
		for (let value = 0n, shift = 0n; ; shift += 7n) {
			const byte = body[at++];
			value |= BigInt(byte & 127) << shift;
			if (byte < 128) return value;
		}
	};
	const column = (count) => Array.from({ length: count }, () => Number(varint()));
	const [stringCount, frames, count] = column(3),
		unit = varint();
	const strings = column(stringCount).map((length) => body.subarray(at, (at += length)).toString());
	const of = ['name', 'file', 'line', 'binary', 'kind'].map((name) => [name, column(frames)]);
	const parent = [];
	for (let up of column(count)) {
		let under = Math.max(0, parent.length - 1);
		while (up-- > 0) under = parent[under];
		parent.push(under);
	}
	const frame = column(count),
		self = Array.from({ length: count }, () => {
			const value = varint();
			return Number((value & 1n ? -(value >> 1n) - 1n : value >> 1n) * unit);
		});
	if (at !== body.length) throw new Error(`${body.length - at} bytes behind the columns`);
	const total = self.slice();
	for (let i = count - 1; i > 0; i--) total[parent[i]] += total[i];
	const nodes = { parent, ...Object.fromEntries(of.map(([name, values]) => [name, frame.map((f) => values[f])])), total, self };
	return { ...head, flame: { ...head.flame, strings, nodes } };
}

// Protocol buffers by hand, so that the tests do not lean on the code under test.
export function varint(value) {
	const out = [];
	let n = BigInt.asUintN(64, BigInt(value));
	while (n > 127n) {
		out.push(Number(n & 127n) | 128);
		n >>= 7n;
	}
	out.push(Number(n));
	return out;
}
export const intField = (number, value) => [...varint(number << 3), ...varint(value)];
export const bytesField = (number, payload) => {
	const bytes = typeof payload === 'string' ? [...Buffer.from(payload)] : payload;
	return [...varint((number << 3) | 2), ...varint(bytes.length), ...bytes];
};
export const fixed64Field = (number, value) => {
	const b = Buffer.alloc(8);
	b.writeBigUInt64LE(BigInt(value));
	return [...varint((number << 3) | 1), ...b];
};

// A pprof profile: stacks = [[["leaf", ..., "root"], value, {label: text or number}], ...]. files: of functions, by name. functionIds: 0 writes functions
// without an id.
export function pprofProfile(
	stacks,
	{ type = 'cpu', unit = 'nanoseconds', timeNs = BigInt(Date.now()) * 1000000n, durationNs = 0, files = {}, functionIds = 1 } = {},
) {
	const strings = [''],
		functions = new Map();
	const id = (text) => {
		let i = strings.indexOf(text);
		if (i < 0) i = strings.push(text) - 1;
		return i;
	};
	const functionId = (name) => {
		if (!functions.has(name)) functions.set(name, functions.size + 1);
		return functions.get(name);
	};
	const out = [...bytesField(1, [...intField(1, id(type)), ...intField(2, id(unit))])];
	for (const [frames, value, labels] of stacks) {
		const sample = [
			...bytesField(
				1,
				frames.flatMap((f) => varint(functionId(f))),
			),
			...bytesField(2, varint(value)),
		];
		for (const [key, text] of Object.entries(labels ?? {}))
			sample.push(...bytesField(3, [...intField(1, id(key)), ...(typeof text === 'number' ? intField(3, text) : intField(2, id(text)))]));
		out.push(...bytesField(2, sample));
	}
	for (const [name, n] of functions) {
		out.push(...bytesField(4, [...intField(1, n), ...bytesField(4, intField(1, n))]));
		out.push(...bytesField(5, [...intField(1, n * functionIds), ...intField(2, id(name)), ...(files[name] ? intField(4, id(files[name])) : [])]));
	}
	for (const text of strings) out.push(...bytesField(6, text));
	out.push(...intField(9, timeNs), ...(durationNs ? intField(10, durationNs) : []));
	return Buffer.from(out);
}
