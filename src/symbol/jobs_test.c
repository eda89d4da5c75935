/* SPDX-License-Identifier: Apache-2.0 */
/* The symbolizer with workers: nobody waits who did not ask to, and what arrives late is seen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/test_fixture.h"
#include "base/time.h"
#include "elf/build_id.h"
#include "elf/test_elf.h"
#include "symbol/symbol_int.h"
#include "symbol/table.h"
#include "symbol/uploads.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct test_symbol exported[] = {{"alpha", 0x10, 0x20, STT_FUNC, STB_GLOBAL}};
static const struct test_symbol all[] = {{"alpha", 0x10, 0x20, STT_FUNC, STB_GLOBAL},
					 {"hidden", 0x100, 0x20, STT_FUNC, STB_LOCAL}};
static const struct test_elf stripped = {exported, COUNT(exported), .stripped = true};
static const struct test_elf separate = {all, COUNT(all), .debug_only = true};
static const struct symbolizer_want patient = {.wait_ns = -1};

struct fixture {
	char directory[64], cache[128], debug[128], uploads[128];
	struct uploads *store;
	struct symbolizer *s;
};
static const size_t fixture_bytes = sizeof(struct fixture);

static void on_arrival(void *context, const char *tenant, const char *build_id, enum upload_kind kind)
{
	symbolizer_arrived(((struct fixture *)context)->s, build_id);
}

static void open_symbolizer(struct fixture *f, unsigned workers)
{
	struct symbolizer_options options = {.cache_directory = f->cache, .workers = workers, .uploads = f->store};
	assert_int_equal(symbolizer_new(&options, &f->s, NULL), 0);
	f->s->debug_directory = f->debug;
}

static int fixture_init(struct fixture *f)
{
	snprintf(f->directory, sizeof(f->directory), "/tmp/wick-jobs-test-XXXXXX");
	assert_non_null(mkdtemp(f->directory));
	snprintf(f->cache, sizeof(f->cache), "%s/cache", f->directory);
	snprintf(f->debug, sizeof(f->debug), "%s/debug", f->directory);
	snprintf(f->uploads, sizeof(f->uploads), "%s/uploads", f->directory);
	struct uploads_options options = {.directory = f->uploads, .on_arrival = on_arrival, .context = f};
	assert_int_equal(uploads_open(&options, &f->store, NULL), 0);
	open_symbolizer(f, 2);
	return 0;
}

static void fixture_release(struct fixture *f)
{
	symbolizer_free(f->s);
	uploads_close(f->store);
	assert_int_equal(io_remove_tree(f->directory, NULL), 0);
}

static void make_id(unsigned number, char out[static BUILD_ID_HEX_MAX])
{
	snprintf(out, BUILD_ID_HEX_MAX, "%02x%s", number, TEST_ELF_BUILD_ID + 2);
}

static void make_elf(const struct test_elf *elf, unsigned number, struct buffer *ret)
{
	struct test_elf numbered = *elf;
	numbered.build_id_first = (uint8_t)number;
	test_elf_build(&numbered, ret);
}

static void write_program(const struct fixture *f, const struct test_elf *elf, unsigned number, char out[static 256])
{
	struct buffer b;
	make_elf(elf, number, &b);
	snprintf(out, 256, "%s/program%u", f->directory, number);
	assert_int_equal(io_write_file(out, b.data, b.len, 0755, NULL), 0);
	buffer_release(&b);
}

static void upload_bytes(struct fixture *f, const char *build_id, const struct buffer *b)
{
	struct upload_begin begin = {.kind = UPLOAD_DEBUGINFO, .size = b->len};
	char id[UPLOAD_ID_MAX];
	uint64_t offset;
	snprintf(begin.build_id, sizeof(begin.build_id), "%s", build_id);
	assert_int_equal(uploads_begin(f->store, &begin, id, &offset, NULL), 0);
	assert_int_equal(uploads_write(f->store, id, 0, buffer_bytes(b), &offset, NULL), 0);
	assert_int_equal(uploads_finish(f->store, id, NULL), 0);
}

static void upload(struct fixture *f, const struct test_elf *elf, unsigned number)
{
	struct buffer b;
	char build_id[BUILD_ID_HEX_MAX];
	make_elf(elf, number, &b);
	make_id(number, build_id);
	upload_bytes(f, build_id, &b);
	buffer_release(&b);
}

static void upload_file(struct fixture *f, const char *name, char ret_build_id[static BUILD_ID_HEX_MAX])
{
	char path[256];
	struct buffer b = {0};
	snprintf(path, sizeof(path), "%s/%s", f->directory, name);
	assert_int_equal(io_read_file(path, MIB, &b, NULL), 0);
	int fd = io_open(path, O_RDONLY, 0, NULL);
	assert_true(fd >= 0);
	assert_int_equal(build_id_read_fd(fd, ret_build_id, NULL), 0);
	close(fd);
	upload_bytes(f, ret_build_id, &b);
	buffer_release(&b);
}

/* Resolves one location; the name that it got, "" = none. */
static const char *resolve(struct fixture *f, const char *path, const char *build_id, uint64_t text_offset,
			   const struct symbolizer_want *want, struct symbolizer_coverage *ret)
{
	static char name[256];
	struct profile *p;
	struct profile_mapping mapping = {.start = 0x7f0000000000, .limit = 0x7f0000001000};
	struct profile_location location = {.address = mapping.start + TEST_ELF_TEXT_OFFSET + text_offset};
	uint32_t id;
	assert_int_equal(profile_new(&p, NULL), 0);
	assert_int_equal(profile_add_cstring(p, path, &mapping.file_name, NULL), 0);
	assert_int_equal(profile_add_cstring(p, build_id, &mapping.build_id, NULL), 0);
	assert_int_equal(profile_add_mapping(p, &mapping, &location.mapping, NULL), 0);
	assert_int_equal(profile_add_location(p, &location, NULL, 0, &id, NULL), 0);
	assert_int_equal(symbolizer_resolve(f->s, p, 1, want, ret, NULL), 0);
	const struct profile_location *l = &p->locations[id];
	snprintf(name, sizeof(name), "%s",
		 l->line_count ? profile_string(p, p->functions[p->lines[l->line_first].function].name) : "");
	profile_free(p);
	return name;
}

