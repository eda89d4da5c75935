/* SPDX-License-Identifier: Apache-2.0 */
/* Routes and handlers: Pyroscope's protocols. The context of a handler is the struct server. */
#ifndef WICK_SERVER_PYROSCOPE_ROUTES_H
#define WICK_SERVER_PYROSCOPE_ROUTES_H

#include "net/net.h"

extern const struct net_route pyroscope_routes[]; /* ends with a row without a path */

extern net_handler_function pyroscope_ingest, pyroscope_render, pyroscope_render_diff, pyroscope_render_label_values,
	pyroscope_render_labels, pyroscope_config, pyroscope_config_diff, pyroscope_config_default;

/* Queries in the background; closed once no handler is called any more. */
struct error;
struct server;
int pyroscope_async_open(struct server *server, struct error *err);
void pyroscope_async_close(struct server *server);

#endif
