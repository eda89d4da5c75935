// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as T from '../src/base/texts';
import { actionOf, KEYS, keyOf, partsOf, press, type Part } from '../src/ui/keymap';
import { listKeys, pressRow } from '../src/ui/keys';

type Held = Partial<Record<'ctrlKey' | 'metaKey' | 'altKey' | 'shiftKey', boolean>>;
const pressed = (key: string, held: Held = {}) => {
	const calls: string[] = [];
	const event = { key, ctrlKey: false, metaKey: false, altKey: false, shiftKey: false, ...held };
	return { ...event, calls, preventDefault: () => calls.push('prevented'), stopPropagation: () => calls.push('stopped') };
};
const asEvent = (event: ReturnType<typeof pressed>) => event as unknown as KeyboardEvent;
const VIEWS = [
	'',
	'home',
	'both',
	'graph',
	'table',
	'source',
	'asm',
	'compare',
	'console',
	'status',
	'binaries',
	'recordings',
	'file',
	'report',
	'sandwich',
	'calls',
] as const;

test('keys lead to rows that are there', () => {
	const keys = ['ArrowDown', 'ArrowUp', 'PageDown', 'PageUp', 'Home', 'End'];
	const rowStep = (key: string, active: number, count: number, page: number) => {
		let row: number | null = null;
		const event = pressed(key);
		assert.equal(
			pressRow(asEvent(event), active, count, page, (to) => (row = to)),
			row !== null,
		);
		assert.equal(event.calls.length, row === null ? 0 : 2);
		return row;
	};
	const from = (active: number, count: number) => keys.map((key) => rowStep(key, active, count, 10));
	assert.deepEqual(from(50, 100), [51, 49, 60, 40, 0, 99]);
	assert.deepEqual(from(-1, 100), [0, 0, 9, 0, 0, 99]);
	assert.deepEqual(from(99, 100), [99, 98, 99, 89, 0, 99]);
	assert.deepEqual(from(-1, 0), [-1, -1, -1, -1, -1, -1]);
	assert.deepEqual(
		['Enter', 'a', ' '].map((key) => rowStep(key, 5, 100, 10)),
		[null, null, null],
	);
});

test('a key is told from the same with others held', () => {
	assert.equal(actionOf('graph', pressed('ArrowLeft')), 'left');
	assert.equal(actionOf('graph', pressed('ArrowLeft', { shiftKey: true })), 'panLeft');
	assert.equal(actionOf('graph', pressed('ArrowUp', { shiftKey: true })), 'up', 'Shift alone changes nothing');
	assert.equal(actionOf('graph', pressed('ArrowUp', { ctrlKey: true })), null);
	assert.equal(actionOf('graph', pressed('ArrowUp', { altKey: true })), null);
	assert.equal(actionOf('graph', pressed('c', { metaKey: true })), 'copy');
	assert.equal(actionOf('graph', pressed('c')), null);
	assert.equal(actionOf('graph', pressed(' ')), 'zoom');
	assert.equal(actionOf('page', pressed('?', { shiftKey: true })), 'help');
	assert.equal(actionOf('steps', pressed('F', { shiftKey: true })), 'fs');
	assert.equal(actionOf('filter', pressed('Tab')), 'take');
	assert.equal(actionOf('filter', pressed('Tab', { shiftKey: true })), null, 'Shift+Tab leaves the field');
	assert.equal(actionOf('server', pressed('r', { ctrlKey: true })), null, 'the browser loads the page again');
	const german = { ...pressed('[', { ctrlKey: true, altKey: true }), getModifierState: (name: string) => name === 'AltGraph' };
	assert.equal(actionOf('timeline', german), 'panLeft');
});

test("what was done is nobody else's, what was not is left to others", () => {
	const done = pressed('x');
	assert.equal(press('compare', asEvent(done), { swap: () => undefined }), true);
	assert.deepEqual(done.calls, ['prevented', 'stopped']);
	const not = pressed('x');
	assert.equal(press('compare', asEvent(not), { swap: () => false }), false);
	assert.equal(press('compare', asEvent(pressed('y')), { swap: () => assert.fail() }), false);
	assert.deepEqual(not.calls, []);
});

test('a key does one thing in a part, and each has its words', () => {
	for (const [part, actions] of Object.entries(KEYS)) {
		const keys = Object.values(actions).flat();
		assert.equal(new Set(keys).size, keys.length, part);
		const words = T.keys.parts[part as Part];
		assert.deepEqual(Object.keys(words.does).sort(), Object.keys(actions).sort(), part);
		assert.equal(new Set(Object.values(words.does)).size, Object.keys(actions).length, `${part}: words that are the same`);
	}
	assert.deepEqual(Object.keys(T.keys.parts).sort(), Object.keys(KEYS).sort());
	assert.equal(keyOf('code', 'source'), 's');
});

// Where several parts have the keys of one focus.
test('parts that share the focus share no key', () => {
	const together: Part[][] = [
		['graph', 'code', 'matches', 'sandwich', 'steps'],
		['rows', 'code', 'sandwich', 'table'],
		['calls', 'code', 'sandwich'],
		['rows', 'listing'],
		['page', 'server', 'profile'],
		['page', 'server', 'ofListing'],
		['page', 'server', 'profile', 'compare'],
	];
	for (const parts of together) {
		const keys = parts.flatMap((part) => Object.values(KEYS[part]).flat() as string[]);
		assert.equal(new Set(keys).size, keys.length, parts.join());
	}
});

test('the list has every part in some view, and finds keys by words and caps', () => {
	const listed = new Set(VIEWS.flatMap(partsOf));
	assert.deepEqual([...listed].sort(), Object.keys(KEYS).sort());
	for (const view of VIEWS) assert.equal(new Set(partsOf(view)).size, partsOf(view).length);
	const found = (find: string) => listKeys('', find).flatMap(({ part, rows }) => rows.map(({ what }) => `${part}: ${what}`));
	assert.deepEqual(found('recursion'), ['steps: collapse recursion']);
	assert.ok(found('ESC').includes('graph: show all') && !found('ESC').includes('graph: zoom in'));
	assert.ok(found('  ').length > 60);
	assert.deepEqual(found('nothing of the kind'), []);
	assert.deepEqual(
		listKeys('', '')
			.find(({ part }) => part === 'graph')!
			.rows.find(({ what }) => what === 'zoom in')!.keys,
		[['+'], ['=']],
	);
});
