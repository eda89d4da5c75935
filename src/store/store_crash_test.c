/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the store promises when something breaks: acknowledged appends are there once after a kill, a failed call, a torn log;
 * damage is found and named, and the rest stays readable.
 *
 * WICK_KILL_ROUNDS sets the number of kills (10).
 */
#include "store/test_store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/fault.h"
#include "base/limits.h"
#include "base/test_stride.h"
#include "store/store_int.h"

struct problems {
	char text[65536];
	unsigned count;
};

static void on_problem(void *context, const char *message)
{
	struct problems *problems = context;
	size_t len = strlen(problems->text);
	snprintf(problems->text + len, sizeof(problems->text) - len, "%s\n", message);
	problems->count++;
}

static int try_open(const char *directory, struct problems *problems, struct store **ret, struct error *err)
{
	struct store_options options = {
		.directory = directory, .retention_age_ns = -1, .on_problem = on_problem, .context = problems};
	*ret = NULL;
	return store_open(&options, ret, err);
}

static struct store *open_store(const char *directory, struct problems *problems)
{
	struct store *store;
	struct error err = {0};
	memset(problems, 0, sizeof(*problems));
	if (try_open(directory, problems, &store, &err) < 0)
		fail_msg("%s", err.message);
	return store;
}

/* ---- profiles that carry a number, and counting them back ---- */

static struct profile *numbered_profile(uint64_t number)
{
	struct profile *profile;
	struct profile_function function = {0};
	struct profile_line line = {0};
	struct profile_location location = {0};
	uint32_t id, stack;
	assert_int_equal(profile_new(&profile, NULL), 0);
	profile_add_sample_type(profile, test_string(profile, "samples"), test_string(profile, "count"), NULL);
	profile->time_ns = TEST_EPOCH + (int64_t)number;
	function.name = test_string(profile, "append %" PRIu64, number);
	profile_add_function(profile, &function, &line.function, NULL);
	profile_add_location(profile, &location, &line, 1, &id, NULL);
	profile_add_stack(profile, 0, id, &stack, NULL);
	profile_add_sample(profile, &(struct profile_sample){.stack = stack}, &(int64_t){1}, NULL);
	return profile;
}

static int append_number(struct store *store, uint64_t number, struct error *err)
{
	struct profile *profile = numbered_profile(number);
	struct store_append_options options = {.received_ns = TEST_EPOCH};
	memcpy(options.id, &(uint64_t[2]){number, 1}, 16);
	int r = store_append(store, profile, &options, NULL, err);
	profile_free(profile);
	return r;
}

/* counts[number] += how often it is in the store. */
static void count_numbers(struct store *store, unsigned *counts, size_t limit)
{
	struct store_select select = {.from_ns = INT64_MIN, .to_ns = INT64_MAX};
	struct profile *into;
	struct error err = {0};
	memset(counts, 0, limit * sizeof(*counts));
	assert_int_equal(profile_new(&into, NULL), 0);
	if (store_merge(store, &select, NULL, into, NULL, &err) < 0)
		fail_msg("%s", err.message);
	for (size_t i = 0; i < into->sample_count; i++) {
		const struct profile_location *location = &into->locations[into->stacks[into->samples[i].stack].location];
		const char *name = profile_string(into, into->functions[into->lines[location->line_first].function].name);
		uint64_t number = strtoull(name + strlen("append "), NULL, 10);
		assert_true(number < limit);
		counts[number] += (unsigned)into->values[i];
	}
	profile_free(into);
}

/* ---- files ---- */

static void copy_file(const char *from, const char *to)
{
	struct buffer text;
	struct error err = {0};
	buffer_init(&text, GIB);
	if (io_read_file(from, GIB, &text, &err) < 0 || io_write_file(to, text.data, text.len, 0640, &err) < 0)
		fail_msg("%s", err.message);
	buffer_release(&text);
}

/* All regular files of a directory into another one. */
static void copy_files(const char *from, const char *to)
{
	char a[PATH_MAX], b[PATH_MAX];
	assert_int_equal(io_make_dirs(to, 0750, NULL), 0);
	DIR *dir = opendir(from);
	for (struct dirent *entry; (entry = readdir(dir));) {
		if (entry->d_name[0] == '.')
			continue;
		io_join_path(a, sizeof(a), from, entry->d_name);
		io_join_path(b, sizeof(b), to, entry->d_name);
		copy_file(a, b);
	}
	closedir(dir);
}

static size_t count_entries(const char *path)
{
	size_t count = 0;
	DIR *dir = opendir(path);
	if (!dir)
		return 0;
	for (struct dirent *entry; (entry = readdir(dir));)
		count += entry->d_name[0] != '.';
	closedir(dir);
	return count;
}

/* The first (and only) file of a directory. */
static void only_entry(const char *directory, char path[PATH_MAX])
{
	DIR *dir = opendir(directory);
	assert_non_null(dir);
	path[0] = '\0';
	for (struct dirent *entry; (entry = readdir(dir));) {
		if (entry->d_name[0] == '.')
			continue;
		assert_int_equal(path[0], 0);
		io_join_path(path, PATH_MAX, directory, entry->d_name);
	}
	closedir(dir);
	assert_int_not_equal(path[0], 0);
}

static void subdirectory(char path[PATH_MAX], const char *directory, const char *name)
{
	assert_int_equal(io_join_path(path, PATH_MAX, directory, name), 0);
}

/* Runs body in a child that ends without closing anything. */
static void in_child(void (*body)(const char *directory, void *context), const char *directory, void *context)
{
	fflush(NULL);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		body(directory, context);
		_exit(0);
	}
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void append_three(const char *directory, void *context)
{
	struct problems *problems = mem_zalloc(sizeof(*problems));
	struct store *store = open_store(directory, problems);
	for (uint64_t i = 0; i < 3; i++)
		if (append_number(store, i, NULL) < 0)
			_exit(1);
}

