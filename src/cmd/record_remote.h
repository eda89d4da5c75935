/* SPDX-License-Identifier: Apache-2.0 */
/* wick record --remote: a recording that agents make, all at the same time, and their server puts together. */
#ifndef WICK_CMD_RECORD_REMOTE_H
#define WICK_CMD_RECORD_REMOTE_H

#include "cmd/cmd.h"
#include "cmd/remote.h"
#include "control/protocol.h"

#define RECORD_REMOTE_SECONDS 10 /* unless it is said */

struct record_remote {
	struct remote server;	  /* url NULL = no such recording is wanted */
	struct option_list hosts; /* none = all that ask the server */
};
#define RECORD_REMOTE_OPTION_ROWS(remote)                                                                                      \
	OPTION_ROW(0, "remote", "URL", OPTION_TEXT, &(remote)->server.url,                                                     \
		   .help = "record with all agents of this server at the same time,\ninto one profile (-d: 10 s)"),            \
		OPTION_ROW(0, "host", "NAME", OPTION_LIST, &(remote)->hosts,                                                   \
			   .help = "with --remote: this host; may be repeated (default: all)"),                                \
		OPTION_ROW(0, "token-file", "FILE", OPTION_TEXT, &(remote)->server.token_file,                                 \
			   .help = "with --remote: file with the server's token"),                                             \
		OPTION_ROW(0, "tenant", "NAME", OPTION_TEXT, &(remote)->server.tenant,                                         \
			   .help = "with --remote: hosts whose agents have this --tenant")
/* Checks what the user wants; fills the recording request. lists: of targets by enum recording_target_kind. -EINVAL. */
int record_remote_order(const struct option_list *const lists[RECORDING_TARGET_KINDS], struct recording_request *ret,
			struct error *err);
/* Requests the recording, waits, reports its progress on stderr, and fetches the profile. -ECANCELED: by a signal; nobody
 * records any more.
 */
int record_remote_make(const struct record_remote *remote, const struct recording_request *request, struct profile **ret,
		       struct error *err);

#endif