static struct symbol_status status_of(struct fixture *f, const char *build_id)
{
	struct symbol_list_options options = {.text = build_id};
	struct symbol_status *list, found;
	size_t count;
	assert_int_equal(symbolizer_list(f->s, &options, &list, &count, NULL, NULL, NULL), 0);
	assert_int_equal(count, 1);
	found = list[0];
	mem_free(list);
	return found;
}

/* Until nothing is being worked on. */
static void settle(struct fixture *f)
{
	struct symbolizer_stats stats;
	int64_t until = time_monotonic_ns() + 180 * NS_PER_S;
	do {
		time_sleep_ns(NS_PER_MS);
		symbolizer_get_stats(f->s, &stats);
		assert_true(time_monotonic_ns() < until);
	} while (stats.waiting || stats.running);
}

/* ---- tests ---- */

static void test_pending_then_named(void **state)
{
	struct fixture *f = *state;
	char path[256], id[BUILD_ID_HEX_MAX];
	struct symbolizer_coverage coverage;
	write_program(f, &stripped, 0x31, path);
	make_id(0x31, id);
	/* It may be quick, but it is never both. */
	resolve(f, path, id, 0x10, NULL, &coverage);
	assert_int_equal(coverage.pending + coverage.resolved, 1);
	assert_string_equal(resolve(f, path, id, 0x10, &patient, &coverage), "alpha");
	assert_int_equal(coverage.resolved, 1);
	assert_int_equal(coverage.pending + coverage.missing, 0);
	/* What is nowhere is pending, then missing. */
	assert_string_equal(resolve(f, "/nowhere", "00fedc", 0x10, &patient, &coverage), "");
	assert_int_equal(coverage.missing, 1);
	assert_int_equal(status_of(f, "00fedc").state, SYMBOL_MISSING);
	assert_true(status_of(f, "00fedc").why[0]);
}

