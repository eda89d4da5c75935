// SPDX-License-Identifier: Apache-2.0
// The build-ids that came with a tree, by binary. They are from outside: what is no such list is left out.

export interface BuildIds {
	ids: string[];
	count: number; // how many there are; not all need be here
}

const IDS_MAX = 16;
const ID_MAX = 128; // characters
const BINARIES_MAX = 100_000;

export function buildIdsOf(binaries: unknown): Map<string, BuildIds> {
	const found = new Map<string, BuildIds>();
	if (!Array.isArray(binaries)) return found;
	for (const entry of binaries.slice(0, BINARIES_MAX)) {
		const { binary, build_ids, count } = (entry ?? {}) as { binary?: unknown; build_ids?: unknown; count?: unknown };
		if (typeof binary !== 'string' || !Array.isArray(build_ids)) continue;
		const ids = build_ids.filter((id): id is string => typeof id === 'string' && id !== '' && id.length <= ID_MAX).slice(0, IDS_MAX);
		if (ids.length > 0) found.set(binary, { ids, count: typeof count === 'number' && Number.isSafeInteger(count) ? Math.max(ids.length, count) : ids.length });
	}
	return found;
}

const SHORT = 12; // characters, where there are several
const SHOWN = 3;

/** One whole; of several the beginnings of the first few. more: how many are not among them. */
export function shownIds({ ids, count }: BuildIds): { ids: string[]; more: number } {
	if (count === 1) return { ids, more: 0 };
	const shown = ids.slice(0, SHOWN);
	return { ids: shown.map((id) => id.slice(0, SHORT)), more: count - shown.length };
}
