// SPDX-License-Identifier: Apache-2.0
// Debug information comes in: over HTTP in pieces, from Parca's agents, from the command line; names of what came before appear.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { existsSync, readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import net from 'node:net';
import { startServer, request, temporaryDirectory, test, finish, wick, intField, bytesField, varint } from '../harness.mjs';

const require = createRequire(new URL('../package.json', import.meta.url));
const grpc = require('@grpc/grpc-js'),
	protoLoader = require('@grpc/proto-loader');
const directory = temporaryDirectory(),
	data = `${directory}/data`;
const config = `${directory}/wick.yaml`,
	token = '0123456789abcdef';
writeFileSync(config, 'symbols:\n  workers: 1\n  debuginfod: {urls: []}\n  uploads: {file_size: 40M}\n');
let server = await startServer(data, ['--config', config]);

// ---- programs: one source, any build-id
writeFileSync(
	`${directory}/hot.c`,
	`
static volatile unsigned long sink;
__attribute__((noinline)) void burn_cycles(unsigned long n) { for (unsigned long i = 0; i < n; i++) sink += i; }
int main(int argc, char **argv) { (void)argv; burn_cycles(1000ul * argc); return 0; }
`,
);
const newId = () => randomBytes(20).toString('hex');
function program(id) {
	const path = `${directory}/${id}`;
	execFileSync('gcc', ['-g', '-O1', `-Wl,--build-id=0x${id}`, '-o', path, `${directory}/hot.c`]);
	execFileSync('objcopy', ['--only-keep-debug', path, `${path}.debug`]);
	return { id, path, debug: readFileSync(`${path}.debug`), whole: readFileSync(path) };
}
// An ELF file stays one when something follows it.
const large = (elf, size) => Buffer.concat([elf, Buffer.alloc(size - elf.length, 7)]);
const stored = (id, kind = 'debuginfo') => {
	const places = ['gnu', 'hash', 'go'].map((type) => `${data}/debuginfo/files/@all/${type}/${id.slice(0, 2)}/${id.slice(2)}`).filter(existsSync);
	const paths = places.flatMap((place) => readdirSync(place).map((name) => `${place}/${name}`)).filter((path) => path.endsWith(`.${kind}`));
	assert.ok(paths.length < 2, paths.join(' '));
	return paths[0] ?? `${data}/nothing-of-${id}.${kind}`;
};

// ---- calls
const call = async (method, path, body, { headers = {}, port = server.port } = {}) => {
	const response = await request(port, method, path, {
		body: body === undefined ? undefined : Buffer.isBuffer(body) ? body : Buffer.from(JSON.stringify(body)),
		headers,
	});
	const text = response.body.toString();
	return { status: response.status, headers: response.headers, ...(text.startsWith('{') ? JSON.parse(text) : { text }) };
};
const base = '/api/v1/debuginfo/uploads';
const begin = (build_id, size, more = {}) => call('POST', base, { build_id, kind: 'debuginfo', size, ...more });
const put = (id, offset, bytes) => call('PUT', `${base}/${id}?offset=${offset}`, bytes);
const end = (id) => call('POST', `${base}/${id}/finish`);
const wanted = (...binaries) => call('POST', '/api/v1/debuginfo/wanted', { binaries });
const pieces = async (id, bytes, from = 0, to = bytes.length, step = 4 << 20) => {
	for (let at = from; at < to;) {
		const response = await put(id, at, bytes.subarray(at, Math.min(at + step, to)));
		assert.equal(response.status, 200, JSON.stringify(response));
		at = response.offset;
	}
};
const upload = async (build_id, bytes, more) => {
	const response = await begin(build_id, bytes.length, more);
	if (response.status !== 201) return response;
	await pieces(response.id, bytes);
	return end(response.id);
};
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const until = async (what, check) => {
	for (const end = Date.now() + 120000; Date.now() < end; await sleep(50)) if (await check()) return;
	assert.fail(`${what}: not within 120 s`);
};
const binary = async (id) => (await call('GET', `/api/v1/binaries?text=${id}`)).binaries[0];
const wantedNow = async (id) => (await wanted({ build_id: id, path: '/gone/hot' })).wanted.some((w) => w.build_id === id && w.kind === 'debuginfo');

