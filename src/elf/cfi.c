/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the sections of a file to rows. Everything that speaks of code (Go's table of functions, FDEs of .eh_frame, then those
 * of .debug_frame, then linkage table stubs) becomes a list of entries sorted by address; a later kind fills only what the
 * earlier ones leave open. Then one entry after the other gives its rows.
 *
 * Where entries overlap, the one that starts later wins from its start on, and the earlier one does not come back behind it.
 * That is what the runtime's own unwinders do, which look for the last start at or before an address. It also keeps the time
 * linear: every entry is run once.
 */
#include "elf/cfi.h"

#include <errno.h>

#include "base/alloc.h"
#include "elf/cfi_int.h"

#define ALIGNMENT_MAX	64u
#define GAPS_LEAST	256u
#define GIVE_BACK_COUNT 16384u /* entries */
#define CODE_LEAST	16u /* what is shorter lies between functions for alignment, or is a leaf that can do without a rule */

static const struct cfi_machine machines[] = {
	{EM_X86_64, 16, 6, 7, 16, 3},
	{EM_AARCH64, 32, 29, 31, 30, -1},
};

int cfi_put_row(struct cfi_reader *reader, uint64_t address, const union cfi_rule *rule)
{
	if (reader->stats.rows == CFI_ROWS_MAX)
		return error_set(reader->err, -E2BIG, "%s: more than %u rows of call frame information", reader->file->name,
				 CFI_ROWS_MAX);
	reader->last = *rule;
	reader->stats.rows++;
	if (rule->rule.cfa == UNWIND_CFA_UNSUPPORTED)
		reader->stats.unsupported++;
	int r = reader->row(reader->context, address, &rule->rule);
	return r < 0 ? r : 0;
}

static void find_segments(struct cfi_reader *reader)
{
	const struct elf_file *file = reader->file;
	for (size_t i = 0; i < file->segment_count && reader->segment_count < CFI_SEGMENTS_MAX; i++) {
		const struct elf_segment *s = &file->segments[i];
		uint64_t end;
		if (elf_segment_is_executed(s) && !__builtin_add_overflow(s->address, s->memory_size, &end))
			reader->segments[reader->segment_count++] = (struct cfi_range){s->address, end, s->offset};
	}
}

static int fill_from(struct cfi_reader *reader, struct cfi_entries *more)
{
	cfi_entries_sort(more);
	if (more->count == 0)
		return 0;
	if (reader->entries.count > 0)
		return cfi_entries_fill(reader, &reader->entries, more);
	mem_free(reader->entries.items);
	reader->entries = *more;
	*more = (struct cfi_entries){0};
	return 0;
}

static int collect_entries(struct cfi_reader *reader)
{
	int r = 0;
	for (uint32_t i = 0; i < reader->source_count && r == 0; i++) {
		struct cfi_entries more = {0};
		r = cfi_entries_read(reader, i, &more);
		if (r == 0)
			r = fill_from(reader, &more);
		mem_free(more.items);
	}
	if (r < 0)
		return r;
	struct cfi_entries stubs = {0};
	r = cfi_plt_read(reader, &stubs);
	if (r == 0)
		r = fill_from(reader, &stubs);
	mem_free(stubs.items);
	struct cfi_entries outermost = {0};
	if (r == 0)
		r = cfi_entry_point_read(reader, &outermost);
	if (r == 0)
		r = fill_from(reader, &outermost);
	mem_free(outermost.items);
	return r;
}

static uint64_t code_end(const struct cfi_reader *reader)
{
	uint64_t end = 0;
	for (size_t i = 0; i < reader->segment_count; i++)
		end = reader->segments[i].end > end ? reader->segments[i].end : end;
	return end;
}

/* Whether there is so much code that nothing speaks of that it is worth knowing where its functions begin. What lies between
 * functions for alignment is not counted. */
static bool has_gaps(const struct cfi_reader *reader)
{
	uint64_t bytes = 0, segments = 0;
	for (size_t i = 0; i < reader->segment_count; i++)
		segments += reader->segments[i].end - reader->segments[i].start;
	for (size_t i = 0; i < reader->entries.count; i++) {
		const struct cfi_entry *entry = &reader->entries.items[i];
		uint64_t next = i + 1 < reader->entries.count ? entry[1].start : entry->start + entry->len;
		uint64_t padding = next > entry->start + entry->len ? next - entry->start - entry->len : 0;
		bytes += entry->len + (padding < ALIGNMENT_MAX ? padding : 0);
	}
	return segments > bytes && segments - bytes > GAPS_LEAST;
}

