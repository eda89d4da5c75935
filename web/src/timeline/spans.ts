// SPDX-License-Identifier: Apache-2.0
/*
 * Spans of the time line, and which samples are in them: the rules of src/profile/spans.h, walked in the same way. Samples and
 * spans are passed once in the order of time; spans that have begun are on top of a list, one a thread and one a process, and
 * one that has ended is taken out when a search comes across it.
 */
import { isOfProcess, PHASE, phaseOf, type Timeline } from '../api/timeline_data';

export interface Spans {
	count: number;
	start: Float64Array; // rising; of two that start together the longer is first
	end: Float64Array; // Infinity = it lasts for ever
	marker: Uint32Array; // the start's, or that of an end without a start
	partner: Int32Array; // by marker: the span that it is the end of; -1 = of none
	ofMarker: Int32Array; // by marker: its span; -1 = none
	list: Uint32Array; // thread; those of processes: threads.length + its first thread
}

interface Made {
	start: number;
	end: number;
	marker: number;
	list: number;
}

// Starts and ends that stand apart: by process and name, an end with the last start.
function pairEdges(t: Timeline, made: Made[], partner: Int32Array): void {
	const edges: number[] = [];
	for (let i = 0; i < t.markerCount; i++) if (phaseOf(t, i) >= PHASE.start) edges.push(i);
	const isEnd = (i: number) => phaseOf(t, i) === PHASE.end;
	const group = (i: number) => t.threads[t.thread[i]].group;
	edges.sort((a, b) => group(a) - group(b) || t.name[a] - t.name[b] || t.start[a] - t.start[b] || +isEnd(a) - +isEnd(b) || a - b);
	let open: number[] = [];
	edges.forEach((marker, i) => {
		const list = t.threads.length + group(marker);
		if (!isEnd(marker)) {
			open.push(marker);
		} else {
			const start = open.pop();
			if (start !== undefined) partner[marker] = start; // by its marker, until spans have numbers
			made.push({ start: start === undefined ? -1 : t.start[start], end: t.start[marker], marker: start ?? marker, list });
		}
		const next = edges[i + 1];
		if (next !== undefined && group(next) === group(marker) && t.name[next] === t.name[marker]) return;
		for (const start of open) made.push({ start: t.start[start], end: Infinity, marker: start, list });
		open = [];
	});
}

export function buildSpans(t: Timeline): Spans {
	const made: Made[] = [];
	const partner = new Int32Array(t.markerCount).fill(-1);
	for (let i = 0; i < t.markerCount; i++) {
		if (phaseOf(t, i) !== PHASE.interval) continue;
		const thread = t.thread[i];
		const list = isOfProcess(t, i) ? t.threads.length + t.threads[thread].group : thread;
		made.push({ start: t.start[i], end: t.start[i] + t.duration[i], marker: i, list });
	}
	pairEdges(t, made, partner);
	made.sort((a, b) => a.start - b.start || b.end - a.end || a.marker - b.marker);
	const spans: Spans = {
		count: made.length,
		start: Float64Array.from(made, (s) => s.start),
		end: Float64Array.from(made, (s) => s.end),
		marker: Uint32Array.from(made, (s) => s.marker),
		partner,
		ofMarker: new Int32Array(t.markerCount).fill(-1),
		list: Uint32Array.from(made, (s) => s.list),
	};
	spans.marker.forEach((marker, i) => (spans.ofMarker[marker] = i));
	for (let i = 0; i < t.markerCount; i++) if (partner[i] >= 0) partner[i] = spans.ofMarker[partner[i]];
	return spans;
}

/** Samples that have a time, by it: a merge of the threads, each of which is in order. */
export function samplesByTime(t: Timeline): Uint32Array {
	let runs: Uint32Array[] = [];
	for (const { sampleFirst, sampleEnd } of t.threads) {
		let first = sampleFirst;
		while (first < sampleEnd && t.time[first] < 0) first++;
		if (first < sampleEnd) runs.push(Uint32Array.from({ length: sampleEnd - first }, (_, i) => first + i));
	}
	while (runs.length > 1) {
		const merged: Uint32Array[] = [];
		for (let i = 0; i < runs.length; i += 2) merged.push(i + 1 < runs.length ? mergeRuns(t.time, runs[i], runs[i + 1]) : runs[i]);
		runs = merged;
	}
	return runs[0] ?? new Uint32Array(0);
}

function mergeRuns(time: Float64Array, a: Uint32Array, b: Uint32Array): Uint32Array {
	const out = new Uint32Array(a.length + b.length);
	for (let n = 0, i = 0, k = 0; n < out.length; n++) out[n] = k >= b.length || (i < a.length && time[a[i]] <= time[b[k]]) ? a[i++] : b[k++];
	return out;
}

function threadOfSamples(t: Timeline): Uint32Array {
	const thread = new Uint32Array(t.sampleCount);
	t.threads.forEach((one, i) => thread.fill(i, one.sampleFirst, one.sampleEnd));
	return thread;
}

/** The innermost span that each sample is in, of those that are wanted (null = of all); -1 = none. */
export function innermost(t: Timeline, spans: Spans, wanted: ((span: number) => boolean) | null): Int32Array {
	const found = new Int32Array(t.sampleCount).fill(-1);
	const thread = threadOfSamples(t);
	const heads = new Int32Array(2 * t.threads.length).fill(-1);
	const below = new Int32Array(spans.count);
	const top = (list: number, time: number): number => {
		let at = heads[list];
		while (at >= 0 && spans.end[at] <= time) at = below[at];
		return (heads[list] = at);
	};
	let begun = 0;
	for (const sample of samplesByTime(t)) {
		const time = t.time[sample];
		for (; begun < spans.count && spans.start[begun] <= time; begun++) {
			if (wanted && !wanted(begun)) continue;
			below[begun] = heads[spans.list[begun]];
			heads[spans.list[begun]] = begun;
		}
		const own = thread[sample];
		// Later numbers begin later.
		found[sample] = Math.max(top(own, time), top(t.threads.length + t.threads[own].group, time));
	}
	return found;
}

// ---- rows of the chart --------------------

export const ROWS_MAX = 24;

export interface Rows {
	ticks: Uint32Array; // instants, by time: markers
	rows: Uint32Array[]; // spans that do not overlap, by start
	deeper: number; // spans for which there was no row
}

const grow = (lists: number[][], at: number): number[] => (lists[at] ??= []);

/** For each thread: spans in the first row that is free, so that what is within another is below it. */
export function layRows(t: Timeline, spans: Spans): Rows[] {
	const rows: number[][][] = t.threads.map(() => []);
	const ends: number[][] = t.threads.map(() => []);
	const deeper = new Uint32Array(t.threads.length);
	for (let span = 0; span < spans.count; span++) {
		const thread = t.thread[spans.marker[span]];
		const end = ends[thread];
		let row = 0;
		while (row < end.length && end[row] > spans.start[span]) row++;
		if (row >= ROWS_MAX) {
			deeper[thread]++;
			continue;
		}
		end[row] = spans.end[span];
		grow(rows[thread], row).push(span);
	}
	return t.threads.map(({ markerFirst, markerEnd }, i) => {
		const ticks: number[] = [];
		for (let m = markerFirst; m < markerEnd; m++) if (phaseOf(t, m) === PHASE.instant) ticks.push(m);
		return { ticks: Uint32Array.from(ticks), rows: rows[i].map((row) => Uint32Array.from(row)), deeper: deeper[i] };
	});
}
