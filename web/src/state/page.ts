// SPDX-License-Identifier: Apache-2.0
/*
 * The whole state of the page, and its form in the URL's query. What is at its default is left out. A URL without a query is
 * the start page; one with any other parameter, but no view, is a profile. A change that a person would want to take back (another filter, range, zoom) is a new history entry; a
 * change that is part of a gesture (typing, sorting) replaces the entry.
 *
 *   q       selector                                from, to  range: now-1h, unix ms, RFC 3339
 *   sel     FROM-TO in unix ms: the brush's part of the range
 *   by      label that breaks costs down            chart     stacked (default), lines
 *   series  repeated: the series that are drawn alone: =VALUE, rest
 *   mark    repeated: markers of this name are drawn        deploys   off: deploys are not
 *   top     how many values are drawn               view      home; profile: what fits the screen; both, graph, table, sandwich, calls; source,
 *                                                           asm: of a function; console; binaries, recordings; status; file, shared
 *   dir     icicle (default), flame                 zoom      what is zoomed into: PATH, a hash; PATH~FIRST[~COUNT], some of its children;
 *                                                             PATH~FROM-TO, a stretch of it in billionths
 *   steps   what was done with the graph, see tree/transform.ts                 color  binary (default), kind, package
 *   root    label whose values are at the root of the graph                     within stages of a query, for a part of the profile alone
 *   find    search in the graph                     regex     1 when `find` is a regular expression
 *   filter  filter of the table                     sort      self (default), total, name, file, binary; a leading - turns it round
 *   every   seconds between refreshes               addr      each: addresses without a name one by one
 *   interpreters  show: with the native frames of interpreters, which are left out otherwise, see tree/interpreters.ts
 *   names   full, short: functions' names; absent: as this browser had them last
 *   tz      browser, utc, server: zone of the times that are shown; absent: as this browser had it last
 *   function, file, build   what view=source and view=asm show: a frame's name, one of its files, one build-id; those may be
 *           empty, for a file that is unknown and a binary that has none; absent, the server chooses
 *   rows    of the table: function (default), file, binary, line, label:NAME
 *   match   how its filter is meant: plain (default), fuzzy, regex
 *   least   of view=calls: functions and calls below this share of all, in percent, are not shown
 *   function, file, binary   what view=sandwich shows, and view=calls marks: a frame's name, file and binary; absent, the costliest that fits
 *   at      the marked line of the source, or 0xADDRESS
 *   state, text   filter of the binaries
 *   run, explain  the console's query; 1: with its plan     saved, param  the saved query of the console, NAME=VALUE for each parameter
 *   id, name  of view=file: a file that was opened, which is known as long as the page is there, and what it is called;
 *           of view=shared: ID, ID.ID, see share/snapshot.ts
 *   pane    both, graph, table, sandwich, calls: what view=file and shared show; absent: what fits the screen
 *   base, before, bfrom, bto, relative, show, width, of, order, only   of view=compare: compare.ts
 */
import * as T from '../base/texts';
import { parseZoned, ZONES, type Zone } from '../base/zone';
import { parseTransforms } from '../tree/transform';
import { formatCompare, NO_COMPARE, parseCompare, type CompareState } from './compare';

export type ColorBy = 'binary' | 'kind' | 'package';
export type ProfileView = 'both' | 'graph' | 'table' | 'sandwich' | 'calls';
export type ListingView = 'source' | 'asm';
// These have the whole page, without filters; the start page has a time range.
export type WideView = 'home' | 'compare' | 'console' | 'status' | 'binaries' | 'recordings' | 'file' | 'shared';
export type View = ProfileView | ListingView | WideView;
export type NamesChoice = 'full' | 'short';
export type Rows = 'function' | 'file' | 'binary' | 'line' | `label:${string}`;
export type Match = 'plain' | 'fuzzy' | 'regex';
export type SortKey = 'self' | 'total' | 'name' | 'file' | 'binary';

export interface PageState {
	q: string;
	from: string;
	to: string;
	sel: { from: number; to: number } | null;
	by: string;
	chart: 'stacked' | 'lines';
	top: number;
	series: string[]; // of seriesId(); [] = all
	mark: string[];
	deploys: boolean;
	view: View | ''; // '' = what fits the screen
	dir: 'icicle' | 'flame';
	zoom: string;
	steps: string;
	color: ColorBy;
	root: string;
	within: string;
	find: string;
	regex: boolean;
	filter: string;
	sort: SortKey;
	reverse: boolean;
	every: number;
	eachAddress: boolean;
	interpreters: boolean; // shown
	names: NamesChoice | '';
	tz: Zone | ''; // '' = the browser's, or what it had last
	function: string;
	file: string | null; // null = the server's choice, '' = the unknown one
	build: string | null;
	binary: string | null; // null = whichever
	at: string;
	state: string;
	text: string;
	run: string;
	saved: string; // '' = none: what is in `run`
	param: string[];
	explain: boolean;
	id: string;
	name: string;
	pane: ProfileView | '';
	compare: CompareState;
	least: number; // percent
	rows: Rows;
	match: Match;
}

