// SPDX-License-Identifier: Apache-2.0
// Tables of Wick (Arrow, Parquet, CSV) as other programs read them: Apache Arrow's library and DuckDB.
import { writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';

const arrow = createRequire(new URL('../package.json', import.meta.url))('apache-arrow');
const duck = await (await DuckDBInstance.create(':memory:')).connect();
export const sql = async (text) => (await duck.runAndReadAll(text)).getRowObjects();

export const TABLES = ['arrow', 'parquet', 'csv'];
export const TYPES = {
	arrow: 'application/vnd.apache.arrow.stream',
	parquet: 'application/vnd.apache.parquet',
	csv: 'text/csv; charset=utf-8; header=present',
};

// A cell in a form that all readers and JSON can be brought to: null, or a text; numbers as JavaScript prints them.
const cell = (value) => (value === null || value === undefined ? null : String(value));

function fromArrow(bytes) {
	const table = arrow.tableFromIPC(bytes);
	const columns = table.schema.fields.map((field, i) => {
		const isTime = arrow.DataType.isTimestamp(field.type),
			vector = table.getChildAt(i);
		// Of a time the library makes a number, which has no room for nanoseconds.
		const raw = isTime ? vector.data.flatMap((chunk) => [...chunk.values]) : null;
		const values = Array.from({ length: table.numRows }, (_, row) => (vector.get(row) === null ? null : cell(raw ? raw[row] : vector.get(row))));
		return { name: field.name, type: String(field.type), unit: field.metadata.get('unit') ?? '', values };
	});
	return { columns, count: table.numRows, facts: Object.fromEntries(table.schema.metadata), batches: table.batches.length };
}

async function fromSql(source, isTime) {
	const types = await sql(`DESCRIBE SELECT * FROM ${source}`);
	const rows = await sql(
		`SELECT ${types.map((c) => (c.column_type.startsWith('TIMESTAMP') ? `epoch_ns("${c.column_name}") AS "${c.column_name}"` : `"${c.column_name}"`)).join(', ')} FROM ${source}`,
	);
	const columns = types.map(({ column_name: name, column_type: type }) => ({
		name,
		type,
		values: rows.map((row) => (isTime?.(name) && row[name] !== null ? nanoseconds(row[name]) : cell(row[name]))),
	}));
	return { columns, count: rows.length };
}

function nanoseconds(text) {
	const [, seconds, fraction] = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{3}|\d{6}|\d{9}))?Z$/.exec(text);
	return String(BigInt(Date.parse(`${seconds}Z`)) * 1000000n + BigInt((fraction ?? '').padEnd(9, '0')));
}

/** bytes: of a table; work: a directory. { columns: [{ name, type, unit, values }], count, facts, rows: [{ name: cell }] } */
export async function readTable(format, bytes, work) {
	let table;
	const path = join(work, `table.${format}`);
	writeFileSync(path, bytes);
	if (format === 'arrow') {
		table = fromArrow(bytes);
	} else if (format === 'parquet') {
		table = await fromSql(`read_parquet('${path}')`);
		const facts = await sql(`SELECT decode(key) AS key, decode(value) AS value FROM parquet_kv_metadata('${path}')`);
		table.facts = Object.fromEntries(facts.map(({ key, value }) => [key, value]));
	} else {
		// A null is nothing, an empty text "": what is quoted is a text.
		table = await fromSql(
			`read_csv('${path}', header = true, all_varchar = true, nullstr = '', allow_quoted_nulls = false, delim = ',', quote = '"', escape = '"', max_line_size = 16777216)`,
			(name) => name === 'time',
		);
	}
	table.rows = Array.from({ length: table.count }, (_, row) => Object.fromEntries(table.columns.map(({ name, values }) => [name, values[row]])));
	return table;
}

/** Rows of objects as readTable() has them. */
export const asCells = (rows) => rows.map((row) => Object.fromEntries(Object.entries(row).map(([name, value]) => [name, cell(value)])));
