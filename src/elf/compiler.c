// SPDX-License-Identifier: Apache-2.0
/*
 *   .comment          texts with a NUL behind each, merged by the linker: "GCC: (Debian 12.2.0-14) 12.2.0", "Debian clang
 *                     version 14.0.6", "rustc version 1.63.0 (4b91a6ea7 2022-08-08)", "Linker: LLD 14.0.6"
 *   .go.buildinfo     32 bytes: "\xff Go buildinf:", size of a pointer, flags; then with flag 2 (Go 1.18 and later) the version
 *                     as a varint of its length and its text; before that two pointers to Go strings (address, length) of
 *                     which the first is the version. Flag 1: pointers are big-endian
 *   .note.go.buildid  a note "Go", type 4, whose contents are the build-id
 *
 * All of it is text that anybody may have written and that becomes the value of a label; so a version is taken only if it looks
 * like one, and is short.
 */
#include "elf/compiler.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/text.h"

#define COMMENT_BYTES_MAX (64 * KIB)
#define NOTE_BYTES_MAX	  (4 * KIB)
#define GO_INFO_BYTES_MAX 256u
#define VERSION_MAX	  32u
#define GO_HEADER_BYTES	  32u
#define GO_INLINE	  2u
#define GO_BIG_ENDIAN	  1u
#define GO_NOTE_TYPE	  4u

struct version {
	char text[VERSION_MAX];
};

