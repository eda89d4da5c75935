// SPDX-License-Identifier: Apache-2.0
/*
 * The console: any query of the language, its answer as a table, a chart or a flame graph, and how it was answered. The text is the
 * editor's until it is run; what was run is in the URL.
 */
import { useMemo, useState } from 'preact/hooks';
import type { Cell, ComparisonAnswer, PipelineAnswer, PipelineDiff, PipelineProfile, QueryAnswer, TableAnswer } from '../api/answers';
import { ApiError } from '../api/client';
import { digits, displayName, formatCount, formatValue } from '../base/format';
import * as T from '../base/texts';
import { Metrics } from '../chart/view';
import { ProfilePart } from '../profile/view';
import { pipeline } from '../query/pipeline';
import type { NamesChoice, PageState, ProfileView } from '../state/page';
import { buildTree } from '../tree/tree';
import { mergeUnnamed } from '../tree/unnamed';
import { CSV, csvOf, csvOfChart, Downloads } from '../ui/downloads';
import { FactList } from '../ui/facts';
import { useApi, useStored, type SetState } from '../ui/hooks';
import { errorTitle } from '../ui/notices';
import { Popover } from '../ui/popover';
import { Editor } from './editor';
import { chartOf, chosenValue, explainRows, readHistory, remember, scaleOf } from './result';
import { ResultTable } from './table';

const CHANGES = 500;
const LINES = 20;

interface ViewProps {
	state: PageState;
	set: SetState;
	nonce: number;
	dark: boolean;
	narrow: boolean;
	names: { choice: NamesChoice; set: (names: NamesChoice) => void };
}

const EXAMPLES: [keyof typeof T.queries.exampleNotes, string][] = [
	['services', pipeline('process_cpu', 'rate', 'top 20 by label service_name')],
	['functions', pipeline('process_cpu', 'top 50')],
	['changed', pipeline('process_cpu', 'diff (shift 1d)', 'top 50')],
	['callers', pipeline('process_cpu', 'callers of "malloc"')],
	['binaries', pipeline('process_cpu', 'top 30 by binary')],
	['time', pipeline('process_cpu', 'group by service_name', 'bin auto', 'rate', 'top 10 others')],
];

// ---- answers --------------------

type Shown = Omit<ViewProps, 'nonce'>;

function Flame({ answer, flame, query, view }: { answer: PipelineAnswer; flame: PipelineProfile['flame']; query: string; view: Shown }) {
	const profile = useMemo(() => {
		const whole: QueryAnswer = { ...answer, period: 0, stats: {}, flame };
		return { answer: whole, tree: buildTree(mergeUnnamed(flame)) };
	}, [answer, flame]);
	const { state, set, dark, narrow, names } = view;
	const shape: ProfileView = narrow ? 'graph' : 'both';
	return (
		<ProfilePart
			profile={profile}
			query={query}
			state={state}
			set={set}
			view={shape}
			dark={dark}
			stale={false}
			gaveUp={false}
			names={names.choice}
			onNames={names.set}
			alone
		/>
	);
}

function Comparison({ answer, view }: { answer: ComparisonAnswer; view: Shown }) {
	const [value, setValue] = useState('');
	const at = chosenValue(answer, value);
	const chosen = answer.values[at];
	return (
		<>
			<div class="console-values">
				<select
					class="select"
					aria-label={T.queries.valueOf(answer.label)}
					value={chosen?.value ?? ''}
					onChange={(event) => setValue(event.currentTarget.value)}
				>
					{answer.values.map((one) => (
						<option key={one.value} value={one.value}>
							{`${displayName(one.value, 80) || T.queries.none} – ${formatValue(one.total, answer.unit)}`}
						</option>
					))}
				</select>
				<span class="hint">{T.queries.values(answer.values.length, answer.total_values)}</span>
			</div>
			{chosen && <Flame key={chosen.value} answer={answer} flame={chosen.flame} query="" view={view} />}
		</>
	);
}

