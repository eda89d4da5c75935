// SPDX-License-Identifier: Apache-2.0
// For listing.test.sh: a profile of known addresses, and what its listings must say according to objdump and addr2line.
//   node listing.mjs make PROGRAM BUILDID OUT        a pprof file, without names
//   node listing.mjs kernel PROGRAM BUILDID OUT      the same as if the program, which has a symbol _stext, were a kernel
//   node listing.mjs asm PROGRAM BUILDID ANSWER [BINARY FROM]     compares a response of /api/v1/asm
//   node listing.mjs source PROGRAM BUILDID FUNCTION ANSWER [TOP]
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';

const START = 0x555500000000n;
const run = (command, ...args) => execFileSync(command, args, { encoding: 'utf8', maxBuffer: 1 << 28 });

// ---- the oracle: instructions of a function, frames of an address ----

function instructions(program, name) {
	const out = [];
	let inside = false;
	const [, size] = new RegExp(`^[0-9a-f]+ ([0-9a-f]+) . ${name}$`, 'm').exec(run('nm', '-S', program));
	for (const line of run('objdump', '-d', '-w', '-M', 'intel', '--insn-width=16', '--section=.text', program).split('\n')) {
		if (/^[0-9a-f]+ </.test(line)) inside = line.endsWith(`<${name}>:`);
		const match = inside && /^\s+([0-9a-f]+):\t((?:[0-9a-f]{2} )+)\s*\t?(\S+)/.exec(line);
		if (match) out.push({ address: BigInt('0x' + match[1]), bytes: match[2].replace(/ /g, ''), mnemonic: match[3] });
	}
	return out.filter((i) => i.address < out[0].address + BigInt('0x' + size)); // padding is nobody's
}

// [{name, file, line}], innermost first
function frames(program, address) {
	const lines = run('addr2line', '-i', '-f', '-e', program, '0x' + address.toString(16))
		.trim()
		.split('\n');
	const out = [];
	for (let i = 0; i + 1 < lines.length; i += 2) {
		const [, file, line] = /^(.*):(\d+|\?)/.exec(lines[i + 1]);
		out.push({ name: lines[i], file, line: Number(line) || 0 });
	}
	return out;
}

// File offset = address - delta, in the segment that is executed.
function segment(program) {
	for (const line of run('readelf', '-lW', program).split('\n')) {
		const match = /^\s+LOAD\s+(0x\S+)\s+(0x\S+)\s+\S+\s+(0x\S+)\s+\S+\s+R E/.exec(line);
		if (match) return { offset: BigInt(match[1]), address: BigInt(match[2]), size: BigInt(match[3]) };
	}
	throw new Error('no segment');
}

// Every instruction of hot is a leaf, called from caller; every instruction of caller is a leaf, too. Values are all different.
function samples(program) {
	const hot = instructions(program, 'hot'),
		caller = instructions(program, 'caller');
	const call = caller.find((i) => i.mnemonic === 'call');
	const back = call.address + BigInt(call.bytes.length / 2) - 1n;
	return [...hot.map((i, n) => ({ value: 1000 + n * n, stack: [i.address, back] })), ...caller.map((i, n) => ({ value: 17 + n, stack: [i.address] }))];
}

// ---- pprof ----

function varint(n) {
	const out = [];
	let rest = BigInt.asUintN(64, BigInt(n));
	do {
		out.push(Number(rest & 0x7fn) | (rest > 0x7fn ? 0x80 : 0));
		rest >>= 7n;
	} while (rest);
	return Buffer.from(out);
}
const number = (field, n) => Buffer.concat([varint(field << 3), varint(n)]);
const bytes = (field, data) => Buffer.concat([varint((field << 3) | 2), varint(data.length), data]);
const message = (field, ...parts) => bytes(field, Buffer.concat(parts));

const KERNEL = '[kernel.kallsyms]',
	KERNEL_START = 0xffffffff81000000n;

// Where a program is mapped, and where an address of it is there.
function programMapping(program) {
	const text = segment(program),
		pages = text.offset & ~0xfffn;
	const limit = START + ((text.offset - pages + text.size + 0xfffn) & ~0xfffn);
	return { start: START, limit, offset: pages, name: program, place: (address) => address - text.address + text.offset - pages + START };
}

// Offsets in a kernel count from its _stext.
function kernelMapping(program) {
	const stext = BigInt('0x' + /^([0-9a-f]+) . _stext$/m.exec(run('nm', program))[1]);
	return { start: KERNEL_START, limit: KERNEL_START + 0x100000n, offset: 0n, name: KERNEL, place: (address) => address - stext + KERNEL_START };
}

