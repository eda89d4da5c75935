/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A note is { u32 name size, u32 descriptor size, u32 type, name, descriptor }, name and descriptor padded to 4 bytes, or to 8
 * in a segment aligned to 8 (.note.gnu.property). The build-id is the note "GNU", type 3.
 *
 * PT_NOTE segments are searched first: they are there in stripped files, and reading them costs two small reads. Sections come
 * second, for files linked with a script that drops the segment, and for relocatable objects (kernel modules).
 */
#include "elf/build_id.h"

#include <errno.h>
#include <openssl/evp.h>
#include <string.h>

#include "base/io.h"
#include "base/limits.h"
#include "base/text.h"

#define NOTES_MAX	  (1 * MIB)
#define NOTE_SEGMENTS_MAX 64 /* searched; real files have up to 3 */

static size_t align_up(size_t value, size_t align)
{
	return (value + align - 1) & ~(align - 1);
}

void build_id_format(const uint8_t *id, uint64_t len, char out[static BUILD_ID_HEX_MAX])
{
	text_format_hex((struct bytes){id, len < BUILD_ID_BYTES_MAX ? len : BUILD_ID_BYTES_MAX}, out);
}

static int find_in_notes(struct bytes notes, size_t align, char out[static BUILD_ID_HEX_MAX])
{
	size_t at = 0;
	Elf64_Nhdr note; /* the same in both classes */
	while (at <= notes.len && notes.len - at >= sizeof(note)) {
		memcpy(&note, notes.data + at, sizeof(note));
		size_t left = notes.len - at;
		if (note.n_namesz > left || note.n_descsz > left)
			return -ENOENT;
		size_t description = align_up(sizeof(note) + (size_t)note.n_namesz, align);
		if (description > left || note.n_descsz > left - description)
			return -ENOENT;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof(ELF_NOTE_GNU) && note.n_descsz > 0 &&
		    note.n_descsz <= BUILD_ID_BYTES_MAX &&
		    memcmp(notes.data + at + sizeof(note), ELF_NOTE_GNU, sizeof(ELF_NOTE_GNU)) == 0) {
			build_id_format(notes.data + at + description, note.n_descsz, out);
			return 0;
		}
		at += align_up(description + note.n_descsz, align);
	}
	return -ENOENT;
}

int build_id_from_notes(struct bytes notes, char out[static BUILD_ID_HEX_MAX])
{
	return find_in_notes(notes, 4, out);
}

/* 0, -ENOENT, or an error of reading. A range that is too long or lies outside the file holds no build-id: the next may. */
static int find_in_range(struct elf_file *file, uint64_t offset, uint64_t len, uint64_t align,
			 char out[static BUILD_ID_HEX_MAX], struct error *err)
{
	_cleanup_(mem_freep) uint8_t *data = NULL;
	struct error problem = {0};
	int r = elf_file_read_range(file, offset, len, NOTES_MAX, "a note segment", &data, &problem);
	if (r == -E2BIG || r == -EBADMSG)
		return -ENOENT;
	if (r < 0) {
		if (err)
			*err = problem;
		return r;
	}
	return find_in_notes((struct bytes){data, (size_t)len}, align == 8 ? 8 : 4, out);
}

/* Of a segment or section, if it has notes and few others were searched. -ENOENT: not there. */
static int try_range(struct elf_file *file, bool has_notes, unsigned *searched, uint64_t offset, uint64_t len, uint64_t align,
		     char out[static BUILD_ID_HEX_MAX], struct error *err)
{
	if (!has_notes || *searched == NOTE_SEGMENTS_MAX)
		return -ENOENT;
	++*searched;
	return find_in_range(file, offset, len, align, out, err);
}

static int find_in_sections(struct elf_file *file, char out[static BUILD_ID_HEX_MAX], struct error *err)
{
	int r = elf_file_load_sections(file, err);
	if (r < 0)
		return r == -EBADMSG ? -ENOENT : r;
	unsigned searched = 0;
	r = -ENOENT;
	for (size_t i = 0; i < file->section_count && r == -ENOENT; i++) {
		const struct elf_section *s = &file->sections[i];
		r = try_range(file, s->type == SHT_NOTE, &searched, s->offset, s->size, s->align, out, err);
	}
	return r;
}

int build_id_read(struct elf_file *file, char out[static BUILD_ID_HEX_MAX], struct error *err)
{
	unsigned searched = 0;
	int r = -ENOENT;
	for (size_t i = 0; i < file->segment_count && r == -ENOENT; i++) {
		const struct elf_segment *s = &file->segments[i];
		r = try_range(file, s->type == PT_NOTE, &searched, s->offset, s->file_size, s->align, out, err);
	}
	if (r == -ENOENT)
		r = find_in_sections(file, out, err);
	if (r == -ENOENT)
		return error_set(err, -ENOENT, "%s: has no build-id; link it with -Wl,--build-id", file->name);
	return r;
}

int build_id_read_fd(int fd, char out[static BUILD_ID_HEX_MAX], struct error *err)
{
	_cleanup_(elf_file_release) struct elf_file file = {0};
	int r = elf_file_open(&file, fd, "the file", err);
	return r < 0 ? r : build_id_read(&file, out, err);
}

#define HASHED_BYTES 4096u /* of each end */

int file_hash_read_fd(int fd, char out[static FILE_HASH_HEX], struct error *err)
{
	uint8_t data[2 * HASHED_BYTES + 8], digest[EVP_MAX_MD_SIZE];
	uint64_t size;
	int r = io_file_size(fd, &size, "the file", err);
	if (r < 0)
		return r;
	size_t part = size < HASHED_BYTES ? (size_t)size : HASHED_BYTES;
	ssize_t first = io_pread(fd, data, part, 0, "the file", err);
	ssize_t last = first < 0 ? first : io_pread(fd, data + part, part, size - part, "the file", err);
	if (last < 0)
		return (int)last;
	if ((size_t)first != part || (size_t)last != part)
		return error_set(err, -EBADMSG, "the file was truncated while it was read");
	for (unsigned i = 0; i < 8; i++)
		data[2 * part + i] = (uint8_t)(size >> (56 - 8 * i));
	if (EVP_Digest(data, 2 * part + 8, digest, NULL, EVP_sha256(), NULL) != 1)
		return error_nomem(err);
	text_format_hex((struct bytes){digest, (FILE_HASH_HEX - 1) / 2}, out);
	return 0;
}

int binary_id_read_fd(int fd, char out[static BUILD_ID_HEX_MAX], struct error *err)
{
	int r = build_id_read_fd(fd, out, err);
	if (r != -ENOENT)
		return r;
	r = file_hash_read_fd(fd, out, err);
	return r < 0 ? r : 1;
}

bool build_id_is_valid(const char *text)
{
	size_t len = strspn(text, "0123456789abcdef");
	return text[len] == 0 && len > 0 && len % 2 == 0 && len < BUILD_ID_HEX_MAX;
}
