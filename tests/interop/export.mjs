// SPDX-License-Identifier: Apache-2.0
// The agent, sampling this machine, to endpoints of every kind at once: all get the same samples, whatever the others do. And to a Wick
// server by everybody else's protocols.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { startServer, request, temporaryDirectory, test, finish, wick } from '../harness.mjs';
import { grpcEndpoint, httpEndpoint, until } from './export_endpoints.mjs';

const directory = temporaryDirectory(),
	seconds = Number(process.env.WICK_TEST_SECONDS ?? 8);
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
// Something to sample, whatever else the machine does.
async function work(ms) {
	const load = spawn('sh', ['-c', 'i=0; while :; do i=$((i+1)); done']);
	await pause(ms);
	load.kill('SIGKILL');
}
const query = async (server, selector) => {
	const response = await request(server.port, 'GET', `/api/v1/query?query=${encodeURIComponent(selector)}&from=now-1h&to=now%2B1h`);
	assert.equal(response.status, 200, response.body.toString());
	return JSON.parse(response.body);
};
// Runs an agent until `during` is over; gives its last words: what was taken, and by target what was sent, dropped, waits.
async function runAgent(targets, during, options = []) {
	const config = `${directory}/agent.yaml`;
	writeFileSync(config, JSON.stringify({ process_stats: true, labels: { env: 'test' }, spool: { directory: `${directory}/spool` }, ...targets }));
	const agent = spawn(wick, ['agent', '--config', config, '--no-debuginfo-upload', '--budget', '0', ...options], { stdio: ['ignore', 'ignore', 'pipe'] });
	let log = '';
	agent.stderr.on('data', (chunk) => {
		log += chunk;
	});
	const ended = new Promise((resolve) => agent.once('exit', (code, signal) => resolve(code ?? signal)));
	process.on('exit', () => agent.kill('SIGKILL'));
	await until(() => log.includes('sampling '), 'the agent starts');
	await during(agent);
	agent.kill('SIGTERM');
	assert.equal(await ended, 0, log);
	const found = { log, taken: Number(log.match(/ (\d+) samples were taken/)[1]), targets: {} };
	for (const [, name, profiles, samples, droppedProfiles, dropped, , waiting] of log.matchAll(
		/ (\S+): (\d+) profiles with (\d+) samples sent; (\d+) with (\d+) dropped; (\d+) with (\d+) queued/g,
	))
		found.targets[name] = {
			profiles: Number(profiles),
			samples: Number(samples),
			droppedProfiles: Number(droppedProfiles),
			dropped: Number(dropped),
			waiting: Number(waiting),
		};
	return found;
}

const server = await startServer(`${directory}/server`),
	second = await startServer(`${directory}/second`);
const grpcOtlp = await grpcEndpoint(),
	httpOtlp = await httpEndpoint(),
	pyroscope = await httpEndpoint(),
	parca = await grpcEndpoint(),
	named = await grpcEndpoint(),
	collector = await grpcEndpoint();
const slow = await httpEndpoint(() => pause(500)),
	later = await grpcEndpoint((n) => (n < 1 ? { code: 14, metadata: { 'grpc-retry-pushback-ms': '300' } } : undefined));
const refusing = await httpEndpoint(() => ({ status: 400 })),
	down = await httpEndpoint();
await down.close();
const endpoint = (name, kind, to, more) => ({ name, kind, url: `http://127.0.0.1:${to.port}`, retry_max: '500ms', ...more });
const targets = {
	server: server.url,
	export: [
		endpoint('second', 'wick', second),
		endpoint('collector', 'wick', collector), // which is none, and takes OTLP by gRPC all the same
		endpoint('grpc', 'otlp-grpc', grpcOtlp),
		endpoint('http', 'otlp-http', httpOtlp),
		endpoint('pyroscope', 'pyroscope', pyroscope),
		endpoint('parca', 'parca', parca),
		endpoint('named', 'otlp-grpc', named, { symbolize: true }),
		endpoint('slow', 'otlp-http', slow),
		endpoint('later', 'otlp-grpc', later),
		endpoint('refusing', 'otlp-http', refusing),
		endpoint('down', 'otlp-http', down),
	],
};
const period = 52631578n;
const sending = { grpc: grpcOtlp, http: httpOtlp, pyroscope, parca, named, slow, later };
const result = await runAgent(targets, async (agent) => {
	await work(seconds * 1000);
	agent.kill('SIGCONT'); // nothing that ends it
	await until(() => pyroscope.profiles > 0 && named.profiles > 0, 'names are there');
});
// At its end an agent sends for 3 s. What a busy machine did not manage waits on the disk for the next run.
let ends = 1;
for (let run = 0; run < 5 && ['second', 'collector', ...Object.keys(sending)].some((name) => result.targets[name].waiting > 0); run++) {
	ends++;
	const next = await runAgent(targets, () => until(() => Object.values(sending).every((to) => to.total() >= period * BigInt(result.taken)), 'what waited'));
	result.taken += next.taken;
	for (const [name, { samples, droppedProfiles, dropped, waiting }] of Object.entries(next.targets)) {
		const sum = result.targets[name];
		Object.assign(sum, { samples: sum.samples + samples, droppedProfiles: sum.droppedProfiles + droppedProfiles, dropped: sum.dropped + dropped, waiting });
	}
}

