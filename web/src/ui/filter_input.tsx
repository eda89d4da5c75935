// SPDX-License-Identifier: Apache-2.0
interface FilterInputProps {
	label: string;
	hint?: string; // shown while it is empty; absent: the label
	testId: string;
	value: string;
	isBad?: boolean; // what it says is no filter
	onValue: (value: string) => void;
}

/** What the rows of a table are filtered by. */
export const FilterInput = ({ label, hint = label, testId, value, isBad, onValue }: FilterInputProps) => (
	<input
		type="search"
		placeholder={hint}
		aria-label={label}
		aria-invalid={isBad}
		data-testid={testId}
		value={value}
		spellcheck={false}
		onInput={(event) => onValue(event.currentTarget.value)}
	/>
);
