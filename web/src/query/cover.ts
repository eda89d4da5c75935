// SPDX-License-Identifier: Apache-2.0
/*
 * How much of a range has data. A relative range ("the last hour") that begins before the first data is clipped to them: a server that is
 * minutes old shows minutes, and its rates are of these. A range with an absolute beginning was chosen, so it stays, and its views say
 * where data begin.
 */
import type { TypesResponse } from '../api/responses';
import { isRelative } from '../state/page';
import type { Resource } from '../ui/hooks';

export interface Cover {
	from: string; // as requests have it
	to: string;
	begin: number | null; // unix ms: the first data, where the range begins earlier; null = it does not, or nothing is known
	clipped: boolean; // `from` is where data begin
	known: boolean; // false: requests wait for what decides it
}

/** When data of a type ("" = of any) begin within the range that the server has responded for; null = not after its beginning. */
export function beginOf(response: TypesResponse | null, type: string): number | null {
	if (!response) return null;
	const { from_ms: from, to_ms: to, types } = response;
	const firsts = types.filter((one) => type === '' || one.name === type).map((one) => one.first_ms);
	const first = firsts.reduce((least, ms) => Math.min(least, ms), Infinity);
	return first > from && first < to ? first : null;
}

const WHOLE_MS = 1000; // so that the first sample is in
const LEAST_MS = 60_000; // of a server that has just started: room for a few steps

// Where a range begins that is clipped to data from `begin` on; null = earlier than it does anyway.
function clippedFrom(begin: number, { from_ms: from, to_ms: to }: TypesResponse): number | null {
	const clipped = Math.floor(Math.min(begin, to - LEAST_MS) / WHOLE_MS) * WHOLE_MS;
	return clipped > from ? clipped : null;
}

/** `types` is the response for this very range. */
export function coverOf(from: string, to: string, types: Pick<Resource<TypesResponse>, 'data' | 'stale' | 'error'>, type: string): Cover {
	const current = types.data !== null && !types.stale;
	const begin = current ? beginOf(types.data, type) : null;
	const clipped = begin !== null && isRelative(from) ? clippedFrom(begin, types.data!) : null;
	return {
		from: clipped === null ? from : String(clipped),
		to,
		begin,
		clipped: clipped !== null,
		known: current || types.error !== null || !isRelative(from),
	};
}
