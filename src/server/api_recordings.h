/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/server/api_recordings*.c. */
#ifndef WICK_SERVER_API_RECORDINGS_H
#define WICK_SERVER_API_RECORDINGS_H

#include "server/recordings.h"
#include "server/server_int.h"

/* Whether what a host sent is gzip of a JSON object, and of one host. -EBADMSG says what is wrong; -E2BIG beyond
 * RECORDINGS_PLAIN_MAX. */
int api_recording_check(struct bytes gzip, struct error *err);
/* The profiles of all hosts, or of those that the parameter `host` names, on one clock, in the format that the request wants.
 */
int api_recording_profile(struct server *server, struct recordings *recordings, const char *id,
			  const struct net_request *request, struct net_response *response, struct error *err);

#endif
