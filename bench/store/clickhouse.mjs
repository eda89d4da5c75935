// SPDX-License-Identifier: Apache-2.0
// The same questions to ClickHouse as Debian packages it (18.16), on the same rows: a server of its own, run by this user with its data in the build folder and
// stopped at the end. Three tables: samples in Wick's order (series, time, stack), series with its labels, stacks as arrays of functions (by content hash). It reads no
// Parquet in this version, so DuckDB turns the files into CSV for it.
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { join, resolve } from 'node:path';
import { cpuOf } from './measure.mjs';

const sleep = (time) => new Promise((done) => setTimeout(done, time));

export function available() {
	return ['/usr/sbin/clickhouse-server', '/usr/bin/clickhouse-server'].find(existsSync);
}

function configure(directory, port) {
	mkdirSync(directory, { recursive: true });
	writeFileSync(
		join(directory, 'users.xml'),
		`<yandex><profiles><default><max_memory_usage>8000000000</max_memory_usage></default></profiles>
<users><default><password></password><networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota></default></users><quotas><default/></quotas></yandex>`,
	);
	writeFileSync(
		join(directory, 'config.xml'),
		`<yandex><logger><level>warning</level><log>${directory}/server.log</log><errorlog>${directory}/error.log</errorlog></logger>
<listen_host>127.0.0.1</listen_host><http_port>${port}</http_port><tcp_port>${port + 1}</tcp_port><path>${directory}/data/</path><tmp_path>${directory}/tmp/</tmp_path><format_schema_path>${directory}/schemas/</format_schema_path>
<users_config>users.xml</users_config><default_profile>default</default_profile><default_database>default</default_database><mark_cache_size>1000000000</mark_cache_size><timezone>UTC</timezone></yandex>`,
	);
}

export class ClickHouse {
	static async start(folder) {
		const directory = resolve(folder),
			port = 20000 + (process.pid % 20000),
			engine = new ClickHouse();
		configure(directory, port);
		Object.assign(engine, { directory, port });
		engine.child = spawn(available(), [`--config-file=${directory}/config.xml`], { cwd: directory, stdio: 'ignore' });
		process.on('exit', () => engine.child.kill('SIGKILL'));
		for (let i = 0; ; i++) {
			try {
				engine.version = (await engine.query('SELECT version()')).trim();
				return engine;
			} catch (error) {
				if (i > 100 || engine.child.exitCode !== null) throw new Error(`ClickHouse does not start (${directory}/error.log): ${error.message}`);
				await sleep(100);
			}
		}
	}
	query(sql) {
		return new Promise((done, fail) => {
			const call = http.request({ host: '127.0.0.1', port: this.port, method: 'POST', path: '/?max_execution_time=60' }, (response) => {
				const chunks = [];
				response.on('data', (chunk) => chunks.push(chunk));
				response.on('end', () => {
					const text = Buffer.concat(chunks).toString();
					if (response.statusCode === 200) done(text);
					else fail(new Error(text.slice(0, 300)));
				});
			});
			call.on('error', fail);
			call.end(sql);
		});
	}
	cpu() {
		return cpuOf(this.child.pid);
	}
	async threads(n) {
		this.settings = ` SETTINGS max_threads = ${n}`;
	}
	run(sql) {
		return this.query(sql + (this.settings ?? ''));
	}
	// DuckDB writes CSV into a pipe that clickhouse-client reads.
	async fill(database, tableName, sql) {
		const pipe = join(this.directory, `${tableName}.fifo`);
		rmSync(pipe, { force: true });
		execFileSync('mkfifo', [pipe]);
		const client = spawn('sh', ['-c', `clickhouse-client --port ${this.port + 1} --query 'INSERT INTO ${tableName} FORMAT CSV' <'${pipe}'`], {
			stdio: ['ignore', 'ignore', 'inherit'],
		});
		const ended = new Promise((done) => client.once('exit', done));
		await database.rows(`COPY (${sql}) TO '${pipe}' (FORMAT csv, HEADER false)`);
		const status = await ended;
		rmSync(pipe, { force: true });
		if (status) throw new Error(`clickhouse-client ended with ${status}`);
	}
	async load(database, key) {
		const mark = join(this.directory, 'loaded');
		if (existsSync(mark) && execFileSync('cat', [mark]).toString() === key) return;
		for (const name of ['samples', 'series', 'stacks']) await this.query(`DROP TABLE IF EXISTS ${name}`);
		await this.query(
			'CREATE TABLE samples (series UInt32, time UInt64, stack UInt64, value Int64) ENGINE = MergeTree PARTITION BY intDiv(time, 86400000000000) ORDER BY (series, time, stack)',
		);
		await this.query(
			'CREATE TABLE series (series UInt32, type String, service String, host String, pod String, last UInt64) ENGINE = MergeTree PARTITION BY tuple() ORDER BY series',
		);
		await this.query('CREATE TABLE stacks (stack UInt64, functions Array(String)) ENGINE = MergeTree PARTITION BY tuple() ORDER BY stack');
		await database.rows(`CREATE OR REPLACE TABLE ids AS SELECT file_index, series_id, dense_rank() OVER (ORDER BY name, label_service_name, label_host_name, label_k8s_pod_name, coalesce(label_thread_name, '')) AS id, name AS type,
			label_service_name AS service, label_host_name AS host, label_k8s_pod_name AS pod, last_ns FROM series`);
		await this.fill(
			database,
			'series',
			'SELECT id, any_value(type), any_value(service), any_value(host), any_value(pod), epoch_ns(max(last_ns)) FROM ids GROUP BY id ORDER BY id',
		);
		await database.rows(
			"CREATE OR REPLACE TABLE codes AS SELECT file_index, stack_id, ('0x' || substr(hex(hash), 1, 16))::UBIGINT AS code FROM stacks WHERE hash IS NOT NULL",
		);
		for (let i = 0; i < database.blocks.length; i++)
			await this.fill(
				database,
				'samples',
				`SELECT id, epoch_ns(time_ns), code, value FROM samples JOIN ids USING (file_index, series_id) JOIN codes USING (file_index, stack_id) WHERE file_index = ${i}`,
			);
		await this.fill(
			database,
			'stacks',
			`WITH RECURSIVE one AS (SELECT code, min(file_index * 4294967296 + stack_id) AS place FROM codes GROUP BY 1),
			walk AS (SELECT code, place // 4294967296 AS file_index, place % 4294967296 AS stack_id FROM one
				UNION ALL SELECT w.code, w.file_index, k.parent_id FROM walk w JOIN stacks k USING (file_index, stack_id) WHERE k.parent_id <> 0)
			SELECT code, '[' || coalesce(string_agg('''' || replace(replace(f.name, '\\', '\\\\'), '''', '\\''') || '''', ','), '') || ']' FROM walk JOIN stacks USING (file_index, stack_id) LEFT JOIN lines USING (file_index, location_id) LEFT JOIN functions f USING (file_index, function_id) GROUP BY code`,
		);
		for (const name of ['samples', 'series', 'stacks']) await this.query(`OPTIMIZE TABLE ${name} FINAL`).catch(() => {});
		writeFileSync(mark, key);
	}
	async bytes() {
		return Number(await this.query("SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database = 'default'"));
	}
	async stop() {
		const ended = new Promise((done) => this.child.once('exit', done));
		this.child.kill('SIGTERM');
		await Promise.race([ended, sleep(20000)]);
		this.child.kill('SIGKILL');
	}
}

