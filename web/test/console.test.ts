// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { SavedParameter } from '../src/api/responses';
import { complete, faultAt, placeOf, STAGES, type Wanted } from '../src/console/complete';
import { draftOf, fileOf, likelyLabel, likelyType, missing, nameOf, parametersIn, requestOf, textsOf, valuesIn } from '../src/console/saved';

// "^" is the cursor.
const at = (text: string) => placeOf(text.replace('^', ''), text.indexOf('^'));
const offered = (wanted: Wanted) => (wanted.kind === 'words' ? wanted.words.map((w) => w.text) : wanted.kind);
const choose = (text: string, choice: string) => {
	const place = at(text);
	const done = complete(text.replace('^', ''), text.indexOf('^'), place, choice);
	return done.text.slice(0, done.cursor) + '^' + done.text.slice(done.cursor);
};

test('the selector: types, labels, operators, values', () => {
	assert.equal(offered(at('^').wanted), 'types');
	assert.deepEqual([at('proc^').typed, at('proc^').from, offered(at('proc^').wanted)], ['proc', 0, 'types']);
	assert.equal(offered(at('process_cpu{^').wanted), 'labels');
	assert.deepEqual(offered(at('process_cpu{service_name^').wanted), 'labels');
	assert.deepEqual(offered(at('process_cpu{service_name ^').wanted), ['=', '!=', '=~', '!~']);
	assert.deepEqual(at('process_cpu{service_name="che^').wanted, { kind: 'values', label: 'service_name' });
	assert.equal(at('process_cpu{service_name="che^').typed, 'che');
	assert.deepEqual(at('process_cpu{a="x", b!=^').wanted, { kind: 'values', label: 'b' });
	assert.equal(offered(at('process_cpu{a="x",^').wanted), 'labels');
	assert.deepEqual(offered(at('process_cpu{a="x"} ^').wanted), ['|']);
});

test('stages: each says what follows', () => {
	assert.deepEqual(at('process_cpu | ^').wanted, { kind: 'words', words: STAGES });
	assert.equal(at('process_cpu | gr^').typed, 'gr');
	assert.equal(offered(at('x | group by ^').wanted), 'labels');
	assert.equal(offered(at('x | group by a, ^').wanted), 'labels');
	assert.equal(offered(at('x | group by a ^').wanted), 'nothing');
	assert.equal(offered(at('x | where ^').wanted), 'labels');
	assert.deepEqual(at('x | where a=^').wanted, { kind: 'values', label: 'a' });
	assert.deepEqual(offered(at('x | top 5 by ^').wanted), ['function', 'file', 'binary', 'line', 'package', 'label']);
	assert.equal(offered(at('x | top 5 by label ^').wanted), 'labels');
	assert.ok(!offered(at('x | top 5 self ^').wanted).includes('total'));
	assert.equal(offered(at('x | callers of ^').wanted), 'functions');
	assert.equal(offered(at('x | frames =~ "mal^').wanted), 'functions');
	assert.equal(offered(at('x | frames function = "mal^').wanted), 'functions');
	assert.deepEqual(offered(at('x | frames kernel ^').wanted), ['and']);
	assert.deepEqual(offered(at('x | diff (shift ^').wanted), ['1m', '5m', '1h', '1d', '7d']);
	assert.equal(offered(at('x | diff ({^').wanted), 'labels');
	assert.deepEqual(offered(at('x | diff (shift 1d) ^').wanted), ['relative']);
	assert.equal(offered(at('x | compare label ^').wanted), 'labels');
	assert.equal(offered(at('x | join process_stats on a, ^').wanted), 'labels');
	assert.equal(offered(at('x | values of ^').wanted), 'labels');
});

test('a bar within quotes or parentheses begins no stage', () => {
	assert.deepEqual(at('x{a="b|c^').wanted, { kind: 'values', label: 'a' });
	assert.equal(offered(at('x | frames =~ "a|b" | gr^').wanted).length, STAGES.length);
});

test('what is chosen takes the place of what was typed', () => {
	assert.equal(choose('process_cpu | gr^', 'group by'), 'process_cpu | group by ^');
	assert.equal(choose('x{service_name="che^', 'checkout'), 'x{service_name="checkout"^');
	assert.equal(choose('x{service_name="che^"}', 'checkout'), 'x{service_name="checkout"^}');
	assert.equal(choose('x{a=^', 'say "hi"\\'), 'x{a="say \\"hi\\"\\\\"^');
	assert.equal(choose('x | top^ by file', 'top'), 'x | top^ by file');
	assert.equal(choose('^', 'process_cpu'), 'process_cpu^');
	// What it writes is read again as the same.
	const { text, cursor } = complete('x{a=', 4, at('x{a=^'), 'q"\\\n|');
	assert.deepEqual(offered(placeOf(text + '} ', cursor + 2).wanted), ['|']);
});

