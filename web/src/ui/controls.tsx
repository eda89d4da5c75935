// SPDX-License-Identifier: Apache-2.0
// Buttons and inputs that many parts of the page have.
import type { ComponentChildren } from 'preact';

interface IconButtonProps {
	label: string; // what it does, for those who do not see it
	title?: string; // absent: the label
	testId?: string;
	disabled?: boolean;
	pressed?: boolean; // absent: it is no switch
	onClick: () => void;
	children: ComponentChildren;
}

/** A button that shows a sign instead of words. */
export const IconButton = ({ label, title = label, testId, disabled, pressed, onClick, children }: IconButtonProps) => (
	<button
		type="button"
		class="button icon-only"
		aria-label={label}
		aria-pressed={pressed}
		title={title}
		data-testid={testId}
		disabled={disabled}
		onClick={onClick}
	>
		{children}
	</button>
);

interface SwitchProps {
	testId: string;
	pressed: boolean;
	title?: string;
	label?: string; // for those who do not see it, where the words alone do not say it
	class?: string;
	onPress: () => void;
	children: ComponentChildren;
}

/** A button that stays pressed, such as one of several choices. */
export const Switch = ({ testId, pressed, title, label, class: name = 'button', onPress, children }: SwitchProps) => (
	<button type="button" class={name} aria-label={label} aria-pressed={pressed} title={title} data-testid={testId} onClick={onPress}>
		{children}
	</button>
);

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
