// SPDX-License-Identifier: Apache-2.0
// Discovery by EC2, GCE and Azure, against servers that behave as their APIs are documented: signatures and tokens that are checked, pages, errors. Their
// host names are real ones: a proxy leads to the servers here.
import assert from 'node:assert/strict';
import { createHash, createHmac, createVerify, generateKeyPairSync } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import net from 'node:net';
import { test, finish } from '../harness.mjs';
import { file, listen, bodyOf, makeAuthority, issue, finding, start, api, until, targetsOf, addressesOf, discoveryOf, found, failing, meta } from './scraping.mjs';

makeAuthority();
const names = ['compute.googleapis.com', 'oauth2.googleapis.com', 'login.microsoftonline.com', 'management.azure.com', 'elsewhere.example', 'ec2.eu-west-1.amazonaws.com'];
const handlers = {};
const tlsPort = await listen(
	https.createServer(issue('clouds', names.map((name) => `DNS:${name}`).join(',')), (req, res) => (handlers[req.headers.host] ?? ((_, r) => r.writeHead(421).end()))(req, res)),
);
const tunnels = [];
const proxy = http.createServer((req, res) => res.writeHead(405).end());
proxy.on('connect', (req, socket, head) => {
	tunnels.push(req.url);
	const to = net.connect(tlsPort, '127.0.0.1', () => {
		socket.write('HTTP/1.1 200 OK\r\n\r\n');
		to.write(head);
		to.pipe(socket).pipe(to);
	});
	for (const end of [socket, to]) end.on('error', () => (socket.destroy(), to.destroy()));
});
const proxyUrl = `http://127.0.0.1:${await listen(proxy)}`;
const secrets = [];
const secret = (text) => (secrets.push(text), text);
const noSecrets = async (server) => {
	const shown = JSON.stringify(await api()) + server.log();
	for (const text of secrets) assert.ok(!shown.includes(text), text);
};

// ---- EC2 ----