// A difference is asked for again as the table of what changed most.
function Difference({ query, answer }: { query: string; answer: PipelineDiff }) {
	const asked = useApi<TableAnswer>('pipeline', { q: pipeline(query, `top ${CHANGES}`), from: answer.from_ms, to: answer.to_ms }, 0);
	return (
		<>
			<div class="console-note">
				<span class="hint">{asked.error ? displayName(asked.error.message, 400) : T.queries.changes}</span>
				{asked.data && <Downloads items={[{ ...CSV, make: () => tableCsv(asked.data!) }]} endMs={answer.to_ms} small />}
			</div>
			{asked.data && <ResultTable answer={asked.data} />}
		</>
	);
}

function Result({ answer, query, view }: { answer: PipelineAnswer; query: string; view: Shown }) {
	const chart = useMemo(() => (answer.kind === 'series' ? chartOf(answer, LINES) : null), [answer]);
	switch (answer.kind) {
		case 'table':
			return <ResultTable answer={answer} />;
		case 'series':
			return (
				<Metrics
					chart={chart!}
					range={{ from: answer.from_ms, to: answer.to_ms }}
					scale={scaleOf(answer.unit)}
					stacked={view.state.chart === 'stacked'}
					dark={view.dark}
					selection={null}
					onSelect={(span) => span && view.set({ from: String(span.from), to: String(span.to) })}
				/>
			);
		case 'flamegraph':
			return <Flame answer={answer} flame={answer.flame} query={query} view={view} />;
		case 'diff':
			return <Difference answer={answer} query={query} />;
		case 'comparison':
			return <Comparison answer={answer} view={view} />;
	}
}

function tableCsv({ table: { columns, rows } }: TableAnswer): Blob {
	const text = (cell: Cell) => (typeof cell === 'boolean' ? String(cell) : cell);
	return csvOf(
		columns.map(({ name, unit }) => T.table.inUnit(name, unit)),
		rows.map((row) => row.map(text)),
	);
}

// Flame graphs have tools of their own.
function ResultFiles({ answer }: { answer: PipelineAnswer }) {
	if (answer.kind !== 'table' && answer.kind !== 'series') return null;
	const make = () => (answer.kind === 'table' ? tableCsv(answer) : csvOfChart(chartOf(answer, answer.series.length), scaleOf(answer.unit)));
	return <Downloads items={[{ ...CSV, make }]} endMs={answer.to_ms} />;
}

function size(answer: PipelineAnswer): string {
	if (answer.kind === 'table') return T.queries.rows(formatCount(answer.table.rows.length), formatCount(answer.table.total_rows));
	if (answer.kind === 'series') return T.queries.series(Math.min(LINES, answer.series.length), answer.total_series);
	return '';
}

function Explain({ answer }: { answer: PipelineAnswer }) {
	const { plan, read, times } = explainRows(answer);
	return (
		<div class="console-explain" data-testid="console-explain">
			<section>
				<h3>{T.queries.plan}</h3>
				<ol>
					{plan.map((line, i) => (
						<li key={i}>{displayName(line, 400)}</li>
					))}
				</ol>
			</section>
			{[
				{ title: T.queries.read, rows: read.map(([name, value]): [string, string] => [name, formatCount(value)]) },
				{ title: T.queries.times, rows: times.map(([name, ms]): [string, string] => [name, `${digits(ms)} ms`]) },
			].map(({ title, rows }) => (
				<section key={title}>
					<h3>{title}</h3>
					<FactList rows={rows} />
				</section>
			))}
		</div>
	);
}

// ---- the view --------------------

function History({ history, onPick, onForget }: { history: string[]; onPick: (query: string) => void; onForget: () => void }) {
	return (
		<Popover label={T.queries.history} button={T.queries.history} testId="console-history">
			{(close) =>
				history.length === 0 ? (
					<p>{T.queries.noHistory}</p>
				) : (
					<>
						<ul class="console-list">
							{history.map((query) => (
								<li key={query}>
									<button
										type="button"
										class="link mono"
										onClick={() => {
											close();
											onPick(query);
										}}
									>
										{displayName(query, 300)}
									</button>
								</li>
							))}
						</ul>
						<button type="button" class="link" onClick={onForget}>
							{T.queries.forget}
						</button>
					</>
				)
			}
		</Popover>
	);
}

