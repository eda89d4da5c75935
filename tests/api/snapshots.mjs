// SPDX-License-Identifier: Apache-2.0
// Snapshots over HTTP: what is kept is what was answered, whatever becomes of the data; who may make, see and remove them; room, age, restarts,
// crashes in the middle of a write, damage on disk, ids and bodies that mean harm.
import assert from 'node:assert/strict';
import { cpSync, existsSync, mkdirSync, readFileSync, readdirSync, renameSync, rmSync, truncateSync, unlinkSync, writeFileSync } from 'node:fs';
import { spawn } from 'node:child_process';
import http from 'node:http';
import { networkInterfaces } from 'node:os';
import { gunzipSync } from 'node:zlib';
import { startServer, request, wick, pprofProfile, temporaryDirectory, test, finish } from '../harness.mjs';

process.setMaxListeners(0); // servers are started anew
const directory = temporaryDirectory();
const as = (tenant) => (tenant ? { 'x-scope-orgid': tenant } : {});
const answerOf = ({ status, body }) => ({ status, ...JSON.parse(body) });
const errorOf = (answer) => JSON.parse(answer.body).error;
const path = '/api/v1/snapshots',
	now = Date.now(),
	range = `from=${now - 3600000}&to=${now + 60000}`;

class World {
	constructor(name, config = '') {
		this.data = `${directory}/${name}`;
		mkdirSync(this.data);
		this.config = `${directory}/${name}.yaml`;
		this.configure(config);
	}
	configure(config) {
		writeFileSync(this.config, config);
	}
	async start(options = []) {
		this.server = await startServer(this.data, ['--config', this.config, ...options]);
		return this;
	}
	async restart(config) {
		if (config !== undefined) this.configure(config);
		assert.equal(await this.server.stop(), 0);
		return this.start();
	}
	call(method, target, { body, headers, tenant } = {}) {
		return request(this.server.port, method, target, { body: body === undefined ? undefined : Buffer.from(body), headers: { ...as(tenant), ...headers } });
	}
	async store(value, { tenant, frames = ['leaf', 'main'] } = {}) {
		const answer = await this.call('POST', '/api/v1/ingest?name=process_cpu', { body: pprofProfile([[frames, value]], { durationNs: 1e10 }), tenant });
		assert.equal(answer.status, 200, answer.body);
	}
	async make({ query = `query=process_cpu&${range}`, title, state, tenant } = {}) {
		const answer = await this.call('POST', `${path}?${query}`, { body: JSON.stringify({ title, state }), tenant });
		assert.equal(answer.status, 201, answer.body);
		return JSON.parse(answer.body);
	}
	async show(id, tenant) {
		return answerOf(await this.call('GET', `${path}/${id}`, { tenant }));
	}
	async list(query = '', tenant) {
		return answerOf(await this.call('GET', `${path}${query}`, { tenant }));
	}
	async titles(query) {
		return (await this.list(query)).snapshots.map(({ title }) => title).join(' ');
	}
	async metric(name) {
		const line = (await this.call('GET', '/metrics')).body
			.toString()
			.split('\n')
			.find((l) => l.startsWith(`${name} `));
		assert.ok(line, name);
		return Number(line.split(' ')[1]);
	}
	files(tenant) {
		return readdirSync(tenant ? `${this.data}/tenants/${tenant}/snapshots` : `${this.data}/snapshots`).sort();
	}
	file(id) {
		return `${this.data}/snapshots/${id}.json.gz`;
	}
}

const world = await new World('plain').start();
await world.store(700);
await world.store(200, { frames: ['other', 'main'] });