// A pprof profile of addresses in the executable segment (the second page) of a binary that is on no disk here.
function addresses(id, fileOffsets) {
	const strings = ['', 'cpu', 'nanoseconds', '/gone/hot', id];
	return Buffer.from([
		...bytesField(1, [...intField(1, 1), ...intField(2, 2)]),
		...fileOffsets.flatMap((_, i) => bytesField(2, [...bytesField(1, varint(i + 1)), ...bytesField(2, varint(100))])),
		...bytesField(3, [...intField(1, 1), ...intField(2, 0x401000), ...intField(3, 0x402000), ...intField(4, 0x1000), ...intField(5, 3), ...intField(6, 4)]),
		...fileOffsets.flatMap((offset, i) => bytesField(4, [...intField(1, i + 1), ...intField(2, 1), ...intField(3, 0x400000 + offset)])),
		...strings.flatMap((text) => bytesField(6, text)),
		...intField(9, BigInt(Date.now()) * 1000000n),
	]);
}
const functionOffset = (path, name) => {
	const [address] = execFileSync('nm', [path])
		.toString()
		.split('\n')
		.find((l) => l.endsWith(` ${name}`))
		.split(' ');
	for (const line of execFileSync('readelf', ['-lW', path]).toString().split('\n')) {
		const [type, offset, virtual, , size] = line.trim().split(/\s+/);
		if (type === 'LOAD' && parseInt(address, 16) >= Number(virtual) && parseInt(address, 16) < Number(virtual) + Number(size))
			return parseInt(address, 16) - Number(virtual) + Number(offset);
	}
	throw new Error(`${name} is in no segment`);
};
const leaves = async (name) => {
	const response = await call('GET', `/api/v1/query?query=${name}&from=now-1h&to=now%2B1h&format=folded`);
	return response.text;
};

