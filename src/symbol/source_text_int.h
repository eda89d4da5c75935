/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/symbol: the parts of source_text.c, as tests want them. */
#ifndef WICK_SYMBOL_SOURCE_TEXT_INT_H
#define WICK_SYMBOL_SOURCE_TEXT_INT_H

#include <stdbool.h>

#include "base/buffer.h"
#include "base/cancel.h"
#include "base/error.h"

/* ".c", ".rs" ... */
bool source_text_has_suffix(const char *path);
/* Of this host: -EACCES with the rule that it breaks, -ENOENT, -E2BIG. own_files: not everybody need be able to read it. */
int source_text_read_host(const char *path, bool own_files, struct buffer *out, struct error *err);
/* Replaces `out` by the file of that path in a tar archive: exactly that one or, if there is none, the one that has most
 * components in common with it, from the last one on. -ENOENT none, or several have as many; -EBADMSG, -E2BIG, -ECANCELED. */
int source_text_read_archive(int fd, const char *path, const atomic_bool *cancel, struct buffer *out, struct error *err);

#endif
