// SPDX-License-Identifier: Apache-2.0
/*
 * Requests without a response yet, of all parts of the page: so that one place can report that they take
 * long, and offer to cancel them.
 */
export interface Pending {
	since: number; // ms, of performance.now()
	cancel: () => void;
}

const pending = new Set<Pending>();
const listeners = new Set<() => void>();

/** To be called when the request is over, however it ends. */
export function begin(cancel: () => void): () => void {
	const one = { since: performance.now(), cancel };
	const notify = () => listeners.forEach((listener) => listener());
	pending.add(one);
	notify();
	return () => {
		if (pending.delete(one)) notify();
	};
}

/** Is called whenever a request begins or ends; returns what ends that. */
export function onPending(listener: () => void): () => void {
	listeners.add(listener);
	return () => void listeners.delete(listener);
}

/** How long the oldest request has been waiting, in ms; null = there is none. */
export function waitingMs(now = performance.now()): number | null {
	let oldest: number | null = null;
	for (const { since } of pending) oldest = oldest === null ? now - since : Math.max(oldest, now - since);
	return oldest;
}

/** Gives up those that have been waiting for that long. */
export function cancelOlder(ms: number, now = performance.now()): void {
	for (const one of [...pending]) if (now - one.since >= ms) one.cancel();
}
