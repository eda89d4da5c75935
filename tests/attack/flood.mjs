// SPDX-License-Identifier: Apache-2.0
// Clients that upload, and query, as much as they can: others get their turn, health is answered at once, and what was acknowledged is there, once.
import assert from 'node:assert/strict';
import http2 from 'node:http2';
import { differentStacks, startServer, temporaryDirectory, test, finish, pprofProfile } from '../harness.mjs';
import { SERVER, address, ask, attack, makeNetwork, metricOf, sleep } from './attack.mjs';

makeNetwork();
const server = await startServer(`${temporaryDirectory()}/data`, ['--listen', '0.0.0.0:0', '--insecure']);
const at = { host: SERVER, port: server.port };
let serial = 0n,
	mine = 0;
async function bystander() {
	const body = pprofProfile([[['leaf', 'main'], 1, { side: 'mine' }]], { timeNs: BigInt(Date.now()) * 1000000n + serial++ });
	const sent = await ask({ ...at, method: 'POST', path: '/api/v1/ingest?name=process_cpu', localAddress: address(1) }, body);
	if (sent.status !== 200) return `an upload: ${sent.status} ${sent.text}`;
	mine++;
	const health = await ask({ ...at, path: '/healthz', localAddress: address(2) });
	return health.status === 200 ? undefined : `health: ${health.status}`;
}
const heavy = Buffer.from(differentStacks(7, 20000, 12).join('\n'));
const metrics = async () => (await ask({ ...at, path: '/metrics', localAddress: address(3) })).text;

await attack('uploads of one client, 1,600 at a time', server, bystander, 640, async () => {
	const sessions = Array.from({ length: 16 }, () => http2.connect(`http://${SERVER}:${server.port}`, { localAddress: address(2000) }));
	for (const session of sessions) session.on('error', () => {});
	let refused = 0,
		stored = 0;
	const upload = (session, i) =>
		new Promise((resolve) => {
			const body = i % 100 ? pprofProfile([[['leaf', `f${i}`, 'main'], 1, { side: 'flood' }]], { timeNs: BigInt(Date.now()) * 1000000n + serial++ }) : heavy;
			const stream = session.request({ ':method': 'POST', ':path': '/api/v1/ingest?name=process_cpu&label=side%3Dflood', 'content-length': body.length });
			stream.on('response', (headers) => {
				stored += headers[':status'] === 200;
				refused += headers[':status'] === 503;
			});
			stream.on('error', () => {});
			stream.on('close', resolve);
			stream.resume();
			stream.end(body);
		});
	await Promise.all(sessions.flatMap((session, n) => Array.from({ length: 100 }, (_, i) => upload(session, n * 100 + i))));
	for (const session of sessions) session.destroy();
	assert.ok(stored > 100, `${stored} stored`);
	console.log(`   ${stored} stored, ${refused} refused`);
});
await attack('uploads and queries of one client, 16 heavy ones of each at a time', server, bystander, 640, async () => {
	let going = true;
	const loop = async (request, body) => {
		while (going) await ask({ ...at, localAddress: address(2000), ...request }, body);
	};
	const all = [];
	for (let i = 0; i < 16; i++) {
		all.push(loop({ method: 'POST', path: `/api/v1/ingest?format=folded&name=process_cpu&label=side%3Dflood${i}` }, heavy));
		all.push(loop({ path: '/api/v1/query?query=process_cpu&from=now-1h&to=now%2B1h&format=flame&max_nodes=100000' }));
	}
	await sleep(3000);
	going = false;
	await Promise.all(all);
});
await test('what was acknowledged is there, once', async () => {
	const sum = await ask({
		...at,
		path: `/api/v1/query?query=${encodeURIComponent('process_cpu{side="mine"}')}&from=now-1h&to=now%2B1h`,
		localAddress: address(3),
	});
	assert.equal(metricOf(await metrics(), 'wick_store_duplicates_total'), 0);
	const answer = JSON.parse(sum.text);
	assert.deepEqual([answer.partial, answer.flame.total], [false, mine]);
	assert.equal(await server.stop(), 0, server.log());
});
finish();
