// SPDX-License-Identifier: Apache-2.0
// TLS handshakes that are not finished, or that are made for nothing but to have the server compute: those who have a connection, and those who come for
// one, are served meanwhile.
import assert from 'node:assert/strict';
import https from 'node:https';
import { createServer } from 'node:net';
import { readFileSync, writeFileSync } from 'node:fs';
import tls from 'node:tls';
import { startServer, temporaryDirectory, test, finish, uses } from '../harness.mjs';
import { SERVER, address, attack, crowd, makeCertificate, makeNetwork, metricOf, sleep } from './attack.mjs';

uses('openssl');
const directory = temporaryDirectory(),
	file = (name) => `${directory}/${name}`,
	UNKNOWN = 150;
makeNetwork();
makeCertificate(directory);
writeFileSync(file('token'), 'secret-secret\n', { mode: 0o600 });
writeFileSync(
	file('server.yaml'),
	`connections: {max: 600, unauthenticated: ${UNKNOWN}}\ntls: {cert_file: ${file('cert.pem')}, key_file: ${file('key.pem')}}\n`,
);
const server = await startServer(file('data'), ['--config', file('server.yaml'), '--token-file', file('token'), '--listen', '0.0.0.0:0']);
const at = { host: SERVER, port: server.port, ca: readFileSync(file('cert.pem')) },
	attacker = address(2000);

// A request; a connection of its own and a full handshake unless an agent is given.
function ask(path, localAddress, agent = false) {
	return new Promise((resolve) => {
		const call = https.request({ ...at, path, localAddress, agent, headers: { authorization: 'Bearer secret-secret' } }, (response) => {
			const chunks = [];
			response.on('data', (chunk) => chunks.push(chunk));
			response.on('end', () => resolve({ status: response.statusCode, text: Buffer.concat(chunks).toString() }));
			response.on('error', () => resolve({ status: 0, text: 'broken off' }));
		});
		call.on('error', (error) => resolve({ status: 0, text: error.code ?? String(error) }));
		call.end();
	});
}
const metric = async (name) => metricOf((await ask('/metrics', address(900))).text, name);
const kept = new https.Agent({ keepAlive: true, maxSockets: 1 });
let round = 0,
	tries = 1;
async function bystander() {
	const old = await ask('/api/v1/types', address(1), kept);
	if (old.status !== 200) return `somebody connected: ${old.status} ${old.text}`;
	// Among strangers who come from very many addresses somebody new is one more: he may have to come again.
	let fresh;
	round++;
	for (let i = 0; i < tries && fresh?.status !== 200; i++) fresh = await ask('/healthz', address(1000 + (round % 50)));
	return fresh.status === 200 ? undefined : `somebody new: ${fresh.status} ${fresh.text}`;
}
const flood = (name, body) => attack(name, server, bystander, 96, body);

// What a client says first, as it is sent.
const hello = await new Promise((resolve) => {
	const catcher = createServer((socket) =>
		socket.once('data', (data) => {
			resolve(data);
			socket.destroy();
			catcher.close();
		}),
	).listen(0, '127.0.0.1', () => tls.connect({ host: '127.0.0.1', port: catcher.address().port }).on('error', () => {}));
});

await flood('1,500 connections that begin a handshake and say no more', async () => {
	const sockets = await crowd(1500, { ...at, localAddress: attacker }, (socket) => socket.write(hello.subarray(0, 3)));
	assert.ok((await metric('wick_http_connections_open')) < UNKNOWN + 20);
	sockets.forEach((socket) => socket.destroy());
});
tries = 100;
await flood('1,500 that let the server answer and say no more', async () => {
	const before = await metric('wick_http_sent_bytes_total'),
		sockets = await crowd(1500, { ...at, localAddress: (i) => address(2000 + (i % 100)) }, (socket) => socket.write(hello));
	assert.ok((await metric('wick_http_connections_open')) < UNKNOWN + 20);
	assert.ok(before >= 0);
	sockets.forEach((socket) => socket.destroy());
});
tries = 1;
await flood('handshakes without end from one address', async () => {
	let made = 0;
	const one = () =>
		new Promise((resolve) => {
			const socket = tls.connect({ ...at, localAddress: attacker }, () => {
				made++;
				socket.destroy();
			});
			socket.on('error', () => {});
			socket.on('close', resolve);
		});
	await Promise.all(
		Array.from({ length: 50 }, async () => {
			for (let i = 0; i < 12; i++) await one();
		}),
	);
	assert.ok(made > 300, `${made} handshakes`);
});
await flood('garbage instead of a handshake', async () => {
	const before = await metric('wick_tls_failures_total');
	const sockets = await crowd(
		500,
		{ ...at, localAddress: attacker },
		(socket, i) => socket.write(i % 2 ? Buffer.alloc(20000, i) : Buffer.concat([hello.subarray(0, 60), Buffer.alloc(5000, 0xff)])),
		50,
	);
	for (let i = 0; (await metric('wick_tls_failures_total')) < before + 200; i++) {
		assert.ok(i < 3000, 'they fail');
		await sleep(10);
	}
	sockets.forEach((socket) => socket.destroy());
});
await test('500 clients that come at once, more than may wait, are all served when they come again', async () => {
	let tries = 0;
	await Promise.all(
		Array.from({ length: 500 }, async (_, i) => {
			for (let n = 0; ; n++) {
				tries++;
				if ((await ask('/api/v1/types', address(3000 + i))).status === 200) return;
				assert.ok(n < 200, `client ${i} was never served`);
				await sleep(Math.min(100 << n, 2000) * (0.5 + Math.random() / 2));
			}
		}),
	);
	console.log(`   ${tries} tries`);
});
await test('a client that comes again resumes its session, and is asked for its token all the same', async () => {
	const agent = new https.Agent({ keepAlive: false, maxCachedSessions: 10 });
	const before = await metric('wick_tls_resumed_total');
	for (let i = 0; i < 5; i++) assert.equal((await ask('/api/v1/types', address(5), agent)).status, 200);
	assert.ok((await metric('wick_tls_resumed_total')) >= before + 3);
	const refused = await new Promise((resolve, reject) => {
		https
			.get({ ...at, path: '/api/v1/types', localAddress: address(5), agent }, (response) => resolve(response.resume() && response.statusCode))
			.on('error', reject);
	});
	assert.equal(refused, 401);
});
await test('and the server ends as it should', async () => {
	kept.destroy();
	assert.equal(await server.stop(), 0, server.log());
});
finish();
