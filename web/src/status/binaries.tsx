// SPDX-License-Identifier: Apache-2.0
// Which binaries were seen, and what is known of each: names, lines, or why not.
import { useState } from 'preact/hooks';
import type { BinariesResponse, Binary } from '../api/responses';
import { apiPost } from '../api/client';
import { baseName, displayName, formatBytes, formatCount, formatDateTime, formatDuration, lookUp } from '../base/format';
import * as T from '../base/texts';
import type { PageState } from '../state/page';
import { Switch } from '../ui/controls';
import { hasSome } from '../ui/columns';
import { useApi, useDebounced, useEvery, type SetState } from '../ui/hooks';
import { BackIcon, CopyIcon, RefreshIcon, SearchIcon } from '../ui/icons';
import { copyText } from '../ui/menu';

const PAGE_ROWS = 100;
const BUSY_S = 2;
const IDLE_S = 15;

const STATES: Record<string, { title: string; choice?: string; lamp: string; hint: string }> = {
	queued: { ...T.binaries.states.queued, lamp: 'idle' },
	working: { ...T.binaries.states.working, lamp: 'busy' },
	complete: { ...T.binaries.states.complete, lamp: 'good' },
	partial: { ...T.binaries.states.partial, lamp: 'warn' },
	missing: { ...T.binaries.states.missing, lamp: 'bad' },
	failed: { ...T.binaries.states.failed, lamp: 'bad' },
};

const stateOf = (state: string) => lookUp(STATES, state, { title: state, lamp: 'idle', hint: '' });

function States({ counts, state, set }: { counts: Record<string, number>; state: string; set: SetState }) {
	const all = Object.values(counts).reduce((sum, n) => sum + n, 0);
	const choices = ['', ...Object.keys(STATES)];
	return (
		<div class="joined states" role="group" aria-label={T.binaries.state}>
			{choices.map((s) => (
				<Switch
					key={s}
					testId={`state-${s || 'all'}`}
					pressed={state.split(',').includes(s)}
					title={s === '' ? T.binaries.all.hint : STATES[s].hint}
					onPress={() => set({ state: s })}
				>
					{s === '' ? T.binaries.all.title : STATES[s].choice}
					<span class="tally">{formatCount(s === '' ? all : (counts[s] ?? 0))}</span>
				</Switch>
			))}
		</div>
	);
}

const list = (parts: (string | false)[]) => parts.filter((part) => part).join(', ');
const some = (n: number | undefined, text: (count: string) => string) => n !== undefined && n > 0 && text(formatCount(n));

function uploadsText(u: BinariesResponse['uploads']): string {
	if (!u.enabled) return T.binaries.uploadsOff;
	const parts = list([
		u.files > 0 && T.binaries.files(u.files, formatCount(u.files), formatBytes(u.bytes)),
		some(u.open, T.binaries.arriving),
		some(u.refused, T.binaries.refused),
		some(u.failed, T.binaries.failed),
		some(u.evicted, T.binaries.evicted),
	]);
	return parts || T.binaries.uploadsNone;
}

function debuginfodText(d: BinariesResponse['debuginfod']): string {
	if (d.problem) return d.problem;
	if (d.servers === 0) return T.binaries.noServer;
	const counts = list([
		some(d.found, T.binaries.found),
		some((d.missing ?? 0) + (d.missing_cached ?? 0), T.binaries.notThere),
		some(d.failures, T.binaries.failed),
		(d.bytes_fetched ?? 0) > 0 && T.binaries.fetched(formatBytes(d.bytes_fetched ?? 0)),
	]);
	return T.binaries.servers(d.servers, counts || (d.found === undefined ? '' : T.binaries.noRequests));
}

function Summary({ response }: { response: BinariesResponse }) {
	const { queue, uploads, debuginfod } = response;
	const busy = queue.waiting + queue.running;
	const rows: [string, string][] = [
		[T.binaries.queue, busy === 0 ? T.binaries.idle : T.binaries.busy(queue.running, formatCount(queue.waiting))],
		[T.binaries.uploads, uploadsText(uploads)],
		[T.binaries.debuginfod, debuginfodText(debuginfod)],
	];
	return (
		<dl class="binaries-summary">
			{rows.map(([name, text]) => (
				<div key={name}>
					<dt>
						{name === T.binaries.queue && <i class={`lamp lamp-${busy > 0 ? 'busy' : 'good'}`} aria-hidden="true" />}
						{name}
					</dt>
					<dd title={displayName(text)}>{displayName(text)}</dd>
				</div>
			))}
		</dl>
	);
}

