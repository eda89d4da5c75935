/* SPDX-License-Identifier: Apache-2.0 */
/* Windows of markers: what is kept, on whose clock it is found, what makes room for what, and what a start finds. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/time.h"
#include "codec/compress.h"
#include "server/stores/marker_batches.h"
#include "server/stores/recordings.h"

#define NOW    (1000000 * NS_PER_S)
#define MINUTE (60 * NS_PER_S)

struct world {
	char directory[64];
	struct marker_batches *batches;
	unsigned problems;
};

static void on_problem(void *context, const char *message)
{
	(void)message;
	((struct world *)context)->problems++;
}

static void reopen(struct world *world, uint64_t bytes_max, int64_t now_ns)
{
	struct recordings_options options = {
		.directory = world->directory, .bytes_max = bytes_max, .problems = {on_problem, world}};
	marker_batches_close(world->batches);
	assert_int_equal(marker_batches_open(&options, now_ns, &world->batches, NULL), 0);
}

static int setup(void **state)
{
	struct world *world = calloc(1, sizeof(*world));
	snprintf(world->directory, sizeof(world->directory), "/tmp/wick-windows-XXXXXX");
	assert_non_null(mkdtemp(world->directory));
	reopen(world, 0, NOW);
	*state = world;
	return 0;
}

static int teardown(void **state)
{
	struct world *world = *state;
	marker_batches_close(world->batches);
	io_remove_tree(world->directory, NULL);
	free(world);
	return 0;
}

/* A batch of a minute that ends so many minutes before NOW, of `size` bytes that do not shrink much. */
static struct marker_batch make_batch(const char *host, int ago)
{
	struct marker_batch batch = {.from_ns = NOW - (ago + 1) * MINUTE, .to_ns = NOW - ago * MINUTE};
	batch.first_ns = batch.from_ns;
	snprintf(batch.host, sizeof(batch.host), "%s", host);
	return batch;
}

static int put_beside(struct world *world, const struct marker_batch *batch, size_t size, uint64_t others)
{
	_cleanup_(buffer_release) struct buffer gzip = {0};
	_cleanup_(mem_freep) uint8_t *plain = mem_alloc(size);
	uint64_t random = 88172645463325252ull;
	for (size_t i = 0; i < size; i++) {
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		plain[i] = (uint8_t)random;
	}
	buffer_init(&gzip, 64u << 20);
	assert_int_equal(gzip_compress((struct bytes){plain, size}, 1, &gzip, NULL), 0);
	return marker_batches_put(world->batches, batch, buffer_bytes(&gzip), others, NOW, NULL);
}

static int put(struct world *world, const char *host, int ago, size_t size)
{
	struct marker_batch batch = make_batch(host, ago);
	return put_beside(world, &batch, size, 0);
}

static size_t count_between(struct world *world, int64_t from_ns, int64_t to_ns)
{
	struct marker_batch *found;
	size_t count;
	assert_int_equal(marker_batches_find(world->batches, from_ns, to_ns, &found, &count, NULL), 0);
	for (size_t i = 1; i < count; i++)
		assert_true(marker_batch_time(&found[i - 1], found[i - 1].to_ns) >=
			    marker_batch_time(&found[i], found[i].to_ns));
	mem_free(found);
	return count;
}

static size_t count_all(struct world *world)
{
	return count_between(world, 0, INT64_MAX);
}

static void test_put(void **state)
{
	struct world *world = *state;
	_cleanup_(buffer_release) struct buffer read = {0};
	struct marker_batch batch = make_batch("a", 5), bad;
	buffer_init(&read, 1u << 20);
	assert_int_equal(put(world, "a", 5, 1000), 0);
	assert_int_equal(put(world, "a", 5, 1000), -EEXIST);
	assert_int_equal(put(world, "b", 5, 1000), 0);
	assert_int_equal(marker_batches_put(world->batches,
					    &(struct marker_batch){.host = "c", .from_ns = NOW, .to_ns = NOW, .first_ns = NOW},
					    (struct bytes){(const uint8_t *)"nothing", 7}, 0, NOW, NULL),
			 -EBADMSG);
	bad = make_batch("c", 5);
	bad.to_ns = bad.from_ns - 1;
	assert_int_equal(put_beside(world, &bad, 10, 0), -EINVAL);
	bad.to_ns = bad.from_ns + MARKER_BATCH_NS_MAX + 1;
	assert_int_equal(put_beside(world, &bad, 10, 0), -EINVAL);
	bad = make_batch("c", 5);
	bad.first_ns = bad.from_ns + 1;
	assert_int_equal(put_beside(world, &bad, 10, 0), -EINVAL);
	bad.first_ns = bad.from_ns - MARKER_BATCH_REACH_NS - 1;
	assert_int_equal(put_beside(world, &bad, 10, 0), -EINVAL);
	bad = make_batch("../c", 5);
	assert_int_equal(put_beside(world, &bad, 10, 0), -EINVAL);
	assert_int_equal(count_all(world), 2);
	assert_int_equal(marker_batches_read(world->batches, &batch, &read, NULL), 0);
	assert_true(read.len > 1000);
	marker_batches_remove(world->batches);
	assert_int_equal(count_all(world), 0);
	assert_int_equal(marker_batches_read(world->batches, &batch, &read, NULL), -ENOENT);
}

