// SPDX-License-Identifier: Apache-2.0
// Bits are flipped and sectors overwritten in every kind of file of a store. The server never ends; times that are not damaged have the sums that they had; what is missing
// elsewhere is what the answer says is lost, row by row; metrics and the log say it once. `wick store repair` foresees what it does, does it, and `wick store verify` finds nothing
// afterwards. WICK_TEST_SEED tries other places.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { closeSync, cpSync, existsSync, openSync, readdirSync, readFileSync, readSync, rmSync, statSync, truncateSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { startServer, request, pprofProfile, temporaryDirectory, test, finish, wick } from '../harness.mjs';

let seed = Number(process.env.WICK_TEST_SEED ?? 20261129);
const full = !!process.env.WICK_TEST_FULL;
console.log(`seed ${seed}`);
const random = (n) => {
	seed = (seed * 1103515245 + 12345) & 0x7fffffff;
	return (seed >> 8) % n;
};

const directory = temporaryDirectory(),
	pristine = join(directory, 'pristine'),
	data = join(directory, 'data'),
	config = join(directory, 'config.yaml');
// Nothing is merged by itself, so that blocks stay what they are.
writeFileSync(config, 'compact: {window: 2h, long_window: 24h}\ncut: {age: 1h}\nretention: {age: 90d}\n');
const serve = () => startServer(data, ['--config', config]);
const hour = 3600000,
	day = 24 * hour;
const start = Math.floor((Date.now() - 5 * day) / day) * day;

// ---- three blocks: a day with rollups, a day of several pages, and one that was not merged; each value is 1, so that a sum is a number of samples ----

let server = await startServer(pristine, ['--config', config]);
async function ingest(to, from, count, stacks, service) {
	for (let i = 0; i < count; i++) {
		const samples = Array.from({ length: stacks }, (_, k) => [[`leaf${(i * 13 + k) % 400}`, `middle${k % 7}`, 'main'], 1]);
		const body = pprofProfile(samples, { timeNs: BigInt(from + i * 60000) * 1000000n + BigInt(i) });
		const response = await request(to.port, 'POST', `/api/v1/ingest?name=process_cpu&label=service_name%3D${service}&label=host%3Dh${i % 3}`, { body });
		assert.equal(response.status, 200, response.body.toString());
	}
}
const cut = (to) => request(to.port, 'POST', '/api/v1/backup');
const DAYS = 3;
await ingest(server, start, 60, 300, 'shop');
await cut(server);
await ingest(server, start + day, 200, 380, 'shop');
await cut(server);
assert.equal((await request(server.port, 'POST', '/api/v1/compact')).status, 200);
await ingest(server, start + 2 * day, 100, 380, 'bank');
assert.equal(await server.stop(), 0);
const blocksOf = (root) =>
	readdirSync(join(root, 'blocks'))
		.filter((name) => existsSync(join(root, 'blocks', name, 'meta.json')))
		.sort();
const metaOf = (root, block) => JSON.parse(readFileSync(join(root, 'blocks', block, 'meta.json'), 'utf8'));
const blocks = blocksOf(pristine);
assert.equal(blocks.length, DAYS, blocks.join(' '));

// ---- asking ----

const get = (path) => request(server.port, 'GET', path);
// Of a day, by samples: rollups do not help.
async function ask(of, query = 'process_cpu', extra = '') {
	const response = await get(`/api/v1/query?query=${encodeURIComponent(query)}&from=${start + of * day}&to=${start + (of + 1) * day}${extra}`);
	assert.equal(response.status, 200, response.body.toString());
	const answer = JSON.parse(response.body.toString());
	assert.equal(!!answer.partial, 'x-wick-partial' in response.headers);
	if (answer.lost) assert.ok(answer.partial && answer.lost.rows > 0 && answer.lost.from_ms <= answer.lost.to_ms);
	return { total: answer.total ?? 0, lost: answer.lost?.rows ?? 0, range: answer.lost, partial: !!answer.partial, why: answer.why ?? '' };
}
// Of a label that rollups do not keep.
const byHost = 'process_cpu{host=~"h.*"}';
const metric = async (name) => Number((await get('/metrics')).body.toString().match(new RegExp(`^${name} (\\S+)`, 'm'))?.[1]);
const tool = (...words) => {
	const { status, stdout, stderr } = spawnSync(wick, ['store', ...words, '--data', data], { encoding: 'utf8' });
	return { code: status, text: stdout + stderr };
};

async function withDamage(damage, body) {
	rmSync(data, { recursive: true, force: true });
	cpSync(pristine, data, { recursive: true });
	damage();
	server = await serve();
	await body();
	assert.equal(server.child.exitCode, null, 'the server is still there');
	assert.equal(await server.stop(), 0);
}
rmSync(data, { recursive: true, force: true });
cpSync(pristine, data, { recursive: true });
server = await serve();
const whole = [],
	wholeByHost = [];