await test('samples taken = samples sent = values stored, for every endpoint', async () => {
	assert.ok(result.taken > 0);
	const expected = period * BigInt(result.taken);
	assert.equal(BigInt((await query(server, 'process_cpu')).flame.total), expected, 'server');
	assert.equal(BigInt((await query(second, 'process_cpu')).flame.total), expected, 'second');
	for (const [name, received] of Object.entries(sending)) {
		assert.equal(received.total(), expected, name);
		assert.ok(received.repeated <= ends, `${name}: ${received.repeated} requests again, of an agent that ended ${ends} times`);
	}
	for (const name of ['second', 'collector', ...Object.keys(sending)])
		assert.deepEqual({ ...result.targets[name], profiles: 0 }, { profiles: 0, samples: result.taken, droppedProfiles: 0, dropped: 0, waiting: 0 }, name);
});
await test('stacks are the same for all that get names from the agent or none', async () => {
	const plain = [...grpcOtlp.stacks].sort(),
		byName = [...named.stacks].sort();
	assert.deepEqual([...httpOtlp.stacks].sort(), plain);
	assert.deepEqual([...slow.stacks].sort(), plain);
	assert.deepEqual([...parca.stacks].sort(), plain);
	assert.ok(byName.length > 0);
	// The shell's loop is in user code of a stripped program; kernel code always has names.
	assert.ok(named.unnamed <= grpcOtlp.unnamed);
	assert.ok(grpcOtlp.unnamed > 0, 'addresses are sent where nobody asked for names');
	assert.equal(pyroscope.unnamed, 0);
});
await test('a collector of OTLP by gRPC in the place of a server gets what a server gets', async () => {
	// What processes used has the type of CPU time, too, and no stack.
	const stacks = [...grpcOtlp.stacks].filter(([key]) => !key.endsWith(' '));
	assert.ok(stacks.length > 0);
	for (const [key, value] of stacks) assert.equal(collector.stacks.get(key), value, key);
	assert.ok(!result.log.includes('cannot send to collector'), 'it was sent at once');
});
await test('an endpoint that is down has it waiting on disk; one that refuses has it counted', async () => {
	assert.equal(result.targets.down.waiting, result.taken);
	assert.equal(result.targets.refusing.dropped, result.taken);
	assert.equal(result.log.match(/refusing rejected a profile/g).length, 1);
	assert.equal(result.log.match(/cannot send to down/g).length, 1);
});
await test('the next run sends what waited', async () => {
	const back = await httpEndpoint(undefined, down.port);
	const next = await runAgent({ export: [endpoint('down', 'otlp-http', down)] }, () =>
		until(() => back.total() >= period * BigInt(result.taken), 'what waited'),
	);
	assert.match(next.log, new RegExp(`profiles for down are queued from an earlier run`));
	assert.equal(back.total(), period * BigInt(result.taken + next.taken), next.log);
	await back.close();
});
await test("a Wick server gets the same by Pyroscope's and OTLP's protocols", async () => {
	const servers = {};
	for (const kind of ['pyroscope', 'otlp-http', 'otlp-grpc']) servers[kind] = await startServer(`${directory}/${kind}`);
	const run = await runAgent({ export: Object.entries(servers).map(([kind, { port }]) => endpoint(`to-${kind}`, kind, { port })) }, () => work(seconds * 500));
	assert.ok(run.taken > 0);
	await Promise.all(
		Object.entries(servers).map(async ([kind, to]) => {
			assert.equal(run.targets[`to-${kind}`].samples + run.targets[`to-${kind}`].waiting, run.taken, kind);
			if (kind === 'pyroscope' && run.targets['to-pyroscope'].waiting) return; // names were not there in time
			assert.equal(BigInt((await query(to, 'process_cpu')).flame.total), period * BigInt(run.taken), kind);
		}),
	);
	await Promise.all(Object.values(servers).map((to) => to.stop()));
});
await server.stop();
await second.stop();
finish();
