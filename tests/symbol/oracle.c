/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Picks and compares for tests/symbol/oracle.test.sh.
 *
 *   oracle pick FILE COUNT [SEED]        COUNT random addresses inside the sized functions of FILE, one a line
 *   oracle compare ADDRESSES OURS THEIRS  answers in the form of llvm-symbolizer; says how many are equal and what kind the
 * others are. Prints "equal N of M" and a line for each kind with an example
 *
 * Equal are answers of the same functions, files, lines and columns. Exit status 0 if 99.9 % are.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "elf/elf_symbols.h"

#define ANSWER_MAX (1 << 20)

static int fail(const char *what)
{
	fprintf(stderr, "oracle: %s\n", what);
	return 2;
}

static int pick(const char *path, unsigned long count, uint64_t seed)
{
	struct elf_file file;
	struct elf_symbols list;
	struct error err = {0};
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	elf_symbols_init(&list);
	if (fd < 0 || elf_file_open(&file, fd, path, &err) < 0 || elf_symbols_add_file(&list, &file, &err) < 0)
		return fail(err.message[0] ? err.message : path);
	const struct elf_section *text = elf_file_find_section(&file, ".text");
	/* Each byte of a function is as likely as any other. */
	uint64_t *ends = calloc(list.count + 1, sizeof(*ends)), total = 0;
	for (size_t i = 0; ends && text && i < list.count; i++) {
		const struct elf_symbol *s = &list.items[i];
		bool counts = !s->is_unsized && s->type == STT_FUNC && s->address >= text->address &&
			      s->address - text->address < text->size;
		ends[i] = total += counts ? s->size : 0;
	}
	if (!ends || total == 0)
		return fail("no functions with a size in .text");
	for (unsigned long n = 0; n < count; n++) {
		uint64_t at = hash64_mix(seed * 0x9e3779b97f4a7c15 + n) % total;
		size_t low = 0, high = list.count;
		while (low < high) {
			size_t middle = low + (high - low) / 2;
			if (ends[middle] <= at)
				low = middle + 1;
			else
				high = middle;
		}
		const struct elf_symbol *s = &list.items[low];
		printf("0x%llx\n", (unsigned long long)(s->address + s->size - (ends[low] - at)));
	}
	free(ends);
	elf_symbols_release(&list);
	elf_file_release(&file);
	return 0;
}

/* The lines up to an empty one; false at the end. */
static bool next_answer(FILE *in, char *answer)
{
	size_t len = 0;
	answer[0] = 0;
	while (len < ANSWER_MAX - 1 && fgets(answer + len, (int)(ANSWER_MAX - len), in)) {
		if (answer[len] == '\n')
			return true;
		len += strlen(answer + len);
	}
	return false;
}

/* Cuts the outermost function's name out of an answer: the last line but one and the empty one. */
static void split(char *answer, char **ret_name)
{
	size_t len = strlen(answer);
	unsigned lines = 0;
	char *at = answer + len;
	while (at > answer && lines < 4)
		lines += *--at == '\n';
	*ret_name = lines == 4 ? at + 1 : at;
}

struct kind {
	const char *name;
	unsigned long count;
	char example[32];
};
enum { KIND_OUTER, KIND_CHAIN, KIND_LINE, KINDS };

static unsigned count_lines(const char *text)
{
	unsigned lines = 0;
	for (; *text; text++)
		lines += *text == '\n';
	return lines;
}

static bool same_lines(const char *a, const char *b, unsigned step)
{
	for (unsigned line = 0; *a && *b; line++) {
		size_t x = strcspn(a, "\n"), y = strcspn(b, "\n");
		if (line % 2 == step && (x != y || memcmp(a, b, x) != 0))
			return false;
		a += x + (a[x] != 0);
		b += y + (b[y] != 0);
	}
	return !*a && !*b;
}

static unsigned kind_of(char *ours, char *theirs)
{
	if (count_lines(ours) != count_lines(theirs))
		return KIND_CHAIN;
	if (!same_lines(ours, theirs, 1))
		return KIND_LINE;
	char *x, *y;
	split(ours, &x);
	split(theirs, &y);
	bool same_inside = x - ours == y - theirs && memcmp(ours, theirs, (size_t)(x - ours)) == 0;
	return same_inside ? KIND_OUTER : KIND_CHAIN;
}

static int compare(const char *addresses_path, const char *ours_path, const char *theirs_path)
{
	struct kind kinds[KINDS] = {{"outermost name"}, {"chain"}, {"line"}};
	FILE *addresses = fopen(addresses_path, "r"), *ours = fopen(ours_path, "r"), *theirs = fopen(theirs_path, "r");
	char *mine = malloc(ANSWER_MAX), *other = malloc(ANSWER_MAX), address[32];
	if (!addresses || !ours || !theirs || !mine || !other)
		return fail(strerror(errno));
	unsigned long total = 0, equal = 0;
	while (fgets(address, sizeof(address), addresses)) {
		if (!next_answer(ours, mine) || !next_answer(theirs, other))
			return fail("there are fewer answers than addresses");
		total++;
		if (strcmp(mine, other) == 0) {
			equal++;
			continue;
		}
		struct kind *kind = &kinds[kind_of(mine, other)];
		if (kind->count++ == 0)
			memcpy(kind->example, address, sizeof(address));
	}
	printf("equal %lu of %lu\n", equal, total);
	for (unsigned i = 0; i < KINDS; i++)
		if (kinds[i].count)
			printf("different %s: %lu, such as %s", kinds[i].name, kinds[i].count, kinds[i].example);
	fclose(addresses);
	fclose(ours);
	fclose(theirs);
	free(mine);
	free(other);
	return equal * 1000 >= total * 999 && total > 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
	if (argc >= 4 && strcmp(argv[1], "pick") == 0)
		return pick(argv[2], strtoul(argv[3], NULL, 10), argc > 4 ? strtoull(argv[4], NULL, 10) : 1);
	if (argc == 5 && strcmp(argv[1], "compare") == 0)
		return compare(argv[2], argv[3], argv[4]);
	return fail("usage: oracle pick FILE COUNT [SEED] | oracle compare ADDRESSES OURS THEIRS");
}
