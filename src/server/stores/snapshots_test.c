/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots on disk: what is kept, what goes first, what a start finds, what is damaged, and a failure of every call. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/io.h"
#include "base/text.h"
#include "base/time.h"
#include "codec/compress.h"
#include "server/stores/snapshots.h"

#define NOW (1000000 * NS_PER_S)
#define DAY (24 * 3600 * NS_PER_S)

struct world {
	char directory[64];
	struct snapshots *snapshots;
	unsigned problems;
	char problem[256];
};

static void on_problem(void *context, const char *message)
{
	struct world *world = context;
	world->problems++;
	snprintf(world->problem, sizeof(world->problem), "%s", message);
}

static void reopen_with(struct world *world, struct snapshots_options options, int64_t now_ns)
{
	options.directory = world->directory;
	options.problems = (struct store_problems){on_problem, world};
	world->snapshots = snapshots_close(world->snapshots);
	assert_int_equal(snapshots_open(&options, now_ns, &world->snapshots, NULL), 0);
}

static void reopen(struct world *world)
{
	reopen_with(world, (struct snapshots_options){0}, NOW);
}

static int setup(void **state)
{
	struct world *world = calloc(1, sizeof(*world));
	snprintf(world->directory, sizeof(world->directory), "/tmp/wick-snapshots-XXXXXX");
	assert_non_null(mkdtemp(world->directory));
	reopen(world);
	*state = world;
	return 0;
}

static int teardown(void **state)
{
	struct world *world = *state;
	snapshots_close(world->snapshots);
	io_remove_tree(world->directory, NULL);
	free(world);
	return 0;
}

/* `size` bytes that do not shrink. */
static void make_gzip(struct buffer *out, size_t size)
{
	_cleanup_(mem_freep) uint8_t *plain = mem_alloc(size + 1);
	uint64_t random = 88172645463325252ull + size;
	for (size_t i = 0; i < size; i++) {
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		plain[i] = (uint8_t)random;
	}
	buffer_init(out, SIZE_MAX);
	assert_int_equal(gzip_compress((struct bytes){plain, size}, 1, out, NULL), 0);
}

static int put_at(struct world *world, struct snapshot *snapshot, size_t size, int64_t now_ns)
{
	_cleanup_(buffer_release) struct buffer gzip = {0};
	make_gzip(&gzip, size);
	assert_int_equal(snapshot_make_id(snapshot->id, NULL), 0);
	snapshot->made_ns = now_ns;
	return snapshots_put(world->snapshots, snapshot, buffer_bytes(&gzip), now_ns, NULL);
}

static struct snapshot put(struct world *world, const char *title, size_t size, int64_t now_ns)
{
	struct snapshot snapshot = {.call = "query", .query = "process_cpu", .from_ns = 5, .to_ns = 7};
	snprintf(snapshot.title, sizeof(snapshot.title), "%s", title);
	assert_int_equal(put_at(world, &snapshot, size, now_ns), 0);
	return snapshot;
}

/* Titles, newest first, with spaces between. */
static const char *titles(struct world *world, int64_t now_ns, size_t offset, size_t limit)
{
	static char out[4096];
	struct snapshot *all;
	size_t count, total, len = 0;
	assert_int_equal(snapshots_list(world->snapshots, now_ns, offset, limit, &all, &count, &total, NULL), 0);
	out[0] = 0;
	for (size_t i = 0; i < count; i++)
		len += (size_t)snprintf(out + len, sizeof(out) - len, "%s%s", i ? " " : "", all[i].title);
	mem_free(all);
	return out;
}

static void path_of(const struct world *world, const struct snapshot *snapshot, const char *ending, char out[static PATH_MAX])
{
	snprintf(out, PATH_MAX, "%s/%s.json.gz%s", world->directory, snapshot->id, ending);
}

static unsigned count_files(const struct world *world)
{
	DIR *directory = opendir(world->directory);
	unsigned count = 0;
	const struct dirent *entry;
	while ((entry = readdir(directory)))
		count += entry->d_name[0] != '.';
	closedir(directory);
	return count;
}

static struct snapshots_stats stats_of(struct world *world)
{
	struct snapshots_stats stats;
	snapshots_get_stats(world->snapshots, NOW, &stats);
	return stats;
}

