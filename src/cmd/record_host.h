/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WICK_CMD_RECORD_HOST_H
#define WICK_CMD_RECORD_HOST_H

#include "profile/profile.h"

/* Says in a recording of this machine whose it is, and how far its clock is from UTC at most, if the kernel knows: `wick merge`
 * and viewers of several hosts want both. -ENOMEM, -E2BIG. */
int record_host(struct profile *profile, struct error *err);

#endif
