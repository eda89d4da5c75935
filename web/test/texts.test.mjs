// SPDX-License-Identifier: Apache-2.0
/*
 * All texts of the page are in src/base/texts/ (see src/base/texts.ts). This walks over the syntax of the other files, and tells words where a
 * person would read them:
 *
 *   in the text of an element, and in what is put there as {expression};
 *   in attributes and properties that are read or read out: title, aria-label and the like;
 *   in any text of two words or more, and in any that begins with a capital letter.
 *
 * Exceptions are below, each with its reason. Not seen are single words in small letters that reach the page through a variable:
 * they cannot be told from names of the API.
 */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

const SRC = join(dirname(fileURLToPath(import.meta.url)), '../src');
const isTexts = (name) => name.startsWith('base/texts/');

// Of elements, and of objects that become elements.
const READ = /^(title|label|placeholder|alt|hint|note|meaning|aria-(label|description|roledescription|valuetext|placeholder)|data-title)$/;
// Attributes for style sheets, drawing and browsers.
const FOR_MACHINES = /^(class|buttonClass|style|d|viewBox|rel|href|data-testid|key|id|role|type|autocomplete)$/;
// Functions that take selectors, media queries, and words of the query language.
const SELECTORS = /^(querySelector|querySelectorAll|closest|matchMedia|useMedia|pipeline|keyword)$/;
// Names of fonts, and of entries of a map.
const VARIABLES = /^(FONT|key)$/;
// What the browser calls keys and what is dragged, and keymap.ts the keys that are held beside one.
const KEY =
	/^(Files|((Ctrl|Shift)\+)?(Arrow(Up|Down|Left|Right)?|AltGraph|ContextMenu|Enter|Escape|F10|Space|Tab|Backspace|Home|End|Page(Up|Down))|(Ctrl|Shift)\+[a-z0])$/;
// Symbols of units are the same in all languages.
const UNIT = /^[ ·\d]*(ms|Hz|[KMGT]iB)$/;
// The schema by which a recorder tells in a file how many markers it lost.
const IN_FILES = /^lost markers$/;

const LETTER = /\p{L}/u;
const TWO_WORDS = /\p{L}{2}\S* +\S|\S +\S*\p{L}{2}/u;
const CAPITAL = /^\P{L}*\p{Lu}\p{Ll}/u;

const isText = (node) => ts.isStringLiteral(node) || ts.isNoSubstitutionTemplateLiteral(node) || ts.isTemplateExpression(node);
// A template's text, with a digit for each value.
const textOf = (node) => (ts.isTemplateExpression(node) ? node.head.text + node.templateSpans.map((span) => `0${span.literal.text}`).join('') : node.text);
const nameOf = (node) => (ts.isIdentifier(node) || ts.isStringLiteral(node) ? node.text : '');

// The texts that an expression may come to: of a condition both sides, but not what is compared.
function* results(node) {
	if (isText(node)) yield node;
	else if (ts.isParenthesizedExpression(node) || ts.isAsExpression(node)) yield* results(node.expression);
	else if (ts.isJsxExpression(node) && node.expression) yield* results(node.expression);
	else if (ts.isConditionalExpression(node)) yield* [...results(node.whenTrue), ...results(node.whenFalse)];
	else if (ts.isBinaryExpression(node)) {
		const kind = node.operatorToken.kind;
		const joins = [ts.SyntaxKind.PlusToken, ts.SyntaxKind.BarBarToken, ts.SyntaxKind.QuestionQuestionToken];
		if (joins.includes(kind)) yield* results(node.left);
		if (joins.includes(kind) || kind === ts.SyntaxKind.AmpersandAmpersandToken) yield* results(node.right);
	}
}

function isExcepted(node) {
	if ([KEY, UNIT, IN_FILES].some((pattern) => pattern.test(textOf(node)))) return true;
	for (let at = node; at.parent; at = at.parent) {
		const { parent } = at;
		if (ts.isJsxAttribute(parent) && FOR_MACHINES.test(parent.name.getText())) return true;
		if (ts.isCallExpression(parent) && SELECTORS.test(parent.expression.getText().split('.').pop())) return true;
		if (ts.isVariableDeclaration(parent) && VARIABLES.test(parent.name.getText())) return true;
		if (ts.isImportDeclaration(parent) || ts.isExportDeclaration(parent) || ts.isLiteralTypeNode(parent)) return true;
		if (ts.isBlock(parent) || ts.isSourceFile(parent)) return false;
	}
	return false;
}

