/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/format: what several formats need. */
#ifndef WICK_FORMAT_FORMAT_INT_H
#define WICK_FORMAT_FORMAT_INT_H

#include "format/format.h"

/*
 * Samples that a format writes as one: equal in stack and labels (and in what else is asked for), in the order in which the
 * first of each group comes. The samples of a group are a chain: for (i = first[g]; i != SAMPLE_NONE; i = next[i]).
 */
#define SAMPLE_NONE UINT32_MAX
struct sample_groups {
	uint32_t *first; /* by group */
	uint32_t *next;	 /* by sample */
	size_t count;
};
enum sample_groups_by { GROUPS_BY_LINK = 1, GROUPS_BY_NUMBERS = 2 };
int sample_groups_build(const struct profile *profile, unsigned by, struct sample_groups *ret, struct error *err);
void sample_groups_release(struct sample_groups *groups);
/* Sum of one value over a group (base/sum.h). */
int64_t sample_groups_sum(const struct sample_groups *groups, const struct profile *profile, size_t group, size_t sample_type);

struct map64;
/* threads.c: samples by thread, threads by host, pid and tid. Samples that tell no thread are one of their own. */
struct sample_thread {
	uint32_t host;	  /* string: its name; 0 = unknown, or that of all threads */
	int64_t pid, tid; /* 0 is one, too: the idle tasks of Linux */
	bool has_pid, has_tid;
	uint32_t name, process; /* strings; 0 = unknown */
	bool process_is_comm;	/* there is no process.executable.name; process.comm stands in for it */
	size_t first, count;	/* of its samples, in order[], by time */
	bool renamed;		/* it has other names, too */
	bool has_executed;	/* its process has other names, too: it became another program */
	/* After sample_threads_add_markers(). */
	uint32_t marked;		   /* of profile->markers->threads; 0 = none */
	uint32_t reuse;			   /* how many had its tid before */
	size_t marker_first, marker_count; /* in marker_order[], by time */
	/* Of profile->markers->lifetimes; 0 = unknown: its own, and that of its process. */
	uint32_t lifetime, process_lifetime;
	uint32_t exec; /* how many programs its process ran before that there are threads of */
};
struct sample_threads {
	struct sample_thread *items;
	size_t count;
	uint32_t *order; /* numbers of samples */
	uint32_t *marker_order;
	bool has_hosts; /* there are several, and each thread says its own */
};
int sample_threads_build(const struct profile *profile, struct sample_threads *ret, struct error *err);
/* Threads with markers or counters besides those with samples, and the main thread of each process; full names; threads one
 * after the other with one tid apart, their samples parted by when the second began. Where lifetimes are known, each has a
 * thread of its own, so that a process that became another program is two. */
int sample_threads_add_markers(const struct profile *profile, struct sample_threads *threads, struct error *err);
/* Private to threads.c and lifetimes.c. */
void sample_thread_read_labels(const struct profile *profile, uint32_t set, struct sample_thread *ret);
int sample_threads_compare(const void *a, const void *b);
uint64_t sample_thread_key(uint32_t host, int64_t pid, int64_t tid);
/* Threads of which lifetimes are known, by that key. */
int sample_threads_find_lifetimes(const struct profile *profile, bool has_hosts, struct map64 *ret);
int sample_threads_part(const struct profile *profile, struct sample_threads *threads);
void sample_threads_release(struct sample_threads *threads);

/* The name of a location without lines, appended: FILE+0xOFFSET, 0xADDRESS or [unknown]; of a line's function: its name, or
 * [unknown]. Bytes as they are in the profile. */
int format_append_address(const struct profile *profile, uint32_t location, struct buffer *out);
int format_append_function(const struct profile *profile, uint32_t function, struct buffer *out);

/* Whether a mapping's file name means kernel code: "[kernel.kallsyms]" and whatever starts with "[kernel", and modules in
 * brackets such as "[nf_tables]"; not what the kernel puts into user space ("[vdso]", "[heap]", "[stack:42]" ...). */
bool format_is_kernel_file(struct bytes file_name);
#define FORMAT_KERNEL_FILE "[kernel.kallsyms]"

/* Of profile.frame.type of OpenTelemetry's semantic conventions; "jit" and "interpreted" are ours, for sources that do not say
 * which. */
