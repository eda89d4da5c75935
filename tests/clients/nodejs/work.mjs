// SPDX-License-Identifier: Apache-2.0
// The work of tests/clients/clients.inc, in JavaScript: heavy and light, 7 : 3, in turns that let timers run.
let sink = 1;
function spin(rounds) {
	let x = sink;
	for (let i = 0; i < rounds * 20000; i++) x = (x * 1103515245 + 12345) % 2147483648;
	sink = x;
}
export function heavy() {
	spin(7);
}
export function light() {
	spin(3);
}
export const cpuNs = () => {
	const { userCPUTime, systemCPUTime } = process.resourceUsage();
	return (userCPUTime + systemCPUTime) * 1000;
};
export const kept = [];
export function allocate() {
	if (kept.length < 20000) for (let i = 0; i < 20; i++) kept.push(new Array(300).fill(i));
}
// Resolves when so many seconds of CPU time have been used. around: runs what it is given.
export function work(seconds, around = (turn) => turn()) {
	const until = cpuNs() + seconds * 1e9;
	return new Promise((resolve) => {
		const turn = () => {
			around(() => {
				for (let i = 0; i < 5; i++) {
					heavy();
					light();
				}
			});
			allocate();
			if (cpuNs() < until) setImmediate(turn);
			else resolve();
		};
		turn();
	});
}
