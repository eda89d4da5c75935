/* SPDX-License-Identifier: Apache-2.0 */
#include <time.h>

#include "elf/file_ids.h"
#include "format/test_format.h"

#include "base/fault.h"
#include "base/time.h"
#include "codec/protobuf.h"
#include "format/otlp/otlp.h"
#include "format/otlp/test_otlp.h"
#include "profile/type.h"

/* ---- helpers ---- */

static int decode(struct bytes input, struct otlp_request *ret, struct error *err)
{
	uint8_t *copy = exact_copy(input);
	*ret = (struct otlp_request){0};
	int r = otlp_decode((struct bytes){copy, input.len}, NULL, ret, err);
	free(copy);
	if (r < 0)
		assert_int_equal(ret->count, 0);
	return r;
}

static struct otlp_request decode_request(struct bytes input)
{
	struct otlp_request request;
	struct error err = {0};
	if (decode(input, &request, &err) < 0)
		fail_msg("%s", err.message);
	return request;
}

static struct buffer encode_request(const struct otlp_request *request)
{
	struct buffer out;
	struct error err = {0};
	buffer_init(&out, 64 * MIB);
	if (otlp_encode((const struct profile *const *)request->profiles, request->count, &out, &err) < 0)
		fail_msg("%s", err.message);
	return out;
}

static uint32_t add_text(struct profile *profile, const char *text)
{
	uint32_t id;
	assert_int_equal(profile_add_cstring(profile, text, &id, NULL), 0);
	return id;
}

/* ---- verdicts ---- */

static void check_verdict(const char *path, const char *name, const char *verdict)
{
	struct buffer file = read_data(path);
	struct otlp_request request;
	struct error err = {0};
	int r = decode(buffer_bytes(&file), &request, &err);
	/* The zero value spelled out is not conformant, but nothing else. */
	if (strcmp(name, "x_link0_zero_bytes_16_8.otlp") == 0) {
		assert_int_equal(request.odd_tables, 1u << 4);
		assert_int_equal(request.filled_tables, 0);
		verdict = "0";
	}
	if ((r == 0) != (strcmp(verdict, "0") == 0))
		fail_msg("%s: the verdict is %s, we say %d %s", name, verdict, r, err.message);
	if (r < 0 && (r != -EBADMSG || err.message[0] == '\0'))
		fail_msg("%d: %s", r, err.message);
	if (r == 0) {
		assert_int_equal(request.count, 1);
		assert_true(request.profiles[0]->sample_count > 0);
		assert_string_equal(
			profile_label_value(request.profiles[0], request.profiles[0]->resource_labels, "service.name"), "svc");
	}
	otlp_request_release(&request);
	buffer_release(&file);
}

static void test_verdicts(void **state)
{
	for_each_verdict("otlp/malformed", check_verdict);
}

/* ---- real files of the 1.9 layout ---- */

static void test_old_layout(void **state)
{
	struct buffer file = read_data("otlp/profile.otlp");
	struct otlp_request request = decode_request(buffer_bytes(&file));
	size_t samples = 0, native = 0, jit = 0, with_build_id = 0;
	assert_int_equal(request.count, 4);
	for (size_t i = 0; i < request.count; i++) {
		const struct profile *profile = request.profiles[i];
		assert_string_equal(profile_string(profile, profile->sample_types[0].type), "samples");
		assert_string_equal(profile_string(profile, profile->sample_types[0].unit), "count");
		assert_int_equal(profile->period, 50000000);
		assert_int_equal(profile->time_ns / (1000 * NS_PER_S), 1761887);
		for (size_t s = 0; s < profile->sample_count; s++) {
			const struct profile_sample *sample = &profile->samples[s];
			assert_int_equal(sample->time_ns / (100 * NS_PER_S), 17618873);
			assert_int_equal(profile->values[s], 1);
			assert_non_null(profile_label_value(profile, sample->labels, "thread.name"));
			assert_non_null(profile_label_value(profile, sample->labels, "process.executable.path"));
		}
		for (size_t l = 1; l < profile->location_count; l++) {
			native += profile->locations[l].frame_type == PROFILE_FRAME_NATIVE;
			jit += profile->locations[l].frame_type == PROFILE_FRAME_JIT;
		}
		for (size_t m = 1; m < profile->mapping_count; m++)
			with_build_id += profile->mappings[m].build_id != 0;
		samples += profile->sample_count;
	}
	assert_int_equal(samples, 189);
	assert_true(native > 100);
	assert_true(jit > 10);
	assert_true(with_build_id > 5);
	otlp_request_release(&request);
	buffer_release(&file);
}

/* Two requests, each behind its length. */
static void test_framed_file(void **state)
{
	struct buffer file = read_data("otlp/k8s.otlp");
	assert_ptr_equal(format_detect(buffer_bytes(&file)), &format_otlp);
	struct profile *profile = decode_or_fail(NULL, buffer_bytes(&file), "k8s.otlp");
	assert_int_equal(profile->sample_count, 165);
	assert_int_equal(profile_total(profile, 0), 165);
	size_t kernel = 0;
	for (size_t l = 1; l < profile->location_count; l++)
		kernel += profile->locations[l].frame_type == PROFILE_FRAME_KERNEL;
	assert_true(kernel > 100);
	/* The label is in the samples since the resources differ. */
	assert_null(profile_label_value(profile, profile->resource_labels, "container.id"));
	struct profile *cut = NULL;
	struct error err = {0};
	file.len -= 10;
	assert_int_equal(format_decode(&format_otlp, buffer_bytes(&file), NULL, &cut, &err), -EBADMSG);
	assert_non_null(strstr(err.message, "the message at byte 42624 is longer than the file"));
	profile_free(profile);
	buffer_release(&file);
}

/* ---- round trips ---- */

static void check_round_trip(const struct otlp_request *first)
{
	struct buffer out = encode_request(first);
	struct otlp_request second = decode_request(buffer_bytes(&out));
	assert_int_equal(second.count, first->count);
	for (size_t i = 0; i < first->count; i++)
		assert_profiles_equal(first->profiles[i], second.profiles[i]);
	struct buffer again = encode_request(&second);
	assert_true(bytes_equal(buffer_bytes(&out), buffer_bytes(&again)));
	buffer_release(&again);
	otlp_request_release(&second);
	buffer_release(&out);
}

