// SPDX-License-Identifier: Apache-2.0
// What flame graphs of Pyroscope's API say.

// {"root;leaf": value} of a flame graph's levels; "" is the empty stack.
export function stacksOf(flamegraph) {
	const out = {};
	let above = [{ from: 0, to: Infinity, path: undefined }];
	(flamegraph?.levels ?? []).forEach(({ values }, depth) => {
		const level = [];
		let at = 0,
			parent = 0;
		for (let i = 0; i < values.length; i += 4) {
			const [offset, total, self, nameIndex] = values.slice(i, i + 4).map(Number);
			at += offset;
			while (above[parent].to <= at) parent++;
			const path = depth === 0 ? '' : above[parent].path ? `${above[parent].path};${flamegraph.names[nameIndex]}` : flamegraph.names[nameIndex];
			level.push({ from: at, to: at + total, path });
			if (self > 0) out[path] = (out[path] ?? 0) + self;
			at += total;
		}
		above = level;
	});
	return out;
}
