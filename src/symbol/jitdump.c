// SPDX-License-Identifier: Apache-2.0
/*
 * jitdump, the file in which JIT compilers say what code they made, and when (perf's tools/perf/Documentation/
 * jitdump-specification.txt, version 1). Numbers are in the machine's byte order:
 *
 *   header      u32 magic 'JiTD', u32 version 1, u32 length, u32 ELF machine, u32 padding, u32 pid, u64 time, u64 flags
 *               (bit 0: times are of the processor's counter instead of CLOCK_MONOTONIC)
 *   record      u32 kind, u32 length with this, u64 time, and by kind:
 *     0 LOAD        u32 pid, u32 tid, u64 vma, u64 address, u64 size, u64 index, name NUL, the code
 *     1 MOVE        u32 pid, u32 tid, u64 vma, u64 old address, u64 new address, u64 size, u64 index
 *     2 DEBUG_INFO  u64 address, u64 count, count x (u64 address, u32 line, u32 discriminator, file NUL); for the LOAD that
 *                   follows; a file "\xff" is that of the entry before
 *     3 CLOSE       the end
 *     4 UNWINDING_INFO  (left out: frames of code made at run time are found by their frame pointers)
 *
 * Memory is used again, so an address alone does not name a function: of the entries that hold it, the last one that was loaded
 * before the sample counts. Nearly always that is the last one of all, which a code_map finds; only when that is younger than
 * the sample, older entries are searched, newest first. The search is paid from a budget, so that a file made for it cannot
 * keep the agent busy. Entries that are covered and older than any sample that may still come are thrown away when room is
 * needed. (Rejected: one interval tree over all entries: four times the memory, for the sake of the rare case.)
 *
 * What the file says is believed only as far as it is consistent. A record whose length is impossible ends the reading, since
 * nothing behind it can be found. A line table with one impossible entry is left out as a whole: node 20 writes file names from
 * memory that it has given back, so that even its lengths are wrong. A node's addresses in line tables are 64 bytes too high,
 * made for a tool that puts an ELF header before the code; its header says 0xdeadbeef as padding.
 */
#include "symbol/jitdump.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/sorted.h"
#include "base/text.h"

#define MAGIC		0x4a695444u
#define VERSION		1u
#define ARCH_TIMESTAMP	1u
#define V8_PADDING	0xdeadbeefu
#define V8_LINE_SHIFT	0x40u
#define LOAD_BYTES	56u
#define MOVE_BYTES	64u
#define DEBUG_BYTES	32u
#define DEBUG_WANT_MAX	(8 * MIB) /* of one line table */
#define LINE_BYTES	16u
#define SAME_FILE	0xffu
#define COMPACT_RECORDS 65536u

enum record_kind { RECORD_LOAD, RECORD_MOVE, RECORD_DEBUG_INFO, RECORD_CLOSE, RECORD_UNWINDING_INFO };

static uint32_t get32(const uint8_t *at)
{
	uint32_t value;
	memcpy(&value, at, sizeof(value));
	return value;
}

static uint64_t get64(const uint8_t *at)
{
	uint64_t value;
	memcpy(&value, at, sizeof(value));
	return value;
}

/* ---- life ---- */

void jitdump_init(struct jitdump *dump)
{
	*dump = (struct jitdump){.entries_max = JITDUMP_ENTRIES_MAX, .names.max = JITDUMP_NAMES_BYTES_MAX};
}

void jitdump_release(struct jitdump *dump)
{
	size_t entries_max = dump->entries_max;
	code_map_release(&dump->code);
	mem_free(dump->entries);
	mem_free(dump->lines);
	buffer_release(&dump->names);
	map64_release(&dump->by_code_index);
	jitdump_init(dump);
	dump->entries_max = entries_max;
}

