// SPDX-License-Identifier: Apache-2.0
// Saved queries in the console: the list of them, the form of one's parameters, and saving what is in the editor.
import { useId, useMemo, useState } from 'preact/hooks';
import { apiDelete, apiPut, ApiError } from '../api/client';
import type { LabelsResponse, SavedParameter, SavedQueriesResponse, SavedQuery, ValuesResponse } from '../api/responses';
import { displayName } from '../base/format';
import * as T from '../base/texts';
import { useApi, useDebounced } from '../ui/hooks';
import { Popover } from '../ui/popover';
import { draftOf, fileOf, missing, nameOf, textsOf, TYPES, valuesIn, type Draft } from './saved';

const OFFERED = 50;

export const useSaved = (nonce: number) => useApi<SavedQueriesResponse>('queries', {}, nonce);

// ---- the list --------------------

export function SavedList({ queries, onPick }: { queries: SavedQuery[]; onPick: (query: SavedQuery) => void }) {
	return (
		<section class="console-examples" aria-label={T.queries.saved} data-testid="saved-list">
			<h3>{T.queries.saved}</h3>
			<dl>
				{queries.map((query) => (
					<div key={query.name}>
						<dt>
							<button type="button" class="link" disabled={query.error !== undefined} onClick={() => onPick(query)}>
								{displayName(query.title ?? query.name, 200)}
							</button>
						</dt>
						<dd class={query.error === undefined ? '' : 'fault'}>{displayName(query.error ?? query.description ?? '', 400)}</dd>
					</div>
				))}
			</dl>
		</section>
	);
}

// ---- one with its parameters --------------------

interface FieldProps {
	parameter: SavedParameter;
	value: string;
	from: string;
	to: string;
	onValue: (value: string) => void;
}

function useOffers({ parameter, value, from, to }: FieldProps, asked: boolean): string[] {
	const prefix = useDebounced(value, 120);
	const isValue = parameter.type === 'value',
		isLabel = parameter.type === 'label';
	const values = useApi<ValuesResponse>(
		asked && isValue ? 'label-values' : null,
		{ label: parameter.label ?? '', from, to, prefix: /^[\w./-]*$/.test(prefix) ? prefix : '', limit: OFFERED },
		0,
	);
	const labels = useApi<LabelsResponse>(asked && isLabel ? 'labels' : null, { from, to }, 0);
	return isValue ? (values.data?.values.map((one) => one.value) ?? []) : isLabel ? (labels.data?.labels.map((one) => one.name) ?? []) : [];
}

function Field(props: FieldProps) {
	const { parameter, value, onValue } = props;
	const id = useId();
	const [asked, setAsked] = useState(false);
	const offers = useOffers(props, asked);
	const label = displayName(parameter.title || parameter.name, 100);
	const common = { id, 'data-testid': `saved-${parameter.name}` };
	return (
		<div class="saved-field">
			<label for={id}>{label}</label>
			{parameter.choices ? (
				<select {...common} class="select" value={value || (parameter.default ?? '')} onChange={(event) => onValue(event.currentTarget.value)}>
					{parameter.default === undefined && <option value="" />}
					{parameter.choices.map((choice) => (
						<option key={choice} value={choice}>
							{displayName(choice, 200)}
						</option>
					))}
				</select>
			) : (
				<>
					<input
						{...common}
						type="text"
						class="mono"
						list={`${id}-offers`}
						inputMode={parameter.type === 'number' ? 'numeric' : 'text'}
						spellcheck={false}
						autocomplete="off"
						autocapitalize="off"
						placeholder={parameter.default ?? T.queries.types[parameter.type]}
						value={value}
						onFocus={() => setAsked(true)}
						onInput={(event) => onValue(event.currentTarget.value)}
					/>
					<datalist id={`${id}-offers`}>
						{offers.slice(0, OFFERED).map((one) => (
							<option key={one} value={one} />
						))}
					</datalist>
				</>
			)}
		</div>
	);
}

interface FormProps {
	query: SavedQuery;
	texts: string[]; // of the URL
	from: string;
	to: string;
	onRun: (texts: string[]) => void;
	onEdit: () => void;
	onLeave: () => void;
	onRemoved: () => void;
}

