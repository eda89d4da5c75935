// SPDX-License-Identifier: Apache-2.0
// The server's JSON API as the page uses it (docs/api.md); responses.ts has the types. Addresses are relative, so the page also works below a
// proxy's path.
import * as T from '../base/texts';
import { begin } from './pending';
import { readView, VIEW_TYPE } from './view_data';
import { FLAME_TYPE, readFlame } from './wire';

export class ApiError extends Error {
	// status 0: no response from the server (down, or the network between); CANCELLED: the person at the page did not want to wait;
	// 502: a response that this server did not send, 504: no response in time
	constructor(
		message: string,
		readonly status: number,
	) {
		super(message);
	}
}

export const CANCELLED = 499;

/*
 * After how many seconds a request that failed is sent again; 0 = it is not. A server that is not there costs nothing to ask; one that
 * is in trouble is asked less and less often. What was refused, or given up, would be so again.
 */
export function retrySeconds(status: number, failures: number): number {
	if (status === 0) return 5;
	if (status !== 429 && status < 500) return 0;
	return Math.min(60, 5 * 2 ** Math.max(0, failures - 1));
}

const TIMEOUT_MS = 60_000; // the server gives up on a request after as long

// A list is a parameter that is there several times.
export type Params = Record<string, string | number | readonly string[] | null | undefined>;

// In these, an empty value is a choice: the file that is unknown, the binary without a build-id. Elsewhere it is none.
const MAY_BE_EMPTY = ['file', 'build_id'];

export function apiUrl(path: string, params: Params = {}): string {
	const query = new URLSearchParams();
	for (const [name, value] of Object.entries(params)) {
		if (Array.isArray(value)) for (const one of value as string[]) query.append(name, one);
		else if (value !== undefined && value !== null && (value !== '' || MAY_BE_EMPTY.includes(name))) query.set(name, String(value));
	}
	const text = query.toString();
	return `api/v1/${path}${text ? '?' + text : ''}`;
}

/** The message of an error response: the server's own, or the status if there is none. */
export function errorIn(text: string, status: number, statusText: string): string {
	try {
		const { error } = JSON.parse(text) as { error?: unknown };
		if (typeof error === 'string') return error;
	} catch {
		// not JSON: a proxy's page, most likely
	}
	return T.fault.status(status, statusText).trim();
}

export function apiGet<T>(path: string, params: Params, signal?: AbortSignal): Promise<T> {
	return apiCall('GET', path, params, signal);
}

/** body: sent as JSON. */
export function apiPost<T>(path: string, params: Params = {}, body?: unknown): Promise<T> {
	return apiCall('POST', path, params, undefined, body === undefined ? undefined : JSON.stringify(body));
}

/** body: sent as JSON. */
export function apiPut<T>(path: string, body: unknown): Promise<T> {
	return apiCall('PUT', path, {}, undefined, JSON.stringify(body));
}

export function apiDelete(path: string): Promise<unknown> {
	return apiCall('DELETE', path, {});
}

// What a response has at least, by path: a proxy may send JSON of its own.
const LISTS: Record<string, string> = {
	types: 'types',
	labels: 'labels',
	'label-values': 'values',
	targets: 'targets',
	series: 'series',
	markers: 'markers',
	agents: 'agents',
	slow: 'queries',
	queries: 'queries',
	binaries: 'binaries',
	recordings: 'recordings',
	source: 'lines',
	asm: 'instructions',
};
const OBJECTS: Record<string, string> = { query: 'flame', status: 'data' };

function isSnapshot(response: object): boolean {
	const { snapshot, answer: kept } = response as {
		snapshot?: { made_ms?: unknown; title?: unknown; query?: unknown; state?: unknown } | null;
		answer?: unknown;
	};
	if (typeof snapshot !== 'object' || snapshot === null || typeof kept !== 'object' || kept === null) return false;
	return typeof snapshot.made_ms === 'number' && [snapshot.title, snapshot.query, snapshot.state].every((text) => typeof text === 'string');
}

/** Whether it may be a response to that path. */
export function isResponse(path: string, response: unknown): boolean {
	if (typeof response !== 'object' || response === null) return false;
	const of = (names: Record<string, string>): unknown => (response as Record<string, unknown>)[names[path]];
	if (Object.prototype.hasOwnProperty.call(LISTS, path)) return Array.isArray(of(LISTS));
	if (Object.prototype.hasOwnProperty.call(OBJECTS, path)) return typeof of(OBJECTS) === 'object' && of(OBJECTS) !== null;
	if (/^snapshots\/[0-9a-f]{32}$/.test(path)) return isSnapshot(response);
	return path !== 'pipeline' || typeof (response as { kind?: unknown }).kind === 'string';
}

// The body is complete: what goes wrong from here on is what it says.
function parseResponse(path: string, body: ArrayBuffer, type: string): unknown {
	if (type.startsWith(FLAME_TYPE) || type.startsWith(VIEW_TYPE)) {
		try {
			return type.startsWith(FLAME_TYPE) ? readFlame(body) : readView(new Uint8Array(body));
		} catch (error) {
			throw new ApiError((error as Error).message, 502);
		}
	}
	let response: unknown;
	try {
		response = JSON.parse(new TextDecoder().decode(body));
	} catch {
		throw new ApiError(T.fault.notJson, 502);
	}
	if (!isResponse(path, response)) throw new ApiError(T.fault.unexpected, 502);
	return response;
}

async function apiCall<T>(method: string, path: string, params: Params, signal?: AbortSignal, body?: string): Promise<T> {
	const abort = new AbortController();
	const stop = () => abort.abort();
	let [late, cancelled] = [false, false];
	const end = begin(() => {
		cancelled = true;
		stop();
	});
	const timer = setTimeout(() => {
		late = true;
		stop();
	}, TIMEOUT_MS);
	signal?.addEventListener('abort', stop);
	if (signal?.aborted) stop();
	try {
		const response = await fetch(apiUrl(path, params), { method, body, signal: abort.signal, cache: 'no-store' });
		if (!response.ok) throw new ApiError(errorIn(await response.text().catch(() => ''), response.status, response.statusText), response.status);
		return parseResponse(method === 'DELETE' ? '' : path, await response.arrayBuffer(), response.headers.get('content-type') ?? '') as T;
	} catch (error) {
		if (error instanceof ApiError || (signal?.aborted && !late)) throw error;
		if (cancelled) throw new ApiError('', CANCELLED);
		throw late ? new ApiError(T.fault.late(TIMEOUT_MS / 1000), 504) : new ApiError(T.fault.noResponse, 0);
	} finally {
		end();
		clearTimeout(timer);
		signal?.removeEventListener('abort', stop);
	}
}
