// SPDX-License-Identifier: Apache-2.0
// A server below a path of a reverse proxy: the page, its files, the API, commands; and who asks, by X-Forwarded-For, in the audit log and for wrong tokens. The proxy
// is Node's http, which adds the headers that proxies add, and nginx where it is installed.
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { promisify } from 'node:util';
import { finish, request, skip, startServer, temporaryDirectory, test, uses, wick } from '../harness.mjs';

const directory = temporaryDirectory();
const token = 'reverse-proxy-token';
writeFileSync(`${directory}/token`, `${token}\n`, { mode: 0o600 });
mkdirSync(`${directory}/log`);
const until = async (what, condition) => {
	for (let i = 0; i < 600; i++) {
		if (await condition()) return;
		await new Promise((resolve) => setTimeout(resolve, 100));
	}
	assert.fail(`${what} did not happen`);
};

// Passes everything on: `strip` takes the prefix off, as some proxies do; `client` is whom it says that it asks for.
const proxies = [];
function startProxy(port, { strip = false, client = '198.51.100.7', host, proto = 'https' } = {}) {
	const proxy = http.createServer((incoming, outgoing) => {
		const path = strip ? incoming.url.replace(/^\/wick(?=\/|$|\?)/, '') || '/' : incoming.url;
		const headers = { ...incoming.headers };
		headers['x-forwarded-for'] = headers['x-forwarded-for'] ? `${headers['x-forwarded-for']}, ${client}` : client;
		headers['x-forwarded-proto'] = proto;
		headers['x-forwarded-host'] = host ?? incoming.headers.host;
		headers.host = `127.0.0.1:${port}`;
		const call = http.request({ host: '127.0.0.1', port, method: incoming.method, path, headers, agent: false }, (answer) => {
			outgoing.writeHead(answer.statusCode, answer.headers);
			answer.pipe(outgoing);
		});
		call.on('error', () => outgoing.destroy());
		incoming.pipe(call);
	});
	proxies.push(proxy);
	return new Promise((resolve) => proxy.listen(0, '127.0.0.1', () => resolve(proxy.address().port)));
}

const config = `${directory}/server.yaml`;
writeFileSync(config, `path_prefix: /wick\ntrusted_proxies: [127.0.0.1, fd00::/8]\naudit: {file: ${directory}/log/audit.log}\n`);
const server = await startServer(`${directory}/data`, ['--config', config, '--token-file', `${directory}/token`]);
const proxy = await startProxy(server.port);
const authorized = { authorization: `Bearer ${token}` };
const lines = () => readFileSync(`${directory}/log/audit.log`, 'utf8').trim().split('\n').map((line) => JSON.parse(line));

