// SPDX-License-Identifier: Apache-2.0
// Values near the limits of 64 bits, from the push through blocks and rollups to every form of answer: each sum is the exact one where that fits, and
// the limit where it does not, and the answer says so. What is right is added up here, with integers of any size.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { startServer, request, pprofProfile, readColumns, temporaryDirectory, test, finish, wick } from '../harness.mjs';

const MAX = 2n ** 63n - 1n,
	MIN = -(2n ** 63n),
	HOUR = 3600_000;
const clamp = (sum) => (sum > MAX ? MAX : sum < MIN ? MIN : sum);
const parse = (body) => JSON.parse(body.toString().replace(/(?<=[:[,])-?\d{16,}(?=[,\]}])/g, '"$&"'));
const directory = temporaryDirectory();
let seed = Number(process.env.WICK_SEED ?? Date.now() % 1000000);
console.log(`seed ${seed}`);
const random = (n) => {
	seed = (seed * 48271) % 2147483647;
	return seed % n;
};
// Mostly small; a few so large that two or three of them do not fit, and some that just fit.
function value() {
	const kind = random(40);
	if (kind === 0) return MAX - 1n - BigInt(random(5));
	if (kind < 5) return 2n ** 62n - BigInt(random(3));
	if (kind < 10) return 2n ** BigInt(40 + random(20)) + BigInt(random(1000));
	return BigInt(1 + random(1000));
}

let server = await startServer(`${directory}/data`);
const start = (Math.floor(Date.now() / HOUR) - 14) * HOUR,
	end = start + 11 * HOUR;
const range = `from=${start}&to=${end}`;
const get = (path) => request(server.port, 'GET', path);
const ask = async (path) => {
	const response = await get(path);
	assert.equal(response.status, 200, `${path}: ${response.body}`);
	return response;
};
// Every stored sample: {type, service, leaf, group, ms, value}.
const stored = [];
async function push(type, ms, signed) {
	const service = `s${random(3)}`;
	const stacks = Array.from({ length: 1 + random(12) }, () => {
		const [leaf, group, v] = [`f${random(12)}`, `g${random(3)}`, value()];
		const sample = signed && random(3) === 0 ? -v : v;
		stored.push({ type, service, leaf, group, ms, value: sample });
		return [[leaf, group, 'main'], sample, {}];
	});
	const body = pprofProfile(stacks, { timeNs: BigInt(ms) * 1000000n, durationNs: 1e9 });
	const response = await request(server.port, 'POST', `/api/v1/ingest?name=${type}&label=service_name%3D${service}`, { body });
	assert.equal(response.status, 200, response.body.toString());
}
const sumOf = (rows) => rows.reduce((sum, row) => sum + row.value, 0n);
const by = (rows, key) => {
	const found = new Map();
	for (const row of rows) found.set(key(row), (found.get(key(row)) ?? 0n) + row.value);
	return found;
};
const sortedEntries = (map) => [...map].map(([k, v]) => [String(k), clamp(v)]).sort();

