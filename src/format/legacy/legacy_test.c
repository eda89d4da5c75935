/* SPDX-License-Identifier: Apache-2.0 */
#include "format/test_text.h"

#include "format/legacy/legacy.h"

static const struct format *const tested = &format_pprof;

/* ---- google/pprof's own files ---- */

/* Totals of the values as google/pprof has them in its golden texts (FILE.string). */
static void golden_totals(const char *name, size_t types, int64_t *totals)
{
	char path[256], *line, *rest;
	bool in_samples = false;
	snprintf(path, sizeof(path), "%s.string", name);
	struct buffer file = read_data(path);
	rest = (char *)(uintptr_t)buffer_string(&file);
	assert_non_null(rest);
	while ((line = strsep(&rest, "\n"))) {
		char *at = line;
		if (strncmp(line, "Locations", 9) == 0)
			break;
		in_samples |= strcmp(line, "Samples:") == 0;
		if (!in_samples || !strchr(line, ':') || strstr(line, "bytes:["))
			continue;
		for (size_t i = 0; i < types; i++) {
			char *end;
			long long value = strtoll(at, &end, 10);
			if (end == at)
				break;
			totals[i] += value;
			at = end;
		}
	}
	buffer_release(&file);
}

static void test_files_of_google(void **state)
{
	static const struct {
		const char *name, *kind;
	} files[] = {
		{"pprof/google-profile/cppbench.contention", "contention"},
		{"pprof/google-profile/cppbench.cpu", "CPU"},
		{"pprof/google-profile/cppbench.growth", "heap"},
		{"pprof/google-profile/cppbench.heap", "heap"},
		{"pprof/google-profile/cppbench.thread", "thread"},
		{"pprof/google-profile/cppbench.thread.all", "thread"},
		{"pprof/google-profile/cppbench.thread.none", "thread"},
		{"pprof/google-profile/go.crc32.cpu", "CPU"},
		{"pprof/google-profile/go.godoc.thread", "count"},
		{"pprof/google-profile/gobench.cpu", "CPU"},
		{"pprof/google-profile/gobench.heap", "heap"},
		{"pprof/google-profile/java.contention", "Java"},
		{"pprof/google-profile/java.cpu", "CPU"},
		{"pprof/google-profile/java.heap", "Java"},
	};
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		struct buffer file = read_data(files[i].name);
		int64_t totals[4] = {0};
		assert_string_equal(legacy_kind(buffer_bytes(&file)), files[i].kind);
		struct profile *profile = decode_or_fail(NULL, buffer_bytes(&file), files[i].name);
		golden_totals(files[i].name, profile->sample_type_count, totals);
		assert_true(profile->sample_count > 0);
		for (size_t t = 0; t < profile->sample_type_count; t++)
			if (profile_total(profile, t) != totals[t])
				fail_msg("%s: value %zu is %lld, not %lld", files[i].name, t,
					 (long long)profile_total(profile, t), (long long)totals[t]);
		profile_free(profile);
		buffer_release(&file);
	}
}

/* ---- words ---- */

struct word_form {
	unsigned size;
	bool is_big;
};

static void add_words(struct buffer *out, struct word_form form, const uint64_t *words, size_t count)
{
	for (size_t i = 0; i < count; i++)
		for (unsigned b = 0; b < form.size; b++) {
			unsigned shift = 8 * (form.is_big ? form.size - 1 - b : b);
			assert_int_equal(buffer_append_byte(out, (uint8_t)(words[i] >> shift)), 0);
		}
}

static const char maps[] = "00400000-00500000 r-xp 00000000 08:01 12   /bin/app\n"
			   "00600000-00700000 rw-p 00100000 08:01 12   /bin/app\n"
			   "7f0000000-7f0010000 r-xp 00002000 08:01 13 /lib/libc.so.6\n";

/* Two stacks of three frames and the handler's two, the second one twice; and another that has them not. */
static struct buffer cpu_file(struct word_form form, bool has_end)
{
	static const uint64_t head[] = {0, 3, 0, 10000, 0};
	static const uint64_t samples[] = {1, 5, 0x400010, 0x400901, 0x400801, 0x400201, 0x400301,
					   2, 5, 0x400020, 0x400901, 0x400801, 0x400201, 0x400301};
	static const uint64_t end[] = {0, 1, 0};
	struct buffer out;
	buffer_init(&out, MIB);
	add_words(&out, form, head, 5);
	add_words(&out, form, samples, 14);
	if (!has_end)
		return out;
	add_words(&out, form, end, 3);
	assert_int_equal(buffer_append_string(&out, maps), 0);
	return out;
}

