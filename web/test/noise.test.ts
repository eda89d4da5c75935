// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
	countInterval,
	findChanged,
	leastPValue,
	lnGamma,
	normalAbove,
	pValue,
	rateDifference,
	shareDifference,
	shareInterval,
	wilson,
	Z95,
	type Range,
	type Sides,
} from '../src/model/noise';
import { seeded } from './trees';

const close = (actual: number, expected: number, off = 5e-5) => assert.ok(Math.abs(actual - expected) <= off, `${actual} is not ${expected}`);

function poisson(random: () => number, mean: number): number {
	// By the gaps between events; a large mean in parts, as a sum of Poisson variables is one.
	let k = 0;
	for (let left = mean; left > 0; left -= 30) {
		const end = Math.exp(-Math.min(left, 30));
		for (let product = random(); product > end; product *= random()) k++;
	}
	return k;
}

function binomial(random: () => number, n: number, p: number): number {
	let k = 0;
	for (let i = 0; i < n; i++) if (random() < p) k++;
	return k;
}

test('intervals of published examples', () => {
	// R. G. Newcombe, Statistics in Medicine 17 (1998): single proportions, 857, method 3; differences, 873, method 10.
	for (const [k, n, low, high] of [
		[81, 263, 0.2553, 0.3662],
		[15, 148, 0.0624, 0.1605],
		[0, 20, 0, 0.1611],
		[1, 29, 0.0061, 0.1718],
	]) {
		close(wilson(k, n).low, low);
		close(wilson(k, n).high, high);
	}
	for (const [k2, n2, k1, n1, low, high] of [
		[56, 70, 48, 80, 0.0524, 0.3339],
		[9, 10, 3, 10, 0.1705, 0.809],
		[6, 7, 2, 7, 0.0582, 0.8062],
		[5, 56, 0, 29, -0.0381, 0.1926],
		[0, 10, 0, 20, -0.1611, 0.2775],
		[10, 10, 0, 20, 0.6791, 1],
	]) {
		const d = shareDifference(k1, n1, k2, n2);
		close(d.value, k2 / n2 - k1 / n1, 1e-12);
		close(d.low, low);
		close(d.high, high);
	}
});

test('the interval of a count is where its z is 1.96', () => {
	for (const k of [0, 1, 5, 100, 1e6]) {
		const { low, high } = countInterval(k);
		close((high - k) / Math.sqrt(high), Z95, 1e-9);
		if (k > 0) close((k - low) / Math.sqrt(low), Z95, 1e-6);
		else assert.equal(low, 0);
	}
	// A share of very many is a count.
	close(wilson(7, 1e9).high * 1e9, countInterval(7).high, 1e-5);
});

test('special functions', () => {
	close(normalAbove(0), 0.5, 1e-15);
	close(normalAbove(Z95), 0.025, 1e-12);
	close(normalAbove(-Z95), 0.975, 1e-12);
	assert.ok(Math.abs(normalAbove(5) / 2.866515718791939e-7 - 1) < 1e-10);
	assert.ok(Math.abs(normalAbove(2.9999999) / normalAbove(3.0000001) - 1) < 1e-5);
	let sum = 0;
	for (let n = 1; n <= 200; n++) {
		close(lnGamma(n), sum, 1e-11 * Math.max(1, sum));
		sum += Math.log(n);
	}
});

// Exactly, with whole numbers: the weight of every split of m, as far out as the observed one or farther on its side.
function exactShare(base: number, head: number, n1: number, n2: number): number {
	const choose = (n: number, k: number): bigint => {
		if (k < 0 || k > n) return 0n;
		let c = 1n;
		for (let i = 0; i < k; i++) c = (c * BigInt(n - i)) / BigInt(i + 1);
		return c;
	};
	const m = base + head;
	let twice = 0n;
	const up = head >= (m * n2) / (n1 + n2);
	for (let x = 0; x <= m; x++) {
		const weight = choose(n2, x) * choose(n1, m - x);
		if (x === head) twice += weight;
		else if (up ? x > head : x < head) twice += 2n * weight;
	}
	return Math.min(1, Number((twice * 10n ** 18n) / choose(n1 + n2, m)) / 1e18);
}

