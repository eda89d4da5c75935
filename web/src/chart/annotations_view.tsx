// SPDX-License-Identifier: Apache-2.0
// Deploys and markers on the graph over time: what is requested for them, the flags, and the menu that chooses (model/annotations.ts).
import { useMemo, useRef, useState } from 'preact/hooks';
import type { MarkersResponse, SeriesResponse } from '../api/responses';
import type { ApiError } from '../api/client';
import { displayName, formatClock, formatCount, formatDateTime } from '../base/format';
import * as T from '../base/texts';
import type { Requests } from '../query/requests';
import { compareRanges } from '../query/choice';
import { formatSelector } from '../query/selector';
import type { PageState } from '../state/page';
import { useApi, type SetState } from '../ui/hooks';
import { Menu, type MenuAt } from '../ui/menu';
import { Popover } from '../ui/popover';
import { beforeAndAfter, cluster, deploysOf, LOOK_BACK, markerNames, tickRows, versionLabels, type Deploy, type TickRow } from './annotations';
import type { Span } from './brush';

const ROWS_MAX = 300; // versions of services
const STEPS = 240; // of the sums by version
const TICKS_MAX = 3000;
const NAMES_ASKED = 5000; // markers, for their names
const NAMES_SHOWN = 100;
const FLAG_PX = 16;

export interface Annotations {
	deploys: Deploy[];
	ticks: TickRow[];
	versions: boolean; // there is a label for them
	truncated: boolean; // there are markers that are not drawn
	error: ApiError | null; // of the markers
}

/** What is to be seen beside the series of the graph, requested when those have come. */
export function useAnnotations(requests: Requests, state: PageState): Annotations {
	const response = requests.series.data;
	const round = useRef({ response, n: 0 });
	if (round.current.response !== response) round.current = { response, n: round.current.n + 1 };
	const nonce = round.current.n;
	const names = requests.labels.join(' '); // the list is another one each time
	const labels = useMemo(() => versionLabels(names.split(' ')), [names]);
	const length = response ? response.to_ms - response.from_ms : 0;
	const from = response ? Math.round(response.from_ms - LOOK_BACK * length) : 0;
	const step = response ? Math.ceil((length * (1 + LOOK_BACK)) / STEPS / response.step_ms) * response.step_ms : 0;
	const fresh = response !== null && !requests.series.stale;
	const sums = useApi<SeriesResponse>(
		fresh && state.deploys && labels ? 'series' : null,
		labels && response
			? {
					query: requests.query,
					from,
					to: response.to_ms,
					step: `${step}ms`,
					by: labels.service ? [labels.version, labels.service] : labels.version,
					limit: ROWS_MAX,
				}
			: {},
		nonce,
	);
	const markers = useApi<MarkersResponse>(
		fresh && state.mark.length > 0 ? 'markers' : null,
		response ? { from: response.from_ms, to: response.to_ms, name: state.mark, limit: TICKS_MAX } : {},
		nonce,
	);
	const deploys = useMemo(
		() => (state.deploys && sums.data && labels && response ? deploysOf(sums.data, labels, { from: response.from_ms, to: response.to_ms }) : []),
		[sums.data, labels, state.deploys, response],
	);
	const ticks = useMemo(() => (state.mark.length > 0 ? tickRows(markers.data, state.mark) : []), [markers.data, state.mark]);
	return { deploys, ticks, versions: labels !== null, truncated: markers.data?.truncated ?? false, error: state.mark.length > 0 ? markers.error : null };
}

// ---- flags --------------------

interface FlagsProps {
	deploys: Deploy[];
	requests: Requests;
	range: Span;
	place: (ms: number) => number; // in pixels from the left edge
	set: SetState;
}

function sayDeploy({ at, service, version, before }: Deploy): string {
	const what = T.chart.deploy(displayName(version, 60), displayName(before, 60));
	return `${formatClock(at)} ${service === '' ? what : T.chart.deployOf(displayName(service, 60), what)}`;
}

