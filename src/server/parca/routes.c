/* SPDX-License-Identifier: Apache-2.0 */
#include "server/parca/routes.h"

#include "server/ingest/ingest_int.h"

const struct net_route parca_routes[] = {
	{.method = "POST", .path = PARCA_DEBUGINFO_PATH "ShouldInitiateUpload", .handler = parca_should_initiate},
	{.method = "POST", .path = PARCA_DEBUGINFO_PATH "InitiateUpload", .handler = parca_initiate, .slow = true},
	{.method = "POST", .path = PARCA_DEBUGINFO_PATH "Upload", .stream = &parca_upload},
	{.method = "POST", .path = INGEST_WRITE_PATH, .stream = &parca_write},
	{.method = "POST", .path = PARCA_DEBUGINFO_PATH "MarkUploadFinished", .handler = parca_finished, .slow = true},
	{0},
};