static void test_seen_is_built(void **state)
{
	struct fixture *f = *state;
	char path[256], id[BUILD_ID_HEX_MAX];
	bool later;
	write_program(f, &stripped, 0x32, path);
	make_id(0x32, id);
	symbolizer_note(f->s, id, path, 7);
	symbolizer_note(f->s, id, path, 5);
	symbolizer_note(f->s, "../x", path, 5);
	settle(f);
	struct symbol_status status = status_of(f, id);
	assert_int_equal(status.state, SYMBOL_PARTIAL);
	assert_int_equal(status.sources, SYMBOL_SOURCE_DYNSYM);
	assert_int_equal(status.samples, 12);
	assert_string_equal(status.path, path);
	assert_non_null(strstr(status.from, path));
	assert_non_null(strstr(status.why, "no debug information"));
	assert_true(status.first_seen_ns > 0 && status.last_seen_ns >= status.first_seen_ns && status.built_ns > 0);
	/* Somebody who has debug information would help. */
	assert_true(symbolizer_wants(f->s, id, path, &later));
	assert_false(later);
	assert_false(symbolizer_wants(f->s, "not a build-id", path, &later));
}

/* An upload repairs what was seen before it, and the old table serves until then. */
static void test_late_upload(void **state)
{
	struct fixture *f = *state;
	char path[256], id[BUILD_ID_HEX_MAX];
	struct symbolizer_coverage coverage;
	bool later;
	write_program(f, &stripped, 0x33, path);
	make_id(0x33, id);
	assert_string_equal(resolve(f, path, id, 0x100, &patient, &coverage), "");
	assert_string_equal(resolve(f, path, id, 0x10, &patient, &coverage), "alpha");
	assert_true(symbolizer_wants(f->s, id, path, &later));
	upload(f, &separate, 0x33);
	settle(f);
	assert_string_equal(resolve(f, path, id, 0x100, NULL, &coverage), "hidden");
	assert_string_equal(resolve(f, path, id, 0x10, NULL, &coverage), "alpha");
	assert_false(symbolizer_wants(f->s, id, path, &later));
	assert_int_equal(status_of(f, id).sources, SYMBOL_SOURCE_DYNSYM | SYMBOL_SOURCE_SYMTAB);
	/* It comes back from disk. */
	symbolizer_free(f->s);
	open_symbolizer(f, 1);
	assert_int_equal(status_of(f, id).sources, SYMBOL_SOURCE_DYNSYM | SYMBOL_SOURCE_SYMTAB);
	assert_string_equal(resolve(f, "", id, 0x100, NULL, &coverage), "hidden");
}

static bool has_function(struct fixture *f, const char *build_id, const char *function)
{
	struct symbol_view *view;
	assert_int_equal(symbolizer_view(f->s, build_id, "", &patient, &view, NULL), 0);
	bool found = false;
	const struct symbol_table *table = symbol_view_table(view);
	for (uint32_t i = 0; i < table->header->function_count && !found; i++)
		found = strcmp(table->strings + table->functions[i].name, function) == 0;
	symbol_view_free(view);
	return found;
}