/* A version begins with a digit and goes on as versions do: "12.2.0", "15.0.0-rc2", "1.63.0-nightly", "1.22rc1". */
static bool take_version(const char *text, size_t len, struct version *ret)
{
	size_t end = 0;

	while (end < len && text[end] &&
	       strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-+~_", text[end]))
		end++;
	if (!end || end >= VERSION_MAX || !text_is_digit((uint8_t)text[0]) || (end < len && text[end] && text[end] != ' '))
		return false;
	memcpy(ret->text, text, end);
	ret->text[end] = 0;
	return true;
}

/* As numbers where there are numbers. */
static int compare_versions(const char *a, const char *b)
{
	while (*a || *b) {
		if (text_is_digit((uint8_t)*a) && text_is_digit((uint8_t)*b)) {
			unsigned long long left = 0, right = 0;
			for (; text_is_digit((uint8_t)*a); a++)
				left = left * 10 + (unsigned)(*a - '0');
			for (; text_is_digit((uint8_t)*b); b++)
				right = right * 10 + (unsigned)(*b - '0');
			if (left != right)
				return left < right ? -1 : 1;
		} else if (*a != *b) {
			return *a < *b ? -1 : 1;
		} else {
			a++;
			b++;
		}
	}
	return 0;
}

/* ---- .comment ---- */

enum { BY_GCC, BY_CLANG, BY_RUSTC, BY_COUNT };
static const char *const comment_names[BY_COUNT] = {"gcc", "clang", "rustc"};

/* "GCC: (PACKAGE) 12.2.0 [DATE ...]" */
static bool take_gcc(const char *text, size_t len, struct version *ret)
{
	const char *bracket;

	if (len < 6 || memcmp(text, "GCC: (", 6) != 0)
		return false;
	bracket = memchr(text, ')', len);
	size_t skip = bracket ? (size_t)(bracket - text) + 2 : len;
	return skip < len && take_version(text + skip, len - skip, ret);
}

/* "[VENDOR ]clang version 14.0.6", "rustc version 1.63.0 (...)" */
static bool take_after(const char *text, size_t len, const char *words, bool anywhere, struct version *ret)
{
	const char *found = memmem(text, len, words, strlen(words));

	if (!found || (found != text && (!anywhere || found[-1] != ' ')))
		return false;
	size_t skip = (size_t)(found - text) + strlen(words);
	return take_version(text + skip, len - skip, ret);
}

static void see_comment(const char *text, size_t len, struct version newest[BY_COUNT])
{
	struct version version;
	unsigned by;

	if (take_gcc(text, len, &version))
		by = BY_GCC;
	else if (take_after(text, len, "clang version ", true, &version))
		by = BY_CLANG;
	else if (take_after(text, len, "rustc version ", false, &version))
		by = BY_RUSTC;
	else
		return;
	if (compare_versions(version.text, newest[by].text) > 0)
		newest[by] = version;
}

static void read_comment(struct elf_file *file, struct bytes comment, struct compiler *ret)
{
	struct version newest[BY_COUNT] = {0};
	const char *at = (const char *)comment.data;
	size_t left = comment.len;

	while (left) {
		size_t len = strnlen(at, left);
		see_comment(at, len, newest);
		len += len < left;
		at += len;
		left -= len;
	}
	for (unsigned by = BY_COUNT; by-- > 0;) {
		if (newest[by].text[0]) {
			snprintf(ret->name, sizeof(ret->name), "%s %.*s", comment_names[by], (int)VERSION_MAX, newest[by].text);
			return;
		}
	}
}

/* ---- Go ---- */

static uint64_t read_pointer(const uint8_t *data, size_t size, bool big_endian)
{
	uint64_t value = 0;

	for (size_t i = 0; i < size; i++)
		value |= (uint64_t)data[big_endian ? size - 1 - i : i] << (8 * i);
	return value;
}

/* Reads at a virtual address. */
static bool read_at(struct elf_file *file, uint64_t address, void *ret, size_t len)
{
	uint64_t offset;
	const struct elf_segment *s = elf_file_find_loaded(file, address, &offset);
	return s && len <= s->file_size - (address - s->address) && elf_file_read(file, offset, ret, len, NULL) == 0;
}

/* "go1.19.8", "go1.22rc1 X:boringcrypto"; "devel go1.20-4c5a..." */
static void set_go(const char *text, size_t len, struct compiler *ret)
{
	struct version version;

	if (take_after(text, len, "go", true, &version))
		snprintf(ret->name, sizeof(ret->name), "go %.*s", (int)VERSION_MAX, version.text);
}

static void read_go_pointers(struct elf_file *file, struct bytes info, struct compiler *ret)
{
	size_t size = info.data[14];
	bool big_endian = info.data[15] & GO_BIG_ENDIAN;
	uint8_t string[16];
	char text[128];

	if (size != 4 && size != 8)
		return;
	if (!read_at(file, read_pointer(info.data + 16, size, big_endian), string, 2 * size))
		return;
	uint64_t address = read_pointer(string, size, big_endian), len = read_pointer(string + size, size, big_endian);
	if (len && len < sizeof(text) && read_at(file, address, text, (size_t)len))
		set_go(text, (size_t)len, ret);
}

static void read_go_info(struct elf_file *file, struct bytes info, struct compiler *ret)
{
	static const char magic[] = "\xff Go buildinf:";

	if (info.len < GO_HEADER_BYTES || memcmp(info.data, magic, sizeof(magic) - 1) != 0)
		return;
	if (!(info.data[15] & GO_INLINE)) {
		read_go_pointers(file, info, ret);
		return;
	}
	size_t len = info.len > GO_HEADER_BYTES ? info.data[GO_HEADER_BYTES] : 0;
	if (len < 128 && len < info.len - GO_HEADER_BYTES) /* one byte of a varint; no version is longer */
		set_go((const char *)info.data + GO_HEADER_BYTES + 1, len, ret);
}

static void read_go_note(struct elf_file *file, struct bytes note, struct compiler *ret)
{
	Elf64_Nhdr header; /* the same in both classes */

	if (note.len < sizeof(header) + 4)
		return;
	memcpy(&header, note.data, sizeof(header));
	size_t left = note.len - sizeof(header) - 4;
	if (header.n_namesz != 4 || header.n_type != GO_NOTE_TYPE || memcmp(note.data + sizeof(header), "Go\0", 4) != 0 ||
	    header.n_descsz > left || header.n_descsz >= sizeof(ret->go_build_id))
		return;
	const uint8_t *id = note.data + sizeof(header) + 4;
	for (size_t i = 0; i < header.n_descsz; i++) {
		if (id[i] <= ' ' || id[i] >= 0x7f)
			return;
	}
	memcpy(ret->go_build_id, id, header.n_descsz);
	ret->go_build_id[header.n_descsz] = 0;
}

/* ---- all of it ---- */

/* Hands the first bytes of a section to take(). A section that is not there, or cannot be read, is passed over. */
static int with_section(struct elf_file *file, const char *name, uint64_t most,
			void (*take)(struct elf_file *file, struct bytes contents, struct compiler *ret), struct compiler *ret)
{
	const struct elf_section *found = elf_file_find_section(file, name);
	struct elf_section section;
	struct bytes contents;

	if (!found)
		return 0;
	section = *found;
	if (section.size > most)
		section.size = most;
	int r = elf_file_read_section(file, &section, most, &contents, NULL);
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	take(file, contents, ret);
	mem_free((void *)contents.data);
	return 0;
}

int compiler_read(struct elf_file *file, struct compiler *ret, struct error *err)
{
	*ret = (struct compiler){0};
	int r = elf_file_load_sections(file, err);
	if (r < 0)
		return r == -EBADMSG ? 0 : r;
	r = with_section(file, ".comment", COMMENT_BYTES_MAX, read_comment, ret);
	if (r == 0)
		r = with_section(file, ".go.buildinfo", GO_INFO_BYTES_MAX, read_go_info, ret); /* wins */
	if (r == 0)
		r = with_section(file, ".note.go.buildid", NOTE_BYTES_MAX, read_go_note, ret);
	return r < 0 ? error_nomem(err) : 0;
}

int compiler_read_fd(int fd, struct compiler *ret, struct error *err)
{
	_cleanup_(elf_file_release) struct elf_file file = {0};

	*ret = (struct compiler){0};
	int r = elf_file_open(&file, fd, "the file", err);
	return r < 0 ? r : compiler_read(&file, ret, err);
}
