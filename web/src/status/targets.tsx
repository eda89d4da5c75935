// SPDX-License-Identifier: Apache-2.0
// What the server scrapes: how many are up, and what is wrong with those that are not.
import { useState } from 'preact/hooks';
import { formatCount, formatDuration, lookUp } from '../base/format';
import * as T from '../base/texts';
import { useApi } from '../ui/hooks';

export interface Target {
	job: string;
	profile: string;
	url: string;
	labels: Record<string, string>;
	health: 'up' | 'down' | 'unknown';
	error: string;
	last_ms: number | null;
	took_ms: number;
	next_ms: number;
	samples: number;
}
export interface TargetsResponse {
	configured: boolean;
	targets: Target[];
	matching: number;
	up: number;
	down: number;
	unknown: number;
	discoveries: { job: string; kind: string; found: number; error: string }[];
	config: { loaded_ms: number | null; error: string };
}

const SHOWN = 200;

function when(target: Target, now: number): string {
	if (target.last_ms === null) return T.targets.firstIn(formatDuration(Math.max(0, target.next_ms - now)));
	return T.targets.lastTime(formatDuration(Math.max(0, now - target.last_ms)), formatDuration(target.took_ms));
}

/** showEmpty: say so when no targets are configured, instead of nothing. */
export function Targets({ showEmpty = false }: { showEmpty?: boolean }) {
	const [all, setAll] = useState(false);
	const { data, error } = useApi<TargetsResponse>('targets', all ? { limit: SHOWN } : { health: 'down', limit: SHOWN }, 0);
	if (error && !data) return <p class="field-fault">{T.targets.unavailable(error.message)}</p>;
	if (!data || (!data.configured && !data.config.error)) return data && showEmpty ? <p>{T.targets.none}</p> : null;
	const faults = data.discoveries.filter((d) => d.error);
	const now = Date.now();
	return (
		<section class="targets" aria-label={T.targets.label} data-testid="targets">
			<h3>
				{T.targets.counts(formatCount(data.up), formatCount(data.down))}
				{data.unknown > 0 && T.targets.toCome(formatCount(data.unknown))}
			</h3>
			{data.config.error && <p class="field-fault">{T.targets.refused(data.config.error)}</p>}
			{faults.map((d) => (
				<p class="field-fault" key={`${d.job} ${d.kind}`}>
					{T.targets.discovery(d.job, d.kind, d.error)}
				</p>
			))}
			{data.targets.length > 0 && (
				<ul>
					{data.targets.map((target) => (
						<li key={`${target.job} ${target.url}`} data-testid="target">
							<i class={`lamp lamp-${target.health === 'up' ? 'good' : target.health === 'down' ? 'bad' : 'idle'}`} aria-hidden="true" />
							<div>
								<b>
									{target.job} {target.profile}
								</b>{' '}
								{lookUp<string>(T.targets.health, target.health, target.health)}, {when(target, now)}
								<div class="targets-url">{target.url}</div>
								{target.error && <div class="field-fault">{target.error}</div>}
							</div>
						</li>
					))}
				</ul>
			)}
			{data.matching > data.targets.length && <p>{T.targets.more(formatCount(data.matching - data.targets.length))}</p>}
			<button type="button" class="link facts-link" data-testid="targets-all" onClick={() => setAll(!all)}>
				{all ? T.targets.onlyDown : T.targets.all}
			</button>
		</section>
	);
}
