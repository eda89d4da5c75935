// SPDX-License-Identifier: Apache-2.0
// Rows by self and total: functions, files, lines, binaries or values of a label. Only the rows in view are in the document, so
// 200,000 of them scroll like 20.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { saveAs } from '../base/download';
import { baseName, displayName, formatCount, formatShare, formatValue, labelTitle } from '../base/format';
import * as T from '../base/texts';
import { fits, type Pointed, type Target } from '../flame/pointed';
import { compileFilter, type Filter } from '../model/fuzzy';
import { filterRows, sortRows, type Row } from '../model/rows';
import type { ListingView, Match, Rows, SortKey } from '../state/page';
import { KIND, placeOf, type Tree } from '../tree/tree';
import { FilterInput, Switch } from '../ui/controls';
import { hueOf, palette, type Palette } from '../ui/colors';
import { csvOf } from '../ui/downloads';
import { hasSome } from '../ui/columns';
import { useDebounced } from '../ui/hooks';
import { MoreIcon } from '../ui/icons';
import { press } from '../ui/keymap';
import { useSeenRows } from '../ui/seen_rows';
import { SortHead } from './sort_head';
import { isOfTree, labelOfRows, useRows, type MadeRows, type RowsQuery } from './use_rows';

export interface TableProps {
	tree: Tree;
	query: RowsQuery | null; // null: there is no server
	labels: string[]; // that rows can be by
	by: Rows;
	sort: SortKey;
	reverse: boolean;
	filter: string;
	match: Match;
	isMarked: (row: Row) => boolean; // what is chosen
	dark: boolean;
	pointed: Pointed;
	onBy: (by: Rows) => void;
	onSort: (sort: SortKey, reverse: boolean) => void;
	onFilter: (text: string) => void;
	onMatch: (match: Match) => void;
	onPick: (row: Row, by: Rows) => void;
	onMenu: (row: Row, x: number, y: number) => void;
	onOpen?: (kind: ListingView, row: Row) => void;
	onSandwich: (row: Row) => void;
}

// Which columns there is room for: the source in one of its own, the binary too, none of them, not even for shares beside values.
type Width = 'wide' | 'medium' | 'narrow' | 'tiny';

const NAME_MAX = 300; // letters that are shown
const NO_ROWS: Row[] = [];
const MATCHES: Match[] = ['plain', 'fuzzy', 'regex'];
const HEADS: { key: SortKey; title: string; hint: string }[] = [
	{ key: 'self', ...T.table.self },
	{ key: 'total', ...T.table.total },
	{ key: 'name', ...T.table.name },
	{ key: 'file', ...T.table.file },
	{ key: 'binary', ...T.table.binary },
];

const columnValue: Record<SortKey, (row: Row) => string | number> = {
	self: ({ self }) => self,
	total: ({ total }) => total,
	name: ({ name }) => name,
	file: ({ file }) => file,
	binary: ({ binary }) => binary,
};

// What rows of the kind have to say: those of a label have one value, those of files and binaries no place.
function columnsOf(by: Rows, width: Width): typeof HEADS {
	const placed = by === 'function' || by === 'line';
	return HEADS.filter(({ key }) => {
		if (key === 'self') return labelOfRows(by) === '';
		if (key === 'file') return placed && width === 'wide';
		if (key === 'binary') return placed && (width === 'wide' || width === 'medium');
		return true;
	}).map((head) => (head.key === 'name' ? { ...head, title: T.table.names[by] ?? labelTitle(labelOfRows(by)) } : head));
}

const isFunction = (row: Row, by: Rows): boolean => (by === 'function' || by === 'line') && row.kind !== KIND.rest;

function targetOf(row: Row | undefined, by: Rows): Target | null {
	if (!row || row.kind === KIND.rest || labelOfRows(by) !== '') return null;
	if (by === 'file') return { file: row.file };
	if (by === 'binary') return { binary: row.binary };
	// A line has the file by the path of its samples, which may be written in another way.
	return by === 'line' ? { name: row.name, binary: row.binary } : { name: row.name, file: row.file, binary: row.binary };
}

interface HeadProps extends Pick<TableProps, 'reverse' | 'onSort'> {
	sort: SortKey | null; // null: the best match first
	columns: typeof HEADS;
}

function Head({ sort, reverse, columns, onSort }: HeadProps) {
	return (
		<div class="tr thead" role="row" aria-rowindex={1}>
			{columns.map(({ key, title, hint }, i) => {
				const active = key === sort;
				const rising = (key === 'name' || key === 'file' || key === 'binary') !== reverse;
				return (
					<SortHead
						key={key}
						column={key}
						index={i}
						title={title}
						hint={hint}
						active={active}
						rising={rising}
						testId={`sort-${key}`}
						onSort={() => onSort(key, active ? !reverse : false)}
					/>
				);
			})}
		</div>
	);
}

