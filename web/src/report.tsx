// SPDX-License-Identifier: Apache-2.0
// The page in a file: the flame graph and the table of one profile, and its time line, without a server.
import { render } from 'preact';
import { useMemo } from 'preact/hooks';
import { displayName } from './format';
import { buildTree } from './flame/tree';
import { mergeUnnamed } from './flame/unnamed';
import { useMedia } from './hooks';
import { Logo } from './icons';
import { KeysButton, KeysList } from './keys';
import { ProfilePart, type Profile } from './profile';
import { readReport, type Report, type ReportData } from './report_data';
import type { ProfileView } from './state';
import './style.css';
import * as T from './texts';
import { startTheme, useTheme } from './theme';
import { ThemeToggle } from './theme_toggle';
import type { Timeline } from './timeline/data';
import { isCalled, isNarrowed, narrowFlame, pickSamples, type Narrowed } from './timeline/narrow';
import { buildSpans, innermost, layRows, type Spans } from './timeline/spans';
import { fitTimeState, useFragmentState, type TimeState } from './timeline/state';
import { TimelineView } from './timeline/view';

function toProfile(data: ReportData, index: number, narrowed: Narrowed | null): Profile {
	const { flame: whole, period, unresolved } = data.types[index];
	const flame = narrowed ? { ...narrowed.flame, binaries: whole.binaries } : whole;
	const answer = {
		type: flame.type,
		unit: flame.unit,
		period,
		from_ms: data.time_ms,
		to_ms: data.time_ms,
		stats: { unresolved: narrowed?.unnamed ?? unresolved },
		flame,
	};
	return { answer, tree: buildTree(mergeUnnamed(flame)) };
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
	}, [data, t, spans, index, threads, range, part, inDuring, inAny]);
}

const VIEWS: ProfileView[] = ['graph', 'both', 'table', 'sandwich'];

function ReportPage({ report: { data, timeline: t } }: { report: Report }) {
	const theme = useTheme();
	const narrow = useMedia('(max-width: 1100px)');
	const [state, set, wish, setTime] = useFragmentState();
	const time = useMemo(() => fitTimeState(wish, t), [wish, t]);
	const index = data.types[time.type] ? time.type : data.shown;
	const spans = useMemo(() => t && buildSpans(t), [t]);
	const rows = useMemo(() => t && spans && layRows(t, spans), [t, spans]);
	const narrowed = useNarrowed(data, t, spans, index, time);
	const profile = useMemo(() => toProfile(data, index, narrowed), [data, index, narrowed]);
	// A fragment without a view, or with one that only a server has, is as one comes to it.
	const view = VIEWS.find((v) => v === state.view) ?? (narrow ? 'graph' : 'both');
	return (
		<div class="app app-wide">
			<header class="bar">
				<h1 class="brand">
					<span class="brand-mark">
						<Logo />
						<span>{T.page.name}</span>
					</span>
				</h1>
				<h2 class="bar-title" data-testid="report-title">
					{displayName(data.title, 120)}
				</h2>
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
				<span class="spring" />
				<div class="bar-end">
					<KeysButton />
					<ThemeToggle theme={theme} />
				</div>
			</header>
			<main class="main">
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
						dark={theme.dark}
						shown={{
							samples: profile.tree.samples,
							value: profile.tree.total[0],
							allValue: data.types[index].flame.total,
							unit: profile.tree.unit,
							narrowed: isNarrowed(time),
						}}
					/>
				)}
				<ProfilePart
					profile={profile}
					query=""
					state={state}
					set={set}
					view={view}
					dark={theme.dark}
					stale={false}
					gaveUp={false}
					names="full"
					onNames={() => undefined}
					alone
				/>
			</main>
			<KeysList view="report" />
		</div>
	);
}

startTheme();
const app = document.getElementById('app')!;
const textOf = (id: string): string => document.getElementById(id)?.textContent ?? '';
readReport(textOf('profile'), textOf('timeline')).then(
	(report) => render(<ReportPage report={report} />, app),
	(error) => {
		app.textContent = T.report.fault(error instanceof Error ? error.message : String(error));
	},
);
