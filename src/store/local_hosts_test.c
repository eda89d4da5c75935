/* SPDX-License-Identifier: Apache-2.0 */
/* The table of hosts of a local store on disk: after a restart, a crash, damage, failures of the disk, and when data goes. */
#include "store/test_store.h"

#include <errno.h>
#include <sys/stat.h>

#include "base/fault.h"
#include "store/hosts.h"

#define HOSTS  20
#define DAY_NS (24 * 3600 * NS_PER_S)

static char problem[1000];

static void on_problem(void *context, const char *message)
{
	snprintf(problem, sizeof(problem), "%s", message);
}

static struct store *open_store(const char *directory)
{
	struct store_options options = {
		.directory = directory, .retention_age_ns = -1, .late_window_ns = -1, .manual = true, .on_problem = on_problem};
	struct store *store;
	struct error err = {0};
	if (store_open(&options, &store, &err) < 0)
		fail_msg("%s", err.message);
	return store;
}

static int note(struct store *store, unsigned host, const char *zone, int64_t time_ns, struct error *err)
{
	_cleanup_(labels_release) struct labels labels = {0};
	char name[32];
	snprintf(name, sizeof(name), "host%u", host);
	int r = labels_set(&labels, "zone", zone, NULL);
	return r < 0 ? r : store_note_host(store, name, &labels, time_ns, err);
}

static int on_host(void *context, const struct store_host *host, struct error *err)
{
	struct buffer *text = context;
	return buffer_printf(text, "%s %s %lld %lld\n", host->name, labels_get(host->labels, "zone"),
			     (long long)(host->first_ns - TEST_EPOCH), (long long)(host->last_ns - TEST_EPOCH));
}

static char *text_of(struct store *store)
{
	_cleanup_(buffer_release) struct buffer text = {.max = SIZE_MAX};
	assert_int_equal(store_read_hosts(store, NULL, 0, INT64_MIN, INT64_MAX, on_host, &text, NULL), 0);
	return mem_strdup(buffer_string(&text));
}

static void fill(struct store *store)
{
	for (unsigned i = 0; i < HOSTS; i++) {
		assert_int_equal(note(store, i, "a", TEST_EPOCH, NULL), 0);
		assert_int_equal(note(store, i, "a", TEST_EPOCH + NS_PER_S, NULL), 0);
		assert_int_equal(note(store, i, i % 2 ? "a" : "b", TEST_EPOCH + 2 * NS_PER_S, NULL), 0);
	}
}

static void journal_of(const char *directory, struct buffer *ret)
{
	char path[300];
	*ret = (struct buffer){0};
	snprintf(path, sizeof(path), "%s/hosts.journal", directory);
	assert_int_equal(io_read_file(path, 64 << 20, ret, NULL), 0);
}

static void write_journal(const char *directory, const void *data, size_t len)
{
	char path[300];
	snprintf(path, sizeof(path), "%s/hosts.journal", directory);
	assert_int_equal(io_write_file(path, data, len, 0640, NULL), 0);
}

static void test_restart(void **state)
{
	char *directory = test_directory();
	struct store *store = open_store(directory);
	fill(store);
	_cleanup_(mem_freep) char *before = text_of(store);
	store_close(store);
	store = open_store(directory);
	_cleanup_(mem_freep) char *after = text_of(store);
	assert_string_equal(before, after);
	store_close(store);
	test_directory_remove(directory);
}

/* What is on disk when a call returns is all that there was to say, whatever is not done afterwards. */
static void test_kill(void **state)
{
	char *directory = test_directory(), *killed = test_directory();
	struct store *store = open_store(directory);
	for (unsigned i = 0; i < 5; i++) {
		_cleanup_(buffer_release) struct buffer journal = {0};
		assert_int_equal(note(store, i, "a", TEST_EPOCH, NULL), 0);
		journal_of(directory, &journal);
		/* The next record is half there. */
		static const uint8_t torn[] = {0xff, 0xfe, 'H', 'R', 40, 0, 0, 0, 1, 2, 3};
		buffer_append(&journal, torn, i % 2 ? sizeof(torn) : 0);
		write_journal(killed, journal.data, journal.len);
		problem[0] = '\0';
		struct store *again = open_store(killed);
		_cleanup_(mem_freep) char *a = text_of(store), *b = text_of(again);
		assert_string_equal(a, b);
		assert_string_equal(problem, "");
		/* And is appended to as ever. */
		assert_int_equal(note(again, 100 + i, "b", TEST_EPOCH, NULL), 0);
		store_close(again);
		again = open_store(killed);
		_cleanup_(mem_freep) char *c = text_of(again);
		assert_non_null(strstr(c, " b 0 0\n"));
		store_close(again);
	}
	store_close(store);
	test_directory_remove(directory);
	test_directory_remove(killed);
}

static void test_damage(void **state)
{
	char *directory = test_directory(), path[600];
	struct store *store = open_store(directory);
	struct stat about;
	fill(store);
	store_close(store);
	_cleanup_(buffer_release) struct buffer journal = {0};
	journal_of(directory, &journal);
	journal.data[journal.len / 2] ^= 4;
	write_journal(directory, journal.data, journal.len);
	problem[0] = '\0';
	store = open_store(directory);
	_cleanup_(mem_freep) char *text = text_of(store);
	size_t lines = 0;
	for (const char *at = text; (at = strchr(at, '\n')); at++)
		lines++;
	assert_int_equal(lines, HOSTS + HOSTS / 2 - 1);
	assert_non_null(strstr(problem, "labels of hosts are damaged"));
	const char *aside = strstr(problem, "set aside as ");
	assert_non_null(aside);
	snprintf(path, sizeof(path), "%s", aside + strlen("set aside as "));
	assert_int_equal(stat(path, &about), 0);
	assert_int_equal(about.st_size, journal.len);
	store_close(store);
	problem[0] = '\0';
	store = open_store(directory);
	assert_string_equal(problem, "");
	store_close(store);
	test_directory_remove(directory);
}

