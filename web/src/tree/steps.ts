// SPDX-License-Identifier: Apache-2.0
/*
 * What has been done with a graph, step by step: transforms (transform.ts) as a person adds them, sees them named, and takes them
 * back. A step is about a function, a node or a binary of the tree that those before it have made, so it gets its name there.
 *
 * Trees between the steps are kept while they are small, so that a further step is one pass and not all of them again; of large
 * ones only the first and the last are. Whatever was made before from the same tree by the same steps is taken over.
 */
import { binaryKey, findBinary, findFunction, functionKey, NO_FUNCTION, treeFunctions } from './functions';
import { applyTransforms, formatTransforms, TRANSFORMS_MAX, UNKNOWN, type Transform, type TransformOp } from './transform';
import { findPath, isSmall, KIND, kindOf, pathKey, type Tree } from './tree';

export interface Made {
	base: Tree;
	transforms: readonly Transform[];
	names: string[]; // by step: the function, binary or kind that it is about; '' = nothing, or not in the tree
	trees: (Tree | null)[]; // by step: what it made; null = not kept
	tree: Tree; // what all made
}

/** By number of the kind, as in `ok-KIND` and `kind:KIND`. */
export const KIND_NAMES = ['unknown', 'native', 'kernel', 'jit', 'interpreted'] as const;

const ABOUT: Record<TransformOp, 'function' | 'node' | 'binary' | 'kind' | 'nothing'> = {
	ff: 'function',
	f: 'function',
	d: 'function',
	mf: 'function',
	cf: 'function',
	dr: 'function',
	r: 'function',
	co: 'function',
	fs: 'node',
	mn: 'node',
	cs: 'node',
	cb: 'binary',
	ob: 'binary',
	ok: 'kind',
	i: 'nothing',
	gf: 'nothing',
	gl: 'nothing',
	gb: 'nothing',
};

/** What a step is about, for people, in the tree that it is applied to; '' = nothing in particular, or not in the tree. */
export function nameStep(tree: Tree, { op, arg }: Transform): string {
	const about = ABOUT[op];
	if (about === 'nothing' || arg === '') return '';
	if (about === 'kind') return arg;
	if (about === 'binary') {
		const binary = findBinary(tree, arg);
		return binary < 0 ? '' : tree.strings[binary] || UNKNOWN;
	}
	const id = about === 'function' ? findFunction(tree, arg) : NO_FUNCTION;
	const node = about === 'node' ? findPath(tree, [arg]) : id === NO_FUNCTION ? -1 : treeFunctions(tree).first[id];
	return node > 0 ? tree.strings[tree.name[node]] : '';
}

const sameStep = (a: Transform, b: Transform): boolean => a.op === b.op && a.arg === b.arg;

/** before: what was made last, of which as much as fits is used again. */
export function makeSteps(base: Tree, transforms: readonly Transform[], before: Made | null = null): Made {
	const made: Made = { base, transforms, names: [], trees: [], tree: base };
	let known = 0; // steps whose tree is known
	if (before && before.base === base) {
		let same = 0;
		while (same < transforms.length && same < before.transforms.length && sameStep(transforms[same], before.transforms[same])) same++;
		for (known = same; known > 0 && !before.trees[known - 1]; known--);
		made.names.push(...before.names.slice(0, known));
		made.trees.push(...before.trees.slice(0, known));
		if (known > 0) made.tree = before.trees[known - 1]!;
	}
	for (let i = known; i < transforms.length; i++) {
		const from = made.tree;
		made.names.push(nameStep(from, transforms[i]));
		made.tree = applyTransforms(from, [transforms[i]]);
		// What this step was made of is not needed any more, unless it is small, or the tree that came from the server.
		if (i > 0 && !isSmall(from)) made.trees[i - 1] = null;
		made.trees.push(made.tree);
	}
	return made;
}

