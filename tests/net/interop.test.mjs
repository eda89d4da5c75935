// SPDX-License-Identifier: Apache-2.0
// Our server against clients that we did not write: node's http and http2, and @grpc/grpc-js.
//
//   NET_TEST=build/test/net/net_test node --test tests/net/
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import http from 'node:http';
import http2 from 'node:http2';
import { once } from 'node:events';
import { after, before, test } from 'node:test';
import zlib from 'node:zlib';

const program = process.env.NET_TEST ?? 'build/test/net/net_test';
let server, address;

before(async () => {
	server = spawn(program, ['--serve'], { stdio: ['pipe', 'pipe', 'inherit'] });
	const [line] = await once(server.stdout, 'data');
	address = line.toString().trim();
});

after(async () => {
	server.stdin.end();
	const [status] = await once(server, 'exit');
	assert.equal(status, 0);
});

function request(method, path, { headers = {}, body, agent } = {}) {
	return new Promise((resolve, reject) => {
		const req = http.request(`http://${address}${path}`, { method, headers, agent }, (res) => {
			const parts = [];
			res.on('data', (part) => parts.push(part));
			res.on('end', () => resolve({ status: res.statusCode, headers: res.headers, body: Buffer.concat(parts) }));
		});
		req.on('error', reject);
		if (Array.isArray(body)) {
			for (const part of body) req.write(part);
			req.end();
		} else {
			req.end(body);
		}
	});
}

test('node http: keep-alive, chunked bodies, gzip both ways, refusals', async () => {
	const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
	let res = await request('GET', '/show?a=1%202', { agent });
	assert.equal(res.body.toString(), 'GET /show a=1 2 a2=- body=0');
	res = await request('POST', '/echo', { agent, body: ['one', 'two', 'x'.repeat(200000)] });
	assert.equal(res.body.length, 200006);
	const big = Buffer.alloc(5_000_000, 'abc');
	res = await request('POST', '/echo', { agent, body: zlib.gzipSync(big), headers: { 'Content-Encoding': 'gzip', 'Accept-Encoding': 'gzip' } });
	assert.equal(res.headers['content-encoding'], 'gzip');
	assert.deepEqual(zlib.gunzipSync(res.body), big);
	res = await request('HEAD', '/big?n=1000', { agent });
	assert.equal(res.headers['content-length'], '1000');
	res = await request('GET', '/nothing', { agent });
	assert.equal(res.status, 404);
	assert.deepEqual(JSON.parse(res.body), { error: 'no such path: /nothing' });
	res = await request('PATCH', '/echo', { agent });
	assert.equal(res.headers.allow, 'POST, PUT');
	res = await request('POST', '/small', { agent, body: big });
	assert.equal(res.status, 413);
	agent.destroy();
});

test('node http: Expect: 100-continue', async () => {
	const req = http.request(`http://${address}/echo`, { method: 'POST', headers: { Expect: '100-continue', 'Content-Length': 5 } });
	req.flushHeaders();
	await once(req, 'continue');
	req.end('hello');
	const [res] = await once(req, 'response');
	assert.equal((await once(res, 'data'))[0].toString(), 'hello');
});

function stream(session, headers, body) {
	return new Promise((resolve, reject) => {
		const req = session.request(headers);
		const parts = [];
		let response, trailers;
		req.on('response', (h) => (response = h));
		req.on('trailers', (h) => (trailers = h));
		req.on('data', (part) => parts.push(part));
		req.on('end', () => resolve({ headers: response, trailers, body: Buffer.concat(parts) }));
		req.on('error', reject);
		req.end(body);
	});
}