/* The n-th call of a kind fails: that is told, the next one works, and what was acknowledged is on disk, whatever happened. */
static bool fail_at(enum fault_kind kind, uint64_t n)
{
	char *directory = test_directory();
	struct store *store = open_store(directory);
	int results[4];
	fault_arm(kind, n, 0);
	for (unsigned i = 0; i < 3; i++)
		results[i] = note(store, i, "a", TEST_EPOCH, NULL);
	bool reached = fault_disarm(kind);
	results[3] = note(store, 3, "a", TEST_EPOCH, NULL);
	assert_int_equal(results[3], 0);
	assert_int_equal(results[0] < 0 || results[1] < 0 || results[2] < 0, reached);
	_cleanup_(mem_freep) char *before = text_of(store);
	store_close(store);
	store = open_store(directory);
	_cleanup_(mem_freep) char *after = text_of(store);
	if (kind != FAULT_ALLOC) /* then it may be on disk, and nobody was told so */
		assert_string_equal(before, after);
	for (unsigned i = 0; i < 4; i++) {
		char name[16];
		snprintf(name, sizeof(name), "host%u ", i);
		if (results[i] == 0)
			assert_non_null(strstr(after, name));
	}
	store_close(store);
	test_directory_remove(directory);
	return reached;
}

static void test_failures(void **state)
{
	static const enum fault_kind kinds[] = {FAULT_ALLOC, FAULT_OPEN, FAULT_WRITE, FAULT_SYNC, FAULT_RENAME};
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		for (uint64_t n = 1; fail_at(kinds[i], n); n++)
			assert_true(n < 1000);
}

static void test_bounds(void **state)
{
	char *directory = test_directory();
	struct store_options options = {.directory = directory, .late_window_ns = DAY_NS, .manual = true};
	struct store *store;
	struct store_stats stats;
	struct error err = {0};
	int64_t now_ns = time_now_ns();
	assert_int_equal(store_open(&options, &store, NULL), 0);
	assert_int_equal(note(store, 1, "a", now_ns - 2 * DAY_NS, &err), STORE_HOST_REFUSED);
	assert_int_equal(note(store, 1, "a", now_ns + DAY_NS, &err), STORE_HOST_REFUSED);
	assert_int_equal(note(store, 1, "a", -1, &err), STORE_HOST_REFUSED);
	assert_int_equal(note(store, 1, "a", now_ns, &err), 0);
	store_get_stats(store, &stats);
	assert_int_equal(stats.hosts_refused, 3);
	assert_int_equal(stats.hosts, 1);
	store_close(store);
	test_directory_remove(directory);
}

/* Labels go with the last data that they could be about. */
static void test_retention(void **state)
{
	char *directory = test_directory();
	struct store *store = open_store(directory);
	_cleanup_(profile_freep) struct profile *profile = test_profile_random(20);
	struct store_append_options options = {.received_ns = TEST_EPOCH + 10 * DAY_NS};
	struct store_append_result result;
	profile->time_ns = TEST_EPOCH + 10 * DAY_NS;
	for (size_t i = 0; i < profile->sample_count; i++)
		profile->samples[i].time_ns = profile->time_ns;
	assert_int_equal(store_append(store, profile, &options, &result, NULL), 0);
	assert_int_equal(note(store, 1, "old", TEST_EPOCH + 2 * DAY_NS, NULL), 0);
	assert_int_equal(note(store, 2, "old", TEST_EPOCH + 2 * DAY_NS, NULL), 0);
	assert_int_equal(note(store, 2, "new", TEST_EPOCH + 3 * DAY_NS, NULL), 0);
	assert_int_equal(note(store, 2, "new", TEST_EPOCH + 11 * DAY_NS, NULL), 0);
	assert_int_equal(store_apply_retention(store, TEST_EPOCH + 12 * DAY_NS, NULL), 0);
	_cleanup_(mem_freep) char *text = text_of(store);
	assert_null(strstr(text, "host1"));
	assert_null(strstr(text, "old"));
	assert_non_null(strstr(text, "host2 new"));
	store_close(store);
	store = open_store(directory);
	_cleanup_(mem_freep) char *after = text_of(store);
	assert_string_equal(text, after);
	store_close(store);
	test_directory_remove(directory);
}

/* A host that says something else each time: memory and the file stay small. */
static void test_flapping(void **state)
{
	char *directory = test_directory();
	struct store *store = open_store(directory);
	struct store_stats stats;
	for (int i = 0; i < 3000; i++)
		assert_int_equal(note(store, 1, i % 2 ? "a" : "b", TEST_EPOCH + i * NS_PER_S, NULL), 0);
	store_get_stats(store, &stats);
	assert_int_equal(stats.host_runs, 128);
	assert_int_equal(stats.host_runs_dropped, 3000 - 128);
	store_close(store);
	_cleanup_(buffer_release) struct buffer journal = {0};
	journal_of(directory, &journal);
	assert_true(journal.len < 1 << 20);
	test_directory_remove(directory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_restart),	 cmocka_unit_test(test_kill),	cmocka_unit_test(test_damage),
		cmocka_unit_test(test_failures), cmocka_unit_test(test_bounds), cmocka_unit_test(test_retention),
		cmocka_unit_test(test_flapping),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
