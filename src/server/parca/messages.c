/* SPDX-License-Identifier: Apache-2.0 */
/* Parca's messages by name, for clients that speak JSON. Numbers as in parca/query.c and parca/report.c. */
#include "server/parca/parca_int.h"

#define MESSAGE(title, table)                                                                                                  \
	{                                                                                                                      \
		.name = title, .fields = table, .count = sizeof(table) / sizeof(*(table))                                      \
	}

static const struct pb_json_enum modes[] = {{"MODE_SINGLE_UNSPECIFIED", 0}, {"MODE_DIFF", 1}, {"MODE_MERGE", 2}, {0}};
static const struct pb_json_enum side_modes[] = {{"MODE_SINGLE_UNSPECIFIED", 0}, {"MODE_MERGE", 1}, {0}};
static const struct pb_json_enum reports[] = {{"REPORT_TYPE_FLAMEGRAPH_UNSPECIFIED", 0},
					      {"REPORT_TYPE_PPROF", 1},
					      {"REPORT_TYPE_TOP", 2},
					      {"REPORT_TYPE_CALLGRAPH", 3},
					      {"REPORT_TYPE_FLAMEGRAPH_TABLE", 4},
					      {"REPORT_TYPE_FLAMEGRAPH_ARROW", 5},
					      {"REPORT_TYPE_SOURCE", 6},
					      {"REPORT_TYPE_TABLE_ARROW", 7},
					      {"REPORT_TYPE_PROFILE_METADATA", 8},
					      {"REPORT_TYPE_FLAMECHART", 9},
					      {0}};
const struct pb_json_message parca_empty = {.name = "empty"};

static const struct pb_json_field profile_type_fields[] = {{"name", 1, PB_JSON_STRING},	      {"sampleType", 2, PB_JSON_STRING},
							   {"sampleUnit", 3, PB_JSON_STRING}, {"periodType", 4, PB_JSON_STRING},
							   {"periodUnit", 5, PB_JSON_STRING}, {"delta", 6, PB_JSON_BOOL}};
static const struct pb_json_message profile_type = MESSAGE("ProfileType", profile_type_fields);

static const struct pb_json_field parca_types_request_fields[] = {{"start", 1, PB_JSON_TIMESTAMP},
								  {"end", 2, PB_JSON_TIMESTAMP}};
const struct pb_json_message parca_types_request = MESSAGE("ProfileTypesRequest", parca_types_request_fields);

static const struct pb_json_field parca_types_answer_fields[] = {
	{"types", 1, PB_JSON_MESSAGE, .repeated = true, .message = &profile_type}};
const struct pb_json_message parca_types_answer = MESSAGE("ProfileTypesResponse", parca_types_answer_fields);

static const struct pb_json_field parca_labels_request_fields[] = {{"match", 1, PB_JSON_STRING, .repeated = true},
								   {"start", 2, PB_JSON_TIMESTAMP},
								   {"end", 3, PB_JSON_TIMESTAMP},
								   {"profileType", 4, PB_JSON_STRING}};
const struct pb_json_message parca_labels_request = MESSAGE("LabelsRequest", parca_labels_request_fields);

static const struct pb_json_field parca_labels_answer_fields[] = {{"labelNames", 1, PB_JSON_STRING, .repeated = true},
								  {"warnings", 2, PB_JSON_STRING, .repeated = true}};
const struct pb_json_message parca_labels_answer = MESSAGE("LabelsResponse", parca_labels_answer_fields);

static const struct pb_json_field parca_values_request_fields[] = {{"labelName", 1, PB_JSON_STRING},
								   {"match", 2, PB_JSON_STRING, .repeated = true},
								   {"start", 3, PB_JSON_TIMESTAMP},
								   {"end", 4, PB_JSON_TIMESTAMP},
								   {"profileType", 5, PB_JSON_STRING}};
const struct pb_json_message parca_values_request = MESSAGE("ValuesRequest", parca_values_request_fields);

static const struct pb_json_field parca_values_answer_fields[] = {{"labelValues", 1, PB_JSON_STRING, .repeated = true},
								  {"warnings", 2, PB_JSON_STRING, .repeated = true}};
const struct pb_json_message parca_values_answer = MESSAGE("ValuesResponse", parca_values_answer_fields);

