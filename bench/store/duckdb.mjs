// SPDX-License-Identifier: Apache-2.0
// The same questions to DuckDB, over the same Parquet files. It gets the files in the order in which it likes them and its metadata cache; questions
// are put so that nothing but sums leaves the engine, so no time goes into turning rows into JavaScript. What it is asked for is less than what Wick answers: sums by
// stack instead of a tree of named frames.
import { createRequire } from 'node:module';

export class DuckDB {
	static async open(blocks) {
		const { DuckDBInstance } = createRequire(new URL('../../tests/package.json', import.meta.url))('@duckdb/node-api');
		const database = new DuckDB();
		database.connection = await (await DuckDBInstance.create(':memory:')).connect();
		database.blocks = blocks;
		await database.rows('SET enable_object_cache = true').catch(() => {});
		await database.rows('SET preserve_insertion_order = false');
		for (const name of ['samples', 'series', 'stacks', 'locations', 'lines', 'functions'])
			await database.rows(
				`CREATE VIEW ${name} AS SELECT *, file_index FROM read_parquet([${blocks.map((block) => `'${block.path}/${name}.parquet'`).join(', ')}], union_by_name = true)`,
			);
		const tables = ['rollup_1h', 'rollup_5m', 'totals'];
		database.hasRollups = tables.every((name) => blocks.every((block) => block.files.some((file) => file.name === `${name}.parquet` && file.bytes)));
		for (const name of database.hasRollups ? tables : [])
			await database.rows(
				`CREATE VIEW ${name} AS SELECT *, file_index FROM read_parquet([${blocks.map((block) => `'${block.path}/${name}.parquet'`).join(', ')}])`,
			);
		return database;
	}
	async rows(sql) {
		return (await this.connection.runAndReadAll(sql)).getRowObjects();
	}
	// Gives up after a minute.
	async run(sql) {
		const timer = setTimeout(() => this.connection.interrupt(), 60000);
		try {
			return await this.rows(sql);
		} finally {
			clearTimeout(timer);
		}
	}
	cpu() {
		const { user, system } = process.cpuUsage();
		return (user + system) / 1000;
	}
	async threads(n) {
		await this.rows(`SET threads = ${n}`);
	}
}

const stamp = (ms) => `TIMESTAMPTZ '${new Date(ms).toISOString().replace('T', ' ').replace('Z', '+00')}'`;
const series = (service) =>
	`SELECT file_index, series_id, label_service_name FROM series WHERE name = 'process_cpu'${service ? ` AND label_service_name = '${service}'` : ''}`;
const rollups = (service) =>
	`SELECT DISTINCT file_index, rollup_id, label_service_name FROM series WHERE name = 'process_cpu'${service ? ` AND label_service_name = '${service}'` : ''}`;
const inside = (from, to) => `time_ns >= ${stamp(from)} AND time_ns < ${stamp(to)}`;
const byStack = (
	service,
	from,
	to,
) => `SELECT hash, sum(v) AS v FROM (SELECT file_index, stack_id, sum(value) AS v FROM samples JOIN (${series(service)}) USING (file_index, series_id) WHERE ${inside(from, to)} GROUP BY ALL)
	JOIN (SELECT file_index, stack_id, hash FROM stacks) USING (file_index, stack_id) GROUP BY 1`;

export const sql = {
	flame: ({ service, from, to }) => `SELECT count(*), sum(v) FROM (${byStack(service, from, to)})`,
	function: ({ name, from, to }) => `WITH RECURSIVE trie AS MATERIALIZED (SELECT file_index, stack_id, parent_id, location_id FROM stacks), hit AS (
			SELECT k.file_index, k.stack_id FROM trie k JOIN lines l USING (file_index, location_id) JOIN functions f USING (file_index, function_id) WHERE f.name = '${name}'
			UNION SELECT k.file_index, k.stack_id FROM hit JOIN trie k ON k.file_index = hit.file_index AND k.parent_id = hit.stack_id)
		SELECT sum(value) FROM samples JOIN (${series()}) USING (file_index, series_id) SEMI JOIN hit USING (file_index, stack_id) WHERE ${inside(from, to)}`,
	series: ({ from, to, step }) =>
		`SELECT count(*), sum(v) FROM (SELECT label_service_name, epoch_ms(time_ns) // ${step} AS t, sum(value) AS v FROM samples JOIN (${series()}) USING (file_index, series_id) WHERE ${inside(from, to)} GROUP BY ALL)`,
	values: ({ label, prefix }) =>
		`SELECT count(*), sum(n) FROM (SELECT label_${label} AS v, count(*) AS n FROM series WHERE starts_with(label_${label}, '${prefix}') GROUP BY 1 ORDER BY 2 DESC LIMIT 100)`,
	services: () => 'SELECT count(*), sum(n) FROM (SELECT label_service_name AS v, count(*) AS n, max(last_ns) FROM series GROUP BY 1)',
	diff: ({ from, to, baseFrom, baseTo }) =>
		`SELECT count(*), sum(coalesce(a.v, 0) - coalesce(b.v, 0)) FROM (${byStack(null, from, to)}) a FULL JOIN (${byStack(null, baseFrom, baseTo)}) b USING (hash)`,
};

// Those that can be asked of rollups and totals, by somebody who knows that they are there; null where they cannot. They get the tables that Wick reads:
// whole hours from rollup_1h, whole 5 minutes from rollup_5m, what is left at both ends from samples, and steps without stacks from totals.
const hour = 3600000,
	minutes5 = 300000,
	whole = (unit, ...times) => times.every((time) => time % unit === 0);
const ofSamples = (service, from, to) =>
	`SELECT file_index, stack_id, value FROM samples JOIN (${series(service)}) USING (file_index, series_id) WHERE ${inside(from, to)}`;
const ofRollup = (table, service, from, to) =>
	`SELECT file_index, stack_id, value FROM ${table} JOIN (${rollups(service)}) USING (file_index, rollup_id) WHERE ${inside(from, to)}`;
function pieces(service, from, to) {
	if (whole(hour, from, to)) return ofRollup('rollup_1h', service, from, to);
	const low = Math.ceil(from / minutes5) * minutes5,
		high = Math.floor(to / minutes5) * minutes5;
	if (low >= high) return null;
	return [from < low && ofSamples(service, from, low), ofRollup('rollup_5m', service, low, high), high < to && ofSamples(service, high, to)]
		.filter(Boolean)
		.join(' UNION ALL ');
}
export const rollupSql = {
	flame: ({ service, from, to }) => {
		const rows = pieces(service, from, to);
		return (
			rows &&
			`SELECT count(*), sum(v) FROM (SELECT hash, sum(v) AS v FROM (SELECT file_index, stack_id, sum(value) AS v FROM (${rows}) GROUP BY ALL)
		JOIN (SELECT file_index, stack_id, hash FROM stacks) USING (file_index, stack_id) GROUP BY 1)`
		);
	},
	series: ({ from, to, step }) =>
		!whole(minutes5, from, to, step)
			? null
			: `SELECT count(*), sum(v) FROM (SELECT label_service_name, epoch_ms(time_ns) // ${step} AS t, sum(value) AS v FROM totals JOIN (${series()}) USING (file_index, series_id) WHERE ${inside(from, to)} GROUP BY ALL)`,
};
