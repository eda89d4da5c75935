/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of processes through the store: appended as OTLP has them, read from the head, from blocks and from both, and after a
 * restart, always the same as a list that is too simple to be wrong. */
#include <errno.h>
#include <sys/wait.h>

#include "base/fault.h"
#include "store/block/block_scan.h"
#include "store/processes.h"
#include "store/store_int.h"
#include "store/test_store.h"

#define HOSTS 3
#define PIDS  5
#define TIMES 40

/* what[host][pid][time] */
struct table {
	int64_t values[HOSTS][PIDS][TIMES][PROCESS_STATS_COLUMNS];
};

static int64_t value_of(int host, int pid, int time, size_t column)
{
	if ((host + pid + time) % 4 == 0 || (column % 3 == 2 && time % 2))
		return 0;
	return (int64_t)(((host * 10 + pid) * 100 + time) * 10) + (int64_t)column;
}

static struct profile *profile_of(int host, int time, const unsigned *columns, size_t column_count, struct table *table)
{
	struct profile *profile;
	assert_int_equal(profile_new(&profile, NULL), 0);
	for (size_t i = 0; i < column_count; i++) {
		const struct process_stats_column_name *name = &process_stats_columns[columns[i]];
		uint32_t type = test_string(profile, "%s", name->sample_type), unit = test_string(profile, "%s", name->unit);
		assert_int_equal(profile_add_sample_type(profile, type, unit, NULL), 0);
	}
	profile->period_type.type = test_string(profile, PROCESS_STATS_NAME);
	for (int pid = 0; pid < PIDS; pid++) {
		int64_t values[PROCESS_STATS_COLUMNS];
		struct profile_label labels[] = {
			{.key = test_string(profile, "host.name"), .value = test_string(profile, "host%d", host)},
			{.key = test_string(profile, "process.pid"), .value = test_string(profile, "%d", pid)},
		};
		struct profile_sample sample = {.time_ns = TEST_EPOCH + time * NS_PER_S};
		assert_int_equal(profile_add_label_set(profile, labels, 2, &sample.labels, NULL), 0);
		for (size_t i = 0; i < column_count; i++) {
			values[i] = value_of(host, pid, time, columns[i]);
			if (table)
				table->values[host][pid][time][columns[i]] += values[i];
		}
		assert_int_equal(profile_add_sample(profile, &sample, values, NULL), 0);
	}
	return profile;
}

/* Some profiles are wide, some have a column each, as OTLP has them. */
static int append_time(struct store *store, int time, struct table *table)
{
	struct store_append_options options = {.received_ns = TEST_EPOCH};
	unsigned columns[PROCESS_STATS_COLUMNS];
	int r = 0;
	for (unsigned i = 0; i < PROCESS_STATS_COLUMNS; i++)
		columns[i] = i;
	for (int host = 0; r == 0 && host < HOSTS; host++) {
		size_t step = (host + time) % 2 ? 1 : PROCESS_STATS_COLUMNS;
		for (size_t i = 0; r == 0 && i < PROCESS_STATS_COLUMNS; i += step) {
			struct profile *profile = profile_of(host, time, columns + i, step, table);
			r = store_append(store, profile, &options, NULL, NULL);
			profile_free(profile);
		}
	}
	return r;
}

/* Samples of the same processes, which must not get in the way. */
static void append_samples(struct store *store)
{
	struct store_append_options options = {.received_ns = TEST_EPOCH, .name = "process_cpu"};
	struct profile *profile = test_profile_random(40);
	assert_int_equal(store_append(store, profile, &options, NULL, NULL), 0);
	profile_free(profile);
}

/* ---- reading ---- */

struct sink {
	struct table got;
	int host, pid; /* of groups: host * PIDS + pid */
	uint64_t rows;
	uint64_t fail_at;
};

static int group_by_labels(void *context, const struct profile_type *type, const struct labels *labels, uint32_t *ret,
			   struct error *err)
{
	const char *host = labels_get(labels, "host_name"), *pid = labels_get(labels, "process_pid");
	assert_true(profile_type_is_process_stats(type));
	assert_non_null(host);
	assert_non_null(pid);
	*ret = (uint32_t)((host[4] - '0') * PIDS + (pid[0] - '0'));
	return 0;
}

