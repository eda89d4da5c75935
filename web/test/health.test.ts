// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { brokenShare, fleetSums, lampOf, lostShare, lostShareOf, reasons, sortAgents, type Agent, type AgentHealth } from '../src/model/health';

const agent = (host: string, health?: AgentHealth): Agent => ({ host, agent: host, wick: '1', heard_ms: 0, age_ms: 0, health });
const WELL: AgentHealth = { samples: 10_000, frequency_hz: 19, frequency_asked_hz: 19, walks: { complete: 99, no_rule: 1 }, cost_ppm: 500, cpus: 4 };

test('what is lost is a share of all that there was', () => {
	assert.equal(lostShare({}), 0);
	assert.equal(lostShare({ samples: 90, lost: { full: 6, late: 4 } }), 0.1);
	assert.equal(lostShare({ samples: 100, dropped_samples: 50 }), 0.5);
});

test('stacks that did not reach their end', () => {
	assert.equal(brokenShare({}), null);
	assert.equal(brokenShare({ walks: {} }), null);
	assert.equal(brokenShare({ walks: { complete: 75, no_rule: 25 } }), 0.25);
	assert.equal(brokenShare({ walks: { no_rule: 3 } }), 1);
	assert.deepEqual(reasons({ a: 1, complete: 9, b: 3, c: 0 }, ['complete']), [
		['b', 3],
		['a', 1],
	]);
	assert.deepEqual(reasons(undefined), []);
});

test('a lamp for each fault that needs a look', () => {
	assert.equal(lampOf(agent('a', WELL)), 'good');
	assert.equal(lampOf(agent('a')), 'idle');
	const warned: AgentHealth[] = [
		{ lost: { full: 50 } },
		{ walks: { complete: 9, no_rule: 1 } },
		{ frequency_hz: 7 },
		{ cost_ppm: 50_000 },
		{ warnings: ['no BTF'] },
		{ waiting_profiles: 3 },
	];
	for (const fault of warned) assert.equal(lampOf(agent('a', { ...WELL, ...fault })), 'warn', JSON.stringify(fault));
	for (const fault of [{ lost: { full: 5000 } }, { dropped_samples: 1 }]) assert.equal(lampOf(agent('a', { ...WELL, ...fault })), 'bad');
});

test('those that need a look come first; sums are of those that say how they are', () => {
	const all = [agent('c', WELL), agent('b', { ...WELL, dropped_samples: 10 }), agent('a', WELL), agent('d')];
	assert.deepEqual(
		sortAgents(all).map((one) => one.host),
		['b', 'd', 'a', 'c'],
	);
	assert.deepEqual(fleetSums(all), { reporting: 3, costPpm: 1500, resident: 0, samples: 30_000, lost: 10 });
	assert.deepEqual(fleetSums([]), { reporting: 0, costPpm: 0, resident: 0, samples: 0, lost: 0 });
});

test('samples that are kept with less of their stack are not lost, on any view', () => {
	const lost = { counts_full: 10, no_user_stack: 4000, no_mapping: 300, events: 70 };
	const share = lostShare({ samples: 990, lost, dropped_samples: 20 });
	assert.equal(share, 0.03);
	assert.equal(lostShareOf({ samples_taken: 990, samples_lost: 30, samples_dropped: 20 }), share);
	assert.equal(fleetSums([agent('a', { samples: 990, lost, dropped_samples: 20 })]).lost, 30);
});
