// SPDX-License-Identifier: Apache-2.0
/*
 * The flame graph of some of the samples. Each sample ends in a node of the whole tree, so the tree of a part is the whole one
 * with other self values, without what has none; by span, there is one such tree below a frame of each span's name.
 */
import type { Timeline } from '../api/timeline_data';
import * as T from '../base/texts';
import { columnLength } from '../model/heatmap';
import type { FlameJson } from '../tree/tree';
import { nameWithoutAddress } from '../tree/unnamed';
import type { Spans } from './spans';

export interface Narrowing {
	threads: number[]; // none = all
	range: [number, number] | null; // ns since the start
	part?: [number, number] | null; // ns since the start of each column of the heatmap
	during: string; // name or category of spans; '' = whatever went on
	bySpan: boolean;
}

export const isNarrowed = (n: Narrowing): boolean => n.threads.length > 0 || n.range !== null || !!n.part || n.during !== '';

/** Whether a marker, or its category, has a name. */
export function isCalled(t: Timeline, name: string): (marker: number) => boolean {
	const names = t.strings.map((text) => text === name);
	const categories = t.categories.map((category) => category.name === name);
	return (marker) => names[t.name[marker]] || categories[t.category[marker]];
}

/** How long a column of the heatmap is, in ns. */
export const heatColumn = (t: { length: number }): number => columnLength(t.length + 1);

/** 1 for each sample that is wanted. inSpan: of `during`. */
export function pickSamples(t: Timeline, narrowing: Narrowing, inSpan: Int32Array | null): Uint8Array {
	const picked = new Uint8Array(t.sampleCount);
	const { threads, range, part } = narrowing;
	const every = heatColumn(t);
	t.threads.forEach((thread, i) => {
		if (threads.length > 0 && !threads.includes(i)) return;
		for (let s = thread.sampleFirst; s < thread.sampleEnd; s++) {
			if (range && !(t.time[s] >= range[0] && t.time[s] < range[1])) continue;
			if (part && !(t.time[s] >= 0 && t.time[s] % every >= part[0] && t.time[s] % every < part[1])) continue;
			if (inSpan && inSpan[s] < 0) continue;
			picked[s] = 1;
		}
	});
	return picked;
}

type Nodes = FlameJson['nodes'];
const COLUMNS = ['name', 'file', 'line', 'binary', 'kind'] as const;

function emptyNodes(): Nodes {
	return { parent: [0], name: [0], file: [0], line: [0], binary: [0], kind: [0], total: [0], self: [0] };
}

// What of the tree has a value, below node `under` of `out`. self is all zero again afterwards.
function appendTree(out: Nodes, under: number, from: Nodes, self: Float64Array, touched: number[]): void {
	const place = new Map<number, number>([[0, under]]);
	const wanted = new Set<number>();
	for (const node of touched) for (let at = node; at > 0 && !wanted.has(at); at = from.parent[at]) wanted.add(at);
	// Parents come before children, siblings in the order of the whole.
	for (const node of Uint32Array.from(wanted).sort()) {
		place.set(node, out.parent.length);
		out.parent.push(place.get(from.parent[node])!);
		for (const column of COLUMNS) out[column].push(from[column][node]);
		out.self.push(0);
		out.total.push(0);
	}
	for (const node of touched) {
		out.self[place.get(node)!] += self[node];
		self[node] = 0;
	}
}

function sumTotals(nodes: Nodes): void {
	for (let i = 0; i < nodes.self.length; i++) nodes.total[i] += nodes.self[i];
	for (let i = nodes.self.length - 1; i > 0; i--) nodes.total[nodes.parent[i]] += nodes.total[i];
}

export const NO_SPAN = T.timeline.noSpan;
const GROUPS_MAX = 200;

export interface Narrowed {
	flame: FlameJson;
	samples: number; // that have a value
	unnamed: number; // addresses without a name
}

// The group of each sample: 0 = no span, then names, those with most samples by themselves.
function groupSamples(t: Timeline, spans: Spans, inSpan: Int32Array, picked: Uint8Array): { of: Uint16Array; names: string[] } {
	const count = new Map<number, number>();
	const nameOf = (s: number) => t.name[spans.marker[inSpan[s]]];
	for (let s = 0; s < t.sampleCount; s++) if (picked[s] && inSpan[s] >= 0) count.set(nameOf(s), (count.get(nameOf(s)) ?? 0) + 1);
	const sorted = [...count].sort((a, b) => b[1] - a[1]).map(([name]) => name);
	const groups = new Map(sorted.slice(0, GROUPS_MAX).map((name, i) => [name, i + 1]));
	const names = [NO_SPAN, ...sorted.slice(0, GROUPS_MAX).map((name) => t.strings[name])];
	if (sorted.length > GROUPS_MAX) names.push(T.timeline.otherSpans);
	const of = new Uint16Array(t.sampleCount);
	for (let s = 0; s < t.sampleCount; s++) if (inSpan[s] >= 0) of[s] = groups.get(nameOf(s)) ?? GROUPS_MAX + 1;
	return { of, names };
}

export interface GroupBy {
	spans: Spans;
	inSpan: Int32Array; // innermost of all
}

/** The tree of the picked samples; by: below a frame of each span's name. */
export function narrowFlame(flame: FlameJson, t: Timeline, type: number, picked: Uint8Array, by: GroupBy | null): Narrowed {
	const { values, nodes } = t.types[type];
	const from = flame.nodes;
	const strings = flame.strings.slice();
	const groups = by ? groupSamples(t, by.spans, by.inSpan, picked) : null;
	const lists: number[][] = (groups?.names ?? ['']).map(() => []);
	let samples = 0;
	for (let s = 0; s < t.sampleCount; s++) {
		if (!picked[s] || values[s] === 0) continue;
		lists[groups ? groups.of[s] : 0].push(s);
		samples++;
	}
	const out = emptyNodes();
	for (const column of COLUMNS) out[column][0] = from[column][0];
	const self = new Float64Array(from.parent.length);
	const empty = strings.push('') - 1;
	lists.forEach((list, group) => {
		if (list.length === 0) return;
		const touched: number[] = [];
		for (const s of list) {
			const node = nodes[t.stack[s]];
			if (self[node] === 0) touched.push(node);
			self[node] += values[s];
		}
		let under = 0;
		if (groups) {
			under = out.parent.length;
			out.parent.push(0);
			out.name.push(strings.push(groups.names[group]) - 1);
			out.file.push(empty);
			out.line.push(0);
			out.binary.push(empty);
			out.kind.push(0);
			out.self.push(0);
			out.total.push(0);
		}
		appendTree(out, under, from, self, [...new Set(touched)]);
	});
	sumTotals(out);
	const unnamed = new Set(out.name.slice(1).filter((id) => nameWithoutAddress(strings[id]) !== null));
	return { flame: { ...flame, strings, nodes: out, total: out.total[0], samples }, samples, unnamed: unnamed.size };
}
