/* SPDX-License-Identifier: Apache-2.0 */
/* Routes and handlers: targets that are scraped. The context of a handler is the struct server. */
#ifndef WICK_SERVER_SCRAPE_ROUTES_H
#define WICK_SERVER_SCRAPE_ROUTES_H

#include "net/net.h"

extern const struct net_route scrape_routes[]; /* ends with a row without a path */

extern net_handler_function api_targets, api_reload;

#endif