static void test_words(void **state)
{
	static const struct word_form forms[] = {{4, false}, {4, true}, {8, false}, {8, true}};
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		for (unsigned has_end = 0; has_end < 2; has_end++) {
			struct buffer file = cpu_file(forms[i], has_end);
			struct profile *profile = decode_or_fail(NULL, buffer_bytes(&file), "words");
			assert_int_equal(profile->period, 10000000);
			assert_int_equal(profile_total(profile, 0), 3);
			assert_int_equal(profile_total(profile, 1), 30000000);
			check_profile(profile, "samples",
				      has_end ? "app+0x300;app+0x200;app+0x10 1\napp+0x300;app+0x200;app+0x20 2\n"
					      : "0x400300;0x400200;0x400010 1\n0x400300;0x400200;0x400020 2\n");
			profile_free(profile);
			buffer_release(&file);
		}
	}
}

static void refuse_words(const uint64_t *words, size_t count, const char *says)
{
	struct buffer file;
	struct profile *profile = NULL;
	struct error err = {0};
	buffer_init(&file, MIB);
	add_words(&file, (struct word_form){8, false}, words, count);
	assert_int_equal(format_decode(NULL, buffer_bytes(&file), NULL, &profile, &err), -EBADMSG);
	if (!strstr(err.message, says))
		fail_msg("\"%s\" does not say \"%s\"", err.message, says);
	buffer_release(&file);
}

static void test_bad_words(void **state)
{
	refuse_words((const uint64_t[]){0, 4, 0, 100, 0, 1, 1, 5, 0, 1, 0}, 11, "unknown header");
	refuse_words((const uint64_t[]){0, 3, 0, 0, 0, 1, 1, 5, 0, 1, 0}, 11, "unknown header");
	refuse_words((const uint64_t[]){0, 3, 0, 1ull << 62, 0, 1, 1, 5, 0, 1, 0}, 11, "out of range");
	refuse_words((const uint64_t[]){0, 3, 0, 100, 0, 1, 1ull << 40, 5, 0, 1, 0}, 11, "does not fit");
	/* A file that was cut within a stack keeps what is there. */
	struct buffer file = cpu_file((struct word_form){8, false}, false);
	struct buffer said = {.max = KIB};
	struct format_options options = {.notes = &said};
	struct profile *profile = NULL;
	assert_int_equal(format_decode(NULL, (struct bytes){file.data, file.len - 12}, &options, &profile, NULL), 0);
	assert_int_equal(profile_total(profile, 0), 3);
	assert_non_null(strstr(buffer_string(&said), "1 stacks: frames beyond the end of the file"));
	profile_free(profile);
	buffer_release(&said);
	buffer_release(&file);
}

/* ---- texts ---- */

/* google/pprof looks for these after a line of dashes only. */
#define MEMORY_MAP "\n--- Memory map: ---\n00400000-00500000 r-xp 00000000 08:01 12   /bin/app\n"
#define MAPPED	   "\nMAPPED_LIBRARIES:\n00400000-00500000 r-xp 00000000 08:01 12   /bin/app\n"

static void test_heap(void **state)
{
	static const char both[] = "heap profile:     3:   300 [    9:  4000] @ heapprofile\n"
				   "     1:   100 [     5:  3000] @ 0x400011 0x400101\n"
				   "     2:   200 [     4:  1000] @ 0x400021 0x400101\n" MAPPED;
	check_text(both, "inuse_space", "app+0x100;app+0x10 100\napp+0x100;app+0x20 200\n");
	check_text(both, "alloc_objects", "app+0x100;app+0x10 5\napp+0x100;app+0x20 4\n");
	/* 512 bytes an object at a rate of 512: each stands for 1 / (1 - 1/e). */
	check_text("heap profile: 1: 512 [ 1: 512] @ heap_v2/512\n1: 512 [1: 512] @ 0x400011\n" MAPPED, "space",
		   "app+0x10 809\n");
	check_text("heap profile: 1: 512 [ 1: 512] @ heap/1024\n1: 512 [1: 512] @ 0x400011\n" MAPPED, "objects",
		   "app+0x10 1\n");
	check_text("heap profile: 2: 7 [ 2: 7] @ growthz\n2: 7 [2: 7] @ 0x400011\n# comment\n" MAPPED, "space", "app+0x10 7\n");
	refuse("heap profile: 1: 1 [1: 1] @ heapster\n", "unknown header");
	refuse("heap profile: 1: 1\n", "unknown header");
	refuse("heap profile: 1: 1 [1: 1] @ growthz\nhello\n", "line 2: not a sample");
	refuse("heap profile: 1: 1 [1: 1] @ growthz\n0: 5 [1: 1] @ 0x1\n", "5 bytes of no objects");
	refuse("heap profile: 1: 1 [1: 1] @ growthz\n99999999999999999999: 5 [1: 1] @ 0x1\n", "out of range");
	refuse("heap profile: 1: 1 [1: 1] @ growthz\n1: 5 [1: 1] @ 0x11111111111111111\n", "more than 64 bits");
}

