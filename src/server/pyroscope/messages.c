/* SPDX-License-Identifier: Apache-2.0 */
/* Pyroscope's messages by name, for clients that speak JSON. Numbers as in pyroscope/query.c; those of google.v1.Profile are
 * pprof's. */
#include "server/pyroscope/messages.h"

#define MESSAGE(title, table)                                                                                                  \
	{                                                                                                                      \
		.name = title, .fields = table, .count = sizeof(table) / sizeof(*(table))                                      \
	}

static const struct pb_json_enum formats[] = {{"PROFILE_FORMAT_UNSPECIFIED", 0}, {"PROFILE_FORMAT_FLAMEGRAPH", 1},
					      {"PROFILE_FORMAT_TREE", 2},	 {"PROFILE_FORMAT_DOT", 3},
					      {"PROFILE_FORMAT_PPROF", 4},	 {0}};
static const struct pb_json_enum aggregations[] = {
	{"TIME_SERIES_AGGREGATION_TYPE_SUM", 0}, {"TIME_SERIES_AGGREGATION_TYPE_AVERAGE", 1}, {0}};
static const struct pb_json_enum exemplars[] = {{"EXEMPLAR_TYPE_UNSPECIFIED", 0},
						{"EXEMPLAR_TYPE_NONE", 1},
						{"EXEMPLAR_TYPE_INDIVIDUAL", 2},
						{"EXEMPLAR_TYPE_SPAN", 3},
						{0}};
static const struct pb_json_enum heatmaps[] = {
	{"HEATMAP_QUERY_TYPE_UNSPECIFIED", 0}, {"HEATMAP_QUERY_TYPE_INDIVIDUAL", 1}, {"HEATMAP_QUERY_TYPE_SPAN", 2}, {0}};

const struct pb_json_message pyroscope_empty = {.name = "empty"};

static const struct pb_json_field label_pair_fields[] = {{"name", 1, PB_JSON_STRING}, {"value", 2, PB_JSON_STRING}};
static const struct pb_json_message label_pair = MESSAGE("LabelPair", label_pair_fields);

static const struct pb_json_field label_set_fields[] = {
	{"labels", 1, PB_JSON_MESSAGE, .repeated = true, .message = &label_pair}};
static const struct pb_json_message label_set = MESSAGE("Labels", label_set_fields);

static const struct pb_json_field profile_type_fields[] = {
	{"ID", 1, PB_JSON_STRING},	   {"name", 2, PB_JSON_STRING},	      {"sampleType", 4, PB_JSON_STRING},
	{"sampleUnit", 5, PB_JSON_STRING}, {"periodType", 6, PB_JSON_STRING}, {"periodUnit", 7, PB_JSON_STRING}};
static const struct pb_json_message profile_type = MESSAGE("ProfileType", profile_type_fields);

static const struct pb_json_field pyroscope_types_request_fields[] = {{"start", 1, PB_JSON_INT64}, {"end", 2, PB_JSON_INT64}};
const struct pb_json_message pyroscope_types_request = MESSAGE("ProfileTypesRequest", pyroscope_types_request_fields);

static const struct pb_json_field pyroscope_types_answer_fields[] = {
	{"profileTypes", 1, PB_JSON_MESSAGE, .repeated = true, .message = &profile_type}};
const struct pb_json_message pyroscope_types_answer = MESSAGE("ProfileTypesResponse", pyroscope_types_answer_fields);

static const struct pb_json_field pyroscope_label_names_request_fields[] = {
	{"matchers", 1, PB_JSON_STRING, .repeated = true}, {"start", 2, PB_JSON_INT64}, {"end", 3, PB_JSON_INT64}};
const struct pb_json_message pyroscope_label_names_request = MESSAGE("LabelNamesRequest", pyroscope_label_names_request_fields);

static const struct pb_json_field pyroscope_label_values_request_fields[] = {{"name", 1, PB_JSON_STRING},
									     {"matchers", 2, PB_JSON_STRING, .repeated = true},
									     {"start", 3, PB_JSON_INT64},
									     {"end", 4, PB_JSON_INT64}};
const struct pb_json_message pyroscope_label_values_request =
	MESSAGE("LabelValuesRequest", pyroscope_label_values_request_fields);

static const struct pb_json_field pyroscope_names_answer_fields[] = {{"names", 1, PB_JSON_STRING, .repeated = true}};
const struct pb_json_message pyroscope_names_answer = MESSAGE("names", pyroscope_names_answer_fields);

