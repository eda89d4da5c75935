/* SPDX-License-Identifier: Apache-2.0 */
/* Pyroscope's messages by name, for clients that speak JSON. Numbers as in pyroscope/query.c; those of google.v1.Profile are
 * pprof's. */
#include "server/pyroscope/messages.h"

#define MESSAGE PB_JSON_MESSAGE_OF

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

static const struct pb_json_message label_pair =
	MESSAGE("LabelPair", {"name", 1, PB_JSON_STRING}, {"value", 2, PB_JSON_STRING});

static const struct pb_json_message label_set =
	MESSAGE("Labels", {"labels", 1, PB_JSON_MESSAGE, .repeated = true, .message = &label_pair});

static const struct pb_json_message profile_type =
	MESSAGE("ProfileType", {"ID", 1, PB_JSON_STRING}, {"name", 2, PB_JSON_STRING}, {"sampleType", 4, PB_JSON_STRING},
		{"sampleUnit", 5, PB_JSON_STRING}, {"periodType", 6, PB_JSON_STRING}, {"periodUnit", 7, PB_JSON_STRING});

const struct pb_json_message pyroscope_types_request =
	MESSAGE("ProfileTypesRequest", {"start", 1, PB_JSON_INT64}, {"end", 2, PB_JSON_INT64});

const struct pb_json_message pyroscope_types_answer =
	MESSAGE("ProfileTypesResponse", {"profileTypes", 1, PB_JSON_MESSAGE, .repeated = true, .message = &profile_type});

const struct pb_json_message pyroscope_label_names_request =
	MESSAGE("LabelNamesRequest", {"matchers", 1, PB_JSON_STRING, .repeated = true}, {"start", 2, PB_JSON_INT64},
		{"end", 3, PB_JSON_INT64});

const struct pb_json_message pyroscope_label_values_request =
	MESSAGE("LabelValuesRequest", {"name", 1, PB_JSON_STRING}, {"matchers", 2, PB_JSON_STRING, .repeated = true},
		{"start", 3, PB_JSON_INT64}, {"end", 4, PB_JSON_INT64});

const struct pb_json_message pyroscope_names_answer = MESSAGE("names", {"names", 1, PB_JSON_STRING, .repeated = true});

const struct pb_json_message pyroscope_series_request =
	MESSAGE("SeriesRequest", {"matchers", 1, PB_JSON_STRING, .repeated = true},
		{"labelNames", 2, PB_JSON_STRING, .repeated = true}, {"start", 3, PB_JSON_INT64}, {"end", 4, PB_JSON_INT64});

const struct pb_json_message pyroscope_series_answer =
	MESSAGE("SeriesResponse", {"labelsSet", 2, PB_JSON_MESSAGE, .repeated = true, .message = &label_set});

static const struct pb_json_message location_name = MESSAGE("Location", {"name", 1, PB_JSON_STRING});

static const struct pb_json_message go_pgo =
	MESSAGE("GoPGO", {"keepLocations", 1, PB_JSON_UINT32}, {"aggregateCallees", 2, PB_JSON_BOOL});

static const struct pb_json_message stack_selector =
	MESSAGE("StackTraceSelector", {"callSite", 1, PB_JSON_MESSAGE, .repeated = true, .message = &location_name},
		{"goPgo", 2, PB_JSON_MESSAGE, .message = &go_pgo});

const struct pb_json_message pyroscope_select_series_request =
	MESSAGE("SelectSeriesRequest", {"profileTypeID", 1, PB_JSON_STRING}, {"labelSelector", 2, PB_JSON_STRING},
		{"start", 3, PB_JSON_INT64}, {"end", 4, PB_JSON_INT64}, {"groupBy", 5, PB_JSON_STRING, .repeated = true},
		{"step", 6, PB_JSON_DOUBLE}, {"aggregation", 7, PB_JSON_ENUM, .names = aggregations, .explicit_presence = true},
		{"stackTraceSelector", 8, PB_JSON_MESSAGE, .message = &stack_selector},
		{"limit", 9, PB_JSON_INT64, .explicit_presence = true}, {"exemplarType", 10, PB_JSON_ENUM, .names = exemplars});

static const struct pb_json_message exemplar =
	MESSAGE("Exemplar", {"timestamp", 1, PB_JSON_INT64}, {"profileId", 2, PB_JSON_STRING}, {"spanId", 3, PB_JSON_STRING},
		{"value", 4, PB_JSON_INT64}, {"labels", 5, PB_JSON_MESSAGE, .repeated = true, .message = &label_pair},
		{"traceId", 6, PB_JSON_STRING});

