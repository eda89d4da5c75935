/* SPDX-License-Identifier: Apache-2.0 */
#include "format/test_whole.h"

static const struct format *const tested = &format_dhat;

#define TABLE                                                                                                                  \
	"\"ftbl\":[\"[root]\",\"0x48417B4: malloc (in /usr/lib/vg.so)\",\"0x109169: wrap (heap.c:3)\",\"0x109169: keep(int) "  \
	"(heap.c:4)\",\"0x1091AF: main (src/main.rs:6:17)\",\"0x5: ???\"]"
#define POINT(tb, tbk, gb, gbk, eb, ebk, fs)                                                                                   \
	"{\"tb\":" #tb ",\"tbk\":" #tbk ",\"tl\":9,\"mb\":9,\"mbk\":1,\"gb\":" #gb ",\"gbk\":" #gbk ",\"eb\":" #eb             \
	",\"ebk\":" #ebk ",\"rb\":2,\"wb\":1,\"acc\":[1],\"fs\":" fs "}"
#define HEAD                                                                                                                   \
	"{\"dhatFileVersion\":2,\"mode\":\"heap\",\"verb\":\"Allocated\",\"bklt\":true,\"bkacc\":true,\"cmd\":\"./heap "       \
	"x\",\"pid\":17,"
static const char heap[] = HEAD "\"pps\":[" POINT(1000, 2, 500, 1, 20, 1, "[1,2,3,4]") "," POINT(
	70, 7, 0, 0, 7, 1, "[1,4]") "," POINT(5, 1, 0, 0, 0, 0, "[5]") "]," TABLE "}";

static void test_values(void **state)
{
	check_text(heap, "alloc_objects", "0x5 1\nmain;keep(int);wrap_[i];malloc 2\nmain;malloc 7\n");
	check_text(heap, "alloc_space", "0x5 5\nmain;keep(int);wrap_[i];malloc 1000\nmain;malloc 70\n");
	check_text(heap, "peak_objects", "main;keep(int);wrap_[i];malloc 1\n");
	check_text(heap, NULL, "main;keep(int);wrap_[i];malloc 500\n");
	check_text(heap, "inuse_objects", "main;keep(int);wrap_[i];malloc 1\nmain;malloc 1\n");
	check_text(heap, "inuse_space", "main;keep(int);wrap_[i];malloc 20\nmain;malloc 7\n");
	assert_string_equal(buffer_string(&notes), "lifetimes and maximums of the blocks of 3 program points\n"
						   "reads and writes of the blocks of 3 program points\n");
	/* Other modes. */
	check_text("{\"dhatFileVersion\":2,\"mode\":\"ad-hoc\",\"bklt\":false,\"bsu\":\"units\",\"bksu\":\"events\","
		   "\"pps\":[{\"tb\":5,\"tbk\":2,\"fs\":[4]}]," TABLE "}",
		   "units", "main 5\n");
	check_text("{\"dhatFileVersion\":2,\"mode\":\"copy\",\"bklt\":false,\"pps\":[{\"tb\":5,\"tbk\":2,\"fs\":[4]}]," TABLE
		   "}",
		   "blocks", "main 2\n");
}

static void test_frames(void **state)
{
	struct profile *profile;
	uint32_t stack[4];
	assert_int_equal(decode(heap, &profile, NULL), 0);
	assert_int_equal(profile_stack_locations(profile, profile->samples[0].stack, stack, 4), 3);
	const struct profile_location *leaf = &profile->locations[stack[0]], *keep = &profile->locations[stack[1]],
				      *root = &profile->locations[stack[2]];
	assert_string_equal(profile_string(profile, profile->mappings[leaf->mapping].file_name), "/usr/lib/vg.so");
	assert_int_equal(leaf->address, 0x48417b4);
	assert_int_equal(keep->line_count, 2);
	assert_int_equal(profile->lines[keep->line_first].line, 3);
	assert_int_equal(profile->lines[keep->line_first + 1].line, 4);
	assert_int_equal(profile->lines[root->line_first].line, 6);
	assert_int_equal(profile->lines[root->line_first].column, 17);
	assert_string_equal(profile_string(profile, profile->functions[profile->lines[root->line_first].function].file_name),
			    "src/main.rs");
	assert_string_equal(profile_string(profile, profile->comments[0]), "./heap x");
	assert_int_equal(profile->labels[profile->label_sets[profile->resource_labels].first].number, 17);
	profile_free(profile);
}

/* Frames that are not in the table are left out. */
static void test_dangling(void **state)
{
	check_text(HEAD "\"pps\":[" POINT(7, 1, 1, 1, 1, 1, "[1,6,4,-1]") "]," TABLE "}", "alloc_space", "main;malloc 7\n");
	assert_non_null(strstr(buffer_string(&notes), "2 frames that are missing in ftbl\n"));
}

static void test_refused(void **state)
{
	refuse("{}", "no dhatFileVersion");
	refuse("{\"dhatFileVersion\":1}", "DHAT version 1");
	refuse("{\"dhatFileVersion\":2}", "no array pps");
	refuse("{\"dhatFileVersion\":2,\"pps\":[]}", "no mode");
	refuse(HEAD "\"pps\":[]}", "no array ftbl");
	refuse(HEAD "\"pps\":[],\"ftbl\":[1]}", "entry 0 of ftbl is not a string");
	refuse(HEAD "\"pps\":[{\"tb\":1}]," TABLE "}", "program point 0: no number tbk");
	refuse(HEAD "\"pps\":[" POINT(1, 1, 1, 1, 1, -1, "[1]") "]," TABLE "}", "no number ebk");
	refuse(HEAD "\"pps\":[" POINT(1, 1, 1, 1, 1, 1, "1") "]," TABLE "}", "no array fs");
}

static const char *const whole_text = heap;

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values),	cmocka_unit_test(test_frames),	cmocka_unit_test(test_dangling),
		cmocka_unit_test(test_refused), cmocka_unit_test(test_damaged), cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, release_notes);
}
