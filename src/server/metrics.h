/* SPDX-License-Identifier: Apache-2.0 */
/* /metrics and the checks of health: metrics.c. */
#ifndef WICK_SERVER_METRICS_H
#define WICK_SERVER_METRICS_H

#include "net/net.h"

extern net_handler_function metrics_show, health_show, ready_show;

#endif
