// SPDX-License-Identifier: Apache-2.0
// What pretended agents send for recordings: what is no profile, or not theirs to send, is refused with a reason and costs no memory; what
// was acknowledged outlives the server; tenants are apart; limits hold. tests/agent/remote.test.sh has real agents.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, readdirSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { randomBytes } from 'node:crypto';
import { createGzip, gunzipSync, gzipSync } from 'node:zlib';
import { spawn } from 'node:child_process';
import { forgetPeak, memoryOf, startServer, request, wick, temporaryDirectory, test, finish } from '../harness.mjs';
import { threadList, withProfile } from '../profiler.mjs';

const KIB = 1024,
	MIB = 1024 * KIB;
process.setMaxListeners(0); // servers are started anew
const directory = temporaryDirectory();
const example = JSON.parse(readFileSync('tests/api/recording.json'));
const as = (tenant) => (tenant ? { 'x-scope-orgid': tenant } : {});
const answerOf = ({ status, body }) => ({ status, ...JSON.parse(body) });
const errorOf = (response) => JSON.parse(response.body).error;
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
async function eventually(question) {
	for (let i = 0; i < 2400; i++) {
		if (await question()) return;
		await sleep(50);
	}
	assert.fail('it never came');
}
const json = (value) => Buffer.from(JSON.stringify(value));
const tree = (path) => readdirSync(path, { withFileTypes: true }).flatMap((e) => (e.isDirectory() ? tree(`${path}/${e.name}`) : [`${path}/${e.name}`]));

// A server, and what can be asked of it.
class World {
	constructor(name, config = '') {
		this.data = `${directory}/${name}`;
		mkdirSync(this.data);
		this.config = `${directory}/${name}.yaml`;
		writeFileSync(this.config, config);
	}
	async start() {
		this.server = await startServer(this.data, this.configured());
		return this;
	}
	configured() {
		return ['--config', this.config];
	}
	get port() {
		return this.server.port;
	}
	async killed() {
		const gone = new Promise((resolve) => {
			this.server.child.removeAllListeners('exit');
			this.server.child.once('exit', resolve);
		});
		this.server.child.kill('SIGKILL');
		await gone;
	}
	call(method, path, { body, headers, tenant } = {}) {
		return request(this.port, method, path, { body, headers: { ...as(tenant), ...headers } });
	}
	async poll(host, { tenant, agent = `a${Buffer.from(host).toString('hex').slice(0, 30)}`, report } = {}) {
		return answerOf(await this.call('POST', '/api/v1/agents/poll', { body: json({ version: 1, agent, host, wick: '9', report }), tenant }));
	}
	// Asks as all of them, orders of all of them; the keys by host. What a test before left unfinished is cancelled.
	async order(hosts, { tenant } = {}) {
		for (const host of hosts)
			for (const { id } of (await this.poll(host, { tenant })).orders) await this.call('DELETE', `/api/v1/recordings/${id}`, { tenant });
		const { status, id, error } = answerOf(await this.call('POST', '/api/v1/recordings', { body: json({ seconds: 1, hosts }), tenant }));
		assert.equal(status, 201, error);
		const keys = {};
		for (const host of hosts) {
			const [given] = (await this.poll(host, { tenant })).orders;
			assert.equal(given.id, id);
			keys[host] = given.key;
		}
		return { id, keys };
	}
	send({ id, keys }, host, body, { tenant, key = keys[host], headers } = {}) {
		return this.call('POST', `/api/v1/recordings/${id}/hosts/${encodeURIComponent(host)}`, {
			body,
			tenant,
			headers: { ...(key === null ? {} : { 'x-wick-upload-key': key }), 'content-type': 'application/gzip', ...headers },
		});
	}
	async show(id, tenant) {
		return answerOf(await this.call('GET', `/api/v1/recordings/${id}`, { tenant }));
	}
	async state(id, host) {
		return (await this.show(id)).hosts.find(({ name }) => name === host).state;
	}
	profile(id, query = '') {
		return this.call('GET', `/api/v1/recordings/${id}/profile${query}`);
	}
	async metric(name) {
		const line = (await this.call('GET', '/metrics')).body
			.toString()
			.split('\n')
			.find((l) => l.startsWith(`${name} `));
		return Number(line.split(' ')[1]);
	}
	// The most memory that it had; forgets that first if told to.
	peak(forget) {
		if (forget) forgetPeak(this.server.child.pid);
		return memoryOf(this.server.child.pid, 'VmHWM');
	}
}
// A profile that says which hosts it is of.
function profileOf(hosts, change = () => {}) {
	const profile = structuredClone(example);
	if (hosts.length) profile.meta.wick.hosts = hosts.map((name) => ({ name }));
	change(profile);
	return gzipSync(json(profile));
}
// Gzip of `head`, `count` times `piece`, and `tail`.
async function packed(head, piece, count, tail) {
	const gzip = createGzip({ level: 1 }),
		chunks = [],
		done = new Promise((resolve) => gzip.once('end', resolve));
	gzip.on('data', (chunk) => chunks.push(chunk));
	gzip.write(head);
	for (let i = 0; i < count; i++) if (!gzip.write(piece)) await new Promise((resolve) => gzip.once('drain', resolve));
	gzip.end(tail);
	await done;
	return Buffer.concat(chunks);
}
async function openProfile(body, look) {
	const path = `${directory}/seen-${randomBytes(4).toString('hex')}.json`;
	writeFileSync(path, body);
	await withProfile(path, async () => look(await threadList(), JSON.parse(body)));
}
const good = profileOf([]);

