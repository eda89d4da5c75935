/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Machine code with values in front: the instructions of the symbols that match, from the binaries that the profile names, if
 * those are here and, where the profile knows, of the same build. Functions and lines beside instructions are those of the
 * samples.
 *
 * A binary's symbols that begin at one address are one function, under the first name that matches.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/order.h"
#include "base/sorted.h"
#include "base/sum.h"
#include "base/text.h"
#include "elf/build_id.h"
#include "elf/demangle/demangle.h"
#include "elf/disassemble.h"
#include "elf/elf_symbols.h"
#include "render/report_int.h"

#define SHORT_INSTRUCTION 40

/* A node of the graph at its address in the binary. */
struct code_node {
	uint64_t address;
	const struct graph_node *node;
	const struct graph_info *info;
};

struct disasm {
	struct report *report;
	struct report_graph graph;
	struct code_node *nodes; /* of one binary, by address */
	size_t node_count;
	struct elf_symbols symbols;
	struct disassembly code;
	uint64_t address; /* the expression, if it is a number */
	bool has_address;
	size_t printed, matched;
	/* What was said beside an instruction last */
	uint32_t name, file;
	int64_t line;
};

static void disasm_release(struct disasm *d)
{
	report_graph_release(&d->graph);
	mem_free(d->nodes);
	elf_symbols_release(&d->symbols);
	disassembly_release(&d->code);
}

/* ---- writing ---- */

/* "FUNCTION FILE:LINE" if it is not that of the instruction before. */
static void append_place(struct disasm *d, const struct graph_info *info, struct buffer *out)
{
	const struct graph_infos *infos = &d->graph.infos;
	if (info->name == d->name && info->file == d->file && info->line == d->line)
		return;
	d->name = info->name;
	d->file = info->file;
	d->line = info->line;
	text_append_harmless(out, intern_get(&infos->strings, info->name));
	if (!info->file)
		return;
	buffer_append_byte(out, ' ');
	text_append_harmless(out, bytes_of_string(text_base_name(graph_infos_string(infos, info->file))));
	if (info->line)
		buffer_printf(out, ":%lld", (long long)info->line);
}

static void put_instruction(struct disasm *d, const struct instruction *instruction, const char *text, int64_t flat,
			    int64_t cum, const struct graph_info *info)
{
	struct report *report = d->report;
	char texts[2][UNITS_TEXT_MAX];
	_cleanup_(buffer_release) struct buffer place = {.max = MIB};
	if (report->code) {
		if (info) {
			d->file = info->file;
			d->line = info->line;
		}
		const char *file = d->file ? graph_infos_string(&d->graph.infos, d->file) : NULL;
		weblist_add_instruction(report, file, d->line, instruction->address, flat, cum, text);
		return;
	}
	if (info)
		append_place(d, info, &place);
	const char *beside = buffer_string(&place);
	if (!beside) {
		buffer_fail(report->out, -ENOMEM);
		return;
	}
	bool apart = place.len > 0 && strlen(text) >= SHORT_INSTRUCTION;
	if (apart)
		buffer_printf(report->out, "%74s;%s\n", "", beside);
	buffer_printf(report->out, "%10s %10s %10llx: ", report_format_or_dot(report, flat, texts[0]),
		      report_format_or_dot(report, cum, texts[1]), (unsigned long long)instruction->address);
	if (place.len > 0 && !apart)
		buffer_printf(report->out, "%-40s;%s\n", text, beside);
	else
		buffer_printf(report->out, "%s\n", text);
}

/* The sums of the nodes from *at on that are before an address. */
static const struct graph_info *sum_nodes(const struct disasm *d, size_t *at, uint64_t end, struct graph_node *ret)
{
	const struct graph_info *info = NULL;
	memset(ret, 0, sizeof(*ret));
	for (; *at < d->node_count && d->nodes[*at].address < end; ++*at) {
		const struct graph_node *node = d->nodes[*at].node;
		sum_to(&ret->flat, node->flat);
		sum_to(&ret->cum, node->cum);
		sum_to(&ret->flat_divisor, node->flat_divisor);
		sum_to(&ret->cum_divisor, node->cum_divisor);
		info = info ? info : d->nodes[*at].info;
	}
	return info;
}

static size_t first_node(const struct disasm *d, uint64_t address)
{
	return sorted_count_while(d->node_count, i, d->nodes[i].address < address);
}

