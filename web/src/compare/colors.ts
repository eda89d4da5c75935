// SPDX-License-Identifier: Apache-2.0
/*
 * Colours of change: orange for more, blue for less, and grey where the difference is within the noise. The two are as far apart for
 * people who cannot tell red from green, and the deeper the larger the change is; lightness stays within what one text colour
 * reads on. New and gone are the ends of the two scales: all of it has changed.
 */
import { CHANGE } from '../model/diff';
import { oklch, type FrameColors, type Palette } from '../ui/colors';
import type { Comparison, Drawn } from './model';

const ORANGE = 58;
const BLUE = 250;
const STEPS = 12; // number of shades; more cannot be distinguished

/** share: how much of the larger of the two values has changed, 0 to 1. */
export function changeColor(change: number, share: number, dark: boolean): string {
	if (change === CHANGE.noise || change === CHANGE.unknown) return dark ? '#3b3835' : '#e3dfd9';
	const more = change === CHANGE.more || change === CHANGE.fresh;
	const depth = Math.ceil(Math.min(1, Math.max(0, share)) * STEPS) / STEPS;
	const lightness = dark ? 0.36 + 0.15 * depth : 0.92 - 0.17 * depth;
	return oklch(lightness, 0.03 + 0.1 * depth, more ? ORANGE : BLUE);
}

/** Of both sides, in charts and beside their names. */
export const sideColor = (side: 'base' | 'head', dark: boolean): string => changeColor(side === 'head' ? CHANGE.fresh : CHANGE.gone, 1, dark);

export function changeColors(comparison: Comparison, drawn: Drawn, dark: boolean): (palette: Palette) => FrameColors {
	const { diff, changes } = comparison;
	const cache = new Map<number, string>();
	return (palette) => ({
		of(node) {
			const i = drawn.union[node];
			const change = changes[i];
			if (change === CHANGE.unknown) return palette.tail;
			const [base, head] = [diff.baseTotal[i] * diff.scale, diff.headTotal[i]];
			const share = Math.abs(head - base) / Math.max(base, head, Number.MIN_VALUE);
			const id = change * 64 + Math.ceil(share * STEPS);
			let color = cache.get(id);
			if (!color) cache.set(id, (color = changeColor(change, share, dark)));
			return color;
		},
	});
}
