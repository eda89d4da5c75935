// SPDX-License-Identifier: Apache-2.0
// Which binaries were seen, and what is known of each: names, lines, or why not.
import { useState } from 'preact/hooks';
import { apiPost, type BinariesAnswer, type Binary } from './api';
import { baseName, displayName, formatBytes, formatCount, formatDateTime, formatDuration } from './format';
import { useApi, useDebounced, useEvery, type SetState } from './hooks';
import { BackIcon, CopyIcon, RefreshIcon, SearchIcon } from './icons';
import { copyText } from './menu';
import type { PageState } from './state';

const PAGE_ROWS = 100;
const BUSY_S = 2;
const IDLE_S = 15;

const STATES: Record<string, { title: string; lamp: string; hint: string }> = {
	queued: { title: 'queued', lamp: 'idle', hint: 'seen; waits for a worker' },
	working: { title: 'working', lamp: 'busy', hint: 'its table is being built, or its debug information fetched' },
	complete: { title: 'complete', lamp: 'good', hint: 'functions and lines are known' },
	partial: { title: 'partial', lamp: 'warn', hint: 'names only, or some of them' },
	missing: { title: 'missing', lamp: 'bad', hint: 'nothing was found; looked for again later' },
	failed: { title: 'failed', lamp: 'bad', hint: 'something was found that cannot be used' },
};

const stateOf = (state: string) => STATES[state] ?? { title: state, lamp: 'idle', hint: '' };

function States({ counts, state, set }: { counts: Record<string, number>; state: string; set: SetState }) {
	const all = Object.values(counts).reduce((sum, n) => sum + n, 0);
	const choices = ['', ...Object.keys(STATES)];
	return (
		<div class="joined states" role="group" aria-label="State">
			{choices.map((s) => (
				<button
					key={s}
					type="button"
					class="button"
					aria-pressed={state.split(',').includes(s)}
					title={s === '' ? 'All binaries' : stateOf(s).hint}
					data-testid={`state-${s || 'all'}`}
					onClick={() => set({ state: s })}
				>
					{s === '' ? 'All' : s[0].toUpperCase() + s.slice(1)}
					<span class="tally">{formatCount(s === '' ? all : (counts[s] ?? 0))}</span>
				</button>
			))}
		</div>
	);
}

const list = (parts: (string | false)[]) => parts.filter((part) => part).join(', ');
const some = (n: number, what: string) => n > 0 && `${formatCount(n)} ${what}`;

function uploadsText(u: BinariesAnswer['uploads']): string {
	if (!u.enabled) return 'off';
	const parts = list([
		u.files > 0 && `${formatCount(u.files)} ${u.files === 1 ? 'file' : 'files'}, ${formatBytes(u.bytes)}`,
		some(u.open, 'arriving'),
		some(u.refused, 'refused'),
		some(u.failed, 'failed'),
		some(u.evicted, 'removed to make room'),
	]);
	return parts || 'none yet';
}

function debuginfodText(d: BinariesAnswer['debuginfod']): string {
	if (d.problem) return d.problem;
	if (d.servers === 0) return 'no server is set';
	const asked = list([
		some(d.found, 'found'),
		some(d.missing + d.missing_cached, 'not there'),
		some(d.failures, 'failed'),
		d.bytes_fetched > 0 && `${formatBytes(d.bytes_fetched)} fetched`,
	]);
	return `${d.servers} ${d.servers === 1 ? 'server' : 'servers'}: ${asked || 'nothing asked yet'}`;
}

