/* SPDX-License-Identifier: Apache-2.0 */
/* Shared inside local_viewer*.c. */
#ifndef WICK_SERVER_VIEWER_LOCAL_VIEWER_INT_H
#define WICK_SERVER_VIEWER_LOCAL_VIEWER_INT_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/cancel.h"
#include "net/net.h"
#include "profile/profile.h"
#include "server/viewer/local_viewer.h"
#include "symbol/symbol.h"

#define LOCAL_VIEWER_TOKEN_BYTES  16
#define LOCAL_VIEWER_TOKEN_SIZE	  (2 * LOCAL_VIEWER_TOKEN_BYTES + 1)
#define LOCAL_VIEWER_PATH_SIZE	  64
#define LOCAL_VIEWER_PATHS	  6
#define LOCAL_VIEWER_DEBUG_ID_MAX 34

/* A binary of the profile, as Firefox Profiler's format names it. Texts are the profile's. */
struct local_viewer_module {
	char debug_id[LOCAL_VIEWER_DEBUG_ID_MAX]; /* "" = it has no build-id */
	const char *name;
	const char *build_id, *path;
	uint64_t start, limit, offset; /* of one of its mappings */
	bool kernel;
};

struct local_viewer {
	const struct profile *profile;
	struct symbolizer *symbolizer;
	struct bytes page;
	struct buffer json;		     /* gzipped */
	struct local_viewer_module *modules; /* by debug id, then name */
	size_t module_count;

	struct net_server *server;
	struct net_route routes[2 * LOCAL_VIEWER_PATHS]; /* all but one path have a preflight; the last ends them */
	char paths[LOCAL_VIEWER_PATHS][LOCAL_VIEWER_PATH_SIZE];
	char token[LOCAL_VIEWER_TOKEN_SIZE], once[LOCAL_VIEWER_TOKEN_SIZE];
	const char *once_target; /* NULL = nothing is offered */
	atomic_bool once_used;
	struct buffer page_link, profiler_link, once_link;
};

/* local_viewer_symbols.c. -ENOMEM */
int local_viewer_list_modules(struct local_viewer *viewer, struct error *err);
enum local_viewer_question {
	LOCAL_VIEWER_NAMES,
	LOCAL_VIEWER_SOURCE,
	LOCAL_VIEWER_CODE,
};
/* Appends the answer to a question. -EBADMSG: it is none; others: why there is no answer. What was appended then is of no use.
 */
int local_viewer_answer(const struct local_viewer *viewer, enum local_viewer_question kind, struct bytes text,
			const atomic_bool *cancel, struct buffer *out, struct error *err);
void local_viewer_symbolicate(void *context, const struct net_request *request, struct net_response *response);
void local_viewer_source(void *context, const struct net_request *request, struct net_response *response);
void local_viewer_asm(void *context, const struct net_request *request, struct net_response *response);

#endif
