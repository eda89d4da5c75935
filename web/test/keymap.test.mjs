// SPDX-License-Identifier: Apache-2.0
/*
 * No key is handled that the list of keys does not have: what was pressed is read in src/ui/keymap.ts alone, which looks it up in the
 * table that is listed. Types tell an event of the keyboard from other things that have a `key`. And no part of the table is idle:
 * each is given to press() or useKeys() somewhere, which by their types want something done for every action of it.
 */
import assert from 'node:assert/strict';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

const WEB = join(dirname(fileURLToPath(import.meta.url)), '..');
const READS = new Set(['key', 'code', 'keyCode', 'charCode', 'which', 'getModifierState']);
const MAP = 'ui/keymap.ts';

function programOf(roots, host) {
	const { config } = ts.readConfigFile(join(WEB, 'tsconfig.json'), ts.sys.readFile);
	const { options, fileNames } = ts.parseJsonConfigFileContent(config, ts.sys, WEB);
	return ts.createProgram(roots ?? fileNames.filter((name) => name.includes('/src/')), options, host);
}

// Is it, or may it be, an event of the keyboard? Preact's is made of parts of the browser's; its `key` is still that one's.
function isKeyboard(checker, node) {
	const type = checker.getTypeAtLocation(node);
	const isOne = (one) => (checker.getPropertyOfType(one, 'key')?.declarations ?? []).some(({ parent }) => parent.name?.text === 'KeyboardEvent');
	return [type, ...(type.types ?? [])].some(isOne);
}

function* readsOf(checker, file) {
	const found = [];
	const tell = (node) => found.push(`${file.getLineAndCharacterOfPosition(node.getStart()).line + 1}: ${node.getText().slice(0, 80)}`);
	const visit = (node) => {
		if (ts.isPropertyAccessExpression(node) && READS.has(node.name.text) && isKeyboard(checker, node.expression)) tell(node);
		if (ts.isElementAccessExpression(node) && isKeyboard(checker, node.expression)) tell(node);
		if (ts.isObjectBindingPattern(node) && isKeyboard(checker, node)) {
			for (const { propertyName, name, dotDotDotToken } of node.elements) if (dotDotDotToken || READS.has((propertyName ?? name).getText())) tell(node);
		}
		if (ts.isVariableDeclaration(node) && node.initializer && ts.isObjectBindingPattern(node.name) && isKeyboard(checker, node.initializer)) {
			for (const { propertyName, name, dotDotDotToken } of node.name.elements) if (dotDotDotToken || READS.has((propertyName ?? name).getText())) tell(node);
		}
		ts.forEachChild(node, visit);
	};
	visit(file);
	yield* new Set(found);
}

test('a reading of keys is seen, whatever it looks like', () => {
	const source = `
		const a = (event: KeyboardEvent) => event.key === 'x';
		const b = (event: KeyboardEvent) => { const { key } = event; return key; };
		const c = ({ code }: KeyboardEvent) => code;
		const d = (event: KeyboardEvent) => event['key'];
		const e = (event: KeyboardEvent | MouseEvent) => 'key' in event && event.key;
		const f = <input onKeyDown={(event) => event.currentTarget.value + event.key} />;
		const g = (entry: { key: string }, event: KeyboardEvent) => entry.key + event.target;
		addEventListener('keydown', (event) => event.which);
		export { a, b, c, d, e, f, g };`;
	const name = join(WEB, 'src/made-up.tsx');
	const host = ts.createCompilerHost({});
	const [getSourceFile, fileExists, readFile] = [host.getSourceFile, host.fileExists, host.readFile];
	host.fileExists = (path) => path === name || fileExists.call(host, path);
	host.readFile = (path) => (path === name ? source : readFile.call(host, path));
	host.getSourceFile = (path, ...rest) =>
		path === name ? ts.createSourceFile(path, source, ts.ScriptTarget.ES2020, true) : getSourceFile.call(host, path, ...rest);
	const program = programOf([name], host);
	const lines = [...new Set([...readsOf(program.getTypeChecker(), program.getSourceFile(name))].map((line) => Number(line.split(':')[0])))];
	assert.deepEqual(lines, [2, 3, 4, 5, 6, 7, 9]);
});

test('keys are read in one place, and every part of the table is carried out', () => {
	const program = programOf();
	const checker = program.getTypeChecker();
	const files = program.getSourceFiles().filter(({ fileName }) => fileName.includes('/web/src/') && !fileName.includes('node_modules'));
	assert.ok(files.length > 60);
	const reads = [];
	const parts = new Set();
	let table = [];
	for (const file of files) {
		const name = file.fileName.slice(file.fileName.indexOf('/web/src/') + 9);
		const visit = (node) => {
			if (ts.isCallExpression(node) && /^(press|useKeys)$/.test(node.expression.getText()) && ts.isStringLiteral(node.arguments[0] ?? node))
				parts.add(node.arguments[0].text);
			if (name === MAP && ts.isVariableDeclaration(node) && node.name.getText() === 'KEYS')
				table = checker
					.getTypeAtLocation(node.name)
					.getProperties()
					.map((p) => p.name);
			ts.forEachChild(node, visit);
		};
		visit(file);
		if (name !== MAP) reads.push(...[...readsOf(checker, file)].map((line) => `src/${name}:${line}`));
		else assert.ok([...readsOf(checker, file)].length > 0, 'the reading in keymap.ts is seen');
	}
	assert.deepEqual(reads, []);
	assert.ok(table.length > 20);
	assert.deepEqual([...parts].sort(), table.sort());
});
