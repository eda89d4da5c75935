// SPDX-License-Identifier: Apache-2.0
// Who may do what: every route with a token of every role and tenant against the table in docs/api.md, which the sources and docs/openapi.json must agree
// with; tenants that try another's data; tokens that change while the server runs; delays; the audit log.
import assert from 'node:assert/strict';
import http2 from 'node:http2';
import { chmodSync, existsSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { execFileSync, spawnSync } from 'node:child_process';
import { findRoute, readRoutes } from '../lib/routes.mjs';
import { startServer, request, pprofProfile, temporaryDirectory, test, finish, wick } from '../harness.mjs';

const routes = readRoutes(),
	roles = ['agent', 'write', 'read', 'record', 'admin'],
	directory = temporaryDirectory(),
	file = `${directory}/tokens.yaml`,
	audit = `${directory}/audit.log`;
const create = (name, ...options) => execFileSync(wick, ['token', 'create', '--file', file, '--name', name, ...options], { encoding: 'utf8' }).trim();
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
async function until(what, check) {
	for (let i = 0; i < 300; i++) {
		if (await check()) return;
		await sleep(100);
	}
	assert.fail(`${what} did not happen`);
}

// ---- the table

// [{ permission, roles, all, pattern, method }] of docs/api.md
const documented = readFileSync('docs/api.md', 'utf8')
	.split('\n')
	.filter((line) => /^\| (open|read|write|upload|agent|record|admin)( server)? \|/.test(line))
	.flatMap((line) => {
		const [, permission, who, tenants, calls] = line.split('|').map((cell) => cell.trim());
		const names = permission === 'open' ? null : [...who.matchAll(/`(\w+)`/g)].map((m) => m[1]);
		return [...calls.matchAll(/`(?:(\w+) )?(\/[^`]*)`/g)].map(([, method, path]) => ({ permission, roles: names, all: tenants === 'all', method, path }));
	});
function documentedFor(route) {
	const path = route.path.replace(/^\/api\/parca\./, '/parca.'),
		pattern = (d) => (path.endsWith('*') ? d.path === path : d.path.endsWith('*') ? path.startsWith(d.path.slice(0, -1)) : d.path === path);
	return documented
		.filter((d) => (d.method ? d.method === route.method : true) && pattern(d) && (d.method || path.includes('.')))
		.sort((a, b) => a.path.length - b.path.length)
		.at(-1);
}
await test('docs/api.md has the roles of every route, and no other routes', () => {
	assert.ok(routes.length > 250 && documented.length > 80, `${routes.length} routes, ${documented.length} documented`);
	const used = new Set();
	for (const route of routes) {
		const row = documentedFor(route);
		assert.ok(row, `${route.method} ${route.path} is not in the table`);
		assert.equal(row.permission, route.permission, `${route.method} ${route.path}`);
		used.add(row);
	}
	for (const row of documented) assert.ok(used.has(row), `${row.method ?? ''} ${row.path} is not a route`);
});
await test('docs/openapi.json has the same roles', () => {
	const doc = JSON.parse(readFileSync('docs/openapi.json'));
	let count = 0;
	for (const [path, item] of Object.entries(doc.paths))
		for (const method of ['get', 'put', 'post', 'delete'].filter((m) => item[m])) {
			const route = findRoute(routes, method.toUpperCase(), path.replace(/\{\w+\}/g, 'x')),
				row = documentedFor(route);
			const named = item[method].security.filter((s) => Object.keys(s).length);
			assert.deepEqual(named.map((s) => Object.keys(s)[0]).sort(), ['password', 'token'], `${method} ${path}`);
			for (const one of named) assert.deepEqual([...Object.values(one)[0]].sort(), [...row.roles].sort(), `${method} ${path}`);
			count++;
		}
	assert.ok(count > 50);
});

// ---- a server

const tokens = {};
for (const role of roles) {
	tokens[role] = create(role, '--role', role, '--tenant', '*');
	tokens[`${role}-a`] = create(`${role}-a`, '--role', role, '--tenant', 'team-a', '--expires', '1d');
}
tokens['read-ab'] = create('read-ab', '--role', 'read', '--tenant', 'team-a', '--tenant', 'team-b');
tokens['read-none'] = create('read-none', '--role', 'read');
writeFileSync(`${directory}/wick.yaml`, `tenants: true\ntoken: the-old-one\notlp: {grpc_listen: 127.0.0.1:0}\naudit: {file: ${audit}}\ntokens: ${file}\n`);
const server = await startServer(`${directory}/data`, ['--config', `${directory}/wick.yaml`]);
const bearer = (token, tenant) => ({ ...(token ? { authorization: `Bearer ${token}` } : {}), ...(tenant === undefined ? {} : { 'x-scope-orgid': tenant }) });
const ask = (method, path, token, { tenant, body, headers } = {}) =>
	request(server.port, method, path, { body, headers: { ...bearer(token, tenant), ...headers } });
const lines = () =>
	existsSync(audit)
		? readFileSync(audit, 'utf8')
				.split('\n')
				.filter(Boolean)
				.map((line) => JSON.parse(line))
		: [];

await test('the file has hashes only, and is for its owner', () => {
	const text = readFileSync(file, 'utf8');
	for (const token of Object.values(tokens)) {
		assert.match(token, /^wick_[0-9a-f]{64}$/);
		assert.ok(!text.includes(token.slice(5)));
	}
	assert.equal(statSync(file).mode & 0o777, 0o600);
});
await test('every route with a token of every role and tenant', async () => {
	let allowed = 0,
		refused = 0;
	for (const { method, path } of routes) {
		const row = documentedFor({ method, path }),
			target = path.replace('*', path === '/*' ? 'no-such-page' : 'x') + (path.endsWith('/profile') && path.startsWith('/debug') ? '?seconds=1' : '');
		const check = async (who, token, wanted, options) => {
			const { status, body } = await ask(method, target, token, options);
			if (wanted) assert.ok(status === wanted, `${method} ${path} by ${who}: ${status}, not ${wanted}: ${body.subarray(0, 200)}`);
			else assert.ok(![401, 403].includes(status), `${method} ${path} by ${who}: ${status} ${body.subarray(0, 200)}`);
			if (wanted) refused++;
			else allowed++;
		};
		const open = row.roles === null;
		await check('nobody', undefined, open ? 0 : 401);
		for (const role of roles) {
			const has = open || row.roles.includes(role);
			// One that is long, or in the way of others, is made once.
			if (!has || role === 'admin' || !path.startsWith('/debug/pprof/')) await check(role, tokens[role], has ? 0 : 403);
			await check(`${role} of team-a`, tokens[`${role}-a`], has && (open || !row.all) ? 0 : 403);
			await check(`${role} of team-a for team-b`, tokens[`${role}-a`], open ? 0 : 403, { tenant: 'team-b' });
		}
		if (!path.startsWith('/debug/pprof/')) await check('the token of the configuration', 'the-old-one', 0);
	}
	console.log(`    ${routes.length} routes: ${allowed} calls allowed, ${refused} refused`);
	assert.ok(allowed > 1000 && refused > 2000);
});
await test('paths that are none, and methods that a path has not, say nothing without a token', async () => {
	for (const [method, path] of [
		['POST', '/no/such/path'],
		['PATCH', '/api/v1/types'],
		['DELETE', '/metrics'],
	]) {
		assert.equal((await ask(method, path)).status, 401, `${method} ${path}`);
		assert.ok([404, 405].includes((await ask(method, path, tokens['agent-a'])).status), `${method} ${path}`);
	}
});
await test('Basic authentication with the token as password', async () => {
	const basic = (token) => ({ authorization: `Basic ${Buffer.from(`anybody:${token}`).toString('base64')}` });
	assert.equal((await ask('GET', '/api/v1/status', undefined, { headers: basic(tokens['read-a']) })).status, 200);
	assert.equal((await ask('GET', '/api/v1/status', undefined, { headers: basic(tokens['agent-a']) })).status, 403);
});
function grpc(path, token, url = server.url) {
	return new Promise((resolve, reject) => {
		const session = http2.connect(url);
		session.on('error', reject);
		const stream = session.request({ ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers', ...bearer(token) });
		let status;
		stream.on('response', (headers) => (status = headers['grpc-status'] ?? status));
		stream.on('trailers', (headers) => (status = headers['grpc-status'] ?? status));
		stream.on('close', () => {
			session.close();
			resolve(Number(status));
		});
		stream.on('error', reject);
		stream.resume();
		stream.end(Buffer.alloc(5));
	});
}
await test('gRPC: UNAUTHENTICATED, PERMISSION_DENIED, and streams likewise', async () => {
	const otlp = '/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export';
	for (const path of [otlp, '/parca.debuginfo.v1alpha1.DebuginfoService/Upload', '/parca.profilestore.v1alpha1.ProfileStoreService/Write']) {
		assert.equal(await grpc(path), 16, path);
		assert.equal(await grpc(path, tokens['read-a']), 7, path);
		assert.ok(![7, 16].includes(await grpc(path, tokens['write-a'])), path);
	}
	assert.equal(await grpc('/parca.query.v1alpha1.QueryService/ProfileTypes', tokens['agent-a']), 7);
	assert.equal(await grpc('/parca.query.v1alpha1.QueryService/ProfileTypes', tokens['read-a']), 0);
});
await test('the port for OTLP has the same tokens', async () => {
	let port;
	await until('the port', () => (port = server.log().match(/OTLP on (127\.0\.0\.1:\d+)/)?.[1]));
	const otlp = '/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export';
	assert.equal(await grpc(otlp, undefined, `http://${port}`), 16);
	assert.equal(await grpc(otlp, tokens['read-a'], `http://${port}`), 7);
	assert.ok(![7, 16].includes(await grpc(otlp, tokens['agent-a'], `http://${port}`)));
});

// ---- tenants

const now = Date.now(),
	range = `from=${now - 3600000}&to=${now + 60000}`;
const profile = (name) => pprofProfile([[[`leaf_${name}`, 'main'], 1000]], { timeNs: BigInt(now - 60000) * 1000000n, durationNs: 1e10 });
await test('each token stores in its own tenant, whatever the header says', async () => {
	for (const [token, tenant, stored] of [
		[tokens['write-a'], undefined, 'a'],
		[tokens.write, 'team-b', 'b'],
		[tokens.write, undefined, 'default'],
	]) {
		const response = await ask('POST', `/api/v1/ingest?name=process_cpu&label=service_name%3Dsecret_${stored}`, token, { tenant, body: profile(stored) });
		assert.equal(response.status, 200, response.body);
	}
	assert.equal((await ask('POST', '/api/v1/ingest?name=process_cpu', tokens['write-a'], { tenant: 'team-b', body: profile('x') })).status, 403);
	assert.equal((await ask('POST', '/api/v1/ingest?name=process_cpu', tokens['write-a'], { tenant: 'anonymous', body: profile('x') })).status, 403);
});
await test('what reads shows its own tenant only', async () => {
	const q = encodeURIComponent,
		paths = [
			`/api/v1/types?${range}`,
			`/api/v1/labels?${range}`,
			`/api/v1/label-values?label=service_name&${range}`,
			`/api/v1/label/service_name/values?${range}`,
			`/api/v1/services?query=process_cpu&${range}`,
			`/api/v1/cardinality?${range}`,
			`/api/v1/query?query=process_cpu&${range}&format=folded`,
			`/api/v1/query?query=process_cpu&${range}&format=top`,
			`/api/v1/series?query=process_cpu&by=service_name&${range}`,
			`/api/v1/pipeline?q=${q('process_cpu | group by service_name | sum')}&${range}`,
			`/api/v1/compare?query=process_cpu&label=service_name&${range}`,
			`/api/v1/diff?query=process_cpu&shift=10m&${range}`,
			'/api/v1/blocks',
			'/api/v1/slow',
			'/api/v1/status',
			`/pyroscope/render?query=${q('process_cpu:cpu:nanoseconds:cpu:nanoseconds{}')}&from=now-1h`,
			`/label-values?label=service_name`,
		];
	let shown = 0;
	for (const path of paths)
		for (const [token, tenant, own] of [
			[tokens['read-a'], undefined, 'a'],
			[tokens['read-ab'], 'team-b', 'b'],
			[tokens['read-none'], undefined, 'default'],
			[tokens.admin, undefined, 'default'],
			[tokens['record-a'], 'team-a', 'a'],
		]) {
			const { status, body } = await ask('GET', path, token, { tenant }),
				others = ['a', 'b', 'default'].filter((name) => name !== own);
			assert.equal(status, 200, `${path}: ${body}`);
			for (const other of others) assert.ok(!new RegExp(`(secret|leaf)_${other}`).test(body.toString()), `${path} of ${own} shows ${other}: ${body}`);
			shown += body.toString().includes(`_${own}`);
		}
	assert.ok(shown >= 40, `${shown} answers show their own`);
});
await test('what others have is not found by its id', async () => {
	const json = (value) => Buffer.from(JSON.stringify(value)),
		asB = (method, path, body) => ask(method, path, tokens.admin, { tenant: 'team-b', body: body && json(body) }),
		idOf = (response) => {
			assert.equal(response.status, 201, response.body);
			return JSON.parse(response.body).id;
		};
	const snapshot = idOf(await asB('POST', '/api/v1/snapshots', { title: 'b', path: '/?q=1', responses: [{ url: '/api/v1/status', body: {} }] }));
	assert.ok((await asB('PUT', '/api/v1/queries/mine', { title: 'Mine', query: 'process_cpu' })).status < 300);
	const poll = () => asB('POST', '/api/v1/agents/poll', { version: 1, agent: 'b'.repeat(16), host: 'hb', wick: '9' });
	assert.equal((await poll()).status, 200);
	const recording = idOf(await asB('POST', '/api/v1/recordings', { seconds: 1, hosts: ['hb'] })),
		[{ key }] = JSON.parse((await poll()).body).orders;
	const upload = idOf(await asB('POST', '/api/v1/debuginfo/uploads', { build_id: '00112233445566778899aabbccddeeff00112233', size: 10, kind: 'sources' }));
	for (const [method, path, headers] of [
		['GET', `/api/v1/snapshots/${snapshot}`],
		['DELETE', `/api/v1/snapshots/${snapshot}`],
		['GET', '/api/v1/queries/mine'],
		['DELETE', '/api/v1/queries/mine'],
		['GET', `/api/v1/recordings/${recording}`],
		['GET', `/api/v1/recordings/${recording}/profile`],
		['DELETE', `/api/v1/recordings/${recording}`],
		['POST', `/api/v1/recordings/${recording}/hosts/hb`, { 'x-wick-key': key, 'content-type': 'application/json' }],
	]) {
		const response = await ask(method, path, tokens['admin-a'], { headers });
		assert.ok([403, 404].includes(response.status), `${method} ${path}: ${response.status} ${response.body}`);
	}
	for (const path of [`/api/v1/snapshots/${snapshot}`, '/api/v1/queries/mine', `/api/v1/recordings/${recording}`])
		assert.equal((await asB('GET', path)).status, 200, `${path} is there`);
	for (const path of ['/api/v1/snapshots', '/api/v1/recordings', '/api/v1/queries', '/api/v1/agents']) {
		const text = (await ask('GET', path, tokens['read-a'])).body.toString();
		for (const secret of [snapshot, recording, '"mine"', '"hb"']) assert.ok(!text.includes(secret), `${path}: ${text}`);
	}
	const piece = await ask('PUT', `/api/v1/debuginfo/uploads/${upload}?offset=0`, tokens['write-a'], { body: Buffer.from('12345') });
	assert.ok([403, 404].includes(piece.status), `an upload of another tenant: ${piece.status} ${piece.body}`);
});
await test('an admin of a tenant deletes there and nowhere else', async () => {
	const all = encodeURIComponent('{service_name=~".+"}');
	const response = await ask('POST', `/api/v1/delete?query=${all}&${range}`, tokens['admin-a']);
	assert.equal(response.status, 200, response.body);
	const folded = async (tenant) => (await ask('GET', `/api/v1/query?query=process_cpu&${range}&format=folded`, tokens.admin, { tenant })).body.toString();
	assert.ok(!(await folded('team-a')).includes('leaf_a'));
	assert.match(await folded('team-b'), /leaf_b/);
	assert.match(await folded(undefined), /leaf_default/);
});

// ---- changes

await test('a token that is revoked is refused a second later, a new one works, and nothing restarts', async () => {
	const status = async (token) => (await ask('GET', '/api/v1/status', token)).status;
	const fresh = create('fresh', '--role', 'read', '--tenant', 'team-a');
	await until('the new token', async () => (await status(fresh)) === 200);
	execFileSync(wick, ['token', 'revoke', 'fresh', '--file', file]);
	await until('the revocation', async () => (await status(fresh)) === 401);
	assert.equal(await status(tokens['read-a']), 200);
	const soon = create('soon', '--role', 'read', '--tenant', 'team-a', '--expires', '6s');
	await until('the token', async () => (await status(soon)) === 200);
	await until('its end', async () => (await status(soon)) === 401);
	assert.match((await ask('GET', '/api/v1/status', soon)).body.toString(), /has expired/);
});
await test('a file that is wrong changes nothing, and is said once', async () => {
	const good = readFileSync(file);
	const failures = async () => Number((await ask('GET', '/metrics', tokens.read)).body.toString().match(/^wick_server_auth_reload_failures_total (\d+)$/m)[1]);
	const before = await failures();
	for (const bad of ['', 'tokens:\n  - name: half', `${good}\n  - {name: x, role: root, certificate: y}\n`]) {
		const count = await failures();
		writeFileSync(file, bad);
		await until('the failure', async () => (await failures()) > count);
		assert.equal((await ask('GET', '/api/v1/status', tokens['read-a'])).status, 200);
	}
	assert.match((await ask('GET', '/metrics', tokens.read)).body.toString(), /^wick_server_auth_tokens_current 0$/m);
	chmodSync(file, 0o622);
	writeFileSync(file, good);
	await sleep(2500);
	assert.match((await ask('GET', '/metrics', tokens.read)).body.toString(), /^wick_server_auth_tokens_current 0$/m, 'others may write it');
	chmodSync(file, 0o600);
	await until('the good file', async () => /^wick_server_auth_tokens_current 1$/m.test((await ask('GET', '/metrics', tokens.read)).body));
	const total = (await failures()) - before;
	assert.equal(server.log().split('stay in use').length - 1, total, server.log());
});
await test('wrong tokens make their address wait, and not who was there before', async () => {
	const guess = () => ask('GET', '/api/v1/status', `wick_${'0'.repeat(64)}`);
	let status;
	for (let i = 0; i < 20 && (status = (await guess()).status) !== 429; i++) assert.equal(status, 401);
	assert.equal(status, 429);
	assert.ok(Number((await guess()).headers['retry-after']) >= 1);
	assert.equal((await ask('GET', '/api/v1/status', tokens['read-a'])).status, 200);
	const late = create('late', '--role', 'read', '--tenant', 'team-a');
	await until('the wait of others to end', async () => (await ask('GET', '/api/v1/status', late)).status === 200);
});
await test('the audit log has calls, logins and refusals', async () => {
	await sleep(1500);
	const all = lines(),
		find = (wanted) => all.find((line) => Object.entries(wanted).every(([key, value]) => line[key] === value));
	const deletion = all.find((line) => line.event === 'call' && line.target.startsWith('/api/v1/delete?query=') && line.name === 'admin-a');
	assert.deepEqual([deletion.kind, deletion.address, deletion.method, deletion.tenant, deletion.status], ['token', '127.0.0.1', 'POST', 'team-a', 200]);
	assert.ok(find({ event: 'login', name: 'read-a', tenant: 'team-a' }));
	assert.equal(all.filter((line) => line.event === 'login' && line.name === 'read-a').length, 1);
	assert.ok(find({ event: 'refusal', status: 401 }) && find({ event: 'refusal', status: 403, name: 'agent' }));
	assert.ok(all.some((line) => line.event === 'tokens' && /^refused: /.test(line.reason)));
	assert.ok(find({ event: 'call', method: 'PUT', target: '/api/v1/queries/mine', status: 200 }));
	assert.ok(!all.some((line) => line.event === 'call' && line.method === 'GET'), 'no queries');
	assert.ok(!all.some((line) => line.event === 'call' && /ingest|poll/.test(line.target)), 'no ingest');
	const text = readFileSync(audit, 'utf8');
	for (const token of Object.values(tokens)) assert.ok(!text.includes(token), 'no tokens');
	assert.equal(statSync(audit).mode & 0o777, 0o600);
	renameSync(audit, `${audit}.0`);
	await ask('POST', '/api/v1/compact', tokens['admin-a']);
	await until('a new file', () => lines().some((line) => line.target === '/api/v1/compact'));
});
await test('metrics of access', async () => {
	const text = (await ask('GET', '/metrics', tokens.read)).body.toString(),
		value = (name) => Number(text.match(new RegExp(`^${name.replace(/[{}"]/g, '\\$&')} (\\d+)$`, 'm'))?.[1]);
	for (const result of ['ok', 'no_token', 'wrong_token', 'expired', 'delayed', 'role', 'tenant'])
		assert.ok(value(`wick_server_auth_requests_total{result="${result}"}`) > 0, result);
	assert.ok(value('wick_server_auth_logins_total') >= 10);
	assert.equal(value('wick_server_audit_dropped_total') > 0, true, 'refusals were too many'); // of the thousands above
	assert.ok(value('wick_server_auth_tokens') >= 13);
});
await test('a server does not start with a wrong file, or with tokens of tenants that it has not', () => {
	const start = (...options) =>
		spawnSync(wick, ['server', '--data', `${directory}/other`, '--listen', '127.0.0.1:0', ...options], { encoding: 'utf8', timeout: 20000 });
	writeFileSync(`${directory}/bad.yaml`, 'tokens: nonsense\n', { mode: 0o600 });
	assert.match(start('--tokens', `${directory}/bad.yaml`).stderr, /must be a list/);
	assert.match(start('--tokens', `${directory}/none.yaml`).stderr, /No such file/);
	assert.match(start('--tokens', file).stderr, /is for a tenant, but this server has none/);
});
await server.stop();
finish();