static void append_three_more(const char *directory, void *context)
{
	struct problems *problems = mem_zalloc(sizeof(*problems));
	struct store *store = open_store(directory, problems);
	for (uint64_t i = 3; i < 6; i++)
		if (append_number(store, i, NULL) < 0)
			_exit(1);
}

/* ---- restart ---- */

/* Records of a segment refer to nothing of another one, though the series are the same. */
static void test_segment_alone(void **state)
{
	char *directory = test_directory(), log[PATH_MAX], path[PATH_MAX];
	struct problems *problems = mem_zalloc(sizeof(*problems));
	unsigned counts[6];
	in_child(append_three, directory, NULL);
	in_child(append_three_more, directory, NULL);
	subdirectory(log, directory, "log");
	assert_int_equal(count_entries(log), 2);
	subdirectory(path, log, "00000001.log");
	assert_int_equal(unlink(path), 0);
	struct store *store = open_store(directory, problems);
	count_numbers(store, counts, 6);
	for (size_t i = 0; i < 6; i++)
		assert_int_equal(counts[i], i >= 3);
	store_close(store);
	mem_free(problems);
	test_directory_remove(directory);
}

static void test_restart_without_close(void **state)
{
	char *directory = test_directory();
	struct problems *problems = mem_zalloc(sizeof(*problems));
	unsigned counts[3];
	in_child(append_three, directory, NULL);
	for (int round = 0; round < 3; round++) {
		struct store *store = open_store(directory, problems);
		count_numbers(store, counts, 3);
		for (int i = 0; i < 3; i++)
			assert_int_equal(counts[i], 1);
		assert_int_equal(append_number(store, 2, NULL), 0); /* known: not stored again */
		assert_int_equal(problems->count, 0);
		store_close(store);
	}
	mem_free(problems);
	test_directory_remove(directory);
}

/* The crash between publishing a block and removing its log: put the log back after the cut. */
static void test_exactly_once(void **state)
{
	char *directory = test_directory(), log[PATH_MAX], saved[PATH_MAX];
	struct problems *problems = mem_zalloc(sizeof(*problems));
	struct store *store = open_store(directory, problems);
	unsigned counts[20];
	subdirectory(log, directory, "log");
	subdirectory(saved, directory, "saved");
	for (uint64_t i = 0; i < 10; i++)
		assert_int_equal(append_number(store, i, NULL), 0);
	copy_files(log, saved);
	assert_int_equal(store_cut(store, NULL), 0);
	for (uint64_t i = 10; i < 20; i++)
		assert_int_equal(append_number(store, i, NULL), 0);
	copy_files(log, saved);
	store_close(store);
	for (int round = 0; round < 2; round++) {
		copy_files(saved, log);
		store = open_store(directory, problems);
		count_numbers(store, counts, 20);
		for (int i = 0; i < 20; i++)
			assert_int_equal(counts[i], 1);
		if (problems->count)
			fail_msg("%s", problems->text);
		store_close(store);
	}
	mem_free(problems);
	test_directory_remove(directory);
}

/* Where the three records of a segment end. */
static void find_records(const struct buffer *segment, size_t ends[static 3])
{
	size_t at = LOG_SEGMENT_HEADER_SIZE;
	for (size_t i = 0; i < 3; i++) {
		uint32_t len;
		assert_true(at + LOG_RECORD_HEADER_SIZE <= segment->len);
		memcpy(&len, segment->data + at + 4, sizeof(len));
		ends[i] = at += LOG_RECORD_HEADER_SIZE + len;
	}
	assert_int_equal(at, segment->len);
}

/* How many of them end at or before `at`. */
static size_t records_before(const size_t ends[static 3], size_t at)
{
	size_t count = 0;
	while (count < 3 && ends[count] <= at)
		count++;
	return count;
}

/* Whether these bytes are zeros but for one bit at most, which would be put right. */
static bool is_nearly_zero(const struct buffer *segment, size_t from, size_t to)
{
	int bits = 0;
	for (; from < to; from++)
		bits += __builtin_popcount(segment->data[from]);
	return bits <= 1;
}

/* The same for the record from `begin` on, of which what is behind `from` is zeros instead. */
static bool lacks_nothing(const struct buffer *segment, size_t begin, size_t from, size_t end)
{
	size_t payload = begin + LOG_RECORD_HEADER_SIZE;
	return is_nearly_zero(segment, from > begin ? from : begin, payload) &&
	       is_nearly_zero(segment, from > payload ? from : payload, end);
}

/* Any length that the last segment may have after a crash: whole records stay, the torn one goes without a word. */
static void test_torn_tail(void **state)
{
	char *directory = test_directory(), *other = test_directory(), log[PATH_MAX], path[PATH_MAX], blocks[PATH_MAX];
	struct problems *problems = mem_zalloc(sizeof(*problems));
	struct buffer bytes;
	in_child(append_three, directory, NULL);
	subdirectory(log, directory, "log");
	only_entry(log, path);
	buffer_init(&bytes, MIB);
	assert_int_equal(io_read_file(path, MIB, &bytes, NULL), 0);
	subdirectory(log, other, "log");
	subdirectory(blocks, other, "blocks");
	subdirectory(path, log, "00000001.log");
	size_t ends[3];
	find_records(&bytes, ends);
	for (size_t len = 0; len <= bytes.len; len += 1 + len / 97) {
		for (int zeros = 0; zeros < 2; zeros++) {
			unsigned counts[3];
			struct buffer torn;
			assert_int_equal(store_empty_directory(log, NULL), 0);
			assert_int_equal(store_empty_directory(blocks, NULL), 0);
			buffer_init(&torn, MIB);
			if (len)
				buffer_append(&torn, bytes.data, len);
			if (zeros)
				buffer_append(&torn, (char[100]){0}, 100);
			/* A record that ends in zeros where its payload should be is damage as far as anybody can tell. */
			size_t whole = records_before(ends, len);
			size_t begin = whole ? ends[whole - 1] : LOG_SEGMENT_HEADER_SIZE;
			bool in_record = len > begin;
			/* Unless all that it lacks is zeros, or a bit. */
			while (zeros && whole < 3 && ends[whole] <= len + 100 &&
			       lacks_nothing(&bytes, whole ? ends[whole - 1] : LOG_SEGMENT_HEADER_SIZE, len, ends[whole]))
				whole++;
			assert_int_equal(io_write_file(path, torn.data ? torn.data : (uint8_t *)"", torn.len, 0640, NULL), 0);
			buffer_release(&torn);
			struct store *store = open_store(other, problems);
			count_numbers(store, counts, 3);
			for (size_t i = 0; i < 3; i++)
				assert_int_equal(counts[i], i < whole);
			if (problems->count && !(zeros && in_record) && !(zeros && len < LOG_SEGMENT_HEADER_SIZE))
				fail_msg("at %zu: %s", len, problems->text);
			store_close(store);
		}
	}
	buffer_release(&bytes);
	mem_free(problems);
	test_directory_remove(directory);
	test_directory_remove(other);
}

