/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles out of the command line: the wire formats of src/format, and what src/render draws, under one list of names. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/io.h"
#include "base/limits.h"
#include "base/sum.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "codec/compress.h"
#include "format/format.h"
#include "render/flame.h"

#define OUTPUT_BYTES_MAX (4 * GIB)
#define GZIP_LEVEL	 6

static const struct drawing {
	const char *name, *extension;
	int (*write)(const struct profile *profile, const char *title, struct buffer *out, struct error *err);
} drawings[] = {{"svg", ".svg", render_svg}, {"html", ".html", html_write}, {"top", ".top", render_top}};
#define DRAWINGS (sizeof(drawings) / sizeof(*drawings))

static const struct drawing *find_drawing(const char *path, const char *format)
{
	for (size_t i = 0; i < DRAWINGS; i++)
		if (format ? strcmp(format, drawings[i].name) == 0 : text_ends_with(path, drawings[i].extension))
			return &drawings[i];
	return NULL;
}

bool output_is_table(const char *path, const char *format)
{
	const struct drawing *drawing = find_drawing(path, format);
	return drawing && drawing->write == render_top;
}

static bool is_read(const struct format *format)
{
	return format->decode;
}

/* "A, B or C": the names or the first extensions of some formats, and of the drawings. */
static const char *enumerate(char names[OUTPUT_NAMES_MAX], bool (*is_listed)(const struct format *), bool drawn,
			     bool extensions)
{
	const char *items[64];
	size_t count = 0, used = 0;
	for (size_t i = 0; formats[i] && count < sizeof(items) / sizeof(*items) - DRAWINGS; i++)
		if (is_listed(formats[i]))
			items[count++] = extensions ? formats[i]->extensions : formats[i]->name;
	for (size_t i = 0; i < DRAWINGS && drawn; i++)
		items[count++] = extensions ? drawings[i].extension : drawings[i].name;
	names[0] = '\0';
	for (size_t i = 0; i < count && used < OUTPUT_NAMES_MAX; i++)
		used += (size_t)snprintf(names + used, OUTPUT_NAMES_MAX - used, "%s%.*s",
					 i == 0		  ? ""
					 : i == count - 1 ? " or "
							  : ", ",
					 (int)strcspn(items[i], " "), items[i]);
	return names;
}

const char *input_format_names(char names[OUTPUT_NAMES_MAX])
{
	return enumerate(names, is_read, false, false);
}

const char *output_format_names(char names[OUTPUT_NAMES_MAX])
{
	return enumerate(names, format_is_written, true, false);
}

const char *output_extensions(char names[OUTPUT_NAMES_MAX])
{
	return enumerate(names, format_is_written, true, true);
}

/* Names that formats and compressions are read by, and that nothing is written for. */
static int check_name(const char *path, bool told, struct error *err)
{
	if (text_ends_with(path, ".zst"))
		return error_set(err, -EINVAL, "cannot write '%.200s': zstd is supported for reading only; use .gz", path);
	if (!told && (text_ends_with(path, ".otlp.json") || text_ends_with(path, ".otlp.json.gz")))
		return error_set(err, -EINVAL, "cannot write '%.200s': OTLP as JSON is supported for reading only; use .otlp",
				 path);
	return 0;
}

/* Exactly one of *ret_drawing, *ret_format is set on success. */
static int find_output(const char *path, const char *format, const struct drawing **ret_drawing,
		       const struct format **ret_format, struct error *err)
{
	int r = check_name(path, format != NULL, err);
	if (r < 0)
		return r;
	*ret_drawing = find_drawing(path, format);
	*ret_format = *ret_drawing ? NULL : format ? format_by_name(format) : format_by_extension(path);
	if (*ret_drawing || (*ret_format && format_is_written(*ret_format)))
		return 0;
	char names[OUTPUT_NAMES_MAX];
	if (format)
		return error_set(err, -EINVAL, "'%.40s' is not a writable format; choose %s", format,
				 output_format_names(names));
	return error_set(err, -EINVAL,
			 "cannot determine the format of '%.200s' from its name; use the extension %s, or give the format with "
			 "an option",
			 path, output_extensions(names));
}

/* Shortens a name by the ending, if it has it and something else. */
static bool cut(const char *name, size_t *len, const char *ending)
{
	size_t size = strlen(ending);
	bool has = *len > size && memcmp(name + *len - size, ending, size) == 0;
	*len -= has ? size : 0;
	return has;
}

