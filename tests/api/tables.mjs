// SPDX-License-Identifier: Apache-2.0
// Results as Arrow, Parquet and CSV: what Apache Arrow's library and DuckDB read is what the JSON says, cell by cell.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { finish, pprofProfile, request, startServer, temporaryDirectory, test, wick } from '../harness.mjs';
import { asCells, readTable, TABLES, TYPES } from '../lib/tables.mjs';

const work = temporaryDirectory();
const server = await startServer(`${work}/data`);
const get = (path, headers) => request(server.port, 'GET', path, { headers });
const q = encodeURIComponent,
	minute = 60000,
	now = Date.now(),
	range = `from=${now - 60 * minute}&to=${now + minute}`;
const HOSTILE = ['a,"b"', 'line\nfeed', ' spaces ', "it's", 'größe ✓', '=1+1', '"', 'tab\there\r'];
const LARGE = 2 ** 53 - 1000; // what JSON.parse() reads still, with all that is added
const LARGEST = 2n ** 62n + 1n;
const send = async (service, timeMs, stacks, { name = 'process_cpu', ...options } = {}) => {
	const response = await request(server.port, 'POST', `/api/v1/ingest?name=${name}${service ? `&label=${q(`service_name=${service}`)}` : ''}`, {
		body: pprofProfile(stacks, { timeNs: BigInt(timeMs) * 1000000n, files: { parse: 'src/parse.c' }, ...options }),
	});
	assert.equal(response.status, 200, response.body.toString());
};
await send('shop', now - 50 * minute, [
	[['parse', 'handle', 'main'], 100],
	[['malloc', 'parse', 'handle', 'main'], 50],
]);
await send('cart', now - 10 * minute, [[['add', 'main'], LARGE], ...HOSTILE.map((name, i) => [[name, 'main'], i + 1])]);
await send('', now - 10 * minute, [[['idle', 'main'], 3]]);
await send('', now - 10 * minute, [[['\ud800 ends', 'main'], LARGEST]], { name: 'large' });

const json = async (path) => {
	const response = await get(path);
	assert.equal(response.status, 200, response.body.toString());
	return JSON.parse(response.body);
};
const tableOf = async (path, format) => {
	const response = await get(`${path}&format=${format}`);
	assert.equal(response.status, 200, response.body.toString());
	assert.equal(response.headers['content-type'], TYPES[format]);
	return readTable(format, response.body, work);
};
const pipeline = (text) => `/api/v1/pipeline?${range}&q=${q(text)}`;
const namesOf = (table) => table.columns.map(({ name }) => name);
// CSV does not tell a null from a null; Arrow and Parquet say what the table is about.
function checkFacts(table, format, wanted) {
	if (format === 'csv') return;
	for (const [name, value] of Object.entries(wanted)) assert.equal(table.facts[`wick.${name}`], value, name);
}

