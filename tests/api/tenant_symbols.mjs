// SPDX-License-Identifier: Apache-2.0
// Whose symbols: a build-id in a pushed profile gives nobody another tenant's names, sources or code, and no upload of another can be found, replaced or gone
// on with; what is configured as shared is for all. And of every call in docs/openapi.json: one tenant with each role gets nothing of another's.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import { readRoutes } from '../lib/routes.mjs';
import { startServer, request, pprofProfile, temporaryDirectory, test, finish, wick, intField, bytesField, varint } from '../harness.mjs';

const directory = temporaryDirectory(),
	data = `${directory}/data`,
	config = `${directory}/wick.yaml`,
	tokens = `${directory}/tokens.yaml`;
const start = async (text) => {
	writeFileSync(config, `tokens: ${tokens}\n${text}`);
	return startServer(data, ['--config', config]);
};
const create = (name, role, tenant) =>
	execFileSync(wick, ['token', 'create', '--file', tokens, '--name', name, '--role', role, '--tenant', tenant], { encoding: 'utf8' }).trim();
const token = { a: create('a', 'admin', 'team-a'), b: create('b', 'admin', 'team-b'), all: create('all', 'admin', '*') };
const uploads = '/api/v1/debuginfo/uploads';
const options = 'tenants: true\nhost_files: false\nsymbols: {debuginfod: {urls: []}, retry: 1s}\n';
// What a server of an earlier version made of anybody's uploads.
mkdirSync(`${data}/symbols/ab`, { recursive: true });
writeFileSync(`${data}/lock`, '');
for (const name of ['ab/cdef.sym', 'contents']) writeFileSync(`${data}/symbols/${name}`, 'mixed');
let server = await start(options);

const call = async (who, method, path, body, { headers = {}, tenant } = {}) => {
	const response = await request(server.port, method, path, {
		body: body === undefined || Buffer.isBuffer(body) ? body : Buffer.from(JSON.stringify(body)),
		headers: { authorization: `Bearer ${token[who]}`, ...(tenant ? { 'x-scope-orgid': tenant } : {}), ...headers },
	});
	const text = response.body.toString();
	return { ...(text.startsWith('{') ? JSON.parse(text) : {}), status: response.status, text };
};
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const until = async (what, check) => {
	for (const end = Date.now() + 120000; Date.now() < end; await sleep(100)) if (await check()) return;
	assert.fail(`${what}: not within 120 s`);
};
const upload = async (who, build_id, bytes, more = {}) => {
	const { status, id, ...rest } = await call(who, 'POST', uploads, { build_id, kind: 'debuginfo', size: bytes.length, ...more });
	if (status !== 201) return { status, ...rest };
	assert.equal((await call(who, 'PUT', `${uploads}/${id}?offset=0`, bytes)).status, 200);
	return call(who, 'POST', `${uploads}/${id}/finish`);
};

// ---- a program, of which two tenants have builds with one id that differ in a name

const build_id = randomBytes(20).toString('hex');
function program(name) {
	const folder = `${directory}/${name}`,
		source = `${folder}/hot.c`,
		path = `${folder}/hot`;
	mkdirSync(folder);
	writeFileSync(
		source,
		`static volatile unsigned long sink;
__attribute__((noinline)) void burn_${name}(unsigned long n) { for (unsigned long i = 0; i < n; i++) sink += i; /* comment_of_${name} */ }
int main(int argc, char **argv) { (void)argv; burn_${name}(1000ul * argc); return 0; }
`,
	);
	execFileSync('gcc', ['-g', '-O1', `-Wl,--build-id=0x${build_id}`, '-o', path, source]);
	execFileSync('objcopy', ['--only-keep-debug', path, `${path}.debug`]);
	execFileSync('tar', ['-C', folder, '-cf', `${folder}/sources.tar`, 'hot.c']);
	return { path, debug: readFileSync(`${path}.debug`), whole: readFileSync(path), sources: readFileSync(`${folder}/sources.tar`) };
}
const a = program('a'),
	b = program('b');