static void test_round_trip_files(void **state)
{
	static const char *const files[] = {"otlp/profile.otlp", "otlp/malformed/ok_minimal.otlp",
					    "otlp/malformed/ok_dictionary_first.otlp",
					    "otlp/malformed/ok_timestamps_only.otlp"};
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		struct buffer file = read_data(files[i]);
		struct otlp_request request = decode_request(buffer_bytes(&file));
		check_round_trip(&request);
		otlp_request_release(&request);
		buffer_release(&file);
	}
}

/* A frame of each type, in a mapping, with two lines. */
static uint32_t add_stack(struct profile *profile)
{
	struct profile_mapping mapping = {0x1000, 0x9000, 0x200, add_text(profile, "/bin/x"), add_text(profile, "0123abcd"), 0};
	struct profile_function functions[2] = {
		{.name = add_text(profile, "inner"), .system_name = add_text(profile, "_inner")},
		{.name = add_text(profile, "outer"), .file_name = add_text(profile, "a.c"), .start_line = 3}};
	struct profile_line lines[2] = {{.line = 7, .column = 9}, {.line = -1}};
	struct profile_location location = {.address = 0x1234};
	uint32_t stack = 0;
	assert_int_equal(profile_add_mapping(profile, &mapping, &location.mapping, NULL), 0);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(profile_add_function(profile, &functions[i], &lines[i].function, NULL), 0);
	for (uint32_t type = PROFILE_FRAME_UNKNOWN; type <= PROFILE_FRAME_INTERPRETED; type++) {
		uint32_t id;
		location.frame_type = type;
		location.address++;
		assert_int_equal(profile_add_location(profile, &location, lines, type % 3, &id, NULL), 0);
		assert_int_equal(profile_add_stack(profile, stack, id, &stack, NULL), 0);
	}
	return stack;
}

static uint32_t add_labels(struct profile *profile, const struct profile_label *labels, size_t count)
{
	uint32_t set;
	assert_int_equal(profile_add_label_set(profile, labels, count, &set, NULL), 0);
	return set;
}

static struct profile *rich_profile(size_t types)
{
	struct profile *profile;
	assert_int_equal(profile_new(&profile, NULL), 0);
	for (size_t i = 0; i < types; i++)
		assert_int_equal(profile_add_sample_type(profile, add_text(profile, i ? "space" : "cpu"),
							 add_text(profile, i ? "bytes" : "nanoseconds"), NULL),
				 0);
	profile->period_type = (struct profile_value_type){add_text(profile, "cpu"), add_text(profile, "nanoseconds")};
	profile->period = 10000000;
	profile->time_ns = 1700000000000000000;
	profile->duration_ns = 10 * NS_PER_S;
	uint32_t key = add_text(profile, "key");
	struct profile_label labels[] = {
		{.key = key, .value = add_text(profile, "one")},
		{.key = key, .value = add_text(profile, "two")},
		{.key = add_text(profile, "number"), .number = -5},
		{.key = add_text(profile, "size"), .number = 5, .unit = add_text(profile, "bytes")},
	};
	profile->resource_labels = add_labels(profile, labels + 2, 1);
	struct profile_link link = {.trace_id = {1, 2}, .span_id = {3}};
	struct profile_sample sample = {.stack = add_stack(profile), .labels = add_labels(profile, labels, 4)};
	assert_int_equal(profile_add_link(profile, &link, &sample.link, NULL), 0);
	for (int64_t i = 0; i < 4; i++) {
		int64_t values[2] = {10 + i, 1};
		sample.time_ns = i < 2 ? 0 : profile->time_ns + i;
		sample.stack = i == 1 ? 0 : add_stack(profile);
		assert_int_equal(profile_add_sample(profile, &sample, values, NULL), 0);
	}
	return profile;
}

/* Samples with and without a time become two profiles; two types four. */
static void test_shapes_and_types(void **state)
{
	for (size_t types = 1; types <= 2; types++) {
		struct profile *profile = rich_profile(types);
		struct otlp_request one = {.profiles = &profile, .count = 1};
		struct buffer out = encode_request(&one);
		struct otlp_request request = decode_request(buffer_bytes(&out));
		assert_int_equal(request.count, 2 * types);
		for (size_t i = 0; i < request.count; i++) {
			assert_int_equal(request.profiles[i]->sample_count, 2);
			assert_true((request.profiles[i]->samples[0].time_ns != 0) == (i % 2 == 0));
		}
		check_round_trip(&request);
		/* As a file they are one profile again. */
		struct profile *joined = decode_or_fail(NULL, buffer_bytes(&out), "joined");
		assert_profiles_equal(joined, profile);
		profile_free(joined);
		otlp_request_release(&request);
		buffer_release(&out);
		profile_free(profile);
	}
}

/* CPU samples and off-CPU time of one capture, as OpenTelemetry's profiler sends them: the latter has no period. */
static struct profile *capture_profile(const char *type, const char *unit, const char *period, int64_t value)
{
	struct profile *profile;
	struct profile_sample sample = {0};
	assert_int_equal(profile_new(&profile, NULL), 0);
	assert_int_equal(profile_add_named_type(profile, type, unit, NULL), 0);
	if (period) {
		profile->period_type = (struct profile_value_type){add_text(profile, period), add_text(profile, "nanoseconds")};
		profile->period = 52631578;
	}
	profile->time_ns = NS_PER_S;
	sample.stack = add_stack(profile);
	assert_int_equal(profile_add_sample(profile, &sample, &value, NULL), 0);
	return profile;
}

static void check_joined(const char *second_type, const char *second_unit, const char *second_period, size_t columns,
			 const char *notes_wanted)
{
	for (unsigned swapped = 0; swapped < 2; swapped++) {
		struct profile *both[] = {capture_profile("samples", "count", "cpu", 7),
					  capture_profile(second_type, second_unit, second_period, 1234)};
		struct otlp_request request = {.profiles = (struct profile *[]){both[swapped], both[!swapped]}, .count = 2};
		struct buffer message = encode_request(&request), notes;
		struct profile *joined = NULL;
		buffer_init(&notes, KIB);
		struct format_options options = {.notes = &notes};
		struct error err = {0};
		if (format_decode(NULL, buffer_bytes(&message), &options, &joined, &err) < 0)
			fail_msg("%s", err.message);
		assert_int_equal(joined->sample_type_count, columns);
		int64_t total = profile_total(joined, 0) + (columns > 1 ? profile_total(joined, 1) : 0);
		assert_int_equal(total, 7 + 1234);
		const char *period = profile_string(joined, joined->period_type.type);
		assert_string_equal(period, swapped && second_period ? second_period : "cpu");
		assert_int_equal(joined->period, 52631578);
		assert_string_equal(buffer_string(&notes), notes_wanted);
		profile_free(joined);
		profile_free(both[0]);
		profile_free(both[1]);
		buffer_release(&message);
		buffer_release(&notes);
	}
}

