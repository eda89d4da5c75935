// SPDX-License-Identifier: Apache-2.0
/*
 * Two profiles beside each other: what each side is, the sums, the two over time, and what differs, as a graph of both, a graph of each,
 * or a table. The server sends the two profiles; everything else is made of them here (model.ts).
 */
import type { ComponentChildren } from 'preact';
import { useCallback, useMemo, useRef, useState } from 'preact/hooks';
import type { QueryResponse, StatusResponse } from '../api/responses';
import type { ApiError } from '../api/client';
import { useNamedResponse } from '../api/names';
import { displayName, formatDateTime, formatRange, formatDuration, shortType } from '../base/format';
import * as T from '../base/texts';
import type { Picture } from '../flame/view';
import { CHANGE, type Side } from '../model/diff';
import { Search, ShortNames, useGlobalKeys, ZoomButtons } from '../profile/view';
import { toProfile, type Names } from '../query/requests';
import type { Profile } from '../query/requests';
import { beforeOf, choicesOf, durationOf, formatShift, lengthOf, swapped, type Choice, type Choices } from '../query/choice';
import type { Cover } from '../query/cover';
import { Filter } from '../query/filter';
import { CustomRange, Range } from '../query/range';
import { formatSelector, type Matcher, type Selector } from '../query/selector';
import { type Keep, ShareButton } from '../share/button';
import { formatPicture, keepResponse } from '../share/snapshot';
import { JUST_BEFORE, NO_COMPARE, SHOWS, WIDTHS, type ChangeName, type CompareState, type Show } from '../state/compare';
import { parseTime, type PageState } from '../state/page';
import { hasInterpreted, hideInterpreters } from '../tree/interpreters';
import { findNodes, largestFirst, sumMatched } from '../tree/search';
import { isSmall } from '../tree/tree';
import { Switch } from '../ui/controls';
import { CSV, Downloads, PNG, pngOf, type Download } from '../ui/downloads';
import { useApi, useDebounced, useLater, type Resource, type SetState } from '../ui/hooks';
import { CloseIcon, SwapIcon } from '../ui/icons';
import { useKeys } from '../ui/keys';
import { copyText, Menu, type MenuAt, type MenuItem } from '../ui/menu';
import { ErrorBanner, ErrorPanel, NoDataYet, Notice, Skeleton } from '../ui/notices';
import { rich } from '../ui/rich';
import { changeColor, sideColor } from './colors';
import { figuresOf, formatRatio, type Figures } from './figures';
import { DiffGraph, SideGraphs, type GraphProps } from './graph';
import { changeBetween, compare, compareRows, countChanges, sideOf, type Comparison } from './model';
import { Spans } from './spans';
import { comparedCsv, CompareTable } from './table';

export interface CompareProps {
	state: PageState;
	set: SetState;
	selector: Selector; // of the head, with its type
	cover: Cover;
	fault: string | null;
	typeOf: (type: string) => string;
	typesKnown: boolean;
	noData: boolean;
	status: StatusResponse | null;
	error: ApiError | null; // of the types
	nonce: number;
	dark: boolean;
	narrow: boolean;
	names: Names;
	onRefresh: () => void;
}

type Patch = (patch: Partial<CompareState>, how?: 'push' | 'replace') => void;

// ---- requests --------------------

interface Sides {
	base: Resource<Profile>;
	head: Resource<Profile>;
	error: ApiError | null;
	loading: boolean;
	stale: boolean;
}

function useNamed(resource: Resource<Profile>, params: Record<string, string>): Resource<Profile> {
	const first = resource.data;
	const { response } = useNamedResponse(first?.response ?? null, params);
	const data = useMemo(() => (first && response && response !== first.response ? toProfile(response) : first), [first, response]);
	return { ...resource, data };
}

function useSide({ query, from, to }: Choice, ready: boolean, names: Names, nonce: number): Resource<Profile> {
	const params: Record<string, string> = { query, format: 'columns', ...(names.choice === 'short' ? { names: 'short' } : {}) };
	const resource = useApi<QueryResponse, Profile>(ready ? 'query' : null, { ...params, from, to }, nonce, toProfile);
	return useNamed(resource, params);
}

function useSides(choices: Choices, ready: boolean, names: Names, nonce: number): Sides {
	const head = useSide(choices.head, ready, names, nonce);
	const base = useSide(choices.base, ready, names, nonce);
	return { base, head, error: head.error ?? base.error, loading: head.loading || base.loading, stale: head.stale || base.stale };
}

