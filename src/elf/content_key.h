/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A name for what unwind tables are made from: two files of one build-id that are not the same get two tables.
 *
 * A build-id says what a file was linked as, not what it is now: tools rewrite sections and keep it, build systems give each
 * build the same one, and anybody can make a file with the build-id of another. So the key is a hash of the file's contents. As
 * agents read it for every file that is mapped, it is not one of all of them:
 *
 *   build-id, size, both ends      4 KiB each: headers, the section table
 *   call frame information         .eh_frame, .eh_frame_hdr, .debug_frame as it is stored: all of it, up to 32 MiB;
 *                                  beyond it, and where nothing says how long it is, samples. Go's table of functions,
 *                                  which rules are made from, counts as such
 *   symbol tables                  64 KiB in samples: where functions begin, for code without CFI
 *   string tables                  64 KiB in samples: what functions are called
 *   code                           2 MiB, which is what is gone through, if the file has no CFI; else 512 KiB in samples
 *
 * A sample is a page of 4 KiB; samples are as far from each other as they can be, the first and the last page among them. So
 * 150 MB of code cost what 512 KiB do, and two files have one key only if their CFI is equal, byte by byte.
 *
 * A stripped copy has a key of its own, and is the same program all the same: its code may be named by the symbols of the
 * other. So there are two more hashes, of parts of the above: of the code with its CFI, which strip leaves as they are, and of
 * .symtab, which it removes.
 */
#ifndef WICK_ELF_CONTENT_KEY_H
#define WICK_ELF_CONTENT_KEY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "elf/build_id.h"

/* With the NUL; of the first 16 bytes of a SHA-256, so that nobody makes a second file of one key. */
#define CONTENT_KEY_HEX 33

struct content_key {
	char key[CONTENT_KEY_HEX];
	char build_id[BUILD_ID_HEX_MAX]; /* "" = none */
	char file_hash[FILE_HASH_HEX];	 /* build_id.h */
	uint64_t code;
	uint64_t symbols; /* of .symtab and its strings; 0 = it has none */
	uint64_t bytes;	  /* that were read */
};
/* May both be one program, of which one was stripped? Else code of the one is not to be named by symbols of the other. */
static inline bool content_key_is_same_program(uint64_t code, uint64_t symbols, uint64_t other_code, uint64_t other_symbols)
{
	return code == other_code && (symbols == other_symbols || !symbols || !other_symbols);
}
/* Whether it is one: of those that others send, nothing else is taken. */
bool content_key_is_valid(const char *key);
/* fd: a regular file; kept open, its position unused. Errors are those of elf_file_open(); -ENOMEM, I/O errors. */
int content_key_read_fd(int fd, struct content_key *ret, struct error *err);

#endif