static const struct pb_json_field pyroscope_series_request_fields[] = {{"matchers", 1, PB_JSON_STRING, .repeated = true},
								       {"labelNames", 2, PB_JSON_STRING, .repeated = true},
								       {"start", 3, PB_JSON_INT64},
								       {"end", 4, PB_JSON_INT64}};
const struct pb_json_message pyroscope_series_request = MESSAGE("SeriesRequest", pyroscope_series_request_fields);

static const struct pb_json_field pyroscope_series_answer_fields[] = {
	{"labelsSet", 2, PB_JSON_MESSAGE, .repeated = true, .message = &label_set}};
const struct pb_json_message pyroscope_series_answer = MESSAGE("SeriesResponse", pyroscope_series_answer_fields);

static const struct pb_json_field location_name_fields[] = {{"name", 1, PB_JSON_STRING}};
static const struct pb_json_message location_name = MESSAGE("Location", location_name_fields);

static const struct pb_json_field go_pgo_fields[] = {{"keepLocations", 1, PB_JSON_UINT32},
						     {"aggregateCallees", 2, PB_JSON_BOOL}};
static const struct pb_json_message go_pgo = MESSAGE("GoPGO", go_pgo_fields);

static const struct pb_json_field stack_selector_fields[] = {
	{"callSite", 1, PB_JSON_MESSAGE, .repeated = true, .message = &location_name},
	{"goPgo", 2, PB_JSON_MESSAGE, .message = &go_pgo}};
static const struct pb_json_message stack_selector = MESSAGE("StackTraceSelector", stack_selector_fields);

static const struct pb_json_field pyroscope_select_series_request_fields[] = {
	{"profileTypeID", 1, PB_JSON_STRING},
	{"labelSelector", 2, PB_JSON_STRING},
	{"start", 3, PB_JSON_INT64},
	{"end", 4, PB_JSON_INT64},
	{"groupBy", 5, PB_JSON_STRING, .repeated = true},
	{"step", 6, PB_JSON_DOUBLE},
	{"aggregation", 7, PB_JSON_ENUM, .names = aggregations, .explicit_presence = true},
	{"stackTraceSelector", 8, PB_JSON_MESSAGE, .message = &stack_selector},
	{"limit", 9, PB_JSON_INT64, .explicit_presence = true},
	{"exemplarType", 10, PB_JSON_ENUM, .names = exemplars}};
const struct pb_json_message pyroscope_select_series_request =
	MESSAGE("SelectSeriesRequest", pyroscope_select_series_request_fields);

static const struct pb_json_field point_fields[] = {{"value", 1, PB_JSON_DOUBLE}, {"timestamp", 2, PB_JSON_INT64}};
static const struct pb_json_message point = MESSAGE("Point", point_fields);

static const struct pb_json_field series_fields[] = {{"labels", 1, PB_JSON_MESSAGE, .repeated = true, .message = &label_pair},
						     {"points", 2, PB_JSON_MESSAGE, .repeated = true, .message = &point}};
static const struct pb_json_message series = MESSAGE("Series", series_fields);

static const struct pb_json_field pyroscope_select_series_answer_fields[] = {
	{"series", 1, PB_JSON_MESSAGE, .repeated = true, .message = &series}};
const struct pb_json_message pyroscope_select_series_answer =
	MESSAGE("SelectSeriesResponse", pyroscope_select_series_answer_fields);

static const struct pb_json_field pyroscope_stacktraces_request_fields[] = {
	{"profileTypeID", 1, PB_JSON_STRING},
	{"labelSelector", 2, PB_JSON_STRING},
	{"start", 3, PB_JSON_INT64},
	{"end", 4, PB_JSON_INT64},
	{"maxNodes", 5, PB_JSON_INT64, .explicit_presence = true},
	{"format", 6, PB_JSON_ENUM, .names = formats},
	{"stackTraceSelector", 7, PB_JSON_MESSAGE, .message = &stack_selector},
	{"profileIdSelector", 8, PB_JSON_STRING, .repeated = true},
	{"traceIdSelector", 10, PB_JSON_STRING, .repeated = true},
	{"spanSelector", 11, PB_JSON_STRING, .repeated = true}};
const struct pb_json_message pyroscope_stacktraces_request =
	MESSAGE("SelectMergeStacktracesRequest", pyroscope_stacktraces_request_fields);

static const struct pb_json_field level_fields[] = {{"values", 1, PB_JSON_INT64, .repeated = true}};
static const struct pb_json_message level = MESSAGE("Level", level_fields);

static const struct pb_json_field flame_graph_fields[] = {{"names", 1, PB_JSON_STRING, .repeated = true},
							  {"levels", 2, PB_JSON_MESSAGE, .repeated = true, .message = &level},
							  {"total", 3, PB_JSON_INT64},
							  {"maxSelf", 4, PB_JSON_INT64}};
