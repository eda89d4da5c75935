// SPDX-License-Identifier: Apache-2.0
// wick open and wick import --open, asked as a browser asks, and as others should not; and the links opened by Firefox Profiler's own
// command line, which shows sources and instructions that it has asked for there.
import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { join, resolve } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { bytesField, finish, intField, temporaryDirectory, test, varint, wick } from '../harness.mjs';
import { cli, withProfile } from '../profiler.mjs';

const work = temporaryDirectory();
const binary = resolve(wick);
const PROFILER = 'https://profiler.firefox.com';

// ---- a program, and a profile of it that has addresses only ----

const source = `static inline __attribute__((always_inline)) unsigned mix(unsigned x)
{
	return (x ^ x >> 7) * 0x9e3779b1u;
}
__attribute__((noinline)) unsigned burn(volatile unsigned *n)
{
	unsigned sum = 0;
	for (unsigned i = 0; i < *n; i++)
		sum += mix(i + *n);
	return sum;
}
int main(int argc, char **argv) { unsigned n = argc; return burn(&n); }
`;
// Where it is linked to is not where it is in the file, which is what profiles tell.
const BASE = 0x10000;
const program = join(work, 'program'),
	sourcePath = join(work, 'program.c');
writeFileSync(sourcePath, source);
chmodSync(sourcePath, 0o600);
execFileSync('gcc', ['-g', '-O2', '-Wl,--build-id=sha1', `-Wl,-Ttext-segment=0x${BASE.toString(16)}`, '-o', program, sourcePath]);
const buildId = execFileSync('readelf', ['-n', program], { encoding: 'utf8' }).match(/Build ID: ([0-9a-f]+)/)[1];
const symbols = new Map(
	execFileSync('nm', ['-S', program], { encoding: 'utf8' })
		.split('\n')
		.map((line) => line.split(' '))
		.filter((p) => p.length === 4)
		.map(([address, size, , name]) => [name, { address: parseInt(address, 16) - BASE, size: parseInt(size, 16) }]),
);
const burn = symbols.get('burn'),
	main = symbols.get('main');

function addressProfile() {
	const strings = ['', 'samples', 'count', program, buildId],
		START = 0x55550000;
	const message = (number, fields) => bytesField(number, fields);
	const out = [...message(1, [...intField(1, 1), ...intField(2, 2)])];
	const addresses = [];
	for (let at = burn.address; at < burn.address + burn.size; at++) addresses.push(at);
	const locations = [main.address + 1, ...addresses];
	addresses.forEach((_, i) => out.push(...message(2, [...bytesField(1, [...varint(i + 2), ...varint(1)]), ...bytesField(2, varint(1))])));
	out.push(...message(3, [...intField(1, 1), ...intField(2, START), ...intField(3, START + 0x100000), ...intField(5, 3), ...intField(6, 4)]));
	locations.forEach((at, i) => out.push(...message(4, [...intField(1, i + 1), ...intField(2, 1), ...intField(3, START + at)])));
	for (const text of strings) out.push(...bytesField(6, text));
	return Buffer.from(out);
}
const profilePath = join(work, "it's <b>.pb");
writeFileSync(profilePath, addressProfile());

// ---- wick, and who asks it ----

function start(args, env = {}) {
	const child = spawn(binary, args, { stdio: ['ignore', 'pipe', 'pipe'], cwd: work, env: { ...process.env, DISPLAY: '', WAYLAND_DISPLAY: '', ...env } });
	process.on('exit', () => child.kill('SIGKILL'));
	let log = '';
	const ended = new Promise((resolve) => child.once('exit', (code, signal) => resolve(code ?? signal)));
	return new Promise((resolve, reject) => {
		child.stderr.on('data', (chunk) => {
			log += chunk;
			const page = log.match(/page: +(\S+)\n/),
				profiler = log.match(/Firefox Profiler: +(\S+)\n/);
			if (page && profiler) {
				const { port, pathname } = new URL(page[1]);
				resolve({ child, ended, page: page[1], profiler: profiler[1], port: Number(port), token: pathname.slice(1, -1), log: () => log });
			}
		});
		ended.then((status) => reject(new Error(`ended with ${status}: ${log}`)));
	});
}
// As it is: node's own client would tidy up paths and hosts.
function ask(opened, method, path, { headers = {}, body = '' } = {}) {
	return new Promise((resolve, reject) => {
		const call = http.request(
			{
				host: '127.0.0.1',
				port: opened.port,
				method,
				path,
				agent: false,
				headers: { host: `127.0.0.1:${opened.port}`, 'content-length': Buffer.byteLength(body), ...headers },
			},
			(response) => {
				const chunks = [];
				response.on('data', (chunk) => chunks.push(chunk));
				response.on('end', () => resolve({ status: response.statusCode, headers: response.headers, body: Buffer.concat(chunks) }));
			},
		);
		call.on('error', reject);
		call.end(body);
	});
}
const post = async (opened, path, question, headers) => {
	const answer = await ask(opened, 'POST', `/${opened.token}${path}`, { body: JSON.stringify(question), headers });
	return { status: answer.status, ...JSON.parse(answer.body) };
};