// file: of a format that is not our own, and has no room for a flag.
function checkFlag(response, saturated, file = false) {
	assert.equal(response.headers['x-wick-warning'] !== undefined, saturated, 'the header');
	if (response.headers['content-type'] === 'application/json' && !file) assert.equal(parse(response.body).saturated ?? false, saturated, 'the flag');
}
// All answers about one type, of which all values are positive.
async function checkAll(type, selector, rows, explain = '') {
	const total = sumOf(rows),
		saturated = total >= MAX;
	const query = `/api/v1/query?query=${encodeURIComponent(selector)}&${range}`;
	const leaves = by(rows, (r) => r.leaf),
		groups = by(rows, (r) => r.group);

	let response = await ask(`${query}&format=json${explain}`);
	checkFlag(response, saturated);
	let answer = parse(response.body);
	assert.equal(BigInt(answer.total), clamp(total));
	const functions = answer.functions.rows.map((r) => [r.name, BigInt(r.self), BigInt(r.total)]).sort();
	const wanted = [...sortedEntries(leaves).map(([k, v]) => [k, v, v]), ...sortedEntries(groups).map(([k, v]) => [k, 0n, v]), ['main', 0n, clamp(total)]].sort();
	assert.deepEqual(functions, wanted, 'functions');
	const read = answer.explain;

	response = await ask(`${query}&format=flame`);
	checkFlag(response, saturated);
	const { nodes, strings } = parse(response.body).flame;
	const places = by(rows, (r) => `${r.group};${r.leaf}`);
	const found = [];
	nodes.name.forEach((name, i) => {
		const text = strings[name];
		if (text[0] === 'f') {
			found.push([`${strings[nodes.name[nodes.parent[i]]]};${text}`, BigInt(nodes.total[i])]);
			assert.equal(BigInt(nodes.self[i]), BigInt(nodes.total[i]));
		} else {
			assert.equal(BigInt(nodes.self[i]), 0n, 'what only calls has nothing of its own');
			assert.equal(BigInt(nodes.total[i]), clamp(text[0] === 'g' ? groups.get(text) : total), text);
		}
	});
	assert.deepEqual(found.sort(), sortedEntries(places), 'flame');

	response = await ask(`${query}&format=columns`);
	checkFlag(response, saturated);
	assert.equal(readColumns(response.body).total, Number(clamp(total)));

	response = await ask(`${query}&format=folded`);
	checkFlag(response, saturated);
	const folded = response.body
		.toString()
		.trim()
		.split('\n')
		.map((line) => /^main;(\S+) (-?\d+)$/.exec(line).slice(1))
		.map(([k, v]) => [k, BigInt(v)]);
	assert.deepEqual(folded.sort(), sortedEntries(places), 'folded');

	// The same out of a pprof, by the command line.
	response = await ask(`${query}&format=pprof`);
	checkFlag(response, saturated);
	writeFileSync(`${directory}/a.pb`, response.body[0] === 0x1f ? gunzipSync(response.body) : response.body);
	const convert = spawnSync(wick, ['convert', `${directory}/a.pb`, '-o', `${directory}/a.folded`, '--to', 'folded'], { encoding: 'utf8' });
	assert.equal(convert.status, 0, convert.stderr);
	assert.equal(/sums of values do not fit/.test(convert.stderr), saturated, convert.stderr);

	response = await ask(`${query}&format=speedscope`);
	const [{ weights, endValue }] = parse(response.body).profiles;
	assert.equal(BigInt(endValue), clamp(total));
	assert.equal(
		clamp(weights.reduce((sum, w) => sum + BigInt(w), 0n)),
		clamp([...places.values()].reduce((sum, v) => sum + clamp(v), 0n)),
	);
	for (const format of ['top', 'svg', 'firefox']) checkFlag(await ask(`${query}&format=${format}`), saturated, true);

	const series = `/api/v1/series?query=${encodeURIComponent(selector)}&${range}`;
	response = await ask(`${series}&by=service_name&step=1h${explain}`);
	answer = parse(response.body);
	const services = by(rows, (r) => r.service),
		steps = by(rows, (r) => `${r.service} ${Math.floor(r.ms / HOUR) * HOUR}`);
	assert.deepEqual(answer.series.map((s) => [s.labels.service_name, BigInt(s.total)]).sort(), sortedEntries(services), 'series');
	assert.deepEqual(answer.series.flatMap((s) => s.points.map(([ms, v]) => [`${s.labels.service_name} ${ms}`, BigInt(v)])).sort(), sortedEntries(steps), 'points');
	checkFlag(response, saturated);
	// Of some stacks only.
	response = await ask(`${series}&step=1h&frames=${encodeURIComponent('"f0"')}`);
	const some = rows.filter((row) => row.leaf === 'f0');
	assert.deepEqual(parse(response.body).series.map((s) => BigInt(s.total)), some.length ? [clamp(sumOf(some))] : [], 'with a condition on stacks');
	assert.equal(parse(response.body).saturated ?? false, sumOf(some) >= MAX);
	// The rest as one row.
	response = await ask(`${series}&by=service_name&step=1h&limit=1&others=1`);
	const others = parse(response.body).series.find((s) => s.others);
	if (others) assert.equal(clamp(BigInt(parse(response.body).series[0].total) + BigInt(others.total)), clamp(total));

	for (const [stages, want] of [
		['sum', [['', clamp(total)]]],
		['group by service_name | sum', sortedEntries(services)],
	]) {
		response = await ask(`/api/v1/pipeline?q=${encodeURIComponent(`${selector} | ${stages}`)}&${range}`);
		checkFlag(response, saturated);
		const { rows: lines, columns } = parse(response.body).table;
		const at = columns.findIndex((column) => column.name === 'value');
		assert.deepEqual(lines.map((line) => [at ? line[0] : '', BigInt(line[at])]).sort(), want, stages);
	}
	response = await ask(`/api/v1/pipeline?q=${encodeURIComponent(`${selector} | top 50`)}&${range}`);
	checkFlag(response, saturated);
	const text = await ask(`/api/v1/pipeline?q=${encodeURIComponent(`${selector} | top 50`)}&${range}&format=text`);
	assert.equal(/^warning: sums of values do not fit/m.test(text.body.toString()), saturated);

	// Two sides of which each is the same: nothing has changed, however large it is.
	response = await ask(`/api/v1/diff?query=${encodeURIComponent(selector)}&base=${encodeURIComponent(selector)}&${range}`);
	checkFlag(response, saturated);
	const { diff } = parse(response.body);
	diff.nodes.total.forEach((v, i) => assert.equal(v, diff.nodes.base_total[i]));
	assert.equal(BigInt(diff.total), clamp(total));

	// Other servers' calls, which have no room for a flag but in a header.
	const { type: full } = parse((await ask(series)).body);
	const json = { 'content-type': 'application/json' };
	const body = Buffer.from(JSON.stringify({ profileTypeID: full.replace(/:delta$/, ''), labelSelector: selector.replace(/^[^{]*/, '') || '{}', start: start, end: end }));
	response = await request(server.port, 'POST', '/querier.v1.QuerierService/SelectMergeStacktraces', { body, headers: json });
	assert.equal(response.status, 200, response.body.toString());
	assert.equal(BigInt(JSON.parse(response.body).flamegraph.total), clamp(total));
	assert.equal(response.headers['x-wick-warning'] !== undefined, saturated);

	const cli = spawnSync(wick, ['query', selector, '--url', server.url, '--from', String(start / 1000), '--to', String(end / 1000), '--format', 'folded'], { encoding: 'utf8' });
	assert.equal(cli.status, 0, cli.stderr);
	assert.equal(/sums of values do not fit/.test(cli.stderr), saturated, cli.stderr);
	return read;
}
const typed = (type) => stored.filter((row) => row.type === type);
async function checkEverything(explain) {
	let read;
	read = await checkAll('large', 'large', typed('large'), explain);
	for (const service of ['s0', 's1', 's2'])
		await checkAll(
			'large',
			`large{service_name="${service}"}`,
			typed('large').filter((row) => row.service === service),
		);
	await checkAll('small', 'small', typed('small'));
	return read;
}
// Of values of both signs that do not fit, only that they may not is known.
async function checkMixed() {
	const rows = typed('mixed');
	const positive = sumOf(rows.filter((r) => r.value > 0n)),
		negative = sumOf(rows.filter((r) => r.value < 0n));
	assert.ok(positive > MAX && negative < MIN);
	const response = await ask(`/api/v1/query?query=mixed&${range}&format=json`);
	checkFlag(response, true);
	for (const format of ['flame', 'top', 'folded', 'svg', 'pprof', 'speedscope', 'columns']) checkFlag(await ask(`/api/v1/query?query=mixed&${range}&format=${format}`), true, format === 'speedscope');
	await ask(`/api/v1/diff?query=mixed&base=large&${range}`);
}

for (let i = 0; i < 60; i++) await push('large', start + random(10 * HOUR), false);
// What fits, but for the last bit.
stored.push(...[2n ** 62n, 2n ** 62n - 2n].map((v, i) => ({ type: 'small', service: 's0', leaf: 'f0', group: 'g0', ms: start + i * HOUR, value: v })));
for (const { ms, value: v } of typed('small')) {
	const body = pprofProfile([[['f0', 'g0', 'main'], v, {}]], { timeNs: BigInt(ms) * 1000000n, durationNs: 1e9 });
	assert.equal((await request(server.port, 'POST', '/api/v1/ingest?name=small&label=service_name%3Ds0', { body })).status, 200);
}
for (let i = 0; i < 40; i++) await push('mixed', start + random(10 * HOUR), true);

await test('from memory', async () => {
	await checkEverything();
	await checkMixed();
});
await test('from blocks, rollups and totals', async () => {
	assert.equal(await server.stop(), 0);
	server = await startServer(`${directory}/data`);
	await checkEverything();
	await checkMixed();
	// More, so that there is something to merge.
	for (let i = 0; i < 30; i++) await push('large', start + random(10 * HOUR), false);
	assert.equal(await server.stop(), 0);
	server = await startServer(`${directory}/data`);
	const merged = async () => {
		const blocks = parse((await ask('/api/v1/blocks')).body).blocks;
		return blocks.every((block) => block.level > 0);
	};
	while (!(await merged())) await new Promise((resolve) => setTimeout(resolve, 100));
	const read = await checkEverything('&explain=1');
	assert.ok(read.from_rollups + read.from_totals > 0 || JSON.stringify(read).includes('rollup'), JSON.stringify(read));
	await checkMixed();
});
assert.equal(await server.stop(), 0);
finish();
