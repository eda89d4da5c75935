// SPDX-License-Identifier: Apache-2.0
// From a profile to a comparison of it: with another time, or with what its filters leave out.
import { useCallback, useState } from 'preact/hooks';
import { displayName } from '../base/format';
import * as T from '../base/texts';
import { compareBefore, compareValue } from '../query/choice';
import { parseSelector, type Selector } from '../query/selector';
import type { SetState } from '../ui/hooks';
import { Menu, type MenuAt, type MenuItem } from '../ui/menu';

function filtersOf(query: string): Selector {
	try {
		return parseSelector(query);
	} catch {
		return { type: '', matchers: [] };
	}
}

export function compareItems(query: string, set: SetState, just: () => void): MenuItem[] {
	const items: MenuItem[] = [
		{ title: T.compare.withJust, testId: 'compare-just', run: just },
		{ title: T.compare.withDay, testId: 'compare-day', run: () => set(compareBefore('1d')) },
		{ title: T.compare.withWeek, testId: 'compare-week', run: () => set(compareBefore('7d')) },
	];
	const selector = filtersOf(query);
	for (const { label, op, value } of selector.matchers) {
		if (op === '=')
			items.push({ title: T.compare.withOthers(displayName(value, 60)), testId: 'compare-others', run: () => set(compareValue(selector, label, value)) });
	}
	// Where nothing differs yet, the page of the comparison says what can.
	items.push({ title: T.compare.withOther, testId: 'compare-other', run: () => set(compareBefore('0')) });
	return items;
}

export function CompareButton({ query, set, onJust }: { query: string; set: SetState; onJust: () => void }) {
	const [menu, setMenu] = useState<MenuAt | null>(null);
	const close = useCallback(() => setMenu(null), []);
	return (
		<>
			<button
				type="button"
				class="button"
				title={T.compare.withHint}
				aria-haspopup="menu"
				aria-expanded={menu !== null}
				data-testid="compare-with"
				onClick={(event) => {
					const { left, bottom } = event.currentTarget.getBoundingClientRect();
					setMenu({ x: left, y: bottom + 2, head: T.compare.with, items: compareItems(query, set, onJust) });
				}}
			>
				{T.compare.with}
				<span aria-hidden="true"> ▾</span>
			</button>
			{menu && <Menu at={menu} onClose={close} />}
		</>
	);
}
