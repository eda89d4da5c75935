/* SPDX-License-Identifier: Apache-2.0 */
/* Requests written field by field, for what the decoder tells apart to be fast: indexes of one, two and more bytes, packed or
 * not; entries that are equal; lists of attributes that come again. */
#include "format/test_format.h"

#include "codec/protobuf.h"
#include "format/otlp/otlp.h"
#include "format/otlp/test_otlp.h"

static void put_number(struct buffer *out, uint32_t field, uint64_t value)
{
	assert_int_equal(pb_write_varint(out, field, value), 0);
}

static void put_text(struct buffer *out, const char *text)
{
	assert_int_equal(pb_write_string(out, 5, text), 0);
}

static int decode(struct bytes input, struct otlp_request *ret, struct error *err)
{
	uint8_t *copy = malloc(input.len);
	memcpy(copy, input.data, input.len);
	*ret = (struct otlp_request){0};
	int r = otlp_decode((struct bytes){copy, input.len}, NULL, ret, err);
	free(copy);
	return r;
}

static struct otlp_request decode_or_die(const struct buffer *out)
{
	struct otlp_request request;
	struct error err = {0};
	if (decode(buffer_bytes(out), &request, &err) < 0)
		fail_msg("%s", err.message);
	return request;
}

/* ---- indexes ---- */

#define ENTRIES 20000u

/* Functions 1 .. entries - 1 with the names f1 ..., a location of each, and a stack of the bytes. */
static void put_dictionary(struct buffer *out, unsigned entries, struct bytes stack)
{
	char name[16];
	size_t dictionary = begin(out, 2);
	for (unsigned i = 0; i < entries; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		put_text(out, i ? name : "");
		size_t function = begin(out, 3);
		if (i)
			put_number(out, 1, i);
		end(out, function);
		size_t location = begin(out, 2);
		if (i) {
			size_t line = begin(out, 3);
			put_number(out, 1, i);
			end(out, line);
		}
		end(out, location);
	}
	end(out, begin(out, 7));
	assert_int_equal(pb_write_bytes(out, 7, stack.data, stack.len), 0);
	end(out, dictionary);
}

static void put_sample(struct buffer *out, uint64_t stack, const uint64_t *attributes, size_t count)
{
	size_t sample = begin(out, 2);
	put_number(out, 1, stack);
	assert_int_equal(pb_write_packed(out, 2, attributes, count), 0);
	put_number(out, 4, 1);
	end(out, sample);
}

/* A profile of one sample, of stack 1. */
static struct buffer request_of_stack(unsigned entries, struct bytes stack)
{
	struct buffer out;
	buffer_init(&out, 64 * MIB);
	put_dictionary(&out, entries, stack);
	size_t resource = begin(&out, 1), scope = begin(&out, 2), profile = begin(&out, 2);
	put_sample(&out, 1, NULL, 0);
	end(&out, profile);
	end(&out, scope);
	end(&out, resource);
	return out;
}

/* The names of a sample's functions, leaf first. */
static void check_frames(const struct profile *profile, const uint64_t *indexes, size_t count)
{
	uint32_t locations[64];
	assert_int_equal(profile_stack_locations(profile, profile->samples[0].stack, locations, 64), count);
	for (size_t i = 0; i < count; i++) {
		char expected[24];
		const struct profile_location *location = &profile->locations[locations[i]];
		const struct profile_line *line = &profile->lines[location->line_first];
		snprintf(expected, sizeof(expected), "f%llu", (unsigned long long)indexes[i]);
		assert_int_equal(location->line_count, 1);
		assert_string_equal(profile_string(profile, profile->functions[line->function].name), expected);
	}
}

static const uint64_t lengths[] = {1, 127, 128, 300, 16383, 16384, 5, ENTRIES - 1, 2, 16385};
#define LENGTHS (sizeof(lengths) / sizeof(lengths[0]))

static void test_indexes_of_every_length(void **state)
{
	/* Packed in one list, in a list each, and as single numbers. */
	for (unsigned form = 0; form < 3; form++) {
		struct buffer stack = {.max = KIB};
		if (form == 0)
			pb_write_packed(&stack, 1, lengths, LENGTHS);
		for (size_t i = 0; form && i < LENGTHS; i++)
			form == 1 ? pb_write_packed(&stack, 1, &lengths[i], 1) : pb_write_varint(&stack, 1, lengths[i]);
		assert_int_equal(buffer_status(&stack), 0);
		struct buffer out = request_of_stack(ENTRIES, buffer_bytes(&stack));
		struct otlp_request request = decode_or_die(&out);
		assert_int_equal(request.count, 1);
		check_frames(request.profiles[0], lengths, LENGTHS);
		otlp_request_release(&request);
		buffer_release(&out);
		buffer_release(&stack);
	}
}

