/* SPDX-License-Identifier: Apache-2.0 */
/* Ruby's Marshal as JSON; essay in ruby_marshal.c. */
#ifndef WICK_FORMAT_IMPORT_RUBY_MARSHAL_H
#define WICK_FORMAT_IMPORT_RUBY_MARSHAL_H

#include "base/buffer.h"
#include "base/error.h"

bool ruby_marshal_detect(struct bytes input);
/* Appends. -EBADMSG malformed, or of classes other than hashes, arrays, texts, symbols and numbers; -E2BIG past out->max or too
 * deep. */
int ruby_marshal_to_json(struct bytes input, struct buffer *out, struct error *err);

#endif
