// SPDX-License-Identifier: Apache-2.0
// The way to the comparison of a selection before and after something happened, in one place.
import type { Span } from './brush';
import { pipeline } from './overview';
import type { PageState } from './state';

const ROWS = 100;

/** What changed in `query` (a selector) from `before` (the base) to `after`. */
export function compareLink(query: string, before: Span, after: Span): Partial<PageState> {
	return {
		view: 'console',
		run: pipeline(query, `diff (from ${Math.round(before.from)} to ${Math.round(before.to)})`, `top ${ROWS}`),
		from: String(Math.round(after.from)),
		to: String(Math.round(after.to)),
		sel: null,
	};
}
