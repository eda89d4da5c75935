/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is an uploaded file what it says it is? That much is decided here, in the server's own process, by the readers that are made
 * for hostile files: an ELF header and notes, the first bytes of the others. What the files hold is parsed later, and
 * elsewhere.
 */
#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/text.h"
#include "symbol/kernel/kallsyms_text.h"
#include "symbol/uploads_int.h"

#define TAR_MAGIC_AT 257

const char *const upload_kind_names[UPLOAD_KINDS] = {"debuginfo", "executable", "sources", "kallsyms"};

static bool has_bytes(struct bytes start, size_t at, const char *magic, size_t len)
{
	return start.len >= at + len && memcmp(start.data + at, magic, len) == 0;
}

bool upload_begins_well(enum upload_kind kind, struct bytes start)
{
	switch (kind) {
	case UPLOAD_DEBUGINFO:
	case UPLOAD_EXECUTABLE: return has_bytes(start, 0, ELFMAG, SELFMAG);
	case UPLOAD_SOURCES:
		return has_bytes(start, 0, "\x1f\x8b", 2) || has_bytes(start, 0, "\x28\xb5\x2f\xfd", 4) ||
		       has_bytes(start, TAR_MAGIC_AT, "ustar", 5);
	case UPLOAD_KALLSYMS: return has_bytes(start, 0, KALLSYMS_TEXT_START, strlen(KALLSYMS_TEXT_START));
	case UPLOAD_KINDS: break;
	}
	return false;
}

static int check_elf(int fd, const struct upload_begin *begin, struct error *err)
{
	char build_id[BUILD_ID_HEX_MAX];
	struct error problem = {0};
	int r = build_id_read_fd(fd, build_id, &problem);
	if ((r == 0 || r == -ENOENT) && begin->without_build_id)
		return 0;
	if (r == -ENOMEM || r == -EIO)
		return error_set(err, r, "%s", problem.message);
	if (r < 0)
		return error_set(err, -EBADMSG, "the upload is not the ELF file of that build-id: %s", problem.message);
	if (strcmp(build_id, begin->build_id) != 0)
		return error_set(err, -EBADMSG, "the uploaded file has another build-id: %s", build_id);
	return 0;
}

static int check_hash(int fd, const struct upload_begin *begin, struct error *err)
{
	struct hash128 hash;
	char hex[33];
	if (strlen(begin->hash) != 32 || strspn(begin->hash, "0123456789abcdef") != 32)
		return 0; /* of another kind: the client's own business */
	int r = hash128_file(fd, "the uploaded file", &hash, err);
	if (r < 0)
		return r;
	snprintf(hex, sizeof(hex), "%016llx%016llx", (unsigned long long)hash.high, (unsigned long long)hash.low);
	if (strcmp(hex, begin->hash) == 0)
		return 0;
	return error_set(err, -EBADMSG, "the file was damaged in transit: its XXH3-128 is %s instead of %s", hex, begin->hash);
}

#define CHUNK (64 * KIB)

static void free_context(EVP_MD_CTX **context)
{
	EVP_MD_CTX_free(*context);
}

int upload_content(int fd, char out[static UPLOAD_CONTENT_HEX], struct error *err)
{
	uint8_t digest[EVP_MAX_MD_SIZE];
	_cleanup_(mem_freep) uint8_t *chunk = mem_alloc(CHUNK);
	_cleanup_(free_context) EVP_MD_CTX *context = EVP_MD_CTX_new();
	if (!chunk || !context || EVP_DigestInit_ex(context, EVP_sha256(), NULL) != 1)
		return error_nomem(err);
	for (uint64_t at = 0;;) {
		ssize_t len = io_pread(fd, chunk, CHUNK, at, "the uploaded file", err);
		if (len < 0)
			return (int)len;
		if (len == 0)
			break;
		if (EVP_DigestUpdate(context, chunk, (size_t)len) != 1)
			return error_nomem(err);
		at += (uint64_t)len;
	}
	if (EVP_DigestFinal_ex(context, digest, NULL) != 1)
		return error_nomem(err);
	text_format_hex((struct bytes){digest, (UPLOAD_CONTENT_HEX - 1) / 2}, out);
	return 0;
}

int upload_check(int fd, const struct upload_begin *begin, struct error *err)
{
	uint8_t start[UPLOAD_START_BYTES];
	ssize_t len = io_pread(fd, start, sizeof(start), 0, "the uploaded file", err);
	if (len < 0)
		return (int)len;
	if (!upload_begins_well(begin->kind, (struct bytes){start, (size_t)len}))
		return error_set(err, -EBADMSG, "the upload does not start like a file of kind %s",
				 upload_kind_names[begin->kind]);
	int r = check_hash(fd, begin, err);
	if (!r && (begin->kind == UPLOAD_DEBUGINFO || begin->kind == UPLOAD_EXECUTABLE))
		r = check_elf(fd, begin, err);
	return r;
}
