// SPDX-License-Identifier: Apache-2.0
// How the profiler itself is: agents, the server and what it stores, what it scrapes, queries that were slow, limits that were hit.
import type { ComponentChildren } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import type { BinariesResponse, StatusResponse } from '../api/responses';
import { digits, displayName, formatBytes, formatCount, formatDateTime, formatDuration, formatShare } from '../base/format';
import * as T from '../base/texts';
import { FactList } from '../ui/facts';
import { hasSome } from '../ui/columns';
import { useApi, useEvery, type Resource, type SetState } from '../ui/hooks';
import { brokenShare, fleetSums, lampOf, lostShare, reasons, sortAgents, type Agent, type AgentsResponse } from '../model/health';
import { Targets } from './targets';

const EVERY_S = 10;
const AGENTS_WELL = 10; // of those that need no look, at first
const AGENTS_MOST = 2000;

interface SlowResponse {
	threshold_ms: number;
	queries: { at_ms: number; ms: number; path: string; text: string; rows: number; partial: boolean; error: string | null }[];
}

function Part({
	title,
	note,
	testId,
	error,
	children,
}: {
	title: string;
	note?: ComponentChildren;
	testId: string;
	error?: string;
	children: ComponentChildren;
}) {
	return (
		<section class="home-part" aria-label={title} data-testid={testId}>
			<div class="home-part-head">
				<h2>{title}</h2>
				{note && <span class="hint">{note}</span>}
			</div>
			{error ? (
				<p class="listing-why fault" role="alert">
					{displayName(error, 400)}
				</p>
			) : (
				children
			)}
		</section>
	);
}

const Facts = ({ rows }: { rows: [string, ComponentChildren][] }) => <FactList rows={rows} more="status-facts" />;

// ---- agents --------------------

function Counts({ title, counts }: { title: string; counts: [string, number][] }) {
	if (counts.length === 0) return null;
	return (
		<div>
			<h3>{title}</h3>
			<Facts rows={counts.map(([name, n]) => [displayName(name.replace(/_/g, ' '), 60), formatCount(n)])} />
		</div>
	);
}

function Details({ agent }: { agent: Agent }) {
	const h = agent.health ?? {};
	const rows: [string, string][] = [[T.agents.lastContact, T.agents.ago(formatDuration(agent.age_ms))]];
	const put = (title: string, value: string | undefined) => value !== undefined && value !== '' && rows.push([title, displayName(value, 200)]);
	put(T.agents.kernel, h.kernel);
	put(T.agents.event, h.event);
	put(T.agents.modes, h.modes?.join(', ').replace(/_/g, ' '));
	put(T.agents.since, h.started_ms !== undefined ? formatDateTime(h.started_ms) : undefined);
	put(T.agents.cpus, h.cpus?.toString());
	put(T.agents.follows, h.processes !== undefined ? T.agents.processes(formatCount(h.processes), formatCount(h.binaries ?? 0)) : undefined);
	put(T.agents.sent, h.sent_bytes !== undefined ? T.agents.profiles(formatCount(h.sent_profiles ?? 0), formatBytes(h.sent_bytes)) : undefined);
	put(T.agents.failures, h.send_failures ? formatCount(h.send_failures) : undefined);
	put(T.agents.waiting, h.waiting_profiles ? T.agents.profiles(formatCount(h.waiting_profiles), formatBytes(h.waiting_bytes ?? 0)) : undefined);
	put(T.agents.peak, h.resident_peak_bytes !== undefined ? formatBytes(h.resident_peak_bytes) : undefined);
	put(T.agents.recording, agent.recording);
	put(T.agents.refusal, agent.refusal);
	return (
		<div class="status-details">
			{(h.warnings ?? []).map((warning, i) => (
				<p class="field-fault" key={i}>
					{displayName(warning, 400)}
				</p>
			))}
			<Facts rows={rows} />
			<Counts title={T.agents.lostBy} counts={reasons(h.lost)} />
			<Counts title={T.agents.brokenBy} counts={reasons(h.walks, ['complete', 'analysed'])} />
		</div>
	);
}

type Health = NonNullable<Agent['health']>;

// What an agent reports of itself, as the list has it.
interface AgentColumn {
	title: string;
	wide?: boolean; // of wide screens only
	value: (health: Health) => number | null; // null, 0: nothing
	text: (value: number) => string;
}

const AGENT_COLUMNS: AgentColumn[] = [
	{ title: T.agents.rate, value: (h) => h.frequency_hz ?? 0, text: (hz) => `${hz} Hz` },
	{ title: T.agents.samples, wide: true, value: (h) => h.samples ?? 0, text: formatCount },
	{ title: T.agents.lost, value: (h) => lostShare(h), text: (share) => formatShare(share, 1) },
	{ title: T.agents.broken, wide: true, value: (h) => brokenShare(h), text: (share) => formatShare(share, 1) },
	{ title: T.agents.cost, value: (h) => h.cost_ppm ?? null, text: (ppm) => `${digits(ppm / 1e4)}%` },
	{ title: T.agents.memory, wide: true, value: (h) => h.resident_bytes ?? null, text: formatBytes },
];

