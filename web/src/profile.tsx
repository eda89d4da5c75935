// SPDX-License-Identifier: Apache-2.0
// The lower part of the page: the profile of what is selected, as a graph and a table, with search, zoom path, legend and
// downloads.
import { useCallback, useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { apiUrl, type QueryAnswer } from './api';
import { displayName, formatCount, formatShare, formatValue } from './format';
import { Breadcrumbs } from './flame/crumbs';
import { legend, palette } from './flame/colors';
import { findNodes, sumMatched } from './flame/layout';
import { buildTree, findPath, formatZoom, NO_ZOOM, parseZoom, pathKeys, restShare, type Tree, type Zoom } from './flame/tree';
import { FlameView } from './flame/view';
import { useDebounced, type SetState } from './hooks';
import { CloseIcon, DownloadIcon, FlipIcon, KeyboardIcon, ResetIcon, SearchIcon } from './icons';
import { Popover } from './popover';
import type { PageState, View } from './state';
import { Table } from './table';

export interface Profile {
	answer: QueryAnswer;
	tree: Tree;
}

export interface ProfileProps {
	profile: Profile;
	query: string;
	state: PageState;
	set: SetState;
	view: View;
	dark: boolean;
	stale: boolean;
}

/*
 * The zoom is kept as the path of the frame, not as an index: an answer that comes later has the same frame elsewhere.
 * Where it has it not, the nearest caller that is still there is shown, and the URL keeps the wish.
 */
function useZoom(tree: Tree, text: string): { zoom: Zoom; lost: boolean } {
	const path = useRef<string[]>([]);
	return useMemo(() => {
		const zoom = parseZoom(tree, text);
		if (zoom) {
			path.current = pathKeys(tree, zoom.node);
			return { zoom, lost: false };
		}
		return { zoom: { ...NO_ZOOM, node: Math.max(0, findPath(tree, path.current)) }, lost: true };
	}, [tree, text]);
}

// ---- tools --------------------

const VIEWS: { view: View; title: string }[] = [
	{ view: 'graph', title: 'Graph' },
	{ view: 'both', title: 'Both' },
	{ view: 'table', title: 'Table' },
];

function ViewSwitch({ view, onView }: { view: View; onView: (view: View) => void }) {
	return (
		<div class="joined" role="group" aria-label="View">
			{VIEWS.map((v) => (
				<button
					key={v.view}
					type="button"
					class="button"
					aria-pressed={view === v.view}
					data-testid={`view-${v.view}`}
					onClick={() => onView(v.view)}
				>
					{v.title}
				</button>
			))}
		</div>
	);
}

interface SearchProps {
	find: string;
	regex: boolean;
	fault: string | null;
	matched: string; // '' = no search
	set: SetState;
	onNext: (back: boolean) => void;
}

function Search({ find, regex, fault, matched, set, onNext }: SearchProps) {
	return (
		<div class="search" role="search">
			<SearchIcon />
			<input
				type="search"
				placeholder="Search functions"
				title={
					'Part of a name, "whole name", in:libc.so.6, kind:kernel. Press / to come here, Enter for the next match.'
				}
				aria-label="Search functions in the graph"
				aria-keyshortcuts="/"
				aria-invalid={fault !== null}
				data-testid="flame-search"
				autocomplete="off"
				autocapitalize="off"
				spellcheck={false}
				value={find}
				onInput={(event) => set({ find: event.currentTarget.value }, 'replace')}
				onKeyDown={(event) => {
					if (event.key === 'Enter') onNext(event.shiftKey);
					else if (event.key === 'Escape') {
						if (find === '') event.currentTarget.blur();
						else set({ find: '' }, 'replace');
					} else return;
					event.preventDefault();
					event.stopPropagation();
				}}
			/>
			<output class={fault ? 'matched fault' : 'matched'} data-testid="flame-matched" aria-live="polite">
				{fault ?? matched}
			</output>
			{find !== '' && (
				<button
					type="button"
					class="ghost"
					aria-label="Clear the search"
					title="Clear the search"
					onClick={() => set({ find: '' }, 'replace')}
				>
					<CloseIcon />
				</button>
			)}
			<button
				type="button"
				class="ghost mono"
				aria-pressed={regex}
				aria-label="Regular expression"
				title="Regular expression"
				data-testid="flame-regex"
				onClick={() => set({ regex: !regex }, 'replace')}
			>
				.*
			</button>
		</div>
	);
}

const DOWNLOADS: { format: string; title: string; extension: string; hint: string }[] = [
	{ format: 'pprof', title: 'pprof', extension: 'pb.gz', hint: 'for go tool pprof and most other tools' },
	{ format: 'svg', title: 'SVG', extension: 'svg', hint: 'a flame graph as a picture that zooms' },
	{ format: 'folded', title: 'Folded', extension: 'folded', hint: 'one stack a line, as text' },
];

function Downloads({ query, answer }: { query: string; answer: QueryAnswer }) {
	const name = `wick-${new Date(answer.to_ms).toISOString().slice(0, 19).replace(/[-:]/g, '')}`;
	return (
		<div class="joined downloads" role="group" aria-label="Download">
			<DownloadIcon />
			{DOWNLOADS.map(({ format, title, extension, hint }) => (
				<a
					key={format}
					class="button"
					href={apiUrl('query', { query, from: answer.from_ms, to: answer.to_ms, format })}
					download={`${name}.${extension}`}
					title={`Download what is shown: ${hint}`}
					data-testid={`download-${format}`}
				>
					{title}
				</a>
			))}
		</div>
	);
}

const KEYS: [string, string][] = [
	['/', 'search; Enter next match, Shift+Enter the one before'],
	['↑ ↓', 'to the caller, to the costliest callee'],
	['← →', 'to the neighbour'],
	['Enter', 'zoom to the frame'],
	['Backspace', 'zoom out to the caller'],
	['Esc', 'show all'],
	['Home', 'to the root'],
	['r', 'refresh'],
];

const Keys = () => (
	<Popover label="Keys" button={<KeyboardIcon />} buttonClass="button icon-only" testId="keys">
		{() => (
			<dl class="facts keys">
				{KEYS.map(([key, what]) => (
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

// ---- foot --------------------

const LEGEND = 10;

function Legend({
	tree,
	dark,
	find,
	onFind,
}: {
	tree: Tree;
	dark: boolean;
	find: string;
	onFind: (text: string) => void;
}) {
	const entries = useMemo(() => legend(tree, palette(dark)), [tree, dark]);
	return (
		<ul class="legend" aria-label="Colours">
			{entries.slice(0, LEGEND).map((e) => (
				<li key={e.find}>
					<button
						type="button"
						aria-pressed={find === e.find}
						title={`${displayName(e.label)}: ${formatShare(e.share, tree.total[0])} in itself; click to find it`}
						onClick={() => onFind(find === e.find ? '' : e.find)}
					>
						<i class="swatch" style={{ background: e.color }} />
						{displayName(e.label, 32)}
					</button>
				</li>
			))}
			{entries.length > LEGEND && <li class="legend-more">{`and ${entries.length - LEGEND} more`}</li>}
		</ul>
	);
}

// A sample stands for one period of CPU time; of other values the number of samples is not in the answer.
function Stats({ answer, tree, each, onEach }: { answer: QueryAnswer; tree: Tree; each: boolean; onEach: () => void }) {
	const { stats, period } = answer;
	const unnamed = stats?.unresolved ?? 0;
	const parts = [`${formatCount(tree.samples)} stacks`, `${formatCount(tree.count - 1)} frames`];
	if (tree.type === 'cpu' && period > 0) parts.unshift(`${formatCount(Math.round(tree.total[0] / period))} samples`);
	const rest = useMemo(() => restShare(tree), [tree]);
	if (rest > 0) parts.push(`${(100 * rest).toFixed(rest < 0.01 ? 2 : 1)}% in frames too small to be sent`);
	const took =
		typeof stats?.ms === 'number' ? ` · ${stats.ms < 10 ? stats.ms.toFixed(1) : Math.round(stats.ms)} ms` : '';
	return (
		<p class="stats">
			{parts.join(' · ')}
			{unnamed > 0 && (
				<>
					{' · '}
					<button
						type="button"
						aria-pressed={each}
						data-testid="each-address"
						title={each ? 'Show those of a binary together' : 'Show each address by itself'}
						onClick={onEach}
					>
						{`${formatCount(unnamed)} addresses without a name, ${each ? 'each' : 'together'}`}
					</button>
				</>
			)}
			{took}
		</p>
	);
}

// ---- the part --------------------

interface Found {
	flags: Uint8Array | null;
	fault: string | null;
	text: string;
	tops: number[]; // largest first
}

function useSearch(tree: Tree, zoom: Zoom, text: string, regex: boolean): Found {
	const find = useDebounced(text, 60);
	const flags = useMemo(() => findNodes(tree, find, regex), [tree, find, regex]);
	return useMemo(() => {
		if (flags === null || typeof flags === 'string') return { flags: null, fault: flags, text: '', tops: [] };
		const all = sumMatched(tree, flags);
		let shares = `${formatShare(all.value, tree.total[0])} · ${formatValue(all.value, tree.unit)}`;
		if (zoom.node > 0)
			shares += ` · ${formatShare(sumMatched(tree, flags, zoom.node).value, tree.total[zoom.node])} of zoom`;
		return {
			flags,
			fault: null,
			text: all.tops.length === 0 ? 'no match' : shares,
			tops: all.tops.sort((a, b) => tree.total[b] - tree.total[a]),
		};
	}, [tree, flags, zoom]);
}

function useGlobalKeys(onEscape: () => void): void {
	const latest = useRef(onEscape);
	latest.current = onEscape;
	useEffect(() => {
		const press = (event: KeyboardEvent) => {
			if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
			if (event.target instanceof Element && event.target.closest('input, select, textarea')) return;
			if (event.key === '/') {
				const search = document.querySelector<HTMLInputElement>('[data-testid="flame-search"]');
				search?.focus();
				search?.select();
				event.preventDefault();
			} else if (event.key === 'Escape') {
				latest.current();
			}
		};
		addEventListener('keydown', press);
		return () => removeEventListener('keydown', press);
	}, []);
}

export function ProfilePart({ profile, query, state, set, view, dark, stale }: ProfileProps) {
	const { answer } = profile;
	const each = state.eachAddress;
	const tree = useMemo(() => (each ? buildTree(answer.flame) : profile.tree), [profile, each]);
	const { zoom, lost } = useZoom(tree, state.zoom);
	const found = useSearch(tree, zoom, state.find, state.regex);
	const [focusRequest, setFocusRequest] = useState<{ node: number; nonce: number } | null>(null);
	const onZoom = useCallback((next: Zoom) => set({ zoom: formatZoom(tree, next) }), [tree, set]);
	const onFind = (text: string) => set({ find: text, regex: false });
	useGlobalKeys(() => onZoom(NO_ZOOM));
	useEffect(() => setFocusRequest(null), [tree, found.flags]);

	const onNext = (back: boolean) => {
		const { tops } = found;
		if (tops.length === 0) return;
		const at = focusRequest ? tops.indexOf(focusRequest.node) : -1;
		const next = (at + (back ? -1 : 1) + tops.length) % tops.length;
		setFocusRequest({ node: tops[at < 0 && back ? tops.length - 1 : next], nonce: (focusRequest?.nonce ?? 0) + 1 });
	};
	const flip = state.dir === 'flame';
	const zoomed = zoom.node !== 0 || zoom.take > 0 || zoom.skip > 0;
	return (
		<section class={stale ? 'profile stale' : 'profile'} aria-label="Profile" aria-busy={stale}>
			<div class="tools" role="toolbar" aria-label="Profile tools">
				<ViewSwitch view={view} onView={(v) => set({ view: v })} />
				<Search {...state} fault={found.fault} matched={found.text} set={set} onNext={onNext} />
				<div class="joined">
					<button
						type="button"
						class="button icon-only"
						aria-label="Show all (Esc)"
						title="Show all (Esc)"
						data-testid="reset-zoom"
						disabled={!zoomed}
						onClick={() => onZoom(NO_ZOOM)}
					>
						<ResetIcon />
					</button>
					<button
						type="button"
						class="button icon-only"
						aria-pressed={flip}
						aria-label={
							flip ? 'Root at the bottom; press for the top' : 'Root at the top; press for the bottom'
						}
						title={flip ? 'Root at the bottom' : 'Root at the top'}
						data-testid="flip"
						onClick={() => set({ dir: flip ? 'icicle' : 'flame' })}
					>
						<FlipIcon />
					</button>
				</div>
				<Downloads query={query} answer={answer} />
				<div class="keys-help">
					<Keys />
				</div>
			</div>
			<div class={`panes view-${view}`}>
				{view !== 'graph' && (
					<Table
						tree={tree}
						sort={state.sort}
						reverse={state.reverse}
						filter={state.filter}
						find={state.find}
						dark={dark}
						onSort={(sort, reverse) => set({ sort, reverse }, 'replace')}
						onFilter={(filter) => set({ filter }, 'replace')}
						onFind={onFind}
					/>
				)}
				{view !== 'table' && (
					<div class="graph-pane">
						<div class="crumb-line">
							<Breadcrumbs tree={tree} zoom={zoom} onZoom={onZoom} />
							<span class="zoom-value">
								{formatValue(tree.total[zoom.node], tree.unit)}
								{zoomed && <> · {formatShare(tree.total[zoom.node], tree.total[0])}</>}
							</span>
							{lost && <span class="field-fault">the frame zoomed into is not in this profile</span>}
						</div>
						<FlameView
							tree={tree}
							zoom={zoom}
							onZoom={onZoom}
							flip={flip}
							matches={found.flags}
							dark={dark}
							focusRequest={focusRequest}
						/>
					</div>
				)}
			</div>
			<footer class="foot">
				<Legend tree={tree} dark={dark} find={state.find} onFind={onFind} />
				<Stats answer={answer} tree={tree} each={each} onEach={() => set({ eachAddress: !each })} />
			</footer>
		</section>
	);
}
