// SPDX-License-Identifier: Apache-2.0
// What the conversion tests share: `wick convert`, and readers of formats that owe nothing to its code. Each reader gives
//   { types: ["cpu nanoseconds", ...], samples: [{ frames: [{ name, file, line }], labels: { key: text }, time, link, values }] }
// with frames root first and values by type.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { wick } from '../harness.mjs';

export function convert(input, output, ...options) {
	const run = spawnSync(wick, ['convert', ...[input].flat(), '-o', output, ...options], { maxBuffer: 1 << 30 });
	return { status: run.status, out: run.stdout, messages: String(run.stderr) };
}
// The formats that help lists behind an option.
const help = String(spawnSync(wick, ['convert', '--help']).stdout);
export function listed(option) {
	const text = help.match(new RegExp(`${option} FORMAT\\s+([^]*?)(?=\\n\\s+(-\\w, )?--|\\n\\n)`))[1];
	return text
		.slice(text.lastIndexOf(':') + 1)
		.replace(/\s+or\s+|,/g, ' ')
		.trim()
		.split(/\s+/);
}

// ---- protobuf ----

function* fields(buffer) {
	let at = 0;
	const varint = () => {
		let value = 0n,
			shift = 0n,
			byte;
		do {
			byte = buffer[at++];
			value |= BigInt(byte & 127) << shift;
			shift += 7n;
		} while (byte & 128);
		return BigInt.asIntN(64, value);
	};
	while (at < buffer.length) {
		const key = Number(varint());
		if ((key & 7) === 0) yield [key >> 3, varint()];
		else if ((key & 7) === 1) (yield [key >> 3, buffer.readBigUInt64LE(at)], (at += 8));
		else if ((key & 7) === 5) (yield [key >> 3, BigInt(buffer.readUInt32LE(at))], (at += 4));
		else {
			const length = Number(varint());
			yield [key >> 3, buffer.subarray(at, (at += length))];
		}
	}
}
// A message as { number: [values] }.
function message(buffer) {
	const found = {};
	for (const [number, value] of fields(buffer)) (found[number] ??= []).push(value);
	return found;
}
const one = (found, number) => found[number]?.at(-1);
const int = (found, number) => Number(one(found, number) ?? 0n);
const messages = (found, number) => (found[number] ?? []).map(message);
// Repeated numbers, packed or not.
function numbers(found, number) {
	return (found[number] ?? []).flatMap((value) => {
		if (typeof value === 'bigint') return [value];
		const all = [];
		for (let at = 0; at < value.length;) {
			let result = 0n,
				shift = 0n,
				byte;
			do {
				byte = value[at++];
				result |= BigInt(byte & 127) << shift;
				shift += 7n;
			} while (byte & 128);
			all.push(BigInt.asIntN(64, result));
		}
		return all;
	});
}
function fixed64(found, number) {
	return (found[number] ?? []).flatMap((value) => {
		if (typeof value === 'bigint') return [value];
		return Array.from({ length: value.length / 8 }, (_, i) => value.readBigUInt64LE(8 * i));
	});
}

// A frame without a name is told by where it is.
function place(mapping, address) {
	const start = mapping?.start ?? 0n,
		offset = mapping?.offset ?? 0n;
	if (mapping?.file) return `${mapping.file.replace(/.*\//, '')}+0x${BigInt.asUintN(64, address - start + offset).toString(16)}`;
	return address ? `0x${address.toString(16)}` : '[unknown]';
}

// ---- pprof ----