static bool is_same_file(const char *left, const char *right)
{
	struct stat a, b;
	return strcmp(left, right) == 0 ||
	       (stat(left, &a) == 0 && stat(right, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino);
}

int output_choose_name(const struct operands *inputs, const char *ending, char out[static OUTPUT_NAME_MAX], struct error *err)
{
	const char *input = inputs->items[0], *slash = strrchr(input, '/');
	const char *name = strcmp(input, "-") == 0 ? "profile" : slash ? slash + 1 : input;
	size_t len = strlen(name);
	if (!cut(name, &len, ".gz"))
		cut(name, &len, ".zst");
	const char *dot = memrchr(name, '.', len);
	if (!cut(name, &len, ".firefox.json") && dot && dot > name)
		len = (size_t)(dot - name);
	int n = snprintf(out, OUTPUT_NAME_MAX, "%.*s%s", (int)len, name, ending);
	if (len == 0 || n >= OUTPUT_NAME_MAX)
		return error_set(err, -EINVAL, "cannot derive an output name from '%.200s'; give -o FILE", input);
	for (size_t i = 0; i < inputs->count; i++)
		if (is_same_file(inputs->items[i], out))
			return error_set(err, -EINVAL, "%.200s would %s; give -o FILE", inputs->items[i],
					 i == 0 ? "replace itself" : "be replaced");
	return 0;
}

int output_check(const char *path, const char *format, struct error *err)
{
	const struct drawing *drawing;
	const struct format *wire;
	return find_output(path, format, &drawing, &wire, err);
}

/* NULL: it is drawn, or there is none. */
static const struct format *find_wire(const char *path, const char *format)
{
	const struct drawing *drawing;
	const struct format *wire;
	return find_output(path, format, &drawing, &wire, NULL) == 0 ? wire : NULL;
}

unsigned output_holds(const char *path, const char *format)
{
	const struct format *wire = find_wire(path, format);
	return wire ? wire->holds : 0;
}

void output_print_limits(const struct profile *profile)
{
	if (!profile_sums_fit(profile))
		fprintf(stderr, "warning: " SUM_WARNING "\n");
}

void output_print_losses(const struct profile *profile, const char *path, const char *format)
{
	const struct format *wire = find_wire(path, format);
	output_print_limits(profile);
	_cleanup_(buffer_release) struct buffer losses = {.max = SIZE_MAX};
	if (!wire || format_losses(wire, profile, &losses) < 0 || losses.len == 0)
		return;
	cmd_printf(stderr, "%s cannot store ", wire->name);
	cmd_print_harmless_bytes(stderr, buffer_bytes(&losses));
	fputc('\n', stderr);
}

/* Where the output of formats that write bit by bit goes. */
struct destination {
	struct io_output *file;
	struct gzip_stream *gzip; /* NULL = not compressed */
	struct buffer compressed;
	uint64_t bytes, bytes_max; /* 0 = any */
};

static int check_size(uint64_t bytes, uint64_t bytes_max, struct error *err)
{
	if (!bytes_max || bytes <= bytes_max)
		return 0;
	return error_set(err, -EFBIG, "the profile is larger than the given limit of %llu KiB",
			 (unsigned long long)(bytes_max / KIB));
}

static int write_bytes(struct destination *to, struct bytes bytes, struct error *err)
{
	to->bytes += bytes.len;
	int r = check_size(to->bytes, to->bytes_max, err);
	return r < 0 ? r : io_output_write(to->file, bytes.data, bytes.len, err);
}

static int put_bytes(struct destination *to, struct bytes bytes, bool last, struct error *err)
{
	if (!to->gzip)
		return write_bytes(to, bytes, err);
	buffer_clear(&to->compressed);
	int r = gzip_stream_write(to->gzip, bytes, last, &to->compressed, err);
	return r < 0 ? r : write_bytes(to, buffer_bytes(&to->compressed), err);
}

static int flush_destination(void *context, struct bytes bytes, struct error *err)
{
	return put_bytes(context, bytes, false, err);
}

static int write_parts(const char *path, bool compress, uint64_t bytes_max, output_part_function write, void *context,
		       struct error *err)
{
	_cleanup_(io_output_freep) struct io_output *file = NULL;
	_cleanup_(gzip_stream_freep) struct gzip_stream *gzip = NULL;
	_cleanup_(buffer_release) struct buffer out = {.max = OUTPUT_BYTES_MAX};
	int r = compress ? gzip_stream_new(GZIP_LEVEL, &gzip, err) : 0;
	if (r == 0)
		r = io_output_open(path, 0644, &file, err);
	if (r < 0)
		return r;
	struct destination to = {.file = file, .gzip = gzip, .bytes_max = bytes_max, .compressed.max = OUTPUT_BYTES_MAX};
	struct format_sink sink = {.out = &out, .flush = flush_destination, .context = &to};
	r = write(context, &sink, err);
	if (r == 0 && gzip)
		r = put_bytes(&to, (struct bytes){0}, true, err);
	buffer_release(&to.compressed);
	return r < 0 ? r : io_output_finish(file, err);
}

int output_write_parts(const char *path, bool compress, output_part_function write, void *context, struct error *err)
{
	return write_parts(path, compress, 0, write, context, err);
}

struct parts {
	const struct format *wire;
	const struct profile *profile;
	const struct format_options *options;
};

static int write_format(void *context, struct format_sink *sink, struct error *err)
{
	const struct parts *parts = context;
	return format_write(parts->wire, parts->profile, parts->options, sink, err);
}

int output_write(const struct profile *profile, const char *path, const char *format, const char *title,
		 const struct output_options *options, struct error *err)
{
	const struct drawing *drawing;
	const struct format *wire;
	int r = find_output(path, format, &drawing, &wire, err);
	if (r < 0)
		return r;
	/* pprof on a pipe is compressed, as its own tools write it. */
	bool compress = text_ends_with(path, ".gz") || (strcmp(path, "-") == 0 && wire && strcmp(wire->name, "pprof") == 0);
	uint64_t bytes_max = options ? options->bytes_max : 0;
	struct format_options wire_options = {.version = options ? options->version : 0};
	if (wire && wire->write) {
		struct parts parts = {wire, profile, &wire_options};
		return write_parts(path, compress, bytes_max, write_format, &parts, err);
	}
	_cleanup_(buffer_release) struct buffer out = {.max = OUTPUT_BYTES_MAX}, compressed = {.max = OUTPUT_BYTES_MAX};
	r = drawing ? drawing->write(profile, title, &out, err) : format_encode(wire, profile, &wire_options, &out, err);
	if (r == 0 && compress)
		r = gzip_compress(buffer_bytes(&out), GZIP_LEVEL, &compressed, err);
	const struct buffer *written = compress ? &compressed : &out;
	if (r == 0)
		r = check_size(written->len, bytes_max, err);
	return r < 0 ? r : io_write_file(path, written->data, written->len, 0644, err);
}
