/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tar: blocks of 512 bytes. A header block, the contents padded to whole blocks, the next header; two blocks of zeros, or the
 * end of the file, end it.
 *
 *   offset  0 name[100]   124 size[12]     octal, or big-endian binary when the first byte has its high bit (GNU, star)
 *         148 checksum[8] 156 type         the sum of the header's bytes, with blanks in its own place
 *         257 magic[6]    345 prefix[155]  "ustar\0": the name is prefix "/" name. GNU's "ustar " has no prefix
 *
 *   type '0' '\0' '7' a file; 'L' a GNU header whose contents are the next one's long name; 'x' a pax header, whose contents
 *   are records "LENGTH KEY=VALUE\n" for the next one, of which `path` and `size` matter; 'S' a GNU sparse file, with more
 *   header blocks behind the header. All others are passed over: 'g' (pax, for all that follow), 'K', directories, links,
 *   devices.
 *
 * Links and directories have no contents, whatever their size says: old archivers wrote the size of what a link leads to.
 *
 * Written for hostility. One buffer for input and one for what is unpacked, both of a fixed size; a counter that ends a bomb
 * (a gigabyte of zeros is a megabyte of gzip); headers must have a right checksum, names and pax headers a bounded length;
 * sizes are never allocated for, only counted down. Nothing is written anywhere, so names are only names, and
 * "../../etc/passwd" is one like any other.
 *
 * Rejected: libarchive, which reads far more formats than are wanted here and loads a dozen libraries (XML, ACLs, Kerberos'
 * crypto) into every process that has it, agents included; unpacking whole archives to memory or disk first.
 */
#include "codec/archive.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "codec/input.h"

#define BLOCK		512u
#define CHUNK		(64u * 1024)
#define PAX_BYTES_MAX	(64u * 1024)
#define BYTES_DEFAULT	(2 * GIB)
#define ENTRIES_DEFAULT 1000000u

#ifdef WICK_FUZZING
#define IGNORE_CHECKSUMS true /* a fuzzer would not get past them */
#else
#define IGNORE_CHECKSUMS false
#endif

struct archive {
	struct input *input;
	const char *name;
	struct archive_options options;
	uint8_t out[CHUNK]; /* unpacked */
	size_t out_at, out_len;
	uint64_t unpacked, entries;

	uint64_t left, padding; /* of the current entry */
	uint64_t size;
	struct buffer path; /* of the current entry; from a header before it if not empty */
	bool has_size;	    /* from a pax header: */
	uint64_t next_size;
};

/* ---- unpacked bytes ---- */

static int damaged(const struct archive *a, struct error *err, const char *what)
{
	return error_set(err, -EBADMSG, "%s: damaged archive: %s", a->name, what);
}

/* At least one byte more in `out`; 0 at the end of the input. */
static int fill(struct archive *a, struct error *err)
{
	struct error fault = {0};
	size_t name = strlen(a->name) + strlen(": ");
	if (cancel_requested(a->options.cancel))
		return error_set(err, -ECANCELED, "cancelled");
	ssize_t n = input_read(a->input, a->out, sizeof(a->out), &fault);
	if (n == -EBADMSG) /* which says "NAME: what", cut at its end if the name is long */
		return damaged(a, err, strlen(fault.message) > name ? fault.message + name : fault.message);
	if (n < 0)
		return error_set(err, (int)n, "%s", fault.message);
	a->out_at = 0;
	a->out_len = (size_t)n;
	a->unpacked += a->out_len;
	if (a->unpacked > a->options.bytes_max)
		return error_set(err, -E2BIG, "%s: more than %llu bytes after decompression, the limit", a->name,
				 (unsigned long long)a->options.bytes_max);
	return n > 0;
}

/* Takes up to len bytes, to `to` if it is not NULL; fewer only at the end. *ret_taken says how many. */
static int take(struct archive *a, uint8_t *to, uint64_t len, uint64_t *ret_taken, struct error *err)
{
	uint64_t taken = 0;
	while (taken < len) {
		if (a->out_at == a->out_len) {
			int r = fill(a, err);
			if (r < 0)
				return r;
			if (r == 0)
				break;
		}
		size_t there = a->out_len - a->out_at;
		size_t n = len - taken < there ? (size_t)(len - taken) : there;
		if (to)
			memcpy(to + taken, a->out + a->out_at, n);
		a->out_at += n;
		taken += n;
	}
	*ret_taken = taken;
	return 0;
}

static int take_all(struct archive *a, uint8_t *to, uint64_t len, struct error *err)
{
	uint64_t taken;
	int r = take(a, to, len, &taken, err);
	if (r == 0 && taken < len)
		r = damaged(a, err, "it is truncated within a file");
	return r;
}

/* ---- life ---- */

