// SPDX-License-Identifier: Apache-2.0
// Recordings of Java as Pyroscope's agent sends them to /ingest, and what is stored of them as Pyroscope's clients see it: types, series, labels, times,
// names, spans. The recordings are made by hand, so that what must come out is known; those of real programs are in tests/clients/.
import assert from 'node:assert/strict';
import { gzipSync } from 'node:zlib';
import { startServer, request, temporaryDirectory, test, finish } from '../harness.mjs';
import { stacksOf } from '../lib/flamegraph.mjs';
import { recording, labelsSnapshot, form } from '../lib/jfr.mjs';

const server = await startServer(`${temporaryDirectory()}/data`);
const from = Math.floor(Date.now() / 1000) - 3600; // of an hour ago: the recording itself is of 2023
const send = (name, body, parameters = {}, headers = {}) =>
	request(
		server.port,
		'POST',
		`/ingest?${new URLSearchParams({ name, from: String(from), until: String(from + 10), format: 'jfr', spyName: 'javaspy', sampleRate: '100', ...parameters })}`,
		{ body, headers },
	);
const sendForm = (name, fields, parameters) => {
	const { body, type } = form(fields);
	return send(name, body, parameters, { 'content-type': type });
};
const ok = (response) => assert.equal(response.status, 200, response.body.toString());
const call = async (method, body) => {
	const response = await request(server.port, 'POST', `/querier.v1.QuerierService/${method}`, {
		body: JSON.stringify({ start: (from - 60) * 1000, end: (from + 60) * 1000, ...body }),
		headers: { 'content-type': 'application/json' },
	});
	ok(response);
	return JSON.parse(response.body);
};
const series = async (service) =>
	((await call('Series', { matchers: [`{service_name="${service}"}`] })).labelsSet ?? [])
		.map(({ labels }) => Object.fromEntries(labels.map(({ name, value }) => [name, value])))
		.map(({ __profile_type__, ...rest }) => ({
			type: __profile_type__,
			...Object.fromEntries(Object.entries(rest).filter(([name]) => !name.startsWith('__'))),
		}))
		.sort((a, b) => JSON.stringify(a).localeCompare(JSON.stringify(b)));
const types = async (service) => [...new Set((await series(service)).map(({ type }) => type))].sort();
// {path from the root: self}
const stacks = async (profileTypeID, labelSelector) => {
	const { flamegraph } = await call('SelectMergeStacktraces', { profileTypeID, labelSelector, maxNodes: 10000 });
	return stacksOf(flamegraph);
};
const CPU = 'process_cpu:cpu:nanoseconds:cpu:nanoseconds',
	WALL = 'wall:wall:nanoseconds:wall:nanoseconds';
const work = ['shop/Order$$Lambda$73.0x00007fb1900c6aa8.run', 'java/lang/Thread.run'],
	again = ['shop/Order$$Lambda$99/0x00007fb1900cffff.run', 'java/lang/Thread.run'],
	sleep = ['java/lang/Thread.sleep', 'java/lang/Thread.run'];
const folded = 'java/lang/Thread.run;shop/Order$$Lambda_.run';
const cpu = (stackTrace, more = {}) => [
	'jdk.ExecutionSample',
	{ stackTrace, state: 'STATE_RUNNABLE', sampledThread: `worker ${stackTrace[0].length}`, ...more },
];