static const struct pb_json_message flame_graph = MESSAGE("FlameGraph", flame_graph_fields);

static const struct pb_json_field flame_graph_diff_fields[] = {
	{"names", 1, PB_JSON_STRING, .repeated = true},
	{"levels", 2, PB_JSON_MESSAGE, .repeated = true, .message = &level},
	{"total", 3, PB_JSON_INT64},
	{"maxSelf", 4, PB_JSON_INT64},
	{"leftTicks", 5, PB_JSON_INT64},
	{"rightTicks", 6, PB_JSON_INT64}};
static const struct pb_json_message flame_graph_diff = MESSAGE("FlameGraphDiff", flame_graph_diff_fields);

static const struct pb_json_field value_type_fields[] = {{"type", 1, PB_JSON_INT64}, {"unit", 2, PB_JSON_INT64}};
static const struct pb_json_message value_type = MESSAGE("ValueType", value_type_fields);

static const struct pb_json_field sample_label_fields[] = {
	{"key", 1, PB_JSON_INT64}, {"str", 2, PB_JSON_INT64}, {"num", 3, PB_JSON_INT64}, {"numUnit", 4, PB_JSON_INT64}};
static const struct pb_json_message sample_label = MESSAGE("Label", sample_label_fields);

static const struct pb_json_field sample_fields[] = {{"locationId", 1, PB_JSON_UINT64, .repeated = true},
						     {"value", 2, PB_JSON_INT64, .repeated = true},
						     {"label", 3, PB_JSON_MESSAGE, .repeated = true, .message = &sample_label}};
static const struct pb_json_message sample = MESSAGE("Sample", sample_fields);

static const struct pb_json_field mapping_fields[] = {
	{"id", 1, PB_JSON_UINT64},	     {"memoryStart", 2, PB_JSON_UINT64},
	{"memoryLimit", 3, PB_JSON_UINT64},  {"fileOffset", 4, PB_JSON_UINT64},
	{"filename", 5, PB_JSON_INT64},	     {"buildId", 6, PB_JSON_INT64},
	{"hasFunctions", 7, PB_JSON_BOOL},   {"hasFilenames", 8, PB_JSON_BOOL},
	{"hasLineNumbers", 9, PB_JSON_BOOL}, {"hasInlineFrames", 10, PB_JSON_BOOL}};
static const struct pb_json_message mapping = MESSAGE("Mapping", mapping_fields);

static const struct pb_json_field line_fields[] = {{"functionId", 1, PB_JSON_UINT64}, {"line", 2, PB_JSON_INT64}};
static const struct pb_json_message line = MESSAGE("Line", line_fields);

static const struct pb_json_field location_fields[] = {{"id", 1, PB_JSON_UINT64},
						       {"mappingId", 2, PB_JSON_UINT64},
						       {"address", 3, PB_JSON_UINT64},
						       {"line", 4, PB_JSON_MESSAGE, .repeated = true, .message = &line},
						       {"isFolded", 5, PB_JSON_BOOL}};
static const struct pb_json_message location = MESSAGE("Location", location_fields);

static const struct pb_json_field function_fields[] = {{"id", 1, PB_JSON_UINT64},
						       {"name", 2, PB_JSON_INT64},
						       {"systemName", 3, PB_JSON_INT64},
						       {"filename", 4, PB_JSON_INT64},
						       {"startLine", 5, PB_JSON_INT64}};
static const struct pb_json_message function = MESSAGE("Function", function_fields);

static const struct pb_json_field pyroscope_profile_answer_fields[] = {
	{"sampleType", 1, PB_JSON_MESSAGE, .repeated = true, .message = &value_type},
	{"sample", 2, PB_JSON_MESSAGE, .repeated = true, .message = &sample},
	{"mapping", 3, PB_JSON_MESSAGE, .repeated = true, .message = &mapping},
	{"location", 4, PB_JSON_MESSAGE, .repeated = true, .message = &location},
	{"function", 5, PB_JSON_MESSAGE, .repeated = true, .message = &function},
	{"stringTable", 6, PB_JSON_STRING, .repeated = true},
	{"dropFrames", 7, PB_JSON_INT64},
	{"keepFrames", 8, PB_JSON_INT64},
	{"timeNanos", 9, PB_JSON_INT64},
	{"durationNanos", 10, PB_JSON_INT64},
	{"periodType", 11, PB_JSON_MESSAGE, .message = &value_type},
	{"period", 12, PB_JSON_INT64},
	{"comment", 13, PB_JSON_INT64, .repeated = true},
	{"defaultSampleType", 14, PB_JSON_INT64}};