static const struct pb_json_message point = MESSAGE("Point", {"value", 1, PB_JSON_DOUBLE}, {"timestamp", 2, PB_JSON_INT64},
						    {"exemplars", 4, PB_JSON_MESSAGE, .repeated = true, .message = &exemplar});

static const struct pb_json_message series =
	MESSAGE("Series", {"labels", 1, PB_JSON_MESSAGE, .repeated = true, .message = &label_pair},
		{"points", 2, PB_JSON_MESSAGE, .repeated = true, .message = &point});

const struct pb_json_message pyroscope_select_series_answer =
	MESSAGE("SelectSeriesResponse", {"series", 1, PB_JSON_MESSAGE, .repeated = true, .message = &series});

static const struct pb_json_enum async_types[] = {{"ASYNC_QUERY_TYPE_DISABLED", 0}, {"ASYNC_QUERY_TYPE_FORCE", 1}, {0}};
static const struct pb_json_enum async_statuses[] = {{"ASYNC_QUERY_STATUS_UNKNOWN", 0},
						     {"ASYNC_QUERY_STATUS_IN_PROGRESS", 1},
						     {"ASYNC_QUERY_STATUS_SUCCESS", 2},
						     {"ASYNC_QUERY_STATUS_FAILURE", 3},
						     {0}};
static const struct pb_json_message async_request =
	MESSAGE("AsyncQueryRequest", {"requestId", 1, PB_JSON_STRING}, {"type", 2, PB_JSON_ENUM, .names = async_types});
static const struct pb_json_message async_answer =
	MESSAGE("AsyncQueryResponse", {"requestId", 1, PB_JSON_STRING}, {"status", 2, PB_JSON_ENUM, .names = async_statuses},
		{"errorMessage", 3, PB_JSON_STRING});

const struct pb_json_message pyroscope_stacktraces_request = MESSAGE(
	"SelectMergeStacktracesRequest", {"profileTypeID", 1, PB_JSON_STRING}, {"labelSelector", 2, PB_JSON_STRING},
	{"start", 3, PB_JSON_INT64}, {"end", 4, PB_JSON_INT64}, {"maxNodes", 5, PB_JSON_INT64, .explicit_presence = true},
	{"format", 6, PB_JSON_ENUM, .names = formats}, {"stackTraceSelector", 7, PB_JSON_MESSAGE, .message = &stack_selector},
	{"profileIdSelector", 8, PB_JSON_STRING, .repeated = true}, {"async", 9, PB_JSON_MESSAGE, .message = &async_request},
	{"traceIdSelector", 10, PB_JSON_STRING, .repeated = true}, {"spanSelector", 11, PB_JSON_STRING, .repeated = true});

static const struct pb_json_message level = MESSAGE("Level", {"values", 1, PB_JSON_INT64, .repeated = true});

static const struct pb_json_message flame_graph = MESSAGE("FlameGraph", {"names", 1, PB_JSON_STRING, .repeated = true},
							  {"levels", 2, PB_JSON_MESSAGE, .repeated = true, .message = &level},
							  {"total", 3, PB_JSON_INT64}, {"maxSelf", 4, PB_JSON_INT64});

static const struct pb_json_message flame_graph_diff =
	MESSAGE("FlameGraphDiff", {"names", 1, PB_JSON_STRING, .repeated = true},
		{"levels", 2, PB_JSON_MESSAGE, .repeated = true, .message = &level}, {"total", 3, PB_JSON_INT64},
		{"maxSelf", 4, PB_JSON_INT64}, {"leftTicks", 5, PB_JSON_INT64}, {"rightTicks", 6, PB_JSON_INT64});

static const struct pb_json_message value_type = MESSAGE("ValueType", {"type", 1, PB_JSON_INT64}, {"unit", 2, PB_JSON_INT64});

static const struct pb_json_message sample_label = MESSAGE("Label", {"key", 1, PB_JSON_INT64}, {"str", 2, PB_JSON_INT64},
							   {"num", 3, PB_JSON_INT64}, {"numUnit", 4, PB_JSON_INT64});

static const struct pb_json_message sample =
	MESSAGE("Sample", {"locationId", 1, PB_JSON_UINT64, .repeated = true}, {"value", 2, PB_JSON_INT64, .repeated = true},
		{"label", 3, PB_JSON_MESSAGE, .repeated = true, .message = &sample_label});

