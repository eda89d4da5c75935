// SPDX-License-Identifier: Apache-2.0
// Compared values as people read them: cores, values a second, or shares of the totals, with the sign and the interval of a change.
import { digits, formatValue, seriesScale } from '../base/format';
import * as T from '../base/texts';
import { lengthOf } from '../model/diff';
import { changeBetween, comparable, type Changed, type Comparison } from './model';

export interface Figures {
	unit: string; // of all values, for the heads of columns; "" = each has its own
	base: (value: number) => string; // of a value as it was measured
	head: (value: number) => string;
	between: (base: number, head: number) => Changed;
	change: (changed: Changed) => string; // "+0.12"
	interval: (changed: Changed) => string; // "+0.08 to +0.16"; "" = not known
	margin: (changed: Changed) => string; // "± 0.04", or the interval where its sides are uneven
}

const sign = (value: number, text: (size: number) => string): string => {
	const shown = text(Math.abs(value));
	// What rounds to nothing has no sign.
	return /[1-9]/.test(shown) ? (value < 0 ? '−' : '+') + shown : shown;
};

const points = (share: number): string => {
	const percent = 100 * share;
	return percent === 0 ? '0' : percent < 0.001 ? '<0.001' : percent.toFixed(percent < 0.1 ? 3 : percent < 9.995 ? 2 : 1);
};

/** "+12%", "×34"; "" of what was not there before. */
export function formatRatio(ratio: number): string {
	if (!Number.isFinite(ratio)) return '';
	if (ratio >= 10) return `×${digits(ratio + 1)}`;
	const percent = Math.abs(100 * ratio);
	if (percent < 0.05) return '0%';
	return sign(ratio, () => `${percent.toFixed(percent < 9.95 ? 1 : 0)}%`);
}

/** type, unit: of the responses. */
export function figuresOf(of: Pick<Comparison, 'base' | 'head' | 'mode'>, type: string, unit: string): Figures {
	const scale = seriesScale(type, unit, 1000);
	const share = of.mode === 'share';
	const summed = type.endsWith(':delta');
	// Gauges (memory in use) are shown as they are, and what is of no known duration as it was measured, the base by the head's length.
	const plain = (value: number) => formatValue(Math.round(value * lengthOf(of.head)), unit);
	const shown = (value: number) => (share ? points(value) : summed ? scale.format(scale.of(value)) : plain(value));
	const figure = (value: number) => (share ? `${shown(value)}%` : shown(value));
	const signed = (value: number) => sign(value, shown);
	const fromTo = ({ low, high }: { low: number; high: number }) => T.compare.fromTo(signed(low), signed(high));
	return {
		unit: share ? '%' : summed ? scale.name : '',
		base: (value) => figure(comparable(of, value, 0)[0]),
		head: (value) => figure(comparable(of, 0, value)[1]),
		between: (base, head) => changeBetween(of, base, head),
		change: ({ by }) => signed(by) + (share ? ` ${T.compare.points}` : ''),
		interval: ({ interval }) => (interval ? fromTo(interval) : ''),
		margin: ({ interval }) => {
			if (!interval) return '';
			const [below, above] = [interval.value - interval.low, interval.high - interval.value];
			const larger = Math.max(below, above);
			return Math.min(below, above) > 0.8 * larger ? `± ${shown(larger)}` : fromTo(interval);
		},
	};
}
