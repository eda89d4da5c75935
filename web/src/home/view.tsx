// SPDX-License-Identifier: Apache-2.0
/*
 * The start page: what burns CPU now, on this machine or in the fleet. What costs most by a label and by binary, each with its
 * course over the range and beside the same time a day and a week before; the functions that changed most; and how the profiler
 * itself fares. Every row leads on to its profile.
 */
import type { ComponentChildren } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import type { LabelsAnswer, SeriesAnswer, StatusAnswer, TableAnswer, TypesAnswer } from '../api/answers';
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
import { breakdown, defaultType } from '../query/asked';
import { compareBefore } from '../query/choice';
import { pipeline } from '../query/pipeline';
import { formatSelector, quote } from '../query/selector';
import { parseTime, UNTOUCHED, type PageState } from '../state/page';
import { useApi, type Resource, type SetState } from '../ui/hooks';
import { ErrorBanner, ErrorPanel, errorTitle, NoDataYet } from '../ui/notices';
import { changeOf, costRows, coveredMs, moversOf, sparkline, sumsOf, totalOf, type Change, type CostRow, type Mover } from './overview';

const ROWS = 12;
const MANY = 1000; // rows whose earlier cost is asked for
const POINTS = 48;
const DAY_MS = 86400e3;

const SERVICES = ['service_name', 'process_executable_name', 'job', 'host_name'];

export interface HomeProps {
	state: PageState;
	set: SetState;
	types: Resource<TypesAnswer>;
	status: Resource<StatusAnswer>;
	nonce: number;
	onRetry: () => void;
	children?: ComponentChildren; // behind all else
}

// ---- what to ask --------------------

interface Asked {
	type: string;
	labels: string[];
	by: string;
	costs: Resource<TableAnswer>;
	series: Resource<SeriesAnswer>;
	day: Resource<TableAnswer>;
	week: Resource<TableAnswer>;
	binaries: Resource<TableAnswer>;
	movers: Resource<TableAnswer>;
	own: Resource<TableAnswer>;
	error: ApiError | null;
}

// A step that gives some POINTS of the range, whole seconds, and not shorter than what agents send at a time.
function stepFor(lengthMs: number): string {
	return `${Math.max(20, Math.ceil(lengthMs / POINTS / 10_000) * 10)}s`;
}

function useOverview(state: PageState, types: Resource<TypesAnswer>, nonce: number, since: number): Asked {
	const { from, to } = state;
	const type = defaultType(types.data?.types.map((t) => t.name) ?? []);
	const labels = useApi<LabelsAnswer>(type ? 'labels' : null, { query: type, from, to }, nonce);
	const names = labels.data?.labels.map((l) => l.name) ?? [];
	const by = breakdown(state.by, names, SERVICES);
	const ready = type !== '' && names.length > 0;
	const now = Date.now();
	const length = (parseTime(to, now) ?? now) - (parseTime(from, now) ?? now - 3600e3);
	const sums = { q: pipeline(type, `group by ${by}`, 'sum', 'sort by value desc', `limit ${MANY}`) };
	const costs = useApi<TableAnswer>(ready ? 'pipeline' : null, { ...sums, from, to }, nonce);
	// What else is asked goes by what the server took the range for: the earlier ones are as long, to the millisecond.
	const range = costs.data && !costs.stale ? costs.data : null;
	const ask = (path: string) => (ready && range ? path : null);
	const before = (ms: number) => (range ? { ...sums, from: range.from_ms - ms, to: range.to_ms - ms } : {});
	const day = useApi<TableAnswer>(ask('pipeline'), before(DAY_MS), nonce);
	const week = useApi<TableAnswer>(ask('pipeline'), before(7 * DAY_MS), nonce);
	const series = useApi<SeriesAnswer>(ready ? 'series' : null, { query: type, from, to, step: stepFor(length), by, limit: ROWS, others: 1 }, nonce);
	const span = range ? { from: range.from_ms, to: range.to_ms } : {};
	const binaries = useApi<TableAnswer>(ask('pipeline'), { q: pipeline(type, `top ${ROWS} self by binary`), ...span }, nonce);
	const shift = since === DAY_MS ? '1d' : '7d';
	const movers = useApi<TableAnswer>(ask('pipeline'), { q: pipeline(type, `diff (shift ${shift})`, `top ${ROWS}`), ...span }, nonce);
	const own = useApi<TableAnswer>(ask('pipeline'), { q: pipeline(`${type}{process_executable_name="wick"}`, 'sum'), ...span }, nonce);
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

function CostTable({ rows, scale, heads, name, onRow, onChange, full }: CostProps) {
	const changed = (row: CostRow, before: string, then: number | null, time: string, absent: string) => (
		<ChangeLink name={name(row.key)} time={time} change={changeOf(row.value, then)} absent={absent} onCompare={() => onChange?.(row.key, before)} />
	);
	const largest = Math.max(...rows.map((row) => row.value), 1);
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
							<th scope="col" class="home-wide">
								{T.home.trend}
							</th>
							<th scope="col" class="num">
								{T.home.day}
							</th>
							<th scope="col" class="num">
								{T.home.week}
							</th>
						</>
					)}
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
								<td class="home-wide">
									<Trend values={row.trend} />
								</td>
								<td class="num">{changed(row, '1d', row.day, T.home.yesterday, T.home.noDay)}</td>
								<td class="num">{changed(row, '7d', row.week, T.home.lastWeek, T.home.noWeek)}</td>
							</>
						)}
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
					</tr>
				))}
			</tbody>
		</table>
	);
}