/* Two debug files have their names in a third, which comes before one of them, behind the other, or in another run. */
static void test_shared_file(void **state)
{
	struct fixture *f = *state;
	static const char source[] =
		"struct with_long_name { long member; } v;\n"
		"static inline __attribute__((always_inline)) long inner_step(struct with_long_name *w, long x)\n"
		"{ __asm__ volatile(\"nop; nop\" : \"+r\"(x)); return x + w->member; }\n"
		"int main(int c, char **a) { return (int)inner_step(&v, c) + N; }\n";
	static const char make[] = "gcc -g -O1 -Wl,--build-id=sha1 -DN=$n -o $n s.c && objcopy --only-keep-debug $n $n.debug";
	char command[512], one[BUILD_ID_HEX_MAX], two[BUILD_ID_HEX_MAX], shared[BUILD_ID_HEX_MAX];
	snprintf(command, sizeof(command), "%s/s.c", f->directory);
	assert_int_equal(io_write_file(command, source, sizeof(source) - 1, 0644, NULL), 0);
	snprintf(command, sizeof(command), "cd %s && for n in 1 2; do %s; done && dwz -m shared.debug 1.debug 2.debug",
		 f->directory, make);
	assert_int_equal(system(command), 0);
	upload_file(f, "1.debug", one);
	settle(f);
	assert_false(has_function(f, one, "inner_step"));
	symbolizer_free(f->s);
	open_symbolizer(f, 1);
	assert_false(has_function(f, one, "inner_step"));
	settle(f);
	upload_file(f, "shared.debug", shared);
	settle(f);
	assert_true(has_function(f, one, "inner_step"));
	upload_file(f, "2.debug", two);
	settle(f);
	assert_true(has_function(f, two, "inner_step"));
}

/* Before the binary was ever heard of. */
static void test_upload_first(void **state)
{
	struct fixture *f = *state;
	char id[BUILD_ID_HEX_MAX];
	make_id(0x34, id);
	upload(f, &separate, 0x34);
	settle(f);
	assert_int_equal(status_of(f, id).sources, SYMBOL_SOURCE_SYMTAB);
}

static void test_retry(void **state)
{
	struct fixture *f = *state;
	char path[256], id[BUILD_ID_HEX_MAX];
	struct symbolizer_coverage coverage;
	struct error err = {0};
	make_id(0x35, id);
	snprintf(path, sizeof(path), "%s/program%u", f->directory, 0x35);
	assert_int_equal(symbolizer_retry(f->s, id, &err), -ENOENT);
	assert_string_equal(resolve(f, path, id, 0x10, &patient, &coverage), "");
	write_program(f, &stripped, 0x35, path);
	assert_string_equal(resolve(f, path, id, 0x10, &patient, &coverage), ""); /* remembered */
	assert_int_equal(coverage.missing, 1);
	assert_true(status_of(f, id).retry_ns > 0);
	assert_int_equal(symbolizer_retry(f->s, id, &err), 0);
	assert_string_equal(resolve(f, path, id, 0x10, &patient, &coverage), "alpha");
}

/* What could not be had is looked for again without anybody asking, and what was had is not. */
static void test_retries_by_itself(void **state)
{
	struct fixture *f = *state;
	char path[256], id[BUILD_ID_HEX_MAX];
	struct symbolizer_coverage coverage;
	symbolizer_free(f->s);
	struct symbolizer_options options = {.cache_directory = f->cache, .workers = 2, .retry_ns = 50 * NS_PER_MS};
	assert_int_equal(symbolizer_new(&options, &f->s, NULL), 0);
	make_id(0x36, id);
	snprintf(path, sizeof(path), "%s/program%u", f->directory, 0x36);
	assert_string_equal(resolve(f, path, id, 0x10, &patient, &coverage), "");
	write_program(f, &stripped, 0x36, path);
	/* Missing, queued, worked on, and missing again as often as it takes. */
	int64_t until = time_monotonic_ns() + 180 * NS_PER_S;
	while (status_of(f, id).state != SYMBOL_PARTIAL && time_monotonic_ns() < until)
		time_sleep_ns(5 * NS_PER_MS);
	assert_int_equal(status_of(f, id).state, SYMBOL_PARTIAL);
	assert_int_equal(status_of(f, id).sources, SYMBOL_SOURCE_DYNSYM);
	settle(f);
	struct symbolizer_stats before, after;
	symbolizer_get_stats(f->s, &before);
	time_sleep_ns(300 * NS_PER_MS);
	symbolizer_get_stats(f->s, &after);
	assert_int_equal(after.builds, before.builds); /* no source could improve it */
}

