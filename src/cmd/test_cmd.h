/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of verbs: a directory of their own, files in it, and what a call prints. */
#ifndef WICK_CMD_TEST_CMD_H
#define WICK_CMD_TEST_CMD_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "cmd/cmd.h"

/* A directory of the test's own; files in it by name. */
struct test_files {
	char directory[64], path[128], text[64 * 1024];
};

static inline void test_files_make(struct test_files *files)
{
	snprintf(files->directory, sizeof(files->directory), "/tmp/wick-cmd-XXXXXX");
	if (!mkdtemp(files->directory))
		abort();
}

static inline void test_files_remove(struct test_files *files)
{
	io_remove_tree(files->directory, NULL);
}

static inline const char *test_path(struct test_files *files, const char *name)
{
	snprintf(files->path, sizeof(files->path), "%s/%s", files->directory, name);
	return files->path;
}

/* Writes it with these permissions; the path is valid until the next call. */
static inline __attribute__((unused)) const char *test_write(struct test_files *files, const char *name, const char *text,
							     mode_t mode)
{
	const char *path = test_path(files, name);
	if (io_write_file(path, text, strlen(text), 0600, NULL) < 0 || chmod(path, mode) < 0)
		abort();
	return path;
}

static inline __attribute__((unused)) const char *test_read(struct test_files *files, const char *name)
{
	FILE *file = fopen(test_path(files, name), "r");
	size_t len = file ? fread(files->text, 1, sizeof(files->text) - 1, file) : 0;
	if (file)
		fclose(file);
	files->text[len] = 0;
	return file ? files->text : NULL;
}

static inline __attribute__((unused)) bool test_exists(struct test_files *files, const char *name)
{
	return access(test_path(files, name), F_OK) == 0;
}

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