/* ---- damage ---- */

/* A flipped bit in the log costs nothing. Two of them cost the record that they are in, and of later ones what refers to what
 * only that one held: here the first one has the series of all. All is named, and counted. */
static void test_log_bit_flips(void **state)
{
	char *directory = test_directory(), *other = test_directory(), log[PATH_MAX], path[PATH_MAX], quarantine[PATH_MAX];
	struct problems *problems = mem_zalloc(sizeof(*problems));
	struct buffer bytes;
	in_child(append_three, directory, NULL);
	subdirectory(log, directory, "log");
	only_entry(log, path);
	buffer_init(&bytes, MIB);
	assert_int_equal(io_read_file(path, MIB, &bytes, NULL), 0);
	subdirectory(log, other, "log");
	subdirectory(path, log, "00000001.log");
	subdirectory(quarantine, other, "quarantine");
	size_t ends[3];
	find_records(&bytes, ends);
	for (size_t at = 0; at < bytes.len; at += 1 + rnd_below(4)) {
		char blocks[PATH_MAX];
		unsigned counts[3];
		subdirectory(blocks, other, "blocks");
		assert_int_equal(store_empty_directory(log, NULL), 0);
		assert_int_equal(store_empty_directory(blocks, NULL), 0);
		assert_int_equal(io_remove_tree(quarantine, NULL), 0);
		uint8_t flip = (uint8_t)(1u << rnd_below(8));
		bool is_one = rnd_below(2);
		if (!is_one)
			flip |= (uint8_t)(flip << 4 | flip >> 4);
		bytes.data[at] ^= flip;
		assert_int_equal(io_write_file(path, bytes.data, bytes.len, 0640, NULL), 0);
		bytes.data[at] ^= flip;
		struct store *store = open_store(other, problems);
		struct store_stats stats;
		count_numbers(store, counts, 3);
		store_get_stats(store, &stats);
		size_t hit = at < LOG_SEGMENT_HEADER_SIZE || is_one ? SIZE_MAX : records_before(ends, at);
		for (size_t i = 0; i < 3; i++)
			assert_int_equal(counts[i], hit != 0 && i != hit);
		assert_int_equal(stats.corrected_bits, is_one && at >= LOG_SEGMENT_HEADER_SIZE);
		assert_int_equal(stats.log_lost_records, hit != SIZE_MAX);
		assert_int_equal(stats.log_lost_rows, hit == 0 ? 2 : 0);
		assert_true((stats.log_lost_bytes > 0) == (hit != SIZE_MAX));
		assert_int_equal(problems->count, hit == 0 ? 2 : 1);
		assert_true(hit != 0 ||
			    strstr(problems->text, "2 samples of appends that refer to damaged or missing records"));
		assert_non_null(strstr(problems->text, "00000001.log"));
		assert_int_equal(count_entries(quarantine), hit != SIZE_MAX);
		store_close(store);
	}
	buffer_release(&bytes);
	mem_free(problems);
	test_directory_remove(directory);
	test_directory_remove(other);
}

/* Two blocks; a byte of one is changed. It is found and named, and the other one answers. With `flip` a single bit, all of both
 * does, and the bit is put right. */
static void damage_block(const char *directory, const char *file, const char *saved, const char *block, uint8_t flip)
{
	char path[PATH_MAX], quarantine[PATH_MAX];
	struct problems *problems = mem_zalloc(sizeof(*problems));
	struct buffer bytes;
	unsigned found = 0;
	subdirectory(quarantine, directory, "quarantine");
	subdirectory(path, saved, file);
	buffer_init(&bytes, MIB);
	assert_int_equal(io_read_file(path, MIB, &bytes, NULL), 0);
	for (int round = 0; round < 12; round++) {
		unsigned counts[20];
		assert_int_equal(io_remove_tree(block, NULL), 0);
		assert_int_equal(io_remove_tree(quarantine, NULL), 0);
		copy_files(saved, block);
		size_t at = rnd_below((uint32_t)bytes.len);
		bytes.data[at] ^= flip;
		subdirectory(path, block, file);
		assert_int_equal(io_write_file(path, bytes.data, bytes.len, 0640, NULL), 0);
		bytes.data[at] ^= flip;
		struct store *store = NULL;
		const struct store_options options = {.directory = directory,
						      .retention_age_ns = -1,
						      .manual = true,
						      .on_problem = on_problem,
						      .context = problems};
		memset(problems, 0, sizeof(*problems));
		assert_int_equal(store_open(&options, &store, NULL), 0);
		count_numbers(store, counts, 20);
		/* Columns that are only there for others (ids, hashes) are not read, nor are the ids of appends needed. */
		bool is_unused = counts[0] == 1;
		/* Names that are damaged take no values with them. */
		if (strstr(problems->text, BLOCK_DAMAGED_NAME)) {
			assert_true(problems->count == 1 && flip != 1 && count_entries(quarantine) == 0);
			store_close(store);
			found++;
			continue;
		}
		for (int i = 0; i < 20; i++)
			assert_int_equal(counts[i], is_unused || i >= 10);
		if (is_unused) {
			struct block *damaged;
			struct error err = {0};
			if (block_open(block, &damaged, &err) < 0)
				fail_msg("%s: %s", err.message, problems->text);
			assert_int_equal(block_verify(damaged, &err), -EBADMSG);
			assert_non_null(strstr(err.message, file));
			block_free(damaged);
			if (flip == 1) {
				struct block_healed healed;
				assert_int_equal(block_heal(block, true, NULL, NULL, &healed, NULL), 0);
				assert_true(healed.bits == 1 && !healed.damaged);
				assert_int_equal(block_open(block, &damaged, NULL), 0);
				assert_int_equal(block_verify(damaged, NULL), 0);
				block_free(damaged);
			}
		} else {
			assert_int_not_equal(flip, 1);
			assert_int_equal(problems->count, 1);
			assert_non_null(strstr(problems->text, file));
			assert_int_equal(count_entries(quarantine), strcmp(file, "samples.parquet") != 0);
			found++;
			count_numbers(store, counts, 20); /* once */
			assert_int_equal(problems->count, 1);
		}
		store_close(store);
	}
	if (strcmp(file, "appends.parquet") && strcmp(file, "labels.parquet"))
		assert_true(found > 0 || flip == 1);
	buffer_release(&bytes);
	mem_free(problems);
}