const keys = {
	AKIASTATIC: { secret: secret('static/secret+key') },
	AKIAPROFILE: { secret: secret('profile-secret-key') },
	AKIAMACHINE: { secret: secret('machine-secret-key'), token: secret('machine-session-token') },
	ASIAROLE: { secret: secret('role-secret-key'), token: secret('role-session-token==') },
	ASIAWEB: { secret: secret('web-secret-key'), token: secret('web-session-token') },
	ASIABOX: { secret: secret('box-secret-key'), token: secret('box-session-token') },
};
// Written from AWS' description of Signature Version 4, and by itself: the server's own code is checked against AWS' vectors.
const verify = (req, body, service) => {
	const match = /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/([^/]+)\/aws4_request, SignedHeaders=([^,]+), Signature=([0-9a-f]{64})$/.exec(req.headers.authorization ?? '');
	const key = match && keys[match[1]];
	if (!key || match[4] !== service || match[3] !== 'eu-west-1') return null;
	const signed = match[5].split(';');
	if (!['content-type', 'host', 'x-amz-date'].every((name) => signed.includes(name))) return null;
	if (key.token !== req.headers['x-amz-security-token'] || (key.token && !signed.includes('x-amz-security-token'))) return null;
	const date = req.headers['x-amz-date'];
	const at = Date.parse(date.replace(/(....)(..)(..)T(..)(..)(..)Z/, '$1-$2-$3T$4:$5:$6Z'));
	if (Math.abs(Date.now() - at) > 300000 || !date.startsWith(match[2])) return null;
	const canonical = [req.method, '/', '', ...signed.map((name) => `${name}:${req.headers[name].trim()}`), '', match[5], createHash('sha256').update(body).digest('hex')].join('\n');
	const text = ['AWS4-HMAC-SHA256', date, `${match[2]}/eu-west-1/${service}/aws4_request`, createHash('sha256').update(canonical).digest('hex')].join('\n');
	const hmac = (k, data) => createHmac('sha256', k).update(data).digest();
	const signing = ['eu-west-1', service, 'aws4_request'].reduce(hmac, hmac(`AWS4${key.secret}`, match[2]));
	return createHmac('sha256', signing).update(text).digest('hex') === match[6] ? match[1] : null;
};
const xml = (text) => `<?xml version="1.0" encoding="UTF-8"?>\n${text}`;
const item = (id, more) => `<item><instanceId>${id}</instanceId><imageId>ami-1</imageId><instanceState><code>16</code><name>running</name></instanceState>${more}</item>`;
const reservation = (owner, items) => `<item><reservationId>r</reservationId><ownerId>${owner}</ownerId><groupSet/><instancesSet>${items}</instancesSet></item>`;
const full = item(
	'i-1',
	'<privateDnsName>ip-10-0-0-1.internal</privateDnsName><dnsName>ec2-1.amazonaws.com</dnsName><instanceType>m5.large</instanceType>' +
		'<placement><availabilityZone>eu-west-1a</availabilityZone></placement><platform>windows</platform><subnetId>subnet-1</subnetId><vpcId>vpc-1</vpcId>' +
		'<privateIpAddress>10.0.0.1</privateIpAddress><ipAddress>192.0.2.1</ipAddress><architecture>x86_64</architecture><instanceLifecycle>spot</instanceLifecycle>' +
		'<tagSet><item><key>Name</key><value>web &amp; more</value></item><item><key>k8s.io/role</key><value>node</value></item></tagSet>' +
		'<networkInterfaceSet><item><subnetId>subnet-1</subnetId><attachment><deviceIndex>1</deviceIndex></attachment><ipv6AddressesSet><item><ipv6Address>fd00::1</ipv6Address><isPrimaryIpv6>true</isPrimaryIpv6></item></ipv6AddressesSet></item>' +
		'<item><subnetId>subnet-2</subnetId><attachment><deviceIndex>0</deviceIndex></attachment><ipv6AddressesSet><item><ipv6Address>fd00::2</ipv6Address><isPrimaryIpv6>false</isPrimaryIpv6></item></ipv6AddressesSet></item>' +
		'<item><subnetId>subnet-1</subnetId></item></networkInterfaceSet>',
);
const bare = item('i-2', '<instanceType>t2.nano</instanceType><placement><availabilityZone>eu-west-1z</availabilityZone></placement><privateIpAddress>10.0.0.2</privateIpAddress>');
const six = item('i-3', '<placement><availabilityZone>eu-west-1a</availabilityZone></placement><subnetId>s</subnetId><vpcId>v</vpcId><networkInterfaceSet><item><subnetId>s</subnetId><ipv6AddressesSet><item><ipv6Address>fd00::3</ipv6Address></item></ipv6AddressesSet></item></networkInterfaceSet>');
const off = item('i-4', '<placement><availabilityZone>eu-west-1a</availabilityZone></placement>'); // terminated: no address
const calls = [];
let ec2Fault = null;
const ec2 = async (req, res) => {
	const body = await bodyOf(req),
		form = new URLSearchParams(body),
		who = verify(req, body, 'ec2');
	calls.push({ who, form, action: form.get('Action') });
	if (!who)
		return res.writeHead(401).end(xml('<Response><Errors><Error><Code>AuthFailure</Code><Message>AWS was not able to validate the provided access credentials</Message></Error></Errors><RequestID>1</RequestID></Response>'));
	if (ec2Fault) return res.writeHead(ec2Fault[0], { 'content-type': 'text/xml' }).end(ec2Fault[1]);
	if (form.get('Action') === 'DescribeAvailabilityZones')
		return res.end(xml('<DescribeAvailabilityZonesResponse><availabilityZoneInfo><item><zoneName>eu-west-1a</zoneName><zoneId>euw1-az3</zoneId></item></availabilityZoneInfo></DescribeAvailabilityZonesResponse>'));
	assert.equal(form.get('Version'), '2016-11-15');
	const page = form.get('NextToken') === 'page/2==' ? reservation('222', six + off) : reservation('111', full + bare);
	res.end(xml(`<DescribeInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><reservationSet>${page}</reservationSet>${form.get('NextToken') ? '' : '<nextToken>page/2==</nextToken>'}</DescribeInstancesResponse>`));
};
const ec2Port = await listen(http.createServer(ec2));
handlers['ec2.eu-west-1.amazonaws.com'] = ec2;
const later = () => new Date(Date.now() + 3600000).toISOString().replace(/\.\d+/, '');
const stsCalls = [];
const sts = async (req, res) => {
	const body = await bodyOf(req),
		form = new URLSearchParams(body),
		action = form.get('Action');
	stsCalls.push(form);
	const key = action === 'AssumeRole' ? 'ASIAROLE' : 'ASIAWEB';
	const good = action === 'AssumeRole' ? verify(req, body, 'sts') && form.get('ExternalId') === 'ext' : form.get('WebIdentityToken') === 'pod-token' && !req.headers.authorization;
	if (!good) return res.writeHead(403).end(xml('<ErrorResponse><Error><Code>AccessDenied</Code><Message>not authorized to perform: sts:AssumeRole</Message></Error></ErrorResponse>'));
	res.end(
		xml(
			`<${action}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><${action}Result><Credentials><AccessKeyId>${key}</AccessKeyId><SecretAccessKey>${keys[key].secret}</SecretAccessKey><SessionToken>${keys[key].token}</SessionToken><Expiration>${later()}</Expiration></Credentials></${action}Result></${action}Response>`,
		),
	);
};
const stsPort = await listen(http.createServer(sts));
const imds = { tokens: 0, seen: [] };
const imdsPort = await listen(
	http.createServer((req, res) => {
		imds.seen.push(req.url);
		if (req.method === 'PUT' && req.url === '/latest/api/token' && req.headers['x-aws-ec2-metadata-token-ttl-seconds']) return res.end(`session-${++imds.tokens}`);
		if (req.url === '/box' && req.headers.authorization === 'box-token')
			return res.end(JSON.stringify({ AccessKeyId: 'ASIABOX', SecretAccessKey: keys.ASIABOX.secret, Token: keys.ASIABOX.token, Expiration: later() }));
		if (!/^session-\d+$/.test(req.headers['x-aws-ec2-metadata-token'] ?? '')) return res.writeHead(401).end();
		if (req.url === '/latest/meta-data/placement/region') return res.end('eu-west-1');
		if (req.url === '/latest/meta-data/iam/security-credentials/') return res.end('the-role\n');
		if (req.url === '/latest/meta-data/iam/security-credentials/the-role')
			return res.end(JSON.stringify({ Code: 'Success', AccessKeyId: 'AKIAMACHINE', SecretAccessKey: keys.AKIAMACHINE.secret, Token: keys.AKIAMACHINE.token, Expiration: later() }));
		res.writeHead(404).end();
	}),
);
writeFileSync(file('credentials'), `# keys\n[other]\naws_access_key_id = x\n[ shop ]\naws_access_key_id=AKIAPROFILE\n aws_secret_access_key = ${keys.AKIAPROFILE.secret} \n[last]\n`);
Object.assign(process.env, {
	HOME: file('home'),
	AWS_SHARED_CREDENTIALS_FILE: file('credentials'),
	AWS_CONFIG_FILE: file('aws-config'),
	AWS_EC2_METADATA_SERVICE_ENDPOINT: `http://127.0.0.1:${imdsPort}/`,
	AWS_ENDPOINT_URL_STS: `http://127.0.0.1:${stsPort}`,
	SSL_CERT_FILE: file('ca.pem'),
});
for (const name of ['AWS_REGION', 'AWS_DEFAULT_REGION', 'AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY', 'AWS_PROFILE', 'AWS_WEB_IDENTITY_TOKEN_FILE', 'AWS_CONTAINER_CREDENTIALS_FULL_URI']) delete process.env[name];
const endpoint = `http://127.0.0.1:${ec2Port}`;
const fixed = { region: 'eu-west-1', access_key: 'AKIASTATIC', secret_key: keys.AKIASTATIC.secret };
let server = await start(
	'ec2',
	finding('static', 'ec2', { ...fixed, endpoint, port: 6060, filters: [{ name: 'tag:env', values: ['prod', 'test & more'] }, { name: 'instance-state-name', values: ['running'] }] }) +
		finding('proxied', 'ec2', { ...fixed, proxy_url: proxyUrl }) +
		finding('wrong', 'ec2', { ...fixed, endpoint, secret_key: secret('mistyped-key') }) +
		finding('role', 'ec2', { ...fixed, endpoint, role_arn: 'arn:aws:iam::1:role/a', external_id: 'ext' }) +
		finding('stranger', 'ec2', { ...fixed, endpoint, role_arn: 'arn:aws:iam::1:role/a', external_id: 'other' }) +
		finding('profile', 'ec2', { region: 'eu-west-1', endpoint, profile: 'shop' }) +
		finding('nokeys', 'ec2', { region: 'eu-west-1', endpoint, profile: 'last' }) +
		finding('machine', 'ec2', { endpoint }),
);
await test('EC2: instances of all pages, with the labels of Prometheus, by signed requests', async () => {
	const targets = await found('static', 3);
	assert.deepEqual(await addressesOf('static'), ['10.0.0.1:6060', '10.0.0.2:6060', '[fd00::3]:6060']);
	assert.deepEqual(meta(targets.find((t) => t.labels.instance === '10.0.0.1:6060')), {
		instance_id: 'i-1',
		region: 'eu-west-1',
		owner_id: '111',
		private_ip: '10.0.0.1',
		private_dns_name: 'ip-10-0-0-1.internal',
		platform: 'windows',
		public_ip: '192.0.2.1',
		public_dns_name: 'ec2-1.amazonaws.com',
		default_ipv6_address: 'fd00::1',
		primary_ipv6_addresses: ',,fd00::1,',
		ipv6_addresses: ',fd00::1,fd00::2,',
		ami: 'ami-1',
		availability_zone: 'eu-west-1a',
		availability_zone_id: 'euw1-az3',
		instance_state: 'running',
		instance_type: 'm5.large',
		instance_lifecycle: 'spot',
		architecture: 'x86_64',
		vpc_id: 'vpc-1',
		primary_subnet_id: 'subnet-1',
		subnet_id: ',subnet-1,subnet-2,',
		tag_Name: 'web & more',
		tag_k8s_io_role: 'node',
	});
	const form = calls.find((c) => c.action === 'DescribeInstances' && c.form.get('Filter.1.Name')).form;
	assert.deepEqual(
		['Filter.1.Name', 'Filter.1.Value.1', 'Filter.1.Value.2', 'Filter.2.Name', 'Filter.2.Value.1', 'MaxResults'].map((name) => form.get(name)),
		['tag:env', 'prod', 'test & more', 'instance-state-name', 'running', '1000'],
	);
});
await test('EC2: the host of the region itself, through a proxy and TLS', async () => {
	await found('proxied', 3);
	assert.ok(tunnels.includes('ec2.eu-west-1.amazonaws.com:443'));
});
await test('EC2: keys of a profile, a role, the machine', async () => {
	for (const [job, key] of [
		['profile', 'AKIAPROFILE'],
		['role', 'ASIAROLE'],
		['machine', 'AKIAMACHINE'],
	]) {
		await found(job, 3);
		assert.ok(calls.some((c) => c.who === key), key);
	}
	assert.ok(stsCalls.some((form) => form.get('RoleArn') === 'arn:aws:iam::1:role/a' && form.get('RoleSessionName') === 'wick'));
	const before = imds.seen.length;
	const machine = calls.filter((c) => c.who === 'AKIAMACHINE').length;
	await until('the next look', () => calls.filter((c) => c.who === 'AKIAMACHINE').length > machine + 2);
	assert.ok(imds.seen.length <= before + 1, 'keys are kept until they expire');
});
await test('EC2: errors of AWS, without a secret', async () => {
	await failing('wrong', /^EC2: http:\/\/127\.0\.0\.1:\d+: status 401 Unauthorized: AWS was not able to validate the provided access credentials$/);
	await failing('stranger', /status 403 Forbidden: not authorized to perform: sts:AssumeRole$/);
	await failing('nokeys', /the AWS profile last has no keys/);
	for (const [fault, pattern] of [
		[[503, xml('<Response><Errors><Error><Code>RequestLimitExceeded</Code><Message>Request limit exceeded.</Message></Error></Errors></Response>')], /status 503 Service Unavailable: Request limit exceeded\./],
		[[200, '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>'], /declarations are not supported/],
		[[200, '<DescribeInstancesResponse>'], /ends in the middle/],
		[[200, xml('<Response/>')], /expected a DescribeInstancesResponse/],
	]) {
		ec2Fault = fault;
		await failing('static', pattern);
		assert.equal((await targetsOf('static')).length, 3);
	}
	ec2Fault = null;
	await until('it recovers', async () => (await discoveryOf('static')).error === '');
	await noSecrets(server);
});
await server.stop();
writeFileSync(file('pod-token'), 'pod-token\n');
writeFileSync(file('aws-config'), '[profile x]\nregion = us-east-1\n[default]\nregion = eu-west-1\n');
Object.assign(process.env, { AWS_WEB_IDENTITY_TOKEN_FILE: file('pod-token'), AWS_ROLE_ARN: 'arn:aws:iam::1:role/pod' });
server = await start('web', finding('web', 'ec2', { endpoint }));
await test('EC2: the service account of a pod, and the region of the shared configuration', async () => {
	await found('web', 3);
	assert.ok(calls.some((c) => c.who === 'ASIAWEB'));
});
await server.stop();
delete process.env.AWS_WEB_IDENTITY_TOKEN_FILE;
Object.assign(process.env, { AWS_CONTAINER_CREDENTIALS_FULL_URI: `http://127.0.0.1:${imdsPort}/box`, AWS_CONTAINER_AUTHORIZATION_TOKEN: 'box-token' });
server = await start('box', finding('box', 'ec2', { endpoint }));
await test('EC2: the role of a container', async () => {
	await found('box', 3);
	assert.ok(calls.some((c) => c.who === 'ASIABOX'));
});
await server.stop();