function make(program, buildId, path, mapping) {
	const strings = [''],
		locations = new Map();
	const string = (s) => (strings.includes(s) ? strings.indexOf(s) : strings.push(s) - 1);
	const location = (a) => locations.get(a) ?? locations.set(a, locations.size + 1).get(a);
	const parts = [message(1, number(1, string('cpu')), number(2, string('nanoseconds')))];
	for (const { value, stack } of samples(program)) parts.push(message(2, ...stack.map((a) => number(1, location(a))), number(2, value)));
	const { start, limit, offset, name } = mapping;
	parts.push(message(3, number(1, 1), number(2, start), number(3, limit), number(4, offset), number(5, string(name)), number(6, string(buildId))));
	for (const [address, id] of locations) parts.push(message(4, number(1, id), number(2, 1), number(3, mapping.place(address))));
	parts.push(message(11, number(1, string('cpu')), number(2, string('nanoseconds'))), number(12, 1));
	for (const s of strings) parts.push(bytes(6, Buffer.from(s)));
	parts.push(number(9, BigInt(Date.now()) * 1000000n), number(10, 1000000000n));
	writeFileSync(path, Buffer.concat(parts));
}

// ---- comparing ----

let wrong = 0;
function same(what, got, expected) {
	if (JSON.stringify(got) === JSON.stringify(expected)) return;
	wrong++;
	console.log(`${what}: ${JSON.stringify(got)} instead of ${JSON.stringify(expected)}`);
}

function checkAsm(program, answerPath, binary = program, from = 'local file') {
	const response = JSON.parse(readFileSync(answerPath)),
		expected = instructions(program, 'hot'),
		values = new Map();
	for (const { value, stack } of samples(program)) values.set(stack[0], value);
	same('from', response.from, from);
	same('binary', response.binary, binary);
	same('count', response.instructions.length, expected.length);
	expected.forEach((i, n) => {
		const got = response.instructions[n] ?? {},
			at = frames(program, i.address);
		same('address', got.address, '0x' + i.address.toString(16));
		same('bytes', got.bytes, i.bytes);
		same('mnemonic', got.text?.split(' ')[0], i.mnemonic);
		same('self', got.self, values.get(i.address));
		same('total', got.total, values.get(i.address));
		same('line', got.line, at[0].line);
		same('file', got.file, at[0].file);
		same(
			'functions',
			got.functions,
			at.map((f) => f.name),
		);
	});
	const jump = response.instructions.find((i) => /^j/.test(i.text));
	same('target', /<hot\+0x[0-9a-f]+>$/.test(jump.text), true);
}

function checkSource(program, name, answerPath, topPath) {
	const response = JSON.parse(readFileSync(answerPath)),
		self = new Map(),
		total = new Map();
	for (const { value, stack } of samples(program)) {
		const seen = new Set();
		stack.forEach((address, depth) =>
			frames(program, address).forEach((frame, inner) => {
				if (frame.name !== name) return;
				seen.add(frame.line);
				if (depth === 0 && inner === 0) self.set(frame.line, (self.get(frame.line) ?? 0) + value);
			}),
		);
		for (const line of seen) total.set(line, (total.get(line) ?? 0) + value);
	}
	const text = readFileSync(response.file, 'utf8').split('\n');
	same('from', response.from, 'local file');
	for (const line of response.lines) {
		same(`self of line ${line.line}`, line.self, self.get(line.line) ?? 0);
		same(`total of line ${line.line}`, line.total, total.get(line.line) ?? 0);
		same(`text of line ${line.line}`, line.text, text[line.line - 1]);
		total.delete(line.line);
	}
	same('lines that are not there', [...total], []);
	const sum = response.lines.reduce((s, line) => s + line.self, 0);
	same('sum of the lines', sum, response.self);
	if (!topPath) return;
	const row = JSON.parse(readFileSync(topPath)).functions.rows.find((r) => r.name === name);
	same('self in top', sum, row.self);
	same('total in top', response.function_total, row.total);
}

const [, , verb, program, buildId, ...rest] = process.argv;
if (verb === 'make') make(program, buildId, rest[0], programMapping(program));
else if (verb === 'kernel') make(program, buildId, rest[0], kernelMapping(program));
else if (verb === 'asm') checkAsm(program, ...rest);
else if (verb === 'source') checkSource(program, ...rest);
process.exit(wrong ? 1 : 0);
