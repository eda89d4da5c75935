// SPDX-License-Identifier: Apache-2.0
// From one part of the page to another. Real links, so that they open in a tab of their own, too.
import type { ComponentChildren } from 'preact';
import * as T from '../base/texts';
import { NO_COMPARE } from '../state/compare';
import { formatState, isListing, isWide, NOT_LISTED, UNTOUCHED, type PageState, type View } from '../state/page';
import type { SetState } from '../ui/hooks';

type Place = keyof typeof T.page.views;

const PLACES: Place[] = ['home', 'profile', 'compare', 'console', 'recordings', 'binaries', 'status'];

/** Which of the places a view belongs to; null = none of them, as it is with files and what is shared. */
export function placeOf(view: View | ''): Place | null {
	if (view === 'file' || view === 'shared') return null;
	return view !== '' && isWide(view) && !isListing(view) ? view : 'profile';
}

/** The state of a place as one comes to it: the range and the query stay, what belongs to other places goes. */
export function stateAt(state: PageState, place: Place): PageState {
	const compare = place === 'compare' ? state.compare : NO_COMPARE;
	const file = state.view === 'file' || state.view === 'shared' ? { ...UNTOUCHED, id: '', name: '', pane: '' as const, find: '', filter: '' } : {};
	return {
		...state,
		...file,
		view: place === 'profile' ? '' : place,
		...NOT_LISTED,
		compare,
	};
}

export function Nav({ state, set, children }: { state: PageState; set: SetState; children?: ComponentChildren }) {
	const here = placeOf(state.view);
	return (
		<nav class="nav" aria-label={T.page.parts}>
			{PLACES.map((place) => (
				<a
					key={place}
					href={formatState(stateAt(state, place)) || '.'}
					aria-current={place === here ? 'page' : undefined}
					data-testid={`nav-${place}`}
					onClick={(event) => {
						if (event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
						event.preventDefault();
						set(stateAt(state, place));
					}}
				>
					{T.page.views[place]}
				</a>
			))}
			{children}
		</nav>
	);
}
