// SPDX-License-Identifier: Apache-2.0
/*
 * One profile with all its values, and its time line if it has one: what a page in a file shows, and the server's page of a file
 * that was opened in it. A TimeState has the chosen value, threads and time; the graph follows.
 */
import type { ComponentChildren } from 'preact';
import { useMemo } from 'preact/hooks';
import type { Report, ReportData } from '../api/report_data';
import type { Timeline } from '../api/timeline_data';
import { displayName } from '../base/format';
import * as T from '../base/texts';
import type { Profile } from '../query/requests';
import type { PageState, ProfileView } from '../state/page';
import { isCalled, isNarrowed, narrowFlame, pickSamples, type Narrowed } from '../timeline/narrow';
import { buildSpans, innermost, layRows, type Rows, type Spans } from '../timeline/spans';
import { fitTimeState, type SetTime, type TimeState } from '../timeline/state';
import { TimelineView } from '../timeline/view';
import { buildTree } from '../tree/tree';
import { mergeUnnamed } from '../tree/unnamed';
import type { SetState } from '../ui/hooks';
import { ProfilePart } from './view';

function toProfile(data: ReportData, index: number, narrowed: Narrowed | null): Profile {
	const { flame: whole, period, unresolved } = data.types[index];
	const flame = narrowed ? { ...narrowed.flame, binaries: whole.binaries } : whole;
	const response = {
		type: flame.type,
		unit: flame.unit,
		period,
		from_ms: data.time_ms,
		to_ms: data.time_ms,
		stats: { unresolved: narrowed?.unnamed ?? unresolved },
		flame,
	};
	return { response, tree: buildTree(mergeUnnamed(flame)) };
}

// The graph of what is chosen on the time line; null = of all.
function useNarrowed(data: ReportData, t: Timeline | null, spans: Spans | null, index: number, state: TimeState): Narrowed | null {
	const { threads, range, part, during, bySpan } = state;
	const inDuring = useMemo(() => {
		if (!t || !spans || during === '') return null;
		const wanted = isCalled(t, during);
		return innermost(t, spans, (span) => wanted(spans.marker[span]));
	}, [t, spans, during]);
	const inAny = useMemo(() => (t && spans && bySpan ? innermost(t, spans, null) : null), [t, spans, bySpan]);
	return useMemo(() => {
		const narrowing = { threads, range, part, during, bySpan };
		if (!t || !spans || !(isNarrowed(narrowing) || bySpan)) return null;
		const picked = pickSamples(t, narrowing, inDuring);
		return narrowFlame(data.types[index].flame, t, index, picked, inAny && { spans, inSpan: inAny });
	}, [data, t, spans, index, threads, range, part, during, bySpan, inDuring, inAny]);
}

export interface Viewed {
	data: ReportData;
	t: Timeline | null;
	spans: Spans | null;
	rows: Rows[] | null;
	time: TimeState; // without what this file does not have
	index: number; // of the value that is shown
	profile: Profile;
}

/** wish: what the URL says. */
export function useViewed({ data, timeline: t }: Report, wish: TimeState): Viewed {
	const time = useMemo(() => fitTimeState(wish, t), [wish, t]);
	const index = data.types[time.type] ? time.type : data.shown;
	const spans = useMemo(() => t && buildSpans(t), [t]);
	const rows = useMemo(() => t && spans && layRows(t, spans), [t, spans]);
	const narrowed = useNarrowed(data, t, spans, index, time);
	const profile = useMemo(() => toProfile(data, index, narrowed), [data, index, narrowed]);
	return { data, t, spans, rows, time, index, profile };
}

/** Which of the profile's values is shown. */
export function ValueSelect({ viewed: { data, index }, set, setTime }: { viewed: Viewed; set: SetState; setTime: SetTime }) {
	return (
		<select
			class="select type-select"
			aria-label={T.type.label}
			data-testid="type-select"
			value={String(index)}
			onChange={(event) => {
				set({ zoom: '' }, 'replace');
				setTime({ type: Number(event.currentTarget.value) });
			}}
		>
			{data.types.map(({ flame }, i) => (
				<option key={i} value={String(i)}>
					{displayName(`${flame.type} (${flame.unit})`, 60)}
				</option>
			))}
		</select>
	);
}

interface ViewedProps {
	viewed: Viewed;
	state: PageState;
	set: SetState;
	setTime: SetTime;
	view: ProfileView;
	dark: boolean;
	more?: ComponentChildren; // among the graph's tools
	calls?: boolean; // the call graph can be had
}

/** Time line, graph and table. */
export function ViewedParts({ viewed, state, set, setTime, view, dark, more, calls = false }: ViewedProps) {
	const { data, t, spans, rows, time, index, profile } = viewed;
	return (
		<>
			{data.no_timeline && (
				<p class="tl-losses" role="note" data-testid="no-timeline">
					{T.report.noTimeline(displayName(String(data.no_timeline), 400))}
				</p>
			)}
			{t && spans && rows && (
				<TimelineView
					t={t}
					spans={spans}
					rows={rows}
					type={index}
					state={time}
					set={setTime}
					dark={dark}
					shown={{
						samples: profile.tree.samples,
						value: profile.tree.total[0],
						allValue: data.types[index].flame.total,
						unit: profile.tree.unit,
						narrowed: isNarrowed(time),
					}}
				/>
			)}
			<ProfilePart profile={profile} state={state} set={set} view={view} dark={dark} more={more} calls={calls} alone />
		</>
	);
}
