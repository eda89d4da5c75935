/* SPDX-License-Identifier: Apache-2.0 */
/* Which hosts a profile is of, and profiles of several put into one. */
#ifndef WICK_PROFILE_HOSTS_H
#define WICK_PROFILE_HOSTS_H

#include "profile/markers.h"

/* The label that says a sample's host, of its own or of all (the profile's resource). */
#define PROFILE_HOST_LABEL "host.name"

/*
 * Makes a host of the profile of each that its labels name, and gives threads and counters that have none the one that its
 * resource names. Where the resource names none, that is `name` (not NULL) if anything has no host, or the only host there is;
 * it becomes a label there.
 * -ENOMEM, -E2BIG.
 */
int profile_complete_hosts(struct profile *profile, const char *name, struct error *err);

/* Calls a host otherwise, in labels, too; `name` must be that of no other (asserted). The profile's hosts must be complete. */
int profile_rename_host(struct profile *profile, uint32_t host, const char *name, struct error *err);

/*
 * Adds `from`, whose hosts are complete, to `to`, so that hosts stay apart: one of a name that `to` has already becomes
 * "NAME-2" (or -3 ...) in `from` first. Without samples, sample types of `from` do not matter. Times are left alone:
 * profile_align() comes when all are together. Errors as of profile_merge(); -E2BIG also if they are of more than
 * PROFILE_ALIGN_HOSTS_MAX hosts together, and then nothing was changed.
 */
int profile_merge_hosts(struct profile *to, struct profile *from, struct error *err);

#endif
