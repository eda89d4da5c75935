// SPDX-License-Identifier: Apache-2.0
// The tables that wick convert writes, as DuckDB, hyparquet and Apache Arrow read them, against the source as another reader of pprof sees it.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { parquetReadObjects } from 'hyparquet';
import { compressors } from 'hyparquet-compressors';
import { finish, skip, temporaryDirectory, test, testData, wick } from '../harness.mjs';
import { readTable, sql } from '../lib/tables.mjs';

const { Profile } = createRequire(import.meta.url)('pprof-format');
const work = temporaryDirectory();
const convert = (...args) => execFileSync(wick, ['convert', ...args], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
const out = join(work, 'out.parquet');

const decodePprof = (path) => {
	const file = readFileSync(path);
	return Profile.decode(file[0] === 0x1f ? gunzipSync(file) : file);
};
// Stack (root first, names only; null where an address has none) and values of each sample.
function samplesOf(profile) {
	const text = (id) => profile.stringTable.strings[Number(id)];
	const functionOf = new Map(profile.function.map((f) => [Number(f.id), text(f.name)]));
	const framesOf = new Map(profile.location.map((l) => [Number(l.id), l.line.map((line) => functionOf.get(Number(line.functionId)))]));
	return profile.sample.map((sample) => ({
		frames: sample.locationId.flatMap((id) => (framesOf.get(Number(id)).length ? framesOf.get(Number(id)) : [null])).reverse(),
		values: sample.value.map(BigInt),
	}));
}

const inputs = [];
for (const name of ['google-driver/large.cpu', 'google-driver/sample.cpu']) {
	const path = join(testData, 'pprof', name);
	if (existsSync(path)) inputs.push([name, path]);
}
for (const name of ['cppbench.cpu', 'gobench.heap']) {
	const path = join(testData, 'pprof/google-profile', name),
		pb = join(work, `${name}.pb.gz`);
	if (!existsSync(path)) continue;
	const run = spawnSync('go', ['tool', 'pprof', '-proto', '-symbolize=none', `-output=${pb}`, path], { env: { ...process.env, HOME: work } });
	if (run.status === 0) inputs.push([name, pb]);
}
if (inputs.length === 0) skip('pprof to Parquet', `no test data in ${testData}`);
for (const [name, path] of inputs) {
	const profile = decodePprof(path),
		text = (id) => profile.stringTable.strings[Number(id)];
	const columns = profile.sampleType.map((t) => `${text(t.type)}_${text(t.unit)}`);
	const samples = samplesOf(profile);
	await test(`${name}: DuckDB has the sums and the stacks`, async () => {
		convert('-q', path, '-o', out);
		const sums = (await sql(`SELECT count(*) AS n, ${columns.map((c) => `sum("${c}")::HUGEINT AS "${c}"`).join(', ')} FROM '${out}'`))[0];
		columns.forEach((column, i) =>
			assert.equal(
				BigInt(sums[column]),
				samples.reduce((sum, s) => sum + s.values[i], 0n),
				column,
			),
		);
		const got = new Map(),
			want = new Map(),
			named = (frames) => frames.every((f) => f);
		const add = (map, key, value) => map.set(key, (map.get(key) ?? 0n) + value);
		for (const { frames, values } of samples) if (named(frames)) add(want, frames.map((f) => f.replaceAll(';', ':')).join(';'), values.at(-1));
		for (const { stack, value } of await sql(`SELECT stack, sum("${columns.at(-1)}")::HUGEINT AS value FROM '${out}' GROUP BY stack`))
			add(got, stack, BigInt(value));
		for (const [stack, value] of want) assert.equal(got.get(stack) ?? 0n, value, stack);
		assert.equal(
			[...got.values()].reduce((a, b) => a + b, 0n),
			samples.reduce((sum, s) => sum + s.values.at(-1), 0n),
		);
	});
	await test(`${name}: hyparquet reads every row as DuckDB does`, async () => {
		const file = readFileSync(out),
			buffer = file.buffer.slice(file.byteOffset, file.byteOffset + file.length);
		const rows = await parquetReadObjects({ file: buffer, compressors });
		const theirs = await sql(`SELECT stack, function, line, "${columns[0]}" AS value FROM '${out}'`);
		assert.equal(rows.length, theirs.length);
		rows.forEach((row, i) => {
			assert.equal(row.stack, theirs[i].stack);
			assert.equal(row.function ?? null, theirs[i].function);
			assert.equal(row.line ?? null, theirs[i].line);
			assert.equal(row[columns[0]], theirs[i].value);
		});
	});
}

// Times, threads, labels, lines: from a file whose contents are known.
const known = {
	meta: { interval: 1, startTime: 1700000000000, preprocessedProfileVersion: 60, categories: [] },
	libs: [{ name: 'app', path: '/bin/app', breakpadId: '', codeId: 'beef' }],
	shared: {
		stringArray: ['main', 'f;g', 'a.c', 'app'],
		sources: { uuid: [null], filename: [2], length: 1 },
		resourceTable: { lib: [0], name: [3], host: [null], type: [1], length: 1 },
		funcTable: {
			name: [0, 1],
			isJS: [false, false],
			relevantForJS: [false, false],
			resource: [0, 0],
			source: [0, 0],
			lineNumber: [null, null],
			columnNumber: [null, null],
			length: 2,
		},
		frameTable: {
			address: [16, 32],
			inlineDepth: [0, 0],
			category: [null, null],
			func: [0, 1],
			nativeSymbol: [null, null],
			line: [3, 7],
			column: [null, null],
			length: 2,
		},
		stackTable: { frame: [0, 1], prefix: [null, 0], length: 2 },
	},
	threads: [
		{
			name: 'one',
			processName: 'app',
			pid: '10',
			tid: 11,
			samples: { stack: [1, 0, null], time: [0.25, 1, 2], weight: [5, 7, 11], weightType: 'samples', length: 3 },
			markers: { name: [], length: 0 },
		},
		{
			name: 'it\'s; "two"',
			processName: 'app',
			pid: '10',
			tid: 12,
			samples: { stack: [1], time: [3], weight: [13], weightType: 'samples', length: 1 },
			markers: { name: [], length: 0 },
		},
	],
};
const from = join(work, 'known.firefox.json');
writeFileSync(from, JSON.stringify(known));
convert('-q', from, '-o', out);
await test('columns have types that engines know', async () => {
	const types = Object.fromEntries((await sql(`DESCRIBE SELECT * FROM '${out}'`)).map((c) => [c.column_name, c.column_type]));
	assert.deepEqual(types, {
		time: types.time,
		samples_count: 'BIGINT',
		stack: 'VARCHAR',
		function: 'VARCHAR',
		file: 'VARCHAR',
		line: 'BIGINT',
		binary: 'VARCHAR',
		thread_name: 'VARCHAR',
		thread_id: 'BIGINT',
		process_pid: 'BIGINT',
		process_executable_name: 'VARCHAR',
	});
	assert.match(types.time, /^TIMESTAMP/);
});
await test('rows have time, leaf and labels', async () => {
	const rows = await sql(`SELECT epoch_ns(time) AS ns, * EXCLUDE time FROM '${out}' ORDER BY time`);
	assert.deepEqual(rows[0], {
		ns: 1700000000000250000n,
		samples_count: 5n,
		stack: 'main;f:g',
		function: 'f:g',
		file: 'a.c',
		line: 7n,
		binary: '/bin/app',
		thread_name: 'one',
		thread_id: 11n,
		process_pid: 10n,
		process_executable_name: 'app',
	});
	assert.deepEqual([rows[2].stack, rows[2].function, rows[2].line], ['', null, null]);
	assert.equal(rows[3].thread_name, 'it\'s; "two"');
});
await test('an Arrow stream and CSV have the same rows', async () => {
	for (const path of [from, ...inputs.map(([, file]) => file)]) {
		convert('-q', path, '-o', out);
		const want = await readTable('parquet', readFileSync(out), work);
		for (const [format, extension] of [
			['arrow', 'arrows'],
			['csv', 'csv'],
		]) {
			const file = join(work, `out.${extension}`);
			convert('-q', path, '-o', file);
			const got = await readTable(format, readFileSync(file), work);
			assert.deepEqual(got.rows, want.rows, `${path} as ${format}`);
			if (format === 'arrow') assert.deepEqual(got.facts, want.facts);
		}
	}
	convert('-q', from, '-o', out);
});
await test('the questions of docs/convert.md are answered', async () => {
	const text = readFileSync('docs/convert.md', 'utf8'),
		queries = [...text.matchAll(/```sql\n([^]*?)```/g)].map((m) => m[1]);
	assert.ok(queries.length >= 3);
	for (const query of queries) {
		const rows = await sql(query.replaceAll("'cpu.parquet'", `'${out}'`).replaceAll('cpu_nanoseconds', 'samples_count'));
		assert.ok(rows.length > 0, query);
	}
	const [top] = await sql(queries[0].replaceAll("'cpu.parquet'", `'${out}'`).replaceAll('cpu_nanoseconds', 'samples_count'));
	assert.equal(top.function, 'f:g');
});
await test('many rows go into several row groups', async () => {
	const path = join(work, 'many.folded');
	writeFileSync(path, Array.from({ length: 300000 }, (_, i) => `main;f${i % 5000};g${i} ${i + 1}\n`).join(''));
	convert('-q', path, '-o', out);
	const [{ n, sum, stacks }] = await sql(`SELECT count(*) AS n, sum(COLUMNS('_count$'))::HUGEINT AS sum, count(DISTINCT stack) AS stacks FROM '${out}'`);
	assert.deepEqual([n, BigInt(sum), stacks], [300000n, (300000n * 300001n) / 2n, 300000n]);
	const [{ groups }] = await sql(`SELECT count(DISTINCT row_group_id) AS groups FROM parquet_metadata('${out}')`);
	assert.ok(groups >= 3n);
	const stream = join(work, 'many.arrows');
	convert('-q', path, '-o', stream);
	const table = await readTable('arrow', readFileSync(stream), work);
	assert.equal(table.batches, Number(groups));
	assert.equal(
		table.rows.reduce((all, row) => all + BigInt(row.samples_count), 0n),
		(300000n * 300001n) / 2n,
	);
});
await test('standard output has the same bytes', () => {
	const bytes = execFileSync(wick, ['convert', '-q', from, '-o', '-', '--to', 'parquet'], { maxBuffer: 1 << 26 });
	convert('-q', from, '-o', out);
	assert.ok(bytes.equals(readFileSync(out)));
});
finish();
