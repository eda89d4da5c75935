// SPDX-License-Identifier: Apache-2.0
// Scraping targets that are not as they should be, and discovery: files, HTTP, DNS (a server of its own) and the API of Kubernetes
// (as its reference documents the lists), authorization and TLS, and configurations that change.
import assert from 'node:assert/strict';
import { createSocket } from 'node:dgram';
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import { gzipSync } from 'node:zlib';
import { startServer, request, test, finish, pprofProfile } from '../harness.mjs';
import { directory, file, replaceFile, sleep, listen, makeAuthority, issue, off, only, start, api, until, addressesOf } from './scraping.mjs';

const profile = (value) => gzipSync(pprofProfile([[['leaf', 'main'], value]], { type: 'cpu', unit: 'nanoseconds' }));
const plainProfile = profile(7);
makeAuthority();
issue('target', 'DNS:localhost,IP:127.0.0.1');
issue('client', 'DNS:client');

// One server of targets; what it does is in the path.
const seen = [];
const response = (req, res) => {
	seen.push({ url: req.url, headers: req.headers });
	const path = req.url.split('?')[0];
	if (path === '/good') return res.end(plainProfile);
	if (path === '/plain') return res.end(pprofProfile([[['leaf', 'main'], 7]]));
	if (path === '/encoded') return res.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync(pprofProfile([[['leaf', 'main'], 7]])));
	if (path === '/slow') return void 0;
	if (path === '/garbage') return res.end('<html>this is no profile</html>');
	if (path === '/folded') return res.end('main;leaf 7\n');
	if (path === '/bomb') return res.end(bomb);
	if (path === '/encodedbomb') return res.writeHead(200, { 'content-encoding': 'gzip' }).end(bomb);
	if (path === '/huge') {
		const pump = () => {
			while (!res.destroyed && res.write(zeroes));
		};
		return (res.on('drain', pump), pump());
	}
	if (path === '/missing') return res.writeHead(404).end('no such profile\nat all');
	if (path === '/moved') return res.writeHead(302, { location: '/good' }).end();
	if (path === '/loop') return res.writeHead(302, { location: '/loop' }).end();
	if (path === '/away') return res.writeHead(302, { location: `http://localhost:${targets}/secret` }).end();
	if (path === '/secret') return res.end(plainProfile);
	if (path === '/basic')
		return req.headers.authorization === `Basic ${Buffer.from('user:pass:word').toString('base64')}` ? res.end(plainProfile) : res.writeHead(401).end('who?');
	if (path === '/bearer') return req.headers.authorization === `Bearer ${bearer}` ? res.end(plainProfile) : res.writeHead(401).end('who?');
	if (path === '/cut') return (res.writeHead(200, { 'content-length': 100000 }), res.write('x'), setTimeout(() => res.destroy(), 50));
	return res.writeHead(404).end('?');
};
const zeroes = Buffer.alloc(1 << 16);
const bomb = gzipSync(Buffer.alloc(200 << 20));
let bearer = 'first';
const targets = await listen(http.createServer(response));
const tls = await listen(
	https.createServer(
		{
			key: readFileSync(file('target.key')),
			cert: readFileSync(file('target.pem')),
			ca: readFileSync(file('ca.pem')),
			requestCert: true,
			rejectUnauthorized: true,
		},
		response,
	),
);

const job = (name, path, more = '', address = `127.0.0.1:${targets}`) =>
	`  - job_name: ${name}\n    scrape_interval: 1s\n    static_configs: [{targets: ['${address}']}]\n${more}${only(path)}`;

