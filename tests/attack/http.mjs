// SPDX-License-Identifier: Apache-2.0
// Clients that mean harm, against a server on loopback with its default limits. Each attack must get its response; meanwhile others
// are served, and memory stays below what the limits add up to.
import assert from 'node:assert/strict';
import { gzipSync } from 'node:zlib';
import http2 from 'node:http2';
import { connect } from 'node:net';
import { readFileSync } from 'node:fs';
import { startServer, request, temporaryDirectory, test, skip, finish, pprofProfile, bytesField, varint } from '../harness.mjs';

const server = await startServer(`${temporaryDirectory()}/data`);
const { port } = server;
const MIB = 1 << 20;
// Four bodies of 64 MiB at once (docs/configuration.md, "Limits"), each decompressed, and what the server is made of.
const RESIDENT_MAX = 4 * 2 * 64 * MIB + 128 * MIB;
const resident = (what) => Number(readFileSync(`/proc/${server.child.pid}/status`, 'utf8').match(new RegExp(`${what}:\\s+(\\d+) kB`))[1]) * 1024;
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const profile = () => pprofProfile([[['leaf', 'main'], 1, {}]], { timeNs: BigInt(Date.now()) * 1000000n + (process.hrtime.bigint() % 1000000n) });

// Somebody who means no harm: a profile and a question, over and over.
let served = 0,
	failures = [],
	serving = true;
const bystander = (async () => {
	while (serving) {
		try {
			const sent = await request(port, 'POST', '/api/v1/ingest?name=process_cpu', { body: profile() });
			const asked = await request(port, 'GET', '/healthz');
			if (sent.status === 200 && asked.status === 200) served++;
			else failures.push(`${sent.status} ${asked.status} ${sent.body}`);
		} catch (error) {
			failures.push(error.code ?? String(error));
		}
		await sleep(5);
	}
})();
// Runs an attack; others must have been served while it ran, none of them refused.
async function attack(name, body) {
	await test(name, async () => {
		const before = served;
		failures = [];
		await body();
		for (let i = 0; served < before + 3; i++) {
			assert.ok(i < 6000, 'others are not served');
			await sleep(10);
		}
		assert.deepEqual(failures, []);
		assert.ok(resident('VmHWM') < RESIDENT_MAX, `${Math.round(resident('VmHWM') / MIB)} MiB`);
		console.log(`   ${name}: ${served - before} rounds of others served, at most ${Math.round(resident('VmHWM') / MIB)} MiB resident so far`);
	});
}
// Sends text, gathers what comes until the other side ends.
const raw = (pieces, { wait = 0 } = {}) =>
	new Promise((resolve) => {
		const chunks = [];
		const socket = connect(port, '127.0.0.1', async () => {
			for (const piece of pieces) {
				if (socket.destroyed) break;
				socket.write(piece);
				if (wait) await sleep(wait);
			}
		});
		const done = () => {
			resolve(Buffer.concat(chunks));
			socket.destroy();
		};
		socket.on('data', (data) => chunks.push(data));
		socket.on('end', done);
		socket.on('error', done);
		socket.on('close', done);
	});
const head = (path, headers) => `POST ${path} HTTP/1.1\r\nHost: localhost\r\n${headers}\r\n\r\n`;

