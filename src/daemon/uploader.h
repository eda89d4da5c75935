/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The uploader: sends the server what names the addresses of this host's binaries, if it asks for it.
 *
 * It works beside the exporter, on a thread of its own of the lowest priority for the disk: asks the server, in batches and
 * seldom, which of the binaries that were seen it wants (agent/upload/upload_queue.h), copies symbols and debug sections of one
 * (agent/upload/debug_copy.h) into a temporary file, and sends it in pieces, no faster than the rate. What the server says of
 * the offset is the truth: an upload that was broken off goes on from there. A second of a CPU may be used at the start, so
 * that what runs is named within its first minute; then the thread has the lowest priority for the CPU, too, and rests after
 * each step, COST_FACTOR times as long as the step took, so that an agent that has much to send costs hardly more than one that
 * has nothing.
 *
 * A server that knows no debug information is asked once.
 */
#ifndef WICK_DAEMON_UPLOADER_H
#define WICK_DAEMON_UPLOADER_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/agent.h"
#include "base/cleanup.h"
#include "base/error.h"

#define UPLOADER_RATE_DEFAULT	    (1024 * 1024) /* bytes a second */
#define UPLOADER_FILE_BYTES_DEFAULT (2ull << 30)

struct uploader;
struct uploader_options {
	const char *url;
	const char *token, *token_file; /* as struct net_client_options; NULL = none */
	const char *tenant;		/* NULL = none; stays the caller's */
	uint64_t rate;			/* bytes a second; 0 = 1 MiB */
	uint64_t file_bytes_max;	/* larger files are not sent; 0 = 2 GiB */
	const char *kernel_build_id;	/* whose list of functions is offered as well; NULL, "" = none */
	const char *directory;		/* for temporary files; NULL = /var/tmp or /tmp */
	/* Nothing is sent. The server is told which files there are all the same, as several of one id are known to be several
	 * by nothing else. */
	bool tells_only;
};
/* Call after agent_drop_privileges(): the thread inherits what is left. */
int uploader_new(const struct uploader_options *options, struct uploader **ret, struct error *err);
/* Stops, in the middle of a file too. */
struct uploader *uploader_free(struct uploader *uploader);
DEFINE_CLEANUP_POINTER(uploader_free, struct uploader);

/* For agent_sink.on_binary: quick, keeps at most a duplicate of fd. */
void uploader_see(struct uploader *uploader, const struct agent_binary *binary);

/* Becomes true once the server can name the kernel's addresses, and false when it says otherwise. As long as the uploader. */
const atomic_bool *uploader_server_names_kernel(const struct uploader *uploader);

#endif
