// SPDX-License-Identifier: Apache-2.0
// The figures of bench/attack.sh: for each flood, of ten seconds, the time that /healthz takes from another address, once every 20 ms, on a connection that is kept
// and on new ones; and the memory that the server grows by.
import { fork } from 'node:child_process';
import http from 'node:http';
import https from 'node:https';
import { readFileSync, writeFileSync } from 'node:fs';
import http2 from 'node:http2';
import tls from 'node:tls';
import { differentStacks, forgetPeak, memoryOf, startServer, temporaryDirectory } from '../tests/harness.mjs';
import { MIB, SERVER, address, ask, crowd, makeCertificate, makeNetwork, sleep } from '../tests/attack/attack.mjs';

const SECONDS = 10,
	heavy = () => Buffer.from(differentStacks(7, 20000, 12).join('\n'));
// Who floods is another process: this one measures.
const floods = {
	'16 heavy uploads and 16 heavy queries at a time': ({ at }, going) => {
		const body = heavy(),
			loop = async (request, bytes) => {
				while (going()) await ask({ ...at, localAddress: address(2000), ...request }, bytes);
			};
		for (let i = 0; i < 16; i++) {
			loop({ method: 'POST', path: `/api/v1/ingest?format=folded&name=process_cpu&label=side%3Dflood${i}` }, body);
			loop({ path: '/api/v1/query?query=process_cpu&from=now-1h&to=now%2B1h&format=flame&max_nodes=100000' });
		}
	},
	'connections of one address that say nothing': async ({ at }, going) => {
		while (going()) (await crowd(500, { ...at, localAddress: address(2000) })).forEach((socket) => socket.destroy());
	},
	'streams of HTTP/2 that are reset': async ({ at }, going) => {
		while (going()) {
			const session = http2.connect(`http://${at.host}:${at.port}`, { localAddress: address(2000) });
			session.on('error', () => {});
			for (let i = 0; i < 500; i++) {
				const stream = session.request({ ':path': '/' });
				stream.on('error', () => {});
				stream.close(http2.constants.NGHTTP2_CANCEL);
			}
			await sleep(5);
			session.destroy();
		}
	},
	'TLS handshakes, RSA': ({ at }, going) => {
		const one = () =>
			new Promise((resolve) => {
				const socket = tls.connect({ ...at, rejectUnauthorized: false, localAddress: address(2000) }, () => socket.destroy());
				socket.on('error', () => {});
				socket.on('close', resolve);
			});
		for (let i = 0; i < 50; i++)
			(async () => {
				while (going()) await one();
			})();
	},
};
if (process.env.WICK_FLOOD) {
	const { name, at } = JSON.parse(process.env.WICK_FLOOD);
	floods[name]({ at }, () => true);
} else {
	const directory = temporaryDirectory();
	makeNetwork();
	makeCertificate(directory);
	writeFileSync(`${directory}/tls.yaml`, `tls: {cert_file: ${directory}/cert.pem, key_file: ${directory}/key.pem}\n`);
	const percentile = (times, part) => times.sort((a, b) => a - b)[Math.floor(times.length * part)].toFixed(1);
	for (const name of [undefined, ...Object.keys(floods)].filter((n) => !process.argv[2] || n?.includes(process.argv[2]))) {
		const secure = name?.startsWith('TLS'),
			server = await startServer(`${directory}/data-${Math.random()}`, [
				'--listen',
				'0.0.0.0:0',
				'--insecure',
				...(secure ? ['--config', `${directory}/tls.yaml`] : []),
			]),
			at = { host: SERVER, port: server.port },
			module = secure ? https : http,
			kept = new module.Agent({ keepAlive: true, maxSockets: 1 }),
			flood = name && fork(process.argv[1], { env: { ...process.env, WICK_FLOOD: JSON.stringify({ name, at }) } });
		const health = (agent) =>
			new Promise((resolve) => {
				const began = performance.now();
				const call = module.get(
					{ ...at, path: '/healthz', agent, localAddress: address(1), ca: secure ? readFileSync(`${directory}/cert.pem`) : undefined },
					(response) => {
						response.resume();
						response.on('end', () => resolve(response.statusCode === 200 ? performance.now() - began : Infinity));
					},
				);
				call.on('error', () => resolve(Infinity));
			});
		await sleep(1000);
		forgetPeak(server.child.pid);
		const resident = memoryOf(server.child.pid, 'VmRSS'),
			old = [],
			fresh = [];
		for (const end = performance.now() + SECONDS * 1000; performance.now() < end; await sleep(20)) {
			old.push(await health(kept));
			fresh.push(await health(false));
		}
		flood?.kill('SIGKILL');
		const failed = [...old, ...fresh].filter((ms) => ms === Infinity).length;
		console.log(
			`${(name ?? 'nothing').padEnd(50)} healthz, kept connection: p50 ${percentile(old, 0.5)} ms, p99 ${percentile(old, 0.99)}, most ${percentile(old, 0.9999)}; new ones: ${percentile(fresh, 0.5)}, ${percentile(fresh, 0.99)}, ${percentile(fresh, 0.9999)}; ${failed} failed; ${((memoryOf(server.child.pid, 'VmHWM') - resident) / MIB).toFixed(0)} MiB more`,
		);
		kept.destroy();
		await server.stop('SIGKILL');
	}
	process.exit(0);
}
