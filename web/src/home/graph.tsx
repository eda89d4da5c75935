// SPDX-License-Identifier: Apache-2.0
// The flame graph of everything on the start page: what runs, before anything has been chosen. Its zoom is the page's, so it is kept on the way
// to the profile.
import { useCallback, useState } from 'preact/hooks';
import { displayName, formatShare, formatValue } from '../base/format';
import * as T from '../base/texts';
import { Breadcrumbs } from '../flame/crumbs';
import { FlameView } from '../flame/view';
import { frameOf, Legend, useZoom } from '../profile/view';
import type { Profile } from '../query/requests';
import { formatState, type PageState } from '../state/page';
import { hideInterpreters } from '../tree/interpreters';
import { formatZoom, KIND, kindOf, NO_ZOOM, zoomRange, type Zoom } from '../tree/tree';
import type { SetState } from '../ui/hooks';
import { copyText, Menu, type MenuAt } from '../ui/menu';

export interface HomeGraphProps {
	profile: Profile;
	state: PageState;
	set: SetState;
	there: Partial<PageState>; // what leads to the profile of everything
	stale: boolean;
	dark: boolean;
}

export function HomeGraph({ profile, state, set, there, stale, dark }: HomeGraphProps) {
	const tree = state.interpreters ? profile.tree : hideInterpreters(profile.tree);
	const { zoom } = useZoom(tree, state.zoom);
	const [menu, setMenu] = useState<MenuAt | null>(null);
	const closeMenu = useCallback(() => setMenu(null), []);
	const onZoom = useCallback((next: Zoom) => set({ zoom: formatZoom(tree, next) }), [tree, set]);
	const [from, to] = zoomRange(tree, zoom);
	const profileAt = (zoomed: Zoom): Partial<PageState> => ({ ...there, zoom: formatZoom(tree, zoomed) });
	const onMenu = (node: number, x: number, y: number) => {
		const frame = frameOf(tree, node);
		if (!frame) return;
		const at = { ...NO_ZOOM, node };
		setMenu({
			x,
			y,
			head: frame.name,
			items: [
				{ title: T.menu.zoom, key: 'Enter', run: () => onZoom(at) },
				{ title: T.home.openFrame, run: () => set(profileAt(at)) },
				{ title: T.menu.copyName, apart: true, key: T.menu.copyKey, run: () => void copyText(frame.name) },
			],
		});
	};
	return (
		<section class={stale ? 'home-part home-graph stale' : 'home-part home-graph'} aria-label={T.home.graph} aria-busy={stale} data-testid="home-graph">
			<div class="home-part-head">
				<h2>{T.home.graph}</h2>
				<span class="hint">
					{formatValue(to - from, tree.unit)}
					{to - from < tree.total[0] && ` · ${formatShare(to - from, tree.total[0])}`}
				</span>
				<span class="spring" />
				<a
					class="link"
					href={formatState({ ...state, ...profileAt(zoom) })}
					data-testid="home-profile"
					onClick={(event) => {
						if (event.ctrlKey || event.metaKey || event.shiftKey) return;
						event.preventDefault();
						set(profileAt(zoom));
					}}
				>
					{T.home.openProfile}
				</a>
			</div>
			{(zoom.node > 0 || from > 0 || to < tree.total[0]) && (
				<div class="crumb-line">
					<Breadcrumbs tree={tree} zoom={zoom} onZoom={onZoom} />
				</div>
			)}
			<div class="home-flame">
				<FlameView
					tree={tree}
					zoom={zoom}
					onZoom={onZoom}
					flip={state.dir === 'flame'}
					matches={null}
					dark={dark}
					color={state.color}
					focusRequest={null}
					onMenu={onMenu}
					onRest={(node) => kindOf(tree, node) === KIND.rest && set(profileAt({ ...NO_ZOOM, node: tree.parent[node] }))}
				/>
			</div>
			<div class="home-legend" title={displayName(T.legend.label)}>
				<Legend tree={tree} dark={dark} color={state.color} find="" onFind={(find) => set({ ...there, find, regex: false })} />
			</div>
			{menu && <Menu at={menu} onClose={closeMenu} />}
		</section>
	);
}
