/* SPDX-License-Identifier: Apache-2.0 */
/* The formats of src/format/import: the first byte says which. */
#include "format_check.h"

#include "format/format_int.h"

static const struct format *const imports[] = {
	&format_heapprofile, &format_simpleperf,  &format_art_trace, &format_hermes,
	&format_stackprof,   &format_instruments, &format_gecko,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct profile *profile = NULL;
	struct buffer notes;
	if (size == 0)
		return 0;
	const struct format *format = imports[data[0] % (sizeof(imports) / sizeof(imports[0]))];
	struct bytes input = {data + 1, size - 1};
	buffer_init(&notes, 64 * KIB);
	struct format_options options = {.notes = &notes};
	format->detect(input);
	if (format->decode(input, &options, &profile, NULL) == 0)
		check_formats(profile);
	profile_free(profile);
	buffer_release(&notes);
	return 0;
}
