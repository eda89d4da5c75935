// SPDX-License-Identifier: Apache-2.0
// Recordings of Java made by hand (the format: src/format/jfr/jfr.c), with the events of Pyroscope's build of async-profiler and of the JDK, and the labels
// that Pyroscope's Java agent sends beside them. Nothing here is of the code under test.
import { varint, intField, bytesField } from '../harness.mjs';

const LABELS = { contextId: 'long', spanId: 'long', spanName: 'long', traceIdHi: 'long', traceIdLo: 'long' };
const SAMPLED = { startTime: 'long', sampledThread: 'Thread', stackTrace: 'StackTrace', state: 'ThreadState' };
const EVENT = { startTime: 'long', eventThread: 'Thread', stackTrace: 'StackTrace' };
const classes = {
	boolean: {},
	float: {},
	short: {},
	int: {},
	long: {},
	String: {},
	Class: { name: 'Symbol' },
	Thread: { osName: 'String', javaName: 'String', javaThreadId: 'long' },
	ClassLoader: { name: 'Symbol' },
	FrameType: { description: 'String' },
	ThreadState: { name: 'String' },
	StackTrace: { truncated: 'boolean', frames: 'StackFrame' },
	StackFrame: { method: 'Method', lineNumber: 'int', type: 'FrameType' },
	Method: { type: 'Class', name: 'Symbol' },
	Package: { name: 'Symbol' },
	Symbol: { string: 'String' },
	'jdk.ExecutionSample': { ...SAMPLED, ...LABELS },
	'jdk.NativeMethodSample': SAMPLED,
	'profiler.WallClockSample': { ...SAMPLED, ...LABELS, samples: 'int' },
	'jdk.ObjectAllocationInNewTLAB': { ...EVENT, allocationSize: 'long', tlabSize: 'long', ...LABELS },
	'jdk.ObjectAllocationOutsideTLAB': { ...EVENT, allocationSize: 'long', ...LABELS },
	'jdk.ObjectAllocationSample': { ...EVENT, weight: 'long' },
	'jdk.JavaMonitorEnter': { startTime: 'long', duration: 'long', eventThread: 'Thread', stackTrace: 'StackTrace', ...LABELS },
	'jdk.ThreadPark': { startTime: 'long', duration: 'long', eventThread: 'Thread', stackTrace: 'StackTrace' },
	'profiler.LiveObject': { ...EVENT, allocationSize: 'long' },
	'profiler.Malloc': { ...EVENT, size: 'long' },
	'jdk.ActiveSetting': { startTime: 'long', id: 'long', name: 'String', value: 'String' },
};
const fullName = (name) =>
	name.includes('.') || /^[a-z]/.test(name) ? name : ['String', 'Class', 'Thread'].includes(name) ? `java.lang.${name}` : `jdk.types.${name}`;
const ids = Object.fromEntries(Object.keys(classes).map((name, i) => [name, i + 10]));
const isConstant = (type) => /^[A-Z]/.test(type) && type !== 'String' && type !== 'StackFrame';

// As JFR has numbers: seven bits a byte, the lowest first; a ninth byte has eight.
const number = (value) => {
	let n = BigInt.asUintN(64, BigInt(value));
	const out = [];
	for (; n >= 128n && out.length < 8; n >>= 7n) out.push(Number(n & 127n) | 128);
	return [...out, Number(n)];
};
const text = (value) => (value === undefined ? [0] : [3, ...number(Buffer.byteLength(value)), ...Buffer.from(value)]);
// An event, a list of constants ...: its size always takes four bytes.
const sized = (body) => [...[0, 1, 2, 3].map((i) => (((body.length + 4) >> (7 * i)) & 127) | (i < 3 ? 128 : 0)), ...body];

function metadata() {
	const strings = [];
	const string = (value) => number(strings.includes(value) ? strings.indexOf(value) : strings.push(value) - 1);
	const element = (name, attributes, children) => [
		...string(name),
		...number(Object.keys(attributes).length),
		...Object.entries(attributes).flatMap(([key, value]) => [...string(key), ...string(String(value))]),
		...number(children.length),
		...children.flat(),
	];
	const field = ([name, type]) =>
		element('field', { name, class: ids[type], ...(isConstant(type) ? { constantPool: true } : {}), ...(type === 'StackFrame' ? { dimension: 1 } : {}) }, []);
	const all = Object.entries(classes).map(([name, fields]) => element('class', { name: fullName(name), id: ids[name] }, Object.entries(fields).map(field)));
	const tree = element('root', {}, [element('metadata', {}, all), element('region', {}, [])]);
	return sized([0, 0, 0, 0, ...number(strings.length), ...strings.flatMap(text), ...tree]);
}

