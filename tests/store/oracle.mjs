// SPDX-License-Identifier: Apache-2.0
// The oracle: generated queries, 200 in the full run, over a small fleet (bench/fleet), whose sums must equal those that DuckDB finds in the Parquet files.
//
// The data is spread over all places that it can be in: blocks of a head's size, merged blocks once the server has made them, blocks that the
// server cut, and the head itself. DuckDB cannot see a head, so Wick is asked first, then stopped, which writes the head as a block, and
// DuckDB adds up after that. It reads samples, series, stacks, locations, lines, functions and mappings and nothing that is derived from them: no
// labels, totals or rollups.
//
// A query is made from the seed and its own number: ORACLE_SEED=n ORACLE_QUERY=k runs it alone. ORACLE_START is the start of the data (ms).
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { startServer, request, temporaryDirectory, test, skip, finish } from '../harness.mjs';

const { DuckDBInstance } = createRequire(new URL('../package.json', import.meta.url))('@duckdb/node-api');
const hour = 3600000,
	count = Number(process.env.ORACLE_QUERIES ?? (process.env.WICK_TEST_FULL ? 200 : 80)),
	seed = Number(process.env.ORACLE_SEED ?? 1);
const only = process.env.ORACLE_QUERY === undefined ? null : Number(process.env.ORACLE_QUERY);
const start = Number(process.env.ORACLE_START ?? Math.floor((Date.now() - 9 * hour) / hour) * hour),
	end = start + 6.5 * hour;
const output = process.env.O ?? 'build',
	fleet = `${output}/bench/fleet`,
	profiles = process.env.FLEET_PROFILES ?? `${output}/fleet-profiles`;
const data = `${temporaryDirectory()}/data`;

// ---- data ----

const generate = (fromHours, hours, ...way) =>
	execFileSync(
		fleet,
		[
			'--profiles',
			profiles,
			'--seed',
			String(seed),
			'--hosts',
			'6',
			'--services',
			'12',
			'--pods',
			'5',
			'--stacks',
			'700',
			'--deploy-days',
			'0.2',
			'--pod-hours',
			'1.5',
			'--memory',
			'60',
			'--start',
			String(start + fromHours * hour),
			'--days',
			String(hours / 24),
			...way,
		],
		{ stdio: ['ignore', 'pipe', 'ignore'] },
	);
const blockNames = () => readdirSync(join(data, 'blocks'));
const meta = (name) => JSON.parse(readFileSync(join(data, 'blocks', name, 'meta.json'), 'utf8'));

generate(0, 5, '--data', data, '--window', '30m');
let server = await startServer(data);
// The server merges what is old enough; that may take a moment, and the queries must be right before, while and after.
for (let i = 0; i < 40 && !blockNames().some((name) => existsSync(join(data, 'blocks', name, 'meta.json')) && meta(name).level > 0); i++)
	await new Promise((resolve) => setTimeout(resolve, 250));
generate(5, 0.75, '--url', server.url, '--jobs', '4');
assert.equal(await server.stop(), 0); // cuts the head
server = await startServer(data);
generate(5.75, 0.75, '--url', server.url, '--jobs', '4');

// ---- what values there are, for the selectors: from the first blocks ----

