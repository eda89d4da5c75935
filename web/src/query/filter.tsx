// SPDX-License-Identifier: Apache-2.0
/*
 * The filter: one chip a matcher and one field to add another, which suggests names, then operators, then values that
 * the data has; of functions, those that cost most. The whole selector can be edited as text instead.
 */
import { useCallback, useEffect, useId, useMemo, useRef, useState } from 'preact/hooks';
import type { LabelsResponse, PipelineTable, ValuesResponse } from '../api/responses';
import { displayName, formatCount, labelTitle } from '../base/format';
import * as T from '../base/texts';
import { useApi, useDebounced } from '../ui/hooks';
import { CloseIcon, FilterIcon, TextIcon } from '../ui/icons';
import { press } from '../ui/keymap';
import { pipeline } from './pipeline';
import { FRAMES, formatMatcher, OPERATORS, parseMatcherText, parseSelector, type Matcher, type Operator, type Selector } from './selector';

export interface FilterProps {
	selector: Selector;
	text: string; // the selector as it is in the URL, also when it cannot be parsed
	fault: string | null;
	from: string;
	to: string;
	nonce: number;
	onChange: (matchers: Matcher[]) => void;
	onText: (text: string) => void;
}

// What stands in the field: nothing or part of a name; a name; a name and an operator with part of a value.
interface Draft {
	label: string; // or FRAMES
	op: Operator | '';
	text: string;
}
const NO_DRAFT: Draft = { label: '', op: '', text: '' };

type Stage = 'name' | 'op' | 'value';

interface Suggestion {
	text: string;
	note: string;
	choose: () => void;
}

const VALUES = 50;
const FUNCTIONS = 500; // that are requested; the costliest, with what they call
const FUNCTION_LETTERS = 2; // typed before functions are suggested beside labels

// What stands for functions among the names, when it is typed.
const FRAMES_WORD = 'frames';
const nameOf = (label: string) => (label === FRAMES ? T.filter.stacks : labelTitle(label));

// Functions with that in their name, those that begin so first.
function useFunctions(enabled: boolean, { selector, from, to, nonce }: FilterProps): { find: (typed: string) => string[]; loading: boolean } {
	const { data, loading } = useApi<PipelineTable>(enabled ? 'pipeline' : null, { q: pipeline(selector.type, `top ${FUNCTIONS} total`), from, to }, nonce);
	const names = useMemo(() => {
		const at = (data?.table?.columns ?? []).findIndex(({ name }) => name === 'function');
		return [...new Set((data?.table?.rows ?? []).map((row) => String(row[at] ?? '')))].filter((name) => name !== '');
	}, [data]);
	const find = useCallback(
		(typed: string) => {
			const wanted = typed.toLowerCase();
			const found = names.filter((name) => name.toLowerCase().includes(wanted));
			const starts = (name: string) => Number(!name.toLowerCase().startsWith(wanted));
			return found.sort((a, b) => starts(a) - starts(b)).slice(0, VALUES);
		},
		[names],
	);
	return { find, loading };
}

