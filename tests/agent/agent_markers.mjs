// SPDX-License-Identifier: Apache-2.0
// agent_markers.mjs WHAT ...: looks at markers that an agent sends all the time. Prints what is wrong.
import assert from 'node:assert/strict';
import { readFileSync, readdirSync, readlinkSync, openSync, closeSync, readSync, writeFileSync } from 'node:fs';
import { threadList, withProfile } from '../profiler.mjs';

const [, , what, ...rest] = process.argv;
async function get(url, path, status = 200) {
	const response = await fetch(url + path);
	assert.equal(response.status, status, `${path}: ${await response.clone().text()}`);
	return response.json();
}
async function eventually(question) {
	for (let i = 0; i < 1200; i++) {
		const response = await question();
		if (response) return response;
		await new Promise((resolve) => setTimeout(resolve, 100));
	}
	assert.fail('it never came');
}
const markers = async (url, query) => (await get(url, `/api/v1/markers?from=now-1h&to=now&${query}`)).markers;
// What a process shares of its markers (wickmark_abi.h): null until it does, else its first `length` bytes.
function shared(pid, length) {
	const fd = readdirSync(`/proc/${pid}/fd`).find((name) => readlinkSync(`/proc/${pid}/fd/${name}`) === '/memfd:wickmark (deleted)');
	if (!fd) return null;
	const bytes = Buffer.alloc(length),
		file = openSync(`/proc/${pid}/fd/${fd}`, 'r');
	readSync(file, bytes, 0, length, 0);
	closeSync(file);
	return bytes;
}
// From when to when a process made markers in a file, in ms.
function rangeOf(path, pid) {
	const profile = JSON.parse(readFileSync(path));
	const times = profile.threads
		.filter((thread) => String(thread.pid).split(':').at(-1) === pid)
		.flatMap((thread) =>
			thread.markers.name.flatMap((name, i) => (profile.shared.stringArray[name] === 'inner' ? [profile.meta.startTime + thread.markers.endTime[i]] : [])),
		);
	assert.ok(times.length > 50, `${times.length} markers`);
	return [times.reduce((a, b) => Math.min(a, b)), times.reduce((a, b) => Math.max(a, b)), times.length];
}

if (what === 'asking') {
	await eventually(async () => (await get(rest[0], '/api/v1/agents')).agents.length === 1);
} else if (what === 'on') {
	// The switch, header.enabled.
	const [pid] = rest;
	await eventually(() => shared(pid, 68)?.readUInt32LE(64) === 1);
} else if (what === 'taken') {
	// What is in the first rings now is taken: head and tail of the threads, behind the header.
	const [pid, threads] = rest,
		rings = () => {
			const bytes = shared(pid, 512 + 64 * 192);
			return Array.from({ length: 64 }, (_, i) => ({ head: bytes.readBigUInt64LE(512 + i * 192 + 88), tail: bytes.readBigUInt64LE(512 + i * 192 + 128) }));
		},
		now = rings();
	assert.ok(now.filter(({ head }) => head > 50n).length >= Number(threads), `${now.map(({ head }) => head)} markers`);
	await eventually(() => rings().every(({ tail }, i) => tail >= now[i].head));
} else if (what === 'some') {
	const [url, host, name, count] = rest;
	await eventually(async () => (await markers(url, `host=${host}&name=${name}&limit=${count}`)).length === Number(count));
} else if (what === 'early') {
	// A window that is sent because it is full is shorter than its minute.
	// On a busy machine the first may not have been full in time; of those that are not full none is.
	const [url, name] = rest;
	await eventually(async () => {
		const host = (await get(url, '/api/v1/recordings/continuous')).hosts.find((h) => h.name === name);
		return host && (host.to_ms - host.from_ms) / host.windows < 55000;
	});
} else if (what === 'fields') {
	const [url, host] = rest,
		[step] = await markers(url, `host=${host}&name=named%20step`);
	assert.equal(step.process, 'markers');
	assert.deepEqual(step.fields, { rows: -5, peer: 'nëighbour', share: 0.25, took: 1500000, size: 4096, ratio: 1.5 });
	const [inner] = await markers(url, `host=${host}&name=inner&limit=1`);
	assert.ok(step.start_ns <= inner.start_ns && inner.end_ns <= step.end_ns);
	// Each once, also those that last long: one with two ends on two threads, one of wickmark_long_begin.
	assert.equal((await markers(url, `host=${host}&name=request`)).length, 1);
	assert.equal((await markers(url, `host=${host}&name=job`)).length, 1);
} else if (what === 'file') {
	const [path, name] = rest,
		profile = JSON.parse(readFileSync(path));
	assert.ok(profile.threads.some((thread) => thread.markers.name.some((n) => profile.shared.stringArray[n] === name)));
} else if (what === 'around') {
	const [url, host, pid, path] = rest,
		[from, to] = rangeOf(path, pid);
	const all = (await markers(url, `host=${host}&name=inner&limit=100000`)).filter((m) => String(m.pid) === pid).map((m) => m.end_ns / 1e6);
	const before = all.filter((t) => t < from),
		between = all.filter((t) => t > from + 200 && t < to - 200),
		after = all.filter((t) => t > to);
	assert.ok(before.length > 50 && after.length > 50, `${before.length} before, ${after.length} after`);
	assert.equal(between.length, 0);
} else if (what === 'profile') {
	const [url, pid, path] = rest;
	const response = await fetch(`${url}/api/v1/recordings/continuous/profile?from=now-1h&to=now`);
	assert.equal(response.status, 200, `${response.status}`);
	writeFileSync(path, Buffer.from(await response.arrayBuffer()));
	const [, , count] = rangeOf(path, pid);
	const shown = (await markers(url, 'name=inner&limit=100000')).filter((m) => String(m.pid) === pid).length;
	assert.equal(count, shown);
	await withProfile(path, async () => {
		const threads = await threadList();
		assert.ok(
			threads.some((thread) => thread.name.includes('worker number 1 of this program')),
			JSON.stringify(threads.slice(0, 9)),
		);
	});
	const { threads } = JSON.parse(readFileSync(path));
	const names = threads.filter((t) => String(t.pid).split(':').at(-1) === pid).map((t) => t.name);
	assert.equal(new Set(names).size, names.length, `a track for each thread, and not for each window: ${names}`);
} else if (what === 'newer') {
	const [url, host, pid, path] = rest,
		[, to] = rangeOf(path, pid);
	await eventually(
		async () => (await markers(url, `host=${host}&name=inner&limit=100000`)).filter((m) => String(m.pid) === pid && m.end_ns / 1e6 > to + 500).length > 50,
	);
} else if (what === 'metrics') {
	const [url] = rest;
	await eventually(async () => {
		const text = await (await fetch(`${url}/metrics`)).text();
		const value = (name) => Number(text.match(new RegExp(`^${name} (\\d+)$`, 'm'))?.[1] ?? -1);
		return value('wick_agent_markers_total') > 1000 && value('wick_agent_marker_batches_sent_total') > 0 && value('wick_marker_batches') > 0;
	});
} else {
	assert.fail(`unknown: ${what}`);
}