const hot = program(newId());
await test('what came without names gets them when debug information arrives', async () => {
	const body = addresses(hot.id, [functionOffset(hot.path, 'burn_cycles') + 4]);
	assert.equal((await call('POST', '/api/v1/ingest?name=late', body)).status, 200);
	assert.doesNotMatch(await leaves('late'), /burn_cycles/);
	await until('it is wanted', () => wantedNow(hot.id));
	assert.equal((await binary(hot.id)).state, 'missing');
	assert.equal((await binary(hot.id)).path, '/gone/hot');
	assert.equal((await binary(hot.id)).samples, 1);
	assert.equal((await upload(hot.id, hot.debug)).status, 200);
	await until('it has names', async () => /burn_cycles/.test(await leaves('late')));
	assert.ok(['complete', 'partial'].includes((await binary(hot.id)).state), JSON.stringify(await binary(hot.id)));
	assert.deepEqual(readFileSync(stored(hot.id)), hot.debug);
	assert.deepEqual((await wanted({ build_id: hot.id })).wanted, []);
});
await test('the list: states, text, limits, counts', async () => {
	const all = await call('GET', '/api/v1/binaries');
	assert.equal(all.total, 1);
	assert.equal(
		Object.values(all.counts).reduce((a, b) => a + b),
		1,
	);
	assert.equal((await call('GET', '/api/v1/binaries?state=missing,failed')).binaries.length, 0);
	assert.equal((await call('GET', '/api/v1/binaries?text=gone')).binaries.length, 1);
	assert.equal((await call('GET', '/api/v1/binaries?text=nowhere')).binaries.length, 0);
	assert.equal((await call('GET', '/api/v1/binaries?limit=0')).binaries.length, 0);
	assert.equal((await call('GET', '/api/v1/binaries?offset=5')).binaries.length, 0);
	assert.equal((await call('GET', '/api/v1/binaries?state=bored')).status, 400);
	assert.equal((await call('GET', '/api/v1/binaries?limit=-1')).status, 400);
	assert.equal(all.uploads.enabled, true);
	assert.equal(all.uploads.files, 1);
});
await test('retry looks again', async () => {
	assert.equal((await call('POST', `/api/v1/binaries/${hot.id}/retry`)).status, 200);
	assert.equal((await call('POST', `/api/v1/binaries/${newId()}/retry`)).status, 404);
	assert.equal((await call('POST', '/api/v1/binaries/..%2f..%2fetc/retry')).status, 404);
	assert.equal((await call('POST', '/api/v1/binaries/xyz/retry')).status, 400);
	assert.equal((await call('POST', `/api/v1/binaries/${hot.id}`)).status, 404);
});
await test('what is there is not taken again, unless somebody insists', async () => {
	const again = await upload(hot.id, hot.debug);
	assert.deepEqual([again.status, again.reason], [409, 'exists']);
	assert.equal((await upload(hot.id, hot.debug, { force: true })).status, 200);
});
await test('debug information replaces what is only names', async () => {
	const { id, path, debug } = program(newId());
	execFileSync('strip', ['--strip-debug', '-o', `${path}.names`, path]);
	assert.equal((await upload(id, readFileSync(`${path}.names`), { hash: 'names' })).status, 200);
	await until('there are names', async () => (await binary(id))?.state === 'partial');
	assert.equal((await upload(id, readFileSync(`${path}.names`), { hash: 'names' })).reason, 'exists');
	assert.equal((await upload(id, debug, { hash: 'debug' })).status, 200);
	await until('there are lines', async () => (await binary(id)).state === 'complete');
	assert.equal((await upload(id, readFileSync(`${path}.names`), { hash: 'names' })).reason, 'exists');
	assert.deepEqual(readFileSync(stored(id)), debug);
});
await test('a wrong offset is told the right one', async () => {
	const { id, debug } = program(newId());
	const { id: at, offset } = await begin(id, debug.length);
	assert.equal(offset, 0);
	assert.equal((await put(at, 0, debug.subarray(0, 1000))).offset, 1000);
	for (const wrong of [0, 999, 1001, 1e15]) {
		const response = await put(at, wrong, debug.subarray(0, 10));
		assert.deepEqual([response.status, response.offset], [409, 1000]);
	}
	for (const text of ['x', '-1', '']) assert.equal((await put(at, text, debug.subarray(0, 10))).status, 400);
	assert.equal((await put(at, 1000, Buffer.concat([debug, debug]))).status, 400);
	const early = await end(at);
	assert.deepEqual([early.status, early.offset], [409, 1000]);
	await pieces(at, debug, 1000);
	assert.equal((await end(at)).status, 200);
	assert.equal((await end(at)).status, 404);
});
await test('what is not the file that was announced is refused and gone', async () => {
	const a = program(newId()),
		b = program(newId());
	const swapped = await upload(a.id, b.debug);
	assert.equal(swapped.status, 400);
	assert.match(swapped.error, new RegExp(b.id));
	const garbage = await begin(a.id, 100000);
	assert.equal((await put(garbage.id, 0, randomBytes(100000))).status, 400);
	assert.equal((await put(garbage.id, 0, a.debug)).status, 404);
	const damaged = await upload(a.id, a.debug, { hash: createHash('md5').update('else').digest('hex') });
	assert.equal(damaged.status, 400);
	assert.match(damaged.error, /XXH3-128/);
	assert.equal(existsSync(stored(a.id)), false);
	assert.deepEqual(readdirSync(`${data}/debuginfo/incoming`), []);
	assert.equal((await upload(a.id, a.debug)).status, 200);
});
await test('announcements are checked before they become paths', async () => {
	for (const id of ['../../../../tmp/x', '..', '', 'ABCDEF12', 'abc', 'a/b/c/d0', 'aa'.repeat(65), '%2e%2e', 'abcd\u0000ef']) {
		const response = await begin(id, 100);
		assert.equal(response.status, 400, `${id}: ${JSON.stringify(response)}`);
	}
	for (const more of [
		{ kind: 'core' },
		{ kind: '../x' },
		{ size: 0 },
		{ size: -5 },
		{ size: '7' },
		{ size: 1.5 },
		{ hash: '../x' },
		{ hash: 'a'.repeat(65) },
		{ hash: 7 },
	])
		assert.equal((await begin(newId(), 100, more)).status, 400, JSON.stringify(more));
	for (const body of ['', '{', '[]', '7', '{"a":1,"a":2}', '['.repeat(5000)])
		assert.equal((await call('POST', base, Buffer.from(body))).status, 400, body.slice(0, 10));
	for (const path of ['..%2f..%2fx', 'x', 'a'.repeat(200), `${'0'.repeat(32)}/other`, `${'0'.repeat(32)}%2ffinish`]) {
		assert.equal((await call('PUT', `${base}/${path}?offset=0`, Buffer.from('x'))).status, 404, path);
		assert.equal((await call('DELETE', `${base}/${path}`)).status, 404, path);
		assert.equal((await call('POST', `${base}/${path}`)).status, 404, path);
	}
});
await test('too large: a file, a piece', async () => {
	const response = await begin(newId(), 41 << 20);
	assert.equal(response.status, 413);
	assert.match(response.error, /40\.0 MiB/);
	const { id } = await begin(newId(), 20 << 20);
	assert.equal((await put(id, 0, Buffer.alloc((4 << 20) + 1))).status, 413);
	assert.equal((await call('DELETE', `${base}/${id}`)).status, 200);
	assert.equal((await call('DELETE', `${base}/${id}`)).status, 404);
});
await test('two at once: the second is told so, and so are agents', async () => {
	const { id, debug } = program(newId());
	await until('it is wanted', () => wantedNow(id));
	const first = await begin(id, debug.length, { hash: 'same' });
	const second = await begin(id, debug.length, { hash: 'same' });
	assert.deepEqual([second.status, second.reason], [409, 'busy']);
	assert.ok(Number(second.headers['retry-after']) > 0);
	assert.equal((await begin(id, debug.length, { hash: 'other' })).reason, 'busy');
	const ask = await wanted({ build_id: id });
	assert.deepEqual([ask.wanted, ask.later.map((l) => l.build_id)], [[], [id]]);
	await pieces(first.id, debug);
	assert.equal((await end(first.id)).status, 200);
});
await test('an upload goes on after a restart of the server, orderly or not', async () => {
	const { id, debug } = program(newId());
	const bytes = large(debug, 21 << 20),
		more = { hash: 'unchanged' };
	const { id: at } = await begin(id, bytes.length, more);
	await pieces(at, bytes, 0, 9 << 20, 1 << 20);
	assert.equal(await server.stop(), 0);
	server = await startServer(data, ['--config', config]);
	const resumed = await begin(id, bytes.length, more);
	assert.deepEqual([resumed.status, resumed.id, resumed.offset], [201, at, 9 << 20]);
	await pieces(at, bytes, 9 << 20, 20 << 20, 1 << 20);
	server.child.removeAllListeners('exit');
	const gone = new Promise((resolve) => server.child.once('exit', resolve));
	server.child.kill('SIGKILL');
	await gone;
	server = await startServer(data, ['--config', config]);
	const killed = await begin(id, bytes.length, more);
	assert.equal(killed.id, at);
	assert.ok(killed.offset >= 12 << 20 && killed.offset <= 20 << 20, String(killed.offset));
	await pieces(at, bytes, killed.offset);
	assert.equal((await end(at)).status, 200);
	assert.deepEqual(readFileSync(stored(id)), bytes);
	// Another file of that build-id does not go on where this one stopped.
	const other = await begin(newId(), 1 << 20, { hash: 'first' });
	assert.equal(other.offset, 0);
});
await test('wanted: what helps, once it is known that it does', async () => {
	const unknown = newId();
	await until('it is wanted', () => wantedNow(unknown));
	const ask = await wanted(
		{ build_id: '../x' },
		{ build_id: 7 },
		7,
		{ build_id: hot.id, kinds: ['debuginfo', 'nonsense', 7] },
		{ build_id: unknown, path: '/gone/x', kinds: ['debuginfo', 'executable', 'sources'] },
	);
	assert.equal(ask.status, 200);
	assert.deepEqual(ask.wanted, [{ build_id: unknown, kind: 'debuginfo' }]);
	assert.equal(ask.enabled, true);
	assert.ok(ask.retry_after_s > 0);
	assert.equal((await call('POST', '/api/v1/debuginfo/wanted', { binaries: Array.from({ length: 1001 }, () => ({ build_id: unknown })) })).status, 400);
	assert.equal((await call('POST', '/api/v1/debuginfo/wanted', { binaries: 7 })).status, 400);
	const many = await call('POST', '/api/v1/debuginfo/wanted', { binaries: Array.from({ length: 1000 }, () => ({ build_id: newId(), path: '/x' })) });
	assert.equal(many.status, 200);
	assert.equal(many.wanted.length + many.later.length, 1000);
});

