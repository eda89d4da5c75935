// SPDX-License-Identifier: Apache-2.0
// Functions by self and total. Only the rows in view are in the document, so 200,000 of them scroll like 20.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { baseName, displayName, formatCount, formatShare, formatValue } from './format';
import { compileSearch } from './flame/layout';
import { hueOf, palette, type Palette } from './flame/colors';
import { buildRows, sortRows, type Row } from './flame/rows';
import { isSmall, placeOf, type Tree } from './flame/tree';
import { useDebounced, useLater, useSize } from './hooks';
import { MoreIcon } from './icons';
import { rowStep } from './keys';
import type { ListingView, SortKey } from './state';
import * as T from './texts';

export interface TableProps {
	tree: Tree;
	sort: SortKey;
	reverse: boolean;
	filter: string;
	find: string; // the graph's search: a row that is the whole of it is marked
	dark: boolean;
	onSort: (sort: SortKey, reverse: boolean) => void;
	onFilter: (text: string) => void;
	onFind: (text: string) => void;
	onMenu: (row: Row, x: number, y: number) => void;
	onOpen: (kind: ListingView, row: Row) => void;
}

// Which columns there is room for: the source in one of its own, the binary too, or none of them.
type Width = 'wide' | 'medium' | 'narrow';

const OVERSCAN = 8;
const NO_ROWS: Row[] = [];
const HEADS: { key: SortKey; title: string; hint: string }[] = [
	{ key: 'self', ...T.table.self },
	{ key: 'total', ...T.table.total },
	{ key: 'name', ...T.table.name },
	{ key: 'file', ...T.table.file },
	{ key: 'binary', ...T.table.binary },
];

