// SPDX-License-Identifier: Apache-2.0
/*
 * Filters of long lists: fuzzy with a rank, part of the name, or a regular expression.
 *
 * Fuzzy: the letters of each word that is typed are in the name, in their order, any case; all words must be. What a person
 * means is mostly one of: the letters together; the beginnings of words (`hmf` for `hash_map_find`); the beginning of the
 * name. So a match is worth more where letters follow each other and where they stand at the beginning of a word, less for
 * gaps; of equals the shorter name comes first. The weights follow fzf's, the idea of which is the same.
 *
 * A name is tried by taking each letter at the first place it is (from the left, then back from the end to make it short), and
 * so again from those beginnings of words that have the first letter, WINDOWS_MAX of them. The best of these is not always
 * the best there is, which would take letters times length for each of 200,000 names; a match that exists is always found.
 */
import { compileSearch } from '../tree/search';

export type FilterMode = 'fuzzy' | 'plain' | 'regex';

export interface Filter {
	/** Negative: no match. The greater the better; without rank (plain, regex) 0. */
	score: (name: string) => number;
	/** The parts of a name that match, [from, to), in order, without overlap; empty when it does not. For what is in view. */
	marks: (name: string) => [from: number, to: number][];
	ranked: boolean;
}

const QUERY_MAX = 128; // letters
const WINDOWS_MAX = 8;

const LETTER = 16;
const FOLLOWS = 8; // the letter before matched too
const WORD = 8; // at the beginning of a word
const START = 12; // at that of the name
const CASE = 1;
const GAP = -3;
const GAP_MORE = -1; // for each further letter left out, GAP_MAX at most
const GAP_MAX = 12;

// One code unit for one, so that places in a name are the same with and without case.
let folded: Uint16Array | null = null;
function foldTable(): Uint16Array {
	folded ??= Uint16Array.from({ length: 65536 }, (_, c) => {
		const lower = String.fromCharCode(c).toLowerCase();
		return lower.length === 1 ? lower.charCodeAt(0) : c;
	});
	return folded;
}

const isDigit = (c: number): boolean => c >= 48 && c <= 57;
const isUpper = (c: number, fold: Uint16Array): boolean => fold[c] !== c;
const isLetter = (c: number): boolean => (c >= 65 && c <= 90) || (c >= 97 && c <= 122) || c >= 0xaa;

// The first letter, one after something that is none, and a capital after a small one: hash_map, ns::Name, addRef, v2.
function beginsWord(name: string, at: number, fold: Uint16Array): boolean {
	if (at === 0) return true;
	const [before, here] = [name.charCodeAt(at - 1), name.charCodeAt(at)];
	if (isLetter(here)) return !isLetter(before) || (isUpper(here, fold) && !isUpper(before, fold));
	return isDigit(here) && !isDigit(before);
}

interface Word {
	text: string;
	letters: Uint16Array; // folded
}

interface Match {
	score: number;
	places: number[];
}

function scoreOf(name: string, word: Word, places: Int32Array, fold: Uint16Array): number {
	let score = 0;
	for (let k = 0; k < places.length; k++) {
		const at = places[k];
		score += LETTER;
		if (name.charCodeAt(at) === word.text.charCodeAt(k)) score += CASE;
		const gap = k === 0 ? 0 : at - places[k - 1] - 1;
		if (at === 0) score += START;
		else if (beginsWord(name, at, fold)) score += WORD;
		if (k > 0 && gap === 0) score += FOLLOWS;
		else if (gap > 0) score += GAP + GAP_MORE * Math.min(GAP_MAX, gap - 1);
	}
	return score;
}

// Takes each letter at its first place from `from` on. False when the letters are not all there.
function takeFirst(name: string, { letters }: Word, from: number, fold: Uint16Array, places: Int32Array): boolean {
	let k = 0;
	for (let at = from; at < name.length; at++) {
		if (fold[name.charCodeAt(at)] !== letters[k]) continue;
		places[k++] = at;
		if (k === letters.length) return true;
	}
	return false;
}

// With the last letter where it is, the others as far to the right as they can be.
function tighten(name: string, { letters }: Word, fold: Uint16Array, places: Int32Array): void {
	let k = letters.length - 2;
	for (let at = places[letters.length - 1] - 1; k >= 0; at--) if (fold[name.charCodeAt(at)] === letters[k]) places[k--] = at;
}

