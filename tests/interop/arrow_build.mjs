// SPDX-License-Identifier: Apache-2.0
// Arrow IPC streams put together buffer by buffer, for encodings that Apache Arrow's library for JavaScript does not write (run ends,
// list views, dictionaries of structs, compressed buffers). The flatbuffers are written by that library's own generated code; the
// buffers as https://arrow.apache.org/docs/format/Columnar.html has them.
import { createRequire } from 'node:module';

const require = createRequire(new URL('../package.json', import.meta.url));
const { Builder } = require('flatbuffers');
const fb = (file, name) => require(`apache-arrow/fb/${file}`)[name];
const Message = fb('message', 'Message'),
	Schema = fb('schema', 'Schema'),
	Field = fb('field', 'Field'),
	KeyValue = fb('key-value', 'KeyValue');
const Int = fb('int', 'Int'),
	Utf8 = fb('utf8', 'Utf8'),
	Binary = fb('binary', 'Binary'),
	Bool = fb('bool', 'Bool'),
	Utf8View = fb('utf8-view', 'Utf8View');
const FixedSizeBinary = fb('fixed-size-binary', 'FixedSizeBinary'),
	Timestamp = fb('timestamp', 'Timestamp'),
	List = fb('list', 'List');
const ListView = fb('list-view', 'ListView'),
	Struct = fb('struct-', 'Struct_'),
	RunEndEncoded = fb('run-end-encoded', 'RunEndEncoded');
const RecordBatch = fb('record-batch', 'RecordBatch'),
	DictionaryBatch = fb('dictionary-batch', 'DictionaryBatch'),
	BodyCompression = fb('body-compression', 'BodyCompression');
const DictionaryEncoding = fb('dictionary-encoding', 'DictionaryEncoding'),
	Type = fb('type', 'Type'),
	MessageHeader = fb('message-header', 'MessageHeader');

// ---- columns: { length, nulls, buffers, children: [[name, column]], type: builder => offset, typeNumber, dictionary, views }
const empty = Buffer.alloc(0);
function bits(flags) {
	const out = Buffer.alloc((flags.length + 7) >> 3);
	flags.forEach((flag, i) => {
		if (flag) out[i >> 3] |= 1 << (i & 7);
	});
	return out;
}
const isNull = (value) => value === null || value === undefined;
const validity = (values) => (values.some(isNull) ? bits(values.map((value) => !isNull(value))) : empty);
const nullsOf = (values) => values.filter(isNull).length;
function numbers(values, width) {
	const out = Buffer.alloc(values.length * width);
	values.forEach((value, i) => {
		const n = BigInt.asUintN(width * 8, BigInt(value ?? 0));
		for (let b = 0; b < width; b++) out[i * width + b] = Number((n >> BigInt(8 * b)) & 255n);
	});
	return out;
}
const plain = (typeNumber, type, values, buffers, more = {}) => ({
	typeNumber,
	type,
	length: values.length,
	nulls: nullsOf(values),
	buffers: [validity(values), ...buffers],
	children: [],
	...more,
});
export const int = (bitWidth, signed, values) =>
	plain(Type.Int, (b) => Int.createInt(b, bitWidth, signed), values, [numbers(values, bitWidth / 8)], { bitWidth, signed });
export const int64 = (values) => int(64, true, values);
export const uint64 = (values) => int(64, false, values);
export const bool = (values) =>
	plain(
		Type.Bool,
		(b) => {
			Bool.startBool(b);
			return Bool.endBool(b);
		},
		values,
		[bits(values)],
	);
function texts(typeNumber, type, values) {
	const all = values.map((value) => (isNull(value) ? empty : Buffer.from(value))),
		offsets = [0];
	all.forEach((text) => offsets.push(offsets.at(-1) + text.length));
	return plain(typeNumber, type, values, [numbers(offsets, 4), Buffer.concat(all)]);
}
export const utf8 = (values) =>
	texts(
		Type.Utf8,
		(b) => {
			Utf8.startUtf8(b);
			return Utf8.endUtf8(b);
		},
		values,
	);
export const binary = (values) =>
	texts(
		Type.Binary,
		(b) => {
			Binary.startBinary(b);
			return Binary.endBinary(b);
		},
		values,
	);
