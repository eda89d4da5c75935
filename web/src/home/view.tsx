// SPDX-License-Identifier: Apache-2.0
/*
 * The start page: what burns CPU now, on this machine or in the fleet. What costs most by a label and by binary, each with its
 * course over the range and beside the same time a day and a week before; the functions that changed most; and how the profiler
 * itself fares. Every row leads on to its profile.
 */
import type { ComponentChildren } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import type { LabelsResponse, SeriesResponse, StatusResponse, TableResponse, TypesResponse } from '../api/responses';
import type { ApiError } from '../api/client';
import {
	displayName,
	formatBytes,
	formatCount,
	formatDuration,
	formatShare,
	formatValue,
	labelPlural,
	labelTitle,
	seriesScale,
	type Scale,
} from '../base/format';
import * as T from '../base/texts';
import { breakdown, defaultType, type Profile } from '../query/requests';
import { compareBefore } from '../query/choice';
import type { Cover } from '../query/cover';
import { pipeline } from '../query/pipeline';
import { formatSelector, quote } from '../query/selector';
import { parseTime, UNTOUCHED, type PageState } from '../state/page';
import { fleetSums, lostShareOf, type AgentsResponse } from '../model/health';
import { hasSome } from '../ui/columns';
import { useApi, type Resource, type SetState } from '../ui/hooks';
import { ErrorBanner, ErrorPanel, errorTitle, NoDataYet } from '../ui/notices';
import { HomeGraph } from './graph';
import { changeOf, costRows, coveredMs, moversOf, sparkline, sumsOf, totalOf, type Change, type CostRow, type Mover } from './overview';

const ROWS = 12;
const MANY = 1000; // rows whose earlier cost is requested
const POINTS = 48;
const DAY_MS = 86400e3;

const SERVICES = ['service_name', 'process_executable_name', 'job', 'host_name'];

export interface HomeProps {
	state: PageState;
	set: SetState;
	types: Resource<TypesResponse>;
	cover: Cover;
	profile: Resource<Profile>; // of everything
	dark: boolean;
	status: Resource<StatusResponse>;
	nonce: number;
	onRetry: () => void;
	children?: ComponentChildren; // behind all else
}

// ---- requests --------------------

interface Requests {
	type: string;
	labels: string[];
	by: string;
	costs: Resource<TableResponse>;
	series: Resource<SeriesResponse>;
	day: Resource<TableResponse>;
	week: Resource<TableResponse>;
	binaries: Resource<TableResponse>;
	movers: Resource<TableResponse>;
	own: Resource<AgentsResponse>; // what agents say of their cost
	error: ApiError | null;
}

// A step that gives some POINTS of the range, whole seconds, and not shorter than what agents send at a time.
function stepFor(lengthMs: number): string {
	return `${Math.max(20, Math.ceil(lengthMs / POINTS / 10_000) * 10)}s`;
}

function useOverview(state: PageState, types: Resource<TypesResponse>, cover: Cover, nonce: number, since: number): Requests {
	const { from, to } = cover;
	const type = defaultType(types.data?.types.map((t) => t.name) ?? []);
	const labels = useApi<LabelsResponse>(type && cover.known ? 'labels' : null, { query: type, from, to }, nonce);
	const names = labels.data?.labels.map((l) => l.name) ?? [];
	const by = breakdown(state.by, names, SERVICES);
	const ready = type !== '' && cover.known && names.length > 0;
	const now = Date.now();
	const length = (parseTime(to, now) ?? now) - (parseTime(from, now) ?? now - 3600e3);
	const sums = { q: pipeline(type, `group by ${by}`, 'sum', 'sort by value desc', `limit ${MANY}`) };
	const costs = useApi<TableResponse>(ready ? 'pipeline' : null, { ...sums, from, to }, nonce);
	// Other requests use the range as the server understood it: the earlier ones are as long, to the millisecond.
	const range = costs.data && !costs.stale ? costs.data : null;
	const whenReady = (path: string) => (ready && range ? path : null);
	const before = (ms: number) => (range ? { ...sums, from: range.from_ms - ms, to: range.to_ms - ms } : {});
	const day = useApi<TableResponse>(whenReady('pipeline'), before(DAY_MS), nonce);
	const week = useApi<TableResponse>(whenReady('pipeline'), before(7 * DAY_MS), nonce);
	const series = useApi<SeriesResponse>(ready ? 'series' : null, { query: type, from, to, step: stepFor(length), by, limit: ROWS, others: 1 }, nonce);
	const span = range ? { from: range.from_ms, to: range.to_ms } : {};
	const binaries = useApi<TableResponse>(whenReady('pipeline'), { q: pipeline(type, `top ${ROWS} self by binary`), ...span }, nonce);
	const shift = since === DAY_MS ? '1d' : '7d';
	const movers = useApi<TableResponse>(whenReady('pipeline'), { q: pipeline(type, `diff (shift ${shift})`, `top ${ROWS}`), ...span }, nonce);
	const own = useApi<AgentsResponse>('agents', {}, nonce);
	return {
		type,
		labels: names,
		by,
		costs,
		series,
		day,
		week,
		binaries,
		movers,
		own,
		error: types.error ?? labels.error ?? costs.error,
	};
}

