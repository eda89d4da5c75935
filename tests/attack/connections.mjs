// SPDX-License-Identifier: Apache-2.0
// Floods of connections, from one address and from many, that bring a token and do not, that say nothing and that hold requests open: agents that were
// there before keep their connections, and they and those that come are served meanwhile.
import assert from 'node:assert/strict';
import http from 'node:http';
import { writeFileSync } from 'node:fs';
import { startServer, temporaryDirectory, test, finish, pprofProfile } from '../harness.mjs';
import { SERVER, address, ask, attack, crowd, makeNetwork, metricOf } from './attack.mjs';

const directory = temporaryDirectory(),
	config = `${directory}/server.yaml`,
	headers = { authorization: 'Bearer secret-secret' },
	AGENTS = 20,
	MAX = 600,
	PER_ADDRESS = 200,
	UNKNOWN = 150,
	MIB_MAX = 96;
makeNetwork();
writeFileSync(`${directory}/token`, 'secret-secret\n', { mode: 0o600 });
writeFileSync(config, `connections: {max: ${MAX}, per_address: ${PER_ADDRESS}, unauthenticated: ${UNKNOWN}}\n`);
const server = await startServer(`${directory}/data`, ['--config', config, '--token-file', `${directory}/token`, '--listen', '0.0.0.0:0']);
const at = { host: SERVER, port: server.port },
	attacker = address(2000);
async function metrics() {
	let answer;
	for (let i = 0; i < 500 && answer?.status !== 200; i++) answer = await ask({ ...at, path: '/metrics', localAddress: address(900), headers });
	return answer.text;
}

// Agents with a connection each, from an address each.
let serial = 0n,
	round = 0,
	tries = 1,
	acknowledged = 0;
const agents = Array.from({ length: AGENTS }, (_, i) => ({
	agent: new http.Agent({ keepAlive: true, maxSockets: 1, localAddress: address(i) }),
	ports: new Set(),
}));
function send({ agent, ports }, body) {
	return new Promise((resolve) => {
		const call = http.request(
			{ ...at, agent, method: 'POST', path: '/api/v1/ingest?name=process_cpu', headers: { ...headers, 'content-length': body.length } },
			(response) => {
				ports.add(response.socket.localPort);
				response.resume();
				response.on('end', () => resolve(response.statusCode));
				response.on('error', () => resolve('broken off'));
			},
		);
		call.on('error', (error) => resolve(error.code));
		call.end(body);
	});
}
// Sent again if the connection has gone, where it may: the same bytes, which count once.
async function upload(agent) {
	const body = pprofProfile([[['leaf', 'main'], 1, {}]], { timeNs: BigInt(Date.now()) * 1000000n + serial++ });
	let status;
	for (let i = 0; i < tries && status !== 200; i++) status = await send(agent, body);
	acknowledged += status === 200;
	return status;
}
async function bystander() {
	const status = await upload(agents[round++ % AGENTS]);
	if (status !== 200) return `an agent's upload: ${status}`;
	// Among strangers who come from very many addresses somebody new is one more: he may have to come again.
	let fresh;
	for (let i = 0; i < tries && fresh?.status !== 200; i++)
		fresh = await ask({ ...at, path: '/api/v1/types', localAddress: address(1000 + (round % 50)), headers });
	return fresh.status === 200 ? undefined : `somebody new: ${fresh.status} ${fresh.text}`;
}
const flood = (name, body) => attack(name, server, bystander, MIB_MAX, body);
const limits = async (kind, limit) => metricOf(await metrics(), `wick_http_connections_${kind}_total{limit="${limit}"}`);
const drop = (sockets) => sockets.forEach((socket) => socket.destroy());
async function opens() {
	const open = metricOf(await metrics(), 'wick_http_connections_open');
	assert.ok(open <= MAX + 5, `${open} connections`); // those being closed count until they are
	return open;
}
for (const agent of agents) assert.equal(await upload(agent), 200);

await flood('2,000 connections from one address that say nothing', async () => {
	const sockets = await crowd(2000, { ...at, localAddress: attacker });
	assert.ok((await limits('evictions', 'unauthenticated')) > 1500);
	assert.ok((await opens()) < UNKNOWN + AGENTS + 10);
	drop(sockets);
});
tries = 100;
await flood('2,000 from 500 addresses, with half a request each', async () => {
	const sockets = await crowd(2000, { ...at, localAddress: (i) => address(2000 + (i % 500)) }, (socket) => socket.write('GET /api/v1/ty'));
	assert.ok((await opens()) < UNKNOWN + AGENTS + 10);
	drop(sockets);
});
tries = 1;
await flood('1,000 from one address that bring a token', async () => {
	const before = metricOf(await metrics(), 'wick_http_connections_evicted_total'),
		request = `GET /api/v1/types HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret-secret\r\n\r\n`,
		sockets = await crowd(1000, { ...at, localAddress: attacker }, (socket) => socket.write(request), 50);
	assert.ok(metricOf(await metrics(), 'wick_http_connections_evicted_total') > before + 500);
	assert.ok((await opens()) < PER_ADDRESS + AGENTS + UNKNOWN);
	drop(sockets);
});
await test('the agents have the connections that they had', () => {
	for (const { ports } of agents) assert.equal(ports.size, 1);
});
// Where all others are at work, somebody new takes the place of who is idle, an agent perhaps, who comes again.
tries = 100;
await flood('1,500 from ten addresses, each with an upload that does not go on', async () => {
	const request = `POST /api/v1/ingest HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret-secret\r\nContent-Length: 1000\r\n\r\nx`,
		sockets = await crowd(1500, { ...at, localAddress: (i) => address(2000 + (i % 10)) }, (socket) => socket.write(request), 50);
	await opens();
	drop(sockets);
});
await test('the log has a line a minute of each kind, and names the limit', () => {
	const lines = server.log().match(/too many connections \(limit: \w+\)/g) ?? [];
	assert.ok(lines.length >= 1 && lines.length <= 2 * 15, server.log());
});
await test('what was acknowledged is there', async () => {
	const sum = await ask({ ...at, path: '/api/v1/query?query=process_cpu&from=now-1h&to=now%2B1h', localAddress: address(901), headers });
	assert.equal(JSON.parse(sum.text).flame.total, acknowledged);
	for (const { agent } of agents) agent.destroy();
	assert.equal(await server.stop(), 0, server.log());
});
finish();