interface Compared {
	comparison: Comparison | null;
	late: boolean; // it is being made anew
	interpreted: boolean; // there are internals of interpreters to be shown
}

function useComparison({ base, head }: Sides, type: string, { compare: { relative }, interpreters }: PageState): Compared {
	const pair = useMemo(() => {
		const [a, b] = [base.data, head.data];
		const side = ({ response, tree }: Profile) => sideOf(response, interpreters ? tree : hideInterpreters(tree), type);
		return a && b ? { base: side(a), head: side(b), relative } : null;
	}, [base.data, head.data, type, relative, interpreters]);
	const quick = !pair || (isSmall(pair.base.tree) && isSmall(pair.head.tree));
	const made = useLater(pair, quick, (of) => of && compare(of.base, of.head, of.relative ? 'share' : 'rate'));
	const interpreted = [base.data, head.data].some((data) => data && hasInterpreted(data.tree));
	return { comparison: made?.value ?? null, late: made?.of !== pair, interpreted };
}

// ---- the two sides --------------------

interface CardProps {
	side: 'base' | 'head';
	choice: Choice;
	props: CompareProps;
	text: string;
	onMatchers: (matchers: Matcher[]) => void;
	onText: (text: string) => void;
	children: ComponentChildren;
}

function Card({ side, choice, props, text, onMatchers, onText, children }: CardProps) {
	return (
		<section class="compare-card" aria-label={side === 'base' ? T.compare.baseLong : T.compare.headLong} data-testid={`compare-${side}`}>
			<h2>
				<i class="swatch" style={{ background: sideColor(side, props.dark) }} aria-hidden="true" />
				{T.compare.graphOf[side]}
			</h2>
			<Filter
				selector={choice.selector}
				text={text}
				fault={choice.fault}
				from={choice.from}
				to={choice.to}
				nonce={props.nonce}
				onChange={onMatchers}
				onText={onText}
			/>
			<div class="compare-card-time">{children}</div>
		</section>
	);
}

const CUSTOM = 'custom';
const PRESETS = [
	{ before: '0', title: T.compare.at },
	{ before: '1d', title: T.compare.dayBefore },
	{ before: '7d', title: T.compare.weekBefore },
];

// When the base is from: a preset, or a range of its own.
function When({ choices, compare, patch }: { choices: Choices; compare: CompareState; patch: Patch }) {
	const [custom, setCustom] = useState(false);
	const { base, head } = choices;
	const now = Date.now();
	const own = compare.bfrom !== '';
	const wanted = beforeOf(compare);
	const before = own ? '' : wanted === JUST_BEFORE ? wanted : formatShift(durationOf(wanted));
	const presets = PRESETS.map((preset) => ({ ...preset, before: formatShift(durationOf(preset.before)) }));
	if (lengthOf(head.from, head.to, now) > 0) presets.splice(1, 0, { before: JUST_BEFORE, title: T.compare.justBefore });
	if (!own && !presets.some((preset) => preset.before === before)) presets.push({ before, title: T.compare.before(formatDuration(durationOf(before))) });
	const [from, to] = [parseTime(base.from, now), parseTime(base.to, now)];
	const title = from !== null && to !== null ? formatRange(from, to, now) : T.range.fromTo(base.from, base.to);
	const apply = (bfrom: string, bto: string) => {
		setCustom(false);
		patch({ bfrom, bto, before: '' });
	};
	return (
		<div class="popover compare-when">
			<select
				class="select"
				aria-label={T.compare.when}
				data-testid="compare-when"
				value={own ? 'own' : before}
				onChange={(event) => {
					const { value } = event.currentTarget;
					if (value === CUSTOM) {
						event.currentTarget.value = own ? 'own' : before;
						setCustom(true);
					} else if (value !== 'own') patch({ before: value, bfrom: '', bto: '' });
				}}
			>
				{own && <option value="own">{title}</option>}
				{presets.map((preset) => (
					<option key={preset.before} value={preset.before}>
						{preset.title}
					</option>
				))}
				<option value={CUSTOM}>{T.compare.custom}</option>
			</select>
			{custom && <CustomRange from={base.from} to={base.to} onApply={apply} onClose={() => setCustom(false)} />}
		</div>
	);
}

