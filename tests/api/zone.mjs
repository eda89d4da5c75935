// SPDX-License-Identifier: Apache-2.0
// The offsets of the server's time zone that /api/v1/status tells, against the time zone database of node: by name, and by rules without a name.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { startServer, request, pprofProfile, temporaryDirectory, test, finish } from '../harness.mjs';

const config = `${temporaryDirectory()}/wick.yaml`;
writeFileSync(config, 'retention: {age: 4000d}\n');
const day = 86400000,
	now = Date.now();
function offsetOf(format, ms) {
	const [, sign, hours, minutes] = /GMT(?:([+-])(\d+):(\d+))?/.exec(format.format(ms));
	return sign ? (sign === '-' ? -1 : 1) * (Number(hours) * 3600 + Number(minutes) * 60) : 0;
}
const told = (offsets, ms) => (offsets.findLast((one) => one.from_ms <= ms) ?? offsets[0]).utc_offset_s;

for (const [zone, name, oldest] of [
	['Europe/Berlin', 'Europe/Berlin', now - 5 * 365 * day],
	['America/St_Johns', 'America/St_Johns'],
	['Australia/Lord_Howe', 'Australia/Lord_Howe'],
	['Asia/Kolkata', 'Asia/Kolkata'],
	['UTC', 'UTC'],
	['CET-1CEST,M3.5.0,M10.5.0/3', 'Europe/Berlin'],
])
	await test(`TZ=${zone}${oldest ? ', with old data' : ''}`, async () => {
		const before = process.env.TZ,
			directory = `${temporaryDirectory()}/data`;
		process.env.TZ = zone;
		const server = await startServer(directory, ['--config', config]).finally(() => {
			if (before === undefined) delete process.env.TZ;
			else process.env.TZ = before;
		});
		if (oldest) {
			const body = pprofProfile([[['leaf', 'main'], 5]], { timeNs: BigInt(oldest) * 1000000n });
			assert.equal((await request(server.port, 'POST', '/api/v1/ingest', { body })).status, 200);
		}
		const { utc_offset_s: present, utc_offsets: offsets } = JSON.parse((await request(server.port, 'GET', '/api/v1/status')).body);
		assert.equal(await server.stop(), 0);
		const format = new Intl.DateTimeFormat('en-US', { timeZone: name, timeZoneName: 'longOffset' });
		assert.equal(present, offsetOf(format, now));
		for (let ms = oldest ?? now - 365 * day; ms < now + 360 * day; ms += 3600000)
			assert.equal(told(offsets, ms), offsetOf(format, ms), new Date(ms).toISOString());
		// To the second.
		for (const { from_ms: at } of offsets.slice(1)) assert.notEqual(offsetOf(format, at), offsetOf(format, at - 1000), new Date(at).toISOString());
		assert.ok(zone === 'UTC' || zone === 'Asia/Kolkata' ? offsets.length === 1 : offsets.length >= 4, JSON.stringify(offsets));
	});
finish();
