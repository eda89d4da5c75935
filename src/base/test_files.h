/* SPDX-License-Identifier: Apache-2.0 */
/* For tests: a directory of their own, and files in it by name. */
#ifndef WICK_BASE_TEST_FILES_H
#define WICK_BASE_TEST_FILES_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"

/* A directory of the test's own; files in it by name. */
struct test_files {
	char directory[64], path[128], text[64 * 1024];
};

static inline __attribute__((unused)) void test_files_make(struct test_files *files)
{
	snprintf(files->directory, sizeof(files->directory), "/tmp/wick-test-XXXXXX");
	if (!mkdtemp(files->directory))
		abort();
}

static inline __attribute__((unused)) void test_files_remove(struct test_files *files)
{
	io_remove_tree(files->directory, NULL);
}

static inline __attribute__((unused)) const char *test_path(struct test_files *files, const char *name)
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

#endif
