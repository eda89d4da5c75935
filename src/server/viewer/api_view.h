/* SPDX-License-Identifier: Apache-2.0 */
/* Private to api_*.c: what the page shows of a file that a request brings. */
#ifndef WICK_SERVER_VIEWER_API_VIEW_H
#define WICK_SERVER_VIEWER_API_VIEW_H

#include "server/core/server_int.h"
#include "server/viewer/routes.h"
#include "server/viewer/view.h"

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

/* Appends that of a profile: the magic number, the JSON with what stands around it, the columns. As view_write(); -E2BIG. */
int api_view_frame(const struct profile *profile, const struct view_options *options, const struct api_view_wrap *wrap,
		   struct buffer *out, struct error *err);
/* The JSON of what api_view_frame() wrote, as a view of it. -EBADMSG. */
int api_view_unframe(struct bytes frame, struct bytes *ret_json, struct error *err);

#endif
