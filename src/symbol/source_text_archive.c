/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file of an archive, by the path that debug information has for it.
 *
 * Sources are built in one place and packed in another, so the paths of an archive seldom begin as those in the debug
 * information do, but they end the same. Paths are compared by components from the last one on, after "." and ".." have been
 * worked out; the archive is read once, and the best file so far is kept. When two files are as good as each other, none is
 * shown: a listing of the wrong file is worse than none.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "codec/archive.h"
#include "symbol/source_text.h"
#include "symbol/source_text_int.h"

#define PATH_BYTES PATH_MAX

/* "/a/./b/../c" and "a/c" become "a/c". The result is no longer than the path, which is shorter than PATH_BYTES. */
static void normalize(const char *path, char out[static PATH_BYTES])
{
	size_t len = 0;
	while (*path) {
		size_t part = strcspn(path, "/");
		if (part == 2 && memcmp(path, "..", 2) == 0) {
			while (len > 0 && out[len - 1] != '/')
				len--;
			len -= len > 0;
		} else if (part > 0 && !(part == 1 && path[0] == '.')) {
			if (len > 0)
				out[len++] = '/';
			memcpy(out + len, path, part);
			len += part;
		}
		path += part + (path[part] == '/');
	}
	out[len] = '\0';
}

/* Where the last component of path[0 .. len) begins. */
static size_t last_component(const char *path, size_t len)
{
	const char *slash = memrchr(path, '/', len);
	return slash ? (size_t)(slash + 1 - path) : 0;
}

/* How many components at the end are equal; UINT_MAX when the paths are. */
static unsigned compare_paths(const char *a, const char *b)
{
	size_t a_len = strlen(a), b_len = strlen(b);
	unsigned equal = 0;
	while (a_len > 0 && b_len > 0) {
		size_t a_at = last_component(a, a_len), b_at = last_component(b, b_len);
		if (a_len - a_at != b_len - b_at || memcmp(a + a_at, b + b_at, a_len - a_at) != 0)
			return equal;
		equal++;
		a_len = a_at ? a_at - 1 : 0;
		b_len = b_at ? b_at - 1 : 0;
	}
	return equal && a_len == 0 && b_len == 0 ? UINT_MAX : equal;
}

struct search {
	char wanted[PATH_BYTES];
	unsigned best;
	size_t equals; /* files that are as good as the best */
	bool too_large;
	char names[2][256];
};

static int look_at(struct search *search, struct archive *archive, const struct archive_entry *entry, struct buffer *out,
		   struct error *err)
{
	char path[PATH_BYTES];
	if (strlen(entry->path) >= sizeof(path))
		return 0;
	normalize(entry->path, path);
	unsigned equal = compare_paths(search->wanted, path);
	if (equal == 0 || equal < search->best)
		return 0;
	search->equals = equal == search->best ? search->equals + 1 : 1;
	search->best = equal;
	snprintf(search->names[search->equals > 1], sizeof(search->names[0]), "%.250s", path);
	if (search->equals > 1)
		return 0;
	buffer_clear(out);
	search->too_large = entry->size > out->max;
	return search->too_large ? 0 : archive_read(archive, out, err);
}

int source_text_read_archive(int fd, const char *path, const atomic_bool *cancel, struct buffer *out, struct error *err)
{
	_cleanup_(archive_freep) struct archive *archive = NULL;
	struct archive_options options = {.cancel = cancel};
	struct archive_entry entry;
	struct search search = {0};
	if (strlen(path) >= sizeof(search.wanted))
		return error_set(err, -ENOENT, "the path is longer than %d bytes", PATH_BYTES);
	normalize(path, search.wanted);
	int r = archive_open(fd, "the uploaded archive", &options, &archive, err);
	if (r < 0)
		return r;
	while (search.best < UINT_MAX && (r = archive_next(archive, &entry, err)) > 0) {
		r = look_at(&search, archive, &entry, out, err);
		if (r < 0)
			break;
	}
	if (r >= 0 && search.equals == 1 && search.too_large)
		return error_set(err, -E2BIG, "%s in the uploaded archive is larger than %zu bytes", search.names[0], out->max);
	if (r >= 0 && search.equals == 1)
		return 0;
	buffer_clear(out);
	if (r < 0)
		return r;
	if (search.equals == 0)
		return error_set(err, -ENOENT, "the uploaded archive has no such file");
	return error_set(err, -ENOENT, "the uploaded archive has %zu matching files, such as %.200s and %.200s", search.equals,
			 search.names[0], search.names[1]);
}
