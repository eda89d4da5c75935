// SPDX-License-Identifier: Apache-2.0
// Shared by the attacks: the bounds of each on memory, health and time, and addresses to come from. docs/security.md lists what comes of them.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import http from 'node:http';
import { connect } from 'node:net';
import { forgetPeak, memoryOf, test } from '../harness.mjs';

export const MIB = 1 << 20;
export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
// In a network of its own (tests/network.inc): SERVER is where servers listen, address(n) one that a client can come from.
export const SERVER = '10.9.0.1';
export const address = (n) => `10.9.${1 + Math.floor(n / 250)}.${1 + (n % 250)}`;
export function makeNetwork() {
	execFileSync('ip', ['addr', 'add', `${SERVER}/16`, 'dev', 'lo']); // so that all of 10.9/16 is this machine's
}

// cert.pem and key.pem of SERVER. RSA, for which the server computes some 20 times as long as for the curves.
export function makeCertificate(directory) {
	const name = ['-subj', '/CN=wick', '-addext', `subjectAltName=IP:${SERVER}`],
		files = ['-keyout', `${directory}/key.pem`, '-out', `${directory}/cert.pem`];
	execFileSync('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', ...files, '-days', '2', ...name], { stdio: 'pipe' });
}

// A request from an address; resolves with the status, 0 = no answer, and how long it took.
export function ask(options, body) {
	return new Promise((resolve) => {
		const began = performance.now();
		const done = (status, text) => resolve({ status, text, ms: performance.now() - began });
		const call = http.request({ agent: false, ...options, headers: { ...(body ? { 'content-length': body.length } : {}), ...options.headers } }, (response) => {
			const chunks = [];
			response.on('data', (chunk) => chunks.push(chunk));
			response.on('end', () => done(response.statusCode, Buffer.concat(chunks).toString()));
			response.on('error', () => done(0, ''));
		});
		call.on('error', (error) => done(0, error.code ?? String(error)));
		call.end(body);
	});
}

// Metrics of a server by name, also 'name{label="value"}'.
export function metricOf(text, name) {
	const line = text.split('\n').find((l) => l.startsWith(`${name} `));
	assert.ok(line, `${name} is in /metrics`);
	return Number(line.slice(name.length + 1));
}

// Connections that do as they are told: `begin` gets each when it stands. Those that were refused or closed are noted, not an error.
export async function crowd(count, options, begin = () => {}, atOnce = 200) {
	const all = [];
	for (let i = 0; i < count; i++) {
		all.push(
			new Promise((resolve) => {
				const socket = connect(
					{ ...options, localAddress: typeof options.localAddress === 'function' ? options.localAddress(i) : options.localAddress },
					() => {
						begin(socket, i);
						resolve(socket);
					},
				);
				for (const event of ['error', 'close', 'end'])
					socket.on(event, () => {
						socket.gone = true;
						resolve(socket);
					});
				socket.resume();
			}),
		);
		if (i % atOnce === atOnce - 1) await Promise.all(all.slice(-atOnce));
	}
	return Promise.all(all);
}

/*
 * Runs an attack beside somebody who means no harm: `bystander()` is one round of theirs and says whether it was served. All rounds must be, and the
 * process must not grow by more than `mib`. How long health takes is in bench/attack.mjs: here the machine may be busy with other tests.
 */
export async function attack(name, server, bystander, mib, body) {
	await test(name, async () => {
		forgetPeak(server.child.pid);
		const before = memoryOf(server.child.pid, 'VmRSS'),
			failures = [];
		let going = true,
			served = 0;
		const rounds = (async () => {
			while (going) {
				const problem = await bystander();
				if (problem) failures.push(problem);
				else served++;
				await sleep(20);
			}
		})();
		try {
			await body();
		} catch (error) {
			going = false;
			await rounds;
			throw error;
		}
		for (let i = 0, until = served + 3; served < until && !failures.length; i++) {
			assert.ok(i < 12000, 'others are not served');
			await sleep(10);
		}
		going = false;
		await rounds;
		const grown = (memoryOf(server.child.pid, 'VmHWM') - before) / MIB;
		assert.deepEqual(failures.slice(0, 5), []);
		console.log(`   ${name}: ${served} rounds of others served, ${grown.toFixed(0)} MiB more`);
		assert.ok(grown < mib, `${grown.toFixed(0)} MiB more, ${mib} allowed`);
	});
}
