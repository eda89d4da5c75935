// SPDX-License-Identifier: Apache-2.0
// Recordings of several hosts: what became of each, and the way to its profile.
import { useState } from 'preact/hooks';
import { displayName, formatBytes, formatCount, formatDateTime, formatDuration, lookUp } from '../base/format';
import * as T from '../base/texts';
import { hasSome } from '../ui/columns';
import { useApi, useEvery } from '../ui/hooks';
import { BackIcon } from '../ui/icons';
import { ErrorPanel, NoRecordings } from '../ui/notices';
import {
	hostLamp,
	hostsText,
	hostsToShow,
	outcomeOf,
	profileUrl,
	targetsText,
	type AgentsResponse,
	type Recording,
	type RecordingHost,
	type RecordingsResponse,
} from './recordings';

const PAGE_ROWS = 100;
const HOSTS_SHOWN = 4;
const BUSY_S = 1;
const IDLE_S = 5;

function Host({ id, host }: { id: string; host: RecordingHost }) {
	const name = displayName(host.name, 120);
	return (
		<li data-testid="recording-host" data-state={host.state}>
			<i class={`lamp lamp-${hostLamp(host.state)}`} aria-hidden="true" />
			<div>
				<b>{name}</b>{' '}
				{host.state === 'done' ? (
					<>
						<span class="hint">{formatBytes(host.bytes)}</span>{' '}
						<a class="link" href={profileUrl(id, 'html', host.name)} target="_blank" rel="noopener" aria-label={T.recordings.openOnly(name)}>
							{T.recordings.onlyThis}
						</a>
					</>
				) : (
					<span class={host.state === 'failed' ? 'field-fault' : 'hint'}>
						{lookUp(T.recordings.hostStates, host.state, displayName(host.state, 20))}
						{host.why && `: ${displayName(host.why, 400)}`}
					</span>
				)}
			</div>
		</li>
	);
}

function Hosts({ recording }: { recording: Recording }) {
	const [all, setAll] = useState(false);
	const hosts = hostsToShow(recording.hosts, recording.state === 'running');
	const shown = all ? hosts : hosts.slice(0, HOSTS_SHOWN);
	return (
		<>
			<span class="r-count">{hostsText(recording.hosts)}</span>
			<ul class="r-hosts">
				{shown.map((host) => (
					<Host key={host.name} id={recording.id} host={host} />
				))}
			</ul>
			{hosts.length > HOSTS_SHOWN && (
				<button type="button" class="link" aria-expanded={all} data-testid="recording-hosts" onClick={() => setAll(!all)}>
					{all ? T.recordings.fewer : T.recordings.allHosts(formatCount(hosts.length))}
				</button>
			)}
		</>
	);
}

function Links({ recording, done }: { recording: Recording; done: number }) {
	if (done === 0) return <span class="hint">{recording.state === 'running' ? T.recordings.noneYet : T.recordings.none}</span>;
	const start = formatDateTime(recording.start_ms);
	return (
		<>
			<a
				class="button primary"
				href={profileUrl(recording.id, 'html')}
				target="_blank"
				rel="noopener"
				aria-label={T.recordings.openOf(start)}
				data-testid="recording-open"
			>
				{T.recordings.open}
			</a>
			<a class="button" href={profileUrl(recording.id, 'firefox')} download="" aria-label={T.recordings.firefoxOf(start)} data-testid="recording-firefox">
				{T.recordings.firefox}
			</a>
			<a class="button" href={profileUrl(recording.id, 'pprof')} download="" aria-label={T.recordings.pprofOf(start)} data-testid="recording-pprof">
				{T.recordings.pprof}
			</a>
		</>
	);
}

function whenText(recording: Recording, now: number): string {
	const away = recording.start_ms - now;
	return away > 0 ? T.time.within(formatDuration(away)) : -away < 1000 ? T.time.now : T.time.ago(formatDuration(-away));
}

