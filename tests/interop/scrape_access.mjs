// SPDX-License-Identifier: Apache-2.0
// How targets are asked, and what becomes of what they respond with: tokens of OAuth 2.0, proxies, labels, limits, pages of HTML. Secrets are shown nowhere.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import { gzipSync } from 'node:zlib';
import { request, test, finish, pprofProfile } from '../harness.mjs';
import { file, listen, bodyOf, makeAuthority, issue, onlyConfig, start, api, until, targetsOf } from './scraping.mjs';

makeAuthority();
const certificate = issue('token', 'DNS:localhost,IP:127.0.0.1');
const profile = (stacks) => gzipSync(pprofProfile(stacks, { type: 'cpu', unit: 'nanoseconds' }));
const plain = profile([[['leaf', 'main'], 7]]);

// ---- a token endpoint ----
const oauth = { seen: [], issued: 0, secret: 'first-secret', lifetime: 3600, onlyBody: false, fault: null, hang: false };
const tokenServer = async (req, res) => {
	const form = new URLSearchParams(await bodyOf(req));
	oauth.seen.push({ url: req.url, headers: req.headers, form });
	if (oauth.hang) return;
	if (oauth.fault) return res.writeHead(oauth.fault[0]).end(oauth.fault[1]);
	const basic = `Basic ${Buffer.from(`client%20id:${encodeURIComponent(oauth.secret)}`).toString('base64')}`;
	const good = oauth.onlyBody || req.url === '/body' ? form.get('client_id') === 'client id' && form.get('client_secret') === oauth.secret : req.headers.authorization === basic;
	if (!good || form.get('grant_type') !== 'client_credentials')
		return res.writeHead(401, { 'content-type': 'application/json' }).end(JSON.stringify({ error: 'invalid_client', error_description: `bad secret ${form.get('client_secret')} ${req.headers.authorization}` }));
	res.end(JSON.stringify({ access_token: `token-${++oauth.issued}`, token_type: 'bearer', expires_in: oauth.lifetime }));
};
const tokenPort = await listen(http.createServer(tokenServer));
const tokenTls = await listen(https.createServer(certificate, tokenServer));

// ---- a proxy ----
const proxied = [];
const proxy = http.createServer((req, res) => {
	proxied.push({ url: req.url, authorization: req.headers['proxy-authorization'] });
	if (req.headers['proxy-authorization'] !== `Basic ${Buffer.from('user:proxy-secret').toString('base64')}`) return res.writeHead(407).end();
	const url = new URL(req.url);
	http.request({ host: '127.0.0.1', port: targets, path: url.pathname + url.search, headers: req.headers }, (from) => {
		res.writeHead(from.statusCode, from.headers);
		from.pipe(res);
	}).end();
});
const proxyPort = await listen(proxy);

// ---- targets ----
const seen = [];
let minimum = 0; // older tokens are refused
const labelled = profile([
	[['leaf', 'main'], 7, { job: 'mine', user: 'alice', exported_job: 'taken' }],
	[['leaf', 'main'], 5, { user: 'bob' }],
	[['other', 'main'], 3, {}],
]);
const many = (n) => profile(Array.from({ length: n }, (_, i) => [[`f${i}`, 'main'], 1]));
const targets = await listen(
	http.createServer((req, res) => {
		const path = req.url.split('?')[0];
		seen.push({ path, headers: req.headers });
		if (path === '/private') {
			const match = /^Bearer token-(\d+)$/.exec(req.headers.authorization ?? '');
			return match && Number(match[1]) >= minimum ? res.end(plain) : res.writeHead(401).end('who?');
		}
		if (path === '/labelled') return res.end(labelled);
		if (path === '/hundred') return res.end(many(100));
		if (path === '/login') return res.writeHead(200, { 'content-type': 'text/html; charset=utf-8' }).end('\n<!DOCTYPE html>\n<title>Log in</title>');
		if (path === '/packed') return res.writeHead(200, { 'content-type': 'text/html', 'content-encoding': 'gzip' }).end(gzipSync('<html>'));
		if (path === '/xhtml') return res.writeHead(200, { 'content-type': 'application/octet-stream' }).end('\ufeff  <HTML lang="en">');
		if (path === '/mislabelled') return res.writeHead(200, { 'content-type': 'text/html' }).end(plain);
		if (path === '/other') return res.writeHead(200, { 'content-type': 'text/plain' }).end('no profile');
		return res.end(plain);
	}),
	{ port: 0, host: '0.0.0.0' },
);
const job = (name, path, settings = {}, address = `127.0.0.1:${targets}`) =>
	`  - ${JSON.stringify({ job_name: name, scrape_interval: '1s', static_configs: [{ targets: [address] }], ...settings, profiling_config: onlyConfig(path) })}\n`;
