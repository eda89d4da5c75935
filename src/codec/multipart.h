/* SPDX-License-Identifier: Apache-2.0 */
/* multipart/form-data (RFC 7578, RFC 2046): the parts of a body, without copying. */
#ifndef WICK_CODEC_MULTIPART_H
#define WICK_CODEC_MULTIPART_H

#include "base/buffer.h"
#include "base/error.h"

#define MULTIPART_BOUNDARY_MAX 70 /* RFC 2046, 5.1.1 */
#define MULTIPART_PARTS_MAX    64u
#define MULTIPART_HEADER_MAX   8192u /* of one part */

struct multipart {
	struct bytes rest;
	char delimiter[MULTIPART_BOUNDARY_MAX + 5]; /* CR LF "--" boundary */
	size_t delimiter_len;
	unsigned parts;
};
struct multipart_part {
	struct bytes name; /* of the field; empty if it has none */
	struct bytes data;
};

/* content_type: the header, which names the boundary. The body must outlive the parts. -EBADMSG. */
int multipart_open(struct multipart *multipart, const char *content_type, struct bytes body, struct error *err);
/* 1 = a part, 0 = there are no more, -EBADMSG = malformed or over a limit above. */
int multipart_next(struct multipart *multipart, struct multipart_part *ret, struct error *err);

#endif
