// SPDX-License-Identifier: Apache-2.0
/*
 * Addresses without a name. The server keeps each apart, as BINARY+0xOFFSET or 0xADDRESS: nothing is lost, but a stripped
 * binary then fills the graph with thousands of slivers. Here those of one binary with the same caller become one frame,
 * "[BINARY]", and what they call is merged below it. The page does so unless asked to show each.
 */
import * as T from '../texts';
import { checkFlame, type FlameJson } from './tree';

const ADDRESS = /^(?:(.*)\+)?0x[0-9a-f]+$/;

export function nameWithoutAddress(name: string): string | null {
	const match = ADDRESS.exec(name);
	if (!match) return null;
	if (!match[1]) return T.flame.unknown;
	return match[1].startsWith('[') ? match[1] : `[${match[1]}]`; // [vdso] has its brackets already
}

export function mergeUnnamed(json: FlameJson): FlameJson {
	checkFlame(json);
	const strings = json.strings.slice();
	const ids = new Map<string, number>();
	const renamed = json.strings.map((text, i) => {
		const name = nameWithoutAddress(text);
		if (name === null) return i;
		if (!ids.has(name)) ids.set(name, strings.push(name) - 1);
		return ids.get(name)!;
	});
	if (ids.size === 0) return json;

	const { nodes } = json;
	const merged: FlameJson['nodes'] = {
		parent: [],
		name: [],
		file: [],
		line: [],
		binary: [],
		kind: [],
		total: [],
		self: [],
	};
	const place = new Int32Array(nodes.parent.length); // old node -> new
	const several = new Set<number>(); // new nodes that may get the same child twice
	const known = new Map<string, number>();
	for (let i = 0; i < place.length; i++) {
		const parent = i === 0 ? 0 : place[nodes.parent[i]];
		const name = renamed[nodes.name[i]];
		const unnamed = i > 0 && name !== nodes.name[i];
		let at = -1;
		if (unnamed || several.has(parent)) {
			const key = `${parent}/${name}/${nodes.file[i]}/${nodes.binary[i]}/${nodes.kind[i]}`;
			at = known.get(key) ?? -1;
			if (at < 0) known.set(key, merged.parent.length);
			several.add(at < 0 ? merged.parent.length : at);
		}
		if (at < 0) {
			at = merged.parent.length;
			merged.parent.push(parent);
			merged.name.push(name);
			for (const column of ['file', 'line', 'binary', 'kind', 'total', 'self'] as const)
				merged[column].push(nodes[column][i]);
		} else {
			merged.total[at] += nodes.total[i];
			merged.self[at] += nodes.self[i];
		}
		place[i] = at;
	}
	return { ...json, strings, nodes: merged };
}