static void test_put_and_read(void **state)
{
	struct world *world = *state;
	_cleanup_(buffer_release) struct buffer read = {0}, gzip = {0}, plain = {0}, expected = {0};
	struct snapshot a = put(world, "a", 1000, NOW), found;
	char path[PATH_MAX];
	put(world, "b", 10, NOW + 1);
	put(world, "c", 10, NOW + 2);
	assert_string_equal(titles(world, NOW, 0, 10), "c b a");
	assert_string_equal(titles(world, NOW, 1, 1), "b");
	assert_string_equal(titles(world, NOW, 3, 10), "");
	assert_string_equal(titles(world, NOW, SIZE_MAX, 10), "");
	for (int i = 0; i < 2; i++, reopen(world)) { /* the same after a start */
		assert_int_equal(snapshots_find(world->snapshots, a.id, NOW, &found, NULL), 0);
		assert_string_equal(found.title, "a");
		assert_string_equal(found.call, "query");
		assert_string_equal(found.query, "process_cpu");
		assert_string_equal(found.content.hash, a.content.hash);
		assert_int_equal(found.made_ns, NOW);
		assert_int_equal(found.from_ns, 5);
		assert_int_equal(found.to_ns, 7);
		assert_int_equal(found.bytes, a.bytes);
		assert_string_equal(titles(world, NOW, 0, 10), "c b a");
		assert_int_equal(snapshots_read(world->snapshots, a.id, NOW, &read, NULL), 0);
	}
	/* zlib unpacks what was put. */
	make_gzip(&gzip, 1000);
	buffer_init(&plain, SIZE_MAX);
	buffer_init(&expected, SIZE_MAX);
	assert_int_equal(gzip_decompress(buffer_bytes(&gzip), &expected, NULL), 0);
	path_of(world, &a, "", path);
	gzFile file = gzopen(path, "rb");
	assert_int_equal(buffer_reserve(&plain, 2000), 0);
	assert_int_equal(gzread(file, plain.data, 2000), 1000);
	assert_memory_equal(plain.data, expected.data, 1000);
	gzclose(file);
	assert_int_equal(snapshots_remove(world->snapshots, a.id, NULL), 0);
	assert_int_equal(snapshots_remove(world->snapshots, a.id, NULL), -ENOENT);
	assert_int_equal(snapshots_read(world->snapshots, a.id, NOW, &read, NULL), -ENOENT);
	assert_int_equal(count_files(world), 2);
	assert_int_equal(snapshots_put(world->snapshots, &found, bytes_of_string("nothing"), NOW, NULL), -EBADMSG);
	assert_int_equal(world->problems, 0);
}

static void test_texts(void **state)
{
	struct world *world = *state;
	struct snapshot snapshot = {0}, found;
	/* The longest there are, of what needs most room in JSON. */
	for (size_t i = 0; i + 4 < sizeof(snapshot.title); i += 4)
		memcpy(snapshot.title + i, "\xf0\x9f\x94\xa5", 4);
	memset(snapshot.query, '\x01', sizeof(snapshot.query) - 1);
	memset(snapshot.type, '"', sizeof(snapshot.type) - 1);
	memset(snapshot.call, '\\', sizeof(snapshot.call) - 1);
	snapshot.from_ns = INT64_MIN;
	snapshot.to_ns = INT64_MAX;
	snapshot.is_partial = true;
	assert_int_equal(put_at(world, &snapshot, 10, NOW), 0);
	reopen(world);
	assert_int_equal(snapshots_find(world->snapshots, snapshot.id, NOW, &found, NULL), 0);
	assert_memory_equal(found.title, snapshot.title, sizeof(found.title));
	assert_string_equal(found.query, snapshot.query);
	assert_string_equal(found.type, snapshot.type);
	assert_string_equal(found.call, snapshot.call);
	assert_true(found.from_ns == INT64_MIN && found.to_ns == INT64_MAX && found.is_partial);
}