/* By the server's clock, and by what began before the batch. */
static void test_find(void **state)
{
	struct world *world = *state;
	struct marker_batch batch = make_batch("a", 10);
	assert_int_equal(put(world, "b", 10, 10), 0);
	batch.clock = (struct host_clock){.reference = "s", .at_ns = batch.from_ns, .offset_ns = 5 * MINUTE};
	assert_int_equal(put_beside(world, &batch, 10, 0), 0);
	assert_int_equal(count_between(world, NOW - 16 * MINUTE + 1, NOW - 15 * MINUTE - 1), 1);
	assert_int_equal(count_between(world, NOW - 11 * MINUTE + 1, NOW - 10 * MINUTE - 1), 1);
	assert_int_equal(count_between(world, NOW - 9 * MINUTE, NOW), 0);
	assert_int_equal(count_between(world, NOW - 30 * MINUTE, NOW), 2);
	batch = make_batch("c", 10);
	batch.first_ns -= 60 * MINUTE;
	assert_int_equal(put_beside(world, &batch, 10, 0), 0);
	assert_int_equal(count_between(world, NOW - 70 * MINUTE, NOW - 69 * MINUTE), 1);
	reopen(world, 0, NOW);
	assert_int_equal(count_between(world, NOW - 70 * MINUTE, NOW - 69 * MINUTE), 1);
	assert_int_equal(count_between(world, NOW - 16 * MINUTE + 1, NOW - 15 * MINUTE - 1), 2);
	assert_int_equal(world->problems, 0);
}

/* Half of the room, and what requested recordings leave of it; the oldest by when they were made, whatever comes last. */
static void test_room(void **state)
{
	struct world *world = *state;
	struct marker_batches_stats stats;
	struct marker_batch batch;
	reopen(world, 2u << 20, NOW);
	for (int ago = 40; ago > 0; ago--)
		assert_int_equal(put(world, "a", ago, 50000), 0);
	marker_batches_get_stats(world->batches, &stats);
	assert_true(stats.bytes <= 1u << 20 && stats.batches >= 18);
	assert_int_equal(stats.bytes_max, 1u << 20);
	assert_int_equal(stats.evicted, 40 - stats.batches);
	assert_int_equal(count_between(world, NOW - (int64_t)stats.batches * MINUTE, NOW), stats.batches);
	marker_batches_make_room(world->batches, (2u << 20) - 200000, NOW);
	assert_int_equal(count_all(world), 3);
	marker_batches_make_room(world->batches, 3u << 20, NOW);
	assert_int_equal(count_all(world), 0);
	batch = make_batch("a", 1);
	assert_int_equal(put_beside(world, &batch, 50000, 2u << 20), -ENOSPC);
	assert_int_equal(put_beside(world, &batch, 2000000, 0), -ENOSPC);
	marker_batches_get_stats(world->batches, &stats);
	assert_int_equal(stats.bytes, 0);
	assert_int_equal(stats.refused, 2);
}

/* No claim about times keeps a batch for longer than its age. */
static void test_age(void **state)
{
	struct world *world = *state;
	struct marker_batch future = make_batch("f", -1000000);
	assert_int_equal(put(world, "a", 5, 10), 0);
	assert_int_equal(put(world, "old", 6 * 24 * 60, 10), 0);
	assert_int_equal(put_beside(world, &future, 10, 0), 0);
	marker_batches_make_room(world->batches, 0, NOW + 2 * 24 * 60 * MINUTE);
	assert_int_equal(count_all(world), 2);
	reopen(world, 0, NOW + 6 * 24 * 60 * MINUTE);
	assert_int_equal(count_all(world), 2);
	marker_batches_make_room(world->batches, 0, NOW + 8 * 24 * 60 * MINUTE);
	assert_int_equal(count_all(world), 0);
}

/* A file that is cut short, one under another's name, and what a crash left. */
static void test_torn(void **state)
{
	struct world *world = *state;
	_cleanup_(buffer_release) struct buffer read = {0};
	struct marker_batch batch = make_batch("b", 2);
	char command[400];
	buffer_init(&read, 1u << 20);
	for (int ago = 1; ago < 5; ago++)
		assert_int_equal(put(world, ago % 2 ? "a" : "b", ago, 1000), 0);
	snprintf(command, sizeof(command),
		 "cd %s && set -- *-a.json.gz && truncate -s 900 $1 && cp $2 1-c.json.gz && touch x.tmp && mkdir sub.json.gz",
		 world->directory);
	assert_int_equal(system(command), 0);
	reopen(world, 0, NOW);
	assert_int_equal(count_all(world), 3);
	assert_int_equal(world->problems, 3);
	snprintf(command, sizeof(command), "cd %s && ! test -e x.tmp && test $(ls -d *.torn | wc -l) -eq 3", world->directory);
	assert_int_equal(system(command), 0);
	snprintf(command, sizeof(command),
		 "cd %s && for f in *-b.json.gz; do printf x | dd of=$f bs=1 seek=600 conv=notrunc 2>/dev/null; done",
		 world->directory);
	assert_int_equal(system(command), 0);
	assert_int_equal(marker_batches_read(world->batches, &batch, &read, NULL), -EBADMSG);
	assert_int_equal(count_all(world), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_put, setup, teardown),
		cmocka_unit_test_setup_teardown(test_find, setup, teardown),
		cmocka_unit_test_setup_teardown(test_room, setup, teardown),
		cmocka_unit_test_setup_teardown(test_age, setup, teardown),
		cmocka_unit_test_setup_teardown(test_torn, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
