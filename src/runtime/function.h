/* SPDX-License-Identifier: Apache-2.0 */
/* What is read of a function in another process, whose memory may hold any bytes. */
#ifndef WICK_RUNTIME_FUNCTION_H
#define WICK_RUNTIME_FUNCTION_H

#include "base/buffer.h"

#define RUNTIME_NAME_BYTES_MAX 1024u /* longer ones are cut */
struct runtime_function {
	char name[RUNTIME_NAME_BYTES_MAX]; /* UTF-8 */
	char file[RUNTIME_NAME_BYTES_MAX]; /* "" = none */
	uint32_t first_line;		   /* 0 = not known */
};

/* Appends text to the `*len` bytes in a name: what is no UTF-8, and control characters, become U+FFFD; what does not fit is cut
 * at a character. */
void runtime_name_append(struct bytes text, char ret[static RUNTIME_NAME_BYTES_MAX], size_t *len);

#endif