export function readPprof(file) {
	const raw = gunzipSync(readFileSync(file)),
		profile = message(raw),
		text = (profile[6] ?? []).map(String);
	const byId = (list) => new Map(list.map((found) => [one(found, 1) ?? 0n, found]));
	const functions = byId(messages(profile, 5)),
		mappings = byId(messages(profile, 3)),
		locations = byId(messages(profile, 4));
	const frames = new Map();
	for (const [id, location] of locations) {
		const found = mappings.get(one(location, 2)),
			address = BigInt.asUintN(64, one(location, 3) ?? 0n);
		const mapping = found && { start: BigInt.asUintN(64, one(found, 2) ?? 0n), offset: BigInt.asUintN(64, one(found, 4) ?? 0n), file: text[int(found, 5)] };
		const lines = messages(location, 4).map((line) => {
			const made = functions.get(one(line, 1));
			return { name: text[int(made, 2)] || text[int(made, 3)] || '[unknown]', file: text[int(made, 4)], line: int(line, 2) };
		});
		frames.set(id, lines.length ? lines.reverse() : [{ name: place(mapping, address), file: '', line: 0 }]);
	}
	const samples = messages(profile, 2).map((sample) => {
		const labels = {};
		for (const label of messages(sample, 3)) {
			const unit = text[int(label, 4)],
				value = one(label, 2) ? text[int(label, 2)] : `${one(label, 3) ?? 0n}${unit ? ' ' + unit : ''}`;
			const key = text[int(label, 1)];
			labels[key] = labels[key] === undefined ? value : [labels[key], value].sort().join('\n');
		}
		return {
			frames: numbers(sample, 1)
				.reverse()
				.flatMap((id) => frames.get(id)),
			labels,
			time: 0n,
			link: '',
			values: numbers(sample, 2),
		};
	});
	return { types: messages(profile, 1).map((type) => `${text[int(type, 1)]} ${text[int(type, 2)]}`), samples };
}

// ---- OTLP, as written: one request, the layout of 1.10 ----

export function readOtlp(file) {
	const request = message(readFileSync(file)),
		dictionary = message(one(request, 2)),
		text = (dictionary[5] ?? []).map(String);
	const anyValue = (found) => {
		const value = message(found);
		return value[1] ? String(one(value, 1)) : value[8] ? text[int(value, 8)] : value[2] ? String(one(value, 2) === 1n) : value[3] ? String(one(value, 3)) : '';
	};
	const attributes = messages(dictionary, 6).map((found) => {
		const unit = text[int(found, 3)],
			value = found[2] ? anyValue(one(found, 2)) : '';
		return [text[int(found, 1)], unit ? `${value} ${unit}` : value];
	});
	const mappings = messages(dictionary, 1).map((found) => ({
		start: BigInt.asUintN(64, one(found, 1) ?? 0n),
		offset: BigInt.asUintN(64, one(found, 3) ?? 0n),
		file: text[int(found, 4)],
	}));
	const functions = messages(dictionary, 3);
	const locations = messages(dictionary, 2).map((found) => {
		const lines = messages(found, 3).map((line) => {
			const made = functions[int(line, 1)];
			return { name: text[int(made, 1)] || text[int(made, 2)] || '[unknown]', file: text[int(made, 3)], line: int(line, 2) };
		});
		return lines.length ? lines.reverse() : [{ name: place(mappings[int(found, 1)], BigInt.asUintN(64, one(found, 2) ?? 0n)), file: '', line: 0 }];
	});
	const links = messages(dictionary, 4).map((found) =>
		Buffer.concat([one(found, 1) ?? Buffer.alloc(0), one(found, 2) ?? Buffer.alloc(0)])
			.toString('hex')
			.replace(/^0*$/, ''),
	);
	const stacks = messages(dictionary, 7).map((found) =>
		numbers(found, 1)
			.reverse()
			.flatMap((id) => locations[Number(id)]),
	);
	const types = [],
		samples = [];
	for (const resource of messages(request, 1)) {
		const common = {};
		for (const attribute of resource[1] ? messages(message(one(resource, 1)), 1) : [])
			common[attribute[1] ? String(one(attribute, 1)) : text[int(attribute, 3)]] = anyValue(one(attribute, 2));
		for (const profile of messages(resource, 2).flatMap((scope) => messages(scope, 2))) {
			const found = message(one(profile, 1)),
				type = `${text[int(found, 1)]} ${text[int(found, 2)]}`;
			if (!types.includes(type)) types.push(type);
			const own = Object.fromEntries(numbers(profile, 11).map((id) => attributes[Number(id)]));
			for (const sample of messages(profile, 2)) {
				const labels = { ...common, ...own };
				for (const [key, value] of numbers(sample, 2).map((id) => attributes[Number(id)])) {
					const old = key in common || key in own ? undefined : labels[key];
					labels[key] = old === undefined ? value : [...old.split('\n'), value].sort().join('\n');
				}
				const values = numbers(sample, 4),
					times = fixed64(sample, 5);
				for (let i = 0; i < Math.max(values.length, times.length); i++) {
					const row = [];
					row[types.indexOf(type)] = values[i] ?? 1n;
					samples.push({ frames: stacks[int(sample, 1)] ?? [], labels, time: times[i] ?? 0n, link: links[int(sample, 3)] ?? '', values: row });
				}
			}
		}
	}
	return { types, samples };
}

