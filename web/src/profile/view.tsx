// SPDX-License-Identifier: Apache-2.0
// The lower part of the page: the profile of what is selected, as a graph and a table, with search, zoom path, legend and
// downloads.
import type { ComponentChildren } from 'preact';
import { useCallback, useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { QueryResponse } from '../api/responses';
import { apiUrl } from '../api/client';
import { saveAs } from '../base/download';
import { displayName, formatCount, formatShare, formatValue } from '../base/format';
import * as T from '../base/texts';
import { CallsView } from '../calls/view';
import { actionsFor, stepKeys, withStep } from '../flame/actions';
import { Breadcrumbs } from '../flame/crumbs';
import { stagesToOpen, withoutCollapse, type Cut } from '../flame/narrower';
import { Pointed } from '../flame/pointed';
import { DisplayMenu, StepsBar } from '../flame/steps_view';
import { useSteps } from '../flame/use_steps';
import { FlameView, type Picture } from '../flame/view';
import type { Row } from '../model/rows';
import type { Profile } from '../query/requests';
import { pipeline } from '../query/pipeline';
import { formatSelector, parseSelector, withoutLabel } from '../query/selector';
import {
	openListing,
	openSandwich,
	UNTOUCHED,
	type ColorBy,
	type ListingView,
	type NamesChoice,
	type PageState,
	type ProfileView,
	type Rows,
} from '../state/page';
import { labelOfRows } from '../table/use_rows';
import { Table } from '../table/view';
import { buildIdsOf } from '../tree/build_ids';
import { hasInterpreted, hideInterpreters } from '../tree/interpreters';
import { REST_CALLERS } from '../tree/invert';
import { findNodes, largestFirst, sumMatched } from '../tree/search';
import { isInverted, makeSteps, narrowInverted, stepsForRows, stepsText, toggleInverted, type Made } from '../tree/steps';
import type { Transform } from '../tree/transform';
import {
	ancestors,
	buildTree,
	findPath,
	followPath,
	formatZoom,
	isPart,
	isSmall,
	isUnnamed,
	KIND,
	kindOf,
	NO_ZOOM,
	parseZoom,
	pathFrames,
	pathKeys,
	placeOf,
	restShare,
	zoomRange,
	type PathFrame,
	type Tree,
	type Zoom,
} from '../tree/tree';
import { IconButton } from '../ui/controls';
import { legend, palette } from '../ui/colors';
import { Downloads, PNG, pngOf, type Download } from '../ui/downloads';
import { useDebounced, useLater, type SetState } from '../ui/hooks';
import { BeforeIcon, CloseIcon, FlipIcon, NextIcon, ResetIcon, SearchIcon } from '../ui/icons';
import { keyOf, press } from '../ui/keymap';
import { useKeys } from '../ui/keys';
import { copyText, Menu, type MenuAt, type MenuItem } from '../ui/menu';
import { SandwichView } from './sandwich_view';

export interface ProfileProps {
	profile: Profile;
	query?: string; // the selector, if there is a server that it can be sent to
	partQuery?: string; // with the stages for a part of it, if there are any
	state: PageState;
	set: SetState;
	view: ProfileView;
	dark: boolean;
	stale?: boolean;
	gaveUp?: boolean; // symbols are still missing, and the page has stopped polling
	names?: NamesChoice;
	onNames?: (names: NamesChoice) => void;
	labels?: string[]; // that the graph can have at its root, and rows of the table can be by
	more?: ComponentChildren; // among the tools
	alone?: boolean; // without a server: what only a server can give is not there
	calls?: boolean; // the call graph can be had, whose worker is a file of the server's page; absent: unless alone
}

/*
 * The zoom is kept as the path of the frame, not as an index: a response that comes later has the same frame elsewhere.
 * Where it has it not, because addresses on the path have got names since, the path is followed through those; otherwise the
 * nearest caller that is still there is shown, and the URL keeps the wish.
 */
export function useZoom(tree: Tree, text: string): { zoom: Zoom; lost: boolean } {
	const path = useRef<{ keys: string[]; frames: PathFrame[] }>({ keys: [], frames: [] });
	return useMemo(() => {
		const zoom = parseZoom(tree, text);
		if (zoom) {
			path.current = { keys: pathKeys(tree, zoom.node), frames: pathFrames(tree, zoom.node) };
			return { zoom, lost: false };
		}
		const { keys, frames } = path.current;
		const known = keys.length > 0 && keys[keys.length - 1] === text.split('~')[0];
		const followed = known ? followPath(tree, frames) : -1;
		if (followed > 0) return { zoom: { ...NO_ZOOM, node: followed }, lost: false };
		return { zoom: { ...NO_ZOOM, node: Math.max(0, findPath(tree, keys)) }, lost: true };
	}, [tree, text]);
}

// ---- tools --------------------

const VIEWS: ProfileView[] = ['graph', 'both', 'table', 'sandwich', 'calls'];
const WITH_TABLE: ProfileView[] = ['both', 'table', 'sandwich'];

function ViewSwitch({ view, calls, onView }: { view: ProfileView; calls: boolean; onView: (view: ProfileView) => void }) {
	return (
		<div class="joined" role="group" aria-label={T.profile.view}>
			{VIEWS.filter((v) => calls || v !== 'calls').map((v) => (
				<button key={v} type="button" class="button" aria-pressed={view === v} data-testid={`view-${v}`} onClick={() => onView(v)}>
					{T.profile.views[v]}
				</button>
			))}
		</div>
	);
}

export interface SearchProps {
	find: string;
	regex: boolean;
	fault: string | null;
	matched: string; // '' = no search
	count?: string; // which of how many matches; '' = none
	set: SetState;
	onNext: (back: boolean) => void;
}

export function Search({ find, regex, fault, matched, count = '', set, onNext }: SearchProps) {
	return (
		<div class="search" role="search">
			<SearchIcon />
			<input
				type="search"
				placeholder={T.search.placeholder}
				title={T.search.help}
				aria-label={T.search.label}
				aria-keyshortcuts="/"
				aria-invalid={fault !== null}
				data-testid="flame-search"
				autocomplete="off"
				autocapitalize="off"
				spellcheck={false}
				value={find}
				onInput={(event) => set({ find: event.currentTarget.value }, 'replace')}
				onKeyDown={(event) => {
					const { currentTarget } = event;
					press('search', event, {
						next: () => onNext(false),
						before: () => onNext(true),
						clear: () => (find === '' ? currentTarget.blur() : set({ find: '' }, 'replace')),
					});
				}}
			/>
			<output class={fault ? 'matched fault' : 'matched'} data-testid="flame-matched" aria-live="polite">
				{fault ?? matched}
			</output>
			{count !== '' && (
				<>
					<output class="match-count" data-testid="flame-count">
						{count}
					</output>
					{[true, false].map((back) => (
						<button
							key={String(back)}
							type="button"
							class="ghost"
							aria-label={back ? T.search.before : T.search.next}
							title={back ? T.search.before : T.search.next}
							data-testid={back ? 'flame-before' : 'flame-next'}
							onClick={() => onNext(back)}
						>
							{back ? <BeforeIcon /> : <NextIcon />}
						</button>
					))}
				</>
			)}
			{find !== '' && (
				<button type="button" class="ghost" aria-label={T.search.clear} title={T.search.clear} onClick={() => set({ find: '' }, 'replace')}>
					<CloseIcon />
				</button>
			)}
			<button
				type="button"
				class="ghost mono"
				aria-pressed={regex}
				aria-label={T.search.regex}
				title={T.search.regex}
				data-testid="flame-regex"
				onClick={() => set({ regex: !regex }, 'replace')}
			>
				.*
			</button>
		</div>
	);
}

const FORMATS = [
	{ id: 'pprof', extension: 'pb.gz', ...T.download.pprof },
	{ id: 'svg', extension: 'svg', ...T.download.svg },
	{ id: 'folded', extension: 'folded', ...T.download.folded },
	{ id: 'speedscope', extension: 'speedscope.json', ...T.download.speedscope },
	{ id: 'firefox', extension: 'firefox.json', ...T.download.firefox },
];

/** What the server writes of a query. */
const formatsOf = (query: string, { from_ms: from, to_ms: to }: QueryResponse): Download[] =>
	FORMATS.map((format) => ({ ...format, href: apiUrl('query', { query, from, to, format: format.id }) }));

function PngButton({ picture }: { picture: { current: Picture | null } }) {
	const save = async () => {
		const blob = await pngOf(picture.current?.());
		if (blob) saveAs(blob, 'png');
	};
	return (
		<button type="button" class="button" title={T.download.what(T.download.png.hint)} data-testid="download-png" onClick={() => void save()}>
			{T.download.png.title}
		</button>
	);
}

/** Shows all of a graph again, and turns its root to the other edge. */
export function ZoomButtons({ zoomed, flip, onAll, set }: { zoomed: boolean; flip: boolean; onAll: () => void; set: SetState }) {
	return (
		<>
			<IconButton label={T.profile.all} testId="reset-zoom" disabled={!zoomed} onClick={onAll}>
				<ResetIcon />
			</IconButton>
			<IconButton
				label={flip ? T.profile.rootBottomLong : T.profile.rootTopLong}
				title={flip ? T.profile.rootBottom : T.profile.rootTop}
				testId="flip"
				pressed={flip}
				onClick={() => set({ dir: flip ? 'icicle' : 'flame' })}
			>
				<FlipIcon />
			</IconButton>
		</>
	);
}

export function ShortNames({ names, onNames }: Required<Pick<ProfileProps, 'names' | 'onNames'>>) {
	return (
		<button
			type="button"
			class="button"
			aria-pressed={names === 'short'}
			data-testid="names-short"
			title={names === 'short' ? T.profile.areShort : T.profile.shorten}
			onClick={() => onNames(names === 'short' ? 'full' : 'short')}
		>
			{T.profile.short}
		</button>
	);
}

// ---- foot --------------------

const LEGEND = 10;

/** The binaries (or kinds, packages) of the graph with the highest self cost. */
export function Legend({ tree, dark, color, find, onFind }: { tree: Tree; dark: boolean; color: ColorBy; find: string; onFind: (text: string) => void }) {
	const of = useMemo(() => ({ tree, dark, color }), [tree, dark, color]);
	const entries = useLater(of, isSmall(tree), () => legend(tree, palette(dark), color))?.value ?? [];
	return (
		<ul class="legend" aria-label={T.legend.label}>
			{entries.slice(0, LEGEND).map((e) => (
				<li key={e.find}>
					<button
						type="button"
						aria-pressed={find === e.find}
						title={T.legend.entry(displayName(e.label), formatShare(e.share, tree.total[0]))}
						onClick={() => onFind(find === e.find ? '' : e.find)}
					>
						<i class="swatch" style={{ background: e.color }} />
						{displayName(e.label, 32)}
					</button>
				</li>
			))}
			{entries.length > LEGEND && <li class="legend-more">{T.legend.more(entries.length - LEGEND)}</li>}
		</ul>
	);
}

// Names that are still being looked up: quiet, and in a place that moves nothing.
function NamesNote({ response, gaveUp, onBinaries }: { response: QueryResponse; gaveUp: boolean; onBinaries: () => void }) {
	const pending = response.symbols?.pending ?? 0;
	if (pending > 0)
		return (
			<span class="names-note" role="status" data-testid="names-pending">
				<i class={gaveUp ? 'lamp' : 'lamp lamp-busy'} aria-hidden="true" />
				<button type="button" title={T.foot.worked} onClick={onBinaries}>
					{(gaveUp ? T.foot.stillPending : T.foot.pending)(formatCount(pending))}
				</button>
				{' · '}
			</span>
		);
	return null;
}

// A sample stands for one period of CPU time; of other values the number of samples is not in the response.
interface StatsProps {
	response: QueryResponse;
	tree: Tree;
	each: boolean;
	onEach: () => void;
	onWhy: (() => void) | null;
	onAmbiguous: () => void;
}

function Stats({ response, tree, each, onEach, onWhy, onAmbiguous }: StatsProps) {
	const { stats, period } = response;
	const unnamed = stats?.unresolved ?? 0;
	const ambiguous = response.symbols?.ambiguous ?? 0;
	const parts = [...(tree.samples > 0 ? [T.foot.stacks(formatCount(tree.samples))] : []), T.foot.frames(formatCount(tree.count - 1))];
	if (tree.type === 'cpu' && period > 0) parts.unshift(T.foot.samples(formatCount(Math.round(tree.total[0] / period))));
	const rest = useMemo(() => restShare(tree), [tree]);
	if (rest > 0) parts.push(T.foot.rest(`${(100 * rest).toFixed(rest < 0.01 ? 2 : 1)}%`));
	const took = typeof stats?.ms === 'number' ? ` · ${stats.ms < 10 ? stats.ms.toFixed(1) : Math.round(stats.ms)} ms` : '';
	return (
		<>
			{parts.join(' · ')}
			{response.saturated && (
				<>
					{' · '}
					<span title={T.foot.saturatedHint} data-testid="sums-saturated">
						{T.foot.saturated}
					</span>
				</>
			)}
			{unnamed > 0 && (
				<>
					{' · '}
					<button type="button" aria-pressed={each} data-testid="each-address" title={each ? T.foot.showTogether : T.foot.showEach} onClick={onEach}>
						{(each ? T.foot.each : T.foot.together)(formatCount(unnamed))}
					</button>
					{onWhy && (
						<>
							{', '}
							<button type="button" data-testid="names-missing" title={T.foot.whyHint} onClick={onWhy}>
								{T.foot.why}
							</button>
							{ambiguous > 0 && (
								<>
									{', '}
									<button type="button" data-testid="names-ambiguous" title={T.foot.ambiguousHint} onClick={onAmbiguous}>
										{T.foot.ambiguous(formatCount(ambiguous))}
									</button>
								</>
							)}
						</>
					)}
				</>
			)}
			{took}
		</>
	);
}

// ---- the part --------------------

interface Found {
	flags: Uint8Array | null;
	fault: string | null;
	text: string;
	tops: Int32Array; // as they are in the tree
}

const NO_TOPS = new Int32Array(0);

function useSearch(tree: Tree, zoom: Zoom, text: string, regex: boolean): Found {
	const find = useDebounced(text, 60);
	const flags = useMemo(() => findNodes(tree, find, regex), [tree, find, regex]);
	return useMemo(() => {
		if (flags === null || typeof flags === 'string') return { flags: null, fault: flags, text: '', tops: NO_TOPS };
		const all = sumMatched(tree, flags);
		let shares = T.search.matched(formatShare(all.value, tree.total[0]), formatValue(all.value, tree.unit));
		if (zoom.node > 0) shares += T.search.ofZoom(formatShare(sumMatched(tree, flags, zoom.node).value, tree.total[zoom.node]));
		return {
			flags,
			fault: null,
			text: all.tops.length === 0 ? T.search.noMatch : shares,
			tops: all.tops,
		};
	}, [tree, flags, zoom]);
}

interface Match {
	node: number;
	place: number; // among the matches, from 1
	nonce: number;
	of: Uint8Array | null;
}

// From one match to the next, the costliest first. count: which of how many, '' = there are none.
function useMatches(tree: Tree, found: Found): { focusRequest: Match | null; onNext: (back: boolean) => void; count: string } {
	const [wanted, setWanted] = useState<Match | null>(null);
	const focusRequest = wanted !== null && wanted.of === found.flags ? wanted : null;
	const largest = useRef<{ of: Int32Array; first: Int32Array }>({ of: NO_TOPS, first: NO_TOPS }); // sorted when they are first gone through
	const onNext = (back: boolean) => {
		if (found.tops.length === 0) return;
		const tops = largest.current.of === found.tops ? largest.current.first : largestFirst(tree, found.tops);
		largest.current = { of: found.tops, first: tops };
		const at = focusRequest ? tops.indexOf(focusRequest.node) : -1;
		const next = at < 0 && back ? tops.length - 1 : (at + (back ? -1 : 1) + tops.length) % tops.length;
		setWanted({ node: tops[next], place: next + 1, nonce: (wanted?.nonce ?? 0) + 1, of: found.flags });
	};
	const matches = String(found.tops.length);
	const count = found.tops.length === 0 ? '' : focusRequest ? T.search.place(String(focusRequest.place), matches) : matches;
	return { focusRequest, onNext, count };
}

export function useGlobalKeys(onEscape: () => void): void {
	useKeys('profile', {
		search: () => {
			const search = document.querySelector<HTMLInputElement>('[data-testid="flame-search"]');
			search?.focus();
			search?.select();
		},
		all: onEscape,
	});
}

export interface Frame {
	name: string;
	file: string;
	line: number;
	binary: string;
}

// rooted: the root of the tree is no function.
export function frameOf(tree: Tree, node: number, rooted = true): Frame | null {
	const name = tree.strings[tree.name[node]];
	if (node < (rooted ? 1 : 0) || kindOf(tree, node) === KIND.rest) return null;
	return { name, file: tree.strings[tree.file[node]], line: tree.line[node], binary: tree.strings[tree.binary[node]] };
}

// What there is to do with a frame, wherever it was pointed at.
function frameItems(
	frame: Frame,
	open: ((kind: ListingView, frame: Frame) => void) | null,
	onFind: (text: string) => void,
	onSandwich: (frame: Frame) => void,
	stack = '',
): MenuItem[] {
	const items: MenuItem[] = [];
	const place = placeOf(frame.file, frame.line);
	items.push({ title: T.menu.sandwich, key: keyOf('sandwich', 'open'), testId: 'menu-sandwich', run: () => onSandwich(frame) });
	if (open && !isUnnamed(frame.name))
		items.push(
			{ title: T.menu.source, key: keyOf('code', 'source'), apart: true, testId: 'menu-source', run: () => open('source', frame) },
			{ title: T.menu.asm, key: keyOf('code', 'asm'), testId: 'menu-asm', run: () => open('asm', frame) },
		);
	items.push({ title: T.menu.find, run: () => onFind(`"${frame.name}"`) });
	if (frame.binary !== '') items.push({ title: T.menu.findBinary, run: () => onFind(`in:${frame.binary}`) });
	items.push({ title: T.menu.copyName, apart: true, key: T.menu.copyKey, testId: 'menu-copy-name', run: () => void copyText(frame.name) });
	if (place !== '') items.push({ title: T.menu.copyPlace, run: () => void copyText(place) });
	if (stack !== '') items.push({ title: T.menu.copyStack, testId: 'menu-copy-stack', run: () => void copyText(stack) });
	return items;
}

// One frame a line, the outermost first.
const stackText = (tree: Tree, node: number): string =>
	ancestors(tree, node)
		.slice(1)
		.map((at) => tree.strings[tree.name[at]])
		.join('\n');

/*
 * What is done with the graph step by step, and what becomes of the zoom: the path to the frame that is zoomed into may be another
 * one after a step; as much of it as is left stays.
 */
function useTransforms({ state, set, alone }: Pick<ProfileProps, 'state' | 'set' | 'alone'>, made: Made, zoom: Zoom, names: NamesChoice) {
	const { tree, transforms } = made;
	const onSteps = (next: readonly Transform[] | null) => {
		if (next === null) return;
		let text = '';
		if (zoom.node > 0 && isSmall(made.base)) {
			const then = makeSteps(made.base, next, made).tree;
			text = formatZoom(then, { ...NO_ZOOM, node: Math.max(0, findPath(then, pathKeys(tree, zoom.node))) });
		}
		set({ steps: stepsText(next), within: withoutCollapse(state.within, next), zoom: text });
	};
	const actionItems = (node: number): MenuItem[] => {
		const actions = actionsFor(tree, node).map(({ op, key, title, group }) => ({ op, key, title, group, next: withStep(transforms, tree, node, op) }));
		return actions
			.filter(({ next }) => next !== null)
			.map(({ op, key, title, group, next }, i, all) => ({
				title,
				key,
				testId: `menu-${op}`,
				apart: i === 0 || group !== all[i - 1].group,
				run: () => onSteps(next),
			}));
	};
	// How what stands for others is opened: callers that were not turned over, by steps; what the server left out, by a narrower request.
	const restOf = useCallback(
		(node: number): keyof typeof REST_TEXT =>
			tree.strings[tree.name[node]] === REST_CALLERS ? 'steps' : alone ? 'file' : tree.parent[node] === 0 ? 'largest' : 'server',
		[tree, alone],
	);
	const onRest = (node: number) => {
		const above = tree.parent[node];
		const there = formatZoom(tree, { ...NO_ZOOM, node: above });
		const how = restOf(node);
		const narrowed = how === 'steps' ? narrowInverted(transforms, tree, above) : null;
		const cut: Cut = { tree, base: made.base, transforms, short: names === 'short', root: state.root };
		const within = how === 'server' || how === 'largest' ? stagesToOpen(cut, above, state.within) : state.within;
		if (narrowed) set({ steps: stepsText(narrowed), zoom: there });
		else if (within !== state.within) set({ within, zoom: there });
		else set({ zoom: formatZoom(tree, { ...NO_ZOOM, node }) });
	};
	const rest = useCallback((node: number) => REST_TEXT[restOf(node)], [restOf]);
	return { onSteps, actionItems, onRest, rest };
}

const REST_TEXT = {
	file: T.flame.restInFile,
	largest: T.flame.openLargest,
	steps: T.flame.restOfSteps,
	server: T.flame.openRest,
};
// What finds the row in the graph; '' if nothing does.
function searchOf(row: Row, by: Rows): string {
	if (by === 'file') return row.file && `file:${row.file}`;
	return by === 'binary' ? row.binary && `in:${row.binary}` : `"${row.name}"`;
}

const isChosen = (row: Frame, of: PageState): boolean =>
	row.name === of.function && (of.file ?? row.file) === row.file && (of.binary ?? row.binary) === row.binary;

const OPEN = {
	source: { title: T.profile.source, of: T.profile.sourceOf },
	asm: { title: T.profile.asm, of: T.profile.asmOf },
};

const HIDES_INTERPRETERS = /\|\s*hide\s+interpreter\b/;

export function ProfilePart(props: ProfileProps) {
	const {
		profile,
		query = '',
		partQuery = query,
		state,
		set,
		view,
		dark,
		stale = false,
		gaveUp = false,
		labels = [],
		more,
		alone = false,
		calls = !alone,
	} = props;
	const { names = 'full', onNames = () => undefined } = props;
	const pointed = useMemo(() => new Pointed(), []);
	const picture = useRef<Picture | null>(null);
	const { response } = profile;
	const each = state.eachAddress;
	const all = useMemo(() => (each ? buildTree(profile.response.flame) : profile.tree), [profile, each]);
	// A query of the console may have done it, which counts for once.
	const hides = !HIDES_INTERPRETERS.test(query) && hasInterpreted(all);
	const base = useMemo(() => (state.interpreters || !hides ? all : hideInterpreters(all)), [all, hides, state.interpreters]);
	const { made, busy } = useSteps(base, state.steps);
	const { tree, transforms } = made;
	const ofRows = useMemo(() => stepsText(stepsForRows(transforms)), [transforms]);
	const sameRows = ofRows === stepsText(transforms);
	const rowsMade = useSteps(base, sameRows ? '' : ofRows).made;
	const rows = sameRows ? tree : rowsMade.tree;
	const { zoom, lost } = useZoom(tree, state.zoom);
	const found = useSearch(tree, zoom, state.find, state.regex);
	const onZoom = useCallback((next: Zoom) => set({ zoom: formatZoom(tree, next) }), [tree, set]);
	const onFind = (text: string) => set({ find: text, regex: false });
	useGlobalKeys(() => onZoom(NO_ZOOM));
	const { focusRequest, onNext, count } = useMatches(tree, found);
	const { onSteps, actionItems, onRest, rest } = useTransforms(props, made, zoom, names);
	const builds = useMemo(() => buildIdsOf(response.flame.binaries), [response]);
	const facts = useMemo(
		() => ({ whole: base.total[0], period: base.type === 'cpu' && response.period > 0 ? response.period : 0, rest, builds, turned: isInverted(transforms) }),
		[base, response, rest, builds, transforms],
	);
	const [menu, setMenu] = useState<MenuAt | null>(null);
	const open = (kind: ListingView, frame: Frame) => {
		if (!alone && !isUnnamed(frame.name)) set({ ...openListing(kind, { function: frame.name, file: frame.file }, names), build: null });
	};
	const onSandwich = (frame: Frame | null) => {
		if (frame) set(openSandwich({ function: frame.name, file: frame.file, binary: frame.binary }, names));
	};
	const onView = (next: ProfileView) => {
		const zoomed = next === 'sandwich' && view !== 'sandwich' ? frameOf(tree, zoom.node) : null;
		if (zoomed) onSandwich(zoomed);
		else if (next === 'sandwich' || next === 'calls') set({ view: next });
		else set({ view: next, function: '', file: null, binary: null });
	};
	// The server knows nothing of steps, so rows that it makes would not be of what is shown.
	const rowsQuery = useMemo(
		() =>
			alone || ofRows !== ''
				? null
				: {
						query: state.within === '' ? query : pipeline(query, state.within),
						hide: state.interpreters || !hides ? '' : pipeline('hide interpreter'),
						whole: response.flame.total,
						from: response.from_ms,
						to: response.to_ms,
						names,
					},
		[alone, ofRows, query, state.within, state.interpreters, hides, response, names],
	);
	const onRow = (row: Row, by: Rows) => {
		const label = labelOfRows(by);
		if (label !== '') {
			const selector = parseSelector(query);
			const value = row.name === T.table.noLabel ? '' : row.name;
			set({ q: formatSelector({ ...selector, matchers: [...withoutLabel(selector, label).matchers, { label, op: '=', value }] }) });
		} else if (view === 'sandwich' && (by === 'function' || by === 'line')) {
			if (row.kind !== KIND.rest) onSandwich(row);
		} else {
			const text = searchOf(row, by);
			onFind(state.find === text ? '' : text);
		}
	};
	const closeMenu = useCallback(() => setMenu(null), []);
	const showMenu = (frame: Frame | null, x: number, y: number, more: MenuItem[] = [], stack = '') => {
		if (frame) setMenu({ x, y, head: frame.name, items: [...more, ...frameItems(frame, alone ? null : open, onFind, onSandwich, stack)] });
	};
	const zoomedFrame = frameOf(tree, zoom.node);
	const listable = zoomedFrame !== null && !isUnnamed(zoomedFrame.name);
	// The URL follows a frame that has got a name.
	useEffect(() => {
		if (!lost && zoom.node > 0 && parseZoom(tree, state.zoom) === null) set({ zoom: formatZoom(tree, zoom) }, 'replace');
	}, [tree, zoom, lost, state.zoom, set]);
	const flip = state.dir === 'flame';
	const zoomed = zoom.node !== 0 || isPart(zoom);
	const inverted = isInverted(transforms);
	const [viewFrom, viewTo] = zoomRange(tree, zoom);
	const inView = viewTo - viewFrom;
	const clearSteps = () => set(UNTOUCHED);
	const onKey = (event: KeyboardEvent, node: number): boolean => {
		const frame = frameOf(tree, node);
		return (
			press('matches', event, { next: () => onNext(false), before: () => onNext(true) }) ||
			press('sandwich', event, { open: () => frame !== null && onSandwich(frame) }) ||
			press('steps', event, stepKeys(transforms, tree, node, onSteps))
		);
	};
	return (
		<section class={stale || busy ? 'profile stale' : 'profile'} aria-label={T.profile.label} aria-busy={stale || busy}>
			<div class="tools" role="toolbar" aria-label={T.profile.tools}>
				<ViewSwitch view={view} calls={calls} onView={onView} />
				<Search {...state} fault={found.fault} matched={found.text} count={count} set={set} onNext={onNext} />
				<div class="joined" hidden={view === 'sandwich' || view === 'calls'}>
					<ZoomButtons zoomed={zoomed} flip={flip} onAll={() => onZoom(NO_ZOOM)} set={set} />
					<button
						type="button"
						class="button"
						aria-pressed={inverted}
						title={inverted ? T.profile.inverted : T.profile.invert}
						data-testid="invert"
						onClick={() => onSteps(toggleInverted(transforms))}
					>
						{T.profile.invertShort}
					</button>
				</div>
				<DisplayMenu
					transforms={transforms}
					color={state.color}
					root={state.root}
					labels={alone ? null : labels}
					interpreters={hides ? state.interpreters : null}
					onSteps={onSteps}
					onColor={(color) => set({ color })}
					onInterpreters={(interpreters) => set({ interpreters, zoom: '' })}
					onRoot={(root) => set({ root, zoom: '' })}
				/>
				{more}
				{!alone && <ShortNames names={names} onNames={onNames} />}
				{alone ? (
					view !== 'table' && <PngButton picture={picture} />
				) : (
					<Downloads
						items={[...formatsOf(partQuery, response), ...(view === 'table' ? [] : [{ ...PNG, make: () => pngOf(picture.current?.()) }])]}
						endMs={response.to_ms}
					/>
				)}
			</div>
			<StepsBar
				made={made}
				root={state.root}
				within={state.within}
				onSteps={onSteps}
				onRoot={(root) => set({ root, zoom: '' })}
				onWithin={(within) => set({ within })}
				onClear={clearSteps}
			/>
			<div class={`panes view-${view}`}>
				{WITH_TABLE.includes(view) && (
					<Table
						tree={rows}
						query={rowsQuery}
						labels={labels}
						by={state.rows}
						pointed={pointed}
						match={state.match}
						onBy={(by) => set({ rows: by })}
						onMatch={(match) => set({ match }, 'replace')}
						sort={state.sort}
						reverse={state.reverse}
						filter={state.filter}
						isMarked={(row) => (view === 'sandwich' ? isChosen(row, state) : state.find !== '' && state.find === searchOf(row, state.rows))}
						dark={dark}
						onSort={(sort, reverse) => set({ sort, reverse }, 'replace')}
						onFilter={(filter) => set({ filter }, 'replace')}
						onPick={onRow}
						onMenu={(row, x, y) => showMenu(row.kind === KIND.rest ? null : row, x, y)}
						onOpen={alone ? undefined : open}
						onSandwich={(row) => onSandwich(row.kind === KIND.rest ? null : row)}
					/>
				)}
				{view === 'sandwich' && (
					<SandwichView
						tree={rows}
						of={state}
						find={state.find}
						regex={state.regex}
						dark={dark}
						color={state.color}
						period={facts.period}
						builds={builds}
						picture={picture}
						onPick={(half, node) => onSandwich(frameOf(half, node, false))}
						onMenu={(half, node, x, y, more) => showMenu(frameOf(half, node, false), x, y, more)}
						onOpen={(kind, half, node) => {
							const frame = frameOf(half, node, false);
							if (frame) open(kind, frame);
						}}
					/>
				)}
				{view === 'calls' && (
					<CallsView
						tree={rows}
						state={state}
						dark={dark}
						picture={picture}
						onLeast={(least) => set({ least }, 'replace')}
						onPick={(node) => onSandwich(frameOf(rows, node))}
						onMenu={(node, x, y) => showMenu(frameOf(rows, node), x, y)}
						onOpen={(kind, node) => {
							const frame = frameOf(rows, node);
							if (frame) open(kind, frame);
						}}
					/>
				)}
				{(view === 'graph' || view === 'both') && (
					<div class="graph-pane">
						<div class="crumb-line">
							<Breadcrumbs tree={tree} zoom={zoom} onZoom={onZoom} />
							<span class="zoom-value">
								{formatValue(inView, tree.unit)}
								{inView < base.total[0] && <> · {formatShare(inView, base.total[0])}</>}
							</span>
							{!alone && (
								<span class="joined small crumb-actions" role="group" aria-label={T.profile.zoomedFrame}>
									{(['source', 'asm'] as const).map((kind) => (
										<button
											key={kind}
											type="button"
											class="button"
											disabled={!listable}
											data-testid={`open-${kind}`}
											title={listable ? OPEN[kind].of(displayName(zoomedFrame.name, 120)) : T.profile.zoomFirst}
											onClick={() => open(kind, zoomedFrame!)}
										>
											{OPEN[kind].title}
										</button>
									))}
								</span>
							)}
							{lost && <span class="field-fault">{T.profile.lost}</span>}
						</div>
						{tree.total[0] === 0 && transforms.length > 0 ? (
							<p class="steps-nothing" role="status" data-testid="steps-nothing">
								{T.steps.nothing}{' '}
								<button type="button" class="link" onClick={() => onSteps(transforms.slice(0, -1))}>
									{T.steps.takeBack}
								</button>
							</p>
						) : (
							<FlameView
								tree={tree}
								zoom={zoom}
								onZoom={onZoom}
								flip={flip}
								matches={found.flags}
								dark={dark}
								color={state.color}
								pointed={pointed}
								picture={picture}
								focusRequest={focusRequest}
								facts={facts}
								onMenu={(node, x, y) =>
									showMenu(
										frameOf(tree, node),
										x,
										y,
										[{ title: T.menu.zoom, key: 'Enter', run: () => onZoom({ ...NO_ZOOM, node }) }, ...actionItems(node)],
										stackText(tree, node),
									)
								}
								onOpen={
									alone
										? undefined
										: (kind, node) => {
												const frame = frameOf(tree, node);
												if (frame) open(kind, frame);
											}
								}
								onRest={onRest}
								onKey={onKey}
								minimap
							/>
						)}
					</div>
				)}
			</div>
			<footer class="foot">
				<Legend tree={rows} dark={dark} color={state.color} find={state.find} onFind={onFind} />
				<p class="stats">
					<NamesNote response={response} gaveUp={gaveUp} onBinaries={() => set({ view: 'binaries', state: 'queued,working', text: '' })} />
					<Stats
						response={response}
						tree={tree}
						each={each}
						onEach={() => set({ eachAddress: !each })}
						onWhy={alone ? null : () => set({ view: 'binaries', state: 'missing,failed,partial', text: '' })}
						onAmbiguous={() => set({ view: 'binaries', state: '', text: '' })}
					/>
				</p>
			</footer>
			{menu && <Menu at={menu} onClose={closeMenu} />}
		</section>
	);
}
