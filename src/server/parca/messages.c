/* SPDX-License-Identifier: Apache-2.0 */
/* Parca's messages by name, for clients that speak JSON. Numbers as at the top of the files that make the responses. */
#include "server/parca/parca_int.h"

#define MESSAGE PB_JSON_MESSAGE_OF

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

static const struct pb_json_message profile_type = MESSAGE(
	"ProfileType", {"name", 1, PB_JSON_STRING}, {"sampleType", 2, PB_JSON_STRING}, {"sampleUnit", 3, PB_JSON_STRING},
	{"periodType", 4, PB_JSON_STRING}, {"periodUnit", 5, PB_JSON_STRING}, {"delta", 6, PB_JSON_BOOL});

const struct pb_json_message parca_types_request =
	MESSAGE("ProfileTypesRequest", {"start", 1, PB_JSON_TIMESTAMP}, {"end", 2, PB_JSON_TIMESTAMP});

const struct pb_json_message parca_types_answer =
	MESSAGE("ProfileTypesResponse", {"types", 1, PB_JSON_MESSAGE, .repeated = true, .message = &profile_type});

const struct pb_json_message parca_labels_request =
	MESSAGE("LabelsRequest", {"match", 1, PB_JSON_STRING, .repeated = true}, {"start", 2, PB_JSON_TIMESTAMP},
		{"end", 3, PB_JSON_TIMESTAMP}, {"profileType", 4, PB_JSON_STRING});

const struct pb_json_message parca_labels_answer =
	MESSAGE("LabelsResponse", {"labelNames", 1, PB_JSON_STRING, .repeated = true},
		{"warnings", 2, PB_JSON_STRING, .repeated = true});

const struct pb_json_message parca_values_request =
	MESSAGE("ValuesRequest", {"labelName", 1, PB_JSON_STRING}, {"match", 2, PB_JSON_STRING, .repeated = true},
		{"start", 3, PB_JSON_TIMESTAMP}, {"end", 4, PB_JSON_TIMESTAMP}, {"profileType", 5, PB_JSON_STRING});

const struct pb_json_message parca_values_answer =
	MESSAGE("ValuesResponse", {"labelValues", 1, PB_JSON_STRING, .repeated = true},
		{"warnings", 2, PB_JSON_STRING, .repeated = true});

const struct pb_json_message parca_range_request = MESSAGE(
	"QueryRangeRequest", {"query", 1, PB_JSON_STRING}, {"start", 2, PB_JSON_TIMESTAMP}, {"end", 3, PB_JSON_TIMESTAMP},
	{"limit", 4, PB_JSON_UINT32}, {"step", 5, PB_JSON_DURATION}, {"sumBy", 6, PB_JSON_STRING, .repeated = true});

static const struct pb_json_message label = MESSAGE("Label", {"name", 1, PB_JSON_STRING}, {"value", 2, PB_JSON_STRING});

static const struct pb_json_message label_set =
	MESSAGE("LabelSet", {"labels", 1, PB_JSON_MESSAGE, .repeated = true, .message = &label});

static const struct pb_json_message value_type = MESSAGE("ValueType", {"type", 1, PB_JSON_STRING}, {"unit", 2, PB_JSON_STRING});

static const struct pb_json_message metrics_sample =
	MESSAGE("MetricsSample", {"timestamp", 1, PB_JSON_TIMESTAMP}, {"value", 2, PB_JSON_INT64},
		{"valuePerSecond", 3, PB_JSON_DOUBLE}, {"duration", 4, PB_JSON_INT64}, {"count", 5, PB_JSON_INT32});

static const struct pb_json_message series = MESSAGE(
	"MetricsSeries", {"labelset", 1, PB_JSON_MESSAGE, .message = &label_set},
	{"samples", 2, PB_JSON_MESSAGE, .repeated = true, .message = &metrics_sample},
	{"periodType", 3, PB_JSON_MESSAGE, .message = &value_type}, {"sampleType", 4, PB_JSON_MESSAGE, .message = &value_type});

