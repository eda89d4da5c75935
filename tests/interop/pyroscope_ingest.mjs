// SPDX-License-Identifier: Apache-2.0
// POST /ingest in all the forms that Pyroscope's SDKs send; tries and trees are serialised here from their description.
import assert from 'node:assert/strict';
import { gzipSync } from 'node:zlib';
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { startServer, request, temporaryDirectory, test, skip, finish, pprofProfile, varint } from '../harness.mjs';

const server = await startServer(`${temporaryDirectory()}/data`);
const now = Math.floor(Date.now() / 1000);
const send = (name, body, parameters = {}, headers = {}, path = '/ingest') =>
	request(server.port, 'POST', `${path}?${new URLSearchParams({ name, from: String(now - 10), until: String(now), ...parameters })}`, {
		body: Buffer.from(body),
		headers,
	});
const query = async (selector, range = {}) => {
	const response = await request(
		server.port,
		'GET',
		`/api/v1/query?${new URLSearchParams({ query: selector, from: 'now-1h', to: 'now+1h', format: 'json', ...range })}`,
	);
	assert.equal(response.status, 200, response.body.toString());
	return JSON.parse(response.body);
};
const total = async (selector, range) => (await query(selector, { ...range, format: 'flame' })).flame.total;
const ok = (response) => assert.equal(response.status, 200, response.body.toString());
const functions = async (selector) => Object.fromEntries((await query(selector)).functions.rows.map((row) => [row.name, row.self]).filter(([, self]) => self));

// A node: [text, value, [children]].
const serialise = ([text, value, children]) => [
	...varint(Buffer.byteLength(text)),
	...Buffer.from(text),
	...varint(value),
	...varint(children.length),
	...children.flatMap(serialise),
];
const form = (fields) => {
	const boundary = '----------------------------4ebf00fbcf09';
	const parts = Object.entries(fields).map(([name, data]) =>
		Buffer.concat([
			Buffer.from(`--${boundary}\r\nContent-Disposition: form-data; name="${name}"; filename="${name}"\r\nContent-Type: application/octet-stream\r\n\r\n`),
			Buffer.from(data),
			Buffer.from('\r\n'),
		]),
	);
	return [Buffer.concat([...parts, Buffer.from(`--${boundary}--\r\n`)]), { 'content-type': `multipart/form-data; boundary=${boundary}` }];
};

