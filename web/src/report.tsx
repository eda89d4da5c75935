// SPDX-License-Identifier: Apache-2.0
// The page in a file: the flame graph and the table of one profile, without a server.
import { render } from 'preact';
import { useCallback, useMemo, useState } from 'preact/hooks';
import { displayName } from './format';
import { buildTree } from './flame/tree';
import { mergeUnnamed } from './flame/unnamed';
import { useMedia, type SetState } from './hooks';
import { Logo } from './icons';
import { ProfilePart, type Profile } from './profile';
import { readReport, type ReportData } from './report_data';
import { DEFAULTS, type PageState, type ProfileView } from './state';
import './style.css';
import { startTheme, useTheme } from './theme';
import { ThemeToggle } from './theme_toggle';

function toProfile(data: ReportData, index: number): Profile {
	const { flame, period, unresolved } = data.types[index];
	const answer = {
		type: flame.type,
		unit: flame.unit,
		period,
		from_ms: data.time_ms,
		to_ms: data.time_ms,
		stats: { unresolved },
		flame,
	};
	return { answer, tree: buildTree(mergeUnnamed(flame)) };
}

// The URL of a file stays as it is: not every browser lets a page change it.
function useMemoryState(): [PageState, SetState] {
	const [state, setState] = useState<PageState>(DEFAULTS);
	const set = useCallback<SetState>((patch) => setState((was) => ({ ...was, ...patch })), []);
	return [state, set];
}

function Report({ data }: { data: ReportData }) {
	const theme = useTheme();
	const narrow = useMedia('(max-width: 1100px)');
	const [state, set] = useMemoryState();
	const [index, setIndex] = useState(data.shown);
	const profile = useMemo(() => toProfile(data, index), [data, index]);
	const view = (state.view || (narrow ? 'graph' : 'both')) as ProfileView;
	return (
		<div class="app app-wide">
			<header class="bar">
				<h1 class="brand">
					<span class="brand-mark">
						<Logo />
						<span>Wick</span>
					</span>
				</h1>
				<h2 class="bar-title" data-testid="report-title">
					{displayName(data.title, 120)}
				</h2>
				<select
					class="select type-select"
					aria-label="Profile type"
					data-testid="type-select"
					value={String(index)}
					onChange={(event) => {
						set({ zoom: '' });
						setIndex(Number(event.currentTarget.value));
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
					<ThemeToggle theme={theme} />
				</div>
			</header>
			<main class="main">
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
		</div>
	);
}

startTheme();
const app = document.getElementById('app')!;
readReport(document.getElementById('profile')!.textContent ?? '').then(
	(data) => render(<Report data={data} />, app),
	(error) => {
		app.textContent = `This page cannot be shown: ${error instanceof Error ? error.message : String(error)}`;
	},
);
