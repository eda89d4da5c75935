// SPDX-License-Identifier: Apache-2.0
/*
 * The time line of a page in a file: threads, samples and markers as columns (src/format/timeline.h says how they are written).
 * One typed array a column, so that a million markers are a few dozen MB and not a million objects; the values of a marker's
 * fields stay as bytes until somebody looks at them.
 *
 * All numbers are hostile until they are checked here: what names an entry of a table that is not there is an error.
 */
import * as T from '../base/texts';

export interface TimelineJson {
	start_ns: string;
	length_ns: number;
	threads: {
		name: string;
		process: string;
		host: string;
		pid: number | null;
		tid: number | null;
		samples: number;
		markers: number;
	}[];
	strings: string[];
	categories: [number, number][];
	schemas: { name: number; fields: [number, number, number][] }[];
	stacks: number;
	samples: number;
	markers: number;
	samples_out: number;
	untimed_out?: number;
	markers_out: number;
	until_ns: number;
}

export interface Thread {
	name: string; // for people; never empty
	process: string;
	host: string; // '' = there is but one
	pid: number | null;
	tid: number | null;
	group: number; // the first thread of the same process
	sampleFirst: number;
	sampleEnd: number;
	markerFirst: number;
	markerEnd: number;
}

export interface Schema {
	name: string;
	fields: { key: string; label: string; format: number }[];
}

export interface TypeColumns {
	values: Float64Array; // by sample
	nodes: Uint32Array; // by stack: of the type's flame tree
}

export const PHASE = { instant: 0, interval: 1, start: 2, end: 3 } as const;
export const FORMAT = { string: 0, integer: 1, decimal: 2, percentage: 3, duration: 4, bytes: 5, pid: 6, tid: 7 } as const;
const FLOW_ENDS = 4;
const OF_PROCESS = 8;

export interface Timeline {
	startNs: bigint; // unix time
	length: number; // ns
	until: number; // ns since the start: what has a time is all there up to here, if any of it is left out
	samplesOut: number;
	untimedOut: number; // samples without a time
	markersOut: number;
	threads: Thread[];
	strings: string[];
	categories: { name: string; color: string }[];
	schemas: Schema[];
	sampleCount: number;
	time: Float64Array; // ns since the start; -1 = unknown
	stack: Uint32Array;
	types: TypeColumns[];
	markerCount: number;
	thread: Uint32Array; // of each marker
	schema: Uint32Array;
	name: Uint32Array;
	category: Uint32Array;
	kind: Uint8Array;
	start: Float64Array; // of an end: its end
	duration: Float64Array;
	flow: Uint32Array;
	valueAt: Uint32Array; // where the values of a marker begin
	valueBytes: Uint8Array;
}

export type Value = string | number | null;

// ---- columns --------------------

class Reader {
	private at = 0;
	constructor(private bytes: Uint8Array) {}

	column(): Uint8Array {
		const { bytes, at } = this;
		if (at + 4 > bytes.length) throw new Error(T.broken.cutShort);
		const length = bytes[at] + bytes[at + 1] * 0x100 + bytes[at + 2] * 0x10000 + bytes[at + 3] * 0x1000000;
		if (at + 4 + length > bytes.length) throw new Error(T.broken.cutShort);
		this.at = at + 4 + length;
		return bytes.subarray(at + 4, this.at);
	}
}

// Beyond 32 bits shifts do not reach: the upper digits are added as a double, which is exact up to 2^53.
function readNumber(bytes: Uint8Array, cursor: { at: number }): number {
	let low = 0;
	let factor = 1;
	for (;;) {
		if (cursor.at >= bytes.length) throw new Error(T.broken.columnCutShort);
		const byte = bytes[cursor.at++];
		low += (byte & 0x7f) * factor;
		if (byte < 0x80) return low;
		factor *= 128;
	}
}

const unzigzag = (n: number): number => (n % 2 === 0 ? n / 2 : -(n + 1) / 2);

