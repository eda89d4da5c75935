// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { apiUrl, CANCELLED, isResponse, retrySeconds } from '../src/api/client';
import { begin, cancelOlder, onPending, waitingMs } from '../src/api/pending';

test('what is not given is not asked for', () => {
	assert.equal(apiUrl('types'), 'api/v1/types');
	assert.equal(apiUrl('binaries', { state: '', text: '', limit: 100 }), 'api/v1/binaries?limit=100');
	assert.equal(apiUrl('source', { function: 'a b', file: null, names: undefined }), 'api/v1/source?function=a+b');
});

test('the unknown file and the binary without a build-id can be asked for', () => {
	assert.equal(apiUrl('source', { function: 'f', file: '' }), 'api/v1/source?function=f&file=');
	assert.equal(apiUrl('asm', { function: 'f', build_id: '' }), 'api/v1/asm?function=f&build_id=');
});

test('what failed is asked again by and by, what was refused or given up is not', () => {
	for (const status of [400, 401, 403, 404, 413, 422, CANCELLED]) assert.equal(retrySeconds(status, 1), 0, String(status));
	assert.deepEqual(
		[1, 2, 9].map((n) => retrySeconds(0, n)),
		[5, 5, 5],
		'nobody is there to be disturbed',
	);
	for (const status of [429, 500, 502, 503, 504])
		assert.deepEqual(
			[1, 2, 3, 4, 5, 50].map((n) => retrySeconds(status, n)),
			[5, 10, 20, 40, 60, 60],
		);
});

test('a response that is none of this server is told from one', () => {
	assert.ok(
		isResponse('types', { types: [] }) && isResponse('query', { flame: {} }) && isResponse('pipeline', { kind: 'table' }) && isResponse('snapshots/1', {}),
	);
	for (const response of [null, 5, 'ok', [], {}, { types: {} }, { types: null }]) assert.ok(!isResponse('types', response), JSON.stringify(response));
	for (const response of [{}, { flame: null }, { flame: 'x' }]) assert.ok(!isResponse('query', response), JSON.stringify(response));
	assert.ok(!isResponse('pipeline', { status: 'ok' }));
	assert.ok(isResponse('constructor', {}));
});

test('what has not been answered is known by how long it waits, and can be given up', () => {
	const given: number[] = [];
	assert.equal(waitingMs(), null);
	const end = begin(() => given.push(1));
	const started = performance.now();
	begin(() => given.push(2));
	const told: (number | null)[] = [];
	const stop = onPending(() => told.push(waitingMs(started) === null ? null : 1));
	assert.ok(waitingMs(started + 5000)! >= 5000);
	cancelOlder(60_000, started + 5000);
	assert.deepEqual(given, []);
	end();
	end();
	assert.deepEqual(told, [1], 'each end is told once');
	stop();
	cancelOlder(1000, started + 5000);
	assert.deepEqual(given, [2], 'what is over is not given up');
});
