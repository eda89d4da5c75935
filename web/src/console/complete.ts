// SPDX-License-Identifier: Apache-2.0
/*
 * What may be typed next in a query (docs/query.md, "Pipelines"). The text before the cursor is cut into tokens, those after the
 * last `|` outside of quotes and parentheses are the stage that is being typed, and that stage's grammar says what follows. The
 * names that the data has (types, labels, their values, functions) are not known here: the response says which kind is wanted, and
 * the page asks the server. The server alone judges a query; this only helps to write one.
 */
import * as T from '../base/texts';

export type Wanted =
	| { kind: 'words'; words: readonly Word[] }
	| { kind: 'types' }
	| { kind: 'labels' }
	| { kind: 'values'; label: string }
	| { kind: 'functions' }
	| { kind: 'nothing' };

export interface Word {
	text: string;
	note: string;
}

export interface Place {
	from: number; // what is replaced: [from, cursor)
	typed: string; // of what is wanted, without an opening quote
	quoted: boolean; // it is put into quotes
	wanted: Wanted;
}

interface Token {
	kind: 'word' | 'string' | 'operator' | 'other';
	text: string; // of a string: what is in the quotes
	from: number;
	open: boolean; // a string without its end
}

const WORD = /[A-Za-z0-9_./:*-]/;

function tokens(text: string): Token[] {
	const out: Token[] = [];
	for (let i = 0; i < text.length;) {
		const c = text[i];
		if (/\s/.test(c)) {
			i++;
		} else if (c === '"') {
			let end = i + 1;
			while (end < text.length && text[end] !== '"') end += text[end] === '\\' ? 2 : 1;
			out.push({ kind: 'string', text: text.slice(i + 1, Math.min(end, text.length)), from: i, open: end >= text.length });
			i = end + 1;
		} else if (WORD.test(c)) {
			let end = i + 1;
			while (end < text.length && WORD.test(text[end])) end++;
			out.push({ kind: 'word', text: text.slice(i, end), from: i, open: false });
			i = end;
		} else if (c === '=' || c === '!') {
			const length = /^(=~|!~|!=)/.test(text.slice(i, i + 2)) ? 2 : 1;
			out.push({ kind: 'operator', text: text.slice(i, i + length), from: i, open: false });
			i += length;
		} else {
			out.push({ kind: 'other', text: c, from: i, open: false });
			i++;
		}
	}
	return out;
}

const keyword = (text: string, note = ''): Word => ({ text, note });

export const STAGES: readonly Word[] = [
	keyword('where', T.queries.stages.where),
	keyword('frames', T.queries.stages.frames),
	keyword('drop frames', T.queries.stages.dropFrames),
	keyword('focus', T.queries.stages.focus),
	keyword('hide', T.queries.stages.hide),
	keyword('callers of', T.queries.stages.callersOf),
	keyword('callees of', T.queries.stages.calleesOf),
	keyword('collapse', T.queries.stages.collapse),
	keyword('group by', T.queries.stages.groupBy),
	keyword('bin', T.queries.stages.bin),
	keyword('rate', T.queries.stages.rate),
	keyword('top', T.queries.stages.top),
	keyword('sum', T.queries.stages.sum),
	keyword('count', T.queries.stages.count),
	keyword('diff (shift 1d)', T.queries.stages.diff),
	keyword('compare label', T.queries.stages.compare),
	keyword('join process_stats on', T.queries.stages.join),
	keyword('sort by', T.queries.stages.sortBy),
	keyword('limit', T.queries.stages.limit),
	keyword('types', T.queries.stages.types),
	keyword('labels', T.queries.stages.labels),
	keyword('values of', T.queries.stages.valuesOf),
];

const OPERATORS: readonly Word[] = [
	keyword('=', T.queries.words.is),
	keyword('!=', T.queries.words.isNot),
	keyword('=~', T.queries.words.matches),
	keyword('!~', T.queries.words.matchesNot),
];
const FIELDS: readonly Word[] = [
	keyword('function', T.queries.words.function),
	keyword('file', T.queries.words.file),
	keyword('line', T.queries.words.line),
	keyword('binary', T.queries.words.binary),
	keyword('build_id', T.queries.words.buildId),
	keyword('address', T.queries.words.address),
	keyword('kernel', T.queries.words.kernel),
	keyword('user', T.queries.words.user),
];
const KEYS: readonly Word[] = ['function', 'file', 'binary', 'line', 'package', 'label'].map((key) => keyword(key));
const DURATIONS: readonly Word[] = ['1m', '5m', '1h', '1d', '7d'].map((text) => keyword(text));
const BINS: readonly Word[] = [keyword('auto', T.queries.words.auto), ...DURATIONS];

