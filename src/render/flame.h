/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The flame tree: samples of one sample type folded into a tree by function, each node with its total and self value.
 * Flame graphs, tables and SVG are rendered from it.
 */
#ifndef WICK_RENDER_FLAME_H
#define WICK_RENDER_FLAME_H

#include "codec/json.h"
#include "profile/profile.h"

/* Frames without a name are distinguished by address (BINARY+0xOFFSET, 0xADDRESS), or, as in pprof's reports, by binary
 * alone ([BINARY], <unknown>). */
enum flame_unnamed { FLAME_UNNAMED_BY_ADDRESS, FLAME_UNNAMED_BY_BINARY };

struct flame_node {
	uint32_t parent; /* index; the root (0) is its own parent; parent < child */
	uint32_t name; /* string in flame.strings: the function, or "BINARY+0xOFFSET" for an address without a name, "0xADDRESS"
			  without a binary */
	uint32_t file; /* source file, "" if unknown */
	uint32_t line; /* where the function is declared, or else the smallest line seen of it; 0 = unknown */
	uint32_t binary;     /* base name of the mapping's file, "" if unknown */
	uint32_t frame_type; /* enum profile_frame_type */
	uint32_t depth;	     /* root 0 */
	bool inlined;
	int64_t total, self;
};
/* A binary of nodes, and the build-ids of the files with that name: one on a single host, often several in a fleet. Nodes are
 * merged by name, so the build-id of a single node is unknown. */
#define FLAME_BUILD_IDS_MAX 16u /* of one binary; as many as are kept */
struct flame_binary {
	uint32_t name;	   /* string in flame.strings */
	uint32_t build_id; /* string in flame.build_ids, never "" */
	uint32_t count;	   /* different build-ids that the binary has, of which FLAME_BUILD_IDS_MAX are there */
};
struct flame {
	struct intern strings;
	struct flame_node *nodes; /* in pre-order, siblings by falling total; node 0 is the root, named "total" */
	size_t count;
	char unit[32], type[48];
	int64_t total;
	uint64_t sample_count; /* samples whose value is not zero */
	struct intern build_ids;
	struct flame_binary *binaries; /* by name, then build-id, as texts; those without a build-id are not there */
	size_t binary_count;
	size_t trimmed; /* nodes combined as "(N smaller)"; their descendants are not counted */
};
/* The frame type of a node "(N smaller)": the sum of N siblings, and of all below them. */
#define FLAME_FRAME_REST 7

/* Siblings with equal (name, file, binary, frame type) are one node. Recursion is kept as it is. A frame of unknown type in
 * "[kernel...]" counts as a kernel frame. -ENOMEM; -E2BIG when the tree would have more than FLAME_NODES_MAX nodes. */
#define FLAME_NODES_MAX (16u * 1024 * 1024)
int flame_build(const struct profile *profile, size_t sample_type, enum flame_unnamed unnamed, struct flame **ret,
		struct error *err);
/* Only the nodes_max largest nodes (0 = all): no dropped node is larger than a kept one. The dropped children of a node become
 * one child of type FLAME_FRAME_REST, so that totals are exact. The time depends on the kept nodes, not on all nodes. With a
 * limit there are fewer where the thread's budget (base/budget.h) has no room for more. */
int flame_build_largest(const struct profile *profile, size_t sample_type, enum flame_unnamed unnamed, size_t nodes_max,
			struct flame **ret, struct error *err);
/* The same, and where each stack ends: ret_places[stack] for all of profile->stacks is its node, or the "(N smaller)" that it
 * is in; any node for stacks whose samples have no value. The sum of values of the stacks that end in a node is the node's
 * self. */
int flame_build_placed(const struct profile *profile, size_t sample_type, enum flame_unnamed unnamed, size_t nodes_max,
		       uint32_t *ret_places, struct flame **ret, struct error *err);
/* Siblings of equal name are one node, whatever file and binary they are of, and negative values are left out: the tree as
 * Pyroscope's clients know it (flamebearer.h). nodes_max does not count the root, and nodes as large as the smallest that is
 * shown are shown too. */
int flame_build_by_name(const struct profile *profile, size_t sample_type, size_t nodes_max, struct flame **ret,
			struct error *err);
struct flame *flame_free(struct flame *flame);
DEFINE_CLEANUP_POINTER(flame_free, struct flame);