const opened = await start(['open', profilePath, '--symbols', 'always']);
let lib;

await test('the links lead to this machine, with the same token', () => {
	assert.match(opened.page, /^http:\/\/127\.0\.0\.1:\d+\/[0-9a-f]{32}\/$/);
	const base = encodeURIComponent(opened.page.slice(0, -1));
	assert.equal(opened.profiler, `${PROFILER}/from-url/${base}%2Fprofile.json/?symbolServer=${base}`);
});
await test('the page is there, and calls the profile by its name only', async () => {
	const answer = await ask(opened, 'GET', `/${opened.token}/`);
	assert.equal(answer.status, 200);
	assert.match(answer.headers['content-type'], /^text\/html/);
	assert.equal(answer.headers['referrer-policy'], 'no-referrer');
	assert.ok(answer.body.includes('it&#39;s &lt;b&gt;.pb</title>'));
	assert.ok(!answer.body.includes(work));
});
await test('the profile is there, packed or not, with names', async () => {
	const plain = await ask(opened, 'GET', `/${opened.token}/profile.json`),
		packed = await ask(opened, 'GET', `/${opened.token}/profile.json`, { headers: { 'accept-encoding': 'gzip' } });
	assert.equal(packed.headers['content-encoding'], 'gzip');
	assert.deepEqual(gunzipSync(packed.body), plain.body);
	const profile = JSON.parse(plain.body);
	for (const name of ['burn', 'mix', 'main']) assert.ok(profile.shared.stringArray.includes(name), name);
	lib = profile.libs[0];
	assert.equal(lib.codeId, buildId);
});
await test('addresses have names, lines and inlined calls', async () => {
	const offsets = [...Array(burn.size).keys()].map((i) => burn.address + i);
	const {
		status,
		results: [result],
	} = await post(opened, '/symbolicate/v5', { jobs: [{ memoryMap: [[lib.debugName, lib.breakpadId]], stacks: [offsets.map((at) => [0, at])] }] });
	assert.equal(status, 200);
	assert.deepEqual(result.found_modules, { [`${lib.debugName}/${lib.breakpadId}`]: true });
	result.stacks[0].forEach((frame, i) => {
		assert.equal(frame.function, 'burn');
		assert.equal(Number(frame.function_offset), i);
		assert.equal(Number(frame.function_size), burn.size);
		assert.equal(frame.file, sourcePath);
	});
	const inlined = result.stacks[0].filter((frame) => frame.inlines);
	assert.ok(inlined.length > 0);
	for (const { line, inlines } of inlined) assert.deepEqual([line, inlines.length, inlines[0].function, inlines[0].line], [9, 1, 'mix', 3]);
});
const sourceOf = (file, offset = burn.address) =>
	post(opened, '/source/v1', { debugName: lib.debugName, debugId: lib.breakpadId, moduleOffset: `0x${offset.toString(16)}`, file });
await test('the source is shown to who runs it', async () => {
	const answer = await sourceOf(sourcePath);
	assert.equal(answer.source, source);
	assert.equal(answer.file, sourcePath);
});
for (const file of ['/etc/passwd', `${work}/../${work.split('/').pop()}/program.c`, 'program.c', '', profilePath, `${sourcePath}\0`])
	await test(`no other file is: ${JSON.stringify(file)}`, async () => {
		const answer = await sourceOf(file);
		assert.equal(answer.source, undefined);
		assert.ok(answer.error);
	});
const code = (question) =>
	post(opened, '/asm/v1', {
		debugName: lib.debugName,
		debugId: lib.breakpadId,
		name: lib.name,
		codeId: lib.codeId,
		continueUntilFunctionEnd: true,
		...question,
	});
