// SPDX-License-Identifier: Apache-2.0
/*
 * All that the page says, in English: the one place to change a wording, and the one file to translate.
 *
 * Use: `import * as T from './texts'`, then `T.search.clear`. A group for each part of the page, in the order in which the parts
 * are on it; of texts that several parts share, and of units, below. Groups are exports rather than members of one object,
 * so that the page in a file is not made longer by the texts of the server's page, which it never shows.
 *
 * A text with values is a function of them. They come as they are to be shown, formatted and made harmless (format.ts); numbers
 * come as numbers only where the words depend on them, which is plural()'s business. A text in which something is marked up is
 * for rich() (rich.tsx): `between backticks` is code, and {name} the place of an element or a value.
 *
 * What is not here is no language: key caps, symbols of units, names in the API, in the URL and in files. web/test/texts.test.mjs
 * checks that no words are elsewhere, and that none here are out of use.
 */

/** The form that a number asks for. A language with more forms than two gets them here. */
const plural = (n: number, one: string, many: string): string => (n === 1 ? one : many);

type Keys = [keys: string, what: string][]; // what to press, what it does

// ---- the page --------------------

export const page = {
	name: 'Wick',
	startAgain: 'Start again with everything',
	parts: 'Parts of the page',
	views: { home: 'Overview', profile: 'Profile', console: 'Console', recordings: 'Recordings', binaries: 'Binaries', status: 'Status' },
	toProfile: 'Profile', // back from another view
};

/** The start page. */
export const home = {
	costs: 'What costs most',
	moved: 'What changed most since',
	binaries: 'Binaries',
	bySelf: 'by what they cost themselves',
	share: 'Share',
	trend: 'Course',
	day: 'Yesterday',
	week: 'Last week',
	noDay: 'there is no data of a day before',
	noWeek: 'there is no data of a week before',
	isNew: 'new',
	same: '±0',
	more: 'more',
	less: 'less',
	function: 'Function',
	binary: 'Binary',
	before: 'Then',
	now: 'Now',
	change: 'Change',
	since: 'Since when',
	yesterday: 'yesterday',
	lastWeek: 'last week',
	sinceDay: 'on yesterday',
	sinceWeek: 'on last week',
	cpuCores: 'CPU cores',
	cores: 'Cores',
	valuesOf: (label: string) => `Values of ${label.toLowerCase()}`,
	inRange: 'seen in this range',
	ownCost: "Wick's own cost",
	ownCores: (cores: string) => `${cores} cores, of all that was measured`,
	ownUnknown: 'nothing of it in this range',
	lost: 'Samples lost',
	taken: (count: string) => `of ${count} taken here`,
	stored: 'Stored',
	storedOf: (samples: string, time: string) => `${samples} samples of ${time}`,
	breakDown: 'Break down by',
	allOf: (count: string) => `All ${count}`,
	none: (label: string) => `(no ${label})`,
	unknown: '(unknown)',
	toProfile: (name: string) => `To the profile of ${name}`,
};

/** The console of queries. */
export const queries = {
	title: 'Console',
	query: 'Query',
	help: 'Ctrl+Enter runs it, Tab takes the first suggestion, ↑ in an empty field brings the last one back.',
	placeholder: 'process_cpu{service_name="shop"} | top 20',
	run: 'Run',
	explain: 'Explain',
	explainHint: 'Say how the query is answered, and what was read for it',
	history: 'History',
	noHistory: 'Queries that were run in this browser are listed here.',
	forget: 'Forget them',
	suggestions: 'Suggestions',
	examples: 'For example',
	running: 'Running…',
	rows: (shown: string, all: string) => (shown === all ? `${all} rows` : `${shown} of ${all} rows`),
	series: (shown: number, all: number) => (shown === all ? `${all} series` : `the ${shown} largest of ${all} series`),
	partial: 'A part of the answer only: a limit was reached.',
	values: (shown: number, all: number) => `${shown} of ${all} values`,
	changes: 'What changed, by function; end the query with a stage to have it otherwise',
	empty: 'Nothing was found.',
	plan: 'Plan',
	read: 'Read',
	times: 'Times',
	result: 'Result',
	all: '(all)',
	none: '(none)',
	others: '(others)',
	valueOf: (label: string) => `Value of ${label}`,
	exampleNotes: {
		services: 'what each service costs, in cores',
		functions: 'the functions that cost most by themselves',
		changed: 'what changed since yesterday',
		callers: 'who calls a function',
		binaries: 'cost by binary',
		time: 'services over time',
	},
	stages: {
		where: 'only series with these labels',
		frames: 'only stacks that have such a frame',
		dropFrames: 'only stacks that have none',
		focus: 'stacks begin at these frames',
		hide: 'frames are left out, their cost stays with the callers',
		callersOf: 'who calls it, from it upwards',
		calleesOf: 'what it calls',
		collapse: 'neighbours become one frame',
		groupBy: 'keep labels apart',
		bin: 'sum per length of time',
		rate: 'per second',
		top: 'what costs most',
		sum: 'one row a group',
		count: 'how many',
		diff: 'what changed since',
		compare: 'a profile for each value of a label',
		join: 'beside what processes used',
		sortBy: 'a column of a table',
		limit: 'the first rows',
		types: 'which types there are',
		labels: 'which labels there are',
		valuesOf: 'which values a label has',
	},
	words: {
		is: 'is',
		isNot: 'is not',
		matches: 'matches',
		matchesNot: 'does not match',
		function: 'its name',
		file: 'source file',
		line: 'line number',
		binary: 'path of the binary',
		buildId: 'of the binary',
		address: 'offset in the binary',
		kernel: 'frames of the kernel',
		user: 'frames of programs',
		auto: 'chosen by the range',
		self: 'by what it costs itself',
		total: 'with what it calls',
		by: 'what a row is',
		others: 'the rest as one row',
		leaf: 'the innermost frame only',
		root: 'the outermost frame only',
		relative: 'shares of the totals',
		falling: 'the largest first',
		then: 'then',
	},
};