const NOTHING: Wanted = { kind: 'nothing' };
const words = (all: readonly Word[]): Wanted => ({ kind: 'words', words: all });

// After name, operator, value of a matcher or a test: what comes next, by what stands last.
function matcherWanted(before: Token[]): Wanted {
	const last = before[before.length - 1];
	if (!last || (last.kind === 'other' && (last.text === ',' || last.text === '{'))) return { kind: 'labels' };
	if (last.kind === 'word') return words(OPERATORS);
	if (last.kind === 'operator') {
		const name = before[before.length - 2];
		return name?.kind === 'word' ? { kind: 'values', label: name.text } : NOTHING;
	}
	return NOTHING;
}

function testsWanted(before: Token[], more: readonly Word[]): Wanted {
	const last = before[before.length - 1];
	if (!last || last.text === 'and') return words([...more, ...FIELDS]);
	if (['leaf', 'root', 'any'].includes(last.text)) return words(FIELDS);
	if (last.kind === 'operator') return before[before.length - 2]?.text === 'function' || before.length === 1 ? { kind: 'functions' } : NOTHING;
	if (last.kind === 'word' && FIELDS.some((field) => field.text === last.text))
		return last.text === 'kernel' || last.text === 'user' ? words([keyword('and')]) : words(OPERATORS);
	return last.kind === 'string' ? words([keyword('and')]) : NOTHING;
}

function topWanted(before: Token[]): Wanted {
	const last = before[before.length - 1];
	if (!last) return words(['10', '20', '50'].map((text) => keyword(text)));
	if (last.text === 'by') return words(KEYS);
	if (last.text === 'label') return { kind: 'labels' };
	const has = (text: string) => before.some((token) => token.text === text);
	const more = [
		keyword('self', T.queries.words.self),
		keyword('total', T.queries.words.total),
		keyword('by', T.queries.words.by),
		keyword('others', T.queries.words.others),
	];
	return words(more.filter(({ text }) => !has(text) && !(text === 'total' && has('self')) && !(text === 'self' && has('total'))));
}

function stageWanted(before: Token[]): Wanted {
	const [first, second] = before.map((token) => token.text);
	const rest = (n: number) => before.slice(n);
	if (first === undefined) return words(STAGES);
	switch (first) {
		case 'where':
			return matcherWanted(rest(1));
		case 'frames':
			return testsWanted(rest(1), [keyword('leaf', T.queries.words.leaf), keyword('root', T.queries.words.root)]);
		case 'drop':
			return second === 'frames' ? testsWanted(rest(2), [keyword('leaf'), keyword('root')]) : words([keyword('frames')]);
		case 'focus':
			return testsWanted(rest(1), []);
		case 'hide':
			return second === 'interpreter' ? NOTHING : testsWanted(rest(1), before.length === 1 ? [keyword('interpreter', T.queries.stages.hideInterpreter)] : []);
		case 'callers':
		case 'callees':
			if (second !== 'of') return words([keyword('of')]);
			return before.length === 2 ? { kind: 'functions' } : testsWanted(rest(2), []);
		case 'collapse':
			return before.length === 1 ? words(['recursion', 'binary', 'file', 'package'].map((text) => keyword(text))) : testsWanted(rest(1), []);
		case 'group':
			if (second !== 'by') return words([keyword('by')]);
			return before.length === 2 || before[before.length - 1].text === ',' ? { kind: 'labels' } : NOTHING;
		case 'bin':
			return before.length === 1 ? words(BINS) : NOTHING;
		case 'top':
			return topWanted(rest(1));
		case 'diff':
			if (second !== '(') return words([keyword('(shift 1d)'), keyword('(shift 7d)'), keyword('(from ')]);
			if (before[before.length - 1].text === ')') return words([keyword('relative', T.queries.words.relative)]);
			return before[before.length - 1].text === 'shift' ? words(DURATIONS) : before.length === 2 ? words([keyword('shift'), keyword('from')]) : NOTHING;
		case 'compare':
			if (second === 'label') return before.length === 2 ? { kind: 'labels' } : words([keyword('top')]);
			return words([keyword('label')]);
		case 'join':
			if (before[before.length - 1].text === 'on' || before[before.length - 1].text === ',') return { kind: 'labels' };
			return before.length < 3 ? words([keyword(before.length === 1 ? 'process_stats' : 'on')]) : NOTHING;
		case 'sort':
			if (second !== 'by') return words([keyword('by')]);
			if (before.length === 2) return words(['self', 'total', 'value', 'function', 'self_change', 'total_change'].map((text) => keyword(text)));
			return before.length === 3 ? words([keyword('desc', T.queries.words.falling), keyword('asc')]) : NOTHING;
		case 'values':
			return second === 'of' ? (before.length === 2 ? { kind: 'labels' } : NOTHING) : words([keyword('of')]);
		default:
			return NOTHING;
	}
}

