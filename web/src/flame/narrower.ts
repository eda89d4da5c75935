// SPDX-License-Identifier: Apache-2.0
/*
 * A node of kind "rest" stands for what was too small to be sent with the whole. To open it, the server is asked for less: the
 * stacks that have all functions of the path down to it, a stage `frames` for each. Those of the path are among them with all they
 * have, so every node of the path is there again under the same key, with the same total, and below it what was left out.
 * The stacks that only share the functions, in another order, come along; they are beside the path.
 *
 * A condition must hold for every stack of the path, so it may ask for less than the name says, never for more. Names that the page
 * has made (addresses taken together) are no function's on the server: there the binary is asked for. Short names have lost parts:
 * the longest that is left is searched for.
 */
import { pipeline } from '../overview';
import { quote } from '../selector';
import { ancestors, isUnnamed, KIND, kindOf, type Tree } from './tree';

const STAGES_MAX = 24; // of 64 that a query may have
const TEXT_MAX = 6000; // characters; a query may have 16 KiB
const NAME_MAX = 1000;

const escapeRegex = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

function condition(name: string, binary: string, short: boolean): string {
	if (isUnnamed(name)) return binary === '' ? '' : pipeline(`frames binary = ${quote(binary)}`);
	if (name.length > NAME_MAX) return '';
	if (!short) return pipeline(`frames = ${quote(name)}`);
	const parts = name.split('<…>');
	const longest = parts.reduce((a, b) => (b.length > a.length ? b : a), '');
	return longest === '' ? '' : pipeline(`frames =~ ${quote(escapeRegex(longest))}`);
}

/** The stages for the path to a node, the node itself included; the innermost frames first, which leave least. None: nothing is known. */
export function narrowerStages(tree: Tree, node: number, short: boolean): string[] {
	const stages: string[] = [];
	let length = 0;
	for (const at of ancestors(tree, node).reverse()) {
		if (at === 0 || kindOf(tree, at) === KIND.rest) continue;
		const stage = condition(tree.strings[tree.name[at]], tree.strings[tree.binary[at]], short);
		if (stage === '' || stages.includes(stage)) continue;
		length += stage.length + 3;
		if (length > TEXT_MAX || stages.length === STAGES_MAX) break;
		stages.push(stage);
	}
	return stages;
}

/** With those that are there already. */
export function addStages(there: string, more: readonly string[]): string {
	return [...(there === '' ? [] : [there]), ...more.filter((stage) => !there.includes(stage))].join(' | ');
}