let server = await start(
	'odd',
	[
		job('good', '/good'),
		job('plain', '/plain'),
		job('encoded', '/encoded'),
		job('moved', '/moved'),
		job('loop', '/loop'),
		job('slow', '/slow', '    scrape_timeout: 1s\n'),
		job('garbage', '/garbage'),
		job('folded', '/folded'),
		job('bomb', '/bomb'),
		job('encodedbomb', '/encodedbomb'),
		job('huge', '/huge', '    body_size_limit: 1M\n'),
		job('missing', '/missing'),
		job('cut', '/cut'),
		job('nobody', '/good', '', '127.0.0.1:1'),
		job('unmoved', '/moved', '    follow_redirects: false\n'),
		job('basic', '/basic', "    basic_auth: {username: user, password: 'pass:word'}\n"),
		job('unknown', '/basic'),
		job('bearer', '/bearer', `    authorization: {credentials_file: ${file('token')}}\n`),
		job('away', '/away', '    bearer_token: not-for-others\n'),
		job(
			'tls',
			'/good',
			`    scheme: https\n    tls_config: {ca_file: ${file('ca.pem')}, cert_file: ${file('client.pem')}, key_file: ${file('client.key')}}\n`,
			`localhost:${tls}`,
		),
		job('anonymous', '/good', `    scheme: https\n    tls_config: {ca_file: ${file('ca.pem')}}\n`, `localhost:${tls}`),
		job('distrust', '/good', '    scheme: https\n', `localhost:${tls}`),
		job('params', '/good', "    params: {debug: ['0', '1'], who: ['a b']}\n"),
	].join(''),
);
writeFileSync(file('token'), 'first\n');
const up = async (name) => {
	const t = await until(`${name} is up`, async () => (await api(`?job=${name}&health=up`)).targets[0]);
	return t;
};
// With that error, in the end: a scrape that a busy machine keeps from its answer has timed out, and the next one comes in a second.
const down = (name, pattern) =>
	until(`${name} is down: ${pattern}`, async () => {
		const [t] = (await api(`?job=${name}`)).targets;
		assert.notEqual(t?.health, 'up', name);
		return t?.health === 'down' && pattern.test(t.error);
	});

await test('good answers: gzip, plain, with Content-Encoding, after a redirect', async () => {
	for (const name of ['good', 'plain', 'encoded', 'moved']) await up(name);
});
await test('what was scraped can be asked for', async () => {
	const taken = (t) => t.scrapes - t.failures; // a busy machine lets some time out
	const before = taken(await up('good'));
	const total = JSON.parse(
		(
			await request(
				server.port,
				'GET',
				`/api/v1/query?query=${encodeURIComponent(`custom:cpu:nanoseconds::{job="good", service_name="good", instance="127.0.0.1:${targets}"}`)}&from=now-1h&to=now%2B1h`,
			)
		).body,
	).flame.total;
	const after = taken((await api('?job=good')).targets[0]); // one more may have been stored that is not counted yet
	assert.ok(total >= 7 && total % 7 === 0 && total / 7 >= before && total / 7 <= after + 1, `${total} after ${before} to ${after}`);
});
await test('a slow target: its timeout', () => down('slow', /no response within/));
await test('a page of HTML is called that', () => down('garbage', /^the target returned an HTML page \(no Content-Type\), not a profile$/));
await test('another format is no pprof', () => down('folded', /the response/));
await test('gzip bombs', async () => {
	await down('bomb', /64/);
	await down('encodedbomb', /./);
});
await test('an answer without end', () => down('huge', /larger than the limit of 1\.0 MiB/));
await test('a status, with the first line of what it says', () => down('missing', /^status 404 Not Found: no such profile$/));
await test('an answer that breaks off', () => down('cut', /in the middle/));
await test('nobody there', () => down('nobody', /connection refused/));
await test('redirects: in circles, and not wanted', async () => {
	await down('loop', /redirects/);
	await down('unmoved', /status 302/);
});
await test('Basic authentication', async () => {
	await up('basic');
	await down('unknown', /status 401/);
});
await test('a token from a file that changes', async () => {
	await up('bearer');
	bearer = 'second';
	await until('the old token is refused', async () => (await api('?job=bearer&health=down')).targets[0]);
	writeFileSync(file('token'), 'second');
	await up('bearer');
});
await test('credentials stay with their host', async () => {
	await up('away');
	assert.equal(seen.find((r) => r.url === '/away').headers.authorization, 'Bearer not-for-others');
	assert.equal(seen.find((r) => r.url === '/secret').headers.authorization, undefined);
});
await test('TLS: both certificates, none of ours, none of theirs', async () => {
	await up('tls');
	await down('anonymous', /certificate required/);
	await down('distrust', /cannot trust the certificate/);
});
await test('parameters', async () => {
	await up('params');
	assert.ok(
		seen.some((r) => r.url.startsWith('/good?') && r.url.includes('debug=0') && r.url.includes('debug=1') && r.url.includes('who=a%20b')),
		JSON.stringify([...new Set(seen.map((r) => r.url))]),
	);
});
await test('memory stays bounded', () => assert.ok(Number(readFileSync(`/proc/${server.child.pid}/status`, 'utf8').match(/VmHWM:\s+(\d+)/)[1]) < 500 << 10));
await test("a slow target does not hold up the server's end", async () => assert.equal(await server.stop(), 0)); // it never answers

