// SPDX-License-Identifier: Apache-2.0
// Clients that get an error, or none because they or the server went away, and send again: each profile counts once, whenever that happened.
import assert from 'node:assert/strict';
import { bytesField, finish, pprofProfile, request, startServer, temporaryDirectory, test } from '../harness.mjs';

process.setMaxListeners(0); // a server each
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
let seed = Number(process.env.WICK_TEST_SEED ?? 42);
const random = (below) => (seed = (Math.imul(seed, 1103515245) + 12345) >>> 0) % below;
const total = async (server, side) => {
	const query = encodeURIComponent(`process_cpu{side="${side}"}`);
	const response = await request(server.port, 'GET', `/api/v1/query?query=${query}&from=now-1h&to=now%2B1h`);
	return JSON.parse(response.body).flame.total;
};

// Ways to say which measurement it is: a time of its own, or a key.
let serial = 0;
const now = () => BigInt(Date.now()) * 1000000n + BigInt(serial++);
const profile = (value, side, timeNs) => pprofProfile([[['leaf', 'main'], value, { side }]], { timeNs: timeNs ?? 0 });
const ways = {
	time: (value, side) => ({ path: '/api/v1/ingest?name=process_cpu', body: profile(value, side, now()), headers: {} }),
	key: (value, side) => ({ path: '/api/v1/ingest?name=process_cpu', body: profile(1, side), headers: { 'idempotency-key': `a-${serial++}` }, value: 1 }),
	ingest: (value, side) => ({
		path: `/ingest?name=process_cpu%7Bside%3D${side}%7D&format=folded&spyName=test`,
		body: Buffer.from('main;leaf 1\n'),
		headers: { 'idempotency-key': `b-${serial++}` },
		value: 1,
	}),
};

await test('killed servers, impatient clients: each profile is stored once', async () => {
	const data = `${temporaryDirectory()}/data`;
	let server = await startServer(data),
		sent = { time: 0, key: 0, ingest: 0 },
		tries = 0,
		going = true;
	const send = async (way) => {
		const value = 1 + random(9),
			call = ways[way](value, way);
		for (;;) {
			tries++;
			const patience = random(3) ? 60000 : random(8);
			const status = await Promise.race([
				request(server.port, 'POST', call.path, call).then(
					(response) => response.status,
					() => 0,
				),
				sleep(patience).then(() => -1), // goes on by itself: its answer is lost
			]);
			assert.ok([200, 0, -1, 503].includes(status), String(status));
			if (status === 200) break;
			await sleep(5);
		}
		sent[way] += call.value ?? value;
	};
	const senders = Object.keys(ways).flatMap((way) =>
		Array.from({ length: 4 }, async () => {
			while (going) await send(way);
		}),
	);
	for (let i = 0; i < 6; i++) {
		await sleep(100 + random(200));
		await server.stop(i % 3 ? 'SIGKILL' : 'SIGTERM');
		server = await startServer(data);
	}
	await sleep(200);
	going = false;
	await Promise.all(senders);
	// Calls that nobody waits for may be under way yet; they are copies.
	await sleep(300);
	console.log(`   ${tries} tries, ${JSON.stringify(sent)}`);
	for (const way of ['time', 'key']) assert.equal(await total(server, way), sent[way], way);
	assert.equal(await total(server, 'ingest'), sent.ingest * 10000000, 'ingest'); // samples at 100 Hz
	assert.ok(tries > sent.key + sent.ingest, 'there were no retries');
	assert.equal(await server.stop(), 0);
});

await test('a key is no identity by itself, and is not needed with a time', async () => {
	const server = await startServer(`${temporaryDirectory()}/data`);
	const post = async (body, headers = {}) => {
		const response = await request(server.port, 'POST', '/api/v1/ingest?name=process_cpu', { body, headers });
		assert.equal(response.status, 200, response.body.toString());
		return JSON.parse(response.body).duplicate;
	};
	const key = { 'idempotency-key': 'same' };
	assert.equal(await post(profile(1, 'x'), key), false);
	assert.equal(await post(profile(1, 'x'), key), true);
	assert.equal(await post(profile(2, 'x'), key), false); // other bytes
	assert.equal(await post(profile(1, 'x'), { 'idempotency-key': 'other' }), false);
	assert.equal(await post(profile(1, 'x')), false); // two measurements, for all that is known
	assert.equal(await post(profile(1, 'x')), false);
	const timed = profile(5, 'x', now());
	assert.equal(await post(timed), false);
	assert.equal(await post(timed, key), true);
	assert.equal(await total(server, 'x'), 1 + 2 + 1 + 1 + 1 + 5);
	const long = await request(server.port, 'POST', '/api/v1/ingest', { body: timed, headers: { 'idempotency-key': 'x'.repeat(256) } });
	assert.equal(long.status, 400);
	assert.match(long.body.toString(), /Idempotency-Key: at most 255 bytes/);
	await server.stop();
});

// Of several profiles some may be stored before one fails: whatever write that is.
await test('a failure says how much was stored, and sending all again stores the rest', async () => {
	const label = (name, value) => bytesField(1, [...bytesField(1, name), ...bytesField(2, value)]);
	let failures = 0,
		parts = new Set();
	for (let n = 1; n < 40; n++) {
		const server = await startServer(`${temporaryDirectory()}/data`, [], `export WICK_FAULT=write:${n}`).catch(() => undefined);
		if (!server) continue; // one of those that a start needs
		const series = ['a', 'b', 'c'].map((side) => [
			...label('__name__', 'process_cpu'),
			...label('service_name', side),
			...bytesField(2, bytesField(1, [...profile(10, 'part', now())])),
		]);
		const call = { body: Buffer.from(series.flatMap((one) => bytesField(1, one))), headers: { 'content-type': 'application/proto' } };
		const push = () => request(server.port, 'POST', '/push.v1.PusherService/Push', call);
		const first = await push(),
			stored = await total(server, 'part');
		if (first.status !== 200) {
			failures++;
			assert.equal(stored, 10 * Number(first.headers['x-wick-stored'] ?? 0), `write ${n}: ${first.status} ${first.body}`);
			parts.add(stored);
			const again = await push();
			assert.equal(again.status, 200, again.body.toString());
		}
		assert.equal(await total(server, 'part'), 30, `write ${n}`);
		await server.stop();
		if (failures && first.status === 200) break;
	}
	assert.ok(failures >= 3, `${failures} failures`);
	assert.ok(parts.has(0) && parts.has(10) && parts.has(20), [...parts].join());
});
finish();
