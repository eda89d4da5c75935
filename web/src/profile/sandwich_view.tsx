// SPDX-License-Identifier: Apache-2.0
// One function between its callers (above, the function at their foot) and what it calls (below): two flame graphs around a head
// that says what it costs. A click on a frame chooses that function instead.
import { useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { displayName, formatCount, formatShare, formatValue, joinNames } from '../base/format';
import * as T from '../base/texts';
import type { TipFacts } from '../flame/tip';
import { FlameView, type Picture } from '../flame/view';
import { costliestFunction, functionsNamed } from '../model/find_function';
import type { ColorBy, ListingView, PageState } from '../state/page';
import { NO_FUNCTION, treeFunctions } from '../tree/functions';
import { countNext, sandwich, topAsRoot, type Sandwich } from '../tree/sandwich';
import { findNodes } from '../tree/search';
import { isPart, isSmall, NO_ZOOM, placeOf, type Tree, type Zoom } from '../tree/tree';
import { useLater } from '../ui/hooks';
import { press } from '../ui/keymap';
import type { MenuItem } from '../ui/menu';

export interface SandwichProps {
	tree: Tree;
	of: Pick<PageState, 'function' | 'file' | 'binary'>;
	find: string;
	regex: boolean;
	dark: boolean;
	color: ColorBy;
	period: number; // value of one sample; 0: samples cannot be counted
	builds: TipFacts['builds'];
	picture: { current: Picture | null };
	// Of a node of one of the halves, whose root is the function.
	onPick: (half: Tree, node: number) => void;
	onMenu: (half: Tree, node: number, x: number, y: number, more: MenuItem[]) => void;
	onOpen: (kind: ListingView, half: Tree, node: number) => void;
}

interface HalfProps extends Pick<SandwichProps, 'find' | 'regex' | 'dark' | 'color' | 'period' | 'builds' | 'picture' | 'onPick' | 'onMenu' | 'onOpen'> {
	half: Tree;
	whole: number; // of the profile
	part: 'callers' | 'callees';
	none: string;
}

function Half({ half, whole, part, none, find, regex, dark, color, period, builds, picture, onPick, onMenu, onOpen }: HalfProps) {
	const [zoomed, setZoom] = useState<{ of: Tree; zoom: Zoom } | null>(null);
	const zoom = zoomed?.of === half ? zoomed.zoom : NO_ZOOM;
	const matches = useMemo(() => {
		const found = findNodes(half, find, regex);
		return typeof found === 'string' ? null : found;
	}, [half, find, regex]);
	const facts = useMemo(() => ({ whole, period, builds, rest: () => '', turned: part === 'callers' }), [whole, period, builds, part]);
	const onZoom = (next: Zoom) => setZoom({ of: half, zoom: next });
	const isZoomed = zoom.node > 0 || isPart(zoom);
	return (
		<section class={`sandwich-half sandwich-${part}`} aria-label={T.sandwich[part]}>
			<h3>
				{half.count < 2 ? none : T.sandwich[part]}
				{isZoomed && (
					<button type="button" class="link" onClick={() => onZoom(NO_ZOOM)}>
						{T.sandwich.showAll}
					</button>
				)}
			</h3>
			<FlameView
				name={part}
				label={part === 'callers' ? T.sandwich.callersGraph : T.sandwich.calleesGraph}
				tree={half}
				zoom={zoom}
				onZoom={onZoom}
				flip={part === 'callers'}
				matches={matches}
				dark={dark}
				focusRequest={null}
				picture={picture}
				onPick={(node) => (node === 0 ? onZoom(NO_ZOOM) : onPick(half, node))}
				onKey={(event, node) => press('sandwich', event, { open: () => onPick(half, node) })}
				color={color}
				facts={facts}
				onMenu={(node, x, y) => onMenu(half, node, x, y, [{ title: T.menu.zoom, run: () => onZoom({ ...NO_ZOOM, node }) }])}
				onOpen={(kind, node) => onOpen(kind, half, node)}
			/>
		</section>
	);
}

interface Made {
	made: Sandwich;
	callers: Tree;
	callees: Tree;
	callersCount: number;
	calleesCount: number;
}

function makeSandwich({ tree, fn }: { tree: Tree; fn: number }): Made {
	const made = sandwich(tree, fn);
	return {
		made,
		callers: topAsRoot(made.callers),
		callees: topAsRoot(made.callees),
		callersCount: countNext(made.callers),
		calleesCount: countNext(made.callees),
	};
}

function Facts({ tree, fn, made, among, onChoose }: { tree: Tree; fn: number; made: Made; among: number[]; onChoose: (fn: number) => void }) {
	const { first } = treeFunctions(tree);
	const whereOf = (f: number): string => {
		const node = first[f];
		return joinNames([placeOf(tree.strings[tree.file[node]], tree.line[node]), tree.strings[tree.binary[node]]], 120) || T.sandwich.unknownPlace;
	};
	const name = tree.strings[tree.name[first[fn]]];
	const { self, total, paths } = made.made;
	return (
		<header class="sandwich-head">
			<h2 title={displayName(name)} data-testid="sandwich-name">
				{displayName(name, 300)}
			</h2>
			{among.length > 1 ? (
				<select
					class="select plain"
					aria-label={T.sandwich.which}
					data-testid="sandwich-which"
					value={String(fn)}
					onChange={(event) => onChoose(Number(event.currentTarget.value))}
				>
					{among.map((f) => (
						<option key={f} value={String(f)}>
							{whereOf(f)}
						</option>
					))}
				</select>
			) : (
				<span class="sandwich-where" title={whereOf(fn)}>
					{whereOf(fn)}
				</span>
			)}
			<div class="sandwich-sums" data-testid="sandwich-sums">
				<dl>
					{(
						[
							[T.sandwich.total, total],
							[T.sandwich.self, self],
						] as const
					).map(([title, value]) => (
						<div key={title}>
							<dt>{title}</dt>
							<dd>
								<b>{formatValue(value, tree.unit)}</b> {T.sandwich.ofAll(formatShare(value, tree.total[0]))}
							</dd>
						</div>
					))}
				</dl>
				<span class="sandwich-around">{T.sandwich.around(made.callersCount, made.calleesCount, formatCount(paths))}</span>
			</div>
		</header>
	);
}

const AMONG_MAX = 100; // functions of one name

// One above the other.
function joinPictures(halves: { current: Picture | null }[]): HTMLCanvasElement | null {
	const pictures = halves.map((half) => half.current?.() ?? null).filter((picture) => picture !== null);
	const canvas = document.createElement('canvas');
	canvas.width = Math.max(1, ...pictures.map((picture) => picture.width));
	canvas.height = pictures.reduce((sum, picture) => sum + picture.height, 0) || 1;
	const context = canvas.getContext('2d');
	let top = 0;
	for (const picture of pictures) {
		context?.drawImage(picture, 0, top);
		top += picture.height;
	}
	return pictures.length > 0 ? canvas : null;
}

export function SandwichView({ tree, of, onPick, picture, ...rest }: SandwichProps) {
	const above = useRef<Picture | null>(null);
	const below = useRef<Picture | null>(null);
	useLayoutEffect(() => {
		picture.current = () => joinPictures([above, below]);
		return () => {
			picture.current = null;
		};
	}, [picture]);
	const { among, fn } = useMemo(() => {
		if (of.function === '') {
			const best = costliestFunction(tree);
			return { among: [best], fn: best };
		}
		const [fitting = NO_FUNCTION] = functionsNamed(tree, of.function, of.file, of.binary);
		return { among: functionsNamed(tree, of.function, null, null).slice(0, AMONG_MAX), fn: fitting };
	}, [tree, of.function, of.file, of.binary]);
	const wanted = useMemo(() => ({ tree, fn }), [tree, fn]);
	const later = useLater(wanted, isSmall(tree), makeSandwich);
	const isLate = later?.of !== wanted;
	if (fn === NO_FUNCTION)
		return (
			<div class="sandwich sandwich-none" data-testid="sandwich" role="status">
				{of.function === '' ? T.sandwich.none : T.sandwich.gone(displayName(of.function, 200))}
			</div>
		);
	const { made, of: shown } = later ? { made: later.value, of: later.of } : { made: null, of: wanted };
	const { first } = treeFunctions(tree);
	return (
		<div class="sandwich" data-testid="sandwich" role="region" aria-label={T.sandwich.label} aria-busy={isLate}>
			{made && (
				<>
					<Facts
						tree={shown.tree}
						fn={shown.fn}
						made={made}
						among={isLate ? [shown.fn] : among.includes(fn) ? among : [fn]}
						onChoose={(f) => onPick(tree, first[f])}
					/>
					<Half {...rest} picture={above} onPick={onPick} part="callers" whole={shown.tree.total[0]} half={made.callers} none={T.sandwich.noCallers} />
					<Half {...rest} picture={below} onPick={onPick} part="callees" whole={shown.tree.total[0]} half={made.callees} none={T.sandwich.noCallees} />
				</>
			)}
		</div>
	);
}
