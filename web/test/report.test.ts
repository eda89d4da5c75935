// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { checkReport, decodeBase64, readReport, type ReportData } from '../src/api/report_data';

const flame = {
	type: 'cpu',
	unit: 'nanoseconds',
	total: 1,
	samples: 1,
	strings: ['total'],
	nodes: { parent: [0], name: [0], file: [0], line: [0], binary: [0], kind: [0], total: [1], self: [1] },
};
const data: ReportData = { title: 't', time_ms: 0, shown: 0, types: [{ period: 0, unresolved: 0, flame }] };

test('a profile comes back as it was put in', async () => {
	const text = gzipSync(JSON.stringify({ ...data, title: 'é </script>' })).toString('base64');
	const read = await readReport(`\n${text}\n`);
	assert.equal(read.data.title, 'é </script>');
	assert.deepEqual(read.data.types, data.types);
});

test('what is no profile is refused', async () => {
	await assert.rejects(readReport('!'));
	await assert.rejects(readReport(Buffer.from('not gzip').toString('base64')));
	assert.throws(() => checkReport({ ...data, types: [] }), /no profile/);
	assert.throws(() => checkReport(null as unknown as ReportData), /no profile/);
	assert.throws(() => checkReport({ ...data, types: [{ ...data.types[0], flame: null as never }] }), /no type/);
});

test('the type that is shown first exists', () => {
	assert.equal(checkReport({ ...data, shown: 5 }).shown, 0);
	assert.deepEqual([...decodeBase64('AP8=')], [0, 255]);
});
