// SPDX-License-Identifier: Apache-2.0
/*
 * A node of kind "rest" stands for what was too small to be sent with the whole. To open it, the server is asked for less: the
 * stacks that have all functions of the path down to it, a stage `frames` for each. Those of the path are among them with all they
 * have, so every node of the path is there again under the same key, with the same total, and below it what was left out.
 * The stacks that only share the functions, in another order, come along; they are beside the path.
 *
 * A condition must hold for every stack of the path, so it may ask for less than the name says, never for more. Names that the page
 * has made (addresses taken together) are no function's on the server: there the binary is asked for. Short names have lost parts:
 * the longest that is left is searched for. A frame LABEL=VALUE at the root is a condition on the label.
 *
 * Where frames are binaries or files, the server can take neighbours together before it cuts: `collapse binary` makes the very
 * tree that the page would make, of all there is, and that tree is small. What stands before it in the URL holds as before. It goes
 * again with the grouping. That works only as long as no other step asks for functions, which it leaves none of; otherwise
 * binaries and files of the path are conditions, as functions are, and of lines the functions that are declared there.
 *
 * A path may say nothing, or nothing new: in a graph that is turned over, what was left out stands at the top. Then the costliest
 * place that was left out anywhere is asked for, by its path in the tree that came from the server.
 */
import { pipeline } from '../query/pipeline';
import { quote } from '../query/selector';
import { groupingOf, type Grouping } from '../tree/steps';
import type { Transform, TransformOp } from '../tree/transform';
import { ancestors, isUnnamed, KIND, kindOf, type Tree } from '../tree/tree';

const STAGES_MAX = 24; // of 64 that a query may have
const TEXT_MAX = 6000; // characters; a query may have 16 KiB
const NAME_MAX = 1000;
const FUNCTIONS_MAX = 4; // of a line

const escapeRegex = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

/** The graph in which something is to be opened. */
export interface Cut {
	tree: Tree; // as it is shown
	base: Tree; // as it came from the server
	transforms: readonly Transform[]; // what made the one of the other
	short: boolean; // names are shortened
	root: string; // the label whose values are at the root; '' = none
}

function ofFunction(name: string, short: boolean): string {
	if (name.length > NAME_MAX) return '';
	if (!short) return pipeline(`frames = ${quote(name)}`);
	const parts = name.split('<…>');
	const longest = parts.reduce((a, b) => (b.length > a.length ? b : a), '');
	return longest === '' ? '' : pipeline(`frames =~ ${quote(escapeRegex(longest))}`);
}

// The functions that are declared there. Short names cannot be distinguished from others, so there it is the file.
function ofLine({ base, short }: Cut, file: string, line: number): string {
	const names = new Set<number>();
	for (let i = 1; i < base.count && names.size <= FUNCTIONS_MAX; i++) if (base.line[i] === line && base.strings[base.file[i]] === file) names.add(base.name[i]);
	const texts = [...names].map((id) => base.strings[id]);
	const fits = texts.length > 0 && texts.length <= FUNCTIONS_MAX && !short && !texts.some((text) => text.length > NAME_MAX || isUnnamed(text));
	if (!fits) return ofFile(file);
	return texts.length === 1 ? ofFunction(texts[0], false) : pipeline(`frames =~ ${quote(`^(?:${texts.map(escapeRegex).join('|')})$`)}`);
}

const ofFile = (file: string): string => (file === '' ? '' : pipeline(`frames file = ${quote(file)}`));
const ofBinary = (binary: string): string => (binary === '' ? '' : pipeline(`frames binary = ${quote(binary)}`));

