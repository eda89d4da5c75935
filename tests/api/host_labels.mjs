// SPDX-License-Identifier: Apache-2.0
// Labels of a thousand hosts: in conditions, groups and lists of every protocol, against sums made here of what was sent; through late profiles, a kill,
// compaction, a backup, and damage.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { startServer, request, temporaryDirectory, test, finish, wick } from '../harness.mjs';

const HOSTS = 1000,
	BOTH = 50, // hosts of two services; the others have one
	TIMES = 6,
	STEP = 100;
const directory = temporaryDirectory(),
	data = `${directory}/data`;
let server = await startServer(data);

const endServer = (which, signal) =>
	new Promise((resolve) => {
		which.child.removeAllListeners('exit');
		which.child.once('exit', resolve);
		which.child.kill(signal);
	});

// Two hours ago, in whole five minutes.
const start = Math.floor(Date.now() / 1000 / 300) * 300 - 7200,
	end = start + TIMES * STEP;
const zones = ['eu-1a', 'eu-1b', 'us-1a', 'us-1b', 'ap-1a'],
	models = ['AMD EPYC 9354', 'Intel(R) Xeon(R) 8375C', 'Neoverse-N1'];
// What a host is at a time: every tenth gets another kernel, each at its own time; host 3 moves, and back.
function host(index, time) {
	const upgraded = index % 10 === 0 && time >= start + STEP * (1 + ((index / 10) % 4));
	const labels = {
		'host.cpu.model.name': models[index % models.length],
		'os.version': upgraded ? '6.12.1' : '6.1.0',
		'cloud.availability_zone': zones[index % zones.length],
	};
	if (index === 3 && time >= start + 2 * STEP && time < start + 4 * STEP) labels['cloud.availability_zone'] = 'moved';
	if (index === 7) delete labels['cloud.availability_zone'];
	return labels;
}
const sent = [];
const attribute = ([key, value]) => ({ key, value: { stringValue: value } });
function profileOf(index, service, time, value) {
	const described = host(index, time),
		// The one service of host 5 has a zone of its own, which wins.
		own = index === 5 && service === 'cart' ? { 'cloud.availability_zone': 'own' } : {};
	sent.push({
		time,
		value,
		labels: {
			host_name: `host-${index}`,
			service_name: service,
			host_cpu_model_name: described['host.cpu.model.name'],
			os_version: described['os.version'],
			cloud_availability_zone: own['cloud.availability_zone'] ?? described['cloud.availability_zone'] ?? '',
		},
	});
	return {
		resource: {
			attributes: Object.entries({ 'host.name': `host-${index}`, 'service.name': service, ...described }).map(attribute),
			entityRefs: [{ type: 'host', idKeys: ['host.name'], descriptionKeys: Object.keys(described) }],
		},
		scopeProfiles: [
			{
				profiles: [
					{
						sampleType: { typeStrindex: 1, unitStrindex: 2 },
						timeUnixNano: String(BigInt(time) * 1000000000n),
						samples: [{ stackIndex: 1, values: [String(value)], attributeIndices: own['cloud.availability_zone'] ? [1] : [] }],
					},
				],
			},
		],
	};
}
const dictionary = {
	stringTable: ['', 'cpu', 'nanoseconds', 'work', 'cloud.availability_zone'],
	functionTable: [{}, { nameStrindex: 3 }],
	locationTable: [{}, { lines: [{ functionIndex: 1 }] }],
	stackTable: [{}, { locationIndices: [1] }],
	attributeTable: [{}, { keyStrindex: 4, value: { stringValue: 'own' } }],
};
async function post(resourceProfiles, status = 200) {
	const body = JSON.stringify({ resourceProfiles, dictionary });
	const response = await request(server.port, 'POST', '/v1development/profiles', { body, headers: { 'content-type': 'application/json' } });
	assert.equal(response.status, status, response.body.toString());
	return response.body.toString();
}
const get = async (path) => {
	const response = await request(server.port, 'GET', path);
	assert.equal(response.status, 200, `${path}: ${response.body}`);
	return JSON.parse(response.body);
};
const call = async (path, message) => {
	const response = await request(server.port, 'POST', path, { body: JSON.stringify(message), headers: { 'content-type': 'application/json' } });
	assert.equal(response.status, 200, `${path}: ${response.body}`);
	return JSON.parse(response.body);
};
const metric = async (name) => {
	const text = (await request(server.port, 'GET', '/metrics')).body.toString();
	return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1]);
};
const range = (from = start, to = end) => `from=${from}&to=${to}&exact=1`;
const encode = encodeURIComponent;