// ---- discovery ----

let groups = [{ targets: [`127.0.0.1:${targets}`], labels: { team: 'web' } }];
const sd = await listen(http.createServer((req, res) => res.writeHead(groups ? 200 : 500, { 'content-type': 'application/json' }).end(JSON.stringify(groups))));

// A DNS server: SRV and A records of "*.test".
const dns = createSocket('udp4');
const name = (text) => Buffer.concat([...text.split('.').map((label) => Buffer.concat([Buffer.from([label.length]), Buffer.from(label)])), Buffer.from([0])]);
let srv = [['localhost', () => targets]];
dns.on('message', (query, peer) => {
	let end = 12;
	while (query[end]) end += query[end] + 1;
	const type = query.readUInt16BE(end + 1),
		question = query.subarray(12, end + 5);
	const record = (data) => {
		const head = Buffer.alloc(12);
		head.writeUInt16BE(0xc00c, 0);
		head.writeUInt16BE(type, 2);
		head.writeUInt16BE(1, 4);
		head.writeUInt32BE(1, 6);
		head.writeUInt16BE(data.length, 10);
		return Buffer.concat([head, data]);
	};
	const numbers = (...values) => {
		const b = Buffer.alloc(2 * values.length);
		values.forEach((v, i) => b.writeUInt16BE(v, 2 * i));
		return b;
	};
	const records =
		type === 33
			? srv.map(([host, port]) => record(Buffer.concat([numbers(1, 1, port()), name(host)])))
			: type === 1
				? [record(Buffer.from([127, 0, 0, 1]))]
				: [];
	dns.send(Buffer.concat([query.subarray(0, 2), numbers(0x8180, 1, records.length, 0, 0), question, ...records]), peer.port, peer.address);
});
const dnsPort = await new Promise((resolve) => dns.bind(0, '127.0.0.1', () => resolve(dns.address().port)));

