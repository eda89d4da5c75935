// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NO_COMPARE, type CompareState } from '../src/state/compare';
import { chooseStep, DEFAULTS, formatState, isRelative, keepsFragment, openListing, parseState, parseTime, PRESETS, type PageState } from '../src/state/page';

test('a bare URL is the start page; a profile with everything at its default says so', () => {
	assert.equal(formatState({ ...DEFAULTS, view: 'home' }), '');
	assert.deepEqual(parseState(''), { ...DEFAULTS, view: 'home' });
	assert.equal(formatState(DEFAULTS), '?view=profile');
	assert.deepEqual(parseState('?view=profile'), DEFAULTS);
	assert.deepEqual(parseState('?from=now-3h'), { ...DEFAULTS, from: 'now-3h' });
	const home: PageState = { ...DEFAULTS, from: 'now-3h', view: 'home' };
	assert.equal(formatState(home), '?from=now-3h&view=home');
	assert.deepEqual(parseState(formatState(home)), home);
});

test('every field goes through the URL and back', () => {
	const state: PageState = {
		q: 'process_cpu{a="x&y=z"}',
		from: '1700000000000',
		to: '1700000900000',
		sel: { from: 1700000100000, to: 1700000200000 },
		by: 'thread_name',
		chart: 'lines',
		top: 20,
		series: ['=a,b&c', '=', 'rest'],
		mark: ['checkpoint'],
		deploys: false,
		view: 'table',
		tz: 'utc',
		dir: 'flame',
		zoom: '1f3abc~12~40',
		steps: 'ff-1k3x9.dr.i',
		color: 'package',
		root: 'thread_name',
		within: 'frames = "a | b" | frames binary = "libc.so.6"',
		find: '<b>+&',
		regex: true,
		filter: 'malloc',
		sort: 'total',
		reverse: true,
		every: 30,
		eachAddress: true,
		interpreters: true,
		names: 'short',
		function: 'std::vector<int>::at(unsigned long) const',
		file: '/src/a b.cc',
		build: 'c0ffee',
		binary: 'libshop.so',
		at: '0x1f00',
		state: 'missing,failed',
		text: 'lib',
		run: 'process_cpu | top 5',
		saved: 'top-functions',
		param: ['service=a&b=c', 'n=3'],
		explain: true,
		id: '0badcafe',
		name: 'cpu <1>.pb.gz',
		pane: 'table',
		compare: {
			base: 'process_cpu{a="b"}',
			before: '7d',
			bfrom: 'now-2h',
			bto: '1700000000000',
			relative: true,
			show: 'sides',
			width: 'head',
			of: 'total',
			order: 'percent',
			reverse: true,
			only: ['more', 'gone'],
		},
		least: 0.2,
		rows: 'label:k8s_pod_name',
		match: 'fuzzy',
	};
	for (const key of Object.keys(DEFAULTS) as (keyof PageState)[]) assert.notDeepEqual(state[key], DEFAULTS[key], `${key} is tested`);
	for (const key of Object.keys(NO_COMPARE) as (keyof CompareState)[]) assert.notDeepEqual(state.compare[key], NO_COMPARE[key], `${key} is tested`);
	assert.deepEqual(parseState(formatState(state)), state);
});

test('the unknown file and the binary without a build-id are choices, and none is another', () => {
	assert.equal(formatState({ ...DEFAULTS, file: '', build: '' }), '?file=&build=');
	for (const [file, build] of [
		['', null],
		[null, ''],
		[null, null],
		['a.c', ''],
	]) {
		const state = parseState(formatState({ ...DEFAULTS, file, build }));
		assert.deepEqual([state.file, state.build], [file, build]);
	}
});

test('a listing is opened with the form of its name', () => {
	for (const names of ['short', 'full'] as const) {
		const patch = openListing('source', { function: 'std::vector::push_back', file: '/v.h' }, names);
		const url = formatState({ ...DEFAULTS, at: '7', ...patch });
		assert.equal(url, `?view=source&names=${names}&function=std%3A%3Avector%3A%3Apush_back&file=%2Fv.h`);
	}
	assert.equal(openListing('asm', { function: 'f', file: '' }, 'full').file, null, 'of an unknown file nothing is asked');
});

