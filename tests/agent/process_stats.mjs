// SPDX-License-Identifier: Apache-2.0
// process_stats.mjs DATA USAGE.json...: the rows of processes.parquet, read by DuckDB, add up to what the programs say that they used. Prints a line a check.
// process_stats.mjs DATA without PID: there are samples of that process, and no such rows. Exit status 1 if not.
import { readdirSync, existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const { DuckDBInstance } = createRequire(new URL('../package.json', import.meta.url))('@duckdb/node-api');
const [data, ...files] = process.argv.slice(2);
const all = readdirSync(`${data}/blocks`).map((name) => `${data}/blocks/${name}`);
const blocks = all.filter((block) => existsSync(`${block}/processes.parquet`));
const database = await (await DuckDBInstance.create(':memory:')).connect();
if (files[0] === 'without') {
	let samples = 0;
	for (const block of all) {
		const result = await database.runAndReadAll(
			`SELECT count(*) AS n FROM '${block}/samples.parquet' r JOIN '${block}/series.parquet' s USING (series_id) WHERE s.label_process_pid = '${Number(files[1])}'`,
		);
		samples += Number(result.getRowObjects()[0].n);
	}
	console.log(`${samples} samples of process ${files[1]} in ${all.length} blocks, of which have rows of processes: ${blocks.join() || 'none'}`);
	process.exit(samples > 0 && blocks.length === 0 ? 0 : 1);
}
const columns = ['cpu_ns', 'rss_bytes', 'minor_faults', 'major_faults', 'voluntary_switches', 'involuntary_switches', 'read_bytes', 'written_bytes', 'threads'];
const levels = ['rss_bytes', 'threads'];
const rows = [];
for (const block of blocks)
	rows.push(
		...(
			await database.runAndReadAll(
				`SELECT r.*, s.* EXCLUDE (series_id) FROM '${block}/processes.parquet' r JOIN '${block}/series.parquet' s USING (series_id) ORDER BY time_ns`,
			)
		).getRowObjects(),
	);
const check = (fine, text) => console.log(`${fine ? 'ok' : 'FAILED'} ${text}`);
check(
	rows.length > 0 && rows.every((row) => row.name === 'process_stats' && row.sample_type === '' && row.label_thread_name == null),
	'rows are of process_stats, and of no thread',
);
check(
	rows.every((row) => row.label_host_name && row.label_process_pid && row.label_process_comm),
	'rows have the labels of processes and host',
);
check(new Set(rows.map((row) => `${row.series_id} ${row.time_ns} ${row.label_process_pid}`)).size === rows.length, 'there is one row a process and time');
// What the process does between saying it and being looked at, and in its last moments.
const slack = {
	cpu_ns: 15e6,
	rss_bytes: 2 << 20,
	minor_faults: 30,
	major_faults: 5,
	voluntary_switches: 10,
	involuntary_switches: 10,
	read_bytes: 65536,
	written_bytes: 65536,
	threads: 0,
};
for (const file of files) {
	const want = JSON.parse(readFileSync(file, 'utf8')),
		stays = want.stays;
	// In a flush that ends in the moment of its exec the process may still go by the name of the shell that started it. What it used is the process's all the same.
	const own = rows.filter((row) => row.label_process_pid === String(want.pid) && ['usage', 'sh'].includes(row.label_process_comm));
	if (!own.some((row) => row.label_process_comm === 'usage')) {
		check(false, `${file}: no row of process ${want.pid}`);
		continue;
	}
	check(own[own.length - 1].label_process_executable_path?.endsWith('/usage'), `${file.replace(/.*\//, '')}: its executable is named`);
	for (const column of columns) {
		const values = own.map((row) => Number(row[column]));
		const got = levels.includes(column) ? (stays ? values[values.length - 1] : 0) : values.reduce((a, b) => a + b, 0);
		const wanted = levels.includes(column) && !stays ? 0 : want[column];
		// Threads that have ended are in its account, and not in the later count of those that live.
		const most = Math.max(wanted, { voluntary_switches: want.most_voluntary, involuntary_switches: want.most_nonvoluntary }[column] ?? 0);
		check(
			got >= wanted - slack[column] && got <= most + slack[column],
			`${file.replace(/.*\//, '')}: ${column} is ${got}, ${wanted} by its own account, rows: ${own.map((row) => `${row.label_process_comm} ${row[column]}`).join(', ')}`,
		);
	}
}