static void put_routine(struct disasm *d, const char *name, uint64_t start, uint64_t end)
{
	struct report *report = d->report;
	char texts[2][UNITS_TEXT_MAX], share[UNITS_TEXT_MAX];
	size_t at = first_node(d, start), all = at;
	struct graph_node sum;
	sum_nodes(d, &all, end, &sum);
	if (!report->code) {
		buffer_printf(report->out, "ROUTINE ======================== ");
		text_append_harmless(report->out, bytes_of_string(name));
		buffer_printf(report->out, "\n%10s %10s (flat, cum) %s of Total\n",
			      report_format_value(report, sum.flat, texts[0]), report_format_value(report, sum.cum, texts[1]),
			      units_format_percent(sum.cum, report->total, share));
	}
	d->name = d->file = 0;
	d->line = 0;
	for (size_t i = 0; i < d->code.count; i++) {
		const struct instruction *instruction = &d->code.items[i];
		uint64_t next = instruction->address + instruction->size;
		const struct graph_info *info = sum_nodes(d, &at, next < end ? next : end, &sum);
		put_instruction(d, instruction, disassembly_text(&d->code, i), graph_node_flat(&sum), graph_node_cum(&sum),
				info);
	}
	d->printed++;
}

/* ---- binaries ---- */

static bool find_offset(const struct elf_file *elf, uint64_t address, uint64_t size, uint64_t *ret)
{
	for (size_t i = 0; i < elf->segment_count; i++) {
		const struct elf_segment *segment = &elf->segments[i];
		if (elf_segment_is_executed(segment) && address >= segment->address &&
		    address - segment->address < segment->file_size &&
		    size <= segment->file_size - (address - segment->address)) {
			*ret = address - segment->address + segment->offset;
			return true;
		}
	}
	return false;
}

static int read_code(struct disasm *d, struct elf_file *elf, const struct elf_symbol *symbol, const char *name,
		     struct error *err)
{
	_cleanup_(mem_freep) uint8_t *code = NULL;
	uint64_t offset;
	disassembly_release(&d->code);
	memset(&d->code, 0, sizeof(d->code));
	if (!find_offset(elf, symbol->address, symbol->size, &offset))
		return error_set(err, -EBADMSG, "%s: the file does not contain the code of %.200s", elf->name, name);
	int r = elf_file_read_range(elf, offset, symbol->size, DISASSEMBLE_BYTES_MAX, "code", &code, err);
	struct disassemble_options options = {
		.machine = elf->machine, .att = !d->report->options.intel_syntax, .address = symbol->address, .name = name};
	return r < 0 ? r : disassemble((struct bytes){code, symbol->size}, &options, &d->code, err);
}

/* A symbol's name as it matches: as it is, or readable. Positive when it does not. */
static int match_symbol(const struct disasm *d, const struct elf_symbol *symbol, bool by_address, struct buffer *name)
{
	const struct profile_matcher *matcher = d->report->options.symbol;
	buffer_clear(name);
	int r = buffer_append(name, symbol->name, symbol->name_len);
	if (r < 0 || by_address || matcher->finds(matcher->context, buffer_bytes(name)))
		return r;
	_cleanup_(buffer_release) struct buffer full = {.max = DEMANGLE_OUTPUT_MAX};
	if (demangle_symbol(symbol->name, &full) <= 0 || !buffer_string(&full))
		return 1;
	buffer_clear(name);
	r = demangle_short(buffer_string(&full), name);
	return r < 0 || matcher->finds(matcher->context, buffer_bytes(name)) ? r : 1;
}

DEFINE_ORDER(compare_symbols, struct elf_symbol, strcmp(a->name, b->name) ?: ORDER(a->address, b->address));

/* The functions of one binary that match and have samples. */
static int put_symbols(struct disasm *d, struct elf_file *elf, uint64_t address, struct error *err)
{
	_cleanup_(buffer_release) struct buffer name = {.max = MIB};
	_cleanup_(map64_release) struct map64 done = {0};
	int r = 0;
	sort_array(d->symbols.items, d->symbols.count, compare_symbols);
	for (size_t i = 0; i < d->symbols.count && r == 0; i++) {
		const struct elf_symbol *symbol = &d->symbols.items[i];
		size_t at = first_node(d, symbol->address);
		bool has_samples = at < d->node_count && d->nodes[at].address < symbol->address + symbol->size;
		bool by_address = d->has_address && !symbol->is_unsized && address >= symbol->address &&
				  address < symbol->address + symbol->size;
		uint64_t before;
		if (map64_get(&done, symbol->address, &before) || !(has_samples || by_address))
			continue;
		r = match_symbol(d, symbol, by_address, &name);
		d->matched += r == 0;
		if (r == 0 && has_samples) {
			const char *text = buffer_string(&name);
			r = text ? map64_put(&done, symbol->address, 1) : -ENOMEM;
			if (r < 0)
				r = error_nomem(err);
			else if ((r = read_code(d, elf, symbol, text, err)) == 0)
				put_routine(d, text, symbol->address, symbol->address + symbol->size);
		}
		r = r > 0 ? 0 : r;
	}
	return r;
}

DEFINE_ORDER(compare_nodes, struct code_node, ORDER(a->address, b->address));

static bool to_address(const struct elf_file *elf, const struct profile_mapping *mapping, uint64_t address, uint64_t *ret)
{
	return address >= mapping->start && address < mapping->limit &&
	       elf_file_offset_to_address(elf, address - mapping->start + mapping->offset, ret);
}

