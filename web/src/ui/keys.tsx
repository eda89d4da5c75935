// SPDX-License-Identifier: Apache-2.0
// Keys that work wherever the focus is, steps through rows, and the list of all keys of the view that is open.
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import * as T from '../base/texts';
import type { View } from '../state/page';
import { IconButton } from './controls';
import { CloseIcon, SearchIcon } from './icons';
import { actionOf, KEYS, partsOf, press, type Action, type Does, type Part } from './keymap';

/** Keys of a part that work wherever the focus is, but not while something is typed. */
export function useKeys<P extends Part>(part: P, does: Does<P>): void {
	const latest = useRef(does);
	latest.current = does;
	// As soon as it is there: an effect comes a frame later, and a key that is pressed meanwhile would be lost.
	useLayoutEffect(() => {
		const pressed = (event: KeyboardEvent) => {
			if (event.defaultPrevented) return;
			if (event.target instanceof Element && event.target.closest('input, select, textarea')) return;
			press(part, event, latest.current);
		};
		addEventListener('keydown', pressed);
		return () => removeEventListener('keydown', pressed);
	}, [part]);
}

/** The row that an action leads to, of `count`; page: rows that are seen at once. */
export function rowStep(action: Action<'rows'>, active: number, count: number, page: number): number {
	const to = { down: active + 1, up: active - 1, pageDown: active + page, pageUp: active - page, first: 0, last: count - 1 }[action];
	return Math.min(count - 1, Math.max(0, to));
}

/** Moves to the row that a key leads to; false if it is none of those. */
export function pressRow(event: KeyboardEvent, active: number, count: number, page: number, move: (row: number) => void): boolean {
	const action = actionOf('rows', event);
	if (action === null) return false;
	const go = () => move(rowStep(action, active, count, page));
	return press('rows', event, { down: go, up: go, pageDown: go, pageUp: go, first: go, last: go });
}

// ---- the list --------------------

interface Row {
	keys: string[][]; // each: caps that are pressed together; none: it is the pointer's
	what: string;
}

const CAPS = T.keys.caps as Record<string, string>;
// "Ctrl+c" has the cap C, "c" is told from "C".
const caps = (key: string): string[] => key.split(/(?<=[^+])\+/).map((cap, i) => CAPS[cap] ?? (i > 0 && cap.length === 1 ? cap.toUpperCase() : cap));
const WORDS: { [P in Part]: { title: string; does: { [A in Action<P>]: string } } } = T.keys.parts;
const POINTER: Partial<Record<Part, readonly (readonly [string, string])[]>> = T.keys.pointer;

function rowsOf(part: Part): Row[] {
	const does = WORDS[part].does as Record<string, string>;
	const keys = Object.entries(KEYS[part] as Record<string, readonly string[]>);
	return [
		...keys.map(([action, names]) => ({ keys: names.map(caps), what: does[action] })),
		...(POINTER[part] ?? []).map(([how, what]) => ({ keys: [], what: `${how}: ${what}` })),
	];
}

/** The keys of a view whose words have what is looked for, or a cap is it; parts without any are left out. */
export function listKeys(view: View | '' | 'report', find: string): { part: Part; title: string; rows: Row[] }[] {
	const wanted = find.trim().toLowerCase();
	const fits = (title: string, row: Row) =>
		`${title}: ${row.what}`.toLowerCase().includes(wanted) || row.keys.flat().some((cap) => cap.toLowerCase() === wanted);
	const parts = partsOf(view)
		.map((part) => ({ part, title: WORDS[part].title, rows: rowsOf(part).filter((row) => fits(WORDS[part].title, row)) }))
		.filter(({ rows }) => rows.length > 0);
	// Parts that a person does not tell from each other have one title.
	for (let i = parts.length - 1; i > 0; i--) {
		if (parts[i].title !== parts[i - 1].title) continue;
		parts[i - 1].rows.push(...parts[i].rows);
		parts.splice(i, 1);
	}
	return parts;
}

let open: (() => void) | null = null; // of the list that is on the page

export const KeysButton = () => (
	<button
		type="button"
		class="button icon-only keys-button"
		aria-label={T.keys.open}
		title={T.keys.open}
		aria-haspopup="dialog"
		data-testid="keys"
		onClick={() => open?.()}
	>
		<span aria-hidden="true">{KEYS.page.help[0]}</span>
	</button>
);

/** On `?`, or the button. A modal dialog of the browser's: the focus stays in it, and goes back where it was. */
export function KeysList({ view }: { view: View | '' | 'report' }) {
	const [shown, setShown] = useState(false);
	useEffect(() => {
		open = () => setShown(true);
		return () => {
			open = null;
		};
	}, []);
	useKeys('page', { help: () => setShown(true) });
	return shown ? <Dialog view={view} onClose={() => setShown(false)} /> : null;
}

function Dialog({ view, onClose }: { view: View | '' | 'report'; onClose: () => void }) {
	const dialog = useRef<HTMLDialogElement>(null);
	const [find, setFind] = useState('');
	useLayoutEffect(() => {
		const element = dialog.current!;
		element.showModal();
		return () => element.close();
	}, []);
	const parts = listKeys(view, find);
	return (
		<dialog
			ref={dialog}
			class="keys-list"
			aria-label={T.keys.label}
			data-testid="keys-list"
			onClose={onClose}
			onClick={(event) => event.target === event.currentTarget && event.currentTarget.close()}
			onKeyDown={(event) => {
				press('popover', event, { close: () => dialog.current!.close() });
				event.stopPropagation(); // what is behind it has no keys meanwhile
			}}
		>
			<div class="keys-body">
				<header class="keys-head">
					<h2>{T.keys.label}</h2>
					<label class="keys-find">
						<SearchIcon />
						<input
							type="search"
							aria-label={T.keys.find}
							placeholder={T.keys.find}
							autocomplete="off"
							spellcheck={false}
							data-testid="keys-find"
							value={find}
							onInput={(event) => setFind(event.currentTarget.value)}
						/>
					</label>
					<IconButton label={T.keys.close} testId="keys-close" onClick={() => dialog.current!.close()}>
						<CloseIcon />
					</IconButton>
				</header>
				<div class="keys-parts" tabIndex={0} role="group" aria-label={T.keys.label}>
					{parts.map(({ part, title, rows }) => (
						<section key={part} data-testid={`keys-${part}`}>
							<h3>{title}</h3>
							<dl>
								{rows.map((row) => (
									<div key={row.what}>
										<dt>
											{row.keys.map((pressed, i) => (
												<span key={i}>
													{pressed.map((cap) => (
														<kbd key={cap}>{cap}</kbd>
													))}
												</span>
											))}
										</dt>
										<dd>{row.what}</dd>
									</div>
								))}
							</dl>
						</section>
					))}
					{parts.length === 0 && <p role="status">{T.keys.none}</p>}
				</div>
			</div>
		</dialog>
	);
}