size_t jitdump_memory_bytes(const struct jitdump *dump)
{
	return dump->code.capacity * sizeof(*dump->code.pieces) + dump->entry_capacity * sizeof(*dump->entries) +
	       dump->line_capacity * sizeof(*dump->lines) + dump->names.capacity +
	       dump->by_code_index.capacity * (sizeof(struct map64_entry) + 1);
}

int jitdump_read_header(struct jitdump *dump, const uint8_t header[static JITDUMP_HEADER_BYTES])
{
	if (get32(header) != MAGIC || get32(header + 4) != VERSION || get32(header + 8) < JITDUMP_HEADER_BYTES)
		return -EINVAL;
	dump->is_v8 = get32(header + 16) == V8_PADDING;
	dump->has_arch_timestamps = get64(header + 32) & ARCH_TIMESTAMP;
	return 0;
}

/* ---- throwing away ---- */

struct survivors {
	struct jitdump_entry *entries;
	uint32_t *numbers; /* old entry -> new one + 1; 0 = thrown away */
	size_t count;
	struct jitdump_line *lines;
	size_t line_count;
	struct buffer names;
	struct map64 moved;
};

static void survivors_release(struct survivors *survivors)
{
	mem_free(survivors->entries);
	mem_free(survivors->numbers);
	mem_free(survivors->lines);
	buffer_release(&survivors->names);
	map64_release(&survivors->moved);
}

static int keep_entry(const struct jitdump *dump, const struct jitdump_entry *entry, struct survivors *out)
{
	struct jitdump_entry kept = *entry;
	int r = code_names_keep(&dump->names, entry->name, &out->moved, &out->names, &kept.name);
	kept.first_line = (uint32_t)out->line_count;
	for (uint32_t i = 0; i < entry->line_count && r == 0; i++) {
		struct jitdump_line line = dump->lines[entry->first_line + i];
		r = code_names_keep(&dump->names, line.file, &out->moved, &out->names, &line.file);
		out->lines[out->line_count++] = line;
	}
	out->entries[out->count++] = kept;
	return r;
}

static int select_survivors(const struct jitdump *dump, struct survivors *out)
{
	size_t most_lines = 0;
	out->numbers = mem_zalloc_array(dump->entry_count, sizeof(*out->numbers));
	if (!out->numbers)
		return -ENOMEM;
	for (size_t i = 0; i < dump->code.count; i++)
		out->numbers[dump->code.pieces[i].value] = 1;
	for (size_t i = 0; i < dump->entry_count; i++) {
		if (dump->newest_ns - dump->entries[i].time_ns < JITDUMP_HISTORY_NS)
			out->numbers[i] = 1;
		if (out->numbers[i]) {
			out->numbers[i] = (uint32_t)++out->count;
			most_lines += dump->entries[i].line_count;
		}
	}
	out->entries = mem_alloc_array(out->count, sizeof(*out->entries));
	out->lines = mem_alloc_array(most_lines, sizeof(*out->lines));
	out->count = 0;
	return out->entries && out->lines ? 0 : -ENOMEM;
}

/* Forgets covered entries that are too old to be asked for. Only between records. */
static int compact(struct jitdump *dump)
{
	_cleanup_(survivors_release) struct survivors out = {.names.max = dump->names.max};
	int r = jitdump_settle(dump);
	if (r == 0)
		r = select_survivors(dump, &out);
	for (size_t i = 0; i < dump->entry_count && r == 0; i++)
		r = out.numbers[i] ? keep_entry(dump, &dump->entries[i], &out) : 0;
	if (r < 0)
		return r;
	for (size_t i = 0; i < dump->code.count; i++)
		dump->code.pieces[i].value = out.numbers[dump->code.pieces[i].value] - 1;
	struct jitdump old = *dump;
	dump->entries = out.entries;
	dump->entry_count = dump->entry_capacity = out.count;
	dump->lines = out.lines;
	dump->line_count = dump->line_capacity = out.line_count;
	dump->names = out.names;
	dump->pending_count = 0;
	out.entries = old.entries;
	out.lines = old.lines;
	out.names = old.names;
	map64_clear(&dump->by_code_index);
	dump->has_index = false;
	return 0;
}

