/* SPDX-License-Identifier: Apache-2.0 */
/* The ids under which Breakpad, Firefox Profiler and symbol servers know binaries, beside build-ids. */
#ifndef WICK_FORMAT_FIREFOX_FIREFOX_IDS_H
#define WICK_FORMAT_FIREFOX_FIREFOX_IDS_H

#include "base/buffer.h"

/* The id of a build-id: its first 16 bytes as a GUID, in upper case, and an age of 0. Appends nothing if the build-id is not
 * hexadecimal. 0 or -ENOMEM. */
int firefox_append_breakpad_id(struct bytes build_id, struct buffer *out);
/* The way back, for libs without a codeId; the build-id may have been longer. -EINVAL: no such id, or one of zeros. */
int firefox_append_build_id(struct bytes breakpad_id, struct buffer *out);

#endif
