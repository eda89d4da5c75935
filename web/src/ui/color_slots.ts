// SPDX-License-Identifier: Apache-2.0
/*
 * Which of the distinguishable colours a binary has. There are SLOTS of them: eight hues 28 degrees apart, each light and less light. A
 * name begins with the one of its hash, so that it has the same in every view and every browser; of two in one legend that have the same, the one
 * that costs less moves to a free one, and keeps that from then on. What moved is remembered for the next visit. Pure.
 */

const HUES = 8;
const HUE_FIRST = 122; // 20-75 (kernel), 88 (JIT) and 350 (interpreters) are taken
const HUE_STEP = 28;
export const SLOTS = 2 * HUES;
const REMEMBERED_MAX = 256;

export interface Slot {
	hue: number; // degrees
	down: 0 | 1; // 1: the less light one
}

export function slotOf(index: number): Slot {
	return { hue: HUE_FIRST + HUE_STEP * (index % HUES), down: index >= HUES ? 1 : 0 };
}

/**
 * Slots of the names of one legend, the costliest first, all different for up to SLOTS of them. known: what names had before. Names beyond
 * SLOTS have what they begin with.
 */
export function assignSlots(names: readonly string[], known: ReadonlyMap<string, number>, hash: (name: string) => number): Map<string, number> {
	const assigned = new Map<string, number>();
	const taken = new Set<number>();
	const first = names.slice(0, SLOTS);
	const take = (name: string, slot: number) => {
		assigned.set(name, slot);
		taken.add(slot);
	};
	// What a name has had counts more than what another one would begin with.
	for (const [holds, wanted] of [
		[(name: string) => known.has(name), (name: string) => known.get(name)!],
		[() => true, (name: string) => hash(name) % SLOTS],
	] as const) {
		for (const name of first) if (holds(name) && !assigned.has(name) && !taken.has(wanted(name))) take(name, wanted(name));
	}
	for (const name of first) {
		if (assigned.has(name)) continue;
		// An odd step leads through all slots.
		const [begin, step] = [hash(name) % SLOTS, 1 + 2 * ((hash(name) >>> 8) % (SLOTS / 2))];
		let slot = begin;
		while (taken.has(slot)) slot = (slot + step) % SLOTS;
		take(name, slot);
	}
	for (const name of names.slice(SLOTS)) if (!assigned.has(name)) assigned.set(name, known.get(name) ?? hash(name) % SLOTS);
	return assigned;
}

/** What was remembered, of a text that somebody else may have written. */
export function readSlots(text: string): Map<string, number> {
	try {
		const pairs = JSON.parse(text) as unknown;
		if (!Array.isArray(pairs)) return new Map();
		const isPair = (pair: unknown): pair is [string, number] =>
			Array.isArray(pair) && pair.length === 2 && typeof pair[0] === 'string' && Number.isInteger(pair[1]) && pair[1] >= 0 && pair[1] < SLOTS;
		return new Map(pairs.filter(isPair).slice(-REMEMBERED_MAX));
	} catch {
		return new Map();
	}
}

/** Those that do not have what they begin with, the latest last. */
export function writeSlots(slots: ReadonlyMap<string, number>, hash: (name: string) => number): string {
	return JSON.stringify([...slots].filter(([name, slot]) => slot !== hash(name) % SLOTS).slice(-REMEMBERED_MAX));
}
