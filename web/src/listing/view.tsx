// SPDX-License-Identifier: Apache-2.0
// One function, by the lines of its source or by its instructions: what each costs, beside it.
import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { AsmResponse, SourceResponse } from '../api/responses';
import type { ApiError } from '../api/client';
import { baseName, displayName, formatShare, formatValue, joinNames } from '../base/format';
import * as T from '../base/texts';
import { openListing, type ListingView, type NamesChoice, type PageState } from '../state/page';
import { useApi, useSize, useStored, type SetState } from '../ui/hooks';
import { BackIcon, FlameIcon } from '../ui/icons';
import { press } from '../ui/keymap';
import { useKeys } from '../ui/keys';
import { asmRows, expandTabs, heatOf, hotRows, nextHot, sourceRows, splitInstruction, type Heat, type ListingRow } from './listing';

export interface ListingProps {
	kind: ListingView;
	state: PageState;
	set: SetState;
	query: string;
	span: { from: string; to: string };
	names: NamesChoice;
	ready: boolean; // the query is one
	nonce: number;
	onBack: () => void;
}

const OVERSCAN = 12;
const shortId = (id: string) => id.slice(0, 12);

// ---- head --------------------

const KINDS: { kind: ListingView; title: string; key: string }[] = [
	{ kind: 'source', title: T.listing.source, key: 's' },
	{ kind: 'asm', title: T.listing.asm, key: 'a' },
];

function Choice({
	label,
	value,
	options,
	onChange,
	testId,
}: {
	label: string;
	value: string;
	options: { value: string; title: string }[];
	onChange: (value: string) => void;
	testId: string;
}) {
	return (
		<select
			class="select plain listing-choice"
			aria-label={label}
			title={`${label}: ${options.find((o) => o.value === value)?.title ?? value}`}
			data-testid={testId}
			value={value}
			onChange={(event) => onChange(event.currentTarget.value)}
		>
			{options.map((o) => (
				<option key={o.value} value={o.value}>
					{o.title}
				</option>
			))}
		</select>
	);
}

// Files of several functions of one name, or binaries that one function is in, with what each costs.
function Where({ kind, source, asm, set }: { kind: ListingView; source: SourceResponse | null; asm: AsmResponse | null; set: SetState }) {
	if (kind === 'source' && source && source.files.length > 1)
		return (
			<Choice
				label={T.listing.file}
				testId="listing-file"
				value={source.file}
				options={source.files.map((f) => ({
					value: f.file,
					title: `${displayName(baseName(f.file), 60) || T.listing.fileUnknown} · ${formatShare(f.total, source.total)}`,
				}))}
				onChange={(file) => set({ file, at: '' })}
			/>
		);
	if (kind === 'asm' && asm && asm.binaries.length > 1)
		return (
			<Choice
				label={T.listing.binary}
				testId="listing-binary"
				value={asm.build_id}
				options={asm.binaries.map((b) => ({
					value: b.build_id,
					title: `${displayName(baseName(b.binary), 40)} ${shortId(b.build_id)} · ${formatShare(b.total, asm.total)}`,
				}))}
				onChange={(build) => set({ build, at: '' })}
			/>
		);
	return null;
}

// Where what is shown comes from, and what the whole function costs.
function Facts({ kind, source, asm }: { kind: ListingView; source: SourceResponse | null; asm: AsmResponse | null }) {
	const response = kind === 'source' ? source : asm;
	if (!response) return <div class="crumb-line listing-facts" />;
	const path = kind === 'source' ? source!.file : response.binary;
	const other = kind === 'source' ? baseName(response.binary) : asm!.symbol && T.listing.inSymbol(asm!.symbol);
	const details = [other, response.build_id && T.listing.buildId(shortId(response.build_id)), response.from];
	return (
		<div class="crumb-line listing-facts">
			<span class="listing-path" title={displayName(path)}>
				<bdi>{displayName(path) || T.listing.unknown}</bdi>
			</span>
			<span class="hint listing-details" title={response.build_id}>
				{joinNames(details, 120)}
			</span>
			<span class="spring" />
			<span class="zoom-value">
				{formatValue(response.function_total, response.unit)} · {formatShare(response.function_total, response.total)}
			</span>
		</div>
	);
}

// ---- rows --------------------

interface Shown {
	kind: ListingView;
	rows: ListingRow[];
	unit: string;
	whole: number; // of the function
	everything: number;
	largest: number; // what a full bar stands for
	heat: Heat;
	hottest: number; // by heat
	bytes: boolean;
}

function Cost({ value, shown, kind }: { value: number; shown: Shown; kind: 'self' | 'total' }) {
	return (
		<div role="cell" class={`lc lc-${kind}`}>
			{value > 0 && (
				<>
					<span class="bar" style={{ width: `${(100 * value) / Math.max(1, shown.largest)}%` }} />
					<span class="amount">{formatValue(value, shown.unit)}</span>
					<span class="percent">{formatShare(value, shown.whole)}</span>
				</>
			)}
		</div>
	);
}

