// SPDX-License-Identifier: Apache-2.0
// docs/openapi.json and the server agree: the same calls, in both directions; real answers have the members and types that it says, and
// no others; parameters it does not know are not read.
import assert from 'node:assert/strict';
import { gzipSync } from 'node:zlib';
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { startServer, request, pprofProfile, intField, bytesField, temporaryDirectory, test, finish } from '../harness.mjs';

const file = readFileSync('docs/openapi.json'),
	doc = JSON.parse(file);
const directory = temporaryDirectory();
writeFileSync(`${directory}/wick.yaml`, 'scrape_configs:\n  - job_name: gone\n    static_configs:\n      - targets: [127.0.0.1:1]\n');
const server = await startServer(`${directory}/data`, ['--config', `${directory}/wick.yaml`]);

// ---- the part of JSON Schema that the file uses

const resolve = (schema) =>
	schema?.$ref
		? resolve(
				schema.$ref
					.split('/')
					.slice(1)
					.reduce((at, key) => at[key], doc),
			)
		: schema;
const typeOf = (value) => (value === null ? 'null' : Array.isArray(value) ? 'array' : Number.isInteger(value) ? 'integer' : typeof value);
const known = new Set([
	'$ref',
	'type',
	'description',
	'properties',
	'required',
	'items',
	'enum',
	'additionalProperties',
	'anyOf',
	'format',
	'minimum',
	'maximum',
]);
function problems(schema, value, at = 'answer') {
	schema = resolve(schema);
	for (const key of Object.keys(schema)) assert.ok(known.has(key), `this test does not know '${key}' of JSON Schema`);
	if (schema.anyOf) {
		const all = schema.anyOf.map((s) => problems(s, value, at));
		return all.find((p) => p.length === 0) ?? all.flat();
	}
	const types = [schema.type].flat(),
		type = typeOf(value);
	if (schema.type && !types.includes(type) && !(type === 'integer' && types.includes('number'))) return [`${at}: ${type} instead of ${types}`];
	if (schema.enum && !schema.enum.includes(value)) return [`${at}: ${JSON.stringify(value)} is none of ${schema.enum}`];
	if (type === 'array') return value.flatMap((item, i) => (schema.items ? problems(schema.items, item, `${at}[${i}]`) : []));
	if (type !== 'object' || (!schema.properties && !schema.additionalProperties)) return [];
	const missing = (schema.required ?? []).filter((name) => !(name in value)).map((name) => `${at}.${name} is missing`);
	return missing.concat(
		Object.entries(value).flatMap(([name, member]) => {
			const own = schema.properties?.[name] ?? schema.additionalProperties;
			return own ? problems(own, member, `${at}.${name}`) : [`${at}.${name} is not in the file`];
		}),
	);
}

// ---- routes

const methods = ['get', 'put', 'post', 'delete'];
const described = Object.entries(doc.paths).flatMap(([path, item]) => methods.filter((m) => item[m]).map((m) => `${m.toUpperCase()} ${path}`));
// The sources of the server and of its areas, by a pattern of their names.
const sourcesOf = (pattern) =>
	[
		'',
		...readdirSync('src/server', { withFileTypes: true })
			.filter((entry) => entry.isDirectory())
			.map(({ name }) => `${name}/`),
	].flatMap((folder) =>
		readdirSync(`src/server/${folder}`)
			.filter((name) => pattern.test(name) && !name.endsWith('_test.c'))
			.map((name) => readFileSync(`src/server/${folder}${name}`, 'utf8')),
	);
