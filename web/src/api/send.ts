// SPDX-License-Identifier: Apache-2.0
/*
 * A file on its way to the server and back as a view (POST /api/v1/view), or as anything else that the server makes of a file.
 *
 * The server takes a body of 64 MiB (body.max), and unpacks a gzip file itself: what is larger is packed here, piece by piece, and so
 * is what a server with a smaller limit refused. It reads one file at a time, and says 503 and for how long meanwhile: the
 * file is sent again then, as often as it takes, because who waits can give up by a key. Every other refusal is final.
 *
 * By XMLHttpRequest, because fetch() does not say how much of a body has been sent.
 */
import * as T from '../base/texts';
import { ApiError, errorIn } from './client';

const BODY_MAX = 64 * 1024 * 1024; // bytes
const WORTH_PACKING = 64 * 1024; // bytes: what is refused of less is refused for something else, such as its depth
const RETRY_S = { least: 1, most: 30, otherwise: 2 };
const NAME_MAX = 200; // characters of a name that are sent; its extension gives the format

export type Stage =
	| { at: 'packing' | 'sending' | 'receiving'; done: number; of: number } // bytes; of 0 = not known
	| { at: 'reading' } // by the server
	| { at: 'waiting'; seconds: number; why: string }
	| { at: 'showing' };
export type OnStage = (stage: Stage) => void;

export interface Reply {
	status: number; // of HTTP; 0 = none came
	retryAfter: string | null;
	type: string;
	disposition: string;
	body: ArrayBuffer;
}

/** What of the browser is used; others in tests. Each throws the reason of `signal` when that says stop. */
export interface Io {
	post: (url: string, body: Blob, onStage: OnStage, signal: AbortSignal) => Promise<Reply>;
	pack: (file: Blob, onStage: OnStage, signal: AbortSignal) => Promise<Blob>;
	wait: (ms: number, signal: AbortSignal) => Promise<void>;
}

/** The part of a name that says what it is. */
export const shortenName = (name: string): string => (name.length <= NAME_MAX ? name : name.slice(-NAME_MAX));

/** In seconds. If a proxy sends a date, or nonsense, the request is repeated soon, but not at once. */
export function retryAfterSeconds(header: string | null): number {
	const seconds = header !== null && /^\d{1,6}$/.test(header.trim()) ? Number(header) : RETRY_S.otherwise;
	return Math.min(RETRY_S.most, Math.max(RETRY_S.least, seconds));
}

/** Whether it is packed already, by what gzip and zstd files begin with. */
export function isPacked(first: Uint8Array): boolean {
	const begins = (...bytes: number[]) => bytes.every((byte, i) => first[i] === byte);
	return begins(0x1f, 0x8b) || begins(0x28, 0xb5, 0x2f, 0xfd);
}

function post(url: string, body: Blob, onStage: OnStage, signal: AbortSignal): Promise<Reply> {
	return new Promise((resolve, reject) => {
		const request = new XMLHttpRequest();
		const stop = () => request.abort();
		const over = <V>(done: (value: V) => void, value: V) => {
			signal.removeEventListener('abort', stop);
			done(value);
		};
		request.open('POST', url);
		request.responseType = 'arraybuffer';
		request.upload.onprogress = ({ loaded }) => onStage({ at: 'sending', done: loaded, of: body.size });
		request.upload.onload = () => onStage({ at: 'reading' });
		request.onprogress = ({ loaded, total, lengthComputable }) => onStage({ at: 'receiving', done: loaded, of: lengthComputable ? total : 0 });
		request.onload = () =>
			over(resolve, {
				status: request.status,
				retryAfter: request.getResponseHeader('retry-after'),
				type: request.getResponseHeader('content-type') ?? '',
				disposition: request.getResponseHeader('content-disposition') ?? '',
				body: request.response as ArrayBuffer,
			});
		request.onerror = () => over(resolve, { status: 0, retryAfter: null, type: '', disposition: '', body: new ArrayBuffer(0) });
		request.onabort = () => over(reject, signal.reason);
		signal.addEventListener('abort', stop);
		if (signal.aborted) over(reject, signal.reason);
		else request.send(body);
	});
}

async function pack(file: Blob, onStage: OnStage, signal: AbortSignal): Promise<Blob> {
	if (typeof CompressionStream === 'undefined') throw new ApiError(T.files.cannotPack, 413);
	let done = 0;
	const counted = new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
		transform(chunk, controller) {
			done += chunk.length;
			onStage({ at: 'packing', done, of: file.size });
			controller.enqueue(chunk);
		},
	});
	// As a response, for the browser keeps the blob of one where it likes, which need not be memory.
	const packed = file.stream().pipeThrough(counted, { signal }).pipeThrough(new CompressionStream('gzip'));
	return new Response(packed).blob();
}

function wait(ms: number, signal: AbortSignal): Promise<void> {
	return new Promise((resolve, reject) => {
		const stop = () => {
			clearTimeout(timer);
			reject(signal.reason as Error);
		};
		const timer = setTimeout(() => {
			signal.removeEventListener('abort', stop);
			resolve();
		}, ms);
		if (signal.aborted) stop();
		else signal.addEventListener('abort', stop);
	});
}

export const BROWSER: Io = { post, pack, wait };

/**
 * What the server makes of the file; url: the call, with its parameters. Throws what it refused as an ApiError, with its words, and the
 * reason of `signal` when that said stop. A file that cannot be read (any more) is an ApiError of status 400.
 */
export async function sendFile(file: Blob, url: string, onStage: OnStage, signal: AbortSignal, io = BROWSER): Promise<Reply> {
	let first: Uint8Array;
	try {
		first = new Uint8Array(await file.slice(0, 4).arrayBuffer());
	} catch {
		throw new ApiError(T.files.unreadable, 400);
	}
	let packed = isPacked(first);
	let body = file;
	const packIt = async () => {
		onStage({ at: 'packing', done: 0, of: file.size });
		body = await io.pack(file, onStage, signal);
		packed = true;
	};
	if (!packed && file.size > BODY_MAX) await packIt();
	for (;;) {
		onStage({ at: 'sending', done: 0, of: body.size });
		const reply = await io.post(url, body, onStage, signal);
		if (reply.status >= 200 && reply.status < 300) return reply;
		if (reply.status === 0) throw new ApiError(T.fault.noResponse, 0);
		const why = errorIn(new TextDecoder().decode(reply.body), reply.status, '');
		if (reply.status === 413 && !packed && file.size > WORTH_PACKING) await packIt();
		else if (reply.status === 503) {
			const seconds = retryAfterSeconds(reply.retryAfter);
			onStage({ at: 'waiting', seconds, why });
			await io.wait(seconds * 1000, signal);
		} else throw new ApiError(why, reply.status);
	}
}
