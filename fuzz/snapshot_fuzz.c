/* SPDX-License-Identifier: Apache-2.0 */
/* Files of snapshots, whoever wrote them there; and any gzip file that gets a header of ours says what it is, and is whole. */
#include <string.h>

#include "must.h"
#include "server/stores/snapshots_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_put(struct bytes gzip)
{
	struct snapshot snapshot = {.id = "0123456789abcdef0123456789abcdef", .title = "a \"title\"", .made_ns = 3}, again;
	struct buffer whole;
	struct bytes rest;
	buffer_init(&whole, gzip.len + SNAPSHOT_HEADER_MAX);
	if (snapshot_file_write_header(&snapshot, gzip, &whole, &rest, NULL) == 0) {
		must(rest.len <= gzip.len && buffer_append(&whole, rest.data, rest.len) == 0);
		must(snapshot.bytes == whole.len);
		must(snapshot_file_check(buffer_bytes(&whole), &again, NULL) == 0);
		must(again.bytes == whole.len && strcmp(again.title, snapshot.title) == 0);
		whole.data[whole.len - 1] ^= 1;
		must(snapshot_file_check(buffer_bytes(&whole), &again, NULL) < 0);
	}
	buffer_release(&whole);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes bytes = {data, size};
	struct snapshot snapshot;
	uint64_t expected;
	if (snapshot_file_read_header(bytes, &snapshot, &expected, NULL) == 0)
		must(snapshot_id_is_valid(snapshot.id) && snapshot_id_is_valid(snapshot.hash) && expected > 0);
	if (snapshot_file_check(bytes, &snapshot, NULL) == 0)
		must(snapshot.bytes == size);
	check_put(bytes);
	return 0;
}
