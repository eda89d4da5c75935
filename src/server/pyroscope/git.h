/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading git repositories on this machine, with the git command. Essay at the top of git.c. Only objects are read: a working
 * tree, if there is one, is not looked at.
 */
#ifndef WICK_SERVER_PYROSCOPE_GIT_H
#define WICK_SERVER_PYROSCOPE_GIT_H

#include "base/buffer.h"
#include "base/cancel.h"
#include "base/cleanup.h"
#include "base/error.h"

#define GIT_FILE_MAX  (4u * 1024 * 1024)
#define GIT_PATHS_MAX 64
#define GIT_SHA_SIZE  65 /* of SHA-256; SHA-1 is shorter */

struct git {
	int directory; /* the repository: what GIT_DIR is */
	const atomic_bool *cancel;
};
/*
 * The repository that a URL names, below `root`: HOST/OWNER/NAME, OWNER/NAME or NAME, each also with ".git". -EINVAL: no such
 * URL can be of a repository; -ENOENT: there is none; -EACCES: it lies outside `root`, where a symbolic link or a file leads.
 */
int git_open(const char *root, const char *url, const atomic_bool *cancel, struct git *ret, struct error *err);
void git_close(struct git *git);

/* A branch, a tag, or (the beginning of) the id of a commit; "" = HEAD. -EINVAL: no name of one; -ENOENT. Like all below also
 * -ENOSYS: git is not installed; -ETIME, -ECANCELED, -EIO. */
int git_find_commit(const struct git *git, const char *ref, char out[static GIT_SHA_SIZE], struct error *err);

struct git_commit {
	char author[256], date[32]; /* RFC 3339, as the author wrote it */
	struct buffer message;
};
int git_read_commit(const struct git *git, const char *sha, struct git_commit *ret, struct error *err);
void git_commit_release(struct git_commit *commit);

/* The first of several paths that is a file of the commit; *ret_path is which. -ENOENT: none is; -E2BIG: more than
 * GIT_FILE_MAX. */
int git_read_file(const struct git *git, const char *sha, const char *const *paths, size_t count, size_t *ret_path,
		  struct buffer *out, struct error *err);

#endif