function offsetOf(path, name) {
	const address = parseInt(
		execFileSync('nm', [path])
			.toString()
			.match(new RegExp(`^(\\w+) \\w ${name}$`, 'm'))[1],
		16,
	);
	for (const line of execFileSync('readelf', ['-lW', path]).toString().split('\n')) {
		const [type, offset, virtual, , size] = line.trim().split(/\s+/);
		if (type === 'LOAD' && address >= Number(virtual) && address < Number(virtual) + Number(size)) return address - Number(virtual) + Number(offset);
	}
	throw new Error(`${name} is in no segment`);
}
function addresses(offset) {
	const strings = ['', 'cpu', 'nanoseconds', '/gone/hot', build_id];
	return Buffer.from([
		...bytesField(1, [...intField(1, 1), ...intField(2, 2)]),
		...bytesField(2, [...bytesField(1, varint(1)), ...bytesField(2, varint(100))]),
		...bytesField(3, [...intField(1, 1), ...intField(2, 0x401000), ...intField(3, 0x402000), ...intField(4, 0x1000), ...intField(5, 3), ...intField(6, 4)]),
		...bytesField(4, [...intField(1, 1), ...intField(2, 1), ...intField(3, 0x400000 + offset)]),
		...strings.flatMap((text) => bytesField(6, text)),
		...intField(9, BigInt(Date.now()) * 1000000n),
	]);
}
const range = 'from=now-1h&to=now%2B1h',
	query = `query=process_cpu&${range}&symbols_wait=10s`;
const leaves = async (who, more) => (await call(who, 'GET', `/api/v1/query?${query}&format=folded`, undefined, more)).text;
const source = (who, name) => call(who, 'GET', `/api/v1/source?function=burn_${name}&${query}`);
const code = (who, name) => call(who, 'GET', `/api/v1/asm?function=burn_${name}&build_id=${build_id}&${query}`);
const isWanted = async (who) =>
	(await call(who, 'POST', '/api/v1/debuginfo/wanted', { binaries: [{ build_id, path: '/gone/hot' }] })).wanted.some((w) => w.build_id === build_id);
const binaryOf = async (who) => (await call(who, 'GET', `/api/v1/binaries?text=${build_id}`)).binaries[0];

