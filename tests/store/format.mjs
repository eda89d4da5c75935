// SPDX-License-Identifier: Apache-2.0
// docs/format.md is true, DuckDB says: its SQL runs, files have the columns that it lists in the order that it says, and what one file says of another adds up: rollups and totals, labels.parquet, meta.json.
import assert from 'node:assert/strict';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { startServer, request, pprofProfile, temporaryDirectory, test, finish } from '../harness.mjs';

const { DuckDBInstance } = createRequire(new URL('../package.json', import.meta.url))('@duckdb/node-api');
const data = `${temporaryDirectory()}/data`;
const page = readFileSync('docs/format.md', 'utf8');

// A small seeded generator, so that a failure can be replayed.
let seed = 11;
const random = (n) => {
	seed = (seed * 1103515245 + 12345) & 0x7fffffff;
	return (seed >> 8) % n;
};

// Seven hours up to now: windows that are over, and one that is not.
const start = Date.now() - 7 * 3600000,
	hosts = ['host-a', 'host-b', 'host-c'],
	services = ['checkout', 'search', 'pay'];
let server = await startServer(data);
const send = async (name, stacks, labels, options) => {
	const query = Object.entries(labels)
		.map(([label, value]) => `&label=${label}%3D${encodeURIComponent(value)}`)
		.join('');
	const response = await request(server.port, 'POST', `/api/v1/ingest?name=${name}${query}`, { body: pprofProfile(stacks, options) });
	assert.equal(response.status, 200, response.body.toString());
};
for (let i = 0; i < 210; i++) {
	const labels = {
		service_name: services[random(3)],
		host_name: hosts[random(3)],
		...(random(3) ? { version: `1.${random(2)}` } : {}),
		process_executable_name: 'app',
	};
	const options = { timeNs: BigInt(start + i * 120000 + random(60000)) * 1000000n, durationNs: 10000000000n };
	const stacks = Array.from({ length: 12 }, () => [
		Array.from({ length: 1 + random(6) }, () => `function${random(9)}`),
		1 + random(1000),
		{ thread: `t${random(4)}` },
	]);
	const [type, unit] = [
		['cpu', 'nanoseconds'],
		['samples', 'count'],
		['alloc_space', 'bytes'],
	][i % 3];
	await send(i % 3 < 2 ? 'process_cpu' : 'memory', stacks, labels, { ...options, type, unit });
	// A gauge, whose samples have numbers.
	const sized = stacks.map(([frames, value, texts]) => [frames, value, random(4) ? { ...texts, bytes: 16 << random(3) } : texts]);
	if (i % 10 === 0)
		await send('memory', [...sized, ...sized.map(([frames, value]) => [frames, value, { bytes: 8 }])], labels, {
			...options,
			type: 'inuse_space',
			unit: 'bytes',
		});
	if (i % 7 === 0)
		for (const [column, of] of [
			['cpu', 'nanoseconds'],
			['rss', 'bytes'],
			['threads', 'count'],
		])
			await send('process_stats', [[[], 1 + random(100000), { process_pid: `${random(4)}` }]], labels, { ...options, type: column, unit: of });
}
// The last hour stays as it was cut, the hours before it become blocks with rollups.
const compacted = await request(server.port, 'POST', '/api/v1/compact');
assert.equal(compacted.status, 200, compacted.body.toString());
await send(
	'process_cpu',
	[[['late'], 7, {}]],
	{ service_name: 'checkout', host_name: 'host-a' },
	{ timeNs: BigInt(Date.now()) * 1000000n, durationNs: 10000000000n },
);
assert.equal(await server.stop(), 0);

const blocks = readdirSync(join(data, 'blocks')).map((name) => join(data, 'blocks', name));
const meta = new Map(blocks.map((block) => [block, JSON.parse(readFileSync(join(block, 'meta.json'), 'utf8'))]));
const filesOf = (block) => readdirSync(block).filter((name) => name.endsWith('.parquet'));
const instance = await DuckDBInstance.create(':memory:');
const database = await instance.connect();
const rows = async (sql) => (await database.runAndReadAll(sql)).getRowObjects();
const one = async (sql) => Object.values((await rows(sql))[0])[0];

await test('there are blocks with numbers of samples, and blocks without', async () => {
	const files = blocks.map((block) => `'${join(block, 'samples.parquet')}'`).filter((file) => existsSync(file.slice(1, -1)));
	const found = new Set();
	for (const file of files) found.add((await rows(`describe select * from ${file}`)).some((row) => row.column_name === 'numbers'));
	assert.deepEqual([...found].sort(), [false, true]);
});

