/* SPDX-License-Identifier: Apache-2.0 */
#include "format/test_whole.h"

static const struct format *const tested = &format_callgrind;

/* `shared` is called by a and b; names and positions are compressed; two events, of which lines may leave out the last. */
static const char graph[] = "# callgrind format\n"
			    "version: 1\n"
			    "pid: 17\n"
			    "cmd: ./program x\n"
			    "part: 1\n\n"
			    "positions: line\n"
			    "events: Ir Dr\n"
			    "summary: 910 5\n\n"
			    "ob=(1) /bin/program\n"
			    "fl=(1) main.c\n"
			    "fn=(1) main\n"
			    "6 10 1\n"
			    "cfn=(2) a\n"
			    "calls=1 -2 \n"
			    "* 150\n"
			    "cfi=(2) other.c\n"
			    "cfn=(3) b\n"
			    "calls=2 3\n"
			    "+2 750 4\n"
			    "jump=3 +1\n"
			    "+1\n\n"
			    "fn=(2)\n"
			    "4 50\n"
			    "cfi=(2)\n"
			    "cfn=(4) shared(int (*)(int))\n"
			    "calls=10 -1\n"
			    "* 100\n\n"
			    "fl=(2)\n"
			    "fn=(3)\n"
			    "0x3 450\n"
			    "cfn=(4)\n"
			    "calls=30 1\n"
			    "* 300 4\n\n"
			    "fn=(4)\n"
			    "1 300 3\n"
			    "fi=(3) inlined.h\n"
			    "77 100 1\n"
			    "fe=(2)\n"
			    "totals: 910 5\n";

static void test_shares(void **state)
{
	assert_ptr_equal(format_detect(bytes_of_string(graph)), &format_callgrind);
	check_text(graph, "Ir",
		   "main 10\nmain;a 50\nmain;a;shared(int (*)(int)) 100\nmain;b 450\nmain;b;shared(int (*)(int)) 300\n");
	assert_non_null(strstr(buffer_string(&notes), "1 functions have several callers"));
	assert_non_null(strstr(buffer_string(&notes), "call counts of functions\n1 jumps within functions\n"));
	/* Shares go by the first event. */
	struct profile *profile = read_text(graph);
	assert_int_equal(profile_total(profile, 0), 910);
	assert_int_equal(profile_total(profile, 1), 5);
	assert_string_equal(profile_string(profile, profile->comments[0]), "./program x");
	assert_int_equal(profile->labels[profile->label_sets[profile->resource_labels].first].number, 17);
	bool found = false;
	for (size_t i = 1; i < profile->location_count; i++) {
		const struct profile_location *location = &profile->locations[i];
		const struct profile_line *line = &profile->lines[location->line_first];
		const struct profile_function *function = &profile->functions[line->function];
		assert_string_equal(profile_string(profile, profile->mappings[location->mapping].file_name), "/bin/program");
		found |= line->line == 77 && strcmp(profile_string(profile, function->file_name), "inlined.h") == 0;
	}
	assert_true(found);
	profile_free(profile);
}

static void test_recursion(void **state)
{
	/* What a function calls of itself stays one frame. */
	check_text("events: Ir\nfn=main\n1 5\ncfn=f\ncalls=1 0\n2 20\n\nfn=f\n3 20\ncfn=f\ncalls=3 0\n3 12\n", "Ir",
		   "main 5\nmain;f 20\n");
	/* A cycle ends, and what goes round in it is nobody's own. */
	check_text(
		"events: Ir\nfn=main\n1 5\ncfn=f\ncalls=1 0\n2 20\n\nfn=f\n3 4\ncfn=g\ncalls=1 0\n4 16\n\nfn=g\n5 16\ncfn=f\n"
		"calls=1 0\n5 7\n",
		"Ir", "main 5\nmain;f 4\nmain;f;g 16\n");
	/* Nobody calls into the cycle. */
	check_text("events: Ir\nfn=f\n3 4\ncfn=g\ncalls=1 0\n3 6\n\nfn=g\n5 6\ncfn=f\ncalls=1 0\n5 10\n", "Ir", "g 6\ng;f 4\n");
}

