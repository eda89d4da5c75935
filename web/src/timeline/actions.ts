// SPDX-License-Identifier: Apache-2.0
// What can be done on the time line, whether by pointer, key or menu.
import type { Timeline } from '../api/timeline_data';
import { displayName } from '../base/format';
import * as T from '../base/texts';
import { keyOf, type Does } from '../ui/keymap';
import { copyText, type MenuAt, type MenuItem } from '../ui/menu';
import type { TimeCanvas } from './canvas';
import type { Spans } from './spans';
import type { Range, SetTime, TimeState } from './state';
import { extentOf, fieldsLine, isInstant } from './text';

export interface Context {
	t: Timeline;
	spans: Spans;
	state: TimeState;
	set: SetTime;
	view: { current: TimeCanvas | null };
	inView: Range;
	setFocused: (marker: number) => void;
	setMenu: (menu: MenuAt) => void;
	unfold: (thread: number) => void; // shows its markers
}

export interface Actions {
	look: (range: Range | null, how?: 'push' | 'replace') => void; // null = the whole time
	zoom: (factor: number, at?: number) => void;
	pan: (share: number) => void;
	show: (marker: number) => void;
	pick: (marker: number) => void;
	follow: (marker: number) => void;
	clear: () => void;
	choose: (thread: number, add: boolean) => void;
	openMenu: (marker: number, x: number, y: number) => void;
}

const LENGTH_MIN = 100; // ns

function clampView(t: Timeline, from: number, to: number): Range | null {
	const length = Math.min(t.length, Math.max(LENGTH_MIN, to - from));
	const at = Math.max(0, Math.min(from, t.length - length));
	return length >= t.length ? null : [at, at + length];
}

export const padded = ([from, to]: Range): Range => [from - (to - from) * 0.05, to + (to - from) * 0.05];

export function makeActions(context: Context): Actions {
	const { t, spans, state, set, view, inView, setFocused, setMenu, unfold } = context;
	const look: Actions['look'] = (range, how = 'replace') => set({ view: range && clampView(t, range[0], range[1]) }, how);
	const show = (m: number) => {
		const [from, to] = extentOf(t, spans, m);
		const length = inView[1] - inView[0];
		const middle = (from + to) / 2;
		if (from < inView[0] || to > inView[1]) look(to - from > length ? padded([from, to]) : [middle - length / 2, middle + length / 2]);
		unfold(t.thread[m]);
		requestAnimationFrame(() => view.current?.reveal(m));
	};
	const actions: Actions = {
		look,
		show,
		zoom: (factor, at = (inView[0] + inView[1]) / 2) => look([at - (at - inView[0]) * factor, at + (inView[1] - at) * factor]),
		pan: (share) => {
			const by = (inView[1] - inView[0]) * share;
			look([inView[0] + by, inView[1] + by]);
		},
		// A span chooses its thread and time; an instant only itself.
		pick: (m) => {
			const [from, to] = extentOf(t, spans, m);
			setFocused(m);
			if (isInstant(t, m)) set({ marker: m });
			else set({ marker: m, threads: [t.thread[m]], part: null, range: to > from ? [Math.floor(from), Math.ceil(to)] : null });
		},
		follow: (m) => {
			const flow = view.current!.flowOf(m);
			const next = flow[(flow.indexOf(m) + 1) % flow.length];
			if (next === undefined || next === m) return;
			setFocused(next);
			set({ marker: next });
			show(next);
		},
		clear: () => {
			setFocused(-1);
			set({ marker: -1, range: null, part: null, threads: [], during: '' });
		},
		choose: (thread, add) => {
			const others = state.threads.filter((i) => i !== thread);
			const has = others.length < state.threads.length;
			const alone = has && others.length === 0;
			set({ threads: add ? (has ? others : [...others, thread]) : alone ? [] : [thread], marker: -1 });
		},
		openMenu: (m, x, y) => setMenu({ x, y, head: t.strings[t.name[m]], items: menuItems(context, actions, m) }),
	};
	return actions;
}

function menuItems({ t, spans, set, view }: Context, { pick, look, follow }: Actions, m: number): MenuItem[] {
	const name = t.strings[t.name[m]];
	const category = t.categories[t.category[m]]?.name ?? '';
	const during = (wanted: string) => set({ during: wanted, range: null, part: null, threads: [], marker: -1 });
	const items: MenuItem[] = [];
	if (!isInstant(t, m)) {
		items.push(
			{ title: T.markers.duringThis, key: keyOf('timeline', 'pick'), testId: 'menu-pick', run: () => pick(m) },
			{ title: T.markers.duringEvery(displayName(name, 40)), testId: 'menu-during', run: () => during(name) },
		);
		if (category !== '' && category !== name)
			items.push({
				title: T.markers.duringCategory(displayName(category, 40)),
				testId: 'menu-category',
				run: () => during(category),
			});
		items.push({ title: T.markers.zoom, key: keyOf('timeline', 'zoom'), testId: 'menu-zoom', run: () => look(padded(extentOf(t, spans, m)), 'push') });
	}
	if (view.current!.flowOf(m).length > 1)
		items.push({ title: T.markers.nextOfFlow, key: keyOf('timeline', 'follow'), testId: 'menu-flow', run: () => follow(m) });
	items.push(
		{ title: T.markers.asTable, testId: 'menu-table', run: () => set({ table: true, mfind: name }) },
		{ title: T.markers.copy, run: () => void copyText([name, fieldsLine(t, m)].filter((s) => s !== '').join('\t')) },
	);
	return items;
}

/** What keys do; at: the marker that they are about, -1 = none. */
export function keysFor(context: Context, actions: Actions, at: number): Does<'timeline'> {
	const { t, spans, view, setFocused } = context;
	const { look, zoom, pan, show, pick, follow, clear, openMenu } = actions;
	const go = (marker: number) => {
		setFocused(marker);
		show(marker);
	};
	const withMarkers = t.threads.map((_, i) => i).filter((i) => t.threads[i].markerEnd > t.threads[i].markerFirst);
	const toThread = (thread: number | undefined) => thread !== undefined && go(t.threads[thread].markerFirst);
	const step = (by: number) => {
		if (at < 0) return toThread(withMarkers[0]);
		const { markerFirst, markerEnd } = t.threads[t.thread[at]];
		return at + by >= markerFirst && at + by < markerEnd && go(at + by);
	};
	const stepThread = (by: number) => toThread(withMarkers[at < 0 ? 0 : withMarkers.indexOf(t.thread[at]) + by]);
	// A key that leads nowhere just now is nobody else's.
	const done = (what: () => unknown) => () => {
		what();
	};
	return {
		right: done(() => step(1)),
		left: done(() => step(-1)),
		down: done(() => stepThread(1)),
		up: done(() => stepThread(-1)),
		pick: done(() => at >= 0 && pick(at)),
		closer: () => zoom(0.5),
		farther: () => zoom(2),
		whole: () => look(null),
		panLeft: () => pan(-0.25),
		panRight: () => pan(0.25),
		follow: done(() => at >= 0 && follow(at)),
		zoom: done(() => at >= 0 && look(padded(extentOf(t, spans, at)), 'push')),
		all: clear,
		menu: () => {
			const rect = at >= 0 ? view.current!.rectOf(at) : null;
			if (rect) openMenu(at, rect.x, rect.y + rect.height);
		},
	};
}
