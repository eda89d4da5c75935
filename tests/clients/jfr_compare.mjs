// SPDX-License-Identifier: Apache-2.0
// Uploads recordings of Java to a Wick server as Pyroscope's agent does, and compares what it stored, as Pyroscope's clients see it, with what Pyroscope's
// own parser makes of the same bytes (tests/clients/jfr_oracle): types, label sets, and each stack with its value.
//
//   node jfr_compare.mjs URL ORACLE NAME RECORDING [LABELS]
//
// JFR_TYPES: profile types that the recording must have, besides others; blanks between. Prints what was compared; exits with 1 and the first difference.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { stacksOf } from '../lib/flamegraph.mjs';
import { form } from '../lib/jfr.mjs';

const [url, oracle, name, recording, labels] = process.argv.slice(2);
const from = Math.floor(Date.now() / 1000) - 1800,
	until = from + 10,
	rate = 50;
const fail = (...what) => {
	console.log(`${name}: ${what.map((w) => (typeof w === 'string' ? w : JSON.stringify(w))).join(' ')}`);
	process.exit(1);
};
const expected = JSON.parse(
	execFileSync(oracle, [name, 'javaspy', from, until, rate, recording, ...(labels ? [labels] : [])].map(String), { maxBuffer: 1 << 30, encoding: 'utf8' }),
);
const { body, type } = form({ jfr: readFileSync(recording), ...(labels ? { labels: readFileSync(labels) } : {}) });
const parameters = new URLSearchParams({ name, from, until, sampleRate: rate, spyName: 'javaspy', format: 'jfr' });
const upload = await fetch(`${url}/ingest?${parameters}`, { method: 'POST', body, headers: { 'content-type': type } });
if (upload.status !== 200) fail('the upload is refused:', upload.status, await upload.text());

const call = async (method, request) => {
	const response = await fetch(`${url}/querier.v1.QuerierService/${method}`, {
		method: 'POST',
		body: JSON.stringify({ start: (from - 60) * 1000, end: (until + 60) * 1000, ...request }),
		headers: { 'content-type': 'application/json' },
	});
	const text = await response.text();
	if (!response.ok) fail(method, response.status, text);
	return JSON.parse(text);
};
const keyOf = (profileType, all) =>
	JSON.stringify([
		profileType,
		...Object.entries(all)
			.filter(([label]) => !label.startsWith('__'))
			.sort(),
	]);
const stored = (await call('Series', { matchers: [`{service_name="${name}"}`] })).labelsSet ?? [];
const mine = stored.map(({ labels: pairs }) => {
	const all = Object.fromEntries(pairs.map((pair) => [pair.name, pair.value]));
	return keyOf(all.__profile_type__, all);
});
const series = expected.series ?? [];
const theirs = series.map((one) => keyOf(one.type, one.labels));
for (const key of theirs) if (!mine.includes(key)) fail('only Pyroscope has', key, 'here are', mine.slice(0, 5));
for (const key of mine) if (!theirs.includes(key)) fail('only Wick has', key);

const names = [...new Set(series.flatMap((one) => Object.keys(one.labels)))];
let stacks = 0,
	more = 0;
for (const one of series) {
	const labelSelector = `{${names.map((label) => `${label}="${(one.labels[label] ?? '').replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`).join(',')}}`;
	const { flamegraph } = await call('SelectMergeStacktraces', { profileTypeID: one.type, labelSelector, maxNodes: 1048576 });
	const found = stacksOf(flamegraph);
	const total = Number(flamegraph?.total ?? 0);
	// With several chunks, Pyroscope leaves out events whose stack is in the chunk before.
	if (expected.chunks > 1 && expected.withoutStack > 0) {
		if (total < one.total) fail(one.type, one.labels, `is ${total} here, ${one.total} there`);
		more += total > one.total;
	} else if (total !== one.total) fail(one.type, one.labels, `is ${total} here, ${one.total} there`);
	for (const [path, value] of Object.entries(one.stacks)) {
		const here = found[path] ?? 0;
		if (here !== value && !(more && here > value)) fail(one.type, one.labels, `${path || '(empty)'} is ${here} here, ${value} there`);
		stacks++;
	}
	if (!more && Object.keys(found).length !== Object.keys(one.stacks).length) fail(one.type, one.labels, 'there are stacks that only Wick has');
}
const types = [...new Set(series.map((one) => one.type))];
for (const type of (process.env.JFR_TYPES ?? '').split(' ').filter(Boolean)) if (!types.includes(type)) fail('the recording has no', type, 'but', types);
const notes = [
	expected.chunks > 1 ? `${expected.chunks} chunks` : '',
	expected.ticksPerSecond === 1e9 ? '' : `a clock of ${(expected.ticksPerSecond / 1e9).toFixed(3)} GHz`,
	expected.wallClockSamples ? 'with WallClockSamples' : '',
	expected.withoutStack ? `${expected.withoutStack} events without a stack` : '',
	more ? `${more} series larger here` : '',
].filter(Boolean);
console.log(`${name}: ${types.length} types, ${series.length} series, ${stacks} stacks${notes.length ? ` (${notes.join(', ')})` : ''}`);
