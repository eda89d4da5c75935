// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { buildIdsOf, shownIds } from '../src/tree/build_ids';

test('build-ids are taken as they are, and what is none is left out', () => {
	const found = buildIdsOf([
		{ binary: 'app', build_ids: ['ab12'], count: 1 },
		{ binary: 'libc.so.6', build_ids: ['1', '2', 3, '', 'x'.repeat(200)], count: 70 },
		{ binary: 'few', build_ids: ['1', '2'], count: -5 },
		{ binary: 'none', build_ids: [], count: 0 },
		{ binary: 7, build_ids: ['1'] },
		{ binary: '__proto__', build_ids: ['e'], count: 'x' },
		null,
		'x',
	]);
	assert.deepEqual(
		[...found],
		[
			['app', { ids: ['ab12'], count: 1 }],
			['libc.so.6', { ids: ['1', '2'], count: 70 }],
			['few', { ids: ['1', '2'], count: 2 }],
			['__proto__', { ids: ['e'], count: 1 }],
		],
	);
	for (const broken of [undefined, null, {}, 'x', 5]) assert.equal(buildIdsOf(broken).size, 0);
});

test('one is shown whole, of several the beginnings', () => {
	const id = '31dd3273542985dc8e305806911705d1ead70851';
	assert.deepEqual(shownIds({ ids: [id], count: 1 }), { ids: [id], more: 0 });
	assert.deepEqual(shownIds({ ids: [id, 'b', 'c', 'd'], count: 20 }), { ids: ['31dd32735429', 'b', 'c'], more: 17 });
	assert.deepEqual(shownIds({ ids: [id, 'b'], count: 2 }), { ids: ['31dd32735429', 'b'], more: 0 });
});
