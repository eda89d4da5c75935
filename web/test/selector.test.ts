// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { exactValue, formatSelector, FRAMES, parseMatcherText, parseSelector, quote, SelectorError, withoutLabel } from '../src/query/selector';

const TYPE = 'process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta';

test('a type alone, matchers alone, and nothing at all are selectors', () => {
	assert.deepEqual(parseSelector(TYPE), { type: TYPE, matchers: [] });
	assert.deepEqual(parseSelector(' {a="b"} '), { type: '', matchers: [{ label: 'a', op: '=', value: 'b' }] });
	assert.deepEqual(parseSelector(''), { type: '', matchers: [] });
	assert.deepEqual(parseSelector('cpu{}'), { type: 'cpu', matchers: [] });
});

test('all four operators, spaces and a trailing comma', () => {
	const { matchers } = parseSelector('cpu { a = "1" ,b!="2",c =~ "3.*" , d!~"4", }');
	assert.deepEqual(
		matchers.map((m) => m.label + m.op + m.value),
		['a=1', 'b!=2', 'c=~3.*', 'd!~4'],
	);
});

test('values keep quotes, backslashes, newlines and braces through format and parse', () => {
	for (const value of ['', '"', '\\', 'a\nb', '}', '",x="y', 'naïve €', '\\d+\\.so', '<script>']) {
		const text = formatSelector({ type: 'cpu', matchers: [{ label: 'l', op: '=~', value }] });
		assert.deepEqual(parseSelector(text).matchers[0].value, value, text);
	}
	assert.equal(quote('a"b\\c\nd'), '"a\\"b\\\\c\\nd"');
});

test('stages that choose stacks are matchers, in every form of theirs', () => {
	const stages = (text: string) => parseSelector(text).matchers.map(({ label, op, value }) => (label === FRAMES ? op + value : label));
	assert.deepEqual(stages('cpu{a="b"} | frames = "f" | frames != "g"|frames =~"h" | frames  !~  "i"'), ['a', '=f', '!=g', '=~h', '!~i']);
	assert.deepEqual(stages('| drop frames = "f" | drop frames "g" | frames "h" | frames function != "i" | drop  frames !~ "j"'), [
		'!=f',
		'!~g',
		'=~h',
		'!=i',
		'=~j',
	]);
	for (const value of ['"', '\\', 'a\nb', ' | frames = "x"', '}', 'std::map<int, int>::operator[]', '<script>', '\u202e']) {
		const selector = {
			type: 'cpu',
			matchers: [
				{ label: 'l', op: '=' as const, value },
				{ label: FRAMES, op: '!=' as const, value },
			],
		};
		assert.deepEqual(parseSelector(formatSelector(selector)), selector);
	}
	const selector = parseSelector('cpu{a="1"} | frames = "f" | frames !~ "g"');
	assert.equal(formatSelector(selector), 'cpu{a="1"} | frames = "f" | frames !~ "g"');
	assert.equal(formatSelector(withoutLabel(selector, FRAMES)), 'cpu{a="1"}');
	assert.equal(formatSelector({ ...withoutLabel(selector, 'a'), type: '' }), '| frames = "f" | frames !~ "g"');
});

test('a fault is named with its column', () => {
	const faults: [string, number, RegExp][] = [
		['cpu{', 5, /label name/],
		['cpu{a', 6, /one of = != =~ !~/],
		['cpu{a=b}', 7, /double quotes near 'b}'/],
		['cpu{a="b', 7, /closing quote/],
		['cpu{a="b" c="d"}', 11, /',' or '}'/],
		['cpu{a="b"} x', 12, /end of the selector/],
		['cpu{1="b"}', 5, /label name/],
		['cpu | top 5', 7, /frames/],
		['cpu | frames', 7, /frames/],
		['cpu | frames = x', 16, /double quotes near 'x'/],
		['cpu | frames = "x" | group by a', 22, /frames/],
		['cpu | frames = "x" {a="b"}', 20, /end of the selector/],
		['cpu | frames leaf = "x"', 14, /double quotes near 'leaf/],
	];
	for (const [text, column, message] of faults) {
		assert.throws(
			() => parseSelector(text),
			(error: unknown) => error instanceof SelectorError && error.column === column && message.test(error.message),
			text,
		);
	}
});

test('what is typed into the filter becomes a matcher', () => {
	assert.deepEqual(parseMatcherText('a=b c'), { label: 'a', op: '=', value: 'b c' });
	assert.deepEqual(parseMatcherText(' a !~ "x\\"y" '), { label: 'a', op: '!~', value: 'x"y' });
	assert.deepEqual(parseMatcherText('a='), { label: 'a', op: '=', value: '' });
	assert.equal(parseMatcherText('a'), null);
	assert.equal(parseMatcherText('a="open'), null);
	assert.equal(parseMatcherText('a="b" c'), null);
});

test('a label can be asked for and taken out', () => {
	const selector = parseSelector('cpu{a="1",b="2",a!="3"}');
	assert.equal(exactValue(selector, 'a'), '1');
	assert.equal(exactValue(selector, 'c'), null);
	assert.equal(formatSelector(withoutLabel(selector, 'a')), 'cpu{b="2"}');
});
