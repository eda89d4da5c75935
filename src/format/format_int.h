/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/format: what several formats need. */
#ifndef WICK_FORMAT_FORMAT_INT_H
#define WICK_FORMAT_FORMAT_INT_H

#include "format/format.h"

/*
 * Samples that a format writes as one: equal in stack and labels (and link, if asked), in the order in which the first of each
 * group comes. The samples of a group are a chain: for (i = first[g]; i != SAMPLE_NONE; i = next[i]).
 */
#define SAMPLE_NONE UINT32_MAX
struct sample_groups {
	uint32_t *first; /* by group */
	uint32_t *next;	 /* by sample */
	size_t count;
};
int sample_groups_build(const struct profile *profile, bool by_link, struct sample_groups *ret, struct error *err);
void sample_groups_release(struct sample_groups *groups);
/* Sum of one value over a group; wraps. */
int64_t sample_groups_sum(const struct sample_groups *groups, const struct profile *profile, size_t group, size_t sample_type);

/* Whether a mapping's file name means kernel code: "[kernel.kallsyms]" and whatever starts with "[kernel", and modules in
 * brackets such as "[nf_tables]"; not what the kernel puts into user space ("[vdso]", "[heap]", "[stack:42]" ...). */
bool format_is_kernel_file(struct bytes file_name);
#define FORMAT_KERNEL_FILE "[kernel.kallsyms]"

/* The label's text as a series would show it ("NUMBER" or "NUMBER UNIT" for numeric ones), appended to out. */
int format_append_label_value(const struct profile *profile, const struct profile_label *label, struct buffer *out);

/* What a failed append to a buffer means: -ENOMEM or -E2BIG, said. */
int format_buffer_error(int code, const struct buffer *out, const char *what, struct error *err);

/* Rows of formats[] */
extern const struct format format_pprof, format_otlp, format_folded;

#endif