function matchWord(name: string, word: Word, wantPlaces: boolean): Match | null {
	const fold = foldTable();
	const { letters } = word;
	const places = new Int32Array(letters.length);
	if (!takeFirst(name, word, 0, fold, places)) return null;
	const best: Match = { score: -Infinity, places: [] };
	const consider = () => {
		const score = scoreOf(name, word, places, fold);
		if (score <= best.score) return;
		best.score = score;
		if (wantPlaces) best.places = Array.from(places);
	};
	const first = places[0];
	consider();
	tighten(name, word, fold, places);
	consider();
	let windows = 0;
	for (let at = first + 1; at < name.length && windows < WINDOWS_MAX; at++) {
		if (fold[name.charCodeAt(at)] !== letters[0] || !beginsWord(name, at, fold)) continue;
		if (!takeFirst(name, word, at, fold, places)) break;
		windows++;
		consider();
	}
	// The letters together, wherever they are.
	const together = indexOfFolded(name, letters, fold);
	if (together >= 0) {
		for (let k = 0; k < letters.length; k++) places[k] = together + k;
		consider();
	}
	return best;
}

function indexOfFolded(name: string, letters: Uint16Array, fold: Uint16Array): number {
	for (let at = 0; at + letters.length <= name.length; at++) {
		let k = 0;
		while (k < letters.length && fold[name.charCodeAt(at + k)] === letters[k]) k++;
		if (k === letters.length) return at;
	}
	return -1;
}

function joined(places: number[]): [number, number][] {
	const marks: [number, number][] = [];
	for (const at of places.sort((a, b) => a - b)) {
		const last = marks[marks.length - 1];
		if (last && at <= last[1]) last[1] = Math.max(last[1], at + 1);
		else marks.push([at, at + 1]);
	}
	return marks;
}

function compileFuzzy(text: string): Filter | null {
	const fold = foldTable();
	const words: Word[] = text
		.slice(0, QUERY_MAX)
		.split(/\s+/)
		.filter((word) => word !== '')
		.map((word) => ({ text: word, letters: Uint16Array.from(word.split(''), (c) => fold[c.charCodeAt(0)]) }));
	if (words.length === 0) return null;
	return {
		ranked: true,
		score: (name) => {
			let sum = 0;
			for (const word of words) {
				const match = matchWord(name, word, false);
				if (!match) return -1;
				sum += match.score;
			}
			return Math.max(0, sum);
		},
		marks: (name) => {
			const matches = words.map((word) => matchWord(name, word, true));
			return matches.includes(null) ? [] : joined(matches.flatMap((match) => match!.places));
		},
	};
}

// Where a search that compileSearch() understands matches.
function marksOf(text: string, regex: boolean): (name: string) => [number, number][] {
	const wanted = text.trim();
	if (!regex && wanted.length > 2 && wanted.startsWith('"') && wanted.endsWith('"')) return (name) => [[0, name.length]];
	const pattern = new RegExp(regex ? wanted : wanted.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'), 'gi');
	return (name) => {
		const marks: [number, number][] = [];
		for (const match of name.matchAll(pattern)) {
			const from = match.index ?? 0;
			if (match[0].length > 0) marks.push([from, from + match[0].length]);
		}
		return marks;
	};
}

/** Null for no filter; the fault as text. Plain and regular are as in the graph's search, compileSearch(). */
export function compileFilter(text: string, mode: FilterMode): Filter | null | string {
	if (mode === 'fuzzy') return compileFuzzy(text);
	const test = compileSearch(text, mode === 'regex');
	if (test === null || typeof test === 'string') return test;
	const marks = marksOf(text, mode === 'regex');
	return { ranked: false, score: (name) => (test(name) ? 0 : -1), marks: (name) => (test(name) ? marks(name) : []) };
}

/**
 * The places below `count` whose score is not negative: the best first if they are ranked, the shorter name first among equals;
 * otherwise as they come.
 */
export function pickBest(count: number, scoreOf: (at: number) => number, lengthOf: (at: number) => number, ranked: boolean): Int32Array {
	const found = new Int32Array(count);
	const scores = new Float64Array(ranked ? count : 0);
	let length = 0;
	for (let at = 0; at < count; at++) {
		const score = scoreOf(at);
		if (score < 0) continue;
		found[length++] = at;
		if (ranked) scores[at] = score;
	}
	const result = found.slice(0, length);
	return ranked ? result.sort((a, b) => scores[b] - scores[a] || lengthOf(a) - lengthOf(b) || a - b) : result;
}
