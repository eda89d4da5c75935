// SPDX-License-Identifier: Apache-2.0
// DuckDB opens a block's Parquet files without us: SQL over them gives the totals that queries give, for generated profiles and many selectors, and the stacks it puts together are the folded ones.
import assert from 'node:assert/strict';
import { cpSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { startServer, request, pprofProfile, temporaryDirectory, test, finish } from '../harness.mjs';

const { DuckDBInstance } = createRequire(new URL('../package.json', import.meta.url))('@duckdb/node-api');
const directory = temporaryDirectory();
const data = `${directory}/data`;

// A small seeded generator, so that a failure can be replayed.
let seed = 7;
const random = (n) => {
	seed = (seed * 1103515245 + 12345) & 0x7fffffff;
	return (seed >> 8) % n;
};
const services = ['shop', 'bank', 'über-ünï', 'a "quoted" one', ''],
	threads = ['worker', 'main', 'gc'];
const start = Date.now() - 3600000;

let server = await startServer(data);
for (let i = 0; i < 40; i++) {
	const stacks = Array.from({ length: 30 }, () => [
		Array.from({ length: 1 + random(12) }, () => `function${random(25)}`),
		1 + random(1000),
		{ thread: threads[random(3)] },
	]);
	const service = services[random(5)];
	const body = pprofProfile(stacks, {
		type: i % 4 ? 'cpu' : 'alloc_space',
		unit: i % 4 ? 'nanoseconds' : 'bytes',
		timeNs: BigInt(start + i * 60000) * 1000000n,
		durationNs: 10000000000,
	});
	const response = await request(
		server.port,
		'POST',
		`/api/v1/ingest?name=${i % 4 ? 'process_cpu' : 'memory'}${service ? `&label=service_name%3D${encodeURIComponent(service)}` : ''}`,
		{ body },
	);
	assert.equal(response.status, 200, response.body.toString());
}
assert.equal(await server.stop(), 0); // cuts the head
// DuckDB reads a copy: a server that runs merges blocks, and removes what it merged.
const copy = join(directory, 'copy');
cpSync(join(data, 'blocks'), copy, { recursive: true });
server = await startServer(data);

const blocks = readdirSync(copy).map((name) => join(copy, name));
const instance = await DuckDBInstance.create(':memory:');
const database = await instance.connect();
const rows = async (sql) => (await database.runAndReadAll(sql)).getRowObjects();
const table = (name) => `read_parquet([${blocks.map((block) => `'${block}/${name}.parquet'`).join(', ')}], union_by_name = true, filename = true)`;
const block = "regexp_replace(filename, '/[^/]*$', '')";

await test('DuckDB opens every file of every block', async () => {
	assert.ok(blocks.length >= 1);
	for (const path of blocks)
		for (const file of readdirSync(path).filter((name) => name.endsWith('.parquet'))) await rows(`SELECT count(*) FROM '${join(path, file)}'`);
});

await rows(`CREATE TABLE samples AS SELECT *, ${block} AS block FROM ${table('samples')}`);
await rows(`CREATE TABLE series AS SELECT *, ${block} AS block FROM ${table('series')}`);
const sqlTotal = async (where) =>
	BigInt((await rows(`SELECT coalesce(sum(value), 0)::HUGEINT AS total FROM samples JOIN series USING (block, series_id) WHERE ${where}`))[0].total);
const ourTotal = async (selector, from = start - 60000, to = Date.now()) => {
	const response = await request(server.port, 'GET', `/api/v1/query?query=${encodeURIComponent(selector)}&from=${from}&to=${to}`);
	assert.equal(response.status, 200, response.body.toString());
	return BigInt(JSON.parse(response.body).flame.total);
};
const service = "coalesce(label_service_name, '')",
	thread = "coalesce(label_thread, '')";
const cases = [
	['process_cpu', "name = 'process_cpu'"],
	['memory', "name = 'memory'"],
	['process_cpu{service_name="shop"}', `name = 'process_cpu' AND ${service} = 'shop'`],
	['process_cpu{service_name!="shop"}', `name = 'process_cpu' AND ${service} <> 'shop'`],
	['process_cpu{service_name=""}', `name = 'process_cpu' AND ${service} = ''`],
	['process_cpu{service_name="über-ünï"}', `name = 'process_cpu' AND ${service} = 'über-ünï'`],
	['process_cpu{service_name="a \\"quoted\\" one"}', `name = 'process_cpu' AND ${service} = 'a "quoted" one'`],
	['memory{thread=~"w.*|gc"}', `name = 'memory' AND regexp_full_match(${thread}, 'w.*|gc')`],
	['process_cpu{thread!~".*r"}', `name = 'process_cpu' AND NOT regexp_full_match(${thread}, '.*r')`],
	['process_cpu:cpu:nanoseconds', "name = 'process_cpu' AND sample_type = 'cpu' AND sample_unit = 'nanoseconds'"],
];
for (const [selector, where] of cases)
	await test(`${selector}: the same total`, async () => {
		const want = await sqlTotal(where);
		assert.ok(want > 0n);
		assert.equal(await ourTotal(selector), want);
	});
await test('part of the time range: the same total', async () => {
	for (let i = 0; i < 10; i++) {
		const from = start + random(1800) * 1000,
			to = from + random(1800) * 1000 + 1;
		assert.equal(
			await ourTotal('process_cpu', from, to),
			await sqlTotal(`name = 'process_cpu' AND epoch_ns(time_ns) >= ${from}000000 AND epoch_ns(time_ns) < ${to}000000`),
		);
	}
});
await test('the stacks that SQL puts together are the folded ones', async () => {
	for (const name of ['stacks', 'locations', 'lines', 'functions']) await rows(`CREATE TABLE ${name} AS SELECT *, ${block} AS block FROM ${table(name)}`);
	const found = await rows(`
		WITH RECURSIVE name_of AS (
			SELECT s.block, s.stack_id, s.parent_id, f.name FROM stacks s JOIN lines l USING (block, location_id) JOIN functions f USING (block, function_id)
		), path AS (
			SELECT block, stack_id, name AS path FROM name_of WHERE parent_id = 0
			UNION ALL
			SELECT n.block, n.stack_id, p.path || ';' || n.name FROM name_of n JOIN path p ON n.block = p.block AND n.parent_id = p.stack_id
		)
		SELECT path, sum(value)::BIGINT AS total FROM samples JOIN series USING (block, series_id) JOIN path USING (block, stack_id) WHERE series.name = 'process_cpu' GROUP BY path`);
	const want = found.map(({ path, total }) => `${path} ${total}`).sort();
	const response = await request(server.port, 'GET', `/api/v1/query?query=process_cpu&from=${start - 60000}&to=now&format=folded`);
	assert.ok(want.length > 100);
	assert.deepEqual(response.body.toString().trim().split('\n').sort(), want);
});
await server.stop();
finish();
