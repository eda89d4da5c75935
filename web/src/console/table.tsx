// SPDX-License-Identifier: Apache-2.0
// A table that a query was answered with: any columns, sorted by a click, rows beyond the screen not drawn.
import { useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { TableAnswer } from '../api';
import { displayName } from '../format';
import { useSize } from '../hooks';
import { rowStep } from '../keys';
import * as T from '../texts';
import { formatCell, isNumeric, sortCells } from './result';

const ROW = 26; // px
const OVERSCAN = 8;

export function ResultTable({ answer }: { answer: TableAnswer }) {
	const { columns, rows } = answer.table;
	const [sort, setSort] = useState<{ column: number; falling: boolean } | null>(null);
	const [top, setTop] = useState(0);
	const [active, setActive] = useState(-1);
	const scroller = useRef<HTMLDivElement>(null);
	const [measure, , height] = useSize<HTMLDivElement>();
	useLayoutEffect(() => {
		measure(scroller.current);
		return () => measure(null);
	}, []);
	const sorted = useMemo(() => (sort ? sortCells(rows, sort.column, sort.falling) : rows), [rows, sort]);
	const template = columns.map((column) => `minmax(${isNumeric(column) ? '90px,130px' : '120px,1fr'})`).join(' ');
	const first = Math.max(0, Math.floor(top / ROW) - OVERSCAN);
	const last = Math.min(sorted.length, Math.ceil((top + height) / ROW) + OVERSCAN);
	const onKeyDown = (event: KeyboardEvent) => {
		if (event.ctrlKey || event.metaKey || event.altKey || event.target !== scroller.current) return;
		const step = rowStep(event.key, active, sorted.length, Math.max(1, Math.floor(height / ROW) - 2));
		if (step === null) return;
		setActive(step);
		const at = scroller.current!.scrollTop;
		if (step * ROW < at) scroller.current!.scrollTop = step * ROW;
		else if ((step + 2) * ROW > at + height) scroller.current!.scrollTop = (step + 2) * ROW - height;
		event.preventDefault();
	};
	return (
		<div
			class="table result-table"
			ref={scroller}
			role="table"
			tabIndex={0}
			aria-label={T.queries.result}
			aria-rowcount={sorted.length + 1}
			aria-colcount={columns.length}
			data-testid="console-table"
			onScroll={(event) => setTop(event.currentTarget.scrollTop)}
			onKeyDown={onKeyDown}
		>
			<div class="tr thead" role="row" style={{ gridTemplateColumns: template }}>
				{columns.map((column, i) => {
					const own = sort?.column === i;
					return (
						<div key={i} role="columnheader" class={isNumeric(column) ? 'num' : ''} aria-sort={own ? (sort!.falling ? 'descending' : 'ascending') : 'none'}>
							<button type="button" onClick={() => setSort({ column: i, falling: own ? !sort!.falling : isNumeric(column) })}>
								{column.name}
								<span class="sort-mark" aria-hidden="true">
									{own ? (sort!.falling ? '▼' : '▲') : ''}
								</span>
							</button>
						</div>
					);
				})}
			</div>
			<div class="tbody" role="rowgroup" style={{ height: `${sorted.length * ROW}px` }}>
				{sorted.slice(first, last).map((row, i) => (
					<div
						key={first + i}
						role="row"
						aria-rowindex={first + i + 2}
						class={first + i === active ? 'tr active' : 'tr'}
						style={{ top: `${(first + i) * ROW}px`, height: `${ROW}px`, gridTemplateColumns: template }}
						onClick={() => setActive(first + i)}
					>
						{columns.map((column, n) => {
							const text = displayName(formatCell(row[n] ?? null, column), 400);
							return (
								<div key={n} role="cell" class={isNumeric(column) ? 'td num' : 'td'} title={text}>
									<bdi>{text}</bdi>
								</div>
							);
						})}
					</div>
				))}
			</div>
			{rows.length === 0 && <p class="table-none">{T.queries.empty}</p>}
		</div>
	);
}