await test("a function's instructions are all there, wherever it is asked from", async () => {
	const answer = await code({ startAddress: `0x${(burn.address + 3).toString(16)}`, size: '0x1' });
	if (/Capstone/.test(answer.error ?? '')) return;
	assert.equal(Number(answer.startAddress), burn.address);
	assert.equal(Number(answer.size), burn.size);
	assert.equal(answer.instructions[0][0], 0);
	assert.ok(answer.instructions.some(([, text]) => /0x9e3779b1|imul/.test(text)));
	assert.ok(answer.instructions.at(-1)[0] < burn.size);
	// Branches lead to instructions, as they are told.
	const starts = new Set(answer.instructions.map(([offset]) => burn.address + offset));
	const targets = answer.instructions.flatMap(([, text]) => text.match(/(0x[0-9a-f]+) <burn\+/)?.[1] ?? []);
	assert.ok(targets.length > 0 && targets.every((target) => starts.has(Number(target))), String(targets));
});
await test('code of nothing else is', async () => {
	assert.match((await code({ debugName: 'libc.so.6', startAddress: '0x1000', size: '0x10' })).error, /has no binary/);
	assert.match((await code({ debugId: '0'.repeat(33), startAddress: '0x1000', size: '0x10' })).error, /has no binary/);
	assert.match((await code({ startAddress: '0x7fffffff', size: '0x10' })).error, /no code/);
});

// ---- who may not ----

const profileJson = `/${opened.token}/profile.json`;
await test('a wrong token finds nothing', async () => {
	for (const path of [
		'/',
		'/profile.json',
		`/${'0'.repeat(32)}/profile.json`,
		`/${opened.token.slice(0, -1)}/profile.json`,
		`/x${opened.token}/profile.json`,
		`/${opened.token.toUpperCase()}x/profile.json`,
	])
		assert.equal((await ask(opened, 'GET', path)).status, 404, path);
});
await test('paths lead nowhere else', async () => {
	for (const path of [
		'/../../etc/passwd',
		'/..%2f..%2fetc%2fpasswd',
		'/%2e%2e/profile.json',
		'//profile.json',
		'/profile.json/',
		'/source/v1/etc/passwd',
		'/profile.json%00',
	]) {
		const { status } = await ask(opened, 'GET', `/${opened.token}${path}`);
		assert.ok(status === 404 || status === 400, `${path}: ${status}`);
	}
});
await test("another host's name is refused (DNS rebinding)", async () => {
	for (const host of ['evil.example', `evil.example:${opened.port}`, `127.0.0.1.evil.example:${opened.port}`, '127.0.0.1', `127.0.0.1:${opened.port + 1}`])
		assert.ok([400, 421].includes((await ask(opened, 'GET', profileJson, { headers: { host } })).status), host);
});
await test("another site's page is refused, and is not told that it may read", async () => {
	for (const origin of ['https://evil.example', 'http://profiler.firefox.com', `${PROFILER}.evil.example`, 'null'])
		for (const method of ['GET', 'OPTIONS']) {
			const answer = await ask(opened, method, profileJson, { headers: { origin } });
			assert.equal(answer.status, 403, `${method} ${origin}`);
			assert.ok(!Object.keys(answer.headers).some((name) => name.startsWith('access-control')));
		}
	assert.equal((await post(opened, '/symbolicate/v5', { jobs: [] }, { origin: 'https://evil.example' })).status, 403);
});
await test('Firefox Profiler may read all, and only it is named', async () => {
	const origin = PROFILER;
	const answer = await ask(opened, 'GET', profileJson, { headers: { origin } });
	assert.equal(answer.status, 200);
	assert.equal(answer.headers['access-control-allow-origin'], origin);
	const before = await ask(opened, 'OPTIONS', `/${opened.token}/symbolicate/v5`, {
		headers: {
			origin,
			'access-control-request-method': 'POST',
			'access-control-request-headers': 'content-type',
			'access-control-request-private-network': 'true',
		},
	});
	assert.equal(before.status, 204);
	assert.equal(before.headers['access-control-allow-origin'], origin);
	assert.equal(before.headers['access-control-allow-private-network'], 'true');
	assert.match(before.headers['access-control-allow-headers'], /content-type/i);
	assert.equal((await post(opened, '/symbolicate/v5', { jobs: [] }, { origin })).status, 200);
	const refused = await ask(opened, 'POST', `/${opened.token}/asm/v1`, { headers: { origin }, body: '{' });
	assert.deepEqual([refused.status, refused.headers['access-control-allow-origin']], [400, origin]);
});
await test('bodies beyond the limits are refused', async () => {
	for (const [path, bytes] of [
		['/symbolicate/v5', 17 << 20],
		['/source/v1', 65 << 10],
		['/asm/v1', 65 << 10],
	]) {
		const answer = await ask(opened, 'POST', `/${opened.token}${path}`, { body: '['.repeat(bytes) }).catch((error) => ({ status: error.code }));
		assert.ok([413, 'EPIPE', 'ECONNRESET'].includes(answer.status), `${path}: ${answer.status}`);
	}
	assert.equal((await ask(opened, 'GET', profileJson)).status, 200);
});
await test('only loopback is listened on', () => {
	const listening = readFileSync('/proc/net/tcp', 'utf8') + readFileSync('/proc/net/tcp6', 'utf8');
	const port = opened.port.toString(16).toUpperCase().padStart(4, '0');
	const addresses = [...listening.matchAll(new RegExp(`: ([0-9A-F]+):${port} [0-9A-F]+:0000 0A`, 'g'))].map((m) => m[1]);
	assert.deepEqual(addresses, ['0100007F']);
});

