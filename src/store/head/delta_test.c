/* SPDX-License-Identifier: Apache-2.0 */
/* Records of what appends add to a head: written from one head, read into another one, in order and otherwise. */
#include "store/test_store.h"

#include <errno.h>

#include "base/fault.h"
#include "base/limits.h"
#include "store/head/head.h"

#define RECORDS 40

/* ---- a segment: records in memory, and the rows that each of them has ---- */

struct segment {
	struct head *head;
	struct buffer payloads[40 * RECORDS];
	size_t ends[40 * RECORDS]; /* rows of the head after it */
	size_t count;
};

static struct head *new_head(void)
{
	struct head *head;
	assert_int_equal(head_new(SIZE_MAX, &head, NULL), 0);
	return head;
}

/* Writes what the head has more than the records, and the rows of a batch. */
static void write_batch(struct segment *segment, const struct head_batch *batch, const uint8_t *id, size_t bytes_max)
{
	static const uint8_t none[STORE_ID_SIZE];
	struct head *head = segment->head;
	for (bool all = false; !all;) {
		struct delta_mark to;
		assert_true(segment->count < sizeof(segment->payloads) / sizeof(*segment->payloads));
		struct buffer *payload = &segment->payloads[segment->count];
		all = delta_limit(head, &head->logged, bytes_max, &to);
		buffer_init(payload, GIB);
		assert_int_equal(delta_encode(head, &head->logged, &to, all ? batch : NULL, all ? id : none, payload, NULL), 0);
		head->logged = to;
		segment->ends[segment->count++] = head->count + (all ? batch->count : 0);
	}
}

static void append(struct segment *segment, size_t bytes_max)
{
	struct profile *profile = test_profile_random(rnd_below(60));
	struct labels labels;
	struct head_batch batch;
	test_labels_random(&labels);
	struct store_append_options options = {.labels = &labels, .received_ns = TEST_EPOCH + 5};
	if (rnd_below(2))
		memcpy(options.id, &(uint64_t[2]){segment->count + 1, 7}, STORE_ID_SIZE);
	assert_int_equal(head_prepare(segment->head, profile, &options, NULL, &batch, NULL), 0);
	write_batch(segment, &batch, options.id, bytes_max);
	head_commit(segment->head, &batch, options.id, segment->count);
	labels_release(&labels);
	profile_free(profile);
}

static void append_processes(struct segment *segment)
{
	struct profile *profile;
	struct head_batch batch;
	struct store_append_options options = {.received_ns = TEST_EPOCH, .name = PROCESS_STATS_NAME};
	assert_int_equal(profile_new(&profile, NULL), 0);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(profile_add_named_type(profile, process_stats_columns[i].sample_type,
							process_stats_columns[i].unit, NULL),
				 0);
	for (uint32_t i = 0; i < 1 + rnd_below(5); i++) {
		struct profile_sample sample = {.time_ns = TEST_EPOCH + rnd_below(100)};
		struct profile_label label = {.key = test_string(profile, "pid"), .value = test_string(profile, "%u", i)};
		int64_t values[] = {rnd_below(2), -(int64_t)rnd_below(1000), INT64_MAX};
		assert_int_equal(profile_add_label_set(profile, &label, 1, &sample.labels, NULL), 0);
		assert_int_equal(profile_add_sample(profile, &sample, values, NULL), 0);
	}
	assert_int_equal(head_prepare(segment->head, profile, &options, NULL, &batch, NULL), 0);
	write_batch(segment, &batch, options.id, GIB);
	head_commit(segment->head, &batch, options.id, segment->count);
	profile_free(profile);
}

static struct segment *new_segment(size_t bytes_max)
{
	struct segment *segment = mem_zalloc(sizeof(*segment));
	segment->head = new_head();
	for (int i = 0; i < RECORDS; i++) {
		append(segment, bytes_max);
		if (i % 8 == 3)
			append_processes(segment);
	}
	return segment;
}

static void free_segment(struct segment *segment)
{
	for (size_t i = 0; i < segment->count; i++)
		buffer_release(&segment->payloads[i]);
	head_free(segment->head);
	mem_free(segment);
}

/* ---- comparing ---- */

