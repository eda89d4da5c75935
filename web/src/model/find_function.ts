// SPDX-License-Identifier: Apache-2.0
// Functions of a tree by what the URL says of them.
import { NO_FUNCTION, treeFunctions } from '../tree/functions';
import { isUnnamed, type Tree } from '../tree/tree';
import { functionSums } from './callgraph';

/** Those of that name, by falling total. file, binary: null for whichever, '' for the unknown one. */
export function functionsNamed(tree: Tree, name: string, file: string | null, binary: string | null): number[] {
	const { first } = treeFunctions(tree);
	const { total } = functionSums(tree);
	const found: number[] = [];
	first.forEach((node, fn) => {
		const { strings } = tree;
		if (total[fn] <= 0 || strings[tree.name[node]] !== name) return;
		if (file !== null && strings[tree.file[node]] !== file) return;
		if (binary !== null && strings[tree.binary[node]] !== binary) return;
		found.push(fn);
	});
	return found.sort((a, b) => total[b] - total[a] || a - b);
}

/** What costs most by itself; if any has a name, one that has. NO_FUNCTION if there is none. */
export function costliestFunction(tree: Tree): number {
	const { first } = treeFunctions(tree);
	const { self } = functionSums(tree);
	const best = (named: boolean): number => {
		let most = NO_FUNCTION;
		first.forEach((node, fn) => {
			if (self[fn] <= 0 || (most !== NO_FUNCTION && self[fn] <= self[most])) return;
			if (!named || !isUnnamed(tree.strings[tree.name[node]])) most = fn;
		});
		return most;
	};
	const named = best(true);
	return named === NO_FUNCTION ? best(false) : named;
}