const world = await new World('plain', 'recordings: {profile: 64M}\n').start();
await test('who sends for a host shows the key that its agent got', async () => {
	const order = await world.order(['a', 'b']);
	assert.match(order.keys.a, /^[0-9a-f]{32}$/);
	for (const key of [null, '0', order.keys.b, order.keys.a.slice(0, 31), `${order.keys.a}0`, order.keys.a.toUpperCase().replace(/[0-9]/g, 'A')]) {
		const response = await world.send(order, 'a', good, { key });
		assert.equal(response.status, 403, `${key}`);
		assert.match(errorOf(response), /X-Wick-Upload-Key/);
	}
	assert.equal(await world.state(order.id, 'a'), 'waiting');
	assert.equal((await world.poll('a', { agent: 'cafe' })).orders.length, 0, 'another agent of that host was asked nothing');
	assert.equal((await world.send(order, 'a', good)).status, 200);
	assert.equal((await world.send(order, 'a', good)).status, 409);
	const { agents } = answerOf(await world.call('GET', '/api/v1/agents'));
	assert.ok(agents.length >= 2 && agents.every(({ agent }) => agent.length <= 8), 'nobody learns the whole number of an agent');
	assert.ok(!JSON.stringify(await world.show(order.id)).includes(order.keys.a));
});
await test('an agent says how it is', async () => {
	const say = (health) => world.call('POST', '/api/v1/agents/poll', { body: json({ version: 1, agent: 'beef', host: 'well', wick: '9', health }) });
	const shown = async () => answerOf(await world.call('GET', '/api/v1/agents')).agents.find(({ host }) => host === 'well');
	assert.equal((await say(undefined)).status, 200);
	assert.equal((await shown()).health, undefined);
	const health = {
		started_ms: 12,
		samples: 2 ** 53,
		lost: { events: 3, of_a_newer_kind: 4 },
		walks: {},
		modes: ['x'],
		warnings: ['<script>alert(1)</script> \u202e'],
	};
	assert.equal((await say({ ...health, newer: { a: [1] } })).status, 200);
	for (const later of [
		undefined,
		{ samples: -1 },
		{ samples: 1.5 },
		{ lost: { 'a\n': 1 } },
		{ warnings: Array(9).fill('x') },
		{ warnings: ['x'.repeat(240)] },
		[],
		'x',
		null,
	]) {
		assert.equal((await say(later)).status, later === undefined ? 200 : 400, `${JSON.stringify(later)}`);
		const agent = await shown();
		for (const name of Object.keys(health)) assert.deepEqual(agent.health[name], health[name], name);
		assert.equal(agent.health.newer, undefined, 'what is not understood is not kept');
		assert.ok(agent.age_ms >= 0 && agent.health_age_ms >= agent.age_ms);
	}
	assert.equal((await say({ ...health, samples: 7, lost: {} })).status, 200);
	const { samples, lost } = (await shown()).health;
	assert.deepEqual([samples, lost], [7, {}]);
	assert.deepEqual(answerOf(await world.call('GET', '/api/v1/agents')).silent, []);
});
await test('what was not asked of a host is not taken', async () => {
	const order = await world.order(['a']);
	for (const host of ['b', '', '.', '..', '../a', '../../etc/passwd', 'a/../a', 'a\0', 'A', '%2e%2e', 'x'.repeat(5000)]) {
		const response = await world.send(order, host, good, { key: order.keys.a });
		assert.ok([400, 404, 414, 431].includes(response.status), `${host}: ${response.status}`);
	}
	assert.match(errorOf(await world.send(order, 'b', good, { key: order.keys.a })), /does not include host 'b'/);
	for (const id of ['0', 'zz', '..', '../x', '%2e%2e', '..%2f..%2fx', '', '0'.repeat(33), '0'.repeat(5000)]) {
		for (const [method, rest] of [
			['POST', '/hosts/a'],
			['GET', ''],
			['GET', '/profile'],
			['DELETE', ''],
		]) {
			if (id === '' && rest === '' && method === 'GET') continue; // the list
			const response = await world.call(method, `/api/v1/recordings/${id}${rest}`, {
				body: method === 'POST' ? good : undefined,
				headers: { 'x-wick-upload-key': order.keys.a },
			});
			assert.ok([400, 404, 405, 414, 431].includes(response.status), `${method} ${id}${rest}: ${response.status}`);
		}
	}
	assert.match(errorOf(await world.send({ ...order, id: '0123456789abcdef' }, 'a', good)), /no recording '0123456789abcdef'/);
	for (const host of ['../../etc', '..', '.', '', 'a/b', 'a\nb']) {
		assert.equal((await world.poll(host, { agent: '1' })).status, 400, host);
		assert.equal((await world.call('POST', '/api/v1/recordings', { body: json({ seconds: 1, hosts: [host] }) })).status, 400, host);
	}
	// Names that are no file names are kept all the same, in their directory.
	const odd = ['..a', '.hidden', '~x', 'a b%2f..', 'é\u202e', 'x'.repeat(255)],
		wide = await world.order(odd);
	for (const host of odd) assert.equal((await world.send(wide, host, good)).status, 200, host);
	assert.equal(readdirSync(`${world.data}/recordings/${wide.id}`).filter((name) => name.endsWith('.json.gz')).length, odd.length);
	assert.ok((await world.show(wide.id)).hosts.every(({ state }) => state === 'done'));
	for (const path of tree(world.data)) assert.ok(!/passwd|hidden\.|\/\.\.a/.test(path.slice(world.data.length)) || path.includes(wide.id), path);
});
await test('what is no profile is refused, with the reason', async () => {
	const order = await world.order(['a']),
		text = JSON.stringify(example);
	const twice = text.replace('"idsHaveHosts":false', '"idsHaveHosts":false,"hosts":[{"name":"a"}],"hosts":[{"name":"b"}]');
	const whole = gzipSync(text),
		bent = Buffer.from(whole);
	bent[whole.length - 6] ^= 1;
	const cases = {
		'no gzip': [Buffer.from('x'), /not a gzip file/],
		nothing: [Buffer.alloc(0), /not a gzip file/],
		'JSON that is not packed': [Buffer.from(text), /not a gzip file/],
		'a packed text': [gzipSync('hello'), /near byte 0: not a JSON object/],
		'a list': [gzipSync('[1]'), /not a JSON object/],
		'an empty file': [gzipSync(''), /not a JSON object/],
		'JSON cut short': [gzipSync(text.slice(0, -1)), /near byte/],
		'something behind': [gzipSync(`${text}x`), /unexpected data after the value/],
		'without meta': [gzipSync('{"threads":[]}'), /no object 'meta'/],
		'meta of another kind': [gzipSync('{"meta":[]}'), /no object 'meta'/],
		'gzip cut short': [whole.subarray(0, -1), /truncated/],
		'gzip of another sum': [bent, /corrupt/],
		'something behind gzip': [Buffer.concat([whole, Buffer.from('x'.repeat(20))]), /corrupt/],
		'two files in one': [Buffer.concat([whole, gzipSync(' ')]), /not a complete gzip file/],
		'nested too deeply': [gzipSync(`{"meta":{},"x":${'['.repeat(100000)}`), /near byte/],
		'of two hosts': [profileOf(['a', 'b']), /it has 2 hosts instead of one/],
		'of a host twice over': [gzipSync(twice), /it has 2 hosts/],
	};
	const refused = await world.metric('wick_recording_uploads_refused_total');
	for (const [name, [body, reason]] of Object.entries(cases)) {
		const response = await world.send(order, 'a', body);
		assert.equal(response.status, 400, `${name}: ${response.body}`);
		assert.match(errorOf(response), reason, name);
	}
	assert.equal(await world.metric('wick_recording_uploads_refused_total'), refused + Object.keys(cases).length);
	for (const query of [
		'reference=r',
		'reference=R&at_ns=1&offset_ns=1&bound_ns=1&skew=0',
		'reference=r&at_ns=-1&offset_ns=1&bound_ns=1&skew=0',
		'reference=r&at_ns=1&offset_ns=1&bound_ns=1&skew=nan',
	]) {
		const response = await world.call('POST', `/api/v1/recordings/${order.id}/hosts/a?${query}`, {
			body: good,
			headers: { 'x-wick-upload-key': order.keys.a },
		});
		assert.equal(response.status, 400, query);
	}
	assert.equal(await world.state(order.id, 'a'), 'waiting');
	assert.deepEqual(readdirSync(`${world.data}/recordings/${order.id}`), ['recording.json']);
	assert.equal((await world.send(order, 'a', good)).status, 200, 'and the host may still send');
});
await test('what is too large is refused, and takes no memory', async () => {
	const order = await world.order(['a', 'b']),
		spaces = Buffer.alloc(MIB, ' '),
		list = Buffer.from(`${'[1,"x"],'.repeat(MIB / 8)}`);
	const before = world.peak(true);
	for (const [name, body] of [
		['blanks', await packed('', spaces, 513, '{}')],
		['a text', await packed('{"meta":{},"x":"', spaces, 513, '"}')],
		['a list', await packed('{"meta":{},"x":[', list, 513, '0]}')],
	]) {
		const response = await world.send(order, 'a', body);
		assert.equal(response.status, 413, `${name}: ${response.body}`);
		assert.match(errorOf(response), /longer than 536870912 bytes/, name);
	}
	assert.equal((await world.send(order, 'a', await packed('', Buffer.alloc(MIB), 2000, ''))).status, 400, 'zeros are no JSON, and not read to their end');
	const large = await packed('{"meta":{},"x":[', list, 500, '0]}');
	assert.equal((await world.send(order, 'b', large)).status, 200);
	const room = 128 * MIB; // a quarter of what each of them is; sanitizers keep what was freed
	assert.ok(world.peak() < before + room, `${world.peak() - before} bytes more`);
	// That much is not made into one profile.
	const response = await world.profile(order.id);
	assert.equal(response.status, 413);
	assert.match(errorOf(response), /recordings\.profile.*host=NAME/);
	const endless = await new Promise((resolve, reject) => {
		const socket = connect(world.port, '127.0.0.1', () =>
			socket.write(
				`POST /api/v1/recordings/${order.id}/hosts/a HTTP/1.1\r\nHost: 127.0.0.1:${world.port}\r\nX-Wick-Upload-Key: ${order.keys.a}\r\nContent-Length: ${64 * MIB + 1}\r\n\r\n`,
			),
		);
		let got = '';
		socket.on('data', (chunk) => {
			got += chunk;
			if (got.includes('\r\n\r\n')) {
				resolve(got);
				socket.destroy();
			}
		});
		socket.on('error', reject);
	});
	assert.match(endless, /^HTTP\/1\.1 413 /);
	assert.ok(world.peak() < before + room, `${world.peak() - before} bytes more`);
});
await test('a body that is cut leaves nothing', async () => {
	const order = await world.order(['a']);
	for (const sent of [0, 1, 100, good.length - 1]) {
		await new Promise((resolve) => {
			const socket = connect(world.port, '127.0.0.1', () => {
				socket.write(
					`POST /api/v1/recordings/${order.id}/hosts/a HTTP/1.1\r\nHost: 127.0.0.1:${world.port}\r\nX-Wick-Upload-Key: ${order.keys.a}\r\nContent-Length: ${good.length}\r\n\r\n`,
				);
				socket.end(good.subarray(0, sent));
			});
			socket.on('data', (chunk) => assert.doesNotMatch(chunk.toString(), /^HTTP\/1\.1 2/));
			socket.on('close', resolve);
			socket.on('error', resolve);
		});
	}
	assert.equal(await world.state(order.id, 'a'), 'waiting');
	assert.deepEqual(readdirSync(`${world.data}/recordings/${order.id}`), ['recording.json']);
	assert.equal((await world.send(order, 'a', good)).status, 200);
});
await test('a file is of the host whose agent sent it, whatever it says', async () => {
	const order = await world.order(['alpha', 'beta']);
	assert.equal((await world.send(order, 'alpha', profileOf(['impostor']))).status, 200);
	assert.equal((await world.send(order, 'beta', good)).status, 200);
	const { status, body } = await world.profile(order.id);
	assert.equal(status, 200, body);
	await openProfile(body, (threads, profile) => {
		assert.deepEqual([...new Set(threads.map(({ pid }) => String(pid).split(':')[0]))].sort(), ['alpha', 'beta']);
		assert.ok(!JSON.stringify(profile).includes('impostor'));
	});
});
await test('a host whose file is of no use is left out, and named', async () => {
	const order = await world.order(['alpha', 'bad', 'beta', 'many', 'other']);
	const bad = profileOf([], (profile) => {
		delete profile.threads[0].samples.stack;
	});
	const many = profileOf([], (profile) => {
		profile.meta.wick.idsHaveHosts = true;
		profile.threads = ['x:1', 'y:2'].map((pid) => ({ ...profile.threads[0], pid, tid: pid }));
	});
	const other = profileOf([], (profile) => {
		profile.meta.wick.sampleType = 'cpu';
		profile.meta.wick.sampleUnit = 'nanoseconds';
	});
	for (const [host, body] of [
		['alpha', good],
		['bad', bad],
		['beta', good],
		['many', many],
		['other', other],
	])
		assert.equal((await world.send(order, host, body)).status, 200, host);
	const { status, body } = await world.profile(order.id);
	assert.equal(status, 200, body);
	await openProfile(body, (threads) => assert.deepEqual([...new Set(threads.map(({ pid }) => String(pid).split(':')[0]))].sort(), ['alpha', 'beta']));
	assert.match(body.toString(), /host bad is missing: failed: /);
	assert.match(body.toString(), /host many is missing: failed: its profile has 2 hosts/);
	assert.match(body.toString(), /host other is missing: failed: /);
	const hosts = Object.fromEntries((await world.show(order.id)).hosts.map((host) => [host.name, host]));
	assert.deepEqual([hosts.alpha.state, hosts.bad.state, hosts.beta.state, hosts.many.state], ['done', 'failed', 'done', 'failed']);
	assert.match(hosts.bad.why, /stack/);
	assert.match(hosts.many.why, /2 hosts/);
	assert.equal((await world.send(order, 'bad', good)).status, 409, 'it had its chance');
	// The first one does not decide what is counted, if it is the only one that counts so.
	const odd = await world.order(['other', 'alpha', 'beta']);
	for (const [host, sent] of [
		['alpha', good],
		['beta', good],
		['other', other],
	])
		assert.equal((await world.send(odd, host, sent)).status, 200, host);
	const most = (await world.profile(odd.id)).body;
	await openProfile(most, (threads) => assert.deepEqual([...new Set(threads.map(({ pid }) => String(pid).split(':')[0]))].sort(), ['alpha', 'beta']));
	assert.match(most.toString(), /host other is missing: failed: its sample types differ from those of most other profiles/);
	assert.equal(JSON.parse((await world.profile(odd.id, '?host=other')).body).meta.wick.sampleType, 'cpu', 'by itself it can be had');
	// Alone they are nothing, and who asks is told why.
	const lone = await world.order(['bad']);
	assert.equal((await world.send(lone, 'bad', bad)).status, 200);
	const nothing = await world.profile(lone.id);
	assert.equal(nothing.status, 422);
	assert.match(errorOf(nothing), /no usable profile; host bad: .*stack/);
	assert.equal((await world.profile(lone.id)).status, 404, 'from then on it has none');
});
await test('wick record says who is missing, and why', async () => {
	const hosts = ['alpha', 'bad', 'beta'],
		bad = profileOf([], (profile) => {
			delete profile.threads[0].samples.stack;
		});
	const record = async (sent) => {
		for (const host of hosts) for (const { id } of (await world.poll(host)).orders) await world.call('DELETE', `/api/v1/recordings/${id}`);
		const out = `${directory}/all.firefox.json`,
			child = spawn(wick, ['record', '--remote', world.server.url, ...Object.keys(sent).flatMap((host) => ['--host', host]), '-d', '1', '-o', out], {
				stdio: ['ignore', 'ignore', 'pipe'],
			});
		let said = '';
		child.stderr.on('data', (chunk) => (said += chunk));
		const ended = new Promise((resolve) => child.once('exit', resolve));
		for (const [host, body] of Object.entries(sent)) {
			let given;
			await eventually(async () => ([given] = (await world.poll(host)).orders).length);
			if (body) assert.equal((await world.send({ id: given.id, keys: { [host]: given.key } }, host, body)).status, 200);
			else await world.poll(host, { report: { id: given.id, state: 'failed', why: 'no privileges' } });
		}
		return { status: await ended, said };
	};
	const some = await record({ alpha: good, bad, beta: null });
	assert.equal(some.status, 0, some.said);
	assert.match(some.said, /^wick record: host bad: failed: .*stack/m);
	assert.match(some.said, /^wick record: host beta: failed: no privileges$/m);
	assert.match(some.said, /of 1 of 3 hosts/);
	const none = await record({ bad, beta: null });
	assert.equal(none.status, 1);
	assert.match(none.said, /422 no usable profile; host bad: .*stack/);
	assert.match(none.said, /^wick record: host beta: failed: no privileges$/m);
	const nobody = await record({ beta: null });
	assert.equal(nobody.status, 1);
	assert.match(nobody.said, /^wick record: host beta: failed: no privileges$/m);
	assert.match(nobody.said, /no host completed a recording/);
});
await world.server.stop();

