// SPDX-License-Identifier: Apache-2.0
// Judges what upload_proxy.mjs wrote down:
//   node upload_oracle.mjs secret SENT PROGRAM      no 16 bytes in a row of PROGRAM's code and data are in SENT, and its debug sections are
//   node upload_oracle.mjs requests FILE BUILDID    what was asked for and sent of a build-id, as "NAME VALUE" lines
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const RUN = 16;
const [what, ...rest] = process.argv.slice(2);

function sections(program, names) {
	// contents by name, of those that are there
	const directory = mkdtempSync(join(tmpdir(), 'wick-oracle-')),
		out = new Map();
	for (const name of names) {
		const file = join(directory, 'section');
		execFileSync('objcopy', ['-O', 'binary', '--set-section-flags', `${name}=alloc`, '--only-section', name, program, file], {
			stdio: ['ignore', 'ignore', 'ignore'],
		});
		const contents = readFileSync(file);
		if (contents.length) out.set(name, contents);
	}
	rmSync(directory, { recursive: true });
	return out;
}
// Runs that are nothing but a small number among zeros are everywhere, in the headers that an extract has of its own too; who sends code or data sends other runs as well.
function addRuns(set, contents) {
	for (let at = 0; at + RUN <= contents.length; at++) {
		let others = 0;
		for (let i = 0; i < RUN; i++) others += contents[at + i] !== 0;
		if (others >= 4) set.add(contents.latin1Slice(at, at + RUN));
	}
}

function secret(sentFile, program) {
	const names = execFileSync('readelf', ['-SW', program])
		.toString()
		.matchAll(/^ *\[ *\d+\] (\.\S+) +(\S+) /gm);
	const hidden = new Set(['.text', '.data', '.rodata']),
		all = [...names].filter((match) => match[2] !== 'NOBITS').map((match) => match[1]);
	// What may be there: symbols, debug sections, notes, and their like. Everything that is loaded and not listed here is secret as well.
	const open = all.filter((name) => /^\.(debug_|symtab|strtab|shstrtab|dynsym|dynstr|gnu\.version|note|gnu_debug|comment|dynamic)/.test(name));
	const kept = sections(program, open),
		secrets = sections(program, hidden),
		allowed = new Set(),
		runs = new Set();
	for (const contents of kept.values()) addRuns(allowed, contents);
	for (const contents of secrets.values()) addRuns(runs, contents);
	const sent = readFileSync(sentFile);
	let found = 0,
		first = null;
	for (let at = 0; at + RUN <= sent.length; at++) {
		const run = sent.latin1Slice(at, at + RUN);
		if (!runs.has(run) || allowed.has(run)) continue;
		found++;
		first ??= `at ${at}: ${Buffer.from(run, 'latin1').toString('hex')}`;
	}
	// Without this the test would pass if nothing had been written down.
	const info = kept.get('.debug_info'),
		middle = info.subarray(info.length >> 1, (info.length >> 1) + 64);
	const isThere = sent.includes(middle);
	console.log(
		`${sent.length} bytes sent, ${runs.size} runs of code and data, ${found} of them in what was sent${first ? `, the first ${first}` : ''}; .debug_info is ${isThere ? '' : 'NOT '}there`,
	);
	process.exit(found === 0 && runs.size > 10000 && isThere ? 0 : 1);
}

function requests(file, buildId) {
	const lines = readFileSync(file, 'utf8')
		.split('\n')
		.filter(Boolean)
		.map((line) => JSON.parse(line));
	const ours = lines.filter((line) => line.build_id === buildId),
		puts = ours.filter((line) => line.method === 'PUT');
	const arrived = puts.filter((line) => line.status === 200 || line.status === 'cut before the answer');
	const allPuts = lines.filter((line) => line.method === 'PUT');
	const byAgent = new Map();
	const say = (name, value) => console.log(`${name} ${value}`);
	say('profiles', lines.filter((line) => line.url === '/v1development/profiles' && line.status === 200).length);
	say('uploads', lines.filter((line) => line.url.startsWith('/api/v1/debuginfo/uploads')).length);
	say('asked', lines.filter((line) => line.url.endsWith('/wanted')).length);
	say('finished', ours.filter((line) => line.url.endsWith('/finish') && line.status === 200).length);
	say('finished_all', lines.filter((line) => line.url.endsWith('/finish') && line.status === 200).length);
	say('size', ours[0]?.size ?? 0);
	say('cuts', puts.filter((line) => typeof line.status === 'string').length);
	say('told_elsewhere', puts.filter((line) => line.status === 409).length);
	say(
		'bytes_arrived',
		arrived.reduce((sum, line) => sum + line.bytes, 0),
	);
	say('from_beginning', arrived.filter((line) => line.url.endsWith('offset=0')).length);
	// Of each connection the bytes a second from its second piece on: a piece is paid for after it.
	for (const line of allPuts) {
		const rate = byAgent.get(line.agent) ?? { first: line.time, last: line.time, bytes: 0, count: 0 };
		if (rate.count++ > 0) rate.bytes += line.bytes;
		rate.last = line.time;
		byAgent.set(line.agent, rate);
	}
	const rates = [...byAgent.values()].filter((rate) => rate.last - rate.first > 1500).map((rate) => (rate.bytes / (rate.last - rate.first)) * 1000);
	say('rate_max', Math.round(Math.max(0, ...rates)));
	say('rate_samples', rates.length);
}

if (what === 'secret') secret(...rest);
else if (what === 'requests') requests(...rest);
else process.exit(2);
