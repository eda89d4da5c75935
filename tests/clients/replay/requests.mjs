// SPDX-License-Identifier: Apache-2.0
// Requests as record.mjs keeps them, read and sent again.
import { readFileSync, readdirSync } from 'node:fs';
import { createServer, request } from 'node:http';
import * as http2 from 'node:http2';
import { connect } from 'node:net';
import { join } from 'node:path';

const PREFACE = 'PRI * HTTP/2.0';
const WINDOW = 2 ** 31 - 1; // what was sent is there already

/**
 * The requests in a folder of record.mjs whose body came whole, in the order in which they came on each connection: {method, path, headers, body, http2}.
 * The bytes of each connection are given to a server of that protocol, which knows best what they mean.
 */
export async function readRequests(folder) {
	const requests = [];
	const take = (incoming, outgoing) => {
		const parts = [];
		incoming.on('data', (part) => parts.push(part));
		incoming.on('error', () => {}); // the client went away: no request
		incoming.on('end', () => {
			const { method, url, headers } = incoming;
			if (incoming.complete)
				requests.push({
					method,
					path: url,
					headers: Object.fromEntries(Object.entries(headers)),
					body: Buffer.concat(parts),
					http2: incoming.httpVersionMajor === 2,
				});
			outgoing.end();
		});
	};
	const options = { settings: { initialWindowSize: WINDOW } };
	const servers = [createServer(take), http2.createServer(options, take)];
	servers[1].on('session', (session) => session.setLocalWindowSize(WINDOW));
	for (const server of servers) await new Promise((done) => server.listen(0, '127.0.0.1', done));
	const files = readdirSync(folder).sort((a, b) => a - b);
	for (const file of files) {
		const bytes = readFileSync(join(folder, file));
		const server = servers[bytes.subarray(0, PREFACE.length).toString('latin1') === PREFACE ? 1 : 0];
		await new Promise((done) => {
			const socket = connect(server.address().port, '127.0.0.1').resume();
			socket.on('error', () => {});
			socket.on('close', done);
			socket.end(bytes);
		});
	}
	for (const server of servers) server.close();
	return requests;
}

const OF_CONNECTION = ['host', 'connection', 'content-length', 'transfer-encoding', 'expect', 'keep-alive', 'upgrade', 'http2-settings'];

/** Sends a request to another server. The answer: {status, grpc, text}. */
export async function send(url, { method, path, headers, body, http2: two }, more = {}) {
	const kept = Object.fromEntries(Object.entries(headers).filter(([name]) => !name.startsWith(':') && !OF_CONNECTION.includes(name)));
	return two ? await sendHttp2(url, method, path, { ...kept, ...more }, body) : await sendHttp1(url, method, path, { ...kept, ...more }, body);
}
function sendHttp1(url, method, path, headers, body) {
	return new Promise((done, failed) => {
		const outgoing = request(`${url}${path}`, { method, headers: { ...headers, 'content-length': body.length } }, (incoming) => {
			const parts = [];
			incoming.on('data', (part) => parts.push(part));
			incoming.on('end', () => done({ status: incoming.statusCode, grpc: incoming.headers['grpc-status'], text: Buffer.concat(parts).toString() }));
		});
		outgoing.on('error', failed);
		outgoing.end(body);
	});
}
function sendHttp2(url, method, path, headers, body) {
	return new Promise((done, failed) => {
		const session = http2.connect(url);
		session.on('error', failed);
		const stream = session.request({ ...headers, ':method': method, ':path': path });
		const answer = { text: '' };
		const take = (fields) => {
			answer.status ??= fields[':status'];
			answer.grpc = fields['grpc-status'] ?? answer.grpc;
			answer.message = fields['grpc-message'] ?? answer.message;
		};
		stream.on('response', take);
		stream.on('trailers', take);
		stream.on('data', (part) => (answer.text += part));
		stream.on('error', failed);
		stream.on('close', () => {
			session.close();
			done(answer);
		});
		stream.end(body);
	});
}