// ---- Parca
writeFileSync(
	`${directory}/debuginfo.proto`,
	`
syntax = "proto3";
package parca.debuginfo.v1alpha1;
message Should { string build_id = 1; string hash = 2; bool force = 3; uint32 type = 4; uint32 build_id_type = 5; }
message ShouldAnswer { bool should_initiate_upload = 1; string reason = 2; }
message Initiate { string build_id = 1; int64 size = 2; string hash = 3; bool force = 4; uint32 type = 5; uint32 build_id_type = 6; }
message Instructions { string build_id = 1; string upload_id = 2; uint32 upload_strategy = 3; string signed_url = 4; uint32 type = 5; }
message InitiateAnswer { Instructions upload_instructions = 1; }
message Info { string build_id = 1; string upload_id = 2; uint32 type = 3; }
message Piece { oneof data { Info info = 1; bytes chunk_data = 2; } }
message PieceAnswer { string build_id = 1; uint64 size = 2; }
message Finished { string build_id = 1; string upload_id = 2; uint32 type = 3; }
message FinishedAnswer {}
service DebuginfoService {
  rpc ShouldInitiateUpload(Should) returns (ShouldAnswer);
  rpc InitiateUpload(Initiate) returns (InitiateAnswer);
  rpc Upload(stream Piece) returns (PieceAnswer);
  rpc MarkUploadFinished(Finished) returns (FinishedAnswer);
}`,
);
const { DebuginfoService } = grpc.loadPackageDefinition(protoLoader.loadSync(`${directory}/debuginfo.proto`, { keepCase: true, longs: Number, defaults: true }))
	.parca.debuginfo.v1alpha1;
