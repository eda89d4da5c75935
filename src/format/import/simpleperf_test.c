/* SPDX-License-Identifier: Apache-2.0 */
#include "format/test_format.h"

#include "codec/protobuf.h"

static void begin(struct buffer *out)
{
	buffer_init(out, MIB);
	assert_int_equal(buffer_append(out, "SIMPLEPERF\1\0", 12), 0);
}

static void put_size(struct buffer *out, uint32_t size)
{
	assert_int_equal(buffer_append(out, &size, 4), 0);
}

/* A record of one field, which the message is. */
static void put_record(struct buffer *out, uint32_t field, struct buffer *message)
{
	struct buffer record = {.max = MIB};
	assert_int_equal(pb_write_bytes(&record, field, message->data, message->len), 0);
	put_size(out, (uint32_t)record.len);
	assert_int_equal(buffer_append_buffer(out, &record), 0);
	buffer_release(&record);
	buffer_release(message);
}

static void put_thread(struct buffer *out, uint64_t tid, uint64_t pid, const char *name)
{
	struct buffer message = {.max = MIB};
	pb_write_varint(&message, 1, tid);
	pb_write_varint(&message, 2, pid);
	pb_write_string(&message, 3, name);
	put_record(out, 4, &message);
}

static void put_file(struct buffer *out, uint64_t id, const char *path, const char *symbol, const char *mangled)
{
	struct buffer message = {.max = MIB};
	pb_write_varint(&message, 1, id);
	pb_write_string(&message, 2, path);
	if (symbol)
		pb_write_string(&message, 3, symbol);
	if (mangled)
		pb_write_string(&message, 4, mangled);
	put_record(out, 3, &message);
}

struct entry {
	uint64_t address, file, symbol, type;
};
#define UNKNOWN (UINT64_MAX)

static void put_sample(struct buffer *out, uint64_t time, uint64_t tid, uint64_t count, uint64_t event,
		       const struct entry *entries, size_t entry_count)
{
	struct buffer message = {.max = MIB}, entry = {.max = KIB};
	pb_write_varint(&message, 1, time);
	pb_write_varint(&message, 2, tid);
	for (size_t i = 0; i < entry_count; i++) {
		const uint64_t values[] = {entries[i].address, entries[i].file, entries[i].symbol, entries[i].type};
		buffer_clear(&entry);
		for (uint32_t k = 0; k < 4; k++)
			pb_write_varint(&entry, k + 1, values[k]);
		pb_write_bytes(&message, 3, entry.data, entry.len);
	}
	pb_write_varint(&message, 4, count);
	pb_write_varint(&message, 5, event);
	put_record(out, 1, &message);
	buffer_release(&entry);
}

static struct buffer make_report(void)
{
	static const struct entry native[] = {{0x10, 0, 0, 0}, {0x20, 1, UNKNOWN, 0}, {0x30, 2, 0, 2}},
				  strange[] = {{0x10, 9, 0, 0}, {0x20, 0, 7, 1}};
	struct buffer out, meta = {.max = KIB}, lost = {.max = KIB}, turn = {.max = KIB};
	begin(&out);
	put_sample(&out, 1000, 7, 250000, 0, native, 3);
	put_sample(&out, 3000, 8, 3, 1, strange, 2);
	pb_write_varint(&lost, 1, 2);
	pb_write_varint(&lost, 2, 5);
	put_record(&out, 2, &lost);
	put_file(&out, 0, "/system/lib/libc.so", "f(int)", "_Z1fi");
	put_file(&out, 1, "[kernel.kallsyms]", NULL, NULL);
	put_file(&out, 2, "[JIT app cache]", "a.B.run", "a.B.run");
	put_thread(&out, 7, 6, "main");
	pb_write_string(&meta, 1, "cpu-clock");
	pb_write_string(&meta, 1, "page-faults");
	pb_write_string(&meta, 2, "com.example");
	put_record(&out, 5, &meta);
	pb_write_varint(&turn, 1, 1);
	put_record(&out, 6, &turn);
	put_size(&out, 0);
	return out;
}

static void test_report(void **state)
{
	struct buffer file = make_report(), notes = {.max = KIB};
	struct format_options options = {.notes = &notes, .sample_type = "samples"};
	struct profile *profile = NULL;
	struct error err = {0};
	if (format_decode(NULL, buffer_bytes(&file), &options, &profile, &err) < 0)
		fail_msg("%s", err.message);
	struct buffer out = {.max = KIB};
	assert_int_equal(format_encode(&format_folded, profile, &options, &out, NULL), 0);
	assert_string_equal(buffer_string(&out), "a.B.run_[j];[kernel.kallsyms]+0x20_[k];f(int) 1\nlibc.so+0x20;0x10 1\n");
	assert_int_equal(profile_total(profile, 1), 250000);
	assert_int_equal(profile_total(profile, 2), 3);
	assert_string_equal(profile_string(profile, profile->sample_types[1].unit), "nanoseconds");
	assert_string_equal(profile_string(profile, profile->sample_types[2].unit), "count");
	const struct profile_sample *samples = profile->samples;
	assert_string_equal(profile_label_value(profile, samples[0].labels, "thread.name"), "main");
	assert_string_equal(profile_label_value(profile, samples[1].labels, "event"), "page-faults");
	assert_int_equal(samples[0].time_ns, 1000);
	assert_int_equal(profile->duration_ns, 2000);
	assert_string_equal(profile_string(profile, profile->comments[0]), "com.example");
	const struct profile_location *leaf = &profile->locations[profile->stacks[samples[0].stack].location];
	const struct profile_function *function = &profile->functions[profile->lines[leaf->line_first].function];
	assert_string_equal(profile_string(profile, function->system_name), "_Z1fi");
	assert_string_equal(buffer_string(&notes), "5 samples that were lost while recording\n"
						   "2 references to files, symbols or events that are not in the file\n"
						   "1 context switches\n");
	profile_free(profile);
	buffer_release(&out);
	buffer_release(&notes);
	buffer_release(&file);
}

static void test_refused(void **state)
{
	struct buffer file = make_report();
	struct profile *profile = NULL;
	struct error err = {0};
	file.len -= 4;
	assert_int_equal(format_decode(NULL, buffer_bytes(&file), NULL, &profile, &err), -EBADMSG);
	assert_non_null(strstr(err.message, "the records have no end"));
	file.len -= 1;
	assert_int_equal(format_decode(NULL, buffer_bytes(&file), NULL, &profile, &err), -EBADMSG);
	assert_non_null(strstr(err.message, "longer than the file"));
	file.data[10] = 2;
	assert_int_equal(format_decode(NULL, buffer_bytes(&file), NULL, &profile, &err), -ENOTSUP);
	buffer_release(&file);
}

static void test_damaged(void **state)
{
	struct buffer file = make_report();
	check_damaged(&format_simpleperf, buffer_bytes(&file));
	buffer_release(&file);
}

static void test_no_memory(void **state)
{
	struct buffer file = make_report();
	check_no_memory(&format_simpleperf, buffer_bytes(&file));
	buffer_release(&file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_report),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
