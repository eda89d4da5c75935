// SPDX-License-Identifier: Apache-2.0
// The list beside the graphs: what costs most, by the label that the metrics are broken down by; a click filters.
import { useState } from 'preact/hooks';
import type { Series, SeriesResponse } from '../api/responses';
import { displayName, formatShare, labelTitle } from '../base/format';
import * as T from '../base/texts';
import { seriesColor } from '../ui/colors';
import { exactValue, withoutLabel, type Matcher, type Selector } from './selector';

export interface RailProps {
	response: SeriesResponse | null;
	loading: boolean;
	by: string;
	labels: string[]; // to choose `by` from
	onBy: (label: string) => void;
	selector: Selector;
	onMatchers: (matchers: Matcher[]) => void;
	onCompare: (value: string, other: string | null) => void; // one value with another, or all others
	colorOf: (value: string) => number;
	dark: boolean;
}

const FIRST = 40;

interface EntryProps extends RailProps {
	row: Series;
	largest: number;
	total: number;
	selected: string | null;
}

function Entry({ row, largest, total, selected, by, selector, onMatchers, onCompare, colorOf, dark }: EntryProps) {
	const value = row.labels[by] ?? '';
	const chosen = selected === value;
	const others = withoutLabel(selector, by).matchers;
	const name = displayName(value, 120) || T.rail.without(labelTitle(by).toLowerCase());
	const color = colorOf(value);
	const picked = selected !== null && !chosen;
	const compareTitle = picked ? T.compare.two(displayName(selected, 60), name) : T.compare.others(name);
	return (
		<li class={chosen ? 'rail-row chosen' : 'rail-row'}>
			<button
				type="button"
				class="rail-pick"
				aria-pressed={chosen}
				title={chosen ? T.rail.unpick(name) : T.rail.pick(name)}
				onClick={() => onMatchers(chosen ? others : [...others, { label: by, op: '=', value }])}
			>
				<i class="swatch" style={{ background: seriesColor(color, dark) }} />
				<span class="rail-name">{name}</span>
				<span class="rail-value">{formatShare(row.total, total)}</span>
				<span class="rail-bar">
					<span style={{ width: `${(100 * row.total) / largest}%`, background: seriesColor(color, dark) }} />
				</span>
			</button>
			<button
				type="button"
				class="rail-not rail-with"
				title={compareTitle}
				aria-label={compareTitle}
				data-testid="rail-compare"
				onClick={() => (picked ? onCompare(selected, value) : onCompare(value, null))}
			>
				⇄
			</button>
			<button
				type="button"
				class="rail-not"
				title={T.rail.leaveOut(name)}
				aria-label={T.rail.leaveOut(name)}
				onClick={() => onMatchers([...selector.matchers.filter((m) => !(m.label === by && m.op === '=')), { label: by, op: '!=', value }])}
			>
				≠
			</button>
		</li>
	);
}

export function Rail(props: RailProps) {
	const { response, loading, by, labels, onBy, selector, onMatchers } = props;
	const [all, setAll] = useState(false);
	const [part, setPart] = useState('');
	const rows = response?.series ?? [];
	const total = rows.reduce((sum, row) => sum + row.total, 0);
	const matching = part === '' ? rows : rows.filter((row) => (row.labels[by] ?? '').toLowerCase().includes(part.toLowerCase()));
	const shown = all ? matching : matching.slice(0, FIRST);
	const selected = exactValue(selector, by);
	const choices = labels.includes(by) ? labels : [by, ...labels];
	const unlisted = response ? response.total_series - rows.length : 0;
	return (
		<aside class={loading && !response ? 'rail loading' : 'rail'} aria-label={T.rail.label} aria-busy={loading}>
			<div class="rail-head">
				<select
					class="select plain"
					aria-label={T.rail.by}
					title={T.rail.by}
					data-testid="by-select"
					value={by}
					onChange={(event) => onBy(event.currentTarget.value)}
				>
					{choices.map((label) => (
						<option key={label} value={label}>
							{labelTitle(label)}
						</option>
					))}
				</select>
			</div>
			{rows.length > 12 && (
				<input
					type="search"
					class="rail-find"
					placeholder={T.rail.find}
					aria-label={T.rail.findBy(labelTitle(by))}
					value={part}
					onInput={(event) => setPart(event.currentTarget.value)}
				/>
			)}
			<ul class="rail-list" data-testid="process-list" aria-label={T.rail.costBy(labelTitle(by))}>
				{selected !== null && (
					<li class="rail-row">
						<button type="button" class="rail-pick rail-all" onClick={() => onMatchers(withoutLabel(selector, by).matchers)}>
							{T.rail.showAll}
						</button>
					</li>
				)}
				{shown.map((row) => (
					<Entry {...props} key={row.labels[by] ?? ''} row={row} largest={Math.max(1, rows[0].total)} total={total} selected={selected} />
				))}
				{!response && loading && Array.from({ length: 8 }, (_, i) => <li class="bone" key={i} />)}
				{response && rows.length === 0 && <li class="rail-note">{T.rail.nothing}</li>}
			</ul>
			{shown.length < matching.length && (
				<button type="button" class="link" onClick={() => setAll(true)}>
					{T.rail.more(matching.length - shown.length)}
				</button>
			)}
			{unlisted > 0 && <p class="rail-note">{T.rail.largest(rows.length, response!.total_series)}</p>}
		</aside>
	);
}