static void test_counts(void **state)
{
	static const char text[] = "goroutine profile: total 7\n3 @ 0x400011 0x400101\n#\t0x400010\tmain.f+0x10\t/a.go:3\n\n"
				   "4 @ 0x400021\n" MEMORY_MAP;
	struct profile *profile = read_text(text);
	assert_string_equal(profile_string(profile, profile->sample_types[0].type), "goroutine");
	check_profile(profile, NULL, "app+0x100;app+0x10 3\napp+0x20 4\n");
	profile_free(profile);
}

static void test_counts_refused(void **state)
{
	check_text("# a comment\nthreadcreate profile: total 1\n1 @ 0x400011\n--- x\nMAPPED_LIBRARIES:\n"
		   "400000-500000: /bin/app (@100)\n",
		   NULL, "app+0x110 1\n");
	refuse("goroutine profile: total 7\n3 @\n", "line 2: not a sample");
	refuse("goroutine profile: total 7\n3 @ 0xzz\n", "line 2: not a sample");
	refuse("goroutine profile: total 7\nx @ 0x1\n", "line 2: not a sample");
}

static void test_threads(void **state)
{
	static const char text[] = "--- threadz 1 ---\n\n--- Thread 7f0 (name: main/1) stack: ---\n  0x400010 f\n  0x400101 g\n"
				   "--- Thread 7f1 (name: a/b/2) stack: ---\n  [same as previous thread]\n"
				   "--- Thread 7f2 (name: c/3) stack: ---\n 0x400020 0x400101\n--- Memory map: ---\n"
				   "00400000-00500000: /bin/app\n";
	check_text(text, NULL, "app+0x100;app+0x10 2\napp+0x100;app+0x20 1\n");
	refuse("--- threadz 1 ---\n\n--- Thread 7f0 (name: main/1) stack: ---\n  0x400010\n", "truncated");
	refuse("--- threadz 1 ---\n\n--- Thread main ---\n  0x400010\n--- x\n", "begins neither");
}

static void test_contention(void **state)
{
	static const char text[] =
		"--- contentionz 1 ---\ncycles/second = 2000000000\nsampling period = 100\nms since reset = 50\n"
		"discarded samples = 0\n 1000 2 @ 0x400011 0x400101\n" MEMORY_MAP;
	struct profile *profile = read_text(text);
	assert_int_equal(profile->period, 100);
	assert_int_equal(profile->duration_ns, 50000000);
	check_profile(profile, "contentions", "app+0x100;app+0x10 200\n");
	check_profile(profile, "delay", "app+0x100;app+0x10 50000\n");
	profile_free(profile);
	check_text("--- mutex:\ncycles/second=1000000000\nsampling period=1\n7 3 @ "
		   "0x400011\n#\t0x400010\tf+0x1\ta.go:1\n" MEMORY_MAP,
		   "delay", "app+0x10 7\n");
	/* Digits without a blank between them are both numbers, for google/pprof. */
	check_text("--- mutex:\nsampling period=1\n73 @ 0x400011\n" MEMORY_MAP, "contentions", "app+0x10 3\n");
	refuse("--- mutex:\nweight = 3\n", "\"weight\": unknown");
	refuse("--- mutex:\nsampling period = many\n", "with a bad value");
	refuse("--- mutex:\nhello\n", "line 2: not a sample");
}

static void test_java(void **state)
{
	check_text("--- contentionz 1 ---\nformat = java\nresolution = microseconds\nsampling period = 100\n"
		   "   5 2 @ 0x1 0x2 0x3\n\n 0x1 lib.f (/usr/lib/lib.so)\n 0x2 a.B.run (B.java:42)\n 0x9 unused\n",
		   "delay", "[unknown];a.B.run;lib.f 500\n");
	check_text("--- heapz 1 ---\nformat = java\nresolution = bytes\n   524288 1 @ 0x1\n 0x1 GC\n", "inuse_objects",
		   "GC 1\n");
	refuse("--- heapz 1 ---\nformat = cobol\n", "\"format\": unknown");
	refuse("--- heapz 1 ---\nformat = java\nresolution = bytes\n 5 0 @ 0x1\n", "5 bytes of no objects");
	refuse("--- heapz 1 ---\nformat = java\n 5 1 @ 0x1\n", "no resolution");
}

/* ---- mappings ---- */

