// SPDX-License-Identifier: Apache-2.0
/*
 * The page while the server is stopped, slow, or answers what it should not: each part says so, keeps what it has, and recovers by itself.
 * Between the browser and the server is a proxy that does to the API's answers what `trouble` says.
 * Pages have clocks that are put forward over what they wait for.
 */
import assert from 'node:assert/strict';
import { createServer, request } from 'node:http';
import { after, before, test } from 'node:test';
import { base, id, options, passTime, passUntil, settled, visit } from '../lib/browser.mjs';

const clock = true;

// ---- the proxy --------------------

const HTML = '<!doctype html><title>Bad gateway</title><h1>502 <script>window.__owned = 1</script></h1>';
const send = (response, status, type, body) => response.writeHead(status, { 'content-type': type, 'content-length': Buffer.byteLength(body) }).end(body);

// What becomes of an answer: `pass` gives it on.
const TROUBLES = {
	drop: (response) => response.destroy(),
	500: (response) => send(response, 500, 'application/json', '{"error":"the disk says no"}'),
	503: (response) => send(response, 503, 'application/json', '{"error":"too many queries at once"}'),
	html: (response) => send(response, 502, 'text/html', HTML),
	'html with 200': (response) => send(response, 200, 'text/html', HTML),
	'JSON of something else': (response) => send(response, 200, 'application/json', '{"status":"ok"}'),
	'half an answer': (response, answer) => send(response, 200, answer.type, answer.body.subarray(0, answer.body.length >> 1)),
	'half, then gone': (response, answer) => {
		response.writeHead(200, { 'content-type': answer.type, 'content-length': answer.body.length + 1 });
		response.write(answer.body.subarray(0, answer.body.length >> 1), () => response.destroy());
	},
};
let trouble = null;
let held = []; // answers that are kept back while trouble is 'hold'
let front; // the proxy's address

function forward(incoming, response) {
	const from = new URL(incoming.url, base);
	const outgoing = request(from, { method: incoming.method, headers: { ...incoming.headers, host: from.host, 'accept-encoding': 'identity' } }, (got) => {
		const parts = [];
		got.on('data', (part) => parts.push(part));
		got.on('end', () => {
			const answer = { type: got.headers['content-type'] ?? '', body: Buffer.concat(parts) };
			const pass = () => {
				const { 'transfer-encoding': _, ...headers } = got.headers;
				if (!response.destroyed) response.writeHead(got.statusCode, { ...headers, 'content-length': answer.body.length }).end(answer.body);
			};
			if (trouble === 'hold' && from.pathname.includes('/api/')) held.push(pass);
			else if (trouble && TROUBLES[trouble] && from.pathname.includes('/api/')) TROUBLES[trouble](response, answer);
			else pass();
		});
		got.on('error', () => response.destroy());
	});
	outgoing.on('error', () => response.destroy());
	incoming.pipe(outgoing);
}

let proxy;
const listen = (port) => new Promise((resolve, reject) => proxy.once('error', reject).listen(port, '127.0.0.1', resolve));
// On the port that it had, which somebody else's connection may have for a while.
async function listenAgain(port) {
	for (let tries = 0; ; tries++)
		try {
			return await listen(port);
		} catch (error) {
			if (error.code !== 'EADDRINUSE' || tries >= 1200) throw error;
			await new Promise((resolve) => setTimeout(resolve, 100));
		}
}
before(async () => {
	if (!base) return;
	proxy = createServer(forward);
	await listen(0);
	front = `http://127.0.0.1:${proxy.address().port}/`;
});
after(async () => {
	proxy?.closeAllConnections();
	proxy?.close();
});

// ---- the parts --------------------

const BEACON = encodeURIComponent('process_cpu{service_name="beacon"}');
// Of each part: its URL, what it shows when all is well, and where it says that something is wrong.
const PARTS = {
	'start page': { query: '?view=home&from=now-15m', content: `${id('home-services')} tbody tr` },
	profile: { query: `?view=table&from=now-15m&by=k8s_pod_name&q=${BEACON}`, content: `${id('table')} [role="row"]` },
	console: { query: `?view=console&from=now-15m&run=${BEACON}+%7C+top+5`, content: `${id('console-table')} [role="cell"]` },
	status: { query: '?view=status', content: `${id('status-server')} dd` },
};
// What the browser itself logs of requests that fail.
const LOGGED = /console: Failed to load resource/;
const ALERT = 'main [role="alert"], main [data-testid="error"]';