const inside = (from, to) => `time >= ${from}000000 AND time < ${to}000000`;
const those = (service) => `series IN (SELECT series FROM series WHERE type = 'process_cpu'${service ? ` AND service = '${service}'` : ''})`;
const byStack = (service, from, to, as = 'v') =>
	`SELECT stack, sum(value) AS ${as} FROM samples WHERE ${those(service)} AND ${inside(from, to)} GROUP BY stack`;
export const sql = {
	flame: ({ service, from, to }) => `SELECT count(), sum(v) FROM (${byStack(service, from, to)})`,
	function: ({ name, from, to }) =>
		`SELECT sum(value) FROM samples WHERE ${those()} AND ${inside(from, to)} AND stack IN (SELECT stack FROM stacks WHERE has(functions, '${name.replace(/'/g, "\\'")}'))`,
	series: ({ from, to, step }) =>
		`SELECT count(), sum(w) FROM (SELECT service, t, sum(v) AS w FROM (SELECT series, intDiv(time, ${step}000000) AS t, sum(value) AS v FROM samples WHERE ${those()} AND ${inside(from, to)} GROUP BY series, t) ANY LEFT JOIN series USING series GROUP BY service, t)`,
	values: ({ prefix }) =>
		`SELECT count(), sum(n) FROM (SELECT pod, count() AS n FROM series WHERE startsWith(pod, '${prefix}') GROUP BY pod ORDER BY n DESC LIMIT 100)`,
	services: () => 'SELECT count(), sum(n) FROM (SELECT service, count() AS n, max(last) FROM series GROUP BY service)',
	diff: ({ from, to, baseFrom, baseTo }) =>
		`SELECT count(), sum(v - u) FROM (${byStack(null, from, to)}) ANY FULL JOIN (${byStack(null, baseFrom, baseTo, 'u')}) USING stack`,
};
