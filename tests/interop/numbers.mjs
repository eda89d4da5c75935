// SPDX-License-Identifier: Apache-2.0
// Numeric labels of samples: a heap profile of Go, whose samples say how large the objects are, comes in by each way and goes out as pprof. What
// `go tool pprof` says of the file that came out must be what it says of the one that went in: from memory, from blocks, and after a kill.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { gunzipSync } from 'node:zlib';
import { startServer, request, temporaryDirectory, test, finish, skip, uses, wick, bytesField, intField, varint } from '../harness.mjs';
import { until } from './export_endpoints.mjs';

if (!uses('go')) {
	skip('numeric labels', 'no go command');
	finish();
}
const work = temporaryDirectory(),
	data = `${work}/data`;
const cache = process.env.GOCACHE ?? (existsSync('/root/.cache/go-build') ? '/root/.cache/go-build' : `${work}/cache`);
const env = { ...process.env, HOME: work, GOCACHE: cache, GOFLAGS: '', CGO_ENABLED: '0', GO111MODULE: 'off', PPROF_TMPDIR: work, PPROF_BINARY_PATH: work };
function run(program, args) {
	const { status, stdout, stderr } = spawnSync(program, args, { env, encoding: 'utf8' });
	assert.equal(status, 0, `${program} ${args.join(' ')}: ${stderr}`);
	return stdout;
}
run('go', ['build', '-o', `${work}/heap`, 'tests/interop/numbers_heap.go']);
run(`${work}/heap`, [`${work}/heap.pb.gz`]);
// Some hours old, so that its blocks are merged: field 9 is the time.
const past = BigInt(Date.now() - 5 * 3600000) * 1000000n;
function dated(profile) {
	const fields = [];
	for (let at = 0; at < profile.length;) {
		const start = at,
			next = () => {
				let value = 0n;
				for (let shift = 0n, byte = 128; byte & 128; shift += 7n) {
					byte = profile[at++];
					value |= BigInt(byte & 127) << shift;
				}
				return Number(value);
			};
		const tag = next(),
			value = next();
		if (tag % 8 === 2) at += value;
		if (tag >> 3 !== 9) fields.push(profile.subarray(start, at));
	}
	return Buffer.concat([...fields, Buffer.from(intField(9, past))]);
}
const heap = dated(gunzipSync(readFileSync(`${work}/heap.pb.gz`)));

