// SPDX-License-Identifier: Apache-2.0
// Nothing is left out in silence. Samples that are too old: each protocol tells its sender, the log has one line, metrics count. A damaged block and a
// cut end of the log: whoever asks about their time, over any API, gets a partial answer with the reason, before and after a restart, and
// whoever asks about other times does not.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, openSync, closeSync, readdirSync, readFileSync, readSync, statSync, truncateSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { startServer, request, pprofProfile, temporaryDirectory, test, finish, wick } from '../harness.mjs';

const data = `${temporaryDirectory()}/data`,
	hour = 3600000,
	now = Date.now(),
	year = now - 365 * 24 * hour;
const nanoseconds = (ms) => BigInt(ms) * 1000000n;
let server = await startServer(data);
const post = (path, body, headers = {}) =>
	request(server.port, 'POST', path, { body: typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body), headers });
const postJson = (path, body) => post(path, body, { 'content-type': 'application/json' });
const get = async (path, parameters) => {
	const response = await request(server.port, 'GET', `${path}?${new URLSearchParams(parameters)}`);
	return { ...response, text: response.body.toString('utf8') };
};

// ---- too old ----

const otlp = (...times) => ({
	resourceProfiles: [
		{
			resource: { attributes: [{ key: 'service.name', value: { stringValue: 'otlp' } }] },
			scopeProfiles: [
				{
					profiles: times.map((ms, i) => ({
						sampleType: { typeStrindex: 1, unitStrindex: 2 },
						samples: [{ stackIndex: 1, values: ['5'] }],
						timeUnixNano: String(nanoseconds(ms) + BigInt(i)),
						durationNano: '10000000000',
						periodType: { typeStrindex: 1, unitStrindex: 2 },
						period: '1',
					})),
				},
			],
		},
	],
	dictionary: {
		mappingTable: [{}],
		locationTable: [{}, { lines: [{ functionIndex: 1 }] }],
		functionTable: [{}, { nameStrindex: 3 }],
		linkTable: [{}],
		attributeTable: [{}],
		stringTable: ['', 'cpu', 'nanoseconds', 'main'],
		stackTable: [{}, { locationIndices: [1] }],
	},
});
const pprof = (ms, value = 5) => pprofProfile([[['leaf', 'main'], value]], { timeNs: nanoseconds(ms), durationNs: 10000000000 });
const series = (name, ...profiles) => [
	{
		labels: [
			{ name: '__name__', value: 'process_cpu' },
			{ name: 'service_name', value: name },
		],
		samples: profiles.map((p) => ({ rawProfile: p.toString('base64') })),
	},
];
const rawSeries = (name, ...profiles) => series(name, ...profiles).map((one) => ({ ...one, labels: { labels: one.labels } }));
const parca = '/parca.profilestore.v1alpha1.ProfileStoreService/WriteRaw';

await test('OTLP: rejected_profiles and a message', async () => {
	const mixed = await postJson('/v1development/profiles', otlp(now, year));
	assert.equal(mixed.status, 200);
	const { partialSuccess } = JSON.parse(mixed.body.toString());
	assert.equal(Number(partialSuccess.rejectedProfiles), 1);
	assert.match(partialSuccess.errorMessage, /1 samples were rejected: 1 from before 20\d\d-/);
	const old = await postJson('/v1development/profiles', otlp(year, year - 1000));
	assert.equal(old.status, 200, 'sending it again would change nothing');
	assert.equal(Number(JSON.parse(old.body.toString()).partialSuccess.rejectedProfiles), 2);
	const fine = await postJson('/v1development/profiles', otlp(now + 1));
	assert.deepEqual([fine.status, JSON.parse(fine.body.toString())], [200, {}]);
});
await test('pprof: 422', async () => {
	const old = await post('/api/v1/ingest?label=service_name%3Dpprof', pprof(year));
	assert.equal(old.status, 422);
	assert.match(old.body.toString(), /nothing was stored: 1 samples were rejected: 1 from before/);
	assert.equal(old.headers['x-wick-limit'], 'age');
});
for (const [what, path, body] of [
	['push.v1', '/push.v1.PusherService/Push', (...profiles) => ({ series: series('push', ...profiles) })],
	['WriteRaw', parca, (...profiles) => ({ series: rawSeries('parca', ...profiles) })],
])
	await test(`${what}: a warning, an error when nothing is left`, async () => {
		const mixed = await postJson(path, body(pprof(now, 7), pprof(year, 8)));
		assert.equal(mixed.status, 200, mixed.body.toString());
		assert.match(mixed.headers['x-wick-warning'] ?? '', /1 samples were rejected: 1 from before/);
		const old = await postJson(path, body(pprof(year)));
		assert.equal(old.status, 400, old.body.toString());
		assert.match(old.body.toString(), /invalid_argument.*1 from before/);
	});