const up = (name) => until(`${name} is up`, async () => (await api(`?job=${name}&health=up`)).targets[0]);
const down = (name, pattern) =>
	until(`${name} is down: ${pattern}`, async () => {
		const [t] = await targetsOf(name);
		return t?.health === 'down' && pattern.test(t.error);
	});
const client = (more = {}) => ({ oauth2: { client_id: 'client id', client_secret_file: file('secret'), token_url: `http://127.0.0.1:${tokenPort}/token?x=y`, ...more } });
writeFileSync(file('secret'), 'first-secret\n');

let server = await start(
	'oauth2',
	job('crowd', '/private', { ...client({ scopes: ['read', 'profiles all'], endpoint_params: { audience: 'wick & co' } }), static_configs: [{ targets: Array.from({ length: 40 }, (_, i) => `127.0.0.${i + 1}:${targets}`) }] }) +
		job('body', '/private', client({ token_url: `http://127.0.0.1:${tokenPort}/body` })) +
		job('tls', '/private', client({ token_url: `https://localhost:${tokenTls}/`, tls_config: { ca_file: file('ca.pem') } })) +
		job('distrust', '/private', client({ token_url: `https://localhost:${tokenTls}/` })) +
		job('wrong', '/private', client({ client_secret_file: undefined, client_secret: 'mistyped-secret' })) +
		job('nofile', '/private', client({ client_secret_file: file('nowhere') })) +
		job('sd', '/public', { static_configs: [], http_sd_configs: [{ url: `http://127.0.0.1:${targets}/private?key=url-secret`, refresh_interval: '1s', ...client() }] }),
);
await test('OAuth 2.0: one token for all targets of a job', async () => {
	await until('all are up', async () => (await api('?job=crowd')).targets.every((t) => t.health === 'up'));
	const own = oauth.seen.filter((r) => r.form.get('audience') === 'wick & co');
	assert.equal(own.length, 1);
	assert.deepEqual([own[0].form.get('scope'), own[0].form.get('grant_type'), own[0].form.get('client_secret'), own[0].url], ['read profiles all', 'client_credentials', null, '/token?x=y']);
});
await test('OAuth 2.0: a server that wants the secret in the body; TLS with its own authority', async () => {
	await up('body');
	await up('tls');
	await down('distrust', /no token|cannot trust the certificate/);
});
await test('OAuth 2.0: a token is renewed before it ends, without a failure', async () => {
	oauth.lifetime = 2;
	minimum = oauth.issued + 1;
	await until('renewed', async () => (await api('?job=crowd')).targets.every((t) => t.health === 'up') && minimum <= oauth.issued);
	const [before] = await targetsOf('crowd');
	const issued = oauth.issued;
	await until('renewed some times', () => oauth.issued > issued + 6);
	const [after] = await targetsOf('crowd');
	assert.equal(after.failures, before.failures);
	oauth.lifetime = 3600;
});
await test('OAuth 2.0: a token that is refused is fetched again', async () => {
	const grants = () => oauth.seen.filter((r) => r.url === '/body').length;
	await until('one that lasts', async () => {
		const [scrapes, count] = [(await up('body')).scrapes, grants()];
		await until('some scrapes', async () => (await up('body')).scrapes > scrapes + 4);
		return count === grants();
	});
	const [before] = await targetsOf('body');
	minimum = oauth.issued + 1;
	await until('it has failed', async () => (await targetsOf('body'))[0].failures > before.failures);
	await until('and recovered', async () => (await targetsOf('body'))[0].health === 'up');
});
await test('OAuth 2.0: a secret whose file changes', async () => {
	const failures = (await targetsOf('body'))[0].failures;
	oauth.secret = 'second&secret';
	writeFileSync(file('secret'), 'second&secret');
	const issued = oauth.issued;
	await until('new tokens', () => oauth.issued > issued);
	await up('body');
	assert.ok((await targetsOf('body'))[0].failures <= failures + 1);
});
await test('OAuth 2.0: errors have a code, and no secret', async () => {
	await down('wrong', /^no token from http:\/\/127\.0\.0\.1:\d+\/token: status 401: invalid_client$/);
	await down('nofile', /nowhere/);
	const before = oauth.seen.filter((r) => r.form.get('client_secret') === 'mistyped-secret').length;
	const began = Date.now();
	await until('it is tried again', () => oauth.seen.filter((r) => r.form.get('client_secret') === 'mistyped-secret').length > before + 1);
	assert.ok(Date.now() - began > 4000, 'a failure is remembered for some seconds');
	oauth.fault = [200, '{"token": "none"}'];
	minimum = oauth.issued + 1;
	await down('body', /the response has no access_token/);
	oauth.fault = [200, 'x'.repeat(1 << 20)];
	await down('body', /larger than the limit/);
	oauth.fault = null;
	await up('body');
});
await test('OAuth 2.0: for discovery too; an address is shown without its query', async () => {
	await until('it responds with a profile', async () => /^http:\/\/127\.0\.0\.1:\d+\/private: /.test((await api()).discoveries.find((d) => d.job === 'sd').error));
});
await test('a token endpoint that hangs holds up its own job alone, and not the end', async () => {
	oauth.hang = true;
	minimum = oauth.issued + 1;
	const other = (await targetsOf('nofile'))[0].scrapes;
	await until('others go on', async () => (await targetsOf('nofile'))[0].scrapes > other + 3);
	const shown = JSON.stringify(await api()) + server.log();
	for (const text of ['first-secret', 'second&secret', 'second%26secret', 'mistyped-secret', 'url-secret', 'token-1', Buffer.from('client%20id:').toString('base64').slice(0, 14)])
		assert.ok(!shown.includes(text), text);
	const began = Date.now();
	assert.equal(await server.stop(), 0);
	assert.ok(Date.now() - began < 20000);
	oauth.hang = false;
});

