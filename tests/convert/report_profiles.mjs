// SPDX-License-Identifier: Apache-2.0
// The profiles of which google/pprof's own reports are in the test data (driver_test.go builds them in memory): the same samples, functions and labels,
// written as pprof files. Usage: node report_profiles.mjs DIRECTORY
//
// Their functions have mangled names, of which the reports show readable ones. NAME.pb has both; NAME.mangled.pb has the mangled ones only.
import { mkdirSync, writeFileSync } from 'node:fs';

const varint = (value) => {
	const bytes = [];
	let v = BigInt.asUintN(64, BigInt(value));
	do {
		bytes.push(Number(v & 127n) | (v > 127n ? 128 : 0));
		v >>= 7n;
	} while (v);
	return bytes;
};
const number = (field, value) => (value ? [...varint(field << 3), ...varint(value)] : []);
const message = (field, bytes) => [...varint((field << 3) | 2), ...varint(bytes.length), ...bytes];

function encode(profile) {
	const strings = [''],
		index = new Map([['', 0]]);
	const string = (text) => {
		if (!index.has(text)) {
			index.set(text, strings.length);
			strings.push(text);
		}
		return index.get(text);
	};
	const out = [];
	for (const [type, unit] of profile.types) out.push(...message(1, [...number(1, string(type)), ...number(2, string(unit))]));
	for (const sample of profile.samples) {
		const labels = Object.entries(sample.labels ?? {}).flatMap(([key, values]) =>
			[values].flat().flatMap((v) => message(3, [...number(1, string(key)), ...(typeof v === 'string' ? number(2, string(v)) : number(3, v))])),
		);
		out.push(...message(2, [...message(1, sample.stack.flatMap(varint)), ...message(2, sample.values.flatMap(varint)), ...labels]));
	}
	const m = profile.mapping;
	out.push(
		...message(3, [
			...number(1, 1),
			...number(2, 0x1000),
			...number(3, 0x4000),
			...number(5, string(m.file ?? '')),
			...number(6, string(m.buildId ?? '')),
			...number(7, 1),
			...number(8, 1),
			...number(9, 1),
			...number(10, 1),
		]),
	);
	for (const [id, ...lines] of profile.locations)
		out.push(
			...message(4, [
				...number(1, id),
				...number(2, 1),
				...number(3, profile.addresses?.[id] ?? (id % 1000) + 0x1000 * Math.floor(id / 1000)),
				...lines.flatMap(([f, line]) => message(4, [...number(1, f), ...number(2, line)])),
			]),
		);
	for (const [id, name, systemName, file] of profile.functions)
		out.push(...message(5, [...number(1, id), ...number(2, string(name)), ...number(3, string(systemName)), ...number(4, string(file))]));
	const tail = [];
	if (profile.dropFrames) tail.push(...number(7, string(profile.dropFrames)));
	tail.push(
		...number(10, profile.duration ?? 0),
		...message(11, [...number(1, string(profile.periodType[0])), ...number(2, string(profile.periodType[1]))]),
		...number(12, profile.period),
	);
	for (const comment of profile.comments ?? []) tail.push(...number(13, string(comment)));
	for (const text of strings) out.push(...message(6, [...Buffer.from(text)]));
	return Buffer.from([...out, ...tail]);
}

const source = (n) => `testdata/file${n}000.src`;
const readable = { mangledNEW: 'operator new', mangledMALLOC: 'malloc' };
const functions = (first) => ['1000', '2000', '2001', '3000', '3001', '3002'].map((n, i) => [first + i, `line${n}`, `mangled${n}`, source(n[0])]);
const cpuTypes = [
	['samples', 'count'],
	['cpu', 'milliseconds'],
];

const cpu = {
	types: cpuTypes,
	periodType: ['cpu', 'milliseconds'],
	period: 1,
	duration: 10e9,
	mapping: { file: '/path/to/testbinary' },
	functions: functions(1),
	locations: [
		[1000, [1, 1]],
		[2000, [3, 9], [2, 4]],
		[3000, [6, 2], [5, 5], [4, 6]],
		[3001, [5, 8], [4, 9]],
		[3002, [6, 5], [4, 9]],
	],
	samples: [
		{ stack: [1000, 2000, 3000], values: [1000, 1000], labels: { key1: 'tag1', key2: 'tag1' } },
		{ stack: [1000, 3001], values: [100, 100], labels: { key1: 'tag2', key3: 'tag2' } },
		{ stack: [2000, 3002], values: [10, 10], labels: { key1: 'tag3', key2: 'tag2' } },
		{ stack: [3000], values: [10, 10], labels: { key1: 'tag4', key2: 'tag1' } },
	],
};
const cpusmall = {
	...cpu,
	functions: [],
	locations: [1000, 2000, 3000, 4000, 5000].map((id) => [id]),
	samples: [[1000, 2000, 3000], [4000, 2000, 5000], [3000], [5000]].map((stack) => ({ stack, values: [1000, 1000] })),
};
const heapStacks = [[1000, 2000, 3000], [1000, 3001], [2000, 3002], [3000]];
const heapValues = [
		[10, 1024000],
		[20, 4096000],
		[40, 65536000],
		[80, 32768000],
	],
	heapBytes = [102400, 204800, 1638400, 409600];
