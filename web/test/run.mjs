// SPDX-License-Identifier: Apache-2.0
// Bundles each test/*.test.ts for node and runs them all under node's test runner, and test/*.test.mjs as they are.
import { build } from 'esbuild';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const tests = readdirSync(here).filter((name) => name.endsWith('.test.ts'));
if (tests.length === 0) throw new Error('no tests found');
const out = mkdtempSync(join(tmpdir(), 'wick-web-test-'));
try {
	await build({
		entryPoints: tests.map((name) => join(here, name)),
		outdir: out,
		outExtension: { '.js': '.mjs' },
		bundle: true,
		platform: 'node',
		format: 'esm',
		target: 'node18',
		sourcemap: 'inline',
		logLevel: 'warning',
	});
	const plain = readdirSync(here).filter((name) => name.endsWith('.test.mjs'));
	const files = [...tests.map((name) => join(out, name.replace(/\.ts$/, '.mjs'))), ...plain.map((name) => join(here, name))];
	const run = spawnSync(process.execPath, ['--enable-source-maps', '--test', ...files], { stdio: 'inherit' });
	process.exitCode = run.status ?? 1;
} finally {
	rmSync(out, { recursive: true, force: true });
}
