// SPDX-License-Identifier: Apache-2.0
// Responses of the server's JSON API (docs/api.md).
import type { ZoneOffset } from '../base/zone';
import type { Flame } from '../tree/tree';

export interface TypesResponse {
	from_ms: number; // the range, as the server understood it
	to_ms: number;
	types: { name: string; series: number; first_ms: number; description?: string }[];
}
export interface LabelsResponse {
	labels: { name: string; series: number }[];
}
export interface ValuesResponse {
	values: { value: string; series: number }[];
	total: number;
}
export type SavedType = 'text' | 'value' | 'number' | 'duration' | 'label' | 'choice';
export interface SavedParameter {
	name: string;
	title: string;
	type: SavedType;
	label?: string; // of the type value
	default?: string; // absent: it must be given
	choices?: string[];
}
export interface SavedQuery {
	name: string;
	origin: 'built-in' | 'saved' | 'file';
	error?: string; // what is wrong with its file; the rest is absent then
	title?: string;
	description?: string;
	range?: string;
	query?: string;
	parameters?: SavedParameter[];
}
export interface SavedQueriesResponse {
	queries: SavedQuery[];
}
export interface Series {
	labels: Record<string, string>;
	total: number;
	points: [number, number][]; // unix ms of the step's start, sum over the step
	others?: boolean; // the sum of the rows that are not listed
}
export interface SeriesResponse {
	type: string;
	unit: string;
	step_ms: number;
	from_ms: number;
	to_ms: number;
	series: Series[];
	total_series: number;
}
export interface MarkersResponse {
	markers: {
		host: string;
		name: string;
		kind: string;
		start_ns: number; // since 1970, as precise as a number is
		end_ns?: number;
	}[];
	from_ms: number;
	to_ms: number;
	truncated: boolean;
}
export type Cell = string | number | boolean | null;
export interface PipelineHead {
	type: string;
	unit: string;
	query?: string; // in its one form
	from_ms: number;
	to_ms: number;
	partial: boolean;
	why?: string;
	saturated?: boolean; // as of QueryResponse
	symbols?: SymbolsResponse;
	explain?: { plan?: string[]; ms?: Record<string, number>; [counter: string]: unknown };
}
export interface TableResponse extends PipelineHead {
	table: { columns: { name: string; kind: string; unit: string }[]; total_rows: number; rows: Cell[][] };
}
export interface PipelineTable extends TableResponse {
	kind: 'table';
}
export interface PipelineSeries extends PipelineHead {
	kind: 'series';
	step_ms: number;
	total_series: number;
	series: Series[];
}
export interface PipelineProfile extends PipelineHead {
	kind: 'flamegraph';
	flame: Flame;
}
export interface PipelineDiff extends PipelineHead {
	kind: 'diff';
	base_from_ms: number;
	base_to_ms: number;
	base_total: number;
	total: number;
}
export interface ComparisonResponse extends PipelineHead {
	kind: 'comparison';
	label: string;
	total: number;
	total_values: number;
	values: { value: string; total: number; flame: Flame }[];
}
export type PipelineResponse = PipelineTable | PipelineSeries | PipelineProfile | PipelineDiff | ComparisonResponse;
// Of addresses that came without names: named, being looked up, nothing known.
export interface SymbolsResponse {
	resolved: number;
	pending: number;
	missing: number;
	ambiguous: number; // of the missing
}
export interface QueryResponse {
	type: string;
	unit: string;
	period: number;
	from_ms: number;
	to_ms: number;
	stats: { samples?: number; unresolved?: number; ms?: number };
	saturated?: boolean; // sums do not fit into 64 bits: those at the limit are larger
	symbols?: SymbolsResponse;
	flame: Flame;
}
interface ListingResponse {
	function: string;
	binary: string;
	build_id: string;
	unit: string;
	total: number; // of everything that was requested
	function_total: number;
	self: number;
	from: string; // where text or code came from; "" = there is none
	why: string | null; // there is none
	partial: boolean;
}
export interface SourceLine {
	line: number; // 0 = unknown
	text: string | null;
	self: number;
	total: number;
}
export interface SourceResponse extends ListingResponse {
	file: string;
	lines: SourceLine[];
	files: { file: string; self: number; total: number }[];
}
export interface Instruction {
	address: string; // 0x...
	bytes: string;
	text: string;
	self: number;
	total: number;
	file: string;
	line: number;
	functions: string[]; // innermost first
}
export interface AsmResponse extends ListingResponse {
	symbol: string; // what the code is called, where that is another function
	instructions: Instruction[];
	binaries: { binary: string; build_id: string; self: number; total: number }[];
}
export interface Binary {
	build_id: string;
	path: string;
	state: string;
	sources: string;
	why: string;
	from: string;
	ambiguous: boolean;
	samples: number;
	first_seen_ms: number;
	last_seen_ms: number;
	functions: number;
	lines: number;
	table_bytes: number;
	input_bytes: number;
	build_ms: number;
	cpu_ms: number;
	memory_peak_bytes: number;
	retry_ms: number;
}
export interface BinariesResponse {
	binaries: Binary[];
	total: number;
	counts: Record<string, number>;
	queue: { waiting: number; running: number };
	uploads: {
		enabled: boolean;
		files: number;
		bytes: number;
		open: number;
		refused?: number; // this and the following: of a server without tenants only
		failed?: number;
		evicted?: number;
	};
	debuginfod: {
		servers: number;
		found?: number; // likewise
		missing?: number;
		missing_cached?: number;
		failures?: number;
		bytes_fetched?: number;
		problem: string;
	};
}
export interface StatusResponse {
	version: string;
	uptime_s: number;
	utc_offset_s?: number; // of the server's time zone, east of UTC, at present
	utc_offsets?: ZoneOffset[]; // and at other times
	agent: {
		running: boolean;
		frequency_hz: number;
		frequency_asked_hz?: number;
		event: string;
		samples_taken: number;
		samples_lost: number; // in the kernel, and those:
		samples_dropped?: number; // taken, but never sent
	} | null;
	data: { oldest_ms: number; newest_ms: number; bytes: number; samples: number };
	storage?: {
		head_bytes: number;
		head_samples: number;
		head_series: number;
		log_bytes: number;
		compactions: number;
		compact_failures: number;
		problems: number;
	};
	levels?: { level: number; blocks: number; bytes: number }[];
	refused?: Record<string, number>;
	samples_refused?: Record<string, number>;
	queries?: Record<string, number>;
}