// ---- GCE ----

const gce = { tokens: 0, seen: [], fault: null };
const gceInstance = (n, more = {}) => ({
	kind: 'compute#instance',
	id: `1844674407370955161${n}`,
	name: `vm-${n}`,
	zone: 'https://www.googleapis.com/compute/v1/projects/p/zones/europe-west1-b',
	machineType: 'https://www.googleapis.com/compute/v1/projects/p/zones/europe-west1-b/machineTypes/e2-small',
	status: 'RUNNING',
	networkInterfaces: [{ name: 'nic0', network: 'net', subnetwork: 'sub', networkIP: `10.2.0.${n}`, accessConfigs: [{ type: 'ONE_TO_ONE_NAT', natIP: `192.0.2.${n}` }] }],
	...more,
});
const gcePages = {
	'': { items: [gceInstance(1, { tags: { items: ['http', 'db'] }, labels: { 'team-name': 'shop' }, metadata: { items: [{ key: 'created-by', value: 'x' }, { key: 'none' }] } }), gceInstance(2)], nextPageToken: 'page two' },
	'page two': { items: [gceInstance(3), gceInstance(4, { networkInterfaces: [] })] },
};
handlers['compute.googleapis.com'] = (req, res) => {
	const url = new URL(req.url, 'https://x');
	gce.seen.push({ path: url.pathname, query: url.searchParams, token: req.headers.authorization });
	if (req.headers.authorization !== `Bearer gce-token-${gce.tokens}`)
		return res.writeHead(401, { 'content-type': 'application/json' }).end(JSON.stringify({ error: { code: 401, message: 'Request had invalid authentication credentials.', status: 'UNAUTHENTICATED' } }, null, 2));
	if (gce.fault) return res.writeHead(gce.fault[0]).end(gce.fault[1]);
	if (url.pathname !== '/compute/v1/projects/my-project/zones/europe-west1-b/instances') return res.writeHead(404).end('{}');
	res.end(JSON.stringify(gcePages[url.searchParams.get('pageToken') ?? ''], null, 2));
};
let lifetime = 2;
const metadataPort = await listen(
	http.createServer((req, res) => {
		const url = new URL(req.url, 'http://x');
		if (req.headers['metadata-flavor'] !== 'Google') return res.writeHead(403).end();
		if (url.pathname !== '/computeMetadata/v1/instance/service-accounts/default/token' || url.searchParams.get('scopes') !== 'https://www.googleapis.com/auth/compute.readonly')
			return res.writeHead(404).end();
		res.end(JSON.stringify({ access_token: `gce-token-${++gce.tokens}`, expires_in: lifetime, token_type: 'Bearer' }));
	}),
);
Object.assign(process.env, { GCE_METADATA_HOST: `127.0.0.1:${metadataPort}`, https_proxy: proxyUrl });
delete process.env.GOOGLE_APPLICATION_CREDENTIALS;
server = await start('gce', finding('gce', 'gce', { project: 'my-project', zone: 'europe-west1-b', filter: 'labels.team-name = shop', port: 6060 }));
await test('GCE: instances of all pages, by a token of the metadata service', async () => {
	const targets = await found('gce', 3);
	assert.deepEqual(await addressesOf('gce'), ['10.2.0.1:6060', '10.2.0.2:6060', '10.2.0.3:6060']);
	assert.deepEqual(meta(targets.find((t) => t.labels.instance === '10.2.0.1:6060')), {
		project: 'my-project',
		zone: 'https://www.googleapis.com/compute/v1/projects/p/zones/europe-west1-b',
		instance_id: '18446744073709551611',
		instance_name: 'vm-1',
		instance_status: 'RUNNING',
		machine_type: 'https://www.googleapis.com/compute/v1/projects/p/zones/europe-west1-b/machineTypes/e2-small',
		network: 'net',
		subnetwork: 'sub',
		private_ip: '10.2.0.1',
		public_ip: '192.0.2.1',
		interface_ipv4_nic0: '10.2.0.1',
		tags: ',http,db,',
		metadata_created_by: 'x',
		label_team_name: 'shop',
	});
	assert.ok(gce.seen.every((r) => r.query.get('filter') === 'labels.team-name = shop' && r.query.get('maxResults') === '500'));
	assert.ok(tunnels.includes('compute.googleapis.com:443'));
});
await test('GCE: the token is kept, renewed before it expires, and when it is refused', async () => {
	await until('some tokens', () => gce.tokens >= 3);
	assert.ok(gce.seen.length > 2 * gce.tokens, `${gce.seen.length} requests with ${gce.tokens} tokens`);
	lifetime = 3600;
	const now = gce.tokens;
	await until('one that lasts', () => gce.tokens > now);
	gce.tokens += 10; // the last one is not known any more
	await failing('gce', /status 401 Unauthorized: Request had invalid authentication credentials\.$/);
	await until('another', async () => (await discoveryOf('gce')).error === '');
	gce.fault = [403, JSON.stringify({ error: { code: 403, message: "Required 'compute.instances.list' permission" } }, null, 2)];
	await failing('gce', /status 403 Forbidden: Required 'compute\.instances\.list' permission$/);
	gce.fault = [200, '[]'];
	await failing('gce', /: expected an object$/);
	assert.equal((await targetsOf('gce')).length, 3);
	assert.ok(!JSON.stringify(await api()).includes('gce-token'));
});
await server.stop();
gce.fault = null;
const pair = generateKeyPairSync('rsa', { modulusLength: 2048, publicKeyEncoding: { type: 'spki', format: 'pem' }, privateKeyEncoding: { type: 'pkcs8', format: 'pem' } });
const forms = [];
handlers['oauth2.googleapis.com'] = async (req, res) => {
	const form = new URLSearchParams(await bodyOf(req));
	forms.push(form);
	if (form.get('grant_type') === 'refresh_token') {
		if (form.get('refresh_token') !== 'refresh-secret') return res.writeHead(400).end('{"error": "invalid_grant", "error_description": "refresh-secret"}');
	} else {
		const [head, claims, signature] = form.get('assertion').split('.');
		const of = (part) => JSON.parse(Buffer.from(part, 'base64url'));
		const good =
			form.get('grant_type') === 'urn:ietf:params:oauth:grant-type:jwt-bearer' &&
			createVerify('RSA-SHA256').update(`${head}.${claims}`).verify(pair.publicKey, Buffer.from(signature, 'base64url')) &&
			of(head).alg === 'RS256' &&
			of(head).kid === 'key-1' &&
			of(claims).iss === 'wick@p.iam.gserviceaccount.com' &&
			of(claims).aud === 'https://oauth2.googleapis.com/token' &&
			Math.abs(of(claims).exp - 3600 - Date.now() / 1000) < 300;
		if (!good) return res.writeHead(400).end('{"error": "invalid_grant"}');
	}
	res.end(JSON.stringify({ access_token: `gce-token-${gce.tokens}`, expires_in: 3599, token_type: 'Bearer' }));
};
process.env.GOOGLE_APPLICATION_CREDENTIALS = file('account.json');
const account = { type: 'service_account', client_email: 'wick@p.iam.gserviceaccount.com', private_key_id: 'key-1', private_key: pair.privateKey, token_uri: 'https://oauth2.googleapis.com/token' };
for (const [name, credentials, pattern] of [
	['account', account, null],
	['user', { type: 'authorized_user', client_id: 'c', client_secret: secret('client-secret'), refresh_token: secret('refresh-secret') }, null],
	['badkey', { ...account, private_key: 'no key' }, /the key of the service account cannot be used/],
	['baduser', { type: 'authorized_user', client_id: 'c', client_secret: 's', refresh_token: 'other-token' }, /^no token from https:\/\/oauth2\.googleapis\.com\/token: status 400: invalid_grant$/],
	['unknown', { type: 'external_account' }, /expected JSON of the type service_account or authorized_user/],
]) {
	writeFileSync(file('account.json'), JSON.stringify(credentials));
	server = await start(name, finding(name, 'gce', { project: 'my-project', zone: 'europe-west1-b' }));
	await test(`GCE: credentials of a file: ${name}`, async () => {
		await (pattern ? failing(name, pattern) : found(name, 3));
		await noSecrets(server);
	});
	await server.stop();
}
delete process.env.https_proxy;