await test('push.v1, WriteRaw: what a limit leaves out beside what is stored is told as well', async () => {
	const labels = Array.from({ length: 200 }, (_, i) => ({ name: `label_${i}`, value: 'x' }));
	for (const [path, body] of [
		['/push.v1.PusherService/Push', { series: [...series('few', pprof(now, 3)), { ...series('many', pprof(now, 3))[0], labels }] }],
		[parca, { series: [...rawSeries('few', pprof(now, 4)), { ...rawSeries('many', pprof(now, 4))[0], labels: { labels } }] }],
	]) {
		const response = await postJson(path, body);
		assert.equal(response.status, 200, response.body.toString());
		assert.match(response.headers['x-wick-warning'] ?? '', /^1 profile.* rejected.*labels/);
	}
});
await test('/ingest: 422', async () => {
	const old = await post(`/ingest?name=ingest.cpu&from=${Math.floor(year / 1000)}&until=${Math.floor(year / 1000) + 10}`, 'main;a 5\n');
	assert.equal(old.status, 422);
	assert.match(old.body.toString(), /from before/);
});
await test('one line in the log, and metrics', async () => {
	assert.equal(server.log().match(/samples were rejected/g)?.length, 1, server.log());
	const { text } = await get('/metrics', {});
	assert.equal(Number(text.match(/^wick_ingest_samples_refused_total (\d+)/m)?.[1]), 9, 'OTLP 3, pprof 1, push 2, WriteRaw 2, /ingest 1');
	assert.ok(Number(text.match(/^wick_ingest_refusals_total\{reason="age"\} (\d+)/m)?.[1]) >= 5, text.match(/^.*refusals_total.*$/gm)?.join('\n'));
});

// ---- a damaged block ----

const dayBefore = now - 26 * hour;
for (let i = 0; i < 20; i++) assert.equal((await post('/api/v1/ingest?label=service_name%3Dlost', pprof(dayBefore + i * 1000, 1))).status, 200);
assert.equal(await server.stop(), 0);
const blocks = () => readdirSync(join(data, 'blocks')).filter((name) => existsSync(join(data, 'blocks', name, 'meta.json')));
const meta = (name) => JSON.parse(readFileSync(join(data, 'blocks', name, 'meta.json'), 'utf8'));
assert.equal(blocks().length, 1);
server = await startServer(data);
assert.equal((await post('/api/v1/ingest?label=service_name%3Dkept', pprof(now - 60000, 100))).status, 200);
assert.equal(await server.stop(), 0);
const damaged = blocks().sort((a, b) => Number(BigInt(meta(a).min_ns) - BigInt(meta(b).min_ns)))[0];
const index = join(data, 'blocks', damaged, 'series.parquet');
function flip(path, at) {
	const byte = Buffer.alloc(1),
		fd = openSync(path, 'r+');
	readSync(fd, byte, 0, 1, at);
	byte[0] ^= 255;
	writeSync(fd, byte, 0, 1, at);
	closeSync(fd);
}
flip(index, 100);
server = await startServer(data);