static int on_row(void *context, const struct store_process_row *row, struct error *err)
{
	struct sink *sink = context;
	int64_t time = (row->time_ns - TEST_EPOCH) / NS_PER_S;
	assert_true(time >= 0 && time < TIMES && row->group < HOSTS * PIDS);
	if (++sink->rows == sink->fail_at)
		return error_set(err, -EINTR, "as asked");
	for (size_t c = 0; c < PROCESS_STATS_COLUMNS; c++)
		sink->got.values[row->group / PIDS][row->group % PIDS][time][c] += row->values[c];
	return 0;
}

static const char *const by[] = {"host_name", "process_pid"};
static const struct store_grouping grouping = {.by = by, .by_count = 2, .group = group_by_labels};

static void check(struct store *store, const struct table *want, int from, int to, const char *host, unsigned columns)
{
	struct label_condition matcher = {.label = "host_name", .text = host};
	struct store_select select = {.from_ns = TEST_EPOCH + from * NS_PER_S,
				      .to_ns = TEST_EPOCH + to * NS_PER_S,
				      .series = {.labels = &matcher, .label_count = host != NULL}};
	struct sink *sink = mem_zalloc(sizeof(*sink));
	struct store_read_stats stats;
	struct error err = {0};
	if (store_read_processes(store, &select, &grouping, columns, on_row, sink, &stats, &err) < 0)
		fail_msg("%s", err.message);
	assert_int_equal(stats.rows, sink->rows);
	for (int h = 0; h < HOSTS; h++)
		for (int p = 0; p < PIDS; p++)
			for (int t = 0; t < TIMES; t++)
				for (size_t c = 0; c < PROCESS_STATS_COLUMNS; c++) {
					bool in = t >= from && t < to && (!host || host[4] - '0' == h) && columns >> c & 1;
					int64_t wanted = in ? want->values[h][p][t][c] : 0;
					if (sink->got.values[h][p][t][c] != wanted)
						fail_msg("host %d pid %d time %d %s: %lld instead of %lld", h, p, t,
							 process_stats_columns[c].column,
							 (long long)sink->got.values[h][p][t][c], (long long)wanted);
				}
	mem_free(sink);
}

static void check_table(struct store *store, const struct table *want)
{
	check(store, want, 0, TIMES, NULL, STORE_PROCESS_ALL);
	check(store, want, 7, 23, NULL, STORE_PROCESS_ALL);
	check(store, want, 0, TIMES, "host1", STORE_PROCESS_ALL);
	check(store, want, 13, 14, "host2", 1u << PROCESS_STATS_RSS | 1u << PROCESS_STATS_THREADS);
	check(store, want, 5, 5, NULL, STORE_PROCESS_ALL);
	check(store, want, 0, TIMES, "nobody", STORE_PROCESS_ALL);
}

static struct store *open_store(const char *directory)
{
	struct store *store;
	struct error err = {0};
	struct store_options options = {.directory = directory, .retention_age_ns = -1, .manual = true};
	if (store_open(&options, &store, &err) < 0)
		fail_msg("%s", err.message);
	return store;
}

static void test_everywhere(void **state)
{
	char *directory = test_directory();
	struct table *table = mem_zalloc(sizeof(*table));
	struct store *store = open_store(directory);
	struct store_stats stats;
	for (int time = 0; time < TIMES; time++) {
		assert_int_equal(append_time(store, time, table), 0);
		if (time == 10 || time == 25) {
			append_samples(store);
			check_table(store, table);
			assert_int_equal(store_cut(store, NULL), 0);
		}
	}
	check_table(store, table); /* two blocks and the head */
	store_close(store);
	store = open_store(directory);
	check_table(store, table); /* three blocks, the last without samples */
	store_get_stats(store, &stats);
	assert_int_equal(stats.blocks, 3);
	assert_int_equal(stats.head_process_rows, 0);
	assert_int_equal(stats.oldest_ns, TEST_EPOCH);
	assert_int_equal(stats.newest_ns >= TEST_EPOCH + (TIMES - 1) * NS_PER_S, 1);
	/* Late ones, into the past, and a row that is there already. */
	assert_int_equal(append_time(store, 3, table), 0);
	check_table(store, table);
	assert_int_equal(store_cut(store, NULL), 0);
	check_table(store, table);
	store_close(store);
	mem_free(table);
	test_directory_remove(directory);
}

