// SPDX-License-Identifier: Apache-2.0
// Saved queries: files, the API, values of parameters, and the command line.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { finish, pprofProfile, request, startServer, temporaryDirectory, test, wick } from '../harness.mjs';

const work = temporaryDirectory(),
	directory = join(work, 'queries'),
	config = join(work, 'wick.yaml'),
	data = join(work, 'data');
mkdirSync(directory);
writeFileSync(config, `queries: {directory: ${directory}}\n`);
let server = await startServer(data, ['--config', config]);
const get = (path) => request(server.port, 'GET', path);
const json = async (path, status = 200) => {
	const response = await get(path);
	assert.equal(response.status, status, response.body.toString());
	return JSON.parse(response.body);
};
const save = (name, body) => request(server.port, 'PUT', `/api/v1/queries/${name}`, { body: typeof body === 'string' ? body : JSON.stringify(body) });
const errorOf = (response) => JSON.parse(response.body).error;
const q = encodeURIComponent;
const now = Date.now(),
	minute = 60000,
	range = `from=${now - 60 * minute}&to=${now + minute}`;
const send = async (service, timeMs, stacks) => {
	const response = await request(server.port, 'POST', `/api/v1/ingest?name=process_cpu&label=${q(`service_name=${service}`)}`, {
		body: pprofProfile(stacks, { timeNs: BigInt(timeMs) * 1000000n }),
	});
	assert.equal(response.status, 200, response.body.toString());
};
const ODD = 'odd "name" \\ | drop frames "main"';
await send('shop', now - 100 * minute, [[['parse', 'main'], 10]]);
await send('shop', now - 10 * minute, [
	[['parse', 'main'], 300],
	[['render', 'main'], 40],
]);
await send('cart', now - 10 * minute, [[['add', 'main'], 7]]);
await send(ODD, now - 10 * minute, [[['odd', 'main'], 5]]);
const list = async () => (await json('/api/v1/queries')).queries;
const rowsOf = async (path) => {
	const { table } = await json(path);
	return table.rows.map((row) => Object.fromEntries(row.map((value, i) => [table.columns[i].name, value])));
};
const run = (name, parameters = {}, more = '') =>
	`/api/v1/pipeline?saved=${name}&${range}${Object.entries(parameters)
		.map(([key, value]) => `&param.${key}=${q(value)}`)
		.join('')}${more}`;