int archive_open(int fd, const char *name, const struct archive_options *options, struct archive **ret, struct error *err)
{
	struct archive *a = mem_zalloc(sizeof(*a));
	if (!a)
		return error_nomem(err);
	a->name = name;
	a->options = *options;
	if (a->options.bytes_max == 0)
		a->options.bytes_max = BYTES_DEFAULT;
	if (a->options.entries_max == 0)
		a->options.entries_max = ENTRIES_DEFAULT;
	buffer_init(&a->path, ARCHIVE_PATH_MAX);
	int r = input_borrow_fd(fd, name, &a->input, err);
	if (r < 0)
		archive_free(a);
	else
		*ret = a;
	return r;
}

struct archive *archive_free(struct archive *archive)
{
	if (!archive)
		return NULL;
	input_free(archive->input);
	buffer_release(&archive->path);
	return mem_free(archive);
}

/* ---- headers ---- */

static bool parse_number(const uint8_t *field, size_t len, uint64_t *ret)
{
	uint64_t value = 0;
	size_t i = 0;
	if (field[0] & 0x80) {
		value = field[0] & 0x7f;
		for (i = 1; i < len; i++) {
			if (value >> 55)
				return false;
			value = value << 8 | field[i];
		}
		*ret = value;
		return true;
	}
	while (i < len && field[i] == ' ')
		i++;
	for (; i < len && field[i] >= '0' && field[i] <= '7'; i++)
		value = value << 3 | (uint64_t)(field[i] - '0');
	*ret = value;
	return i == len || field[i] == ' ' || field[i] == '\0';
}

static bool is_zero(const uint8_t *block)
{
	for (size_t i = 0; i < BLOCK; i++)
		if (block[i])
			return false;
	return true;
}

/* Some old archivers summed signed bytes. */
static bool checksum_is_right(const uint8_t *block)
{
	uint64_t wanted;
	int64_t sum = 8 * ' ', signed_sum = 8 * ' ';
	for (size_t i = 0; i < BLOCK; i++) {
		if (i >= 148 && i < 156)
			continue;
		sum += block[i];
		signed_sum += (int8_t)block[i];
	}
	return IGNORE_CHECKSUMS ||
	       (parse_number(block + 148, 8, &wanted) && ((int64_t)wanted == sum || (int64_t)wanted == signed_sum));
}

static int copy_name(struct archive *a, const uint8_t *block)
{
	size_t name = strnlen((const char *)block, 100), prefix = strnlen((const char *)block + 345, 155);
	buffer_clear(&a->path);
	if (memcmp(block + 257, "ustar\0", 6) == 0 && prefix > 0) {
		buffer_append(&a->path, block + 345, prefix);
		buffer_append_byte(&a->path, '/');
	}
	return buffer_append(&a->path, block, name);
}

/* The contents of a header entry, "L" or "x". */
static int read_extension(struct archive *a, const char *what, size_t max, struct buffer *ret, struct error *err)
{
	if (a->size > max)
		return error_set(err, -E2BIG, "%s: %s of %llu bytes, more than the limit of %zu", a->name, what,
				 (unsigned long long)a->size, max);
	buffer_init(ret, max);
	return archive_read(a, ret, err);
}

static int read_long_name(struct archive *a, struct error *err)
{
	_cleanup_(buffer_release) struct buffer text = {0};
	int r = read_extension(a, "a name", ARCHIVE_PATH_MAX, &text, err);
	if (r < 0)
		return r;
	buffer_clear(&a->path);
	return buffer_append(&a->path, text.data, text.len ? strnlen((const char *)text.data, text.len) : 0) < 0
		       ? error_nomem(err)
		       : 0;
}

static bool parse_decimal(struct bytes text, uint64_t *ret)
{
	uint64_t value = 0;
	for (size_t i = 0; i < text.len; i++) {
		if (text.data[i] < '0' || text.data[i] > '9' || value > UINT64_MAX / 100)
			return false;
		value = value * 10 + (uint64_t)(text.data[i] - '0');
	}
	*ret = value;
	return text.len > 0;
}

static int take_record(struct archive *a, struct bytes record, struct error *err)
{
	const uint8_t *equals = memchr(record.data, '=', record.len);
	if (!equals)
		return damaged(a, err, "bad pax record");
	struct bytes key = {record.data, (size_t)(equals - record.data)}, value = {equals + 1, record.len - key.len - 1};
	if (bytes_equal_string(key, "size")) {
		a->has_size = parse_decimal(value, &a->next_size) && a->next_size < (uint64_t)INT64_MAX;
		return a->has_size ? 0 : damaged(a, err, "bad size");
	}
	if (!bytes_equal_string(key, "path"))
		return 0;
	buffer_clear(&a->path);
	int r = buffer_append(&a->path, value.data, strnlen((const char *)value.data, value.len));
	return r == -E2BIG ? error_set(err, r, "%s: a name longer than %u bytes", a->name, ARCHIVE_PATH_MAX)
	       : r < 0	   ? error_nomem(err)
			   : 0;
}

