// SPDX-License-Identifier: Apache-2.0
// The page: where each answer of the server is shown.
import { useCallback, useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { SeriesAnswer } from '../api/answers';
import { displayName, formatDuration, formatRange, labelTitle, seriesScale, shortType } from '../base/format';
import * as T from '../base/texts';
import { AnnotationsMenu, EventsList, Flags, useAnnotations } from '../chart/annotations_view';
import { MetricsPanel } from '../chart/panel';
import { CompareButton } from '../compare/entry';
import { Compare } from '../compare/view';
import { Console } from '../console/view';
import { DropTarget, OpenFile } from '../files/open';
import { useFiles } from '../files/use_files';
import { FileView } from '../files/view';
import { Home } from '../home/view';
import { Listing } from '../listing/view';
import { buildChart, ColorKeeper, labelOf } from '../model/series';
import { ProfilePart } from '../profile/view';
import { resolveType, useAnswers, useNames, type Asked, type Names } from '../query/asked';
import { compareValue } from '../query/choice';
import { Filter } from '../query/filter';
import { Rail } from '../query/rail';
import { Range } from '../query/range';
import { formatSelector, withType, type Selector } from '../query/selector';
import { ShareButton, type Keep } from '../share/button';
import { formatPicture, keepAnswer } from '../share/snapshot';
import { DEFAULTS, isListing, isRelative, isWide, TOP_CHOICES, type PageState, type ProfileView } from '../state/page';
import { Binaries } from '../status/binaries';
import { Recordings } from '../status/recordings_view';
import { Status } from '../status/status';
import { StatusView } from '../status/view';
import { CSV, csvOfChart, Downloads } from '../ui/downloads';
import { useEvery, useMedia, useUrlState, type SetState } from '../ui/hooks';
import { CloseIcon, Logo } from '../ui/icons';
import { KeysButton, KeysList, useKeys } from '../ui/keys';
import { BadSelector, ErrorBanner, ErrorPanel, NoDataYet, NoMatch, NothingInRange, Skeleton } from '../ui/notices';
import { useTheme } from '../ui/theme';
import { ThemeToggle } from '../ui/theme_toggle';
import { Waiting } from '../ui/waiting';
import { Nav } from './nav';
import { Shared } from './shared_view';

const EMPTY_POLL_S = 2;
const STATUS_POLL_S = 15;

// ---- head --------------------

function TypeSelect({ type, types, onType }: { type: string; types: string[] | null; onType: (type: string) => void }) {
	const known = types ?? [];
	const listed = type === '' || known.includes(type) ? known : [type, ...known];
	// Two types may differ only in what the short form leaves out.
	const title = (t: string) => (listed.filter((o) => shortType(o) === shortType(t)).length > 1 ? t : shortType(t));
	return (
		<select
			class="select type-select"
			aria-label={T.type.label}
			data-testid="type-select"
			title={type}
			value={type}
			disabled={listed.length === 0}
			onChange={(event) => onType(event.currentTarget.value)}
		>
			{listed.length === 0 && <option value="">{types ? T.type.none : T.type.label}</option>}
			{listed.map((t) => (
				<option key={t} value={t}>
					{title(t)}
				</option>
			))}
		</select>
	);
}

// ---- metrics --------------------

interface MetricsPartProps {
	asked: Asked;
	state: PageState;
	set: SetState;
	dark: boolean;
	colorOf: (key: string) => number;
}

function SelectionChip({ state, set }: { state: PageState; set: SetState }) {
	const { sel } = state;
	if (!sel) return <span class="hint brush-hint">{T.chart.hint}</span>;
	return (
		<span class="chip selection" data-testid="selection">
			<button type="button" class="chip-text" title={T.chart.makeRange} onClick={() => set({ from: String(sel.from), to: String(sel.to), sel: null })}>
				<span class="chip-value">{formatRange(sel.from, sel.to)}</span>
				<span class="chip-label">{formatDuration(sel.to - sel.from)}</span>
				<b>{T.chart.zoomIn}</b>
			</button>
			<button type="button" class="chip-x" aria-label={T.chart.wholeRange} data-testid="clear-selection" onClick={() => set({ sel: null })}>
				<CloseIcon />
			</button>
		</span>
	);
}

function MetricsPart({ asked, state, set, dark, colorOf }: MetricsPartProps) {
	const { series, everything } = asked;
	const answer = series.data;
	const by = labelOf(answer, asked.by);
	const stepMs = answer?.step_ms ?? 1000;
	const unit = answer?.unit || (asked.type.split(':')[2] ?? '');
	const scale = useMemo(() => seriesScale(answer?.type || asked.type, unit, stepMs), [answer, asked.type, unit, stepMs]);
	const rest = everything.data && answer && everything.data.step_ms === answer.step_ms ? everything.data : null;
	const chart = useMemo(() => (answer ? buildChart(answer, rest, by, state.top, scale, colorOf) : null), [answer, rest, by, state.top, scale, colorOf]);
	const range = answer ? { from: answer.from_ms, to: answer.to_ms } : null;
	const annotations = useAnnotations(asked, state);
	return (
		<section class={series.stale ? 'metrics stale' : 'metrics'} aria-label={T.chart.label} aria-busy={series.loading || everything.loading}>
			<div class="metrics-head">
				<h2>{scale.cores ? T.chart.cores : scale.name || T.chart.values}</h2>
				<span class="hint">{T.chart.by(labelTitle(by).toLowerCase())}</span>
				<SelectionChip state={state} set={set} />
				<span class="spring" />
				<AnnotationsMenu annotations={annotations} range={range} state={state} set={set} />
				<select
					class="select plain top-select"
					aria-label={T.chart.howMany}
					value={state.top}
					onChange={(event) => set({ top: Number(event.currentTarget.value) }, 'replace')}
				>
					{TOP_CHOICES.map((n) => (
						<option key={n} value={n}>
							{T.chart.top(n)}
						</option>
					))}
				</select>
				<div class="joined small" role="group" aria-label={T.chart.kind}>
					{(['stacked', 'lines'] as const).map((kind) => (
						<button key={kind} type="button" class="button" aria-pressed={state.chart === kind} onClick={() => set({ chart: kind }, 'replace')}>
							{T.chart.kinds[kind]}
						</button>
					))}
				</div>
				{chart && answer && <Downloads items={[{ ...CSV, make: () => csvOfChart(chart, scale) }]} endMs={answer.to_ms} testId="series-download" small />}
			</div>
			{chart && range ? (
				<MetricsPanel
					chart={chart}
					range={range}
					scale={scale}
					unit={unit}
					gauge={!(answer?.type || asked.type).endsWith(':delta')}
					shown={state.series}
					onShown={(series) => set({ series }, 'replace')}
					pickSteps
					stacked={state.chart === 'stacked'}
					dark={dark}
					selection={state.sel}
					onSelect={(sel) => set({ sel })}
					ticks={annotations.ticks}
					overlay={(place) => (
						<>
							<Flags deploys={annotations.deploys} asked={asked} range={range} place={place} set={set} />
							<EventsList ticks={annotations.ticks} deploys={annotations.deploys} />
						</>
					)}
				/>
			) : (
				<div class={series.loading || asked.types.loading ? 'metrics-plot bone' : 'metrics-plot'} data-testid="metrics" />
			)}
		</section>
	);
}

// ---- the lower part --------------------

interface LowerProps {
	asked: Asked;
	state: PageState;
	set: SetState;
	dark: boolean;
	narrow: boolean;
	noData: boolean;
	nonce: number;
	names: Names;
	onRetry: () => void;
	onBack: () => void;
}

function Lower({ asked, state, set, dark, narrow, noData, nonce, names, onRetry, onBack }: LowerProps) {
	const { profile, types, selector, query, profileQuery, error, status, fault } = asked;
	if (fault !== null && !profile.data) return <BadSelector text={state.q} fault={fault} onUnfilter={() => set({ q: '' })} />;
	if (isListing(state.view)) {
		const { span, ready } = asked;
		return <Listing kind={state.view} state={state} set={set} query={query} span={span} names={asked.names} ready={ready} nonce={nonce} onBack={onBack} />;
	}
	if (error && !profile.data) return <ErrorPanel error={error} onRetry={onRetry} />;
	if (noData) {
		if (status.data && status.data.data.newest_ms > 0) {
			return <NothingInRange status={status.data} onShow={(from, to) => set({ from: String(from), to: String(to), sel: null })} />;
		}
		return <NoDataYet status={status.data} />;
	}
	if (!profile.data) return types.error ? null : <Skeleton />;
	if (profile.data.tree.total[0] === 0) {
		return (
			<NoMatch
				selector={profileQuery}
				filtered={selector.matchers.length > 0 || state.within !== ''}
				selected={state.sel !== null}
				onUnfilter={() => set({ q: selector.type, within: '' })}
				onUnselect={() => set({ sel: null })}
			/>
		);
	}
	const view: ProfileView = state.view && !isWide(state.view) ? state.view : narrow ? 'graph' : 'both';
	const { from_ms, to_ms } = profile.data.answer;
	const keep: Keep = async (title) => [
		await keepAnswer({ query: profileQuery, from_ms, to_ms, short: names.choice === 'short' }, title, formatPicture({ ...state, pane: view }, '')),
	];
	return (
		<ProfilePart
			profile={profile.data}
			query={query}
			partQuery={profileQuery}
			labels={asked.labels}
			state={state}
			set={set}
			view={view}
			dark={dark}
			stale={profile.stale}
			gaveUp={asked.gaveUp}
			names={names.choice}
			onNames={names.set}
			more={
				<>
					<CompareButton query={query} state={state} set={set} />
					<ShareButton keep={keep} title={displayName(query, 120)} isFile={false} />
				</>
			}
		/>
	);
}

// ---- the page --------------------

function useColors(asked: Asked, top: number): (key: string) => number {
	const keeper = useRef(new ColorKeeper());
	return useMemo(() => {
		const keysOf = (answer: SeriesAnswer | null) => {
			const label = labelOf(answer, asked.by);
			return (answer?.series ?? []).slice(0, top).map((row) => row.labels[label] ?? '');
		};
		keeper.current.assign([...new Set([...keysOf(asked.series.data), ...keysOf(asked.rail.data)])]);
		return (key: string) => keeper.current.of(key);
	}, [asked.series.data, asked.rail.data, asked.by, top]);
}

function titleOf(asked: Asked): string {
	const what = asked.selector.matchers.map((m) => displayName(m.value, 40)).join(', ');
	return [what, asked.type && shortType(asked.type), T.page.name].filter((part) => part !== '').join(' – ');
}

// From a listing, the binaries or the recordings to the profile as it was shown last.
function useBack(state: PageState, set: SetState): () => void {
	const last = useRef<Pick<PageState, 'view' | 'function' | 'file' | 'binary'>>({ view: '', function: '', file: null, binary: null });
	if (!isWide(state.view) && !isListing(state.view)) {
		const { view, function: name, file, binary } = state;
		last.current = { view, function: name, file, binary };
	}
	return () => set({ ...last.current, build: null, at: '', state: '', text: '' });
}

export function App() {
	const [state, set] = useUrlState();
	const [nonce, setNonce] = useState(0);
	const [statusNonce, setStatusNonce] = useState(0);
	const narrow = useMedia('(max-width: 899px)');
	const theme = useTheme();
	const names = useNames(state, set);
	const asked = useAnswers(state, names.choice, nonce, statusNonce, narrow);
	const onBack = useBack(state, set);
	const files = useFiles(state, set);
	const colorOf = useColors(asked, state.top);

	const refresh = useCallback(() => setNonce((n) => n + 1), []);
	const refreshAll = useCallback(() => {
		refresh();
		setStatusNonce((n) => n + 1);
	}, [refresh]);
	const noData = asked.types.data !== null && asked.types.data.types.length === 0 && !asked.types.stale;
	const waiting = noData && isRelative(state.to);
	useEvery(waiting ? EMPTY_POLL_S : state.every, refreshAll);
	useEvery(STATUS_POLL_S, () => setStatusNonce((n) => n + 1));
	useKeys('server', { refresh: refreshAll });
	const title = state.view === 'file' && state.name ? T.page.titleOf(displayName(state.name, 80)) : titleOf(asked);
	useEffect(() => {
		document.title = title;
	}, [title]);

	const setMatchers = (matchers: Selector['matchers']) => set({ q: formatSelector({ type: asked.selector.type, matchers }) });
	const typeNames = asked.types.data?.types.map((t) => t.name) ?? null;
	const wide = isWide(state.view);
	const nothing = noData || (!asked.series.data && !asked.loading);
	return (
		<div class={wide ? 'app app-wide' : 'app'}>
			<header class="bar">
				<h1 class="brand">
					<a
						href="."
						title={T.page.startAgain}
						onClick={(event) => {
							event.preventDefault();
							set({ ...DEFAULTS, view: 'home', names: state.names, every: state.every });
						}}
					>
						<Logo />
						<span>{T.page.name}</span>
					</a>
				</h1>
				<Nav state={state} set={set}>
					<OpenFile onFiles={files.onFiles} class="nav-open" />
				</Nav>
				{!wide && (
					<div class="query">
						<TypeSelect type={asked.type} types={typeNames} onType={(type) => set({ q: formatSelector({ ...asked.selector, type }) })} />
						<Filter
							selector={asked.selector}
							text={state.q || asked.query}
							fault={asked.fault}
							from={state.from}
							to={state.to}
							nonce={nonce}
							onChange={setMatchers}
							onText={(q) => set({ q })}
						/>
						<Range state={state} set={set} loading={asked.loading} onRefresh={refreshAll} />
					</div>
				)}
				{state.view === 'compare' && (
					<TypeSelect
						type={asked.type}
						types={typeNames}
						onType={(type) => set({ q: formatSelector({ ...asked.selector, type }), compare: { ...state.compare, base: withType(state.compare.base, type) } })}
					/>
				)}
				{wide && <span class="spring" />}
				{(state.view === 'home' || state.view === 'console') && <Range state={state} set={set} loading={asked.loading} onRefresh={refreshAll} />}
				<div class="bar-end">
					<Status status={asked.status} onShow={(view) => set({ view, state: '', text: '' })} />
					<KeysButton />
					<ThemeToggle theme={theme} />
				</div>
			</header>
			{!wide && (
				<Rail
					answer={noData ? null : asked.rail.data}
					loading={asked.rail.loading || asked.types.loading}
					by={labelOf(asked.rail.data, asked.by)}
					labels={asked.labels}
					onBy={(by) => set({ by })}
					selector={asked.selector}
					onMatchers={setMatchers}
					onCompare={(value, other) => set(compareValue(asked.selector, labelOf(asked.rail.data, asked.by), value, other))}
					colorOf={colorOf}
					dark={theme.dark}
				/>
			)}
			<DropTarget onFiles={files.onFiles} />
			<main class="main">
				<Waiting busy={asked.profile.loading} />
				{state.view === 'home' && (
					<Home state={state} set={set} types={asked.types} status={asked.status} nonce={nonce} onRetry={refreshAll}>
						<p class="home-open">
							{T.files.atHome} <OpenFile onFiles={files.onFiles} testId="home-open-file" />
						</p>
					</Home>
				)}
				{state.view === 'compare' && (
					<Compare
						state={state}
						set={set}
						selector={asked.selector}
						fault={asked.fault}
						typeOf={(type) => resolveType(type, typeNames ?? [])}
						typesKnown={typeNames !== null}
						noData={noData}
						status={asked.status.data}
						error={asked.types.error}
						nonce={nonce}
						dark={theme.dark}
						narrow={narrow}
						names={names}
						onRefresh={refreshAll}
					/>
				)}
				{state.view === 'console' && <Console state={state} set={set} nonce={nonce} dark={theme.dark} narrow={narrow} names={names} />}
				{state.view === 'status' && <StatusView set={set} status={asked.status} nonce={nonce} />}
				{state.view === 'binaries' && <Binaries state={state} set={set} onBack={onBack} />}
				{state.view === 'recordings' && <Recordings nonce={nonce} onBack={onBack} />}
				{state.view === 'file' && <FileView state={state} set={set} dark={theme.dark} narrow={narrow} onFiles={files.onFiles} dropped={files.dropped} />}
				{state.view === 'shared' && <Shared state={state} set={set} dark={theme.dark} narrow={narrow} nonce={nonce} onRetry={refreshAll} />}
				{!wide && (
					<>
						{asked.error && asked.profile.data && <ErrorBanner error={asked.error} onRetry={refreshAll} />}
						{!nothing && <MetricsPart asked={asked} state={state} set={set} dark={theme.dark} colorOf={colorOf} />}
						<Lower
							asked={asked}
							state={state}
							set={set}
							dark={theme.dark}
							narrow={narrow}
							noData={noData}
							nonce={nonce}
							names={names}
							onRetry={refreshAll}
							onBack={onBack}
						/>
					</>
				)}
			</main>
			<KeysList view={state.view} />
		</div>
	);
}
