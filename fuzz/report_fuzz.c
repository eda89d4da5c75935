/* SPDX-License-Identifier: Apache-2.0 */
/* Reports of hostile profiles, through all filters. The first four bytes choose: options, and what expressions match. Modes
 * that read the files that a profile names are left out. */
#include <string.h>

#include "base/limits.h"
#include "base/text.h"
#include "format/format.h"
#include "must.h"
#include "render/report.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REPORT_MAX (16 * MIB)

static bool finds(const void *context, struct bytes text)
{
	return text.len > 0 && memchr(text.data, *(const uint8_t *)context, text.len);
}

static void filter(struct profile *profile, const uint8_t *choice)
{
	const struct profile_matcher matcher = {finds, &choice[1]}, other = {finds, &choice[2]};
	const struct profile_names_filter names = {.focus = choice[0] & 1 ? &matcher : NULL,
						   .ignore = choice[0] & 2 ? &other : NULL,
						   .hide = choice[0] & 4 ? &matcher : NULL,
						   .show = choice[0] & 8 ? &other : NULL};
	struct profile_names_found found;
	struct profile_labels_found labels;
	bool any[2];
	(void)profile_filter_names(profile, &names, &found, NULL);
	if (choice[0] & 16)
		(void)profile_filter_show_from(profile, &matcher, &any[0], NULL);
	if (choice[0] & 32)
		(void)profile_filter_prune_from(profile, &other, NULL);
	if (choice[0] & 64)
		(void)profile_filter_prune(profile, &matcher, &other, NULL);
	if (choice[0] & 128)
		(void)profile_filter_labels(profile, &matcher, &other, &labels, NULL);
	if (choice[3] & 128)
		(void)report_add_tag_frames(profile, "bytes,a", "b", "minimum", any, NULL);
	must(profile_set_label(profile, "pprof::base", "true", NULL) <= 0);
}

/* What goes to a terminal has no control characters but line ends and tabs. */
static void check_text(struct bytes text)
{
	for (size_t i = 0; i < text.len; i++)
		must(text.data[i] >= 0x20 || text.data[i] == '\n' || text.data[i] == '\t');
	must(text_is_utf8(text));
}

static void report_all(struct profile *profile, const uint8_t *choice)
{
	static const enum report_mode modes[] = {REPORT_TOP,  REPORT_TREE,	REPORT_PEEK,	REPORT_TRACES,
						 REPORT_TAGS, REPORT_RAW,	REPORT_DOT,	REPORT_CALLGRIND,
						 REPORT_DOT,  REPORT_CALLGRIND, REPORT_COMMENTS};
	const struct profile_matcher matcher = {finds, &choice[1]};
	for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++) {
		uint8_t c = choice[3];
		struct report_options options = {
			.mode = modes[i],
			.detail = {c & 1, c & 2, c & 4, c & 4, c & 8, c & 16, i & 1, NULL, "/src/work"},
			.trim = {.nodes_max = c & 32 ? 7 : 0, .node_fraction = c & 64 ? 0.1 : 0, .edge_fraction = 0.05},
			.call_tree = i >= 8,
			.drop_negative = c & 2,
			.divide_by = c & 4 ? 3 : 1,
			.mean = c & 8,
			.unit = "minimum",
			.symbol = modes[i] == REPORT_PEEK ? &matcher : NULL,
			.symbol_text = "x"};
		struct report report;
		struct buffer out;
		buffer_init(&out, REPORT_MAX);
		if (report_begin(&report, profile, &options, NULL) == 0 && report_write(&report, &out, NULL) == 0)
			check_text(buffer_bytes(&out));
		report_release(&report);
		buffer_release(&out);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct profile *profile = NULL;
	if (size < 4 || pprof_decode((struct bytes){data + 4, size - 4}, NULL, &profile, NULL) < 0)
		return 0;
	(void)report_demangle(profile, data[0] & 1, NULL);
	report_all(profile, data);
	filter(profile, data);
	report_all(profile, data);
	profile_free(profile);
	return 0;
}
