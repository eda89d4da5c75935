// SPDX-License-Identifier: Apache-2.0
/*
 * The one table of keys. A part is what has the focus, or all of the page; an action of it has the keys that lead to it. Handlers
 * take what to do for each action of a part (press()), and nobody else reads which key was pressed: so a key that is not here does
 * nothing, and an action that nobody carries out does not compile. The list of keys (keys.tsx) shows this table, with the words of
 * T.keys; web/test/keys.test.ts and keymap.test.mjs check that the three agree. Fields, buttons and links have the browser's keys
 * as well, which are not ours.
 *
 * A key is what the browser calls it, a space 'Space', with 'Ctrl+' (on a Mac also Command) or 'Shift+' before it. Characters are told
 * from each other as such: 'N' is no 'Shift+n'. A key with Shift is the one without where the part has none with it, but for Tab.
 */
import type { View } from '../state/page';

export const KEYS = {
	page: { help: ['?'] },
	server: { refresh: ['r'] },
	share: { open: ['l'] },
	opening: { stop: ['Escape'] },
	profile: { search: ['/'], all: ['Escape'] },
	search: { next: ['Enter'], before: ['Shift+Enter'], clear: ['Escape'] },
	filter: {
		down: ['ArrowDown'],
		up: ['ArrowUp'],
		add: ['Enter'],
		take: ['Tab'],
		leave: ['Escape'],
		back: ['Backspace'],
	},
	selector: { apply: ['Enter'], leave: ['Escape'] },
	chart: {
		left: ['ArrowLeft'],
		right: ['ArrowRight'],
		shorter: ['Shift+ArrowLeft'],
		longer: ['Shift+ArrowRight'],
		last: ['Enter'],
		first: ['Home'],
		newest: ['End'],
		all: ['Escape'],
	},
	graph: {
		up: ['ArrowUp'],
		down: ['ArrowDown'],
		left: ['ArrowLeft'],
		right: ['ArrowRight'],
		root: ['Home'],
		zoom: ['Enter', 'Space'],
		out: ['Backspace'],
		all: ['Escape'],
		closer: ['+', '='],
		farther: ['-'],
		panLeft: ['Shift+ArrowLeft'],
		panRight: ['Shift+ArrowRight'],
		menu: ['ContextMenu', 'Shift+F10'],
		copy: ['Ctrl+c'],
	},
	code: { source: ['s'], asm: ['a'] },
	matches: { next: ['n'], before: ['N'] },
	sandwich: { open: ['b'] },
	calls: {
		up: ['ArrowUp'],
		down: ['ArrowDown'],
		left: ['ArrowLeft'],
		right: ['ArrowRight'],
		first: ['Home'],
		closer: ['+', '='],
		farther: ['-'],
		whole: ['0'],
		all: ['Escape'],
		pick: ['Enter', 'Space'],
	},
	steps: {
		ff: ['f'],
		fs: ['F'],
		f: ['t'],
		co: ['u'],
		ob: ['o'],
		ok: ['k'],
		d: ['d'],
		mf: ['m'],
		mn: ['M'],
		cf: ['c'],
		cb: ['C'],
		r: ['R'],
		invert: ['i'],
		back: ['z'],
	},
	rows: { down: ['ArrowDown'], up: ['ArrowUp'], pageDown: ['PageDown'], pageUp: ['PageUp'], first: ['Home'], last: ['End'] },
	table: { pick: ['Enter', 'Space'] },
	menu: { down: ['ArrowDown'], up: ['ArrowUp'], close: ['Escape', 'Tab', 'Shift+Tab'] },
	popover: { close: ['Escape'] },
	listing: { hottest: ['h'], next: ['n'], before: ['N'] },
	ofListing: { source: ['s'], asm: ['a'], leave: ['Escape'] },
	compare: { swap: ['x'] },
	spans: { left: ['ArrowLeft'], right: ['ArrowRight'], shorter: ['Shift+ArrowLeft'], longer: ['Shift+ArrowRight'] },
	console: { run: ['Ctrl+Enter'], take: ['Tab'], pick: ['Enter'], down: ['ArrowDown'], up: ['ArrowUp'], close: ['Escape'] },
	timeline: {
		right: ['ArrowRight'],
		left: ['ArrowLeft'],
		down: ['ArrowDown'],
		up: ['ArrowUp'],
		pick: ['Enter', 'Space'],
		closer: ['+', '='],
		farther: ['-'],
		whole: ['0'],
		panLeft: ['['],
		panRight: [']'],
		follow: ['f'],
		zoom: ['z'],
		menu: ['m'],
		all: ['Escape'],
	},
	heatmap: {
		up: ['ArrowUp'],
		down: ['ArrowDown'],
		left: ['ArrowLeft'],
		right: ['ArrowRight'],
		first: ['Home'],
		last: ['End'],
		extendUp: ['Shift+ArrowUp'],
		extendDown: ['Shift+ArrowDown'],
		extendLeft: ['Shift+ArrowLeft'],
		extendRight: ['Shift+ArrowRight'],
		extendFirst: ['Shift+Home'],
		extendLast: ['Shift+End'],
		pick: ['Enter'],
		every: ['p'],
		all: ['Escape'],
	},
} as const satisfies Record<string, Record<string, readonly string[]>>;

