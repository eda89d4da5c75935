// SPDX-License-Identifier: Apache-2.0
// Discovery by Consul, Docker, swarms and Nomad, against servers that behave as their APIs are documented: blocking queries, filters, sockets, TLS, errors.
import assert from 'node:assert/strict';
import { chmodSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import { request, test, finish } from '../harness.mjs';
import { directory, file, replaceFile, sleep, listen, makeAuthority, issue, finding, start, api, until, targetsOf, addressesOf, discoveryOf, found, failing, meta } from './scraping.mjs';

makeAuthority();
const certificate = issue('service', 'DNS:localhost,IP:127.0.0.1');
issue('client', 'DNS:client');

// ---- Consul ----

const instance = (id, more = {}, checks = ['passing']) => ({
	Node: { ID: 'n', Node: 'node-1', Address: '10.0.0.1', Datacenter: 'dc1', TaggedAddresses: { lan: '10.0.0.1', wan_ipv4: '192.0.2.1' }, Meta: { 'rack-name': 'r1' } },
	Service: { ID: id, Service: 'web', Tags: ['prod', 'v1'], Address: '', Meta: { version: '7' }, Port: 6060, Namespace: 'default', Partition: 'default', ...more },
	Checks: checks.map((Status, i) => ({ CheckID: `check-${i}`, Status })),
});
const consul = {
	index: 10,
	services: {
		web: [instance('web-1'), instance('web-2', { Address: 'fd00::2', Port: 7070 }, ['passing', 'warning', 'critical'])],
		'api/v 2': [instance('api-1', { Tags: null }, [])],
		consul: [instance('consul-1', { Tags: ['internal'], Port: 8300 })],
	},
	waiting: [],
	seen: [],
	fault: null,
	change(services) {
		Object.assign(this.services, services);
		for (const [name, list] of Object.entries(services)) if (!list) delete this.services[name];
		this.index++;
		for (const answer of this.waiting.splice(0)) answer();
	},
};
const consulPort = await listen(
	http.createServer((req, res) => {
		const url = new URL(req.url, 'http://x'),
			path = url.pathname.replace(/^\/consul/, '');
		consul.seen.push({ path, query: url.searchParams, headers: req.headers });
		if (consul.fault) return res.writeHead(consul.fault[0]).end(consul.fault[1]);
		if (req.headers['x-consul-token'] === 'revoked') return res.writeHead(403).end('rpc error: ACL not found\n');
		const answer = () => {
			res.setHeader('X-Consul-Index', consul.index);
			res.setHeader('Content-Type', 'application/json');
			if (path === '/v1/agent/self') return res.end(JSON.stringify({ Config: { Datacenter: 'dc1', NodeName: 'node-1' } }));
			if (path === '/v1/catalog/services')
				return res.end(JSON.stringify(Object.fromEntries(Object.entries(consul.services).map(([name, list]) => [name, list[0].Service.Tags ?? []]))));
			const name = decodeURIComponent(path.replace('/v1/health/service/', '')),
				tags = url.searchParams.getAll('tag');
			res.end(JSON.stringify((consul.services[name] ?? []).filter((i) => tags.every((tag) => i.Service.Tags?.includes(tag)))));
		};
		const index = Number(url.searchParams.get('index') ?? 0);
		if (!index || index !== consul.index) return answer();
		consul.waiting.push(answer);
		const timer = setTimeout(answer, parseInt(url.searchParams.get('wait') ?? '300000'));
		res.on('close', () => {
			clearTimeout(timer);
			consul.waiting = consul.waiting.filter((one) => one !== answer);
		});
	}),
);
const hanging = await listen(http.createServer(() => {}));
let hasty = 0;
const hastyPort = await listen(
	http.createServer((req, res) => {
		hasty++;
		res.setHeader('X-Consul-Index', 7);
		res.end(req.url.startsWith('/v1/agent/self') ? '{"Config": {"Datacenter": "dc1"}}' : '[]');
	}),
);
const long = { refresh_interval: '1h' };

await start(
	'consul',
	finding('all', 'consul', { ...long, server: `127.0.0.1:${consulPort}` }) +
		finding('tagged', 'consul', { ...long, server: `http://127.0.0.1:${consulPort}`, path_prefix: 'consul', tags: ['prod', 'v1'], datacenter: 'dc2', namespace: 'ns1', node_meta: { rack: 'r 1' }, tag_separator: ';', allow_stale: false, filter: 'ServiceName != "x"', health_filter: 'Checks.Status == "passing"' }) +
		finding('named', 'consul', { ...long, server: `127.0.0.1:${consulPort}`, services: ['web'], token: 'secret-token' }) +
		finding('both', 'consul', { ...long, server: `127.0.0.1:${consulPort}`, services: ['web', 'gone'] }) +
		finding('health', 'consul', { server: `127.0.0.1:${consulPort}`, services: ['web', 'consul'] }) +
		finding('every', 'consul', { server: `127.0.0.1:${consulPort}` }) +
		finding('hasty', 'consul', { ...long, server: `127.0.0.1:${hastyPort}`, services: ['web'] }) +
		finding('revoked', 'consul', { server: `127.0.0.1:${consulPort}`, token: 'revoked' }) +
		finding('hanging', 'consul', { server: `127.0.0.1:${hanging}` }),
);
await test('Consul: all services, with the labels of Prometheus', async () => {
	const targets = await found('all', 4);
	const [web] = targets.filter((t) => t.labels.m_service_id === 'web-1');
	assert.equal(web.labels.instance, '10.0.0.1:6060');
	assert.deepEqual(meta(web), {
		service: 'web',
		dc: 'dc1',
		address: '10.0.0.1',
		node: 'node-1',
		namespace: 'default',
		partition: 'default',
		tags: ',prod,v1,',
		service_port: '6060',
		service_id: 'web-1',
		health: 'passing',
		metadata_rack_name: 'r1',
		service_metadata_version: '7',
		tagged_address_lan: '10.0.0.1',
		tagged_address_wan_ipv4: '192.0.2.1',
	});
	const [other] = targets.filter((t) => t.labels.m_service_id === 'web-2');
	assert.deepEqual([other.labels.instance, other.labels.m_service_address, other.labels.m_health], ['[fd00::2]:7070', 'fd00::2', 'critical']);
	const [quiet] = targets.filter((t) => t.labels.m_service === 'api/v 2');
	assert.deepEqual([quiet.labels.m_tags, quiet.labels.m_health], [',,', 'passing']);
});
await test('Consul: tags, data center, namespace, metadata, consistency, filters, a path', async () => {
	const targets = await found('tagged', 2);
	assert.deepEqual([targets[0].labels.m_tags, targets[0].labels.m_dc], [';prod;v1;', 'dc2']);
	const call = consul.seen.find((r) => r.path === '/v1/health/service/web' && r.query.get('dc') === 'dc2');
	assert.deepEqual(call.query.getAll('tag'), ['prod', 'v1']);
	assert.deepEqual(
		[call.query.get('ns'), call.query.get('node-meta'), call.query.get('stale'), call.query.get('filter')],
		['ns1', 'rack:r 1', null, 'Checks.Status == "passing"'],
	);
	const list = consul.seen.find((r) => r.path === '/v1/catalog/services' && r.query.get('dc') === 'dc2');
	assert.equal(list.query.get('filter'), 'ServiceName != "x"');
	assert.ok(consul.seen.some((r) => r.path === '/v1/catalog/services' && r.query.get('stale') === '' && !r.query.get('dc')));
});
await test('Consul: what comes and goes is found at once, by blocking queries', async () => {
	await found('named', 2);
	await found('both', 2);
	await until('all wait', () => consul.waiting.length >= 4);
	const waits = consul.seen.filter((r) => r.query.get('index'));
	assert.ok(waits.length > 0 && waits.every((r) => /^\d+ms$/.test(r.query.get('wait')) && parseInt(r.query.get('wait')) <= 120000));
	assert.ok(waits.some((r) => r.path === '/v1/health/service/web' && r.headers['x-consul-token'] === 'secret-token'));
	consul.change({ web: [instance('web-1'), instance('web-3', { Address: '10.0.0.3' })], fresh: [instance('fresh-1', { Address: '10.0.0.4' })] });
	for (const job of ['named', 'both']) await until(`${job} follows`, async () => (await addressesOf(job)).includes('10.0.0.3:6060'));
	await until('the new service', async () => (await addressesOf('all')).includes('10.0.0.4:6060'));
	consul.change({ fresh: null });
	await until('it is gone', async () => !(await addressesOf('all')).includes('10.0.0.4:6060'));
});
await test('Consul: an index that goes backwards is no reason to wait for ever', async () => {
	await until('all wait', () => consul.waiting.length >= 4);
	consul.index = 2; // a server that lost its state
	consul.change({ web: [instance('web-9', { Address: '10.0.0.9' })] });
	for (const job of ['all', 'named', 'both']) await until(`${job} follows`, async () => (await addressesOf(job)).includes('10.0.0.9:6060'));
	await until('all wait again', () => consul.waiting.length >= 4);
});
await test('Consul: a server that does not wait is not asked all the time', async () => {
	await until('it is watched', () => hasty > 3);
	const [before, began] = [hasty, Date.now()];
	await sleep(3000);
	assert.ok(hasty - before <= (Date.now() - began) / 1000 + 3, `${hasty - before} requests`);
});
await test('Consul: checks that fail are seen by the next look', async () => {
	await until('passing', async () => (await targetsOf('health')).some((t) => t.labels.m_service_id === 'web-9' && t.labels.m_health === 'passing'));
	consul.services.web = [instance('web-9', { Address: '10.0.0.9' }, ['critical'])]; // without a new index
	await until('critical', async () => (await targetsOf('health')).some((t) => t.labels.m_service_id === 'web-9' && t.labels.m_health === 'critical'));
});
await test('Consul: errors are shown, keep what was found, and hold no secret', async () => {
	await failing('revoked', /^http:\/\/127\.0\.0\.1:\d+\/v1\/agent\/self: status 403 Forbidden: rpc error: ACL not found$/);
	const before = (await addressesOf('health')).length;
	assert.ok(before > 0);
	for (const [fault, pattern] of [
		[[500, 'No cluster leader'], /status 500 Internal Server Error: No cluster leader/],
		[[200, '{"web": ['], /JSON/],
		[[200, '{"error": "none"}'], /^http:\/\/127\.0\.0\.1:\d+: expected a list$/],
		[[200, 'x'.repeat(33 << 20)], /larger than the limit of 32/],
	]) {
		consul.fault = fault;
		await failing('health', pattern);
		assert.equal((await addressesOf('health')).length, before);
	}
	const every = (await addressesOf('every')).length;
	assert.ok(every > 0);
	consul.fault = [200, '[]'];
	await failing('every', /: expected an object$/);
	assert.equal((await addressesOf('every')).length, every);
	consul.fault = null;
	await until('it recovers', async () => (await discoveryOf('health')).error === '');
	const shown = JSON.stringify(await api());
	for (const secret of ['secret-token', 'revoked"}']) assert.ok(!shown.includes(secret));
});
await test('one service that does not respond holds up nobody: not others, not a new configuration', async () => {
	const hang = finding('hanging', 'consul', { server: `127.0.0.1:${hanging}` });
	const loaded = (await api()).config.loaded_ms;
	const began = Date.now();
	replaceFile('consul.yml', `scrape_configs:\n${hang.replace('24h', '23h')}${finding('fresh', 'consul', { server: `127.0.0.1:${consulPort}`, services: ['web'] })}`);
	await until('it is loaded', async () => (await api()).config.loaded_ms > loaded);
	await found('fresh', 1);
	assert.equal((await targetsOf('all')).length, 0);
	assert.ok(Date.now() - began < 25000, `${Date.now() - began} ms`); // the request that hangs has 30 s
	await failing('hanging', /no response within/);
});

// ---- Docker ----

const containers = [
	{
		Id: 'c1',
		Names: ['/web', '/alias/web'],
		Image: 'web:1',
		ImageID: 'sha256:1',
		Labels: { 'com.example/team': 'shop', empty: '', '3\u00e9d': 'x' },
		HostConfig: { NetworkMode: 'front' },
		Ports: [
			{ IP: '0.0.0.0', PrivatePort: 6060, PublicPort: 32768, Type: 'tcp' },
			{ PrivatePort: 53, Type: 'udp' },
			{ PrivatePort: 9090, Type: 'tcp' },
		],
		NetworkSettings: { Networks: { front: { NetworkID: 'net1', IPAddress: '172.18.0.2', GlobalIPv6Address: '' }, back: { NetworkID: 'net2', IPAddress: '', GlobalIPv6Address: 'fd00::7' }, aa: null } },
	},
	{ Id: 'c2', Names: ['/sidecar'], Image: 'side:1', ImageID: 'sha256:2', Labels: {}, HostConfig: { NetworkMode: 'container:c1' }, Ports: [], NetworkSettings: { Networks: {} } },
	{ Id: 'c3', Names: ['/host'], Image: 'h', ImageID: 'sha256:3', Labels: {}, HostConfig: { NetworkMode: 'host' }, Ports: [], NetworkSettings: { Networks: { host: { NetworkID: 'net3', IPAddress: '' } } } },
	{ Id: 'c4', Names: [], NetworkSettings: {} },
	{ Id: 'c5', Names: ['/loop'], Image: 'l', ImageID: 'l', Labels: {}, HostConfig: { NetworkMode: 'container:c5' }, Ports: [], NetworkSettings: { Networks: {} } },
];
const networks = [
	{ Id: 'net1', Name: 'front', Scope: 'local', Internal: false, Ingress: false, Labels: { tier: 'f' } },
	{ Id: 'net2', Name: 'back', Scope: 'local', Internal: true, Ingress: false, Labels: null },
	{ Id: 'net3', Name: 'host', Scope: 'local', Internal: false, Ingress: false, Labels: {} },
];
// ---- swarms ----
const service = (id, name, mode, ports, more = {}) => ({
	ID: id,
	Spec: { Name: name, Labels: { app: name }, Mode: mode, TaskTemplate: { ContainerSpec: { Image: `${name}:1`, Hostname: `${name}-host` } } },
	Endpoint: { Ports: ports, VirtualIPs: [{ NetworkID: 'ingress', Addr: '10.0.0.5/24' }] },
	...more,
});
const swarm = {
	'/services': [
		service('s1', 'web', { Replicated: { Replicas: 2 } }, [
			{ Name: 'pprof', Protocol: 'tcp', TargetPort: 6060, PublishedPort: 8080, PublishMode: 'ingress' },
			{ Protocol: 'udp', TargetPort: 1, PublishedPort: 1, PublishMode: 'ingress' },
		], { UpdateStatus: { State: 'completed' } }),
		service('s2', 'agent', { Global: {} }, []),
		{ ID: 's3', Spec: { Name: 'plugin', TaskTemplate: { PluginSpec: {} }, Mode: {} }, Endpoint: {} },
	],
	'/nodes': [
		{
			ID: 'n1',
			Spec: { Role: 'manager', Availability: 'active', Labels: { disk: 'ssd' } },
			Description: { Hostname: 'one', Platform: { Architecture: 'x86_64', OS: 'linux' }, Engine: { EngineVersion: '24.0' } },
			Status: { State: 'ready', Addr: '192.0.2.11' },
			ManagerStatus: { Leader: true, Reachability: 'reachable', Addr: '192.0.2.11:2377' },
		},
		{ ID: 'n2', Spec: { Role: 'worker', Availability: 'drain' }, Description: { Hostname: 'two', Platform: { Architecture: 'aarch64', OS: 'linux' }, Engine: { EngineVersion: '24.0' } }, Status: { State: 'ready', Addr: '192.0.2.12' } },
	],
	'/tasks': [
		{
			ID: 't1',
			ServiceID: 's1',
			NodeID: 'n1',
			Slot: 1,
			DesiredState: 'running',
			Spec: { ContainerSpec: { Labels: { build: '5' } } },
			Status: { State: 'running', ContainerStatus: { ContainerID: 'c9' }, PortStatus: { Ports: [{ Protocol: 'tcp', PublishMode: 'host', PublishedPort: 9100 }] } },
			NetworksAttachments: [{ Network: { ID: 'ingress' }, Addresses: ['10.0.0.7/24'] }],
		},
		{ ID: 't2', ServiceID: 's2', NodeID: 'gone', DesiredState: 'running', Spec: {}, Status: { State: 'running', PortStatus: {} }, NetworksAttachments: [{ Network: { ID: 'x' }, Addresses: ['10.0.1.7/24'] }] },
	],
	'/networks': [...networks, { Id: 'ingress', Name: 'ingress', Scope: 'swarm', Internal: false, Ingress: true, Labels: {} }],
	'/containers/json': containers,
};
const docker = { seen: [], fault: null };
const daemon = (req, res) => {
	const url = new URL(req.url, 'http://x');
	docker.seen.push({ path: url.pathname, filters: url.searchParams.get('filters'), headers: req.headers });
	if (docker.fault) return res.writeHead(docker.fault[0], { 'content-type': 'application/json' }).end(docker.fault[1]);
	const list = swarm[url.pathname];
	if (!list) return res.writeHead(404, { 'content-type': 'application/json' }).end('{"message":"page not found"}');
	res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(list));
};
const socket = file('docker.sock');
await listen(http.createServer(daemon), { path: socket });
chmodSync(socket, 0o666); // the server is another user than root, whose group may use such a socket
const dockerPort = await listen(http.createServer(daemon));
const dockerTls = await listen(https.createServer({ ...certificate, ca: readFileSync(file('ca.pem')), requestCert: true, rejectUnauthorized: true }, daemon));
const tls = { ca_file: file('ca.pem'), cert_file: file('client.pem'), key_file: file('client.key') };
const filters = [
	{ name: 'label', values: ['a=b', 'c'] },
	{ name: 'status', values: ['running'] },
	{ name: 'label', values: ['"d"'] },
];
await start(
	'docker',
	finding('socket', 'docker', { host: `unix://${socket}`, filters }) +
		finding('every', 'docker', { host: `tcp://127.0.0.1:${dockerPort}`, match_first_network: false, port: 81, host_networking_host: 'box:6060' }) +
		finding('tls', 'docker', { host: `https://localhost:${dockerTls}`, tls_config: tls }) +
		finding('anonymous', 'docker', { host: `https://localhost:${dockerTls}`, tls_config: { ca_file: file('ca.pem') } }) +
		finding('nobody', 'docker', { host: `unix://${file('nobody.sock')}` }) +
		finding('services', 'dockerswarm', { host: `unix://${socket}`, role: 'services', port: 82 }) +
		finding('tasks', 'dockerswarm', { host: `http://127.0.0.1:${dockerPort}`, role: 'tasks', port: 83, basic_auth: { username: 'u', password: 'secret-password' } }) +
		finding('nodes', 'dockerswarm', { host: `http://127.0.0.1:${dockerPort}`, role: 'nodes', port: 84 }),
);
await test('Docker by its socket: ports of the first network, shared networks, the host, filters', async () => {
	const targets = await found('socket', 4);
	assert.deepEqual(await addressesOf('socket'), ['[fd00::7]:6060', '[fd00::7]:80', '[fd00::7]:9090', 'localhost']);
	const web = targets.find((t) => t.labels.instance === '[fd00::7]:6060');
	assert.deepEqual(meta(web), {
		container_id: 'c1',
		container_name: '/web',
		container_image: 'web:1',
		container_image_id: 'sha256:1',
		container_network_mode: 'front',
		container_label_com_example_team: 'shop',
		container_label_3_d: 'x',
		network_ip: 'fd00::7',
		network_id: 'net2',
		network_name: 'back',
		network_scope: 'local',
		network_internal: 'true',
		network_ingress: 'false',
		port_private: '6060',
		port_public: '32768',
		port_public_ip: '0.0.0.0',
	});
	assert.deepEqual(JSON.parse(docker.seen.find((r) => r.path === '/containers/json' && r.filters).filters), { label: ['a=b', 'c', '"d"'], status: ['running'] });
	assert.ok(docker.seen.every((r) => r.path !== '/networks' || r.filters === null));
});
await test('Docker by TCP: every network', async () => {
	const targets = await found('every', 7);
	assert.deepEqual(await addressesOf('every'), ['172.18.0.2:6060', '172.18.0.2:81', '172.18.0.2:9090', '[fd00::7]:6060', '[fd00::7]:81', '[fd00::7]:9090', 'box:6060']);
	assert.equal(targets.find((t) => t.labels.instance === '172.18.0.2:81').labels.m_container_name, '/sidecar');
	assert.equal(targets.find((t) => t.labels.instance === '172.18.0.2:6060').labels.m_network_label_tier, 'f');
});
await test('Docker by TLS with a certificate, and without one', async () => {
	await found('tls', 4);
	await failing('anonymous', /certificate required/);
	await failing('nobody', /cannot connect to unix:\/\/.*nobody\.sock: No such file/);
});
await test('a swarm: services', async () => {
	const targets = await found('services', 2);
	assert.deepEqual(await addressesOf('services'), ['10.0.0.5:8080', '10.0.0.5:82']);
	assert.deepEqual(meta(targets.find((t) => t.labels.instance === '10.0.0.5:8080')), {
		service_id: 's1',
		service_name: 'web',
		service_mode: 'replicated',
		service_label_app: 'web',
		service_task_container_hostname: 'web-host',
		service_task_container_image: 'web:1',
		service_updating_status: 'completed',
		service_endpoint_port_name: 'pprof',
		service_endpoint_port_publish_mode: 'ingress',
		network_id: 'ingress',
		network_name: 'ingress',
		network_scope: 'swarm',
		network_internal: 'false',
		network_ingress: 'true',
	});
});
await test('a swarm: tasks, with their service and node', async () => {
	const targets = await found('tasks', 3);
	assert.deepEqual(await addressesOf('tasks'), ['10.0.0.7:8080', '10.0.1.7:83', '192.0.2.11:9100']);
	const host = meta(targets.find((t) => t.labels.instance === '192.0.2.11:9100'));
	const expected = {
		task_id: 't1',
		task_desired_state: 'running',
		task_state: 'running',
		task_slot: '1',
		task_container_id: 'c9',
		task_port_publish_mode: 'host',
		container_label_build: '5',
		service_name: 'web',
		service_mode: 'replicated',
		node_id: 'n1',
		node_address: '192.0.2.11',
		node_label_disk: 'ssd',
	};
	for (const [name, value] of Object.entries(expected)) assert.equal(host[name], value, name);
	const inside = meta(targets.find((t) => t.labels.instance === '10.0.0.7:8080'));
	assert.deepEqual([inside.task_port_publish_mode, inside.network_name], ['ingress', 'ingress']);
});
await test('a swarm: nodes', async () => {
	const targets = await found('nodes', 2);
	assert.deepEqual(meta(targets.find((t) => t.labels.instance === '192.0.2.11:84')), {
		node_id: 'n1',
		node_role: 'manager',
		node_availability: 'active',
		node_hostname: 'one',
		node_platform_architecture: 'x86_64',
		node_platform_os: 'linux',
		node_engine_version: '24.0',
		node_status: 'ready',
		node_address: '192.0.2.11',
		node_label_disk: 'ssd',
		node_manager_leader: 'true',
		node_manager_reachability: 'reachable',
		node_manager_address: '192.0.2.11:2377',
	});
});
await test('Docker: errors are shown and keep what was found', async () => {
	docker.fault = [503, '{"message":"This node is not a swarm manager."}'];
	await failing('nodes', /\/nodes: status 503 Service Unavailable: This node is not a swarm manager\.$/);
	docker.fault = [200, '{"a": 1}'];
	await failing('nodes', /expected a list/);
	assert.equal((await targetsOf('nodes')).length, 2);
	docker.fault = null;
	await until('it recovers', async () => (await discoveryOf('nodes')).error === '');
	assert.ok(!JSON.stringify(await api()).includes('secret-password'));
});

