/* SPDX-License-Identifier: Apache-2.0 */
/* Base64 (RFC 4648). */
#ifndef WICK_CODEC_BASE64_H
#define WICK_CODEC_BASE64_H

#include "base/buffer.h"

/* Both alphabets, with or without padding, without spaces. Appends; -EBADMSG, -E2BIG, -ENOMEM. */
int base64_decode(struct bytes text, struct buffer *out);
int base64_encode(struct bytes data, struct buffer *out); /* standard alphabet, padded */

#endif
