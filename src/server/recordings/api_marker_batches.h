/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/server/recordings/api_marker_batches.c and api_markers.c. */
#ifndef WICK_SERVER_RECORDINGS_API_MARKER_BATCHES_H
#define WICK_SERVER_RECORDINGS_API_MARKER_BATCHES_H

#include "profile/markers.h"
#include "server/core/server_int.h"
#include "server/recordings/routes.h"
#include "server/stores/marker_batches.h"

/* The markers and counters of a batch, of one host, which has the batch's host name and clock; all times are on the server's
 * clock. *ret_host: its id. -EBADMSG: the batch is malformed. -ENOENT: it has been evicted meanwhile. */
int api_marker_batch_read(struct marker_batches *batches, const struct marker_batch *batch, struct profile **ret,
			  struct error *err);

#endif