async function refresh(page) {
	await page.evaluate(() => document.activeElement?.blur());
	await page.keyboard.press('r');
}
const recovered = (page, { content }, limit) =>
	page.waitForFunction(([alert, shown]) => !document.querySelector(alert) && document.querySelector(shown), [ALERT, content], limit);
// By itself, when the time has come to ask again.
const recovers = (page, part) => passUntil(page, 5_100, (limit) => recovered(page, part, limit));
// Refreshed, and waiting for answers that the proxy holds, for so long that the page says so.
async function waitsLong(page) {
	trouble = 'hold';
	held = [];
	await refresh(page);
	await page.locator('.progress:not(.idle)').waitFor();
	while (held.length === 0) await new Promise((resolve) => setTimeout(resolve, 10));
	await passTime(page, 10_100);
	await page.locator(id('slow')).waitFor();
}

// A profile has every trouble; the others those that differ for a part: no answer, a refusal, half an answer. All of all with WICK_TEST_FULL.
const troublesOf = (name) => (name === 'profile' || process.env.WICK_TEST_FULL ? Object.keys(TROUBLES) : ['drop', '503', 'half an answer']);
const openedIn = (name) => (name === 'profile' || process.env.WICK_TEST_FULL ? ['503', 'JSON of something else'] : ['503']);

for (const [name, part] of Object.entries(PARTS)) {
	test(`${name}: every trouble is told, what was there stays, and goes on when it is over`, options, async () => {
		trouble = null;
		const { page, leave } = await visit(front, part.query, { clock });
		await page.locator(part.content).first().waitFor();
		await settled(page);
		for (const kind of troublesOf(name)) {
			trouble = kind;
			await refresh(page);
			await page.locator(ALERT).first().waitFor();
			assert.ok((await page.locator(part.content).count()) > 0, `${kind}: what was there has gone`);
			trouble = null;
			if (kind === 'drop') {
				await recovers(page, part);
				continue;
			}
			await refresh(page); // it would by itself, later
			await recovered(page, part);
		}
		assert.equal(await page.evaluate(() => window.__owned), undefined);
		await leave(LOGGED);
	});

	test(`${name}: opened while the server is in trouble, it comes when that is over`, options, async () => {
		for (const kind of openedIn(name)) {
			trouble = kind;
			const { page, leave } = await visit(front, part.query, { clock });
			await page.locator(ALERT).first().waitFor();
			assert.equal(await page.locator(part.content).count(), 0);
			trouble = null;
			await recovers(page, part);
			await leave(LOGGED);
		}
	});

	test(`${name}: a slow server is waited for as long as one likes`, options, async () => {
		trouble = null;
		const { page, leave } = await visit(front, part.query, { clock });
		await page.locator(part.content).first().waitFor();
		await settled(page);
		await waitsLong(page);
		assert.ok((await page.locator(part.content).count()) > 0);
		await page.locator(id('stop-waiting')).focus();
		await page.keyboard.press('Enter');
		await page.locator(id('slow')).waitFor({ state: 'detached' });
		assert.ok((await page.locator(part.content).count()) > 0);
		trouble = null;
		held = [];
		await refresh(page);
		await recovered(page, part);
		if (name !== 'profile') return leave(LOGGED);
		// And one that comes in the end.
		await waitsLong(page);
		trouble = null;
		for (const pass of held.splice(0)) pass();
		await page.locator(id('slow')).waitFor({ state: 'detached' });
		await recovered(page, part);
		return leave(LOGGED);
	});
}

test('a server that is stopped and started again', options, async () => {
	trouble = null;
	const { page, leave } = await visit(front, PARTS.profile.query, { clock });
	await page.locator(PARTS.profile.content).first().waitFor();
	await settled(page);
	const { port } = proxy.address();
	proxy.close();
	proxy.closeAllConnections();
	await refresh(page);
	await page.locator(id('error-banner')).waitFor();
	assert.match(await page.locator(id('error-banner')).innerText(), /does not respond.*Showing older data/s);
	assert.ok((await page.locator(PARTS.profile.content).count()) > 0);
	await listenAgain(port);
	await recovers(page, PARTS.profile);
	await leave(LOGGED);
});
