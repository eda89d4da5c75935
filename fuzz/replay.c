/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All fuzz targets in one program without libFuzzer, to run known inputs through them in the ordinary build:
 *
 *   replay TARGET FILE|FOLDER...
 *
 * Each target is compiled with its two functions renamed (Makefile); gen/fuzz_targets.inc has a line TARGET(NAME) for each.
 * Files of a folder are taken in any order; folders in it are not entered.
 */
#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define INPUT_BYTES_MAX (64u << 20)

#define TARGET(name)                                                                                                           \
	int fuzz_run_##name(const uint8_t *data, size_t size);                                                                 \
	__attribute__((weak)) int fuzz_init_##name(int *argc, char ***argv);
#include "fuzz_targets.inc"
#undef TARGET
static const struct {
	const char *name;
	int (*run)(const uint8_t *data, size_t size);
	int (*init)(int *argc, char ***argv);
} targets[] = {
#define TARGET(name) {#name, fuzz_run_##name, fuzz_init_##name},
#include "fuzz_targets.inc"
#undef TARGET
};
#define TARGET_COUNT (sizeof(targets) / sizeof(*targets))

static size_t inputs;

static int fail(const char *path)
{
	fprintf(stderr, "replay: %s: %s\n", path, strerror(errno));
	return 1;
}

static int run_file(size_t target, const char *path, size_t size)
{
	FILE *file = fopen(path, "rb");
	/* Of its very size, so that valgrind sees what reads behind it. */
	uint8_t *data = malloc(size ? size : 1);
	size_t len = file && data ? fread(data, 1, size, file) : 0;
	bool ok = file && data && !ferror(file);
	if (file)
		fclose(file);
	if (ok) {
		targets[target].run(data, len);
		inputs++;
	}
	free(data);
	return ok ? 0 : fail(path);
}

static int run_path(size_t target, const char *path)
{
	struct stat info;
	if (stat(path, &info) < 0)
		return fail(path);
	if (!S_ISDIR(info.st_mode))
		return (uint64_t)info.st_size <= INPUT_BYTES_MAX ? run_file(target, path, (size_t)info.st_size) : 0;
	DIR *directory = opendir(path);
	if (!directory)
		return fail(path);
	int status = 0;
	char below[4096];
	for (struct dirent *entry; !status && (entry = readdir(directory));) {
		int len = snprintf(below, sizeof(below), "%s/%s", path, entry->d_name);
		if (len < (int)sizeof(below) && stat(below, &info) == 0 && S_ISREG(info.st_mode))
			status = run_path(target, below);
	}
	closedir(directory);
	return status;
}

int main(int argc, char **argv)
{
	size_t target = 0;
	while (argc > 1 && target < TARGET_COUNT && strcmp(targets[target].name, argv[1]) != 0)
		target++;
	if (argc < 2 || target == TARGET_COUNT) {
		fprintf(stderr, "usage: replay TARGET FILE|FOLDER...; targets:");
		for (size_t i = 0; i < TARGET_COUNT; i++)
			fprintf(stderr, " %s", targets[i].name);
		fprintf(stderr, "\n");
		return 2;
	}
	if (targets[target].init)
		targets[target].init(&argc, &argv);
	int status = 0;
	targets[target].run((const uint8_t *)"", 0);
	for (int i = 2; i < argc && !status; i++)
		status = run_path(target, argv[i]);
	printf("%zu inputs\n", inputs);
	return status;
}
