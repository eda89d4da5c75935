/* SPDX-License-Identifier: Apache-2.0 */
#include "format/test_format.h"

#include "base/fault.h"
#include "codec/compress.h"
#include "codec/protobuf.h"

/* ---- building messages by hand ---- */

static void put_strings(struct buffer *out, const char *const *strings)
{
	for (; *strings; strings++)
		assert_int_equal(pb_write_string(out, 6, *strings), 0);
}

static void put_numbers(struct buffer *out, uint32_t field, const uint64_t *numbers, size_t count)
{
	size_t mark;
	assert_int_equal(pb_begin(out, field, &mark), 0);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(pb_write_varint(out, (uint32_t)i + 1, numbers[i]), 0);
	assert_int_equal(pb_end(out, mark), 0);
}
#define NUMBERS(...) (const uint64_t[]){__VA_ARGS__}, sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t)

static void put_sample(struct buffer *out, uint64_t location, uint64_t value)
{
	size_t mark;
	assert_int_equal(pb_begin(out, 2, &mark), 0);
	assert_int_equal(pb_write_varint(out, 1, location), 0);
	assert_int_equal(pb_write_varint(out, 2, value), 0);
	assert_int_equal(pb_end(out, mark), 0);
}

static const char *const some_strings[] = {"", "samples", "count", "main", "file.c", "key", "value", "bytes", NULL};

/* A profile with one function, one location (id 1) and what `more` appends. */
static struct buffer small_message(void)
{
	struct buffer out;
	buffer_init(&out, MIB);
	put_strings(&out, some_strings);
	put_numbers(&out, 1, NUMBERS(1, 2));
	put_numbers(&out, 5, NUMBERS(1, 3, 3, 4, 7));
	put_numbers(&out, 4, NUMBERS(1, 0, 0x1234));
	return out;
}

static int decode(struct bytes input, struct profile **ret, struct error *err)
{
	uint8_t *copy = exact_copy(input);
	*ret = NULL;
	int r = pprof_decode((struct bytes){copy, input.len}, NULL, ret, err);
	free(copy);
	assert_true((r == 0) == (*ret != NULL));
	return r;
}

static struct profile *decode_message(struct buffer *message)
{
	struct profile *profile;
	struct error err = {0};
	if (decode(buffer_bytes(message), &profile, &err) < 0)
		fail_msg("%s", err.message);
	buffer_release(message);
	return profile;
}

static void refuse_message(struct buffer *message, int code, const char *expected_message)
{
	struct profile *profile;
	struct error err = {0};
	assert_int_equal(decode(buffer_bytes(message), &profile, &err), code);
	if (!strstr(err.message, expected_message))
		fail_msg("\"%s\" does not say \"%s\"", err.message, expected_message);
	buffer_release(message);
}

/* ---- verdicts ---- */

static void check_verdict(const char *path, const char *name, const char *verdict)
{
	struct buffer file = read_data(path);
	struct format_options options = {.input_name = name};
	struct profile *profile = NULL;
	struct error err = {0};
	uint8_t *copy = exact_copy(buffer_bytes(&file));
	for (int detect = 0; detect < 2; detect++) {
		int r = format_decode(detect ? NULL : &format_pprof, (struct bytes){copy, file.len}, &options, &profile, &err);
		if ((r == 0) != (strcmp(verdict, "ACCEPT") == 0))
			fail_msg("%s: the verdict is %s, we say %d %s", name, verdict, r, err.message);
		if (r < 0 && (r != -EBADMSG || strncmp(err.message, name, strlen(name)) != 0))
			fail_msg("%d: %s", r, err.message);
		if (r == 0)
			assert_int_equal(profile->sample_count, 1);
		profile = profile_free(profile);
	}
	free(copy);
	buffer_release(&file);
}

static void test_verdicts(void **state)
{
	for_each_verdict("pprof/malformed", check_verdict);
}

/* ---- against go tool pprof ---- */

static const char *const good_files[] = {
	"pprof/google-driver/sample.cpu",
	"pprof/google-driver/large.cpu",
	"pprof/google-driver/cppbench.cpu_no_samples_type",
	"pprof/google-driver/go.nomappings.crash",
	"pprof/malformed/ok_dup_label_key.pb",
	"pprof/malformed/ok_label_str_and_num.pb",
	"pprof/malformed/ok_negative_value.pb",
	"pprof/malformed/ok_sparse_location_id.pb",
	"pprof/malformed/ok_addr_only_no_lines.pb",
};
#define GOOD_COUNT (sizeof(good_files) / sizeof(good_files[0]))