static const struct pb_json_message mapping =
	MESSAGE("Mapping", {"id", 1, PB_JSON_UINT64}, {"memoryStart", 2, PB_JSON_UINT64}, {"memoryLimit", 3, PB_JSON_UINT64},
		{"fileOffset", 4, PB_JSON_UINT64}, {"filename", 5, PB_JSON_INT64}, {"buildId", 6, PB_JSON_INT64},
		{"hasFunctions", 7, PB_JSON_BOOL}, {"hasFilenames", 8, PB_JSON_BOOL}, {"hasLineNumbers", 9, PB_JSON_BOOL},
		{"hasInlineFrames", 10, PB_JSON_BOOL});

static const struct pb_json_message line = MESSAGE("Line", {"functionId", 1, PB_JSON_UINT64}, {"line", 2, PB_JSON_INT64});

static const struct pb_json_message location =
	MESSAGE("Location", {"id", 1, PB_JSON_UINT64}, {"mappingId", 2, PB_JSON_UINT64}, {"address", 3, PB_JSON_UINT64},
		{"line", 4, PB_JSON_MESSAGE, .repeated = true, .message = &line}, {"isFolded", 5, PB_JSON_BOOL});

static const struct pb_json_message function =
	MESSAGE("Function", {"id", 1, PB_JSON_UINT64}, {"name", 2, PB_JSON_INT64}, {"systemName", 3, PB_JSON_INT64},
		{"filename", 4, PB_JSON_INT64}, {"startLine", 5, PB_JSON_INT64});

const struct pb_json_message pyroscope_profile_answer =
	MESSAGE("Profile", {"sampleType", 1, PB_JSON_MESSAGE, .repeated = true, .message = &value_type},
		{"sample", 2, PB_JSON_MESSAGE, .repeated = true, .message = &sample},
		{"mapping", 3, PB_JSON_MESSAGE, .repeated = true, .message = &mapping},
		{"location", 4, PB_JSON_MESSAGE, .repeated = true, .message = &location},
		{"function", 5, PB_JSON_MESSAGE, .repeated = true, .message = &function},
		{"stringTable", 6, PB_JSON_STRING, .repeated = true}, {"dropFrames", 7, PB_JSON_INT64},
		{"keepFrames", 8, PB_JSON_INT64}, {"timeNanos", 9, PB_JSON_INT64}, {"durationNanos", 10, PB_JSON_INT64},
		{"periodType", 11, PB_JSON_MESSAGE, .message = &value_type}, {"period", 12, PB_JSON_INT64},
		{"comment", 13, PB_JSON_INT64, .repeated = true}, {"defaultSampleType", 14, PB_JSON_INT64});

static const struct pb_json_message pprof_profile =
	MESSAGE("PprofProfile", {"profile", 1, PB_JSON_MESSAGE, .message = &pyroscope_profile_answer});

const struct pb_json_message pyroscope_stacktraces_answer =
	MESSAGE("SelectMergeStacktracesResponse", {"flamegraph", 1, PB_JSON_MESSAGE, .message = &flame_graph},
		{"tree", 2, PB_JSON_BYTES}, {"dot", 3, PB_JSON_STRING}, {"async", 4, PB_JSON_MESSAGE, .message = &async_answer},
		{"pprof", 5, PB_JSON_MESSAGE, .message = &pprof_profile});

const struct pb_json_message pyroscope_spans_request =
	MESSAGE("SelectMergeSpanProfileRequest", {"profileTypeID", 1, PB_JSON_STRING}, {"labelSelector", 2, PB_JSON_STRING},
		{"spanSelector", 3, PB_JSON_STRING, .repeated = true}, {"start", 4, PB_JSON_INT64}, {"end", 5, PB_JSON_INT64},
		{"maxNodes", 6, PB_JSON_INT64, .explicit_presence = true}, {"format", 7, PB_JSON_ENUM, .names = formats});

const struct pb_json_message pyroscope_spans_answer =
	MESSAGE("SelectMergeSpanProfileResponse", {"flamegraph", 1, PB_JSON_MESSAGE, .message = &flame_graph},
		{"tree", 2, PB_JSON_BYTES});

const struct pb_json_message pyroscope_profile_request = MESSAGE(
	"SelectMergeProfileRequest", {"profileTypeID", 1, PB_JSON_STRING}, {"labelSelector", 2, PB_JSON_STRING},
	{"start", 3, PB_JSON_INT64}, {"end", 4, PB_JSON_INT64}, {"maxNodes", 5, PB_JSON_INT64, .explicit_presence = true},
	{"stackTraceSelector", 6, PB_JSON_MESSAGE, .message = &stack_selector},
	{"profileIdSelector", 7, PB_JSON_STRING, .repeated = true}, {"traceIdSelector", 8, PB_JSON_STRING, .repeated = true});

