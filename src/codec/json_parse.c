// SPDX-License-Identifier: Apache-2.0
#include "codec/json_parse.h"

#include <errno.h>
#include <string.h>

/* yajl says "parse error: WHAT" and, on further lines, where. */
static int syntax_error(yajl_handle parser, size_t at, struct error *err)
{
	unsigned char *message = yajl_get_error(parser, 0, NULL, 0);
	const char *text = message ? (const char *)message : "malformed";
	const char *colon = strchr(text, ':');
	text = colon ? colon + 1 + strspn(colon + 1, " ") : text;
	int r = error_set(err, -EBADMSG, "not JSON near byte %zu: %.*s", at, (int)strcspn(text, "\n"), text);
	yajl_free_error(parser, message);
	return r;
}

int json_parse(struct bytes text, const yajl_callbacks *callbacks, void *context, size_t *ret_at, struct error *err)
{
	yajl_handle parser = yajl_alloc(callbacks, NULL, context);
	if (!parser)
		return error_nomem(err);
	yajl_status status = yajl_parse(parser, text.data, text.len);
	*ret_at = yajl_get_bytes_consumed(parser);
	if (status == yajl_status_ok) {
		status = yajl_complete_parse(parser);
		*ret_at = text.len;
	}
	int r = 0;
	if (status == yajl_status_client_canceled)
		r = -ECANCELED;
	else if (status != yajl_status_ok)
		r = syntax_error(parser, *ret_at, err);
	yajl_free(parser);
	return r;
}