test('any text at all is no fault of the editor', () => {
	const pieces = ['process_cpu', '{', '}', '"', '\\', '|', '(', ')', ' top ', '=', '!', '=~', ',', ' by ', 'é', '\n', 'diff', '😀'];
	let seed = 7;
	const next = (n: number) => (seed = (seed * 1103515245 + 12345) & 0x7fffffff) % n;
	for (let i = 0; i < 3000; i++) {
		const text = Array.from({ length: next(12) }, () => pieces[next(pieces.length)]).join('');
		const cursor = next(text.length + 1);
		const place = placeOf(text, cursor);
		assert.ok(place.from >= 0 && place.from <= cursor, JSON.stringify(text));
		assert.equal(complete(text, cursor, place, 'x').text.slice(0, place.from), text.slice(0, place.from));
	}
});

test('where the server found a fault', () => {
	assert.deepEqual(faultAt("query: expected a stage (where, ...) at column 15 near 'foo 2'"), { column: 15, length: 3 });
	assert.deepEqual(faultAt('query: ends too early at column 4'), { column: 4, length: 1 });
	assert.equal(faultAt('the server is busy'), null);
});

test('saved queries: values go through the URL, what is usual is left out', () => {
	const parameters: SavedParameter[] = [
		{ name: 'service', title: '', type: 'value', label: 'service_name' },
		{ name: 'n', title: '', type: 'number', default: '20' },
	];
	assert.deepEqual(valuesIn(['service=a=b', 'n=3', 'x', '=y', 'n=4']), { service: 'a=b', n: '4' });
	assert.deepEqual(textsOf(parameters, { service: 'a=b', n: '20', other: 'x' }), ['service=a=b']);
	assert.deepEqual(textsOf(parameters, { service: '', n: '7' }), ['n=7']);
	assert.equal(missing(parameters, { n: '3' })?.name, 'service');
	assert.equal(missing(parameters, { service: 'x' }), undefined);
	assert.deepEqual(requestOf('top', ['service=a=b', 'n=']), { saved: 'top', 'param.service': 'a=b', 'param.n': '' });
});

test('saved queries: parameters of a text, and what they seem to be', () => {
	const text = 'process_cpu{service_name=~$service, a="$no", b!=$b} | group by $label | bin $step | diff (shift $range) | top $n by label $other';
	assert.deepEqual(parametersIn(text), ['service', 'b', 'label', 'step', 'n', 'other']);
	assert.deepEqual(parametersIn('a{b=~"x\\"$c"} | frames $f'), ['f']);
	const types = Object.fromEntries(parametersIn(text).map((name) => [name, likelyType(text, name)]));
	assert.deepEqual(types, { service: 'value', b: 'value', label: 'label', step: 'duration', n: 'number', other: 'label' });
	assert.equal(likelyType('process_cpu | callers of $f', 'f'), 'text');
	assert.equal(likelyLabel(text, 'service'), 'service_name');
	assert.equal(likelyLabel(text, 'n'), '');
});

test('saved queries: what is saved', () => {
	assert.equal(nameOf('  What became slower? (Größe) '), 'what-became-slower-gro-e');
	assert.equal(nameOf('…'), '');
	const draft = draftOf('process_cpu{service_name=$service} | top $n');
	draft.title = 'Mine';
	draft.parameters[1].usual = '7';
	assert.deepEqual(fileOf(draft), {
		title: 'Mine',
		parameters: { service: { type: 'value', label: 'service_name' }, n: { type: 'number', default: '7' } },
		query: 'process_cpu{service_name=$service} | top $n',
	});
	const choice = draftOf('process_cpu | top 3 by label $l');
	choice.parameters[0] = { name: 'l', type: 'choice', label: '', usual: '', choices: 'a, b,,' };
	assert.deepEqual(fileOf(choice), { title: '', parameters: { l: { type: 'choice', choices: ['a', 'b'] } }, query: 'process_cpu | top 3 by label $l' });
	assert.deepEqual(fileOf({ ...draft, parameters: [], query: 'process_cpu' }), { title: 'Mine', query: 'process_cpu' });
});
