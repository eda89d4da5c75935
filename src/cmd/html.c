/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profile as one HTML file: the page's own flame graph and table with the profile within, to be mailed, attached and opened
 * from a disk. It asks nobody for anything, which its content security policy enforces: one script and one style may run, by
 * their hashes.
 *
 * The profile is what server/viewer/view.h makes of it, gzipped, in base64: names are whatever somebody called a function, and
 * in this form none can end an element or begin one. The columns of a time line are a second element of that kind.
 */
#include <errno.h>
#include <string.h>

#include "base/text.h"
#include "cmd/cmd.h"
#include "codec/base64.h"
#include "codec/compress.h"
#include "server/server.h"
#include "server/viewer/view.h"

#define JSON_BYTES_MAX	  (1ull << 30)
#define COLUMNS_BYTES_MAX (512ull << 20)
#define GZIP_LEVEL	  9
/* Of columns, which are many and whose low digits are noise. */
#define GZIP_COLUMNS_LEVEL 6

static void put_escaped(struct bytes text, struct buffer *out)
{
	static const struct {
		char from;
		const char *to;
	} escapes[] = {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}};
	for (size_t i = 0; i < text.len; i++) {
		const char *to = NULL;
		for (size_t k = 0; k < sizeof(escapes) / sizeof(escapes[0]); k++)
			if (text.data[i] == (uint8_t)escapes[k].from)
				to = escapes[k].to;
		if (to)
			buffer_append_string(out, to);
		else
			buffer_append_byte(out, text.data[i]);
	}
}

/* Appends the page up to the place and moves *page behind it. */
static void put_page_until(struct bytes *page, const char *place, struct buffer *out)
{
	const uint8_t *at = memmem(page->data, page->len, place, strlen(place));
	size_t before = at ? (size_t)(at - page->data) : page->len, skip = at ? before + strlen(place) : before;
	buffer_append(out, page->data, before);
	*page = bytes_skip(*page, skip);
}

/* Both gzipped. */
struct page_data {
	struct buffer json, columns;
};

static void page_data_release(struct page_data *data)
{
	buffer_release(&data->json);
	buffer_release(&data->columns);
}

static int pack(const struct profile *profile, const char *title, size_t columns_max, struct page_data *out, struct error *err)
{
	_cleanup_(buffer_release) struct buffer json = {.max = JSON_BYTES_MAX}, columns = {.max = columns_max};
	struct view_options options = {.title = title};
	int r = view_write(profile, &options, &json, &columns, err);
	if (r == 0)
		r = gzip_compress(buffer_bytes(&json), GZIP_LEVEL, &out->json, err);
	if (r == 0 && columns.len > 0)
		r = gzip_compress(buffer_bytes(&columns), GZIP_COLUMNS_LEVEL, &out->columns, err);
	return r;
}

static int put_page(const char *title, const struct page_data *data, struct buffer *out, struct error *err)
{
	struct bytes page = assets_report();
	_cleanup_(buffer_release) struct buffer safe = {.max = SIZE_MAX};
	if (text_append_harmless(&safe, bytes_of_string(title)) < 0)
		return error_nomem(err);
	put_page_until(&page, "{{TITLE}}", out);
	put_escaped(buffer_bytes(&safe), out);
	put_page_until(&page, "{{PROFILE}}", out);
	base64_encode(buffer_bytes(&data->json), out);
	put_page_until(&page, "{{TIMELINE}}", out);
	base64_encode(buffer_bytes(&data->columns), out);
	int r = buffer_append(out, page.data, page.len);
	return r == -E2BIG ? error_set(err, r, "the page exceeds the limit of %zu bytes", out->max)
	       : r < 0	   ? error_nomem(err)
			   : 0;
}

int html_write_within(const struct profile *profile, const char *title, size_t columns_max, struct buffer *out,
		      struct error *err)
{
	_cleanup_(page_data_release) struct page_data data = {.json.max = JSON_BYTES_MAX, .columns.max = columns_max};
	/* The path of whoever made the page is nobody's business. */
	title = strcmp(title, "-") == 0 ? "profile" : text_base_name(title);
	int r = pack(profile, title, columns_max, &data, err);
	return r < 0 ? r : put_page(title, &data, out, err);
}

int html_write(const struct profile *profile, const char *title, struct buffer *out, struct error *err)
{
	return html_write_within(profile, title, COLUMNS_BYTES_MAX, out, err);
}