export function SavedForm({ query, texts, from, to, onRun, onEdit, onLeave, onRemoved }: FormProps) {
	const [draft, setDraft] = useState<{ of: string[]; values: Record<string, string> }>({ of: texts, values: valuesIn(texts) });
	const [fault, setFault] = useState('');
	const values = draft.of === texts ? draft.values : valuesIn(texts);
	const parameters = query.parameters ?? [];
	const wanted = missing(parameters, values);
	const remove = () =>
		apiDelete(`queries/${query.name}`).then(onRemoved, (error: unknown) => setFault(error instanceof ApiError ? error.message : String(error)));
	return (
		<form
			class="saved-form"
			data-testid="saved-form"
			aria-label={displayName(query.title ?? query.name, 200)}
			onSubmit={(event) => {
				event.preventDefault();
				if (!wanted) onRun(textsOf(parameters, values));
			}}
		>
			<header>
				<h2>{displayName(query.title ?? query.name, 200)}</h2>
				<span class="hint">{displayName(query.description ?? '', 400)}</span>
			</header>
			<div class="saved-fields">
				{parameters.map((parameter) => (
					<Field
						key={parameter.name}
						parameter={parameter}
						value={values[parameter.name] ?? ''}
						from={from}
						to={to}
						onValue={(value) => setDraft({ of: texts, values: { ...values, [parameter.name]: value } })}
					/>
				))}
				<button
					type="submit"
					class="button primary"
					disabled={wanted !== undefined}
					title={wanted && T.queries.needs(wanted.title || wanted.name)}
					data-testid="saved-run"
				>
					{T.queries.run}
				</button>
				<button type="button" class="button" data-testid="saved-edit" title={T.queries.editHint} onClick={onEdit}>
					{T.queries.edit}
				</button>
				{query.origin === 'saved' && (
					<button type="button" class="button" data-testid="saved-remove" onClick={() => void remove()}>
						{T.queries.remove}
					</button>
				)}
				<button type="button" class="button" data-testid="saved-leave" onClick={onLeave}>
					{T.queries.leave}
				</button>
			</div>
			{fault !== '' && (
				<p class="field-fault" role="alert">
					{displayName(fault, 400)}
				</p>
			)}
		</form>
	);
}

// ---- saving --------------------

type Row = Draft['parameters'][number];

function ParameterRow({ row, onRow }: { row: Row; onRow: (row: Row) => void }) {
	const text = (name: 'label' | 'usual' | 'choices', title: string) => (
		<input
			type="text"
			class="mono"
			aria-label={`${title}: $${row.name}`}
			placeholder={title}
			value={row[name]}
			data-testid={`save-${row.name}-${name}`}
			onInput={(event) => onRow({ ...row, [name]: event.currentTarget.value })}
		/>
	);
	return (
		<div class="saved-parameter">
			<code>{`$${row.name}`}</code>
			<select
				class="select"
				aria-label={`${T.queries.typeOf}: $${row.name}`}
				value={row.type}
				data-testid={`save-${row.name}-type`}
				onChange={(event) => onRow({ ...row, type: event.currentTarget.value as Row['type'] })}
			>
				{TYPES.map((type) => (
					<option key={type} value={type}>
						{T.queries.types[type]}
					</option>
				))}
			</select>
			{row.type === 'value' && text('label', T.queries.labelOf)}
			{row.type === 'choice' && text('choices', T.queries.choicesOf)}
			{text('usual', T.queries.usual)}
		</div>
	);
}

function SaveForm({ text, of, onSaved }: { text: string; of?: SavedQuery; onSaved: (name: string) => void }) {
	const [draft, setDraft] = useState<Draft>(() => draftOf(text, of));
	const [fault, setFault] = useState('');
	const name = of?.origin === 'saved' && draft.title === of.title ? of.name : nameOf(draft.title);
	const save = () =>
		apiPut(`queries/${name}`, fileOf(draft)).then(
			() => onSaved(name),
			(error: unknown) => setFault(error instanceof ApiError ? error.message : String(error)),
		);
	const set = (more: Partial<Draft>) => setDraft({ ...draft, ...more });
	return (
		<form
			class="save-form"
			onSubmit={(event) => {
				event.preventDefault();
				if (name !== '') void save();
			}}
		>
			<label>
				{T.queries.titleOf}
				<input type="text" value={draft.title} data-testid="save-title" onInput={(event) => set({ title: event.currentTarget.value })} />
			</label>
			<label>
				{T.queries.descriptionOf}
				<input type="text" value={draft.description} data-testid="save-description" onInput={(event) => set({ description: event.currentTarget.value })} />
			</label>
			{draft.parameters.map((row, i) => (
				<ParameterRow key={row.name} row={row} onRow={(next) => set({ parameters: draft.parameters.map((one, k) => (k === i ? next : one)) })} />
			))}
			{draft.parameters.length === 0 && <p class="hint">{T.queries.parametersHint}</p>}
			{fault !== '' && (
				<p class="field-fault" role="alert" data-testid="save-fault">
					{displayName(fault, 600)}
				</p>
			)}
			<button type="submit" class="button primary" disabled={name === ''} data-testid="save-submit">
				{T.queries.saveAs(name)}
			</button>
		</form>
	);
}

export function Save({ text, of, onSaved }: { text: string; of?: SavedQuery; onSaved: (name: string) => void }) {
	return (
		<Popover label={T.queries.save} button={T.queries.save} testId="console-save" align="left">
			{(close) => (
				<SaveForm
					text={text}
					of={of}
					onSaved={(name) => {
						close();
						onSaved(name);
					}}
				/>
			)}
		</Popover>
	);
}

export function SavedMenu({ queries, onPick }: { queries: SavedQuery[]; onPick: (query: SavedQuery) => void }) {
	const good = useMemo(() => queries.filter(({ error }) => error === undefined), [queries]);
	return (
		<Popover label={T.queries.saved} button={T.queries.saved} testId="console-saved" align="left">
			{(close) => (
				<ul class="console-list">
					{good.map((query) => (
						<li key={query.name}>
							<button
								type="button"
								class="link"
								title={displayName(query.description ?? '', 400)}
								onClick={() => {
									close();
									onPick(query);
								}}
							>
								{displayName(query.title ?? query.name, 200)}
							</button>
						</li>
					))}
				</ul>
			)}
		</Popover>
	);
}
