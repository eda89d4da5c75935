// SPDX-License-Identifier: Apache-2.0
// ninety.js SECONDS: spends nine tenths of its CPU time in hot() and one in cold().
function hot(n) {
	let total = 0;
	for (let i = 0; i < 9 * n; i++) total = (total + (i % 7)) | 0;
	return total;
}

function cold(n) {
	let total = 0;
	for (let i = 0; i < n; i++) total = (total + (i % 7)) | 0;
	return total;
}

function rounds(seconds) {
	const end = process.cpuUsage().user + seconds * 1e6;
	let sum = 0;
	while (process.cpuUsage().user < end) sum += hot(200000) + cold(200000);
	return sum;
}

rounds(Number(process.argv[2]));
