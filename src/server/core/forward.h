/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forwarding: what was stored here goes on to other endpoints (`forward` of the configuration), from a queue on disk for each,
 * DATA/forward/TARGET. A profile is in the queues, synced, before the sender gets the acknowledgement, so that it is
 * forwarded at least once whatever happens here afterwards. A queue that cannot take it does not make the profile unstored: it
 * is counted as lost for that target.
 */
#ifndef WICK_SERVER_CORE_FORWARD_H
#define WICK_SERVER_CORE_FORWARD_H

#include "export/export.h"
#include "profile/labels.h"

struct server;
struct forward;
/* Nothing, and *ret NULL, without targets. */
int forward_open(struct server *server, struct forward **ret, struct error *err);
struct forward *forward_close(struct forward *forward); /* what is left waits on disk for the next start; NULL allowed */
/* forward may be NULL. tenant "" = none; name NULL = guessed; labels of the request, may be NULL. Thread-safe. */
void forward_profile(struct forward *forward, const struct profile *profile, const char *tenant, const char *name,
		     const struct labels *labels);
size_t forward_get_stats(struct forward *forward, struct export_stats *ret, size_t max);

/* The profile type's name has no place in OTLP. Where it is not what the types of samples say, it travels as a resource
 * attribute of this name, which a Wick server takes off: the name, or NULL if there is none. It lives as long as the profile.
 */
#define FORWARD_NAME_LABEL "__name__"
const char *forward_take_name(struct profile *profile);

#endif
