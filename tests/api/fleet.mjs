// SPDX-License-Identifier: Apache-2.0
// The planted service of the generated fleet, asked about as people ask. The numbers are those of the table at the top of bench/fleet/truth.c: samples a
// flush of 10 s and pod, of which there are ten.
import assert from 'node:assert/strict';
import { test, finish } from '../harness.mjs';

const url = process.env.WICK_URL,
	[deploy, to] = process.argv.slice(2).map(Number);
const period = Math.trunc(1e9 / 19),
	flushes = 180,
	pods = 10;
const json = async (path) => {
	const response = await fetch(`${url}${path}`);
	assert.equal(response.status, 200, path);
	return response.json();
};
const selector = encodeURIComponent('process_cpu{service_name="beacon"}');
const before = `from=${deploy - 1800}&to=${deploy}`,
	after = `from=${deploy}&to=${deploy + 1800}`;
const rows = async (range) =>
	new Map((await json(`/api/v1/query?format=json&limit=0&query=${selector}&${range}`)).functions.rows.map((row) => [row.name, row]));
const times = (samples, of = pods) => samples * of * flushes * period;

await test('there are 100 hosts and 51 services', async () => {
	assert.equal((await json(`/api/v1/label-values?label=host_name&limit=0&${after}`)).total, 100);
	assert.ok((await json(`/api/v1/label-values?label=service_name&limit=0&from=${to - 10800}&to=${to}`)).total >= 40);
});
await test('the hottest function of the service', async () => {
	const found = await rows(before),
		[first] = found.keys();
	assert.equal(first, 'escape_html');
	const self = { escape_html: 40, hash_key: 12, parse_request: 10, tcp_recvmsg: 10, compress: 10, lookup: 8, render_page: 5, is_space: 5, main: 0 };
	for (const [name, samples] of Object.entries(self)) assert.equal(found.get(name).self, times(samples), name);
	assert.equal(found.get('spin_wait').self, times(50, 1));
	assert.equal(found.get('main').total, times(100) + times(50, 1));
	assert.equal(found.get('parse_request').total, times(15));
	assert.ok(!found.has('validate_utf8'));
	assert.deepEqual([found.get('compress').binary, found.get('escape_html').binary], ['libsqueeze.so.1', 'beacon']);
	assert.equal(found.get('tcp_recvmsg').kind & 7, 2);
	assert.equal(found.get('is_space').kind & 8, 8);
});
await test('which pod differs', async () => {
	const { series } = await json(`/api/v1/series?query=${selector}&by=k8s_pod_name&${before}`);
	assert.equal(series.length, 10);
	for (const { labels, total } of series) assert.equal(total, times(labels.k8s_pod_name === 'beacon-7' ? 150 : 100, 1), labels.k8s_pod_name);
});
await test('what changed since the deploy', async () => {
	const old = await rows(before),
		now = await rows(after);
	const changes = [...new Set([...old.keys(), ...now.keys()])]
		.map((name) => [name, (now.get(name)?.self ?? 0) - (old.get(name)?.self ?? 0)])
		.filter(([, by]) => by)
		.sort((a, b) => b[1] - a[1]);
	assert.deepEqual(changes, [
		['hash_key', times(12)],
		['validate_utf8', times(6)],
		['tcp_recvmsg', -times(3)],
		['compress', -times(10)],
	]);
});
await test('when the deploy was', async () => {
	const { series } = await json(`/api/v1/series?query=${selector}&by=service_version&step=10s&from=${deploy - 600}&to=${deploy + 600}`);
	const points = Object.fromEntries(series.map(({ labels, points }) => [labels.service_version, points]));
	assert.deepEqual(Object.keys(points).sort(), ['1.0.0', '1.1.0']);
	assert.equal(points['1.1.0'][0][0], deploy * 1000);
	assert.equal(points['1.0.0'].at(-1)[0], deploy * 1000 - 10000);
});
await test('who calls it', async () => {
	const folded = await (await fetch(`${url}/api/v1/query?format=folded&query=${selector}&${before}`)).text(),
		callers = {};
	for (const line of folded.trim().split('\n')) {
		const [, stack, value] = /^(.*) (\d+)$/.exec(line),
			frames = stack.split(';');
		if (frames.at(-1) === 'escape_html') callers[frames.at(-2)] = (callers[frames.at(-2)] ?? 0) + Number(value);
	}
	assert.deepEqual(callers, { render_page: times(36), render_error: times(4) });
});
await test('which line', async () => {
	const { lines, functions: _, ...rest } = await json(`/api/v1/source?function=escape_html&query=${selector}&${before}`);
	assert.deepEqual(
		lines.filter((line) => line.self).map((line) => [line.line, line.self]),
		[
			[14, times(24)],
			[16, times(12)],
			[19, times(4)],
		],
		JSON.stringify(rest),
	);
});
await test('what one sample stands for, so that a difference can be told from luck', async () => {
	for (const range of [before, `from=${deploy - 1800}&to=${to}`, `from=${to - 60}&to=${to}`])
		assert.equal((await json(`/api/v1/series?query=${selector}&${range}`)).period, period);
	for (const stages of ['', ' | top 3 by binary', ' | bin 5m', ' | diff (shift 30m)'])
		assert.equal((await json(`/api/v1/pipeline?q=${selector}${encodeURIComponent(stages)}&${after}`)).period, period, stages);
	assert.equal((await json(`/api/v1/series?query=process_cpu%7Bservice_name%3D%22nobody%22%7D&${before}`)).period, undefined);
});
await test('an overview: what services cost, then and now, and whether it is luck', async () => {
	const costs = async (range) => {
		const { table, period: each } = await json(`/api/v1/pipeline?q=${encodeURIComponent('process_cpu | top 1000 by label service_name')}&${range}`);
		const [name, value] = ['service_name', 'value'].map((wanted) => table.columns.findIndex((column) => column.name === wanted));
		return { each, of: new Map(table.rows.map((row) => [row[name], row[value]])) };
	};
	const then = await costs(before),
		now = await costs(after),
		week = await costs(`from=${deploy - 604800}&to=${deploy - 604800 + 1800}`);
	const [a, b] = [then.of.get('beacon'), now.of.get('beacon')];
	assert.deepEqual([a, b], [times(100) + times(50, 1), times(105) + times(50, 1)]);
	assert.ok(b - a > 4 * now.each * Math.sqrt((a + b) / now.each), '5 of 105 are beyond four standard errors of so many samples');
	assert.equal(week.of.size, 0, 'a week before there is nothing, which is not 0 of something');
	assert.ok((await json('/api/v1/status')).data.oldest_ms > (deploy - 604800 + 1800) * 1000);
});
await test('how its agents are', async () => {
	let agents = [];
	for (let i = 0; i < 600 && agents.length < 100; i++) {
		({ agents } = await json('/api/v1/agents'));
		if (agents.length < 100) await new Promise((resolve) => setTimeout(resolve, 200));
	}
	assert.equal(agents.length, 100);
	const odd = (is) => agents.filter(is).map(({ host }) => host.slice(0, 9));
	assert.deepEqual(
		odd(({ health }) => !health),
		['host-0077'],
	);
	assert.deepEqual(
		odd(({ health }) => health?.lost.counts_full > health?.samples / 30),
		['host-0013'],
	);
	assert.deepEqual(
		odd(({ health }) => health?.frequency_hz < health?.frequency_asked_hz),
		['host-0042'],
	);
	assert.deepEqual(
		odd(({ health }) => health?.warnings.length),
		['host-0066'],
	);
	assert.deepEqual(
		odd(({ health }) => health?.walks.complete < 0.9 * health?.samples),
		['host-0066'],
	);
});
await test('it goes on', async () => {
	for (const [tick, tries] of [
		[0, 600],
		[1, 600],
	]) {
		const range = `from=${to + 10 * tick}&to=${to + 10 * tick + 10}`,
			wanted = (105 * pods + 50) * period;
		let total = 0;
		for (let i = 0; i < tries && total < wanted; i++) {
			total = (await json(`/api/v1/query?query=${selector}&${range}`)).flame.total;
			if (total < wanted) await new Promise((resolve) => setTimeout(resolve, 200));
		}
		assert.equal(total, wanted, `flush ${tick}`);
	}
});
finish();
