/* SPDX-License-Identifier: Apache-2.0 */
/* Routes and handlers: questions about what is stored. The context of a handler is the struct server. */
#ifndef WICK_SERVER_API_ROUTES_H
#define WICK_SERVER_API_ROUTES_H

#include "net/net.h"

extern const struct net_route api_routes[]; /* ends with a row without a path */

extern net_handler_function api_types, api_labels, api_label_values, api_services, api_cardinality, api_diff, api_compare,
	api_source, api_asm, api_pipeline, api_blocks, api_delete, api_compact, api_backup, api_backup_file, api_series,
	api_query, api_pprof, api_status;

#endif