function Cards({ props, choices, patch, onSwap }: { props: CompareProps; choices: Choices; patch: Patch; onSwap: () => void }) {
	const { state, set } = props;
	const { compare: at } = state;
	const { base, head, own } = choices;
	// The time stays where it is, whatever the filter becomes.
	const setBase = (text: string) => patch({ base: text, before: at.bfrom === '' ? beforeOf(at) : '' });
	const { sel } = state;
	return (
		<div class="compare-cards">
			<Card
				side="base"
				choice={base}
				props={props}
				text={at.base || base.query}
				onMatchers={(matchers) => setBase(formatSelector({ ...base.selector, matchers }))}
				onText={setBase}
			>
				{own ? (
					<button
						type="button"
						class="link"
						title={T.compare.ownFilter}
						data-testid="compare-follow"
						onClick={() => patch({ base: '', before: at.bfrom === '' ? beforeOf(at) : '' })}
					>
						{T.compare.ownFilter}
					</button>
				) : (
					<span class="hint">{T.compare.follows}</span>
				)}
				<When choices={choices} compare={at} patch={patch} />
			</Card>
			<Card
				side="head"
				choice={head}
				props={props}
				text={state.q || head.query}
				onMatchers={(matchers) => set({ q: formatSelector({ ...head.selector, matchers }) })}
				onText={(q) => set({ q })}
			>
				{sel && (
					<span class="chip selection">
						<span class="chip-text">{formatRange(sel.from, sel.to)}</span>
						<button type="button" class="chip-x" aria-label={T.compare.wholeRange} title={T.compare.wholeRange} onClick={() => set({ sel: null })}>
							<CloseIcon />
						</button>
					</span>
				)}
				<Range state={state} set={set} cover={props.cover} oldest={props.status?.data.oldest_ms ?? 0} loading={false} onRefresh={props.onRefresh} />
			</Card>
			<button
				type="button"
				class="button icon-only compare-swap"
				title={T.compare.swap}
				aria-label={T.compare.swap}
				aria-keyshortcuts="x"
				data-testid="compare-swap"
				onClick={onSwap}
			>
				<SwapIcon />
			</button>
		</div>
	);
}

// ---- sums --------------------

const BEGIN_MS = 20_000; // two flushes of an agent: a range may begin between them
const LISTED: ChangeName[] = ['new', 'gone', 'more', 'less'];

interface SumsProps {
	comparison: Comparison;
	type: string;
	unit: string;
	counts: Record<ChangeName, number> | null;
	dark: boolean;
}

// Always what was measured, also where shares are compared: shares of the whole are equal.
function Sums({ comparison, type, unit, counts, dark }: SumsProps) {
	const of = { base: comparison.base, head: comparison.head, mode: 'rate' as const };
	const figures = figuresOf(of, type, unit);
	const [from, to] = [of.base.tree.total[0], of.head.tree.total[0]];
	const changed = changeBetween(of, from, to);
	const { interval } = changed;
	const noise = changed.by === 0 || (interval !== null && interval.low <= 0 && interval.high >= 0);
	const change = noise ? CHANGE.noise : changed.by > 0 ? CHANGE.more : CHANGE.less;
	return (
		<dl class="compare-sums" aria-label={T.compare.sums} data-testid="compare-sums">
			{(['base', 'head'] as const).map((side) => (
				<div key={side}>
					<dt>
						<i class="swatch" style={{ background: sideColor(side, dark) }} aria-hidden="true" />
						{T.compare.graphOf[side]}
					</dt>
					<dd data-testid={`sum-${side}`}>
						<b>{figures[side](side === 'base' ? from : to)}</b> {figures.unit}
						<small>{formatDuration(comparison[side].seconds * 1000)}</small>
					</dd>
				</div>
			))}
			<div>
				<dt>
					<i class="swatch" style={{ background: changeColor(change, 1, dark) }} aria-hidden="true" />
					{T.compare.change}
				</dt>
				<dd data-testid="sum-change">
					<b>{figures.change(changed)}</b> {formatRatio(changed.ratio)}
					<small>
						{interval && `${T.compare.interval}: ${figures.interval(changed)}`}
						{interval && noise && ` · ${T.compare.within}`}
					</small>
				</dd>
			</div>
			{counts && (
				<div>
					<dt>{T.compare.functions}</dt>
					<dd data-testid="sum-states">
						{LISTED.filter((name) => counts[name] > 0).map((name) => (
							<span key={name} class="compare-count">
								<b>{counts[name]}</b> {T.compare.states[name].title}
							</span>
						))}
						{LISTED.every((name) => counts[name] === 0) && T.compare.noneChanged}
					</dd>
				</div>
			)}
		</dl>
	);
}

