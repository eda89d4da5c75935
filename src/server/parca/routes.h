/* SPDX-License-Identifier: Apache-2.0 */
/* Routes and handlers: Parca's protocols. The context of a handler is the struct server. */
#ifndef WICK_SERVER_PARCA_ROUTES_H
#define WICK_SERVER_PARCA_ROUTES_H

#include "net/net.h"

#define PARCA_DEBUGINFO_PATH "/parca.debuginfo.v1alpha1.DebuginfoService/"

#define PARCA_TELEMETRY_PATH "/parca.telemetry.v1alpha1.TelemetryService/"

extern const struct net_route parca_routes[]; /* ends with a row without a path */

extern net_handler_function parca_should_initiate, parca_initiate, parca_finished, parca_report_panic;
extern const struct net_stream_handler parca_upload, parca_write;

#endif
