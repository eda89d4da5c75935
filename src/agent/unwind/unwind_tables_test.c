// SPDX-License-Identifier: Apache-2.0
/* Slots: sharing, loading, failing, evicting, and what the programs see of it. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/unwind/unwind_tables.h"
#include "base/fault.h"
#include "base/io.h"
#include "base/test_fixture.h"
#include "base/time.h"
#include "elf/build_id.h"
#include "unwind/test_cfi.h"
#include "unwind/unwind_table.h"

#define HEAP_BYTES (1u << 20)
#define MEDIUM	   53000u /* rows: about 111 kB, nine of them fit */

struct fixture {
	struct heap *heap;
	struct unwind_slot *slots;
	uint32_t clock, reuses;
	struct unwind_cache *cache;
	struct unwind_tables *tables;
	char directory[64];
};
static const size_t fixture_bytes = sizeof(struct fixture);

/* A file to be opened: a made one of so many rows, or a failure. */
struct source {
	uint32_t rows;
	const char *build_id; /* what the file says; NULL: none */
	int error;
	const char *text; /* instead of a made file */
	int prepared;	  /* a descriptor of the file, so that it need not be made while memory is short; 0: none */
	unsigned opened;
};

static int open_source(void *context, char *ret_build_id)
{
	static struct test_cfi_row rows[1000001];
	static const struct test_cfi_segment segments[] = {{0x1000, 0x1000, 0x10000000, PF_R | PF_X}};
	struct source *source = context;
	source->opened++;
	if (source->error)
		return source->error;
	snprintf(ret_build_id, BUILD_ID_HEX_MAX, "%s", source->build_id ? source->build_id : "");
	if (source->prepared)
		return dup(source->prepared);
	for (uint32_t i = 0; i <= source->rows; i++)
		rows[i] = (struct test_cfi_row){0x1000 + 5 * i, i < source->rows ? 8 + 8 * (i % 30) : 0};
	struct test_cfi cfi = {rows, source->rows + 1, segments, 1, .build_id = source->build_id};
	struct buffer bytes;
	test_cfi_build(&cfi, &bytes);
	if (source->text) {
		buffer_clear(&bytes);
		assert_int_equal(buffer_append_string(&bytes, source->text), 0);
	}
	int fd = memfd_create("source", MFD_CLOEXEC);
	assert_int_equal(io_write(fd, bytes.data, bytes.len, "source", NULL), 0);
	buffer_release(&bytes);
	return fd;
}

static int fixture_init(struct fixture *f)
{
	f->slots = calloc(UNWIND_SLOTS_MAX, sizeof(*f->slots));
	f->clock = 100;
	assert_int_equal(heap_new(-1, HEAP_BYTES, &f->reuses, &f->heap, NULL), 0);
	assert_int_equal(unwind_tables_new(f->heap, f->slots, &f->clock, NULL, &f->tables, NULL), 0);
	return 0;
}

static void fixture_release(struct fixture *f)
{
	struct heap_stats stats;
	unwind_tables_free(f->tables);
	heap_get_stats(f->heap, &stats);
	assert_int_equal(stats.used, 0);
	heap_free(f->heap);
	unwind_cache_close(f->cache);
	if (f->directory[0])
		io_remove_tree(f->directory, NULL);
	free(f->slots);
}

static struct unwind_tables_stats stats_of(const struct fixture *f)
{
	struct unwind_tables_stats stats;
	unwind_tables_get_stats(f->tables, &stats);
	return stats;
}

static enum unwind_slot_state load(struct fixture *f, uint32_t slot, struct source *source)
{
	return unwind_tables_load(f->tables, slot, open_source, source);
}

