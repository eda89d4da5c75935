/* SPDX-License-Identifier: Apache-2.0 */
#include "format/format.h"

#include <errno.h>
#include <string.h>

#include "base/limits.h"
#include "base/text.h"
#include "codec/compress.h"
#include "format/format_int.h"

/* In the order in which they are tried for detection. */
/* clang-format off */
const struct format *const formats[] = {
	&format_perf_data,
	&format_jfr,
	&format_simpleperf,
	&format_art_trace,
	&format_stackprof,
	&format_pprof,
	&format_otlp,
	&format_firefox,
	&format_gecko,
	&format_speedscope,
	&format_hermes,
	&format_chrome_trace,
	&format_dhat,
	&format_cpuprofile,
	&format_heapprofile,
	&format_instruments,
	&format_callgrind,
	&format_perf_script,
	&format_folded,
	&format_parquet,
	&format_arrow,
	&format_csv,
	NULL,
};
/* clang-format on */

const struct format *format_by_name(const char *name)
{
	for (size_t i = 0; formats[i]; i++)
		if (strcmp(formats[i]->name, name) == 0)
			return formats[i];
	return NULL;
}

/* The length of the longest of the blank-separated extensions that the path ends with; 0 if none. */
static size_t matching_extension(const char *extensions, struct bytes path)
{
	size_t best = 0;
	while (*extensions) {
		size_t len = strcspn(extensions, " ");
		if (len > best && len < path.len && memcmp(path.data + path.len - len, extensions, len) == 0)
			best = len;
		extensions += len;
		extensions += strspn(extensions, " ");
	}
	return best;
}

static const struct format *by_extension(struct bytes path)
{
	const struct format *found = NULL;
	size_t best = 0;
	for (size_t i = 0; formats[i]; i++) {
		size_t len = matching_extension(formats[i]->extensions, path);
		if (len > best) {
			best = len;
			found = formats[i];
		}
	}
	return found;
}

const struct format *format_by_extension(const char *path)
{
	struct bytes name = bytes_of_string(path);
	const struct format *format = by_extension(name);
	/* Any format may be compressed. */
	if (!format && text_ends_with(path, ".gz"))
		format = by_extension((struct bytes){name.data, name.len - 3});
	if (!format && text_ends_with(path, ".zst"))
		format = by_extension((struct bytes){name.data, name.len - 4});
	return format;
}

const struct format *format_detect(struct bytes input)
{
	for (size_t i = 0; formats[i]; i++)
		if (formats[i]->detect && formats[i]->detect(input))
			return formats[i];
	return NULL;
}

int format_unpack(struct bytes *input, struct buffer *out, struct error *err)
{
	int r;
	if (gzip_detect(*input))
		r = gzip_decompress(*input, out, err);
	else if (zstd_detect(*input))
		r = zstd_decompress(*input, out, err);
	else
		return input->len > out->max
			       ? error_set(err, -E2BIG, "%zu bytes are more than the limit of %zu", input->len, out->max)
			       : 0;
	if (r < 0)
		return r;
	*input = buffer_bytes(out);
	if (gzip_detect(*input) || zstd_detect(*input))
		return error_set(err, -EBADMSG, "compressed more than once; decompress it first");
	return 0;
}

static int decode_plain(const struct format *format, struct bytes input, const struct format_options *options,
			struct profile **ret, struct error *err)
{
	if (input.len == 0)
		return error_set(err, -EBADMSG, "the input is empty");
	const char *foreign = format_foreign(input);
	if (foreign)
		return error_set(err, -EINVAL, "this is %s", foreign);
	if (!format)
		format = format_detect(input);
	if (!format && options)
		format = options->fallback;
	if (!format)
		return error_set(err, -EINVAL, "unknown profile format; give it with --from (in the API: format=)");
	if (!format->decode)
		return error_set(err, -EINVAL, "%s can be written but not read", format->name);
	if (options && options->found)
		*options->found = format;
	return format->decode(input, options, ret, err);
}

int format_decode(const struct format *format, struct bytes input, const struct format_options *options, struct profile **ret,
		  struct error *err)
{
	const char *name = options && options->input_name ? options->input_name : "input";
	_cleanup_(buffer_release) struct buffer plain = {
		.max = options && options->decompressed_max ? options->decompressed_max : LIMIT_PROFILE_INPUT_BYTES};
	int r = format_unpack(&input, &plain, err);
	if (r == 0)
		r = decode_plain(format, input, options, ret, err);
	return r < 0 ? error_prefix(err, r, "%s", name) : 0;
}

int format_sink_drain(struct format_sink *sink, bool all, struct error *err)
{
	if (!sink->flush || sink->out->len == 0 || buffer_status(sink->out) < 0 || (!all && sink->out->len < FORMAT_SINK_BYTES))
		return 0;
	int r = sink->flush(sink->context, buffer_bytes(sink->out), err);
	buffer_clear(sink->out);
	return r;
}

bool format_is_written(const struct format *format)
{
	return format->encode || format->write;
}

int format_write_most(const struct format *format, const struct profile *profile, const struct format_options *options,
		      struct format_sink *sink, struct error *err)
{
	if (!format_is_written(format))
		return error_set(err, -EINVAL, "%s can be read but not written", format->name);
	return format->write ? format->write(profile, options, sink, err) : format->encode(profile, options, sink->out, err);
}

int format_write(const struct format *format, const struct profile *profile, const struct format_options *options,
		 struct format_sink *sink, struct error *err)
{
	int r = format_write_most(format, profile, options, sink, err);
	return r < 0 ? r : format_sink_drain(sink, true, err);
}

int format_encode(const struct format *format, const struct profile *profile, const struct format_options *options,
		  struct buffer *out, struct error *err)
{
	struct format_sink sink = {.out = out};
	size_t before = out->len;
	int r = format_write(format, profile, options, &sink, err);
	if (r < 0)
		buffer_truncate(out, before);
	return r;
}