// ---- text and JSON ----

export function readFolded(file) {
	const lines = readFileSync(file, 'utf8')
		.split(/\r?\n/)
		.filter((line) => line.trim());
	const two = lines.every((line) => /^.* [\d.]+ [\d.]+\s*$/.test(line));
	const samples = lines.map((line) => {
		const [, stack, ...values] = line.match(two ? /^(.*) (\S+) (\S+)\s*$/ : /^(.*) (\S+)\s*$/);
		return {
			frames: stack.split(';').map((name) => ({ name: name.replace(/_\[[kij]\]$/, ''), file: '', line: 0 })),
			labels: {},
			time: 0n,
			link: '',
			values: values.map((value) => BigInt(Math.round(Number(value)))),
		};
	});
	return { types: two ? ['base count', 'new count'] : ['samples count'], samples };
}

const units = {
	nanoseconds: [1, 'nanoseconds'],
	microseconds: [1e3, 'nanoseconds'],
	milliseconds: [1e6, 'nanoseconds'],
	seconds: [1e9, 'nanoseconds'],
	bytes: [1, 'bytes'],
	none: [1, 'count'],
};
// Each profile of the file is a type of its own, whatever its name: sums of all are compared.
export function readSpeedscope(file) {
	const text = readFileSync(file, 'utf8'),
		parsed = JSON.parse(text),
		frames = parsed.shared.frames.map(({ name, file = '', line = 0 }) => ({ name, file, line }));
	const samples = [],
		types = [];
	for (const profile of parsed.profiles) {
		const [scale, unit] = units[profile.unit ?? 'none'];
		if (!types.includes(unit)) types.push(unit);
		const add = (stack, weight) => {
			const values = [];
			values[types.indexOf(unit)] = BigInt(Math.round(weight * scale));
			if (weight) samples.push({ frames: stack.map((frame) => frames[frame]), labels: {}, time: 0n, link: '', values });
		};
		if (profile.type === 'sampled') profile.samples.forEach((stack, i) => add(stack, profile.weights[i]));
		else {
			const open = [];
			let before;
			for (const { type, frame, at } of profile.events) {
				if (open.length) add(open, at - before);
				if (type === 'O') open.push(frame);
				else open.pop();
				before = at;
			}
		}
	}
	return { types, samples };
}

// The default fields of `perf script`. Ids that perf does not know are -1. Files are in the last parentheses, which may hold others:
// "(/memfd:x (deleted))"; names may have some, too: "operator()+0x10".
export function readPerfScript(file) {
	const samples = [],
		types = ['samples count'];
	let sample,
		inlined = [];
	for (const line of readFileSync(file, 'utf8').split('\n')) {
		const head = line.match(/^(\S.*?|\s*\S.*?)\s+(?:(-?\d+)\/)?(-?\d+)\s+(?:\[(\d+)\] )?\s*(\d+)\.(\d+):\s+(?:(\d+) +)?(\S+):/),
			frame = line.match(/^\t\s*([0-9a-f]+) (.*) \(((?:[^()]|\([^()]*\))*)\)$/);
		if (head && !line.startsWith('\t')) {
			const [, comm, pid, tid, cpu, seconds, fraction, period, event] = head,
				type = `${event} ${/clock/.test(event) ? 'nanoseconds' : 'count'}`;
			if (period && !types.includes(type)) types.push(type);
			const values = [1n];
			if (period) values[types.indexOf(type)] = BigInt(period);
			const labels = { 'thread.name': comm.trim() };
			if (tid !== '-1') labels['thread.id'] = tid;
			if (pid && pid !== '-1') labels['process.pid'] = pid;
			if (cpu) labels['cpu.logical_number'] = String(Number(cpu));
			samples.push((sample = { frames: [], labels, event, time: BigInt(seconds) * 1000000000n + BigInt(fraction.padEnd(9, '0')), link: '', values }));
		} else if (frame) {
			const [, address, symbol, dso] = frame,
				name = symbol.replace(/\+0x[0-9a-f]+$/, ''),
				known = name !== '[unknown]';
			if (dso === 'inlined') {
				inlined.push(name);
				sample.frames.unshift({ name, file: '', line: 0 });
			} else {
				if (known || !inlined.length)
					sample.frames.unshift({
						name: known
							? name
							: dso === '[unknown]'
								? /^0+$/.test(address)
									? '[unknown]'
									: `0x${BigInt('0x' + address).toString(16)}`
								: `${dso.replace(/.*\//, '')}+0x${BigInt('0x' + address).toString(16)}`,
						file: '',
						line: 0,
					});
				inlined = [];
			}
		}
	}
	const events = new Set(samples.map(({ event }) => event));
	if (events.size > 1) for (const one of samples) one.labels.event = one.event;
	return { types, samples };
}