function AgentRow({ agent, silent, columns, version }: { agent: Agent; silent: boolean; columns: AgentColumn[]; version: boolean }) {
	const [open, setOpen] = useState(false);
	const { health } = agent;
	const lamp = silent ? 'bad' : lampOf(agent);
	const slowed = health && (health.frequency_hz ?? 0) < (health.frequency_asked_hz ?? 0);
	return (
		<>
			<tr data-testid="agent" data-host={agent.host}>
				<td class="home-name">
					<button type="button" class="link" aria-expanded={open} onClick={() => setOpen(!open)}>
						<i class={`lamp lamp-${lamp}`} aria-hidden="true" />
						<span class="unseen">{T.agents.lamps[lamp]} </span>
						<bdi>{displayName(agent.host, 120)}</bdi>
					</button>
				</td>
				{version && <td class="home-wide">{displayName(agent.wick, 30)}</td>}
				{silent || !health ? (
					<td class="status-silent" colSpan={columns.length + 1}>
						{silent ? T.agents.silentFor(formatDuration(agent.age_ms)) : T.agents.noReport}
					</td>
				) : (
					<>
						{columns.map(({ title, wide, value, text }) => {
							const figure = value(health);
							const mark = slowed && title === T.agents.rate;
							return (
								<td key={title} class={wide ? 'num home-wide' : 'num'} title={mark ? T.agents.slowed(health.frequency_asked_hz ?? 0) : undefined}>
									{figure === null ? '–' : text(figure)}
									{mark && ' ↓'}
								</td>
							);
						})}
						<td class="home-fill" aria-hidden="true" />
					</>
				)}
			</tr>
			{open && (
				<tr class="status-open">
					<td colSpan={columns.length + 3}>
						<Details agent={agent} />
					</td>
				</tr>
			)}
		</>
	);
}

function Agents({ resource }: { resource: Resource<AgentsResponse> }) {
	const { data, error } = resource;
	const [all, setAll] = useState(false);
	const agents = useMemo(() => sortAgents(data?.agents ?? []), [data]);
	const silent = data?.silent ?? [];
	const unwell = agents.filter((agent) => lampOf(agent) !== 'good').length;
	const shown = agents.slice(0, all ? AGENTS_MOST : unwell + AGENTS_WELL);
	const sums = fleetSums(agents);
	const reports = agents.flatMap(({ health }) => (health ? [health] : []));
	const columns = AGENT_COLUMNS.filter(({ value }) => hasSome(reports, value));
	const version = hasSome([...agents, ...silent], ({ wick }) => wick);
	const note =
		sums.reporting > 0
			? T.agents.sums(formatCount(agents.length), `${digits(sums.costPpm / 1e4 / sums.reporting)}%`, formatBytes(sums.resident / sums.reporting))
			: '';
	return (
		<Part title={T.agents.title} note={note} testId="status-agents" error={error && !data ? error.message : undefined}>
			{agents.length + silent.length === 0 ? (
				<p class="table-none">{data ? T.agents.none : T.status.loading}</p>
			) : (
				<table class="home-table">
					<thead>
						<tr>
							<th scope="col">{T.agents.host}</th>
							{version && (
								<th scope="col" class="home-wide">
									{T.agents.version}
								</th>
							)}
							{columns.map(({ title, wide }) => (
								<th key={title} scope="col" class={wide ? 'num home-wide' : 'num'}>
									{title}
								</th>
							))}
							<th class="home-fill" aria-hidden="true" />
						</tr>
					</thead>
					<tbody>
						{silent.slice(0, AGENTS_MOST).map((agent) => (
							<AgentRow key={`silent ${agent.agent} ${agent.host}`} agent={agent} columns={columns} version={version} silent />
						))}
						{shown.map((agent) => (
							<AgentRow key={`${agent.agent} ${agent.host}`} agent={agent} columns={columns} version={version} silent={false} />
						))}
					</tbody>
				</table>
			)}
			{shown.length < agents.length && !all && (
				<p class="home-more">
					<button type="button" class="link" data-testid="all-agents" onClick={() => setAll(true)}>
						{T.home.allOf(formatCount(agents.length))}
					</button>
				</p>
			)}
			{all && agents.length > AGENTS_MOST && <p class="home-more hint">{T.agents.more(formatCount(agents.length - AGENTS_MOST))}</p>}
		</Part>
	);
}

// ---- the server --------------------