enum profile_frame_type format_frame_type(struct bytes name);

/* The label's text as a series would show it ("NUMBER" or "NUMBER UNIT" for numeric ones), appended to out. */
int format_append_label_value(const struct profile *profile, const struct profile_label *label, struct buffer *out);

/* Whether folded stacks have a column for each value: "base" and "new", neither of them the one to show. */
bool folded_holds_both(const struct profile *profile);

/* Where the "(...)" that the text ends with begins, which may hold others that match, as "(a (deleted))"; SIZE_MAX if there is
 * none. */
size_t format_find_parentheses(struct bytes text);
/* 1 to 16 hexadecimal digits and nothing else, with or without 0x. */
bool format_parse_address(struct bytes text, uint64_t *ret);
/* What is before the next tab, or all of the line; *line becomes what is behind it. */
struct bytes format_take_column(struct bytes *line);

/* A line in options->notes for each kind of thing that was left out and of which there were any; nothing if nobody asks. Notes
 * that are full are no failure: -ENOMEM is the only one. */
struct format_left_out {
	uint64_t count;
	const char *what; /* "events that are no samples" */
};
int format_note(const struct format_options *options, const struct format_left_out *items, size_t count, struct error *err);
/* The same for notes that were appended otherwise. */
int format_note_status(struct buffer *notes, struct error *err);

/* The strings that a decoder needs again and again, such as the keys of its labels. */
struct format_string {
	const char *text;
	uint32_t *ret;
};
int format_add_strings(struct profile *profile, const struct format_string *strings, size_t count, struct error *err);
/* The same for members of a JSON object by their keys; those that are not there, or no texts, are "". */
struct json_node;
int format_add_members(struct profile *profile, const struct json_node *object, const struct format_string *members,
		       size_t count, struct error *err);

/* A protobuf message of nothing but varints: values[number] of the fields 1 .. count. message: for messages. */
struct pb_cursor;
int format_read_varints(struct pb_cursor *cursor, const char *message, uint64_t *values, uint32_t count, struct error *err);

/* A location of one function, without an address. */
struct format_frame {
	struct bytes name, file;
	int64_t start_line, line, column; /* 0 = unknown */
	uint32_t type;			  /* enum profile_frame_type */
};
int format_add_frame(struct profile *profile, const struct format_frame *frame, uint32_t *ret_location, struct error *err);

int format_set_period_type(struct profile *profile, const char *type, const char *unit, struct error *err);

/* Where a profile is from: the command becomes a comment, the pid a label of the whole profile; "" and 0 = unknown. */
int format_add_origin(struct profile *profile, struct bytes command, int64_t pid, struct error *err);

/* Whether a map of ids has one for the key. */
bool format_known(const struct map64 *ids, uint64_t key, uint32_t *ret);

struct json_tree;
/* The beginning of a decoder of JSON: the tree, and a new profile. Both are the caller's to free, also after a failure. */
int format_begin_json(struct bytes input, struct json_tree **ret_tree, struct profile **ret_profile, struct error *err);
/* The end of a decoder whose result is r: *ret becomes the profile, or, after a failure, the profile is freed. Returns r. */
int format_finish(int r, struct profile *profile, struct profile **ret);

/* What a failed append to a buffer means: -ENOMEM or -E2BIG, said. */
int format_buffer_error(int code, const struct buffer *out, const char *what, struct error *err);

/* Rows of formats[] */
/* clang-format off */
extern const struct format format_perf_data;
extern const struct format format_jfr;
extern const struct format format_pprof;
extern const struct format format_otlp;
extern const struct format format_firefox;
extern const struct format format_speedscope;
extern const struct format format_chrome_trace;
extern const struct format format_dhat;
extern const struct format format_cpuprofile;
extern const struct format format_heapprofile;
extern const struct format format_simpleperf;
extern const struct format format_art_trace;
extern const struct format format_hermes;
extern const struct format format_stackprof;
extern const struct format format_instruments;
extern const struct format format_gecko;
extern const struct format format_callgrind;
extern const struct format format_perf_script;
extern const struct format format_folded;
extern const struct format format_parquet;
extern const struct format format_arrow;
extern const struct format format_csv;
/* clang-format on */

#endif