for (let d = 0; d < DAYS; d++) {
	whole.push((await ask(d)).total);
	wholeByHost.push((await ask(d, byHost)).total);
	assert.equal(whole[d], wholeByHost[d]);
}
assert.deepEqual(whole, [60 * 300, 200 * 380, 100 * 380]);
assert.equal(await server.stop(), 0);

// ---- damaging ----

const path = (block, file) => join(data, 'blocks', block, file);
function change(file, at, bytes) {
	const fd = openSync(file, 'r+'),
		old = Buffer.alloc(bytes.length);
	readSync(fd, old, 0, old.length, at);
	for (let i = 0; i < old.length; i++) old[i] ^= bytes[i];
	writeSync(fd, old, 0, old.length, at);
	closeSync(fd);
}
const flip = (file, at, bit = random(8)) => change(file, at, [1 << bit]);
const smash = (file, at, length = 64) =>
	change(
		file,
		at,
		Array.from({ length: Math.min(length, statSync(file).size - at) }, (_, i) => 0x55 + ((i * 7) % 128)),
	);
// Where verify says that a part of a column lies, of an undamaged file: by damaging it.
function pagesOf(block, file) {
	const places = [],
		size = statSync(path(block, file)).size;
	for (let at = 8; at < size - 8; ) {
		smash(path(block, file), at, 3);
		const found = tool('verify').text.match(/column (\S+), row group (\d+): bytes (\d+) to (\d+) do not match/);
		smash(path(block, file), at, 3);
		if (found && Number(found[4]) >= at) {
			places.push({ column: found[1], group: Number(found[2]), from: Number(found[3]), to: Number(found[4]) });
			at = Number(found[4]) + 1;
		} else at += 40;
	}
	return places;
}

const kinds = [...new Set(blocks.flatMap((block) => metaOf(pristine, block).files.map(({ name }) => name)).concat('meta.json'))];
assert.ok(kinds.length >= 13, kinds.join(' '));

// ---- one bit, anywhere: nothing is lost ----

for (const kind of kinds)
	for (let round = 0; round < (full ? 10 : 2); round++) {
		const d = blocks.findIndex((block) => existsSync(join(pristine, 'blocks', block, kind)) && random(2)),
			block = blocks[d < 0 ? blocks.findIndex((block) => existsSync(join(pristine, 'blocks', block, kind))) : d];
		const at = random(statSync(join(pristine, 'blocks', block, kind)).size),
			bit = random(8);
		await test(`${kind}: bit ${bit} of byte ${at} is flipped, and nothing is lost`, () =>
			withDamage(
				() => {
					flip(path(block, kind), at, bit);
					const { code, text } = tool('verify');
					assert.equal(code, 1);
					assert.match(text, new RegExp(`${block}.*${kind.replace('.', '\\.')}`));
				},
				async () => {
					for (let i = 0; i < DAYS; i++)
						for (const query of ['process_cpu', byHost]) {
							const { total, partial, why } = await ask(i, query);
							assert.deepEqual([total, partial], [whole[i], false], why);
						}
					assert.equal(await metric('wick_store_damaged_rows_total'), 0);
				},
			));
		await test(`${kind}: bit ${bit} of byte ${at}: repaired`, () => {
			const { code, text } = tool('repair');
			assert.equal(code, 0, text);
			// Unless the server did it meanwhile.
			assert.match(text, /1 flipped bit put right|, 0 damaged;/);
			assert.equal(tool('verify').code, 0);
		});
	}

// ---- more than a bit ----

const names = (d) => blocks[d];
// What is asked of all days: only `damaged` may lack something, and then as much as it says.
async function checkDays(damaged, query = 'process_cpu') {
	let lost = 0;
	for (let d = 0; d < DAYS; d++) {
		const answer = await ask(d, query);
		if (d !== damaged) assert.deepEqual([answer.total, answer.partial], [whole[d], false], `day ${d}: ${answer.why}`);
		else {
			assert.equal(answer.total + answer.lost, whole[d], JSON.stringify(answer));
			assert.equal(answer.partial, answer.lost > 0);
			if (answer.range) assert.ok(answer.range.from_ms >= start + d * day && answer.range.to_ms < start + (d + 1) * day);
			lost = answer.lost;
		}
	}
	return lost;
}
async function checkRepaired(lost, failed = 0) {
	const dry = tool('repair', '--dry-run');
	const { code, text } = tool('repair');
	assert.equal(code, failed ? 1 : lost ? 3 : 0, text);
	assert.equal(dry.code, code, dry.text);
	if (lost) assert.match(text, new RegExp(`rows kept, ${lost} (rows )?lost`));
	const verified = tool('verify');
	assert.equal(verified.code, 0, verified.text);
}

