// SPDX-License-Identifier: Apache-2.0
// Files that are dropped on the page: POST /api/v1/view and /api/v1/convert. What is shown is what was put into the file, in every format and
// compression; what is no profile is refused with a reason; nothing is stored; others are answered meanwhile.
import assert from 'node:assert/strict';
import { existsSync, readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { spawnSync } from 'node:child_process';
import { gunzipSync, gzipSync } from 'node:zlib';
import { startServer, request, pprofProfile, temporaryDirectory, testData, test, skip, finish } from '../harness.mjs';
import { convert, listed, readFolded, readOtlp, readPprof, readSpeedscope, total } from '../convert/readers.mjs';

process.setMaxListeners(0); // servers are started anew
const directory = temporaryDirectory();
const errorOf = (response) => JSON.parse(response.body).error;
const tree = (path) =>
	readdirSync(path, { withFileTypes: true })
		.flatMap((e) => (e.isDirectory() ? tree(`${path}/${e.name}`) : [`${path}/${e.name} ${statSync(`${path}/${e.name}`).size}`]))
		.sort();
writeFileSync(`${directory}/wick.yaml`, 'view: {size: 8M}\n');
let server = await startServer(`${directory}/data`, ['--config', `${directory}/wick.yaml`]);
const post = (call, body, headers) => request(server.port, 'POST', `/api/v1/${call}`, { body, headers });

// The bytes of a response as docs/api.md has them.
function readView(bytes) {
	assert.equal(bytes.subarray(0, 8).toString(), 'WICKVIEW');
	const end = 12 + bytes.readUInt32LE(8);
	return { json: JSON.parse(bytes.subarray(12, end)), columns: bytes.subarray(end) };
}
async function view(body, query = '', headers) {
	const response = await post(`view?${query}`, body, headers);
	assert.equal(response.status, 200, String(response.body.subarray(0, 500)));
	assert.equal(response.headers['content-type'], 'application/x-wick-view');
	return readView(response.body);
}
// Self values by name of the function, 0 left out.
const selves = ({ strings, nodes }) => Object.fromEntries(nodes.self.map((self, i) => [strings[nodes.name[i]], self]).filter(([, self]) => self));

const stacks = [
	[['leaf', 'main'], 700],
	[['<script>alert(1)</script>', 'main'], 200],
	[['\u202eevil', 'mid', 'main'], 50],
	[['x'.repeat(10000), 'main'], 5],
];
const expected = Object.fromEntries(stacks.map(([[leaf], value]) => [leaf, value]));
const pprof = pprofProfile(stacks, { durationNs: 1e10 });
const markers = readFileSync('tests/api/markers.json');

await test('what is shown is what is in the file', async () => {
	const { json, columns } = await view(pprof, 'name=%2Fhome%2Fme%2Fcpu.pb.gz');
	assert.deepEqual([json.title, json.format, json.shown, json.types.length, json.timeline, columns.length], ['cpu.pb.gz', 'pprof', 0, 1, undefined, 0]);
	assert.deepEqual([json.types[0].flame.type, json.types[0].flame.unit, json.types[0].flame.total], ['cpu', 'nanoseconds', 955]);
	assert.deepEqual(selves(json.types[0].flame), expected);
	assert.equal((await view(Buffer.from('main;a 7\nmain;b 3\n'))).json.types[0].flame.total, 10);
	assert.equal((await view(Buffer.from('main;a 7\n'))).json.title, 'profile');
	assert.equal((await view(pprof, 'max_nodes=1')).json.types[0].flame.trimmed, 1);
});
await test('compressed on the way, or as a file, or not', async () => {
	const plain = await view(pprof);
	assert.deepEqual(await view(gzipSync(pprof)), plain);
	assert.deepEqual(await view(gzipSync(pprof), '', { 'content-encoding': 'gzip' }), plain);
	assert.deepEqual(await view(gzipSync(gzipSync(pprof)), '', { 'content-encoding': 'gzip' }), plain);
	const zstd = spawnSync('zstd', ['-c'], { input: pprof });
	if (zstd.error) skip('zstd', 'it is not installed');
	else for (const headers of [{}, { 'content-encoding': 'zstd' }]) assert.deepEqual(await view(zstd.stdout, '', headers), plain);
	const packed = await post('view', pprof, { 'accept-encoding': 'gzip' });
	assert.equal(packed.headers['content-encoding'], 'gzip');
	assert.deepEqual(readView(gunzipSync(packed.body)), plain);
});
await test('a file with times has its time line, the same as an HTML file of it', async () => {
	writeFileSync(`${directory}/markers.json`, markers);
	assert.equal(convert(`${directory}/markers.json`, `${directory}/markers.html`, '-q').status, 0);
	const page = readFileSync(`${directory}/markers.html`, 'utf8'),
		element = (id) => gunzipSync(Buffer.from(page.match(new RegExp(`id="${id}"[^>]*>([^<]*)<`))[1], 'base64'));
	const { json, columns } = await view(markers, 'name=markers.json'),
		{ format, left_out, ...rest } = json;
	assert.deepEqual(rest, JSON.parse(element('profile')));
	assert.ok(columns.length > 0 && columns.equals(element('timeline')));
	const count = JSON.parse(markers).threads.reduce((sum, thread) => sum + thread.markers.length, 0);
	assert.ok(json.timeline.markers > 0 && json.timeline.markers <= count, `${json.timeline.markers} of ${count}`);
	assert.equal(
		json.timeline.threads.reduce((sum, thread) => sum + thread.markers, 0),
		json.timeline.markers,
	);
});
await test('every format that can be read, from files that others wrote', async () => {
	const folders = ['pprof/google-driver', 'pprof/google-profile', 'pprof/malformed', 'otlp', 'otlp/malformed', 'speedscope']
		.map((name) => `${testData}/${name}`)
		.filter((path) => existsSync(path));
	if (!folders.length) return skip('the test data', `there is none in ${testData}`);
	let shown = 0,
		refused = 0;
	for (const folder of folders)
		for (const name of readdirSync(folder)) {
			const path = `${folder}/${name}`;
			if (!statSync(path).isFile() || statSync(path).size > 4 << 20) continue;
			const told = convert(path, `${directory}/told.html`, '-q'),
				response = await post(`view?name=${encodeURIComponent(name)}`, readFileSync(path));
			if (told.status === 0) {
				const page = readFileSync(`${directory}/told.html`, 'utf8'),
					{ format, left_out, ...rest } = readView(response.body).json;
				assert.deepEqual(rest, JSON.parse(gunzipSync(Buffer.from(page.match(/id="profile"[^>]*>([^<]*)</)[1], 'base64'))), path);
				shown++;
			} else {
				assert.ok([400, 413, 415].includes(response.status), `${path}: ${response.status}`);
				assert.ok(errorOf(response).length > 10);
				refused++;
			}
		}
	assert.ok(shown >= 10 && refused >= 10, `${shown} shown, ${refused} refused`);
});
await test('into every other format, and back', async () => {
	const read = { pprof: readPprof, otlp: readOtlp, folded: readFolded, speedscope: readSpeedscope };
	let there = 0;
	for (const to of listed('--to')) {
		const response = await post(`convert?to=${to}&name=my%20cpu.pb.gz`, pprof);
		assert.equal(response.status, 200, `${to}: ${response.body}`);
		if (to !== 'html') assert.match(response.headers['content-disposition'], /^attachment; filename="my_cpu\.[\w.-]+"$/, to);
		if (to === 'svg' || to === 'top' || to === 'html') {
			if (to !== 'top') assert.ok(!response.body.includes('<script>alert'), to); // which is text
			if (to !== 'html') assert.ok(response.body.includes('leaf'), to);
			continue;
		}
		const path = `${directory}/back`;
		writeFileSync(path, response.body);
		if (read[to]) {
			assert.equal(Number(total(read[to](path), 0)), 955, to);
			there++;
		}
		if (!listed('--from').includes(to)) continue;
		assert.equal((await view(response.body, `format=${to}`)).json.types[0].flame.total, 955, to);
	}
	assert.equal(there, Object.keys(read).length);
	const two = await post('convert?to=pprof&sample_type=nonsense', pprof);
	assert.equal(two.status, 400);
	assert.match(errorOf(two), /sample_type/);
});
await test('what is no profile is refused, with the reason', async () => {
	const cases = {
		nothing: [Buffer.alloc(0), 400, /empty/],
		'gzip of nothing': [gzipSync(''), 400, /empty/],
		'a text': [Buffer.from('hello\nworld\n'), 415, /bad\.bin: unknown profile format/],
		bytes: [Buffer.from([0, 1, 2, 3]), 415, /unknown profile format/],
		'a picture': [Buffer.from('89504e470d0a1a0a0000000d49484452', 'hex'), 415, /unknown profile format/],
		'a pprof cut short': [pprof.subarray(0, pprof.length - 5), 400, /bad\.bin: /],
		'gzip cut short': [gzipSync(pprof).subarray(0, 50), 400, /bad\.bin: /],
		'gzip in gzip': [gzipSync(gzipSync(pprof)), 400, /more than once/],
		'other JSON': [Buffer.from('{"a":1}'), 415, /unknown profile format/],
		'nested JSON': [Buffer.from(`{"meta":${'['.repeat(100000)}`), [400, 415], /./],
		'too much': [gzipSync(Buffer.alloc(9 << 20, 'a;b 1\n')), 413, /bad\.bin: /],
		'too much, plain': [Buffer.alloc(9 << 20, 'a;b 1\n'), 413, /limit/],
	};
	for (const [name, [body, status, reason]] of Object.entries(cases))
		for (const call of ['view?', 'convert?to=folded&']) {
			const response = await post(`${call}name=bad.bin`, body);
			assert.ok([status].flat().includes(response.status), `${name}: ${response.status} ${response.body.subarray(0, 300)}`);
			assert.match(errorOf(response), reason, name);
		}
	for (const [call, reason] of [
		['view?format=nonsense', /not a readable format/],
		['view?format=svg', /not a readable format/],
		['view?max_nodes=0', /max_nodes/],
		['view?max_nodes=x', /max_nodes/],
		['view?max_nodes=99999999', /max_nodes/],
		['view?sample_type=x', /sample_type/],
		['convert', /'to' is missing/],
		['convert?to=nonsense', /'to': unknown format 'nonsense'/],
		['convert?to=perf-script', /'to'/],
	]) {
		const response = await post(call, pprof);
		assert.equal(response.status, 400, `${call}: ${response.status}`);
		assert.match(errorOf(response), reason, call);
	}
	const told = await post('view?format=speedscope&name=x', pprof);
	assert.equal(told.status, 400, 'told what it is, it is not read as what it looks like');
	assert.equal((await request(server.port, 'GET', '/api/v1/view')).status, 405);
	assert.equal((await post('view', pprof, { 'content-encoding': 'br' })).status, 415);
	assert.equal((await post('view', pprof, { origin: 'https://evil.example' })).status, 403);
});
await test('names that mean harm are names', async () => {
	for (const [name, title] of [
		['../../etc/passwd', 'passwd'],
		['a\r\nX-Bad: 1', null],
		['<img src=x>', null],
		['\u202e', null],
		['', 'profile'],
		['dir/', null],
		['x'.repeat(3000), 'x'.repeat(511)],
		['%ff', null],
	]) {
		const encoded = name === '%ff' ? '%ff' : encodeURIComponent(name),
			{ json } = await view(pprof, `name=${encoded}`);
		if (title) assert.equal(json.title, title);
		const response = await post(`convert?to=pprof&name=${encoded}`, pprof);
		assert.equal(response.status, 200);
		assert.equal(response.headers['x-bad'], undefined);
		assert.match(response.headers['content-disposition'], /^attachment; filename="[\w-]+\.pb\.gz"$/);
	}
});
await test('nothing of it is stored', async () => {
	const before = tree(`${directory}/data`);
	await view(pprof);
	await post('convert?to=pprof', pprof);
	await post('view', Buffer.from('nonsense'));
	assert.deepEqual(tree(`${directory}/data`), before);
	assert.deepEqual(JSON.parse((await request(server.port, 'GET', '/api/v1/types')).body).types, []);
	const metrics = (await request(server.port, 'GET', '/metrics')).body.toString(),
		value = (name) => Number(metrics.match(new RegExp(`^${name} (\\d+)`, 'm'))[1]);
	assert.ok(value('wick_views_total') > value('wick_view_failures_total') && value('wick_view_failures_total') > 0);
	assert.equal(value('wick_ingest_profiles_total'), 0);
});
await test('one is read at a time, and others are answered meanwhile', async () => {
	const large = gzipSync(Array.from({ length: 100000 }, (_, i) => `main;f${i % 1000};g${i} 1`).join('\n'));
	const responses = await Promise.all([
		...Array.from({ length: 8 }, () => post('view', large)),
		...Array.from({ length: 20 }, () => request(server.port, 'GET', '/api/v1/status')),
	]);
	const shown = responses.slice(0, 8),
		others = responses.slice(8);
	for (const { status, headers, body } of shown) {
		assert.ok(status === 200 || status === 503, `${status}`);
		if (status === 503) assert.ok(Number(headers['retry-after']) > 0 && /try again/.test(body));
		else assert.equal(readView(body).json.types[0].flame.total, 100000);
	}
	assert.ok(shown.some(({ status }) => status === 200));
	assert.ok(others.every(({ status }) => status === 200));
});
await test('a file can be kept as a snapshot', async () => {
	const path = '/api/v1/snapshots',
		state = 'view=graph&sel=1';
	const made = await request(
		server.port,
		'POST',
		`${path}?call=view&name=cpu.pb.gz&title=${encodeURIComponent('of a file é')}&state=${encodeURIComponent(state)}`,
		{ body: markers },
	);
	assert.equal(made.status, 201, made.body);
	const { id, title, call } = JSON.parse(made.body);
	assert.deepEqual([title, call], ['of a file é', 'view']);
	const direct = await view(markers, 'name=cpu.pb.gz');
	for (let i = 0; i < 2; i++) {
		const response = await request(server.port, 'GET', `${path}/${id}`),
			packed = await request(server.port, 'GET', `${path}/${id}`, { headers: { 'accept-encoding': 'gzip' } });
		assert.equal(response.headers['content-type'], 'application/x-wick-view');
		assert.equal(packed.headers['content-type'], 'application/x-wick-view');
		assert.ok(gunzipSync(packed.body).equals(response.body));
		const { json, columns } = readView(response.body);
		assert.deepEqual(json.answer, direct.json);
		assert.ok(columns.equals(direct.columns));
		assert.deepEqual([json.snapshot.id, json.snapshot.state, json.snapshot.title], [id, state, 'of a file é']);
		assert.equal(await server.stop(), 0);
		server = await startServer(`${directory}/data`, ['--config', `${directory}/wick.yaml`]);
	}
	for (const [query, body, status] of [
		['title=%ff', pprof, 400],
		['title=%0a', pprof, 400],
		[`state=${'x'.repeat(8193)}`, pprof, 400],
		['', Buffer.from('no profile'), 415],
		['', pprof.subarray(0, 30), 400],
		['max_nodes=0', pprof, 400],
	])
		assert.equal((await request(server.port, 'POST', `${path}?call=view&${query}`, { body })).status, status, query);
	assert.equal(JSON.parse((await request(server.port, 'GET', path)).body).total, 1);
});
await test('switched off it shows and converts nothing', async () => {
	assert.equal(await server.stop(), 0);
	writeFileSync(`${directory}/wick.yaml`, 'view: {enabled: no}\n');
	server = await startServer(`${directory}/data`, ['--config', `${directory}/wick.yaml`]);
	for (const call of ['view', 'convert?to=pprof', 'snapshots?call=view']) {
		const response = await post(call, pprof);
		assert.equal(response.status, 403, call);
		assert.match(errorOf(response), /view\.enabled/);
	}
});
assert.equal(await server.stop(), 0);
finish();
