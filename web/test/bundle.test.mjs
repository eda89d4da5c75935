// SPDX-License-Identifier: Apache-2.0
/*
 * The bundle depends on the sources and the lock file alone: made of a copy elsewhere, in another language, time zone and order of times,
 * it has the same bytes. And it stays small enough for a slow line.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, symlinkSync, utimesSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';

const ROOT = join(dirname(fileURLToPath(import.meta.url)), '../..');
const SCRIPT_MAX = 250_000; // bytes, gzipped
const work = mkdtempSync(join(tmpdir(), 'wick-bundle-'));
after(() => rmSync(work, { recursive: true, force: true }));

function build(root, out, env) {
	execFileSync(join(root, 'tools/build-web'), [out], { env: { PATH: process.env.PATH, HOME: work, ...env } });
	return new Map(
		readdirSync(out)
			.sort()
			.map((name) => [name, readFileSync(join(out, name))]),
	);
}

// The sources in another folder, as old as they never were here; the packages are the same.
function copy(to) {
	for (const name of ['web/src', 'web/package-lock.json', 'web/tsconfig.json', 'tools/build-web'])
		cpSync(join(ROOT, name), join(to, name), { recursive: true });
	mkdirSync(join(to, 'build'));
	symlinkSync(realpathSync(join(ROOT, 'build/page-packages')), join(to, 'build/page-packages'));
	for (const name of readdirSync(join(to, 'web/src'), { recursive: true })) utimesSync(join(to, 'web/src', name), 86400, 86400);
	return to;
}

const here = build(ROOT, join(work, 'one'), { LANG: 'C.UTF-8', TZ: 'UTC' });

test('the bundle is the same, wherever and whenever it is made', () => {
	const elsewhere = copy(join(work, 'another folder', 'página'));
	const there = build(elsewhere, join(work, 'two', 'deep', 'er'), {
		LANG: 'tr_TR.UTF-8',
		LC_ALL: 'tr_TR.UTF-8',
		TZ: 'Pacific/Apia',
		SOURCE_DATE_EPOCH: '1',
		NODE_ENV: 'development',
	});
	assert.deepEqual([...there.keys()], [...here.keys()]);
	assert.ok(here.has('app.js') && here.has('report.html'));
	for (const [name, bytes] of here) {
		assert.ok(bytes.length > 0, name);
		assert.ok(bytes.equals(there.get(name)), `${name} differs`);
		assert.ok(!bytes.includes(work) && !bytes.includes(realpathSync(ROOT)), `${name} has a path of the machine it was made on`);
	}
});

test('the bundle stays small', () => {
	const size = gzipSync(here.get('app.js'), { level: 9 }).length;
	assert.ok(size > 50_000 && size <= SCRIPT_MAX, `app.js is ${size} bytes, gzipped`);
});

test('the page loads nothing but its own files, and has no script or style in it', () => {
	const page = here.get('index.html').toString();
	assert.deepEqual(
		[...page.matchAll(/(?:src|href)="([^"]*)"/g)].map(([, url]) => url).filter((url) => !here.has(url.replace(/^\.?\//, ''))),
		[],
	);
	assert.doesNotMatch(page, /<style|\son\w+=|\sstyle=|<script(?![^>]*\ssrc=)/);
});