/* Before a load: room for an entry, a name, and some lines. 0, -E2BIG = the limits leave none, -ENOMEM. */
static int make_room(struct jitdump *dump, size_t text_bytes, size_t lines)
{
	for (int attempt = 0; attempt < 2; attempt++) {
		if (dump->entry_count < dump->entries_max && dump->names.len + text_bytes <= dump->names.max &&
		    dump->line_count + lines <= JITDUMP_LINES_MAX)
			return 0;
		/* Not for each record of a file that is full and stays so. */
		if (attempt || dump->records - dump->compacted_at < COMPACT_RECORDS)
			break;
		dump->compacted_at = dump->records;
		int r = compact(dump);
		if (r < 0)
			return r;
	}
	return -E2BIG;
}

/* ---- records ---- */

bool jitdump_measure_record(struct jitdump *dump, const uint8_t head[static JITDUMP_RECORD_BYTES], uint64_t *ret_len,
			    size_t *ret_want)
{
	uint32_t kind = get32(head), len = get32(head + 4);
	size_t want = JITDUMP_RECORD_BYTES;
	if (len < JITDUMP_RECORD_BYTES || len > JITDUMP_RECORD_MAX) {
		dump->bad_records++;
		dump->is_broken = true;
		return false;
	}
	if (kind == RECORD_LOAD)
		want = LOAD_BYTES + JITDUMP_NAME_MAX + 1;
	else if (kind == RECORD_MOVE)
		want = MOVE_BYTES;
	else if (kind == RECORD_DEBUG_INFO)
		want = DEBUG_WANT_MAX;
	*ret_len = len;
	*ret_want = want < len ? want : len;
	return true;
}

static int append_entry(struct jitdump *dump, const struct jitdump_entry *entry)
{
	int r = array_reserve(&dump->entries, &dump->entry_capacity, dump->entry_count + 1, dump->entries_max);
	if (r < 0)
		return r;
	if (dump->has_index && map64_put(&dump->by_code_index, entry->code_index, dump->entry_count) < 0)
		return -ENOMEM;
	dump->entries[dump->entry_count++] = *entry;
	dump->unmapped++;
	return 0;
}

static bool is_range(uint64_t start, uint64_t size)
{
	return size > 0 && size <= UINT32_MAX && size <= UINT64_MAX - start;
}

/* Drops the pending lines, which are the last ones. */
static void drop_pending(struct jitdump *dump)
{
	if (dump->pending_count)
		dump->line_count = dump->pending_first;
	dump->pending_count = 0;
}

/* Gives the pending line table to a function, if it is its own. */
static void take_lines(struct jitdump *dump, struct jitdump_entry *entry)
{
	uint32_t count = dump->pending_count;
	if (!count)
		return;
	/* Behind the function's end nothing was made. */
	const struct jitdump_line *last = &dump->lines[dump->pending_first + count - 1];
	if (dump->pending_start != entry->start || last->offset >= entry->size) {
		dump->bad_debug_infos++;
		drop_pending(dump);
		return;
	}
	entry->first_line = dump->pending_first;
	entry->line_count = count;
	dump->pending_count = 0;
}

static int add_load(struct jitdump *dump, struct bytes record)
{
	const uint8_t *at = record.data;
	struct jitdump_entry entry = {.time_ns = get64(at + 8)};
	const uint8_t *name = at + LOAD_BYTES;
	size_t room = record.len > LOAD_BYTES ? record.len - LOAD_BYTES : 0;
	const uint8_t *end = room ? memchr(name, 0, room) : NULL;
	size_t len = end ? (size_t)(end - name) : JITDUMP_NAME_MAX;
	if ((!end && room <= JITDUMP_NAME_MAX) || len == 0 || !is_range(get64(at + 32), get64(at + 40))) {
		dump->bad_records++;
		drop_pending(dump);
		return 0;
	}
	entry.start = get64(at + 32);
	entry.size = (uint32_t)get64(at + 40);
	entry.code_index = get64(at + 48);
	int r = make_room(dump, len + 1, 0);
	if (r == 0)
		r = code_names_add(&dump->names, name, len, &entry.name);
	if (r == 0) {
		take_lines(dump, &entry);
		r = append_entry(dump, &entry);
	}
	if (r < 0)
		drop_pending(dump);
	dump->dropped += r == -E2BIG;
	return r == -E2BIG ? 0 : r;
}

