// SPDX-License-Identifier: Apache-2.0
// The calls of docs/api.md, "An overview", one after the other, for the last hour and the last day of what is stored; the median of 5 rounds.
import { readFileSync } from 'node:fs';

const [url, pid] = process.argv.slice(2),
	rounds = 5,
	day = 86400;
const cpuMs = () => {
	const words = readFileSync(`/proc/${pid}/stat`, 'utf8').replace(/.*\) /, '').split(' ');
	return (Number(words[11]) + Number(words[12])) * 10;
};
const { data } = await (await fetch(`${url}/api/v1/status`)).json();
const to = Math.floor(data.newest_ms / 300000) * 300;
const calls = (from) => {
	const range = (shift = 0) => `from=${from - shift}&to=${to - shift}`,
		pipeline = (text, shift = 0) => `/api/v1/pipeline?q=${encodeURIComponent(text)}&${range(shift)}`;
	const step = Math.max(1, Math.ceil((to - from) / 48 / 300)) * 300,
		top = 'process_cpu | rate | top 1000 by label service_name';
	return [
		['what services cost, with trends', `/api/v1/series?query=process_cpu&by=service_name&rate=1&limit=12&others=1&step=${step}s&${range()}`],
		['what they cost, all', pipeline(top)],
		['... a day before', pipeline(top, day)],
		['... a week before (no data)', pipeline(top, 7 * day)],
		['executables, with trends', `/api/v1/series?query=process_cpu&by=process_executable_name&rate=1&limit=12&others=1&step=${step}s&${range()}`],
		['versions of services', `/api/v1/series?query=process_cpu&by=service_name&by=service_version&limit=1000&step=${step}s&${range()}`],
		['binaries, by their code', pipeline('process_cpu | rate | top 12 by binary')],
		['functions that changed since the day before', pipeline('process_cpu | diff (shift 1d) | top 20')],
	];
};
for (const hours of [1, 24]) {
	console.log(`the last ${hours} h of ${new Date(data.oldest_ms).toISOString()} to ${new Date(data.newest_ms).toISOString()}`);
	for (const [what, path] of calls(to - hours * 3600)) {
		const took = [],
			used = [];
		let bytes = 0;
		for (let i = 0; i < rounds; i++) {
			const started = performance.now(),
				cpu = cpuMs(),
				response = await fetch(url + path, { headers: { 'accept-encoding': 'identity' } });
			bytes = (await response.arrayBuffer()).byteLength;
			if (response.status !== 200) throw new Error(`${path}: ${response.status}`);
			took.push(performance.now() - started);
			used.push(cpuMs() - cpu);
		}
		const median = (list) => list.sort((a, b) => a - b)[rounds >> 1];
		console.log(
			`  ${what.padEnd(46)} ${median(took).toFixed(0).padStart(6)} ms, ${String(median(used)).padStart(5)} ms of CPU, ${String(bytes).padStart(7)} bytes`,
		);
	}
}