const struct pb_json_message parca_range_answer =
	MESSAGE("QueryRangeResponse", {"series", 1, PB_JSON_MESSAGE, .repeated = true, .message = &series});

static const struct pb_json_message merge_profile =
	MESSAGE("MergeProfile", {"query", 1, PB_JSON_STRING}, {"start", 2, PB_JSON_TIMESTAMP}, {"end", 3, PB_JSON_TIMESTAMP});

static const struct pb_json_message single_profile =
	MESSAGE("SingleProfile", {"time", 1, PB_JSON_TIMESTAMP}, {"query", 2, PB_JSON_STRING});

static const struct pb_json_message diff_side = MESSAGE("ProfileDiffSelection", {"mode", 1, PB_JSON_ENUM, .names = side_modes},
							{"merge", 2, PB_JSON_MESSAGE, .message = &merge_profile},
							{"single", 3, PB_JSON_MESSAGE, .message = &single_profile});

static const struct pb_json_message diff_profile =
	MESSAGE("DiffProfile", {"a", 1, PB_JSON_MESSAGE, .message = &diff_side},
		{"b", 2, PB_JSON_MESSAGE, .message = &diff_side}, {"absolute", 3, PB_JSON_BOOL});

static const struct pb_json_message group_by = MESSAGE("GroupBy", {"fields", 1, PB_JSON_STRING, .repeated = true});

static const struct pb_json_message string_condition = MESSAGE(
	"StringCondition", {"equal", 1, PB_JSON_STRING, .explicit_presence = true},
	{"notEqual", 2, PB_JSON_STRING, .explicit_presence = true}, {"contains", 3, PB_JSON_STRING, .explicit_presence = true},
	{"notContains", 4, PB_JSON_STRING, .explicit_presence = true},
	{"startsWith", 5, PB_JSON_STRING, .explicit_presence = true},
	{"notStartsWith", 6, PB_JSON_STRING, .explicit_presence = true});

static const struct pb_json_message number_condition =
	MESSAGE("NumberCondition", {"equal", 1, PB_JSON_UINT64, .explicit_presence = true},
		{"notEqual", 2, PB_JSON_UINT64, .explicit_presence = true});

static const struct pb_json_message criteria =
	MESSAGE("FilterCriteria", {"functionName", 1, PB_JSON_MESSAGE, .message = &string_condition},
		{"systemName", 2, PB_JSON_MESSAGE, .message = &string_condition},
		{"binary", 3, PB_JSON_MESSAGE, .message = &string_condition},
		{"filename", 4, PB_JSON_MESSAGE, .message = &string_condition},
		{"address", 5, PB_JSON_MESSAGE, .message = &number_condition},
		{"lineNumber", 6, PB_JSON_MESSAGE, .message = &number_condition});

static const struct pb_json_message function_filter =
	MESSAGE("FunctionNameStackFilter", {"functionToFilter", 1, PB_JSON_STRING}, {"exclude", 2, PB_JSON_BOOL});

static const struct pb_json_message binary_filter =
	MESSAGE("BinaryFrameFilter", {"includeBinaries", 1, PB_JSON_STRING, .repeated = true});

static const struct pb_json_message stack_filter =
	MESSAGE("StackFilter", {"functionNameStackFilter", 1, PB_JSON_MESSAGE, .message = &function_filter},
		{"criteria", 2, PB_JSON_MESSAGE, .message = &criteria});

static const struct pb_json_message frame_filter =
	MESSAGE("FrameFilter", {"binaryFrameFilter", 1, PB_JSON_MESSAGE, .message = &binary_filter},
		{"criteria", 2, PB_JSON_MESSAGE, .message = &criteria});

static const struct pb_json_message filter = MESSAGE("Filter", {"stackFilter", 1, PB_JSON_MESSAGE, .message = &stack_filter},
						     {"frameFilter", 2, PB_JSON_MESSAGE, .message = &frame_filter});

static const struct pb_json_message source_reference = MESSAGE(
	"SourceReference", {"buildId", 1, PB_JSON_STRING}, {"filename", 2, PB_JSON_STRING}, {"sourceOnly", 3, PB_JSON_BOOL});