function useSuggestions(props: FilterProps, draft: Draft, open: boolean, does: { advance: (draft: Draft) => void; add: (m: Matcher) => void }) {
	const act = useRef(does); // what is chosen later is added to the selector of then
	act.current = does;
	const { selector, from, to, nonce } = props;
	const prefix = useDebounced(draft.text, 120);
	const stage: Stage = draft.label === '' ? 'name' : draft.op === '' ? 'op' : 'value';
	const labels = useApi<LabelsResponse>(open && stage === 'name' ? 'labels' : null, { query: selector.type, from, to }, nonce);
	const exact = draft.op === '=' || draft.op === '!=';
	const values = useApi<ValuesResponse>(
		open && stage === 'value' && draft.label !== FRAMES ? 'label-values' : null,
		{ label: draft.label, prefix: exact ? prefix : '', limit: VALUES, query: selector.type, from, to },
		nonce,
	);
	const named = stage === 'name' && draft.text.trim().length >= FUNCTION_LETTERS;
	const { find, loading: finding } = useFunctions(open && selector.type !== '' && (named || (stage === 'value' && draft.label === FRAMES)), props);
	const suggestions = useMemo((): Suggestion[] => {
		const typed = draft.text.trim().toLowerCase();
		const add = (matcher: Matcher) => act.current.add(matcher);
		const advance = (next: Draft) => act.current.advance(next);
		const withFunction = (op: Operator, name: string) => () => add({ label: FRAMES, op, value: op === '=' || op === '!=' ? name : escapeRegex(name) });
		if (stage === 'op') {
			const fitting = OPERATORS.filter(({ op }) => op.startsWith(typed));
			return fitting.map(({ op, meaning }) => ({
				text: op,
				note: draft.label === FRAMES ? T.filter.stackOperators[op] : meaning,
				choose: () => advance({ ...draft, op, text: '' }),
			}));
		}
		if (stage === 'value' && draft.label === FRAMES)
			return find(draft.text.trim()).map((name) => ({ text: name, note: '', choose: withFunction(draft.op as Operator, name) }));
		if (stage === 'value') {
			const found = (values.data?.values ?? []).filter(({ value }) => value !== '' && (exact ? value.startsWith(draft.text) : true));
			return found.map(({ value, series }) => ({
				text: value,
				note: T.filter.series(formatCount(series)),
				choose: () => add({ label: draft.label, op: draft.op as Operator, value: exact ? value : escapeRegex(value) }),
			}));
		}
		const matching = (labels.data?.labels ?? []).filter(({ name }) => name.toLowerCase().includes(typed) || labelTitle(name).toLowerCase().includes(typed));
		const byLabel = matching.map(({ name }) => ({
			text: name,
			note: labelTitle(name) === name ? '' : labelTitle(name),
			choose: () => advance({ label: name, op: '', text: '' }),
		}));
		const stacks = { text: T.filter.stacks, note: T.filter.stacksNote, choose: () => advance({ label: FRAMES, op: '', text: '' }) };
		const isNamed = `${T.filter.stacks} ${FRAMES_WORD}`.toLowerCase().includes(typed);
		if (!named) return [...byLabel, ...(isNamed ? [stacks] : [])];
		const part = draft.text.trim();
		const like = { text: T.filter.stacksWith(part), note: T.filter.stacksWithNote, choose: withFunction('=~', part) };
		const byFunction = find(part).map((name) => ({ text: name, note: T.filter.functionNote, choose: withFunction('=', name) }));
		return [...byLabel, ...(isNamed ? [stacks] : []), like, ...byFunction];
	}, [draft, stage, exact, named, labels.data, values.data, find]);
	const hidden = stage === 'value' && values.data ? values.data.total - values.data.values.length : 0;
	return { suggestions, hidden, loading: labels.loading || values.loading || finding, stage };
}

export function escapeRegex(text: string): string {
	return text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&');
}

const PLACEHOLDER = { name: T.filter.placeholder, op: T.filter.operator, value: T.filter.value };

