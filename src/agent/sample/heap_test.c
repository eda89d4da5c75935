// SPDX-License-Identifier: Apache-2.0
/* The heap in ordinary memory and in a BPF array, against a model that knows every byte's owner. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/sample/heap.h"
#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/fault.h"
#include "base/hash.h"
#include "base/time.h"
#include "bpf/unwind.h"

#define MIB_BYTES (1u << 20)

/* A seeded sequence: failures repeat. */
static uint64_t random_next(uint64_t *state)
{
	return hash64_mix(*state += 0x9e3779b97f4a7c15ull);
}

static struct heap *make_heap(uint32_t bytes, uint32_t *reuses)
{
	struct heap *heap;
	assert_int_equal(heap_new(-1, bytes, reuses, &heap, NULL), 0);
	return heap;
}

static struct heap_stats stats_of(const struct heap *heap)
{
	struct heap_stats stats;
	heap_get_stats(heap, &stats);
	return stats;
}

static void settle_twice(struct heap *heap)
{
	heap_settle(heap);
	heap_settle(heap);
}

static void test_sizes_that_are_refused(void **state)
{
	struct heap *heap = NULL;
	struct error err = {0};
	assert_int_equal(heap_new(-1, 0, NULL, &heap, &err), -EINVAL);
	assert_int_equal(heap_new(-1, HEAP_WINDOW_BYTES + 64, NULL, &heap, &err), -EINVAL);
	assert_non_null(strstr(err.message, "65600"));
	assert_int_equal(heap_new(12345, HEAP_WINDOW_BYTES, NULL, &heap, &err), -EBADF);
	assert_null(heap);
}

static void test_place_zero_is_none(void **state)
{
	_cleanup_(heap_freep) struct heap *heap = make_heap(HEAP_WINDOW_BYTES, NULL);
	heap_release(heap, 0, 1000);
	uint32_t count = 0;
	for (uint32_t place; (place = heap_allocate(heap, 1)); count++) {
		assert_int_not_equal(place, 0);
		assert_int_equal(place % HEAP_ALIGN, 0);
	}
	assert_int_equal(count, HEAP_WINDOW_BYTES / HEAP_ALIGN - 1);
	assert_int_equal(stats_of(heap).largest_free, 0);
}

static void test_whole_heap_at_once(void **state)
{
	_cleanup_(heap_freep) struct heap *heap = make_heap(MIB_BYTES, NULL);
	assert_int_equal(heap_allocate(heap, MIB_BYTES), 0);
	assert_int_equal(heap_allocate(heap, UINT32_MAX), 0);
	assert_int_equal(stats_of(heap).largest_free, MIB_BYTES - HEAP_ALIGN);
	assert_int_equal(heap_allocate(heap, MIB_BYTES - HEAP_ALIGN), HEAP_ALIGN);
	assert_int_equal(heap_allocate(heap, 1), 0);
}

static void test_release_waits_for_two_settles(void **state)
{
	uint32_t reuses = 7;
	_cleanup_(heap_freep) struct heap *heap = make_heap(HEAP_WINDOW_BYTES, &reuses);
	uint32_t all = HEAP_WINDOW_BYTES - HEAP_ALIGN, place = heap_allocate(heap, all);
	heap_settle(heap);
	heap_release(heap, place, all);
	assert_int_equal(heap_allocate(heap, 1), 0);
	assert_int_equal(stats_of(heap).waiting, all);
	assert_int_equal(stats_of(heap).used, 0);
	heap_settle(heap);
	assert_int_equal(heap_allocate(heap, 1), 0);
	assert_int_equal(reuses, 7);
	heap_settle(heap);
	assert_int_equal(reuses, 8);
	assert_int_equal(stats_of(heap).waiting, 0);
	assert_int_equal(heap_allocate(heap, all), place);
	settle_twice(heap);
	assert_int_equal(reuses, 8);
}

static void test_neighbours_merge(void **state)
{
	static const uint8_t orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
	for (size_t i = 0; i < 6; i++) {
		_cleanup_(heap_freep) struct heap *heap = make_heap(HEAP_WINDOW_BYTES, NULL);
		uint32_t part = (HEAP_WINDOW_BYTES - HEAP_ALIGN) / 3, places[3];
		for (size_t j = 0; j < 3; j++)
			places[j] = heap_allocate(heap, part);
		for (size_t j = 0; j < 3; j++) {
			heap_release(heap, places[orders[i][j]], part);
			settle_twice(heap);
		}
		assert_int_equal(stats_of(heap).largest_free, HEAP_WINDOW_BYTES - HEAP_ALIGN);
	}
}

