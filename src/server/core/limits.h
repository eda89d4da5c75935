/* SPDX-License-Identifier: Apache-2.0 */
/* What a tenant may do (limits.c). */
#ifndef WICK_SERVER_CORE_LIMITS_H
#define WICK_SERVER_CORE_LIMITS_H

#include "query/query.h"
#include "server/core/tenant.h"

/* Before decoding: -E2BIG, -EDQUOT. */
int limits_admit(struct tenant *tenant, size_t body_bytes, struct refusal_note *note, struct error *err);
void limits_pay_samples(struct tenant *tenant, uint64_t samples);
/* -EINVAL when the profile holds what the tenant's limits exclude. base: labels of the request, may be NULL. */
int limits_check_profile(const struct tenant *tenant, const struct profile *profile, const struct labels *base,
			 struct refusal_note *note, struct error *err);
void limits_of_query(const struct tenant *tenant, struct query *ret); /* what it may read */
enum refusal refusal_of(int code);				      /* for a failure that no limit here caused */
void refusal_headers(struct net_response *response, int code, const struct refusal_note *note);
unsigned bucket_check(struct bucket *bucket, uint64_t rate, uint64_t burst, int64_t now_ns);
void bucket_pay(struct bucket *bucket, uint64_t amount);

#endif