function exactRate(base: number, head: number, p: number): number {
	const m = base + head;
	const row: number[] = [1];
	for (let i = 0; i < m; i++) {
		row.push(0);
		for (let x = i + 1; x >= 0; x--) row[x] = row[x] * (1 - p) + (x > 0 ? row[x - 1] * p : 0);
	}
	const up = head >= m * p;
	let tail = row[head] / 2;
	for (let x = 0; x <= m; x++) if (up ? x > head : x < head) tail += row[x];
	return Math.min(1, 2 * tail);
}

test('p values are those of whole numbers, counted out', () => {
	const random = seeded(3);
	for (let i = 0; i < 300; i++) {
		const [n1, n2] = [1 + Math.floor(random() * 60), 1 + Math.floor(random() * 60)];
		const [k1, k2] = [Math.floor(random() * (n1 + 1)), Math.floor(random() * (n2 + 1))];
		const sides: Sides = { mode: 'share', base: n1, head: n2 };
		close(pValue(k1, k2, sides), exactShare(k1, k2, n1, n2), 1e-10);
		const p = 0.02 + 0.96 * random();
		const rates: Sides = { mode: 'rate', base: 1 - p, head: p };
		close(pValue(k1, k2, rates), exactRate(k1, k2, p), 1e-10);
		const all = k1 + k2;
		let least = 1;
		for (let x = 0; x <= all; x++) {
			least = Math.min(least, pValue(all - x, x, rates));
		}
		if (all > 0) close(leastPValue(all, rates), least, 1e-10);
	}
	assert.equal(pValue(0, 0, { mode: 'rate', base: 1, head: 1 }), 1);
	assert.equal(pValue(5, 0, { mode: 'share', base: 5, head: 0 }), 1);
	// Three in a minute, none in a week before it: not one in a thousand million.
	const week: Sides = { mode: 'rate', base: 7 * 1440, head: 1 };
	close(pValue(0, 3, week) / (1 / 10081) ** 3, 1, 1e-6);
	// Where the sum would be long, the normal distribution continues it.
	const even: Sides = { mode: 'rate', base: 1, head: 1 };
	for (const z of [0.5, 2, 4]) {
		const p = (m: number) => pValue(m / 2 - Math.round((z * Math.sqrt(m)) / 2), m / 2 + Math.round((z * Math.sqrt(m)) / 2), even);
		assert.ok(Math.abs(p(3.9e6) / (2 * normalAbove(z)) - 1) < 0.01);
		assert.ok(Math.abs(p(4.1e6) / (2 * normalAbove(z)) - 1) < 0.01);
	}
});

function coverage(trials: number, draw: () => { range: Range; truth: number }): number {
	let covered = 0;
	for (let i = 0; i < trials; i++) {
		const { range, truth } = draw();
		if (range.low <= truth && truth <= range.high) covered++;
	}
	return covered / trials;
}

test('of 100 intervals about 95 hold the truth', () => {
	const random = seeded(11);
	const all: number[] = [];
	const check = (draw: () => { range: Range; truth: number }) => {
		const share = coverage(1500, draw);
		// A discrete variable cannot have 95% everywhere; 91% is where Wilson's interval dips for counts about 1.
		assert.ok(share > 0.91 && share < 0.995, `${share}`);
		all.push(share);
	};
	for (const p of [0.003, 0.01, 0.05, 0.3, 0.9]) {
		check(() => ({ range: wilson(binomial(random, 600, p), 600), truth: p }));
		for (const q of [0.01, 0.2]) check(() => ({ range: shareDifference(binomial(random, 300, p), 300, binomial(random, 700, q), 700), truth: q - p }));
	}
	for (const mean of [1.5, 4, 20, 100]) {
		check(() => ({ range: countInterval(poisson(random, mean)), truth: mean }));
		for (const other of [3, 50]) check(() => ({ range: rateDifference(poisson(random, mean), 10, poisson(random, other), 2), truth: other / 2 - mean / 10 }));
	}
	const mean = all.reduce((a, b) => a + b) / all.length;
	assert.ok(mean > 0.94 && mean < 0.965, `${mean}`);
});

