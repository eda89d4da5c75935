/* SPDX-License-Identifier: Apache-2.0 */
/* Arrow streams: every value of every array, and what Parca's records of samples and locations come to. The input is the length
 * of the first stream (4 bytes), that stream, and the second. */
#include <string.h>

#include "codec/arrow/arrow_read.h"
#include "format/parca_arrow.h"
#include "must.h"

#define MEMORY_MAX (8u * 1024 * 1024)
#define ROWS_MAX   64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile uint8_t sink;

static void touch(struct bytes bytes)
{
	for (size_t i = 0; i < bytes.len; i++)
		sink ^= bytes.data[i];
}

/* What is said to be there can be read, and of an array only one kind of value can. */
static void ask(const struct arrow_array *array, unsigned depth)
{
	for (size_t row = 0; row < array->length && row < ROWS_MAX; row++) {
		const struct arrow_array *found, *items;
		size_t at, first, count;
		struct bytes bytes;
		int64_t number;
		int r = arrow_locate(array, row, &found, &at), kinds = 0;
		if (r <= 0)
			continue;
		must(at < found->length && !found->dictionary);
		if (arrow_get_bytes(array, row, &bytes) > 0 && ++kinds)
			touch(bytes);
		kinds += arrow_get_integer(array, row, &number) > 0;
		if (arrow_get_list(array, row, &items, &first, &count) > 0 && ++kinds)
			must(first <= items->length && count <= items->length - first);
		must(kinds <= 1);
		for (size_t i = 0; row == 0 && depth && i < found->field->child_count; i++)
			ask(&found->children[i], depth - 1);
	}
}

static void walk(struct bytes input)
{
	struct arrow_stream *stream = NULL;
	const struct arrow_array *columns;
	size_t rows, count;
	if (arrow_stream_open(input, MEMORY_MAX, &stream, NULL) < 0)
		return;
	arrow_stream_fields(stream, &count);
	for (unsigned batch = 0; batch < 16 && arrow_stream_next(stream, &columns, &rows, NULL) > 0; batch++)
		for (size_t i = 0; i < count && i < ROWS_MAX; i++) {
			must(columns[i].length == rows);
			ask(&columns[i], 4);
		}
	must(arrow_stream_memory(stream) <= MEMORY_MAX);
	arrow_stream_free(stream);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint32_t len;
	struct parca_profiles profiles;
	struct buffer asked;
	if (size < sizeof(len))
		return 0;
	memcpy(&len, data, sizeof(len));
	struct bytes first = {data + sizeof(len), size - sizeof(len)}, second = {0};
	if (len < first.len) {
		second = (struct bytes){first.data + len, first.len - len};
		first.len = len;
	}
	walk(first);
	walk(second);
	buffer_init(&asked, MEMORY_MAX);
	int needs = parca_arrow_request(first, MEMORY_MAX, &asked, NULL);
	if (needs >= 0)
		walk(buffer_bytes(&asked));
	must(needs >= 0 || asked.len == 0);
	parca_profiles_init(&profiles);
	if (parca_arrow_decode(first, second, MEMORY_MAX, &profiles, NULL) == 0) {
		must(needs >= 0);
		for (size_t i = 0; i < profiles.count; i++) {
			const struct profile *profile = profiles.items[i].profile;
			must(profile->sample_type_count == 1 && profile->sample_count > 0 && profiles.items[i].name);
			must(profile->duration_ns >= 0);
		}
	}
	parca_profiles_release(&profiles);
	buffer_release(&asked);
	return 0;
}
