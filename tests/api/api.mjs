// SPDX-License-Identifier: Apache-2.0
// The HTTP API from outside: what goes in comes out, bad input gets the right status and a message and changes nothing, strangers are kept out.
import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync, chmodSync } from 'node:fs';
import net from 'node:net';
import { gzipSync, gunzipSync } from 'node:zlib';
import { startServer, request, pprofProfile, temporaryDirectory, test, skip, finish, testData, readColumns } from '../harness.mjs';

// A link of zero bytes in the place of the zero value is not conformant, and accepted.
const verdictOf = (line) => line.replace(/^(x_link0_zero_bytes_16_8\.otlp)\t1/, '$1\t0').split('\t');

const directory = temporaryDirectory();
let server = await startServer(`${directory}/data`);
const get = (path, headers) => request(server.port, 'GET', path, { headers });
const post = (path, body, headers) => request(server.port, 'POST', path, { body, headers });
const json = async (path) => {
	const response = await get(path);
	assert.equal(response.status, 200, response.body.toString());
	return JSON.parse(response.body);
};
const errorOf = (response) => JSON.parse(response.body).error;
const zstdRaw = (body) => {
	const size = Buffer.alloc(4),
		block = Buffer.alloc(3);
	size.writeUInt32LE(body.length);
	block.writeUIntLE((body.length << 3) | 1, 0, 3);
	return Buffer.concat([Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0xa0]), size, block, body]);
};
const now = Date.now();
const range = `from=${now - 3600000}&to=${now + 60000}`;
const stacks = [
	[['leaf', 'middle', 'main'], 700, { thread: 'worker' }],
	[['other', 'middle', 'main'], 200, { thread: 'worker' }],
	[['leaf', 'main'], 100, { thread: 'main' }],
];

