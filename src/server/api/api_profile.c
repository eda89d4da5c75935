/* SPDX-License-Identifier: Apache-2.0 */
#include "server/api/api_profile.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/text.h"
#include "format/format.h"
#include "render/flame.h"

#define ANSWER_BYTES_MAX (1 * GIB)

static const struct drawing {
	const char *name, *content_type;
	int (*write)(const struct profile *profile, const char *title, struct buffer *out, struct error *err);
} drawings[] = {{"svg", "image/svg+xml", render_svg}, {"top", "text/plain; charset=utf-8", render_top}};

static const struct drawing *find_drawing(const char *name)
{
	for (size_t i = 0; i < sizeof(drawings) / sizeof(*drawings); i++)
		if (strcmp(drawings[i].name, name) == 0)
			return &drawings[i];
	return NULL;
}

int api_check_profile_format(const struct server *server, const char *parameter, const char *name, struct error *err)
{
	const struct format *format = format_by_name(name);
	if (strcmp(name, "html") == 0 ? server->options.write_page != NULL
				      : find_drawing(name) || (format && format_is_written(format)))
		return 0;
	return error_set(err, -EINVAL, "parameter '%s': unknown format '%.40s'; use firefox, html or pprof, for example",
			 parameter, name);
}

static void name_file(struct net_response *response, const char *file_name, const char *extension)
{
	char disposition[160];
	snprintf(disposition, sizeof(disposition), "attachment; filename=\"%.100s%s\"", file_name, extension);
	net_response_header(response, "Content-Disposition", disposition);
}

static int write_drawing(const struct drawing *drawing, const struct profile *profile, const char *title, const char *file_name,
			 struct net_response *response, struct error *err)
{
	char extension[16];
	snprintf(extension, sizeof(extension), ".%s", drawing->name);
	name_file(response, file_name, extension);
	response->content_type = drawing->content_type;
	int r = strcmp(drawing->name, "svg") == 0 ? respond_svg_policy(response, err) : 0;
	return r < 0 ? r : drawing->write(profile, title, &response->body, err);
}

int api_write_profile(const struct server *server, const struct profile *profile, const char *title, const char *file_name,
		      const char *name, struct net_response *response, struct error *err)
{
	const struct format *format = format_by_name(name);
	const struct drawing *drawing = find_drawing(name);
	response->body.max = ANSWER_BYTES_MAX;
	if (strcmp(name, "html") == 0) {
		response->content_type = "text/html; charset=utf-8";
		/* It brings its own policy for what it may load. */
		net_response_header(response, "Content-Security-Policy", "frame-ancestors 'none'");
		return server->options.write_page(profile, title, &response->body, err);
	}
	if (drawing)
		return write_drawing(drawing, profile, title, file_name, response, err);
	char extension[16] = "";
	sscanf(format->extensions, "%15s", extension);
	name_file(response, file_name, extension);
	if (strcmp(name, "firefox") != 0)
		response->content_type = "application/octet-stream";
	/* As the name of the file says, and not once more on the way. */
	bool is_packed = text_ends_with(extension, ".gz");
	struct format_options options = {.symbol_server = false, .compress = is_packed};
	response->no_compress = is_packed;
	return format_encode(format, profile, &options, &response->body, err);
}