const GNU = 1,
	HASH = 2,
	GO = 3;
const parcaOf = (port) => {
	const client = new DebuginfoService(`127.0.0.1:${port}`, grpc.credentials.createInsecure(), { 'grpc.max_send_message_length': 64 << 20 });
	const unary =
		(name) =>
		(message, metadata = new grpc.Metadata()) =>
			new Promise((resolve) =>
				client[name](message, metadata, (error, response) => resolve(error ? { code: error.code, details: error.details } : { code: 0, ...response })),
			);
	const send = (messages) =>
		new Promise((resolve) => {
			const stream = client.Upload((error, response) => resolve(error ? { code: error.code, details: error.details } : { code: 0, ...response }));
			stream.on('error', () => {});
			for (const message of messages) stream.write(message);
			stream.end();
		});
	return { client, should: unary('ShouldInitiateUpload'), initiate: unary('InitiateUpload'), finished: unary('MarkUploadFinished'), send };
};
const parca = parcaOf(server.port);
const chunks = (info, bytes, step = 1 << 20) => [
	{ info },
	...Array.from({ length: Math.ceil(bytes.length / step) }, (_, i) => ({ chunk_data: bytes.subarray(i * step, (i + 1) * step) })),
];
const shouldNow = async (build_id, build_id_type = GNU) => (await parca.should({ build_id, build_id_type })).should_initiate_upload;

