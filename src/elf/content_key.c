// SPDX-License-Identifier: Apache-2.0
#include "elf/content_key.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <string.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/text.h"
#include "elf/cfi.h"
#include "elf/elf_file.h"
#include "elf/pclntab.h"

#define KEY_VERSION	  "wick content key 3"
#define PAGE		  4096u
#define CHUNK		  (64 * KIB)
#define CFI_BYTES	  (32 * MIB) /* of all sections together, as the next ones */
#define SYMBOL_BYTES	  (64 * KIB)
#define STRING_BYTES	  (64 * KIB)
#define CODE_BYTES	  (2 * MIB) /* as cfi_read() goes through */
#define LISTED_CODE_BYTES (512 * KIB)
#define HEADERLESS_BYTES  (4 * MIB)
#define RANGES_MAX	  64u /* of one kind: a file may have as many sections of one name as it likes */

enum part { PART_OTHER, PART_CODE, PART_SYMBOLS, PARTS };

struct hashing {
	struct elf_file *file;
	EVP_MD_CTX *contexts[PARTS]; /* that of PART_OTHER is of all */
	enum part part;		     /* of what is added */
	uint8_t *chunk;
	uint64_t bytes; /* read */
	struct error *err;
};

static int add(struct hashing *h, const void *data, size_t len)
{
	bool is_added = EVP_DigestUpdate(h->contexts[PART_OTHER], data, len) == 1;
	if (is_added && h->part != PART_OTHER)
		is_added = EVP_DigestUpdate(h->contexts[h->part], data, len) == 1;
	return is_added ? 0 : error_nomem(h->err);
}

static int add_number(struct hashing *h, uint64_t number)
{
	return add(h, &number, sizeof(number));
}

/* Code may begin with the header of the file, which says where the section headers are: strip moves them. */
static int add_file_bytes(struct hashing *h, uint64_t offset, size_t len)
{
	uint64_t header = sizeof(Elf64_Ehdr);
	if (h->part != PART_CODE || offset >= header)
		return add(h, h->chunk, len);
	size_t skipped = len < header - offset ? len : (size_t)(header - offset);
	h->part = PART_OTHER;
	int r = add(h, h->chunk, skipped);
	h->part = PART_CODE;
	return r < 0 ? r : add(h, h->chunk + skipped, len - skipped);
}

/* What lies past the end of the file is not there, and that is part of the hash by its length. */
static int add_range(struct hashing *h, uint64_t offset, uint64_t len)
{
	uint64_t size = h->file->size;
	offset = offset < size ? offset : size;
	len = len < size - offset ? len : size - offset;
	int r = add_number(h, len);
	while (r == 0 && len > 0) {
		size_t part = len < CHUNK ? (size_t)len : CHUNK;
		r = elf_file_read(h->file, offset, h->chunk, part, h->err);
		if (r == 0)
			r = add_file_bytes(h, offset, part);
		h->bytes += part;
		offset += part;
		len -= part;
	}
	return r;
}

/* All of a range, or pages of it that together have *left bytes, which become fewer by what was read. */
static int add_samples(struct hashing *h, uint64_t offset, uint64_t len, uint64_t *left)
{
	uint64_t size = h->file->size, max = *left, pages = max / PAGE;
	int r = add_number(h, len);
	offset = offset < size ? offset : size;
	len = len < size - offset ? len : size - offset;
	*left -= len < max ? len : max;
	if (r < 0 || len <= max || pages < 2)
		return r < 0 ? r : add_range(h, offset, len < max ? len : max);
	/* Each page would be read with its neighbours otherwise. */
	posix_fadvise(h->file->fd, 0, 0, POSIX_FADV_RANDOM);
	for (uint64_t i = 0; r == 0 && i < pages; i++) {
		/* len is less than 2^63, as the file has it. */
		uint64_t at = i + 1 < pages ? (len - PAGE) / (pages - 1) * i / PAGE * PAGE : len - PAGE;
		r = add_range(h, offset + at, PAGE);
	}
	posix_fadvise(h->file->fd, 0, 0, POSIX_FADV_NORMAL);
	return r;
}

