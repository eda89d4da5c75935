/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runtimes (interpreters and virtual machines) in profiles. Functions of a runtime have no addresses; a mapping stands for all
 * of them, whose file is the runtime's word. Formats without frame types tell them by it.
 */
#ifndef WICK_PROFILE_RUNTIMES_H
#define WICK_PROFILE_RUNTIMES_H

#include "profile/profile.h"

struct profile_runtime {
	const char *word;	/* the file of the mapping */
	const char *frame_type; /* OpenTelemetry's, profile.frame.type */
	enum profile_frame_type type;
};
/* NULL if no runtime has the word. */
const struct profile_runtime *profile_runtime_of(struct bytes word);

#endif
