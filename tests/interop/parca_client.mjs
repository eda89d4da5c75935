// SPDX-License-Identifier: Apache-2.0
// Parca's services as connect-go asks them WithGRPCWeb(), and as Parca's page does: its messages, as far as tests use them.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { gunzipSync } from 'node:zlib';
import { request } from '../harness.mjs';

const require = createRequire(new URL('../package.json', import.meta.url));
const protobuf = require('protobufjs'),
	arrow = require('apache-arrow');
const common = `
message Empty {}
message Timestamp { int64 seconds = 1; int32 nanos = 2; }
message Label { string name = 1; string value = 2; }
message LabelSet { repeated Label labels = 1; }
message ProfileType { string name = 1; string sample_type = 2; string sample_unit = 3; string period_type = 4; string period_unit = 5; bool delta = 6; }
message GroupBy { repeated string fields = 1; }
message StringCondition { oneof condition { string equal = 1; string not_equal = 2; string contains = 3; string not_contains = 4; string starts_with = 5; string not_starts_with = 6; } }
message NumberCondition { oneof condition { uint64 equal = 1; uint64 not_equal = 2; } }
message FilterCriteria { StringCondition function_name = 1; StringCondition system_name = 2; StringCondition binary = 3; StringCondition filename = 4; NumberCondition address = 5; NumberCondition line_number = 6; }
message FunctionNameStackFilter { string function_to_filter = 1; bool exclude = 2; }
message BinaryFrameFilter { repeated string include_binaries = 1; }
message StackFilter { oneof filter { FunctionNameStackFilter function_name_stack_filter = 1; FilterCriteria criteria = 2; } }
message FrameFilter { oneof filter { BinaryFrameFilter binary_frame_filter = 1; FilterCriteria criteria = 2; } }
message Filter { oneof filter { StackFilter stack_filter = 1; FrameFilter frame_filter = 2; } }
message Location { uint64 address = 2; bool is_folded = 5; }
message Mapping { string file = 5; string build_id = 6; }
message Function { int64 start_line = 2; string name = 3; string system_name = 4; string filename = 5; }
message Line { int64 line = 2; }
message Meta { Location location = 1; Mapping mapping = 2; Function function = 3; Line line = 4; }
message Node { Meta meta = 1; int64 cumulative = 2; int64 diff = 3; repeated Node children = 4; }
message Root { int64 cumulative = 1; int64 diff = 2; repeated Node children = 3; }
message Flamegraph { Root root = 1; int64 total = 2; string unit = 3; int32 height = 4; int64 trimmed = 10; }
message TopNode { Meta meta = 1; int64 cumulative = 2; int64 flat = 3; int64 diff = 4; }
message Top { repeated TopNode list = 1; int32 reported = 2; int32 total = 3; string unit = 4; }
message CallgraphNode { string id = 1; Meta meta = 2; int64 cumulative = 3; int64 flat = 4; }
message CallgraphEdge { string id = 1; string source = 2; string target = 3; int64 cumulative = 4; bool is_collapsed = 5; }
message Callgraph { repeated CallgraphNode nodes = 1; repeated CallgraphEdge edges = 2; int64 cumulative = 3; }
message FlamegraphArrow { bytes record = 1; string unit = 2; int32 height = 3; int64 trimmed = 4; }
message Source { bytes record = 1; string source = 2; string unit = 3; }
message TableArrow { bytes record = 1; string unit = 2; }
message ProfileMetadata { repeated string mapping_files = 1; repeated string labels = 2; }`;
export const queryProto = `syntax = "proto3"; package parca.query.v1alpha1;
service QueryService {
  rpc ProfileTypes(ProfileTypesRequest) returns (ProfileTypesResponse) {}
  rpc Labels(LabelsRequest) returns (LabelsResponse) {}
  rpc Values(ValuesRequest) returns (ValuesResponse) {}
  rpc QueryRange(QueryRangeRequest) returns (QueryRangeResponse) {}
  rpc Query(QueryRequest) returns (QueryResponse) {}
  rpc HasProfileData(Empty) returns (HasProfileDataResponse) {}
  rpc ShareProfile(ShareProfileRequest) returns (ShareProfileResponse) {}
}
${common}
message ProfileTypesRequest { Timestamp start = 1; Timestamp end = 2; }
message ProfileTypesResponse { repeated ProfileType types = 1; }
message LabelsRequest { repeated string match = 1; Timestamp start = 2; Timestamp end = 3; string profile_type = 4; }
message LabelsResponse { repeated string label_names = 1; }
message ValuesRequest { string label_name = 1; repeated string match = 2; Timestamp start = 3; Timestamp end = 4; string profile_type = 5; }
message ValuesResponse { repeated string label_values = 1; }
message QueryRangeRequest { string query = 1; Timestamp start = 2; Timestamp end = 3; uint32 limit = 4; Timestamp step = 5; repeated string sum_by = 6; }
message ValueType { string type = 1; string unit = 2; }
message MetricsSample { Timestamp timestamp = 1; int64 value = 2; double value_per_second = 3; int64 duration = 4; int32 count = 5; }
message MetricsSeries { LabelSet labelset = 1; repeated MetricsSample samples = 2; ValueType period_type = 3; ValueType sample_type = 4; }
message QueryRangeResponse { repeated MetricsSeries series = 1; }
message MergeProfile { string query = 1; Timestamp start = 2; Timestamp end = 3; }
message SingleProfile { Timestamp time = 1; string query = 2; }
message ProfileDiffSelection { int32 mode = 1; MergeProfile merge = 2; SingleProfile single = 3; }
message DiffProfile { ProfileDiffSelection a = 1; ProfileDiffSelection b = 2; bool absolute = 3; }
message SourceReference { string build_id = 1; string filename = 2; bool source_only = 3; }
message RuntimeFilter { bool show_python = 1; bool show_ruby = 2; bool show_interpreted_only = 3; }
message QueryRequest { int32 mode = 1; DiffProfile diff = 2; MergeProfile merge = 3; SingleProfile single = 4; int32 report_type = 5; string filter_query = 6; float node_trim_threshold = 7; GroupBy group_by = 8; SourceReference source_reference = 9; RuntimeFilter runtime_filter = 10; bool invert_call_stack = 11; repeated Filter filter = 12; string sandwich_by_function = 13; }
message QueryResponse { Flamegraph flamegraph = 5; bytes pprof = 6; Top top = 7; Callgraph callgraph = 8; FlamegraphArrow flamegraph_arrow = 11; Source source = 12; TableArrow table_arrow = 13; ProfileMetadata profile_metadata = 14; int64 total = 9; int64 filtered = 10; }
message HasProfileDataResponse { bool has_data = 1; }
message ShareProfileRequest { QueryRequest query_request = 1; string description = 2; }
message ShareProfileResponse { string link = 1; }`;
const shareProto = `syntax = "proto3"; package parca.share.v1alpha1;
service ShareService {
  rpc Upload(UploadRequest) returns (UploadResponse) {}
  rpc Query(QueryRequest) returns (QueryResponse) {}
  rpc ProfileTypes(ProfileTypesRequest) returns (ProfileTypesResponse) {}
}
${common}
message UploadRequest { bytes profile = 1; string description = 2; }
message UploadResponse { string id = 1; string link = 2; }
message QueryRequest { string id = 1; string profile_type = 2; int32 report_type = 3; float node_trim_threshold = 5; GroupBy group_by = 7; bool invert_call_stack = 8; repeated Filter filter = 9; string sandwich_by_function = 10; }
message QueryResponse { Flamegraph flamegraph = 1; bytes pprof = 2; Top top = 3; Callgraph callgraph = 4; FlamegraphArrow flamegraph_arrow = 7; Source source = 8; TableArrow table_arrow = 9; ProfileMetadata profile_metadata = 10; int64 total = 5; int64 filtered = 6; }
message ProfileTypesRequest { string id = 1; }
message ProfileTypesResponse { repeated ProfileType types = 1; string description = 2; }`;
const scrapeProto = `syntax = "proto3"; package parca.scrape.v1alpha1;
service ScrapeService { rpc Targets(TargetsRequest) returns (TargetsResponse) {} }
${common}
message TargetsRequest { int32 state = 1; }
message TargetsResponse { map<string, Targets> targets = 1; }
message Targets { repeated Target targets = 1; }
message Target { LabelSet discovered_labels = 1; LabelSet labels = 2; string last_error = 3; Timestamp last_scrape = 4; Timestamp last_scrape_duration = 5; string url = 6; int32 health = 7; }`;
const agentsProto = `syntax = "proto3"; package parca.profilestore.v1alpha1;
service AgentsService { rpc Agents(AgentsRequest) returns (AgentsResponse) {} }
${common}
message AgentsRequest {}
message AgentsResponse { repeated Agent agents = 1; }
message Agent { string id = 1; string last_error = 2; Timestamp last_push = 3; Timestamp last_push_duration = 4; }`;