export const type = {
	label: 'Profile type',
	none: 'no profiles',
};

export const filter = {
	group: 'Filters',
	placeholder: 'Filter by label…',
	another: 'and…',
	operator: 'operator',
	value: 'value',
	label: 'Filter by label',
	operatorFor: (label: string) => `Operator for ${label}`,
	valueOf: (label: string) => `Value of ${label}`,
	suggestions: 'Suggestions',
	series: (count: string) => `${count} series`,
	looking: 'Looking…',
	noValue: 'No value starts so. Enter takes what is typed.',
	noLabel: 'No label of that name in this range.',
	more: (count: string) => `and ${count} more: type to narrow`,
	change: (matcher: string) => `${matcher} – click to change`,
	remove: (matcher: string) => `Remove the filter ${matcher}`,
	is: 'is',
	isNot: 'is not',
	matches: 'matches the regular expression',
	matchesNot: 'does not match the regular expression',
	empty: '(empty)',
	asText: 'Edit the selector as text',
	selector: 'Selector',
	example: 'process_cpu{process_executable_name="bash"}',
	apply: 'Apply',
};

/** What is wrong with a selector. */
export const selector = {
	at: (fault: string, column: number) => `${fault} at column ${column}`,
	expected: (what: string) => `expected ${what}`,
	expectedNear: (what: string, near: string) => `expected ${what} near '${near}'`,
	unclosed: 'the closing quote is missing for the value that starts',
	quoted: 'a value in double quotes',
	label: 'a label name',
	operator: 'one of = != =~ !~',
	commaOrEnd: "',' or '}'",
	end: 'the end of the selector',
};

export const range = {
	label: 'Time range',
	last5m: 'Last 5 minutes',
	last15m: 'Last 15 minutes',
	last1h: 'Last hour',
	last3h: 'Last 3 hours',
	last12h: 'Last 12 hours',
	last24h: 'Last 24 hours',
	last7d: 'Last 7 days',
	custom: 'Custom…',
	fromTo: (from: string, to: string) => `${from} to ${to}`,
	customLabel: 'Custom time range',
	from: 'From',
	to: 'To',
	help: 'use 2024-05-01 12:00, now-90m, or unix time',
	reversed: 'must be later than the start',
	zone: (zone: string) => `Local time${zone && `, ${zone}`}. “now-90m” is relative.`,
	cancel: 'Cancel',
	apply: 'Apply',
	refresh: 'Refresh',
	refreshKey: 'Refresh (r)',
	every: 'Refresh by itself',
	never: 'Off',
};

export const status = {
	label: (text: string) => `Status: ${text}`,
	offline: 'offline',
	unknown: 'status unknown',
	serverOnly: 'server only',
	agentStopped: 'agent stopped',
	lost: (share: string) => `${share} lost`,
	notKnown: (fault: string) => `The server's status is not known: ${fault}.`,
	asking: 'Asking the server…',
	noAnswer: (fault: string) => `No answer at present: ${fault}. This is what it said last.`,
	version: 'Version',
	uptime: 'Server up for',
	agent: 'Agent here',
	sampling: (frequency: string, event: string) => `${frequency} on ${event}`,
	stopped: 'stopped',
	noAgent: 'none; profiles come over the network',
	taken: 'Samples taken',
	samplesLost: 'Samples lost',
	oldest: 'Oldest data',
	newest: 'Newest data',
	stored: 'Stored',
	samples: (count: string, bytes: string) => `${count} samples, ${bytes}`,
	binaries: 'Binaries and their names ›',
	recordings: 'Recordings of several hosts ›',
};

