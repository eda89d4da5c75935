/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This process's own profiles, as Go's net/http/pprof serves them, for `go tool pprof http://HOST/debug/pprof/profile`: server
 * and agent have the same routes.
 */
#ifndef WICK_CONTROL_SELF_PROFILE_H
#define WICK_CONTROL_SELF_PROFILE_H

#include "net/net.h"
#include "symbol/worker.h"

#define SELF_PROFILE_PATH	 "/debug/pprof/profile"
#define SELF_PROFILE_HEAP_PATH	 "/debug/pprof/heap"
#define SELF_PROFILE_ALLOCS_PATH "/debug/pprof/allocs"
#define SELF_PROFILE_INDEX	 "/debug/pprof"
#define SELF_PROFILE_SECONDS_MAX 300u
/* Of a route: symbols are read at the end. */
#define SELF_PROFILE_REQUEST_SECONDS_MAX (SELF_PROFILE_SECONDS_MAX + 120)

/* CPU time for that long, or until it is cancelled: a pprof, gzipped, into out. worker: who reads symbols; NULL = this process.
 * -EBUSY: one is being made; -ECANCELED. */
int self_profile_make(int64_t duration_ns, const atomic_bool *cancel, const struct symbol_worker_options *worker,
		      struct buffer *out, struct error *err);

/*
 * GET /debug/pprof/profile?seconds=N, on a worker that it holds for so long
 * GET /debug/pprof/heap?seconds=N, /debug/pprof/allocs?seconds=N: at once without seconds. Who serves them has called
 *     heap_sampler_start().
 * GET /debug/pprof/, what there is
 *
 * needs: as in struct net_route.
 */
#define SELF_PROFILE_ROUTES(needs)                                                                                             \
	NET_ROUTE("GET", SELF_PROFILE_INDEX, needs, self_profile_show_index),                                                  \
		NET_ROUTE("GET", SELF_PROFILE_INDEX "/", needs, self_profile_show_index),                                      \
		SELF_PROFILE_ROUTE(SELF_PROFILE_PATH, needs, self_profile_show),                                               \
		SELF_PROFILE_ROUTE(SELF_PROFILE_HEAP_PATH, needs, self_profile_show_heap),                                     \
		SELF_PROFILE_ROUTE(SELF_PROFILE_ALLOCS_PATH, needs, self_profile_show_allocs)
#define SELF_PROFILE_ROUTE(path, needs, handler)                                                                               \
	NET_ROUTE("GET", path, needs, handler, .slow = true, .seconds_max = SELF_PROFILE_REQUEST_SECONDS_MAX)
extern net_handler_function self_profile_show, self_profile_show_heap, self_profile_show_allocs, self_profile_show_index;

#endif