static const struct pb_json_field parca_range_request_fields[] = {
	{"query", 1, PB_JSON_STRING}, {"start", 2, PB_JSON_TIMESTAMP}, {"end", 3, PB_JSON_TIMESTAMP},
	{"limit", 4, PB_JSON_UINT32}, {"step", 5, PB_JSON_DURATION},   {"sumBy", 6, PB_JSON_STRING, .repeated = true}};
const struct pb_json_message parca_range_request = MESSAGE("QueryRangeRequest", parca_range_request_fields);

static const struct pb_json_field label_fields[] = {{"name", 1, PB_JSON_STRING}, {"value", 2, PB_JSON_STRING}};
static const struct pb_json_message label = MESSAGE("Label", label_fields);

static const struct pb_json_field label_set_fields[] = {{"labels", 1, PB_JSON_MESSAGE, .repeated = true, .message = &label}};
static const struct pb_json_message label_set = MESSAGE("LabelSet", label_set_fields);

static const struct pb_json_field value_type_fields[] = {{"type", 1, PB_JSON_STRING}, {"unit", 2, PB_JSON_STRING}};
static const struct pb_json_message value_type = MESSAGE("ValueType", value_type_fields);

static const struct pb_json_field sample_fields[] = {{"timestamp", 1, PB_JSON_TIMESTAMP},
						     {"value", 2, PB_JSON_INT64},
						     {"valuePerSecond", 3, PB_JSON_DOUBLE},
						     {"duration", 4, PB_JSON_INT64},
						     {"count", 5, PB_JSON_INT32}};
static const struct pb_json_message sample = MESSAGE("MetricsSample", sample_fields);

static const struct pb_json_field series_fields[] = {{"labelset", 1, PB_JSON_MESSAGE, .message = &label_set},
						     {"samples", 2, PB_JSON_MESSAGE, .repeated = true, .message = &sample},
						     {"periodType", 3, PB_JSON_MESSAGE, .message = &value_type},
						     {"sampleType", 4, PB_JSON_MESSAGE, .message = &value_type}};
static const struct pb_json_message series = MESSAGE("MetricsSeries", series_fields);

static const struct pb_json_field parca_range_answer_fields[] = {
	{"series", 1, PB_JSON_MESSAGE, .repeated = true, .message = &series}};
const struct pb_json_message parca_range_answer = MESSAGE("QueryRangeResponse", parca_range_answer_fields);

static const struct pb_json_field merge_profile_fields[] = {
	{"query", 1, PB_JSON_STRING}, {"start", 2, PB_JSON_TIMESTAMP}, {"end", 3, PB_JSON_TIMESTAMP}};
static const struct pb_json_message merge_profile = MESSAGE("MergeProfile", merge_profile_fields);

static const struct pb_json_field single_profile_fields[] = {{"time", 1, PB_JSON_TIMESTAMP}, {"query", 2, PB_JSON_STRING}};
static const struct pb_json_message single_profile = MESSAGE("SingleProfile", single_profile_fields);

static const struct pb_json_field diff_side_fields[] = {{"mode", 1, PB_JSON_ENUM, .names = side_modes},
							{"merge", 2, PB_JSON_MESSAGE, .message = &merge_profile},
							{"single", 3, PB_JSON_MESSAGE, .message = &single_profile}};
static const struct pb_json_message diff_side = MESSAGE("ProfileDiffSelection", diff_side_fields);

static const struct pb_json_field diff_profile_fields[] = {{"a", 1, PB_JSON_MESSAGE, .message = &diff_side},
							   {"b", 2, PB_JSON_MESSAGE, .message = &diff_side},
							   {"absolute", 3, PB_JSON_BOOL}};
static const struct pb_json_message diff_profile = MESSAGE("DiffProfile", diff_profile_fields);

static const struct pb_json_field group_by_fields[] = {{"fields", 1, PB_JSON_STRING, .repeated = true}};
static const struct pb_json_message group_by = MESSAGE("GroupBy", group_by_fields);

static const struct pb_json_field parca_query_request_fields[] = {{"mode", 1, PB_JSON_ENUM, .names = modes},
								  {"diff", 2, PB_JSON_MESSAGE, .message = &diff_profile},
								  {"merge", 3, PB_JSON_MESSAGE, .message = &merge_profile},
								  {"single", 4, PB_JSON_MESSAGE, .message = &single_profile},
								  {"reportType", 5, PB_JSON_ENUM, .names = reports},
								  {"filterQuery", 6, PB_JSON_STRING},
								  {"nodeTrimThreshold", 7, PB_JSON_FLOAT},
								  {"groupBy", 8, PB_JSON_MESSAGE, .message = &group_by},
								  {"invertCallStack", 11, PB_JSON_BOOL},
								  {"sandwichByFunction", 13, PB_JSON_STRING}};