static void test_joined_periods(void **state)
{
	check_joined("off_cpu", "nanoseconds", NULL, 2, "");
	check_joined("samples", "count", NULL, 1, "");
	check_joined("events", "count", "wall", 2, "1 profiles: period, of another type than that of the first\n");
}

/* Values that say nothing beyond the timestamps are left out. */
/* A file's hash is not sent as a GNU build-id, though it looks like one. */
static void test_hashes_are_no_build_ids(void **state)
{
	static const char id[] = "12e32a79d20f44f2d52d4da67c6d43e2", go[] = "gWOsjSNTLkKSCGJkxDFD/jVkX-3mVQQkKNcAK1Yvk";
	char go_id[BUILD_ID_HEX_MAX];
	assert_true(file_id_of_go(bytes_of_string(go), go_id));
	for (unsigned is_hash = 0; is_hash < 2; is_hash++) {
		struct profile *profile = rich_profile(1);
		struct profile_mapping mapping = {.start = 1ull << 40, .limit = (1ull << 40) + 4096};
		struct profile_location location = {.address = (1ull << 40) + 16};
		struct profile_sample sample = {0};
		int64_t value = 5;
		mapping.file_name = add_text(profile, "/bin/nameless");
		mapping.build_id = add_text(profile, id);
		mapping.flags = is_hash ? PROFILE_MAPPING_ID_IS_HASH : 0;
		/* The Go build-id is sent beside a hash, as text, and beside nothing else. */
		mapping.go_id = add_text(profile, go_id);
		uint32_t place;
		assert_int_equal(profile_add_mapping(profile, &mapping, &location.mapping, NULL), 0);
		assert_int_equal(profile_add_location(profile, &location, NULL, 0, &place, NULL), 0);
		assert_int_equal(profile_add_stack(profile, 0, place, &sample.stack, NULL), 0);
		assert_int_equal(profile_add_sample(profile, &sample, &value, NULL), 0);
		struct otlp_request sent = {.profiles = &profile, .count = 1};
		struct buffer out = encode_request(&sent);
		assert_int_equal(memmem(out.data, out.len, "build_id.htlhash", 16) != NULL, is_hash);
		assert_int_equal(memmem(out.data, out.len, go, strlen(go)) != NULL, is_hash);
		struct otlp_request got = decode_request(buffer_bytes(&out));
		bool found = false;
		for (size_t p = 0; p < got.count; p++) {
			const struct profile *one = got.profiles[p];
			for (size_t i = 1; i < one->mapping_count; i++) {
				if (strcmp(profile_string(one, one->mappings[i].build_id), id) != 0)
					continue;
				found = true;
				assert_int_equal(one->mappings[i].flags, mapping.flags);
				assert_string_equal(profile_string(one, one->mappings[i].go_id), is_hash ? go_id : "");
			}
		}
		assert_true(found);
		otlp_request_release(&got);
		buffer_release(&out);
		profile_free(profile);
	}
}

/* What is in a profile as hex is sent as the text that it was. */
static void test_a_go_build_id(void **state)
{
	static const char text[] = "gWOsjSNTLkKSCGJkxDFD/jVkX-3mVQQkKNcAK1Yvk";
	char id[BUILD_ID_HEX_MAX];
	assert_true(file_id_of_go(bytes_of_string(text), id));
	struct profile *profile = rich_profile(1);
	struct profile_mapping mapping = {.start = 1ull << 40, .limit = (1ull << 40) + 4096, .flags = PROFILE_MAPPING_ID_IS_GO};
	struct profile_location location = {.address = (1ull << 40) + 16};
	struct profile_sample sample = {0};
	int64_t value = 5;
	uint32_t place;
	mapping.build_id = add_text(profile, id);
	assert_int_equal(profile_add_mapping(profile, &mapping, &location.mapping, NULL), 0);
	assert_int_equal(profile_add_location(profile, &location, NULL, 0, &place, NULL), 0);
	assert_int_equal(profile_add_stack(profile, 0, place, &sample.stack, NULL), 0);
	assert_int_equal(profile_add_sample(profile, &sample, &value, NULL), 0);
	struct otlp_request sent = {.profiles = &profile, .count = 1};
	struct buffer out = encode_request(&sent);
	assert_non_null(memmem(out.data, out.len, text, sizeof(text) - 1));
	struct otlp_request got = decode_request(buffer_bytes(&out));
	unsigned found = 0;
	for (size_t p = 0; p < got.count; p++) {
		const struct profile *one = got.profiles[p];
		for (size_t i = 1; i < one->mapping_count; i++)
			found += strcmp(profile_string(one, one->mappings[i].build_id), id) == 0 &&
				 one->mappings[i].flags == PROFILE_MAPPING_ID_IS_GO;
	}
	assert_true(found > 0);
	otlp_request_release(&got);
	buffer_release(&out);
	profile_free(profile);
}

static void test_timestamps_only(void **state)
{
	struct profile *profile = rich_profile(1);
	for (size_t i = 0; i < profile->sample_count; i++) {
		profile->values[i] = 1;
		profile->samples[i].time_ns = 100 + (int64_t)i;
	}
	struct otlp_request one = {.profiles = &profile, .count = 1};
	struct buffer ones = encode_request(&one);
	profile->values[0] = 2;
	struct buffer values = encode_request(&one);
	assert_true(values.len > ones.len);
	profile->values[0] = 1;
	struct otlp_request request = decode_request(buffer_bytes(&ones));
	assert_profiles_equal(request.profiles[0], profile);
	otlp_request_release(&request);
	buffer_release(&ones);
	buffer_release(&values);
	profile_free(profile);
}

static void test_several_profiles_share_the_dictionary(void **state)
{
	struct profile *profiles[3];
	for (size_t i = 0; i < 3; i++) {
		profiles[i] = rich_profile(1);
		for (size_t s = 0; s < profiles[i]->sample_count; s++)
			profiles[i]->samples[s].time_ns = 1;
	}
	struct otlp_request request = {.profiles = profiles, .count = 1};
	struct buffer one = encode_request(&request);
	request.count = 3;
	struct buffer three = encode_request(&request);
	assert_true(three.len < 2 * one.len);
	check_round_trip(&request);
	for (size_t i = 0; i < 3; i++)
		profile_free(profiles[i]);
	buffer_release(&one);
	buffer_release(&three);
}