static int make_index(struct jitdump *dump)
{
	if (dump->has_index)
		return 0;
	for (size_t i = 0; i < dump->entry_count; i++) {
		int r = map64_put(&dump->by_code_index, dump->entries[i].code_index, i);
		if (r < 0)
			return r;
	}
	dump->has_index = true;
	return 0;
}

/* The function of that index, which is unique in a file, goes on elsewhere. */
static int add_move(struct jitdump *dump, struct bytes record)
{
	const uint8_t *at = record.data;
	uint64_t index = get64(at + 56), from = get64(at + 32), known;
	int r = make_room(dump, 0, 0);
	if (r == 0)
		r = make_index(dump);
	if (r < 0) {
		dump->dropped += r == -E2BIG;
		return r == -E2BIG ? 0 : r;
	}
	if (!map64_get(&dump->by_code_index, index, &known) || dump->entries[known].start != from ||
	    !is_range(get64(at + 40), get64(at + 48))) {
		dump->bad_records++;
		return 0;
	}
	struct jitdump_entry entry = dump->entries[known];
	entry.time_ns = get64(at + 8);
	entry.start = get64(at + 40);
	entry.size = (uint32_t)get64(at + 48);
	return append_entry(dump, &entry);
}

/* ---- line tables ---- */

/* A path as a person would write it. */
static bool is_file_name(struct bytes name)
{
	for (size_t i = 0; i < name.len; i++) {
		if (name.data[i] < 0x20 || name.data[i] == 0x7f)
			return false;
	}
	return name.len > 0 && name.len <= JITDUMP_NAME_MAX && text_is_utf8(name);
}

/* One entry at *at; moves it. 0, -EINVAL when it makes no sense, -E2BIG, -ENOMEM. */
static int add_line(struct jitdump *dump, uint64_t start, const uint8_t **at, const uint8_t *end, struct bytes *last_file)
{
	const uint8_t *p = *at;
	if ((size_t)(end - p) <= LINE_BYTES)
		return -EINVAL;
	const uint8_t *name = p + LINE_BYTES, *name_end = memchr(name, 0, (size_t)(end - name));
	uint64_t address = get64(p) - (dump->is_v8 ? V8_LINE_SHIFT : 0), offset = address - start;
	if (!name_end || get64(p) < start || offset > UINT32_MAX || get32(p + 8) > INT32_MAX)
		return -EINVAL;
	struct jitdump_line line = {.offset = (uint32_t)offset, .line = get32(p + 8)};
	struct bytes file = {name, (size_t)(name_end - name)};
	bool is_first = dump->pending_count == 0;
	const struct jitdump_line *before = is_first ? NULL : &dump->lines[dump->line_count - 1];
	if (before && line.offset < before->offset)
		return -EINVAL;
	if (before && ((file.len == 1 && file.data[0] == SAME_FILE) || bytes_equal(file, *last_file))) {
		line.file = before->file;
	} else {
		if (!is_file_name(file))
			return -EINVAL;
		int r = code_names_add(&dump->names, file.data, file.len, &line.file);
		if (r < 0)
			return r;
		*last_file = file;
	}
	int r = array_push(&dump->lines, &dump->line_count, &dump->line_capacity, JITDUMP_LINES_MAX, line);
	if (r < 0)
		return r;
	dump->pending_count++;
	*at = name_end + 1;
	return 0;
}