// ---- parts --------------------

function ChangeText({ change, absent }: { change: Change; absent: string }) {
	switch (change.kind) {
		case 'unknown':
			return (
				<span class="change change-none" title={absent}>
					–
				</span>
			);
		case 'new':
			return <span class="change change-more">{T.home.isNew}</span>;
		case 'same':
			return <span class="change">{T.home.same}</span>;
		default: {
			const percent = Math.abs(change.ratio * 100);
			const text = percent >= 1000 ? `${(change.ratio + 1).toFixed(0)}×` : `${percent.toFixed(percent < 10 ? 1 : 0)}%`;
			return (
				<span class={`change change-${change.kind}`}>
					<span aria-hidden="true">{change.kind === 'more' ? '▲' : '▼'}</span>
					<span class="unseen">{change.kind === 'more' ? T.home.more : T.home.less} </span>
					{text}
				</span>
			);
		}
	}
}

function Card({ title, value, children }: { title: string; value: string; children?: ComponentChildren }) {
	return (
		<div class="home-card">
			<dt>{title}</dt>
			<dd>
				<b>{value}</b>
				{children && <small>{children}</small>}
			</dd>
		</div>
	);
}

function Trend({ values }: { values: (number | null)[] }) {
	const path = sparkline(values, 96, 20);
	return (
		<svg class="home-trend" width="96" height="22" viewBox="0 -1 96 22" aria-hidden="true">
			{path !== '' && <path d={path} fill="none" />}
		</svg>
	);
}

interface PartProps {
	title: string;
	hint?: string;
	busy: boolean;
	error: ApiError | null;
	kept: boolean; // after an error: the children are what there was before
	testId: string;
	tools?: ComponentChildren;
	children: ComponentChildren;
}

function Part({ title, hint, busy, error, kept, testId, tools, children }: PartProps) {
	return (
		<section class="home-part" aria-label={title} aria-busy={busy} data-testid={testId}>
			<div class="home-part-head">
				<h2>{title}</h2>
				{hint && <span class="hint">{hint}</span>}
				<span class="spring" />
				{tools}
			</div>
			{error && (
				<p class="listing-why fault" role="alert">
					{errorTitle(error)}. {displayName(error.message, 400)} {kept && T.fault.older}
				</p>
			)}
			{(!error || kept) && children}
		</section>
	);
}

interface CostProps {
	rows: CostRow[];
	scale: (value: number) => string;
	heads: [string, string]; // of the name, of the value
	name: (key: string) => string;
	onRow: (key: string) => void;
	onChange?: (key: string, before: string) => void; // compare with that long before
	full: boolean; // with trend and what was before
}

// How something changed; pressed, what of it did.
function ChangeLink({ name, time, change, absent, onCompare }: { name: string; time: string; change: Change; absent: string; onCompare: () => void }) {
	if (change.kind === 'unknown') return <ChangeText change={change} absent={absent} />;
	return (
		<button
			type="button"
			class="link change-link"
			title={T.compare.toCompare(name, time)}
			onClick={(event) => {
				event.stopPropagation();
				onCompare();
			}}
		>
			<ChangeText change={change} absent={absent} />
		</button>
	);
}

