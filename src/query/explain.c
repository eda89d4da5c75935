/* SPDX-License-Identifier: Apache-2.0 */
/* What a query did and what it cost, for people (--explain) and programs (explain=1). */
#include <inttypes.h>
#include <string.h>

#include "base/sum.h"
#include "base/text.h"
#include "base/time.h"
#include "query/pipeline_int.h"

static const char *const phase_names[STORE_PHASES] = {
	[STORE_PHASE_PLAN] = "plan",   [STORE_PHASE_INDEX] = "index",	[STORE_PHASE_SCAN] = "scan",
	[STORE_PHASE_MERGE] = "merge", [STORE_PHASE_STACKS] = "stacks",
};

struct figure {
	const char *name;
	uint64_t value;
};
#define FIGURES_MAX 20
static size_t figures_of(const struct query_stats *stats, struct figure out[static FIGURES_MAX])
{
	const struct store_read_stats *read = &stats->read;
	const struct figure figures[] = {
		{"blocks", read->blocks},
		{"blocks_skipped", read->blocks_skipped},
		{"from_samples", read->from_samples},
		{"from_rollups", read->from_rollups},
		{"from_totals", read->from_totals},
		{"row_groups", read->groups},
		{"row_groups_skipped", read->groups_skipped},
		{"pages", read->pages},
		{"pages_skipped", read->pages_skipped},
		{"series", read->series},
		{"rows", read->rows},
		{"head_rows", read->head_rows},
		{"bytes", read->bytes},
		{"cache_hits", read->cache_hits},
		{"cache_misses", read->cache_misses},
		{"stacks", read->stacks},
		{"locations_resolved", stats->symbols.resolved},
		{"locations_unresolved", stats->symbols.pending + stats->symbols.missing},
	};
	memcpy(out, figures, sizeof(figures));
	return sizeof(figures) / sizeof(*figures);
}

/* Phases of the store, then what is done here. */
static size_t times_of(const struct query_stats *stats, struct figure out[static FIGURES_MAX])
{
	size_t count = 0;
	out[count++] = (struct figure){"parse", stats->parse_ns};
	out[count++] = (struct figure){"read", stats->read_ns};
	for (size_t i = 0; i < STORE_PHASES; i++)
		out[count++] = (struct figure){phase_names[i], stats->read.phase_ns[i]};
	out[count++] = (struct figure){"symbolize", stats->symbolize_ns};
	out[count++] = (struct figure){"transform", stats->transform_ns};
	return count;
}

static void append_indented(struct buffer *out, const char *text)
{
	while (*text) {
		size_t len = strcspn(text, "\n");
		buffer_printf(out, "  %.*s\n", (int)len, text);
		text += len + (text[len] == '\n');
	}
}

static void append_figures(const struct query_stats *stats, struct buffer *out)
{
	const struct store_read_stats *read = &stats->read;
	char a[TEXT_NUMBER_MAX], b[TEXT_NUMBER_MAX], c[TEXT_NUMBER_MAX], d[TEXT_NUMBER_MAX];
	buffer_printf(out,
		      "blocks      %" PRIu64 " read, %" PRIu64 " skipped; parts read as samples %" PRIu64 ", rollups %" PRIu64
		      ", totals %" PRIu64 "\n",
		      read->blocks, read->blocks_skipped, read->from_samples, read->from_rollups, read->from_totals);
	buffer_printf(out,
		      "row groups  %" PRIu64 " read, %" PRIu64 " skipped\npages       %" PRIu64 " read, %" PRIu64 " skipped\n",
		      read->groups, read->groups_skipped, read->pages, read->pages_skipped);
	buffer_printf(out, "rows        %s, and %s in memory, of %s series\nbytes       %s\n", text_format_count(read->rows, a),
		      text_format_count(read->head_rows, b), text_format_count(read->series, c),
		      text_format_size(read->bytes, d));
	buffer_printf(out, "indexes     %" PRIu64 " from the cache, %" PRIu64 " read\n", read->cache_hits, read->cache_misses);
	buffer_printf(out, "stacks      %s; locations symbolized %s, without symbols %s\n", text_format_count(read->stacks, a),
		      text_format_count(stats->symbols.resolved, b),
		      text_format_count(stats->symbols.pending + stats->symbols.missing, c));
}

int query_explain_text(const struct query_explain *explain, const struct query_stats *stats, struct buffer *out)
{
	struct figure times[FIGURES_MAX];
	size_t count = times_of(stats, times);
	if (explain && explain->query)
		buffer_printf(out, "query\n  %s\n", explain->query);
	if (explain && explain->plan) {
		buffer_append_string(out, "plan\n");
		append_indented(out, explain->plan);
	}
	append_figures(stats, out);
	buffer_append_string(out, "ms         ");
	for (size_t i = 0; i < count; i++)
		buffer_printf(out, " %s%s %.2f", i >= 2 && i < 2 + STORE_PHASES ? "." : "", times[i].name,
			      (double)times[i].value / NS_PER_MS);
	buffer_append_byte(out, '\n');
	if (stats->read.partial)
		buffer_printf(out, "partial     %s\n", stats->read.why);
	if (stats->read.saturated)
		buffer_append_string(out, "warning     " SUM_WARNING "\n");
	return buffer_status(out);
}

void query_explain_json(const struct query_explain *explain, const struct query_stats *stats, struct json_writer *json)
{
	struct figure figures[FIGURES_MAX];
	json_begin_object(json);
	if (explain && explain->query)
		json_member_cstring(json, "query", explain->query);
	if (explain && explain->plan) {
		json_member_array(json, "plan");
		for (const char *line = explain->plan; *line;) {
			size_t len = strcspn(line, "\n");
			json_bytes(json, (struct bytes){(const uint8_t *)line, len});
			line += len + (line[len] == '\n');
		}
		json_end_array(json);
	}
	for (size_t i = 0, count = figures_of(stats, figures); i < count; i++)
		json_member_uint(json, figures[i].name, figures[i].value);
	json_member_object(json, "ms");
	for (size_t i = 0, count = times_of(stats, figures); i < count; i++)
		json_member_double(json, figures[i].name, (double)figures[i].value / NS_PER_MS);
	json_end_object(json);
	json_end_object(json);
}
