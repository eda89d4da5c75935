// SPDX-License-Identifier: Apache-2.0
// What the scripts of tests/clients/ check about a server: node stored.mjs URL [--wait] COMMAND ARGUMENT... Exits with 0 if it is so, with --wait as soon
// as it is, else prints what is there; after a minute with --wait.
//
//   types TYPE...                     the profile types are these and no others
//   total SELECTOR VALUE PERCENT      the sum of the selector is VALUE, give or take
//   split SELECTOR HEAVY LIGHT        of the stacks with a function that matches HEAVY or LIGHT, HEAVY has 70 %: within 2 points, or five standard errors
//   above SELECTOR FUNCTION VALUE     the total of functions that match is more than this
//   names SELECTOR FUNCTION...        each matches a function; with ! in front, none
//   series SELECTOR COUNT             number of series
//   labels NAME=VALUE...              some series have these labels; NAME=: none has one of that name
//   refused COUNT                     requests refused
//   pyroscope TYPE SELECTOR HEAVY LIGHT   split, by SelectMergeStacktraces of Pyroscope's API
const [url, ...rest] = process.argv.slice(2);
const attempts = rest[0] === '--wait' ? 120 : 1;
const [command, ...args] = attempts > 1 ? rest.slice(1) : rest;
const range = { from: 'now-2h', to: 'now+1h' };
const get = async (path, parameters) => {
	const response = await fetch(`${url}${path}?${new URLSearchParams(parameters)}`);
	const text = await response.text();
	if (!response.ok) throw new Error(`${path}: ${response.status}: ${text}`);
	return JSON.parse(text);
};
const query = (selector) => get('/api/v1/query', { query: selector, ...range, format: 'flame', max_nodes: '1000000' });
const must = (condition, ...what) => {
	if (!condition) throw new Error(what.map((w) => (typeof w === 'string' ? w : JSON.stringify(w))).join(' '));
};
// Total of the stacks that have a function that matches, counted once each, in a flame graph's nodes.
const totalOf = ({ strings, nodes }, pattern) => {
	const expression = new RegExp(pattern);
	const inside = [];
	let sum = 0;
	for (let i = 0; i < nodes.parent.length; i++) {
		const above = i > 0 && inside[nodes.parent[i]];
		const own = expression.test(strings[nodes.name[i]]);
		inside[i] = above || own;
		if (own && !above) sum += nodes.total[i];
	}
	return sum;
};
const checkSplit = (heavy, light, period, what) => {
	must(heavy > 0 && light > 0, what, `heavy ${heavy}, light ${light}`);
	const share = heavy / (heavy + light);
	const samples = (heavy + light) / (period || 1e7);
	const tolerance = Math.max(0.02, 5 * Math.sqrt((0.7 * 0.3) / samples));
	must(Math.abs(share - 0.7) <= tolerance, what, `heavy has ${share}, of ${samples} samples`);
};
const namesOf = (strings, nodes) => [...new Set(nodes.name.map((n) => strings[n]))];

const commands = {
	async types(...wanted) {
		const types = (await get('/api/v1/types', range)).types.map((t) => t.name).sort();
		must(types.join('\n') === wanted.sort().join('\n'), 'there are', types);
	},
	async total(selector, value, percent) {
		const { total } = await query(selector);
		must(Number(value) > 0, 'nothing to compare with');
		must(Math.abs(total - value) <= (value * percent) / 100, `the total is ${total}, ${((100 * total) / value).toFixed(1)} % of ${value}`);
	},
	async split(selector, heavy, light) {
		const { flame, period } = await query(selector);
		checkSplit(totalOf(flame, heavy), totalOf(flame, light), period, namesOf(flame.strings, flame.nodes).slice(0, 60));
	},
	async above(selector, name, value) {
		const { flame } = await query(selector);
		const total = totalOf(flame, name);
		must(total > Number(value), `${name} has ${total}; there are`, namesOf(flame.strings, flame.nodes).slice(0, 60));
	},
	async names(selector, ...patterns) {
		const { flame } = await query(selector);
		const names = namesOf(flame.strings, flame.nodes);
		for (const pattern of patterns) {
			const not = pattern.startsWith('!');
			const found = names.some((n) => new RegExp(not ? pattern.slice(1) : pattern).test(n));
			must(found !== not, pattern, 'in', names.slice(0, 100));
		}
	},
	async series(selector, count) {
		const { stats } = await query(selector);
		must(stats.series === Number(count), `${stats.series} series`);
	},
	async labels(...pairs) {
		for (const pair of pairs) {
			const [name, value] = pair.split(/=(.*)/s);
			const there = (await get(`/api/v1/label/${name}/values`, range)).values.map((v) => v.value);
			must(value ? there.includes(value) : there.length === 0, `${name} is`, there);
		}
	},
	async refused(count) {
		const text = await (await fetch(`${url}/metrics`)).text();
		const refused = [...text.matchAll(/^wick_ingest_refused_total(?:\{[^}]*\})? (\d+)/gm)].reduce((sum, [, n]) => sum + Number(n), 0);
		must(refused === Number(count), text.match(/^wick_ingest.*$/gm));
	},
	async pyroscope(profileTypeID, labelSelector, heavy, light) {
		const response = await fetch(`${url}/querier.v1.QuerierService/SelectMergeStacktraces`, {
			method: 'POST',
			headers: { 'content-type': 'application/json' },
			body: JSON.stringify({ profileTypeID, labelSelector, start: Date.now() - 7200000, end: Date.now() + 3600000, maxNodes: 100000 }),
		});
		const answer = await response.json();
		must(response.ok, answer);
		// Levels of [offset, total, self, name]; a function that calls itself counts once.
		const { names, levels } = answer.flamegraph;
		const sum = (pattern) => {
			const expression = new RegExp(pattern);
			const ranges = [];
			let value = 0;
			for (const level of levels) {
				let at = 0;
				const numbers = level.values.map(Number);
				for (let i = 0; i < numbers.length; i += 4) {
					at += numbers[i];
					const [from, to] = [at, at + numbers[i + 1]];
					at = to;
					if (!expression.test(names[numbers[i + 3]]) || ranges.some(([a, b]) => a <= from && to <= b)) continue;
					ranges.push([from, to]);
					value += to - from;
				}
			}
			return value;
		};
		checkSplit(sum(heavy), sum(light), 0, names);
	},
};
must(commands[command], `unknown command ${command}`);
for (let i = 1; ; i++)
	try {
		await commands[command](...args);
		break;
	} catch (error) {
		if (i < attempts) {
			await new Promise((resolve) => setTimeout(resolve, 500));
			continue;
		}
		console.log(error.message);
		process.exit(1);
	}
