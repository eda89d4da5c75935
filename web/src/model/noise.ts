// SPDX-License-Identifier: Apache-2.0
/*
 * What sampling alone does to a profile's figures, and which differences it does not explain.
 *
 * A sample comes every `period` units, wherever the program then is; a value is a count of samples times the period. So the
 * count k of a function is Poisson, and given all n samples of the profile, its share k/n is binomial. That holds as far as samples
 * are independent. It is the least noise there is: load that comes and goes in bursts adds its own, which two windows of one
 * program each cannot show. Values that are no counts times a period (bytes allocated, delays) have no interval here.
 *
 * Intervals
 *   of a share        Wilson's score interval (E. B. Wilson, JASA 22 (1927) 209). The usual p +- z sqrt(p(1-p)/n) is far too
 *                     short where profiles live, at small shares: of a function with one sample it reaches below zero, of
 *                     one with none it is nothing.
 *   of a count        the score interval k + z^2/2 +- z sqrt(k + z^2/4), Wilson's for a rare event.
 *   of a difference   from the two single intervals by squares: with d = p2 - p1,
 *                     low = d - sqrt((p2 - l2)^2 + (u1 - p1)^2), high = d + sqrt((u2 - p2)^2 + (p1 - l1)^2).
 *                     For shares that is method 10 of R. G. Newcombe, Statistics in Medicine 17 (1998) 873; for rates the
 *                     same with the interval of counts (G. Zou and A. Donner, Statistics in Medicine 27 (2008) 1693). Chosen
 *                     for being in closed form, and right when one of the counts is 0. The logarithm of the ratio, which
 *                     is the alternative, has no value there, and new and gone functions are what people look for.
 *
 * Tests
 *   Whether a function's two counts differ is tested given their sum m: for rates, k2 of m is binomial by the lengths of
 *   the windows; for shares, hypergeometric (Fisher's test). Both are summed exactly, with the mid-p convention (half of the
 *   probability of what was observed). The normal approximation is no substitute: with a minute beside a week, 3 samples in
 *   the minute and none in the week have z = 5 by it.
 *
 * Many at once
 *   A profile has 10,000 functions; at 5% each, 500 that did not change would be called changed. So the rows are tested
 *   together by Benjamini and Hochberg's procedure (JRSS B 57 (1995) 289): of those that are called changed, at most q, 5%,
 *   did not, in the long run. Most rows have so few samples that nothing they could show would be significant. They do not
 *   count as tests (R. E. Tarone, Biometrics 46 (1990) 515; for this procedure P. B. Gilbert, JRSS C 54 (2005) 143):
 *   without that, every function with one sample would make it harder to see the others. Callers and what they call are
 *   correlated positively, which the procedure allows. An interval is of one row alone, so a row that is within the noise may well
 *   have an interval without 0.
 */

export const Z95 = 1.959963984540054; // of the normal distribution, 95% two-sided
export const FALSE_CHANGES = 0.05; // q

export interface Range {
	low: number;
	high: number;
}

/** Of the share k/n. n > 0; 0 <= k <= n. */
export function wilson(k: number, n: number, z = Z95): Range {
	const p = k / n;
	const zz = (z * z) / n;
	const center = (p + zz / 2) / (1 + zz);
	const half = (z / (1 + zz)) * Math.sqrt((p * (1 - p)) / n + zz / (4 * n));
	// At the ends these are 0 and 1 exactly, and so they shall be.
	return { low: k === 0 ? 0 : Math.max(0, center - half), high: k === n ? 1 : Math.min(1, center + half) };
}

/** Of the expectation of a count. */
export function countInterval(k: number, z = Z95): Range {
	const center = k + (z * z) / 2;
	const half = z * Math.sqrt(k + (z * z) / 4);
	return { low: k === 0 ? 0 : Math.max(0, center - half), high: center + half };
}

export interface Difference extends Range {
	value: number; // of the second less the first
}

function fromSingles(p1: number, r1: Range, p2: number, r2: Range): Difference {
	const value = p2 - p1;
	return {
		value,
		low: value - Math.hypot(p2 - r2.low, r1.high - p1),
		high: value + Math.hypot(r2.high - p2, p1 - r1.low),
	};
}