static struct profile *stats_profile(int64_t time_ns, const char *host)
{
	static const int64_t rows[3][PROCESS_STATS_COLUMNS] = {
		{1, 2, 0, 4, 0, 0, 0, 0, 9}, {0, 0, 0, 0, 0, 0, 7, 0, 0}, {5, INT64_MAX, 1, 0, 0, 0, 0, -1, 2}};
	struct profile *profile;
	assert_int_equal(profile_new(&profile, NULL), 0);
	for (size_t i = 0; i < PROCESS_STATS_COLUMNS; i++)
		profile_add_sample_type(profile, add_text(profile, process_stats_columns[i].sample_type),
					add_text(profile, process_stats_columns[i].unit), NULL);
	profile->period_type.type = add_text(profile, PROCESS_STATS_NAME);
	profile->time_ns = time_ns;
	profile->duration_ns = 10;
	struct profile_label label = {.key = add_text(profile, "host.name"), .value = add_text(profile, host)};
	profile->resource_labels = add_labels(profile, &label, 1);
	for (size_t i = 0; i < 3; i++) {
		label = (struct profile_label){.key = add_text(profile, "process.pid"), .number = 100 + (int64_t)i};
		struct profile_sample sample = {.time_ns = time_ns + 10, .labels = add_labels(profile, &label, 1)};
		assert_int_equal(profile_add_sample(profile, &sample, rows[i], NULL), 0);
	}
	return profile;
}

/* Rows go out as a profile a column, and come back as they were; other hosts and windows stay apart. */
static void test_process_stats(void **state)
{
	struct profile *sent[] = {stats_profile(1000, "a"), stats_profile(1000, "b"), rich_profile(1),
				  stats_profile(1010, "b")};
	struct buffer out;
	struct otlp_request request;
	struct profile_type type;
	buffer_init(&out, SIZE_MAX);
	assert_int_equal(otlp_encode((const struct profile *const *)sent, 4, &out, NULL), 0);
	request = decode_request(buffer_bytes(&out));
	size_t found = 0;
	for (size_t i = 0; i < request.count; i++) {
		const struct profile *profile = request.profiles[i];
		profile_type_of(profile, 0, NULL, &type);
		if (!profile_type_is_process_stats(&type))
			continue;
		const struct profile *want = sent[found == 2 ? 3 : found];
		found++;
		assert_int_equal(profile->sample_type_count, PROCESS_STATS_COLUMNS);
		assert_int_equal(profile->time_ns, want->time_ns);
		assert_int_equal(profile->duration_ns, 10);
		assert_string_equal(profile_label_value(profile, profile->resource_labels, "host.name"),
				    profile_label_value(want, want->resource_labels, "host.name"));
		assert_int_equal(profile->sample_count, 3);
		for (size_t row = 0; row < 3; row++) {
			int64_t pid = profile->labels[profile->label_sets[profile->samples[row].labels].first].number - 100;
			assert_in_range(pid, 0, 2);
			assert_int_equal(profile->samples[row].time_ns, want->time_ns + 10);
			for (size_t t = 0; t < profile->sample_type_count; t++) {
				profile_type_of(profile, t, NULL, &type);
				size_t column = process_stats_column_of(type.sample_type, type.sample_unit);
				assert_int_equal(profile->values[row * profile->sample_type_count + t],
						 want->values[(size_t)pid * PROCESS_STATS_COLUMNS + column]);
			}
		}
	}
	assert_int_equal(found, 3);
	/* And no memory, anywhere. */
	bool reached = true;
	for (uint64_t n = 1; reached; n++) {
		struct otlp_request again = {0};
		fault_arm(FAULT_ALLOC, n, 0);
		int r = otlp_decode(buffer_bytes(&out), NULL, &again, NULL);
		reached = fault_disarm(FAULT_ALLOC);
		assert_int_equal(r, reached ? -ENOMEM : 0);
		assert_int_equal(again.count, reached ? 0 : request.count);
		otlp_request_release(&again);
	}
	otlp_request_release(&request);
	for (size_t i = 0; i < 4; i++)
		profile_free(sent[i]);
	buffer_release(&out);
}

static void test_text_is_repaired(void **state)
{
	struct profile *profile;
	assert_int_equal(profile_new(&profile, NULL), 0);
	assert_int_equal(profile_add_sample_type(profile, add_text(profile, "bad\xff"), 0, NULL), 0);
	struct profile_label labels[] = {{.key = add_text(profile, "k\xff"), .value = add_text(profile, "a\x80")},
					 {.key = add_text(profile, "k\xfe"), .value = add_text(profile, "b")}};
	struct profile_sample sample = {.labels = add_labels(profile, labels, 2)};
	assert_int_equal(profile_add_sample(profile, &sample, (int64_t[]){1}, NULL), 0);
	struct otlp_request one = {.profiles = &profile, .count = 1};
	struct buffer out = encode_request(&one);
	struct otlp_request request = decode_request(buffer_bytes(&out));
	assert_string_equal(profile_string(request.profiles[0], request.profiles[0]->sample_types[0].type), "bad\xef\xbf\xbd");
	/* The two keys have become one, with both values. */
	struct buffer text;
	buffer_init(&text, KIB);
	dump_labels(request.profiles[0], request.profiles[0]->samples[0].labels, &text);
	assert_string_equal(buffer_string(&text), " k\xef\xbf\xbd=b/0/ k\xef\xbf\xbd=a\xef\xbf\xbd/0/");
	buffer_release(&text);
	otlp_request_release(&request);
	buffer_release(&out);
	profile_free(profile);
}

/* ---- an independent reader ---- */