// A dash is for a time that has no data at all; what cost nothing then is new, or gone.
const isMeasured = (then: 'day' | 'week') => (row: CostRow) => row[then] !== null;

function CostTable({ rows, scale, heads, name, onRow, onChange, full }: CostProps) {
	const changed = (row: CostRow, before: string, then: number | null, time: string, absent: string) => (
		<ChangeLink name={name(row.key)} time={time} change={changeOf(row.value, then)} absent={absent} onCompare={() => onChange?.(row.key, before)} />
	);
	const largest = Math.max(...rows.map((row) => row.value), 1);
	const has = { trend: hasSome(rows, ({ trend }) => sparkline(trend, 1, 1)), day: hasSome(rows, isMeasured('day')), week: hasSome(rows, isMeasured('week')) };
	return (
		<table class="home-table">
			<thead>
				<tr>
					<th scope="col">{heads[0]}</th>
					<th scope="col" class="num">
						{heads[1]}
					</th>
					<th scope="col" class="num">
						{T.home.share}
					</th>
					{full && (
						<>
							{has.trend && (
								<th scope="col" class="home-wide">
									{T.home.trend}
								</th>
							)}
							{has.day && (
								<th scope="col" class="num">
									{T.home.day}
								</th>
							)}
							{has.week && (
								<th scope="col" class="num">
									{T.home.week}
								</th>
							)}
						</>
					)}
					<th class="home-fill" aria-hidden="true" />
				</tr>
			</thead>
			<tbody>
				{rows.map((row) => (
					<tr key={row.key} onClick={() => onRow(row.key)}>
						<td class="home-name">
							<button
								type="button"
								class="link"
								title={T.home.toProfile(name(row.key))}
								onClick={(event) => {
									event.stopPropagation();
									onRow(row.key);
								}}
							>
								<bdi>{name(row.key)}</bdi>
							</button>
						</td>
						<td class="num">{scale(row.value)}</td>
						<td class="num home-share">
							<i style={{ width: `${(100 * row.value) / largest}%` }} aria-hidden="true" />
							<span>{formatShare(row.share, 1)}</span>
						</td>
						{full && (
							<>
								{has.trend && (
									<td class="home-wide">
										<Trend values={row.trend} />
									</td>
								)}
								{has.day && <td class="num">{changed(row, '1d', row.day, T.home.yesterday, T.home.noDay)}</td>}
								{has.week && <td class="num">{changed(row, '7d', row.week, T.home.lastWeek, T.home.noWeek)}</td>}
							</>
						)}
						<td class="home-fill" aria-hidden="true" />
					</tr>
				))}
			</tbody>
		</table>
	);
}

interface MoversProps {
	rows: Mover[];
	unit: string;
	time: string; // since when
	onRow: (mover: Mover) => void;
	onChange: (mover: Mover) => void;
}

function Movers({ rows, unit, time, onRow, onChange }: MoversProps) {
	return (
		<table class="home-table">
			<thead>
				<tr>
					<th scope="col">{T.home.function}</th>
					<th scope="col" class="num">
						{T.home.before}
					</th>
					<th scope="col" class="num">
						{T.home.now}
					</th>
					<th scope="col" class="num">
						{T.home.change}
					</th>
					<th class="home-fill" aria-hidden="true" />
				</tr>
			</thead>
			<tbody>
				{rows.map((row, i) => (
					<tr key={i} onClick={() => onRow(row)}>
						<td class="home-name">
							<button
								type="button"
								class="link"
								title={T.home.toProfile(displayName(row.function, 600))}
								onClick={(event) => {
									event.stopPropagation();
									onRow(row);
								}}
							>
								<bdi>{displayName(row.function, 200)}</bdi>
							</button>
							<small>
								<bdi>{displayName(row.binary, 80)}</bdi>
							</small>
						</td>
						<td class="num">{formatValue(row.before, unit)}</td>
						<td class="num">{formatValue(row.now, unit)}</td>
						<td class="num">
							<ChangeLink
								name={displayName(row.function, 200)}
								time={time}
								change={row.state === 'new' ? { kind: 'new' } : changeOf(row.now, row.before)}
								absent=""
								onCompare={() => onChange(row)}
							/>
						</td>
						<td class="home-fill" aria-hidden="true" />
					</tr>
				))}
			</tbody>
		</table>
	);
}