/* What lies in the heap at a slot's place is the image of that many rows. */
static void expect_table(struct fixture *f, uint32_t slot, uint32_t rows)
{
	assert_int_equal(f->slots[slot].state, UNWIND_SLOT_LOADED);
	assert_int_not_equal(f->slots[slot].table, 0);
	struct unwind_table header;
	memcpy(&header, heap_at(f->heap, f->slots[slot].table), sizeof(header));
	assert_int_equal(header.magic, UNWIND_TABLE_MAGIC);
	assert_int_equal(header.row_count, rows + 2);
	uint8_t *copy = malloc(header.bytes);
	for (uint32_t i = 0; i < header.bytes; i += 64)
		memcpy(copy + i, heap_at(f->heap, f->slots[slot].table + i), header.bytes - i < 64 ? header.bytes - i : 64);
	assert_true(unwind_table_check(copy, header.bytes));
	assert_int_equal(unwind_table_find(copy, 0x1000 + 5 * 7)->offset, 8 + 8 * 7);
	free(copy);
}

static void expect_absent(const struct fixture *f, uint32_t slot)
{
	assert_int_equal(f->slots[slot].state, UNWIND_SLOT_ABSENT);
	assert_int_equal(f->slots[slot].table, 0);
}

static void test_slot_of_code_without_a_file(void **state)
{
	struct fixture *f = *state;
	struct source source = {.rows = 100};
	assert_int_equal(f->slots[UNWIND_SLOT_JIT].state, UNWIND_SLOT_LIVE);
	unwind_tables_release(f->tables, UNWIND_SLOT_JIT);
	assert_int_equal(load(f, UNWIND_SLOT_JIT, &source), UNWIND_SLOT_LIVE);
	assert_int_equal(source.opened, 0);
	assert_int_equal(unwind_tables_slot(f->tables, NULL), 1);
	/* Numbers that nobody gave out, as a damaged record might name them. */
	assert_int_equal(load(f, 77, &source), UNWIND_SLOT_ABSENT);
	assert_int_equal(load(f, UINT32_MAX, &source), UNWIND_SLOT_ABSENT);
	unwind_tables_release(f->tables, UINT32_MAX);
	assert_int_equal(source.opened, 0);
}

static void test_binaries_share_by_build_id(void **state)
{
	struct fixture *f = *state;
	struct source source = {.rows = 100, .build_id = "abcd"};
	uint32_t a = unwind_tables_slot(f->tables, "abcd"), b = unwind_tables_slot(f->tables, "abce");
	assert_int_not_equal(a, b);
	assert_int_equal(unwind_tables_slot(f->tables, "abcd"), a);
	assert_int_not_equal(unwind_tables_slot(f->tables, ""), unwind_tables_slot(f->tables, ""));
	assert_int_not_equal(unwind_tables_slot(f->tables, "XY"), unwind_tables_slot(f->tables, "XY"));
	expect_absent(f, a);
	assert_int_equal(stats_of(f).slots, 6);
	assert_int_equal(load(f, a, &source), UNWIND_SLOT_LOADED);
	assert_int_equal(load(f, a, &source), UNWIND_SLOT_LOADED);
	assert_int_equal(source.opened, 1);
	expect_table(f, a, 100);
	assert_int_equal(f->slots[a].used, 100);
	unwind_tables_release(f->tables, a);
	expect_table(f, a, 100);
	assert_int_equal(stats_of(f).loaded, 1);
	assert_int_equal(stats_of(f).rows, 101);
	unwind_tables_release(f->tables, a);
	expect_absent(f, a);
	assert_int_equal(stats_of(f).loaded, 0);
	assert_int_equal(stats_of(f).bytes, 0);
	assert_int_equal(stats_of(f).slots, 5);
	/* Ranges that were told earlier may still ask for it. */
	assert_int_equal(load(f, a, &source), UNWIND_SLOT_ABSENT);
	unwind_tables_release(f->tables, a);
	assert_int_not_equal(unwind_tables_slot(f->tables, "abcd"), a);
}

static void test_numbers_rest_for_two_ticks(void **state)
{
	struct fixture *f = *state;
	uint32_t a = unwind_tables_slot(f->tables, "aa");
	unwind_tables_release(f->tables, a);
	assert_int_not_equal(unwind_tables_slot(f->tables, NULL), a);
	unwind_tables_tick(f->tables);
	assert_int_not_equal(unwind_tables_slot(f->tables, NULL), a);
	unwind_tables_tick(f->tables);
	assert_int_equal(unwind_tables_slot(f->tables, NULL), a);
	assert_int_equal(f->clock, 102);
}