static const struct pb_json_message runtime_filter =
	MESSAGE("RuntimeFilter", {"showPython", 1, PB_JSON_BOOL}, {"showRuby", 2, PB_JSON_BOOL},
		{"showInterpretedOnly", 3, PB_JSON_BOOL});

const struct pb_json_message parca_query_request = MESSAGE(
	"QueryRequest", {"mode", 1, PB_JSON_ENUM, .names = modes}, {"diff", 2, PB_JSON_MESSAGE, .message = &diff_profile},
	{"merge", 3, PB_JSON_MESSAGE, .message = &merge_profile}, {"single", 4, PB_JSON_MESSAGE, .message = &single_profile},
	{"reportType", 5, PB_JSON_ENUM, .names = reports}, {"filterQuery", 6, PB_JSON_STRING},
	{"nodeTrimThreshold", 7, PB_JSON_FLOAT}, {"groupBy", 8, PB_JSON_MESSAGE, .message = &group_by},
	{"sourceReference", 9, PB_JSON_MESSAGE, .message = &source_reference},
	{"runtimeFilter", 10, PB_JSON_MESSAGE, .message = &runtime_filter}, {"invertCallStack", 11, PB_JSON_BOOL},
	{"filter", 12, PB_JSON_MESSAGE, .repeated = true, .message = &filter}, {"sandwichByFunction", 13, PB_JSON_STRING});

static const struct pb_json_message location =
	MESSAGE("Location", {"address", 2, PB_JSON_UINT64}, {"isFolded", 5, PB_JSON_BOOL});

static const struct pb_json_message mapping = MESSAGE("Mapping", {"file", 5, PB_JSON_STRING}, {"buildId", 6, PB_JSON_STRING});

static const struct pb_json_message function = MESSAGE("Function", {"startLine", 2, PB_JSON_INT64}, {"name", 3, PB_JSON_STRING},
						       {"systemName", 4, PB_JSON_STRING}, {"filename", 5, PB_JSON_STRING});

static const struct pb_json_message line = MESSAGE("Line", {"line", 2, PB_JSON_INT64});

static const struct pb_json_message meta =
	MESSAGE("NodeMeta", {"location", 1, PB_JSON_MESSAGE, .message = &location},
		{"mapping", 2, PB_JSON_MESSAGE, .message = &mapping}, {"function", 3, PB_JSON_MESSAGE, .message = &function},
		{"line", 4, PB_JSON_MESSAGE, .message = &line});

extern const struct pb_json_message parca_node; /* within itself */
const struct pb_json_message parca_node =
	MESSAGE("FlamegraphNode", {"meta", 1, PB_JSON_MESSAGE, .message = &meta}, {"cumulative", 2, PB_JSON_INT64},
		{"diff", 3, PB_JSON_INT64}, {"children", 4, PB_JSON_MESSAGE, .repeated = true, .message = &parca_node});

static const struct pb_json_message root =
	MESSAGE("FlamegraphRootNode", {"cumulative", 1, PB_JSON_INT64}, {"diff", 2, PB_JSON_INT64},
		{"children", 3, PB_JSON_MESSAGE, .repeated = true, .message = &parca_node});

static const struct pb_json_message flamegraph =
	MESSAGE("Flamegraph", {"root", 1, PB_JSON_MESSAGE, .message = &root}, {"total", 2, PB_JSON_INT64},
		{"unit", 3, PB_JSON_STRING}, {"height", 4, PB_JSON_INT32}, {"trimmed", 10, PB_JSON_INT64});

static const struct pb_json_message top_node =
	MESSAGE("TopNode", {"meta", 1, PB_JSON_MESSAGE, .message = &meta}, {"cumulative", 2, PB_JSON_INT64},
		{"flat", 3, PB_JSON_INT64}, {"diff", 4, PB_JSON_INT64});