function fill<T extends { [index: number]: number; length: number }>(bytes: Uint8Array, out: T, what: string, limit = Infinity, signed = false): T {
	const cursor = { at: 0 };
	for (let i = 0; i < out.length; i++) {
		const n = readNumber(bytes, cursor);
		if (n >= limit) throw new Error(T.broken.notThere(what));
		out[i] = signed ? unzigzag(n) : n;
	}
	if (cursor.at !== bytes.length) throw new Error(T.broken.tooMany(what));
	return out;
}

function sum(values: Float64Array, first: number, end: number): void {
	for (let i = first + 1; i < end; i++) values[i] += values[i - 1];
}

// Where each marker's values begin; what they name is checked on the way.
function indexValues(bytes: Uint8Array, schema: Uint32Array, schemas: Schema[], strings: number): Uint32Array {
	const at = new Uint32Array(schema.length);
	const cursor = { at: 0 };
	for (let i = 0; i < schema.length; i++) {
		at[i] = cursor.at;
		for (let k = schemas[schema[i]].fields.length; k > 0; k--) {
			const kind = readNumber(bytes, cursor);
			if (kind === 3) cursor.at += 8;
			else if (kind > 3) throw new Error(T.broken.noValueKind);
			else if (kind > 0 && readNumber(bytes, cursor) >= strings && kind === 1) throw new Error(T.broken.noValueText);
		}
		if (cursor.at > bytes.length) throw new Error(T.broken.valuesCutShort);
	}
	return at;
}

// ---- reading --------------------

const count = (n: unknown): number => {
	if (typeof n !== 'number' || !(n >= 0) || n > 1e8) throw new Error(T.broken.noSuchCount);
	return Math.floor(n);
};
const text = (t: unknown): string => (typeof t === 'string' ? t : '');

function readThreads(json: TimelineJson): Thread[] {
	let [samples, markers] = [0, 0];
	const groups = new Map<string, number>();
	return json.threads.map((t, i) => {
		const key = t.pid === null ? `none ${i}` : `${t.pid} ${text(t.host)}`;
		if (!groups.has(key)) groups.set(key, i);
		const id = t.tid ?? t.pid;
		const thread: Thread = {
			name: text(t.name) || (id === null ? T.timeline.unknownThread : T.timeline.threadId(id)),
			process: text(t.process),
			host: text(t.host),
			pid: t.pid,
			tid: t.tid,
			group: groups.get(key)!,
			sampleFirst: samples,
			sampleEnd: (samples += count(t.samples)),
			markerFirst: markers,
			markerEnd: (markers += count(t.markers)),
		};
		return thread;
	});
}

function readSchemas(json: TimelineJson, strings: string[]): Schema[] {
	const at = (id: number): string => text(strings[id]);
	return json.schemas.map((s) => ({
		name: at(s.name),
		fields: s.fields.map(([key, label, format]) => ({ key: at(key), label: at(label) || at(key), format })),
	}));
}

