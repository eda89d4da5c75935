// SPDX-License-Identifier: Apache-2.0
import type { ComponentChildren } from 'preact';

// {name} as what the values have under that name; unchanged if they have none.
function fill(text: string, values: Record<string, ComponentChildren>): ComponentChildren[] {
	return text.split(/\{(\w+)\}/).map((part, i) => (i % 2 === 0 ? part : (values[part] ?? `{${part}}`)));
}

/**
 * A text with code and values in it: `between backticks` is code, {name} is one of the values. What is in a value is shown as it
 * is, whatever it has of either.
 */
export function rich(text: string, values: Record<string, ComponentChildren> = {}): ComponentChildren {
	return text.split('`').map((part, i) => (i % 2 === 0 ? fill(part, values) : <code key={i}>{fill(part, values)}</code>));
}
