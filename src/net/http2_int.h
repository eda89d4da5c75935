/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/net: what the two HTTP/2 sides share. */
#ifndef WICK_NET_HTTP2_INT_H
#define WICK_NET_HTTP2_INT_H

#include <nghttp2/nghttp2.h>
#include <string.h>

#include "net/net_int.h"

/* nghttp2's allocations go through base/alloc.h like ours. */
extern nghttp2_mem http2_memory;

#define HTTP2_WINDOW_STREAM	(1 * MIB)
#define HTTP2_WINDOW_CONNECTION (4 * MIB)

static inline nghttp2_nv http2_field(const char *name, const char *value)
{
	return (nghttp2_nv){(uint8_t *)name, (uint8_t *)value, strlen(name), strlen(value), NGHTTP2_NV_FLAG_NONE};
}
/* Gathers frames that are ready, about NET_OUTPUT_BYTES of them. 0 or -ENOMEM. */
int http2_gather(nghttp2_session *session, struct buffer *out);

#endif
