// SPDX-License-Identifier: Apache-2.0
/*
 * What happened beside the graph over time: deploys, and markers.
 *
 * A deploy is the first appearance of a value of a label that names versions, where there was another value before, of the same
 * service if there is a label for that. It is looked for in the sums by those labels over the range and as much again before half of
 * it (LOOK_BACK), so that a version that is sampled seldom, and was there before, does not look new. What cannot be distinguished: a
 * version that comes back after longer than that, and one of the first step, which may have been there always.
 */
import type { MarkersResponse, SeriesResponse } from '../api/responses';
import type { Span } from './brush';

/** What names versions, as agents, SDKs and scrapers call it; the first that the data has. */
export const VERSION_LABELS = [
	'service_version',
	'version',
	'app_version',
	'app_kubernetes_io_version',
	'container_image_tag',
	'container_image_tags',
	'image_tag',
	'image',
];
const SERVICE_LABELS = ['service_name', 'job', 'app', 'process_executable_name'];

export const LOOK_BACK = 0.5; // of the range, before it
export const DEPLOYS_MAX = 100;

export interface VersionLabels {
	version: string;
	service: string; // '' = there is none
}

export function versionLabels(labels: readonly string[]): VersionLabels | null {
	const first = (names: readonly string[]) => names.find((name) => labels.includes(name)) ?? '';
	const version = first(VERSION_LABELS);
	return version === '' ? null : { version, service: first(SERVICE_LABELS) };
}

export interface Deploy {
	at: number; // unix ms: the start of the first step with the version
	service: string;
	version: string;
	before: string; // the version that cost most until then
}

/** Deploys within the range, by time, DEPLOYS_MAX at most: the newest. `response` is by version and service. */
export function deploysOf(response: SeriesResponse, labels: VersionLabels, range: Span): Deploy[] {
	const services = new Map<string, { version: string; points: [number, number][] }[]>();
	for (const row of response.series) {
		const points = row.points.filter(([, value]) => value > 0).sort((a, b) => a[0] - b[0]);
		const version = row.labels[labels.version] ?? '';
		if (row.others || version === '' || points.length === 0) continue;
		const service = labels.service === '' ? '' : (row.labels[labels.service] ?? '');
		services.set(service, [...(services.get(service) ?? []), { version, points }]);
	}
	const deploys: Deploy[] = [];
	for (const [service, versions] of services) {
		for (const { version, points } of versions) {
			const at = points[0][0];
			if (at < range.from || at >= range.to) continue;
			let [before, most] = ['', 0];
			for (const other of versions) {
				const cost = other.points.reduce((sum, [t, value]) => (t < at ? sum + value : sum), 0);
				if (cost > most) [before, most] = [other.version, cost];
			}
			if (before !== '') deploys.push({ at, service, version, before });
		}
	}
	deploys.sort((a, b) => a.at - b.at || (a.service < b.service ? -1 : 1));
	return deploys.slice(-DEPLOYS_MAX);
}

/** The ranges before and after a deploy, equally long. */
export function beforeAndAfter(deploy: Deploy, range: Span): [before: Span, after: Span] {
	const length = range.to - deploy.at;
	return [
		{ from: deploy.at - length, to: deploy.at },
		{ from: deploy.at, to: range.to },
	];
}

/** Neighbours closer than `apart` pixels in one, which is at the place of its first; by rising place. */
export function cluster<T>(items: readonly T[], place: (item: T) => number, apart: number): { x: number; items: T[] }[] {
	const clusters: { x: number; items: T[] }[] = [];
	for (const item of items) {
		const x = place(item);
		const last = clusters[clusters.length - 1];
		if (last && x - last.x < apart) last.items.push(item);
		else clusters.push({ x, items: [item] });
	}
	return clusters;
}

// ---- markers --------------------

export interface Tick {
	from: number; // unix ms
	to: number; // of an instant the same
	host: string;
}

export interface TickRow {
	name: string;
	ticks: Tick[]; // by rising start
}

const MS = 1e6; // ns

/** Markers of the chosen names, each a row, in the order in which they were chosen; without those that are not as they should be. */
export function tickRows(response: MarkersResponse | null, names: readonly string[]): TickRow[] {
	const rows = new Map<string, Tick[]>(names.map((name) => [name, []]));
	for (const { name, kind, host, start_ns: start, end_ns: end } of Array.isArray(response?.markers) ? response.markers : []) {
		const ticks = rows.get(name) ?? rows.get(kind);
		if (!ticks || !Number.isFinite(start)) continue;
		const from = start / MS;
		ticks.push({ from, to: Math.max(from, Number.isFinite(end) ? end! / MS : from), host: String(host) });
	}
	return [...rows].map(([name, ticks]) => ({ name, ticks: ticks.sort((a, b) => a.from - b.from) }));
}

/** How many ticks of each row are within a step, and on which hosts; rows without any are left out. */
export function ticksWithin(rows: readonly TickRow[], from: number, to: number): { name: string; count: number; hosts: string[] }[] {
	return rows
		.map(({ name, ticks }) => {
			const within = ticks.filter((tick) => tick.from < to && tick.to >= from);
			return { name, count: within.length, hosts: [...new Set(within.map((tick) => tick.host))].sort() };
		})
		.filter((row) => row.count > 0);
}

/** Names and how many there are of each, the most frequent first. */
export function markerNames(response: MarkersResponse): { name: string; count: number }[] {
	const counts = new Map<string, number>();
	for (const { name } of Array.isArray(response.markers) ? response.markers : [])
		if (typeof name === 'string' && name !== '') counts.set(name, (counts.get(name) ?? 0) + 1);
	return [...counts].map(([name, count]) => ({ name, count })).sort((a, b) => b.count - a.count || (a.name < b.name ? -1 : 1));
}
