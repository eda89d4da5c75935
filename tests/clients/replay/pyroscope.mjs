// SPDX-License-Identifier: Apache-2.0
// node pyroscope.mjs WICK PYROSCOPE CLIENT FOLDER: sends what a client has sent (record.mjs) to Wick and to a server of Pyroscope, as a tenant of the client's
// name, and compares what both have then, by Pyroscope's API: the profile types, the names of labels, the label sets, and of each type and label set the
// total, and every stack with its value. Where the two differ on purpose (docs/ingest.md) both are brought to a common form by a rule of `differences`, whose
// name is printed.
import { gunzipSync } from 'node:zlib';
import { stacksOf } from '../../lib/flamegraph.mjs';
import { readRequests, send } from './requests.mjs';

const [wick, pyroscope, client, folder] = process.argv.slice(2);
const tenant = client.replace(/[^a-z0-9-]/g, '-');
const PATHS = /^\/(pyroscope\/)?ingest\?|^\/push\.v1\.PusherService\/Push|^\/v1development\/profiles|^\/opentelemetry\.proto\.collector\.profiles\./;
const problems = [];
const problem = (...what) => problems.push(what.map((w) => (typeof w === 'string' ? w : JSON.stringify(w))).join(' '));

const used = new Set(); // of what differs on purpose

// ---- the same requests for both ----
const seen = new Set();
let sent = 0,
	refused = 0;
for (const request of await readRequests(folder)) {
	if (!PATHS.test(request.path)) continue;
	// Of which Pyroscope takes the whole part of each weight, in the unit of the file: nothing of 0.01 s.
	if (/[?&]format=speedscope/.test(request.path)) {
		used.add('speedscope');
		continue;
	}
	sent++;
	const answers = await Promise.all([wick, pyroscope].map((url) => send(url, request, { 'x-scope-orgid': tenant })));
	const good = answers.map((a) => a.status === 200 && !Number(a.grpc ?? 0));
	if (!good[0] && !good[1]) refused++;
	if (good[0] !== good[1]) problem(`${request.method} ${request.path} of ${request.body.length} bytes: Wick`, answers[0], 'Pyroscope', answers[1]);
}

// ---- what both have ----
const range = { start: String(Date.now() - 7200000), end: String(Date.now() + 3600000) };
async function call(url, method, request) {
	const response = await fetch(`${url}/querier.v1.QuerierService/${method}`, {
		method: 'POST',
		// Without this Pyroscope leaves labels with dots in their names out.
		headers: { 'content-type': 'application/json', accept: 'application/json;allow-utf8-labelnames=true', 'x-scope-orgid': tenant },
		body: JSON.stringify({ ...range, ...request }),
	});
	const text = await response.text();
	if (!response.ok) throw new Error(`${url} ${method} ${JSON.stringify(request)}: ${response.status} ${text}`);
	return JSON.parse(text);
}

