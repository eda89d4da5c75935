// SPDX-License-Identifier: Apache-2.0
// A server that forwards to endpoints of every kind at once: what each of them got is what was sent here, value by value and stack
// by stack, whatever the others do: one is down at first, one slow, one asks to come back later, one refuses everything.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, writeFileSync, readFileSync } from 'node:fs';
import { startServer, request, temporaryDirectory, test, finish, pprofProfile } from '../harness.mjs';
import { grpcEndpoint, httpEndpoint, partialSuccess, until } from './export_endpoints.mjs';

process.setMaxListeners(0); // each child is ended with us
const directory = temporaryDirectory();
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const post = async (port, body, query = '', headers = {}) => {
	const response = await request(port, 'POST', `/api/v1/ingest?${query}`, { body, headers });
	assert.equal(response.status, 200, response.body.toString());
};
const total = async (port, selector, headers = {}) => {
	const response = await request(port, 'GET', `/api/v1/query?query=${encodeURIComponent(selector)}&from=now-1h&to=now%2B1h`, { headers });
	assert.equal(response.status, 200, response.body.toString());
	return JSON.parse(response.body).flame.total;
};
// {target: {metric: value}} of the server's wick_forward_*; losses as lost_profiles.REASON.
async function metrics(port) {
	const text = (await request(port, 'GET', '/metrics')).body.toString(),
		found = {};
	for (const [, name, target, reason, value] of text.matchAll(/^wick_forward_(\w+)\{target="([^"]+)"(?:,reason="(\w+)")?\} (\d+)$/gm))
		(found[target] ??= {})[reason ? `${name.replace('_total', '')}.${reason}` : name.replace('_total', '')] = Number(value);
	return found;
}
function configure(name, targets) {
	const path = `${directory}/${name}.yaml`;
	writeFileSync(path, JSON.stringify({ symbols: { debuginfod: { urls: [] } }, forward: targets })); // JSON is YAML
	return ['--config', path];
}
let serial = 0n;
const profile = (stacks) => pprofProfile(stacks, { timeNs: BigInt(Date.now()) * 1000000n + serial++, durationNs: 10e9 });
// Different stacks and values in every profile, so that a missing or doubled one shows in the sums.
const random = (() => {
	let x = 88172645463325252n;
	return (n) => {
		x ^= BigInt.asUintN(64, x << 13n);
		x ^= x >> 7n;
		x ^= BigInt.asUintN(64, x << 17n);
		return Number(x % BigInt(n));
	};
})();
const expected = new Map();
function generate() {
	const stacks = [];
	for (let i = 0; i < 20; i++) {
		const frames = Array.from({ length: 1 + random(8) }, () => `function_${random(30)}`),
			value = 1 + random(1e9);
		stacks.push([frames, value, { 'process.executable.name': `program_${random(3)}`, 'process.pid': String(100 + random(5)) }]);
		const key = `cpu/nanoseconds ${frames.join(';')}`;
		expected.set(key, (expected.get(key) ?? 0n) + BigInt(value));
	}
	return profile(stacks);
}
const sum = (map) => [...map.values()].reduce((a, b) => a + b, 0n);
const sorted = (map) => [...map].sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));

const other = await startServer(`${directory}/other`);
const grpcOtlp = await grpcEndpoint(),
	httpOtlp = await httpEndpoint(),
	pyroscope = await httpEndpoint(),
	parca = await grpcEndpoint();
const slow = await httpEndpoint(() => pause(300));
const later = await httpEndpoint((n) => (n < 2 ? { status: 429, headers: { 'retry-after': '1' } } : undefined));
const laterGrpc = await grpcEndpoint((n) => (n < 2 ? { code: 8, metadata: { 'grpc-retry-pushback-ms': '700' } } : undefined));
const refusing = await httpEndpoint(() => ({ status: 400, text: 'I take nothing\u001b[31m' }));
const partial = await grpcEndpoint((n) => (n === 0 ? { body: partialSuccess(1, 'one too many') } : undefined));
const some = await httpEndpoint(),
	down = await httpEndpoint();