// ---- proxies, labels, limits, HTML ----

const rule = (settings) => ({ metric_relabel_configs: [settings].flat() });
server = await start(
	'labels',
	job('proxied', '/plain', { proxy_url: `http://user:proxy-secret@127.0.0.1:${proxyPort}` }, 'inside.example:6060') +
		job('unproxied', '/plain', { proxy_url: `http://user:proxy-secret@127.0.0.1:${proxyPort}`, no_proxy: 'other.example,127.0.0.1' }) +
		job('refused', '/plain', { proxy_url: `http://user:wrong-secret@127.0.0.1:${proxyPort}` }, 'inside.example:6060') +
		job('taken', '/labelled') +
		job('honored', '/labelled', { honor_labels: true }) +
		job('dropped', '/labelled', rule([{ source_labels: ['user'], regex: 'bob', action: 'drop' }, { regex: 'user|instance', action: 'labeldrop' }, { source_labels: ['__name__', 'job'], target_label: 'kind' }])) +
		job('nothing', '/labelled', rule({ source_labels: ['__name__'], regex: 'custom', action: 'drop' })) +
		job('limited', '/hundred', { sample_limit: 99 }) +
		job('within', '/hundred', { sample_limit: 100 }) +
		job('ruled', '/labelled', { sample_limit: 1, ...rule({ source_labels: ['user'], regex: '.+', action: 'drop' }) }) +
		job('login', '/login') +
		job('packed', '/packed') +
		job('xhtml', '/xhtml') +
		job('mislabelled', '/mislabelled') +
		job('other', '/other'),
);
const totals = async (selector) => {
	const path = `/api/v1/query?query=${encodeURIComponent(`custom:cpu:nanoseconds::${selector}`)}&from=now-1h&to=now%2B1h`;
	return JSON.parse((await request(server.port, 'GET', path)).body).flame?.total ?? 0;
};
const stored = (selector, multiple) =>
	until(`${selector} is stored`, async () => {
		const total = await totals(selector);
		return total > 0 && total % multiple === 0 && total;
	});
