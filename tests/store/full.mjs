// SPDX-License-Identifier: Apache-2.0
// full.mjs DISK: the server on a small file system of its own, DISK, that is filled and emptied around it. Uploads have each a stack of their own; what was acknowledged must be there once.
import assert from 'node:assert/strict';
import { closeSync, mkdirSync, openSync, rmSync, writeFileSync, writeSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { bytesField, finish, fixed64Field, intField, pprofProfile, request, startServer, test, varint } from '../harness.mjs';
import { oneStackDictionary } from '../lib/otlp.mjs';

const grpc = createRequire(new URL('../package.json', import.meta.url))('@grpc/grpc-js');
const [disk] = process.argv.slice(2);
const data = join(disk, 'data'),
	config = join(dirname(disk), 'wick.yaml'),
	filler = join(disk, 'filler');
writeFileSync(config, 'head: {size: 256KiB}\ncut: {age: 1s}\n');
mkdirSync(data);
const acknowledged = new Set(),
	sent = new Set();
let server,
	counter = 0,
	slowest = 0;

const start = async () => {
	server = await startServer(data, ['--config', config, '--keep', 'forever']);
};
async function kill() {
	server.child.removeAllListeners('exit');
	const gone = new Promise((resolve) => server.child.once('exit', resolve));
	server.child.kill('SIGKILL');
	await gone;
}
async function upload() {
	const name = `stack${counter++}`;
	sent.add(name);
	const padding = [...Array(20)].map((_, i) => `${name}_padding_${i}_${Math.random().toString(36).slice(2)}`);
	const body = pprofProfile([[[name], 1], ...padding.map((text) => [[text], 1])], {
		type: 'samples',
		unit: 'count',
		timeNs: BigInt(Date.now()) * 1000000n + BigInt(counter),
	});
	const begun = Date.now();
	const response = await request(server.port, 'POST', '/api/v1/ingest?name=full', { body });
	slowest = Math.max(slowest, Date.now() - begun);
	if (response.status === 200) acknowledged.add(name);
	return { status: response.status, text: response.body.toString() };
}
function uploadByGrpc() {
	const strings = ['', 'samples', 'count', `grpc${counter++}`];
	const dictionary = oneStackDictionary(strings);
	const profile = [
		...bytesField(1, [...intField(1, 1), ...intField(2, 2)]),
		...bytesField(2, [...intField(1, 1), ...bytesField(4, varint(1))]),
		...fixed64Field(3, BigInt(Date.now()) * 1000000n + BigInt(counter)),
	];
	const body = Buffer.from([...bytesField(1, bytesField(2, bytesField(2, profile))), ...bytesField(2, dictionary)]);
	const client = new grpc.Client(`127.0.0.1:${server.port}`, grpc.credentials.createInsecure());
	const plain = (bytes) => bytes;
	return new Promise((resolve) =>
		client.makeUnaryRequest(
			'/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export',
			plain,
			plain,
			body,
			new grpc.Metadata(),
			{},
			(error) => {
				client.close();
				resolve(error?.code ?? 0);
			},
		),
	);
}
async function compare() {
	const response = await request(server.port, 'GET', '/api/v1/query?query=full:samples&from=now-1h&to=now%2B10m&format=folded');
	assert.equal(response.status, 200, response.body.toString());
	const found = new Map();
	for (const line of response.body.toString().split('\n')) {
		const [, name, count] = line.match(/^(\S+) (\d+)$/) ?? [];
		if (name && !name.includes('_padding_')) found.set(name, Number(count));
	}
	const missing = [...acknowledged].filter((name) => !found.has(name)),
		odd = [...found].filter(([name, count]) => count !== 1 || !sent.has(name));
	assert.deepEqual({ missing: missing.length, odd: odd.slice(0, 3) }, { missing: 0, odd: [] });
	// What was refused is not there.
	assert.equal(found.size, acknowledged.size);
}
// Takes what room there is, to the last block.
function fill() {
	const fd = openSync(filler, 'a');
	for (let size = 1 << 20; size >= 1; size = size >> 1)
		for (;;) {
			try {
				writeSync(fd, Buffer.alloc(size));
			} catch {
				break;
			}
		}
	closeSync(fd);
}
const empty = () => rmSync(filler, { force: true });

await start();
await test('with room, uploads are taken', async () => {
	for (let i = 0; i < 200; i++) assert.equal((await upload()).status, 200);
	assert.equal(await uploadByGrpc(), 0);
	await compare();
});
for (const round of [1, 2, 3]) {
	await test(`round ${round}: when it is full, uploads get 507 that names the cause`, async () => {
		fill();
		let refused;
		for (let i = 0; i < 500 && !refused; i++) {
			const response = await upload();
			if (response.status !== 200) refused = response;
		}
		assert.equal(refused?.status, 507, refused?.text);
		assert.match(refused.text, /No space left/);
	});
	await test(`round ${round}: gRPC gets RESOURCE_EXHAUSTED`, async () => {
		let code = 0;
		for (let i = 0; i < 20 && code === 0; i++) {
			fill();
			code = await uploadByGrpc();
		}
		assert.equal(code, grpc.status.RESOURCE_EXHAUSTED);
	});
	await test(`round ${round}: queries go on, also while cuts fail`, async () => {
		for (let i = 0; i < 30; i++) {
			fill();
			const { status } = await upload();
			assert.ok(status === 200 || status === 507, String(status));
			await compare();
			await sleep(100);
		}
	});
	if (round === 3)
		await test(`round ${round}: a server that is killed and started on the full disk answers`, async () => {
			await kill();
			fill();
			await start();
			fill();
			await compare();
			assert.equal((await upload()).status, 507);
			await compare();
		});
	await test(`round ${round}: with room again it recovers by itself`, async () => {
		empty();
		// What could not be written while it was full is written within seconds; until then memory may be full as well.
		let refused = 0;
		for (let taken = 0; taken < 100;) {
			if ((await upload()).status === 200) {
				taken++;
				continue;
			}
			await sleep(100);
			assert.ok(++refused < 1200, `only ${taken} uploads are taken after there was room`);
		}
		assert.equal(await uploadByGrpc(), 0);
		await compare();
		await sleep(3000); // cuts work again
		await compare();
	});
	await test(`round ${round}: nothing is lost by a restart`, async () => {
		if (round === 2) await kill();
		else await server.stop();
		await start();
		await compare();
	});
}
await server.stop();
console.log(`${acknowledged.size} of ${sent.size} uploads acknowledged, slowest ${slowest} ms`);
finish();
