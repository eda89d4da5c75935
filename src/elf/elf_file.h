/* SPDX-License-Identifier: Apache-2.0 */
/*
 * src/elf: what executable files say about themselves: build-id, segments, symbols, and the readable form of mangled names.
 * Everything here is read from files that anybody may have written, so nothing is believed before it is checked.
 *
 * struct elf_file reads little-endian ELF, 32 and 64 bit, through pread(2) or from memory. A mapping is not used on purpose: a
 * file that is cut short while it is mapped kills the reader with SIGBUS, and the agent reads files of processes it does not
 * trust. Every range is checked against the file's size before memory is allocated for it.
 *
 * Not thread-safe; any number of files may be open at once.
 */
#ifndef WICK_ELF_ELF_FILE_H
#define WICK_ELF_ELF_FILE_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/error.h"

#define ELF_SEGMENTS_MAX 4096u
#define ELF_SECTIONS_MAX 65536u

struct elf_segment {
	uint64_t offset, address, file_size, memory_size, align; /* address: virtual, as linked */
	uint32_t type, flags;					 /* PT_*, PF_* */
};

static inline bool elf_segment_is_executed(const struct elf_segment *segment)
{
	return segment->type == PT_LOAD && (segment->flags & PF_X);
}

struct elf_section {
	const char *name; /* "" when it has none or when the name table is damaged */
	uint64_t address, offset, size, flags, align, entry_size;
	uint32_t type, link, info; /* SHT_* */
};

struct elf_file {
	const char *name;    /* for messages; the caller's */
	int fd;		     /* the caller's; -1 when the file is in memory */
	struct bytes memory; /* the caller's; valid when fd is -1 */
	uint64_t size;
	bool is_64;
	uint16_t type, machine; /* ET_*, EM_* */
	uint64_t entry;
	struct elf_segment *segments;
	size_t segment_count;
	struct elf_section *sections; /* NULL until elf_file_load_sections() */
	size_t section_count;

	char *section_names; /* private, as all below */
	uint64_t section_offset;
	uint32_t section_names_index;
	uint16_t section_entry_size;
};

/*
 * Reads the header and the program headers. fd must be a regular file and stays open and the caller's, as do name and memory;
 * all must outlive `file`. `file` needs no initialisation and is released on failure. Errors: -ENOEXEC when it is no ELF file,
 * -ENOTSUP for big-endian ones, -EBADMSG when it is damaged, -E2BIG past the limits above, -EINVAL when fd is no regular file.
 */
int elf_file_open(struct elf_file *file, int fd, const char *name, struct error *err);
int elf_file_open_memory(struct elf_file *file, struct bytes memory, const char *name, struct error *err);
void elf_file_release(struct elf_file *file);

/* Reads the section headers and their names, once. A file without any is fine (section_count stays 0). */
int elf_file_load_sections(struct elf_file *file, struct error *err);
/* The first section of this name, or NULL. Needs elf_file_load_sections(). */
const struct elf_section *elf_file_find_section(const struct elf_file *file, const char *name);
/* The same, NULL also when its bytes are not in this file. */
const struct elf_section *elf_file_find_contents(const struct elf_file *file, const char *name);
bool elf_file_has_dwarf(const struct elf_file *file); /* needs elf_file_load_sections() */
/* The first section of this type (SHT_*), or NULL. */
const struct elf_section *elf_file_find_section_type(const struct elf_file *file, uint32_t type);

/* Reads exactly len bytes at a file offset; -EBADMSG past the end of the file. */
int elf_file_read(struct elf_file *file, uint64_t offset, void *ret, size_t len, struct error *err);
/* Reads a whole range into fresh memory (mem_free() it) with one NUL behind it, so that string tables end. `what` names the
 * range in messages. -E2BIG past max, -EBADMSG past the end of the file. */
int elf_file_read_range(struct elf_file *file, uint64_t offset, uint64_t len, uint64_t max, const char *what, uint8_t **ret,
			struct error *err);
/* The same for a section's contents, unpacked when it is compressed (SHF_COMPRESSED, zlib or zstd; .zdebug*): max bounds both
 * sides. SHT_NOBITS and other compressions are -ENOTSUP. */
int elf_file_read_section(struct elf_file *file, const struct elf_section *section, uint64_t max, struct bytes *ret,
			  struct error *err);
/* The same for the section of a name; -ENOENT, without a message, if there is none whose bytes are in this file. Needs
 * elf_file_load_sections(). */
int elf_file_read_contents(struct elf_file *file, const char *name, uint64_t max, struct bytes *ret, struct error *err);

/*
 * Where the file's code is, as linked: its executed segments, of which up to `max` are listed; none is empty or wraps around.
 *
 * Tools that split debug information off may leave no loaded segment behind (Parca Agent keeps PT_NOTE only). Then a segment
 * without contents stands for each run of executed sections: from the first section of the run to the end of the last one, or
 * to the next section that is loaded where the size of the last was cleared, too. Needs elf_file_load_sections() for that.
 */
size_t elf_file_find_code(const struct elf_file *file, struct elf_segment *ret, size_t max);
/* Whether it has segments that are loaded; what only has debug information may have none. */
bool elf_file_has_loaded(const struct elf_file *file);
/* The segment whose contents are loaded at an address, and where in the file they are; NULL if there is none. */
const struct elf_segment *elf_file_find_loaded(const struct elf_file *file, uint64_t address, uint64_t *ret_offset);
/* The virtual address of a file offset, through the PT_LOAD segments; false when no segment holds it. */
bool elf_file_offset_to_address(const struct elf_file *file, uint64_t offset, uint64_t *ret_address);

#endif
