/* SPDX-License-Identifier: Apache-2.0 */
#include "format/test_format.h"

#define SUMMARY(clock) "*version\n3\ndata-file-overflow=false\nclock=" clock "\nvm=art\npid=77\n"
#define METHODS	       "0x4\ta.B\trun\t()V\tB.java\t12\n0x8\ta.B\tstep\t()V\tB.java\n"

static void put(struct buffer *out, uint64_t value, size_t len)
{
	assert_int_equal(buffer_append(out, &value, len), 0);
}

static void put_header(struct buffer *out, bool is_streaming, unsigned record_bytes)
{
	put(out, 0x574f4c53, 4);
	put(out, 3 ^ (is_streaming ? 0xf0 : 0), 2);
	put(out, 32, 2);
	put(out, 5000000, 8);
	put(out, record_bytes, 2);
	for (int i = 0; i < 14; i++)
		put(out, 0, 1);
}

static void put_record(struct buffer *out, unsigned tid, uint32_t method_and_action, uint32_t cpu, uint32_t wall, bool is_dual)
{
	put(out, tid, 2);
	put(out, method_and_action, 4);
	if (is_dual)
		put(out, cpu, 4);
	put(out, wall, 4);
}

/* run() from 10 to 90, in it step() from 20 to 50; another thread leaves what it never entered, enters an unknown method. */
static void put_records(struct buffer *out, bool is_dual)
{
	put_record(out, 1, 4, 1, 10, is_dual);
	put_record(out, 1, 8, 3, 20, is_dual);
	put_record(out, 2, 8 | 1, 1, 25, is_dual);
	put_record(out, 2, 0x40, 2, 30, is_dual);
	put_record(out, 1, 8 | 2, 10, 50, is_dual);
	put_record(out, 2, 4, 5, 70, is_dual);
	put_record(out, 1, 4 | 1, 15, 90, is_dual);
}

static struct buffer make_regular(bool is_dual)
{
	struct buffer out;
	buffer_init(&out, MIB);
	buffer_append_string(&out, is_dual ? SUMMARY("dual") : SUMMARY("wall"));
	buffer_append_string(&out, "*threads\n1\tmain\n2\tpool 1\n70000\tfar\n*methods\n" METHODS "*end\n");
	put_header(&out, false, is_dual ? 14 : 10);
	put_records(&out, is_dual);
	return out;
}

static void put_special(struct buffer *out, unsigned code, unsigned tid, const char *text)
{
	put(out, 0, 2);
	put(out, code, 1);
	if (code == 2)
		put(out, tid, 2);
	put(out, strlen(text), code == 3 ? 4 : 2);
	buffer_append_string(out, text);
}

static struct buffer make_streaming(void)
{
	struct buffer out;
	buffer_init(&out, MIB);
	put_header(&out, true, 14);
	put_special(&out, 1, 0, "0x4\ta.B\trun\t()V\tB.java\t12\n");
	put_special(&out, 2, 1, "main");
	put_special(&out, 1, 0, "0x8\ta.B\tstep\t()V\tB.java\n");
	put_records(&out, true);
	put_special(&out, 2, 2, "pool 1");
	put_special(&out, 3, 0, SUMMARY("dual") "*end\n");
	return out;
}

static void check(struct buffer *file, const char *type, const char *folded)
{
	struct buffer notes = {.max = KIB}, out = {.max = KIB};
	struct format_options options = {.notes = &notes, .sample_type = type};
	struct profile *profile = NULL;
	struct error err = {0};
	if (format_decode(NULL, buffer_bytes(file), &options, &profile, &err) < 0)
		fail_msg("%s", err.message);
	assert_int_equal(format_encode(&format_folded, profile, &options, &out, NULL), 0);
	assert_string_equal(buffer_string(&out), folded);
	assert_string_equal(profile_label_value(profile, profile->samples[0].labels, "thread.name"), "main");
	assert_int_equal(profile->samples[0].time_ns, 5000010000);
	assert_int_equal(profile->duration_ns, 90000);
	assert_string_equal(buffer_string(&notes), "1 ends of methods that began before the trace\n"
						   "2 methods without an end: they last until the last event of their thread\n"
						   "1 methods: names, which the file does not have\n");
	profile_free(profile);
	buffer_release(&notes);
	buffer_release(&out);
}