static bool rows_equal(const struct head *a, size_t i, const struct head *b, size_t k)
{
	const struct series *x = &a->series[a->series_ids[i]], *y = &b->series[b->series_ids[k]];
	char *left = stack_text(a->pool, a->stacks[i]), *right = stack_text(b->pool, b->stacks[k]);
	struct bytes numbers[] = {intern_get(&a->number_texts, a->numbers ? a->numbers[i] : 0),
				  intern_get(&b->number_texts, b->numbers ? b->numbers[k] : 0)};
	bool equal = a->times[i] == b->times[k] && a->values[i] == b->values[k] && profile_type_equal(x->type, y->type) &&
		     labels_compare(x->labels, y->labels) == 0 && strcmp(left, right) == 0 &&
		     memcmp(&a->pool->links[a->links[i]], &b->pool->links[b->links[k]], sizeof(struct profile_link)) == 0 &&
		     bytes_equal(numbers[0], numbers[1]);
	mem_free(left);
	mem_free(right);
	return equal;
}

static void assert_process_rows_equal(const struct head *a, const struct head *b)
{
	static const struct head_processes_end start;
	struct head_processes_reader left, right;
	struct process_row x, y;
	assert_int_equal(a->processes.end.count, b->processes.end.count);
	head_processes_read(&a->processes, &start, &a->processes.end, &left);
	head_processes_read(&b->processes, &start, &b->processes.end, &right);
	while (head_processes_next(&left, &x) && head_processes_next(&right, &y)) {
		assert_int_equal(x.time_ns, y.time_ns);
		assert_memory_equal(x.values, y.values, sizeof(x.values));
		assert_int_equal(labels_compare(a->series[x.series].labels, b->series[y.series].labels), 0);
	}
}

static void assert_rows_equal(const struct head *a, const struct head *b)
{
	assert_int_equal(a->count, b->count);
	for (size_t i = 0; i < a->count; i++)
		assert_true(rows_equal(a, i, b, i));
}

static void assert_heads_equal(const struct head *a, const struct head *b)
{
	assert_rows_equal(a, b);
	assert_int_equal(a->series_count, b->series_count);
	for (size_t i = 0; i < a->series_count; i++)
		assert_true(a->series[i].period == b->series[i].period && a->series[i].total == b->series[i].total &&
			    a->series[i].samples == b->series[i].samples && a->series[i].last_ns == b->series[i].last_ns);
	assert_process_rows_equal(a, b);
	assert_int_equal(a->append_count, b->append_count);
	for (size_t i = 0; i < a->append_count; i++)
		assert_memory_equal(a->appends[i].id, b->appends[i].id, STORE_ID_SIZE);
}

/* An exact copy, so that the address sanitizer sees reads past the end. */
static int read_record(struct delta_reader *reader, const struct segment *segment, size_t at, uint64_t sequence,
		       struct error *err)
{
	const struct buffer *payload = &segment->payloads[at];
	uint8_t *copy = mem_alloc(payload->len);
	memcpy(copy, payload->data, payload->len);
	int r = delta_read(reader, sequence, (struct bytes){copy, payload->len}, err);
	mem_free(copy);
	return r;
}

static void begin(struct delta_reader *reader, struct head *head)
{
	delta_reader_init(reader, head);
	assert_int_equal(delta_reader_begin(reader, 1, NULL), 0);
}

static void finish(struct delta_reader *reader)
{
	head_free(reader->head);
	delta_reader_release(reader);
}

/* ---- tests ---- */

static void test_round_trip(void **state)
{
	for (int round = 0; round < 10; round++) {
		struct segment *segment = new_segment(GIB);
		struct delta_reader reader;
		struct error err = {0};
		begin(&reader, new_head());
		for (size_t i = 0; i < segment->count; i++) {
			assert_int_equal(delta_version(buffer_bytes(&segment->payloads[i])), DELTA_VERSION);
			if (read_record(&reader, segment, i, i + 1, &err) < 0)
				fail_msg("record %zu: %s", i, err.message);
			assert_int_equal(reader.head->count, segment->ends[i]);
		}
		assert_int_equal(reader.lost_rows, 0);
		assert_heads_equal(segment->head, reader.head);
		finish(&reader);
		free_segment(segment);
	}
}

/* What earlier records hold is not written again. */
static void test_second_time(void **state)
{
	struct segment *segment = mem_zalloc(sizeof(*segment));
	struct profile *profile = test_profile_random(50);
	struct store_append_options options = {.received_ns = TEST_EPOCH};
	segment->head = new_head();
	for (int i = 0; i < 2; i++) {
		struct head_batch batch;
		assert_int_equal(head_prepare(segment->head, profile, &options, NULL, &batch, NULL), 0);
		write_batch(segment, &batch, options.id, GIB);
		head_commit(segment->head, &batch, options.id, segment->count);
	}
	assert_true(segment->payloads[1].len < 60 + 12 * segment->ends[0]);
	assert_null(memmem(segment->payloads[1].data, segment->payloads[1].len, "function", 8));
	profile_free(profile);
	free_segment(segment);
}