// ---- the page --------------------

interface CardsProps {
	asked: Asked;
	total: number;
	scale: Scale;
	status: StatusAnswer | null;
}

function Cards({ asked, total, scale, status }: CardsProps) {
	const { costs, day, week, own } = asked;
	const answer = costs.data!;
	const shown = (value: number) => scale.format(scale.of(value));
	const [sumsDay, sumsWeek] = [sumsOf(day.data), sumsOf(week.data)];
	const ownRow = own.data?.table.rows[0];
	const ownSum = ownRow ? Number(ownRow[own.data!.table.columns.findIndex((c) => c.name === 'value')]) || 0 : 0;
	const agent = status?.agent;
	const lost = agent ? agent.samples_lost / Math.max(1, agent.samples_taken + agent.samples_lost) : 0;
	return (
		<dl class="home-cards" data-testid="home-cards">
			<Card title={scale.cores ? T.home.cpuCores : scale.name} value={shown(total)}>
				<ChangeText change={changeOf(total, totalOf(sumsDay))} absent={T.home.noDay} /> {T.home.sinceDay}
				{' · '}
				<ChangeText change={changeOf(total, totalOf(sumsWeek))} absent={T.home.noWeek} /> {T.home.sinceWeek}
			</Card>
			<Card title={labelPlural(asked.by)} value={formatCount(answer.table.total_rows)}>
				{T.home.inRange}
			</Card>
			<Card title={T.home.ownCost} value={ownSum > 0 ? formatShare(ownSum, total) : '–'}>
				{ownSum > 0 ? T.home.ownCores(shown(ownSum)) : T.home.ownUnknown}
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

function binaryRows(answer: TableAnswer | null, total: number): CostRow[] {
	if (!answer) return [];
	const at = (name: string) => answer.table.columns.findIndex((column) => column.name === name);
	const [name, self] = [at('binary'), at('self')];
	return answer.table.rows.map((row) => {
		const value = Number(row[self]) || 0;
		return { key: String(row[name] ?? ''), value, share: value / Math.max(1, total), day: null, week: null, trend: [] };
	});
}

export function Home({ state, set, types, status, nonce, onRetry, children }: HomeProps) {
	const [since, setSince] = useState(DAY_MS);
	const asked = useOverview(state, types, nonce, since);
	const { costs, series, day, week, binaries, movers, by, type } = asked;
	const answer = costs.data;
	const total = totalOf(sumsOf(answer)) ?? 0;
	const rows = useMemo(
		() => costRows(sumsOf(answer) ?? new Map<string, number>(), ROWS, series.data && { answer: series.data, label: by }, sumsOf(day.data), sumsOf(week.data)),
		[answer, series.data, by, day.data, week.data],
	);
	if (asked.error && !answer) return <ErrorPanel error={asked.error} onRetry={onRetry} />;
	if (types.data && type === '')
		return (
			<div class="home-empty">
				<NoDataYet status={status.data} />
				{children}
			</div>
		);
	if (!answer) return <div class="home bone" aria-busy="true" />;
	const length = coveredMs(answer.from_ms, answer.to_ms, status.data?.data.oldest_ms ?? 0);
	const scale = seriesScale(answer.type, answer.unit, length);
	const shown = (value: number) => scale.format(scale.of(value));
	const range = { from: state.from, to: state.to, ...UNTOUCHED };
	const then = since === DAY_MS ? day : week;
	const label = (key: string) => displayName(key, 120) || T.home.none(labelTitle(by).toLowerCase());
	return (
		<div class="home" data-testid="home">
			{asked.error && <ErrorBanner error={asked.error} onRetry={onRetry} />}
			<Cards asked={asked} total={total} scale={scale} status={status.data} />
			<Part
				title={T.home.costs}
				busy={costs.loading || series.loading || day.loading || week.loading}
				error={null}
				kept
				testId="home-services"
				tools={<LabelSelect by={by} labels={asked.labels} set={set} />}
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
				{answer.table.total_rows > rows.length && (
					<p class="home-more">
						<button type="button" class="link" onClick={() => set({ ...range, view: '', q: type, by })}>
							{T.home.allOf(formatCount(answer.table.total_rows))}
						</button>
					</p>
				)}
			</Part>
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
							unit={movers.data?.unit ?? answer.unit}
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