static void test_all_numbers_taken(void **state)
{
	struct fixture *f = *state;
	for (uint32_t i = 1; i < UNWIND_SLOTS_MAX; i++)
		assert_int_equal(unwind_tables_slot(f->tables, NULL), i);
	assert_int_equal(unwind_tables_slot(f->tables, NULL), UNWIND_SLOT_JIT);
	assert_int_equal(unwind_tables_slot(f->tables, "abcd"), UNWIND_SLOT_JIT);
	unwind_tables_release(f->tables, 5);
	assert_int_equal(unwind_tables_slot(f->tables, "abcd"), UNWIND_SLOT_JIT);
	unwind_tables_tick(f->tables);
	unwind_tables_tick(f->tables);
	assert_int_equal(unwind_tables_slot(f->tables, "abcd"), 5);
	assert_int_equal(unwind_tables_slot(f->tables, "abcd"), 5);
}

static void test_files_without_cfi_and_damaged_ones(void **state)
{
	struct fixture *f = *state;
	struct source empty = {.rows = 0}, damaged = {.text = "\177ELF\2\1\1 but nothing else"},
		      script = {.text = "#!/bin/sh\n"};
	uint32_t slot = unwind_tables_slot(f->tables, NULL);
	assert_int_equal(load(f, slot, &empty), UNWIND_SLOT_FRAMES);
	assert_int_equal(load(f, slot, &empty), UNWIND_SLOT_FRAMES);
	assert_int_equal(empty.opened, 1);
	assert_int_equal(stats_of(f).failed, 0);
	assert_int_equal(load(f, unwind_tables_slot(f->tables, NULL), &damaged), UNWIND_SLOT_FRAMES);
	assert_int_equal(load(f, unwind_tables_slot(f->tables, NULL), &script), UNWIND_SLOT_FRAMES);
	assert_int_equal(stats_of(f).failed, 2);
	assert_int_equal(stats_of(f).loaded, 0);
}

static void test_files_that_cannot_be_had(void **state)
{
	struct fixture *f = *state;
	struct source source = {.rows = 100, .build_id = "abcd", .error = -EACCES};
	uint32_t slot = unwind_tables_slot(f->tables, "abcd");
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(load(f, slot, &source), UNWIND_SLOT_ABSENT);
	assert_int_equal(load(f, slot, &source), UNWIND_SLOT_FRAMES);
	assert_int_equal(load(f, slot, &source), UNWIND_SLOT_FRAMES);
	assert_int_equal(source.opened, 5);
	/* Another process with the same binary: its file may be had. */
	assert_int_equal(unwind_tables_slot(f->tables, "abcd"), slot);
	source.error = 0;
	assert_int_equal(load(f, slot, &source), UNWIND_SLOT_LOADED);
	assert_int_equal(stats_of(f).failed, 0);
}

/* Not even a file is opened, and it does not count as tried. */
static void test_nothing_is_loaded_after_a_time(void **state)
{
	struct fixture *f = *state;
	struct source source = {.rows = 100, .build_id = "abcd"};
	uint32_t slot = unwind_tables_slot(f->tables, "abcd");
	unwind_tables_load_until(f->tables, 1);
	for (unsigned i = 0; i < 10; i++)
		assert_int_equal(load(f, slot, &source), UNWIND_SLOT_ABSENT);
	assert_int_equal(source.opened, 0);
	unwind_tables_load_until(f->tables, time_monotonic_ns() + 60 * NS_PER_S);
	assert_int_equal(load(f, slot, &source), UNWIND_SLOT_LOADED);
	unwind_tables_load_until(f->tables, 0);
	uint32_t other = unwind_tables_slot(f->tables, "ef01");
	source.build_id = "ef01";
	assert_int_equal(load(f, other, &source), UNWIND_SLOT_LOADED);
}

