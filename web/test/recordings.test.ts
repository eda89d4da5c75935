// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { formatState, parseState } from '../src/state/page';
import { hostLamp, hostsText, hostsToShow, outcomeOf, profileUrl, targetsText, type Recording } from '../src/status/recordings';

const START = 1_700_000_000_000;
const recording = (states: string[], state: Recording['state'] = 'over'): Recording => ({
	id: 'c0ffee',
	state,
	created_ms: START - 8000,
	start_ms: START,
	seconds: 10,
	frequency_hz: 99,
	markers: true,
	targets: [],
	bytes: 0,
	hosts: states.map((s, i) => ({ name: `h${i}`, state: s, why: '', bytes: 0 })),
});

test('what has become of a recording', () => {
	const title = (states: string[]) => outcomeOf(recording(states), START + 60_000).title;
	assert.equal(title(['done', 'done']), 'complete');
	assert.equal(title(['done', 'failed', 'silent']), 'partial');
	assert.equal(title(['failed', 'silent']), 'failed');
	assert.equal(title(['cancelled']), 'failed');
	assert.equal(title([]), 'failed');
	assert.equal(outcomeOf(recording(['done', 'silent', 'done']), START).done, 2);
});

test('what it is at while it runs', () => {
	const running = recording(['recording', 'done'], 'running');
	const titles = [-1, 0, 9999, 10_000].map((at) => outcomeOf(running, START + at).title);
	assert.deepEqual(titles, ['waiting', 'recording', 'recording', 'sending']);
	assert.equal(outcomeOf(running, START).done, 1, 'hosts that are ready can be looked at');
});

test('hosts that are missing come first, the others in their order', () => {
	const names = (states: string[], running: boolean) => hostsToShow(recording(states).hosts, running).map(({ name }) => name);
	assert.deepEqual(names(['done', 'failed', 'done', 'silent'], false), ['h1', 'h3', 'h0', 'h2']);
	assert.deepEqual(names(['done', 'recording', 'failed', 'taken'], true), ['h2', 'h1', 'h3', 'h0']);
});

test('hosts and targets in words', () => {
	assert.equal(hostsText(recording(['done']).hosts), '1 of 1 host');
	assert.equal(hostsText(recording(['done', 'silent', 'failed', 'failed', 'done']).hosts), '2 of 5 hosts, 2 failed, 1 not responding');
	assert.equal(hostsText(recording(['waiting', 'recording']).hosts), '0 of 2 hosts');
	assert.equal(targetsText({ targets: [] }), 'all processes');
	const targets = [
		{ kind: 'unit', name: 'nginx' },
		{ kind: 'cgroup', name: '/a' },
		{ kind: 'later', name: 'x' },
		{ kind: 'toString', name: 'y' },
	];
	assert.equal(targetsText({ targets }), 'unit nginx, cgroup /a, later x, toString y');
	assert.deepEqual(['done', 'failed', 'silent', 'sending', 'waiting', 'new'].map(hostLamp), ['good', 'bad', 'warn', 'busy', 'idle', 'idle']);
});

test('addresses of profiles', () => {
	assert.equal(profileUrl('c0ffee', 'html'), 'api/v1/recordings/c0ffee/profile?format=html');
	assert.equal(profileUrl('c0ffee', 'pprof', 'web 1&x'), 'api/v1/recordings/c0ffee/profile?format=pprof&host=web+1%26x');
});

test('the view is in the URL', () => {
	assert.equal(parseState('?view=recordings').view, 'recordings');
	assert.equal(formatState(parseState('?view=recordings')), '?view=recordings');
});
