// SPDX-License-Identifier: Apache-2.0
import type { ComponentChildren } from 'preact';

/** Names and what is to be said of each. `more`: a class of the list besides its own. */
export const FactList = ({ rows, more = '' }: { rows: [name: string, value: ComponentChildren][]; more?: string }) => (
	<dl class={`facts ${more}`}>
		{rows.map(([name, value]) => (
			<div key={name}>
				<dt>{name}</dt>
				<dd>{value}</dd>
			</div>
		))}
	</dl>
);
