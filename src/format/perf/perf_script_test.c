/* SPDX-License-Identifier: Apache-2.0 */
#include "format/test_whole.h"

static const struct format *const tested = &format_perf_script;

/* The labels and the time of a sample. */
static void check_sample(const struct profile *profile, size_t number, const char *expected)
{
	struct buffer out;
	buffer_init(&out, SIZE_MAX);
	assert_true(number < profile->sample_count);
	dump_labels(profile, profile->samples[number].labels, &out);
	buffer_printf(&out, " @%lld", (long long)profile->samples[number].time_ns);
	assert_string_equal(buffer_string(&out), expected);
	buffer_release(&out);
}

static const char recorded[] = "# ========\n"
			       "# hostname : box\n"
			       "# cmdline : /usr/bin/perf record -g ./burn \n"
			       "#\n"
			       "work er 1 28989 [003] 74462.201334:     371665 cycles: \n"
			       "\t            1185 inner+0xc (inlined)\n"
			       "\t            1185 leaf_a+0xc (/tmp/text/burn)\n"
			       "\t            122b work(int, char)+0x2b (/tmp/a file (deleted))\n"
			       "\t           891f5 [unknown] (/usr/lib/libc.so.6)\n"
			       "\t    7ffaed0f2ad7 [unknown] ([unknown])\n"
			       "\n"
			       "work er 1 28989 [003] 74462.201335000:          7 cycles: \n"
			       "\tffffffff814ddd45 kernel_one+0x5 ([kernel.kallsyms])\n"
			       "\tffffffffc0123456 in_module+0x5 ([nf_tables])\n"
			       "\t    7f1234567890 Lapp;::run+0x10 (/tmp/perf-28989.map)\n"
			       "\n"
			       "burn 28987 [000] 74462.3:          1 cycles: \n"
			       "\n";

static void test_default_fields(void **state)
{
	check_text(recorded, "cycles",
		   "0x7ffaed0f2ad7;libc.so.6+0x891f5;work(int, char);leaf_a;inner_[i] 371665\n"
		   "Lapp:::run_[j];in_module_[k];kernel_one_[k] 7\n"
		   "[unknown] 1\n");
	struct profile *profile = read_text(recorded);
	check_sample(profile, 0, " cpu.logical_number=/3/ thread.id=/28989/ thread.name=work er 1/0/ @74462201334000");
	check_sample(profile, 1, " cpu.logical_number=/3/ thread.id=/28989/ thread.name=work er 1/0/ @74462201335000");
	check_sample(profile, 2, " cpu.logical_number=0/0/ thread.id=/28987/ thread.name=burn/0/ @74462300000000");
	assert_int_equal(profile_total(profile, 0), 3);
	assert_int_equal(profile->comment_count, 1);
	assert_string_equal(profile_string(profile, profile->comments[0]), "/usr/bin/perf record -g ./burn");
	assert_string_equal(profile_label_value(profile, profile->resource_labels, "host.name"), "box");
	uint32_t stack[8];
	assert_int_equal(profile_stack_locations(profile, profile->samples[0].stack, stack, 8), 4);
	const struct profile_location *leaf = &profile->locations[stack[0]], *caller = &profile->locations[stack[1]];
	assert_int_equal(leaf->line_count, 2);
	assert_int_equal(leaf->address, 0x1185);
	assert_string_equal(profile_string(profile, profile->mappings[leaf->mapping].file_name), "/tmp/text/burn");
	assert_string_equal(profile_string(profile, profile->mappings[caller->mapping].file_name), "/tmp/a file (deleted)");
	profile_free(profile);
}

static void test_fields(void **state)
{
	/* Process and thread; no time. */
	check_text("perf-exec 17/18 \n\t1185 f (/x)\n\n", NULL, "f 1\n");
	struct profile *profile = read_text("perf-exec 17/18 \n\t1185 f (/x)\n\n");
	check_sample(profile, 0, " process.pid=/17/ thread.id=/18/ thread.name=perf-exec/0/ @0");
	profile_free(profile);
	/* No file, no offset, no ids. */
	check_text("\t            1185 f\n\t 12 main\n\n\t            1185 f\n\n", NULL, "f 1\nmain;f 1\n");
	check_text("17 1.500000: \n\t            1185 f\n\n", NULL, "f 1\n");
	/* Without call chains the frame is on the line of the sample. */
	check_text("            burn 29551 74476.403894:   10101010  cpu-clock:      561ba0085185 leaf_a+0xc (/tmp/text/burn)\n"
		   "       work er 1 29553 74476.413994:   10101010 cpu-clock:      561ba0085185 leaf_a+0xc (/tmp/text/burn)\n",
		   "cpu-clock", "leaf_a 20202020\n");
	check_text("            burn 29551 74476.403894:      561ba0085185 leaf_a\n", NULL, "leaf_a 1\n");
	/* Sources of frames. */
	profile = read_text("a 1 1.5: cycles: \n\t            1185 f+0xc (/x)\n  main.c:17\n\t            1190 g (/x)\n"
			    "  [kernel.kallsyms][ffffffff81]\n\n");
	const struct profile_location *leaf = &profile->locations[profile->stacks[profile->samples[0].stack].location];
	const struct profile_line *line = &profile->lines[leaf->line_first];
	assert_int_equal(line->line, 17);
	assert_string_equal(profile_string(profile, profile->functions[line->function].file_name), "main.c");
	profile_free(profile);
	/* What tracepoints say is no frame. */
	check_text("perf 29904 [000] 74510.629609: sched:sched_switch: prev_comm=perf prev_pid=29904 ==> next_comm=a/0 "
		   "next_pid=18\n"
		   "\tffffffff821f8298 __schedule+0x618 ([kernel.kallsyms])\n\n",
		   NULL, "__schedule_[k] 1\n");
}