/*
 * What `go tool pprof` makes of a profile and of another one, which may be none. Of two it makes the sum, and samples of one
 * stack become one; newer versions leave a single one as it is. Mappings are without the flags, which we set when all of a
 * mapping has names.
 */
static char *go_raw(const char *path, const char *other)
{
	char command[4700];
	snprintf(command, sizeof(command),
		 "{ go tool pprof -symbolize=none -raw '%s' %s 2>/dev/null || echo failed; } | sed "
		 "'/^Mappings/,$s/\\[[FLI][NL]\\]//g'",
		 path, other);
	char *text = output_of(command);
	assert_non_null(text);
	assert_null(strstr(text, "failed"));
	assert_non_null(strstr(text, "Samples:"));
	return text;
}

/* Sums the columns of the lines "VALUE VALUE: LOCATION ..." behind "Samples:". */
static size_t sum_raw(const char *raw, int64_t *sums, size_t max)
{
	size_t columns = 0;
	memset(sums, 0, max * sizeof(*sums));
	const char *line = strchr(strchr(strstr(raw, "Samples:"), '\n') + 1, '\n') + 1;
	for (; strncmp(line, "Locations", 9) != 0; line = strchr(line, '\n') + 1) {
		const char *colon = strchr(line, ':');
		char *at = (char *)(uintptr_t)line;
		if (strspn(line, " -0123456789") != (size_t)(colon - line))
			continue; /* a label */
		for (columns = 0; at < colon && columns < max; columns++)
			sums[columns] += strtoll(at, &at, 10);
	}
	return columns;
}

static void test_totals_agree_with_go(void **state)
{
	need_program("go");
	for (size_t i = 0; i < GOOD_COUNT; i++) {
		struct buffer file = read_data(good_files[i]);
		struct profile *profile = decode_or_fail(&format_pprof, buffer_bytes(&file), good_files[i]);
		char *raw = go_raw(data_path(good_files[i]), "");
		int64_t sums[LIMIT_SAMPLE_TYPES];
		assert_int_equal(sum_raw(raw, sums, LIMIT_SAMPLE_TYPES), profile->sample_type_count);
		for (size_t t = 0; t < profile->sample_type_count; t++)
			assert_true(sums[t] == profile_total(profile, t));
		assert_true(sums[0] != 0);
		free(raw);
		profile_free(profile);
		buffer_release(&file);
	}
}

static void write_temporary(char *path, struct bytes content)
{
	struct error err = {0};
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(io_write(fd, content.data, content.len, path, &err), 0);
	close(fd);
}

/* go prints the same for twice the file and for twice what we made of it, to the last label and line. */
static void test_encoded_reads_the_same_in_go(void **state)
{
	need_program("go");
	for (size_t i = 0; i < GOOD_COUNT; i++) {
		struct buffer file = read_data(good_files[i]);
		struct profile *profile = decode_or_fail(&format_pprof, buffer_bytes(&file), good_files[i]);
		struct buffer out;
		buffer_init(&out, 64 * MIB);
		assert_int_equal(pprof_encode(profile, NULL, &out, NULL), 0);
		assert_true(gzip_detect(buffer_bytes(&out)));
		char path[] = "/tmp/wick-pprof-test-XXXXXX";
		write_temporary(path, buffer_bytes(&out));
		char *ours = go_raw(path, path), *theirs = go_raw(data_path(good_files[i]), data_path(good_files[i]));
		unlink(path);
		if (strcmp(ours, theirs) != 0)
			fail_msg("%s: go reads the encoded profile differently", good_files[i]);
		free(ours);
		free(theirs);
		profile_free(profile);
		buffer_release(&out);
		buffer_release(&file);
	}
}

/* ---- round trips ---- */

static void test_round_trip(void **state)
{
	for (size_t i = 0; i < GOOD_COUNT; i++) {
		struct buffer file = read_data(good_files[i]);
		struct profile *first = decode_or_fail(&format_pprof, buffer_bytes(&file), good_files[i]);
		struct buffer out = encode_or_fail(&format_pprof, first);
		struct profile *second = decode_or_fail(NULL, buffer_bytes(&out), "encoded");
		/* Some files hold the same stack twice. */
		assert_int_equal(profile_aggregate(first, NULL), 0);
		assert_profiles_equal(first, second);
		struct buffer again = encode_or_fail(&format_pprof, second);
		assert_true(bytes_equal(buffer_bytes(&out), buffer_bytes(&again)));
		profile_free(first);
		profile_free(second);
		buffer_release(&file);
		buffer_release(&out);
		buffer_release(&again);
	}
}

