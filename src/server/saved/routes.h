/* SPDX-License-Identifier: Apache-2.0 */
/* Routes and handlers: saved queries. The context of a handler is the struct server. */
#ifndef WICK_SERVER_SAVED_ROUTES_H
#define WICK_SERVER_SAVED_ROUTES_H

#include <limits.h>

#include "net/net.h"
#include "server/saved/saved.h"

#define SAVED_PATH	"/api/v1/queries"
#define SAVED_DIRECTORY "queries" /* of a tenant */

extern const struct net_route saved_routes[]; /* ends with a row without a path */

extern net_handler_function api_saved_list, api_saved_show, api_saved_put, api_saved_remove;

/* Where the saved queries of a tenant are; `own` is where its path goes. */
struct server;
struct tenant;
int saved_places_of(const struct server *server, const struct tenant *tenant, char own[static PATH_MAX],
		    struct saved_places *ret, struct error *err);

#endif
