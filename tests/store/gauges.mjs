// SPDX-License-Identifier: Apache-2.0
// Gauges: 40 generated queries on heaps and goroutines (200 in a full test run), whose averages must equal DuckDB's. DuckDB has what was sent, as one row
// a profile and stack, and nothing that Wick wrote. Pods are scraped at intervals of their own, from 10 s to 20 min, miss scrapes, begin late and end
// early; some profiles are all zero or empty, come up to 40 minutes late, are sent twice, or share series and time with another. The queries are asked
// of what is in memory and in blocks, of merged blocks with rollups, and, in whole five minutes, of rollups alone. Many ranges end exactly at a
// profile, and steps may be longer than ranges.
//
// GAUGES_SEED=n tries other data and other queries.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { startServer, request, pprofProfile, temporaryDirectory, test, finish } from '../harness.mjs';

const { DuckDBInstance } = createRequire(new URL('../package.json', import.meta.url))('@duckdb/node-api');
const hour = 3600000,
	minute = 60000;
const data = `${temporaryDirectory()}/data`;
const start = Math.floor((Date.now() - 9 * hour) / (2 * hour)) * 2 * hour,
	end = start + 6 * hour;

let state = Number(process.env.GAUGES_SEED ?? 1) * 7919 + 17;
const random = (n) => {
	state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
	return Math.floor((state / 0x80000000) * n);
};
const pick = (list) => list[random(list.length)];

// ---- what is sent, and what DuckDB is told ----

const intervals = [10, 15, 30, 45, 60, 97, 300, 600, 1200];
const pods = intervals.map((interval, i) => ({
	interval: interval * 1000,
	labels: { service_name: `service${i % 3}`, region: `region${i % 2}`, k8s_pod_name: `pod${i}` },
	from: start + (i % 4 === 3 ? random(3 * hour) : random(10 * minute)),
	to: i % 4 === 2 ? start + hour + random(3 * hour) : end,
}));
const types = { heap: ['inuse_space', 'bytes', 'memory:inuse_space'], goroutines: ['goroutine', 'count', 'goroutine:goroutine'] };
const stackNames = ['main;serve;parse', 'main;serve;parse;copy', 'main;serve;cache', 'main;serve', 'main;background;sweep', 'main;background'];
const rows = [],
	times = [],
	sends = [];
for (const pod of pods)
	for (let time = pod.from; time < pod.to; time += pod.interval + random(pod.interval / 5)) {
		if (random(12) === 0) continue; /* a missed scrape */
		for (const type of Object.keys(types)) {
			const add = (zero) => {
				const stacks = stackNames
					.map((name, i) => [name, zero || (i > 0 && random(4) === 0) ? 0 : type === 'heap' ? random(3000000) : random(9)])
					.filter(() => !zero || random(2) > 0);
				/* A row of zero for the profile itself. */
				for (const [name, value] of [['', 0], ...stacks])
					rows.push(`('${type}', '${pod.labels.service_name}', '${pod.labels.region}', '${pod.labels.k8s_pod_name}', ${time}, '${name}', ${value})`);
				times.push(time);
				const late = random(5) === 0 ? random(40 * minute) : 0;
				return { type, pod, time, arrival: time + late, stacks: stacks.map(([name, value]) => [name.split(';').reverse(), value]) };
			};
			sends.push(add(random(6) === 0));
			/* Of another process with the same labels: one profile of both. */
			if (random(12) === 0) sends.push({ ...add(random(4) === 0), arrival: time + random(hour), serial: sends.length });
			/* What was acknowledged, and the answer lost. */
			if (random(15) === 0) sends.push({ ...sends.at(-1), arrival: time + random(hour) });
		}
	}
sends.sort((a, b) => a.arrival - b.arrival);

const instance = await DuckDBInstance.create(':memory:');
const database = await instance.connect();
await database.run('CREATE TABLE x (type VARCHAR, service_name VARCHAR, region VARCHAR, k8s_pod_name VARCHAR, t BIGINT, stack VARCHAR, value BIGINT)');
for (let i = 0; i < rows.length; i += 5000) await database.run(`INSERT INTO x VALUES ${rows.slice(i, i + 5000).join(', ')}`);

