/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/server/recordings/api_windows.c and api_markers.c. */
#ifndef WICK_SERVER_RECORDINGS_API_WINDOWS_H
#define WICK_SERVER_RECORDINGS_API_WINDOWS_H

#include "profile/markers.h"
#include "server/core/server_int.h"
#include "server/routes.h"
#include "server/stores/windows.h"

/* The markers and counters of a window, of one host, which has the window's name and clock; all times are on the server's
 * clock. *ret_host: its id. -EBADMSG: what its host sent is of no use. -ENOENT: it had to make room meanwhile. */
int api_window_read(struct windows *windows, const struct window *window, struct profile **ret, struct error *err);

#endif