const struct pb_json_message parca_query_request = MESSAGE("QueryRequest", parca_query_request_fields);

static const struct pb_json_field mapping_fields[] = {{"file", 5, PB_JSON_STRING}};
static const struct pb_json_message mapping = MESSAGE("Mapping", mapping_fields);

static const struct pb_json_field function_fields[] = {
	{"startLine", 2, PB_JSON_INT64}, {"name", 3, PB_JSON_STRING}, {"filename", 5, PB_JSON_STRING}};
static const struct pb_json_message function = MESSAGE("Function", function_fields);

static const struct pb_json_field meta_fields[] = {{"mapping", 2, PB_JSON_MESSAGE, .message = &mapping},
						   {"function", 3, PB_JSON_MESSAGE, .message = &function}};
static const struct pb_json_message meta = MESSAGE("NodeMeta", meta_fields);

extern const struct pb_json_message parca_node; /* within itself */
static const struct pb_json_field parca_node_fields[] = {
	{"meta", 1, PB_JSON_MESSAGE, .message = &meta},
	{"cumulative", 2, PB_JSON_INT64},
	{"diff", 3, PB_JSON_INT64},
	{"children", 4, PB_JSON_MESSAGE, .repeated = true, .message = &parca_node}};
const struct pb_json_message parca_node = MESSAGE("FlamegraphNode", parca_node_fields);

static const struct pb_json_field root_fields[] = {{"cumulative", 1, PB_JSON_INT64},
						   {"diff", 2, PB_JSON_INT64},
						   {"children", 3, PB_JSON_MESSAGE, .repeated = true, .message = &parca_node}};
static const struct pb_json_message root = MESSAGE("FlamegraphRootNode", root_fields);

static const struct pb_json_field flamegraph_fields[] = {{"root", 1, PB_JSON_MESSAGE, .message = &root},
							 {"total", 2, PB_JSON_INT64},
							 {"unit", 3, PB_JSON_STRING},
							 {"height", 4, PB_JSON_INT32},
							 {"trimmed", 10, PB_JSON_INT64}};
static const struct pb_json_message flamegraph = MESSAGE("Flamegraph", flamegraph_fields);

static const struct pb_json_field top_node_fields[] = {{"meta", 1, PB_JSON_MESSAGE, .message = &meta},
						       {"cumulative", 2, PB_JSON_INT64},
						       {"flat", 3, PB_JSON_INT64},
						       {"diff", 4, PB_JSON_INT64}};
static const struct pb_json_message top_node = MESSAGE("TopNode", top_node_fields);

static const struct pb_json_field top_fields[] = {{"list", 1, PB_JSON_MESSAGE, .repeated = true, .message = &top_node},
						  {"reported", 2, PB_JSON_INT32},
						  {"total", 3, PB_JSON_INT32},
						  {"unit", 4, PB_JSON_STRING}};
static const struct pb_json_message top = MESSAGE("Top", top_fields);

static const struct pb_json_field arrow_fields[] = {
	{"record", 1, PB_JSON_BYTES}, {"unit", 2, PB_JSON_STRING}, {"height", 3, PB_JSON_INT32}, {"trimmed", 4, PB_JSON_INT64}};
static const struct pb_json_message arrow = MESSAGE("FlamegraphArrow", arrow_fields);

static const struct pb_json_field parca_query_answer_fields[] = {{"flamegraph", 5, PB_JSON_MESSAGE, .message = &flamegraph},
								 {"pprof", 6, PB_JSON_BYTES},
								 {"top", 7, PB_JSON_MESSAGE, .message = &top},
								 {"flamegraphArrow", 11, PB_JSON_MESSAGE, .message = &arrow},
								 {"total", 9, PB_JSON_INT64},
								 {"filtered", 10, PB_JSON_INT64}};
const struct pb_json_message parca_query_answer = MESSAGE("QueryResponse", parca_query_answer_fields);

static const struct pb_json_field parca_has_data_answer_fields[] = {{"hasData", 1, PB_JSON_BOOL}};
const struct pb_json_message parca_has_data_answer = MESSAGE("HasProfileDataResponse", parca_has_data_answer_fields);