/** Of the shares k2/n2 - k1/n1. n > 0. */
export function shareDifference(k1: number, n1: number, k2: number, n2: number, z = Z95): Difference {
	return fromSingles(k1 / n1, wilson(k1, n1, z), k2 / n2, wilson(k2, n2, z));
}

/** Of the rates k2/t2 - k1/t1. t > 0: how long was counted, in any unit. */
export function rateDifference(k1: number, t1: number, k2: number, t2: number, z = Z95): Difference {
	const [r1, r2] = [countInterval(k1, z), countInterval(k2, z)];
	const over = (r: Range, t: number): Range => ({ low: r.low / t, high: r.high / t });
	return fromSingles(k1 / t1, over(r1, t1), k2 / t2, over(r2, t2));
}

// ---- tests --------------------

/** ln of the gamma function for x >= 1: Stirling's series, shifted to where its first terms are exact to 1e-15. */
export function lnGamma(x: number): number {
	let shift = 0;
	for (; x < 12; x++) shift += Math.log(x);
	const r = 1 / (x * x);
	const series = (1 / 12 - r * (1 / 360 - r * (1 / 1260 - r * (1 / 1680 - r / 1188)))) / x;
	return (x - 0.5) * Math.log(x) - x + 0.5 * Math.log(2 * Math.PI) + series - shift;
}

const lnChoose = (n: number, k: number): number => lnGamma(n + 1) - lnGamma(k + 1) - lnGamma(n - k + 1);

/** The probability that a normal variable is above z. */
export function normalAbove(z: number): number {
	if (z < 0) return 1 - normalAbove(-z);
	const density = Math.exp((-z * z) / 2) / Math.sqrt(2 * Math.PI);
	if (z >= 3) {
		let fraction = z;
		for (let i = 60; i > 0; i--) fraction = z + i / fraction;
		return density / fraction;
	}
	let term = z;
	let sum = z;
	for (let i = 3; term > sum * 1e-17; i += 2) sum += term *= (z * z) / i;
	return 0.5 - density * sum;
}

/** What is compared: of each side, how much was looked at. Shares: all samples. Rates: the length of the window over the period. */
export interface Sides {
	mode: 'share' | 'rate';
	base: number;
	head: number;
}

/** How many of m samples are the head's, if nothing changed: X in [min, max]. */
interface Split {
	mean: number;
	variance: number;
	min: number;
	max: number;
	ln: (x: number) => number; // of the probability
	up: (x: number) => number; // P(x + 1) / P(x)
}

function splitOf(m: number, { mode, base, head }: Sides): Split {
	const all = base + head;
	const p = head / all;
	if (mode === 'rate') {
		const [lnHead, lnBase] = [Math.log(p), Math.log(base / all)];
		return {
			mean: m * p,
			variance: m * p * (1 - p),
			min: 0,
			max: m,
			ln: (x) => lnChoose(m, x) + (x > 0 ? x * lnHead : 0) + (x < m ? (m - x) * lnBase : 0),
			up: (x) => ((m - x) / (x + 1)) * (head / base),
		};
	}
	const lnAll = lnChoose(all, m);
	return {
		mean: m * p,
		variance: all > 1 ? (m * p * (1 - p) * (all - m)) / (all - 1) : 0,
		min: Math.max(0, m - base),
		max: Math.min(m, head),
		ln: (x) => lnChoose(head, x) + lnChoose(base, m - x) - lnAll,
		up: (x) => ((head - x) / (x + 1)) * ((m - x) / (base - m + x + 1)),
	};
}

const NORMAL_VARIANCE = 1e6; // from here on the normal distribution is as good, and the sum would be long

/** How likely two counts differ at least this much if nothing changed, two-sided. Of shares, the sides are whole numbers. */
export function pValue(base: number, head: number, sides: Sides): number {
	const m = base + head;
	if (m === 0 || !(sides.base > 0) || !(sides.head > 0)) return 1;
	const split = splitOf(m, sides);
	const upwards = head >= split.mean;
	if (split.variance > NORMAL_VARIANCE) return Math.min(1, 2 * normalAbove(Math.abs(head - split.mean) / Math.sqrt(split.variance)));
	const at = Math.exp(split.ln(head));
	let tail = at / 2;
	let term = at;
	if (upwards) for (let x = head; x < split.max && term > tail * 1e-16; x++) tail += term *= split.up(x);
	else for (let x = head; x > split.min && term > tail * 1e-16; x--) tail += term /= split.up(x - 1);
	return Math.min(1, 2 * tail);
}