await attack('a gzip bomb: 1 GiB in 1 MiB, on each door', async () => {
	const bomb = gzipSync(Buffer.alloc(1024 * MIB));
	for (const path of ['/ingest?name=x', '/v1development/profiles', '/push.v1.PusherService/Push', '/api/v1/ingest']) {
		const response = await request(port, 'POST', path, { body: bomb, headers: { 'content-encoding': 'gzip', 'content-type': 'application/proto' } });
		assert.equal(response.status, 413, path);
	}
	const inner = await request(port, 'POST', '/api/v1/ingest', { body: bomb });
	assert.equal(inner.status, 413, 'compressed by itself');
});
await attack('a body of 2 GB, said and unsaid', async () => {
	assert.match((await raw([head('/ingest?name=x', 'Content-Length: 2147483648')])).toString(), /^HTTP\/1\.1 413 /);
	let sent = 0;
	const chunk = Buffer.concat([Buffer.from('100000\r\n'), Buffer.alloc(MIB), Buffer.from('\r\n')]);
	const response = await new Promise((resolve) => {
		const chunks = [],
			socket = connect(port, '127.0.0.1');
		const pump = () => {
			while (sent < 2048 && !socket.destroyed) {
				sent++;
				if (!socket.write(chunk)) {
					socket.once('drain', pump);
					return;
				}
			}
		};
		socket.on('connect', () => {
			socket.write(head('/ingest?name=x', 'Transfer-Encoding: chunked'));
			pump();
		});
		socket.on('data', (data) => {
			chunks.push(data);
		});
		for (const event of ['end', 'error', 'close'])
			socket.on(event, () => {
				resolve(Buffer.concat(chunks).toString());
				socket.destroy();
			});
	});
	assert.match(response, /^HTTP\/1\.1 413 /);
	assert.ok(sent < 2048, 'it was not taken in whole');
});
await attack('very many profiles in one request, whose sender goes away', async () => {
	const count = 50000,
		time = BigInt(Date.now()) * 1000000n;
	const label = (name, value) => bytesField(1, [...bytesField(1, name), ...bytesField(2, value)]);
	const samples = Array.from({ length: count }, (_, i) =>
		Buffer.from(bytesField(2, bytesField(1, [...pprofProfile([[['leaf', 'main'], 1, {}]], { timeNs: time + BigInt(i) })]))),
	);
	const series = Buffer.concat([Buffer.from([...label('__name__', 'process_cpu'), ...label('service_name', 'crowd')]), ...samples]);
	const body = Buffer.concat([Buffer.from([0x0a, ...varint(series.length)]), series]);
	const refused = async () => Number((await request(port, 'GET', '/metrics')).body.toString().match(/^wick_ingest_refused_total (\d+)/m)[1]);
	const before = await refused();
	const socket = connect(port, '127.0.0.1');
	socket.on('error', () => {});
	socket.write(head('/push.v1.PusherService/Push', `Content-Type: application/proto\r\nContent-Length: ${body.length}`));
	socket.write(body);
	const services = () => request(port, 'GET', '/api/v1/label-values?label=service_name').then((response) => response.body.toString());
	for (let i = 0; !(await services()).includes('crowd'); i++) {
		assert.ok(i < 2000, 'nothing is stored');
		await sleep(5);
	}
	socket.resetAndDestroy();
	for (let i = 0; (await refused()) === before; i++) {
		assert.ok(i < 3000, 'the server goes on with it');
		await sleep(10);
	}
});
await attack('headers without end, and by the thousand', async () => {
	assert.match((await raw([`GET / HTTP/1.1\r\nHost: localhost\r\nX: ${'a'.repeat(MIB)}`])).toString(), /^HTTP\/1\.1 (431|400) /);
	assert.match((await raw([`GET / HTTP/1.1\r\nHost: localhost\r\n${'X: y\r\n'.repeat(5000)}\r\n`])).toString(), /^HTTP\/1\.1 431 /);
	assert.match((await raw([`GET /${'a'.repeat(MIB)} HTTP/1.1\r\n`])).toString(), /^HTTP\/1\.1 (414|431|400) /);
});