// Every row of a route table, whatever its layout; macros of paths are resolved.
function registered() {
	const sources = sourcesOf(/\.[ch]$/);
	const macros = new Map(sources.flatMap((text) => [...text.matchAll(/#define\s+(\w+)\s+"([^"]*)"/g)].map(([, name, value]) => [name, value])));
	return sources
		.flatMap((text) =>
			[...text.matchAll(/NET_ROUTE\("(\w+)",\s*([^,]+),/g)].map(([, method, path]) => [
				method,
				path
					.trim()
					.split(/\s+/)
					.map((part) => (part.startsWith('"') ? part.slice(1, -1) : (macros.get(part) ?? part)))
					.join(''),
			]),
		)
		.filter(([, path]) => path.startsWith('/api/v1/'));
}
const matches = (pattern, path) => (pattern.endsWith('*') ? path.startsWith(pattern.slice(0, -1)) && path.length >= pattern.length : pattern === path);
await test('every call of the server is in the file, and the other way round', () => {
	const routes = registered();
	assert.ok(routes.length >= 25, 'the route table was found');
	for (const [method, path] of routes)
		assert.ok(
			described.some((d) => d.startsWith(`${method} `) && matches(path, d.split(' ')[1])),
			`${method} ${path} is not in docs/openapi.json`,
		);
	for (const line of described) {
		const [method, path] = line.split(' ');
		assert.ok(
			routes.some(([m, p]) => m === method && matches(p, path)),
			`${line} is not in the server`,
		);
	}
});
await test('every parameter that a call reads is in the file, and the other way round', () => {
	const text = ['api/', 'debuginfo/', 'recordings/', 'saved/', 'viewer/']
		.flatMap((folder) =>
			readdirSync(`src/server/${folder}`)
				.filter((name) => /^api\w*\.c$/.test(name))
				.map((name) => readFileSync(`src/server/${folder}${name}`, 'utf8')),
		)
		.concat(readFileSync('src/server/ingest/ingest.c', 'utf8'), readFileSync('src/server/scrape/api_targets.c', 'utf8'))
		.join('\n');
	const read = new Set(
		[
			...text.matchAll(
				/\b(?:call_(?:count|flag|parameter|text|time)|net_request_query(?:_nth)?|parse_count|api_read_ns)\((?:call|request|call->request),\s*"(\w+)"/g,
			),
		].map((m) => m[1]),
	);
	const known = new Set(
		Object.values(doc.paths)
			.flatMap((item) => methods.flatMap((m) => item[m]?.parameters ?? []))
			.map(resolve)
			.filter((p) => p.in === 'query')
			.map((p) => p.name),
	);
	assert.ok(read.size >= 30, 'the calls were found');
	for (const name of read) assert.ok(known.has(name), `'${name}' is not in docs/openapi.json`);
	for (const name of known) assert.ok(text.includes(`"${name}"`), `'${name}' is not in the server`);
});
await test('the file holds together', () => {
	const ids = new Set(),
		used = new Set();
	JSON.stringify(doc, (key, value) => {
		if (key === '$ref') {
			assert.ok(resolve({ $ref: value }), value);
			used.add(value.split('/').at(-1));
		}
		return value;
	});
	for (const part of ['schemas', 'parameters', 'responses'])
		for (const name of Object.keys(doc.components[part])) assert.ok(used.has(name), `${part} ${name} is not used`);
	for (const [path, item] of Object.entries(doc.paths))
		for (const method of methods.filter((m) => item[m])) {
			const call = item[method];
			assert.ok(call.operationId && !ids.has(call.operationId), call.operationId);
			ids.add(call.operationId);
			assert.ok(doc.tags.some((t) => t.name === call.tags[0]));
			const parameters = (call.parameters ?? []).map(resolve),
				names = parameters.map((p) => `${p.in} ${p.name}`);
			assert.equal(new Set(names).size, names.length, `${path}: a parameter twice`);
			assert.deepEqual(
				[...path.matchAll(/\{(\w+)\}/g)].map((m) => `path ${m[1]}`),
				names.filter((name) => name.startsWith('path')),
			);
		}
});
await test('it is served, as JSON and as YAML', async () => {
	for (const [name, type] of [
		['json', 'application/json'],
		['yaml', 'application/yaml'],
	]) {
		const answer = await request(server.port, 'GET', `/api/v1/openapi.${name}`);
		assert.equal(answer.headers['content-type'], type);
		assert.ok(answer.body.equals(file));
	}
});

// ---- answers

const asked = new Set();
// The operation that the file has for a call; the answer must be one that it lists.
async function ask(method, path, { body, status = 200, headers } = {}) {
	const bare = path.split('?')[0],
		template = Object.keys(doc.paths).find((t) => doc.paths[t][method] && new RegExp(`^${t.replace(/[.]/g, '\\.').replace(/\{\w+\}/g, '[^/]+')}$`).test(bare));
	assert.ok(template, `${method} ${path} is in the file`);
	const call = doc.paths[template][method],
		known = (call.parameters ?? []).map((p) => resolve(p).name);
	for (const name of new URLSearchParams(path.split('?')[1] ?? '').keys())
		assert.ok(known.includes(name), `${template}: parameter '${name}' is not in the file`);
	const answer = await request(server.port, method.toUpperCase(), path, { body, headers });
	assert.equal(answer.status, status, `${method} ${path}: ${answer.body}`);
	const response = resolve(call.responses[status]);
	assert.ok(response, `${template}: status ${status} is not in the file`);
	const type = answer.headers['content-type'].split(';')[0],
		content = response.content[type];
	assert.ok(content, `${template}: ${type} is not in the file`);
	const value = type === 'application/json' ? JSON.parse(answer.body) : answer.body;
	if (type === 'application/json') assert.deepEqual(problems(content.schema, value).slice(0, 5), [], `${method} ${path}`);
	if (status < 300) asked.add(`${method.toUpperCase()} ${template}`);
	return value;
}
const now = Date.now(),
	range = `from=${now - 3600000}&to=${now + 60000}`,
	query = 'query=process_cpu';
const profile = (minutes, extra = 0) =>
	pprofProfile(
		[
			[['leaf', 'main'], 700 + extra, { thread: 'a' }],
			[['other', 'main'], 200, { thread: 'b' }],
		],
		{ timeNs: BigInt(now - minutes * 60000) * 1000000n, durationNs: 1e10 },
	);
// One with addresses in a binary that has a build-id: one address has a name, the other is the server's to look up.
const buildId = '8877665544332211aabbccddeeff001122334455';
const native = Buffer.from([
	...bytesField(1, [...intField(1, 1), ...intField(2, 2)]),
	...bytesField(2, [...bytesField(1, [1, 2]), ...bytesField(2, [50])]),
	...bytesField(3, [...intField(1, 1), ...intField(2, 0x1000), ...intField(3, 0x9000), ...intField(5, 3), ...intField(6, 4)]),
	...bytesField(4, [...intField(1, 1), ...intField(2, 1), ...intField(3, 0x1234), ...bytesField(4, intField(1, 1))]),
	...bytesField(4, [...intField(1, 2), ...intField(2, 1), ...intField(3, 0x2345)]),
	...bytesField(5, [...intField(1, 1), ...intField(2, 5)]),
	...['', 'cpu', 'nanoseconds', '/opt/gone/app', buildId, 'native'].flatMap((text) => bytesField(6, text)),
	...intField(9, BigInt(now - 60000) * 1000000n),
	...intField(10, 1e10),
]);
await test('ingest', async () => {
	await ask('post', '/api/v1/ingest?name=process_cpu&label=service_name%3Dnative', { body: native });
	await ask('post', '/api/v1/ingest?name=process_cpu&label=service_name%3Dshop&format=pprof', { body: profile(1) });
	await ask('post', '/api/v1/ingest?name=process_cpu&label=service_name%3Dmail', { body: profile(20, 5) });
	await ask('post', '/api/v1/ingest?format=pprof', { body: profile(3).subarray(0, 40), status: 400 });
	await ask('post', '/api/v1/ingest?label=nonsense', { body: profile(2), status: 422 });
});
await test('catalogue', async () => {
	for (const path of [
		'types?',
		'labels?',
		'label-values?label=thread&prefix=a&',
		'label/thread/values?limit=1&',
		`services?${query}&`,
		'services?label=thread&',
		'cardinality?',
	])
		await ask('get', `/api/v1/${path}${range}`);
	await ask('get', '/api/v1/types?from=yesterdayish', { status: 400 });
	await ask('get', `/api/v1/label/thread/nonsense?${range}`.replace('nonsense', 'values') + '&timeout=soon', { status: 400 });
});
await test('profiles and values over time', async () => {
	for (const format of ['flame', 'columns', 'json', 'top', 'folded', 'pprof', 'svg']) await ask('get', `/api/v1/query?${query}&${range}&format=${format}`);
	await ask('get', `/api/v1/query?${query}&${range}&explain=1&exact=1&max_nodes=2&names=short&group_by=thread&focus=${encodeURIComponent('"main"')}`);
	for (const more of ['', '&by=thread&limit=1&others=1&step=60s', '&rate=1&explain=1', `&where=${encodeURIComponent('thread="a"')}`])
		await ask('get', `/api/v1/series?${query}&${range}${more}`);
	await ask('get', `/api/v1/pprof?${query}&${range}&seconds=60`);
	await ask('get', `/api/v1/pprof?${query}&from=nonsense`, { status: 400 });
	await ask('get', `/api/v1/query?${query}&format=xml`, { status: 400 });
	await ask('get', '/api/v1/query?query=process_cpu%7Bservice_name%3D%22nobody%22%7D');
	await ask('get', '/api/v1/query?query=nothing', { status: 400 });
});
await test('results of pipelines, whatever they are', async () => {
	const earlier = `base_from=${now - 3600000}&base_to=${now - 600000}`;
	for (const format of ['json', 'table', 'text']) {
		await ask('get', `/api/v1/diff?${query}&from=${now - 600000}&to=${now}&${earlier}&format=${format}&relative=1`);
		await ask('get', `/api/v1/compare?${query}&${range}&label=thread&values=2&format=${format}`);
		for (const text of [
			'',
			' | top 3',
			' | top 10 by binary',
			' | group by thread | bin 1m | top 1 others',
			' | bin 1m | rate',
			' | group by thread',
			' | diff ({service_name="mail"})',
			' | group by thread | sum | sort by value desc | limit 1',
			' | compare label thread top 1',
			' | count',
		])
			await ask('get', `/api/v1/pipeline?q=${encodeURIComponent(`process_cpu${text}`)}&${range}&format=${format}&explain=1`);
		await ask('post', `/api/v1/pipeline?${range}&format=${format}`, { body: Buffer.from('process_cpu | top 3') });
	}
	await ask('get', `/api/v1/pipeline?q=${encodeURIComponent('process_cpu | nonsense')}`, { status: 400 });
	await ask('get', `/api/v1/compare?${query}`, { status: 400 });
});
await test('source and assembly', async () => {
	for (const format of ['json', 'text'])
		for (const call of ['source?whole=1&function=leaf', 'source?function=native', 'asm?syntax=att&function=native'])
			await ask('get', `/api/v1/${call}&${query}&${range}&format=${format}`);
	await ask('get', `/api/v1/source?function=nobody&${query}&${range}`, { status: 404 });
	await ask('get', `/api/v1/asm?${query}&${range}`, { status: 400 });
});
await test('debug information', async () => {
	const id = '00112233445566778899aabbccddeeff00112233',
		begin = (more) => Buffer.from(JSON.stringify({ build_id: id, size: 10, kind: 'sources', ...more }));
	await ask('get', '/api/v1/binaries?state=queued&text=x&limit=5&offset=0');
	await ask('get', '/api/v1/binaries');
	await ask('post', `/api/v1/binaries/${id}/retry`, { status: 404 });
	assert.deepEqual(
		(await ask('get', '/api/v1/binaries')).binaries.map((b) => b.build_id),
		[buildId],
	);
	await ask('post', `/api/v1/binaries/${buildId}/retry`);
	await ask('post', '/api/v1/debuginfo/wanted', { body: Buffer.from(JSON.stringify({ binaries: [{ build_id: id, path: '/usr/bin/app' }] })) });
	const upload = await ask('post', '/api/v1/debuginfo/uploads', { body: begin(), status: 201 });
	await ask('put', `/api/v1/debuginfo/uploads/${upload.id}?offset=0`, { body: Buffer.from('12345') });
	await ask('put', `/api/v1/debuginfo/uploads/${upload.id}?offset=9`, { body: Buffer.from('5'), status: 409 });
	await ask('delete', `/api/v1/debuginfo/uploads/${upload.id}`);
	await ask('delete', `/api/v1/debuginfo/uploads/${upload.id}`, { status: 404 });
	await ask('post', '/api/v1/debuginfo/uploads', { body: begin({ size: 0 }), status: 400 });
	const tar = Buffer.alloc(2048);
	tar.write('a.c');
	tar.write('0000644\0', 100);
	tar.write('0000000\0', 108);
	tar.write('0000000\0', 116);
	tar.write('00000000000\0', 124);
	tar.write('00000000000\0', 136);
	tar.write('        0', 148);
	tar.write('ustar\x0000', 257);
	tar.write(
		`${tar
			.subarray(0, 512)
			.reduce((a, b) => a + b, 0)
			.toString(8)
			.padStart(6, '0')}\0 `,
		148,
	);
	const second = await ask('post', '/api/v1/debuginfo/uploads', { body: begin({ size: tar.length }), status: 201 });
	await ask('put', `/api/v1/debuginfo/uploads/${second.id}?offset=0`, { body: tar });
	await ask('post', `/api/v1/debuginfo/uploads/${second.id}/finish`);
});
await test('recordings of several hosts', async () => {
	const poll = (more) =>
		ask('post', '/api/v1/agents/poll', { body: Buffer.from(JSON.stringify({ version: 1, agent: 'a1', host: 'web 1', wick: '9', ...more })) });
	const order = (more) => Buffer.from(JSON.stringify({ seconds: 1, ...more }));
	await ask('post', '/api/v1/recordings', { body: order(), status: 404 });
	await poll({
		ping: { sent_ns: 1, received_ns: 2, answered_ns: 3, returned_ns: 4 },
		clock: { reference: 'r', at_ns: 1, offset_ns: -2, skew: 1e-5, bound_ns: 3 },
	});
	await poll({ health: { kernel: '6.1 x86_64', modes: ['off_cpu'], started_ms: 1, samples: 5, lost: { events: 2 }, warnings: ['no BTF'] } });
	await poll({ agent: 'b2', host: 'web 2' });
	await ask('post', '/api/v1/agents/poll', { body: Buffer.from('{}'), status: 400 });
	assert.deepEqual(
		(await ask('get', '/api/v1/agents')).agents.map(({ host, health }) => [host, health?.samples]),
		[
			['web 1', 5],
			['web 2', undefined],
		],
	);
	await ask('post', '/api/v1/recordings', { body: order({ seconds: -1 }), status: 400 });
	const { id } = await ask('post', '/api/v1/recordings', { body: order({ hosts: ['web 1', 'gone'], targets: [{ kind: 'unit', name: 'x' }] }), status: 201 });
	const given = (await poll({})).orders[0],
		headers = { 'x-wick-upload-key': given.key };
	assert.equal(given.id, id);
	await ask('get', `/api/v1/recordings/${id}/profile`, { status: 404 });
	const body = gzipSync(readFileSync('tests/api/recording.json')),
		upload = `/api/v1/recordings/${id}/hosts/web%201`;
	await ask('post', upload, { body, status: 403 });
	await ask('post', upload, { body: Buffer.from('x'), headers, status: 400 });
	await ask('post', `${upload}?reference=r&at_ns=1&offset_ns=-5&skew=1e-5&bound_ns=7`, { body, headers });
	await ask('post', upload, { body, headers, status: 409 });
	await ask('get', `/api/v1/recordings/${id}`);
	await ask('get', '/api/v1/recordings');
	for (const format of ['', '?format=firefox&host=web%201', '?format=pprof', '?format=svg', '?format=top', '?format=html'])
		await ask('get', `/api/v1/recordings/${id}/profile${format}`);
	await ask('get', `/api/v1/recordings/${id}/profile?format=nonsense`, { status: 400 });
	await ask('delete', `/api/v1/recordings/${id}`);
	await ask('delete', `/api/v1/recordings/${id}`, { status: 404 });
});
await test('files', async () => {
	await ask('post', '/api/v1/view?name=a.pb.gz&max_nodes=10&sample_type=cpu&format=pprof', { body: profile(1) });
	await ask('post', '/api/v1/view?name=a.txt', { body: Buffer.from('hello'), status: 415 });
	await ask('post', '/api/v1/view', { body: profile(1).subarray(0, 40), status: 400 });
	for (const to of ['pprof', 'firefox', 'svg', 'top', 'html', 'speedscope']) await ask('post', `/api/v1/convert?to=${to}&name=a.pb.gz`, { body: profile(1) });
	await ask('post', '/api/v1/convert', { body: profile(1), status: 400 });
});
await test('saved queries', async () => {
	const body = Buffer.from('title: Mine\nrange: 2h\nparameters: {v: {type: choice, choices: [a], default: a}}\nquery: process_cpu{a!=$v}\n');
	await ask('put', '/api/v1/queries/mine', { body });
	await ask('put', '/api/v1/queries/mine', { body: Buffer.from('x'), status: 400 });
	await ask('get', '/api/v1/queries');
	await ask('get', '/api/v1/queries/mine');
	await ask('get', '/api/v1/queries/mine?format=yaml');
	await ask('get', '/api/v1/queries/mine?format=xml', { status: 400 });
	await ask('get', '/api/v1/queries/nothing', { status: 404 });
	await ask('get', `/api/v1/query?saved=mine&${range}`);
	await ask('delete', '/api/v1/queries/mine');
	await ask('delete', '/api/v1/queries/mine', { status: 404 });
	await ask('delete', '/api/v1/queries/top-functions', { status: 409 });
});
await test('snapshots', async () => {
	const body = Buffer.from(JSON.stringify({ title: 'a', state: 'b' })),
		kept = [];
	for (const more of [
		'',
		'format=json&',
		'call=pipeline&q=process_cpu%20%7C%20top%203&',
		'call=compare&label=thread&values=2&',
		'call=diff&shift=1d&relative=1&',
		'call=series&step=60s&by=thread&others=1&rate=1&',
	])
		kept.push(await ask('post', `/api/v1/snapshots?${more}${query}&${range}`, { body, status: 201 }));
	kept.push(await ask('post', '/api/v1/snapshots?call=view&name=a.pb.gz&title=t&state=s&sample_type=cpu', { body: profile(1), status: 201 }));
	await ask('post', '/api/v1/snapshots?call=view&name=a.txt', { body, status: 415 });
	for (const { id } of kept) await ask('get', `/api/v1/snapshots/${id}`);
	assert.equal((await ask('get', '/api/v1/snapshots?limit=2&offset=1')).snapshots.length, 2);
	await ask('get', '/api/v1/snapshots?limit=x', { status: 400 });
	await ask('post', '/api/v1/snapshots', { body: Buffer.from('x'), status: 400 });
	await ask('delete', `/api/v1/snapshots/${kept[0].id}`);
	await ask('delete', `/api/v1/snapshots/${kept[0].id}`, { status: 404 });
	await ask('get', `/api/v1/snapshots/${kept[0].id}`, { status: 404 });
});
await test('markers of agents, all the time', async () => {
	const profile = JSON.parse(readFileSync('tests/api/markers.json')),
		from = Date.now() - 60000,
		at = '/api/v1/recordings/continuous';
	profile.meta.startTime = from;
	const body = gzipSync(JSON.stringify(profile)),
		times = `from_ns=${from}000000&to_ns=${from + 1000}000000&first_ns=${from - 5}000000`;
	await ask('get', `${at}/profile`, { status: 404 });
	await ask('post', `${at}/hosts/web%201?${times}&reference=r&at_ns=1&offset_ns=-5&skew=0&bound_ns=7`, { body });
	await ask('post', `${at}/hosts/web%201?${times}`, { body, status: 409 });
	await ask('post', `${at}/hosts/web%201`, { body, status: 400 });
	assert.equal((await ask('get', at)).windows, 1);
	for (const format of ['', '&format=firefox&host=web%201', '&format=svg', '&format=html']) await ask('get', `${at}/profile?from=now-1h&to=now${format}`);
	await ask('get', `${at}/profile?format=nonsense`, { status: 400 });
	assert.equal((await ask('get', '/api/v1/markers?from=now-1h&to=now&limit=3&name=tick&host=web%201')).markers.length, 2);
	await ask('get', '/api/v1/markers?limit=0', { status: 400 });
	await ask('delete', at);
});
await test('storage and the server', async () => {
	await ask('post', '/api/v1/compact');
	assert.ok((await ask('get', '/api/v1/blocks')).blocks.length > 0);
	const [block] = (await ask('post', '/api/v1/backup?flush=true')).blocks;
	await ask('get', '/api/v1/backup/hosts.journal?offset=0');
	await ask('get', `/api/v1/backup/${block.name}/meta.json?offset=0`);
	await ask('get', `/api/v1/backup/${block.name}/nothing`, { status: 404 });
	await ask('post', '/api/v1/backup?flush=perhaps', { status: 400 });
	await ask('post', `/api/v1/delete?query=${encodeURIComponent('{service_name="mail"}')}&from=${now - 7200000}&to=${now}`);
	await ask('post', '/api/v1/delete', { status: 400 });
	assert.ok((await ask('get', '/api/v1/targets?job=gone')).targets.length > 0);
	await ask('get', '/api/v1/targets?health=well', { status: 400 });
	await ask('post', '/api/v1/reload');
	for (const name of ['slow', 'status', 'status/buildinfo', 'status/config', 'status/config/diff', 'status/config/default', 'openapi.json', 'openapi.yaml'])
		await ask('get', `/api/v1/${name}`);
});
await test('every call was asked, and answered', () => {
	assert.deepEqual(
		described.filter((line) => !asked.has(line)),
		[],
	);
});
await server.stop();
finish();
