/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parca.telemetry.v1alpha1.TelemetryService (github.com/parca-dev/parca, proto/parca/telemetry/v1alpha1/telemetry.proto), by
 * which Parca Agent's parent process reports that its child has crashed:
 *
 *   ReportPanic  1 stderr (its last lines)  2 metadata (a map: agent_version, kernel_release ...)  ->  (empty)
 *
 * It is counted, and the line that says what happened goes to the log, once a minute: an agent that cannot start reports each
 * attempt, and anybody may call.
 */
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "codec/protobuf.h"
#include "server/core/server_int.h"
#include "server/parca/routes.h"

#define LINE_MAX_BYTES 200

/* Go's line, or the last one that there is. What is no printable text may not get into a log. */
static void find_line(struct bytes text, char out[static LINE_MAX_BYTES])
{
	const char *all = (const char *)text.data;
	const char *found = text.len ? memmem(text.data, text.len, "panic: ", 7) : NULL;
	size_t end = text.len, len = 0;
	while (!found && end > 0 && all[end - 1] == '\n')
		end--;
	size_t start = found ? (size_t)(found - all) : end;
	while (!found && start > 0 && all[start - 1] != '\n')
		start--;
	while (start < text.len && all[start] != '\n' && len + 1 < LINE_MAX_BYTES) {
		char c = all[start++];
		out[len++] = c >= ' ' && c < 0x7f ? c : '?';
	}
	out[len] = 0;
}

void parca_report_panic(void *context, const struct net_request *request, struct net_response *response)
{
	struct server *server = context;
	struct error err = {0};
	struct bytes text = {0};
	char line[LINE_MAX_BYTES];
	uint64_t count;
	if (pb_find_bytes(NULL, net_request_body(request), 1, &text, &err) < 0) {
		respond_grpc(response, GRPC_INVALID_ARGUMENT, err.message);
		return;
	}
	find_line(text, line);
	atomic_fetch_add(&server->counters.panics_reported, 1);
	if (log_limit_add(&server->panics_log, 1, &count))
		log_warn("a Parca Agent reports that it crashed: %s (%llu since the last such line)",
			 *line ? line : "(it left no message)", (unsigned long long)count);
}
