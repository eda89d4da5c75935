// SPDX-License-Identifier: Apache-2.0
/*
 * What can be done with a frame that makes another graph of this one: entries of its menu, and single keys (keymap.ts) while the graph
 * has the focus. Keys are those of Firefox Profiler's call tree where it has the same (f, F, m, M, c, C, d); its r is taken by
 * "refresh" on this page, so recursion has R alone.
 */
import * as T from '../base/texts';
import { addStep, recurses, stepFor, toggleInverted } from '../tree/steps';
import type { Transform, TransformOp } from '../tree/transform';
import type { Tree } from '../tree/tree';
import { keyOf, KEYS, type Action as KeyAction, type Does } from '../ui/keymap';

export interface Action {
	op: TransformOp;
	key?: string;
	title: string;
	group: number; // entries of a group stand together
}

const GROUPS: [TransformOp & KeyAction<'steps'>, number][] = [
	['ff', 1],
	['fs', 1],
	['f', 1],
	['co', 1],
	['ob', 1],
	['ok', 1],
	['d', 2],
	['mf', 2],
	['mn', 2],
	['cf', 2],
	['r', 2],
	['cb', 2],
];
const ACTIONS: Action[] = GROUPS.map(([op, group]) => ({ op, group, key: keyOf('steps', op), title: T.steps.menu[op] }));

/** What makes sense for a frame. */
export function actionsFor(tree: Tree, node: number): Action[] {
	return ACTIONS.filter(({ op }) => stepFor(tree, node, op) !== null && (op !== 'r' || recurses(tree, node)));
}

/** The steps with that one behind them; null when it makes no sense, or there are too many. */
export function withStep(transforms: readonly Transform[], tree: Tree, node: number, op: TransformOp): Transform[] | null {
	const step = stepFor(tree, node, op);
	return step && addStep(transforms, step);
}

/** What an action of the graph makes of the steps; null if nothing. */
export function stepsOf(action: KeyAction<'steps'>, transforms: readonly Transform[], tree: Tree, node: number): Transform[] | null {
	if (action === 'invert') return toggleInverted(transforms);
	if (action === 'back') return transforms.length > 0 ? transforms.slice(0, -1) : null;
	return withStep(transforms, tree, node, action);
}

/** Keys that do so. on: takes the steps. */
export function stepKeys(transforms: readonly Transform[], tree: Tree, node: number, on: (steps: Transform[]) => void): Does<'steps'> {
	const does = (action: KeyAction<'steps'>) => () => {
		const next = stepsOf(action, transforms, tree, node);
		if (next === null) return false;
		on(next);
		return true;
	};
	return Object.fromEntries(Object.keys(KEYS.steps).map((action) => [action, does(action as KeyAction<'steps'>)])) as Does<'steps'>;
}