function condition(cut: Cut, tree: Tree, node: number, grouping: Grouping): string {
	const name = tree.strings[tree.name[node]];
	const binary = tree.strings[tree.binary[node]];
	const file = tree.strings[tree.file[node]];
	const { root } = cut;
	if (root !== '' && binary === '' && file === '' && name.startsWith(`${root}=`))
		return name.includes('<…>') || name.length > NAME_MAX ? '' : pipeline(`where ${root}=${quote(name.slice(root.length + 1))}`);
	if (isUnnamed(name)) return ofBinary(binary);
	if (name === binary && cut.transforms.some(({ op }) => op === 'gb' || op === 'cb')) return ofBinary(binary);
	if (tree !== cut.base && grouping === 'gf' && name === file) return ofFile(file);
	if (tree !== cut.base && grouping === 'gl') return tree.line[node] > 0 ? ofLine(cut, file, tree.line[node]) : ofFile(file);
	return ofFunction(name, cut.short);
}

/** The stages for the path to a node, the node itself included; the innermost frames first, which leave least. None: nothing is known. */
export function narrowerStages(cut: Cut, node: number, tree = cut.tree): string[] {
	const stages: string[] = [];
	const grouping = groupingOf(cut.transforms);
	let length = 0;
	for (const at of ancestors(tree, node).reverse()) {
		if (at === 0 || kindOf(tree, at) === KIND.rest) continue;
		const stage = condition(cut, tree, at, grouping);
		if (stage === '' || stages.includes(stage)) continue;
		length += stage.length + 3;
		if (length > TEXT_MAX || stages.length === STAGES_MAX) break;
		stages.push(stage);
	}
	return stages;
}

/** With those that are there already. */
export function addStages(there: string, more: readonly string[]): string {
	const known = splitStages(there);
	return [...(there === '' ? [] : [there]), ...more.filter((stage) => !known.includes(stage))].join(' | ');
}

// At the bars that are in no text.
function splitStages(within: string): string[] {
	return (within.match(/(?:"(?:\\.|[^"\\])*"|[^|"])+/g) ?? []).map((stage) => stage.trim()).filter((stage) => stage !== '');
}

// The stage by which the server makes the tree that the page makes by that grouping.
const COLLAPSE: Partial<Record<TransformOp, string>> = { gb: pipeline('collapse binary'), gf: pipeline('collapse file') };
// Steps that say the same of a tree whose neighbours were taken together before them.
const ALIKE: Partial<Record<TransformOp, readonly TransformOp[]>> = { gb: ['gb', 'i', 'cb', 'ob'], gf: ['gf', 'i'] };

/** Without what the server was asked to take together for a grouping that these steps do not have any more. */
export function withoutCollapse(within: string, transforms: readonly Transform[]): string {
	const grouping = groupingOf(transforms);
	const wrong = Object.entries(COLLAPSE)
		.filter(([op]) => op !== grouping || !isAlike(transforms, grouping))
		.map(([, stage]) => stage);
	return splitStages(within)
		.filter((stage) => !wrong.includes(stage))
		.join(' | ');
}

const isAlike = (transforms: readonly Transform[], grouping: Grouping): boolean =>
	grouping !== '' && (ALIKE[grouping] ?? []).length > 0 && transforms.every(({ op }) => ALIKE[grouping]!.includes(op));

function largestRest(tree: Tree): number {
	let largest = 0;
	for (let i = 1; i < tree.count; i++) if (kindOf(tree, i) === KIND.rest && (largest === 0 || tree.total[i] > tree.total[largest])) largest = i;
	return largest;
}

/**
 * The stages that open the rest below a node of the tree, with those that are there already. The same as those: there is nothing
 * that could be asked for.
 */
export function stagesToOpen(cut: Cut, node: number, within: string): string {
	const { transforms, base } = cut;
	const grouping = groupingOf(transforms);
	const collapse = grouping !== '' && isAlike(transforms, grouping) ? COLLAPSE[grouping] : undefined;
	if (collapse && !splitStages(within).includes(collapse)) return addStages(within, [collapse]);
	const narrower = addStages(within, narrowerStages(cut, node));
	if (narrower !== within) return narrower;
	const rest = largestRest(base);
	return rest === 0 ? within : addStages(within, narrowerStages(cut, base.parent[rest], base));
}
