/* SPDX-License-Identifier: Apache-2.0 */
/* The table of hosts: notes in every order, against what was noted; limits; forgetting. */
#include "store/hosts/host_table.h"

#include "store/test_store.h"

#include <errno.h>

#include "base/limits.h"

static int note(struct host_table *table, const char *host, const char *zone, int64_t time_ns)
{
	_cleanup_(labels_release) struct labels labels = {0};
	assert_int_equal(labels_set(&labels, "zone", zone, NULL), 0);
	assert_int_equal(labels_set(&labels, "arch", "amd64", NULL), 0);
	return host_table_note(table, host, &labels, time_ns, time_ns, NULL);
}

struct wanted {
	const char *host, *name;
	int64_t time_ns;
	char value[64];
	size_t calls;
};

static int on_host(void *context, const struct store_host *host, struct error *err)
{
	struct wanted *wanted = context;
	const char *value = labels_get(host->labels, wanted->name);
	wanted->calls++;
	assert_true(host->from_ns < host->to_ns);
	assert_true(host->first_ns <= host->last_ns);
	if (strcmp(host->name, wanted->host) == 0 && host->from_ns <= wanted->time_ns && wanted->time_ns < host->to_ns) {
		assert_string_equal(wanted->value, "");
		snprintf(wanted->value, sizeof(wanted->value), "%s", value ? value : "-");
	}
	return 0;
}

static const char *zone_at(const struct host_table *table, const char *host, int64_t time_ns)
{
	static struct wanted wanted;
	const char *names[] = {"zone"};
	wanted = (struct wanted){.host = host, .name = "zone", .time_ns = time_ns};
	assert_int_equal(host_table_read(table, names, 1, time_ns, time_ns + 1, on_host, &wanted, NULL), 0);
	return wanted.value;
}

static void test_order(void **state)
{
	_cleanup_(host_table_freep) struct host_table *table = NULL;
	assert_int_equal(host_table_new(&table, NULL), 0);
	assert_string_equal(zone_at(table, "a", 5), "");
	assert_int_equal(note(table, "a", "one", 10), HOST_TABLE_NEWS);
	assert_int_equal(note(table, "a", "one", 20), 0);
	assert_int_equal(note(table, "a", "two", 30), HOST_TABLE_NEWS);
	assert_int_equal(note(table, "b", "three", 30), HOST_TABLE_NEWS);
	/* What was known first holds before, too; each holds until the next. */
	assert_string_equal(zone_at(table, "a", 1), "one");
	assert_string_equal(zone_at(table, "a", 29), "one");
	assert_string_equal(zone_at(table, "a", 30), "two");
	assert_string_equal(zone_at(table, "a", 1000), "two");
	assert_string_equal(zone_at(table, "b", 1), "three");
	assert_string_equal(zone_at(table, "c", 1), "");
	/* A late profile that has the later labels already, and one of before all. */
	assert_int_equal(note(table, "a", "two", 25), HOST_TABLE_NEWS);
	assert_string_equal(zone_at(table, "a", 25), "two");
	assert_string_equal(zone_at(table, "a", 24), "one");
	assert_int_equal(note(table, "a", "zero", 4), HOST_TABLE_NEWS);
	assert_string_equal(zone_at(table, "a", 9), "zero");
	assert_string_equal(zone_at(table, "a", 10), "one");
	/* Two profiles of one time: the first to come is right. */
	assert_int_equal(note(table, "a", "other", 30), 0);
	assert_string_equal(zone_at(table, "a", 30), "two");
}

static void test_cut(void **state)
{
	_cleanup_(host_table_freep) struct host_table *table = NULL;
	assert_int_equal(host_table_new(&table, NULL), 0);
	note(table, "a", "one", 10);
	note(table, "a", "one", 50);
	assert_int_equal(note(table, "a", "two", 30), HOST_TABLE_NEWS);
	assert_string_equal(zone_at(table, "a", 29), "one");
	assert_string_equal(zone_at(table, "a", 30), "two");
	assert_string_equal(zone_at(table, "a", 49), "two");
	assert_string_equal(zone_at(table, "a", 50), "one");
	assert_int_equal(host_table_figures(table).runs, 3);
}

static void test_names(void **state)
{
	_cleanup_(host_table_freep) struct host_table *table = NULL;
	const char *none[] = {"nothing"}, *two[] = {"nothing", "arch"};
	struct wanted wanted = {.host = "a", .name = "arch", .time_ns = 10};
	assert_int_equal(host_table_new(&table, NULL), 0);
	note(table, "a", "one", 10);
	assert_int_equal(host_table_read(table, none, 1, 0, 100, on_host, &wanted, NULL), 0);
	assert_int_equal(wanted.calls, 0);
	assert_int_equal(host_table_read(table, two, 2, 0, 100, on_host, &wanted, NULL), 0);
	assert_int_equal(wanted.calls, 1);
	assert_string_equal(wanted.value, "amd64");
}

