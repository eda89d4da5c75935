// SPDX-License-Identifier: Apache-2.0
// What the list of recordings says, apart from how it looks: what became of one, of its hosts, and where its profile is.
import { apiUrl } from '../api/client';
import { lookUp } from '../base/format';
import * as T from '../base/texts';

export interface RecordingHost {
	name: string;
	state: string; // waiting, taken, recording, sending, done, failed, silent, cancelled
	why: string;
	bytes: number;
}
export interface Recording {
	id: string;
	state: 'running' | 'over';
	created_ms: number;
	start_ms: number;
	seconds: number;
	frequency_hz: number;
	markers: boolean;
	targets: { kind: string; name: string }[]; // none = all processes
	bytes: number;
	hosts: RecordingHost[];
}
export interface RecordingsResponse {
	recordings: Recording[]; // the newest first
	bytes: number;
	bytes_max: number;
}
export interface AgentsResponse {
	agents: { host: string; refusal: string }[];
}

export interface Outcome {
	state: keyof typeof T.recordings.states;
	lamp: 'good' | 'warn' | 'bad' | 'busy';
	title: string;
	hint: string;
	done: number; // hosts that have sent a profile
}

const ENDED = ['done', 'failed', 'silent', 'cancelled'];

/** What has become of a recording at a time, unix ms. The server's clock ordered it and this browser's reads it. */
export function outcomeOf(recording: Recording, now: number): Outcome {
	const { hosts, start_ms: start, seconds } = recording;
	const done = hosts.filter(({ state }) => state === 'done').length;
	const outcome = (state: Outcome['state'], lamp: Outcome['lamp']): Outcome => ({ state, lamp, ...T.recordings.states[state], done });
	if (recording.state === 'running') return outcome(now < start ? 'waiting' : now < start + seconds * 1000 ? 'recording' : 'sending', 'busy');
	if (done === hosts.length && done > 0) return outcome('complete', 'good');
	return done > 0 ? outcome('partial', 'warn') : outcome('failed', 'bad');
}

export function hostLamp(state: string): 'good' | 'warn' | 'bad' | 'busy' | 'idle' {
	if (state === 'done') return 'good';
	if (state === 'failed') return 'bad';
	if (state === 'silent') return 'warn';
	return state === 'recording' || state === 'sending' ? 'busy' : 'idle';
}

/** Those that are missing or not done yet first, the order kept otherwise. */
export function hostsToShow(hosts: readonly RecordingHost[], running: boolean): RecordingHost[] {
	const rank = ({ state }: RecordingHost) => (state === 'done' ? 2 : running && !ENDED.includes(state) ? 1 : 0);
	return hosts
		.map((host, i) => ({ host, i }))
		.sort((a, b) => rank(a.host) - rank(b.host) || a.i - b.i)
		.map(({ host }) => host);
}

/** "2 of 3 hosts, 1 failed" */
export function hostsText(hosts: readonly RecordingHost[]): string {
	const count = (state: string) => hosts.filter((host) => host.state === state).length;
	const parts = [T.recordings.hosts(count('done'), hosts.length)];
	for (const state of ['failed', 'silent', 'cancelled'] as const) if (count(state) > 0) parts.push(T.recordings[state](count(state)));
	return parts.join(', ');
}

export function targetsText({ targets }: Pick<Recording, 'targets'>): string {
	if (targets.length === 0) return T.recordings.allProcesses;
	return targets.map(({ kind, name }) => `${lookUp(T.recordings.targets, kind, kind)} ${name}`).join(', ');
}

/** Where the profile is, of all hosts or of one. */
export function profileUrl(id: string, format: 'html' | 'firefox' | 'pprof', host = ''): string {
	return apiUrl(`recordings/${encodeURIComponent(id)}/profile`, { format, host });
}
