/* SPDX-License-Identifier: Apache-2.0 */
#include "server/parca/routes.h"

#include "server/core/permission.h"
#include "server/ingest/ingest_int.h"

const struct net_route parca_routes[] = {
	NET_ROUTE("POST", PARCA_DEBUGINFO_PATH "ShouldInitiateUpload", PERMIT_UPLOAD, parca_should_initiate),
	NET_ROUTE("POST", PARCA_DEBUGINFO_PATH "InitiateUpload", PERMIT_UPLOAD, parca_initiate, .slow = true),
	NET_STREAM_ROUTE("POST", PARCA_DEBUGINFO_PATH "Upload", PERMIT_UPLOAD, &parca_upload),
	NET_STREAM_ROUTE("POST", INGEST_WRITE_PATH, PERMIT_WRITE, &parca_write),
	NET_ROUTE("POST", PARCA_DEBUGINFO_PATH "MarkUploadFinished", PERMIT_UPLOAD, parca_finished, .slow = true),
	NET_ROUTE("POST", PARCA_TELEMETRY_PATH "ReportPanic", PERMIT_WRITE, parca_report_panic),
	{0},
};
