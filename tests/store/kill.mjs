// SPDX-License-Identifier: Apache-2.0
// kill.mjs WICK DIRECTORY ROUNDS. Writers send folded profiles, each with a stack of its own and the value 1, and note which were acknowledged; the server is killed at a random moment; after all
// rounds the merge over everything must hold each acknowledged stack exactly once, and every other one (sent, but not acknowledged) at most once. A writer whose request broke off sends the same bytes
// again after the restart, as real clients do.
//
// Uploads are about three hours ago, in windows that are over, so that blocks are merged as soon as they are there; those of every tenth round are about four hours ago, where retention takes them (or
// refuses them, when they come too late): they may be gone, and never there twice. A third of the rounds is long enough for retention and merging to begin.
//
// Every third sample has a number, which must be there with it.
import { spawn } from 'node:child_process';
import { readdirSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';

const [wick, directory, rounds] = process.argv.slice(2);
const acknowledged = new Set(),
	sent = new Set(),
	expiring = new Set(),
	merged = new Set();
const HOUR = 3600n * 1000000000n;
let server,
	port,
	counter = 0,
	isOld = false;
// Small heads, so that blocks are cut while the killing goes on.
writeFileSync(`${directory}.yaml`, 'head: {size: 256KiB}\ncut: {age: 1s}\ncompact: {window: 1m, long_window: 10m}\nretention: {age: 4h}\n');

function start() {
	return new Promise((resolve, reject) => {
		server = spawn(wick, ['server', '--data', directory, '--listen', `127.0.0.1:${port ?? 0}`, '--config', `${directory}.yaml`], {
			stdio: ['ignore', 'ignore', 'pipe'],
		});
		let text = '';
		server.stderr.on('data', (chunk) => {
			text += chunk;
			const match = text.match(/http:\/\/127\.0\.0\.1:(\d+)/);
			if (match) {
				port = Number(match[1]);
				resolve();
			}
		});
		server.on('exit', (code, signal) => {
			if (signal !== 'SIGKILL') reject(new Error(`server ended with ${code ?? signal}: ${text}`));
		});
	});
}

// Whether it said that it listens.
async function killedAtStart(afterMs) {
	const child = spawn(wick, ['server', '--data', directory, '--listen', `127.0.0.1:${port}`, '--config', `${directory}.yaml`], {
		stdio: ['ignore', 'ignore', 'pipe'],
	});
	let text = '';
	child.stderr.on('data', (chunk) => {
		text += chunk;
	});
	const closed = new Promise((resolve) => child.once('close', (code, signal) => resolve(signal)));
	await sleep(afterMs);
	child.kill('SIGKILL');
	if ((await closed) !== 'SIGKILL') throw new Error(`server ended by itself: ${text}`);
	return text.includes('http://');
}

function post(path, body) {
	return new Promise((resolve) => {
		const request = http.request({ host: '127.0.0.1', port, path, method: 'POST', headers: { 'content-length': body.length }, timeout: 10000 }, (response) => {
			let text = '';
			response.on('data', (chunk) => {
				text += chunk;
			});
			response.on('end', () => resolve({ status: response.statusCode, text }));
			response.on('error', () => resolve(null));
		});
		request.on('error', () => resolve(null));
		request.on('timeout', () => request.destroy());
		request.end(body);
	});
}

// 0 = none.
function numberOf(name) {
	const n = Number(name.slice('stack'.length));
	return n % 3 === 0 ? 1 + (n % 50) : 0;
}

// A pprof profile with one sample of value 1 and a time of its own: the time makes a resend recognisable.
function profile(name, time) {
	const varint = (n) => {
		const out = [];
		n = BigInt(n);
		while (n > 127n) {
			out.push(Number(n & 127n) | 128);
			n >>= 7n;
		}
		out.push(Number(n));
		return out;
	};
	const field = (number, wire, payload) => [...varint((number << 3) | wire), ...payload];
	const bytes = (number, payload) => field(number, 2, [...varint(payload.length), ...payload]);
	const int = (number, value) => field(number, 0, varint(value));
	const text = (value) => bytes(6, [...Buffer.from(value)]);
	return Buffer.from([
		...bytes(1, [...int(1, 1), ...int(2, 2)]),
		...bytes(2, [...int(1, 1), ...int(2, 1), ...(numberOf(name) ? bytes(3, [...int(1, 4), ...int(3, numberOf(name))]) : [])]),
		...bytes(4, [...int(1, 1), ...bytes(4, [...int(1, 1)])]),
		...bytes(5, [...int(1, 1), ...int(2, 3)]),
		...['', 'cpu', 'count', name, 'size'].flatMap(text),
		...int(9, time),
	]);
}

let stopping = false;
async function writer() {
	let pending = null;
	while (!stopping || pending) {
		if (!pending) {
			const name = `stack${counter++}`;
			const time = BigInt(Date.now()) * 1000000n + BigInt(counter) - (isOld ? 4n * HOUR - BigInt(Math.floor(Math.random() * 2e9)) : 3n * HOUR);
			pending = { name, body: profile(name, time) };
			sent.add(name);
			if (isOld) expiring.add(name);
		}
		const answer = await post('/api/v1/ingest?name=kill', pending.body);
		if (answer?.status === 200) {
			acknowledged.add(pending.name);
			pending = null;
		} else if (answer?.status === 422 && expiring.has(pending.name) && answer.text.includes('nothing was stored')) {
			pending = null; /* too late, and said so */
		} else {
			if (answer) throw new Error(`status ${answer.status}: ${answer.text}`);
			await sleep(5);
		}
	}
}

function sawMerged() {
	for (const name of readdirSync(`${directory}/blocks`)) if (/-g\d+$/.test(name)) merged.add(name);
	return merged.size > 0;
}

await start();
const writers = [1, 2, 3, 4].map(() => writer());
let worst = 0,
	typical = 50,
	cutShort = 0;
for (let round = 0; round < rounds; round++) {
	isOld = round % 10 === 9;
	// Not before something was acknowledged, and in one round of ten not before there is a merged block: however slow the disk is.
	const before = acknowledged.size;
	for (let i = 0; acknowledged.size === before || (round % 10 === 5 && !sawMerged() && i < 6000); i++) {
		if (i === 12000) throw new Error('nothing is acknowledged');
		await sleep(10);
	}
	await sleep(round % 3 === 2 ? 1000 + Math.random() * 500 : 20 + Math.random() * 280);
	const gone = new Promise((resolve) => server.once('exit', resolve));
	server.kill('SIGKILL');
	await gone;
	sawMerged();
	// Killed within the time that a start takes, some times in a row: nothing is lost by it, and the next start gets there.
	for (let i = 0; round % 4 === 0 && i < 3; i++) cutShort += !(await killedAtStart(Math.random() * typical));
	const begun = Date.now();
	await start();
	typical = Date.now() - begun;
	worst = Math.max(worst, typical);
}
stopping = true;
await Promise.all(writers);
await new Promise((resolve) => {
	server.removeAllListeners('exit');
	server.once('exit', resolve);
	server.kill('SIGTERM');
});
await start();
async function stored(query) {
	const answer = await fetch(`http://127.0.0.1:${port}/api/v1/query?query=${encodeURIComponent(query)}&from=now-1d&to=now%2B1h&format=folded`);
	const found = new Map();
	for (const line of (await answer.text()).trim().split('\n')) {
		const [, name, count] = line.match(/^(\S+) (\d+)$/) ?? [];
		if (name) found.set(name, Number(count));
	}
	return found;
}
const found = await stored('kill');
// Those with a number, and with one of some: of all that is found, the same ones as those that were sent with it.
let misnumbered = 0;
for (const [condition, fits] of [
	['__number__!=""', (number) => number > 0],
	['__number__="size=10:30"', (number) => number >= 10 && number <= 30],
]) {
	const numbered = await stored(`kill{${condition}}`);
	for (const name of found.keys()) misnumbered += numbered.has(name) !== fits(numberOf(name));
	if (numbered.size === 0) misnumbered++;
}
let missing = 0,
	twice = 0,
	unknown = 0;
let expired = 0;
for (const name of acknowledged)
	if (!found.has(name)) {
		if (expiring.has(name)) expired++;
		else missing++;
	}
for (const [name, count] of found) {
	if (count !== 1) twice++;
	if (!sent.has(name)) unknown++;
}
server.removeAllListeners('exit');
server.kill('SIGTERM');
console.log(
	`${acknowledged.size} acknowledged over ${rounds} kills and ${cutShort} before a start was over, ${merged.size} merged blocks seen, ${expired} expired, ${missing} missing, ${twice} twice, ${unknown} unknown, ${misnumbered} without their number or with another; slowest restart ${worst} ms`,
);
process.exit(missing || twice || unknown || misnumbered || acknowledged.size < rounds || (rounds >= 50 && (merged.size === 0 || cutShort === 0)) ? 1 : 0);