await test('both tenants push a profile of the build-id; one uploads for it', async () => {
	const body = addresses(offsetOf(a.path, 'burn_a') + 4);
	for (const who of ['a', 'b', 'all']) assert.equal((await call(who, 'POST', '/api/v1/ingest?name=process_cpu', body)).status, 200);
	await until('a is asked for it', () => isWanted('a'));
	for (const [kind, bytes] of [
		['debuginfo', a.debug],
		['executable', a.whole],
		['sources', a.sources],
	])
		assert.equal((await upload('a', build_id, bytes, { kind })).status, 200, kind);
	await until('a has names', async () => /burn_a/.test(await leaves('a')));
	const listing = await source('a', 'a'),
		assembly = await code('a', 'a');
	assert.match(listing.text, /comment_of_a/);
	assert.match(assembly.text, /uploaded executable/);
	assert.equal((await isWanted('a')) || false, false);
});
await test('to others it is a build-id that nobody has', async () => {
	await until('b is asked for it', () => isWanted('b'));
	for (const who of ['b', 'all']) {
		await until('it has been looked for', async () => (await binaryOf(who)).state === 'missing');
		assert.doesNotMatch(await leaves(who), /burn_a/);
		assert.notEqual((await source(who, 'a')).status, 200);
		assert.notEqual((await code(who, 'a')).status, 200);
		const list = await call(who, 'GET', '/api/v1/binaries');
		assert.deepEqual([list.uploads.files, list.uploads.bytes, list.uploads.open], [0, 0, 0]);
		assert.equal(list.uploads.finished, undefined, 'counts are of all');
	}
	const list = await call('a', 'GET', '/api/v1/binaries');
	assert.deepEqual([list.uploads.files, list.uploads.bytes], [3, a.debug.length + a.whole.length + a.sources.length]);
	// Parca's agents likewise.
	const ask = async (who) => {
		const message = Buffer.from([...bytesField(1, build_id), ...intField(5, 1)]);
		const response = await request(server.port, 'POST', '/parca.debuginfo.v1alpha1.DebuginfoService/ShouldInitiateUpload', {
			body: Buffer.concat([Buffer.from([0, 0, 0, 0, message.length]), message]),
			headers: { authorization: `Bearer ${token[who]}`, 'content-type': 'application/grpc+proto', te: 'trailers' },
		});
		return response.body.subarray(5);
	};
	assert.match((await ask('a')).toString('latin1'), /already exists/);
	const answer = await ask('b');
	assert.deepEqual([answer[0], answer[1]], [8, 1]);
	assert.match(answer.toString('latin1'), /First time/);
});
await test('force replaces an upload of the own tenant', async () => {
	const place = (tenant) => {
		const folder = `${data}/debuginfo/files/${tenant}/gnu/${build_id.slice(0, 2)}/${build_id.slice(2)}`;
		return existsSync(folder) ? readdirSync(folder).map((name) => `${folder}/${name}`) : [];
	};
	assert.equal((await upload('b', build_id, b.debug, { force: true })).status, 200);
	await until('b has its own names', async () => /burn_b/.test(await leaves('b')));
	assert.match(await leaves('a'), /burn_a/);
	assert.deepEqual(readFileSync(place('team-a').find((path) => path.endsWith('.debuginfo'))), a.debug);
	assert.deepEqual(readFileSync(place('team-b').find((path) => path.endsWith('.debuginfo'))), b.debug);
	// Its names do not open sources and code of others.
	for (const answer of [await source('b', 'b'), await code('b', 'b')]) assert.doesNotMatch(answer.text, /comment_of_a|uploaded (archive|executable)/);
	// The command line, with a token that may use several.
	writeFileSync(`${directory}/token`, token.all, { mode: 0o600 });
	const forced = (tenant, path) =>
		spawnSync(wick, ['debuginfo', 'upload', '--url', server.url, '--token-file', `${directory}/token`, '--tenant', tenant, '--force', path], {
			encoding: 'utf8',
			timeout: 60000,
		});
	const { status, stderr } = forced('team-b', `${a.path}.debug`);
	assert.equal(status, 0, stderr);
	await until('b has the other names', async () => /burn_a/.test(await leaves('b')));
	assert.equal(forced('team-b', `${b.path}.debug`).status, 0);
	await until('and its own again', async () => /burn_b/.test(await leaves('b')));
	assert.match(await leaves('a'), /burn_a/);
	assert.deepEqual(readFileSync(place('team-a').find((path) => path.endsWith('.debuginfo'))), a.debug);
	assert.deepEqual(readdirSync(`${data}/debuginfo/files`).sort(), ['team-a', 'team-b']);
});
await test('an upload of another is one that never was', async () => {
	const id = randomBytes(20).toString('hex'),
		{ id: mine } = await call('a', 'POST', uploads, { build_id: id, kind: 'sources', size: 10000 });
	const piece = a.sources.subarray(0, 1000);
	for (const [who, more] of [
		['b', {}],
		['all', {}],
		['all', { tenant: 'team-b' }],
	])
		for (const [method, path, body] of [
			['PUT', '?offset=0', piece],
			['POST', '/finish', Buffer.alloc(0)],
			['DELETE', '', undefined],
		]) {
			const [there, not] = await Promise.all([mine, 'f'.repeat(32)].map((name) => call(who, method, `${uploads}/${name}${path}`, body, more)));
			assert.equal(there.status, 404, `${method} ${path}: ${there.text}`);
			assert.deepEqual(there, not);
		}
	assert.equal((await call('a', 'PUT', `${uploads}/${mine}?offset=0`, piece)).offset, 1000);
	// Nor does it stand in the way of another's.
	const other = await call('b', 'POST', uploads, { build_id: id, kind: 'sources', size: 10000 });
	assert.deepEqual([other.status, other.offset], [201, 0]);
	assert.notEqual(other.id, mine);
	assert.equal((await call('all', 'DELETE', `${uploads}/${mine}`, undefined, { tenant: 'team-a' })).status, 200);
	assert.equal((await call('b', 'DELETE', `${uploads}/${other.id}`)).status, 200);
});
await test('tables are kept apart', () => {
	const name = `${build_id.slice(0, 2)}/${build_id.slice(2)}.sym`;
	const texts = [`${data}/tenants/team-a/symbols`, `${data}/tenants/team-b/symbols`].map((folder) => readFileSync(`${folder}/${name}`, 'latin1'));
	assert.ok(texts[0].includes('burn_a') && !texts[0].includes('burn_b'));
	assert.ok(texts[1].includes('burn_b') && !texts[1].includes('burn_a'));
	assert.deepEqual(readdirSync(`${data}/symbols`), ['anonymous']);
	assert.ok(!existsSync(`${data}/symbols/anonymous/${name}`));
});

