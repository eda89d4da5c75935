/* SPDX-License-Identifier: Apache-2.0 */
/* Who made a binary: what compilers and linkers leave in it about themselves, in .comment, .go.buildinfo, .note.go.buildid. */
#ifndef WICK_ELF_COMPILER_H
#define WICK_ELF_COMPILER_H

#include "base/error.h"
#include "elf/elf_file.h"

#define COMPILER_NAME_MAX	 64
#define COMPILER_GO_BUILD_ID_MAX 128

struct compiler {
	char name[COMPILER_NAME_MAX]; /* "gcc 12.2.0", "clang 14.0.6", "rustc 1.63.0", "go 1.19.8"; "" = not known */
	char go_build_id[COMPILER_GO_BUILD_ID_MAX]; /* as `go tool buildid` prints it; "" = none */
};

/* Of several compilers the most telling one: go, rustc, clang, gcc in this order (a C library's startup code is gcc's in almost
 * every binary), and the newest version of that one. A file that says nothing, or nothing that can be read, is no error: errors
 * are those of elf_file_load_sections() for anything but damage, and -ENOMEM. */
int compiler_read(struct elf_file *file, struct compiler *ret, struct error *err);
/* Of the file behind fd (a regular file; kept open). -ENOEXEC and others when it is no ELF file. */
int compiler_read_fd(int fd, struct compiler *ret, struct error *err);

#endif
