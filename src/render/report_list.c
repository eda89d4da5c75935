/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Source code with values in front: the lines of the functions that match, with five around them.
 *
 * A profile says which files to read, and profiles come from anywhere. What it gets that way are lines of files that whoever
 * asks may read anyway, on his own terminal; files that are not regular (pipes, devices) or too large are left alone, and what
 * must not reach a terminal does not.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/order.h"
#include "base/sum.h"
#include "base/text.h"
#include "render/report_int.h"

#define MARGIN		 5
#define SOURCE_BYTES_MAX (16 * MIB)
#define PARENTS_MAX	 64

/* ---- source files ---- */

static int open_regular(const char *path)
{
	struct stat info;
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && (uint64_t)info.st_size <= SOURCE_BYTES_MAX)
		return fd;
	io_close(fd);
	return -EINVAL;
}

/* Below a directory, or below one of those above it. */
static int open_below(const char *directory, size_t len, struct bytes path)
{
	_cleanup_(buffer_release) struct buffer name = {.max = 64 * KIB};
	for (int i = 0; i < PARENTS_MAX; i++) {
		buffer_clear(&name);
		if (buffer_append(&name, directory, len) < 0 || buffer_append_byte(&name, '/') < 0 ||
		    buffer_append(&name, path.data, path.len) < 0 || !buffer_string(&name))
			return -ENOMEM;
		int fd = open_regular(buffer_string(&name));
		if (fd >= 0)
			return fd;
		while (len > 0 && directory[len - 1] != '/')
			len--;
		if (len == 0)
			break;
		len--;
	}
	return -ENOENT;
}

/* The descriptor, or a negative errno with `why` filled in. */
static int open_source(struct report *report, const char *name, const char *search_path, char *why, size_t why_size)
{
	struct bytes path = graph_trim_path(bytes_of_string(name), report->options.detail.trim_path, search_path);
	if (path.len == 0 || memchr(path.data, '\0', path.len))
		return snprintf(why, why_size, "no such name"), -EINVAL;
	const char *text = (const char *)path.data; /* it ends where the name ends */
	if (text[0] == '/') {
		int fd = open_regular(text);
		if (fd < 0)
			snprintf(why, why_size, "open %s: %s", text,
				 fd == -ENOENT	 ? "no such file or directory"
				 : fd == -EACCES ? "permission denied"
				 : fd == -EINVAL ? "not a regular file of at most 16 MiB"
						 : "cannot be opened");
		return fd;
	}
	for (const char *at = search_path; *at;) {
		size_t len = strcspn(at, ":");
		int fd = open_below(at, len, path);
		if (fd >= 0)
			return fd;
		at += len + (at[len] == ':');
	}
	snprintf(why, why_size, "could not find file %s on path %s", text, search_path);
	return -ENOENT;
}

static int read_source(int fd, const char *name, struct buffer *ret)
{
	for (;;) {
		if (buffer_reserve(ret, 64 * KIB) < 0)
			return -E2BIG;
		ssize_t got = io_read(fd, ret->data + ret->len, 64 * KIB, name, NULL);
		if (got <= 0)
			return (int)got;
		ret->len += (size_t)got;
	}
}

/* ---- functions and their files ---- */

struct function_file {
	struct report *report;
	const struct report_graph *graph;
	const uint32_t *nodes; /* of one function in one file, by line */
	size_t count;
};

/* Tabs stay, everything else that a terminal would act upon does not. */
static void put_source_line(struct report *report, const uint8_t *text, size_t len)
{
	if (len > 0 && text[len - 1] == '\r')
		len--;
	while (len > 0) {
		const uint8_t *tab = memchr(text, '\t', len);
		size_t part = tab ? (size_t)(tab - text) : len;
		text_append_harmless(report->out, (struct bytes){text, part});
		if (tab)
			buffer_printf(report->out, "\t");
		part += tab != NULL;
		text += part;
		len -= part;
	}
	buffer_printf(report->out, "\n");
}

static void put_lines(const struct function_file *file, const char *name, struct bytes source, int64_t first, int64_t last)
{
	struct report *report = file->report;
	size_t at = 0, node = 0;
	for (int64_t line = 1; line <= last && at < source.len; line++) {
		const uint8_t *newline = memchr(source.data + at, '\n', source.len - at);
		size_t end = newline ? (size_t)(newline - source.data) : source.len;
		if (line >= first) {
			char flat[UNITS_TEXT_MAX], cum[UNITS_TEXT_MAX];
			int64_t sums[2] = {0};
			for (; node < file->count; node++) {
				const struct graph_node *entry = &file->graph->graph.nodes[file->nodes[node]];
				if (file->graph->infos.items[entry->info].line > line)
					break;
				sum_to(&sums[0], entry->flat);
				sum_to(&sums[1], entry->cum);
			}
			struct bytes text = {source.data + at, end - at};
			if (report->code) {
				weblist_put_line(report, name, line, sums[0], sums[1], text);
			} else {
				buffer_printf(report->out, "%10s %10s %6lld:", report_format_or_dot(report, sums[0], flat),
					      report_format_or_dot(report, sums[1], cum), (long long)line);
				put_source_line(report, text.data, text.len);
			}
		}
		at = end + 1;
	}
}

static void put_head(struct report *report, struct bytes function, const char *name, int64_t flat, int64_t cum)
{
	char texts[2][UNITS_TEXT_MAX], share[UNITS_TEXT_MAX];
	if (report->code) {
		weblist_begin_function(report, function, name, flat, cum);
		return;
	}
	buffer_printf(report->out, "ROUTINE ======================== ");
	text_append_harmless(report->out, function);
	buffer_printf(report->out, " in ");
	text_append_harmless(report->out, bytes_of_string(name));
	buffer_printf(report->out, "\n%10s %10s (flat, cum) %s of Total\n", report_format_value(report, flat, texts[0]),
		      report_format_value(report, cum, texts[1]), units_format_percent(cum, report->total, share));
}