function Amount({ value, whole, unit, kind }: { value: number; whole: number; unit: string; kind: 'self' | 'total' }) {
	return (
		<div role="cell" class={`td td-${kind}`}>
			<span class="bar" style={{ width: `${whole > 0 ? (100 * value) / whole : 0}%` }} />
			<span class="amount">{value === 0 ? '–' : formatValue(value, unit)}</span>
			<span class="percent">{value === 0 ? '' : formatShare(value, whole)}</span>
		</div>
	);
}

interface LineProps {
	row: Row;
	index: number;
	style: { top: string; height: string };
	of: MadeRows;
	columns: typeof HEADS;
	active: boolean;
	marked: boolean;
	pointed: boolean;
	filter: Filter | null;
	colors: Palette;
	onPick: () => void;
	onPoint: (on: boolean) => void;
	onMenu: ((x: number, y: number) => void) | null;
}

// A name with what the filter found in it. displayName() changes characters one for one, so places stay.
function Name({ name, filter }: { name: string; filter: Filter | null }) {
	const shown = displayName(name, NAME_MAX);
	const marks = filter?.marks(name.slice(0, NAME_MAX)) ?? [];
	if (marks.length === 0) return <span class="fn">{shown}</span>;
	let at = 0;
	const parts = marks.map(([from, to]) => {
		const before = shown.slice(at, from);
		at = to;
		return (
			<>
				{before}
				<mark>{shown.slice(from, to)}</mark>
			</>
		);
	});
	return (
		<span class="fn">
			{parts}
			{shown.slice(at)}
		</span>
	);
}

function Line({ row, index, style, of, columns, active, marked, pointed, filter, colors, onPick, onPoint, onMenu }: LineProps) {
	const has = (key: SortKey) => columns.some((column) => column.key === key);
	const placed = of.by === 'function' || of.by === 'line';
	const { hue, chroma, down } = hueOf(row.kind, row.binary);
	const place = placeOf(row.file, row.line);
	const short = baseName(place) || (has('binary') ? '' : row.binary);
	const whole = [row.name, place, row.binary]
		.filter((part) => part !== '')
		.map((part) => displayName(part))
		.join('\n');
	return (
		<div
			role="row"
			aria-rowindex={index + 2}
			aria-current={marked}
			class={`tr${active ? ' active' : ''}${marked ? ' marked' : ''}${pointed ? ' pointed' : ''}`}
			style={style}
			onClick={onPick}
			onPointerEnter={() => onPoint(true)}
			onPointerLeave={() => onPoint(false)}
			onContextMenu={(event) => {
				event.preventDefault();
				onMenu?.(event.clientX, event.clientY);
			}}
		>
			{has('self') && <Amount value={row.self} whole={of.whole} unit={of.unit} kind="self" />}
			<Amount value={row.total} whole={of.whole} unit={of.unit} kind="total" />
			<div role="cell" class="td td-name" title={whole}>
				{(placed || of.by === 'binary') && <i class="swatch" style={{ background: colors.frame(hue, chroma, 1, down) }} />}
				<Name name={row.name} filter={filter} />
				{row.inlined && <span class="mark">{T.table.inlined}</span>}
				{placed && !has('file') && <span class="where">{displayName(short, 60)}</span>}
				{onMenu && (
					<button
						type="button"
						class="row-more"
						tabIndex={-1}
						aria-label={T.table.moreOf(displayName(row.name, 120))}
						title={T.table.more}
						onClick={(event) => {
							event.stopPropagation();
							const { left, bottom } = event.currentTarget.getBoundingClientRect();
							onMenu(left, bottom);
						}}
					>
						<MoreIcon />
					</button>
				)}
			</div>
			{has('file') && (
				<div role="cell" class="td td-file" title={displayName(place)}>
					{displayName(baseName(place), 80)}
				</div>
			)}
			{has('binary') && (
				<div role="cell" class="td td-binary" title={displayName(row.binary)}>
					{displayName(row.binary, 80)}
				</div>
			)}
		</div>
	);
}

interface ToolsProps extends Pick<TableProps, 'query' | 'labels' | 'by' | 'filter' | 'match' | 'onBy' | 'onFilter' | 'onMatch'> {
	fault: string | null;
	count: string;
	onCsv: () => void;
}

