/* SPDX-License-Identifier: MIT */
/*
 * What a program that uses libwickmark and a recorder share: one memfd per process. Private to the two; programs use
 * wickmark.h.
 *
 *   header    512 B     magic, sizes, the switch and its lease, counts
 *   threads   192 B x   WICKMARK_THREADS: who writes the ring of the same number, head, tail, lost
 *   sites     256 B x   WICKMARK_SITES: category, name, fields; append-only
 *   strings   1 MiB     length and bytes, padded to 4; append-only; a string is its offset, 0 = none
 *   longs     64 B x    WICKMARK_LONGS: spans under way
 *   rings     256 KiB x WICKMARK_THREADS: records of 32 B
 *
 * The file has its full size from the start and is sealed against any other; only the pages that are written exist. It is
 * called WICKMARK_NAME, by which a recorder finds it in /proc/PID/maps.
 *
 * A ring has one writer, the thread, and one reader, the recorder. head and tail count records for ever; the place is the count
 * modulo WICKMARK_RECORDS. The writer fills the record, then stores head (release). The recorder copies, then stores tail. If
 * there is no room the writer drops what it has, and counts it in lost.
 *
 * A thread's entry is FREE, ACTIVE, or ENDED when the thread has ended. The recorder makes an ENDED one FREE, once it has read
 * what is in the ring, so the records of two threads do not mix; while nobody records, another thread may claim one whose ring
 * is empty. generation counts the threads that had it. A thread has an entry from its first marker on, or its first name.
 *
 * The switch. `enabled` is 0 unless a recorder holds the lease: it writes a deadline (CLOCK_MONOTONIC, ns) to lease_ns every
 * now and then, and a number of its choice to recorder. A number with WICKMARK_GIVES_WAY is one of a recorder that runs all the
 * time: one without it may take the lease from it at any moment, and writes its own number over it. A writer that finds the
 * lease expired, which it looks for now and then, turns the switch off: a recorder that was killed costs nothing for long.
 *
 * Whom to tell. A process that begins hands its file to the socket that its environment names, and one that was forked to the
 * one that the recorder wrote into its parent's header, for it may be killed before it is found.
 *
 * Times are ticks of header.clock. Numbers are little-endian, as on all machines where this runs; anything may stand anywhere
 * as far as the recorder is concerned, and the program must cope with any tail.
 */
#ifndef WICKMARK_ABI_H
#define WICKMARK_ABI_H

#include <stdint.h>

#define WICKMARK_NAME  "wickmark"
#define WICKMARK_MAGIC 0x6b72616d6b636977ull /* "wickmark" */
#define WICKMARK_ABI   1u

#define WICKMARK_THREADS      4096u
#define WICKMARK_SITES	      2048u
#define WICKMARK_STRING_BYTES 1048576u
#define WICKMARK_STRING_MAX   4096u /* bytes of one string */
#define WICKMARK_LONGS	      1024u
#define WICKMARK_RECORDS      8192u /* a power of two */
#define WICKMARK_NAME_BYTES   64u
#define WICKMARK_FIELD_COUNT  13u
#define WICKMARK_VALUES_MORE  4u /* of one record that continues another */
#define WICKMARK_RECORDS_MORE 4u /* at most that many: fields beyond the first, flow and name */

enum wickmark_clock {
	WICKMARK_CLOCK_MONOTONIC = 1, /* CLOCK_MONOTONIC, ns */
	WICKMARK_CLOCK_TSC = 2,	      /* the invariant time stamp counter */
};

#define WICKMARK_RECORDER_BYTES 48u
#define WICKMARK_GIVES_WAY	2u /* bit of wickmark_header.recorder */

struct wickmark_header {
	uint64_t magic;
	uint32_t abi, clock;
	uint64_t file_bytes;
	int32_t pid; /* as the process sees itself */
	uint32_t reserved;
	uint64_t reserved2[4];
	/* Written by the recorder. */
	uint32_t enabled;
	uint32_t recorder; /* a number of its choice; 0 = none, or the process itself until one comes */
	uint64_t lease_ns;
	char recorder_name[WICKMARK_RECORDER_BYTES]; /* of its socket, abstract; "" = none */
	/* Written by the process. */
	uint32_t thread_count; /* entries that were ever used */
	uint32_t site_count, string_bytes, long_count;
	uint64_t lost_threads; /* markers of threads for which there was no entry */
	uint64_t lost_sites;   /* markers of sites for which there was none */
	uint64_t lost_longs;
	uint64_t lost_strings;
	uint64_t reserved4[42];
};

