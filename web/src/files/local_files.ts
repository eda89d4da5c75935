// SPDX-License-Identifier: Apache-2.0
/*
 * The files that are open on this page. The URL has a random id of one, so that back and forward switch between them;
 * it cannot contain the files themselves, and a page that is reloaded has none.
 *
 * What is kept of a file is the browser's handle on it, and for the last few the server's response, which may be hundreds of MB:
 * an older file is sent again when it is shown again. One is sent at a time, because the server reads one at a time.
 */
import { useEffect, useState } from 'preact/hooks';
import { apiUrl } from '../api/client';
import { sendFile, shortenName, type Stage } from '../api/send';
import { readView, type View } from '../api/view_data';
import * as T from '../base/texts';

const FILES_MAX = 50;
const VIEWS_MAX = 3;
const NODES_MAX = 1_000_000; // of each tree, as in the page's other profiles

export interface LocalFile {
	id: string;
	name: string;
	file: File;
	stage: Stage | null; // null = it is not being sent
	view: View | null;
	fault: string | null;
	cancelled: boolean;
}

const all = new Map<string, LocalFile>(); // the oldest first, and those whose views are younger behind
const listeners = new Set<() => void>();
let running: { id: string; abort: AbortController } | null = null;

function change(id: string, patch: Partial<LocalFile>): void {
	const one = all.get(id);
	if (!one) return;
	all.set(id, { ...one, ...patch });
	listeners.forEach((listener) => listener());
}

function makeId(): string {
	return [...crypto.getRandomValues(new Uint8Array(8))].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

function forgetOlder(): void {
	const viewed = [...all.values()].filter(({ view }) => view !== null);
	for (const { id } of viewed.slice(0, -VIEWS_MAX)) change(id, { view: null });
	for (const id of [...all.keys()].slice(0, -FILES_MAX)) all.delete(id);
}

async function send(id: string, signal: AbortSignal): Promise<void> {
	const { file, name } = all.get(id)!;
	try {
		const url = apiUrl('view', { name: shortenName(name), max_nodes: NODES_MAX });
		const reply = await sendFile(file, url, (stage) => !signal.aborted && change(id, { stage }), signal);
		change(id, { stage: { at: 'showing' } });
		const view = readView(new Uint8Array(reply.body));
		if (signal.aborted) return;
		const one = all.get(id);
		all.delete(id);
		if (one) all.set(id, one);
		change(id, { view, stage: null });
		forgetOlder();
	} catch (error) {
		if (!signal.aborted) change(id, { stage: null, fault: error instanceof Error ? error.message : String(error) });
	}
}

/** Sends it (again), and cancels any other transfer. */
export function startSending(id: string): void {
	if (!all.has(id)) return;
	cancelSending();
	const abort = new AbortController();
	running = { id, abort };
	change(id, { stage: { at: 'sending', done: 0, of: 0 }, fault: null, cancelled: false });
	void send(id, abort.signal).finally(() => {
		if (running?.abort === abort) running = null;
	});
}

export function cancelSending(): void {
	if (!running) return;
	const { id, abort } = running;
	running = null;
	abort.abort();
	change(id, { stage: null, cancelled: true });
}

/** Opens the file, and returns its id. */
export function addFile(file: File): string {
	const id = makeId();
	all.set(id, { id, name: file.name || T.files.unnamed, file, stage: null, view: null, fault: null, cancelled: false });
	startSending(id);
	forgetOlder();
	return id;
}

/** Whether the file of that id is open on this page. */
export const hasLocalFile = (id: string): boolean => all.has(id);

/** The file of that id, with its progress; null = there is none (any more). */
export function useLocalFile(id: string): LocalFile | null {
	const [, setTurn] = useState(0);
	useEffect(() => {
		const listener = () => setTurn((n) => n + 1);
		listeners.add(listener);
		listener(); // what has changed since this was drawn
		return () => void listeners.delete(listener);
	}, []);
	return all.get(id) ?? null;
}