function costTitle(row: ListingRow, shown: Shown): string {
	if (row.total === 0 && row.self === 0) return '';
	const of = (value: number) => T.listing.cost(formatValue(value, shown.unit), formatShare(value, shown.whole), formatShare(value, shown.everything));
	return T.listing.costs(of(row.self), of(row.total));
}

interface LineProps {
	row: ListingRow;
	index: number;
	height: number;
	active: boolean;
	shown: Shown;
	onPick: () => void;
	onSource: () => void;
}

function Line({ row, index, height, active, shown, onPick, onSource }: LineProps) {
	const asm = shown.kind === 'asm';
	const style = {
		top: `${index * height}px`,
		height: `${height}px`,
		'--heat': `${shown.heat(row) > 0 ? Math.round(4 + (22 * shown.heat(row)) / Math.max(1, shown.hottest)) : 0}%`,
	};
	if (row.at === '')
		return (
			<div role="row" class="lr gap" style={style}>
				<div role="cell" class="lc lc-text">
					⋯
				</div>
			</div>
		);
	const [mnemonic, operands] = asm ? splitInstruction(row.text ?? '') : ['', ''];
	return (
		<div
			role="row"
			aria-rowindex={index + 2}
			aria-current={active}
			class={active ? 'lr active' : 'lr'}
			style={style}
			title={costTitle(row, shown)}
			data-at={row.at}
			onClick={onPick}
		>
			<Cost value={row.self} shown={shown} kind="self" />
			<Cost value={row.total} shown={shown} kind="total" />
			<div role="cell" class="lc lc-at">
				{row.label}
			</div>
			{asm && shown.bytes && (
				<div role="cell" class="lc lc-bytes">
					{row.bytes.replace(/(..)(?=.)/g, '$1 ')}
				</div>
			)}
			<div role="cell" class="lc lc-text">
				{asm ? (
					<>
						<b>{displayName(mnemonic, 40)}</b> {displayName(operands, 300)}
					</>
				) : (
					displayName(expandTabs(row.text ?? ''), 600)
				)}
			</div>
			{asm && (
				<div role="cell" class="lc lc-place">
					{row.place && (
						<button
							type="button"
							title={T.listing.showSource(`${displayName(row.file)}:${row.line}`)}
							onClick={(event) => {
								event.stopPropagation();
								onSource();
							}}
						>
							{displayName(row.place, 60)}
						</button>
					)}
					{row.chain && (
						<span class="lc-chain" title={displayName(row.functions.join('\n← '), 2000)}>
							{displayName(row.chain, 200)}
						</span>
					)}
				</div>
			)}
		</div>
	);
}

// Where in the whole the heat is; a press goes there.
function HeatStrip({ shown, hot, onJump }: { shown: Shown; hot: number[]; onJump: (index: number) => void }) {
	const marks = hot.slice(0, 200);
	return (
		<div class="heat-strip" aria-hidden="true">
			{marks.map((i) => (
				<i
					key={i}
					style={{
						top: `${(100 * i) / shown.rows.length}%`,
						opacity: `${0.25 + (0.75 * shown.heat(shown.rows[i])) / Math.max(1, shown.hottest)}`,
					}}
					onClick={() => onJump(i)}
				/>
			))}
		</div>
	);
}

function heads(kind: ListingView, bytes: boolean): [string, string][] {
	const H = T.listing.heads;
	const costs: [string, string][] = [
		['self', H.self],
		['total', H.total],
	];
	if (kind === 'source') return [...costs, ['at', H.line], ['text', H.source]];
	const ofBytes: [string, string][] = bytes ? [['bytes', H.bytes]] : [];
	return [...costs, ['at', H.address], ...ofBytes, ['text', H.instruction], ['place', H.place]];
}

interface RowsProps {
	shown: Shown;
	hot: number[];
	of: string; // what is shown: another one is scrolled to anew
	at: string;
	names: NamesChoice;
	set: SetState;
}