static void test_block_bit_flips(void **state)
{
	char *directory = test_directory(), block[PATH_MAX], saved[PATH_MAX];
	struct problems *problems = mem_zalloc(sizeof(*problems));
	struct store *store = open_store(directory, problems);
	for (uint64_t i = 0; i < 20; i++) {
		assert_int_equal(append_number(store, i, NULL), 0);
		if (i % 10 == 9)
			assert_int_equal(store_cut(store, NULL), 0);
	}
	subdirectory(block, local_of(store)->blocks_path, local_of(store)->blocks[0]->meta.name);
	store_close(store);
	subdirectory(saved, directory, "saved");
	copy_files(block, saved);
	struct block *whole;
	assert_int_equal(block_open(block, &whole, NULL), 0);
	assert_int_equal(block_verify(whole, NULL), 0);
	for (size_t i = 0; i < BLOCK_FILE_COUNT; i++)
		if (whole->meta.files[i].size)
			for (int many = 0; many < 2; many++)
				damage_block(directory, block_file_names[i], saved, block, many ? 0x41 : 1);
	block_free(whole);
	damage_block(directory, "meta.json", saved, block, 1);
	damage_block(directory, "meta.json", saved, block, 0x41);
	mem_free(problems);
	test_directory_remove(directory);
}

static void test_missing_file_and_strangers(void **state)
{
	char *directory = test_directory(), block[PATH_MAX], path[PATH_MAX];
	struct problems *problems = mem_zalloc(sizeof(*problems));
	struct store *store = open_store(directory, problems);
	unsigned counts[3];
	for (uint64_t i = 0; i < 3; i++) {
		assert_int_equal(append_number(store, i, NULL), 0);
		assert_int_equal(store_cut(store, NULL), 0);
	}
	subdirectory(block, local_of(store)->blocks_path, local_of(store)->blocks[1]->meta.name);
	/* A file that goes away while the store is open is found by the query. */
	subdirectory(path, block, "samples.parquet");
	assert_int_equal(unlink(path), 0);
	count_numbers(store, counts, 3);
	assert_true(counts[0] == 1 && counts[1] == 0 && counts[2] == 1);
	assert_int_equal(problems->count, 1);
	/* Something in blocks/ that is no block. */
	subdirectory(path, local_of(store)->blocks_path, "stranger");
	assert_int_equal(io_make_dirs(path, 0750, NULL), 0);
	store_close(store);
	store = open_store(directory, problems);
	assert_int_equal(problems->count, 2);
	assert_non_null(strstr(problems->text, "stranger"));
	assert_non_null(strstr(problems->text, "samples.parquet is missing"));
	count_numbers(store, counts, 3);
	assert_true(counts[0] == 1 && counts[1] == 0 && counts[2] == 1);
	assert_int_equal(append_number(store, 1, NULL), 0);
	store_close(store);
	mem_free(problems);
	test_directory_remove(directory);
}

/* Data of a newer version is not damage: the store must not touch it. */
static void test_newer_versions(void **state)
{
	char *directory = test_directory(), path[PATH_MAX], blocks[PATH_MAX];
	struct problems *problems = mem_zalloc(sizeof(*problems));
	struct store *store = open_store(directory, problems);
	struct error err = {0};
	assert_int_equal(append_number(store, 0, NULL), 0);
	store_close(store);
	static const char meta[] = "{\"format\":\"wick block\",\"version\":99,\"anything\":[]}";
	subdirectory(blocks, directory, "blocks/1-1");
	assert_int_equal(io_make_dirs(blocks, 0750, NULL), 0);
	subdirectory(path, blocks, "meta.json");
	assert_int_equal(io_write_file(path, meta, strlen(meta), 0640, NULL), 0);
	assert_int_equal(try_open(directory, problems, &store, &err), -ENOTSUP);
	assert_non_null(strstr(err.message, "use a newer wick"));
	assert_int_equal(access(path, F_OK), 0);
	assert_int_equal(io_remove_tree(blocks, NULL), 0);
	store = open_store(directory, problems);
	store_close(store);
	mem_free(problems);
	test_directory_remove(directory);
}

/* ---- failing calls ---- */

static const char *const kind_names[] = {"alloc", "open", "read", "write", "sync", "rename"};