await test('a page of each column of samples: its rows are lost, and no others', async () => {
	rmSync(data, { recursive: true, force: true });
	cpSync(pristine, data, { recursive: true });
	const pages = pagesOf(names(1), 'samples.parquet');
	// Times are not read of pages that lie in the range as a whole.
	const columns = new Set(pages.map(({ column }) => column).filter((column) => column !== 'time_ns'));
	assert.ok(columns.size >= 3, JSON.stringify(pages));
	for (const column of columns) {
		const page = pages.filter((one) => one.column === column).at(-1);
		let lost;
		await withDamage(
			() => smash(path(names(1), 'samples.parquet'), Math.floor((page.from + page.to) / 2), 3),
			async () => {
				lost = await checkDays(1, byHost);
				assert.ok(lost > 0 && lost < whole[1], `${column}: ${lost} of ${whole[1]}`);
				assert.equal(await checkDays(1, byHost), lost, 'again');
				// Each is reported once, and counted once.
				assert.equal(await metric('wick_store_damaged_rows_total'), lost);
				assert.equal(await metric('wick_store_damaged_pages_total'), 1);
				assert.equal(server.log().match(/are damaged and left out/g)?.length, 1, server.log());
				assert.match(server.log(), new RegExp(`block ${names(1)}: ${lost} rows of samples.parquet from .*bytes ${page.from} to ${page.to}`));
				// Sums do not need the page.
				assert.deepEqual([(await ask(1)).total, (await ask(1)).partial], [whole[1], false]);
			},
		);
		await checkRepaired(lost);
		server = await serve();
		assert.equal(await checkDays(1, byHost), lost, 'repaired, it still says what it lacks');
		assert.equal(await server.stop(), 0);
	}
});

for (const kind of ['rollup_5m.parquet', 'rollup_1h.parquet', 'rollup_all.parquet', 'totals.parquet', 'labels.parquet'])
	await test(`${kind}: damaged in many places, or missing, it costs nothing`, async () => {
		for (const how of ['damaged', 'missing', 'short']) {
			await withDamage(
				() => {
					const file = path(names(1), kind);
					if (how === 'missing') rmSync(file);
					else if (how === 'short') truncateSync(file, statSync(file).size - 30);
					else for (let at = 4; at < statSync(file).size - 16; at += 200) smash(file, at, 16);
				},
				async () => {
					for (const query of ['process_cpu', byHost]) assert.equal(await checkDays(1, query), 0);
					const totals = await get(`/api/v1/pipeline?query=${encodeURIComponent('process_cpu | group by host | sum')}&from=${start}&to=${start + 3 * day}`);
					assert.equal(
						JSON.parse(totals.body.toString()).partial,
						false,
						totals.body.toString().slice(0, 200),
					);
					const hosts = await get(`/api/v1/label-values?label=host&from=${start - day}&to=${start + 4 * day}`);
					assert.deepEqual(
						JSON.parse(hosts.body.toString()).values.map(({ name, value }) => name ?? value),
						['h0', 'h1', 'h2'],
					);
				},
			);
			const { code, text } = tool('repair');
			assert.equal(code, 0, text);
			assert.match(text, new RegExp(`0 rows lost, rebuilt: ${kind.replace('.', '\\.')}`));
			assert.equal(tool('verify').code, 0);
			assert.ok(existsSync(path(blocksOf(data).find((name) => name.includes(names(1).slice(0, 19))), kind)));
		}
	});

await test('damage at random: sums of other days stand, what is lost is told, repair gets back the rest', async () => {
	for (let round = 0; round < (full ? 60 : 8); round++) {
		const d = random(DAYS),
			files = metaOf(pristine, names(d)).files,
			{ name, bytes } = files[random(files.length)],
			at = random(bytes),
			length = 1 + random(600);
		let lost = 0;
		await withDamage(
			() => smash(path(names(d), name), at, length),
			async () => {
				for (let i = 0; i < DAYS; i++)
					for (const query of ['process_cpu', byHost]) {
						const answer = await ask(i, query),
							what = `round ${round}: ${names(d)}/${name}, ${length} bytes at ${at}: ${JSON.stringify(answer)}`;
						if (i !== d) assert.deepEqual([answer.total, answer.partial], [whole[i], false], what);
						else if (answer.total !== whole[i]) assert.ok(answer.partial && answer.total + answer.lost === whole[i], what);
					}
			},
		);
		const { code, text } = tool('repair');
		assert.ok([0, 1, 3].includes(code), text);
		assert.equal(tool('verify').code, 0, text);
		if (code !== 1) {
			server = await serve();
			for (let i = 0; i < DAYS; i++) {
				const answer = await ask(i, byHost);
				if (i !== d) assert.equal(answer.total, whole[i]);
				else assert.equal(answer.total + answer.lost, whole[i], `${text}\n${JSON.stringify(answer)}`);
				lost += answer.lost;
			}
			assert.equal(code === 3, lost > 0, text);
			assert.equal(await server.stop(), 0);
		}
	}
});

