// SPDX-License-Identifier: Apache-2.0
// Pyroscope's SDK for Node, from its package, in a process of its own: CPU time of a function that is told apart by a label, and
// what is on the heap.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { startServer, request, temporaryDirectory, test, finish } from '../harness.mjs';

const directory = temporaryDirectory();
writeFileSync(`${directory}/token`, 'correct-horse\n', { mode: 0o600 });
const server = await startServer(`${directory}/data`, ['--token-file', `${directory}/token`]);
const headers = { authorization: 'Bearer correct-horse' };
// As a module: the package's other form cannot be loaded by Node 18.
const sdk = new URL('../node_modules/@pyroscope/nodejs/dist/esm/index.js', import.meta.url).href;
const program = `
import Pyroscope from ${JSON.stringify(sdk)};
Pyroscope.init({ serverAddress: process.env.SERVER, appName: "shop.node", tags: { region: "eu-west" }, authToken: "correct-horse", flushIntervalMs: 1000, wall: { collectCpuTime: true } });
const kept = [];
function spinHere(until) { let x = 0; while (Date.now() < until) for (let i = 0; i < 1e5; i++) x += Math.sqrt(i); return x; }
function keepHere() { for (let i = 0; i < 2000; i++) kept.push(new Array(300).fill(i)); }
Pyroscope.start();
setInterval(() => { Pyroscope.wrapWithLabels({ vehicle: "bike" }, () => spinHere(Date.now() + 150)); if (kept.length < 2e4) keepHere(); }, 200);
`;
writeFileSync(`${directory}/program.mjs`, program);
const child = spawn(process.execPath, [`${directory}/program.mjs`], {
	env: { ...process.env, SERVER: server.url, DEBUG: 'pyroscope*' },
	stdio: ['ignore', 'ignore', 'pipe'],
});
let log = '';
child.stderr.on('data', (data) => {
	log += data;
});
process.on('exit', () => child.kill('SIGKILL'));
const table = async (selector) => {
	const response = await request(
		server.port,
		'GET',
		`/api/v1/query?${new URLSearchParams({ query: selector, from: 'now-1h', to: 'now+1h', format: 'json', limit: '0' })}`,
		{ headers },
	);
	if (response.status === 400 && response.body.includes('unknown profile type')) return []; // nothing of it has come yet
	assert.equal(response.status, 200, response.body.toString());
	return JSON.parse(response.body).functions.rows;
};
// Until there is such a row; the limit is only for a test that has failed.
const row = async (selector, name) => {
	for (let i = 0; i < 1200; i++) {
		const found = (await table(selector)).find((r) => r.name.includes(name) && r.total > 0);
		if (found) return found;
		await new Promise((resolve) => setTimeout(resolve, 100));
	}
	throw new Error(`no ${name} in ${selector}\n${log}\n${server.log()}`);
};

const service = 'service_name="shop.node", pyroscope_spy="nodespy"';
await test('wall and CPU time, with the label of the code that ran', async () => {
	assert.ok((await row(`wall:wall:nanoseconds{${service}, vehicle="bike"}`, 'spinHere')).total > 0);
	assert.ok((await row(`process_cpu:cpu:nanoseconds{${service}, vehicle="bike"}`, 'spinHere')).total > 0);
});
await test('the heap', async () => {
	assert.ok((await row(`memory:inuse_space:bytes{${service}}`, 'keepHere')).total > 0);
});
await test('the server refused nothing', async () => {
	assert.doesNotMatch(log, /Error sending|rejected/);
	assert.equal(child.exitCode, null, log);
	child.kill('SIGKILL'); // its own way of stopping fails when a profile is under way
	await new Promise((resolve) => child.once('exit', resolve));
	const metrics = (await request(server.port, 'GET', '/metrics', { headers })).body.toString();
	const refused = [...metrics.matchAll(/^wick_ingest_refused_total(?:\{[^}]*\})? (\d+)/gm)].reduce((sum, [, n]) => sum + Number(n), 0);
	assert.equal(refused, 0, metrics.match(/^wick_ingest.*$/gm)?.join('\n'));
});
assert.equal(await server.stop(), 0, server.log());
finish();