static void test_ids(void **state)
{
	static const char *const bad[] = {"",
					  "..",
					  "0123456789abcdef0123456789abcde",
					  "0123456789abcdef0123456789abcdef0",
					  "0123456789ABCDEF0123456789abcdef",
					  "../../../../../../etc/passwd1234",
					  "0123456789abcdef0123456789abcde/"};
	char id[SNAPSHOT_ID_SIZE], other[SNAPSHOT_ID_SIZE];
	struct snapshot found;
	struct world *world = *state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		assert_false(snapshot_id_is_valid(bad[i]));
		assert_int_equal(snapshots_find(world->snapshots, bad[i], NOW, &found, NULL), -ENOENT);
		assert_int_equal(snapshots_remove(world->snapshots, bad[i], NULL), -ENOENT);
	}
	assert_int_equal(snapshot_make_id(id, NULL), 0);
	assert_int_equal(snapshot_make_id(other, NULL), 0);
	assert_true(snapshot_id_is_valid(id));
	assert_string_not_equal(id, other);
}

static void test_room(void **state)
{
	struct world *world = *state;
	struct snapshot large = {0};
	reopen_with(world, (struct snapshots_options){.bytes_max = 100 * KIB}, NOW);
	assert_int_equal(put_at(world, &large, 26 * KIB, NOW), -E2BIG); /* more than a quarter */
	for (int i = 0; i < 5; i++)
		put(world, (char[]){(char)('a' + i), 0}, 24 * KIB, NOW + i);
	assert_string_equal(titles(world, NOW, 0, 10), "e d c b");
	assert_int_equal(count_files(world), 4);
	struct snapshots_stats stats = stats_of(world);
	assert_int_equal(stats.made, 5);
	assert_int_equal(stats.refused, 1);
	assert_int_equal(stats.evicted, 1);
	assert_int_equal(stats.snapshots, 4);
	assert_true(stats.bytes > 96 * KIB && stats.bytes <= 100 * KIB);
	/* A start with less room, and by number. */
	reopen_with(world, (struct snapshots_options){.bytes_max = 60 * KIB}, NOW);
	assert_string_equal(titles(world, NOW, 0, 10), "e d");
	reopen_with(world, (struct snapshots_options){.count_max = 3}, NOW);
	put(world, "f", 10, NOW + 5);
	put(world, "g", 10, NOW - 5); /* the clock was set back: what was made just now stays */
	assert_string_equal(titles(world, NOW, 0, 10), "g f e");
	assert_int_equal(count_files(world), 3);
	assert_int_equal(world->problems, 0);
}

static void test_age(void **state)
{
	struct world *world = *state;
	_cleanup_(buffer_release) struct buffer read = {0};
	struct snapshot a = put(world, "a", 10, NOW), found;
	put(world, "b", 10, NOW + DAY);
	assert_string_equal(titles(world, NOW + 90 * DAY, 0, 10), "b a");
	assert_int_equal(snapshots_read(world->snapshots, a.id, NOW + 90 * DAY, &read, NULL), 0);
	assert_int_equal(snapshots_read(world->snapshots, a.id, NOW + 90 * DAY + 1, &read, NULL), -ENOENT);
	assert_int_equal(count_files(world), 1);
	reopen_with(world, (struct snapshots_options){.age_ns = -1}, NOW + 1000 * DAY);
	assert_string_equal(titles(world, NOW + 10000 * DAY, 0, 10), "b");
	reopen_with(world, (struct snapshots_options){.age_ns = DAY}, NOW + 2 * DAY + 1);
	assert_int_equal(snapshots_find(world->snapshots, a.id, NOW, &found, NULL), -ENOENT);
	assert_int_equal(count_files(world), 0);
}

static void damage(const char *path, int how)
{
	_cleanup_(buffer_release) struct buffer file = {0};
	assert_int_equal(io_read_file(path, 1 << 20, &file, NULL), 0);
	if (how == 0)
		file.len--; /* cut */
	else if (how == 1)
		file.len = 20; /* within the header */
	else if (how == 2)
		file.data[file.len - 20] ^= 1; /* of its contents */
	else if (how == 3)
		file.data[30] ^= 0x80; /* of its header */
	else if (how == 4)
		file.len = 0;
	else
		assert_int_equal(buffer_append(&file, "more", 4), 0);
	assert_int_equal(io_write_file(path, file.data, file.len, 0640, NULL), 0);
}