/* One append and one cut with the n-th call of a kind failing; false when the fault was not reached. */
static bool run_with_fault(enum fault_kind kind, uint64_t n, unsigned flags)
{
	char *directory = test_directory();
	struct problems *problems = mem_zalloc(sizeof(*problems));
	struct store *store = open_store(directory, problems);
	unsigned counts[4], expected[4] = {1, 0, 0, 0};
	struct error err = {0};
	assert_int_equal(append_number(store, 0, NULL), 0);
	struct profile *profile = numbered_profile(1);
	struct store_append_options options = {.received_ns = TEST_EPOCH};
	fault_arm(kind, n, flags);
	int appended = store_append(store, profile, &options, NULL, &err);
	int cut = store_cut(store, NULL);
	bool reached = fault_disarm(kind);
	profile_free(profile);
	expected[1] = appended == 0;
	if (appended < 0)
		assert_int_not_equal(err.message[0], 0);
	if (!reached && (appended < 0 || cut < 0))
		fail_msg("%s %" PRIu64 ": %s", kind_names[kind], n, err.message);
	/* Queries go on in any case, and show what was acknowledged. */
	count_numbers(store, counts, 4);
	for (int i = 0; i < 4; i++)
		if (counts[i] != expected[i])
			fail_msg("%s %" PRIu64 ": append %d is there %u times", kind_names[kind], n, i, counts[i]);
	/* So do appends, unless a sync failed. */
	int later = append_number(store, 2, &err);
	expected[2] = later == 0;
	if (later < 0) {
		assert_int_equal(kind, FAULT_SYNC);
		assert_non_null(strstr(err.message, "could not be synced"));
	}
	store_close(store);
	store = open_store(directory, problems);
	count_numbers(store, counts, 4);
	for (int i = 0; i < 4; i++)
		if (counts[i] != expected[i])
			fail_msg("%s %" PRIu64 ", restarted: append %d is there %u times", kind_names[kind], n, i, counts[i]);
	if (problems->count)
		fail_msg("%s %" PRIu64 ": %s", kind_names[kind], n, problems->text);
	store_close(store);
	mem_free(problems);
	test_directory_remove(directory);
	return reached;
}

static void fault_each(enum fault_kind kind, unsigned flags)
{
	/* Allocations are many and the paths behind them short: all of the first, then every so many. */
	for (uint64_t n = 1; run_with_fault(kind, n, flags); n += kind == FAULT_ALLOC && n > 60 ? 1 + n / 20 : 1)
		assert_true(n < 100000);
}

static void test_failing_write(void **state)
{
	fault_each(FAULT_WRITE, 0);
}

static void test_failing_sync(void **state)
{
	fault_each(FAULT_SYNC, 0);
}

static void test_failing_rename(void **state)
{
	fault_each(FAULT_RENAME, 0);
}

static void test_failing_open(void **state)
{
	fault_each(FAULT_OPEN, 0);
}

static void test_failing_alloc(void **state)
{
	fault_each(FAULT_ALLOC, 0);
}

/* A disk that stays full for a while, then has room again. */
static void test_full_disk(void **state)
{
	char *directory = test_directory();
	struct problems *problems = mem_zalloc(sizeof(*problems));
	struct store *store = open_store(directory, problems);
	struct error err = {0};
	unsigned counts[20];
	for (uint64_t i = 0; i < 5; i++)
		assert_int_equal(append_number(store, i, NULL), 0);
	fault_arm(FAULT_WRITE, 1, FAULT_STICKY);
	for (uint64_t i = 5; i < 10; i++)
		assert_int_equal(append_number(store, i, &err), -ENOSPC);
	assert_true(store_cut(store, &err) < 0);
	assert_int_equal(append_number(store, 10, &err), -ENOSPC);
	count_numbers(store, counts, 20);
	for (int i = 0; i < 20; i++)
		assert_int_equal(counts[i], i < 5);
	fault_disarm(FAULT_WRITE);
	for (uint64_t i = 5; i < 20; i++)
		assert_int_equal(append_number(store, i, &err), 0);
	assert_int_equal(store_cut(store, &err), 0);
	assert_int_equal(problems->count, 1);
	for (int round = 0; round < 2; round++) {
		count_numbers(store, counts, 20);
		for (int i = 0; i < 20; i++)
			assert_int_equal(counts[i], 1);
		store_close(store);
		store = open_store(directory, problems);
	}
	assert_int_equal(problems->count, 0);
	store_close(store);
	mem_free(problems);
	test_directory_remove(directory);
}

/* Started on a full disk: answers, takes nothing, and takes again when there is room. */
static void test_start_on_full_disk(void **state)
{
	char *directory = test_directory();
	struct problems *problems = mem_zalloc(sizeof(*problems));
	struct error err = {0};
	unsigned counts[10];
	in_child(append_three, directory, NULL);
	for (int round = 0; round < 3; round++) {
		fault_arm(FAULT_WRITE, 1, FAULT_STICKY);
		struct store *store = open_store(directory, problems);
		assert_int_equal(problems->count, 1);
		assert_non_null(strstr(problems->text, "until space is free"));
		for (uint64_t i = 4; i < 6; i++)
			assert_int_equal(append_number(store, i, &err), -ENOSPC);
		assert_int_equal(append_number(store, 1, &err), 0); /* known */
		assert_true(store_cut(store, NULL) < 0);
		count_numbers(store, counts, 10);
		for (int i = 0; i < 10; i++)
			assert_int_equal(counts[i], i < 3);
		if (round == 0) {
			store_close(store);
			continue;
		}
		fault_disarm(FAULT_WRITE);
		if (round == 1)
			assert_int_equal(append_number(store, 3, &err), 0);
		assert_int_equal(store_cut(store, &err), 0);
		if (round == 2)
			assert_int_equal(append_number(store, 3, &err), 0);
		store_close(store);
		store = open_store(directory, problems);
		assert_int_equal(problems->count, 0);
		count_numbers(store, counts, 10);
		for (int i = 0; i < 10; i++)
			assert_int_equal(counts[i], i < 4);
		store_close(store);
		test_directory_remove(directory);
		directory = test_directory();
		in_child(append_three, directory, NULL);
	}
	fault_disarm(FAULT_WRITE);
	mem_free(problems);
	test_directory_remove(directory);
}

