/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Becoming another user, for programs that root starts and that need root for nothing but their start. Essay at the top of
 * user.c. All of it before there are threads.
 */
#ifndef WICK_BASE_PRIVILEGE_USER_H
#define WICK_BASE_PRIVILEGE_USER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/capability.h>
#include <sys/types.h>

#include "base/error.h"

/* As whom the packages run the agent. */
#define AGENT_USER "wick-agent"

struct user {
	uid_t uid;
	gid_t gid;
	char name[64]; /* the number if it has none */
};
/* By name, or by number if there is none of the name; -ENOENT. */
int user_find(const char *name, struct user *ret, struct error *err);
/* Who has called sudo, for a program that root runs; false: nobody, or root. */
bool user_find_sudo(struct user *ret);
/* By number: one without a name has the group of its number. */
void user_of(uid_t uid, struct user *ret);

/*
 * Makes a directory, and everything below it, the user's: what is root's there, or not there yet. 0; -EPERM with the path that
 * cannot be given away safely, or that is another user's: the directory itself is then as it was, what is below it in part. A
 * directory that has something in it needs one of the names (patterns, NULL-terminated), which say whose it is: nobody gets
 * /etc by a mistyped path.
 */
int user_hand_over(const struct user *user, const char *directory, const char *const *patterns, struct error *err);

/* Whether nobody but root decides which file a path leads to: each directory on the way, and on that of each link, is
 * root's, and no other may write to it. In one like /tmp, where all may write but not to what is another's, what is root's
 * counts as well. */
bool user_only_root_decides(const char *path);

/* Becomes the user, with these capabilities and no others, now and for all that is started (ambient ones: none). For root only;
 * who is not root already keeps these capabilities of those that it has. */
int user_become(const struct user *user, const cap_value_t *kept, size_t count, struct error *err);
/* The same without becoming somebody else. */
int user_keep_capabilities(const cap_value_t *kept, size_t count, struct error *err);

#endif