export function utf8View(values) {
	const views = [],
		long = [];
	let at = 0;
	for (const value of values) {
		const text = Buffer.from(value ?? ''),
			view = Buffer.alloc(16);
		view.writeInt32LE(text.length, 0);
		text.copy(view, 4, 0, Math.min(text.length, text.length <= 12 ? 12 : 4));
		if (text.length > 12) {
			view.writeInt32LE(0, 8);
			view.writeInt32LE(at, 12);
			long.push(text);
			at += text.length;
		}
		views.push(view);
	}
	return plain(
		Type.Utf8View,
		(b) => {
			Utf8View.startUtf8View(b);
			return Utf8View.endUtf8View(b);
		},
		values,
		[Buffer.concat(views), Buffer.concat(long)],
		{ views: 1 },
	);
}
export const fixed = (width, values) =>
	plain(Type.FixedSizeBinary, (b) => FixedSizeBinary.createFixedSizeBinary(b, width), values, [
		Buffer.concat(values.map((value) => value ?? Buffer.alloc(width))),
	]);
export const timestamp = (unit, values) =>
	plain(
		Type.Timestamp,
		(b) => {
			const zone = b.createString('UTC');
			return Timestamp.createTimestamp(b, ['s', 'ms', 'us', 'ns'].indexOf(unit), zone);
		},
		values,
		[numbers(values, 8)],
	);
export const struct = (children, length = Object.values(children)[0].length) => ({
	typeNumber: Type.Struct_,
	type: (b) => {
		Struct.startStruct_(b);
		return Struct.endStruct_(b);
	},
	length,
	nulls: 0,
	buffers: [empty],
	children: Object.entries(children),
});
export const list = (lengths, items) => {
	const offsets = [0];
	lengths.forEach((length) => offsets.push(offsets.at(-1) + (length ?? 0)));
	return plain(
		Type.List,
		(b) => {
			List.startList(b);
			return List.endList(b);
		},
		lengths,
		[numbers(offsets, 4)],
		{ children: [['item', items]] },
	);
};
// spans: [offset, size], or null
export const listView = (spans, items) =>
	plain(
		Type.ListView,
		(b) => {
			ListView.startListView(b);
			return ListView.endListView(b);
		},
		spans,
		[
			numbers(
				spans.map((span) => span?.[0]),
				4,
			),
			numbers(
				spans.map((span) => span?.[1]),
				4,
			),
		],
		{ children: [['item', items]] },
	);
export const ree = (ends, values) => ({
	typeNumber: Type.RunEndEncoded,
	type: (b) => {
		RunEndEncoded.startRunEndEncoded(b);
		return RunEndEncoded.endRunEndEncoded(b);
	},
	length: ends.at(-1) ?? 0,
	nulls: 0,
	buffers: [],
	children: [
		['run_ends', int(32, true, ends)],
		['values', values],
	],
});
// A value for each row, as run ends and what `make` makes of the values of the runs.
export function runs(values, make) {
	const ends = [],
		kept = [];
	values.forEach((value, i) => {
		if (i && value === kept.at(-1)) ends[ends.length - 1] = i + 1;
		else {
			ends.push(i + 1);
			kept.push(value);
		}
	});
	return ree(ends, make(kept));
}
let dictionaries = 0;
// values: a column; more: columns that come as deltas
export const dictionary = (indices, values, more = []) => ({
	...int(32, false, indices),
	typeNumber: values.typeNumber,
	type: values.type,
	children: [],
	dictionary: { id: dictionaries++, values, more, fields: values.children },
});
export const textDictionary = (values, make = utf8) => {
	const distinct = [...new Set(values.filter((value) => !isNull(value)))];
	return dictionary(
		values.map((value) => (isNull(value) ? null : distinct.indexOf(value))),
		make(distinct),
	);
};