await test('a fresh server is healthy, and empty', async () => {
	assert.equal((await get('/healthz')).status, 200);
	assert.equal((await get('/readyz')).status, 200);
	assert.deepEqual(await json(`/api/v1/types?${range}`), { from_ms: now - 3600000, to_ms: now + 60000, types: [], total: 0, partial: false });
	const empty = await json(`/api/v1/query?query=process_cpu&${range}`);
	assert.equal(empty.flame.total, 0);
	assert.equal(empty.flame.nodes.parent.length, 1);
});
await test('pprof goes in, and is seen at once', async () => {
	const response = await post('/api/v1/ingest?name=process_cpu&label=service_name%3Dshop&label=region%3Deu', pprofProfile(stacks));
	assert.equal(response.status, 200, response.body.toString());
	assert.deepEqual(JSON.parse(response.body), { samples: 3, series: 2, duplicate: false });
	const types = await json(`/api/v1/types?${range}`);
	assert.equal(types.types.length, 1);
	assert.match(types.types[0].name, /^process_cpu:cpu:nanoseconds:/);
});
await test('the flame graph has the totals that were sent', async () => {
	const { flame } = await json(`/api/v1/query?query=process_cpu&${range}`);
	assert.equal(flame.total, 1000);
	const { parent, name, total, self } = flame.nodes;
	const path = (i) => (i === 0 ? [] : [...path(parent[i]), flame.strings[name[i]]]);
	const found = Object.fromEntries(parent.map((_, i) => [path(i).join(';'), [total[i], self[i]]]));
	assert.deepEqual(found['main;middle;leaf'], [700, 700]);
	assert.deepEqual(found['main;middle'], [900, 0]);
	assert.deepEqual(found['main;leaf'], [100, 100]);
	assert.deepEqual(found.main, [1000, 0]);
	parent.forEach((p, i) => i && assert.ok(p < i, 'pre-order'));
});
await test('selectors choose', async () => {
	const total = async (selector) => (await json(`/api/v1/query?query=${encodeURIComponent(selector)}&${range}`)).flame.total;
	assert.equal(await total('process_cpu{thread="worker"}'), 900);
	assert.equal(await total('process_cpu{thread!="worker"}'), 100);
	assert.equal(await total('process_cpu{thread=~"m.*|w.*"}'), 1000);
	assert.equal(await total('process_cpu{region!~"eu"}'), 0);
	assert.equal(await total('{service_name="shop"}'), 1000);
});
await test('a resent profile is acknowledged and not counted twice', async () => {
	const body = pprofProfile([[['again'], 5]], { timeNs: BigInt(now) * 1000000n });
	assert.equal(JSON.parse((await post('/api/v1/ingest?name=dup', body)).body).duplicate, false);
	assert.equal(JSON.parse((await post('/api/v1/ingest?name=dup', body)).body).duplicate, true);
	assert.equal((await json(`/api/v1/query?query=dup&${range}`)).flame.total, 5);
	// The same bytes under other labels are another profile.
	assert.equal(JSON.parse((await post('/api/v1/ingest?name=dup&label=host%3Db', body)).body).duplicate, false);
	assert.equal((await json(`/api/v1/query?query=dup&${range}`)).flame.total, 10);
});
await test('gzip inside and outside, zstd, folded', async () => {
	const send = async (name, body, headers) => {
		const response = await post(`/api/v1/ingest?name=${name}`, body, headers);
		assert.equal(response.status, 200, response.body.toString());
		return (await json(`/api/v1/query?query=${name}&${range}`)).flame.total;
	};
	assert.equal(await send('gz', gzipSync(pprofProfile(stacks))), 1000);
	assert.equal(await send('enc', gzipSync(pprofProfile(stacks)), { 'content-encoding': 'gzip' }), 1000);
	// Node.js 18 has no zstd; a frame with one raw block is easily made by hand (RFC 8878).
	assert.equal(await send('zst', zstdRaw(pprofProfile(stacks))), 1000);
	assert.equal(await send('fold', Buffer.from('main;leaf 3\nmain;other 4\n')), 7);
});
await test('labels and values are suggested', async () => {
	const labels = await json(`/api/v1/labels?query=process_cpu&${range}`);
	assert.deepEqual(
		labels.labels.map((l) => l.name),
		['region', 'service_name', 'thread'],
	);
	const values = await json(`/api/v1/label-values?label=thread&prefix=w&${range}`);
	assert.deepEqual(
		values.values.map((v) => v.value),
		['worker'],
	);
	assert.ok(values.values[0].series >= 1 && values.values[0].samples >= 2);
	assert.ok(Math.abs(values.values[0].last_ms - now) < 60000);
	assert.deepEqual(await json(`/api/v1/label/thread/values?prefix=w&${range}`), values);
	assert.equal((await get(`/api/v1/label/thread/nonsense?${range}`)).status, 404);
	assert.equal(errorOf(await get(`/api/v1/label-values?${range}`)).includes('label'), true);
});
await test('series sum up to the total', async () => {
	const { series } = await json(`/api/v1/series?query=process_cpu&${range}&step=60s&by=thread`);
	assert.deepEqual(
		series.map((s) => [s.labels.thread, s.total]),
		[
			['worker', 900],
			['main', 100],
		],
	);
	assert.equal(
		series[0].points.reduce((sum, [, value]) => sum + value, 0),
		900,
	);
	assert.equal(series[0].points[0][0] % 60000, 0);
});
await test('every answer format', async () => {
	const of = (format) => get(`/api/v1/query?query=process_cpu&${range}&format=${format}`);
	assert.match((await of('top')).body.toString(), /flat%/);
	assert.match((await of('folded')).body.toString(), /^main;middle;leaf 700$/m);
	assert.match((await of('svg')).body.toString(), /<svg/);
	const pprof = await of('pprof');
	assert.ok(gunzipSync(pprof.body).length > 0);
	assert.match(pprof.headers['content-disposition'], /wick\.pb\.gz/);
	const table = JSON.parse((await of('json')).body);
	assert.deepEqual(
		table.functions.rows.slice(0, 2).map((f) => [f.name, f.self, f.total]),
		[
			['leaf', 800, 800],
			['other', 200, 200],
		],
	);
});
await test('columns say what flame says', async () => {
	for (const more of ['', '&max_nodes=2', '&names=short', '&query=%7Bgone%3D%221%22%7D']) {
		const of = (format) => get(`/api/v1/query?query=process_cpu&${range}${more}&format=${format}`);
		const [flame, columns] = [JSON.parse((await of('flame')).body), await of('columns')],
			read = readColumns(columns.body);
		assert.equal(columns.headers['content-type'], 'application/vnd.wick.flame');
		assert.deepEqual(Object.keys(read), Object.keys(flame));
		assert.deepEqual(read.flame, flame.flame);
		assert.equal(read.total, flame.total);
	}
	assert.match(errorOf(await get(`/api/v1/query?query=process_cpu&${range}&format=svg&explain=1`)), /columns/);
	assert.ok(readColumns((await get(`/api/v1/query?query=process_cpu&${range}&format=columns&explain=1`)).body).explain);
});
await test('speedscope and firefox hold what flame holds; of nothing there is no file', async () => {
	const of = async (format, query = 'process_cpu') => {
		const response = await get(`/api/v1/query?query=${query}&${range}&format=${format}`);
		assert.equal(response.status, 200, response.body.toString().slice(0, 400));
		assert.match(response.headers['content-type'], /^application\/json/);
		return JSON.parse(response.body);
	};
	const { flame } = await of('flame');
	const sum = (values) => values.reduce((a, b) => a + b, 0);
	const speedscope = await of('speedscope');
	assert.equal(sum(speedscope.profiles.flatMap(({ weights }) => weights)), flame.total);
	const firefox = await of('firefox');
	assert.ok(firefox.meta.version > 0);
	assert.equal(sum(firefox.threads.map(({ samples }) => samples.length)), sum(speedscope.profiles.map(({ samples }) => samples.length)));
	for (const format of ['speedscope', 'firefox'])
		assert.match(errorOf(await get(`/api/v1/query?query=%7Bgone%3D%221%22%7D&${range}&format=${format}`)), /no values/);
});
await test('bad questions get 400 and a message that names the fault', async () => {
	const cases = [
		[`/api/v1/query?query={a=&${range}`, /expected a value in double quotes.*column/],
		['/api/v1/query?query=x&from=yesterdayish', /'from'.*yesterdayish/],
		['/api/v1/query?query=x&from=now&to=now-1h', /time range is empty/],
		[`/api/v1/query?query=x&${range}&format=xml`, /'format'.*xml/],
		[`/api/v1/series?query=x&${range}&step=1ns`, /'step'/],
		[`/api/v1/series?query=x&from=now-30d&step=1s`, /more than 11000 points/],
		[`/api/v1/query?query=&${range}`, /matches \d+ profile types/],
		[`/api/v1/query?query=nothing&${range}`, /unknown profile type; the server has: .*process_cpu:cpu:nanoseconds/],
		[`/api/v1/label-values?label=a-b&${range}`, /not a label name/],
	];
	for (const [path, pattern] of cases) {
		const response = await get(path);
		assert.equal(response.status, 400, `${path}: ${response.body}`);
		assert.match(errorOf(response), pattern);
	}
	assert.equal((await get('/api/v1/nonsense')).status, 404);
	assert.equal((await post('/api/v1/query', Buffer.from('x'))).status, 405);
});
await test('bad profiles are refused, and nothing of them is kept', async () => {
	const before = (await json('/api/v1/status')).data.samples;
	const empty = await post('/api/v1/ingest', Buffer.alloc(0));
	assert.ok([400, 422].includes(empty.status), String(empty.status));
	const garbage = await post('/api/v1/ingest', Buffer.from([0xff, 0xfe, 0, 1, 2, 3]));
	assert.ok([400, 422].includes(garbage.status), String(garbage.status));
	const truncated = await post('/api/v1/ingest?format=pprof', pprofProfile(stacks).subarray(0, 40));
	assert.equal(truncated.status, 400);
	assert.match(errorOf(truncated), /pprof|profile/);
	assert.equal((await post('/api/v1/ingest?format=nope', pprofProfile(stacks))).status, 422);
	assert.equal((await post('/api/v1/ingest?label=nonsense', pprofProfile(stacks))).status, 422);
	assert.equal((await json('/api/v1/status')).data.samples, before);
});
if (existsSync(`${testData}/pprof/malformed/VERDICTS.tsv`)) {
	await test('all malformed profiles of the test data get their verdict', async () => {
		for (const line of readFileSync(`${testData}/pprof/malformed/VERDICTS.tsv`, 'utf8').trim().split('\n')) {
			const [name, verdict] = line.split('\t');
			const response = await post('/api/v1/ingest?name=malformed&format=pprof', readFileSync(`${testData}/pprof/malformed/${name}`));
			if (verdict === 'ACCEPT') assert.equal(response.status, 200, `${name}: ${response.body}`);
			else assert.ok([400, 422].includes(response.status), `${name}: ${response.status} ${response.body}`);
		}
		for (const line of readFileSync(`${testData}/otlp/malformed/VERDICTS.tsv`, 'utf8').trim().split('\n')) {
			const [name, verdict] = verdictOf(line);
			const response = await post('/v1development/profiles', readFileSync(`${testData}/otlp/malformed/${name}`), { 'content-type': 'application/x-protobuf' });
			if (verdict === '0') assert.equal(response.status, 200, `${name}: ${response.body}`);
			else assert.equal(response.status, 400, `${name}: ${response.status} ${response.body}`);
			assert.equal(response.headers['content-type'], 'application/x-protobuf');
		}
	});
} else skip('malformed profiles', `no test data in ${testData}`);
await test('a bomb is stopped at the limit', async () => {
	const bomb = gzipSync(Buffer.alloc(80 << 20));
	const inside = await post('/api/v1/ingest', bomb);
	assert.equal(inside.status, 413, inside.body.toString());
	const outside = await post('/api/v1/ingest', bomb, { 'content-encoding': 'gzip' });
	assert.equal(outside.status, 413, outside.body.toString());
	const otlp = await post('/v1development/profiles', bomb, { 'content-encoding': 'gzip', 'content-type': 'application/x-protobuf' });
	assert.equal(otlp.status, 413);
	assert.equal(otlp.headers['content-type'], 'application/x-protobuf');
	assert.deepEqual([...otlp.body.subarray(0, 2)], [8, 8]); // google.rpc.Status, code RESOURCE_EXHAUSTED
});
await test('a body over the limit is refused before it is read', async () => {
	const response = await new Promise((resolve, reject) => {
		const socket = net.connect(server.port, '127.0.0.1', () =>
			socket.write('POST /api/v1/ingest HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000000000\r\n\r\n'),
		);
		let text = '';
		socket.on('data', (chunk) => {
			text += chunk;
			if (text.includes('\r\n')) {
				resolve(text);
				socket.destroy();
			}
		});
		socket.on('error', reject);
	});
	assert.match(response, /^HTTP\/1\.1 413/);
});
await test('other sites and other names are kept out', async () => {
	assert.equal((await get('/api/v1/status', { host: 'evil.example' })).status, 403);
	assert.equal((await get('/api/v1/status', { origin: 'http://evil.example' })).status, 403);
	assert.equal((await post('/api/v1/ingest', pprofProfile(stacks), { origin: 'null' })).status, 403);
	assert.equal((await get('/api/v1/status', { origin: server.url, host: `127.0.0.1:${server.port}` })).status, 200);
	assert.equal((await get('/api/v1/status', { host: `localhost:${server.port}` })).status, 200);
});
await test('/metrics is Prometheus text', async () => {
	const response = await get('/metrics');
	assert.match(response.headers['content-type'], /^text\/plain; version=0\.0\.4/);
	const values = new Map();
	for (const line of response.body.toString().trim().split('\n')) {
		if (line.startsWith('#')) {
			assert.match(line, /^# (HELP|TYPE) [a-z_]+ .+/);
			continue;
		}
		const match = line.match(/^([a-z_]+)(\{[^}]*\})? ([-+.e0-9]+)$/);
		assert.ok(match, line);
		values.set(match[1], Number(match[3]));
	}
	assert.ok(values.get('wick_ingest_profiles_total') >= 5);
	assert.ok(values.get('wick_ingest_refused_total') >= 5);
	assert.ok(values.get('wick_store_fsyncs_total') >= 1);
	assert.ok(values.get('process_resident_memory_bytes') > 1e6);
	for (const [old, name] of [
		['wick_recordings_ordered_total', 'wick_recordings_requested_total'],
		['wick_marker_windows', 'wick_marker_batches'],
	]) {
		assert.equal(values.get(name), 0);
		assert.equal(values.get(old), 0, `the old name of ${name}`);
	}
});
await test('the page is served with a policy that lets nothing else in', async () => {
	const page = await get('/');
	assert.equal(page.status, 200);
	assert.match(page.headers['content-security-policy'], /default-src 'none'/);
	const tag = page.headers.etag;
	assert.equal((await get('/', { 'if-none-match': tag })).status, 304);
	assert.equal((await get('/app.js')).status, 200);
	assert.equal((await get('/layout.js')).status, 200);
	assert.equal((await get('/no-such-page')).status, 404);
	assert.equal((await get('/../../etc/passwd')).status, 404);
});
await test('data outlives a restart', async () => {
	const before = (await json(`/api/v1/query?query=process_cpu&${range}`)).flame.total;
	assert.equal(await server.stop(), 0);
	server = await startServer(`${directory}/data`);
	assert.equal((await json(`/api/v1/query?query=process_cpu&${range}`)).flame.total, before);
});
await test('one process a data directory', async () => {
	await assert.rejects(startServer(`${directory}/data`), /another|in use|locked/i);
});
await test('with a token, only those who have it come in', async () => {
	writeFileSync(`${directory}/token`, 'correct-horse-battery\n');
	chmodSync(`${directory}/token`, 0o600);
	const guarded = await startServer(`${directory}/guarded`, ['--token-file', `${directory}/token`]);
	const status = async (headers) => (await request(guarded.port, 'GET', '/api/v1/status', { headers })).status;
	assert.equal(await status({}), 401);
	assert.equal(await status({ authorization: 'Bearer wrong' }), 401);
	assert.equal(await status({ authorization: 'Bearer correct-horse-batterX' }), 401);
	assert.equal(await status({ authorization: 'Bearer correct-horse-battery' }), 200);
	assert.equal(await status({ authorization: `Basic ${Buffer.from('me:correct-horse-battery').toString('base64')}` }), 200);
	assert.equal((await request(guarded.port, 'GET', '/healthz')).status, 200);
	await guarded.stop();
});
await server.stop();
finish();