const heap = {
	types: [
		['inuse_objects', 'count'],
		['inuse_space', 'bytes'],
	],
	periodType: ['allocations', 'bytes'],
	period: 524288,
	comments: ['comment', '#hidden comment'],
	mapping: { buildId: 'buildid' },
	dropFrames: '.*operator new.*|malloc',
	functions: [
		[1, 'pruneme', 'pruneme', 'prune.h'],
		...functions(2),
		[8, readable.mangledMALLOC, 'mangledMALLOC', 'malloc.h'],
		[9, readable.mangledNEW, 'mangledNEW', 'new.h'],
	],
	locations: [
		[1000, [1, 100], [8, 100], [2, 1]],
		[2000, [9, 100], [4, 2], [3, 3]],
		[3000, [9, 100], [7, 3], [6, 2], [5, 4]],
		[3001, [1, 100], [9, 100], [6, 2], [5, 4]],
		[3002, [7, 3], [5, 4]],
	],
	samples: heapStacks.map((stack, i) => ({ stack, values: heapValues[i], labels: { bytes: heapBytes[i] } })),
};
const relabelled = (labels) => heap.samples.map((sample, i) => ({ ...sample, labels: labels(heapBytes[i], i) }));
const contention = {
	types: [
		['contentions', 'count'],
		['delay', 'nanoseconds'],
	],
	periodType: ['contentions', 'count'],
	period: 524288,
	comments: ['Comment #1', 'Comment #2'],
	mapping: { buildId: 'buildid-contention' },
	functions: functions(1),
	locations: [
		[1000, [1, 1]],
		[2000, [3, 2], [2, 3]],
		[3000, [6, 2], [5, 3], [4, 5]],
		[3001, [5, 3], [4, 5]],
		[3002, [6, 4], [4, 3]],
	],
	samples: heapStacks.map((stack, i) => ({
		stack,
		values: [
			[10, 10240000],
			[20, 40960000],
			[40, 65536000],
			[80, 32768000],
		][i],
	})),
};
const longNames = [
	['path/to/package1.object.function1', 'path/to/package1.go'],
	['(anonymous namespace)::Bar::Foo', 'a/long/path/to/package2.cc'],
	['java.bar.foo.FooBar.run(java.lang.Runnable)', 'FooBar.java'],
];
const profiles = {
	cpu,
	cpusmall,
	heap,
	contention,
	unknown: cpu,
	heap_alloc: {
		...heap,
		types: [
			['alloc_objects', 'count'],
			['alloc_space', 'bytes'],
		],
	},
	heap_request: { ...heap, samples: relabelled((bytes) => ({ bytes, request: bytes })) },
	heap_sizetags: { ...heap, samples: relabelled((bytes) => ({ bytes: [bytes, 2, 4, 8, 16, 32, 64, 128, 256] })) },
	heap_tags: { ...heap, samples: relabelled((bytes, i) => (i % 2 ? { bytes } : { bytes, request: bytes, key1: 'tag' })) },
	long_name_funcs: {
		...cpu,
		functions: longNames.map(([name, file], i) => [i + 1, name, name, file]),
		locations: [
			[1000, [1, 1]],
			[2000, [2, 4]],
			[3000, [3, 9]],
		],
		samples: [
			[[1000, 2000, 3000], 1000],
			[[1000, 2000], 100],
			[[3000], 10],
		].map(([stack, value]) => ({ stack, values: [value, value] })),
	},
};

const directory = process.argv[2];
mkdirSync(directory, { recursive: true });
for (const [name, profile] of Object.entries(profiles)) {
	writeFileSync(`${directory}/${name}.pb`, encode(profile));
	const mangled = { ...profile, functions: profile.functions.map(([id, , systemName, file]) => [id, systemName, systemName, file]) };
	writeFileSync(`${directory}/${name}.mangled.pb`, encode(mangled));
}