// The average of each series (a type and a pod) over its profiles, then the sum over series. Conditions on stacks are on values only.
async function averages({ type, where, frames, from, to, by = [], step, stacks }) {
	const keys = ['1 AS one', ...by, ...(step ? [`t // ${step} * ${step} AS step`] : [])].join(', '),
		names = ['one', ...by, ...(step ? ['step'] : [])].join(', ');
	const range = `type = '${type}' AND t >= ${from} AND t < ${to} AND ${where}`;
	const reader = await database.runAndReadAll(`
		WITH profiles AS (SELECT ${keys}, k8s_pod_name AS pod, count(DISTINCT t) AS n FROM x WHERE ${range} GROUP BY ALL),
		sums AS (SELECT ${keys}, k8s_pod_name AS pod, ${stacks ? 'stack' : "''"} AS stack, sum(value) AS v FROM x WHERE ${range} AND ${frames} GROUP BY ALL)
		SELECT ${names}, stack, round(sum(v / n), 6) AS v FROM sums JOIN profiles USING (${names}, pod) GROUP BY ALL`);
	return new Map(
		reader
			.getRowObjects()
			.map((row) => [JSON.stringify([...(stacks ? [row.stack] : []), ...by.map((name) => row[name]), ...(step ? [Number(row.step)] : [])]), Math.round(row.v)]),
	);
}

// ---- queries ----