static int read_pax(struct archive *a, struct error *err)
{
	_cleanup_(buffer_release) struct buffer text = {0};
	int r = read_extension(a, "a pax header", PAX_BYTES_MAX, &text, err);
	for (size_t at = 0; at < text.len && r == 0;) {
		uint64_t len;
		const uint8_t *begin = text.data + at, *blank = memchr(begin, ' ', text.len - at);
		if (!blank || !parse_decimal((struct bytes){begin, (size_t)(blank - begin)}, &len) || len > text.len - at ||
		    len < (uint64_t)(blank - begin) + 2 || begin[len - 1] != '\n')
			return damaged(a, err, "bad pax record");
		r = take_record(a, (struct bytes){blank + 1, (size_t)(begin + len - 1 - (blank + 1))}, err);
		at += len;
	}
	return r;
}

/* More header blocks follow while the byte behind a block's list of pieces is set. */
static int skip_sparse_headers(struct archive *a, uint8_t *block, struct error *err)
{
	bool more = block[482];
	int r = 0;
	while (more && r == 0) {
		r = take_all(a, block, BLOCK, err);
		more = r == 0 && block[504];
	}
	return r;
}

/* What a header of this type is followed by; a file's path and size are those that came before it, if any did. */
static int begin_entry(struct archive *a, uint8_t *block, char type, struct error *err)
{
	bool is_file = type == '0' || type == '\0' || type == '7', for_next = type == 'L' || type == 'x';
	if (++a->entries > a->options.entries_max)
		return error_set(err, -E2BIG, "%s: more than %llu files, the limit", a->name,
				 (unsigned long long)a->options.entries_max);
	if (!parse_number(block + 124, 12, &a->size) || a->size > (uint64_t)INT64_MAX)
		return damaged(a, err, "bad size");
	if (!for_next && type != 'g' && type != 'K' && a->has_size)
		a->size = a->next_size;
	if (type >= '1' && type <= '6')
		a->size = 0;
	if (is_file && a->path.len == 0 && copy_name(a, block) < 0)
		return error_nomem(err);
	if (type == 'S') {
		int r = skip_sparse_headers(a, block, err);
		if (r < 0)
			return r;
	}
	a->left = a->size;
	a->padding = (BLOCK - a->size % BLOCK) % BLOCK;
	return 0;
}

static void forget_entry(struct archive *a)
{
	a->has_size = false;
	buffer_clear(&a->path);
}

/* The next header that is a file's: 1; 0 at the end. */
static int next_file(struct archive *a, struct error *err)
{
	uint8_t block[BLOCK];
	for (;;) {
		uint64_t taken;
		int r = take_all(a, NULL, a->left + a->padding, err);
		a->left = a->padding = 0;
		if (r == 0)
			r = take(a, block, BLOCK, &taken, err);
		if (r < 0)
			return r;
		if (taken == 0 || (taken == BLOCK && is_zero(block)))
			return 0;
		if (taken < BLOCK || !checksum_is_right(block))
			return damaged(a, err, a->entries ? "bad header" : "not a tar archive");
		char type = (char)block[156];
		r = begin_entry(a, block, type, err);
		if (r < 0)
			return r;
		if (type == '0' || type == '\0' || type == '7')
			return 1;
		if (type == 'L' || type == 'x')
			r = type == 'L' ? read_long_name(a, err) : read_pax(a, err);
		else if (type != 'g' && type != 'K')
			forget_entry(a);
		if (r < 0)
			return r;
	}
}

int archive_next(struct archive *archive, struct archive_entry *ret, struct error *err)
{
	forget_entry(archive);
	int r = next_file(archive, err);
	if (r <= 0)
		return r;
	const char *path = buffer_string(&archive->path);
	if (!path)
		return error_nomem(err);
	*ret = (struct archive_entry){.path = path, .size = archive->size};
	return 1;
}

int archive_read(struct archive *archive, struct buffer *out, struct error *err)
{
	if (archive->left > out->max - (out->len < out->max ? out->len : out->max))
		return error_set(err, -E2BIG, "%s: a file of %llu bytes, more than the limit of %zu", archive->name,
				 (unsigned long long)archive->left, out->max);
	/* What it claims to hold is believed a chunk at a time. */
	int r = 0;
	while (archive->left > 0 && r == 0) {
		size_t chunk = archive->left < CHUNK ? (size_t)archive->left : CHUNK;
		if (buffer_reserve(out, chunk) < 0)
			return error_nomem(err);
		r = take_all(archive, out->data + out->len, chunk, err);
		if (r == 0) {
			out->len += chunk;
			archive->left -= chunk;
		}
	}
	return r;
}
