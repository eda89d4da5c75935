// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readView } from '../src/api/view_data';

const flame = {
	type: 'cpu',
	unit: 'nanoseconds',
	total: 5,
	samples: 2,
	strings: ['', 'total'],
	nodes: { parent: [0], name: [1], file: [0], line: [0], binary: [0], kind: [0], total: [5], self: [5] },
};
const data = { title: 'é.pb.gz', format: 'pprof', left_out: ['a', 'b'], time_ms: 7, shown: 0, types: [{ period: 0, unresolved: 0, flame }] };
const timeline = {
	start_ns: '1700000000000000000',
	length_ns: 1000,
	threads: [{ name: 't', process: 'p', host: '', pid: 1, tid: 2, samples: 2, markers: 0 }],
	strings: [''],
	categories: [[0, 0]],
	schemas: [{ name: 0, fields: [] }],
	stacks: 1,
	samples: 2,
	markers: 0,
	samples_out: 0,
	markers_out: 0,
	until_ns: 0,
};
// By the description in src/format/timeline.h: times 10 and 30 (+ 1, differences, zigzag), stacks, values 2 and 3, its node; no markers.
const column = (...bytes: number[]): number[] => [bytes.length, 0, 0, 0, ...bytes];
const columns = [column(22, 40), column(0, 0), column(4, 6), column(0), ...Array.from({ length: 8 }, () => column())].flat();

// Somewhere in a larger array, at an odd place: nothing may count on where it begins.
function frame(json: unknown, behind: number[] = []): Uint8Array {
	const text = new TextEncoder().encode(typeof json === 'string' ? json : JSON.stringify(json));
	const all = new Uint8Array(3 + 12 + text.length + behind.length + 5).fill(99);
	all.set(new TextEncoder().encode('WICKVIEW'), 3);
	new DataView(all.buffer).setUint32(11, text.length, true);
	all.set(text, 15);
	all.set(behind, 15 + text.length);
	return all.subarray(3, 15 + text.length + behind.length);
}

test('what a file shows comes as it was sent', () => {
	const view = readView(frame(data));
	assert.equal(view.data.title, 'é.pb.gz');
	assert.deepEqual(view.data.types, data.types);
	assert.deepEqual([view.format, view.leftOut, view.timeline, view.kept], ['pprof', ['a', 'b'], null, null]);
	const bare = readView(frame({ ...data, format: 5, left_out: [1, 'x'] }));
	assert.deepEqual([bare.format, bare.leftOut], ['', ['x']]);
});

test('its time line is read from where it lies', () => {
	const { timeline: read } = readView(frame({ ...data, timeline }, columns));
	assert.equal(read?.threads.length, 1);
	assert.deepEqual([...read.time], [10, 30]);
	assert.throws(() => readView(frame({ ...data, timeline }, columns.slice(0, -9))));
	assert.throws(() => readView(frame({ ...data, timeline })));
});

test('a snapshot of one says what it is', () => {
	const snapshot = { id: 'ab', made_ms: 5, title: 't', state: 's', call: 'view' };
	const view = readView(frame({ snapshot, answer: { ...data, timeline } }, columns));
	assert.deepEqual(view.kept, { id: 'ab', made_ms: 5, title: 't', state: 's' });
	assert.equal(view.format, 'pprof');
	assert.deepEqual([...(view.timeline?.time ?? [])], [10, 30]);
	assert.throws(() => readView(frame({ snapshot: { ...snapshot, id: 5 }, answer: data })), /snapshot/);
	assert.throws(() => readView(frame({ snapshot: null, answer: data })), /snapshot/);
	assert.throws(() => readView(frame({ snapshot })), /no profile/);
});

test('what is no view is refused', () => {
	const whole = frame(data);
	for (let length = 0; length < whole.length; length++) assert.throws(() => readView(whole.subarray(0, length)), `${length}`);
	for (const text of ['', 'null', '5', '[]', '{}', '{"types":[]}', 'x']) assert.throws(() => readView(frame(text)), text);
	const other = Uint8Array.from(whole);
	other[7] = 88;
	assert.throws(() => readView(other), /does not describe a file/);
	other.set(whole);
	other[11] = 255;
	assert.throws(() => readView(other), /truncated/);
});