await test('there are blocks of levels 0 and 1, with processes and rollups', () => {
	const levels = new Set([...meta.values()].map((m) => m.level));
	assert.ok(levels.has(0) && (levels.has(1) || levels.has(2)), [...levels].join());
	const all = new Set(blocks.flatMap(filesOf));
	for (const name of ['processes', 'totals', 'rollup_5m', 'rollup_1h', 'rollup_all', 'labels']) assert.ok(all.has(`${name}.parquet`), name);
});

await test('the page names every file and every column', async () => {
	for (const block of blocks)
		for (const file of filesOf(block)) {
			assert.ok(page.includes(file.replace('.parquet', '')), file);
			for (const { column_name: column } of await rows(`describe select * from '${join(block, file)}'`))
				assert.ok(column.startsWith('label_') || page.includes(`\`${column}\``), `${file}: ${column}`);
		}
	for (const m of meta.values()) for (const key of Object.keys(m)) assert.ok(page.includes(`\`${key}\``), `meta.json: ${key}`);
});

const spansPartitions = (m) => Math.floor(m.min_ns / 300e9) !== Math.floor(m.max_ns / 300e9);
await test('rows are in the order that files promise', async () => {
	const order = {
		samples: ['series_id', 'time_ns', 'stack_id'],
		processes: ['series_id', 'time_ns'],
		totals: ['series_id', 'time_ns'],
		labels: ['name', 'value'],
		series: ['series_id'],
		stacks: ['stack_id'],
		lines: ['location_id', 'position'],
	};
	for (const name of ['rollup_5m', 'rollup_1h', 'rollup_all']) order[name] = ['rollup_id', 'time_ns', 'stack_id'];
	for (const block of blocks)
		for (const [name, columns] of Object.entries(order)) {
			const path = join(block, `${name}.parquet`);
			if (!existsSync(path)) continue;
			const names = (await rows(`describe select * from '${path}'`)).map((row) => row.column_name);
			const all = name === 'samples' && names.includes('numbers') ? [...columns, "coalesce(numbers, '')"] : [...columns];
			// Samples of merged blocks by partitions first, in each row group.
			const partition = name === 'samples' ? Number(meta.get(block).partition_ns) : 0;
			assert.equal(partition > 0, name === 'samples' && meta.get(block).level > 0 && spansPartitions(meta.get(block)), path);
			if (partition) all.unshift(`epoch_ns(time_ns) // ${partition}`);
			const key = `(${all.join(', ')})`,
				before = `(${all.map((c) => `lag(${c}) over w`).join(', ')})`;
			// Equal rows have been summed into one, so each comes after the one before it.
			assert.equal(
				await one(
					`select count(*) from (select ${key} <= ${before} as wrong, lag(${columns[0]}) over w as first from read_parquet('${path}', file_row_number = true) window w as (order by file_row_number)) where wrong and first is not null`,
				),
				0n,
				path,
			);
		}
});

const statements = [...page.matchAll(/```sql\n([\s\S]*?)```/g)]
	.flatMap(([, block]) => block.replaceAll('DATA/', `${data}/`).split(/;[ ]*(?:\n|$)/))
	.map((text) =>
		text
			.split('\n')
			.filter((line) => !line.startsWith('--'))
			.join('\n')
			.trim(),
	)
	.filter(Boolean);
const responses = new Map();
await test('its SQL runs', async () => {
	assert.ok(statements.length > 20);
	for (const statement of statements) responses.set(statement, await rows(statement).catch((error) => assert.fail(`${statement}\n${error}`)));
	const empty = [...responses].filter(([statement, found]) => statement.startsWith('select') && found.length === 0);
	assert.ok(empty.length <= 2, empty.map(([statement]) => statement).join('\n')); // an hour of another day, addresses
});

// The views of the page are there now.
await test('rollups and totals add up to the samples, by service and bucket', async () => {
	for (const [table, id, bucket] of [
		['totals', 'series_id', 300],
		['rollup_5m', 'rollup_id', 300],
		['rollup_1h', 'rollup_id', 3600],
	]) {
		await rows(
			`create or replace view one_table as select *, block_of(filename) as block from read_parquet('${data}/blocks/*/${table}.parquet', filename = true)`,
		);
		const stack = table === 'totals' ? '' : ', stack_id';
		const want = `select block, ${id}, epoch_ns(time_ns) // ${bucket}000000000 as bucket${stack}, sum(value)::hugeint as v, count(*) as n from samples join series using (block, series_id) where rollup_id is not null group by all`;
		const got = `select block, ${id}, epoch_ns(time_ns) // ${bucket}000000000 as bucket${stack}, value::hugeint as v, samples as n from one_table`;
		assert.ok((await one(`select count(*) from (${got})`)) > 10n);
		assert.equal(await one(`select count(*) from (${want} except all ${got})`), 0n, table);
		assert.equal(await one(`select count(*) from (${got} except all ${want})`), 0n, table);
		assert.equal(await one(`select count(*) from one_table where epoch_ns(time_ns) % ${bucket}000000000 <> 0`), 0n, table);
	}
	await rows(
		`create or replace view one_table as select *, block_of(filename) as block from read_parquet('${data}/blocks/*/rollup_all.parquet', filename = true)`,
	);
	assert.equal(
		await one(`select count(*) from (select block, rollup_id, stack_id, sum(value)::hugeint, count(*) from samples join series using (block, series_id) where rollup_id is not null group by all
		except all select block, rollup_id, stack_id, value::hugeint, samples from one_table)`),
		0n,
	);
	for (const m of meta.values()) assert.equal(await one(`select count(*) from one_table where block = '${m.name}' and epoch_ns(time_ns) <> ${m.min_ns}`), 0n);
});