/** Agents, on the page of the profiler's own state. */
export const agents = {
	title: 'Agents',
	none: 'No agent has asked this server for orders. Profiles may come from others all the same.',
	sums: (count: string, cost: string, memory: string) => `${count}; in the mean ${cost} of a CPU and ${memory} each`,
	more: (count: string) => `… and ${count} more; the API lists them.`,
	host: 'Host',
	version: 'Version',
	rate: 'Rate',
	samples: 'Samples',
	lost: 'Lost',
	broken: 'Stacks cut',
	cost: 'Of a CPU',
	memory: 'Memory',
	slowed: (hertz: number) => `Slower than the ${hertz} Hz it was told, to keep to its budget`,
	silentFor: (time: string) => `silent for ${time}`,
	unsaid: 'has not said how it is',
	lamps: { good: 'well', warn: 'needs a look', bad: 'in trouble', idle: 'unknown' },
	heard: 'Heard',
	ago: (time: string) => `${time} ago`,
	kernel: 'Kernel',
	event: 'Samples by',
	modes: 'Also',
	since: 'Started',
	cpus: 'CPUs',
	follows: 'Follows',
	processes: (processes: string, binaries: string) => `${processes} processes, ${binaries} binaries`,
	sent: 'Sent',
	profiles: (count: string, bytes: string) => `${count} profiles, ${bytes}`,
	failures: 'Failures to send',
	waiting: 'Waiting to be sent',
	peak: 'Memory at most',
	recording: 'Records',
	refusal: 'Makes no recordings',
	lostBy: 'Lost, by reason',
	brokenBy: 'Stacks that were cut, by reason',
};

/** The server, on the same page. */
export const server = {
	title: 'Server and storage',
	head: 'In memory',
	series: (samples: string, series: string, bytes: string) => `${samples} samples of ${series} series, ${bytes}`,
	log: 'Write-ahead log',
	compactions: 'Merges of blocks',
	compactFailures: 'Merges that failed',
	problems: 'Problems with the disk',
	level: (level: number) => `Level ${level}`,
	blocks: (blocks: string, bytes: string) => `${blocks} blocks, ${bytes}`,
	limits: 'Limits that were hit',
	noLimits: 'None since the server was started.',
	samples: (reason: string) => `samples: ${reason}`,
	queries: 'Queries',
	queryCounts: {
		running: 'Running',
		waiting: 'Waiting',
		turned_away: 'Turned away',
		answered: 'Answered',
		failed: 'Failed',
		cancelled: 'Cancelled',
		partial: 'Answered in part',
		slow: 'Slow',
	} as Record<string, string>,
	slow: 'Slow queries',
	slowerThan: (time: string) => `longer than ${time}`,
	noSlow: 'None of late.',
	rowsRead: (rows: string) => `${rows} rows read`,
	symbols: 'Names of functions',
};

export const targets = {
	label: 'Targets',
	counts: (up: string, down: string) => `Targets: ${up} up, ${down} down`,
	toCome: (count: string) => `, ${count} to come`,
	notKnown: (fault: string) => `The targets are not known: ${fault}.`,
	refused: (fault: string) => `The configuration was refused: ${fault}`,
	discovery: (job: string, kind: string, fault: string) => `${job}, ${kind} discovery: ${fault}`,
	health: { up: 'up', down: 'down', unknown: 'unknown' },
	firstIn: (time: string) => `first in ${time}`,
	lastTime: (ago: string, took: string) => `${ago} ago, took ${took}`,
	more: (count: string) => `… and ${count} more; the API lists them.`,
	onlyDown: 'Only those that are down ›',
	all: 'All targets ›',
};

export const theme = {
	system: 'Colours: as the system has them',
	light: 'Colours: light',
	dark: 'Colours: dark',
};

// ---- the list, and cost over time --------------------

export const rail = {
	label: 'Break down',
	by: 'Break down by',
	find: 'Find…',
	findBy: (label: string) => `Find in the list by ${label}`,
	costBy: (label: string) => `Cost by ${label}`,
	showAll: 'Show all',
	without: (label: string) => `(no ${label})`,
	pick: (name: string) => `${name}: click to see only this`,
	unpick: (name: string) => `${name}: click to show all again`,
	leaveOut: (name: string) => `Leave out ${name}`,
	nothing: 'Nothing in this range',
	more: (count: number) => `Show ${count} more`,
	largest: (count: number, all: number) => `The ${count} largest of ${all}`,
};

