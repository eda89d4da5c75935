/* SPDX-License-Identifier: Apache-2.0 */
/* tar, plain or packed: listing and reading stays within the limits, and ends. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/limits.h"
#include "codec/archive.h"

#define ENTRIES_MAX 1000u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fd = -1;
	struct archive_options options = {.bytes_max = 4 * MIB, .entries_max = ENTRIES_MAX};
	struct archive *archive;
	struct archive_entry entry;
	size_t count = 0, total = 0;
	if (fd < 0)
		fd = memfd_create("archive", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, (off_t)size) < 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
		abort();
	if (archive_open(fd, "fuzz", &options, &archive, NULL) < 0)
		return 0;
	while (archive_next(archive, &entry, NULL) == 1) {
		struct buffer text;
		buffer_init(&text, MIB);
		if (++count > ENTRIES_MAX || strlen(entry.path) > ARCHIVE_PATH_MAX)
			abort();
		int r = archive_read(archive, &text, NULL);
		total += text.len;
		if ((r == 0 && text.len != entry.size) || total > 4 * MIB)
			abort();
		buffer_release(&text);
		if (r < 0)
			break;
	}
	archive_free(archive);
	return 0;
}