static int add_debug_info(struct jitdump *dump, struct bytes record)
{
	const uint8_t *at = record.data + DEBUG_BYTES, *end = record.data + record.len;
	uint64_t start = get64(record.data + 16), count = get64(record.data + 24);
	size_t names_before = dump->names.len;
	struct bytes last_file = {0};
	drop_pending(dump);
	if (count > (record.len - DEBUG_BYTES) / (LINE_BYTES + 1) || record.len == DEBUG_WANT_MAX) {
		dump->bad_debug_infos++;
		return 0;
	}
	int r = make_room(dump, record.len, (size_t)count);
	dump->pending_start = start;
	dump->pending_first = (uint32_t)dump->line_count;
	for (uint64_t i = 0; i < count && r == 0; i++)
		r = add_line(dump, start, &at, end, &last_file);
	if (r < 0) {
		drop_pending(dump);
		buffer_truncate(&dump->names, names_before);
		dump->bad_debug_infos += r == -EINVAL;
		dump->dropped += r == -E2BIG;
	}
	return r == -ENOMEM ? r : 0;
}

int jitdump_add_record(struct jitdump *dump, struct bytes record)
{
	uint64_t time_ns = get64(record.data + 8);
	dump->records++;
	if (time_ns > dump->newest_ns)
		dump->newest_ns = time_ns;
	switch (get32(record.data)) {
	case RECORD_LOAD:
		if (record.len >= LOAD_BYTES)
			return add_load(dump, record);
		break;
	case RECORD_MOVE:
		if (record.len >= MOVE_BYTES)
			return add_move(dump, record);
		break;
	case RECORD_DEBUG_INFO:
		if (record.len >= DEBUG_BYTES)
			return add_debug_info(dump, record);
		break;
	case RECORD_CLOSE: dump->is_closed = true; return 0;
	default: /* unwinding information, and what later versions add */ return 0;
	}
	dump->bad_records++;
	return 0;
}

/* ---- finding ---- */

int jitdump_settle(struct jitdump *dump)
{
	size_t count = dump->unmapped, first = dump->entry_count - count;
	if (!count)
		return 0;
	_cleanup_(mem_freep) struct code_piece *batch = mem_alloc_array(2 * count, sizeof(*batch));
	if (!batch)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		const struct jitdump_entry *entry = &dump->entries[first + i];
		batch[i] = (struct code_piece){entry->start, entry->start, entry->size, (uint32_t)(first + i)};
	}
	int r = code_map_add(&dump->code, batch, count);
	if (r == 0)
		dump->unmapped = 0;
	return r;
}

const struct jitdump_entry *jitdump_find(struct jitdump *dump, uint64_t address, uint64_t time_ns, size_t *steps)
{
	const struct code_piece *piece = code_map_find(&dump->code, address);
	if (!piece)
		return NULL;
	const struct jitdump_entry *entry = &dump->entries[piece->value], *earliest = entry;
	if (entry->time_ns <= time_ns || dump->has_arch_timestamps)
		return entry;
	for (size_t i = piece->value; i-- > 0;) {
		if ((*steps)-- == 0) {
			*steps = 0;
			dump->searches_given_up++;
			return NULL;
		}
		entry = &dump->entries[i];
		if (address - entry->start >= entry->size)
			continue;
		if (entry->time_ns <= time_ns)
			return entry;
		earliest = entry;
	}
	return earliest->time_ns - time_ns <= JITDUMP_LATE_NS ? earliest : NULL;
}

const struct jitdump_line *jitdump_find_line(const struct jitdump *dump, const struct jitdump_entry *entry, uint64_t address)
{
	if (!entry->line_count)
		return NULL;
	const struct jitdump_line *lines = &dump->lines[entry->first_line];
	size_t before = sorted_count_while(entry->line_count, i, lines[i].offset <= address - entry->start);
	return before ? &lines[before - 1] : NULL;
}
