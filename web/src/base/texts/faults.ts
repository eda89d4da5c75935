// SPDX-License-Identifier: Apache-2.0
// When there is nothing to draw: notices, failures of requests, and data that is not valid.
import { plural } from '../plural';

export const notice = {
	noData: 'No samples yet',
	noDataWait: 'The first samples arrive within 10 seconds of the agent’s start. This page checks every 2 seconds.',
	agentRuns: ' The local agent is running.',
	thisMachine: 'This machine',
	wickUp: '`sudo wick up` runs agent and server together',
	anotherMachine: 'Another machine',
	wickAgent: '`sudo wick agent --server {origin}`',
	nothingArrives: 'Still no samples?',
	wickDoctor: '`wick doctor` reports what is missing',

	noRecordings: 'No recordings yet',
	recordingsHow: 'This page lists recordings of several hosts over the same time. To make one, run on any machine:',
	recordingsCommand: (origin: string) => `wick record --remote ${origin} -d 20 -o all.firefox.json`,
	hosts: (count: number, names: string, others: boolean) =>
		`${plural(count, '1 host accepts', `${count} hosts accept`)} recording requests: ${names}${others ? ' and others' : ''}.`,
	noHosts: 'No agent accepts recording requests at the moment. To start one: `sudo wick agent --server {origin}`.',

	nothingInRange: 'No data in this time range',
	dataGrows: (from: string, to: string) => `The server has data from ${from} to ${to} and is receiving more.`,
	dataIsOld: (from: string, to: string, age: string) => `The server has data from ${from} to ${to}; the newest is ${age} old.`,
	lastHour: 'Show the last hour that has data',

	badSelector: 'Invalid selector',
	badSelectorHow: '`{selector}`: {fault}. Correct it above. The form is `type{label="value", other!="value"}`.',
	startWithout: 'Remove all filters',

	noMatch: 'No samples match',
	inSelection: 'No samples in this selection match `{selector}`.',
	inRange: 'No samples in this time range match `{selector}`.',
	wholeRange: 'Show the whole time range',
	unfilter: 'Remove the filters',

	loading: 'Loading the profile',
};

export const fault = {
	offline: 'The server does not respond',
	refused: 'Invalid query',
	other: 'Server error',
	offlineAdvice: (host: string) => `Is wick up or wick server still running at ${host}? This page retries every 5 seconds.`,
	refusedAdvice: 'Correct the filter or the time range above.',
	tokenAdvice: 'The server requires a token, and this browser has not sent one.',
	busyAdvice: 'The server is busy or starting. This page retries shortly.',
	otherAdvice: 'This page retries with increasing delays. If the error persists, see the server’s log.',
	cancelled: 'The request was cancelled',
	cancelledAdvice: 'A shorter time range or a filter makes the query faster.',
	slow: 'No response from the server for more than 10 seconds.',
	stopWaiting: 'Cancel',
	retry: 'Try again',
	older: 'Showing older data.',
	status: (code: number, text: string) => `the server responded with ${code} ${text}`,
	notJson: 'the response is not valid JSON',
	unexpected: 'unexpected response; a proxy may have sent it',
	late: (seconds: number) => `no response within ${seconds} s`,
	noResponse: 'no response',
};

/** What is wrong with a flame graph as the server sends it. */
export const wire = {
	none: 'the response is not a flame graph',
	version: 'the server has another version than this page: reload the page',
	cutShort: 'the flame graph in the response is truncated',
	headCutShort: 'the flame graph in the response is truncated in its header',
	noHead: 'the flame graph in the response has no header',
	endless: 'the flame graph in the response has an unterminated number',
	fewer: (what: string) => `the flame graph in the response has fewer ${what} than declared`,
	notThere: (what: string) => `the flame graph in the response refers to a ${what} that does not exist`,
	notUtf8: 'the flame graph in the response has names that are not UTF-8',
	noRoot: 'the flame graph in the response does not start with its root',
	twoRoots: 'the flame graph in the response has a second root',
	tooLong: 'the flame graph in the response has data after its end',
};

/** The call graph. */
export const calls = {
	tooLarge: (functions: number, calls: number) => `a graph of ${functions} functions and ${calls} calls is too large to lay out`,
	noSize: 'a box has no size',
	noEnds: 'a call has no endpoints or no weight',
};

/** Data that is not valid. */
export const broken = {
	noView: 'the response does not describe a file',
	viewCutShort: 'the response about the file is truncated',
	noSnapshot: 'the snapshot has no description',
	otherTypes: (one: string, other: string) => `${one} and ${other} cannot be compared`,
	noNodes: 'the flame graph in the response has no nodes',
	column: (column: string, count: number) => `column '${column}' of the flame graph does not have ${count} entries`,
	parent: (node: number, parent: number) => `node ${node} of the flame graph has the invalid parent ${parent}`,
	string: (node: number, column: string) => `node ${node} of the flame graph refers to a string that does not exist (${column})`,
	noProfile: 'this page contains no profile',
	noType: 'a profile in this page has no type',
	notWhole: 'the timeline of this page is incomplete',
	cutShort: 'the timeline of this page is truncated',
	columnCutShort: 'a column of the timeline is truncated',
	valuesCutShort: 'values of markers are truncated',
	notThere: (what: string) => `the timeline refers to a ${what} that does not exist`,
	tooMany: (what: string) => `the timeline has more of ${what} than declared`,
	noSuchCount: 'the timeline has an invalid number of entries',
	otherCounts: 'the sample and marker counts of the threads do not match the timeline',
	noValueKind: 'a marker has a value of unknown kind',
	noValueText: 'a marker refers to a text that does not exist',
};
