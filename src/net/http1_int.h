/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/net: llhttp, as the server (http1.c) and the client (client_http1.c) use it: without any of its leniency. */
#ifndef WICK_NET_HTTP1_INT_H
#define WICK_NET_HTTP1_INT_H

#include <string.h>
#include <third_party/llhttp/llhttp.h>

/* llhttp also knows RTSP and ICE (Icecast); they are refused by their letters, in whatever pieces these come. */
static inline int http1_on_protocol(llhttp_t *parser, const char *data, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (!memchr("HTTP", data[i], 4)) {
			llhttp_set_error_reason(parser, "Expected HTTP/");
			return HPE_USER;
		}
	}
	return 0;
}

/* How much of the data an execution that returned `code` has consumed. */
static inline size_t http1_taken(const llhttp_t *parser, llhttp_errno_t code, const void *data, size_t len)
{
	return code == HPE_OK ? len : (size_t)(llhttp_get_error_pos(parser) - (const char *)data);
}

#endif