// The API of a cluster: lists in pages of one object, for who has the token.
const pod = (n, more = {}) => ({
	metadata: {
		name: `web-${n}`,
		namespace: 'shop',
		uid: `uid-${n}`,
		labels: { app: 'web', 'app.kubernetes.io/name': 'web' },
		annotations: { 'example.com/scrape': n === 3 ? 'false' : 'true' },
		ownerReferences: [{ kind: 'ReplicaSet', name: 'web', controller: true }],
	},
	spec: {
		nodeName: 'node-1',
		containers: [
			{
				name: 'main',
				image: 'web:1',
				ports: [
					{ name: 'http', containerPort: 80, protocol: 'TCP' },
					{ name: 'pprof', containerPort: targets, protocol: 'TCP' },
				],
			},
			{ name: 'sidecar', image: 'side:1' },
		],
	},
	status: {
		phase: 'Running',
		podIP: '127.0.0.1',
		hostIP: '10.0.0.1',
		conditions: [{ type: 'Ready', status: 'True' }],
		containerStatuses: [{ name: 'main', containerID: 'containerd://abc' }],
	},
	...more,
});
const cluster = {
	'/api/v1/pods': [pod(1), pod(3), pod(4, { status: { phase: 'Pending' } })],
	'/api/v1/namespaces/shop/pods': [pod(1)],
	'/api/v1/namespaces/chatty/pods': [
		pod(5, { metadata: { name: 'chatty', namespace: 'chatty', annotations: Object.fromEntries(Array.from({ length: 400 }, (_, i) => [`a${i}`, 'x'])) } }),
	],
	'/api/v1/namespaces/big/pods': [
		pod(6, {
			metadata: {
				name: 'big',
				namespace: 'big',
				annotations: Object.fromEntries(Array.from({ length: 60 }, (_, i) => [`a-rather-long-name/of-an-annotation-${i}`, 'x'])),
			},
		}),
	],
	'/api/v1/namespaces/big/services': [],
	'/api/v1/namespaces/big/endpoints': [
		{
			metadata: { name: 'big', namespace: 'big' },
			subsets: [
				{
					addresses: Array.from({ length: 500 }, (_, i) => ({ ip: `10.0.${i >> 8}.${i & 255}`, targetRef: { kind: 'Pod', name: 'big' } })),
					ports: [{ name: 'pprof', port: targets, protocol: 'TCP' }],
				},
			],
		},
	],
	'/api/v1/services': [
		{
			metadata: { name: 'web', namespace: 'shop', labels: { tier: 'front' } },
			spec: { type: 'ClusterIP', clusterIP: '10.1.1.1', ports: [{ name: 'pprof', port: 6060, protocol: 'TCP' }] },
		},
	],
	'/api/v1/nodes': [
		{
			metadata: { name: 'node-1', labels: { zone: 'a' } },
			spec: { providerID: 'x://1' },
			status: {
				addresses: [
					{ type: 'Hostname', address: 'node-1' },
					{ type: 'InternalIP', address: '127.0.0.1' },
				],
				daemonEndpoints: { kubeletEndpoint: { Port: targets } },
			},
		},
	],
	'/api/v1/endpoints': [
		{
			metadata: { name: 'web', namespace: 'shop', labels: { e: '1' } },
			subsets: [
				{
					addresses: [{ ip: '127.0.0.1', nodeName: 'node-1', targetRef: { kind: 'Pod', name: 'web-1', namespace: 'shop' } }],
					notReadyAddresses: [{ ip: '127.0.0.9' }],
					ports: [{ name: 'pprof', port: targets, protocol: 'TCP' }],
				},
			],
		},
	],
	'/apis/discovery.k8s.io/v1/endpointslices': [
		{
			metadata: { name: 'web-abc', namespace: 'shop', labels: { 'kubernetes.io/service-name': 'web' } },
			addressType: 'IPv4',
			ports: [{ name: 'pprof', port: targets, protocol: 'TCP' }],
			endpoints: [{ addresses: ['127.0.0.1'], conditions: { ready: true }, nodeName: 'node-1', targetRef: { kind: 'Pod', name: 'web-1' } }],
		},
	],
};
const asked = [];
const kubernetes = await listen(
	https.createServer({ key: readFileSync(file('target.key')), cert: readFileSync(file('target.pem')) }, (req, res) => {
		const url = new URL(req.url, 'https://x'),
			list = cluster[url.pathname],
			at = Number(url.searchParams.get('continue') ?? 0);
		asked.push(req.url);
		if (req.headers.authorization !== 'Bearer cluster-token') return res.writeHead(401).end('{}');
		if (!list) return res.writeHead(404).end('{}');
		res.end(
			JSON.stringify({
				kind: 'List',
				metadata: { resourceVersion: '7', ...(at + 1 < list.length ? { continue: String(at + 1) } : {}) },
				items: list.slice(at, at + 1),
			}),
		);
	}),
);
writeFileSync(file('cluster-token'), 'cluster-token\n');
writeFileSync(file('a.json'), JSON.stringify([{ targets: [`127.0.0.1:${targets}`], labels: { from: 'file' } }]));
writeFileSync(file('b.yml.sd.yml'), `- targets: ['localhost:${targets}']\n  labels: {from: yaml, ${Array.from({ length: 47 }, (_, i) => `__meta_${i}: x`)}}\n`);
mkdirSync(file('crowd'));
for (let i = 0; i <= 1000; i++) writeFileSync(file(`crowd/${i}.json`), '[]');
const k8s = (role, more = '', rules = '') =>
	`  - job_name: k8s-${role}\n    scrape_interval: 1s\n    kubernetes_sd_configs:\n      - {role: ${role}, api_server: 'https://localhost:${kubernetes}', refresh_interval: 1s, bearer_token_file: ${file('cluster-token')}, tls_config: {ca_file: ${file('ca.pem')}}${more}}\n    relabel_configs:\n      - {regex: '__meta_kubernetes_(.+)', action: labelmap, replacement: 'k8s_$1'}\n${rules}${only('/good')}`;
