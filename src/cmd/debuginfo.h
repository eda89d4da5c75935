/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of wick debuginfo. */
#ifndef WICK_CMD_DEBUGINFO_H
#define WICK_CMD_DEBUGINFO_H

#include "cmd/remote.h"

struct debuginfo_upload {
	struct remote remote;
	const char *kind, *build_id; /* NULL = debuginfo; the file's own */
	bool force, whole;
};
/* Sends the files one after the other, says on standard error what becomes of each; the number of those that failed. */
unsigned debuginfo_upload_files(const struct debuginfo_upload *upload, char *const *files, size_t count, struct error *err);

#endif