/* One that was not where it was first said to be is looked for where it is said to be next. */
static void test_other_paths(void **state)
{
	struct fixture *f = *state;
	char path[256], id[BUILD_ID_HEX_MAX], longest[SYMBOL_PATH_MAX + 1];
	struct symbolizer_coverage coverage;
	write_program(f, &stripped, 0x37, path);
	make_id(0x37, id);
	memset(longest, 'a', sizeof(longest) - 1);
	longest[0] = '/';
	longest[sizeof(longest) - 1] = 0;
	assert_string_equal(resolve(f, "/nowhere/old", id, 0x10, &patient, &coverage), "");
	assert_string_equal(resolve(f, longest, id, 0x10, &patient, &coverage), "");
	assert_string_equal(status_of(f, id).path, "/nowhere/old");
	assert_string_equal(resolve(f, path, id, 0x10, &patient, &coverage), "alpha");
	/* One that was found stays where it was. */
	resolve(f, "/nowhere/else", id, 0x10, &patient, &coverage);
	assert_string_equal(status_of(f, id).path, path);
	/* Others do not have it looked for over and over. */
	symbolizer_note(f->s, "00fedc", "/nowhere/0", 1);
	settle(f);
	struct symbolizer_stats before, after;
	symbolizer_get_stats(f->s, &before);
	for (unsigned i = 1; i < 100; i++) {
		snprintf(path, sizeof(path), "/nowhere/%u", i);
		symbolizer_note(f->s, "00fedc", path, 1);
		settle(f);
	}
	symbolizer_get_stats(f->s, &after);
	assert_in_range(after.builds - before.builds, 1, 10);
}

/* Binaries that nobody asked for make room for others, the oldest first; those that somebody waits for do not. */
static void test_no_room(void **state)
{
	struct fixture *f = *state;
	char key[16];
	bool later;
	symbolizer_free(f->s);
	open_symbolizer(f, 0);
	struct symbolizer *s = f->s;
	pthread_mutex_lock(&s->lock);
	s->entries_max = 100;
	for (unsigned i = 0; i < 100; i++) {
		snprintf(key, sizeof(key), "aa%04x", i);
		entries_enqueue(s, entries_get(s, key, ""), SYMBOL_QUEUE_SEEN);
	}
	assert_non_null(entries_get(s, "bb01", ""));
	assert_null(entries_find(s, "aa0000"));
	assert_non_null(entries_find(s, "aa0001"));
	assert_int_equal(s->entry_count, 100);
	assert_int_equal(s->stats.waiting, 99);
	entries_enqueue(s, entries_find(s, "bb01"), SYMBOL_QUEUE_REQUESTED);
	for (unsigned i = 1; i < 100; i++) {
		snprintf(key, sizeof(key), "aa%04x", i);
		entries_enqueue(s, entries_find(s, key), SYMBOL_QUEUE_REQUESTED);
	}
	assert_null(entries_get(s, "bb02", ""));
	assert_int_equal(s->stats.refused, 1);
	pthread_mutex_unlock(&s->lock);
	/* Whether it would be wanted cannot be told yet. */
	assert_false(symbolizer_wants(s, "bb02", "", &later));
	assert_true(later);
}

/* A thousand at once: none is waited for, all end with a state. */
static void test_many(void **state)
{
	struct fixture *f = *state;
	struct symbol_list_options options = {.limit = 10};
	struct symbol_status *list;
	size_t count, total, counts[SYMBOL_STATES];
	for (unsigned i = 0; i < 1000; i++) {
		char id[BUILD_ID_HEX_MAX];
		snprintf(id, sizeof(id), "%08x", i);
		symbolizer_note(f->s, id, "/nowhere/at/all", i);
	}
	settle(f);
	assert_int_equal(symbolizer_list(f->s, &options, &list, &count, &total, counts, NULL), 0);
	assert_int_equal(count, 10);
	assert_int_equal(total, 1000);
	assert_int_equal(counts[SYMBOL_MISSING], 1000);
	assert_string_equal(list[0].build_id, "000003e7"); /* by falling samples */
	mem_free(list);
	options = (struct symbol_list_options){.states = 1u << SYMBOL_COMPLETE};
	assert_int_equal(symbolizer_list(f->s, &options, &list, &count, &total, NULL, NULL), 0);
	assert_int_equal(total, 0);
	mem_free(list);
}

