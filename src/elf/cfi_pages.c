/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of a section, a part of them at a time.
 *
 * The call frame information of a large library has ten megabytes and more, and a library that went through BOLT has it twice.
 * An agent that reads it whole has a peak of memory that is many times what it needs otherwise. But pointers into it are
 * simple, and it is gone through twice from its beginning to its end, or nearly so: by entries, then by addresses.
 *
 * So the section gets its addresses (an anonymous mapping), and memory only where it is being read: cfi_source_need() reads
 * what is missing of a range, in pages, and before that gives all of them back once there are more than PAGES_KEPT. A library
 * whose functions were laid out by how hot they are is gone through in no order the second time: then most entries cost a page,
 * which is about a microsecond. So only behind a page that is there more than one is read at once.
 *
 * The file may change meanwhile. Offsets are checked against the section's length, which does not, and the bytes of an entry
 * are parsed wherever they are used; so a change gives other rows, or a damaged entry.
 *
 * Rejected: mapping the file (SIGBUS when it shrinks).
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "elf/cfi_int.h"
#include "elf/elf_file_int.h"

#ifdef WICK_FUZZING /* the sections of its inputs have a few hundred bytes */
#define PAGE_BYTES  64u
#define PAGES_KEPT  1u
#define PAGES_LEAST 1u
#define PAGES_AHEAD 2u
#else
#define PAGE_BYTES  4096u
#define PAGES_KEPT  256u
#define PAGES_LEAST 256u /* a smaller section is read whole */
#define PAGES_AHEAD 16u
#endif

struct cfi_pages {
	uint64_t offset; /* in the file */
	size_t mapped;
	uint32_t count, present;
	uint64_t bits[]; /* by page: it is in memory */
};

static inline bool is_present(const struct cfi_pages *pages, uint32_t page)
{
	return pages->bits[page / 64] >> page % 64 & 1;
}

static void give_back(struct cfi_source *source)
{
	struct cfi_pages *pages = source->pages;
#ifdef WICK_FUZZING /* no page of the kernel's; other bytes show who still reads it */
	memset((void *)source->data.data, 0xa5, pages->mapped);
#else
	madvise((void *)source->data.data, pages->mapped, MADV_DONTNEED);
#endif
	memset(pages->bits, 0, (pages->count + 63) / 64 * sizeof(*pages->bits));
	pages->present = 0;
}

/* Pages first to last, none of which is there. */
static int read_pages(struct cfi_reader *reader, struct cfi_source *source, uint32_t first, uint32_t last)
{
	struct cfi_pages *pages = source->pages;
	uint32_t ahead = first > 0 && is_present(pages, first - 1) ? first + PAGES_AHEAD : 0;
	while (last + 1 < ahead && last + 1 < pages->count && !is_present(pages, last + 1))
		last++;
	size_t begin = (size_t)first * PAGE_BYTES, end = ((size_t)last + 1) * PAGE_BYTES;
	end = end < source->data.len ? end : source->data.len;
	int r = elf_file_read(reader->file, pages->offset + begin, (void *)(source->data.data + begin), end - begin, NULL);
	for (uint32_t page = first; r == 0 && page <= last; page++, pages->present++)
		pages->bits[page / 64] |= 1ull << page % 64;
	return r;
}

int cfi_source_read(struct cfi_reader *reader, struct cfi_source *source, size_t at, size_t len)
{
	struct cfi_pages *pages = source->pages;
	int r = 0;
	if (at > source->data.len || len > source->data.len - at)
		return -EBADMSG;
	if (pages->present > PAGES_KEPT)
		give_back(source);
	uint32_t page = (uint32_t)(at / PAGE_BYTES), last = (uint32_t)((at + len - 1) / PAGE_BYTES);
	while (r == 0 && page <= last) {
		uint32_t end = page;
		while (end <= last && is_present(pages, end) == is_present(pages, page))
			end++;
		r = is_present(pages, page) ? 0 : read_pages(reader, source, page, end - 1);
		page = end;
	}
	return r;
}

bool cfi_source_has(const struct cfi_source *source, size_t at, size_t len)
{
	const struct cfi_pages *pages = source->pages;
	if (!pages || len == 0)
		return true;
	uint32_t first = (uint32_t)(at / PAGE_BYTES);
	return at < source->data.len && len <= source->data.len - at && (at + len - 1) / PAGE_BYTES == first &&
	       is_present(pages, first);
}

int cfi_source_open(struct cfi_reader *reader, uint64_t offset, uint64_t len, const char *what, struct cfi_source *source)
{
	uint8_t *data;
	if (len < (uint64_t)PAGES_LEAST * PAGE_BYTES || reader->file->fd < 0) {
		int r = elf_file_read_range(reader->file, offset, len, CFI_SECTION_BYTES_MAX, what, &data, reader->err);
		if (r == 0)
			source->data = (struct bytes){data, (size_t)len};
		return r;
	}
	if (len > CFI_SECTION_BYTES_MAX || offset > reader->file->size || len > reader->file->size - offset)
		return elf_file_read_range(reader->file, offset, len, CFI_SECTION_BYTES_MAX, what, &data, reader->err);
	uint32_t count = (uint32_t)((len + PAGE_BYTES - 1) / PAGE_BYTES);
	struct cfi_pages *pages = mem_zalloc(sizeof(*pages) + (count + 63) / 64 * sizeof(*pages->bits));
	if (!pages)
		return error_nomem(reader->err);
	pages->offset = offset;
	pages->count = count;
	pages->mapped = (size_t)count * PAGE_BYTES;
	data = mmap(NULL, pages->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (data == MAP_FAILED) {
		mem_free(pages);
		return error_nomem(reader->err);
	}
	source->data = (struct bytes){data, (size_t)len};
	source->pages = pages;
	return 0;
}

void cfi_source_release(struct cfi_source *source)
{
	if (!source->pages) {
		mem_free((void *)source->data.data);
		return;
	}
	munmap((void *)source->data.data, source->pages->mapped);
	mem_free(source->pages);
}