// A range that begins before the data does: what is measured in a part of it is shown as a rate over all of it.
function BeginsLater({ sides, status }: { sides: Sides; status: StatusResponse | null }) {
	const oldest = status?.data.oldest_ms ?? 0;
	const [base, head] = [sides.base.data?.response, sides.head.data?.response];
	// Of the same time, both sides have as much of it.
	if (!base || !head || Math.abs(base.from_ms - head.from_ms) < BEGIN_MS) return null;
	const late = [base, head].find((response) => oldest > response.from_ms + BEGIN_MS && oldest < response.to_ms);
	if (!late) return null;
	return (
		<p class="compare-warning" role="status" data-testid="compare-warning">
			{T.compare.beginsLater(T.compare.graphOf[late === base ? 'base' : 'head'], formatDateTime(oldest))}
		</p>
	);
}

// ---- tools and what is below --------------------

interface Found {
	flags: Uint8Array | null; // by node of the union
	fault: string | null;
	text: string;
	tops: Int32Array;
}

const NO_TOPS = new Int32Array(0);

function useFound(comparison: Comparison, figures: Figures, text: string, regex: boolean): Found {
	const find = useDebounced(text, 60);
	const { diff } = comparison;
	return useMemo(() => {
		const flags = findNodes(diff.tree, find, regex);
		if (flags === null || typeof flags === 'string') return { flags: null, fault: flags, text: '', tops: NO_TOPS };
		const { tops } = sumMatched(diff.tree, flags);
		const [base, head] = [diff.baseTotal, diff.headTotal].map((column) => tops.reduce((sum, node) => sum + column[node], 0));
		return { flags, fault: null, text: tops.length === 0 ? T.search.noMatch : T.compare.matched(figures.base(base), figures.head(head)), tops };
	}, [diff, figures, find, regex]);
}

interface ToolsProps {
	props: Fixed;
	found: Found;
	show: Show;
	patch: Patch;
	onNext: (back: boolean) => void;
	interpreted: boolean;
	more?: ComponentChildren;
}

export type Fixed = Pick<CompareProps, 'state' | 'set' | 'dark' | 'narrow'> & { names: Names | null }; // null: as they are

function Tools({ props, found, show, patch, onNext, interpreted, more }: ToolsProps) {
	const { state, set, names } = props;
	const { relative, width } = state.compare;
	const flip = state.dir === 'flame';
	const count = found.tops.length === 0 ? '' : String(found.tops.length);
	return (
		<div class="tools" role="toolbar" aria-label={T.compare.tools}>
			<div class="joined" role="group" aria-label={T.compare.show}>
				{SHOWS.map((name) => (
					<Switch key={name} testId={`show-${name}`} pressed={show === name} onPress={() => patch({ show: name })}>
						{T.compare.shows[name]}
					</Switch>
				))}
			</div>
			<Search find={state.find} regex={state.regex} fault={found.fault} matched={found.text} count={count} set={set} onNext={onNext} />
			<div class="joined" role="group" aria-label={T.compare.mode}>
				{(['absolute', 'relative'] as const).map((mode) => (
					<Switch
						key={mode}
						testId={mode}
						pressed={relative === (mode === 'relative')}
						title={T.compare[mode].hint}
						onPress={() => patch({ relative: mode === 'relative' })}
					>
						{T.compare[mode].title}
					</Switch>
				))}
			</div>
			{(show === 'graph' || show === 'both') && (
				<select
					class="select"
					aria-label={T.compare.width}
					data-testid="compare-width"
					value={width}
					onChange={(event) => patch({ width: WIDTHS.find((name) => name === event.currentTarget.value) ?? 'mean' })}
				>
					{WIDTHS.map((name) => (
						<option key={name} value={name}>
							{T.compare.widths[name]}
						</option>
					))}
				</select>
			)}
			<div class="joined">
				<ZoomButtons zoomed={state.zoom !== ''} flip={flip} onAll={() => set({ zoom: '' })} set={set} />
			</div>
			{names && <ShortNames names={names.choice} onNames={names.set} />}
			{interpreted && (
				<button
					type="button"
					class="button"
					aria-pressed={state.interpreters}
					data-testid="interpreters"
					title={T.display.interpretersHint}
					onClick={() => set({ interpreters: !state.interpreters, zoom: '' })}
				>
					{T.display.interpreters}
				</button>
			)}
			{more}
		</div>
	);
}

