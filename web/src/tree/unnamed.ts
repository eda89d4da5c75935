// SPDX-License-Identifier: Apache-2.0
/*
 * Addresses without a name. The server keeps each apart, as BINARY+0xOFFSET or 0xADDRESS: nothing is lost, but a stripped
 * binary then fills the graph with thousands of slivers. Here those of one binary with the same caller become one frame,
 * "[BINARY]", and what they call is merged below it. The page does so unless asked to show each.
 */
import * as T from '../base/texts';
import { Ids } from './ids';
import { checkFlame, type Flame } from './tree';

const ADDRESS = /^(?:(.*)\+)?0x[0-9a-f]+$/;

export function nameWithoutAddress(name: string): string | null {
	const match = name.includes('0x') ? ADDRESS.exec(name) : null;
	if (!match) return null;
	if (!match[1]) return T.flame.unknown;
	return match[1].startsWith('[') ? match[1] : `[${match[1]}]`; // [vdso] has its brackets already
}

// What each string is called as a name, all addresses of a binary alike; null where there are none.
function renameStrings(flame: Flame): { strings: string[]; renamed: Uint32Array } | null {
	const ids = new Map<string, number>();
	const strings = flame.strings.slice();
	const renamed = new Uint32Array(strings.length);
	flame.strings.forEach((text, i) => {
		const name = nameWithoutAddress(text);
		if (name !== null && !ids.has(name)) ids.set(name, strings.push(name) - 1);
		renamed[i] = name === null ? i : ids.get(name)!;
	});
	return ids.size > 0 ? { strings, renamed } : null;
}

// The nodes that become one with a sibling. Few do, mostly: what is below the others is what it was.
function findDuplicates({ nodes }: Flame, count: number, renamed: Uint32Array): Uint8Array {
	const duplicates = new Uint8Array(count);
	const known = new Ids();
	const first: number[] = []; // by id
	for (let i = 1; i < count; i++) {
		const name = renamed[nodes.name[i]];
		if (name === nodes.name[i]) continue;
		const before = known.count;
		const id = known.of(nodes.parent[i], name, nodes.file[i], nodes.binary[i], nodes.kind[i]);
		if (id === before) first.push(i);
		else duplicates[first[id]] = duplicates[i] = 1;
	}
	return duplicates;
}

export function mergeUnnamed(flame: Flame): Flame {
	const count = checkFlame(flame);
	const found = renameStrings(flame);
	if (!found) return flame;
	const { strings, renamed } = found;
	const { nodes } = flame;
	const duplicates = findDuplicates(flame, count, renamed);
	const place = new Int32Array(count); // old node -> new
	const first = new Int32Array(count); // new node -> the first old one that it is made of
	const parent = new Int32Array(count);
	const self = new Float64Array(count);
	const several = new Uint8Array(count); // of new nodes: it may get the same child twice
	const known = new Ids();
	const made: number[] = []; // by id in `known`: the new node
	let end = 0;
	for (let i = 0; i < count; i++) {
		const under = i === 0 ? 0 : place[nodes.parent[i]];
		let at = end;
		if (duplicates[i] === 1 || (i > 0 && several[under] === 1)) {
			const id = known.of(under, renamed[nodes.name[i]], nodes.file[i], nodes.binary[i], nodes.kind[i]);
			if (id < made.length) at = made[id];
			else made.push(at);
			several[at] = 1;
		}
		if (at === end) {
			parent[at] = under;
			first[at] = i;
			end++;
		}
		self[at] += nodes.self[i];
		place[i] = at;
	}
	const take = (column: ArrayLike<number>, out: Uint32Array | Uint8Array) => {
		for (let i = 0; i < end; i++) out[i] = column[first[i]];
		return out;
	};
	const name = take(nodes.name, new Uint32Array(end));
	for (let i = 0; i < end; i++) name[i] = renamed[name[i]];
	return {
		...flame,
		strings,
		nodes: {
			parent: parent.slice(0, end),
			name,
			file: take(nodes.file, new Uint32Array(end)),
			line: take(nodes.line, new Uint32Array(end)),
			binary: take(nodes.binary, new Uint32Array(end)),
			kind: take(nodes.kind, new Uint8Array(end)),
			self: self.slice(0, end),
		},
	};
}
