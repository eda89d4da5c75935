// SPDX-License-Identifier: Apache-2.0
// The page in a file: the flame graph and the table of one profile, and its time line, without a server.
import { render } from 'preact';
import { displayName } from './base/format';
import { useMedia } from './ui/hooks';
import { Logo } from './ui/icons';
import { KeysButton, KeysList } from './ui/keys';
import { readReport, type Report } from './api/report_data';
import type { ProfileView } from './state/page';
import './style.css';
import * as T from './base/texts';
import { startTheme, useTheme } from './ui/theme';
import { ThemeToggle } from './ui/theme_toggle';
import { useFragmentState } from './timeline/state';
import { useViewed, ValueSelect, ViewedParts } from './profile/viewed';

const VIEWS: ProfileView[] = ['graph', 'both', 'table', 'sandwich'];

function ReportPage({ report }: { report: Report }) {
	const theme = useTheme();
	const narrow = useMedia('(max-width: 1100px)');
	const [state, set, wish, setTime] = useFragmentState();
	const viewed = useViewed(report, wish);
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
					{displayName(report.data.title, 120)}
				</h2>
				<ValueSelect viewed={viewed} set={set} setTime={setTime} />
				<span class="spring" />
				<div class="bar-end">
					<KeysButton />
					<ThemeToggle theme={theme} />
				</div>
			</header>
			<main class="main">
				<ViewedParts viewed={viewed} state={state} set={set} setTime={setTime} view={view} dark={theme.dark} />
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
