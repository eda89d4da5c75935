/* SPDX-License-Identifier: Apache-2.0 */
#include "server/parca/columns.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"

#define ITEMS_MAX ((size_t)INT32_MAX)

static bool is_list(enum parca_column_kind kind)
{
	return kind == PARCA_COLUMN_UINT32_LIST || kind == PARCA_COLUMN_INT64_LIST;
}

int parca_columns_init(struct parca_columns *columns, const struct profile *profile, const struct parca_column_form *forms,
		       size_t count, size_t rows, struct error *err)
{
	*columns = (struct parca_columns){.profile = profile, .forms = forms, .rows = rows};
	if (count > PARCA_COLUMNS_MAX)
		return error_set(err, -EINVAL, "more than %d columns", PARCA_COLUMNS_MAX);
	columns->count = count;
	for (size_t i = 0; i < count; i++) {
		struct parca_column *column = &columns->columns[i];
		buffer_init(&column->clean, SIZE_MAX);
		column->present = mem_zalloc_array(rows + 1, 1);
		if (is_list(forms[i].kind))
			column->offsets = mem_zalloc_array(rows + 1, sizeof(*column->offsets));
		else
			column->values = mem_zalloc_array(rows + 1, sizeof(*column->values));
		if (!column->present || (!column->offsets && !column->values))
			return error_nomem(err);
	}
	return 0;
}

void parca_columns_release(struct parca_columns *columns)
{
	for (size_t i = 0; i < columns->count; i++) {
		struct parca_column *column = &columns->columns[i];
		mem_free(column->values);
		mem_free(column->present);
		mem_free(column->texts);
		mem_free(column->offsets);
		mem_free(column->items);
		buffer_release(&column->clean);
	}
	columns->count = 0;
}

void parca_columns_add_item(struct parca_columns *columns, size_t which, uint64_t item)
{
	struct parca_column *column = &columns->columns[which];
	int r = array_push(&column->items, &column->item_count, &column->item_capacity, ITEMS_MAX, item);
	if (r < 0 && !columns->failed)
		columns->failed = r;
}

void parca_columns_end_list(struct parca_columns *columns, size_t which, size_t row, bool is_present)
{
	struct parca_column *column = &columns->columns[which];
	column->offsets[row + 1] = (int32_t)column->item_count;
	column->present[row] = is_present;
}

/* ---- writing ---- */

/* Numbers in place, as ones of `size` bytes: little endian. */
static void narrow(uint64_t *values, size_t count, size_t size)
{
	uint8_t *to = (uint8_t *)values;
	for (size_t i = 0; i < count; i++) {
		uint64_t value = values[i];
		memcpy(to + i * size, &value, size);
	}
}

/* Parca's server leaves out the largest number of each type; so its columns and ours are of the same. */
static unsigned width_of(uint64_t largest)
{
	return largest < UINT8_MAX ? 0 : largest < UINT16_MAX ? 1 : largest < UINT32_MAX ? 2 : 3;
}

static unsigned least_unsigned(const struct parca_column *column, size_t rows)
{
	uint64_t largest = column->largest;
	for (size_t i = 0; i < rows; i++)
		largest = column->values[i] > largest ? column->values[i] : largest;
	return width_of(largest);
}

static unsigned least_signed(const struct parca_column *column, size_t rows)
{
	uint64_t largest = 0;
	for (size_t i = 0; i < rows; i++) {
		int64_t value = (int64_t)column->values[i];
		uint64_t size = value < 0 ? ~(uint64_t)value : (uint64_t)value;
		largest = size > largest ? size : largest;
	}
	return largest < INT8_MAX ? 0 : largest < INT16_MAX ? 1 : largest < INT32_MAX ? 2 : 3;
}

static enum arrow_kind write_numbers(struct parca_column *column, size_t rows, enum arrow_kind least, unsigned width)
{
	narrow(column->values, rows, (size_t)1 << width);
	return (enum arrow_kind)(least + width);
}

/* A text of a dictionary of UTF-8; what is none gets U+FFFD. Those made anew are views of `clean`, by offsets at first, since
 * it moves while it grows. */
static int clean_texts(struct parca_column *column, size_t count, struct error *err)
{
	for (size_t i = 0; i < count; i++) {
		size_t start = column->clean.len;
		if (text_is_utf8(column->texts[i]))
			continue;
		if (text_append_utf8(&column->clean, column->texts[i]) < 0)
			return error_nomem(err);
		column->texts[i] = (struct bytes){NULL, column->clean.len - start};
	}
	size_t at = 0;
	for (size_t i = 0; i < count; i++) {
		if (column->texts[i].data || !column->texts[i].len)
			continue;
		column->texts[i].data = column->clean.data + at;
		at += column->texts[i].len;
	}
	return 0;
}

