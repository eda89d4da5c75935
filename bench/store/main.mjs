// SPDX-License-Identifier: Apache-2.0
// main.mjs DATA PROFILES [--no-duckdb] [--no-clickhouse] [--clickhouse-days N]: the store's benchmark over DATA/store. See bench/store.sh.
import { execFileSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { ClickHouse, available as clickhouseHere, sql as clickhouseSql } from './clickhouse.mjs';
import { DuckDB, rollupSql, sql as duckdbSql } from './duckdb.mjs';
import { Server, atLeast, blocksOf, cpuOf, mb, ms, output, timed, verdict } from './measure.mjs';

const [data, profiles, ...rest] = process.argv.slice(2);
const has = (name) => rest.includes(name),
	hour = 3600000,
	day = 24 * hour;
const clickhouseDays = has('--clickhouse-days') ? Number(rest[rest.indexOf('--clickhouse-days') + 1]) : 1;
const store = join(data, 'store'),
	threads = cpus().length;
const fleet = (...options) =>
	JSON.parse(execFileSync(`${output}/bench/fleet`, ['--profiles', profiles, '--json', ...options], { stdio: ['ignore', 'pipe', 'inherit'] }).toString());
const integer = (n) => Math.round(n).toLocaleString('en');

// ---- ingest ----

async function ingest() {
	console.log('\ningest: profiles of one flush (10 s) of a host, each acknowledged after a real fsync');
	const scratch = join(data, 'scratch');
	// An append has costs of its own, so hosts with more CPUs, whose flushes have more samples, cost less a sample.
	for (const [cpus, jobs, days] of [
		[4, 1, 0.01],
		[4, 8, 0.01],
		[32, 8, 0.003],
	]) {
		rmSync(scratch, { recursive: true, force: true });
		const figures = fleet('--data', scratch, '--append', '--days', String(days), '--jobs', String(jobs), '--cpus', String(cpus));
		const rate = figures.samples / figures.store_s;
		console.log(
			`  store_append, hosts of ${cpus} CPUs, ${jobs} at a time   ${integer(rate)} samples/s/core${atLeast(rate, 500000)}; ${(figures.samples / figures.appends).toFixed(0)} samples an append, ack p50 ${ms(figures.ack_p50_ms)}, p99 ${ms(figures.ack_p99_ms)}${verdict(figures.ack_p50_ms, 20, ' ms p50')}`,
		);
	}
	rmSync(scratch, { recursive: true, force: true });
	let server = await Server.start(scratch);
	for (const [cpus, jobs, days] of [
		[4, 1, 0.01],
		[4, 8, 0.01],
		[32, 8, 0.003],
	]) {
		const figures = fleet(
			'--url',
			server.url,
			'--pid',
			String(server.pid),
			'--days',
			String(days),
			'--jobs',
			String(jobs),
			'--cpus',
			String(cpus),
			'--seed',
			String(cpus + jobs),
		);
		console.log(
			`  OTLP over HTTP, hosts of ${cpus} CPUs, ${jobs} clients   ${integer(figures.samples / figures.store_s)} samples/s/core, ${(figures.bytes / 1e6 / figures.store_s).toFixed(1)} MB/s/core, ack p50 ${ms(figures.ack_p50_ms)}, p99 ${ms(figures.ack_p99_ms)}, longest ${ms(figures.ack_max_ms)}`,
		);
	}
	const peak = server.look();
	await server.stop('SIGKILL');
	server = await Server.start(scratch);
	console.log(`  restart after kill -9 with a head in the log   ${ms(server.ready_ms)}${verdict(server.ready_ms, 2000, ' ms')}`);
	console.log(`  server's peak so far   ${mb(peak * 1024)}${verdict(peak / 1024, 512, ' MB')}`);
	await server.stop();
	rmSync(scratch, { recursive: true, force: true });
}

// ---- bytes ----

function bytes(blocks) {
	const sums = {},
		rows = {};
	for (const block of blocks)
		for (const file of block.files) {
			sums[file.name] = (sums[file.name] ?? 0) + file.bytes;
			rows[file.name] = (rows[file.name] ?? 0) + file.rows;
		}
	const samples = rows['samples.parquet'] ?? 0,
		all = Object.values(sums).reduce((a, b) => a + b, 0);
	const isRollup = (name) => /^(rollup|totals)/.test(name);
	const rollups = Object.keys(sums)
		.filter(isRollup)
		.reduce((a, name) => a + sums[name], 0);
	const levels = blocks.reduce((n, block) => ((n[block.level ?? 0] = (n[block.level ?? 0] ?? 0) + 1), n), {});
	console.log(
		`\nbytes: ${integer(samples)} samples in ${blocks.length} blocks (${Object.entries(levels)
			.map(([level, n]) => `level ${level}: ${n}`)
			.join(', ')}), ${mb(all)}`,
	);
	console.log(
		`  a stored sample, all in   ${((all - rollups) / samples).toFixed(2)} bytes without rollups${verdict((all - rollups) / samples, 4)}, ${(all / samples).toFixed(2)} with them`,
	);
	for (const name of ['rollup_5m.parquet', 'rollup_1h.parquet', 'rollup_all.parquet', 'totals.parquet'])
		if (sums[name])
			console.log(
				`  rolled up, ${name.replace('.parquet', '').padEnd(14)} ${(sums[name] / samples).toFixed(2)} bytes a sample${name === 'rollup_1h.parquet' ? verdict(sums[name] / samples, 1) : ''} (${integer(rows[name])} rows of ${(sums[name] / rows[name]).toFixed(1)} bytes)`,
			);
	console.log(
		`  by file   ${Object.entries(sums)
			.sort((a, b) => b[1] - a[1])
			.map(([name, n]) => `${name.replace('.parquet', '')} ${(n / samples).toFixed(3)}`)
			.join(', ')}`,
	);
}

// ---- questions ----

const encode = encodeURIComponent,
	range = ({ from, to }) => `from=${from}&to=${to}`;
const selector = (service) => (service ? `process_cpu{service_name="${service}"}` : 'process_cpu');
const paths = {
	flame: (q) => `/api/v1/query?query=${encode(selector(q.service))}&${range(q)}`,
	function: (q) => `/api/v1/pipeline?q=${encode(`process_cpu | frames function = "${q.name}" | sum`)}&${range(q)}`,
	series: (q) => `/api/v1/series?query=process_cpu&by=service_name&${range(q)}&step=${q.step}ms`,
	values: (q) => `/api/v1/label-values?label=${q.label}&prefix=${encode(q.prefix)}&${range(q)}`,
	services: (q) => `/api/v1/services?limit=10000&${range(q)}`,
	diff: (q) => `/api/v1/diff?query=process_cpu&${range(q)}&base_from=${q.baseFrom}&base_to=${q.baseTo}`,
};

async function questions(server, blocks) {
	const first = Math.min(...blocks.map((block) => block.min_ns)) / 1e6,
		last = Math.ceil((Math.max(...blocks.map((block) => block.max_ns)) / 1e6 + 1) / hour) * hour;
	const all = { from: Math.floor(first), to: last },
		one = { from: last - 9 * hour, to: last - 8 * hour },
		// The same length off the grid of the rollups, as somebody who drags over a chart has it.
		off = (range) => ({ from: range.from + 137000, to: range.to + 137000 }),
		// On the grid of the 5 minutes, but not on that of hours.
		grid = (range) => ({ from: range.from + 20 * 60000, to: range.to + 20 * 60000 }),
		short = { from: one.from + 20 * 60000, to: one.from + 30 * 60000 },
		length = (last - first) / day;
	const services = (await server.json(`/api/v1/label-values?label=service_name&limit=0&${range(all)}`)).values.sort((a, b) => b.series - a.series),
		service = services[0].value;
	const table = await server.json(`${paths.flame(one)}&format=json&limit=0`);
	const name = table.functions.rows.filter((row) => /^[a-z]+\.\w+$/.test(row.name)).sort((a, b) => b.self - a.self)[0]?.name ?? table.functions.rows[0].name;
	const pods = await server.json(`/api/v1/label-values?label=k8s_pod_name&${range(all)}`);
	const back = (days) => ({ from: Math.max(last - days * day, Math.floor(all.from / hour) * hour), to: last });
	console.log(
		`\nqueries over HTTP: ${length.toFixed(1)} days; service ${service}, function ${name}, ${integer(pods.total)} pod names. p50 / p99 (or longest) and CPU time, warm; DuckDB and ClickHouse with ${threads} threads and with 1`,
	);
	const list = [
		{ title: 'one service, 1 h', kind: 'flame', service, ...one, target: 100 },
		{ title: 'one service, 1 h from 20 past', kind: 'flame', service, ...grid(one) },
		{ title: 'one service, 1 h off the grid', kind: 'flame', service, ...off(one) },
		{ title: 'one service, 10 min', kind: 'flame', service, ...short },
		{ title: 'one service, 10 min off the grid', kind: 'flame', service, ...off(short) },
		{ title: 'one service, 24 h', kind: 'flame', service, ...back(1) },
		{ title: 'all services, 10 min', kind: 'flame', ...short },
		{ title: 'all services, 10 min off the grid', kind: 'flame', ...off(short) },
		{ title: 'all services, 1 h', kind: 'flame', ...one },
		{ title: 'all services, 1 h from 20 past', kind: 'flame', ...grid(one) },
		{ title: 'all services, 1 h off the grid', kind: 'flame', ...off(one) },
		{ title: 'all services, 24 h', kind: 'flame', ...back(1) },
		length > 2 && { title: 'all services, 7 d', kind: 'flame', ...back(7), target: 1000 },
		length > 8 && { title: 'all services, 30 d', kind: 'flame', ...back(30), target: 3000 },
		{ title: 'one function, all services, 24 h', kind: 'function', name, ...back(1) },
		{ title: 'series by service, 200 points, 24 h', kind: 'series', ...back(1), step: day / 200 },
		{ title: 'series by service, steps of 10 min, 24 h', kind: 'series', ...back(1), step: 600000 },
		length > 8 && { title: 'series by service, 200 points, 30 d', kind: 'series', ...back(30), step: (30 * day) / 200 },
		length > 8 && { title: 'series by service, steps of 4 h, 30 d', kind: 'series', ...back(30), step: 4 * hour },
		{ title: `pod names by prefix (of ${integer(pods.total)})`, kind: 'values', label: 'k8s_pod_name', prefix: `${service}-0`, ...all, target: 50 },
		{ title: 'services', kind: 'services', ...all, target: 50 },
		{ title: 'diff of two hours', kind: 'diff', ...one, baseFrom: one.from - 6 * hour, baseTo: one.to - 6 * hour },
	];
	return list.filter(Boolean);
}

// What of a response was reading and adding up, without making stacks and trees of it: all that the peers are asked for.
async function phases(server, path) {
	const { explain } = await server.json(`${path}&explain=1`),
		spent = explain?.ms;
	return spent && spent.plan + spent.index + spent.scan + spent.merge;
}

async function askWick(server, list) {
	for (const question of list) {
		const path = paths[question.kind](question),
			response = await server.get(path, true);
		if (response.status !== 200) {
			question.missing = `${response.status} ${response.text.slice(0, 100)}`;
			continue;
		}
		question.answer = response;
		question.wick = await timed(
			() => server.get(path),
			() => cpuOf(server.pid),
		);
		question.sums = await phases(server, path);
		server.look();
		question.peak = server.peak_kb;
	}
}

// The same on one CPU.
async function askWickAlone(server, list) {
	for (const question of list) {
		if (question.missing) continue;
		question.wickAlone = await timed(
			() => server.get(paths[question.kind](question)),
			() => cpuOf(server.pid),
			{ least: 2, most: 8, seconds: 3 },
		);
	}
}

async function askPeer(list, peer, sql, key, span) {
	for (const n of [threads, 1]) {
		await peer.threads(n);
		for (const question of list) {
			if (!sql[question.kind]?.(question)) continue;
			if (span && (question.from < span.from || (question.baseFrom ?? question.from) < span.from)) continue;
			try {
				question[`${key}${n}`] = await timed(
					() => peer.run(sql[question.kind](question)),
					() => peer.cpu(),
					{ least: 2, most: 8, seconds: 3 },
				);
			} catch (error) {
				question[`${key}${n}`] = { failed: String(error.message).split('\n')[0].slice(0, 90) };
			}
		}
	}
}

async function askClickHouse(list, blocks) {
	const last = Math.max(...blocks.map((block) => block.max_ns)) / 1e6,
		from = last - clickhouseDays * day - hour;
	const part = blocks.filter((block) => block.max_ns / 1e6 > from),
		loader = await DuckDB.open(part),
		engine = await ClickHouse.start(join(data, 'clickhouse'));
	try {
		const begun = performance.now();
		await engine.load(loader, part.map((block) => block.name).join());
		console.log(
			`  ClickHouse ${engine.version}: ${part.length} blocks loaded in ${ms(performance.now() - begun)}, ${mb(await engine.bytes())} on disk; it gets sums by stack, not trees of frames, as DuckDB does`,
		);
		await askPeer(list, engine, clickhouseSql, 'clickhouse', { from: Math.min(...part.map((block) => block.min_ns)) / 1e6 - 60000 });
	} finally {
		await engine.stop();
	}
}

// Who knows of the rollups can have sums by stack in little time; that is compared with our sums, for the tree of frames is not in it.
const isSlower = (key, question, peer) =>
	key !== 'clickhouse' && peer.p50 < (key === 'rollup' && question.kind === 'flame' ? (question.sums ?? question.wick.p50) : question.wick.p50);

function print(list) {
	for (const question of list) {
		console.log(`  ${question.title}`);
		if (question.missing) console.log(`      wick          cannot: ${question.missing}`);
		else
			console.log(
				`      wick          ${ms(question.wick.p50)} / ${ms(question.wick.p99)}, CPU ${ms(question.wick.cpu)}, sums alone ${ms(question.sums)}, first ${ms(question.wick.first)}; answer ${mb(question.answer.bytes)}, peak so far ${Math.round(question.peak / 1024)} MB${verdict(question.wick.p50, question.target, ' ms')}`,
			);
		if (question.wickAlone) console.log(`      wick, 1 CPU   ${ms(question.wickAlone.p50)} / ${ms(question.wickAlone.p99)}, CPU ${ms(question.wickAlone.cpu)}`);
		for (const [key, title] of [
			['duckdb', 'duckdb'],
			['rollup', 'duckdb on rollups'],
			['clickhouse', 'clickhouse'],
		])
			for (const n of [threads, 1]) {
				const peer = question[`${key}${n}`];
				if (!peer) continue;
				const label = `${title} x${n}`.padEnd(key === 'rollup' ? 23 : 15);
				if (peer.failed) console.log(`      ${label}cannot: ${peer.failed}`);
				else
					console.log(
						`      ${label}${ms(peer.p50)} / ${ms(peer.p99)}, CPU ${ms(peer.cpu)}${question.wick ? `  (wick ${ms(question.wick.p50)}, ${title} ${ms(peer.p50)}: ${(peer.p50 / question.wick.p50).toFixed(2)} x)${isSlower(key, question, peer) ? '  SLOWER THAN DUCKDB' : ''}` : ''}`,
					);
			}
	}
}

// ---- all of it ----

await ingest();
let blocks = blocksOf(store);
let server = await Server.start(store);
console.log(`\nstart with ${blocks.length} blocks   ${ms(server.ready_ms)}${verdict(server.ready_ms, 2000, ' ms')}`);
blocks = blocksOf(store);
bytes(blocks);
const list = await questions(server, blocks);
await askWick(server, list);
const peak = server.look();
await server.stop();
server = await Server.start(store, [], ['taskset', '-c', '0']);
await askWickAlone(server, list);
await server.stop();
if (!has('--no-duckdb') || !has('--no-clickhouse')) {
	blocks = blocksOf(store);
	const database = await DuckDB.open(blocks);
	if (!has('--no-duckdb')) await askPeer(list, database, duckdbSql, 'duckdb');
	if (!has('--no-duckdb') && database.hasRollups) await askPeer(list, database, rollupSql, 'rollup');
	if (has('--no-clickhouse') || !clickhouseHere()) console.log('  ClickHouse: left out');
	else await askClickHouse(list, blocks).catch((error) => console.log(`  ClickHouse: ${error.message}`));
}
print(list);
console.log(`\nserver's peak memory   ${mb(peak * 1024)}${verdict(peak / 1024, 512, ' MB')}`);
process.exit(0);
