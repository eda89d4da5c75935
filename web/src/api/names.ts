// SPDX-License-Identifier: Apache-2.0
/*
 * Symbols that arrive late. A response has the number of addresses that are not symbolized yet; the same request is then sent
 * again, about the same time range, so that nothing changes but symbols: after 1 s, with growing pauses up to 5 s, for 2 minutes,
 * and not while nobody looks.
 */
import { useEffect, useState } from 'preact/hooks';
import type { QueryResponse } from './responses';
import { apiGet } from './client';

const FIRST_MS = 1000;
const LONGEST_MS = 5000;
const GROWTH = 1.4;
const PATIENCE_MS = 120_000;

/** The pauses before each new question, in ms. */
export function pauses(): number[] {
	const all: number[] = [];
	for (let next = FIRST_MS, sum = 0; sum + next <= PATIENCE_MS; next = Math.min(LONGEST_MS, next * GROWTH)) {
		all.push(next);
		sum += next;
	}
	return all;
}

function sleep(ms: number, signal: AbortSignal): Promise<void> {
	return new Promise((resolve) => {
		const timer = setTimeout(resolve, ms);
		signal.addEventListener('abort', () => {
			clearTimeout(timer);
			resolve();
		});
	});
}

function untilVisible(signal: AbortSignal): Promise<void> {
	if (!document.hidden) return Promise.resolve();
	return new Promise((resolve) => {
		const look = () => {
			if (document.hidden && !signal.aborted) return;
			document.removeEventListener('visibilitychange', look);
			resolve();
		};
		document.addEventListener('visibilitychange', look);
		signal.addEventListener('abort', look);
	});
}

const pendingOf = (response: QueryResponse) => response.symbols?.pending ?? 0;

/**
 * The response, or the latest one to the same request that has more symbols. `params` are those of the request but for its
 * range. `gaveUp`: symbols are still missing, and the page has stopped polling.
 */
export function useNamedResponse(response: QueryResponse | null, params: Record<string, string>): { response: QueryResponse | null; gaveUp: boolean } {
	const [later, setLater] = useState<{ of: QueryResponse; response: QueryResponse; gaveUp: boolean } | null>(null);
	useEffect(() => {
		if (!response || pendingOf(response) === 0) return undefined;
		const abort = new AbortController();
		const { signal } = abort;
		const range = { from: response.from_ms, to: response.to_ms };
		const run = async () => {
			let latest = response;
			for (const pause of pauses()) {
				await sleep(pause, signal);
				await untilVisible(signal);
				if (signal.aborted) return;
				try {
					const next = await apiGet<QueryResponse>('query', { ...params, ...range, symbols_wait: '1s' }, signal);
					if (signal.aborted) return;
					if (pendingOf(next) < pendingOf(latest)) setLater({ of: response, response: next, gaveUp: false });
					latest = next;
				} catch {
					if (signal.aborted) return; // otherwise the next time may be better
				}
				if (pendingOf(latest) === 0) return;
			}
			setLater({ of: response, response: latest, gaveUp: true });
		};
		void run();
		return () => abort.abort();
		// eslint-disable-next-line react-hooks/exhaustive-deps -- the parameters are those of the response
	}, [response]);
	return later && later.of === response ? later : { response, gaveUp: false };
}