/** No listing of a function's code, and nothing chosen in the list of binaries. */
export const NOT_LISTED = { function: '', file: null, build: null, binary: null, at: '', state: '', text: '' };

export const DEFAULTS: PageState = {
	q: '',
	from: 'now-1h',
	to: 'now',
	sel: null,
	by: '', // what the data has: see breakdown()
	chart: 'stacked',
	top: 10,
	series: [],
	mark: [],
	deploys: true,
	view: '',
	dir: 'icicle',
	zoom: '',
	steps: '',
	color: 'binary',
	root: '',
	within: '',
	find: '',
	regex: false,
	filter: '',
	sort: 'self',
	reverse: false,
	every: 0,
	eachAddress: false,
	interpreters: false,
	names: '',
	tz: '',
	...NOT_LISTED,
	run: '',
	saved: '',
	param: [],
	explain: false,
	id: '',
	name: '',
	pane: '',
	compare: NO_COMPARE,
	least: 1,
	rows: 'function',
	match: 'plain',
};

/** The graph as it comes, for links to another profile than the one that something was done with. */
export const UNTOUCHED: Pick<PageState, 'zoom' | 'steps' | 'root' | 'within'> = { zoom: '', steps: '', root: '', within: '' };

const VIEWS: readonly (View | '')[] = [
	'home',
	'compare',
	'console',
	'status',
	'both',
	'graph',
	'table',
	'sandwich',
	'calls',
	'source',
	'asm',
	'binaries',
	'recordings',
	'file',
	'shared',
];
const WIDE: readonly WideView[] = ['home', 'compare', 'console', 'status', 'binaries', 'recordings', 'file', 'shared'];
const PANES: readonly (ProfileView | '')[] = ['both', 'graph', 'table', 'sandwich', 'calls'];
const NAMES: readonly (NamesChoice | '')[] = ['full', 'short'];

export const COLORS: readonly ColorBy[] = ['binary', 'kind', 'package'];
const WITHIN_MAX = 12_000; // characters; the server takes 16 KiB of a query

export const REFRESH_SECONDS = [0, 10, 30, 60];
export const TOP_CHOICES = [5, 10, 20];
export const LEAST_CHOICES = [0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20];

const oneOf = <T>(value: unknown, choices: readonly T[], otherwise: T): T => (choices.includes(value as T) ? (value as T) : otherwise);

function parseSel(text: string): PageState['sel'] {
	const match = /^(\d{1,15})-(\d{1,15})$/.exec(text);
	if (!match) return null;
	const [from, to] = [Number(match[1]), Number(match[2])];
	return from < to ? { from, to } : null;
}

// A parameter that may be there several times, and what of it is looked at.
const LIST_MAX = 20;
const TEXT_MAX = 1000;
const listOf = (params: URLSearchParams, name: string): string[] =>
	[...new Set(params.getAll(name))].filter((text) => text !== '' && text.length <= TEXT_MAX).slice(0, LIST_MAX);

