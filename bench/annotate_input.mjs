// SPDX-License-Identifier: Apache-2.0
// Writes a profile as samply makes them, and what wick record makes of markers, both of the same threads.
//   node bench/annotate_input.mjs PROFILE MARKERS SAMPLES MARKERS_COUNT THREADS
import { closeSync, openSync, writeSync } from 'node:fs';

const [profilePath, markersPath, ...numbers] = process.argv.slice(2);
const [samples, markers, threads] = numbers.map(Number);
const start = 1700000000000,
	seconds = 60;
let seed = 1;
const random = (n) => (seed = (seed * 1103515245 + 12345) % 2147483648) % n;

function file(path) {
	const fd = openSync(path, 'w');
	let text = '';
	const flush = () => (writeSync(fd, text), (text = ''));
	const put = (piece) => ((text += piece), text.length > 1 << 20 && flush());
	const column = (name, count, value) => {
		put(`"${name}":[`);
		for (let i = 0; i < count; i++) put((i ? ',' : '') + value(i));
		put('],');
	};
	return { put, column, close: () => (flush(), closeSync(fd)) };
}
const categories = (more) =>
	JSON.stringify([{ name: 'Other', color: 'grey', subcategories: ['Other'] }, { name: 'User', color: 'yellow', subcategories: ['Other'] }, ...more]);
const thread = (number, name) =>
	`"processType":"default","processName":"engine","processStartupTime":0,"processShutdownTime":null,"registerTime":0,"unregisterTime":null,` +
	`"pausedRanges":[],"name":"${name}","isMainThread":${number === 0},"pid":"4000","tid":${4000 + number},`;
const emptyMarkers = `"markers":{"data":[],"name":[],"startTime":[],"endTime":[],"phase":[],"category":[],"length":0}`;

const funcs = 5000,
	stacks = 40000;
const base = file(profilePath);
base.put(
	`{"meta":{"interval":1,"startTime":${start},"processType":0,"product":"engine","stackwalk":1,"version":29,"preprocessedProfileVersion":60,"symbolicated":true,` +
		`"sampleUnits":{"time":"ms","eventDelay":"ms","threadCPUDelta":"µs"},"categories":${categories([])},"markerSchema":[]},"libs":[],"shared":{`,
);
base.column('stringArray', funcs, (i) => `"engine::operators::function_number_${i}"`);
base.put(
	`"sources":{"length":0,"uuid":[],"filename":[]},"resourceTable":{"length":0,"lib":[],"name":[],"host":[],"type":[]},"nativeSymbols":{"length":0,"libIndex":[],"address":[],"name":[],"functionSize":[]},"funcTable":{`,
);
base.column('name', funcs, (i) => i);
for (const name of ['isJS', 'relevantForJS']) base.column(name, funcs, () => false);
base.column('resource', funcs, () => -1);
for (const name of ['source', 'lineNumber', 'columnNumber']) base.column(name, funcs, () => null);
base.put(`"length":${funcs}},"frameTable":{`);
base.column('address', funcs, () => -1);
for (const name of ['inlineDepth', 'subcategory', 'innerWindowID']) base.column(name, funcs, () => 0);
base.column('category', funcs, () => 1);
base.column('func', funcs, (i) => i);
for (const name of ['nativeSymbol', 'line', 'column']) base.column(name, funcs, () => null);
base.put(`"length":${funcs}},"stackTable":{`);
base.column('frame', stacks, (i) => random(funcs));
base.column('prefix', stacks, (i) => (i < 8 ? null : random(i)));
base.put(`"length":${stacks}}},"threads":[`);
for (let t = 0; t < threads; t++) {
	const count = Math.floor(samples / threads),
		step = (seconds * 1000) / count;
	base.put((t ? ',' : '') + '{' + thread(t, t ? `worker-with-a-n` : 'engine') + `"samples":{"length":${count},`);
	base.column('stack', count, () => random(stacks));
	base.column('time', count, (i) => (i * step).toFixed(6).replace(/\.?0+$/, ''));
	base.column('weight', count, () => 1);
	base.column('threadCPUDelta', count, () => random(1000));
	base.put(`"weightType":"samples"},${emptyMarkers}}`);
}
base.put(`],"pages":[],"counters":[]}`);
base.close();

const out = file(markersPath);
const fields = [
	{ key: 'rows', label: 'Rows', format: 'integer' },
	{ key: 'operator', label: 'Operator', format: 'unique-string' },
];
const schema = (name) => ({ name, display: ['marker-chart', 'marker-table', 'timeline-overview'], tableLabel: 'rows: {marker.data.rows}', fields });
out.put(
	`{"meta":{"interval":1,"startTime":${start},"processType":0,"product":"engine","importedFrom":"Wick","stackwalk":1,"version":36,"preprocessedProfileVersion":60,"symbolicated":true,` +
		`"categories":${categories([{ name: 'Engine', color: 'blue', subcategories: ['Other'] }])},"markerSchema":${JSON.stringify([schema('step'), schema('merge')])}},"libs":[],"pages":[],"shared":{`,
);
out.column('stringArray', 1002, (i) => (i < 2 ? ['"step"', '"merge"'][i] : `"operator ${i}"`));
out.put(`"length":0},"threads":[`);
for (let t = 0; t < threads; t++) {
	const count = Math.floor(markers / threads),
		step = (seconds * 1000) / count;
	out.put(
		(t ? ',' : '') +
			'{' +
			thread(t, t ? `worker-with-a-name-${t}` : 'engine') +
			`"samples":{"stack":[],"time":[],"weight":[],"weightType":"samples","length":0},"markers":{`,
	);
	out.column('data', count, (i) => `{"type":"${i % 2 ? 'step' : 'merge'}","rows":${random(100000)},"operator":${2 + random(1000)}}`);
	out.column('name', count, (i) => 1 - (i % 2));
	out.column('startTime', count, (i) => (i * step).toFixed(6).replace(/\.?0+$/, ''));
	out.column('endTime', count, (i) => (i * step + 0.031415).toFixed(6).replace(/\.?0+$/, ''));
	out.column('phase', count, () => 1);
	out.column('category', count, () => 2);
	out.put(`"length":${count}}}`);
}
out.put(']}');
out.close();