/* Rows take the place of the entries that they come from. */
static int give_rows(struct cfi_reader *reader)
{
	static const union cfi_rule none;
	const struct cfi_entries *entries = &reader->entries;
	uint64_t previous_end = 0;
	for (size_t i = 0; i < entries->count; i++) {
		const struct cfi_entry *entry = &entries->items[i];
		uint64_t end = entry->start + entry->len;
		if (i + 1 < entries->count && entries->items[i + 1].start < end)
			end = entries->items[i + 1].start;
		int r = 0;
		if (previous_end < entry->start && entry->start - previous_end < CODE_LEAST)
			r = cfi_emit(reader, previous_end, &none);
		else if (previous_end < entry->start)
			r = cfi_code_run(reader, previous_end, entry->start);
		if (r < 0)
			return r;
		if (entry->kind == CFI_STUB)
			r = cfi_emit(reader, entry->start, &reader->stub_rules[entry->place]);
		else if (entry->kind == CFI_GO || entry->kind == CFI_GO_SPECIAL)
			r = cfi_go_run(reader, entry, end);
		else
			r = cfi_program_run(reader, entry, end);
		if (r < 0)
			return r;
		if (r > 0)
			reader->stats.bad_entries++;
		previous_end = end;
		if (i % GIVE_BACK_COUNT == GIVE_BACK_COUNT - 1)
			mem_give_back(entries->items, (i + 1 - GIVE_BACK_COUNT) * sizeof(*entry), (i + 1) * sizeof(*entry));
	}
	int r = cfi_code_run(reader, previous_end, code_end(reader));
	return r < 0 ? r : cfi_emit(reader, code_end(reader), &none);
}

static int collect_go(struct cfi_reader *reader)
{
	struct cfi_entries functions = {0};
	int r = cfi_go_read(reader, &functions);
	if (r == 0)
		r = fill_from(reader, &functions);
	mem_free(functions.items);
	return r;
}

static int read_file(struct cfi_reader *reader)
{
	find_segments(reader);
	if (reader->segment_count == 0 || reader->file->type == ET_REL)
		return 0;
	int r = collect_go(reader);
	/* Go's .debug_frame says the same again. */
	if (r == 0 && (!reader->go || has_gaps(reader)))
		r = cfi_sources_load(reader);
	if (r < 0)
		return r;
	r = collect_entries(reader);
	if (r == 0 && !reader->listed_only && has_gaps(reader))
		r = cfi_symbols_read(reader);
	return r < 0 ? r : give_rows(reader);
}

static int read_with(struct cfi_reader *reader, struct cfi_stats *ret_stats)
{
	for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++)
		if (machines[i].machine == reader->file->machine)
			reader->machine = &machines[i];
	if (!reader->file->is_64 || !reader->machine)
		return error_set(reader->err, -ENOTSUP, "%s: call frame information is supported for x86-64 and AArch64 only",
				 reader->file->name);
	int r = read_file(reader);
	for (size_t i = 0; i < reader->source_count; i++)
		cfi_source_release(&reader->sources[i]);
	cfi_go_release(reader);
	mem_free(reader->starts);
	mem_free(reader->code);
	mem_free(reader->cies);
	mem_free(reader->entries.items);
	if (r < 0)
		return r;
	if (ret_stats)
		*ret_stats = reader->stats;
	return 0;
}

int cfi_read(struct elf_file *file, cfi_row_function *row, void *context, struct cfi_stats *ret_stats, struct error *err)
{
	struct cfi_reader reader = {.file = file, .row = row, .context = context, .err = err};
	return read_with(&reader, ret_stats);
}

int cfi_read_listed(struct elf_file *file, cfi_row_function *row, void *context, struct cfi_stats *ret_stats, struct error *err)
{
	struct cfi_reader reader = {.file = file, .row = row, .context = context, .err = err, .listed_only = true};
	return read_with(&reader, ret_stats);
}
