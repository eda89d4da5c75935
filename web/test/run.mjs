// SPDX-License-Identifier: Apache-2.0
// Bundles each test/*.test.ts for node and runs them all under node's test runner, and test/*.test.mjs as they are; beside them
// types, lint and formatting are checked.
import { build } from 'esbuild';
import { spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const tests = readdirSync(here).filter((name) => name.endsWith('.test.ts'));
if (tests.length === 0) throw new Error('no tests found');
// How node ended, with these arguments.
const ended = (args, options = {}) =>
	new Promise((resolve) => spawn(process.execPath, args, { cwd: join(here, '..'), stdio: 'inherit', ...options }).once('exit', (code) => resolve(code ?? 1)));
// The test runner leaves one CPU idle, which these take, one after the other.
const checks = [
	['test/types_and_lint.mjs', ...(process.env.WICK_TEST_FULL ? [] : ['--types'])],
	['node_modules/prettier/bin/prettier.cjs', '--ignore-path', '../.prettierignore', '--log-level', 'warn', '--check', '.'],
];
const checked = checks.reduce(async (before, [tool, ...args]) => {
	const status = await before;
	return (await ended([join(here, '..', tool), ...args])) || status;
}, Promise.resolve(0));
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
	const status = await ended(['--enable-source-maps', '--test', ...files], { cwd: process.cwd() });
	process.exitCode = status || (await checked);
} finally {
	rmSync(out, { recursive: true, force: true });
}