function AddFilter(props: FilterProps & { draft: Draft; setDraft: (draft: Draft) => void; placeholder: boolean }) {
	const { selector, onChange, draft, setDraft } = props;
	const [open, setOpen] = useState(false);
	const [active, setActive] = useState(-1);
	const input = useRef<HTMLInputElement>(null);
	const list = useRef<HTMLUListElement>(null);
	const id = useId();

	const reset = () => {
		setDraft(NO_DRAFT);
		setActive(-1);
	};
	const advance = (next: Draft) => {
		setDraft(next);
		setActive(-1);
		input.current?.focus();
	};
	const add = (matcher: Matcher) => {
		onChange([...selector.matchers, matcher]);
		reset();
	};
	const { suggestions, hidden, loading, stage } = useSuggestions(props, draft, open, { advance, add });
	useEffect(() => setActive((at) => Math.min(at, suggestions.length - 1)), [suggestions]);
	useEffect(() => {
		list.current?.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: 'nearest' });
	}, [active]);
	useEffect(() => {
		if (draft.label !== '') input.current?.focus();
	}, [draft.label]);

	// Typing "name=" or "name !=" by hand moves on just as choosing from the list does.
	const type = (text: string) => {
		setOpen(true);
		setActive(-1);
		const whole = draft.label === '' ? text : `${draft.label === FRAMES ? FRAMES_WORD : draft.label}${draft.op}${text}`;
		const typed = stage !== 'value' && /^\s*([A-Za-z_]\w*)\s*(=~|!~|!=|=)(.*)$/.exec(whole);
		// After "=" may still come "~".
		if (stage === 'value' && draft.op === '=' && text === '~') setDraft({ ...draft, op: '=~', text: '' });
		else if (typed) setDraft({ label: typed[1] === FRAMES_WORD ? FRAMES : typed[1], op: typed[2] as Operator, text: typed[3] });
		else setDraft({ ...draft, text });
	};
	const enter = () => {
		if (active >= 0 && suggestions[active]) return suggestions[active].choose();
		if (stage === 'value') {
			const stacks = draft.label === FRAMES;
			const matcher = parseMatcherText(`${stacks ? FRAMES_WORD : draft.label}${draft.op}${draft.text}`);
			if (matcher && !(stacks && matcher.value === '')) add(stacks ? { ...matcher, label: FRAMES } : matcher);
		} else if (suggestions.length > 0 && draft.text !== '') {
			suggestions[0].choose();
		} else if (stage === 'op') {
			advance({ ...draft, op: '=', text: '' });
		}
		return undefined;
	};
	const back = () => {
		if (draft.op !== '') setDraft({ ...draft, op: '' });
		else if (draft.label !== '') setDraft(NO_DRAFT);
		else if (selector.matchers.length > 0) onChange(selector.matchers.slice(0, -1));
	};
	const onKeyDown = (event: KeyboardEvent) => {
		const count = suggestions.length;
		const go = (step: number) => {
			setOpen(true);
			if (count > 0) setActive(active < 0 ? (step > 0 ? 0 : count - 1) : (active + step + count) % count);
		};
		press('filter', event, {
			down: () => go(1),
			up: () => go(-1),
			add: enter,
			take: () => open && draft.text !== '' && count > 0 && suggestions[Math.max(0, active)].choose(),
			leave: () => (open ? setOpen(false) : reset()),
			back: () => draft.text === '' && back(),
		});
	};
	return (
		<div class="combo">
			{draft.label !== '' && (
				<span class="draft">
					{nameOf(draft.label)} <b>{draft.op}</b>
				</span>
			)}
			<input
				ref={input}
				type="text"
				class="combo-input"
				data-testid="filter-input"
				role="combobox"
				aria-label={stage === 'name' ? T.filter.label : stage === 'op' ? T.filter.operatorFor(nameOf(draft.label)) : T.filter.valueOf(nameOf(draft.label))}
				aria-expanded={open}
				aria-controls={id}
				aria-autocomplete="list"
				aria-activedescendant={active >= 0 ? `${id}-${active}` : undefined}
				autocomplete="off"
				autocapitalize="off"
				spellcheck={false}
				placeholder={stage === 'name' && !props.placeholder ? T.filter.another : PLACEHOLDER[stage]}
				value={draft.text}
				onInput={(event) => type(event.currentTarget.value)}
				onFocus={() => setOpen(true)}
				onClick={() => setOpen(true)}
				onBlur={() => setOpen(false)}
				onKeyDown={onKeyDown}
			/>
			<ul class="options" id={id} role="listbox" ref={list} hidden={!open} aria-label={T.filter.suggestions}>
				{suggestions.map((s, i) => (
					<li
						key={`${s.note} ${s.text}`}
						id={`${id}-${i}`}
						role="option"
						aria-selected={i === active}
						onPointerDown={(event) => event.preventDefault()}
						onClick={s.choose}
					>
						<span>{displayName(s.text, 160)}</span>
						<small>{s.note}</small>
					</li>
				))}
				{suggestions.length === 0 && (
					<li class="options-note" role="option" aria-disabled="true" aria-selected="false">
						{loading ? T.filter.looking : stage !== 'value' ? T.filter.noLabel : draft.label === FRAMES ? T.filter.noFunction : T.filter.noValue}
					</li>
				)}
				{hidden > 0 && (
					<li class="options-note" role="option" aria-disabled="true" aria-selected="false">
						{T.filter.more(formatCount(hidden))}
					</li>
				)}
			</ul>
		</div>
	);
}