static void test_a_file_that_was_replaced(void **state)
{
	struct fixture *f = *state;
	struct source source = {.rows = 100, .build_id = "ffff"};
	uint32_t slot = unwind_tables_slot(f->tables, "abcd");
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(load(f, slot, &source), UNWIND_SLOT_ABSENT);
	source.build_id = "abcd";
	assert_int_equal(load(f, slot, &source), UNWIND_SLOT_LOADED);
	expect_table(f, slot, 100);
}

/* Eleven tables where nine fit: those that were used last stay. */
static void test_eviction_by_last_use(void **state)
{
	struct fixture *f = *state;
	struct source source = {.rows = MEDIUM};
	uint32_t slots[12];
	for (uint32_t i = 0; i < 12; i++)
		slots[i] = unwind_tables_slot(f->tables, NULL);
	for (uint32_t i = 0; i < 9; i++) {
		assert_int_equal(load(f, slots[i], &source), UNWIND_SLOT_LOADED);
		f->slots[slots[i]].used = i == 2 ? 99 : 95 - (uint32_t)i % 3; /* 2 a tick ago, of the others 5 and 8 longest */
	}
	assert_int_equal(stats_of(f).evicted, 0);
	assert_int_equal(load(f, slots[9], &source), UNWIND_SLOT_LOADED);
	assert_int_equal(stats_of(f).evicted, 1);
	assert_int_equal((f->slots[slots[5]].state == UNWIND_SLOT_ABSENT) + (f->slots[slots[8]].state == UNWIND_SLOT_ABSENT),
			 1);
	assert_int_equal(load(f, slots[10], &source), UNWIND_SLOT_LOADED);
	expect_absent(f, slots[5]);
	expect_absent(f, slots[8]);
	expect_table(f, slots[2], MEDIUM);
	expect_table(f, slots[10], MEDIUM);
	assert_true(f->reuses > 0);
	/* It comes back when it is needed. */
	assert_int_equal(load(f, slots[5], &source), UNWIND_SLOT_LOADED);
	expect_table(f, slots[5], MEDIUM);
	assert_int_equal(stats_of(f).loaded, 9);
	assert_int_equal(stats_of(f).too_large, 0);
}

/* The clock may have gone round. */
static void test_recently_used_go_last_but_go(void **state)
{
	struct fixture *f = *state;
	struct source source = {.rows = MEDIUM}, large = {.rows = 9 * MEDIUM};
	uint32_t slots[9], one = unwind_tables_slot(f->tables, NULL);
	f->clock = 1;
	for (uint32_t i = 0; i < 9; i++) {
		slots[i] = unwind_tables_slot(f->tables, NULL);
		assert_int_equal(load(f, slots[i], &source), UNWIND_SLOT_LOADED);
		f->slots[slots[i]].used = i == 4 ? UINT32_MAX - 1 : i == 6 ? 0 : 1;
	}
	assert_int_equal(load(f, one, &source), UNWIND_SLOT_LOADED);
	expect_absent(f, slots[4]);
	unwind_tables_release(f->tables, one);
	one = unwind_tables_slot(f->tables, NULL);
	assert_int_equal(load(f, one, &large), UNWIND_SLOT_LOADED);
	assert_int_equal(stats_of(f).loaded, 1);
	assert_int_equal(stats_of(f).evicted, 9);
	for (uint32_t i = 0; i < 9; i++)
		expect_absent(f, slots[i]);
}

static void test_what_never_fits_is_not_tried_each_time(void **state)
{
	struct fixture *f = *state;
	struct source small = {.rows = MEDIUM}, huge = {.rows = 600000};
	uint32_t slot = unwind_tables_slot(f->tables, NULL), other = unwind_tables_slot(f->tables, NULL);
	assert_int_equal(load(f, other, &small), UNWIND_SLOT_LOADED);
	assert_int_equal(load(f, slot, &huge), UNWIND_SLOT_ABSENT);
	for (unsigned i = 0; i < 63; i++) {
		assert_int_equal(load(f, slot, &huge), UNWIND_SLOT_ABSENT);
		unwind_tables_tick(f->tables);
	}
	assert_int_equal(huge.opened, 1);
	assert_int_equal(stats_of(f).too_large, 1);
	assert_int_equal(stats_of(f).evicted, 0); /* nothing was driven out in vain */
	expect_table(f, other, MEDIUM);
	unwind_tables_tick(f->tables);
	huge.rows = MEDIUM;
	assert_int_equal(load(f, slot, &huge), UNWIND_SLOT_LOADED);
}

