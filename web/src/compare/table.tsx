// SPDX-License-Identifier: Apache-2.0
// Functions of both sides, with what became of each. Only the rows in view are in the document.
import { useEffect, useMemo } from 'preact/hooks';
import { baseName, displayName, formatCount } from '../base/format';
import * as T from '../base/texts';
import { CHANGES, type ChangeName, type CompareState, type Order } from '../state/compare';
import { SortHead } from '../table/sort_head';
import { compileSearch } from '../tree/search';
import { placeOf } from '../tree/tree';
import { FilterInput, Switch } from '../ui/controls';
import { csvOf } from '../ui/downloads';
import { useDebounced } from '../ui/hooks';
import { press } from '../ui/keymap';
import { useSeenRows } from '../ui/seen_rows';
import { changeColor } from './colors';
import { formatRatio, type Figures } from './figures';
import { countChanges, pairOf, sortCompared, type Changed, type CompareRow, type Comparison, type Pair } from './model';

export interface CompareTableProps {
	comparison: Comparison;
	rows: CompareRow[] | null; // null = not made yet
	figures: Figures;
	state: CompareState;
	filter: string;
	find: string;
	dark: boolean;
	onState: (patch: Partial<CompareState>) => void;
	onFilter: (text: string) => void;
	onFind: (text: string) => void;
	onMenu: (row: CompareRow, x: number, y: number) => void;
}

const NO_ROWS: CompareRow[] = [];
const COLUMNS: Order[] = ['base', 'head', 'change', 'percent', 'state', 'name'];

export function shareChanged({ base, head }: Changed): number {
	return Math.abs(head - base) / Math.max(base, head, Number.MIN_VALUE);
}

export function ChangeMark({ change, share, dark }: { change: ChangeName; share: number; dark: boolean }) {
	return <i class="swatch" style={{ background: changeColor(CHANGES.indexOf(change), share, dark) }} aria-hidden="true" />;
}

function Head({ state, onState }: Pick<CompareTableProps, 'state' | 'onState'>) {
	return (
		<div class="tr thead" role="row" aria-rowindex={1}>
			{COLUMNS.map((order, i) => {
				const { title, hint } = T.compare.heads[order];
				const active = state.order === order;
				const rising = (order === 'name') !== state.reverse;
				return (
					<SortHead
						key={order}
						column={order}
						index={i}
						title={title}
						hint={hint}
						active={active}
						rising={rising}
						testId={`order-${order}`}
						onSort={() => onState({ order, reverse: active ? !state.reverse : false })}
					/>
				);
			})}
		</div>
	);
}

interface LineProps {
	row: CompareRow;
	of: 'self' | 'total';
	index: number;
	style: { top: string; height: string };
	figures: Figures;
	active: boolean;
	marked: boolean;
	dark: boolean;
	onPick: () => void;
	onMenu: (x: number, y: number) => void;
}

function Line({ row, of, index, style, figures, active, marked, dark, onPick, onMenu }: LineProps) {
	const pair = pairOf(row, of);
	const changed = figures.between(pair.base, pair.head);
	const interval = figures.interval(changed);
	const place = placeOf(row.file, row.line);
	const whole = [row.name, place, row.binary]
		.filter((part) => part !== '')
		.map((part) => displayName(part))
		.join('\n');
	const faint = pair.change === 'noise' || pair.change === 'unknown';
	return (
		<div
			role="row"
			aria-rowindex={index + 2}
			aria-current={marked}
			data-function={row.name}
			class={`tr${active ? ' active' : ''}${marked ? ' marked' : ''}${faint ? ' faint' : ''}`}
			style={style}
			onClick={onPick}
			onContextMenu={(event) => {
				event.preventDefault();
				onMenu(event.clientX, event.clientY);
			}}
		>
			<div role="cell" class="td td-base">
				{pair.base === 0 ? '–' : figures.base(pair.base)}
			</div>
			<div role="cell" class="td td-head">
				{pair.head === 0 ? '–' : figures.head(pair.head)}
			</div>
			<div role="cell" class="td td-change" title={interval && `${T.compare.interval}: ${interval}`}>
				<b>{figures.change(changed)}</b>
				<small>{figures.margin(changed)}</small>
			</div>
			<div role="cell" class="td td-percent">
				{formatRatio(changed.ratio)}
			</div>
			<div role="cell" class="td td-state" title={T.compare.states[pair.change].hint}>
				<ChangeMark change={pair.change} share={shareChanged(changed)} dark={dark} />
				<span>{T.compare.states[pair.change].short}</span>
			</div>
			<div role="cell" class="td td-name" title={whole}>
				<span class="fn">{displayName(row.name, 300)}</span>
				<span class="where">{displayName(baseName(place) || row.binary, 60)}</span>
			</div>
		</div>
	);
}

interface ToolsProps extends Pick<CompareTableProps, 'state' | 'onState' | 'filter' | 'onFilter' | 'dark'> {
	counts: Record<ChangeName, number>;
	shown: string;
	unit: string;
}