/** The words in a file that are not from base/texts/, as "line: text". */
function wordsIn(name, source) {
	const file = ts.createSourceFile(name, source, ts.ScriptTarget.ES2020, true, name.endsWith('x') ? ts.ScriptKind.TSX : ts.ScriptKind.TS);
	const found = new Set();
	const tell = (node, text) => found.add(`${file.getLineAndCharacterOfPosition(node.getStart()).line + 1}: ${text.trim().replace(/\s+/g, ' ')}`);
	const tellAny = (node) => {
		for (const text of results(node)) if (LETTER.test(textOf(text)) && !isExcepted(text)) tell(text, textOf(text));
	};
	const visit = (node) => {
		if (ts.isJsxText(node) && LETTER.test(node.text)) tell(node, node.text);
		if (ts.isJsxExpression(node) && !ts.isJsxAttribute(node.parent)) tellAny(node);
		if (ts.isJsxAttribute(node) && node.initializer && READ.test(node.name.getText())) tellAny(node.initializer);
		if (ts.isPropertyAssignment(node) && READ.test(nameOf(node.name))) tellAny(node.initializer);
		if (isText(node) && (TWO_WORDS.test(textOf(node)) || CAPITAL.test(textOf(node))) && !isExcepted(node)) tell(node, textOf(node));
		ts.forEachChild(node, visit);
	};
	visit(file);
	return [...found];
}

const sources = readdirSync(SRC, { recursive: true }).filter((name) => /\.tsx?$/.test(name));
const read = (name) => readFileSync(join(SRC, name), 'utf8');

test('words are told from what is no language', () => {
	const words = (source) => wordsIn('x.tsx', source).map((line) => line.replace(/^\d+: /, ''));
	assert.deepEqual(words('<p>Nothing here</p>'), ['Nothing here']);
	assert.deepEqual(words('<p>{a ? "none" : `${b} left`}</p>'), ['none', '0 left']);
	assert.deepEqual(words('<p>{a === "done" && (b || "unknown")}</p>'), ['unknown']);
	assert.deepEqual(words('<b title="go" aria-label={`to ${x}`} alt="x" placeholder={a && "find"} />'), ['go', 'to 0', 'x', 'find']);
	assert.deepEqual(words('const o = { title: "go", hint: a ?? "now", key: "s" };'), ['go', 'now']);
	assert.deepEqual(words('f("two words"); g(`${n} more`); h("Word");'), ['two words', '0 more', 'Word']);
	assert.deepEqual(words('throw new Error("it is broken");'), ['it is broken']);
	assert.deepEqual(words('const el = <p class="big">{() => { say("of a handler"); }}</p>'), ['of a handler']);

	assert.deepEqual(words('<p class={a ? "one two" : "three"} style={{ width: `${w}px` }} data-testid="a">{T.a.b(x)} · {" › "}</p>'), []);
	assert.deepEqual(
		words('import x from "./a b"; type X = "one two" | "three"; document.querySelector(".a .b"); const FONT = "12px Sans Serif"; f(" KiB", `${n} ms`);'),
		[],
	);
	assert.deepEqual(words('if (event.key === "ArrowDown" || state === "done") set({ view: "graph", at: `${a}:${b}` });'), []);
});

test('all words are in one folder', () => {
	assert.ok(sources.length > 40 && sources.some(isTexts));
	const found = sources.filter((name) => !isTexts(name)).flatMap((name) => wordsIn(name, read(name)).map((line) => `src/${name}:${line}`));
	assert.deepEqual(found, []);
});

test('all texts are in use', () => {
	const texts = [];
	const collect = (path, value) => {
		if (ts.isObjectLiteralExpression(value)) for (const p of value.properties) collect(`${path}.${nameOf(p.name)}`, p.initializer);
		else texts.push(path);
	};
	for (const name of sources.filter(isTexts)) {
		for (const statement of ts.createSourceFile(name, read(name), ts.ScriptTarget.ES2020, true).statements) {
			if (!ts.isVariableStatement(statement) || !statement.modifiers) continue;
			for (const { name, initializer } of statement.declarationList.declarations) collect(name.text, initializer);
		}
	}
	assert.ok(texts.length > 400 && texts.includes('search.clear'));

	// T.a.b uses all that is below it, as in T.a.b[c]; and T.a.b.map() uses T.a.b.
	const used = new Set();
	for (const name of sources) {
		const visit = (node) => {
			const path = /^T\.([\w.]+)$/.exec(ts.isPropertyAccessExpression(node) ? node.getText() : '');
			if (path && !(ts.isPropertyAccessExpression(node.parent) && node.parent.expression === node)) used.add(path[1]);
			else ts.forEachChild(node, visit);
		};
		if (!isTexts(name)) visit(ts.createSourceFile(name, read(name), ts.ScriptTarget.ES2020, true));
	}
	const isUsed = (path) => [...used].some((u) => u === path || path.startsWith(`${u}.`) || u.startsWith(`${path}.`));
	assert.deepEqual(
		texts.filter((path) => !isUsed(path)),
		[],
	);
});