/* Several segments, whose numbers mean different things, in one head. */
static void test_several_segments(void **state)
{
	struct head *head = new_head();
	struct delta_reader reader;
	size_t rows = 0;
	delta_reader_init(&reader, head);
	for (int round = 0; round < 3; round++) {
		struct segment *segment = new_segment(GIB);
		assert_int_equal(delta_reader_begin(&reader, 1, NULL), 0);
		for (size_t i = 0; i < segment->count; i++)
			assert_int_equal(read_record(&reader, segment, i, i + 1, NULL), 0);
		for (size_t i = 0; i < segment->head->count; i++)
			assert_true(rows_equal(segment->head, i, head, rows + i));
		rows += segment->head->count;
		assert_int_equal(head->count, rows);
		free_segment(segment);
	}
	/* The same binaries at other addresses are the same: 3 of them, and none. */
	assert_int_equal(head->pool->mapping_count, 4);
	finish(&reader);
}

/* Entries that come in records of their own because they are too many for one. */
static void test_in_parts(void **state)
{
	struct segment *segment = new_segment(500);
	struct delta_reader reader;
	assert_true(segment->count > RECORDS + 20);
	begin(&reader, new_head());
	for (size_t i = 0; i < segment->count; i++)
		assert_int_equal(read_record(&reader, segment, i, i + 1, NULL), 0);
	assert_heads_equal(segment->head, reader.head);
	finish(&reader);
	free_segment(segment);
}

/* What an append that failed has left in the head is in the next record. */
static void test_after_a_failure(void **state)
{
	struct segment *segment = mem_zalloc(sizeof(*segment));
	struct delta_reader reader;
	struct head_batch batch;
	segment->head = new_head();
	append(segment, GIB);
	struct profile *lost = test_profile_random(60);
	assert_int_equal(head_prepare(segment->head, lost, &(struct store_append_options){.name = "lost"}, NULL, &batch, NULL),
			 0);
	profile_free(lost); /* and its record cannot be written */
	for (int i = 0; i < 5; i++)
		append(segment, GIB);
	begin(&reader, new_head());
	for (size_t i = 0; i < segment->count; i++)
		assert_int_equal(read_record(&reader, segment, i, i + 1, NULL), 0);
	assert_heads_equal(segment->head, reader.head);
	finish(&reader);
	free_segment(segment);
}

/* Without one record: its rows are missing, and so are later appends of which a row refers to what it held, whole, and counted.
 * The others are what they were. */
static void test_missing_record(void **state)
{
	size_t all_lost = 0, all_kept = 0;
	for (size_t missing = 0; missing < RECORDS; missing++) {
		struct segment *segment = new_segment(missing % 2 ? 2000 : GIB);
		struct delta_reader reader;
		begin(&reader, new_head());
		for (size_t i = 0, row = 0; i < segment->count; row = segment->ends[i++]) {
			if (i == missing)
				continue;
			size_t before = reader.head->count, rows = segment->ends[i] - row;
			reader.lost_rows = 0;
			assert_int_equal(read_record(&reader, segment, i, i + 1, NULL), 0);
			size_t kept = reader.head->count - before;
			assert_int_equal(kept, reader.lost_rows ? 0 : rows);
			assert_true(!reader.lost_rows || rows == 0 || reader.lost_rows == rows);
			for (size_t k = 0; k < kept; k++)
				assert_true(rows_equal(segment->head, row + k, reader.head, before + k));
			all_lost += reader.lost_rows;
			all_kept += i > missing ? kept : 0;
		}
		finish(&reader);
		free_segment(segment);
	}
	assert_true(all_lost > 100 && all_kept > 100);
}

/* Records that do not follow the one before them are refused, and those that do are read nevertheless. */
static void test_wrong_order(void **state)
{
	struct segment *segment = new_segment(GIB), *other = new_segment(GIB);
	struct delta_reader reader;
	struct error err = {0};
	begin(&reader, new_head());
	for (size_t i = 0; i < 10; i++)
		assert_int_equal(read_record(&reader, segment, i, i + 1, NULL), 0);
	size_t rows = reader.head->count;
	/* Again, an earlier one, the one after the next, one of another segment: under the next number. */
	assert_int_equal(read_record(&reader, segment, 9, 11, &err), -EBADMSG);
	assert_non_null(strstr(err.message, "does not follow"));
	assert_int_equal(read_record(&reader, segment, 2, 11, NULL), -EBADMSG);
	assert_int_equal(read_record(&reader, segment, 11, 11, NULL), -EBADMSG);
	assert_int_equal(read_record(&reader, other, 10, 11, NULL), -EBADMSG);
	/* An earlier one behind a gap. */
	assert_int_equal(read_record(&reader, segment, 2, 13, NULL), -EBADMSG);
	assert_int_equal(reader.head->count, rows);
	for (size_t i = 10; i < segment->count; i++)
		assert_int_equal(read_record(&reader, segment, i, i + 1, NULL), 0);
	assert_heads_equal(segment->head, reader.head);
	finish(&reader);
	free_segment(segment);
	free_segment(other);
}

