/* SPDX-License-Identifier: Apache-2.0 */
/* Pyroscope's messages for pb_json_to_binary() and back. */
#ifndef WICK_SERVER_PYROSCOPE_MESSAGES_H
#define WICK_SERVER_PYROSCOPE_MESSAGES_H

#include "codec/protobuf_json.h"
#include "server/pyroscope/pyroscope_int.h"

extern const struct pb_json_message pyroscope_empty, pyroscope_types_request, pyroscope_types_answer,
	pyroscope_label_names_request, pyroscope_label_values_request, pyroscope_names_answer, pyroscope_series_request,
	pyroscope_series_answer, pyroscope_select_series_request, pyroscope_select_series_answer, pyroscope_stacktraces_request,
	pyroscope_profile_answer, pyroscope_stacktraces_answer, pyroscope_spans_request, pyroscope_spans_answer,
	pyroscope_profile_request, pyroscope_heatmap_request, pyroscope_heatmap_answer, pyroscope_diff_request,
	pyroscope_diff_answer, pyroscope_stats_answer, pyroscope_analyze_request, pyroscope_analyze_answer,
	pyroscope_version_answer, pyroscope_settings_answer, pyroscope_setting_message, pyroscope_setting_name;

#endif
