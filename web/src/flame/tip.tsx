// SPDX-License-Identifier: Apache-2.0
// What hovering over a box tells.
import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useMemo, useRef } from 'preact/hooks';
import { displayName, formatShare, formatValue } from '../format';
import * as T from '../texts';
import { tailSize, type Box } from './layout';
import { isInlined, kindOf, placeOf, type Tree } from './tree';

export interface Hover {
	box: Box;
	x: number; // in the window
	y: number;
}

function Figures({ tree, label, value, parent }: { tree: Tree; label: string; value: number; parent: number }) {
	return (
		<tr>
			<th scope="row">{label}</th>
			<td>{formatValue(value, tree.unit)}</td>
			<td>{formatShare(value, tree.total[0])}</td>
			<td>{parent >= 0 ? formatShare(value, tree.total[parent]) : ''}</td>
		</tr>
	);
}

function TailTip({ tree, first }: { tree: Tree; first: number }) {
	const { count, total } = useMemo(() => tailSize(tree, first), [tree, first]);
	const parent = tree.parent[first];
	return (
		<>
			<div class="tip-name">{T.flame.more(count)}</div>
			<div class="tip-where">{T.flame.narrow}</div>
			<table>
				<tbody>
					<Figures tree={tree} label={T.flame.together} value={total} parent={parent} />
				</tbody>
			</table>
		</>
	);
}

function FrameTip({ tree, node }: { tree: Tree; node: number }) {
	const name = tree.strings[tree.name[node]];
	const unnamed = node > 0 && /^\[.*\]$/.test(name) ? T.flame.unnamed : '';
	const kind = T.flame.kinds[kindOf(tree, node)] ?? '';
	const place = placeOf(tree.strings[tree.file[node]], tree.line[node]);
	const where = [tree.strings[tree.binary[node]], kind, unnamed];
	const parent = node > 0 ? tree.parent[node] : -1;
	return (
		<>
			<div class="tip-name">{displayName(name)}</div>
			{(place !== '' || isInlined(tree, node)) && (
				<div class="tip-place">
					{displayName(place)} {isInlined(tree, node) && <span class="mark">{T.flame.inlined}</span>}
				</div>
			)}
			<div class="tip-where">
				{where
					.filter((part) => part !== '')
					.map((part) => displayName(part, 120))
					.join(' · ')}
			</div>
			<table>
				<thead>
					<tr>
						<td />
						<td />
						<th scope="col">{T.flame.ofAll}</th>
						<th scope="col">{parent >= 0 ? T.flame.ofCaller : ''}</th>
					</tr>
				</thead>
				<tbody>
					<Figures tree={tree} label={T.flame.total} value={tree.total[node]} parent={parent} />
					<Figures tree={tree} label={T.flame.self} value={tree.self[node]} parent={parent} />
				</tbody>
			</table>
		</>
	);
}

/** told: what is told, where that is something else. */
export function Tooltip({ tree, hover, told }: { tree: Tree; hover: Hover; told?: ComponentChildren }) {
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
			{told ?? (hover.box.tail ? (
				<TailTip tree={tree} first={hover.box.node} />
			) : (
				<FrameTip tree={tree} node={hover.box.node} />
			))}
		</div>
	);
}
