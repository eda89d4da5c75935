/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles out of the command line: the wire formats of src/format, and what src/render draws, under one list of names. */
#include <errno.h>
#include <string.h>

#include "base/io.h"
#include "base/limits.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "codec/compress.h"
#include "format/format.h"
#include "render/flame.h"

#define OUTPUT_BYTES_MAX (4 * GIB)
#define GZIP_LEVEL	 6

static int write_svg(const struct profile *profile, const char *title, struct buffer *out, struct error *err)
{
	_cleanup_(flame_freep) struct flame *flame = NULL;
	int r = flame_build(profile, profile_default_sample_type(profile), FLAME_UNNAMED_BY_ADDRESS, &flame, err);
	struct svg_options options = {.title = title};
	return r ? r : svg_render(flame, &options, out, err);
}

static int write_top(const struct profile *profile, const char *title, struct buffer *out, struct error *err)
{
	(void)title;
	_cleanup_(flame_freep) struct flame *flame = NULL;
	int r = flame_build(profile, profile_default_sample_type(profile), FLAME_UNNAMED_BY_BINARY, &flame, err);
	if (r)
		return r;
	struct table table;
	r = table_build(flame, &table, err);
	if (r)
		return r;
	r = table_write_text(&table, flame->unit, 0, out, err);
	table_release(&table);
	return r;
}

static const struct drawing {
	const char *name, *extension;
	int (*write)(const struct profile *profile, const char *title, struct buffer *out, struct error *err);
} drawings[] = {{"svg", ".svg", write_svg}, {"top", ".top", write_top}};

static const struct drawing *find_drawing(const char *path, const char *format)
{
	for (size_t i = 0; i < sizeof(drawings) / sizeof(*drawings); i++)
		if (format ? strcmp(format, drawings[i].name) == 0 : text_ends_with(path, drawings[i].extension))
			return &drawings[i];
	return NULL;
}

/* Exactly one of *ret_drawing, *ret_format is set on success. */
static int find_output(const char *path, const char *format, const struct drawing **ret_drawing,
		       const struct format **ret_format, struct error *err)
{
	*ret_drawing = find_drawing(path, format);
	*ret_format = *ret_drawing ? NULL : format ? format_by_name(format) : format_by_extension(path);
	if (*ret_drawing || (*ret_format && (*ret_format)->encode))
		return 0;
	if (format)
		return error_set(err, -EINVAL,
				 "'%.40s' is no format that can be written; there are pprof, otlp, folded, svg and top",
				 format);
	return error_set(err, -EINVAL,
			 "cannot tell the format of '%.200s' from its name; end it in .pb.gz, .pb, .otlp, .folded, .svg or "
			 ".top, or name the "
			 "format with an option",
			 path);
}

int output_check(const char *path, const char *format, struct error *err)
{
	const struct drawing *drawing;
	const struct format *wire;
	return find_output(path, format, &drawing, &wire, err);
}

int output_write(const struct profile *profile, const char *path, const char *format, const char *title, struct error *err)
{
	const struct drawing *drawing;
	const struct format *wire;
	int r = find_output(path, format, &drawing, &wire, err);
	if (r)
		return r;
	_cleanup_(buffer_release) struct buffer out;
	buffer_init(&out, OUTPUT_BYTES_MAX);
	struct format_options options = {.compress = false};
	r = drawing ? drawing->write(profile, title, &out, err) : format_encode(wire, profile, &options, &out, err);
	if (r)
		return r;
	/* pprof on a pipe is compressed, as its own tools write it. */
	if (!text_ends_with(path, ".gz") && !(strcmp(path, "-") == 0 && wire && strcmp(wire->name, "pprof") == 0))
		return io_write_file(path, out.data, out.len, 0644, err);
	_cleanup_(buffer_release) struct buffer compressed;
	buffer_init(&compressed, OUTPUT_BYTES_MAX);
	r = gzip_compress(buffer_bytes(&out), GZIP_LEVEL, &compressed, err);
	return r ? r : io_write_file(path, compressed.data, compressed.len, 0644, err);
}
