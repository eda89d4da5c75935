// SPDX-License-Identifier: Apache-2.0
// What a server has of the samples of a profiler of the whole machine: profilers.mjs URL COMMAND ARGUMENT...; exits with 0 if it is so. NAME is that of an
// executable or a thread: the first of the labels service_name (unknown_service:NAME), process_executable_name and thread_name that has it.
//
//   seen TYPE NAME...                 there are samples of each
//   selector TYPE NAME                prints the selector of its samples
//   used TYPE FILE                    each line of FILE is "NAME FROM_MS TO_MS CPU_MS": within 5 % or five standard errors that is what there is; of all
//                                     lines together within 5 %
//   named TYPE PERCENT NAME...        so much of their native samples has a function's name at the place of the sample; without NAME of all there are
//   frames TYPE NAME KIND FILE FUNCTION[:FIRST-LAST]...    there are such frames, each with lines in that range
//   table TYPE TITLE NAME...          prints the shares of `named`, as a row
//   ninety TYPE FILE                  prints for each program in FILE (see `used`), of tests/programs/ninety/, and the time there: "NAME SAMPLES NAMED HOT", its
//                                     samples, in % those that show hot() or cold(), and in % of these those in hot(). A program without samples has 0
import { createRequire } from 'node:module';
import { gunzipSync } from 'node:zlib';