const struct pb_json_message pyroscope_profile_answer = MESSAGE("Profile", pyroscope_profile_answer_fields);

static const struct pb_json_field pprof_profile_fields[] = {
	{"profile", 1, PB_JSON_MESSAGE, .message = &pyroscope_profile_answer}};
static const struct pb_json_message pprof_profile = MESSAGE("PprofProfile", pprof_profile_fields);

static const struct pb_json_field pyroscope_stacktraces_answer_fields[] = {
	{"flamegraph", 1, PB_JSON_MESSAGE, .message = &flame_graph},
	{"tree", 2, PB_JSON_BYTES},
	{"dot", 3, PB_JSON_STRING},
	{"pprof", 5, PB_JSON_MESSAGE, .message = &pprof_profile}};
const struct pb_json_message pyroscope_stacktraces_answer =
	MESSAGE("SelectMergeStacktracesResponse", pyroscope_stacktraces_answer_fields);

static const struct pb_json_field pyroscope_spans_request_fields[] = {{"profileTypeID", 1, PB_JSON_STRING},
								      {"labelSelector", 2, PB_JSON_STRING},
								      {"spanSelector", 3, PB_JSON_STRING, .repeated = true},
								      {"start", 4, PB_JSON_INT64},
								      {"end", 5, PB_JSON_INT64},
								      {"maxNodes", 6, PB_JSON_INT64, .explicit_presence = true},
								      {"format", 7, PB_JSON_ENUM, .names = formats}};
const struct pb_json_message pyroscope_spans_request = MESSAGE("SelectMergeSpanProfileRequest", pyroscope_spans_request_fields);

static const struct pb_json_field pyroscope_spans_answer_fields[] = {
	{"flamegraph", 1, PB_JSON_MESSAGE, .message = &flame_graph}, {"tree", 2, PB_JSON_BYTES}};
const struct pb_json_message pyroscope_spans_answer = MESSAGE("SelectMergeSpanProfileResponse", pyroscope_spans_answer_fields);

static const struct pb_json_field pyroscope_profile_request_fields[] = {
	{"profileTypeID", 1, PB_JSON_STRING},
	{"labelSelector", 2, PB_JSON_STRING},
	{"start", 3, PB_JSON_INT64},
	{"end", 4, PB_JSON_INT64},
	{"maxNodes", 5, PB_JSON_INT64, .explicit_presence = true},
	{"stackTraceSelector", 6, PB_JSON_MESSAGE, .message = &stack_selector},
	{"profileIdSelector", 7, PB_JSON_STRING, .repeated = true},
	{"traceIdSelector", 8, PB_JSON_STRING, .repeated = true}};
const struct pb_json_message pyroscope_profile_request = MESSAGE("SelectMergeProfileRequest", pyroscope_profile_request_fields);

static const struct pb_json_field pyroscope_heatmap_request_fields[] = {{"profileTypeID", 1, PB_JSON_STRING},
									{"labelSelector", 2, PB_JSON_STRING},
									{"start", 3, PB_JSON_INT64},
									{"end", 4, PB_JSON_INT64},
									{"step", 5, PB_JSON_DOUBLE},
									{"groupBy", 6, PB_JSON_STRING, .repeated = true},
									{"queryType", 7, PB_JSON_ENUM, .names = heatmaps},
									{"exemplarType", 8, PB_JSON_ENUM, .names = exemplars},
									{"limit", 9, PB_JSON_INT64, .explicit_presence = true}};
const struct pb_json_message pyroscope_heatmap_request = MESSAGE("SelectHeatmapRequest", pyroscope_heatmap_request_fields);

static const struct pb_json_field slot_fields[] = {{"timestamp", 1, PB_JSON_INT64},
						   {"yMin", 2, PB_JSON_DOUBLE, .repeated = true},
						   {"counts", 3, PB_JSON_INT32, .repeated = true}};
static const struct pb_json_message slot = MESSAGE("HeatmapSlot", slot_fields);

static const struct pb_json_field heatmap_series_fields[] = {
	{"labels", 1, PB_JSON_MESSAGE, .repeated = true, .message = &label_pair},
	{"slots", 2, PB_JSON_MESSAGE, .repeated = true, .message = &slot}};
static const struct pb_json_message heatmap_series = MESSAGE("HeatmapSeries", heatmap_series_fields);

static const struct pb_json_field pyroscope_heatmap_answer_fields[] = {
	{"series", 1, PB_JSON_MESSAGE, .repeated = true, .message = &heatmap_series}};