static void test_protoc_reads_it(void **state)
{
	need_program("protoc");
	struct profile *profile = rich_profile(2);
	struct otlp_request one = {.profiles = &profile, .count = 1};
	struct buffer out = encode_request(&one);
	char path[] = "/tmp/wick-otlp-test-XXXXXX", command[128];
	int fd = mkstemp(path);
	assert_int_equal(io_write(fd, out.data, out.len, path, NULL), 0);
	close(fd);
	snprintf(command, sizeof(command), "protoc --decode_raw <%s", path);
	char *text = output_of(command);
	unlink(path);
	assert_non_null(text);
	/* The dictionary's tables start with empty entries. */
	static const char *const starts[] = {"\n  1: \"\"\n", "\n  2: \"\"\n", "\n  3: \"\"\n", "\n  4: \"\"\n",
					     "\n  5: \"\"\n", "\n  6: \"\"\n", "\n  7: \"\"\n"};
	const char *dictionary = strstr(text, "\n2 {");
	assert_non_null(dictionary);
	for (size_t i = 0; i < 7; i++)
		if (!strstr(dictionary, starts[i]))
			fail_msg("table %zu does not start with the zero value", i + 1);
	free(text);
	buffer_release(&out);
	profile_free(profile);
}

/* ---- entry 0 ---- */

struct field {
	uint32_t number;
	uint64_t value;
};

/* Appends a message of varints; those with the number 0 are not there. */
static void put_fields(struct buffer *out, uint32_t field, const struct field *fields, size_t count)
{
	size_t message = begin(out, field);
	for (size_t i = 0; i < count; i++)
		if (fields[i].number)
			assert_int_equal(pb_write_varint(out, fields[i].number, fields[i].value), 0);
	end(out, message);
}
#define PUT(out, number, ...)                                                                                                  \
	put_fields(out, number, (const struct field[]){__VA_ARGS__},                                                           \
		   sizeof((const struct field[]){__VA_ARGS__}) / sizeof(struct field))
#define ZERO                                                                                                                   \
	{                                                                                                                      \
		0, 0                                                                                                           \
	}

static void put_location(struct buffer *out, uint64_t address, uint64_t function)
{
	size_t location = begin(out, 2);
	assert_int_equal(pb_write_varint(out, 2, address), 0);
	PUT(out, 3, {1, function});
	end(out, location);
}

/* Request, resource and scope, with one profile of type "cpu" (string 1) whose samples are of these stacks, with the value 1.
 */
static void put_profile(struct buffer *out, const uint64_t *stacks, size_t count, uint32_t attributes)
{
	size_t resource_profiles = begin(out, 1), scope = begin(out, 2), profile = begin(out, 2);
	PUT(out, 1, {1, 1}, {2, 2});
	for (size_t i = 0; i < count; i++)
		PUT(out, 2, {1, stacks[i]}, {attributes, 0}, {4, 1});
	/* Field 8 as a number: the layout since 1.10. */
	assert_int_equal(pb_write_varint(out, 8, 0), 0);
	end(out, profile);
	end(out, scope);
	end(out, resource_profiles);
}

static void put_strings(struct buffer *out, const char *const *strings, size_t count)
{
	for (size_t i = 0; i < count; i++)
		assert_int_equal(pb_write_string(out, 5, strings[i]), 0);
}

/* "leaf;caller" of a sample. */
static void check_stack(const struct profile *profile, size_t sample, const char *expected)
{
	uint32_t locations[8];
	struct buffer text = {.max = KIB};
	size_t depth = profile_stack_locations(profile, profile->samples[sample].stack, locations, 8);
	for (size_t i = 0; i < depth; i++) {
		const struct profile_location *location = &profile->locations[locations[i]];
		assert_int_equal(location->line_count, 1);
		uint32_t function = profile->lines[location->line_first].function;
		buffer_printf(&text, "%s%s", i ? ";" : "", profile_string(profile, profile->functions[function].name));
	}
	assert_string_equal(buffer_string(&text), expected);
	buffer_release(&text);
}

/* Pyroscope's canary: the first location is in entry 0, and stacks have it. */
static void test_location_0(void **state)
{
	struct buffer out;
	buffer_init(&out, 64 * KIB);
	put_profile(&out, (const uint64_t[]){1, 2}, 2, 0);
	size_t dictionary = begin(&out, 2);
	PUT(&out, 1, ZERO);
	PUT(&out, 3, ZERO);
	PUT(&out, 3, {1, 3});
	PUT(&out, 3, {1, 4});
	put_location(&out, 0, 1);
	put_location(&out, 0, 2);
	PUT(&out, 7, ZERO);
	PUT(&out, 7, {1, 1}, {1, 0});
	PUT(&out, 7, {1, 0});
	put_strings(&out, (const char *const[]){"", "cpu", "count", "func1", "func2"}, 5);
	end(&out, dictionary);
	struct otlp_request request = decode_request(buffer_bytes(&out));
	assert_int_equal(request.count, 1);
	assert_int_equal(request.odd_tables, 1u << 2);
	assert_int_equal(request.filled_tables, 1u << 2);
	check_stack(request.profiles[0], 0, "func2;func1");
	check_stack(request.profiles[0], 1, "func1");
	char tables[OTLP_TABLES_TEXT_MAX];
	assert_string_equal(otlp_table_list(request.odd_tables, tables), "location_table");
	otlp_request_release(&request);
	buffer_release(&out);
}

/* A first mapping with very many attributes, none of which is one, is not read again for each location. */
static void test_a_large_mapping_0(void **state)
{
	enum { ATTRIBUTES = 1 << 20, LOCATIONS = 50000, STACKS = 10 };
	static uint8_t none[ATTRIBUTES];
	static uint64_t stacks[STACKS];
	struct buffer out;
	buffer_init(&out, 16 * MIB);
	for (unsigned i = 0; i < STACKS; i++)
		stacks[i] = i + 1;
	put_profile(&out, stacks, STACKS, 0);
	size_t dictionary = begin(&out, 2), mapping = begin(&out, 1);
	assert_int_equal(pb_write_varint(&out, 1, 1), 0);
	assert_int_equal(pb_write_varint(&out, 2, LOCATIONS / 2), 0);
	assert_int_equal(pb_write_bytes(&out, 5, none, sizeof(none)), 0);
	end(&out, mapping);
	for (unsigned i = 0; i < LOCATIONS; i++)
		PUT(&out, 2, {2, i});
	PUT(&out, 7, ZERO);
	for (unsigned i = 0; i < STACKS; i++) {
		size_t stack = begin(&out, 7);
		for (unsigned k = 1; k < LOCATIONS / STACKS; k++)
			assert_int_equal(pb_write_varint(&out, 1, i * (LOCATIONS / STACKS) + k), 0);
		end(&out, stack);
	}
	put_strings(&out, (const char *const[]){"", "cpu", "count"}, 3);
	end(&out, dictionary);
	clock_t before = clock();
	struct otlp_request request = decode_request(buffer_bytes(&out));
	assert_true(clock() - before < 10 * CLOCKS_PER_SEC); /* of this process; once took minutes */
	const struct profile *profile = request.profiles[0];
	for (size_t i = 1; i < profile->location_count; i++)
		assert_int_equal(profile->locations[i].mapping != 0, profile->locations[i].address < LOCATIONS / 2);
	otlp_request_release(&request);
	buffer_release(&out);
}