static const struct pb_json_message top =
	MESSAGE("Top", {"list", 1, PB_JSON_MESSAGE, .repeated = true, .message = &top_node}, {"reported", 2, PB_JSON_INT32},
		{"total", 3, PB_JSON_INT32}, {"unit", 4, PB_JSON_STRING});

static const struct pb_json_message arrow =
	MESSAGE("FlamegraphArrow", {"record", 1, PB_JSON_BYTES}, {"unit", 2, PB_JSON_STRING}, {"height", 3, PB_JSON_INT32},
		{"trimmed", 4, PB_JSON_INT64});

static const struct pb_json_message callgraph_node =
	MESSAGE("CallgraphNode", {"id", 1, PB_JSON_STRING}, {"meta", 2, PB_JSON_MESSAGE, .message = &meta},
		{"cumulative", 3, PB_JSON_INT64}, {"flat", 4, PB_JSON_INT64});

static const struct pb_json_message callgraph_edge =
	MESSAGE("CallgraphEdge", {"id", 1, PB_JSON_STRING}, {"source", 2, PB_JSON_STRING}, {"target", 3, PB_JSON_STRING},
		{"cumulative", 4, PB_JSON_INT64}, {"isCollapsed", 5, PB_JSON_BOOL});

static const struct pb_json_message callgraph =
	MESSAGE("Callgraph", {"nodes", 1, PB_JSON_MESSAGE, .repeated = true, .message = &callgraph_node},
		{"edges", 2, PB_JSON_MESSAGE, .repeated = true, .message = &callgraph_edge}, {"cumulative", 3, PB_JSON_INT64});

static const struct pb_json_message source =
	MESSAGE("Source", {"record", 1, PB_JSON_BYTES}, {"source", 2, PB_JSON_STRING}, {"unit", 3, PB_JSON_STRING});

static const struct pb_json_message table = MESSAGE("TableArrow", {"record", 1, PB_JSON_BYTES}, {"unit", 2, PB_JSON_STRING});

static const struct pb_json_message metadata = MESSAGE("ProfileMetadata", {"mappingFiles", 1, PB_JSON_STRING, .repeated = true},
						       {"labels", 2, PB_JSON_STRING, .repeated = true});

const struct pb_json_message parca_query_answer = MESSAGE(
	"QueryResponse", {"flamegraph", 5, PB_JSON_MESSAGE, .message = &flamegraph}, {"pprof", 6, PB_JSON_BYTES},
	{"top", 7, PB_JSON_MESSAGE, .message = &top}, {"callgraph", 8, PB_JSON_MESSAGE, .message = &callgraph},
	{"flamegraphArrow", 11, PB_JSON_MESSAGE, .message = &arrow}, {"source", 12, PB_JSON_MESSAGE, .message = &source},
	{"tableArrow", 13, PB_JSON_MESSAGE, .message = &table}, {"profileMetadata", 14, PB_JSON_MESSAGE, .message = &metadata},
	{"total", 9, PB_JSON_INT64}, {"filtered", 10, PB_JSON_INT64});

/* ---- what is shared: parca/share.c ---- */

const struct pb_json_message parca_share_profile_request =
	MESSAGE("ShareProfileRequest", {"queryRequest", 1, PB_JSON_MESSAGE, .message = &parca_query_request},
		{"description", 2, PB_JSON_STRING});

const struct pb_json_message parca_share_profile_answer = MESSAGE("ShareProfileResponse", {"link", 1, PB_JSON_STRING});

const struct pb_json_message parca_upload_request =
	MESSAGE("UploadRequest", {"profile", 1, PB_JSON_BYTES}, {"description", 2, PB_JSON_STRING});

const struct pb_json_message parca_upload_answer =
	MESSAGE("UploadResponse", {"id", 1, PB_JSON_STRING}, {"link", 2, PB_JSON_STRING});

