// SPDX-License-Identifier: Apache-2.0
// What waits when the server is away: through the server's absence, the agent's death, and a disk that cannot be written, every sample
// that was in a profile arrives once. The agent's counters, the headers of the files and the server's answers must agree.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { startServer, request, temporaryDirectory, test, finish, wick } from '../harness.mjs';
import { until } from './export_endpoints.mjs';

process.setMaxListeners(0); // each child is ended with us
const directory = temporaryDirectory(),
	period = 52631578;
const total = async (server, selector = 'process_cpu') => {
	const response = await request(server.port, 'GET', `/api/v1/query?query=${encodeURIComponent(selector)}&from=now-1h&to=now%2B1h`);
	assert.equal(response.status, 200, response.body.toString());
	return JSON.parse(response.body).flame.total;
};
function startAgent(port, spool, { options = [], env = {} } = {}) {
	const child = spawn(wick, ['agent', '--server', `http://127.0.0.1:${port}`, '--spool', spool, '--no-debuginfo-upload', '--budget', '0', ...options], {
		stdio: ['ignore', 'ignore', 'pipe'],
		env: { ...process.env, ...env },
	});
	const agent = { child, log: '' };
	child.stderr.on('data', (chunk) => {
		agent.log += chunk;
	});
	process.on('exit', () => child.kill('SIGKILL'));
	const ended = new Promise((resolve) => child.once('exit', (code, signal) => resolve(code ?? signal)));
	agent.kill = (signal) => {
		child.kill(signal);
		return ended;
	};
	return agent;
}
const words = (agent) => {
	const [, taken] = agent.log.match(/ (\d+) samples were taken/),
		[, sent, dropped, waiting] = agent.log.match(/ \d+ profiles with (\d+) samples sent; \d+ with (\d+) dropped; \d+ with (\d+) queued/);
	return { taken: Number(taken), sent: Number(sent), dropped: Number(dropped), waiting: Number(waiting) };
};
const records = (spool) => {
	const target = readdirSync(spool)[0];
	return readdirSync(`${spool}/${target}`)
		.filter((name) => name.endsWith('.rec'))
		.map((name) => `${spool}/${target}/${name}`);
};
const samplesIn = (files) => files.reduce((sum, file) => sum + Number(readFileSync(file).readBigUInt64LE(32)), 0);
// It rests most of the time: a flush has samples all the same.
const load = spawn(`${process.env.O ?? 'build'}/programs/load`, ['3600', '1', '30'], { stdio: 'ignore' });
process.on('exit', () => load.kill('SIGKILL'));

let server = await startServer(`${directory}/data`);
const { port } = server,
	again = ['--listen', `127.0.0.1:${port}`],
	spool = `${directory}/spool`;
const killServer = () => {
	server.child.removeAllListeners('exit');
	server.child.kill('SIGKILL');
	return new Promise((resolve) => server.child.once('exit', resolve));
};

await test('the server goes and comes back under a running agent: no sample is lost', async () => {
	const agent = startAgent(port, spool);
	await until(() => total(server).catch(() => 0), 'first samples');
	await killServer();
	await until(() => records(spool).length >= 3 && samplesIn(records(spool)) > 0, 'profiles wait');
	server = await startServer(`${directory}/data`, again);
	await until(() => agent.log.includes('is reachable again'), 'it answers again');
	await until(() => records(spool).length === 0, 'nothing waits');
	assert.equal(await agent.kill('SIGTERM'), 0);
	const { taken, sent, dropped, waiting } = words(agent);
	assert.deepEqual({ sent, dropped, waiting }, { sent: taken, dropped: 0, waiting: 0 });
	assert.equal(await total(server), taken * period);
	assert.equal(agent.log.match(/cannot send to/g).length, 1);
});
await test('an agent that is killed leaves what waits to the next one', async () => {
	const before = await total(server);
	await server.stop();
	const agent = startAgent(port, spool);
	await until(() => existsSync(spool) && records(spool).length >= 4, 'profiles wait');
	const shared = startAgent(port, spool);
	await until(() => shared.log.includes('kept in memory only'), 'two agents do not share a directory');
	await shared.kill('SIGKILL');
	assert.equal(await agent.kill('SIGKILL'), 'SIGKILL');
	const waiting = records(spool),
		inThem = samplesIn(waiting);
	assert.ok(inThem > 0);
	server = await startServer(`${directory}/data`, again);
	const next = startAgent(port, spool);
	await until(() => !waiting.some(existsSync), 'all of it is sent');
	assert.equal(await next.kill('SIGTERM'), 0);
	assert.match(next.log, new RegExp(`${waiting.length} profiles for \\S+ are queued from an earlier run`));
	assert.equal(await total(server), before + (inThem + words(next).taken) * period);
	assert.equal(words(next).sent, inThem + words(next).taken);
});
await test('where the disk cannot be written profiles wait in memory', async () => {
	const before = await total(server);
	await server.stop();
	const agent = startAgent(port, spool, { env: { WICK_FAULT: 'write:1:sticky', WICK_CACHE: '' } });
	await until(() => /kept in memory, not on disk/.test(agent.log), 'it is said');
	assert.equal(records(spool).length, 0);
	server = await startServer(`${directory}/data`, again);
	await until(() => agent.log.includes('is reachable again'), 'it answers again');
	assert.equal(await agent.kill('SIGTERM'), 0);
	const { taken, sent, dropped } = words(agent);
	assert.deepEqual({ sent, dropped }, { sent: taken, dropped: 0 });
	assert.equal(await total(server), before + taken * period);
});
await test('what has no disk is counted as dropped in the end', async () => {
	await server.stop();
	const agent = startAgent(port, 'off');
	await until(() => agent.log.includes('cannot send to'), 'the server is away');
	assert.equal(await agent.kill('SIGTERM'), 0);
	const { taken, sent, dropped, waiting } = words(agent);
	assert.ok(taken > 0);
	assert.deepEqual({ sent, dropped, waiting }, { sent: 0, dropped: taken, waiting: 0 });
	assert.match(agent.log, /profiles with \d+ samples were dropped at shutdown/);
});
load.kill('SIGKILL');
finish();
