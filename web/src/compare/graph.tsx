// SPDX-License-Identifier: Apache-2.0
// The graphs of a comparison: one with both sides in it, or one a side; and the tooltip of a box.
import { useCallback, useMemo, useState } from 'preact/hooks';
import { displayName } from '../base/format';
import * as T from '../base/texts';
import { Breadcrumbs } from '../flame/crumbs';
import { tailSize, type Box } from '../flame/layout';
import { FlameView, type FlameViewProps } from '../flame/view';
import { useZoom } from '../profile/view';
import { CHANGES, type Width } from '../state/compare';
import { formatZoom, nextSibling, placeOf, type Zoom } from '../tree/tree';
import { changeColors, sideColor } from './colors';
import { formatRatio, type Figures } from './figures';
import { draw, type Comparison, type Drawn } from './model';

interface Values {
	label: string;
	base: number;
	head: number;
}

function Figure({ values, figures }: { values: Values; figures: Figures }) {
	const changed = figures.between(values.base, values.head);
	return (
		<tr>
			<th scope="row">{values.label}</th>
			<td>{figures.base(values.base)}</td>
			<td>{figures.head(values.head)}</td>
			<td>
				<b>{figures.change(changed)}</b> {formatRatio(changed.ratio)}
			</td>
			<td>{figures.interval(changed)}</td>
		</tr>
	);
}

function Tip({ comparison, drawn, box, figures }: { comparison: Comparison; drawn: Drawn; box: Box; figures: Figures }) {
	const { diff, changes } = comparison;
	const { tree } = diff;
	const node = drawn.union[box.node];
	const sum = (from: Float64Array): number => {
		let value = 0;
		for (let at = box.node; at >= 0; at = nextSibling(drawn.tree, at)) value += from[drawn.union[at]];
		return value;
	};
	const place = placeOf(tree.strings[tree.file[node]], tree.line[node]);
	const rows: Values[] = box.tail
		? [{ label: T.flame.together, base: sum(diff.baseTotal), head: sum(diff.headTotal) }]
		: [
				{ label: T.flame.total, base: diff.baseTotal[node], head: diff.headTotal[node] },
				{ label: T.flame.self, base: diff.baseSelf[node], head: diff.headSelf[node] },
			];
	return (
		<>
			<div class="tip-name">{box.tail ? T.flame.more(tailSize(drawn.tree, box.node).count) : displayName(tree.strings[tree.name[node]])}</div>
			{!box.tail && place !== '' && <div class="tip-place">{displayName(place)}</div>}
			<div class="tip-where">
				{box.tail
					? T.flame.narrow
					: [displayName(tree.strings[tree.binary[node]], 120), T.compare.states[CHANGES[changes[node]]].title].filter((part) => part !== '').join(' · ')}
			</div>
			<table>
				<thead>
					<tr>
						<td />
						<th scope="col">{T.compare.baseShort}</th>
						<th scope="col">{T.compare.headShort}</th>
						<th scope="col">{T.compare.change}</th>
						<th scope="col">{comparison.counted ? T.compare.interval : ''}</th>
					</tr>
				</thead>
				<tbody>
					{rows.map((values) => (
						<Figure key={values.label} values={values} figures={figures} />
					))}
				</tbody>
			</table>
		</>
	);
}

export interface GraphProps {
	comparison: Comparison;
	figures: Figures;
	zoom: string; // as in the URL
	onZoom: (zoom: string) => void;
	flip: boolean;
	flags: Uint8Array | null; // what a search found, by node of the union
	dark: boolean;
	focusRequest: { node: number; nonce: number } | null; // a node of the union
	onMenu: (node: number, x: number, y: number) => void; // a node of the union
	picture: FlameViewProps['picture']; // of both, or of the head
}

interface OneProps extends GraphProps {
	width: Width;
	name: 'flame' | 'base' | 'head';
	hovered: number; // a node of the union, -1 = none
	onHover: (node: number) => void;
}