static void collect_nodes(struct disasm *d, const struct elf_file *elf, const struct profile_mapping *mapping, uint32_t binary)
{
	const struct graph *graph = &d->graph.graph;
	d->node_count = 0;
	for (size_t i = 0; i < graph->order_count; i++) {
		struct code_node node = {.node = &graph->nodes[graph->order[i]]};
		node.info = &d->graph.infos.items[node.node->info];
		if (node.info->binary == binary && to_address(elf, mapping, node.info->address, &node.address))
			d->nodes[d->node_count++] = node;
	}
	sort_array(d->nodes, d->node_count, compare_nodes);
}

static int put_binary(struct disasm *d, const struct profile_mapping *mapping, uint32_t binary, int fd, struct error *err)
{
	const struct profile *profile = d->report->profile;
	const char *path = profile_string(profile, mapping->file_name), *want = profile_string(profile, mapping->build_id);
	struct elf_file elf;
	uint64_t address = 0;
	char have[BUILD_ID_HEX_MAX] = "";
	struct error why = {0};
	int r = elf_file_open(&elf, fd, path, &why);
	bool is_open = r == 0, is_other = is_open && build_id_read(&elf, have, NULL) == 0 && want[0] && strcmp(want, have) != 0;
	if (is_other)
		r = error_set(&why, -ESTALE, "%s is a different build than the profile's", path);
	if (r == 0)
		r = elf_symbols_add_file(&d->symbols, &elf, &why);
	if (r < 0) {
		report_note(d->report, "%s", why.message[0] ? why.message : "a binary cannot be read");
		r = 0;
	} else {
		collect_nodes(d, &elf, mapping, binary);
		if (d->has_address && !to_address(&elf, mapping, d->address, &address))
			address = 0;
		r = put_symbols(d, &elf, address, err);
	}
	if (is_open)
		elf_file_release(&elf);
	return r;
}

/* The files of which a frame matches. */
static int put_mapping(struct disasm *d, const struct profile_mapping *mapping, const bool *wanted, struct error *err)
{
	const struct profile *profile = d->report->profile;
	struct bytes file = profile_string_bytes(profile, mapping->file_name);
	struct stat info;
	uint32_t binary;
	if (!intern_find(&d->graph.infos.strings, file.data, file.len, &binary) || binary == 0)
		return 0;
	bool covers = d->has_address && d->address >= mapping->start && d->address < mapping->limit;
	if (!wanted[binary] && !covers)
		return 0;
	const char *path = profile_string(profile, mapping->file_name);
	_cleanup_(fd_closep) int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &info) < 0 || !S_ISREG(info.st_mode)) {
		report_note(d->report, "%.300s: %s", path, fd < 0 ? "cannot be opened" : "not a regular file");
		return 0;
	}
	elf_symbols_release(&d->symbols);
	elf_symbols_init(&d->symbols);
	return put_binary(d, mapping, binary, fd, err);
}

/* Which binaries have frames that match, by string of the infos. */
static int find_binaries(struct disasm *d, bool *wanted, struct error *err)
{
	const struct profile_matcher *symbol = d->report->options.symbol;
	for (size_t i = 0; i < d->graph.graph.order_count; i++) {
		const struct graph_node *node = &d->graph.graph.nodes[d->graph.graph.order[i]];
		uint32_t binary = d->graph.infos.items[node->info].binary;
		const char *name = wanted[binary] ? "" : graph_printable_name(&d->graph.infos, node->info);
		if (!name)
			return error_nomem(err);
		wanted[binary] = wanted[binary] || symbol->finds(symbol->context, bytes_of_string(name));
	}
	return 0;
}

int report_write_disasm(struct report *report, struct error *err)
{
	_cleanup_(disasm_release) struct disasm d = {.report = report};
	const struct profile *profile = report->profile;
	char total[UNITS_TEXT_MAX], *end;
	elf_symbols_init(&d.symbols);
	int r = report_graph_build(report, false, &d.graph, err);
	if (r < 0)
		return r;
	_cleanup_(mem_freep) bool *wanted = mem_zalloc_array(d.graph.infos.strings.count, sizeof(bool));
	d.nodes = mem_alloc_array(d.graph.graph.order_count + 1, sizeof(*d.nodes));
	if (!wanted || !d.nodes)
		return error_nomem(err);
	const char *text = report->options.symbol_text;
	d.address = strtoull(text, &end, 0);
	d.has_address = end != text && *end == '\0';
	if (!report->code)
		buffer_printf(report->out, "Total: %s\n", report_format_value(report, report->total, total));
	r = find_binaries(&d, wanted, err);
	for (uint32_t i = 1; i < profile->mapping_count && r == 0; i++)
		r = put_mapping(&d, &profile->mappings[i], wanted, err);
	if (r == 0 && d.printed == 0 && d.matched > 0)
		return error_set(err, -EINVAL, "\"%.200s\" is in a binary, but has no samples", text);
	if (r == 0 && d.printed == 0)
		return error_set(err, -EINVAL, "no function with samples in an available binary matches \"%.200s\"", text);
	return r;
}