await test('a recording without labels: one series, whatever threads there are; from and until; folded names', async () => {
	ok(
		await send(
			'plain',
			recording({ settings: { event: 'itimer', interval: '20 ms' }, events: [cpu(work), cpu(again), cpu(work), cpu(sleep, { state: 'STATE_SLEEPING' })] }),
		),
	);
	assert.deepEqual(await series('plain'), [{ type: CPU, jfr_event: 'itimer', pyroscope_spy: 'javaspy', service_name: 'plain' }]);
	// The period is the request's, whatever the recording says.
	assert.deepEqual(await stacks(CPU, '{service_name="plain"}'), { [folded]: 30e6 });
	const { series: points } = await call('SelectSeries', { profileTypeID: CPU, labelSelector: '{service_name="plain"}', step: 1 });
	assert.deepEqual(
		points[0].points.map(({ timestamp, value }) => [Number(timestamp), value]),
		[[from * 1000, 30e6]],
	);
});
await test('the name is taken as it is; a service_name of its own, no spy', async () => {
	const body = recording({ events: [cpu(work)] });
	ok(await send('with.cpu{pool=a,__session_id__=x}', body, { sampleRate: '50' }));
	assert.deepEqual(await series('with.cpu'), [{ type: CPU, pool: 'a', pyroscope_spy: 'javaspy', service_name: 'with.cpu' }]);
	assert.deepEqual(await stacks(CPU, '{service_name="with.cpu"}'), { [folded]: 20e6 });
	ok(await send('app{service_name=chosen}', body, { spyName: '' }));
	assert.deepEqual(await series('chosen'), [{ type: CPU, app_name: 'app', pyroscope_spy: 'unknown', service_name: 'chosen' }]);
});
const contexts = labelsSnapshot(
	{ 1: { endpoint: '/orders', pool: 'mine', service_name: 'mine', jfr_event: 'mine', pyroscope_spy: 'mine' }, 2: { endpoint: '/carts' } },
	{ 7: 'GET /orders' },
);
await test('labels of contexts and spans, compressed and not', async () => {
	const events = [
		cpu(work, { contextId: 1 }),
		cpu(work, { contextId: 1, spanId: 0x0123456789abcdefn, spanName: 7, traceIdHi: 0xfen << 56n, traceIdLo: 2 }),
		cpu(work, { contextId: 2 }),
		cpu(work, { contextId: 3 }),
		['jdk.JavaMonitorEnter', { stackTrace: sleep, duration: 700, contextId: 2 }],
		['jdk.ThreadPark', { stackTrace: sleep, duration: 900 }],
	];
	const jfr = recording({ settings: { event: 'itimer' }, events });
	for (const [name, fields] of [
		['packed', { jfr: gzipSync(jfr), labels: gzipSync(contexts) }],
		['unpacked', { jfr, labels: contexts }],
	]) {
		ok(await sendForm(`${name}{pool=all}`, fields));
		const common = { jfr_event: 'itimer', pool: 'all', pyroscope_spy: 'javaspy', service_name: name };
		assert.deepEqual(
			await series(name),
			[
				{ type: CPU, ...common },
				{ type: CPU, endpoint: '/carts', ...common },
				{ type: CPU, endpoint: '/orders', ...common },
				{ type: CPU, endpoint: '/orders', span_name: 'GET /orders', ...common },
				...['contentions:count', 'delay:nanoseconds'].flatMap((type) => [
					{ type: `mutex:${type}:mutex:count`, endpoint: '/carts', ...common },
					{ type: `block:${type}:block:count`, ...common },
				]),
			]
				.map(({ type, ...labels }) => ({ type, ...Object.fromEntries(Object.entries(labels).sort()) }))
				.sort((a, b) => JSON.stringify(a).localeCompare(JSON.stringify(b))),
		);
		assert.deepEqual(await stacks(CPU, `{service_name="${name}", endpoint="/orders"}`), { [folded]: 20e6 });
		assert.deepEqual(await stacks('mutex:delay:nanoseconds:mutex:count', `{service_name="${name}"}`), { 'java/lang/Thread.run;java/lang/Thread.sleep': 700 });
		const { flamegraph } = await call('SelectMergeSpanProfile', {
			profileTypeID: CPU,
			labelSelector: `{service_name="${name}"}`,
			spanSelector: ['0123456789abcdef'],
			maxNodes: 100,
		});
		assert.equal(Number(flamegraph.total), 10e6);
	}
});
await test('types of each kind of event', async () => {
	const sample = (event, more) => [event, { stackTrace: work, ...more }];
	const jfr = recording({
		settings: { event: 'wall' },
		ticksPerSecond: 2000000000,
		events: [
			sample('profiler.WallClockSample', { state: 'STATE_RUNNABLE', samples: 3 }),
			sample('profiler.WallClockSample', { state: 'STATE_SLEEPING', samples: 5 }),
			sample('jdk.ObjectAllocationInNewTLAB', { allocationSize: 16, tlabSize: 4096 }),
			sample('jdk.ObjectAllocationOutsideTLAB', { allocationSize: 5000 }),
			sample('jdk.ObjectAllocationSample', { weight: 777 }),
			sample('jdk.JavaMonitorEnter', { duration: 2000 }),
			sample('jdk.ThreadPark', { duration: 4000 }),
			sample('profiler.LiveObject', { allocationSize: 100 }),
			sample('profiler.LiveObject', { allocationSize: 100 }),
			sample('profiler.Malloc', { size: 64 }),
			sample('jdk.NativeMethodSample', { state: 'STATE_RUNNABLE' }),
		],
	});
	const expected = {
		[CPU]: 30e6,
		[WALL]: 80e6,
		'memory:alloc_in_new_tlab_objects:count:space:bytes': 1,
		'memory:alloc_in_new_tlab_bytes:bytes:space:bytes': 4096,
		'memory:alloc_outside_tlab_objects:count:space:bytes': 1,
		'memory:alloc_outside_tlab_bytes:bytes:space:bytes': 5000,
		'memory:alloc_sample_objects:count:space:bytes': 1,
		'memory:alloc_sample_bytes:bytes:space:bytes': 777,
		'mutex:contentions:count:mutex:count': 1,
		'mutex:delay:nanoseconds:mutex:count': 1000,
		'block:contentions:count:block:count': 1,
		'block:delay:nanoseconds:block:count': 2000,
		'memory:live:count:objects:count': 2,
		'memory:malloc_objects:count::': 1,
		'memory:malloc_bytes:bytes::': 64,
	};
	ok(await sendForm('kinds', { jfr }));
	assert.deepEqual(await types('kinds'), Object.keys(expected).sort());
	for (const [type, total] of Object.entries(expected)) assert.deepEqual(await stacks(type, '{service_name="kinds"}'), { [folded]: total }, type);
	// By Wick's own API: memory has no duration, as with other clients.
	const response = await request(
		server.port,
		'GET',
		`/api/v1/types?${new URLSearchParams({ from: String(from - 60), to: String(from + 60), query: '{service_name="kinds"}' })}`,
	);
	ok(response);
	const names = JSON.parse(response.body).types.map(({ name }) => name);
	assert.ok(names.includes('memory:live:count:objects:count'), names);
	assert.ok(names.includes('memory:alloc_in_new_tlab_bytes:bytes:space:bytes'), names);
	assert.ok(names.includes(`${CPU}:delta`), names);
});
await test('the same upload twice is stored once; another one of the same time is another', async () => {
	const upload = (n) =>
		sendForm('twice', { jfr: recording({ events: [cpu(work), ['jdk.ThreadPark', { stackTrace: sleep, duration: n }]] }), labels: contexts });
	for (let i = 0; i < 2; i++) ok(await upload(10));
	ok(await upload(100));
	assert.deepEqual(await stacks('block:delay:nanoseconds:block:count', '{service_name="twice"}'), { 'java/lang/Thread.run;java/lang/Thread.sleep': 110 });
	assert.deepEqual(await stacks(CPU, '{service_name="twice"}'), { [folded]: 20e6 });
});
await test('two chunks, and none with an event that counts', async () => {
	ok(await send('chunks', Buffer.concat([recording({ events: [cpu(work)] }), recording({ events: [cpu(sleep)] })])));
	assert.deepEqual(await stacks(CPU, '{service_name="chunks"}'), { [folded]: 10e6, 'java/lang/Thread.run;java/lang/Thread.sleep': 10e6 });
	const response = await send('none', recording({ settings: { event: 'cpu' }, events: [] }));
	ok(response);
	assert.equal(response.headers['x-wick-warning'], undefined);
	assert.deepEqual(await series('none'), []);
});
await test('events without a stack are left out, and said to be', async () => {
	const response = await send('stackless', recording({ events: [cpu(work), ['jdk.ThreadPark', { duration: 10 }], ['jdk.ThreadPark', { duration: 10 }]] }));
	ok(response);
	assert.match(response.headers['x-wick-warning'], /^2 events without a stack were left out$/);
	assert.deepEqual(await types('stackless'), [CPU]);
});
await test("Wick's own API keeps threads, times, and the names that people read", async () => {
	const body = recording({ settings: { event: 'itimer', interval: '10000000' }, startNs: BigInt(from) * 1000000000n, events: [cpu(work), cpu(sleep)] });
	ok(await request(server.port, 'POST', '/api/v1/ingest?label=service_name%3Down', { body }));
	const stored = await series('own');
	assert.equal(stored.length, 4, JSON.stringify(stored)); // two threads, samples and time
	assert.ok(stored.every(({ thread_name }) => /^worker \d+$/.test(thread_name)));
	assert.deepEqual(await stacks(CPU, '{service_name="own"}'), {
		'java.lang.Thread.run;shop.Order$$Lambda$73.0x00007fb1900c6aa8.run': 10e6,
		'java.lang.Thread.run;java.lang.Thread.sleep': 10e6,
	});
});
await test('refused', async () => {
	const jfr = recording({ events: [cpu(work)] });
	const refused = async (status, message, fields) => {
		const response = await sendForm('refused', fields);
		assert.equal(response.status, status, response.body.toString());
		assert.match(JSON.parse(response.body).message, message);
	};
	await refused(422, /recording is missing/, { labels: contexts });
	await refused(422, /^jfr: /, { jfr: 'nonsense', labels: contexts });
	await refused(422, /^jfr: chunk 1: the chunk has a size/, { jfr: jfr.subarray(0, jfr.length - 1) });
	await refused(422, /^jfr: labels: /, { jfr, labels: Buffer.from([10, 200]) });
	await refused(422, /^labels: /, { jfr, labels: gzipSync(contexts).subarray(0, 20) });
	await refused(413, /^labels: /, { jfr, labels: gzipSync(Buffer.alloc(17 << 20)) });
	await refused(422, /^jfr: .*more than once/, { jfr: gzipSync(gzipSync(jfr)) });
	// 46 of the request, and three of our own.
	const response = await send(`refused{${Array.from({ length: 46 }, (_, i) => `l${i}=x`)}}`, recording({ settings: { event: 'itimer' }, events: [cpu(work)] }));
	assert.equal(response.status, 422, response.body.toString());
	assert.equal(response.headers['x-wick-limit'], 'labels_per_series');
	assert.deepEqual(await series('refused'), []);
});
assert.equal(await server.stop(), 0, server.log());
finish();
