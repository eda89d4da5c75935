// SPDX-License-Identifier: Apache-2.0
// The page: where each response of the server is shown.
import { useCallback, useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { apiGet } from '../api/client';
import type { SeriesResponse } from '../api/responses';
import { displayName, formatDuration, formatMoment, formatRange, isGauge, labelTitle, seriesScale, shortType } from '../base/format';
import * as T from '../base/texts';
import { usableOffsets } from '../base/zone';
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
import { resolveType, useRequests, useNames, type Requests, type Names } from '../query/requests';
import { compareValue } from '../query/choice';
import { Filter } from '../query/filter';
import { Rail } from '../query/rail';
import { justBefore, Range } from '../query/range';
import { findScrape } from '../query/scrape';
import { formatSelector, withType, type Selector } from '../query/selector';
import { ShareButton, type Keep } from '../share/button';
import { formatPicture, keepResponse } from '../share/snapshot';
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
import { useZone, ZoneSelect } from '../ui/zone_select';
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
	requests: Requests;
	state: PageState;
	set: SetState;
	dark: boolean;
	colorOf: (key: string) => number;
}

function SelectionChip({ state, set, onJust }: { state: PageState; set: SetState; onJust: () => void }) {
	const { sel } = state;
	if (!sel) return <span class="hint brush-hint">{T.chart.hint}</span>;
	return (
		<span class="chip selection" data-testid="selection">
			<button type="button" class="chip-text" title={T.chart.makeRange} onClick={() => set({ from: String(sel.from), to: String(sel.to), sel: null })}>
				<span class="chip-value">{formatRange(sel.from, sel.to)}</span>
				<span class="chip-label">{formatDuration(sel.to - sel.from)}</span>
				<b>{T.chart.zoomIn}</b>
			</button>
			<button type="button" class="chip-text chip-before" title={T.range.justBeforeHint} data-testid="selection-before" onClick={onJust}>
				<b>{T.range.justBefore}</b>
			</button>
			<button type="button" class="chip-x" aria-label={T.chart.wholeRange} data-testid="clear-selection" onClick={() => set({ sel: null })}>
				<CloseIcon />
			</button>
		</span>
	);
}

// Steps through the profiles of a gauge, each by itself: an average hides what one of them had.
function ScrapeButtons({ query, range, state, set }: { query: string; range: { from: number; to: number }; state: PageState; set: SetState }) {
	const [busy, setBusy] = useState(false);
	const { sel } = state;
	const go = async (last: boolean) => {
		const fetchSteps = async (from: number, to: number, step: number) => {
			const response = await apiGet<SeriesResponse>('series', { query, from: String(from), to: String(to), step: `${step}ms`, exact: '1' });
			return response.series.flatMap((row) => row.points.map(([at]) => at));
		};
		setBusy(true);
		try {
			const found = await (last
				? findScrape(fetchSteps, range.from, sel?.from ?? range.to, true)
				: findScrape(fetchSteps, sel?.to ?? range.from, range.to, false));
			if (found !== null) set({ sel: { from: found, to: found + 1 } });
		} catch {
			// The chart and the profile use the same server, and show the error.
		} finally {
			setBusy(false);
		}
	};
	return (
		<span class="joined small" role="group" aria-label={T.chart.scrape}>
			{[
				{ to: 'before', hint: T.chart.scrapeBefore, sign: '‹' },
				{ to: 'after', hint: T.chart.scrapeAfter, sign: '›' },
			].map(({ to, hint, sign }) => (
				<button
					key={to}
					type="button"
					class="button"
					disabled={busy}
					title={hint}
					aria-label={hint}
					data-testid={`scrape-${to}`}
					onClick={() => void go(to === 'before')}
				>
					{sign}
				</button>
			))}
		</span>
	);
}

// What values of the type are, and that those of a gauge are averages.
function TypeAbout({ requests }: { requests: Requests }) {
	const about = requests.types.data?.types.find((one) => one.name === requests.type)?.description ?? '';
	const parts = [displayName(about), isGauge(requests.type) ? T.type.average : ''].filter((part) => part !== '');
	if (parts.length === 0) return null;
	return (
		<span class="hint type-about" data-testid="type-about">
			{parts.join('; ')}
		</span>
	);
}

