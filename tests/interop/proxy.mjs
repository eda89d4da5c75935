// SPDX-License-Identifier: Apache-2.0
// Our clients through a proxy, which is one of node's: a server that forwards over HTTP/1.1, gRPC and both under TLS, questions to a
// server, a proxy that wants a password, and one that refuses. The targets have names that only the proxy can resolve.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import http from 'node:http';
import net from 'node:net';
import { readFileSync, writeFileSync } from 'node:fs';
import { startServer, request, temporaryDirectory, test, finish, pprofProfile, wick } from '../harness.mjs';
import { grpcEndpoint, httpEndpoint, until } from './export_endpoints.mjs';

const certificates = process.argv[2],
	directory = temporaryDirectory();
for (const name of ['http_proxy', 'https_proxy', 'all_proxy', 'no_proxy']) {
	delete process.env[name];
	delete process.env[name.toUpperCase()];
}
process.setMaxListeners(0); // each child is ended with us

// A proxy that takes *.test for this machine, refuses everything else, and writes down what it is asked. Its answer to CONNECT waits for
// what the server says first, where it says something, so that both come at once: what follows the head is the server's.
async function startProxy(user) {
	const asked = [],
		wanted = user && `Basic ${Buffer.from(user).toString('base64')}`;
	const refuse = (host, headers) => (wanted && headers['proxy-authorization'] !== wanted ? 407 : host.endsWith('.test') ? 0 : 403);
	const server = http.createServer((incoming, outgoing) => {
		const url = new URL(incoming.url),
			status = refuse(url.hostname, incoming.headers);
		asked.push({ method: incoming.method, url: incoming.url, status, headers: incoming.headers });
		if (status) return outgoing.writeHead(status, { 'proxy-authenticate': 'Basic' }).end('no');
		const { 'proxy-authorization': _, ...headers } = incoming.headers;
		if (url.hostname === 'wick.test') headers.host = `127.0.0.1:${url.port}`; // a server on loopback answers to no other name
		const inner = http.request({ host: '127.0.0.1', port: url.port, method: incoming.method, path: url.pathname + url.search, headers }, (response) => {
			outgoing.writeHead(response.statusCode, response.headers);
			response.pipe(outgoing);
		});
		inner.on('error', () => outgoing.writeHead(502).end());
		incoming.pipe(inner);
	});
	const sockets = new Set();
	server.on('connect', (incoming, socket, head) => {
		const { hostname, port } = new URL(`http://${incoming.url}`),
			status = refuse(hostname, incoming.headers);
		asked.push({ method: 'CONNECT', url: incoming.url, status, headers: incoming.headers });
		sockets.add(socket);
		socket.on('error', () => {});
		if (status) return socket.end(`HTTP/1.1 ${status} Refused\r\nContent-Length: 2\r\n\r\nno`);
		const inner = net.connect(port, '127.0.0.1');
		let begun = false;
		const begin = (first = '') => {
			if (begun) return;
			begun = true;
			socket.write(Buffer.concat([Buffer.from('HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n'), Buffer.from(first), head]));
			socket.pipe(inner);
			inner.pipe(socket);
		};
		inner.once('data', begin);
		inner.once('connect', () => setTimeout(begin, 200)); // TLS: the client speaks first
		inner.on('error', () => socket.destroy());
		inner.on('close', () => socket.destroy());
		socket.on('close', () => inner.destroy());
	});
	await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
	const close = () => {
		for (const socket of sockets) socket.destroy();
		server.closeAllConnections();
		server.close();
	};
	return { asked, close, url: `http://${user ? `${user.replace('@', '%40')}@` : ''}127.0.0.1:${server.address().port}` };
}

const profile = (value) => pprofProfile([[['work', 'main'], value, {}]], { timeNs: BigInt(Date.now()) * 1000000n, durationNs: 10e9 });
const tls = { key: readFileSync(`${certificates}/key.pem`), cert: readFileSync(`${certificates}/cert.pem`) };
const endpoints = async () => ({
	http: await httpEndpoint(),
	grpc: await grpcEndpoint(),
	https: await httpEndpoint(undefined, 0, tls),
	'grpc-tls': await grpcEndpoint(undefined, tls),
});
const kindOf = (name) => (name.startsWith('grpc') ? 'otlp-grpc' : 'otlp-http');
const targetsOf = (received, host) =>
	Object.entries(received).map(([name, { port }]) => ({
		name,
		kind: kindOf(name),
		url: `${name === 'https' || name === 'grpc-tls' ? 'https' : 'http'}://${host}:${port}`,
		retry_max: '200ms',
		...(name === 'https' || name === 'grpc-tls' ? { tls: { ca_file: `${certificates}/cert.pem` } } : {}),
	}));
let servers = 0;
async function startForwarding(targets, environment) {
	const path = `${directory}/${++servers}.yaml`;
	writeFileSync(path, JSON.stringify({ symbols: { debuginfod: { urls: [] } }, forward: targets }));
	Object.assign(process.env, environment);
	const server = await startServer(`${directory}/${servers}`, ['--config', path]);
	for (const name of Object.keys(environment)) delete process.env[name];
	return server;
}
async function send(server, value) {
	const response = await request(server.port, 'POST', '/api/v1/ingest', { body: profile(value) });
	assert.equal(response.status, 200, response.body.toString());
}
function run(parameters, environment) {
	return new Promise((resolve) => {
		const child = spawn(wick, parameters, { env: { ...process.env, ...environment } });
		let out = '',
			err = '';
		child.stdout.on('data', (chunk) => {
			out += chunk;
		});
		child.stderr.on('data', (chunk) => {
			err += chunk;
		});
		child.on('exit', (code) => resolve({ code, out, err }));
	});
}