const instance = await DuckDBInstance.create(':memory:');
const database = await instance.connect();
const rows = async (sql) => {
	try {
		return (await database.runAndReadAll(sql)).getRowObjects();
	} catch (error) {
		throw new Error(`${error.message}\n    ${sql}`);
	}
};
// A block that another one replaces is there only until the server's next start.
function blocks() {
	const names = blockNames().filter((name) => existsSync(join(data, 'blocks', name, 'meta.json'))),
		replaced = new Set(names.flatMap((name) => meta(name).replaces ?? []));
	return names.filter((name) => !replaced.has(name)).map((name) => join(data, 'blocks', name));
}
const blockOf = "regexp_extract(filename, 'blocks/([^/]+)/', 1)";
const table = (name, paths) => `read_parquet([${paths.map((path) => `'${path}/${name}.parquet'`).join(', ')}], union_by_name = true, filename = true)`;
const labels = ['service_name', 'host_name', 'region', 'env', 'thread_name', 'k8s_namespace_name', 'service_version', 'k8s_pod_name', 'process_pid'];
const values = {},
	sources = {};
{
	const paths = blocks();
	for (const type of ['process_cpu', 'memory'])
		sources[type] = await rows(
			`SELECT DISTINCT ${labels.map((label) => `label_${label} AS ${label}`).join(', ')} FROM ${table('series', paths)} WHERE name = '${type}' ORDER BY ALL`,
		);
	for (const label of labels)
		values[label] = (await rows(`SELECT DISTINCT label_${label} AS v FROM ${table('series', paths)} WHERE label_${label} IS NOT NULL ORDER BY 1`)).map(
			(row) => row.v,
		);
}

// ---- queries ----

