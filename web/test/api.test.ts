// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { apiUrl } from '../src/api';

test('what is not given is not asked for', () => {
	assert.equal(apiUrl('types'), 'api/v1/types');
	assert.equal(apiUrl('binaries', { state: '', text: '', limit: 100 }), 'api/v1/binaries?limit=100');
	assert.equal(apiUrl('source', { function: 'a b', file: null, names: undefined }), 'api/v1/source?function=a+b');
});

test('the unknown file and the binary without a build-id can be asked for', () => {
	assert.equal(apiUrl('source', { function: 'f', file: '' }), 'api/v1/source?function=f&file=');
	assert.equal(apiUrl('asm', { function: 'f', build_id: '' }), 'api/v1/asm?function=f&build_id=');
});