for (const user of [undefined, 'me:s3cr@t']) {
	const proxy = await startProxy(user),
		received = await endpoints();
	const server = await startForwarding(targetsOf(received, 'collector.test'), { http_proxy: proxy.url, HTTPS_PROXY: proxy.url });
	await test(`a server forwards through a proxy${user ? ' that wants a password' : ''}: HTTP/1.1, gRPC, and both under TLS`, async () => {
		for (const value of [5, 7, 11]) await send(server, value);
		for (const [name, endpoint] of Object.entries(received)) await until(() => endpoint.total() >= 23n, `${name}: ${server.log()}`);
		for (const [name, endpoint] of Object.entries(received)) assert.equal(endpoint.total(), 23n, name);
		const connects = proxy.asked
			.filter(({ method }) => method === 'CONNECT')
			.map(({ url }) => url)
			.sort();
		assert.deepEqual(connects, ['grpc', 'https', 'grpc-tls'].map((name) => `collector.test:${received[name].port}`).sort(), 'a tunnel each, which is kept');
		const plain = proxy.asked.filter(({ method }) => method === 'POST');
		assert.equal(plain.length, 3);
		assert.equal(plain[0].url, `http://collector.test:${received.http.port}/v1development/profiles`);
		assert.ok(proxy.asked.every(({ status }) => status === 0));
		for (const name of Object.keys(received)) for (const headers of received[name].headers) assert.equal(headers['proxy-authorization'], undefined);
	});
	await test(`a question through a proxy${user ? ' that wants a password' : ''}`, async () => {
		const { code, out, err } = await run(['query', '--url', `http://wick.test:${server.port}`, '--format', 'folded', 'process_cpu'], { http_proxy: proxy.url });
		assert.equal(code, 0, err);
		assert.match(out, /main;work 23/);
	});
	await server.stop();
	for (const endpoint of Object.values(received)) await endpoint.close();
	proxy.close();
}

const proxy = await startProxy('me:s3cr@t');
const open = await startProxy(),
	server = await startServer(`${directory}/plain`);
await send(server, 3);
const ask = (url, environment) => run(['query', '--url', url, '--format', 'folded', 'process_cpu'], environment);
await test('loopback, and what NO_PROXY lists, is reached without a proxy', async () => {
	const everything = { http_proxy: proxy.url, all_proxy: proxy.url };
	const direct = await ask(server.url, everything);
	assert.equal(direct.code, 0, direct.err);
	assert.match(direct.out, /main;work 3/);
	const listed = await ask(`http://wick.test:${server.port}`, { ...everything, NO_PROXY: 'other,.test' });
	assert.equal(listed.code, 1);
	assert.match(listed.err, /cannot connect to http:\/\/wick\.test:\d+: /); // which is no name here
	assert.equal(proxy.asked.length, 0);
});
await test('HTTP_PROXY is not read: in a CGI program clients set it', async () => {
	const response = await ask(`http://wick.test:${server.port}`, { HTTP_PROXY: open.url });
	assert.equal(response.code, 1);
	assert.equal(open.asked.length, 0);
});
await test("what a proxy refuses is said, with the proxy's name and without its password", async () => {
	const cases = [
		[
			`http://wick.test:${server.port}`,
			proxy.url.replace('s3cr%40t', 'wr0ng'),
			1,
			/the proxy http:\/\/127\.0\.0\.1:\d+ \(all_proxy\) rejects the given user and password/,
		],
		[
			`http://wick.test:${server.port}`,
			proxy.url.replace(/\/\/.*@/, '//'),
			1,
			/the proxy http:\/\/127\.0\.0\.1:\d+ \(all_proxy\) requires a user and password/,
		],
		[
			`https://wick.test:${server.port}`,
			proxy.url.replace('s3cr%40t', 'wr0ng'),
			1,
			/rejects the given user and password for the connection for https:\/\/wick\.test/,
		],
		[`https://wick.example:${server.port}`, proxy.url, 1, /the proxy \S+ \(all_proxy\) does not connect to https:\/\/wick\.example:\d+: 403 Refused/],
		[`https://wick.test:${server.port}`, 'socks5://me:s3cr%40t@127.0.0.1:1', 1, /bad proxy in the environment's all_proxy: only http proxies are supported/],
		[
			`https://wick.test:${server.port}`,
			'http://me:s3cr%40t@127.0.0.1:1',
			1,
			/cannot connect to the proxy http:\/\/127\.0\.0\.1:1 \(all_proxy\), for https:\/\/wick\.test/,
		],
	];
	for (const [url, all_proxy, code, message] of cases) {
		const response = await ask(url, { all_proxy });
		assert.equal(response.code, code, response.err);
		assert.match(response.err, message);
		assert.doesNotMatch(response.err, /s3cr|wr0ng/);
	}
});
await test('a forwarding server whose proxy refuses goes on, says so, and has it waiting', async () => {
	const received = await endpoints();
	const forwarding = await startForwarding(targetsOf(received, 'collector.test'), { ALL_PROXY: proxy.url.replace('s3cr%40t', 'wr0ng') });
	await send(forwarding, 5);
	await until(() => (forwarding.log().match(/rejects the given user and password/g) ?? []).length >= 4, 'all say so');
	assert.doesNotMatch(forwarding.log(), /wr0ng/);
	const metrics = (await request(forwarding.port, 'GET', '/metrics')).body.toString();
	for (const name of Object.keys(received))
		assert.doesNotMatch(metrics, new RegExp(`wick_forward_lost_profiles_total\\{target="${name}",reason="refused"\\} [1-9]`));
	await forwarding.stop();
});
finish();
