// SPDX-License-Identifier: Apache-2.0
import * as T from '../base/texts';

interface SortHeadProps {
	column: string;
	index: number;
	title: string;
	hint: string;
	active: boolean; // the table is in its order
	rising: boolean;
	testId: string;
	onSort: () => void;
}

/** The head of a column that a table can be sorted by. */
export const SortHead = ({ column, index, title, hint, active, rising, testId, onSort }: SortHeadProps) => (
	<div role="columnheader" class={`td td-${column}`} aria-colindex={index + 1} aria-sort={active ? (rising ? 'ascending' : 'descending') : 'none'}>
		<button type="button" title={T.table.sort(hint)} data-testid={testId} onClick={onSort}>
			{title}
			<span class="sort-mark" aria-hidden="true">
				{active ? (rising ? '▲' : '▼') : ''}
			</span>
		</button>
	</div>
);