const mortal = await new World('mortal').start();
await test('what was acknowledged outlives the server, and only that', async () => {
	const order = await mortal.order(['done', 'torn', 'cut', 'late']);
	for (const host of ['done', 'torn', 'cut']) assert.equal((await mortal.send(order, host, profileOf([host]))).status, 200);
	const { id } = order,
		at = `${mortal.data}/recordings/${id}`;
	// Killed with a half of the body there.
	const socket = connect(mortal.port, '127.0.0.1');
	socket.on('error', () => {});
	socket.write(
		`POST /api/v1/recordings/${id}/hosts/late HTTP/1.1\r\nHost: 127.0.0.1:${mortal.port}\r\nX-Wick-Upload-Key: ${order.keys.late}\r\nContent-Length: ${good.length}\r\n\r\n`,
	);
	socket.write(good.subarray(0, good.length / 2));
	await sleep(100);
	await mortal.killed();
	// As a disk is left that lies about what it has written.
	truncateSync(`${at}/torn.json.gz`, statSync(`${at}/torn.json.gz`).size - 1);
	truncateSync(`${at}/cut.json.gz`, 20);
	writeFileSync(`${at}/late.json.gz.tmp`, good.subarray(0, 100));
	await mortal.start();
	assert.deepEqual(
		(await mortal.show(id)).hosts.map(({ name, state }) => `${name} ${state}`),
		['done done', 'torn waiting', 'cut waiting', 'late waiting'],
	);
	assert.deepEqual(readdirSync(at).sort(), ['cut.json.gz.torn', 'done.json.gz', 'recording.json', 'torn.json.gz.torn']);
	assert.equal(await mortal.metric('wick_recording_files_damaged_total'), 2);
	assert.match(mortal.server.log(), /torn\.json\.gz: .*set aside/);
	assert.equal(JSON.parse(gunzipSync(readFileSync(`${at}/done.json.gz`))).meta.wick.hosts[0].name, 'done', 'a plain gzip file');
	// Agents go on with the keys that they have.
	assert.equal((await mortal.poll('late')).orders[0].key, order.keys.late);
	assert.equal((await mortal.send(order, 'late', good, { key: order.keys.torn })).status, 403);
	for (const host of ['torn', 'cut', 'late']) assert.equal((await mortal.send(order, host, good)).status, 200);
	assert.equal((await mortal.send(order, 'done', good)).status, 409);
	assert.equal((await mortal.profile(id)).status, 200);
});
await test('killed at any moment, it has what it said it has', async () => {
	const noise = randomBytes(300 * KIB).toString('base64'),
		hosts = [...Array(10).keys()].map((i) => `h${i}`);
	for (let round = 0; round < 4; round++) {
		const order = await mortal.order(hosts),
			taken = [];
		const all = hosts.map((host) =>
			mortal
				.send(
					order,
					host,
					profileOf([], (profile) => {
						profile.meta.noise = noise + host;
					}),
				)
				.then(
					({ status }) => {
						if (status === 200) taken.push(host);
					},
					() => {},
				),
		);
		if (round) await eventually(() => taken.length >= 2 * round);
		await mortal.killed();
		await Promise.all(all);
		await mortal.start();
		const { hosts: shown } = await mortal.show(order.id);
		for (const host of taken) assert.equal(shown.find(({ name }) => name === host).state, 'done', `round ${round}, ${host}`);
		for (const { name, state } of shown) assert.ok(['done', 'waiting'].includes(state), `${name}: ${state}`);
		for (const { name } of shown.filter(({ state }) => state === 'waiting')) assert.equal((await mortal.send(order, name, good)).status, 200, name);
		const { status, body } = await mortal.profile(order.id);
		assert.equal(status, 200, body);
		assert.deepEqual(new Set(JSON.parse(body).threads.map(({ pid }) => String(pid).split(':')[0])), new Set(hosts));
		assert.deepEqual(
			readdirSync(`${mortal.data}/recordings/${order.id}`).filter((name) => name.endsWith('.tmp')),
			[],
		);
	}
});
await test('a server without its index still has the files, and takes no others', async () => {
	const order = await mortal.order(['a', 'b']);
	assert.equal((await mortal.send(order, 'a', good)).status, 200);
	await mortal.killed();
	writeFileSync(`${mortal.data}/recordings/${order.id}/recording.json`, '{');
	await mortal.start();
	assert.deepEqual(
		(await mortal.show(order.id)).hosts.map(({ name, state }) => `${name} ${state}`),
		['a done'],
	);
	assert.equal((await mortal.send(order, 'b', good)).status, 404);
	assert.equal((await mortal.send(order, 'a', good, { key: '' })).status, 403);
	assert.equal((await mortal.profile(order.id)).status, 200);
});
await mortal.server.stop();