const struct pb_json_message pyroscope_heatmap_answer = MESSAGE("SelectHeatmapResponse", pyroscope_heatmap_answer_fields);

static const struct pb_json_field pyroscope_diff_request_fields[] = {
	{"left", 1, PB_JSON_MESSAGE, .message = &pyroscope_stacktraces_request},
	{"right", 2, PB_JSON_MESSAGE, .message = &pyroscope_stacktraces_request}};
const struct pb_json_message pyroscope_diff_request = MESSAGE("DiffRequest", pyroscope_diff_request_fields);

static const struct pb_json_field pyroscope_diff_answer_fields[] = {
	{"flamegraph", 1, PB_JSON_MESSAGE, .message = &flame_graph_diff}};
const struct pb_json_message pyroscope_diff_answer = MESSAGE("DiffResponse", pyroscope_diff_answer_fields);

static const struct pb_json_field pyroscope_stats_answer_fields[] = {
	{"dataIngested", 1, PB_JSON_BOOL}, {"oldestProfileTime", 2, PB_JSON_INT64}, {"newestProfileTime", 3, PB_JSON_INT64}};
const struct pb_json_message pyroscope_stats_answer = MESSAGE("GetProfileStatsResponse", pyroscope_stats_answer_fields);

static const struct pb_json_field pyroscope_analyze_request_fields[] = {
	{"start", 2, PB_JSON_INT64}, {"end", 3, PB_JSON_INT64}, {"query", 4, PB_JSON_STRING}};
const struct pb_json_message pyroscope_analyze_request = MESSAGE("AnalyzeQueryRequest", pyroscope_analyze_request_fields);

static const struct pb_json_field scope_fields[] = {
	{"componentType", 1, PB_JSON_STRING}, {"componentCount", 2, PB_JSON_UINT64}, {"blockCount", 3, PB_JSON_UINT64},
	{"seriesCount", 4, PB_JSON_UINT64},   {"profileCount", 5, PB_JSON_UINT64},   {"sampleCount", 6, PB_JSON_UINT64},
	{"indexBytes", 7, PB_JSON_UINT64},    {"profileBytes", 8, PB_JSON_UINT64},   {"symbolBytes", 9, PB_JSON_UINT64}};
static const struct pb_json_message scope = MESSAGE("QueryScope", scope_fields);

static const struct pb_json_field impact_fields[] = {{"totalBytesInTimeRange", 2, PB_JSON_UINT64},
						     {"totalQueriedSeries", 3, PB_JSON_UINT64},
						     {"deduplicationNeeded", 4, PB_JSON_BOOL}};
static const struct pb_json_message impact = MESSAGE("QueryImpact", impact_fields);

static const struct pb_json_field pyroscope_analyze_answer_fields[] = {
	{"queryScopes", 1, PB_JSON_MESSAGE, .repeated = true, .message = &scope},
	{"queryImpact", 2, PB_JSON_MESSAGE, .message = &impact}};
const struct pb_json_message pyroscope_analyze_answer = MESSAGE("AnalyzeQueryResponse", pyroscope_analyze_answer_fields);

static const struct pb_json_field pyroscope_version_answer_fields[] = {{"QuerierAPI", 1, PB_JSON_UINT64}};
const struct pb_json_message pyroscope_version_answer = MESSAGE("VersionResponse", pyroscope_version_answer_fields);

static const struct pb_json_field setting_fields[] = {
	{"name", 1, PB_JSON_STRING}, {"value", 2, PB_JSON_STRING}, {"modifiedAt", 3, PB_JSON_INT64}};
static const struct pb_json_message setting = MESSAGE("Setting", setting_fields);

static const struct pb_json_field pyroscope_settings_answer_fields[] = {
	{"settings", 1, PB_JSON_MESSAGE, .repeated = true, .message = &setting}};
const struct pb_json_message pyroscope_settings_answer = MESSAGE("GetSettingsResponse", pyroscope_settings_answer_fields);

/* SetSettingsRequest and SetSettingsResponse. */
static const struct pb_json_field pyroscope_setting_message_fields[] = {{"setting", 1, PB_JSON_MESSAGE, .message = &setting}};
const struct pb_json_message pyroscope_setting_message = MESSAGE("SetSettings", pyroscope_setting_message_fields);

static const struct pb_json_field pyroscope_setting_name_fields[] = {{"name", 1, PB_JSON_STRING}};
const struct pb_json_message pyroscope_setting_name = MESSAGE("DeleteSettingsRequest", pyroscope_setting_name_fields);