function MetricsPart({ requests, state, set, dark, colorOf }: MetricsPartProps) {
	const { series, everything, cover } = requests;
	const { begin } = cover;
	const response = series.data;
	const by = labelOf(response, requests.by);
	const stepMs = response?.step_ms ?? 1000;
	const unit = response?.unit || (requests.type.split(':')[2] ?? '');
	const scale = useMemo(() => seriesScale(response?.type || requests.type, unit, stepMs), [response, requests.type, unit, stepMs]);
	const rest = everything.data && response && everything.data.step_ms === response.step_ms ? everything.data : null;
	const chart = useMemo(
		() => (response ? buildChart(response, rest, by, state.top, scale, colorOf, begin) : null),
		[response, rest, by, state.top, scale, colorOf, begin],
	);
	const range = response ? { from: response.from_ms, to: response.to_ms } : null;
	const annotations = useAnnotations(requests, state);
	return (
		<section class={series.stale ? 'metrics stale' : 'metrics'} aria-label={T.chart.label} aria-busy={series.loading || everything.loading}>
			<div class="metrics-head">
				<h2>{scale.cores ? T.chart.cores : scale.name || T.chart.values}</h2>
				<span class="hint">{T.chart.by(labelTitle(by).toLowerCase())}</span>
				<SelectionChip state={state} set={set} onJust={() => set(justBefore(state, cover, requests.status.data?.data.oldest_ms ?? 0))} />
				{range && isGauge(requests.type) && <ScrapeButtons query={requests.query} range={range} state={state} set={set} />}
				<TypeAbout requests={requests} />
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
				{chart && response && <Downloads items={[{ ...CSV, make: () => csvOfChart(chart, scale) }]} endMs={response.to_ms} testId="series-download" small />}
			</div>
			{chart && range ? (
				<MetricsPanel
					chart={chart}
					range={range}
					scale={scale}
					unit={unit}
					gauge={isGauge(response?.type || requests.type)}
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
							{range && begin !== null && !cover.clipped && <NoDataBefore begin={begin} stepMs={stepMs} from={range.from} place={place} />}
							<Flags deploys={annotations.deploys} requests={requests} range={range} place={place} set={set} />
							<EventsList ticks={annotations.ticks} deploys={annotations.deploys} />
						</>
					)}
				/>
			) : (
				<div class={series.loading || requests.types.loading ? 'metrics-plot bone' : 'metrics-plot'} data-testid="metrics" />
			)}
		</section>
	);
}

// The part of a range, which somebody chose, from before there were data.
function NoDataBefore({ begin, stepMs, from, place }: { begin: number; stepMs: number; from: number; place: (ms: number) => number }) {
	// The first step is drawn from its beginning.
	const [left, right] = [place(from), place(Math.floor(begin / stepMs) * stepMs)];
	const text = T.chart.noDataBefore(formatMoment(begin));
	return (
		<div class="metrics-void" style={{ left: `${left}px`, width: `${Math.max(0, right - left)}px` }} title={text} data-testid="no-data-before">
			<span>{text}</span>
		</div>
	);
}

// ---- the lower part --------------------