// ---- the viewer ----

await test('Firefox Profiler opens the link, with source and instructions beside the samples', () =>
	withProfile(opened.profiler, () => {
		const { functions } = JSON.parse(cli('thread', 'functions', '--json', '--include-idle', '--limit', '0'));
		const self = new Map(functions.map((f) => [f.name, f.selfSamples]));
		assert.equal((self.get('burn') ?? 0) + (self.get('mix') ?? 0), burn.size);
		const handle = functions.find((f) => f.name === 'burn').functionHandle;
		const annotated = JSON.parse(cli('function', 'annotate', handle, '--mode', 'all', '--context', 'file', '--json'));
		const lines = new Map(annotated.srcAnnotation.lines.map((line) => [line.lineNumber, line]));
		assert.equal(lines.get(3).sourceText, '\treturn (x ^ x >> 7) * 0x9e3779b1u;');
		assert.ok(lines.get(9).totalSamples > 0);
		const [asm] = annotated.asmAnnotations;
		if (/Capstone/.test(asm.fetchError ?? '')) return;
		assert.equal(asm.instructions[0].address, burn.address);
		assert.ok(asm.instructions.every((instruction) => instruction.selfSamples > 0));
	}));

await test('Firefox Profiler asks for names that the profile lacks', async () => {
	const nameless = await start(['open', profilePath, '--symbols', 'never']);
	const profile = JSON.parse((await ask(nameless, 'GET', `/${nameless.token}/profile.json`)).body);
	assert.equal(profile.meta.symbolicated, false);
	assert.ok(!profile.shared.stringArray.includes('burn'));
	await withProfile(nameless.profiler, () => {
		const { functions } = JSON.parse(cli('thread', 'functions', '--json', '--include-idle', '--limit', '0'));
		const self = new Map(functions.map((f) => [f.name, f.selfSamples]));
		assert.equal((self.get('burn') ?? 0) + (self.get('mix') ?? 0), burn.size, [...self.keys()].join());
	});
	nameless.child.kill('SIGINT');
	assert.equal(await nameless.ended, 0);
});
await test('Ctrl-C ends it, with status 0', async () => {
	opened.child.kill('SIGINT');
	assert.equal(await opened.ended, 0);
});

// ---- the browser ----

