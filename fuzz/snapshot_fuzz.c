/* SPDX-License-Identifier: Apache-2.0 */
/* Files of snapshots, whoever wrote them there; and any gzip file that gets a header of ours says what it is, and is whole. */
#include <string.h>

#include "must.h"
#include "server/stores/snapshots.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_put(struct bytes gzip)
{
	struct snapshot snapshot = {.id = "0123456789abcdef0123456789abcdef", .title = "a \"title\"", .made_ns = 3}, again;
	struct buffer whole;
	struct bytes rest;
	buffer_init(&whole, gzip.len + NOTED_HEADER_MAX);
	if (noted_write_header(&snapshot_form, &snapshot, gzip, &whole, &rest, NULL) == 0) {
		must(rest.len <= gzip.len && buffer_append(&whole, rest.data, rest.len) == 0);
		must(snapshot.content.bytes == rest.len);
		must(noted_check(&snapshot_form, buffer_bytes(&whole), &again, NULL) == 0);
		must(again.content.bytes == rest.len && strcmp(again.title, snapshot.title) == 0);
		whole.data[whole.len - 1] ^= 1;
		must(noted_check(&snapshot_form, buffer_bytes(&whole), &again, NULL) < 0);
	}
	buffer_release(&whole);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes bytes = {data, size};
	struct snapshot snapshot;
	size_t header;
	if (noted_read_header(&snapshot_form, bytes, &snapshot, &header, NULL) == 0)
		must(snapshot_id_is_valid(snapshot.id) && snapshot_id_is_valid(snapshot.content.hash) && header <= size);
	if (noted_check(&snapshot_form, bytes, &snapshot, NULL) == 0)
		must(snapshot.content.bytes < size);
	check_put(bytes);
	return 0;
}
