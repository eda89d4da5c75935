// SPDX-License-Identifier: Apache-2.0
// Samples of which everything is known, and what answers about them must be: for the tests that ask as other tools do.
import assert from 'node:assert/strict';
import { request, pprofProfile } from '../harness.mjs';

export const now = Math.floor(Date.now() / 60000) * 60000 - 600000,
	minute = 60000;
export const CPU = 'process_cpu:cpu:nanoseconds::',
	HEAP = 'memory:inuse_space:bytes::';
// {type, service, region, time, stack: root first, value}
export function knownSamples() {
	const samples = [];
	let seed = 7;
	const random = (n) => {
		seed = (seed * 48271) % 2147483647;
		return seed % n;
	};
	for (let m = 0; m < 10; m++)
		for (const service of ['shop', 'mail', 'ads']) {
			const list = Array.from({ length: 6 }, () => ({
				stack: ['main', ...Array.from({ length: 1 + random(4) }, () => `f${random(5)}`)],
				value: 1 + random(1000),
			}));
			for (const s of list) samples.push({ type: CPU, service, region: m % 2 ? 'eu' : 'us', time: now + m * minute, ...s });
			if (m < 5) samples.push({ type: HEAP, service, region: 'eu', time: now + m * minute + 500, stack: ['main', 'keep'], value: 100 * (m + 1) });
		}
	return samples;
}
// One profile for each series and time.
export async function send(port, samples) {
	const bodies = new Map();
	for (const s of samples) {
		const key = [s.type, s.service, s.region, s.time].join(' ');
		if (!bodies.has(key)) bodies.set(key, { ...s, stacks: [] });
		bodies.get(key).stacks.push([[...s.stack].reverse(), s.value]);
	}
	for (const b of bodies.values()) {
		const [name, type, unit] = b.type.split(':');
		const body = pprofProfile(b.stacks, { type, unit, timeNs: BigInt(b.time) * 1000000n, durationNs: name === 'process_cpu' ? 1e10 : 0 });
		const response = await request(port, 'POST', `/api/v1/ingest?name=${name}&label=service_name%3D${b.service}&label=region%3D${b.region}`, { body });
		assert.equal(response.status, 200, response.body.toString());
	}
}

export const choose = (samples, type, { service, region, from, to }) =>
	samples.filter((s) => s.type === type && (!service || s.service === service) && (!region || s.region === region) && s.time >= from && s.time <= to);
export const sum = (list) => list.reduce((n, s) => n + s.value, 0);
export function treeOf(list) {
	// "a;b;c" -> {total, self}
	const nodes = new Map();
	for (const { stack, value } of list)
		stack.forEach((_, i) => {
			const path = stack.slice(0, i + 1).join(';'),
				node = nodes.get(path) ?? { total: 0, self: 0 };
			node.total += value;
			if (i === stack.length - 1) node.self += value;
			nodes.set(path, node);
		});
	return nodes;
}
// Back from names and levels to paths: a node's parent is the one of the level above that it lies within.
export function pathsOf({ names, levels }, width = 4) {
	const sides = width === 4 ? [0] : [0, 3],
		found = new Map();
	let above = [];
	levels.forEach((level, depth) => {
		const values = (Array.isArray(level) ? level : level.values).map(Number),
			row = [],
			at = [0, 0];
		for (let i = 0; i < values.length; i += width) {
			const node = { x: [], total: [], self: [], name: names[values[i + width - 1]] };
			sides.forEach((offset, side) => {
				node.x[side] = at[side] + values[i + offset];
				node.total[side] = values[i + offset + 1];
				node.self[side] = values[i + offset + 2];
				at[side] = node.x[side] + node.total[side];
			});
			const parent = above.find((p) => sides.every((_, s) => p.x[s] <= node.x[s] && node.x[s] + node.total[s] <= p.x[s] + p.total[s]));
			assert.ok(depth === 0 || parent, 'a node lies within its parent');
			node.path = depth === 0 ? '' : parent.path ? `${parent.path};${node.name}` : node.name;
			row.push(node);
			if (depth) found.set(node.path, width === 4 ? { total: node.total[0], self: node.self[0] } : { total: node.total, self: node.self });
		}
		above = row;
	});
	return found;
}
export const entries = (map) => [...map].sort(([a], [b]) => (a < b ? -1 : 1));
