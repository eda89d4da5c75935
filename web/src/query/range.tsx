// SPDX-License-Identifier: Apache-2.0
// Time range: presets, any other range by its two ends, refresh now and by itself.
import { useState } from 'preact/hooks';
import { formatDateTime, formatDuration, formatMoment, formatRange } from '../base/format';
import * as T from '../base/texts';
import { zoneName } from '../base/zone';
import { isRelative, parseTime, PRESETS, REFRESH_SECONDS, type PageState } from '../state/page';
import type { SetState } from '../ui/hooks';
import { RefreshIcon } from '../ui/icons';
import { press } from '../ui/keymap';
import { compareJustBefore } from './choice';
import type { Cover } from './cover';

const CUSTOM = 'custom';

function rangeTitle(from: string, to: string): string {
	const now = Date.now();
	const [a, b] = [parseTime(from, now), parseTime(to, now)];
	if (isRelative(from) || isRelative(to) || a === null || b === null) return T.range.fromTo(from, to);
	return formatRange(a, b, now);
}

// Absolute times go to the server as unix ms: what a person typed was meant in the person's time zone, which it does not
// know.
function forServer(text: string, now: number): string {
	return isRelative(text) ? text.trim().replace(/^(?=[+-])/, 'now') : String(parseTime(text, now));
}

function rangeFault(from: string, to: string): { from?: string; to?: string } {
	const now = Date.now();
	const [a, b] = [parseTime(from, now), parseTime(to, now)];
	if (a === null) return { from: T.range.help };
	if (b === null) return { to: T.range.help };
	return a < b ? {} : { to: T.range.reversed };
}

const editable = (text: string) => (/^\d{12,}$/.test(text) ? formatDateTime(Number(text)) : text);

export function CustomRange({ from, to, onApply, onClose }: { from: string; to: string; onApply: (from: string, to: string) => void; onClose: () => void }) {
	const [a, setA] = useState(editable(from));
	const [b, setB] = useState(editable(to));
	const fault = rangeFault(a, b);
	const bad = fault.from !== undefined || fault.to !== undefined;
	const field = (label: string, value: string, set: (text: string) => void, problem: string | undefined, first: boolean) => (
		<label class="field">
			<span>{label}</span>
			<input
				type="text"
				class="mono"
				value={value}
				autocomplete="off"
				spellcheck={false}
				aria-invalid={problem !== undefined}
				ref={first ? (input) => void input?.focus() : undefined}
				data-testid={first ? 'range-from' : 'range-to'}
				onInput={(event) => set(event.currentTarget.value)}
			/>
			<span class="field-fault" role="status">
				{problem ?? ''}
			</span>
		</label>
	);
	const zones = [a, b].map((text) => zoneName(parseTime(text, Date.now()) ?? Date.now()));
	return (
		<form
			class="popover-body popover-right custom-range"
			aria-label={T.range.customLabel}
			onKeyDown={(event) => press('popover', event, { close: onClose })}
			onSubmit={(event) => {
				event.preventDefault();
				const now = Date.now();
				if (!bad) onApply(forServer(a, now), forServer(b, now));
			}}
		>
			{field(T.range.from, a, setA, fault.from, true)}
			{field(T.range.to, b, setB, fault.to, false)}
			<p class="hint">{T.range.zone(zones[0] === zones[1] ? zones[0] : T.range.zones(zones[0], zones[1]))}</p>
			<div class="buttons">
				<button type="button" class="button" onClick={onClose}>
					{T.range.cancel}
				</button>
				<button type="submit" class="button primary" disabled={bad} data-testid="range-apply">
					{T.range.apply}
				</button>
			</div>
		</form>
	);
}

/** What is shown beside the same length of time before; the overview is of everything, whatever was selected elsewhere. */
export function justBefore(state: PageState, cover: Cover, oldest: number): Partial<PageState> {
	const home = state.view === 'home';
	const way = compareJustBefore(home ? { ...state, sel: null } : state, cover, cover.begin ?? (oldest > 0 ? oldest : null));
	return { ...(home ? { q: '', sel: null } : {}), ...way };
}

export interface RangeProps {
	state: PageState;
	set: SetState;
	cover: Cover;
	oldest: number; // unix ms: the first data of all; 0 = not known
	loading: boolean;
	onRefresh: () => void;
}

export function Range({ state, set, cover, oldest, loading, onRefresh }: RangeProps) {
	const [custom, setCustom] = useState(false);
	const preset = state.to === 'now' && PRESETS.some((p) => p.from === state.from);
	const titled = (title: string) => (cover.clipped && cover.begin !== null ? T.range.since(title, formatMoment(cover.begin)) : title);
	const apply = (from: string, to: string) => {
		setCustom(false);
		set({ from, to, sel: null });
	};
	return (
		<div class="range" role="group" aria-label={T.range.label}>
			<div class="popover">
				<select
					class="select"
					aria-label={T.range.label}
					data-testid="range-select"
					value={preset ? state.from : 'present'}
					onChange={(event) => {
						const { value } = event.currentTarget;
						if (value === CUSTOM) {
							event.currentTarget.value = preset ? state.from : 'present';
							setCustom(true);
						} else if (value !== 'present') apply(value, 'now');
					}}
				>
					{!preset && <option value="present">{titled(rangeTitle(state.from, state.to))}</option>}
					{PRESETS.map((p) => (
						<option key={p.from} value={p.from}>
							{preset && p.from === state.from ? titled(p.title) : p.title}
						</option>
					))}
					<option value={CUSTOM}>{T.range.custom}</option>
				</select>
				{custom && <CustomRange from={state.from} to={state.to} onApply={apply} onClose={() => setCustom(false)} />}
			</div>
			{state.view !== 'console' && (
				<button
					type="button"
					class="button just-before"
					title={T.range.justBeforeHint}
					data-testid="just-before"
					onClick={() => set(justBefore(state, cover, oldest))}
				>
					<span aria-hidden="true">⇄</span> <span class="just-before-text">{T.range.justBefore}</span>
				</button>
			)}
			<div class="joined">
				<button
					type="button"
					class={loading ? 'button busy' : 'button'}
					aria-label={T.range.refresh}
					title={T.range.refreshKey}
					data-testid="refresh"
					onClick={onRefresh}
				>
					<RefreshIcon />
				</button>
				<select
					class="select every"
					aria-label={T.range.every}
					title={T.range.every}
					data-testid="refresh-every"
					value={state.every}
					onChange={(event) => set({ every: Number(event.currentTarget.value) }, 'replace')}
				>
					{REFRESH_SECONDS.map((s) => (
						<option key={s} value={s}>
							{s === 0 ? T.range.never : formatDuration(s * 1000)}
						</option>
					))}
				</select>
			</div>
		</div>
	);
}