const sdSettings = `scrape: {dns_server: '127.0.0.1:${dnsPort}'}\n`;
const sdJobs = () =>
	`  - job_name: files\n    scrape_interval: 1s\n    file_sd_configs: [{files: ['${directory}/*.json', '${file('b.yml.sd.yml')}']}]\n${only('/good')}` +
	`  - job_name: crowd\n    file_sd_configs: [{files: ['${file('crowd')}/*.json']}]\n` +
	`  - job_name: http\n    scrape_interval: 1s\n    http_sd_configs: [{url: 'http://127.0.0.1:${sd}/sd', refresh_interval: 1s}]\n    relabel_configs: [{source_labels: [team], target_label: squad}]\n${only('/good')}` +
	`  - job_name: srv\n    scrape_interval: 1s\n    dns_sd_configs: [{names: [_pprof._tcp.shop.test], refresh_interval: 1s}]\n${only('/good')}` +
	`  - job_name: a\n    scrape_interval: 1s\n    dns_sd_configs: [{names: [shop.test], type: A, port: ${targets}, refresh_interval: 1s}]\n${only('/good')}` +
	k8s(
		'pod',
		", selectors: [{role: pod, label: 'app=web'}]",
		"      - {source_labels: [__meta_kubernetes_pod_annotation_example_com_scrape, __meta_kubernetes_pod_container_port_name], regex: 'true;pprof', action: keep}\n",
	) +
	k8s('endpoints', '', "      - {source_labels: [__meta_kubernetes_endpoint_ready], regex: 'true', action: keep}\n") +
	k8s('endpointslice') +
	k8s('node') +
	k8s('service') +
	`  - job_name: chatty\n    scrape_interval: 1s\n    kubernetes_sd_configs:\n      - {role: pod, namespaces: {names: [chatty]}, api_server: 'https://localhost:${kubernetes}', refresh_interval: 1s, bearer_token_file: ${file('cluster-token')}, tls_config: {ca_file: ${file('ca.pem')}}}\n${only('/good')}` +
	`  - job_name: big\n    scrape_interval: 24h\n    kubernetes_sd_configs:\n      - {role: endpoints, namespaces: {names: [big]}, api_server: 'https://localhost:${kubernetes}', refresh_interval: 1s, bearer_token_file: ${file('cluster-token')}, tls_config: {ca_file: ${file('ca.pem')}}}\n    relabel_configs:\n      - {source_labels: [__meta_kubernetes_pod_annotationpresent_a_rather_long_name_of_an_annotation_59], target_label: last}\n${only('/good')}`;
server = await start('sd', sdJobs(), sdSettings);
const one = async (name) =>
	(
		await until(`${name} is up`, async () => {
			const d = await api(`?job=${name}&health=up`);
			return d.targets.length && d;
		})
	).targets[0].labels;

