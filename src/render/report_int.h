/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the reports: what they all write with. */
#ifndef WICK_RENDER_REPORT_INT_H
#define WICK_RENDER_REPORT_INT_H

#include "render/report.h"
#include "render/units.h"

/* Whether something could not be appended to report->out. */
int report_failure(const struct report *report, struct error *err);
void report_note(struct report *report, const char *format, ...) __attribute__((format(printf, 2, 3)));

const char *report_format_value(const struct report *report, int64_t value, char out[static UNITS_TEXT_MAX]);
/* "." for 0. */
const char *report_format_or_dot(const struct report *report, int64_t value, char out[static UNITS_TEXT_MAX]);
/* The unit of numeric labels with this key. */
const char *report_label_unit(const struct report *report, uint32_t key);
/* One of the samples' values, and what it is divided by (0 = nothing). */
int64_t report_sample_value(const struct report *report, size_t sample);
int64_t report_sample_divisor(const struct report *report, size_t sample);
/* A label without a text that has a number, or a unit for a 0. */
static inline bool report_is_number(const struct profile_label *label)
{
	return !label->value && (label->number || label->unit);
}

/* A graph with the infos it is made of. */
struct report_graph {
	struct graph_infos infos;
	struct graph graph;
	struct graph_trim_result trimmed;
};
/* Trimmed and sorted, or with all nodes, by no order. To be released even after a failure. */
int report_graph_build(struct report *report, bool trimmed, struct report_graph *ret, struct error *err);
void report_graph_release(struct report_graph *graph);
const char *report_node_name(struct report_graph *graph, uint32_t node); /* printable */

/* The heading's lines, handed over one by one. */
int report_profile_labels(struct report *report, int (*line)(void *context, const char *text), void *context);
int report_graph_labels(struct report *report, const struct report_graph *graph, bool full,
			int (*line)(void *context, const char *text), void *context);
/* The same, appended. */
void report_put_profile_labels(struct report *report);
void report_put_graph_labels(struct report *report, const struct report_graph *graph);

int report_write_top(struct report *report, struct error *err);
int report_write_tree(struct report *report, struct error *err);
int report_write_traces(struct report *report, struct error *err);
int report_write_tags(struct report *report, struct error *err);
int report_write_raw(struct report *report, struct error *err);
int report_write_callgrind(struct report *report, struct error *err);
int report_write_dot(struct report *report, struct error *err);
int report_write_list(struct report *report, struct error *err);
int report_write_disasm(struct report *report, struct error *err);
int report_write_weblist(struct report *report, struct error *err);

/* ---- report_weblist.c: what `list` and `disasm` hand over instead of writing text, while report->code is there ---- */

/* An instruction, and the line of the sample that was met last before it. file NULL = none was. Failures are kept. */
void weblist_add_instruction(struct report *report, const char *file, int64_t line, uint64_t address, int64_t flat, int64_t cum,
			     const char *text);
void weblist_put_total(struct report *report);
void weblist_begin_function(struct report *report, struct bytes name, const char *file, int64_t flat, int64_t cum);
void weblist_put_line(struct report *report, const char *file, int64_t line, int64_t flat, int64_t cum, struct bytes text);
void weblist_end_function(struct report *report, const char *why); /* why there is no source; "" = there is */

#endif