static void test_forms(void **state)
{
	struct buffer dual = make_regular(true), wall = make_regular(false), streaming = make_streaming();
	check(&dual, "wall", "[unknown]_[j] 40000\na.B.run_[j] 50000\na.B.run_[j];a.B.step_[j] 30000\n");
	check(&dual, "cpu", "[unknown]_[j] 3000\na.B.run_[j] 7000\na.B.run_[j];a.B.step_[j] 7000\n");
	check(&wall, "wall", "[unknown]_[j] 40000\na.B.run_[j] 50000\na.B.run_[j];a.B.step_[j] 30000\n");
	check(&streaming, "cpu", "[unknown]_[j] 3000\na.B.run_[j] 7000\na.B.run_[j];a.B.step_[j] 7000\n");
	buffer_release(&dual);
	buffer_release(&wall);
	buffer_release(&streaming);
}

/* Threads that no list has. */
static void test_unlisted(void **state)
{
	struct buffer file = {.max = KIB};
	struct profile *profile = NULL;
	buffer_append_string(&file, SUMMARY("wall") "*threads\n*methods\n" METHODS "*end\n");
	put_header(&file, false, 10);
	put_records(&file, false);
	assert_int_equal(format_decode(NULL, buffer_bytes(&file), NULL, &profile, NULL), 0);
	assert_true(profile->sample_count > 0);
	for (size_t i = 0; i < profile->sample_count; i++) {
		const struct profile_label_set *set = &profile->label_sets[profile->samples[i].labels];
		assert_int_equal(set->count, 1);
		assert_string_equal(profile_string(profile, profile->labels[set->first].key), "thread.id");
		assert_in_range(profile->labels[set->first].number, 1, 2);
	}
	profile_free(profile);
	buffer_release(&file);
}

static void refuse(struct buffer *file, const char *says)
{
	struct profile *profile = NULL;
	struct error err = {0};
	assert_true(format_decode(&format_art_trace, buffer_bytes(file), NULL, &profile, &err) < 0);
	if (!strstr(err.message, says))
		fail_msg("\"%s\" does not say \"%s\"", err.message, says);
	buffer_release(file);
}

static void test_refused(void **state)
{
	struct buffer file = {.max = KIB};
	buffer_append_string(&file, SUMMARY("dual") "*end\n");
	refuse(&file, "do not begin with SLOW");
	buffer_append_string(&file, SUMMARY("dual") "*end\n");
	put_header(&file, false, 10);
	refuse(&file, "records of 10 bytes have no room");
	buffer_append_string(&file, SUMMARY("dual") "*methods\nx\n*end\n");
	refuse(&file, "a method has no id");
	file = make_streaming();
	file.len -= 4;
	refuse(&file, "an entry reaches past the end");
	/* Records of no bytes, and of too few for either clock. */
	file = make_streaming();
	file.data[16] = 0;
	file.data[32] = 1;
	refuse(&file, "records of 0 bytes have no room");
	file = make_streaming();
	file.data[16] = 9;
	refuse(&file, "records of 9 bytes have no room");
	file = make_streaming();
	file.data[4] = 0x0f;
	refuse(&file, "version 255");
}

/* Ends without a begin are looked for in a deep stack, again and again. */
static void test_long_search(void **state)
{
	enum { ENDS = 20000 };
	struct buffer file = {.max = MIB};
	buffer_append_string(&file, SUMMARY("wall") "*end\n");
	put_header(&file, false, 10);
	for (size_t i = 0; i < LIMIT_STACK_DEPTH; i++)
		put_record(&file, 1, 4, 0, 0, false);
	for (size_t i = 0; i < ENDS; i++)
		put_record(&file, 1, 8 | 1, 0, 0, false);
	refuse(&file, "too many ends of methods");
}

static void test_damaged(void **state)
{
	struct buffer files[] = {make_regular(true), make_streaming()};
	for (size_t i = 0; i < 2; i++) {
		check_damaged(&format_art_trace, buffer_bytes(&files[i]));
		buffer_release(&files[i]);
	}
}

static void test_no_memory(void **state)
{
	struct buffer files[] = {make_regular(true), make_streaming()};
	for (size_t i = 0; i < 2; i++) {
		check_no_memory(&format_art_trace, buffer_bytes(&files[i]));
		buffer_release(&files[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_forms),	    cmocka_unit_test(test_unlisted), cmocka_unit_test(test_refused),
		cmocka_unit_test(test_long_search), cmocka_unit_test(test_damaged),  cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