for (const format of TABLES) {
	await test(`${format}: a table is that of the JSON`, async () => {
		const text = 'process_cpu | top 100';
		const { table, query } = await json(pipeline(text));
		const got = await tableOf(pipeline(text), format);
		assert.deepEqual(
			namesOf(got),
			table.columns.map(({ name }) => name),
		);
		const wanted = table.rows.map((row) => Object.fromEntries(row.map((value, i) => [table.columns[i].name, value])));
		assert.equal(got.count, 6 + HOSTILE.length);
		assert.deepEqual(got.rows, asCells(wanted));
		checkFacts(got, format, { kind: 'table', query, partial: 'false', unit: 'nanoseconds' });
		if (format === 'arrow') assert.deepEqual([got.columns[0].unit, got.columns[0].type], ['nanoseconds', 'Int64']);
	});
	await test(`${format}: series are long, with a column for each label that is grouped by`, async () => {
		const path = `/api/v1/series?${range}&query=process_cpu&step=1m&by=service_name&by=no_such_label`;
		const { series } = await json(path);
		const wanted = series.flatMap(({ labels, points }) =>
			points.map(([ms, value]) => ({ time: BigInt(ms) * 1000000n, service_name: labels.service_name, no_such_label: null, value })),
		);
		const got = await tableOf(path, format);
		assert.deepEqual(namesOf(got), ['time', 'service_name', 'no_such_label', 'value']);
		assert.ok(wanted.length >= 3);
		assert.deepEqual(got.rows, asCells(wanted));
		const text = 'process_cpu | group by service_name, no_such_label | bin 1m';
		const byStages = await tableOf(pipeline(text), format);
		assert.deepEqual(byStages.rows, got.rows);
		checkFacts(byStages, format, { kind: 'series', from: new Date((await json(pipeline(text))).from_ms).toISOString() });
	});
	await test(`${format}: rates are numbers, and the sum of the other groups is told`, async () => {
		const path = `/api/v1/series?${range}&query=process_cpu&step=1h&by=service_name&limit=1&others=1&rate=1`;
		const { series } = await json(path);
		const got = await tableOf(path, format);
		assert.deepEqual(
			got.rows,
			asCells(
				series.flatMap(({ labels, points, others }) =>
					points.map(([ms, value]) => ({ time: BigInt(ms) * 1000000n, service_name: labels.service_name, value, others: others ? 1 : 0 })),
				),
			),
		);
		assert.ok(got.rows.some(({ others }) => others === '1'));
	});
	await test(`${format}: a flame graph is a row a stack`, async () => {
		const path = `/api/v1/query?${range}&query=process_cpu&group_by=service_name`;
		const got = await tableOf(path, format);
		assert.deepEqual(namesOf(got), ['time', 'cpu_nanoseconds', 'stack', 'function', 'file', 'line', 'binary', 'service_name']);
		const wanted = [
			['handle;parse', 100, 'shop'],
			['handle;parse;malloc', 50, 'shop'],
			['add', LARGE, 'cart'],
			...HOSTILE.map((name, i) => [name, i + 1, 'cart']),
			['idle', 3, null],
		]
			.map(([stack, value, service]) => [`service_name=${service ?? ''};main;${stack}`, value, service])
			.map((row) => JSON.stringify(row.map((value) => (value === null ? null : String(value)))));
		assert.deepEqual(got.rows.map((row) => JSON.stringify([row.stack, row.cpu_nanoseconds, row.service_name])).sort(), wanted.sort());
		assert.equal(got.rows.find(({ function: name }) => name === 'parse').file, 'src/parse.c');
		checkFacts(got, format, { kind: 'flamegraph', type: 'process_cpu:cpu:nanoseconds::' });
		const largest = await tableOf(`${path}&limit=2`, format);
		assert.deepEqual(
			largest.rows.map(({ stack }) => stack),
			['service_name=cart;main;add', 'service_name=shop;main;handle;parse'],
		);
		const [one] = (await tableOf(`/api/v1/query?${range}&query=large`, format)).rows;
		assert.equal(one.cpu_nanoseconds, String(LARGEST));
		assert.ok(one.function.endsWith(' ends'));
	});
	await test(`${format}: a difference has both sides of each function`, async () => {
		const text = 'process_cpu{service_name="shop"} | diff (process_cpu{service_name="cart"})';
		const { functions } = await json(`${pipeline(text)}&format=table`);
		const got = await tableOf(pipeline(text), format);
		assert.deepEqual(
			got.rows,
			asCells(
				functions.rows.map((row) => ({
					function: row.name,
					file: row.file || null,
					line: row.line || null,
					binary: row.binary || null,
					base_self: row.base_self,
					self: row.self,
					base_total: row.base_total,
					total: row.total,
				})),
			),
		);
		assert.equal((await tableOf(`${pipeline(text)}&limit=3`, format)).count, 3);
	});
	await test(`${format}: a comparison has the functions of each value`, async () => {
		const text = 'process_cpu | compare label service_name top 2';
		const { values } = await json(`${pipeline(text)}&format=table&limit=1000`);
		const got = await tableOf(pipeline(text), format);
		assert.deepEqual(
			got.rows.map((row) => [row.service_name, row.function, row.self, row.total]),
			values.flatMap(({ value, functions }) => functions.rows.map((row) => [value, row.name, String(row.self), String(row.total)])),
		);
	});
	await test(`${format}: no data is a table without rows`, async () => {
		const path = `/api/v1/series?from=${now - 9 * 3600e3}&to=${now - 8 * 3600e3}&query=${q('process_cpu:cpu:nanoseconds::')}&step=1m`;
		assert.deepEqual((await json(path)).series, []);
		const got = await tableOf(path, format);
		assert.deepEqual([got.count, namesOf(got)], [0, ['time', 'value']]);
	});
	await test(`${format}: wick query writes the same`, async () => {
		const args = ['query', 'process_cpu | top 5', '--url', `http://127.0.0.1:${server.port}`, '--from', String(now - 60 * minute), '--to', String(now + minute)];
		execFileSync(wick, [...args, '--format', format, '-o', `${work}/cli`]);
		const got = await readTable(format, readFileSync(`${work}/cli`), work);
		assert.deepEqual(got.rows, (await tableOf(pipeline('process_cpu | top 5'), format)).rows);
		const explained = spawnSync(wick, [...args, '--format', format, '--explain'], { encoding: 'utf8' });
		assert.equal(explained.status, 2);
		assert.match(explained.stderr, /--explain/);
	});
	await test(`${format}: wick query writes all stacks unless it is told how many`, async () => {
		const args = ['query', 'process_cpu', '--url', `http://127.0.0.1:${server.port}`, '--from', String(now - 60 * minute), '--to', String(now + minute)];
		const rows = async (...more) => (await readTable(format, execFileSync(wick, [...args, '--format', format, ...more]), work)).count;
		assert.deepEqual([await rows(), await rows('-n', '4'), await rows('-n', '0')], [12, 4, 12]);
	});
}

