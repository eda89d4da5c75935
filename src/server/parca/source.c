/* SPDX-License-Identifier: Apache-2.0 */
/*
 * REPORT_TYPE_SOURCE (pkg/query/sources.go): the lines of one source file that samples are in, for Parca's source view. The
 * file is named by source_reference { 1 build_id  2 filename  3 source_only }; names of the profile match if they are equal or
 * end in
 * "/" and that name, and an empty build-id matches all binaries.
 *
 *   Source { 1 record  2 source  3 unit }
 *   record, an Arrow stream: filename dictionary(int32, utf8), line_number, cumulative, flat int64; by name and line
 *
 * The text is found as for Wick's own page (symbol/source_text.h): without it `source` is empty, and the lines are there all
 * the same.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/intern.h"
#include "base/order.h"
#include "base/sum.h"
#include "render/units.h"
#include "server/parca/columns.h"
#include "server/parca/report.h"
#include "symbol/source_text.h"

struct source_line {
	uint32_t file; /* a string of the profile: */
	struct bytes name;
	int64_t line;
	int64_t total, self;
	uint64_t stamp;
};
struct source_lines {
	const struct parca_view *view;
	struct intern keys;
	struct source_line *items;
	size_t count, capacity;
};

static void source_lines_release(struct source_lines *lines)
{
	intern_release(&lines->keys);
	mem_free(lines->items);
}

static bool ends_with_name(struct bytes name, struct bytes wanted)
{
	if (bytes_equal(name, wanted))
		return true;
	return wanted.len && name.len > wanted.len && name.data[name.len - wanted.len - 1] == '/' &&
	       memcmp(name.data + name.len - wanted.len, wanted.data, wanted.len) == 0;
}

static bool is_in_binary(const struct parca_source *source, const struct profile *profile, uint32_t location)
{
	uint32_t mapping = profile->locations[location].mapping;
	return !*source->build_id ||
	       strcmp(profile_string(profile, profile->mappings[mapping].build_id), source->build_id) == 0;
}

/* By function: 1 = it is in the file. */
static uint8_t *choose_functions(const struct parca_source *source, const struct profile *profile)
{
	struct bytes wanted = bytes_of_string(source->file);
	uint8_t *chosen = mem_zalloc_array(profile->function_count, 1);
	for (size_t i = 1; chosen && i < profile->function_count; i++)
		chosen[i] = ends_with_name(profile_string_bytes(profile, profile->functions[i].file_name), wanted);
	return chosen;
}

static int count_line(struct source_lines *lines, const struct profile_line *line, uint64_t stamp, int64_t value, bool is_leaf,
		      struct error *err)
{
	const struct profile *profile = lines->view->profile;
	uint32_t file = profile->functions[line->function].file_name, which;
	struct {
		int64_t line;
		uint64_t file;
	} key = {line->line, file};
	if (intern_add(&lines->keys, &key, sizeof(key), &which) < 0)
		return error_nomem(err);
	if (which > lines->count &&
	    array_push(&lines->items, &lines->count, &lines->capacity, UINT32_MAX,
		       (struct source_line){.file = file, .name = profile_string_bytes(profile, file), .line = line->line}) < 0)
		return error_nomem(err);
	struct source_line *entry = &lines->items[which - 1];
	if (entry->stamp != stamp)
		sum_to(&entry->total, value);
	if (is_leaf)
		sum_to(&entry->self, value);
	entry->stamp = stamp;
	return 0;
}

static int count_sample(struct source_lines *lines, const struct parca_source *source, const uint8_t *chosen, size_t sample,
			struct error *err)
{
	const struct profile *profile = lines->view->profile;
	int64_t value = profile->values[sample * profile->sample_type_count + profile->sample_type_count - 1];
	uint32_t leaf = profile->samples[sample].stack;
	int r = 0;
	for (uint32_t stack = leaf; !r && stack; stack = profile->stacks[stack].parent) {
		uint32_t location = profile->stacks[stack].location;
		const struct profile_location *at = &profile->locations[location];
		bool here = at->line_count && is_in_binary(source, profile, location);
		for (uint32_t i = 0; here && !r && i < at->line_count; i++) {
			const struct profile_line *line = &profile->lines[at->line_first + i];
			if (chosen[line->function])
				r = count_line(lines, line, sample + 1, value, stack == leaf && i == 0, err);
		}
	}
	return r;
}

DEFINE_ORDER(compare_lines, struct source_line, bytes_compare(a->name, b->name) ?: ORDER(a->line, b->line));

static int write_record(struct source_lines *lines, struct buffer *out, struct error *err)
{
	static const struct parca_column_form forms[] = {{"filename", PARCA_COLUMN_TEXT_INT32},
							 {"line_number", PARCA_COLUMN_INT64},
							 {"cumulative", PARCA_COLUMN_INT64},
							 {"flat", PARCA_COLUMN_INT64}};
	_cleanup_(parca_columns_release) struct parca_columns columns = {0};
	sort_array(lines->items, lines->count, compare_lines);
	int r = parca_columns_init(&columns, lines->view->profile, forms, sizeof(forms) / sizeof(*forms), lines->count, err);
	for (size_t row = 0; !r && row < lines->count; row++) {
		const struct source_line *line = &lines->items[row];
		parca_columns_set_text(&columns, 0, row, line->file);
		parca_columns_set(&columns, 1, row, (uint64_t)line->line);
		parca_columns_set(&columns, 2, row, (uint64_t)line->total);
		parca_columns_set(&columns, 3, row, (uint64_t)line->self);
	}
	return r < 0 ? r : parca_columns_write(&columns, out, err);
}

int parca_source_write(const struct parca_view *view, const struct parca_source *source, struct buffer *out, struct error *err)
{
	_cleanup_(source_lines_release) struct source_lines lines = {.view = view};
	_cleanup_(mem_freep) uint8_t *chosen = choose_functions(source, view->profile);
	if (!chosen || intern_init(&lines.keys, SIZE_MAX) < 0)
		return error_nomem(err);
	int r = 0;
	for (size_t i = 0; !r && i < view->profile->sample_count; i++)
		r = cancel_requested(view->cancel) ? error_set(err, -ECANCELED, "the client disconnected")
						   : count_sample(&lines, source, chosen, i, err);
	return r < 0 ? r : write_record(&lines, out, err);
}

int parca_source_text(struct parca *p, const struct parca_source *source, const struct profile *profile, struct buffer *out,
		      struct error *err)
{
	const struct symbolizer_want want = {.wait_ns = p->call.query.symbols_wait_ns, .cancel = p->call.query.cancel};
	const char *binary = "", *from;
	for (size_t i = 1; profile && *source->build_id && i < profile->mapping_count; i++)
		if (strcmp(profile_string(profile, profile->mappings[i].build_id), source->build_id) == 0)
			binary = profile_string(profile, profile->mappings[i].file_name);
	if (!p->call.tenant->symbolizer)
		return error_set(err, -ENOENT, "this server has no symbols");
	return source_text_read(p->call.tenant->symbolizer, source->build_id, binary, source->file, &want, out, &from, err);
}
