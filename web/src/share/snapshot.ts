// SPDX-License-Identifier: Apache-2.0
/*
 * Links that show everybody the same: the responses that the page shows, kept by the server (POST /api/v1/snapshots) under ids that
 * nobody can guess, and beside them how the page shows them.
 *
 *   ?view=shared&id=ID        a profile, or a file
 *   ?view=shared&id=ID.ID     a comparison: its base, its head
 *
 * The state of the page goes along as text (`state`, at most 8 KiB): the query and the fragment of its URL, in which only what belongs
 * to the picture is set. It is read as any URL is, for whoever may ask the server may write it. The first time that the link is open it
 * becomes the state of the page, as long as the URL says nothing else.
 */
import type { QueryResponse } from '../api/responses';
import { apiPost, apiUrl, ApiError } from '../api/client';
import { sendFile, shortenName, type OnStage } from '../api/send';
import type { KeptView, View } from '../api/view_data';
import * as T from '../base/texts';
import { NO_COMPARE } from '../state/compare';
import { DEFAULTS, formatState, parseState, type PageState } from '../state/page';

const STATE_MAX = 8000; // bytes; the server takes 8 KiB
const TITLE_MAX = 200; // characters
const NODES_MAX = 1_000_000; // of a file's trees

export interface Listed {
	id: string;
	made_ms: number;
	title: string;
}
/** What the server has of one whose call was `query`. */
export interface KeptResponse {
	snapshot: KeptView & { call: string; query: string; type: string; from_ms: number; to_ms: number; partial: boolean };
	answer: QueryResponse;
}
export type Kept = KeptResponse | View;

/** A query as the page has it: the selector, its label at the root of the graph, and the other stages. */
export function splitQuery(query: string): { selector: string; within: string; root: string } {
	let quoted = false;
	let at = 0;
	for (; at < query.length && (quoted || query[at] !== '|'); at++) {
		if (query[at] === '\\' && quoted) at++;
		else if (query[at] === '"') quoted = !quoted;
	}
	const stages = query.slice(at + 1).trim();
	const grouped = /^(.*\|)?\s*group by ([A-Za-z_]\w{0,127})$/.exec(stages);
	const within = grouped ? (grouped[1] ?? '').replace(/\s*\|$/, '') : stages;
	return { selector: query.slice(0, at).trim(), within, root: grouped?.[2] ?? '' };
}

export const isView = (kept: Kept): kept is View => 'data' in kept;
export const headOf = (kept: Kept): KeptView => (isView(kept) ? kept.kept! : kept.snapshot);

// Of the table and of the function between its callers and callees.
type Row = 'function' | 'file' | 'binary' | 'rows' | 'match' | 'least';
/** What of the page's state belongs to a picture; the rest is what was asked, which the snapshot says itself. */
type Picture = Pick<
	PageState,
	'dir' | 'zoom' | 'steps' | 'color' | 'find' | 'regex' | 'filter' | 'sort' | 'reverse' | 'eachAddress' | 'pane' | 'compare' | Row
>;

export function pictureOf({ dir, zoom, steps, color, find, regex, filter, sort, reverse, eachAddress, pane, compare, ...rest }: PageState): Picture {
	const { relative, show, width, of, order, reverse: turned, only } = compare;
	const how = { ...NO_COMPARE, relative, show, width, of, order, reverse: turned, only };
	const { function: name, file, binary, rows, match, least } = rest;
	return { dir, zoom, steps, color, find, regex, filter, sort, reverse, eachAddress, pane, compare: how, function: name, file, binary, rows, match, least };
}

/** As text for the server; fragment: of the URL, with its #, or ''. What is too long is left out: the picture is then as it first comes. */
export function formatPicture(state: PageState, fragment: string): string {
	const text = formatState({ ...DEFAULTS, view: 'shared', ...pictureOf(state) }) + fragment;
	return new TextEncoder().encode(text).length <= STATE_MAX ? text : '';
}

export function parsePicture(text: string): { picture: Picture; fragment: string } {
	const at = text.indexOf('#');
	const query = at < 0 ? text : text.slice(0, at);
	return { picture: pictureOf(parseState(query || '?view=shared')), fragment: at < 0 ? '' : text.slice(at) };
}

/** Without what a title may not have: characters that control something, and more of them than fit. */
export function cleanTitle(title: string): string {
	return [...title.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu, ' ').trim()].slice(0, TITLE_MAX).join('');
}

export function linkOf(ids: string[]): string {
	return location.origin + location.pathname + formatState({ ...DEFAULTS, view: 'shared', id: ids.join('.') });
}

const idOf = (response: Listed): string => {
	if (!/^[0-9a-f]{32}$/.test(response?.id)) throw new ApiError(T.fault.unexpected, 502);
	return response.id;
};

export interface Question {
	query: string; // with its stages
	from_ms: number;
	to_ms: number;
	short: boolean; // names
}

/** Keeps the response to the question, and returns its id. One with as many nodes as the page shows, or else with fewer. */
export async function keepResponse({ query, from_ms, to_ms, short }: Question, title: string, state: string): Promise<string> {
	const keep = (max_nodes: number) =>
		apiPost<Listed>('snapshots', { query, from: from_ms, to: to_ms, max_nodes, ...(short ? { names: 'short' } : {}) }, { title: cleanTitle(title), state });
	try {
		return idOf(await keep(NODES_MAX));
	} catch (error) {
		if (!(error instanceof ApiError) || error.status !== 413) throw error;
		return idOf(await keep(NODES_MAX / 10));
	}
}

/** Keeps what is shown of a file. */
export async function keepFile(file: File, title: string, state: string, onStage: OnStage, signal: AbortSignal): Promise<string> {
	const url = apiUrl('snapshots', { call: 'view', name: shortenName(file.name), title: cleanTitle(title), state, max_nodes: NODES_MAX });
	const reply = await sendFile(file, url, onStage, signal);
	try {
		return idOf(JSON.parse(new TextDecoder().decode(reply.body)) as Listed);
	} catch {
		throw new ApiError(T.fault.unexpected, 502);
	}
}
