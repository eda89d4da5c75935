// SPDX-License-Identifier: Apache-2.0
// Saved queries on the page: values of their parameters, and what a text becomes when it is saved. Pure.
import type { Params } from '../api/client';
import type { SavedParameter, SavedQuery, SavedType } from '../api/responses';

export const TYPES: readonly SavedType[] = ['text', 'value', 'number', 'duration', 'label', 'choice'];

/** Of "NAME=VALUE" texts, as they are in the URL; the last of a name counts. */
export function valuesIn(texts: readonly string[]): Record<string, string> {
	const values: Record<string, string> = {};
	for (const text of texts) {
		const at = text.indexOf('=');
		if (at > 0) values[text.slice(0, at)] = text.slice(at + 1);
	}
	return values;
}

/** What of the values is to be in the URL: those that are of a parameter, and not its default. */
export function textsOf(parameters: readonly SavedParameter[], values: Record<string, string>): string[] {
	return parameters.filter(({ name, default: usual }) => (values[name] ?? '') !== '' && values[name] !== usual).map(({ name }) => `${name}=${values[name]}`);
}

/** A parameter without a value, for which there is no default either. */
export const missing = (parameters: readonly SavedParameter[], values: Record<string, string>): SavedParameter | undefined =>
	parameters.find(({ name, default: usual }) => (values[name] ?? '') === '' && usual === undefined);

export function requestOf(name: string, texts: readonly string[]): Params {
	const params: Record<string, string> = { saved: name };
	for (const [parameter, value] of Object.entries(valuesIn(texts))) params[`param.${parameter}`] = value;
	return params;
}

/** The parameters that a text has: `$name` outside of quotes, each once, but for $range, which is always there. */
export function parametersIn(text: string): string[] {
	const names = new Set<string>();
	for (const [, name] of text.matchAll(/"(?:[^"\\]|\\.)*"?|\$([a-z_][a-z0-9_]*)/g)) if (name !== undefined && name !== 'range') names.add(name);
	return [...names];
}

// The word before a parameter tells what it is, mostly.
export function likelyType(text: string, name: string): SavedType {
	const before = new RegExp(`(\\S+)\\s*\\$${name}(?![a-z0-9_])`).exec(text.replace(/"(?:[^"\\]|\\.)*"/g, '""'))?.[1] ?? '';
	if (/^(top|limit)$/.test(before)) return 'number';
	if (/^(bin|shift|\(shift)$/.test(before)) return 'duration';
	if (/^(by|label|on|compare)$/.test(before) || before.endsWith(',')) return 'label';
	return /[\w)]\s*(=~?|!~|!=)$/.test(before) ? 'value' : 'text';
}

/** The label that a parameter is compared with: service_name of `{service_name=$service}`. */
export const likelyLabel = (text: string, name: string): string =>
	new RegExp(`([A-Za-z_][A-Za-z0-9_.]*)\\s*(?:=~?|!~|!=)\\s*\\$${name}(?![a-z0-9_])`).exec(text)?.[1] ?? '';

/** A name for a file, of a title. */
export const nameOf = (title: string): string =>
	title
		.toLowerCase()
		.normalize('NFKD')
		.replace(/[^a-z0-9]+/g, '-')
		.replace(/^-+|-+$/g, '')
		.slice(0, 100);

export interface Draft {
	title: string;
	description: string;
	query: string;
	parameters: { name: string; type: SavedType; label: string; usual: string; choices: string }[];
}

/** What a new query is saved from: the text, and what its parameters seem to be. */
export function draftOf(text: string, of?: SavedQuery): Draft {
	return {
		title: of?.title ?? '',
		description: of?.description ?? '',
		query: text,
		parameters: parametersIn(text).map((name) => {
			const known = of?.parameters?.find((one) => one.name === name);
			return {
				name,
				type: known?.type ?? likelyType(text, name),
				label: known?.label ?? likelyLabel(text, name),
				usual: known?.default ?? '',
				choices: (known?.choices ?? []).join(', '),
			};
		}),
	};
}

/** The body of a PUT: a file, as JSON, which is YAML. A default that is empty is none. */
export function fileOf({ title, description, query, parameters }: Draft): object {
	return {
		title,
		...(description === '' ? {} : { description }),
		...(parameters.length === 0
			? {}
			: {
					parameters: Object.fromEntries(
						parameters.map(({ name, type, label, usual, choices }) => [
							name,
							{
								type,
								...(type === 'value' ? { label } : {}),
								...(type === 'choice'
									? {
											choices: choices
												.split(',')
												.map((one) => one.trim())
												.filter((one) => one !== ''),
										}
									: {}),
								...(usual === '' ? {} : { default: usual }),
							},
						]),
					),
				}),
		query,
	};
}
