// SPDX-License-Identifier: Apache-2.0
// Where the table's rows come from: functions, files and binaries from the tree; lines and values of a label, which the tree does
// not have, from the server.
import { useMemo } from 'preact/hooks';
import type { Cell, TableResponse } from '../api/responses';
import * as T from '../base/texts';
import { buildRows, type Row, type RowsOf } from '../model/rows';
import { pipeline } from '../query/pipeline';
import type { NamesChoice, Rows } from '../state/page';
import { isSmall, KIND, type Tree } from '../tree/tree';
import { useApi, useLater } from '../ui/hooks';

/** Of what the server makes rows; null: nothing can be requested. */
export interface RowsQuery {
	query: string; // selector and stages
	hide: string; // a further stage, for rows that are made of stacks; '' = none
	whole: number; // the sum of what is selected
	from: number; // unix ms
	to: number;
	names: NamesChoice;
}

export interface MadeRows {
	rows: Row[] | null; // null: there are none yet
	by: Rows; // what they are of
	whole: number; // what shares are of
	unit: string;
	more: number; // rows that the server has beside these
	busy: boolean;
	fault: string | null;
}

const ROWS_MAX = 50_000; // of the server

export const isOfTree = (by: Rows): by is RowsOf => by === 'function' || by === 'file' || by === 'binary';

export const labelOfRows = (by: Rows): string => (by.startsWith('label:') ? by.slice(6) : '');

// "/src/main.c:12"
function splitPlace(place: string): { file: string; line: number } {
	const match = /^(.*):(\d{1,9})$/.exec(place);
	return match ? { file: match[1], line: Number(match[2]) } : { file: place, line: 0 };
}

/** Rows of the response to `top N by line` or `top N by label NAME`. */
export function rowsOfResponse({ table }: TableResponse, by: Rows): Row[] {
	const place = (name: string) => table.columns.findIndex((column) => column.name === name);
	const number = (cell: Cell | undefined) => (typeof cell === 'number' && Number.isFinite(cell) ? cell : 0);
	const text = (cell: Cell | undefined) => (cell === null || cell === undefined ? '' : String(cell));
	const plain = { inlined: false, kind: KIND.unknown };
	if (by === 'line') {
		const [self, total, line, fn, binary] = ['self', 'total', 'line', 'function', 'binary'].map(place);
		return table.rows.map((cells) => ({
			...plain,
			...splitPlace(text(cells[line])),
			name: text(cells[fn]),
			binary: text(cells[binary]),
			kind: KIND.native,
			self: number(cells[self]),
			total: number(cells[total]),
		}));
	}
	const [value, label] = [place('value'), place(labelOfRows(by))];
	return table.rows.map((cells) => {
		const sum = number(cells[value]);
		return { ...plain, name: text(cells[label]) || T.table.noLabel, binary: '', file: '', line: 0, self: sum, total: sum };
	});
}

export function useRows(tree: Tree, by: Rows, query: RowsQuery | null): MadeRows {
	const ofTree = isOfTree(by) || !query;
	const treeBy = isOfTree(by) ? by : 'function';
	const wanted = useMemo(() => ({ tree, by: treeBy }), [tree, treeBy]);
	const made = useLater(wanted, isSmall(tree), (of) => buildRows(of.tree, of.by));
	const label = labelOfRows(by);
	const resource = useApi<TableResponse, { response: TableResponse; by: Rows }>(
		ofTree ? null : 'pipeline',
		{
			q: ofTree
				? ''
				: label === ''
					? pipeline(query.query, ...(query.hide ? [query.hide] : []), `top ${ROWS_MAX} by line`)
					: pipeline(query.query, `top ${ROWS_MAX} by label ${label}`),
			from: String(query?.from ?? ''),
			to: String(query?.to ?? ''),
			...(query?.names === 'short' ? { names: 'short' } : {}),
		},
		0,
		(response) => ({ response, by }),
	);
	const rows = useMemo(() => resource.data && rowsOfResponse(resource.data.response, resource.data.by), [resource.data]);
	if (ofTree) {
		const of = made?.of ?? wanted;
		return { rows: made?.value ?? null, by: of.by, whole: of.tree.total[0], unit: of.tree.unit, more: 0, busy: of !== wanted || !made, fault: null };
	}
	const response = resource.data?.by === by ? resource.data.response : null;
	return {
		rows: response && rows,
		by,
		whole: query.whole,
		unit: tree.unit,
		more: response ? Math.max(0, response.table.total_rows - response.table.rows.length) : 0,
		busy: resource.loading || resource.stale,
		fault: resource.error && !resource.loading ? resource.error.message : null,
	};
}
