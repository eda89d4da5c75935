// SPDX-License-Identifier: Apache-2.0
/*
 * What of a page in a file is chosen, and its form in the URL's fragment: that of the server's page (../state.ts), and
 *
 *   type     which value, by number        threads  THREAD.THREAD...: by their places on the time line
 *   t        FROM-TO, ns since the start   during   name of spans
 *   group    span                          marker   a marker, by its place
 *   show     FROM-TO: what of the time is in view
 *   markers  table: the table of markers is open        mfind, msort  its filter, and order (a leading - turns it round)
 *   fold     the time line is folded away      heat     1: the subsecond heatmap is open
 *   part     FROM-TO, ns since the start of each of its columns: that part of each
 *
 * A page in a file has no other part of the URL to itself; not every browser lets it change even that, and then the state lasts
 * as long as the page.
 */
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { formatState, parseState, type PageState } from '../state/page';
import type { SetState } from '../ui/hooks';

export type MarkerSort = 'start' | 'duration' | 'name' | 'thread';
export type Range = [number, number];

export interface TimeState {
	type: number; // -1 = the profile's choice
	threads: number[];
	range: Range | null;
	part: Range | null; // of each column of the heatmap
	during: string;
	bySpan: boolean;
	marker: number; // -1 = none
	view: Range | null; // null = all
	table: boolean;
	mfind: string;
	msort: MarkerSort;
	mreverse: boolean;
	folded: boolean;
	heat: boolean;
}
export type SetTime = (patch: Partial<TimeState>, how?: 'push' | 'replace') => void;

export const TIME_DEFAULTS: TimeState = {
	type: -1,
	threads: [],
	range: null,
	part: null,
	during: '',
	bySpan: false,
	marker: -1,
	view: null,
	table: false,
	mfind: '',
	msort: 'start',
	mreverse: false,
	folded: false,
	heat: false,
};

const SORTS: readonly MarkerSort[] = ['start', 'duration', 'name', 'thread'];

function parseRange(text: string): Range | null {
	const match = /^(\d{1,16})-(\d{1,16})$/.exec(text);
	const range: Range | null = match && [Number(match[1]), Number(match[2])];
	return range && range[0] < range[1] ? range : null;
}

/** Without what the time line of another file had: a link may be opened with a newer one. */
export function fitTimeState(state: TimeState, t: { length: number; markerCount: number; threads: unknown[] } | null): TimeState {
	if (!t) return state;
	const threads = state.threads.filter((i) => i < t.threads.length);
	const within = (range: Range | null) => (range && range[0] < t.length ? range : null);
	const marker = state.marker < t.markerCount ? state.marker : -1;
	// Lists stay the same ones as long as nothing has to go, for what is made of them is kept by that.
	return {
		...state,
		threads: threads.length < state.threads.length ? threads : state.threads,
		range: within(state.range),
		view: within(state.view),
		marker,
	};
}

const parsePlace = (text: string): number => (/^\d{1,9}$/.test(text) ? Number(text) : -1);

export function parseTimeState(hash: string): TimeState {
	const params = new URLSearchParams(hash.replace(/^#/, ''));
	const get = (name: string) => params.get(name) ?? '';
	const sort = get('msort').replace(/^-/, '') as MarkerSort;
	return {
		type: parsePlace(get('type')),
		threads: /^\d{1,7}(\.\d{1,7}){0,999}$/.test(get('threads')) ? get('threads').split('.').map(Number) : [],
		range: parseRange(get('t')),
		part: parseRange(get('part')),
		during: get('during'),
		bySpan: get('group') === 'span',
		marker: parsePlace(get('marker')),
		view: parseRange(get('show')),
		table: get('markers') === 'table',
		mfind: get('mfind'),
		msort: SORTS.includes(sort) ? sort : 'start',
		mreverse: get('msort').startsWith('-'),
		folded: get('fold') === '1',
		heat: get('heat') === '1',
	};
}

export function formatTimeState(state: TimeState): string {
	const params = new URLSearchParams();
	const put = (name: string, value: string) => value !== '' && params.set(name, value);
	const range = (r: Range | null) => (r ? `${Math.round(r[0])}-${Math.round(r[1])}` : '');
	put('type', state.type < 0 ? '' : String(state.type));
	put('threads', state.threads.join('.'));
	put('t', range(state.range));
	put('part', range(state.part));
	put('during', state.during);
	put('group', state.bySpan ? 'span' : '');
	put('marker', state.marker < 0 ? '' : String(state.marker));
	put('show', range(state.view));
	put('markers', state.table ? 'table' : '');
	put('mfind', state.mfind);
	const sort = (state.mreverse ? '-' : '') + state.msort;
	put('msort', sort === 'start' ? '' : sort);
	put('fold', state.folded ? '1' : '');
	put('heat', state.heat ? '1' : '');
	return params.toString();
}

interface Both {
	page: PageState;
	time: TimeState;
}

const parse = (): Both => ({ page: parseState(location.hash.replace(/^#/, '?')), time: parseTimeState(location.hash) });

function format({ page, time }: Both): string {
	const parts = [formatState(page).replace(/^\?/, ''), formatTimeState(time)].filter((part) => part !== '');
	return parts.length > 0 ? '#' + parts.join('&') : '';
}

export function useFragmentState(): [PageState, SetState, TimeState, SetTime] {
	const [both, setBoth] = useState(parse);
	const current = useRef(both);
	useEffect(() => {
		const back = () => setBoth((current.current = parse()));
		addEventListener('popstate', back);
		addEventListener('hashchange', back);
		return () => {
			removeEventListener('popstate', back);
			removeEventListener('hashchange', back);
		};
	}, []);
	const change = useCallback((next: Both, how: 'push' | 'replace') => {
		const [was, is] = [format(current.current), format(next)];
		if (was === is) return;
		current.current = next;
		try {
			const url = is || '#';
			if (how === 'push') history.pushState(null, '', url);
			else history.replaceState(null, '', url);
		} catch {
			// not allowed here
		}
		setBoth(next);
	}, []);
	const set = useCallback<SetState>((patch, how = 'push') => change({ ...current.current, page: { ...current.current.page, ...patch } }, how), [change]);
	const setTime = useCallback<SetTime>((patch, how = 'push') => change({ ...current.current, time: { ...current.current.time, ...patch } }, how), [change]);
	return [both.page, set, both.time, setTime];
}
