// SPDX-License-Identifier: Apache-2.0
/*
 * Names that come late. An answer says how many of its addresses are still being looked up; the same question is then asked
 * again, about the same time range, so that nothing changes but names: after 1 s, with growing pauses up to 5 s, for 2 minutes,
 * and not while nobody looks.
 */
import { useEffect, useState } from 'preact/hooks';
import type { QueryAnswer } from './answers';
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

const pendingOf = (answer: QueryAnswer) => answer.symbols?.pending ?? 0;

/**
 * The answer, or the latest one to the same question that knows more names. `params` are those of the question but for its
 * range. `gaveUp`: names are still being looked up, and nobody asks any more.
 */
export function useNamedAnswer(answer: QueryAnswer | null, params: Record<string, string>): { answer: QueryAnswer | null; gaveUp: boolean } {
	const [later, setLater] = useState<{ of: QueryAnswer; answer: QueryAnswer; gaveUp: boolean } | null>(null);
	useEffect(() => {
		if (!answer || pendingOf(answer) === 0) return undefined;
		const abort = new AbortController();
		const { signal } = abort;
		const range = { from: answer.from_ms, to: answer.to_ms };
		const run = async () => {
			let latest = answer;
			for (const pause of pauses()) {
				await sleep(pause, signal);
				await untilVisible(signal);
				if (signal.aborted) return;
				try {
					const next = await apiGet<QueryAnswer>('query', { ...params, ...range, symbols_wait: '1s' }, signal);
					if (signal.aborted) return;
					if (pendingOf(next) < pendingOf(latest)) setLater({ of: answer, answer: next, gaveUp: false });
					latest = next;
				} catch {
					if (signal.aborted) return; // otherwise the next time may be better
				}
				if (pendingOf(latest) === 0) return;
			}
			setLater({ of: answer, answer: latest, gaveUp: true });
		};
		void run();
		return () => abort.abort();
		// eslint-disable-next-line react-hooks/exhaustive-deps -- the parameters are those of the answer
	}, [answer]);
	return later && later.of === answer ? later : { answer, gaveUp: false };
}
