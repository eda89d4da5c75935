/* SPDX-License-Identifier: Apache-2.0 */
#include "format/test_text.h"

#include "format/import/ruby_marshal.h"

static const struct format *const tested = &format_stackprof;

#define HEAD(mode)                                                                                                             \
	"{\"version\":1.2,\"mode\":\"" mode "\",\"interval\":1000,\"samples\":6,\"gc_samples\":0,\"missed_samples\":2,"
#define FRAMES                                                                                                                 \
	"\"frames\":{\"70\":{\"name\":\"<main>\",\"file\":\"a.rb\",\"line\":1,\"samples\":0},\"71\":{\"name\":\"Object#f\","   \
	"\"file\":\"a.rb\",\"line\":3,\"samples\":5},\"140250000000000\":{\"name\":\"(garbage collection)\",\"file\":\"\","    \
	"\"samples\":1}}"
#define RAW "\"raw\":[2,70,71,5,3,70,99,140250000000000,1]"

static void check_both(const char *mode, const char *type, const char *folded)
{
	struct buffer text = {.max = MIB};
	buffer_printf(&text,
		      "{\"version\":1.2,\"mode\":\"%s\",\"interval\":1000,\"samples\":6,\"gc_samples\":0,\"missed_samples\":2,",
		      mode);
	buffer_append_string(&text, FRAMES "," RAW "}");
	check_text(buffer_string(&text), type, folded);
	assert_string_equal(buffer_string(&notes), "2 samples that were missed while recording\n"
						   "1 frames of stacks that are not in the file\n");
	buffer_release(&text);
}

static void test_modes(void **state)
{
	check_both("wall", "wall", "<main>;(garbage collection) 1000000\n<main>;Object#f 5000000\n");
	check_both("cpu", "samples", "<main>;(garbage collection) 1\n<main>;Object#f 5\n");
	check_both("object", "alloc_objects", "<main>;(garbage collection) 1000\n<main>;Object#f 5000\n");
	check_both("custom", "custom", "<main>;(garbage collection) 1000\n<main>;Object#f 5000\n");
	/* Without stacks. */
	check_text(HEAD("wall") FRAMES "}", "samples", "(garbage collection) 1\nObject#f 5\n");
	assert_non_null(strstr(buffer_string(&notes), "6 samples: callers, which the file does not have"));
	/* With times. */
	struct profile *profile =
		read_text(HEAD("wall") FRAMES "," RAW ",\"raw_sample_timestamps\":[100,200,300,400,500,600]}");
	assert_int_equal(profile->sample_count, 6);
	assert_int_equal(profile->samples[5].time_ns, 600000);
	assert_int_equal(profile->duration_ns, 500000);
	profile_free(profile);
	/* More samples than times: few bytes are not to become many samples. */
	profile =
		read_text(HEAD("wall") FRAMES ",\"raw\":[1,70,2,1,71,1000000,1,70,1],\"raw_sample_timestamps\":[100,200,300]}");
	assert_int_equal(profile->sample_count, 4);
	assert_int_equal(profile->samples[1].time_ns, 200000);
	assert_int_equal(profile->samples[2].time_ns, 0);
	assert_int_equal(profile_total(profile, 0), 1000003);
	profile_free(profile);
}

static void test_refused(void **state)
{
	refuse(HEAD("wall") "\"frames\":[]}", "no object frames");
	refuse(HEAD("wall") "\"frames\":{\"x\":{}}}", "a frame has the id \"x\"");
	refuse(HEAD("wall") FRAMES ",\"raw\":[2,70,71]}", "raw, entry 0: the stack does not fit");
	refuse(HEAD("wall") FRAMES ",\"raw\":[1,70,\"x\"]}", "the count is no number");
}

/* ---- Marshal ---- */

static void put_number(struct buffer *out, int64_t number)
{
	if (number == 0 || (number > 0 && number < 123)) {
		buffer_append_byte(out, (uint8_t)(number ? number + 5 : 0));
		return;
	}
	buffer_append_byte(out, 4);
	buffer_append(out, &(uint32_t){(uint32_t)number}, 4);
}

static void put_integer(struct buffer *out, int64_t number)
{
	if (number < 1 << 30) {
		buffer_append_byte(out, 'i');
		put_number(out, number);
		return;
	}
	buffer_append(out, "l+", 2);
	put_number(out, 4);
	buffer_append(out, &number, 8);
}

static void put_symbol(struct buffer *out, const char *text)
{
	buffer_append_byte(out, ':');
	put_number(out, (int64_t)strlen(text));
	buffer_append_string(out, text);
}

static void put_link(struct buffer *out, char kind, int64_t number)
{
	buffer_append_byte(out, (uint8_t)kind);
	put_number(out, number);
}

/* The encoding is the symbol E, which is the 8th. */
static void put_text(struct buffer *out, const char *text, bool is_first)
{
	buffer_append_string(out, "I\"");
	put_number(out, (int64_t)strlen(text));
	buffer_append_string(out, text);
	put_number(out, 1);
	if (is_first)
		put_symbol(out, "E");
	else
		put_link(out, ';', 7);
	buffer_append_byte(out, 'T');
}

/* As FRAMES and RAW above. Symbols: 0 version, 1 mode, 2 wall, 3 interval, 4 missed_samples, 5 frames, 6 name, 7 E, 8 file ...
 */
