// SPDX-License-Identifier: Apache-2.0
// Faults only, by the types where those tell; how the code looks is Prettier's affair.
import js from '@eslint/js';
import hooks from 'eslint-plugin-react-hooks';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { configs } from 'typescript-eslint';

export default [
	{ ignores: ['node_modules/'] },
	{ linterOptions: { reportUnusedDisableDirectives: 'error' } },
	js.configs.recommended,
	...configs.recommendedTypeChecked,
	{
		languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: dirname(fileURLToPath(import.meta.url)) } },
		rules: {
			eqeqeq: 'error',
			// Where control characters are looked for, they are meant.
			'no-control-regex': 'off',
			// An async function without await returns what it throws as a promise, too.
			'@typescript-eslint/require-await': 'off',
			'@typescript-eslint/no-unused-vars': ['error', { ignoreRestSiblings: true }],
			// A handler may be async: it looks after its own faults.
			'@typescript-eslint/no-misused-promises': ['error', { checksVoidReturn: { attributes: false } }],
			'@typescript-eslint/no-floating-promises': ['error', { allowForKnownSafeCalls: [{ from: 'package', name: 'test', package: 'node:test' }] }],
		},
	},
	{
		files: ['src/**'],
		plugins: { 'react-hooks': hooks },
		rules: { 'react-hooks/rules-of-hooks': 'error', 'react-hooks/exhaustive-deps': 'error' },
	},
	{ files: ['test/**'], rules: { '@typescript-eslint/restrict-template-expressions': 'off' } },
	// These have no types; of the names that Node.js has by itself, those in use.
	{
		...configs.disableTypeChecked,
		files: ['**/*.mjs'],
		languageOptions: { parserOptions: { project: false, projectService: false }, globals: { console: 'readonly', process: 'readonly' } },
	},
];