const range = (from, to) => ({ from: String(from), to: String(to) });
const json = (path, body) => postJson(path, body).then((response) => ({ ...response, text: response.body.toString() }));
const questions = {
	query: (from, to) => get('/api/v1/query', { query: 'process_cpu', ...range(from, to) }),
	'query as pprof': (from, to) => get('/api/v1/query', { query: 'process_cpu', format: 'pprof', ...range(from, to) }),
	pipeline: (from, to) => get('/api/v1/pipeline', { query: 'process_cpu | group by service_name | sum', ...range(from, to) }),
	'pipeline over time': (from, to) => get('/api/v1/pipeline', { query: 'process_cpu | bin 1m', ...range(from, to) }),
	diff: (from, to) => get('/api/v1/diff', { query: 'process_cpu', ...range(from, to), base_from: String(from), base_to: String(to) }),
	'label values': (from, to) => get('/api/v1/label-values', { label: 'service_name', ...range(from, to) }),
	'/render': (from, to) =>
		get('/pyroscope/render', { query: 'process_cpu:cpu:nanoseconds:cpu:nanoseconds{}', from: String(from), until: String(to), format: 'json' }),
	'querier.v1': (from, to) =>
		json('/querier.v1.QuerierService/SelectMergeStacktraces', {
			profileTypeID: 'process_cpu:cpu:nanoseconds:cpu:nanoseconds',
			labelSelector: '{}',
			start: from,
			end: to,
		}),
	'Parca QueryRange': (from, to) =>
		json('/parca.query.v1alpha1.QueryService/QueryRange', {
			query: 'process_cpu:cpu:nanoseconds:::delta{}',
			start: new Date(from).toISOString(),
			end: new Date(to).toISOString(),
			step: '60s',
		}),
};
// The command line says it where the format has no place for it, on standard error.
async function checkCommands(when, wanted, from, to) {
	const run = (...args) =>
		spawnSync(wick, [...args, '--url', `http://127.0.0.1:${server.port}`, '--from', String(from), '--to', String(to)], { encoding: 'utf8' });
	for (const [verb, ...args] of [
		['query', 'process_cpu', '--format', 'folded'],
		['query', 'process_cpu | top 5', '--format', 'csv'],
		['report', 'top', 'process_cpu{}'],
	])
		await test(`${when}, wick ${verb} ${args.at(-1)}: ${wanted ? 'partial' : 'whole'}`, () => {
			const { stderr } = run(verb, ...args);
			assert.equal(/^wick \w+: partial result: (.*)$/m.test(stderr), wanted !== null, stderr);
			if (wanted) assert.match(/^wick \w+: partial result: (.*)$/m.exec(stderr)[1], wanted);
		});
}
const reason = /^block .* is damaged and was set aside in quarantine\/$/;
async function checkPartial(when, wanted, from, to) {
	for (const [what, ask] of Object.entries(questions))
		await test(`${when}, ${what}: ${wanted ? 'partial' : 'whole'}`, async () => {
			const response = await ask(from, to);
			assert.equal(response.status, 200, response.text);
			if (!wanted) return assert.equal(response.headers['x-wick-partial'], undefined);
			assert.match(response.headers['x-wick-partial'] ?? '', wanted);
			if (!response.text.startsWith('{"kind"')) return;
			const { partial, why } = JSON.parse(response.text);
			assert.ok(partial);
			assert.match(why, wanted);
		});
}
await get('/api/v1/query', { query: 'process_cpu', ...range(dayBefore - hour, dayBefore + hour) }); // finds it
await test('the block was set aside', async () => {
	assert.deepEqual(readdirSync(join(data, 'quarantine')), [damaged]);
	assert.match((await get('/metrics', {})).text, /^wick_store_problems_total [1-9]/m);
});
await checkPartial('found', reason, dayBefore - hour, dayBefore + hour);
await checkCommands('found', reason, dayBefore - hour, dayBefore + hour);
await checkCommands('found, a week before', null, now - 200 * hour, now - 190 * hour);
await checkPartial('found, a week before', null, now - 200 * hour, now - 190 * hour);
assert.equal(await server.stop(), 0);
server = await startServer(data);
await checkPartial('started again', reason, dayBefore - hour, dayBefore + hour);
await checkPartial('started again, a week before', null, now - 200 * hour, now - 190 * hour);

// ---- a cut log ----

assert.equal((await post('/api/v1/ingest?label=service_name%3Dcut', pprof(now - 30000, 100))).status, 200);
assert.equal((await post('/api/v1/ingest?label=service_name%3Dcut', pprof(now - 20000, 100))).status, 200);
server.child.removeAllListeners('exit');
await new Promise((resolve) => {
	server.child.once('exit', resolve);
	server.child.kill('SIGKILL');
});
// The segments end in zeros that were allocated ahead: the end is that of the last record.
const ends = readdirSync(join(data, 'log')).map((name) => {
	const path = join(data, 'log', name),
		bytes = readFileSync(path);
	let end = bytes.length;
	while (end > 0 && bytes[end - 1] === 0) end--;
	return { path, end };
});
const last = ends.filter(({ path, end }) => readFileSync(path).subarray(0, end).includes('WREC')).pop();
truncateSync(last.path, last.end - 5);
assert.ok(statSync(last.path).size > 0);
server = await startServer(data);
await test('the cut is logged', async () => assert.match(server.log(), /log.*(cut off|ends inside|record)/));
// The damaged block has newer times as well, so its reason may come first.
await test('the hour before is partial, the one two weeks before is not', async () => {
	const response = await get('/api/v1/query', { query: 'process_cpu{service_name="cut"}', ...range(now - 60000, Date.now()) });
	assert.equal(response.status, 200);
	assert.equal(JSON.parse(response.text).total, 100, 'the first of two records');
	assert.ok(response.headers['x-wick-partial']);
	const before = await get('/api/v1/query', { query: 'process_cpu', ...range(now - 300 * hour, now - 290 * hour) });
	assert.equal(before.headers['x-wick-partial'], undefined);
});
assert.equal(await server.stop(), 0);
finish();