export function readCpuprofile(file) {
	const { nodes, samples, timeDeltas, startTime, endTime } = JSON.parse(readFileSync(file, 'utf8')),
		parents = new Map(),
		byId = new Map();
	for (const node of nodes) {
		byId.set(node.id, node);
		for (const child of node.children ?? []) parents.set(child, node.id);
	}
	const stack = (id) => {
		const frames = [];
		for (let at = id; parents.has(at); at = parents.get(at)) {
			const { functionName, url, lineNumber } = byId.get(at).callFrame;
			frames.unshift({ name: functionName || '(anonymous)', file: url, line: lineNumber + 1 });
		}
		return frames;
	};
	let at = startTime;
	const timed = samples.map((id, i) => ({ id, at: (at += timeDeltas[i]) })).sort((a, b) => a.at - b.at);
	return {
		types: ['samples count', 'wall nanoseconds'],
		samples: timed.map(({ id, at }, i) => ({
			frames: stack(id),
			labels: {},
			time: BigInt(at) * 1000n,
			link: '',
			values: [1n, BigInt(Math.max(0, (timed[i + 1]?.at ?? endTime) - at)) * 1000n],
		})),
	};
}

// ---- comparing ----

// Rows of equal content, summed: { "content": [values] }. `with` says what counts: a subset of "files lines labels times links";
// types: which ones, by number; without: labels that do not count; rename: of names.
export function rows(profile, { holds, types = profile.types.map((_, i) => i), without = () => false, rename = (name) => name }) {
	const found = new Map();
	for (const { frames, labels, time, link, values } of profile.samples) {
		const key = JSON.stringify([
			frames.map(({ name, file, line }) => [rename(name), holds.has('files') ? file : '', holds.has('lines') ? line : 0]),
			holds.has('labels')
				? Object.entries(labels)
						.filter(([key]) => !without(key))
						.sort()
				: [],
			holds.has('times') ? String(time) : '',
			holds.has('links') ? link : '',
		]);
		const row = found.get(key) ?? types.map(() => 0n);
		types.forEach((type, i) => (row[i] += values[type] ?? 0n));
		found.set(key, row);
	}
	for (const [key, row] of found) if (row.every((value) => value === 0n)) found.delete(key);
	return found;
}
export function total(profile, type) {
	return profile.samples.reduce((sum, { values }) => sum + (values[type] ?? 0n), 0n);
}
// Nothing, or the first differences in words.
export function difference(a, b) {
	const found = [],
		show = (row) => (row ? row.join(' ') : 'none');
	for (const key of new Set([...a.keys(), ...b.keys()]))
		if (show(a.get(key)) !== show(b.get(key))) found.push(`${key.slice(-300)}: ${show(a.get(key))} and ${show(b.get(key))}`);
	return found.length ? `${found.length} of ${Math.max(a.size, b.size)} rows differ:\n${found.slice(0, 3).join('\n')}` : '';
}
