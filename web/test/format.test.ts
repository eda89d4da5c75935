// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
	digits,
	displayName,
	formatBytes,
	formatCount,
	formatDuration,
	formatRange,
	formatShare,
	formatValue,
	labelTitle,
	isGauge,
	seriesScale,
	shortName,
	shortType,
} from '../src/base/format';

const CPU = 'process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta';

test('values take the unit that fits', () => {
	const cases: [number, string, string][] = [
		[0, 'nanoseconds', '0 s'],
		[1, 'nanoseconds', '1 ns'],
		[1500, 'nanoseconds', '1.50 µs'],
		[52631578, 'nanoseconds', '52.6 ms'],
		[999_999_999, 'nanoseconds', '1.00 s'],
		[59e9, 'nanoseconds', '59.0 s'],
		[90e9, 'nanoseconds', '1.50 min'],
		[36000e9, 'nanoseconds', '10.0 h'],
		[250, 'milliseconds', '250 ms'],
		[0, 'bytes', '0 B'],
		[1023, 'bytes', '1023 B'],
		[1536, 'bytes', '1.50 KiB'],
		[2 ** 40 * 3, 'bytes', '3.00 TiB'],
		[0, 'count', '0'],
		[999, 'count', '999'],
		[1234567, 'count', '1.23 M'],
		[42, '', '42'],
	];
	for (const [value, unit, text] of cases) assert.equal(formatValue(value, unit), text);
	assert.equal(formatCount(12345), '12.3 k');
	assert.equal(formatBytes(48e6), '45.8 MiB');
});

test('three significant digits and no exponent', () => {
	assert.deepEqual([0, 0.00123, 0.5, 1, 9.996, 12.34, 99.96, 123.4, 1234].map(digits), ['0', '0.0012', '0.50', '1.00', '10.0', '12.3', '100', '123', '1234']);
});

test('shares never round to nothing or to all', () => {
	assert.equal(formatShare(1, 3), '33.3%');
	assert.equal(formatShare(1, 1e9), '<0.01%');
	assert.equal(formatShare(0, 5), '0%');
	assert.equal(formatShare(5, 5), '100%');
	assert.equal(formatShare(99.9, 100), '99.9%');
	assert.equal(formatShare(5, 0), '0%');
	assert.equal(formatShare(1, 40), '2.50%');
});

test('durations and ranges', () => {
	assert.deepEqual([500, 1000, 90e3, 3600e3, 5400e3, 90000e3, 86400e3 * 7].map(formatDuration), [
		'500 ms',
		'1 s',
		'1 min 30 s',
		'1 h',
		'1 h 30 min',
		'1 d 1 h',
		'7 d',
	]);
	const noon = new Date(2024, 4, 1, 12, 0, 0).getTime();
	assert.equal(formatRange(noon, noon + 60e3, noon), '12:00:00 – 12:01:00');
	assert.equal(formatRange(noon, noon + 86400e3, noon), '1 May 12:00 – 2 May 12:00');
	assert.equal(formatRange(noon - 864e5, noon - 864e5 + 60e3, noon), '30 Apr 12:00:00 – 12:01:00');
});

test('CPU time becomes cores, other counters a rate, gauges stay', () => {
	const cores = seriesScale(CPU, 'nanoseconds', 10_000);
	assert.equal(cores.name, 'cores');
	assert.equal(cores.of(25e9), 2.5);
	const lock = seriesScale('mutex:delay:nanoseconds:contentions:count:delta', 'nanoseconds', 1000);
	assert.equal(lock.name, 'seconds per second');
	const alloc = seriesScale('memory:alloc_space:bytes:space:bytes:delta', 'bytes', 10_000);
	assert.equal(alloc.format(alloc.of(20480)), '2.00 KiB');
	const heap = seriesScale('memory:inuse_space:bytes:space:bytes', 'bytes', 10_000);
	assert.equal(heap.of(7), 7);
	assert.equal(isGauge('memory:inuse_space:bytes:space:bytes'), true);
	for (const type of ['', 'cpu', CPU, 'process_cpu:cpu:nanoseconds::', 'perf:samples:count::', 'memory:alloc_space:bytes:space:bytes:delta'])
		assert.equal(isGauge(type), false, type);
});

test('names of types and labels', () => {
	assert.equal(shortType(CPU), 'process_cpu · cpu');
	assert.equal(shortType('odd'), 'odd');
	assert.equal(labelTitle('process_executable_name'), 'Process');
	assert.equal(labelTitle('k8s_pod_name'), 'k8s_pod_name');
	assert.equal(labelTitle('constructor'), 'constructor');
});

test('hostile names are shown without doing anything', () => {
	assert.equal(displayName('a\u202egnp.exe'), 'a\ufffdgnp.exe');
	assert.equal(displayName('x\u0000\n\u001b[31m'), 'x\ufffd\ufffd\ufffd[31m');
	assert.equal(displayName('<script>'), '<script>');
	assert.equal(displayName('y'.repeat(20_000)).length, 401);
	assert.equal(displayName('名前 é'), '名前 é');
});

test('long C++ and Rust names have a short form', () => {
	assert.equal(shortName('std::vector<int, std::allocator<int> >::push_back(int const&)'), 'std::vector<…>::push_back');
	assert.equal(shortName('core::ptr::drop_in_place<alloc::string::String>'), 'core::ptr::drop_in_place<…>');
	assert.equal(shortName('main'), 'main');
	assert.equal(shortName('(anonymous namespace)::f()').length > 0, true);
	for (const odd of ['operator<', 'operator->()', 'a<b', 'x>y', 'operator<<(A, B)']) assert.ok(shortName(odd).length > 0, odd);
	assert.equal(shortName('operator->()'), 'operator->()');
	assert.equal(shortName('a<b'), 'a<b');
});
