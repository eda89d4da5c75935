/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading call frame information alone.
 *
 *   cfi [-d] FILE...
 *
 * Prints for each file: rows, entries, bad entries, unsupported rows, the best of the rounds in milliseconds of CPU time, rows
 * a second of it. A round opens the file and reads it anew, from the page cache; a callback stores each row. -d prints the rows
 * instead.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/time.h"
#include "elf/cfi.h"

#define ROUNDS	  9
#define BUDGET_NS (2 * NS_PER_S) /* for one file; one round is always run */

struct row {
	uint64_t address;
	struct unwind_rule rule;
};
static struct row *rows;
static size_t row_capacity;

static int store_row(void *context, uint64_t address, const struct unwind_rule *rule)
{
	size_t *count = context;
	if (*count == row_capacity && array_reserve(&rows, &row_capacity, *count + 1, CFI_ROWS_MAX) < 0)
		return -1;
	rows[(*count)++] = (struct row){address, *rule};
	return 0;
}

static int read_once(const char *path, struct cfi_stats *ret, struct error *err)
{
	struct elf_file file;
	size_t count = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return error_set(err, -1, "%s: cannot be opened", path);
	int r = elf_file_open(&file, fd, path, err);
	if (r == 0) {
		r = cfi_read(&file, store_row, &count, ret, err);
		elf_file_release(&file);
	}
	close(fd);
	return r;
}

static const char *const forms[] = {"none", "reg", "deref", "plt", "signal", "unsupported", "end"};
static const char *const wheres[] = {"same", "cfa", "reg", "fp", "lost"};

static void print_rows(size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct unwind_rule *r = &rows[i].rule;
		printf("%" PRIx64 " %s r%u %d %d ra %s %d fp %s %d\n", rows[i].address, forms[r->cfa], r->cfa_register,
		       r->offset, r->offset2, wheres[r->ra], r->ra_offset, wheres[r->fp], r->fp_offset);
	}
}

static int measure(const char *path, bool prints)
{
	struct cfi_stats stats = {0};
	struct error err = {0};
	int64_t best = INT64_MAX, begun = time_monotonic_ns();
	for (int i = 0; i < ROUNDS && (i == 0 || time_monotonic_ns() - begun < (int64_t)BUDGET_NS); i++) {
		int64_t start = time_thread_cpu_ns();
		if (read_once(path, &stats, &err) < 0) {
			fprintf(stderr, "cfi: %s\n", err.message);
			return 1;
		}
		int64_t took = time_thread_cpu_ns() - start;
		best = took < best ? took : best;
		if (prints) {
			print_rows(stats.rows);
			return 0;
		}
	}
	printf("%9" PRIu64 " rows %7" PRIu64 " entries %3" PRIu64 " bad %4" PRIu64 " unsupported %9.3f ms %6.1f M rows/s  %s\n",
	       stats.rows, stats.entries, stats.bad_entries, stats.unsupported, (double)best / 1e6,
	       (double)stats.rows * 1e3 / (double)best, path);
	return 0;
}

int main(int argc, char **argv)
{
	bool prints = argc > 1 && strcmp(argv[1], "-d") == 0;
	int failed = 0;
	for (int i = prints ? 2 : 1; i < argc; i++)
		failed |= measure(argv[i], prints);
	return failed;
}
