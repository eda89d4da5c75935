/* SPDX-License-Identifier: Apache-2.0 */
/* Private to annotate*.c. Times are nanoseconds since the start of their file; INT64_MIN = unknown. */
#ifndef WICK_FORMAT_ANNOTATE_ANNOTATE_INT_H
#define WICK_FORMAT_ANNOTATE_ANNOTATE_INT_H

#include "base/arena.h"
#include "base/intern.h"
#include "base/limits.h"
#include "base/map.h"
#include "codec/json_scan.h"
#include "codec/json_tree.h"
#include "format/annotate/annotate.h"
#include "format/firefox/firefox_int.h"

#define ANNOTATE_UNKNOWN INT64_MIN
#define ANNOTATE_NONE	 UINT32_MAX
/* LIMITS. Categories are numbered in 16 bits; meta is held. */
#define ANNOTATE_THREADS_MAX	(256u * 1024)
#define ANNOTATE_CATEGORIES_MAX 4096u
#define ANNOTATE_SCHEMAS_MAX	4096u
#define ANNOTATE_COUNTERS_MAX	16384u
#define ANNOTATE_FIELDS_MAX	64u
#define ANNOTATE_MARKERS_MAX	LIMIT_PROFILE_ENTITIES
#define ANNOTATE_META_BYTES	(16 * MIB)

/* A string in a marker's data: this byte, which is in no JSON, and its id in four. */
#define ANNOTATE_STRING_MARK 0x01

/* "host:17.1": the second that had pid 17 on that host. */
struct annotate_id {
	struct bytes host; /* "" = not told */
	int64_t number;
	bool is_known;
};

struct annotate_source {
	int64_t wall_ns, monotonic_ns; /* at its times' 0; UNKNOWN */
	int64_t shift_ns;	       /* from its times to those of the profile */
	bool by_monotonic;
	bool wall_is_guessed; /* from the clocks of this machine now */
};

struct annotate_thread { /* with markers */
	struct annotate_id pid, tid;
	struct bytes name, process; /* "" = unknown */
	int64_t start_ns;	    /* when it began */
	uint32_t source;
	bool is_main;
	size_t first, count;	   /* of its markers */
	int64_t first_ns, last_ns; /* of its markers */
	int64_t next_ns;	   /* when the next one began that had its tid; UNKNOWN = there is none */
	uint32_t base;		   /* of the profile; NONE = it is new */
	uint32_t next;		   /* of those that go to the same one; NONE = the last */
	size_t kept;
};

struct annotate_marker {
	int64_t start_ns, end_ns; /* UNKNOWN = it has none */
	uint64_t data_at;	  /* in annotate.data: the members but "type", each with a comma before it */
	uint32_t data_len, name, schema;
	uint16_t category; /* of annotate.categories */
	uint8_t phase;	   /* LEFT_OUT = not in the profile's time */
};
#define ANNOTATE_LEFT_OUT UINT8_MAX

struct annotate_schema {
	const struct json_node *node;
	struct bytes name;
	/* In the profile */
	uint32_t base;	    /* which of its schemas it is; NONE = it is new */
	struct bytes final; /* its name there */
	uint32_t joined;    /* which of ours stands for it; itself, mostly */
	bool is_used;
};

struct annotate_category {
	struct bytes name, color;
	uint32_t number; /* in the profile */
	bool is_new, is_used;
};

struct annotate_counter {
	const struct json_node *node;
	uint32_t source;
	uint32_t thread; /* of annotate.threads: the one that it names */
	struct annotate_id pid;
};

struct annotate {
	struct arena arena; /* names */
	struct json_tree **trees;
	size_t tree_count, tree_capacity;
	struct annotate_source *sources;
	size_t source_count, source_capacity;
	struct annotate_thread *threads;
	size_t thread_count, thread_capacity;
	struct annotate_marker *markers;
	size_t marker_count, marker_capacity;
	struct buffer data;
	struct intern strings;		 /* that markers refer to; 0 = "" */
	struct annotate_schema *schemas; /* [0]: none, data stand as they are */
	size_t schema_count, schema_capacity;
	struct annotate_category *categories; /* [0]: none */
	size_t category_count, category_capacity;
	struct annotate_counter *counters;
	size_t counter_count, counter_capacity;
	uint64_t malformed;
};

/* What the first pass learns of the profile. */
struct base_thread {
	struct annotate_id pid, tid;
	struct bytes name, process;
	int64_t registered_ns, unregistered_ns;
	int64_t first_ns, last_ns; /* of its samples */
	bool is_main, has_markers, has_shown;
	uint32_t marked;		    /* the first of annotate.threads that goes to it; NONE */
	uint32_t next_same;		    /* with this number as tid */
	struct bytes new_name, new_process; /* "" = as they are */
	size_t known_first, known_count;    /* of base.known: versions whose threads have their own strings */
	size_t string_count;
};
struct known_string {
	uint32_t id, index; /* of annotate.strings; in the profile */
};
struct base {
	struct arena arena; /* names */
	struct json_tree *meta_tree;
	const struct json_node *meta;
	unsigned version;
	int64_t wall_ns, monotonic_ns; /* at 0 */
	int64_t first_ns, last_ns;     /* from when to when it is; UNKNOWN */
	struct base_thread *threads;
	size_t thread_count, thread_capacity;
	struct known_string *known;
	size_t known_count, known_capacity;
	size_t shared_first, shared_count; /* in known: of shared.stringArray */
	size_t string_count;
	bool has_counters, has_shared_strings;
	uint32_t *schema_of; /* by schema of the profile: one of ours that has all its fields and more; NONE */
};

/* annotate_markers.c */
/* The columns of a table of markers. COLUMNS: it is none of them. */
enum annotate_column { DATA, NAME, START, END, PHASE, CATEGORY, COLUMNS };
extern const char *const annotate_column_names[COLUMNS];
int annotate_find_column(struct bytes key);
/* code: what array_reserve() returned; passed on, with a message. */
int annotate_room(int code, const char *what, unsigned limit, struct error *err);
struct annotate_id annotate_parse_id(struct bytes text);
int annotate_read_meta(struct json_scan *scan, struct json_tree **ret, struct error *err);
void annotate_read_start(const struct json_node *meta, int64_t *ret_wall_ns, int64_t *ret_monotonic_ns);
const struct json_node *annotate_schema_fields(const struct json_node *schema);
/* A pid or tid, which may be a number or a text. The text goes to the arena. */
int annotate_read_id(struct json_scan *scan, struct arena *arena, struct annotate_id *ret);
int annotate_read_name(struct json_scan *scan, struct arena *arena, struct bytes *ret);

/* annotate_text.c */
int annotate_read_lines(struct annotate *annotate, struct input *input, const char *path, const char *thread,
			struct error *err);

/* annotate_base.c */
int annotate_read_base(const struct annotate *annotate, struct input *input, struct base *ret, struct error *err);
void base_release(struct base *base);

/* annotate_match.c: decides what goes where, and counts it. */
int annotate_match(struct annotate *annotate, struct base *base, const struct annotate_options *options,
		   struct annotate_stats *stats, struct error *err);
/* The profile's thread that a counter is of; where threads that are new come behind the others. */
size_t annotate_place_of_counter(const struct annotate *annotate, const struct base *base,
				 const struct annotate_counter *counter);

#endif
