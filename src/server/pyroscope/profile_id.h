/* SPDX-License-Identifier: Apache-2.0 */
/* Ids of profiles, as exemplars carry them and profile_id_selector asks for them. Essay at the top of profile_id.c. */
#ifndef WICK_SERVER_PYROSCOPE_PROFILE_ID_H
#define WICK_SERVER_PYROSCOPE_PROFILE_ID_H

#include "base/error.h"
#include "base/time.h"
#include "server/http/rpc_read.h"

#define PYROSCOPE_IDS_MAX 100 /* in one request */
struct pyroscope_profile_id {
	int64_t time_ms;
	uint64_t series; /* series_key() */
};
#define PYROSCOPE_ID_TEXT   37
#define PYROSCOPE_ID_MS_MAX (INT64_MAX / NS_PER_MS - 1) /* in nanoseconds it and its end have 63 bits */
/* time_ms: 0 to PYROSCOPE_ID_MS_MAX */
void pyroscope_profile_id_format(const struct pyroscope_profile_id *id, char out[static PYROSCOPE_ID_TEXT]);
/* -EINVAL: no UUID. 1: one, but none of a profile stored here; 0: *ret is set. */
int pyroscope_profile_id_parse(const char *text, struct pyroscope_profile_id *ret, struct error *err);
/* All of a list that are of profiles stored here, by rising time, without doubles. ret has room for PYROSCOPE_IDS_MAX; -EINVAL:
 * more, or one is no UUID. */
int pyroscope_profile_ids(const struct rpc_list *list, struct pyroscope_profile_id *ret, size_t *ret_count, struct error *err);

#endif