/* When blocks cannot be written, appends are refused at the limit instead of waiting for ever. */
static void test_full_memory(void **state)
{
	char *directory = test_directory();
	struct store *store;
	struct error err = {0};
	struct model model = {0};
	struct store_options options = {.directory = directory, .head_size_bytes = 128 * KIB, .retention_age_ns = -1};
	assert_int_equal(store_open(&options, &store, NULL), 0);
	/* Blocks need renaming, appends do not. */
	fault_arm(FAULT_RENAME, 1, FAULT_STICKY);
	int r = 0;
	for (int i = 0; i < 200 && r == 0; i++)
		r = test_append(store, &model, 100, NULL, &err);
	assert_int_equal(r, -EIO);
	assert_non_null(strstr(err.message, "cannot be written to disk"));
	check_merge(store, &model, INT64_MIN, INT64_MAX, "samples:count");
	fault_disarm(FAULT_RENAME);
	assert_int_equal(store_cut(store, &err), 0);
	assert_int_equal(test_append(store, &model, 100, NULL, &err), 0);
	check_merge(store, &model, INT64_MIN, INT64_MAX, "samples:count");
	store_close(store);
	assert_int_equal(store_open(&options, &store, NULL), 0);
	check_merge(store, &model, INT64_MIN, INT64_MAX, "samples:count");
	store_close(store);
	model_release(&model);
	test_directory_remove(directory);
}

/* Opening with failing calls never damages anything. */
static void test_faults_while_opening(void **state)
{
	static const enum fault_kind kinds[] = {FAULT_ALLOC, FAULT_OPEN, FAULT_READ, FAULT_WRITE, FAULT_SYNC};
	char *directory = test_directory();
	struct problems *problems = mem_zalloc(sizeof(*problems));
	struct store *store = open_store(directory, problems);
	unsigned counts[3];
	assert_int_equal(append_number(store, 0, NULL), 0);
	assert_int_equal(append_number(store, 1, NULL), 0);
	store_close(store);
	for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds); k++) {
		for (uint64_t n = 1;; n++) {
			struct error err = {0};
			memset(problems, 0, sizeof(*problems));
			fault_arm(kinds[k], n, 0);
			int r = try_open(directory, problems, &store, &err);
			bool reached = fault_disarm(kinds[k]);
			if (r == 0) {
				count_numbers(store, counts, 3);
				assert_true(counts[0] == 1 && counts[1] == 1);
				store_close(store);
			} else {
				assert_int_not_equal(err.message[0], 0);
			}
			/* A full disk is no reason not to answer. */
			bool is_full = kinds[k] == FAULT_WRITE && strstr(problems->text, "until space is free");
			if (problems->count != is_full)
				fail_msg("%s %" PRIu64 ": %s", kind_names[kinds[k]], n, problems->text);
			if (!reached)
				break;
		}
	}
	store = open_store(directory, problems);
	count_numbers(store, counts, 3);
	assert_true(counts[0] == 1 && counts[1] == 1);
	store_close(store);
	mem_free(problems);
	test_directory_remove(directory);
}

/* The process ends at the n-th call of a kind, for every n: between any two steps of append, cut and start. */
static bool exit_at(enum fault_kind kind, uint64_t n)
{
	char *directory = test_directory();
	struct problems *problems = mem_zalloc(sizeof(*problems));
	bool acknowledged[6] = {0};
	unsigned counts[6];
	int ends[2], status;
	uint8_t number;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	fflush(NULL);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		struct store *store;
		fault_arm(kind, n, FAULT_EXIT);
		for (number = 0; number < 6; number++) {
			if (number % 3 == 0 && try_open(directory, problems, &store, NULL) < 0)
				_exit(1);
			if (append_number(store, number, NULL) < 0 || write(ends[1], &number, 1) != 1)
				_exit(1);
			if (number % 3 == 1 && store_cut(store, NULL) < 0)
				_exit(1);
			if (number % 3 == 2)
				store_close(store);
		}
		_exit(0);
	}
	close(ends[1]);
	while (read(ends[0], &number, 1) == 1)
		acknowledged[number] = true;
	close(ends[0]);
	waitpid(child, &status, 0);
	assert_true(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 137));
	for (int round = 0; round < 2; round++) {
		struct store *store = open_store(directory, problems);
		count_numbers(store, counts, 6);
		for (int i = 0; i < 6; i++)
			if (counts[i] > 1 || counts[i] < acknowledged[i])
				fail_msg("%s %" PRIu64 ": append %d is there %u times", kind_names[kind], n, i, counts[i]);
		if (problems->count)
			fail_msg("%s %" PRIu64 ": %s", kind_names[kind], n, problems->text);
		store_close(store);
	}
	mem_free(problems);
	test_directory_remove(directory);
	return WEXITSTATUS(status) == 137;
}

static void test_exit_at_each_call(void **state)
{
	static const enum fault_kind kinds[] = {FAULT_WRITE, FAULT_SYNC, FAULT_RENAME, FAULT_OPEN};
	uint64_t points = 0;
	for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds); k++)
		for (uint64_t n = 1; exit_at(kinds[k], n); n += test_stride())
			points++;
	assert_true(points > 100 / test_stride());
}

/* The same while blocks are merged, deleted from and removed. What the child says to the parent: numbers that were
 * acknowledged, and how far it is. */
enum { DELETE_BEGINS = 100, DELETE_DONE, RETENTION_BEGINS, RETENTION_DONE };

static void report(int pipe, uint8_t what)
{
	if (write(pipe, &what, 1) != 1)
		_exit(1);
}

