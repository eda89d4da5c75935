// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as T from '../src/base/texts';
import { findNodes } from '../src/tree/search';
import { KIND } from '../src/tree/tree';
import { assignSlots, readSlots, SLOTS, slotOf, writeSlots } from '../src/ui/color_slots';
import { frameColors, hashText, legend, palette } from '../src/ui/colors';
import { treeOf } from './trees';

// A sequence that is the same each time.
function random(seed: number): (below: number) => number {
	let state = seed;
	return (below) => (state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff) % below;
}
const PARTS = ['lib', 'c', 'nginx', 'post', 'gres', 'node', 'python3', 'ssl', 'crypto', '-1.', 'server', 'd', 'worker', '.so', 'java', 'go', 'x', '_test'];
function namesOf(next: (below: number) => number, count: number): string[] {
	const names = new Set<string>();
	while (names.size < count) names.add(Array.from({ length: 1 + next(3) }, () => PARTS[next(PARTS.length)]).join('') + (next(2) ? next(1000) : ''));
	return [...names];
}

// sRGB to OKLab: lightness, hue in degrees.
function labOf(color: string): { light: number; hue: number; chroma: number } {
	const [r, g, b] = [1, 3, 5].map((at) => {
		const c = Number.parseInt(color.slice(at, at + 2), 16) / 255;
		return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
	});
	const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
	const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
	const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
	const a = 1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s;
	const bb = 0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s;
	return { light: 0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s, hue: (Math.atan2(bb, a) * 180) / Math.PI, chroma: Math.hypot(a, bb) };
}
const luminance = (color: string) => {
	const [r, g, b] = [1, 3, 5].map((at) => {
		const c = Number.parseInt(color.slice(at, at + 2), 16) / 255;
		return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
	});
	return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
function contrast(one: string, other: string): number {
	const [a, b] = [luminance(one), luminance(other)].sort((x, y) => y - x);
	return (a + 0.05) / (b + 0.05);
}
const apart = (a: number, b: number) => Math.abs(((a - b + 540) % 360) - 180);

// A tree of binaries, the costliest first, as a profile has them; and the kernel.
const treeOfBinaries = (binaries: string[]) => {
	const tree = treeOf([...binaries.map((name, i): [string[], number] => [[`main of ${name}`], 1000 - i]), [['kernel'], 500]]);
	for (let i = 1; i < tree.count; i++) {
		const name = tree.strings[tree.name[i]];
		const binary = name === 'kernel' ? '[kernel.kallsyms]' : name.slice('main of '.length);
		let at = tree.strings.indexOf(binary);
		if (at < 0) at = tree.strings.push(binary) - 1;
		tree.binary[i] = at;
	}
	return tree;
};

test('binaries of one legend differ by 25 degrees of hue or a clear step of lightness, up to 12 of them', () => {
	const next = random(3);
	for (let round = 0; round < 400; round++) {
		const binaries = namesOf(next, 2 + next(11));
		const tree = treeOfBinaries(binaries);
		for (const dark of [false, true]) {
			const entries = legend(tree, palette(dark)).filter(({ label }) => binaries.includes(label));
			assert.equal(entries.length, binaries.length);
			const labs = entries.map(({ color }) => labOf(color));
			labs.forEach((a, i) =>
				labs.slice(0, i).forEach((b, j) => {
					const tellable = apart(a.hue, b.hue) >= 25 || Math.abs(a.light - b.light) >= 0.1;
					assert.ok(tellable, `${entries[i].label} ${entries[i].color}, ${entries[j].label} ${entries[j].color}, dark ${dark}`);
				}),
			);
		}
	}
});

test('a binary keeps its colour, whatever else is in the graph, and text reads on all of them', () => {
	const next = random(11);
	const colors = palette(false);
	const colorOf = (binaries: string[], name: string) => legend(treeOfBinaries(binaries), colors).find(({ label }) => label === name)!.color;
	let [kept, all] = [0, 0];
	for (let round = 0; round < 100; round++) {
		const [name, ...others] = namesOf(next, 4);
		const first = colorOf([name, ...others], name);
		assert.equal(colorOf([...others, name].reverse(), name), first, 'another order');
		const more = namesOf(next, 5).filter((one) => one !== name);
		if (colorOf([name, ...more], name) === first) kept++;
		all++;
	}
	assert.ok(kept >= 0.95 * all, `${kept} of ${all}: the costliest keeps it`);
	for (const dark of [false, true]) {
		const { text, frame } = palette(dark);
		for (let slot = 0; slot < SLOTS; slot++) {
			for (let shade = 0; shade < 4; shade++) {
				const { hue, down } = slotOf(slot);
				const found = contrast(text, frame(hue, 0.07, shade, down));
				assert.ok(found >= 4.5, `slot ${slot}, shade ${shade}, dark ${dark}: ${found}`);
			}
		}
	}
	assert.equal(typeof frameColors(treeOfBinaries(['a']), colors).of(1), 'string');
});

test('names begin with the slot of their hash, and what moved is remembered', () => {
	const next = random(5);
	for (let round = 0; round < 200; round++) {
		const names = namesOf(next, 12);
		const slots = assignSlots(names, new Map(), hashText);
		assert.equal(new Set(slots.values()).size, names.length);
		assert.equal(slots.get(names[0]), hashText(names[0]) % SLOTS);
		const remembered = readSlots(writeSlots(slots, hashText));
		const again = assignSlots(names.slice().reverse(), remembered, hashText);
		assert.deepEqual(new Map([...again].sort()), new Map([...slots].sort()), 'after a reload, in another order');
	}
	const many = namesOf(next, 40);
	assert.equal(assignSlots(many, new Map(), hashText).size, 40, 'more than there are colours');
	for (const text of ['', '{', '{}', 'null', '[1]', '[["a",99]]', '[["a",-1]]', '[["a",1.5]]', '[[1,1]]']) assert.equal(readSlots(text).size, 0, text);
	assert.deepEqual([...readSlots('[["a",3]]')], [['a', 3]]);
});

test('each runtime has an entry and a colour of its own, by which it is found', () => {
	const words = Object.keys(T.legend.runtimes);
	const tree = treeOfBinaries([...words, 'other']);
	for (let i = 1; i < tree.count; i++)
		if (tree.strings[tree.binary[i]] !== '[kernel.kallsyms]')
			tree.kind[i] = /v8js|jvm|beam|luajit/.test(tree.strings[tree.binary[i]]) ? KIND.jit : KIND.interpreted;
	for (const dark of [false, true]) {
		const colors = palette(dark);
		const entries = legend(tree, colors).filter(({ find }) => words.includes(find.slice('in:'.length)));
		assert.deepEqual(
			entries.map(({ find, label }) => [find, label]),
			words.map((word) => [`in:${word}`, T.legend.runtimes[word]]),
		);
		const labs = entries.map(({ color }) => labOf(color));
		labs.forEach((a, i) =>
			labs.slice(0, i).forEach((b, j) => {
				assert.ok(apart(a.hue, b.hue) >= 14 || Math.abs(a.light - b.light) >= 0.1, `${entries[i].label}, ${entries[j].label}, dark ${dark}`);
			}),
		);
		for (let i = 1; i < tree.count; i++) assert.ok(contrast(colors.text, frameColors(tree, colors).of(i)) >= 4.5, tree.strings[tree.binary[i]]);
		assert.deepEqual(
			legend(tree, colors)
				.map(({ find }) => find)
				.filter((find) => find === 'kind:interpreted'),
			['kind:interpreted'],
			'what no runtime is known of',
		);
		const found = findNodes(tree, 'in:php', false) as Uint8Array;
		for (let i = 1; i < tree.count; i++) assert.equal(found[i], tree.strings[tree.binary[i]] === 'php' ? 1 : 0);
	}
});