export const chart = {
	label: 'Cost over time',
	cores: 'CPU cores',
	values: 'Values',
	by: (label: string) => `by ${label}`,
	hint: 'drag to look at a part, click on a step',
	makeRange: 'Make the selection the time range',
	zoomIn: 'zoom in',
	wholeRange: 'Show the whole range again',
	howMany: 'How many are drawn',
	top: (count: number) => `Top ${count}`,
	kind: 'Kind of chart',
	kinds: { stacked: 'Stacked', lines: 'Lines' },
	role: 'time chart',
	describe: (series: number, unit: string, highest: string) =>
		`${series} series over time, in ${unit}, highest value ${highest}. ` +
		'Arrow keys select a part of the range and move it, with Shift they change its length, Enter selects one step, Home and End the first ' +
		'and the last, Escape selects all.',
	legend: 'Series: Enter shows one alone, with Shift adds it or takes it away',
	legendHint: (name: string, total: string, share: string, mean: string, peak: string) =>
		`${name}\n${total}, ${share} of all; ${mean} in the mean, ${peak} at most\nClick: this alone; with Ctrl or Shift: with or without it`,
	total: 'Total',
	noSamples: 'no samples',
	none: '(none)',
	others: (count: number) => `${count} others`,
};

// ---- the profile --------------------

export const profile = {
	label: 'Profile',
	tools: 'Profile tools',
	view: 'View',
	views: { graph: 'Graph', both: 'Both', table: 'Table' },
	all: 'Show all (Esc)',
	rootTop: 'Root at the top',
	rootBottom: 'Root at the bottom',
	rootTopLong: 'Root at the top; press for the bottom',
	rootBottomLong: 'Root at the bottom; press for the top',
	short: 'Short names',
	areShort: 'Names are short: without parameters and template arguments',
	shorten: 'Shorten names: without parameters and template arguments',
	zoomedFrame: 'Of the zoomed frame',
	source: 'Source',
	asm: 'Assembly',
	sourceOf: (name: string) => `Source, by line, of ${name}`,
	asmOf: (name: string) => `Assembly of ${name}`,
	zoomFirst: 'Zoom to a function first',
	lost: 'the frame zoomed into is not in this profile',
	keysLabel: 'Keys',
	keys: [
		['/', 'search; Enter next match, Shift+Enter the one before'],
		['↑ ↓', 'to the caller, to the costliest callee'],
		['← →', 'to the neighbour'],
		['Enter', 'zoom to the frame'],
		['Backspace', 'zoom out to the caller'],
		['Esc', 'show all'],
		['Home', 'to the root'],
	] as Keys,
	serverKeys: [
		['s a', 'source, assembly of the frame'],
		['r', 'refresh'],
	] as Keys,
};

export const search = {
	placeholder: 'Search functions',
	help: 'Part of a name, "whole name", in:libc.so.6, kind:kernel. Press / to come here, Enter for the next match.',
	label: 'Search functions in the graph',
	clear: 'Clear the search',
	regex: 'Regular expression',
	matched: (share: string, value: string) => `${share} · ${value}`,
	ofZoom: (share: string) => ` · ${share} of zoom`,
	noMatch: 'no match',
	noKind: (kind: string) => `no kind '${kind}'; there are native, kernel, jit, interpreted, unknown`,
};

export const download = {
	label: 'Download',
	what: (hint: string) => `Download what is shown: ${hint}`,
	pprof: { title: 'pprof', hint: 'for go tool pprof and most other tools' },
	svg: { title: 'SVG', hint: 'a flame graph as a picture that zooms' },
	folded: { title: 'Folded', hint: 'one stack a line, as text' },
};

export const menu = {
	zoom: 'Zoom to this',
	source: 'Source by line',
	asm: 'Assembly',
	find: 'Find everywhere',
	findBinary: 'Find all of its binary',
	copyName: 'Copy the name',
	copyPlace: 'Copy file and line',
};

export const flame = {
	smaller: (count: number) => `(${count} smaller)`,
	callersCut: '(callers that are not shown)',
	path: 'Zoom path',
	pathMore: (count: number) => `${count} more`,
	pathPart: 'smaller callees',
	role: 'flame graph',
	label: 'Flame graph. Arrow keys move between callers, callees and neighbours, Enter zooms, Escape shows all.',
	frame: (name: string, total: string, self: string, depth: number) => `${name}, total ${total}, self ${self}, depth ${depth}`,
	leaf: (frame: string) => `${frame}, calls nothing`,
	unknown: '[unknown]', // addresses of no known binary
	kinds: ['', 'native code', 'kernel', 'JIT code', 'interpreted'], // by number
	unnamed: 'addresses without a name',
	inlined: '[inlined]',
	ofAll: 'of all',
	ofCaller: 'of caller',
	total: 'Total',
	self: 'Self',
	together: 'Together',
	more: (count: number) => plural(count, '1 more function', `${count} more functions`),
	narrow: 'each too narrow to draw at this zoom; click to open',
};

