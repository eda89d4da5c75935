// SPDX-License-Identifier: Apache-2.0
// The tooltip of a box.
import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useMemo, useRef } from 'preact/hooks';
import { displayName, formatCount, formatShare, formatValue, joinNames } from '../base/format';
import * as T from '../base/texts';
import { shareInterval } from '../model/noise';
import { shownIds, type BuildIds } from '../tree/build_ids';
import { isInlined, KIND, kindOf, placeOf, zoomRange, type Tree, type Zoom } from '../tree/tree';
import { tailSize, type Box } from './layout';

export interface Hover {
	box: Box;
	x: number; // in the window
	y: number;
}

/** What shares are of, and how sure they are. */
export interface TipFacts {
	whole: number; // of everything that was asked for, before any step
	period: number; // value of one sample; 0: samples cannot be counted
	rest: (node: number) => string; // how what was left out as too small is opened
	builds?: ReadonlyMap<string, BuildIds>; // by binary
	turned: boolean; // turned over: a node's self value is that of stacks which begin there, and no function's
}

interface OfProps {
	tree: Tree;
	facts: TipFacts;
	view: Zoom;
	parent: number; // -1 = none
}

// Of all, of what is in view unless that is all, of the caller.
function wholes({ tree, facts, view, parent }: OfProps): { title: string; value: number }[] {
	const [from, to] = zoomRange(tree, view);
	const columns = [{ title: T.flame.ofAll, value: facts.whole }];
	if (to - from < facts.whole * 0.9999) columns.push({ title: T.flame.ofView, value: to - from });
	if (parent >= 0) columns.push({ title: T.flame.ofCaller, value: tree.total[parent] });
	return columns;
}

function Figures({ rows, ...of }: OfProps & { rows: { label: string; value: number }[] }) {
	const columns = wholes(of);
	return (
		<table>
			<thead>
				<tr>
					<td />
					<td />
					{columns.map(({ title }) => (
						<th key={title} scope="col">
							{title}
						</th>
					))}
				</tr>
			</thead>
			<tbody>
				{rows.map(({ label, value }) => (
					<tr key={label}>
						<th scope="row">{label}</th>
						<td>{formatValue(value, of.tree.unit)}</td>
						{columns.map(({ title, value: whole }) => (
							<td key={title}>{formatShare(value, whole)}</td>
						))}
					</tr>
				))}
			</tbody>
		</table>
	);
}

// Between which shares of all the true one is, as far as so many samples allow.
function Interval({ value, facts }: { value: number; facts: TipFacts }) {
	const interval = shareInterval(value, facts.whole, facts.period);
	if (!interval) return null;
	const { count, low, high } = interval;
	return (
		<div class="tip-where" data-testid="tip-interval">
			{T.flame.samples(formatCount(count))} · {T.flame.within(formatShare(low, 1), formatShare(high, 1))}
		</div>
	);
}

// Which files the binary was: nodes are by its name, so of several it may be any.
function Builds({ of }: { of: BuildIds }) {
	const { ids, more } = shownIds(of);
	const text = ids.map((id) => displayName(id, 64)).join(', ');
	return (
		<div class="tip-where" data-testid="tip-build">
			{T.flame.buildIds(of.count)} <code>{text}</code>
			{more > 0 && ` ${T.flame.moreBuilds(formatCount(more))}`}
		</div>
	);
}

function TailTip({ tree, first, facts, view }: { tree: Tree; first: number; facts: TipFacts; view: Zoom }) {
	const { count, total } = useMemo(() => tailSize(tree, first), [tree, first]);
	return (
		<>
			<div class="tip-name">{T.flame.more(count)}</div>
			<div class="tip-where">{T.flame.narrow}</div>
			<Figures tree={tree} facts={facts} view={view} parent={tree.parent[first]} rows={[{ label: T.flame.together, value: total }]} />
		</>
	);
}

function FrameTip({ tree, node, facts, view }: { tree: Tree; node: number; facts: TipFacts; view: Zoom }) {
	const name = tree.strings[tree.name[node]];
	const unnamed = node > 0 && /^\[.*\]$/.test(name) ? T.flame.unnamed : '';
	const kind = T.flame.kinds[kindOf(tree, node)] ?? '';
	const place = placeOf(tree.strings[tree.file[node]], tree.line[node]);
	const binary = tree.strings[tree.binary[node]];
	const builds = facts.builds?.get(binary);
	const where = [binary, kind, unnamed];
	const parent = node > 0 ? tree.parent[node] : -1;
	return (
		<>
			<div class="tip-name">{displayName(name)}</div>
			{(place !== '' || isInlined(tree, node)) && (
				<div class="tip-place">
					{displayName(place)} {isInlined(tree, node) && <span class="mark">{T.flame.inlined}</span>}
				</div>
			)}
			<div class="tip-where">{joinNames(where, 120)}</div>
			{builds && <Builds of={builds} />}
			<Figures
				tree={tree}
				facts={facts}
				view={view}
				parent={parent}
				rows={[{ label: T.flame.total, value: tree.total[node] }, ...(facts.turned ? [] : [{ label: T.flame.self, value: tree.self[node] }])]}
			/>
			{kindOf(tree, node) === KIND.rest ? <div class="tip-where">{facts.rest(node)}</div> : <Interval value={tree.total[node]} facts={facts} />}
		</>
	);
}

/** content: replaces the figures. */
export function Tooltip({ tree, hover, facts, view, content }: { tree: Tree; hover: Hover; facts: TipFacts; view: Zoom; content?: ComponentChildren }) {
	const ref = useRef<HTMLDivElement>(null);
	useLayoutEffect(() => {
		const tip = ref.current!;
		const { width, height } = tip.getBoundingClientRect();
		const left = Math.min(hover.x + 14, innerWidth - width - 8);
		const below = hover.y + 18 + height < innerHeight - 4;
		tip.style.left = `${Math.max(8, left)}px`;
		tip.style.top = `${Math.max(4, below ? hover.y + 18 : hover.y - height - 12)}px`;
	});
	return (
		<div class="tip" ref={ref} role="presentation">
			{content ??
				(hover.box.tail ? (
					<TailTip tree={tree} first={hover.box.node} facts={facts} view={view} />
				) : (
					<FrameTip tree={tree} node={hover.box.node} facts={facts} view={view} />
				))}
		</div>
	);
}
