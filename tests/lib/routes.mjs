// SPDX-License-Identifier: Apache-2.0
// The routes of the server and what each of them needs, read from the tables in its sources.
import { readFileSync, readdirSync } from 'node:fs';

const files = (folder) =>
	readdirSync(folder, { withFileTypes: true }).flatMap((entry) =>
		entry.isDirectory()
			? files(`${folder}/${entry.name}`)
			: /\.[ch]$/.test(entry.name) && !/_test\.c$|^test_/.test(entry.name)
				? [`${folder}/${entry.name}`]
				: [],
	);
const definitions = (text) =>
	new Map([...text.matchAll(/#define\s+(\w+)\s+((?:"[^"]*"|\w+)(?:[ \t]+(?:"[^"]*"|\w+))*)[ \t]*(?:\/\*.*)?$/gm)].map(([, name, value]) => [name, value]));

// [{ method, path, permission }]; a path may end with '*'. Permissions are as in enum permission, in small letters, '_' as a space: "read server".
export function readRoutes() {
	const sources = [...files('src/server'), 'src/control/self_profile.h', 'src/control/protocol.h'].map((name) => ({ name, text: readFileSync(name, 'utf8') }));
	const everywhere = new Map(sources.flatMap(({ text }) => [...definitions(text)]));
	const routes = [];
	for (const { name, text } of sources) {
		const own = definitions(text);
		const resolve = (expression, depth = 0) =>
			(expression.match(/"[^"]*"|\w+/g) ?? [])
				.map((part) =>
					part.startsWith('"')
						? part.slice(1, -1)
						: depth < 5 && (own.has(part) || everywhere.has(part))
							? resolve(own.get(part) ?? everywhere.get(part), depth + 1)
							: `?${part}?`,
				)
				.join('');
		let rows = 0;
		const add = (method, path, permission) =>
			routes.push({ method, path: resolve(path), permission: permission.replace('PERMIT_', '').replace('_', ' ').toLowerCase() });
		for (const [, method, path, permission] of text.matchAll(/NET_(?:STREAM_)?ROUTE\(\s*"(\w+)",\s*([^,]+),\s*(PERMIT_\w+),/g)) {
			add(method, path, permission);
			rows++;
		}
		for (const [, permission] of text.matchAll(/SELF_PROFILE_ROUTES\((PERMIT_\w+)\)/g)) {
			rows++;
			for (const path of ['SELF_PROFILE_INDEX', 'SELF_PROFILE_INDEX "/"', 'SELF_PROFILE_PATH', 'SELF_PROFILE_HEAP_PATH', 'SELF_PROFILE_ALLOCS_PATH'])
				add('GET', path, permission);
		}
		// Procedures: {PATH, PERMISSION, request, answer, handler, flags}; Parca's are below /api, too.
		for (const [, macro, path, permission, rest] of text.matchAll(
			/(PARCA_METHOD\(|\{)\s*((?:"[^"]*"|[A-Z_]+)(?:\s+"[^"]*")?),\s*(PERMIT_\w+),([^;]*?)[)}],/g,
		)) {
			rows++;
			const reads = /RPC_READ_ONLY|SLOW_READ/.test(rest);
			for (const prefix of macro === '{' ? [''] : ['', '/api'])
				for (const method of reads ? ['POST', 'GET', 'OPTIONS'] : ['POST', 'OPTIONS']) add(method, `"${prefix}" ${path}`, permission);
		}
		// Each permission that a file names is one of a row that was found; but for those that decide, and name them all.
		const named = /core\/permission\.[ch]$|http\/access\.c$/.test(name) ? rows : (text.match(/\bPERMIT_[A-Z_]+/g) ?? []).length;
		if (named !== rows) throw new Error(`${name}: ${named} permissions, but ${rows} rows of routes were found`);
	}
	return routes.filter((route, i) => routes.findIndex((r) => r.method === route.method && r.path === route.path) === i);
}

// The route that the server takes for a call: the longest path that matches, an exact one before a prefix of the same length.
export const findRoute = (routes, method, path) =>
	routes
		.filter((r) => r.method === method && (r.path.endsWith('*') ? path.startsWith(r.path.slice(0, -1)) : r.path === path))
		.sort((a, b) => a.path.length - b.path.length || a.path.endsWith('*') - b.path.endsWith('*') || 0)
		.at(-1);