// ---- the oracle ----

const holds = ([label, operator, text], labels) => {
	const value = labels[label] ?? '',
		found = operator.includes('~') ? new RegExp(`^(?:${text})$`).test(value) : value === text;
	return found !== operator.startsWith('!');
};
function sums(conditions, by, from = start, to = end) {
	const found = {};
	for (const sample of sent) {
		if (sample.time < from || sample.time >= to || !conditions.every((condition) => holds(condition, sample.labels))) continue;
		const key = by.map((label) => `${label}=${sample.labels[label]}`).join(' ');
		found[key] = (found[key] ?? 0) + sample.value;
	}
	return found;
}
const selectorOf = (conditions) => `process_cpu{${conditions.map(([label, operator, text]) => `${label}${operator}"${text}"`).join(',')}}`;
async function askSums(conditions, by, from = start, to = end) {
	const group = by.length ? ` | group by ${by.join(', ')}` : '';
	const { table } = await get(`/api/v1/pipeline?q=${encode(`${selectorOf(conditions)}${group} | sum`)}&${range(from, to)}`);
	assert.deepEqual(
		table.columns.map(({ name }) => name),
		[...by, 'value', 'percent'],
	);
	return Object.fromEntries(table.rows.map((row) => [by.map((label, i) => `${label}=${row[i] ?? ''}`).join(' '), row[by.length]]));
}
const questions = [
	[[['cloud_availability_zone', '=', 'eu-1a']], []],
	[[['cloud_availability_zone', '!=', 'eu-1a']], ['cloud_availability_zone']],
	[[['cloud_availability_zone', '=~', 'eu-.*|moved']], ['cloud_availability_zone', 'service_name']],
	[[['cloud_availability_zone', '=', '']], ['host_name']],
	[[['cloud_availability_zone', '=', 'own']], ['host_name', 'service_name']],
	[[['cloud_availability_zone', '!~', 'eu-.*|us-.*|ap-.*']], ['cloud_availability_zone']],
	[[['os_version', '=', '6.12.1']], ['host_cpu_model_name']],
	[
		[
			['os_version', '=', '6.12.1'],
			['host_cpu_model_name', '=', models[1]],
			['service_name', '=', 'cart'],
		],
		['host_name'],
	],
	[[], ['os_version']],
	[[], ['host_cpu_model_name', 'cloud_availability_zone', 'os_version']],
	[[['host_name', '=', 'host-3']], ['cloud_availability_zone']],
	[[['os_version', '=', 'never']], ['os_version']],
];
// Whatever the store is at: memory, blocks, rollups.
async function checkAll() {
	for (const [conditions, by] of questions) {
		for (const [from, to] of [
			[start, end],
			[start + STEP, end - 2 * STEP],
			[start + 300, end],
		])
			assert.deepEqual(await askSums(conditions, by, from, to), sums(conditions, by, from, to), `${selectorOf(conditions)} by ${by}`);
		const folded = (await request(server.port, 'GET', `/api/v1/query?format=folded&query=${encode(selectorOf(conditions))}&${range()}`)).body.toString();
		const total = folded.split('\n').reduce((sum, line) => sum + Number(/ (\d+)$/.exec(line)?.[1] ?? 0), 0);
		assert.equal(total, sums(conditions, [])[''] ?? 0, selectorOf(conditions));
	}
}

await test('what hosts are adds no series', async () => {
	// The last time first: late profiles bring what was true at their own time.
	for (let at = TIMES - 1; at >= 0; at--) {
		const batch = [];
		for (let index = 0; index < HOSTS; index++)
			for (const service of index < BOTH ? ['cart', 'shop'] : ['shop'])
				batch.push(profileOf(index, service, start + at * STEP, 1 + ((index * 7 + at * 13 + service.length) % 97)));
		await post(batch);
	}
	assert.equal(await metric('wick_store_head_series'), HOSTS + BOTH);
	assert.equal(await metric('wick_store_hosts'), HOSTS);
	assert.equal(await metric('wick_store_host_labels'), HOSTS + HOSTS / 10 + 2);
	assert.equal(await metric('wick_store_host_labels_refused_total'), 0);
});

await test('conditions and groups, in memory', checkAll);

