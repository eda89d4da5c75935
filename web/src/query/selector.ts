// SPDX-License-Identifier: Apache-2.0
/*
 * Selectors: type{label="v", a!="b", c=~"re", d!~"re"}, and behind them the stages that choose stacks by their functions:
 * | frames = "malloc" | frames !~ "^std::". The server validates them; the page parses them to show the matchers as chips and to say at
 * once, with the column, what is wrong with text that a person typed. Such a stage is a matcher like the others, of a label that no
 * data can have, so whatever takes filters along takes these along. Other stages are for the console.
 */
import * as T from '../base/texts';

export type Operator = '=' | '!=' | '=~' | '!~';

/** The label of matchers that are about the functions of a stack: = and =~ hold if one function fits, != and !~ if none does. */
export const FRAMES = '|frames';

export interface Matcher {
	label: string; // or FRAMES
	op: Operator;
	value: string;
}

export interface Selector {
	type: string; // full profile type, a prefix of its parts, or '' for any
	matchers: Matcher[];
}

export const OPERATORS: { op: Operator; meaning: string }[] = [
	{ op: '=', meaning: T.filter.is },
	{ op: '!=', meaning: T.filter.isNot },
	{ op: '=~', meaning: T.filter.matches },
	{ op: '!~', meaning: T.filter.matchesNot },
];

export class SelectorError extends Error {
	constructor(
		message: string,
		readonly column: number, // of the fault, from 1
	) {
		super(T.selector.at(message, column));
	}
}

const TYPE = /[A-Za-z0-9_./:-]*/y;
const LABEL = /[A-Za-z_][A-Za-z0-9_]*/y;
const OPERATOR = /=~|!~|!=|=/y;
const SPACE = /\s*/y;
const ESCAPES: Record<string, string> = { n: '\n', t: '\t', r: '\r', '"': '"', '\\': '\\' };

class Cursor {
	at = 0;
	constructor(readonly text: string) {}

	take(pattern: RegExp): string {
		pattern.lastIndex = this.at;
		const match = pattern.exec(this.text);
		if (!match) return '';
		this.at += match[0].length;
		return match[0];
	}

	peek(): string {
		return this.text[this.at] ?? '';
	}

	expect(what: string): SelectorError {
		const near = this.text.slice(this.at, this.at + 12);
		return new SelectorError(near ? T.selector.expectedNear(what, near) : T.selector.expected(what), this.at + 1);
	}
}

function parseString(cursor: Cursor): string {
	if (cursor.peek() !== '"') throw cursor.expect(T.selector.quoted);
	const start = cursor.at++;
	let value = '';
	for (;;) {
		const c = cursor.peek();
		if (c === '') throw new SelectorError(T.selector.unclosed, start + 1);
		cursor.at++;
		if (c === '"') return value;
		if (c !== '\\') {
			value += c;
			continue;
		}
		const escaped = cursor.peek();
		// An unknown escape keeps its backslash: what people mean by "\d" is a regular expression's digit.
		value += ESCAPES[escaped] ?? '\\' + escaped;
		cursor.at++;
	}
}

const STAGE = /(?:drop\s+)?frames(?:\s+function)?(?=[\s="!])/y;
const TURNED: Record<Operator, Operator> = { '=': '!=', '!=': '=', '=~': '!~', '!~': '=~' };

function parseStageAt(cursor: Cursor): Matcher {
	const stage = cursor.take(STAGE);
	if (!stage) throw cursor.expect(T.selector.frames);
	cursor.take(SPACE);
	const op = (cursor.take(OPERATOR) || '=~') as Operator;
	cursor.take(SPACE);
	return { label: FRAMES, op: stage.startsWith('drop') ? TURNED[op] : op, value: parseString(cursor) };
}

function parseMatcherAt(cursor: Cursor): Matcher {
	const label = cursor.take(LABEL);
	if (!label) throw cursor.expect(T.selector.label);
	cursor.take(SPACE);
	const op = cursor.take(OPERATOR) as Operator;
	if (!op) throw cursor.expect(T.selector.operator);
	cursor.take(SPACE);
	return { label, op, value: parseString(cursor) };
}

export function parseSelector(text: string): Selector {
	const cursor = new Cursor(text);
	cursor.take(SPACE);
	const selector: Selector = { type: cursor.take(TYPE), matchers: [] };
	cursor.take(SPACE);
	if (cursor.peek() === '{') {
		cursor.at++;
		cursor.take(SPACE);
		while (cursor.peek() !== '}') {
			selector.matchers.push(parseMatcherAt(cursor));
			cursor.take(SPACE);
			if (cursor.peek() === ',') {
				cursor.at++;
				cursor.take(SPACE);
			} else if (cursor.peek() !== '}') {
				throw cursor.expect(T.selector.commaOrEnd);
			}
		}
		cursor.at++;
		cursor.take(SPACE);
	}
	while (cursor.peek() === '|') {
		cursor.at++;
		cursor.take(SPACE);
		selector.matchers.push(parseStageAt(cursor));
		cursor.take(SPACE);
	}
	if (cursor.at < text.length) throw cursor.expect(T.selector.end);
	return selector;
}

export function quote(value: string): string {
	return `"${value.replace(/[\\"]/g, '\\$&').replace(/\n/g, '\\n')}"`;
}

export function formatMatcher(matcher: Matcher): string {
	if (matcher.label === FRAMES) return ['frames', matcher.op, quote(matcher.value)].join(' ');
	return `${matcher.label}${matcher.op}${quote(matcher.value)}`;
}

export function formatSelector(selector: Selector): string {
	const [labels, stages] = [false, true].map((wanted) => selector.matchers.filter(({ label }) => (label === FRAMES) === wanted).map(formatMatcher));
	return [labels.length === 0 ? selector.type : `${selector.type}{${labels.join(', ')}}`, ...stages].join(' | ').trim();
}

// The text of one matcher as people type it: name=value, name="value", name =~ value. Null while it is not complete.
export function parseMatcherText(text: string): Matcher | null {
	const match = /^\s*([A-Za-z_][A-Za-z0-9_]*)\s*(=~|!~|!=|=)\s*([^]*?)\s*$/.exec(text);
	if (!match) return null;
	const [, label, op, rest] = match;
	if (rest.startsWith('"')) {
		try {
			const cursor = new Cursor(rest);
			const value = parseString(cursor);
			return cursor.at === rest.length ? { label, op: op as Operator, value } : null;
		} catch {
			return null;
		}
	}
	return { label, op: op as Operator, value: rest };
}

export function withoutLabel(selector: Selector, label: string): Selector {
	return { ...selector, matchers: selector.matchers.filter((m) => m.label !== label) };
}

export function exactValue(selector: Selector, label: string): string | null {
	return selector.matchers.find((m) => m.label === label && m.op === '=')?.value ?? null;
}

/** The selector's text with another type; as it is when it cannot be read. */
export function withType(text: string, type: string): string {
	if (text === '') return '';
	try {
		return formatSelector({ ...parseSelector(text), type });
	} catch {
		return text;
	}
}
