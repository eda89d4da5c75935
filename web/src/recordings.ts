// SPDX-License-Identifier: Apache-2.0
// What the list of recordings says, apart from how it looks: what became of one, of its hosts, and where its profile is.
import { apiUrl } from './api';

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
export interface RecordingsAnswer {
	recordings: Recording[]; // the newest first
	bytes: number;
	bytes_max: number;
}
export interface AgentsAnswer {
	agents: { host: string; refusal: string }[];
}

export interface Outcome {
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
	if (recording.state === 'running') {
		const [title, hint] =
			now < start
				? ['waiting', 'the hosts get ready']
				: now < start + seconds * 1000
					? ['recording', 'the hosts record']
					: ['sending', 'the hosts look up names and send what they have'];
		return { lamp: 'busy', title, hint, done };
	}
	if (done === hosts.length && done > 0) return { lamp: 'good', title: 'complete', hint: 'all hosts have sent a profile', done };
	if (done > 0) return { lamp: 'warn', title: 'partial', hint: 'the profile is of some of the hosts', done };
	return { lamp: 'bad', title: 'failed', hint: 'no host has sent a profile', done };
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
	const parts = [`${count('done')} of ${hosts.length} ${hosts.length === 1 ? 'host' : 'hosts'}`];
	for (const state of ['failed', 'silent', 'cancelled']) if (count(state) > 0) parts.push(`${count(state)} ${state}`);
	return parts.join(', ');
}

const KINDS: Record<string, string> = { unit: 'unit', container: 'container', cgroup: 'control group' };

export function targetsText({ targets }: Pick<Recording, 'targets'>): string {
	if (targets.length === 0) return 'all processes';
	return targets.map(({ kind, name }) => `${KINDS[kind] ?? kind} ${name}`).join(', ');
}

/** Where the profile is, of all hosts or of one. */
export function profileUrl(id: string, format: 'html' | 'firefox' | 'pprof', host = ''): string {
	return apiUrl(`recordings/${encodeURIComponent(id)}/profile`, { format, host });
}