/* What somebody looks at goes before what was only seen. */
static void test_asked_goes_first(void **state)
{
	struct fixture *f = *state;
	symbolizer_free(f->s);
	open_symbolizer(f, 0); /* nobody takes from the queues */
	pthread_mutex_lock(&f->s->lock);
	for (unsigned i = 0; i < 4; i++) {
		char key[16];
		snprintf(key, sizeof(key), "%08x", i);
		entries_enqueue(f->s, entries_get(f->s, key, NULL), SYMBOL_QUEUE_SEEN);
	}
	entries_enqueue(f->s, entries_find(f->s, "00000002"), SYMBOL_QUEUE_REQUESTED);
	entries_enqueue(f->s, entries_find(f->s, "00000001"), SYMBOL_QUEUE_REQUESTED);
	entries_enqueue(f->s, entries_find(f->s, "00000001"), SYMBOL_QUEUE_SEEN); /* no step back */
	static const char *const expected[] = {"00000001", "00000002", "00000000", "00000003"};
	for (unsigned i = 0; i < 4; i++)
		assert_string_equal(entries_dequeue(f->s)->key, expected[i]);
	assert_null(entries_dequeue(f->s));
	assert_int_equal(f->s->stats.waiting, 0);
	pthread_mutex_unlock(&f->s->lock);
}

/* Tables on disk have a limit; the least recently used go, and are made again when they are wanted. */
static void test_disk_limit(void **state)
{
	struct fixture *f = *state;
	char path[256], id[BUILD_ID_HEX_MAX];
	struct symbolizer_coverage coverage;
	struct symbolizer_stats stats;
	write_program(f, &stripped, 0x40, path);
	make_id(0x40, id);
	assert_string_equal(resolve(f, path, id, 0x10, &patient, &coverage), "alpha");
	symbolizer_get_stats(f->s, &stats);
	uint64_t one = stats.disk_bytes;
	assert_true(one > 0);
	f->s->cache_max_bytes = 4 * one;
	for (unsigned i = 0x41; i < 0x4c; i++) {
		write_program(f, &stripped, i, path);
		make_id(i, id);
		assert_string_equal(resolve(f, path, id, 0x10, &patient, &coverage), "alpha");
	}
	settle(f);
	symbolizer_get_stats(f->s, &stats);
	assert_true(stats.disk_bytes <= 4 * one);
	assert_true(stats.disk_evicted >= 8);
	f->s->memory_max_bytes = 1;
	snprintf(path, sizeof(path), "%s/program%u", f->directory, 0x40);
	make_id(0x4a, id);
	resolve(f, "", id, 0x10, &patient, &coverage);
	make_id(0x40, id);
	assert_string_equal(resolve(f, path, id, 0x10, &patient, &coverage), "alpha");
}

/* It ends at once, whatever waits. */
static void test_end_with_work_left(void **state)
{
	struct fixture *f = *state;
	for (unsigned i = 0; i < 500; i++) {
		char id[BUILD_ID_HEX_MAX];
		snprintf(id, sizeof(id), "%08x", i);
		symbolizer_note(f->s, id, "/nowhere", 1);
	}
	f->s = symbolizer_free(f->s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FIXTURE_TEST(test_pending_then_named),
		FIXTURE_TEST(test_seen_is_built),
		FIXTURE_TEST(test_late_upload),
		FIXTURE_TEST(test_shared_file),
		FIXTURE_TEST(test_upload_first),
		FIXTURE_TEST(test_retry),
		FIXTURE_TEST(test_retries_by_itself),
		FIXTURE_TEST(test_other_paths),
		FIXTURE_TEST(test_no_room),
		FIXTURE_TEST(test_many),
		FIXTURE_TEST(test_asked_goes_first),
		FIXTURE_TEST(test_disk_limit),
		FIXTURE_TEST(test_end_with_work_left),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
