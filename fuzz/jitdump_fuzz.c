/* SPDX-License-Identifier: Apache-2.0 */
/* jitdumps: any bytes, read at once and in two parts as a file that grows, give the same functions, and what a plain search of
 * the entries gives: the last one that holds the address and was loaded by then. */
#include <stdlib.h>
#include <string.h>

#include "symbol/jitdump.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Takes whole records in up to `end`; *at is where reading goes on. */
static void feed(struct jitdump *dump, const uint8_t *data, size_t *at, size_t end)
{
	while (end - *at >= JITDUMP_RECORD_BYTES && !dump->is_broken && !dump->is_closed) {
		uint64_t len;
		size_t want;
		if (!jitdump_measure_record(dump, data + *at, &len, &want) || len > end - *at)
			break;
		if (want > len || want < JITDUMP_RECORD_BYTES)
			abort();
		/* A copy of its own, so that reading past it is seen. */
		uint8_t *record = malloc(want);
		memcpy(record, data + *at, want);
		if (jitdump_add_record(dump, (struct bytes){record, want}) < 0)
			abort();
		free(record);
		*at += len;
	}
	if (jitdump_settle(dump) < 0)
		abort();
}

static void check_lines(const struct jitdump *dump, const struct jitdump_entry *entry)
{
	if (!entry->line_count)
		return;
	if (entry->first_line > dump->line_count || entry->line_count > dump->line_count - entry->first_line)
		abort();
	for (uint64_t offset = 0; offset < entry->size; offset += 1 + entry->size / 16) {
		const struct jitdump_line *line = jitdump_find_line(dump, entry, entry->start + offset);
		if (line && (line->offset > offset || line->file >= dump->names.len))
			abort();
	}
}

static void check_find(struct jitdump *dump, uint64_t address, uint64_t time_ns)
{
	const struct jitdump_entry *expected = NULL;
	for (size_t i = 0; i < dump->entry_count; i++) {
		const struct jitdump_entry *entry = &dump->entries[i];
		if (address - entry->start < entry->size && entry->time_ns <= time_ns)
			expected = entry;
	}
	size_t steps = SIZE_MAX;
	const struct jitdump_entry *found = jitdump_find(dump, address, time_ns, &steps);
	if (expected && found != expected)
		abort();
	if (found && address - found->start >= found->size)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct jitdump whole, parts;
	size_t at = JITDUMP_HEADER_BYTES;
	jitdump_init(&whole);
	jitdump_init(&parts);
	/* The first byte says where the file is cut, the rest is the file. */
	if (size > JITDUMP_HEADER_BYTES && jitdump_read_header(&whole, data + 1) == 0 && size - 1 >= JITDUMP_HEADER_BYTES) {
		size_t len = size - 1, cut = JITDUMP_HEADER_BYTES + (len - JITDUMP_HEADER_BYTES) * data[0] / 255;
		jitdump_read_header(&parts, data + 1);
		feed(&whole, data + 1, &at, len);
		at = JITDUMP_HEADER_BYTES;
		feed(&parts, data + 1, &at, cut);
		feed(&parts, data + 1, &at, len);
		if (whole.entry_count != parts.entry_count || whole.code.count != parts.code.count)
			abort();
		for (size_t i = 0; i < whole.entry_count && !whole.has_arch_timestamps; i++) {
			const struct jitdump_entry *entry = &whole.entries[i];
			if (strcmp(jitdump_text(&whole, entry->name), jitdump_text(&parts, parts.entries[i].name)) != 0)
				abort();
			check_lines(&whole, entry);
			check_find(&whole, entry->start, entry->time_ns);
			check_find(&whole, entry->start + entry->size - 1, UINT64_MAX);
			check_find(&parts, entry->start + entry->size / 2, entry->time_ns - 1);
		}
	}
	jitdump_release(&whole);
	jitdump_release(&parts);
	return 0;
}