await down.close(); // its port answers with a reset
const targets = [
	{ name: 'wick', kind: 'wick', url: other.url },
	{ name: 'grpc', kind: 'otlp-grpc', url: `http://127.0.0.1:${grpcOtlp.port}`, headers: { 'X-Extra': 'one', authorization: 'Api-Key 7' } },
	{ name: 'http', kind: 'otlp-http', url: `http://127.0.0.1:${httpOtlp.port}`, compression: false },
	{ name: 'whole', kind: 'otlp-http', url: `http://127.0.0.1:${slow.port}/v1development/profiles` },
	{
		name: 'pyroscope',
		kind: 'pyroscope',
		url: `http://127.0.0.1:${pyroscope.port}/prefix`,
		tenant: 'team',
		basic_auth: { username: 'me', password_file: `${directory}/password` },
	},
	{ name: 'parca', kind: 'parca', url: `http://127.0.0.1:${parca.port}`, token_file: `${directory}/token` },
	{ name: 'later', kind: 'otlp-http', url: `http://127.0.0.1:${later.port}` },
	{ name: 'later-grpc', kind: 'otlp-grpc', url: `http://127.0.0.1:${laterGrpc.port}` },
	{ name: 'refusing', kind: 'otlp-http', url: `http://127.0.0.1:${refusing.port}` },
	{ name: 'partial', kind: 'otlp-grpc', url: `http://127.0.0.1:${partial.port}` },
	{ name: 'down', kind: 'otlp-http', url: `http://127.0.0.1:${down.port}`, retry_max: '200ms' },
	{ name: 'some', kind: 'otlp-http', url: `http://127.0.0.1:${some.port}`, selector: 'process_cpu{process_executable_name="program_1"}' },
];
writeFileSync(`${directory}/password`, 'secret\n');
writeFileSync(`${directory}/token`, 't0ken-t0ken\n');
const server = await startServer(`${directory}/data`, configure('all', targets));
const count = 30;
for (let i = 0; i < count; i++) await post(server.port, generate());

