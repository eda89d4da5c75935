// SPDX-License-Identifier: Apache-2.0
// Who is who without a token of the file: names in client certificates, and JSON Web Tokens, whose keys are in a file or behind a URL.
import assert from 'node:assert/strict';
import { createPrivateKey, generateKeyPairSync, sign } from 'node:crypto';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import { startServer, request, temporaryDirectory, test, finish, uses, skip, wick } from '../harness.mjs';

const directory = temporaryDirectory(),
	file = (name) => `${directory}/${name}`;
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
async function until(what, check) {
	for (let i = 0; i < 300; i++) {
		if (await check()) return;
		await sleep(100);
	}
	assert.fail(`${what} did not happen`);
}
const create = (tokens, name, ...options) =>
	execFileSync(wick, ['token', 'create', '--file', file(tokens), '--name', name, ...options], { encoding: 'utf8' }).trim();

// ---- certificates

if (!uses('openssl')) skip('client certificates', 'openssl is not installed');
else {
	const openssl = (...args) => execFileSync('openssl', args, { cwd: directory, stdio: 'ignore' }),
		curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];
	for (const ca of ['ca', 'other-ca']) openssl('req', '-x509', ...curve, '-keyout', `${ca}.key`, '-out', `${ca}.pem`, '-days', '2', '-subj', `/CN=${ca}`);
	const issue = (name, subject, names, ca = 'ca') => {
		openssl('req', ...curve, '-keyout', `${name}.key`, '-out', `${name}.csr`, '-subj', subject);
		writeFileSync(file('ext'), names ? `subjectAltName=${names}\n` : 'basicConstraints=CA:FALSE\n');
		openssl(
			'x509',
			'-req',
			'-in',
			`${name}.csr`,
			'-CA',
			`${ca}.pem`,
			'-CAkey',
			`${ca}.key`,
			'-CAcreateserial',
			'-out',
			`${name}.pem`,
			'-days',
			'1',
			'-extfile',
			'ext',
		);
		return { key: readFileSync(file(`${name}.key`)), cert: readFileSync(file(`${name}.pem`)) };
	};
	issue('server', '/CN=server', 'DNS:localhost,IP:127.0.0.1');
	const host = issue('host', '/O=Example/CN=host7.example.org'),
		service = issue('service', '/O=Example', 'DNS:unused.example,URI:spiffe://example.org/reader'),
		unknown = issue('unknown', '/CN=host8.example.org', 'DNS:host7.example.org.evil'),
		foreign = issue('foreign', '/CN=host7.example.org', undefined, 'other-ca'),
		two = issue('two', '/CN=host7.example.org,CN=nobody', undefined);
	create('certs.yaml', 'host-7', '--role', 'agent', '--certificate', 'host7.example.org');
	create('certs.yaml', 'reader', '--role', 'read', '--certificate', 'spiffe://example.org/reader');
	const token = create('certs.yaml', 'ops', '--role', 'admin'),
		expired = create('certs.yaml', 'soon', '--role', 'admin', '--certificate', 'host8.example.org', '--expires', '1s');
	assert.equal(expired, '', 'an entry for a certificate has no token');
	writeFileSync(file('audit.yaml'), `audit: {file: ${file('audit.log')}}\n`);
	let server = await startTls();
	async function startTls() {
		const child = spawn(
			wick,
			['server', '--data', file('data'), '--listen', '127.0.0.1:0', '--config', file('audit.yaml'), '--tokens', file('certs.yaml')].concat([
				'--tls-cert',
				file('server.pem'),
				'--tls-key',
				file('server.key'),
				'--tls-client-ca',
				file('ca.pem'),
			]),
			{ stdio: ['ignore', 'ignore', 'pipe'] },
		);
		process.on('exit', () => child.kill('SIGKILL'));
		let log = '';
		const port = await new Promise((resolve, reject) => {
			child.stderr.on('data', (chunk) => {
				log += chunk;
				const match = log.match(/https:\/\/127\.0\.0\.1:(\d+)/);
				if (match) resolve(Number(match[1]));
			});
			child.once('exit', (code) => reject(new Error(`server ended with ${code}: ${log}`)));
		});
		return { port, child };
	}
	const ask = (method, path, certificate, headers = {}) =>
		new Promise((resolve) => {
			const call = https.request(
				{ host: '127.0.0.1', port: server.port, method, path, agent: false, ca: readFileSync(file('ca.pem')), headers, ...certificate },
				(response) => {
					response.resume();
					response.on('end', () => resolve(response.statusCode));
				},
			);
			call.on('error', (error) => resolve(error.code ?? 'failed'));
			call.end();
		});
	await test('a name in a certificate has the role of its entry, and no other', async () => {
		assert.notEqual(await ask('POST', '/api/v1/agents/poll', host), 403);
		assert.notEqual(await ask('POST', '/api/v1/agents/poll', host), 401);
		assert.equal(await ask('GET', '/api/v1/status', host), 403);
		assert.equal(await ask('GET', '/api/v1/status', service), 200);
		assert.equal(await ask('POST', '/api/v1/agents/poll', service), 403);
		assert.equal(await ask('GET', '/healthz', unknown), 200);
	});
	await test('a certificate that the file does not name is nobody, one of another authority gets no connection', async () => {
		assert.equal(await ask('GET', '/api/v1/status', two), 401, 'a name with more in it');
		assert.equal(typeof (await ask('GET', '/api/v1/status', foreign)), 'string');
		assert.equal(typeof (await ask('GET', '/api/v1/status')), 'string');
		await sleep(1100);
		assert.equal(await ask('GET', '/api/v1/status', unknown), 401, 'expired');
	});
	await test('a token beside the certificate decides, also if it is wrong', async () => {
		assert.equal(await ask('GET', '/api/v1/status', host, { authorization: `Bearer ${token}` }), 200);
		assert.equal(await ask('GET', '/api/v1/status', service, { authorization: `Bearer ${token}0` }), 401);
	});
	await test('an entry that is taken out counts on connections that are open, too', async () => {
		const agent = new https.Agent({ keepAlive: true, maxSockets: 1, ca: readFileSync(file('ca.pem')), ...service });
		assert.equal(await ask('GET', '/api/v1/status', { agent }), 200);
		execFileSync(wick, ['token', 'revoke', 'reader', '--file', file('certs.yaml')]);
		await until('the revocation', async () => (await ask('GET', '/api/v1/status', { agent })) === 401);
		agent.destroy();
	});
	await test('certificates are in the audit log by the names of their entries', async () => {
		await sleep(1500);
		const lines = readFileSync(file('audit.log'), 'utf8')
			.split('\n')
			.filter(Boolean)
			.map((line) => JSON.parse(line));
		assert.ok(lines.some((line) => line.event === 'login' && line.name === 'host-7' && line.kind === 'certificate'));
		assert.ok(lines.some((line) => line.event === 'refusal' && line.name === 'host-7' && line.status === 403));
	});
	server.child.removeAllListeners('exit');
	server.child.kill('SIGTERM');
	await test('certificates may be optional: others need a token then', async () => {
		writeFileSync(file('audit.yaml'), 'tls: {client_optional: true}\n');
		server = await startTls();
		assert.equal(await ask('GET', '/api/v1/status'), 401);
		assert.equal(await ask('GET', '/api/v1/status', {}, { authorization: `Bearer ${token}` }), 200);
		assert.equal(await ask('GET', '/api/v1/status', host), 403);
		assert.equal(typeof (await ask('GET', '/api/v1/status', foreign, { authorization: `Bearer ${token}` })), 'string', 'of another authority');
		server.child.removeAllListeners('exit');
		server.child.kill('SIGTERM');
		const alone = spawnSync(
			wick,
			['server', '--data', file('data2'), '--listen', '127.0.0.1:0', '--config', file('audit.yaml'), '--tls-client-ca', file('ca.pem')],
			{ encoding: 'utf8', timeout: 20000 },
		);
		assert.match(alone.stderr, /tls.client_optional needs/);
	});
}