/* Truncated anywhere, or with any byte changed: an error or a valid record, never more; and after an error the next one goes
 * on as if it had not been. */
static void test_malformed(void **state)
{
	struct segment *segment = mem_zalloc(sizeof(*segment));
	struct delta_reader reader;
	size_t refused = 0;
	segment->head = new_head();
	append(segment, GIB);
	append_processes(segment);
	append(segment, GIB);
	struct buffer *payload = &segment->payloads[2];
	for (size_t at = 0; at < payload->len; at++) {
		struct error err = {0};
		begin(&reader, new_head());
		assert_int_equal(read_record(&reader, segment, 0, 1, NULL), 0);
		assert_int_equal(read_record(&reader, segment, 1, 2, NULL), 0);
		uint8_t *copy = mem_alloc(at);
		memcpy(copy, payload->data, at);
		assert_int_equal(delta_read(&reader, 3, (struct bytes){copy, at}, &err), -EBADMSG);
		mem_free(copy);
		uint8_t old = payload->data[at];
		payload->data[at] ^= (uint8_t)(1 + rnd_below(255));
		refused += at > 0 && read_record(&reader, segment, 2, 3, NULL) < 0;
		payload->data[at] = old;
		if (reader.sequence == 2) {
			assert_int_equal(read_record(&reader, segment, 2, 3, NULL), 0);
			assert_rows_equal(segment->head, reader.head);
		}
		finish(&reader);
	}
	assert_true(refused > 20);
	begin(&reader, new_head());
	segment->payloads[0].data[0] = DELTA_VERSION + 1;
	struct error err = {0};
	assert_int_equal(read_record(&reader, segment, 0, 1, &err), -ENOTSUP);
	assert_non_null(strstr(err.message, "version 5"));
	finish(&reader);
	free_segment(segment);
}

static void test_too_large(void **state)
{
	struct segment *segment = mem_zalloc(sizeof(*segment));
	struct delta_mark to;
	struct head_batch batch;
	struct profile *profile = test_profile_random(60);
	static const uint8_t none[STORE_ID_SIZE];
	_cleanup_(buffer_release) struct buffer out = {.max = 100};
	struct error err = {0};
	segment->head = new_head();
	assert_int_equal(head_prepare(segment->head, profile, &(struct store_append_options){0}, NULL, &batch, NULL), 0);
	assert_true(delta_limit(segment->head, &segment->head->logged, GIB, &to));
	assert_int_equal(delta_encode(segment->head, &segment->head->logged, &to, &batch, none, &out, &err), -E2BIG);
	assert_non_null(strstr(err.message, "too large"));
	profile_free(profile);
	free_segment(segment);
}

static void test_out_of_memory(void **state)
{
	struct segment *segment = mem_zalloc(sizeof(*segment));
	segment->head = new_head();
	append(segment, GIB);
	append(segment, GIB);
	for (uint64_t n = 1;; n++) {
		struct delta_reader reader;
		begin(&reader, new_head());
		assert_int_equal(read_record(&reader, segment, 0, 1, NULL), 0);
		const struct buffer *payload = &segment->payloads[1];
		fault_arm(FAULT_ALLOC, n, 0);
		int r = delta_read(&reader, 2, buffer_bytes(payload), NULL);
		bool reached = fault_disarm(FAULT_ALLOC);
		assert_int_equal(r, reached ? -ENOMEM : 0);
		if (reached)
			assert_int_equal(read_record(&reader, segment, 1, 2, NULL), 0);
		assert_heads_equal(segment->head, reader.head);
		finish(&reader);
		if (!reached)
			break;
	}
	free_segment(segment);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),	 cmocka_unit_test(test_second_time),
		cmocka_unit_test(test_several_segments), cmocka_unit_test(test_in_parts),
		cmocka_unit_test(test_after_a_failure),	 cmocka_unit_test(test_missing_record),
		cmocka_unit_test(test_wrong_order),	 cmocka_unit_test(test_malformed),
		cmocka_unit_test(test_too_large),	 cmocka_unit_test(test_out_of_memory),
	};
	test_seed_from_environment();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