function labelNode({ comparison, figures }: GraphProps, node: number): string {
	const { diff, changes } = comparison;
	const name = displayName(diff.tree.strings[diff.tree.name[node]], 120);
	const [base, head] = [diff.baseTotal[node], diff.headTotal[node]];
	const change = figures.change(figures.between(base, head));
	return T.compare.frame(name, figures.base(base), figures.head(head), change, T.compare.states[CHANGES[changes[node]]].title);
}

function One(props: OneProps) {
	const { comparison, figures, flip, flags, dark, focusRequest, width, name, hovered, onHover, onMenu, onZoom } = props;
	const drawn = useMemo(() => draw(comparison.diff, width), [comparison, width]);
	const { tree, union, place } = drawn;
	const { zoom, lost } = useZoom(tree, props.zoom);
	const paint = useMemo(() => changeColors(comparison, drawn, dark), [comparison, drawn, dark]);
	const matches = useMemo(() => (flags && union.length === flags.length ? flags : flags && Uint8Array.from(union, (node) => flags[node])), [flags, union]);
	const zoomTo = useCallback((next: Zoom) => onZoom(formatZoom(tree, next)), [tree, onZoom]);
	const focus = useMemo(() => {
		const node = focusRequest ? place[focusRequest.node] : -1;
		return focusRequest && node >= 0 ? { node, nonce: focusRequest.nonce } : null;
	}, [focusRequest, place]);
	const shown = union[zoom.node];
	const { diff } = comparison;
	const values = {
		flame: T.compare.matched(figures.base(diff.baseTotal[shown]), figures.head(diff.headTotal[shown])),
		base: figures.base(diff.baseTotal[shown]),
		head: figures.head(diff.headTotal[shown]),
	};
	return (
		<div class="graph-pane" role="group" aria-label={name === 'flame' ? T.compare.label : T.compare.graphOf[name]} data-testid={`graph-${name}`}>
			<div class="crumb-line">
				{name !== 'flame' && (
					<b class="compare-name">
						<i class="swatch" style={{ background: sideColor(name, dark) }} aria-hidden="true" />
						{T.compare.graphOf[name]}
					</b>
				)}
				<Breadcrumbs tree={tree} zoom={zoom} onZoom={zoomTo} label={name === 'flame' ? undefined : T.compare.pathOf(T.compare.graphOf[name])} />
				<span class="zoom-value">{`${values[name]} ${figures.unit === '%' ? '' : figures.unit}`}</span>
				{lost && <span class="field-fault">{T.profile.lost}</span>}
			</div>
			<FlameView
				tree={tree}
				zoom={zoom}
				onZoom={zoomTo}
				flip={flip}
				matches={matches}
				dark={dark}
				focusRequest={focus}
				onMenu={(node, x, y) => onMenu(union[node], x, y)}
				minimap
				paint={paint}
				linked={hovered >= 0 ? place[hovered] : -1}
				onHover={(node) => onHover(node >= 0 ? union[node] : -1)}
				tip={(box) => <Tip comparison={comparison} drawn={drawn} box={box} figures={figures} />}
				labelOf={(node) => labelNode(props, union[node])}
				name={name}
				picture={name === 'base' ? undefined : props.picture}
			/>
		</div>
	);
}

/** One graph of both. */
export function DiffGraph(props: GraphProps & { width: Width }) {
	return <One {...props} name="flame" hovered={-1} onHover={() => undefined} />;
}

/** A graph of each, which point and zoom together. */
export function SideGraphs(props: GraphProps) {
	const [hovered, setHovered] = useState(-1);
	return (
		<div class="compare-graphs">
			<One {...props} width="base" name="base" hovered={hovered} onHover={setHovered} />
			<One {...props} width="head" name="head" hovered={hovered} onHover={setHovered} />
		</div>
	);
}