static struct buffer message_of_entries_0(void)
{
	struct buffer out;
	buffer_init(&out, 64 * KIB);
	put_profile(&out, (const uint64_t[]){0, 1}, 2, 2);
	size_t dictionary = begin(&out, 2);
	PUT(&out, 1, {1, 0x1000}, {2, 0x2000}, {4, 1});
	PUT(&out, 3, {4, 7}); /* its name is string 0 */
	put_location(&out, 0x1500, 0);
	put_location(&out, 0x2500, 0);
	size_t link = begin(&out, 4);
	assert_int_equal(pb_write_bytes(&out, 1, "0123456789abcdef", 16), 0);
	assert_int_equal(pb_write_bytes(&out, 2, "01234567", 8), 0);
	end(&out, link);
	size_t attribute = begin(&out, 6), value;
	assert_int_equal(pb_write_varint(&out, 1, 3), 0);
	value = begin(&out, 2);
	assert_int_equal(pb_write_string(&out, 1, "v"), 0);
	end(&out, value);
	end(&out, attribute);
	PUT(&out, 7, {1, 0});
	PUT(&out, 7, {1, 1});
	put_strings(&out, (const char *const[]){"main", "cpu", "count", "k"}, 4);
	end(&out, dictionary);
	return out;
}

/* A writer that knows nothing of the rule: what can mean nothing else is taken, the link and texts that may be absent are not.
 */
static void test_entries_0(void **state)
{
	struct buffer out = message_of_entries_0();
	struct otlp_request request = decode_request(buffer_bytes(&out));
	assert_int_equal(request.count, 1);
	assert_int_equal(request.filled_tables, 0xfe);
	const struct profile *profile = request.profiles[0];
	assert_int_equal(profile->sample_count, 2);
	for (size_t i = 0; i < 2; i++) {
		uint32_t location;
		check_stack(profile, i, "main");
		assert_string_equal(profile_label_value(profile, profile->samples[i].labels, "k"), "v");
		assert_int_equal(profile->samples[i].link, 0);
		profile_stack_locations(profile, profile->samples[i].stack, &location, 1);
		assert_int_equal(profile->locations[location].mapping != 0, i == 0);
	}
	const struct profile_function *function = &profile->functions[1];
	assert_int_equal(function->start_line, 7);
	assert_string_equal(profile_string(profile, function->system_name), "");
	assert_string_equal(profile_string(profile, function->file_name), "");
	char tables[OTLP_TABLES_TEXT_MAX];
	assert_string_equal(otlp_table_list(request.filled_tables, tables),
			    "mapping_table, location_table, function_table, link_table, string_table, attribute_table, "
			    "stack_table");
	otlp_request_release(&request);
	/* As a file: what is left out is in the notes. */
	struct buffer notes;
	buffer_init(&notes, KIB);
	struct format_options options = {.notes = &notes};
	struct profile *file = NULL;
	assert_int_equal(format_decode(&format_otlp, buffer_bytes(&out), &options, &file, NULL), 0);
	assert_non_null(strstr(buffer_string(&notes), "entry 0 of link_table"));
	assert_non_null(strstr(buffer_string(&notes), "entry 0 of string_table"));
	assert_non_null(strstr(buffer_string(&notes), "entry 0 of mapping_table"));
	profile_free(file);
	buffer_release(&notes);
	buffer_release(&out);
}

/* ---- values of attributes ---- */

static void put_nested_list(struct buffer *out, uint32_t field, unsigned depth)
{
	size_t value = begin(out, field);
	if (depth > 0) {
		size_t list = begin(out, 5);
		put_nested_list(out, 1, depth - 1);
		end(out, list);
	} else {
		assert_int_equal(pb_write_string(out, 1, "x"), 0);
	}
	end(out, value);
}

/* A resource with one attribute "k", whose AnyValue is filled in by the caller, and a profile without samples. */
static struct buffer resource_with(void (*put)(struct buffer *out))
{
	struct buffer out;
	buffer_init(&out, MIB);
	size_t resource_profiles = begin(&out, 1), resource = begin(&out, 1), attribute = begin(&out, 1);
	assert_int_equal(pb_write_string(&out, 1, "k"), 0);
	put(&out);
	end(&out, attribute);
	end(&out, resource);
	end(&out, begin(&out, 2));
	size_t scope = begin(&out, 2);
	end(&out, begin(&out, 2));
	end(&out, scope);
	end(&out, resource_profiles);
	size_t dictionary = begin(&out, 2);
	assert_int_equal(pb_write_string(&out, 5, ""), 0);
	assert_int_equal(pb_write_string(&out, 5, "indexed"), 0);
	end(&out, dictionary);
	return out;
}

static void check_value(void (*put)(struct buffer *out), const char *expected)
{
	struct buffer message = resource_with(put), text;
	struct otlp_request request = decode_request(buffer_bytes(&message));
	assert_int_equal(request.count, 1);
	buffer_init(&text, KIB);
	dump_labels(request.profiles[0], request.profiles[0]->resource_labels, &text);
	assert_string_equal(buffer_string(&text), expected);
	buffer_release(&text);
	otlp_request_release(&request);
	buffer_release(&message);
}