await test('files of JSON and YAML, by a pattern', async () => {
	await until('two targets', async () => (await addressesOf('files')).length === 2);
	assert.deepEqual((await api('?job=files')).targets.map((t) => t.labels.from).sort(), ['file', 'yaml']);
});
await test('a file that changes; one that is broken leaves all as it was', async () => {
	writeFileSync(file('new'), JSON.stringify([{ targets: [`127.0.0.1:${targets}`, '127.0.0.1:2'] }]));
	renameSync(file('new'), file('a.json'));
	await until('three targets', async () => (await addressesOf('files')).length === 3);
	writeFileSync(file('a.json'), '[{');
	await until('the error is shown', async () => (await api()).discoveries.find((d) => d.job === 'files').error.includes('a.json'));
	assert.equal((await addressesOf('files')).length, 3);
	writeFileSync(file('a.json'), '[]');
	await until('one target', async () => (await addressesOf('files')).length === 1);
});
await test('more files than are read are not half of them', async () => {
	await until('the error is shown', async () => (await api()).discoveries.find((d) => d.job === 'crowd').error.includes('more than 1000 files'));
});
await test('HTTP discovery, relabelled, changing and failing', async () => {
	assert.equal((await one('http')).squad, 'web');
	groups = [...groups, { targets: ['127.0.0.1:3'] }];
	await until('two targets', async () => (await addressesOf('http')).length === 2);
	groups = null;
	await until('the error is shown', async () => (await api()).discoveries.find((d) => d.job === 'http').error.includes('500'));
	assert.equal((await addressesOf('http')).length, 2);
});
await test('DNS: SRV and A records', async () => {
	assert.equal((await one('srv')).instance, `localhost:${targets}`);
	assert.equal((await one('a')).instance, `127.0.0.1:${targets}`);
	srv = [...srv, ['other.test', () => 6060]];
	await until('the new record', async () => (await addressesOf('srv')).includes('other.test:6060'));
});
await test('Kubernetes: pods, in pages, selected and relabelled', async () => {
	const labels = await one('k8s-pod');
	assert.deepEqual(await addressesOf('k8s-pod'), [`127.0.0.1:${targets}`]);
	const expected = {
		k8s_namespace: 'shop',
		k8s_pod_name: 'web-1',
		k8s_pod_ip: '127.0.0.1',
		k8s_pod_label_app: 'web',
		k8s_pod_label_app_kubernetes_io_name: 'web',
		k8s_pod_labelpresent_app: 'true',
		k8s_pod_annotation_example_com_scrape: 'true',
		k8s_pod_container_name: 'main',
		k8s_pod_container_image: 'web:1',
		k8s_pod_container_id: 'containerd://abc',
		k8s_pod_container_init: 'false',
		k8s_pod_container_port_name: 'pprof',
		k8s_pod_container_port_number: String(targets),
		k8s_pod_container_port_protocol: 'TCP',
		k8s_pod_ready: 'true',
		k8s_pod_phase: 'Running',
		k8s_pod_node_name: 'node-1',
		k8s_pod_host_ip: '10.0.0.1',
		k8s_pod_uid: 'uid-1',
		k8s_pod_controller_kind: 'ReplicaSet',
		k8s_pod_controller_name: 'web',
		service_name: 'shop/main',
	};
	for (const [key, value] of Object.entries(expected)) assert.equal(labels[key], value, key);
	assert.ok(asked.some((url) => url.includes('labelSelector=app%3Dweb') && url.includes('limit=500')));
});
await test('Kubernetes: a pod that says more than there is room for has its address', async () => {
	assert.equal((await one('chatty')).service_name, 'chatty/main');
	await until(
		'it is up by its address',
		async () => (await api('?job=chatty&health=up')).targets.map((t) => t.labels.instance).join() === `127.0.0.1:${targets}`,
	);
});
await test("Kubernetes: all of a service's many addresses have their ports, and the labels of their pods", async () => {
	const found = await until('500 targets', async () => {
		const d = await api('?job=big&limit=1000');
		return d.targets.length === 500 && d.targets;
	});
	for (const t of found) assert.deepEqual([t.labels.instance.split(':')[1], t.labels.last], [String(targets), 'true'], t.labels.instance);
});
await test('Kubernetes: endpoints with their service and pod, slices, nodes, services', async () => {
	const endpoints = await one('k8s-endpoints');
	assert.deepEqual(
		[
			endpoints.k8s_endpoints_name,
			endpoints.k8s_service_name,
			endpoints.k8s_service_label_tier,
			endpoints.k8s_pod_name,
			endpoints.k8s_pod_container_name,
			endpoints.k8s_endpoint_port_name,
		],
		['web', 'web', 'front', 'web-1', 'main', 'pprof'],
	);
	const slice = await one('k8s-endpointslice');
	assert.deepEqual(
		[slice.k8s_endpointslice_name, slice.k8s_endpointslice_endpoint_conditions_ready, slice.k8s_service_name, slice.k8s_pod_name],
		['web-abc', 'true', 'web', 'web-1'],
	);
	const node = await one('k8s-node');
	assert.deepEqual([node.instance, node.k8s_node_label_zone, node.k8s_node_address_Hostname], ['node-1', 'a', 'node-1']);
	await until('the service', async () => (await addressesOf('k8s-service')).join() === 'web.shop.svc:6060');
});