function Tools({ query, labels, by, filter, match, fault, count, onBy, onFilter, onMatch, onCsv }: ToolsProps) {
	const label = labelOfRows(by);
	const listed = label === '' || labels.includes(label) ? labels : [label, ...labels];
	const shown = query || isOfTree(by) ? by : 'function';
	const kinds: Rows[] = query ? ['function', 'file', 'line', 'binary'] : ['function', 'file', 'binary'];
	return (
		<div class="table-tools">
			<select
				class="select plain table-by"
				aria-label={T.table.by}
				title={T.table.by}
				data-testid="table-by"
				value={shown}
				onChange={(event) => onBy(event.currentTarget.value as Rows)}
			>
				{kinds.map((kind) => (
					<option key={kind} value={kind}>
						{T.table.rows[kind]}
					</option>
				))}
				{query && listed.length > 0 && (
					<optgroup label={T.table.byLabel}>
						{listed.map((name) => (
							<option key={name} value={`label:${name}`}>
								{labelTitle(name)}
							</option>
						))}
					</optgroup>
				)}
			</select>
			<FilterInput label={T.table.filter} testId="table-filter" value={filter} isBad={fault !== null} onValue={onFilter} />
			<span class={fault ? 'count field-fault' : 'count'} role="status" data-testid="table-count">
				{fault ?? count}
			</span>
			<span class="joined small" role="group" aria-label={T.table.match}>
				{MATCHES.map((kind) => (
					<Switch
						key={kind}
						testId={`match-${kind}`}
						pressed={match === kind}
						title={T.table.matches[kind].hint}
						label={`${T.table.matches[kind].title}, ${T.table.matches[kind].hint}`}
						class="button mono"
						onPress={() => onMatch(kind)}
					>
						{T.table.matches[kind].title}
					</Switch>
				))}
			</span>
			<button type="button" class="ghost table-csv" title={T.table.csvHint} data-testid="table-csv" onClick={onCsv}>
				{T.table.csv}
			</button>
		</div>
	);
}

function saveCsv(rows: Row[], { by, unit }: MadeRows): void {
	const { csvHead: head, inUnit } = T.table;
	const placed = by === 'function' || by === 'line';
	const titles = [head.name, inUnit(head.self, unit), inUnit(head.total, unit), ...(placed ? [head.file, head.line, head.binary] : [])];
	const cells = (row: Row) => [row.name, row.self, row.total, ...(placed ? [row.file, row.line > 0 ? row.line : null, row.binary] : [])];
	saveAs(
		csvOf(
			titles,
			(function* () {
				for (const row of rows) yield cells(row);
			})(),
		),
		'csv',
	);
}

// The rows as they are listed: in order, those that match.
function useListed(all: Row[], { sort, reverse, filter, match }: TableProps) {
	const settled = useDebounced(filter, 100);
	const compiled = useMemo(() => compileFilter(settled, match), [settled, match]);
	const [sortedFor, setSortedFor] = useState<unknown>(null); // the filter for which a column was chosen after it
	const wanted = typeof compiled === 'string' ? null : compiled;
	const ranked = wanted !== null && wanted.ranked && sortedFor !== wanted;
	const sorted = useMemo(() => sortRows(all, sort, reverse), [all, sort, reverse]);
	const rows = useMemo(() => (wanted ? filterRows(sorted, wanted, ranked) : sorted), [sorted, wanted, ranked]);
	return { rows, settled, filter: wanted, ranked, fault: typeof compiled === 'string' ? compiled : null, onSorted: () => setSortedFor(wanted) };
}

const FOLLOW_MS = 250; // after the glide to another zoom: the graph's frames come first, and what is passed over on the way is not looked for

// What the graph points at, to mark it here; what it chooses is brought into view, once the rows are those of the graph and of the filter.
// forget(): whoever goes elsewhere in the table meanwhile stays there.
function usePointedAt(pointed: Pointed, rows: Row[], by: Rows, isReady: boolean, onChosen: (index: number) => void) {
	const [target, setTarget] = useState<Target | null>(null);
	const latest = useRef({ rows, by, isReady, onChosen });
	latest.current = { rows, by, isReady, onChosen };
	const chosen = useRef<Target | null>(null);
	const timer = useRef(0);
	const follow = useRef(() => {
		const { rows, by, isReady, onChosen } = latest.current;
		if (timer.current !== 0 || !chosen.current || !isReady) return;
		const index = findRow(rows, by, chosen.current);
		if (index >= 0) onChosen(index);
		chosen.current = null;
	});
	useEffect(() => {
		let over: Target | null = null;
		const end = pointed.listen((change) => {
			if (change.from !== 'graph') return;
			if (change.chosen) chosen.current = change.target;
			else over = change.target;
			clearTimeout(timer.current);
			timer.current = window.setTimeout(() => {
				timer.current = 0;
				setTarget(over);
				follow.current();
			}, FOLLOW_MS);
		});
		return () => {
			clearTimeout(timer.current);
			timer.current = 0;
			end();
		};
	}, [pointed]);
	useEffect(() => follow.current(), [rows, isReady]);
	const forget = useRef(() => void (chosen.current = null));
	return { target, forget: forget.current };
}

