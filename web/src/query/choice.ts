// SPDX-License-Identifier: Apache-2.0
/*
 * What is compared: the base, A, and the head, B; each a selector and a range as the API takes them. Pure; also the ways to a comparison
 * from elsewhere on the page. A range that is relative stays so, moved by the same time, so that the server counts both from its own
 * clock, and a link goes on to mean "now beside yesterday".
 */
import { JUST_BEFORE, NO_COMPARE, type CompareState } from '../state/compare';
import { isRelative, parseTime, UNTOUCHED, type PageState } from '../state/page';
import { formatSelector, parseSelector, withoutLabel, type Matcher, type Selector } from './selector';

export interface Choice {
	selector: Selector;
	query: string;
	from: string;
	to: string;
	fault: string | null; // of the selector, or the range
}

export interface Choices {
	base: Choice;
	head: Choice;
	own: boolean; // the base has a selector of its own
	same: boolean; // the two are one and the same
	typesDiffer: boolean;
}

/** "1d" in ms. */
export function durationOf(text: string): number {
	return text === '0' ? 0 : -(parseTime(`now-${text}`, 0) ?? 0);
}

/** As a duration of the API, in the largest unit that it is whole in. */
export function formatShift(ms: number): string {
	const units: [number, string][] = [
		[7 * 86400e3, 'w'],
		[86400e3, 'd'],
		[3600e3, 'h'],
		[60e3, 'm'],
		[1e3, 's'],
	];
	const [size, name] = units.find(([unit]) => ms % unit === 0) ?? [1, 'ms'];
	return ms === 0 ? '0' : `${Math.round(ms / size)}${name}`;
}

/** That time, `ms` earlier; null if it is none. */
export function earlier(text: string, ms: number): string | null {
	if (!isRelative(text)) {
		const at = parseTime(text, 0);
		return at === null ? null : String(at - ms);
	}
	const offset = parseTime(text, 0);
	if (offset === null) return null;
	const moved = Math.round(offset - ms);
	return moved === 0 ? 'now' : `now${moved < 0 ? '-' : '+'}${formatShift(Math.abs(moved))}`;
}

/** How much earlier the base is, where it has no range of its own. */
export function beforeOf(compare: CompareState): string {
	return compare.before || (compare.base === '' ? '1d' : '0');
}

/** How long a range is, in ms, 0 if that is not known. */
export function lengthOf(from: string, to: string, now = Date.now()): number {
	const [a, b] = [parseTime(from, now), parseTime(to, now)];
	return a !== null && b !== null && b > a ? Math.round(b - a) : 0;
}

// A range that much earlier; null where an end is no time.
function rangeBefore(before: string, from: string, to: string): (string | null)[] {
	if (before === JUST_BEFORE) {
		const length = lengthOf(from, to);
		return length > 0 ? [earlier(from, length), from] : [null, null];
	}
	const shift = durationOf(before);
	return shift === 0 ? [from, to] : [earlier(from, shift), earlier(to, shift)];
}

function baseSelector(text: string, head: Selector, typeOf: (type: string) => string): { selector: Selector; fault: string | null } {
	if (text === '') return { selector: head, fault: null };
	try {
		const parsed = parseSelector(text);
		return { selector: { ...parsed, type: parsed.type === '' ? head.type : typeOf(parsed.type) }, fault: null };
	} catch (error) {
		return { selector: { type: head.type, matchers: [] }, fault: (error as Error).message };
	}
}

/**
 * head: the page's selector, with its type. typeOf: the type that a name, or part of one, stands for. span: the page's range, clipped to
 * the data.
 */
