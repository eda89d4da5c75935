// SPDX-License-Identifier: Apache-2.0
// node jit.js SECONDS [FILE]: for so much CPU time, or until the file is there, works 3:1 in two functions, and prints the share in percent that the first one took by its own CPU time. It also
// makes 4 KiB of small functions in each round, because node keeps the last 4 KiB of its jitdump to itself until more code is made (with
// --always-sparkplug each of them is): what is sampled meanwhile has no name.
'use strict';
function hotScript(n) {
	let s = 0;
	for (let i = 0; i < n; i++) s = (s * 31 + i) % 1000003;
	return s;
}
function coldScript(n) {
	let s = 0;
	for (let i = 0; i < n; i++) s = (s * 17 + i) % 1000033;
	return s;
}
function used() {
	const { user, system } = process.cpuUsage();
	return user + system;
}
function timed(work, n) {
	const began = process.cpuUsage();
	work(n);
	const took = process.cpuUsage(began);
	return took.user + took.system;
}
function makeFunctions(made) {
	for (const until = made + 8; made < until; made++) new Function('a', `return a + ${made}`)(1);
	return made;
}
function driveScript(seconds, stop, existsSync) {
	let hot = 0, cold = 0, made = 0;
	for (const end = used() + seconds * 1e6; used() < end && !(stop && existsSync(stop));) {
		hot += timed(hotScript, 900000);
		cold += timed(coldScript, 300000);
		made = makeFunctions(made);
	}
	return 100 * hot / (hot + cold);
}
// As a file it is a module here, on standard input a script: what both can do.
import('fs').then(({ existsSync }) => console.log(driveScript(Number(process.argv[2]), process.argv[3], existsSync).toFixed(2)));