const require = createRequire(new URL('../package.json', import.meta.url));
const { Profile } = require('pprof-format');
const [url, command, ...args] = process.argv.slice(2);
const get = async (path, parameters) => {
	const response = await fetch(`${url}${path}?${new URLSearchParams({ from: 'now-1h', to: 'now+1h', ...parameters })}`);
	if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
	return Buffer.from(await response.arrayBuffer());
};
const must = (condition, ...what) => {
	if (!condition) throw new Error(what.map((w) => (typeof w === 'string' ? w : JSON.stringify(w))).join(' '));
};
const query = async (selector, parameters) => JSON.parse(await get('/api/v1/query', { query: selector, max_nodes: '1000000', ...parameters }));
const selectorOf = async (type, name) => {
	for (const label of [`service_name="unknown_service:${name}"`, `process_executable_name="${name}"`, `thread_name="${name}"`])
		if ((await query(`${type}{${label}}`)).total > 0) return `${type}{${label}}`;
	throw new Error(`${name}: no samples`);
};
// [{ stack: [{ name, file, line, binary }], value }], frames leaf first.
async function samples(selector, range = {}) {
	const body = await get('/api/v1/pprof', { query: selector, symbols_wait: '20s', ...range }),
		profile = Profile.decode(body[0] === 0x1f ? gunzipSync(body) : body);
	const text = (at) => profile.stringTable.strings[Number(at)],
		functions = new Map(profile.function.map((f) => [f.id, { name: text(f.name), file: text(f.filename) }])),
		mappings = new Map(profile.mapping.map((m) => [m.id, text(m.filename)]));
	const locations = new Map(
		profile.location.map((l) => {
			const binary = mappings.get(l.mappingId),
				lines = l.line.map((line) => ({ ...functions.get(line.functionId), line: Number(line.line), binary }));
			return [l.id, lines.length ? lines : [{ name: '', binary }]];
		}),
	);
	return profile.sample.map((s) => ({ stack: s.locationId.flatMap((id) => locations.get(id)), value: Number(s.value[0]) }));
}
const sum = (list) => list.reduce((all, of) => all + of.value, 0);
const isNative = ({ stack }) => Boolean(stack[0]?.binary) && !/^\[|vmlinux/.test(stack[0].binary);
async function share(type, name) {
	const all = (await samples(name ? await selectorOf(type, name) : type)).filter(isNative),
		named = all.filter((of) => of.stack[0].name);
	return { total: sum(all), named: sum(named), unnamed: all.filter((of) => !of.stack[0].name).slice(0, 3) };
}

const commands = {
	async seen(type, ...names) {
		for (const name of names) await selectorOf(type, name);
	},
	async selector(type, name) {
		console.log(await selectorOf(type, name));
	},
	async used(type, file) {
		const { readFileSync } = await import('node:fs');
		let all = 0,
			allUsed = 0;
		for (const line of readFileSync(file, 'utf8').trim().split('\n')) {
			const [name, from, to, ms] = line.split(' ');
			const { total, period } = await query(await selectorOf(type, name), { from, to, exact: '1' });
			const used = Number(ms) * 1e6,
				slack = Math.max(0.05, 5 / Math.sqrt(used / period));
			console.log(`${name}: ${((100 * total) / used).toFixed(1)} % of ${ms} ms`);
			must(Math.abs(total / used - 1) <= slack, `${name}: more than ${(100 * slack).toFixed(1)} % off`);
			all += total;
			allUsed += used;
		}
		console.log(`all: ${((100 * all) / allUsed).toFixed(1)} %`);
		must(Math.abs(all / allUsed - 1) <= 0.05, 'more than 5 % off');
	},
	async named(type, percent, ...names) {
		for (const name of names.length ? names : ['']) {
			const { total, named, unnamed } = await share(type, name);
			must(total > 0, `${name}: no native samples`);
			must((100 * named) / total >= Number(percent), `${name}: ${((100 * named) / total).toFixed(1)} %; without a name`, unnamed);
		}
	},
	async frames(type, name, kind, file, ...functions) {
		const { flame } = await query(await selectorOf(type, name), { format: 'flame' }),
			{ strings, nodes } = flame;
		const all = await samples(await selectorOf(type, name));
		for (const wanted of functions) {
			const [, fn, first, last] = /^(.*?)(?::(\d+)-(\d+))?$/.exec(wanted);
			const found = nodes.name.map((_, i) => i).filter((i) => strings[nodes.name[i]] === fn && strings[nodes.file[i]].endsWith(file));
			must(found.length, `no ${fn} in ${file}; there are`, [...new Set(nodes.name.map((n) => strings[n]))].slice(0, 60));
			for (const i of found) must(nodes.kind[i] === Number(kind), `${fn} is of kind ${nodes.kind[i]}`);
			const lines = new Set(all.flatMap((of) => of.stack.filter((f) => f.name === fn && f.file.endsWith(file)).map((f) => f.line)));
			must(lines.size, `no lines of ${fn}`);
			if (first) for (const line of lines) must(line >= Number(first) && line <= Number(last), `${fn} has line ${line}`);
		}
	},
	async ninety(type, file) {
		const { readFileSync } = await import('node:fs');
		const has = (of, name) => of.stack.some((frame) => new RegExp(`(^|[^A-Za-z_])${name}($|[^A-Za-z_])`).test(frame.name ?? ''));
		for (const line of readFileSync(file, 'utf8').trim().split('\n')) {
			const [name, from, to] = line.split(' '),
				selector = await selectorOf(type, name).catch(() => '');
			const all = selector ? await samples(selector, { from, to }) : [],
				period = selector ? (await query(selector)).period : 1;
			const hot = sum(all.filter((of) => has(of, 'hot'))),
				cold = sum(all.filter((of) => has(of, 'cold') && !has(of, 'hot')));
			const percent = (part, whole) => (whole ? (100 * part) / whole : 0).toFixed(1);
			console.log(`${name} ${Math.round(sum(all) / period)} ${percent(hot + cold, sum(all))} ${percent(hot, hot + cold)}`);
		}
	},
	async table(type, title, ...names) {
		const rows = [];
		for (const name of names) {
			const { total, named } = await share(type, name);
			rows.push(`${name} ${total ? ((100 * named) / total).toFixed(1) : '-'}`);
		}
		const { total, named } = await share(type, '');
		console.log(`${title}: ${rows.join(', ')}; the machine ${((100 * named) / total).toFixed(1)} % of ${(total / 1e9).toFixed(0)} s`);
	},
};
try {
	must(commands[command], `unknown command ${command}`);
	await commands[command](...args);
} catch (error) {
	console.log(error.message);
	process.exit(1);
}