await test('the header Accept asks as format does, and JSON comes first', async () => {
	const path = pipeline('process_cpu | top 3');
	const typeFor = async (accept, more = '') => (await get(path + more, { accept })).headers['content-type'];
	assert.equal(await typeFor('application/vnd.apache.arrow.stream'), TYPES.arrow);
	assert.equal(await typeFor('text/plain, TEXT/CSV; q=0.9'), TYPES.csv);
	assert.equal(await typeFor('application/vnd.apache.parquet, */*'), TYPES.parquet);
	assert.equal(await typeFor('text/csv;q=0'), 'application/json');
	assert.equal(await typeFor('*/*'), 'application/json');
	assert.equal(await typeFor('application/json, text/csv'), 'application/json');
	assert.equal(await typeFor('text/csv', '&format=json'), 'application/json');
	assert.equal(await typeFor('application/json', '&format=csv'), TYPES.csv);
	assert.equal((await get(`/api/v1/series?${range}&query=process_cpu`, { accept: 'text/csv' })).headers['content-type'], TYPES.csv);
	assert.equal((await get(`/api/v1/query?${range}&query=process_cpu`, { accept: 'text/csv' })).headers['content-type'], TYPES.csv);
});
await test('what cannot be had says why', async () => {
	const refused = async (path) => {
		const response = await get(path);
		assert.equal(response.status, 400);
		return JSON.parse(response.body).error;
	};
	assert.match(await refused(`${pipeline('process_cpu')}&format=csv&explain=1`), /explain/);
	assert.match(await refused(`${pipeline('process_cpu')}&format=excel`), /'excel' is not one of json, table, text, arrow, parquet, csv/);
	assert.match(await refused(`/api/v1/query?${range}&query=${q('process_cpu | top 3')}&format=arrow`), /a table, not a profile; use \/api\/v1\/pipeline/);
	assert.match(await refused(`${pipeline('process_cpu')}&format=csv&limit=many`), /limit/);
});
await server.stop?.();
finish();
