/* SPDX-License-Identifier: Apache-2.0 */
/* Private to wick store: verbs that are more than a call. */
#ifndef WICK_CMD_STORE_VERBS_H
#define WICK_CMD_STORE_VERBS_H

#include "cmd/remote.h"

#define STORE_DIRECTORY_MAX 4096
#define EXIT_LOSS	    3 /* done, but data was lost */

struct store_arguments_of {
	struct remote remote;
	const char *data, *from, *to, *selector;
	const char *target;		     /* of a backup */
	bool dry_run, has_loss;		     /* has_loss: set by a verb */
	char directory[STORE_DIRECTORY_MAX]; /* of the tenant's store */
};

/* Calls run for the store in a->directory, and without --tenant for those of its tenants. *ret_loss: some data is lost. */
int store_repair_all(const struct store_arguments_of *a, bool *ret_loss, struct error *err);

/* The store in a->directory, or of the server, into a->target; of a directory without --tenant those of its tenants as well.
 * *ret_loss: some blocks are damaged. */
int store_backup_all(const struct store_arguments_of *a, bool *ret_loss, struct error *err);

#endif