test('what a URL says wrongly falls back to the default', () => {
	const state = parseState(
		'?sel=9-3&chart=pie&top=7&view=map&dir=up&zoom=<x>&sort=-nose&every=7&regex=yes&names=long&build=<>&at=7f&state=?&series=&mark=a&mark=a&deploys=no' +
			'&before=soon&bfrom=now-1h&relative=yes&show=pie&width=max&of=sum&order=nose&only=better&id=../x&pane=map',
	);
	assert.deepEqual(state, { ...DEFAULTS, reverse: true, mark: ['a'] });
	assert.equal(parseState(`?name=${'n'.repeat(5000)}`).name, '');
	assert.equal(parseState('?sel=5').sel, null);
	assert.equal(parseState('?sel=1e3-9').sel, null);
	const many = new URLSearchParams(Array.from({ length: 50 }, (_, i) => ['series', `=${i}`]));
	many.append('mark', 'm'.repeat(5000));
	assert.deepEqual([parseState(`?${many}`).series.length, parseState(`?${many}`).mark], [20, []]);
});

test('times: relative, unix, RFC 3339, local', () => {
	const now = 1_700_000_000_000;
	assert.equal(parseTime('now', now), now);
	assert.equal(parseTime('now-1h', now), now - 3600e3);
	assert.equal(parseTime('-15m', now), now - 900e3);
	assert.equal(parseTime('now - 1.5d', now), null);
	assert.equal(parseTime('now-1.5d', now), now - 129600e3);
	assert.equal(parseTime('now-1h30m', now), now - 5400e3);
	assert.equal(parseTime('1700000000', now), now);
	assert.equal(parseTime('1700000000123', now), now + 123);
	assert.equal(parseTime('1700000000123000000', now), now + 123);
	assert.equal(parseTime('2023-11-14T22:13:20Z', now), now);
	assert.equal(parseTime('2023-11-14T23:13:20+01:00', now), now);
	assert.equal(parseTime('2023-11-14 12:00', now), new Date(2023, 10, 14, 12, 0).getTime());
	assert.equal(parseTime('2023-11-14', now), new Date(2023, 10, 14).getTime());
	for (const bad of ['', 'yesterday', '2023-13-40', '12', 'now-1y', '2023-11-14 25:00']) assert.equal(parseTime(bad, now), null, bad);
	assert.ok(isRelative('now-1h') && isRelative('-15m') && !isRelative('1700000000'));
	for (const preset of PRESETS) assert.ok(parseTime(preset.from, now)! < now, preset.title);
});

test('steps keep a graph between two dozen and a few hundred points', () => {
	for (const minutes of [5, 15, 60, 180, 720, 1440, 10080, 525600]) {
		for (const width of [380, 1000, 2500]) {
			const step = chooseStep(minutes * 60e3, width);
			const points = (minutes * 60) / step;
			assert.ok(points <= 240 && points >= 12, `${minutes} min at ${width} px: ${step} s, ${points} points`);
			assert.ok(step >= 20, 'longer than the flush interval');
		}
	}
});

test('the fragment stays as long as the same file is shown', () => {
	const file: PageState = { ...DEFAULTS, view: 'file', id: 'a1', name: 'a.folded' };
	assert.equal(keepsFragment(file, { ...file, zoom: 'x' }, 'push'), true);
	assert.equal(keepsFragment(file, { ...file, id: 'b2' }, 'replace'), true, 'it is given again after the page was loaded anew');
	assert.equal(keepsFragment(file, { ...file, id: 'b2' }, 'push'), false);
	assert.equal(keepsFragment(file, { ...file, id: 'b2', name: 'b.folded' }, 'replace'), false);
	assert.equal(keepsFragment(file, { ...file, view: '' }, 'push'), false);
});