/** The least that pValue() can be for counts of this sum. */
export function leastPValue(sum: number, sides: Sides): number {
	if (sum === 0 || !(sides.base > 0) || !(sides.head > 0)) return 1;
	const split = splitOf(sum, sides);
	return Math.min(1, Math.exp(Math.min(split.ln(split.min), split.ln(split.max))));
}

// Of a million nodes most have a few samples, and so one of a few values.
const FEW = 256;

function remembered(of: (a: number, b: number) => number): (a: number, b?: number) => number {
	const known = new Float64Array(FEW * FEW).fill(-1);
	return (a, b = 0) => {
		if (a >= FEW || b >= FEW) return of(a, b);
		const at = a * FEW + b;
		if (known[at] < 0) known[at] = of(a, b);
		return known[at];
	};
}

/**
 * Which rows have changed: 1 where base and head differ by more than noise, of all rows together. Counts are whole numbers.
 * A row whose `skip` is set is not tested.
 */
export function findChanged(base: ArrayLike<number>, head: ArrayLike<number>, sides: Sides, skip: Uint8Array | null = null, q = FALSE_CHANGES): Uint8Array {
	const rows = base.length;
	const changed = new Uint8Array(rows);
	const leastOf = remembered((sum) => leastPValue(sum, sides));
	const pOf = remembered((base, head) => pValue(base, head, sides));
	const candidates: number[] = [];
	for (let i = 0; i < rows; i++) if (!skip?.[i] && leastOf(base[i] + head[i]) <= q) candidates.push(i);
	// Tarone: the smallest K such that no more than K rows could reach q / K.
	const reach = Float64Array.from(candidates, (i) => leastOf(base[i] + head[i])).sort();
	let tests = 1;
	for (let able = reach.length; ; tests++) {
		while (able > 0 && reach[able - 1] > q / tests) able--;
		if (able <= tests) break;
	}
	const tested = candidates.filter((i) => leastOf(base[i] + head[i]) <= q / tests);
	const p = Float64Array.from(tested, (i) => pOf(base[i], head[i]));
	const sorted = p.slice().sort();
	let limit = -1;
	for (let r = 0; r < sorted.length; r++) if (sorted[r] <= (q * (r + 1)) / sorted.length) limit = sorted[r];
	tested.forEach((row, j) => (changed[row] = p[j] <= limit ? 1 : 0));
	return changed;
}

// ---- for people --------------------

export interface ShareInterval extends Range {
	share: number;
	count: number; // of samples, by the period
	text: string; // "12.3% ± 0.8"; "0.01% (0.002–0.05)" where the two sides differ
}

// With as many places as the step deserves: one digit of it, two where the first would be rounded coarsely.
function percent(share: number, step: number): string {
	const magnitude = Math.floor(Math.log10(Math.max(step * 100, 1e-6)));
	const leading = (step * 100) / 10 ** magnitude;
	return (100 * share).toFixed(Math.min(6, Math.max(0, (leading < 3 ? 1 : 0) - magnitude)));
}

/** The share of a value with its 95% interval. Null when there is nothing to say: no total, or no period to count samples by. */
export function shareInterval(value: number, total: number, period: number): ShareInterval | null {
	const n = Math.round(total / period);
	if (!(period > 0) || !(total > 0) || !(n >= 1) || !(value >= 0)) return null;
	const k = Math.min(n, Math.round(value / period));
	const { low, high } = wilson(k, n);
	const share = Math.min(1, value / total);
	const half = Math.max(high - share, share - low);
	const even = Math.min(high - share, share - low) > 0.8 * half;
	const text = even ? `${percent(share, half)}% ± ${percent(half, half)}` : `${percent(share, half)}% (${percent(low, half)}–${percent(high, half)})`;
	return { share, count: k, low, high, text };
}
