/* SPDX-License-Identifier: Apache-2.0 */
/* Routes and handlers: the page and descriptions of the API. The context of a handler is the struct server. */
#ifndef WICK_SERVER_HTTP_ROUTES_H
#define WICK_SERVER_HTTP_ROUTES_H

#include "net/net.h"

extern const struct net_route http_routes[]; /* ends with a row without a path */

extern net_handler_function buildinfo_show, openapi_show, assets_show;

#endif
