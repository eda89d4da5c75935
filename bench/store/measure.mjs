// SPDX-License-Identifier: Apache-2.0
// What the store's benchmark is made of: a server under watch, timed calls, and the columns that are printed.
import { spawn } from 'node:child_process';
import { readFileSync, readdirSync, existsSync } from 'node:fs';
import http from 'node:http';
import { join } from 'node:path';

export const wick = process.env.WICK ?? 'build/wick',
	output = process.env.O ?? 'build';

// A running server whose resident memory is looked at four times a second.
export class Server {
	// under: a command that runs it.
	static async start(directory, options = [], under = []) {
		const server = new Server(),
			begun = performance.now();
		const command = [...under, wick, 'server', '--data', directory, '--listen', '127.0.0.1:0', '--keep', 'forever', '--keep-size', '1T', ...options];
		server.child = spawn(command[0], command.slice(1), { stdio: ['ignore', 'ignore', 'pipe'] });
		process.on('exit', () => server.child.kill('SIGKILL'));
		let log = '';
		server.port = await new Promise((resolve, reject) => {
			server.child.stderr.on('data', (chunk) => {
				log += chunk;
				const match = log.match(/http:\/\/127\.0\.0\.1:(\d+)/);
				if (match) resolve(Number(match[1]));
			});
			server.child.once('exit', (code) => reject(new Error(`the server ended with ${code}: ${log}`)));
		});
		server.agent = new http.Agent({ keepAlive: true });
		await server.get('/readyz');
		server.ready_ms = performance.now() - begun;
		server.peak_kb = 0;
		server.watch = setInterval(() => server.look(), 250);
		return server;
	}
	get pid() {
		return this.child.pid;
	}
	get url() {
		return `http://127.0.0.1:${this.port}`;
	}
	look() {
		const found = readFileSync(`/proc/${this.pid}/status`, 'utf8').match(/VmHWM:\s+(\d+)/);
		if (found) this.peak_kb = Math.max(this.peak_kb, Number(found[1]));
		return this.peak_kb;
	}
	// The whole answer; its bytes are counted, and kept if asked for.
	get(path, keep = false) {
		return new Promise((resolve, reject) => {
			http
				.get({ host: '127.0.0.1', port: this.port, path, agent: this.agent }, (response) => {
					const chunks = [];
					let bytes = 0;
					response.on('data', (chunk) => {
						bytes += chunk.length;
						if (keep || response.statusCode !== 200) chunks.push(chunk);
					});
					response.on('end', () => resolve({ status: response.statusCode, bytes, text: Buffer.concat(chunks).toString() }));
					response.on('error', reject);
				})
				.on('error', reject);
		});
	}
	async json(path) {
		const answer = await this.get(path, true);
		if (answer.status !== 200) throw new Error(`${path}: ${answer.status} ${answer.text.slice(0, 200)}`);
		return JSON.parse(answer.text);
	}
	async stop(signal = 'SIGTERM') {
		clearInterval(this.watch);
		this.child.removeAllListeners('exit');
		const ended = new Promise((resolve) => this.child.once('exit', resolve));
		this.child.kill(signal);
		await ended;
		this.agent.destroy();
	}
}

// CPU time of a process so far, in ms, in steps of 10.
export function cpuOf(pid) {
	const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
		.replace(/^.*\) /, '')
		.split(' ');
	return (Number(fields[11]) + Number(fields[12])) * 10;
}

// Calls until there are enough for a median, or time is over. The first call, which warms caches up, is told apart; when it alone took longer than that, it is all there is.
// The CPU time of a call is what a busy machine leaves to compare by.
export async function timed(call, cpu, { least = 3, most = 20, seconds = 6 } = {}) {
	const run = async () => {
		const begun = performance.now();
		await call();
		return performance.now() - begun;
	};
	const before = cpu(),
		first = await run(),
		times = [];
	if (first > seconds * 1000) return { first, p50: first, p99: first, runs: 1, cpu: cpu() - before };
	const begun = performance.now(),
		from = cpu();
	while (times.length < most && (times.length < least || performance.now() - begun < seconds * 1000)) times.push(await run());
	times.sort((a, b) => a - b);
	return { first, p50: times[Math.floor(times.length / 2)], p99: times[times.length - 1], runs: times.length, cpu: (cpu() - from) / times.length };
}

export const ms = (value) => (value === undefined ? '-' : value < 10 ? `${value.toFixed(1)} ms` : `${Math.round(value)} ms`);
export const mb = (bytes) => `${(bytes / 1e6).toFixed(1)} MB`;
export const verdict = (value, target, unit = '') => (target === undefined ? '' : `  [target ${target}${unit}: ${value <= target ? 'met' : 'MISSED'}]`);
export const atLeast = (value, target) => `  [target >= ${target.toLocaleString('en')}: ${value >= target ? 'met' : 'MISSED'}]`;

export function blocksOf(directory) {
	const folder = join(directory, 'blocks');
	const all = existsSync(folder)
		? readdirSync(folder)
				.filter((name) => existsSync(join(folder, name, 'meta.json')))
				.sort()
		: [];
	const metas = all.map((name) => ({ name, path: join(folder, name), ...JSON.parse(readFileSync(join(folder, name, 'meta.json'), 'utf8')) }));
	const replaced = new Set(metas.flatMap((meta) => meta.replaces ?? []));
	return metas.filter((meta) => !replaced.has(meta.name));
}

// Children end with us, whatever ends us.
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(130));
