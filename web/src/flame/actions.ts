// SPDX-License-Identifier: Apache-2.0
/*
 * What can be done with a frame that makes another graph of this one: entries of its menu, and single keys while the graph has the
 * focus. Keys are those of Firefox Profiler's call tree where it has the same (f, F, m, M, c, C, d); its r is taken by
 * "refresh" on this page, so recursion has R alone.
 */
import * as T from '../texts';
import { addStep, recurses, stepFor, toggleInverted } from './steps';
import type { Transform, TransformOp } from './transform';
import type { Tree } from './tree';

export interface Action {
	op: TransformOp;
	key?: string;
	title: string;
	group: number; // entries of a group stand together
}

const ACTIONS: Action[] = [
	{ op: 'ff', key: 'f', title: T.steps.menu.ff, group: 1 },
	{ op: 'fs', key: 'F', title: T.steps.menu.fs, group: 1 },
	{ op: 'f', key: 't', title: T.steps.menu.f, group: 1 },
	{ op: 'co', key: 'u', title: T.steps.menu.co, group: 1 },
	{ op: 'ob', key: 'o', title: T.steps.menu.ob, group: 1 },
	{ op: 'ok', key: 'k', title: T.steps.menu.ok, group: 1 },
	{ op: 'd', key: 'd', title: T.steps.menu.d, group: 2 },
	{ op: 'mf', key: 'm', title: T.steps.menu.mf, group: 2 },
	{ op: 'mn', key: 'M', title: T.steps.menu.mn, group: 2 },
	{ op: 'cf', key: 'c', title: T.steps.menu.cf, group: 2 },
	{ op: 'r', key: 'R', title: T.steps.menu.r, group: 2 },
	{ op: 'cb', key: 'C', title: T.steps.menu.cb, group: 2 },
];

/** What makes sense for a frame. */
export function actionsFor(tree: Tree, node: number): Action[] {
	return ACTIONS.filter(({ op }) => stepFor(tree, node, op) !== null && (op !== 'r' || recurses(tree, node)));
}

/** The steps with that one behind them; null when it makes no sense, or there are too many. */
export function withStep(transforms: readonly Transform[], tree: Tree, node: number, op: TransformOp): Transform[] | null {
	const step = stepFor(tree, node, op);
	return step && addStep(transforms, step);
}

/** What a key of the graph makes of the steps; null if nothing. */
export function stepsOfKey(key: string, transforms: readonly Transform[], tree: Tree, node: number): Transform[] | null {
	if (key === 'i') return toggleInverted(transforms);
	const action = ACTIONS.find((a) => a.key === key);
	return action ? withStep(transforms, tree, node, action.op) : null;
}
