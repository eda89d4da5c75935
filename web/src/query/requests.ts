// SPDX-License-Identifier: Apache-2.0
// The requests for the present state of the page.
import { useMemo } from 'preact/hooks';
import type { LabelsResponse, QueryResponse, SeriesResponse, StatusResponse, TypesResponse } from '../api/responses';
import type { ApiError } from '../api/client';
import { useNamedResponse } from '../api/names';
import { chooseStep, isListing, isWide, parseTime, type NamesChoice, type PageState } from '../state/page';
import { buildTree, type Tree } from '../tree/tree';
import { mergeUnnamed } from '../tree/unnamed';
import { useApi, useStored, type Resource, type SetState } from '../ui/hooks';
import { coverOf, type Cover } from './cover';
import { pipeline } from './pipeline';
import { formatSelector, parseSelector, withoutLabel, type Selector } from './selector';

const SERIES_ROWS = 100;

function parseQuery(text: string): { selector: Selector; fault: string | null } {
	try {
		return { selector: parseSelector(text), fault: null };
	} catch (error) {
		return { selector: { type: '', matchers: [] }, fault: (error as Error).message };
	}
}

export function defaultType(types: string[]): string {
	return types.find((t) => t.startsWith('process_cpu:cpu:')) ?? types.find((t) => t.startsWith('process_cpu:')) ?? types[0] ?? '';
}

// A selector may name a type by its first parts; of several that fit, the page takes the one that it would show first.
export function resolveType(wanted: string, types: string[]): string {
	if (wanted === '') return defaultType(types);
	if (types.includes(wanted)) return wanted;
	return defaultType(types.filter((t) => t.startsWith(wanted + ':'))) || wanted;
}

const BREAKDOWNS = ['process_executable_name', 'service_name', 'job', 'host_name'];

/** The label that costs are broken down by: the one that is wanted, or else the first of `choices` that the data has. */
export function breakdown(wanted: string, labels: string[], choices = BREAKDOWNS): string {
	if (wanted !== '' && (labels.length === 0 || labels.includes(wanted))) return wanted;
	return choices.find((label) => labels.includes(label)) ?? labels[0] ?? choices[0];
}

export interface Profile {
	response: QueryResponse;
	tree: Tree;
}

export interface Requests {
	types: Resource<TypesResponse>;
	type: string;
	selector: Selector; // with its type
	fault: string | null;
	query: string;
	profileQuery: string; // that of the profile, with stages for a part of it
	by: string;
	labels: string[];
	series: Resource<SeriesResponse>;
	everything: Resource<SeriesResponse>;
	rail: Resource<SeriesResponse>;
	profile: Resource<Profile>;
	gaveUp: boolean; // on names that are still being looked up
	cover: Cover; // how much of the range has data
	span: { from: string; to: string };
	ready: boolean;
	names: NamesChoice;
	status: Resource<StatusResponse>;
	error: ApiError | null;
	loading: boolean;
}

export const toProfile = (response: QueryResponse): Profile => ({ response, tree: buildTree(mergeUnnamed(response.flame)) });

// The profile with the names that have come since it was requested.
function useNamedProfile(resource: Resource<Profile>, params: Record<string, string>): { profile: Resource<Profile>; gaveUp: boolean } {
	const first = resource.data;
	const { response, gaveUp } = useNamedResponse(first?.response ?? null, params);
	const data = useMemo(() => (first && response && response !== first.response ? toProfile(response) : first), [first, response]);
	return { profile: { ...resource, data }, gaveUp };
}

export interface Names {
	choice: NamesChoice;
	set: (names: NamesChoice) => void;
}

// The URL's, or what this browser had last.
export function useNames(state: PageState, set: SetState): Names {
	const [stored, store] = useStored('wick-names', 'full');
	return {
		choice: state.names || (stored === 'short' ? 'short' : 'full'),
		set: (names) => {
			store(names);
			set({ names }, 'replace');
		},
	};
}

export function useRequests(state: PageState, names: NamesChoice, nonce: number, statusNonce: number, narrow: boolean): Requests {
	const { sel } = state;
	const parsed = useMemo(() => parseQuery(state.q), [state.q]);
	const types = useApi<TypesResponse>('types', { from: state.from, to: state.to }, nonce);
	const typeNames = types.data?.types.map((t) => t.name) ?? [];
	const type = resolveType(parsed.selector.type, typeNames);
	const selector = useMemo(() => ({ ...parsed.selector, type }), [parsed, type]);
	const query = formatSelector(selector);
	// The overview is of one type whatever is selected, a query of the console of any.
	const coveredType = state.view === 'home' ? defaultType(typeNames) : state.view === 'console' ? '' : type;
	const cover = coverOf(state.from, state.to, types, coveredType);
	const { from, to } = cover;
	// Until the types are known, a type named in full is taken at its word; parts of one are not worth a question.
	const named = types.data !== null || type.split(':').length >= 5;
	// The start page has the profile of everything.
	const isHome = state.view === 'home';
	const ready = type !== '' && named && cover.known && parsed.fault === null && !isWide(state.view);
	const stages = [state.within, state.root === '' ? '' : pipeline(`group by ${state.root}`)];
	const profileQuery = isHome ? coveredType : pipeline(query, ...stages.filter((stage) => stage !== ''));
	const whenReady = (path: string) => (ready ? path : null);

	const now = Date.now();
	const length = (parseTime(to, now) ?? now) - (parseTime(from, now) ?? now - 3600e3);
	const step = `${chooseStep(length, narrow ? 380 : 1000)}s`;
	const span = sel && !isHome ? { from: String(sel.from), to: String(sel.to) } : { from, to };

	const labels = useApi<LabelsResponse>(whenReady('labels'), { query: type, from, to }, nonce);
	const labelNames = labels.data?.labels.map((l) => l.name) ?? [];
	const by = breakdown(state.by, labelNames);
	const params: Record<string, string> = { query: profileQuery, format: 'columns', ...(names === 'short' ? { names } : {}) };
	const wanted = isHome ? profileQuery !== '' && cover.known : ready && !isListing(state.view);
	const resource = useApi<QueryResponse, Profile>(wanted ? 'query' : null, { ...params, ...span }, nonce, toProfile);
	const { profile, gaveUp } = useNamedProfile(resource, params);
	const series = useApi<SeriesResponse>(whenReady('series'), { query, from, to, step, by, limit: SERIES_ROWS }, nonce);
	const more = series.data && !series.stale && series.data.total_series > series.data.series.length;
	const everything = useApi<SeriesResponse>(more ? 'series' : null, { query, from, to, step }, nonce);
	// The list shows what could be chosen instead, so it asks without the filter by its own label; and for the selection
	// alone.
	const others = formatSelector(withoutLabel(selector, by));
	const own = others !== query || sel !== null;
	const listed = useApi<SeriesResponse>(own ? whenReady('series') : null, { query: others, ...span, step, by, limit: SERIES_ROWS }, nonce);
	const rail = own ? listed : series;
	const status = useApi<StatusResponse>('status', {}, statusNonce);
	return {
		types,
		type,
		selector,
		fault: parsed.fault,
		query,
		profileQuery,
		by,
		labels: labelNames,
		series,
		everything,
		rail,
		profile,
		gaveUp,
		cover,
		span,
		ready,
		names,
		status,
		error: profile.error ?? types.error ?? series.error ?? rail.error,
		loading: types.loading || profile.loading || series.loading,
	};
}