const struct pb_json_message pyroscope_heatmap_request =
	MESSAGE("SelectHeatmapRequest", {"profileTypeID", 1, PB_JSON_STRING}, {"labelSelector", 2, PB_JSON_STRING},
		{"start", 3, PB_JSON_INT64}, {"end", 4, PB_JSON_INT64}, {"step", 5, PB_JSON_DOUBLE},
		{"groupBy", 6, PB_JSON_STRING, .repeated = true}, {"queryType", 7, PB_JSON_ENUM, .names = heatmaps},
		{"exemplarType", 8, PB_JSON_ENUM, .names = exemplars}, {"limit", 9, PB_JSON_INT64, .explicit_presence = true});

static const struct pb_json_message slot =
	MESSAGE("HeatmapSlot", {"timestamp", 1, PB_JSON_INT64}, {"yMin", 2, PB_JSON_DOUBLE, .repeated = true},
		{"counts", 3, PB_JSON_INT32, .repeated = true},
		{"exemplars", 4, PB_JSON_MESSAGE, .repeated = true, .message = &exemplar});

static const struct pb_json_message heatmap_series =
	MESSAGE("HeatmapSeries", {"labels", 1, PB_JSON_MESSAGE, .repeated = true, .message = &label_pair},
		{"slots", 2, PB_JSON_MESSAGE, .repeated = true, .message = &slot});

const struct pb_json_message pyroscope_heatmap_answer =
	MESSAGE("SelectHeatmapResponse", {"series", 1, PB_JSON_MESSAGE, .repeated = true, .message = &heatmap_series});

const struct pb_json_message pyroscope_diff_request =
	MESSAGE("DiffRequest", {"left", 1, PB_JSON_MESSAGE, .message = &pyroscope_stacktraces_request},
		{"right", 2, PB_JSON_MESSAGE, .message = &pyroscope_stacktraces_request});

const struct pb_json_message pyroscope_diff_answer =
	MESSAGE("DiffResponse", {"flamegraph", 1, PB_JSON_MESSAGE, .message = &flame_graph_diff});

const struct pb_json_message pyroscope_stats_answer =
	MESSAGE("GetProfileStatsResponse", {"dataIngested", 1, PB_JSON_BOOL}, {"oldestProfileTime", 2, PB_JSON_INT64},
		{"newestProfileTime", 3, PB_JSON_INT64});

const struct pb_json_message pyroscope_analyze_request =
	MESSAGE("AnalyzeQueryRequest", {"start", 2, PB_JSON_INT64}, {"end", 3, PB_JSON_INT64}, {"query", 4, PB_JSON_STRING});

static const struct pb_json_message scope =
	MESSAGE("QueryScope", {"componentType", 1, PB_JSON_STRING}, {"componentCount", 2, PB_JSON_UINT64},
		{"blockCount", 3, PB_JSON_UINT64}, {"seriesCount", 4, PB_JSON_UINT64}, {"profileCount", 5, PB_JSON_UINT64},
		{"sampleCount", 6, PB_JSON_UINT64}, {"indexBytes", 7, PB_JSON_UINT64}, {"profileBytes", 8, PB_JSON_UINT64},
		{"symbolBytes", 9, PB_JSON_UINT64});

static const struct pb_json_message impact =
	MESSAGE("QueryImpact", {"totalBytesInTimeRange", 2, PB_JSON_UINT64}, {"totalQueriedSeries", 3, PB_JSON_UINT64},
		{"deduplicationNeeded", 4, PB_JSON_BOOL});

const struct pb_json_message pyroscope_analyze_answer =
	MESSAGE("AnalyzeQueryResponse", {"queryScopes", 1, PB_JSON_MESSAGE, .repeated = true, .message = &scope},
		{"queryImpact", 2, PB_JSON_MESSAGE, .message = &impact});

const struct pb_json_message pyroscope_version_answer = MESSAGE("VersionResponse", {"QuerierAPI", 1, PB_JSON_UINT64});

static const struct pb_json_message setting =
	MESSAGE("Setting", {"name", 1, PB_JSON_STRING}, {"value", 2, PB_JSON_STRING}, {"modifiedAt", 3, PB_JSON_INT64});

const struct pb_json_message pyroscope_settings_answer =
	MESSAGE("GetSettingsResponse", {"settings", 1, PB_JSON_MESSAGE, .repeated = true, .message = &setting});

/* SetSettingsRequest and SetSettingsResponse. */
const struct pb_json_message pyroscope_setting_message =
	MESSAGE("SetSettings", {"setting", 1, PB_JSON_MESSAGE, .message = &setting});

const struct pb_json_message pyroscope_setting_name = MESSAGE("DeleteSettingsRequest", {"name", 1, PB_JSON_STRING});