const shared = await new World('tenants', 'tenants: true\n').start();
await test('tenants are apart', async () => {
	const a = await shared.order(['host'], { tenant: 'team-a' }),
		b = await shared.order(['host'], { tenant: 'team-b' });
	await shared.poll('of-nobody');
	assert.notEqual(a.keys.host, b.keys.host);
	assert.equal((await shared.send(a, 'host', good, { tenant: 'team-b' })).status, 404);
	assert.equal((await shared.send(a, 'host', good)).status, 404);
	assert.equal((await shared.send(b, 'host', good, { tenant: 'team-b', key: a.keys.host })).status, 403);
	assert.equal((await shared.send(a, 'host', good, { tenant: 'team-a' })).status, 200);
	for (const tenant of ['team-b', undefined]) {
		for (const [method, rest] of [
			['GET', ''],
			['GET', '/profile'],
			['DELETE', ''],
		])
			assert.equal((await shared.call(method, `/api/v1/recordings/${a.id}${rest}`, { tenant })).status, 404, `${method} ${rest}`);
		const { recordings } = answerOf(await shared.call('GET', '/api/v1/recordings', { tenant }));
		assert.ok(recordings.every(({ id }) => id !== a.id));
		assert.ok(answerOf(await shared.call('GET', '/api/v1/agents', { tenant })).agents.length === 1);
	}
	// An agent of one tenant is given nothing of another's, whatever it reports.
	const spy = await shared.poll('host', { tenant: 'team-b', report: { id: a.id, state: 'failed', why: 'no' } });
	assert.ok(spy.orders.every(({ id }) => id !== a.id));
	assert.equal((await shared.show(a.id, 'team-a')).hosts[0].state, 'done');
	assert.ok(existsSync(`${shared.data}/tenants/team-a/recordings/${a.id}/host.json.gz`));
	assert.ok(!existsSync(`${shared.data}/tenants/team-b/recordings/${a.id}`) && !existsSync(`${shared.data}/recordings/${a.id}`));
});
await shared.server.stop();

