// SPDX-License-Identifier: Apache-2.0
/*
 * What of the URL belongs to a comparison. The head, B, is the page's own selector and range (q, from, to, sel), so the way from a
 * profile to a comparison and back changes nothing of it; the base, A, is described by how it differs:
 *
 *   base        its selector; absent: the head's
 *   before      how much earlier than the head it is: a duration; length: as much as the head is long, so that it ends where the head begins;
 *               0: the same time; absent: 1d, or 0 if there is a `base`
 *   bfrom, bto  its range, as from and to; both or none; they win over `before`
 *   relative    1: shares of the two totals are compared, not values a second
 *   show        both, graph, sides (two graphs), table; absent: what fits the screen
 *   width       of the boxes of the one graph: base, head; absent: the mean of both
 *   of          total: the table is of totals; absent: of self values
 *   order       of the table: change (default), base, head, percent, state, name; a leading - turns it round
 *   only        changes that the table has: more, less, new, gone, noise, unknown; separated by commas; absent: all
 */

/** Of `before`: the same length of time, immediately before. */
export const JUST_BEFORE = 'length';

export const SHOWS = ['both', 'graph', 'sides', 'table'] as const;
export type Show = (typeof SHOWS)[number];
export const WIDTHS = ['mean', 'base', 'head'] as const;
export type Width = (typeof WIDTHS)[number];
export const ORDERS = ['change', 'base', 'head', 'percent', 'state', 'name'] as const;
export type Order = (typeof ORDERS)[number];
/** In the order of CHANGE in model/diff.ts. */
export const CHANGES = ['noise', 'more', 'less', 'new', 'gone', 'unknown'] as const;
export type ChangeName = (typeof CHANGES)[number];

export interface CompareState {
	base: string;
	before: string;
	bfrom: string;
	bto: string;
	relative: boolean;
	show: Show | ''; // '' = what fits the screen
	width: Width;
	of: 'self' | 'total';
	order: Order;
	reverse: boolean;
	only: ChangeName[]; // [] = all
}

export const NO_COMPARE: CompareState = {
	base: '',
	before: '',
	bfrom: '',
	bto: '',
	relative: false,
	show: '',
	width: 'mean',
	of: 'self',
	order: 'change',
	reverse: false,
	only: [],
};

const one = <T>(value: unknown, choices: readonly T[], otherwise: T): T => (choices.includes(value as T) ? (value as T) : otherwise);

export function parseCompare(params: URLSearchParams): CompareState {
	const get = (name: string) => params.get(name) ?? '';
	const order = get('order');
	const both = get('bfrom') !== '' && get('bto') !== '';
	const only = get('only').split(',');
	return {
		base: get('base'),
		before: /^(0|length|\d{1,9}(ms|s|m|h|d|w))$/.test(get('before')) ? get('before') : '',
		bfrom: both ? get('bfrom') : '',
		bto: both ? get('bto') : '',
		relative: get('relative') === '1',
		show: one(get('show'), SHOWS as readonly (Show | '')[], ''),
		width: one(get('width'), WIDTHS, 'mean'),
		of: get('of') === 'total' ? 'total' : 'self',
		order: one(order.replace(/^-/, ''), ORDERS, 'change'),
		reverse: order.startsWith('-'),
		only: CHANGES.filter((change) => only.includes(change)),
	};
}

/** Puts what is not at its default. */
export function formatCompare(state: CompareState, params: URLSearchParams): void {
	const put = (name: string, value: string, otherwise = '') => {
		if (value !== otherwise) params.set(name, value);
	};
	for (const name of ['base', 'before', 'bfrom', 'bto', 'show'] as const) put(name, state[name]);
	put('relative', state.relative ? '1' : '');
	put('width', state.width, NO_COMPARE.width);
	put('of', state.of, NO_COMPARE.of);
	put('order', (state.reverse ? '-' : '') + state.order, NO_COMPARE.order);
	put('only', state.only.join(','));
}
