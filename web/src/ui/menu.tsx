// SPDX-License-Identifier: Apache-2.0
// What can be done with a frame: a menu at the pointer (right click, long press, the menu key) over the graph or the table.
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import { displayName } from '../base/format';
import { press } from './keymap';

export interface MenuItem {
	title: string;
	key?: string;
	testId?: string;
	apart?: boolean; // a line stands above it
	run: () => void;
}
export interface MenuAt {
	x: number; // in the window
	y: number;
	head: string;
	items: MenuItem[];
}

export function Menu({ at, onClose }: { at: MenuAt; onClose: () => void }) {
	const root = useRef<HTMLDivElement>(null);
	const before = useRef<Element | null>(document.activeElement);
	useLayoutEffect(() => {
		const { width, height } = root.current!.getBoundingClientRect();
		root.current!.style.left = `${Math.max(8, Math.min(at.x, innerWidth - width - 8))}px`;
		// Below the pointer; above it where there is room only there; a long one as far up as it must be.
		const above = at.y - height >= 8 ? at.y - height : innerHeight - height - 8;
		root.current!.style.top = `${Math.max(8, at.y + height < innerHeight - 8 ? at.y : above)}px`;
		root.current!.querySelector<HTMLElement>('[role="menuitem"]')?.focus();
	}, [at]);
	useEffect(() => {
		const elsewhere = (event: Event) => {
			if (!root.current?.contains(event.target as Node)) onClose();
		};
		document.addEventListener('pointerdown', elsewhere);
		document.addEventListener('wheel', elsewhere, { passive: true });
		addEventListener('blur', onClose);
		addEventListener('resize', onClose);
		return () => {
			document.removeEventListener('pointerdown', elsewhere);
			document.removeEventListener('wheel', elsewhere);
			removeEventListener('blur', onClose);
			removeEventListener('resize', onClose);
		};
	}, [onClose]);
	const close = () => {
		onClose();
		if (before.current instanceof HTMLElement) before.current.focus();
	};
	const onKeyDown = (event: KeyboardEvent) => {
		const items = [...root.current!.querySelectorAll<HTMLElement>('[role="menuitem"]')];
		const index = items.indexOf(document.activeElement as HTMLElement);
		const go = (step: number) => items[(index + step + items.length) % items.length].focus();
		press('menu', event, { down: () => go(1), up: () => go(-1), close });
	};
	return (
		<div
			class="menu"
			ref={root}
			role="menu"
			aria-label={displayName(at.head, 120)}
			data-testid="frame-menu"
			onKeyDown={onKeyDown}
			onContextMenu={(event) => event.preventDefault()}
		>
			<div class="menu-head" aria-hidden="true">
				{displayName(at.head, 120)}
			</div>
			{at.items.map((item) => (
				<button
					key={item.title}
					type="button"
					role="menuitem"
					tabIndex={-1}
					class={item.apart ? 'apart' : undefined}
					data-testid={item.testId}
					onClick={() => {
						close();
						item.run();
					}}
				>
					{item.title}
					{item.key && <kbd>{item.key}</kbd>}
				</button>
			))}
		</div>
	);
}

// Without the clipboard (a page that is not served securely) the old way, which asks for a selection. Returns whether it was copied.
export async function copyText(text: string): Promise<boolean> {
	try {
		await navigator.clipboard.writeText(text);
		return true;
	} catch {
		// not allowed here
	}
	const focused = document.activeElement;
	const area = document.createElement('textarea');
	area.value = text;
	area.className = 'unseen';
	document.body.append(area);
	area.select();
	const copied = document.execCommand('copy');
	area.remove();
	if (focused instanceof HTMLElement) focused.focus();
	return copied;
}
