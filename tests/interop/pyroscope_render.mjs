// SPDX-License-Identifier: Apache-2.0
// GET /pyroscope/render and its relatives: flamebearers, timelines and names are those of the samples that were sent.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { startServer, request, temporaryDirectory, test, skip, finish } from '../harness.mjs';
import { CPU, HEAP, now, minute, knownSamples, send, choose, sum, treeOf, pathsOf, entries } from './known.mjs';

const directory = temporaryDirectory(),
	server = await startServer(`${directory}/data`),
	samples = knownSamples();
await send(server.port, samples);
const start = now - minute,
	end = now + 10 * minute;
const chosen = (type, filter) => choose(samples, type, { from: start, to: end, ...filter });
const get = (path, parameters = {}) => request(server.port, 'GET', `${path}?${new URLSearchParams(parameters)}`, {});
async function render(parameters, path = '/pyroscope/render') {
	const response = await get(path, parameters);
	assert.equal(response.status, 200, response.body.toString());
	assert.equal(response.headers['content-type'], 'application/json');
	return JSON.parse(response.body);
}
const ask = { query: `${CPU}{service_name="shop"}`, from: start, until: end, format: 'json' };

await test('a flamebearer', async () => {
	const profile = await render(ask),
		list = chosen(CPU, { service: 'shop' });
	assert.equal(profile.version, 1);
	assert.deepEqual(Object.keys(profile.flamebearer).sort(), ['levels', 'maxSelf', 'names', 'numTicks']);
	assert.equal(profile.flamebearer.numTicks, sum(list));
	assert.deepEqual(entries(pathsOf(profile.flamebearer)), entries(treeOf(list)));
	assert.deepEqual(profile.metadata, { format: 'single', spyName: '', sampleRate: 1000000000, units: 'samples', name: 'cpu' });
	assert.deepEqual([profile.groups, profile.heatmap], [null, null]);
});
await test('other types have their units', async () => {
	const { metadata } = await render({ ...ask, query: `${HEAP}{}` });
	assert.deepEqual([metadata.name, metadata.units, metadata.sampleRate], ['inuse_space', 'bytes', 100]);
});
await test('the timeline has all that is in the range', async () => {
	const { timeline } = await render(ask);
	assert.equal(timeline.durationDelta, 15);
	assert.equal(timeline.startTime, start / 1000);
	assert.equal(timeline.samples.length, (end - start) / 15000);
	assert.equal(timeline.watermarks, null);
	const expected = Array(timeline.samples.length).fill(0);
	for (const s of chosen(CPU, { service: 'shop' })) expected[(s.time - start) / 15000] += s.value;
	assert.deepEqual(timeline.samples, expected);
	const week = await render({ ...ask, from: end - 7 * 86400000, until: end + 20 * minute });
	assert.equal(week.timeline.durationDelta, 600);
	assert.equal(
		week.timeline.samples.reduce((a, b) => a + b, 0),
		sum(chosen(CPU, { service: 'shop' })),
	);
});
await test('groups', async () => {
	const { groups } = await render({ ...ask, query: `${CPU}{}`, groupBy: 'service_name' });
	assert.deepEqual(Object.keys(groups).sort(), ['ads', 'mail', 'shop']);
	for (const service of Object.keys(groups))
		assert.equal(
			groups[service].samples.reduce((a, b) => a + b, 0),
			sum(chosen(CPU, { service })),
		);
});
await test('fewer nodes', async () => {
	const { flamebearer } = await render({ ...ask, 'max-nodes': 2 });
	assert.ok(flamebearer.names.includes('other'));
	assert.equal(
		[...pathsOf(flamebearer)].reduce((n, [, node]) => n + node.self, 0),
		flamebearer.numTicks,
	);
});
await test('FlameQL, and the paths of older versions', async () => {
	const profile = await render({ query: `shop.cpu{region="eu"}`, from: start, until: end }, '/render');
	assert.equal(profile.flamebearer.numTicks, sum(chosen(CPU, { service: 'shop', region: 'eu' })));
	assert.equal(
		(await render({ query: 'shop.cpu', from: 'now-2h', until: 'now' }, '/render')).flamebearer.numTicks,
		sum(choose(samples, CPU, { service: 'shop', from: 0, to: Date.now() })),
	);
});
await test('pprof and folded stacks', async () => {
	const pprof = await get('/pyroscope/render', { ...ask, format: 'pprof' });
	assert.ok(gunzipSync(pprof.body).includes('main'));
	const lines = (await get('/pyroscope/render', { ...ask, format: 'collapsed' })).body.toString().trim().split('\n');
	assert.equal(
		lines.reduce((n, line) => n + Number(line.split(' ').at(-1)), 0),
		sum(chosen(CPU, { service: 'shop' })),
	);
});
await test('a graph for Graphviz is that of go tool pprof', async () => {
	const dot = await get('/pyroscope/render', { ...ask, format: 'dot' });
	assert.equal(dot.status, 200);
	assert.match(dot.headers['content-type'], /^text\/plain/);
	assert.equal((await get('/pyroscope/render', { ...ask, query: `${CPU}{service_name="none"}`, format: 'dot' })).body.length, 0);
	assert.equal((await get('/pyroscope/render', { ...ask, format: 'dot', 'max-nodes': -5 })).status, 200);
	assert.equal((await get('/pyroscope/render', { ...ask, format: 'dot', 'max-nodes': 99999999 })).status, 400);
	if (spawnSync('go', ['version']).status !== 0) return skip('against go tool pprof', 'no go here');
	const file = `${directory}/profile.pb.gz`;
	writeFileSync(file, (await get('/pyroscope/render', { ...ask, format: 'pprof' })).body);
	for (const nodes of [undefined, 3]) {
		const ours = await get('/pyroscope/render', { ...ask, format: 'dot', ...(nodes ? { 'max-nodes': nodes } : {}) });
		const theirs = execFileSync('go', ['tool', 'pprof', '-dot', `-nodecount=${nodes ?? 100}`, file], { stdio: ['ignore', 'pipe', 'ignore'] });
		const timeless = (text) => text.toString().replace(/Time: [^\\]*/, 'Time'); // which newer versions write otherwise
		assert.equal(timeless(ours.body), timeless(theirs));
	}
});
await test('a comparison', async () => {
	const half = now + 4 * minute + 1,
		query = `${CPU}{}`;
	const profile = await render(
		{ leftQuery: query, leftFrom: start, leftUntil: half, rightQuery: query, rightFrom: half, rightUntil: end, 'max-nodes': 10000 },
		'/pyroscope/render-diff',
	);
	const left = chosen(CPU, { to: half }),
		right = chosen(CPU, { from: half });
	assert.equal(profile.metadata.format, 'double');
	assert.deepEqual([profile.leftTicks, profile.rightTicks, profile.flamebearer.numTicks], [sum(left), sum(right), sum(left) + sum(right)]);
	const before = treeOf(left),
		after = treeOf(right),
		found = pathsOf(profile.flamebearer, 7);
	assert.deepEqual([...found.keys()].sort(), [...new Set([...before.keys(), ...after.keys()])].sort());
	for (const [path, node] of found) assert.deepEqual(node.total, [before.get(path)?.total ?? 0, after.get(path)?.total ?? 0], path);
	assert.equal(
		(await get('/pyroscope/render-diff', { leftQuery: query, leftFrom: start, leftUntil: half, rightQuery: `${HEAP}{}`, rightFrom: half, rightUntil: end }))
			.status,
		400,
	);
});
await test('names', async () => {
	assert.deepEqual(await render({ label: '__name__' }, '/pyroscope/label-values'), [HEAP, CPU]);
	assert.deepEqual(await render({ label: 'service_name', from: start, until: end }, '/label-values'), ['ads', 'mail', 'shop']);
	assert.ok((await render({}, '/pyroscope/labels')).includes('region'));
});
await test('bad questions', async () => {
	for (const [path, parameters, status, code, pattern] of [
		['/pyroscope/render', {}, 400, 'invalid_argument', /'query' is missing/],
		['/pyroscope/render', { ...ask, query: `${CPU}{a=` }, 400, 'invalid_argument', /expected/],
		['/pyroscope/render', { ...ask, from: 'yesterdayish' }, 400, 'invalid_argument', /'from'/],
		['/pyroscope/render', { ...ask, query: '{}' }, 400, 'invalid_argument', /matches 2 profile types/],
		['/pyroscope/render', { ...ask, format: 'html' }, 501, 'unimplemented', /html/],
		['/pyroscope/label-values', {}, 400, 'invalid_argument', /label parameter is required/],
	]) {
		const response = await get(path, parameters);
		assert.equal(response.status, status, response.body.toString());
		const problem = JSON.parse(response.body);
		assert.equal(problem.code, code);
		assert.match(problem.message, pattern);
	}
});
await server.stop();
finish();
