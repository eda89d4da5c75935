/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profile formats: each decodes bytes to a struct profile, or encodes it, or both. Each format is one row in format.c, and one
 * file or folder.
 */
#ifndef WICK_FORMAT_FORMAT_H
#define WICK_FORMAT_FORMAT_H

#include "profile/profile.h"

/* The parts of a profile that a format can store. */
enum format_holds {
	FORMAT_HOLDS_TYPES = 1,		 /* several values a sample */
	FORMAT_HOLDS_TIMES = 2,		 /* of each sample */
	FORMAT_HOLDS_THREADS = 4,	 /* which thread and process a sample is of */
	FORMAT_HOLDS_LABELS = 8,	 /* all labels */
	FORMAT_HOLDS_LINKS = 16,	 /* trace and span ids */
	FORMAT_HOLDS_FILES = 32,	 /* source files of functions */
	FORMAT_HOLDS_LINES = 64,	 /* where in a function a frame is */
	FORMAT_HOLDS_INLINES = 128,	 /* that a call was inlined */
	FORMAT_HOLDS_ADDRESSES = 256,	 /* addresses, mappings, build-ids */
	FORMAT_HOLDS_SYSTEM_NAMES = 512, /* mangled names beside the others */
	FORMAT_HOLDS_COMMENTS = 1024,
	FORMAT_HOLDS_FRAME_TYPES = 2048,     /* kernel, JIT ... */
	FORMAT_HOLDS_MARKERS = 4096,	     /* and counters: profile/markers.h */
	FORMAT_HOLDS_RESOURCE_LABELS = 8192, /* labels of the whole profile only */
};

/* A file that was mapped where a profile was recorded; "" = not known. */
struct format_binary {
	const char *host, *path, *build_id;
};

struct format_options {
	const char *input_name;	       /* for messages; NULL = "input" */
	const struct format *fallback; /* decode: where no format is given and the content shows none; NULL = refuse */
	size_t decompressed_max;       /* bytes after decompression; 0 = LIMIT_PROFILE_INPUT_BYTES */
	const char *sample_type;       /* for formats that hold one value a stack (folded): which; NULL = default */
	unsigned version;	       /* of formats that have several to write (firefox); 0 = the usual one */
	bool symbol_server;	       /* firefox: the viewer has a symbol server for missing symbols */
	bool compress;		       /* encode: gzip where the format usually is (pprof); set by default from the extension */
	/* decode: the file, for stacks that are yet to be unwound (perf.data): a descriptor, which becomes the decoder's, or a
	 * negative errno. NULL: no file is opened. */
	int (*open_binary)(void *context, const struct format_binary *binary);
	void *open_context;
	const struct format **found; /* decode: becomes the format that it was; NULL = not needed */
	struct buffer *notes;	     /* decode: one line per kind of data that was dropped from the input; NULL = not needed */
};

/* The output of a streaming encoder: whenever `out` is long, format_sink_drain() passes it to flush and empties it. Without
 * flush, everything stays in `out`. */
struct format_sink {
	struct buffer *out;
	int (*flush)(void *context, struct bytes bytes, struct error *err);
	void *context;
};
#define FORMAT_SINK_BYTES (1024u * 1024)
int format_sink_drain(struct format_sink *sink, bool all, struct error *err);

struct format {
	const char *name;		    /* "pprof" */
	const char *extensions;		    /* ".pb.gz .pb .pprof", the first is the usual one */
	const char *description;	    /* one line for --help */
	unsigned holds;			    /* enum format_holds; of what is written */
	bool (*detect)(struct bytes input); /* cheap look at decompressed bytes */
	/* input is decompressed already (format_decode does it). NULL when the direction is not supported. */
	int (*decode)(struct bytes input, const struct format_options *options, struct profile **ret, struct error *err);
	int (*encode)(const struct profile *profile, const struct format_options *options, struct buffer *out,
		      struct error *err);
	/* The same, bit by bit; instead of encode. */
	int (*write)(const struct profile *profile, const struct format_options *options, struct format_sink *sink,
		     struct error *err);
};
bool format_is_written(const struct format *format); /* it has one of them */

extern const struct format *const formats[];		    /* NULL-terminated */
const struct format *format_by_name(const char *name);	    /* NULL if unknown */
const struct format *format_by_extension(const char *path); /* longest matching extension; NULL if none */
const struct format *format_detect(struct bytes input);	    /* by content; NULL if none matches */

/* What a file is that is no profile, as a sentence's end ("an execution trace of Go ..."); NULL if that is not known. */
const char *format_foreign(struct bytes input);

/* Replaces *input by what it holds if it is gzip or zstd; `out`, whose limit counts, owns that. -EBADMSG: corrupt, or
 * compressed more than once; -E2BIG: too large, compressed or not. */
int format_unpack(struct bytes *input, struct buffer *out, struct error *err);
/* Decompresses (gzip or zstd, once: gzip in gzip is refused), detects if format is NULL, decodes. -EBADMSG malformed, -E2BIG
 * too large, -EINVAL unknown format; the message starts with options->input_name. */
int format_decode(const struct format *format, struct bytes input, const struct format_options *options, struct profile **ret,
		  struct error *err);
int format_encode(const struct format *format, const struct profile *profile, const struct format_options *options,
		  struct buffer *out, struct error *err);

/* Likewise, but what comes last stays in sink->out. */
int format_write_most(const struct format *format, const struct profile *profile, const struct format_options *options,
		      struct format_sink *sink, struct error *err);
/* The same into a sink, which is left empty. What was flushed when it fails is for the caller to throw away. */
int format_write(const struct format *format, const struct profile *profile, const struct format_options *options,
		 struct format_sink *sink, struct error *err);

/* Appends what of this profile the format has no place for, in words: "the times of 1,200 samples; the labels thread.id and
 * thread.name"; nothing if all of it. -ENOMEM, -E2BIG. */
int format_losses(const struct format *format, const struct profile *profile, struct buffer *out);

/* The formats themselves, for callers that know what they have (decompressed). */
int pprof_decode(struct bytes input, const struct format_options *options, struct profile **ret, struct error *err);
int pprof_encode(const struct profile *profile, const struct format_options *options, struct buffer *out, struct error *err);
/* Packed, as format_write_most(): its samples are not held as a whole. */
int pprof_write(const struct profile *profile, struct format_sink *sink, struct error *err);
int folded_decode(struct bytes input, const struct format_options *options, struct profile **ret, struct error *err);
int folded_encode(const struct profile *profile, const struct format_options *options, struct buffer *out, struct error *err);
/* Likewise, as format_write_most(). */
int folded_write(const struct profile *profile, const struct format_options *options, struct format_sink *sink,
		 struct error *err);
/* Recordings of Java's Flight Recorder and async-profiler. */
int jfr_decode(struct bytes input, const struct format_options *options, struct profile **ret, struct error *err);

#endif