await test('Parca: an agent asks, sends, and is done', async () => {
	const { id, debug } = program(newId());
	const bytes = large(debug, 5 << 20);
	await until('an upload is asked for', () => shouldNow(id));
	assert.match((await parca.should({ build_id: id, build_id_type: GNU })).reason, /^First time we see this Build ID/);
	// The hash is that of the program: 32 digits, and not the XXH3-128 of what is sent.
	const {
		code,
		upload_instructions: to,
		details,
	} = await parca.initiate({ build_id: id, size: bytes.length, hash: '0123456789abcdef0123456789abcdef', build_id_type: GNU });
	assert.equal(code, 0, details);
	assert.deepEqual([to.build_id, to.upload_strategy], [id, 1]);
	assert.match((await parca.should({ build_id: id })).reason, /still in-progress/);
	assert.equal((await parca.initiate({ build_id: id, size: bytes.length, hash: 'x' })).code, grpc.status.FAILED_PRECONDITION);
	assert.deepEqual(await parca.send(chunks({ build_id: id, upload_id: to.upload_id }, bytes)), { code: 0, build_id: id, size: bytes.length });
	assert.equal((await parca.finished({ build_id: id, upload_id: to.upload_id })).code, 0);
	assert.deepEqual(readFileSync(stored(id)), bytes);
	const after = await parca.should({ build_id: id });
	assert.equal(after.should_initiate_upload, false);
	assert.match(after.reason, /already exists/);
	assert.equal((await parca.should({ build_id: id, force: true })).should_initiate_upload, true);
	await until('it is made use of', async () => ['complete', 'partial'].includes((await binary(id)).state));
});
await test('Parca: an upload that broke is sent again from its beginning', async () => {
	const { id, debug } = program(newId());
	const bytes = large(debug, 3 << 20);
	await until('an upload is asked for', () => shouldNow(id));
	const first = await parca.initiate({ build_id: id, size: bytes.length, hash: 'h' });
	const upload_id = first.upload_instructions.upload_id;
	assert.equal((await parca.send(chunks({ build_id: id, upload_id }, bytes).slice(0, 3))).code, 0);
	assert.equal((await parca.finished({ build_id: id, upload_id })).code, grpc.status.FAILED_PRECONDITION);
	assert.equal((await parca.send(chunks({ build_id: id, upload_id }, bytes, 777777))).code, 0);
	assert.equal((await parca.finished({ build_id: id, upload_id })).code, 0);
	assert.deepEqual(readFileSync(stored(id)), bytes);
});
await test('Parca: what cannot be is refused', async () => {
	const { id, debug } = program(newId()),
		other = program(newId());
	await until('an upload is asked for', () => shouldNow(id));
	const invalid = grpc.status.INVALID_ARGUMENT;
	assert.equal((await parca.should({ build_id: 'ab' })).code, invalid);
	assert.equal((await parca.should({ build_id: '../../x', build_id_type: GNU })).code, invalid);
	assert.equal((await parca.initiate({ build_id: id, size: 10 })).code, invalid);
	assert.equal((await parca.initiate({ build_id: id, hash: 'x' })).code, invalid);
	assert.equal((await parca.initiate({ build_id: id, hash: 'x', size: -1 })).code, invalid);
	assert.equal((await parca.initiate({ build_id: id, hash: 'x', size: 1 << 30 })).code, invalid);
	assert.equal((await parca.send([])).code, grpc.status.UNKNOWN);
	assert.equal((await parca.send([{ chunk_data: debug }])).code, invalid);
	assert.equal((await parca.send(chunks({ build_id: id, upload_id: 'nobody' }, debug))).code, invalid);
	assert.equal((await parca.finished({ build_id: id, upload_id: 'nobody' })).code, grpc.status.NOT_FOUND);
	const { upload_instructions: to } = await parca.initiate({ build_id: id, size: other.debug.length, hash: 'x' });
	assert.equal((await parca.send(chunks({ build_id: other.id, upload_id: to.upload_id }, debug))).code, invalid);
	assert.equal((await parca.finished({ build_id: other.id, upload_id: to.upload_id })).code, invalid);
	assert.equal((await parca.send(chunks({ build_id: id, upload_id: to.upload_id }, other.debug))).code, 0);
	assert.equal((await parca.finished({ build_id: id, upload_id: to.upload_id })).code, invalid);
	assert.equal(existsSync(stored(id)), false);
});
await test('Parca: what cannot be used is replaced, but not by the same', async () => {
	const { id, debug, whole } = program(newId());
	await until('an upload is asked for', () => shouldNow(id));
	const broken = Buffer.from(whole);
	broken.writeBigUInt64LE(0x7fffffffn, 40); // section headers far behind the end
	const send = async (bytes, hash) => {
		const { code, upload_instructions: to } = await parca.initiate({ build_id: id, size: bytes.length, hash });
		if (code) return code;
		assert.equal((await parca.send(chunks({ build_id: id, upload_id: to.upload_id }, bytes))).code, 0);
		return (await parca.finished({ build_id: id, upload_id: to.upload_id })).code;
	};
	assert.equal(await send(broken, 'broken'), 0);
	await until('it has failed', async () => (await binary(id)).state === 'failed');
	assert.match((await parca.should({ build_id: id })).reason, /marked as invalid/);
	assert.equal(await send(broken, 'broken'), grpc.status.ALREADY_EXISTS);
	assert.equal(await send(debug, 'good'), 0);
	await until('it is good', async () => (await binary(id)).state === 'complete');
});
await test('Parca: other kinds of ids and of files', async () => {
	const go = await parca.should({ build_id: 'abc/DEF_g-h/ij', build_id_type: GO });
	assert.deepEqual([go.code, go.should_initiate_upload], [0, false]);
	// A program without a build-id goes by a hash of it.
	const plain = `${directory}/plain`,
		hash = randomBytes(16).toString('hex');
	execFileSync('gcc', ['-g', '-Wl,--build-id=none', '-o', plain, `${directory}/hot.c`]);
	const bytes = readFileSync(plain);
	await until('an upload is asked for', () => shouldNow(hash, HASH));
	const { upload_instructions: to } = await parca.initiate({ build_id: hash, size: bytes.length, hash, build_id_type: HASH });
	assert.equal((await parca.send(chunks({ build_id: hash, upload_id: to.upload_id }, bytes))).code, 0);
	assert.deepEqual(await parca.finished({ build_id: hash, upload_id: to.upload_id }), { code: 0 });
	assert.deepEqual(readFileSync(stored(hash)), bytes);
	// The program itself.
	const { id, whole } = program(newId());
	assert.equal((await parca.should({ build_id: id, type: 1 })).should_initiate_upload, true);
	const executable = (await parca.initiate({ build_id: id, size: whole.length, hash: 'x', type: 1 })).upload_instructions;
	assert.equal(executable.type, 1);
	assert.equal((await parca.send(chunks({ build_id: id, upload_id: executable.upload_id, type: 1 }, whole))).code, 0);
	assert.equal((await parca.finished({ build_id: id, upload_id: executable.upload_id, type: 1 })).code, 0);
	assert.deepEqual(readFileSync(stored(id, 'executable')), whole);
	assert.equal((await parca.should({ build_id: id, type: 3 })).should_initiate_upload, false);
});