function Rows({ shown, hot, of, at, names, set }: RowsProps) {
	const { rows, kind, bytes } = shown;
	const scroller = useRef<HTMLDivElement>(null);
	const [measure, width, height] = useSize<HTMLDivElement>();
	const [top, setTop] = useState(0);
	const rowHeight = useMemo(() => (matchMedia('(pointer: coarse)').matches ? 28 : 20), []);
	const found = rows.findIndex((row) => row.at === at && at !== '');
	const active = found >= 0 ? found : (hot[0] ?? -1);
	const widest = useMemo(() => rows.reduce((most, row) => Math.max(most, Math.min(expandTabs(row.text ?? '').length, 501)), 20), [rows]);

	useLayoutEffect(() => {
		measure(scroller.current);
		return () => measure(null);
	}, [measure]);
	const show = (index: number, middle: boolean) => {
		const element = scroller.current!;
		const room = element.clientHeight - 26; // below the head
		const [start, end] = [index * rowHeight, (index + 1) * rowHeight];
		if (middle) element.scrollTop = start - (room - rowHeight) / 2;
		else if (start < element.scrollTop) element.scrollTop = start;
		else if (end > element.scrollTop + room) element.scrollTop = end - room;
	};
	useLayoutEffect(() => {
		if (active >= 0) show(active, true);
		else scroller.current!.scrollTop = 0;
		// eslint-disable-next-line react-hooks/exhaustive-deps -- when another function is shown
	}, [of]);
	useLayoutEffect(() => {
		if (found >= 0) show(found, false);
		// eslint-disable-next-line react-hooks/exhaustive-deps -- when another line is marked
	}, [at]);

	const go = (index: number) => {
		const next = Math.min(rows.length - 1, Math.max(0, index));
		if (next < 0) return;
		if (rows[next].at !== '') set({ at: rows[next].at }, 'replace');
		show(next, Math.abs(next - active) > 1);
	};
	const step = (by: number) => go(rows[active + by]?.at === '' ? active + 2 * by : active + by);
	const page = Math.max(1, Math.floor(height / rowHeight) - 3);
	const onKeyDown = (event: KeyboardEvent) => {
		const moved = press('rows', event, {
			down: () => step(1),
			up: () => step(-1),
			pageDown: () => go(active + page),
			pageUp: () => go(active - page),
			first: () => go(0),
			last: () => go(rows.length - 1),
		});
		if (moved) return;
		press('listing', event, {
			hottest: () => go(nextHot(hot, -1, 1)),
			next: () => go(nextHot(hot, active, 1)),
			before: () => go(nextHot(hot, active, -1)),
		});
	};
	const first = Math.max(0, Math.floor(top / rowHeight) - OVERSCAN);
	const last = Math.min(rows.length, Math.ceil((top + height) / rowHeight) + OVERSCAN);
	return (
		<div class="listing-pane">
			<div
				class={`listing listing-${kind}${bytes && kind === 'asm' ? ' with-bytes' : ''}${width < 620 ? ' narrow' : ''}`}
				ref={scroller}
				data-testid={`listing-${kind}`}
				role="table"
				tabIndex={0}
				aria-label={kind === 'source' ? T.listing.describeSource : T.listing.describeAsm}
				aria-rowcount={rows.length + 1}
				style={{ '--text': `${widest + 2}ch` }}
				onScroll={(event) => setTop(event.currentTarget.scrollTop)}
				onKeyDown={onKeyDown}
			>
				<div class="lr lhead" role="row" aria-rowindex={1}>
					{heads(kind, bytes).map(([name, title]) => (
						<div key={name} role="columnheader" class={`lc lc-${name}`}>
							{title}
						</div>
					))}
				</div>
				<div class="lbody" role="rowgroup" style={{ height: `${rows.length * rowHeight}px` }}>
					{rows.slice(first, last).map((row, i) => (
						<Line
							key={first + i}
							row={row}
							index={first + i}
							height={rowHeight}
							active={first + i === active}
							shown={shown}
							onPick={() => set({ at: row.at }, 'replace')}
							onSource={() => set(openListing('source', { function: row.functions[0] ?? '', file: row.file, at: String(row.line) }, names))}
						/>
					))}
				</div>
			</div>
			<HeatStrip shown={shown} hot={hot} onJump={go} />
			<div class="unseen" aria-live="polite">
				{rows[active] ? `${rows[active].label}, ${costTitle(rows[active], shown)}` : ''}
			</div>
		</div>
	);
}

// ---- the part --------------------

function Trouble({ error, kind, onOther }: { error: ApiError; kind: ListingView; onOther: () => void }) {
	return (
		<div class="notice" role="status" data-testid="listing-error">
			<h2>{kind === 'source' ? T.listing.noSource : T.listing.noAsm}</h2>
			<p>
				<code>{displayName(error.message, 600)}</code>
			</p>
			<button type="button" class="button" onClick={onOther}>
				{kind === 'source' ? T.listing.toAsm : T.listing.toSource}
			</button>
		</div>
	);
}

function Waiting({ children }: { children?: ComponentChildren }) {
	return (
		<div class="listing-waiting" role="status" aria-label={T.listing.loading}>
			{children}
			{[38, 62, 55, 70, 44, 66, 30, 58, 49, 20].map((w, i) => (
				<div class="bone" key={i} style={{ width: `${w}%` }} />
			))}
		</div>
	);
}

