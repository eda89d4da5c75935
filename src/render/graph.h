/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The call graph: one node a function (or source line, file, address: as fine as asked), with what was spent in it (flat) and
 * in it and all it called (cum), and an edge from each caller to each callee. What reports are made of; how it is cut down to
 * graph_trim.c defines what is readable.
 *
 * Nodes and edges are numbers into tables. In a graph a node is what its info is; in a call tree each context has nodes of its
 * own.
 */
#ifndef WICK_RENDER_GRAPH_H
#define WICK_RENDER_GRAPH_H

#include "base/arena.h"
#include "profile/profile.h"

/* As fine as nodes are distinguished. */
struct graph_detail {
	bool functions, files, lines, columns, addresses;
	bool inlines;  /* inlined functions are nodes of their own; otherwise they are part of what they are inlined into */
	bool binaries; /* functions of different binaries are different */
	const char *trim_path, *source_path; /* of source files' names: prefixes to cut off; lists with ':', NULL = none */
};

/* What a node is. Strings are ids of graph_infos.strings. */
struct graph_info {
	uint32_t name, file, binary;
	uint64_t address;
	int64_t line, column, start_line;
};
/* The infos of a profile's locations, made once for all graphs of a report. */
struct graph_infos {
	struct intern strings;
	struct graph_info *items;
	const char **names; /* printable, made when asked for; in arena */
	size_t count, capacity;
	struct index32 index;
	/* of location l, innermost inlined function first: nodes[first[l] .. first[l + 1]] */
	uint32_t *first, *nodes;
	struct arena arena;
};
int graph_infos_build(struct graph_infos *infos, const struct profile *profile, const struct graph_detail *detail,
		      struct error *err);
void graph_infos_release(struct graph_infos *infos);
const char *graph_infos_string(const struct graph_infos *infos, uint32_t id);
/* "0000000000401136 main /src/main.c:12", as much of it as there is; "[BINARY]" or "<unknown>" if there is nothing. Harmless on
 * a terminal. NULL when memory is short. */
const char *graph_printable_name(struct graph_infos *infos, uint32_t info);
/* Without what everybody knows: packages of Java, import paths of Go, outer namespaces of C++. Appended as it is. */
int graph_append_short_name(struct buffer *out, struct bytes name);
/* A path without "//", "/./" and "x/.."; "" stays "". Appended. */
int graph_append_clean_path(struct buffer *out, struct bytes path);
/* A source file's name without the prefixes that the detail says, or that build systems are known to leave. */
struct bytes graph_trim_path(struct bytes path, const char *trim_path, const char *search_path);

struct graph_tag {
	uint32_t node, next; /* of the node's list; GRAPH_NONE = the last */
	uint32_t labels;     /* string: the labels it stands for, or that a number belongs to; 0 = none */
	uint32_t unit;	     /* string; of numbers */
	bool is_number, removed;
	int64_t value;
	uint32_t text; /* string: of a number, formatted */
	int64_t flat, flat_divisor, cum, cum_divisor;
};
struct graph_edge {
	uint32_t source, target;
	int64_t weight, weight_divisor;
	bool residual;	/* goes over nodes that were left out */
	bool is_inline; /* the callee is inlined, wherever this edge was seen */
	bool removed;
};
struct graph_node {
	uint32_t info;
	uint32_t function; /* what its function is: equal for nodes of one function */
	int64_t flat, flat_divisor, cum, cum_divisor;
	uint32_t in_first, in_count, out_first, out_count; /* into graph.in and graph.out */
	uint32_t tag_first;				   /* GRAPH_NONE = no tags */
	bool listed;
};
#define GRAPH_NONE	 UINT32_MAX
#define GRAPH_TAGS_SHOWN 4 /* boxes of a node at most, which count as nodes where there is a limit on them */
struct graph {
	struct graph_infos *infos;
	struct graph_node *nodes;
	size_t node_count, node_capacity;
	struct graph_edge *edges;
	size_t edge_count, edge_capacity;
	uint32_t *in, *out; /* numbers of edges, by node */
	struct graph_tag *tags;
	size_t tag_count, tag_capacity;
	struct intern strings; /* of tags */
	uint32_t *order;       /* the nodes that are shown, as sorted */
	size_t order_count;
};

struct graph_options {
	size_t value;	    /* which of the samples' values */
	const size_t *mean; /* divide by this one; NULL = do not */
	bool tree;	    /* a node for each context */
	bool drop_negative;
	bool tags;		 /* labels too */
	const char *tag_unit;	 /* numbers of the label "bytes" are in this unit */
	const char *output_unit; /* and are shown in this one */
	const bool *kept;	 /* by info: leave out others; NULL = all. Not for trees. */
};
/* -ENOMEM, -E2BIG. *ret is to be released even after a failure. */
int graph_build(struct graph *ret, const struct profile *profile, struct graph_infos *infos,
		const struct graph_options *options, struct error *err);
/* The lists of edges by node, made anew: after edges changed their ends. */
int graph_make_lists(struct graph *graph, struct error *err);
void graph_release(struct graph *graph);
int64_t graph_node_flat(const struct graph_node *node); /* the mean, if there is a divisor */
int64_t graph_node_cum(const struct graph_node *node);
int64_t graph_edge_weight(const struct graph_edge *edge);

enum graph_order { GRAPH_BY_FLAT, GRAPH_BY_CUM, GRAPH_BY_ENTROPY, GRAPH_BY_NAME, GRAPH_BY_FILE, GRAPH_BY_ADDRESS };
int graph_sort(const struct graph *graph, uint32_t *nodes, size_t count, enum graph_order order, struct error *err);
/* The edges of a list that are there, by falling weight; ret has room for count. Returns how many. */
size_t graph_sort_edges(const struct graph *graph, const uint32_t *edges, size_t count, uint32_t *ret);
void graph_sort_tags(const struct graph *graph, uint32_t *tags, size_t count, bool flat);

struct graph_trim_options {
	size_t nodes_max; /* 0 = all */
	double node_fraction, edge_fraction;
	bool visual; /* for a picture: by entropy, edges that can be guessed are left out */
	bool by_cum;
};
struct graph_trim_result {
	size_t original_count; /* of nodes that were large enough */
	size_t dropped_nodes, dropped_edges;
};
/* Builds a graph, cuts it down and sorts it. */
int graph_build_trimmed(struct graph *ret, const struct profile *profile, struct graph_infos *infos,
			const struct graph_options *options, const struct graph_trim_options *trim,
			struct graph_trim_result *ret_result, struct error *err);

#endif