/* kill -9: what was acknowledged comes back from the log. */
static void test_replay(void **state)
{
	char *directory = test_directory();
	struct table *table = mem_zalloc(sizeof(*table));
	int status;
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct store *store = open_store(directory);
		int r = 0;
		for (int time = 0; time < 20; time++) {
			r |= append_time(store, time, table);
			if (time == 12)
				r |= store_cut(store, NULL);
		}
		_exit(r != 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	struct store *store = open_store(directory);
	for (int host = 0; host < HOSTS; host++)
		for (int p = 0; p < PIDS; p++)
			for (int time = 0; time < 20; time++)
				for (size_t c = 0; c < PROCESS_STATS_COLUMNS; c++)
					table->values[host][p][time][c] = value_of(host, p, time, c);
	check_table(store, table);
	store_close(store);
	mem_free(table);
	test_directory_remove(directory);
}

/* ---- beside samples ---- */

static int count_item(void *context, const struct store_item *item, struct error *err)
{
	uint64_t *counts = context;
	if (item->type && profile_type_is_process_stats(item->type))
		fail_msg("process_stats is listed as a type");
	counts[0]++;
	return 0;
}

static int no_point(void *context, uint32_t group, uint64_t bucket, int64_t value, struct error *err)
{
	*(uint64_t *)context += (uint64_t)value;
	return 0;
}

/* Returns how many types there are. */
static uint64_t check_apart(struct store *store)
{
	struct store_select select = {.from_ns = INT64_MIN, .to_ns = INT64_MAX};
	struct store_read_stats stats;
	uint64_t count = 0, sum = 0;
	struct error err = {0};
	assert_int_equal(store_list_types(store, &select, count_item, &count, NULL, &err), 0);
	uint64_t types = count, labels = 0;
	assert_int_equal(store_list_labels(store, &select, count_item, &labels, NULL, &err), 0);
	assert_int_equal(store_list_values(store, &select, "process_pid", "", count_item, &labels, NULL, &err), 0);
	if (types == 0)
		assert_int_equal(labels, 0);
	assert_int_equal(store_series(store, &select, NULL, 0, no_point, &sum, &stats, &err), 0);
	assert_false(stats.partial);
	if (types == 0)
		assert_int_equal(sum, 0);
	return types;
}

static void test_apart(void **state)
{
	char *directory = test_directory();
	struct store *store = open_store(directory);
	assert_int_equal(append_time(store, 0, NULL), 0);
	assert_int_equal(check_apart(store), 0);
	assert_int_equal(store_cut(store, NULL), 0); /* a block without samples */
	assert_int_equal(check_apart(store), 0);
	append_samples(store);
	assert_int_equal(append_time(store, 1, NULL), 0);
	uint64_t types = check_apart(store);
	assert_true(types > 0);
	assert_int_equal(store_cut(store, NULL), 0);
	assert_int_equal(check_apart(store), types);
	store_close(store);
	test_directory_remove(directory);
}

/* ---- limits, errors ---- */

static void test_limits(void **state)
{
	char *directory = test_directory();
	struct table *table = mem_zalloc(sizeof(*table));
	struct store *store = open_store(directory);
	struct store_select select = {.from_ns = INT64_MIN, .to_ns = INT64_MAX};
	struct store_read_stats stats;
	struct sink *sink = mem_zalloc(sizeof(*sink));
	struct error err = {0};
	atomic_bool cancel = true;
	for (int time = 0; time < 4; time++) {
		assert_int_equal(append_time(store, time, table), 0);
		if (time < 3)
			assert_int_equal(store_cut(store, NULL), 0);
	}
	sink->fail_at = 3;
	assert_int_equal(store_read_processes(store, &select, &grouping, STORE_PROCESS_ALL, on_row, sink, &stats, &err),
			 -EINTR);
	assert_int_equal(sink->rows, 3);
	sink->fail_at = 0;
	sink->rows = 0;
	select.rows_max = 5;
	assert_int_equal(store_read_processes(store, &select, &grouping, STORE_PROCESS_ALL, on_row, sink, &stats, &err), 0);
	assert_true(stats.partial && sink->rows < 60);
	assert_non_null(strstr(stats.why, "the row limit was reached after 1 of 5 sources"));
	select.rows_max = 0;
	select.deadline_ns = 1;
	assert_int_equal(store_read_processes(store, &select, &grouping, STORE_PROCESS_ALL, on_row, sink, &stats, &err), 0);
	assert_true(stats.partial);
	select.deadline_ns = 0;
	select.cancel = &cancel;
	assert_int_equal(store_read_processes(store, &select, &grouping, STORE_PROCESS_ALL, on_row, sink, &stats, &err),
			 -ECANCELED);
	store_close(store);
	mem_free(sink);
	mem_free(table);
	test_directory_remove(directory);
}

/* Rows that are damaged are left out and told; the others answer. */
static void test_damaged(void **state)
{
	char *directory = test_directory(), path[PATH_MAX];
	struct table *table = mem_zalloc(sizeof(*table)), *first = mem_zalloc(sizeof(*first));
	struct store *store = open_store(directory);
	struct store_snapshot snapshot;
	struct buffer file;
	assert_int_equal(append_time(store, 0, NULL), 0);
	assert_int_equal(store_cut(store, NULL), 0);
	assert_int_equal(append_time(store, 1, table), 0);
	assert_int_equal(store_cut(store, NULL), 0);
	assert_int_equal(store_snapshot_take(local_of(store), &snapshot, NULL), 0);
	assert_int_equal(io_join_path(path, sizeof(path), snapshot.blocks[0]->path, "processes.parquet"), 0);
	store_snapshot_release(local_of(store), &snapshot);
	buffer_init(&file, SIZE_MAX);
	assert_int_equal(io_read_file(path, 1 << 20, &file, NULL), 0);
	file.data[200] ^= 0x11; /* in the first pages */
	assert_int_equal(io_write_file(path, file.data, file.len, 0640, NULL), 0);
	check(store, table, 0, TIMES, NULL, STORE_PROCESS_ALL);
	struct store_stats stats;
	store_get_stats(store, &stats);
	assert_int_equal(stats.blocks, 2);
	assert_int_equal(stats.problems, 1);
	assert_true(stats.damaged_rows > 0 && stats.damaged_pages == 1);
	buffer_release(&file);
	store_close(store);
	mem_free(table);
	mem_free(first);
	test_directory_remove(directory);
}

/* What a block holds: rows in order, one a series and time. */
struct order {
	int64_t series, time, sum;
	size_t count;
};

static int check_order(void *context, const struct block_run *run, struct error *err)
{
	struct order *order = context;
	for (size_t i = 0; i < run->count; i++) {
		assert_true(run->id > order->series || (run->id == order->series && run->times[i] > order->time));
		order->series = run->id;
		order->time = run->times[i];
		for (size_t c = 0; c < PROCESS_STATS_COLUMNS; c++)
			order->sum += run->values[c][i];
	}
	order->count += run->count;
	return 0;
}

static void test_block(void **state)
{
	char *directory = test_directory();
	struct store *store = open_store(directory);
	struct store_snapshot snapshot;
	struct order order = {.series = -1};
	uint8_t wanted[HOSTS * PIDS];
	int64_t want = 0;
	memset(wanted, 1, sizeof(wanted));
	for (int time = 0; time < 10; time++)
		assert_int_equal(append_time(store, time, NULL), 0);
	assert_int_equal(store_cut(store, NULL), 0);
	assert_int_equal(store_snapshot_take(local_of(store), &snapshot, NULL), 0);
	struct block_scan scan = {.block = snapshot.blocks[0],
				  .file = BLOCK_PROCESSES,
				  .wanted = wanted,
				  .id_count = sizeof(wanted),
				  .ranges = &block_all_times,
				  .range_count = 1,
				  .need_times = true,
				  .columns = STORE_PROCESS_ALL,
				  .on_run = check_order,
				  .context = &order};
	assert_int_equal(block_scan(&scan, NULL), 0);
	for (int host = 0; host < HOSTS; host++)
		for (int pid = 0; pid < PIDS; pid++)
			for (int time = 0; time < 10; time++)
				for (size_t c = 0; c < PROCESS_STATS_COLUMNS; c++)
					want += value_of(host, pid, time, c);
	assert_int_equal(order.sum, want);
	assert_int_equal(order.count, snapshot.blocks[0]->meta.files[BLOCK_PROCESSES].rows);
	/* Nothing of it is read for other series, or other times. */
	memset(wanted, 0, sizeof(wanted));
	scan.pages = scan.groups = scan.groups_skipped = 0;
	assert_int_equal(block_scan(&scan, NULL), 0);
	assert_true(scan.pages == 0 && scan.groups_skipped == 1);
	memset(wanted, 1, sizeof(wanted));
	scan.ranges = &(const struct block_range){TEST_EPOCH + 1000 * NS_PER_S, INT64_MAX};
	assert_int_equal(block_scan(&scan, NULL), 0);
	assert_true(scan.pages == 0 && scan.groups_skipped == 2);
	/* A row of a series that the block does not have. */
	scan.ranges = &block_all_times;
	scan.id_count = 3;
	order = (struct order){.series = -1};
	assert_int_equal(block_scan(&scan, NULL), -EBADMSG);
	store_snapshot_release(local_of(store), &snapshot);
	store_close(store);
	test_directory_remove(directory);
}

/* Memory and files fail at every place, in appending, cutting and reading: what was taken is there, once. */
static void test_faults(void **state)
{
	static const enum fault_kind kinds[] = {FAULT_ALLOC, FAULT_WRITE, FAULT_SYNC, FAULT_OPEN, FAULT_READ, FAULT_RENAME};
	for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds); k++) {
		bool reached = true;
		for (uint64_t n = 1; reached; n += 1 + n / 40) {
			char *directory = test_directory();
			struct table *table = mem_zalloc(sizeof(*table));
			struct store *store = open_store(directory);
			struct sink *sink = mem_zalloc(sizeof(*sink));
			struct store_select select = {.from_ns = INT64_MIN, .to_ns = INT64_MAX};
			unsigned column = PROCESS_STATS_CPU;
			struct store_append_options options = {.received_ns = TEST_EPOCH};
			struct profile *one = profile_of(0, 1, &column, 1, NULL), *two = profile_of(0, 2, &column, 1, NULL);
			fault_arm(kinds[k], n, 0);
			int first = store_append(store, one, &options, NULL, NULL);
			store_cut(store, NULL);
			int second = store_append(store, two, &options, NULL, NULL);
			int third =
				store_read_processes(store, &select, &grouping, STORE_PROCESS_ALL, on_row, sink, NULL, NULL);
			reached = fault_disarm(kinds[k]);
			assert_true(reached || (first == 0 && second == 0 && third == 0));
			profile_free(one);
			profile_free(two);
			if (first == 0)
				profile_free(profile_of(0, 1, &column, 1, table));
			if (second == 0)
				profile_free(profile_of(0, 2, &column, 1, table));
			check(store, table, 0, TIMES, NULL, STORE_PROCESS_ALL);
			store_close(store);
			mem_free(table);
			mem_free(sink);
			test_directory_remove(directory);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_everywhere), cmocka_unit_test(test_replay),  cmocka_unit_test(test_apart),
		cmocka_unit_test(test_limits),	   cmocka_unit_test(test_damaged), cmocka_unit_test(test_block),
		cmocka_unit_test(test_faults),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