/* CLAIMED: the thread fills the entry in. */
enum wickmark_thread_state { WICKMARK_FREE = 0, WICKMARK_ACTIVE = 1, WICKMARK_ENDED = 2, WICKMARK_CLAIMED = 3 };
struct wickmark_thread {
	uint32_t state, generation;
	int32_t tid;	       /* as the process sees it */
	uint32_t name_changes; /* odd while the name is being written */
	uint64_t start;	       /* of the thread: clock ticks (USER_HZ) since boot, field 22 of /proc/PID/stat; 0 = unknown */
	char name[WICKMARK_NAME_BYTES];
	uint64_t head;
	uint64_t lost; /* markers for which the ring had no room */
	uint64_t reserved[3];
	uint64_t tail; /* written by the recorder */
	uint64_t reserved2[7];
};

/* What a site makes; as enum wickmark_what of wickmark.h, which this file does without. */
enum wickmark_site_kind { WICKMARK_IS_MARKER = 0, WICKMARK_IS_LEVEL = 1, WICKMARK_IS_EVENTS = 2 };
struct wickmark_site_field {
	uint32_t key, label, format; /* strings, enum wickmark_format */
};
struct wickmark_site_entry {
	uint32_t category, name, color, unit; /* strings */
	uint32_t what;			      /* enum wickmark_site_kind */
	uint32_t field_count;
	struct wickmark_site_field fields[WICKMARK_FIELD_COUNT];
	uint32_t reserved[19];
};

/* A span under way; start is 0 while the entry is free, and UINT64_MAX while it is filled in. */
struct wickmark_long {
	uint64_t start;
	uint32_t site, name, value_count;
	int32_t tid;
	uint64_t value;
	uint64_t reserved[4];
};

enum wickmark_kind {
	WICKMARK_KIND_INSTANT = 1,
	WICKMARK_KIND_SPAN = 2,	       /* time: begin, number: how long */
	WICKMARK_KIND_ASYNC_BEGIN = 3, /* number: what it belongs to its end by */
	WICKMARK_KIND_ASYNC_END = 4,
	WICKMARK_KIND_COUNTER = 5, /* value: a double */
};
enum wickmark_record_flags {
	WICKMARK_HAS_NAME = 1, /* instead of the site's */
	WICKMARK_HAS_FLOW = 2,
	WICKMARK_FLOW_ENDS = 4,
};
/* The values after the first, then the flow, then the name, each 8 bytes, stand in `more` further records, from their first
 * byte. */
struct wickmark_record {
	uint64_t time, number, value;
	uint16_t site; /* counts from 1 */
	uint8_t kind, flags, value_count, more;
	uint16_t reserved;
};

#define WICKMARK_AT_THREADS sizeof(struct wickmark_header)
#define WICKMARK_AT_SITES   (WICKMARK_AT_THREADS + WICKMARK_THREADS * sizeof(struct wickmark_thread))
#define WICKMARK_AT_STRINGS (WICKMARK_AT_SITES + WICKMARK_SITES * sizeof(struct wickmark_site_entry))
#define WICKMARK_AT_LONGS   (WICKMARK_AT_STRINGS + WICKMARK_STRING_BYTES)
/* On a page of its own, whatever their size. */
#define WICKMARK_AT_RINGS   ((WICKMARK_AT_LONGS + WICKMARK_LONGS * sizeof(struct wickmark_long) + 65535ull) / 65536ull * 65536ull)
#define WICKMARK_RING_BYTES (WICKMARK_RECORDS * sizeof(struct wickmark_record))
#define WICKMARK_FILE_BYTES (WICKMARK_AT_RINGS + (uint64_t)WICKMARK_THREADS * WICKMARK_RING_BYTES)

#ifdef __cplusplus
#define WICKMARK_ASSERT static_assert
#else
#define WICKMARK_ASSERT _Static_assert
#endif
WICKMARK_ASSERT(sizeof(struct wickmark_header) == 512, "the layout is part of the ABI");
WICKMARK_ASSERT(sizeof(struct wickmark_thread) == 192, "the layout is part of the ABI");
WICKMARK_ASSERT(sizeof(struct wickmark_site_entry) == 256, "the layout is part of the ABI");
WICKMARK_ASSERT(sizeof(struct wickmark_long) == 64, "the layout is part of the ABI");
WICKMARK_ASSERT(sizeof(struct wickmark_record) == 32, "the layout is part of the ABI");

#endif