const SCALE: { change: number; share: number; title: () => string }[] = [
	{ change: CHANGE.gone, share: 1, title: () => T.compare.states.gone.title },
	{ change: CHANGE.less, share: 0.4, title: () => T.compare.states.less.title },
	{ change: CHANGE.noise, share: 0, title: () => T.compare.states.noise.title },
	{ change: CHANGE.more, share: 0.4, title: () => T.compare.states.more.title },
	{ change: CHANGE.fresh, share: 1, title: () => T.compare.states.new.title },
];

function Foot({ comparison, dark }: { comparison: Comparison; dark: boolean }) {
	return (
		<footer class="foot">
			<ul class="legend compare-legend" aria-label={T.compare.legend}>
				{SCALE.map(({ change, share, title }) => (
					<li key={change}>
						<i class="swatch" style={{ background: changeColor(change, share, dark) }} aria-hidden="true" />
						{title()}
					</li>
				))}
			</ul>
			<p class="stats">
				{!comparison.counted && <span data-testid="uncounted">{T.compare.uncounted}</span>} {comparison.diff.trimmed && T.compare.trimmed}
			</p>
		</footer>
	);
}

interface BodyProps {
	props: Fixed;
	more?: ComponentChildren; // among the tools
	comparison: Comparison;
	interpreted: boolean;
	type: string;
	unit: string;
	stale: boolean;
	patch: Patch;
	onProfile: ((side: 'base' | 'head', find: string) => void) | null;
}

// The next match, or the one before, by what they cost.
function useNext(comparison: Comparison, found: Found) {
	const [wanted, setWanted] = useState<{ node: number; nonce: number; of: Uint8Array | null } | null>(null);
	const focusRequest = wanted !== null && wanted.of === found.flags ? wanted : null;
	const onNext = (back: boolean) => {
		if (found.tops.length === 0) return;
		const tops = largestFirst(comparison.diff.tree, found.tops);
		const at = focusRequest ? tops.indexOf(focusRequest.node) : -1;
		const next = at < 0 ? (back ? tops.length - 1 : 0) : (at + (back ? -1 : 1) + tops.length) % tops.length;
		setWanted({ node: tops[next], nonce: (wanted?.nonce ?? 0) + 1, of: found.flags });
	};
	return { focusRequest, onNext };
}

