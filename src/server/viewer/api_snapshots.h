/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots of profiles that other parts of the server bring (api_snapshots.c). */
#ifndef WICK_SERVER_VIEWER_API_SNAPSHOTS_H
#define WICK_SERVER_VIEWER_API_SNAPSHOTS_H

#include "server/core/server_int.h"
#include "server/stores/snapshots.h"

struct api_snapshot_profile {
	const struct profile *profile;
	const char *name;  /* as of a file */
	const char *title; /* any text */
	/* The end of the snapshot's JSON object: further members, each with a comma before it, which the page passes over, and
	 * the brace. */
	const char *more;
	const atomic_bool *cancel; /* NULL = never */
};
/* Keeps what the page shows of a profile, as of a file that somebody brings. -EACCES: snapshots are switched off; -EAGAIN:
 * another file is worked on; -E2BIG, -ENOSPC, -ECANCELED, -ENOMEM, -EIO. */
int api_snapshot_keep_profile(struct server *server, struct tenant *tenant, const struct api_snapshot_profile *profile,
			      char ret_id[static SNAPSHOT_ID_SIZE], struct error *err);

#endif