static void put_file(const struct function_file *file, const char *search_path)
{
	struct report *report = file->report;
	const struct graph_infos *infos = &file->graph->infos;
	const struct graph_info *info = &infos->items[file->graph->graph.nodes[file->nodes[0]].info];
	const char *name = graph_infos_string(infos, info->file);
	int64_t first = INT64_MAX, last = 0;
	int64_t flat = 0, cum = 0;
	char why[512] = "";
	for (size_t i = 0; i < file->count; i++) {
		const struct graph_node *node = &file->graph->graph.nodes[file->nodes[i]];
		const struct graph_info *at = &infos->items[node->info];
		int64_t begin = at->start_line ? at->start_line : at->line > MARGIN ? at->line - MARGIN : 1;
		first = begin < first ? begin : first;
		last = at->line > last ? at->line : last;
		sum_to(&flat, node->flat);
		sum_to(&cum, node->cum);
	}
	put_head(report, intern_get(&infos->strings, info->name), name, flat, cum);
	_cleanup_(buffer_release) struct buffer source = {.max = SOURCE_BYTES_MAX + 128 * KIB};
	int fd = open_source(report, name, search_path, why, sizeof(why));
	if (fd >= 0 && read_source(fd, name, &source) < 0)
		snprintf(why, sizeof(why), "cannot read %.400s", name);
	if (fd >= 0)
		io_close(fd);
	if (!why[0])
		put_lines(file, name, buffer_bytes(&source), first, last > INT64_MAX - MARGIN ? last : last + MARGIN);
	if (report->code) {
		weblist_end_function(report, why);
	} else if (why[0]) {
		buffer_printf(report->out, " Error: ");
		text_append_harmless(report->out, bytes_of_string(why));
		buffer_printf(report->out, "\n");
	}
}

static const struct graph_info *info_of(const struct report_graph *graph, uint32_t node)
{
	return &graph->infos.items[graph->graph.nodes[node].info];
}

static int compare_listed(const void *left, const void *right, void *context)
{
	const struct report_graph *graph = context;
	const struct graph_info *a = info_of(graph, *(const uint32_t *)left), *b = info_of(graph, *(const uint32_t *)right);
	return strcmp(graph_infos_string(&graph->infos, a->name), graph_infos_string(&graph->infos, b->name)) ?:
		strcmp(graph_infos_string(&graph->infos, a->file), graph_infos_string(&graph->infos, b->file)) ?:
		ORDER(a->line, b->line);
}

/* Which nodes' functions match: a name is looked at once. */
static int select_nodes(struct report *report, const struct report_graph *graph, uint32_t *ret, size_t *ret_count,
			struct error *err)
{
	const struct profile_matcher *symbol = report->options.symbol;
	_cleanup_(mem_freep) uint8_t *known = mem_zalloc_array(graph->infos.strings.count, 1); /* 1 = no, 2 = yes */
	size_t count = 0;
	if (!known)
		return error_nomem(err);
	for (size_t i = 0; i < graph->graph.order_count; i++) {
		uint32_t name = info_of(graph, graph->graph.order[i])->name;
		if (!known[name])
			known[name] = symbol->finds(symbol->context, intern_get(&graph->infos.strings, name)) ? 2 : 1;
		if (known[name] == 2)
			ret[count++] = graph->graph.order[i];
	}
	*ret_count = count;
	return 0;
}

int report_write_list(struct report *report, struct error *err)
{
	_cleanup_(report_graph_release) struct report_graph graph = {0};
	char directory[4096] = "", total[UNITS_TEXT_MAX];
	int r = report_graph_build(report, false, &graph, err);
	if (r < 0)
		return r;
	_cleanup_(mem_freep) uint32_t *nodes = mem_alloc_array(graph.graph.order_count + 1, sizeof(*nodes));
	if (!nodes)
		return error_nomem(err);
	size_t count = 0;
	r = select_nodes(report, &graph, nodes, &count, err);
	if (r < 0)
		return r;
	if (count == 0)
		return error_set(err, -EINVAL, "no function matches \"%.200s\"", report->options.symbol_text);
	sort_array_by(nodes, count, compare_listed, &graph);
	const char *search_path = report->options.source_path;
	if (!search_path || !search_path[0])
		search_path = getcwd(directory, sizeof(directory)) ? directory : "/";
	if (report->code)
		weblist_put_total(report);
	else
		buffer_printf(report->out, "Total: %s\n", report_format_value(report, report->total, total));
	for (size_t first = 0, end; first < count; first = end) {
		const struct graph_info *info = info_of(&graph, nodes[first]), *next = info;
		for (end = first + 1; end < count; end++) {
			next = info_of(&graph, nodes[end]);
			if (next->name != info->name || next->file != info->file)
				break;
		}
		struct function_file file = {report, &graph, nodes + first, end - first};
		bool is_first = first == 0 || info_of(&graph, nodes[first - 1])->name != info->name;
		bool is_last = end == count || next->name != info->name;
		if (info->file) {
			put_file(&file, search_path);
		} else if (is_first && is_last && report->code) {
			weblist_begin_function(report, intern_get(&graph.infos.strings, info->name), "", 0, 0);
			weblist_end_function(report, "no source information");
		} else if (is_first && is_last) {
			buffer_printf(report->out, "No source information for ");
			text_append_harmless(report->out, intern_get(&graph.infos.strings, info->name));
			buffer_printf(report->out, "\n");
		}
	}
	return 0;
}