function BuildId({ id }: { id: string }) {
	const [copied, setCopied] = useState(false);
	if (id === '') return <span class="hint">{T.binaries.noBuildId}</span>;
	return (
		<button
			type="button"
			class="build-id mono"
			title={T.binaries.clickToCopy(displayName(id, 140))}
			onClick={async () => {
				await copyText(id);
				setCopied(true);
				setTimeout(() => setCopied(false), 1200);
			}}
		>
			<span class="unseen">{T.binaries.copyBuildId} </span>
			{displayName(id.slice(0, 12), 12)}
			{copied ? <span class="copied">{T.binaries.copied}</span> : <CopyIcon />}
		</button>
	);
}

const ago = (ms: number, now: number) => (ms <= 0 ? '–' : now - ms < 1000 ? T.time.now : T.time.ago(formatDuration(now - ms)));

type Shown = Record<'why' | 'functions' | 'table' | 'built', boolean>;

const shownOf = (rows: readonly Binary[]): Shown => ({
	why: hasSome(rows, ({ why, from, sources }) => why || from || sources),
	functions: hasSome(rows, ({ functions }) => functions),
	table: hasSome(rows, ({ table_bytes }) => table_bytes),
	built: hasSome(rows, ({ build_ms }) => build_ms),
});

function BinaryRow({ binary, has, now, onRetry }: { binary: Binary; has: Shown; now: number; onRetry: () => Promise<void> }) {
	const [busy, setBusy] = useState(false);
	const known = stateOf(binary.state);
	const again = binary.retry_ms > now ? T.binaries.again(formatDuration(binary.retry_ms - now)) : '';
	const why = [binary.why, binary.from && T.binaries.from(binary.from)].filter((part) => part).join(' · ');
	return (
		<tr data-testid="binary" data-state={binary.state}>
			<td class="b-path">
				<span class="b-name" title={displayName(binary.path, 600)}>
					<bdi>{displayName(baseName(binary.path), 120) || T.binaries.noPath}</bdi>
				</span>
				<BuildId id={binary.build_id} />
			</td>
			<td class="b-state">
				<span class={`pill pill-${known.lamp}`} title={known.hint + again}>
					<i class={`lamp lamp-${known.lamp}`} aria-hidden="true" />
					{displayName(known.title, 20)}
				</span>
				{binary.ambiguous && (
					<span class="pill pill-warn" title={T.binaries.ambiguousHint} data-testid="binary-ambiguous">
						{T.binaries.ambiguous}
					</span>
				)}
			</td>
			{has.functions && (
				<td class="b-number" data-title={T.binaries.heads.functions} title={T.binaries.known(binary.functions, binary.lines)}>
					{binary.functions > 0 ? formatCount(binary.functions) : '–'}
					<small>{binary.lines > 0 ? T.binaries.lines(formatCount(binary.lines)) : ''}</small>
				</td>
			)}
			{has.table && (
				<td class="b-number" data-title={T.binaries.heads.table} title={T.binaries.tableHint}>
					{binary.table_bytes > 0 ? formatBytes(binary.table_bytes) : '–'}
					<small>{binary.input_bytes > 0 ? T.binaries.madeOf(formatBytes(binary.input_bytes)) : ''}</small>
				</td>
			)}
			{has.built && (
				<td
					class="b-number"
					data-title={T.binaries.heads.built}
					title={T.binaries.builtHint(formatDuration(binary.cpu_ms), formatBytes(binary.memory_peak_bytes))}
				>
					{binary.build_ms > 0 ? formatDuration(binary.build_ms) : '–'}
					<small>{binary.memory_peak_bytes > 0 ? formatBytes(binary.memory_peak_bytes) : ''}</small>
				</td>
			)}
			<td class="b-number" data-title={T.binaries.heads.samples} title={T.binaries.firstSeen(formatDateTime(binary.first_seen_ms))}>
				{formatCount(binary.samples)}
				<small>{ago(binary.last_seen_ms, now)}</small>
			</td>
			{has.why && (
				<td class="b-why" title={displayName(why + again, 800)}>
					{binary.sources && <span class="b-sources">{displayName(binary.sources.replace(/,/g, ', '), 80)}</span>}
					<span class="b-reason">{displayName(why, 300)}</span>
				</td>
			)}
			<td class="b-retry">
				<button
					type="button"
					class={busy ? 'ghost busy' : 'ghost'}
					disabled={busy || binary.build_id === '' || binary.state === 'queued' || binary.state === 'working'}
					aria-label={T.binaries.lookAgainFor(displayName(baseName(binary.path), 80))}
					title={T.binaries.lookAgain}
					data-testid="retry"
					onClick={async () => {
						setBusy(true);
						await onRetry();
						setBusy(false);
					}}
				>
					<RefreshIcon />
				</button>
			</td>
		</tr>
	);
}