await test('what is kept is what was answered, and stays so', async () => {
	const asked = JSON.parse((await world.call('GET', `/api/v1/query?query=process_cpu&${range}`)).body);
	assert.equal(asked.flame.total, 900);
	const made = await world.make({ title: 'before <b>& after</b> \u202e', state: 'view=graph&q="x"\u0000'.replace('\u0000', '\n') });
	assert.match(made.id, /^[0-9a-f]{32}$/);
	const first = await world.show(made.id);
	assert.deepEqual(first.answer.flame, asked.flame);
	assert.equal(first.snapshot.title, 'before <b>& after</b> \u202e');
	assert.equal(first.snapshot.state, 'view=graph&q="x"\n');
	assert.deepEqual([first.snapshot.call, first.snapshot.query, first.snapshot.type, first.snapshot.partial], ['query', 'process_cpu', '', false]);
	assert.deepEqual([first.snapshot.from_ms, first.snapshot.to_ms], [now - 3600000, now + 60000]);
	assert.ok(first.snapshot.made_ms >= now && first.snapshot.made_ms <= Date.now());
	await world.store(100);
	const deleted = await world.call('POST', `/api/v1/delete?query={}&${range}`);
	assert.equal(JSON.parse(deleted.body).samples, 3);
	assert.deepEqual(await world.show(made.id), first);
	await world.restart();
	assert.deepEqual(await world.show(made.id), first);
	assert.deepEqual(
		JSON.parse(gunzipSync(readFileSync(world.file(made.id)))),
		{ snapshot: first.snapshot, answer: first.answer },
		'the file is plain gzip of the same',
	);
	const { state, ...listed } = first.snapshot;
	assert.deepEqual((await world.list()).snapshots, [{ ...listed, bytes: readFileSync(world.file(made.id)).length }]);
});
await test('every kind of question can be kept', async () => {
	await world.store(300, { frames: ['third', 'main'] });
	const stages = encodeURIComponent('process_cpu | top 3'),
		base = `base_from=${now - 7200000}&base_to=${now - 3600000}`;
	const cases = {
		[`query=process_cpu&${range}&max_nodes=2&names=short`]: (a) => assert.equal(a.flame.total, 300),
		[`call=query&query=process_cpu&${range}&format=json`]: (a) => assert.equal(a.functions.total, 300),
		[`query=process_cpu&${range}&frames=${encodeURIComponent('"third"')}&group_by=thread`]: null,
		[`call=pipeline&q=${stages}&${range}`]: (a) => assert.equal(a.kind, 'table'),
		[`call=pipeline&query=${stages}&${range}`]: (a) => assert.equal(a.kind, 'table'),
		[`call=pipeline&q=process_cpu&${range}&format=table`]: (a) => assert.ok(a.functions.rows.length > 0),
		[`call=diff&query=process_cpu&${range}&${base}&relative=1`]: (a) => assert.equal(a.kind, 'diff'),
		[`call=series&query=process_cpu&${range}&step=60s&by=thread&rate=1`]: (a) => assert.ok(a.series.length > 0),
		[`call=series&query=${encodeURIComponent('process_cpu | bin 1m')}&${range}`]: null,
		[`call=compare&query=process_cpu&${range}&label=thread`]: (a) => assert.equal(a.kind, 'comparison'),
	};
	for (const [query, check] of Object.entries(cases)) {
		const call = new URLSearchParams(query).get('call') ?? 'query';
		const asked = await world.call('GET', `/api/v1/${call}?${query}`);
		if (asked.status !== 200) {
			// and then the same is said
			assert.equal(check, null, `${query}: ${asked.body}`);
			const answer = await world.call('POST', `${path}?${query}`);
			assert.deepEqual([answer.status, errorOf(answer)], [asked.status, errorOf(asked)]);
			continue;
		}
		const { answer, snapshot } = await world.show((await world.make({ query })).id),
			expected = JSON.parse(asked.body);
		const members = Object.keys(expected).filter((name) => name !== 'stats');
		for (const name of members) assert.deepEqual(answer[name], expected[name], `${query}: ${name}`);
		assert.equal(snapshot.call, call);
		check?.(answer);
	}
	const { snapshot } = await world.show((await world.make({ query: `call=diff&query=process_cpu&${range}&shift=1d&where=${encodeURIComponent('a="b"')}` })).id);
	assert.equal(snapshot.query, 'process_cpu | where a="b" | diff ( shift "1d")', 'all of the question is in its text');
});
await test('a snapshot never changes, and clients need not ask twice', async () => {
	const { id } = await world.make(),
		plain = await world.call('GET', `${path}/${id}`),
		packed = await world.call('GET', `${path}/${id}`, { headers: { 'accept-encoding': 'gzip' } });
	assert.match(plain.headers['cache-control'], /private/);
	assert.match(plain.headers['cache-control'], /immutable/);
	assert.equal(plain.headers.vary, 'Accept-Encoding');
	assert.equal(plain.headers['content-encoding'], undefined);
	assert.equal(packed.headers['content-encoding'], 'gzip');
	assert.equal(packed.headers.etag, plain.headers.etag);
	assert.ok(gunzipSync(packed.body).equals(plain.body));
	const again = await world.call('GET', `${path}/${id}`, { headers: { 'if-none-match': plain.headers.etag } });
	assert.deepEqual([again.status, again.body.length, again.headers.etag], [304, 0, plain.headers.etag]);
	assert.equal((await world.call('GET', `${path}/${id}`, { headers: { 'if-none-match': 'W/"0"' } })).status, 200);
	assert.equal((await world.call('HEAD', `${path}/${id}`)).status, 200);
	assert.equal((await world.call('PUT', `${path}/${id}`, { body: '{}' })).status, 405);
	assert.equal((await world.call('DELETE', `${path}/${id}`)).status, 200);
	assert.equal((await world.call('GET', `${path}/${id}`, { headers: { 'if-none-match': plain.headers.etag } })).status, 404);
	assert.equal((await world.call('DELETE', `${path}/${id}`)).status, 404);
	assert.ok(!existsSync(world.file(id)));
});
const elsewhere = Object.values(networkInterfaces())
	.flat()
	.find(({ family, internal }) => family === 'IPv4' && !internal)?.address;