function Head({
	sort,
	reverse,
	columns,
	onSort,
}: Pick<TableProps, 'sort' | 'reverse' | 'onSort'> & { columns: typeof HEADS }) {
	return (
		<div class="tr thead" role="row" aria-rowindex={1}>
			{columns.map(({ key, title, hint }, i) => {
				const active = key === sort;
				const rising = (key === 'name' || key === 'file' || key === 'binary') !== reverse;
				return (
					<div
						key={key}
						role="columnheader"
						class={`td td-${key}`}
						aria-colindex={i + 1}
						aria-sort={active ? (rising ? 'ascending' : 'descending') : 'none'}
					>
						<button
							type="button"
							title={T.table.sort(hint)}
							onClick={() => onSort(key, active ? !reverse : false)}
							data-testid={`sort-${key}`}
						>
							{title}
							<span class="sort-mark" aria-hidden="true">
								{active ? (rising ? '▲' : '▼') : ''}
							</span>
						</button>
					</div>
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
	height: number;
	tree: Tree;
	width: Width;
	active: boolean;
	marked: boolean;
	colors: Palette;
	onPick: () => void;
	onMenu: (x: number, y: number) => void;
}

function Line({ row, index, height, tree, width, active, marked, colors, onPick, onMenu }: LineProps) {
	const { hue, chroma } = hueOf(row.kind, row.binary);
	const place = placeOf(row.file, row.line);
	const short = baseName(place) || (width === 'narrow' ? row.binary : '');
	const whole = [row.name, place, row.binary]
		.filter((part) => part !== '')
		.map((part) => displayName(part))
		.join('\n');
	return (
		<div
			role="row"
			aria-rowindex={index + 2}
			aria-current={marked}
			class={`tr${active ? ' active' : ''}${marked ? ' marked' : ''}`}
			style={{ top: `${index * height}px`, height: `${height}px` }}
			onClick={onPick}
			onContextMenu={(event) => {
				event.preventDefault();
				onMenu(event.clientX, event.clientY);
			}}
		>
			<Amount value={row.self} whole={tree.total[0]} unit={tree.unit} kind="self" />
			<Amount value={row.total} whole={tree.total[0]} unit={tree.unit} kind="total" />
			<div role="cell" class="td td-name" title={whole}>
				<i class="swatch" style={{ background: colors.frame(hue, chroma, 1) }} />
				<span class="fn">{displayName(row.name, 300)}</span>
				{row.inlined && <span class="mark">{T.table.inlined}</span>}
				{width !== 'wide' && <span class="where">{displayName(short, 60)}</span>}
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
			</div>
			{width === 'wide' && (
				<div role="cell" class="td td-file" title={displayName(place)}>
					{displayName(baseName(place), 80)}
				</div>
			)}
			{width !== 'narrow' && (
				<div role="cell" class="td td-binary" title={displayName(row.binary)}>
					{displayName(row.binary, 80)}
				</div>
			)}
		</div>
	);
}

export function Table(props: TableProps) {
	const { sort, reverse, filter, find, dark, onSort, onFilter, onFind, onMenu, onOpen } = props;
	const made = useLater(props.tree, isSmall(props.tree), buildRows);
	const tree = made?.of ?? props.tree; // of which the rows are
	const scroller = useRef<HTMLDivElement>(null);
	const [measure, width, height] = useSize<HTMLDivElement>();
	const [top, setTop] = useState(0);
	const [active, setActive] = useState(-1);
	const rowHeight = useMemo(() => (matchMedia('(pointer: coarse)').matches ? 36 : 26), []);
	const settled = useDebounced(filter, 100);

	const all = made?.value ?? NO_ROWS;
	const sorted = useMemo(() => sortRows(all, sort, reverse), [all, sort, reverse]);
	const rows = useMemo(() => {
		const test = compileSearch(settled, false);
		return typeof test === 'function' ? sorted.filter((row) => test(row.name) || test(row.binary)) : sorted;
	}, [sorted, settled]);
	const fit: Width = width > 900 ? 'wide' : width > 620 ? 'medium' : 'narrow';
	const columns = HEADS.filter(
		({ key }) => (key !== 'file' || fit === 'wide') && (key !== 'binary' || fit !== 'narrow'),
	);
	const colors = useMemo(() => palette(dark), [dark]);

	useLayoutEffect(() => {
		measure(scroller.current);
		return () => measure(null);
	}, []);
	useEffect(() => {
		scroller.current!.scrollTop = 0;
		setTop(0);
		setActive(-1);
	}, [sort, reverse, settled]);

	const first = Math.max(0, Math.floor(top / rowHeight) - OVERSCAN);
	const last = Math.min(rows.length, Math.ceil((top + height) / rowHeight) + OVERSCAN);
	const pick = (row: Row) => onFind(find === `"${row.name}"` ? '' : `"${row.name}"`);
	const move = (next: number) => {
		setActive(next);
		const at = scroller.current!.scrollTop;
		const [start, end] = [next * rowHeight, (next + 2) * rowHeight]; // the head covers one row
		if (start < at) scroller.current!.scrollTop = start;
		else if (end > at + height) scroller.current!.scrollTop = end - height;
	};
	const page = Math.max(1, Math.floor(height / rowHeight) - 2);
	const onKeyDown = (event: KeyboardEvent) => {
		if (event.ctrlKey || event.metaKey || event.altKey) return;
		if (event.target !== scroller.current) return; // the buttons of the head have keys of their own
		const step = rowStep(event.key, active, rows.length, page);
		if (step !== null) move(step);
		else if ((event.key === 's' || event.key === 'a') && rows[active])
			onOpen(event.key === 's' ? 'source' : 'asm', rows[active]);
		else if ((event.key === 'Enter' || event.key === ' ') && rows[active]) pick(rows[active]);
		else return;
		event.preventDefault();
	};
	return (
		<section class="table-pane" aria-label={T.table.label}>
			<div class="table-tools">
				<input
					type="search"
					placeholder={T.table.filter}
					aria-label={T.table.filter}
					data-testid="table-filter"
					value={filter}
					spellcheck={false}
					onInput={(event) => onFilter(event.currentTarget.value)}
				/>
				<span class="count" role="status">
					{rows.length === all.length
						? made && T.table.count(formatCount(all.length))
						: T.table.part(formatCount(rows.length), formatCount(all.length))}
				</span>
			</div>
			<div
				class={`table ${fit}`}
				ref={scroller}
				data-testid="table"
				role="table"
				tabIndex={0}
				aria-busy={made?.of !== props.tree}
				aria-label={T.table.describe}
				aria-rowcount={rows.length + 1}
				aria-colcount={columns.length}
				onScroll={(event) => setTop(event.currentTarget.scrollTop)}
				onKeyDown={onKeyDown}
			>
				<Head sort={sort} reverse={reverse} columns={columns} onSort={onSort} />
				<div class="tbody" role="rowgroup" style={{ height: `${rows.length * rowHeight}px` }}>
					{rows.slice(first, last).map((row, i) => (
						<Line
							key={first + i}
							row={row}
							index={first + i}
							height={rowHeight}
							tree={tree}
							width={fit}
							active={first + i === active}
							marked={find === `"${row.name}"`}
							colors={colors}
							onPick={() => {
								setActive(first + i);
								pick(row);
							}}
							onMenu={(x, y) => onMenu(row, x, y)}
						/>
					))}
				</div>
				{rows.length === 0 && made && <p class="table-none">{T.table.none(filter)}</p>}
			</div>
			<div class="unseen" aria-live="polite">
				{rows[active] ? T.table.row(displayName(rows[active].name, 120), formatValue(rows[active].self, tree.unit)) : ''}
			</div>
		</section>
	);
}
