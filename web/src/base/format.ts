// SPDX-License-Identifier: Apache-2.0
// Values, shares, times and names as people read them. No locale in numbers: what is on the page is what is in the API.
import * as T from './texts';
import { zoned } from './zone';

interface Step {
	factor: number;
	suffix: string;
}

const TIME: Step[] = [
	{ factor: 3600e9, suffix: ' h' },
	{ factor: 60e9, suffix: ' min' },
	{ factor: 1e9, suffix: ' s' },
	{ factor: 1e6, suffix: ' ms' },
	{ factor: 1e3, suffix: ' µs' },
	{ factor: 1, suffix: ' ns' },
];
const BYTES: Step[] = [
	{ factor: 2 ** 40, suffix: ' TiB' },
	{ factor: 2 ** 30, suffix: ' GiB' },
	{ factor: 2 ** 20, suffix: ' MiB' },
	{ factor: 2 ** 10, suffix: ' KiB' },
	{ factor: 1, suffix: ' B' },
];
const COUNT: Step[] = [
	{ factor: 1e12, suffix: ' T' },
	{ factor: 1e9, suffix: ' G' },
	{ factor: 1e6, suffix: ' M' },
	{ factor: 1e3, suffix: ' k' },
	{ factor: 1, suffix: '' },
];
const TIME_UNITS: Record<string, number> = {
	nanoseconds: 1,
	ns: 1,
	microseconds: 1e3,
	us: 1e3,
	milliseconds: 1e6,
	ms: 1e6,
	seconds: 1e9,
	s: 1e9,
};

// Three significant digits, never an exponent: 0.0123, 1.23, 12.3, 123, 1234.
export function digits(value: number): string {
	const size = Math.abs(value);
	if (size === 0) return '0';
	if (size >= 99.95) return value.toFixed(0);
	if (size >= 9.995) return value.toFixed(1);
	if (size >= 0.0995) return value.toFixed(2);
	if (size >= 0.00095) return value.toFixed(4);
	return value.toPrecision(2);
}

function scaled(value: number, steps: Step[]): string {
	const size = Math.abs(value);
	const last = steps[steps.length - 1];
	const step = steps.find((s) => size >= s.factor * 0.9995) ?? last;
	// Below the smallest step everything is whole: there is no half sample and no half byte.
	return (step === last && Number.isInteger(value) ? String(value) : digits(value / step.factor)) + step.suffix;
}

export function formatValue(value: number, unit: string): string {
	const nanoseconds = TIME_UNITS[unit];
	if (nanoseconds) return value === 0 ? '0 s' : scaled(value * nanoseconds, TIME);
	if (unit === 'bytes') return scaled(value, BYTES);
	return scaled(value, COUNT);
}

export function formatCount(value: number): string {
	return scaled(value, COUNT);
}

export function formatBytes(value: number): string {
	return scaled(value, BYTES);
}

export function formatShare(part: number, whole: number): string {
	if (!(whole > 0)) return '0%';
	const percent = (100 * part) / whole;
	if (percent === 0) return '0%';
	if (percent < 0.01) return '<0.01%';
	if (percent >= 99.995) return '100%';
	return (percent >= 9.995 ? percent.toFixed(1) : percent.toFixed(2)) + '%';
}

export function formatDuration(ms: number): string {
	const s = Math.round(ms / 1000);
	if (ms < 1000) return `${Math.round(ms)} ms`;
	const parts: [number, string][] = [
		[Math.floor(s / 86400), 'd'],
		[Math.floor(s / 3600) % 24, 'h'],
		[Math.floor(s / 60) % 60, 'min'],
		[s % 60, 's'],
	];
	const first = parts.findIndex(([n]) => n > 0);
	return parts
		.slice(first, first + 2)
		.filter(([n]) => n > 0)
		.map(([n, u]) => `${n} ${u}`)
		.join(' ');
}

const two = (n: number) => String(n).padStart(2, '0');

export function formatClock(ms: number, seconds = true): string {
	const d = zoned(ms);
	return `${two(d.getUTCHours())}:${two(d.getUTCMinutes())}${seconds ? ':' + two(d.getUTCSeconds()) : ''}`;
}

export function formatDay(ms: number): string {
	const d = zoned(ms);
	return `${d.getUTCDate()} ${T.time.months[d.getUTCMonth()]}`;
}

// A range in the page's zone, the day named once, and not at all when it is today.
export function formatRange(from: number, to: number, now = Date.now()): string {
	const seconds = to - from < 2 * 3600e3;
	const today = formatDay(now);
	const [a, b] = [formatDay(from), formatDay(to)];
	const start = `${a === today && a === b ? '' : a + ' '}${formatClock(from, seconds)}`;
	return `${start} – ${a === b ? '' : b + ' '}${formatClock(to, seconds)}`;
}

