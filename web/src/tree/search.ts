// SPDX-License-Identifier: Apache-2.0
// What a search in a profile matches: names, or by a prefix binaries, files, kinds and packages; and how much of the profile that is.
import * as T from '../base/texts';
import { packageOf } from './package';
import { KIND, kindOf, type Tree } from './tree';

/*
 * What is typed into a search box: part of a function's name, any case; "NAME" the whole name; in:BINARY, file:FILE, kind:kernel
 * (native, jit, interpreted, unknown) and package:PACKAGE for the entries of legend and table; a regular expression when asked for. Returns the test, null
 * for no search, or the fault as text.
 */
export function compileSearch(text: string, regex: boolean): ((name: string) => boolean) | null | string {
	const wanted = text.trim();
	if (wanted === '') return null;
	if (regex) {
		try {
			const pattern = new RegExp(wanted, 'i');
			return (name) => pattern.test(name);
		} catch (error) {
			return error instanceof Error ? error.message.replace(/^Invalid regular expression: /, '') : String(error);
		}
	}
	if (wanted.length > 2 && wanted.startsWith('"') && wanted.endsWith('"')) {
		const whole = wanted.slice(1, -1);
		return (name) => name === whole;
	}
	const part = wanted.toLowerCase();
	return (name) => name.toLowerCase().includes(part);
}

const { inlined: _, ...KINDS } = KIND;
const KIND_NAMES: Record<string, number> = KINDS;

const specialTest = (what: string, wanted: string) => (what === 'package' ? (name: string) => packageOf(name) === wanted : (name: string) => name === wanted);

// One byte a node: 1 where it matches. Every string is tested once, however many nodes have it. A string is a fault.
export function findNodes(tree: Tree, text: string, regex: boolean): Uint8Array | null | string {
	const special = regex ? null : /^(in|file|kind|package):(.+)$/.exec(text.trim());
	if (special && special[1] === 'kind') {
		const kind = KIND_NAMES[special[2]];
		if (kind === undefined) return T.search.noKind(special[2]);
		const flags = new Uint8Array(tree.count);
		for (let i = 1; i < tree.count; i++) flags[i] = kindOf(tree, i) === kind ? 1 : 0;
		return flags;
	}
	const test = special ? specialTest(special[1], special[2]) : compileSearch(text, regex);
	if (test === null || typeof test === 'string') return test;
	const column = special?.[1] === 'in' ? tree.binary : special?.[1] === 'file' ? tree.file : tree.name;
	const known = new Int8Array(tree.strings.length).fill(-1);
	const flags = new Uint8Array(tree.count);
	for (let i = 1; i < tree.count; i++) {
		const s = column[i];
		if (known[s] < 0) known[s] = test(tree.strings[s]) ? 1 : 0;
		flags[i] = known[s];
	}
	return flags;
}

export interface Matched {
	value: number; // of the stacks that hold a match, each counted once
	tops: Int32Array; // the matches that have no match above them
}

// Within the subtree of `within`. A match below a match adds nothing: recursion must not count twice.
export function sumMatched(tree: Tree, flags: Uint8Array, within = 0): Matched {
	let value = 0;
	const tops: number[] = [];
	for (let i = within; i < tree.end[within];) {
		if (flags[i]) {
			value += tree.total[i];
			tops.push(i);
			i = tree.end[i];
		} else {
			i++;
		}
	}
	return { value, tops: Int32Array.from(tops) };
}

// A copy by falling total. Half a million take half a second: only when somebody asks for the next match.
export function largestFirst(tree: Tree, nodes: Int32Array): Int32Array {
	return nodes.slice().sort((a, b) => tree.total[b] - tree.total[a] || a - b);
}
