/* SPDX-License-Identifier: Apache-2.0 */
/* Names for profiles that come with addresses only, as recordings of perf do, from the files of this machine. */
#ifndef WICK_CMD_SYMBOLIZE_H
#define WICK_CMD_SYMBOLIZE_H

#include "base/error.h"
#include "format/format.h"
#include "profile/profile.h"

/* As SYMBOLS_OPTION_ROW (convert.h) names them. */
enum symbols_how {
	SYMBOLS_AUTO,	/* if the profile says that it was recorded on this machine (host.name) */
	SYMBOLS_ALWAYS, /* files without a build-id are believed to be what they were */
	SYMBOLS_NEVER,
};

/*
 * Of binaries: functions, inlined calls, files and lines, of files with the same build-id (and by path, where the profile has
 * none). Of the kernel: functions, if it is the one that runs; of modules, if they lie where they lay. Of code made at run
 * time: what /tmp/perf-PID.map says. What has no name stays an address. 0, -ENOMEM, -E2BIG; that there is nothing to be found
 * is no error.
 */
int symbolize_profile(struct profile *profile, enum symbols_how how, struct error *err);

/*
 * For format_options.open_binary; context: an enum symbols_how. The file of that path, or perf's copy of it (~/.debug), if it
 * has the build-id; where no build-id is known, the file of that path, if it is of this machine or always believed.
 */
int symbolize_open_binary(void *context, const struct format_binary *binary);

#endif
