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
	buffer_init(&whole, gzip.len + RECORDING_HEADER_MAX);
	buffer_init(&before, PLAIN_MAX);
	buffer_init(&after, PLAIN_MAX);
	if (recording_file_write_header(&file, gzip, &whole, &rest, NULL) == 0) {
		size_t own = whole.len;
		must(rest.len <= gzip.len && buffer_append(&whole, rest.data, rest.len) == 0);
		must(recording_file_read_header(buffer_bytes(&whole), &again, &header, NULL) == 0);
		must(header == own && again.bytes == rest.len && strcmp(again.host, file.host) == 0);
		must(recording_file_check(buffer_bytes(&whole), &again, NULL) == 0);
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
	if (recording_file_read_header(bytes, &file, &header, NULL) == 0)
		must(header <= size && header <= RECORDING_HEADER_MAX);
	if (recording_file_check(bytes, &file, NULL) == 0)
		must(file.bytes < size);
	recording_file_measure(bytes, &plain, NULL);
	check_put(bytes);
	return 0;
}