// ---- the page --------------------

interface CardsProps {
	requests: Requests;
	total: number;
	scale: Scale;
	length: number; // ms of the range that have data
	status: StatusResponse | null;
}

function Cards({ requests, total, scale, length, status }: CardsProps) {
	const { costs, day, week, own } = requests;
	const response = costs.data!;
	const shown = (value: number) => scale.format(scale.of(value));
	const [sumsDay, sumsWeek] = [sumsOf(day.data), sumsOf(week.data)];
	// What agents say that they cost, as the status shows it: samples cannot tell an agent from other programs called wick.
	const fleet = fleetSums(own.data?.agents ?? []);
	const ownCores = fleet.costPpm / 1e6;
	const ownShare = total > 0 ? formatShare(ownCores, scale.of(total)) : '–';
	const agent = status?.agent;
	const lost = agent ? lostShareOf(agent) : 0;
	return (
		<dl class="home-cards" data-testid="home-cards">
			<Card title={scale.cores ? T.home.cpuCores : scale.name} value={shown(total)}>
				{sumsDay && (
					<>
						<ChangeText change={changeOf(total, totalOf(sumsDay))} absent={T.home.noDay} /> {T.home.sinceDay}
					</>
				)}
				{sumsDay && sumsWeek && ' · '}
				{sumsWeek && (
					<>
						<ChangeText change={changeOf(total, totalOf(sumsWeek))} absent={T.home.noWeek} /> {T.home.sinceWeek}
					</>
				)}
				{!sumsDay && !sumsWeek && T.home.average(formatDuration(length))}
			</Card>
			<Card title={labelPlural(requests.by)} value={formatCount(response.table.total_rows)}>
				{T.home.inRange}
			</Card>
			<Card title={T.home.ownCost} value={fleet.reporting > 0 && scale.cores ? ownShare : '–'}>
				{fleet.reporting > 0 ? T.home.ownCores((ownCores * 100).toFixed(ownCores < 0.1 ? 2 : 0), fleet.reporting) : T.home.ownUnknown}
			</Card>
			{agent && (
				<Card title={T.home.lost} value={formatShare(lost, 1)}>
					{T.home.taken(formatCount(agent.samples_taken))}
				</Card>
			)}
			{status && (
				<Card title={T.home.stored} value={formatBytes(status.data.bytes)}>
					{T.home.storedOf(formatCount(status.data.samples), formatDuration(status.data.newest_ms - status.data.oldest_ms))}
				</Card>
			)}
		</dl>
	);
}

function LabelSelect({ by, labels, set }: { by: string; labels: string[]; set: SetState }) {
	return (
		<select class="select plain" aria-label={T.home.breakDown} data-testid="home-by" value={by} onChange={(event) => set({ by: event.currentTarget.value })}>
			{labels.map((label) => (
				<option key={label} value={label}>
					{labelTitle(label)}
				</option>
			))}
		</select>
	);
}

function SinceSwitch({ since, onSince }: { since: number; onSince: (ms: number) => void }) {
	return (
		<div class="joined small" role="group" aria-label={T.home.since}>
			{[DAY_MS, 7 * DAY_MS].map((ms) => (
				<button key={ms} type="button" class="button" aria-pressed={since === ms} onClick={() => onSince(ms)}>
					{ms === DAY_MS ? T.home.yesterday : T.home.lastWeek}
				</button>
			))}
		</div>
	);
}

function binaryRows(response: TableResponse | null, total: number): CostRow[] {
	if (!response) return [];
	const at = (name: string) => response.table.columns.findIndex((column) => column.name === name);
	const [name, self] = [at('binary'), at('self')];
	return response.table.rows.map((row) => {
		const value = Number(row[self]) || 0;
		return { key: String(row[name] ?? ''), value, share: value / Math.max(1, total), day: null, week: null, trend: [] };
	});
}