const struct pb_json_message parca_share_query_request = MESSAGE(
	"QueryRequest", {"id", 1, PB_JSON_STRING}, {"profileType", 2, PB_JSON_STRING},
	{"reportType", 3, PB_JSON_ENUM, .names = reports}, {"filterQuery", 4, PB_JSON_STRING},
	{"nodeTrimThreshold", 5, PB_JSON_FLOAT}, {"runtimeFilter", 6, PB_JSON_MESSAGE, .message = &runtime_filter},
	{"groupBy", 7, PB_JSON_MESSAGE, .message = &group_by}, {"invertCallStack", 8, PB_JSON_BOOL},
	{"filter", 9, PB_JSON_MESSAGE, .repeated = true, .message = &filter}, {"sandwichByFunction", 10, PB_JSON_STRING});

const struct pb_json_message parca_share_query_answer = MESSAGE(
	"QueryResponse", {"flamegraph", 1, PB_JSON_MESSAGE, .message = &flamegraph}, {"pprof", 2, PB_JSON_BYTES},
	{"top", 3, PB_JSON_MESSAGE, .message = &top}, {"callgraph", 4, PB_JSON_MESSAGE, .message = &callgraph},
	{"flamegraphArrow", 7, PB_JSON_MESSAGE, .message = &arrow}, {"source", 8, PB_JSON_MESSAGE, .message = &source},
	{"tableArrow", 9, PB_JSON_MESSAGE, .message = &table}, {"profileMetadata", 10, PB_JSON_MESSAGE, .message = &metadata},
	{"total", 5, PB_JSON_INT64}, {"filtered", 6, PB_JSON_INT64});

const struct pb_json_message parca_share_types_request = MESSAGE("ProfileTypesRequest", {"id", 1, PB_JSON_STRING});

const struct pb_json_message parca_share_types_answer =
	MESSAGE("ProfileTypesResponse", {"types", 1, PB_JSON_MESSAGE, .repeated = true, .message = &profile_type},
		{"description", 2, PB_JSON_STRING});

/* ---- targets and agents: parca/targets.c ---- */

static const struct pb_json_enum states[] = {{"STATE_ANY_UNSPECIFIED", 0}, {"STATE_ACTIVE", 1}, {"STATE_DROPPED", 2}, {0}};
static const struct pb_json_enum healths[] = {{"HEALTH_UNKNOWN_UNSPECIFIED", 0}, {"HEALTH_GOOD", 1}, {"HEALTH_BAD", 2}, {0}};

const struct pb_json_message parca_targets_request = MESSAGE("TargetsRequest", {"state", 1, PB_JSON_ENUM, .names = states});

static const struct pb_json_message target =
	MESSAGE("Target", {"discoveredLabels", 1, PB_JSON_MESSAGE, .message = &label_set},
		{"labels", 2, PB_JSON_MESSAGE, .message = &label_set}, {"lastError", 3, PB_JSON_STRING},
		{"lastScrape", 4, PB_JSON_TIMESTAMP}, {"lastScrapeDuration", 5, PB_JSON_DURATION}, {"url", 6, PB_JSON_STRING},
		{"health", 7, PB_JSON_ENUM, .names = healths});

static const struct pb_json_message targets =
	MESSAGE("Targets", {"targets", 1, PB_JSON_MESSAGE, .repeated = true, .message = &target});

static const struct pb_json_message targets_entry =
	MESSAGE("TargetsEntry", {"key", 1, PB_JSON_STRING}, {"value", 2, PB_JSON_MESSAGE, .message = &targets});

const struct pb_json_message parca_targets_answer =
	MESSAGE("TargetsResponse", {"targets", 1, PB_JSON_MAP, .message = &targets_entry});

static const struct pb_json_message agent =
	MESSAGE("Agent", {"id", 1, PB_JSON_STRING}, {"lastError", 2, PB_JSON_STRING}, {"lastPush", 3, PB_JSON_TIMESTAMP},
		{"lastPushDuration", 4, PB_JSON_DURATION});

const struct pb_json_message parca_agents_answer =
	MESSAGE("AgentsResponse", {"agents", 1, PB_JSON_MESSAGE, .repeated = true, .message = &agent});

const struct pb_json_message parca_has_data_answer = MESSAGE("HasProfileDataResponse", {"hasData", 1, PB_JSON_BOOL});