// 800 functions, the costs of which fall as they do in profiles; every fortieth costs three times as much in the head.
function simulate(random: () => number, mode: 'share' | 'rate', changes: boolean): { found: number; wrong: number; missed: number } {
	const lengths = mode === 'rate' ? [8, 1] : [3, 1];
	const base: number[] = [];
	const head: number[] = [];
	const truth: boolean[] = [];
	for (let f = 0; f < 800; f++) {
		const mean = 600 / (1 + f) ** 0.9;
		truth.push(changes && f % 40 === 5);
		base.push(poisson(random, mean * lengths[0]));
		head.push(poisson(random, mean * lengths[1] * (truth[f] ? 3 : 1)));
	}
	const sum = (list: number[]) => list.reduce((a, b) => a + b);
	const sides: Sides = mode === 'rate' ? { mode, base: lengths[0], head: lengths[1] } : { mode, base: sum(base), head: sum(head) };
	const changed = findChanged(base, head, sides);
	const result = { found: 0, wrong: 0, missed: 0 };
	truth.forEach((is, f) => {
		if (changed[f]) result.found++;
		if (changed[f] && !is) result.wrong++;
		if (!changed[f] && is && base[f] > 200) result.missed++;
	});
	return result;
}

test('of what is called changed, one in twenty at most did not', () => {
	for (const mode of ['share', 'rate'] as const) {
		const random = seeded(mode === 'share' ? 5 : 6);
		let alarms = 0; // runs in which nothing had changed and something was said to have
		for (let run = 0; run < 100; run++) if (simulate(random, mode, false).found > 0) alarms++;
		assert.ok(alarms <= 10, `${alarms} of 100`);
		let wrong = 0;
		let found = 0;
		for (let run = 0; run < 30; run++) {
			const result = simulate(random, mode, true);
			assert.equal(result.missed, 0);
			wrong += result.wrong;
			found += result.found;
		}
		assert.ok(found > 30 * 4);
		assert.ok(wrong / found < 0.12, `${wrong} of ${found}`); // in shares the others do shrink a little, truly
		if (mode === 'rate') assert.ok(wrong / found < 0.06, `${wrong} of ${found}`);
	}
});

test('rows with too few samples do not make it harder to see others', () => {
	const sides: Sides = { mode: 'rate', base: 1, head: 1 };
	const few = 10_000;
	const base = [20, ...Array<number>(few).fill(1)];
	const head = [45, ...Array<number>(few).fill(0)];
	const p = pValue(20, 45, sides);
	assert.ok(p > 0.05 / few && p < 0.05);
	assert.deepEqual([...findChanged(base, head, sides).slice(0, 2)], [1, 0]);
	assert.deepEqual([...findChanged(base, head, sides, Uint8Array.from([1, ...Array<number>(few).fill(0)])).slice(0, 2)], [0, 0]);
	// No more than a dozen samples are enough when nothing else could be a change.
	assert.equal(findChanged([0, ...Array<number>(few).fill(1)], [12, ...Array<number>(few).fill(0)], sides)[0], 1);
	assert.deepEqual([...findChanged([], [], sides)], []);
	assert.deepEqual([...findChanged([0], [0], sides)], [0]);
});

test('what a tooltip says of a share', () => {
	const says = (value: number, total: number, period: number) => shareInterval(value, total, period)?.text;
	assert.equal(says(123_000, 1_000_000, 160), '12.3% ± 0.8');
	assert.equal(says(500, 1000, 1), '50% ± 3');
	assert.equal(says(0, 1000, 1), '0.0% (0.0–0.4)');
	assert.equal(says(1, 1000, 1), '0.1% (0.0–0.6)');
	assert.equal(says(50, 50, 1), '100% (93–100)');
	assert.equal(says(1, 2, 0), undefined);
	assert.equal(says(0, 0, 1), undefined);
	assert.equal(says(1, 10, 100), undefined);
	assert.equal(says(NaN, 10, 1), undefined);
	const interval = shareInterval(300, 1000, 10)!;
	close(interval.low, wilson(30, 100).low, 1e-12);
	close(interval.share, 0.3, 1e-12);
});