static void test_positions(void **state)
{
	/* As `go tool pprof -callgrind` writes it. */
	const char *text = "positions: instr line\nevents: cpu(ms)\n\nob=(1) /bin/x\nfl=(1) a.go\nfn=(1) f\n0x1000 1 1100\n\n"
			   "ob=(1)\nfl=(2) b.go\nfn=(2) g\n+4096 9 10\ncfl=(1)\ncfn=(1)\ncalls=0 * 1\n* * 1100\n";
	struct profile *profile = read_text(text);
	assert_ptr_equal(format_detect(bytes_of_string(text)), &format_callgrind);
	check_profile(profile, "cpu", "g 10\ng;f 1100\n");
	assert_string_equal(profile_string(profile, profile->sample_types[0].unit), "milliseconds");
	uint32_t stack[4];
	for (size_t i = 0; i < profile->sample_count; i++) {
		size_t depth = profile_stack_locations(profile, profile->samples[i].stack, stack, 4);
		assert_int_equal(profile->locations[stack[depth - 1]].address, 0x2000);
		assert_int_equal(profile->lines[profile->locations[stack[depth - 1]].line_first].line, 9);
		if (depth == 2)
			assert_int_equal(profile->locations[stack[0]].address, 0x1000);
	}
	profile_free(profile);
}

static void test_refused(void **state)
{
	refuse("version: 1\n", "no line \"events:\"");
	refuse("fn=f\n1 2\n", "line 2: costs before the line \"events:\"");
	refuse("events: Ir\n1 2\n", "line 2: costs outside of a function");
	refuse("events: Ir\nfn=(3)\n", "line 2: the name (3) is used before it is defined");
	refuse("events: Ir\nfn=f\n1 2 3\n", "more costs than the 1 events");
	refuse("events: Ir\nfn=f\n1 x\n", "a cost is not a number");
	refuse("events: Ir\nfn=f\n1 2x\n", "a cost is not a number");
	refuse("events: Ir\nfn=f\n+x 2\n", "a position is not a number");
	refuse("events: Ir\nfn=f\ncalls=1 2\n", "calls without a callee or a caller");
	refuse("events: Ir\nfn=f\nwhat is this\n", "line 3: unknown line");
	refuse("events: Ir\nevents: Ir Dr\n", "line 2: 2 events, but 1 in an earlier part");
	refuse("events: Ir\npositions: moon\n", "positions must be instr or line");
	refuse("events: Ir\nfn=f\n1 9223372036854775807\n1 9223372036854775807\n", "does not fit into 64 bits");
	refuse("events: Ir\nfn=f\n1 9223372036854775808\n", "out of range");
}

/* Each level calls the next one from two places: 2^40 paths, if all were followed. */
static void test_many_paths(void **state)
{
	struct buffer text;
	buffer_init(&text, SIZE_MAX);
	buffer_append_string(&text, "events: Ir\n");
	int64_t total = 0;
	for (int i = 0; i < 40; i++) {
		for (int k = 0; k < 2; k++) {
			buffer_printf(&text, "fn=f%d_%d\n1 %d\n", i, k, 7 + i);
			total += 7 + i;
			for (int n = 0; n < 2 && i < 39; n++)
				buffer_printf(&text, "cfn=f%d_%d\ncalls=1 0\n%d %d\n", i + 1, n, 2 + n, (39 - i) * 1000 + k);
		}
	}
	struct profile *profile = read_text(buffer_string(&text));
	assert_int_equal(profile_total(profile, 0), total);
	assert_true(profile->sample_count < 100000);
	profile_free(profile);
	buffer_release(&text);
}

static const char *const whole_text = graph;

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shares),	  cmocka_unit_test(test_recursion),  cmocka_unit_test(test_positions),
		cmocka_unit_test(test_refused),	  cmocka_unit_test(test_many_paths), cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, release_notes);
}