static void test_damage(void **state)
{
	struct world *world = *state;
	_cleanup_(buffer_release) struct buffer read = {0};
	char path[PATH_MAX], aside[PATH_MAX];
	put(world, "sound", 1000, NOW);
	for (int how = 0; how < 6; how++)
		for (int starts = 0; starts < 2; starts++) { /* found by a start, or when it is read */
			struct snapshot bad = put(world, "bad", 1000, NOW);
			struct snapshots_stats before = stats_of(world), after;
			unsigned problems = world->problems;
			path_of(world, &bad, "", path);
			path_of(world, &bad, ".torn", aside);
			damage(path, how);
			if (starts) {
				reopen(world);
				before.torn = 0;
			}
			assert_int_equal(snapshots_read(world->snapshots, bad.id, NOW, &read, NULL), -ENOENT);
			after = stats_of(world);
			assert_int_equal(after.torn, before.torn + 1);
			assert_int_equal(after.bytes, before.bytes - bad.bytes);
			assert_int_equal(world->problems, problems + 1);
			assert_non_null(strstr(world->problem, bad.id));
			assert_string_equal(titles(world, NOW, 0, 10), "sound");
			assert_int_equal(access(path, F_OK), -1);
			assert_int_equal(unlink(aside), 0);
		}
}

static void test_start(void **state)
{
	struct world *world = *state;
	struct snapshot a = put(world, "a", 10, NOW);
	char path[PATH_MAX], other[PATH_MAX];
	_cleanup_(buffer_release) struct buffer file = {0};
	path_of(world, &a, "", path);
	assert_int_equal(io_read_file(path, 1 << 20, &file, NULL), 0);
	/* What a crash left is removed, another's file and a link are set aside, what is none of ours is left alone. */
	path_of(world, &a, ".12-3.tmp", other);
	assert_int_equal(io_write_file(other, "half", 4, 0640, NULL), 0);
	snprintf(other, sizeof(other), "%s/0123456789abcdef0123456789abcdef.json.gz", world->directory);
	assert_int_equal(io_write_file(other, file.data, file.len, 0640, NULL), 0);
	snprintf(other, sizeof(other), "%s/link.json.gz", world->directory);
	assert_int_equal(symlink(path, other), 0);
	snprintf(other, sizeof(other), "%s/notes.txt", world->directory);
	assert_int_equal(io_write_file(other, "mine", 4, 0640, NULL), 0);
	reopen(world);
	assert_string_equal(titles(world, NOW, 0, 10), "a");
	assert_int_equal(world->problems, 2);
	assert_int_equal(access(other, F_OK), 0);
	assert_int_equal(count_files(world), 4); /* a, two that are set aside, notes.txt */
}

/* Whatever fails: it is there, whole, or it is not, and nothing else has changed. */
static void test_faults(void **state)
{
	static const enum fault_kind kinds[] = {FAULT_ALLOC, FAULT_OPEN, FAULT_WRITE, FAULT_SYNC, FAULT_RENAME};
	struct world *world = *state;
	reopen_with(world, (struct snapshots_options){.count_max = 2}, NOW);
	for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds); k++) {
		bool is_reached = true;
		for (uint64_t n = 1; is_reached; n++) {
			_cleanup_(buffer_release) struct buffer gzip = {0}, read = {0};
			struct snapshot snapshot = {.call = "query", .title = "new", .made_ns = NOW}, found;
			put(world, "a", 10, NOW);
			put(world, "b", 10, NOW);
			make_gzip(&gzip, 100);
			assert_int_equal(snapshot_make_id(snapshot.id, NULL), 0);
			fault_arm(kinds[k], n, 0);
			int r = snapshots_put(world->snapshots, &snapshot, buffer_bytes(&gzip), NOW, NULL);
			is_reached = fault_disarm(kinds[k]);
			if (!is_reached)
				assert_int_equal(r, 0);
			assert_string_equal(titles(world, NOW, 0, 10), r == 0 ? "new b" : "b a");
			assert_int_equal(snapshots_find(world->snapshots, snapshot.id, NOW, &found, NULL),
					 r == 0 ? 0 : -ENOENT);
			if (r == 0)
				assert_int_equal(snapshots_read(world->snapshots, snapshot.id, NOW, &read, NULL), 0);
			reopen_with(world, (struct snapshots_options){.count_max = 2}, NOW);
			assert_int_equal(snapshots_find(world->snapshots, snapshot.id, NOW, &found, NULL),
					 r == 0 ? 0 : -ENOENT);
		}
	}
	assert_int_equal(world->problems, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {TEST(test_put_and_read), TEST(test_texts),  TEST(test_ids),	 TEST(test_room),
					   TEST(test_age),	    TEST(test_damage), TEST(test_start), TEST(test_faults)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