// ---- messages
function writeField(b, name, column) {
	const fields = column.dictionary?.fields ?? column.children;
	const children = Field.createChildrenVector(
		b,
		fields.map(([child, of]) => writeField(b, child, of)),
	);
	const text = b.createString(name),
		type = column.type(b);
	let encoding = 0;
	if (column.dictionary) {
		const index = Int.createInt(b, 32, false);
		DictionaryEncoding.startDictionaryEncoding(b);
		DictionaryEncoding.addId(b, BigInt(column.dictionary.id));
		DictionaryEncoding.addIndexType(b, index);
		encoding = DictionaryEncoding.endDictionaryEncoding(b);
	}
	Field.startField(b);
	Field.addName(b, text);
	Field.addNullable(b, true);
	Field.addTypeType(b, column.typeNumber);
	Field.addType(b, type);
	if (encoding) Field.addDictionary(b, encoding);
	Field.addChildren(b, children);
	return Field.endField(b);
}
const pad = (buffer) => Buffer.concat([buffer, Buffer.alloc(-buffer.length & 7)]);
function message(b, headerType, header, body) {
	Message.startMessage(b);
	Message.addVersion(b, 4);
	Message.addHeaderType(b, headerType);
	Message.addHeader(b, header);
	Message.addBodyLength(b, BigInt(body.length));
	b.finish(Message.endMessage(b));
	const metadata = pad(Buffer.from(b.asUint8Array())),
		prefix = Buffer.alloc(8, 255);
	prefix.writeUInt32LE(metadata.length, 4);
	return Buffer.concat([prefix, metadata, body]);
}
function writeBatch(b, columns, rows, compression) {
	const nodes = [],
		buffers = [],
		views = [],
		body = [];
	let at = 0;
	const walk = (column) => {
		nodes.push([column.length, column.nulls]);
		for (let buffer of column.buffers) {
			if (buffer.length && compression) {
				const length = Buffer.alloc(8);
				length.writeBigInt64LE(BigInt(buffer.length));
				buffer = Buffer.concat([length, compression.pack(buffer)]);
			}
			buffers.push([at, buffer.length]);
			body.push(pad(buffer));
			at += body.at(-1).length;
		}
		if (column.views && !column.dictionary) views.push(column.views);
		column.children.forEach(([, child]) => walk(child));
	};
	columns.forEach(walk);
	const pairs = (start, list) => {
		start(b, list.length);
		[...list].reverse().forEach(([x, y]) => {
			b.prep(8, 16);
			b.writeInt64(BigInt(y));
			b.writeInt64(BigInt(x));
		});
		return b.endVector();
	};
	const n = pairs(RecordBatch.startNodesVector, nodes),
		u = pairs(RecordBatch.startBuffersVector, buffers);
	const v = RecordBatch.createVariadicBufferCountsVector(b, views.map(BigInt));
	const c = compression ? BodyCompression.createBodyCompression(b, compression.codec, 0) : 0;
	RecordBatch.startRecordBatch(b);
	RecordBatch.addLength(b, BigInt(rows));
	RecordBatch.addNodes(b, n);
	RecordBatch.addBuffers(b, u);
	if (c) RecordBatch.addCompression(b, c);
	RecordBatch.addVariadicBufferCounts(b, v);
	return [RecordBatch.endRecordBatch(b), Buffer.concat(body)];
}
function dictionaryMessages(column, compression) {
	const out = [];
	const fields = column.dictionary ? column.dictionary.fields : column.children;
	fields.forEach(([, child]) => out.push(...dictionaryMessages(child, compression)));
	[column.dictionary?.values, ...(column.dictionary?.more ?? [])].filter(Boolean).forEach((values, delta) => {
		const b = new Builder(1024),
			[batch, body] = writeBatch(b, [values], values.length, compression);
		DictionaryBatch.startDictionaryBatch(b);
		DictionaryBatch.addId(b, BigInt(column.dictionary.id));
		DictionaryBatch.addData(b, batch);
		DictionaryBatch.addIsDelta(b, delta > 0);
		out.push(message(b, MessageHeader.DictionaryBatch, DictionaryBatch.endDictionaryBatch(b), body));
	});
	return out;
}
// columns: { name: column }. compression: { codec: 0 (LZ4 frames) or 1 (zstd), pack }
export function arrowStream(columns, { metadata = {}, compression } = {}) {
	const b = new Builder(1024),
		list = Object.entries(columns),
		rows = list[0][1].length;
	const pairs = Object.entries(metadata).map(([key, value]) => KeyValue.createKeyValue(b, b.createString(key), b.createString(value)));
	const fields = Schema.createFieldsVector(
			b,
			list.map(([name, column]) => writeField(b, name, column)),
		),
		custom = Schema.createCustomMetadataVector(b, pairs);
	Schema.startSchema(b);
	Schema.addEndianness(b, 0);
	Schema.addFields(b, fields);
	Schema.addCustomMetadata(b, custom);
	const out = [message(b, MessageHeader.Schema, Schema.endSchema(b), empty)];
	list.forEach(([, column]) => out.push(...dictionaryMessages(column, compression)));
	const batch = new Builder(1024),
		[header, body] = writeBatch(
			batch,
			list.map(([, column]) => column),
			rows,
			compression,
		);
	out.push(message(batch, MessageHeader.RecordBatch, header, body), Buffer.from([255, 255, 255, 255, 0, 0, 0, 0]));
	return Buffer.concat(out);
}