const small = await new World('small', 'recordings: {size: 1M}\n').start();
await test('beyond its size the oldest goes', async () => {
	const of = (bytes) =>
		profileOf([], (profile) => {
			profile.meta.noise = randomBytes(bytes).toString('base64');
		});
	const orders = [];
	for (let i = 0; i < 12; i++) {
		const order = await small.order(['a']);
		orders.push(order);
		assert.equal((await small.send(order, 'a', of(150 * KIB))).status, 200);
		const { bytes, bytes_max: most } = answerOf(await small.call('GET', '/api/v1/recordings'));
		assert.equal(most, MIB);
		assert.ok(bytes <= most);
		const onDisk = tree(`${small.data}/recordings`)
			.filter((path) => path.endsWith('.gz'))
			.reduce((sum, path) => sum + statSync(path).size, 0);
		assert.equal(onDisk, bytes);
	}
	const states = await Promise.all(orders.map(async ({ id }) => (await small.show(id)).status));
	const first = states.indexOf(200);
	assert.ok(first >= 4 && first < 10, states.join());
	assert.deepEqual(states, [...Array(first).fill(404), ...Array(12 - first).fill(200)]);
	assert.ok(!existsSync(`${small.data}/recordings/${orders[0].id}`));
	const gone = await small.send(orders[0], 'a', good);
	assert.equal(gone.status, 404);
	assert.match(errorOf(gone), /removed to free space/);
	// What has no room whatever goes costs nothing that is there.
	const order = await small.order(['a']),
		refused = await small.send(order, 'a', of(2 * MIB));
	assert.equal(refused.status, 507);
	assert.match(errorOf(refused), /limit of all recordings is 1048576 bytes/);
	assert.ok(refused.headers['retry-after']);
	assert.equal((await small.show(orders.at(-1).id)).status, 200);
	assert.equal((await small.show(orders[first].id)).status, 200);
	assert.ok((await small.metric('wick_recordings_evicted_total')) >= first);
	await small.server.stop();
	await small.start();
	assert.equal((await small.show(orders.at(-1).id)).hosts[0].state, 'done');
	await small.server.stop();
});

const brief = await new World('brief', 'recordings: {age: 5s}\n').start();
await test('beyond its age a recording goes', async () => {
	const order = await brief.order(['a']);
	await brief.send(order, 'a', good);
	await eventually(async () => (await brief.poll('a')) && (await brief.show(order.id)).status === 404);
	assert.deepEqual(tree(`${brief.data}/recordings`), []);
	assert.equal((await brief.send(order, 'a', good)).status, 404);
});
await brief.server.stop();
finish();
