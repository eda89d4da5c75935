// SPDX-License-Identifier: Apache-2.0
// Where a query is written: suggestions from the grammar and the data, the fault at its place, history.
import { useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { LabelsResponse, PipelineTable, TypesResponse, ValuesResponse } from '../api/responses';
import { displayName, formatCount, labelTitle } from '../base/format';
import * as T from '../base/texts';
import { pipeline } from '../query/pipeline';
import { useApi, useDebounced } from '../ui/hooks';
import { press } from '../ui/keymap';
import { complete, faultAt, placeOf, type Place, type Word } from './complete';

const MOST = 50;

interface EditorProps {
	text: string;
	onText: (text: string) => void;
	onRun: () => void;
	onPrevious: () => void; // in an empty field: the last query
	fault: string | null; // of the text as it was run
	from: string;
	to: string;
}

// The type that the query begins with, for requests of names.
const typeOf = (text: string) => /^\s*([A-Za-z0-9_./:*-]+)/.exec(text)?.[1] ?? '';

function useSuggestions(place: Place, text: string, open: boolean, from: string, to: string): Word[] {
	const { wanted } = place;
	const typed = useDebounced(place.typed, 120);
	const wants = (kind: string) => open && wanted.kind === kind;
	const range = { from, to, query: typeOf(text) };
	const types = useApi<TypesResponse>(wants('types') ? 'types' : null, { from, to }, 0);
	const labels = useApi<LabelsResponse>(wants('labels') ? 'labels' : null, range, 0);
	const label = wanted.kind === 'values' ? wanted.label : '';
	const values = useApi<ValuesResponse>(wants('values') ? 'label-values' : null, { ...range, label, prefix: typed, limit: MOST }, 0);
	const functions = useApi<PipelineTable>(wants('functions') ? 'pipeline' : null, { from, to, q: pipeline(typeOf(text), 'top 500 total') }, 0);
	return useMemo(() => {
		const fits = (word: string) => word.toLowerCase().includes(place.typed.toLowerCase());
		const pick = (words: Word[]) => words.filter((one) => fits(one.text)).slice(0, MOST);
		switch (wanted.kind) {
			case 'words':
				return wanted.words.filter((one) => one.text.startsWith(place.typed.toLowerCase()) && one.text !== place.typed);
			case 'types':
				return pick((types.data?.types ?? []).map((one) => ({ text: one.name, note: formatCount(one.series) })));
			case 'labels':
				return pick((labels.data?.labels ?? []).map(({ name }) => ({ text: name, note: labelTitle(name) === name ? '' : labelTitle(name) })));
			case 'values':
				return pick((values.data?.values ?? []).map(({ value, series }) => ({ text: value, note: formatCount(series) })));
			case 'functions': {
				const columns = functions.data?.table?.columns ?? [];
				const at = columns.findIndex((column) => column.name === 'function');
				return pick((functions.data?.table?.rows ?? []).map((row) => ({ text: String(row[at] ?? ''), note: '' })));
			}
			default:
				return [];
		}
	}, [place.typed, wanted, types.data, labels.data, values.data, functions.data]);
}

function Fault({ message, text }: { message: string; text: string }) {
	const at = faultAt(message);
	const line = at && !text.includes('\n') && at.column <= text.length + 1 ? at : null;
	return (
		<div class="console-fault" role="alert" data-testid="console-fault">
			{line && (
				<pre class="mono" aria-hidden="true">
					{displayName(text.slice(0, line.column - 1), 2000)}
					<mark>{displayName(text.slice(line.column - 1, line.column - 1 + line.length), 200) || ' '}</mark>
					{displayName(text.slice(line.column - 1 + line.length), 2000)}
				</pre>
			)}
			{displayName(message, 1000)}
		</div>
	);
}

export function Editor({ text, onText, onRun, onPrevious, fault, from, to }: EditorProps) {
	const input = useRef<HTMLTextAreaElement>(null);
	const list = useRef<HTMLUListElement>(null);
	const [cursor, setCursor] = useState(text.length);
	const [open, setOpen] = useState(false);
	const [active, setActive] = useState(-1);
	const put = useRef<number | null>(null); // where the cursor goes once the text is there
	const id = useId();
	const place = useMemo(() => placeOf(text, Math.min(cursor, text.length)), [text, cursor]);
	const suggestions = useSuggestions(place, text, open, from, to);
	const at = Math.min(active, suggestions.length - 1);

	useLayoutEffect(() => {
		if (put.current === null || !input.current) return;
		input.current.setSelectionRange(put.current, put.current);
		setCursor(put.current);
		put.current = null;
	}, [text]);
	useLayoutEffect(() => {
		const field = input.current!;
		field.style.height = 'auto';
		field.style.height = `${Math.min(260, field.scrollHeight + 2)}px`;
	}, [text]);
	useEffect(() => {
		list.current?.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: 'nearest' });
	}, [at]);

	const choose = (word: Word) => {
		const done = complete(text, Math.min(cursor, text.length), place, word.text);
		put.current = done.cursor;
		onText(done.text);
		setActive(-1);
		input.current?.focus();
	};
	const onKeyDown = (event: KeyboardEvent) => {
		const count = open ? suggestions.length : 0;
		press('console', event, {
			run: () => {
				setOpen(false);
				onRun();
			},
			pick: () => at >= 0 && count > 0 && choose(suggestions[at]),
			take: () => count > 0 && (place.typed !== '' || at >= 0) && choose(suggestions[Math.max(0, at)]),
			down: () => count > 0 && setActive((at + 1) % count),
			up: () => (count > 0 ? setActive((Math.max(at, 0) + count - 1) % count) : text === '' && onPrevious()),
			close: () => open && setOpen(false),
		});
	};
	const look = () => setCursor(input.current?.selectionStart ?? 0);
	return (
		<div class="console-editor">
			<textarea
				ref={input}
				class="mono"
				rows={1}
				spellcheck={false}
				autocomplete="off"
				autocapitalize="off"
				placeholder={T.queries.placeholder}
				aria-label={T.queries.query}
				aria-haspopup="listbox"
				aria-controls={id}
				aria-autocomplete="list"
				aria-activedescendant={at >= 0 ? `${id}-${at}` : undefined}
				aria-invalid={fault !== null}
				data-testid="console-input"
				value={text}
				onInput={(event) => {
					onText(event.currentTarget.value);
					look();
					setActive(-1);
					setOpen(true);
				}}
				onKeyDown={onKeyDown}
				onKeyUp={look}
				onClick={() => {
					look();
					setOpen(true);
				}}
				onBlur={() => setOpen(false)}
			/>
			<ul class="options" id={id} role="listbox" ref={list} hidden={!open || suggestions.length === 0} aria-label={T.queries.suggestions}>
				{suggestions.map((word, i) => (
					<li
						key={word.text}
						id={`${id}-${i}`}
						role="option"
						aria-selected={i === at}
						onPointerDown={(event) => event.preventDefault()}
						onClick={() => choose(word)}
					>
						<span>{displayName(word.text, 200)}</span>
						<small>{displayName(word.note, 80)}</small>
					</li>
				))}
			</ul>
			{fault !== null && <Fault message={fault} text={text} />}
		</div>
	);
}