static bool is_frames(const struct elf_file *file, const struct elf_section *section)
{
	static const char *const names[] = {".eh_frame", ".eh_frame_hdr", ".bolt.org.eh_frame", ".debug_frame",
					    ".zdebug_frame"};
	if (section == pclntab_find_section(file))
		return section->size <= CFI_GO_BYTES_MAX;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(section->name, names[i]) == 0)
			return section->type != SHT_NOBITS;
	}
	return false;
}

/* Where there are no section headers, .eh_frame lies behind its header, and only a reader finds out how long it is. */
static int add_frames_of_segment(struct hashing *h, uint64_t *ret_bytes)
{
	uint64_t left = HEADERLESS_BYTES;
	int r = 0;
	for (size_t i = 0; r == 0 && i < h->file->segment_count; i++) {
		const struct elf_segment *segment = &h->file->segments[i];
		if (segment->type != PT_GNU_EH_FRAME || segment->file_size == 0)
			continue;
		*ret_bytes += segment->file_size;
		r = add_samples(h, segment->offset, h->file->size, &left);
		break;
	}
	return r;
}

static int add_frames(struct hashing *h, uint64_t *ret_bytes)
{
	uint64_t left = CFI_BYTES;
	unsigned count = 0;
	int r = 0;
	*ret_bytes = 0;
	for (size_t i = 0; r == 0 && i < h->file->section_count && count < RANGES_MAX; i++) {
		const struct elf_section *section = &h->file->sections[i];
		if (!is_frames(h->file, section))
			continue;
		count++;
		*ret_bytes += section->size;
		h->part = section->flags & SHF_ALLOC ? PART_CODE : PART_OTHER;
		r = add_number(h, section->address);
		if (r == 0)
			r = add_samples(h, section->offset, section->size, &left);
	}
	h->part = PART_OTHER;
	return r < 0 || *ret_bytes > 0 ? r : add_frames_of_segment(h, ret_bytes);
}

static enum part part_of(const struct hashing *h, const struct elf_section *section)
{
	const struct elf_section *symtab = elf_file_find_section_type(h->file, SHT_SYMTAB);
	bool is_strings = symtab && symtab->link < h->file->section_count && section == &h->file->sections[symtab->link];
	return section->type == SHT_SYMTAB || is_strings ? PART_SYMBOLS : PART_OTHER;
}

static int add_sections(struct hashing *h, uint32_t type, uint32_t other_type, uint64_t left)
{
	unsigned count = 0;
	int r = 0;
	for (size_t i = 0; r == 0 && i < h->file->section_count && count < RANGES_MAX; i++) {
		const struct elf_section *section = &h->file->sections[i];
		if (section->type != type && section->type != other_type)
			continue;
		count++;
		h->part = part_of(h, section);
		r = add_samples(h, section->offset, section->size, &left);
	}
	h->part = PART_OTHER;
	return r;
}

static int add_code(struct hashing *h, uint64_t left)
{
	unsigned count = 0;
	int r = 0;
	h->part = PART_CODE;
	for (size_t i = 0; r == 0 && i < h->file->segment_count && count < RANGES_MAX; i++) {
		const struct elf_segment *segment = &h->file->segments[i];
		if (!elf_segment_is_executed(segment))
			continue;
		count++;
		r = add_number(h, segment->address);
		if (r == 0)
			r = add_samples(h, segment->offset, segment->file_size, &left);
	}
	return r;
}