function Summary({ answer }: { answer: BinariesAnswer }) {
	const { queue, uploads, debuginfod } = answer;
	const busy = queue.waiting + queue.running;
	const rows: [string, string][] = [
		['Queue', busy === 0 ? 'nothing to do' : `${queue.running} running, ${formatCount(queue.waiting)} waiting`],
		['Uploads', uploadsText(uploads)],
		['debuginfod', debuginfodText(debuginfod)],
	];
	return (
		<dl class="binaries-summary">
			{rows.map(([name, text]) => (
				<div key={name}>
					<dt>
						{name === 'Queue' && <i class={`lamp lamp-${busy > 0 ? 'busy' : 'good'}`} aria-hidden="true" />}
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
	if (id === '') return <span class="hint">no build-id</span>;
	return (
		<button
			type="button"
			class="build-id mono"
			title={`${displayName(id, 140)}: click to copy`}
			aria-label={`Copy build-id ${displayName(id, 140)}`}
			onClick={async () => {
				await copyText(id);
				setCopied(true);
				setTimeout(() => setCopied(false), 1200);
			}}
		>
			{displayName(id.slice(0, 12), 12)}
			{copied ? <span class="copied">copied</span> : <CopyIcon />}
		</button>
	);
}

const ago = (ms: number, now: number) => (ms <= 0 ? '–' : now - ms < 1000 ? 'now' : `${formatDuration(now - ms)} ago`);

function BinaryRow({ binary, now, onRetry }: { binary: Binary; now: number; onRetry: () => Promise<void> }) {
	const [busy, setBusy] = useState(false);
	const known = stateOf(binary.state);
	const again = binary.retry_ms > now ? ` Looked for again in ${formatDuration(binary.retry_ms - now)}.` : '';
	const why = [binary.why, binary.from && `from ${binary.from}`].filter((part) => part).join(' · ');
	return (
		<tr data-testid="binary" data-state={binary.state}>
			<td class="b-path">
				<span class="b-name" title={displayName(binary.path, 600)}>
					<bdi>{displayName(baseName(binary.path), 120) || '(no path)'}</bdi>
				</span>
				<BuildId id={binary.build_id} />
			</td>
			<td class="b-state">
				<span class={`pill pill-${known.lamp}`} title={known.hint + again}>
					<i class={`lamp lamp-${known.lamp}`} aria-hidden="true" />
					{displayName(known.title, 20)}
				</span>
			</td>
			<td class="b-why" title={displayName(why + again, 800)}>
				{binary.sources && <span class="b-sources">{displayName(binary.sources.replace(/,/g, ', '), 80)}</span>}
				<span class="b-reason">{displayName(why, 300)}</span>
			</td>
			<td class="b-number" data-title="Functions" title={`${binary.functions} functions, ${binary.lines} lines of code known`}>
				{binary.functions > 0 ? formatCount(binary.functions) : '–'}
				<small>{binary.lines > 0 ? `${formatCount(binary.lines)} lines` : ''}</small>
			</td>
			<td class="b-number" data-title="Table" title="The table, and what it was made of">
				{binary.table_bytes > 0 ? formatBytes(binary.table_bytes) : '–'}
				<small>{binary.input_bytes > 0 ? `of ${formatBytes(binary.input_bytes)}` : ''}</small>
			</td>
			<td
				class="b-number"
				data-title="Built in"
				title={`CPU ${formatDuration(binary.cpu_ms)}, at most ${formatBytes(binary.memory_peak_bytes)} of memory`}
			>
				{binary.build_ms > 0 ? formatDuration(binary.build_ms) : '–'}
				<small>{binary.memory_peak_bytes > 0 ? formatBytes(binary.memory_peak_bytes) : ''}</small>
			</td>
			<td class="b-number" data-title="Samples" title={`First seen ${formatDateTime(binary.first_seen_ms)}`}>
				{formatCount(binary.samples)}
				<small>{ago(binary.last_seen_ms, now)}</small>
			</td>
			<td class="b-retry">
				<button
					type="button"
					class={busy ? 'ghost busy' : 'ghost'}
					disabled={busy || binary.build_id === '' || binary.state === 'queued' || binary.state === 'working'}
					aria-label={`Look again for ${displayName(baseName(binary.path), 80)}`}
					title="Look again now"
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

const COLUMNS: [string, string][] = [
	['b-path', 'Binary'],
	['b-state', 'State'],
	['b-why', 'Known from, or why not'],
	['b-number', 'Functions'],
	['b-number', 'Table'],
	['b-number', 'Built in'],
	['b-number', 'Samples'],
	['b-retry', ''],
];

export function Binaries({ state, set, onBack }: { state: PageState; set: SetState; onBack: () => void }) {
	const [nonce, setNonce] = useState(0);
	const [limit, setLimit] = useState(PAGE_ROWS);
	const [fault, setFault] = useState('');
	const text = useDebounced(state.text, 150);
	const { data, error, loading, stale } = useApi<BinariesAnswer>('binaries', { state: state.state, text, limit }, nonce);
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
	return (
		<section class={stale ? 'profile binaries stale' : 'profile binaries'} aria-label="Binaries" aria-busy={loading}>
			<div class="tools" role="toolbar" aria-label="Filter of the binaries">
				<button type="button" class="button" data-testid="binaries-back" onClick={onBack}>
					<BackIcon />
					Profile
				</button>
				<States counts={data?.counts ?? {}} state={state.state} set={set} />
				<div class="search" role="search">
					<SearchIcon />
					<input
						type="search"
						placeholder="Part of a path or build-id"
						aria-label="Search binaries"
						data-testid="binaries-search"
						autocomplete="off"
						spellcheck={false}
						value={state.text}
						onInput={(event) => set({ text: event.currentTarget.value }, 'replace')}
					/>
				</div>
			</div>
			{data && <Summary answer={data} />}
			{(error || fault) && (
				<p class="listing-why fault" role="alert">
					{displayName(error ? error.message : fault, 400)}
				</p>
			)}
			<div class="binaries-scroll" tabIndex={0} aria-label="Binaries by samples">
				<table class="binaries-table" data-testid="binaries">
					<thead>
						<tr>
							{COLUMNS.map(([name, title], i) => (
								<th key={i} class={name} scope="col">
									{title}
								</th>
							))}
						</tr>
					</thead>
					<tbody>
						{rows.map((binary) => (
							<BinaryRow
								key={binary.build_id + binary.path}
								binary={binary}
								now={now}
								onRetry={() => retry(binary)}
							/>
						))}
					</tbody>
				</table>
				{data && rows.length === 0 && (
					<p class="table-none">
						{state.state || state.text ? 'No binary is like that.' : 'No binaries have been seen yet.'}
					</p>
				)}
				{data && rows.length < data.total && (
					<button type="button" class="link" onClick={() => setLimit(limit + 4 * PAGE_ROWS)}>
						{`Show more of ${formatCount(data.total)}`}
					</button>
				)}
			</div>
		</section>
	);
}
