// SPDX-License-Identifier: Apache-2.0
// Markers as a table. Only the rows in view are in the document, and sorting moves numbers, so a million of them is no matter.
import { useMemo } from 'preact/hooks';
import { valuesOf, type Timeline } from '../api/timeline_data';
import { displayName, formatCount } from '../base/format';
import * as T from '../base/texts';
import { FilterInput } from '../ui/controls';
import { useDebounced } from '../ui/hooks';
import { press } from '../ui/keymap';
import { useSeenRows } from '../ui/seen_rows';
import type { Spans } from './spans';
import type { MarkerSort, TimeState } from './state';
import { extentOf, fieldsLine, formatMoment, formatNs, isInstant } from './text';

const HEADS: { key: MarkerSort | 'fields'; title: string }[] = [
	{ key: 'start', title: T.markers.heads.start },
	{ key: 'duration', title: T.markers.heads.duration },
	{ key: 'name', title: T.markers.heads.name },
	{ key: 'fields', title: T.markers.heads.fields },
	{ key: 'thread', title: T.markers.heads.thread },
];

/** The markers of the chosen threads and time whose name, category or texts have what is searched. */
export function findMarkers(t: Timeline, spans: Spans, state: Pick<TimeState, 'threads' | 'range'>, find: string): Uint32Array {
	const wanted = find.trim().toLowerCase();
	const has = t.strings.map((text) => wanted === '' || text.toLowerCase().includes(wanted));
	const category = t.categories.map(({ name }) => wanted !== '' && name.toLowerCase().includes(wanted));
	const out: number[] = [];
	t.threads.forEach(({ markerFirst, markerEnd }, thread) => {
		if (state.threads.length > 0 && !state.threads.includes(thread)) return;
		for (let m = markerFirst; m < markerEnd; m++) {
			if (spans.partner[m] >= 0) continue; // the end of one that is here
			if (state.range) {
				const [from, to] = extentOf(t, spans, m);
				if (from >= state.range[1] || (to <= state.range[0] && !(from === to && from === state.range[0]))) continue;
			}
			if (wanted !== '' && !has[t.name[m]] && !category[t.category[m]]) {
				const inTexts = valuesOf(t, m).some((v) => typeof v === 'string' && v.toLowerCase().includes(wanted));
				if (!inTexts) continue;
			}
			out.push(m);
		}
	});
	return Uint32Array.from(out);
}

export function sortMarkers(t: Timeline, spans: Spans, markers: Uint32Array, sort: MarkerSort, reverse: boolean): Uint32Array {
	const key = new Float64Array(t.markerCount);
	if (sort === 'name') {
		const rank = new Float64Array(t.strings.length);
		const used = [...new Set(Array.from(markers, (m) => t.name[m]))];
		used.sort((a, b) => (t.strings[a] < t.strings[b] ? -1 : t.strings[a] > t.strings[b] ? 1 : 0));
		used.forEach((name, i) => (rank[name] = i));
		for (const m of markers) key[m] = rank[t.name[m]];
	} else if (sort === 'thread') {
		for (const m of markers) key[m] = t.thread[m];
	} else {
		for (const m of markers) {
			const [from, to] = extentOf(t, spans, m);
			key[m] = sort === 'start' ? from : from - to; // the longest first
		}
	}
	const sorted = markers.slice().sort((a, b) => key[a] - key[b] || a - b);
	return reverse ? sorted.reverse() : sorted;
}

interface MarkerTableProps {
	t: Timeline;
	spans: Spans;
	state: TimeState;
	onState: (patch: Partial<TimeState>) => void;
	onPick: (marker: number) => void;
	onMenu: (marker: number, x: number, y: number) => void;
}

export function MarkerTable({ t, spans, state, onState, onPick, onMenu }: MarkerTableProps) {
	const find = useDebounced(state.mfind, 150);
	const { threads, range, msort, mreverse } = state;
	const found = useMemo(() => findMarkers(t, spans, { threads, range }, find), [t, spans, threads, range, find]);
	const rows = useMemo(() => sortMarkers(t, spans, found, msort, mreverse), [t, spans, found, msort, mreverse]);
	const seen = useSeenRows(rows.length, [rows]);
	const { first, last, active, width } = seen;
	const narrow = width > 0 && width < 620;
	const heads = HEADS.filter(({ key }) => !narrow || key !== 'fields').filter(({ key }) => !narrow || key !== 'thread');
	const act = (event: KeyboardEvent, row: number): boolean => press('table', event, { pick: () => onPick(rows[row]) });
	return (
		<section class="table-pane mtable-pane" aria-label={T.markers.label}>
			<div class="table-tools">
				<FilterInput label={T.markers.filter} hint={T.markers.filterHint} testId="marker-filter" value={state.mfind} onValue={(mfind) => onState({ mfind })} />
				<span class="count" role="status" data-testid="marker-count">
					{T.markers.count(formatCount(rows.length))}
				</span>
			</div>
			<div
				class={narrow ? 'table mtable narrow' : 'table mtable'}
				ref={seen.scroller}
				data-testid="marker-table"
				role="table"
				tabIndex={0}
				aria-label={T.markers.describe}
				aria-rowcount={rows.length + 1}
				onScroll={seen.onScroll}
				onKeyDown={(event) => seen.onKeyDown(event, act)}
			>
				<div class="tr thead" role="row" aria-rowindex={1}>
					{heads.map(({ key, title }) => (
						<div key={key} role="columnheader" class={`td td-${key}`} aria-sort={key === msort ? (mreverse ? 'descending' : 'ascending') : 'none'}>
							{key === 'fields' ? (
								<span class="mtable-head">{title}</span>
							) : (
								<button type="button" data-testid={`marker-sort-${key}`} onClick={() => onState({ msort: key, mreverse: key === msort ? !mreverse : false })}>
									{title}
									<span class="sort-mark" aria-hidden="true">
										{key === msort ? ((key === 'duration') !== mreverse ? '▼' : '▲') : ''}
									</span>
								</button>
							)}
						</div>
					))}
				</div>
				<div class="tbody" role="rowgroup" style={{ height: `${seen.bodyHeight}px` }}>
					{Array.from(rows.subarray(first, last), (m, i) => {
						const [from, to] = extentOf(t, spans, m);
						const at = first + i;
						return (
							<div
								key={at}
								role="row"
								aria-rowindex={at + 2}
								aria-current={m === state.marker}
								data-marker={m}
								class={`tr${at === active ? ' active' : ''}${m === state.marker ? ' marked' : ''}`}
								style={seen.styleOf(at)}
								onClick={() => {
									seen.setActive(at);
									onPick(m);
								}}
								onContextMenu={(event) => {
									event.preventDefault();
									onMenu(m, event.clientX, event.clientY);
								}}
							>
								<div role="cell" class="td td-start">
									{formatMoment(from, 1e3)}
								</div>
								<div role="cell" class="td td-duration">
									{isInstant(t, m) ? '' : formatNs(to - from)}
								</div>
								<div role="cell" class="td td-marker">
									<span class="fn">{displayName(t.strings[t.name[m]], 120)}</span>
									{narrow && <span class="where">{fieldsLine(t, m)}</span>}
								</div>
								{!narrow && (
									<div role="cell" class="td td-fields" title={fieldsLine(t, m)}>
										{fieldsLine(t, m)}
									</div>
								)}
								{!narrow && (
									<div role="cell" class="td td-thread">
										{displayName(t.threads[t.thread[m]].name, 80)}
									</div>
								)}
							</div>
						);
					})}
				</div>
				{rows.length === 0 && <p class="table-none">{T.markers.none}</p>}
			</div>
		</section>
	);
}
