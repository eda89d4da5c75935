/* SPDX-License-Identifier: Apache-2.0 */
/* The GNU build-id: the linker's hash over a file's contents, the name under which a binary and its symbols are known in all of
 * Wick, as lower-case hex. */
#ifndef WICK_ELF_BUILD_ID_H
#define WICK_ELF_BUILD_ID_H

#include <stdbool.h>

#include "base/buffer.h"
#include "base/error.h"
#include "elf/elf_file.h"

#define BUILD_ID_BYTES_MAX 64u /* linkers write 8 to 32 */
#define BUILD_ID_HEX_MAX   129 /* with the NUL */

/* Reads the build-id of the ELF file behind fd (a regular file; kept open, its position unused). -ENOENT when the file has
 * none; otherwise the errors of elf_file_open(). `out` is untouched on failure. */
int build_id_read_fd(int fd, char out[static BUILD_ID_HEX_MAX], struct error *err);
int build_id_read(struct elf_file *file, char out[static BUILD_ID_HEX_MAX], struct error *err);
/* Finds it among raw notes: a note section or segment, /sys/kernel/notes. 0 or -ENOENT. Damaged notes end the search. */
int build_id_from_notes(struct bytes notes, char out[static BUILD_ID_HEX_MAX]);
/*
 * For files that have none (Go before 1.24, Bazel, -Wl,--build-id=none, linkers' defaults): a hash of the file, as
 * OpenTelemetry's profiler makes it ("htlhash") and Parca takes it: the first 16 bytes of the SHA-256 of its first and last
 * 4096 bytes and its length, as hex. Not of all contents, so that it costs two reads of a file of any size: two builds of the
 * same length that differ only in the middle have one hash.
 */
#define FILE_HASH_HEX 33 /* with the NUL */
int file_hash_read_fd(int fd, char out[static FILE_HASH_HEX], struct error *err);
/* What a binary is known by: its build-id, or, if the result is positive, the hash of an ELF file without one. Errors
 * are those of build_id_read_fd(), but -ENOENT. */
int binary_id_read_fd(int fd, char out[static BUILD_ID_HEX_MAX], struct error *err);
/* As hex; of a longer one, its first BUILD_ID_BYTES_MAX bytes. */
void build_id_format(const uint8_t *id, uint64_t len, char out[static BUILD_ID_HEX_MAX]);
/* An even number of lower-case hex digits, 1 to 64 bytes: safe as a file name. */
bool build_id_is_valid(const char *text);

#endif