// ---- the command line
const run = (...args) =>
	new Promise((resolve) => {
		const child = spawn(wick, ['debuginfo', ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
		let out = '';
		child.stdout.on('data', (chunk) => (out += chunk));
		child.stderr.on('data', (chunk) => (out += chunk));
		child.once('exit', (code, signal) => resolve({ code: code ?? signal, out }));
	});
// Passes bytes on, and closes its first connections after so many.
function cutting(port, limits) {
	const proxy = net.createServer((client) => {
		const upstream = net.connect(port, '127.0.0.1');
		let left = limits.shift() ?? Infinity;
		client.on('data', (chunk) => ((left -= chunk.length) < 0 ? (client.destroy(), upstream.destroy()) : upstream.write(chunk)));
		upstream.on('data', (chunk) => client.write(chunk));
		for (const [one, two] of [
			[client, upstream],
			[upstream, client],
		])
			one.on('error', () => two.destroy()).on('close', () => two.destroy());
	});
	return new Promise((resolve) => proxy.listen(0, '127.0.0.1', () => resolve(proxy)));
}
await test('wick debuginfo upload: extracts, sends, says what became of it', async () => {
	const a = program(newId()),
		b = program(newId());
	const sent = await run('upload', a.path, `${b.path}.debug`, '--url', server.url);
	assert.equal(sent.code, 0, sent.out);
	assert.match(sent.out, new RegExp(`build-id ${a.id}, .* sent`));
	assert.ok(statSync(stored(a.id)).size > 0 && existsSync(stored(b.id)));
	// No byte of code: the section has no contents in what was stored.
	assert.match(execFileSync('readelf', ['-SW', stored(a.id)], { stdio: ['ignore', 'pipe', 'ignore'] }).toString(), /\.text +NOBITS/);
	const again = await run('upload', a.path, '--url', server.url);
	assert.equal(again.code, 0);
	assert.match(again.out, /already exists/);
	const mixed = await run('upload', `${directory}/hot.c`, `${directory}/none`, a.path, '--url', server.url);
	assert.equal(mixed.code, 1);
	assert.match(mixed.out, /hot\.c: .*not an ELF file/);
	assert.match(mixed.out, /none: /);
	assert.match(mixed.out, /already exists/);
	const whole = await run('upload', '--kind', 'executable', a.path, '--url', server.url);
	assert.equal(whole.code, 0, whole.out);
	assert.deepEqual(readFileSync(stored(a.id, 'executable')), a.whole);
	writeFileSync(`${directory}/list`, `wick kallsyms 1 ${a.id}\n0 _stext\n`);
	assert.equal((await run('upload', '--kind', 'kallsyms', `${directory}/list`, '--url', server.url)).code, 1);
	assert.equal((await run('upload', '--kind', 'kallsyms', '--build-id', a.id, `${directory}/list`, '--url', server.url)).code, 0);
	execFileSync('tar', ['-C', directory, '-czf', `${directory}/src.tar.gz`, 'hot.c']);
	assert.equal((await run('upload', '--kind', 'sources', '--build-id', a.id, `${directory}/src.tar.gz`, '--url', server.url)).code, 0);
	assert.deepEqual(readFileSync(stored(a.id, 'sources')), readFileSync(`${directory}/src.tar.gz`));
});
await test('wick debuginfo upload goes on when the line breaks', async () => {
	const { id, whole, path } = program(newId());
	writeFileSync(path, large(whole, 15 << 20));
	const proxy = await cutting(server.port, [5 << 20, 1 << 20, 6 << 20]);
	const sent = await run('upload', '--whole', path, '--url', `http://127.0.0.1:${proxy.address().port}`);
	proxy.close();
	assert.equal(sent.code, 0, sent.out);
	assert.match(sent.out, /retrying/);
	assert.deepEqual(readFileSync(stored(id)), readFileSync(path));
});
await test('wick debuginfo list, and mistakes', async () => {
	const text = await run('list', '--url', server.url, '--text', hot.id);
	assert.equal(text.code, 0, text.out);
	assert.match(text.out, new RegExp(`^(complete|partial) .* ${hot.id} `, 'm'));
	const json = await run('list', '--url', server.url, '--format', 'json', '--text', hot.id);
	assert.equal(JSON.parse(json.out).binaries[0].build_id, hot.id);
	assert.equal((await run('list', '--state', 'bored', '--url', server.url)).code, 1);
	for (const args of [
		[],
		['upload'],
		['frobnicate'],
		['list', 'x'],
		['upload', '--kind', 'core', 'x'],
		['upload', '--build-id', 'XYZ', 'x'],
		['list', '--format', 'xml'],
	])
		assert.equal((await run(...args)).code, 2, args.join(' '));
	const nobody = await run('upload', hot.path, '--url', 'http://127.0.0.1:1');
	assert.equal(nobody.code, 1);
	assert.match(nobody.out, /is the server running there/);
});
await test('control characters of paths do not reach the terminal', async () => {
	const id = newId();
	await wanted({ build_id: id, path: '/tmp/\u001b]0;owned\u0007x' });
	const { out } = await run('list', '--url', server.url, '--text', id);
	assert.match(out, /owned/);
	assert.doesNotMatch(out, /[\u0000-\u0009\u000b-\u001f]/);
});
await test('counted in /metrics', async () => {
	const text = (await call('GET', '/metrics')).text;
	const value = (name) =>
		Number(
			text
				.split('\n')
				.find((l) => l.startsWith(`${name} `))
				.split(' ')[1],
		);
	assert.ok(value('wick_debuginfo_uploads_finished_total') > 5);
	assert.ok(value('wick_debuginfo_uploads_refused_total') > 0);
	assert.ok(value('wick_debuginfo_uploads_failed_total') > 0);
	assert.ok(value('wick_debuginfo_uploads_received_bytes_total') > 1 << 20);
	assert.ok(value('wick_symbol_builds_total') > 0);
	assert.equal(value('wick_debuginfo_upload_files'), (await call('GET', '/api/v1/binaries')).uploads.files);
});
parca.client.close();
assert.equal(await server.stop(), 0);

await test('switched off: nothing is wanted, nothing is taken', async () => {
	writeFileSync(config, "symbols: {uploads: {enabled: false}, debuginfod: {urls: ''}}\n");
	server = await startServer(`${directory}/off`, ['--config', config]);
	const off = parcaOf(server.port);
	const ask = await wanted({ build_id: hot.id });
	assert.deepEqual([ask.enabled, ask.wanted, ask.later], [false, [], []]);
	const refused = await begin(hot.id, 100);
	assert.deepEqual([refused.status, refused.reason], [403, 'disabled']);
	const response = await off.should({ build_id: hot.id });
	assert.deepEqual([response.code, response.should_initiate_upload], [0, false]);
	assert.equal((await off.initiate({ build_id: hot.id, size: 5, hash: 'x' })).code, grpc.status.FAILED_PRECONDITION);
	assert.equal((await run('upload', hot.path, '--url', server.url)).code, 1);
	off.client.close();
	assert.equal(await server.stop(), 0);
});
await test('a token is needed where there is one', async () => {
	writeFileSync(`${directory}/token`, token, { mode: 0o600 });
	server = await startServer(`${directory}/token-data`, ['--token-file', `${directory}/token`, '--debuginfod', 'off']);
	const locked = parcaOf(server.port);
	assert.equal((await begin(hot.id, hot.debug.length)).status, 401);
	assert.equal((await wanted({ build_id: hot.id })).status, 401);
	assert.equal((await call('GET', '/api/v1/binaries')).status, 401);
	assert.equal((await locked.should({ build_id: hot.id })).code, grpc.status.UNAUTHENTICATED);
	const metadata = new grpc.Metadata();
	metadata.set('authorization', `Bearer ${token}`);
	assert.equal((await locked.should({ build_id: hot.id }, metadata)).code, 0);
	assert.equal((await run('upload', hot.path, '--url', server.url)).code, 1);
	const sent = await run('upload', hot.path, '--url', server.url, '--token-file', `${directory}/token`);
	assert.equal(sent.code, 0, sent.out);
	locked.client.close();
	assert.equal(await server.stop(), 0);
});
finish();