if (elsewhere)
	await test('without a token other machines see them, and remove none', async () => {
		const open = new World('open');
		const child = spawn(wick, ['server', '--data', open.data, '--listen', '0.0.0.0:0', '--insecure'], { stdio: ['ignore', 'ignore', 'pipe'] });
		process.on('exit', () => child.kill('SIGKILL'));
		const port = await new Promise((resolve) => child.stderr.on('data', (chunk) => resolve(Number(/:(\d+),/.exec(chunk)?.[1]))));
		open.server = { port };
		await open.store(700);
		const { id } = await open.make();
		const call = (method, host) =>
			new Promise((resolve, reject) => {
				const request = http.request({ host, port, method, path: `${path}/${id}` }, (response) =>
					response.resume().on('end', () => resolve(response.statusCode)),
				);
				request.on('error', reject).end();
			});
		assert.equal(await call('GET', elsewhere), 200);
		assert.equal(await call('DELETE', elsewhere), 403);
		assert.equal(await call('GET', elsewhere), 200);
		assert.equal(await call('DELETE', '127.0.0.1'), 200);
		child.kill();
	});
await test('ids that mean harm', async () => {
	const files = world.files();
	for (const id of [
		'0',
		'..',
		'../x',
		'%2e%2e',
		'..%2f..%2fmeta.json',
		'0'.repeat(31),
		'0'.repeat(33),
		'0'.repeat(32),
		'F'.repeat(32),
		`${'0'.repeat(31)}%00`,
		`${'0'.repeat(32)}.json.gz`,
		`${'0'.repeat(32)}/x`,
		'x'.repeat(5000),
	])
		for (const method of ['GET', 'DELETE']) {
			const answer = await world.call(method, `${path}/${id}`);
			assert.ok([400, 404, 414, 431].includes(answer.status), `${method} ${id}: ${answer.status}`);
		}
	assert.deepEqual(world.files(), files);
});
await test('bodies and parameters that mean harm', async () => {
	const files = world.files(),
		good = `query=process_cpu&${range}`;
	const bodies = {
		'no JSON': ['x', /not JSON/],
		'a list': ['[]', /must be an object/],
		'a title that is no text': ['{"title":1}', /must be an object/],
		'a state that is no text': ['{"state":{}}', /must be an object/],
		'a member twice': ['{"title":"a","title":"b"}', /not JSON: .*duplicate/],
		'a NUL': ['{"title":"\\u0000"}', /not JSON/],
		'a line feed': ['{"title":"a\\nb"}', /control/],
		'an escape': ['{"title":"\\u001b[2J"}', /control/],
		'no UTF-8': [Buffer.from([0x22, 0xff, 0x22]), /not JSON/],
		'half a character': ['{"title":"\\ud800"}', /not JSON/],
		'a long title': [JSON.stringify({ title: 'é'.repeat(201) }), /200 characters/],
		'a long state': [JSON.stringify({ state: 'x'.repeat(8193) }), /8 KiB/],
		nested: ['['.repeat(60000), /not JSON/],
	};
	for (const [name, [body, reason]] of Object.entries(bodies)) {
		const answer = await world.call('POST', `${path}?${good}`, { body });
		assert.equal(answer.status, 400, `${name}: ${answer.status} ${answer.body}`);
		assert.match(errorOf(answer), reason, name);
	}
	assert.equal((await world.call('POST', `${path}?${good}`, { body: ' '.repeat(70000) })).status, 413);
	for (const [query, reason] of [
		['call=types', /not one of query, pipeline, diff, compare, series, view/],
		['call=', null],
		['query=process_cpu&format=svg', /snapshots are JSON/],
		['query=process_cpu&format=pprof', /snapshots are JSON/],
		['call=pipeline&q=process_cpu&format=text', /snapshots are JSON/],
		['query=process_cpu%20%7C%20nonsense', /nonsense/],
		['from=soon', /'from'/],
		['call=diff&query=process_cpu', /nothing to compare with/],
	]) {
		const answer = await world.call('POST', `${path}?${query}`);
		assert.equal(answer.status, reason ? 400 : 201, `${query}: ${answer.body}`);
		if (reason) assert.match(errorOf(answer), reason, query);
		else await world.call('DELETE', `${path}/${JSON.parse(answer.body).id}`);
	}
	for (const query of ['limit=1001', 'limit=x', 'limit=-1', 'offset=-1', 'offset=99999999999999999999'])
		assert.equal((await world.list(`?${query}`)).status, 400, query);
	assert.deepEqual(world.files(), files);
	const most = await world.make({ title: '\u{1f525}'.repeat(200), state: '\u0001'.repeat(8192) });
	assert.equal((await world.show(most.id)).snapshot.state.length, 8192);
	await world.call('DELETE', `${path}/${most.id}`);
});
await test('the list is in pages, the newest first', async () => {
	await Promise.all((await world.list('?limit=1000')).snapshots.map(({ id }) => world.call('DELETE', `${path}/${id}`)));
	assert.deepEqual((await world.list()).snapshots, []);
	for (const title of ['a', 'b', 'c', 'd', 'e']) await world.make({ title });
	assert.equal(await world.titles(), 'e d c b a');
	assert.equal(await world.titles('?limit=2'), 'e d');
	assert.equal(await world.titles('?limit=2&offset=4'), 'a');
	assert.equal(await world.titles('?offset=5'), '');
	const { total, bytes, bytes_max, age_ms, enabled, snapshots } = await world.list('?limit=0');
	assert.deepEqual([total, bytes_max, age_ms, enabled, snapshots.length], [5, 256 << 20, 90 * 86400000, true, 0]);
	assert.equal(bytes, await world.metric('wick_snapshot_bytes'));
	assert.equal(
		bytes,
		world.files().reduce((sum, name) => sum + readFileSync(`${world.data}/snapshots/${name}`).length, 0),
	);
	assert.equal(await world.metric('wick_snapshots'), 5);
	await world.restart();
	assert.equal(await world.titles(), 'e d c b a');
});
await test('what was damaged on disk is reported and skipped, by a start and by a question', async () => {
	const [e, d, c] = (await world.list()).snapshots.map(({ id }) => id),
		bent = readFileSync(world.file(d));
	truncateSync(world.file(e), 100);
	renameSync(world.file(c), world.file('0'.repeat(32)));
	writeFileSync(`${world.data}/snapshots/${'1'.repeat(32)}.json.gz.7-1.tmp`, 'half');
	await world.restart();
	assert.equal(await world.titles(), 'd b a');
	assert.equal(await world.metric('wick_snapshots_damaged_total'), 2);
	for (const id of [e, '0'.repeat(32)]) assert.match(world.server.log(), new RegExp(`snapshots of tenant.*${id}`));
	assert.ok(!world.files().some((name) => name.endsWith('.tmp')));
	bent[bent.length - 12] ^= 1;
	writeFileSync(world.file(d), bent);
	const answer = await world.call('GET', `${path}/${d}`);
	assert.equal(answer.status, 404);
	assert.match(errorOf(answer), /damaged/);
	assert.equal(await world.titles(), 'b a');
	assert.match(world.server.log(), new RegExp(`${d}.*contents have changed`));
	assert.equal(world.files().filter((name) => name.endsWith('.torn')).length, 3);
	assert.equal(await world.metric('wick_snapshots_damaged_total'), 3);
});
await test('room, number and age are bounded, and the oldest give way', async () => {
	await world.restart('snapshots: {count: 3, age: 2h}\n');
	for (const title of ['1', '2', '3', '4']) await world.make({ title });
	assert.equal(await world.titles(), '4 3 2');
	assert.equal(await world.metric('wick_snapshots_evicted_total'), 3);
	const { bytes } = await world.make({ title: '5' });
	await world.restart(`snapshots: {size: ${bytes * 4 + 400}, age: forever}\n`);
	for (const title of ['6', '7', '8']) await world.make({ title });
	const { total, age_ms, ...sums } = await world.list();
	assert.ok(total >= 3 && total <= 4 && sums.bytes <= sums.bytes_max, JSON.stringify(sums));
	assert.equal(age_ms, null);
	assert.equal(world.files().filter((name) => name.endsWith('.json.gz')).length, total);
	assert.equal(await world.titles('?limit=1'), '8');
	const large = await world.call('POST', `${path}?query=process_cpu&${range}`, {
		body: JSON.stringify({
			state: Array.from({ length: 1000 }, (_, i) => Math.sin(i))
				.join()
				.slice(0, 8192),
		}),
	});
	assert.equal(large.status, 413);
	assert.match(errorOf(large), /snapshots\.size/);
	assert.equal((await world.list()).total, total, 'which costs no other');
	assert.equal(await world.metric('wick_snapshots_refused_total'), 1);
	await world.restart('snapshots: {age: 1ms}\n');
	assert.equal((await world.list()).total, 0);
});
await test('switched off none are made, and those that there are can be seen', async () => {
	await world.restart('');
	const { id } = await world.make({ title: 'kept' });
	await world.restart('snapshots: {enabled: no}\n');
	const answer = await world.call('POST', `${path}?query=process_cpu&${range}`);
	assert.equal(answer.status, 403);
	assert.match(errorOf(answer), /snapshots\.enabled/);
	assert.equal((await world.list()).enabled, false);
	assert.equal((await world.show(id)).status, 200);
	assert.equal((await world.call('DELETE', `${path}/${id}`)).status, 200);
	await world.restart('');
});