/* More code in use than fits: each tick does a bounded amount of evicting. */
static void test_thrashing_is_bounded(void **state)
{
	struct fixture *f = *state;
	struct source source = {.rows = 4 * MEDIUM};
	uint32_t slots[40];
	unsigned loaded = 0;
	for (uint32_t i = 0; i < 40; i++) {
		slots[i] = unwind_tables_slot(f->tables, NULL);
		loaded += load(f, slots[i], &source) == UNWIND_SLOT_LOADED;
	}
	unsigned opened = source.opened;
	assert_true(loaded >= 8 && loaded <= 12);
	for (unsigned round = 0; round < 10; round++)
		for (uint32_t i = 0; i < 40; i++)
			if (f->slots[slots[i]].state == UNWIND_SLOT_ABSENT)
				assert_int_equal(load(f, slots[i], &source), UNWIND_SLOT_ABSENT);
	assert_true(source.opened - opened <= 40);
	unwind_tables_tick(f->tables);
	assert_int_equal(load(f, slots[39], &source), UNWIND_SLOT_LOADED);
}

/* A tick makes room before it is needed. */
static void test_ticks_keep_a_reserve(void **state)
{
	struct fixture *f = *state;
	struct source source = {.rows = MEDIUM};
	struct heap_stats heap;
	for (uint32_t i = 0; i < 9; i++) {
		uint32_t slot = unwind_tables_slot(f->tables, NULL);
		assert_int_equal(load(f, slot, &source), UNWIND_SLOT_LOADED);
		f->slots[slot].used = 90;
	}
	uint32_t rest[16];
	unsigned count = 0;
	while (count < 16 && (rest[count] = heap_allocate(f->heap, 16384)))
		count++;
	unwind_tables_tick(f->tables);
	heap_get_stats(f->heap, &heap);
	assert_true(heap.used <= HEAP_BYTES / 8 * 7);
	assert_true(stats_of(f).evicted >= 1);
	uint64_t evicted = stats_of(f).evicted;
	unwind_tables_tick(f->tables);
	unwind_tables_tick(f->tables);
	assert_int_equal(stats_of(f).evicted, evicted);
	while (count > 0)
		heap_release(f->heap, rest[--count], 16384);
}

static void test_from_disk(void **state)
{
	struct fixture *f = *state;
	struct source source = {.rows = 400000, .build_id = "abcd"}, gone = {.error = -ENOENT};
	snprintf(f->directory, sizeof(f->directory), "/tmp/wick-tables-XXXXXX");
	assert_non_null(mkdtemp(f->directory));
	assert_int_equal(unwind_cache_open(f->directory, 1 << 24, &f->cache, NULL), 0);
	f->tables = unwind_tables_free(f->tables);
	assert_int_equal(unwind_tables_new(f->heap, f->slots, &f->clock, f->cache, &f->tables, NULL), 0);
	uint32_t slot = unwind_tables_slot(f->tables, "abcd");
	assert_int_equal(load(f, slot, &source), UNWIND_SLOT_LOADED);
	assert_int_equal(stats_of(f).built, 1);
	assert_int_equal(stats_of(f).cached, 0);
	assert_true(stats_of(f).build_ns > 0 && stats_of(f).build_ns_max == stats_of(f).build_ns);
	/* As in the next run: the file need not even be there. */
	f->tables = unwind_tables_free(f->tables);
	assert_int_equal(unwind_tables_new(f->heap, f->slots, &f->clock, f->cache, &f->tables, NULL), 0);
	slot = unwind_tables_slot(f->tables, "abcd");
	expect_absent(f, slot);
	unwind_tables_tick(f->tables);
	unwind_tables_tick(f->tables);
	assert_int_equal(load(f, slot, &gone), UNWIND_SLOT_LOADED);
	expect_table(f, slot, 400000);
	assert_int_equal(gone.opened, 0);
	assert_int_equal(stats_of(f).cached, 1);
	assert_int_equal(stats_of(f).built, 0);
	/* A binary whose build-id is known only from its file. */
	unwind_tables_release(f->tables, slot);
	unwind_tables_tick(f->tables);
	unwind_tables_tick(f->tables);
	slot = unwind_tables_slot(f->tables, NULL);
	assert_int_equal(load(f, slot, &source), UNWIND_SLOT_LOADED);
	assert_int_equal(stats_of(f).cached, 2);
}