static struct buffer make_marshal(void)
{
	static const int64_t raw[] = {2, 70, 71, 5, 3, 70, 99, 140250000000000, 1};
	struct buffer out = {.max = MIB};
	buffer_append(&out, "\4\10{", 3);
	put_number(&out, 7);
	put_symbol(&out, "version");
	buffer_append_string(&out, "f\0101.2");
	put_symbol(&out, "mode");
	put_symbol(&out, "wall");
	put_symbol(&out, "interval");
	put_integer(&out, 1000);
	put_symbol(&out, "missed_samples");
	put_integer(&out, 2);
	put_symbol(&out, "frames");
	buffer_append_byte(&out, '{');
	put_number(&out, 3);
	put_integer(&out, 70);
	buffer_append_byte(&out, '{'); /* object 3: 0 the whole, 1 the float, 2 frames */
	put_number(&out, 2);
	put_symbol(&out, "name");
	put_text(&out, "<main>", true);
	put_symbol(&out, "file");
	put_text(&out, "a.rb", false); /* object 5 */
	put_integer(&out, 71);
	buffer_append_byte(&out, '}');
	put_number(&out, 2);
	put_link(&out, ';', 6);
	put_text(&out, "Object#f", false);
	put_link(&out, ';', 8);
	put_link(&out, '@', 5);
	buffer_append_byte(&out, '0'); /* the default */
	put_integer(&out, 140250000000000);
	buffer_append_byte(&out, '{');
	put_number(&out, 1);
	put_link(&out, ';', 6);
	put_text(&out, "(garbage collection)", false);
	put_symbol(&out, "raw");
	buffer_append_byte(&out, '[');
	put_number(&out, 9);
	for (size_t i = 0; i < 9; i++)
		put_integer(&out, raw[i]);
	put_symbol(&out, "gc_samples");
	put_integer(&out, 0);
	return out;
}

static void test_marshal(void **state)
{
	struct buffer file = make_marshal(), json = {.max = MIB};
	struct error err = {0};
	if (ruby_marshal_to_json(buffer_bytes(&file), &json, &err) < 0)
		fail_msg("%s", err.message);
	assert_string_equal(
		buffer_string(&json),
		"{\"version\":1.2,\"mode\":\"wall\",\"interval\":1000,\"missed_samples\":2,\"frames\":{\"70\":{\"name\":\"<"
		"main>\","
		"\"file\":\"a.rb\"},\"71\":{\"name\":\"Object#f\",\"file\":\"a.rb\"},\"140250000000000\":{\"name\":\"(garbage "
		"collection)\"}},\"raw\":[2,70,71,5,3,70,99,140250000000000,1],\"gc_samples\":0}");
	struct profile *profile = decode_or_fail(NULL, buffer_bytes(&file), "marshal");
	check_profile(profile, "wall", "<main>;(garbage collection) 1000000\n<main>;Object#f 5000000\n");
	profile_free(profile);
	buffer_release(&json);
	buffer_release(&file);
}

static void refuse_marshal(const char *data, size_t len, const char *says)
{
	struct buffer json = {.max = 256};
	struct error err = {0};
	assert_true(ruby_marshal_to_json((struct bytes){(const uint8_t *)data, len}, &json, &err) < 0);
	if (!strstr(err.message, says))
		fail_msg("\"%s\" does not say \"%s\"", err.message, says);
	buffer_release(&json);
}

static void test_bad_marshal(void **state)
{
	refuse_marshal("\4\7{\6", 4, "not a hash of Ruby's Marshal");
	refuse_marshal("\4\10{\6:\6a", 7, "truncated");
	refuse_marshal("\4\10{\6:\6a@\7", 9, "an object that was not there");
	refuse_marshal("\4\10{\6:\6a@\0", 9, "an object that was not there"); /* itself */
	refuse_marshal("\4\10{\6;\6", 6, "a symbol that was not there");
	refuse_marshal("\4\10{\6:\6ao:\6b\0", 12, "a class that profiles do not have");
	refuse_marshal("\4\10{\6[\0i\6", 8, "a key that is an array");
	/* What is in a default or beside a text is not written, and not there for others. */
	refuse_marshal("\4\10{\6:\6a[\x7}\0\"\6x@\x8", 16, "an object that was not there");
	refuse_marshal("\4\10{\6:\6a[\x7I0\6:\6E\"\6x@\x7", 20, "an object that was not there");
	/* Writing it has a limit all the same. */
	struct buffer hidden = {.max = KIB};
	buffer_append(&hidden, "\4\10{\6:\x2d", 6);
	for (int i = 0; i < 40; i++)
		buffer_append_byte(&hidden, 'x');
	buffer_append(&hidden, "[\x0a", 2);
	for (int i = 0; i < 5; i++)
		buffer_append(&hidden, "I0\6;\0;\0", 7);
	refuse_marshal((const char *)hidden.data, hidden.len, "what is left out of it grows beyond the limit");
	buffer_release(&hidden);
	/* Objects that are written again and again: [x, [@x, @x], ...] doubles each time. */
	struct buffer bomb = {.max = KIB}, json = {.max = 4096};
	buffer_append(&bomb,
		      "\4\10{\6i\6[\x19\"\x0d"
		      "xxxxxxxx",
		      18);
	for (int i = 0; i < 19; i++)
		buffer_printf(&bomb, "[\7@%c@%c", i + 7, i + 7);
	assert_int_equal(ruby_marshal_to_json(buffer_bytes(&bomb), &json, NULL), -E2BIG);
	buffer_release(&bomb);
	buffer_release(&json);
}

static void test_damaged(void **state)
{
	struct buffer file = make_marshal();
	check_damaged(tested, buffer_bytes(&file));
	buffer_release(&file);
	check_damaged(tested, bytes_of_string(HEAD("wall") FRAMES "," RAW "}"));
}

static void test_no_memory(void **state)
{
	struct buffer file = make_marshal();
	check_no_memory(tested, buffer_bytes(&file));
	buffer_release(&file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_modes),	    cmocka_unit_test(test_refused), cmocka_unit_test(test_marshal),
		cmocka_unit_test(test_bad_marshal), cmocka_unit_test(test_damaged), cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, release_notes);
}
