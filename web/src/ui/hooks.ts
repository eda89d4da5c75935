// SPDX-License-Identifier: Apache-2.0
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { ApiError, apiGet, retrySeconds, type Params } from '../api/client';
import { formatState, keepsFragment, parseState, type PageState } from '../state/page';

export type Patch = Partial<PageState>;
// how: 'push' makes a history entry, 'replace' changes the present one
export type SetState = (patch: Patch, how?: 'push' | 'replace') => void;

export function useUrlState(): [PageState, SetState] {
	const [state, setState] = useState(() => parseState(location.search));
	const current = useRef(state);
	useEffect(() => {
		const back = () => {
			current.current = parseState(location.search);
			setState(current.current);
		};
		addEventListener('popstate', back);
		return () => removeEventListener('popstate', back);
	}, []);
	const set = useCallback<SetState>((patch, how = 'push') => {
		const next = { ...current.current, ...patch };
		const [was, is] = [formatState(current.current), formatState(next)];
		if (was === is) return;
		const url = location.pathname + is + (keepsFragment(current.current, next, how) ? location.hash : '');
		current.current = next;
		if (how === 'push') history.pushState(null, '', url);
		else history.replaceState(null, '', url);
		setState(next);
	}, []);
	return [state, set];
}

export interface Resource<T> {
	data: T | null; // the latest response, kept while the next one loads or after it failed
	of: string | null; // the request of data
	error: ApiError | null;
	loading: boolean;
	stale: boolean; // data is of an older request
}

type Response<T> = Omit<Resource<T>, 'stale'>;
const EMPTY: Response<never> = { data: null, of: null, error: null, loading: false };

/*
 * A response of the API, requested again whenever the request or `nonce` changes. A newer request cancels the older; what
 * was there stays until the new response is there. A request that failed is repeated, while the page is in front (retrySeconds()).
 * path null = no request.
 */
export function useApi<T, R = T>(path: string | null, params: Params, nonce: number, convert?: (response: T) => R): Resource<R> {
	const request = path === null ? null : JSON.stringify([path, params]);
	const [resource, setResource] = useState<Response<R>>(request ? { ...EMPTY, loading: true } : EMPTY);
	const [again, setAgain] = useState(0);
	const failures = useRef(0);
	useLayoutEffect(() => {
		if (path === null || request === null) {
			setResource((r) => (r.loading || r.error ? { ...r, loading: false, error: null } : r));
			return undefined;
		}
		const abort = new AbortController();
		setResource((r) => ({ ...r, loading: true }));
		apiGet<T>(path, params, abort.signal)
			.then((response) => {
				const data = convert ? convert(response) : (response as unknown as R);
				if (abort.signal.aborted) return;
				failures.current = 0;
				setResource({ data, of: request, error: null, loading: false });
			})
			.catch((error: unknown) => {
				if (abort.signal.aborted) return;
				const known = error instanceof ApiError ? error : new ApiError(error instanceof Error ? error.message : String(error), 502);
				failures.current++;
				setResource((r) => ({ ...r, error: known, loading: false }));
			});
		return () => abort.abort();
		// eslint-disable-next-line react-hooks/exhaustive-deps -- request is path and params as text; what converts is the same each time
	}, [request, nonce, again]);
	const { error, loading } = resource;
	useEvery(error && !loading ? retrySeconds(error.status, failures.current) : 0, () => setAgain((n) => n + 1));
	return { ...resource, stale: resource.data !== null && resource.of !== request };
}

// Behind the next frame; without one (the page is hidden) a second later. Returns what calls it off.
function afterPaint(run: () => void): () => void {
	let timer = setTimeout(run, 1000);
	const frame = requestAnimationFrame(() => {
		clearTimeout(timer);
		timer = setTimeout(run);
	});
	return () => {
		cancelAnimationFrame(frame);
		clearTimeout(timer);
	};
}

/*
 * What is made of `of`, but after the screen has been painted with it, if that takes long: until then it is what was made of the one
 * before (null at first), and says of which. `quick`: at once.
 */
export function useLater<K, V>(of: K, quick: boolean, make: (of: K) => V): { of: K; value: V } | null {
	const [later, setLater] = useState<{ of: K; value: V } | null>(null);
	// eslint-disable-next-line react-hooks/exhaustive-deps -- what makes it is the same each time
	const now = useMemo(() => (quick ? { of, value: make(of) } : null), [of, quick]);
	useEffect(() => {
		if (quick) {
			setLater(null);
			return undefined;
		}
		return afterPaint(() => setLater({ of, value: make(of) }));
		// eslint-disable-next-line react-hooks/exhaustive-deps -- likewise
	}, [of, quick]);
	return now ?? later;
}

// The size of an element in CSS pixels, [0, 0] until it is known.
export function useSize<E extends HTMLElement>(): [(element: E | null) => void, number, number] {
	const [size, setSize] = useState<[number, number]>([0, 0]);
	const observer = useRef<ResizeObserver | null>(null);
	const ref = useCallback((element: E | null) => {
		observer.current?.disconnect();
		observer.current = null;
		if (!element) return;
		const measure = () => {
			const next: [number, number] = [element.clientWidth, element.clientHeight];
			setSize((was) => (was[0] === next[0] && was[1] === next[1] ? was : next));
		};
		observer.current = new ResizeObserver(measure);
		observer.current.observe(element);
		measure();
	}, []);
	return [ref, size[0], size[1]];
}

export function useMedia(query: string): boolean {
	const [matches, setMatches] = useState(() => matchMedia(query).matches);
	useEffect(() => {
		const list = matchMedia(query);
		const change = () => setMatches(list.matches);
		change();
		list.addEventListener('change', change);
		return () => list.removeEventListener('change', change);
	}, [query]);
	return matches;
}

export function useDebounced<T>(value: T, ms: number): T {
	const [settled, setSettled] = useState(value);
	useEffect(() => {
		const timer = setTimeout(() => setSettled(value), ms);
		return () => clearTimeout(timer);
	}, [value, ms]);
	return settled;
}

// What this browser had last, or the fallback; kept for the next visit, where storage is allowed.
export function useStored(key: string, fallback: string): [string, (value: string) => void] {
	const [value, setValue] = useState(() => {
		try {
			return localStorage.getItem(key) ?? fallback;
		} catch {
			return fallback;
		}
	});
	const set = useCallback(
		(next: string) => {
			setValue(next);
			try {
				localStorage.setItem(key, next);
			} catch {
				// forbidden: the choice lasts as long as the page
			}
		},
		[key],
	);
	return [value, set];
}

// Calls back every `seconds` while the page is in front; at once when it comes back after a longer absence. 0 = never.
export function useEvery(seconds: number, callback: () => void): void {
	const latest = useRef(callback);
	latest.current = callback;
	useEffect(() => {
		if (seconds <= 0) return undefined;
		let last = Date.now();
		const tick = () => {
			if (document.hidden || Date.now() - last < seconds * 1000 - 50) return;
			last = Date.now();
			latest.current();
		};
		const timer = setInterval(tick, Math.min(seconds * 1000, 1000));
		document.addEventListener('visibilitychange', tick);
		return () => {
			clearInterval(timer);
			document.removeEventListener('visibilitychange', tick);
		};
	}, [seconds]);
}