function Chip({ matcher, onEdit, onRemove }: { matcher: Matcher; onEdit: () => void; onRemove: () => void }) {
	const stacks = matcher.label === FRAMES;
	return (
		<span class="chip" data-testid="chip">
			<button type="button" class="chip-text" onClick={onEdit} title={T.filter.change(displayName(formatMatcher(matcher), 1000))}>
				<span class="chip-label">{stacks ? T.filter.stackChips[matcher.op] : labelTitle(matcher.label)}</span>
				{!stacks && <b>{matcher.op === '=' ? T.filter.is : matcher.op === '!=' ? T.filter.isNot : matcher.op}</b>}
				<span class="chip-value">{displayName(matcher.value, 60) || T.filter.empty}</span>
			</button>
			<button type="button" class="chip-x" aria-label={T.filter.remove(displayName(formatMatcher(matcher), 400))} onClick={onRemove}>
				<CloseIcon />
			</button>
		</span>
	);
}

function TextEditor({ text, onText, onDone }: { text: string; onText: (text: string) => void; onDone: () => void }) {
	const [typed, setTyped] = useState({ of: text, draft: text });
	const draft = typed.of === text ? typed.draft : text;
	const setDraft = (next: string) => setTyped({ of: text, draft: next });
	const fault = useMemo(() => {
		try {
			parseSelector(draft);
			return null;
		} catch (error) {
			return (error as Error).message;
		}
	}, [draft]);
	return (
		<div class="text-editor">
			<input
				type="text"
				class="mono"
				aria-label={T.filter.selector}
				data-testid="selector-input"
				aria-invalid={fault !== null}
				aria-describedby="selector-fault"
				spellcheck={false}
				autocomplete="off"
				autocapitalize="off"
				placeholder={T.filter.example}
				value={draft}
				onInput={(event) => setDraft(event.currentTarget.value)}
				onKeyDown={(event) => {
					press('selector', event, { apply: () => !fault && onText(draft), leave: onDone });
				}}
			/>
			<button type="button" class="button" disabled={fault !== null || draft === text} onClick={() => onText(draft)}>
				{T.filter.apply}
			</button>
			<span id="selector-fault" class="field-fault" role="status">
				{fault ?? ''}
			</span>
		</div>
	);
}

export function Filter(props: FilterProps) {
	const { selector, text, fault, onChange, onText } = props;
	const [asText, setAsText] = useState(false);
	const [draft, setDraft] = useState<Draft>(NO_DRAFT);
	const textual = asText || fault !== null;
	const remove = (i: number) => onChange(selector.matchers.filter((_, n) => n !== i));
	return (
		<div class="filter" role="group" aria-label={T.filter.group}>
			<FilterIcon />
			{textual ? (
				<TextEditor text={text} onText={onText} onDone={() => setAsText(false)} />
			) : (
				<>
					{selector.matchers.map((m, i) => (
						<Chip
							key={formatMatcher(m)}
							matcher={m}
							onRemove={() => remove(i)}
							onEdit={() => {
								remove(i);
								setDraft({ label: m.label, op: m.op, text: m.value });
							}}
						/>
					))}
					<AddFilter {...props} draft={draft} setDraft={setDraft} placeholder={selector.matchers.length === 0} />
				</>
			)}
			<button
				type="button"
				class="ghost"
				aria-pressed={textual}
				disabled={fault !== null}
				title={T.filter.asText}
				aria-label={T.filter.asText}
				data-testid="selector-toggle"
				onClick={() => setAsText(!asText)}
			>
				<TextIcon />
			</button>
		</div>
	);
}
