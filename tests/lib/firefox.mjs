// SPDX-License-Identifier: Apache-2.0
// Parts of files of Firefox Profiler's processed format (version 60), for tests that write such files themselves.

// What the threads share: a function, and a frame in it without address or line, for each of `names`, which are indices into `strings`.
export function sharedTables(strings, names, stackTable) {
	const length = names.length,
		fill = (value) => Array(length).fill(value);
	return {
		stringArray: strings,
		frameTable: {
			length,
			address: fill(-1),
			inlineDepth: fill(0),
			category: fill(0),
			subcategory: fill(0),
			func: names.map((_, i) => i),
			nativeSymbol: fill(null),
			innerWindowID: fill(0),
			line: fill(null),
			column: fill(null),
		},
		funcTable: {
			length,
			name: names,
			isJS: fill(false),
			relevantForJS: fill(false),
			resource: fill(-1),
			source: fill(null),
			lineNumber: fill(null),
			columnNumber: fill(null),
		},
		stackTable,
		resourceTable: { length: 0, lib: [], name: [], host: [], type: [] },
		nativeSymbols: { length: 0, address: [], functionSize: [], libIndex: [], name: [] },
		sources: { length: 0, id: [], uuid: [], filename: [] },
	};
}

// Of a thread that was there all the time, in a process that was as well.
export const wholeLife = { registerTime: 0, unregisterTime: null, pausedRanges: [], processType: 'default', processStartupTime: 0, processShutdownTime: null };