export const table = {
	label: 'Functions',
	describe: 'Functions by self and total. Arrow keys move, Enter searches the function in the graph.',
	filter: 'Filter functions and binaries',
	count: (all: string) => `${all} functions`,
	part: (count: string, all: string) => `${count} of ${all}`,
	sort: (how: string) => `Sort ${how}`,
	self: { title: 'Self', hint: 'in the function itself' },
	total: { title: 'Total', hint: 'with everything that it calls' },
	name: { title: 'Function', hint: 'by name' },
	file: { title: 'Source', hint: 'by file and line' },
	binary: { title: 'Binary', hint: 'by binary' },
	inlined: '[inlined]',
	moreOf: (name: string) => `More of ${name}`,
	more: 'Source, assembly and more',
	rest: '(frames too small to be sent)',
	none: (filter: string) => `No function matches “${filter}”.`,
	row: (name: string, self: string) => `${name}, self ${self}`,
};

export const legend = {
	label: 'Colours',
	kernel: 'Kernel',
	jit: 'JIT',
	interpreted: 'Interpreted',
	unknown: 'unknown',
	entry: (name: string, share: string) => `${name}: ${share} in itself; click to find it`,
	more: (count: number) => `and ${count} more`,
};

/** The foot: how much is shown, and what has no name. */
export const foot = {
	samples: (count: string) => `${count} samples`,
	stacks: (count: string) => `${count} stacks`,
	frames: (count: string) => `${count} frames`,
	rest: (share: string) => `${share} in frames too small to be sent`,
	worked: 'Show what is worked on',
	pending: (count: string) => `names of ${count} addresses are being looked up`,
	stillPending: (count: string) => `names of ${count} addresses are still being looked up`,
	each: (count: string) => `${count} addresses without a name, each`,
	together: (count: string) => `${count} addresses without a name, together`,
	showEach: 'Show each address by itself',
	showTogether: 'Show those of a binary together',
	why: 'why?',
	whyHint: 'Show the binaries of which not all is known, and why',
};

// ---- source and assembly --------------------

export const listing = {
	tools: 'Listing tools',
	back: 'Back to the profile (Esc)',
	form: 'Form',
	source: 'Source',
	asm: 'Assembly',
	file: 'File',
	fileUnknown: '(file unknown)',
	binary: 'Binary',
	bytes: 'Bytes',
	bytesHint: "The instructions' bytes",
	hottest: 'Hottest',
	hottestHint: 'To the hottest row (h); again for the next (n)',
	keysLabel: 'Keys',
	keys: [
		['↑ ↓', 'to the row above, below'],
		['h', 'to the hottest row'],
		['n N', 'to the next hottest, back again'],
		['s a', 'source, assembly'],
		['Esc', 'back to the profile'],
	] as Keys,
	inSymbol: (symbol: string) => `in ${symbol}`,
	buildId: (id: string) => `build-id ${id}`,
	unknown: '(unknown)',
	describeSource: 'Lines of the source with self and total. Arrow keys move, h goes to the hottest.',
	describeAsm: 'Instructions with self and total. Arrow keys move, h goes to the hottest.',
	heads: {
		self: 'Self',
		total: 'Total',
		line: 'Line',
		address: 'Address',
		source: 'Source',
		bytes: 'Bytes',
		instruction: 'Instruction',
		place: 'From',
	},
	lineUnknown: '(line unknown)',
	cost: (value: string, share: string, ofAll: string) => `${value}, ${share} of the function, ${ofAll} of all`,
	costs: (self: string, total: string) => `Self ${self}\nTotal ${total}`,
	showSource: (place: string) => `${place}: show the source`,
	noSource: 'No source to show',
	noAsm: 'No instructions to show',
	toAsm: 'Show the assembly',
	toSource: 'Show the source',
	loading: 'Loading',
};

// ---- binaries --------------------

