/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/codec: yajl, driven over a whole text, and what it says of one that is no JSON. */
#ifndef WICK_CODEC_JSON_PARSE_H
#define WICK_CODEC_JSON_PARSE_H

#include <stddef.h>
#include <yajl/yajl_parse.h>

#include "base/buffer.h"
#include "base/error.h"

/* 0; -EBADMSG with the byte where it is wrong; -ENOMEM; -ECANCELED when a callback ended it, without a message: the callback
 * knows why. *ret_at is how far it came. */
int json_parse(struct bytes text, const yajl_callbacks *callbacks, void *context, size_t *ret_at, struct error *err);

#endif