static void test_indexes_in_more_bytes_than_needed(void **state)
{
	/* 3 in one, two, three and ten bytes, and 4 behind them. */
	static const uint8_t stack[] = {0x0a, 17,   3,	  0x83, 0x00, 0x83, 0x80, 0x00, 0x83, 0x80,
					0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00, 4};
	struct buffer out = request_of_stack(10, (struct bytes){stack, sizeof(stack)});
	struct otlp_request request = decode_or_die(&out);
	check_frames(request.profiles[0], (const uint64_t[]){3, 3, 3, 3, 4}, 5);
	otlp_request_release(&request);
	buffer_release(&out);
}

static void refuse(struct buffer *out, const char *expected)
{
	struct otlp_request request;
	struct error err = {0};
	assert_int_equal(decode(buffer_bytes(out), &request, &err), -EBADMSG);
	if (!strstr(err.message, expected))
		fail_msg("\"%s\" does not say \"%s\"", err.message, expected);
	assert_int_equal(request.count, 0);
	buffer_release(out);
}

/* At each place of a list, by one and by far, in tables below and above what two bytes can say. */
static void test_indexes_outside(void **state)
{
	static const unsigned tables[] = {100, 128, 200, ENTRIES};
	for (size_t t = 0; t < sizeof(tables) / sizeof(tables[0]); t++) {
		const uint64_t outside[] = {tables[t], 1u << 14, 1u << 21, UINT64_MAX};
		for (size_t place = 0; place < 5; place++) {
			uint64_t indexes[] = {1, 99, 2, 3, 4};
			char expected[80];
			indexes[place] = outside[place % 4] < tables[t] ? tables[t] : outside[place % 4];
			struct buffer stack = {.max = KIB};
			assert_int_equal(pb_write_packed(&stack, 1, indexes, 5), 0);
			struct buffer out = request_of_stack(tables[t], buffer_bytes(&stack));
			snprintf(expected, sizeof(expected),
				 "dictionary: stack_table[1]: location_indices: index %lld is outside location_table of %u "
				 "entries",
				 (long long)indexes[place], tables[t]);
			refuse(&out, expected);
			buffer_release(&stack);
		}
	}
}

static void test_a_list_that_is_cut(void **state)
{
	static const uint8_t one[] = {0x0a, 1, 0x81}, two[] = {0x0a, 3, 1, 2, 0x81}, three[] = {0x0a, 3, 0x81, 0x80, 0x80};
	const struct bytes stacks[] = {{one, sizeof(one)}, {two, sizeof(two)}, {three, sizeof(three)}};
	for (size_t i = 0; i < 3; i++) {
		struct buffer out = request_of_stack(10, stacks[i]);
		refuse(&out, "has no end");
	}
}

/* Lists of nothing, packed and not, where there is no other list. */
static void test_empty_lists(void **state)
{
	static const char *const stacks[] = {"", "\x0a\x00", "\x0a\x00\x0a\x00"};
	for (size_t i = 0; i < 3; i++) {
		struct buffer out = request_of_stack(2, (struct bytes){(const uint8_t *)stacks[i], 2 * i});
		struct otlp_request request = decode_or_die(&out);
		assert_int_equal(request.profiles[0]->sample_count, 1);
		assert_int_equal(request.profiles[0]->samples[0].stack, 0);
		assert_int_equal(request.profiles[0]->stack_count, 1);
		otlp_request_release(&request);
		buffer_release(&out);
	}
}

