// SPDX-License-Identifier: Apache-2.0
// Run by bench/scrape.sh.
import { readFileSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { gzipSync } from 'node:zlib';
import { pprofProfile, request, startServer, temporaryDirectory } from '../tests/harness.mjs';

const option = (name, otherwise) => (process.argv.includes(name) ? Number(process.argv[process.argv.indexOf(name) + 1]) : otherwise);
const count = option('--targets', 2000),
	seconds = option('--seconds', 60);
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const listen = (server, host) => new Promise((resolve) => server.listen(0, host, () => resolve(server.address().port)));

const stacks = Array.from({ length: 200 }, (_, i) => [[`leaf${i}`, `f${i % 20}`, `g${i % 7}`, 'main'], 1000 + i]);
const body = gzipSync(pprofProfile(stacks, { type: 'cpu', unit: 'nanoseconds' }));
let served = 0;
const targets = await listen(
	http.createServer((req, res) => (served++, setTimeout(() => res.end(body), 100))),
	'0.0.0.0',
);
const container = (i) => ({
	Id: `c${i}`,
	Names: [`/web-${i}`],
	Image: 'web:1',
	ImageID: 'sha256:1',
	Labels: { 'com.example.team': 'shop', 'com.example.tier': 'front' },
	HostConfig: { NetworkMode: 'front' },
	Ports: [{ PrivatePort: targets, Type: 'tcp' }],
	NetworkSettings: { Networks: { front: { NetworkID: 'net1', IPAddress: `127.${1 + (i >> 16)}.${(i >> 8) & 255}.${i & 255}` } } },
});
const containers = JSON.stringify(Array.from({ length: count }, (_, i) => container(i)));
const daemon = await listen(
	http.createServer((req, res) => res.end(req.url.startsWith('/networks') ? '[]' : containers)),
	'127.0.0.1',
);
const off = Object.fromEntries(['process_cpu', 'memory', 'mutex', 'block', 'goroutine'].map((name) => [name, { enabled: false }]));
const job = {
	job_name: 'many',
	scrape_interval: '15s',
	docker_sd_configs: [{ host: `http://127.0.0.1:${daemon}`, refresh_interval: '15s' }],
	relabel_configs: [
		{ source_labels: ['__meta_docker_container_name'], regex: '/(.*)', target_label: 'container' },
		{ regex: '__meta_docker_container_label_(.+)', action: 'labelmap' },
	],
	metric_relabel_configs: [{ source_labels: ['__name__'], regex: 'none', action: 'drop' }],
	profiling_config: { pprof_config: { ...off, custom: { path: '/profile' } } },
};
const directory = temporaryDirectory();
writeFileSync(`${directory}/wick.yml`, JSON.stringify({ scrape_configs: [job] }));
const server = await startServer(`${directory}/data`, ['--config', `${directory}/wick.yml`]);
const proc = (name) => readFileSync(`/proc/${server.child.pid}/${name}`, 'utf8');
const cpu = () => {
	const fields = proc('stat').split(') ')[1].split(' ');
	return (Number(fields[11]) + Number(fields[12])) / 100;
};
const status = (name) => Number(proc('status').match(new RegExp(`${name}:\\s+(\\d+)`))[1]);
const api = async () => JSON.parse((await request(server.port, 'GET', '/api/v1/targets?limit=1')).body);
for (let i = 0; i < 1200 && (await api()).up < count; i++) await sleep(100);
await sleep(35000); // the workers of the beginning end
const before = { cpu: cpu(), served, at: Date.now() };
await sleep(seconds * 1000);
const took = (Date.now() - before.at) / 1000,
	used = cpu() - before.cpu,
	scrapes = served - before.served,
	now = await api();
console.log(`targets up       ${now.up} of ${count}`);
console.log(`scrapes          ${(scrapes / took).toFixed(1)}/s of ${(count / 15).toFixed(1)}/s`);
console.log(`CPU              ${((100 * used) / took).toFixed(1)} % of one, ${((1000 * used) / scrapes).toFixed(2)} ms a scrape`);
console.log(`RSS, its peak    ${(status('VmRSS') / 1024).toFixed(0)} MiB, ${(status('VmHWM') / 1024).toFixed(0)} MiB`);
console.log(`threads          ${status('Threads')}`);
await server.stop();
process.exit(now.up === count ? 0 : 1);
