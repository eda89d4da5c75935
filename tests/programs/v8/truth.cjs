// SPDX-License-Identifier: Apache-2.0
// Runs functions in many ways, and writes down for each the stack that V8 itself says it is called by.
//
// truth.cjs SECONDS LOG [VARIANT...]: SECONDS of CPU time. LOG gets a line a stack, JSON: {"variant": ..., "stack": [[name, file, line], ...]},
// outermost first; the last frame is burn() or step(), in which nearly all time goes by. Frames without a file (builtins, eval())
// are left out.
"use strict";
const fs = require("fs");
const { performance } = require("perf_hooks");
const { Worker, isMainThread, workerData } = require("worker_threads");

Error.stackTraceLimit = Infinity;
const known = new Set();
const [seconds, logName, ...wanted] = isMainThread ? process.argv.slice(2) : workerData;
if (isMainThread) fs.writeFileSync(logName, "");
const log = fs.openSync(logName, "a");
let variant = "";
let asks = true;
let stepAsks = false;

// Names that were computed at run time belong to closures, not to what they are closures of.
function nameOf(site) {
	const name = site.getFunctionName() || "(anonymous)";
	return name.startsWith("[") ? "(anonymous)" : name;
}

// Writes down the stack of its caller.
function note() {
	const before = Error.prepareStackTrace;
	const holder = {};
	Error.prepareStackTrace = (error, sites) => sites;
	Error.captureStackTrace(holder, note);
	const sites = holder.stack;
	Error.prepareStackTrace = before;
	const stack = sites
		.filter((site) => site.getFileName() && !site.isAsync())
		.map((site) => [nameOf(site), site.getFileName(), site.getLineNumber()])
		.reverse();
	const line = JSON.stringify({ variant, stack });
	if (known.has(line)) return;
	known.add(line);
	fs.writeSync(log, line + "\n");
}

function burn(milliseconds = 20) {
	if (asks) note();
	const end = performance.now() + milliseconds;
	let total = 0;
	while (performance.now() < end) {
		for (let i = 0; i < 500; i++) {
			total += (i * i) % 7;
		}
	}
	return total;
}

function step(x) {
	if (stepAsks) {
		stepAsks = false;
		note();
	}
	let total = x;
	for (let i = 0; i < 40; i++) {
		total = (total * 31 + i) % 65537;
	}
	return total;
}

function hot() {
	burn(18);
}

function cold() {
	burn(2);
}

function plain() {
	hot();
	cold();
}

function deep(depth = 200) {
	return depth ? deep(depth - 1) : burn();
}

function even(n) {
	return n ? odd(n - 1) : burn();
}

function odd(n) {
	return n ? even(n - 1) : burn();
}

function mutual() {
	even(12);
}

// Small functions, which are inlined into each other.
function twice(x) {
	return step(x) + 1;
}

function thrice(x) {
	return twice(x) * 2;
}

function inlined() {
	stepAsks = true;
	let total = 0;
	for (let i = 0; i < 20000; i++) {
		total += thrice(i & 7);
	}
	return total;
}

function* numbers() {
	for (let i = 0; i < 3; i++) {
		burn(6);
		yield i;
	}
}

function* chained() {
	yield* numbers();
}

function generators() {
	for (const number of chained()) void number;
	return [...numbers()];
}

async function awaits(depth) {
	if (depth) return (await awaits(depth - 1)) + 1;
	await null;
	return burn(10);
}

async function asynchronous() {
	await awaits(4);
	await new Promise((resolve) => setTimeout(() => resolve(burn(5)), 1));
	await Promise.resolve(1).then(() => burn(5));
	for await (const number of (async function* () {
		yield burn(5);
	})())
		void number;
}

function raises(depth) {
	if (!depth) throw new Error("expected");
	try {
		return raises(depth - 1);
	} finally {
		burn(3);
	}
}

function exceptions() {
	try {
		raises(5);
	} catch {
		burn(5);
	}
}

function callbacks() {
	[3, 1, 2].sort((a, b) => burn(2) * 0 + a - b);
	[1, 2].map((value) => burn(2) + value);
	[1, 2].forEach(function each() {
		burn(2);
	});
	[1, 2, 3].reduce((a, b) => burn(2) + a + b);
	JSON.parse('{"a": [1]}', function revive(key, value) {
		burn(2);
		return value;
	});
	"abcabc".replace(/b/g, (match) => match + burn(2));
	Array.from({ length: 2 }, () => burn(2));
	Reflect.apply(burn, null, [2]);
	burn.call(null, 2);
	burn.bind(null, 2)();
	`${{ toString: () => "" + burn(2) }}`;
	new Proxy({}, { get: () => burn(2) }).anything;
	new Map([[1, 2]]).forEach(() => burn(2));
}

class Base {
	constructor() {
		burn(4);
	}
	method() {
		return burn(4);
	}
	static made() {
		return new Derived();
	}
}

class Derived extends Base {
	field = burn(4);
	method() {
		return super.method();
	}
	#hidden() {
		return burn(4);
	}
	run() {
		return this.#hidden();
	}
}

function methods() {
	const made = Derived.made();
	made.method();
	made.run();
	({
		short() {
			burn(4);
		},
	}).short();
}

function closures() {
	const add = (n) => () => burn(6) + n;
	const outer = { inner: function () { return add(1)(); } };
	outer.inner();
	outer["computed " + 1] = function () {
		return burn(6);
	};
	outer["computed 1"]();
}

function emitted() {
	const { EventEmitter } = require("events");
	const emitter = new EventEmitter();
	emitter.on("event", () => burn(10));
	emitter.emit("event");
}

function compressed() {
	// Through a native function and back.
	const vm = require("vm");
	vm.runInThisContext("(f) => f()", { filename: "made.js" })(() => burn(10));
}

function größe_Привет_函数() {
	return burn();
}

// Is asked for its stack after all else, so that V8 has no reason to know lines.
function quietly(n) {
	if (n) return quietly(n - 1);
	return burn(20);
}

let quietTurns = 0;

function quiet() {
	asks = quietTurns > 0;
	quietly(3);
	asks = true;
}

const variants = {
	plain,
	deep,
	mutual,
	inlined,
	generators,
	exceptions,
	callbacks,
	methods,
	closures,
	emitted,
	compressed,
	unicode: größe_Привет_函数,
	asynchronous,
	quiet,
};

// Seconds of CPU time, of the process.
function used() {
	const usage = process.cpuUsage();
	return (usage.user + usage.system) / 1e6;
}

async function workers(until) {
	const left = until - used();
	const made = ["plain", "mutual", "inlined"].map((name) => new Worker(__filename, { workerData: [left, logName, name] }));
	await Promise.all(made.map((worker) => new Promise((resolve) => worker.on("exit", resolve))));
}

async function main() {
	const names = wanted.length ? wanted : [...Object.keys(variants), "workers"];
	const turns = names.includes("quiet") ? [...names, "quiet"] : names;
	for (const name of turns) {
		const until = used() + seconds / turns.length;
		variant = name;
		if (name === "quiet") await new Promise(setImmediate); // its callers are the same both times
		if (name === "workers") await workers(until);
		else if (name === "asynchronous") while (used() < until) await variants[name]();
		else while (used() < until) variants[name]();
		quietTurns += name === "quiet";
	}
}

main();