static uint64_t bits_of(double value)
{
	uint64_t bits;
	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

#define VALUE(name, body)                                                                                                      \
	static void name(struct buffer *out)                                                                                   \
	{                                                                                                                      \
		size_t value = begin(out, 2);                                                                                  \
		body;                                                                                                          \
		end(out, value);                                                                                               \
	}
VALUE(put_string, pb_write_string(out, 1, "text"))
VALUE(put_empty, pb_write_string(out, 1, ""))
VALUE(put_nothing, (void)0)
VALUE(put_true, pb_write_varint(out, 2, 1))
VALUE(put_int, pb_write_varint(out, 3, (uint64_t)-7))
VALUE(put_zero, pb_write_varint(out, 3, 0))
VALUE(put_double, pb_write_fixed64(out, 4, bits_of(1.5)))
VALUE(put_nan, pb_write_fixed64(out, 4, bits_of(__builtin_nan(""))))
VALUE(put_bytes, pb_write_bytes(out, 7, "\x01\xff", 2))
VALUE(put_index, pb_write_varint(out, 8, 1))
VALUE(put_last_counts, (pb_write_string(out, 1, "first"), pb_write_varint(out, 3, 2)))

static void put_list(struct buffer *out)
{
	size_t value = begin(out, 2), list = begin(out, 5), item = begin(out, 1);
	pb_write_string(out, 1, "a");
	end(out, item);
	item = begin(out, 1);
	pb_write_varint(out, 3, 4);
	end(out, item);
	end(out, list);
	end(out, value);
}

static void put_map(struct buffer *out)
{
	size_t value = begin(out, 2), map = begin(out, 6), pair = begin(out, 1);
	pb_write_string(out, 1, "n");
	put_nested_list(out, 2, 2);
	end(out, pair);
	end(out, map);
	end(out, value);
}

static void put_deep(struct buffer *out)
{
	put_nested_list(out, 2, 40);
}
static void put_bad_index(struct buffer *out)
{
	size_t value = begin(out, 2);
	pb_write_varint(out, 8, 2);
	end(out, value);
}

static void test_attribute_values(void **state)
{
	check_value(put_string, " k=text/0/");
	check_value(put_empty, "");
	check_value(put_nothing, "");
	check_value(put_true, " k=true/0/");
	check_value(put_int, " k=/-7/");
	check_value(put_zero, " k=0/0/");
	check_value(put_double, " k=1.5/0/");
	check_value(put_nan, " k=NaN/0/");
	check_value(put_bytes, " k=01ff/0/");
	check_value(put_index, " k=indexed/0/");
	check_value(put_last_counts, " k=/2/");
	check_value(put_list, " k=a/0/ k=/4/");
	check_value(put_map, " k={\"n\":[[\"x\"]]}/0/");
}

static void refuse(struct buffer message, int code, const char *expected_message)
{
	struct otlp_request request;
	struct error err = {0};
	assert_int_equal(decode(buffer_bytes(&message), &request, &err), code);
	if (!strstr(err.message, expected_message))
		fail_msg("\"%s\" does not say \"%s\"", err.message, expected_message);
	buffer_release(&message);
}

static void test_bad_attribute_values(void **state)
{
	refuse(resource_with(put_deep), -EBADMSG, "nested deeper than 16");
	refuse(resource_with(put_bad_index), -EBADMSG, "index 2 is outside string_table of 2 entries");
}

static void test_duplicate_resource_key(void **state)
{
	struct buffer out;
	buffer_init(&out, KIB);
	size_t resource_profiles = begin(&out, 1), resource = begin(&out, 1);
	for (int i = 0; i < 2; i++) {
		size_t attribute = begin(&out, 1);
		assert_int_equal(pb_write_string(&out, 1, "host"), 0);
		end(&out, attribute);
	}
	end(&out, resource);
	end(&out, resource_profiles);
	refuse(out, -EBADMSG, "resource_profiles[0]: resource: duplicate attribute key \"host\"");
}

/* ---- expansion ---- */

/* Many profiles that all use one long string: small on the wire, large in memory. */
static void test_expansion_is_limited(void **state)
{
	struct buffer out;
	buffer_init(&out, 64 * MIB);
	size_t dictionary = begin(&out, 2);
	assert_int_equal(pb_write_string(&out, 5, ""), 0);
	uint8_t *text = malloc(MIB);
	memset(text, 'x', MIB);
	assert_int_equal(pb_write_bytes(&out, 5, text, MIB), 0);
	free(text);
	end(&out, dictionary);
	size_t resource_profiles = begin(&out, 1), scope = begin(&out, 2);
	for (int i = 0; i < 1000; i++) {
		size_t profile = begin(&out, 2), type = begin(&out, 1);
		assert_int_equal(pb_write_varint(&out, 1, 1), 0);
		end(&out, type);
		end(&out, profile);
	}
	end(&out, scope);
	end(&out, resource_profiles);
	refuse(out, -E2BIG, "the request expands to more than");
}

static struct buffer inlined_message(size_t lines)
{
	struct buffer out;
	buffer_init(&out, MIB);
	size_t dictionary = begin(&out, 2);
	assert_int_equal(pb_write_bytes(&out, 2, "", 0), 0); /* location 0 */
	size_t location = begin(&out, 2);
	for (size_t i = 0; i < lines; i++)
		assert_int_equal(pb_write_bytes(&out, 3, "", 0), 0);
	end(&out, location);
	end(&out, dictionary);
	return out;
}

/* Frames that are inlined at one address are bounded like those of a stack. */
static void test_inlined_depth(void **state)
{
	struct otlp_request request;
	struct buffer out = inlined_message(LIMIT_STACK_DEPTH);
	assert_int_equal(decode(buffer_bytes(&out), &request, NULL), 0);
	otlp_request_release(&request);
	buffer_release(&out);
	refuse(inlined_message(LIMIT_STACK_DEPTH + 1), -E2BIG, "a location has more than 16384 lines");
}

/* ---- layouts ---- */

/* One sample without attributes or link; which layout it is shows only elsewhere in the request. */
static void put_plain_profile(struct buffer *out, bool old, bool tell)
{
	const uint64_t value = 42;
	size_t profile = begin(out, 2), sample = begin(out, 2);
	pb_write_packed(out, old ? 2 : 4, &value, 1);
	end(out, sample);
	if (tell && old)
		pb_write_bytes(out, 8, "", 0);
	if (tell && !old)
		pb_write_varint(out, 8, 0);
	end(out, profile);
}

static void test_layout_is_sniffed_once(void **state)
{
	for (int old = 0; old < 2; old++) {
		struct buffer out;
		buffer_init(&out, KIB);
		size_t resource_profiles = begin(&out, 1), scope = begin(&out, 2);
		put_plain_profile(&out, old, false);
		put_plain_profile(&out, old, true);
		end(&out, scope);
		end(&out, resource_profiles);
		struct otlp_request request = decode_request(buffer_bytes(&out));
		assert_int_equal(request.count, 2);
		for (size_t i = 0; i < 2; i++)
			assert_int_equal(profile_total(request.profiles[i], 0), 42);
		otlp_request_release(&request);
		buffer_release(&out);
	}
}

/* ---- empty requests and responses ---- */

static void test_empty(void **state)
{
	struct otlp_request request = decode_request((struct bytes){NULL, 0});
	assert_int_equal(request.count, 0);
	struct buffer out = encode_request(&request);
	request = decode_request(buffer_bytes(&out));
	assert_int_equal(request.count, 0);
	struct profile *profile = NULL;
	struct error err = {0};
	assert_int_equal(format_decode(&format_otlp, buffer_bytes(&out), NULL, &profile, &err), -EBADMSG);
	assert_string_equal(err.message, "input: the OTLP input has no profiles");
	buffer_release(&out);
}

static void test_response(void **state)
{
	struct buffer out, message;
	uint64_t rejected = 99;
	buffer_init(&out, KIB);
	buffer_init(&message, KIB);
	assert_int_equal(otlp_encode_response(0, "", &out, NULL), 0);
	assert_int_equal(otlp_encode_response(0, NULL, &out, NULL), 0);
	assert_int_equal(out.len, 0);
	assert_int_equal(otlp_decode_response(buffer_bytes(&out), &rejected, &message, NULL), 0);
	assert_int_equal(rejected, 0);
	/* A warning: all was taken, and there is something to say. */
	assert_int_equal(otlp_encode_response(0, "mind the clock", &out, NULL), 0);
	assert_int_equal(otlp_decode_response(buffer_bytes(&out), &rejected, &message, NULL), 0);
	assert_int_equal(rejected, 0);
	assert_string_equal(buffer_string(&message), "mind the clock");
	buffer_clear(&out);
	buffer_clear(&message);
	assert_int_equal(otlp_encode_response(3, "too old", &out, NULL), 0);
	assert_int_equal(otlp_decode_response(buffer_bytes(&out), &rejected, &message, NULL), 0);
	assert_int_equal(rejected, 3);
	assert_string_equal(buffer_string(&message), "too old");
	out.len--;
	assert_int_equal(otlp_decode_response(buffer_bytes(&out), &rejected, &message, NULL), -EBADMSG);
	buffer_release(&out);
	buffer_release(&message);
}

/* ---- faults and damage ---- */

static void test_faults(void **state)
{
	struct profile *profile = rich_profile(2);
	struct otlp_request one = {.profiles = &profile, .count = 1};
	struct buffer message = encode_request(&one);
	bool reached = true;
	for (uint64_t n = 1; reached; n++) {
		struct profile *joined = NULL;
		struct buffer out;
		struct error err = {0};
		buffer_init(&out, MIB);
		fault_arm(FAULT_ALLOC, n, 0);
		int r = format_decode(&format_otlp, buffer_bytes(&message), NULL, &joined, &err);
		if (r == 0)
			r = format_encode(&format_otlp, joined, NULL, &out, &err);
		reached = fault_disarm(FAULT_ALLOC);
		assert_int_equal(r, reached ? -ENOMEM : 0);
		assert_int_equal(err.code, reached ? -ENOMEM : 0);
		if (r < 0)
			assert_int_equal(out.len, 0);
		profile_free(joined);
		buffer_release(&out);
	}
	buffer_release(&message);
	profile_free(profile);
}

static void test_encode_limit(void **state)
{
	struct profile *profile = rich_profile(2);
	struct otlp_request one = {.profiles = &profile, .count = 1};
	struct buffer whole = encode_request(&one);
	for (size_t max = 0; max < whole.len; max++) {
		struct buffer out;
		struct error err = {0};
		buffer_init(&out, max);
		assert_int_equal(otlp_encode((const struct profile *const *)&profile, 1, &out, &err), -E2BIG);
		assert_non_null(strstr(err.message, "the OTLP output exceeds the limit"));
		assert_int_equal(out.len, 0);
		buffer_release(&out);
	}
	buffer_release(&whole);
	profile_free(profile);
}

static size_t survived;

static void try_otlp(struct bytes damaged)
{
	struct otlp_request request = {0};
	struct error err = {0};
	int r = otlp_decode(damaged, NULL, &request, &err);
	assert_true(r == 0 || r == -EBADMSG || r == -E2BIG);
	if (r < 0) {
		assert_true(err.message[0] != '\0');
		return;
	}
	survived++;
	int64_t before = 0, after = 0;
	struct buffer out = encode_request(&request);
	struct otlp_request again = decode_request(buffer_bytes(&out));
	for (size_t i = 0; i < request.count; i++)
		before += profile_total(request.profiles[i], 0);
	for (size_t i = 0; i < again.count; i++)
		after += profile_total(again.profiles[i], 0);
	assert_true(before == after);
	otlp_request_release(&again);
	buffer_release(&out);
	otlp_request_release(&request);
}

static void test_damage(void **state)
{
	struct buffer file = read_data("otlp/malformed/ok_minimal.otlp");
	survived = 0;
	try_damaged(buffer_bytes(&file), 4000, try_otlp);
	assert_in_range(survived, 200, 3800);
	buffer_release(&file);
	file = read_data("otlp/profile.otlp");
	survived = 0;
	try_damaged(buffer_bytes(&file), 200, try_otlp);
	assert_in_range(survived, 10, 190);
	buffer_release(&file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_verdicts),
		cmocka_unit_test(test_old_layout),
		cmocka_unit_test(test_framed_file),
		cmocka_unit_test(test_round_trip_files),
		cmocka_unit_test(test_shapes_and_types),
		cmocka_unit_test(test_joined_periods),
		cmocka_unit_test(test_hashes_are_no_build_ids),
		cmocka_unit_test(test_a_go_build_id),
		cmocka_unit_test(test_timestamps_only),
		cmocka_unit_test(test_several_profiles_share_the_dictionary),
		cmocka_unit_test(test_process_stats),
		cmocka_unit_test(test_text_is_repaired),
		cmocka_unit_test(test_location_0),
		cmocka_unit_test(test_a_large_mapping_0),
		cmocka_unit_test(test_entries_0),
		cmocka_unit_test(test_protoc_reads_it),
		cmocka_unit_test(test_attribute_values),
		cmocka_unit_test(test_bad_attribute_values),
		cmocka_unit_test(test_duplicate_resource_key),
		cmocka_unit_test(test_expansion_is_limited),
		cmocka_unit_test(test_inlined_depth),
		cmocka_unit_test(test_layout_is_sniffed_once),
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_response),
		cmocka_unit_test(test_faults),
		cmocka_unit_test(test_encode_limit),
		cmocka_unit_test(test_damage),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
