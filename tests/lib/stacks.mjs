// SPDX-License-Identifier: Apache-2.0
// Profiles made of stacks, pushed to a server: what must be on the page of one can be summed from its stacks.
import assert from 'node:assert/strict';
import { Function, Line, Location, Mapping, Profile, Sample, StringTable, ValueType } from 'pprof-format';

export const PERIOD = 10_000_000; // ns of CPU time a sample
export const BUILD_IDS = {
	'/usr/bin/shop': '31dd3273542985dc8e305806911705d1ead70851',
	'/opt/other/libc.so.6': 'ffee',
	'/usr/lib/libc.so.6': '8ba8e5b5a8c4b8b02cbe',
};

// stacks: [from the root on, how many samples]; a stack is its frames, in one text with ; between or one by one. A frame is
// FUNCTION@BINARY; without a binary it is of the program.
export function encode(stacks, ms = Date.now()) {
	const strings = new StringTable();
	const text = (value) => strings.dedup(value);
	const type = new ValueType({ type: text('cpu'), unit: text('nanoseconds') });
	const mappings = new Map();
	const locations = new Map();
	const functions = [];
	const mappingOf = (path) => {
		if (!mappings.has(path))
			mappings.set(
				path,
				new Mapping({
					id: mappings.size + 1,
					memoryStart: 0x1000 * (mappings.size + 1),
					memoryLimit: 0x1000 * (mappings.size + 2),
					filename: text(path),
					buildId: text(BUILD_IDS[path] ?? ''),
					hasFunctions: true,
				}),
			);
		return mappings.get(path).id;
	};
	const locationOf = (frame) => {
		if (locations.has(frame)) return locations.get(frame).id;
		const at = frame.lastIndexOf('@');
		const [name, binary] = at < 0 ? [frame, '/usr/bin/shop'] : [frame.slice(0, at), frame.slice(at + 1)];
		const fn = new Function({
			id: functions.length + 1,
			name: text(name),
			systemName: text(name),
			filename: text('/src/shop.c'),
			startLine: 10 * (functions.length + 1),
		});
		functions.push(fn);
		const location = new Location({
			id: locations.size + 1,
			mappingId: mappingOf(binary),
			address: 0x100000 + locations.size * 16,
			line: [new Line({ functionId: fn.id, line: 10 * functions.length })],
		});
		locations.set(frame, location);
		return location.id;
	};
	const sample = stacks.map(
		([stack, count]) => new Sample({ locationId: (Array.isArray(stack) ? stack : stack.split(';')).map(locationOf).reverse(), value: [count * PERIOD] }),
	);
	return new Profile({
		sampleType: [type],
		sample,
		mapping: [...mappings.values()],
		location: [...locations.values()],
		function: functions,
		stringTable: strings,
		timeNanos: BigInt(Math.round(ms)) * 1_000_000n,
		durationNanos: 10_000_000_000,
		periodType: type,
		period: PERIOD,
	}).encode();
}

/** As CPU time of now, or of another time. labels: NAME: value. */
export async function pushStacks(base, stacks, labels = {}, ms = Date.now()) {
	const params = new URLSearchParams([['name', 'process_cpu'], ...Object.entries(labels).map(([name, value]) => ['label', `${name}=${value}`])]);
	const response = await fetch(new URL(`api/v1/ingest?${params}`, base), { method: 'POST', body: encode(stacks, ms) });
	assert.equal(response.status, 200, await response.text());
}