export const binaries = {
	label: 'Binaries',
	tools: 'Filter of the binaries',
	state: 'State',
	all: { title: 'All', hint: 'All binaries' },
	states: {
		queued: { title: 'queued', choice: 'Queued', hint: 'seen; waits for a worker' },
		working: { title: 'working', choice: 'Working', hint: 'its table is being built, or its debug information fetched' },
		complete: { title: 'complete', choice: 'Complete', hint: 'functions and lines are known' },
		partial: { title: 'partial', choice: 'Partial', hint: 'names only, or some of them' },
		missing: { title: 'missing', choice: 'Missing', hint: 'nothing was found; looked for again later' },
		failed: { title: 'failed', choice: 'Failed', hint: 'something was found that cannot be used' },
	},
	search: 'Search binaries',
	searchHint: 'Part of a path or build-id',
	queue: 'Queue',
	idle: 'nothing to do',
	busy: (running: number, waiting: string) => `${running} running, ${waiting} waiting`,
	uploads: 'Uploads',
	uploadsOff: 'off',
	uploadsNone: 'none yet',
	files: (n: number, count: string, bytes: string) => `${count} ${plural(n, 'file', 'files')}, ${bytes}`,
	arriving: (count: string) => `${count} arriving`,
	refused: (count: string) => `${count} refused`,
	failed: (count: string) => `${count} failed`,
	evicted: (count: string) => `${count} removed to make room`,
	debuginfod: 'debuginfod',
	noServer: 'no server is set',
	servers: (n: number, asked: string) => `${n} ${plural(n, 'server', 'servers')}: ${asked}`,
	nothingAsked: 'nothing asked yet',
	found: (count: string) => `${count} found`,
	notThere: (count: string) => `${count} not there`,
	fetched: (bytes: string) => `${bytes} fetched`,
	describe: 'Binaries by samples',
	heads: {
		path: 'Binary',
		state: 'State',
		why: 'Known from, or why not',
		functions: 'Functions',
		table: 'Table',
		built: 'Built in',
		samples: 'Samples',
	},
	noPath: '(no path)',
	noBuildId: 'no build-id',
	clickToCopy: (id: string) => `${id}: click to copy`,
	copyBuildId: 'Copy build-id',
	copied: 'copied',
	from: (where: string) => `from ${where}`,
	again: (time: string) => ` Looked for again in ${time}.`,
	known: (functions: number, lines: number) => `${functions} functions, ${lines} lines of code known`,
	lines: (count: string) => `${count} lines`,
	tableHint: 'The table, and what it was made of',
	madeOf: (bytes: string) => `of ${bytes}`,
	builtHint: (cpu: string, memory: string) => `CPU ${cpu}, at most ${memory} of memory`,
	firstSeen: (time: string) => `First seen ${time}`,
	lookAgain: 'Look again now',
	lookAgainFor: (name: string) => `Look again for ${name}`,
	noneLikeThat: 'No binary is like that.',
	none: 'No binaries have been seen yet.',
	more: (all: string) => `Show more of ${all}`,
};

// ---- recordings --------------------

export const recordings = {
	label: 'Recordings',
	stored: (count: string, bytes: string, limit: string) => `${count} kept, ${bytes} of ${limit}; the oldest go first`,
	older: (fault: string) => `${fault}. What is shown is older.`,
	describe: 'Recordings, the newest first',
	heads: { start: 'Start', state: 'State', what: 'Duration', who: 'Hosts', size: 'Size', links: 'Profile' },
	states: {
		waiting: { title: 'waiting', hint: 'the hosts get ready' },
		recording: { title: 'recording', hint: 'the hosts record' },
		sending: { title: 'sending', hint: 'the hosts look up names and send what they have' },
		complete: { title: 'complete', hint: 'all hosts have sent a profile' },
		partial: { title: 'partial', hint: 'the profile is of some of the hosts' },
		failed: { title: 'failed', hint: 'no host has sent a profile' },
	},
	hertz: (frequency: string) => `${frequency} Hz, `,
	hertzNoMarkers: (frequency: string) => `${frequency} Hz, no markers, `,
	allProcesses: 'all processes',
	targets: { unit: 'unit', container: 'container', cgroup: 'control group' } as Record<string, string>,
	hosts: (done: number, all: number) => `${done} of ${all} ${plural(all, 'host', 'hosts')}`,
	failed: (count: number) => `${count} failed`,
	silent: (count: number) => `${count} silent`,
	cancelled: (count: number) => `${count} cancelled`,
	hostStates: {
		waiting: 'waiting',
		taken: 'taken',
		recording: 'recording',
		sending: 'sending',
		failed: 'failed',
		silent: 'silent',
		cancelled: 'cancelled',
	} as Record<string, string>,
	onlyThis: 'only this',
	openOnly: (host: string) => `Open the profile of ${host} alone`,
	fewer: 'Fewer',
	allHosts: (count: string) => `All ${count} hosts`,
	sizeHint: "The hosts' files on the server's disk",
	none: 'none',
	noneYet: 'none yet',
	open: 'Open',
	openOf: (start: string) => `Open the recording of ${start}`,
	firefox: 'Firefox Profiler',
	firefoxOf: (start: string) => `Download the recording of ${start} for Firefox Profiler`,
	pprof: 'pprof',
	pprofOf: (start: string) => `Download the recording of ${start} as pprof`,
	more: (all: string) => `Show more of ${all}`,
};

// ---- when there is nothing to draw --------------------