// The values of tags, without those that are 0: of one sample type there are samples only where it has a value.
const tags = (file, type, ...options) =>
	run('go', ['tool', 'pprof', '-tags', '-unit=B', `-sample_index=${type}`, ...options, file])
		.split('\n')
		.filter((line) => line.trim() && !/^\s*0(\.0)?[A-Za-z]* +\(/.test(line))
		.map((line) => line.replace(/ *\(.*?\)/g, '').trim())
		.sort();
const TYPES = [
	['inuse_space', 'bytes'],
	['inuse_objects', 'count'],
	['alloc_space', 'bytes'],
	['alloc_objects', 'count'],
];

// A pprof in which numbers have units, several labels, several values of one key, and which is no heap.
const samples = [
	[7, [['latency', 30, 'milliseconds']], {}],
	[8, [['latency', 45, 'milliseconds']], { thread: 'b' }],
	[
		9,
		[
			['delay', 2, 'seconds'],
			['tier', 3],
		],
		{},
	],
	[
		10,
		[
			['tier', 4],
			['tier', 5],
		],
		{},
	],
	[11, [['odd, = \\ key', -1, 'odd, unit']], {}],
	[12, [], {}],
	[13, [['latency', 30, 'milliseconds']], { thread: 'b' }],
];
function mixed({ texts: withTexts = true } = {}) {
	const strings = [''],
		id = (text) => (strings.includes(text) ? strings.indexOf(text) : strings.push(text) - 1);
	const out = bytesField(1, [...intField(1, id('contentions')), ...intField(2, id('count'))]);
	for (const [value, numbers, texts] of samples) {
		const sample = [...bytesField(1, varint(1)), ...bytesField(2, varint(value))];
		for (const [key, number, unit = ''] of numbers) sample.push(...bytesField(3, [...intField(1, id(key)), ...intField(3, number), ...intField(4, id(unit))]));
		for (const [key, text] of Object.entries(withTexts ? texts : {})) sample.push(...bytesField(3, [...intField(1, id(key)), ...intField(2, id(text))]));
		out.push(...bytesField(2, sample));
	}
	out.push(...bytesField(4, [...intField(1, 1), ...bytesField(4, intField(1, 1))]), ...bytesField(5, [...intField(1, 1), ...intField(2, id('main'))]));
	for (const text of strings) out.push(...bytesField(6, text));
	return Buffer.from([...out, ...intField(9, past)]);
}

let server = await startServer(data);
const ok = async (path, options) => {
	const response = await request(server.port, 'POST', path, options);
	assert.equal(response.status, 200, response.body.toString());
	return response;
};
const push = (service, name, profile) => ({
	body: Buffer.from(
		JSON.stringify({
			series: [
				{
					labels: [
						{ name: '__name__', value: name },
						{ name: 'service_name', value: service },
					],
					samples: [{ rawProfile: profile.toString('base64') }],
				},
			],
		}),
	),
	headers: { 'content-type': 'application/json' },
});
let number = 0;
// What `wick query --format pprof` writes.
function fetched(query) {
	const file = `${work}/out-${++number}.pb.gz`;
	run(wick, ['query', query, '--url', server.url, '--from', 'now-8h', '--to', 'now+1h', '--format', 'pprof', '-o', file]);
	return file;
}
const metric = async (name) => Number((await request(server.port, 'GET', '/metrics')).body.toString().match(new RegExp(`^${name} (.*)$`, 'm'))[1]);

await test('comes in by /ingest, push.v1, /api/v1/ingest and a scrape', async () => {
	await ok('/ingest?name=ingested&format=pprof', { body: heap });
	await ok('/push.v1.PusherService/Push', push('pushed', 'memory', heap));
	await ok('/push.v1.PusherService/Push', push('mixed', 'mutex', mixed()));
	await ok('/api/v1/ingest?name=memory&label=service_name%3Dnative', { body: heap });
	assert.equal(await metric('wick_ingest_numeric_labels_dropped_total'), 0);
	const target = http.createServer((_, response) => response.end(heap)).listen(0, '127.0.0.1');
	await new Promise((resolve) => target.once('listening', resolve));
	const address = `127.0.0.1:${target.address().port}`;
	writeFileSync(`${work}/config.yml`, `scrape_configs: [{job_name: scraped, scrape_interval: 1s, static_configs: [{targets: ['${address}']}]}]\n`);
	assert.equal(await server.stop(), 0);
	server = await startServer(data, ['--config', `${work}/config.yml`]);
	const scraped = async () => {
		const { body } = await request(server.port, 'GET', '/api/v1/query?query=memory:inuse_space%7Bjob%3D%22scraped%22%7D&from=now-8h&to=now%2B1h');
		return JSON.parse(body).flame?.total > 0;
	};
	await until(scraped, 'a scrape');
	target.close();
	assert.equal(await server.stop(), 0);
	server = await startServer(data);
});

const services = ['service_name="ingested"', 'service_name="pushed"', 'service_name="native"', 'job="scraped"'];
async function checkAll(where) {
	await test(`${where}: go tool pprof -tags says the same of what came in and of what goes out`, async () => {
		for (const service of services)
			for (const [type] of TYPES) {
				// A scrape takes the difference of what is counted: none yet.
				if (service.startsWith('job') && type.startsWith('alloc')) continue;
				const want = tags(`${work}/heap.pb.gz`, type);
				assert.ok(want.length > 6);
				assert.deepEqual(tags(fetched(`memory:${type}{${service}}`), type), want, `${service} ${type}`);
			}
		// Labels of series come out if they are grouped by.
		writeFileSync(`${work}/mixed.pb`, mixed({ texts: false }));
		const want = tags(`${work}/mixed.pb`, 'contentions');
		assert.ok(want.some((line) => line.includes('odd, = \\ key')));
		assert.deepEqual(tags(fetched('mutex:contentions{service_name="mixed"}'), 'contentions'), want);
	});
	await test(`${where}: __number__ selects what -tagfocus and -tagignore do`, async () => {
		for (const range of ['bytes=512b', 'bytes=1kb:8kb', 'bytes=1kb:', 'bytes=:100b', '64b:2kb']) {
			const focused = tags(fetched(`memory:inuse_space{service_name="pushed", __number__="${range}"}`), 'inuse_space');
			const want = tags(`${work}/heap.pb.gz`, 'inuse_space', `-tagfocus=${range}`);
			// What each number has, not what that is of the whole.
			assert.deepEqual(focused.slice(0, -1).map(part), want.slice(0, -1).map(part), range);
			const rest = tags(fetched(`memory:inuse_space{service_name="pushed"} | where __number__!="${range}"`), 'inuse_space');
			assert.deepEqual(rest.map(part), tags(`${work}/heap.pb.gz`, 'inuse_space', `-tagignore=${range}`).map(part), range);
		}
	});
	await test(`${where}: sums of numbers, over time and as profiles`, async () => {
		for (const [condition, values] of [
			['latency=30ms', [7, 13]],
			['latency=30ms:1s', [7, 8, 13]],
			['delay=1s:1h', [9]],
			['1s:', [9]],
			['tier=3:4', [9, 10]],
			['tier', [9, 10]],
			['odd, = \\\\ key=-1', [11]],
			['', [12]],
			['latency=1kb', []],
		]) {
			const query = `mutex:contentions{service_name="mixed", __number__="${condition}"}`,
				sum = values.reduce((a, b) => a + b, 0);
			const ask = (path, more) => request(server.port, 'GET', `${path}?${new URLSearchParams({ query, from: 'now-8h', to: 'now+1h', ...more })}`);
			assert.equal(JSON.parse((await ask('/api/v1/query')).body).flame.total, sum, condition);
			const { series } = JSON.parse((await ask('/api/v1/series', { step: '1h' })).body);
			assert.equal(
				series.reduce((n, { total }) => n + total, 0),
				sum,
				condition,
			);
		}
	});
	await test(`${where}: they are no labels of series`, async () => {
		const { labels } = JSON.parse((await request(server.port, 'GET', '/api/v1/labels?from=now-8h&to=now%2B1h')).body);
		for (const name of ['bytes', 'latency', 'tier']) assert.ok(!labels.some((label) => label.name === name), name);
		// Who does not ask for pprof gets them as little as before.
		const folded = await request(
			server.port,
			'GET',
			`/api/v1/query?query=${encodeURIComponent('mutex:contentions{service_name="mixed"}')}&from=now-8h&to=now%2B1h&format=folded`,
		);
		assert.equal(folded.body.toString(), 'main 70\n');
	});
	await test(`${where}: go tool pprof asks the server`, async () => {
		const query = encodeURIComponent('memory:inuse_space{service_name="pushed"}');
		assert.deepEqual(tags(`${server.url}/api/v1/pprof?query=${query}&from=now-8h&to=now%2B1h`, 'inuse_space'), tags(`${work}/heap.pb.gz`, 'inuse_space'));
	});
}
function part(line) {
	return line.replace(/^.*?: Total .*/, 'total');
}

await checkAll('from blocks');
await test('what was acknowledged survives a kill', async () => {
	await ok('/ingest?name=killed&format=pprof', { body: heap });
	server.child.removeAllListeners('exit');
	const gone = new Promise((resolve) => server.child.once('exit', resolve));
	server.child.kill('SIGKILL');
	await gone;
	server = await startServer(data);
	services.push('service_name="killed"');
});
await checkAll('from blocks and memory');
await test('blocks are merged, and verified', async () => {
	assert.equal(await server.stop(), 0);
	server = await startServer(data);
	await ok('/api/v1/compact', {});
	await until(() => readdirSync(`${data}/blocks`).some((name) => /-g\d+$/.test(name)), 'a merge');
	run(wick, ['store', 'verify', '--data', data]);
});
await checkAll('from merged blocks');
await test('a comparison is one profile with the numbers of both sides', async () => {
	const query = 'memory:inuse_space{service_name="pushed"}',
		base = 'memory:inuse_space{service_name="native"}';
	const response = await request(server.port, 'GET', `/api/v1/pprof?${new URLSearchParams({ query, base, from: 'now-8h', to: 'now+1h' })}`);
	assert.equal(response.status, 200, response.body.toString());
	writeFileSync(`${work}/difference.pb.gz`, response.body);
	const raw = run('go', ['tool', 'pprof', '-raw', `${work}/difference.pb.gz`]);
	assert.ok(gunzipSync(response.body).length > 100 && /bytes:\[4096\]/.test(raw) && /pprof::base/.test(raw), raw.slice(0, 500));
});
await server.stop();
finish();
