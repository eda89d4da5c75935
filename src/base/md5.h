/* SPDX-License-Identifier: Apache-2.0 */
/* MD5 (RFC 1321), for formats that ask for it. Not for anything that must withstand an attacker. */
#ifndef WICK_BASE_MD5_H
#define WICK_BASE_MD5_H

#include <stddef.h>
#include <stdint.h>

#define MD5_BYTES 16
void md5(const void *data, size_t len, uint8_t out[static MD5_BYTES]);

#endif
