// SPDX-License-Identifier: Apache-2.0
// Stacks of which everything is known: two binaries, functions of one name in several files, inlined calls, recursion, addresses
// without a name. And a pprof profile of such.
import { intField, bytesField, varint } from '../harness.mjs';

export const PERIOD = 10_000_000;
export const reversed = (list) => [...list].reverse();
export const app = { file: '/usr/bin/app', build: 'aa11', start: 0x400000, limit: 0x500000, offset: 0x1000 },
	lib = { file: '/usr/lib/libx.so', build: 'bb22', start: 0x7000000, limit: 0x7100000, offset: 0 };
export const line = (name, file, number, start = 1) => ({ name, system: `_Z${name}`, file, line: number, start });
export const at = (mapping, address, ...lines) => ({ mapping, address: mapping.start + address, lines });
export const main = at(app, 0x10, line('main', 'src/main.c', 10)),
	work = at(app, 0x20, line('work', 'src/work.c', 20)),
	workElsewhere = at(app, 0x28, line('work', 'src/work.c', 21)),
	// inner is inlined into outer
	inlined = at(app, 0x30, line('inner', 'src/inner.h', 5), line('outer', 'src/work.c', 30)),
	parse = at(lib, 0x40, line('Parse', '/build/src/parse.c', 40)),
	parseOfApp = at(app, 0x50, line('Parse', 'src/other.c', 50)),
	unnamed = at(lib, 0x60),
	unnamedToo = at(lib, 0x70);
export const stacks = [
	{ thread: 'one', value: 100, frames: [main, work] },
	{ thread: 'one', value: 50, frames: [main, workElsewhere, parse] },
	{ thread: 'two', value: 30, frames: [main, work, inlined] },
	{ thread: 'two', value: 20, frames: [main, inlined, unnamed] },
	{ thread: 'two', value: 7, frames: [main, inlined, unnamedToo] },
	{ thread: '', value: 5, frames: [main, parseOfApp, work, parse, work] }, // it calls itself
	{ thread: '', value: 3, frames: [unnamed, main, parseOfApp] },
].map((s) => ({ ...s, frames: reversed(s.frames) })); // leaf first, as pprof has them

export function pprof(list, timeMs, { type = 'cpu', unit = 'nanoseconds', durationNs = 10_000_000_000, period = PERIOD } = {}) {
	const strings = [''],
		id = (text) => (strings.includes(text) ? strings.indexOf(text) : strings.push(text) - 1),
		tables = { location: [], function: [], mapping: [] };
	const number = (table, item) => (tables[table].includes(item) ? tables[table].indexOf(item) : tables[table].push(item) - 1) + 1;
	const out = [...bytesField(1, [...intField(1, id(type)), ...intField(2, id(unit))])];
	for (const { frames, value } of list)
		out.push(
			...bytesField(2, [
				...bytesField(
					1,
					frames.flatMap((f) => varint(number('location', f))),
				),
				...bytesField(2, varint(value)),
			]),
		);
	for (const l of tables.location) {
		const lines = l.lines.flatMap((one) => bytesField(4, [...intField(1, number('function', one)), ...intField(2, one.line)]));
		out.push(...bytesField(4, [...intField(1, number('location', l)), ...intField(2, number('mapping', l.mapping)), ...intField(3, l.address), ...lines]));
	}
	for (const m of tables.mapping) {
		const texts = [...intField(5, id(m.file)), ...intField(6, id(m.build)), ...intField(7, 1)];
		out.push(...bytesField(3, [...intField(1, number('mapping', m)), ...intField(2, m.start), ...intField(3, m.limit), ...intField(4, m.offset), ...texts]));
	}
	for (const f of tables.function) {
		const texts = [...intField(2, id(f.name)), ...intField(3, id(f.system)), ...intField(4, id(f.file)), ...intField(5, f.start)];
		out.push(...bytesField(5, [...intField(1, number('function', f)), ...texts]));
	}
	out.push(...intField(9, BigInt(timeMs) * 1000000n), ...(durationNs ? intField(10, durationNs) : []));
	out.push(...bytesField(11, [...intField(1, id('cpu')), ...intField(2, id('nanoseconds'))]), ...(period ? intField(12, period) : []));
	for (const text of strings) out.push(...bytesField(6, text));
	return Buffer.from(out);
}
