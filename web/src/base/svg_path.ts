// SPDX-License-Identifier: Apache-2.0
/** An SVG path of what piece() makes of each value, without the letter that begins it; a gap where a value is null. */
export function svgPath(values: readonly (number | null)[], piece: (value: number, i: number) => string): string {
	const before = (i: number) => values[i - 1] ?? null;
	return values.map((value, i) => (value === null ? '' : `${before(i) === null ? 'M' : 'L'}${piece(value, i)}`)).join('');
}
