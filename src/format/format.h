/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profile formats: each turns bytes into a struct profile and back. One row a format in format.c; the functions behind it in
 * one file each.
 */
#ifndef WICK_FORMAT_FORMAT_H
#define WICK_FORMAT_FORMAT_H

#include "profile/profile.h"

struct format_options {
	const char *input_name;	 /* for messages; NULL = "input" */
	size_t decompressed_max; /* bytes after decompression; 0 = LIMIT_PROFILE_INPUT_BYTES */
	const char *sample_type; /* for formats that hold one value a stack (folded): which; NULL = default */
	bool compress;		 /* encode: gzip where the format usually is (pprof); set by default from the extension */
};

struct format {
	const char *name;		    /* "pprof" */
	const char *extensions;		    /* ".pb.gz .pb .pprof", the first is the usual one */
	const char *description;	    /* one line for --help */
	bool (*detect)(struct bytes input); /* cheap look at decompressed bytes */
	/* input is decompressed already (format_decode does it). NULL when the direction is not supported. */
	int (*decode)(struct bytes input, const struct format_options *options, struct profile **ret, struct error *err);
	int (*encode)(const struct profile *profile, const struct format_options *options, struct buffer *out,
		      struct error *err);
};

extern const struct format *const formats[];		    /* NULL-terminated */
const struct format *format_by_name(const char *name);	    /* NULL if unknown */
const struct format *format_by_extension(const char *path); /* longest matching extension; NULL if none */
const struct format *format_detect(struct bytes input);	    /* by content; NULL if none matches */

/* Decompresses (gzip or zstd, once: gzip in gzip is refused), detects if format is NULL, decodes. -EBADMSG malformed, -E2BIG
 * too large, -EINVAL unknown format; the message starts with options->input_name. */
int format_decode(const struct format *format, struct bytes input, const struct format_options *options, struct profile **ret,
		  struct error *err);
int format_encode(const struct format *format, const struct profile *profile, const struct format_options *options,
		  struct buffer *out, struct error *err);

/* The formats themselves, for callers that know what they have (decompressed). */
int pprof_decode(struct bytes input, const struct format_options *options, struct profile **ret, struct error *err);
int pprof_encode(const struct profile *profile, const struct format_options *options, struct buffer *out, struct error *err);
int folded_decode(struct bytes input, const struct format_options *options, struct profile **ret, struct error *err);
int folded_encode(const struct profile *profile, const struct format_options *options, struct buffer *out, struct error *err);

#endif
