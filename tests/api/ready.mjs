// SPDX-License-Identifier: Apache-2.0
// /readyz says when nothing that is sent can be stored, and why; /healthz is ok all the while.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { finish, pprofProfile, request, startServer, temporaryDirectory, test } from '../harness.mjs';

process.setMaxListeners(0); // a server each
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
let serial = 0n;
const upload = (server) =>
	request(server.port, 'POST', '/api/v1/ingest?name=process_cpu', {
		body: pprofProfile([[['leaf', 'main'], 1, {}]], { timeNs: BigInt(Date.now()) * 1000000n + serial++ }),
	});
async function ready(server, path = '/readyz') {
	const response = await request(server.port, 'GET', path);
	return `${response.status} ${response.body.toString().trim()}`;
}
// The last result holds for a second.
async function until(server, expected) {
	let last;
	for (let i = 0; i < 600; i++) {
		last = await ready(server);
		if (expected.test(last)) break;
		await sleep(100);
	}
	assert.match(last, expected);
	assert.equal(await ready(server, '/healthz'), '200 ok');
	assert.match(await ready(server, '/ready'), expected.test('200 ok') ? /^200 ready$/ : expected);
}
function mounted(...options) {
	const directory = `${temporaryDirectory()}/disk`;
	mkdirSync(directory);
	execFileSync('mount', ['-t', 'tmpfs', ...options, 'none', directory]);
	return directory;
}

await test('a disk that is full, and has room again', async () => {
	const disk = mounted('-o', 'size=16m'),
		server = await startServer(`${disk}/data`);
	await until(server, /^200 ok$/);
	assert.throws(() => writeFileSync(`${disk}/filler`, Buffer.alloc(32 << 20, 1)), /ENOSPC/);
	await until(server, /^503 not ready: the data directory cannot be written: No space left on device$/);
	assert.doesNotMatch(await ready(server), /disk/, 'no paths are told');
	rmSync(`${disk}/filler`);
	await until(server, /^200 ok$/);
	assert.equal((await upload(server)).status, 200);
	assert.equal(await server.stop(), 0);
	const left = readdirSync(`${disk}/data`);
	execFileSync('umount', [disk]);
	assert.ok(!left.some((name) => name.startsWith('ready')), 'nothing is left behind');
});

await test('a file system that can only be read', async () => {
	const directory = `${temporaryDirectory()}/data`,
		server = await startServer(directory);
	await until(server, /^200 ok$/);
	execFileSync('mount', ['-t', 'tmpfs', '-o', 'ro', 'none', directory]);
	await until(server, /^503 not ready: the data directory cannot be written: Read-only file system$/);
	execFileSync('umount', [directory]);
	await until(server, /^200 ok$/);
	await server.stop();
});

await test('a log that could not be synced', async () => {
	for (let n = 1; ; n++) {
		assert.ok(n < 40, 'no sync of the log failed');
		const server = await startServer(`${temporaryDirectory()}/data`, [], `export WICK_FAULT=sync:${n}`).catch(() => undefined);
		if (!server) continue;
		let status = 200;
		for (let i = 0; i < 5 && status === 200; i++) status = (await upload(server)).status;
		if (status !== 200) {
			await until(server, /^503 not ready: the log could not be synced: check the disk, then restart$/);
			assert.notEqual((await upload(server)).status, 200);
			await server.stop();
			return;
		}
		await server.stop();
	}
});
finish();