static void check_maps(const char *text, const char *expected)
{
	struct buffer all;
	buffer_init(&all, MIB);
	buffer_append_string(&all, "heap profile: 1: 1 [1: 1] @ growthz\n1: 1 [1: 1] @ 0x401001\nMAPPED_LIBRARIES:\n");
	buffer_append_string(&all, text);
	check_text(buffer_string(&all), "objects", expected);
	buffer_release(&all);
}

/* Few bytes stand for many. */
static void test_long_values(void **state)
{
	struct buffer all = {.max = MIB};
	buffer_append_string(&all, "heap profile: 1: 1 [1: 1] @ growthz\n1: 1 [1: 1] @ 0x401001\nMAPPED_LIBRARIES:\na=");
	for (int i = 0; i < 60000; i++)
		buffer_append_byte(&all, 'x');
	for (int i = 0; i < 2000; i++)
		buffer_append_string(&all, "\n$a");
	refuse(buffer_string(&all), "the values of $NAME in the mappings have more than");
	buffer_release(&all);
}

static void test_maps(void **state)
{
	check_maps("400000-402000 r-xp 00001000 fd:00 1 /bin/app\n", "app+0x2000 1\n");
	check_maps("400000-402000 rw-p 00001000 fd:00 1 /bin/app\n", "0x401000 1\n");
	check_maps("0x400000 0x402000 /bin/app (@1000) abc123\n", "app+0x2000 1\n");
	check_maps("I1127 12:00:00 maps.cc:12] 400000-402000: /bin/app\n", "app+0x1000 1\n");
	check_maps("build=/bin\n400000-402000: $build/app\n", "app+0x1000 1\n");
	/* Two parts of one file. */
	check_maps("400000-401000 r-xp 00000000 fd:00 1 /bin/app\n401000-402000 r-xp 00001000 fd:00 1 /bin/app\n",
		   "app+0x1000 1\n");
	/* The program's first part is missing. */
	check_maps("401800-402000 r-xp 00001800 fd:00 1 /bin/app\n", "app+0x1000 1\n");
	check_maps("400000-401000 r-xp 00000000 00:00 0 /anon_hugepage\n401000-402000 r-xp 00001000 fd:00 1 /bin/app\n",
		   "app+0x1000 1\n");
	check_maps("nonsense\n=\n$\n\n400000-\n-402000\n", "0x401000 1\n");
	/* The program comes first. */
	struct profile *profile = read_text("heap profile: 1: 1 [1: 1] @ growthz\n1: 1 [1: 1] @ 0x7000\nMAPPED_LIBRARIES:\n"
					    "6000-8000 r-xp 0 0:0 0 [vdso]\n9000-a000 r-xp 0 0:0 0 /lib/c.so.6\n"
					    "c000-d000 r-xp 0 0:0 0 /bin/app\n");
	assert_string_equal(profile_string(profile, profile->mappings[1].file_name), "/bin/app");
	assert_int_equal(profile->mapping_count, 4);
	profile_free(profile);
}

/* ---- faults ---- */

static const char *const texts[] = {
	"heap profile:     3:   300 [    9:  4000] @ heap_v2/512\n     1:   100 [     5:  3000] @ 0x400011 0x400101\n" MAPPED,
	"goroutine profile: total 7\n3 @ 0x400011 0x400101\n4 @ 0x400021\n" MEMORY_MAP,
	"--- threadz 1 ---\n\n--- Thread 7f0 (name: main/1) stack: ---\n  0x400010 f\n  0x400101 g\n--- Memory map: ---\n"
	"a=b\n00400000-00500000: /bin/$a\n",
	"--- contentionz 1 ---\ncycles/second = 2000000000\nsampling period = 100\n 1000 2 @ 0x400011 0x400101\n" MEMORY_MAP,
	"--- heapz 1 ---\nformat = java\nresolution = bytes\n   524288 1 @ 0x1 0x2\n 0x1 a.B.run (B.java:42)\n 0x2 lib "
	"(/a/b.so)\n",
};

static void test_damaged(void **state)
{
	struct buffer file = cpu_file((struct word_form){8, false}, true);
	check_damaged(tested, buffer_bytes(&file));
	buffer_release(&file);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		check_damaged(tested, bytes_of_string(texts[i]));
}

static void test_no_memory(void **state)
{
	struct buffer file = cpu_file((struct word_form){8, false}, true);
	check_no_memory(tested, buffer_bytes(&file));
	buffer_release(&file);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		check_no_memory(tested, bytes_of_string(texts[i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_files_of_google),
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_bad_words),
		cmocka_unit_test(test_heap),
		cmocka_unit_test(test_counts),
		cmocka_unit_test(test_counts_refused),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_contention),
		cmocka_unit_test(test_java),
		cmocka_unit_test(test_maps),
		cmocka_unit_test(test_long_values),
		cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, release_notes);
}
