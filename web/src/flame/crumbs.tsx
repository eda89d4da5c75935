// SPDX-License-Identifier: Apache-2.0
// The way from the root to the zoomed frame; each step leads back to it.
import { useLayoutEffect, useRef } from 'preact/hooks';
import { displayName } from '../base/format';
import * as T from '../base/texts';
import { ancestors, isPart, type Tree, type Zoom } from '../tree/tree';

const CRUMBS = 8;

interface CrumbsProps {
	tree: Tree;
	zoom: Zoom;
	onZoom: (zoom: Zoom) => void;
	label?: string; // where there are several
}

export function Breadcrumbs({ tree, zoom, onZoom, label = T.flame.path }: CrumbsProps) {
	const list = useRef<HTMLOListElement>(null);
	useLayoutEffect(() => {
		if (list.current) list.current.scrollLeft = list.current.scrollWidth;
	}, [tree, zoom]);
	const path = ancestors(tree, zoom.node);
	const shown = path.length > CRUMBS ? [path[0], ...path.slice(1 - CRUMBS)] : path;
	const part = isPart(zoom);
	return (
		<nav class="crumbs" aria-label={label} data-testid="breadcrumbs">
			<ol ref={list}>
				{shown.map((node, i) => (
					<li key={node}>
						{i === 1 && shown.length < path.length && <span class="crumb-gap">{T.flame.pathMore(path.length - shown.length)}</span>}
						<button
							type="button"
							aria-current={node === zoom.node && !part ? 'location' : undefined}
							onClick={() => onZoom({ node, skip: 0, take: 0 })}
							title={displayName(tree.strings[tree.name[node]])}
						>
							{displayName(tree.strings[tree.name[node]], 60)}
						</button>
					</li>
				))}
				{part && <li class="crumb-part">{zoom.stretch ? T.flame.pathStretch : T.flame.pathPart}</li>}
			</ol>
		</nav>
	);
}