// ---- configured

await test('what is shared is for all, and behind what is their own', async () => {
	assert.equal(await server.stop(), 0);
	server = await start(`${options.replace('symbols: {', 'symbols: {shared: [team-a], ')}`);
	await until('the tenant without a name has names', async () => /burn_a/.test(await leaves('all')));
	assert.match((await source('all', 'a')).text, /comment_of_a/);
	assert.match((await code('all', 'a')).text, /uploaded executable/);
	assert.match(await leaves('b'), /burn_b/);
	assert.equal((await upload('all', build_id, b.debug)).status, 200, 'what is shared is not its own');
	await until('its own comes first', async () => /burn_b/.test(await leaves('all')));
	assert.equal(await server.stop(), 0);
	server = await start(options);
	assert.match(await leaves('b'), /burn_b/);
	assert.doesNotMatch(await leaves('b'), /burn_a/);
});
await test('tenants that have none, and lists that are none, are errors', async () => {
	const fails = (text, ...more) => {
		writeFileSync(`${directory}/bad.yaml`, text);
		return spawnSync(wick, ['server', '--data', `${directory}/none`, '--listen', '127.0.0.1:0', '--config', `${directory}/bad.yaml`, ...more], {
			encoding: 'utf8',
			timeout: 20000,
		}).stderr;
	};
	assert.match(fails('symbols: {shared: [a]}\n'), /this server has none/);
	assert.match(fails('tenants: true\nsymbols: {shared: a}\n'), /must be a list of tenants/);
});

// ---- every call