const COLUMNS: [where: string, title: string, key?: keyof Shown][] = [
	['b-path', T.binaries.heads.path],
	['b-state', T.binaries.heads.state],
	['b-number', T.binaries.heads.functions, 'functions'],
	['b-number', T.binaries.heads.table, 'table'],
	['b-number', T.binaries.heads.built, 'built'],
	['b-number', T.binaries.heads.samples],
	['b-why', T.binaries.heads.why, 'why'],
	['b-retry', ''],
];

export function Binaries({ state, set, onBack }: { state: PageState; set: SetState; onBack: () => void }) {
	const [nonce, setNonce] = useState(0);
	const [limit, setLimit] = useState(PAGE_ROWS);
	const [fault, setFault] = useState('');
	const text = useDebounced(state.text, 150);
	const { data, error, loading, stale } = useApi<BinariesResponse>('binaries', { state: state.state, text, limit }, nonce);
	const busy = data !== null && data.queue.waiting + data.queue.running > 0;
	useEvery(busy ? BUSY_S : IDLE_S, () => setNonce((n) => n + 1));
	const now = Date.now();
	const retry = async (binary: Binary) => {
		try {
			await apiPost(`binaries/${encodeURIComponent(binary.build_id)}/retry`);
			setFault('');
		} catch (failure) {
			setFault(`${baseName(binary.path)}: ${(failure as Error).message}`);
		}
		setNonce((n) => n + 1);
	};
	const rows = data?.binaries ?? [];
	const has = shownOf(rows);
	return (
		<section class={stale ? 'profile binaries stale' : 'profile binaries'} aria-label={T.binaries.label} aria-busy={loading}>
			<div class="tools" role="toolbar" aria-label={T.binaries.tools}>
				<button type="button" class="button" data-testid="binaries-back" onClick={onBack}>
					<BackIcon />
					{T.page.toProfile}
				</button>
				<States counts={data?.counts ?? {}} state={state.state} set={set} />
				<div class="search" role="search">
					<SearchIcon />
					<input
						type="search"
						placeholder={T.binaries.searchHint}
						aria-label={T.binaries.search}
						data-testid="binaries-search"
						autocomplete="off"
						spellcheck={false}
						value={state.text}
						onInput={(event) => set({ text: event.currentTarget.value }, 'replace')}
					/>
				</div>
			</div>
			{data && <Summary response={data} />}
			{(error || fault) && (
				<p class="listing-why fault" role="alert">
					{displayName(error ? error.message : fault, 400)}
				</p>
			)}
			<div class="binaries-scroll" tabIndex={0} aria-label={T.binaries.describe}>
				<table class="binaries-table" data-testid="binaries">
					<thead>
						<tr>
							{COLUMNS.filter(([, , key]) => !key || has[key]).map(([name, title], i) => (
								<th key={i} class={name} scope="col">
									{title}
								</th>
							))}
						</tr>
					</thead>
					<tbody>
						{rows.map((binary) => (
							<BinaryRow key={binary.build_id + binary.path} binary={binary} has={has} now={now} onRetry={() => retry(binary)} />
						))}
					</tbody>
				</table>
				{data && rows.length === 0 && <p class="table-none">{state.state || state.text ? T.binaries.noneLikeThat : T.binaries.none}</p>}
				{data && rows.length < data.total && (
					<button type="button" class="link" onClick={() => setLimit(limit + 4 * PAGE_ROWS)}>
						{T.binaries.more(formatCount(data.total))}
					</button>
				)}
			</div>
		</section>
	);
}
