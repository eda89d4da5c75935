/* SPDX-License-Identifier: Apache-2.0 */
#include "server/parca/routes.h"

#include "server/ingest/ingest_int.h"

const struct net_route parca_routes[] = {
	NET_ROUTE("POST", PARCA_DEBUGINFO_PATH "ShouldInitiateUpload", parca_should_initiate),
	NET_ROUTE("POST", PARCA_DEBUGINFO_PATH "InitiateUpload", parca_initiate, .slow = true),
	{.method = "POST", .path = PARCA_DEBUGINFO_PATH "Upload", .stream = &parca_upload},
	{.method = "POST", .path = INGEST_WRITE_PATH, .stream = &parca_write},
	NET_ROUTE("POST", PARCA_DEBUGINFO_PATH "MarkUploadFinished", parca_finished, .slow = true),
	NET_ROUTE("POST", PARCA_TELEMETRY_PATH "ReportPanic", parca_report_panic),
	{0},
};