const conditions = [
	['', 'true'],
	['', 'true'],
	['{service_name="service1"}', "service_name = 'service1'"],
	['{region!="region0"}', "region <> 'region0'"],
	['{k8s_pod_name=~"pod[0-4]"}', "regexp_full_match(k8s_pod_name, 'pod[0-4]')"],
	['{service_name="service0", k8s_pod_name!="pod3"}', "service_name = 'service0' AND k8s_pod_name <> 'pod3'"],
];
const frameConditions = [
	['', 'true'],
	['', 'true'],
	[' | frames = "serve"', "contains(stack, ';serve')"],
	[' | frames leaf = "parse"', "ends_with(stack, ';parse')"],
	[' | drop frames = "background"', "NOT contains(stack, 'background')"],
];
function makeQuery(grain) {
	const type = pick(Object.keys(types)),
		[selector, where] = pick(conditions),
		[stages, frames] = pick(frameConditions),
		kind = pick(['total', 'total', 'tree', 'series', 'series', 'sum', 'top', 'diff', 'compare', 'functions']);
	const range = () => {
		const from = start - (start % grain) + random(Math.ceil((end - start) / grain)) * grain;
		const ends = from + grain * (1 + random(Math.ceil(pick([10 * minute, hour, 5 * hour]) / grain)));
		if (grain > 1 || random(3) > 0) return [from, ends];
		/* From a profile to another, or to just behind it. */
		const first = pick(times),
			last = pick(times.filter((time) => time >= first && time < first + 5 * hour));
		return [first, last + (last === first ? 1 : random(2))];
	};
	const [from, to] = range(),
		[baseFrom, baseTo] = range(),
		by = pick([[], ['service_name'], ['region', 'service_name'], ['k8s_pod_name']]),
		step = Math.ceil(pick([10000, minute, 97000, 5 * minute, hour]) / grain) * grain;
	return { type, kind, text: types[type][2] + selector + stages, where, frames, from, to, baseFrom, baseTo, by, step };
}
let server;
const ask = async (path, parameters) => {
	const search = parameters.map(([key, value]) => `${key}=${encodeURIComponent(value)}`).join('&');
	const response = await request(server.port, 'GET', `/api/v1/${path}?${search}&exact=1`);
	assert.equal(response.status, 200, `${search}: ${response.body.toString().slice(0, 300)}`);
	const answer = JSON.parse(response.body.toString());
	assert.ok(!answer.partial && !answer.stats?.partial, `a partial answer: ${JSON.stringify(answer.why ?? answer.stats?.why)}`);
	return answer;
};
const same = (got, want) => {
	for (const key of new Set([...got.keys(), ...want.keys()]))
		if ((got.get(key) ?? 0) !== (want.get(key) ?? 0)) assert.fail(`${key}: DuckDB ${want.get(key)}, Wick ${got.get(key)}; of ${want.size} values`);
};
const range = (query) => [
	['from', query.from],
	['to', query.to],
];
const checks = {
	async total(query) {
		const answer = await ask('query', [['query', query.text], ...range(query)]);
		same(new Map([['[]', answer.total]]), await averages({ ...query, by: [], step: undefined }));
		assert.equal(answer.flame.nodes.total[0], answer.total);
	},
	// Each stack is rounded up or down, and all of them together are the rounded total.
	async tree(query) {
		const { flame } = await ask('query', [['query', query.text], ['max_nodes', 0], ...range(query)]);
		const { parent, name, self, total } = flame.nodes,
			path = (i) => (i === 0 ? [] : [...path(parent[i]), flame.strings[name[i]]]);
		const want = await averages({ ...query, by: [], step: undefined, stacks: true });
		for (let i = 1; i < parent.length; i++)
			assert.ok(Math.abs(self[i] - (want.get(JSON.stringify([path(i).join(';')])) ?? 0)) <= 1, `${path(i).join(';')}: ${self[i]}`);
		same(new Map([['[]', total[0]]]), await averages({ ...query, by: [], step: undefined }));
	},
	async series(query) {
		const { by, step } = query,
			from = Math.floor(query.from / step) * step,
			to = Math.ceil(query.to / step) * step;
		const text = query.text + (by.length ? ` | group by ${by.join(', ')}` : '') + ` | bin ${step}ms | limit 1000`;
		const answer = await ask('pipeline', [['query', text], ...range(query)]);
		const got = new Map(),
			totals = new Map();
		for (const row of answer.series) {
			for (const [time, value] of row.points) got.set(JSON.stringify([...by.map((label) => row.labels[label]), time]), value);
			totals.set(JSON.stringify(by.map((label) => row.labels[label])), row.total);
		}
		same(got, await averages({ ...query, from, to }));
		same(totals, await averages({ ...query, from, to, step: undefined }));
	},
	async sum(query) {
		const answer = await ask('pipeline', [['query', `${query.text}${query.by.length ? ` | group by ${query.by.join(', ')}` : ''} | sum`], ...range(query)]);
		const value = answer.table.columns.findIndex((column) => column.name === 'value');
		same(new Map(answer.table.rows.map((row) => [JSON.stringify(row.slice(0, query.by.length)), row[value]])), await averages({ ...query, step: undefined }));
	},
	async top(query) {
		const label = pick(['service_name', 'k8s_pod_name']),
			answer = await ask('pipeline', [['query', `${query.text} | rate | top 100 by label ${label}`], ...range(query)]);
		same(new Map(answer.table.rows.map((row) => [JSON.stringify([row[0]]), row[1]])), await averages({ ...query, by: [label], step: undefined }));
		if (answer.table.rows.length) assert.equal(answer.table.columns[1].unit, types[query.type][1], 'a gauge has no rate');
	},
	async compare(query) {
		const answer = await ask('pipeline', [['query', `${query.text} | compare label k8s_pod_name top 50`], ...range(query)]);
		const want = await averages({ ...query, by: ['k8s_pod_name'], step: undefined });
		same(new Map(answer.values.map(({ value, total }) => [JSON.stringify([value]), total])), want);
	},
	// Rounded stack by stack; a function has at most all of them.
	async functions(query) {
		const answer = await ask('pipeline', [['query', `${query.text} | top 100 total`], ...range(query)]);
		const want = await averages({ ...query, by: [], step: undefined, stacks: true });
		const [name, self, total] = ['function', 'self', 'total'].map((column) => answer.table.columns.findIndex((one) => one.name === column));
		for (const row of answer.table.rows) {
			const through = [...want].filter(([key]) => JSON.parse(key)[0].split(';').includes(row[name])),
				at = through.filter(([key]) => JSON.parse(key)[0].split(';').at(-1) === row[name]);
			for (const [got, list] of [
				[row[self], at],
				[row[total], through],
			])
				assert.ok(Math.abs(got - list.reduce((sum, [, value]) => sum + value, 0)) <= list.length, `${row[name]}: ${row} is not ${JSON.stringify(list)}`);
		}
		assert.ok(answer.table.rows.length > 0 || [...want.values()].every((value) => value === 0));
	},
	async diff(query) {
		const answer = await ask('diff', [['query', query.text], ...range(query), ['base_from', query.baseFrom], ['base_to', query.baseTo]]);
		const want = async (from, to) => [...(await averages({ ...query, by: [], step: undefined, from, to })).values()][0] ?? 0;
		assert.deepEqual([answer.base_total, answer.total], [await want(query.baseFrom, query.baseTo), await want(query.from, query.to)]);
	},
};
let asked = 0;
async function askMany(count, grain, where) {
	for (let i = 0; i < count; i++) {
		const query = makeQuery(grain);
		await test(`${++asked}, ${where}: ${query.kind} of ${query.text}`, async () => {
			try {
				await checks[query.kind](query);
			} catch (error) {
				throw new Error(`${JSON.stringify(query)}\n    ${error.message}`);
			}
		});
	}
}

