/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mini debug information (GDB manual, "MiniDebugInfo"): a section .gnu_debugdata that holds an ELF file with a .symtab of the
 * functions that .dynsym does not name, packed with xz. Fedora and its kin ship it in every binary.
 *
 * A bomb is bounded three times: the decoder's own memory (its dictionary; xz -9 needs 65 MiB), the bytes that come out, and
 * the ratio of both sides. Symbol tables shrink to a tenth or, when they are mostly alike, to a fiftieth; a table that shrank
 * to less than a 256th of itself says nothing that is worth unpacking. Output grows as it comes, so that a file that claims
 * much and holds little costs little.
 *
 * Rejected: lzma_stream_buffer_decode(), which wants the size beforehand; the size in xz's index is only a claim.
 */
#include <errno.h>
#include <lzma.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "elf/debug_links.h"

#define PACKED_BYTES_MAX  (64 * MIB)
#define DECODER_BYTES_MAX (80 * MIB)
#define CHUNK_BYTES	  (64 * KIB)
#define RATIO_MAX	  256
#define RATIO_FREE_BYTES  (1 * MIB) /* up to here any ratio will do: small tables may be all alike */

static void *decoder_alloc(void *opaque, size_t count, size_t size)
{
	return mem_alloc_array(count, size);
}

static void decoder_free(void *opaque, void *ptr)
{
	mem_free(ptr);
}

static int decoder_error(const struct elf_file *file, lzma_ret code, struct error *err)
{
	switch (code) {
	case LZMA_MEM_ERROR: return error_nomem(err);
	case LZMA_MEMLIMIT_ERROR:
		return error_set(err, -E2BIG,
				 "%s: .gnu_debugdata needs more than %llu bytes of memory to decompress, the limit", file->name,
				 (unsigned long long)DECODER_BYTES_MAX);
	case LZMA_BUF_ERROR: return error_set(err, -EBADMSG, "%s: damaged .gnu_debugdata: it is truncated", file->name);
	default:
		return error_set(err, -EBADMSG, "%s: damaged .gnu_debugdata: not xz data that can be decompressed (%d)",
				 file->name, (int)code);
	}
}

static int reserve_chunk(const struct elf_file *file, struct buffer *out, size_t packed_len, struct error *err)
{
	if (out->len > RATIO_FREE_BYTES && out->len / RATIO_MAX > packed_len)
		return error_set(err, -E2BIG, "%s: .gnu_debugdata decompresses to more than %d times its size", file->name,
				 RATIO_MAX);
	int r = buffer_reserve(out, CHUNK_BYTES);
	if (r == -E2BIG)
		return error_set(err, r, "%s: .gnu_debugdata decompresses to more than %llu bytes, the limit", file->name,
				 (unsigned long long)ELF_MINIDEBUG_BYTES_MAX);
	return r < 0 ? error_nomem(err) : 0;
}

static int unpack(const struct elf_file *file, struct bytes packed, struct buffer *out, struct error *err)
{
	static const lzma_allocator allocator = {decoder_alloc, decoder_free, NULL};
	lzma_stream stream = LZMA_STREAM_INIT;
	stream.allocator = &allocator;
	lzma_ret code = lzma_stream_decoder(&stream, DECODER_BYTES_MAX, LZMA_CONCATENATED);
	stream.next_in = packed.data;
	stream.avail_in = packed.len;
	int r = 0;
	while (code == LZMA_OK && r == 0) {
		r = reserve_chunk(file, out, packed.len, err);
		if (r < 0)
			break;
		stream.next_out = out->data + out->len;
		stream.avail_out = CHUNK_BYTES;
		code = lzma_code(&stream, LZMA_FINISH);
		out->len += CHUNK_BYTES - stream.avail_out;
	}
	lzma_end(&stream);
	if (r == 0 && code != LZMA_STREAM_END)
		r = decoder_error(file, code, err);
	return r;
}

int elf_open_minidebug(struct elf_file *file, struct elf_file *ret, uint8_t **ret_memory, struct error *err)
{
	int r = elf_file_load_sections(file, err);
	if (r < 0)
		return r;
	const struct elf_section *section = elf_file_find_contents(file, ".gnu_debugdata");
	if (!section)
		return error_set(err, -ENOENT, "%s: no section .gnu_debugdata", file->name);
	struct bytes packed;
	r = elf_file_read_section(file, section, PACKED_BYTES_MAX, &packed, err);
	if (r < 0)
		return r;
	struct buffer out = {.max = ELF_MINIDEBUG_BYTES_MAX};
	r = unpack(file, packed, &out, err);
	mem_free((void *)packed.data);
	if (r == 0)
		r = elf_file_open_memory(ret, buffer_bytes(&out), file->name, err);
	if (r == -ENOEXEC || r == -ENOTSUP)
		r = error_set(err, -EBADMSG, "%s: .gnu_debugdata holds no supported ELF file", file->name);
	if (r < 0) {
		buffer_release(&out);
		return r;
	}
	*ret_memory = out.data;
	return 0;
}