// ---- configurations that change ----

await test('a mistake changes nothing and is shown', async () => {
	const before = (await api()).targets.length;
	replaceFile('sd.yml', `${sdSettings}scrape_configs:\n${sdJobs()}  - job_name: broken\n    scrape_intervall: 5s\n`);
	const refused = await request(server.port, 'POST', '/api/v1/reload');
	assert.equal(refused.status, 422);
	assert.match(JSON.parse(refused.body).error, /sd\.yml: line \d+: 'scrape_intervall' is not a setting/);
	const now = await api();
	assert.equal(now.targets.length, before);
	assert.match(now.config.error, /scrape_intervall/);
	replaceFile('sd.yml', `${sdSettings}scrape_configs:\n${sdJobs()}  - job_name: broken\n    profiling_config: {pprof_config: {process_cpu: {seconds: 1k}}}\n`);
	assert.match(JSON.parse((await request(server.port, 'POST', '/api/v1/reload')).body).error, /'seconds' must be a whole number/);
});
await test('what changes is noticed; unchanged targets go on', async () => {
	const before = (await api('?job=a')).targets[0];
	replaceFile(
		'sd.yml',
		`scrape_configs:\n  - job_name: a\n    scrape_interval: 1s\n    dns_sd_configs: [{names: [shop.test], type: A, port: ${targets}, refresh_interval: 1s}]\n${only('/good')}${job('new', '/good')}`,
	);
	await until('the new job is there and the others are gone', async () => {
		const d = await api();
		return d.targets.some((t) => t.job === 'new') && !d.targets.some((t) => t.job === 'http');
	});
	const after = (await api('?job=a')).targets[0];
	assert.ok(after.scrapes >= before.scrapes && before.scrapes > 0);
	assert.equal((await api()).config.error, '');
});
await test('SIGHUP and POST /api/v1/reload', async () => {
	const loaded = (await api()).config.loaded_ms;
	server.child.kill('SIGHUP');
	const again = await until('the signal is heard', async () => {
		const at = (await api()).config.loaded_ms;
		return at > loaded && at;
	});
	assert.equal((await request(server.port, 'POST', '/api/v1/reload')).status, 200);
	assert.ok((await api()).config.loaded_ms >= again);
});
await server.stop();

await test('a heap that becomes empty, or zero, lowers the average, series by series', async () => {
	const scrapes = {};
	const heaps = http.createServer((req, res) => {
		/* One with a label that stays in the profile with 0, and one without samples at all after the first. */
		scrapes[req.url] = (scrapes[req.url] ?? 0) + 1;
		const value = scrapes[req.url] === 1 ? 1000 : 0,
			stacks = req.url === '/labelled' ? [[['leaf', 'main'], value, { pool: 'a' }]] : value ? [[['leaf', 'main'], value]] : [];
		res.end(pprofProfile(stacks, { type: 'inuse_space', unit: 'bytes' }));
	});
	const port = await listen(heaps);
	const jobs = ['labelled', 'plain'].map((name) => ({
		job_name: name,
		scrape_interval: '1s',
		scrape_timeout: '900ms',
		static_configs: [{ targets: [`127.0.0.1:${port}`] }],
		profiling_config: { pprof_config: { ...off, memory: { enabled: true, path: `/${name}` } } },
	}));
	writeFileSync(file('heaps.yml'), JSON.stringify({ scrape_configs: jobs }));
	const scraping = await startServer(file('heaps'), ['--config', file('heaps.yml')]);
	for (const selector of ['memory:inuse_space{job="plain"}', 'memory:inuse_space{job="labelled", pool="a"}']) {
		const path = `/api/v1/query?${new URLSearchParams({ query: selector, from: 'now-1h', to: 'now+1h' })}`;
		let total;
		for (let i = 0; i < 150 && !(total > 0 && total < 600); i++) {
			await sleep(200);
			total = JSON.parse((await request(scraping.port, 'GET', path)).body).total;
		}
		assert.ok(total > 0 && total < 600, `${selector}: ${total}`);
	}
	assert.equal(await scraping.stop(), 0);
	heaps.close();
});