await test('a merge leaves damaged rows out, and what it makes says so', async () => {
	const size = statSync(join(pristine, 'blocks', names(2), 'samples.parquet')).size;
	let lost = 0;
	// The last page of values: a page, not a dictionary.
	for (let at = Math.floor(size * 0.9); !lost; at -= 500)
		await withDamage(
			() => smash(path(names(2), 'samples.parquet'), at),
			async () => {
				const answer = await ask(2);
				if (!answer.lost || answer.lost === whole[2]) return;
				lost = answer.lost;
				assert.equal((await request(server.port, 'POST', '/api/v1/compact')).status, 200);
				assert.equal(await checkDays(2), lost);
				assert.equal(await checkDays(2, byHost), lost);
				const merged = blocksOf(data).find((name) => !blocks.includes(name));
				assert.equal(metaOf(data, merged).lost.rows, lost);
			},
		);
	assert.equal(tool('verify').code, 0, 'what is left is whole');
	server = await serve();
	assert.equal(await checkDays(2), lost);
	assert.equal(await server.stop(), 0);
});

// ---- the log ----

await test('a cut end of the log: told by verify, by the log of the start, by a metric', async () => {
	rmSync(data, { recursive: true, force: true });
	cpSync(pristine, data, { recursive: true });
	server = await serve();
	await ingest(server, Date.now() - hour, 3, 50, 'late');
	server.child.removeAllListeners('exit');
	await new Promise((resolve) => {
		server.child.once('exit', resolve);
		server.child.kill('SIGKILL');
	});
	const segments = readdirSync(join(data, 'log'))
		.map((name) => join(data, 'log', name))
		.filter((file) => readFileSync(file).includes('WREC'));
	const last = segments.at(-1),
		bytes = readFileSync(last);
	let end = bytes.length;
	while (bytes[end - 1] === 0) end--;
	const begin = bytes.lastIndexOf('WREC', end),
		length = 40 + bytes.readUInt32LE(begin + 4);
	truncateSync(last, begin + length - 7);
	const kept = length - 7;
	const verified = tool('verify');
	assert.equal(verified.code, 0, 'it was never acknowledged, as far as anybody can tell');
	assert.match(verified.text, new RegExp(`the log ends inside a record, ${kept} bytes of`));
	server = await serve();
	assert.match(server.log(), new RegExp(`the log ended inside a record; its last ${kept} bytes, of a record of ${length} bytes, were cut off`));
	assert.equal(await metric('wick_store_log_cut_bytes_total'), kept);
	assert.equal(await server.stop(), 0);
});

await test('a damaged record of the log: its own samples, and those of later ones that refer to it', async () => {
	rmSync(data, { recursive: true, force: true });
	cpSync(pristine, data, { recursive: true });
	server = await serve();
	const time = Date.now() - 600000;
	for (let i = 0; i < 4; i++) await ingest(server, time + i * 1000, 1, 30, 'refers');
	server.child.removeAllListeners('exit');
	await new Promise((resolve) => {
		server.child.once('exit', resolve);
		server.child.kill('SIGKILL');
	});
	const segment = readdirSync(join(data, 'log'))
		.map((name) => join(data, 'log', name))
		.filter((file) => readFileSync(file).includes('WREC'))
		.at(-1);
	const first = readFileSync(segment).indexOf('WREC');
	smash(segment, first + 60, 8);
	const verified = tool('verify');
	assert.equal(verified.code, 1);
	assert.match(verified.text, /1 records of the log are lost, \d+ bytes, and 90 samples of later ones/);
	server = await serve();
	assert.match(server.log(), /1 records of the log are lost, \d+ bytes, and 90 samples of later ones/);
	assert.equal(await metric('wick_store_log_lost_records_total'), 1);
	assert.equal(await metric('wick_store_log_lost_rows_total'), 90);
	const response = await get(`/api/v1/query?query=${encodeURIComponent('process_cpu{service_name="refers"}')}&from=now-1h&to=now`);
	assert.match(response.headers['x-wick-partial'] ?? '', /log/);
	assert.equal(await server.stop(), 0);
});
finish();