/* build_id: zeros. */
static int add_file(struct hashing *h, char build_id[static BUILD_ID_HEX_MAX])
{
	uint64_t size = h->file->size, frames = 0, end = size < PAGE ? size : PAGE;
	struct error problem = {0};
	int r = build_id_read(h->file, build_id, &problem);
	if (r == -ENOMEM || r == -EIO)
		return error_set(h->err, r, "%s", problem.message);
	/* Damaged section headers are as good as none. */
	r = elf_file_load_sections(h->file, &problem);
	if (r < 0 && r != -EBADMSG && r != -E2BIG)
		return error_set(h->err, r, "%s", problem.message);
	r = add(h, KEY_VERSION, sizeof(KEY_VERSION));
	if (r == 0)
		r = add(h, build_id, BUILD_ID_HEX_MAX);
	if (r == 0)
		r = add_number(h, size);
	if (r == 0)
		r = add_range(h, 0, end);
	if (r == 0)
		r = add_range(h, size - end, end);
	if (r == 0)
		r = add_frames(h, &frames);
	if (r == 0)
		r = add_sections(h, SHT_SYMTAB, SHT_DYNSYM, SYMBOL_BYTES);
	if (r == 0)
		r = add_sections(h, SHT_STRTAB, SHT_STRTAB, STRING_BYTES);
	return r < 0 ? r : add_code(h, frames > 0 ? LISTED_CODE_BYTES : CODE_BYTES);
}

static void free_contexts(struct hashing *h)
{
	for (size_t i = 0; i < PARTS; i++)
		EVP_MD_CTX_free(h->contexts[i]);
}

static int make_contexts(struct hashing *h)
{
	for (size_t i = 0; i < PARTS; i++) {
		h->contexts[i] = EVP_MD_CTX_new();
		if (!h->contexts[i] || EVP_DigestInit_ex(h->contexts[i], EVP_sha256(), NULL) != 1)
			return error_nomem(h->err);
	}
	return 0;
}

static uint64_t number_of(const uint8_t digest[static EVP_MAX_MD_SIZE])
{
	uint64_t number = 0;
	for (size_t i = 0; i < sizeof(number); i++)
		number = number << 8 | digest[i];
	return number;
}

static int finish(struct hashing *h, struct content_key *ret)
{
	uint8_t digests[PARTS][EVP_MAX_MD_SIZE];
	for (size_t i = 0; i < PARTS; i++)
		if (EVP_DigestFinal_ex(h->contexts[i], digests[i], NULL) != 1)
			return error_nomem(h->err);
	text_format_hex((struct bytes){digests[PART_OTHER], (CONTENT_KEY_HEX - 1) / 2}, ret->key);
	ret->code = number_of(digests[PART_CODE]);
	ret->symbols = elf_file_find_section_type(h->file, SHT_SYMTAB) ? number_of(digests[PART_SYMBOLS]) | 1 : 0;
	ret->bytes = h->bytes;
	return 0;
}

static int hash_file(struct elf_file *file, struct content_key *ret, struct error *err)
{
	struct content_key found = {0};
	_cleanup_(mem_freep) uint8_t *chunk = mem_alloc(CHUNK);
	_cleanup_(free_contexts) struct hashing h = {.file = file, .chunk = chunk, .err = err};
	int r = chunk ? make_contexts(&h) : error_nomem(err);
	if (r == 0)
		r = add_file(&h, found.build_id);
	if (r == 0)
		r = finish(&h, &found);
	if (r == 0)
		r = file_hash_read_fd(file->fd, found.file_hash, err);
	if (r == 0)
		*ret = found;
	return r;
}

bool content_key_is_valid(const char *key)
{
	return strlen(key) == CONTENT_KEY_HEX - 1 && strspn(key, "0123456789abcdef") == CONTENT_KEY_HEX - 1;
}

int content_key_read_fd(int fd, struct content_key *ret, struct error *err)
{
	_cleanup_(elf_file_release) struct elf_file file = {0};
	int r = elf_file_open(&file, fd, "the file", err);
	return r < 0 ? r : hash_file(&file, ret, err);
}