/** The step that does `op` to the function, node, binary or kind of a node; null where that makes no sense. */
export function stepFor(tree: Tree, node: number, op: TransformOp): Transform | null {
	const about = ABOUT[op];
	if (about === 'nothing') return { op, arg: '' };
	const kind = kindOf(tree, node);
	if (node <= 0 || kind === KIND.rest) return null;
	if (about === 'function') return { op, arg: functionKey(tree, node) };
	if (about === 'node') return { op, arg: pathKey(tree, node) };
	if (about === 'kind') return KIND_NAMES[kind] ? { op, arg: KIND_NAMES[kind] } : null;
	return tree.strings[tree.binary[node]] === '' ? null : { op, arg: binaryKey(tree, node) };
}

/** Whether the function of the node calls itself anywhere, directly or not. */
export function recurses(tree: Tree, node: number): boolean {
	const { of } = treeFunctions(tree);
	for (let i = 1, end = 0; i < tree.count; i++) {
		if (of[i] !== of[node]) continue;
		if (i < end) return true;
		end = tree.end[i];
	}
	return false;
}

/** Null when there are as many as there may be. */
export function addStep(transforms: readonly Transform[], step: Transform): Transform[] | null {
	return transforms.length < TRANSFORMS_MAX ? [...transforms, step] : null;
}

export const isInverted = (transforms: readonly Transform[]): boolean => transforms.filter(({ op }) => op === 'i' || op === 'co').length % 2 === 1;

/*
 * Turned over, or back. To turn back, the step that turned goes, and with it those behind it that are about one place in the tree, which
 * would not be found any more. Callers of a function are turned back by turning them once more.
 */
export function toggleInverted(transforms: readonly Transform[]): Transform[] | null {
	const turned = transforms.map(({ op }) => op).lastIndexOf('i');
	if (!isInverted(transforms) || turned < 0) return addStep(transforms, { op: 'i', arg: '' });
	return transforms.filter((step, i) => i < turned || (i > turned && ABOUT[step.op] !== 'node'));
}

export type Grouping = '' | 'gf' | 'gl' | 'gb';

/** What frames stand for at the end: '' = functions. */
export const groupingOf = (transforms: readonly Transform[]): Grouping => {
	const ops = transforms.map(({ op }) => op).filter((op): op is 'gf' | 'gl' | 'gb' => op === 'gf' || op === 'gl' || op === 'gb');
	return ops[ops.length - 1] ?? '';
};

export function setGrouping(transforms: readonly Transform[], grouping: Grouping): Transform[] | null {
	const others = transforms.filter(({ op }) => op !== 'gf' && op !== 'gl' && op !== 'gb');
	return grouping === '' ? others : addStep(others, { op: grouping, arg: '' });
}

/*
 * The steps for the table, which has no callers to turn over: in a tree that is turned over, a node's self value is not the function's.
 * Those behind a turn that are about one place go, for it is none in the other tree.
 */
export function stepsForRows(transforms: readonly Transform[]): Transform[] {
	const turn = transforms.findIndex(({ op }) => op === 'i' || op === 'co');
	if (turn < 0) return [...transforms];
	return transforms.flatMap((step, i): Transform[] => {
		if (step.op === 'co')
			return [
				{ ...step, op: 'f' },
				{ ...step, op: 'cf' },
			];
		return step.op === 'i' || (i > turn && ABOUT[step.op] === 'node') ? [] : [step];
	});
}

/*
 * A tree that is turned over may have more nodes than can be made; then callers are left out (invert.ts). To have those below a node, only
 * the stacks through the functions from it up to the top are turned over. Null: they are already, or nothing can be said.
 */
const NARROWED_BY = 8; // functions
export function narrowInverted(transforms: readonly Transform[], tree: Tree, node: number): Transform[] | null {
	const turn = transforms.map(({ op }) => op === 'i' || op === 'co').lastIndexOf(true);
	if (turn < 0) return null;
	const more: Transform[] = [];
	for (let at = node; at > 0 && more.length < NARROWED_BY; at = tree.parent[at]) {
		const step = stepFor(tree, at, 'f');
		if (step && ![...transforms, ...more].some((known) => sameStep(known, step))) more.push(step);
	}
	const all = [...transforms.slice(0, turn), ...more, ...transforms.slice(turn)];
	return more.length > 0 && all.length <= TRANSFORMS_MAX ? all : null;
}

export const withoutStep = (transforms: readonly Transform[], index: number): Transform[] => transforms.filter((_, i) => i !== index);

export const stepsText = formatTransforms;
