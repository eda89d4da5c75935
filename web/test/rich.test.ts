// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ComponentChildren, VNode } from 'preact';
import { rich } from '../src/ui/rich';

// As the document would have it: code between angle brackets.
function shown(children: ComponentChildren): string {
	if (Array.isArray(children)) return children.map(shown).join('');
	if (typeof children !== 'object' || children === null) return String(children);
	const { type, props } = children as VNode<{ children: ComponentChildren }>;
	return `<${type} ${shown(props.children)}>`;
}

test('texts with code and values', () => {
	assert.equal(shown(rich('plain')), 'plain');
	assert.equal(shown(rich('`a b` runs, `c {d}` too', { d: 'x' })), '<code a b> runs, <code c x> too');
	assert.equal(shown(rich('{n} of `type{label="v"}`', { n: 3 })), '3 of <code type{label="v"}>');
	assert.equal(shown(rich('{missing}')), '{missing}');
});

test('what is in a value stays as it is', () => {
	assert.equal(shown(rich('`{a}`: {b}.', { a: 'x`{b}`', b: '{a} `y`' })), '<code x`{b}`>: {a} `y`.');
});
