// SPDX-License-Identifier: Apache-2.0
// Stands between agents and a server: HTTP/1.1 requests are written down, bodies and all, and passed on; HTTP/2 is passed on as it is.
//   node upload_proxy.mjs SERVER_PORT DIRECTORY --cut BUILDID --only BUILDID,...
// DIRECTORY/port: where it listens. DIRECTORY/requests: a line of JSON a request. DIRECTORY/sent: every byte of every request to /api/v1/debuginfo but the questions, headers included.
// --only: nothing else is wanted, whatever the server says: other programs of this machine would hold up those of the test.
// --cut: of the upload of that build-id, the connection breaks in the middle of the third piece, and after the fifth has arrived but before its answer.
import { appendFileSync, renameSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import { join } from 'node:path';

const [serverPort, directory, , cutBuildId, , only] = process.argv.slice(2);
const tested = new Set(only.split(','));
const uploads = new Map(),
	sizes = new Map(); // by id
let pieces = 0,
	connections = 0;
writeFileSync(join(directory, 'sent'), '');
writeFileSync(join(directory, 'requests'), '');

function note(entry) {
	appendFileSync(join(directory, 'requests'), JSON.stringify({ time: Date.now(), ...entry }) + '\n');
}
function isUpload(url) {
	return url.startsWith('/api/v1/debuginfo/') && !url.startsWith('/api/v1/debuginfo/wanted');
}

const proxy = http.createServer((request, response) => {
	const chunks = [],
		id = request.url.match(/uploads\/([^/?]+)/)?.[1],
		buildId = uploads.get(id);
	const piece = request.method === 'PUT' && cutBuildId && buildId === cutBuildId ? ++pieces : 0;
	let bytes = 0;
	if (isUpload(request.url)) appendFileSync(join(directory, 'sent'), request.method + ' ' + request.url + '\r\n' + request.rawHeaders.join('\r\n'));
	request.on('data', (chunk) => {
		chunks.push(chunk);
		bytes += chunk.length;
		if (isUpload(request.url)) appendFileSync(join(directory, 'sent'), chunk);
		if (piece === 3 && !request.socket.destroyed) {
			note({ method: request.method, url: request.url, agent: request.socket.number, build_id: buildId, bytes, status: 'cut in the middle' });
			request.socket.destroy();
		}
	});
	request.on('error', () => {});
	request.on('end', () => {
		const body = Buffer.concat(chunks);
		const call = http.request(
			{
				host: '127.0.0.1',
				port: serverPort,
				method: request.method,
				path: request.url,
				headers: { ...request.headers, 'accept-encoding': 'identity', 'content-length': body.length },
			},
			(answer) => {
				const parts = [];
				answer.on('data', (part) => parts.push(part));
				answer.on('end', () => {
					let text = Buffer.concat(parts),
						json = {};
					try {
						json = JSON.parse(text.toString());
					} catch {
						/* noted as it is */
					}
					for (const list of ['wanted', 'later']) json[list] = json[list]?.filter((entry) => tested.has(entry.build_id));
					if (json.wanted) text = Buffer.from(JSON.stringify(json));
					if (request.method === 'POST' && request.url.endsWith('/uploads') && json.id) {
						uploads.set(json.id, JSON.parse(body.toString()).build_id);
						sizes.set(json.id, JSON.parse(body.toString()).size);
					}
					note({
						method: request.method,
						url: request.url,
						agent: request.socket.number,
						build_id: uploads.get(id ?? json.id),
						size: sizes.get(id ?? json.id),
						bytes,
						status: piece === 5 ? 'cut before the answer' : answer.statusCode,
						answer: text.toString().slice(0, 400),
					});
					if (piece === 5) {
						request.socket.destroy();
						return;
					}
					response.writeHead(answer.statusCode, { 'content-type': answer.headers['content-type'] ?? '', 'content-length': text.length });
					response.end(text);
				});
			},
		);
		call.on('error', () => response.destroy());
		call.end(body);
	});
});

// HTTP/2 begins with PRI.
const listener = net.createServer((socket) => {
	socket.on('error', () => {});
	socket.number = ++connections;
	socket.once('data', (first) => {
		if (first.subarray(0, 3).toString() !== 'PRI') {
			socket.unshift(first);
			proxy.emit('connection', socket);
			return;
		}
		note({ method: 'HTTP/2', url: '' });
		const upstream = net.connect(serverPort, '127.0.0.1');
		upstream.on('error', () => socket.destroy());
		socket.on('close', () => upstream.destroy());
		upstream.on('close', () => socket.destroy());
		upstream.write(first);
		socket.pipe(upstream);
		upstream.pipe(socket);
	});
});
listener.listen(0, '127.0.0.1', () => {
	writeFileSync(join(directory, 'port.new'), `${listener.address().port}\n`);
	renameSync(join(directory, 'port.new'), join(directory, 'port'));
});