function Examples({ onPick }: { onPick: (query: string) => void }) {
	return (
		<section class="console-examples" aria-label={T.queries.examples}>
			<h3>{T.queries.examples}</h3>
			<dl>
				{EXAMPLES.map(([note, query]) => (
					<div key={note}>
						<dt>
							<button type="button" class="link mono" onClick={() => onPick(query)}>
								{query}
							</button>
						</dt>
						<dd>{T.queries.exampleNotes[note]}</dd>
					</div>
				))}
			</dl>
		</section>
	);
}

export function Console({ state, set, nonce, dark, narrow, names }: ViewProps) {
	const [draft, setDraft] = useState<{ of: string; text: string }>({ of: state.run, text: state.run });
	const [again, setAgain] = useState(0);
	const [stored, store] = useStored('wick-queries', '[]');
	const history = useMemo(() => readHistory(stored), [stored]);
	const text = draft.of === state.run ? draft.text : state.run;
	const setText = (next: string) => setDraft({ of: state.run, text: next });
	const asked = useApi<PipelineAnswer>(
		state.run === '' ? null : 'pipeline',
		{ q: state.run, from: state.from, to: state.to, explain: state.explain ? 1 : null, names: names.choice === 'short' ? 'short' : null },
		nonce + again,
	);
	const run = (query: string) => {
		const wanted = query.trim();
		if (wanted === '') return;
		store(JSON.stringify(remember(history, wanted)));
		setDraft({ of: wanted, text: wanted });
		if (wanted === state.run) setAgain(again + 1);
		else set({ run: wanted, zoom: '', find: '', filter: '' });
	};
	const { data, error, loading } = asked;
	const fault = error instanceof ApiError && error.status === 400 && text === state.run ? error.message : null;
	// A server in trouble takes nothing away that is of the same query.
	const keeps = error !== null && error.status !== 400 && !asked.stale && data !== null;
	const view = { state, set, dark, narrow, names };
	return (
		<section class="console profile" aria-label={T.queries.title} aria-busy={loading} data-testid="console">
			<div class="console-head">
				<div class="console-line">
					<Editor
						text={text}
						onText={setText}
						onRun={() => run(text)}
						onPrevious={() => history[0] && setText(history[0])}
						fault={fault}
						from={state.from}
						to={state.to}
					/>
					<button type="button" class="button primary" disabled={text.trim() === ''} data-testid="console-run" title={T.queries.help} onClick={() => run(text)}>
						{T.queries.run}
					</button>
				</div>
				<div class="console-buttons">
					<button
						type="button"
						class="button"
						aria-pressed={state.explain}
						title={T.queries.explainHint}
						data-testid="console-explain-toggle"
						onClick={() => set({ explain: !state.explain }, 'replace')}
					>
						{T.queries.explain}
					</button>
					<History history={history} onPick={setText} onForget={() => store('[]')} />
					<span class="hint" role="status">
						{loading ? T.queries.running : data && !error ? size(data) : ''}
						{data?.partial && !error && ` ${T.queries.partial} ${displayName(data.why ?? '', 200)}`}
					</span>
					{data && !error && <ResultFiles answer={data} />}
				</div>
			</div>
			{error && fault === null && (
				<p class="listing-why fault" role="alert">
					{errorTitle(error)}. {displayName(error.message, 400)} {keeps && T.fault.older}
				</p>
			)}
			{state.run === '' && <Examples onPick={(query) => run(query)} />}
			{state.run !== '' && data && (!error || keeps) && (
				<div class={asked.stale ? 'console-result stale' : 'console-result'} data-testid="console-result">
					{data.explain && <Explain answer={data} />}
					<Result answer={data} query={state.run} view={view} />
				</div>
			)}
		</section>
	);
}
