// SPDX-License-Identifier: Apache-2.0
// Keys that several parts of the page have in common: steps through rows, and the button that lists what keys do.
import { KeyboardIcon } from './icons';
import { Popover } from './popover';

/** The row that a key leads to, of `count`; page: rows that are seen at once. null = it is none of these keys. */
export function rowStep(key: string, active: number, count: number, page: number): number | null {
	const steps: Record<string, number> = {
		ArrowDown: active + 1,
		ArrowUp: active - 1,
		PageDown: active + page,
		PageUp: active - page,
		Home: 0,
		End: count - 1,
	};
	return key in steps ? Math.min(count - 1, Math.max(0, steps[key])) : null;
}

/** keys: what to press, what it does. */
export const KeysButton = ({ label, keys, testId }: { label: string; keys: [string, string][]; testId: string }) => (
	<Popover label={label} button={<KeyboardIcon />} buttonClass="button icon-only" testId={testId}>
		{() => (
			<dl class="facts keys">
				{keys.map(([key, what]) => (
					<div key={key}>
						<dt>
							<kbd>{key}</kbd>
						</dt>
						<dd>{what}</dd>
					</div>
				))}
			</dl>
		)}
	</Popover>
);