// ---- Azure ----

const azure = { left: Infinity, limit: Infinity, odd: false, tokens: 0, seen: [], logins: [], elsewhere: 0, next: 'https://management.azure.com:443/subscriptions/sub/providers/Microsoft.Compute/virtualMachines?api-version=2022-11-01&%24skiptoken=2' };
const group = '/subscriptions/sub/resourceGroups/My-Group';
const nicId = (n) => `${group}/providers/Microsoft.Network/networkInterfaces/nic-${n}`;
const vm = (n, nics = [n], more = {}) => ({
	id: `${group}/providers/Microsoft.Compute/virtualMachines/vm-${n}`,
	name: `vm-${n}`,
	type: 'Microsoft.Compute/virtualMachines',
	location: 'westeurope',
	tags: { 'env.name': 'prod' },
	properties: {
		hardwareProfile: { vmSize: 'Standard_D2' },
		osProfile: { computerName: `host-${n}` },
		storageProfile: { osDisk: { osType: 'Linux' } },
		networkProfile: { networkInterfaces: nics.map((i) => ({ id: nicId(i) })) },
	},
	...more,
});
const nic = (ip, primary, publicIp) => ({ properties: { ...(primary === null ? {} : { primary }), ipConfigurations: [{ properties: { privateIPAddress: ip, ...(publicIp ? { publicIPAddress: { properties: { ipAddress: publicIp } } } : {}) } }] } });
const nics = { 'nic-1': nic('10.3.0.1', true, '192.0.2.31'), 'nic-2': nic('10.3.0.2', true), 'nic-3': nic('10.3.0.3', null), 'nic-5': nic('10.3.0.5', false), 'nic-6': nic('10.3.0.6', true) };
handlers['login.microsoftonline.com'] = async (req, res) => {
	const form = new URLSearchParams(await bodyOf(req));
	azure.logins.push({ path: req.url, form });
	const good = req.url === '/ten%20ant/oauth2/v2.0/token' || req.url === '/tenant/oauth2/v2.0/token';
	const known = form.get('client_secret') === 'azure-secret' || form.get('client_assertion') === 'federated-token';
	if (!good || !known || form.get('scope') !== 'https://management.azure.com/.default' || form.get('grant_type') !== 'client_credentials')
		return res.writeHead(401).end(JSON.stringify({ error: 'invalid_client', error_description: `AADSTS7000215: Invalid client secret ${form.get('client_secret')}` }));
	res.end(JSON.stringify({ token_type: 'Bearer', expires_in: 3599, access_token: `azure-token-${++azure.tokens}` }));
};
handlers['elsewhere.example'] = (req, res) => (azure.elsewhere++, res.end('{}'));
handlers['management.azure.com'] = (req, res) => {
	const url = new URL(req.url, 'https://management.azure.com');
	azure.seen.push(url.pathname);
	if (!/^Bearer azure-token-\d+$/.test(req.headers.authorization ?? '')) return res.writeHead(401).end('{"error":{"code":"AuthenticationFailed","message":"Authentication failed."}}');
	const send = (value) => res.end(JSON.stringify(value));
	const compute = url.pathname.replace(group, '').replace('/subscriptions/sub', '');
	if (/networkInterfaces/.test(url.pathname)) {
		if (azure.left-- <= 0) return res.writeHead(429).end('{"error":{"code":"TooManyRequests","message":"Too many requests."}}');
		assert.equal(url.searchParams.get('$expand'), 'IPConfigurations/PublicIPAddress');
		if (/virtualMachineScaleSets\/set\/virtualMachines\/7\/networkInterfaces\/nic-s$/.test(url.pathname)) return send(nic('10.3.1.7', true));
		const one = nics[url.pathname.split('/').pop()];
		return one && url.pathname.startsWith(`${group}/providers/Microsoft.Network/`) ? send(one) : res.writeHead(404).end('{"error":{"code":"ResourceNotFound","message":"gone"}}');
	}
	if (compute === '/providers/Microsoft.Compute/virtualMachines' && azure.odd) return send({ values: [] });
	if (compute === '/providers/Microsoft.Compute/virtualMachines') azure.left = azure.limit;
	if (compute === '/providers/Microsoft.Compute/virtualMachines')
		return url.searchParams.get('$skiptoken') ? send({ value: [vm(4), vm(5, [5, 6])] }) : send({ value: [vm(1), vm(2), vm(3)], nextLink: azure.next });
	if (compute === '/providers/Microsoft.Compute/virtualMachineScaleSets') return send({ value: [{ id: `${group}/providers/Microsoft.Compute/virtualMachineScaleSets/set`, name: 'set' }] });
	if (compute === '/providers/Microsoft.Compute/virtualMachineScaleSets/set/virtualMachines')
		return send({ value: [vm('s', ['s'], { instanceId: '7', id: `${group}/providers/Microsoft.Compute/virtualMachineScaleSets/set/virtualMachines/7`, name: 'set_7' })] });
	res.writeHead(404).end('{}');
};
const oauth = { subscription_id: 'sub', tenant_id: 'ten ant', client_id: 'client', client_secret: secret('azure-secret'), proxy_url: proxyUrl };
server = await start(
	'azure',
	finding('azure', 'azure', { ...oauth, port: 6060 }) +
		finding('group', 'azure', { ...oauth, resource_group: 'My-Group' }) +
		finding('denied', 'azure', { ...oauth, client_secret: secret('mistyped-secret') }),
);
await test('Azure: machines of all pages and scale sets, by their interfaces', async () => {
	const targets = await found('azure', 4);
	assert.deepEqual(await addressesOf('azure'), ['10.3.0.1:6060', '10.3.0.2:6060', '10.3.0.6:6060', '10.3.1.7:6060']); // 3 is deallocated, 4 is gone
	assert.deepEqual(meta(targets.find((t) => t.labels.instance === '10.3.0.1:6060')), {
		subscription_id: 'sub',
		tenant_id: 'ten ant',
		machine_id: `${group}/providers/Microsoft.Compute/virtualMachines/vm-1`,
		machine_name: 'vm-1',
		machine_computer_name: 'host-1',
		machine_os_type: 'Linux',
		machine_location: 'westeurope',
		machine_resource_group: 'My-Group',
		machine_size: 'Standard_D2',
		machine_tag_env_name: 'prod',
		machine_private_ip: '10.3.0.1',
		machine_public_ip: '192.0.2.31',
	});
	assert.equal(targets.find((t) => t.labels.instance === '10.3.1.7:6060').labels.m_machine_scale_set, 'set');
	await found('group', 4);
	assert.ok(azure.seen.includes(`${group}/providers/Microsoft.Compute/virtualMachines`));
});
await test('Azure: interfaces are remembered, the token is kept', async () => {
	const lists = () => azure.seen.filter((path) => path === '/subscriptions/sub/providers/Microsoft.Compute/virtualMachines').length;
	const interfaces = () => azure.seen.filter((path) => path.endsWith('/nic-1')).length;
	const before = lists();
	await until('some looks', () => lists() > before + 4);
	assert.ok(interfaces() <= 2 + Math.ceil(lists() / 5), `${interfaces()} of ${lists()}`);
	assert.equal(azure.tokens, 2); // two discoveries
});
await test('Azure: a link to another host is not followed, and no token goes there', async () => {
	azure.next = 'https://elsewhere.example/steal';
	await failing('azure', /the link to the next page leads to another host/);
	azure.next = 'https://management.azure.com.elsewhere.example/steal';
	await failing('azure', /the link to the next page leads to another host/);
	assert.equal(azure.elsewhere, 0);
	azure.odd = true;
	await failing('azure', /: expected a list$/);
	azure.odd = false;
	assert.equal((await targetsOf('azure')).length, 4);
});
await test('Azure: a refused secret is named by its code alone', async () => {
	await failing('denied', /^no token from https:\/\/login\.microsoftonline\.com\/ten%20ant\/oauth2\/v2\.0\/token: status 401: invalid_client$/);
	secrets.push('azure-token-1');
	await noSecrets(server);
});
await server.stop();
azure.next = '';
const identity = [];
const identityPort = await listen(
	http.createServer((req, res) => {
		const url = new URL(req.url, 'http://x');
		identity.push(url.searchParams);
		if (req.headers.metadata !== 'true' || url.pathname !== '/metadata/identity/oauth2/token' || url.searchParams.get('resource') !== 'https://management.azure.com') return res.writeHead(400).end('{"error":"invalid_request"}');
		res.end(JSON.stringify({ access_token: `azure-token-${++azure.tokens}`, expires_in: '3599', token_type: 'Bearer' }));
	}),
);
writeFileSync(file('federated'), 'federated-token');
Object.assign(process.env, { AZURE_POD_IDENTITY_AUTHORITY_HOST: `http://127.0.0.1:${identityPort}`, AZURE_FEDERATED_TOKEN_FILE: file('federated'), AZURE_CLIENT_ID: 'workload', AZURE_TENANT_ID: 'tenant' });
const how = (authentication_method, more = {}) => ({ subscription_id: 'sub', proxy_url: proxyUrl, authentication_method, ...more });
server = await start('identity', finding('machine', 'azure', how('ManagedIdentity', { client_id: 'mine' })) + finding('workload', 'azure', how('WorkloadIdentity')) + finding('sdk', 'azure', how('SDK')));
await test('Azure: the identity of the machine, and of a workload', async () => {
	for (const job of ['machine', 'workload', 'sdk']) await found(job, 3);
	assert.equal(identity[0].get('client_id'), 'mine');
	assert.ok(azure.logins.some((l) => l.path === '/tenant/oauth2/v2.0/token' && l.form.get('client_id') === 'workload' && l.form.get('client_assertion_type') === 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer'));
});
await server.stop();
azure.limit = 1;
server = await start('limited', finding('limited', 'azure', how('ManagedIdentity')));
await test('Azure: looks that fail for too many requests come further each time', async () => {
	await found('limited', 3);
});
await server.stop();
finish();