/* A number that comes twice is what it is last, but each must be in the table. */
static void test_a_field_twice(void **state)
{
	for (unsigned bad = 0; bad < 3; bad++) {
		struct buffer out;
		buffer_init(&out, KIB);
		size_t dictionary = begin(&out, 2);
		put_text(&out, "");
		put_text(&out, "first");
		put_text(&out, "last");
		end(&out, begin(&out, 3));
		size_t function = begin(&out, 3);
		put_number(&out, 1, bad == 1 ? 3 : 1);
		put_number(&out, 1, bad == 2 ? 3 : 2);
		end(&out, function);
		end(&out, begin(&out, 2));
		size_t location = begin(&out, 2), line = begin(&out, 3);
		put_number(&out, 2, 7);
		put_number(&out, 1, 0);
		put_number(&out, 2, 8);
		put_number(&out, 1, 1);
		end(&out, line);
		end(&out, location);
		end(&out, begin(&out, 7));
		assert_int_equal(pb_write_bytes(&out, 7, "\x08\x01", 2), 0);
		end(&out, dictionary);
		size_t resource = begin(&out, 1), scope = begin(&out, 2), profile = begin(&out, 2);
		put_sample(&out, 1, NULL, 0);
		end(&out, profile);
		end(&out, scope);
		end(&out, resource);
		if (bad) {
			refuse(&out, "function_table[1]: Function.name_strindex: index 3 is outside string_table of 3 entries");
			continue;
		}
		struct otlp_request request = decode_or_die(&out);
		const struct profile *got = request.profiles[0];
		assert_int_equal(got->lines[0].line, 8);
		assert_string_equal(profile_string(got, got->functions[got->lines[0].function].name), "last");
		otlp_request_release(&request);
		buffer_release(&out);
	}
}

/* ---- equal entries ---- */

/* A dictionary is not to have equal entries; where it has, they are one. */
static void test_equal_entries(void **state)
{
	struct buffer out;
	buffer_init(&out, MIB);
	size_t dictionary = begin(&out, 2);
	static const char *const texts[] = {"", "same", "same", "other", "", "file", "file"};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		put_text(&out, texts[i]);
	end(&out, begin(&out, 1));
	end(&out, begin(&out, 3));
	end(&out, begin(&out, 2));
	end(&out, begin(&out, 7));
	for (uint64_t i = 0; i < 2; i++) {
		size_t mapping = begin(&out, 1);
		put_number(&out, 2, 0x1000);
		put_number(&out, 4, 5 + i);
		end(&out, mapping);
		size_t function = begin(&out, 3);
		put_number(&out, 1, 1 + i);
		put_number(&out, 3, i ? 4 : 0); /* the text of entry 4 is empty, too */
		end(&out, function);
		size_t location = begin(&out, 2), line = begin(&out, 3);
		put_number(&out, 1, 1 + i);
		end(&out, line);
		put_number(&out, 1, 1 + i);
		put_number(&out, 2, 0x10);
		end(&out, location);
		size_t stack = begin(&out, 7);
		assert_int_equal(pb_write_packed(&out, 1, (const uint64_t[]){1 + i, 2 - i}, 2), 0);
		end(&out, stack);
	}
	end(&out, dictionary);
	size_t resource = begin(&out, 1), scope = begin(&out, 2), message = begin(&out, 2);
	put_sample(&out, 1, NULL, 0);
	put_sample(&out, 2, NULL, 0);
	end(&out, message);
	end(&out, scope);
	end(&out, resource);
	struct otlp_request request = decode_or_die(&out);
	const struct profile *profile = request.profiles[0];
	assert_int_equal(profile->mapping_count, 2);
	assert_int_equal(profile->function_count, 2);
	assert_int_equal(profile->location_count, 2);
	assert_int_equal(profile->stack_count, 3);
	assert_int_equal(profile->sample_count, 2);
	assert_int_equal(profile->samples[0].stack, profile->samples[1].stack);
	assert_int_equal(profile->strings.count, 3);
	otlp_request_release(&request);
	buffer_release(&out);
}

/* ---- lists of attributes ---- */

static void put_attribute(struct buffer *out, uint64_t key, const char *text)
{
	size_t attribute = begin(out, 6), value = begin(out, 2);
	assert_int_equal(pb_write_string(out, 1, text), 0);
	end(out, value);
	put_number(out, 1, key);
	end(out, attribute);
}

static void check_labels(const struct profile *profile, size_t sample, const char *expected)
{
	struct buffer text = {.max = KIB};
	const struct profile_label_set *set = &profile->label_sets[profile->samples[sample].labels];
	for (uint32_t i = set->first; i < set->first + set->count; i++)
		buffer_printf(&text, "%s=%s ", profile_string(profile, profile->labels[i].key),
			      profile_string(profile, profile->labels[i].value));
	assert_string_equal(text.len ? buffer_string(&text) : "", expected);
	buffer_release(&text);
}

