/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What hosts send of a recording: any gzip file that gets a header of ours is whole with it, says what it belongs to, and
 * unpacks to what it was. And what stands on the disk, whoever wrote it there.
 */
#include <string.h>

#include "codec/compress.h"
#include "must.h"
#include "server/stores/recordings_file.h"

#define PLAIN_MAX (1u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_put(struct bytes gzip)
{
	struct recording_file file = {.id = "ab12", .host = "a \"host\"", .received_ns = 3, .start_ns = 2, .duration_ns = 1};
	struct recording_file again;
	struct buffer whole, before, after;
	struct bytes rest;
	size_t header;
	buffer_init(&whole, gzip.len + NOTED_HEADER_MAX);
	buffer_init(&before, PLAIN_MAX);
	buffer_init(&after, PLAIN_MAX);
	if (noted_write_header(&recording_form, &file, gzip, &whole, &rest, NULL) == 0) {
		size_t own = whole.len;
		must(rest.len <= gzip.len && buffer_append(&whole, rest.data, rest.len) == 0);
		must(noted_read_header(&recording_form, buffer_bytes(&whole), &again, &header, NULL) == 0);
		must(header == own && again.content.bytes == rest.len && strcmp(again.host, file.host) == 0);
		must(noted_check(&recording_form, buffer_bytes(&whole), &again, NULL) == 0);
		if (gzip_decompress(gzip, &before, NULL) == 0) {
			must(gzip_decompress(buffer_bytes(&whole), &after, NULL) == 0);
			must(before.len == after.len && (!before.len || memcmp(before.data, after.data, before.len) == 0));
		}
	}
	buffer_release(&whole);
	buffer_release(&before);
	buffer_release(&after);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes bytes = {data, size};
	struct recording_file file;
	uint64_t plain;
	size_t header;
	if (noted_read_header(&recording_form, bytes, &file, &header, NULL) == 0)
		must(header <= size && header <= NOTED_HEADER_MAX);
	if (noted_check(&recording_form, bytes, &file, NULL) == 0)
		must(file.content.bytes < size);
	recording_file_measure(bytes, &plain, NULL);
	check_put(bytes);
	return 0;
}
