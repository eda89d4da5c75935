// SPDX-License-Identifier: Apache-2.0
// Which columns of a table have something in them: a column in which every row is empty or zero is not shown.

const isEmpty = (value: unknown): boolean => value === null || value === undefined || value === '' || value === '–' || value === 0 || value === false;

/** Whether a row has something there. Without rows, nothing is known of the column, which stays. */
export function hasSome<Row>(rows: readonly Row[], valueOf: (row: Row) => unknown): boolean {
	return rows.length === 0 || rows.some((row) => !isEmpty(valueOf(row)));
}
