// SPDX-License-Identifier: Apache-2.0
import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { press } from './keymap';

interface PopoverProps {
	label: string; // accessible name of the button
	button: ComponentChildren;
	buttonClass?: string;
	testId?: string;
	align?: 'left' | 'right';
	shortcut?: string; // the key by which `opener` is called
	opener?: { current: (() => void) | null }; // gets what opens it
	children: (close: () => void) => ComponentChildren;
}

// A button and what it opens. Escape, a press elsewhere or the focus leaving closes it again.
export function Popover({ label, button, buttonClass, testId, align = 'right', shortcut, opener, children }: PopoverProps) {
	const [open, setOpen] = useState(false);
	const root = useRef<HTMLDivElement>(null);
	const trigger = useRef<HTMLButtonElement>(null);
	const id = useId();
	useEffect(() => {
		if (!open) return undefined;
		const elsewhere = (event: Event) => {
			if (!root.current?.contains(event.target as Node)) setOpen(false);
		};
		document.addEventListener('pointerdown', elsewhere);
		document.addEventListener('focusin', elsewhere);
		return () => {
			document.removeEventListener('pointerdown', elsewhere);
			document.removeEventListener('focusin', elsewhere);
		};
	}, [open]);
	if (opener) opener.current = () => setOpen(true);
	const close = () => {
		setOpen(false);
		trigger.current?.focus();
	};
	return (
		<div class="popover" ref={root} onKeyDown={(event) => open && press('popover', event, { close })}>
			<button
				type="button"
				ref={trigger}
				class={buttonClass ?? 'button'}
				aria-label={label}
				title={label}
				aria-expanded={open}
				aria-keyshortcuts={shortcut}
				aria-controls={id}
				data-testid={testId}
				onClick={() => setOpen(!open)}
			>
				{button}
			</button>
			{open && (
				<div id={id} class={`popover-body popover-${align}`} role="dialog" aria-label={label}>
					{children(close)}
				</div>
			)}
		</div>
	);
}
