// SPDX-License-Identifier: Apache-2.0
// DuckDB sums blocks before and after they are merged: each (type, labels, stack, time) has the same value, and in every merged block rollups and totals are the sums of its samples.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { startServer, request, pprofProfile, temporaryDirectory, test, finish, wick } from '../harness.mjs';

const { DuckDBInstance } = createRequire(new URL('../package.json', import.meta.url))('@duckdb/node-api');
const data = `${temporaryDirectory()}/data`;

// A small seeded generator, so that a failure can be replayed.
let seed = 11;
const random = (n) => {
	seed = (seed * 1103515245 + 12345) & 0x7fffffff;
	return (seed >> 8) % n;
};
const hour = 3600000,
	day = 24 * hour;
const start = Math.floor((Date.now() - 4 * day) / day) * day; // a day that is over, and half of the next one
const services = ['shop', 'bank', 'über-ünï', ''],
	hosts = ['a', 'b', 'c'];

// Several lives of a server, each leaves what it had as a block; late data comes in each of them.
for (let life = 0; life < 6; life++) {
	const server = await startServer(data);
	for (let i = 0; i < 30; i++) {
		const stacks = Array.from({ length: 20 }, () => [
			Array.from({ length: 1 + random(10) }, () => `function${random(20)}`),
			random(50) ? 1 + random(1000) : 2 ** 40,
			{ host: hosts[random(3)] },
		]);
		const service = services[random(4)],
			time = start + life * 6 * hour + random(8 * 3600) * 1000;
		const body = pprofProfile(stacks, { type: i % 3 ? 'cpu' : 'alloc_space', unit: i % 3 ? 'nanoseconds' : 'bytes', timeNs: BigInt(time) * 1000000n });
		const response = await request(
			server.port,
			'POST',
			`/api/v1/ingest?name=${i % 3 ? 'process_cpu' : 'memory'}${service ? `&label=service_name%3D${encodeURIComponent(service)}` : ''}`,
			{ body },
		);
		assert.equal(response.status, 200, response.body.toString());
	}
	assert.equal(await server.stop(), 0);
}

const instance = await DuckDBInstance.create(':memory:');
const database = await instance.connect();
const rows = async (sql) => (await database.runAndReadAll(sql)).getRowObjects();
const blocks = () => readdirSync(join(data, 'blocks')).map((name) => join(data, 'blocks', name));
const meta = (block) => JSON.parse(readFileSync(join(block, 'meta.json')));
const files = (name, from = blocks()) =>
	`read_parquet([${from.map((block) => `'${block}/${name}.parquet'`).join(', ')}], union_by_name = true, filename = true)`;
const block = "regexp_replace(filename, '/[^/]*$', '')";
const summed = (name) =>
	rows(`CREATE TABLE ${name} AS SELECT e.name, e.sample_type, e.label_service_name, e.label_host, hex(k.hash) AS stack, s.time_ns, sum(s.value)::HUGEINT AS value
	FROM (SELECT *, ${block} AS b FROM ${files('samples')}) s JOIN (SELECT *, ${block} AS b FROM ${files('series')}) e USING (b, series_id) JOIN (SELECT *, ${block} AS b FROM ${files('stacks')}) k USING (b, stack_id) GROUP BY ALL`);

await summed('before');
const before = blocks();
execFileSync(wick, ['store', 'compact', '--data', data], { stdio: 'pipe' });

await test('blocks of finished days are merged', async () => {
	assert.ok(before.length >= 2, `${before.length} blocks`);
	assert.equal(blocks().length, 2);
	for (const path of blocks()) assert.ok(meta(path).level >= 1, path);
});
await test('each series, stack and time has the value that it had', async () => {
	await summed('after');
	const [{ n }] = await rows('SELECT count(*)::INT AS n FROM before');
	assert.ok(n > 1000, `${n} rows`);
	assert.deepEqual(await rows('(FROM before EXCEPT FROM after) UNION ALL (FROM after EXCEPT FROM before)'), []);
});
const differ = async (want, got) => {
	const [{ n }] = await rows(`SELECT count(*)::INT AS n FROM (${got})`);
	assert.ok(n > 0);
	assert.deepEqual(await rows(`(${want} EXCEPT ${got}) UNION ALL (${got} EXCEPT ${want})`), []);
};
for (const path of blocks()) {
	const samples = `'${path}/samples.parquet'`,
		series = `'${path}/series.parquet'`,
		name = path.replace(/.*\//, '');
	const bucket = (minutes) => `(epoch_ns(time_ns) // ${minutes * 60}000000000) * ${minutes * 60}000000000`;
	await test(`${name}: totals are sums of samples`, () =>
		differ(
			`SELECT series_id, ${bucket(5)} AS time, sum(value)::HUGEINT AS value, count(*)::HUGEINT AS samples FROM ${samples} GROUP BY ALL`,
			`SELECT series_id, epoch_ns(time_ns) AS time, value::HUGEINT AS value, samples::HUGEINT AS samples FROM '${path}/totals.parquet'`,
		));
	for (const [file, time] of [
		['rollup_5m', bucket(5)],
		['rollup_1h', bucket(60)],
		['rollup_all', `${meta(path).min_ns}::BIGINT`],
	])
		await test(`${name}: ${file} has the sums of samples`, () =>
			differ(
				`SELECT rollup_id, ${time} AS time, stack_id, sum(value)::HUGEINT AS value, count(*)::HUGEINT AS samples FROM ${samples} JOIN ${series} USING (series_id) GROUP BY ALL`,
				`SELECT rollup_id, epoch_ns(time_ns) AS time, stack_id, value::HUGEINT AS value, samples::HUGEINT AS samples FROM '${path}/${file}.parquet'`,
			));
	await test(`${name}: series of one rollup agree in what rollups keep`, async () => {
		assert.deepEqual(
			await rows(
				`SELECT rollup_id FROM ${series} GROUP BY rollup_id HAVING count(DISTINCT coalesce(label_service_name, '')) > 1 OR count(DISTINCT name || sample_type || sample_unit) > 1`,
			),
			[],
		);
		const [{ n, m }] = await rows(`SELECT count(DISTINCT rollup_id)::INT AS n, count(*)::INT AS m FROM ${series}`);
		assert.ok(n < m);
	});
}
await test('nothing of what was merged is left on disk', async () => {
	for (const path of before) assert.ok(!existsSync(path) || blocks().includes(path));
	assert.deepEqual(readdirSync(join(data, 'tmp')), []);
	assert.deepEqual(readdirSync(join(data, 'trash')), []);
	assert.ok(!existsSync(join(data, 'quarantine')));
});
await test('a server opens it and answers the same total', async () => {
	const server = await startServer(data);
	const response = await request(server.port, 'GET', `/api/v1/query?query=${encodeURIComponent('process_cpu')}&from=${start - day}&to=${Date.now()}`);
	assert.equal(response.status, 200, response.body.toString());
	const [{ total }] = await rows("SELECT sum(value)::VARCHAR AS total FROM before WHERE name = 'process_cpu'");
	assert.equal(String(JSON.parse(response.body).flame.total), total);
	assert.equal(await server.stop(), 0);
});
finish();
