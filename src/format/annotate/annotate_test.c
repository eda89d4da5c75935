/* SPDX-License-Identifier: Apache-2.0 */
/* What tests/convert/annotate.mjs cannot see: memory that is short, sinks and inputs that fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/io.h"
#include "codec/json_tree.h"
#include "format/annotate/annotate.h"

/* clang-format off */
#define EMPTY "\"markers\":{\"data\":[],\"name\":[],\"startTime\":[],\"endTime\":[],\"phase\":[],\"category\":[],\"length\":0}"
static const char shared_base[] =
	"{\"meta\":{\"startTime\":1700000000000,\"product\":\"a\",\"preprocessedProfileVersion\":60,\"categories\":[{\"name\":\"Other\"}],"
	"\"initialVisibleThreads\":[],\"markerSchema\":[{\"name\":\"s\",\"fields\":[]}]},\"shared\":{\"stringArray\":[\"x\"]},"
	"\"threads\":[{\"pid\":\"1\",\"tid\":2,\"name\":\"worker-with-a-n\",\"samples\":{\"time\":[0,10]}," EMPTY "}],\"counters\":[]}";
static const char old_base[] =
	"{\"meta\":{\"startTime\":1700000000000,\"preprocessedProfileVersion\":49},\"threads\":[{\"pid\":\"1\",\"tid\":2,"
	"\"stringArray\":[\"x\"],\"samples\":{\"time\":[0,10]}," EMPTY "}]}";
static const char marks[] =
	"{\"meta\":{\"startTime\":1700000000000,\"preprocessedProfileVersion\":60,\"categories\":[{\"name\":\"Other\"},{\"name\":\"E\"}],"
	"\"markerSchema\":[{\"name\":\"s\",\"fields\":[{\"key\":\"t\",\"format\":\"unique-string\"}]}]},\"shared\":{\"stringArray\":[\"x\",\"y\"]},"
	"\"threads\":[{\"pid\":\"1\",\"tid\":2,\"name\":\"worker-with-a-name\",\"markers\":{\"data\":[{\"type\":\"s\",\"t\":1}],\"name\":[0],"
	"\"startTime\":[1],\"endTime\":[2],\"phase\":[1],\"category\":[1],\"length\":1}},{\"pid\":\"1\",\"tid\":3,\"markers\":{\"data\":[null],"
	"\"name\":[1],\"startTime\":[3],\"endTime\":[null],\"phase\":[0],\"category\":[0],\"length\":1}}],\"counters\":[{\"name\":\"c\","
	"\"pid\":\"1\",\"mainThreadIndex\":0,\"samples\":{\"time\":[1],\"count\":[2],\"length\":1}}]}";
/* clang-format on */

static int annotate(const char *base, const char *markers, struct format_sink *sink, struct annotate_stats *stats,
		    struct error *err)
{
	_cleanup_(annotate_freep) struct annotate *annotate = NULL;
	_cleanup_(input_freep) struct input *input = NULL;
	struct annotate_options options = {.title = "title"};
	char path[] = "/tmp/wick-annotate-XXXXXX";
	int fd = mkstemp(path), base_fd = input_make_nameless(NULL);
	assert_true(fd >= 0 && base_fd >= 0);
	assert_int_equal(write(fd, markers, strlen(markers)), strlen(markers));
	assert_int_equal(write(base_fd, base, strlen(base)), strlen(base));
	close(fd);
	int r = annotate_new(&annotate, err);
	if (r == 0)
		r = annotate_add_markers(annotate, path, NULL, err);
	if (r == 0)
		r = input_from_fd(base_fd, "base", UINT64_MAX, &input, err);
	else
		close(base_fd);
	if (r == 0)
		r = annotate_write(annotate, input, &options, sink, stats, err);
	unlink(path);
	return r;
}

static void test_no_memory(void **state)
{
	(void)state;
	static const char *const bases[] = {shared_base, old_base};
	for (size_t i = 0; i < 2; i++) {
		for (uint64_t n = 1;; n++) {
			struct buffer out;
			struct annotate_stats stats;
			struct error err = {0};
			buffer_init(&out, SIZE_MAX);
			fault_arm(FAULT_ALLOC, n, 0);
			int r = annotate(bases[i], marks, &(struct format_sink){.out = &out}, &stats, &err);
			bool reached = fault_disarm(FAULT_ALLOC);
			if (!reached) {
				struct json_tree *tree;
				assert_int_equal(r, 0);
				assert_int_equal(stats.markers, 2);
				assert_int_equal(stats.threads, 2);
				assert_int_equal(stats.new_threads, 1);
				assert_int_equal(stats.counters, 1);
				assert_int_equal(json_tree_read(buffer_bytes(&out), 0, &tree, NULL), 0);
				json_tree_free(tree);
				buffer_release(&out);
				assert_true(n > 20);
				break;
			}
			if (r != -ENOMEM)
				fail_msg("allocation %d: %d, %s", (int)n, r, err.message);
			assert_true(*err.message);
			buffer_release(&out);
		}
	}
}

static int refuse(void *context, struct bytes bytes, struct error *err)
{
	size_t *left = context;
	if (bytes.len > *left)
		return error_set(err, -ENOSPC, "full");
	*left -= bytes.len;
	return 0;
}

/* A sink that fails ends it with its error, wherever that is. */
static void test_sink(void **state)
{
	(void)state;
	struct buffer out;
	struct annotate_stats stats;
	struct error err = {0};
	size_t left = 10;
	buffer_init(&out, SIZE_MAX);
	struct format_sink sink = {.out = &out, .flush = refuse, .context = &left};
	assert_int_equal(annotate(shared_base, marks, &sink, &stats, &err), -ENOSPC);
	assert_string_equal(err.message, "full");
	buffer_release(&out);
	/* An output that may not be so long. */
	buffer_init(&out, 300);
	sink = (struct format_sink){.out = &out};
	assert_int_equal(annotate(shared_base, marks, &sink, &stats, &err), -E2BIG);
	buffer_release(&out);
}

static void test_reads(void **state)
{
	(void)state;
	for (uint64_t n = 1;; n++) {
		struct buffer out;
		struct annotate_stats stats;
		buffer_init(&out, SIZE_MAX);
		fault_arm(FAULT_READ, n, 0);
		int r = annotate(shared_base, marks, &(struct format_sink){.out = &out}, &stats, NULL);
		bool reached = fault_disarm(FAULT_READ);
		buffer_release(&out);
		assert_true(reached ? r < 0 : r == 0);
		if (!reached)
			break;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_sink),
		cmocka_unit_test(test_reads),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