// What differs on purpose, by docs/ingest.md: each brings one server's form to the other's, and says so.
const use = (what, from, to) => {
	if (from !== to) used.add(what);
	return to;
};
const OF_TYPE = ['__name__', '__period_type__', '__period_unit__', '__profile_type__', '__type__', '__unit__'];
const labelName = (name) => use('names of labels', name, name.replaceAll(/[^a-zA-Z0-9_]/g, '_'));
const isInternal = (name) => name.startsWith('__') && !OF_TYPE.includes(name);
const typeName = (type) => use('CPU time is process_cpu', type, type.replace(/^(wall|cpu):cpu:(nanoseconds|count):/, 'process_cpu:cpu:$2:'));
// slices.Grow[go.shape.[]uint8,go.shape.uint8] is slices.Grow to Pyroscope.
function withoutTypeParameters(name) {
	const start = name.indexOf('[go.shape.');
	for (let i = start, depth = 0; start >= 0 && i < name.length; i++) {
		depth += name[i] === '[' ? 1 : name[i] === ']' ? -1 : 0;
		if (!depth) return name.slice(0, start) + withoutTypeParameters(name.slice(i + 1));
	}
	return name;
}
function frameName(name) {
	const plain = use('type parameters of Go', name, withoutTypeParameters(name));
	return use('frames without a function', plain, plain.replace(/^0x[0-9a-f]+$/, ''));
}
// The Collector's exporters refer to names and values of resource attributes by their places in the dictionary, which Pyroscope does not follow.
const ofResource = client.startsWith('otlp-pdata') ? ['service_name', 'host_name'] : [];
function labelsOf(pairs) {
	const labels = new Map(pairs.filter(({ name, value }) => !isInternal(name) && value).map(({ name, value }) => [labelName(name), value]));
	for (const [name, value, rule] of [
		['service_name', 'unknown_service', 'no service'],
		['pyroscope_spy', 'unknown', 'no spyName'],
	])
		if (labels.get(name) === value) {
			labels.delete(name);
			used.add(rule);
		}
	if (labels.has('__profile_type__')) {
		const type = typeName(labels.get('__profile_type__'));
		labels.set('__profile_type__', type).set('__name__', type.split(':')[0]);
	}
	for (const name of ofResource) if (labels.delete(name)) used.add('attributes of resources by reference');
	return JSON.stringify([...labels].sort());
}
// With async-profiler's event=wall, what is counted beside wall-clock samples counts as often as those to Pyroscope, if it comes behind one.
const behindWall = (type) => !/^(process_cpu|wall):/.test(type);
const add = (to, key, value) => (to[key] = (to[key] ?? 0) + value);
async function stateOf(url) {
	const types = ((await call(url, 'ProfileTypes', {})).profileTypes ?? []).map((t) => t.ID).sort();
	const names = ((await call(url, 'LabelNames', {})).names ?? []).sort();
	const sets = [...new Set(((await call(url, 'Series', { matchers: [], labelNames: [] })).labelsSet ?? []).map((s) => labelsOf(s.labels)))].sort();
	const totals = {},
		stacks = {};
	for (const profileTypeID of types) {
		const type = typeName(profileTypeID);
		const { series = [] } = await call(url, 'SelectSeries', {
			profileTypeID,
			labelSelector: '{}',
			step: 10800,
			groupBy: names.filter((n) => !n.startsWith('__')),
		});
		let of = '{}';
		for (const { labels = [], points = [] } of series) {
			if (behindWall(type) && labels.some((l) => l.name === 'jfr_event' && l.value === 'wall')) {
				used.add('events behind a WallClockSample');
				of = '{jfr_event!="wall"}';
				continue;
			}
			add(
				totals,
				`${type} ${labelsOf(labels)}`,
				points.reduce((sum, { value }) => sum + (value ?? 0), 0),
			);
		}
		const { flamegraph } = await call(url, 'SelectMergeStacktraces', { profileTypeID, labelSelector: of, maxNodes: '1000000' });
		stacks[type] ??= {};
		for (const [path, value] of Object.entries(stacksOf(flamegraph)))
			if (!path) used.add('stacks without frames');
			else add(stacks[type], path.split(';').map(frameName).join(';'), value);
	}
	return {
		types: types.map(typeName).sort(),
		names: names
			.filter((n) => !isInternal(n))
			.map(labelName)
			.filter((n) => !ofResource.includes(n))
			.sort(),
		sets,
		totals,
		stacks,
	};
}
const states = await Promise.all([wick, pyroscope].map(stateOf));

// ---- the comparison ----
function compareLists(what, [ours, theirs]) {
	const only = (a, b) => a.filter((x) => !b.includes(x));
	const [left, right] = [only(ours, theirs), only(theirs, ours)];
	if (left.length) problem(`${what}: only Wick has`, left.slice(0, 6).join('  '), `(${left.length})`);
	if (right.length) problem(`${what}: only Pyroscope has`, right.slice(0, 6).join('  '), `(${right.length})`);
}
function compareValues(what, [ours, theirs]) {
	compareLists(what, [Object.keys(ours), Object.keys(theirs)]);
	const other = Object.keys(ours).filter((key) => key in theirs && ours[key] !== theirs[key]);
	for (const key of other.slice(0, 4)) problem(`${what} ${key}: Wick has ${ours[key]}, Pyroscope ${theirs[key]}`);
	if (other.length > 4) problem(`${what}: ${other.length} differ`);
}
compareLists(
	'types',
	states.map((s) => s.types),
);
compareLists(
	'label names',
	states.map((s) => s.names),
);
compareLists(
	'label sets',
	states.map((s) => s.sets),
);
compareValues(
	'total',
	states.map((s) => s.totals),
);
for (const type of states[0].types)
	if (states[1].stacks[type])
		compareValues(
			`stacks of ${type}`,
			states.map((s) => s.stacks[type]),
		);
const stacks = Object.values(states[0].stacks).reduce((n, s) => n + Object.keys(s).length, 0);
console.log(`${client}: ${sent} requests (${refused} refused by both): ${states[0].types.length} types, ${states[0].sets.length} label sets, ${stacks} stacks`);
if (used.size) console.log(`differs as documented: ${[...used].sort().join(', ')}`);
for (const line of problems) console.log(line.length > 1500 ? `${line.slice(0, 1500)}...` : line);
process.exit(problems.length || !sent ? 1 : 0);
