// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { MarkersResponse, SeriesResponse } from '../src/api/responses';
import { beforeAndAfter, cluster, deploysOf, DEPLOYS_MAX, markerNames, tickRows, ticksWithin, versionLabels } from '../src/chart/annotations';

const T = 1_700_000_000_000;
const STEP = 60_000;
const LABELS = { version: 'service_version', service: 'service_name' };

type Row = [service: string, version: string, first: number, last: number, value?: number];
function response(rows: Row[]): SeriesResponse {
	const series = rows.map(([service, version, first, last, value = 1]) => ({
		labels: { ...(service ? { service_name: service } : {}), ...(version ? { service_version: version } : {}) },
		total: 0,
		points: Array.from({ length: last - first + 1 }, (_, i): [number, number] => [T + (first + i) * STEP, value]),
	}));
	return { type: '', unit: '', step_ms: STEP, from_ms: T, to_ms: T + 100 * STEP, series, total_series: rows.length };
}
const range = { from: T + 30 * STEP, to: T + 100 * STEP };
const deploys = (...rows: Row[]) => deploysOf(response(rows), LABELS, range).map((d) => [(d.at - T) / STEP, d.service, d.version, d.before]);

test('a deploy is where a version of a service comes after another one of it', () => {
	assert.deepEqual(deploys(['shop', '1', 0, 50], ['shop', '2', 48, 99], ['till', '7', 0, 99]), [[48, 'shop', '2', '1']]);
	assert.deepEqual(deploys(['shop', '2', 60, 99], ['shop', '1', 0, 59], ['till', '2', 40, 99], ['till', '1', 0, 40]), [
		[40, 'till', '2', '1'],
		[60, 'shop', '2', '1'],
	]);
	assert.deepEqual(deploys(['', '1', 0, 50], ['', '2', 51, 99]), [[51, '', '2', '1']]);
});

test('no deploy: a service that begins, a version that was there before the range, data without versions', () => {
	assert.deepEqual(deploys(['shop', '1', 50, 99], ['till', '1', 0, 99]), []);
	assert.deepEqual(deploys(['shop', '1', 0, 99], ['shop', '2', 20, 99]), [], 'deployed before the range');
	assert.deepEqual(deploys(['shop', '', 0, 49], ['shop', '2', 50, 99]), []);
	const zero = response([
		['shop', '1', 0, 99],
		['shop', '2', 40, 99],
	]);
	zero.series[1].points[0][1] = 0;
	assert.equal(deploysOf(zero, LABELS, range)[0].at, T + 41 * STEP, 'a sum of nothing is no appearance');
});

test('what was there before is the version that cost most until then', () => {
	assert.deepEqual(deploys(['shop', '1', 0, 70, 9], ['shop', '0', 0, 70, 1], ['shop', '2', 71, 99]), [[71, 'shop', '2', '1']]);
	const many = Array.from({ length: 300 }, (_, i): Row => ['shop', `v${i}`, 31 + (i % 60), 99]);
	assert.equal(deploys(['shop', 'old', 0, 99], ...many).length, DEPLOYS_MAX);
});

test('labels of versions and services: the first that there is', () => {
	assert.deepEqual(versionLabels(['job', 'version', 'service_version', 'service_name']), LABELS);
	assert.deepEqual(versionLabels(['image_tag', 'job']), { version: 'image_tag', service: 'job' });
	assert.deepEqual(versionLabels(['version']), { version: 'version', service: '' });
	assert.equal(versionLabels(['os_version', 'host_name']), null, 'not that of the kernel');
});

test('before and after are as long as each other', () => {
	const [before, after] = beforeAndAfter({ at: T + 60 * STEP, service: 's', version: '2', before: '1' }, range);
	assert.deepEqual(
		[before, after],
		[
			{ from: T + 20 * STEP, to: T + 60 * STEP },
			{ from: T + 60 * STEP, to: T + 100 * STEP },
		],
	);
});

test('what is too close together is one', () => {
	assert.deepEqual(
		cluster([1, 5, 16, 18, 40], (x) => x, 15).map(({ x, items }) => [x, items]),
		[
			[1, [1, 5]],
			[16, [16, 18]],
			[40, [40]],
		],
	);
});

const marker = (name: string, start: number, end?: number, host = 'a', kind = name) => ({
	name,
	kind,
	host,
	start_ns: start * 1e6,
	...(end === undefined ? {} : { end_ns: end * 1e6 }),
});
const markers = (...list: object[]) => ({ markers: list, from_ms: 0, to_ms: 9, truncated: false }) as unknown as MarkersResponse;

test('markers become rows by name or kind, and what is wrong with them is left out', () => {
	const rows = tickRows(
		markers(marker('gc', 500, 700), marker('tick', 90), marker('gc', 100, 300, 'b'), marker('x', 1), marker('deep', 5, 6, 'a', 'tick'), {
			name: 'gc',
			start_ns: 'x',
		}),
		['gc', 'tick'],
	);
	assert.deepEqual(rows, [
		{
			name: 'gc',
			ticks: [
				{ from: 100, to: 300, host: 'b' },
				{ from: 500, to: 700, host: 'a' },
			],
		},
		{
			name: 'tick',
			ticks: [
				{ from: 5, to: 6, host: 'a' },
				{ from: 90, to: 90, host: 'a' },
			],
		},
	]);
	assert.deepEqual(ticksWithin(rows, 300, 600), [{ name: 'gc', count: 2, hosts: ['a', 'b'] }], 'a span that reaches into the step is in it');
	assert.deepEqual(ticksWithin(rows, 91, 100), []);
	assert.deepEqual(tickRows({} as MarkersResponse, ['constructor']), [{ name: 'constructor', ticks: [] }]);
});

test('names of markers, the most frequent first', () => {
	assert.deepEqual(markerNames(markers(marker('b', 1), marker('a', 1), marker('c', 1), marker('c', 2), { name: 7 })), [
		{ name: 'c', count: 2 },
		{ name: 'a', count: 1 },
		{ name: 'b', count: 1 },
	]);
});
