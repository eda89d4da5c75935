// SPDX-License-Identifier: Apache-2.0
// What node's test runner found, in the words of tests/lib.inc: a line for each test, and the closing one. WICK_TEST_TIMES=1: how long each took.
const indented = (text, by = '    ') =>
	text
		.split('\n')
		.map((line) => by + line)
		.join('\n');

function reasonOf(error) {
	const cause = error?.cause ?? error;
	return String(cause?.stack ?? cause)
		.split('\n')
		.slice(0, 40)
		.join('\n');
}

export default async function* report(events) {
	const counts = { passed: 0, failed: 0, skipped: 0 };
	for await (const { type, data } of events) {
		if (type === 'test:stdout' || type === 'test:stderr') yield data.message;
		if (type !== 'test:pass' && type !== 'test:fail') continue;
		const took = process.env.WICK_TEST_TIMES ? ` (${(data.details.duration_ms / 1000).toFixed(1)} s)` : '';
		if (data.skip !== undefined) {
			counts.skipped++;
			yield `skipped: ${data.name}: ${data.skip}\n`;
		} else if (type === 'test:pass') {
			counts.passed++;
			yield `ok ${data.name}${took}\n`;
		} else {
			counts.failed++;
			yield `FAILED ${data.name}${took}\n${indented(reasonOf(data.details.error))}\n`;
		}
	}
	yield `${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped\n`;
}
