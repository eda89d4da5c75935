// SPDX-License-Identifier: Apache-2.0
// The figures of bench/budget.sh. CPU time and memory are those of the server's process, by /proc; its memory is what a query adds to what was resident.
import { readFileSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import { differentStacks, forgetPeak, memoryOf, startServer, request, temporaryDirectory } from '../tests/harness.mjs';

const at = process.argv.indexOf('--stacks'),
	stacks = at > 0 ? Number(process.argv[at + 1]) : 205000,
	MIB = 1024 * 1024,
	DEPTH = 12,
	CHUNK = 50000,
	ROUNDS = 3,
	INGESTED = 1e9,
	directory = temporaryDirectory();

const different = (seed, count) => differentStacks(seed, count, DEPTH);
async function start(name, config) {
	writeFileSync(`${directory}/${name}.yaml`, config);
	const server = await startServer(`${directory}/${name}`, ['--config', `${directory}/${name}.yaml`]);
	const proc = (file) => readFileSync(`/proc/${server.child.pid}/${file}`, 'utf8');
	server.get = (path) => request(server.port, 'GET', path);
	server.cpu = () => {
		const fields = proc('stat').replace(/.*\) /, '').split(' ');
		return (Number(fields[11]) + Number(fields[12])) * 10;
	};
	server.memory = (what) => memoryOf(server.child.pid, what) / MIB;
	server.forgetPeak = () => forgetPeak(server.child.pid);
	server.push = async (side, lines) => {
		const r = await request(server.port, 'POST', `/api/v1/ingest?format=folded&name=process_cpu&label=side%3D${side}`, { body: Buffer.from(lines.join('\n')) });
		if (r.status !== 200) throw new Error(`ingest: ${r.status} ${r.body}`);
	};
	for (const [side, seed] of [
		['a', 1],
		['b', 2],
	])
		for (let i = 0; i < stacks; i += CHUNK) await server.push(side, different(seed * 1000 + i, Math.min(CHUNK, stacks - i)));
	return server;
}
const time = 'from=now-1h&to=now%2B1h',
	of = (side) => `process_cpu%7Bside%3D%22${side}%22%7D`,
	flame = (side, more = '') => `/api/v1/query?query=${of(side)}&${time}${more}`,
	diff = (a, b, more = '') => `/api/v1/diff?query=${of(a)}&base=${of(b)}&${time}${more}`;

// The least of some rounds: CPU in ms, memory in MiB.
async function cost(server, path) {
	const best = { cpu: Infinity, memory: Infinity };
	for (let i = 0; i < ROUNDS; i++) {
		server.forgetPeak();
		const cpu = server.cpu(),
			resident = server.memory('VmRSS'),
			{ status } = await server.get(path);
		if (status !== 200) throw new Error(`${path}: ${status}`);
		best.cpu = Math.min(best.cpu, server.cpu() - cpu);
		best.memory = Math.min(best.memory, server.memory('VmHWM') - resident);
	}
	return best;
}
const show = (name, { cpu, memory }) => console.log(`${name.padEnd(34)} ${cpu} ms of CPU, ${memory.toFixed(0)} MiB`);

console.log(`two sides of ${stacks} stacks of ${DEPTH} frames`);
const roomy = await start('roomy', 'queries: {memory: 64G}\nlimits: {query_memory: 64G}\n');
for (const [name, more] of [
	['flame graph', ''],
	['table', '&format=table'],
]) {
	const one = more ? '&format=json' : '',
		sides = [await cost(roomy, flame('a', one)), await cost(roomy, flame('b', one))],
		both = await cost(roomy, diff('a', 'b', more)),
		sum = { cpu: sides[0].cpu + sides[1].cpu, memory: sides[0].memory + sides[1].memory };
	show(`${name}s of both sides, added up`, sum);
	show(`${name} of their diff`, both);
	console.log(`  a diff is ${(both.cpu / sum.cpu).toFixed(2)} times two ${name}s of CPU, ${(both.memory / sum.memory).toFixed(2)} times of memory (aim: 2)`);
}
for (const [name, path] of [
	['diff', diff('a', 'b')],
	['table of a diff', diff('a', 'b', '&format=table')],
	['flame graph, 1,000,000 nodes', flame('a', '&format=columns')],
	['table', flame('a', '&format=json')],
	['folded', flame('a', '&format=folded')],
	['pprof', flame('a', '&format=pprof')],
]) {
	const whole = (await cost(roomy, path)).cpu,
		after = [];
	for (let i = 0; i < 10; i++) {
		const begun = roomy.cpu(),
			socket = net.connect(roomy.port, '127.0.0.1');
		let ended = false;
		socket.on('error', () => {});
		socket.on('data', () => (ended = true));
		socket.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\n\r\n`);
		while (!ended && roomy.cpu() - begun < ((i + 0.5) / 10) * whole) await new Promise((r) => setTimeout(r, 1));
		const left = roomy.cpu();
		socket.destroy();
		while (JSON.parse((await roomy.get('/api/v1/status')).body).queries.running > 0) await new Promise((r) => setTimeout(r, 5));
		if (!ended) after.push(roomy.cpu() - left);
	}
	console.log(`client of a ${name} leaves at 5 % to 95 % of ${whole} ms: then at most ${Math.max(...after)} ms of CPU in ${after.length} tries (aim: 100)`);
}
await roomy.stop();

const usual = await start('usual', '{}\n');
await usual.push('c', different(9, 5000));
usual.forgetPeak();
const before = usual.memory('VmRSS'),
	statuses = {};
let pushed = 0,
	bytes = 0,
	rounds = 0,
	ended = false;
const pushing = (async () => {
	while (!ended) {
		const lines = different(100 + pushed, 5000);
		await usual.push(`d${pushed++ % 8}`, lines);
		bytes += lines.join('\n').length;
	}
})();
for (; rounds < 5 || bytes < INGESTED; rounds++)
	for (const { status } of await Promise.all(
		[diff('a', 'b'), diff('b', 'a'), diff('a', 'b', '&format=table'), diff('b', 'a', '&format=table')].map((path) => usual.get(path)),
	))
		statuses[status] = (statuses[status] ?? 0) + 1;
ended = true;
await pushing;
console.log(
	`default limits, ${rounds} times four diffs at a time beside ${pushed} profiles of 5,000 stacks, ${Math.round(bytes / 1e6)} MB: ${before.toFixed(0)} MiB resident before, at most ${usual.memory('VmHWM').toFixed(0)} MiB; ` +
		Object.entries(statuses)
			.map(([status, count]) => `${count} of ${status}`)
			.join(', '),
);
for (const [name, path] of [
	['flame graph', flame('a')],
	['flame graph, 1,000,000 nodes', flame('a', '&format=columns')],
	['table', flame('a', '&format=json')],
	['diff', diff('a', 'b')],
]) {
	const r = await usual.get(path);
	console.log(`default limits, ${name}: ${r.status} ${r.headers['x-wick-partial'] ?? (r.status === 200 ? 'whole' : JSON.parse(r.body).error)}`);
}
await usual.stop();
process.exit(0);