/* Two merges, number 0 deleted, everything expired. */
static void maintain_until_exit(const char *directory, enum fault_kind kind, uint64_t n, int pipe)
{
	struct problems *problems = mem_zalloc(sizeof(*problems));
	struct store_options options = {.directory = directory,
					.retention_age_ns = 3600 * NS_PER_S,
					.manual = true,
					.late_window_ns = -1,
					.on_problem = on_problem,
					.context = problems};
	struct store_delete_result result;
	struct store *store;
	int64_t later = TEST_EPOCH + 48 * 3600 * NS_PER_S;
	if (store_open(&options, &store, NULL) < 0)
		_exit(1);
	fault_arm(kind, n, FAULT_EXIT);
	for (uint8_t number = 0; number < 6; number++) {
		if (append_number(store, number, NULL) < 0)
			_exit(1);
		report(pipe, number);
		if (store_cut(store, NULL) < 0 || (number >= 4 && store_compact(store, later, NULL) < 0))
			_exit(1);
	}
	report(pipe, DELETE_BEGINS);
	if (store_delete(store, &(struct series_conditions){0}, TEST_EPOCH, TEST_EPOCH + 1, &result, NULL) < 0)
		_exit(1);
	report(pipe, DELETE_DONE);
	report(pipe, RETENTION_BEGINS);
	if (store_apply_retention(store, later, NULL) < 0)
		_exit(1);
	report(pipe, RETENTION_DONE);
	_exit(0);
}

static void check_maintained(const char *directory, const bool *reported, const char *where)
{
	struct problems *problems = mem_zalloc(sizeof(*problems));
	unsigned counts[6];
	for (int round = 0; round < 2; round++) {
		struct store *store = open_store(directory, problems);
		count_numbers(store, counts, 6);
		for (int i = 0; i < 6; i++) {
			bool may_be_gone = reported[RETENTION_BEGINS] || (i == 0 && reported[DELETE_BEGINS]);
			bool is_gone = reported[RETENTION_DONE] || (i == 0 && reported[DELETE_DONE]);
			if (counts[i] > !is_gone || counts[i] < (reported[i] && !may_be_gone))
				fail_msg("%s: append %d is there %u times", where, i, counts[i]);
		}
		if (problems->count)
			fail_msg("%s: %s", where, problems->text);
		store_close(store);
	}
	mem_free(problems);
}

static bool exit_at_maintenance(enum fault_kind kind, uint64_t n)
{
	char *directory = test_directory(), where[64];
	bool reported[256] = {0};
	int ends[2], status;
	uint8_t what;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	fflush(NULL);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0)
		maintain_until_exit(directory, kind, n, ends[1]);
	close(ends[1]);
	while (read(ends[0], &what, 1) == 1)
		reported[what] = true;
	close(ends[0]);
	waitpid(child, &status, 0);
	assert_true(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 137));
	assert_int_equal(reported[RETENTION_DONE], WEXITSTATUS(status) == 0);
	snprintf(where, sizeof(where), "%s %" PRIu64, kind_names[kind], n);
	check_maintained(directory, reported, where);
	test_directory_remove(directory);
	return WEXITSTATUS(status) == 137;
}

static void test_exit_at_each_call_of_maintenance(void **state)
{
	static const enum fault_kind kinds[] = {FAULT_WRITE, FAULT_SYNC, FAULT_RENAME, FAULT_OPEN};
	uint64_t points = 0;
	for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds); k++)
		for (uint64_t n = 1; exit_at_maintenance(kinds[k], n); n += test_stride())
			points++;
	assert_true(points > 300 / test_stride());
}

/* ---- kill -9 ---- */

#define KILL_NUMBERS_MAX    400000
#define KILL_NUMBERS_ENOUGH 100000 /* then a new directory */

struct kill_work {
	struct store *store;
	_Atomic uint64_t *next;
	int pipe;
};

static void *append_forever(void *context)
{
	struct kill_work *work = context;
	for (;;) {
		uint64_t number = (*work->next)++;
		if (append_number(work->store, number, NULL) < 0)
			_exit(1);
		if (write(work->pipe, &number, sizeof(number)) != sizeof(number))
			_exit(1);
	}
	return NULL;
}

static void *compact_forever(void *context)
{
	struct kill_work *work = context;
	for (;;) {
		if (store_compact(work->store, TEST_EPOCH + 48 * 3600 * NS_PER_S, NULL) < 0 ||
		    store_apply_retention(work->store, TEST_EPOCH, NULL) < 0)
			_exit(1);
		time_sleep_ns(NS_PER_MS);
	}
	return NULL;
}

static void run_until_killed(const char *directory, uint64_t first, int pipe)
{
	_Atomic uint64_t next = first;
	struct kill_work work = {.next = &next, .pipe = pipe};
	/* Windows so small, and "now" so far ahead, that all that is cut is merged, over and over. */
	struct store_options options = {
		.directory = directory, .retention_age_ns = -1, .window_ns = {NS_PER_S, 60 * NS_PER_S}, .manual = true};
	pthread_t threads[4];
	if (store_open(&options, &work.store, NULL) < 0)
		_exit(1);
	for (size_t i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, append_forever, &work);
	pthread_create(&threads[3], NULL, compact_forever, &work);
	for (;;) {
		time_sleep_ns(15 * NS_PER_MS);
		store_cut(work.store, NULL);
	}
}

/* Blocks that were merged have a generation. */
static unsigned count_merged(const char *directory)
{
	char path[PATH_MAX];
	unsigned count = 0;
	subdirectory(path, directory, "blocks");
	DIR *dir = opendir(path);
	for (struct dirent *entry; dir && (entry = readdir(dir));)
		count += strstr(entry->d_name, "-g") != NULL;
	if (dir)
		closedir(dir);
	return count;
}

/* When a child is killed. */
enum moment {
	WHILE_IT_STARTS, /* most likely: within the time that the last start took */
	WHILE_IT_WORKS,	 /* some time after it acknowledged something */
	AFTER_A_MERGE,	 /* and not before it has merged blocks */
};

