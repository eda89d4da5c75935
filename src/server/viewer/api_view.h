/* SPDX-License-Identifier: Apache-2.0 */
/* Private to api_*.c: what the page shows of a file that a request brings. */
#ifndef WICK_SERVER_VIEWER_API_VIEW_H
#define WICK_SERVER_VIEWER_API_VIEW_H

#include "server/core/server_int.h"
#include "server/viewer/routes.h"

#define API_VIEW_TYPE "application/x-wick-view"
/* What stands around the JSON, to make it a member of a larger object. */
struct api_view_wrap {
	const char *before, *behind;
};
/* Appends the view of the request's body, as api_view.c describes it, to the answer's; wrap: NULL = none. -EMEDIUMTYPE: of no
 * format that is known; -EBADMSG, -EINVAL: malformed, or nothing to show; -E2BIG; -EAGAIN: another one is worked on; -EACCES:
 * switched off; -ECANCELED; -ENOMEM. */
int api_view_write(struct server *server, const struct net_request *request, const struct api_view_wrap *wrap,
		   struct net_response *response, struct error *err);

#endif