export function Home({ state, set, types, cover, profile, dark, status, nonce, onRetry, children }: HomeProps) {
	const [since, setSince] = useState(DAY_MS);
	const requests = useOverview(state, types, cover, nonce, since);
	const { costs, series, day, week, binaries, movers, by, type } = requests;
	const response = costs.data;
	const total = totalOf(sumsOf(response)) ?? 0;
	const rows = useMemo(
		() =>
			costRows(sumsOf(response) ?? new Map<string, number>(), ROWS, series.data && { response: series.data, label: by }, sumsOf(day.data), sumsOf(week.data)),
		[response, series.data, by, day.data, week.data],
	);
	if (requests.error && !response) return <ErrorPanel error={requests.error} onRetry={onRetry} />;
	if (types.data && type === '')
		return (
			<div class="home-empty">
				<NoDataYet status={status.data} />
				{children}
			</div>
		);
	if (!response) return <div class="home bone" aria-busy="true" />;
	const length = coveredMs(response.from_ms, response.to_ms, cover.begin ?? 0);
	const scale = seriesScale(response.type, response.unit, length);
	const shown = (value: number) => scale.format(scale.of(value));
	const range = { from: state.from, to: state.to, ...UNTOUCHED };
	const then = since === DAY_MS ? day : week;
	const label = (key: string) => displayName(key, 120) || T.home.none(labelTitle(by).toLowerCase());
	return (
		<div class="home" data-testid="home">
			{requests.error && <ErrorBanner error={requests.error} onRetry={onRetry} />}
			<Cards requests={requests} total={total} scale={scale} length={length} status={status.data} />
			<div class="home-top">
				{profile.data ? (
					<HomeGraph profile={profile.data} state={state} set={set} there={{ ...range, view: '', q: '' }} stale={profile.stale} dark={dark} />
				) : (
					<div class="home-part home-graph bone" />
				)}
				<Part
					title={T.home.costs}
					busy={costs.loading || series.loading || day.loading || week.loading}
					error={null}
					kept
					testId="home-services"
					tools={<LabelSelect by={by} labels={requests.labels} set={set} />}
				>
					<CostTable
						rows={rows}
						scale={shown}
						heads={[labelTitle(by), scale.cores ? T.home.cores : scale.name]}
						name={label}
						onRow={(key) => set({ ...range, view: '', q: `${type}{${by}=${quote(key)}}`, by })}
						onChange={(key, before) => set({ ...range, q: `${type}{${by}=${quote(key)}}`, by, ...compareBefore(before) })}
						full
					/>
					{response.table.total_rows > rows.length && (
						<p class="home-more">
							<button type="button" class="link" onClick={() => set({ ...range, view: '', q: type, by })}>
								{T.home.allOf(formatCount(response.table.total_rows))}
							</button>
						</p>
					)}
				</Part>
			</div>
			<div class="home-columns">
				<Part
					title={T.home.moved}
					busy={movers.loading}
					error={movers.error}
					kept={movers.data !== null}
					testId="home-movers"
					tools={<SinceSwitch since={since} onSince={setSince} />}
				>
					{then.data && !then.stale && then.data.table.rows.length === 0 ? (
						<p class="table-none">{since === DAY_MS ? T.home.noDay : T.home.noWeek}</p>
					) : (
						<Movers
							rows={moversOf(movers.data)}
							unit={movers.data?.unit ?? response.unit}
							time={since === DAY_MS ? T.home.yesterday : T.home.lastWeek}
							onChange={(mover) => set({ ...range, q: type, find: `"${mover.function}"`, regex: false, ...compareBefore(since === DAY_MS ? '1d' : '7d') })}
							onRow={(mover) => set({ ...range, view: '', q: formatSelector({ type, matchers: [] }), find: `"${mover.function}"`, regex: false })}
						/>
					)}
				</Part>
				<Part title={T.home.binaries} hint={T.home.bySelf} busy={binaries.loading} error={binaries.error} kept={binaries.data !== null} testId="home-binaries">
					<CostTable
						rows={binaryRows(binaries.data, total)}
						scale={shown}
						heads={[T.home.binary, scale.cores ? T.home.cores : scale.name]}
						name={(key) => displayName(key, 120) || T.home.unknown}
						onRow={(key) => set({ ...range, view: '', q: formatSelector({ type, matchers: [] }), find: `in:${key}`, regex: false })}
						full={false}
					/>
				</Part>
			</div>
			{children}
		</div>
	);
}