// ---- places ----

// Of the blocks that there are; one that was merged may go while it is looked at.
const metas = () =>
	readdirSync(join(data, 'blocks')).flatMap((name) => {
		try {
			return [JSON.parse(readFileSync(join(data, 'blocks', name, 'meta.json'), 'utf8'))];
		} catch (error) {
			if (error.code !== 'ENOENT') throw error;
			return [];
		}
	});
async function until(condition, what) {
	for (let i = 0; i < 480; i++) {
		if (condition()) return;
		await new Promise((resolve) => setTimeout(resolve, 500));
	}
	throw new Error(`${what} in four minutes`);
}
async function send(list) {
	let next = 0;
	const one = async () => {
		while (next < list.length) {
			const { type, pod, time, stacks, serial } = list[next++];
			const labels = Object.entries(pod.labels)
				.map(([key, value]) => `&label=${key}%3D${value}`)
				.join('');
			const body = pprofProfile(stacks, { type: types[type][0], unit: types[type][1], timeNs: BigInt(time) * 1000000n });
			const response = await request(server.port, 'POST', `/api/v1/ingest?${labels.slice(1)}${serial === undefined ? '' : `&serial=${serial}`}`, { body });
			assert.equal(response.status, 200, response.body.toString());
		}
	};
	await Promise.all(Array.from({ length: 8 }, one));
}

server = await startServer(data);
await send(sends.filter((_, i) => i % 2 === 0));
assert.equal(await server.stop(), 0);
server = await startServer(data);
await send(sends.filter((_, i) => i % 2 === 1));
console.log(`# ${sends.length} profiles, ${rows.length} values`);
const counts = process.env.WICK_TEST_FULL ? [60, 60, 40, 40] : [14, 12, 8, 6];
await askMany(counts[0], 1, 'half in memory, half in blocks');
assert.equal(await server.stop(), 0);
server = await startServer(data);
await until(() => metas().length > 0 && metas().every((meta) => meta.level > 0), 'the blocks were not merged');
await askMany(counts[1], 1, 'merged');
await askMany(counts[2], 5 * minute, 'merged');
assert.equal(await server.stop(), 0);
writeFileSync(`${data}.yaml`, 'retention: {samples: 1h}\n');
server = await startServer(data, ['--config', `${data}.yaml`]);
await until(() => metas().every((meta) => !meta.files.some((file) => file.name === 'samples.parquet')), 'samples were not dropped');
await askMany(counts[3], 5 * minute, 'rollups alone');
assert.equal(await server.stop(), 0);
finish();
