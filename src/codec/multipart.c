/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A body is  [preamble] --B CRLF header CRLF CRLF data  CRLF --B CRLF header ...  CRLF --B-- [epilogue],  B being the boundary
 * that the content type names and no part holds. A header line "Content-Disposition: form-data; name="NAME"" gives the field.
 * Each byte is looked at once or twice: what ends a part is searched for from where the part begins.
 */
#include "codec/multipart.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Where `parameter=` of a header begins its value; NULL if it has none. Quoted texts are stepped over. */
static const char *find_parameter(const char *at, const char *end, const char *parameter)
{
	size_t len = strlen(parameter);
	while (at < end) {
		while (at < end && *at != ';')
			if (*at++ == '"')
				while (at < end && *at++ != '"')
					;
		if (at < end)
			at++;
		while (at < end && (*at == ' ' || *at == '\t'))
			at++;
		if ((size_t)(end - at) > len && strncasecmp(at, parameter, len) == 0 && at[len] == '=')
			return at + len + 1;
	}
	return NULL;
}

static struct bytes parameter_value(const char *at, const char *end)
{
	const char *to = at;
	if (at < end && *at == '"') {
		for (to = ++at; to < end && *to != '"'; to++)
			;
	} else {
		while (to < end && *to != ';' && *to != ' ' && *to != '\t')
			to++;
	}
	return (struct bytes){(const uint8_t *)at, (size_t)(to - at)};
}

int multipart_open(struct multipart *multipart, const char *content_type, struct bytes body, struct error *err)
{
	const char *end = content_type + strlen(content_type), *at = find_parameter(content_type, end, "boundary");
	struct bytes boundary = at ? parameter_value(at, end) : (struct bytes){0};
	*multipart = (struct multipart){.rest = body};
	if (boundary.len == 0 || boundary.len > MULTIPART_BOUNDARY_MAX)
		return error_set(err, -EBADMSG, "the content type has no boundary of 1 to %d characters",
				 MULTIPART_BOUNDARY_MAX);
	multipart->delimiter_len = (size_t)snprintf(multipart->delimiter, sizeof(multipart->delimiter), "\r\n--%.*s",
						    (int)boundary.len, (const char *)boundary.data);
	/* At the very beginning there is no line to end. */
	const char *first = multipart->delimiter + 2;
	size_t first_len = multipart->delimiter_len - 2;
	if (bytes_start_with(body, first)) {
		multipart->rest = bytes_skip(body, first_len);
		return 0;
	}
	const uint8_t *found = body.len ? memmem(body.data, body.len, multipart->delimiter, multipart->delimiter_len) : NULL;
	if (!found)
		return error_set(err, -EBADMSG, "the boundary of the content type does not occur in the body");
	multipart->rest = bytes_skip(body, (size_t)(found - body.data) + multipart->delimiter_len);
	return 0;
}

/* The field's name, from the lines of a part's header. */
static struct bytes field_name(struct bytes header)
{
	static const char wanted[] = "content-disposition:";
	while (header.len > 0) {
		const uint8_t *line_end = memmem(header.data, header.len, "\r\n", 2);
		size_t len = line_end ? (size_t)(line_end - header.data) : header.len;
		const char *line = (const char *)header.data;
		if (len > sizeof(wanted) && strncasecmp(line, wanted, sizeof(wanted) - 1) == 0) {
			const char *at = find_parameter(line, line + len, "name");
			return at ? parameter_value(at, line + len) : (struct bytes){0};
		}
		header = bytes_skip(header, line_end ? len + 2 : len);
	}
	return (struct bytes){0};
}

int multipart_next(struct multipart *multipart, struct multipart_part *ret, struct error *err)
{
	struct bytes rest = multipart->rest;
	if (rest.len >= 2 && memcmp(rest.data, "--", 2) == 0)
		return 0;
	while (rest.len > 0 && (*rest.data == ' ' || *rest.data == '\t'))
		rest = bytes_skip(rest, 1);
	if (rest.len < 2 || memcmp(rest.data, "\r\n", 2) != 0)
		return error_set(err, -EBADMSG, "truncated: the last part has no end");
	if (++multipart->parts > MULTIPART_PARTS_MAX)
		return error_set(err, -EBADMSG, "more than %u parts", MULTIPART_PARTS_MAX);
	/* A header without lines ends with the CR LF that began it. */
	size_t look = rest.len < MULTIPART_HEADER_MAX ? rest.len : MULTIPART_HEADER_MAX;
	const uint8_t *blank = memmem(rest.data, look, "\r\n\r\n", 4);
	if (!blank)
		return error_set(err, -EBADMSG, "the header of part %u does not end within %u bytes", multipart->parts,
				 MULTIPART_HEADER_MAX);
	size_t header_len = (size_t)(blank - rest.data);
	ret->name = header_len > 2 ? field_name((struct bytes){rest.data + 2, header_len - 2}) : (struct bytes){0};
	/* An empty part: the CR LF of the delimiter is the one that ends the header. */
	rest = bytes_skip(rest, header_len + 2);
	const uint8_t *end = memmem(rest.data, rest.len, multipart->delimiter, multipart->delimiter_len);
	if (!end)
		return error_set(err, -EBADMSG, "truncated: part %u has no end", multipart->parts);
	size_t len = (size_t)(end - rest.data);
	ret->data = len >= 2 ? (struct bytes){rest.data + 2, len - 2} : (struct bytes){0};
	multipart->rest = bytes_skip(rest, len + multipart->delimiter_len);
	return 1;
}
