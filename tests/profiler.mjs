// SPDX-License-Identifier: Apache-2.0
// A profile as the command line of Firefox Profiler sees it.
import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';

const cliPath = join(new URL('.', import.meta.url).pathname, 'node_modules/.bin/profiler-cli');
// The path of its socket must be short.
const sessions = mkdtempSync('/tmp/wpq-');
const environment = { ...process.env, PROFILER_CLI_SESSION_DIR: sessions };
let session = 0,
	daemon = null;
process.on('exit', () => {
	daemon?.kill();
	rmSync(sessions, { recursive: true, force: true });
});

export const cli = (...args) =>
	execFileSync(cliPath, [...args, '--session', `s${session}`], { env: environment, encoding: 'utf8', maxBuffer: 1 << 28, stdio: ['ignore', 'pipe', 'pipe'] });

// One line of JSON each way, as the command line itself talks to its daemon.
const exchange = (message) =>
	new Promise((resolve, reject) => {
		let text = '';
		const socket = connect(join(sessions, `s${session}.sock`), () => socket.write(`${JSON.stringify(message)}\n`));
		socket
			.setEncoding('utf8')
			.on('error', reject)
			.on('data', (part) => (text += part));
		socket.on('data', () => text.endsWith('\n') && socket.end()).on('close', () => (text ? resolve(JSON.parse(text)) : reject(new Error('no answer'))));
	});

// What `cli` with --json prints, without the half second that a program started for each question takes: ask("thread", "markers", { thread }).
export async function ask(command, subcommand, options = {}) {
	const { type, result, error } = await exchange({ type: 'command', command: { command, subcommand, ...options } });
	if (type !== 'success') throw new Error(`${command} ${subcommand}: ${error}`);
	return result;
}

// Of all threads, and of all functions of one thread.
export const threadList = async () => (await ask('thread', 'list', { threadListOptions: { limit: 0 } })).threads;
export const threadFunctions = async (thread) => (await ask('thread', 'functions', { thread, includeIdle: true })).functions;

// Opens a profile for as long as the body runs. `profiler-cli load` gives its daemon half a second, which a busy machine may not have, so
// the daemon is started here.
export async function withProfile(path, body) {
	session++;
	daemon = spawn(process.execPath, [cliPath, '--daemon', path, '--session', `s${session}`], { env: environment, stdio: 'ignore' });
	const ended = new Promise((resolve) => daemon.once('exit', resolve));
	try {
		for (let tries = 0; ; tries++) {
			await new Promise((resolve) => setTimeout(resolve, 50));
			const { type, error } = await exchange({ type: 'status' }).catch(({ message }) => ({ type: 'absent', error: message }));
			if (type === 'ready') break;
			if (type === 'error' || daemon.exitCode !== null || tries >= 2000) throw new Error(`profiler-cli does not open ${path}: ${error ?? type}`);
		}
		return await body();
	} finally {
		daemon.kill();
		await ended;
	}
}