await test('values over time change when the host does', async () => {
	const { series } = await get(`/api/v1/series?query=process_cpu&by=os_version&step=${STEP}&${range()}`);
	for (const { labels, points } of series)
		for (const [ms, value] of points)
			assert.equal(value, sums([['os_version', '=', labels.os_version]], [], ms / 1000, ms / 1000 + STEP)[''], `${labels.os_version} at ${ms}`);
	assert.equal(series.length, 2);
});

const pipeline = (text) => get(`/api/v1/pipeline?q=${encode(text)}&${range()}`);
await test('tables, comparisons and differences', async () => {
	const rows = (await pipeline('process_cpu | group by cloud_availability_zone | sum')).table.rows;
	assert.deepEqual(Object.fromEntries(rows.map(([zone, value]) => [`cloud_availability_zone=${zone ?? ''}`, value])), sums([], ['cloud_availability_zone']));
	const { values, total_values } = await pipeline('process_cpu | compare host_cpu_model_name top 2');
	const all = sums([], ['host_cpu_model_name']);
	assert.equal(total_values, 3);
	for (const { value, total } of values) assert.equal(total, all[`host_cpu_model_name=${value}`]);
	const { diff } = await get(`/api/v1/pipeline?q=${encode('process_cpu{os_version="6.1.0"} | diff ({os_version="6.12.1"})')}&${range()}`);
	assert.ok(diff);
	const top = (await pipeline('process_cpu | group by os_version | top 5')).table.rows;
	assert.deepEqual(Object.fromEntries(top.map((row) => [`os_version=${row[0]}`, row.find((cell) => Number.isInteger(cell))])), sums([], ['os_version']));
});

await test('lists have them, with how many hosts', async () => {
	const { labels } = await get(`/api/v1/labels?${range()}`);
	const found = Object.fromEntries(labels.map((label) => [label.name, label]));
	assert.equal(found.os_version.hosts, HOSTS);
	assert.equal(found.os_version.values, 2);
	assert.equal(found.cloud_availability_zone.hosts, HOSTS - 1);
	assert.equal(found.service_name.hosts, undefined);
	const { values } = await get(`/api/v1/label/os_version/values?${range()}`);
	assert.deepEqual(
		values.map(({ value, hosts, series }) => [value, hosts, series]),
		[
			['6.1.0', HOSTS, HOSTS + BOTH],
			['6.12.1', HOSTS / 10, HOSTS / 10 + BOTH / 10],
		],
	);
	const moved = await get(`/api/v1/label/host_name/values?query=${encode('{cloud_availability_zone="moved"}')}&${range()}`);
	assert.deepEqual(
		moved.values.map(({ value }) => value),
		['host-3'],
	);
	assert.deepEqual(
		(await get(`/api/v1/label/cloud_availability_zone/values?prefix=us&${range()}`)).values.map(({ value }) => value),
		['us-1a', 'us-1b'],
	);
});

await test("Pyroscope's and Parca's calls", async () => {
	const ms = { start: String(start * 1000), end: String(end * 1000) },
		type = 'process_cpu:cpu:nanoseconds::';
	const { names } = await call('/querier.v1.QuerierService/LabelNames', { ...ms, matchers: [] });
	assert.ok(names.includes('host_cpu_model_name'), names.join());
	const listed = await call('/querier.v1.QuerierService/LabelValues', { ...ms, name: 'os_version', matchers: [] });
	assert.deepEqual(listed.names.sort(), ['6.1.0', '6.12.1']);
	const { series } = await call('/querier.v1.QuerierService/SelectSeries', {
		...ms,
		profileTypeID: type,
		labelSelector: '{os_version="6.12.1"}',
		groupBy: ['cloud_availability_zone'],
		step: 60,
	});
	const wanted = sums([['os_version', '=', '6.12.1']], ['cloud_availability_zone']);
	assert.deepEqual(series.map(({ labels }) => `cloud_availability_zone=${labels?.[0]?.value ?? ''}`).sort(), Object.keys(wanted).sort());
	const from = new Date(start * 1000).toISOString(),
		to = new Date(end * 1000).toISOString();
	const parca = await call('/parca.query.v1alpha1.QueryService/Values', { labelName: 'cloud_availability_zone', match: [], start: from, end: to });
	assert.ok(parca.labelValues.includes('ap-1a'), JSON.stringify(parca));
});

