// SPDX-License-Identifier: Apache-2.0
// Windows of markers, as agents send them all the time: what is asked of them, on whose clock, within which room, after a start.
import assert from 'node:assert/strict';
import { readFileSync, readdirSync, truncateSync, writeFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import { finish, request, startServer, temporaryDirectory, test } from '../harness.mjs';
import { cli, withProfile } from '../profiler.mjs';

const directory = temporaryDirectory(),
	data = `${directory}/data`,
	windows = `${data}/recordings/continuous`,
	at = '/api/v1/recordings/continuous';
const ms = 1000000n,
	text = readFileSync('tests/api/markers.json', 'utf8');
// All of one of each, and 36 ms long; the named step is its first marker and its longest.
const base = BigInt(Date.now() - 600000);
let server = await startServer(data);
const get = async (path, status = 200) => {
	const response = await request(server.port, 'GET', path);
	assert.equal(response.status, status, `${path}: ${response.body}`);
	return JSON.parse(response.body);
};
// A window of a second, `seconds` after the first; its host's clock is ahead by so many ms.
async function put(host, seconds, { ahead = 0n, known = true, status = 200, body, more = '' } = {}) {
	const profile = JSON.parse(text),
		start = base + BigInt(seconds) * 1000n + ahead;
	profile.meta.startTime = Number(start);
	const clock = known ? `&reference=server-1&at_ns=${start * ms}&offset_ns=${ahead * ms}&bound_ns=1000&skew=0` : '';
	const response = await request(server.port, 'POST', `${at}/hosts/${host}?from_ns=${start * ms}&to_ns=${(start + 1000n) * ms}${clock}${more}`, {
		body: body ?? gzipSync(JSON.stringify(profile)),
		headers: { 'content-type': 'application/gzip' },
	});
	assert.equal(response.status, status, `${response.body}`);
}
const range = (from, to) => `from=${base + BigInt(from * 1000)}&to=${base + BigInt(to * 1000)}`;
const markers = async (query) => (await get(`/api/v1/markers?${query}`)).markers;
const inNs = (seconds) => Number((base + BigInt(seconds) * 1000n) * ms);

await test('what is no window is refused', async () => {
	await put('alpha', 0, { status: 400, body: Buffer.from('nothing') });
	await put('alpha', 0, { status: 400, body: gzipSync('[]') });
	await put('alpha', 0, { status: 400, more: '&first_ns=1' });
	await put('alpha%2fbeta', 0, { status: 400 });
	for (const times of ['', 'from_ns=1', 'from_ns=5&to_ns=4', 'from_ns=1&to_ns=600000000002', 'from_ns=-1&to_ns=3', 'from_ns=x&to_ns=3']) {
		const response = await request(server.port, 'POST', `${at}/hosts/alpha?${times}`, { body: gzipSync(text) });
		assert.equal(response.status, 400, times);
	}
	assert.equal((await get(at)).windows, 0);
});
await test('markers have all that their programs said', async () => {
	await put('alpha', 0);
	await put('alpha', 0, { status: 409 });
	const [step, ...others] = await markers(`${range(-1, 5)}&name=named%20step`);
	assert.equal(others.length, 0);
	assert.deepEqual(
		{ ...step, start_ns: 0, end_ns: 0, pid: 0, tid: 0 },
		{
			host: 'alpha',
			process: 'marks',
			pid: 0,
			tid: 0,
			thread: 'marks',
			name: 'named step',
			kind: 'step',
			category: 'Engine',
			phase: 'interval',
			start_ns: 0,
			end_ns: 0,
			flow: '000000000000002a',
			fields: { rows: -5, peer: 'nëighbour', share: 0.25, took: 1500000, size: 4096, ratio: 1.5 },
		},
	);
	assert.ok(step.pid > 0 && step.tid > 0 && step.start_ns >= inNs(0) && step.end_ns < inNs(1) && step.start_ns < step.end_ns);
	assert.equal((await markers(`${range(-1, 5)}&name=step`)).length, 1, 'a kind is a name, too');
	assert.equal((await markers(`${range(-1, 5)}&name=step&name=tick`)).length, 3);
});
await test('the newest come first, and as many as are asked for', async () => {
	for (const seconds of [1, 2, 3]) await put('alpha', seconds);
	const all = await get(`/api/v1/markers?${range(-1, 9)}`),
		first = await get(`/api/v1/markers?${range(-1, 9)}&limit=5`);
	assert.equal(all.truncated, false);
	assert.equal(all.windows, 4);
	assert.ok(first.truncated && first.windows < 4, 'older windows are not even read');
	assert.deepEqual(first.markers, all.markers.slice(0, 5));
	const times = all.markers.map((m) => m.end_ns ?? m.start_ns);
	assert.deepEqual(
		times,
		[...times].sort((a, b) => b - a),
	);
	assert.equal((await markers(range(2, 2.5))).length, all.markers.length / 4, 'of one window');
	for (const limit of ['0', '100001', 'x']) await get(`/api/v1/markers?limit=${limit}`, 400);
	await get('/api/v1/markers?from=yesterday-ish', 400);
});
await test("times are the server's, whatever the host's clock says", async () => {
	await put('beta', 1, { ahead: 3600000n });
	const [step] = await markers(`${range(1, 2)}&host=beta&name=step`);
	assert.equal(step.host, 'beta');
	assert.ok(step.start_ns >= inNs(1) && step.end_ns < inNs(2));
	assert.equal((await markers(`${range(-1, 9)}&host=gamma`)).length, 0);
	assert.equal((await markers(`${range(3601, 3602)}`)).length, 0);
});
await test('a span is found by when it began, too', async () => {
	const start = base - 100000n;
	const profile = JSON.parse(text);
	profile.meta.startTime = Number(start);
	const response = await request(server.port, 'POST', `${at}/hosts/long?from_ns=${(start + 40n) * ms}&to_ns=${(start + 1000n) * ms}&first_ns=${start * ms}`, {
		body: gzipSync(JSON.stringify(profile)),
	});
	assert.equal(response.status, 200);
	assert.equal((await markers(`from=${start - 5n}&to=${start + 39n}&name=step`)).length, 1);
});
await test('one profile of several hosts and windows', async () => {
	const path = `${directory}/all.json`,
		response = await request(server.port, 'GET', `${at}/profile?${range(-1, 9)}`);
	assert.equal(response.status, 200, `${response.body.subarray(0, 200)}`);
	writeFileSync(path, response.body);
	const profile = JSON.parse(response.body);
	assert.deepEqual(profile.meta.wick.hosts.map((h) => h.name).sort(), ['alpha', 'beta']);
	const main = profile.threads.filter((t) => t.isMainThread && String(t.pid).startsWith('alpha:'));
	assert.equal(main.length, 1, 'a thread is one, of how many windows ever');
	const names = (thread) => Array.from(thread.markers.name, (n) => profile.shared.stringArray[n]);
	assert.equal(names(main[0]).filter((n) => n === 'named step').length, 4);
	await withProfile(path, () => assert.match(cli('profile', 'info'), /alpha|beta/));
	const cut = JSON.parse((await request(server.port, 'GET', `${at}/profile?${range(2, 2.9)}&host=alpha`)).body);
	assert.equal(
		cut.threads.flatMap((t) => Array.from(t.markers.name)).length,
		profile.threads
			.filter((t) => String(t.pid).startsWith('alpha:'))
			.flatMap((t) => Array.from(t.markers.name))
			.filter((n) => profile.shared.stringArray[n] !== 'Exchange').length / 4,
	);
	await get(`${at}/profile?${range(2, 3)}&host=gamma`, 404);
	await get(`${at}/profile?${range(2, 3)}&format=nonsense`, 400);
});
await test('a start finds them again, and sets aside what is torn', async () => {
	const before = await get(`/api/v1/markers?${range(-1, 9)}`);
	await server.stop();
	const [victim] = readdirSync(windows).filter((name) => name.endsWith('-beta.json.gz'));
	truncateSync(`${windows}/${victim}`, 700);
	server = await startServer(data);
	const after = await get(`/api/v1/markers?${range(-1, 9)}`);
	assert.deepEqual(
		after.markers,
		before.markers.filter((m) => m.host !== 'beta'),
	);
	assert.ok(readdirSync(windows).includes(`${victim}.torn`));
	assert.match(server.log(), /set aside/);
	const file = `${windows}/${readdirSync(windows).find((name) => name.endsWith('-long.json.gz'))}`,
		bytes = readFileSync(file);
	bytes[bytes.length - 20] ^= 1;
	writeFileSync(file, bytes);
	const start = base - 100000n;
	assert.ok((await get(`/api/v1/markers?from=${start - 5n}&to=${start + 39n}`)).truncated, 'one that is damaged later is said to be missing');
	assert.ok((await get(at)).hosts.every((h) => h.name !== 'long'));
});
await test('all can be removed', async () => {
	assert.equal((await request(server.port, 'DELETE', at)).status, 200);
	assert.equal((await get(at)).windows, 0);
	assert.deepEqual(
		readdirSync(windows).filter((name) => name.endsWith('.json.gz')),
		[],
	);
	await get(`${at}/profile?${range(-1, 9)}`, 404);
});
await server.stop();
const config = `${directory}/wick.yaml`;
writeFileSync(config, 'recordings: {size: 160K, profile: 30K}\n');
server = await startServer(`${directory}/small`, ['--config', config]);
await test('the oldest make room, in half of the room that there is', async () => {
	for (let i = 0; i < 40; i++) await put('alpha', i);
	const list = await get(at),
		[host] = list.hosts;
	assert.equal(list.bytes_max, 81920);
	assert.ok(list.bytes <= list.bytes_max && list.windows > 10 && list.windows < 40);
	assert.equal(host.to_ms, Number(base) + 40000);
	assert.equal(host.from_ms, Number(base) + (40 - host.windows) * 1000);
	const metrics = (await request(server.port, 'GET', '/metrics')).body.toString();
	assert.match(metrics, new RegExp(`^wick_marker_batches_evicted_total ${40 - host.windows}$`, 'm'));
});
await test('what is too much for one profile says how to ask for less', async () => {
	const { error } = await get(`${at}/profile?${range(-1, 99)}`, 413);
	assert.match(error, /from=.*host=/);
	await get(`${at}/profile?${range(39, 39.9)}`);
	assert.ok((await get(`/api/v1/markers?${range(-1, 99)}`)).truncated);
});
await server.stop();
finish();
