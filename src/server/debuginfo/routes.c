/* SPDX-License-Identifier: Apache-2.0 */
#include "server/debuginfo/routes.h"

const struct net_route debuginfo_routes[] = {
	{.method = "GET", .path = "/api/v1/binaries", .handler = api_binaries},
	{.method = "POST", .path = "/api/v1/binaries/*", .handler = api_binary_retry, .body_max = 65536},
	{.method = "POST",
	 .path = "/api/v1/debuginfo/wanted",
	 .handler = api_debuginfo_wanted,
	 .body_max = DEBUGINFO_PIECE_MAX},
	/* Slow, so that disks that are slow to sync hold up other uploads, and not profiles. */
	{.method = "POST", .path = "/api/v1/debuginfo/uploads", .handler = api_upload_begin, .body_max = 65536, .slow = true},
	{.method = "PUT",
	 .path = "/api/v1/debuginfo/uploads/*",
	 .handler = api_upload_write,
	 .body_max = DEBUGINFO_PIECE_MAX,
	 .slow = true},
	{.method = "POST",
	 .path = "/api/v1/debuginfo/uploads/*",
	 .handler = api_upload_finish,
	 .body_max = 65536,
	 .slow = true},
	{.method = "DELETE",
	 .path = "/api/v1/debuginfo/uploads/*",
	 .handler = api_upload_abort,
	 .body_max = 65536,
	 .slow = true},
	{0},
};
