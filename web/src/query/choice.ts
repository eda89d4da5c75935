// SPDX-License-Identifier: Apache-2.0
/*
 * What is compared: the base, A, and the head, B; each a selector and a range as the API takes them. Pure; also the ways to a comparison
 * from elsewhere on the page. A range that is relative stays so, moved by the same time, so that the server counts both from its own
 * clock, and a link goes on to mean "now beside yesterday".
 */
import { NO_COMPARE, type CompareState } from '../state/compare';
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

function baseSelector(text: string, head: Selector, typeOf: (type: string) => string): { selector: Selector; fault: string | null } {
	if (text === '') return { selector: head, fault: null };
	try {
		const parsed = parseSelector(text);
		return { selector: { ...parsed, type: parsed.type === '' ? head.type : typeOf(parsed.type) }, fault: null };
	} catch (error) {
		return { selector: { type: head.type, matchers: [] }, fault: (error as Error).message };
	}
}

/** head: the page's selector, with its type. typeOf: the type that a name, or part of one, stands for. */
export function choicesOf(state: PageState, head: Selector, headFault: string | null, typeOf: (type: string) => string): Choices {
	const { compare, sel } = state;
	const [from, to] = sel ? [String(sel.from), String(sel.to)] : [state.from, state.to];
	const { selector, fault } = baseSelector(compare.base, head, typeOf);
	const shift = durationOf(beforeOf(compare));
	const range = compare.bfrom !== '' ? [compare.bfrom, compare.bto] : shift === 0 ? [from, to] : [earlier(from, shift), earlier(to, shift)];
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