// ---- Nomad ----

const nomad = { seen: [], fault: null, rotates: false };
const nomadServices = {
	web: [
		{ ID: '_nomad-task-1', ServiceName: 'web', Namespace: 'apps', NodeID: 'node-1', Datacenter: 'dc1', JobID: 'j', AllocID: 'a', Tags: ['http', 'v2'], Address: '10.1.0.1', Port: 23456 },
		{ ID: '_nomad-task-2', ServiceName: 'web', Namespace: 'apps', NodeID: 'node-2', Datacenter: 'dc1', JobID: 'j', AllocID: 'b', Tags: [], Address: 'fd00::1', Port: 23457 },
	],
};
const nomadPort = await listen(
	http.createServer((req, res) => {
		const url = new URL(req.url, 'http://x');
		nomad.seen.push({ path: url.pathname, query: url.searchParams });
		if (req.headers.authorization !== 'Bearer nomad-secret') return res.writeHead(403).end('Permission denied');
		if (nomad.fault) return res.end(nomad.fault);
		if (nomad.rotates && url.searchParams.get('region') === 'rotated') rmSync(file('nomad-token'), { force: true });
		if (url.pathname === '/v1/services')
			return res.end(JSON.stringify([{ Namespace: 'apps', Services: [{ ServiceName: 'web', Tags: ['http'] }, { ServiceName: 'just/gone', Tags: [] }] }]));
		const list = nomadServices[decodeURIComponent(url.pathname.replace('/v1/service/', ''))];
		if (!list) return res.writeHead(404).end('service not found');
		res.end(JSON.stringify(list));
	}),
);
writeFileSync(file('nomad-token'), 'nomad-secret\n');
await start(
	'nomad',
	finding('nomad', 'nomad', { server: `http://127.0.0.1:${nomadPort}/`, namespace: 'apps', region: 'eu', authorization: { credentials: 'nomad-secret' } }) +
		finding('rotated', 'nomad', { server: `http://127.0.0.1:${nomadPort}`, region: 'rotated', authorization: { credentials_file: file('nomad-token') } }) +
		finding('denied', 'nomad', { server: `http://127.0.0.1:${nomadPort}`, authorization: { credentials: 'other-secret' } }),
);
await test('Nomad: instances of services', async () => {
	const targets = await found('nomad', 2);
	assert.deepEqual(meta(targets.find((t) => t.labels.instance === '10.1.0.1:23456')), {
		address: '10.1.0.1',
		dc: 'dc1',
		node_id: 'node-1',
		namespace: 'apps',
		service_address: '10.1.0.1',
		service_id: '_nomad-task-1',
		service_port: '23456',
		service: 'web',
		tags: ',http,v2,',
	});
	assert.equal(targets.find((t) => t.labels.instance === '[fd00::1]:23457').labels.m_tags, undefined);
	assert.ok(nomad.seen.every((r) => r.query.get('stale') === ''));
	assert.ok(nomad.seen.some((r) => r.path === '/v1/service/web' && r.query.get('namespace') === 'apps' && r.query.get('region') === 'eu'));
	assert.ok(nomad.seen.some((r) => r.path === '/v1/service/just%2Fgone'));
});
await test('Nomad: an error, without the secret', async () => {
	await failing('denied', /\/v1\/services: status 403 Forbidden: Permission denied$/);
	assert.ok(!JSON.stringify(await api()).includes('secret'));
});
await test('Nomad: a response that is no list, and a secret that is gone for a moment, keep what was found', async () => {
	nomad.fault = '{"a": 1}';
	await failing('nomad', /: expected a list$/);
	assert.equal((await targetsOf('nomad')).length, 2);
	nomad.fault = null;
	await until('it recovers', async () => (await discoveryOf('rotated')).error === '');
	assert.equal((await found('rotated', 2)).length, 2);
	nomad.rotates = true; // between the list of services and their instances
	await failing('rotated', /nomad-token/);
	assert.equal((await targetsOf('rotated')).length, 2);
});
finish();