export function Listing({ kind, state, set, query, span, names, ready, nonce, onBack }: ListingProps) {
	const [bytesChoice, setBytes] = useStored('wick-asm-bytes', 'no');
	const params = { query, ...span, function: state.function, ...(names === 'short' ? { names } : {}) };
	const wanted = ready && state.function !== '';
	const source = useApi<SourceResponse>(wanted && kind === 'source' ? 'source' : null, { ...params, file: state.file }, nonce);
	const asm = useApi<AsmResponse>(wanted && kind === 'asm' ? 'asm' : null, { ...params, build_id: state.build }, nonce);
	const resource = kind === 'source' ? source : asm;
	// A response for another function, or in another form, is not shown.
	const own = resource.data && !resource.error && sameFunction(resource.of, state) ? resource.data : null;
	const bytes = bytesChoice === 'yes';
	const shown = useMemo<Shown | null>(() => {
		if (!own) return null;
		const rows = kind === 'source' ? sourceRows(own as SourceResponse) : asmRows(own as AsmResponse);
		const heat = heatOf(rows, own.function_total);
		const most = (value: (row: ListingRow) => number) => rows.reduce((m, row) => Math.max(m, value(row)), 0);
		return {
			kind,
			rows,
			unit: own.unit,
			whole: own.function_total,
			everything: own.total,
			largest: most((row) => Math.max(row.self, row.total)),
			heat,
			hottest: most(heat),
			bytes,
		};
	}, [own, kind, bytes]);
	const hot = useMemo(() => (shown ? hotRows(shown.rows, shown.heat) : []), [shown]);
	const other = () => set({ view: kind === 'source' ? 'asm' : 'source', at: '' });
	useKeys('ofListing', {
		source: () => kind === 'asm' && other(),
		asm: () => kind === 'source' && other(),
		leave: onBack,
	});
	const sourceOwn = kind === 'source' ? (own as SourceResponse | null) : null;
	const asmOwn = kind === 'asm' ? (own as AsmResponse | null) : null;
	return (
		<section
			class={resource.stale ? 'profile listing-part stale' : 'profile listing-part'}
			aria-label={kind === 'source' ? T.listing.source : T.listing.asm}
			aria-busy={resource.loading}
		>
			<div class="tools" role="toolbar" aria-label={T.listing.tools}>
				<button type="button" class="button" data-testid="listing-back" title={T.listing.back} onClick={onBack}>
					<BackIcon />
					{T.page.toProfile}
				</button>
				<div class="joined" role="group" aria-label={T.listing.form}>
					{KINDS.map((k) => (
						<button
							key={k.kind}
							type="button"
							class="button"
							aria-pressed={kind === k.kind}
							aria-keyshortcuts={k.key}
							title={`${k.title} (${k.key})`}
							data-testid={`view-${k.kind}`}
							onClick={() => kind !== k.kind && other()}
						>
							{k.title}
						</button>
					))}
				</div>
				<h2 class="listing-name" title={displayName(own?.function ?? state.function, 2000)}>
					{displayName(own?.function ?? state.function)}
				</h2>
				<Where kind={kind} source={sourceOwn} asm={asmOwn} set={set} />
				{kind === 'asm' && (
					<button
						type="button"
						class="button"
						aria-pressed={bytes}
						data-testid="listing-bytes"
						title={T.listing.bytesHint}
						onClick={() => setBytes(bytes ? 'no' : 'yes')}
					>
						{T.listing.bytes}
					</button>
				)}
				<button
					type="button"
					class="button"
					disabled={hot.length === 0}
					data-testid="listing-hottest"
					title={T.listing.hottestHint}
					onClick={() => {
						const rows = shown!.rows;
						const from = rows.findIndex((row) => row.at === state.at);
						set({ at: rows[nextHot(hot, from, 1)].at }, 'replace');
						document.querySelector<HTMLElement>(`[data-testid="listing-${kind}"]`)?.focus();
					}}
				>
					<FlameIcon />
					{T.listing.hottest}
				</button>
			</div>
			{!resource.error && <Facts kind={kind} source={sourceOwn} asm={asmOwn} />}
			{own?.why && (
				<p class="listing-why" role="status" data-testid="listing-why">
					{displayName(own.why, 600)}
				</p>
			)}
			{resource.error ? (
				<Trouble error={resource.error} kind={kind} onOther={other} />
			) : shown ? (
				<Rows shown={shown} hot={hot} of={`${kind}\n${own!.function}\n${sourceOwn?.file ?? own!.build_id}`} at={state.at} names={names} set={set} />
			) : (
				<Waiting />
			)}
		</section>
	);
}

function sameFunction(request: string | null, state: PageState): boolean {
	if (!request) return false;
	const [, params] = JSON.parse(request) as [string, Record<string, string | null>];
	return params.function === state.function && ('file' in params ? params.file === state.file : params.build_id === state.build);
}
