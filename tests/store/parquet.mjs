// SPDX-License-Identifier: Apache-2.0
// Readers that are not ours open what our Parquet writer makes: random tables of all types, in pages of several sizes.
// DuckDB reads the values and uses the row groups' statistics; hyparquet reads the page indexes, each page alone.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { parquetMetadata, parquetReadObjects, readColumnIndex, readOffsetIndex } from 'hyparquet';
import { compressors } from 'hyparquet-compressors';
import { temporaryDirectory, test, skip, finish } from '../harness.mjs';

const writer = `${process.env.O ?? 'build'}/test/codec/parquet_pages_test`;
if (!existsSync(writer)) {
	skip('Parquet read by others', `${writer} is not built: run make build-tests`);
	finish();
}

const directory = temporaryDirectory();
const instance = await DuckDBInstance.create(':memory:');
const database = await instance.connect();
const rowsOf = async (sql) => (await database.runAndReadAll(sql)).getRowObjects();
const columns = ['b', 'b?', 'i32', 'i32?', 'i32 delta', 'u32 plain', 'i64', 'i64? delta', 'u64?', 'f64?', 'f32', 'text', 'json?', 'fixed?'];
const integers = columns.filter((name) => /^[iu]\d/.test(name));
// As text, so that 64 bits survive. DuckDB's times with a zone are whole microseconds and end in the year 294247: left to hyparquet.
const asText = (name) => (name === 'fixed?' ? `decode("${name}")` : `"${name}"::VARCHAR`);
const duck = columns.filter((name) => name !== 'i64');
const others = ['i32', 'i32 delta', 'i64', 'i64? delta', 'u64?', 'text', 'f64?'];
const raw = (value) => value;
const textOf = (value) => (value === null || value === undefined ? null : String(value));

