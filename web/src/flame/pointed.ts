// SPDX-License-Identifier: Apache-2.0
/*
 * What is pointed at or chosen in the table or the graph; the other one is notified. Not part of the page's state: it changes with every
 * move of the pointer, and only those who listen draw anew.
 */
import type { Row } from '../model/rows';
import type { Tree } from '../tree/tree';

/** Absent: whatever. */
export type Target = Partial<Pick<Row, 'name' | 'file' | 'binary'>>;
export type Place = 'graph' | 'table';

export interface PointedChange {
	target: Target | null; // null = nothing any more
	from: Place;
	chosen: boolean; // by a click or the keyboard; otherwise pointed at
}

export class Pointed {
	private readonly listeners = new Set<(change: PointedChange) => void>();
	private last: Target | null = null;

	notify(target: Target | null, from: Place, chosen = false): void {
		if (target === null && this.last === null) return;
		this.last = target;
		for (const listener of this.listeners) listener({ target, from, chosen });
	}

	/** Returns what ends it. */
	listen(listener: (change: PointedChange) => void): () => void {
		this.listeners.add(listener);
		return () => this.listeners.delete(listener);
	}
}

export function fits(target: Target, of: { name: string; file: string; binary: string }): boolean {
	return (target.name ?? of.name) === of.name && (target.file ?? of.file) === of.file && (target.binary ?? of.binary) === of.binary;
}

export function nodeFits(target: Target, tree: Tree, node: number): boolean {
	if (node === 0) return false;
	const [name, file, binary] = [tree.name, tree.file, tree.binary].map((column) => tree.strings[column[node]]);
	return fits(target, { name, file, binary });
}
