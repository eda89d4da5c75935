// SPDX-License-Identifier: Apache-2.0
// parca_agent.mjs URL any | seconds N | programs PATH... | share PERCENT PATH... | table: what a server has of an agent's samples; fails unless it is as it should be.
import { basename } from 'node:path';
import { createRequire } from 'node:module';
import { gunzipSync } from 'node:zlib';

const require = createRequire(new URL('../package.json', import.meta.url));
const { Profile } = require('pprof-format');
const [url, verb, ...args] = process.argv.slice(2);
const get = async (path, parameters) => {
	const response = await fetch(`${url}${path}?${new URLSearchParams({ from: 'now-1h', to: 'now+1h', ...parameters })}`);
	if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
	return Buffer.from(await response.arrayBuffer());
};
// Samples by service: [{ leaf, binary, isNative, isNamed, value }].
async function samples(query) {
	const body = await get('/api/v1/pprof', { query, symbols_wait: '20s' }),
		profile = Profile.decode(body[0] === 0x1f ? gunzipSync(body) : body);
	const text = (at) => profile.stringTable.strings[Number(at)],
		functions = new Map(profile.function.map((f) => [f.id, f])),
		mappings = new Map(profile.mapping.map((m) => [m.id, text(m.filename)])),
		locations = new Map(profile.location.map((l) => [l.id, l]));
	return profile.sample.map((sample) => {
		const leaf = locations.get(sample.locationId[0]);
		const line = leaf?.line.at(-1),
			name = line ? text(functions.get(line.functionId).name) : '',
			binary = leaf ? mappings.get(leaf.mappingId) : undefined;
		return { name, binary, isNative: Boolean(binary) && !/^\[kernel|^\[/.test(binary), value: Number(sample.value[0]) };
	});
}
const sum = (list) => list.reduce((all, of) => all + of.value, 0);
const fail = (message) => {
	console.log(message);
	process.exit(1);
};
const PERIOD = 1e9 / 19;

if (verb === 'any') {
	if (sum(await samples('parca_agent:samples')) === 0) fail('no samples');
} else if (verb === 'seconds') {
	const used = sum(await samples('process_cpu:cpu')) / 1e9;
	if (used < Number(args[0])) fail(`${used} s of CPU time`);
} else if (verb === 'programs') {
	for (const path of args) {
		const name = basename(path),
			isGo = /go/.test(name),
			[hot, cold] = isGo ? ['main.hotFunction', 'main.coldFunction'] : ['hot_function', 'cold_function'];
		const all = await samples(`process_cpu:cpu{service_name="unknown_service:${name}"}`),
			own = all.filter((of) => of.binary && basename(of.binary) === name);
		const count = sum(own) / PERIOD,
			share = (wanted) => sum(own.filter((of) => of.name === wanted)) / sum(own);
		// 70 of 100, within four standard deviations of so many samples.
		const slack = 4 * Math.sqrt(0.21 / count);
		if (!(count >= 10)) fail(`${name}: ${count} samples`);
		if (share(hot) + share(cold) < 0.97) fail(`${name}: ${JSON.stringify(own.slice(0, 5))}`);
		if (Math.abs(share(hot) - 0.7) > slack) fail(`${name}: ${share(hot)} of ${count} samples in ${hot}`);
	}
} else if (verb === 'share' || verb === 'table') {
	const services = args.slice(1).map((path) => `unknown_service:${basename(path)}`),
		query = services.length ? `process_cpu:cpu{service_name=~"${services.join('|')}"}` : 'process_cpu:cpu';
	const all = (await samples(query)).filter((of) => of.isNative),
		named = sum(all.filter((of) => of.name)),
		share = (100 * named) / sum(all);
	if (verb === 'table') {
		const binaries = new Map();
		for (const of of all) {
			const one = binaries.get(of.binary) ?? [0, 0];
			binaries.set(of.binary, [one[0] + of.value, one[1] + (of.name ? of.value : 0)]);
		}
		console.log(`native samples: ${Math.round(sum(all) / PERIOD)}, named ${share.toFixed(1)} %`);
		for (const [binary, [value, of]] of [...binaries].sort((a, b) => b[1][0] - a[1][0]).slice(0, 25))
			console.log(`  ${Math.round(value / PERIOD)} samples, ${((100 * of) / value).toFixed(1)} % named: ${binary}`);
	} else if (!(share >= Number(args[0]))) fail(`${share} % of ${Math.round(sum(all) / PERIOD)} native samples`);
}