static void test_events(void **state)
{
	const char *text = "a 1 1.5:  100 cycles:u: \n\t 1185 f (/x)\n\n"
			   "a 1 1.6:  7 cpu-clock:pppH: \n\t 1185 f (/x)\n\n"
			   "a 1 1.7:  sched:sched_switch: x=y\n\t 1185 f (/x)\n\n"
			   "a 1 1.8:  20 cycles:u: \n\t 1185 f (/x)\n\n";
	struct profile *profile = read_text(text);
	assert_int_equal(profile->sample_type_count, 3);
	assert_string_equal(profile_string(profile, profile->sample_types[0].type), "samples");
	assert_string_equal(profile_string(profile, profile->sample_types[1].type), "cycles:u");
	assert_string_equal(profile_string(profile, profile->sample_types[2].type), "cpu-clock:pppH");
	assert_string_equal(profile_string(profile, profile->sample_types[2].unit), "nanoseconds");
	assert_int_equal(profile_default_sample_type(profile), 1);
	assert_int_equal(profile_total(profile, 0), 4);
	assert_int_equal(profile_total(profile, 1), 120);
	assert_int_equal(profile_total(profile, 2), 7);
	check_sample(profile, 2, " event=sched:sched_switch/0/ thread.id=/1/ thread.name=a/0/ @1700000000");
	profile_free(profile);
	/* One of them is not told: it is no label, either. */
	profile = read_text("a 1 1.5:  100 cycles: \n\t 1185 f (/x)\n\na 1 1.6: \n\t 1185 f (/x)\n\n");
	check_sample(profile, 0, " event=cycles/0/ thread.id=/1/ thread.name=a/0/ @1500000000");
	check_sample(profile, 1, " thread.id=/1/ thread.name=a/0/ @1600000000");
	profile_free(profile);
}

static void test_notes(void **state)
{
	struct profile *profile = read_text("a 1 0.000000: PERF_RECORD_COMM: a:1/1\n"
					    "a 1 1.5: cycles: \n\t 1185 f (/x)\n\n"
					    "a 1 1.6: PERF_RECORD_LOST lost 12\n"
					    "something else\n");
	assert_string_equal(buffer_string(&notes), "12 samples that perf itself lost\n"
						   "2 records other than samples\n"
						   "1 unknown lines\n");
	profile_free(profile);
}

static void test_refused(void **state)
{
	struct profile *profile;
	struct error err = {0};
	assert_int_equal(decode("# nothing\n", &profile, &err), -EBADMSG);
	assert_string_equal(err.message, "no samples in it");
	struct buffer deep;
	buffer_init(&deep, SIZE_MAX);
	buffer_append_string(&deep, "a 1 1.5: cycles: \n");
	for (int i = 0; i <= LIMIT_STACK_DEPTH; i++)
		buffer_append_string(&deep, "\t 1185 f (/x)\n");
	assert_int_equal(decode(buffer_string(&deep), &profile, &err), -E2BIG);
	assert_string_equal(err.message, "line 16386: the stack is deeper than 16384 frames, the limit");
	buffer_clear(&deep);
	for (int i = 0; i < LIMIT_SAMPLE_TYPES; i++)
		buffer_printf(&deep, "a 1 1.5: event%d: \n\t 1185 f (/x)\n\n", i);
	assert_int_equal(decode(buffer_string(&deep), &profile, &err), -E2BIG);
	buffer_release(&deep);
	/* Folded stacks are no such text. */
	assert_ptr_equal(format_detect(bytes_of_string("swapper 0/0;main 12\n")), &format_folded);
	assert_ptr_equal(format_detect(bytes_of_string("a 1;b 12\n")), &format_folded);
	assert_ptr_equal(format_detect(bytes_of_string("main 12\nmain;f 1\n")), &format_folded);
}

static const char *const whole_text = recorded;

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_default_fields), cmocka_unit_test(test_fields),  cmocka_unit_test(test_events),
		cmocka_unit_test(test_notes),	       cmocka_unit_test(test_refused), cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, release_notes);
}