test('node http2: many streams, large bodies both ways', async () => {
	const session = http2.connect(`http://${address}`);
	const all = await Promise.all(Array.from({ length: 90 }, (_, i) => stream(session, { ':path': `/show?a=${i}` })));
	all.forEach((res, i) => assert.equal(res.body.toString(), `GET /show a=${i} a2=- body=0`));
	const big = Buffer.alloc(20_000_000, 'x');
	const res = await stream(session, { ':path': '/echo', ':method': 'POST' }, big);
	assert.deepEqual(res.body, big);
	assert.equal((await stream(session, { ':path': '/nothing' })).headers[':status'], 404);
	const refused = await stream(session, { ':path': '/small', ':method': 'POST' }, big.subarray(0, 5_000_000));
	assert.equal(refused.headers[':status'], 413);
	session.close();
});

const grpc = await import('@grpc/grpc-js').catch(() => null);
const skip = grpc ? false : '@grpc/grpc-js is not installed';
const bytes = { serialize: (b) => b, deserialize: (b) => b };

function method(name, requestStream, responseStream) {
	return {
		path: `/test.Echo/${name}`,
		requestStream,
		responseStream,
		requestSerialize: bytes.serialize,
		requestDeserialize: bytes.deserialize,
		responseSerialize: bytes.serialize,
		responseDeserialize: bytes.deserialize,
	};
}

function echoClient(options = {}) {
	const Echo = grpc.makeGenericClientConstructor(
		{
			unary: method('Unary', false, false),
			fail: method('Fail', false, false),
			nothing: method('Nothing', false, false),
			slow: method('Slow', false, false),
			small: method('Small', false, false),
			sum: method('Sum', true, false),
			many: method('Many', false, true),
			bidi: method('Stream', true, true),
		},
		'Echo',
	);
	return new Echo(address, grpc.credentials.createInsecure(), { 'grpc.max_receive_message_length': -1, ...options });
}

function unary(client, name, message, options = {}) {
	return new Promise((resolve) => {
		client[name](message, new grpc.Metadata(), options, (error, reply) => resolve({ error, reply }));
	});
}

test('grpc-js: unary, errors, deadline', { skip }, async () => {
	const client = echoClient();
	assert.equal((await unary(client, 'unary', Buffer.from('hello'))).reply.toString(), 'hello');
	const failed = (await unary(client, 'fail', Buffer.from('x'))).error;
	assert.equal(failed.code, grpc.status.INVALID_ARGUMENT);
	assert.equal(failed.details, 'bad profile: "x" is 100% wrong ä');
	assert.equal((await unary(client, 'nothing', Buffer.from('x'))).error.code, grpc.status.UNIMPLEMENTED);
	assert.equal((await unary(client, 'small', Buffer.alloc(101))).error.code, grpc.status.RESOURCE_EXHAUSTED);
	assert.equal((await unary(client, 'slow', Buffer.from('x'), { deadline: Date.now() + 300 })).error.code, grpc.status.DEADLINE_EXCEEDED);
	const big = Buffer.alloc(10_000_000, 'abc');
	assert.deepEqual((await unary(client, 'unary', big)).reply, big);
	client.close();
});

test('grpc-js: gzip', { skip }, async () => {
	const client = echoClient({ 'grpc.default_compression_algorithm': 2 });
	const big = Buffer.alloc(1_000_000, 'abc');
	assert.deepEqual((await unary(client, 'unary', big)).reply, big);
	client.close();
});

test('grpc-js: client, server and bidirectional streams', { skip }, async () => {
	const client = echoClient();
	const sum = await new Promise((resolve, reject) => {
		const call = client.sum((error, reply) => (error ? reject(error) : resolve(reply.toString())));
		for (let i = 0; i < 1000; i++) call.write(Buffer.alloc(i));
		call.end();
	});
	assert.equal(sum, '1000 messages, 499500 bytes');
	let total = 0;
	for await (const message of client.many(Buffer.from('200 50000'))) total += message.length;
	assert.equal(total, 10_000_000);
	const call = client.bidi();
	for (const text of ['one', 'two', 'three']) {
		call.write(Buffer.from(text));
		assert.equal((await once(call, 'data'))[0].toString(), text);
	}
	call.end();
	call.resume();
	const [status] = await once(call, 'status');
	assert.equal(status.code, grpc.status.OK);
	client.close();
});