function Body({ props, comparison, interpreted, type, unit, stale, patch, onProfile, more }: BodyProps) {
	const { state, set, dark, narrow } = props;
	const { compare: at } = state;
	const { tree } = comparison.diff;
	const figures = useMemo(() => figuresOf(comparison, type, unit), [comparison, type, unit]);
	const rows = useLater(comparison, isSmall(tree), compareRows);
	const ready = rows?.of === comparison ? rows.value : null;
	const counts = useMemo(() => ready && countChanges(ready, at.of), [ready, at.of]);
	const found = useFound(comparison, figures, state.find, state.regex);
	const { focusRequest, onNext } = useNext(comparison, found);
	const [menu, setMenu] = useState<MenuAt | null>(null);
	const closeMenu = useCallback(() => setMenu(null), []);
	const picture = useRef<Picture | null>(null);
	const onZoom = useCallback((zoom: string) => set({ zoom }), [set]);
	const onFind = (text: string) => set({ find: text, regex: false });
	useGlobalKeys(() => set({ zoom: '' }));
	const showMenu = (name: string, x: number, y: number) => {
		const items: MenuItem[] = [{ title: T.menu.find, run: () => onFind(`"${name}"`) }];
		if (onProfile)
			items.push(
				{ title: T.compare.openHead, testId: 'open-head', run: () => onProfile('head', `"${name}"`) },
				{ title: T.compare.openBase, testId: 'open-base', run: () => onProfile('base', `"${name}"`) },
			);
		items.push({ title: T.menu.copyName, run: () => void copyText(name) });
		setMenu({ x, y, head: name, items });
	};
	const show: Show = at.show || (narrow ? 'graph' : 'both');
	const graph: GraphProps = {
		comparison,
		figures,
		zoom: state.zoom,
		onZoom,
		flip: state.dir === 'flame',
		flags: found.flags,
		dark,
		focusRequest,
		onMenu: (node, x, y) => node > 0 && showMenu(tree.strings[tree.name[node]], x, y),
		picture,
	};
	const files: Download[] = [
		...(ready ? [{ ...CSV, make: () => comparedCsv(ready, unit) }] : []),
		...(show === 'table' ? [] : [{ ...PNG, make: () => pngOf(picture.current?.()) }]),
	];
	return (
		<section class={stale ? 'profile stale' : 'profile'} aria-label={T.compare.label} aria-busy={stale}>
			<Sums comparison={comparison} type={type} unit={unit} counts={counts} dark={dark} />
			<Tools
				props={props}
				found={found}
				show={show}
				patch={patch}
				onNext={onNext}
				interpreted={interpreted}
				more={
					<>
						{more}
						<Downloads items={files} />
					</>
				}
			/>
			<div class={`panes view-${show === 'sides' ? 'graph' : show}`}>
				{(show === 'both' || show === 'table') && (
					<CompareTable
						comparison={comparison}
						rows={ready}
						figures={figures}
						state={at}
						filter={state.filter}
						find={state.find}
						dark={dark}
						onState={(next) => patch(next, 'replace')}
						onFilter={(filter) => set({ filter }, 'replace')}
						onFind={onFind}
						onMenu={(row, x, y) => showMenu(row.name, x, y)}
					/>
				)}
				{(show === 'both' || show === 'graph') && <DiffGraph {...graph} width={at.width} />}
				{show === 'sides' && <SideGraphs {...graph} />}
			</div>
			<Foot comparison={comparison} dark={dark} />
			{menu && <Menu at={menu} onClose={closeMenu} />}
		</section>
	);
}

// ---- when there is nothing to compare --------------------

function Times({ choices, patch }: { choices: Choices; patch: Patch }) {
	const { from, to } = choices.head;
	const offers = [...(lengthOf(from, to) > 0 ? [{ before: JUST_BEFORE, title: T.compare.justBefore }] : []), ...PRESETS.slice(1)];
	return (
		<div class="buttons">
			{offers.map(({ before, title }) => (
				<button key={before} type="button" class="button" onClick={() => patch({ before, bfrom: '', bto: '' })}>
					{title}
				</button>
			))}
		</div>
	);
}

function Nothing({ sides, choices, patch }: { sides: { base: Side; head: Side }; choices: Choices; patch: Patch }) {
	const [base, head] = [sides.base.tree.total[0] === 0, sides.head.tree.total[0] === 0];
	const title = base && head ? T.compare.neither : base ? T.compare.noBase : T.compare.noHead;
	const now = Date.now();
	const time = (text: string) => {
		const at = parseTime(text, now);
		return at === null ? text : formatDateTime(at);
	};
	const where = (choice: Choice, key: string) => (
		<p key={key}>{rich(T.compare.nothingIn, { selector: <code>{displayName(choice.query, 300)}</code>, from: time(choice.from), to: time(choice.to) })}</p>
	);
	return (
		<Notice title={title} testId="compare-nothing">
			{base && where(choices.base, 'base')}
			{head && where(choices.head, 'head')}
			<Times choices={choices} patch={patch} />
		</Notice>
	);
}

