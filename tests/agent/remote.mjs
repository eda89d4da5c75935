// SPDX-License-Identifier: Apache-2.0
// remote.mjs WHAT ...: looks at recordings of several hosts, on the server and in files. Prints what is wrong.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { ask, threadList, withProfile } from '../profiler.mjs';

const [, , what, ...rest] = process.argv;
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
async function get(url, tokenFile, path, headers = {}) {
	const response = await fetch(url + path, { headers: { authorization: `Bearer ${readFileSync(tokenFile, 'utf8').trim()}`, ...headers } });
	assert.equal(response.status, 200, `${path}: ${await response.clone().text()}`);
	return response.json();
}
// Waits until the question has a response that is true.
async function eventually(question) {
	for (let i = 0; i < 1200; i++) {
		const response = await question();
		if (response) return response;
		await sleep(100);
	}
	assert.fail('it never came');
}
// The threads of a host in a file: pids are "HOST:PID" where there are several hosts.
function threadsOf(path, host) {
	const profile = JSON.parse(readFileSync(path));
	return profile.threads.filter((thread) => String(thread.pid).startsWith(`${host}:`)).map((thread) => ({ ...thread, start: profile.meta.startTime }));
}
// When a thread ran, in ms of its own profile.
function times(thread) {
	const { time, timeDeltas } = thread.samples;
	if (time) return time;
	let at = 0;
	return timeDeltas.map((delta) => (at += delta));
}

if (what === 'asking') {
	const [url, token, count] = rest;
	await eventually(async () => {
		const { agents } = await get(url, token, '/api/v1/agents');
		return agents.length === Number(count) && agents.every((agent) => agent.clock);
	});
} else if (what === 'health') {
	// From the second report on there are counts: 10 s after the first, which is of the start.
	const [url, token, ...hosts] = rest,
		now = Date.now();
	await eventually(async () => {
		const healths = (await get(url, token, '/api/v1/agents')).agents.filter((agent) => hosts.includes(agent.host)).map((agent) => agent.health);
		return healths.length === hosts.length && healths.every((health) => health && health.samples > 0 && health.walks.complete > 0 && health.sent_profiles > 0);
	});
	const { agents, silent } = await get(url, token, '/api/v1/agents');
	assert.deepEqual(silent, []);
	for (const { host, health } of agents) {
		assert.ok(health.started_ms <= now && health.started_ms > now - 600000, `${host} started at ${health.started_ms}`);
		assert.ok(health.cpus > 0 && health.processes > 0 && health.cpu_ms > 0 && health.resident_peak_bytes >= health.resident_bytes, JSON.stringify(health));
		assert.equal(health.frequency_asked_hz, 19);
		assert.ok(JSON.stringify(health).length < 2048);
	}
} else if (what === 'state' || what === 'gone') {
	const [url, token, ...hosts] = rest,
		state = what === 'gone' ? '' : hosts.pop();
	if (what === 'gone') {
		await eventually(async () => (await get(url, token, '/api/v1/agents')).agents.every((agent) => !hosts.includes(agent.host) || agent.recording === ''));
		await eventually(async () => (await get(url, token, '/api/v1/recordings')).recordings.every((recording) => recording.state === 'over'));
	} else {
		await eventually(async () =>
			(await get(url, token, '/api/v1/recordings')).recordings.some((recording) =>
				hosts.every((host) => recording.hosts.some((h) => h.name === host && h.state === state)),
			),
		);
	}
} else if (what === 'stored') {
	const [url, token, tenant, host] = rest;
	await eventually(async () =>
		JSON.stringify(
			await get(url, token, `/api/v1/label-values?label=host_name&from=${Date.now() - 3600000}&to=${Date.now() + 60000}`, { 'x-scope-orgid': tenant }),
		).includes(`"${host}"`),
	);
} else if (what === 'reason') {
	const [url, token, host, reason] = rest;
	await eventually(async () =>
		(await get(url, token, '/api/v1/recordings')).recordings.some((recording) =>
			recording.hosts.some((h) => h.name === host && h.state === 'failed' && h.why.includes(reason)),
		),
	);
} else if (what === 'begun') {
	// By all of them, and so long ago: who begins late does so within that.
	const [url, token, ms, ...hosts] = rest;
	await eventually(async () =>
		(await get(url, token, '/api/v1/recordings')).recordings.some(
			(recording) => Date.now() > recording.start_ms + Number(ms) && hosts.every((host) => recording.hosts.some((h) => h.name === host && h.state === 'recording')),
		),
	);
} else if (what === 'hosts') {
	const [path, ...hosts] = rest;
	await withProfile(path, async () => {
		const threads = await threadList();
		for (const host of hosts)
			assert.ok(
				threads.some((thread) => String(thread.pid).startsWith(`${host}:`)),
				`${host}: ${JSON.stringify(threads.slice(0, 5))}`,
			);
		assert.ok((await ask('profile', 'info')).threadCount >= 2 * hosts.length || threads.length >= 2 * hosts.length);
	});
	const { meta } = JSON.parse(readFileSync(path));
	assert.match(JSON.stringify(meta.extra), /pings/);
} else if (what === 'together') {
	const [path, name, ...hosts] = rest;
	const spans = hosts.map((host) => {
		const all = threadsOf(path, host)
			.filter((thread) => `${thread.name} ${thread.processName}`.includes(name))
			.flatMap(times);
		assert.ok(all.length > 20, `${host}: ${all.length} samples of ${name}`);
		return { host, from: all.reduce((a, b) => Math.min(a, b)), to: all.reduce((a, b) => Math.max(a, b)) };
	});
	// They all recorded the same time, but for what a busy machine delays.
	const both = Math.min(...spans.map(({ to }) => to)) - Math.max(...spans.map(({ from }) => from));
	for (const { from, to } of spans) assert.ok(both > (to - from) / 2, JSON.stringify(spans));
} else {
	assert.fail(`unknown: ${what}`);
}
