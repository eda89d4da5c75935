/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signature Version 4 of AWS (https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html): an
 * HMAC over the request in a canonical form, by a key that is derived from the secret, the day, the region and the service.
 *
 *   canonical request   METHOD \n PATH \n QUERY \n (name:value \n)... \n name;name \n hex(sha256(BODY))
 *   string to sign      AWS4-HMAC-SHA256 \n DATE \n DAY/REGION/SERVICE/aws4_request \n hex(sha256(canonical request))
 *   key                 hmac(hmac(hmac(hmac("AWS4" SECRET, DAY), REGION), SERVICE), "aws4_request")
 *   Authorization       AWS4-HMAC-SHA256 Credential=ID/DAY/REGION/SERVICE/aws4_request, SignedHeaders=name;name,
 * Signature=hex(...)
 */
#ifndef WICK_SERVER_SCRAPE_AWS_SIGN_H
#define WICK_SERVER_SCRAPE_AWS_SIGN_H

#include <time.h>

#include "base/buffer.h"
#include "base/error.h"

#define AWS_DATE_MAX 17 /* "20150830T123600Z" */

struct aws_keys {
	const char *access_key, *secret_key;
};
struct aws_header {
	const char *name, *value; /* the name in lower case */
};
struct aws_request {
	const char *method, *path, *query; /* percent-encoded; the query's parameters sorted */
	const char *region, *service, *date;
	const struct aws_header *headers; /* those that are signed, sorted by name; host and x-amz-date are among them */
	size_t header_count;
	struct bytes body;
};
void aws_format_date(time_t at, char out[static AWS_DATE_MAX]);
/* Appends the value of the header Authorization. */
int aws_sign(const struct aws_keys *keys, const struct aws_request *request, struct buffer *ret, struct error *err);

#endif