for (const pageRows of [8, 100, 1000, 0]) {
	const path = join(directory, `${pageRows}.parquet`);
	const want = execFileSync(writer, ['--write', path, String(pageRows)], { maxBuffer: 1 << 28 })
		.toString()
		.trim()
		.split('\n')
		.map((line) => JSON.parse(line));
	const buffer = readFileSync(path);
	const file = buffer.buffer.slice(buffer.byteOffset, buffer.byteOffset + buffer.byteLength);
	const metadata = parquetMetadata(file);
	const name = `pages of ${pageRows || '16384'} rows`;

	await test(`${name}: DuckDB reads the values`, async () => {
		const got = await rowsOf(
			`SELECT ${duck.map((c) => (c === 'f64?' || c === 'f32' ? `"${c}"` : `${asText(c)} AS "${c}"`)).join(', ')} FROM read_parquet('${path}')`,
		);
		assert.equal(got.length, want.length);
		for (let i = 0; i < want.length; i++)
			columns.forEach((c, k) => {
				if (!duck.includes(c)) return;
				const value = c === 'f32' ? Math.fround(want[i][k]) : want[i][k];
				const same = c === 'f64?' || c === 'f32' ? got[i][c] === value : textOf(got[i][c]) === textOf(value);
				if (!same) assert.fail(`row ${i}, ${c}: ${got[i][c]} instead of ${want[i][k]}`);
			});
	});
	await test(`${name}: DuckDB's statistics are true`, async () => {
		const groups = await rowsOf(
			`SELECT row_group_id, path_in_schema, num_values, row_group_num_rows, stats_min_value, stats_max_value, stats_null_count FROM parquet_metadata('${path}')`,
		);
		assert.equal(groups.length, 3 * columns.length);
		let start = 0;
		for (let g = 0; g < 3; g++) {
			const own = groups.filter((row) => Number(row.row_group_id) === g),
				count = Number(own[0].row_group_num_rows);
			const slice = want.slice(start, start + count);
			start += count;
			for (const row of own) {
				const k = columns.indexOf(row.path_in_schema),
					values = slice.map((r) => r[k]).filter((value) => value !== null);
				assert.equal(Number(row.num_values), count);
				assert.equal(Number(row.stats_null_count), count - values.length);
				if (!integers.includes(row.path_in_schema) || row.path_in_schema === 'i64' || values.length === 0) continue;
				const sorted = values.map(BigInt).sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
				assert.equal(row.stats_min_value, String(sorted[0]), row.path_in_schema);
				assert.equal(row.stats_max_value, String(sorted.at(-1)), row.path_in_schema);
			}
		}
		assert.equal(start, want.length);
	});
	await test(`${name}: DuckDB finds rows by value`, async () => {
		for (const c of integers.filter((name) => duck.includes(name)))
			for (let n = 0; n < 5; n++) {
				const value = want[(n * 997) % want.length][columns.indexOf(c)];
				if (value === null) continue;
				const found = await rowsOf(`SELECT count(*) AS n FROM read_parquet('${path}') WHERE "${c}" = ${value}`);
				assert.equal(Number(found[0].n), want.filter((row) => row[columns.indexOf(c)] === value).length, c);
			}
	});
	await test(`${name}: hyparquet reads the values`, async () => {
		const got = await parquetReadObjects({ file, compressors, utf8: false, columns: others, parsers: { timestampFromNanoseconds: raw } });
		assert.equal(got.length, want.length);
		for (let i = 0; i < want.length; i++)
			for (const c of others)
				if (textOf(got[i][c]) !== textOf(want[i][columns.indexOf(c)])) assert.fail(`row ${i}, ${c}: ${got[i][c]} instead of ${want[i][columns.indexOf(c)]}`);
	});
	await test(`${name}: the page indexes say what the pages hold`, async () => {
		let start = 0;
		const size = pageRows || 16384;
		for (const group of metadata.row_groups) {
			const count = Number(group.num_rows);
			for (const [k, chunk] of group.columns.entries()) {
				const view = (offset, length) => ({ view: new DataView(file, Number(offset), Number(length)), offset: 0 });
				const offsets = readOffsetIndex(view(chunk.offset_index_offset, chunk.offset_index_length)).page_locations;
				assert.deepEqual(
					offsets.map((page) => Number(page.first_row_index)),
					Array.from({ length: Math.ceil(count / size) }, (_, i) => i * size),
				);
				const end = Number(chunk.meta_data.dictionary_page_offset ?? chunk.meta_data.data_page_offset) + Number(chunk.meta_data.total_compressed_size);
				offsets.forEach((page, i) =>
					assert.equal(Number(page.offset) + Number(page.compressed_page_size), i + 1 < offsets.length ? Number(offsets[i + 1].offset) : end),
				);
				assert.ok(chunk.column_index_length > 0, columns[k]);
				if (!['i32', 'i32?', 'i32 delta', 'i64? delta'].includes(columns[k])) continue;
				const index = readColumnIndex(view(chunk.column_index_offset, chunk.column_index_length), metadata.schema[k + 1]);
				let rises = true,
					falls = true,
					last = null;
				for (let page = 0; page < offsets.length; page++) {
					const values = want.slice(start + page * size, start + Math.min(count, (page + 1) * size)).map((row) => row[k]);
					const there = values
						.filter((value) => value !== null)
						.map(BigInt)
						.sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
					assert.equal(Number(index.null_counts[page]), values.length - there.length);
					assert.equal(index.null_pages[page], there.length === 0);
					if (there.length === 0) continue;
					assert.equal(BigInt(index.min_values[page]), there[0], columns[k]);
					assert.equal(BigInt(index.max_values[page]), there.at(-1), columns[k]);
					rises &&= !last || (last[0] <= there[0] && last[1] <= there.at(-1));
					falls &&= !last || (last[0] >= there[0] && last[1] >= there.at(-1));
					last = [there[0], there.at(-1)];
				}
				assert.equal(index.boundary_order, rises ? 'ASCENDING' : falls ? 'DESCENDING' : 'UNORDERED');
			}
			start += count;
		}
	});
}
finish();