export const notice = {
	noData: 'No samples yet',
	noDataWait: "The first samples appear within 10 seconds of the agent's start; this page looks for them every 2 seconds.",
	agentRuns: ' The agent on this machine is running.',
	thisMachine: 'This machine',
	wickUp: '`sudo wick up` runs agent and server together',
	anotherMachine: 'Another machine',
	wickAgent: '`sudo wick agent --server {origin}`',
	nothingArrives: 'Nothing arrives',
	wickDoctor: '`wick doctor` says what is missing',

	noRecordings: 'No recordings yet',
	recordingsHow: 'Here is what was recorded on several hosts in the same seconds. To make a recording, on any machine:',
	recordingsCommand: (origin: string) => `wick record --remote ${origin} -d 20 -o all.firefox.json`,
	hosts: (count: number, names: string, others: boolean) =>
		`${plural(count, 'One host takes orders', `${count} hosts take orders`)} at present: ${names}${others ? ' and others' : ''}.`,
	noHosts: 'No agent asks this server for orders at present; `sudo wick agent --server {origin}` starts one.',

	nothingInRange: 'Nothing in this time range',
	dataGrows: (from: string, to: string) => `The server has data from ${from} to ${to} and gets more.`,
	dataIsOld: (from: string, to: string, age: string) => `The server has data from ${from} to ${to}; the newest is ${age} old.`,
	lastHour: 'Show the last hour that has data',

	badSelector: 'This selector cannot be read',
	badSelectorHow: '`{selector}`: {fault}. Correct it above; it has the form `type{label="value", other!="value"}`.',
	startWithout: 'Start without filters',

	noMatch: 'No samples match',
	inSelection: 'Nothing in this selection matches `{selector}`.',
	inRange: 'Nothing in this time range matches `{selector}`.',
	wholeRange: 'Show the whole range',
	unfilter: 'Remove the filters',

	loading: 'Loading the profile',
};

export const fault = {
	offline: 'The server does not answer',
	refused: 'The server does not accept this query',
	other: 'The server could not answer',
	offlineAdvice: (host: string) => `Is wick up or wick server still running at ${host}? This page tries again every 5 seconds.`,
	refusedAdvice: 'Correct the filter or the time range above.',
	tokenAdvice: 'The server wants a token that this browser has not sent.',
	busyAdvice: 'The server is busy or starting; try again in a moment.',
	otherAdvice: 'Try again; if it stays, the server’s log says more.',
	retry: 'Try again',
	older: 'What is shown is older.',
	answered: (code: number, text: string) => `the server answered ${code} ${text}`,
	notJson: 'the answer of the server is not the JSON that this page expects',
	late: (seconds: number) => `no answer within ${seconds} s`,
	noAnswer: 'no answer',
};

/** What is wrong with a flame graph as the server sends it. */
export const wire = {
	none: 'the flame graph in the answer is none',
	version: 'the server is of another version than this page: load the page anew',
	cutShort: 'the flame graph in the answer ends too early',
	headCutShort: 'the flame graph in the answer ends within its head',
	noHead: 'the flame graph in the answer has no head',
	endless: 'the flame graph in the answer has a number without an end',
	fewer: (what: string) => `the flame graph in the answer has fewer ${what} than it says`,
	notThere: (what: string) => `the flame graph in the answer has a ${what} that is not there`,
	notUtf8: 'the flame graph in the answer has names that are not UTF-8',
	noRoot: 'the flame graph in the answer begins with another node than its root',
	twoRoots: 'the flame graph in the answer has a node beside its root',
	tooLong: 'the flame graph in the answer goes on behind its end',
};

/** The call graph. */
export const calls = {
	tooLarge: (functions: number, calls: number) => `a graph of ${functions} functions and ${calls} calls is too large to lay out`,
	noSize: 'a box has no size',
	noEnds: 'a call is between no two functions, or has no weight',
};

/** What was read is not as it should be. */
export const broken = {
	noNodes: 'the flame graph in the answer has no nodes',
	column: (column: string, count: number) => `the flame graph's column '${column}' has not ${count} entries`,
	parent: (node: number, parent: number) => `node ${node} of the flame graph has the parent ${parent}`,
	string: (node: number, column: string) => `node ${node} of the flame graph names a string that is not there (${column})`,
	noProfile: 'there is no profile in this page',
	noType: 'a profile in this page has no type',
	notWhole: 'the time line of this page is not whole',
	cutShort: 'the time line of this page is cut short',
	columnCutShort: 'a column of the time line is cut short',
	valuesCutShort: 'values of markers are cut short',
	notThere: (what: string) => `the time line names a ${what} that is not there`,
	tooMany: (what: string) => `the time line has more of ${what} than it says`,
	noSuchCount: 'the time line has no such number of entries',
	otherCounts: 'the threads of the time line have not as many samples and markers as there are',
	noValueKind: 'a marker has a value of no kind',
	noValueText: 'a marker has a text that is not there',
};

// ---- the page in a file --------------------

