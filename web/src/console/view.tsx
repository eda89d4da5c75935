// SPDX-License-Identifier: Apache-2.0
/*
 * The console: any query of the language, its response as a table, a chart or a flame graph, and its plan. The text is the
 * editor's until it is run; what was run is in the URL.
 */
import { useMemo, useState } from 'preact/hooks';
import type { Cell, ComparisonResponse, PipelineResponse, PipelineDiff, PipelineProfile, QueryResponse, SavedQuery, TableResponse } from '../api/responses';
import { ApiError } from '../api/client';
import { digits, displayName, formatCount, formatValue } from '../base/format';
import * as T from '../base/texts';
import { MetricsPanel } from '../chart/panel';
import { ProfilePart } from '../profile/view';
import type { Cover } from '../query/cover';
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
import { missing, requestOf, valuesIn } from './saved';
import { Save, SavedForm, SavedList, SavedMenu, useSaved } from './saved_view';
import { ResultTable } from './table';

const CHANGES = 500;
const LINES = 20;

interface ViewProps {
	state: PageState;
	set: SetState;
	cover: Cover;
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

// ---- responses --------------------

type Shown = Omit<ViewProps, 'nonce' | 'cover'>;

function Flame({ response, flame, query, view }: { response: PipelineResponse; flame: PipelineProfile['flame']; query: string; view: Shown }) {
	const profile = useMemo(() => {
		const whole: QueryResponse = { ...response, period: 0, stats: {}, flame };
		return { response: whole, tree: buildTree(mergeUnnamed(flame)) };
	}, [response, flame]);
	const { state, set, dark, narrow, names } = view;
	const shape: ProfileView = narrow ? 'graph' : 'both';
	return <ProfilePart profile={profile} query={query} state={state} set={set} view={shape} dark={dark} names={names.choice} onNames={names.set} alone />;
}

function Comparison({ response, view }: { response: ComparisonResponse; view: Shown }) {
	const [value, setValue] = useState('');
	const at = chosenValue(response, value);
	const chosen = response.values[at];
	return (
		<>
			<div class="console-values">
				<select
					class="select"
					aria-label={T.queries.valueOf(response.label)}
					value={chosen?.value ?? ''}
					onChange={(event) => setValue(event.currentTarget.value)}
				>
					{response.values.map((one) => (
						<option key={one.value} value={one.value}>
							{`${displayName(one.value, 80) || T.queries.none} – ${formatValue(one.total, response.unit)}`}
						</option>
					))}
				</select>
				<span class="hint">{T.queries.values(response.values.length, response.total_values)}</span>
			</div>
			{chosen && <Flame key={chosen.value} response={response} flame={chosen.flame} query="" view={view} />}
		</>
	);
}

// A difference is requested again as the table of what changed most.
function Difference({ query, response }: { query: string; response: PipelineDiff }) {
	const resource = useApi<TableResponse>('pipeline', { q: pipeline(query, `top ${CHANGES}`), from: response.from_ms, to: response.to_ms }, 0);
	return (
		<>
			<div class="console-note">
				<span class="hint">{resource.error ? displayName(resource.error.message, 400) : T.queries.changes}</span>
				{resource.data && <Downloads items={[{ ...CSV, make: () => tableCsv(resource.data!) }]} endMs={response.to_ms} small />}
			</div>
			{resource.data && <ResultTable response={resource.data} />}
		</>
	);
}

function Result({ response, query, view }: { response: PipelineResponse; query: string; view: Shown }) {
	const chart = useMemo(() => (response.kind === 'series' ? chartOf(response, LINES) : null), [response]);
	const [shown, setShown] = useState<string[]>([]);
	switch (response.kind) {
		case 'table':
			return <ResultTable response={response} />;
		case 'series':
			return (
				<MetricsPanel
					chart={chart!}
					unit={response.unit}
					gauge
					shown={shown}
					onShown={setShown}
					range={{ from: response.from_ms, to: response.to_ms }}
					scale={scaleOf(response.unit)}
					stacked={view.state.chart === 'stacked'}
					dark={view.dark}
					selection={null}
					onSelect={(span) => span && view.set({ from: String(span.from), to: String(span.to) })}
				/>
			);
		case 'flamegraph':
			return <Flame response={response} flame={response.flame} query={query} view={view} />;
		case 'diff':
			return <Difference response={response} query={query} />;
		case 'comparison':
			return <Comparison response={response} view={view} />;
	}
}

function tableCsv({ table: { columns, rows } }: TableResponse): Blob {
	const text = (cell: Cell) => (typeof cell === 'boolean' ? String(cell) : cell);
	return csvOf(
		columns.map(({ name, unit }) => T.table.inUnit(name, unit)),
		rows.map((row) => row.map(text)),
	);
}

// Flame graphs have tools of their own.
function ResultFiles({ response }: { response: PipelineResponse }) {
	if (response.kind !== 'table' && response.kind !== 'series') return null;
	const make = () => (response.kind === 'table' ? tableCsv(response) : csvOfChart(chartOf(response, response.series.length), scaleOf(response.unit)));
	return <Downloads items={[{ ...CSV, make }]} endMs={response.to_ms} />;
}

function size(response: PipelineResponse): string {
	if (response.kind === 'table') return T.queries.rows(formatCount(response.table.rows.length), formatCount(response.table.total_rows));
	if (response.kind === 'series') return T.queries.series(Math.min(LINES, response.series.length), response.total_series);
	return '';
}

function Explain({ response }: { response: PipelineResponse }) {
	const { plan, read, times } = explainRows(response);
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
		<Popover label={T.queries.history} button={T.queries.history} testId="console-history" align="left">
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

export function Console({ state, set, cover, nonce, dark, narrow, names }: ViewProps) {
	const [draft, setDraft] = useState<{ of: string; text: string }>({ of: state.run, text: state.run });
	const [again, setAgain] = useState(0);
	const [stored, store] = useStored('wick-queries', '[]');
	const history = useMemo(() => readHistory(stored), [stored]);
	const text = draft.of === state.run ? draft.text : state.run;
	const setText = (next: string) => setDraft({ of: state.run, text: next });
	const [changed, setChanged] = useState(0);
	const saved = useSaved(nonce + changed);
	const queries = saved.data?.queries ?? [];
	const chosen = state.saved === '' ? undefined : queries.find(({ name, error }) => name === state.saved && error === undefined);
	// One whose parameters are not known yet, or not complete, is not asked.
	const asked = state.saved === '' ? { q: state.run } : requestOf(state.saved, state.param);
	const incomplete = state.saved !== '' && (chosen === undefined || missing(chosen.parameters ?? [], valuesIn(state.param)) !== undefined);
	const resource = useApi<PipelineResponse>(
		(state.run === '' && state.saved === '') || incomplete || !cover.known ? null : 'pipeline',
		{ ...asked, from: cover.from, to: cover.to, explain: state.explain ? 1 : null, names: names.choice === 'short' ? 'short' : null },
		nonce + again,
	);
	const run = (query: string) => {
		const wanted = query.trim();
		if (wanted === '') return;
		store(JSON.stringify(remember(history, wanted)));
		setDraft({ of: wanted, text: wanted });
		if (wanted === state.run && state.saved === '') setAgain(again + 1);
		else set({ run: wanted, saved: '', param: [], zoom: '', find: '', filter: '' });
	};
	const pick = ({ name, range }: SavedQuery) =>
		set({ run: '', saved: name, param: [], zoom: '', find: '', filter: '', ...(range ? { from: `now-${range}`, to: 'now' } : {}) });
	const leave = () => set({ run: '', saved: '', param: [] });
	const { data, error, loading } = resource;
	const fault = error instanceof ApiError && error.status === 400 && text === state.run && state.saved === '' ? error.message : null;
	// A server in trouble takes nothing away that is of the same query.
	const keeps = error !== null && error.status !== 400 && !resource.stale && data !== null;
	const view = { state, set, dark, narrow, names };
	return (
		<section class="console profile" aria-label={T.queries.title} aria-busy={loading} data-testid="console">
			<div class="console-head">
				{state.saved !== '' && chosen && (
					<SavedForm
						key={state.saved}
						query={chosen}
						texts={state.param}
						from={cover.from}
						to={cover.to}
						onRun={(param) => (String(param) === String(state.param) ? setAgain(again + 1) : set({ param, zoom: '', find: '', filter: '' }))}
						onEdit={() => {
							const query = data?.query ?? chosen.query ?? '';
							setDraft({ of: '', text: query });
							leave();
						}}
						onLeave={leave}
						onRemoved={() => {
							setChanged(changed + 1);
							leave();
						}}
					/>
				)}
				{state.saved !== '' && !chosen && !saved.loading && (
					<p class="listing-why fault" role="alert">
						{saved.error ? displayName(saved.error.message, 400) : T.queries.noSaved(state.saved)}
					</p>
				)}
				<div class="console-line" hidden={state.saved !== ''}>
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
					<SavedMenu queries={queries} onPick={pick} />
					{state.saved === '' && text.trim() !== '' && (
						<Save
							key={text}
							text={text.trim()}
							onSaved={(name) => {
								setChanged(changed + 1);
								set({ run: '', saved: name, param: [] });
							}}
						/>
					)}
					<History history={history} onPick={setText} onForget={() => store('[]')} />
					<span class="hint" role="status">
						{loading ? T.queries.running : data && !error ? size(data) : ''}
						{data?.partial && !error && ` ${T.queries.partial} ${displayName(data.why ?? '', 200)}`}
						{data?.saturated && !error && ` ${T.queries.saturated}`}
					</span>
					{data && !error && <ResultFiles response={data} />}
				</div>
			</div>
			{error && fault === null && (
				<p class="listing-why fault" role="alert">
					{errorTitle(error)}. {displayName(error.message, 400)} {keeps && T.fault.older}
				</p>
			)}
			{state.run === '' && state.saved === '' && (
				<div class="console-start">
					{queries.length > 0 && <SavedList queries={queries} onPick={pick} />}
					<Examples onPick={(query) => run(query)} />
				</div>
			)}
			{(state.run !== '' || state.saved !== '') && !incomplete && data && (!error || keeps) && (
				<div class={resource.stale ? 'console-result stale' : 'console-result'} data-testid="console-result">
					{data.explain && <Explain response={data} />}
					<Result response={data} query={state.saved === '' ? state.run : (data.query ?? '')} view={view} />
				</div>
			)}
		</section>
	);
}
