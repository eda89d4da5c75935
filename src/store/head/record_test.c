/* SPDX-License-Identifier: Apache-2.0 */
#include "store/test_store.h"

#include <errno.h>

#include "base/fault.h"
#include "store/head/record.h"

static void encode_random(struct buffer *out, struct model *model)
{
	struct profile *profile = test_profile_random(rnd_below(80));
	struct labels labels;
	bool repaired;
	test_labels_random(&labels);
	struct store_append_options options = {.labels = &labels,
					       .received_ns = TEST_EPOCH + 5,
					       .name = rnd_below(2) ? "my_name" : NULL,
					       .id = {1, 2, 3},
					       .least_ns = -5,
					       .most_ns = INT64_MAX};
	buffer_init(out, RECORD_BYTES_MAX);
	assert_int_equal(record_encode(profile, &options, out, &repaired, NULL), 0);
	assert_false(repaired);
	if (model)
		model_append(model, profile, &options);
	labels_release(&labels);
	profile_free(profile);
}

static void test_round_trip(void **state)
{
	for (int round = 0; round < 200; round++) {
		struct model want = {0}, got = {0};
		struct buffer payload;
		struct record record;
		struct error err = {0};
		encode_random(&payload, &want);
		/* An exact copy, so that the address sanitizer sees reads past the end. */
		uint8_t *copy = mem_alloc(payload.len);
		memcpy(copy, payload.data, payload.len);
		if (record_decode((struct bytes){copy, payload.len}, &record, &err) < 0)
			fail_msg("%s", err.message);
		struct store_append_options options = record_options(&record);
		assert_int_equal(options.received_ns, TEST_EPOCH + 5);
		assert_true(options.least_ns == -5 && options.most_ns == INT64_MAX);
		assert_memory_equal(options.id, ((uint8_t[16]){1, 2, 3}), 16);
		assert_int_equal(record.profile->period, 52631579);
		model_append(&got, record.profile, &options);
		assert_models_equal(&want, &got);
		/* And the same bytes again: nothing is lost or reordered on the way. */
		struct buffer again;
		bool repaired;
		buffer_init(&again, RECORD_BYTES_MAX);
		assert_int_equal(record_encode(record.profile, &options, &again, &repaired, NULL), 0);
		assert_int_equal(again.len, payload.len);
		assert_memory_equal(again.data, payload.data, payload.len);
		record_release(&record);
		mem_free(copy);
		buffer_release(&again);
		buffer_release(&payload);
	}
}

static void test_links_survive(void **state)
{
	struct profile *profile;
	struct record record;
	struct buffer payload;
	bool repaired;
	uint32_t link;
	assert_int_equal(profile_new(&profile, NULL), 0);
	profile_add_sample_type(profile, test_string(profile, "samples"), test_string(profile, "count"), NULL);
	struct profile_link entry = {.trace_id = {1, 2, 3}, .span_id = {4, 5}};
	assert_int_equal(profile_add_link(profile, &entry, &link, NULL), 0);
	profile_add_sample(profile, &(struct profile_sample){.link = link, .time_ns = 77}, &(int64_t){-3}, NULL);
	struct store_append_options options = {0};
	buffer_init(&payload, RECORD_BYTES_MAX);
	assert_int_equal(record_encode(profile, &options, &payload, &repaired, NULL), 0);
	assert_int_equal(record_decode(buffer_bytes(&payload), &record, NULL), 0);
	assert_int_equal(record.profile->sample_count, 1);
	assert_memory_equal(&record.profile->links[record.profile->samples[0].link], &entry, sizeof(entry));
	assert_int_equal(record.profile->samples[0].time_ns, 77);
	assert_int_equal(record.profile->values[0], -3);
	assert_null(record.name);
	record_release(&record);
	buffer_release(&payload);
	profile_free(profile);
}

static void encode(struct profile *profile, struct buffer *out)
{
	struct store_append_options options = {0};
	bool repaired;
	buffer_init(out, RECORD_BYTES_MAX);
	assert_int_equal(record_encode(profile, &options, out, &repaired, NULL), 0);
}