// Stands in for xdg-open: says what it was given.
const desktop = join(work, 'bin');
mkdirSync(desktop);
writeFileSync(
	join(desktop, 'xdg-open'),
	`#!/bin/sh
[ "$(cut -d ' ' -f 6 /proc/$$/stat)" = $$ ] && echo apart >${work}/session
echo >>${work}/starts
printf '%s\\n' "$@" >${work}/given.tmp\nmv ${work}/given.tmp ${work}/given\n`,
);
chmodSync(join(desktop, 'xdg-open'), 0o755);
const withDesktop = { PATH: `${desktop}:${process.env.PATH}`, DISPLAY: ':99' };
const given = async () => {
	for (let tries = 0; !existsSync(join(work, 'given')) && tries < 6000; tries++) await new Promise((resolve) => setTimeout(resolve, 20));
	return readFileSync(join(work, 'given'), 'utf8').trim();
};
for (const [where, lead] of [
	['page', (o) => o.page],
	['firefox-profiler', (o) => o.profiler],
])
	await test(`a browser is given a link to ${where} that works once`, async () => {
		for (const name of ['given', 'session']) rmSync(join(work, name), { force: true });
		const o = await start(['open', profilePath, '-q', '--browser', where], withDesktop);
		const { pathname } = new URL(await given());
		assert.equal(readFileSync(join(work, 'session'), 'utf8').trim(), 'apart'); // Ctrl-C is not meant for it
		assert.ok(!pathname.includes(o.token));
		const first = await ask(o, 'GET', pathname),
			second = await ask(o, 'GET', pathname);
		assert.deepEqual([first.status, first.headers.location, second.status], [303, lead(o), 404]);
		o.child.kill('SIGTERM');
		assert.equal(await o.ended, 0);
	});
if (process.getuid() === 0)
	await test('no browser is started for root unless asked for', async () => {
		for (const name of ['given', 'starts']) rmSync(join(work, name), { force: true });
		for (const asked of [[], ['--browser', 'page']]) {
			const o = await start(['open', profilePath, '-q', ...asked], withDesktop);
			assert.equal((await ask(o, 'GET', `/${o.token}/profile.json`)).status, 200); // by then it has started what it starts
			if (asked.length) await given();
			o.child.kill('SIGINT');
			assert.equal(await o.ended, 0);
		}
		assert.equal(readFileSync(join(work, 'starts'), 'utf8'), '\n', 'the second one started it');
	});

// ---- import ----

const script = `app 42/43 [000] 100.000000: 1000000 cycles:
	    55d0c0001000 leaf+0x10 (/opt/app)
	    55d0c0002000 main+0x20 (/opt/app)

app 42/43 [000] 100.010000: 1000000 cycles:
	    55d0c0002004 main+0x24 (/opt/app)

`;
writeFileSync(join(work, 'perf.script'), script);
await test('import writes what convert does, under a name of its own', () => {
	const run = spawnSync(binary, ['import', 'perf.script'], { cwd: work, encoding: 'utf8' });
	assert.equal(run.status, 0, run.stderr);
	assert.match(run.stderr, /written to perf\.firefox\.json\.gz/);
	execFileSync(binary, ['convert', '-q', 'perf.script', '-o', 'converted.firefox.json.gz'], { cwd: work });
	const read = (name) => JSON.parse(gunzipSync(readFileSync(join(work, name))));
	assert.deepEqual(read('perf.firefox.json.gz'), read('converted.firefox.json.gz'));
});
await test('import replaces no input, however it is written', () => {
	const before = readFileSync(join(work, 'perf.firefox.json.gz'));
	symlinkSync('perf.firefox.json.gz', join(work, 'perf.json'));
	for (const [inputs, what] of [
		[['perf.firefox.json.gz'], 'replace itself'],
		[['./perf.firefox.json.gz'], 'replace itself'],
		[[join(work, 'perf.firefox.json.gz')], 'replace itself'],
		[['perf.json'], 'replace itself'],
		[['perf.script', './perf.firefox.json.gz'], 'be replaced'],
	]) {
		const run = spawnSync(binary, ['import', ...inputs], { cwd: work, encoding: 'utf8' });
		assert.equal(run.status, 2, run.stderr);
		assert.ok(run.stderr.includes(`would ${what}; give -o FILE`), run.stderr);
		assert.deepEqual(readFileSync(join(work, 'perf.firefox.json.gz')), before);
	}
});
await test('import reads a pipe', () => {
	const run = spawnSync(binary, ['import', '-', '-q', '-o', '-'], { cwd: work, input: script, encoding: 'utf8' });
	assert.equal(run.status, 0, run.stderr);
	assert.ok(JSON.parse(run.stdout).shared.stringArray.includes('leaf'));
});
await test('import --open shows it and writes nothing', async () => {
	rmSync(join(work, 'perf.firefox.json.gz'));
	const o = await start(['import', 'perf.script', '-q', '--open']);
	assert.ok(JSON.parse((await ask(o, 'GET', `/${o.token}/profile.json`)).body).shared.stringArray.includes('leaf'));
	o.child.kill('SIGINT');
	assert.equal(await o.ended, 0);
	assert.ok(!existsSync(join(work, 'perf.firefox.json.gz')));
});
finish();
