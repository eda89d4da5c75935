// SPDX-License-Identifier: Apache-2.0
/*
 * Colours of the frames. They are made in OKLCH, where equal lightness looks equally light, so that one text colour reads
 * on all of them and no binary shouts. The kernel has the warm hues for itself, JIT code amber, interpreters pink, each runtime that is known a pink of its own, or ochre; binaries
 * share what is left, by name (color_slots.ts): the same binary has the same colour in every graph, and those of one legend differ. By kind, native code is blue and
 * what is of no known kind grey: blue, red, amber and pink stay apart for people who cannot tell red from green. By package,
 * hashes choose among all hues but the kernel's, which keeps its own.
 */
import * as T from '../base/texts';
import type { ColorBy } from '../state/page';
import { treeFunctions } from '../tree/functions';
import { packageOf } from '../tree/package';
import { KIND, kindOf, type Tree } from '../tree/tree';
import { assignSlots, readSlots, slotOf, SLOTS, writeSlots } from './color_slots';

function channel(linear: number): number {
	const c = Math.min(1, Math.max(0, linear));
	return Math.round(255 * (c <= 0.0031308 ? 12.92 * c : 1.055 * c ** (1 / 2.4) - 0.055));
}

// Björn Ottosson's OKLab to sRGB (https://bottosson.github.io/posts/oklab/); hue in degrees.
export function oklch(lightness: number, chroma: number, hue: number): string {
	const a = chroma * Math.cos((hue * Math.PI) / 180);
	const b = chroma * Math.sin((hue * Math.PI) / 180);
	const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
	const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
	const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
	const rgb = [
		4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
		-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
		-0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
	];
	return '#' + rgb.map((c) => channel(c).toString(16).padStart(2, '0')).join('');
}

export function hashText(text: string): number {
	let h = 2166136261;
	for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 16777619);
	return (h ^ (h >>> 13)) >>> 0;
}

const SHADES = 4; // neighbours of one binary differ a little, or a stack of them would be one block
const SHADE = 0.018;
const DOWN = 0.13; // more than all shades together
const DOWN_DARK = 0.105;

export interface Palette {
	text: string;
	faded: string; // frames that a search leaves out
	fadedText: string;
	match: string;
	matchText: string;
	tail: string;
	tailLine: string;
	focus: string;
	hover: string;
	background: string;
	frame: (hue: number, chroma: number, shade: number, down?: number) => string; // down: steps of lightness
}

export function palette(dark: boolean): Palette {
	const cache = new Map<string, string>();
	const frame = (hue: number, chroma: number, shade: number, down = 0): string => {
		const id = `${hue}/${chroma}/${shade}/${down}`;
		let color = cache.get(id);
		if (!color) {
			const light = dark ? 0.46 + SHADE * shade - DOWN_DARK * down : 0.868 - SHADE * shade - DOWN * down;
			color = oklch(light, dark ? chroma * 0.86 : chroma, hue);
			cache.set(id, color);
		}
		return color;
	};
	if (dark) {
		return {
			text: '#f4f1ec',
			faded: '#2c2a28',
			fadedText: '#9a9389',
			match: '#e9a8f5',
			matchText: '#2a0a33',
			tail: '#33302d',
			tailLine: '#4b4641',
			focus: '#ffffff',
			hover: 'rgba(255,255,255,0.14)',
			background: '#1a1817',
			frame,
		};
	}
	return {
		text: '#1f1b16',
		faded: '#efece7',
		fadedText: '#6f675d',
		match: '#a21caf',
		matchText: '#ffffff',
		tail: '#e4dfd8',
		tailLine: '#c9c2b8',
		focus: '#1c1917',
		hover: 'rgba(0,0,0,0.10)',
		background: '#ffffff',
		frame,
	};
}

export interface Hue {
	hue: number;
	chroma: number;
	down?: number;
}

// What binaries have that were in a legend, on this visit and those before.
let slots: Map<string, number> | null = null;
const STORED = 'wick-colors';

function known(): Map<string, number> {
	if (slots) return slots;
	let text = '';
	try {
		text = localStorage.getItem(STORED) ?? '';
	} catch {
		// forbidden, or there is none
	}
	return (slots = readSlots(text));
}

const LEGEND_MOST = 12;
const distinct = new WeakSet<Tree>();