/* Strings of the profile by their number among those that are used. */
static int write_texts(struct parca_columns *columns, struct parca_column *column, bool is_utf8, struct arrow_column *out,
		       struct error *err)
{
	size_t strings = columns->profile->strings.count, used = 0;
	_cleanup_(mem_freep) uint32_t *numbers = mem_alloc_array(strings, sizeof(*numbers));
	column->texts = mem_alloc_array(strings, sizeof(*column->texts));
	if (!numbers || !column->texts)
		return error_nomem(err);
	memset(numbers, 0xff, strings * sizeof(*numbers));
	for (size_t i = 0; i < columns->rows; i++) {
		uint32_t text = (uint32_t)column->values[i];
		if (!column->present[i])
			continue;
		if (numbers[text] == UINT32_MAX) {
			column->texts[used] = profile_string_bytes(columns->profile, text);
			numbers[text] = (uint32_t)used++;
		}
		column->values[i] = numbers[text];
	}
	narrow(column->values, columns->rows, sizeof(uint32_t));
	out->texts = column->texts;
	out->text_count = used;
	out->is_utf8 = is_utf8;
	return is_utf8 ? clean_texts(column, used, err) : 0;
}

static enum arrow_kind index_kind(enum parca_column_kind kind, size_t texts)
{
	switch (kind) {
	case PARCA_COLUMN_BYTES: return (enum arrow_kind)(ARROW_UINT8 + width_of(texts));
	case PARCA_COLUMN_TEXT_INT32: return ARROW_INT32;
	case PARCA_COLUMN_TEXT_UINT16: return texts <= UINT16_MAX ? ARROW_UINT16 : ARROW_UINT32;
	default: return ARROW_UINT32;
	}
}

static int write_column(struct parca_columns *columns, size_t which, struct arrow_column *out, struct error *err)
{
	struct parca_column *column = &columns->columns[which];
	enum parca_column_kind kind = columns->forms[which].kind;
	size_t rows = columns->rows;
	int r = 0;
	*out = (struct arrow_column){.name = columns->forms[which].name, .values = column->values, .present = column->present};
	switch (kind) {
	case PARCA_COLUMN_BOOL:
		narrow(column->values, rows, 1);
		out->kind = ARROW_BOOL;
		break;
	case PARCA_COLUMN_INT32: out->kind = write_numbers(column, rows, ARROW_INT8, 2); break;
	case PARCA_COLUMN_INT64: out->kind = ARROW_INT64; break;
	case PARCA_COLUMN_UINT64: out->kind = ARROW_UINT64; break;
	case PARCA_COLUMN_LEAST_SIGNED: out->kind = write_numbers(column, rows, ARROW_INT8, least_signed(column, rows)); break;
	case PARCA_COLUMN_LEAST_UNSIGNED:
		out->kind = write_numbers(column, rows, ARROW_UINT8, least_unsigned(column, rows));
		break;
	case PARCA_COLUMN_UINT32_LIST:
	case PARCA_COLUMN_INT64_LIST:
		if (kind == PARCA_COLUMN_UINT32_LIST)
			narrow(column->items, column->item_count, sizeof(uint32_t));
		out->kind = ARROW_LIST;
		out->item = kind == PARCA_COLUMN_UINT32_LIST ? ARROW_UINT32 : ARROW_INT64;
		out->values = column->items;
		out->offsets = column->offsets;
		break;
	default:
		r = write_texts(columns, column, kind != PARCA_COLUMN_BYTES, out, err);
		out->kind = ARROW_DICTIONARY;
		out->item = index_kind(kind, out->text_count);
		break;
	}
	return r;
}

int parca_columns_write(struct parca_columns *columns, struct buffer *out, struct error *err)
{
	struct arrow_column arrow[PARCA_COLUMNS_MAX];
	int r = columns->failed == -E2BIG ? error_set(err, -E2BIG, "the table is too large")
		: columns->failed	  ? error_nomem(err)
					  : 0;
	for (size_t i = 0; !r && i < columns->count; i++)
		r = write_column(columns, i, &arrow[i], err);
	return r < 0 ? r : arrow_write_stream(arrow, columns->count, columns->rows, out, err);
}