/* ---- single rules ---- */

static void test_labels(void **state)
{
	static const uint64_t labels[][4] = {
		{5, 6, 0, 0}, /* a string */
		{5, 6, 9, 7}, /* a string beats a number */
		{5, 0, 9, 0}, /* a number */
		{5, 0, 9, 7}, /* with a unit */
		{5, 0, 0, 0}, /* lost */
		{5, 0, 0, 7}, /* zero with a unit is not */
	};
	struct buffer message = small_message();
	size_t mark, label;
	assert_int_equal(pb_begin(&message, 2, &mark), 0);
	assert_int_equal(pb_write_varint(&message, 2, 1), 0);
	for (size_t i = 0; i < sizeof(labels) / sizeof(labels[0]); i++) {
		assert_int_equal(pb_begin(&message, 3, &label), 0);
		for (uint32_t f = 0; f < 4; f++)
			assert_int_equal(pb_write_varint(&message, f + 1, labels[i][f]), 0);
		assert_int_equal(pb_end(&message, label), 0);
	}
	assert_int_equal(pb_end(&message, mark), 0);
	struct profile *profile = decode_message(&message);
	struct buffer text;
	buffer_init(&text, KIB);
	dump_labels(profile, profile->samples[0].labels, &text);
	assert_string_equal(buffer_string(&text), " key=value/0/ key=/9/ key=/9/bytes key=/0/bytes");
	buffer_release(&text);
	profile_free(profile);
}

static void test_references(void **state)
{
	struct buffer message = small_message();
	put_sample(&message, 1, 5);
	struct profile *profile = decode_message(&message);
	assert_int_equal(profile->sample_count, 1);
	assert_int_equal(profile_stack_depth(profile, profile->samples[0].stack), 1);
	profile_free(profile);

	message = small_message();
	put_sample(&message, 2, 5);
	refuse_message(&message, -EBADMSG, "Profile.sample 0: refers to location 2, which does not exist");
	message = small_message();
	put_numbers(&message, 4, NUMBERS(1, 0, 0x99));
	refuse_message(&message, -EBADMSG, "several locations have the id 1");
	/* A mapping that does not exist is none. */
	message = small_message();
	put_numbers(&message, 4, NUMBERS(2, 77, 0x99));
	put_sample(&message, 2, 5);
	profile = decode_message(&message);
	assert_int_equal(profile->mapping_count, 1);
	profile_free(profile);
	/* Negative and large indexes */
	message = small_message();
	assert_int_equal(pb_write_varint(&message, 15, UINT64_MAX), 0);
	refuse_message(&message, -EBADMSG, "Profile.doc_url: string index -1 is outside the string table of 8 entries");
}

static void put_line(struct buffer *out, uint64_t location, uint64_t function)
{
	size_t mark;
	assert_int_equal(pb_begin(out, 4, &mark), 0);
	assert_int_equal(pb_write_varint(out, 1, location), 0);
	put_numbers(out, 4, NUMBERS(function));
	assert_int_equal(pb_end(out, mark), 0);
}

/* Locations 7 and 9, and functions with these ids. */
static struct buffer message_without_ids(uint64_t first, uint64_t second)
{
	struct buffer out;
	buffer_init(&out, MIB);
	put_strings(&out, some_strings);
	put_numbers(&out, 1, NUMBERS(1, 2));
	put_line(&out, 7, 7);
	put_line(&out, 9, 9);
	put_numbers(&out, 5, NUMBERS(first, 3));
	put_numbers(&out, 5, NUMBERS(second, 5));
	put_sample(&out, 9, 1);
	return out;
}