export function parseState(search: string): PageState {
	const params = new URLSearchParams(search);
	const get = (name: string) => params.get(name) ?? '';
	const sort = get('sort');
	const nothing = [...params].length === 0;
	return {
		q: get('q'),
		from: get('from') || DEFAULTS.from,
		to: get('to') || DEFAULTS.to,
		sel: parseSel(get('sel')),
		by: get('by') || DEFAULTS.by,
		chart: oneOf(get('chart'), ['stacked', 'lines'] as const, DEFAULTS.chart),
		top: oneOf(Number(get('top')), TOP_CHOICES, DEFAULTS.top),
		series: listOf(params, 'series'),
		mark: listOf(params, 'mark'),
		deploys: get('deploys') !== 'off',
		view: nothing ? 'home' : oneOf(get('view'), VIEWS, ''),
		dir: oneOf(get('dir'), ['icicle', 'flame'] as const, DEFAULTS.dir),
		zoom: /^[0-9a-z]{1,11}((~\d{1,9}){0,2}|~\d{1,9}-\d{1,10})$/.test(get('zoom')) ? get('zoom') : '',
		steps: parseTransforms(get('steps')) ? get('steps') : '',
		color: oneOf(get('color'), COLORS, DEFAULTS.color),
		root: /^[A-Za-z_][A-Za-z0-9_]{0,127}$/.test(get('root')) ? get('root') : '',
		within: get('within').length <= WITHIN_MAX ? get('within') : '',
		find: get('find'),
		regex: get('regex') === '1',
		filter: get('filter'),
		sort: oneOf(sort.replace(/^-/, ''), ['self', 'total', 'name', 'file', 'binary'] as const, DEFAULTS.sort),
		reverse: sort.startsWith('-'),
		every: oneOf(Number(get('every')), REFRESH_SECONDS, 0),
		eachAddress: get('addr') === 'each',
		interpreters: get('interpreters') === 'show',
		names: oneOf(get('names'), NAMES, ''),
		tz: oneOf<Zone | ''>(get('tz'), ZONES, ''),
		function: get('function'),
		file: params.get('file'),
		build: /^[0-9a-zA-Z._-]{0,128}$/.test(get('build')) ? params.get('build') : null,
		binary: params.get('binary'),
		at: /^(\d{1,9}|0x[0-9a-f]{1,16})$/.test(get('at')) ? get('at') : '',
		state: /^[a-z]{1,20}(,[a-z]{1,20}){0,9}$/.test(get('state')) ? get('state') : '',
		text: get('text'),
		run: get('run'),
		saved: /^[a-z0-9][a-z0-9_-]{0,99}$/.test(get('saved')) ? get('saved') : '',
		param: listOf(params, 'param'),
		explain: get('explain') === '1',
		id: /^[0-9a-f]{1,32}(\.[0-9a-f]{32})?$/.test(get('id')) ? get('id') : '',
		name: get('name').length <= TEXT_MAX ? get('name') : '',
		pane: oneOf(get('pane'), PANES, ''),
		compare: parseCompare(params),
		rows: /^(function|file|binary|line|label:[A-Za-z_]\w{0,199})$/.test(get('rows')) ? (get('rows') as Rows) : DEFAULTS.rows,
		match: oneOf(get('match'), ['plain', 'fuzzy', 'regex'] as const, DEFAULTS.match),
		least: oneOf(Number(get('least')), LEAST_CHOICES, DEFAULTS.least),
	};
}

export function formatState(state: PageState): string {
	const params = new URLSearchParams();
	const put = (name: string, value: string, otherwise: string) => {
		if (value !== otherwise) params.set(name, value);
	};
	put('q', state.q, '');
	put('from', state.from, DEFAULTS.from);
	put('to', state.to, DEFAULTS.to);
	if (state.sel) params.set('sel', `${state.sel.from}-${state.sel.to}`);
	put('by', state.by, DEFAULTS.by);
	put('chart', state.chart, DEFAULTS.chart);
	put('top', String(state.top), String(DEFAULTS.top));
	for (const name of ['series', 'mark', 'param'] as const) for (const text of state[name]) params.append(name, text);
	put('deploys', state.deploys ? '' : 'off', '');
	put('view', state.view === 'home' ? '' : state.view, '');
	put('dir', state.dir, DEFAULTS.dir);
	put('zoom', state.zoom, '');
	put('color', state.color, DEFAULTS.color);
	for (const name of ['steps', 'root', 'within'] as const) put(name, state[name], '');
	put('find', state.find, '');
	put('regex', state.regex ? '1' : '', '');
	put('filter', state.filter, '');
	put('sort', (state.reverse ? '-' : '') + state.sort, DEFAULTS.sort);
	put('every', String(state.every), '0');
	put('rows', state.rows, DEFAULTS.rows);
	put('match', state.match, DEFAULTS.match);
	put('least', String(state.least), String(DEFAULTS.least));
	put('explain', state.explain ? '1' : '', '');
	put('addr', state.eachAddress ? 'each' : '', '');
	put('interpreters', state.interpreters ? 'show' : '', '');
	for (const name of ['names', 'tz', 'function', 'at', 'state', 'text', 'run', 'saved', 'id', 'name', 'pane'] as const) put(name, state[name], '');
	for (const name of ['file', 'build', 'binary'] as const) {
		const value = state[name];
		if (value !== null) params.set(name, value);
	}
	formatCompare(state.compare, params);
	// A bare URL is the start page: what else would be bare has a view, and a start page that is not has one, too.
	const bare = [...params].length === 0;
	if (bare !== (state.view === 'home')) params.set('view', bare ? 'profile' : 'home');
	const text = params.toString();
	return text ? '?' + text : '';
}