await test('groups: folded stacks, at 100 samples a second', async () => {
	ok(await send('folded{host=a, region=eu-west}', 'main;work;leaf 3\nmain;idle 2\nnocount\n\n'));
	assert.equal(await total('process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta{service_name="folded", host="a", region="eu-west"}'), 50e6);
	assert.deepEqual(await functions('process_cpu{service_name="folded"}'), { leaf: 30e6, idle: 20e6 });
});
await test('a sample rate, and the other path', async () => {
	ok(await send('rate', 'main;leaf 10\n', { sampleRate: '1000', spyName: 'pyspy' }, {}, '/pyroscope/ingest'));
	assert.equal(await total('process_cpu{service_name="rate", pyroscope_spy="pyspy"}'), 10e6);
	ok(await send('norate', 'main;leaf 10\n', { sampleRate: '-5' }));
	assert.equal(await total('process_cpu{service_name="norate"}'), 100e6);
});
await test('lines: a line a sample', async () => {
	ok(await send('lines.cpu', 'main;leaf\nmain;other\nmain;leaf\n', { format: 'lines' }));
	assert.deepEqual(await functions('process_cpu{service_name="lines"}'), { leaf: 20e6, other: 10e6 });
});
await test('trie: keys in pieces that end anywhere', async () => {
	const trie = serialise([
		'',
		0,
		[
			[
				'main;',
				0,
				[
					[
						'wor',
						0,
						[
							['k;leaf', 5, [['2', 1, []]]],
							['ry', 2, []],
						],
					],
					['idle', 3, []],
				],
			],
			['other', 4, []],
		],
	]);
	const expected = { leaf: 50e6, leaf2: 10e6, worry: 20e6, idle: 30e6, other: 40e6 };
	ok(await send('trie.cpu', trie, { format: 'trie' }));
	assert.deepEqual(await functions('process_cpu{service_name="trie"}'), expected);
	ok(await send('trietype.cpu', trie, {}, { 'content-type': 'binary/octet-stream+trie' }));
	assert.deepEqual(await functions('process_cpu{service_name="trietype"}'), expected);
	assert.equal((await query('process_cpu{service_name="trie"}')).functions.rows.find((row) => row.name === 'main').total, 110e6);
});
await test('tree: a node a frame', async () => {
	const tree = serialise([
		'',
		0,
		[
			[
				'main',
				1,
				[
					['leaf', 5, []],
					['other', 2, [['deep', 3, []]]],
				],
			],
		],
	]);
	ok(await send('tree.alloc_space', tree, { format: 'tree', units: 'bytes' }));
	assert.deepEqual(await functions('memory:alloc_space:bytes{service_name="tree"}'), { main: 1, leaf: 5, other: 2, deep: 3 });
	ok(await send('treetype.wall', tree, {}, { 'content-type': 'binary/octet-stream+tree' }));
	assert.equal(await total('wall:wall:nanoseconds{service_name="treetype"}'), 110e6);
});
await test('what is counted: by the end of the name, or by units', async () => {
	for (const [end, type] of [
		['inuse_objects', 'memory:inuse_objects:count'],
		['inuse_space', 'memory:inuse_space:bytes'],
		['alloc_objects', 'memory:alloc_objects:count'],
		['goroutines', 'goroutine:goroutines:count'],
		['mutex_count', 'mutex:contentions:count'],
		['mutex_duration', 'mutex:delay:nanoseconds'],
		['block_duration', 'block:delay:nanoseconds'],
		['lock_count', 'block:contentions:count'],
		['exceptions', 'exceptions:samples:count'],
	]) {
		ok(await send(`kinds.${end}`, 'main;leaf 7\n'));
		assert.equal(await total(`${type}{service_name="kinds"}`), 7, type);
		ok(await send(`of_${end}.${end}`, 'main;leaf 7\n'));
		assert.equal(await total(`of_${end}.${end}{}`), 7, end);
	}
	ok(await send('units', 'main;leaf 7\n', { units: 'objects', aggregationType: 'average' }));
	assert.equal(await total('memory:inuse_objects:count{service_name="units"}'), 7);
	ok(await send('my.dotted.name', 'main;leaf 1\n'));
	assert.equal(await total('process_cpu{service_name="my.dotted.name"}'), 10e6);
});
await test('labels: their own service_name wins, private ones are left out, names are made valid', async () => {
	ok(await send('app.cpu{service_name=chosen,__session_id__=x,http.route=/a b,empty=}', 'main;leaf 1\n'));
	assert.equal(await total('process_cpu{service_name="chosen", http_route="/a b", __session_id__="", empty=""}'), 10e6);
});
await test('pprof: in the body, in a form, compressed or not', async () => {
	const profile = (value) => pprofProfile([[['leaf', 'main'], value, { thread: 't1' }]], { type: 'samples', unit: 'count' });
	ok(await send('pprof1', profile(3), { format: 'pprof' }));
	assert.equal(await total('process_cpu:samples:count{service_name="pprof1", thread="t1"}'), 3);
	ok(await send('pprof2{a=b}', ...((f) => [f[0], { spyName: 'gospy' }, f[1]])(form({ profile: gzipSync(profile(4)) }))));
	assert.equal(await total('process_cpu:samples:count{service_name="pprof2", a="b", pyroscope_spy="gospy"}'), 4);
	ok(await send('pprof3', gzipSync(profile(5)), { format: 'pprof' }, { 'content-encoding': 'gzip' }));
	assert.equal(await total('process_cpu:samples:count{service_name="pprof3"}'), 5);
});
await test('pprof: the type is told by its sample types and the configuration', async () => {
	const config = JSON.stringify({
		contentions: { 'display-name': 'block_count', units: 'lock_samples' },
		delay: { 'display-name': 'block_duration', cumulative: false },
	});
	const profile = pprofProfile([[['leaf', 'main'], 6, {}]], { type: 'contentions', unit: 'count' });
	const put = (name, fields) => {
		const [body, headers] = form(fields);
		return send(name, body, {}, headers);
	};
	ok(await put('locks', { profile, sample_type_config: config }));
	assert.equal(await total('block:contentions:count{service_name="locks"}'), 6);
	ok(await put('mutexes', { profile }));
	assert.equal(await total('mutex:contentions:count{service_name="mutexes"}'), 6);
	ok(
		await put('dotnet', {
			profile: pprofProfile([[['leaf'], 9, {}]], { type: 'inuse-space', unit: 'bytes' }),
			sample_type_config: '{"inuse-space":{"units":"bytes"}}',
		}),
	);
	assert.equal(await total('memory:inuse_space:bytes{service_name="dotnet"}'), 9);
});
await test('pprof: prev_profile is refused, as Pyroscope does', async () => {
	const heap = pprofProfile([[['a', 'main'], 100, {}]], { type: 'alloc_space', unit: 'bytes' });
	const [body, headers] = form({ profile: heap, prev_profile: gzipSync(heap) });
	const response = await send('delta', body, {}, headers);
	assert.equal(response.status, 422);
	assert.match(JSON.parse(response.body).message, /prev_profile.*update the client/);
});
const types = async () => JSON.parse((await request(server.port, 'GET', '/api/v1/types?from=now-1h&to=now%2B1h')).body).types.map((t) => t.name);
await test('pprof: numeric labels make no series, and can be asked for', async () => {
	const stacks = Array.from({ length: 20 }, (_, i) => [['leaf', 'main'], 5, { bytes: 16 << i, tier: i, thread: `t${i % 2}` }]);
	ok(await send('numbers', pprofProfile(stacks, { type: 'inuse_space', unit: 'bytes' }), { format: 'pprof' }));
	const { stats } = await query('memory:inuse_space:bytes{service_name="numbers"}');
	assert.equal(stats.series, 2, 'one for each thread');
	assert.equal(await total('memory:inuse_space:bytes{service_name="numbers"}'), 100);
	assert.equal(await total('memory:inuse_space:bytes{service_name="numbers", thread="t1", bytes="", tier=""}'), 50);
	assert.equal(await total('memory:inuse_space:bytes{service_name="numbers", __number__="bytes=1kb:"}'), 70);
	assert.equal(await total('memory:inuse_space:bytes{service_name="numbers", thread="t1", __number__="tier=3:7"}'), 15);
	assert.match((await request(server.port, 'GET', '/metrics')).body.toString(), /^wick_ingest_numeric_labels_dropped_total 0$/m);
	// Over the limit of a sample, they are dropped and counted.
	ok(await send('long', pprofProfile([[['leaf', 'main'], 3, { ['k'.repeat(1100)]: 1 }]], { type: 'inuse_space', unit: 'bytes' }), { format: 'pprof' }));
	assert.equal(await total('memory:inuse_space:bytes{service_name="long", __number__=""}'), 3);
	assert.match((await request(server.port, 'GET', '/metrics')).body.toString(), /^wick_ingest_numeric_labels_dropped_total 1$/m);
});
await test('pprof: what Go counts covers no duration, whatever the client says', async () => {
	ok(await send('lasting', pprofProfile([[['leaf', 'main'], 6, {}]], { type: 'contentions', unit: 'count', durationNs: 10e9 }), { format: 'pprof' }));
	assert.equal(await total('mutex:contentions:count::{service_name="lasting"}'), 6);
	assert.deepEqual(
		(await types()).filter((type) => /^(mutex|block|memory).*:delta$/.test(type)),
		[],
	);
	assert.ok((await types()).includes('process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta'));
});
await test('pprof: functions of scripting languages are named with their file', async () => {
	const profile = pprofProfile([[['find', 'run', 'bare', 'main'], 7, {}]], { files: { find: 'app/models.rb', run: '/opt/app/run.py', main: 'main.rb' } });
	for (const [spyName, expected] of [
		['rbspy', ['app/models.rb find', '/opt/app/run.py run', 'bare', 'main.rb main']],
		['pyspy', ['app/models.rb find', 'run', 'bare', 'main.rb main']],
		['scripting', ['app/models.rb find', '/opt/app/run.py run', 'bare', 'main.rb main']],
		['gospy', ['find', 'run', 'bare', 'main']],
	]) {
		ok(await send(`of_${spyName}`, profile, { format: 'pprof', spyName }));
		const rows = (await query(`process_cpu{service_name="of_${spyName}"}`)).functions.rows;
		assert.deepEqual(rows.map((row) => row.name).sort(), expected.sort(), spyName);
		assert.equal(rows.find((row) => row.name.includes('find')).file, 'app/models.rb');
	}
});
await test("pprof: .NET's functions without ids get those of their locations", async () => {
	const profile = pprofProfile([[['leaf', 'main'], 9, {}]], { type: 'inuse-space', unit: 'bytes', functionIds: 0 });
	const [body, headers] = form({ profile, sample_type_config: '{"inuse-space":{"units":"bytes"}}' });
	ok(await send('dotnetids', body, { spyName: 'dotnetspy' }, headers));
	assert.deepEqual(await functions('memory:inuse_space:bytes{service_name="dotnetids"}'), { leaf: 9 });
});
await test('pprof: CPU time of a wall profile is CPU time', async () => {
	ok(await send('walls', pprofProfile([[['leaf'], 4, {}]], { type: 'wall' }), { format: 'pprof' }));
	assert.equal(await total('wall:wall:nanoseconds{service_name="walls"}'), 4);
	for (const [type, unit, expected] of [
		['wall', 'nanoseconds', 'wall:wall:nanoseconds::'],
		['cpu', 'nanoseconds', 'process_cpu:cpu:nanoseconds::'],
	]) {
		const response = await request(server.port, 'POST', '/api/v1/ingest?name=wall&label=service_name%3Drenamed', {
			body: pprofProfile([[['leaf'], 3, {}]], { type, unit }),
		});
		assert.equal(response.status, 200, response.body.toString());
		assert.equal(await total(`${expected}{service_name="renamed"}`), 3);
	}
});
await test('pprof: a time of 1970 is replaced by `from`', async () => {
	ok(await send('old', pprofProfile([[['leaf'], 8, {}]], { timeNs: 1700000000000000n / 1000n }), { format: 'pprof' }));
	assert.equal(await total('process_cpu{service_name="old"}'), 8);
});
await test('speedscope', async () => {
	const file = {
		$schema: 'https://www.speedscope.app/file-format-schema.json',
		shared: { frames: [{ name: 'main' }, { name: 'leaf' }] },
		profiles: [{ type: 'sampled', name: 'p', unit: 'none', startValue: 0, endValue: 2, samples: [[0, 1], [0]], weights: [1, 1] }],
	};
	ok(await send('speed.cpu', JSON.stringify(file), { format: 'speedscope' }));
	assert.equal(await total('process_cpu{service_name="speed"}'), 20e6);
	file.profiles[0].unit = 'milliseconds';
	ok(await send('speedms', JSON.stringify(file), { format: 'speedscope' }));
	assert.equal(await total('process_cpu{service_name="speedms"}'), 2e6);
	assert.equal(await total('process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta{service_name=~"speed|speedms"}'), 22e6);
	ok(await send('speedms.wall', JSON.stringify(file), { format: 'speedscope' }));
	assert.equal(await total('wall:wall:nanoseconds:cpu:nanoseconds:delta{service_name="speedms"}'), 2e6);
});
let java = '';
try {
	java = execFileSync('java', ['--version'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
} catch {
	/* said below */
}
if (!java) skip('jfr', 'java is not installed');
else
	await test('jfr: a recording that Java made, in the body and in a form', async () => {
		const directory = temporaryDirectory();
		writeFileSync(
			`${directory}/Busy.java`,
			`public class Busy {
	static double spinHere(long until) { double x = 0; while (System.nanoTime() < until) for (int i = 0; i < 10000; i++) x += Math.sqrt(i); return x; }
	public static void main(String[] arguments) { System.out.println(spinHere(System.nanoTime() + 2000000000L)); }
}
`,
		);
		execFileSync('java', [`-XX:StartFlightRecording=filename=${directory}/busy.jfr,settings=profile`, `${directory}/Busy.java`], {
			stdio: 'pipe',
			cwd: directory,
		});
		const recording = readFileSync(`${directory}/busy.jfr`);
		ok(await send('jfr1.cpu', recording, { format: 'jfr', spyName: 'javaspy' }));
		const [body, headers] = form({ jfr: gzipSync(recording) });
		ok(await send('jfr2{pool=a}', body, { format: 'jfr' }, headers));
		for (const selector of [
			'process_cpu:cpu:nanoseconds{service_name="jfr1.cpu", pyroscope_spy="javaspy"}',
			'process_cpu:cpu:nanoseconds{service_name="jfr2", pool="a"}',
		]) {
			const found = (await query(selector)).functions.rows.find((row) => row.name.includes('Busy.spinHere'));
			assert.ok(found?.total > 0, selector);
		}
		const [empty, type] = form({ labels: 'x' });
		assert.equal((await send('jfr3', empty, { format: 'jfr' }, type)).status, 422);
	});
await test('times in every unit', async () => {
	const at = Math.floor(Date.now() / 1000 - 1800) * 1000; // of now, not of the beginning: what came before may have taken long
	for (const from of [at / 1000, at, at * 1e3, BigInt(at) * 1000000n, 'now-30min', '-30m']) {
		const name = `time${String(from).length}${String(from)[0] === 'n' ? 'n' : ''}`;
		ok(await send(name, 'main;leaf 1\n', { from: String(from), until: String(at / 1000 + 10) }));
		const range = { from: String((at - 60e3) / 1000), to: String((at + 60e3) / 1000), exact: '1' };
		assert.equal(await total(`process_cpu{service_name="${name}"}`, range), 10e6, String(from));
	}
});
await test('the same again is stored once; at another time, or under another name, it is another', async () => {
	for (let i = 0; i < 2; i++) ok(await send('again', 'main;leaf 1\n'));
	assert.equal(await total('process_cpu{service_name="again"}'), 10e6);
	ok(await send('again', 'main;leaf 1\n', { from: String(now - 20), until: String(now - 10) }));
	assert.equal(await total('process_cpu{service_name="again"}'), 20e6);
	ok(await send('again2', 'main;leaf 1\n'));
	assert.equal(await total('process_cpu{service_name="again2"}'), 10e6);
	for (let i = 0; i < 2; i++) ok(await request(server.port, 'POST', '/ingest?name=untimed', { body: Buffer.from('main;leaf 1\n') }));
	assert.equal(await total('process_cpu{service_name="untimed"}'), 20e6, 'without a time there is nothing to tell a repetition by');
});
await test('an empty body is nothing, and no failure', async () => {
	ok(await send('empty', ''));
	ok(await send('empty', '', { format: 'pprof' }));
});
await test('failures', async () => {
	const refused = async (status, message, ...call) => {
		const response = await send(...call);
		assert.equal(response.status, status, `${call[0]}: ${response.body}`);
		const said = JSON.parse(response.body);
		assert.match(said.message, message);
		assert.match(said.code, /^(invalid_argument|resource_exhausted)$/);
	};
	await refused(400, /name/, '', 'a 1\n');
	await refused(400, /letters/, 'bad name!', 'a 1\n');
	await refused(400, /label/, 'app{ba d=1}', 'a 1\n');
	await refused(400, /no value/, 'app{a}', 'a 1\n');
	await refused(400, /from/, 'app', 'a 1\n', { from: 'yesterday' });
	await refused(422, /line 1/, 'app', 'a;b x\n');
	await refused(422, /trie/, 'app', [0, 0, 5, 1], { format: 'trie' });
	await refused(422, /tree/, 'app', [200, 1, 2], { format: 'tree' });
	await refused(422, /profile/, 'app', 'nonsense', { format: 'pprof' });
	await refused(422, /form/, 'app', 'nonsense', {}, { 'content-type': 'multipart/form-data; boundary=x' });
	await refused(422, /boundary/, 'app', 'nonsense', {}, { 'content-type': 'multipart/form-data' });
	await refused(422, /profile/, 'app', '{}', { format: 'speedscope' });
	await refused(422, /sample_type_config/, 'app', ...((f) => [f[0], {}, f[1]])(form({ profile: '', sample_type_config: '{' })));
	/* service_name would be one more than a series may have */
	await refused(422, /service_name.*exceeds the limit/, `app{${Array.from({ length: 48 }, (_, i) => `l${i}=v`)}}`, 'a 1\n');
	await refused(413, /limit/, 'app', gzipSync(Buffer.alloc(65 << 20)), {}, { 'content-encoding': 'gzip' });
});
await test('a heap profile without a sample, or of zeros, counts in the average', async () => {
	const heap = (stacks, ago) => pprofProfile(stacks, { type: 'inuse_space', unit: 'bytes', timeNs: BigInt(now - ago) * 1000000000n });
	for (const [stacks, ago] of [
		[[[['leaf', 'main'], 900]], 30],
		[[], 20],
		[[[['leaf', 'main'], 0]], 10],
	])
		ok(await send('zeros', heap(stacks, ago), { format: 'pprof' }));
	assert.equal(await total('memory:inuse_space{service_name="zeros"}'), 300);
	/* As Pyroscope's API has it, of all profiles. */
	const response = await request(server.port, 'POST', '/querier.v1.QuerierService/SelectSeries', {
		body: JSON.stringify({
			profileTypeID: 'memory:inuse_space:bytes::',
			labelSelector: '{service_name="zeros"}',
			start: (now - 60) * 1000,
			end: now * 1000,
			step: 60,
			aggregation: 'TIME_SERIES_AGGREGATION_TYPE_AVERAGE',
		}),
		headers: { 'content-type': 'application/json' },
	});
	const [{ points }] = JSON.parse(response.body).series;
	assert.deepEqual(
		points.map((point) => point.value),
		[300],
	);
});
assert.equal(await server.stop(), 0, server.log());

await test('a limit is 429 and says when to come back', async () => {
	const directory = temporaryDirectory();
	writeFileSync(`${directory}/wick.yaml`, 'limits:\n  ingest_bytes_per_second: 10\n  ingest_bytes_burst: 10\n');
	const limited = await startServer(`${directory}/data`, ['--config', `${directory}/wick.yaml`]);
	const push = () => request(limited.port, 'POST', '/ingest?name=app', { body: Buffer.from('main;leaf 1\n'.repeat(10)) });
	ok(await push());
	const response = await push();
	assert.equal(response.status, 429);
	assert.equal(JSON.parse(response.body).code, 'resource_exhausted');
	assert.ok(Number(response.headers['retry-after']) > 0);
	assert.equal(await limited.stop(), 0);
});
finish();