static void test_functions_without_ids(void **state)
{
	struct buffer message = message_without_ids(0, 0);
	struct profile *profile = decode_message(&message);
	uint32_t location = profile->stacks[profile->samples[0].stack].location;
	uint32_t function = profile->lines[profile->locations[location].line_first].function;
	assert_string_equal(profile_string(profile, profile->functions[function].name), "key");
	profile_free(profile);
	message = message_without_ids(0, 9);
	refuse_message(&message, -EBADMSG, "functions before it have the reserved id 0");
	message = message_without_ids(7, 0);
	refuse_message(&message, -EBADMSG, "function has the reserved id 0");
	/* One more than there are locations, and one less. */
	message = message_without_ids(0, 0);
	put_numbers(&message, 5, NUMBERS(0, 6));
	refuse_message(&message, -EBADMSG, "function has the reserved id 0");
	message = message_without_ids(0, 0);
	put_line(&message, 11, 7);
	refuse_message(&message, -EBADMSG, "functions have the reserved id 0");
}

/* Ids that come out of order, with holes, at the ends of the range, and again. */
static void test_sparse_ids(void **state)
{
	static const uint64_t ids[] = {3, UINT64_MAX, 1, 2, 1ull << 40, 4};
	struct buffer message;
	buffer_init(&message, MIB);
	put_strings(&message, some_strings);
	put_numbers(&message, 1, NUMBERS(1, 2));
	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		put_numbers(&message, 4, NUMBERS(ids[i], 0, 100 + i));
		put_sample(&message, ids[i], i);
	}
	struct buffer twice = message;
	twice.data = exact_copy(buffer_bytes(&message));
	twice.capacity = twice.len;
	struct profile *profile = decode_message(&message);
	for (size_t i = 0; i < profile->sample_count; i++) {
		uint32_t location = profile->stacks[profile->samples[i].stack].location;
		assert_int_equal(profile->locations[location].address, 100 + i);
	}
	profile_free(profile);
	put_numbers(&twice, 4, NUMBERS(3, 0, 5));
	refuse_message(&twice, -EBADMSG, "several locations have the id 3");
}

static void test_header_rules(void **state)
{
	struct buffer message = small_message();
	assert_int_equal(pb_write_varint(&message, 9, 0), 0);
	assert_int_equal(pb_write_varint(&message, 9, 5), 0);
	assert_int_equal(pb_write_varint(&message, 9, 0), 0);
	assert_int_equal(pb_write_varint(&message, 9, 6), 0);
	refuse_message(&message, -EBADMSG, "concatenated profiles");

	message = small_message();
	for (uint32_t i = 0; i < LIMIT_SAMPLE_TYPES; i++)
		put_numbers(&message, 1, NUMBERS(1, 2));
	refuse_message(&message, -E2BIG, "sample types");

	buffer_init(&message, KIB);
	put_strings(&message, some_strings);
	put_sample(&message, 0, 5);
	refuse_message(&message, -EBADMSG, "refers to location 0");

	buffer_init(&message, KIB);
	refuse_message(&message, -EBADMSG, "empty");
	buffer_init(&message, KIB);
	put_strings(&message, some_strings);
	struct profile *profile = decode_message(&message);
	assert_int_equal(profile->sample_count, 0);
	profile_free(profile);
}

static struct buffer deep_message(size_t depth)
{
	struct buffer message = small_message();
	uint64_t ids[LIMIT_STACK_DEPTH + 1];
	size_t mark;
	for (size_t i = 0; i < depth; i++)
		ids[i] = 1;
	assert_int_equal(pb_begin(&message, 2, &mark), 0);
	assert_int_equal(pb_write_packed(&message, 1, ids, depth), 0);
	assert_int_equal(pb_write_varint(&message, 2, 1), 0);
	assert_int_equal(pb_end(&message, mark), 0);
	return message;
}

static void test_depth(void **state)
{
	struct buffer message = deep_message(LIMIT_STACK_DEPTH);
	struct profile *profile = decode_message(&message);
	assert_int_equal(profile_stack_depth(profile, profile->samples[0].stack), LIMIT_STACK_DEPTH);
	struct buffer out = encode_or_fail(&format_pprof, profile);
	profile_free(profile);
	profile = decode_message(&out);
	assert_int_equal(profile_stack_depth(profile, profile->samples[0].stack), LIMIT_STACK_DEPTH);
	profile_free(profile);
	message = deep_message(LIMIT_STACK_DEPTH + 1);
	refuse_message(&message, -E2BIG, "deeper than 16384 frames");
}

static struct buffer inlined_message(size_t lines)
{
	struct buffer message = small_message();
	size_t mark;
	assert_int_equal(pb_begin(&message, 4, &mark), 0);
	assert_int_equal(pb_write_varint(&message, 1, 2), 0);
	for (size_t i = 0; i < lines; i++)
		put_numbers(&message, 4, NUMBERS(1, i));
	assert_int_equal(pb_end(&message, mark), 0);
	return message;
}