await test('a crash in the middle of a write leaves all or nothing', async () => {
	const crash = await new World('crash').start();
	await crash.store(500);
	const { id } = await crash.make({ title: 'before' });
	assert.equal(await crash.server.stop(), 0);
	// The n-th call of a kind ends the process as SIGKILL would. A start makes some, which are not what this is about; then
	// one after the other is within the making, until one is beyond it.
	cpSync(crash.data, `${crash.data}.before`, { recursive: true });
	async function run(kind, n) {
		rmSync(crash.data, { recursive: true });
		cpSync(`${crash.data}.before`, crash.data, { recursive: true });
		const child = spawn(wick, ['server', '--data', crash.data, '--listen', '127.0.0.1:0', '--config', crash.config], {
			stdio: ['ignore', 'ignore', 'pipe'],
			env: { ...process.env, WICK_FAULT: `${kind}:${n}:exit` },
		});
		let log = '',
			made = null;
		const gone = new Promise((resolve) => child.once('exit', resolve));
		const port = await Promise.race([
			gone.then(() => 0),
			new Promise((resolve) =>
				child.stderr.on('data', (chunk) => {
					log += chunk;
					const m = log.match(/http:\/\/127\.0\.0\.1:(\d+)/);
					if (m) resolve(Number(m[1]));
				}),
			),
		]);
		if (port) made = await request(port, 'POST', `${path}?query=process_cpu&${range}`, { body: Buffer.from('{"title":"during"}') }).catch(() => null);
		child.kill('SIGKILL');
		await gone;
		return { port, made: made?.status === 201 ? JSON.parse(made.body) : null };
	}
	for (const kind of ['write', 'sync', 'rename']) {
		let within = 0,
			done = false;
		for (let n = 1; !done; n++) {
			const { port, made } = await run(kind, n);
			assert.ok(n < 100, kind);
			if (!port) continue;
			done = made !== null;
			within += !done;
			await crash.start();
			const { snapshots } = await crash.list(),
				others = snapshots.filter((one) => one.id !== id);
			for (const one of snapshots) assert.equal((await crash.show(one.id)).answer.flame.total, 500);
			assert.equal(snapshots.length - others.length, 1, 'what was there stays');
			if (done)
				assert.ok(
					others.some((one) => one.id === made.id),
					'what was acknowledged is there',
				);
			assert.equal(await crash.metric('wick_snapshots_damaged_total'), 0);
			assert.ok(
				crash.files().every((name) => /^[0-9a-f]{32}\.json\.gz$/.test(name)),
				`${kind} ${n}: ${crash.files()}`,
			);
			await crash.server.stop();
		}
		assert.ok(within > 0, `some ${kind} was within the making`);
	}
});
await test('a full disk is said, and costs no other', async () => {
	const full = await new World('full').start();
	await full.store(500);
	const { id } = await full.make(),
		directoryOf = `${full.data}/snapshots`;
	renameSync(directoryOf, `${directoryOf}.away`);
	writeFileSync(directoryOf, 'no directory'); // as good as a disk that takes nothing
	const answer = await full.call('POST', `${path}?query=process_cpu&${range}`);
	assert.ok(answer.status >= 500, `${answer.status}`);
	assert.match(errorOf(answer), /snapshots/);
	assert.equal((await full.list()).total, 1);
	unlinkSync(directoryOf);
	renameSync(`${directoryOf}.away`, directoryOf);
	assert.equal((await full.show(id)).status, 200);
	assert.equal((await full.call('POST', `${path}?query=process_cpu&${range}`)).status, 201);
	await full.server.stop();
});