/* Labels that change now and then, and never back: in whatever order profiles come in, each has its own. */
static void test_random_orders(void **state)
{
	test_seed_from_environment();
	for (int round = 0; round < 300; round++) {
		_cleanup_(host_table_freep) struct host_table *table = NULL;
		size_t count = 1 + rnd_below(40), order[40], changes = 0;
		char zones[40][16];
		assert_int_equal(host_table_new(&table, NULL), 0);
		for (size_t i = 0; i < count; i++) {
			changes += i && rnd_below(4) == 0;
			snprintf(zones[i], sizeof(zones[i]), "zone%zu", changes);
			order[i] = i;
		}
		for (size_t i = count; i > 1; i--) {
			size_t k = rnd_below((uint32_t)i), last = order[i - 1];
			order[i - 1] = order[k];
			order[k] = last;
		}
		for (size_t i = 0; i < count; i++)
			assert_true(note(table, "a", zones[order[i]], (int64_t)(order[i] + 1) * 10) >= 0);
		for (size_t i = 0; i < count; i++)
			for (int64_t time_ns = (int64_t)(i + 1) * 10; time_ns < (int64_t)(i + 2) * 10; time_ns++)
				assert_string_equal(zone_at(table, "a", time_ns), zones[i]);
		assert_int_equal(host_table_figures(table).runs, changes + 1);
	}
}

static void test_limits(void **state)
{
	_cleanup_(host_table_freep) struct host_table *table = NULL;
	_cleanup_(labels_release) struct labels many = {0};
	struct error err = {0};
	char name[32];
	assert_int_equal(host_table_new(&table, NULL), 0);
	for (unsigned i = 0; i <= LIMIT_HOST_LABELS; i++) {
		snprintf(name, sizeof(name), "label%02u", i);
		assert_int_equal(labels_set(&many, name, "x", NULL), 0);
	}
	assert_int_equal(host_table_note(table, "a", &many, 1, 1, &err), -EDQUOT);
	assert_string_equal(err.message, "33 labels, the limit is 32");
	/* Changes: the oldest go. */
	for (int i = 0; i < 300; i++) {
		snprintf(name, sizeof(name), "zone%d", i);
		assert_int_equal(note(table, "a", name, 100 + i), HOST_TABLE_NEWS);
	}
	struct host_table_figures figures = host_table_figures(table);
	assert_int_equal(figures.runs, LIMIT_HOST_RUNS);
	assert_int_equal(figures.dropped, 300 - LIMIT_HOST_RUNS);
	assert_string_equal(zone_at(table, "a", 100 + 299), "zone299");
	assert_string_equal(zone_at(table, "a", 1), "zone172");
	/* Hosts */
	for (unsigned i = 1; i < LIMIT_HOSTS; i++) {
		snprintf(name, sizeof(name), "host%u", i);
		assert_int_equal(note(table, name, "one", 1), HOST_TABLE_NEWS);
	}
	assert_int_equal(note(table, "more", "one", 1), -EDQUOT);
	assert_int_equal(note(table, "host5", "two", 2), HOST_TABLE_NEWS);
	assert_true(host_table_figures(table).bytes < LIMIT_HOSTS_BYTES);
}

/* However many large sets come, of however many hosts. */
static void test_bytes(void **state)
{
	_cleanup_(host_table_freep) struct host_table *table = NULL;
	char value[LIMIT_LABEL_VALUE_BYTES + 1];
	int r = 0;
	assert_int_equal(host_table_new(&table, NULL), 0);
	memset(value, 'x', sizeof(value));
	value[sizeof(value) - 1] = '\0';
	for (unsigned i = 0; i < 20000 && r >= 0; i++) {
		char host[32];
		snprintf(host, sizeof(host), "h%u", i);
		snprintf(value, 16, "%015u", i);
		value[15] = 'x';
		r = note(table, host, value, 1);
	}
	assert_int_equal(r, -EDQUOT);
	assert_true(host_table_figures(table).bytes <= LIMIT_HOSTS_BYTES);
}

static void test_forget(void **state)
{
	_cleanup_(host_table_freep) struct host_table *table = NULL;
	assert_int_equal(host_table_new(&table, NULL), 0);
	note(table, "gone", "one", 10);
	note(table, "a", "one", 10);
	note(table, "a", "two", 20);
	note(table, "a", "two", 90);
	note(table, "b", "three", 95);
	assert_int_equal(host_table_forget(table, 15), 1); /* gone */
	assert_string_equal(zone_at(table, "gone", 10), "");
	assert_string_equal(zone_at(table, "a", 12), "one");
	assert_int_equal(host_table_forget(table, 30), 1);
	assert_string_equal(zone_at(table, "a", 30), "two");
	assert_int_equal(host_table_forget(table, 91), 1);
	assert_string_equal(zone_at(table, "b", 100), "three");
	assert_int_equal(host_table_figures(table).hosts, 1);
	assert_int_equal(host_table_forget(table, 1000), 1);
	assert_int_equal(host_table_figures(table).hosts, 0);
	assert_int_equal(host_table_figures(table).bytes, 0);
	assert_int_equal(note(table, "a", "one", 2000), HOST_TABLE_NEWS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),	      cmocka_unit_test(test_cut),    cmocka_unit_test(test_names),
		cmocka_unit_test(test_random_orders), cmocka_unit_test(test_limits), cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_forget),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