/* Names of compiled functions without parameters and template arguments (demangle_short()), before a tree is built. Ids stay;
 * what was looked up by name before is not found by it any more. */
int render_shorten_names(struct profile *profile, struct error *err);

/*
 * For the page:
 * {"type", "unit", "total", "samples", "trimmed", "binaries": [{"binary", "build_ids": [..], "count"}], "strings": [..],
 * "nodes": {"parent": [..], "name": [..], "file": [..], "line": [..], "binary": [..], "kind": [..], "total": [..], "self":
 * [..]}} in pre-order, siblings by falling total. kind: 0 unknown, 1 native, 2 kernel, 3 jit, 4 interpreted, 7 "(N smaller)",
 * +8 when inlined.
 */
void flame_write_json(const struct flame *flame, struct json_writer *json);
/* The same without strings and nodes: {"type", "unit", "total", "samples", "trimmed", "binaries"}; they are appended to out by
 * flame_write_columns(), in the layout that flame_columns.c describes: about 4 bytes a node and as much memory again while it
 * is written; with `drain`, as a json_writer has it, they need not be held as a whole (otherwise NULL). The nodes must have
 * their depths, as those of flame_build() do. -ENOMEM; -E2BIG when out is full. */
void flame_write_head_json(const struct flame *flame, struct json_writer *json);
int flame_write_columns(const struct flame *flame, struct buffer *out, int (*drain)(void *context), void *context,
			struct error *err);

/* One row a function (name, file, binary): self, and total counted once a stack even when the function recurses. */
struct table_row {
	const char *name, *file, *binary; /* live as long as the flame */
	uint32_t line;			  /* in file, as in struct flame_node */
	uint32_t frame_type;
	bool inlined, called; /* inlined into a caller at least once; called as a function of its own at least once */
	int64_t self, total;
};
struct table {
	struct table_row *rows; /* by falling self, then total, then name */
	size_t count;
	int64_t total;
	uint64_t sample_count; /* samples whose value is not zero; of table_build_profile() */
	struct intern texts;   /* likewise: names of frames without a function, and of binaries */
};
int table_build(const struct flame *flame, struct table *ret, struct error *err);
/* One row a name, as `go tool pprof -top` has them, for a text that shows neither file nor binary: _start of a program and of
 * its dynamic linker are one. file, binary, line and frame_type are those of one of them. */
int table_build_by_name(const struct flame *flame, struct table *ret, struct error *err);
/* The same of a profile (0 of its sample types = no rows), without a tree, in memory that depends on functions and not on
 * stacks (table_build.c). Texts live as long as the table and the profile. Where frames of one function differ in their type,
 * the row has the highest. */
int table_build_profile(const struct profile *profile, size_t sample_type, enum flame_unnamed unnamed, bool by_name,
			struct table *ret, struct error *err);
void table_release(struct table *table);
void table_write_json(const struct table *table, size_t limit, struct json_writer *json);

/* The layout of `go tool pprof -top`: flat, flat%, sum%, cum, cum%, name; values scaled to a fitting unit. limit 0 = all. */
int table_write_text(const struct table *table, const char *unit, size_t limit, struct buffer *out, struct error *err);
/* "12.30s", "4.50GB", "123" as pprof scales them. */
void render_format_value(int64_t value, const char *unit, char *out, size_t size);

struct svg_options {
	const char *title;
	unsigned width_px;	     /* 0 = 1200 */
	bool icicle;		     /* root on top; default flame, root at the bottom */
	int (*drain)(void *context); /* as of a json_writer: the file need not be held as a whole; NULL */
	void *context;
};
/* A standalone file: no requests, names escaped, hover titles, a little script for zoom (click) and search; nodes narrower than
 * 0.1 px are left out and counted in the subtitle. */
/* The text of the script in what svg_render() writes, for a policy that allows no other. */
int svg_append_script(struct buffer *out);
int svg_render(const struct flame *flame, const struct svg_options *options, struct buffer *out, struct error *err);

/* A profile's default sample type as such a file, and as the text of its table, which has no title. */
int render_svg(const struct profile *profile, const char *title, struct buffer *out, struct error *err);
int render_top(const struct profile *profile, const char *title, struct buffer *out, struct error *err);

#endif