/** Sees to it that the binaries of the legend of a tree have distinguishable colours. */
export function distinguish(tree: Tree): void {
	if (distinct.has(tree)) return;
	distinct.add(tree);
	const shares = new Float64Array(tree.strings.length);
	for (let i = 1; i < tree.count; i++) {
		const kind = kindOf(tree, i);
		if (kind !== KIND.kernel && kind !== KIND.jit && kind !== KIND.interpreted) shares[tree.binary[i]] += tree.self[i];
	}
	const order = Array.from(shares.keys()).filter((at) => shares[at] > 0 && tree.strings[at] !== '');
	order.sort((a, b) => shares[b] - shares[a] || (tree.strings[a] < tree.strings[b] ? -1 : 1));
	const assigned = assignSlots([...new Set(order.map((at) => tree.strings[at]))].slice(0, LEGEND_MOST), known(), hashText);
	for (const [name, slot] of assigned) {
		known().delete(name);
		known().set(name, slot);
	}
	try {
		localStorage.setItem(STORED, writeSlots(known(), hashText));
	} catch {
		// forbidden: colours last as long as the page
	}
}

// By what the agent calls the binary of a runtime's functions.
const RUNTIME_HUES: Record<string, Hue> = {
	python: { hue: 352, chroma: 0.09 },
	v8js: { hue: 335, chroma: 0.09 },
	jvm: { hue: 9, chroma: 0.09 },
	php: { hue: 352, chroma: 0.09, down: 1 },
	ruby: { hue: 9, chroma: 0.09, down: 1 },
	perl: { hue: 335, chroma: 0.09, down: 1 },
	lua: { hue: 320, chroma: 0.09 },
	luajit: { hue: 320, chroma: 0.09, down: 1 },
	beam: { hue: 64, chroma: 0.09, down: 1 },
};

// Native hues run from yellow-green over blue to violet; 20-75 (warm) and 330-360 (pink) are taken.
export function hueOf(kind: number, binary: string): Hue {
	switch (kind) {
		case KIND.kernel:
			// A module is the kernel too, a little further to the red or the yellow.
			return {
				hue: binary.startsWith('[kernel') || binary === '' ? 42 : 26 + (hashText(binary) % 12),
				chroma: 0.105,
			};
		case KIND.jit:
			return RUNTIME_HUES[binary] ?? { hue: 88, chroma: 0.13 };
		case KIND.interpreted:
			return RUNTIME_HUES[binary] ?? { hue: 350, chroma: 0.09 };
		default:
			if (binary === '') return { hue: 80, chroma: 0.012 };
			return { ...slotOf(known().get(binary) ?? hashText(binary) % SLOTS), chroma: 0.07 };
	}
}

// The hue of code of a kind, whatever binary it is of.
function hueOfKind(kind: number): Hue {
	if (kind === KIND.native) return { hue: 245, chroma: 0.075 };
	return kind === KIND.unknown ? { hue: 80, chroma: 0.012 } : hueOf(kind, '');
}

function hueOfPackage(kind: number, name: string, binary: string): Hue {
	if (kind === KIND.kernel) return hueOf(kind, binary);
	const of = packageOf(name) || binary;
	return of === '' ? hueOf(KIND.unknown, '') : { hue: 88 + (hashText(of) % 44) * 6.2, chroma: 0.085 };
}

export interface FrameColors {
	of: (node: number) => string;
}

export function frameColors(tree: Tree, colors: Palette, by: ColorBy = 'binary'): FrameColors {
	distinguish(tree);
	const hues = new Map<number, Hue>(); // by kind and, as it is asked for, binary or name
	const shades = new Int8Array(tree.strings.length).fill(-1);
	const hueFor = (node: number, kind: number): Hue => {
		const binary = tree.strings[tree.binary[node]];
		if (by === 'kind') return hueOfKind(kind);
		return by === 'package' ? hueOfPackage(kind, tree.strings[tree.name[node]], binary) : hueOf(kind, binary);
	};
	return {
		of(node) {
			if (node === 0) return colors.tail;
			const kind = kindOf(tree, node);
			const name = tree.name[node];
			// Of functions of one name in two binaries without a package, the first decides for both: they are hardly told apart.
			const id = (by === 'kind' ? 0 : by === 'package' ? name : tree.binary[node]) * 8 + kind;
			let hue = hues.get(id);
			if (!hue) hues.set(id, (hue = hueFor(node, kind)));
			if (shades[name] < 0) shades[name] = hashText(tree.strings[name]) % SHADES;
			return colors.frame(hue.hue, hue.chroma, shades[name], hue.down);
		},
	};
}