/* ---- a reader on another CPU, which does as a program does ---- */

enum { READ_SLOTS = 24 };
struct reader {
	struct fixture *f;
	const uint8_t *memory; /* the whole heap */
	uint32_t slots[READ_SLOTS];
	bool must_end;
	uint64_t reads, slow, doubtful, wrong;
};

static uint32_t rows_of(uint32_t index)
{
	return 40000 + 100 * index;
}

static void read_once(struct reader *reader, uint32_t index)
{
	struct unwind_slot *slot = &reader->f->slots[reader->slots[index]];
	uint32_t reuses = __atomic_load_n(&reader->f->reuses, __ATOMIC_ACQUIRE);
	if (__atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) != UNWIND_SLOT_LOADED)
		return;
	uint32_t place = __atomic_load_n(&slot->table, __ATOMIC_ACQUIRE);
	if (!place)
		return;
	/* Now and then it is held up, for longer than a place is kept. */
	bool is_slow = ++reader->reads % 100000 == 0;
	if (is_slow)
		time_sleep_ns(8 * NS_PER_MS);
	reader->slow += is_slow;
	struct unwind_table header;
	uint16_t row;
	memcpy(&header, reader->memory + place, sizeof(header));
	bool ok = header.magic == UNWIND_TABLE_MAGIC && header.row_count == rows_of(index) + 2 && header.bytes < 1u << 17;
	if (ok) {
		memcpy(&row, reader->memory + place + header.rows + 2 * (header.row_count - 2), sizeof(row));
		ok = row >> 8 != 0 && (row & 0xff) == ((0x1000 + 5 * (rows_of(index) - 1)) & 0xff);
	}
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	bool is_doubtful = __atomic_load_n(&reader->f->reuses, __ATOMIC_RELAXED) != reuses;
	reader->doubtful += is_doubtful;
	reader->wrong += !ok && !is_doubtful;
	__atomic_store_n(&slot->used, __atomic_load_n(&reader->f->clock, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
}

static void *read_until_end(void *context)
{
	struct reader *reader = context;
	for (uint32_t i = 0; !__atomic_load_n(&reader->must_end, __ATOMIC_RELAXED); i++)
		read_once(reader, i * 7 % READ_SLOTS);
	return NULL;
}

/* Tables come and go all the time, and whatever is read is the right one or marked as doubtful. */
static void test_readers_see_whole_tables(void **state)
{
	struct fixture *f = *state;
	struct reader reader = {.f = f};
	struct source sources[READ_SLOTS];
	pthread_t thread;
	int fd = memfd_create("heap", MFD_CLOEXEC);
	assert_int_equal(ftruncate(fd, HEAP_BYTES), 0);
	reader.memory = mmap(NULL, HEAP_BYTES, PROT_READ, MAP_SHARED, fd, 0);
	assert_true(reader.memory != MAP_FAILED);
	f->tables = unwind_tables_free(f->tables);
	heap_free(f->heap);
	assert_int_equal(heap_new(fd, HEAP_BYTES, &f->reuses, &f->heap, NULL), 0);
	assert_int_equal(unwind_tables_new(f->heap, f->slots, &f->clock, NULL, &f->tables, NULL), 0);
	for (uint32_t i = 0; i < READ_SLOTS; i++) {
		char build_id[BUILD_ID_HEX_MAX];
		sources[i] = (struct source){.rows = rows_of(i)};
		sources[i].prepared = open_source(&sources[i], build_id);
		reader.slots[i] = unwind_tables_slot(f->tables, NULL);
	}
	assert_int_equal(pthread_create(&thread, NULL, read_until_end, &reader), 0);
	for (uint32_t i = 0; i < 600; i++) {
		load(f, reader.slots[i % READ_SLOTS], &sources[i % READ_SLOTS]);
		if (i % 6 == 0)
			unwind_tables_tick(f->tables);
	}
	__atomic_store_n(&reader.must_end, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	print_message("%llu reads, %llu slow, %llu doubtful, %llu evictions, reused %u times\n",
		      (unsigned long long)reader.reads, (unsigned long long)reader.slow, (unsigned long long)reader.doubtful,
		      (unsigned long long)stats_of(f).evicted, f->reuses);
	assert_int_equal(reader.wrong, 0);
	assert_true(reader.reads > 1000 && stats_of(f).evicted > 50 && f->reuses > 20);
	assert_true(reader.slow > 20 && reader.doubtful > 0 && reader.doubtful < reader.reads / 10);
	for (uint32_t i = 0; i < READ_SLOTS; i++)
		close(sources[i].prepared);
	munmap((void *)(uintptr_t)reader.memory, HEAP_BYTES);
	close(fd);
}

static void test_without_memory(void **state)
{
	struct fixture *f = *state;
	struct source source = {.rows = 1000, .build_id = "abcd"};
	char build_id[BUILD_ID_HEX_MAX];
	_cleanup_(fd_closep) int fd = open_source(&source, build_id);
	source.prepared = fd;
	for (uint64_t n = 1;; n++) {
		f->tables = unwind_tables_free(f->tables);
		fault_arm(FAULT_ALLOC, n, 0);
		int r = unwind_tables_new(f->heap, f->slots, &f->clock, NULL, &f->tables, NULL);
		uint32_t slot = r == 0 ? unwind_tables_slot(f->tables, "abcd") : 0;
		/* A shortage is of the moment. */
		for (unsigned i = 0; slot && i < 3 && load(f, slot, &source) != UNWIND_SLOT_LOADED; i++)
			;
		bool reached = fault_disarm(FAULT_ALLOC);
		if (r < 0) {
			assert_int_equal(r, -ENOMEM);
			assert_int_equal(unwind_tables_new(f->heap, f->slots, &f->clock, NULL, &f->tables, NULL), 0);
		} else if (slot) {
			assert_int_equal(load(f, slot, &source), UNWIND_SLOT_LOADED);
			expect_table(f, slot, 1000);
		}
		unwind_tables_tick(f->tables);
		if (!reached) {
			assert_int_not_equal(slot, 0);
			break;
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FIXTURE_TEST(test_slot_of_code_without_a_file),
		FIXTURE_TEST(test_binaries_share_by_build_id),
		FIXTURE_TEST(test_numbers_rest_for_two_ticks),
		FIXTURE_TEST(test_all_numbers_taken),
		FIXTURE_TEST(test_files_without_cfi_and_damaged_ones),
		FIXTURE_TEST(test_files_that_cannot_be_had),
		FIXTURE_TEST(test_nothing_is_loaded_after_a_time),
		FIXTURE_TEST(test_a_file_that_was_replaced),
		FIXTURE_TEST(test_eviction_by_last_use),
		FIXTURE_TEST(test_recently_used_go_last_but_go),
		FIXTURE_TEST(test_what_never_fits_is_not_tried_each_time),
		FIXTURE_TEST(test_thrashing_is_bounded),
		FIXTURE_TEST(test_ticks_keep_a_reserve),
		FIXTURE_TEST(test_from_disk),
		FIXTURE_TEST(test_readers_see_whole_tables),
		FIXTURE_TEST(test_without_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