/*
 * To the listing of a function. Its name is in the form in which this page shows names, and in the other form the server may not
 * know it: the form goes with it, so that the URL means the same in a browser that had the other one last.
 */
export function openListing(view: ListingView, of: { function: string; file: string; at?: string }, names: NamesChoice): Partial<PageState> {
	return { view, function: of.function, file: of.file || null, at: of.at ?? '', names };
}

/** To a function between its callers and what it calls; likewise. */
export function openSandwich(of: { function: string; file: string; binary: string }, names: NamesChoice): Partial<PageState> {
	return { view: 'sandwich', ...of, build: null, at: '', names };
}

export function isListing(view: View | ''): view is ListingView {
	return view === 'source' || view === 'asm';
}

/** Whether it is one of those that show a profile, whatever it is of. */
export function isPane(view: View | '' | undefined): view is ProfileView {
	return view !== undefined && view !== '' && (PANES as readonly string[]).includes(view);
}

export function isWide(view: View | ''): view is WideView {
	return view !== '' && (WIDE as readonly string[]).includes(view);
}

/** Whether the page goes on showing the same file, so that what is chosen of its time line (the URL's fragment) stays. */
export function keepsFragment(was: PageState, is: PageState, how: 'push' | 'replace'): boolean {
	return (is.view === 'file' || is.view === 'shared') && was.view === is.view && (is.id === was.id || (how === 'replace' && is.name === was.name));
}

const UNIT_MS: Record<string, number> = { ms: 1, s: 1e3, m: 60e3, h: 3600e3, d: 86400e3, w: 7 * 86400e3 };

// "1h30m" to ms.
function durationMs(text: string): number {
	let sum = 0;
	for (const [, count, unit] of text.matchAll(/([\d.]+)(ms|s|m|h|d|w)/g)) sum += Number(count) * UNIT_MS[unit];
	return sum;
}

// The server's reading of a time is what counts; this one serves the page's own sums (steps, labels) and checks what is
// typed. Returns unix ms, or null when the text is no time.
export function parseTime(text: string, now: number): number | null {
	const t = text.trim();
	const relative = /^(?:now)?([+-])((?:\d+(?:\.\d+)?(?:ms|s|m|h|d|w))+)$/.exec(t);
	if (t === 'now') return now;
	if (relative) return now + (relative[1] === '-' ? -1 : 1) * durationMs(relative[2]);
	// Unix seconds, ms, us or ns, by the number of digits.
	if (/^(\d{10}|\d{13}|\d{16}|\d{19})$/.test(t)) return Math.round(Number(t) * 1000 ** ((13 - t.length) / 3));
	// "2024-05-01 12:00" and "2024-05-01T12:00" are in the zone that the page shows times in.
	if (/^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?)?$/.test(t)) {
		const whole = t.length === 10 ? t + 'T00:00' : t.replace(' ', 'T');
		const ms = /(Z|[+-]\d\d:\d\d)$/.test(whole) ? Date.parse(whole) : parseZoned(whole);
		return Number.isNaN(ms) ? null : ms;
	}
	return null;
}

export function isRelative(text: string): boolean {
	return /^(now|[+-])/.test(text.trim());
}

export interface Preset {
	from: string;
	title: string;
}
export const PRESETS: Preset[] = [
	{ from: 'now-5m', title: T.range.last5m },
	{ from: 'now-15m', title: T.range.last15m },
	{ from: 'now-1h', title: T.range.last1h },
	{ from: 'now-3h', title: T.range.last3h },
	{ from: 'now-12h', title: T.range.last12h },
	{ from: 'now-24h', title: T.range.last24h },
	{ from: 'now-7d', title: T.range.last7d },
];

// An agent sends what it sampled every 10 s, more or less, and that counts at one moment. A step must be longer than that, or
// the graph has holes where there was load; the longer, the less it shows of the beat between the two.
const STEPS_S = [20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 86400];

export function chooseStep(rangeMs: number, widthPx: number): number {
	const points = Math.min(240, Math.max(24, widthPx / 6));
	const narrowest = rangeMs > 6 * 60e3 ? 30 : 20;
	const seconds = STEPS_S.find((s) => s >= narrowest && rangeMs / (s * 1000) <= points);
	return seconds ?? Math.ceil(rangeMs / points / 86400e3) * 86400;
}