static struct buffer request_of_lists(void)
{
	struct buffer out;
	buffer_init(&out, MIB);
	size_t dictionary = begin(&out, 2);
	static const char *const texts[] = {"", "a", "b", "c"};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		put_text(&out, texts[i]);
	end(&out, begin(&out, 6));
	put_attribute(&out, 1, "1");
	put_attribute(&out, 2, "2");
	put_attribute(&out, 3, "3");
	put_attribute(&out, 1, "4");
	put_attribute(&out, 3, ""); /* makes no label */
	end(&out, dictionary);
	size_t resource = begin(&out, 1), scope = begin(&out, 2);
	/* The second profile meets the attributes in another order, so the same list is of other ids. */
	for (unsigned i = 0; i < 2; i++) {
		size_t profile = begin(&out, 2);
		if (i)
			put_sample(&out, 0, (const uint64_t[]){3, 4}, 2);
		put_sample(&out, 0, (const uint64_t[]){1, 2}, 2);
		put_sample(&out, 0, (const uint64_t[]){1, 2, 3}, 3);
		put_sample(&out, 0, (const uint64_t[]){1, 2}, 2);
		put_sample(&out, 0, (const uint64_t[]){2, 1}, 2);
		put_sample(&out, 0, (const uint64_t[]){0, 1, 0, 2}, 4);
		put_sample(&out, 0, (const uint64_t[]){5}, 1);
		put_sample(&out, 0, NULL, 0);
		put_sample(&out, 0, (const uint64_t[]){1, 2}, 2);
		end(&out, profile);
	}
	end(&out, scope);
	end(&out, resource);
	return out;
}

static void test_lists_of_attributes(void **state)
{
	struct buffer out = request_of_lists();
	struct otlp_request request = decode_or_die(&out);
	assert_int_equal(request.count, 2);
	check_labels(request.profiles[1], 0, "a=4 c=3 ");
	for (size_t i = 0; i < 2; i++) {
		const struct profile *profile = request.profiles[i];
		assert_int_equal(profile->sample_count, 8 + i);
		check_labels(profile, i, "a=1 b=2 ");
		check_labels(profile, i + 1, "a=1 b=2 c=3 ");
		assert_int_equal(profile->samples[i + 2].labels, profile->samples[i].labels);
		assert_int_equal(profile->samples[i + 3].labels, profile->samples[i].labels);
		assert_int_equal(profile->samples[i + 4].labels, profile->samples[i].labels);
		assert_int_equal(profile->samples[i + 7].labels, profile->samples[i].labels);
		check_labels(profile, i + 5, "");
		check_labels(profile, i + 6, "");
		assert_int_equal(profile->label_set_count, 3 + i);
	}
	otlp_request_release(&request);
	/* And no memory, anywhere. */
	bool reached = true;
	for (uint64_t n = 1; reached; n++) {
		fault_arm(FAULT_ALLOC, n, 0);
		int r = otlp_decode(buffer_bytes(&out), NULL, &request, NULL);
		reached = fault_disarm(FAULT_ALLOC);
		assert_int_equal(r, reached ? -ENOMEM : 0);
	}
	otlp_request_release(&request);
	buffer_release(&out);
}

static void test_a_key_twice_in_a_list(void **state)
{
	struct buffer out = request_of_lists();
	size_t resource = begin(&out, 1), scope = begin(&out, 2), profile = begin(&out, 2);
	put_sample(&out, 0, (const uint64_t[]){1, 2}, 2);
	put_sample(&out, 0, (const uint64_t[]){1, 2, 4}, 3);
	end(&out, profile);
	end(&out, scope);
	end(&out, resource);
	refuse(&out, "samples[1]: attribute_indices: duplicate key \"a\"");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_indexes_of_every_length),
		cmocka_unit_test(test_indexes_in_more_bytes_than_needed),
		cmocka_unit_test(test_indexes_outside),
		cmocka_unit_test(test_a_list_that_is_cut),
		cmocka_unit_test(test_empty_lists),
		cmocka_unit_test(test_a_field_twice),
		cmocka_unit_test(test_equal_entries),
		cmocka_unit_test(test_lists_of_attributes),
		cmocka_unit_test(test_a_key_twice_in_a_list),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