await test('a proxy of the job: with its password, and not for what no_proxy lists', async () => {
	await up('proxied');
	await up('unproxied');
	await down('refused', /^the proxy http:\/\/127\.0\.0\.1:\d+ \(proxy_url\) rejects the given user and password/);
	assert.ok(proxied.length > 0 && proxied.every((r) => r.url === 'http://inside.example:6060/plain'));
});
await test('the labels of the target win, and those of the profile are exported', async () => {
	await up('taken');
	await stored('{job="taken", exported_exported_job="mine", exported_job="taken", user="alice"}', 7);
	await stored('{job="taken", user="bob"}', 5);
	assert.equal(await totals('{job="mine", exported_job="taken", instance=~".*", service_name="taken"}'), 0);
});
await test('honor_labels: those of the profile win', async () => {
	await stored('{job="mine", service_name="honored", exported_job="taken", user="alice"}', 7);
	await stored('{job="honored", user="bob"}', 5);
});
await test('metric_relabel_configs: samples are dropped, labels changed', async () => {
	const total = await stored('{kind="custom;dropped"}', 10);
	assert.equal(await totals('{job="dropped", user="bob"}'), 0);
	assert.equal(await totals('{job="dropped", instance=~".+"}'), 0);
	assert.ok(total >= 10);
	const [target] = await targetsOf('dropped');
	assert.equal(target.health, 'up');
});
await test('metric_relabel_configs: nothing left is no failure', async () => {
	await up('nothing');
	assert.equal(await totals('{job="nothing"}'), 0);
	assert.equal((await targetsOf('nothing'))[0].samples, 0);
});
await test('sample_limit fails what exceeds it as a whole; rules come first', async () => {
	await down('limited', /^the profile has 100 samples; sample_limit allows 99$/);
	assert.equal(await totals('{job="limited"}'), 0);
	await up('within');
	await stored('{job="within"}', 100);
	await up('ruled');
	await stored('{job="ruled"}', 3);
});
await test('HTML is called that, whatever its type; a profile that is called HTML is one', async () => {
	await down('login', /^the target returned an HTML page \(text\/html\), not a profile$/);
	await down('packed', /^the target returned an HTML page \(text\/html\), not a profile$/);
	await down('xhtml', /^the target returned an HTML page \(application\/octet-stream\), not a profile$/);
	await up('mislabelled');
	await down('other', /^the response/);
});
await test('the passwords of proxies are shown nowhere', async () => {
	const shown = JSON.stringify(await api()) + server.log();
	for (const text of ['proxy-secret', 'wrong-secret']) assert.ok(!shown.includes(text), text);
	writeFileSync(file('labels.yml'), readFileSync(file('labels.yml'), 'utf8').replace(`http://user:wrong-secret@127.0.0.1:${proxyPort}`, 'socks5://user:wrong-secret@127.0.0.1'));
	const refused = JSON.parse((await request(server.port, 'POST', '/api/v1/reload')).body).error;
	assert.match(refused, /labels\.yml: line 4: bad proxy_url: only http proxies are supported/);
	assert.ok(!refused.includes('secret'));
});
await server.stop();
finish();