const doc = JSON.parse(readFileSync('docs/openapi.json'));
// Nothing of this is in any request of the other tenant.
const secret = `Zq${randomBytes(6).toString('hex')}`;
const now = Date.now();
const ids = { name: 'mine', label: 'service_name', host: 'host-a', build_id };
await test('one tenant has something of everything', async () => {
	const profile = pprofProfile([[[`leaf_${secret}`, 'main'], 1000]], { timeNs: BigInt(now - 60000) * 1000000n, durationNs: 1e10 });
	assert.equal((await call('a', 'POST', `/api/v1/ingest?name=process_cpu&label=service_name%3D${secret}`, profile)).status, 200);
	assert.equal((await call('a', 'POST', `/api/v1/ingest?name=type_${secret}`, profile)).status, 200);
	const kept = await call('a', 'POST', `/api/v1/snapshots?query=process_cpu:cpu:nanoseconds:::delta&${range}`, { title: secret });
	assert.equal(kept.status, 201, kept.text);
	ids.snapshot = kept.id;
	assert.ok((await call('a', 'PUT', '/api/v1/queries/mine', { title: secret, query: `process_cpu{service_name="${secret}"}` })).status < 300);
	const poll = () => call('a', 'POST', '/api/v1/agents/poll', { version: 1, agent: 'a'.repeat(16), host: `host-a`, wick: secret });
	assert.equal((await poll()).status, 200);
	ids.recording = (await call('a', 'POST', '/api/v1/recordings', { seconds: 1, hosts: ['host-a'] })).id;
	ids.key = (await poll()).orders[0].key;
	const markers = JSON.parse(readFileSync('tests/api/markers.json', 'utf8').replaceAll('named step', secret)),
		from = BigInt(now - 600000) * 1000000n;
	markers.meta.startTime = now - 600000;
	const batch = `/api/v1/recordings/continuous/hosts/host-a?from_ns=${from}&to_ns=${from + 1000000000n}&first_ns=${from}`;
	assert.equal((await call('a', 'POST', batch, gzipSync(JSON.stringify(markers)))).status, 200);
	ids.from = now - 660000;
	ids.upload = (await call('a', 'POST', uploads, { build_id: randomBytes(20).toString('hex'), size: 1000, kind: 'sources' })).id;
	await call('a', 'POST', '/api/v1/backup'); // what is in memory becomes a block
	const blocks = async (who) => (await call(who, 'GET', '/api/v1/blocks')).blocks.map((block) => block.name),
		others = await blocks('b'); // blocks are named by times
	ids.block = (await blocks('a')).find((name) => !others.includes(name));
	for (const [name, value] of Object.entries(ids)) assert.ok(value, name);
});
// All that it has, as it is told of it itself.
const inventory = async () => {
	const all = `from=${now - 3600000}&to=${now + 60000}`,
		parts = [];
	for (const [path, part] of [
		[`/api/v1/query?query=process_cpu:cpu:nanoseconds:::delta&${all}&format=folded`],
		[`/api/v1/types?${all}`],
		['/api/v1/snapshots'],
		['/api/v1/queries/mine'],
		['/api/v1/recordings', (answer) => answer.recordings.map((r) => r.id)],
		['/api/v1/recordings/continuous'],
		[`/api/v1/markers?${all}`],
		[`/api/v1/binaries?text=${build_id}`, (answer) => answer.binaries.map((one) => [one.build_id, one.state, one.from])],
	]) {
		const answer = await call('a', 'GET', path);
		assert.equal(answer.status, 200, `${path}: ${answer.text}`);
		parts.push(JSON.stringify(part ? part(answer) : answer.text));
	}
	return parts;
};
await test('another tenant, with every role, gets 403 or 404, and nothing of it, by every call and in every way to name a tenant', async () => {
	const before = await inventory();
	const shown = before.filter((text) => text.includes(secret));
	assert.ok(shown.length >= 5, `${shown.length}: ${before.map((text) => text.slice(0, 200)).join('\n')}`);
	const byPath = (path) => ({
		id: path.includes('/snapshots/') ? ids.snapshot : path.includes('/uploads/') ? ids.upload : ids.recording,
		name: path.includes('/queries/') ? 'mine' : 'service_name',
		host: 'host-a',
		block: ids.block,
		file: 'samples.parquet',
		build_id,
	});
	const values = {
		from: `${ids.from}`,
		to: 'now',
		label: 'service_name',
		function: 'burn_a',
		query: 'process_cpu',
		offset: '0',
		q: 'process_cpu | top 5',
		by: 'service_name',
	};
	const bodyOf = (path, method) =>
		method === 'get' || method === 'delete'
			? undefined
			: path.endsWith('/wanted')
				? { binaries: [{ build_id, path: '/gone/hot' }] }
				: path.endsWith('/uploads')
					? { build_id, kind: 'debuginfo', size: a.debug.length, force: true }
					: path.endsWith('/finish') || path.endsWith('/retry')
						? Buffer.alloc(0)
						: path.includes('/hosts/')
							? gzipSync('{}')
							: { query: 'process_cpu', seconds: 1, hosts: ['host-a'], title: 'b' };
	const calls = [];
	for (const [path, item] of Object.entries(doc.paths))
		for (const method of ['get', 'put', 'post', 'delete'].filter((m) => item[m])) {
			const of = byPath(path),
				target = path.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(of[name] ?? assert.fail(`${path}: {${name}}`)));
			const parameters = [...(item[method].parameters ?? []), ...(item.parameters ?? [])]
				.map((p) => (p.$ref ? doc.components.parameters[p.$ref.split('/').at(-1)] : p))
				.filter((p) => p.in === 'query' && values[p.name])
				.map((p) => `${p.name}=${encodeURIComponent(values[p.name])}`);
			calls.push({ path, method: method.toUpperCase(), target: parameters.length ? `${target}?${parameters.join('&')}` : target, body: bodyOf(path, method) });
		}
	assert.ok(calls.length > 55, `${calls.length} calls`);
	const makes = new Set([`PUT /api/v1/queries/{name}`, 'POST /api/v1/recordings/continuous/hosts/{host}']); // makes one of its own of that name
	let refused = 0;
	for (const { path, method, target, body } of calls) {
		// With its own tenant: what is named is not there.
		const headers = path.includes('/hosts/') ? { 'x-wick-key': ids.key, 'x-wick-upload-key': ids.key } : {};
		const plain = await call('b', method, target, body, { headers });
		assert.ok(!plain.text.includes(secret), `${method} ${target}: ${plain.text.slice(0, 500)}`);
		assert.doesNotMatch(plain.text, /comment_of_a|burn_a\b(?!')/, `${method} ${target}`);
		assert.ok(plain.status < 500, `${method} ${target}: ${plain.status} ${plain.text}`);
		if (/\{(id|name|host|block|build_id)\}/.test(path) && !path.startsWith('/api/v1/label') && !path.endsWith('/retry') && !makes.has(`${method} ${path}`)) {
			assert.ok([403, 404].includes(plain.status), `${method} ${target}: ${plain.status} ${plain.text}`);
			refused++;
		}
		// With the other's, in the header, or in a parameter as some clients send it.
		const named = await call('b', method, target, body, { headers, tenant: 'team-a' });
		assert.equal(named.status, 403, `${method} ${target}: ${named.status} ${named.text}`);
		const inQuery = await call('b', method, `${target}${target.includes('?') ? '&' : '?'}tenant=team-a&orgid=team-a`, body, { headers });
		assert.ok(!inQuery.text.includes(secret), `${method} ${target} with parameters: ${inQuery.text.slice(0, 500)}`);
	}
	assert.ok(refused >= 12, `${refused} calls name something`);
	console.log(`    ${calls.length} calls, ${refused} of which name something of the other's`);
	// The protocols of others, whose calls it does not list.
	const anything = {
			start: 0,
			end: now,
			startTime: 0,
			endTime: now,
			from: 0,
			to: now,
			name: 'service_name',
			labelNames: ['service_name'],
			id: ids.snapshot,
			profileId: [ids.snapshot],
		},
		selecting = { profileTypeID: 'process_cpu:cpu:nanoseconds:::delta', labelSelector: '{}', query: 'process_cpu:cpu:nanoseconds:::delta', step: 60 };
	let others = 0,
		own = 0;
	for (const { method, path } of readRoutes().filter(
		(route) => route.method !== 'OPTIONS' && !route.path.startsWith('/debug/') && !route.path.startsWith('/api/v1/'),
	))
		for (const headers of [{ 'content-type': 'application/json' }, { 'content-type': 'application/grpc+proto', te: 'trailers' }]) {
			const body = method === 'GET' ? undefined : { ...anything, ...selecting },
				target = `${path.replace('*', 'x')}?query=${encodeURIComponent('process_cpu:cpu:nanoseconds:::delta{}')}&from=now-1h&label=service_name&id=${ids.snapshot}`;
			const answer = await call('b', method, target, body, { headers });
			assert.ok(!answer.text.includes(secret), `${method} ${target}: ${answer.text.slice(0, 500)}`);
			others++;
			// The same as its owner finds it.
			if (/querier|query\.v1alpha1|render$|label/.test(path) && !/Share/.test(path))
				own += (await call('a', method, target, body, { headers })).text.includes(secret);
		}
	assert.ok(others > 200 && own > 5, `${others} other calls, ${own} that show their owner what is there`);
	// And all is there as it was.
	assert.deepEqual(await inventory(), before);
	assert.equal((await call('a', 'PUT', `${uploads}/${ids.upload}?offset=0`, a.sources.subarray(0, 600))).offset, 600);
});
await server.stop();
finish();