// ---- JSON Web Tokens

const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 }),
	next = generateKeyPairSync('rsa', { modulusLength: 3072 }),
	ec = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const jwk = (pair, kid) => ({ ...pair.publicKey.export({ format: 'jwk' }), kid, use: 'sig' });
const now = () => Math.floor(Date.now() / 1000);
function jwt(pair, kid, claims) {
	const part = (value) => Buffer.from(JSON.stringify(value)).toString('base64url'),
		isEc = pair.privateKey.asymmetricKeyType === 'ec',
		text = `${part({ alg: isEc ? 'ES256' : 'RS256', typ: 'JWT', kid })}.${part({ iss: 'https://login.example', aud: ['wick', 'other'], exp: now() + 300, email: 'ada@example.org', groups: ['viewers'], teams: ['team-a'], ...claims })}`;
	const signature = sign('sha256', Buffer.from(text), {
		key: createPrivateKey(pair.privateKey.export({ type: 'pkcs8', format: 'pem' })),
		dsaEncoding: 'ieee-p1363',
	});
	return `${text}.${signature.toString('base64url')}`;
}
const oidc = (keys) =>
	`tokens: []\noidc:\n  issuer: https://login.example\n  audience: wick\n  ${keys}\n  name_claim: email\n  role_claim: groups\n  tenant_claim: teams\n  roles: {viewers: read, operators: [read]}\n`.replace(
		'[read]',
		'record',
	);
writeFileSync(file('keys.json'), JSON.stringify({ keys: [jwk(rsa, 'one'), jwk(ec, 'two')] }));
writeFileSync(file('jwt.yaml'), oidc(`jwks_file: ${file('keys.json')}`), { mode: 0o600 });
writeFileSync(file('jwt-server.yaml'), `tenants: true\naudit: {file: ${file('jwt-audit.log')}}\ntokens: ${file('jwt.yaml')}\n`);
const server = await startServer(file('jwt-data'), ['--config', file('jwt-server.yaml')]);
const status = async (method, path, token, headers) =>
	(await request(server.port, method, path, { headers: { authorization: `Bearer ${token}`, ...headers } })).status;
