// SPDX-License-Identifier: Apache-2.0
// A server without tokens and the users of its machine: who changes, who reads, whom addresses are hidden from; clients that close at once; pages of other
// sites; headers of all answers.
import assert from 'node:assert/strict';
import { execFile, spawn, spawnSync } from 'node:child_process';
import { chownSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { createHash } from 'node:crypto';
import { startServer, request, pprofProfile, temporaryDirectory, test, finish, skip, wick, intField, bytesField, varint } from '../harness.mjs';

const run = promisify(execFile);
const directory = temporaryDirectory(),
	data = `${directory}/data`,
	config = `${directory}/wick.yaml`,
	owner = 61001, // ids that no machine has
	other = 61002,
	third = 61003;
const can = process.getuid() === 0 && spawnSync('setpriv', [`--reuid=${other}`, `--regid=${other}`, '--clear-groups', wick, '--version']).status === 0;
if (!can) {
	skip('users of the machine', 'not root, setpriv is not installed, or other users cannot run the program');
	finish();
	process.exit();
}
mkdirSync(data);
chownSync(data, owner, owner);
let server;
const start = async (text = '') => {
	writeFileSync(config, `symbols: {debuginfod: {urls: []}}\nhost_files: false\n${text}`);
	server = await startServer(data, ['--config', config], ':', owner);
};
// A request by curl of that user: { status, text, headers }.
async function call(user, method, path, { body, headers = {}, options = [] } = {}) {
	const words = [`--reuid=${user}`, `--regid=${user}`, '--clear-groups', 'curl', '-s', '-S', '--max-time', '60', '-D', '-', '-X', method, ...options];
	for (const [name, value] of Object.entries(headers)) words.push('-H', `${name}: ${value}`);
	if (body) words.push('--data-binary', '@-');
	const child = run('setpriv', [...words, `${server.url}${path}`], { encoding: 'buffer', maxBuffer: 1 << 26 });
	if (body) child.child.stdin.end(body);
	const all = (await child).stdout,
		at = all.indexOf('\r\n\r\n'),
		head = all.subarray(0, at).toString();
	return { status: Number(head.match(/^HTTP\/\S+ (\d+)/)[1]), head, text: all.subarray(at + 4).toString(), body: all.subarray(at + 4) };
}
const json = (value) => ({ body: JSON.stringify(value), headers: { 'content-type': 'application/json' } });
const now = Date.now(),
	range = `from=${now - 3600000}&to=${now + 60000}`;
const profile = (name) => pprofProfile([[[name, 'main'], 1000]], { timeNs: BigInt(now - 60000) * 1000000n, durationNs: 1e10 });
const reads = [
	`/api/v1/types?${range}`,
	`/api/v1/query?query=process_cpu&${range}&format=folded`,
	'/api/v1/status',
	'/api/v1/recordings',
	'/',
	'/metrics',
	'/api/v1/binaries',
];
const changes = [
	['POST', `/api/v1/delete?query=no_such_type&${range}`],
	['POST', '/api/v1/compact'],
	['PUT', '/api/v1/queries/mine', json({ title: 'mine', query: 'process_cpu' })],
	['POST', '/api/v1/recordings', json({ seconds: 1, hosts: ['x'] })],
	['DELETE', '/api/v1/recordings/0123456789abcdef'],
	['DELETE', `/api/v1/snapshots/${'0'.repeat(32)}`],
	['POST', '/api/v1/debuginfo/uploads', json({ build_id: 'abcd', kind: 'sources', size: 100 })],
	['POST', '/api/v1/debuginfo/wanted', json({ binaries: [] })],
	['POST', '/api/v1/agents/poll', json({ version: 1, agent: 'a'.repeat(16), host: 'h', wick: '9' })],
	['POST', '/settings.v1.SettingsService/Set', json({ setting: { name: 'a', value: 'b' } })],
	['POST', '/api/v1/reload'],
	['POST', '/api/v1/backup'],
];

await start('local: {read: owner}\n');
await test('the owner of the data directory and root may do everything, others nothing but send profiles', async () => {
	for (const user of [owner, 0, other]) {
		const sent = await call(user, 'POST', '/api/v1/ingest?name=process_cpu', { body: profile(`leaf_of_${user}`) });
		assert.equal(sent.status, 200, sent.text);
		assert.equal((await call(user, 'GET', '/healthz')).status, 200);
	}
	for (const user of [owner, 0, other]) {
		const may = user !== other;
		const all = [...reads.map((path) => ['GET', path, {}]), ...changes];
		await Promise.all(
			all.map(async ([method, path, options]) => {
				const { status, text } = await call(user, method, path, options);
				if (may) assert.notEqual(status, 403, `${method} ${path} by ${user}: ${text}`);
				else assert.equal(status, 403, `${method} ${path}: ${status} ${text}`);
			}),
		);
	}
	assert.match((await call(owner, 'GET', `/api/v1/query?query=process_cpu&${range}&format=folded`)).text, new RegExp(`leaf_of_${other}`));
});
await test('a refusal says who may, and how', async () => {
	const read = await call(other, 'GET', '/api/v1/status'),
		change = await call(other, 'POST', '/api/v1/compact');
	for (const { text } of [read, change])
		assert.match(JSON.parse(text).error, new RegExp(`user id ${other} may not .* only root, uid ${owner} may .*local\\.users.*wick token create`));
	assert.match(read.text, /local\.read/);
	const grpc = await call(other, 'POST', '/parca.query.v1alpha1.QueryService/ProfileTypes', {
		headers: { 'content-type': 'application/grpc+proto', te: 'trailers' },
		options: ['--http2-prior-knowledge'],
	});
	assert.match(grpc.head, /grpc-status: 7/);
	assert.equal((await call(other, 'GET', '/api/v1/status', { options: ['--http2-prior-knowledge'] })).status, 403);
	assert.equal((await call(owner, 'GET', '/api/v1/status', { options: ['--http2-prior-knowledge'] })).status, 200);
});
await test('several requests of one connection are of one user', async () => {
	const words = [
		`--reuid=${other}`,
		`--regid=${other}`,
		'--clear-groups',
		'curl',
		'-s',
		'-w',
		'%{http_code}:%{num_connects} ',
		'-o',
		'/dev/null',
		`${server.url}/healthz`,
	];
	for (let i = 0; i < 3; i++) words.push('-o', '/dev/null', `${server.url}/api/v1/status`);
	assert.equal((await run('setpriv', words)).stdout.trim(), '200:1 403:0 403:0 403:0');
});
// The kernel says of a socket that is closed that it is root's.
await test('who sends a request and closes at once is nobody', async () => {
	assert.ok((await call(owner, 'PUT', '/api/v1/queries/kept', json({ title: 'kept', query: 'process_cpu' }))).status < 300);
	const script = `
import socket, struct
for i in range(300):
    s = socket.create_connection(('127.0.0.1', ${server.port}))
    if i % 3 == 1:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
    s.sendall(b'DELETE /api/v1/queries/kept HTTP/1.1\\r\\nHost: localhost\\r\\nContent-Length: 0\\r\\n\\r\\n')
    if i % 3 == 2:
        s.shutdown(socket.SHUT_WR)
    s.close()
`;
	const { status, stderr } = spawnSync('setpriv', [`--reuid=${other}`, `--regid=${other}`, '--clear-groups', 'python3', '-c', script], {
		encoding: 'utf8',
		timeout: 60000,
	});
	assert.equal(status, 0, stderr);
	// The same by a process that forks and ends, from many at once.
	const children = Array.from({ length: 20 }, () =>
		spawn('setpriv', [`--reuid=${other}`, `--regid=${other}`, '--clear-groups', 'python3', '-c', script.replace('300', '20')], { stdio: 'ignore' }),
	);
	await Promise.all(children.map((child) => new Promise((resolve) => child.once('exit', resolve))));
	assert.equal((await call(owner, 'GET', '/api/v1/queries/kept')).status, 200);
	assert.equal((await call(owner, 'DELETE', '/api/v1/queries/kept')).status, 200);
});
await test('what changes something does not come from another site', async () => {
	for (const site of ['cross-site', 'same-site']) {
		const { status, text } = await call(owner, 'POST', '/api/v1/compact', { headers: { 'sec-fetch-site': site } });
		assert.deepEqual([status, JSON.parse(text).error], [403, 'cross-site requests are rejected']);
	}
	for (const site of ['same-origin', 'none']) assert.equal((await call(owner, 'POST', '/api/v1/compact', { headers: { 'sec-fetch-site': site } })).status, 200);
	const crossOrigin = await call(owner, 'POST', '/api/v1/compact', { headers: { origin: 'http://evil.example' } });
	assert.equal(crossOrigin.status, 403);
});
await test('all answers are for pages of the same origin; an SVG has a policy of its own', async () => {
	for (const path of ['/', '/app.js', '/healthz', '/metrics', '/api/v1/status', '/no/such/page', `/api/v1/query?query=process_cpu&${range}&format=pprof`]) {
		const { head } = await call(owner, 'GET', path);
		assert.match(head, /cross-origin-resource-policy: same-origin\r?$/im, path);
	}
	assert.match((await call(other, 'GET', '/')).head, /cross-origin-resource-policy: same-origin/i);
	const svg = await call(owner, 'GET', `/api/v1/query?query=process_cpu&${range}&format=svg`),
		script = svg.text.match(/<script><!\[CDATA\[([^]*)\]\]><\/script>/)[1],
		hash = createHash('sha256').update(script).digest('base64'),
		[policy] = svg.head.match(/content-security-policy: .*/i);
	assert.ok(policy.includes(`script-src 'sha256-${hash}'`), policy);
	assert.match(policy, /default-src 'none'.*sandbox allow-scripts/);
	assert.ok(!/ (on\w+|style)=/.test(svg.text), 'the policy allows no such attribute');
});

// ---- configured

// Addresses in memory that is no file, and in a file where it was mapped.
function addresses() {
	const strings = ['', 'cpu', 'nanoseconds', '[anon]', '/usr/bin/app', 'abcdef0123456789'];
	const mapping = (id, start, limit, offset, name, build) =>
		bytesField(3, [...intField(1, id), ...intField(2, start), ...intField(3, limit), ...intField(4, offset), ...intField(5, name), ...intField(6, build)]);
	return Buffer.from([
		...bytesField(1, [...intField(1, 1), ...intField(2, 2)]),
		...bytesField(2, [...bytesField(1, [...varint(1), ...varint(2)]), ...bytesField(2, varint(100))]),
		...mapping(1, 0, 0xffff_ffff_ffff_ffffn, 0, 3, 0), // as agents have it
		...mapping(2, 0x5555_6666_1000n, 0x5555_6666_3000n, 0x1000, 4, 5),
		...bytesField(4, [...intField(1, 1), ...intField(2, 1), ...intField(3, 0x7f11_2233_4455n)]),
		...bytesField(4, [...intField(1, 2), ...intField(2, 2), ...intField(3, 0x5555_6666_1234n)]),
		...strings.flatMap((text) => bytesField(6, text)),
		...intField(9, BigInt(now - 30000) * 1000000n),
		...intField(10, 10000000000n),
	]);
}
await test('where all may read, addresses of processes are hidden from others than the owner', async () => {
	assert.equal(await server.stop(), 0);
	await start('local: {read: anyone, write: owner}\n');
	assert.equal((await call(owner, 'POST', '/api/v1/ingest?name=placed', { body: addresses() })).status, 200);
	assert.equal((await call(other, 'POST', '/api/v1/ingest?name=placed', { body: addresses() })).status, 403);
	const seen = async (user, path) => {
		const { status, body } = await call(user, 'GET', path);
		assert.equal(status, 200, `${path}: ${body}`);
		return body.toString('latin1');
	};
	const secret = /7f11223|140124[0-9]{9}|5555666/i; // hexadecimal, and as JSON has numbers
	const query = `query=placed&${range}`;
	for (const path of [
		`/api/v1/query?${query}&format=folded`,
		`/api/v1/query?${query}&format=json`,
		`/api/v1/query?${query}&format=speedscope`,
		`/api/v1/query?${query}&format=firefox`,
		`/api/v1/query?${query}&format=svg`,
		`/api/v1/query?${query}`,
		`/api/v1/pipeline?q=${encodeURIComponent('placed | top 5')}&${range}`,
		`/pyroscope/render?query=${encodeURIComponent('placed:cpu:nanoseconds::{}')}&from=now-1h&format=json`,
	]) {
		assert.doesNotMatch(await seen(other, path), secret, path);
		await seen(owner, path);
	}
	assert.match(await seen(owner, `/api/v1/query?${query}&format=folded`), /7f11223/i);
	// A file's code is named by its offset, which says nothing.
	assert.match(await seen(other, `/api/v1/query?${query}&format=folded`), /app\+0x1234/);
	// Nor do conditions tell where it lies.
	const asks = async (user, text) =>
		(await seen(user, `/api/v1/query?query=${encodeURIComponent(`placed | frames =~ "${text}"`)}&${range}&format=folded`)).length > 0;
	const found = await Promise.all([asks(owner, '.*0x7f11.*'), asks(other, '.*0x7f11.*'), asks(other, '.*0x7f1.*')]);
	assert.deepEqual(found, [true, false, false]);
	assert.equal((await call(other, 'POST', '/api/v1/compact')).status, 403);
});
await test('local.users may do what the owner may; the default for reading is what the kernel lets everybody sample', async () => {
	assert.equal(await server.stop(), 0);
	await start(`local: {users: [nobody, ${third}]}\n`);
	assert.equal((await call(third, 'POST', '/api/v1/compact')).status, 200);
	assert.equal((await call(65534, 'POST', '/api/v1/compact')).status, 200);
	const open = Number(readFileSync('/proc/sys/kernel/perf_event_paranoid', 'utf8')) <= 0;
	assert.equal((await call(other, 'GET', '/api/v1/status')).status, open ? 200 : 403);
	assert.equal((await call(other, 'POST', '/api/v1/compact')).status, 403);
	assert.equal((await call(other, 'POST', '/api/v1/ingest?name=process_cpu', { body: profile('x') })).status, 200);
});
await test('a token says who it is, whoever the user', async () => {
	assert.equal(await server.stop(), 0);
	await start('token: 0123456789abcdef\n');
	const headers = { authorization: 'Bearer 0123456789abcdef' };
	assert.equal((await call(other, 'POST', '/api/v1/compact', { headers })).status, 200);
	assert.equal((await call(other, 'GET', '/api/v1/status', { headers })).status, 200);
	assert.equal((await call(owner, 'GET', '/api/v1/status')).status, 401);
	assert.equal((await request(server.port, 'GET', '/api/v1/status')).status, 401);
	assert.equal(await server.stop(), 0);
});
const namespaced = spawnSync('unshare', ['--user', '--map-root-user', 'true']).status === 0;
if (!namespaced) skip('a user namespace that knows root only', 'unshare --user does not work here');
else
	await test('in a user namespace that knows root only, all others are nobody', async () => {
		const own = `${directory}/namespaced`,
			child = spawn('unshare', ['--user', '--map-root-user', wick, 'server', '--data', own, '--listen', '127.0.0.1:0', '--local-users', '65534'], {
				stdio: ['ignore', 'ignore', 'pipe'],
			});
		process.on('exit', () => child.kill('SIGKILL'));
		const port = await new Promise((resolve, reject) => {
			let log = '';
			child.stderr.on('data', (chunk) => {
				log += chunk;
				const match = log.match(/http:\/\/127\.0\.0\.1:(\d+)/);
				if (match) resolve(match[1]);
			});
			child.once('exit', (code) => reject(new Error(`server ended with ${code}: ${log}`)));
		});
		server = { url: `http://127.0.0.1:${port}` };
		assert.equal((await call(0, 'POST', '/api/v1/compact')).status, 200);
		for (const user of [other, 65534]) {
			const { status, text } = await call(user, 'POST', '/api/v1/compact');
			assert.deepEqual([status, /user namespace does not know it/.test(text)], [403, true], text);
		}
		child.removeAllListeners('exit');
		child.kill('SIGTERM');
	});
await test('settings that make no sense', () => {
	for (const [text, message] of [
		['local: {users: [no-such-user-here]}', /there is no user 'no-such-user-here'/],
		['local: {users: root}', /must be a list/],
		['local: {read: everybody}', /must be kernel, owner or anyone/],
		['local: {write: kernel}', /must be owner or anyone/],
	]) {
		writeFileSync(`${directory}/bad.yaml`, `${text}\n`);
		const { stderr } = spawnSync(wick, ['server', '--data', `${directory}/bad`, '--listen', '127.0.0.1:0', '--config', `${directory}/bad.yaml`], {
			encoding: 'utf8',
			timeout: 20000,
		});
		assert.match(stderr, message);
	}
});
finish();