export interface LegendEntry {
	label: string;
	find: string; // what to search for
	color: string;
	share: number; // self value
}

// What an entry is about: the text to search for, how it is called, and its hue.
interface Group {
	find: string;
	label: string;
	hue: Hue;
}

function groupOf(by: ColorBy, kind: number, name: string, binary: string): Group {
	const special = ({ [KIND.kernel]: 'kernel', [KIND.jit]: 'jit', [KIND.interpreted]: 'interpreted' } as const)[kind];
	if (by === 'kind') {
		const word = special ?? (kind === KIND.native ? 'native' : 'unknown');
		return { find: `kind:${word}`, label: T.legend[word], hue: hueOfKind(special || kind === KIND.native ? kind : KIND.unknown) };
	}
	if (by === 'package' && kind !== KIND.kernel) {
		const of = packageOf(name);
		if (of !== '') return { find: `package:${of}`, label: of, hue: hueOfPackage(kind, name, binary) };
		return { find: binary ? `in:${binary}` : 'kind:unknown', label: binary || T.legend.unknown, hue: hueOfPackage(kind, '', binary) };
	}
	const runtime = kind === KIND.interpreted || kind === KIND.jit ? T.legend.runtimes[binary] : undefined;
	if (runtime) return { find: `in:${binary}`, label: runtime, hue: hueOf(kind, binary) };
	if (special) return { find: `kind:${special}`, label: T.legend[special], hue: hueOf(kind, kind === KIND.kernel ? '' : binary) };
	return { find: binary ? `in:${binary}` : 'kind:unknown', label: binary || T.legend.unknown, hue: hueOf(kind, binary) };
}

/** What is in the graph by self value, the largest first, as it is coloured. */
export function legend(tree: Tree, colors: Palette, by: ColorBy = 'binary'): LegendEntry[] {
	distinguish(tree);
	const { of, count, first } = treeFunctions(tree);
	const shares = new Float64Array(count * 8); // by function and kind
	for (let i = 1; i < tree.count; i++) shares[of[i] * 8 + kindOf(tree, i)] += tree.self[i];
	const entries = new Map<string, LegendEntry>();
	for (let both = 0; both < shares.length; both++) {
		if (shares[both] === 0) continue;
		const node = first[both >> 3];
		const { find, label, hue } = groupOf(by, both & 7, tree.strings[tree.name[node]], tree.strings[tree.binary[node]]);
		let entry = entries.get(find);
		if (!entry) entries.set(find, (entry = { label, find, color: colors.frame(hue.hue, hue.chroma, 1, hue.down), share: 0 }));
		entry.share += shares[both];
	}
	return [...entries.values()].sort((a, b) => b.share - a.share);
}

// Colours of the lines and areas of the metrics graph; apart from each other in hue and, for the colour-blind, in
// lightness.
const SERIES_LIGHT = ['#c8602f', '#1d6fa5', '#d9a514', '#3f8f5f', '#7c4fb0', '#e08a6b', '#6fb1d6', '#a3366a', '#8aa83c', '#4b5a86'];
const SERIES_DARK = ['#d9773f', '#4aa3dc', '#e6c04a', '#5fb98a', '#a884de', '#f2b49a', '#9fd0ea', '#d8709f', '#b4cc6a', '#8594c6'];

export function seriesColor(index: number, dark: boolean): string {
	const colors = dark ? SERIES_DARK : SERIES_LIGHT;
	return index < 0 ? (dark ? '#57524c' : '#cfc8be') : colors[index % colors.length];
}

/** A colour of the form #rrggbb as it is beside one that is highlighted: close to the background, and opaque. */
export function fadedColor(color: string, dark: boolean): string {
	const back = dark ? 0x1a1817 : 0xffffff;
	const from = Number.parseInt(color.slice(1), 16);
	const mixed = [16, 8, 0].map((shift) => Math.round(((from >> shift) & 255) * 0.22 + ((back >> shift) & 255) * 0.78));
	return '#' + mixed.map((c) => c.toString(16).padStart(2, '0')).join('');
}