interface LowerProps {
	requests: Requests;
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

function Lower({ requests, state, set, dark, narrow, noData, nonce, names, onRetry, onBack }: LowerProps) {
	const { profile, types, selector, query, profileQuery, error, status, fault } = requests;
	if (fault !== null && !profile.data) return <BadSelector text={state.q} fault={fault} onUnfilter={() => set({ q: '' })} />;
	if (isListing(state.view)) {
		const { span, ready } = requests;
		return <Listing kind={state.view} state={state} set={set} query={query} span={span} names={requests.names} ready={ready} nonce={nonce} onBack={onBack} />;
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
	const { from_ms, to_ms } = profile.data.response;
	const keep: Keep = async (title) => [
		await keepResponse({ query: profileQuery, from_ms, to_ms, short: names.choice === 'short' }, title, formatPicture({ ...state, pane: view }, '')),
	];
	return (
		<ProfilePart
			profile={profile.data}
			query={query}
			partQuery={profileQuery}
			labels={requests.labels}
			state={state}
			set={set}
			view={view}
			dark={dark}
			stale={profile.stale}
			gaveUp={requests.gaveUp}
			names={names.choice}
			onNames={names.set}
			more={
				<>
					<CompareButton query={query} set={set} onJust={() => set(justBefore(state, requests.cover, status.data?.data.oldest_ms ?? 0))} />
					<ShareButton keep={keep} title={displayName(query, 120)} isFile={false} />
				</>
			}
		/>
	);
}

// ---- the page --------------------

function useColors(requests: Requests, top: number): (key: string) => number {
	const keeper = useRef(new ColorKeeper());
	return useMemo(() => {
		const keysOf = (response: SeriesResponse | null) => {
			const label = labelOf(response, requests.by);
			return (response?.series ?? []).slice(0, top).map((row) => row.labels[label] ?? '');
		};
		keeper.current.assign([...new Set([...keysOf(requests.series.data), ...keysOf(requests.rail.data)])]);
		return (key: string) => keeper.current.of(key);
	}, [requests.series.data, requests.rail.data, requests.by, top]);
}

function titleOf(requests: Requests): string {
	const what = requests.selector.matchers.map((m) => displayName(m.value, 40)).join(', ');
	return [what, requests.type && shortType(requests.type), T.page.name].filter((part) => part !== '').join(' – ');
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
	const requests = useRequests(state, names.choice, nonce, statusNonce, narrow);
	const zone = useZone(state, set, usableOffsets(requests.status.data?.utc_offsets));
	const onBack = useBack(state, set);
	const files = useFiles(state, set);
	const colorOf = useColors(requests, state.top);

	const refresh = useCallback(() => setNonce((n) => n + 1), []);
	const refreshAll = useCallback(() => {
		refresh();
		setStatusNonce((n) => n + 1);
	}, [refresh]);
	const noData = requests.types.data !== null && requests.types.data.types.length === 0 && !requests.types.stale;
	const waiting = noData && isRelative(state.to);
	useEvery(waiting ? EMPTY_POLL_S : state.every, refreshAll);
	useEvery(STATUS_POLL_S, () => setStatusNonce((n) => n + 1));
	useKeys('server', { refresh: refreshAll });
	const title = state.view === 'file' && state.name ? T.page.titleOf(displayName(state.name, 80)) : titleOf(requests);
	useEffect(() => {
		document.title = title;
	}, [title]);

	const setMatchers = (matchers: Selector['matchers']) => set({ q: formatSelector({ type: requests.selector.type, matchers }) });
	const typeNames = requests.types.data?.types.map((t) => t.name) ?? null;
	const wide = isWide(state.view);
	const oldest = requests.status.data?.data.oldest_ms ?? 0;
	const nothing = noData || (!requests.series.data && !requests.loading);
	return (
		<div class={wide ? 'app app-wide' : 'app'}>
			<header class="bar">
				<h1 class="brand">
					<a
						href="."
						title={T.page.startAgain}
						onClick={(event) => {
							event.preventDefault();
							set({ ...DEFAULTS, view: 'home', names: state.names, tz: state.tz, every: state.every });
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
						<TypeSelect type={requests.type} types={typeNames} onType={(type) => set({ q: formatSelector({ ...requests.selector, type }) })} />
						<Filter
							selector={requests.selector}
							text={state.q || requests.query}
							fault={requests.fault}
							from={state.from}
							to={state.to}
							nonce={nonce}
							onChange={setMatchers}
							onText={(q) => set({ q })}
						/>
						<Range state={state} set={set} cover={requests.cover} oldest={oldest} loading={requests.loading} onRefresh={refreshAll} />
					</div>
				)}
				{state.view === 'compare' && (
					<TypeSelect
						type={requests.type}
						types={typeNames}
						onType={(type) =>
							set({ q: formatSelector({ ...requests.selector, type }), compare: { ...state.compare, base: withType(state.compare.base, type) } })
						}
					/>
				)}
				{wide && <span class="spring" />}
				{(state.view === 'home' || state.view === 'console') && (
					<Range state={state} set={set} cover={requests.cover} oldest={oldest} loading={requests.loading} onRefresh={refreshAll} />
				)}
				<div class="bar-end">
					<Status status={requests.status} onShow={(view) => set({ view, state: '', text: '' })} />
					<KeysButton />
					<ZoneSelect {...zone} />
					<ThemeToggle theme={theme} />
				</div>
			</header>
			{!wide && (
				<Rail
					response={noData ? null : requests.rail.data}
					loading={requests.rail.loading || requests.types.loading}
					by={labelOf(requests.rail.data, requests.by)}
					labels={requests.labels}
					onBy={(by) => set({ by })}
					selector={requests.selector}
					onMatchers={setMatchers}
					onCompare={(value, other) => set(compareValue(requests.selector, labelOf(requests.rail.data, requests.by), value, other))}
					colorOf={colorOf}
					dark={theme.dark}
				/>
			)}
			<DropTarget onFiles={files.onFiles} />
			<main class="main">
				<Waiting busy={requests.profile.loading} />
				{state.view === 'home' && (
					<Home
						state={state}
						set={set}
						types={requests.types}
						cover={requests.cover}
						profile={requests.profile}
						dark={theme.dark}
						status={requests.status}
						nonce={nonce}
						onRetry={refreshAll}
					>
						<p class="home-open">
							{T.files.atHome} <OpenFile onFiles={files.onFiles} testId="home-open-file" />
						</p>
					</Home>
				)}
				{state.view === 'compare' && (
					<Compare
						state={state}
						set={set}
						selector={requests.selector}
						cover={requests.cover}
						fault={requests.fault}
						typeOf={(type) => resolveType(type, typeNames ?? [])}
						typesKnown={typeNames !== null}
						noData={noData}
						status={requests.status.data}
						error={requests.types.error}
						nonce={nonce}
						dark={theme.dark}
						narrow={narrow}
						names={names}
						onRefresh={refreshAll}
					/>
				)}
				{state.view === 'console' && <Console state={state} set={set} cover={requests.cover} nonce={nonce} dark={theme.dark} narrow={narrow} names={names} />}
				{state.view === 'status' && <StatusView set={set} status={requests.status} nonce={nonce} />}
				{state.view === 'binaries' && <Binaries state={state} set={set} onBack={onBack} />}
				{state.view === 'recordings' && <Recordings nonce={nonce} onBack={onBack} />}
				{state.view === 'file' && <FileView state={state} set={set} dark={theme.dark} narrow={narrow} onFiles={files.onFiles} dropped={files.dropped} />}
				{state.view === 'shared' && <Shared state={state} set={set} dark={theme.dark} narrow={narrow} nonce={nonce} onRetry={refreshAll} />}
				{!wide && (
					<>
						{requests.error && requests.profile.data && <ErrorBanner error={requests.error} onRetry={refreshAll} />}
						{!nothing && <MetricsPart requests={requests} state={state} set={set} dark={theme.dark} colorOf={colorOf} />}
						<Lower
							requests={requests}
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