function Server({ status }: { status: StatusResponse }) {
	const { data, storage, levels, refused, samples_refused, queries } = status;
	const rows: [string, ComponentChildren][] = [
		[T.status.version, status.version],
		[T.status.uptime, formatDuration(status.uptime_s * 1000)],
		[T.status.stored, T.status.samples(formatCount(data.samples), formatBytes(data.bytes))],
	];
	if (data.newest_ms > 0) rows.push([T.status.oldest, formatDateTime(data.oldest_ms)], [T.status.newest, formatDateTime(data.newest_ms)]);
	if (storage) {
		rows.push([T.server.head, T.server.series(formatCount(storage.head_samples), formatCount(storage.head_series), formatBytes(storage.head_bytes))]);
		rows.push([T.server.log, formatBytes(storage.log_bytes)]);
		rows.push([T.server.compactions, formatCount(storage.compactions)]);
		if (storage.compact_failures > 0) rows.push([T.server.compactFailures, formatCount(storage.compact_failures)]);
		if (storage.problems > 0) rows.push([T.server.problems, formatCount(storage.problems)]);
	}
	for (const level of levels ?? []) rows.push([T.server.level(level.level), T.server.blocks(formatCount(level.blocks), formatBytes(level.bytes))]);
	const hit: [string, number][] = [...reasons(refused), ...reasons(samples_refused).map(([name, n]): [string, number] => [T.server.samples(name), n])];
	return (
		<>
			<Part title={T.server.title} testId="status-server">
				<Facts rows={rows} />
			</Part>
			<Part title={T.server.limits} testId="status-limits">
				{hit.length === 0 ? (
					<p class="table-none">{T.server.noLimits}</p>
				) : (
					<Facts rows={hit.map(([name, n]) => [displayName(name.replace(/_/g, ' '), 60), formatCount(n)])} />
				)}
			</Part>
			{queries && (
				<Part title={T.server.queries} testId="status-queries">
					<Facts rows={Object.entries(queries).map(([name, n]) => [displayName(T.server.queryCounts[name] ?? name.replace(/_/g, ' '), 60), formatCount(n)])} />
				</Part>
			)}
		</>
	);
}

function Slow({ resource }: { resource: Resource<SlowResponse> }) {
	const { data, error } = resource;
	const note = data ? T.server.slowerThan(formatDuration(data.threshold_ms)) : '';
	return (
		<Part title={T.server.slow} note={note} testId="status-slow" error={error && !data ? error.message : undefined}>
			{!data || data.queries.length === 0 ? (
				<p class="table-none">{data ? T.server.noSlow : T.status.loading}</p>
			) : (
				<ul class="status-slow">
					{data.queries.map((query, i) => (
						<li key={i}>
							<b>{formatDuration(query.ms)}</b>
							<code>{displayName(query.text || query.path, 300)}</code>
							<small>
								{`${formatDateTime(query.at_ms)} · ${T.server.rowsRead(formatCount(query.rows))}`}
								{query.error && ` · ${displayName(query.error, 120)}`}
							</small>
						</li>
					))}
				</ul>
			)}
		</Part>
	);
}

function Symbols({ resource, set }: { resource: Resource<BinariesResponse>; set: SetState }) {
	const { data, error } = resource;
	const counts = Object.entries(data?.counts ?? {}).filter(([, n]) => n > 0);
	return (
		<Part title={T.server.symbols} testId="status-symbols" error={error && !data ? error.message : undefined}>
			<Facts
				rows={counts.map(([state, n]) => [
					T.binaries.states[state as keyof typeof T.binaries.states]?.title ?? displayName(state, 40),
					<button type="button" class="link" onClick={() => set({ view: 'binaries', state, text: '' })}>
						{formatCount(n)}
					</button>,
				])}
			/>
			{data && (
				<p class="home-more">
					<button type="button" class="link" onClick={() => set({ view: 'binaries', state: '', text: '' })}>
						{T.status.binaries}
					</button>
				</p>
			)}
		</Part>
	);
}

export function StatusView({ set, status, nonce }: { set: SetState; status: Resource<StatusResponse>; nonce: number }) {
	const [tick, setTick] = useState(0);
	useEvery(EVERY_S, () => setTick((n) => n + 1));
	const now = nonce + tick;
	const agents = useApi<AgentsResponse>('agents', {}, now);
	const slow = useApi<SlowResponse>('slow', {}, now);
	const binaries = useApi<BinariesResponse>('binaries', { limit: 1 }, now);
	return (
		<div class="home" data-testid="status-view">
			{status.error && (
				<p class="banner" role="alert">
					{T.status.noResponse(status.error.message)}
				</p>
			)}
			<Agents resource={agents} />
			<div class="home-columns">
				<div>{status.data && <Server status={status.data} />}</div>
				<div>
					<Part title={T.targets.label} testId="status-targets">
						<div class="status-targets">
							<Targets showEmpty />
						</div>
					</Part>
					<Symbols resource={binaries} set={set} />
					<Slow resource={slow} />
				</div>
			</div>
		</div>
	);
}
