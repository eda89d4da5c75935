/* SPDX-License-Identifier: Apache-2.0 */
/* Reading profile files, as `wick convert` does, for the verbs that do other things with them. */
#ifndef WICK_CMD_CONVERT_H
#define WICK_CMD_CONVERT_H

#include <stdbool.h>

#include "cmd/symbolize.h"

struct format;
struct operands;
struct inputs_options {
	const struct format *format; /* NULL = by content, then by extension */
	bool quiet;		     /* do not say what was left out */
	enum symbols_how symbols;
	const char *sample_type; /* the value to show; NULL = the profile's own choice */
};
/* --from and --symbols; NULL = the defaults. -EINVAL. */
int inputs_parse(const char *from, const char *symbols, struct inputs_options *ret, struct error *err);
/* One profile of all files, of which there is at least one; with names, as the options say. */
int inputs_read(const struct operands *inputs, const struct inputs_options *options, struct profile **ret, struct error *err);

#endif