/* Only who has numbers pays for them, and needs the version that has them. */
static void test_numbers_survive(void **state)
{
	struct profile *profile;
	struct record record;
	struct buffer payload;
	struct profile_label label = {.number = 512};
	uint32_t set;
	assert_int_equal(profile_new(&profile, NULL), 0);
	profile_add_sample_type(profile, test_string(profile, "samples"), test_string(profile, "count"), NULL);
	label.key = test_string(profile, "bytes");
	assert_int_equal(profile_add_label_set(profile, &label, 1, &set, NULL), 0);
	profile_add_sample(profile, &(struct profile_sample){.time_ns = 5}, &(int64_t){2}, NULL);
	encode(profile, &payload);
	size_t without = payload.len;
	assert_int_equal(payload.data[0], 2);
	buffer_release(&payload);
	profile->samples[0].numbers = set;
	profile_add_sample(profile, &(struct profile_sample){.time_ns = 5}, &(int64_t){2}, NULL);
	encode(profile, &payload);
	assert_int_equal(payload.data[0], 3);
	assert_int_equal(payload.len, without + 5 + 2); /* a sample more, and two references */
	assert_int_equal(record_decode(buffer_bytes(&payload), &record, NULL), 0);
	assert_int_equal(record.profile->samples[0].numbers, set);
	assert_int_equal(record.profile->samples[1].numbers, 0);
	assert_int_equal(record.profile->labels[record.profile->label_sets[set].first].number, 512);
	record_release(&record);
	/* A reference to a set that is not there. */
	payload.data[payload.len - 1] = 2;
	struct error err = {0};
	assert_int_equal(record_decode(buffer_bytes(&payload), &record, &err), -EBADMSG);
	assert_non_null(strstr(err.message, "reference"));
	buffer_release(&payload);
	profile_free(profile);
}

/* Truncated anywhere, or with any byte changed: an error or a valid record, never more. */
static void test_malformed(void **state)
{
	struct buffer payload;
	struct record record;
	size_t refused = 0;
	encode_random(&payload, NULL);
	for (size_t len = 0; len < payload.len; len++) {
		uint8_t *copy = mem_alloc(len);
		memcpy(copy, payload.data, len);
		struct error err = {0};
		assert_int_equal(record_decode((struct bytes){copy, len}, &record, &err), -EBADMSG);
		assert_non_null(strstr(err.message, "malformed log record"));
		mem_free(copy);
	}
	for (size_t at = 1; at < payload.len; at++) {
		uint8_t old = payload.data[at];
		payload.data[at] ^= (uint8_t)(1 + rnd_below(255));
		int r = record_decode(buffer_bytes(&payload), &record, NULL);
		if (r == 0)
			record_release(&record);
		refused += r < 0;
		payload.data[at] = old;
	}
	assert_true(refused > 20);
	payload.data[0] = 4;
	struct error err = {0};
	assert_int_equal(record_decode(buffer_bytes(&payload), &record, &err), -ENOTSUP);
	buffer_release(&payload);
}

static void test_too_large(void **state)
{
	struct profile *profile = test_profile_random(20);
	struct buffer payload;
	struct error err = {0};
	bool repaired;
	buffer_init(&payload, 100);
	assert_int_equal(record_encode(profile, &(struct store_append_options){0}, &payload, &repaired, &err), -E2BIG);
	assert_non_null(strstr(err.message, "too large"));
	buffer_release(&payload);
	profile_free(profile);
}

static void test_out_of_memory(void **state)
{
	struct buffer payload;
	encode_random(&payload, NULL);
	for (uint64_t n = 1;; n++) {
		struct record record;
		fault_arm(FAULT_ALLOC, n, 0);
		int r = record_decode(buffer_bytes(&payload), &record, NULL);
		bool reached = fault_disarm(FAULT_ALLOC);
		assert_int_equal(r, reached ? -ENOMEM : 0);
		if (!reached) {
			record_release(&record);
			break;
		}
	}
	buffer_release(&payload);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip), cmocka_unit_test(test_links_survive), cmocka_unit_test(test_numbers_survive),
		cmocka_unit_test(test_malformed),  cmocka_unit_test(test_too_large),	 cmocka_unit_test(test_out_of_memory),
	};
	test_seed_from_environment();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
