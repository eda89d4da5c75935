// SPDX-License-Identifier: Apache-2.0
// hosts.mjs WHAT STEPS FILE...: the exchanges of client/examples/pipeline, by the true time that each marker carries. Prints what is wrong.
//
//   apart ALPHA BETA   the two recordings: beta's times are 5 s ahead and 50 ppm fast, or the rest would prove nothing
//   merged FILE        every send is before its receive, and what lies between the two is right within the bound that the file states;
//                      exit status 3: it is, but that bound is too wide to say much, because the machine was busy
//   viewer FILE        the command line of Firefox Profiler sees the threads of both hosts
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { threadList, withProfile } from '../profiler.mjs';

const [, , what, steps, ...paths] = process.argv;
const exchanges = 2 * Number(steps);
// The markers' clock is read within a microsecond before the span begins.
const READING_NS = 1000;
const BUSY = 3;

// {side, host, flow, ns: as recorded, since `origin` (ms of the wall clock), truth: ns of this machine's CLOCK_MONOTONIC}
function marksOf(path, origin) {
	const profile = JSON.parse(readFileSync(path));
	const base = (profile.meta.startTime - (origin ?? profile.meta.startTime)) * 1e6;
	const found = [];
	for (const thread of profile.threads) {
		const { data, startTime, name } = thread.markers,
			strings = thread.stringArray ?? profile.shared.stringArray;
		for (let i = 0; i < data.length; i++) {
			const side = strings[name[i]];
			if (side !== 'send' && side !== 'receive') continue;
			const { flow, flowEnds, clock } = data[i];
			assert.equal(side === 'receive', flowEnds !== undefined, 'a receive ends its flow, a send does not');
			found.push({ side, flow: strings[flow ?? flowEnds], host: String(thread.pid).split(':')[0], ns: base + startTime[i] * 1e6, truth: clock });
		}
	}
	return { profile, found };
}

function pairsOf(found) {
	const sends = new Map(found.filter((mark) => mark.side === 'send').map((mark) => [mark.flow, mark]));
	const pairs = found.filter((mark) => mark.side === 'receive').map((receive) => ({ send: sends.get(receive.flow), receive }));
	assert.equal(sends.size, exchanges, 'each send has a flow of its own');
	assert.equal(pairs.length, exchanges);
	assert.equal(new Set(pairs.map((pair) => pair.receive.flow)).size, exchanges);
	for (const { send, receive } of pairs) {
		assert.ok(send, 'each receive has a send');
		assert.ok(send.truth < receive.truth, 'the truth is no truth');
	}
	return pairs;
}
const errorOf = ({ send, receive }) => receive.ns - send.ns - (receive.truth - send.truth);

if (what === 'apart') {
	const alpha = marksOf(paths[0]),
		beta = marksOf(paths[1], alpha.profile.meta.startTime);
	const isBeta = new Set(beta.found);
	// How far beta's clock is ahead, at the time of each exchange; least squares.
	const points = pairsOf([...alpha.found, ...beta.found]).map((pair) => ({
		at: pair.receive.truth,
		ahead: isBeta.has(pair.receive) ? errorOf(pair) : -errorOf(pair),
	}));
	const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
	const at = mean(points.map((point) => point.at)),
		ahead = mean(points.map((point) => point.ahead));
	const slope = mean(points.map((point) => (point.at - at) * (point.ahead - ahead))) / mean(points.map((point) => (point.at - at) ** 2));
	console.log(`beta is ${(ahead / 1e9).toFixed(6)} s ahead and ${(slope * 1e6).toFixed(2)} ppm fast`);
	assert.ok(Math.abs(ahead - 5e9) < 50e6 && Math.abs(slope - 50e-6) < 5e-6);
} else if (what === 'merged') {
	const { profile, found } = marksOf(paths[0]);
	const pairs = pairsOf(found);
	const hosts = Object.fromEntries(profile.meta.wick.hosts.map((host) => [host.name, host]));
	assert.deepEqual(Object.keys(hosts).sort(), ['alpha', 'beta']);
	const { boundNs, offsetNs, skew, reference, isAligned } = hosts.beta;
	const errors = pairs.map((pair) => Math.abs(errorOf(pair))),
		worst = errors.reduce((a, b) => Math.max(a, b), 0);
	console.log(
		`offset ${offsetNs} ns, skew ${(skew * 1e6).toFixed(3)} ppm, bound ${boundNs} ns, largest error ${worst.toFixed(0)} ns, of ${pairs.length} exchanges`,
	);
	const waits = profile.threads.flatMap(({ markers: { name, phase } }) => phase.filter((_, i) => profile.shared.stringArray[name[i]] === 'run waits'));
	assert.ok(waits.length === 2 * exchanges && waits.every((phase) => phase === 1), 'each wait of a run is one span, from thread to thread');
	assert.equal(reference, 'alpha');
	assert.ok(isAligned);
	assert.ok(boundNs > 0);
	for (const pair of pairs) {
		assert.notEqual(pair.send.host, pair.receive.host);
		assert.ok(pair.send.ns <= pair.receive.ns, `flow ${pair.send.flow}: received ${pair.send.ns - pair.receive.ns} ns before it was sent`);
		assert.ok(Math.abs(errorOf(pair)) <= boundNs + READING_NS, `flow ${pair.send.flow}: off by ${errorOf(pair)} ns`);
	}
	// Each message took long where others wanted the CPU all the time; then the bound says so, and is right, but proves little.
	if (boundNs > 1e6 || Math.abs(skew - 50e-6) > 5e-6) process.exit(BUSY);
} else {
	await withProfile(paths[0], async () => {
		const threads = await threadList();
		for (const [host, node] of [
			['alpha', 0],
			['beta', 1],
		])
			for (const name of ['source', 'operators', 'send', 'receive', 'merge']) {
				const thread = threads.find((thread) => thread.name === `${name} of node ${node}`);
				assert.ok(thread, `${name} of node ${node}`);
				assert.ok(String(thread.pid).startsWith(`${host}:`), JSON.stringify(thread));
				assert.ok(thread.markerCount > 0, JSON.stringify(thread));
			}
	});
}