export function Flags({ deploys, requests, range, place, set }: FlagsProps) {
	const [menu, setMenu] = useState<MenuAt | null>(null);
	const labels = versionLabels(requests.labels);
	const compare = (deploy: Deploy) => {
		const { selector } = requests;
		const known = labels && labels.service !== '' && deploy.service !== '' && !selector.matchers.some((m) => m.label === labels.service && m.op === '=');
		const matchers = known ? [...selector.matchers, { label: labels.service, op: '=' as const, value: deploy.service }] : selector.matchers;
		set({ ...compareRanges(...beforeAndAfter(deploy, range)), q: formatSelector({ ...selector, matchers }) });
	};
	return (
		<div class="flags" role="group" aria-label={T.chart.deploys}>
			{cluster(deploys, (deploy) => place(deploy.at), FLAG_PX).map(({ x, items }) => (
				<div class="flag" key={items[0].at} style={{ left: `${x}px` }}>
					<button
						type="button"
						data-testid="deploy"
						title={[...items.slice(0, 10).map(sayDeploy), ...(items.length > 10 ? [T.chart.moreDeploys(items.length - 10)] : []), T.chart.deployHint].join(
							'\n',
						)}
						aria-label={`${items.slice(0, 10).map(sayDeploy).join('; ')}. ${T.chart.deployHint}`}
						aria-haspopup={items.length > 1 ? 'menu' : undefined}
						onClick={(event) => {
							if (items.length === 1) return compare(items[0]);
							const { left, bottom } = event.currentTarget.getBoundingClientRect();
							return setMenu({
								x: left,
								y: bottom + 2,
								head: T.chart.compareWith,
								items: items.map((deploy) => ({ title: sayDeploy(deploy), testId: 'deploy-item', run: () => compare(deploy) })),
							});
						}}
					>
						{items.length > 1 ? items.length : <i aria-hidden="true" />}
					</button>
				</div>
			))}
			{menu && <Menu at={menu} onClose={() => setMenu(null)} />}
		</div>
	);
}

// ---- the menu --------------------

interface MenuProps {
	annotations: Annotations;
	range: Span | null;
	state: PageState;
	set: SetState;
}

function MarkerChoice({ range, state, set }: Omit<MenuProps, 'annotations'>) {
	const { data, error } = useApi<MarkersResponse>(range ? 'markers' : null, range ? { from: range.from, to: range.to, limit: NAMES_ASKED } : {}, 0);
	const names = useMemo(() => (data ? markerNames(data) : []), [data]);
	const listed = [...names, ...state.mark.filter((name) => !names.some((one) => one.name === name)).map((name) => ({ name, count: 0 }))];
	const toggle = (name: string) => set({ mark: state.mark.includes(name) ? state.mark.filter((one) => one !== name) : [...state.mark, name] }, 'replace');
	if (error) return <p class="fault">{displayName(error.message, 300)}</p>;
	if (!data) return <p class="hint">{T.chart.looking}</p>;
	if (listed.length === 0) return <p class="hint">{T.chart.noMarkers}</p>;
	return (
		<ul class="mark-list">
			{listed.slice(0, NAMES_SHOWN).map(({ name, count }) => (
				<li key={name}>
					<label>
						<input type="checkbox" checked={state.mark.includes(name)} onChange={() => toggle(name)} />
						<bdi>{displayName(name, 120)}</bdi>
						<span class="hint">{formatCount(count)}</span>
					</label>
				</li>
			))}
		</ul>
	);
}

export function AnnotationsMenu({ annotations, range, state, set }: MenuProps) {
	const { deploys, versions, truncated, error } = annotations;
	return (
		<Popover label={T.chart.events} button={T.chart.events} buttonClass="button plain" testId="events">
			{() => (
				<div class="events">
					<label>
						<input
							type="checkbox"
							data-testid="deploys-toggle"
							disabled={!versions}
							checked={versions && state.deploys}
							onChange={() => set({ deploys: !state.deploys }, 'replace')}
						/>
						{T.chart.deploys}
						<span class="hint">{versions ? formatCount(deploys.length) : T.chart.noVersions}</span>
					</label>
					<h3>{T.chart.markers}</h3>
					<MarkerChoice range={range} state={state} set={set} />
					{truncated && <p class="hint">{T.chart.newestMarkers(formatCount(TICKS_MAX))}</p>}
					{error && <p class="fault">{displayName(error.message, 300)}</p>}
				</div>
			)}
		</Popover>
	);
}

/** What is drawn of markers and deploys, for those who do not see it. */
export function EventsList({ ticks, deploys }: { ticks: TickRow[]; deploys: Deploy[] }) {
	const drawn = ticks.filter((row) => row.ticks.length > 0);
	if (drawn.length === 0 && deploys.length === 0) return null;
	return (
		<ul class="unseen" aria-label={T.chart.events}>
			{deploys.map((deploy, i) => (
				<li key={i}>{sayDeploy(deploy)}</li>
			))}
			{drawn.map(({ name, ticks: of }) => (
				<li key={name}>{T.chart.markersLabel(displayName(name, 120), of.length, formatDateTime(of[of.length - 1].from))}</li>
			))}
		</ul>
	);
}