/* Frames that are inlined at one address are bounded like those of a stack. */
static void test_inlined_depth(void **state)
{
	struct buffer message = inlined_message(LIMIT_STACK_DEPTH);
	struct profile *profile = decode_message(&message);
	assert_int_equal(profile->locations[2].line_count, LIMIT_STACK_DEPTH);
	profile_free(profile);
	message = inlined_message(LIMIT_STACK_DEPTH + 1);
	refuse_message(&message, -E2BIG, "Profile.location 1: more than 16384 lines");
}

/* ---- what pprof cannot say ---- */

static uint32_t add_text(struct profile *profile, const char *text)
{
	uint32_t id;
	assert_int_equal(profile_add_cstring(profile, text, &id, NULL), 0);
	return id;
}

static uint32_t add_frame(struct profile *profile, const char *name, enum profile_frame_type type)
{
	struct profile_function function = {.name = add_text(profile, name)};
	struct profile_line line = {0};
	struct profile_location location = {.frame_type = type};
	uint32_t id, stack;
	assert_int_equal(profile_add_function(profile, &function, &line.function, NULL), 0);
	assert_int_equal(profile_add_location(profile, &location, &line, 1, &id, NULL), 0);
	assert_int_equal(profile_add_stack(profile, 0, id, &stack, NULL), 0);
	return stack;
}

static uint32_t add_labels(struct profile *profile, const char *key, const char *value, const char *other)
{
	struct profile_label labels[2] = {{.key = add_text(profile, key), .value = add_text(profile, value)},
					  {.key = add_text(profile, other), .number = 7}};
	uint32_t set;
	assert_int_equal(profile_add_label_set(profile, labels, 2, &set, NULL), 0);
	return set;
}

static void test_encode_sums_and_labels(void **state)
{
	struct profile *profile;
	assert_int_equal(profile_new(&profile, NULL), 0);
	assert_int_equal(profile_add_sample_type(profile, add_text(profile, "cpu"), add_text(profile, "ns"), NULL), 0);
	struct profile_link link = {.trace_id = {1}};
	struct profile_sample sample = {.stack = add_frame(profile, "work", PROFILE_FRAME_KERNEL), .time_ns = 5};
	sample.labels = add_labels(profile, "host", "own", "tid");
	assert_int_equal(profile_add_sample(profile, &sample, (int64_t[]){3}, NULL), 0);
	sample.time_ns = 6;
	assert_int_equal(profile_add_link(profile, &link, &sample.link, NULL), 0);
	assert_int_equal(profile_add_sample(profile, &sample, (int64_t[]){4}, NULL), 0);
	/* Numbers are labels like others here, and keep samples apart. */
	const struct profile_label number = {
		.key = add_text(profile, "latency"), .number = 30, .unit = add_text(profile, "ms")};
	assert_int_equal(profile_add_label_set(profile, &number, 1, &sample.numbers, NULL), 0);
	assert_int_equal(profile_add_sample(profile, &sample, (int64_t[]){5}, NULL), 0);
	sample.link = 0;
	assert_int_equal(profile_add_sample(profile, &sample, (int64_t[]){6}, NULL), 0);
	profile->resource_labels = add_labels(profile, "host", "shared", "pid");
	struct buffer out = encode_or_fail(&format_pprof, profile);
	profile_free(profile);
	profile = decode_message(&out);
	char *text = dump_profile(profile);
	assert_string_equal(text,
			    "type cpu/ns\nperiod / 0 time 0 duration 0\nresource\ndrop  keep  default  doc \n"
			    " [t2 0x0 in [kernel.kallsyms]  0-0+0 work||:0 0:0] { host=own/0/ latency=/30/ms pid=/7/ tid=/7/ }"
			    " @000000000000000000000000000000000 11\n"
			    " [t2 0x0 in [kernel.kallsyms]  0-0+0 work||:0 0:0] { host=own/0/ pid=/7/ tid=/7/ }"
			    " @000000000000000000000000000000000 7\n");
	assert_int_equal(profile->mappings[1].flags, PROFILE_MAPPING_HAS_FUNCTIONS);
	free(text);
	profile_free(profile);
}

