/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/net: what the two HTTP/2 sides share. */
#ifndef WICK_NET_HTTP2_INT_H
#define WICK_NET_HTTP2_INT_H

#include <nghttp2/nghttp2.h>

/* nghttp2's allocations go through base/alloc.h like ours. */
extern nghttp2_mem http2_memory;

#endif