await test('a token of the issuer has the roles and tenants of its claims', async () => {
	for (const token of [jwt(rsa, 'one'), jwt(ec, 'two')]) {
		assert.equal(await status('GET', '/api/v1/agents', token), 404, 'nothing is stored for team-a yet');
		assert.equal(await status('GET', '/api/v1/status', token, { 'x-scope-orgid': 'team-b' }), 403);
		assert.equal(await status('GET', '/metrics', token), 403, 'of all tenants');
		assert.equal(await status('POST', '/api/v1/delete', token), 403);
	}
	assert.equal(await status('GET', '/metrics', jwt(rsa, 'one', { teams: '*' })), 200);
	assert.equal(await status('GET', '/api/v1/queries', jwt(rsa, 'one', { groups: ['nobody'] })), 403);
	assert.equal(await status('GET', '/api/v1/status', jwt(rsa, 'one', { teams: undefined })), 200, 'of the tenant without a name');
	assert.notEqual(await status('PUT', '/api/v1/queries/x', jwt(rsa, 'one', { groups: 'operators' })), 403);
	const basic = Buffer.from(`ada:${jwt(ec, 'two', { teams: '*' })}`).toString('base64');
	assert.equal((await request(server.port, 'GET', '/metrics', { headers: { authorization: `Basic ${basic}` } })).status, 200);
});
await test('what is not signed by it, not for us, or not now, is refused', async () => {
	const good = jwt(rsa, 'one', { teams: '*' });
	for (const [what, token] of [
		['of another key', jwt(next, 'one', { teams: '*' })],
		['of another issuer', jwt(rsa, 'one', { teams: '*', iss: 'https://evil.example' })],
		['for others', jwt(rsa, 'one', { teams: '*', aud: 'other' })],
		['expired', jwt(rsa, 'one', { teams: '*', exp: now() - 100 })],
		['not yet', jwt(rsa, 'one', { teams: '*', nbf: now() + 100 })],
		[
			'changed',
			good.replace(
				/\.[^.]*\./,
				`.${Buffer.from(JSON.stringify({ iss: 'https://login.example', aud: 'wick', exp: now() + 300, email: 'x', groups: 'viewers', teams: '*' })).toString('base64url')}.`,
			),
		],
	]) {
		assert.equal(await status('GET', '/metrics', good), 200);
		const got = await status('GET', '/metrics', token);
		assert.ok(got === 401 || got === 429, `${what}: ${got}`);
	}
	await sleep(1100); // the delay
});
await test('keys that change in their file are used a second later', async () => {
	const token = jwt(next, 'three', { teams: '*' });
	writeFileSync(file('keys.new'), JSON.stringify({ keys: [jwk(next, 'three')] }));
	renameSync(file('keys.new'), file('keys.json'));
	await until('the new key', async () => (await status('GET', '/metrics', token)) === 200);
	await until('the end of the old one', async () => (await status('GET', '/metrics', jwt(rsa, 'one', { teams: '*' }))) === 401);
	writeFileSync(file('keys.json'), 'nonsense');
	await sleep(2500);
	assert.equal(await status('GET', '/metrics', token), 200, 'keys that cannot be read change nothing');
});
await test('keys behind a URL are fetched, and again for a key that is not known', async () => {
	let keys = [jwk(rsa, 'one')],
		asked = 0;
	const issuer = http.createServer((call, answer) => {
		asked++;
		answer.statusCode = call.url === '/keys?x=1' ? 200 : 404;
		answer.end(JSON.stringify({ keys }));
	});
	await new Promise((resolve) => issuer.listen(0, '127.0.0.1', resolve));
	writeFileSync(file('jwt.new'), oidc(`jwks_url: http://127.0.0.1:${issuer.address().port}/keys?x=1`), { mode: 0o600 });
	renameSync(file('jwt.new'), file('jwt.yaml'));
	await until('the keys', async () => (await status('GET', '/metrics', jwt(rsa, 'one', { teams: '*' }))) === 200);
	assert.equal(asked, 1);
	// As when an issuer changes its key: the first token with it is refused, later ones work; however many come, the issuer is asked twice a minute at most.
	keys = [jwk(rsa, 'one'), jwk(next, 'three')];
	const begun = Date.now();
	await until('the new key', async () => {
		await sleep(900);
		return (await status('GET', '/metrics', jwt(next, 'three', { teams: '*' }))) === 200;
	}).catch(() => {});
	if (Date.now() - begun < 30000) await until('the new key', async () => (await status('GET', '/metrics', jwt(next, 'three', { teams: '*' }))) === 200);
	assert.equal(await status('GET', '/metrics', jwt(rsa, 'one', { teams: '*' })), 200);
	assert.equal(asked, 2);
	issuer.close();
});
await test('people are in the audit log by their claim', async () => {
	await sleep(1500);
	const lines = readFileSync(file('jwt-audit.log'), 'utf8')
		.split('\n')
		.filter(Boolean)
		.map((line) => JSON.parse(line));
	assert.ok(lines.some((line) => line.event === 'login' && line.name === 'ada@example.org' && line.kind === 'jwt'));
	assert.ok(!readFileSync(file('jwt-audit.log'), 'utf8').includes('eyJ'));
});
await server.stop();
finish();