/* The functions of Python are known by their mapping; code of a binary of that name has addresses. */
static void test_python_frames(void **state)
{
	static const struct {
		const char *file;
		uint64_t address;
		enum profile_frame_type type;
	} cases[] = {{"python", 0, PROFILE_FRAME_INTERPRETED},
		     {"python", 0x10, PROFILE_FRAME_NATIVE},
		     {"/usr/bin/python", 0, PROFILE_FRAME_UNKNOWN}};
	struct profile *profile;
	assert_int_equal(profile_new(&profile, NULL), 0);
	assert_int_equal(profile_add_sample_type(profile, add_text(profile, "cpu"), add_text(profile, "ns"), NULL), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct profile_mapping mapping = {.file_name = add_text(profile, cases[i].file)};
		struct profile_location location = {.address = cases[i].address, .frame_type = cases[i].type};
		struct profile_function function = {.name = add_text(profile, "work")};
		struct profile_line line = {.line = 1};
		struct profile_sample sample = {0};
		uint32_t id;
		assert_int_equal(profile_add_mapping(profile, &mapping, &location.mapping, NULL), 0);
		assert_int_equal(profile_add_function(profile, &function, &line.function, NULL), 0);
		assert_int_equal(profile_add_location(profile, &location, &line, 1, &id, NULL), 0);
		assert_int_equal(profile_add_stack(profile, 0, id, &sample.stack, NULL), 0);
		assert_int_equal(profile_add_sample(profile, &sample, (int64_t[]){1}, NULL), 0);
	}
	struct buffer out = encode_or_fail(&format_pprof, profile);
	profile_free(profile);
	profile = decode_message(&out);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		uint32_t location = profile->stacks[profile->samples[i].stack].location;
		assert_int_equal(profile->locations[location].frame_type, cases[i].type);
	}
	profile_free(profile);
}

static void test_kernel_names(void **state)
{
	assert_true(format_is_kernel_file(bytes_of_string("[kernel.kallsyms]")));
	assert_true(format_is_kernel_file(bytes_of_string("[kernel.kallsyms]_text")));
	assert_true(format_is_kernel_file(bytes_of_string("[nf_tables]")));
	assert_false(format_is_kernel_file(bytes_of_string("[vdso]")));
	assert_false(format_is_kernel_file(bytes_of_string("[stack:12]")));
	assert_false(format_is_kernel_file(bytes_of_string("[perf-map]")));
	assert_false(format_is_kernel_file(bytes_of_string("[x")));
	assert_false(format_is_kernel_file(bytes_of_string("[]")));
	assert_false(format_is_kernel_file(bytes_of_string("/usr/bin/app")));
	assert_false(format_is_kernel_file(bytes_of_string("")));
}

/* ---- faults and damage ---- */

static void test_faults(void **state)
{
	struct buffer file = read_data("pprof/google-driver/sample.cpu");
	bool reached = true;
	for (uint64_t n = 1; reached; n++) {
		struct profile *profile = NULL;
		struct buffer out;
		struct error err = {0};
		buffer_init(&out, MIB);
		fault_arm(FAULT_ALLOC, n, 0);
		int r = format_decode(NULL, buffer_bytes(&file), NULL, &profile, &err);
		if (r == 0)
			r = format_encode(&format_pprof, profile, NULL, &out, &err);
		reached = fault_disarm(FAULT_ALLOC);
		assert_int_equal(r, reached ? -ENOMEM : 0);
		assert_int_equal(err.code, reached ? -ENOMEM : 0);
		if (r < 0)
			assert_int_equal(out.len, 0);
		profile_free(profile);
		buffer_release(&out);
	}
	buffer_release(&file);
}

static void test_encode_limit(void **state)
{
	struct buffer file = read_data("pprof/google-driver/sample.cpu");
	struct profile *profile = decode_or_fail(&format_pprof, buffer_bytes(&file), "sample.cpu");
	struct buffer whole = encode_or_fail(&format_pprof, profile);
	struct format_options options = {0};
	for (size_t max = 0; max < whole.len; max += 7) {
		struct buffer out;
		struct error err;
		buffer_init(&out, max);
		assert_int_equal(pprof_encode(profile, &options, &out, &err), -E2BIG);
		assert_int_equal(out.len, 0);
		buffer_release(&out);
	}
	buffer_release(&whole);
	buffer_release(&file);
	profile_free(profile);
}

static size_t survived;

