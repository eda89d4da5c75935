// SPDX-License-Identifier: Apache-2.0
// The result of a query as a table: any columns, sorted by a click, rows beyond the screen not drawn.
import { useMemo, useState } from 'preact/hooks';
import type { TableResponse } from '../api/responses';
import { displayName } from '../base/format';
import * as T from '../base/texts';
import { useSeenRows } from '../ui/seen_rows';
import { formatCell, isNumeric, shownColumns, sortCells } from './result';

export function ResultTable({ response }: { response: TableResponse }) {
	const { rows } = response.table;
	const columns = useMemo(() => shownColumns(response.table), [response]);
	const hidden = response.table.columns.filter((_, i) => !columns.some(({ at }) => at === i)).map(({ name }) => name);
	const [sort, setSort] = useState<{ column: number; falling: boolean } | null>(null);
	const sorted = useMemo(() => (sort ? sortCells(rows, sort.column, sort.falling) : rows), [rows, sort]);
	// The track at the end takes what is left, so that figures stand beside what they are of.
	const template = [...columns.map((column) => `minmax(${isNumeric(column) ? '90px,130px' : '120px,480px'})`), 'minmax(0,1fr)'].join(' ');
	const seen = useSeenRows(sorted.length, [response]);
	const { first, last, active } = seen;
	return (
		<div
			class="table result-table"
			ref={seen.scroller}
			role="table"
			tabIndex={0}
			aria-label={T.queries.result}
			aria-rowcount={sorted.length + 1}
			aria-colcount={columns.length}
			data-testid="console-table"
			onScroll={seen.onScroll}
			onKeyDown={(event) => seen.onKeyDown(event)}
		>
			<div class="tr thead" role="row" style={{ gridTemplateColumns: template }}>
				{columns.map((column) => {
					const i = column.at;
					const own = sort?.column === i;
					return (
						<div key={i} role="columnheader" class={isNumeric(column) ? 'num' : ''} aria-sort={own ? (sort.falling ? 'descending' : 'ascending') : 'none'}>
							<button type="button" onClick={() => setSort({ column: i, falling: own ? !sort.falling : isNumeric(column) })}>
								{column.name}
								<span class="sort-mark" aria-hidden="true">
									{own ? (sort.falling ? '▼' : '▲') : ''}
								</span>
							</button>
						</div>
					);
				})}
			</div>
			<div class="tbody" role="rowgroup" style={{ height: `${seen.bodyHeight}px` }}>
				{sorted.slice(first, last).map((row, i) => (
					<div
						key={first + i}
						role="row"
						aria-rowindex={first + i + 2}
						class={first + i === active ? 'tr active' : 'tr'}
						style={{ ...seen.styleOf(first + i), gridTemplateColumns: template }}
						onClick={() => seen.setActive(first + i)}
					>
						{columns.map((column) => {
							const n = column.at;
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
			{hidden.length > 0 && (
				<p class="table-none" data-testid="empty-columns">
					{T.queries.emptyColumns(displayName(hidden.join(', ')))}
				</p>
			)}
		</div>
	);
}