function Lower(props: CompareProps & { choices: Choices; sides: Sides; patch: Patch }) {
	const { choices, sides, patch, typesKnown, error, onRefresh, noData, status } = props;
	const { base, head } = choices;
	const { comparison, late, interpreted } = useComparison(sides, head.selector.type, props.state);
	if (noData) return <NoDataYet status={status} />;
	if (choices.typesDiffer && typesKnown) {
		return (
			<Notice title={T.compare.types} testId="compare-types">
				<p>{T.compare.typesHow(shortType(base.selector.type), shortType(head.selector.type))}</p>
				<button type="button" class="button primary" onClick={() => patch({ base: formatSelector({ ...base.selector, type: head.selector.type }) })}>
					{T.compare.sameType}
				</button>
			</Notice>
		);
	}
	if (choices.same) {
		return (
			<Notice title={T.compare.same} testId="compare-same">
				<p>{T.compare.sameHow}</p>
				<Times choices={choices} patch={patch} />
			</Notice>
		);
	}
	const failed = sides.error ?? error;
	if (failed && !comparison) return <ErrorPanel error={failed} onRetry={onRefresh} />;
	if (!comparison) return <Skeleton />;
	const response = sides.head.data!.response;
	const { tree } = comparison.head;
	const onProfile = (side: 'base' | 'head', find: string) => {
		const { query, from, to } = choices[side];
		props.set({ view: '', q: query, from, to, sel: null, find, regex: false, compare: NO_COMPARE });
	};
	const empty = comparison.base.tree.total[0] === 0 || tree.total[0] === 0;
	const keep: Keep = async (title) => {
		const state = formatPicture(props.state, '');
		const ids: string[] = [];
		for (const side of ['base', 'head'] as const) {
			const { from_ms, to_ms } = sides[side].data!.response;
			ids.push(await keepResponse({ query: choices[side].query, from_ms, to_ms, short: props.names.choice === 'short' }, title, state));
		}
		return ids;
	};
	return (
		<>
			{failed && <ErrorBanner error={failed} onRetry={onRefresh} />}
			{!props.state.compare.relative && <BeginsLater sides={sides} status={status} />}
			{empty ? (
				<Nothing sides={comparison} choices={choices} patch={patch} />
			) : (
				<Body
					props={props}
					comparison={comparison}
					interpreted={interpreted}
					type={head.selector.type || response.type}
					unit={response.unit}
					stale={sides.stale || late}
					patch={patch}
					onProfile={onProfile}
					more={<ShareButton keep={keep} title={displayName(head.query, 120)} isFile={false} />}
				/>
			)}
		</>
	);
}

/** Two profiles that are as they are, whatever the server has now. */
export function FixedCompare({ base, head, type, state, set, dark, narrow }: { base: Profile; head: Profile; type: string } & Omit<Fixed, 'names'>) {
	const sides = useMemo(() => {
		const fixed = (data: Profile): Resource<Profile> => ({ data, of: null, error: null, loading: false, stale: false });
		return { base: fixed(base), head: fixed(head), error: null, loading: false, stale: false };
	}, [base, head]);
	const { comparison, late, interpreted } = useComparison(sides, type || head.response.type, state);
	const patch: Patch = (next, how) => set({ compare: { ...state.compare, ...next } }, how);
	if (!comparison) return <Skeleton />;
	return (
		<div class="compare">
			<Body
				props={{ state, set, dark, narrow, names: null }}
				comparison={comparison}
				interpreted={interpreted}
				type={type || head.response.type}
				unit={head.response.unit}
				stale={late}
				patch={patch}
				onProfile={null}
			/>
		</div>
	);
}

export function Compare(props: CompareProps) {
	const { state, set, selector, cover, fault, typeOf, typesKnown, nonce, names, dark, narrow } = props;
	const choices = choicesOf(state, selector, fault, typeOf, cover);
	const bad = choices.base.fault !== null || fault !== null;
	const ready = selector.type !== '' && typesKnown && cover.known && !bad && !choices.same && !choices.typesDiffer;
	const sides = useSides(choices, ready, names, nonce);
	const compareState = state.compare;
	const patch = useCallback<Patch>((next, how) => set({ compare: { ...compareState, ...next } }, how), [compareState, set]);
	const onSwap = () => set(swapped(state, choices));
	useKeys('compare', { swap: onSwap });
	return (
		<div class="compare" data-testid="compare" aria-busy={sides.loading}>
			<div class={sides.loading ? 'progress' : 'progress idle'} aria-hidden="true" />
			<Cards props={props} choices={choices} patch={patch} onSwap={onSwap} />
			<Spans
				choices={choices}
				around={cover}
				nonce={nonce}
				ready={selector.type !== '' && typesKnown && cover.known && !bad && !choices.typesDiffer}
				dark={dark}
				narrow={narrow}
				onSpan={(side, span) =>
					side === 'head'
						? set({ sel: { from: Math.round(span.from), to: Math.round(span.to) } })
						: patch({ before: '', bfrom: String(Math.round(span.from)), bto: String(Math.round(span.to)) })
				}
			/>
			<Lower {...props} choices={choices} sides={sides} patch={patch} />
		</div>
	);
}
