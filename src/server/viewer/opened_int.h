/* SPDX-License-Identifier: Apache-2.0 */
/* Shared inside opened*.c. */
#ifndef WICK_SERVER_VIEWER_OPENED_INT_H
#define WICK_SERVER_VIEWER_OPENED_INT_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/cancel.h"
#include "net/net.h"
#include "profile/profile.h"
#include "server/viewer/opened.h"
#include "symbol/symbol.h"

#define OPENED_TOKEN_BYTES  16
#define OPENED_TOKEN_SIZE   (2 * OPENED_TOKEN_BYTES + 1)
#define OPENED_PATH_SIZE    64
#define OPENED_PATHS	    6
#define OPENED_DEBUG_ID_MAX 34

/* A binary of the profile, as Firefox Profiler's format names it. Texts are the profile's. */
struct opened_module {
	char debug_id[OPENED_DEBUG_ID_MAX]; /* "" = it has no build-id */
	const char *name;
	const char *build_id, *path;
	uint64_t start, limit, offset; /* of one of its mappings */
	bool kernel;
};

struct opened {
	const struct profile *profile;
	struct symbolizer *symbolizer;
	struct bytes page;
	struct buffer json;	       /* gzipped */
	struct opened_module *modules; /* by debug id, then name */
	size_t module_count;

	struct net_server *server;
	struct net_route routes[2 * OPENED_PATHS]; /* all but one path may be asked about; the last ends them */
	char paths[OPENED_PATHS][OPENED_PATH_SIZE];
	char token[OPENED_TOKEN_SIZE], once[OPENED_TOKEN_SIZE];
	const char *once_target; /* NULL = nothing is offered */
	atomic_bool once_used;
	struct buffer page_link, profiler_link, once_link;
};

/* opened_symbols.c. -ENOMEM */
int opened_list_modules(struct opened *opened, struct error *err);
enum opened_question {
	OPENED_NAMES,
	OPENED_SOURCE,
	OPENED_CODE,
};
/* Appends the answer to a question. -EBADMSG: it is none; others: why there is no answer. What was appended then is of no use.
 */
int opened_answer(const struct opened *opened, enum opened_question kind, struct bytes text, const atomic_bool *cancel,
		  struct buffer *out, struct error *err);
void opened_symbolicate(void *context, const struct net_request *request, struct net_response *response);
void opened_source(void *context, const struct net_request *request, struct net_response *response);
void opened_asm(void *context, const struct net_request *request, struct net_response *response);

#endif
