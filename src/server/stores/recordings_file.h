/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to recordings*.c: one host's part of a recording as a file.
 *
 * It is the gzip file that the agent sent, with a note (noted_file.h) that has
 *
 *   version 1, id, host, received_ns, start_ns, duration_ns    what it is; of a marker batch (marker_batches.h) the id is
 *                                                              "continuous"
 *   reach_ns                                                   of a marker batch: how long before it what ends in it began
 *   plain_bytes                                                unpacked
 *   clock                                                      of the host, see protocol.h
 */
#ifndef WICK_SERVER_STORES_RECORDINGS_FILE_H
#define WICK_SERVER_STORES_RECORDINGS_FILE_H

#include "base/buffer.h"
#include "base/error.h"
#include "control/protocol.h"
#include "server/stores/noted_file.h"

struct recording_file {
	char id[CONTROL_ID_SIZE], host[CONTROL_HOST_SIZE];
	int64_t received_ns, start_ns, duration_ns;
	int64_t reach_ns; /* 0 = none */
	uint64_t plain_bytes;
	struct host_clock clock;
	struct noted_content content;
};
extern const struct noted_form recording_form; /* of struct recording_file */
/* Writes the file: whole and synced when it returns 0, or not there. Sets its content, *ret_size: all of it. */
int recording_file_put(const char *path, struct recording_file *file, struct bytes gzip, uint64_t *ret_size, struct error *err);
/* Unpacks without keeping anything: -EBADMSG not one whole member of gzip, -E2BIG more than RECORDINGS_PLAIN_MAX. */
int recording_file_measure(struct bytes gzip, uint64_t *ret_plain, struct error *err);
/* The file's name: the host's, if that is a plain one, else a hash of it. */
#define RECORDING_NAME_SIZE 256
void recording_file_name(const char *host, char out[static RECORDING_NAME_SIZE]);

#endif
