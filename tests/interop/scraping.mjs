// SPDX-License-Identifier: Apache-2.0
// What the tests of scraping share: a server with a configuration, certificates, and services that are not what they should be.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { startServer, request, temporaryDirectory } from '../harness.mjs';

export const directory = temporaryDirectory();
export const file = (name) => `${directory}/${name}`;
// At once: the server looks at files by itself, and one that is empty, as it is for a moment while it is written, has no settings.
export const replaceFile = (name, text) => {
	writeFileSync(file(`${name}.new`), text);
	renameSync(file(`${name}.new`), file(name));
};
export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
export const listen = (server, where = { port: 0, host: '127.0.0.1' }) => new Promise((resolve) => server.listen(where, () => resolve(server.address().port)));
export const bodyOf = (req) =>
	new Promise((resolve) => {
		const chunks = [];
		req.on('data', (chunk) => chunks.push(chunk));
		req.on('end', () => resolve(Buffer.concat(chunks).toString()));
	});

const openssl = (...args) => execFileSync('openssl', args, { cwd: directory, stdio: 'ignore' });
const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];
export function makeAuthority() {
	openssl('req', '-x509', ...curve, '-keyout', 'ca.key', '-out', 'ca.pem', '-days', '2', '-subj', '/CN=ca');
}
export function issue(name, names) {
	openssl('req', ...curve, '-keyout', `${name}.key`, '-out', `${name}.csr`, '-subj', `/CN=${name}`);
	writeFileSync(file('ext'), `subjectAltName=${names}\n`);
	openssl('x509', '-req', '-in', `${name}.csr`, '-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-out', `${name}.pem`, '-days', '1', '-extfile', 'ext');
	return { key: readFileSync(file(`${name}.key`)), cert: readFileSync(file(`${name}.pem`)) };
}

// One profile, of its own path.
export const off = Object.fromEntries(['process_cpu', 'memory', 'mutex', 'block', 'goroutine'].map((name) => [name, { enabled: false }]));
export const onlyConfig = (path) => ({ pprof_config: { ...off, custom: { path } } });
export const only = (path) => `    profiling_config: ${JSON.stringify(onlyConfig(path))}\n`;
// A job that finds targets, and keeps what was found of them as labels m_...; they are scraped once a day, which is never.
export const finding = (name, kind, settings, rules = '') =>
	`  - job_name: ${name}\n    scrape_interval: 24h\n    ${kind}_sd_configs: [${JSON.stringify({ refresh_interval: '1s', ...settings })}]\n` +
	`    relabel_configs:\n      - {regex: '__meta_${kind}_(.+)', action: labelmap, replacement: 'm_$1'}\n${rules}${only('/x')}`;

let server;
export async function start(name, jobs, settings = '') {
	writeFileSync(file(`${name}.yml`), `${settings}scrape_configs:\n${jobs}`);
	server = await startServer(file(`${name}.data`), ['--config', file(`${name}.yml`)]);
	return server;
}
export const api = async (query = '') => JSON.parse((await request(server.port, 'GET', `/api/v1/targets${query}`)).body);
export async function until(what, check, seconds = 120) {
	for (let i = 0; i < seconds * 10; i++) {
		const value = await check();
		if (value) return value;
		await sleep(100);
	}
	assert.fail(`${what}: ${JSON.stringify(await api()).slice(0, 3000)}`);
}
export const targetsOf = async (job) => (await api(`?job=${job}&limit=20000`)).targets;
export const addressesOf = async (job) => (await targetsOf(job)).map((t) => t.labels.instance).sort();
export const discoveryOf = async (job) => (await api()).discoveries.find((d) => d.job === job);
export const found = (job, count) =>
	until(`${count} targets of ${job}`, async () => {
		const targets = await targetsOf(job);
		return targets.length === count && targets;
	});
export const failing = (job, pattern) => until(`${job} fails with ${pattern}`, async () => pattern.test((await discoveryOf(job)).error));
// What was found of a target, without job, instance and service_name.
export const meta = (target) =>
	Object.fromEntries(
		Object.entries(target.labels)
			.filter(([name]) => name.startsWith('m_'))
			.map(([name, value]) => [name.slice(2), value]),
	);
