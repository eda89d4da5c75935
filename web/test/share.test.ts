// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isResponse } from '../src/api/client';
import { cleanTitle, formatPicture, parsePicture, pictureOf, splitQuery } from '../src/share/snapshot';
import { DEFAULTS, type PageState } from '../src/state/page';

test('a picture goes into text and back, and what was asked stays behind', () => {
	const state: PageState = {
		...DEFAULTS,
		q: 'process_cpu{a="b"}',
		from: 'now-3h',
		view: 'table',
		pane: 'table',
		zoom: '1f3',
		find: 'a b&c',
		reverse: true,
		compare: { ...DEFAULTS.compare, base: 'x', before: '1d', relative: true },
	};
	const { picture, fragment } = parsePicture(formatPicture(state, '#heat=1&t=1-2'));
	assert.deepEqual(picture, pictureOf(state));
	assert.equal(fragment, '#heat=1&t=1-2');
	assert.deepEqual([picture.compare.base, picture.compare.before, picture.compare.relative], ['', '', true]);
	assert.ok(!('q' in picture) && !('from' in picture) && !('view' in picture));
});

test('a picture that is none, or too long, is the picture as it first comes', () => {
	for (const text of ['', '#', '?', 'null', '{"zoom":1}', '?zoom=<x>&pane=map', '\0']) assert.deepEqual(parsePicture(text).picture, pictureOf(DEFAULTS), text);
	assert.equal(formatPicture({ ...DEFAULTS, find: 'x'.repeat(9000) }, ''), '');
});

test('titles are what the server takes', () => {
	assert.equal(cleanTitle(' a\nb\u202ec\ud800 '), 'a b c');
	assert.equal([...cleanTitle('🔥'.repeat(300))].length, 200);
});

test('a query is told apart from its stages, whatever its values have in them', () => {
	assert.deepEqual(splitQuery('process_cpu'), { selector: 'process_cpu', within: '', root: '' });
	assert.deepEqual(splitQuery('cpu{a=~"x|y\\"|z"} | frames = "a | b" | group by thread'), {
		selector: 'cpu{a=~"x|y\\"|z"}',
		within: 'frames = "a | b"',
		root: 'thread',
	});
	assert.deepEqual(splitQuery('cpu | group by host'), { selector: 'cpu', within: '', root: 'host' });
	assert.deepEqual(splitQuery('cpu{a="b'), { selector: 'cpu{a="b', within: '', root: '' });
});

test('a response that is no snapshot is told from one', () => {
	const path = `snapshots/${'0'.repeat(32)}`;
	const snapshot = { made_ms: 1, title: '', query: '', state: '' };
	assert.ok(isResponse(path, { snapshot, answer: {} }));
	for (const bad of [[], { snapshot }, { snapshot: { ...snapshot, state: 1 }, answer: {} }, { snapshot: null, answer: {} }])
		assert.equal(isResponse(path, bad), false, JSON.stringify(bad));
});