await test('those that are built in are listed, and each can be asked', async () => {
	const queries = await list();
	assert.ok(queries.length >= 12);
	assert.deepEqual(
		queries.map(({ name }) => name),
		queries.map(({ name }) => name).sort(),
	);
	const trial = { text: 'parse', value: 'shop', number: '3', duration: '5m', label: 'service_name' };
	for (const { name, origin, title, error, parameters } of queries) {
		assert.deepEqual([origin, error], ['built-in', undefined], name);
		assert.ok(title);
		const values = Object.fromEntries(parameters.filter((one) => one.default === undefined).map((one) => [one.name, trial[one.type]]));
		const response = await get(run(name, values));
		// There is no off-CPU time here.
		if (name === 'waiting') assert.match(errorOf(response), /unknown profile type/);
		else assert.equal(response.status, 200, `${name}: ${response.body}`);
	}
});
await test('values of parameters, and their defaults', async () => {
	const all = await rowsOf(run('top-functions'));
	assert.deepEqual(
		all.map((row) => [row.function, row.self]),
		[
			['parse', 300],
			['render', 40],
			['add', 7],
			['odd', 5],
			['main', 0],
		],
	);
	const shop = await rowsOf(run('top-functions', { service: 'shop', n: '1' }));
	assert.deepEqual(
		shop.map((row) => [row.function, row.self]),
		[['parse', 300]],
	);
	const { query } = await json(run('top-functions', { service: 'shop', n: '1' }));
	assert.match(query, /\{service_name=~"shop"\} \| hide interpreter \| top 1$/);
});
await test('$range is the length of the range, in any query', async () => {
	// The hour before has 10 of parse.
	const text = 'process_cpu{service_name="shop"} | diff (shift $range) | top 10';
	const rows = await rowsOf(`/api/v1/pipeline?from=${now - 60 * minute}&to=${now}&exact=1&q=${q(text)}`);
	const parse = rows.find((row) => row.function === 'parse');
	assert.deepEqual([parse.base_self, parse.self], [10, 300]);
	const body = await request(server.port, 'POST', `/api/v1/pipeline?from=${now - 60 * minute}&to=${now}&exact=1`, { body: text });
	assert.equal(body.status, 200, body.body.toString());
	assert.match(JSON.parse(body.body).query, /diff \(shift 1h\)/);
	// In quotes it is the end of a line, as ever.
	assert.equal((await json(`/api/v1/query?${range}&query=process_cpu&frames=${q('=~ "^add$"')}`)).flame.total, 7);
	assert.match((await json(`/api/v1/query?${range}&query=${q('process_cpu | top $n')}`, 400)).error, /no parameter '\$n'/);
});
await test('a value stays a value, whatever is in it', async () => {
	assert.equal(
		(
			await save('one-service', {
				title: 'One',
				parameters: { service: { type: 'value', label: 'service_name' } },
				query: 'process_cpu{service_name=$service}',
			})
		).status,
		200,
	);
	const flame = async (service) => (await json(`/api/v1/query?saved=one-service&${range}&param.service=${q(service)}`)).flame.total;
	assert.equal(await flame(ODD), 5);
	assert.equal(await flame('shop'), 340);
	assert.equal(await flame('shop"} | frames "nothing'), 0);
	assert.equal(await flame('.*'), 0);
});
await test('what is saved is there after a restart, and can be removed', async () => {
	const yaml = 'title: Mine\nrange: 2h\nparameters:\n  by: {type: choice, choices: [function, binary], default: function}\nquery: process_cpu | top 3\n';
	assert.match(errorOf(await save('mine', yaml)), /does not use its parameter 'by'/);
	const good = 'title: Mine\nrange: 2h\nquery: process_cpu{service_name="shop"} | top 3\n';
	const answer = JSON.parse((await save('mine', good)).body);
	assert.deepEqual([answer.name, answer.origin, answer.range], ['mine', 'saved', '2h']);
	const ended = new Promise((resolve) => server.child.once('exit', resolve));
	server.child.kill('SIGKILL');
	await ended;
	server = await startServer(data, ['--config', config]);
	assert.equal((await get('/api/v1/queries/mine?format=yaml')).body.toString(), good);
	// Two hours by itself: what is 100 minutes old is in it.
	const rows = await rowsOf('/api/v1/pipeline?saved=mine');
	assert.equal(rows[0].self, 310);
	assert.equal((await rowsOf(run('mine')))[0].self, 300);
	assert.equal((await request(server.port, 'DELETE', '/api/v1/queries/mine')).status, 200);
	assert.equal((await request(server.port, 'DELETE', '/api/v1/queries/mine')).status, 404);
	assert.equal((await get('/api/v1/queries/mine')).status, 404);
});
await test('one that is built in can be replaced, and comes back', async () => {
	assert.equal((await save('top-functions', { title: 'Ours', query: 'process_cpu | top 1' })).status, 200);
	assert.deepEqual(await json('/api/v1/queries/top-functions').then(({ origin, title }) => [origin, title]), ['saved', 'Ours']);
	assert.equal((await request(server.port, 'DELETE', '/api/v1/queries/top-functions')).status, 200);
	assert.equal((await json('/api/v1/queries/top-functions')).origin, 'built-in');
	assert.match(errorOf(await request(server.port, 'DELETE', '/api/v1/queries/top-functions')), /built in/);
});
await test('files of the directory count as they are at that moment', async () => {
	const path = join(directory, 'team.yaml');
	writeFileSync(path, 'title: Team\nquery: process_cpu | top 1\n');
	assert.deepEqual(await json('/api/v1/queries/team').then(({ origin, title }) => [origin, title]), ['file', 'Team']);
	writeFileSync(path, 'title: Other\nquery: process_cpu | top 2\n');
	assert.equal((await rowsOf(run('team'))).length, 2);
	assert.match(errorOf(await save('team', { title: 'x', query: 'process_cpu' })), /is a file in .*: change it there/);
	assert.match(errorOf(await request(server.port, 'DELETE', '/api/v1/queries/team')), /configured directory/);
	// A file that is wrong is listed with the reason, and the others with it.
	writeFileSync(path, 'title: Wrong\nquery: process_cpu | tpo 2\n');
	writeFileSync(join(directory, 'Not a name.yaml'), 'x');
	writeFileSync(join(directory, 'README.md'), 'x');
	const queries = await list();
	assert.match(queries.find(({ name }) => name === 'team').error, /^team\.yaml: query: expected a stage.* at column 15 near 'tpo 2'/);
	assert.equal(queries.filter(({ origin }) => origin === 'file').length, 1);
	assert.match((await json(run('team'), 400)).error, /^team\.yaml/);
	rmSync(path);
	assert.equal((await get('/api/v1/queries/team')).status, 404);
});
await test('what is wrong with a query is said, and it is not kept', async () => {
	const cases = [
		['', /is empty|title|query/],
		['[1, 2]', /lines|mapping|must be/],
		['title: x', /query is missing/],
		['query: process_cpu', /title is missing/],
		['title: x\nquery: process_cpu\nqeury: y', /qeury.*query|unknown/],
		['title: x\nquery: process_cpu | top $n', /no parameter '\$n'/],
		['title: x\nparameters: {N: {type: number}}\nquery: process_cpu | top $N', /no name of a parameter/],
		['title: x\nparameters: {range: {type: duration}}\nquery: process_cpu | bin $range', /always there/],
		['title: x\nparameters: {n: {type: integer}}\nquery: process_cpu | top $n', /must be one of text, value, number/],
		['title: x\nparameters: {n: {type: number, default: many}}\nquery: process_cpu | top $n', /parameter 'n'/],
		['title: x\nparameters: {n: {type: number, default: many}, v: {}}\nquery: process_cpu{a=$v} | top $n', /parameter 'n'/],
		['title: x\nparameters: {v: {type: value}}\nquery: process_cpu{a=$v}', /needs a label/],
		['title: x\nparameters: {v: {type: choice}}\nquery: process_cpu{a=$v}', /needs choices/],
		['title: x\nparameters: {v: {type: choice, choices: [a], default: b}}\nquery: process_cpu{a=$v}', /none of its choices/],
		['title: x\nrange: soon\nquery: process_cpu', /duration/],
		['title: "x', /YAML|malformed|line|quoted/i],
		[`title: x\nquery: 'process_cpu{a="${'x'.repeat(40000)}"}'`, /longer|larger/],
	];
	for (const [text, want] of cases) {
		const response = await save('wrong', text);
		assert.equal(response.status, 400, text);
		assert.match(errorOf(response), want, text);
	}
	assert.equal((await get('/api/v1/queries/wrong')).status, 404);
	assert.equal((await save('Bad Name'.replace(' ', '%20'), 'title: x\nquery: process_cpu')).status, 400);
	assert.equal((await save('..%2fescape', 'title: x\nquery: process_cpu')).status, 400);
	assert.equal((await save('wrong', 'x'.repeat(70000))).status, 413);
});
await test('questions that do not fit say why', async () => {
	const refused = async (path, want) => assert.match((await json(path, 400)).error, want);
	await refused(run('callers-of-function'), /parameter 'function' is missing: it is of the type text/);
	await refused(run('top-functions', { n: 'x' }), /parameter 'n'/);
	await refused(run('cpu-over-time', { label: 'a, b' }), /is not a label name/);
	await refused(`${run('top-functions')}&query=process_cpu`, /exclude each other/);
	await refused(`/api/v1/pipeline?saved=..%2f..%2fetc%2fpasswd&${range}`, /no name of a saved query/);
	assert.equal((await get(run('nothing'))).status, 404);
});
await test('other calls take them, too', async () => {
	const { series } = await json(`/api/v1/series?saved=one-service&param.service=shop&${range}&step=1m&by=service_name`);
	assert.equal(series[0].total, 340);
	const csv = await get(run('top-functions', { n: '2' }, '&format=csv'));
	assert.equal(csv.body.toString().split('\n').length, 4);
	assert.equal(
		(await get(`/api/v1/query?saved=one-service&param.service=shop&${range}&format=folded`)).body.toString().trim(),
		'main;parse 300\nmain;render 40',
	);
});
await test('the command line lists, checks, saves and runs', async () => {
	const url = ['--url', `http://127.0.0.1:${server.port}`];
	const run = (...args) => spawnSync(wick, args, { encoding: 'utf8' });
	const listed = run('saved', 'list', ...url);
	assert.match(listed.stdout, /^top-functions +built-in Costliest functions +\(service=\.\*, n=30\)$/m);
	const file = join(work, 'from-file.yaml'),
		text = 'title: From a file\nparameters:\n  n: {type: number}\nquery: process_cpu | top $n\n';
	writeFileSync(file, text);
	const bad = join(work, 'bad.yaml');
	writeFileSync(bad, 'title: x\nquery: nothing here\n');
	const checked = run('saved', 'check', file, bad);
	assert.equal(checked.status, 1);
	assert.match(checked.stderr, /bad\.yaml: .* at column/);
	assert.equal(run('saved', 'check', file).status, 0);
	assert.equal(run('saved', 'push', file, ...url).status, 0);
	assert.equal(run('saved', 'show', 'from-file', ...url).stdout, text);
	const answer = run(
		'query',
		'--saved',
		'from-file',
		'--param',
		'n=1',
		'--from',
		String(now - 60 * minute),
		'--to',
		String(now + minute),
		'--format',
		'csv',
		...url,
	);
	assert.equal(answer.stdout.split('\n')[1].split(',')[0], '300');
	assert.match(run('query', '--saved', 'from-file', ...url).stderr, /parameter 'n' is missing/);
	assert.equal(run('query', '--saved', 'from-file', 'process_cpu', ...url).status, 2);
	assert.equal(run('query', 'process_cpu', '--param', 'n=1', ...url).status, 2);
	assert.equal(run('query', '--saved', 'from-file', '--param', 'n', ...url).status, 2);
	assert.match(run('query', 'process_cpu | diff (shift $range) | top 2', ...url).stdout, /base_self/);
	assert.equal(run('saved', 'remove', 'from-file', ...url).status, 0);
	assert.match(run('saved', 'show', 'from-file', ...url).stderr, /no saved query 'from-file'/);
	assert.equal(run('saved', 'frob').status, 2);
});
await test('the library is as it is in the source, and good', async () => {
	const files = readdirSync('src/server/saved/library');
	assert.deepEqual(
		files.map((file) => file.replace(/\.yaml$/, '')).sort(),
		(await list()).filter(({ origin }) => origin === 'built-in').map(({ name }) => name),
	);
	for (const file of files)
		assert.equal(
			(await get(`/api/v1/queries/${file.replace(/\.yaml$/, '')}?format=yaml`)).body.toString(),
			readFileSync(`src/server/saved/library/${file}`, 'utf8'),
		);
	assert.equal(spawnSync(wick, ['saved', 'check', ...files.map((file) => `src/server/saved/library/${file}`)]).status, 0);
});
finish();