async function showsPage(port, path, headers = authorized) {
	const page = await request(port, 'GET', path, { headers });
	assert.equal(page.status, 200);
	const text = page.body.toString();
	const links = [...text.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, link]) => link).filter((link) => !link.startsWith('data:'));
	assert.ok(links.includes('app.js') && links.includes('app.css'), links.join());
	for (const link of links) {
		const file = await request(port, 'GET', new URL(link, `http://host${path}`).pathname, { headers });
		assert.equal(file.status, 200, link);
	}
	const status = await request(port, 'GET', new URL('api/v1/status', `http://host${path}`).pathname, { headers });
	assert.equal(JSON.parse(status.body).version.length > 0, true);
}
await test('the page, its files and its API are below the prefix', () => showsPage(proxy, '/wick/'));
await test('and without it, for proxies that take it off, and for health checks', async () => {
	await showsPage(await startProxy(server.port, { strip: true }), '/wick/');
	assert.equal((await request(server.port, 'GET', '/healthz')).status, 200);
	assert.equal((await request(server.port, 'GET', '/wick/healthz')).status, 200);
});
await test('without a slash behind it the page is elsewhere', async () => {
	const answer = await request(proxy, 'GET', '/wick?view=status', { headers: authorized });
	assert.deepEqual([answer.status, answer.headers.location], [308, '/wick/?view=status']);
	assert.equal((await request(proxy, 'GET', '/wicked', { headers: authorized })).status, 404);
});
await test('commands and agents take a URL with the prefix', async () => {
	const url = `http://127.0.0.1:${proxy}/wick`;
	assert.equal((await request(proxy, 'POST', '/wick/api/v1/ingest?name=app', { headers: authorized, body: Buffer.from('main;work 7\n') })).status, 200);
	const { stdout: out } = await promisify(execFile)(wick, ['query', 'app', '--url', url, '--token-file', `${directory}/token`, '--format', 'folded']);
	assert.match(out, /main;work 7/);
});
await test('a page that the proxy has served may change things, one of elsewhere may not', async () => {
	const post = (origin) => request(proxy, 'POST', '/wick/api/v1/compact', { headers: { ...authorized, host: 'profiles.example', origin } });
	assert.equal((await post('https://profiles.example')).status, 200);
	assert.equal((await post('http://profiles.example')).status, 403);
	assert.equal((await post('https://evil.example')).status, 403);
});
await test('the audit log has the client, not the proxy, and not what the client claims', async () => {
	await request(proxy, 'POST', '/wick/api/v1/compact', { headers: { ...authorized, 'x-forwarded-for': '203.0.113.9' } });
	await until('the call is in it', () => lines().some((line) => line.event === 'call'));
	for (const line of lines()) assert.equal(line.address, '198.51.100.7', JSON.stringify(line));
	assert.ok(lines().some((line) => line.event === 'login'));
});
await test('who guesses tokens waits, others behind the same proxy do not', async () => {
	const guesser = await startProxy(server.port, { client: '203.0.113.66' });
	const status = async (port, value, headers = {}) => (await request(port, 'GET', '/wick/api/v1/status', { headers: { authorization: `Bearer ${value}`, ...headers } })).status;
	let refused = 0;
	for (let i = 0; i < 12; i++) refused = await status(guesser, `wrong-token-${i}`, { 'x-forwarded-for': `192.0.2.${i}` });
	assert.equal(refused, 429, 'another claimed address each time does not help');
	assert.equal(await status(guesser, token), 429);
	assert.equal(await status(await startProxy(server.port, { client: '203.0.113.67' }), token), 200);
	assert.equal(await status(proxy, 'wrong-token'), 401);
});
await test('whoever is no trusted proxy is who it is', async () => {
	const other = await startServer(`${directory}/other`, ['--config', (writeFileSync(`${directory}/other.yaml`, `trusted_proxies: 192.0.2.0/24\naudit: {file: ${directory}/log/other.log}\n`), `${directory}/other.yaml`), '--token-file', `${directory}/token`]);
	assert.equal((await request(await startProxy(other.port), 'POST', '/api/v1/compact', { headers: authorized })).status, 200);
	await until('the call is in its log', () => readFileSync(`${directory}/log/other.log`, 'utf8').includes('"call"'));
	assert.match(readFileSync(`${directory}/log/other.log`, 'utf8'), /"address":"127\.0\.0\.1"/);
	assert.equal(await other.stop(), 0);
});
await test('what is no prefix or network is refused', async () => {
	for (const [options, fault] of [
		[['--path-prefix', 'wick'], /path_prefix: 'wick' must begin with '\/'/],
		[['--path-prefix', '/wick/'], /path_prefix: '\/wick\/'/],
		[['--config', (writeFileSync(`${directory}/bad.yaml`, 'trusted_proxies: [10.0.0.0/40]\n'), `${directory}/bad.yaml`)], /trusted_proxies: '10\.0\.0\.0\/40' is no network/],
	])
		await assert.rejects(startServer(`${directory}/bad`, options), fault);
});
if (uses('nginx')) {
	await test('nginx in front', async () => {
		const at = `${directory}/nginx`;
		mkdirSync(at);
		const port = await new Promise((resolve) => {
			const probe = http.createServer().listen(0, '127.0.0.1', function () {
				const { port } = this.address();
				probe.close(() => resolve(port));
			});
		});
		writeFileSync(
			`${at}/nginx.conf`,
			`daemon off; pid ${at}/pid; error_log stderr; events {}
http { access_log off; client_body_temp_path ${at}/a; proxy_temp_path ${at}/b; fastcgi_temp_path ${at}/c; uwsgi_temp_path ${at}/d; scgi_temp_path ${at}/e;
server { listen 127.0.0.1:${port}; location /wick/ { proxy_pass http://127.0.0.1:${server.port};
proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; proxy_set_header X-Forwarded-Proto $scheme; proxy_set_header X-Forwarded-Host $http_host; } } }`,
		);
		const nginx = spawn('nginx', ['-p', at, '-c', `${at}/nginx.conf`], { stdio: 'ignore' });
		process.on('exit', () => nginx.kill('SIGKILL'));
		await until('it listens', () => request(port, 'GET', '/wick/healthz').then(({ status }) => status === 200, () => false));
		await showsPage(port, '/wick/');
		assert.equal((await request(port, 'POST', '/wick/api/v1/compact', { headers: { ...authorized, origin: `http://127.0.0.1:${port}` } })).status, 200);
		nginx.kill();
	});
} else skip('nginx in front', 'nginx is not installed');
for (const one of proxies) one.close();
await test('it ends', async () => assert.equal(await server.stop(), 0));
finish();
