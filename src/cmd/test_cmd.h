/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of verbs: what a call prints, beside files of the test's own. */
#ifndef WICK_CMD_TEST_CMD_H
#define WICK_CMD_TEST_CMD_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/test_files.h"
#include "cmd/cmd.h"

/* Standard output and error go into a file each until test_capture_end(). */
struct test_capture {
	int saved[2], files[2];
	char out[32 * 1024], err[32 * 1024];
};

static inline void test_capture_begin(struct test_capture *capture)
{
	fflush(NULL);
	for (int i = 0; i < 2; i++) {
		capture->saved[i] = dup(i + 1);
		capture->files[i] = memfd_create("captured", MFD_CLOEXEC);
		if (capture->saved[i] < 0 || capture->files[i] < 0 || dup2(capture->files[i], i + 1) < 0)
			abort();
	}
}

static inline void test_capture_end(struct test_capture *capture)
{
	char *texts[] = {capture->out, capture->err};
	fflush(NULL);
	for (int i = 0; i < 2; i++) {
		ssize_t n = pread(capture->files[i], texts[i], sizeof(capture->out) - 1, 0);
		texts[i][n > 0 ? n : 0] = 0;
		dup2(capture->saved[i], i + 1);
		close(capture->saved[i]);
		close(capture->files[i]);
	}
}

/* Runs a verb with these arguments, of which NULL is the last; its exit status. */
static inline __attribute__((unused)) int test_run(int (*verb)(int argc, char **argv), struct test_capture *capture,
						   const char *const *arguments)
{
	char *argv[32];
	int argc = 0;
	while (argc < 31 && arguments[argc]) {
		argv[argc] = (char *)(uintptr_t)arguments[argc];
		argc++;
	}
	argv[argc] = NULL;
	test_capture_begin(capture);
	int status = verb(argc, argv);
	test_capture_end(capture);
	return status;
}

#endif