export function readTimeline(json: TimelineJson, bytes: Uint8Array, nodes: number[]): Timeline {
	if (![json?.threads, json?.strings, json?.categories, json?.schemas].every(Array.isArray)) throw new Error(T.broken.notWhole);
	const threads = readThreads(json);
	const [samples, markers, stacks] = [count(json.samples), count(json.markers), count(json.stacks)];
	const last = threads[threads.length - 1];
	if ((last?.sampleEnd ?? 0) !== samples || (last?.markerEnd ?? 0) !== markers) throw new Error(T.broken.otherCounts);
	const schemas = readSchemas(json, json.strings);
	const reader = new Reader(bytes);
	const time = fill(reader.column(), new Float64Array(samples), 'times', Infinity, true);
	const stack = fill(reader.column(), new Uint32Array(samples), 'stack', stacks);
	const types = nodes.map((n) => ({
		values: fill(reader.column(), new Float64Array(samples), 'values', Infinity, true),
		nodes: fill(reader.column(), new Uint32Array(stacks), 'node', n),
	}));
	const schema = fill(reader.column(), new Uint32Array(markers), 'schema', schemas.length);
	const name = fill(reader.column(), new Uint32Array(markers), 'name', json.strings.length);
	const category = fill(reader.column(), new Uint32Array(markers), 'category', json.categories.length);
	const kind = fill(reader.column(), new Uint8Array(markers), 'kind', 16);
	const start = fill(reader.column(), new Float64Array(markers), 'starts', Infinity, true);
	const duration = fill(reader.column(), new Float64Array(markers), 'lengths');
	const flow = fill(reader.column(), new Uint32Array(markers), 'flow', markers + 1);
	const valueBytes = reader.column();
	const thread = new Uint32Array(markers);
	threads.forEach((t, i) => {
		sum(time, t.sampleFirst, t.sampleEnd);
		sum(start, t.markerFirst, t.markerEnd);
		thread.fill(i, t.markerFirst, t.markerEnd);
	});
	for (let i = 0; i < samples; i++) time[i]--;
	return {
		startNs: BigInt(/^-?\d{1,19}$/.test(json.start_ns) ? json.start_ns : 0),
		length: Math.max(1, Number(json.length_ns) || 0),
		until: Number(json.until_ns) || 0,
		samplesOut: Number(json.samples_out) || 0,
		untimedOut: Number(json.untimed_out) || 0,
		markersOut: Number(json.markers_out) || 0,
		threads,
		strings: json.strings.map(text),
		categories: json.categories.map(([n, c]) => ({ name: text(json.strings[n]), color: text(json.strings[c]) })),
		schemas,
		sampleCount: samples,
		time,
		stack,
		types,
		markerCount: markers,
		thread,
		schema,
		name,
		category,
		kind,
		start,
		duration,
		flow,
		valueAt: indexValues(valueBytes, schema, schemas, json.strings.length),
		valueBytes,
	};
}

// ---- asking --------------------

export const phaseOf = (t: Timeline, marker: number): number => t.kind[marker] & 3;
export const flowEnds = (t: Timeline, marker: number): boolean => (t.kind[marker] & FLOW_ENDS) !== 0;
export const isOfProcess = (t: Timeline, marker: number): boolean => (t.kind[marker] & OF_PROCESS) !== 0;

/** The values of a marker, one a field of its schema. */
export function valuesOf(t: Timeline, marker: number): Value[] {
	const bytes = t.valueBytes;
	const cursor = { at: t.valueAt[marker] };
	return t.schemas[t.schema[marker]].fields.map(() => {
		const kind = readNumber(bytes, cursor);
		if (kind === 1) return t.strings[readNumber(bytes, cursor)];
		if (kind === 2) return unzigzag(readNumber(bytes, cursor));
		if (kind !== 3) return null;
		cursor.at += 8;
		return new DataView(bytes.buffer, bytes.byteOffset + cursor.at - 8, 8).getFloat64(0, true);
	});
}

/** How many markers the recorder says to have lost: markers of the schema "lost markers" tell a number each. */
export function lostMarkers(t: Timeline): number {
	let lost = 0;
	const schema = t.schemas.map((s) => s.name === 'lost markers');
	if (!schema.includes(true)) return 0;
	for (let i = 0; i < t.markerCount; i++) if (schema[t.schema[i]]) lost += valuesOf(t, i).reduce<number>((n, v) => n + (typeof v === 'number' ? v : 0), 0);
	return lost;
}

/** The first index in [first, end) at which a rising column is at least (or, after, more than) a value. */
export function lowerBound(column: ArrayLike<number>, value: number, first: number, end: number): number {
	while (first < end) {
		const middle = (first + end) >>> 1;
		if (column[middle] < value) first = middle + 1;
		else end = middle;
	}
	return first;
}
