// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ApiError } from '../src/api/client';
import { isPacked, retryAfterSeconds, sendFile, shortenName, type Io, type Reply, type Stage } from '../src/api/send';

const text = (words: string) => new TextEncoder().encode(words).buffer;
const reply = (status: number, body = '', retryAfter: string | null = null): Reply => ({ status, retryAfter, type: '', disposition: '', body: text(body) });

// A server that responses so, one after another, and what it was sent.
function serverOf(...replies: Reply[]) {
	const sent: string[] = [];
	const waits: number[] = [];
	const stages: Stage[] = [];
	const io: Io = {
		post: async (_, body) => {
			sent.push(await body.text());
			return replies[sent.length - 1];
		},
		pack: async (file) => new Blob(['packed ', file]),
		wait: async (ms) => void waits.push(ms),
	};
	const send = (file: Blob) => sendFile(file, 'api/v1/view', (stage) => stages.push(stage), new AbortController().signal, io);
	return { send, sent, waits, stages };
}
const isRefusal = (status: number, message: string) => (error: unknown) => error instanceof ApiError && error.status === status && error.message === message;

test('a file is sent as it is, and what comes is what the server said', async () => {
	const { send, sent } = serverOf(reply(200, 'view'));
	assert.equal(new TextDecoder().decode((await send(new Blob(['main 1']))).body), 'view');
	assert.deepEqual(sent, ['main 1']);
});

test('while the server reads another file, it is sent again, when the server wants it', async () => {
	const busy = (after: string | null) => reply(503, '{"error":"another file is being read"}', after);
	const { send, sent, waits, stages } = serverOf(busy('3'), busy(null), busy('90000'), reply(200));
	await send(new Blob(['a 1']));
	assert.deepEqual([sent.length, waits], [4, [3000, 2000, 30_000]]);
	assert.deepEqual(
		stages.find(({ at }) => at === 'waiting'),
		{ at: 'waiting', seconds: 3, why: 'another file is being read' },
	);
});

test('a file that is too large for the server is packed, once', async () => {
	const tooLarge = reply(413, '{"error":"too large"}');
	const small = serverOf(tooLarge, reply(200));
	const text = 'a 1\n'.repeat(20_000);
	await small.send(new Blob([text]));
	assert.deepEqual(small.sent, [text, `packed ${text}`]);
	await assert.rejects(serverOf(tooLarge, tooLarge).send(new Blob([text])), isRefusal(413, 'too large'));
	const deep = serverOf(tooLarge);
	await assert.rejects(deep.send(new Blob(['a;a;a 1'])), isRefusal(413, 'too large'));
	assert.equal(deep.sent.length, 1, 'what is small is refused for something else');
	const gzip = serverOf(tooLarge);
	await assert.rejects(gzip.send(new Blob([new Uint8Array([0x1f, 0x8b, 8, 0])])), isRefusal(413, 'too large'));
	assert.equal(gzip.sent.length, 1);
	// 64 MiB and a byte are not tried as they are.
	const { send, sent } = serverOf(reply(200));
	await send(new Blob([new Uint8Array(64 * 1024 * 1024), new Uint8Array(1)]));
	assert.deepEqual([sent.length, sent[0].slice(0, 7)], [1, 'packed ']);
});

test('what the server refuses is told in its words, and a response that is none as one', async () => {
	await assert.rejects(serverOf(reply(415, '{"error":"a.txt: neither"}')).send(new Blob(['?'])), isRefusal(415, 'a.txt: neither'));
	await assert.rejects(serverOf(reply(502, '<html>')).send(new Blob(['?'])), isRefusal(502, 'the server responded with 502'));
	await assert.rejects(serverOf(reply(0)).send(new Blob(['?'])), isRefusal(0, 'no response'));
});

test('a file that cannot be read says so', async () => {
	const gone = new Blob(['x']);
	gone.slice = () => ({ arrayBuffer: () => Promise.reject(new Error('gone')) }) as unknown as Blob;
	await assert.rejects(serverOf(reply(200)).send(gone), (error) => error instanceof ApiError && error.status === 400);
});

test('times to wait are bounded, names keep their ending, packed files are known', () => {
	assert.deepEqual([null, '', '0', '7', '-1', 'Wed, 21 Oct 2026 07:28:00 GMT', '999999'].map(retryAfterSeconds), [2, 2, 1, 7, 2, 2, 30]);
	assert.equal(shortenName(`${'x'.repeat(500)}.pb.gz`).slice(-6), '.pb.gz'.slice(-6));
	assert.equal(shortenName(`${'x'.repeat(500)}.pb.gz`).length, 200);
	assert.deepEqual(
		[[0x1f, 0x8b], [0x28, 0xb5, 0x2f, 0xfd], [0x1f], [], [0x50, 0x4b]].map((bytes) => isPacked(new Uint8Array(bytes))),
		[true, true, false, false, false],
	);
});