await test('what was acknowledged is there after a kill', async () => {
	await post([profileOf(0, 'cart', end - 1, 5)]);
	await endServer(server, 'SIGKILL');
	server = await startServer(data);
	await checkAll();
	assert.equal(await metric('wick_store_hosts'), HOSTS);
});

await test('conditions and groups, in blocks and rollups', async () => {
	await call('/api/v1/compact', {});
	await checkAll();
});

await test('limits are told, and cost no profile', async () => {
	const many = profileOf(1, 'cart', end - 2, 3);
	const keys = Array.from({ length: 40 }, (_, i) => `extra.${i}`);
	many.resource.attributes.push(...keys.map((key) => attribute([key, 'x'])));
	many.resource.entityRefs[0].descriptionKeys.push(...keys);
	await post([many]);
	assert.equal(await metric('wick_store_host_labels_refused_total'), 1);
	assert.ok(!(await get(`/api/v1/labels?${range()}`)).labels.some(({ name }) => name.startsWith('extra')));
	await checkAll();
});

await test('a server that forwards passes them on', async () => {
	const config = `${directory}/forward.yaml`,
		central = server;
	writeFileSync(config, JSON.stringify({ forward: [{ kind: 'wick', url: central.url, selector: '{service_name="edge"}' }] })); // JSON is YAML
	server = await startServer(`${directory}/edge`, ['--config', config]);
	const edge = profileOf(2, 'edge', end - 3, 11);
	edge.resource.attributes.find(({ key }) => key === 'host.name').value.stringValue = 'edge-1';
	sent.at(-1).labels.host_name = 'edge-1';
	await post([edge]);
	const forwarding = server;
	server = central;
	const wanted = sums([['service_name', '=', 'edge']], ['cloud_availability_zone']);
	for (let i = 0; i < 100 && !Object.keys(await askSums([['service_name', '=', 'edge']], [])).length; i++) await new Promise((done) => setTimeout(done, 100));
	assert.deepEqual(await askSums([['service_name', '=', 'edge']], ['cloud_availability_zone']), wanted);
	assert.equal(await metric('wick_store_hosts'), HOSTS + 1);
	await endServer(forwarding, 'SIGKILL');
});

const store = (...options) => spawnSync(wick, ['store', ...options], { encoding: 'utf8' });
await test('a backup has them, of a server and of a directory', async () => {
	const url = `http://127.0.0.1:${server.port}`;
	for (const [name, from] of [
		['of-server', ['--url', url]],
		['of-directory', ['--data', data]],
	]) {
		const made = store('backup', `${directory}/${name}`, ...from);
		assert.equal(made.status, 0, made.stderr);
		const verified = store('verify', '--data', `${directory}/${name}`);
		assert.equal(verified.status, 0, verified.stdout + verified.stderr);
		assert.match(verified.stdout, /labels of hosts: \d+ records/);
		const before = server;
		server = await startServer(`${directory}/${name}`);
		await checkAll();
		await endServer(server, 'SIGKILL');
		server = before;
	}
});

await test('damage takes the host that it hits, is told, and repaired', async () => {
	await endServer(server, 'SIGTERM');
	const path = `${data}/hosts.journal`,
		bytes = readFileSync(path);
	for (let at = -1; (at = bytes.indexOf('host-501', at + 1)) >= 0;) bytes[at + 2] ^= 1; // each record that it has
	writeFileSync(path, bytes);
	const verified = store('verify', '--data', data);
	assert.equal(verified.status, 1);
	assert.match(verified.stderr, /hosts\.journal: \d+ bytes are damaged/);
	assert.equal(store('repair', '--dry-run', '--data', data).status, 3);
	const repaired = store('repair', '--data', data);
	assert.equal(repaired.status, 3, repaired.stdout + repaired.stderr);
	assert.match(repaired.stdout, /labels of hosts: \d+ bytes lost/);
	assert.equal(store('verify', '--data', data).status, 0);
	assert.ok(existsSync(`${data}/quarantine/repaired`) && readdirSync(`${data}/quarantine/repaired`).some((name) => name.startsWith('hosts.journal-')));
	server = await startServer(data);
	assert.equal(await metric('wick_store_hosts'), HOSTS); // with the one that was forwarded
	const lost = sums([['host_name', '=', 'host-501']], [])[''];
	const found = await askSums([], ['host_cpu_model_name']);
	assert.equal(found['host_cpu_model_name='], lost);
});

finish();
