// SPDX-License-Identifier: Apache-2.0
/*
 * One profile of a gauge by itself: the time of the last one before a time, or of the first one after it. The server lists no profiles,
 * but its values over time have no point where there was none, so the range is searched in ever shorter steps, down to a millisecond.
 */
const PARTS = 200; // of a range; three or four requests for any of hours or days

/** The times (ms) of the steps with data. The server widens the range to whole steps. */
export type FetchSteps = (fromMs: number, toMs: number, stepMs: number) => Promise<number[]>;

/** In [fromMs, toMs); the millisecond of the profile, null if there is none. */
export async function findScrape(fetchSteps: FetchSteps, fromMs: number, toMs: number, last: boolean): Promise<number | null> {
	if (!(fromMs < toMs)) return null;
	const step = Math.max(1, Math.ceil((toMs - fromMs) / PARTS));
	const steps = (await fetchSteps(fromMs, toMs, step)).filter((at) => at + step > fromMs && at < toMs).sort((a, b) => (last ? b - a : a - b));
	if (step === 1) return steps[0] ?? null;
	// Of a step at the edge, what lies beyond it is not meant, and there may be nothing else in it.
	for (const at of steps.slice(0, 3)) {
		const found = await findScrape(fetchSteps, Math.max(at, fromMs), Math.min(at + step, toMs), last);
		if (found !== null) return found;
	}
	return null;
}