/* ---- a model of who owns what ---- */

struct owned {
	uint32_t place, bytes;
	uint8_t mark;
};
struct model {
	struct heap *heap;
	uint8_t *owners; /* for each unit: 0 free, 1 owned, 2 released since the last settle, 3 before */
	struct owned owned[4096];
	size_t count;
	uint64_t random;
};

static uint32_t units_of(uint32_t bytes)
{
	return (bytes + HEAP_ALIGN - 1) / HEAP_ALIGN;
}

static void model_check(struct model *model, const struct owned *o)
{
	/* The first and last byte of the whole and of each window. */
	for (uint32_t i = 0; i < o->bytes;) {
		const uint8_t *at = heap_at(model->heap, o->place + i);
		uint32_t part = HEAP_WINDOW_BYTES - (o->place + i) % HEAP_WINDOW_BYTES;
		part = part < o->bytes - i ? part : o->bytes - i;
		assert_non_null(at);
		assert_int_equal(at[0], o->mark);
		assert_int_equal(at[part - 1], o->mark);
		i += part;
	}
}

static void model_allocate(struct model *model, uint32_t bytes)
{
	static uint8_t data[2 * MIB_BYTES];
	uint32_t place = heap_allocate(model->heap, bytes);
	if (!place)
		return;
	for (uint32_t i = 0; i < units_of(bytes); i++) {
		assert_int_equal(model->owners[place / HEAP_ALIGN + i], 0);
		model->owners[place / HEAP_ALIGN + i] = 1;
	}
	struct owned o = {place, bytes, (uint8_t)random_next(&model->random)};
	memset(data, o.mark, bytes);
	assert_int_equal(heap_write(model->heap, place, data, bytes, NULL), 0);
	model->owned[model->count++] = o;
}

static void model_release(struct model *model, size_t index)
{
	struct owned o = model->owned[index];
	model_check(model, &o);
	memset(model->owners + o.place / HEAP_ALIGN, 2, units_of(o.bytes));
	heap_release(model->heap, o.place, o.bytes);
	model->owned[index] = model->owned[--model->count];
}

static void model_settle(struct model *model, uint32_t units)
{
	heap_settle(model->heap);
	for (uint32_t i = 0; i < units; i++)
		model->owners[i] = model->owners[i] == 3 ? 0 : model->owners[i] == 2 ? 3 : model->owners[i];
}

static uint32_t random_size(struct model *model)
{
	uint64_t random = random_next(&model->random);
	unsigned log = 6 + random % 15; /* up to 2 MiB */
	return 1 + (uint32_t)((random >> 8) % (1u << log));
}

static void run_model(struct heap *heap, uint32_t bytes, unsigned steps)
{
	_cleanup_(mem_freep) struct model *model = mem_zalloc(sizeof(*model));
	_cleanup_(mem_freep) uint8_t *owners = mem_zalloc(bytes / HEAP_ALIGN);
	model->heap = heap;
	model->owners = owners;
	owners[0] = 1;
	for (unsigned step = 0; step < steps; step++) {
		uint64_t random = random_next(&model->random);
		if (model->count < 4096 && (model->count == 0 || random % 100 < 52))
			model_allocate(model, random_size(model));
		else
			model_release(model, (random >> 16) % model->count);
		if (random >> 40 & 31)
			continue;
		model_settle(model, bytes / HEAP_ALIGN);
		heap_trim(heap, bytes / 8);
		assert_true(stats_of(heap).mapped <= bytes / 8);
	}
	while (model->count)
		model_release(model, 0);
	settle_twice(heap);
	struct heap_stats stats = stats_of(heap);
	assert_int_equal(stats.used, 0);
	assert_int_equal(stats.waiting, 0);
	assert_int_equal(stats.largest_free, bytes - HEAP_ALIGN);
}

static void test_against_a_model(void **state)
{
	_cleanup_(heap_freep) struct heap *heap = make_heap(16 * MIB_BYTES, NULL);
	run_model(heap, 16 * MIB_BYTES, 50000);
}

static int make_array(uint32_t bytes, struct error *err)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_MMAPABLE);
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "heap_test", 4, UNWIND_CHUNK_BYTES, bytes / UNWIND_CHUNK_BYTES, &options);
	return fd < 0 ? error_set_errno(err, -errno, "bpf_map_create") : fd;
}

