// SPDX-License-Identifier: Apache-2.0
/*
 * A profile as the server sends it to this page: format=columns (docs/api.md has the layout, src/render/flame_columns.c the reasons).
 * A head in JSON, then numbers as varints, column by column: each is one tight loop here, and a million nodes take some 30 ms.
 * Whatever they are, no more is allocated than a small multiple of the bytes that came, and every number that is an index is one.
 * (Rejected: a worker. It would have to hand over the same arrays, and the page has nothing else to do meanwhile.)
 */
import * as T from '../base/texts';
import type { QueryResponse } from './responses';

const MAGIC = [0x77, 0x69, 0x63, 0x6b, 0x66, 0x6c, 0x6d]; // "wickflm"
const VERSION = 1;
const HEAD_AT = 12;

const broken = (text: string) => new Error(text);

class Reader {
	at = 0;
	constructor(readonly bytes: Uint8Array) {}

	get left(): number {
		return this.bytes.length - this.at;
	}

	// Up to 64 bits; above 2^53 the nearest double.
	varint(): number {
		let value = 0;
		for (let scale = 1, i = 0; i < 10; i++, scale *= 128) {
			if (this.at >= this.bytes.length) throw broken(T.wire.cutShort);
			const byte = this.bytes[this.at++];
			value += (byte & 127) * scale;
			if (byte < 128) return value;
		}
		throw broken(T.wire.endless);
	}

	count(what: string, bytesEach: number): number {
		const value = this.varint();
		if (value * bytesEach > this.left) throw broken(T.wire.fewer(what));
		return value;
	}

	// Fills the column with numbers up to max.
	column(out: Uint32Array | Uint8Array, max: number, what: string): void {
		const { bytes } = this;
		for (let i = 0; i < out.length; i++) {
			let value = bytes[this.at];
			if (value < 128) this.at++;
			else value = this.varint(); // more than a byte, or the end
			if (value > max) throw broken(T.wire.notThere(what));
			out[i] = value;
		}
	}

	// Zigzag, in the unit. The sign is the lowest bit, so it is not lost with those that a double has no room for.
	signed(out: Float64Array, unit: number): void {
		const { bytes } = this;
		for (let i = 0; i < out.length; i++) {
			const low = bytes[this.at];
			let half = low >> 1;
			if (low < 128) this.at++;
			else {
				const value = this.varint();
				half = (value - (low & 127)) / 2 + ((low & 127) >> 1);
			}
			out[i] = unit * (low & 1 ? -half - 1 : half);
		}
	}
}

/*
 * All at once, then cut: a decoder that is called for each of 100,000 names takes longer than all else together. `lengths` are in
 * bytes; those in UTF-16 follow from the bytes that are not in the middle of a character.
 */
function readStrings(blob: Uint8Array, lengths: Uint32Array): string[] {
	const strings = new Array<string>(lengths.length);
	let text: string;
	try {
		text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(blob);
	} catch {
		throw broken(T.wire.notUtf8);
	}
	const ascii = text.length === blob.length;
	for (let i = 0, byte = 0, unit = 0; i < lengths.length; i++) {
		let size = lengths[i];
		const end = byte + size;
		if (!ascii) {
			size = 0;
			for (let at = byte; at < end; at++) if ((blob[at] & 0xc0) !== 0x80) size += blob[at] >= 0xf0 ? 2 : 1;
		}
		strings[i] = text.slice(unit, unit + size);
		byte = end;
		unit += size;
	}
	return strings;
}

// Nodes come in pre-order; how many steps up from the one before says under which each is.
function readParents(reader: Reader, parent: Int32Array): void {
	const { bytes } = reader;
	if (reader.varint() !== 0) throw broken(T.wire.noRoot);
	for (let i = 1, last = 0; i < parent.length; i++) {
		let up = bytes[reader.at];
		if (up < 128) reader.at++;
		else up = reader.varint();
		for (; up > 0 && last > 0; up--) last = parent[last];
		if (up > 0) throw broken(T.wire.twoRoots);
		parent[i] = last;
		last = i;
	}
}

type Columns = QueryResponse['flame']['nodes'];

function readNodes(reader: Reader, strings: number, frames: number, nodes: number, unit: number): Columns {
	const column = (what: string, max: number, length = frames) => {
		const out = new Uint32Array(length);
		reader.column(out, max, what);
		return out;
	};
	const names = column('name', strings - 1);
	const files = column('file', strings - 1);
	const lines = column('line', 2 ** 32 - 1);
	const binaries = column('binary', strings - 1);
	const kinds = new Uint8Array(frames);
	reader.column(kinds, 15, 'kind');
	const parent = new Int32Array(nodes);
	readParents(reader, parent);
	const frame = column('frame', frames - 1, nodes);
	const self = new Float64Array(nodes);
	reader.signed(self, unit);
	const [name, file, line, binary] = [names, files, lines, binaries].map((of) => {
		const out = new Uint32Array(nodes);
		for (let i = 0; i < nodes; i++) out[i] = of[frame[i]];
		return out;
	});
	const kind = new Uint8Array(nodes);
	for (let i = 0; i < nodes; i++) kind[i] = kinds[frame[i]];
	return { parent, name, file, line, binary, kind, self };
}

export const FLAME_TYPE = 'application/vnd.wick.flame';

export function readFlame(response: ArrayBuffer): QueryResponse {
	const bytes = new Uint8Array(response);
	if (bytes.length < HEAD_AT || MAGIC.some((byte, i) => bytes[i] !== byte)) throw broken(T.wire.none);
	if (bytes[MAGIC.length] !== VERSION) throw broken(T.wire.version);
	const size = new DataView(response).getUint32(MAGIC.length + 1, true);
	if (size > bytes.length - HEAD_AT) throw broken(T.wire.headCutShort);
	const head = JSON.parse(new TextDecoder().decode(bytes.subarray(HEAD_AT, HEAD_AT + size))) as QueryResponse | null;
	if (typeof head?.flame !== 'object' || head.flame === null) throw broken(T.wire.noHead);

	const reader = new Reader(bytes.subarray(HEAD_AT + size));
	const strings = reader.count('strings', 1);
	const frames = reader.count('frames', 5);
	const nodes = reader.count('nodes', 3);
	const unit = reader.varint();
	if (nodes === 0) throw broken(T.broken.noNodes);
	const lengths = new Uint32Array(strings);
	reader.column(lengths, bytes.length, 'string');
	let sum = 0;
	for (let i = 0; i < strings; i++) sum += lengths[i];
	if (sum > reader.left) throw broken(T.wire.fewer('strings'));
	const texts = readStrings(reader.bytes.subarray(reader.at, reader.at + sum), lengths);
	reader.at += sum;
	const columns = readNodes(reader, strings, frames, nodes, unit);
	if (reader.left > 0) throw broken(T.wire.tooLong);
	return { ...head, flame: { ...head.flame, strings: texts, nodes: columns } };
}