export type Part = keyof typeof KEYS;
export type Action<P extends Part> = keyof (typeof KEYS)[P] & string;

/** What each action does. One that returns false has done nothing: the key is left to others. */
export type Does<P extends Part> = { [A in Action<P>]: () => unknown };

type Pressed = Pick<KeyboardEvent, 'key' | 'ctrlKey' | 'metaKey' | 'altKey' | 'shiftKey'>;

// What a key press may be called in the table, the first that is there counts. On some keyboards characters take AltGr.
function namesOf(event: Pressed): string[] {
	const character = [...event.key].length === 1;
	const graph = character && 'getModifierState' in event && (event as KeyboardEvent).getModifierState('AltGraph');
	if (event.altKey && !graph) return [];
	const key = event.key === ' ' ? 'Space' : event.key;
	if ((event.ctrlKey || event.metaKey) && !graph) return [`Ctrl+${key}`];
	if (!event.shiftKey || (character && key !== 'Space')) return [key];
	return key === 'Tab' ? ['Shift+Tab'] : [`Shift+${key}`, key];
}

/** Which action of a part a key press is, null if none. */
export function actionOf<P extends Part>(part: P, event: Pressed): Action<P> | null {
	const actions = Object.entries(KEYS[part] as Record<string, readonly string[]>);
	for (const name of namesOf(event)) {
		const found = actions.find(([, keys]) => keys.includes(name));
		if (found) return found[0] as Action<P>;
	}
	return null;
}

/** Does what a key means in a part, and then keeps the event from everybody else. False if that was nothing. */
export function press<P extends Part>(part: P, event: KeyboardEvent, does: Does<P>): boolean {
	const action = actionOf(part, event);
	if (action === null || does[action]() === false) return false;
	event.preventDefault();
	event.stopPropagation();
	return true;
}

/** The first key of an action, for menus. */
export function keyOf<P extends Part>(part: P, action: Action<P>): string {
	return (KEYS[part] as Record<string, readonly string[]>)[action][0];
}

const ROWS: Part[] = ['rows', 'menu', 'popover'];
const QUERY: Part[] = ['chart', 'filter', 'selector'];

/** Which parts have keys in a view, in the order of the list. report: a page in a file. */
export function partsOf(view: View | '' | 'report'): Part[] {
	switch (view) {
		case 'home':
		case 'status':
		case 'binaries':
		case 'recordings':
			return ['page', 'server', 'popover'];
		case 'console':
			return ['page', 'server', 'console', 'profile', 'search', 'graph', 'matches', 'sandwich', 'calls', 'steps', 'table', ...ROWS];
		case 'compare':
			return ['page', 'server', 'share', 'compare', 'profile', 'search', 'graph', 'spans', 'table', ...ROWS, 'filter', 'selector'];
		case 'sandwich':
			return ['page', 'server', 'share', 'profile', 'search', 'graph', 'sandwich', 'code', ...ROWS, ...QUERY];
		case 'calls':
			return ['page', 'server', 'share', 'profile', 'search', 'calls', 'sandwich', 'code', ...ROWS, ...QUERY];
		case 'source':
		case 'asm':
			return ['page', 'server', 'ofListing', 'listing', 'rows', ...QUERY, 'popover'];
		case 'file':
			return ['page', 'share', 'opening', 'profile', 'search', 'timeline', 'heatmap', 'graph', 'matches', 'sandwich', 'calls', 'steps', 'table', ...ROWS];
		case 'report':
			return ['page', 'profile', 'search', 'timeline', 'heatmap', 'graph', 'matches', 'sandwich', 'calls', 'steps', 'table', ...ROWS];
		default:
			return ['page', 'server', 'share', 'profile', 'search', 'graph', 'matches', 'sandwich', 'code', 'steps', 'table', ...ROWS, ...QUERY];
	}
}