/* What is written through windows is what a program finds in the map, and in the right element. */
static void test_in_a_bpf_array(void **state)
{
	struct error err = {0};
	uint32_t bytes = 16 * MIB_BYTES, reuses = 0;
	_cleanup_(fd_closep) int fd = make_array(bytes, &err);
	if (fd < 0) {
		print_message("skipped: no BPF array here: %s\n", err.message);
		skip();
	}
	_cleanup_(heap_freep) struct heap *heap = NULL;
	assert_int_equal(heap_new(fd, bytes, &reuses, &heap, &err), 0);
	run_model(heap, bytes, 20000);
	assert_true(reuses > 0);

	uint8_t pattern[1000];
	for (size_t i = 0; i < sizeof(pattern); i++)
		pattern[i] = (uint8_t)(i * 7 + 1);
	uint32_t place = 3 * UNWIND_CHUNK_BYTES - 500, key = 2;
	assert_int_equal(heap_write(heap, place, pattern, sizeof(pattern), &err), 0);
	_cleanup_(mem_freep) uint8_t *chunk = mem_alloc(UNWIND_CHUNK_BYTES);
	assert_int_equal(bpf_map_lookup_elem(fd, &key, chunk), 0);
	assert_memory_equal(chunk + UNWIND_CHUNK_BYTES - 500, pattern, 500);
	key = 3;
	assert_int_equal(bpf_map_lookup_elem(fd, &key, chunk), 0);
	assert_memory_equal(chunk, pattern + 500, 500);
	memcpy(chunk, "from the kernel", 16);
	assert_int_equal(bpf_map_update_elem(fd, &key, chunk, 0), 0);
	assert_string_equal((const char *)heap_at(heap, 3 * UNWIND_CHUNK_BYTES), "from the kernel");
}

static void test_windows_are_let_go(void **state)
{
	_cleanup_(heap_freep) struct heap *heap = make_heap(8 * MIB_BYTES, NULL);
	_cleanup_(mem_freep) uint8_t *data = mem_alloc(4 * MIB_BYTES);
	memset(data, 0x5a, 4 * MIB_BYTES);
	assert_int_equal(heap_write(heap, 100, data, 4 * MIB_BYTES, NULL), 0);
	assert_int_equal(stats_of(heap).mapped, HEAP_WINDOW_BYTES); /* a large write leaves what was mapped before */
	for (uint32_t at = 100; at < 100 + 4 * MIB_BYTES; at += HEAP_WINDOW_BYTES)
		assert_int_equal(*heap_at(heap, at), 0x5a);
	assert_int_equal(*heap_at(heap, 100 + 4 * MIB_BYTES - 1), 0x5a);
	assert_true(stats_of(heap).mapped > 4 * MIB_BYTES);
	heap_trim(heap, 8 * MIB_BYTES);
	assert_true(stats_of(heap).mapped > 4 * MIB_BYTES);
	heap_trim(heap, MIB_BYTES);
	assert_int_equal(stats_of(heap).mapped, MIB_BYTES);
	heap_trim(heap, 0);
	assert_int_equal(stats_of(heap).mapped, 0);
	assert_int_equal(*heap_at(heap, 100), 0x5a);
	assert_int_equal(*heap_at(heap, 4 * MIB_BYTES + 99), 0x5a);
	assert_int_equal(*heap_at(heap, 99), 0);
	assert_int_equal(stats_of(heap).mapped, 2 * HEAP_WINDOW_BYTES);
	assert_null(heap_at(heap, 8 * MIB_BYTES));
	assert_non_null(heap_at(heap, 8 * MIB_BYTES - 1));
	struct error err;
	assert_int_equal(heap_write(heap, 8 * MIB_BYTES - 1, data, 2, &err), -ERANGE);
	assert_int_equal(heap_write(heap, UINT32_MAX, data, 2, &err), -ERANGE);
}

/* Windows in use stay, if the others are enough. */
static void test_trim_prefers_what_is_not_used(void **state)
{
	_cleanup_(heap_freep) struct heap *heap = make_heap(2 * MIB_BYTES, NULL);
	for (uint32_t place = 0; place < 2 * MIB_BYTES; place += HEAP_WINDOW_BYTES)
		heap_at(heap, place);
	heap_trim(heap, MIB_BYTES); /* all touched: half of them go, none is marked any more */
	uint32_t wanted = UINT32_MAX;
	for (uint32_t place = 0; place < 2 * MIB_BYTES; place += HEAP_WINDOW_BYTES) {
		uint64_t before = stats_of(heap).mapped;
		heap_at(heap, place);
		if (stats_of(heap).mapped > before) {
			wanted = place;
			break;
		}
	}
	assert_int_not_equal(wanted, UINT32_MAX);
	heap_trim(heap, MIB_BYTES);
	uint64_t before = stats_of(heap).mapped;
	heap_at(heap, wanted);
	assert_int_equal(stats_of(heap).mapped, before);
}

