/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/symbol: the contents of one jitdump. */
#ifndef WICK_SYMBOL_JITDUMP_H
#define WICK_SYMBOL_JITDUMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/limits.h"
#include "base/map.h"
#include "symbol/code_map.h"

#define JITDUMP_HEADER_BYTES	40u
#define JITDUMP_RECORD_BYTES	16u
#define JITDUMP_RECORD_MAX	(64 * MIB) /* a longer one is a lie */
#define JITDUMP_NAME_MAX	4096u	   /* longer names are cut */
#define JITDUMP_ENTRIES_MAX	(256u * 1024)
#define JITDUMP_NAMES_BYTES_MAX (16 * MIB)
#define JITDUMP_LINES_MAX	(1024u * 1024)
#define JITDUMP_HISTORY_NS	(60ll * 1000000000) /* how old a sample may be whose address was used again since */
#define JITDUMP_LATE_NS		1000000000ull	    /* how much later than its first run code may be logged */

struct jitdump_entry {
	uint64_t time_ns, start, code_index;
	uint32_t size, name;		 /* offset in names */
	uint32_t first_line, line_count; /* in lines */
};
struct jitdump_line {
	uint32_t offset, line, file; /* from the start of the function; number; offset in names */
};
struct jitdump {
	bool has_arch_timestamps; /* not comparable with ours: the newest entry is meant, whatever the time */
	bool is_v8;
	bool is_broken, is_closed;     /* nothing more is read */
	struct code_map code;	       /* value = entry */
	struct jitdump_entry *entries; /* in the order of the file */
	size_t entry_count, entry_capacity;
	struct jitdump_line *lines;
	size_t line_count, line_capacity;
	struct buffer names;
	struct map64 by_code_index; /* -> entry; made when the first record asks */
	bool has_index;
	/* The line table that waits for its function. */
	uint64_t pending_start;
	uint32_t pending_first, pending_count;
	/* Added to `entries`, not to `code` yet. */
	size_t unmapped;
	uint64_t newest_ns, records,
		compacted_at; /* of the file; so far; of them at the last time that entries were thrown away */
	uint64_t bad_records, bad_debug_infos, dropped, searches_given_up; /* so far */
	size_t entries_max;						   /* tests lower it */
};

void jitdump_init(struct jitdump *dump);
void jitdump_release(struct jitdump *dump);
/* 0; -EINVAL when it is no header of version 1 in this machine's byte order. */
int jitdump_read_header(struct jitdump *dump, const uint8_t header[static JITDUMP_HEADER_BYTES]);
/* How long the record that begins with these 16 bytes is, and how much of it jitdump_add_record() wants to see (what is behind
 * is code). False when it makes no sense; the dump is broken then. */
bool jitdump_measure_record(struct jitdump *dump, const uint8_t head[static JITDUMP_RECORD_BYTES], uint64_t *ret_len,
			    size_t *ret_want);
/* Takes in a record: its first `want` bytes. 0 or -ENOMEM. */
int jitdump_add_record(struct jitdump *dump, struct bytes record);
/* Call after adding, before finding. 0 or -ENOMEM. */
int jitdump_settle(struct jitdump *dump);
/* What was at the address at the time; NULL when nothing, or when *steps, which counts down, did not suffice. */
const struct jitdump_entry *jitdump_find(struct jitdump *dump, uint64_t address, uint64_t time_ns, size_t *steps);
const struct jitdump_line *jitdump_find_line(const struct jitdump *dump, const struct jitdump_entry *entry, uint64_t address);
static inline const char *jitdump_text(const struct jitdump *dump, uint32_t at)
{
	return (const char *)dump->names.data + at;
}
size_t jitdump_memory_bytes(const struct jitdump *dump);

#endif