// One chunk. settings: {name: value}; events: [[NAME, {field: value}], ...], with stackTrace as ["leaf class.method", ..., "root"], state by its name,
// numbers otherwise; what is missing is 0.
export function recording({ settings = {}, events = [], startNs = 1700000000000000000n, ticksPerSecond = 1000000000 }) {
	const pools = {};
	// The key of a constant, which is added when it is new; keys begin at 1.
	const constant = (type, key, encode) => {
		pools[type] ??= new Map();
		if (!pools[type].has(key)) {
			const entry = { number: pools[type].size + 1, bytes: undefined };
			pools[type].set(key, entry);
			entry.bytes = encode();
		}
		return pools[type].get(key).number;
	};
	const named = (type, name) => constant(type, name, () => text(name));
	const method = (frame) => {
		const dot = frame.lastIndexOf('.');
		return constant('Method', frame, () => [
			...number(constant('Class', frame.slice(0, dot), () => number(named('Symbol', frame.slice(0, dot))))),
			...number(named('Symbol', frame.slice(dot + 1))),
		]);
	};
	const stack = (frames) =>
		constant('StackTrace', frames.join('\0'), () => [
			0,
			...number(frames.length),
			...frames.flatMap((frame) => [...number(method(frame)), ...number(frame.length), ...number(named('FrameType', 'JIT compiled'))]),
		]);
	const value = (type, given) =>
		type === 'String'
			? text(given)
			: type === 'Thread'
				? number(given ? constant('Thread', given, () => [...text(undefined), ...text(given), ...number(pools.Thread.size)]) : 0)
				: type === 'StackTrace'
					? number(given ? stack(given) : 0)
					: type === 'ThreadState'
						? number(given ? named('ThreadState', given) : 0)
						: number(given ?? 0);
	const event = ([name, fields]) => sized([...number(ids[name]), ...Object.entries(classes[name]).flatMap(([key, type]) => value(type, fields[key]))]);
	const body = [...Object.entries(settings).map(([name, v]) => ['jdk.ActiveSetting', { name, value: v }]), ...events].map(event);
	const constants = sized([
		...[1, 0, 0, 0, 0],
		...number(Object.keys(pools).length),
		...Object.entries(pools).flatMap(([type, entries]) => [
			...number(ids[type]),
			...number(entries.size),
			...[...entries.values()].flatMap((entry) => [...number(entry.number), ...entry.bytes]),
		]),
	]);
	const parts = [Buffer.alloc(68), ...body.map((b) => Buffer.from(b)), Buffer.from(metadata()), Buffer.from(constants)];
	const out = Buffer.concat(parts);
	const constantsAt = out.length - constants.length,
		metadataAt = constantsAt - parts.at(-2).length;
	out.write('FLR\0', 'latin1');
	out.writeUInt16BE(2, 4);
	[out.length, constantsAt, metadataAt, startNs, 10000000000n, 0, ticksPerSecond].forEach((n, i) => out.writeBigUInt64BE(BigInt(n), 8 + 8 * i));
	out.writeUInt32BE(1, 64);
	return out;
}

// A LabelsSnapshot: contexts {id: {label: value}}, and names of spans {id: name}.
export function labelsSnapshot(contexts, spans = {}) {
	const strings = Object.entries(spans).map(([id, name]) => [Number(id), name]);
	const string = (value) => {
		let found = strings.find(([, t]) => t === value);
		if (!found) strings.push((found = [1000 + strings.length, value]));
		return found[0];
	};
	const entry = (key, value) => [...intField(1, key), ...value];
	const out = Object.entries(contexts).flatMap(([id, labels]) => {
		const pairs = Object.entries(labels).flatMap(([name, value]) => bytesField(1, entry(string(name), intField(2, string(value)))));
		return bytesField(1, entry(id, bytesField(2, pairs)));
	});
	return Buffer.from([...out, ...strings.flatMap(([id, value]) => bytesField(2, entry(id, bytesField(2, value))))]);
}

// What a client sends to /ingest: a form, its content type.
export function form(fields) {
	const boundary = '6c1f1b1e-jfr-boundary';
	const parts = Object.entries(fields).map(([name, data]) =>
		Buffer.concat([
			Buffer.from(`--${boundary}\r\nContent-Disposition: form-data; name="${name}"; filename="${name}"\r\nContent-Length: ${data.length}\r\n\r\n`),
			Buffer.from(data),
			Buffer.from('\r\n'),
		]),
	);
	return { body: Buffer.concat([...parts, Buffer.from(`--${boundary}--\r\n`)]), type: `multipart/form-data; boundary=${boundary}` };
}
