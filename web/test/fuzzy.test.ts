// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compileFilter, pickBest, type Filter, type FilterMode } from '../src/model/fuzzy';
import { seeded } from './trees';

function filter(text: string, mode: FilterMode = 'fuzzy'): Filter {
	const made = compileFilter(text, mode);
	assert.ok(made !== null && typeof made === 'object');
	return made;
}

const filterNames = (names: readonly string[], of: Filter) =>
	pickBest(
		names.length,
		(at) => of.score(names[at]),
		(at) => names[at].length,
		of.ranked,
	);
const best = (names: string[], text: string, mode?: FilterMode) => Array.from(filterNames(names, filter(text, mode)), (i) => names[i]);
const marked = (name: string, text: string, mode?: FilterMode) =>
	filter(text, mode)
		.marks(name)
		.map(([from, to]) => name.slice(from, to));

test('what a person means comes first', () => {
	const names = ['xmapfxind_hy', 'hash_map_find', 'the_map', 'map', 'std::map<int>::find', 'remapping', 'mmap', 'm_a_p', 'MAP', 'unrelated'];
	assert.equal(best(names, 'map')[0], 'map');
	assert.equal(best(names, 'MAP')[0], 'MAP');
	assert.equal(best(names, 'hmf')[0], 'hash_map_find');
	assert.equal(best(names, 'mapfind')[0], 'hash_map_find');
	assert.deepEqual(best(names, 'zz'), []);
	assert.ok(!best(names, 'map').includes('unrelated'));
	// Together before apart, the beginning of a word before its middle, the shorter of equals.
	assert.deepEqual(best(['a_l_l_o_c', 'xalloc', 'x_alloc'], 'alloc'), ['x_alloc', 'xalloc', 'a_l_l_o_c']);
	assert.deepEqual(best(['malloc_consolidate', 'malloc'], 'malloc'), ['malloc', 'malloc_consolidate']);
	assert.deepEqual(best(['xaddRef', 'addref', 'xaddref'], 'ref'), ['xaddRef', 'addref', 'xaddref']);
	assert.deepEqual(best(['f(x)', 'runtime.gcBgMarkWorker', 'gigabyte_mkdir_work'], 'gcbm')[0], 'runtime.gcBgMarkWorker');
});

test('all words must be there, in any order', () => {
	assert.deepEqual(best(['std::vector<Node>::push_back', 'Node::push', 'vector'], 'push vec'), ['std::vector<Node>::push_back']);
	assert.deepEqual(marked('std::vector<Node>::push_back', 'push vec'), ['vec', 'push']);
	assert.equal(compileFilter('  ', 'fuzzy'), null);
});

// By a regular expression: the letters with anything between them.
const exists = (name: string, word: string) =>
	new RegExp(
		word
			.split('')
			.map((c) => c.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'))
			.join('[^]*'),
		'i',
	).test(name);

test('what matches is found, with places that are right', () => {
	const random = seeded(9);
	const letters = 'abAB_:.(9é';
	const text = (length: number) => Array.from({ length }, () => letters[Math.floor(random() * letters.length)]).join('');
	for (let i = 0; i < 3000; i++) {
		const name = text(Math.floor(random() * 20));
		const word = text(1 + Math.floor(random() * 5));
		const f = filter(word);
		assert.equal(f.score(name) >= 0, exists(name, word), `${word} in ${name}`);
		const marks = f.marks(name);
		if (f.score(name) < 0) {
			assert.deepEqual(marks, []);
			continue;
		}
		const taken = marks.map(([from, to]) => name.slice(from, to)).join('');
		assert.equal(taken.toLowerCase(), word.toLowerCase());
		for (let k = 1; k < marks.length; k++) assert.ok(marks[k - 1][1] < marks[k][0]);
		if (name.toLowerCase().includes(word.toLowerCase())) assert.ok(f.score(name) >= 16 * word.length + 8 * (word.length - 1));
	}
});

test('letters whose small form is longer, halves of characters, and names of 10 kB', () => {
	assert.deepEqual(marked('İstanbul', 'stan'), ['stan']);
	assert.deepEqual(marked('ÉTÉ', 'été'), ['ÉTÉ']);
	assert.deepEqual(marked('x\u{1f600}y', '\u{1f600}'), ['\u{1f600}']);
	const long = 'a'.repeat(10_000) + 'b';
	assert.deepEqual(marked(long, 'ab'), ['ab']);
	assert.ok(filter('a'.repeat(1000)).score('a'.repeat(200)) >= 0); // what is typed is cut
	assert.equal(filter('x').score(''), -1);
});

test('plain and regular filters are those of the search', () => {
	assert.deepEqual(best(['b', 'malloc', 'xMalloc'], 'malloc', 'plain'), ['malloc', 'xMalloc']);
	assert.deepEqual(best(['malloc', 'xmalloc'], '"malloc"', 'plain'), ['malloc']);
	assert.deepEqual(marked('a.b.A', 'a', 'plain'), ['a', 'A']);
	assert.deepEqual(marked('a.b', '.', 'plain'), ['.']);
	assert.deepEqual(marked('malloc', '"malloc"', 'plain'), ['malloc']);
	assert.deepEqual(marked('memcpy strcpy', '(mem|str)cpy', 'regex'), ['memcpy', 'strcpy']);
	assert.deepEqual(marked('abc', 'x*', 'regex'), []);
	assert.deepEqual(best(['abc', 'x'], '^a', 'regex'), ['abc']);
	assert.equal(compileFilter('', 'plain'), null);
	assert.equal(typeof compileFilter('(', 'regex'), 'string');
});
