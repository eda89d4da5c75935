// SPDX-License-Identifier: Apache-2.0
import type { StatusResponse } from '../api/responses';
import { formatBytes, formatCount, formatDateTime, formatDuration, formatShare } from '../base/format';
import * as T from '../base/texts';
import type { WideView } from '../state/page';
import { FactList } from '../ui/facts';
import type { Resource } from '../ui/hooks';
import { Popover } from '../ui/popover';
import { lostShareOf } from '../model/health';
import { Targets } from './targets';

type Health = 'good' | 'warn' | 'bad' | 'idle';

// More lost than this share of the samples is worth a look.
const LOST_SHARE = 0.001;

const hertz = (frequency: number) => `${frequency} Hz`;

function summary(status: Resource<StatusResponse>): { health: Health; text: string } {
	if (status.error) return { health: 'bad', text: status.error.status === 0 ? T.status.offline : T.status.unknown };
	if (!status.data) return { health: 'idle', text: '…' };
	const { agent } = status.data;
	if (!agent) return { health: 'idle', text: T.status.serverOnly };
	if (!agent.running) return { health: 'bad', text: T.status.agentStopped };
	const lost = lostShareOf(agent);
	if (lost > LOST_SHARE) return { health: 'warn', text: T.status.lost(formatShare(lost, 1)) };
	const slowed = agent.frequency_hz < (agent.frequency_asked_hz ?? 0);
	return { health: slowed ? 'warn' : 'good', text: hertz(agent.frequency_hz) };
}

interface StatusProps {
	status: Resource<StatusResponse>;
	onShow: (view: WideView) => void;
}

function Facts({ status, onShow }: StatusProps) {
	const { data, error } = status;
	if (!data) return <p>{error ? T.status.unavailable(error.message) : T.status.loading}</p>;
	const { agent, data: stored } = data;
	const rows: [string, string][] = [
		[T.status.version, data.version],
		[T.status.uptime, formatDuration(data.uptime_s * 1000)],
	];
	if (agent) {
		rows.push([T.status.agent, agent.running ? T.status.sampling(hertz(agent.frequency_hz), agent.event) : T.status.stopped]);
		if (agent.frequency_hz < (agent.frequency_asked_hz ?? 0)) rows.push([T.agents.rate, T.agents.slowed(agent.frequency_asked_hz ?? 0)]);
		rows.push([T.status.taken, formatCount(agent.samples_taken)], [T.status.samplesLost, formatCount(agent.samples_lost)]);
	} else {
		rows.push([T.status.agent, T.status.noAgent]);
	}
	if (stored.newest_ms > 0) rows.push([T.status.oldest, formatDateTime(stored.oldest_ms)], [T.status.newest, formatDateTime(stored.newest_ms)]);
	rows.push([T.status.stored, T.status.samples(formatCount(stored.samples), formatBytes(stored.bytes))]);
	return (
		<>
			{error && <p class="field-fault">{T.status.noResponse(error.message)}</p>}
			<FactList rows={rows} />
			<Targets />
			<button type="button" class="link facts-link" data-testid="open-binaries" onClick={() => onShow('binaries')}>
				{T.status.binaries}
			</button>
			<button type="button" class="link facts-link" data-testid="open-recordings" onClick={() => onShow('recordings')}>
				{T.status.recordings}
			</button>
		</>
	);
}

export function Status({ status, onShow }: StatusProps) {
	const { health, text } = summary(status);
	const button = (
		<>
			<i class={`lamp lamp-${health}`} aria-hidden="true" />
			<span class="status-text">{text}</span>
		</>
	);
	return (
		<Popover label={T.status.label(text)} button={button} buttonClass="button status" testId="status">
			{(close) => (
				<Facts
					status={status}
					onShow={(view) => {
						close();
						onShow(view);
					}}
				/>
			)}
		</Popover>
	);
}