export function choicesOf(
	state: PageState,
	head: Selector,
	headFault: string | null,
	typeOf: (type: string) => string,
	span: { from: string; to: string } = state,
): Choices {
	const { compare, sel } = state;
	const [from, to] = sel ? [String(sel.from), String(sel.to)] : [span.from, span.to];
	const { selector, fault } = baseSelector(compare.base, head, typeOf);
	const range = compare.bfrom !== '' ? [compare.bfrom, compare.bto] : rangeBefore(beforeOf(compare), from, to);
	const base: Choice = {
		selector,
		query: formatSelector(selector),
		from: range[0] ?? from,
		to: range[1] ?? to,
		fault: fault ?? (range.includes(null) ? from : null),
	};
	const choice: Choice = { selector: head, query: formatSelector(head), from, to, fault: headFault };
	return {
		base,
		head: choice,
		own: compare.base !== '',
		same: base.query === choice.query && base.from === choice.from && base.to === choice.to,
		typesDiffer: base.selector.type !== head.type,
	};
}

/** The head becomes the base, and the base the head. */
export function swapped(state: PageState, { base, head, own }: Choices): Partial<PageState> {
	const sameTime = base.from === head.from && base.to === head.to;
	return {
		q: base.query,
		from: base.from,
		to: base.to,
		sel: null,
		...UNTOUCHED,
		compare: {
			...state.compare,
			base: own ? head.query : '',
			before: sameTime ? '0' : '',
			bfrom: sameTime ? '' : head.from,
			bto: sameTime ? '' : head.to,
		},
	};
}

// ---- from elsewhere --------------------

type Way = Pick<PageState, 'view' | 'compare'> & Partial<PageState>;

/** What is shown, beside itself at another time. before: a duration. */
export function compareBefore(before: string): Way {
	return { view: 'compare', ...UNTOUCHED, compare: { ...NO_COMPARE, before } };
}

const SLACK_MS = 20_000; // two flushes of an agent

/**
 * What is shown, beside the same length of time immediately before. Where data begin (`begin`, unix ms; null = long ago) after the beginning of
 * that, it is as long as there are data; where these are less than half of it, the range itself is compared by halves.
 */
export function compareJustBefore(state: PageState, cover: { from: string; to: string }, begin: number | null, now = Date.now()): Way {
	const { sel } = state;
	const from = sel ? sel.from : parseTime(cover.from, now);
	const to = sel ? sel.to : parseTime(cover.to, now);
	if (begin === null || from === null || to === null || to <= from || from - (to - from) >= begin - SLACK_MS) return compareBefore(JUST_BEFORE);
	const way: Way = { view: 'compare', ...UNTOUCHED, compare: { ...NO_COMPARE, before: JUST_BEFORE } };
	if (from - begin >= (to - from) / 2) return { ...way, compare: { ...NO_COMPARE, bfrom: String(begin), bto: String(from) } };
	const first = Math.max(from, begin);
	return {
		...way,
		sel: { from: Math.round((first + to) / 2), to: Math.round(to) },
		compare: { ...NO_COMPARE, bfrom: String(first), bto: String(Math.round((first + to) / 2)) },
	};
}

/** Two ranges, unix ms, of what is shown: before and after a deploy, for one. */
export function compareRanges(base: { from: number; to: number }, head: { from: number; to: number }): Way {
	return {
		view: 'compare',
		...UNTOUCHED,
		from: String(head.from),
		to: String(head.to),
		sel: null,
		compare: { ...NO_COMPARE, bfrom: String(base.from), bto: String(base.to) },
	};
}

/**
 * One value of a label at the same time beside another one, or (null) all others; as shares, for how much there is of the two is seldom
 * alike.
 */
export function compareValue(selector: Selector, label: string, value: string, other: string | null = null): Way {
	const rest = withoutLabel(selector, label);
	const by = (matcher: Omit<Matcher, 'label'>) => formatSelector({ ...rest, matchers: [...rest.matchers, { label, ...matcher }] });
	const base = by(other === null ? { op: '!=', value } : { op: '=', value: other });
	return { view: 'compare', ...UNTOUCHED, q: by({ op: '=', value }), compare: { ...NO_COMPARE, base, relative: true } };
}
