/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ids under which profiles speak of a file, and of what type they are (docs/symbols.md, "Ids"). All are lower-case hex.
 *
 *   GNU    the build-id (build_id.h)
 *   hash   of parts of the file (file_hash_read_fd()): what Wick's agent, OpenTelemetry's profiler and Parca Agent use where
 *          there is no build-id
 *   Go     the text that `go tool buildid` prints, in hex, its first 64 bytes: what is left where a client says nothing else
 *
 * Rejected: the Go build-id as the identity of Go programs. Parca Agent once did so, and does no longer; OpenTelemetry's
 * profiler sends it beside the hash; some build systems set it to one and the same text ("redacted"). The hash tells more
 * apart: the note with the Go build-id lies in the part of the file that it is made of.
 */
#ifndef WICK_ELF_FILE_IDS_H
#define WICK_ELF_FILE_IDS_H

#include "base/buffer.h"
#include "elf/build_id.h"
#include "elf/elf_file.h"

/* Append-only; stored in notes of uploads and as names of directories. */
enum file_id_type {
	FILE_ID_GNU,
	FILE_ID_HASH,
	FILE_ID_GO,
	FILE_ID_TYPES,
};
extern const char *const file_id_type_names[FILE_ID_TYPES]; /* "gnu", "hash", "go" */
/* False, and *ret untouched, for other names. */
bool file_id_type_parse(const char *name, enum file_id_type *ret);

/* False for what is no Go build-id: empty, or the same for all programs of a build system. */
bool file_id_of_go(struct bytes go_build_id, char out[static BUILD_ID_HEX_MAX]);
/* Is the file behind fd (a regular file; kept open) one of that id, of whatever type? 0: it is its build-id; positive: another
 * of its ids. -ENOENT: none of them, -ENOMEM. */
int file_has_id(int fd, const char *id);

/* Does the file hold its code where its segments say, as a program does, and debug information that was split off does not?
 * Needs elf_file_load_sections(). */
bool file_has_code(const struct elf_file *file);
/* All ids that the file behind fd (as above) carries, by type; "" = none of that type. A hash is of a program only: that of a
 * debug file is nobody's id. -ENOEXEC and others when it is no ELF file, -ENOMEM. */
struct file_ids {
	char ids[FILE_ID_TYPES][BUILD_ID_HEX_MAX];
};
int file_ids_read_fd(int fd, struct file_ids *ret, struct error *err);

#endif