static void try_pprof(struct bytes damaged)
{
	struct profile *profile = NULL;
	struct error err = {0};
	int r = pprof_decode(damaged, NULL, &profile, &err);
	assert_true(r == 0 || r == -EBADMSG || r == -E2BIG);
	if (r < 0) {
		assert_true(err.message[0] != '\0');
		return;
	}
	survived++;
	struct buffer out = encode_or_fail(&format_pprof, profile);
	struct profile *again = decode_or_fail(&format_pprof, buffer_bytes(&out), "encoded");
	for (size_t t = 0; t < profile->sample_type_count; t++)
		assert_true(profile_total(profile, t) == profile_total(again, t));
	buffer_release(&out);
	profile_free(again);
	profile_free(profile);
}

static void test_damage(void **state)
{
	struct buffer file = read_data("pprof/google-driver/sample.cpu");
	struct buffer plain;
	buffer_init(&plain, MIB);
	assert_int_equal(gzip_decompress(buffer_bytes(&file), &plain, NULL), 0);
	survived = 0;
	try_damaged(buffer_bytes(&plain), 4000, try_pprof);
	/* The test is worth something only if both happen. */
	assert_in_range(survived, 200, 3800);
	buffer_release(&plain);
	buffer_release(&file);
}

/* Adds a sample at a place in a mapping, of a process with that executable ("" = it is not known). */
static void add_at(struct profile *profile, uint32_t mapping, uint64_t address, const char *executable, int64_t value)
{
	struct profile_location location = {.mapping = mapping, .address = address};
	struct profile_sample sample = {0};
	struct profile_label label = {0};
	uint32_t id;
	assert_int_equal(profile_add_location(profile, &location, NULL, 0, &id, NULL), 0);
	assert_int_equal(profile_add_stack(profile, 0, id, &sample.stack, NULL), 0);
	assert_int_equal(profile_add_cstring(profile, "process.executable.path", &label.key, NULL), 0);
	assert_int_equal(profile_add_cstring(profile, executable, &label.value, NULL), 0);
	assert_int_equal(profile_add_label_set(profile, &label, label.value ? 1 : 0, &sample.labels, NULL), 0);
	assert_int_equal(profile_add_sample(profile, &sample, &value, NULL), 0);
}

/* The name of the first mapping, as readers see it. */
static void check_program(const char *const *files, const char *const *executables, const int64_t *values, const char *expected)
{
	struct profile *profile, *read;
	struct buffer out;
	uint32_t id;
	assert_int_equal(profile_new(&profile, NULL), 0);
	assert_int_equal(profile_add_named_type(profile, "cpu", "nanoseconds", NULL), 0);
	for (size_t i = 0; files[i]; i++) {
		struct profile_mapping mapping = {.start = (i + 1) << 20, .limit = (i + 2) << 20};
		assert_int_equal(profile_add_cstring(profile, files[i], &mapping.file_name, NULL), 0);
		assert_int_equal(profile_add_mapping(profile, &mapping, &id, NULL), 0);
		add_at(profile, id, mapping.start + 16, executables[i], values[i]);
	}
	buffer_init(&out, MIB);
	assert_int_equal(pprof_encode(profile, &(struct format_options){.compress = false}, &out, NULL), 0);
	assert_int_equal(decode(buffer_bytes(&out), &read, NULL), 0);
	assert_string_equal(profile_string(read, read->mappings[1].file_name), expected);
	/* The samples are where they were. */
	assert_int_equal(read->sample_count, profile->sample_count);
	assert_int_equal(read->mapping_count, profile->mapping_count);
	buffer_release(&out);
	profile_free(read);
	profile_free(profile);
}

static void test_the_program_comes_first(void **state)
{
	static const char *const files[] = {"[kernel.kallsyms]", "/usr/lib/libc.so.6", "/bin/app", "/bin/other", NULL};
	static const char *const of_app[] = {"/bin/app", "/bin/app", "/bin/app", "/bin/other"};
	static const char *const unknown[] = {"", "", "", ""};
	check_program(files, of_app, (const int64_t[]){5, 5, 5, 12}, "/bin/app");
	check_program(files, of_app, (const int64_t[]){5, 5, 5, 50}, "/bin/other");
	check_program(files, unknown, (const int64_t[]){5, 5, 5, 50}, "/bin/app");
	/* What a source put first stays: Go's runtime, or another profiler. */
	static const char *const library_first[] = {"/opt/plugin.so", "/bin/app", "[kernel.kallsyms]", NULL};
	check_program(library_first, unknown, (const int64_t[]){1, 9, 9}, "/opt/plugin.so");
	static const char *const kernel_only[] = {"[kernel.kallsyms]", "/usr/lib/libx.so.1.2", NULL};
	check_program(kernel_only, unknown, (const int64_t[]){1, 9}, "[kernel.kallsyms]");
}

