/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/kernel/kallsyms_text.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/text.h"

#define SYMBOLS_MAX  (4u * 1024 * 1024)
#define LAST_SIZE    4096 /* of the last function, whose end is unknown */
#define NAME_MAX_LEN 512

struct list {
	struct symbol_range *ranges;
	size_t count, capacity;
};

static int read_text(int fd, struct buffer *text, struct error *err)
{
	uint64_t size;
	int r = io_file_size(fd, &size, "the list of symbols", err);
	if (r < 0)
		return r;
	if (size > KALLSYMS_TEXT_BYTES_MAX)
		return error_set(err, -E2BIG, "a list of symbols of more than %llu bytes, the limit", KALLSYMS_TEXT_BYTES_MAX);
	if (buffer_reserve(text, size + 1) < 0)
		return error_nomem(err);
	ssize_t len = io_pread(fd, text->data, size, 0, "the list of symbols", err);
	if (len < 0)
		return (int)len;
	text->len = (size_t)len;
	text->data[len] = 0;
	return 0;
}

/* "OFFSET NAME"; the line is cut at its newline. */
static bool parse_line(char *line, uint64_t *ret_offset, const char **ret_name)
{
	uint64_t offset = 0;
	size_t digits = 0;
	for (int digit; digits < 16 && (digit = text_hex_digit((uint8_t)line[digits])) >= 0; digits++)
		offset = offset << 4 | (unsigned)digit;
	size_t len = line[digits] == ' ' ? strlen(line + digits + 1) : 0;
	*ret_offset = offset;
	*ret_name = line + digits + 1;
	return digits > 0 && len > 0 && len < NAME_MAX_LEN;
}

static int add_line(struct list *list, char *line, size_t number, struct error *err)
{
	uint64_t offset;
	const char *name;
	if (!parse_line(line, &offset, &name))
		return error_set(err, -EBADMSG, "the list of symbols, line %zu: expected OFFSET NAME", number);
	struct symbol_range *before = list->count ? &list->ranges[list->count - 1] : NULL;
	if (offset > UINT32_MAX - LAST_SIZE || (before && offset < before->start))
		return error_set(err, -EBADMSG, "the list of symbols, line %zu: the offset is out of order", number);
	if (before && before->start == offset) /* an alias */
		return 0;
	if (before)
		before->end = (uint32_t)offset;
	int r = array_push(&list->ranges, &list->count, &list->capacity, SYMBOLS_MAX,
			   (struct symbol_range){(uint32_t)offset, (uint32_t)offset + LAST_SIZE, name});
	if (r < 0)
		return r == -E2BIG ? error_set(err, r, "more than %u symbols of a kernel", SYMBOLS_MAX) : error_nomem(err);
	return 0;
}

static int add_lines(struct list *list, char *text, const char *build_id, struct error *err)
{
	size_t number = 1;
	for (char *next, *line = text; *line; line = next, number++) {
		next = line + strcspn(line, "\n");
		if (*next)
			*next++ = 0;
		if (number == 1) {
			if (strncmp(line, KALLSYMS_TEXT_START, strlen(KALLSYMS_TEXT_START)) != 0)
				return error_set(err, -EBADMSG, "not a list of a kernel's symbols");
			if (build_id[0] && strcmp(line + strlen(KALLSYMS_TEXT_START), build_id) != 0)
				return error_set(err, -EINVAL, "the list of symbols belongs to another kernel than %s",
						 build_id);
			continue;
		}
		int r = add_line(list, line, number, err);
		if (r < 0)
			return r;
	}
	return 0;
}

int kallsyms_text_add(int fd, const char *build_id, struct table_writer *writer, struct error *err)
{
	_cleanup_(buffer_release) struct buffer text = {.max = KALLSYMS_TEXT_BYTES_MAX + 1};
	struct list list = {0};
	int r = read_text(fd, &text, err);
	if (r == 0 && text.len > 0)
		r = add_lines(&list, (char *)text.data, build_id, err);
	if (r == 0)
		r = table_writer_add_symbols(writer, list.ranges, list.count, err);
	mem_free(list.ranges);
	return r;
}