/* Notes the numbers that come from the child, for so long, or until it is gone (0); returns the next unused one. */
static uint64_t note_acknowledged(int pipe, int64_t until_ns, uint64_t next, bool *acknowledged)
{
	uint64_t number;
	struct pollfd ready = {.fd = pipe, .events = POLLIN};
	while (!until_ns || time_monotonic_ns() < until_ns) {
		if (until_ns && poll(&ready, 1, 1) == 0)
			continue;
		if (read(pipe, &number, sizeof(number)) != sizeof(number))
			break;
		assert_true(number < KILL_NUMBERS_MAX);
		acknowledged[number] = true;
		next = number + 1 > next ? number + 1 : next;
	}
	return next;
}

/* Starts a child and kills it at that moment, however slow the disk and the machine are; marks what it acknowledged, returns
 * the next unused number. */
static uint64_t kill_one(const char *directory, uint64_t first, enum moment moment, int64_t start_ns, bool *acknowledged)
{
	int ends[2], status;
	uint64_t next = first;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	fflush(NULL);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		close(ends[0]);
		run_until_killed(directory, first, ends[1]);
	}
	close(ends[1]);
	if (moment == WHILE_IT_STARTS) {
		time_sleep_ns((int64_t)rnd_below((uint32_t)(start_ns / NS_PER_US) + 1) * NS_PER_US);
	} else {
		int64_t given_up = time_monotonic_ns() + 120 * NS_PER_S;
		while ((next == first || (moment == AFTER_A_MERGE && !count_merged(directory))) &&
		       time_monotonic_ns() < given_up)
			next = note_acknowledged(ends[0], time_monotonic_ns() + NS_PER_MS, next, acknowledged);
		assert_true(next > first);
		next = note_acknowledged(ends[0], time_monotonic_ns() + (int64_t)(20 + rnd_below(200)) * NS_PER_MS, next,
					 acknowledged);
	}
	kill(child, SIGKILL);
	next = note_acknowledged(ends[0], 0, next, acknowledged);
	close(ends[0]);
	waitpid(child, &status, 0);
	assert_true(WIFSIGNALED(status));
	return next + 3; /* those that were being appended may be there or not */
}

static void test_kill(void **state)
{
	char *directory = test_directory();
	const char *rounds_text = getenv("WICK_KILL_ROUNDS");
	long rounds = rounds_text ? strtol(rounds_text, NULL, 10) : 10;
	bool *acknowledged = mem_zalloc_array(KILL_NUMBERS_MAX, sizeof(*acknowledged));
	unsigned *counts = mem_zalloc_array(KILL_NUMBERS_MAX, sizeof(*counts));
	struct problems *problems = mem_zalloc(sizeof(*problems));
	uint64_t next = 0, total = 0, merged = 0;
	int64_t slowest = 0, took = 0;
	unsigned early = 0;
	test_seed ^= (uint64_t)time_now_ns();
	for (long round = 0; round < rounds; round++) {
		next = kill_one(directory, next, round % 3 == 2 ? AFTER_A_MERGE : WHILE_IT_WORKS, 0, acknowledged);
		/* A start that is cut short, again and again, costs the next one nothing. */
		for (unsigned k = 0; k < 3 && took; k++) {
			uint64_t before = next;
			next = kill_one(directory, next, WHILE_IT_STARTS, took, acknowledged);
			early += next == before + 3;
		}
		merged += count_merged(directory);
		int64_t started = time_monotonic_ns();
		struct store *store = open_store(directory, problems);
		took = time_monotonic_ns() - started;
		slowest = took > slowest ? took : slowest;
		count_numbers(store, counts, KILL_NUMBERS_MAX);
		for (uint64_t i = 0; i < next; i++) {
			if (counts[i] > 1 || counts[i] < acknowledged[i])
				fail_msg("round %ld: append %" PRIu64 " was %sacknowledged and is there %u times", round, i,
					 acknowledged[i] ? "" : "not ", counts[i]);
		}
		if (problems->count)
			fail_msg("round %ld: %s", round, problems->text);
		if (round % 3 == 0)
			store_cut(store, NULL);
		store_close(store);
		if (next < KILL_NUMBERS_ENOUGH && round + 1 < rounds)
			continue;
		for (uint64_t i = 0; i < next; i++)
			total += acknowledged[i];
		memset(acknowledged, 0, KILL_NUMBERS_MAX * sizeof(*acknowledged));
		next = 0;
		test_directory_remove(directory);
		directory = test_directory();
	}
	printf("%ld kills, %u of them before a start was over, %" PRIu64 " appends acknowledged, slowest start %.0f ms\n",
	       4 * rounds - 3, early, total, (double)slowest / NS_PER_MS);
	assert_true(total >= (uint64_t)rounds);
	assert_true(early > 0 || rounds < 10);
	assert_true(merged > 0);
	mem_free(acknowledged);
	mem_free(counts);
	mem_free(problems);
	test_directory_remove(directory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_segment_alone),
		cmocka_unit_test(test_restart_without_close),
		cmocka_unit_test(test_exactly_once),
		cmocka_unit_test(test_torn_tail),
		cmocka_unit_test(test_log_bit_flips),
		cmocka_unit_test(test_block_bit_flips),
		cmocka_unit_test(test_missing_file_and_strangers),
		cmocka_unit_test(test_newer_versions),
		cmocka_unit_test(test_failing_write),
		cmocka_unit_test(test_failing_sync),
		cmocka_unit_test(test_failing_rename),
		cmocka_unit_test(test_failing_open),
		cmocka_unit_test(test_failing_alloc),
		cmocka_unit_test(test_full_disk),
		cmocka_unit_test(test_start_on_full_disk),
		cmocka_unit_test(test_full_memory),
		cmocka_unit_test(test_faults_while_opening),
		cmocka_unit_test(test_exit_at_each_call),
		cmocka_unit_test(test_exit_at_each_call_of_maintenance),
		cmocka_unit_test(test_kill),
	};
	test_seed_from_environment();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