const received = { grpc: grpcOtlp, http: httpOtlp, pyroscope, parca, whole: slow, later, 'later-grpc': laterGrpc, partial };
await test('every endpoint that answers has every value, stack by stack, while others are down or slow', async () => {
	for (const name of ['grpc', 'http', 'pyroscope', 'parca']) {
		await until(() => received[name].total() >= sum(expected), name);
		assert.deepEqual(sorted(received[name].stacks), sorted(expected), name);
	}
	await until(async () => (await total(other.port, 'process_cpu')) >= Number(sum(expected)), 'wick');
	assert.equal(await total(other.port, 'process_cpu'), Number(sum(expected)));
	assert.equal(await total(server.port, 'process_cpu'), Number(sum(expected)));
});
await test('a slow endpoint and those that asked for time have it too, a little later', async () => {
	for (const name of ['whole', 'later', 'later-grpc', 'partial']) {
		await until(() => received[name].total() >= sum(expected), name);
		assert.deepEqual(sorted(received[name].stacks), sorted(expected), name);
	}
	assert.equal(later.requests, count + 2);
	assert.equal(laterGrpc.requests, count + 2);
});
await test('what was refused for good is dropped, counted, and said once', async () => {
	await until(async () => (await metrics(server.port)).refusing?.['lost_profiles.refused'] === count, 'refusing');
	const m = await metrics(server.port);
	assert.equal(refusing.requests, count);
	assert.equal(m.refusing['lost_samples.refused'], 20 * count);
	assert.equal(m.partial['lost_profiles.refused'], 1);
	assert.equal(m.partial.profiles, count - 1);
	assert.equal(server.log().match(/refusing rejected a profile/g).length, 1);
	assert.match(server.log(), /HTTP 400 Bad Request: I take nothing\?\[31m/);
	assert.match(server.log(), /partial rejected a profile.*one too many/);
});
await test('an endpoint that comes back gets what waited, in order', async () => {
	assert.equal((await metrics(server.port)).down.waiting_profiles, count);
	assert.equal((await metrics(server.port)).down.up, 0);
	const back = await httpEndpoint(undefined, down.port);
	await until(() => back.total() >= sum(expected), 'down');
	assert.deepEqual(sorted(back.stacks), sorted(expected));
	await until(async () => (await metrics(server.port)).down.waiting_profiles === 0, 'nothing waits');
	assert.equal(server.log().match(/cannot send to down/g).length, 1);
	assert.match(server.log(), /down is reachable again; 30 profiles with 600 samples are queued/);
	await back.close();
});
await test('a selector chooses the series that go', async () => {
	await until(async () => (await metrics(server.port)).some.waiting_profiles === 0, 'some');
	const part = await total(server.port, 'process_cpu{process_executable_name="program_1"}');
	assert.ok(part > 0 && part < Number(sum(expected)));
	assert.equal(some.total(), BigInt(part));
});
await test('credentials, tenants and headers go along', async () => {
	assert.equal(grpcOtlp.headers[0]['x-extra'], 'one');
	assert.equal(grpcOtlp.headers[0].authorization, 'Api-Key 7');
	assert.equal(pyroscope.headers[0].authorization, `Basic ${Buffer.from('me:secret').toString('base64')}`);
	assert.equal(pyroscope.headers[0]['x-scope-orgid'], 'team');
	assert.equal(pyroscope.headers[0]['connect-protocol-version'], '1');
	assert.equal(parca.headers[0].authorization, 'Bearer t0ken-t0ken');
	assert.equal(httpOtlp.headers[0]['content-encoding'], undefined);
	assert.equal(slow.headers[0]['content-encoding'], 'gzip');
});
await test('series for Pyroscope and Parca are services; processes tell samples apart in Parca only', async () => {
	const services = (from) => [...new Set(from.series.map((labels) => labels.service_name))].sort();
	assert.deepEqual(services(pyroscope), ['program_0', 'program_1', 'program_2']);
	assert.deepEqual(services(parca), ['program_0', 'program_1', 'program_2']);
	assert.ok(pyroscope.series.every((labels) => labels.__name__ === 'process_cpu' && labels.__delta__ === 'false'));
	assert.deepEqual([...pyroscope.sampleLabels], ['process_executable_name']);
	assert.deepEqual([...parca.sampleLabels].sort(), ['process_executable_name', 'process_pid']);
	assert.equal(pyroscope.unnamed, 0);
});
await test('nothing is left in the queues, and the counters agree', async () => {
	const m = await metrics(server.port);
	for (const name of ['wick', 'grpc', 'http', 'whole', 'pyroscope', 'parca', 'later', 'later-grpc', 'down']) {
		assert.equal(m[name].profiles, count, name);
		assert.equal(m[name].samples, 20 * count, name);
		assert.equal(m[name].waiting_profiles, 0, name);
		for (const [key, value] of Object.entries(m[name])) if (key.startsWith('lost_')) assert.equal(value, 0, `${name} ${key}`);
		assert.deepEqual(
			readdirSync(`${directory}/data/forward/${name}`).filter((file) => file.endsWith('.rec')),
			[],
			name,
		);
	}
});
await test('labels and the name of a request reach the other server', async () => {
	await post(server.port, profile([[['a'], 77, {}]]), 'label=env%3Dprod&name=wall_clock');
	await until(async () => (await total(other.port, 'wall_clock{env="prod"}').catch(() => 0)) === 77, 'wall_clock');
	await until(() => pyroscope.series.some((labels) => labels.__name__ === 'wall_clock' && labels.env === 'prod'), 'pyroscope');
});
assert.equal(await server.stop(), 0);

await test('a server that is killed forwards after its next start what it had acknowledged, once', async () => {
	const end = await httpEndpoint();
	await end.close();
	const options = configure('kill', [{ name: 'end', kind: 'otlp-http', url: `http://127.0.0.1:${end.port}`, retry_max: '200ms' }]);
	expected.clear();
	const first = await startServer(`${directory}/killed`, options);
	for (let i = 0; i < 10; i++) await post(first.port, generate());
	first.child.removeAllListeners('exit');
	first.child.kill('SIGKILL');
	await new Promise((resolve) => first.child.once('exit', resolve));
	const queue = `${directory}/killed/forward/end`;
	const files = readdirSync(queue)
		.filter((file) => file.endsWith('.rec'))
		.sort();
	assert.equal(files.length, 10);
	// One of them is damaged meanwhile.
	const damaged = readFileSync(`${queue}/${files[4]}`);
	damaged[damaged.length - 9] ^= 1;
	writeFileSync(`${queue}/${files[4]}`, damaged);
	writeFileSync(`${queue}/00000000000000000099.rec.tmp`, 'half');
	const back = await httpEndpoint(undefined, end.port);
	const second = await startServer(`${directory}/killed`, options);
	await until(() => back.profiles >= 9, 'nine');
	await until(async () => (await metrics(second.port)).end.waiting_profiles === 0, 'nothing waits');
	const m = (await metrics(second.port)).end;
	assert.equal(back.profiles, 9);
	assert.equal(m['lost_profiles.damaged'], 1);
	assert.equal(m['lost_samples.damaged'], 20);
	assert.ok(existsSync(`${queue}/damaged/${files[4]}`));
	await until(() => second.log().includes(files[4]), 'said');
	assert.ok(!existsSync(`${queue}/00000000000000000099.rec.tmp`));
	assert.match(second.log(), /10 profiles for end are queued from an earlier run/);
	assert.equal(await second.stop(), 0);
	await back.close();
});
await test('what waits for a target that is gone is said, and kept for a day', async () => {
	const server = await startServer(`${directory}/killed`, configure('other', [{ name: 'else', kind: 'otlp-http', url: 'http://127.0.0.1:1' }]));
	await post(server.port, profile([[['a'], 1, {}]]));
	assert.equal(await server.stop(), 0);
	assert.deepEqual(readdirSync(`${directory}/killed/forward/end`), ['damaged'], 'an empty one is removed, but for what somebody should look at');
	// Directories of others, wherever the spool is: what is not ours to the last file is left alone.
	mkdirSync(`${directory}/killed/forward/dpkg`);
	for (const file of ['lock', 'status', '00000000000000000001.rec.tmp']) writeFileSync(`${directory}/killed/forward/dpkg/${file}`, '');
	const after = await startServer(`${directory}/killed`, configure('third', [{ name: 'third', kind: 'otlp-http', url: 'http://127.0.0.1:1' }]));
	await until(() => /1 profiles in \S+forward\/else are for a target that is no longer configured/.test(after.log()), 'said');
	assert.equal(await after.stop(), 0);
	assert.equal(readdirSync(`${directory}/killed/forward/dpkg`).length, 3);
	assert.equal(readdirSync(`${directory}/killed/forward/else`).filter((file) => file.endsWith('.rec')).length, 1);
});
await test('TLS: a server that is trusted, one that is not, one that wants a certificate; over HTTP and gRPC', async () => {
	const at = (name) => `${directory}/${name}`;
	for (const name of ['server', 'client'])
		execFileSync(
			'openssl',
			[
				'req',
				'-x509',
				'-newkey',
				'ec',
				'-pkeyopt',
				'ec_paramgen_curve:P-256',
				'-nodes',
				'-keyout',
				at(`${name}.key`),
				'-out',
				at(`${name}.pem`),
				'-days',
				'2',
				'-subj',
				`/CN=${name}`,
				'-addext',
				'subjectAltName=IP:127.0.0.1',
			],
			{ stdio: 'ignore' },
		);
	const own = { key: readFileSync(at('server.key')), cert: readFileSync(at('server.pem')) },
		mutual = { ...own, ca: readFileSync(at('client.pem')) };
	const ends = {
		http: await httpEndpoint(undefined, 0, own),
		mutual: await httpEndpoint(undefined, 0, mutual),
		grpc: await grpcEndpoint(undefined, mutual),
		stranger: await httpEndpoint(undefined, 0, own),
	};
	const target = (name, kind, tls) => ({ name, kind, url: `https://127.0.0.1:${ends[name].port}`, retry_max: '200ms', tls });
	const server = await startServer(
		`${directory}/tls`,
		configure('tls', [
			target('http', 'otlp-http', { ca_file: at('server.pem') }),
			target('mutual', 'otlp-http', { ca_file: at('server.pem'), cert_file: at('client.pem'), key_file: at('client.key') }),
			target('grpc', 'otlp-grpc', { ca_file: at('server.pem'), cert_file: at('client.pem'), key_file: at('client.key') }),
			target('stranger', 'otlp-http'),
		]),
	);
	await post(server.port, profile([[['a'], 11, {}]]));
	for (const name of ['http', 'mutual', 'grpc']) await until(() => ends[name].total() === 11n, name);
	await until(() => /cannot send to stranger.*certificate/.test(server.log()), 'the stranger is not trusted');
	assert.equal(ends.stranger.requests, 0);
	assert.equal((await metrics(server.port)).stranger.waiting_profiles, 1);
	assert.equal(await server.stop(), 0);
});
await test("the queue's bound holds while the endpoint stays away: the oldest go, and are counted", async () => {
	const gone = await httpEndpoint();
	await gone.close();
	const absent = await startServer(`${directory}/absent`);
	assert.equal(await absent.stop(), 0);
	const full = await startServer(
		`${directory}/full`,
		configure('full', [
			{ name: 'gone', kind: 'otlp-http', url: `http://127.0.0.1:${gone.port}`, spool: { size: '1MiB' } },
			{ name: 'absent', kind: 'wick', url: absent.url, spool: { size: '1MiB' }, retry_max: '200ms' },
		]),
	);
	// Names that do not compress: some 100 kB each.
	const noise = () => Array.from({ length: 4000 }, () => random(2 ** 52).toString(36) + random(2 ** 52).toString(36)).join('');
	for (let i = 0; i < 20; i++) await post(full.port, profile([[[noise(), 'main'], 5, {}]]));
	const m = (await metrics(full.port)).gone;
	const files = readdirSync(`${directory}/full/forward/gone`).filter((file) => file.endsWith('.rec'));
	assert.ok(m.waiting_bytes <= 1 << 20 && m.waiting_bytes > 1 << 19, `${m.waiting_bytes}`);
	assert.equal(m['lost_profiles.full'] + m.waiting_profiles, 20);
	assert.ok(m['lost_profiles.full'] > 0);
	assert.equal(files.length, m.waiting_profiles);
	assert.equal(files.sort()[0], `${String(m['lost_profiles.full']).padStart(20, '0')}.rec`);
	assert.equal(await total(full.port, 'process_cpu'), 100);
	// A Wick server is told, when it is back, what it will not get.
	const lost = (await metrics(full.port)).absent['lost_profiles.full'];
	const back = await startServer(`${directory}/absent`, ['--listen', `127.0.0.1:${absent.port}`]);
	await until(async () => (await metrics(full.port)).absent.waiting_profiles === 0, 'nothing waits');
	const told = (await request(back.port, 'GET', '/metrics')).body.toString();
	assert.ok(lost > 0);
	assert.equal(Number(told.match(/^wick_ingest_lost_profiles_total (\d+)$/m)[1]), lost);
	assert.equal(Number(told.match(/^wick_ingest_lost_samples_total (\d+)$/m)[1]), lost);
	assert.equal(await total(back.port, 'process_cpu'), 5 * (20 - lost));
	assert.equal(await back.stop(), 0);
	assert.equal(await full.stop(), 0);
});
await test('heap profiles without a sample, or of zeros, arrive, so that averages are the same', async () => {
	const from = await startServer(`${directory}/zeros`, [
		...configure('zeros', [
			{ name: 'all', kind: 'wick', url: other.url },
			{ name: 'none', kind: 'otlp-http', url: 'http://127.0.0.1:9', selector: '{service_name="nobody"}' },
		]),
	]);
	const now = Date.now();
	for (const [stacks, ago] of [
		[[[['leaf', 'main'], 900]], 3],
		[[], 2],
		[[[['leaf', 'main'], 0]], 1],
	])
		await post(
			from.port,
			pprofProfile(stacks, { type: 'inuse_space', unit: 'bytes', timeNs: BigInt(now - ago * 1000) * 1000000n }),
			'label=service_name%3Dzeros',
		);
	const selector = 'memory:inuse_space{service_name="zeros"}';
	assert.equal(await total(from.port, selector), 300);
	await until(async () => (await metrics(from.port)).all?.profiles === 3, 'all three were forwarded');
	assert.equal(await total(other.port, selector), 300);
	assert.equal((await metrics(from.port)).none?.waiting_profiles ?? 0, 0);
	assert.equal(await from.stop(), 0);
});
finish();