await test('a rollup series stands for one type and one value of each label that is kept', async () => {
	for (const [block, m] of meta) {
		if (!m.rollup_series) continue;
		const kept = m.labels.filter((label) => label.in_rollups).map((label) => `label_${label.name}`);
		assert.ok(kept.includes('label_service_name') && !kept.includes('label_host_name'));
		const key = ['name', 'sample_type', 'sample_unit', 'period_type', 'period_unit', 'delta', ...kept].join(', ');
		const path = join(block, 'series.parquet');
		assert.equal(Number(await one(`select count(distinct rollup_id) from '${path}'`)), m.rollup_series);
		assert.equal(Number(await one(`select count(*) from (select distinct ${key} from '${path}')`)), m.rollup_series);
		assert.equal(Number(await one(`select count(*) from (select distinct rollup_id, ${key} from '${path}')`)), m.rollup_series);
	}
});

await test('what is known of series, labels and types is true', async () => {
	for (const [block, m] of meta) {
		const at = (name) => `'${join(block, `${name}.parquet`)}'`;
		const columns = (name) => rows(`describe select * from ${at(name)}`).then((found) => found.map((row) => row.column_name));
		const hasNumbers = (await columns('samples')).includes('numbers');
		assert.equal((await columns('series')).includes('numbered'), hasNumbers, block);
		if (hasNumbers) {
			const numbered = `select series_id, count(numbers) as numbered from ${at('samples')} group by all`;
			assert.equal(await one(`select count(*) from (${numbered} except select series_id, numbered from ${at('series')})`), 0n);
			assert.ok((await one(`select sum(numbered) from ${at('series')}`)) > 0n);
			assert.equal(await one(`select count(*) from ${at('samples')} where not regexp_full_match(numbers, 'bytes=[0-9]+')`), 0n);
		}
		const counted = `select series_id, count(*) as samples, sum(value)::bigint as total, min(time_ns) as first_ns, max(time_ns) as last_ns from ${at('samples')} group by all`;
		assert.equal(await one(`select count(*) from (${counted} except select series_id, samples, total, first_ns, last_ns from ${at('series')})`), 0n);
		const names = (await rows(`describe select * from ${at('series')}`)).map((row) => row.column_name).filter((name) => name.startsWith('label_'));
		const uses = names
			.map(
				(name) =>
					`select '${name.slice(6)}' as name, ${name} as value, * exclude (name, ${name}) from ${at('series')} where ${name} is not null and name <> 'process_stats'`,
			)
			.map(
				(sql) =>
					`select name, value, count(*) as series, sum(samples)::bigint as samples, min(first_ns) as first_ns, max(last_ns) as last_ns from (${sql}) group by all`,
			)
			.join(' union all ');
		assert.equal(await one(`select count(*) from (${uses} except all select * from ${at('labels')})`), 0n, block);
		assert.equal(await one(`select count(*) from (select * from ${at('labels')} except all (${uses}))`), 0n, block);
		for (const label of m.labels) {
			const [row] = await rows(
				`select count(*) as values, sum(series)::bigint as series, sum(samples)::bigint as samples, epoch_ns(min(first_ns)) as first_ns, epoch_ns(max(last_ns)) as last_ns from ${at('labels')} where name = '${label.name}'`,
			);
			for (const key of ['values', 'series', 'samples']) assert.equal(Number(row[key]), label[key], `${label.name} ${key}`);
		}
		assert.equal(m.labels.length, Number(await one(`select count(distinct name) from ${at('labels')}`)));
		for (const type of m.types)
			assert.equal(
				Number(
					await one(`select sum(samples) from ${at('series')} where name = '${type.name}' and sample_type = '${type.sample_type}' and delta = ${type.delta}`),
				),
				type.samples,
			);
		assert.equal(
			m.types.reduce((sum, type) => sum + type.samples, 0),
			m.samples,
		);
		for (const file of m.files) assert.equal(Number(await one(`select count(*) from '${join(block, file.name)}'`)), file.rows, file.name);
		assert.deepEqual(m.files.map((file) => file.name).sort(), filesOf(block).sort());
	}
});
finish();