/** A time of day, with the day unless that is today. */
export function formatMoment(ms: number, now = Date.now()): string {
	const day = formatDay(ms);
	return day === formatDay(now) ? formatClock(ms, false) : `${day} ${formatClock(ms, false)}`;
}

export function formatDateTime(ms: number): string {
	const d = zoned(ms);
	return `${d.getUTCFullYear()}-${two(d.getUTCMonth() + 1)}-${two(d.getUTCDate())} ${formatClock(ms)}`;
}

/**
 * Whether values say how much there is at a time (heap in use): the server averages them over the profiles of a step or range. As
 * profile_type_is_gauge() of the server has it: CPU and wall time is none, also where profiles do not say how long they took.
 */
export function isGauge(type: string): boolean {
	const [name, sample] = type.split(':');
	return sample !== undefined && !type.endsWith(':delta') && name !== 'process_cpu' && !['cpu', 'samples', 'wall', 'itimer'].includes(sample);
}

// What the metrics graph shows of one step: cores for CPU time, a rate for other counters, the average itself for gauges.
export interface Scale {
	name: string; // of the axis: "cores", "bytes per second"
	suffix: string; // behind a value
	cores: boolean; // CPU time, as how many CPUs were busy
	of: (value: number) => number;
	format: (shown: number) => string;
	binary?: boolean; // counts in powers of two
}

export function seriesScale(type: string, unit: string, stepMs: number): Scale {
	const seconds = Math.max(stepMs, 1) / 1000;
	const nanoseconds = TIME_UNITS[unit];
	const delta = type.endsWith(':delta');
	if (nanoseconds && delta) {
		const cpu = /(^|:)(cpu|process_cpu)(:|$)/.test(type);
		const of = (v: number) => (v * nanoseconds) / (seconds * 1e9);
		if (cpu) return { name: T.unit.cores, suffix: T.unit.cores, cores: true, of, format: digits };
		return { name: T.unit.secondsPerSecond, suffix: T.unit.perS, cores: false, of, format: digits };
	}
	const format = (v: number) => formatValue(v, unit);
	const binary = unit === 'bytes';
	if (!delta) return { name: unit, suffix: '', cores: false, of: (v) => v, format, binary };
	const name = unit === 'count' ? T.unit.perSecond : T.unit.ofPerSecond(unit);
	return { name, suffix: T.unit.perS, cores: false, of: (v) => v / seconds, format, binary };
}

// "process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta" is precise, "process_cpu · cpu" is what a person picks from a list.
export function shortType(type: string): string {
	const [name, sample] = type.split(':');
	return sample ? `${name} · ${sample}` : name;
}

/**
 * What is known of a name that comes from outside, or else `other`. A plain look-up would find what every object has: a label may be
 * called "constructor".
 */
export function lookUp<V>(known: Record<string, V>, name: string, other: V): V {
	return Object.prototype.hasOwnProperty.call(known, name) ? known[name] : other;
}

export function labelTitle(label: string): string {
	return lookUp(T.labels, label, label);
}

/** The title of a count of a label's values: "Processes", or "Values of pod". */
export function labelPlural(label: string): string {
	return lookUp(T.labelPlurals, label, T.home.valuesOf(label));
}

// Names come from other people's binaries: control and direction-changing characters would disturb what stands beside them.
const HOSTILE = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

export function displayName(name: string, limit = 400): string {
	const cut = name.length > limit ? name.slice(0, limit) + '…' : name;
	return cut.replace(HOSTILE, '\ufffd');
}

// The last part of a path: what distinguishes files most of the time.
export function baseName(path: string): string {
	return path.slice(path.lastIndexOf('/', path.length - 2) + 1);
}

// A C++ or Rust name without template arguments and parameters, for boxes too narrow for the whole. Unchanged when brackets
// do not pair up (operator<, operator->).
export function shortName(name: string): string {
	if (!/[<(]/.test(name)) return name;
	let depth = 0;
	let out = '';
	for (let i = 0; i < name.length; i++) {
		const c = name[i];
		const open = c === '<' || (c === '(' && i > 0);
		const close = c === '>' || c === ')';
		if (close && name[i - 1] === '-') return name;
		if (open && depth++ === 0 && c === '<') out += '<…>';
		if (depth === 0) out += c;
		if (close && depth > 0) depth--;
		else if (close && c === '>') return name;
	}
	return depth === 0 && out.trim() !== '' ? out.trim() : name;
}

/** Names in one line, without those that are empty, each of at most `most` characters. */
export function joinNames(names: readonly string[], most: number): string {
	return names
		.filter((name) => name !== '')
		.map((name) => displayName(name, most))
		.join(' · ');
}