function generator(state) {
	const mix = (z) => {
		z = BigInt.asUintN(64, (z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n);
		z = BigInt.asUintN(64, (z ^ (z >> 27n)) * 0x94d049bb133111ebn);
		return z ^ (z >> 31n);
	};
	let s = mix(BigInt(state) + 0x9e3779b97f4a7c15n); /* far apart for states that are near each other */
	const next = () => {
		s = BigInt.asUintN(64, s + 0x9e3779b97f4a7c15n);
		return Number(mix(s) >> 11n);
	};
	const random = (n) => next() % n;
	return { random, pick: (list) => list[random(list.length)], chance: (percent) => random(100) < percent };
}
const isGauge = (query) => query.type === 'memory'; /* averaged over profiles, not summed: tests/store/gauges.mjs has more of these */
const escapeRegex = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
const quote = (text) => `"${text.replace(/\\/g, '\\\\').replace(/"/g, '\\"')}"`;

// Most matchers are made from the labels of one series, so that several of them together still select something.
function makeMatcher({ random, pick, chance }, source) {
	if (chance(4)) return { label: 'no_such_label', op: pick(['=', '!=', '=~', '!~']), value: pick(['', 'x', '.*']) };
	const label = pick(chance(80) ? labels.slice(0, 6) : labels),
		value = chance(80) && source[label] ? source[label] : pick(values[label]),
		op = pick(['=', '=', '!=', '=~', '=~', '!~']);
	if (op === '=' || op === '!=') return { label, op, value: chance(6) ? '' : value };
	const other = pick(values[label]);
	const forms = [
		() => `${escapeRegex(value)}|${escapeRegex(other)}`,
		() => `${escapeRegex(value.slice(0, 1 + random(value.length)))}.*`,
		() => `.*${escapeRegex(value.slice(-2))}`,
		() => '.+',
		() => `[${value[0]}-z].*`,
		() => escapeRegex(value),
	];
	return { label, op, value: pick(forms)() };
}
function makeRange({ random, pick, chance }) {
	if (chance(15)) return [start - hour, end + hour];
	const grain = pick([1, 1, 10000, 300000, 300000, 3600000]);
	let from = start - 600000 + random(chance(50) ? end - start : 2 * hour),
		to = from + 1 + random(pick([600000, 2 * hour, 7 * hour, 7 * hour]));
	from -= from % grain;
	to += grain - (to % grain);
	return [from, to];
}
const functionPatterns = [
	'^checkout\\.',
	'^(cart|login)\\.',
	'entry_SYSCALL_64',
	'page_fault',
	'^search\\..*[aeiou]$',
	'^(orders|images|billing)\\.',
	'checkout.*Eval',
];
const binaryNames = ['checkout-00', 'cart-01', '/opt/search-02/bin/search-02', 'orders-04', 'libc.so.6'];
function makeFrames({ pick, chance }, source) {
	const word = source.service_name.split('-')[0],
		own = [`^${word}\\.`, `^${word}\\..*[aeiou]`, `^${word}\\.[a-m_]`];
	const where = pick(['any', 'any', 'leaf', 'root']),
		drop = chance(25);
	const [field, op, value] = pick([
		() => ['function', '=~', pick(own)],
		() => ['function', '=~', pick(functionPatterns)],
		() => ['binary', '=', pick([...binaryNames, source.service_name])],
		() => ['binary', '=~', pick(['^/opt/', 'libc', 'checkout'])],
		() => ['file', '=~', pick(['^/checkout-00/', '\\.c$', '^/cart'])],
		() => ['kernel'],
		() => ['user'],
	])();
	return { where, drop, field, op, value };
}
function makeQuery(number) {
	const rng = generator(seed * 100003 + number);
	const type = rng.chance(80) ? 'process_cpu' : 'memory';
	const source = rng.pick(sources[type]),
		matchers = Array.from({ length: rng.pick([0, 0, 1, 1, 1, 2, 3]) }, () => makeMatcher(rng, source));
	const [from, to] = makeRange(rng);
	const query = {
		number,
		type,
		matchers,
		from,
		to,
		exact: rng.chance(50),
		kind: rng.pick(['total', 'total', 'functions', 'series', 'series', 'values', 'frames', 'frames', 'groups', 'frameSeries', 'diff', 'frameFunctions']),
	};
	query.selector = `${type}${matchers.length ? `{${matchers.map((m) => `${m.label}${m.op}${quote(m.value)}`).join(', ')}}` : ''}`;
	if (['series', 'frameSeries'].includes(query.kind)) query.step = rng.pick([10, 60, 60, 97, 300, 300, 900, 3600, 7200]);
	if (['series', 'groups', 'frameSeries'].includes(query.kind))
		query.by = [
			...new Set(
				Array.from({ length: query.kind === 'groups' ? 1 + rng.random(2) : rng.pick([0, 1, 1, 2, 3]) }, () =>
					rng.chance(4) ? 'no_such_label' : rng.pick(labels),
				),
			),
		];
	if (['frames', 'frameSeries', 'frameFunctions'].includes(query.kind) || (['groups', 'diff'].includes(query.kind) && rng.chance(30)))
		query.frames = Array.from({ length: rng.pick([1, 1, 2]) }, () => makeFrames(rng, source));
	if (query.kind === 'diff') [query.baseFrom, query.baseTo] = makeRange(rng);
	if (query.kind === 'values') [query.label, query.from, query.to] = [rng.pick(labels), start - hour, end + hour];
	if (query.kind === 'values')
		query.prefix = rng.chance(60) ? ((rng.chance(70) && source[query.label]) || rng.pick(values[query.label])).slice(0, 1 + rng.random(6)) : '';
	return query;
}

// ---- Wick's answers, each as a Map from a key to a sum ----

const get = async (path, parameters) => {
	const search = parameters.map(([key, value]) => `${key}=${encodeURIComponent(value)}`).join('&');
	const response = await request(server.port, 'GET', `/api/v1/${path}?${search}`);
	return { status: response.status, text: response.body.toString() };
};
const read = { from_samples: 0, from_rollups: 0, from_totals: 0, head_rows: 0 };
const ask = async (path, parameters) => {
	const { status, text } = await get(path, [...parameters, ['explain', 1]]);
	assert.equal(status, 200, `${path} ${JSON.stringify(parameters)}: ${text.slice(0, 300)}`);
	const parsed = JSON.parse(text);
	for (const from of Object.keys(read)) read[from] += parsed.explain?.[from] ?? 0;
	assert.ok(!parsed.partial && !parsed.stats?.partial, 'a partial answer');
	return parsed;
};
const common = (query, text = query.selector) => [['query', text], ['from', query.from], ['to', query.to], ...(query.exact ? [['exact', 1]] : [])];
const keyOf = (by, labels) => JSON.stringify(by.map((name) => labels[name] ?? ''));
const put = (map, key, value) => {
	if (value !== 0n) map.set(key, (map.get(key) ?? 0n) + value);
};
const words = /^(checkout|cart|search|login|orders|billing|catalog|images|mailer|ranking|reports|gateway)\./;

// Functions of services that send names; those of addresses are named by symbols that DuckDB does not have.
function namedRows(list) {
	const map = new Map();
	for (const row of list)
		if (words.test(row.name)) {
			put(map, `self ${row.name} ${row.file}`, BigInt(row.self));
			put(map, `total ${row.name} ${row.file}`, BigInt(row.total));
		}
	return map;
}

const asked = {
	async total(query) {
		const response = await ask('query', common(query)),
			map = new Map();
		put(map, 'total', BigInt(response.total));
		query.stacks = response.stats.samples;
		return map;
	},
	async functions(query) {
		return namedRows((await ask('query', [...common(query), ['format', 'json'], ['limit', 0]])).functions.rows);
	},
	async series(query, text) {
		const response = await ask('series', [...common(query, text), ['step', `${query.step}s`], ['limit', 100000], ...query.by.map((name) => ['by', name])]),
			map = new Map();
		assert.equal(response.series.length, response.total_series);
		for (const row of response.series) {
			let sum = 0n;
			for (const [time, value] of row.points) {
				put(map, `${keyOf(query.by, row.labels)} ${time}`, BigInt(value));
				sum += BigInt(value);
			}
			if (!isGauge(query)) assert.equal(sum, BigInt(row.total), "a row's total is the sum of its points");
		}
		return map;
	},
	async values(query) {
		const response = await ask('label-values', [...common(query), ['label', query.label], ['prefix', query.prefix], ['limit', 0]]);
		return new Map(response.values.map(({ value }) => [value, 1n]));
	},
	frames: (query) => pipelined.frames(query),
	groups: (query) => pipelined.groups(query),
	frameSeries: (query) => pipelined.frameSeries(query),
	diff: (query) => pipelined.diff(query),
	frameFunctions: (query) => pipelined.top(query),
};

// Stages of the query language, where the server has them.
const stage = ({ drop, where, field, op, value }) =>
	` | ${drop ? 'drop ' : ''}frames ${where === 'any' ? '' : `${where} `}${field}${op ? ` ${op} ${quote(value)}` : ''}`;
const pipelined = {
	text: (query) => query.selector + (query.frames ?? []).map(stage).join(''),
	frames: (query) => asked.total({ ...query, selector: pipelined.text(query) }),
	frameSeries: (query) => asked.series(query, pipelined.text(query)),
	// The flame graph has the labels at its root, one level a label.
	async groups(query) {
		const response = await ask('query', [...common(query, `${pipelined.text(query)} | group by ${query.by.join(', ')}`), ['max_nodes', 0]]),
			map = new Map();
		const { strings, nodes } = response.flame,
			labelsOf = [{}],
			depth = [0];
		for (let i = 1; i < nodes.parent.length; i++) {
			const parent = nodes.parent[i],
				text = strings[nodes.name[i]],
				at = text.indexOf('=');
			depth[i] = depth[parent] + 1;
			if (depth[i] > query.by.length) continue;
			labelsOf[i] = { ...labelsOf[parent], [text.slice(0, at)]: text.slice(at + 1) };
			assert.equal(text.slice(0, at), query.by[depth[i] - 1], 'labels are at the root, in the order asked for');
			if (depth[i] === query.by.length) put(map, keyOf(query.by, labelsOf[i]), BigInt(nodes.total[i]));
		}
		return map;
	},
	async diff(query) {
		const response = await ask('diff', [...common(query, pipelined.text(query)), ['base_from', query.baseFrom], ['base_to', query.baseTo]]),
			map = new Map();
		put(map, 'base', BigInt(response.base_total));
		put(map, 'total', BigInt(response.total));
		return map;
	},
	async top(query) {
		const response = await ask('query', [...common(query, pipelined.text(query)), ['format', 'json'], ['limit', 0]]);
		return namedRows(response.functions.rows);
	},
};
const hasPipeline =
	(
		await get('query', [
			['query', 'process_cpu | frames user'],
			['from', start],
			['to', start + 1000],
		])
	).status === 200;
const needsPipeline = (query) => ['frames', 'frameSeries', 'groups', 'diff', 'frameFunctions'].includes(query.kind);

const queries = (only === null ? Array.from({ length: count }, (_, number) => number) : [only]).map(makeQuery);
for (const query of queries) if (hasPipeline || !needsPipeline(query)) query.got = await asked[query.kind](query).catch((error) => error);
const log = server.log();
assert.equal(await server.stop(), 0);

// ---- DuckDB's ----

const paths = blocks();
for (const name of ['samples', 'series', 'stacks', 'locations', 'lines', 'functions', 'mappings'])
	await rows(`CREATE TABLE raw_${name} AS SELECT *, ${blockOf} AS block FROM ${table(name, paths)}`);
const columns = new Set((await rows("SELECT column_name AS name FROM information_schema.columns WHERE table_name = 'raw_series'")).map((row) => row.name));
const labelSql = (name) => (columns.has(`label_${name}`) ? `coalesce(label_${name}, '')` : "''");
const identity = [...columns].filter((name) => name === 'labels' || name.startsWith('label_'));
await rows(`CREATE TABLE x AS SELECT s.block, s.stack_id, k.hash AS h, epoch_ns(s.time_ns) AS t, s.value, to_json([${identity.map((name) => `"${name}"::VARCHAR`).join(', ')}])::VARCHAR AS sid, e.* EXCLUDE (block, series_id)
	FROM raw_samples s JOIN raw_series e USING (block, series_id) JOIN raw_stacks k USING (block, stack_id)`);
// Frames of each stack by its hash, taken from one of the blocks that have it; depth 0 is the leaf.
await rows(`CREATE TABLE frames AS WITH RECURSIVE
	one AS (SELECT hash AS h, min(block || ' ' || stack_id) AS place FROM raw_stacks WHERE hash IS NOT NULL GROUP BY 1),
	walk AS (
		SELECT h, k.block, k.parent_id, k.location_id, 0 AS depth FROM one JOIN raw_stacks k ON place = k.block || ' ' || k.stack_id
		UNION ALL
		SELECT w.h, w.block, k.parent_id, k.location_id, w.depth + 1 FROM walk w JOIN raw_stacks k ON k.block = w.block AND k.stack_id = w.parent_id WHERE w.parent_id <> 0)
	SELECT h, depth, parent_id = 0 AS is_root, frame_type, m.file_name AS place, coalesce(position, 0) AS position, coalesce(position = max(position) OVER (PARTITION BY h, depth), true) AS is_last, coalesce(name, '') AS name, coalesce(f.file_name, '') AS file
	FROM walk w JOIN raw_locations o USING (block, location_id) JOIN raw_mappings m USING (block, mapping_id)
	LEFT JOIN raw_lines l ON l.block = w.block AND l.location_id = w.location_id LEFT JOIN raw_functions f ON f.block = l.block AND f.function_id = l.function_id`);

const literal = (text) => `'${text.replace(/'/g, "''")}'`;
function conditionOf({ label, op, value }) {
	const sql = labelSql(label);
	return {
		'=': `${sql} = ${literal(value)}`,
		'!=': `${sql} <> ${literal(value)}`,
		'=~': `regexp_full_match(${sql}, ${literal(value)})`,
		'!~': `NOT regexp_full_match(${sql}, ${literal(value)})`,
	}[op];
}
function frameCondition({ where, drop, field, op, value }) {
	const test = {
		function: () => `regexp_matches(name, ${literal(value)})`,
		file: () => `regexp_matches(file, ${literal(value)})`,
		binary: () => (op === '=' ? `(place = ${literal(value)} OR ends_with(place, ${literal(`/${value}`)}))` : `regexp_matches(place, ${literal(value)})`),
		kernel: () => 'frame_type = 2',
		user: () => 'frame_type <> 2',
	}[field]();
	const place = { any: 'true', leaf: 'depth = 0 AND position = 0', root: 'is_root AND is_last' }[where];
	return `h ${drop ? 'NOT IN' : 'IN'} (SELECT h FROM frames WHERE ${place} AND ${test})`;
}
// A range of six hours or more is widened to whole five minutes, unless it shall be exact.
const widened = (exact, from, to, step = 300000) =>
	exact || to - from < 6 * hour ? [from, to] : [Math.floor(from / step) * step, Math.ceil(to / step) * step];
const selected = (query, from, to) => selectedIn(query, ...widened(query.exact, from ?? query.from, to ?? query.to));
const selectedIn = (query, from, to, frames = query.frames ?? []) =>
	[`name = ${literal(query.type)}`, `t >= ${from}000000`, `t < ${to}000000`, ...query.matchers.map(conditionOf), ...frames.map(frameCondition)].join(' AND ');
// What is selected, each value with what it counts: of gauges, the share that its profile has among those of its series in the step or range. Conditions
// on frames choose values, not profiles.
function valued(query, from = query.from, to = query.to, step = null) {
	const range = step ? [from, to] : widened(query.exact, from, to),
		bucket = step ? `t // ${step}000000` : '0';
	if (!isGauge(query)) return `(SELECT *, value::HUGEINT AS v FROM x WHERE ${selectedIn(query, ...range)})`;
	return `(SELECT x.*, value / n AS v FROM x JOIN (SELECT sid, ${bucket} AS bucket, count(DISTINCT t) AS n FROM x WHERE ${selectedIn(query, ...range, [])} GROUP BY ALL) AS profiles
		ON x.sid = profiles.sid AND ${bucket} = profiles.bucket WHERE ${selectedIn(query, ...range)})`;
}
const summed = (query) => (isGauge(query) ? 'round(coalesce(sum(v), 0)::DECIMAL(38, 6))::HUGEINT' : 'coalesce(sum(v), 0)::HUGEINT');
const bySql = (query) => `to_json([${query.by.map(labelSql).join(', ')}])::VARCHAR`;

const wanted = {
	async total(query) {
		const [row] = await rows(`SELECT ${summed(query)} AS total, count(DISTINCT h) AS least, count(DISTINCT (block, stack_id)) AS most FROM ${valued(query)}`),
			map = new Map();
		put(map, 'total', BigInt(row.total));
		/* Averages of stacks that are next to nothing are rounded to nothing. */
		if (query.stacks !== undefined)
			assert.ok(
				(isGauge(query) || query.stacks >= Number(row.least)) && query.stacks <= Number(row.most),
				`${query.stacks} stacks, not ${row.least} to ${row.most}`,
			);
		return map;
	},
	async functions(query) {
		const map = new Map(),
			pattern = literal(words.source);
		for (const [what, place] of [
			['self', 'depth = 0 AND position = 0'],
			['total', 'true'],
		])
			for (const row of await rows(`WITH sums AS (SELECT h, sum(v) AS v FROM ${valued(query)} GROUP BY 1)
				SELECT name, file, ${summed(query)} AS v, count(*) AS stacks FROM sums JOIN (SELECT DISTINCT h, name, file FROM frames WHERE ${place} AND regexp_matches(name, ${pattern})) USING (h) GROUP BY ALL`)) {
				put(map, `${what} ${row.name} ${row.file}`, BigInt(row.v));
				/* Each stack may be rounded up or down. */
				if (isGauge(query)) (query.slack ??= new Map()).set(`${what} ${row.name} ${row.file}`, BigInt(row.stacks));
			}
		return map;
	},
	async series(query) {
		const map = new Map(),
			step = query.step * 1000,
			range = widened(query.exact, query.from, query.to),
			from = Math.floor(range[0] / step) * step,
			to = Math.ceil(range[1] / step) * step;
		const by = query.by.length ? bySql(query) : "'[]'";
		for (const row of await rows(
			`SELECT ${by} AS key, t // ${step}000000 * ${step} AS time, ${summed(query)} AS v FROM ${valued(query, from, to, step)} GROUP BY ALL`,
		))
			put(map, `${JSON.stringify(JSON.parse(row.key))} ${row.time}`, BigInt(row.v));
		return map;
	},
	async values(query) {
		return new Map(
			(
				await rows(`SELECT DISTINCT ${labelSql(query.label)} AS v FROM x WHERE ${selected(query)} AND starts_with(v, ${literal(query.prefix)}) AND v <> ''`)
			).map((row) => [row.v, 1n]),
		);
	},
	frames: (query) => wanted.total(query),
	frameSeries: (query) => wanted.series(query),
	frameFunctions: (query) => wanted.functions(query),
	async groups(query) {
		return new Map(
			(await rows(`SELECT ${bySql(query)} AS key, ${summed(query)} AS v FROM ${valued(query)} GROUP BY 1`)).map((row) => [
				JSON.stringify(JSON.parse(row.key)),
				BigInt(row.v),
			]),
		);
	},
	async diff(query) {
		const map = new Map();
		for (const [key, from, to] of [
			['base', query.baseFrom, query.baseTo],
			['total', query.from, query.to],
		])
			put(map, key, BigInt((await rows(`SELECT ${summed(query)} AS v FROM ${valued(query, from, to)}`))[0].v));
		return map;
	},
};

// ---- the verdict ----

const fixture = await rows('SELECT count(*) AS n, count(DISTINCT h) AS stacks FROM x');
const levels = paths.map((path) => JSON.parse(readFileSync(join(path, 'meta.json'), 'utf8')).level ?? 0);
console.log(`# seed ${seed}, start ${start}: ${fixture[0].n} samples, ${fixture[0].stacks} stacks, ${paths.length} blocks of levels ${levels.join(' ')}`);
await test('the fixture has data, and no block was set aside', async () => {
	assert.ok(fixture[0].n > 100000n && fixture[0].stacks > 3000n && paths.length > 2);
	assert.ok(!existsSync(join(data, 'quarantine')) || readdirSync(join(data, 'quarantine')).length === 0, log);
});
const empty = {};
const skipped = {};
for (const query of queries) {
	if (query.got === undefined) {
		skipped[query.kind] = (skipped[query.kind] ?? 0) + 1;
		continue;
	}
	const { got, ...shown } = query;
	await test(`query ${query.number}: ${query.kind} of ${query.selector}`, async () => {
		const replay = `ORACLE_SEED=${seed} ORACLE_START=${start} ORACLE_QUERY=${query.number}: ${JSON.stringify(shown)}`;
		if (got instanceof Error) throw new Error(`${replay}\n    ${got.message}`);
		const want = await wanted[query.kind](shown);
		if (want.size === 0) empty[query.kind] = (empty[query.kind] ?? 0) + 1;
		const wrong = [...new Set([...want.keys(), ...got.keys()])].filter((key) => {
			const by = (want.get(key) ?? 0n) - (got.get(key) ?? 0n);
			return (by < 0n ? -by : by) > (shown.slack?.get(key) ?? 0n);
		});
		assert.equal(
			wrong.length,
			0,
			`${replay}\n    ${wrong.length} of ${want.size} differ: ${wrong
				.slice(0, 4)
				.map((key) => `${key}: DuckDB ${want.get(key)}, Wick ${got.get(key)}`)
				.join('; ')}`,
		);
	});
}
const nothing = Object.values(empty).reduce((a, b) => a + b, 0);
console.log(`# nothing was selected by ${nothing}: ${JSON.stringify(empty)}`);
if (only === null)
	await test(`answers came from all there is to read: ${JSON.stringify(read)}`, async () => assert.ok(Object.values(read).every((n) => n > 0)));
if (only === null)
	await test('most queries found something', async () => assert.ok(nothing < queries.length / 2, `${nothing} of ${queries.length} were empty`));
for (const [kind, n] of Object.entries(skipped)) skip(`${n} queries of kind ${kind}`, "the server does not know the query language's stages");
finish();
