/* SPDX-License-Identifier: Apache-2.0 */
#include "server/debuginfo/routes.h"

#include "server/core/permission.h"

const struct net_route debuginfo_routes[] = {
	NET_ROUTE("GET", "/api/v1/binaries", PERMIT_READ, api_binaries),
	NET_ROUTE("POST", "/api/v1/binaries/*", PERMIT_ADMIN, api_binary_retry, .body_max = 65536),
	NET_ROUTE("POST", "/api/v1/debuginfo/wanted", PERMIT_UPLOAD, api_debuginfo_wanted, .body_max = DEBUGINFO_PIECE_MAX),
	/* Slow, so that disks that are slow to sync hold up other uploads, and not profiles. */
	NET_ROUTE("POST", "/api/v1/debuginfo/uploads", PERMIT_UPLOAD, api_upload_begin, .body_max = 65536, .slow = true),
	NET_ROUTE("PUT", "/api/v1/debuginfo/uploads/*", PERMIT_UPLOAD, api_upload_write, .body_max = DEBUGINFO_PIECE_MAX,
		  .slow = true),
	NET_ROUTE("POST", "/api/v1/debuginfo/uploads/*", PERMIT_UPLOAD, api_upload_finish, .body_max = 65536, .slow = true),
	NET_ROUTE("DELETE", "/api/v1/debuginfo/uploads/*", PERMIT_UPLOAD, api_upload_abort, .body_max = 65536, .slow = true),
	{0},
};
