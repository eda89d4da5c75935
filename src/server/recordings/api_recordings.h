/* SPDX-License-Identifier: Apache-2.0 */
/* Private to api_recordings*.c. */
#ifndef WICK_SERVER_RECORDINGS_API_RECORDINGS_H
#define WICK_SERVER_RECORDINGS_API_RECORDINGS_H

#include "profile/profile.h"
#include "server/core/server_int.h"
#include "server/recordings/routes.h"
#include "server/stores/recordings.h"

/* Whether what a host sent is gzip of a JSON object, and of one host. -EBADMSG says what is wrong; -E2BIG beyond
 * RECORDINGS_PLAIN_MAX. */
int api_recording_check(struct bytes gzip, struct error *err);
/* The profiles of all hosts, or of those that the parameter `host` names, on one clock, in the format that the request wants.
 */
int api_recording_profile(struct server *server, struct recordings *recordings, const char *id,
			  const struct net_request *request, struct net_response *response, struct error *err);

/* ---- for others that keep and merge what hosts send (api_marker_batches.c) ---- */

/* What may be unpacked for one answer. */
uint64_t api_profile_bytes_max(const struct server *server);

/* A parameter that must be there, in nanoseconds. -EINVAL. */
int api_read_ns(const struct net_request *request, const char *name, bool may_be_negative, int64_t *ret, struct error *err);
/* How a host's clock stands, from the parameters of what it sends; all 0 where it says nothing. -EINVAL. */
int api_read_clock(const struct net_request *request, struct host_clock *ret, struct error *err);
/* What a host sent, as it was kept; `packed` is released early, for both may be large. -EBADMSG, -EINVAL, -E2BIG: it is no
 * profile that can be used. */
int api_decode_upload(struct buffer *packed, const char *host, uint64_t plain_bytes, struct profile **ret, struct error *err);
/* Whether the parameter `host` names it, or nobody. */
bool api_host_is_wanted(const struct net_request *request, const char *host);
/* The answer to a failure: its status, and when to come again. Nothing is changed where code tells of none. */
void api_respond_failure(struct net_response *response, int code, const struct error *err);
/* The answer to what changes something: {}, or that to the failure r. */
void api_respond_done(struct net_response *response, int r, struct error *err);

#endif