const services = new Map(
	[queryProto, shareProto, scrapeProto, agentsProto].map((proto) => {
		const [, packageName, name] = /package ([\w.]+);\s*service (\w+)/.exec(proto);
		return [name, { root: protobuf.parse(proto, { keepCase: true }).root, packageName }];
	}),
);
/** A frame of flags, length and message there and back; the response's last frame is the trailers. text: all of it in base64, as a page sends it. */
export const clientOf = (port, prefix = '', { text = false } = {}) =>
	async function call(method, message, serviceName = 'QueryService') {
		const { root, packageName } = services.get(serviceName),
			{ requestType, responseType } = root.lookupService(`${packageName}.${serviceName}`).methods[method],
			In = root.lookupType(`${packageName}.${requestType}`),
			Out = root.lookupType(`${packageName}.${responseType}`);
		const bytes = Buffer.from(In.encode(In.fromObject(message)).finish()),
			head = Buffer.alloc(5);
		head.writeUInt32BE(bytes.length, 1);
		const frame = Buffer.concat([head, bytes]);
		const response = await request(port, 'POST', `${prefix}/${packageName}.${serviceName}/${method}`, {
			body: text ? frame.toString('base64') : frame,
			headers: text
				? { 'content-type': 'application/grpc-web-text', accept: 'application/grpc-web-text', 'x-grpc-web': '1' }
				: {
						'content-type': 'application/grpc-web+proto',
						'grpc-accept-encoding': 'gzip',
						'user-agent': 'grpc-go-connect/1.16.2 (go1.23.1)',
						'x-user-agent': 'grpc-go-connect/1.16.2',
					},
		});
		assert.equal(response.status, 200, response.body.toString());
		const body = text ? Buffer.from(response.body.toString(), 'base64') : response.body;
		let data = Buffer.alloc(0),
			trailers = '';
		for (let at = 0; at < body.length;) {
			const flags = body[at],
				length = body.readUInt32BE(at + 1),
				part = body.subarray(at + 5, at + 5 + length),
				plain = flags & 1 ? gunzipSync(part) : part;
			if (flags & 0x80) trailers += plain;
			else data = plain;
			at += 5 + length;
		}
		const status = Number(/grpc-status: (\d+)/.exec(trailers)[1]);
		if (status) return { status, message: decodeURIComponent(/grpc-message: (.*)\r/.exec(trailers)[1]) };
		return Out.toObject(Out.decode(data), { longs: Number, defaults: true, arrays: true, bytes: Buffer });
	};
const text = (value) => (typeof value === 'string' ? value : Buffer.from(value).toString());
/** An Arrow stream as a table, and its rows by the names of columns: texts, numbers, lists of numbers, null. */
export function tableOf(record) {
	const table = arrow.tableFromIPC(record);
	const rows = Array.from({ length: table.numRows }, (_, row) =>
		Object.fromEntries(
			table.schema.fields.map((f) => {
				const value = table.getChild(f.name).get(row) ?? null;
				if (value === null) return [f.name, null];
				if (arrow.DataType.isDictionary(f.type)) return [f.name, text(value)];
				if (arrow.DataType.isList(f.type)) return [f.name, [...value].map(Number)];
				return [f.name, typeof value === 'boolean' ? value : Number(value)];
			}),
		),
	);
	return { table, rows };
}
export const seconds = (ms) => ({ seconds: Math.floor(ms / 1000), nanos: (ms % 1000) * 1e6 });