// HTTP/2 by hand.
const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
const frame = (type, flags, stream, payload = Buffer.alloc(0)) => {
	const bytes = Buffer.alloc(9);
	bytes.writeUIntBE(payload.length, 0, 3);
	bytes[3] = type;
	bytes[4] = flags;
	bytes.writeUInt32BE(stream, 5);
	return Buffer.concat([bytes, payload]);
};
const settings = frame(4, 0, 0);
// :method GET, :scheme http, :path /, :authority localhost, all without a dynamic table.
const get = Buffer.concat([Buffer.from([0x82, 0x86, 0x84, 0x01, 9]), Buffer.from('localhost')]);
// What the server said: the code of GOAWAY (frame type 7; -1 = none came), streams that were answered and reset.
async function talk(pieces) {
	const bytes = await raw(pieces),
		said = { goaway: -1, answered: 0, reset: 0 };
	for (let at = 0; at + 9 <= bytes.length; at += 9 + bytes.readUIntBE(at, 3)) {
		if (bytes[at + 3] === 7 && at + 17 <= bytes.length) said.goaway = bytes.readUInt32BE(at + 13);
		said.answered += bytes[at + 3] === 1;
		said.reset += bytes[at + 3] === 3;
	}
	return said;
}
await attack('HTTP/2: 100,000 streams opened and reset', async () => {
	const pieces = [preface, settings];
	for (let batch = 0; batch < 100; batch++) {
		const frames = [];
		for (let i = 0; i < 1000; i++) {
			const stream = 2 * (batch * 1000 + i) + 1;
			frames.push(frame(1, 5, stream, get), frame(3, 0, stream, Buffer.from([0, 0, 0, 8])));
		}
		pieces.push(Buffer.concat(frames));
	}
	pieces.push(frame(7, 0, 0, Buffer.alloc(8)));
	const said = await talk(pieces);
	assert.ok(said.answered < 1000 && said.goaway !== 0, JSON.stringify(said));
});
await attack('HTTP/2: a header in CONTINUATION frames without end', async () => {
	const more = frame(9, 0, 1, Buffer.concat([Buffer.from([0x00, 1, 0x61, 0x7f, 0x81, 0x7e]), Buffer.alloc(16384 - 6, 0x61)]));
	const said = await talk([preface, settings, frame(1, 1, 1, get), ...Array(4000).fill(more)]);
	assert.ok(said.answered === 0 && said.goaway !== 0, JSON.stringify(said));
});
await attack('HTTP/2: a header table entry named ten thousand times', async () => {
	const value = Buffer.alloc(3900, 0x61),
		entry = Buffer.concat([
			Buffer.from([
				0x40,
				1,
				0x62,
				0x7f,
				...(() => {
					const out = [];
					let n = value.length - 127;
					while (n >= 128) {
						out.push((n & 127) | 128);
						n >>= 7;
					}
					out.push(n);
					return out;
				})(),
			]),
			value,
		]);
	const bomb = Buffer.concat([get, entry, Buffer.alloc(10000, 0xbe)]);
	const said = await talk([preface, settings, frame(1, 4 | 1, 1, bomb), frame(7, 0, 0, Buffer.alloc(8))]);
	assert.deepEqual([said.answered, said.reset], [0, 1], JSON.stringify(said));
});
await attack('HTTP/2: floods of PING, SETTINGS and empty DATA', async () => {
	for (const flood of [frame(6, 0, 0, Buffer.alloc(8)), settings, frame(0, 0, 1)])
		assert.notEqual(
			(await talk([preface, settings, frame(1, 4, 1, get), ...Array(50).fill(Buffer.concat(Array(2000).fill(flood))), frame(7, 0, 0, Buffer.alloc(8))])).goaway,
			0,
		);
});
await attack('HTTP/2: a client that reads nothing of a hundred answers', async () => {
	const session = http2.connect(`http://127.0.0.1:${port}`, { settings: { initialWindowSize: 0 } });
	await new Promise((resolve) => session.once('connect', resolve));
	const streams = Array.from({ length: 100 }, () => session.request({ ':path': '/' }));
	for (const stream of streams) stream.on('error', () => {});
	await sleep(500);
	session.destroy();
});
await attack('700 clients that send a byte now and then', async () => {
	const sockets = [];
	for (let i = 0; i < 700; i++) {
		const socket = connect(port, '127.0.0.1');
		socket.on('error', () => {});
		socket.write(i % 2 ? 'POST /ingest?name=x HT' : head('/ingest?name=x', 'Content-Length: 1000'));
		sockets.push(socket);
	}
	for (let round = 0; round < 5; round++) {
		await sleep(200);
		for (const socket of sockets) if (!socket.destroyed) socket.write('a');
	}
	// The header has ten seconds; that it is enforced shows in who is cut off first.
	for (let i = 0; i < 6000 && sockets.filter((socket, n) => n % 2 && !socket.closed && !socket.readableEnded).length > 0; i++) {
		await sleep(100);
		for (const socket of sockets) socket.resume();
	}
	assert.equal(sockets.filter((socket, n) => n % 2 && !socket.closed && !socket.readableEnded).length, 0, 'unfinished headers are cut off');
	for (const socket of sockets) socket.destroy();
});
{
	serving = false;
	await bystander;
	const files = Number(readFileSync('/proc/self/limits', 'utf8').match(/Max open files\s+(\d+)/)[1]);
	if (files < 10500) skip('10,000 connections', `this process may open ${files} files`);
	else
		await test('10,000 connections: those over the limit are closed, those before it are served, and afterwards all are', async () => {
			const kept = connect(port, '127.0.0.1');
			await new Promise((resolve) => kept.once('connect', resolve));
			// It asks now and then, as others do: one that says nothing for ten seconds is closed.
			const closed = new Promise((resolve) => kept.once('close', () => resolve('closed')));
			const answered = () =>
					new Promise((resolve) => {
						kept.once('data', (data) => resolve(data.toString()));
						kept.write('GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n');
					}),
				ask = () => Promise.race([answered(), closed]);
			const sockets = [];
			for (let i = 0; i < 10000; i++) {
				const socket = connect(port, '127.0.0.1');
				socket.on('error', () => {});
				socket.resume();
				sockets.push(socket);
				if (i % 200 === 0) await sleep(5);
				if (i % 200 === 0) assert.match(await ask(), /^HTTP\/1\.1 200 /);
			}
			assert.match(await ask(), /^HTTP\/1\.1 200 /);
			assert.ok(resident('VmHWM') < RESIDENT_MAX);
			console.log(`   at most ${Math.round(resident('VmHWM') / MIB)} MiB resident so far`);
			for (const socket of sockets) socket.destroy();
			kept.destroy();
			let status = 0;
			for (let i = 0; i < 6000 && status !== 200; i++) {
				status = await request(port, 'GET', '/healthz').then(
					(response) => response.status,
					() => 0,
				);
				await sleep(50);
			}
			assert.equal(status, 200);
		});
}
await test('and the server ends as it should', async () => {
	const metrics = (await request(port, 'GET', '/metrics')).body.toString();
	assert.match(metrics, /^wick_/m);
	assert.equal(await server.stop(), 0, server.log());
});
finish();
