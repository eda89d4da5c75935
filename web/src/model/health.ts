// SPDX-License-Identifier: Apache-2.0
// How agents and the server are, from what they say of themselves (docs/api.md, "Agents"). Pure. Every member may be missing.

export interface AgentHealth {
	kernel?: string;
	event?: string;
	modes?: string[];
	started_ms?: number;
	frequency_hz?: number;
	frequency_asked_hz?: number;
	cpus?: number;
	processes?: number;
	mappings?: number;
	binaries?: number;
	samples?: number;
	rules_dropped?: number;
	lost?: Record<string, number>;
	walks?: Record<string, number>;
	sent_profiles?: number;
	sent_bytes?: number;
	send_failures?: number;
	waiting_profiles?: number;
	waiting_bytes?: number;
	dropped_profiles?: number;
	dropped_samples?: number;
	cpu_ms?: number;
	program_ms?: number;
	cost_ppm?: number;
	resident_bytes?: number;
	resident_peak_bytes?: number;
	warnings?: string[];
}
export interface Agent {
	host: string;
	agent: string;
	wick: string;
	heard_ms: number;
	age_ms: number;
	refusal?: string;
	recording?: string;
	health?: AgentHealth;
	health_age_ms?: number;
}
export interface AgentsResponse {
	agents: Agent[];
	silent?: Agent[];
}

export type Lamp = 'good' | 'warn' | 'bad' | 'idle';

// More than these shares is worth a look.
const LOST_WARN = 0.001;
const LOST_BAD = 0.01;
const WALKS_WARN = 0.05;
const COST_WARN_PPM = 10_000; // 1% of a CPU

const sum = (counts: Record<string, number> | undefined): number => Object.values(counts ?? {}).reduce((all, n) => all + (Number.isFinite(n) ? n : 0), 0);

// What an agent counts beside lost samples: those that it keeps, with less of their stack, and events that are no samples.
const KEPT = ['stacks_full', 'no_user_stack', 'no_kernel_stack', 'no_process', 'no_mapping', 'events', 'filter_full'];
const lostSamples = (health: AgentHealth): number => sum(Object.fromEntries(Object.entries(health.lost ?? {}).filter(([name]) => !KEPT.includes(name))));

/** Of all samples, those that were lost or dropped unsent; 0 while there are none. */
export function lostShare(health: AgentHealth): number {
	const lost = lostSamples(health);
	return (lost + (health.dropped_samples ?? 0)) / Math.max(1, (health.samples ?? 0) + lost);
}

/** The same of the status of `wick up`. */
export function lostShareOf(agent: { samples_taken: number; samples_lost: number; samples_dropped?: number }): number {
	return agent.samples_lost / Math.max(1, agent.samples_taken + agent.samples_lost - (agent.samples_dropped ?? 0));
}

/** Of all user stacks, those that did not reach their end; null while there are none. */
export function brokenShare(health: AgentHealth): number | null {
	const all = sum(health.walks);
	return all > 0 ? 1 - ((health.walks?.complete ?? 0) + (health.walks?.analysed ?? 0)) / all : null;
}

/** By falling count, without those that are 0. */
export function reasons(counts: Record<string, number> | undefined, without: string[] = []): [string, number][] {
	return Object.entries(counts ?? {})
		.filter(([name, n]) => n > 0 && !without.includes(name))
		.sort((a, b) => b[1] - a[1]);
}

export function lampOf(agent: Agent): Lamp {
	const { health } = agent;
	if (!health) return 'idle';
	const lost = lostShare(health);
	if (lost > LOST_BAD || (health.dropped_samples ?? 0) > 0) return 'bad';
	const slowed = (health.frequency_hz ?? 0) < (health.frequency_asked_hz ?? 0);
	const costly = (health.cost_ppm ?? 0) > COST_WARN_PPM * Math.max(1, health.cpus ?? 1);
	const warned = (health.warnings?.length ?? 0) > 0 || (health.waiting_profiles ?? 0) > 0;
	return lost > LOST_WARN || (brokenShare(health) ?? 0) > WALKS_WARN || slowed || costly || warned ? 'warn' : 'good';
}

const RANK: Record<Lamp, number> = { bad: 0, warn: 1, idle: 2, good: 3 };

/** Those that need a look first, then by name. */
export function sortAgents(agents: readonly Agent[]): Agent[] {
	return agents.slice().sort((a, b) => RANK[lampOf(a)] - RANK[lampOf(b)] || (a.host < b.host ? -1 : a.host > b.host ? 1 : 0));
}

/** Of all agents together: CPUs' share and memory that they cost, samples, losses. Only of those that said how they are. */
export function fleetSums(agents: readonly Agent[]): { reporting: number; costPpm: number; resident: number; samples: number; lost: number } {
	const sums = { reporting: 0, costPpm: 0, resident: 0, samples: 0, lost: 0 };
	for (const { health } of agents) {
		if (!health) continue;
		sums.reporting++;
		sums.costPpm += health.cost_ppm ?? 0;
		sums.resident += health.resident_bytes ?? 0;
		sums.samples += health.samples ?? 0;
		sums.lost += lostSamples(health) + (health.dropped_samples ?? 0);
	}
	return sums;
}