function RecordingRow({ recording, now, sized }: { recording: Recording; now: number; sized: boolean }) {
	const outcome = outcomeOf(recording, now);
	return (
		<tr data-testid="recording" data-id={recording.id} data-state={outcome.state}>
			<td class="r-start">
				<b>{formatDateTime(recording.start_ms)}</b>
				<small>{whenText(recording, now)}</small>
			</td>
			<td class="r-state">
				<span class={`pill pill-${outcome.lamp}`} title={outcome.hint}>
					<i class={`lamp lamp-${outcome.lamp}`} aria-hidden="true" />
					{outcome.title}
				</span>
			</td>
			<td class="r-what" title={displayName(targetsText(recording), 800)}>
				{formatDuration(recording.seconds * 1000)}
				<small>
					{(recording.markers ? T.recordings.hertz : T.recordings.hertzNoMarkers)(formatCount(recording.frequency_hz))}
					{displayName(targetsText(recording), 160)}
				</small>
			</td>
			<td class="r-who">
				<Hosts recording={recording} />
			</td>
			{sized && (
				<td class="r-size" title={T.recordings.sizeHint}>
					{recording.bytes > 0 ? formatBytes(recording.bytes) : '–'}
				</td>
			)}
			<td class="r-links">
				<Links recording={recording} done={outcome.done} />
			</td>
		</tr>
	);
}

const COLUMNS: [string, string][] = [
	['r-start', T.recordings.heads.start],
	['r-state', T.recordings.heads.state],
	['r-what', T.recordings.heads.what],
	['r-who', T.recordings.heads.who],
	['r-size', T.recordings.heads.size],
	['r-links', T.recordings.heads.links],
];

function Empty() {
	const { data } = useApi<AgentsResponse>('agents', {}, 0);
	const ready = data?.agents.filter(({ refusal }) => refusal === '').map(({ host }) => host) ?? null;
	return <NoRecordings hosts={ready} />;
}

export function Recordings({ nonce, onBack }: { nonce: number; onBack: () => void }) {
	const [own, setOwn] = useState(0);
	const [limit, setLimit] = useState(PAGE_ROWS);
	const { data, error, loading } = useApi<RecordingsResponse>('recordings', {}, nonce + own);
	const all = data?.recordings ?? [];
	const sized = hasSome(all, ({ bytes }) => bytes);
	const again = () => setOwn((n) => n + 1);
	useEvery(all.some(({ state }) => state === 'running') ? BUSY_S : IDLE_S, again);
	const now = Date.now();
	return (
		<section class="profile recordings" aria-label={T.recordings.label} aria-busy={loading && !data}>
			<div class="tools" role="toolbar" aria-label={T.recordings.label}>
				<button type="button" class="button" data-testid="recordings-back" onClick={onBack}>
					<BackIcon />
					{T.page.toProfile}
				</button>
				{data && all.length > 0 && (
					<span class="hint" data-testid="recordings-stored">
						{T.recordings.stored(formatCount(all.length), formatBytes(data.bytes), formatBytes(data.bytes_max))}
					</span>
				)}
			</div>
			{error && data && (
				<p class="listing-why fault" role="alert">
					{T.recordings.older(displayName(error.message, 400))}
				</p>
			)}
			{error && !data && <ErrorPanel error={error} onRetry={again} />}
			{data && all.length === 0 && <Empty />}
			{all.length > 0 && (
				<div class="binaries-scroll" tabIndex={0} role="group" aria-label={T.recordings.describe}>
					<table class="binaries-table recordings-table" data-testid="recordings">
						<thead>
							<tr>
								{COLUMNS.filter(([name]) => sized || name !== 'r-size').map(([name, title]) => (
									<th key={name} class={name} scope="col">
										{title}
									</th>
								))}
							</tr>
						</thead>
						<tbody>
							{all.slice(0, limit).map((recording) => (
								<RecordingRow key={recording.id} recording={recording} now={now} sized={sized} />
							))}
						</tbody>
					</table>
					{limit < all.length && (
						<button type="button" class="link" onClick={() => setLimit(limit + 4 * PAGE_ROWS)}>
							{T.recordings.more(formatCount(all.length))}
						</button>
					)}
				</div>
			)}
		</section>
	);
}