struct collected {
	struct buffer bytes;
	unsigned pieces, pieces_max; /* the piece after so many is refused */
};

static int collect(void *context, struct bytes bytes, struct error *err)
{
	struct collected *to = context;
	if (to->pieces++ == to->pieces_max)
		return error_set(err, -ECANCELED, "enough");
	return buffer_append(&to->bytes, bytes.data, bytes.len);
}

/* Different stacks, each with a number of its own, so that they do not compress well. */
static struct profile *make_large(size_t count)
{
	_cleanup_(buffer_release) struct buffer text = {.max = GIB};
	struct profile *profile;
	uint64_t x = 1;
	for (size_t i = 0; i < count; i++) {
		buffer_append_string(&text, "main");
		for (int k = 0; k < 20; k++) {
			x = x * 6364136223846793005u + 1442695040888963407u;
			buffer_printf(&text, ";f%llu", (unsigned long long)(x >> 33) % 20000);
		}
		buffer_printf(&text, " %llu\n", (unsigned long long)(x >> 20) % 1000000 + 1);
	}
	assert_int_equal(folded_decode(buffer_bytes(&text), NULL, &profile, NULL), 0);
	return profile;
}

/* What a sink gets, bit by bit, is what is encoded as a whole; and a sink may refuse to go on. */
static void test_written_in_pieces(void **state)
{
	_cleanup_(buffer_release) struct buffer whole = {.max = GIB}, out = {.max = GIB}, plain = {.max = GIB};
	_cleanup_(profile_freep) struct profile *profile = make_large(100000);
	struct collected got = {.bytes.max = GIB, .pieces_max = UINT32_MAX};
	struct format_sink sink = {.out = &out, .flush = collect, .context = &got};
	struct error err = {0};
	assert_int_equal(pprof_encode(profile, &(struct format_options){.compress = false}, &whole, NULL), 0);
	assert_int_equal(pprof_write(profile, &sink, &err), 0);
	assert_true(got.pieces > 1);
	buffer_append(&got.bytes, out.data, out.len);
	assert_int_equal(gzip_decompress(buffer_bytes(&got.bytes), &plain, NULL), 0);
	assert_true(bytes_equal(buffer_bytes(&plain), buffer_bytes(&whole)));
	for (unsigned most = 0; most < 3; most++) {
		got.pieces = 0;
		got.pieces_max = most;
		buffer_clear(&out);
		assert_int_equal(pprof_write(profile, &sink, &err), -ECANCELED);
		assert_string_equal(err.message, "enough");
	}
	/* Folded stacks */
	got.pieces = 0;
	got.pieces_max = UINT32_MAX;
	buffer_clear(&got.bytes);
	buffer_clear(&out);
	buffer_clear(&whole);
	assert_int_equal(folded_encode(profile, NULL, &whole, NULL), 0);
	assert_int_equal(folded_write(profile, NULL, &sink, &err), 0);
	assert_true(got.pieces > 1);
	buffer_append(&got.bytes, out.data, out.len);
	assert_true(bytes_equal(buffer_bytes(&got.bytes), buffer_bytes(&whole)));
	got.pieces = 0;
	got.pieces_max = 1;
	assert_int_equal(folded_write(profile, NULL, &sink, &err), -ECANCELED);
	buffer_release(&got.bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_written_in_pieces),
		cmocka_unit_test(test_verdicts),
		cmocka_unit_test(test_the_program_comes_first),
		cmocka_unit_test(test_totals_agree_with_go),
		cmocka_unit_test(test_encoded_reads_the_same_in_go),
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_labels),
		cmocka_unit_test(test_references),
		cmocka_unit_test(test_functions_without_ids),
		cmocka_unit_test(test_sparse_ids),
		cmocka_unit_test(test_header_rules),
		cmocka_unit_test(test_depth),
		cmocka_unit_test(test_inlined_depth),
		cmocka_unit_test(test_encode_sums_and_labels),
		cmocka_unit_test(test_python_frames),
		cmocka_unit_test(test_kernel_names),
		cmocka_unit_test(test_faults),
		cmocka_unit_test(test_encode_limit),
		cmocka_unit_test(test_damage),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
