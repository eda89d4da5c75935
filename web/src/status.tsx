// SPDX-License-Identifier: Apache-2.0
import type { StatusAnswer } from './api';
import { formatBytes, formatCount, formatDateTime, formatDuration, formatShare } from './format';
import type { Resource } from './hooks';
import { Popover } from './popover';
import type { WideView } from './state';
import { Targets } from './targets';

type Health = 'good' | 'warn' | 'bad' | 'idle';

// More lost than this share of the samples is worth a look.
const LOST_SHARE = 0.001;

function summary(status: Resource<StatusAnswer>): { health: Health; text: string } {
	if (status.error) return { health: 'bad', text: status.error.status === 0 ? 'offline' : 'status unknown' };
	if (!status.data) return { health: 'idle', text: '…' };
	const { agent } = status.data;
	if (!agent) return { health: 'idle', text: 'server only' };
	if (!agent.running) return { health: 'bad', text: 'agent stopped' };
	const lost = agent.samples_lost / Math.max(1, agent.samples_taken + agent.samples_lost);
	if (lost > LOST_SHARE) return { health: 'warn', text: `${formatShare(lost, 1)} lost` };
	return { health: 'good', text: `${agent.frequency_hz} Hz` };
}

interface StatusProps {
	status: Resource<StatusAnswer>;
	onShow: (view: WideView) => void;
}

function Facts({ status, onShow }: StatusProps) {
	const { data, error } = status;
	if (!data) return <p>{error ? `The server's status is not known: ${error.message}.` : 'Asking the server…'}</p>;
	const { agent, data: stored } = data;
	const rows: [string, string][] = [
		['Version', data.version],
		['Server up for', formatDuration(data.uptime_s * 1000)],
	];
	if (agent) {
		rows.push(['Agent here', agent.running ? `${agent.frequency_hz} Hz on ${agent.event}` : 'stopped']);
		rows.push(
			['Samples taken', formatCount(agent.samples_taken)],
			['Samples lost', formatCount(agent.samples_lost)],
		);
	} else {
		rows.push(['Agent here', 'none; profiles come over the network']);
	}
	if (stored.newest_ms > 0)
		rows.push(['Oldest data', formatDateTime(stored.oldest_ms)], ['Newest data', formatDateTime(stored.newest_ms)]);
	rows.push(['Stored', `${formatCount(stored.samples)} samples, ${formatBytes(stored.bytes)}`]);
	return (
		<>
			{error && <p class="field-fault">No answer at present: {error.message}. This is what it said last.</p>}
			<dl class="facts">
				{rows.map(([name, value]) => (
					<div key={name}>
						<dt>{name}</dt>
						<dd>{value}</dd>
					</div>
				))}
			</dl>
			<Targets />
			<button type="button" class="link facts-link" data-testid="open-binaries" onClick={() => onShow('binaries')}>
				Binaries and their names ›
			</button>
			<button type="button" class="link facts-link" data-testid="open-recordings" onClick={() => onShow('recordings')}>
				Recordings of several hosts ›
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
		<Popover label={`Status: ${text}`} button={button} buttonClass="button status" testId="status">
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
