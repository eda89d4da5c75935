// SPDX-License-Identifier: Apache-2.0
/*
 * The package of a function: what stands before it in its name. Go has "path/package.Type.method", C++ and Rust
 * "space::type::method", Java and others "a.b.Type.method". What is behind the first bracket is arguments. The rule is the server's
 * (docs/query.md, `top by package`), so that a colour here and a row there are about the same.
 */

/** '' when the name has none before it: the function then belongs to its binary. */
export function packageOf(name: string): string {
	const bracket = name.search(/[(<[{ ]/);
	const end = bracket < 0 ? name.length : bracket;
	let slash = 0;
	let colons = 0;
	let dot = 0;
	for (let i = 1; i < end; i++) {
		const c = name[i];
		if (c === '/') [slash, dot] = [i, 0];
		else if (c === ':' && name[i + 1] === ':') colons = i++;
		else if (c === '.' && (slash === 0 || dot === 0)) dot = i; // behind a slash the first, else the last
	}
	return name.slice(0, colons || dot);
}