// 200,000 rows may be looked through between two frames.
function findRow(rows: Row[], by: Rows, { name = '', file = '', binary = '' }: Target): number {
	if (by !== 'function') return rows.findIndex((row) => isSame(row, by, { name, file, binary }));
	return rows.findIndex((row) => row.name === name && row.file === file && row.binary === binary && row.kind !== KIND.rest);
}

// Whether the row is of a frame of the graph.
function isSame(row: Row, by: Rows, frame: Target): boolean {
	const target = targetOf(row, by);
	return target !== null && fits(target, { name: '', file: '', binary: '', ...frame });
}

export function Table(props: TableProps) {
	const { by, sort, reverse, filter, isMarked, dark, pointed, onSort, onPick, onMenu, onOpen, onSandwich } = props;
	const made = useRows(props.tree, by, props.query);
	const all = made.rows ?? NO_ROWS;
	const listed = useListed(all, props);
	const { rows, settled, ranked } = listed;
	const seen = useSeenRows(rows.length, [sort, reverse, settled, made.by, ranked]);
	const { first, last, active, width } = seen;
	const fit: Width = width > 900 ? 'wide' : width > 620 ? 'medium' : width > 440 ? 'narrow' : 'tiny';
	const columns = useMemo(() => columnsOf(made.by, fit).filter(({ key }) => key === 'total' || hasSome(all, columnValue[key])), [made.by, fit, all]);
	const colors = useMemo(() => palette(dark), [dark]);

	useEffect(() => () => pointed.notify(null, 'table'), [pointed]);

	const { target, forget } = usePointedAt(pointed, rows, made.by, !made.busy && settled === filter, seen.move);
	const act = (event: KeyboardEvent, at: number): boolean => {
		const row = rows[at];
		const ofFunction = isFunction(row, made.by);
		const code = { source: () => onOpen!('source', row), asm: () => onOpen!('asm', row) };
		return (
			(ofFunction && onOpen !== undefined && press('code', event, code)) ||
			(ofFunction && press('sandwich', event, { open: () => onSandwich(row) })) ||
			press('table', event, { pick: () => onPick(row, made.by) })
		);
	};
	const whole = formatCount(all.length);
	const everything = made.by === 'function' ? T.table.count(whole) : T.table.countOf(whole, T.table.rows[made.by] ?? T.table.values);
	const count = !made.rows ? '' : rows.length === all.length ? everything : T.table.part(formatCount(rows.length), whole);
	return (
		<section class="table-pane" aria-label={T.table.label}>
			<Tools
				{...props}
				fault={listed.fault}
				count={made.more > 0 ? `${count} · ${T.table.ofMore(formatCount(all.length + made.more))}` : count}
				onCsv={() => saveCsv(rows, made)}
			/>
			<div
				class={`table ${fit} ${columns.map(({ key }) => `has-${key}`).join(' ')}`}
				ref={seen.scroller}
				data-testid="table"
				role="table"
				tabIndex={0}
				aria-busy={made.busy}
				aria-label={T.table.describe}
				aria-rowcount={rows.length + 1}
				aria-colcount={columns.length}
				onScroll={seen.onScroll}
				onKeyDown={(event) =>
					seen.onKeyDown(event, act, (at) => {
						forget();
						pointed.notify(targetOf(rows[at], made.by), 'table');
					})
				}
			>
				<Head
					sort={ranked ? null : sort}
					reverse={reverse}
					columns={columns}
					onSort={(key, turned) => {
						listed.onSorted();
						onSort(key, turned);
					}}
				/>
				<div class="tbody" role="rowgroup" style={{ height: `${seen.bodyHeight}px` }}>
					{rows.slice(first, last).map((row, i) => (
						<Line
							key={first + i}
							row={row}
							index={first + i}
							style={seen.styleOf(first + i)}
							of={made}
							columns={columns}
							active={first + i === active}
							marked={isMarked(row)}
							pointed={target !== null && isSame(row, made.by, target)}
							filter={listed.filter}
							colors={colors}
							onPick={() => {
								seen.setActive(first + i);
								onPick(row, made.by);
							}}
							onPoint={(on) => pointed.notify(on ? targetOf(row, made.by) : null, 'table')}
							onMenu={isFunction(row, made.by) ? (x, y) => onMenu(row, x, y) : null}
						/>
					))}
				</div>
				{made.fault !== null && <p class="table-none field-fault">{T.table.failed(made.fault)}</p>}
				{rows.length === 0 && made.fault === null && (
					<p class="table-none">{made.rows ? (settled === '' ? T.table.nothing : T.table.none(displayName(filter, 120))) : T.table.loading}</p>
				)}
			</div>
			<div class="unseen" aria-live="polite">
				{rows[active] ? T.table.row(displayName(rows[active].name, 120), formatValue(rows[active].self, made.unit)) : ''}
			</div>
		</section>
	);
}