export const report = {
	noTimeline: (why: string) => `Without a time line: ${why}.`,
	fault: (why: string) => `This page cannot be shown: ${why}`,
	oldBrowser: 'this browser cannot decompress (DecompressionStream): a newer one is needed',
};

export const timeline = {
	label: 'Time line',
	tools: 'Time line tools',
	show: 'Show the time line',
	fold: 'Fold the time line away',
	threads: (count: number) => plural(count, 'thread', 'threads'),
	andMore: (names: string, more: number) => `${names} and ${more} more`,
	during: 'during',
	not: (label: string, value: string) => `Not ${label} ${value}`,
	takeBack: 'Take this back',
	share: (value: string, share: string, samples: string) => `${value} · ${share} of all · ${samples} samples`,
	root: 'Root',
	rootLabel: 'What is at the root of the graph',
	byFunction: 'functions',
	bySpan: 'innermost span',
	zoomIn: 'Zoom in',
	zoomInKey: 'Zoom in (+)',
	zoomOut: 'Zoom out',
	zoomOutKey: 'Zoom out (-)',
	fit: 'Fit',
	fitHint: 'Zoom to what is chosen',
	whole: 'The whole time (0)',
	markers: 'Markers',
	keysLabel: 'Keys of the time line',
	keys: [
		['drag', 'a stretch of time'],
		['wheel', 'zoom, over the axis or with Ctrl'],
		['+ − 0', 'zoom in, out, to the whole time'],
		['[ ]', 'move'],
		['← →', 'to the marker before, behind'],
		['↑ ↓', 'to another thread'],
		['Enter', 'samples during the marker'],
		['z f m', 'zoom to it, follow its flow, menu'],
		['Esc', 'all threads, all the time'],
	] as Keys,
	lost: (markers: string) => `${markers} markers were lost while recording`,
	holds: (samples: string, markers: string, until: string) => `this page holds ${samples} samples and ${markers} markers, up to ${until}`,
	left: (samples: string, markers: string) => `${samples} later samples and ${markers} later markers are not on the time line`,
	untimed: (samples: string) => `${samples} samples without a time are not in the threads of this page, only in the graph of all`,
	role: 'time line',
	describe: 'Time line of threads. Arrow keys go to markers, Enter chooses, plus and minus zoom, m opens the menu, Escape shows all.',
	processId: (pid: number) => `process ${pid}`,
	threadId: (tid: number) => `thread ${tid}`,
	unknownThread: 'unknown thread',
	chooseThread: (thread: string) => `${thread}\nClick: samples of this thread only; with Ctrl or Shift: of this one too`,
	markersOf: (thread: string) => `Markers of ${thread}`,
	showMarkers: 'Show the markers',
	foldMarkers: 'Fold the markers away',
	deeper: (count: string) => `${count} deeper`,
	deeperHint: (rows: number) => `Spans in more than ${rows} others at once`,
	noSpan: '(no span)',
	otherSpans: '(other spans)',
	endless: 'without end',
	marker: (name: string, at: string) => `${name}, at ${at}`,
};

export const markers = {
	label: 'Markers',
	describe: 'Markers. Arrow keys move, Enter selects.',
	filter: 'Filter markers',
	filterHint: 'Filter markers: name, category, text',
	count: (count: string) => `${count} markers`,
	heads: { start: 'Start', duration: 'Duration', name: 'Marker', fields: 'Fields', thread: 'Thread' },
	none: 'No marker here.',
	at: 'At',
	from: 'From',
	duration: 'Duration',
	flow: 'Flow',
	follow: (count: number) => `${count} markers; click to follow`,
	duringThis: 'Samples during this span',
	duringEvery: (name: string) => `Samples during every “${name}”`,
	duringCategory: (category: string) => `Samples during all of “${category}”`,
	zoom: 'Zoom to this span',
	nextOfFlow: 'Next of its flow',
	asTable: 'All of this name, as a table',
	copy: 'Copy name and fields',
};

// ---- units, times, labels --------------------

export const time = {
	months: ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'],
	ago: (time: string) => `${time} ago`,
	within: (time: string) => `in ${time}`,
	now: 'now',
};

export const unit = {
	cores: 'cores',
	secondsPerSecond: 'seconds per second',
	perSecond: 'per second',
	ofPerSecond: (unit: string) => `${unit} per second`,
	perS: 'per s', // behind a value
};

/** What labels are called; others by their own names. */
export const labels: Record<string, string> = {
	process_executable_name: 'Process',
	process_executable_path: 'Executable path',
	process_pid: 'Process id',
	process_comm: 'Command',
	thread_name: 'Thread',
	cgroup: 'Cgroup',
	host_name: 'Host',
	os_version: 'Kernel version',
	service_name: 'Service',
};