await test("godeltaprof's profiles are those without the prefix, of one series whatever numbers samples have", async () => {
	const stacks = Array.from({ length: 12 }, (_, i) => [['leaf', 'main'], 10, { bytes: 16 << i }]);
	const deltas = http.createServer((req, res) => res.end(pprofProfile(stacks, { type: 'alloc_space', unit: 'bytes', durationNs: 15e9 })));
	const port = await listen(deltas);
	const jobs = [
		{
			job_name: 'deltas',
			scrape_interval: '1s',
			scrape_timeout: '900ms',
			static_configs: [{ targets: [`127.0.0.1:${port}`] }],
			profiling_config: { pprof_config: { ...off, godeltaprof_memory: { enabled: true } } },
		},
	];
	writeFileSync(file('deltas.yml'), JSON.stringify({ scrape_configs: jobs }));
	const scraping = await startServer(file('deltas'), ['--config', file('deltas.yml')]);
	const path = `/api/v1/query?${new URLSearchParams({ query: 'memory:alloc_space:bytes::{job="deltas"}', from: 'now-1h', to: 'now+1h' })}`;
	let found;
	for (let i = 0; i < 600 && !(found?.total > 0); i++) {
		await sleep(200);
		found = JSON.parse((await request(scraping.port, 'GET', path)).body);
	}
	assert.ok(found.total > 0 && found.total % 120 === 0, `${found.total}`);
	assert.equal(found.stats.series, 1);
	const types = JSON.parse((await request(scraping.port, 'GET', '/api/v1/types?from=now-1h&to=now%2B1h')).body).types.map((t) => t.name);
	assert.deepEqual(types, ['memory:alloc_space:bytes::']);
	assert.equal(await scraping.stop(), 0);
	deltas.close();
});

await test('a thousand targets, bounded memory, spread over the interval', async () => {
	const server1000 = http.createServer((req, res) => setTimeout(() => res.end(plainProfile), 50));
	const many = await listen(server1000, { port: 0, host: '0.0.0.0' });
	const list = Array.from({ length: 1000 }, (_, i) => `127.0.${1 + Math.floor(i / 250)}.${1 + (i % 250)}:${many}`);
	assert.equal(
		(
			await (async () => {
				server = await start(
					'many',
					`  - job_name: many\n    scrape_interval: 20s\n    static_configs: [{targets: ${JSON.stringify([...new Set(list)])}}]\n${only('/x')}`,
				);
				return api('?limit=20000');
			})()
		).matching,
		new Set(list).size,
	);
	await until('all are up', async () => (await api('?limit=1')).up === new Set(list).size);
	/* No more workers than there are scrapes at a time, whatever the start of so many looked like. */
	const workers = async () => Number(String((await request(server.port, 'GET', '/metrics')).body).match(/^wick_scrape_workers (\d+)$/m)[1]);
	await until('idle workers end', async () => (await workers()) < 500);
	/* When they are due next, by fifths of the interval. */
	const fifths = [0, 0, 0, 0, 0];
	for (const t of (await api('?limit=20000')).targets) fifths[Math.floor((t.next_ms % 20000) / 4000)]++;
	assert.ok(
		fifths.every((n) => n > 120 && n < 280),
		fifths.join(),
	);
	const kib = Number(readFileSync(`/proc/${server.child.pid}/status`, 'utf8').match(/VmHWM:\s+(\d+)/)[1]);
	assert.ok(kib < 400 << 10, `${kib} KiB`);
	await server.stop();
});
finish();