/*
 * Processes that come and go, 500 a second for ten minutes, beside tables that change now and then, in a heap that is half to
 * two thirds full: there must always be room for the next, and for the largest at the end.
 */
static void test_churn_does_not_fragment(void **state)
{
	enum { PROCESSES = 2000, TABLES = 150, STEPS = 300000 };
	static struct owned processes[PROCESSES], tables[TABLES];
	_cleanup_(heap_freep) struct heap *heap = make_heap(64 * MIB_BYTES, NULL);
	uint64_t random = 1, failures = 0;
	int64_t start_ns = time_thread_cpu_ns();
	memset(processes, 0, sizeof(processes));
	memset(tables, 0, sizeof(tables));
	for (unsigned step = 0; step < STEPS; step++) {
		uint64_t r = random_next(&random);
		struct owned *o = &processes[r % PROCESSES];
		heap_release(heap, o->place, o->bytes);
		o->bytes = 24 * (2 + (uint32_t)(r >> 32) % ((r >> 20) % 50 ? 40 : 2000));
		o->place = heap_allocate(heap, o->bytes);
		failures += !o->place;
		if (step % 100 == 0) {
			o = &tables[(r >> 24) % TABLES];
			heap_release(heap, o->place, o->bytes);
			o->bytes = 4096u << (r >> 40) % 9; /* up to 1 MiB, 20 to 40 MiB in all */
			o->bytes -= (uint32_t)(r >> 50) % (o->bytes / 2);
			o->place = heap_allocate(heap, o->bytes);
			failures += !o->place;
		}
		if (step % 500 == 0)
			heap_settle(heap);
	}
	settle_twice(heap);
	struct heap_stats stats = stats_of(heap);
	print_message("%d allocations: %.0f ns each; used %llu of %llu KiB, largest free %llu, failed %llu\n", STEPS,
		      (double)(time_thread_cpu_ns() - start_ns) / STEPS, (unsigned long long)stats.used / 1024,
		      (unsigned long long)stats.bytes / 1024, (unsigned long long)stats.largest_free / 1024,
		      (unsigned long long)failures);
	assert_int_equal(failures, 0);
	assert_true(stats.largest_free >= MIB_BYTES);
}

static void test_without_memory(void **state)
{
	for (uint64_t n = 1;; n++) {
		struct heap *heap = NULL;
		uint32_t places[1000], count = 0;
		fault_arm(FAULT_ALLOC, n, FAULT_STICKY);
		int r = heap_new(-1, MIB_BYTES, NULL, &heap, NULL);
		while (r == 0 && count < 1000 && (places[count] = heap_allocate(heap, 100)))
			count++;
		/* Giving back needs no memory. */
		for (uint32_t i = 0; i < count; i += 2)
			heap_release(heap, places[i], 100);
		for (uint32_t i = 1; i < count; i += 2)
			heap_release(heap, places[i], 100);
		if (r == 0)
			settle_twice(heap);
		bool reached = fault_disarm(FAULT_ALLOC);
		assert_true(r == 0 || r == -ENOMEM);
		if (r == 0)
			assert_int_equal(stats_of(heap).largest_free, MIB_BYTES - HEAP_ALIGN);
		heap_free(heap);
		if (!reached) {
			assert_int_equal(count, 1000);
			assert_true(n > 7);
			break;
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes_that_are_refused),
		cmocka_unit_test(test_place_zero_is_none),
		cmocka_unit_test(test_whole_heap_at_once),
		cmocka_unit_test(test_release_waits_for_two_settles),
		cmocka_unit_test(test_neighbours_merge),
		cmocka_unit_test(test_against_a_model),
		cmocka_unit_test(test_in_a_bpf_array),
		cmocka_unit_test(test_windows_are_let_go),
		cmocka_unit_test(test_trim_prefers_what_is_not_used),
		cmocka_unit_test(test_churn_does_not_fragment),
		cmocka_unit_test(test_without_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