function Tools({ state, onState, filter, onFilter, dark, counts, shown, unit }: ToolsProps) {
	const toggle = (change: ChangeName) =>
		onState({ only: state.only.includes(change) ? state.only.filter((c) => c !== change) : CHANGES.filter((c) => c === change || state.only.includes(c)) });
	const listed: ChangeName[] = ['new', 'gone', 'more', 'less', 'noise'];
	return (
		<>
			<div class="table-tools">
				<FilterInput label={T.table.filter} testId="compare-filter" value={filter} onValue={onFilter} />
				<span class="count" role="status">
					{[shown, unit].filter((part) => part !== '').join(' · ')}
				</span>
				<div class="joined small" role="group" aria-label={T.compare.by}>
					{(['self', 'total'] as const).map((of) => (
						<Switch key={of} testId={`of-${of}`} pressed={state.of === of} title={T.compare[of].hint} onPress={() => onState({ of })}>
							{T.compare[of].title}
						</Switch>
					))}
				</div>
			</div>
			<div class="compare-only" role="group" aria-label={T.compare.only}>
				{listed.map((change) => (
					<Switch
						key={change}
						testId={`only-${change}`}
						pressed={state.only.includes(change)}
						title={T.compare.onlyHint(T.compare.states[change].hint, formatCount(counts[change]))}
						class="compare-state"
						onPress={() => toggle(change)}
					>
						<ChangeMark change={change} share={change === 'more' || change === 'less' ? 0.5 : 1} dark={dark} />
						{T.compare.states[change].title}
						<b>{formatCount(counts[change])}</b>
					</Switch>
				))}
			</div>
		</>
	);
}

/** All functions with what was measured of each; what the sides lasted is not in it. */
export function comparedCsv(rows: readonly CompareRow[], unit: string): Blob {
	const { base, head, change } = T.compare.csvHead;
	const { name, file, line, binary, self, total } = T.table.csvHead;
	const values = [self, total].flatMap((of) => [T.table.inUnit(base(of), unit), T.table.inUnit(head(of), unit), change(of)]);
	const state = (pair: Pair) => T.compare.states[pair.change].title;
	const cells = (row: CompareRow) => [
		row.name,
		...(['self', 'total'] as const).flatMap((of) => {
			const pair = pairOf(row, of);
			return [pair.base, pair.head, state(pair)];
		}),
		row.file,
		row.line > 0 ? row.line : null,
		row.binary,
	];
	return csvOf(
		[name, ...values, file, line, binary],
		(function* () {
			for (const row of rows) yield cells(row);
		})(),
	);
}

// All rows, and those that are listed, in their order.
function useListed({ comparison, rows, state, filter }: CompareTableProps) {
	const { of, order, reverse, only } = state;
	const settled = useDebounced(filter, 100);
	const all = rows ?? NO_ROWS;
	const counts = useMemo(() => countChanges(all, of), [all, of]);
	const sorted = useMemo(() => sortCompared(all, comparison, of, order, reverse), [all, comparison, of, order, reverse]);
	const shown = useMemo(() => {
		const test = compileSearch(settled, false);
		return sorted.filter((row) => {
			const { base, head, change } = pairOf(row, of);
			if (base === 0 && head === 0) return false;
			if (only.length > 0 && !only.includes(change)) return false;
			return typeof test !== 'function' || test(row.name) || test(row.binary);
		});
	}, [sorted, settled, only, of]);
	return { all, shown, counts, like: [order, reverse, of, settled, only.join()].join() };
}

export function CompareTable(props: CompareTableProps) {
	const { figures, state, filter, find, dark, onState, onFilter, onFind, onMenu } = props;
	const { of } = state;
	const { all, shown, counts, like } = useListed(props);
	const seen = useSeenRows(shown.length, [like]);
	const { first, last, active, height, move } = seen;
	// What is found in the graph comes into view here.
	const hasHeight = height > 0;
	useEffect(() => {
		const at = find === '' ? -1 : shown.findIndex((row) => find === `"${row.name}"`);
		if (at >= 0 && hasHeight) move(at);
		// eslint-disable-next-line react-hooks/exhaustive-deps -- once, so that a person can scroll away from it
	}, [find, shown, hasHeight]);
	const pick = (row: CompareRow) => onFind(find === `"${row.name}"` ? '' : `"${row.name}"`);
	const act = (event: KeyboardEvent, row: number): boolean => press('table', event, { pick: () => pick(shown[row]) });
	const labelOf = (row: CompareRow) => {
		const pair = pairOf(row, of);
		return T.compare.row(displayName(row.name, 120), figures.change(figures.between(pair.base, pair.head)), T.compare.states[pair.change].title);
	};
	const [some, whole] = [shown, all].map((rows) => formatCount(rows.length));
	const count = !props.rows ? '' : shown.length === all.length ? T.table.count(whole) : T.table.part(some, whole);
	return (
		<section class="table-pane" aria-label={T.table.label}>
			<Tools state={state} onState={onState} filter={filter} onFilter={onFilter} dark={dark} counts={counts} shown={count} unit={figures.unit} />
			<div
				class="table compare-table"
				ref={seen.scroller}
				data-testid="compare-table"
				role="table"
				tabIndex={0}
				aria-busy={props.rows === null}
				aria-label={T.compare.describeTable}
				aria-rowcount={shown.length + 1}
				aria-colcount={COLUMNS.length}
				onScroll={seen.onScroll}
				onKeyDown={(event) => seen.onKeyDown(event, act)}
			>
				<Head state={state} onState={onState} />
				<div class="tbody" role="rowgroup" style={{ height: `${seen.bodyHeight}px` }}>
					{shown.slice(first, last).map((row, i) => (
						<Line
							key={first + i}
							row={row}
							of={of}
							index={first + i}
							style={seen.styleOf(first + i)}
							figures={figures}
							active={first + i === active}
							marked={find === `"${row.name}"`}
							dark={dark}
							onPick={() => {
								seen.setActive(first + i);
								pick(row);
							}}
							onMenu={(x, y) => onMenu(row, x, y)}
						/>
					))}
				</div>
				{shown.length === 0 && props.rows && <p class="table-none">{filter === '' ? T.compare.noRows : T.table.none(filter)}</p>}
			</div>
			<div class="unseen" aria-live="polite">
				{shown[active] ? labelOf(shown[active]) : ''}
			</div>
		</section>
	);
}