await test('tenants have their own', async () => {
	const tenants = await new World('tenants', 'tenants: true\nsnapshots: {count: 2}\n').start();
	await tenants.store(10);
	await tenants.store(20, { tenant: 'blue' });
	await tenants.store(30, { tenant: 'red' });
	const own = await tenants.make(),
		blue = await tenants.make({ tenant: 'blue', title: 'blue' });
	for (let i = 0; i < 3; i++) await tenants.make({ tenant: 'red' });
	assert.equal((await tenants.show(blue.id, 'blue')).answer.flame.total, 20);
	for (const other of [undefined, 'red']) {
		assert.equal((await tenants.show(blue.id, other)).status, 404);
		assert.equal((await tenants.call('DELETE', `${path}/${blue.id}`, { tenant: other })).status, 404);
		assert.ok(!(await tenants.list('', other)).snapshots.some(({ id }) => id === blue.id));
	}
	assert.equal((await tenants.show(own.id)).answer.flame.total, 10);
	assert.deepEqual([(await tenants.list('', 'blue')).total, (await tenants.list('', 'red')).total, (await tenants.list()).total], [1, 2, 1]);
	for (const [method, target] of [
		['POST', `${path}?query=process_cpu`],
		['GET', path],
		['GET', `${path}/${blue.id}`],
	])
		assert.equal((await tenants.call(method, target, { tenant: 'nobody' })).status, 404);
	assert.ok(!existsSync(`${tenants.data}/tenants/nobody`));
	await tenants.restart();
	assert.equal((await tenants.show(blue.id, 'blue')).answer.flame.total, 20);
	assert.deepEqual(tenants.files('blue'), [`${blue.id}.json.gz`]);
	await tenants.server.stop();
});
await test('with a token every call needs it; without, pages of other sites have no way in', async () => {
	const token = `${directory}/token`;
	writeFileSync(token, 'secret-secret\n', { mode: 0o600 });
	const closed = await new World('closed').start(['--token-file', token]);
	const { id } = answerOf(await closed.call('POST', path, { headers: { authorization: 'Bearer secret-secret' } }));
	assert.match(id, /^[0-9a-f]{32}$/);
	for (const [method, target] of [
		['POST', path],
		['GET', path],
		['GET', `${path}/${id}`],
		['DELETE', `${path}/${id}`],
	])
		assert.equal((await closed.call(method, target)).status, 401, `${method} ${target}`);
	assert.equal((await closed.call('GET', `${path}/${id}`, { headers: { authorization: 'Bearer secret-secret' } })).status, 200);
	for (const [method, target] of [
		['POST', path],
		['GET', path],
	])
		assert.equal((await world.call(method, target, { headers: { origin: 'https://evil.example' } })).status, 403);
	await closed.server.stop();
});
await test('many at once', async () => {
	const before = (await world.list()).total;
	const made = await Promise.all(Array.from({ length: 30 }, (_, i) => world.make({ title: `m${i}` })));
	assert.equal(new Set(made.map(({ id }) => id)).size, 30);
	assert.equal((await world.list()).total, before + 30);
	const shown = await Promise.all(made.map(({ id }) => world.show(id)));
	assert.deepEqual(
		shown.map(({ snapshot }) => snapshot.title),
		made.map(({ title }) => title),
	);
});
await world.server.stop();
finish();