// Of the selector: a type, then matchers in braces.
function selectorWanted(before: Token[]): Wanted {
	if (before.length === 0) return { kind: 'types' };
	const brace = before.findIndex((token) => token.text === '{' && token.kind === 'other');
	if (brace < 0 || before.some((token) => token.text === '}' && token.kind === 'other')) return words([keyword('|', T.queries.words.then)]);
	return matcherWanted(before.slice(brace));
}

/** What is wanted at `cursor`, and what of it is typed already. */
export function placeOf(text: string, cursor: number): Place {
	const all = tokens(text.slice(0, cursor));
	let stage = 0; // the first token of the stage, after its `|`
	let depth = 0;
	all.forEach((token, i) => {
		if (token.kind !== 'other') return;
		if ('({'.includes(token.text)) depth++;
		else if (')}'.includes(token.text)) depth--;
		else if (token.text === '|' && depth <= 0) stage = i + 1;
	});
	const own = all.slice(stage);
	const last = own[own.length - 1];
	const touching = last && last.from + last.text.length + (last.kind === 'string' ? 1 : 0) === cursor;
	const typing = last && (last.open || (last.kind === 'word' && touching)) ? last : null;
	const before = typing ? own.slice(0, -1) : own;
	// Inside of a difference's parentheses stands a selector, too.
	const inner = stage > 0 && own[0]?.text === 'diff' ? own.findIndex((token) => token.text === '{') : -1;
	const wanted = stage === 0 ? selectorWanted(before) : inner >= 0 ? matcherWanted(before.slice(inner)) : stageWanted(before);
	return {
		from: typing ? typing.from : cursor,
		typed: typing ? typing.text : '',
		quoted: wanted.kind === 'values' || wanted.kind === 'functions',
		wanted,
	};
}

export interface Completed {
	text: string;
	cursor: number;
}

const quoted = (value: string) => `"${value.replace(/[\\"]/g, '\\$&').replace(/\n/g, '\\n').replace(/\t/g, '\\t')}"`;

/** The text with what was chosen in its place, and a blank behind it where a word ends. */
export function complete(text: string, cursor: number, place: Place, choice: string): Completed {
	const put = place.quoted ? quoted(choice) : choice;
	// What the person typed of a string behind the cursor goes with it.
	let after = text.slice(cursor);
	if (place.quoted && after.startsWith('"')) after = after.slice(1);
	const blank = place.wanted.kind === 'words' && !after.startsWith(' ') && !/[({]$/.test(put) ? ' ' : '';
	const head = text.slice(0, place.from) + put + blank;
	return { text: head + after, cursor: head.length };
}

/** The column (from 1) that an error of the server names, and how long the text is that it names there; null if it names none. */
export function faultAt(message: string): { column: number; length: number } | null {
	const match = /at column (\d{1,6})(?: near '(.*)')?/.exec(message);
	if (!match) return null;
	return { column: Number(match[1]), length: Math.max(1, /^\S*/.exec(match[2] ?? '')![0].length) };
}
