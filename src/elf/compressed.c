/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compressed sections (gABI, "Compression Header"): SHF_COMPRESSED, and in front of the data
 *
 *   32-bit  u32 ch_type, u32 ch_size, u32 ch_addralign
 *   64-bit  u32 ch_type, u32 reserved, u64 ch_size, u64 ch_addralign
 *
 * ch_type 1 is a zlib stream, 2 one or more zstd frames; ch_size is the size unpacked. It is only a claim: it is compared with
 * the caller's limit and with what the algorithm can do at best before memory is taken for it, and the data must unpack to
 * exactly that many bytes.
 *
 * GNU tools before 2014, and Go before 1.19, wrote ".zdebug_*" instead: "ZLIB", the size as u64, most significant byte first, a
 * zlib stream.
 */
#include <endian.h>
#include <libdeflate.h>
#include <string.h>
#include <zstd.h>

#include "base/alloc.h"
#include "elf/elf_file_int.h"

#ifndef ELFCOMPRESS_ZSTD
#define ELFCOMPRESS_ZSTD 2
#endif

/* The most that one byte can become. Deflate: 258 bytes for 2 bits. zstd: a block of 128 KiB out of 4 bytes. */
#define ZLIB_RATIO_MAX 1032
#define ZSTD_RATIO_MAX 32768
#define ZDEBUG_HEADER  12

static int inflate_zlib(struct bytes packed, uint8_t *out, size_t size)
{
	struct libdeflate_decompressor *decompressor = libdeflate_alloc_decompressor();
	if (!decompressor)
		return -ENOMEM;
	enum libdeflate_result result = libdeflate_zlib_decompress(decompressor, packed.data, packed.len, out, size, NULL);
	libdeflate_free_decompressor(decompressor);
	return result == LIBDEFLATE_SUCCESS ? 0 : -EBADMSG;
}

static int inflate_zstd(struct bytes packed, uint8_t *out, size_t size)
{
	ZSTD_DCtx *context = ZSTD_createDCtx();
	if (!context)
		return -ENOMEM;
	size_t got = ZSTD_decompressDCtx(context, out, size, packed.data, packed.len);
	ZSTD_freeDCtx(context);
	return got == size ? 0 : -EBADMSG;
}

static int read_compression_header(const struct elf_file *file, const struct elf_section *section, struct bytes packed,
				   Elf64_Chdr *ret, size_t *ret_len, struct error *err)
{
	bool is_old = !(section->flags & SHF_COMPRESSED);
	size_t len = is_old ? ZDEBUG_HEADER : file->is_64 ? sizeof(Elf64_Chdr) : sizeof(Elf32_Chdr);
	if (packed.len < len || (is_old && memcmp(packed.data, "ZLIB", 4) != 0))
		return error_set(err, -EBADMSG, "%s: damaged ELF file: compressed section %s has no header", file->name,
				 section->name);
	if (is_old) {
		uint64_t size;
		memcpy(&size, packed.data + 4, sizeof(size));
		*ret = (Elf64_Chdr){.ch_type = ELFCOMPRESS_ZLIB, .ch_size = be64toh(size)};
	} else if (file->is_64) {
		memcpy(ret, packed.data, sizeof(*ret));
	} else {
		Elf32_Chdr small;
		memcpy(&small, packed.data, sizeof(small));
		*ret = (Elf64_Chdr){.ch_type = small.ch_type, .ch_size = small.ch_size, .ch_addralign = small.ch_addralign};
	}
	*ret_len = len;
	return 0;
}

bool elf_section_is_compressed(const struct elf_section *section)
{
	return (section->flags & SHF_COMPRESSED) || strncmp(section->name, ".zdebug", 7) == 0;
}

int elf_section_inflate(const struct elf_file *file, const struct elf_section *section, struct bytes packed, uint64_t max,
			uint64_t ratio_max, struct bytes *ret, struct error *err)
{
	Elf64_Chdr header = {0};
	size_t header_len = 0;
	int r = read_compression_header(file, section, packed, &header, &header_len, err);
	if (r < 0)
		return r;
	if (header.ch_type != ELFCOMPRESS_ZLIB && header.ch_type != ELFCOMPRESS_ZSTD)
		return error_set(err, -ENOTSUP, "%s: section %s uses the unknown compression algorithm %u", file->name,
				 section->name, header.ch_type);
	if (header.ch_size > max)
		return error_set(err, -E2BIG, "%s: section %s has %llu bytes after decompression, more than the limit of %llu",
				 file->name, section->name, (unsigned long long)header.ch_size, (unsigned long long)max);
	bool is_zlib = header.ch_type == ELFCOMPRESS_ZLIB;
	struct bytes data = {packed.data + header_len, packed.len - header_len};
	uint64_t ratio = is_zlib ? ZLIB_RATIO_MAX : ZSTD_RATIO_MAX;
	if (header.ch_size / (ratio < ratio_max ? ratio : ratio_max) > data.len)
		return error_set(err, -EBADMSG,
				 "%s: damaged ELF file: section %s cannot decompress to the %llu bytes that it declares",
				 file->name, section->name, (unsigned long long)header.ch_size);
	size_t size = (size_t)header.ch_size;
	uint8_t *out = mem_alloc(size + 1);
	if (!out)
		return error_nomem(err);
	r = is_zlib ? inflate_zlib(data, out, size) : inflate_zstd(data, out, size);
	if (r < 0) {
		mem_free(out);
		return r == -ENOMEM ? error_nomem(err)
				    : error_set(err, r, "%s: damaged ELF file: section %s cannot be decompressed", file->name,
						section->name);
	}
	out[size] = 0;
	*ret = (struct bytes){out, size};
	return 0;
}
